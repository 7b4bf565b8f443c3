//! Symbols whose states are known.
//!
//! A symbol v with its state s is a symbol of its own, which s emits with probability Bₛᵥ, and no other state emits. The kernels
//! then need not know that states are known: models have one column of B more for each such pair.

use std::collections::HashMap;

use crate::backend::{Expected, Statistics};
use crate::backends::device::packing::Packing;
use crate::model::{Emissions, Hmm};
use crate::sequences::{Observations, Sequences};

/// The rows of a packing with known states, and the distinct pairs of a symbol and its state.
pub struct KnownStates {
    /// Rows, and the indices of their pairs.
    rows: Vec<(u32, u32)>,
    pairs: Vec<(u32, u32)>,
}

impl KnownStates {
    /// The pairs of sequences of symbols; none of vectors.
    pub fn new(packing: &Packing, sequences: &Sequences) -> Self {
        let (mut rows, mut pairs, mut indices) = (Vec::new(), Vec::new(), HashMap::new());
        if let (Observations::Symbols(symbols), [_, ..]) = (sequences.observations(), sequences.states()) {
            for (row, at) in (0..).zip(packing.observation.iter().map(|&at| at as usize)) {
                let Some(state) = sequences.state(at) else { continue };
                let pair = (symbols[at], state);
                let index = *indices.entry(pair).or_insert_with(|| {
                    pairs.push(pair);
                    pairs.len() as u32 - 1
                });
                rows.push((row, index));
            }
        }
        Self { rows, pairs }
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// `symbol` with those of the pairs, from V = `symbols` on, in rows with known states; `None` if it has them.
    pub fn marked(&self, symbol: &[u32], symbols: u32) -> Option<Vec<u32>> {
        let rows = self.rows.iter().map(|&(row, pair)| (row as usize, symbols + pair));
        rows.clone().any(|(row, pair)| symbol[row] != pair).then(|| {
            let mut marked = symbol.to_vec();
            rows.for_each(|(row, pair)| marked[row] = pair);
            marked
        })
    }

    /// The model with a column of B for each pair.
    pub fn extended(&self, model: &Hmm) -> Hmm {
        let of_pair = |row: &[f64], state: usize, (symbol, known): (u32, u32)| match known as usize == state {
            true => row[symbol as usize],
            false => 0.0,
        };
        self.with_rows(model, self.pairs.len() as u32, |symbols, probs| {
            let rows = probs.chunks_exact(symbols).enumerate();
            rows.flat_map(|(state, row)| {
                row.iter().copied().chain(self.pairs.iter().map(move |&pair| of_pair(row, state, pair)))
            })
            .collect()
        })
    }

    /// The model without the columns of pairs.
    pub fn reduced(&self, model: &Hmm) -> Hmm {
        let symbols = |all: usize| all - self.pairs.len();
        self.with_rows(model, (self.pairs.len() as u32).wrapping_neg(), |all, probs| {
            probs.chunks_exact(all).flat_map(|row| &row[..symbols(all)]).copied().collect()
        })
    }

    /// The model with `more` columns of B, computed from V and B. Rows of B may then sum to more than 1.
    fn with_rows(&self, model: &Hmm, more: u32, of: impl FnOnce(usize, &[f64]) -> Vec<f64>) -> Hmm {
        let mut changed = model.clone();
        changed.update(|parts| {
            if let (Emissions::Categorical { symbols, probs }, false) = (&mut parts.emissions, self.is_empty()) {
                *probs = of(*symbols as usize, probs);
                *symbols = symbols.wrapping_add(more);
            }
        });
        changed
    }

    /// Adds the counts of pairs to those of their symbols.
    pub fn fold(&self, expected: &mut Expected) {
        let n = expected.start.len();
        if let (Statistics::Categorical(counts), false) = (&mut expected.emissions, self.is_empty()) {
            let all = counts.len() / n;
            let row = |row: &[f64]| {
                let (symbols, pairs) = row.split_at(all - self.pairs.len());
                let mut symbols = symbols.to_vec();
                self.pairs.iter().zip(pairs).for_each(|((symbol, _), count)| symbols[*symbol as usize] += count);
                symbols
            };
            *counts = counts.chunks_exact(all).flat_map(row).collect();
        }
    }
}
