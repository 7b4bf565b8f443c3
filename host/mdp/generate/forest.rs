//! Forest management: the example of the *Markov Decision Processes Toolbox* (Chadès et al., 2014).

use super::demand::{Family, OnDemand};
use super::{Error, MOST_STATES};
use crate::model::Mdp;
use crate::model::whole::{At, Described};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, parameters};

parameters! {
    /// A forest that ages by a year each year, unless it burns or is cut.
    ///
    /// State s is the age of the forest, at most `ages` − 1. Action 0, wait: the forest ages with probability 1 −
    /// `fire`, else it burns down to age 0; in the oldest state the action earns `wait_reward`. Action 1, cut:
    /// the forest returns to age 0; the action earns `cut_reward` in the oldest state, 0 at age 0, and 1 in all others.
    ///
    /// The defaults are those of the source; γ = 0.9.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Forest {
        /// S, the number of ages, at least 2.
        pub ages: u64 = 3, "S" in 2..=MOST_STATES;
        /// r₁, the reward for waiting in the oldest state; finite.
        pub wait_reward: f64 = 4.0, "R" in FINITE;
        /// r₂, the reward for cutting in the oldest state; finite.
        pub cut_reward: f64 = 2.0, "R" in FINITE;
        /// p, the probability of fire in a year, in [0, 1].
        pub fire: f64 = 0.1, "P" in FRACTION;
        /// γ, the discount factor, in [0, 1).
        pub gamma: f64 = 0.9, "G" in BELOW_ONE;
    }
}

impl Forest {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range, or the model has too many states for one process.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.on_demand()?.whole()
    }

    /// The model as a source of rows.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn source(&self) -> Result<impl Described + use<>, Error> {
        self.on_demand()
    }

    fn on_demand(&self) -> Result<OnDemand<Self>, Error> {
        self.check()?;
        OnDemand::new(*self)
    }
}

impl Family for Forest {
    fn states(&self) -> u64 {
        self.ages
    }

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn uniform(&self) -> Option<u32> {
        Some(2)
    }

    fn successors(&self, At { state: age, action, .. }: At) -> impl Iterator<Item = (u64, f64)> {
        let fire = self.fire;
        let entries = match action {
            0 => [(0, fire), ((self.ages - 1).min(age + 1), 1.0 - fire)],
            _ => [(0, 1.0), (0, 0.0)],
        };
        entries.into_iter().filter(|&(_, probability)| probability > 0.0)
    }

    fn reward(&self, At { state: age, action, .. }: At) -> f64 {
        let is_oldest = age == self.ages - 1;
        match action {
            0 if is_oldest => self.wait_reward,
            1 if is_oldest => self.cut_reward,
            1 if age > 0 => 1.0,
            _ => 0.0,
        }
    }

    fn action_names(&self) -> Vec<String> {
        vec!["wait".into(), "cut".into()]
    }
}
