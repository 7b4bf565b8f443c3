//! What a solve returns.

use serde::Serialize;

use super::alpha::AlphaVectors;
use super::options::{Expansion, Scheme};

/// What can be done with some steps to go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// A vector for each plan.
    pub vectors: AlphaVectors,
    /// The plan of the stage after that follows plan i on observation o, at i·|Ω| + o.
    pub next: Vec<u32>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The bounds are as close as asked for.
    Gap,
    /// The bound that is attained is as good as asked for.
    Target,
    /// The time is over.
    Time,
    /// The memory is used up.
    Memory,
    /// As many expansions as asked for were made.
    Iterations,
    /// Neither beliefs nor values changed any more.
    Stalled,
    /// The observer asked to stop.
    Interrupted,
}

/// Where a run stands. Bounds are those of the model's own sign: `lower` ≤ V\*(b₀) ≤ `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Seconds since the start.
    pub seconds: f64,
    /// Expansions.
    pub iterations: u64,
    /// Backups of beliefs.
    pub backups: u64,
    /// |B|.
    pub beliefs: usize,
    /// |Γ|.
    pub vectors: usize,
    /// Not above V\*(b₀).
    pub lower: f64,
    /// Not below V\*(b₀).
    pub upper: f64,
}

impl Round {
    /// How far the bounds are apart.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.upper - self.lower
    }
}

/// What a solve returns.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Γ in the model's own sign: V(b) is the best b·α, the largest for rewards, the smallest for costs. Who takes the action of the
    /// best vector in every belief attains it: [every vector is supported](super::support).
    pub vectors: AlphaVectors,
    /// With a horizon T, the plans for T, T − 1 … 1 steps to go, of which `vectors` are the first; their vectors are of the model
    /// to be maximised.
    pub stages: Vec<Stage>,
    /// Why it ended.
    pub status: Status,
    /// How it went: the first look, some on the way, and the end.
    pub rounds: Vec<Round>,
    /// Which beliefs were looked at.
    pub expansion: Expansion,
    /// Which were backed up.
    pub scheme: Scheme,
    /// What did the backups, by name.
    pub device: String,
    /// What was chosen on the user's behalf, and why.
    pub notes: Vec<String>,
}

impl Solution {
    /// Where it ended.
    ///
    /// # Panics
    /// Never: a solution has a first look.
    #[must_use]
    pub fn end(&self) -> &Round {
        self.rounds.last().expect("a solution has a first look")
    }
}
