//! Writers of values and policies, and the reader of values.

use std::io::{self, BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

use super::table::{Table, write_field};
use super::{Error, SolutionFile};
use crate::model::NO_ACTION;
use crate::model::whole::Named;
use warpkov_common::io::BUFFER;
use warpkov_common::io::binary::{invalid, of_file};
use warpkov_common::io::input::{Input, SNIFFED, plain_name};
use warpkov_common::io::json::plain;
use warpkov_common::io::lines::Put;
use warpkov_common::io::npy::{self, Store};
use warpkov_common::terminal::quoted;
use warpkov_runtime::comm::file::{Bytes, write_together};
use warpkov_runtime::comm::{Column, Communicator, Disagreed};

/// Writes one CSV row per state: its number, its value and its action. The action of a terminal state is empty.
///
/// # Errors
/// I/O errors of `out`.
pub fn write_csv(out: impl Write, values: &[f64], policy: &[u32]) -> io::Result<()> {
    write_csv_rows(out, values.iter().copied().zip(policy.iter().copied()), None)
}

/// [`write_csv`] with names: the columns `state` and `action` hold them, and the columns `state_number` and `action_number` follow.
///
/// # Errors
/// I/O errors of `out`.
pub fn write_csv_named(out: impl Write, values: &[f64], policy: &[u32], names: &dyn Named) -> io::Result<()> {
    write_csv_rows(out, values.iter().copied().zip(policy.iter().copied()), Some(names))
}

/// [`write_csv`] of the values and actions of all states.
pub(crate) fn write_csv_rows(
    out: impl Write,
    states: impl Iterator<Item = (f64, u32)>,
    names: Option<&dyn Named>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    writeln!(out, "state,value,action{}", if names.is_some() { ",state_number,action_number" } else { "" })?;
    for (state, (value, action)) in (0..).zip(states) {
        let number = Some(action).filter(|&action| action != NO_ACTION);
        match names {
            None => out.integer(state)?,
            Some(names) => write_field(&mut out, &names.name_of_state(state))?,
        }
        // `{:?}` prints the shortest digits that read back as the same bits.
        write!(out, ",{value:?},")?;
        match (number, names) {
            (Some(action), None) => out.integer(action.into())?,
            (Some(action), Some(names)) => write_field(&mut out, &names.name_of_action(state, action))?,
            (None, _) => {}
        }
        if names.is_some() {
            write!(out, ",{state},")?;
            number.map_or(Ok(()), |action| out.integer(action.into()))?;
        }
        out.text("\n")?;
    }
    out.flush()
}

/// Writes an array as NumPy's .npy: values as `<f8`, a policy as `<u4`.
///
/// # Errors
/// I/O errors of `out`.
pub fn write_npy<T: Store>(mut out: impl Write, elements: &[T]) -> io::Result<()> {
    npy::write(&mut out, elements)
}

/// [`write_npy`] of an array that may be divided among ranks.
///
/// # Errors
/// I/O errors of `out`.
pub fn write_npy_pieces<T: Store>(mut out: impl Write, elements: Column<T>) -> io::Result<()> {
    npy::write_header(&mut out, T::DESCR, &[elements.len() as usize])?;
    elements.pieces().try_for_each(|piece| out.write_all(bytemuck::cast_slice(&piece)))
}

/// [`write_npy`] by all ranks, of which each has `own` elements, from number `first` of `all` on: each writes its own at
/// their offset. `Ok(false)`, and nothing written, if [they cannot](write_together).
///
/// # Errors
/// The error of the first rank that failed; then no file is written.
pub fn write_npy_together<T: Store>(
    comm: &dyn Communicator,
    path: &Path,
    own: &[T],
    first: u64,
    all: u64,
) -> Result<bool, Disagreed<Error>> {
    let mut header = Vec::new();
    // A vector takes all bytes.
    let _ = npy::write_header(&mut header, T::DESCR, &[all as usize]);
    let at = |element: u64| header.len() as u64 + element * size_of::<T>() as u64;
    let bytes = Bytes { header: &header, own: bytemuck::cast_slice(own), offset: at(first), length: at(all) };
    write_together(comm, path, &bytes).map_err(|disagreed| disagreed.map(Error::write(path)))
}

/// Writes a two-dimensional row-major array with `columns` elements per row as NumPy's .npy.
///
/// # Errors
/// I/O errors of `out`.
pub fn write_npy_rows<T: Store>(mut out: impl Write, elements: &[T], columns: usize) -> io::Result<()> {
    npy::write_rows(&mut out, elements, columns)
}

/// Reads the values of states. The file is one of: .npy of one dimension; .csv with a column `value`; JSON, an array or
/// an object with `values`; text with a line `Optimal value:`.
///
/// # Errors
/// The file cannot be read, has none of these formats, or a value is not finite.
pub fn read_values(path: &Path) -> Result<Vec<f64>, Error> {
    let file = path.display().to_string();
    let mut input = Input::open(path).map_err(of_file(file.clone()))?;
    let npy = plain_name(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
        || npy::sniff(input.start(SNIFFED).map_err(of_file(file.clone()))?);
    let values = if npy {
        read_npy(input).map_err(of_file(file.clone()))?
    } else {
        let text = input.read_text().map_err(of_file(file.clone()))?;
        match text.trim_ascii_start().as_bytes() {
            [b'[' | b'{', ..] => parse_json(&text, &file)?,
            _ if text.lines().any(|line| line.starts_with(SolutionFile::VALUES)) => {
                SolutionFile::parse(&text, file.clone()).map_err(|error| error.in_file(&file))?.values
            }
            _ => parse_csv(&text, &file)?,
        }
    };
    finite(values, 0, file)
}

/// Reads the values of a range of the `all` states of a model, from a file of [`read_values`]. Of an uncompressed .npy it
/// reads this range only, of other files all.
///
/// # Errors
/// Those of [`read_values`], and if the file has not one value for each state.
pub fn read_values_of(path: &Path, states: Range<u64>, all: u64) -> Result<Vec<f64>, Error> {
    let file = path.display().to_string();
    let wrong = |found: u64| {
        let message = format!("{found} initial values, expected one per state, {all}");
        Err(Error::Content { file: file.clone(), message })
    };
    let mut input = Input::open(path).map_err(of_file(file.clone()))?;
    if npy::sniff(input.start(SNIFFED).map_err(of_file(file.clone()))?)
        && let Ok(mut whole) = input.into_file().map_err(of_file(file.clone()))?
    {
        let (shape, values) = npy::read_part(&mut whole, states.clone()).map_err(of_file(file.clone()))?;
        return match shape[..] {
            [found] if found as u64 != all => wrong(found as u64),
            [_] => finite(values, states.start, file),
            _ => Err(of_file(file)(invalid(format!("is of shape {shape:?}, expected one dimension")))),
        };
    }
    let values = read_values(path)?;
    match values.len() as u64 == all {
        true => Ok(values[states.start as usize..states.end as usize].to_vec()),
        false => wrong(values.len() as u64),
    }
}

/// The values of the states from `first` on, if all are finite.
fn finite(values: Vec<f64>, first: u64, file: String) -> Result<Vec<f64>, Error> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => {
            let state = first + at as u64;
            let message = format!("the value of state {state} is {}, expected a finite number", values[at]);
            Err(Error::Content { file, message })
        }
        None => Ok(values),
    }
}

fn read_npy(input: Input<'_>) -> io::Result<Vec<f64>> {
    let tensor = npy::read(&mut BufReader::with_capacity(BUFFER, input))?;
    match tensor.shape[..] {
        [_] => Ok(tensor.elements),
        ref shape => Err(invalid(format!("is of shape {shape:?}, expected one dimension"))),
    }
}

fn parse_json(text: &str, file: &str) -> Result<Vec<f64>, Error> {
    #[derive(Deserialize)]
    struct Solved {
        values: Vec<f64>,
    }
    let parsed = match text.trim_ascii_start().starts_with('[') {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|Solved { values }| values),
    };
    parsed.map_err(|error| Error::at(file.to_owned(), error.line(), error.column(), plain(&error)))
}

fn parse_csv(text: &str, file: &str) -> Result<Vec<f64>, Error> {
    let mut values = Vec::new();
    let table = Table::open(text.as_bytes(), file.to_owned(), &["value"], &["state", "state_number"], true)?;
    table.each(|_, [value, state, number]| {
        // With names of states, their numbers are in a column of their own.
        let found = if number.is_empty() { state } else { number };
        if !found.is_empty() && found.parse() != Ok(values.len()) {
            return Err(format!("found state {}, expected state {}", quoted(found.as_bytes()), values.len()));
        }
        values.push(value.parse().map_err(|_| format!("found '{}', expected a value", quoted(value.as_bytes())))?);
        Ok(())
    })?;
    Ok(values)
}
