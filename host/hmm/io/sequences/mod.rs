//! File formats of sequences. A file is read for a model, which supplies symbol names and the kind of observations.

mod batches;
mod csv;
mod fasta;
mod lines;
mod missing;
mod npy;
mod records;
mod states;
mod stream;
mod umdhmm;

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

pub use self::batches::Batches;
pub use self::csv::{Header, Table, field};
pub use self::lines::word;
pub use self::missing::Missing;
pub use self::records::Records;
pub use self::states::{read_states, read_tied_transitions, read_weights};
pub use self::stream::{Line, Stream, write_row};
use super::Error;
use crate::model::{Emissions, Hmm};
use crate::sequences::{Observations, Sequences};
use warpkov_common::choice::file_format;
use warpkov_common::io::input::{Input, plain_name};
use warpkov_common::io::lines::{integer, no_place, quoted, real};
use warpkov_common::io::output::atomic_write;
use warpkov_common::io::{BUFFER, of_extension};

file_format! {
    /// A format of sequences.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Format {
        /// NumPy array of all observations; a second array holds the lengths of the sequences.
        Npy = "npy" in ["npy"],
        /// One sequence per line: symbol names, symbol numbers or real numbers.
        Lines = "lines" in ["txt"],
        /// Table with one observation per row, separated by commas, semicolons or tabs.
        Csv = "csv" in ["csv", "tsv"],
        /// FASTA, one letter per symbol.
        Fasta = "fasta" in ["fasta", "fa", "fna", "faa"],
        /// The text format of UMDHMM: one sequence of symbol numbers from 1.
        Umdhmm = "umdhmm" in ["seq"],
    }
}

impl Format {
    /// The format of a file name's extension.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        of_extension(path)
    }

    fn of_content(text: &[u8]) -> Self {
        match text {
            [0x93, b'N', b'U', b'M', ..] => Self::Npy,
            [b'>', ..] => Self::Fasta,
            [b'T', b'=', ..] => Self::Umdhmm,
            _ if text.starts_with(b"sequence,") => Self::Csv,
            _ => Self::Lines,
        }
    }
}

/// Options for reading sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadOptions {
    /// The format. If `None`, the extension of the name determines it, or else the content.
    pub format: Option<Format>,
    /// The file of lengths for a NumPy array. If `None`, the array is one sequence.
    pub lengths: Option<PathBuf>,
    /// The columns to read from a table.
    pub table: Table,
    /// Treatment of missing and ambiguous observations.
    pub missing: Missing,
}

/// Reads the sequences in `path`. Without a `format`, the extension of the name determines it, or else the content.
/// `lengths` is the file of lengths for a NumPy array; without it the array is one sequence.
///
/// # Errors
/// Those of [`read_with`].
pub fn read(path: &Path, lengths: Option<&Path>, format: Option<Format>, model: &Hmm) -> Result<Sequences, Error> {
    let options = ReadOptions { format, lengths: lengths.map(Path::to_owned), ..ReadOptions::default() };
    Ok(read_with(path, &options, model)?.sequences)
}

/// Reads the sequences in `path` with their names and other [`Records`] data.
///
/// # Errors
/// If a file cannot be read, does not hold valid sequences, or holds observations that the model does not emit.
pub fn read_with(path: &Path, options: &ReadOptions, model: &Hmm) -> Result<Records, Error> {
    let bytes = |path: &Path| Input::open(path).and_then(Input::read_all).map_err(Error::read(path));
    let lengths = match &options.lengths {
        Some(path) => Some((bytes(path)?, path.display().to_string())),
        None => None,
    };
    let lengths = lengths.as_ref().map(|(bytes, file)| (&bytes[..], &file[..]));
    let format = options.format.or(Format::of_name(&plain_name(path)));
    parse(&bytes(path)?, &path.display().to_string(), lengths, format, options, model)
}

/// Reads sequences from a stream. Messages refer to the stream as `name`.
///
/// # Errors
/// Those of [`read_with`].
pub fn read_from(reader: impl Read, name: &str, format: Option<Format>, model: &Hmm) -> Result<Sequences, Error> {
    let options = ReadOptions { format, ..ReadOptions::default() };
    Ok(read_from_with(reader, name, &options, model)?.sequences)
}

/// Reads sequences from a stream with their names and other [`Records`] data.
///
/// # Errors
/// Those of [`read_with`], and if the options name a file of lengths.
pub fn read_from_with(reader: impl Read, name: &str, options: &ReadOptions, model: &Hmm) -> Result<Records, Error> {
    if options.lengths.is_some() {
        let message = "a file of lengths applies only to an array in a file".to_owned();
        return Err(Error::Content { file: name.to_owned(), message });
    }
    let text = Input::new(reader).and_then(Input::read_all).map_err(Error::read(name))?;
    parse(&text, name, None, options.format, options, model)
}

fn parse(
    text: &[u8],
    file: &str,
    lengths: Option<(&[u8], &str)>,
    format: Option<Format>,
    options: &ReadOptions,
    model: &Hmm,
) -> Result<Records, Error> {
    let format = format.unwrap_or_else(|| Format::of_content(text));
    if let (Some((_, lengths)), true) = (lengths, format != Format::Npy) {
        let message = format!("a file of lengths applies only to NumPy arrays, and {file} is {format}");
        return Err(Error::Content { file: lengths.to_owned(), message });
    }
    if options.table != Table::default() && format != Format::Csv {
        let message = format!("columns, ids, separators and headers apply only to tables, and this is {format}");
        return Err(Error::Content { file: file.to_owned(), message });
    }
    let alphabet = Alphabet::new(model, options.missing);
    let read = match format {
        Format::Npy => npy::read(text, file, lengths, &alphabet)?,
        Format::Lines => lines::read(text, file, &alphabet)?,
        Format::Csv => csv::read(text, file, &alphabet, &options.table)?,
        Format::Fasta => fasta::read(text, file, &alphabet)?,
        Format::Umdhmm => umdhmm::read(text, file)?,
    };
    read.settled(options.missing, file, model)
}

/// Checks that a format can represent sequences of a model; `several`: more than one.
///
/// # Errors
/// If it cannot, with the limitation.
pub fn holds(format: Format, model: &Hmm, several: bool) -> io::Result<()> {
    match (format, model.emissions()) {
        (Format::Fasta, _) => fasta::holds(model),
        (Format::Umdhmm, Emissions::Categorical { .. }) if !several => Ok(()),
        (Format::Umdhmm, _) => Err(no_place(umdhmm::NO_PLACE.to_owned())),
        (Format::Lines, emissions) if emissions.dimensions() > Some(1) => Err(no_place(lines::NO_PLACE.to_owned())),
        _ => Ok(()),
    }
}

/// Writes sequences to `path` atomically, with the model's symbol names if it has any. For a NumPy array, the lengths
/// go to the file `lengths`.
///
/// # Errors
/// Those of the file system, and if the format cannot represent the sequences.
pub fn write(
    path: &Path,
    lengths: Option<&Path>,
    format: Format,
    sequences: &Sequences,
    model: &Hmm,
) -> Result<(), Error> {
    if format == Format::Npy && lengths.is_none() && sequences.len() > 1 {
        let message = "several sequences in one array need a file of lengths".to_owned();
        return Err(Error::Content { file: path.display().to_string(), message });
    }
    let whole = |path: &Path, write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        atomic_write(path, |out| write(out)).map_err(Error::write(path))
    };
    if let Some(lengths) = lengths {
        whole(lengths, &|out| npy::write_lengths(out, sequences))?;
    }
    whole(path, &|out| write_to(out, format, sequences, model))
}

/// Writes sequences to a stream.
///
/// # Errors
/// Those of `writer`, and if the format cannot represent the sequences.
pub fn write_to(writer: impl Write, format: Format, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
    holds(format, model, sequences.len() > 1)?;
    let mut out = BufWriter::with_capacity(BUFFER, writer);
    match format {
        Format::Npy => npy::write(&mut out, sequences)?,
        Format::Lines => lines::write(&mut out, sequences, model)?,
        Format::Csv => csv::write(&mut out, sequences, model)?,
        Format::Fasta => fasta::write(&mut out, sequences, model)?,
        Format::Umdhmm => umdhmm::write(&mut out, sequences)?,
    }
    out.flush()
}

/// The names of the components of a model's vectors; empty if they have none.
fn column_names(model: &Hmm) -> &[String] {
    if let Emissions::Channels(channels) = model.emissions() { &channels.names } else { &[] }
}

/// The texts that a reader accepts as observations of a model, or as its states.
#[derive(Clone)]
struct Alphabet<'m> {
    /// "symbol" or "state".
    what: &'static str,
    /// D for vectors; `None` for symbols.
    dimensions: Option<usize>,
    /// V, or 0 for vectors.
    symbols: u32,
    names: &'m [String],
    /// The names of the components of vectors; empty if they have none.
    columns: &'m [String],
    /// Symbol number of each name.
    numbers: HashMap<&'m [u8], u32>,
    /// Treatment of missing observations.
    missing: Missing,
}

impl<'m> Alphabet<'m> {
    fn new(model: &'m Hmm, missing: Missing) -> Self {
        let dimensions = model.emissions().dimensions().map(|d| d as usize);
        let symbols = model.emissions().symbols();
        let names = &model.names().symbols[..];
        let numbers = names.iter().map(String::as_bytes).zip(0..).collect();
        let columns = column_names(model);
        Self { what: "symbol", dimensions, symbols, names, columns, numbers, missing }
    }

    /// The states of a model as symbols.
    fn of_states(model: &'m Hmm, missing: Missing) -> Self {
        let names = &model.names().states[..];
        let numbers = names.iter().map(String::as_bytes).zip(0..).collect();
        Self { what: "state", dimensions: None, symbols: model.states(), names, columns: &[], numbers, missing }
    }

    /// The symbol with this name, or with this number in a model without symbol names.
    #[inline]
    fn symbol(&self, text: &[u8]) -> Option<u32> {
        match self.names {
            [] => {
                integer(text).or_else(|| whole(text)).filter(|&number| number < self.symbols.into()).map(|n| n as u32)
            }
            _ => self.numbers.get(text).copied(),
        }
    }

    /// Whether the model names its symbols, each by one character.
    fn has_letters(&self) -> bool {
        !self.names.is_empty() && self.names.iter().all(|name| name.chars().nth(1).is_none())
    }

    /// Whether a text marks a missing observation. A symbol's name takes precedence over a marker.
    fn is_missing(&self, text: &[u8]) -> bool {
        missing::is_marker(text) && !(self.dimensions.is_none() && self.symbol(text).is_some())
    }

    /// Whether a text is a symbol, or a component of a vector.
    fn is_observation(&self, text: &[u8]) -> bool {
        if self.dimensions.is_some() { real(text).is_some() } else { self.symbol(text).is_some() }
    }

    /// Description of an observation, for messages.
    fn expected(&self) -> String {
        let what = self.what;
        match (self.dimensions, self.names) {
            (Some(_), _) => "a finite number".to_owned(),
            (None, []) => format!("a {what} number below {}", self.symbols),
            (None, [names @ .., last]) if names.len() < 8 && !names.is_empty() => {
                let names: Vec<String> = names.iter().map(|name| quoted(name.as_bytes())).collect();
                format!("one of the {what}s {} and {}", names.join(", "), quoted(last.as_bytes()))
            }
            (None, names) => format!("one of the model's {} {what}s", names.len()),
        }
    }
}

/// An integer in floating-point notation, such as `2.0`.
#[cold]
fn whole(text: &[u8]) -> Option<u64> {
    real(text).filter(|number| number.fract() == 0.0 && (0.0..=u32::MAX.into()).contains(number)).map(|n| n as u64)
}

/// Collects sequences while a file is read.
struct Builder<'a> {
    alphabet: &'a Alphabet<'a>,
    file: &'a str,
    read: records::Read,
}

impl<'a> Builder<'a> {
    fn new(alphabet: &'a Alphabet<'a>, file: &'a str) -> Self {
        Self { alphabet, file, read: records::Read::new(alphabet.dimensions) }
    }

    /// Adds a symbol, or a vector of dimension 1, to the present sequence.
    #[inline]
    fn push(&mut self, word: &[u8], line: u64) -> Result<(), Error> {
        if self.observe(word) {
            return Ok(());
        }
        if self.alphabet.is_missing(word) && self.alphabet.missing != Missing::Refuse {
            self.read.push_missing();
            return Ok(());
        }
        Err(self.unexpected(word, line))
    }

    #[inline]
    fn observe(&mut self, word: &[u8]) -> bool {
        match (&mut self.read.observations, self.alphabet.dimensions) {
            (Observations::Symbols(symbols), _) => self.alphabet.symbol(word).map(|symbol| symbols.push(symbol)),
            (Observations::Vectors { values, .. }, _) => real(word).map(|value| values.push(value)),
        }
        .is_some()
    }

    #[cold]
    fn unexpected(&self, word: &[u8], line: u64) -> Error {
        let (found, expected) = (quoted(word), self.alphabet.expected());
        let hint = if self.alphabet.is_missing(word) { missing::HINT } else { "" };
        self.error(line, format!("{}: found \"{found}\", expected {expected}{hint}", self.place()))
    }

    /// The present sequence and the position of the next observation, for messages.
    fn place(&self) -> String {
        let position = self.read.len() - self.read.offsets[self.read.offsets.len() - 1] + 1;
        format!("sequence {}, position {position}", self.read.offsets.len())
    }

    #[cold]
    fn error(&self, line: u64, message: String) -> Error {
        Error::Line { file: self.file.to_owned(), line, message }
    }

    /// Ends the present sequence; `line` is for messages.
    fn end(&mut self, line: u64) -> Result<(), Error> {
        if Some(&self.read.len()) == self.read.offsets.last() {
            return Err(self.error(line, format!("sequence {} is empty", self.read.offsets.len())));
        }
        self.read.offsets.push(self.read.len());
        Ok(())
    }
}

/// The trimmed lines of a text with their numbers, from 1.
fn numbered(text: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    (1..).zip(text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii))
}
