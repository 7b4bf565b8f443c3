//! Writers of values and policies, and the reader of values.

use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use serde::Deserialize;

use super::{Error, ReadError, SNIFFED, Solved};
use crate::common::io::BUFFER;
use crate::common::io::binary::{invalid, of_file};
use crate::common::io::input::{Input, plain_name};
use crate::common::io::json::plain;
use crate::common::io::npy::{self, Store};
use crate::mdp::model::NO_ACTION;

/// Writes one CSV row per state: its number, its value and its action. The action of a terminal state is empty.
///
/// # Errors
/// I/O errors of `out`.
pub fn write_csv(out: impl Write, values: &[f64], policy: &[u32]) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    writeln!(out, "state,value,action")?;
    for (state, (value, &action)) in values.iter().zip(policy).enumerate() {
        // `{:?}` prints the shortest digits that read back as the same bits.
        write!(out, "{state},{value:?},")?;
        match action {
            NO_ACTION => writeln!(out)?,
            _ => writeln!(out, "{action}")?,
        }
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
            _ if text.lines().any(|line| line.starts_with(Solved::VALUES)) => {
                let wrong = |error: ReadError| Error::Content { file: file.clone(), message: error.without(&file) };
                Solved::parse(&text, file.clone()).map_err(wrong)?.values
            }
            _ => parse_csv(&text, &file)?,
        }
    };
    match values.iter().position(|value| !value.is_finite()) {
        Some(state) => {
            let message = format!("the value of state {state} is {}, expected a finite number", values[state]);
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
    let wrong = |line: usize, message: String| Error::Line { file: file.to_owned(), line: line as u64 + 1, message };
    let mut lines = text.lines().enumerate();
    let header: Vec<_> = lines.next().unwrap_or_default().1.split(',').map(str::trim).collect();
    let column = |name| header.iter().position(|known| *known == name);
    let Some(value) = column("value") else {
        return Err(wrong(0, format!("found the columns {header:?}, expected one named value")));
    };
    let mut values = Vec::new();
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let fields: Vec<_> = text.split(',').map(str::trim).collect();
        if let Some(&found) = column("state").and_then(|column| fields.get(column))
            && found.parse() != Ok(values.len())
        {
            return Err(wrong(line, format!("found state {found}, expected state {}", values.len())));
        }
        let found = fields.get(value).copied().unwrap_or_default();
        values.push(found.parse().map_err(|_| wrong(line, format!("found '{found}', expected a value")))?);
    }
    Ok(values)
}
