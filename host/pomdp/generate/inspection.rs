//! Inspection of a machine that wears and fails unseen: a small case of the replacement problems surveyed by Monahan, *A survey of
//! partially observable Markov decision processes*, Management Science 28 (1982).

use super::{Error, Matrices, Sizes, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, parameters};

parameters! {
    /// A machine that is good, worn or failed; costs are minimised.
    ///
    /// | action | state | cost | accuracy of the observation |
    /// | --- | --- | --- | --- |
    /// | run | good to worn with probability `wear`, worn to failed with probability `failure` | 0, `loss`, `downtime` by state | `monitoring` |
    /// | inspect | unchanged | `inspection`, and that of running | `accuracy` |
    /// | repair | worn to good with probability `repaired` | `repair` | `monitoring` |
    /// | replace | good | `replacement` | `monitoring` |
    ///
    /// An observation is the state after the action with the probability in the last column, and each of the two others with half of the
    /// rest. The machine is good at the start.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Inspection {
        /// Probability that a good machine is worn after a step, in [0, 1].
        pub wear: f64 = 0.1, "P" in FRACTION;
        /// Probability that a worn machine fails in a step, in [0, 1].
        pub failure: f64 = 0.2, "P" in FRACTION;
        /// Probability that the observation is correct without an inspection, in [0, 1]. One third tells nothing.
        pub monitoring: f64 = 0.5, "P" in FRACTION;
        /// Probability that an inspection is correct, in [0, 1].
        pub accuracy: f64 = 0.9, "P" in FRACTION;
        /// Probability that a repair succeeds, in [0, 1].
        pub repaired: f64 = 0.8, "P" in FRACTION;
        /// Cost of a step of a worn machine; finite.
        pub loss: f64 = 2.0, "C" in FINITE;
        /// Cost of a step of a failed machine; finite.
        pub downtime: f64 = 10.0, "C" in FINITE;
        /// Cost of an inspection; finite.
        pub inspection: f64 = 1.0, "C" in FINITE;
        /// Cost of a repair; finite.
        pub repair: f64 = 4.0, "C" in FINITE;
        /// Cost of a new machine; finite.
        pub replacement: f64 = 15.0, "C" in FINITE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.98, "G" in BELOW_ONE;
    }
}

impl Inspection {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { wear, failure, monitoring, accuracy, repaired, .. } = *self;
        let Self { loss, downtime, inspection, repair, replacement, gamma, .. } = *self;
        let sizes = Sizes { states: 3, actions: 4, observations: 3 };
        let moves = |state: u32, next: u32, p: f64| vec![(state, 1.0 - p), (next, p)];
        let running = |state: u32| [0.0, loss, downtime][state as usize];
        let matrices = Matrices {
            transitions: sizes.transitions(|state, action| match (action, state) {
                (0, 0) => moves(0, 1, wear),
                (0, 1) => moves(1, 2, failure),
                (2, 1) => moves(1, 0, repaired),
                (3, _) => vec![(0, 1.0)],
                _ => vec![(state, 1.0)],
            })?,
            observations: sizes.observations(|action, state| {
                let correct = if action == 1 { accuracy } else { monitoring };
                (0..3).map(move |seen| (seen, if seen == state { correct } else { (1.0 - correct) / 2.0 }))
            })?,
            action_rewards: sizes.rewards(|state, action| match action {
                0 => running(state),
                1 => inspection + running(state),
                2 => repair,
                _ => replacement,
            }),
            ..Matrices::default()
        };
        let states = names(["good", "worn", "failed"]);
        let names =
            Names { actions: names(["run", "inspect", "repair", "replace"]), observations: states.clone(), states };
        sizes.costs(gamma, matrices, Belief::at(0), names)
    }
}
