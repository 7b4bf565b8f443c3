//! Reports of stochastic EM.

use std::io::{self, Write};

use serde::Serialize;

use super::Context;
use super::train::ended;
use crate::io as files;
use crate::maximise::Held;
use crate::stochastic::{Passes, Stochastic};
use crate::train::Status;
use warpkov_common::numbers::Numbers;
use warpkov_common::report::{Report, Results};

/// What stochastic EM gives, and how.
#[derive(Clone, Debug)]
pub struct StochasticTraining<'a> {
    /// Input and device. Its records have no names: no more than one batch is in memory.
    pub context: Context<'a>,
    /// The model, with its counts.
    pub trained: &'a Stochastic,
    /// The passes over the file.
    pub passes: &'a Passes,
    /// Whether the passes converged, and else why they ended.
    pub status: Status,
    /// Largest number of sequences of a batch.
    pub batch: usize,
}

impl StochasticTraining<'_> {
    /// Notes on the quality of the result.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (states, floor) = (self.trained.model().states(), self.trained.options().floor);
        self.trained.held().note(states, floor).into_iter().collect()
    }

    fn passes(&self) -> usize {
        self.passes.log_likelihoods.len()
    }
}

impl Report for StochasticTraining<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (status, passes, batch) = (ended(self.status), self.passes(), self.batch);
        let Passes { log_likelihoods, sequences, observations } = self.passes;
        writeln!(
            out,
            "Status           {status} after {passes} passes, {} batches of {batch}",
            self.trained.batches()
        )?;
        if let [first, .., last] | [first @ last] = &log_likelihoods[..] {
            writeln!(out, "ln P(O)          {first:.6} in the first pass, {last:.6} in the last")?;
            writeln!(out, "Sequences        {sequences}, {observations} observations")?;
        }
        self.context.write_times(out)
    }

    fn guarantee(&self) -> Option<String> {
        let log = self.passes.log_likelihoods.last()?;
        Some(format!("ln P(O) = {log:.6} in the last pass, {} after {} passes", ended(self.status), self.passes()))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            status: &'static str,
            by: &'static str,
            iterations: usize,
            log_likelihood: Option<f64>,
            log_likelihoods: Numbers<'a>,
            batches: u32,
            batch: usize,
            sequences: u64,
            observations: u64,
            exponent: f64,
            seconds: f64,
            floored: Held,
        }
        let Passes { log_likelihoods, sequences, observations } = self.passes;
        let fields = Fields {
            status: ended(self.status),
            by: "stochastic",
            iterations: self.passes(),
            log_likelihood: log_likelihoods.last().copied(),
            log_likelihoods: Numbers(log_likelihoods),
            batches: self.trained.batches(),
            batch: self.batch,
            sequences: *sequences,
            observations: *observations,
            exponent: self.trained.exponent(),
            seconds: self.context.phases.solve,
            floored: self.trained.held(),
        };
        self.context.write_json(out, fields)
    }
}

impl Results for StochasticTraining<'_> {
    type Format = files::Format;

    fn write_as(&self, format: files::Format, out: &mut dyn Write) -> io::Result<()> {
        files::write_to(out, format, self.trained.model())
    }
}
