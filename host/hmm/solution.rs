//! Results of training.

use super::model::Hmm;

/// The training of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The model, after the last M step.
    pub model: Hmm,
    /// ln P(O) of all sequences before the first M step, and after each M step.
    pub log_likelihoods: Vec<f64>,
    /// `log_likelihoods` plus the logarithm of the prior, up to a constant.
    pub objectives: Vec<f64>,
    /// Whether the model has converged.
    pub converged: bool,
    /// The objective before it decreased by more than [`Options::slack`](super::options::Options::slack). The decrease ended the training of this
    /// model.
    pub fell: Option<f64>,
}

impl Run {
    /// ln P(O) of all sequences under the model.
    #[must_use]
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihoods.last().copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// Whether the training of this model has ended.
    pub(super) fn ended(&self) -> bool {
        self.converged || self.fell.is_some()
    }

    /// The last objective.
    #[must_use]
    pub fn objective(&self) -> f64 {
        self.objectives.last().copied().unwrap_or(f64::NEG_INFINITY)
    }
}
