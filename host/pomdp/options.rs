//! Options of a solve.

use std::time::Duration;

use warpkov_common::choice::choice;
use warpkov_runtime::choose::DeviceChoice;

choice! {
    /// How beliefs are sampled.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Expansion {
        /// Walks with random actions.
        Random = "random",
        /// Stochastic simulation with exploratory action: one successor per action, of which the farthest from all
        /// beliefs stays.
        Ssea = "ssea",
        /// Greedy error reduction: the successors with the largest bound on their error.
        Ger = "ger",
        /// Stochastic simulation with greedy action: walks with the actions of the lower bound.
        Ssga = "ssga",
        /// Forward search: walks with the best actions of the fully observed process.
        Fsvi = "fsvi",
        /// A mixture of walks with the actions of the upper bound, of the fully observed process, and of the lower
        /// bound.
        Walks = "walks",
        /// Heuristic search: trials along the upper bound to the belief with the largest gap.
        Hsvi = "hsvi",
        /// Heuristic search that stops where the lower bound at the start cannot improve.
        Sarsop = "sarsop",
        /// Turns of sarsop, fsvi and hsvi, with more work for the one that closes the gap faster.
        Mixed = "mixed",
    }
}

impl Expansion {
    /// Whether beliefs come from independent walks, which a device simulates in large batches.
    #[must_use]
    pub fn walks(self) -> bool {
        matches!(self, Self::Random | Self::Ssga | Self::Fsvi | Self::Walks)
    }

    /// The default backup scheme of the expansion.
    #[must_use]
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Random => Scheme::Randomized,
            Self::Ssea | Self::Ger => Scheme::Full,
            Self::Ssga | Self::Fsvi | Self::Walks | Self::Hsvi | Self::Sarsop | Self::Mixed => Scheme::Path,
        }
    }

    /// The reason for choosing the expansion automatically.
    pub(super) fn merit(self) -> &'static str {
        match self {
            Self::Walks => "all walks stay on the device",
            _ => "its gap closes fastest on most models",
        }
    }
}

choice! {
    /// Which beliefs are backed up after each expansion.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scheme {
        /// All beliefs, in sweeps until little changes: PBVI.
        Full = "full",
        /// Random beliefs, until no belief has a worse value than before: Perseus.
        Randomized = "randomized",
        /// The beliefs of the walk, in reverse order.
        Path = "path",
    }
}

choice! {
    /// Type of vectors on a device; the CPU uses f64.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Precision {
        /// 32 bits, with scores of 11 significant bits.
        F32 = "f32",
        /// 64 bits, with scores of about 21 significant bits.
        #[default]
        F64 = "f64",
    }
}

/// Default memory limit of beliefs and vectors, in bytes.
pub const MEMORY: u64 = 8 << 30;

/// The gap of the bounds at b₀ that ends a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap {
    /// This difference of the bounds.
    Absolute(f64),
    /// This fraction of the [size](Self::size) of the value.
    Relative(f64),
}

/// Least size of a value, relative to what a step of good play earns: a value near 0 needs no relative accuracy.
const LEAST_SIZE: f64 = 0.01;

/// The size of what a step of good play earns, from r(s, a) at s·A + a of a maximisation problem: the largest maxₐ r(s, a),
/// if that is positive, otherwise the least |maxₐ r(s, a)| that is not 0, otherwise the least |r(s, a)| that is not 0. Penalties
/// that good play avoids do not count.
#[must_use]
pub fn earned(rewards: &[f64], actions: usize) -> f64 {
    let best =
        rewards.chunks(actions.max(1)).map(|of_state| of_state.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    let most = best.clone().fold(f64::NEG_INFINITY, f64::max);
    if most > 0.0 {
        return most;
    }
    let least = |sizes: &mut dyn Iterator<Item = f64>| sizes.map(f64::abs).filter(|&size| size > 0.0).reduce(f64::min);
    least(&mut best.clone()).or_else(|| least(&mut rewards.iter().copied())).unwrap_or_default()
}

impl Gap {
    /// The gap that was asked for, as a difference or as a fraction of the value; otherwise the default, which is [`NONE`](Self::NONE)
    /// if the solution is to be `exact`.
    #[must_use]
    pub fn asked(absolute: Option<f64>, relative: Option<f64>, exact: bool) -> Self {
        let default = if exact { Self::NONE } else { Self::default() };
        absolute.map(Self::Absolute).or(relative.map(Self::Relative)).unwrap_or(default)
    }

    /// No limit: [`exact`](SolveOptions::exact) solutions end when only rounding errors are left.
    pub const NONE: Self = Self::Absolute(0.0);

    /// The size of a value that is between `lower` and `upper`: the least |v| of all v between them, but at least 1 % of
    /// `earned`, what a step of good play [earns](earned). It grows with the rewards, and never shrinks while the bounds approach
    /// each other.
    #[must_use]
    pub fn size(lower: f64, upper: f64, earned: f64) -> f64 {
        lower.max(-upper).max(LEAST_SIZE * earned)
    }

    /// The largest gap that ends a run with these bounds.
    #[must_use]
    pub fn limit(self, lower: f64, upper: f64, earned: f64) -> f64 {
        match self {
            Self::Absolute(gap) => gap,
            Self::Relative(part) => part * Self::size(lower, upper, earned),
        }
    }
}

impl Default for Gap {
    fn default() -> Self {
        Self::Relative(1e-3)
    }
}

/// Stopping criteria and limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Stop when the bounds at b₀ are this close.
    pub gap: Gap,
    /// Stop when the attained bound, `lower` for rewards and `upper` for costs, reaches this value.
    pub target: Option<f64>,
    /// Time limit of the whole solve.
    pub time: Option<Duration>,
    /// Memory limit of beliefs and vectors, in bytes. A full memory first drops the least recently used data; the run
    /// ends if that is not enough. `None` is [`MEMORY`], or half of the free memory of a GPU.
    pub memory: Option<u64>,
    /// Limit of the number of expansions.
    pub iterations: Option<u64>,
    /// Limit of |Γ|. Above it, vectors that are best at the fewest beliefs are dropped, except those that other vectors
    /// continue with: these are kept separately and returned.
    pub vectors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { gap: Gap::default(), target: None, time: None, memory: None, iterations: None, vectors: 1 << 20 }
    }
}

/// Options of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// Device of the backups.
    pub device: DeviceChoice,
    /// Type of vectors on a device.
    pub precision: Precision,
    /// T ≥ 1, to maximise the expected sum of the first T rewards; `None` for the infinite horizon, which needs γ < 1.
    pub horizon: Option<u32>,
    /// Whether to solve a small model in all beliefs, by [exact backups](super::solve::exact), instead of sampling beliefs. The run
    /// ends by [`Status::Gap`](super::solution::Status::Gap) at the latest when only rounding errors are left.
    pub exact: bool,
    /// How beliefs are sampled; `None` for the default of the device.
    pub expansion: Option<Expansion>,
    /// Which beliefs are backed up; `None` for the default of the expansion.
    pub scheme: Option<Scheme>,
    /// Maximum number of beliefs per expansion, or of simultaneous walks on a device. Does not apply to trials on the
    /// CPU.
    pub beliefs: usize,
    /// Number of walks or trials that are backed up together; `None` for 1 on the CPU and 64 on a device.
    pub trials: Option<usize>,
    /// Whether a search on the CPU takes trials [beside](super::solve::companion) the walks on a device, in as much
    /// memory of the host. Equal runs then have different results.
    pub companion: bool,
    /// Seed. Equal seeds give equal runs, unless a time limit ends them, or there is a `companion`.
    pub seed: u64,
    /// Stopping criteria and limits.
    pub limits: Limits,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto,
            precision: Precision::default(),
            horizon: None,
            exact: false,
            expansion: None,
            scheme: None,
            beliefs: 256,
            trials: None,
            companion: false,
            seed: 0,
            limits: Limits::default(),
        }
    }
}
