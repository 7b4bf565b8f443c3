//! Bounds on values from both sides, and their rounding errors.

use super::graph::MERGED;
use crate::model::Pomdp;
use warpkov_mdp::model::Csr;

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Lower and upper bound on Q(b, a) or V\*(b).
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
}

impl Interval {
    /// No bounds.
    pub const ALL: Self = Self { lower: f64::NEG_INFINITY, upper: f64::INFINITY };

    /// The better of both lower, and of both upper bounds.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.min(other.upper) }
    }
}

/// Bounds on the accumulated rounding errors of the lower and the upper bound.
///
/// A backup has at most N [terms]; its error and that of [merged](MERGED) beliefs are discounted and sum to at most
/// 1/(1 − γ) times one of them.
pub(super) fn slack(model: &Pomdp, magnitude: f64) -> [f64; 2] {
    let below = 4.0 * terms(model) * UNIT * magnitude / (1.0 - model.gamma());
    [below, below + 2.0 * MERGED * magnitude / (1.0 - model.gamma())]
}

/// N, an upper limit of the number of products and sums in a backup: the longest rows of T and O, and a belief.
pub(crate) fn terms(model: &Pomdp) -> f64 {
    let longest =
        |matrix: &Csr| matrix.row_ptr().windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or_default() as f64;
    let terms = longest(model.process().transitions()) + longest(model.observations()) + 16.0;
    terms + f64::from(model.observation_count()) + f64::from(model.states())
}
