//! Forest management: the example of the *Markov Decision Processes Toolbox* (Chadès et al., 2014), for any number of ages.

use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::Model;

/// A forest that ages by a year each year, unless it burns or is cut. The state is its age.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct Forest {
    /// S, the number of ages, at least 2.
    pub ages: u64,
    /// Reward for waiting in the oldest state.
    pub wait_reward: f64,
    /// Reward for cutting in the oldest state.
    pub cut_reward: f64,
    /// Probability of fire in a year.
    pub fire: f64,
    /// γ, the discount factor.
    pub gamma: f64,
}

impl Model for Forest {
    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn states(&self) -> u64 {
        self.ages
    }

    fn actions(&self, _age: u64) -> u32 {
        2
    }

    fn outcomes(&self, age: u64, action: u32, mut each: impl FnMut(u64, f64, f64)) {
        let oldest = self.ages - 1;
        match action {
            // Wait.
            0 => {
                let reward = if age == oldest { self.wait_reward } else { 0.0 };
                each(0, self.fire, reward);
                each((age + 1).min(oldest), 1.0 - self.fire, reward);
            }
            // Cut.
            _ => each(
                0,
                1.0,
                if age == oldest {
                    self.cut_reward
                } else if age > 0 {
                    1.0
                } else {
                    0.0
                },
            ),
        }
    }
}

warpkov_kernels::model!(Forest);
