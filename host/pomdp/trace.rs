//! A full backup and a lookahead on paper: prints every tensor, and derives each element from its index.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::reference::{Lookahead, Operands, Tensors, Transitions};

/// A tensor of the full backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// G_AO.
    GAo,
    /// Ĝ_AO.
    Scores,
    /// Ĝ\*_AO.
    Best,
    /// G_A^B.
    GAb,
    /// Ĝ_A^B.
    ActionScores,
    /// Ĝ\*_A^B.
    BestAction,
    /// B_KP.
    PointBackup,
}

impl Tensor {
    /// All tensors in order of their computation.
    pub const ALL: [Self; 7] =
        [Self::GAo, Self::Scores, Self::Best, Self::GAb, Self::ActionScores, Self::BestAction, Self::PointBackup];

    /// Symbol in the source.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::GAo => "G_AO",
            Self::Scores => "Ĝ_AO",
            Self::Best => "Ĝ*_AO",
            Self::GAb => "G_A^B",
            Self::ActionScores => "Ĝ_A^B",
            Self::BestAction => "Ĝ*_A^B",
            Self::PointBackup => "B_KP",
        }
    }

    /// Kernel that computes the tensor; also its ASCII name.
    #[must_use]
    pub fn kernel(self) -> &'static str {
        match self {
            Self::GAo => "g_ao",
            Self::Scores => "scores",
            Self::Best => "best",
            Self::GAb => "g_ab",
            Self::ActionScores => "action_scores",
            Self::BestAction => "best_action",
            Self::PointBackup => "backup",
        }
    }

    fn formula(self) -> &'static str {
        match self {
            Self::GAo => "Σ_{s'} O(a,s',o) T(s,a,s') α_i(s')",
            Self::Scores => "b_j · G_AO[i][o][a][:]",
            Self::Best => "argmax_i Ĝ_AO[j][o][a][i]",
            Self::GAb => "R[a][s] + γ Σ_o G_AO[Ĝ*_AO[j][a][o]][o][a][s]",
            Self::ActionScores => "b_j · G_A^B[j][a][:]",
            Self::BestAction => "argmax_a Ĝ_A^B[j][a]",
            Self::PointBackup => "G_A^B[j][Ĝ*_A^B[j]][s]",
        }
    }

    /// Finds a tensor by symbol (with `^` for the hat) or kernel name, ignoring case.
    fn named(name: &str) -> Option<Self> {
        let plain = name.replace("Ĝ", "^G");
        let known = |tensor: &Self| {
            plain.eq_ignore_ascii_case(&tensor.symbol().replace("Ĝ", "^G"))
                || plain.eq_ignore_ascii_case(tensor.kernel())
        };
        Self::ALL.into_iter().find(known)
    }
}

/// A dimension of a tensor: its index, its extent, and the symbol of the extent.
#[derive(Clone, Copy)]
struct Axis {
    index: &'static str,
    extent: usize,
    symbol: &'static str,
}

/// Operands and results of a traced backup.
pub struct Trace {
    /// Operands of the backup.
    pub operands: Operands,
    /// The tensors.
    pub tensors: Tensors,
    /// Index of a belief, and the one-step lookahead from it.
    pub lookahead: Option<(usize, Lookahead)>,
    /// The [last predecessors](Operands::last_predecessors), and the lookahead of the same belief by them in place of T, where T has
    /// no inverse.
    pub by_inverse: Option<(Vec<u32>, Lookahead)>,
}

/// An element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    tensor: Tensor,
    linear: usize,
}

/// The text does not name an element.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} does not name an element: {why}")]
pub struct NoElement {
    text: String,
    why: String,
}

impl Trace {
    fn axes(&self, tensor: Tensor) -> Vec<Axis> {
        let Operands { states, actions, observation_count, .. } = &self.operands;
        let axis = |index, extent: u32, symbol| Axis { index, extent: extent as usize, symbol };
        let i = axis("i", self.operands.vector_count(), "n");
        let j = axis("j", self.operands.belief_count(), "|B|");
        let (o, a, s) = (axis("o", *observation_count, "|Ω|"), axis("a", *actions, "|A|"), axis("s", *states, "|S|"));
        match tensor {
            Tensor::GAo => vec![i, o, a, s],
            Tensor::Scores => vec![j, o, a, i],
            Tensor::Best => vec![j, a, o],
            Tensor::GAb => vec![j, a, s],
            Tensor::ActionScores => vec![j, a],
            Tensor::BestAction => vec![j],
            Tensor::PointBackup => vec![j, s],
        }
    }

    fn values(&self, tensor: Tensor) -> Vec<f64> {
        let indices = |indices: &[u32]| indices.iter().map(|&index| f64::from(index)).collect();
        match tensor {
            Tensor::GAo => self.tensors.g_ao.clone(),
            Tensor::Scores => self.tensors.scores.clone(),
            Tensor::Best => indices(&self.tensors.best),
            Tensor::GAb => self.tensors.g_ab.clone(),
            Tensor::ActionScores => self.tensors.action_scores.clone(),
            Tensor::BestAction => indices(&self.tensors.best_action),
            Tensor::PointBackup => self.tensors.backup.clone(),
        }
    }

    /// The element that `text` names: `G_AO[1][1][0][1]`, or `G_AO[13]` by linear index.
    ///
    /// # Errors
    /// If there is no such tensor, or an index is out of range.
    pub fn element(&self, text: &str) -> Result<Element, NoElement> {
        let refuse = |why: String| NoElement { text: text.to_owned(), why };
        let (name, rest) = text.split_once('[').unwrap_or((text, ""));
        let tensor = Tensor::named(name).ok_or_else(|| {
            let known: Vec<_> = Tensor::ALL.iter().map(|tensor| tensor.kernel()).collect();
            refuse(format!("expected the name of a tensor, {}", known.join(", ")))
        })?;
        let axes = self.axes(tensor);
        let places = rest.strip_suffix(']').unwrap_or(rest).split("][").map(str::parse::<usize>);
        let places: Vec<_> =
            places.collect::<Result<_, _>>().map_err(|_| refuse("expected numbers in brackets".into()))?;
        let size: usize = axes.iter().map(|axis| axis.extent).product();
        let linear = if places.len() == axes.len() {
            let outside = axes.iter().zip(&places).find(|(axis, place)| **place >= axis.extent);
            if let Some((axis, place)) = outside {
                return Err(refuse(format!("{} = {place}, expected less than {}", axis.index, axis.extent)));
            }
            axes.iter().zip(&places).fold(0, |linear, (axis, place)| linear * axis.extent + place)
        } else if let [linear] = places[..] {
            linear
        } else {
            let names: String = axes.iter().map(|axis| format!("[{}]", axis.index)).collect();
            return Err(refuse(format!("expected {}{names}, or one index", tensor.symbol())));
        };
        if linear >= size {
            return Err(refuse(format!("expected an index below {size}")));
        }
        Ok(Element { tensor, linear })
    }

    /// The derivation of an element, line by line: its indices, the operands that its thread reads, and its value.
    #[must_use]
    pub fn derivation(&self, Element { tensor, linear: l }: Element) -> Vec<String> {
        let axes = self.axes(tensor);
        let mut lines = vec![format!("l = {l}")];
        let mut rest = l;
        let mut at = Vec::new();
        for (k, axis) in axes.iter().enumerate() {
            let inner = &axes[k + 1..];
            let stride: usize = inner.iter().map(|axis| axis.extent).product();
            let place = rest / stride;
            let from = if k == 0 { "l".to_owned() } else { rest.to_string() };
            if inner.is_empty() {
                let from = if k == 0 { "l = " } else { "" };
                lines.push(format!("{} = {from}{place}", axis.index));
            } else {
                let symbols: String = inner.iter().map(|axis| axis.symbol).collect();
                lines.push(format!("{} = {from} / ({symbols}) = {rest} / {stride} = {place}", axis.index));
                let left = rest - place * stride;
                lines.push(format!("    {rest} − {place}·{stride} = {left}"));
                rest = left;
            }
            at.push(place);
        }
        lines.extend(self.reads(tensor, &at));
        let value = number(self.values(tensor)[l]);
        let indices: String = at.iter().map(|place| format!("[{place}]")).collect();
        lines.push(format!("{symbol}{indices} = {symbol}[{l}] = {value}", symbol = tensor.symbol()));
        lines
    }

    /// The operands that the thread reads, with their linear indices.
    fn reads(&self, tensor: Tensor, at: &[usize]) -> Vec<String> {
        let Operands { states, actions, observation_count, gamma, .. } = self.operands;
        let (states, actions, observed) = (states as usize, actions as usize, observation_count as usize);
        let vectors = self.operands.vector_count() as usize;
        let (operands, tensors) = (&self.operands, &self.tensors);
        let list = |values: &[f64]| values.iter().map(|&x| number(x)).collect::<Vec<_>>().join(" ");
        let span = |name: &str, first: usize, values: &[f64], count: usize| {
            format!("{name}[{first} … {}] = [{}]", first + count - 1, list(&values[first..first + count]))
        };
        let indices = |values: &[u32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        match (tensor, at) {
            (Tensor::GAo, &[i, o, a, s]) => {
                let mut lines = Vec::new();
                let mut terms = Vec::new();
                for (next, prob) in operands.successors(s as u32, a as u32) {
                    let (next, step) = (next as usize, number(prob));
                    match operands.transitions {
                        Transitions::Deterministic(_) => {
                            lines.push(format!("T[a|S| + s] = T[{}] = s' = {next}", a * states + s));
                        }
                        Transitions::Sparse(_) => lines.push(format!("T(s = {s}, a = {a}, s' = {next}) = {step}")),
                    }
                    let (seen, value) = (o * actions * states + a * states + next, i * states + next);
                    let (p, x) = (number(operands.observations[seen]), number(operands.vectors[value]));
                    lines.push(format!("    O[o|A||S| + a|S| + s'] = O[{seen}] = {p}"));
                    lines.push(format!("    Γ[i|S| + s'] = Γ[{value}] = {x}"));
                    terms.push(match operands.transitions {
                        Transitions::Deterministic(_) => format!("{p}·{x}"),
                        Transitions::Sparse(_) => format!("{step}·{p}·{x}"),
                    });
                }
                lines.push(terms.join(" + "));
                lines
            }
            (Tensor::Scores, &[j, o, a, i]) => {
                let first = i * actions * observed * states + o * actions * states + a * states;
                vec![span("B", j * states, &operands.beliefs, states), span("G_AO", first, &tensors.g_ao, states)]
            }
            (Tensor::Best, &[j, a, o]) => {
                let first = j * actions * vectors * observed + o * actions * vectors + a * vectors;
                vec![span("Ĝ_AO", first, &tensors.scores, vectors)]
            }
            (Tensor::GAb, &[j, a, s]) => {
                let winners = j * actions * observed + a * observed;
                let mut lines = vec![
                    format!("R[a|S| + s] = R[{}] = {}", a * states + s, number(operands.rewards[a * states + s])),
                    span("Ĝ*_AO", winners, &indices(&tensors.best), observed),
                ];
                for k in 0..observed {
                    let i = tensors.best[winners + k] as usize;
                    let place = i * actions * states * observed + k * actions * states + a * states + s;
                    lines.push(format!(
                        "    G_AO[{i}·|A||S||Ω| + {k}·|A||S| + a|S| + s] = G_AO[{place}] = {}",
                        number(tensors.g_ao[place])
                    ));
                }
                lines.push(format!("γ = {}", number(gamma)));
                lines
            }
            (Tensor::ActionScores, &[j, a]) => vec![
                span("B", j * states, &operands.beliefs, states),
                span("G_A^B", j * actions * states + a * states, &tensors.g_ab, states),
            ],
            (Tensor::BestAction, &[j]) => vec![span("Ĝ_A^B", j * actions, &tensors.action_scores, actions)],
            (Tensor::PointBackup, &[j, s]) => {
                let a = tensors.best_action[j] as usize;
                let place = j * actions * states + a * states + s;
                vec![
                    format!("a* = Ĝ*_A^B[j] = Ĝ*_A^B[{j}] = {a}"),
                    format!("G_A^B[j|A||S| + a*|S| + s] = G_A^B[{place}] = {}", number(tensors.g_ab[place])),
                ]
            }
            _ => Vec::new(),
        }
    }

    /// Writes all tensors and the lookahead as text.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for tensor in Tensor::ALL {
            let axes = self.axes(tensor);
            let indices: String = axes.iter().map(|axis| format!("[{}]", axis.index)).collect();
            let extents: Vec<_> = axes.iter().map(|axis| format!("{} = {}", axis.symbol, axis.extent)).collect();
            writeln!(out, "{}{indices} = {}", tensor.symbol(), tensor.formula())?;
            writeln!(out, "  kernel {}, {}", tensor.kernel(), extents.join(", "))?;
            self.write_tensor(out, &axes, &self.values(tensor))?;
            writeln!(out)?;
        }
        if let Some((j, lookahead)) = &self.lookahead {
            writeln!(out, "One step of lookahead from belief {j}: argmax_a c1 + γ c2")?;
            write_lookahead(out, "Σ_s T(s,a,s') b(s)", lookahead)?;
        }
        if let Some((inverse, lookahead)) = &self.by_inverse {
            let rows =
                inverse.chunks_exact(self.operands.states as usize).map(|row| format!("{row:?}").replace(',', ""));
            let rows = rows.collect::<Vec<_>>().join(" ");
            writeln!(
                out,
                "\nThe same as in the source: with T_inv[a][s'] = s, which T does not have\n  T_inv = [{rows}]"
            )?;
            writeln!(out, "  kernel next_belief_inverse")?;
            write_lookahead(out, "b(T_inv[a][s'])", lookahead)?;
        }
        Ok(())
    }

    /// Writes matrices of the last two dimensions: side by side along the second of four dimensions, stacked along the
    /// first.
    fn write_tensor(&self, out: &mut impl Write, axes: &[Axis], values: &[f64]) -> io::Result<()> {
        let cells: Vec<String> = values.iter().map(|&x| number(x)).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0) + 2;
        let outer = if axes.len() > 2 { axes[0].extent } else { 1 };
        let beside = if axes.len() > 3 { axes[1].extent } else { 1 };
        let rows = if axes.len() > 1 { axes[axes.len() - 2].extent } else { 1 };
        let columns = axes[axes.len() - 1].extent;
        for block in 0..outer {
            if axes.len() > 2 {
                writeln!(out, "  {} = {block}", axes[0].index)?;
            }
            let mut head = String::new();
            for x in 0..beside {
                let label = if axes.len() > 3 { format!("{} = {x}", axes[1].index) } else { String::new() };
                let _ = write!(head, "    {label:<width$}", width = columns * width);
            }
            if !head.trim().is_empty() {
                writeln!(out, "      {}", head.trim_end())?;
            }
            for row in 0..rows {
                let mut line = if axes.len() > 1 {
                    format!("    {} = {row}", axes[axes.len() - 2].index)
                } else {
                    "    ".to_owned()
                };
                for x in 0..beside {
                    let first = ((block * beside + x) * rows + row) * columns;
                    let text: String =
                        cells[first..first + columns].iter().map(|cell| format!("{cell:>width$}")).collect();
                    let _ = write!(line, "  {text}  ");
                }
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }

    /// All tensors and the lookahead as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tensors = Tensor::ALL.map(|tensor| {
            let axes = self.axes(tensor);
            let shape: Vec<_> = axes.iter().map(|axis| axis.extent).collect();
            let whole = matches!(tensor, Tensor::Best | Tensor::BestAction);
            let cells =
                self.values(tensor).into_iter().map(|x| if whole { json!(x as u32) } else { json!(x) }).collect();
            json!({
                "name": tensor.symbol(),
                "kernel": tensor.kernel(),
                "indices": axes.iter().map(|axis| axis.index).collect::<Vec<_>>(),
                "shape": shape,
                "values": nested(&shape, cells),
            })
        });
        let mut object = json!({ "gamma": self.operands.gamma, "tensors": tensors.to_vec() });
        if let Some((belief, lookahead)) = &self.lookahead {
            object["lookahead"] = json!({ "belief": belief, "best": lookahead.best, "actions": lookahead.prospects });
        }
        if let Some((inverse, lookahead)) = &self.by_inverse {
            let inverse: Vec<_> = inverse.chunks_exact(self.operands.states as usize).collect();
            object["lookahead_by_inverse"] = json!({
                "kernel": "next_belief_inverse",
                "inverse": inverse,
                "best": lookahead.best,
                "actions": lookahead.prospects,
            });
        }
        object
    }
}

/// Nested arrays of the given shape.
fn nested(shape: &[usize], mut values: Vec<Value>) -> Value {
    for &extent in shape[1..].iter().rev() {
        values = values.chunks(extent).map(|chunk| Value::Array(chunk.to_vec())).collect();
    }
    Value::Array(values)
}

/// Formats a number with at most six significant digits.
fn number(x: f64) -> String {
    format!("{x:.5e}").parse::<f64>().map_or_else(|_| x.to_string(), |rounded| rounded.to_string())
}

/// Writes a lookahead. `before` is the formula of the belief before the observation.
fn write_lookahead(out: &mut impl Write, before: &str, lookahead: &Lookahead) -> io::Result<()> {
    let list = |values: &[f64]| values.iter().map(|&x| number(x)).collect::<Vec<_>>().join(" ");
    for (a, prospect) in lookahead.prospects.iter().enumerate() {
        writeln!(out, "  a = {a}    c1 = b · R[{a}] = {}", number(prospect.c1))?;
        for (o, outlook) in prospect.outlooks.iter().enumerate() {
            writeln!(out, "    o = {o}")?;
            writeln!(out, "      b̂(s') = O(a,s',o) {before} = [{}]", list(&outlook.unnormalised))?;
            match &outlook.belief {
                Some(belief) => writeln!(out, "      b^{{a,o}} = b̂ / Σ b̂ = [{}]", list(belief))?,
                None => writeln!(out, "      b^{{a,o}}: none, as Σ b̂ = 0")?,
            }
            writeln!(out, "      t_{{a,o}}(s) = Σ_{{s'}} T(s,a,s') O(a,s',o) = [{}]", list(&outlook.t))?;
            writeln!(out, "      p(o|b,a) = b · t_{{a,o}} = {}", number(outlook.probability))?;
            writeln!(out, "      v(b^{{a,o}}) = max_i b^{{a,o}} · α_i = {}", number(outlook.value))?;
        }
        let (c1, c2) = (number(prospect.c1), number(prospect.c2));
        writeln!(
            out,
            "    c2 = Σ_o p(o|b,a) v(b^{{a,o}}) = {c2},  c1 + γ c2 = {c1} + γ·{c2} = {}",
            number(prospect.sum)
        )?;
    }
    writeln!(out, "  a* = {}", lookahead.best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpkov_device::emulator::Emulator;
    use warpkov_runtime::device::AnyDevice;

    use crate::reference::full_backup;

    /// The example of G. Losapio, *Understanding kernel computations* (2022).
    fn example() -> Trace {
        let operands = Operands {
            states: 2,
            actions: 2,
            observation_count: 2,
            gamma: 1.0,
            transitions: Transitions::Deterministic(vec![0, 1, 1, 1]),
            observations: [0.1, 0.2].repeat(4),
            rewards: vec![0.0, 1.0, 1.0, 0.0],
            vectors: vec![1.0, 2.0, 0.0, 3.0],
            beliefs: vec![0.7, 0.3, 0.4, 0.6],
        };
        let tensors = full_backup::<f64>(&AnyDevice::from(Emulator::default()), &operands).unwrap();
        Trace { tensors, operands, lookahead: None, by_inverse: None }
    }

    fn derivation(text: &str) -> Vec<String> {
        let trace = example();
        trace.derivation(trace.element(text).unwrap())
    }

    /// The example of section 2 of the source. The source writes Γ[i|S| + s] there, which is the same for s = s' = 1.
    #[test]
    fn g_ao_is_derived_as_in_the_source() {
        let expected = [
            "l = 13",
            "i = l / (|Ω||A||S|) = 13 / 8 = 1",
            "    13 − 1·8 = 5",
            "o = 5 / (|A||S|) = 5 / 4 = 1",
            "    5 − 1·4 = 1",
            "a = 1 / (|S|) = 1 / 2 = 0",
            "    1 − 0·2 = 1",
            "s = 1",
            "T[a|S| + s] = T[1] = s' = 1",
            "    O[o|A||S| + a|S| + s'] = O[5] = 0.2",
            "    Γ[i|S| + s'] = Γ[3] = 3",
            "0.2·3",
            "G_AO[1][1][0][1] = G_AO[13] = 0.6",
        ];
        assert_eq!(derivation("G_AO[1][1][0][1]"), expected);
        assert_eq!(derivation("g_ao[13]"), expected);
        // A case with s' ≠ s: T(0, 1) = 1.
        assert!(derivation("g_ao[1][0][1][0]").contains(&"    Γ[i|S| + s'] = Γ[3] = 3".to_owned()));
    }

    /// The examples of sections 3 to 7: the operands read, and the last line.
    #[test]
    fn later_tensors_are_derived_as_in_the_source() {
        for (element, reads, last) in [
            (
                "^G_AO[14]",
                &["B[2 … 3] = [0.4 0.6]", "G_AO[6 … 7] = [0.4 0.4]"][..],
                "Ĝ_AO[1][1][1][0] = Ĝ_AO[14] = 0.4",
            ),
            ("best[4]", &["Ĝ_AO[8 … 9] = [0.28 0.36]"], "Ĝ*_AO[1][0][0] = Ĝ*_AO[4] = 1"),
            (
                "G_A^B[0][1][1]",
                &[
                    "R[a|S| + s] = R[3] = 0",
                    "Ĝ*_AO[2 … 3] = [1 1]",
                    "    G_AO[1·|A||S||Ω| + 0·|A||S| + a|S| + s] = G_AO[11] = 0.6",
                    "    G_AO[1·|A||S||Ω| + 1·|A||S| + a|S| + s] = G_AO[15] = 0.6",
                ],
                "G_A^B[0][1][1] = G_A^B[3] = 1.2",
            ),
            ("Ĝ_A^B[3]", &["B[2 … 3] = [0.4 0.6]", "G_A^B[6 … 7] = [2.2 1.2]"], "Ĝ_A^B[1][1] = Ĝ_A^B[3] = 1.6"),
            ("best_action[1]", &["j = l = 1", "Ĝ_A^B[2 … 3] = [1.32 1.6]"], "Ĝ*_A^B[1] = Ĝ*_A^B[1] = 1"),
            (
                "B_KP[0][1]",
                &["a* = Ĝ*_A^B[j] = Ĝ*_A^B[0] = 1", "G_A^B[j|A||S| + a*|S| + s] = G_A^B[3] = 1.2"],
                "B_KP[0][1] = B_KP[1] = 1.2",
            ),
        ] {
            let lines = derivation(element);
            for read in reads {
                assert!(lines.iter().any(|line| line == read), "{element}: {read} is not in {lines:#?}");
            }
            assert_eq!(lines.last().map(String::as_str), Some(last));
        }
    }

    #[test]
    fn unknown_elements_are_rejected() {
        let message = |text: &str| example().element(text).unwrap_err().to_string();
        assert!(message("H[0]").contains("expected the name of a tensor, g_ao, scores"));
        assert!(message("g_ao[16]").contains("expected an index below 16"));
        assert!(message("g_ao[0][2][0][0]").contains("o = 2, expected less than 2"));
        assert!(message("g_ab[0][1]").contains("expected G_A^B[j][a][s], or one index"));
        assert!(message("g_ab[x]").contains("expected numbers in brackets"));
        assert!(message("g_ab").contains("expected numbers in brackets"));
    }

    #[test]
    fn tensors_are_printed_as_in_the_source() {
        let mut out = Vec::new();
        example().write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(
            "  i = 1\n          o = 0         o = 1\n    a = 0      0  0.6        0  0.6\n    a = 1    0.6  0.6      0.6  0.6\n"
        ), "{text}");
        assert!(text.contains("  j = 0\n    a = 0    0.2  1.8\n    a = 1    2.2  1.2\n"), "{text}");
        let json = example().to_json();
        assert_eq!(json["tensors"][2]["values"], json!([[[0, 0], [1, 1]], [[1, 1], [1, 1]]]));
        assert_eq!(json["tensors"][6]["shape"], json!([2, 2]));
    }
}
