//! Monte Carlo evaluation of a policy, by criterion.
//!
//! A path starts in one of the start states, each equally likely, and follows the Markov [chain](super::evaluate::unrolled)
//! of the policy. What a path yields, in the model's own sign:
//!
//! | Criterion | Yield | Interval |
//! | --- | --- | --- |
//! | discounted | Σₜ γᵗ R(sₜ, aₜ, sₜ₊₁) over t < T | normal, widened by the share of cut paths · γᵀ · max\|R\| / (1 − γ) |
//! | horizon | the same over the T steps of the criterion | normal |
//! | reach | 1 if the goal is reached, else 0 | Wilson; a cut path may be either |
//! | total | Σₜ R until the goal, or until no reward is left | normal; unbounded if a path is cut |
//! | average | mean of R over the second half of T steps | normal; does not cover the bias of order 1/T |
//!
//! A path ends where the process ends, in the goal, and where its yield can no longer change. A path that is still under way
//! after T steps is *cut*.
//!
//! Each path has its own random stream, and yields are added in the order of the paths, so equal seeds give equal
//! results on any number of threads.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use csv::WriterBuilder;
use rand_chacha::rand_core::Rng;
use rayon::prelude::*;
use serde::Serialize;

use super::evaluate::criterion_in_words;
use super::table::write_line;
use crate::analysis::graph::Graph;
use crate::criterion::Criterion;
use crate::model::{Mdp, Objective};
use crate::report::Number;
use warpkov_common::random::{below, draw, random};
use warpkov_common::report::{Report, write_object};
use warpkov_common::terminal::escaped;

/// Largest γᵀ for the default T.
const NEGLIGIBLE: f64 = 1e-6;

/// T by default, under the criteria without a discount.
const LONGEST: u64 = 1_000_000;

/// T by default, for the average reward.
const AVERAGED: u64 = 10_000;

/// Parameters of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// n, the number of paths, at least 1.
    pub episodes: u32,
    /// T, the most steps of a path; by default the least with γᵀ ≤ 10⁻⁶, 10⁶ without a discount, and 10⁴ for the average
    /// reward. A horizon has its own.
    pub steps: Option<u64>,
    /// Seed of all random streams.
    pub seed: u64,
    /// Start states, each equally likely.
    pub starts: Vec<u32>,
    /// Probability in (0, 1) with which the interval holds the expected yield.
    pub confidence: f64,
}

/// Why a simulation cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// γ = 1 under the discounted criterion.
    #[error("gamma is 1, but discounted values need gamma < 1: set option gamma, or an undiscounted option criterion")]
    Undiscounted,
    /// No episodes, or no start states.
    #[error("expected at least one episode and one start state")]
    None,
    /// The total reward until a goal that a path may miss, with rewards of both signs.
    #[error("the total reward is undefined: the policy may miss the goal, and rewards have both signs")]
    Missed,
    /// A goal state is out of range.
    #[error("goal {found}, expected a state below {states}")]
    Goal {
        /// The state.
        found: u32,
        /// Number of states.
        states: u32,
    },
}

/// A step of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// sₜ.
    pub state: u32,
    /// R(sₜ, aₜ, sₜ₊₁).
    pub reward: f64,
    /// sₜ₊₁; none if the process ends.
    pub next: Option<u32>,
}

/// How a path ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// In the goal.
    Reached,
    /// Where its yield can no longer change: for a goal, where it can no longer be reached.
    Settled,
    /// After T steps.
    Cut,
    /// By the caller.
    Stopped,
}

/// The Markov chain of a policy, ready to simulate.
pub struct Simulator<'m> {
    chain: &'m Mdp,
    criterion: Option<&'m Criterion>,
    options: Options,
    /// T.
    steps: u64,
    goal: Vec<bool>,
    /// States in which the yield of a path can no longer change.
    settled: Vec<bool>,
    /// max |R|.
    largest: f64,
    /// The value of a path that misses the goal: 0 for reach, ±∞ for the total reward.
    missed: f64,
}

/// Statistics of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SimulationStatistics {
    /// Mean yield, or the share of paths that reach the goal.
    pub mean: Number,
    /// Lower end of the interval.
    pub lower: Number,
    /// Upper end of the interval.
    pub upper: Number,
    /// Probability with which the interval holds the expected yield, up to the approximations of the
    /// [module](self).
    pub confidence: f64,
    /// Standard error of the mean.
    pub standard_error: Number,
    /// n.
    pub episodes: u32,
    /// T.
    pub horizon: u64,
    /// Total number of steps.
    pub steps: u64,
    /// Number of cut paths.
    pub cut: u32,
    /// What the interval was widened by on each side, because paths were cut.
    pub tail: Number,
    /// Paths that reached the goal; none without a goal.
    pub reached: Option<u32>,
}

impl SimulationStatistics {
    /// Whether `value` lies in the interval.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.lower.0 <= value && value <= self.upper.0
    }
}

impl<'m> Simulator<'m> {
    /// Prepares the paths of a [chain](super::evaluate::unrolled) by a criterion; `None` is the discounted sum.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(chain: &'m Mdp, criterion: Option<&'m Criterion>, options: Options) -> Result<Self, Error> {
        if options.episodes == 0 || options.starts.is_empty() {
            return Err(Error::None);
        }
        let gamma = chain.gamma();
        let steps = match (criterion, options.steps) {
            (None, _) if gamma >= 1.0 => return Err(Error::Undiscounted),
            (Some(Criterion::Horizon(steps)), _) => u64::from(*steps),
            (_, Some(steps)) => steps,
            (None, None) if gamma == 0.0 => 1,
            (None, None) => (NEGLIGIBLE.ln() / gamma.ln()).ceil() as u64,
            (Some(Criterion::Average), None) => AVERAGED,
            (Some(_), None) => LONGEST,
        };
        let states = chain.states();
        let mut goal = vec![false; states as usize + 1];
        if let Some(Criterion::Reach { goal: list } | Criterion::TotalReward { goal: Some(list) }) = criterion {
            for &found in list {
                if found >= states {
                    return Err(Error::Goal { found, states });
                }
                goal[found as usize] = true;
            }
        }
        let rewards =
            || (0..chain.rows()).flat_map(|row| chain.rewards_of(row).map(move |r| r + chain.action_reward(row)));
        let ending = (0..chain.rows()).filter(|&row| chain.end(row) > 0.0).map(|row| chain.action_reward(row));
        let (least, most) = rewards().chain(ending).fold((0.0, 0.0), |(a, b): (f64, f64), r| (a.min(r), b.max(r)));
        let graph = Graph::new(chain);
        let has_goal = matches!(criterion, Some(Criterion::Reach { .. } | Criterion::TotalReward { goal: Some(_) }));
        // The yield can change while the goal, or a reward, may come.
        let alive: Vec<bool> = match has_goal {
            true => goal.clone(),
            false => {
                let earns = |state: usize| {
                    let mut rows = chain.choices().rows(state);
                    rows.any(|row| chain.action_reward(row) != 0.0 || chain.rewards_of(row).any(|r| r != 0.0))
                };
                (0..=states as usize).map(|state| state < states as usize && earns(state)).collect()
            }
        };
        let settled: Vec<bool> = graph.can_reach(&alive, |_| true).contains.into_iter().map(|alive| !alive).collect();
        let missed = match criterion {
            Some(Criterion::TotalReward { goal: Some(_) }) => match (least < 0.0, most > 0.0) {
                // Only paths that miss the goal are concerned.
                (true, true) if misses(chain, &options.starts, &goal, &settled) => return Err(Error::Missed),
                (true, _) => f64::NEG_INFINITY,
                (false, _) => f64::INFINITY,
            },
            _ => 0.0,
        };
        Ok(Self { chain, criterion, options, steps, goal, settled, largest: most.max(-least), missed })
    }

    /// Runs all paths on all cores. Once `stop` returns true, the result covers the paths before the first unfinished one;
    /// `None` if there are none.
    #[must_use]
    pub fn evaluate(&self, stop: &(dyn Fn() -> bool + Sync)) -> Option<SimulationStatistics> {
        /// Steps between two calls of `stop`.
        const OFTEN: u64 = 1024;

        let gamma = self.chain.gamma();
        let (average, discounts) = (
            matches!(self.criterion, Some(Criterion::Average)),
            matches!(self.criterion, None | Some(Criterion::Horizon(_))),
        );
        let first = if average { self.steps / 2 } else { 0 };
        let run = |episode: u32| {
            if stop() {
                return None;
            }
            let (mut earned, mut discount, mut steps) = (0.0, 1.0, 0);
            let ended = self.episode(episode.into(), |step| {
                if steps >= first {
                    earned += discount * step.reward;
                }
                if discounts {
                    discount *= gamma;
                }
                steps += 1;
                if steps % OFTEN == 0 && stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let value = match (self.criterion, ended) {
                (Some(Criterion::Reach { .. }), ended) => f64::from(u8::from(ended == Ended::Reached)),
                (Some(Criterion::Average), _) => earned / (self.steps - first).max(1) as f64,
                (Some(Criterion::TotalReward { goal: Some(_) }), Ended::Settled) => self.missed,
                _ => earned,
            };
            (ended != Ended::Stopped).then_some((value, steps, ended))
        };
        let paths: Vec<_> = (0..self.options.episodes).into_par_iter().map(run).collect();
        let paths: Vec<(f64, u64, Ended)> = paths.into_iter().map_while(|path| path).collect();
        self.statistics(&paths)
    }

    fn statistics(&self, paths: &[(f64, u64, Ended)]) -> Option<SimulationStatistics> {
        let episodes = paths.len() as u32;
        let count = f64::from(episodes);
        let confidence = self.options.confidence;
        let quantile = quantile(f64::midpoint(confidence, 1.0));
        let ends = |how: Ended| paths.iter().filter(|path| path.2 == how).count() as u32;
        let (reached, cut) = (ends(Ended::Reached), ends(Ended::Cut));
        // Pairwise halves would be more accurate; the sum of n numbers is so to n·u.
        let mean = paths.iter().map(|path| path.0).sum::<f64>() / count;
        let squares: f64 = paths.iter().map(|path| (path.0 - mean) * (path.0 - mean)).sum();
        let error = if episodes > 1 { (squares / (count - 1.0) / count).sqrt() } else { f64::INFINITY };
        let gamma = self.chain.gamma();
        let share = f64::from(cut) / count;
        // A sum of T products has a relative error of about T roundings.
        let longest = paths.iter().map(|path| path.1).max().unwrap_or_default() as f64;
        let weight = if self.criterion.is_none() { longest.min(1.0 / (1.0 - gamma)) } else { longest };
        let rounding = 4.0 * f64::EPSILON * (longest + count) * weight * self.largest;
        let (lower, upper, tail) = match self.criterion {
            Some(Criterion::Reach { .. }) => {
                let (lower, _) = wilson(f64::from(reached), count, quantile);
                let (_, upper) = wilson(f64::from(reached + cut), count, quantile);
                (lower, upper, share)
            }
            _ => {
                let tail = match self.criterion {
                    None if cut > 0 && self.largest > 0.0 => {
                        share * gamma.powf(self.steps as f64) * self.largest / (1.0 - gamma)
                    }
                    Some(Criterion::TotalReward { .. }) if cut > 0 => f64::INFINITY,
                    _ => 0.0,
                };
                match mean.is_finite() {
                    true => {
                        let half = quantile * error + tail + rounding;
                        (mean - half, mean + half, tail)
                    }
                    false => (mean, mean, 0.0),
                }
            }
        };
        let has_goal = self.goal.contains(&true);
        (episodes > 0).then_some(SimulationStatistics {
            mean: Number(mean),
            lower: Number(lower),
            upper: Number(upper),
            confidence,
            standard_error: Number(if mean.is_finite() { error } else { f64::INFINITY }),
            episodes,
            horizon: self.steps,
            steps: paths.iter().map(|path| path.1).sum(),
            cut,
            tail: Number(tail),
            reached: has_goal.then_some(reached),
        })
    }

    /// Runs path `episode` and passes each step to `show`, until that breaks.
    fn episode(&self, episode: u64, mut show: impl FnMut(&Step) -> ControlFlow<()>) -> Ended {
        let chain = self.chain;
        let mut random = random(self.options.seed, episode);
        let starts = &self.options.starts;
        let mut state = starts[below(&mut random, starts.len() as u64) as usize];
        // The average and a horizon count steps, so their paths go on while rewards may come.
        for _ in 0..self.steps {
            if self.goal[state as usize] {
                return Ended::Reached;
            }
            let row = chain.choices().first(state as usize);
            if self.settled[state as usize] || chain.choices().count(state as usize) == 0 {
                return Ended::Settled;
            }
            let (reward, next) = self.step(row, &mut random);
            if show(&Step { state, reward, next }).is_break() {
                return Ended::Stopped;
            }
            match next {
                Some(next) => state = next,
                None => return Ended::Settled,
            }
        }
        match (self.goal[state as usize], self.settled[state as usize], self.criterion) {
            (true, ..) => Ended::Reached,
            (_, true, _) | (.., Some(Criterion::Horizon(_) | Criterion::Average)) => Ended::Settled,
            _ => Ended::Cut,
        }
    }

    /// Draws a reward and a successor of a row.
    fn step(&self, row: usize, random: &mut impl Rng) -> (f64, Option<u32>) {
        let (successors, probs) = self.chain.transitions().row(row);
        let next = successors.iter().copied().map(Some).zip(probs.iter().copied());
        let end = self.chain.end(row);
        let next = draw(random, next.chain((end > 0.0).then_some((None, end)))).flatten();
        let (columns, rewards) = self.chain.rewards().row(row);
        let of_transition = next.and_then(|next| columns.binary_search(&next).ok()).map_or(0.0, |at| rewards[at]);
        (self.chain.action_reward(row) + of_transition, next)
    }

    /// Writes the first `count` paths as CSV, a line for each step, by the names of `mdp` and the actions of `policy`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_paths(&self, count: u32, mdp: &Mdp, policy: &[u32], out: &mut dyn Write) -> io::Result<()> {
        let mut writer = WriterBuilder::new().from_writer(out);
        writer.write_record(["episode", "step", "state", "action", "reward", "next"])?;
        for episode in 0..count.min(self.options.episodes) {
            let (mut number, mut failed) = (0_u64, None);
            self.episode(episode.into(), |&Step { state, reward, next }| {
                // The chain of a plan has a copy of the states for each step.
                let name = |state: u32| mdp.state_name(state % mdp.states());
                let record = [
                    episode.to_string(),
                    number.to_string(),
                    name(state),
                    mdp.action_name(state % mdp.states(), policy[state as usize]),
                    format!("{reward:?}"),
                    next.map(name).unwrap_or_default(),
                ];
                number += 1;
                match writer.write_record(&record) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            });
            failed.map_or(Ok(()), Err)?;
        }
        writer.flush()
    }
}

/// Whether a path from one of `starts` may come to a state from which no goal can be reached.
fn misses(chain: &Mdp, starts: &[u32], goal: &[bool], settled: &[bool]) -> bool {
    let mut seen = vec![false; goal.len()];
    let mut stack: Vec<usize> = starts.iter().map(|&state| state as usize).collect();
    while let Some(state) = stack.pop() {
        if std::mem::replace(&mut seen[state], true) || goal[state] {
            continue;
        }
        let mut rows = chain.choices().rows(state);
        if settled[state] || rows.clone().any(|row| chain.end(row) > 0.0) {
            return true;
        }
        let next = rows.next().map_or(&[][..], |row| chain.transitions().row(row).0);
        stack.extend(next.iter().map(|&next| next as usize));
    }
    false
}

/// The interval of Wilson (1927) for a probability: `hits` of `count` trials.
fn wilson(hits: f64, count: f64, quantile: f64) -> (f64, f64) {
    let (share, z2) = (hits / count, quantile * quantile);
    let middle = (share + z2 / (2.0 * count)) / (1.0 + z2 / count);
    let half = quantile / (1.0 + z2 / count) * (share * (1.0 - share) / count + z2 / (4.0 * count * count)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// The quantile of the normal distribution, by bisection: x with P(X ≤ x) = p for ½ ≤ p < 1.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        // The upper tail is accurate for p near 1.
        match libm::erfc(middle / std::f64::consts::SQRT_2) / 2.0 > 1.0 - p {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// The report of a simulation.
pub struct Simulated<'a> {
    /// The model.
    pub mdp: &'a Mdp,
    /// The criterion; `None` for the discounted sum.
    pub criterion: Option<&'a Criterion>,
    /// The statistics.
    pub evaluation: SimulationStatistics,
    /// Start states.
    pub starts: &'a [u32],
    /// Where the start states come from, in words.
    pub starts_from: &'a str,
    /// Where the policy comes from, in words.
    pub policy_from: &'a str,
    /// Seed.
    pub seed: u64,
    /// Time of the simulation.
    pub elapsed: Duration,
}

impl Report for Simulated<'_> {
    fn guarantee(&self) -> Option<String> {
        let SimulationStatistics { mean, lower, upper, confidence, .. } = self.evaluation;
        let percent = 100.0 * confidence;
        Some(format!("Mean: {:.6}, {:.6} to {:.6} ({percent} % confidence)", mean.0, lower.0, upper.0))
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Record<'a> {
            criterion: &'static str,
            objective: Objective,
            gamma: f64,
            policy: &'a str,
            start: &'a str,
            start_states: usize,
            seed: u64,
            #[serde(flatten)]
            evaluation: SimulationStatistics,
            seconds: f64,
        }
        let record = Record {
            criterion: self.criterion.map_or("discounted", Criterion::name),
            objective: self.mdp.objective(),
            gamma: self.mdp.gamma(),
            policy: self.policy_from,
            start: self.starts_from,
            start_states: self.starts.len(),
            seed: self.seed,
            evaluation: self.evaluation,
            seconds: self.elapsed.as_secs_f64(),
        };
        write_object(out, &record)
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let SimulationStatistics {
            mean, lower, upper, confidence, episodes, horizon, steps, cut, tail, reached, ..
        } = self.evaluation;
        write_line(out, "Criterion", criterion_in_words(self.mdp, self.criterion))?;
        write_line(out, "Policy", escaped(self.policy_from))?;
        write_line(out, "Start", escaped(self.starts_from))?;
        write_line(out, "Mean", format_args!("{:.6}", mean.0))?;
        let percent = 100.0 * confidence;
        write_line(out, "Interval", format_args!("{:.6} to {:.6} ({percent} % confidence)", lower.0, upper.0))?;
        if let Some(reached) = reached {
            write_line(out, "Reached", format_args!("the goal in {reached} of {episodes} paths"))?;
        }
        let seconds = self.elapsed.as_secs_f64();
        write_line(out, "Paths", format_args!("{episodes}, seed {}, {steps} steps, {seconds:.3} s", self.seed))?;
        match (cut, self.criterion) {
            (_, Some(Criterion::Average)) => write_line(
                out,
                "Note",
                format_args!(
                    "means over the second half of {horizon} steps; the interval does not \
                     cover the bias of the start, of order 1/{horizon}"
                ),
            ),
            (0, _) => Ok(()),
            (cut, _) => {
                let by = if tail.0.is_finite() { format!("{:.1e}", tail.0) } else { "an unknown amount".to_owned() };
                write_line(
                    out,
                    "Cut",
                    format_args!("{cut} paths after {horizon} steps, which changes the mean by at most {by}"),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_tables() {
        for (p, expected) in [(0.975, 1.959_963_984_540_054), (0.995, 2.575_829_303_548_901), (0.5, 0.0)] {
            assert!((quantile(p) - expected).abs() < 1e-12, "{}", quantile(p));
        }
        // Newcombe (1998), table I: 81 of 263 and 1 of 29.
        let (low, high) = wilson(81.0, 263.0, quantile(0.975));
        assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5, "{low} {high}");
        let (low, high) = wilson(1.0, 29.0, quantile(0.975));
        assert!((low - 0.0061).abs() < 5e-5 && (high - 0.1718).abs() < 5e-5, "{low} {high}");
    }
}
