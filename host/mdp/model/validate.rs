//! Validation of models, on all cores. Reports are deterministic: a model with several violations always gives the same
//! one.

#![allow(clippy::useless_conversion, reason = "columns have 32 or 64 bits")]

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use warpkov_common::names::Item;
use warpkov_common::parallel;

use super::whole::{Actions, Column, Entries, Lines, Rows, with_lines};
use super::{ActionNames, Array, Choices, Csr, Grid, InvalidCsr, MdpParts, NO_ACTION};
use warpkov_common::terminal::quoted;

/// Maximum deviation of a probability row from sum 1.
pub const ROW_SUM_TOLERANCE: f64 = 1e-6;

/// A matrix of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// P, the transition probabilities.
    P,
    /// R, the rewards.
    R,
}

impl Matrix {
    /// Builds a CSR matrix and names this matrix in its error.
    ///
    /// # Errors
    /// [`Invalid::Csr`].
    pub fn csr(
        self,
        row_ptr: impl Into<Array<u64>>,
        col: impl Into<Array<u32>>,
        val: impl Into<Array<f64>>,
    ) -> Result<Csr, Invalid> {
        Csr::new(row_ptr, col, val).map_err(|source| Invalid::Csr { matrix: self, source })
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P => "P",
            Self::R => "R",
        })
    }
}

/// A matrix row and its state-action pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Row number.
    pub row: usize,
    /// State s.
    pub state: Item,
    /// Action a.
    pub action: Item,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, state, action } = self;
        write!(f, "row {row} (state {state}, action {action})")
    }
}

/// A violated invariant of a model. Messages name the arrays as files do: `indptr`, `indices` and `data` of P and R.
/// Positions count from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum Invalid {
    #[error("S is 0, expected at least 1 state")]
    NoStates,
    #[error("A is 0, expected at least 1 action")]
    NoActions,
    #[error("S = {states}, A = {actions}: S·A rows exceed the address space of this machine")]
    TooLarge { states: u64, actions: u32 },
    #[error("gamma is {gamma}, expected a number in [0, 1]")]
    Gamma { gamma: f64 },
    #[error("choices has {found} elements, expected S + 1 = {expected}")]
    ChoicesLength { found: usize, expected: usize },
    #[error("choices[0] is {found}, expected 0")]
    ChoicesStart { found: u64 },
    #[error("choices[{position}] is {found} after {previous}, expected a step of 0 to 2³² − 2 actions")]
    ChoicesOrder { position: usize, found: u64, previous: u64 },
    #[error("no state has an action, expected at least one")]
    NoRows,
    #[error("{matrix}.indptr has {found} elements, expected one per state-action pair plus one, {expected}")]
    RowPtrLength { matrix: Matrix, found: usize, expected: usize },
    #[error("{matrix}.{source}")]
    Csr { matrix: Matrix, source: InvalidCsr },
    #[error("{matrix} {row}: indices[{position}] is {found}, expected a state below {states}")]
    Column { matrix: Matrix, row: Box<Row>, position: usize, found: u64, states: u64 },
    #[error("{matrix} {row}: data[{position}] is {found}, expected {expected}")]
    Value { matrix: Matrix, row: Box<Row>, position: usize, found: f64, expected: &'static str },
    #[error("P {row}: no successors, expected probabilities that sum to 1")]
    EmptyRow { row: Box<Row> },
    #[error("{array} has {found} elements, expected none or one per row, {expected}")]
    PerRow { array: &'static str, found: usize, expected: usize },
    #[error("{array} {row} is {found}, expected {expected}")]
    RowValue { array: &'static str, row: Box<Row>, found: f64, expected: &'static str },
    #[error("label \"{label}\"[{position}] is {found}, expected ascending states below {states}")]
    Label { label: String, position: usize, found: u64, states: u64 },
    #[error("action_names.of_row[{position}] is {found}, expected an index below the number of names, {names}")]
    ActionName { position: usize, found: u32, names: usize },
    #[error("state_names has {found} elements, expected one per state, {expected}")]
    StateNames { found: usize, expected: u32 },
    #[error("state_names[{position}] is \"{name}\", as state_names[{first}]; expected distinct names")]
    StateName { position: usize, first: usize, name: String },
    #[error("P {row}: probabilities sum to {sum}, expected 1 within {ROW_SUM_TOLERANCE:e}")]
    RowSum { row: Box<Row>, sum: f64 },
    #[error("{0}; the columns of each action sum to 1, so P seems to be transposed: expected P[s][s'], found P[s'][s]")]
    Transposed(Box<Invalid>),
    #[error("{matrix} {row}: state {column} appears more than once")]
    Duplicate { matrix: Matrix, row: Box<Row>, column: u64 },
    #[error("{0}")]
    Form(String),
    #[error("grid: width {width} times height {height} is {cells} cells, expected one per state, {states}")]
    GridSize { width: u32, height: u32, cells: u64, states: u64 },
    #[error("grid.goal is {goal}, expected a state below {states}")]
    Goal { goal: u64, states: u64 },
    #[error("grid.{list}[{position}] is {found}, expected a state below {states}")]
    Cell { list: &'static str, position: usize, found: u64, states: u64 },
    #[error("grid.{list}[{position}] is {found} after {previous}, expected ascending states")]
    CellOrder { list: &'static str, position: usize, found: u64, previous: u64 },
}

/// Whether P and R have a row for each action, all valid and sorted. One fast pass; if it fails, [`Checker`] finds the
/// violation.
fn in_order(rows: &Rows, states: u64) -> bool {
    let (count, ends) = (rows.count(), &rows.ends[..]);
    if rows.transitions.rows() != count || rows.rewards.rows() != count || !(ends.is_empty() || ends.len() == count) {
        return false;
    }
    let distribution = |row: usize, probabilities: &[f64]| {
        let end = ends.get(row).copied().unwrap_or_default();
        let sum = probabilities.iter().sum::<f64>() + end;
        let filled = !probabilities.is_empty() || end != 0.0;
        filled & ((sum - 1.0).abs() <= ROW_SUM_TOLERANCE) & probabilities.iter().all(|&p| is_probability(p))
    };
    let finite = |_: usize, rewards: &[f64]| rewards.iter().all(|reward| reward.is_finite());
    with_lines!(&rows.transitions, |p| lines_in_order(p, states, distribution))
        && with_lines!(&rows.rewards, |r| lines_in_order(r, states, finite))
}

/// Whether the columns of all rows ascend and are below `states`, and the values pass `valid`.
fn lines_in_order<C: Column>(lines: Lines<C>, states: u64, valid: impl Fn(usize, &[f64]) -> bool + Sync) -> bool {
    let in_order = |row: usize| {
        let (columns, values) = lines.row(row);
        let ascend = columns.windows(2).all(|pair| pair[0] < pair[1]);
        ascend & columns.last().is_none_or(|&last| last.into() < states) & valid(row, values)
    };
    parallel::all(lines.rows(), in_order)
}

/// A row sum may exceed 1 by the tolerance, and so may the only entry of a row.
fn is_probability(p: f64) -> bool {
    (0.0..=1.0 + ROW_SUM_TOLERANCE).contains(&p)
}

/// Checks everything except [`check_distinct`]; rows may be unsorted. Returns whether all rows are sorted and free of
/// duplicates.
pub(super) fn check(mdp: &MdpParts) -> Result<bool, Invalid> {
    let MdpParts { states, gamma, ref choices, .. } = *mdp;
    if states == 0 {
        return Err(Invalid::NoStates);
    }
    let rows = match choices {
        Choices::Uniform(actions) => uniform_rows(states.into(), *actions)? as usize,
        Choices::Ragged(offsets) => ragged_rows(offsets, states as usize + 1)?,
    };
    check_gamma(gamma)?;
    let in_order = check_rows(&rows_of(mdp), states.into())?;
    for (label, members) in &mdp.labels {
        let wrong = |i: usize| members[i] >= states || (i > 0 && members[i] <= members[i - 1]);
        if let Some(position) = (0..members.len()).find(|&i| wrong(i)) {
            let (found, states) = (members[position].into(), states.into());
            return Err(Invalid::Label { label: label.clone(), position, found, states });
        }
    }
    if let Some(ActionNames { names, of_row }) = &mdp.action_names {
        if of_row.len() != rows {
            return Err(Invalid::PerRow { array: "action_names.of_row", found: of_row.len(), expected: rows });
        }
        if let Some(position) = of_row.iter().position(|&name| name as usize >= names.len()) {
            return Err(Invalid::ActionName { position, found: of_row[position], names: names.len() });
        }
    }
    mdp.state_names.as_ref().map_or(Ok(()), |names| check_state_names(names, states))?;
    mdp.grid.as_ref().map_or(Ok(()), |grid| check_grid(grid, states))?;
    Ok(in_order)
}

/// Checks that every state has a name of its own.
fn check_state_names(names: &[String], states: u32) -> Result<(), Invalid> {
    if names.len() != states as usize {
        return Err(Invalid::StateNames { found: names.len(), expected: states });
    }
    let mut firsts = HashMap::with_capacity(names.len());
    for (position, name) in names.iter().enumerate() {
        if let Some(first) = firsts.insert(name, position) {
            return Err(Invalid::StateName { position, first, name: quoted(name.as_bytes()) });
        }
    }
    Ok(())
}

/// All rows of a model, which may have the wrong lengths.
fn rows_of(mdp: &MdpParts) -> Rows<'_> {
    Rows {
        states: 0..mdp.states.into(),
        actions: match &mdp.choices {
            Choices::Uniform(actions) => Actions::Uniform(*actions),
            Choices::Ragged(offsets) => Actions::Ragged(Cow::Borrowed(offsets)),
        },
        transitions: Entries::new(&mdp.transitions),
        ends: Cow::Borrowed(&mdp.ends),
        rewards: Entries::new(&mdp.rewards),
        action_rewards: Cow::Borrowed(&mdp.action_rewards),
        names: Cow::Borrowed(&[]),
    }
}

/// Checks rows of a model of `states` states, which may be unsorted, except [`check_distinct_rows`]. Returns whether all are
/// sorted and free of duplicates.
pub(crate) fn check_rows(rows: &Rows, states: u64) -> Result<bool, Invalid> {
    let checker = Checker { states, rows };
    let in_order = in_order(rows, states);
    if !in_order {
        checker.structure(Matrix::P, &rows.transitions)?;
        checker.structure(Matrix::R, &rows.rewards)?;
        checker.values(Matrix::P, &rows.transitions, "a probability in [0, 1]", is_probability)?;
        checker.values(Matrix::R, &rows.rewards, "a finite number", f64::is_finite)?;
    }
    checker.per_row("ends", &rows.ends, "a probability in [0, 1]", is_probability)?;
    checker.per_row("action_rewards", &rows.action_rewards, "a finite number", f64::is_finite)?;
    if !in_order {
        checker.row_sums()?;
    }
    Ok(in_order)
}

impl Invalid {
    /// The error with the names of the state and of the action of its row, if it has one.
    #[must_use]
    pub fn named(
        mut self,
        state: impl Fn(&Row) -> Option<Box<str>>,
        action: impl Fn(&Row) -> Option<Box<str>>,
    ) -> Self {
        match &mut self {
            Self::Column { row, .. }
            | Self::Value { row, .. }
            | Self::EmptyRow { row }
            | Self::RowValue { row, .. }
            | Self::RowSum { row, .. }
            | Self::Duplicate { row, .. } => (row.state.name, row.action.name) = (state(row), action(row)),
            Self::Transposed(inner) => **inner = inner.clone().named(state, action),
            _ => {}
        }
        self
    }
}

/// The error with names, and with its likely cause if rows are no distributions and columns are.
pub(super) fn explained(mdp: &MdpParts, error: Invalid) -> Invalid {
    let error = error.named(
        |row| mdp.state_names.as_ref()?.get(row.state.number).map(|name| name.as_str().into()),
        |row| {
            let ActionNames { names, of_row } = mdp.action_names.as_ref()?;
            names.get(*of_row.get(row.row)? as usize).map(|name| name.as_str().into())
        },
    );
    match error {
        Invalid::RowSum { .. } | Invalid::EmptyRow { .. } if columns_sum(mdp) => Invalid::Transposed(Box::new(error)),
        error => error,
    }
}

/// Whether the columns of P sum to 1 for each action.
fn columns_sum(mdp: &MdpParts) -> bool {
    let Choices::Uniform(actions) = mdp.choices else { return false };
    let (actions, states) = (actions as usize, mdp.states as usize);
    let mut sums = vec![0.0; states * actions];
    for row in 0..mdp.transitions.rows() {
        let (columns, values) = mdp.transitions.row(row);
        for (&column, value) in columns.iter().zip(values) {
            if let Some(sum) = sums.get_mut(row % actions * states + column as usize) {
                *sum += value;
            }
        }
    }
    mdp.ends.is_empty() && sums.iter().all(|sum: &f64| (sum - 1.0).abs() <= ROW_SUM_TOLERANCE)
}

/// Checks γ ∈ [0, 1].
pub(crate) fn check_gamma(gamma: f64) -> Result<(), Invalid> {
    if (0.0..=1.0).contains(&gamma) { Ok(()) } else { Err(Invalid::Gamma { gamma }) }
}

/// The number of rows of `states` states with `actions` actions each.
pub(crate) fn uniform_rows(states: u64, actions: u32) -> Result<u64, Invalid> {
    if actions == 0 {
        return Err(Invalid::NoActions);
    }
    let rows = states.checked_mul(actions.into()).filter(|&rows| rows < usize::MAX as u64);
    rows.ok_or(Invalid::TooLarge { states, actions })
}

/// The number of rows that `offsets` assigns to states; `expected` is the required number of offsets.
fn ragged_rows(offsets: &[u64], expected: usize) -> Result<usize, Invalid> {
    if offsets.len() != expected {
        return Err(Invalid::ChoicesLength { found: offsets.len(), expected });
    }
    if offsets[0] != 0 {
        return Err(Invalid::ChoicesStart { found: offsets[0] });
    }
    check_steps(offsets, 0)?;
    match usize::try_from(offsets[expected - 1]) {
        Ok(0) | Err(_) => Err(Invalid::NoRows),
        Ok(rows) => Ok(rows),
    }
}

/// Checks the steps between offsets, the first of which is `choices[first]`.
pub(crate) fn check_steps(offsets: &[u64], first: usize) -> Result<(), Invalid> {
    let wrong = |pair: &[u64]| pair[1].checked_sub(pair[0]).is_none_or(|count| count >= u64::from(NO_ACTION));
    match offsets.windows(2).position(wrong) {
        Some(i) => Err(Invalid::ChoicesOrder { position: first + i + 1, found: offsets[i + 1], previous: offsets[i] }),
        None => Ok(()),
    }
}

/// Checks that no column appears twice in a row.
pub(super) fn check_distinct(mdp: &MdpParts) -> Result<(), Invalid> {
    check_distinct_rows(&rows_of(mdp), mdp.states.into())
}

/// [`check_distinct`] of rows of a model of `states` states.
pub(crate) fn check_distinct_rows(rows: &Rows, states: u64) -> Result<(), Invalid> {
    let checker = Checker { states, rows };
    for (matrix, entries) in [(Matrix::P, &rows.transitions), (Matrix::R, &rows.rewards)] {
        with_lines!(entries, |lines| checker.first(|row| {
            let column = duplicate(lines.row(row).0)?.into();
            Some(Invalid::Duplicate { matrix, row: checker.row(row), column })
        }))?;
    }
    Ok(())
}

/// The least column that appears twice.
fn duplicate<C: Column>(columns: &[C]) -> Option<C> {
    let twice = |columns: &[C]| columns.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    if columns.is_sorted() {
        return twice(columns);
    }
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    twice(&sorted)
}

struct Checker<'r> {
    /// S, the number of states of the whole model.
    states: u64,
    rows: &'r Rows<'r>,
}

impl Checker<'_> {
    /// The place of a row that counts from the first one of the range.
    fn row(&self, row: usize) -> Box<Row> {
        let row = self.rows.first(self.rows.states.start) + row as u64;
        let state = self.rows.state_of(row);
        let action = (row - self.rows.first(state)) as usize;
        let (state, action) = (Item::new(&[], state as usize), Item::new(&[], action));
        Box::new(Row { row: row as usize, state, action })
    }

    /// Checks that an array is empty or has one valid number per row.
    fn per_row(
        &self,
        array: &'static str,
        values: &[f64],
        expected: &'static str,
        valid: impl Fn(f64) -> bool + Sync,
    ) -> Result<(), Invalid> {
        if values.is_empty() {
            return Ok(());
        }
        if values.len() != self.rows.count() {
            return Err(Invalid::PerRow { array, found: values.len(), expected: self.rows.count() });
        }
        self.first(|row| {
            let found = values[row];
            (!valid(found)).then(|| Invalid::RowValue { array, row: self.row(row), found, expected })
        })
    }

    /// The violation in the lowest-numbered row.
    fn first(&self, violation: impl Fn(usize) -> Option<Invalid> + Sync) -> Result<(), Invalid> {
        parallel::find_first(self.rows.count(), violation).map_or(Ok(()), Err)
    }

    /// Checks the number of rows and the range of the columns.
    fn structure(&self, matrix: Matrix, entries: &Entries) -> Result<(), Invalid> {
        let (found, expected) = (entries.row_ptr.len(), self.rows.count() + 1);
        if found.max(1) != expected {
            return Err(Invalid::RowPtrLength { matrix, found, expected });
        }
        let states = self.states;
        with_lines!(entries, |lines| self.first(|row| {
            let (columns, _) = lines.row(row);
            let offset = columns.iter().position(|&column| u64::from(column) >= states)?;
            let (position, found) = (lines.row_ptr[row] as usize + offset, columns[offset].into());
            Some(Invalid::Column { matrix, row: self.row(row), position, found, states })
        }))
    }

    fn values(
        &self,
        matrix: Matrix,
        entries: &Entries,
        expected: &'static str,
        valid: impl Fn(f64) -> bool + Sync,
    ) -> Result<(), Invalid> {
        with_lines!(entries, |lines| self.first(|row| {
            let (_, values) = lines.row(row);
            let offset = values.iter().position(|&value| !valid(value))?;
            let (position, found) = (lines.row_ptr[row] as usize + offset, values[offset]);
            Some(Invalid::Value { matrix, row: self.row(row), position, found, expected })
        }))
    }

    fn row_sums(&self) -> Result<(), Invalid> {
        with_lines!(&self.rows.transitions, |lines| self.first(|row| {
            let (_, probabilities) = lines.row(row);
            let end = self.rows.ends.get(row).copied().unwrap_or_default();
            let sum = probabilities.iter().sum::<f64>() + end;
            match probabilities {
                [] if end == 0.0 => Some(Invalid::EmptyRow { row: self.row(row) }),
                _ if (sum - 1.0).abs() > ROW_SUM_TOLERANCE => Some(Invalid::RowSum { row: self.row(row), sum }),
                _ => None,
            }
        }))
    }
}

fn check_grid(grid: &Grid, states: u32) -> Result<(), Invalid> {
    let Grid { width, height, goal, .. } = *grid;
    check_size(width, height, goal, states.into())?;
    for (list, cells) in [("walls", &grid.walls), ("obstacles", &grid.obstacles)] {
        if let Some(position) = cells.iter().position(|&cell| cell >= states) {
            return Err(Invalid::Cell { list, position, found: cells[position].into(), states: states.into() });
        }
        if let Some(before) = cells.windows(2).position(|pair| pair[0] >= pair[1]) {
            let (previous, found) = (cells[before].into(), cells[before + 1].into());
            return Err(Invalid::CellOrder { list, position: before + 1, found, previous });
        }
    }
    Ok(())
}

/// Checks that a grid has a cell for each state, and its goal among them.
pub(crate) fn check_size(width: u32, height: u32, goal: u64, states: u64) -> Result<(), Invalid> {
    let cells = u64::from(width) * u64::from(height);
    if cells != states {
        return Err(Invalid::GridSize { width, height, cells, states });
    }
    if goal >= states { Err(Invalid::Goal { goal, states }) } else { Ok(()) }
}
