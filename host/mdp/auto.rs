//! Which method `auto` chooses, what it costs, and why.
//!
//! A sweep of value iteration makes the error γ times as large, so that ln(span r / (ε (1 − γ))) / −ln γ sweeps are enough.
//! They are what all choices are about: how many, and how long one takes.
//!
//! But they are often far too many: where the process mixes, the span falls faster than γⁿ, and where it is absorbed, sweeps
//! soon change nothing. Nothing tells beforehand, and sweeps do: on the CPU, value iteration is [tried](trial) for a while, and
//! Krylov policy iteration goes on from there. Milliseconds (sweeps) to ε = 1e-6 in `f64` on two busy cores:
//!
//! | model | γ | values | modified | Krylov |
//! | --- | --- | --- | --- | --- |
//! | garnet, 20,000 states, 4 actions, 5 successors | .9 | 64 (26) | 61 (106) | 181 (103) |
//! | | .999 | 56 (39) | 393 (127) | 278 (185) |
//! | slip grid, 120 × 120 | .99 | 69 (305) | 299 (2731) | 516 (565) |
//! | | .999 | 47 (315) | 280 (2773) | 1132 (618) |
//! | wet floor GW-256x256x4 | .9 | 71 (173) | 238 (274) | 535 (112) |
//! | | .99 | 656 (2027) | 815 (2038) | 742 (403) |
//! | two queues of 63 jobs | .9 | 110 (181) | 32 (190) | 14 (30) |
//! | | .99 | 1868 (1914) | 392 (1933) | 110 (154) |
//! | | .999 | 2933 (2763) | 548 (2773) | 522 (546) |
//!
//! One or two runs each, in a machine with other work: good for ratios far from 1 only. At γ = .9999 no method reached ε on
//! the queues. Gauss-Seidel, which does without the span, was faster than value iteration on the queues (56 at .9, 168 at
//! .99; slower at .999), and 6 to 90 times slower on the garnet and the wet floor, or not done in 25 s; it is not chosen.
//!
//! On a GPU the choice is value iteration. But a process waits a third of a second for a GPU to start, and what all cores finish
//! in that time stays on the CPU. Milliseconds of whole processes, 16 cores and an H200, ε = 1e-5, best of five:
//!
//! | slip grid | γ | CPU | GPU |
//! | --- | --- | --- | --- |
//! | 64 × 64 | .9 | 9 | 332 |
//! | 256 × 256 | .99 | 58 | 342 |
//! | 512 × 512 | .99 | 172 | 370 |
//! | 1024 × 1024 | .9 | 175 | 504 |
//! | | .99 | 560 | 531 |

use rayon::prelude::*;

use super::model::{CHUNK, Mdp};
use super::options::{Method, SolveOptions, Target};
use crate::runtime::choose::Cost;

/// Entries of P times sweeps, of those that are certain to be enough, that a core is done with in a second: what the last line of the
/// table above comes to, about. Fewer sweeps than those are made.
const CORE_RATE: f64 = 3e9;

/// The same of a GPU: an H200 sweeps a slip grid of 5·10⁷ entries, as slices, in 121 µs.
const GPU_RATE: f64 = 4e11;

/// Sweeps of value iteration that are tried before Krylov policy iteration takes over, at least and at most.
const TRIALS: [f64; 2] = [128.0, LONGEST_TRIAL as f64];

/// The latter.
pub const LONGEST_TRIAL: u32 = 4096;

/// Sweeps that are certain to be enough, up to which nothing else is tried.
const FEW: f64 = 2000.0;

/// Products with P^π that Krylov policy iteration takes for all its policies, about.
const PRODUCTS: f64 = 200.0;

/// Times that such a product reads P^π, its preconditioner's share included, and bytes of an entry.
const PRODUCT: f64 = 6.0 * 12.0;

/// Sweeps of value iteration, each over so many bytes, to try on the CPU: as many as take about the time of Krylov policy
/// iteration, so that it is at most doubled.
#[must_use]
pub fn trial(mdp: &Mdp, sweep_bytes: u64) -> u32 {
    let per_row = mdp.transitions().nnz() as f64 / mdp.rows().max(1) as f64;
    let krylov = PRODUCTS * PRODUCT * per_row * f64::from(mdp.states());
    (krylov / sweep_bytes.max(1) as f64).clamp(TRIALS[0], TRIALS[1]) as u32
}

/// Sweeps that [`criterion_cost`] assumes for criteria without γ: their number depends on how fast the process mixes or is
/// absorbed, which only sweeps show.
const CRITERION_SWEEPS: f64 = 1000.0;

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
    /// Those of a model whose method is left to `auto`.
    #[must_use]
    pub fn wanted(mdp: &Mdp, options: &SolveOptions) -> Option<Self> {
        options.method.is_none().then(|| Self::of(mdp, options.limits.target))
    }

    /// Those of a model that is to be solved to `target`.
    #[must_use]
    pub fn of(mdp: &Mdp, target: Target) -> Self {
        let extremes = |rewards: &[f64]| {
            let of_chunk =
                |chunk: &[f64]| chunk.iter().fold([0.0, 0.0], |[low, high]: [f64; 2], &r| [low.min(r), high.max(r)]);
            let all = rewards.par_chunks(CHUNK).map(of_chunk);
            all.reduce(|| [0.0, 0.0], |a, b| [a[0].min(b[0]), a[1].max(b[1])])
        };
        let ([low, high], [least, greatest]) = (extremes(mdp.rewards().val()), extremes(mdp.action_rewards()));
        let span = high - low + greatest - least;
        let gamma = mdp.gamma();
        let change = match target {
            Target::Epsilon(epsilon) => epsilon * (1.0 - gamma),
            Target::Theta(theta) => theta,
        };
        let sweeps = if gamma > 0.0 { ((change / span).ln() / gamma.ln()).max(1.0) } else { 1.0 };
        Self {
            entries: mdp.transitions().nnz(),
            actions: mdp.rows() as f64 / f64::from(mdp.states().max(1)),
            gamma,
            // No rewards, no sweeps.
            sweeps: if sweeps.is_finite() { sweeps } else { 1.0 },
        }
    }

    /// What value iteration costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost_on(rayon::current_num_threads())
    }

    fn cost_on(&self, cores: usize) -> Cost {
        let (entries, sweeps) = (self.entries, self.sweeps.ceil());
        sweeps_cost(format!("{entries} transitions in {sweeps:.0} sweeps"), entries, self.sweeps, cores)
    }

    /// Whether value iteration on the CPU is to be tried first, because it may take too many sweeps.
    #[must_use]
    pub fn needs_trial(&self) -> bool {
        self.sweeps > FEW
    }

    /// The method to begin with, and why it.
    #[must_use]
    pub fn method(&self) -> (Method, String) {
        let method = Method::Values;
        (
            method,
            format!(
                "auto chose {method}: but for rounding errors {:.0} sweeps are enough with gamma = {}",
                self.sweeps.ceil(),
                self.gamma
            ),
        )
    }
}

/// The cost of `sweeps` sweeps of a criterion over a model.
#[must_use]
pub fn criterion_cost(mdp: &Mdp, sweeps: Sweeps) -> Cost {
    let entries = mdp.transitions().nnz();
    let (count, about) = match sweeps {
        Sweeps::Steps(steps) => (f64::from(steps), ""),
        Sweeps::Unknown => (CRITERION_SWEEPS, "an assumed "),
    };
    let work = format!("{entries} transitions in {about}{count:.0} sweeps");
    sweeps_cost(work, entries, count, rayon::current_num_threads())
}

/// The number of sweeps of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweeps {
    /// One for each step of a finite horizon.
    Steps(u32),
    /// As many as convergence takes.
    Unknown,
}

/// The cost of `sweeps` sweeps over `entries` entries of P.
fn sweeps_cost(work: String, entries: usize, sweeps: f64, cores: usize) -> Cost {
    let backups = entries as f64 * sweeps;
    Cost { work, cpu: backups / (CORE_RATE * cores as f64), gpu: backups / GPU_RATE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdp::generate::{QueueNetwork, SlipGrid};

    /// ln(r / (1e-6 · 0.1)) / −ln 0.9 is 153 for rewards that span 1, and 22 more for each factor of 10.
    #[test]
    fn sweeps_follow_from_gamma_and_epsilon() {
        let grid = SlipGrid { width: 20, height: 20, ..SlipGrid::default() }.generate().unwrap();
        let features = Features { gamma: 0.9, ..Features::of(&grid, Target::Epsilon(1e-6)) };
        let span = features.sweeps;
        assert!(span > 100.0 && span < 250.0, "{span}");
        assert!(!features.needs_trial());
        let cost = features.cost_on(1);
        assert!(cost.suits_cpu() && cost.work.contains(&grid.transitions().nnz().to_string()), "{cost:?}");
        let (method, note) = features.method();
        assert_eq!(method, Method::Values);
        assert!(note.contains("0.9"), "{note}");
    }

    #[test]
    fn a_gamma_near_one_needs_a_trial() {
        let queues = QueueNetwork { gamma: 0.999, ..QueueNetwork::default() }.generate().unwrap();
        let features = Features::of(&queues, Target::Epsilon(1e-6));
        assert!(features.needs_trial(), "{features:?}");
    }

    /// A million steps are worth a GPU, ten are not.
    #[test]
    fn steps_of_a_horizon_cost_a_sweep_each() {
        let grid = SlipGrid { width: 20, height: 20, ..SlipGrid::default() }.generate().unwrap();
        let cost = |sweeps| criterion_cost(&grid, sweeps);
        assert!(cost(Sweeps::Steps(10)).suits_cpu());
        assert!(cost(Sweeps::Steps(1_000_000)).cpu > 0.9e5 * cost(Sweeps::Steps(10)).cpu);
        assert!(cost(Sweeps::Unknown).work.contains("assumed"), "{:?}", cost(Sweeps::Unknown));
    }

    /// Sweeps over patterns are short, so that more of them are tried.
    #[test]
    fn a_trial_takes_as_long_as_krylov_policy_iteration() {
        let grid = SlipGrid { width: 50, height: 50, ..SlipGrid::default() }.generate().unwrap();
        let entries = grid.transitions().nnz() as u64;
        let (rows, patterns) = (trial(&grid, 12 * entries + 16 * 2500), trial(&grid, 16 * 2500));
        assert!((150..400).contains(&rows) && patterns > 4 * rows, "{rows}, {patterns}");
        assert_eq!((trial(&grid, 0), trial(&grid, u64::MAX)), (LONGEST_TRIAL, 128));
    }

    /// Lines of the table above.
    #[test]
    fn what_takes_longer_than_a_gpu_to_start_goes_there() {
        let grid = |side: f64, gamma: f64| Features {
            entries: (12.0 * side * side) as usize,
            actions: 4.0,
            gamma,
            sweeps: (1e-5_f64 * (1.0 - gamma)).ln() / gamma.ln(),
        };
        assert!(grid(512.0, 0.99).cost_on(16).suits_cpu() && grid(1024.0, 0.9).cost_on(16).suits_cpu());
        assert!(!grid(1024.0, 0.99).cost_on(16).suits_cpu());
        assert!(!grid(512.0, 0.99).cost_on(2).suits_cpu());
    }
}
