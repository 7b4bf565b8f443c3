//! Tandem queues with controlled servers. Sources: Weber and Stidham, *Optimal control of service rates in networks of
//! queues* (1987), for the model; Puterman, *Markov Decision Processes* (1994), section 11.5, for uniformisation.

use super::demand::{Family, OnDemand};
use super::{Error, MOST_STATES};
use crate::model::Mdp;
use crate::model::whole::{At, Described};
use warpkov_common::parameters::{self, BELOW_ONE, NON_NEGATIVE, POSITIVE, Parameters as _, number, parameters};

parameters! {
    /// Jobs that pass through a series of queues.
    ///
    /// Jobs arrive at the first queue at `arrival_rate` and are lost while it is full. Each queue has one server, which
    /// works at `slow_rate` or `fast_rate`. A finished job moves to the next queue, or leaves the system after the last.
    /// While the next queue is full, the server is blocked. State Σ nᵢ·(`capacity` + 1)ⁱ encodes the number of jobs nᵢ in
    /// each queue. Bit i of an action selects the fast rate for server i. Costs accrue over time: `holding_cost` per job,
    /// `effort_cost` per fast server, and `loss_cost` per lost job. Rewards are negative costs.
    ///
    /// Time is uniformised: a step is one event at rate Λ = `arrival_rate` + `queues` · `fast_rate`, so γ discounts a time
    /// of 1/Λ. The process is recurrent under every policy. Near critical load, where service rates are close to the
    /// arrival rate, it mixes in about `capacity`² steps, so a γ close to 1 is hard for iterative methods.
    ///
    /// The defaults are two queues that are critically loaded at the slow rate.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct QueueNetwork {
        /// Number of queues, 1 to 8.
        pub queues: u32 = 2, "N" in 1..=8;
        /// Maximum jobs in a queue, at least 1; (`capacity` + 1)^`queues` is at most 2⁴⁸.
        pub capacity: u32 = 63, "JOBS" in 1..=u32::MAX - 1;
        /// Arrivals per unit of time, above 0.
        pub arrival_rate: f64 = 1.0, "RATE" in POSITIVE;
        /// Jobs per unit of time that a slow server finishes, above 0.
        pub slow_rate: f64 = 1.0, "RATE" in POSITIVE;
        /// Jobs per unit of time that a fast server finishes, at least `slow_rate`.
        pub fast_rate: f64 = 1.5, "RATE" in POSITIVE;
        /// Cost per job and unit of time, 0 or above.
        pub holding_cost: f64 = 1.0, "COST" in NON_NEGATIVE;
        /// Cost per fast server and unit of time, 0 or above.
        pub effort_cost: f64 = 10.0, "COST" in NON_NEGATIVE;
        /// Cost per lost job, 0 or above.
        pub loss_cost: f64 = 100.0, "COST" in NON_NEGATIVE;
        /// γ, the discount factor, in [0, 1).
        pub gamma: f64 = 0.999, "G" in BELOW_ONE;
    }
}

impl QueueNetwork {
    /// Generates the model on all cores.
    ///
    /// # Errors
    /// A field is out of its range, the model has too many states for one process, or it does not fit in memory.
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
        number("fast_rate", self.fast_rate, self.fast_rate >= self.slow_rate, "a number, the slow rate or above")?;
        let states = (u64::from(self.capacity) + 1).checked_pow(self.queues);
        match states.is_some_and(|states| states <= MOST_STATES) {
            true => OnDemand::new(*self),
            false => Err(parameters::Error::States.into()),
        }
    }

    /// Λ, the uniformisation rate.
    fn uniform_rate(&self) -> f64 {
        self.arrival_rate + f64::from(self.queues) * self.fast_rate
    }

    /// Weight of queue `i` in the state number.
    fn weight(&self, i: u32) -> u64 {
        (u64::from(self.capacity) + 1).pow(i)
    }

    /// Jobs in queue `i`.
    fn jobs(&self, state: u64, i: u32) -> u64 {
        state / self.weight(i) % (u64::from(self.capacity) + 1)
    }

    fn rate(&self, action: u32, i: u32) -> f64 {
        if action >> i & 1 == 1 { self.fast_rate } else { self.slow_rate }
    }

    /// Whether server `i` has a job and is not blocked.
    fn works(&self, state: u64, i: u32) -> bool {
        self.jobs(state, i) > 0 && (i + 1 == self.queues || self.jobs(state, i + 1) < self.capacity.into())
    }
}

impl Family for QueueNetwork {
    fn states(&self) -> u64 {
        self.weight(self.queues)
    }

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn uniform(&self) -> Option<u32> {
        Some(1 << self.queues)
    }

    /// A departure, no change, an arrival, moves to the next queue.
    fn successors(&self, At { state, action, .. }: At) -> impl Iterator<Item = (u64, f64)> {
        let (uniform_rate, last) = (self.uniform_rate(), self.queues - 1);
        let room = self.jobs(state, 0) < self.capacity.into();
        let idle = |i| self.fast_rate - if self.works(state, i) { self.rate(action, i) } else { 0.0 };
        let stay = (0..self.queues).map(idle).sum::<f64>() + if room { 0.0 } else { self.arrival_rate };
        let leave = self.works(state, last).then(|| (state - self.weight(last), self.rate(action, last)));
        let arrive = room.then_some((state + 1, self.arrival_rate));
        let moves = (0..last).filter(move |&i| self.works(state, i));
        let moves = moves.map(move |i| (state - self.weight(i) + self.weight(i + 1), self.rate(action, i)));
        let stay = (stay > 0.0).then_some((state, stay));
        let entries = leave.into_iter().chain(stay).chain(arrive).chain(moves);
        entries.map(move |(successor, rate)| (successor, rate / uniform_rate))
    }

    /// The expected cost of a step, negated.
    fn reward(&self, At { state, action, .. }: At) -> f64 {
        let jobs: u64 = (0..self.queues).map(|i| self.jobs(state, i)).sum();
        let lost = if self.jobs(state, 0) == u64::from(self.capacity) { self.arrival_rate } else { 0.0 };
        let cost =
            self.holding_cost * jobs as f64 + self.effort_cost * f64::from(action.count_ones()) + self.loss_cost * lost;
        -(cost / self.uniform_rate())
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
        // One job in each queue, first server fast: Λ = 1 + 2·1.5.
        let (successors, probs) = mdp.transitions().row(4 * 4 + 1);
        assert_eq!((successors, probs), (&[1, 4, 5, 6][..], &[0.25, 0.125, 0.25, 0.375][..]));
        assert_eq!(mdp.action_rewards()[4 * 4 + 1], -(2.0 + 10.0) / 4.0);
        // Both queues full, both servers slow: the first server is blocked, and arrivals are lost.
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
