//! Sequences in files, each read for a model, which knows the names of its symbols and what it emits.

mod csv;
mod fasta;
mod lines;
mod npy;
mod umdhmm;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use clap::ValueEnum;

use super::Error;
use crate::hmm::model::{Emissions, Hmm};
use crate::hmm::sequences::{Observations, Sequences};
use crate::input::{Input, plain_name};
use crate::mdp::io::BUFFER;
use crate::mdp::io::lines::{integer, quoted, real};
use crate::output::atomic_write;

/// A format of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// NumPy's array of all observations, with the sequences' lengths in another.
    Npy,
    /// One sequence a line, of names or numbers of symbols, or of numbers.
    Lines,
    /// A header, then an observation a line, behind the name of its sequence where the header begins with `sequence`.
    Csv,
    /// FASTA, a symbol a letter.
    Fasta,
    /// UMDHMM's text: one sequence, of numbers from 1.
    Umdhmm,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

impl Format {
    /// Extensions of the names of such files; the first is the usual one.
    #[must_use]
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Npy => &["npy"],
            Self::Lines => &["txt"],
            Self::Csv => &["csv"],
            Self::Fasta => &["fasta", "fa", "fna", "faa"],
            Self::Umdhmm => &["seq"],
        }
    }

    /// The format that the extension of `path` tells.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        let found = path.extension()?.to_str()?;
        let known = |format: &Self| format.extensions().iter().any(|known| found.eq_ignore_ascii_case(known));
        Self::value_variants().iter().copied().find(known)
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

/// Reads the sequences in `path`, in `format`, or else in the one that the extension of the name tells, or else the content.
/// `lengths` is the file of lengths of NumPy's arrays, without which there is one sequence.
///
/// # Errors
/// If a file cannot be read, holds no valid sequences, or such as the model does not emit.
pub fn read(path: &Path, lengths: Option<&Path>, format: Option<Format>, model: &Hmm) -> Result<Sequences, Error> {
    let bytes = |path: &Path| {
        Input::open(path)
            .and_then(Input::read_all)
            .map_err(|source| Error::Read { file: path.display().to_string(), source })
    };
    let lengths = match lengths {
        Some(path) => Some((bytes(path)?, path.display().to_string())),
        None => None,
    };
    let lengths = lengths.as_ref().map(|(bytes, file)| (&bytes[..], &file[..]));
    parse(&bytes(path)?, &path.display().to_string(), lengths, format.or(Format::of_name(&plain_name(path))), model)
}

/// Reads sequences from a stream; `name` is what messages call it.
///
/// # Errors
/// Those of [`read()`].
pub fn read_from(reader: impl Read, name: &str, format: Option<Format>, model: &Hmm) -> Result<Sequences, Error> {
    match Input::new(reader).and_then(Input::read_all) {
        Ok(text) => parse(&text, name, None, format, model),
        Err(source) => Err(Error::Read { file: name.to_owned(), source }),
    }
}

fn parse(
    text: &[u8],
    file: &str,
    lengths: Option<(&[u8], &str)>,
    format: Option<Format>,
    model: &Hmm,
) -> Result<Sequences, Error> {
    let format = format.unwrap_or_else(|| Format::of_content(text));
    if let (Some((_, lengths)), true) = (lengths, format != Format::Npy) {
        let message = format!("lengths are given of NumPy's arrays only, and {file} is {format}");
        return Err(Error::Content { file: lengths.to_owned(), message });
    }
    let alphabet = Alphabet::new(model);
    let sequences = match format {
        Format::Npy => npy::read(text, file, lengths, model)?,
        Format::Lines => lines::read(text, file, &alphabet)?,
        Format::Csv => csv::read(text, file, &alphabet)?,
        Format::Fasta => fasta::read(text, file, &alphabet)?,
        Format::Umdhmm => umdhmm::read(text, file)?,
    };
    let invalid = |source| Error::Sequences { file: file.to_owned(), source };
    let sequences = sequences.validated().map_err(invalid)?;
    sequences.check(model).map_err(invalid)?;
    Ok(sequences)
}

/// Writes sequences to `path`, whole or not at all; with the names of the model's symbols, where it has such. NumPy's array
/// has its lengths in the file `lengths`.
///
/// # Errors
/// Those of the file system, and if the format has no place for what is to be written.
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
        atomic_write(path, |out| write(out)).map_err(|source| Error::Write { file: path.display().to_string(), source })
    };
    if let Some(lengths) = lengths {
        whole(lengths, &|out| npy::write_lengths(out, sequences))?;
    }
    whole(path, &|out| write_to(out, format, sequences, model))
}

/// Writes sequences to a stream.
///
/// # Errors
/// Those of `writer`, and if the format has no place for what is to be written.
pub fn write_to(writer: impl Write, format: Format, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
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

/// What a model emits, as texts.
struct Alphabet<'m> {
    /// D, where it emits vectors.
    dimensions: Option<usize>,
    /// V.
    symbols: u32,
    names: &'m [String],
    numbers: HashMap<&'m [u8], u32>,
}

impl<'m> Alphabet<'m> {
    fn new(model: &'m Hmm) -> Self {
        let (dimensions, symbols) = match &model.emissions {
            Emissions::Categorical { symbols, .. } => (None, *symbols),
            Emissions::Gaussian { dimensions, .. } => (Some(*dimensions as usize), 0),
        };
        let names = &model.names.symbols[..];
        Self { dimensions, symbols, names, numbers: names.iter().map(String::as_bytes).zip(0..).collect() }
    }

    /// The symbol that a text is: by its name, or by its number where there are no names.
    #[inline]
    fn symbol(&self, text: &[u8]) -> Option<u32> {
        match self.names {
            [] => integer(text).and_then(|number| u32::try_from(number).ok()).filter(|&number| number < self.symbols),
            _ => self.numbers.get(text).copied(),
        }
    }

    /// What a text should be.
    fn expected(&self) -> String {
        match (self.dimensions, self.names) {
            (Some(_), _) => "a finite number".to_owned(),
            (None, []) => format!("the number of a symbol, below {}", self.symbols),
            (None, [names @ .., last]) if names.len() < 8 && !names.is_empty() => {
                format!("one of the symbols {} and {last}", names.join(", "))
            }
            (None, names) => format!("one of the model's {} symbols", names.len()),
        }
    }
}

/// Sequences while they are read.
struct Builder<'a> {
    alphabet: &'a Alphabet<'a>,
    file: &'a str,
    offsets: Vec<u64>,
    symbols: Vec<u32>,
    values: Vec<f64>,
}

impl<'a> Builder<'a> {
    fn new(alphabet: &'a Alphabet<'a>, file: &'a str) -> Self {
        Self { alphabet, file, offsets: vec![0], symbols: Vec::new(), values: Vec::new() }
    }

    /// Observations so far.
    fn len(&self) -> u64 {
        match self.alphabet.dimensions {
            Some(d) => (self.values.len() / d) as u64,
            None => self.symbols.len() as u64,
        }
    }

    /// Adds a symbol, or one of the numbers of a vector, to the last sequence.
    #[inline]
    fn push(&mut self, word: &[u8], line: u64) -> Result<(), Error> {
        match self.alphabet.dimensions {
            None => match self.alphabet.symbol(word) {
                Some(symbol) => self.symbols.push(symbol),
                None => return Err(self.unexpected(word, line)),
            },
            Some(_) => match real(word) {
                Some(value) => self.values.push(value),
                None => return Err(self.unexpected(word, line)),
            },
        }
        Ok(())
    }

    #[cold]
    fn unexpected(&self, word: &[u8], line: u64) -> Error {
        let position = self.len() - self.offsets[self.offsets.len() - 1] + 1;
        let (found, expected) = (quoted(word), self.alphabet.expected());
        let message =
            format!("sequence {}, position {position}: found \"{found}\", expected {expected}", self.offsets.len());
        self.error(line, message)
    }

    #[cold]
    fn error(&self, line: u64, message: String) -> Error {
        Error::Line { file: self.file.to_owned(), line, message }
    }

    /// Ends the sequence, which begins before this line.
    fn end(&mut self, line: u64) -> Result<(), Error> {
        if Some(&self.len()) == self.offsets.last() {
            return Err(self.error(line, format!("sequence {} is empty", self.offsets.len())));
        }
        self.offsets.push(self.len());
        Ok(())
    }

    fn sequences(self) -> Sequences {
        let observations = match self.alphabet.dimensions {
            Some(d) => Observations::Vectors { dimensions: d as u32, values: self.values },
            None => Observations::Symbols(self.symbols),
        };
        Sequences { offsets: self.offsets, observations }
    }
}

/// The lines of a text without their ends, by number from 1.
fn numbered(text: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    (1..).zip(text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii))
}
