//! The model: a finite Markov decision process over compressed sparse rows.
//!
//! States s ∈ {0 … S−1}, each with some actions a or none, discount γ ∈ [0, 1]. Transition probabilities P(s'|s, a) are a
//! CSR matrix with one row per state-action pair, the actions of a state side by side. Rewards R(s, a, s') are a CSR matrix
//! of their own over the same rows, and may hold entries where P has none: the expected reward is
//! r(s, a) = Σ P·R over the entries that both hold, and what the action itself earns.

pub mod validate;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use rayon::prelude::*;

use self::validate::Invalid;
use crate::common::choice::choice;

/// Rows that one task of a parallel loop handles: enough to pay for the task, few enough to balance.
pub(crate) const CHUNK: usize = 4096;

/// An array in memory, or a view of a memory-mapped file. A clone shares the elements.
#[derive(Clone)]
pub struct Array<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Arc<Vec<T>>),
    Mapped { map: Arc<Mmap>, start: usize, end: usize },
}

impl<T: Pod> Array<T> {
    /// Bytes `start..end` of a mapped file as elements of `T`; `None` where the range is out of the file, misaligned, or
    /// not a whole number of elements.
    pub fn mapped(map: Arc<Mmap>, start: usize, end: usize) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(map.get(start..end)?).ok()?;
        Some(Self(Storage::Mapped { map, start, end }))
    }

    /// The elements; copied only where they are a file's.
    pub fn into_vec(self) -> Vec<T> {
        match self.0 {
            Storage::Owned(elements) => Arc::unwrap_or_clone(elements),
            Storage::Mapped { .. } => self.to_vec(),
        }
    }
}

impl<T> Default for Array<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Storage::Owned(Arc::new(elements)))
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Owned(elements) => elements,
            Storage::Mapped { map, start, end } => bytemuck::cast_slice(&map[*start..*end]),
        }
    }
}

/// A sparse matrix in compressed sparse row form: row r holds the entries `row_ptr[r]..row_ptr[r + 1]`.
///
/// The row pointers start at 0, do not fall, and end at the number of entries: [`row`](Self::row) reads within bounds for
/// every r below [`rows`](Self::rows). Whether columns ascend, and what they are below, is up to the model that holds the
/// matrix.
///
/// ```compile_fail,E0451
/// use warpkov::mdp::model::Csr;
/// let short = Csr { row_ptr: vec![0, 9].into(), ..Csr::empty(1) };
/// ```
#[derive(Clone, Default)]
pub struct Csr {
    row_ptr: Array<u64>,
    col: Array<u32>,
    val: Array<f64>,
}

/// Why arrays are no sparse matrix. They are named as in files.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum InvalidCsr {
    #[error("indptr[0] is {found}, expected 0")]
    Start { found: u64 },
    #[error("indptr falls from {start} to {end} in row {row}")]
    Falls { row: usize, start: u64, end: u64 },
    #[error("indptr ends at {found}, expected the number of entries {entries}")]
    End { found: u64, entries: usize },
    #[error("indices has {indices} elements, data has {data}, expected as many")]
    Lengths { indices: usize, data: usize },
}

impl Csr {
    /// The matrix with these row pointers, columns and values. No row pointers are no rows.
    ///
    /// # Errors
    /// The first violation found; see [`InvalidCsr`].
    pub fn new(
        row_ptr: impl Into<Array<u64>>,
        col: impl Into<Array<u32>>,
        val: impl Into<Array<f64>>,
    ) -> Result<Self, InvalidCsr> {
        let csr = Self { row_ptr: row_ptr.into(), col: col.into(), val: val.into() };
        let (ends, entries, data) = (&csr.row_ptr[..], csr.col.len(), csr.val.len());
        if let Some(&found) = ends.first().filter(|&&first| first != 0) {
            return Err(InvalidCsr::Start { found });
        }
        let falls = |row: &usize| ends[*row] > ends[row + 1];
        if let Some(row) = (0..csr.rows()).into_par_iter().with_min_len(CHUNK).find_first(falls) {
            return Err(InvalidCsr::Falls { row, start: ends[row], end: ends[row + 1] });
        }
        if entries != data {
            return Err(InvalidCsr::Lengths { indices: entries, data });
        }
        let found = ends.last().copied().unwrap_or_default();
        if found != entries as u64 {
            return Err(InvalidCsr::End { found, entries });
        }
        Ok(csr)
    }

    /// [`new`](Self::new) of arrays that are right by construction, as where row pointers are sums of lengths.
    pub(crate) fn built(
        row_ptr: impl Into<Array<u64>>,
        col: impl Into<Array<u32>>,
        val: impl Into<Array<f64>>,
    ) -> Self {
        let csr = Self { row_ptr: row_ptr.into(), col: col.into(), val: val.into() };
        debug_assert!(Self::new(csr.row_ptr.clone(), csr.col.clone(), csr.val.clone()).is_ok());
        csr
    }

    /// A matrix of `rows` rows without entries.
    #[must_use]
    pub fn empty(rows: usize) -> Self {
        Self { row_ptr: vec![0; rows + 1].into(), ..Self::default() }
    }

    /// The same entries with other values, one for each.
    ///
    /// # Errors
    /// Another number of them.
    pub fn with_values(self, val: impl Into<Array<f64>>) -> Result<Self, InvalidCsr> {
        let val = val.into();
        let (indices, data) = (self.col.len(), val.len());
        if indices == data { Ok(Self { val, ..self }) } else { Err(InvalidCsr::Lengths { indices, data }) }
    }

    /// Where rows begin, and the last one ends: from 0 to the number of entries.
    #[inline]
    #[must_use]
    pub fn row_ptr(&self) -> &Array<u64> {
        &self.row_ptr
    }

    /// Column of each entry.
    #[inline]
    #[must_use]
    pub fn col(&self) -> &Array<u32> {
        &self.col
    }

    /// Value of each entry.
    #[inline]
    #[must_use]
    pub fn val(&self) -> &Array<f64> {
        &self.val
    }

    /// Row pointers, columns and values.
    #[must_use]
    pub fn into_arrays(self) -> (Array<u64>, Array<u32>, Array<f64>) {
        (self.row_ptr, self.col, self.val)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.row_ptr.len().saturating_sub(1)
    }

    /// Number of stored entries.
    pub fn nnz(&self) -> usize {
        self.col.len()
    }

    /// Columns and values of row `r`.
    #[inline]
    pub fn row(&self, r: usize) -> (&[u32], &[f64]) {
        let range = self.row_ptr[r] as usize..self.row_ptr[r + 1] as usize;
        (&self.col[range.clone()], &self.val[range])
    }

    /// The arrays as slices.
    pub(crate) fn view(&self) -> CsrView<'_> {
        CsrView { row_ptr: &self.row_ptr, col: &self.col, val: &self.val }
    }

    /// The same matrix with ascending columns in every row. The arrays are kept where they are so already.
    pub(crate) fn sorted(self) -> Self {
        if (0..self.rows()).into_par_iter().with_min_len(CHUNK).all(|r| self.row(r).0.is_sorted()) {
            return self;
        }
        let Self { row_ptr, col, val } = self;
        let (mut col, mut val) = (col.into_vec(), val.into_vec());
        let chunks = split(&row_ptr, &mut col).into_par_iter().zip(split(&row_ptr, &mut val));
        chunks.for_each(|((first, col), (_, val))| {
            let mut pairs = Vec::new();
            let mut start = 0;
            for length in row_ptr[first..].windows(2).take(CHUNK).map(|ends| (ends[1] - ends[0]) as usize) {
                let (col, val) = (&mut col[start..start + length], &mut val[start..start + length]);
                start += length;
                if !col.is_sorted() {
                    pairs.clear();
                    pairs.extend(col.iter().copied().zip(val.iter().copied()));
                    pairs.sort_by_key(|pair| pair.0);
                    for (pair, (col, val)) in pairs.iter().zip(col.iter_mut().zip(val)) {
                        (*col, *val) = *pair;
                    }
                }
            }
        });
        Self { row_ptr, col: col.into(), val: val.into() }
    }
}

/// A [`Csr`] whose arrays have been looked up: what a loop over all rows begins with.
#[derive(Clone, Copy)]
pub(crate) struct CsrView<'a> {
    row_ptr: &'a [u64],
    col: &'a [u32],
    val: &'a [f64],
}

impl<'a> CsrView<'a> {
    /// [`Csr::row`].
    #[inline]
    pub fn row(self, r: usize) -> (&'a [u32], &'a [f64]) {
        let range = self.row_ptr[r] as usize..self.row_ptr[r + 1] as usize;
        (&self.col[range.clone()], &self.val[range])
    }
}

/// Likewise what an [`Mdp`] has of each row.
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

    /// Whether [`rewards_of`](Self::rewards_of) a row are not all 0.
    #[inline]
    pub fn rewards_transitions(self, row: usize) -> bool {
        !self.rewards.val.is_empty() && !self.rewards.row(row).1.is_empty()
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

/// Splits what holds one element per entry of a matrix into the parts of [`CHUNK`] rows each (fewer in the last), with
/// the number of the first row.
pub(crate) fn split<'e, T>(row_ptr: &[u64], mut elements: &'e mut [T]) -> Vec<(usize, &'e mut [T])> {
    let rows = row_ptr.len() - 1;
    (0..rows)
        .step_by(CHUNK)
        .map(|first| {
            let length = row_ptr[rows.min(first + CHUNK)] - row_ptr[first];
            (first, elements.split_off_mut(..length as usize).unwrap_or_default())
        })
        .collect()
}

/// The action of a state that has none, in a policy.
pub const NO_ACTION: u32 = u32::MAX;

/// Which rows, that is state-action pairs, belong to which state.
#[derive(Clone)]
pub enum Choices {
    /// Every state has this many: row s·A + a.
    Uniform(u32),
    /// State s has rows `offsets[s]..offsets[s + 1]`. One without rows is terminal: the process ends there, and V = 0.
    Ragged(Array<u64>),
}

impl Default for Choices {
    fn default() -> Self {
        Self::Uniform(1)
    }
}

impl Choices {
    /// The rows of a state; action a is the a-th of them.
    #[inline]
    #[must_use]
    pub fn rows(&self, state: usize) -> Range<usize> {
        match self {
            Self::Uniform(actions) => state * *actions as usize..(state + 1) * *actions as usize,
            Self::Ragged(offsets) => offsets[state] as usize..offsets[state + 1] as usize,
        }
    }

    /// The first row of a state; that of the state S, which is not there, is the number of all rows.
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

    /// The largest number of actions of any state.
    #[must_use]
    pub fn max(&self) -> u32 {
        match self {
            Self::Uniform(actions) => *actions,
            Self::Ragged(offsets) => {
                offsets.par_windows(2).map(|ends| (ends[1] - ends[0]) as u32).max().unwrap_or_default()
            }
        }
    }

    /// The number of rows of all `states` states.
    #[must_use]
    pub fn total(&self, states: u32) -> usize {
        self.first(states as usize)
    }

    /// The state that a row belongs to.
    #[must_use]
    pub fn state_of(&self, row: usize) -> usize {
        match self {
            Self::Uniform(actions) => row / *actions as usize,
            Self::Ragged(offsets) => offsets.partition_point(|&first| first <= row as u64) - 1,
        }
    }
}

choice! {
    /// Whether rewards are wanted or costs are to be avoided.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Objective {
        /// V* is the largest expected sum.
        #[default]
        Maximize = "maximize",
        /// V* is the smallest expected sum: rewards are costs.
        Minimize = "minimize",
    }
}

impl Objective {
    /// What makes a maximum of it: 1 or −1.
    #[must_use]
    pub fn sign(self) -> f64 {
        match self {
            Self::Maximize => 1.0,
            Self::Minimize => -1.0,
        }
    }
}

/// What actions are called.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct ActionNames {
    /// Names, each once.
    pub names: Vec<String>,
    /// The name of each row, as an index into `names`.
    pub of_row: Vec<u32>,
}

/// What a Markov decision process is made of, to be [validated](Self::validated).
#[derive(Clone, Default)]
pub struct MdpParts {
    /// S, the number of states.
    pub states: u32,
    /// Which rows belong to which state.
    pub choices: Choices,
    /// γ, the discount factor, in [0, 1]. Only some methods take 1.
    pub gamma: f64,
    /// Whether to maximise or to minimise.
    pub objective: Objective,
    /// P(s'|s, a): one row per state-action pair, S columns.
    pub transitions: Csr,
    /// The probability that the process ends with a row, beside those of P; empty where it never does.
    pub ends: Array<f64>,
    /// R(s, a, s'): rows and columns as P; without rows where all are 0.
    pub rewards: Csr,
    /// What a row earns beside R, whatever comes next; empty where that is nothing.
    pub action_rewards: Array<f64>,
    /// Named sets of states, ascending. Those of "init" are where the process starts.
    pub labels: BTreeMap<String, Vec<u32>>,
    /// What actions are called, if they have names.
    pub action_names: Option<ActionNames>,
    /// Where the states stand, if they are the cells of a grid.
    pub grid: Option<Grid>,
}

impl MdpParts {
    /// The model, if it is one. Rows whose columns do not ascend are sorted; rewards that are left out are 0.
    ///
    /// Every row of P is a distribution with what it ends with: entries in [0, 1] that sum to 1 within
    /// [`ROW_SUM_TOLERANCE`](validate::ROW_SUM_TOLERANCE).
    ///
    /// # Errors
    /// The first violation found; see [`Invalid`].
    pub fn validated(mut self) -> Result<Mdp, Invalid> {
        if self.rewards.row_ptr().is_empty() {
            self.rewards = Csr::empty(self.transitions.rows());
        }
        if validate::check(&self)? {
            return Ok(Mdp(self));
        }
        let parts = Self { transitions: self.transitions.sorted(), rewards: self.rewards.sorted(), ..self };
        validate::check_distinct(&parts)?;
        Ok(Mdp(parts))
    }
}

/// A finite Markov decision process, made of [`MdpParts`] that have been validated:
///
/// - γ is in [0, 1], and each state's rows are those of [`choices`](Self::choices), fewer than 2³² − 1 of them;
/// - P and R have a row for each state-action pair, with distinct, ascending columns below S;
/// - every row of P sums to 1 with what it ends with; rewards are finite;
/// - what belongs to rows has an element for each, or none; labels and the grid name states below S.
///
/// Nothing can be changed without being checked:
///
/// ```compile_fail,E0616
/// # use warpkov::mdp::generate::Forest;
/// let mut mdp = Forest::default().generate().unwrap();
/// mdp.0.states = 1;
/// ```
#[derive(Clone)]
pub struct Mdp(MdpParts);

impl Mdp {
    /// A model in which all states have `actions` actions and the process never ends.
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

    /// A model of parts that are valid by construction, as those of another model in another order.
    pub(crate) fn built(parts: MdpParts) -> Self {
        debug_assert!(matches!(validate::check(&parts), Ok(true)));
        Self(parts)
    }

    /// What the model is made of: to change some of it, and validate that.
    #[must_use]
    pub fn into_parts(self) -> MdpParts {
        self.0
    }

    /// The same model with another discount factor.
    ///
    /// # Errors
    /// If it is not in [0, 1].
    pub fn with_gamma(mut self, gamma: f64) -> Result<Self, Invalid> {
        validate::check_gamma(gamma)?;
        self.0.gamma = gamma;
        Ok(self)
    }

    /// The same model, to be maximised or minimised.
    #[must_use]
    pub fn with_objective(mut self, objective: Objective) -> Self {
        self.0.objective = objective;
        self
    }

    /// The same model without its geometry.
    #[must_use]
    pub fn without_grid(mut self) -> Self {
        self.0.grid = None;
        self
    }

    /// Adds a set of states, ascending.
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

    /// Which rows belong to which state.
    #[inline]
    #[must_use]
    pub fn choices(&self) -> &Choices {
        &self.0.choices
    }

    /// γ, the discount factor, in [0, 1]. Only some methods take 1.
    #[inline]
    #[must_use]
    pub fn gamma(&self) -> f64 {
        self.0.gamma
    }

    /// Whether to maximise or to minimise.
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

    /// The probability that the process ends with a row, beside those of P; empty where it never does.
    #[inline]
    #[must_use]
    pub fn ends(&self) -> &Array<f64> {
        &self.0.ends
    }

    /// R(s, a, s'): rows and columns as P.
    #[inline]
    #[must_use]
    pub fn rewards(&self) -> &Csr {
        &self.0.rewards
    }

    /// What a row earns beside R, whatever comes next; empty where that is nothing.
    #[inline]
    #[must_use]
    pub fn action_rewards(&self) -> &Array<f64> {
        &self.0.action_rewards
    }

    /// Named sets of states, ascending. Those of "init" are where the process starts.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, Vec<u32>> {
        &self.0.labels
    }

    /// What actions are called, if they have names.
    #[must_use]
    pub fn action_names(&self) -> Option<&ActionNames> {
        self.0.action_names.as_ref()
    }

    /// Where the states stand, if they are the cells of a grid.
    #[must_use]
    pub fn grid(&self) -> Option<&Grid> {
        self.0.grid.as_ref()
    }

    /// The number of state-action pairs.
    pub fn rows(&self) -> usize {
        self.0.transitions.rows()
    }

    /// What the process ends with after a row.
    pub fn end(&self, row: usize) -> f64 {
        self.0.ends.get(row).copied().unwrap_or_default()
    }

    /// What a row earns beside R.
    pub fn action_reward(&self, row: usize) -> f64 {
        self.0.action_rewards.get(row).copied().unwrap_or_default()
    }

    /// Whether the process never ends: every state has an action, and no row ends.
    pub fn never_terminates(&self) -> bool {
        let ragged =
            matches!(&self.0.choices, Choices::Ragged(offsets) if offsets.windows(2).any(|ends| ends[0] == ends[1]));
        self.0.ends.is_empty() && !ragged
    }

    /// A policy that takes the first action of every state.
    pub fn first_policy(&self) -> Vec<u32> {
        let first = |state| if self.0.choices.count(state) == 0 { NO_ACTION } else { 0 };
        match self.0.choices {
            Choices::Uniform(_) => vec![0; self.0.states as usize],
            Choices::Ragged(_) => (0..self.0.states as usize).into_par_iter().map(first).collect(),
        }
    }

    /// The same model as one to be maximised: rewards are negated where they are costs. Its V is that of this model,
    /// negated likewise.
    pub fn to_maximize(&self) -> Cow<'_, Self> {
        if self.0.objective == Objective::Maximize {
            return Cow::Borrowed(self);
        }
        let negated = |rewards: &[f64]| rewards.par_iter().map(|&reward| -reward).collect::<Vec<_>>();
        let rewards = self.rewards();
        Cow::Owned(Self(MdpParts {
            objective: Objective::Maximize,
            rewards: Csr::built(rewards.row_ptr().clone(), rewards.col().clone(), negated(rewards.val())),
            action_rewards: negated(self.action_rewards()).into(),
            ..self.0.clone()
        }))
    }

    /// r(s, a): Σ P(s'|s, a)·R(s, a, s') over the s' that both matrices hold, and what the action earns; one entry per row.
    pub fn expected_rewards(&self) -> Vec<f64> {
        if self.0.rewards.nnz() == 0 && !self.0.action_rewards.is_empty() {
            // As the sum below, which begins with +0.
            return self.0.action_rewards.par_iter().map(|reward| 0.0 + reward).collect();
        }
        let view = self.view();
        let expected = |row: usize| {
            // From +0, where an empty f64 sum would be −0.
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

    /// R(s, a, s') for each entry of P, in P's order; 0 where R has none. What actions earn is not in it.
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

    /// R for each entry of row `row` of P: a merge of the two sorted rows.
    pub(crate) fn rewards_of(&self, row: usize) -> impl Iterator<Item = f64> {
        self.view().rewards_of(row)
    }

    /// The arrays as slices.
    pub(crate) fn view(&self) -> View<'_> {
        let (transitions, rewards) = (self.0.transitions.view(), self.0.rewards.view());
        View { transitions, rewards, action_rewards: &self.0.action_rewards }
    }
}

/// The geometry of a grid world: state s is the cell in column s mod `width` and row s / `width`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Grid {
    /// Cells in a row.
    pub width: u32,
    /// Cells in a column.
    pub height: u32,
    /// The goal's state.
    pub goal: u32,
    /// States that no one can enter, ascending.
    pub walls: Vec<u32>,
    /// States that cost a penalty to enter, ascending.
    pub obstacles: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csr(row_ptr: &[u64], col: &[u32], val: &[f64]) -> Csr {
        Csr::new(row_ptr.to_vec(), col.to_vec(), val.to_vec()).unwrap()
    }

    #[test]
    fn rewards_meet_the_transitions_they_belong_to() {
        let p = csr(&[0, 2, 3], &[1, 0, 1], &[0.25, 0.75, 1.0]);
        let r = csr(&[0, 1, 2], &[1, 0], &[8.0, 5.0]);
        let mdp = Mdp::new(2, 1, 0.5, p, r, None).unwrap();
        assert_eq!(mdp.rows(), 2);
        assert_eq!(mdp.transitions().row(0), (&[0, 1][..], &[0.75, 0.25][..]), "sorted");
        assert_eq!(mdp.expected_rewards(), [2.0, 0.0]);
        assert_eq!(mdp.transition_rewards(), [0.0, 8.0, 0.0]);
    }

    #[test]
    fn chunks_keep_their_rows_apart() {
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
