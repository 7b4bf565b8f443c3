//! Automatic choice of the method, with its cost estimate and the note for the user.
//!
//! A sweep of value iteration multiplies the error by γ, so ln(span r / (ε (1 − γ))) / −ln γ sweeps suffice. All
//! choices follow from this number of sweeps and the time per sweep.
//!
//! The bound is often far too large. If the process mixes, the span falls faster than γⁿ; if the process is absorbed,
//! sweeps soon change nothing. Model features do not reveal this, but sweeps do. So on the CPU, `auto` runs value
//! iteration for a [limited number of sweeps](trial) and switches to Krylov policy iteration if it has not converged.
//! Milliseconds (sweeps) to ε = 1e-6 in `f64` on two busy cores:
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
//! One or two runs each on a machine with other load, so only ratios far from 1 are meaningful. At γ = .9999 no method
//! reached ε on the queues. `auto` never chooses Gauss-Seidel, which does not use the span. It was faster than value
//! iteration on the queues (56 ms at .9, 168 ms at .99; slower at .999), but 6 to 90 times slower on the garnet and the
//! wet floor, or not done within 25 s.
//!
//! On a GPU, `auto` always chooses value iteration. A GPU takes a third of a second to start, so models that all cores
//! solve in less time stay on the CPU. Milliseconds per process on 16 cores and an H200, ε = 1e-5, best of five:
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
use super::solution::Size;
use super::team::Team;
use warpkov_runtime::choose::Cost;
use warpkov_runtime::comm;

/// Nonzeros of P times the bound on the sweeps, per core and second; calibrated on the last row of the table above.
/// Actual runs need fewer sweeps than the bound.
const CORE_RATE: f64 = 3e9;

/// The same rate of a GPU: an H200 sweeps a slip grid of 5·10⁷ nonzeros in SELL layout in 121 µs.
const GPU_RATE: f64 = 4e11;

/// Minimum and maximum number of value iteration sweeps before Krylov policy iteration takes over.
const TRIAL_SWEEPS: [f64; 2] = [128.0, MAX_TRIAL_SWEEPS as f64];

/// Maximum number of sweeps of a trial.
pub const MAX_TRIAL_SWEEPS: u32 = 4096;

/// Value iteration runs without a trial if its sweep bound is at most this.
const TRIAL_THRESHOLD: f64 = 2000.0;

/// Typical number of products with P^π in a Krylov policy iteration run, over all policies.
const KRYLOV_PRODUCTS: f64 = 200.0;

/// Bytes per nonzero of P^π for one product: six reads of 12 bytes, including the preconditioner.
const PRODUCT_BYTES: f64 = 6.0 * 12.0;

/// Number of trial sweeps of value iteration on the CPU, each of which moves `sweep_bytes`. The trial takes about as
/// long as Krylov policy iteration, so it at most doubles the total time.
#[must_use]
pub fn trial(mdp: &Mdp, sweep_bytes: u64) -> u32 {
    let per_row = mdp.transitions().nnz() as f64 / mdp.rows().max(1) as f64;
    let krylov = KRYLOV_PRODUCTS * PRODUCT_BYTES * per_row * f64::from(mdp.states());
    (krylov / sweep_bytes.max(1) as f64).clamp(TRIAL_SWEEPS[0], TRIAL_SWEEPS[1]) as u32
}

/// Bound on the number of sweeps where theory gives none: a target of 0, or γ = 1.
const MAX_SWEEPS: f64 = 1e9;

/// Sweeps that [`criterion_cost`] assumes for criteria without γ: their number depends on how fast the process mixes or is
/// absorbed, which only sweeps show.
const CRITERION_SWEEPS: f64 = 1000.0;

/// Least and greatest reward of transitions and of actions, 0 included.
fn extremes(mdp: &Mdp) -> [[f64; 2]; 2] {
    [mdp.rewards().val(), mdp.action_rewards()].map(|rewards| {
        let of_chunk =
            |chunk: &[f64]| chunk.iter().fold([0.0, 0.0], |[low, high]: [f64; 2], &r| [low.min(r), high.max(r)]);
        let all = rewards.par_chunks(CHUNK).map(of_chunk);
        all.reduce(|| [0.0, 0.0], |a, b| [a[0].min(b[0]), a[1].max(b[1])])
    })
}

/// Model features that determine the choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    /// Nonzeros of P.
    pub entries: usize,
    /// Mean number of actions per state.
    pub actions: f64,
    /// γ.
    pub gamma: f64,
    /// Bound on the sweeps of value iteration.
    pub sweeps: f64,
}

impl Features {
    /// The features of the whole model, of which the ranks of `team` have parts, if `options` leave the method to `auto`.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn if_auto(part: &Mdp, team: &Team, options: &SolveOptions) -> Result<Option<Self>, comm::Error> {
        if options.method.is_some() {
            return Ok(None);
        }
        let negated = |extremes: [[f64; 2]; 2]| extremes.map(|[least, greatest]| [-least, greatest]);
        let mut extremes = negated(extremes(part));
        team.max(extremes.as_flattened_mut())?;
        Ok(Some(Self::estimated(Size::new(part, team)?, negated(extremes), part.gamma(), options.limits.target)))
    }

    /// The features of a model for the given target.
    #[must_use]
    pub fn new(mdp: &Mdp, target: Target) -> Self {
        let size = Size {
            states: mdp.states().into(),
            rows: mdp.rows() as u64,
            transitions: mdp.transitions().nnz() as u64,
            ..Size::default()
        };
        Self::estimated(size, extremes(mdp), mdp.gamma(), target)
    }

    fn estimated(size: Size, [[low, high], [least, greatest]]: [[f64; 2]; 2], gamma: f64, target: Target) -> Self {
        let span = high - low + greatest - least;
        let change = match target {
            Target::Epsilon(epsilon) => epsilon * (1.0 - gamma),
            Target::Theta(theta) => theta,
        };
        let sweeps = if span <= 0.0 || gamma <= 0.0 {
            1.0
        } else if change <= 0.0 || gamma >= 1.0 {
            MAX_SWEEPS
        } else {
            ((change / span).ln() / gamma.ln()).clamp(1.0, MAX_SWEEPS)
        };
        let actions = size.rows as f64 / size.states.max(1) as f64;
        Self { entries: size.transitions as usize, actions, gamma, sweeps }
    }

    /// Estimated cost of value iteration.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost_on(rayon::current_num_threads())
    }

    fn cost_on(&self, cores: usize) -> Cost {
        let (entries, sweeps) = (self.entries, self.sweeps.ceil());
        sweeps_cost(format!("{entries} transitions in {sweeps:.0} sweeps"), entries, self.sweeps, cores)
    }

    /// Whether the CPU runs a limited number of value iteration sweeps first, because value iteration may need too
    /// many.
    #[must_use]
    pub fn needs_trial(&self) -> bool {
        self.sweeps > TRIAL_THRESHOLD
    }

    /// The method to start with, and the note for the user.
    #[must_use]
    pub fn method(&self) -> (Method, String) {
        let method = Method::Values;
        (
            method,
            format!(
                "auto chose {method}: at most {:.0} sweeps without rounding errors, gamma is {}",
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
    use crate::generate::{QueueNetwork, SlipGrid};

    /// ln(r / (1e-6 · 0.1)) / −ln 0.9 is 153 for rewards with span 1; each factor of 10 adds 22.
    #[test]
    fn sweeps_follow_from_gamma_and_epsilon() {
        let grid = SlipGrid { width: 20, height: 20, ..SlipGrid::default() }.generate().unwrap();
        let features = Features { gamma: 0.9, ..Features::new(&grid, Target::Epsilon(1e-6)) };
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
    fn a_gamma_near_one_and_a_target_of_zero_need_a_trial() {
        let queues = QueueNetwork { gamma: 0.999, ..QueueNetwork::default() }.generate().unwrap();
        for target in [Target::Epsilon(1e-6), Target::Epsilon(0.0), Target::Theta(0.0)] {
            let features = Features::new(&queues, target);
            assert!(features.needs_trial(), "{features:?}");
        }
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

    /// Pattern sweeps are short, so the trial has more of them.
    #[test]
    fn a_trial_takes_as_long_as_krylov_policy_iteration() {
        let grid = SlipGrid { width: 50, height: 50, ..SlipGrid::default() }.generate().unwrap();
        let entries = grid.transitions().nnz() as u64;
        let (rows, patterns) = (trial(&grid, 12 * entries + 16 * 2500), trial(&grid, 16 * 2500));
        assert!((150..400).contains(&rows) && patterns > 4 * rows, "{rows}, {patterns}");
        assert_eq!((trial(&grid, 0), trial(&grid, u64::MAX)), (MAX_TRIAL_SWEEPS, 128));
    }

    /// Rows of the table above.
    #[test]
    fn slow_models_go_to_the_gpu() {
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
