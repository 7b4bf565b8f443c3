//! Queues in tandem whose servers are controlled: Puterman, *Markov Decision Processes* (1994), section 11.5, for
//! uniformisation; Weber and Stidham, *Optimal control of service rates in networks of queues* (1987), for the model.

use rayon::prelude::*;

use super::{Error, matrix};
use crate::common::parameters::{self, count, discount, number};
use crate::mdp::model::{CHUNK, Choices, Csr, Mdp, MdpParts};

/// Jobs that pass through queues one after the other.
///
/// Jobs arrive at the first queue at `arrival_rate`, and are lost where it is full. A server works on each queue, at
/// `slow_rate` or `fast_rate`; what it has finished goes to the next queue, or leaves from the last, and waits with the
/// server, which then rests, while the next queue is full. State Σ nᵢ·(`capacity` + 1)ⁱ says how many jobs each queue
/// holds; bit i of an action lets server i work fast. Costs accrue over time: `holding_cost` per job, `effort_cost` per
/// fast server, and `loss_cost` per job lost. Rewards are the negative costs.
///
/// Time is uniformised: a step is one event of rate Λ = arrival rate + queues · fast rate, so that γ is that of a time of
/// 1/Λ. The process is recurrent under every policy, and near critical load, where servers are about as fast as arrivals, it
/// forgets its state only after some `capacity`² steps: a γ close to 1 is hard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueNetwork {
    /// Queues, 1 to 8.
    pub queues: u32,
    /// Jobs in a queue at most, at least 1; (`capacity` + 1)^`queues` is at most 2³² − 1.
    pub capacity: u32,
    /// Jobs that arrive in a unit of time, above 0.
    pub arrival_rate: f64,
    /// Jobs that a slow server finishes in a unit of time, above 0.
    pub slow_rate: f64,
    /// Jobs that a fast server finishes in a unit of time, at least the slow rate.
    pub fast_rate: f64,
    /// The cost of a job in a queue for a unit of time, 0 or above.
    pub holding_cost: f64,
    /// The cost of a fast server for a unit of time, 0 or above.
    pub effort_cost: f64,
    /// The cost of a lost job, 0 or above.
    pub loss_cost: f64,
    /// γ, the discount factor, in [0, 1).
    pub gamma: f64,
}

/// Two queues of up to 63 jobs, critically loaded while servers are slow; γ = 0.999.
impl Default for QueueNetwork {
    fn default() -> Self {
        Self {
            queues: 2,
            capacity: 63,
            arrival_rate: 1.0,
            slow_rate: 1.0,
            fast_rate: 1.5,
            holding_cost: 1.0,
            effort_cost: 10.0,
            loss_cost: 100.0,
            gamma: 0.999,
        }
    }
}

impl QueueNetwork {
    /// Makes the model, on all cores.
    ///
    /// # Errors
    /// If a field is out of its range, or the model does not fit in memory.
    pub fn generate(&self) -> Result<Mdp, Error> {
        let states = self.check()?;
        let rows = (states as usize) << self.queues;
        let transitions = matrix(rows, |row| self.successors(row))?;
        let action_rewards: Vec<_> = (0..rows).into_par_iter().with_min_len(CHUNK).map(|row| -self.cost(row)).collect();
        let mdp = MdpParts {
            states,
            choices: Choices::Uniform(1 << self.queues),
            gamma: self.gamma,
            transitions,
            rewards: Csr::empty(rows),
            action_rewards: action_rewards.into(),
            ..MdpParts::default()
        };
        Ok(mdp.validated()?)
    }

    /// The number of states, if every field is in its range.
    fn check(&self) -> Result<u32, Error> {
        count("queues", self.queues, 1, 8)?;
        count("capacity", self.capacity, 1, u32::MAX - 1)?;
        let positive = |name, x: f64| number(name, x, x.is_finite() && x > 0.0, "a number above 0");
        positive("arrival_rate", self.arrival_rate)?;
        positive("slow_rate", self.slow_rate)?;
        let fast = self.fast_rate.is_finite() && self.fast_rate >= self.slow_rate;
        number("fast_rate", self.fast_rate, fast, "a number, the slow rate or above")?;
        for (name, cost) in
            [("holding_cost", self.holding_cost), ("effort_cost", self.effort_cost), ("loss_cost", self.loss_cost)]
        {
            number(name, cost, cost.is_finite() && cost >= 0.0, "a number, 0 or above")?;
        }
        discount(self.gamma)?;
        (self.capacity + 1).checked_pow(self.queues).ok_or_else(|| parameters::Error::States.into())
    }

    /// Λ, the rate of all events.
    fn events(&self) -> f64 {
        self.arrival_rate + f64::from(self.queues) * self.fast_rate
    }

    /// What a job more in queue `i` adds to the number of the state.
    fn weight(&self, i: u32) -> u32 {
        (self.capacity + 1).pow(i)
    }

    /// Jobs in queue `i`.
    fn jobs(&self, state: u32, i: u32) -> u32 {
        state / self.weight(i) % (self.capacity + 1)
    }

    fn rate(&self, action: usize, i: u32) -> f64 {
        if action >> i & 1 == 1 { self.fast_rate } else { self.slow_rate }
    }

    /// Whether server `i` has a job, and room for it in the next queue.
    fn works(&self, state: u32, i: u32) -> bool {
        self.jobs(state, i) > 0 && (i + 1 == self.queues || self.jobs(state, i + 1) < self.capacity)
    }

    fn row(&self, row: usize) -> (u32, usize) {
        ((row >> self.queues) as u32, row & ((1 << self.queues) - 1))
    }

    /// A row of P, ascending: a job leaves, nothing happens, a job arrives, jobs move on.
    fn successors(&self, row: usize) -> impl Iterator<Item = (u32, f64)> {
        let (state, action) = self.row(row);
        let (events, last) = (self.events(), self.queues - 1);
        let room = self.jobs(state, 0) < self.capacity;
        let idle = |i| self.fast_rate - if self.works(state, i) { self.rate(action, i) } else { 0.0 };
        let stay = (0..self.queues).map(idle).sum::<f64>() + if room { 0.0 } else { self.arrival_rate };
        let leave = self.works(state, last).then(|| (state - self.weight(last), self.rate(action, last)));
        let arrive = room.then_some((state + 1, self.arrival_rate));
        let moves = (0..last).filter(move |&i| self.works(state, i));
        let moves = moves.map(move |i| (state - self.weight(i) + self.weight(i + 1), self.rate(action, i)));
        let stay = (stay > 0.0).then_some((state, stay));
        let entries = leave.into_iter().chain(stay).chain(arrive).chain(moves);
        entries.map(move |(successor, rate)| (successor, rate / events))
    }

    /// What a step costs.
    fn cost(&self, row: usize) -> f64 {
        let (state, action) = self.row(row);
        let jobs: u32 = (0..self.queues).map(|i| self.jobs(state, i)).sum();
        let lost = if self.jobs(state, 0) == self.capacity { self.arrival_rate } else { 0.0 };
        let cost = self.holding_cost * f64::from(jobs)
            + self.effort_cost * f64::from(action.count_ones())
            + self.loss_cost * lost;
        cost / self.events()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_pass_through() {
        let network = QueueNetwork { capacity: 2, ..QueueNetwork::default() };
        let mdp = network.generate().unwrap();
        assert_eq!((mdp.states(), mdp.rows()), (9, 36));
        // One job in each queue, the first server fast: Λ = 1 + 2·1.5.
        let (successors, probs) = mdp.transitions().row(4 * 4 + 1);
        assert_eq!((successors, probs), (&[1, 4, 5, 6][..], &[0.25, 0.125, 0.25, 0.375][..]));
        assert_eq!(mdp.action_rewards()[4 * 4 + 1], -(2.0 + 10.0) / 4.0);
        // Both full, both slow: the first server is blocked, and arrivals are lost.
        let (successors, probs) = mdp.transitions().row(8 * 4);
        assert_eq!((successors, probs), (&[5, 8][..], &[0.25, 0.75][..]));
        assert_eq!(mdp.action_rewards()[8 * 4], -(4.0 + 100.0) / 4.0);
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |network: QueueNetwork| network.generate().err().unwrap().to_string();
        let large = QueueNetwork { queues: 8, capacity: 100, ..QueueNetwork::default() };
        assert_eq!(message(large), "the model has more than 4294967295 states, the most that warpkov can number");
        let slow = QueueNetwork { fast_rate: 0.5, ..QueueNetwork::default() };
        assert_eq!(message(slow), "fast_rate is 0.5, expected a number, the slow rate or above");
        let none = QueueNetwork { queues: 0, ..QueueNetwork::default() };
        assert_eq!(message(none), "queues is 0, expected 1 to 8");
    }
}
