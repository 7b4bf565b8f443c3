//! NumPy's `.npz`: named arrays, as `numpy.savez` and `numpy.savez_compressed` write them.
//!
//! A sparse matrix M consists of the four arrays of SciPy's CSR matrices: `M_data`, `M_indices`, `M_indptr` and
//! `M_shape`. A dense matrix is the array `M`. The array names identify the convention:
//!
//! | Convention | Transitions | Rewards |
//! | --- | --- | --- |
//! | SciPy's CSR, ours | `P_…`, (S·A)×S, row s·A + a; with ragged actions `choices`, S + 1 offsets | `R_…` like P, and `r`, one per row or S×A |
//! | mdptoolbox | `P_0_…`, `P_1_…` (or dense), one S×S matrix per action; or `P`, A×S×S | `R`: S, S×A or A×S×S; or `R_0_…`, `R_1_…` |
//! | QuantEcon, by pairs | `Q` or `Q_…`, L×S, with `s_indices` and `a_indices` | `R`, L; −∞ where an action is unavailable |
//! | QuantEcon, by products | `Q`, S×A×S, or `Q_…`, (S·A)×S | `R`, S×A; −∞ likewise |
//!
//! γ is `gamma`, `discount` or `beta`, else 1. Our convention also has these optional arrays: `objective` (`maximize`
//! or `minimize`), `ends` (one termination probability per row), `label_NAME` (states), `action_names` with
//! `action_of_row`, and `grid` (width, height, goal) with `grid_walls` and `grid_obstacles`. Duplicate entries of a row
//! are added, as in SciPy.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;

use super::Error;
use crate::model::{ActionNames, Choices, Csr, Grid, Mdp, MdpParts, Objective};
use warpkov_common::io::binary::{invalid, of_file};
use warpkov_common::io::npy::{self, Tensor};
use warpkov_common::io::npz::{Archive, Members};

const LABEL: &str = "label_";

/// Whether a file begins like a zip archive.
pub fn sniff(start: &[u8]) -> bool {
    start.starts_with(b"PK\x03\x04")
}

/// Reads a model without validation.
pub fn read(file: File, name: String) -> Result<MdpParts, Error> {
    Archive::open(file).and_then(|archive| Arrays(archive).model()).map_err(of_file(name))
}

/// The arrays of a model, under any of the conventions.
struct Arrays(Archive);

impl Arrays {
    fn gamma(&mut self) -> io::Result<f64> {
        let name = ["gamma", "discount", "beta"].into_iter().find(|name| self.0.has(name));
        let Some(name) = name else { return Ok(1.0) };
        match self.0.array(name)?.elements[..] {
            [gamma] => Ok(gamma),
            ref several => Err(invalid(format!("{name} has {} numbers, expected 1", several.len()))),
        }
    }

    /// Whether the archive has a matrix of this name, dense or sparse.
    fn has_matrix(&self, name: &str) -> bool {
        self.0.has(name) || self.0.has(&format!("{name}_data"))
    }

    /// A matrix and its number of columns.
    fn matrix(&mut self, name: &str) -> io::Result<(Csr, u32)> {
        if self.0.has(name) {
            let Tensor { shape, elements } = self.0.array::<f64>(name)?;
            // The last axis is the columns; the others flatten to rows.
            let [.., columns] = shape[..] else {
                return Err(invalid(format!("{name} is a number, expected a matrix")));
            };
            return Ok((nonzeros(&elements, columns), states(name, columns)?));
        }
        let [data, indices, indptr, shape] =
            ["data", "indices", "indptr", "shape"].map(|part| format!("{name}_{part}"));
        let (row_ptr, col, val) = (self.0.array(&indptr)?, self.0.array(&indices)?, self.0.array(&data)?);
        let lengths = self.0.array::<u64>(&shape)?.elements;
        let [rows, columns] = lengths[..] else {
            return Err(invalid(format!("{shape} has {} elements, expected 2", lengths.len())));
        };
        let csr = merged(name, row_ptr.elements, col.elements, val.elements)?;
        if csr.rows() as u64 != rows {
            return Err(invalid(format!(
                "{indptr} has {} elements, expected one more than the {rows} rows",
                csr.rows() + 1
            )));
        }
        if let Some(entry) = csr.col().iter().position(|&column| u64::from(column) >= columns) {
            return Err(invalid(format!("{indices}: found {}, expected a column below {columns}", csr.col()[entry])));
        }
        let columns = states(&shape, usize::try_from(columns).unwrap_or(usize::MAX))?;
        Ok((csr, columns))
    }

    /// Stacks one S×S matrix per action into one matrix: row s·A + a is row s of matrix a. Returns it with A and S, or
    /// `None` where the archive has no such matrices.
    fn per_action(&mut self, name: &str) -> io::Result<Option<(Csr, u32, u32)>> {
        if self.0.has(name) {
            let Tensor { shape, elements } = self.0.array::<f64>(name)?;
            let &[actions, rows, columns] = &shape[..] else {
                return Err(invalid(format!("{name} is of shape {shape:?}, expected A×S×S")));
            };
            check_square(name, rows, columns)?;
            let stacked = nonzeros(&elements, columns);
            let (actions, columns) = (states(name, actions)?, states(name, columns)?);
            let rows = (0..columns as usize).flat_map(|s| (0..actions as usize).map(move |a| a * columns as usize + s));
            return Ok(Some((select_rows(&stacked, rows), actions, columns)));
        }
        let mut matrices = Vec::new();
        while self.has_matrix(&format!("{name}_{}", matrices.len())) {
            let name = format!("{name}_{}", matrices.len());
            let (matrix, columns) = self.matrix(&name)?;
            check_square(&name, matrix.rows(), columns as usize)?;
            if let Some((_, first)) = matrices.first().filter(|(_, first)| *first != columns) {
                return Err(invalid(format!("{name} has {columns} states, the first has {first}")));
            }
            matrices.push((matrix, columns));
        }
        let Some(&(_, columns)) = matrices.first() else { return Ok(None) };
        let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
        for state in 0..columns as usize {
            for (matrix, _) in &matrices {
                let (columns, values) = matrix.row(state);
                col.extend_from_slice(columns);
                val.extend_from_slice(values);
                row_ptr.push(col.len() as u64);
            }
        }
        let csr = Csr::built(row_ptr, col, val);
        Ok(Some((csr, matrices.len() as u32, columns)))
    }

    fn model(mut self) -> io::Result<MdpParts> {
        let gamma = self.gamma()?;
        let mdp = if self.has_matrix("Q") {
            self.quantecon()?
        } else if self.0.has("P") || self.has_matrix("P_0") {
            self.toolbox()?
        } else {
            self.warpkov()?
        };
        Ok(MdpParts { gamma, ..mdp })
    }

    fn warpkov(&mut self) -> io::Result<MdpParts> {
        if !self.0.has("P_data") {
            return Err(invalid("found no transitions: expected arrays P_data …, P_0_data …, P, Q_data … or Q"));
        }
        let (transitions, states) = self.matrix("P")?;
        let choices = match self.0.optional("choices")? {
            Some(offsets) => Choices::Ragged(offsets.elements.into()),
            None => Choices::Uniform(actions(transitions.rows(), states)?),
        };
        let rewards = if self.has_matrix("R") { self.matrix("R")?.0 } else { Csr::default() };
        let objective = match self.0.has("objective") {
            false => Objective::default(),
            true => match &self.0.with("objective", |reader| npy::read_texts(reader))?[..] {
                [word] if word == "maximize" => Objective::Maximize,
                [word] if word == "minimize" => Objective::Minimize,
                found => return Err(invalid(format!("objective is {found:?}, expected maximize or minimize"))),
            },
        };
        let label = |file: &str| Some(file.strip_prefix(LABEL)?.strip_suffix(".npy")?.to_owned());
        let labels: Vec<_> = self.0.file_names().filter_map(|file| label(&file)).collect();
        let labels = labels.into_iter().map(|label| Ok((label.clone(), self.0.elements(&format!("{LABEL}{label}"))?)));
        let labels = labels.collect::<io::Result<_>>()?;
        let action_names = match self.0.has("action_names") {
            false => None,
            true => Some(ActionNames {
                names: self.0.with("action_names", |reader| npy::read_texts(reader))?,
                of_row: self.0.array("action_of_row")?.elements,
            }),
        };
        let state_names = match self.0.has("state_names") {
            false => None,
            true => Some(self.0.with("state_names", |reader| npy::read_texts(reader))?.into()),
        };
        let grid = match self.0.elements::<u32>("grid")?[..] {
            [] => None,
            [width, height, goal] => {
                let (walls, obstacles) = (self.0.elements("grid_walls")?, self.0.elements("grid_obstacles")?);
                Some(Grid { width, height, goal: goal.into(), walls, obstacles })
            }
            ref other => {
                return Err(invalid(format!("grid has {} numbers, expected width, height and goal", other.len())));
            }
        };
        Ok(MdpParts {
            states,
            choices,
            objective,
            transitions,
            ends: self.0.elements("ends")?.into(),
            rewards,
            action_rewards: self.0.elements("r")?.into(),
            labels,
            action_names,
            state_names,
            grid,
            ..MdpParts::default()
        })
    }

    fn toolbox(&mut self) -> io::Result<MdpParts> {
        let Some((transitions, actions, states)) = self.per_action("P")? else {
            return Err(invalid("array P_0_data is missing"));
        };
        let mdp = MdpParts { states, choices: Choices::Uniform(actions), transitions, ..MdpParts::default() };
        let s = states as usize;
        if !self.0.has("R") {
            let rewards = self.per_action("R")?.ok_or_else(|| invalid("found no rewards: expected R or R_0_data …"))?;
            return check_same_shape(&rewards, actions, states).map(|()| MdpParts { rewards: rewards.0, ..mdp });
        }
        let Tensor { shape, elements } = self.0.array::<f64>("R")?;
        let a = actions as usize;
        match shape[..] {
            [rows] if rows == s => {
                let repeated: Vec<f64> = elements.iter().flat_map(|&reward| std::iter::repeat_n(reward, a)).collect();
                Ok(MdpParts { action_rewards: repeated.into(), ..mdp })
            }
            [rows, columns] if (rows, columns) == (s, a) => Ok(MdpParts { action_rewards: elements.into(), ..mdp }),
            [_, _, _] => {
                let rewards = self.per_action("R")?.ok_or_else(|| invalid("array R is missing"))?;
                check_same_shape(&rewards, actions, states).map(|()| MdpParts { rewards: rewards.0, ..mdp })
            }
            _ => Err(invalid(format!("R is of shape {shape:?}, expected S, S×A or A×S×S, S = {s}, A = {a}"))),
        }
    }

    fn quantecon(&mut self) -> io::Result<MdpParts> {
        let (q, states) = self.matrix("Q")?;
        // Keeps a short file from requesting all of the memory: each row has a state and an entry.
        if states as usize > q.rows() + q.nnz() {
            let (rows, entries) = (q.rows(), q.nnz());
            return Err(invalid(format!(
                "Q has {states} columns, one per state, but only {rows} rows of {entries} entries"
            )));
        }
        let Tensor { shape, elements: r } = self.0.array::<f64>("R")?;
        if r.len() != q.rows() {
            return Err(invalid(format!("R is of shape {shape:?}, expected one reward per row of Q, {}", q.rows())));
        }
        let keys: Vec<(u32, u32)> = if self.0.has("s_indices") {
            let (s, a) = (self.0.array::<u32>("s_indices")?.elements, self.0.array::<u32>("a_indices")?.elements);
            if (s.len(), a.len()) != (r.len(), r.len()) {
                let (s, a) = (s.len(), a.len());
                return Err(invalid(format!(
                    "s_indices has {s} elements, a_indices {a}, expected {}, as many as R has",
                    r.len()
                )));
            }
            if let Some(row) = s.iter().position(|&state| state >= states) {
                return Err(invalid(format!("s_indices: [{row}] is {}, expected a state below {states}", s[row])));
            }
            s.into_iter().zip(a).collect()
        } else {
            let actions = actions(q.rows(), states)?;
            (0..states).flat_map(|state| (0..actions).map(move |action| (state, action))).collect()
        };
        // QuantEcon marks an unavailable action by a reward of −∞.
        let mut rows: Vec<usize> = (0..keys.len()).filter(|&row| r[row] != f64::NEG_INFINITY).collect();
        rows.sort_by_key(|&row| keys[row]);
        if let Some(same) = rows.windows(2).find(|pair| keys[pair[0]] == keys[pair[1]]) {
            let (state, action) = keys[same[0]];
            return Err(invalid(format!("state {state} has action {action} twice")));
        }
        let mut offsets = vec![0; states as usize + 1];
        rows.iter().for_each(|&row| offsets[keys[row].0 as usize + 1] += 1);
        for state in 0..states as usize {
            offsets[state + 1] += offsets[state];
        }
        let count = offsets.get(1).copied().unwrap_or_default();
        let choices = match offsets.windows(2).all(|ends| ends[1] - ends[0] == count) && count > 0 {
            true => Choices::Uniform(count as u32),
            false => Choices::Ragged(offsets.clone().into()),
        };
        // Actions keep their numbers without names where every state has actions 0, 1, 2 and so on.
        let plain = rows.iter().enumerate().all(|(i, &row)| {
            let (state, action) = keys[row];
            u64::from(action) == i as u64 - offsets[state as usize]
        });
        Ok(MdpParts {
            states,
            choices,
            transitions: select_rows(&q, rows.iter().copied()),
            action_rewards: rows.iter().map(|&row| r[row]).collect::<Vec<_>>().into(),
            action_names: (!plain).then(|| numeric_names(rows.iter().map(|&row| keys[row].1))),
            ..MdpParts::default()
        })
    }
}

/// Action names that are the file's action numbers.
fn numeric_names(actions: impl Iterator<Item = u32> + Clone) -> ActionNames {
    let mut numbers: Vec<u32> = actions.clone().collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of_row = actions.map(|action| numbers.partition_point(|&number| number < action) as u32).collect();
    ActionNames { names: numbers.iter().map(u32::to_string).collect(), of_row }
}

fn states(name: &str, count: usize) -> io::Result<u32> {
    count.try_into().map_err(|_| invalid(format!("{name}: {count} are too many, expected fewer than 2³²")))
}

fn actions(rows: usize, states: u32) -> io::Result<u32> {
    let actions = u32::try_from(rows / states.max(1) as usize).ok().filter(|&a| a as usize * states as usize == rows);
    actions.ok_or_else(|| invalid(format!("found {rows} rows and {states} columns, expected S·A rows and S columns")))
}

fn check_square(name: &str, rows: usize, columns: usize) -> io::Result<()> {
    let message = || invalid(format!("{name} has {rows} rows and {columns} columns, expected S×S"));
    (rows == columns).then_some(()).ok_or_else(message)
}

fn check_same_shape(rewards: &(Csr, u32, u32), actions: u32, states: u32) -> io::Result<()> {
    let (_, a, s) = rewards;
    let message = || invalid(format!("R has {a} actions and {s} states, P has {actions} and {states}"));
    ((*a, *s) == (actions, states)).then_some(()).ok_or_else(message)
}

/// The nonzeros of a dense row-major matrix.
fn nonzeros(values: &[f64], columns: usize) -> Csr {
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    for row in values.chunks_exact(columns.max(1)) {
        for (column, &value) in (0..).zip(row) {
            if value != 0.0 {
                col.push(column);
                val.push(value);
            }
        }
        row_ptr.push(col.len() as u64);
    }
    Csr::built(row_ptr, col, val)
}

/// The matrix of the given rows of `csr`, in the given order.
fn select_rows(csr: &Csr, rows: impl Iterator<Item = usize> + Clone) -> Csr {
    if rows.clone().eq(0..csr.rows()) {
        return csr.clone();
    }
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        let (columns, values) = csr.row(row);
        col.extend_from_slice(columns);
        val.extend_from_slice(values);
        row_ptr.push(col.len() as u64);
    }
    Csr::built(row_ptr, col, val)
}

/// The CSR matrix of these arrays. Duplicate columns of a row become one entry, their sum.
fn merged(name: &str, mut row_ptr: Vec<u64>, mut col: Vec<u32>, mut val: Vec<f64>) -> io::Result<Csr> {
    if row_ptr.first() != Some(&0) || !row_ptr.is_sorted() || row_ptr.last() != Some(&(col.len() as u64)) {
        return Err(invalid(format!("{name}_indptr: expected offsets that ascend from 0 to {}", col.len())));
    }
    if col.len() != val.len() {
        return Err(invalid(format!("{name}_indices has {} elements, {name}_data {}", col.len(), val.len())));
    }
    let range = |ends: &[u64]| -> Range<usize> { ends[0] as usize..ends[1] as usize };
    let repeats = |row: &[u32]| {
        let ascends = row.windows(2).all(|pair| pair[0] < pair[1]);
        !ascends && {
            let mut sorted = row.to_vec();
            sorted.sort_unstable();
            sorted.windows(2).any(|pair| pair[0] == pair[1])
        }
    };
    if row_ptr.windows(2).any(|ends| repeats(&col[range(ends)])) {
        let (mut row, mut start, mut written) = (Vec::new(), 0, 0);
        for end in &mut row_ptr[1..] {
            let entries = start..*end as usize;
            start = entries.end;
            row.clear();
            row.extend(col[entries.clone()].iter().copied().zip(val[entries].iter().copied()));
            row.sort_by_key(|entry: &(u32, f64)| entry.0);
            for same in row.chunk_by(|a, b| a.0 == b.0) {
                (col[written], val[written]) = (same[0].0, same.iter().map(|entry| entry.1).sum());
                written += 1;
            }
            *end = written as u64;
        }
        col.truncate(written);
        val.truncate(written);
    }
    Ok(Csr::built(row_ptr, col, val))
}

/// Writes a model in our convention, uncompressed.
pub fn write(out: &mut dyn Write, mdp: &Mdp) -> io::Result<()> {
    let mut archive = Members::new(out);
    archive.add("gamma", |out| {
        npy::write_header(out, "<f8", &[])?;
        out.write_all(&mdp.gamma().to_le_bytes())
    })?;
    if mdp.objective() == Objective::Minimize {
        archive.add("objective", |out| npy::write_texts(out, &["minimize"]))?;
    }
    if let Choices::Ragged(offsets) = mdp.choices() {
        archive.array("choices", &offsets[..])?;
    }
    let rewarded = (mdp.rewards().nnz() > 0).then_some(("R", mdp.rewards()));
    for (name, csr) in [("P", mdp.transitions())].into_iter().chain(rewarded) {
        archive.array::<f64>(&format!("{name}_data"), csr.val())?;
        // SciPy's indices are signed. States below 2³¹ have the same bytes in both types.
        match i32::try_from(mdp.states()) {
            Ok(_) => archive.array::<i32>(&format!("{name}_indices"), bytemuck::cast_slice(csr.col()))?,
            Err(_) => archive.array::<u32>(&format!("{name}_indices"), csr.col())?,
        }
        archive.array::<i64>(&format!("{name}_indptr"), bytemuck::cast_slice(csr.row_ptr()))?;
        archive.array(&format!("{name}_shape"), &[csr.rows() as u64, u64::from(mdp.states())])?;
    }
    for (name, numbers) in [("r", mdp.action_rewards()), ("ends", mdp.ends())] {
        if !numbers.is_empty() {
            archive.array::<f64>(name, numbers)?;
        }
    }
    for (label, members) in mdp.labels() {
        archive.array(&format!("{LABEL}{label}"), members)?;
    }
    if let Some(ActionNames { names, of_row }) = mdp.action_names() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        archive.add("action_names", |out| npy::write_texts(out, &names))?;
        archive.array("action_of_row", of_row)?;
    }
    if let Some(names) = mdp.state_names() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        archive.add("state_names", |out| npy::write_texts(out, &names))?;
    }
    if let Some(Grid { width, height, goal, walls, obstacles }) = mdp.grid() {
        archive.array("grid", &[*width, *height, *goal as u32])?;
        archive.array("grid_walls", walls)?;
        archive.array("grid_obstacles", obstacles)?;
    }
    archive.finish()
}
