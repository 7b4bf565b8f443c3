//! Tag: Pineau, Gordon and Thrun, *Point-based value iteration: an anytime algorithm for POMDPs*, IJCAI (2003), section 4.

use super::{Error, Matrices, Sizes, names};
use crate::common::parameters::{discount, finite, fraction};
use crate::pomdp::belief::Belief;
use crate::pomdp::model::{Names, Pomdp};

/// A robot that chases an opponent on 29 cells, two rows of ten below a block of three by three.
///
/// State robot · 30 + opponent, of which opponent 29 is one that has been tagged: 870 states. Actions: north, south, east,
/// west, tag. The robot moves as it wants to, or not at all where there is no cell. The opponent knows where the robot is:
/// with `flees` / 2 it moves away from it east or west, with as much north or south, to either side with half of that where
/// both stand in line, and else stays; so it does where there is no cell. A tag in the opponent's cell ends the chase.
/// Observations: the robot's cell, 0 to 28, or `found`, where the opponent is in the same cell or has been tagged. Both
/// start anywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tag {
    /// The probability that the opponent tries to move, in [0, 1].
    pub flees: f64,
    /// What a move earns; finite.
    pub step: f64,
    /// What it earns to tag the opponent; finite.
    pub tagged: f64,
    /// What it earns to tag no one; finite.
    pub missed: f64,
    /// γ, in [0, 1).
    pub gamma: f64,
}

/// The source's.
impl Default for Tag {
    fn default() -> Self {
        Self { flees: 0.8, step: -1.0, tagged: 10.0, missed: -10.0, gamma: 0.95 }
    }
}

const CELLS: u32 = 29;
const TAGGED: u32 = CELLS;
const TAG: u32 = 4;
/// North, south, east, west.
const DIRECTIONS: [(i32, i32); 4] = [(0, 1), (0, -1), (1, 0), (-1, 0)];

/// The column and the row, from below, of a cell.
fn place(cell: u32) -> (i32, i32) {
    let cell = cell as i32;
    if cell < 20 { (cell % 10, cell / 10) } else { (5 + (cell - 20) % 3, 2 + (cell - 20) / 3) }
}

/// The cell at a place, if there is one.
fn cell((x, y): (i32, i32)) -> Option<u32> {
    match (x, y) {
        (0..10, 0..2) => Some((10 * y + x) as u32),
        (5..8, 2..5) => Some((20 + 3 * (y - 2) + x - 5) as u32),
        _ => None,
    }
}

/// The next cell in a direction, or the same one where there is none.
fn beside(from: u32, (dx, dy): (i32, i32)) -> u32 {
    let (x, y) = place(from);
    cell((x + dx, y + dy)).unwrap_or(from)
}

impl Tag {
    /// Makes the model.
    ///
    /// # Errors
    /// If a field is out of its range.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        let Self { flees, step, tagged, missed, gamma } = *self;
        fraction("flees", flees)?;
        for (name, reward) in [("step", step), ("tagged", tagged), ("missed", missed)] {
            finite(name, reward)?;
        }
        discount(gamma)?;
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

    /// Where the opponent goes.
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
