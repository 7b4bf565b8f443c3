//! Reports of training.

use std::io::{self, Write};

use serde::Serialize;

use super::{Context, Phases};
use crate::io as files;
use crate::maximise::{Held, Spread};
use crate::options::Options;
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
}

impl Training<'_> {
    /// Whether the best model has converged, and else why training ended.
    fn status(&self) -> &'static str {
        match self.trained.status {
            Status::Converged => "converged",
            Status::Iterations | Status::Fell => "not converged",
            Status::Interrupted => "interrupted",
        }
    }

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

    /// AIC and BIC of the best model.
    fn criteria(&self) -> (f64, f64) {
        let best = self.trained.best();
        let log = best.log_likelihood();
        let parameters = self.options.parameters(&best.model);
        (aic(parameters, log), bic(parameters, &self.context.records.sequences, log))
    }

    /// Notes on the quality of the result.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (best, held) = (self.trained.best(), self.held());
        let mut notes = Vec::new();
        if held.states > 0 {
            let (Held { states, variances }, all) = (held, best.model.states());
            let floor = self.options.floor;
            notes.push(format!(
                "the floor holds variances of {states} of {all} states, {variances} in all (floor {floor:e})"
            ));
        }
        if let Some(from) = best.fell {
            let (to, precision) = (best.objective(), self.context.precision);
            notes.push(format!(
                "the likelihood fell from {from} to {to}: {precision} is too inexact for this model and these sequences"
            ));
        }
        notes
    }
}

impl Report for Training<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let best = self.trained.best();
        let (status, iterations) = (self.status(), self.iterations());
        let (first, last) = (best.log_likelihoods[0], best.log_likelihood());
        let (aic, bic) = self.criteria();
        let Context { device, precision, phases: Phases { read, solve, write, .. }, .. } = &self.context;
        let models = match self.trained.runs.len() {
            1 => String::new(),
            models => format!(", the best of {models} models"),
        };
        writeln!(out, "Status           {status} after {iterations} iterations{models}")?;
        writeln!(out, "ln P(O)          {first:.6} at first, {last:.6} at last")?;
        writeln!(out, "AIC, BIC         {aic:.3}, {bic:.3}")?;
        writeln!(out, "Time             {solve:.3} s on {device}, {precision}")?;
        writeln!(out, "  files          {read:.3} s to read, {write:.3} s to write")?;
        self.context.write_ranks(out)
    }

    fn guarantee(&self) -> Option<String> {
        let log = self.trained.best().log_likelihood();
        Some(format!("ln P(O) = {log:.6}, {} after {} iterations", self.status(), self.iterations()))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            status: &'static str,
            iterations: usize,
            log_likelihood: f64,
            aic: f64,
            bic: f64,
            log_likelihoods: Numbers<'a>,
            best: usize,
            models: usize,
            all: Vec<f64>,
            seconds: f64,
            floor: f64,
            floored: Held,
            fell: Option<f64>,
        }
        let (best, (aic, bic)) = (self.trained.best(), self.criteria());
        let fields = Fields {
            status: self.status(),
            iterations: self.iterations(),
            log_likelihood: best.log_likelihood(),
            aic,
            bic,
            log_likelihoods: Numbers(&best.log_likelihoods),
            best: self.trained.best,
            models: self.trained.runs.len(),
            all: self.trained.runs.iter().map(Run::log_likelihood).collect(),
            seconds: self.context.phases.solve,
            floor: self.options.floor,
            floored: self.held(),
            fell: best.fell,
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

/// One line of progress of training.
#[must_use]
pub fn progress(round: &Round) -> String {
    format!("ln P(O) {:.6}, {} in training", round.objective, round.active)
}
