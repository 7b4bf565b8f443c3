//! A model as a source of rows. A rank reads the rows of its own states, and holds nothing of the size of the whole model.
//!
//! State and row numbers are of 64 bits here, and of 32 bits in an [`Mdp`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;

use super::{ActionNames, Choices, Csr, Grid, Mdp, Objective};

/// Why rows cannot be read: one message with the file, the row and what was expected.
pub type Fault = Box<dyn Error + Send + Sync>;

/// A whole model, from which rows can be read by the numbers of their states.
pub trait Whole: Sync {
    /// S, the number of states.
    fn states(&self) -> u64;

    /// γ, the discount factor, in [0, 1].
    fn gamma(&self) -> f64;

    /// Optimisation sense.
    fn objective(&self) -> Objective;

    /// The number of transitions of the states below `state`, from which ranks estimate the work of a sweep. The source need
    /// not be valid, and a generator may estimate the number.
    fn transitions_before(&self, state: u64) -> u64;

    /// The rows of a range of states, validated.
    ///
    /// # Errors
    /// If the rows cannot be read or are not valid, or if something else in the model that the range stands for is not: the
    /// ranges of all ranks together stand for the whole model.
    fn rows(&self, states: Range<u64>) -> Result<Rows<'_>, Fault>;
}

/// A whole model and what its files hold beside the rows.
pub trait Described: Whole {
    /// Named sets of states, each in ascending order. "init" names the initial states.
    fn labels(&self) -> BTreeMap<String, Cow<'_, [u64]>>;

    /// Distinct names of actions; none if actions have no names.
    fn action_names(&self) -> Vec<String>;

    /// Distinct names of the states, one per state, if any.
    fn state_names(&self) -> Option<&[String]> {
        None
    }

    /// Geometry, if the states are the cells of a grid.
    fn grid(&self) -> Option<Cow<'_, Grid>>;

    /// The lengths of the arrays of [`rows`](Whole::rows), without making them.
    fn extent(&self, states: Range<u64>) -> Extent;
}

/// A model whose states or actions have names.
pub trait Named: Sync {
    /// The name of a state, or its number if states have no names.
    fn name_of_state(&self, state: u64) -> Cow<'_, str>;

    /// The name of an action of a state, or its number if actions have no names.
    fn name_of_action(&self, state: u64, action: u32) -> Cow<'_, str>;
}

/// The lengths of the arrays of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of rows.
    pub rows: u64,
    /// Entries of P.
    pub transitions: u64,
    /// Entries of R.
    pub rewards: u64,
    /// End probabilities.
    pub ends: u64,
    /// Rewards of actions.
    pub action_rewards: u64,
}

impl std::ops::Add for Extent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            transitions: self.transitions + other.transitions,
            rewards: self.rewards + other.rewards,
            ends: self.ends + other.ends,
            action_rewards: self.action_rewards + other.action_rewards,
        }
    }
}

/// The rows of a range of states. Numbers of states and of rows are those of the whole model; entries count from any number.
#[derive(Clone)]
pub struct Rows<'a> {
    /// The states.
    pub states: Range<u64>,
    /// The rows of each state.
    pub actions: Actions<'a>,
    /// The rows of P.
    pub transitions: Entries<'a>,
    /// The probability that the process ends after each row; empty if it is 0 after all.
    pub ends: Cow<'a, [f64]>,
    /// The rows of R.
    pub rewards: Entries<'a>,
    /// The reward of each row independent of the successor; empty if it is 0 for all.
    pub action_rewards: Cow<'a, [f64]>,
    /// The name of each row, as an index into the names of actions; empty without names.
    pub names: Cow<'a, [u32]>,
}

/// The place of a row in the whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The number of the row.
    pub row: u64,
    /// The state.
    pub state: u64,
    /// The action of the state, from 0.
    pub action: u32,
}

/// The rows of each state of a range.
#[derive(Clone)]
pub enum Actions<'a> {
    /// Every state has so many.
    Uniform(u32),
    /// The number of the first row of each state, and of the first row behind the range.
    Ragged(Cow<'a, [u64]>),
}

/// Rows of a sparse matrix.
#[derive(Clone)]
pub struct Entries<'a> {
    /// The number of the first entry of each row, and of the first entry behind the rows.
    pub row_ptr: Cow<'a, [u64]>,
    /// The column of each entry.
    pub col: Columns<'a>,
    /// The value of each entry.
    pub val: Cow<'a, [f64]>,
}

/// Columns of entries, in 32 bits or in 64.
#[derive(Clone)]
pub enum Columns<'a> {
    /// Numbers of 32 bits.
    Short(Cow<'a, [u32]>),
    /// Numbers of 64 bits.
    Long(Cow<'a, [u64]>),
}

/// A type of columns.
pub(crate) trait Column: Copy + Default + Ord + Send + Sync + Into<u64> + 'static {
    /// A number that the type can hold.
    fn from_number(number: u64) -> Self;

    /// Columns of this type.
    fn columns(columns: Vec<Self>) -> Columns<'static>;
}

impl Column for u32 {
    fn from_number(number: u64) -> Self {
        number as Self
    }

    fn columns(columns: Vec<Self>) -> Columns<'static> {
        Columns::Short(columns.into())
    }
}

impl Column for u64 {
    fn from_number(number: u64) -> Self {
        number
    }

    fn columns(columns: Vec<Self>) -> Columns<'static> {
        Columns::Long(columns.into())
    }
}

/// [`Entries`] with columns of a known type. Rows count from 0.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a, C> {
    pub row_ptr: &'a [u64],
    pub col: &'a [C],
    pub val: &'a [f64],
}

impl<'a, C> Lines<'a, C> {
    pub fn rows(self) -> usize {
        self.row_ptr.len().saturating_sub(1)
    }

    /// Columns and values of a row.
    #[inline]
    pub fn row(self, row: usize) -> (&'a [C], &'a [f64]) {
        let first = self.row_ptr[0];
        let range = (self.row_ptr[row] - first) as usize..(self.row_ptr[row + 1] - first) as usize;
        (&self.col[range.clone()], &self.val[range])
    }
}

/// Evaluates an expression for the [`Lines`] of entries, whatever the type of their columns.
macro_rules! with_lines {
    ($entries:expr, |$lines:ident| $value:expr) => {{
        let entries: &$crate::model::whole::Entries = $entries;
        let (row_ptr, val) = (&entries.row_ptr[..], &entries.val[..]);
        match &entries.col {
            $crate::model::whole::Columns::Short(col) => {
                let $lines = $crate::model::whole::Lines { row_ptr, col: &col[..], val };
                $value
            }
            $crate::model::whole::Columns::Long(col) => {
                let $lines = $crate::model::whole::Lines { row_ptr, col: &col[..], val };
                $value
            }
        }
    }};
}
pub(crate) use with_lines;

impl<'a> Entries<'a> {
    /// All rows of a matrix.
    pub(super) fn new(csr: &'a Csr) -> Self {
        Self {
            row_ptr: Cow::Borrowed(csr.row_ptr()),
            col: Columns::Short(Cow::Borrowed(csr.col())),
            val: Cow::Borrowed(csr.val()),
        }
    }

    /// Some rows of a matrix.
    fn of_rows(csr: &'a Csr, rows: &Range<usize>) -> Self {
        let row_ptr = &csr.row_ptr()[rows.start..=rows.end];
        let entries = row_ptr[0] as usize..row_ptr[rows.len()] as usize;
        Self {
            row_ptr: Cow::Borrowed(row_ptr),
            col: Columns::Short(Cow::Borrowed(&csr.col()[entries.clone()])),
            val: Cow::Borrowed(&csr.val()[entries]),
        }
    }

    /// `rows` rows without entries.
    #[must_use]
    pub fn empty(rows: usize) -> Self {
        Self {
            row_ptr: Cow::Owned(vec![0; rows + 1]),
            col: Columns::Short(Cow::Borrowed(&[])),
            val: Cow::Borrowed(&[]),
        }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.row_ptr.len().saturating_sub(1)
    }
}

impl Rows<'_> {
    /// The number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.first(self.states.end) as usize - self.first(self.states.start) as usize
    }

    /// The number of the first row of a state of the range, or of the state behind it.
    #[must_use]
    pub fn first(&self, state: u64) -> u64 {
        match &self.actions {
            Actions::Uniform(actions) => state * u64::from(*actions),
            Actions::Ragged(offsets) => offsets[(state - self.states.start) as usize],
        }
    }

    /// The state that owns a row.
    #[must_use]
    pub fn state_of(&self, row: u64) -> u64 {
        match &self.actions {
            Actions::Uniform(actions) => row / u64::from(*actions),
            Actions::Ragged(offsets) => self.states.start + offsets.partition_point(|&first| first <= row) as u64 - 1,
        }
    }

    /// The places of some rows, which count from the first of the range.
    pub fn places(&self, rows: Range<usize>) -> impl Iterator<Item = At> {
        let mut row = self.first(self.states.start) + rows.start as u64;
        let mut state = if rows.is_empty() { self.states.start } else { self.state_of(row) };
        rows.map(move |_| {
            while self.first(state + 1) <= row {
                state += 1;
            }
            let at = At { row, state, action: (row - self.first(state)) as u32 };
            row += 1;
            at
        })
    }

    /// Whether a state has no action.
    #[must_use]
    pub fn has_terminal(&self) -> bool {
        matches!(&self.actions, Actions::Ragged(offsets) if offsets.windows(2).any(|ends| ends[0] == ends[1]))
    }
}

impl Whole for Mdp {
    fn states(&self) -> u64 {
        self.states().into()
    }

    fn gamma(&self) -> f64 {
        self.gamma()
    }

    fn objective(&self) -> Objective {
        self.objective()
    }

    fn transitions_before(&self, state: u64) -> u64 {
        self.transitions().row_ptr()[self.choices().first(state as usize)]
    }

    fn rows(&self, states: Range<u64>) -> Result<Rows<'_>, Fault> {
        let range = states.start as usize..states.end as usize;
        let rows = self.choices().first(range.start)..self.choices().first(range.end);
        let of_rows = |values: &'_ [f64]| if values.is_empty() { 0..0 } else { rows.clone() };
        Ok(Rows {
            states,
            actions: match self.choices() {
                Choices::Uniform(actions) => Actions::Uniform(*actions),
                Choices::Ragged(offsets) => Actions::Ragged(Cow::Borrowed(&offsets[range.start..=range.end])),
            },
            transitions: Entries::of_rows(self.transitions(), &rows),
            ends: Cow::Borrowed(&self.ends()[of_rows(self.ends())]),
            rewards: Entries::of_rows(self.rewards(), &rows),
            action_rewards: Cow::Borrowed(&self.action_rewards()[of_rows(self.action_rewards())]),
            names: Cow::Borrowed(self.action_names().map_or(&[][..], |names| &names.of_row[rows.clone()])),
        })
    }
}

impl Described for Mdp {
    fn labels(&self) -> BTreeMap<String, Cow<'_, [u64]>> {
        let wide = |states: &Vec<u32>| states.iter().map(|&state| state.into()).collect();
        self.labels().iter().map(|(label, states)| (label.clone(), wide(states))).collect()
    }

    fn action_names(&self) -> Vec<String> {
        self.action_names().map_or_else(Vec::new, |ActionNames { names, .. }| names.clone())
    }

    fn state_names(&self) -> Option<&[String]> {
        self.state_names()
    }

    fn grid(&self) -> Option<Cow<'_, Grid>> {
        self.grid().map(Cow::Borrowed)
    }

    fn extent(&self, states: Range<u64>) -> Extent {
        let [first, end] = [states.start, states.end].map(|state| self.choices().first(state as usize));
        let entries = |matrix: &Csr| matrix.row_ptr()[end] - matrix.row_ptr()[first];
        let rows = (end - first) as u64;
        let per_row = |numbers: &[f64]| if numbers.is_empty() { 0 } else { rows };
        Extent {
            rows,
            transitions: entries(self.transitions()),
            rewards: entries(self.rewards()),
            ends: per_row(self.ends()),
            action_rewards: per_row(self.action_rewards()),
        }
    }
}

impl Named for Mdp {
    fn name_of_state(&self, state: u64) -> Cow<'_, str> {
        match self.state_names() {
            Some(names) => Cow::Borrowed(&names[state as usize]),
            None => state.to_string().into(),
        }
    }

    fn name_of_action(&self, state: u64, action: u32) -> Cow<'_, str> {
        match self.action_names() {
            Some(ActionNames { names, of_row }) => {
                Cow::Borrowed(&names[of_row[self.choices().first(state as usize) + action as usize] as usize])
            }
            None => action.to_string().into(),
        }
    }
}
