//! The gambler's problem: Sutton and Barto, *Reinforcement Learning*, 2nd edition, example 4.3.

use std::collections::BTreeMap;

use super::demand::{Family, OnDemand};
use super::{Error, RewardOf};
use crate::model::Mdp;
use crate::model::whole::{At, Described};
use warpkov_common::parameters::{FRACTION, Parameters as _, parameters};

parameters! {
    /// A gambler who stakes part of a capital on coin tosses until the capital reaches the goal or 0.
    ///
    /// State s is the capital, 0 to `goal`. Action a stakes a + 1, at most min(s, goal − s). The gambler wins the stake
    /// with probability `heads`, else loses it. Reaching the goal earns 1, so with γ = 1, V is the probability of reaching
    /// it. The capitals 0 and `goal` are terminal; the label `goal` marks the latter.
    ///
    /// The defaults are those of the source.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Gambler {
        /// The capital to reach, 2 to 100,000.
        pub goal: u32 = 100, "CAPITAL" in 2..=100_000;
        /// The probability that the coin comes up heads, in [0, 1].
        pub heads: f64 = 0.4, "P" in FRACTION;
        /// γ, the discount factor, in [0, 1]; 1 in the source.
        pub gamma: f64 = 1.0, "G" in FRACTION;
    }
}

impl Gambler {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range.
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

impl Family for Gambler {
    fn states(&self) -> u64 {
        u64::from(self.goal) + 1
    }

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn uniform(&self) -> Option<u32> {
        None
    }

    fn actions_of(&self, capital: u64) -> u32 {
        capital.min(u64::from(self.goal) - capital) as u32
    }

    fn successors(&self, At { state: capital, action, .. }: At) -> impl Iterator<Item = (u64, f64)> {
        let stake = 1 + u64::from(action);
        let outcomes = [(capital - stake, 1.0 - self.heads), (capital + stake, self.heads)];
        outcomes.into_iter().filter(|&(_, probability)| probability > 0.0)
    }

    fn reward_of(&self) -> RewardOf {
        RewardOf::Transition
    }

    fn rewards(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        self.successors(at).filter(|&(capital, _)| capital == u64::from(self.goal)).map(|(capital, _)| (capital, 1.0))
    }

    fn labels(&self) -> BTreeMap<String, Vec<u64>> {
        [("goal".to_owned(), vec![self.goal.into()])].into()
    }
}
