//! Models of the literature, from a few parameters.
//!
//! Equal parameters give equal models, bit for bit, on every machine: functions that are not exact are `libm`'s own.
//!
//! | family | what it is | states, actions, observations |
//! | --- | --- | --- |
//! | [`Tiger`] | two doors, and a tiger behind one of them | 2, 3, 2 |
//! | [`FourByThree`] | a small grid in which walls are seen | 11, 4, 6 |
//! | [`Maze`] | a robot with an orientation: hallway, hallway2, tiger-grid, and any map | 4 × cells, 5, 17 and marks |
//! | [`Tag`] | a robot chases an opponent that it sees only where it stands | 870, 5, 30 |
//! | [`RockSample`] | a rover that checks rocks from afar | n² · 2ᵏ + 1, 5 + k, 2 |
//! | [`Olfactory`] | a source of odour to be found downwind | cells, 4, 3 |
//! | [`Maintenance`] | a machine whose parts wear, and are not seen | levelsⁿ, 4, 2ⁿ |
//! | [`Aloha`] | stations that share a channel | 3 n, n − 1, 3 |

use super::belief::Belief;
use super::model::{Invalid, Names, Pomdp, PomdpParts};
use crate::common::parameters;
use crate::mdp::generate as mdp;
use crate::mdp::model::{Choices, Csr, MdpParts};

mod aloha;
mod four_by_three;
mod maintenance;
mod maze;
mod olfactory;
mod rock_sample;
mod tag;
mod tiger;

pub use aloha::Aloha;
pub use four_by_three::FourByThree;
pub use maintenance::Maintenance;
pub use maze::{Map, Maze};
pub use olfactory::Olfactory;
pub use rock_sample::{Layout, RockSample};
pub use tag::Tag;
pub use tiger::Tiger;

/// Why there is no such model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A parameter out of its range.
    #[error(transparent)]
    Parameter(#[from] parameters::Error),
    /// The process beneath cannot be.
    #[error(transparent)]
    Process(#[from] mdp::Error),
    /// A place that is not on the grid.
    #[error("{what} ({x}, {y}) is not on the grid of {width} × {height} cells")]
    Outside {
        /// What is there.
        what: &'static str,
        /// Its column.
        x: u32,
        /// Its row.
        y: u32,
        /// Cells in a row.
        width: u32,
        /// Cells in a column.
        height: u32,
    },
    /// Two rocks in one place.
    #[error("two rocks are at ({x}, {y})")]
    Twice {
        /// The column.
        x: u32,
        /// The row.
        y: u32,
    },
    /// A character that no map has.
    #[error("line {line}, column {column} of the map: found {found:?}, expected one of # . G T ^ > v < 1 to 9")]
    Cell {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is there.
        found: char,
    },
    /// A map in which there is nothing to do.
    #[error("the map has {goals} goals and {free} other cells, expected at least one of each")]
    Map {
        /// Cells with a goal.
        goals: usize,
        /// Free cells and marks.
        free: usize,
    },
    /// The model is not valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// The numbers of states, actions and observations.
#[derive(Clone, Copy)]
struct Sizes {
    states: u32,
    actions: u32,
    observations: u32,
}

impl Sizes {
    /// T: what a state and an action lead to, with what probability; equal states are added up.
    fn transitions<I>(self, outcomes: impl Fn(u32, u32) -> I + Sync) -> Result<Csr, Error>
    where
        I: IntoIterator<Item = (u32, f64)>,
    {
        distributions(self.states, self.actions, outcomes)
    }

    /// O: what an action and the state that it led to show, with what probability.
    fn observations<I>(self, shown: impl Fn(u32, u32) -> I + Sync) -> Result<Csr, Error>
    where
        I: IntoIterator<Item = (u32, f64)>,
    {
        distributions(self.actions, self.states, shown)
    }

    /// r(s, a) for each row of T.
    fn rewards(self, reward: impl Fn(u32, u32) -> f64) -> Vec<f64> {
        (0..self.states).flat_map(|s| (0..self.actions).map(move |a| (s, a))).map(|(s, a)| reward(s, a)).collect()
    }

    /// The model, if it is one. `rewards` are of entries of T or of its rows, either empty where there are none.
    fn model(self, gamma: f64, matrices: Matrices, start: Belief, names: Names) -> Result<Pomdp, Error> {
        let Matrices { transitions, observations, rewards, action_rewards } = matrices;
        let process = MdpParts {
            states: self.states,
            choices: Choices::Uniform(self.actions),
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

/// What a model consists of; rewards of transitions or of actions may be left out.
#[derive(Default)]
struct Matrices {
    transitions: Csr,
    observations: Csr,
    rewards: Csr,
    action_rewards: Vec<f64>,
}

/// The matrix of which row i · `inner` + j is the distribution `outcomes(i, j)`; equal columns are added up.
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

/// Whether (x, y) is one of `width` × `height` cells.
fn inside(what: &'static str, (x, y): (u32, u32), width: u32, height: u32) -> Result<(), Error> {
    if x < width && y < height { Ok(()) } else { Err(Error::Outside { what, x, y, width, height }) }
}

/// Names given as texts.
fn names<T: ToString>(texts: impl IntoIterator<Item = T>) -> Vec<String> {
    texts.into_iter().map(|text| text.to_string()).collect()
}
