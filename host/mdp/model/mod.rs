//! Finite Markov decision processes in compressed sparse row (CSR) form.
//!
//! A model has states s ∈ {0 … S−1}, zero or more actions a per state, and a discount factor γ ∈ [0, 1]. P(s'|s, a) is
//! a CSR matrix with one row per state-action pair. The rows of a state are adjacent. R(s, a, s') is a second CSR
//! matrix with the same rows. R may hold entries where P has none; they have no effect. The expected reward is r(s, a)
//! = Σ P·R over the entries present in both matrices, plus the reward of the action itself.
//!
pub mod part;
pub mod validate;
pub mod whole;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

pub use self::part::{Part, Peer, Sends};
use self::validate::Invalid;
pub use self::whole::{Named, Whole};
pub use warpkov_common::array::{Array, Owner};
use warpkov_common::choice::choice;
use warpkov_common::names::name;
pub(crate) use warpkov_common::parallel::CHUNK;
pub use warpkov_common::sparse::{Csr, InvalidCsr};
pub(crate) use warpkov_common::sparse::{CsrView, split};

/// The row data of an [`Mdp`] as slices, for the same reason.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub transitions: CsrView<'a>,
    rewards: CsrView<'a>,
    action_rewards: &'a [f64],
}

impl<'a> View<'a> {
    /// [`Mdp::action_reward`].
    #[inline]
    pub fn action_reward(self, row: usize) -> f64 {
        self.action_rewards.get(row).copied().unwrap_or_default()
    }

    /// Whether row `row` of R has entries.
    #[inline]
    pub fn rewards_transitions(self, row: usize) -> bool {
        self.rewards.nnz() > 0 && !self.rewards.row(row).1.is_empty()
    }

    /// [`Mdp::rewards_of`].
    #[inline]
    pub fn rewards_of(self, row: usize) -> impl Iterator<Item = f64> + 'a {
        let (successors, _) = self.transitions.row(row);
        let (cols, vals) = self.rewards.row(row);
        let mut next = 0;
        successors.iter().map(move |successor| {
            next += cols[next..].iter().take_while(|col| *col < successor).count();
            if cols.get(next) == Some(successor) { vals[next] } else { 0.0 }
        })
    }
}

/// The policy entry of a state without actions.
pub const NO_ACTION: u32 = u32::MAX;

/// Assignment of rows (state-action pairs) to states.
#[derive(Clone)]
pub enum Choices {
    /// Every state has A actions; row s·A + a belongs to (s, a).
    Uniform(u32),
    /// State s has the rows `offsets[s]..offsets[s + 1]`. A state without rows is terminal: the process ends there and
    /// V = 0.
    Ragged(Array<u64>),
}

impl Default for Choices {
    fn default() -> Self {
        Self::Uniform(1)
    }
}

impl Choices {
    /// The rows of a state, in the order of its actions.
    #[inline]
    #[must_use]
    pub fn rows(&self, state: usize) -> Range<usize> {
        match self {
            Self::Uniform(actions) => state * *actions as usize..(state + 1) * *actions as usize,
            Self::Ragged(offsets) => offsets[state] as usize..offsets[state + 1] as usize,
        }
    }

    /// The first row of a state. For `state` = S, the total number of rows.
    #[inline]
    #[must_use]
    pub fn first(&self, state: usize) -> usize {
        match self {
            Self::Uniform(actions) => state * *actions as usize,
            Self::Ragged(offsets) => offsets[state] as usize,
        }
    }

    /// The number of actions of a state.
    #[must_use]
    pub fn count(&self, state: usize) -> usize {
        self.rows(state).len()
    }

    /// The maximum number of actions of a state.
    #[must_use]
    pub fn max(&self) -> u32 {
        match self {
            Self::Uniform(actions) => *actions,
            Self::Ragged(offsets) => {
                offsets.par_windows(2).map(|ends| (ends[1] - ends[0]) as u32).max().unwrap_or_default()
            }
        }
    }

    /// The total number of rows of `states` states.
    #[must_use]
    pub fn total(&self, states: u32) -> usize {
        self.first(states as usize)
    }

    /// The state that owns a row.
    #[must_use]
    pub fn state_of(&self, row: usize) -> usize {
        match self {
            Self::Uniform(actions) => row / *actions as usize,
            Self::Ragged(offsets) => offsets.partition_point(|&first| first <= row as u64) - 1,
        }
    }
}

choice! {
    /// Optimisation sense.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Objective {
        /// V* is the maximum expected return.
        #[default]
        Maximize = "maximize",
        /// V* is the minimum expected return; rewards are costs.
        Minimize = "minimize",
    }
}

impl Objective {
    /// Factor that turns the objective into a maximisation: 1 or −1.
    #[must_use]
    pub fn sign(self) -> f64 {
        match self {
            Self::Maximize => 1.0,
            Self::Minimize => -1.0,
        }
    }
}

/// Names of actions.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct ActionNames {
    /// Distinct names.
    pub names: Vec<String>,
    /// Name of each row, as an index into `names`.
    pub of_row: Vec<u32>,
}

/// The unchecked parts of a Markov decision process; [`validated`](Self::validated) turns them into an [`Mdp`].
#[derive(Clone, Default)]
pub struct MdpParts {
    /// S, the number of states.
    pub states: u32,
    /// Assignment of rows to states.
    pub choices: Choices,
    /// γ, the discount factor, in [0, 1]. Discounted methods require γ < 1.
    pub gamma: f64,
    /// Optimisation sense.
    pub objective: Objective,
    /// P(s'|s, a): one row per state-action pair, S columns.
    pub transitions: Csr,
    /// Probability that the process ends after each row, in addition to the entries of P; empty if the process never
    /// ends after an action.
    pub ends: Array<f64>,
    /// R(s, a, s'), with the rows and columns of P; a matrix without rows means R = 0.
    pub rewards: Csr,
    /// Reward of each row independent of the successor, added to R; empty if 0 for all rows.
    pub action_rewards: Array<f64>,
    /// Named sets of states in ascending order. "init" names the initial states.
    pub labels: BTreeMap<String, Vec<u32>>,
    /// Names of actions, if any.
    pub action_names: Option<ActionNames>,
    /// Distinct names of the states, one per state, if any.
    pub state_names: Option<Arc<Vec<String>>>,
    /// Geometry, if the states are the cells of a grid.
    pub grid: Option<Grid>,
}

impl MdpParts {
    /// Validates the parts. Rows with unsorted columns are sorted; missing rewards are 0.
    ///
    /// Every row of P, together with its end probability, is a distribution: entries in [0, 1] that sum to 1 within
    /// [`ROW_SUM_TOLERANCE`](validate::ROW_SUM_TOLERANCE).
    ///
    /// # Errors
    /// The first violation found; see [`Invalid`].
    pub fn validated(mut self) -> Result<Mdp, Invalid> {
        if self.rewards.row_ptr().is_empty() {
            self.rewards = Csr::empty(self.transitions.rows());
        }
        let explained = |error| validate::explained(&self, error);
        if validate::check(&self).map_err(explained)? {
            return Ok(Mdp(self, None));
        }
        validate::check_distinct(&self).map_err(explained)?;
        let parts = Self { transitions: self.transitions.sorted(), rewards: self.rewards.sorted(), ..self };
        Ok(Mdp(parts, None))
    }
}

/// A finite Markov decision process: [`MdpParts`] that passed validation. Invariants:
///
/// - γ is in [0, 1]. [`choices`](Self::choices) assigns fewer than 2³² − 1 rows to each state.
/// - P and R have one row per state-action pair, with distinct, ascending columns below S.
/// - Every row of P plus its end probability sums to 1. Rewards are finite.
/// - Per-row arrays have one element per row or are empty. Labels and the grid refer to states below S. The names of
///   states, if any, are distinct, one per state.
///
/// The fields are private, so every change is validated:
///
/// ```compile_fail,E0616
/// # use warpkov_mdp::generate::Forest;
/// let mut mdp = Forest::default().generate().unwrap();
/// mdp.0.states = 1;
/// ```
///
/// A model may be the [part](Self::part) of one rank: its ghosts are states without actions.
#[derive(Clone)]
pub struct Mdp(MdpParts, Option<Arc<Part>>);

impl Mdp {
    /// A model in which every state has `actions` actions and the process never ends.
    ///
    /// `transitions` and `rewards` have S·A rows and S columns.
    ///
    /// # Errors
    /// As [`MdpParts::validated`].
    pub fn new(
        states: u32,
        actions: u32,
        gamma: f64,
        transitions: Csr,
        rewards: Csr,
        grid: Option<Grid>,
    ) -> Result<Self, Invalid> {
        let choices = Choices::Uniform(actions);
        MdpParts { states, choices, gamma, transitions, rewards, grid, ..MdpParts::default() }.validated()
    }

    /// [`MdpParts::validated`] without checks in release builds, for parts that are valid by construction, such as a
    /// permuted model.
    pub(crate) fn built(parts: MdpParts) -> Self {
        debug_assert!(matches!(validate::check(&parts), Ok(true)));
        Self(parts, None)
    }

    /// Makes this model the part of one rank.
    pub(super) fn with_part(self, part: Part) -> Self {
        debug_assert!(part.own.end <= self.states() as usize);
        Self(self.0, Some(Arc::new(part)))
    }

    /// The place in the whole model, if this is the part of one rank.
    #[must_use]
    pub fn part(&self) -> Option<&Arc<Part>> {
        self.1.as_ref()
    }

    /// The states of this model: all but the ghosts, if it is a [part](Self::part).
    #[must_use]
    pub fn own(&self) -> Range<usize> {
        self.1.as_ref().map_or(0..self.0.states as usize, |part| part.own.clone())
    }

    /// Takes the model apart. To change a part, change it here and validate again.
    #[must_use]
    pub fn into_parts(self) -> MdpParts {
        self.0
    }

    /// Replaces the discount factor.
    ///
    /// # Errors
    /// If γ is not in [0, 1].
    pub fn with_gamma(mut self, gamma: f64) -> Result<Self, Invalid> {
        validate::check_gamma(gamma)?;
        self.0.gamma = gamma;
        Ok(self)
    }

    /// Replaces the optimisation sense.
    #[must_use]
    pub fn with_objective(mut self, objective: Objective) -> Self {
        self.0.objective = objective;
        self
    }

    /// Adds a named set of states, in ascending order.
    pub(crate) fn insert_label(&mut self, name: &str, members: Vec<u32>) {
        debug_assert!(members.is_sorted_by(|a, b| a < b) && members.last().is_none_or(|&last| last < self.states()));
        self.0.labels.insert(name.to_owned(), members);
    }

    /// S, the number of states.
    #[inline]
    #[must_use]
    pub fn states(&self) -> u32 {
        self.0.states
    }

    /// Assignment of rows to states.
    #[inline]
    #[must_use]
    pub fn choices(&self) -> &Choices {
        &self.0.choices
    }

    /// γ, the discount factor, in [0, 1]. Discounted methods require γ < 1.
    #[inline]
    #[must_use]
    pub fn gamma(&self) -> f64 {
        self.0.gamma
    }

    /// Optimisation sense.
    #[inline]
    #[must_use]
    pub fn objective(&self) -> Objective {
        self.0.objective
    }

    /// P(s'|s, a): one row per state-action pair, S columns, ascending.
    #[inline]
    #[must_use]
    pub fn transitions(&self) -> &Csr {
        &self.0.transitions
    }

    /// Probability that the process ends after each row, in addition to the entries of P; empty if the process never
    /// ends after an action.
    #[inline]
    #[must_use]
    pub fn ends(&self) -> &Array<f64> {
        &self.0.ends
    }

    /// R(s, a, s'), with the rows and columns of P.
    #[inline]
    #[must_use]
    pub fn rewards(&self) -> &Csr {
        &self.0.rewards
    }

    /// Reward of each row independent of the successor, added to R; empty if 0 for all rows.
    #[inline]
    #[must_use]
    pub fn action_rewards(&self) -> &Array<f64> {
        &self.0.action_rewards
    }

    /// Named sets of states in ascending order. "init" names the initial states.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, Vec<u32>> {
        &self.0.labels
    }

    /// Names of actions, if any.
    #[must_use]
    pub fn action_names(&self) -> Option<&ActionNames> {
        self.0.action_names.as_ref()
    }

    /// Names of the states, one per state, if any.
    #[must_use]
    pub fn state_names(&self) -> Option<&[String]> {
        self.0.state_names.as_ref().map(|names| &names[..])
    }

    /// The name of a state, or its number if states have no names.
    #[must_use]
    pub fn state_name(&self, state: u32) -> String {
        name(self.state_names().unwrap_or_default(), state)
    }

    /// The name of an action of a state, or its number if actions have no names.
    #[must_use]
    pub fn action_name(&self, state: u32, action: u32) -> String {
        match &self.0.action_names {
            Some(ActionNames { names, of_row }) => {
                name(names, of_row[self.0.choices.first(state as usize) + action as usize])
            }
            None => action.to_string(),
        }
    }

    /// The names of states and actions, if either have names.
    #[must_use]
    pub fn names(&self) -> Option<&dyn Named> {
        (self.0.state_names.is_some() || self.0.action_names.is_some()).then_some(self as _)
    }

    /// Geometry, if the states are the cells of a grid.
    #[must_use]
    pub fn grid(&self) -> Option<&Grid> {
        self.0.grid.as_ref()
    }

    /// The number of rows, that is, of state-action pairs.
    pub fn rows(&self) -> usize {
        self.0.transitions.rows()
    }

    /// Probability that the process ends after row `row`.
    pub fn end(&self, row: usize) -> f64 {
        self.0.ends.get(row).copied().unwrap_or_default()
    }

    /// Reward of row `row` independent of the successor.
    pub fn action_reward(&self, row: usize) -> f64 {
        self.0.action_rewards.get(row).copied().unwrap_or_default()
    }

    /// Whether the process never ends: every state has an action and no row has an end probability. For a
    /// [part](Self::part), whether this holds for the whole model.
    pub fn never_terminates(&self) -> bool {
        if let Some(part) = &self.1 {
            return part.never_terminates;
        }
        let ragged =
            matches!(&self.0.choices, Choices::Ragged(offsets) if offsets.windows(2).any(|ends| ends[0] == ends[1]));
        self.0.ends.is_empty() && !ragged
    }

    /// The policy that takes action 0 in every state, [`NO_ACTION`] in terminal states.
    pub fn first_policy(&self) -> Vec<u32> {
        let first = |state| if self.0.choices.count(state) == 0 { NO_ACTION } else { 0 };
        match self.0.choices {
            Choices::Uniform(_) => vec![0; self.0.states as usize],
            Choices::Ragged(_) => (0..self.0.states as usize).into_par_iter().map(first).collect(),
        }
    }

    /// The equivalent maximisation model. A minimisation model has its rewards negated; its V is then negated as well.
    pub fn to_maximize(&self) -> Cow<'_, Self> {
        if self.0.objective == Objective::Maximize {
            return Cow::Borrowed(self);
        }
        let negated = |rewards: &[f64]| rewards.par_iter().map(|&reward| -reward).collect::<Vec<_>>();
        let rewards = self.rewards();
        let parts = MdpParts {
            objective: Objective::Maximize,
            rewards: Csr::built(rewards.row_ptr().clone(), rewards.col().clone(), negated(rewards.val())),
            action_rewards: negated(self.action_rewards()).into(),
            ..self.0.clone()
        };
        Cow::Owned(Self(parts, self.1.clone()))
    }

    /// r(s, a) for each row: Σ P(s'|s, a)·R(s, a, s') over the entries present in both matrices, plus the action
    /// reward.
    pub fn expected_rewards(&self) -> Vec<f64> {
        if self.0.rewards.nnz() == 0 && !self.0.action_rewards.is_empty() {
            // Adding 0.0 turns −0 into +0, as the sum below does.
            return self.0.action_rewards.par_iter().map(|reward| 0.0 + reward).collect();
        }
        let view = self.view();
        let expected = |row: usize| {
            // Start at +0: the sum of an empty f64 iterator is −0.
            let expected = if view.rewards_transitions(row) {
                let (_, probs) = view.transitions.row(row);
                view.rewards_of(row).zip(probs).fold(0.0, |sum, (reward, prob)| sum + prob * reward)
            } else {
                0.0
            };
            expected + view.action_reward(row)
        };
        (0..self.rows()).into_par_iter().with_min_len(CHUNK).map(expected).collect()
    }

    /// R(s, a, s') for each entry of P, in the order of P; 0 where R has no entry. Excludes action rewards.
    pub fn transition_rewards(&self) -> Vec<f64> {
        let mut rewards = vec![0.0; self.0.transitions.nnz()];
        split(self.transitions().row_ptr(), &mut rewards).into_par_iter().for_each(|(first, rewards)| {
            let rows = first..self.rows().min(first + CHUNK);
            for (target, reward) in rewards.iter_mut().zip(rows.flat_map(|row| self.rewards_of(row))) {
                *target = reward;
            }
        });
        rewards
    }

    /// R for each entry of row `row` of P, by merging the two sorted rows.
    pub fn rewards_of(&self, row: usize) -> impl Iterator<Item = f64> {
        self.view().rewards_of(row)
    }

    /// Borrows the arrays as slices.
    pub(crate) fn view(&self) -> View<'_> {
        let (transitions, rewards) = (self.0.transitions.view(), self.0.rewards.view());
        View { transitions, rewards, action_rewards: &self.0.action_rewards }
    }
}

/// The geometry of a grid world: state s is the cell in column s mod `width` and row s / `width`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Grid {
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// State of the goal cell.
    pub goal: u64,
    /// States of cells that cannot be entered, ascending.
    pub walls: Vec<u32>,
    /// States of cells with a penalty for entering, ascending.
    pub obstacles: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csr(row_ptr: &[u64], col: &[u32], val: &[f64]) -> Csr {
        Csr::new(row_ptr.to_vec(), col.to_vec(), val.to_vec()).unwrap()
    }

    #[test]
    fn rewards_align_with_transitions() {
        let p = csr(&[0, 2, 3], &[1, 0, 1], &[0.25, 0.75, 1.0]);
        let r = csr(&[0, 1, 2], &[1, 0], &[8.0, 5.0]);
        let mdp = Mdp::new(2, 1, 0.5, p, r, None).unwrap();
        assert_eq!(mdp.rows(), 2);
        assert_eq!(mdp.transitions().row(0), (&[0, 1][..], &[0.75, 0.25][..]), "sorted");
        assert_eq!(mdp.expected_rewards(), [2.0, 0.0]);
        assert_eq!(mdp.transition_rewards(), [0.0, 8.0, 0.0]);
    }

    #[test]
    fn chunked_sort_and_rewards_match_rows() {
        let states = 3 * CHUNK as u32 - 7;
        let row_ptr: Vec<u64> = (0..=u64::from(states)).map(|row| 2 * row).collect();
        let col: Vec<u32> = (0..states).flat_map(|s| if s % 5 == 0 { [1, 0] } else { [0, 1] }).collect();
        let val: Vec<f64> = col.iter().map(|&c| if c == 0 { 0.75 } else { 0.25 }).collect();
        let reward: Vec<f64> = (0..states).map(f64::from).collect();
        let r = csr(&(0..=u64::from(states)).collect::<Vec<_>>(), &vec![1; states as usize], &reward);
        let mdp = Mdp::new(states, 1, 0.5, csr(&row_ptr, &col, &val), r, None).unwrap();
        let rewards = mdp.transition_rewards();
        for (s, expected) in mdp.expected_rewards().into_iter().enumerate() {
            assert_eq!(mdp.transitions().row(s), (&[0, 1][..], &[0.75, 0.25][..]));
            assert_eq!(rewards[2 * s..2 * s + 2], [0.0, s as f64]);
            assert_eq!(expected, 0.25 * s as f64);
        }
    }
}
