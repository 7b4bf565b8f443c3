//! Reports of variational Bayes.

use std::io::{self, Write};

use serde::Serialize;

use super::Context;
use super::train::ended;
use crate::io as files;
use crate::model::Hmm;
use crate::variational::{BeliefRun, TrainedBeliefs};
use warpkov_common::numbers::Numbers;
use warpkov_common::report::{Report, Results};

/// The name of the objective.
pub const LOWER_BOUND: &str = "lower bound";

/// The posterior that variational Bayes finds, and how.
#[derive(Clone, Debug)]
pub struct BeliefTraining<'a> {
    /// Input and device.
    pub context: Context<'a>,
    /// The posteriors from all starts, and the best of them.
    pub trained: &'a TrainedBeliefs,
    /// The model of the means of the best posterior.
    pub model: &'a Hmm,
    /// The best training of each number of states that was tried, if one of them was chosen.
    pub candidates: &'a [TrainedBeliefs],
}

impl BeliefTraining<'_> {
    /// Notes on the quality of the result.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (best, precision) = (self.trained.best(), self.context.precision);
        let fell = best.fell.map(|from| {
            let to = best.bound();
            format!(
                "the lower bound fell from {from} to {to}: {precision} is too inexact for this model and these sequences"
            )
        });
        fell.into_iter().collect()
    }
}

/// A training from one start, or the best one of a number of states.
#[derive(Serialize)]
struct Bound {
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<usize>,
    lower_bound: f64,
    iterations: usize,
    converged: bool,
}

impl Bound {
    fn new(run: &BeliefRun) -> Self {
        let (lower_bound, iterations, converged) = (run.bound(), run.iterations(), run.converged);
        Self { states: None, lower_bound, iterations, converged }
    }
}

impl Report for BeliefTraining<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let TrainedBeliefs { runs, best: at, status } = self.trained;
        let (best, status) = (self.trained.best(), ended(*status));
        let (iterations, starts) = (best.iterations(), runs.len());
        let all = if starts > 1 { format!(", the best of {starts} starts") } else { String::new() };
        writeln!(out, "Status           {status} after {iterations} iterations{all}")?;
        let first = best.bounds.first().copied().unwrap_or(f64::NEG_INFINITY);
        writeln!(out, "Evidence         ln P(O) has the lower bound {:.6}, {first:.6} at first", best.bound())?;
        self.context.write_times(out)?;
        if starts > 1 {
            writeln!(out, "Start               lower bound      iterations")?;
        }
        for (start, run) in runs.iter().enumerate().filter(|_| starts > 1) {
            let star = if start == *at { "*" } else { "" };
            let (bound, iterations) = (run.bound(), run.iterations());
            writeln!(out, "  {:<12}{bound:>17.6}{iterations:>16}", format!("{}{star}", start + 1))?;
        }
        if !self.candidates.is_empty() {
            writeln!(out, "States              lower bound      iterations")?;
        }
        for run in self.candidates.iter().map(TrainedBeliefs::best) {
            let star = if run.beliefs == best.beliefs { "*" } else { "" };
            let (states, bound, iterations) = (run.beliefs.start.len(), run.bound(), run.iterations());
            writeln!(out, "  {:<12}{bound:>17.6}{iterations:>16}", format!("{states}{star}"))?;
        }
        self.context.write_ranks(out)
    }

    fn guarantee(&self) -> Option<String> {
        let (best, status) = (self.trained.best(), ended(self.trained.status));
        Some(format!("ln P(O) >= {:.6}, {status} after {} iterations", best.bound(), best.iterations()))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            status: &'static str,
            by: &'static str,
            iterations: usize,
            lower_bound: f64,
            lower_bounds: Numbers<'a>,
            best: usize,
            models: usize,
            all: Vec<Bound>,
            seconds: f64,
            fell: Option<f64>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            candidates: Vec<Bound>,
        }
        let (trained, run) = (self.trained, self.trained.best());
        let candidate = |trained: &TrainedBeliefs| {
            let best = trained.best();
            Bound { states: Some(best.beliefs.start.len()), ..Bound::new(best) }
        };
        let fields = Fields {
            status: ended(trained.status),
            by: "variational",
            iterations: run.iterations(),
            lower_bound: run.bound(),
            lower_bounds: Numbers(&run.bounds),
            best: trained.best,
            models: trained.runs.len(),
            all: trained.runs.iter().map(Bound::new).collect(),
            seconds: self.context.phases.solve,
            fell: run.fell,
            candidates: self.candidates.iter().map(candidate).collect(),
        };
        self.context.write_json(out, fields)
    }
}

impl Results for BeliefTraining<'_> {
    type Format = files::Format;

    fn write_as(&self, format: files::Format, out: &mut dyn Write) -> io::Result<()> {
        files::write_to(out, format, self.model)
    }
}
