//! Random models: Archibald, McKinnon and Thomas, *On the generation of Markov decision processes* (1995); as GARNET in
//! Bhatnagar, Sutton, Ghavamzadeh and Lee, *Natural actor-critic algorithms* (2009), section 7.

use rand_chacha::rand_core::Rng;

use super::demand::{Family, OnDemand};
use super::{Error, MOST_STATES};
use crate::model::Mdp;
use crate::model::whole::{At, Described};
use warpkov_common::choice::choice;
use warpkov_common::parameters::{FRACTION, Parameters as _, count, discount, parameters};
use warpkov_common::random::{below, random, unit};

parameters! {
    /// A random model.
    ///
    /// An action has `branching` distinct successors, drawn uniformly from all such sets. Their probabilities are the gaps
    /// that `branching` − 1 uniform numbers leave in [0, 1]. Rewards are uniform in [0, 1). `ragged`, `terminals`
    /// and `power_law` make the model irregular; `window` makes it local.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Garnet {
        /// S, the number of states, 1 to 2⁴⁸.
        pub states: u64 = 1000, "S" in 1..=MOST_STATES;
        /// A, the number of actions of a state, at least 1.
        pub actions: u32 = 4, "A" in 1..=u32::MAX - 1;
        /// b, the number of successors of an action, from 1 to S or to the size of the window, 2·`window` + 1.
        pub branching: u32 = 5, "B" in 1..=u32::MAX;
        /// Whether the number of actions of a state is uniform in 1 to `actions` instead of always `actions`.
        pub ragged: bool = false, "flag";
        /// The probability that a state is terminal, that is, has no actions; in [0, 1].
        pub terminals: f64 = 0.0, "FRACTION" in FRACTION;
        /// Whether the number of successors of an action is random, in 1 to `branching`, with P(k or more) = 1/k, instead
        /// of always `branching`.
        pub power_law: bool = false, "flag";
        /// Maximum distance from a state to its successors on the ring of all states; `None` for no limit.
        pub window: Option<u64> = None, "STATES";
        /// Argument of the reward function.
        pub reward_of: RewardOf = RewardOf::Action, "WHAT";
        /// The probability that a reward is not 0, in [0, 1].
        pub reward_density: f64 = 1.0, "FRACTION" in FRACTION;
        /// γ, the discount factor, in [0, 1].
        pub gamma: f64 = 0.95, "G" in FRACTION;
        /// Seed of all random numbers.
        pub seed: u64 = 42, "N";
    }
}

choice! {
    /// Argument of the reward function.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum RewardOf {
        /// A state and an action.
        #[default]
        Action = "action",
        /// A state, an action and a successor.
        Transition = "transition",
    }
}

/// Purpose of the random numbers of a state or row. Each purpose has its own stream.
#[derive(Clone, Copy)]
enum Use {
    Actions,
    Successors,
    Rewards,
}

impl Garnet {
    /// Generates the model on all cores. P and R store no zeros.
    ///
    /// # Errors
    /// A field is out of its range, the model has too many states for one process or does not fit in memory, or no state has
    /// an action.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.on_demand()?.whole()
    }

    /// The model as a source of rows.
    ///
    /// # Errors
    /// A field is out of its range, or no state has an action.
    pub fn source(&self) -> Result<impl Described + use<>, Error> {
        self.on_demand()
    }

    fn on_demand(&self) -> Result<OnDemand<Self>, Error> {
        self.check()?;
        count("branching", self.branching, 1, u32::try_from(self.pool()).unwrap_or(u32::MAX))?;
        if self.terminals == 0.0 {
            discount(self.gamma)?;
        }
        OnDemand::new(*self)
    }

    /// The number of candidate successors of a row: S, or the size of the window.
    fn pool(&self) -> u64 {
        let window = self.window.and_then(|window| window.checked_mul(2)?.checked_add(1));
        window.map_or(self.states, |window| window.min(self.states))
    }

    /// The stream of a state or row.
    fn random(&self, index: u64, used: Use) -> impl Rng + use<> {
        random(self.seed, index.wrapping_mul(4).wrapping_add(used as u64))
    }

    /// The number of successors of a row.
    fn draw_length(&self, random: &mut impl Rng) -> usize {
        if !self.power_law {
            return self.branching as usize;
        }
        // P(1 / (1 − u) ≥ k) = 1/k.
        let length = (1.0 - unit(random)).recip();
        length.min(self.branching.into()) as usize
    }

    /// A reward, or 0.
    fn draw_reward(&self, random: &mut impl Rng) -> f64 {
        let (chance, reward) = (unit(random), unit(random));
        if chance < self.reward_density { reward } else { 0.0 }
    }
}

impl Family for Garnet {
    fn states(&self) -> u64 {
        self.states
    }

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn uniform(&self) -> Option<u32> {
        (!self.ragged && self.terminals == 0.0).then_some(self.actions)
    }

    fn actions_of(&self, state: u64) -> u32 {
        if let Some(actions) = self.uniform() {
            return actions;
        }
        let mut random = self.random(state, Use::Actions);
        if unit(&mut random) < self.terminals {
            0
        } else if self.ragged {
            1 + below(&mut random, self.actions.into()) as u32
        } else {
            self.actions
        }
    }

    fn length(&self, at: At) -> usize {
        match self.power_law {
            true => self.draw_length(&mut self.random(at.row, Use::Successors)),
            false => self.branching as usize,
        }
    }

    fn successors(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        let mut random = self.random(at.row, Use::Successors);
        let length = self.draw_length(&mut random);
        let (mut col, mut val) = (vec![0; length], vec![0.0; length]);
        distinct(&mut random, self.pool(), &mut col);
        if let Some(window) = self.window
            && self.pool() < self.states
        {
            let first = at.state + (self.states - window);
            col.iter_mut().for_each(|col| *col = (first + *col) % self.states);
            col.sort_unstable();
        }
        // The cut points, then the gaps between them.
        val[..length - 1].fill_with(|| unit(&mut random));
        val[length - 1] = 1.0;
        val.sort_unstable_by(f64::total_cmp);
        for i in (1..length).rev() {
            val[i] -= val[i - 1];
        }
        col.into_iter().zip(val)
    }

    fn reward_of(&self) -> RewardOf {
        self.reward_of
    }

    fn reward(&self, at: At) -> f64 {
        self.draw_reward(&mut self.random(at.row, Use::Rewards))
    }

    fn rewards(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        let mut random = self.random(at.row, Use::Rewards);
        let rewards = self.successors(at).map(move |(successor, _)| (successor, self.draw_reward(&mut random)));
        rewards.filter(|&(_, reward)| reward > 0.0)
    }
}

/// Fills `out` with distinct numbers in 0..n, ascending, drawn uniformly from all such sets. Requires `out.len()` ≤ n.
fn distinct(random: &mut impl Rng, n: u64, out: &mut [u64]) {
    if out.len() as u64 > n / 4 {
        // Selection sampling: take a number with probability (still needed) / (still to come).
        let mut taken = 0;
        for number in 0..n {
            if taken < out.len() && below(random, n - number) < (out.len() - taken) as u64 {
                out[taken] = number;
                taken += 1;
            }
        }
        return;
    }
    // Redraw duplicates until all numbers are distinct.
    let mut distinct = 0;
    while distinct < out.len() {
        out[distinct..].fill_with(|| below(random, n));
        out.sort_unstable();
        distinct = 1;
        for i in 1..out.len() {
            if out[i] != out[distinct - 1] {
                out[distinct] = out[i];
                distinct += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_are_drawn_evenly() {
        let mut random = random(7, 0);
        for (n, length) in [(40, 3), (6, 3), (5, 5), (1, 1)] {
            let (draws, mut counts) = (20_000, vec![0_u32; n as usize]);
            let mut out = vec![0; length];
            for _ in 0..draws {
                distinct(&mut random, n, &mut out);
                assert!(out.windows(2).all(|pair| pair[0] < pair[1]) && out[length - 1] < n);
                out.iter().for_each(|&number| counts[number as usize] += 1);
            }
            let p = length as f64 / n as f64;
            let deviation = (f64::from(draws) * p * (1.0 - p)).sqrt();
            let even = |&count: &u32| (f64::from(count) - f64::from(draws) * p).abs() <= 5.0 * deviation;
            assert!(counts.iter().all(even), "{n}, {length}: {counts:?}");
        }
    }

    #[test]
    fn has_the_requested_shape() {
        let mdp = Garnet::default().generate().unwrap();
        assert_eq!((mdp.rows(), mdp.transitions().nnz(), mdp.rewards().nnz()), (4000, 20_000, 0));
        assert!(mdp.action_rewards().iter().all(|r| (0.0..1.0).contains(r)));

        let sparse = Garnet { reward_of: RewardOf::Transition, reward_density: 0.25, ..Garnet::default() };
        let sparse = sparse.generate().unwrap();
        assert!((4500..5500).contains(&sparse.rewards().nnz()), "{}", sparse.rewards().nnz());
        assert_eq!(sparse.transition_rewards().iter().filter(|&&r| r > 0.0).count(), sparse.rewards().nnz());
        assert_eq!(sparse.transitions().val()[..], mdp.transitions().val()[..], "of the same seed");

        let local = Garnet { window: Some(10), ..Garnet::default() }.generate().unwrap();
        for row in 0..local.rows() {
            let distance = |s: u32| (row as u32 / 4).abs_diff(s);
            assert!(local.transitions().row(row).0.iter().all(|&s| distance(s) <= 10 || distance(s) >= 990));
        }
    }

    #[test]
    fn has_the_requested_irregularity() {
        let garnet = Garnet { ragged: true, terminals: 0.1, power_law: true, branching: 400, ..Garnet::default() };
        let mdp = garnet.generate().unwrap();
        let counts: Vec<_> = (0..1000).map(|state| mdp.choices().count(state)).collect();
        let having = |actions| counts.iter().filter(|&&count| count == actions).count();
        assert!((50..150).contains(&having(0)), "{}", having(0));
        assert!((1..=4).all(|actions| (150..300).contains(&having(actions))) && mdp.choices().max() == 4);
        let lengths: Vec<_> = (0..mdp.rows()).map(|row| mdp.transitions().row(row).0.len()).collect();
        for k in [2, 10, 100] {
            let (longer, expected) = (lengths.iter().filter(|&&length| length >= k).count(), lengths.len() / k);
            assert!(longer.abs_diff(expected) < 5 * expected.isqrt(), "{k}: {longer}, not {expected}");
        }
        assert!(lengths.iter().all(|length| (1..=400).contains(length)));
        let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let again = single.install(|| garnet.generate()).unwrap();
        assert_eq!(mdp.transitions().col()[..], again.transitions().col()[..]);
        assert_eq!(mdp.transitions().val()[..], again.transitions().val()[..]);
    }

    /// The model of seed 42 must never change.
    #[test]
    fn is_the_same_everywhere() {
        let mdp = Garnet { states: 50, actions: 1, branching: 3, ..Garnet::default() }.generate().unwrap();
        assert_eq!(mdp.transitions().row(0).0, [26, 44, 47]);
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |garnet: Garnet| garnet.generate().err().unwrap().to_string();
        let wide = Garnet { window: Some(1), ..Garnet::default() };
        assert_eq!(message(wide), "branching is 5, expected 1 to 3");
        assert_eq!(message(Garnet { states: 0, ..Garnet::default() }), "states is 0, expected 1 to 281474976710656");
        let over = Garnet { terminals: 1.0, ..Garnet::default() };
        assert_eq!(message(over), "no state has an action, expected at least one");
    }
}
