//! Sutton and Barto's 5 × 5 grid: *Reinforcement Learning*, 2nd edition, example 3.5.

use super::{Error, matrix};
use crate::common::parameters::discount;
use crate::mdp::model::{Choices, Csr, Grid, Mdp, MdpParts};

/// A grid of 5 × 5 cells. From two of them, A and B, every action jumps to a fixed cell.
///
/// Actions 0 to 3 move up, down, right and left, deterministically. A move off the grid leaves the agent in place and
/// earns −1. From A, cell 1, every action leads to cell 21 and earns 10. From B, cell 3, every action leads to cell 13
/// and earns 5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuttonGrid {
    /// γ, the discount factor, in [0, 1).
    pub gamma: f64,
}

/// γ = 0.9, as in the source.
impl Default for SuttonGrid {
    fn default() -> Self {
        Self { gamma: 0.9 }
    }
}

/// Width and height of the grid, in cells.
const SIDE: u32 = 5;
/// Source cell, target cell and reward of each jump.
const JUMPS: [(u32, u32, f64); 2] = [(1, 21, 10.0), (3, 13, 5.0)];

impl SuttonGrid {
    /// Generates the model.
    ///
    /// # Errors
    /// γ is out of its range.
    pub fn generate(&self) -> Result<Mdp, Error> {
        discount(self.gamma)?;
        let rows = 4 * (SIDE * SIDE) as usize;
        let grid = Grid { width: SIDE, height: SIDE, goal: JUMPS[0].0, ..Grid::default() };
        let mdp = MdpParts {
            states: SIDE * SIDE,
            choices: Choices::Uniform(4),
            gamma: self.gamma,
            transitions: matrix(rows, |row| std::iter::once((step(row).0, 1.0)))?,
            rewards: Csr::empty(rows),
            action_rewards: (0..rows).map(|row| step(row).1).collect::<Vec<_>>().into(),
            grid: Some(grid),
            ..MdpParts::default()
        };
        Ok(mdp.validated()?)
    }
}

/// Successor and reward of a row.
fn step(row: usize) -> (u32, f64) {
    let (cell, action) = ((row / 4) as u32, row % 4);
    if let Some(&(_, target, reward)) = JUMPS.iter().find(|jump| jump.0 == cell) {
        return (target, reward);
    }
    let (x, y) = (cell % SIDE, cell / SIDE);
    match action {
        0 if y > 0 => (cell - SIDE, 0.0),
        1 if y + 1 < SIDE => (cell + SIDE, 0.0),
        2 if x + 1 < SIDE => (cell + 1, 0.0),
        3 if x > 0 => (cell - 1, 0.0),
        _ => (cell, -1.0),
    }
}
