//! Names of states, actions and observations.

use std::fmt;

use super::terminal::escaped;

/// A state, an action or an observation in a message, which prints its name, or else its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its number.
    pub number: usize,
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
}

impl Item {
    /// The item with this number, named by the list if it has a name there.
    #[must_use]
    pub fn new(names: &[String], number: usize) -> Self {
        Self { number, name: names.get(number).map(|name| name.as_str().into()) }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(&escaped(name)),
            None => write!(f, "{}", self.number),
        }
    }
}

/// The name of number `index`, or the number itself if it has no name.
#[must_use]
pub fn name(names: &[String], index: u32) -> String {
    names.get(index as usize).cloned().unwrap_or_else(|| index.to_string())
}

/// The number that `text` stands for: that of a name, or else a number below `count`.
#[must_use]
pub fn index(text: &str, names: &[String], count: u32) -> Option<u32> {
    let text = text.trim();
    let named = names.iter().position(|name| name == text).and_then(|index| u32::try_from(index).ok());
    named.or_else(|| text.parse().ok().filter(|index| *index < count))
}

/// The positive probabilities of the numbers `indices`, by name.
pub fn named(indices: impl IntoIterator<Item = u32>, probs: &[f64], names: &[String]) -> Vec<(String, f64)> {
    let positive = indices.into_iter().zip(probs).filter(|(_, p)| **p > 0.0);
    positive.map(|(index, p)| (name(names, index), *p)).collect()
}

/// Probabilities by name, in words: `left with 0.25, right with 0.75`.
pub fn distribution(entries: &[(String, f64)]) -> String {
    let words: Vec<String> = entries.iter().map(|(name, p)| format!("{} with {p}", escaped(name))).collect();
    words.join(", ")
}
