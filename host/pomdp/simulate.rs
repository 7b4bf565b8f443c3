//! Episodes of a model under a policy of alpha vectors: what it earns, estimated from many of them.
//!
//! In each step the policy takes the action of the vector that is best at the belief, which is tracked exactly, by Bayes'
//! rule from b₀. Rewards are those of the model, in its own sign:
//!
//! > G = Σₜ γᵗ R(sₜ, aₜ, sₜ₊₁) over t < H
//!
//! An episode ends early in a state that no action leaves and that earns nothing: there is nothing left to come. One that is
//! cut after H steps lacks at most γᴴ · max |r| / (1 − γ).
//!
//! Each episode draws from a random stream of its own, and results are added up in the order of episodes: equal seeds give
//! equal results on any number of threads.

use std::ops::ControlFlow;

use rand_chacha::rand_core::Rng;
use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::belief::Belief;
use super::cpu::Vectors;
use super::model::Pomdp;
use super::projection::Projection;
use crate::common::random::{draw, random};

/// The 97.5 % quantile of the normal distribution.
const QUANTILE: f64 = 1.959_963_984_540_054;

/// What γᴴ may be at most, where nobody says what H is.
const NEGLIGIBLE: f64 = 1e-6;

/// What to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// n, the number of episodes, at least 1.
    pub episodes: u32,
    /// H, steps of an episode at most; `None` is as many as make γᴴ ≤ 10⁻⁶.
    pub steps: Option<u32>,
    /// Of all that is random.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { episodes: 10_000, steps: None, seed: 42 }
    }
}

/// Why there is nothing to simulate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No vectors, no policy.
    #[error("the policy has no vectors")]
    NoVectors,
    /// The policy is one of another model.
    #[error("the policy's vectors have {found} entries, expected {expected}, one for each state")]
    States {
        /// Entries of a vector.
        found: u32,
        /// |S|.
        expected: u32,
    },
    /// Likewise.
    #[error("vector {vector} of the policy begins with action {found}, expected one below {actions}")]
    Action {
        /// The vector.
        vector: usize,
        /// Its action.
        found: u32,
        /// |A|.
        actions: u32,
    },
    /// Nothing says when an episode ends.
    #[error("γ is 1, so that episodes need not end: expected a number of steps (option steps)")]
    Endless,
    /// No episodes.
    #[error("expected at least one episode")]
    None,
}

/// A step of an episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What was known before it.
    pub belief: Belief,
    /// V(b) by the vectors, of the model to be maximised.
    pub value: f64,
    /// sₜ.
    pub state: u32,
    /// aₜ.
    pub action: u32,
    /// R(sₜ, aₜ, sₜ₊₁).
    pub reward: f64,
    /// sₜ₊₁.
    pub next: u32,
    /// What was seen there.
    pub observation: u32,
}

/// What many episodes came to.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Evaluation {
    /// The mean of G.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval, 1.96 standard errors; infinite for one episode.
    pub half_width: f64,
    /// n.
    pub episodes: u32,
    /// H.
    pub horizon: u32,
    /// Steps of all episodes.
    pub steps: u64,
    /// Episodes that were cut after H steps.
    pub cut: u32,
    /// By how much the mean may differ from that of endless episodes: cut/n · γᴴ · max |r| / (1 − γ).
    pub tail: f64,
}

impl Evaluation {
    /// Whether `value` is within the confidence interval, as much wider as what was cut off may be worth.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width + self.tail
    }
}

/// A policy that runs on a model.
pub struct Simulator<'m> {
    model: &'m Pomdp,
    vectors: Vectors,
    horizon: u32,
    /// What may be known at the start.
    starts: Vec<(f64, Belief)>,
    /// States in which nothing happens any more.
    ends: Vec<bool>,
    seed: u64,
    episodes: u32,
    /// max |r(s, a)|.
    largest: f64,
}

/// Whether the policy is one for the model.
///
/// # Errors
/// [`Error::NoVectors`], [`Error::States`] or [`Error::Action`].
pub fn check(model: &Pomdp, policy: &AlphaVectors) -> Result<(), Error> {
    let (states, actions) = (model.states(), model.actions());
    if policy.is_empty() {
        return Err(Error::NoVectors);
    }
    if policy.states() != states {
        return Err(Error::States { found: policy.states(), expected: states });
    }
    match policy.actions().iter().position(|&action| action >= actions) {
        Some(vector) => Err(Error::Action { vector, found: policy.actions()[vector], actions }),
        None => Ok(()),
    }
}

impl<'m> Simulator<'m> {
    /// Prepares episodes. The vectors are those of the model to be maximised.
    ///
    /// # Errors
    /// If the policy is not one for the model, or there is nothing to do; see [`Error`].
    pub fn new(model: &'m Pomdp, policy: &AlphaVectors, options: &Options) -> Result<Self, Error> {
        check(model, policy)?;
        if options.episodes == 0 {
            return Err(Error::None);
        }
        let gamma = model.gamma();
        let horizon = match options.steps {
            Some(steps) => steps,
            None if gamma == 0.0 => 1,
            None if gamma < 1.0 => (NEGLIGIBLE.ln() / gamma.ln()).ceil() as u32,
            None => return Err(Error::Endless),
        };
        let rewards = model.expected_rewards();
        let actions = model.actions();
        let ended = |state: u32| {
            let earns_nothing = |action| rewards[(state * actions + action) as usize] == 0.0;
            model.is_absorbing(state) && (0..actions).all(earns_nothing)
        };
        let ends = (0..model.states()).into_par_iter().map(ended).collect();
        let largest = rewards.iter().fold(0.0, |most: f64, reward| most.max(reward.abs()));
        let vectors = Vectors::new(policy);
        Ok(Self {
            model,
            vectors,
            horizon,
            starts: model.starts(),
            ends,
            seed: options.seed,
            episodes: options.episodes,
            largest,
        })
    }

    /// Runs all episodes, on all cores. Once `stop` says yes, those count that were run by then, up to the first that was not; `None`
    /// where that is the first of all.
    #[must_use]
    pub fn evaluate(&self, stop: &(dyn Fn() -> bool + Sync)) -> Option<Evaluation> {
        let run = |projection: &mut Projection, episode: u32| {
            let (mut earned, mut discount, mut steps) = (0.0, 1.0, 0);
            let mut stopped = false;
            let ended = self.episode(projection, episode.into(), |step| {
                earned += discount * step.reward;
                discount *= self.model.gamma();
                steps += 1;
                stopped = stop();
                if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            (!stopped).then_some((earned, steps, !ended))
        };
        let results: Vec<Option<(f64, u64, bool)>> =
            (0..self.episodes).into_par_iter().map_init(Projection::default, run).collect();
        let results: Vec<(f64, u64, bool)> = results.into_iter().map_while(|result| result).collect();
        let episodes = results.len() as u32;
        let count = f64::from(episodes);
        let mean = results.iter().map(|result| result.0).sum::<f64>() / count;
        let squares: f64 = results.iter().map(|result| (result.0 - mean) * (result.0 - mean)).sum();
        let half_width = if episodes > 1 { QUANTILE * (squares / (count - 1.0) / count).sqrt() } else { f64::INFINITY };
        let cut = results.iter().filter(|result| result.2).count() as u32;
        let gamma = self.model.gamma();
        let rest = if self.largest == 0.0 { 0.0 } else { self.largest / (1.0 - gamma) };
        let tail = if cut == 0 { 0.0 } else { f64::from(cut) / count * gamma.powf(f64::from(self.horizon)) * rest };
        let steps = results.iter().map(|result| result.1).sum();
        (episodes > 0).then_some(Evaluation { mean, half_width, episodes, horizon: self.horizon, steps, cut, tail })
    }

    /// Runs episode number `episode` and shows each step, until it is told to break. Whether it ended, and was not cut.
    pub fn episode(
        &self,
        projection: &mut Projection,
        episode: u64,
        mut show: impl FnMut(&Step) -> ControlFlow<()>,
    ) -> bool {
        let mut random = random(self.seed, episode);
        let start = self.model.start();
        let mut state = one_of((start.states(), start.probs()), &mut random);
        // What is seen of the state is known from the start.
        let has = |(_, belief): &&(f64, Belief)| belief.states().binary_search(&state).is_ok();
        let mut belief = self.starts.iter().find(has).map_or_else(|| Belief::at(state), |(_, belief)| belief.clone());
        for _ in 0..self.horizon {
            if self.ends[state as usize] {
                return true;
            }
            let Some((vector, value)) = self.vectors.best(&belief) else { return true };
            let action = self.vectors.alpha().actions()[vector as usize];
            let next = one_of(self.model.successors(state, action), &mut random);
            let observation = one_of(self.model.observed(action, next), &mut random);
            let after = projection.update(self.model, &belief, action, observation);
            let reward = self.reward(state, action, next);
            if show(&Step { belief, value, state, action, reward, next, observation }).is_break() {
                return false;
            }
            // What happens with probability 0 by rounding alone leaves no belief but the truth.
            belief = after.unwrap_or_else(|| Belief::at(next));
            state = next;
        }
        self.ends[state as usize]
    }

    /// R(s, a, s').
    fn reward(&self, state: u32, action: u32, next: u32) -> f64 {
        let process = self.model.process();
        let row = process.choices().first(state as usize) + action as usize;
        let (columns, rewards) = process.rewards().row(row);
        columns.binary_search(&next).map_or(0.0, |at| rewards[at]) + process.action_reward(row)
    }
}

/// One of some things, by their probabilities.
fn one_of((things, probs): (&[u32], &[f64]), random: &mut impl Rng) -> u32 {
    draw(random, things.iter().copied().zip(probs.iter().copied())).unwrap_or_default()
}
