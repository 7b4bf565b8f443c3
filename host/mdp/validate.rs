//! What a model must satisfy, checked on all cores. Of several violations the same one is reported every time.

use std::fmt;

use rayon::prelude::*;

use super::model::{CHUNK, Csr, Grid, Mdp};

/// How far the probabilities of a row may be from summing to 1.
pub const ROW_SUM_TOLERANCE: f64 = 1e-6;

/// One of the matrices of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// P, the transition probabilities.
    P,
    /// R, the rewards.
    R,
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P => "P",
            Self::R => "R",
        })
    }
}

/// A row of a matrix, and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// s·A + a.
    pub row: usize,
    /// s.
    pub state: usize,
    /// a.
    pub action: usize,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, state, action } = self;
        write!(f, "row {row} (state {state}, action {action})")
    }
}

/// Why a model is none. Arrays are named as in files: `indptr`, `indices` and `data` of P and of R; positions in them
/// count from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Invalid {
    #[error("S is 0, expected at least 1 state")]
    NoStates,
    #[error("A is 0, expected at least 1 action")]
    NoActions,
    #[error("S = {states}, A = {actions}: S·A rows cannot be numbered on this machine")]
    TooLarge { states: u32, actions: u32 },
    #[error("gamma is {gamma}, expected a number in [0, 1)")]
    Gamma { gamma: f64 },
    #[error("{matrix}.indptr has {found} elements, expected S·A + 1 = {expected}")]
    RowPtrLength { matrix: Matrix, found: usize, expected: usize },
    #[error("{matrix}.indptr[0] is {found}, expected 0")]
    RowPtrStart { matrix: Matrix, found: u64 },
    #[error("{matrix} {row}: indptr falls from {start} to {end}")]
    RowPtrFalls { matrix: Matrix, row: Row, start: u64, end: u64 },
    #[error("{matrix}.indptr ends at {found}, expected the number of entries {entries}")]
    RowPtrEnd { matrix: Matrix, found: u64, entries: usize },
    #[error("{matrix}.indices has {indices} elements, {matrix}.data has {data}, expected as many")]
    Lengths { matrix: Matrix, indices: usize, data: usize },
    #[error("{matrix} {row}: indices[{position}] is {found}, expected a state below {states}")]
    Column { matrix: Matrix, row: Row, position: usize, found: u32, states: u32 },
    #[error("{matrix} {row}: data[{position}] is {found}, expected {expected}")]
    Value { matrix: Matrix, row: Row, position: usize, found: f64, expected: &'static str },
    #[error("P {row}: no successors, expected probabilities that sum to 1")]
    EmptyRow { row: Row },
    #[error("P {row}: probabilities sum to {sum}, expected 1 within {ROW_SUM_TOLERANCE:e}")]
    RowSum { row: Row, sum: f64 },
    #[error("{matrix} {row}: state {column} appears more than once")]
    Duplicate { matrix: Matrix, row: Row, column: u32 },
    #[error("grid: width {width} times height {height} is {cells} cells, expected one per state, {states}")]
    GridSize { width: u32, height: u32, cells: u64, states: u32 },
    #[error("grid.goal is {goal}, expected a state below {states}")]
    Goal { goal: u32, states: u32 },
    #[error("grid.{list}[{position}] is {found}, expected a state below {states}")]
    Cell { list: &'static str, position: usize, found: u32, states: u32 },
    #[error("grid.{list}[{position}] is {found} after {previous}, expected ascending states")]
    CellOrder { list: &'static str, position: usize, found: u32, previous: u32 },
}

/// Everything but [`check_distinct`]; the rows need not be sorted.
pub(super) fn check(mdp: &Mdp) -> Result<(), Invalid> {
    let Mdp { states, actions, gamma, .. } = *mdp;
    if states == 0 {
        return Err(Invalid::NoStates);
    }
    if actions == 0 {
        return Err(Invalid::NoActions);
    }
    let rows = (states as usize).checked_mul(actions as usize).filter(|&rows| rows < usize::MAX);
    let rows = rows.ok_or(Invalid::TooLarge { states, actions })?;
    if !(0.0..1.0).contains(&gamma) {
        return Err(Invalid::Gamma { gamma });
    }
    let checker = Checker { states, actions: actions as usize, rows };
    checker.structure(Matrix::P, &mdp.transitions)?;
    checker.structure(Matrix::R, &mdp.rewards)?;
    checker.values(Matrix::P, &mdp.transitions, "a probability in [0, 1]", |p| (0.0..=1.0).contains(&p))?;
    checker.values(Matrix::R, &mdp.rewards, "a finite number", f64::is_finite)?;
    checker.row_sums(&mdp.transitions)?;
    mdp.grid.as_ref().map_or(Ok(()), |grid| check_grid(grid, states))
}

/// No column appears twice in a row. The rows are sorted.
pub(super) fn check_distinct(mdp: &Mdp) -> Result<(), Invalid> {
    let checker = Checker { states: mdp.states, actions: mdp.actions as usize, rows: mdp.rows() };
    for (matrix, csr) in [(Matrix::P, &mdp.transitions), (Matrix::R, &mdp.rewards)] {
        checker.first(|row| {
            let (columns, _) = csr.row(row);
            let column = columns.windows(2).find(|pair| pair[0] == pair[1])?[0];
            Some(Invalid::Duplicate { matrix, row: checker.row(row), column })
        })?;
    }
    Ok(())
}

struct Checker {
    states: u32,
    actions: usize,
    rows: usize,
}

impl Checker {
    fn row(&self, row: usize) -> Row {
        Row { row, state: row / self.actions, action: row % self.actions }
    }

    /// The violation of the lowest-numbered row.
    fn first(&self, violation: impl Fn(usize) -> Option<Invalid> + Sync) -> Result<(), Invalid> {
        let found = (0..self.rows).into_par_iter().with_min_len(CHUNK).find_map_first(&violation);
        found.map_or(Ok(()), Err)
    }

    /// The arrays fit together, and all columns are states.
    fn structure(&self, matrix: Matrix, csr: &Csr) -> Result<(), Invalid> {
        let ends = &csr.row_ptr[..];
        if ends.len() != self.rows + 1 {
            return Err(Invalid::RowPtrLength { matrix, found: ends.len(), expected: self.rows + 1 });
        }
        if ends[0] != 0 {
            return Err(Invalid::RowPtrStart { matrix, found: ends[0] });
        }
        self.first(|row| {
            let (start, end) = (ends[row], ends[row + 1]);
            (start > end).then(|| Invalid::RowPtrFalls { matrix, row: self.row(row), start, end })
        })?;
        let (indices, data) = (csr.col.len(), csr.val.len());
        if indices != data {
            return Err(Invalid::Lengths { matrix, indices, data });
        }
        if ends[self.rows] != indices as u64 {
            return Err(Invalid::RowPtrEnd { matrix, found: ends[self.rows], entries: indices });
        }
        let states = self.states;
        self.first(|row| {
            let (columns, _) = csr.row(row);
            let offset = columns.iter().position(|&column| column >= states)?;
            let (position, found) = (ends[row] as usize + offset, columns[offset]);
            Some(Invalid::Column { matrix, row: self.row(row), position, found, states })
        })
    }

    fn values(
        &self,
        matrix: Matrix,
        csr: &Csr,
        expected: &'static str,
        valid: impl Fn(f64) -> bool + Sync,
    ) -> Result<(), Invalid> {
        self.first(|row| {
            let (_, values) = csr.row(row);
            let offset = values.iter().position(|&value| !valid(value))?;
            let (position, found) = (csr.row_ptr[row] as usize + offset, values[offset]);
            Some(Invalid::Value { matrix, row: self.row(row), position, found, expected })
        })
    }

    fn row_sums(&self, transitions: &Csr) -> Result<(), Invalid> {
        self.first(|row| {
            let (_, probabilities) = transitions.row(row);
            let sum: f64 = probabilities.iter().sum();
            match probabilities {
                [] => Some(Invalid::EmptyRow { row: self.row(row) }),
                _ if (sum - 1.0).abs() > ROW_SUM_TOLERANCE => Some(Invalid::RowSum { row: self.row(row), sum }),
                _ => None,
            }
        })
    }
}

fn check_grid(grid: &Grid, states: u32) -> Result<(), Invalid> {
    let Grid { width, height, goal, .. } = *grid;
    let cells = u64::from(width) * u64::from(height);
    if cells != u64::from(states) {
        return Err(Invalid::GridSize { width, height, cells, states });
    }
    if goal >= states {
        return Err(Invalid::Goal { goal, states });
    }
    for (list, cells) in [("walls", &grid.walls), ("obstacles", &grid.obstacles)] {
        if let Some(position) = cells.iter().position(|&cell| cell >= states) {
            return Err(Invalid::Cell { list, position, found: cells[position], states });
        }
        if let Some(before) = cells.windows(2).position(|pair| pair[0] >= pair[1]) {
            let (previous, found) = (cells[before], cells[before + 1]);
            return Err(Invalid::CellOrder { list, position: before + 1, found, previous });
        }
    }
    Ok(())
}
