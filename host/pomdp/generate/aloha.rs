//! Slotted Aloha: Bertsekas and Gallager, *Data Networks*, 2nd edition (1992), 4.2; as a partially observable process by
//! Cassandra, *Exact and approximate algorithms for partially observable Markov decision processes*, Brown University (1998).

use super::{Error, Matrices, Sizes, names};
use crate::common::parameters::{count, discount, number};
use crate::pomdp::belief::Belief;
use crate::pomdp::model::{Names, Pomdp};

/// Stations share a channel, and only hear whether a slot was empty, had one packet, which got through, or more, which did not.
///
/// Of n < N packets that wait, each is sent with the probability 1/(a + 1) that action a stands for, a < N − 1. Then packets
/// arrive, Poisson with mean λ; there is room for N − 1. A slot that begins with n packets earns N − 1 − n. A state is 3 n and what the last
/// slot was: 0, empty, 1, a success, or 2, a collision, which is seen. At the start nothing waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aloha {
    /// N, from 3: one more than the packets that there is room for.
    pub backlogs: u32,
    /// λ, arrivals in a slot on average, ≥ 0.
    pub arrivals: f64,
    /// γ, in [0, 1).
    pub gamma: f64,
}

/// Cassandra's `aloha.10`, whose numbers have six digits.
impl Default for Aloha {
    fn default() -> Self {
        Self { backlogs: 10, arrivals: 0.9, gamma: 0.999 }
    }
}

impl Aloha {
    /// Makes the model.
    ///
    /// # Errors
    /// If a field is out of its range.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        let Self { backlogs, arrivals, gamma } = *self;
        number("arrivals", arrivals, (0.0..f64::INFINITY).contains(&arrivals), "a finite number, 0 or more")?;
        discount(gamma)?;
        count("backlogs", backlogs, 3, 1 << 10)?;
        let sizes = Sizes { states: 3 * backlogs, actions: backlogs - 1, observations: 3 };
        // What arrives: e^−λ λᵏ/k!, where there is room for `room` more; the rest of it comes with the last.
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
