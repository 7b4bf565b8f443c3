//! Streams: one observation per line.

use std::io::{self, Write};

use super::lines::{UNENDED, Words};
use super::{Alphabet, Missing};
use crate::model::Hmm;
use crate::sequences::Observation;
use warpkov_common::io::lines::{Put, quoted, real};

/// Reads the lines of a stream: a symbol, or the D components of a vector, separated by blanks or commas. A marker such as
/// `NA` is a step without an observation.
pub struct Stream<'m> {
    alphabet: Alphabet<'m>,
    vector: Vec<f64>,
}

impl<'m> Stream<'m> {
    /// A reader of observations of a model.
    #[must_use]
    pub fn new(model: &'m Hmm) -> Self {
        Self { alphabet: Alphabet::new(model, Missing::Marginalise), vector: Vec::new() }
    }

    /// The observation of a line; `None` if the line is blank, which ends a sequence.
    ///
    /// # Errors
    /// If the line holds anything else, with a description.
    pub fn parse(&mut self, line: &[u8]) -> Result<Option<Observation<'_>>, String> {
        let expected = self.alphabet.dimensions.unwrap_or(1);
        let (mut words, mut missing, mut symbol) = (0, 0, None);
        self.vector.clear();
        for word in Words(line) {
            let word = word.ok_or_else(|| UNENDED.to_owned())?;
            words += 1;
            if self.alphabet.is_missing(&word) {
                missing += 1;
                continue;
            }
            let known = match self.alphabet.dimensions {
                Some(_) => real(&word).map(|x| self.vector.push(x)).is_some(),
                None => {
                    symbol = self.alphabet.symbol(&word);
                    symbol.is_some()
                }
            };
            if !known {
                return Err(format!("found \"{}\", expected {}", quoted(&word), self.alphabet.expected()));
            }
        }
        match (words, missing) {
            (0, _) => Ok(None),
            (1, 1) => Ok(Some(Observation::Missing)),
            _ if missing == words && words == expected => Ok(Some(Observation::Missing)),
            _ if words != expected => {
                let what = if self.alphabet.dimensions.is_some() { "numbers" } else { "symbols" };
                Err(format!("found {words} {what}, expected {expected} on each line"))
            }
            (_, 1..) => Err(format!("{missing} of {words} numbers are missing, expected all or none")),
            _ => Ok(Some(symbol.map_or(Observation::Vector(&self.vector), Observation::Symbol))),
        }
    }
}

/// Writes the number of a sequence, a position in it, and what is known there, as a row of a table.
///
/// # Errors
/// Those of `out`.
pub fn write_row(
    out: &mut impl Write,
    sequence: u64,
    position: u64,
    numbers: impl IntoIterator<Item = f64>,
) -> io::Result<()> {
    out.integer(sequence)?;
    out.text(",")?;
    out.integer(position)?;
    for number in numbers {
        out.text(",")?;
        if number.is_finite() { out.real(number)? } else { write!(out, "{number}")? }
    }
    out.text("\n")
}
