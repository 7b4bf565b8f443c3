//! NumPy's arrays, as hmmlearn has them: all observations one behind the other, integers (ΣT or ΣT × 1) or vectors (ΣT × D), and
//! the sequences' lengths.

use std::io::{self, Write};

use super::Error;
use crate::hmm::model::{Emissions, Hmm};
use crate::hmm::sequences::{Observations, Sequences, offsets};
use crate::mdp::io::binary::{Element, invalid, of_file};
use crate::mdp::io::npy::{self, Tensor};

/// Reads sequences.
pub fn read(bytes: &[u8], file: &str, lengths: Option<(&[u8], &str)>, model: &Hmm) -> Result<Sequences, Error> {
    let observations = match &model.emissions {
        Emissions::Categorical { .. } => Observations::Symbols(columns(bytes, 1).map_err(of_file(file.to_owned()))?),
        &Emissions::Gaussian { dimensions, .. } => {
            let values = columns(bytes, dimensions as usize).map_err(of_file(file.to_owned()))?;
            Observations::Vectors { dimensions, values }
        }
    };
    let steps = match &observations {
        Observations::Symbols(symbols) => symbols.len(),
        Observations::Vectors { dimensions, values } => values.len() / *dimensions as usize,
    };
    let lengths = match lengths {
        None => vec![steps],
        Some((bytes, lengths)) => {
            let numbers: Vec<u64> = columns(bytes, 1).map_err(of_file(lengths.to_owned()))?;
            let total = numbers.iter().try_fold(0u64, |total, &length| total.checked_add(length));
            if total != Some(steps as u64) {
                let total = total.map_or_else(|| "more than 2⁶⁴".to_owned(), |total| total.to_string());
                let message = format!("the lengths sum to {total}, expected the {steps} observations of {file}");
                return Err(Error::Content { file: lengths.to_owned(), message });
            }
            numbers.iter().map(|&length| length as usize).collect()
        }
    };
    Ok(Sequences { offsets: offsets(lengths), observations })
}

/// An array of this many columns; of one dimension, where that is one.
fn columns<T: Element>(mut bytes: &[u8], columns: usize) -> io::Result<Vec<T>> {
    let Tensor { shape, elements } = npy::read(&mut bytes)?;
    match shape[..] {
        [_] if columns == 1 => Ok(elements),
        [_, found] if found == columns => Ok(elements),
        _ => Err(invalid(format!("is of shape {shape:?}, expected n × {columns}"))),
    }
}

/// Writes observations.
pub fn write(out: &mut dyn Write, sequences: &Sequences) -> io::Result<()> {
    match &sequences.observations {
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
    let lengths: Vec<i64> = sequences.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as i64).collect();
    npy::write(out, &lengths)
}
