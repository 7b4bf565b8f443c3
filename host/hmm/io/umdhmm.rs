//! The text format of UMDHMM (Kanungo, University of Maryland): `M= V`, `N= N`, then `A:`, `B:` and `pi:`, each
//! followed by its numbers.

use std::io::{self, Write};

use super::Error;
use crate::model::{Emissions, Hmm, HmmParts, Names};
use warpkov_common::io::lines::{Put, integer, no_place, quoted, real};

/// Message for models that the format cannot represent.
pub const NO_PLACE: &str = "UMDHMM's format has no place for end probabilities or vectors";

/// The words of a text, with line numbers.
pub struct Words<'t> {
    text: &'t [u8],
    file: &'t str,
    line: u64,
}

impl<'t> Words<'t> {
    /// The words of a file.
    pub fn new(text: &'t [u8], file: &'t str) -> Self {
        Self { text, file, line: 1 }
    }

    /// The next word.
    pub fn next(&mut self) -> Option<&'t [u8]> {
        let start = self.text.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.line += memchr::memchr_iter(b'\n', &self.text[..start]).count() as u64;
        let rest = &self.text[start..];
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        self.text = &rest[length..];
        Some(&rest[..length])
    }

    /// The error for an unexpected word, or for the end of the file.
    pub fn unexpected(&self, word: Option<&[u8]>, expected: &str) -> Error {
        let message = match word {
            Some(word) => format!("found \"{}\", expected {expected}", quoted(word)),
            None => format!("the file ends, expected {expected}"),
        };
        Error::Line { file: self.file.to_owned(), line: self.line, message }
    }

    fn key(&mut self, key: &str) -> Result<(), Error> {
        match self.next() {
            Some(word) if word == key.as_bytes() => Ok(()),
            word => Err(self.unexpected(word, key)),
        }
    }

    /// A key and its number: `M= 2` or `M=2`.
    pub fn count(&mut self, key: &str) -> Result<u32, Error> {
        let word = self.next();
        let number = match word.and_then(|word| word.strip_prefix(key.as_bytes())) {
            None => return Err(self.unexpected(word, key)),
            Some([]) => self.next(),
            Some(number) => Some(number),
        };
        let count = number.and_then(integer).and_then(|number| u32::try_from(number).ok());
        count.filter(|&count| count > 0).ok_or_else(|| self.unexpected(number, "a number from 1"))
    }

    fn probs(&mut self, key: &str, count: usize) -> Result<Vec<f64>, Error> {
        self.key(key)?;
        let mut probs = Vec::new();
        for _ in 0..count {
            let word = self.next();
            probs.push(word.and_then(real).ok_or_else(|| self.unexpected(word, "a probability"))?);
        }
        Ok(probs)
    }
}

/// Reads a model, without validation.
pub fn read(text: &[u8], file: &str) -> Result<HmmParts, Error> {
    let mut words = Words::new(text, file);
    let symbols = words.count("M=")?;
    let n = words.count("N=")? as usize;
    let transitions = words.probs("A:", n.saturating_mul(n))?;
    let probs = words.probs("B:", n.saturating_mul(symbols as usize))?;
    let start = words.probs("pi:", n)?;
    match words.next() {
        None => {
            let emissions = Emissions::Categorical { symbols, probs };
            Ok(HmmParts { start, transitions, end: None, emissions, names: Names::default() })
        }
        word => Err(words.unexpected(word, "the end of the file")),
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, model: &Hmm) -> io::Result<()> {
    let n = model.start().len();
    let (Emissions::Categorical { symbols, probs }, None) = (model.emissions(), model.end()) else {
        return Err(no_place(NO_PLACE.to_owned()));
    };
    let matrices = [("A:", model.transitions(), n), ("B:", probs, *symbols as usize), ("pi:", model.start(), n)];
    writeln!(out, "M= {symbols}\nN= {n}")?;
    for (key, numbers, columns) in matrices {
        writeln!(out, "{key}")?;
        for row in numbers.chunks_exact(columns) {
            for (at, &number) in row.iter().enumerate() {
                out.text(if at == 0 { "" } else { " " })?;
                out.real(number)?;
            }
            out.text("\n")?;
        }
    }
    Ok(())
}
