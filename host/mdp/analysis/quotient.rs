//! Quotients: smaller models with each end component merged into one state and settled states removed.
//!
//! In the state of a merged end component, a process chooses among all rows that leave the component. This loses
//! nothing: within the component, it reaches the state of any such row almost surely and at no cost. The quotient has
//! no end component, so every policy ends almost surely. Such a model is *proper*: its Bellman operator has exactly one
//! fixed point, where the operator of the whole model may have many (Haddad & Monmege, *Interval Iteration Algorithm
//! for MDPs and IMDPs*, 2018; Brázdil et al., *Verification of Markov Decision Processes Using Learning Algorithms*,
//! 2014).

use super::graph::{EndComponents, Graph, NO_COMPONENT, NO_ROW};
use crate::model::validate::Invalid;
use crate::model::{Choices, Csr, Mdp, MdpParts, NO_ACTION, Objective};

/// Marks a settled state, which has no state in the quotient.
const SETTLED: u32 = u32::MAX;

/// Marks a row of the quotient without a row of the model: staying in the component for ever.
pub const STAY: usize = usize::MAX;

/// A quotient model and its map to the original model.
pub struct Quotient {
    /// The quotient: γ = 1, maximising, with action rewards only. `None` if every state is settled.
    pub mdp: Option<Mdp>,
    /// The original row of each row of the quotient, or [`STAY`].
    pub origin: Vec<usize>,
    /// Bound of the rounding errors in `mdp`.
    pub rounding: Rounding,
    /// The quotient state of each original state, or [`SETTLED`].
    of_state: Vec<u32>,
}

/// Rounding errors in the numbers of a quotient, with u the unit roundoff. An entry has a relative error of at most
/// `operations`·u. A reward r has an error of at most (2·`operations` + 1)·u·max(`reward_size`, |r|).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    /// Maximum length of the chain of operations behind an entry.
    pub operations: usize,
    /// Maximum sum of the magnitudes of the terms of a reward.
    pub reward_size: f64,
}

/// Input of [`quotient`](Self::quotient).
pub struct QuotientParts<'a, R: Fn(usize) -> f64> {
    /// The graph of the original model.
    pub graph: &'a Graph<'a>,
    /// Per state, whether it is open. The other states are settled: a transition to one ends the process.
    pub open: &'a [bool],
    /// Per row, whether the quotient may take it.
    pub allowed: &'a [bool],
    /// Components of open states to merge. The quotient omits the rows inside them.
    pub components: &'a EndComponents,
    /// One-time reward for staying in each component for ever, or `None` if staying is not an option.
    pub stay: Option<&'a [f64]>,
    /// Reward of a row, to be maximised.
    pub reward: R,
    /// Maximum sum of the magnitudes of the terms of a reward.
    pub reward_size: f64,
}

impl<R: Fn(usize) -> f64> QuotientParts<'_, R> {
    /// Builds the quotient. Each row is divided by its sum, which makes it a distribution up to rounding. The quotient
    /// omits rows that lead back to their own state with probability 1, which never help.
    ///
    /// # Errors
    /// A reward is not finite.
    pub fn quotient(&self) -> Result<Quotient, Invalid> {
        let (graph, mdp) = (self.graph, self.graph.mdp());
        let states = mdp.states() as usize;
        let (mut of_state, mut members) = (vec![SETTLED; states], Vec::<Vec<u32>>::new());
        let mut of_component = vec![SETTLED; self.components.count as usize];
        for state in (0..states).filter(|&state| self.open[state]) {
            let mut fresh = || {
                members.push(Vec::new());
                members.len() as u32 - 1
            };
            let target = match self.components.of_state[state] {
                NO_COMPONENT => fresh(),
                component => {
                    let target = &mut of_component[component as usize];
                    if *target == SETTLED {
                        *target = fresh();
                    }
                    *target
                }
            };
            of_state[state] = target;
            members[target as usize].push(state as u32);
        }
        let mut stay = vec![None; members.len()];
        if let Some(rewards) = self.stay {
            for (component, &state) in of_component.iter().enumerate().filter(|(_, state)| **state != SETTLED) {
                stay[state as usize] = Some(rewards[component]);
            }
        }

        let mut builder = Builder::default();
        let (mut origin, mut entries) = (Vec::new(), Vec::new());
        let (mut longest, mut altered) = (0, false);
        for (own, (members, stay)) in members.iter().zip(stay).enumerate() {
            let rows = members.iter().flat_map(|&state| graph.rows(state as usize));
            for row in rows.filter(|&row| self.allowed[row] && !self.components.inside[row]) {
                let (cols, probs) = mdp.transitions().row(row);
                let sum = probs.iter().sum::<f64>() + mdp.end(row);
                let target = |(&col, &p): (&u32, &f64)| (of_state[col as usize], p / sum);
                entries.extend(cols.iter().zip(probs).map(target).filter(|&(col, p)| col != SETTLED && p > 0.0));
                let back = graph.successors(row).all(|next| next < states && of_state[next] == own as u32);
                if back {
                    entries.clear();
                    continue;
                }
                longest = longest.max(cols.len());
                let count = entries.len();
                altered |= builder.row(&mut entries, (self.reward)(row)) < count || sum != 1.0;
                origin.push(row);
            }
            if let Some(reward) = stay {
                builder.row(&mut entries, reward);
                origin.push(STAY);
            }
            builder.end_state();
        }
        // Summing a row takes `longest` operations; they count even if the rounded sum is 1. A row that changed has one
        // division more, and up to `longest` additions in merged entries.
        let operations = longest + if altered { longest + 1 } else { 0 };
        let rounding = Rounding { operations, reward_size: self.reward_size };
        let mdp = if origin.is_empty() { None } else { Some(builder.finish()?) };
        Ok(Quotient { mdp, origin, rounding, of_state })
    }
}

impl Quotient {
    /// The quotient state of an original state, or `None` if it is settled.
    #[must_use]
    pub fn target(&self, state: u32) -> Option<u32> {
        Some(self.of_state[state as usize]).filter(|&target| target != SETTLED)
    }

    /// Values of the original states: `quotient` holds one value per quotient state, `settled` returns the value of a
    /// settled state.
    pub fn values(&self, quotient: &[f64], settled: impl Fn(usize) -> f64) -> Vec<f64> {
        let value = |(state, &target): (usize, &u32)| match target {
            SETTLED => settled(state),
            target => quotient[target as usize],
        };
        self.of_state.iter().enumerate().map(value).collect()
    }

    /// Lifts a policy of the quotient to the original model. `rows` holds the chosen row of each quotient state. In a
    /// merged component, the owner of the chosen row takes it and the other states move towards the owner; if the
    /// choice is [`STAY`], the states take the rows of `stay`. Settled states take the rows of `settled`.
    pub fn policy(
        &self,
        graph: &Graph,
        components: &EndComponents,
        rows: &[usize],
        stay: impl Fn(usize) -> usize,
        settled: impl Fn(usize) -> usize,
    ) -> Vec<u32> {
        let mut exits = vec![false; graph.end() + 1];
        for &row in rows {
            match self.origin.get(row) {
                Some(&STAY) | None => {}
                Some(&row) => exits[graph.owner(row)] = true,
            }
        }
        let towards = graph.can_reach(&exits, |row| components.inside[row]).row;
        let row = |(state, &target): (usize, &u32)| match target {
            SETTLED => settled(state),
            target => match self.origin.get(rows[target as usize]) {
                Some(&STAY) | None => stay(state),
                Some(&row) if graph.owner(row) == state => row,
                Some(_) => towards[state],
            },
        };
        let chosen = self.of_state.iter().enumerate().map(row);
        actions(graph, chosen)
    }
}

/// Converts one row per vertex to actions: [`NO_ACTION`] for a state without rows, action 0 for [`NO_ROW`].
pub fn actions(graph: &Graph, rows: impl Iterator<Item = usize>) -> Vec<u32> {
    let action = |(state, row): (usize, usize)| match (row, graph.rows(state)) {
        (_, rows) if rows.is_empty() => NO_ACTION,
        (NO_ROW, _) => 0,
        (row, rows) => (row - rows.start) as u32,
    };
    rows.enumerate().map(action).collect()
}

/// Builds a model row by row.
pub(crate) struct Builder {
    choices: Vec<u64>,
    row_ptr: Vec<u64>,
    col: Vec<u32>,
    val: Vec<f64>,
    ends: Vec<f64>,
    rewards: Vec<f64>,
}

impl Default for Builder {
    fn default() -> Self {
        let (col, val, ends, rewards) = Default::default();
        Self { choices: vec![0], row_ptr: vec![0], col, val, ends, rewards }
    }
}

impl Builder {
    /// Adds a row to the current state. Entries of equal columns are added; the process ends with the rest of the
    /// probability. Drains `entries` and returns the number of entries of the row.
    pub fn row(&mut self, entries: &mut Vec<(u32, f64)>, reward: f64) -> usize {
        entries.sort_by_key(|entry| entry.0);
        let start = self.col.len();
        let mut sum = 0.0;
        for (col, p) in entries.drain(..) {
            sum += p;
            match self.val.last_mut() {
                Some(last) if self.col.len() > start && self.col.last() == Some(&col) => *last += p,
                _ => {
                    self.col.push(col);
                    self.val.push(p);
                }
            }
        }
        // Rounding may push a sum a few units of roundoff above 1.
        self.val[start..].iter_mut().for_each(|p| *p = p.min(1.0));
        self.ends.push((1.0 - sum).max(0.0));
        self.row_ptr.push(self.col.len() as u64);
        self.rewards.push(reward);
        self.col.len() - start
    }

    /// Ends the current state: the next row belongs to the next state.
    pub fn end_state(&mut self) {
        self.choices.push(self.rewards.len() as u64);
    }

    /// Returns the model: γ = 1, maximising.
    pub fn finish(self) -> Result<Mdp, Invalid> {
        MdpParts {
            states: self.choices.len() as u32 - 1,
            choices: Choices::Ragged(self.choices.into()),
            gamma: 1.0,
            objective: Objective::Maximize,
            transitions: Csr::built(self.row_ptr, self.col, self.val),
            ends: self.ends.into(),
            action_rewards: self.rewards.into(),
            ..MdpParts::default()
        }
        .validated()
    }
}
