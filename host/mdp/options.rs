//! What a solve is asked for.

use serde::Serialize;

use crate::common::choice::choice;
use crate::runtime::choose::DeviceChoice;

choice! {
    /// How a model is solved.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Method {
        /// Policy iteration on one CPU core; the baseline.
        Serial = "serial",
        /// Policy iteration on all CPU cores.
        Parallel = "parallel",
        /// Policy iteration on the GPU: every sweep reads the rows of the whole model that the policy selects.
        Plain = "plain",
        /// Policy iteration on the GPU: the rows that the policy selects are first gathered into a matrix of their own.
        Projected = "projected",
        /// Value iteration, on all CPU cores or on the GPU.
        Values = "values",
        /// Value iteration on one CPU core, in place; the baseline of Jóhannsson (2009).
        Sequential = "sequential",
        /// Value iteration on the GPU with a thread for every result of every action: his Result Divided Iteration.
        ResultDivided = "result-divided",
        /// Value iteration on the GPU in blocks of states, several sweeps at a time: his Block Divided Iteration.
        BlockDivided = "block-divided",
        /// Value iteration by Gauss-Seidel sweeps, on all CPU cores.
        GaussSeidel = "gauss-seidel",
        /// Modified policy iteration, on all CPU cores or on the GPU: a greedy sweep, then some sweeps of its policy.
        Modified = "modified",
        /// Policy iteration, on all CPU cores or on the GPU, whose policies are evaluated by BiCGSTAB: for γ near 1. Always in
        /// `f64`.
        Krylov = "krylov",
    }
}

impl Method {
    /// Whether a round ends with the improvement of a policy.
    #[must_use]
    pub fn has_policies(self) -> bool {
        !matches!(
            self,
            Self::Values
                | Self::Sequential
                | Self::ResultDivided
                | Self::BlockDivided
                | Self::GaussSeidel
                | Self::Modified
        )
    }

    /// The precision in which it settles ties where `asked` is asked for: BiCGSTAB has no use for less than `f64`.
    #[must_use]
    pub fn precision(self, asked: Precision) -> Precision {
        if self == Self::Krylov { Precision::F64 } else { asked }
    }

    /// Where it runs.
    #[must_use]
    pub fn places(self) -> Places {
        match self {
            Self::Serial | Self::Parallel | Self::Sequential | Self::GaussSeidel => Places { cpu: true, gpu: false },
            Self::Plain | Self::Projected | Self::ResultDivided | Self::BlockDivided => {
                Places { cpu: false, gpu: true }
            }
            Self::Values | Self::Modified | Self::Krylov => Places { cpu: true, gpu: true },
        }
    }
}

/// Where a method runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// On the CPU.
    pub cpu: bool,
    /// On a GPU, or emulated.
    pub gpu: bool,
}

choice! {
    /// The floating-point type of V, P and R in the sweeps. Certificates are computed in `f64` for both.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Precision {
        /// 32 bits: half the memory traffic.
        F32 = "f32",
        /// 64 bits.
        F64 = "f64",
        /// Value iteration on a GPU that has room for the model begins in 32 bits and ends in 64; all else is in 64 bits.
        Mixed = "mixed",
        /// Value iteration sweeps in 32 bits and is refined in 64 on the host; all else is in 64 bits.
        Refined = "refined",
    }
}

impl Precision {
    /// The tie-break ε that suits the rounding errors of Q-factors in this precision.
    pub fn default_tie(self) -> f64 {
        match self {
            Self::F32 => 1e-6,
            Self::F64 | Self::Mixed | Self::Refined => 1e-9,
        }
    }

    /// The same where values are to come as close as `target`: in `f64` less than would keep them from that.
    pub fn tie_for(self, target: Target, gamma: f64) -> f64 {
        match (self, target) {
            (Self::F32, _) | (_, Target::Theta(_)) => self.default_tie(),
            (_, Target::Epsilon(epsilon)) => self.default_tie().min(epsilon * (1.0 - gamma) / 4.0),
        }
    }
}

choice! {
    /// In which order states are numbered while a model is solved. What comes out is in the model's own order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Reorder {
        /// Reverse Cuthill–McKee where successors are far away and it brings them much nearer.
        #[default]
        Auto = "auto",
        /// The model's own.
        None = "none",
        /// Reverse Cuthill–McKee.
        Rcm = "rcm",
    }
}

choice! {
    /// How a model is laid out on the device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Storage {
        /// Compressed rows, several lanes per row.
        Rows = "rows",
        /// Slices of 32 states.
        Slices = "slices",
        /// Slices of small entries: offsets of one or two bytes, a palette of probabilities and one of rewards.
        Narrow = "narrow",
        /// The number of a pattern for each state.
        Patterns = "patterns",
    }
}

/// How Block Divided Iteration divides the states, and what it does with a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BlockDivided {
    /// Threads of a block in x: columns of a tile, where the states are cells of a grid.
    pub width: u32,
    /// Threads of a block in y: rows of a tile, times the states per thread.
    pub height: u32,
    /// Sweeps over a block before others see its values, at least 1.
    pub sweeps_per_launch: u32,
    /// Whether values that a block needs of others are copied to shared memory.
    pub buffering: bool,
    /// States that a thread has, of which a pass updates the one that needs it most: 2 to 5; or 1, and nothing to choose.
    pub states_per_thread: u32,
    /// U_c, in the units of V, above 0: the larger, the more evenly a thread's states take turns.
    pub update_constant: f64,
}

impl BlockDivided {
    /// That of the source, section 6.1, without enhancements; it does not give a U_c.
    pub const PLAIN: Self = Self {
        width: 16,
        height: 8,
        sweeps_per_launch: 8,
        buffering: false,
        states_per_thread: 1,
        update_constant: 0.1,
    };
}

impl Default for BlockDivided {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// Places that blocks may have in all: the number of a place is stored beside those of values in shared memory.
pub(super) const MOST_PLACES: u32 = u32::MAX - (1 << 16);

/// Why states cannot be divided so.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadBlocks {
    /// Not 1 to 1024 threads.
    #[error("blocks of {width} × {height} threads, expected 1 to 1024 threads")]
    Threads {
        /// In x.
        width: u32,
        /// In y.
        height: u32,
    },
    /// No sweep at all.
    #[error("0 sweeps per launch, expected at least 1")]
    Sweeps,
    /// Not 1 to 5.
    #[error("{0} states per thread, expected 1 to 5")]
    StatesPerThread(u32),
    /// Not above 0.
    #[error("an update constant of {0}, expected a finite number above 0")]
    UpdateConstant(f64),
    /// More places than can be numbered.
    #[error("blocks of {width} × {height} states have {places} places for {states}, expected {MOST_PLACES} at most")]
    Places {
        /// Columns of a block.
        width: u32,
        /// Rows of a block.
        height: u32,
        /// Places of all blocks.
        places: u64,
        /// States.
        states: u32,
    },
}

/// How close to come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// ε: until it is certain that ‖V − V*‖∞ ≤ ε.
    Epsilon(f64),
    /// θ: until ‖ΔV‖∞ < θ in a sweep, of each policy or of value iteration; the rule of the sources.
    Theta(f64),
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// How close to come.
    pub target: Target,
    /// K_max: sweeps at most, per policy or of value iteration.
    pub max_sweeps: u32,
    /// Policies at most.
    pub max_policies: u32,
    /// ε of the tie-break: how much better an action must be to replace the present one.
    pub tie: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { target: Target::Epsilon(1e-6), max_sweeps: 1_000_000, max_policies: 10_000, tie: 1e-9 }
    }
}

/// What a solve is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// How to compute; `None` is what [`auto`](super::auto) chooses.
    pub method: Option<Method>,
    /// Where to compute.
    pub device: DeviceChoice,
    /// In which floating-point type.
    pub precision: Precision,
    /// How value iteration stores the model on a GPU; `None` is the smallest that it has.
    pub storage: Option<Storage>,
    /// Whether value iteration on a GPU passes over states that cannot have changed. The values are the same.
    pub skip: bool,
    /// Bytes of a GPU's memory to use at most; value iteration streams larger models through them.
    pub device_memory: Option<u64>,
    /// In which order.
    pub reorder: Reorder,
    /// When to stop.
    pub limits: Limits,
    /// How [`Method::BlockDivided`] divides states.
    pub blocks: BlockDivided,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            method: None,
            device: DeviceChoice::Auto,
            precision: Precision::Mixed,
            storage: None,
            skip: true,
            device_memory: None,
            reorder: Reorder::default(),
            limits: Limits::default(),
            blocks: BlockDivided::default(),
        }
    }
}
