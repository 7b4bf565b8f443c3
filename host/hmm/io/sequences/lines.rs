//! One sequence per line: symbols or numbers, separated by blanks or commas. Names that contain blanks, commas or
//! quotes are quoted, with quotes doubled. Vectors have dimension 1.
//!
//! If all names have one character, a line without separators and quotes has one symbol per character.

use std::borrow::Cow;
use std::io::{self, Write};

use super::records::Read;
use super::{Alphabet, Builder, numbered};
use crate::io::Error;
use crate::model::Hmm;
use crate::sequences::{Observations, Sequences};
use warpkov_common::io::lines::{Put, no_place};
use warpkov_common::names::name;

/// Reads sequences.
pub fn read(text: &[u8], file: &str, alphabet: &Alphabet) -> Result<Read, Error> {
    let mut builder = Builder::new(alphabet, file);
    if let Some(d) = alphabet.dimensions.filter(|&d| d > 1) {
        return Err(builder.error(1, format!("vectors of {d} numbers are read from .csv and .npy, not from lines")));
    }
    let letters = alphabet.has_letters();
    // Blank lines at the end are ignored; other blank lines are empty sequences, which are errors.
    for (line, words) in numbered(text.trim_ascii_end()) {
        if let Some(word) = letters.then(|| unspaced(words, alphabet)).flatten() {
            let mut letter = [0; 4];
            word.chars().try_for_each(|c| builder.push(c.encode_utf8(&mut letter).as_bytes(), line))?;
            builder.end(line)?;
            continue;
        }
        for word in Words(words) {
            match word {
                Some(word) => builder.push(&word, line)?,
                None => return Err(builder.error(line, UNENDED.to_owned())),
            }
        }
        builder.end(line)?;
    }
    Ok(builder.read)
}

/// The only word of a line, if it has several letters. A marker of a missing observation is one word, unless each of its letters is
/// a symbol.
fn unspaced<'t>(line: &'t [u8], alphabet: &Alphabet) -> Option<&'t str> {
    let alone = line.len() > 1 && !line.iter().any(|&byte| separates(byte) || byte == b'"');
    let word = alone.then(|| std::str::from_utf8(line).ok()).flatten()?;
    let symbols = || word.chars().all(|c| alphabet.symbol(c.encode_utf8(&mut [0; 4]).as_bytes()).is_some());
    (!alphabet.is_missing(line) || symbols()).then_some(word)
}

/// Message for a quote without its second quote.
pub const UNENDED: &str = "a name in quotes does not end";

/// The words of a line, without their quotes. The last one is `None` if its quote does not end.
pub struct Words<'t>(pub &'t [u8]);

impl<'t> Iterator for Words<'t> {
    type Item = Option<Cow<'t, [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.0.iter().position(|&byte| !separates(byte))?;
        let rest = &self.0[start..];
        let length = match rest {
            [b'"', ..] => quoted_length(rest),
            _ => Some(rest.iter().position(|&byte| separates(byte)).unwrap_or(rest.len())),
        };
        let (word, behind) = rest.split_at(length.unwrap_or(rest.len()));
        self.0 = behind;
        Some(length.map(|_| match word {
            [b'"', inner @ .., b'"'] => unquoted(inner).into(),
            word => word.into(),
        }))
    }
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b','
}

/// The length of the quoted text at the beginning, including its quotes.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text[at..].iter().position(|&byte| byte == b'"')? + 1;
        if text.get(at) != Some(&b'"') {
            return Some(at);
        }
        at += 1;
    }
}

/// Replaces doubled quotes by single ones.
fn unquoted(inner: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(inner).replace("\"\"", "\"").into_bytes()
}

/// A name, quoted if it needs quotes.
#[must_use]
pub fn word(name: &str) -> Cow<'_, str> {
    let plain = !name.is_empty() && !name.bytes().any(|byte| separates(byte) || byte == b'"');
    if plain { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")).into() }
}

/// Message for vectors of several dimensions, which the format cannot represent.
pub const NO_PLACE: &str = "vectors are written to .csv and .npy, not to lines";

/// Writes sequences.
pub fn write(out: &mut impl Write, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
    for sequence in 0..sequences.len() {
        for (position, at) in sequences.range(sequence).enumerate() {
            out.text(if position == 0 { "" } else { " " })?;
            match sequences.observations() {
                Observations::Symbols(symbols) => out.text(&word(&name(&model.names().symbols, symbols[at])))?,
                Observations::Vectors { dimensions: 1, values } if values[at].is_nan() => out.text("NA")?,
                Observations::Vectors { dimensions: 1, values } => out.real(values[at])?,
                Observations::Vectors { .. } => {
                    return Err(no_place(NO_PLACE.to_owned()));
                }
            }
        }
        out.text("\n")?;
    }
    Ok(())
}
