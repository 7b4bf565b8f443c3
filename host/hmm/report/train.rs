//! Reports of training.

use std::io::{self, Write};

use serde::Serialize;

use super::Context;
use crate::io as files;
use crate::maximise::{Held, Spread};
use crate::options::{By, Options};
use crate::select::{Candidate, best};
use crate::train::{Round, Run, Status, Trained, aic, bic};
use warpkov_common::numbers::Numbers;
use warpkov_common::report::{Report, Results};

/// What training gives, and how.
#[derive(Clone, Debug)]
pub struct Training<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// All models, and the best of them.
    pub trained: &'a Trained,
    /// The options of training.
    pub options: &'a Options,
    /// All numbers of states that were tried, if one of them was chosen.
    pub candidates: &'a [Candidate],
}

impl Training<'_> {
    /// M steps of the best model.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.trained.best().log_likelihoods.len() - 1
    }

    /// The variances of the best model that the floor holds.
    fn held(&self) -> Held {
        if self.iterations() == 0 {
            return Held::default();
        }
        Held::new(&self.trained.best().model, &Spread::new(&self.context.records.sequences).floors(self.options.floor))
    }

    /// AIC and BIC of the best model, where ln P(O) is known.
    fn criteria(&self) -> Option<(f64, f64)> {
        let best = self.trained.best();
        let log = best.log_likelihood();
        let parameters = self.options.parameters(&best.model);
        match self.options.by {
            By::BaumWelch => Some((aic(parameters, log), bic(parameters, &self.context.records.sequences, log))),
            By::Viterbi => None,
        }
    }

    /// A table of the candidates, with a star for the best.
    fn write_candidates(&self, out: &mut dyn Write) -> io::Result<()> {
        let chosen = best(self.candidates);
        for (at, candidate) in self.candidates.iter().enumerate() {
            let Candidate { states, log_likelihood, aic, bic, held_out, .. } = candidate;
            if at == 0 {
                let held = if held_out.is_some() { "        held out" } else { "" };
                writeln!(out, "States                   ln P(O)             AIC             BIC{held}")?;
            }
            let star = if at == chosen { "*" } else { "" };
            let held = held_out.map_or(String::new(), |log| format!("{log:>16.3}"));
            writeln!(out, "  {:<14}{log_likelihood:>16.3}{aic:>16.3}{bic:>16.3}{held}", format!("{states}{star}"))?;
        }
        Ok(())
    }

    /// Notes on the quality of the result.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (best, precision) = (self.trained.best(), self.context.precision);
        let held = self.held().note(best.model.states(), self.options.floor);
        let fell = best.fell.map(|from| {
            let to = best.objective();
            format!(
                "the likelihood fell from {from} to {to}: {precision} is too inexact for this model and these sequences"
            )
        });
        held.into_iter().chain(fell).collect()
    }
}

impl Report for Training<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let best = self.trained.best();
        let (status, iterations) = (ended(self.trained.status), self.iterations());
        let (first, last) = (best.log_likelihoods[0], best.log_likelihood());
        let likelihood = self.options.by.likelihood();
        let models = match self.trained.runs.len() {
            1 => String::new(),
            models => format!(", the best of {models} models"),
        };
        writeln!(out, "Status           {status} after {iterations} iterations{models}")?;
        writeln!(out, "{likelihood:<16} {first:.6} at first, {last:.6} at last")?;
        if let Some((aic, bic)) = self.criteria() {
            writeln!(out, "AIC, BIC         {aic:.3}, {bic:.3}")?;
        }
        self.context.write_times(out)?;
        self.write_candidates(out)?;
        self.context.write_ranks(out)
    }

    fn guarantee(&self) -> Option<String> {
        let log = self.trained.best().log_likelihood();
        let likelihood = self.options.by.likelihood();
        Some(format!("{likelihood} = {log:.6}, {} after {} iterations", ended(self.trained.status), self.iterations()))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            status: &'static str,
            by: By,
            iterations: usize,
            log_likelihood: f64,
            aic: Option<f64>,
            bic: Option<f64>,
            log_likelihoods: Numbers<'a>,
            best: usize,
            models: usize,
            all: Vec<f64>,
            seconds: f64,
            floor: f64,
            floored: Held,
            fell: Option<f64>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            candidates: &'a [Candidate],
        }
        let (run, (aic, bic)) = (self.trained.best(), self.criteria().unzip());
        let fields = Fields {
            status: ended(self.trained.status),
            by: self.options.by,
            iterations: self.iterations(),
            log_likelihood: run.log_likelihood(),
            aic,
            bic,
            log_likelihoods: Numbers(&run.log_likelihoods),
            best: self.trained.best,
            models: self.trained.runs.len(),
            all: self.trained.runs.iter().map(Run::log_likelihood).collect(),
            seconds: self.context.phases.solve,
            floor: self.options.floor,
            floored: self.held(),
            fell: run.fell,
            candidates: self.candidates,
        };
        self.context.write_json(out, fields)
    }
}

impl Results for Training<'_> {
    type Format = files::Format;

    fn write_as(&self, format: files::Format, out: &mut dyn Write) -> io::Result<()> {
        files::write_to(out, format, &self.trained.best().model)
    }
}

/// One line of progress of a training that maximises `objective`.
#[must_use]
pub fn progress<T>(round: &Round<'_, T>, objective: &str) -> String {
    format!("{objective} {:.6}, {} in training", round.objective, round.active)
}

/// Whether the best model has converged, and else why training ended.
pub(super) fn ended(status: Status) -> &'static str {
    match status {
        Status::Converged => "converged",
        Status::Iterations | Status::Fell => "not converged",
        Status::Interrupted => "interrupted",
    }
}
