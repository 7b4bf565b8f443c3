//! The models of this program. The build script compiles this module, and nothing else of the crate, for GPUs. The CPU and
//! the emulator run the same code.

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::Model;

/// A machine that wears out. State 0 is new, the last one broken.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Machine {
    /// The number of states.
    pub states: u64,
    /// Profit of a period with a new machine. It falls evenly to 0 of a broken one.
    pub profit: f64,
    /// Cost of a new machine.
    pub price: f64,
    /// Probability that a machine wears in a period.
    pub wear: f64,
    /// γ, the discount factor.
    pub gamma: f64,
}

/// The names of the actions.
pub const ACTIONS: [&str; 2] = ["run", "replace"];

impl Model for Machine {
    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn states(&self) -> u64 {
        self.states
    }

    fn actions(&self, _state: u64) -> u32 {
        ACTIONS.len() as u32
    }

    /// Calls `each` with successor, probability and reward of every outcome.
    fn outcomes(&self, state: u64, action: u32, mut each: impl FnMut(u64, f64, f64)) {
        let broken = self.states - 1;
        match action {
            0 if state == broken => each(broken, 1.0, 0.0),
            0 => {
                let profit = self.profit * (broken - state) as f64 / broken as f64;
                each(state, 1.0 - self.wear, profit);
                each(state + 1, self.wear, profit);
            }
            _ => each(0, 1.0, -self.price),
        }
    }
}

warpkov_kernels::model!(Machine);
