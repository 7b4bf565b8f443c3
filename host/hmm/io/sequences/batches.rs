//! Sequences of a file, some at a time, of which no more are in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::mem::take;
use std::ops::Range;
use std::path::Path;

use warpkov_common::io::binary::{invalid, of_file};
use warpkov_common::io::input::{Input, SNIFFED, plain_name};
use warpkov_common::io::npy;

use super::npy::{lengths_of, symbol};
use super::records::Read;
use super::{Alphabet, Error, Format, ReadOptions, Records, fasta, lines};
use crate::model::Hmm;
use crate::sequences::{Observations, offsets};

/// The sequences of a file of lines, FASTA, or a NumPy array with its lengths.
pub struct Batches<'m> {
    source: Source,
    file: String,
    options: ReadOptions,
    model: &'m Hmm,
    alphabet: Alphabet<'m>,
    /// Sequences so far.
    first: usize,
}

enum Source {
    /// Text, with the start of the next sequence, the number of lines before it, and the byte that begins a sequence; every line does
    /// without one.
    Text { reader: BufReader<Input<'static>>, ahead: Vec<u8>, before: u64, begins: Option<u8> },
    /// An array and the lengths of the sequences in it, with the row of the next.
    Array { file: File, lengths: Vec<usize>, row: u64, is_float: bool },
}

impl<'m> Batches<'m> {
    /// Opens a file. Its format is that of `options`, of the name, or of the content.
    ///
    /// # Errors
    /// Those of [`read_with`](super::read_with) that do not depend on the sequences, and if the format is another.
    pub fn open(path: &Path, options: &ReadOptions, model: &'m Hmm) -> Result<Self, Error> {
        let file = path.display().to_string();
        let wrong = |message: &str| Error::Content { file: file.clone(), message: message.to_owned() };
        let mut input = Input::open(path).map_err(Error::read(path))?;
        let start = input.start(SNIFFED).map_err(Error::read(path))?;
        let format = options.format.or(Format::of_name(&plain_name(path))).unwrap_or_else(|| Format::of_content(start));
        let is_float = npy::is_float(start);
        let source = match (format, &options.lengths) {
            (Format::Lines | Format::Fasta, None) => {
                let begins = (format == Format::Fasta).then_some(b'>');
                Source::Text { reader: BufReader::new(input), ahead: Vec::new(), before: 0, begins }
            }
            (Format::Npy, Some(path)) => {
                let Ok(file) = input.into_file().map_err(Error::read(path))? else {
                    return Err(wrong("an array is read in batches from an uncompressed regular file"));
                };
                let bytes = Input::open(path).and_then(Input::read_all).map_err(Error::read(path))?;
                let lengths = lengths_of(&bytes).map_err(of_file(path.display().to_string()))?;
                Source::Array {
                    file,
                    lengths: lengths.iter().map(|&length| length as usize).collect(),
                    row: 0,
                    is_float,
                }
            }
            (Format::Npy, None) => {
                return Err(wrong("batches of an array need a file of the lengths of its sequences"));
            }
            (_, Some(_)) => return Err(wrong("a file of lengths applies only to NumPy arrays")),
            _ => return Err(wrong("batches are read from lines, FASTA and NumPy arrays")),
        };
        let alphabet = Alphabet::new(model, options.missing);
        Ok(Self { source, file, options: options.clone(), model, alphabet, first: 0 })
    }

    /// Where the next sequences are, for messages: the file, and the number of sequences before them.
    #[must_use]
    pub fn place(&self) -> String {
        match self.first {
            0 => self.file.clone(),
            before => format!("{} after sequence {before}", self.file),
        }
    }

    /// The next sequences, at most so many; `None` at the end of the file.
    ///
    /// # Errors
    /// Those of [`read_with`](super::read_with).
    pub fn next(&mut self, most: usize) -> Result<Option<Records>, Error> {
        let read = match &mut self.source {
            Source::Text { reader, ahead, before, begins } => {
                let text = text(reader, ahead, *begins, most).map_err(Error::read(&self.file))?;
                if text.is_empty() && self.first > 0 {
                    return Ok(None);
                }
                let skipped = *before;
                *before += memchr::memchr_iter(b'\n', &text).count() as u64;
                let name = match self.first {
                    0 => self.file.clone(),
                    first => format!("{} after sequence {first}", self.file),
                };
                let read = match begins {
                    Some(_) => fasta::read(&text, &name, &self.alphabet),
                    None => lines::read(&text, &name, &self.alphabet),
                };
                read.map_err(|error| match error {
                    Error::Line { file, line, message } => Error::Line { file, line: line + skipped, message },
                    error => error,
                })?
            }
            Source::Array { file, lengths, row, is_float } => {
                let own = &lengths[self.first.min(lengths.len())..];
                let own = &own[..most.min(own.len())];
                if own.is_empty() {
                    return Ok(None);
                }
                let rows = own.iter().try_fold(0_u64, |sum, &length| sum.checked_add(length as u64));
                let end = row.saturating_add(rows.unwrap_or(u64::MAX));
                let observations =
                    array(file, *row..end, *is_float, &self.alphabet).map_err(of_file(self.file.clone()))?;
                *row = end;
                Read::from_observations(offsets(own.iter().copied()), observations)
            }
        };
        self.first += read.offsets.len() - 1;
        read.settled(self.options.missing, &self.file, self.model).map(Some)
    }
}

/// The text of the next sequences. `ahead` has the line that begins the one behind them.
fn text(reader: &mut impl BufRead, ahead: &mut Vec<u8>, begins: Option<u8>, most: usize) -> io::Result<Vec<u8>> {
    let mut text = take(ahead);
    let mut found = usize::from(!text.is_empty());
    let (mut line, mut blank) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(text);
        }
        // Blank lines are sequences without observations, an error, unless nothing follows.
        if begins.is_none() && line.trim_ascii().is_empty() {
            blank.extend_from_slice(&line);
            continue;
        }
        if begins.is_none_or(|byte| line.first() == Some(&byte)) {
            if found == most {
                *ahead = blank;
                ahead.extend_from_slice(&line);
                return Ok(text);
            }
            found += 1;
        }
        text.append(&mut blank);
        text.extend_from_slice(&line);
    }
}

/// Rows of an array, as many as asked for.
fn array(file: &mut File, rows: Range<u64>, is_float: bool, alphabet: &Alphabet) -> io::Result<Observations> {
    let count = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
    let check = |shape: &[usize], columns: usize, found: usize| match shape {
        [all] | [all, _] if columns == shape.get(1).copied().unwrap_or(1) && found == count.saturating_mul(columns) => {
            Ok(*all)
        }
        [all] | [all, _] if columns == shape.get(1).copied().unwrap_or(1) => {
            Err(invalid(format!("has {all} observations, expected those of all lengths, at least {}", rows.end)))
        }
        _ => Err(invalid(format!("is of shape {shape:?}, expected n × {columns}"))),
    };
    Ok(match alphabet.dimensions {
        Some(d) => {
            let (shape, values) = npy::read_part::<f64>(file, rows.clone())?;
            check(&shape, d, values.len())?;
            Observations::Vectors { dimensions: d as u32, values }
        }
        None if is_float => {
            let (shape, numbers) = npy::read_part::<f64>(file, rows.clone())?;
            check(&shape, 1, numbers.len())?;
            let symbols = numbers.iter().enumerate().map(|(at, &number)| symbol(at, number, alphabet.missing));
            Observations::Symbols(symbols.collect::<io::Result<_>>()?)
        }
        None => {
            let (shape, symbols) = npy::read_part::<u32>(file, rows.clone())?;
            check(&shape, 1, symbols.len())?;
            Observations::Symbols(symbols)
        }
    })
}
