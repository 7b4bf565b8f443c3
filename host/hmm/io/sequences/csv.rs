//! Tables with one observation per row, as spreadsheets and data frames write them (RFC 4180), separated by commas,
//! semicolons or tabs. Quoted fields may contain separators, line breaks and doubled quotes. Blanks around fields are
//! ignored.
//!
//! All rows with the same id form one sequence, adjacent or not. Sequences are ordered by the first appearance of their
//! ids. Without ids, the table is one sequence.

use std::collections::HashMap;
use std::io::{self, Write};

use csv::{ByteRecord, ReaderBuilder, WriterBuilder};

use super::missing::{HINT, MISSING, Missing};
use super::records::Read;
use super::{Alphabet, Builder};
use crate::io::Error;
use crate::model::Hmm;
use crate::sequences::{Observations, Sequences};
use warpkov_common::choice::choice;
use warpkov_common::io::lines::{Put, integer, quoted, real};
use warpkov_common::names::name;

/// Name that marks the first column as the column of ids.
const ID: &[u8] = b"sequence";

choice! {
    /// Whether the first row of a table is a header.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Header {
        /// Assume a header if the options name a column, if the first column is named `sequence`, or if no observed
        /// column holds in the first row an observation, a text that begins like a number, or a marker of a missing
        /// observation.
        #[default]
        Auto = "auto",
        /// The first row is a header.
        Yes = "yes",
        /// The first row is an observation.
        No = "no",
    }
}

/// The columns to read from a table. A column is given by its name, or by its number from 1 if no column has that name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Whether the first row is a header.
    pub header: Header,
    /// The observed columns: one for a symbol, or those of a vector in order. If empty, the columns that the model names if the first row has
    /// all of them, or else all columns except the ids.
    pub columns: Vec<String>,
    /// The column of ids. If `None`, the first column if its name is `sequence`, else no column.
    pub id: Option<String>,
    /// The separator of fields. If `None`, the most frequent one of comma, semicolon and tab in the first row.
    pub separator: Option<u8>,
}

/// Reads sequences.
pub fn read(text: &[u8], file: &str, alphabet: &Alphabet, table: &Table) -> Result<Read, Error> {
    let builder = Builder::new(alphabet, file);
    let separator = table.separator.unwrap_or_else(|| separator(text));
    let mut rows = Rows::new(text, file, separator);
    let mut row = ByteRecord::new();
    if !rows.next(&mut row)? {
        return Err(builder.error(1, "the table is empty".to_owned()));
    }
    let first = row.clone();
    let columns = Columns::new(&first, alphabet, table).map_err(|message| builder.error(rows.line, message))?;
    let mut grouped = Grouped::new(alphabet, columns.id.is_some());
    let mut notes = Vec::new();
    let header = columns.header.then(|| first.clone());
    if columns.guessed {
        let names: Vec<String> = columns.observed.iter().map(|&at| quoted(&first[at])).collect();
        let names = names.join(", ");
        notes.push(format!(
            "{file}: line {} is read as a header with {names} (option header overrides this)",
            rows.line
        ));
    }
    let mut more = !columns.header || rows.next(&mut row)?;
    while more {
        if row.len() != first.len() {
            let (found, expected) = (row.len(), first.len());
            let whose = if columns.header { "the header" } else { "the first row" };
            let message = format!("found {found} columns, expected {expected} as in {whose}");
            return Err(builder.error(rows.line, message));
        }
        let wrong = |column: usize, expected: &str, hint: &str| {
            let name = header.as_ref().map_or_else(String::new, |header| format!(" ({})", quoted(&header[column])));
            let (column, found) = (column + 1, quoted(row[column].trim_ascii()));
            builder.error(rows.line, format!("column {column}{name}: found \"{found}\", expected {expected}{hint}"))
        };
        if let Some(column) = columns.id {
            let id = row[column].trim_ascii();
            if id.is_empty() {
                return Err(wrong(column, "the id of a sequence", ""));
            }
            grouped.row_of(id);
        }
        if let Err(column) = grouped.observe(&row, &columns.observed, alphabet) {
            let hint = match () {
                () if alphabet.is_missing(row[column].trim_ascii()) => HINT,
                () if rows.line == 1 && table.header == Header::Auto => " (option header: yes, if this is one)",
                () => "",
            };
            return Err(wrong(column, &alphabet.expected(), hint));
        }
        more = rows.next(&mut row)?;
    }
    if grouped.is_empty() {
        return Err(builder.error(rows.line, "the table has no rows after the header".to_owned()));
    }
    let mut read = grouped.in_order();
    read.notes = notes;
    Ok(read)
}

/// The most frequent separator in the first row, outside of quotes.
pub(super) fn separator(text: &[u8]) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0)];
    let mut inside = false;
    for &byte in text.trim_ascii_start() {
        match byte {
            b'"' => inside = !inside,
            b'\n' | b'\r' if !inside => break,
            byte if !inside => counts.iter_mut().filter(|(known, _)| *known == byte).for_each(|(_, count)| *count += 1),
            _ => {}
        }
    }
    // Ties go to the first one.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(byte, _)| *byte)
}

/// The rows of a table, with line numbers.
struct Rows<'t> {
    reader: csv::Reader<&'t [u8]>,
    text: &'t [u8],
    file: &'t str,
    /// Line on which the last row begins, from 1.
    line: u64,
    /// Byte offset up to which lines have been counted.
    counted: usize,
}

impl<'t> Rows<'t> {
    fn new(text: &'t [u8], file: &'t str, separator: u8) -> Self {
        let reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_reader(text);
        Self { reader, text, file, line: 1, counted: 0 }
    }

    /// Reads the next row that is not blank. Returns `false` at the end.
    fn next(&mut self, row: &mut ByteRecord) -> Result<bool, Error> {
        loop {
            let begin = self.reader.position().byte() as usize;
            let found = self.reader.read_byte_record(row).map_err(|error| self.error(error.to_string()))?;
            if !found {
                return Ok(false);
            }
            let end = (self.reader.position().byte() as usize).min(self.text.len());
            let blank = |byte: &u8| byte.is_ascii_whitespace();
            let begin = begin + self.text[begin..end].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.line += memchr::memchr_iter(b'\n', &self.text[self.counted..begin]).count() as u64;
            self.counted = begin;
            let raw = &self.text[begin..end];
            if raw.iter().all(blank) && row.len() == 1 {
                continue;
            }
            let ends = end == self.text.len() && memchr::memchr(b'\n', raw.trim_ascii()).is_some();
            if ends && memchr::memchr_iter(b'"', raw).count() % 2 == 1 {
                return Err(self.error("a field in quotes does not end".to_owned()));
            }
            return Ok(true);
        }
    }

    fn error(&self, message: String) -> Error {
        Error::Line { file: self.file.to_owned(), line: self.line, message }
    }
}

/// The columns to read, as indices.
pub(super) struct Columns {
    /// Whether the first row is a header.
    pub header: bool,
    /// Whether `header` is a guess that deserves a note.
    guessed: bool,
    pub id: Option<usize>,
    /// The column of the symbol, or the columns of the vector.
    pub observed: Vec<usize>,
}

impl Columns {
    pub fn new(first: &ByteRecord, alphabet: &Alphabet, table: &Table) -> Result<Self, String> {
        let width = first.len();
        let number = |text: &str| integer(text.as_bytes()).filter(|number| (1..=width as u64).contains(number));
        let of_number = |text: &str| number(text).map(|number| number as usize - 1);
        let called = |text: &str| first.iter().position(|name| name.trim_ascii() == text.as_bytes());
        let named = table.header != Header::No && alphabet.columns.iter().all(|name| called(name).is_some());
        let wanted = if table.columns.is_empty() && named { alphabet.columns } else { &table.columns[..] };
        let asked = || wanted.iter().chain(&table.id);
        let by_name = asked().any(|text| of_number(text).is_none() && called(text).is_some());
        let is_id = table.id.is_none() && first[0].trim_ascii().eq_ignore_ascii_case(ID);
        let find = |text: &String, header: bool| match called(text).filter(|_| header) {
            Some(at) => match first.iter().filter(|name| name.trim_ascii() == text.as_bytes()).count() {
                1 => Ok(at),
                count => Err(format!("{count} columns are called {}", quoted(text.as_bytes()))),
            },
            None => of_number(text).ok_or_else(|| {
                let names: Vec<String> = first.iter().map(|name| quoted(name.trim_ascii())).collect();
                let there = match header {
                    _ if integer(text.as_bytes()).is_some() => format!("the rows have {width}"),
                    true => format!("the header has {}", names.join(", ")),
                    false => format!("the rows have {width}, and no header names them"),
                };
                format!("there is no column {}: {there}", quoted(text.as_bytes()))
            }),
        };
        let resolve = |header: bool| -> Result<(Option<usize>, Vec<usize>), String> {
            let id = match &table.id {
                Some(text) => Some(find(text, header)?),
                None => (header && is_id).then_some(0),
            };
            let observed: Vec<usize> = match wanted {
                [] => (0..width).filter(|&at| Some(at) != id).collect(),
                columns => columns.iter().map(|text| find(text, header)).collect::<Result<_, _>>()?,
            };
            Ok((id, observed))
        };
        let (header, guessed) = match table.header {
            Header::Yes => (true, false),
            Header::No => (false, false),
            Header::Auto if by_name || is_id => (true, false),
            Header::Auto => {
                // An unknown column name is an error that lists the names of the first row.
                let observed = resolve(true)?.1;
                let like_name = |text: &[u8]| match alphabet.dimensions.is_some() || alphabet.names.is_empty() {
                    true => !matches!(text.first(), None | Some(b'0'..=b'9' | b'+' | b'-' | b'.')),
                    false => !alphabet.is_observation(text),
                };
                // `real` rejects "inf" and "nan", which are no column names either.
                let number = |text: &[u8]| str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok());
                let names = |at: &usize| {
                    let text = first[*at].trim_ascii();
                    like_name(text) && !alphabet.is_missing(text) && !(number(text) && real(text).is_none())
                };
                let header = !observed.is_empty() && observed.iter().all(names);
                (header, header && !alphabet.names.is_empty())
            }
        };
        let (id, observed) = resolve(header)?;
        let expected = alphabet.dimensions.unwrap_or(1);
        if observed.len() != expected {
            let (of, choose) = match wanted {
                [] if id.is_some() => (" beside the ids", " (option columns selects them)"),
                [] => ("", " (option columns selects them)"),
                _ => (" named", ""),
            };
            let found = observed.len();
            let columns = if found == 1 { "column" } else { "columns" };
            return Err(format!(
                "found {found} {columns}{of}, expected {expected} for an observation of the model{choose}"
            ));
        }
        Ok(Self { header, guessed, id, observed })
    }
}

/// The rows of a table, grouped by sequence.
struct Grouped {
    read: Read,
    /// Sequence index of each id.
    numbers: HashMap<Vec<u8>, u32>,
    /// Sequence index of each row; empty without ids.
    sequence: Vec<u32>,
    named: bool,
}

impl Grouped {
    fn new(alphabet: &Alphabet, named: bool) -> Self {
        Self { read: Read::new(alphabet.dimensions), numbers: HashMap::new(), sequence: Vec::new(), named }
    }

    fn is_empty(&self) -> bool {
        self.read.len() == 0
    }

    /// Assigns the next row to the sequence with this id.
    fn row_of(&mut self, id: &[u8]) {
        let number = match self.numbers.get(id) {
            Some(&number) => number,
            None => {
                let number = self.numbers.len() as u32;
                self.numbers.insert(id.to_owned(), number);
                self.read.names.push(String::from_utf8_lossy(id).into_owned());
                number
            }
        };
        self.sequence.push(number);
    }

    /// Adds the observation of a row. Fails with the index of the column that is no observation.
    fn observe(&mut self, row: &ByteRecord, columns: &[usize], alphabet: &Alphabet) -> Result<(), usize> {
        let lost = |field: &[u8]| alphabet.missing != Missing::Refuse && alphabet.is_missing(field);
        match &mut self.read.observations {
            Observations::Symbols(symbols) => {
                let field = row[columns[0]].trim_ascii();
                symbols.push(match alphabet.symbol(field) {
                    Some(symbol) => symbol,
                    None if lost(field) => MISSING,
                    None => return Err(columns[0]),
                });
            }
            Observations::Vectors { values, .. } => {
                for &column in columns {
                    let field = row[column].trim_ascii();
                    values.push(match real(field) {
                        Some(value) => value,
                        None if lost(field) => f64::NAN,
                        None => return Err(column),
                    });
                }
            }
        }
        Ok(())
    }

    /// Reorders the rows so that those of each sequence are contiguous.
    fn in_order(self) -> Read {
        let Self { mut read, sequence, named, .. } = self;
        if !named {
            read.offsets.push(read.len());
            return read;
        }
        let mut counts = vec![0u64; read.names.len()];
        sequence.iter().for_each(|&number| counts[number as usize] += 1);
        read.offsets = crate::sequences::offsets(counts.iter().map(|&count| count as usize));
        let mut next = read.offsets.clone();
        let places = sequence.iter().map(|&number| {
            let place = next[number as usize];
            next[number as usize] += 1;
            place as usize
        });
        match &mut read.observations {
            Observations::Symbols(symbols) => {
                let mut ordered = vec![0; symbols.len()];
                places.zip(&*symbols).for_each(|(place, &symbol)| ordered[place] = symbol);
                *symbols = ordered;
            }
            Observations::Vectors { dimensions, values } => {
                let d = *dimensions as usize;
                let mut ordered = vec![0.0; values.len()];
                places
                    .zip(values.chunks_exact(d))
                    .for_each(|(place, row)| ordered[place * d..][..d].copy_from_slice(row));
                *values = ordered;
            }
        }
        read
    }
}

/// A field of a table, in quotes if it needs them.
#[must_use]
pub fn field(text: &str) -> String {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    // Writing to a vector cannot fail, and the result is UTF-8.
    let written = writer.write_record([text, ""]).ok().and_then(|()| writer.into_inner().ok());
    let line = written.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    line.trim_end_matches('\n').strip_suffix(',').unwrap_or_default().to_owned()
}

/// Writes sequences, numbered from 1.
pub fn write(out: &mut impl Write, sequences: &Sequences, model: &Hmm) -> io::Result<()> {
    match sequences.observations() {
        Observations::Symbols(_) => out.text("sequence,symbol\n")?,
        Observations::Vectors { dimensions, .. } => {
            out.text("sequence")?;
            let names = super::column_names(model);
            for k in 0..*dimensions as usize {
                match names.get(k) {
                    Some(name) => write!(out, ",{}", field(name))?,
                    None => write!(out, ",x{}", k + 1)?,
                }
            }
            out.text("\n")?;
        }
    }
    let names: Vec<String> = model.names().symbols.iter().map(|name| field(name)).collect();
    for sequence in 0..sequences.len() {
        for at in sequences.range(sequence) {
            out.integer(sequence as u64 + 1)?;
            match sequences.observations() {
                Observations::Symbols(symbols) => {
                    out.text(",")?;
                    out.text(&name(&names, symbols[at]))?;
                }
                Observations::Vectors { dimensions, values } => {
                    let d = *dimensions as usize;
                    for &value in &values[at * d..][..d] {
                        out.text(",")?;
                        if value.is_nan() { out.text("NA")? } else { out.real(value)? }
                    }
                }
            }
            out.text("\n")?;
        }
    }
    Ok(())
}
