//! Reports of scoring.

use std::io::{self, Write};

use serde::Serialize;

use super::Context;
use crate::backends::device::ForwardMethod;
use crate::io::sequences::field;
use crate::train::{aic, bic};
use warpkov_common::choice::file_format;
use warpkov_common::io::npy;
use warpkov_common::numbers::{Number, Numbers};
use warpkov_common::report::{Report, Results};

file_format! {
    /// A format of log-likelihoods.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ScoreFormat {
        /// A table: sequence, log-likelihood.
        Csv = "csv" in ["csv"],
        /// NumPy's array, M.
        Npy = "npy" in ["npy"],
    }
}

/// ln P(O) of each sequence.
#[derive(Clone, Debug)]
pub struct Scores<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// The method of the forward recursion.
    pub method: ForwardMethod,
    /// ln P(O) of each sequence, M; −∞ where the model cannot emit the sequence.
    pub log_likelihoods: Vec<f64>,
}

impl Scores<'_> {
    /// Whether the model can emit a sequence.
    #[must_use]
    pub fn is_possible(&self, sequence: usize) -> bool {
        self.log_likelihoods[sequence] > f64::NEG_INFINITY
    }

    /// ln P(O) of all sequences, with both information criteria.
    fn total(&self) -> (f64, f64, f64) {
        let Context { model, records, .. } = &self.context;
        let total: f64 = self.log_likelihoods.iter().sum();
        (total, aic(model.parameters(), total), bic(model.parameters(), &records.sequences, total))
    }
}

impl Report for Scores<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { context, method, log_likelihoods } = self;
        let (count, steps) = (context.sequences(), context.records.sequences.steps());
        let (total, aic, bic) = self.total();
        let least = log_likelihoods.iter().copied().fold(f64::INFINITY, f64::min);
        let most = log_likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let impossible = (0..count).filter(|&sequence| !self.is_possible(sequence)).count();
        writeln!(out, "Sequences        {count}, {steps} observations")?;
        writeln!(out, "ln P(O)          {total:.6}, {:.6} per observation", total / steps as f64)?;
        writeln!(out, "  of a sequence  {least:.6} to {most:.6}")?;
        if impossible > 0 {
            writeln!(out, "  not possible   {impossible}")?;
        }
        writeln!(out, "AIC, BIC         {aic:.3}, {bic:.3}")?;
        let by = if *method == ForwardMethod::Fused { "" } else { ", method slices" };
        writeln!(out, "Device           {}, {}{by}", context.device, context.precision)?;
        context.write_ranks(out)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            method: ForwardMethod,
            sequences: usize,
            observations: usize,
            log_likelihood: Number,
            aic: Number,
            bic: Number,
            log_likelihoods: Numbers<'a>,
        }
        let (total, aic, bic) = self.total();
        let fields = Fields {
            method: self.method,
            sequences: self.context.sequences(),
            observations: self.context.records.sequences.steps(),
            log_likelihood: Number(total),
            aic: Number(aic),
            bic: Number(bic),
            log_likelihoods: Numbers(&self.log_likelihoods),
        };
        self.context.write_json(out, fields)
    }
}

impl Results for Scores<'_> {
    type Format = ScoreFormat;

    fn write_as(&self, format: ScoreFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            ScoreFormat::Npy => npy::write(out, &self.log_likelihoods),
            ScoreFormat::Csv => {
                writeln!(out, "sequence,log_likelihood")?;
                for (sequence, log) in self.log_likelihoods.iter().enumerate() {
                    writeln!(out, "{},{log:?}", field(&self.context.records.name(sequence)))?;
                }
                Ok(())
            }
        }
    }
}
