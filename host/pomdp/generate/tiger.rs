//! The tiger problem: Kaelbling, Littman and Cassandra, *Planning and acting in partially observable stochastic
//! domains*, Artificial Intelligence 101 (1998), section 5.1; Cassandra, Kaelbling and Littman (1994).

use super::{Error, Matrices, Sizes, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, parameters};

parameters! {
    /// Two doors: behind one is a tiger, behind the other a treasure.
    ///
    /// States: tiger-left, tiger-right. Actions: listen, open-left, open-right. Observations: tiger-left, tiger-right, the
    /// side of the growl. Opening a door yields its reward and resets the problem: the tiger moves behind either door with
    /// probability ½.
    ///
    /// The defaults are the source's rewards with γ = 0.95; V\*(b₀) = 19.37.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Tiger {
        /// Probability that listening reports the correct side, in [0, 1].
        pub accuracy: f64 = 0.85, "P" in FRACTION;
        /// Reward of listening; finite.
        pub listen: f64 = -1.0, "R" in FINITE;
        /// Reward of the treasure; finite.
        pub treasure: f64 = 10.0, "R" in FINITE;
        /// Reward of the tiger; finite.
        pub tiger: f64 = -100.0, "R" in FINITE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.95, "G" in BELOW_ONE;
    }
}

impl Tiger {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { accuracy, listen, treasure, tiger, gamma } = *self;
        let sizes = Sizes { states: 2, actions: 3, observations: 2 };
        let even = [(0, 0.5), (1, 0.5)];
        let matrices = Matrices {
            transitions: sizes.transitions(|s, a| if a == 0 { [(s, 1.0), (1 - s, 0.0)] } else { even })?,
            observations: sizes
                .observations(|a, s| if a == 0 { [(s, accuracy), (1 - s, 1.0 - accuracy)] } else { even })?,
            action_rewards: sizes.rewards(|s, a| match a {
                0 => listen,
                _ if a == s + 1 => tiger,
                _ => treasure,
            }),
            ..Matrices::default()
        };
        let sides = || names(["tiger-left", "tiger-right"]);
        let actions = names(["listen", "open-left", "open-right"]);
        let names = Names { states: sides(), actions, observations: sides() };
        sizes.model(gamma, matrices, Belief::uniform(vec![0, 1]), names)
    }
}
