//! Sequences in the layout of the [kernels](warpkov_kernels::hmm): sorted by descending length, then time-major.

use std::ops::Range;
use std::sync::Arc;

use warpkov_kernels::hmm::counts::CHUNK;

use crate::sequences::{Observations, Sequences};

/// Time-major packing of sequences sorted by descending length. Row `base[t] + m` is step t of sequence m.
///
/// Invariants, which make kernel accesses sound: `lengths` descends; sequence m has step t exactly if
/// m < `base[t + 1]` − `base[t]`; all rows are below [`rows`](Self::rows), which fits in 32 bits.
pub struct Packing {
    /// Original index of each sequence.
    pub order: Vec<u32>,
    /// Lengths, descending.
    pub lengths: Vec<u32>,
    /// First row of each step, and the number of rows: longest length + 1 entries.
    pub base: Vec<u32>,
    /// Index of the observation in each row.
    pub observation: Arc<[u32]>,
    /// The packed sequences that begin an original sequence: all of them, or the first chunks.
    pub begins: Vec<u32>,
    /// The packed sequences that end an original sequence: all of them, or the last chunks.
    pub ends: Vec<u32>,
}

/// A range of steps processed together.
#[derive(Clone, Debug)]
pub struct Window {
    /// The steps.
    pub steps: Range<u32>,
    /// Their rows.
    pub rows: Range<u32>,
}

impl Packing {
    /// Packs whole sequences.
    ///
    /// # Panics
    /// If there are 2³² observations or more.
    pub fn new(sequences: &Sequences) -> Self {
        Self::from_offsets(sequences.offsets(), |_| false)
    }

    /// Packs sequences with the given offsets. Among equally long ones, those with `early` come first.
    ///
    /// # Panics
    /// If there are 2³² observations or more.
    pub fn from_offsets(offsets: &[u64], early: impl Fn(u32) -> bool) -> Self {
        let steps = offsets.last().copied().unwrap_or(0);
        assert!(u32::try_from(steps).is_ok(), "rows are counted in 32 bits");
        let length = |m: u32| (offsets[m as usize + 1] - offsets[m as usize]) as u32;
        let mut order: Vec<u32> = (0..offsets.len().saturating_sub(1) as u32).collect();
        order.sort_by_key(|&m| std::cmp::Reverse((length(m), early(m))));
        let lengths: Vec<u32> = order.iter().map(|&m| length(m)).collect();
        let (mut base, mut observation) = (vec![0], Vec::with_capacity(steps as usize));
        let mut alive = lengths.len();
        for t in 0..lengths.first().copied().unwrap_or(0) {
            alive = lengths[..alive].partition_point(|&length| length > t);
            observation.extend(order[..alive].iter().map(|&m| offsets[m as usize] as u32 + t));
            base.push(observation.len() as u32);
        }
        let all: Vec<u32> = (0..lengths.len() as u32).collect();
        Self { order, lengths, base, observation: observation.into(), begins: all.clone(), ends: all }
    }

    /// M, the number of packed sequences.
    pub fn sequences(&self) -> u32 {
        self.lengths.len() as u32
    }

    /// ΣT, the number of rows.
    pub fn rows(&self) -> u32 {
        self.observation.len() as u32
    }

    /// All steps, those of the longest sequence.
    pub fn steps(&self) -> Range<u32> {
        0..self.base.len() as u32 - 1
    }

    /// The row of the emission table for each row: its symbol, or for vectors the row itself.
    pub fn symbols(&self, sequences: &Sequences) -> Vec<u32> {
        match sequences.observations() {
            Observations::Symbols(symbols) => self.observation.iter().map(|&at| symbols[at as usize]).collect(),
            Observations::Vectors { .. } => (0..self.rows()).collect(),
        }
    }

    /// Splits the steps into windows of at most `rows` rows each, or of one step.
    pub fn windows(&self, rows: u32) -> Vec<Window> {
        let (mut from, last) = (0, self.base.len() - 1);
        let mut windows = Vec::new();
        while from < last {
            let fit = self.base.partition_point(|&end| end - self.base[from].min(end) <= rows) - 1;
            let until = fit.clamp(from + 1, last);
            windows.push(Window { steps: from as u32..until as u32, rows: self.base[from]..self.base[until] });
            from = until;
        }
        windows
    }
}

/// Lists of the rows of a window, for the sums of γ: one list per symbol, one of the first and one of the last rows of
/// sequences. Lists are cut into chunks of at most [`CHUNK`] rows.
pub struct Lists {
    /// Rows of all lists, relative to the first row of the window.
    pub order: Vec<u32>,
    /// Pointers into `order`, one per chunk and the end.
    pub chunk: Vec<u32>,
    /// Pointers into `chunk`, one per list and the end.
    pub list: Vec<u32>,
}

impl Lists {
    /// Lists for `symbols` symbols (none for 0), and the lists of first and last rows.
    pub fn new(packing: &Packing, window: &Window, symbol: &[u32], symbols: u32) -> Self {
        let origin = window.rows.start;
        let mut lists = vec![Vec::new(); symbols as usize + 2];
        if symbols > 0 {
            for row in window.rows.clone() {
                lists[symbol[row as usize] as usize].push(row - origin);
            }
        }
        if window.steps.start == 0 {
            lists[symbols as usize].clone_from(&packing.begins);
        }
        let ends = packing.ends.iter().map(|&m| (m, packing.lengths[m as usize] - 1));
        let ends = ends.filter(|(_, last)| window.steps.contains(last));
        lists[symbols as usize + 1] = ends.map(|(m, last)| packing.base[last as usize] + m - origin).collect();
        let (mut order, mut chunk, mut list) = (Vec::new(), vec![0], vec![0]);
        for rows in lists {
            for rows in rows.chunks(CHUNK as usize) {
                order.extend(rows);
                chunk.push(order.len() as u32);
            }
            list.push(chunk.len() as u32 - 1);
        }
        Self { order, chunk, list }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_lie_by_time() {
        let sequences = Sequences::of_symbols(&[vec![5], vec![0, 1, 2], vec![3, 4]]).unwrap();
        let packing = Packing::new(&sequences);
        assert_eq!(packing.order, [1, 2, 0]);
        assert_eq!(packing.lengths, [3, 2, 1]);
        assert_eq!(packing.base, [0, 3, 5, 6]);
        assert_eq!(packing.symbols(&sequences), [0, 3, 5, 1, 4, 2]);
        let steps = |rows| packing.windows(rows).into_iter().map(|window| window.steps).collect::<Vec<_>>();
        assert_eq!(steps(1), [0..1, 1..2, 2..3]);
        assert_eq!(steps(3), [0..1, 1..3]);
        assert_eq!(steps(6), vec![0..3; 1]);
        assert_eq!(packing.windows(3)[1].rows, 3..6);
    }

    #[test]
    fn lists_name_rows_by_symbol_and_at_both_ends() {
        let sequences = Sequences::of_symbols(&[vec![1], vec![0, 1, 1], vec![1, 0]]).unwrap();
        let packing = Packing::new(&sequences);
        let symbol = packing.symbols(&sequences);
        let whole = Lists::new(&packing, &packing.windows(6)[0], &symbol, 2);
        assert_eq!(whole.list, [0, 1, 2, 3, 4]);
        assert_eq!(whole.chunk, [0, 2, 6, 9, 12]);
        assert_eq!(whole.order, [0, 4, 1, 2, 3, 5, 0, 1, 2, 5, 4, 2]);
        let late = Lists::new(&packing, &packing.windows(3)[1], &symbol, 2);
        assert_eq!(late.order, [1, 0, 2, 2, 1]);
        assert_eq!(late.list, [0, 1, 2, 2, 3]);
    }
}
