//! Small models in compressed rows as [models as code](super::matrix_free): a block solves each of thousands.
//!
//! All of a model is its table, in one array of f64 numbers, which hold integers up to 2⁵³ exactly. With S states, R rows
//! and N transitions:
//!
//! | numbers | contents |
//! | --- | --- |
//! | S + 1 | the first row of each state, and R |
//! | R + 1 | the first transition of each row, and N |
//! | R | r(s, a) of each row |
//! | R | probability that the process ends after each row |
//! | N | successor of each transition |
//! | N | probability of each transition |

use warpkov_device::device::Parameter;

use super::matrix_free::{END, Outcomes, Table};

/// A model in compressed rows, which maximises.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Explicit {
    /// S, the number of states.
    pub states: u64,
    /// R, the number of state-action pairs.
    pub rows: u64,
    /// N, the number of transitions.
    pub transitions: u64,
    /// γ, the discount factor.
    pub gamma: f64,
}

/// The table comes from the solver, because a kernel's parameters hold no arrays: [`Outcomes::table`] is empty.
impl Outcomes for Explicit {
    const MINIMIZE: bool = false;

    #[inline(always)]
    fn gamma(&self) -> f64 {
        self.gamma
    }

    #[inline(always)]
    fn states(&self) -> u64 {
        self.states
    }

    #[inline(always)]
    fn actions(&self, table: &impl Table, state: u64) -> u32 {
        (table.number(state + 1) - table.number(state)) as u32
    }

    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        Vec::new()
    }

    #[inline(always)]
    fn outcomes(&self, table: &impl Table, state: u64, action: u32, mut each: impl FnMut(u64, f64, f64)) {
        let row = table.number(state) as u64 + u64::from(action);
        let rows = self.states + 1;
        let rewards = rows + self.rows + 1;
        let successors = rewards + 2 * self.rows;
        let reward = table.number(rewards + row);
        let (mut at, end) = (table.number(rows + row) as u64, table.number(rows + row + 1) as u64);
        while at < end {
            let probability = table.number(successors + self.transitions + at);
            each(table.number(successors + at) as u64, probability, reward);
            at += 1;
        }
        let ends = table.number(rewards + self.rows + row);
        if ends != 0.0 {
            each(END, ends, reward);
        }
    }
}

crate::many!(Explicit);
