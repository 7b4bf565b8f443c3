//! Smaller models made of a model: end components merged into one state each, settled states left out.
//!
//! In a state that stands for an end component a process chooses among the rows that leave the component, whichever of
//! its states they belong to: within the component it gets to any of them almost surely, at no cost. What is left has no
//! end component, so that every policy of it ends almost surely: it is *proper*, and its Bellman operator has one fixed
//! point, where that of the whole model may have many (Haddad & Monmege, *Interval Iteration Algorithm for MDPs and
//! IMDPs*, 2018; Brázdil et al., *Verification of Markov Decision Processes Using Learning Algorithms*, 2014).

use super::graph::{EndComponents, Graph, NO_COMPONENT, NO_ROW};
use crate::mdp::model::validate::Invalid;
use crate::mdp::model::{Choices, Csr, Mdp, MdpParts, NO_ACTION, Objective};

/// The state of the quotient that a settled state has.
const SETTLED: u32 = u32::MAX;

/// A row of the quotient that is none of the model: to stay in the component for ever.
pub const STAY: usize = usize::MAX;

/// A quotient, and the way back.
pub struct Quotient {
    /// The model: γ = 1, maximising, rewards per row; `None` where every state is settled.
    pub mdp: Option<Mdp>,
    /// The row of the model that each row of the quotient stands for, or [`STAY`].
    pub origin: Vec<usize>,
    /// How far the numbers are from those that they stand for.
    pub rounding: Rounding,
    /// The state of the quotient of each state, or [`SETTLED`].
    of_state: Vec<u32>,
}

/// What rounding did to a model: relative to themselves, entries are off by at most `operations` units of roundoff. Rewards
/// are off by at most twice that and one, relative to `reward_size` or, where that is less, to themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    /// Operations in the longest chain that made an entry.
    pub operations: usize,
    /// The largest sum of magnitudes that made a reward.
    pub reward_size: f64,
}

/// What a quotient is made of.
pub struct QuotientParts<'a, R: Fn(usize) -> f64> {
    /// The model.
    pub graph: &'a Graph<'a>,
    /// Per state, whether it is to be solved; the others are settled, and end the process.
    pub open: &'a [bool],
    /// Per row, whether the quotient may take it.
    pub allowed: &'a [bool],
    /// Components of open states, to be merged. Rows inside them are left out.
    pub components: &'a EndComponents,
    /// What staying in a component earns, once; `None` where that is not a choice.
    pub stay: Option<&'a [f64]>,
    /// What a row earns, to be maximised.
    pub reward: R,
    /// The largest sum of magnitudes behind a reward.
    pub reward_size: f64,
}

impl<R: Fn(usize) -> f64> QuotientParts<'_, R> {
    /// Makes the quotient. Rows are divided by their sums, so that they are distributions as nearly as numbers can be. Rows
    /// that surely lead back to their own state are left out too: there is nothing to gain by them.
    ///
    /// # Errors
    /// Rewards that are not finite.
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
        // The sum of a row, which may be off even if it seems to be 1; the quotient, and the sum of entries that were merged.
        let operations = longest + if altered { longest + 1 } else { 0 };
        let rounding = Rounding { operations, reward_size: self.reward_size };
        let mdp = if origin.is_empty() { None } else { Some(builder.finish()?) };
        Ok(Quotient { mdp, origin, rounding, of_state })
    }
}

impl Quotient {
    /// The state of the quotient that a state belongs to; `None` where it is settled.
    #[must_use]
    pub fn target(&self, state: u32) -> Option<u32> {
        Some(self.of_state[state as usize]).filter(|&target| target != SETTLED)
    }

    /// Values of the model's states: that of their quotient state, or what they are settled at.
    pub fn values(&self, quotient: &[f64], settled: impl Fn(usize) -> f64) -> Vec<f64> {
        let value = |(state, &target): (usize, &u32)| match target {
            SETTLED => settled(state),
            target => quotient[target as usize],
        };
        self.of_state.iter().enumerate().map(value).collect()
    }

    /// The policy of the model that does as a policy of the quotient: `rows` holds the quotient's row for each of its
    /// states. A component is left by the row that the quotient takes, and its other states move there; or it is stayed in,
    /// by the rows of `stay`. Settled states take those of `settled`.
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

/// Actions of rows; the first of states that have some and no row.
pub fn actions(graph: &Graph, rows: impl Iterator<Item = usize>) -> Vec<u32> {
    let action = |(state, row): (usize, usize)| match (row, graph.rows(state)) {
        (_, rows) if rows.is_empty() => NO_ACTION,
        (NO_ROW, _) => 0,
        (row, rows) => (row - rows.start) as u32,
    };
    rows.enumerate().map(action).collect()
}

/// A model under construction, row by row.
pub(in crate::mdp) struct Builder {
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
    /// Adds a row to the present state. Entries of the same column are added up; what they lack of 1 ends the process.
    /// Leaves `entries` empty, and returns how many the row has.
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
        // Sums of a few units of roundoff above 1.
        self.val[start..].iter_mut().for_each(|p| *p = p.min(1.0));
        self.ends.push((1.0 - sum).max(0.0));
        self.row_ptr.push(self.col.len() as u64);
        self.rewards.push(reward);
        self.col.len() - start
    }

    /// The rows that follow are those of the next state.
    pub fn end_state(&mut self) {
        self.choices.push(self.rewards.len() as u64);
    }

    /// The model: γ = 1, maximising.
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
