//! Random models, for tests: outcomes from a hash of state and action, so that nothing is stored.

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::{END, Model};

/// A random model. Some states are terminal, some outcomes end the process, some successors come twice.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Garnet {
    /// S.
    pub states: u64,
    /// Most actions of a state.
    pub actions: u32,
    /// Outcomes of an action, at least 1.
    pub outcomes: u32,
    /// Every `ending`-th state is terminal or has outcomes after which the process ends; 0 for none.
    pub ending: u64,
    /// γ.
    pub gamma: f64,
    /// Rewards are within ± this.
    pub scale: f64,
    /// Seed.
    pub seed: u64,
}

impl Garnet {
    /// Bits that look random (SplitMix64, by Steele, Lea and Flood, 2014).
    fn bits(&self, state: u64, action: u32, draw: u32) -> u64 {
        let mut z =
            self.seed ^ state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(action) << 40 | u64::from(draw) << 8);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn ends(&self, state: u64) -> bool {
        self.ending > 0 && state.is_multiple_of(self.ending)
    }
}

impl Model for Garnet {
    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn states(&self) -> u64 {
        self.states
    }

    fn actions(&self, state: u64) -> u32 {
        match self.ends(state) && state.is_multiple_of(2) {
            true => 0,
            false => 1 + (self.bits(state, 0, 99) % u64::from(self.actions)) as u32,
        }
    }

    fn outcomes(&self, state: u64, action: u32, mut each: impl FnMut(u64, f64, f64)) {
        // Powers of two, the last of which comes twice: they sum to 1 exactly.
        let mut left = 1.0;
        for draw in 0..self.outcomes {
            let bits = self.bits(state, action, draw);
            let last = draw + 1 == self.outcomes;
            let probability = if last { left } else { left / 2.0 };
            left -= probability;
            let next = if self.ends(state) && draw == 0 { END } else { bits % self.states };
            let share = (bits >> 11) as f64 / (1u64 << 53) as f64;
            each(next, probability, self.scale * (2.0 * share - 1.0));
        }
    }
}

warpkov_kernels::model!(Garnet);

/// [`Garnet`] with its rewards as costs, by events whose probabilities are in a table, and by actions that add to the
/// successor.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct CostGarnet {
    /// S.
    pub states: u64,
    /// Most actions of a state.
    pub actions: u32,
    /// N, the number of events.
    pub events: u32,
    /// Every `ending`-th event ends the process; 0 for none.
    pub ending: u32,
    /// γ.
    pub gamma: f64,
    /// Seed.
    pub seed: u64,
}

impl CostGarnet {
    fn bits(&self, state: u64, action: u32, event: u32) -> u64 {
        let Self { states, actions, gamma, seed, .. } = *self;
        Garnet { states, actions, outcomes: 1, ending: 0, gamma, scale: 1.0, seed }.bits(state, action, event)
    }
}

impl warpkov_kernels::mdp::Events for CostGarnet {
    const MINIMIZE: bool = true;
    type State = u64;

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn states(&self) -> u64 {
        self.states
    }

    fn actions(&self, state: u64) -> u32 {
        1 + (self.bits(state, 0, 99) % u64::from(self.actions)) as u32
    }

    fn state(&self, number: u64) -> u64 {
        number
    }

    fn action(&self, &state: &u64, action: u32) -> (u64, f64) {
        let bits = self.bits(state, action + 1, 98);
        (bits % self.states.div_ceil(2), (bits >> 60) as f64 - 4.0)
    }

    fn events(&self, &state: &u64) -> u32 {
        self.events + (self.bits(state, 0, 97) % 2) as u32
    }

    #[cfg(not(target_arch = "nvptx64"))]
    fn table(&self) -> Vec<f64> {
        let weights: Vec<f64> = (0..self.events).map(|event| f64::from(event % 5)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).chain([0.0]).collect()
    }

    fn outcome(&self, &state: &u64, event: u32) -> (u64, f64) {
        let bits = self.bits(state, 0, event);
        let ends = self.ending > 0 && event % self.ending == self.ending - 1;
        (if ends { END } else { bits % (self.states / 2 + 1) }, (bits >> 60) as f64)
    }
}

warpkov_kernels::events!(CostGarnet);

/// A model whose last state has a fault, for tests: 0, a successor outside of the model; 1, a sum of ½; 2, no outcomes; 3, a
/// negative probability; 4, a sum of 2 over one successor; 5, a successor of which the lower 32 bits are a state.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Faulty {
    /// S.
    pub states: u64,
    /// The fault.
    pub fault: u32,
}

impl Model for Faulty {
    fn gamma(&self) -> f64 {
        0.9
    }

    fn states(&self) -> u64 {
        self.states
    }

    fn actions(&self, _state: u64) -> u32 {
        2
    }

    fn outcomes(&self, state: u64, action: u32, mut each: impl FnMut(u64, f64, f64)) {
        match self.fault {
            0 if action == 1 && state + 1 == self.states => each(state + 1, 1.0, 1.0),
            1 if action == 1 && state + 1 == self.states => each(state, 0.5, 1.0),
            2 if action == 1 && state + 1 == self.states => {}
            3 if action == 1 && state + 1 == self.states => {
                each(state, 1.0, 1.0);
                each(0, -0.5, 1.0);
                each(1, 0.5, 1.0);
            }
            4 if action == 1 && state + 1 == self.states => {
                each(5, 1.0, 1.0);
                each(5, 1.0, 1.0);
            }
            // State 5, plus 2³².
            5 if action == 1 && state + 1 == self.states => each((1 << 32) + 5, 1.0, 1.0),
            _ => each((state + 1) % self.states, 1.0, 1.0),
        }
    }
}

warpkov_kernels::model!(Faulty);
