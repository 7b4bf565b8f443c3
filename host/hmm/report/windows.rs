//! Reports of the scores of windows.

use std::io::{self, Write};

use serde::Serialize;

use super::{Context, ScoreFormat};
use crate::io::sequences::field;
use warpkov_common::io::npy;
use warpkov_common::numbers::Numbers;
use warpkov_common::report::{Report, Results};

/// ln P of each window.
#[derive(Clone, Debug)]
pub struct WindowScores<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// W, the observations of a window.
    pub window: usize,
    /// The sequence of each window and its first observation there, both from 0.
    pub places: Vec<(usize, usize)>,
    /// ln P of each window.
    pub log_likelihoods: Vec<f64>,
}

impl WindowScores<'_> {
    /// The position in its sequence, from 1, of the first observation of each window.
    fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        let records = self.context.records;
        // Where observations were removed, positions are not adjacent.
        let own = |at: usize| records.positions.get(at).copied();
        self.places.iter().map(move |&(sequence, first)| {
            let at = records.sequences.range(sequence).start + first;
            own(at).unwrap_or(records.start(sequence) + first as u64) + 1
        })
    }
}

impl Report for WindowScores<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "sequence,position,log_likelihood")?;
        let mut named: Option<(usize, String)> = None;
        for ((&(sequence, _), position), log) in self.places.iter().zip(self.positions()).zip(&self.log_likelihoods) {
            let name = match named.take() {
                Some((last, name)) if last == sequence => name,
                _ => field(&self.context.records.name(sequence)),
            };
            writeln!(out, "{name},{position},{log:?}")?;
            named = Some((sequence, name));
        }
        Ok(())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            window: usize,
            sequences: Vec<usize>,
            first: Vec<u64>,
            log_likelihoods: Numbers<'a>,
        }
        let fields = Fields {
            window: self.window,
            sequences: self.places.iter().map(|(sequence, _)| sequence + 1).collect(),
            first: self.positions().collect(),
            log_likelihoods: Numbers(&self.log_likelihoods),
        };
        self.context.write_json(out, fields)
    }
}

impl Results for WindowScores<'_> {
    type Format = ScoreFormat;

    fn write_as(&self, format: ScoreFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            ScoreFormat::Csv => self.write_text(out),
            ScoreFormat::Npy => npy::write(out, &self.log_likelihoods),
        }
    }
}
