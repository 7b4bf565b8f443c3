//! NumPy arrays in hmmlearn's convention: the concatenated observations, integers (ΣT or ΣT × 1) or vectors (ΣT × D),
//! and an array of the sequences' lengths.

use std::io::{self, Write};

use super::missing::{MISSING, Missing};
use super::records::Read;
use super::{Alphabet, Error};
use crate::sequences::{Observations, Sequences, offsets};
use warpkov_common::io::binary::{Element, invalid, of_file};
use warpkov_common::io::npy::{self, Tensor};

/// Reads sequences.
pub fn read(bytes: &[u8], file: &str, lengths: Option<(&[u8], &str)>, alphabet: &Alphabet) -> Result<Read, Error> {
    let of_data = || of_file(file.to_owned());
    let mut notes = Vec::new();
    let (observations, steps) = match alphabet.dimensions {
        Some(d) => {
            let values = columns(bytes, d).map_err(of_data())?;
            let steps = values.len() / d;
            (Observations::Vectors { dimensions: d as u32, values }, steps)
        }
        None => {
            let symbols = match npy::is_float(bytes) {
                false => columns(bytes, 1).map_err(of_data())?,
                true => {
                    notes.push(format!("{file}: floating-point numbers are read as symbol numbers"));
                    let numbers: Vec<f64> = columns(bytes, 1).map_err(of_data())?;
                    let symbols = numbers.iter().enumerate().map(|(at, &number)| symbol(at, number, alphabet.missing));
                    symbols.collect::<io::Result<_>>().map_err(of_data())?
                }
            };
            let steps = symbols.len();
            (Observations::Symbols(symbols), steps)
        }
    };
    let lengths = match lengths {
        None => vec![steps],
        Some((bytes, lengths)) => {
            let numbers = lengths_of(bytes).map_err(of_file(lengths.to_owned()))?;
            let total = numbers.iter().try_fold(0u64, |total, &length| total.checked_add(length));
            if total != Some(steps as u64) {
                let total = total.map_or_else(|| "more than 2⁶⁴".to_owned(), |total| total.to_string());
                let message = format!("the lengths sum to {total}, expected the {steps} observations of {file}");
                return Err(Error::Content { file: lengths.to_owned(), message });
            }
            numbers.iter().map(|&length| length as usize).collect()
        }
    };
    let mut read = Read::from_observations(offsets(lengths), observations);
    read.notes = notes;
    Ok(read)
}

/// Reads the lengths of sequences.
pub fn lengths_of(bytes: &[u8]) -> io::Result<Vec<u64>> {
    if !npy::is_float(bytes) {
        return columns(bytes, 1);
    }
    let numbers: Vec<f64> = columns(bytes, 1)?;
    let length = |(at, &number): (usize, &f64)| match number.fract() == 0.0 && number >= 0.0 {
        true => Ok(number as u64),
        false => Err(invalid(format!("[{at}] is {number}, expected a whole number"))),
    };
    numbers.iter().enumerate().map(length).collect()
}

/// The symbol with a floating-point number; NaN is missing.
pub fn symbol(at: usize, number: f64, missing: Missing) -> io::Result<u32> {
    if number.is_nan() && missing != Missing::Refuse {
        return Ok(MISSING);
    }
    match number.fract() == 0.0 && (0.0..f64::from(MISSING)).contains(&number) {
        true => Ok(number as u32),
        false => Err(invalid(format!("[{at}] is {number}, expected a symbol number"))),
    }
}

/// The elements of an array with `columns` columns. An array of one dimension counts as one column.
pub(super) fn columns<T: Element>(mut bytes: &[u8], columns: usize) -> io::Result<Vec<T>> {
    let Tensor { shape, elements } = npy::read(&mut bytes)?;
    match shape[..] {
        [_] if columns == 1 => Ok(elements),
        [_, found] if found == columns => Ok(elements),
        _ => Err(invalid(format!("is of shape {shape:?}, expected n × {columns}"))),
    }
}

/// Writes observations.
pub fn write(out: &mut dyn Write, sequences: &Sequences) -> io::Result<()> {
    match sequences.observations() {
        Observations::Symbols(symbols) => {
            npy::write_header(out, "<u4", &[symbols.len(), 1])?;
            out.write_all(bytemuck::cast_slice(symbols))
        }
        Observations::Vectors { dimensions, values } => {
            let d = *dimensions as usize;
            npy::write_header(out, "<f8", &[values.len() / d, d])?;
            out.write_all(bytemuck::cast_slice(values))
        }
    }
}

/// Writes the lengths.
pub fn write_lengths(out: &mut dyn Write, sequences: &Sequences) -> io::Result<()> {
    let lengths: Vec<i64> = sequences.offsets().windows(2).map(|pair| (pair[1] - pair[0]) as i64).collect();
    npy::write(out, &lengths)
}
