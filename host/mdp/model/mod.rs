//! Finite Markov decision processes in compressed sparse row (CSR) form.
//!
//! A model has states s ∈ {0 … S−1}, zero or more actions a per state, and a discount factor γ ∈ [0, 1]. P(s'|s, a) is
//! a CSR matrix with one row per state-action pair. The rows of a state are adjacent. R(s, a, s') is a second CSR
//! matrix with the same rows. R may hold entries where P has none; they have no effect. The expected reward is r(s, a)
//! = Σ P·R over the entries present in both matrices, plus the reward of the action itself.
//!
//! This file keeps [`Csr`] and [`Mdp`] together because both must keep their fields private to preserve their
//! invariants.

pub mod part;
pub mod validate;
pub mod whole;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use rayon::prelude::*;

pub use self::part::{Part, Peer, Sends};
use self::validate::Invalid;
pub use self::whole::{Named, Whole};
use crate::common::choice::choice;
use crate::common::names::name;

/// Rows per task of a parallel loop: enough work to amortise the task, few enough rows to balance the load.
pub(crate) const CHUNK: usize = 4096;

/// An array in memory, a view of a memory-mapped file, or the memory of another owner. Clones share the elements.
#[derive(Clone)]
pub struct Array<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Arc<Vec<T>>),
    Mapped { map: Arc<Mmap>, start: usize, end: usize },
    Lent(Arc<dyn Owner<T>>),
}

/// An owner of elements that any thread may read.
pub trait Owner<T>: AsRef<[T]> + Send + Sync + UnwindSafe + RefUnwindSafe {}

impl<T, O: AsRef<[T]> + Send + Sync + UnwindSafe + RefUnwindSafe> Owner<T> for O {}

impl<T: Pod> Array<T> {
    /// Views the bytes `start..end` of a mapped file as elements of `T`. `None` if the range exceeds the file, is
    /// misaligned, or does not contain a whole number of elements.
    pub fn mapped(map: Arc<Mmap>, start: usize, end: usize) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(map.get(start..end)?).ok()?;
        Some(Self(Storage::Mapped { map, start, end }))
    }

    /// Views elements that another owner keeps, such as an array of Python.
    ///
    /// # Safety
    /// `as_ref` returns the same slice every time, and nobody changes its elements while the array exists: a model relies on the
    /// checks of its arrays.
    pub unsafe fn lent(owner: impl Owner<T> + 'static) -> Self {
        Self(Storage::Lent(Arc::new(owner)))
    }

    /// The elements as a vector. Copies if the array is mapped, lent or shared.
    pub fn into_vec(self) -> Vec<T> {
        match self.0 {
            Storage::Owned(elements) => Arc::unwrap_or_clone(elements),
            Storage::Mapped { .. } | Storage::Lent(_) => self.to_vec(),
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
            Storage::Lent(owner) => (**owner).as_ref(),
        }
    }
}

/// A sparse matrix in compressed sparse row form: row r holds the entries `row_ptr[r]..row_ptr[r + 1]`.
///
/// Invariant: the row pointers start at 0, never decrease, and end at the number of entries. So [`row`](Self::row)
/// stays in bounds for every r below [`rows`](Self::rows). `Csr` does not check the columns; the model that owns the
/// matrix checks their range and order.
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

/// A violated invariant of [`Csr`]. Messages name the arrays as files do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum InvalidCsr {
    #[error("indptr[0] is {found}, expected 0")]
    Start { found: u64 },
    #[error("indptr falls from {start} to {end} in row {row}")]
    Falls { row: usize, start: u64, end: u64 },
    #[error("indptr ends at {found}, expected the number of entries {entries}")]
    End { found: u64, entries: usize },
    #[error("indices has {indices} elements, data has {data}, expected equal lengths")]
    Lengths { indices: usize, data: usize },
}

impl Csr {
    /// Builds a matrix from row pointers, columns and values. An empty `row_ptr` gives a matrix without rows.
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

    /// [`new`](Self::new) without checks in release builds, for arrays that are valid by construction.
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

    /// Replaces the values; `val` has one element per stored entry.
    ///
    /// # Errors
    /// [`InvalidCsr::Lengths`] if the number of values differs.
    pub fn with_values(self, val: impl Into<Array<f64>>) -> Result<Self, InvalidCsr> {
        let val = val.into();
        let (indices, data) = (self.col.len(), val.len());
        if indices == data { Ok(Self { val, ..self }) } else { Err(InvalidCsr::Lengths { indices, data }) }
    }

    /// Row pointers: `rows + 1` offsets from 0 to the number of entries.
    #[inline]
    #[must_use]
    pub fn row_ptr(&self) -> &Array<u64> {
        &self.row_ptr
    }

    /// Column of each stored entry.
    #[inline]
    #[must_use]
    pub fn col(&self) -> &Array<u32> {
        &self.col
    }

    /// Value of each stored entry.
    #[inline]
    #[must_use]
    pub fn val(&self) -> &Array<f64> {
        &self.val
    }

    /// Takes the matrix apart into row pointers, columns and values.
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

    /// Borrows the arrays as slices.
    pub(crate) fn view(&self) -> CsrView<'_> {
        CsrView { row_ptr: &self.row_ptr, col: &self.col, val: &self.val }
    }

    /// Sorts the columns of every row in ascending order. Keeps the arrays if they are sorted already.
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

/// A [`Csr`] as slices, which saves a loop over rows the dispatch between owned and mapped arrays.
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

/// Splits `elements`, one per matrix entry, into chunks of [`CHUNK`] rows; the last chunk may be shorter. Each chunk
/// comes with the number of its first row.
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
        if validate::check(&self).map_err(|error| validate::explained(&self, error))? {
            return Ok(Mdp(self, None));
        }
        validate::check_distinct(&self)?;
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
/// # use warpkov::mdp::generate::Forest;
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

    /// Removes the grid geometry.
    #[must_use]
    pub fn without_grid(mut self) -> Self {
        self.0.grid = None;
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
    pub(crate) fn rewards_of(&self, row: usize) -> impl Iterator<Item = f64> {
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
