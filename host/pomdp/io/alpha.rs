//! `.alpha`: for each vector a line with the index of its action, a line with its values, and an empty line.

use std::io::{self, Write};

use super::Error;
use super::fault::{Fault, words};
use crate::alpha::AlphaVectors;
use warpkov_common::io::lines::{self, Put, quoted};

/// Reads vectors, all as long as the first.
pub fn read(text: &[u8], file: String) -> Result<AlphaVectors, Error> {
    vectors(text).map_err(|fault| fault.error(file, text))
}

fn vectors(text: &[u8]) -> Result<AlphaVectors, Fault> {
    let mut vectors = AlphaVectors::default();
    let (mut action, mut vector, mut start) = (None, Vec::new(), 0);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let mut words = words(line, start).peekable();
        start += line.len();
        let Some(&(first, _)) = words.peek() else { continue };
        let Some(number) = action else {
            let (at, word) = words.next().unwrap_or_default();
            let number = lines::integer(word).and_then(|number| u32::try_from(number).ok());
            action = Some(number.ok_or_else(|| unexpected(at, word, "the index of an action"))?);
            if let Some((at, word)) = words.next() {
                return Err(unexpected(at, word, "the end of the line after the index of an action"));
            }
            continue;
        };
        vector.clear();
        for (at, word) in words {
            vector.push(lines::real(word).ok_or_else(|| unexpected(at, word, "a number"))?);
        }
        if vectors.is_empty() {
            vectors = AlphaVectors::new(vector.len() as u32);
        }
        if vector.len() != vectors.states() as usize {
            let (found, expected) = (vector.len(), vectors.states());
            return Err(Fault::new(first, format!("a vector of {found} numbers, expected {expected} as in the first")));
        }
        vectors.push(number, &vector);
        action = None;
    }
    match action {
        Some(_) => Err(Fault::new(text.len(), "the file ends, expected the vector of an action")),
        None if vectors.is_empty() => Err(Fault::new(text.len(), "the file ends, expected a vector")),
        None => Ok(vectors),
    }
}

fn unexpected(at: usize, word: &[u8], expected: &str) -> Fault {
    Fault::new(at, format!("found `{}`, expected {expected}", quoted(word)))
}

/// Writes vectors.
pub fn write(out: &mut impl Write, vectors: &AlphaVectors) -> io::Result<()> {
    for (i, &action) in vectors.actions().iter().enumerate() {
        out.integer(action.into())?;
        for (state, &value) in vectors.vector(i).iter().enumerate() {
            out.text(if state == 0 { "\n" } else { " " })?;
            out.real(value)?;
        }
        out.text("\n\n")?;
    }
    Ok(())
}
