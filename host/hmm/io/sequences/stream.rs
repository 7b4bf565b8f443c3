//! Streams: one observation per line.

use std::io::{self, Write};

use csv::{ByteRecord, ReaderBuilder};

use super::csv::{Columns, Table, separator};
use super::lines::{UNENDED, Words};
use super::{Alphabet, Missing};
use crate::model::Hmm;
use crate::sequences::Observation;
use warpkov_common::io::lines::{Put, quoted, real};

/// Reads the lines of a stream: a symbol, or the D components of a vector, separated by blanks or commas; or the rows of a
/// table. A marker such as `NA` is a step without an observation, or a missing component of a vector.
pub struct Stream<'m> {
    alphabet: Alphabet<'m>,
    vector: Vec<f64>,
    symbol: Option<u32>,
    /// The options of a table, and its columns once the first row is known.
    table: Option<(Table, Option<Layout>)>,
    /// The id of the last line.
    id: Option<Vec<u8>>,
}

/// The layout of a table's rows.
struct Layout {
    columns: Columns,
    separator: u8,
    width: usize,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The header of a table.
    Header,
    /// A blank line, which ends a sequence.
    Blank,
    /// An observation: [`Stream::observation`].
    Observation,
}

impl<'m> Stream<'m> {
    /// A reader of observations of a model.
    #[must_use]
    pub fn new(model: &'m Hmm) -> Self {
        let alphabet = Alphabet::new(model, Missing::Marginalise);
        Self { alphabet, vector: Vec::new(), symbol: None, table: None, id: None }
    }

    /// A reader of the rows of a table. A row has one line, so that fields in quotes have no line breaks. All rows with the
    /// same [id](Self::id) form one sequence, adjacent or not.
    #[must_use]
    pub fn of_table(model: &'m Hmm, table: Table) -> Self {
        Self { table: Some((table, None)), ..Self::new(model) }
    }

    /// The id of the sequence to which the last line belongs; `None` without a column of ids, or if the line has no id.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        self.id.as_deref()
    }

    /// Whether the columns of the rows are known; always, unless this reads a table.
    #[must_use]
    pub fn has_columns(&self) -> bool {
        self.table.as_ref().is_none_or(|(_, layout)| layout.is_some())
    }

    /// Whether each row must have an [id](Self::id).
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.table.iter().filter_map(|(_, layout)| layout.as_ref()).any(|layout| layout.columns.id.is_some())
    }

    /// The observation of the last line; [`Observation::Missing`] if it had none.
    #[must_use]
    pub fn observation(&self) -> Observation<'_> {
        match (self.symbol, &self.vector[..]) {
            (Some(symbol), _) => Observation::Symbol(symbol),
            (None, x) if self.alphabet.dimensions == Some(x.len()) => Observation::Vector(x),
            _ => Observation::Missing,
        }
    }

    /// The content of a line.
    ///
    /// # Errors
    /// If the line holds anything else than an observation, with a description.
    pub fn parse(&mut self, line: &[u8]) -> Result<Line, String> {
        (self.id, self.symbol) = (None, None);
        self.vector.clear();
        if self.table.is_some() { self.row(line) } else { self.words(line) }
    }

    fn words(&mut self, line: &[u8]) -> Result<Line, String> {
        let (mut words, mut missing) = (0, 0);
        for word in Words(line) {
            let word = word.ok_or_else(|| UNENDED.to_owned())?;
            words += 1;
            if self.alphabet.is_missing(&word) {
                missing += 1;
                self.vector.push(f64::NAN);
            } else if !observe(&self.alphabet, &word, &mut self.vector, &mut self.symbol) {
                return Err(format!("found \"{}\", expected {}", quoted(&word), self.alphabet.expected()));
            }
        }
        let expected = self.alphabet.dimensions.unwrap_or(1);
        match (words, missing) {
            (0, _) => Ok(Line::Blank),
            (1, 1) => {
                self.vector.clear();
                Ok(Line::Observation)
            }
            _ if words != expected => {
                let what = if self.alphabet.dimensions.is_some() { "numbers" } else { "symbols" };
                Err(format!("found {words} {what}, expected {expected} on each line"))
            }
            _ => Ok(Line::Observation),
        }
    }

    fn row(&mut self, line: &[u8]) -> Result<Line, String> {
        let Self { alphabet, vector, symbol, table, id } = self;
        let Some((options, layout)) = table else { return Ok(Line::Blank) };
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Line::Blank);
        }
        let by =
            layout.as_ref().map_or_else(|| options.separator.unwrap_or_else(|| separator(line)), |it| it.separator);
        if memchr::memchr_iter(b'"', line).count() % 2 == 1 {
            return Err("a field in quotes does not end".to_owned());
        }
        let mut row = ByteRecord::new();
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(by).from_reader(line);
        reader.read_byte_record(&mut row).map_err(|error| error.to_string())?;
        let first = layout.is_none();
        let layout = match layout {
            Some(layout) => layout,
            None => {
                let columns = Columns::new(&row, alphabet, options)?;
                layout.insert(Layout { columns, separator: by, width: row.len() })
            }
        };
        if first && layout.columns.header {
            return Ok(Line::Header);
        }
        if row.len() != layout.width {
            return Err(format!("found {} columns, expected {} as in the first row", row.len(), layout.width));
        }
        if let Some(column) = layout.columns.id {
            let found = row[column].trim_ascii();
            if found.is_empty() {
                return Err(format!("column {}: found \"\", expected the id of a sequence", column + 1));
            }
            *id = Some(found.to_owned());
        }
        for &column in &layout.columns.observed {
            let field = row[column].trim_ascii();
            if alphabet.is_missing(field) {
                vector.push(f64::NAN);
            } else if !observe(alphabet, field, vector, symbol) {
                let (field, expected) = (quoted(field), alphabet.expected());
                return Err(format!("column {}: found \"{field}\", expected {expected}", column + 1));
            }
        }
        Ok(Line::Observation)
    }
}

/// Takes a symbol, or a component of a vector. Returns whether the text is one.
fn observe(alphabet: &Alphabet, text: &[u8], vector: &mut Vec<f64>, symbol: &mut Option<u32>) -> bool {
    match alphabet.dimensions {
        Some(_) => real(text).map(|x| vector.push(x)).is_some(),
        None => {
            *symbol = alphabet.symbol(text);
            symbol.is_some()
        }
    }
}

/// Writes the name of a sequence, a position in it, and what is known there, as a row of a table. The name is a
/// [field](super::field).
///
/// # Errors
/// Those of `out`.
pub fn write_row(
    out: &mut impl Write,
    sequence: &str,
    position: u64,
    numbers: impl IntoIterator<Item = f64>,
) -> io::Result<()> {
    out.text(sequence)?;
    out.text(",")?;
    out.integer(position)?;
    for number in numbers {
        out.text(",")?;
        if number.is_finite() { out.real(number)? } else { write!(out, "{number}")? }
    }
    out.text("\n")
}
