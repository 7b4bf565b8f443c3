//! Maintenance of a machine with hidden states of its parts: Smallwood and Sondik, *The optimal control of partially
//! observable Markov processes over a finite horizon*, Operations Research 21 (1973), for two parts; Cassandra, *Exact
//! and approximate algorithms for partially observable Markov decision processes*, Brown University (1998), for four
//! parts with four levels at γ = 0.999.

use super::{Error, Matrices, Sizes, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, count, parameters};

parameters! {
    /// A machine of N parts, each at one of L levels from 0, broken, to L − 1, new.
    ///
    /// | action | levels | reward | observation |
    /// | --- | --- | --- | --- |
    /// | operate | each unbroken part loses one with probability `wear` | Π q(l) | a good product with probability Π q(l) |
    /// | inspect | unchanged | −`inspection` | each part fine with probability 1 − a + (2a − 1) l/(L − 1) |
    /// | repair | each part that is not new gains one with probability `repaired` | −`repair` | none |
    /// | replace | all new | −`replacement` | none |
    ///
    /// Here q(l) = 1 − (1 − l/(L − 1))³, and a is the `accuracy`. States are Σ lₖ Lᵏ. Observations are Σ 2ᵏ over the parts
    /// that look fine: all of them for a good product, no part for a bad one or for no observation. All parts are new at the
    /// start. With little discounting, a single vector of this model helps only with the long plan that it begins.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Maintenance {
        /// N, the number of parts, 1 to 10.
        pub parts: u32 = 3, "N" in 1..=10;
        /// L, the number of levels of a part, at least 2.
        pub levels: u32 = 3, "L" in 2..=u32::MAX;
        /// Probability that a part loses a level in operation, in [0, 1].
        pub wear: f64 = 0.03, "P" in FRACTION;
        /// Probability that an inspection classifies a new or a broken part correctly, in [0, 1].
        pub accuracy: f64 = 0.97, "P" in FRACTION;
        /// Probability that a repair gains a level, in [0, 1].
        pub repaired: f64 = 0.8, "P" in FRACTION;
        /// Cost of an inspection; finite.
        pub inspection: f64 = 1.0, "C" in FINITE;
        /// Cost of a repair; finite.
        pub repair: f64 = 3.0, "C" in FINITE;
        /// Cost of a new machine; finite.
        pub replacement: f64 = 15.0, "C" in FINITE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.999, "G" in BELOW_ONE;
    }
}

impl Maintenance {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range, or if there are more than 2²⁰ states.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { parts, levels, wear, accuracy, repaired, inspection, repair, replacement, gamma } = *self;
        // The largest L with at most 2²⁰ states.
        count("levels", levels, 2, (2..).take_while(|levels: &u32| levels.pow(parts) <= 1 << 20).last().unwrap_or(2))?;
        let states = levels.pow(parts);
        let sizes = Sizes { states, actions: 4, observations: 1 << parts };
        let level = |state: u32, part: u32| state / levels.pow(part) % levels;
        let full = |state: u32, part: u32| f64::from(level(state, part)) / f64::from(levels - 1);
        // Distribution of states if each part moves up or down by one level with probability `change`(level).
        let all = |state: u32, change: &dyn Fn(u32) -> f64, up: bool| {
            let mut outcomes = vec![(state, 1.0)];
            for part in 0..parts {
                let (p, place) = (change(level(state, part)), levels.pow(part));
                let moved = |next: u32| if up { next + place } else { next - place };
                let changed: Vec<_> = outcomes.iter().filter(|_| p > 0.0).map(|&(s, q)| (moved(s), p * q)).collect();
                outcomes.iter_mut().for_each(|outcome| outcome.1 *= 1.0 - p);
                outcomes.extend(changed);
            }
            outcomes
        };
        let good = |state: u32| -> f64 {
            let quality = |part| {
                let lost = 1.0 - full(state, part);
                1.0 - lost * lost * lost
            };
            (0..parts).map(quality).product()
        };
        let fine = sizes.observations - 1;
        let seen = |state: u32| {
            let mut outcomes = vec![(0, 1.0)];
            for part in 0..parts {
                let p = 1.0 - accuracy + (2.0 * accuracy - 1.0) * full(state, part);
                let shown: Vec<_> = outcomes.iter().map(|&(o, q)| (o | 1 << part, p * q)).collect();
                outcomes.iter_mut().for_each(|outcome| outcome.1 *= 1.0 - p);
                outcomes.extend(shown);
            }
            outcomes
        };
        let matrices = Matrices {
            transitions: sizes.transitions(|state, action| match action {
                0 => all(state, &|level| if level > 0 { wear } else { 0.0 }, false),
                2 => all(state, &|level| if level + 1 < levels { repaired } else { 0.0 }, true),
                3 => vec![(states - 1, 1.0)],
                _ => vec![(state, 1.0)],
            })?,
            observations: sizes.observations(|action, state| match action {
                0 => vec![(0, 1.0 - good(state)), (fine, good(state))],
                1 => seen(state),
                _ => vec![(0, 1.0)],
            })?,
            action_rewards: sizes.rewards(|state, action| match action {
                0 => good(state),
                1 => -inspection,
                2 => -repair,
                _ => -replacement,
            }),
            ..Matrices::default()
        };
        let text =
            |state: u32| (0..parts).rev().map(|part| level(state, part).to_string()).collect::<Vec<_>>().join("-");
        let looks =
            |seen: u32| (0..parts).rev().map(|part| if seen >> part & 1 == 1 { 'f' } else { 'w' }).collect::<String>();
        let names = Names {
            states: names((0..states).map(|state| format!("levels-{}", text(state)))),
            actions: names(["operate", "inspect", "repair", "replace"]),
            observations: names((0..sizes.observations).map(looks)),
        };
        sizes.model(gamma, matrices, Belief::at(states - 1), names)
    }
}
