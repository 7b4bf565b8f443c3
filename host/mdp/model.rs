//! The model: a finite Markov decision process over compressed sparse rows.
//!
//! States s ∈ {0 … S−1}, actions a ∈ {0 … A−1}, discount γ ∈ [0, 1). Transition probabilities P(s'|s, a) are a CSR matrix
//! over rows s·A + a. Rewards R(s, a, s') are a CSR matrix of their own over the same rows, and may hold entries where P
//! has none: the expected reward is r(s, a) = Σ P·R over the entries that both hold.

use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;

/// An array that is either owned or a view of a memory-mapped file.
#[derive(Clone)]
pub struct Array<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Vec<T>),
    Mapped { map: Arc<Mmap>, start: usize, end: usize },
}

impl<T: Pod> Array<T> {
    /// Bytes `start..end` of a mapped file as elements of `T`; `None` where the range is out of the file, misaligned, or
    /// not a whole number of elements.
    pub fn mapped(map: Arc<Mmap>, start: usize, end: usize) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(map.get(start..end)?).ok()?;
        Some(Self(Storage::Mapped { map, start, end }))
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Storage::Owned(elements))
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

/// A sparse matrix in compressed sparse row form.
#[derive(Clone)]
pub struct Csr {
    /// Row r holds entries `row_ptr[r]..row_ptr[r + 1]`.
    pub row_ptr: Array<u64>,
    /// Column of each entry; ascending within a row.
    pub col: Array<u32>,
    /// Value of each entry.
    pub val: Array<f64>,
}

impl Csr {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.row_ptr.len() - 1
    }

    /// Number of stored entries.
    pub fn nnz(&self) -> usize {
        self.col.len()
    }

    /// Columns and values of row `r`.
    pub fn row(&self, r: usize) -> (&[u32], &[f64]) {
        let range = self.row_ptr[r] as usize..self.row_ptr[r + 1] as usize;
        (&self.col[range.clone()], &self.val[range])
    }
}

/// A finite Markov decision process. Its fields satisfy what the readers validate.
#[derive(Clone)]
pub struct Mdp {
    /// S, the number of states.
    pub states: u32,
    /// A, the number of actions of every state.
    pub actions: u32,
    /// γ, the discount factor, in [0, 1).
    pub gamma: f64,
    /// P(s'|s, a): S·A rows, S columns.
    pub transitions: Csr,
    /// R(s, a, s'): S·A rows, S columns.
    pub rewards: Csr,
    /// Where the states stand, if they are the cells of a grid.
    pub grid: Option<Grid>,
}

/// The geometry of a grid world: state s is the cell in column s mod `width` and row s / `width`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

impl Mdp {
    pub fn rows(&self) -> usize {
        self.states as usize * self.actions as usize
    }
    pub fn expected_rewards(&self) -> Vec<f64> {
        let r = self.transition_rewards();
        (0..self.rows())
            .map(|row| {
                let range = self.transitions.row_ptr[row] as usize..self.transitions.row_ptr[row + 1] as usize;
                range.map(|i| self.transitions.val[i] * r[i]).sum()
            })
            .collect()
    }
    pub fn transition_rewards(&self) -> Vec<f64> {
        let mut out = Vec::new();
        for row in 0..self.rows() {
            let (col, _) = self.transitions.row(row);
            let (rcol, r) = self.rewards.row(row);
            out.extend(col.iter().map(|c| rcol.binary_search(c).map_or(0.0, |i| r[i])));
        }
        out
    }
    pub fn new(
        states: u32,
        actions: u32,
        gamma: f64,
        transitions: Csr,
        rewards: Csr,
        grid: Option<Grid>,
    ) -> Result<Self, String> {
        Ok(Self { states, actions, gamma, transitions, rewards, grid })
    }
}
