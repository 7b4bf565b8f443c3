//! What the forward variables α of a sequence tell about its paths, from the last step to the first.

use std::ops::ControlFlow;

use warpkov_common::random::{draw, random};

use super::{Exact, Row};
use crate::backend::NO_STATE;
use crate::sequences::Sequences;

impl Exact<'_> {
    /// Draws `count` paths of a sequence from P(q | O), by the forward recursion and backward sampling:
    ///
    /// > P(q_T = i | O) ∝ α_T(i) endᵢ, P(qₜ = i | qₜ₊₁ … q_T, O) ∝ αₜ(i) A(i, qₜ₊₁)
    ///
    /// Path i of sequence j depends on the seed, i and j alone. There is none of an impossible sequence.
    #[must_use]
    pub fn sample_paths(&self, sequences: &Sequences, sequence: usize, count: u32, seed: u64) -> Vec<Vec<u32>> {
        let (steps, transitions) = (sequences.range(sequence).len(), self.model.transitions());
        // Far from the streams of sampled sequences, which count from 0.
        let stream = |path: u32| u64::MAX - ((sequence as u64) << 32 | u64::from(path));
        let mut paths: Vec<_> = (0..count).map(|path| (random(seed, stream(path)), vec![NO_STATE; steps])).collect();
        let mut weights = Row::new(self.n);
        let ending: Vec<f64> = (0..self.n).map(|i| self.model.end().map_or(1.0, |end| end[i])).collect();
        self.descend(sequences, sequence, |t, alpha, _| {
            for (random, path) in &mut paths {
                let next = path.get(t + 1).map(|&next| next as usize);
                let onward = |i: usize| next.map_or(ending[i], |next| transitions[i * self.n + next]);
                weights.set_products(alpha, onward);
                let Some(state) = draw(random, weights.shares()) else { return ControlFlow::Break(()) };
                path[t] = state;
            }
            ControlFlow::Continue(())
        });
        paths.retain(|(_, path)| path[0] != NO_STATE);
        paths.into_iter().map(|(_, path)| path).collect()
    }

    /// Σₜ γₜ(i), the expected number of steps in each state, and the expected number of entries into it, which counts a first step
    /// and is of classes of states: an entry comes from another class. `class` is the class of each state below `classes`; P(O) is 0 if
    /// all are 0.
    #[must_use]
    pub fn occupancy(&self, sequences: &Sequences, sequence: usize, class: &[u32], classes: usize) -> [Vec<f64>; 2] {
        let n = self.n;
        let (mut start, mut pairs) = (vec![0.0; n], vec![0.0; n * n]);
        let show = |t: usize, gamma: &[f64]| {
            if t == 0 {
                start.copy_from_slice(gamma);
            }
        };
        self.forward_backward(sequences, sequence, 1.0, Some(&mut pairs), show);
        let [mut time, mut visits] = [vec![0.0; classes], vec![0.0; classes]];
        for (j, &into) in class.iter().enumerate() {
            let into = into as usize;
            time[into] += start[j];
            visits[into] += start[j];
            for (i, row) in pairs.chunks_exact(n).enumerate() {
                time[into] += row[j];
                if class[i] as usize != into {
                    visits[into] += row[j];
                }
            }
        }
        [time, visits]
    }
}
