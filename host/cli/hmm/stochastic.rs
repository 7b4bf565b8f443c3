//! `warpkov hmm train --by stochastic`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_hmm::backends::device::OverPaths;
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::Options;
use warpkov_hmm::plot::draw_training;
use warpkov_hmm::report::{Context, StochasticTraining};
use warpkov_hmm::stochastic::{EXPONENT, Passes, Stochastic};
use warpkov_hmm::train::{self as training, Status};

use super::file::{Given, Opened, Source};
use super::training::{ModelOutput, outcome};
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::progress::Steps;
use crate::common::ranks::Ranks;
use crate::common::watch::Watch;
use crate::error::{Error, Outcome};

/// Sequences of a batch if nothing else is asked for.
const BATCH: usize = 256;

/// The batches and their weights.
#[derive(Args, Clone, Copy)]
#[group(skip)]
pub struct Arguments {
    /// Sequences that --by stochastic reads and counts at a time [default: 256].
    #[arg(long, value_name = "N")]
    batch: Option<NonZeroUsize>,
    /// Batch k of --by stochastic counts (k + 1)^-X: 1 for the mean of all, less to forget the first ones sooner [default: 0.7].
    #[arg(long, value_name = "X", value_parser = number::positive)]
    exponent: Option<f64>,
}

impl Arguments {
    /// An option, if one is given.
    pub fn asked(&self) -> Option<&'static str> {
        self.batch.map(|_| "--batch").or(self.exponent.map(|_| "--exponent"))
    }

    /// Largest number of sequences of a batch.
    pub fn batch(&self) -> usize {
        self.batch.map_or(BATCH, NonZeroUsize::get)
    }
}

/// A training by batches.
pub struct Streaming<'a> {
    pub source: &'a Source,
    /// The given model, and the first batch.
    pub given: &'a Given,
    /// The model to start from.
    pub model: Hmm,
    pub options: &'a Options,
    pub batches: Arguments,
    pub output: &'a ModelOutput,
}

/// What a training has found so far.
struct Learnt {
    trained: Stochastic,
    passes: Passes,
    status: Status,
}

impl Streaming<'_> {
    /// Trains, writes the model and the plot, prints the report.
    pub fn run(&self, ranks: &Ranks, out: impl Write) -> Result<Outcome, Error> {
        let count = self.given.ranks(ranks);
        if count > 1 {
            let message = format!("--by stochastic: {count} ranks cannot divide batches: expected one");
            return ranks.agree(Err(Error::Usage(message)));
        }
        let exponent = self.batches.exponent.unwrap_or(EXPONENT);
        let trained = Stochastic::new(self.model.clone(), self.options.clone(), exponent)
            .map_err(|message| Error::Usage(format!("--by stochastic: {message}")))?;
        handle_interrupts();
        let (context, found) = self.given.run(ranks, |opened| {
            let mut watch = Watch::start();
            let mut found = Learnt { trained: trained.clone(), passes: Passes::default(), status: Status::Iterations };
            self.train(opened, &mut found)?;
            let mut context = opened.context();
            context.phases.solve = watch.lap();
            Ok((context, found))
        })?;
        self.finish(&found, context, out)?;
        Ok(outcome(found.status))
    }

    /// Passes over the file until they converge.
    fn train(&self, opened: &Opened<'_, '_>, found: &mut Learnt) -> Result<(), Error> {
        let steps = Steps::new(self.options.iterations as usize, self.output.quiet);
        for _ in 0..self.options.iterations {
            if self.pass(opened, found, &steps)?.is_break() {
                found.status = Status::Interrupted;
                return Ok(());
            }
            steps.next();
            if found.passes.converged(self.options) {
                found.status = Status::Converged;
                return Ok(());
            }
        }
        Ok(())
    }

    /// One pass over the file. Breaks after a stop request; the model is then that of the last batch.
    fn pass(&self, opened: &Opened<'_, '_>, found: &mut Learnt, steps: &Steps) -> Result<ControlFlow<()>, Error> {
        let model = &self.given.model;
        let mut batches = self.source.batches(model)?;
        let (mut log_likelihood, mut sequences, mut observations) = (0.0, 0, 0);
        loop {
            let place = batches.place();
            let Some(records) = batches.next(self.batches.batch())? else { break };
            let learned =
                opened.recursions_over(records.observed(), OverPaths::Sums, model, 1, |recursions| {
                    match found.trained.learn(recursions, &records.sequences) {
                        Err(_) if recursions.interrupted() => Ok(None),
                        Err(training::Error::Impossible { sequence }) => {
                            let why = records.why_impossible(found.trained.model(), sequence - 1);
                            Err(Error::Usage(format!("{place}: {why}: its likelihood is 0")))
                        }
                        learned => Ok(Some(learned?)),
                    }
                });
            let (Some(learned), false) = (learned?.0, interrupt::requested()) else {
                return Ok(ControlFlow::Break(()));
            };
            log_likelihood += learned;
            sequences += records.sequences.len() as u64;
            observations += records.sequences.steps() as u64;
            steps.say(format!(
                "ln P(O) {:.6} per observation, sequence {sequences}",
                learned / records.sequences.steps() as f64
            ));
        }
        found.trained.end_pass();
        found.passes.log_likelihoods.push(log_likelihood);
        (found.passes.sequences, found.passes.observations) = (sequences, observations);
        Ok(ControlFlow::Continue(()))
    }

    /// Writes the model and the plot, prints the report.
    fn finish(&self, found: &Learnt, context: Context<'_>, out: impl Write) -> Result<(), Error> {
        let mut watch = Watch::start();
        let Learnt { trained, passes, status } = found;
        let mut report = StochasticTraining { context, trained, passes, status: *status, batch: self.batches.batch() };
        let (name, logs) = (self.source.input.model.name(), &passes.log_likelihoods[..]);
        let title = format!("{name}: {} passes by batches of {} sequences", logs.len(), report.batch);
        let drawn = |format| draw_training(&title, &[logs], 0, "ln P(O)", format);
        let written = self.output.write(&report, &name, &report.context.ranks, drawn);
        report.context.phases.write = watch.lap();
        written.and(self.output.print(&report, &report.notes(), out))
    }
}
