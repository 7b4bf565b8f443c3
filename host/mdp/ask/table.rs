//! Tables of states, actions and numbers, by name: as text and as CSV.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};

use csv::WriterBuilder;

use crate::model::{Mdp, NO_ACTION};
use warpkov_common::choice::file_format;
use warpkov_common::terminal::escaped;

/// Rows of a shortened text.
const SHOWN: usize = 20;

file_format! {
    /// A format of tables.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TableFormat {
        /// One JSON object: the report and all numbers.
        Json = "json" in ["json"],
        /// A table with names and a header.
        Csv = "csv" in ["csv"],
        /// A NumPy array of the values.
        Npy = "npy" in ["npy"],
    }
}

/// The name of an action of a state; none for [`NO_ACTION`].
pub(super) fn action(mdp: &Mdp, state: usize, action: u32) -> Option<String> {
    (action != NO_ACTION).then(|| mdp.action_name(state as u32, action))
}

/// Writes a line with a name and what it has, aligned.
pub(super) fn write_line(out: &mut dyn Write, name: &str, what: impl Display) -> io::Result<()> {
    writeln!(out, "{name:<16} {what}")
}

/// A column of a table.
enum Column<'a> {
    /// Names; none is an empty field.
    Texts(Vec<Option<String>>),
    Numbers(Cow<'a, [f64]>),
}

impl Column<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// The field of a row: numbers with the shortest digits that read back as the same bits.
    fn field(&self, row: usize) -> Cow<'_, str> {
        match self {
            Self::Texts(texts) => texts[row].as_deref().unwrap_or_default().into(),
            Self::Numbers(numbers) => format!("{:?}", numbers[row]).into(),
        }
    }

    /// The field of a row for people.
    fn shown(&self, row: usize) -> String {
        match self {
            Self::Texts(texts) => texts[row].as_deref().map_or("-".to_owned(), escaped),
            Self::Numbers(numbers) => format!("{:.6}", numbers[row]),
        }
    }
}

/// Columns of equal length.
#[derive(Default)]
pub(super) struct NamedColumns<'a> {
    columns: Vec<(&'static str, Column<'a>)>,
}

impl<'a> NamedColumns<'a> {
    /// Adds a column of names.
    pub fn texts(&mut self, name: &'static str, texts: Vec<Option<String>>) {
        self.columns.push((name, Column::Texts(texts)));
    }

    /// Adds a column of numbers.
    pub fn numbers(&mut self, name: &'static str, numbers: &'a [f64]) {
        self.columns.push((name, Column::Numbers(Cow::Borrowed(numbers))));
    }

    /// Adds a column of numbers that the table owns.
    pub fn owned(&mut self, name: &'static str, numbers: Vec<f64>) {
        self.columns.push((name, Column::Numbers(Cow::Owned(numbers))));
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Writes a header and all rows.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = WriterBuilder::new().from_writer(out);
        writer.write_record(self.columns.iter().map(|(name, _)| *name))?;
        for row in 0..self.rows() {
            writer.write_record(self.columns.iter().map(|(_, column)| column.field(row).into_owned()))?;
        }
        writer.flush()
    }

    /// Writes the first rows, aligned.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (rows, shown) = (self.rows(), self.rows().min(SHOWN));
        let cells: Vec<(bool, Vec<String>)> = self
            .columns
            .iter()
            .map(|(name, column)| {
                let cells = (0..shown).map(|row| column.shown(row));
                (matches!(column, Column::Texts(_)), std::iter::once((*name).to_owned()).chain(cells).collect())
            })
            .collect();
        let width = |cells: &[String]| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
        for row in 0..=shown {
            let mut line = String::new();
            for (left, column) in &cells {
                let (cell, width) = (&column[row], width(column));
                line += &if *left { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        if rows > shown { writeln!(out, "… ({rows} rows; --out writes all)") } else { Ok(()) }
    }
}
