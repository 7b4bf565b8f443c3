//! The gambler's problem: Sutton and Barto, *Reinforcement Learning*, 2nd edition, example 4.3.

use super::{Error, matrix, offsets};
use crate::common::parameters::{count, fraction, number};
use crate::mdp::model::{Choices, Mdp, MdpParts};

/// A gambler who stakes part of a capital on coin tosses until the capital reaches the goal or 0.
///
/// State s is the capital, 0 to `goal`. Action a stakes a + 1, at most min(s, goal − s). The gambler wins the stake
/// with probability `heads`, else loses it. Reaching the goal earns 1, so with γ = 1, V is the probability of reaching
/// it. The capitals 0 and `goal` are terminal; the label `goal` marks the latter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gambler {
    /// The capital to reach, 2 to 100,000.
    pub goal: u32,
    /// The probability that the coin comes up heads, in [0, 1].
    pub heads: f64,
    /// γ, the discount factor, in [0, 1]; 1 in the source.
    pub gamma: f64,
}

/// Defaults of the source: goal 100, heads with probability 0.4, undiscounted.
impl Default for Gambler {
    fn default() -> Self {
        Self { goal: 100, heads: 0.4, gamma: 1.0 }
    }
}

impl Gambler {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn generate(&self) -> Result<Mdp, Error> {
        let Self { goal, heads, gamma } = *self;
        count("goal", goal, 2, 100_000)?;
        fraction("heads", heads)?;
        number("gamma", gamma, (0.0..=1.0).contains(&gamma), "a number in [0, 1]")?;
        let choices = Choices::Ragged(offsets(goal as usize + 1, |s| s.min(goal as usize - s))?.into());
        let rows = choices.total(goal + 1);
        let successors = |row: usize| {
            let capital = choices.state_of(row);
            let stake = 1 + row - choices.first(capital);
            let outcomes = [((capital - stake) as u32, 1.0 - heads), ((capital + stake) as u32, heads)];
            outcomes.into_iter().filter(|&(_, probability)| probability > 0.0)
        };
        let transitions = matrix(rows, successors)?;
        let rewards = matrix(rows, |row| successors(row).filter(|entry| entry.0 == goal).map(|entry| (entry.0, 1.0)))?;
        let labels = [("goal".to_owned(), vec![goal])].into();
        let mdp = MdpParts {
            states: goal + 1,
            choices: choices.clone(),
            gamma,
            transitions,
            rewards,
            labels,
            ..MdpParts::default()
        };
        Ok(mdp.validated()?)
    }
}
