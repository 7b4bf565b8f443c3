//! Results of a solve.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::alpha::AlphaVectors;
use super::options::{Expansion, Scheme};
use warpkov_common::ranks;

/// The policy for a fixed number of steps to go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// One vector per plan.
    pub vectors: AlphaVectors,
    /// Plan of the next stage that plan i continues with after observation o, at i·|Ω| + o.
    pub next: Vec<u32>,
}

/// A finite-state controller that attains the value of vectors at the start. Node i belongs to vector i, and takes action aᵢ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Support {
    /// The node to begin in, one per [initial belief](super::model::Pomdp::starts).
    pub starts: Vec<u32>,
    /// aᵢ.
    pub actions: Vec<u32>,
    /// The node after observation o, at i·|Ω| + o.
    pub next: Vec<u32>,
    /// The value of the vectors at the start, of the maximisation problem.
    pub value: f64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The gap reached its limit.
    Gap,
    /// The attained bound reached the target.
    Target,
    /// The time limit.
    Time,
    /// The memory limit.
    Memory,
    /// The limit of expansions.
    Iterations,
    /// Neither beliefs nor values change any more.
    Stalled,
    /// The observer stopped the run.
    Interrupted,
}

impl fmt::Display for Status {
    /// The reason in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gap => "the gap reached its limit",
            Self::Target => "the value reached its target",
            Self::Time => "the time limit was reached",
            Self::Memory => "the memory limit was reached",
            Self::Iterations => "the limit of expansions was reached",
            Self::Stalled => "no further progress",
            Self::Interrupted => "interrupted",
        })
    }
}

/// Progress of a run. Bounds have the model's own sign: `lower` ≤ V\*(b₀) ≤ `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Seconds since the start.
    pub seconds: f64,
    /// Number of expansions.
    pub iterations: u64,
    /// Number of backups.
    pub backups: u64,
    /// |B|.
    pub beliefs: usize,
    /// |Γ|.
    pub vectors: usize,
    /// A lower bound on V\*(b₀).
    pub lower: f64,
    /// An upper bound on V\*(b₀).
    pub upper: f64,
}

impl Round {
    /// `upper` − `lower`.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.upper - self.lower
    }
}

/// What one of several ranks did in a solve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankWork {
    /// Number of its backups.
    pub backups: u64,
}

/// The share of one of several ranks.
pub type RankShare = ranks::RankShare<RankWork>;

/// The result of a solve.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Γ in the model's own sign: V(b) is the largest b·α for rewards and the smallest for costs. The policy that takes
    /// the action of the best vector in every belief attains V, because [every vector is supported](super::support).
    pub vectors: AlphaVectors,
    /// Number of vectors before the [compaction](super::compact).
    pub found: usize,
    /// With a horizon T, the policies for T, T − 1 … 1 steps to go; `vectors` are those of the first. Values are those
    /// of the maximisation problem.
    pub stages: Vec<Stage>,
    /// A controller that attains the value of `vectors` at the start.
    pub support: Option<Support>,
    /// Why the run ended.
    pub status: Status,
    /// Recorded progress: the first round, some intermediate rounds, and the last.
    pub rounds: Vec<Round>,
    /// How beliefs were sampled.
    pub expansion: Expansion,
    /// Which beliefs were backed up.
    pub scheme: Scheme,
    /// Name of the device that did the backups.
    pub device: String,
    /// The largest gap that ends the run, by its last bounds.
    pub gap_limit: f64,
    /// The gap at the end relative to the [size](super::options::Gap::size) of the value.
    pub relative_gap: f64,
    /// Of an exact solution: V\* is at most this above V for rewards, and below it for costs, in every belief.
    pub error: Option<f64>,
    /// Automatic choices and their reasons.
    pub notes: Vec<String>,
    /// The part of each rank, if there are several.
    pub ranks: Vec<RankShare>,
}

impl Solution {
    /// The last round.
    ///
    /// # Panics
    /// Never: a solution has at least one round.
    #[must_use]
    pub fn end(&self) -> &Round {
        self.rounds.last().expect("a solution has at least one round")
    }
}
