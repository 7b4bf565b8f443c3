//! Decision diagrams of POMDPX: functions of an action, a state, and at last a variable that both determine.
//!
//! Rows of one number are `deterministic`, rows of equal numbers `uniform`, and states that stay `persistent`. A part that does not depend on
//! the state is written once, and one that occurs several times becomes a template. What has no edge is 0.

use std::collections::HashMap;
use std::io::{self, Write};

use super::pomdpx_writer::Values;
use warpkov_common::io::lines::Put;

/// A variable and its values.
#[derive(Clone, Copy)]
pub struct Variable<'m> {
    pub name: &'m str,
    pub values: &'m Values<'m>,
    pub count: u32,
}

impl Variable<'_> {
    /// A value as an attribute. Of what XML escapes there, names may have quotes.
    fn value(self, index: u32) -> String {
        self.values.get(index as usize).replace('"', "&quot;")
    }

    /// A node that branches on the variable.
    fn node(self, edges: impl Iterator<Item = (u32, String)>) -> String {
        let mut text = format!("<Node var=\"{}\">\n", self.name);
        for (value, part) in edges {
            text += &format!("<Edge val=\"{}\">{part}</Edge>\n", self.value(value));
        }
        text + "</Node>"
    }

    /// A distribution, or another row of numbers, by the value of the variable. Of a distribution, nothing may be missing.
    pub fn row(self, (columns, numbers): (&[u32], &[f64]), is_distribution: bool) -> Option<String> {
        let (name, count) = (self.name, self.count as usize);
        match (columns, numbers) {
            (&[only], &[1.0]) if is_distribution => {
                let value = self.value(only);
                Some(format!("<SubDAG type=\"deterministic\" var=\"{name}\" val=\"{value}\"/>"))
            }
            _ if is_distribution && columns.len() == count && numbers.iter().all(|x| *x == 1.0 / count as f64) => {
                Some(format!("<SubDAG type=\"uniform\" var=\"{name}\"/>"))
            }
            _ => {
                let edges =
                    columns.iter().zip(numbers).filter(|(_, number)| **number != 0.0).map(|(&column, number)| {
                        let terminal = terminal(*number);
                        (column, terminal)
                    });
                let mut edges = edges.peekable();
                edges.peek()?;
                Some(self.node(edges))
            }
        }
    }

    /// That the variable keeps its value.
    pub fn persistent(self) -> String {
        format!("<SubDAG type=\"persistent\" var=\"{}\"/>", self.name)
    }
}

/// A number. It stands between blanks, as in tables.
pub fn terminal(number: f64) -> String {
    let mut text = Vec::new();
    // Memory takes all bytes, and numbers are ASCII.
    _ = text.real(number);
    format!("<Terminal> {} </Terminal>", String::from_utf8_lossy(&text))
}

/// Writes the diagram of a function: for an action all of it, if `whole` has it, else what `part` has for the action and a state; `None` is 0.
pub fn write(
    out: &mut impl Write,
    action: Variable,
    state: Variable,
    whole: impl Fn(u32) -> Option<String>,
    part: impl Fn(u32, u32) -> Option<String>,
) -> io::Result<()> {
    let mut templates = Templates::default();
    // One part if it is that of all states.
    let parts_of = |a: u32| match whole(a) {
        Some(whole) => vec![Some(whole)],
        None => {
            let mut parts: Vec<Option<String>> = (0..state.count).map(|s| part(a, s)).collect();
            if parts.iter().all(|part| *part == parts[0]) {
                parts.truncate(1);
            }
            parts
        }
    };
    let parts: Vec<Vec<Option<String>>> = (0..action.count).map(parts_of).collect();
    parts.iter().flatten().flatten().for_each(|part| templates.count(part));
    let mut of_actions = Vec::new();
    for mut parts in parts {
        of_actions.push(match parts.len() {
            1 => parts.pop().flatten(),
            _ => {
                let edges = (0..).zip(parts).filter_map(|(s, part)| Some((s, templates.named(part?))));
                Some(state.node(edges))
            }
        });
    }
    of_actions.iter().flatten().for_each(|own| templates.count(own));
    let edges = (0..).zip(of_actions).filter_map(|(a, own)| Some((a, templates.named(own?))));
    let node = action.node(edges);
    out.text("<Parameter type=\"DD\">\n")?;
    for (number, template) in templates.texts.iter().enumerate() {
        writeln!(out, "<SubDAGTemplate id=\"t{number}\">{template}</SubDAGTemplate>")?;
    }
    writeln!(out, "<DAG>{node}</DAG>\n</Parameter>")
}

/// Nodes that occur several times.
#[derive(Default)]
struct Templates {
    counts: HashMap<String, u64>,
    names: HashMap<String, usize>,
    texts: Vec<String>,
}

impl Templates {
    fn count(&mut self, part: &str) {
        // Only nodes have templates.
        if part.starts_with("<Node") {
            *self.counts.entry(part.to_owned()).or_default() += 1;
        }
    }

    /// The part, or a reference to its template if it was counted twice.
    fn named(&mut self, part: String) -> String {
        if self.counts.get(&part).is_none_or(|count| *count < 2) {
            return part;
        }
        let next = self.texts.len();
        let number = *self.names.entry(part.clone()).or_insert(next);
        if number == next {
            self.texts.push(part);
        }
        format!("<SubDAG type=\"template\" idref=\"t{number}\"/>")
    }
}
