//! Which method, on which device: what `auto` chooses, and why.
//!
//! A sweep of value iteration makes the error γ times as large, so that ln(span r / (ε (1 − γ))) / −ln γ sweeps are enough.
//! They are what all choices are about: how many, and how long one takes.
//!
//! On the CPU, times against those of value iteration (`benches/results/2026-11-21-auto.md`; two cores, ε = 1e-6):
//!
//! MEASURED
//!
//! On a GPU a sweep takes about 5 µs to launch, in which it could have read 20 MB at 4 TB/s: what the CPU keeps in its caches
//! is swept there in less. Large models are swept so fast that the thousands of sweeps of a γ near 1 take less than a
//! single linear system on the host.

use rayon::prelude::*;

use super::model::{CHUNK, Mdp};
use super::options::{Method, Precision};
use super::solve::Target;

/// Entries of P up to which a GPU waits for launches more than it works: the CPU sweeps them in as many microseconds.
pub const LAUNCH_BOUND: usize = 30_000;

/// Sweeps from which on Krylov methods beat greedy sweeps on the CPU.
const MANY_SWEEPS: f64 = 3_000.0;

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    /// Entries of P.
    pub entries: usize,
    /// Actions per state, on average.
    pub actions: f64,
    /// γ.
    pub gamma: f64,
    /// Sweeps of value iteration that are certain to be enough.
    pub sweeps: f64,
}

impl Features {
    /// Those of a model that is to be solved to `target`.
    #[must_use]
    pub fn of(mdp: &Mdp, target: Target) -> Self {
        let extremes = |rewards: &[f64]| {
            let of_chunk =
                |chunk: &[f64]| chunk.iter().fold([0.0, 0.0], |[low, high]: [f64; 2], &r| [low.min(r), high.max(r)]);
            let all = rewards.par_chunks(CHUNK).map(of_chunk);
            all.reduce(|| [0.0, 0.0], |a, b| [a[0].min(b[0]), a[1].max(b[1])])
        };
        let ([low, high], [least, greatest]) = (extremes(&mdp.rewards.val), extremes(&mdp.action_rewards));
        let span = high - low + greatest - least;
        let gamma = mdp.gamma;
        let change = match target {
            Target::Epsilon(epsilon) => epsilon * (1.0 - gamma),
            Target::Theta(theta) => theta,
        };
        let sweeps = if gamma > 0.0 { ((change / span).ln() / gamma.ln()).max(1.0) } else { 1.0 };
        Self {
            entries: mdp.transitions.nnz(),
            actions: mdp.rows() as f64 / f64::from(mdp.states.max(1)),
            gamma,
            // No rewards, no sweeps.
            sweeps: if sweeps.is_finite() { sweeps } else { 1.0 },
        }
    }

    /// Whether the CPU is as fast as a GPU would be, and why.
    #[must_use]
    pub fn suits_cpu(&self) -> Option<String> {
        (self.entries < LAUNCH_BOUND).then(|| {
            format!(
                "auto chose the CPU: a sweep of {} transitions takes it less time than a GPU needs to launch one",
                self.entries
            )
        })
    }

    /// The method for the CPU or for a GPU, and why it.
    #[must_use]
    pub fn method(&self, gpu: bool, precision: Precision) -> (Method, String) {
        let Self { gamma, sweeps, .. } = *self;
        let because = |method: Method, why: String| (method, format!("auto chose {method}: {why}"));
        if gpu {
            return because(Method::Values, format!("at most about {sweeps:.0} sweeps, which the GPU does fastest"));
        }
        if sweeps > MANY_SWEEPS && precision != Precision::F32 {
            let why = format!("value iteration may take {sweeps:.0} sweeps with gamma = {gamma}");
            return because(Method::Krylov, why);
        }
        because(Method::Values, format!("{sweeps:.0} sweeps are enough"))
    }
}
