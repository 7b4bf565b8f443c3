//! Monte Carlo evaluation of a policy of alpha vectors, or of a finite-state controller.
//!
//! Each step takes the action of the best vector at the belief, or that of the controller's node. The belief starts at b₀ and follows Bayes' rule
//! exactly. The return of an episode, in the model's own sign, is
//!
//! > G = Σₜ γᵗ R(sₜ, aₜ, sₜ₊₁) over t < H
//!
//! An episode ends early in an absorbing state with zero reward, and behind a node that ends it. Truncation after H steps changes G by at most γᴴ · max
//! |r| / (1 − γ).
//!
//! Each episode has its own random stream, and returns are added in the order of episodes, so equal seeds give equal
//! results on any number of threads.

use std::ops::ControlFlow;

use rand_chacha::rand_core::Rng;
use rayon::prelude::*;

use super::alpha::AlphaVectors;
use super::backends::cpu::Vectors;
use super::belief::Belief;
use super::controller::{Controller, Values};
use super::model::Pomdp;
use super::projection::Projection;
use warpkov_common::numbers::max_norm;
use warpkov_common::random::{draw, random};

/// The 97.5 % quantile of the normal distribution.
const QUANTILE: f64 = 1.959_963_984_540_054;

/// Largest γᴴ for the default H.
const NEGLIGIBLE: f64 = 1e-6;

/// Parameters of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// n, the number of episodes; at least 1.
    pub episodes: u32,
    /// H, the maximum number of steps per episode; `None` is the least H with γᴴ ≤ 10⁻⁶, or the steps of a plan.
    pub steps: Option<u32>,
    /// Seed of all random streams.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { episodes: 10_000, steps: None, seed: 42 }
    }
}

/// Why a simulation cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The policy is empty.
    #[error("the policy has no vectors")]
    NoVectors,
    /// The policy has vectors of the wrong length.
    #[error("the policy's vectors have {found} entries, expected {expected}, one for each state")]
    States {
        /// Length of the vectors.
        found: u32,
        /// |S|.
        expected: u32,
    },
    /// A vector has an action out of range.
    #[error("vector {vector} of the policy begins with action {found}, expected one below {actions}")]
    Action {
        /// Index of the vector.
        vector: usize,
        /// Its action.
        found: u32,
        /// |A|.
        actions: u32,
    },
    /// γ = 1 needs an explicit H.
    #[error("γ is 1, and episodes might never end: expected a number of steps (option steps)")]
    Endless,
    /// n = 0.
    #[error("expected at least one episode")]
    None,
}

/// A step of an episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// b, before the step.
    pub belief: Belief,
    /// V(b) of the maximisation problem.
    pub value: f64,
    /// sₜ.
    pub state: u32,
    /// aₜ.
    pub action: u32,
    /// R(sₜ, aₜ, sₜ₊₁).
    pub reward: f64,
    /// sₜ₊₁.
    pub next: u32,
    /// oₜ₊₁.
    pub observation: u32,
}

/// Statistics of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Evaluation {
    /// Mean of G.
    pub mean: f64,
    /// Half-width of the 95 % confidence interval of the mean, 1.96 standard errors; infinite for one episode.
    pub half_width: f64,
    /// n.
    pub episodes: u32,
    /// H.
    pub horizon: u32,
    /// Total number of steps.
    pub steps: u64,
    /// Number of truncated episodes.
    pub cut: u32,
    /// Bound on the truncation error of the mean: cut/n · γᴴ · max |r| / (1 − γ).
    pub tail: f64,
}

impl Evaluation {
    /// Whether `value` lies in the confidence interval, widened by the truncation error.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width + self.tail
    }
}

/// A model with a policy, ready to simulate.
pub struct Simulator<'m> {
    model: &'m Pomdp,
    policy: Acting<'m>,
    horizon: u32,
    /// Initial beliefs and their probabilities; see [`Pomdp::starts`].
    starts: Vec<(f64, Belief)>,
    /// Absorbing states with zero reward.
    ends: Vec<bool>,
    seed: u64,
    episodes: u32,
    /// max |r(s, a)|.
    largest: f64,
}

/// What selects the actions.
enum Acting<'m> {
    /// The best vector at the belief.
    Vectors(Vectors),
    /// The node of a controller.
    Controller(&'m Controller, &'m Values),
}

/// Checks that the policy fits the model.
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
    /// Prepares the episodes. The vectors belong to the maximisation problem.
    ///
    /// # Errors
    /// If the policy does not fit the model, there are no episodes, or H is missing; see [`Error`].
    pub fn new(model: &'m Pomdp, policy: &AlphaVectors, options: &Options) -> Result<Self, Error> {
        check(model, policy)?;
        Self::acting(model, Acting::Vectors(Vectors::new(policy)), options)
    }

    /// Prepares episodes of a controller for the model; `values` are [its values](Controller::evaluate).
    ///
    /// # Errors
    /// If there are no episodes, or H is missing; see [`Error`].
    pub fn of_controller(
        model: &'m Pomdp,
        controller: &'m Controller,
        values: &'m Values,
        options: &Options,
    ) -> Result<Self, Error> {
        Self::acting(model, Acting::Controller(controller, values), options)
    }

    fn acting(model: &'m Pomdp, policy: Acting<'m>, options: &Options) -> Result<Self, Error> {
        if options.episodes == 0 {
            return Err(Error::None);
        }
        let gamma = model.gamma();
        let depth = match &policy {
            Acting::Controller(controller, _) => controller.depth(),
            Acting::Vectors(_) => None,
        };
        let horizon = match options.steps.or(depth) {
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
        let largest = max_norm(&rewards);
        Ok(Self {
            model,
            policy,
            horizon,
            starts: model.starts(),
            ends,
            seed: options.seed,
            episodes: options.episodes,
            largest,
        })
    }

    /// Runs all episodes on all cores. Once `stop` returns true, the result covers the episodes before the first
    /// unfinished one; `None` if there are none.
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

    /// Runs episode `episode` and passes each step to `show`, until that breaks. Returns whether the episode ended
    /// without truncation.
    pub fn episode(
        &self,
        projection: &mut Projection,
        episode: u64,
        mut show: impl FnMut(&Step) -> ControlFlow<()>,
    ) -> bool {
        let mut random = random(self.seed, episode);
        let start = self.model.start();
        let mut state = one_of((start.states(), start.probs()), &mut random);
        // The fully observed component is known from the start.
        let has = |(_, belief): &(f64, Belief)| belief.states().binary_search(&state).is_ok();
        let part = self.starts.iter().position(has).unwrap_or_default();
        let mut belief = self.starts.get(part).map_or_else(|| Belief::at(state), |(_, belief)| belief.clone());
        let mut node = match &self.policy {
            Acting::Controller(_, values) => values.starts.get(part).copied(),
            Acting::Vectors(_) => None,
        };
        for _ in 0..self.horizon {
            if self.ends[state as usize] {
                return true;
            }
            let (action, value) = match (&self.policy, node) {
                (Acting::Vectors(vectors), _) => {
                    let Some((vector, value)) = vectors.best(&belief) else { return true };
                    (vectors.alpha().actions()[vector as usize], value)
                }
                (Acting::Controller(controller, values), Some(node)) => {
                    let sign = self.model.process().objective().sign();
                    (controller.action(node), sign * belief.dot(values.nodes.vector(node as usize)))
                }
                (Acting::Controller(..), None) => return true,
            };
            let next = one_of(self.model.successors(state, action), &mut random);
            let observation = one_of(self.model.observed(action, next), &mut random);
            let after = projection.update(self.model, &belief, action, observation);
            let reward = self.reward(state, action, next);
            if show(&Step { belief, value, state, action, reward, next, observation }).is_break() {
                return false;
            }
            // An observation of probability 0 can occur only through rounding. The true state then replaces the belief.
            belief = after.unwrap_or_else(|| Belief::at(next));
            state = next;
            if let (Acting::Controller(controller, _), Some(last)) = (&self.policy, node) {
                node = controller.next(last, observation);
                if node.is_none() {
                    return true;
                }
            }
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

/// Draws an index by its probability.
fn one_of((things, probs): (&[u32], &[f64]), random: &mut impl Rng) -> u32 {
    draw(random, things.iter().copied().zip(probs.iter().copied())).unwrap_or_default()
}
