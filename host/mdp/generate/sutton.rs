//! Sutton and Barto's 5 × 5 grid: *Reinforcement Learning*, 2nd edition, example 3.5.

use std::borrow::Cow;

use super::Error;
use super::demand::{Family, OnDemand};
use crate::model::whole::{At, Described};
use crate::model::{Grid, Mdp};
use warpkov_common::parameters::{BELOW_ONE, Parameters as _, parameters};

parameters! {
    /// A grid of 5 × 5 cells. From two of them, A and B, every action jumps to a fixed cell.
    ///
    /// Actions 0 to 3 move up, down, right and left, deterministically. A move off the grid leaves the agent in place and
    /// earns −1. From A, cell 1, every action leads to cell 21 and earns 10. From B, cell 3, every action leads to cell 13
    /// and earns 5.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SuttonGrid {
        /// γ, the discount factor, in [0, 1).
        pub gamma: f64 = 0.9, "G" in BELOW_ONE;
    }
}

/// Width and height of the grid, in cells.
const SIDE: u64 = 5;
/// Source cell, target cell and reward of each jump.
const JUMPS: [(u64, u64, f64); 2] = [(1, 21, 10.0), (3, 13, 5.0)];

impl SuttonGrid {
    /// Generates the model.
    ///
    /// # Errors
    /// γ is out of its range.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.on_demand()?.whole()
    }

    /// The model as a source of rows.
    ///
    /// # Errors
    /// γ is out of its range.
    pub fn source(&self) -> Result<impl Described + use<>, Error> {
        self.on_demand()
    }

    fn on_demand(&self) -> Result<OnDemand<Self>, Error> {
        self.check()?;
        OnDemand::new(*self)
    }
}

impl Family for SuttonGrid {
    fn states(&self) -> u64 {
        SIDE * SIDE
    }

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn uniform(&self) -> Option<u32> {
        Some(4)
    }

    fn successors(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        std::iter::once((step(at).0, 1.0))
    }

    fn reward(&self, at: At) -> f64 {
        step(at).1
    }

    fn grid(&self) -> Option<Cow<'_, Grid>> {
        let (width, height) = (SIDE as u32, SIDE as u32);
        Some(Cow::Owned(Grid { width, height, goal: JUMPS[0].0, ..Grid::default() }))
    }
}

/// Successor and reward of a row.
fn step(At { state: cell, action, .. }: At) -> (u64, f64) {
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
