//! Reports of posterior probabilities.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::{Context, Each};
use crate::io::sequences::field;
use warpkov_common::choice::file_format;
use warpkov_common::io::npy;
use warpkov_common::numbers::Numbers;
use warpkov_common::report::{Report, Results};

file_format! {
    /// A format of posterior probabilities.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PosteriorFormat {
        /// A table: sequence, position from 1, one probability per state.
        Csv = "csv" in ["csv"],
        /// NumPy's array, ΣT × N.
        Npy = "npy" in ["npy"],
    }
}

impl PosteriorFormat {
    /// A lower bound of the bytes per probability.
    #[must_use]
    pub fn least_bytes(self) -> u64 {
        match self {
            Self::Csv => 4,
            Self::Npy => 8,
        }
    }
}

/// γₜ(i): the posterior probability of each state at each observation.
#[derive(Clone, Debug)]
pub struct Posteriors<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// γₜ(i), ΣT × N; 0 where the model cannot emit the sequence.
    pub probabilities: Vec<f64>,
}

impl Posteriors<'_> {
    /// γₜ(i) of one sequence, T × N.
    #[must_use]
    pub fn of_sequence(&self, sequence: usize) -> &[f64] {
        let (range, n) = (self.context.records.sequences.range(sequence), self.context.states());
        &self.probabilities[range.start * n..range.end * n]
    }

    /// Whether the model can emit a sequence.
    #[must_use]
    pub fn is_possible(&self, sequence: usize) -> bool {
        self.of_sequence(sequence)[..self.context.states()].iter().any(|p| *p > 0.0)
    }

    fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "sequence,position")?;
        for name in self.context.state_names(field) {
            write!(out, ",{name}")?;
        }
        writeln!(out)?;
        for sequence in 0..self.context.sequences() {
            let records = self.context.records;
            let name = field(&records.name(sequence));
            let rows = self.of_sequence(sequence).chunks_exact(self.context.states());
            for (position, row) in records.positions(sequence).map(|at| at + 1).zip(rows) {
                write!(out, "{name},{position}")?;
                for p in row {
                    write!(out, ",{p:?}")?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }
}

/// Rows of equally many numbers.
pub(super) struct MatrixRows<'a>(pub &'a [f64], pub usize);

impl Serialize for MatrixRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.chunks_exact(self.1).map(Numbers))
    }
}

impl Report for Posteriors<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_csv(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            posteriors: Each<MatrixRows<'a>>,
        }
        let rows =
            (0..self.context.sequences()).map(|sequence| MatrixRows(self.of_sequence(sequence), self.context.states()));
        self.context.write_json(out, Fields { posteriors: Each(rows.collect()) })
    }
}

impl Results for Posteriors<'_> {
    type Format = PosteriorFormat;

    fn write_as(&self, format: PosteriorFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            PosteriorFormat::Csv => self.write_csv(out),
            PosteriorFormat::Npy => npy::write_rows(out, &self.probabilities, self.context.states()),
        }
    }
}
