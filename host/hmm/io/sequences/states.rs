//! Known states of sequences, weights of sequences, and classes of tied transitions.

use std::collections::HashMap;
use std::path::Path;

use super::missing::{Missing, is_marker};
use super::npy::columns;
use super::{Alphabet, Format, lines, numbered, plain_name};
use crate::io::Error;
use crate::model::Hmm;
use crate::sequences::{NO_STATE, Observations, Sequences};
use warpkov_common::io::binary::of_file;
use warpkov_common::io::input::Input;
use warpkov_common::io::invalid;
use warpkov_common::io::lines::{quoted, real};

/// The sequences with the states in `path`: lines with one sequence each, of names of states, or of their numbers if they have no names;
/// or a NumPy array of the numbers of ΣT states. Unknown states are `-`, `?` or another marker of what is missing; in an array, a number
/// below 0, or 2³² − 1.
///
/// # Errors
/// If the file cannot be read, if its sequences differ in number or length, or if the model lacks a state.
pub fn read_states(path: &Path, sequences: Sequences, model: &Hmm) -> Result<Sequences, Error> {
    let (file, text, array) = content(path)?;
    let states = match array {
        true => {
            let known = |state: i64| if state < 0 { NO_STATE } else { u32::try_from(state).unwrap_or(NO_STATE - 1) };
            columns(&text, 1).map_err(of_file(file.clone()))?.into_iter().map(known).collect()
        }
        false => {
            let read = lines::read(&text, &file, &Alphabet::of_states(model, Missing::Marginalise))?;
            let (found, expected) = (read.offsets.len() - 1, sequences.len());
            if found != expected {
                return Err(Error::Content {
                    file,
                    message: format!("states of {found} sequences, expected {expected}"),
                });
            }
            if let Some(at) = (0..expected).find(|&m| read.offsets[m + 1] != sequences.offsets()[m + 1]) {
                let (found, expected) = (read.offsets[at + 1] - read.offsets[at], sequences.range(at).len());
                let message = format!("sequence {} has {found} states, expected {expected}", at + 1);
                return Err(Error::Line { file, line: at as u64 + 1, message });
            }
            match read.observations {
                Observations::Symbols(states) => states,
                Observations::Vectors { .. } => Vec::new(),
            }
        }
    };
    let known = sequences.with_states(states);
    known.and_then(|known| known.check_states(model).map(|()| known)).map_err(invalid(file))
}

/// The sequences with the weights in `path`: a NumPy array of M numbers, or a number on each line.
///
/// # Errors
/// If the file cannot be read, does not have a number for each sequence, or if a number is no [weight](Sequences::with_weights).
pub fn read_weights(path: &Path, sequences: Sequences) -> Result<Sequences, Error> {
    let (file, text, array) = content(path)?;
    let weights = match array {
        true => columns(&text, 1).map_err(of_file(file.clone()))?,
        false => {
            let number = |(line, word): (u64, &[u8])| {
                let message = || format!("found \"{}\", expected a number", quoted(word));
                real(word).ok_or_else(|| Error::Line { file: file.clone(), line, message: message() })
            };
            numbered(text.trim_ascii_end()).map(number).collect::<Result<_, _>>()?
        }
    };
    sequences.with_weights(weights).map_err(invalid(file))
}

/// The classes of transitions in `path`, N × N numbers, as [`Options::tied_transitions`](crate::options::Options::tied_transitions): lines
/// of N names of classes, between blanks or commas; or a NumPy array of N × N numbers. `-` or another marker of what is missing stands for a
/// transition on its own; in an array, a number below 0. Empty lines, and those that begin with `#`, do not count.
///
/// # Errors
/// If the file cannot be read, or has another shape.
pub fn read_tied_transitions(path: &Path, model: &Hmm) -> Result<Vec<u32>, Error> {
    let n = model.visits().states() as usize;
    let (file, text, array) = content(path)?;
    let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut number = |name: &[u8]| {
        let next = numbers.len() as u32 + 1;
        *numbers.entry(name.to_vec()).or_insert(next)
    };
    let wrong_rows = |found: usize| format!("{found} rows of classes, expected {n}");
    if array {
        let all: Vec<i64> = columns(&text, n).map_err(of_file(file.clone()))?;
        return match all.len() == n * n {
            true => Ok(all.iter().map(|&class| if class < 0 { 0 } else { number(&class.to_le_bytes()) }).collect()),
            false => Err(Error::Content { file, message: wrong_rows(all.len() / n) }),
        };
    }
    let mut classes = Vec::new();
    for (line, row) in numbered(&text).filter(|(_, row)| !row.is_empty() && !row.starts_with(b"#")) {
        let words: Vec<&[u8]> = match row.contains(&b',') {
            true => row.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect(),
            false => row.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect(),
        };
        if words.len() != n {
            let message = format!("{} classes, expected {n}", words.len());
            return Err(Error::Line { file, line, message });
        }
        classes.extend(words.into_iter().map(|word| if is_marker(word) { 0 } else { number(word) }));
    }
    match classes.len() == n * n {
        true => Ok(classes),
        false => Err(Error::Content { file, message: wrong_rows(classes.len() / n) }),
    }
}

/// The name of a file, its bytes, and whether it is an array.
fn content(path: &Path) -> Result<(String, Vec<u8>, bool), Error> {
    let bytes = Input::open(path).and_then(Input::read_all).map_err(Error::read(path))?;
    let array = Format::of_name(&plain_name(path)).unwrap_or_else(|| Format::of_content(&bytes)) == Format::Npy;
    Ok((path.display().to_string(), bytes, array))
}
