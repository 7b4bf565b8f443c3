//! Options of a solve.

use std::str::FromStr;

use serde::Serialize;

use warpkov_common::choice::{Choice, choice};
use warpkov_runtime::choose::DeviceChoice;

choice! {
    /// Solution method.
    ///
    /// ```
    /// use warpkov_mdp::options::{BlockDivided, Method};
    ///
    /// assert_eq!("values".parse(), Ok(Method::Values));
    /// let blocks = BlockDivided { width: 4, height: 2, states_per_thread: 2, ..BlockDivided::PLAIN };
    /// assert_eq!("block-divided:block=4x2,states-per-thread=2".parse(), Ok(Method::BlockDivided(blocks)));
    /// assert_eq!("values:block=4x2".parse::<Method>().unwrap_err(), "method values has no options");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub enum Method {
        /// Policy iteration on one CPU core; the baseline.
        Serial = "serial",
        /// Policy iteration on all CPU cores.
        Parallel = "parallel",
        /// Policy iteration on the GPU; every sweep reads the policy's rows from the full model.
        Plain = "plain",
        /// Policy iteration on the GPU; gathers the policy's rows into a matrix P^π before the sweeps, whose products are our
        /// own or, with spmv=cusparse, NVIDIA's.
        Projected(Spmv = Spmv::Own) = "projected",
        /// Value iteration on all CPU cores or on the GPU.
        Values = "values",
        /// Value iteration on one CPU core, in place; the baseline of Jóhannsson (2009).
        Sequential = "sequential",
        /// Value iteration on the GPU, one thread per result of an action: Result Divided Iteration of Jóhannsson
        /// (2009).
        ResultDivided = "result-divided",
        /// Value iteration on the GPU in blocks of states, several sweeps per launch: Block Divided Iteration of
        /// Jóhannsson (2009).
        BlockDivided(BlockDivided = BlockDivided::PLAIN) = "block-divided",
        /// Value iteration by Gauss-Seidel sweeps on all CPU cores.
        GaussSeidel = "gauss-seidel",
        /// Modified policy iteration on all CPU cores or on the GPU: each greedy sweep is followed by evaluation
        /// sweeps.
        Modified = "modified",
        /// Policy iteration on all CPU cores or on the GPU with BiCGSTAB policy evaluation, in f64; for γ near 1.
        Krylov = "krylov",
    }
}

impl Method {
    /// Whether each round of the method ends with a policy improvement.
    #[must_use]
    pub fn has_policies(self) -> bool {
        !matches!(
            self,
            Self::Values
                | Self::Sequential
                | Self::ResultDivided
                | Self::BlockDivided(_)
                | Self::GaussSeidel
                | Self::Modified
        )
    }

    /// The name, with the options that differ from the usual ones: `projected:spmv=cusparse`.
    #[must_use]
    pub fn label(self) -> String {
        match self {
            Self::Projected(Spmv::Cusparse) => format!("{self}:spmv={}", Spmv::Cusparse),
            _ => self.to_string(),
        }
    }

    /// Whether several ranks can run the method together.
    #[must_use]
    pub fn divides(self) -> bool {
        match self {
            Self::Parallel | Self::Projected(_) | Self::Values | Self::GaussSeidel | Self::Modified | Self::Krylov => {
                true
            }
            Self::Serial | Self::Plain | Self::Sequential | Self::ResultDivided | Self::BlockDivided(_) => false,
        }
    }

    /// The precision of the method for the `requested` precision: Krylov always uses `f64`.
    #[must_use]
    pub fn precision(self, requested: Precision) -> Precision {
        if self == Self::Krylov { Precision::F64 } else { requested }
    }

    /// The devices the method supports.
    #[must_use]
    pub fn places(self) -> RunsOn {
        match self {
            Self::Serial | Self::Parallel | Self::Sequential | Self::GaussSeidel => RunsOn { cpu: true, gpu: false },
            Self::Plain | Self::Projected(_) | Self::ResultDivided | Self::BlockDivided(_) => {
                RunsOn { cpu: false, gpu: true }
            }
            Self::Values | Self::Modified | Self::Krylov => RunsOn { cpu: true, gpu: true },
        }
    }
}

choice! {
    /// Products of P^π with V in [`Method::Projected`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Spmv {
        /// One kernel of our own computes the product, adds r^π and takes the maximum of the changes.
        Own = "own",
        /// The product is that of NVIDIA's cuSPARSE, loaded at run time, as in Aydin (2025), 4.3. On one GPU.
        Cusparse = "cusparse",
    }
}

/// Devices that a method supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsOn {
    /// The CPU.
    pub cpu: bool,
    /// A GPU or the emulator.
    pub gpu: bool,
}

choice! {
    /// Floating-point type of V, P and R in the sweeps. Certificates are always computed in f64.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Precision {
        /// 32 bits; half the memory traffic of f64.
        F32 = "f32",
        /// 64 bits.
        F64 = "f64",
        /// Value iteration in f32, then in f64, on a GPU that holds the whole model; f64 otherwise.
        Mixed = "mixed",
        /// Value iteration in f32 with iterative refinement in f64 on the host; f64 otherwise.
        Refined = "refined",
    }
}

impl Precision {
    /// Default tie margin for the rounding errors of Q-factors in this precision.
    pub fn default_tie(self) -> f64 {
        match self {
            Self::F32 => 1e-6,
            Self::F64 | Self::Mixed | Self::Refined => 1e-9,
        }
    }

    /// The tie margin for `target`: in `f64`, small enough to reach ε.
    pub fn tie_for(self, target: Target, gamma: f64) -> f64 {
        match (self, target) {
            (Self::F32, _) | (_, Target::Theta(_)) => self.default_tie(),
            (_, Target::Epsilon(epsilon)) => self.default_tie().min(epsilon * (1.0 - gamma) / 4.0),
        }
    }
}

choice! {
    /// State order during a solve. Results are in the model's own order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Reorder {
        /// Reverse Cuthill–McKee if it brings distant successors much nearer.
        #[default]
        Auto = "auto",
        /// The model's own order.
        None = "none",
        /// Reverse Cuthill–McKee.
        Rcm = "rcm",
    }
}

choice! {
    /// Division of the states among ranks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Divide {
        /// METIS if it is built in and halves the number of ghosts, contiguous otherwise.
        Auto = "auto",
        /// Adjacent states, in parts of equal work.
        #[default]
        Contiguous = "contiguous",
        /// Parts of about equal work that few transitions leave, by METIS.
        Metis = "metis",
    }
}

choice! {
    /// Layout of the model on the device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Storage {
        /// Compressed sparse rows, several threads per row.
        Rows = "rows",
        /// Sliced ELLPACK, 32 states per slice.
        Slices = "slices",
        /// Sliced ELLPACK with 1- or 2-byte successor offsets and palettes of probabilities and rewards.
        Narrow = "narrow",
        /// One pattern number per state and a table of patterns.
        Patterns = "patterns",
    }
}

/// Parameters of Block Divided Iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BlockDivided {
    /// Threads per block in x: tile columns if the states are cells of a grid.
    pub width: u32,
    /// Threads per block in y. A tile has `height` · `states_per_thread` rows.
    pub height: u32,
    /// Sweeps per block before other blocks see its values, at least 1.
    pub sweeps_per_launch: u32,
    /// Whether a block copies the values it reads from other blocks to shared memory.
    pub buffering: bool,
    /// States per thread, 1 to 5. With 2 or more, each pass updates only the state with the highest priority.
    pub states_per_thread: u32,
    /// U_c > 0, in units of V: weight of update recency against value change in the priority. Larger values update a
    /// thread's states more evenly.
    pub update_constant: f64,
    /// A thread for each action of a state, in place of one for the state, if a block has so many: the source's hybrid with Result Divided
    /// Iteration. With one state per thread.
    pub by_action: bool,
    /// Which states are a block.
    pub grouping: Grouping,
}

choice! {
    /// How [`Method::BlockDivided`] divides the states into blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Grouping {
        /// Tiles of the grid; without a grid, runs of consecutive states.
        #[default]
        Tiles = "tiles",
        /// Runs of states in the reverse order of Cuthill and McKee, which puts states near their successors.
        Rcm = "rcm",
        /// Neighbourhoods: each block grows from a state by the successors of its states, breadth first.
        Grown = "grown",
        /// Parts that few transitions leave, by METIS, if it is built in.
        Metis = "metis",
    }
}

impl BlockDivided {
    /// Parameters of the source, section 6.1, without enhancements. The source gives no U_c; 0.1 is our choice.
    pub const PLAIN: Self = Self {
        width: 16,
        height: 8,
        sweeps_per_launch: 8,
        buffering: false,
        states_per_thread: 1,
        update_constant: 0.1,
        by_action: false,
        grouping: Grouping::Tiles,
    };
}

impl BlockDivided {
    /// These parameters with one of them set: `block=16x8`, `sweeps-per-launch=8`, `buffering`, `states-per-thread=2`,
    /// `update-constant=0.1`, `by-action` or `grouping=rcm`.
    fn with(mut self, option: &str) -> Result<Self, String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let count = |text: &str| text.parse().ok().filter(|&count: &u32| count > 0);
        match name {
            "block" => {
                let extent = value.split_once(['x', '×']).and_then(|(x, y)| Some((count(x)?, count(y)?)));
                (self.width, self.height) = extent.ok_or("block: expected two counts, as in block=16x8")?;
            }
            "sweeps-per-launch" => {
                self.sweeps_per_launch = count(value).ok_or("sweeps-per-launch: expected a count, at least 1")?;
            }
            "by-action" if !option.contains('=') => self.by_action = true,
            "by-action" => return Err("by-action takes no value".to_owned()),
            "grouping" => {
                self.grouping =
                    Grouping::of_name(value).ok_or_else(|| format!("grouping: {}", Grouping::expected()))?;
            }
            "" => return Err("expected an option after : and each comma, as in block-divided:block=16x8".to_owned()),
            "buffering" if !option.contains('=') => self.buffering = true,
            "buffering" => return Err("buffering takes no value".to_owned()),
            "states-per-thread" => {
                let found = count(value).filter(|&count| count <= 5);
                self.states_per_thread = found.ok_or("states-per-thread: expected a count from 1 to 5")?;
            }
            "update-constant" => {
                let found = value.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
                self.update_constant = found.ok_or("update-constant: expected a finite number above 0")?;
            }
            _ => {
                return Err(format!(
                    "there is no option {name}, expected block, sweeps-per-launch, buffering, states-per-thread, update-constant, by-action \
                     or grouping"
                ));
            }
        }
        Ok(self)
    }
}

impl FromStr for Method {
    type Err = String;

    /// The method of a name, with its parameters: `values`, `block-divided:block=16x8,buffering`, or `projected:spmv=cusparse`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, options) = text.split_once(':').map_or((text, None), |(name, options)| (name, Some(options)));
        let method = Self::of_name(name).ok_or_else(Self::expected)?;
        match (method, options) {
            (_, None) => Ok(method),
            (Self::BlockDivided(plain), Some(options)) => {
                options.split(',').try_fold(plain, BlockDivided::with).map(Self::BlockDivided)
            }
            (Self::Projected(_), Some(options)) => {
                let name =
                    options.strip_prefix("spmv=").ok_or("expected projected:spmv=own or projected:spmv=cusparse")?;
                Spmv::of_name(name).map(Self::Projected).ok_or_else(|| format!("spmv: {}", Spmv::expected()))
            }
            _ => Err(format!("method {method} has no options")),
        }
    }
}

/// Maximum number of places in all blocks. A successor outside shared memory has the index `resident + position`, with
/// fewer than 2¹⁶ resident values, which must fit in `u32`.
pub(super) const MAX_PLACES: u32 = u32::MAX - (1 << 16);

/// Invalid [`BlockDivided`] parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidBlocks {
    /// The block does not have 1 to 1024 threads.
    #[error("blocks of {width} × {height} threads, expected 1 to 1024 threads")]
    Threads {
        /// Threads in x.
        width: u32,
        /// Threads in y.
        height: u32,
    },
    /// Zero sweeps per launch.
    #[error("0 sweeps per launch, expected at least 1")]
    Sweeps,
    /// Not 1 to 5 states per thread.
    #[error("{0} states per thread, expected 1 to 5")]
    StatesPerThread(u32),
    /// The update constant is not finite and above 0.
    #[error("an update constant of {0}, expected a finite number above 0")]
    UpdateConstant(f64),
    /// A thread per action and several states per thread.
    #[error("by-action has one state per thread, found {0}")]
    ByAction(u32),
    /// METIS does not divide the states.
    #[error("{0}")]
    Metis(String),
    /// The blocks have more places than the kernels can index.
    #[error(
        "blocks of {width} × {height} states have {places} places for {states} states, expected at most {MAX_PLACES}"
    )]
    Places {
        /// Columns of a block of states.
        width: u32,
        /// Rows of a block of states.
        height: u32,
        /// Total number of places.
        places: u64,
        /// Number of states.
        states: u32,
    },
}

/// Accuracy target of a solve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// ε > 0, in units of V: stop when the certificate proves ‖V − V*‖∞ ≤ ε.
    Epsilon(f64),
    /// θ: stop when a sweep has ‖ΔV‖∞ < θ, in each policy evaluation or in value iteration; the rule of the sources.
    Theta(f64),
}

impl Target {
    /// ε.
    #[must_use]
    pub fn epsilon(self) -> Option<f64> {
        match self {
            Self::Epsilon(epsilon) => Some(epsilon),
            Self::Theta(_) => None,
        }
    }
}

/// Stopping limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Accuracy target.
    pub target: Target,
    /// K_max: maximum sweeps, per policy evaluation or in value iteration, where attempts at a tighter proof count together.
    pub max_sweeps: u32,
    /// Maximum number of policies.
    pub max_policies: u32,
    /// Tie margin, in units of V: an action replaces the current one only if its Q-factor is larger by more than this.
    pub tie: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { target: Target::Epsilon(1e-6), max_sweeps: 1_000_000, max_policies: 10_000, tie: 1e-9 }
    }
}

/// Options of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// Solution method; `None` lets [`auto`](super::auto) choose.
    pub method: Option<Method>,
    /// Device.
    pub device: DeviceChoice,
    /// Floating-point type.
    pub precision: Precision,
    /// Model layout of value iteration; `None` chooses the smallest that fits the model.
    pub storage: Option<Storage>,
    /// Whether value iteration skips states whose value cannot have changed. Results do not depend on it.
    pub skip: bool,
    /// Sweeps of value iteration on several ranks for each exchange of ghosts, at least 1. Between exchanges, ghosts keep
    /// their values. With more than 1, V depends on the number of ranks, within its certificate. Precision
    /// [`Refined`](Precision::Refined) and other methods exchange before every sweep.
    pub local_sweeps: u32,
    /// Maximum GPU memory in bytes; value iteration streams larger models.
    pub device_memory: Option<u64>,
    /// State order.
    pub reorder: Reorder,
    /// Division of the states among ranks that have the whole model, after `reorder`.
    pub divide: Divide,
    /// Stopping limits.
    pub limits: Limits,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            method: None,
            device: DeviceChoice::Auto,
            precision: Precision::Mixed,
            storage: None,
            skip: true,
            local_sweeps: 1,
            device_memory: None,
            reorder: Reorder::default(),
            divide: Divide::default(),
            limits: Limits::default(),
        }
    }
}
