//! Forest management: the example of the *Markov Decision Processes Toolbox* (Chadès et al., 2014).

use super::{Error, matrix};
use crate::common::parameters::{count, discount, finite, fraction};
use crate::mdp::model::{ActionNames, Choices, Csr, Mdp, MdpParts};

/// A forest that ages by a year each year, unless it burns or is cut.
///
/// State s is the age of the forest, at most `ages` − 1. Action 0, wait: the forest ages with probability 1 −
/// `fire_probability`, else it burns down to age 0; in the oldest state the action earns `wait_reward`. Action 1, cut:
/// the forest returns to age 0; the action earns `cut_reward` in the oldest state, 0 at age 0, and 1 in all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forest {
    /// S, the number of ages, at least 2.
    pub ages: u32,
    /// r₁, the reward for waiting in the oldest state; finite.
    pub wait_reward: f64,
    /// r₂, the reward for cutting in the oldest state; finite.
    pub cut_reward: f64,
    /// p, the probability of fire in a year, in [0, 1].
    pub fire_probability: f64,
    /// γ, the discount factor, in [0, 1).
    pub gamma: f64,
}

/// Defaults of the source: S = 3, r₁ = 4, r₂ = 2, p = 0.1; γ = 0.9.
impl Default for Forest {
    fn default() -> Self {
        Self { ages: 3, wait_reward: 4.0, cut_reward: 2.0, fire_probability: 0.1, gamma: 0.9 }
    }
}

impl Forest {
    /// Generates the model.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn generate(&self) -> Result<Mdp, Error> {
        let Self { ages, wait_reward, cut_reward, fire_probability: fire, gamma } = *self;
        count("ages", ages, 2, u32::MAX)?;
        finite("wait_reward", wait_reward)?;
        finite("cut_reward", cut_reward)?;
        fraction("fire_probability", fire)?;
        discount(gamma)?;
        let (rows, oldest) = (2 * ages as usize, ages - 1);
        let successors = |row: usize| {
            let age = (row / 2) as u32;
            let entries = match row % 2 {
                0 => [(0, fire), (oldest.min(age + 1), 1.0 - fire)],
                _ => [(0, 1.0), (0, 0.0)],
            };
            entries.into_iter().filter(|&(_, probability)| probability > 0.0)
        };
        let reward = |row: usize| match (row % 2, (row / 2) as u32) {
            (0, age) if age == oldest => wait_reward,
            (0, _) | (_, 0) => 0.0,
            (_, age) if age == oldest => cut_reward,
            _ => 1.0,
        };
        let mdp = MdpParts {
            states: ages,
            choices: Choices::Uniform(2),
            gamma,
            transitions: matrix(rows, successors)?,
            rewards: Csr::empty(rows),
            action_rewards: (0..rows).map(reward).collect::<Vec<_>>().into(),
            action_names: Some(ActionNames {
                names: vec!["wait".into(), "cut".into()],
                of_row: (0..2).cycle().take(rows).collect(),
            }),
            ..MdpParts::default()
        };
        Ok(mdp.validated()?)
    }
}
