//! Parametric models from the literature.
//!
//! Equal parameters give equal models, bit for bit, on every machine: transcendental functions come from `libm`.
//!
//! | family | description | states, actions, observations |
//! | --- | --- | --- |
//! | [`Tiger`] | two doors with a tiger behind one of them | 2, 3, 2 |
//! | [`FourByThree`] | a small grid with visible walls | 11, 4, 6 |
//! | [`Maze`] | a robot with an orientation: hallway, hallway2, tiger-grid, or any map | 4 × cells, 5, 17 and marks |
//! | [`Tag`] | a robot chases an opponent that it sees only in its own cell | 870, 5, 30 |
//! | [`RockSample`] | a rover with a sensor for remote rocks | n² · 2ᵏ + 1, 5 + k, 2 |
//! | [`Olfactory`] | search for a source of odour upwind | cells, 4, 3 |
//! | [`Maintenance`] | a machine with hidden wear of its parts | levelsⁿ, 4, 2ⁿ |
//! | [`Inspection`] | a machine that wears and fails unseen | 3, 4, 3 |
//! | [`Aloha`] | stations that share a channel | 3 n, n − 1, 3 |

use super::belief::Belief;
use super::model::{Invalid, Names, Pomdp, PomdpParts};
use warpkov_common::parameters;
use warpkov_mdp::generate as mdp;
use warpkov_mdp::model::{Choices, Csr, MdpParts, Objective};

mod aloha;
mod four_by_three;
mod inspection;
mod maintenance;
mod maze;
mod olfactory;
mod rock_sample;
mod tag;
mod tiger;

pub use aloha::Aloha;
pub use four_by_three::FourByThree;
pub use inspection::Inspection;
pub use maintenance::Maintenance;
pub use maze::{Map, Maze};
pub use olfactory::Olfactory;
pub use rock_sample::{Layout, RockSample};
pub use tag::Tag;
pub use tiger::Tiger;

/// Why a model cannot be generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter is out of its range.
    #[error(transparent)]
    Parameter(#[from] parameters::Error),
    /// The underlying MDP is invalid.
    #[error(transparent)]
    Process(#[from] mdp::Error),
    /// A position outside the grid.
    #[error("{what} ({x}, {y}) is not on the grid of {width} × {height} cells")]
    Outside {
        /// The object at the position.
        what: &'static str,
        /// Column.
        x: u32,
        /// Row.
        y: u32,
        /// Number of columns.
        width: u32,
        /// Number of rows.
        height: u32,
    },
    /// Two rocks at the same position.
    #[error("two rocks are at ({x}, {y})")]
    Twice {
        /// Column.
        x: u32,
        /// Row.
        y: u32,
    },
    /// An unknown character in a map.
    #[error("line {line}, column {column} of the map: found {found:?}, expected one of # . G T ^ > v < 1 to 9")]
    Cell {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The character found.
        found: char,
    },
    /// A map without a goal, or without any other cell.
    #[error("the map has {goals} goals and {free} other cells, expected at least one of each")]
    Map {
        /// Number of goals.
        goals: usize,
        /// Number of all other accessible cells.
        free: usize,
    },
    /// The model is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Dimensions of a model.
#[derive(Clone, Copy)]
struct Sizes {
    states: u32,
    actions: u32,
    observations: u32,
}

impl Sizes {
    /// T from `outcomes`(s, a), pairs of successor and probability. Equal successors are merged.
    fn transitions<I>(self, outcomes: impl Fn(u32, u32) -> I + Sync) -> Result<Csr, Error>
    where
        I: IntoIterator<Item = (u32, f64)>,
    {
        distributions(self.states, self.actions, outcomes)
    }

    /// O from `shown`(a, s'), pairs of observation and probability. Equal observations are merged.
    fn observations<I>(self, shown: impl Fn(u32, u32) -> I + Sync) -> Result<Csr, Error>
    where
        I: IntoIterator<Item = (u32, f64)>,
    {
        distributions(self.actions, self.states, shown)
    }

    /// r(s, a) in the order of the rows of T.
    fn rewards(self, reward: impl Fn(u32, u32) -> f64) -> Vec<f64> {
        (0..self.states).flat_map(|s| (0..self.actions).map(move |a| (s, a))).map(|(s, a)| reward(s, a)).collect()
    }

    /// Validates the model. Rewards belong to entries of T, to its rows, or to both.
    fn model(self, gamma: f64, matrices: Matrices, start: Belief, names: Names) -> Result<Pomdp, Error> {
        self.with(Objective::Maximize, gamma, matrices, start, names)
    }

    /// Validates the model of costs, in place of rewards.
    fn costs(self, gamma: f64, matrices: Matrices, start: Belief, names: Names) -> Result<Pomdp, Error> {
        self.with(Objective::Minimize, gamma, matrices, start, names)
    }

    fn with(
        self,
        objective: Objective,
        gamma: f64,
        matrices: Matrices,
        start: Belief,
        names: Names,
    ) -> Result<Pomdp, Error> {
        let Matrices { transitions, observations, rewards, action_rewards } = matrices;
        let process = MdpParts {
            states: self.states,
            choices: Choices::Uniform(self.actions),
            objective,
            gamma,
            transitions,
            rewards,
            action_rewards: action_rewards.into(),
            ..MdpParts::default()
        };
        let pomdp = PomdpParts {
            process,
            observation_count: self.observations,
            observations,
            start,
            names,
            ..PomdpParts::default()
        };
        Ok(pomdp.validated()?)
    }
}

/// Matrices of a model. Rewards of transitions or of actions may be empty.
#[derive(Default)]
struct Matrices {
    transitions: Csr,
    observations: Csr,
    rewards: Csr,
    action_rewards: Vec<f64>,
}

/// The matrix with the distribution `outcomes(i, j)` in row i · `inner` + j. Equal columns are merged.
fn distributions<I>(outer: u32, inner: u32, outcomes: impl Fn(u32, u32) -> I + Sync) -> Result<Csr, Error>
where
    I: IntoIterator<Item = (u32, f64)>,
{
    let rows = outer as usize * inner as usize;
    let row = |row: usize| {
        let own = outcomes((row / inner as usize) as u32, (row % inner as usize) as u32);
        let mut entries: Vec<(u32, f64)> = own.into_iter().filter(|entry| entry.1 > 0.0).collect();
        entries.sort_by_key(|entry| entry.0);
        entries.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        entries.into_iter()
    };
    Ok(mdp::matrix(rows, row)?)
}

/// Checks that (x, y) is within `width` × `height` cells.
fn inside(what: &'static str, (x, y): (u32, u32), width: u32, height: u32) -> Result<(), Error> {
    if x < width && y < height { Ok(()) } else { Err(Error::Outside { what, x, y, width, height }) }
}

/// Converts texts to names.
fn names<T: ToString>(texts: impl IntoIterator<Item = T>) -> Vec<String> {
    texts.into_iter().map(|text| text.to_string()).collect()
}
