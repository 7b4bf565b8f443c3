//! Guards: findings that make a valid model look wrong.

use std::io::{self, Write};

use serde::Serialize;

use super::terminal::escaped;

/// Examples that a [`Warning`] names.
pub const EXAMPLES: usize = 5;

/// A finding that makes a valid model look wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The kind of the finding, a word for programs, such as `copies`.
    pub kind: &'static str,
    /// Number of states, rows, or whatever the finding concerns.
    pub count: usize,
    /// The first of them, by name where they have names, and otherwise by number.
    pub examples: Vec<String>,
    /// The finding in one sentence, with its examples.
    pub message: String,
}

impl Warning {
    /// A finding about these items. `message` makes the sentence from their number and from the list of the first ones.
    /// `None` if there are no items.
    pub fn new(
        kind: &'static str,
        items: impl IntoIterator<Item = String>,
        message: impl FnOnce(usize, &str) -> String,
    ) -> Option<Self> {
        let mut items = items.into_iter();
        let examples: Vec<String> = items.by_ref().take(EXAMPLES).collect();
        let count = examples.len() + items.count();
        (count > 0).then(|| Self { kind, count, message: message(count, &listed(&examples, count)), examples })
    }
}

/// The names of the first of `count` things as part of a sentence, with an ellipsis if there are more.
pub fn listed(names: &[String], count: usize) -> String {
    let rest = if count > names.len() { ", …" } else { "" };
    format!("{}{rest}", escaped(&names.join(", ")))
}

/// Writes one line per warning.
///
/// # Errors
/// Those of `out`.
pub fn write_warnings(out: &mut dyn Write, warnings: &[Warning]) -> io::Result<()> {
    warnings.iter().try_for_each(|warning| writeln!(out, "Warning          {}", warning.message))
}

/// A number with its noun: `1 state`, `2 states`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
