//! The model: a finite Markov decision process over compressed sparse rows.
//!
//! States s ∈ {0 … S−1}, actions a ∈ {0 … A−1}, discount γ ∈ [0, 1). Transition probabilities P(s'|s, a) are a CSR matrix
//! over rows s·A + a. Rewards R(s, a, s') are a CSR matrix of their own over the same rows, and may hold entries where P
//! has none: the expected reward is r(s, a) = Σ P·R over the entries that both hold.

use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use rayon::prelude::*;

use super::validate::{self, Invalid};

/// Rows that one task of a parallel loop handles: enough to pay for the task, few enough to balance.
pub(super) const CHUNK: usize = 4096;

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

    /// The elements; copied only where they are a file's.
    pub fn into_vec(self) -> Vec<T> {
        match self.0 {
            Storage::Owned(elements) => elements,
            Storage::Mapped { .. } => self.to_vec(),
        }
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

    /// The same matrix with ascending columns in every row. The arrays are kept where they are so already.
    fn sorted(self) -> Self {
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

/// Splits what holds one element per entry of a matrix into the parts of [`CHUNK`] rows each (fewer in the last), with
/// the number of the first row.
pub(super) fn split<'e, T>(row_ptr: &[u64], mut elements: &'e mut [T]) -> Vec<(usize, &'e mut [T])> {
    let rows = row_ptr.len() - 1;
    (0..rows)
        .step_by(CHUNK)
        .map(|first| {
            let length = row_ptr[rows.min(first + CHUNK)] - row_ptr[first];
            (first, elements.split_off_mut(..length as usize).unwrap_or_default())
        })
        .collect()
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

impl Mdp {
    /// A model of these parts. Rows whose columns do not ascend are sorted.
    ///
    /// `transitions` and `rewards` have S·A rows and S columns. Every row of `transitions` is a distribution: entries in
    /// [0, 1] that sum to 1 within [`ROW_SUM_TOLERANCE`](validate::ROW_SUM_TOLERANCE).
    ///
    /// # Errors
    /// The first violation found; see [`Invalid`].
    pub fn new(
        states: u32,
        actions: u32,
        gamma: f64,
        transitions: Csr,
        rewards: Csr,
        grid: Option<Grid>,
    ) -> Result<Self, Invalid> {
        let mdp = Self { states, actions, gamma, transitions, rewards, grid };
        validate::check(&mdp)?;
        let mdp = Self { transitions: mdp.transitions.sorted(), rewards: mdp.rewards.sorted(), ..mdp };
        validate::check_distinct(&mdp)?;
        Ok(mdp)
    }

    /// S·A, the number of state-action pairs.
    pub fn rows(&self) -> usize {
        self.states as usize * self.actions as usize
    }

    /// r(s, a) = Σ P(s'|s, a)·R(s, a, s') over the s' that both matrices hold: one entry per row s·A + a.
    pub fn expected_rewards(&self) -> Vec<f64> {
        let expected = |row: usize| {
            let (_, probs) = self.transitions.row(row);
            // From +0, where an empty f64 sum would be −0.
            self.rewards_of(row).zip(probs).fold(0.0, |sum, (reward, prob)| sum + prob * reward)
        };
        (0..self.rows()).into_par_iter().with_min_len(CHUNK).map(expected).collect()
    }

    /// R(s, a, s') for each entry of P, in P's order; 0 where R has none.
    pub fn transition_rewards(&self) -> Vec<f64> {
        let mut rewards = vec![0.0; self.transitions.nnz()];
        split(&self.transitions.row_ptr, &mut rewards).into_par_iter().for_each(|(first, rewards)| {
            let rows = first..self.rows().min(first + CHUNK);
            for (target, reward) in rewards.iter_mut().zip(rows.flat_map(|row| self.rewards_of(row))) {
                *target = reward;
            }
        });
        rewards
    }

    /// R for each entry of row `row` of P: a merge of the two sorted rows.
    pub(super) fn rewards_of(&self, row: usize) -> impl Iterator<Item = f64> {
        let (successors, _) = self.transitions.row(row);
        let (cols, vals) = self.rewards.row(row);
        let mut next = 0;
        successors.iter().map(move |successor| {
            next += cols[next..].iter().take_while(|col| *col < successor).count();
            if cols.get(next) == Some(successor) { vals[next] } else { 0.0 }
        })
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
        Csr { row_ptr: row_ptr.to_vec().into(), col: col.to_vec().into(), val: val.to_vec().into() }
    }

    #[test]
    fn rewards_meet_the_transitions_they_belong_to() {
        let p = csr(&[0, 2, 3], &[1, 0, 1], &[0.25, 0.75, 1.0]);
        let r = csr(&[0, 1, 2], &[1, 0], &[8.0, 5.0]);
        let mdp = Mdp::new(2, 1, 0.5, p, r, None).unwrap();
        assert_eq!(mdp.rows(), 2);
        assert_eq!(mdp.transitions.row(0), (&[0, 1][..], &[0.75, 0.25][..]), "sorted");
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
            assert_eq!(mdp.transitions.row(s), (&[0, 1][..], &[0.75, 0.25][..]));
            assert_eq!(rewards[2 * s..2 * s + 2], [0.0, s as f64]);
            assert_eq!(expected, 0.25 * s as f64);
        }
    }
}
