//! Slotted Aloha: Bertsekas and Gallager, *Data Networks*, 2nd edition (1992), 4.2; as a POMDP by Cassandra, *Exact and
//! approximate algorithms for partially observable Markov decision processes*, Brown University (1998).

use super::{Error, Matrices, Sizes, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{BELOW_ONE, NON_NEGATIVE, Parameters as _, parameters};

parameters! {
    /// Stations share a channel and observe the outcome of each slot: empty, a success (one packet), or a collision.
    ///
    /// Of n < N waiting packets, each is sent with probability 1/(a + 1), the meaning of action a < N − 1. Then new packets
    /// arrive, Poisson distributed with mean λ; arrivals beyond N − 1 waiting packets are lost. A slot that begins with n
    /// packets has the reward N − 1 − n. State 3 n + x has n packets after a slot with outcome x: 0 empty, 1 success, 2
    /// collision. Outcome x is observed. No packets wait at the start.
    ///
    /// The defaults are Cassandra's `aloha.10`, whose file has six digits.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Aloha {
        /// N, the capacity for waiting packets plus 1; 3 to 1024.
        pub backlogs: u32 = 10, "N" in 3..=1024;
        /// λ, mean number of arrivals per slot, ≥ 0.
        pub arrivals: f64 = 0.9, "L" in NON_NEGATIVE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.999, "G" in BELOW_ONE;
    }
}

impl Aloha {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { backlogs, arrivals, gamma } = *self;
        let sizes = Sizes { states: 3 * backlogs, actions: backlogs - 1, observations: 3 };
        // Truncated Poisson distribution of arrivals: e^−λ λᵏ/k! for k < `room`, the rest at `room`.
        let arrive = |room: u32| {
            let mut outcomes: Vec<f64> = Vec::new();
            let (mut p, mut sum) = (libm::exp(-arrivals), 0.0);
            for k in 0..room {
                outcomes.push(p);
                sum += p;
                p *= arrivals / f64::from(k + 1);
            }
            outcomes.push((1.0_f64 - sum).max(0.0));
            outcomes
        };
        let matrices = Matrices {
            transitions: sizes.transitions(|state, action| {
                let waiting = state / 3;
                let sent = 1.0 / f64::from(action + 1);
                let silent = |stations: u32| libm::pow(1.0 - sent, f64::from(stations));
                let empty = silent(waiting);
                let success = if waiting == 0 { 0.0 } else { f64::from(waiting) * sent * silent(waiting - 1) };
                let mut outcomes = Vec::new();
                for (slot, p) in [(0, empty), (1, success), (2, (1.0 - empty - success).max(0.0))] {
                    if p > 0.0 {
                        let left = waiting - u32::from(slot == 1);
                        let arrived = arrive(backlogs - 1 - left).into_iter().zip(left..);
                        outcomes.extend(arrived.map(|(q, next)| (3 * next + slot, p * q)));
                    }
                }
                outcomes
            })?,
            observations: sizes.observations(|_, state| [(state % 3, 1.0)])?,
            action_rewards: sizes.rewards(|state, _| f64::from(backlogs - 1 - state / 3)),
            ..Matrices::default()
        };
        let slots = ["empty", "success", "collision"];
        let state = |state: u32| format!("{}-{}", state / 3, slots[(state % 3) as usize]);
        let names = Names {
            states: names((0..sizes.states).map(state)),
            actions: names((1..backlogs).map(|a| format!("send-1-of-{a}"))),
            observations: names(slots),
        };
        sizes.model(gamma, matrices, Belief::at(0), names)
    }
}
