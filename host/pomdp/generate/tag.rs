//! Tag: Pineau, Gordon and Thrun, *Point-based value iteration: an anytime algorithm for POMDPs*, IJCAI (2003), section
//! 4.

use super::{Error, Matrices, Sizes, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, parameters};

parameters! {
    /// A robot chases an opponent on 29 cells: two rows of ten below a block of three by three.
    ///
    /// State robot · 30 + opponent, where opponent 29 means tagged: 870 states. Actions: north, south, east, west, tag. The
    /// robot moves deterministically; a move off the map stays. The opponent knows the position of the robot. With
    /// probability `flees` / 2 it moves away from the robot along the east–west axis, and with the same probability along
    /// the north–south axis. On an axis where both have the same coordinate it picks either direction with half of that.
    /// Otherwise, and if there is no cell, it stays. Tagging in the opponent's cell ends the chase. Observations: the
    /// robot's cell, 0 to 28, or `found` if the opponent is in the same cell or tagged. Both start in random cells.
    ///
    /// The defaults are those of the source.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Tag {
        /// Probability that the opponent tries to move, in [0, 1].
        pub flees: f64 = 0.8, "P" in FRACTION;
        /// Reward of a move; finite.
        pub step: f64 = -1.0, "R" in FINITE;
        /// Reward of tagging the opponent; finite.
        pub tagged: f64 = 10.0, "R" in FINITE;
        /// Reward of tagging in another cell; finite.
        pub missed: f64 = -10.0, "R" in FINITE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.95, "G" in BELOW_ONE;
    }
}

const CELLS: u32 = 29;
const TAGGED: u32 = CELLS;
const TAG: u32 = 4;
/// North, south, east, west.
const DIRECTIONS: [(i32, i32); 4] = [(0, 1), (0, -1), (1, 0), (-1, 0)];

/// Column and row of a cell; rows count from the bottom.
fn place(cell: u32) -> (i32, i32) {
    let cell = cell as i32;
    if cell < 20 { (cell % 10, cell / 10) } else { (5 + (cell - 20) % 3, 2 + (cell - 20) / 3) }
}

/// The cell at a position, if any.
fn cell((x, y): (i32, i32)) -> Option<u32> {
    match (x, y) {
        (0..10, 0..2) => Some((10 * y + x) as u32),
        (5..8, 2..5) => Some((20 + 3 * (y - 2) + x - 5) as u32),
        _ => None,
    }
}

/// The adjacent cell in a direction, or the same cell if there is none.
fn beside(from: u32, (dx, dy): (i32, i32)) -> u32 {
    let (x, y) = place(from);
    cell((x + dx, y + dy)).unwrap_or(from)
}

impl Tag {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { step, tagged, missed, gamma, .. } = *self;
        let sizes = Sizes { states: CELLS * (CELLS + 1), actions: 5, observations: CELLS + 1 };
        let parts = |s: u32| (s / (CELLS + 1), s % (CELLS + 1));
        let transitions = sizes.transitions(|s, a| {
            let (robot, opponent) = parts(s);
            if opponent == TAGGED || a == TAG && robot == opponent {
                return vec![(robot * (CELLS + 1) + TAGGED, 1.0)];
            }
            let moved = DIRECTIONS.get(a as usize).map_or(robot, |&direction| beside(robot, direction));
            let outcomes = self.flight(robot, opponent).into_iter();
            outcomes.map(|(opponent, p)| (moved * (CELLS + 1) + opponent, p)).collect()
        })?;
        let observations = sizes.observations(|_, s| match parts(s) {
            (robot, opponent) if opponent == TAGGED || opponent == robot => [(CELLS, 1.0)],
            (robot, _) => [(robot, 1.0)],
        })?;
        let action_rewards = sizes.rewards(|s, a| match parts(s) {
            (_, TAGGED) => 0.0,
            (robot, opponent) if a == TAG => {
                if robot == opponent {
                    tagged
                } else {
                    missed
                }
            }
            _ => step,
        });
        let matrices = Matrices { transitions, observations, action_rewards, ..Matrices::default() };
        let start = Belief::uniform((0..sizes.states).filter(|&s| parts(s).1 != TAGGED).collect());
        let seen = (0..CELLS).map(|cell| format!("cell{cell}")).chain(["found".to_owned()]).collect();
        let actions = names(["north", "south", "east", "west", "tag"]);
        sizes.model(gamma, matrices, start, Names { states: Vec::new(), actions, observations: seen })
    }

    /// Distribution of the opponent's next cell.
    fn flight(&self, robot: u32, opponent: u32) -> Vec<(u32, f64)> {
        let ((rx, ry), (x, y)) = (place(robot), place(opponent));
        let mut outcomes = vec![(opponent, 1.0 - self.flees)];
        for (away, axis) in [((x - rx).signum(), (1, 0)), ((y - ry).signum(), (0, 1))] {
            let signs: &[i32] = if away == 0 { &[1, -1] } else { &[away] };
            let p = self.flees / 2.0 / signs.len() as f64;
            outcomes.extend(signs.iter().map(|sign| (beside(opponent, (sign * axis.0, sign * axis.1)), p)));
        }
        outcomes
    }
}
