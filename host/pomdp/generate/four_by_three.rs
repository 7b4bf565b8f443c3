//! The 4 × 3 grid: Russell and Norvig, *Artificial Intelligence*, section 17.1; with observations by Parr and Russell,
//! *Approximating optimal policies for partially observable stochastic domains*, IJCAI (1995).

use super::{Error, Matrices, Sizes, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, parameters};

parameters! {
    /// Four columns and three rows with a wall in the second column of the second row: 11 cells in row-major order from the
    /// top.
    ///
    /// Actions: north, south, east, west. A move succeeds with probability 1 − `slip`, and slips to either side with
    /// probability `slip` / 2; a move into a wall stays. Observations are exact: left, right, neither or both, the sides
    /// with a wall; good or bad in the last cell of the first or second row. Every action in the good or bad cell yields
    /// `good` or `bad` and moves to a random other cell. Every action elsewhere yields `step`. The process starts in a
    /// random cell except these two.
    ///
    /// V\*(b₀) is between 1.9038 and 1.9048. Cassandra's file of this grid differs in one entry: a move east from the third
    /// cell of the last row that slips goes west instead of staying. Its V\*(b₀) is between 1.88988 and 1.89085.
    ///
    /// The defaults are the source's, with γ = 0.95.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct FourByThree {
        /// Probability of a slip, in [0, 1].
        pub slip: f64 = 0.2, "P" in FRACTION;
        /// Reward of an action in any other cell; finite.
        pub step: f64 = -0.04, "R" in FINITE;
        /// Reward of an action in the good cell; finite.
        pub good: f64 = 1.0, "R" in FINITE;
        /// Reward of an action in the bad cell; finite.
        pub bad: f64 = -1.0, "R" in FINITE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.95, "G" in BELOW_ONE;
    }
}

const GOOD: u32 = 3;
const BAD: u32 = 6;
const CELLS: u32 = 11;
/// North, south, east, west. The sideways directions of each pair are the other pair.
const DIRECTIONS: [(i32, i32); 4] = [(0, -1), (0, 1), (1, 0), (-1, 0)];

/// The adjacent cell, if accessible. Cells are numbered without the wall, which would be number 5.
fn beside(cell: u32, (dx, dy): (i32, i32)) -> Option<u32> {
    let place = cell as i32 + i32::from(cell >= 5);
    let (x, y) = (place % 4 + dx, place / 4 + dy);
    let free = (0..4).contains(&x) && (0..3).contains(&y) && (x, y) != (1, 1);
    free.then(|| (4 * y + x) as u32).map(|place| place - u32::from(place > 5))
}

impl FourByThree {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { slip, step, good, bad, gamma } = *self;
        let sizes = Sizes { states: CELLS, actions: 4, observations: 6 };
        let others = Belief::uniform((0..CELLS).filter(|&cell| cell != GOOD && cell != BAD).collect());
        let outcomes = |s: u32, a: u32| {
            if s == GOOD || s == BAD {
                return others.iter().collect();
            }
            let to = |direction: u32| beside(s, DIRECTIONS[direction as usize]).unwrap_or(s);
            let aside = if a < 2 { [2, 3] } else { [0, 1] };
            let sides = aside.map(|direction| (to(direction), slip / 2.0));
            [(to(a), 1.0 - slip)].into_iter().chain(sides).collect::<Vec<_>>()
        };
        let transitions = sizes.transitions(outcomes)?;
        let shown = |_, s: u32| {
            let wall = |direction: usize| beside(s, DIRECTIONS[direction]).is_none();
            let seen = match (s, wall(3), wall(2)) {
                (GOOD, ..) => 4,
                (BAD, ..) => 5,
                (_, true, false) => 0,
                (_, false, true) => 1,
                (_, false, false) => 2,
                (_, true, true) => 3,
            };
            [(seen, 1.0)]
        };
        let action_rewards = sizes.rewards(|s, _| match s {
            GOOD => good,
            BAD => bad,
            _ => step,
        });
        let matrices =
            Matrices { transitions, observations: sizes.observations(shown)?, action_rewards, ..Matrices::default() };
        let actions = names(["north", "south", "east", "west"]);
        let observations = names(["left", "right", "neither", "both", "good", "bad"]);
        sizes.model(gamma, matrices, others.clone(), Names { states: Vec::new(), actions, observations })
    }
}
