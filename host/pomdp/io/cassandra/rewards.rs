//! R as a file specifies it, reduced to R(s, a, s').

use super::{ALL, ByteOffset};
use warpkov_mdp::model::Csr;

/// One assignment to R.
struct Setting {
    /// Index of the given components; see `Rewards::key`.
    key: u64,
    /// Byte offset in the file; later assignments override earlier ones.
    at: ByteOffset,
    value: f64,
    /// The observation, or [`ALL`].
    observation: u32,
}

/// All assignments to R(s, a, s', o).
pub struct Rewards {
    states: u32,
    actions: u32,
    /// Assignments by which components are wildcards, one bit each: action, state, successor.
    settings: [Vec<Setting>; 8],
}

/// The latest reward of an observation for one transition.
#[derive(Clone, Copy, Default)]
struct Latest {
    /// Identifies the transition.
    look: u64,
    at: ByteOffset,
    value: f64,
}

impl Rewards {
    /// R = 0.
    pub fn new(states: u32, actions: u32) -> Self {
        Self { states, actions, settings: Default::default() }
    }

    fn class(action: u32, state: u32, successor: u32) -> usize {
        usize::from(action == ALL) | usize::from(state == ALL) << 1 | usize::from(successor == ALL) << 2
    }

    /// An index that is unique among assignments with the same wildcards.
    fn key(&self, action: u32, state: u32, successor: u32) -> u64 {
        let digits = [(state, self.states), (action, self.actions), (successor, self.states)];
        let given = digits.into_iter().filter(|digit| digit.0 != ALL);
        given.fold(0, |key, (digit, base)| key * u64::from(base) + u64::from(digit))
    }

    /// Assigns a reward; every component may be [`ALL`].
    #[inline]
    pub fn set(&mut self, [action, state, successor, observation]: [u32; 4], at: ByteOffset, value: f64) {
        if [action, state, successor, observation] == [ALL; 4] {
            self.settings.iter_mut().for_each(Vec::clear);
        }
        let setting = Setting { key: self.key(action, state, successor), at, value, observation };
        self.settings[Self::class(action, state, successor)].push(setting);
    }

    fn settings(&self, action: u32, state: u32, successor: u32) -> &[Setting] {
        let settings = &self.settings[Self::class(action, state, successor)];
        if settings.is_empty() {
            return settings;
        }
        let key = self.key(action, state, successor);
        let first = settings.partition_point(|setting| setting.key < key);
        &settings[first..first + settings[first..].partition_point(|setting| setting.key == key)]
    }

    /// The expectation Σₒ R(s, a, s', o) O(a, s', o): as a matrix R(s, a, s') for rows in which it depends on s', and
    /// one number per row elsewhere. Each is empty if it is 0 everywhere.
    pub fn reduced(mut self, transitions: &Csr, observations: &Csr, observation_count: u32) -> (Csr, Vec<f64>) {
        if self.settings.iter().all(Vec::is_empty) {
            return (Csr::empty(transitions.rows()), Vec::new());
        }
        self.settings.iter_mut().for_each(|settings| settings.sort_by_key(|setting| setting.key));
        let mut latest = vec![Latest::default(); observation_count as usize];
        let mut look = 0;
        let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
        let mut action_rewards = vec![0.0; transitions.rows()];
        let mut rewards = Vec::new();
        for (row, action_reward) in action_rewards.iter_mut().enumerate() {
            let (state, action) = (row as u32 / self.actions, row as u32 % self.actions);
            let (successors, _) = transitions.row(row);
            let wild = [(action, state), (ALL, state), (action, ALL), (ALL, ALL)];
            let common = wild.map(|(action, state)| self.settings(action, state, ALL));
            rewards.clear();
            for &successor in successors {
                let own = wild.map(|(action, state)| self.settings(action, state, successor));
                let observed = observations.row(action as usize * self.states as usize + successor as usize);
                look += 1;
                rewards.push(expected(common.iter().chain(&own).copied().flatten(), observed, &mut latest, look));
            }
            if rewards.iter().all(|reward| *reward == rewards[0]) {
                // Turns −0 into 0.
                *action_reward = rewards.first().map_or(0.0, |reward| reward + 0.0);
            } else {
                let nonzero = successors.iter().zip(&rewards).filter(|(_, reward)| **reward != 0.0);
                for (&successor, &reward) in nonzero {
                    col.push(successor);
                    val.push(reward);
                }
            }
            row_ptr.push(col.len() as u64);
        }
        if action_rewards.iter().all(|reward| *reward == 0.0) {
            action_rewards.clear();
        }
        (Csr::built(row_ptr, col, val), action_rewards)
    }
}

/// The expected reward of a transition, where later assignments override earlier ones. If all possible observations
/// have the same reward, the result is exactly this one.
fn expected<'s>(
    settings: impl Iterator<Item = &'s Setting> + Clone,
    (observations, probs): (&[u32], &[f64]),
    latest: &mut [Latest],
    look: u64,
) -> f64 {
    let all = settings.clone().filter(|setting| setting.observation == ALL).max_by_key(|setting| setting.at);
    let (since, otherwise) = all.map_or((0, 0.0), |setting| (setting.at, setting.value));
    let mut any = false;
    for &Setting { at, value, observation, .. } in settings {
        if observation != ALL && at >= since {
            any = true;
            let latest = &mut latest[observation as usize];
            if latest.look != look || latest.at <= at {
                *latest = Latest { look, at, value };
            }
        }
    }
    if !any {
        return otherwise;
    }
    let reward = |observation: u32| {
        let latest = latest[observation as usize];
        if latest.look == look { latest.value } else { otherwise }
    };
    let first = observations.first().map_or(otherwise, |&observation| reward(observation));
    if observations.iter().all(|&observation| reward(observation) == first) {
        return first;
    }
    observations.iter().zip(probs).fold(0.0, |sum, (&observation, prob)| sum + prob * reward(observation))
}
