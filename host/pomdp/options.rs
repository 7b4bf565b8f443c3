//! What a solve is asked for, and what it returns.

use std::time::Duration;

use crate::common::choice::choice;
use crate::runtime::choose::DeviceChoice;

choice! {
    /// Which beliefs are looked at.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Expansion {
        /// Walks of random actions.
        Random = "random",
        /// Stochastic simulation with exploratory action: of one successor by each action the farthest from all beliefs.
        Ssea = "ssea",
        /// Greedy error reduction: the successors whose value may be off most.
        Ger = "ger",
        /// Stochastic simulation with greedy action: walks whose actions are those of the lower bound.
        Ssga = "ssga",
        /// Forward search: walks whose actions are those that are best where the state is seen.
        Fsvi = "fsvi",
        /// Walks of three kinds: by the upper bound, by where the state is seen, and by the lower bound.
        Walks = "walks",
        /// Heuristic search: walks by the upper bound to where the bounds are farthest apart.
        Hsvi = "hsvi",
        /// The same as long as the lower bound of the start may profit.
        Sarsop = "sarsop",
        /// Sarsop's trials and walks of forward search by turns, more of those that close the gap faster.
        Mixed = "mixed",
    }
}

impl Expansion {
    /// Whether beliefs come from walks that need not wait for each other: by the hundred they can stay on a device.
    #[must_use]
    pub fn walks(self) -> bool {
        matches!(self, Self::Random | Self::Ssga | Self::Fsvi | Self::Walks)
    }

    /// What to back up after it, if nothing else is asked for.
    #[must_use]
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Random => Scheme::Randomized,
            Self::Ssea | Self::Ger => Scheme::Full,
            Self::Ssga | Self::Fsvi | Self::Walks | Self::Hsvi | Self::Sarsop | Self::Mixed => Scheme::Path,
        }
    }

    /// Why it is chosen where nothing is asked for.
    pub(super) fn merit(self) -> &'static str {
        match self {
            Self::Walks => "they stay on the device, by the hundred",
            _ => "its bounds close fastest on most models",
        }
    }
}

choice! {
    /// Which beliefs are backed up after each expansion.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scheme {
        /// All, again and again until little changes: PBVI.
        Full = "full",
        /// Random ones, until the value of every belief is as good as before or better: Perseus.
        Randomized = "randomized",
        /// Those of the walk, its end first.
        Path = "path",
    }
}

choice! {
    /// Type of the vectors on a device; on the CPU they are f64.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Precision {
        /// 32 bits; scores have 11.
        F32 = "f32",
        /// 64 bits; scores have about 21.
        #[default]
        F64 = "f64",
    }
}

/// Bytes that beliefs and vectors take at most, where nothing is said.
pub const MEMORY: u64 = 8 << 30;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// When the bounds of b₀ are this close.
    pub gap: f64,
    /// When the bound that is attained, `lower` for rewards and `upper` for costs, is this good, if it is given.
    pub target: Option<f64>,
    /// After this time, if it is given; the whole solve counts.
    pub time: Option<Duration>,
    /// Bytes that beliefs and vectors may take: what was of no use for longest is given up before they take more, and the run ends
    /// where that is not enough. `None` is [`MEMORY`], or half of what is free on a GPU.
    pub memory: Option<u64>,
    /// After this many expansions, if it is given.
    pub iterations: Option<u64>,
    /// |Γ| at most: the vectors that are the best of the fewest beliefs are given up, but for those that others go on with: these
    /// are kept aside, and returned.
    pub vectors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { gap: 1e-3, target: None, time: None, memory: None, iterations: None, vectors: 1 << 20 }
    }
}

/// What a solve is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// Where backups are done.
    pub device: DeviceChoice,
    /// In which type, on a device.
    pub precision: Precision,
    /// T: the expected sum of the first T rewards is maximised, 1 or more; `None` is that of all, which needs γ < 1.
    pub horizon: Option<u32>,
    /// Which beliefs are looked at; `None` is what suits most models.
    pub expansion: Option<Expansion>,
    /// Which are backed up; `None` is what suits the expansion.
    pub scheme: Option<Scheme>,
    /// Beliefs of one expansion at most, walks at a time on a device; not of trials on the CPU.
    pub beliefs: usize,
    /// Walks or trials whose paths are backed up together; `None` is one on the CPU and 64 on a device.
    pub trials: Option<usize>,
    /// Equal seeds give equal runs, up to where time ends them.
    pub seed: u64,
    /// When to stop.
    pub limits: Limits,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto,
            precision: Precision::default(),
            horizon: None,
            expansion: None,
            scheme: None,
            beliefs: 256,
            trials: None,
            seed: 0,
            limits: Limits::default(),
        }
    }
}
