//! Models whose rows are made on demand, from the numbers of their states.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;
use std::ops::{Add, Range};

use rayon::prelude::*;
use warpkov_common::parallel;

use super::{Arrays, Error, RewardOf, arrays, prefix_sum, zeros};
use crate::model::validate::{self, Invalid};
use crate::model::whole::{Actions, At, Column, Columns, Described, Entries, Extent, Fault, Rows};
use crate::model::{ActionNames, CHUNK, Choices, Csr, Grid, Mdp, MdpParts, Objective, Whole};
use warpkov_common::parameters;

/// States between two known numbers of first rows, if states have different numbers of actions.
const BLOCK: u64 = 4096;

/// Rows whose mean number of transitions estimates that of all.
const SAMPLE: u64 = 1024;

/// A family whose rows follow from the numbers of their states.
pub(super) trait Family: Sync {
    /// S, the number of states.
    fn states(&self) -> u64;

    /// γ, the discount factor, in [0, 1].
    fn gamma(&self) -> f64;

    /// The number of actions of every state; `None` if states have different numbers.
    fn uniform(&self) -> Option<u32>;

    /// The number of actions of a state.
    fn actions_of(&self, _state: u64) -> u32 {
        self.uniform().unwrap_or_default()
    }

    /// A row of P: successors, ascending, with their probabilities above 0.
    fn successors(&self, at: At) -> impl Iterator<Item = (u64, f64)>;

    /// The number of successors of a row.
    fn length(&self, at: At) -> usize {
        self.successors(at).count()
    }

    /// The argument of the reward function: [`reward`](Self::reward) or [`rewards`](Self::rewards).
    fn reward_of(&self) -> RewardOf {
        RewardOf::Action
    }

    /// The reward of a row, if it depends on state and action only.
    fn reward(&self, _at: At) -> f64 {
        0.0
    }

    /// A row of R, if rewards depend on the successor: successors, ascending, with their rewards.
    fn rewards(&self, _at: At) -> impl Iterator<Item = (u64, f64)> {
        iter::empty()
    }

    /// Names of actions, if any.
    fn action_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// The name of a row, as an index into the names of actions.
    fn name(&self, at: At) -> u32 {
        at.action
    }

    /// Named sets of states.
    fn labels(&self) -> BTreeMap<String, Vec<u64>> {
        BTreeMap::new()
    }

    /// Geometry, if the states are cells of a grid.
    fn grid(&self) -> Option<Cow<'_, Grid>> {
        None
    }
}

/// A model of a family, whose rows are made on demand. In memory it has 8 bytes for every 4096 states at most, and what the family needs.
pub(super) struct OnDemand<F> {
    family: F,
    /// The number of the first row of every [`BLOCK`]-th state; empty if all states have equally many actions.
    firsts: Vec<u64>,
    /// The mean number of transitions of a row, estimated.
    mean: f64,
}

impl<F: Family> OnDemand<F> {
    /// # Errors
    /// If no state has an action, or there are too many rows.
    pub(super) fn new(family: F) -> Result<Self, Error> {
        let states = family.states();
        let (firsts, rows) = match family.uniform() {
            Some(actions) => (Vec::new(), validate::uniform_rows(states, actions)?),
            None => {
                let mut firsts = zeros(states.div_ceil(BLOCK) as usize + 1)?;
                let count = |block: usize| {
                    let first = block as u64 * BLOCK;
                    (first..states.min(first + BLOCK)).map(|state| u64::from(family.actions_of(state))).sum()
                };
                parallel::map(firsts[1..].iter_mut().enumerate(), |(block, count_of)| *count_of = count(block));
                prefix_sum(&mut firsts);
                let rows = firsts[firsts.len() - 1];
                (firsts, rows)
            }
        };
        if rows == 0 {
            return Err(Invalid::NoRows.into());
        }
        let mut made = Self { family, firsts, mean: 0.0 };
        let (mut lengths, mut count) = (0, 0);
        for part in 0..SAMPLE.min(states) {
            let state = (u128::from(states) * u128::from(part) / u128::from(SAMPLE.min(states))) as u64;
            if made.family.actions_of(state) > 0 {
                // An estimate needs no exact number of the row.
                lengths += made.family.length(At { row: state, state, action: 0 });
                count += 1;
            }
        }
        made.mean = lengths as f64 / f64::from(count.max(1));
        Ok(made)
    }

    /// The whole model.
    ///
    /// # Errors
    /// If it has too many states for one process, or does not fit in memory.
    pub(super) fn whole(&self) -> Result<Mdp, Error> {
        let family = &self.family;
        let states = u32::try_from(family.states()).map_err(|_| parameters::Error::States)?;
        let Rows { actions, transitions, rewards, action_rewards, names, .. } = self.make::<u32>(0..states.into())?;
        let short = |states: Vec<u64>| states.into_iter().map(|state| state as u32).collect();
        let mdp = MdpParts {
            states,
            choices: match actions {
                Actions::Uniform(actions) => Choices::Uniform(actions),
                Actions::Ragged(offsets) => Choices::Ragged(offsets.into_owned().into()),
            },
            gamma: family.gamma(),
            transitions: csr(transitions),
            rewards: csr(rewards),
            action_rewards: action_rewards.into_owned().into(),
            labels: family.labels().into_iter().map(|(label, states)| (label, short(states))).collect(),
            action_names: match family.action_names() {
                none if none.is_empty() => None,
                all => Some(ActionNames { names: all, of_row: names.into_owned() }),
            },
            grid: family.grid().map(Cow::into_owned),
            ..MdpParts::default()
        };
        Ok(mdp.validated()?)
    }

    /// The number of the first row of a state, or of S.
    fn first(&self, state: u64) -> u64 {
        match self.family.uniform() {
            Some(actions) => state * u64::from(actions),
            None => {
                let before = (state - state % BLOCK)..state;
                let actions = before.clone().map(|state| u64::from(self.family.actions_of(state)));
                self.firsts[(before.start / BLOCK) as usize] + actions.sum::<u64>()
            }
        }
    }

    /// The rows of a range of states, on all cores. P and R store no zeros.
    fn make<C: Column>(&self, states: Range<u64>) -> Result<Rows<'static>, Error> {
        let family = &self.family;
        let actions = match family.uniform() {
            Some(actions) => Actions::Uniform(actions),
            None => {
                let mut firsts = zeros((states.end - states.start) as usize + 1)?;
                firsts[0] = self.first(states.start);
                parallel::fill(&mut firsts[1..], |at| family.actions_of(states.start + at as u64).into());
                prefix_sum(&mut firsts);
                Actions::Ragged(firsts.into())
            }
        };
        let mut made = Rows {
            states,
            actions,
            transitions: Entries::empty(0),
            ends: Cow::Borrowed(&[]),
            rewards: Entries::empty(0),
            action_rewards: Cow::Borrowed(&[]),
            names: Cow::Borrowed(&[]),
        };
        let count = made.count();
        let places = |rows| made.places(rows);
        let transitions =
            arrays::<C, _, _, _>(count, places, |at| family.length(at), |at| family.successors(at))?.into();
        let (rewards, action_rewards) = match family.reward_of() {
            RewardOf::Action => {
                let mut rewards = zeros(count)?;
                of_places(&mut rewards, places, |at| family.reward(at));
                (Entries::empty(count), rewards)
            }
            RewardOf::Transition => {
                let length = |at| family.rewards(at).count();
                (arrays::<C, _, _, _>(count, places, length, |at| family.rewards(at))?.into(), Vec::new())
            }
        };
        let mut names = Vec::new();
        if !family.action_names().is_empty() {
            names = zeros(count)?;
            of_places(&mut names, places, |at| family.name(at));
        }
        made.transitions = transitions;
        made.rewards = rewards;
        made.action_rewards = action_rewards.into();
        made.names = names.into();
        Ok(made)
    }
}

/// A number for each place.
fn of_places<T: Send, I: Iterator<Item = At>>(
    numbers: &mut [T],
    places: impl Fn(Range<usize>) -> I + Sync,
    of: impl Fn(At) -> T + Sync,
) {
    parallel::map(numbers.chunks_mut(CHUNK).enumerate(), |(chunk, numbers)| {
        let first = chunk * CHUNK;
        for (at, number) in places(first..first + numbers.len()).zip(numbers) {
            *number = of(at);
        }
    });
}

impl<C: Column> From<Arrays<C>> for Entries<'static> {
    fn from(arrays: Arrays<C>) -> Self {
        let Arrays { row_ptr, col, val } = arrays;
        Self { row_ptr: row_ptr.into(), col: C::columns(col), val: val.into() }
    }
}

/// The matrix of rows with short columns.
fn csr(entries: Entries<'static>) -> Csr {
    let Entries { row_ptr, col, val } = entries;
    let Columns::Short(col) = col else { unreachable!("asked for short columns") };
    Csr::built(row_ptr.into_owned(), col.into_owned(), val.into_owned())
}

impl<F: Family> Whole for OnDemand<F> {
    fn states(&self) -> u64 {
        self.family.states()
    }

    fn gamma(&self) -> f64 {
        self.family.gamma()
    }

    fn objective(&self) -> Objective {
        Objective::Maximize
    }

    fn transitions_before(&self, state: u64) -> u64 {
        (self.first(state) as f64 * self.mean) as u64
    }

    fn rows(&self, states: Range<u64>) -> Result<Rows<'_>, Fault> {
        let all = self.family.states();
        let rows = match u32::try_from(all) {
            Ok(_) => self.make::<u32>(states)?,
            Err(_) => self.make::<u64>(states)?,
        };
        // A family may have parameters with which its rows are no distributions.
        if !validate::check_rows(&rows, all)? {
            validate::check_distinct_rows(&rows, all)?;
        }
        Ok(rows)
    }
}

impl<F: Family> Described for OnDemand<F> {
    fn labels(&self) -> BTreeMap<String, Cow<'_, [u64]>> {
        self.family.labels().into_iter().map(|(label, states)| (label, states.into())).collect()
    }

    fn action_names(&self) -> Vec<String> {
        self.family.action_names()
    }

    fn grid(&self) -> Option<Cow<'_, Grid>> {
        self.family.grid()
    }

    fn extent(&self, states: Range<u64>) -> Extent {
        let family = &self.family;
        let by_action = family.reward_of() == RewardOf::Action;
        let of_block = |block: u64| {
            let (mut found, first) = (Extent::default(), states.start.max(block * BLOCK));
            let first_row = self.first(first);
            let mut row = first_row;
            for state in first..states.end.min((block + 1) * BLOCK) {
                for action in 0..family.actions_of(state) {
                    let at = At { row, state, action };
                    found.transitions += family.length(at) as u64;
                    found.rewards += if by_action { 0 } else { family.rewards(at).count() as u64 };
                    row += 1;
                }
            }
            let rows = row - first_row;
            Extent { rows, action_rewards: if by_action { rows } else { 0 }, ..found }
        };
        let blocks = states.start / BLOCK..states.end.div_ceil(BLOCK);
        blocks.into_par_iter().map(of_block).reduce(Extent::default, Add::add)
    }
}
