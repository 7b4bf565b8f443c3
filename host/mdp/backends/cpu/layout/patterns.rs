//! The pattern layout: each distinct state stored once.
//!
//! A pattern holds, per action, a reward and the relative position and probability of each successor. A grid has few
//! patterns. A block of states is a list of groups, each of one pattern. A *run* is a group of adjacent states; its
//! successors are adjacent too, so its sweep is a stencil without indices or gathers. The remaining states of a pattern
//! form a list. Both kinds are swept [`LANES`] states at a time.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use warpkov_common::parallel;

use super::{BLOCK, Change, States, expect};
use crate::analysis::patterns;
use crate::model::{Mdp, NO_ACTION};
use warpkov_runtime::Precise;

/// Numbers per vector register.
const REGISTER: usize = 4;

/// Registers in flight, to hide instruction latency.
const REGISTERS: usize = 4;

/// States per step of a sweep.
const LANES: usize = REGISTER * REGISTERS;

/// States of one pattern within a block.
struct Group {
    pattern: u32,
    states: Members,
}

#[derive(Clone)]
enum Members {
    /// Adjacent states, at least [`LANES`].
    Run(Range<u32>),
    /// A range of the block's list.
    Listed(Range<u32>),
}

/// The states of a block grouped by pattern, without terminal states.
#[derive(Default)]
struct Groups {
    groups: Vec<Group>,
    listed: Vec<u32>,
}

impl Groups {
    /// Groups the states from `first` on by their `patterns`; `terminal` tells which patterns have no rows.
    fn new(first: usize, patterns: &[u32], terminal: impl Fn(u32) -> bool) -> Self {
        let mut found = Self::default();
        let mut rest = Vec::new();
        let mut state = first as u32;
        for run in patterns.chunk_by(|a, b| a == b) {
            let states = state..state + run.len() as u32;
            state = states.end;
            if terminal(run[0]) {
                continue;
            }
            if run.len() >= LANES {
                found.groups.push(Group { pattern: run[0], states: Members::Run(states) });
            } else {
                rest.extend(states.map(|state| (run[0], state)));
            }
        }
        rest.sort_unstable();
        for group in rest.chunk_by(|a, b| a.0 == b.0) {
            let start = found.listed.len() as u32;
            found.listed.extend(group.iter().map(|&(_, state)| state));
            let states = Members::Listed(start..found.listed.len() as u32);
            found.groups.push(Group { pattern: group[0].0, states });
        }
        found
    }
}

/// A model in pattern layout.
pub(super) struct Patterns {
    gamma: f64,
    dictionary: Arc<patterns::Patterns>,
    pattern_of: Vec<u32>,
    blocks: Vec<Groups>,
}

impl Patterns {
    /// Converts a model to precision T; `None` if few states repeat or rows are long.
    pub fn find<T: Precise>(mdp: &Mdp, reward: &[f64]) -> Option<Self> {
        let mut dictionary = patterns::Patterns::find(mdp, reward)?;
        let pattern_of = std::mem::take(&mut dictionary.of_state);
        let round = |numbers: &mut Vec<f64>| numbers.iter_mut().for_each(|x| *x = T::from_f64(*x).to_f64());
        round(&mut dictionary.prob);
        round(&mut dictionary.reward);
        Some(Self::new(mdp.gamma(), Arc::new(dictionary), pattern_of))
    }

    fn new(gamma: f64, dictionary: Arc<patterns::Patterns>, pattern_of: Vec<u32>) -> Self {
        let terminal = |pattern: u32| dictionary.rows_of(pattern as usize).is_empty();
        let blocks = pattern_of.par_chunks(BLOCK).enumerate();
        let blocks = blocks.map(|(block, patterns)| Groups::new(block * BLOCK, patterns, terminal)).collect();
        Self { gamma, dictionary, pattern_of, blocks }
    }

    /// The largest Q-factors of [`LANES`] states of a pattern. `load(d)` returns V at distance d from each of them.
    #[inline(always)]
    fn best(&self, pattern: usize, load: impl Fn(isize) -> Lanes) -> Lanes {
        let patterns::Patterns { distance, prob, reward, .. } = &*self.dictionary;
        let mut best = [[f64::NEG_INFINITY; REGISTER]; REGISTERS];
        for row in self.dictionary.rows_of(pattern) {
            let entries = self.dictionary.entries_of(row);
            let mut sum = [[0.0; REGISTER]; REGISTERS];
            for (&distance, &prob) in distance[entries.clone()].iter().zip(&prob[entries]) {
                let values = load(distance);
                each(|i, lane| sum[i][lane] += prob * values[i][lane]);
            }
            let reward = reward[row];
            each(|i, lane| {
                let q = reward + self.gamma * sum[i][lane];
                best[i][lane] = if q > best[i][lane] { q } else { best[i][lane] };
            });
        }
        best
    }

    #[inline(always)]
    fn sweep<T: Precise>(&self, first: usize, v: &[T], target: &mut [T]) -> Change {
        let mut total = Changes::NONE;
        let Groups { groups, listed } = &self.blocks[first / BLOCK];
        for Group { pattern, states } in groups {
            let pattern = *pattern as usize;
            match states {
                Members::Run(states) => {
                    let end = states.end as usize;
                    let mut state = states.start as usize;
                    while state < end {
                        // The last step overlaps the previous one to fill all lanes.
                        let from = state.min(end - LANES);
                        let near = |distance| {
                            let from = from.wrapping_add_signed(distance);
                            let values = &v[from..from + LANES];
                            lanes(|i| values[i].to_f64())
                        };
                        let best = self.best(pattern, near);
                        let new = &mut target[from - first..from - first + LANES];
                        let mut rounded = best;
                        each(|i, lane| {
                            new[REGISTER * i + lane] = T::from_f64(best[i][lane]);
                            rounded[i][lane] = new[REGISTER * i + lane].to_f64();
                        });
                        total.take(&near(0), &rounded);
                        state += LANES;
                    }
                }
                Members::Listed(range) => {
                    for states in listed[range.start as usize..range.end as usize].chunks(LANES) {
                        // Lanes beyond the end repeat the last state.
                        let last = states.len() - 1;
                        let state = |lane: usize| states[lane.min(last)] as usize;
                        let near = |distance| lanes(|lane| v[state(lane).wrapping_add_signed(distance)].to_f64());
                        let best = self.best(pattern, near);
                        for lane in 0..states.len() {
                            target[state(lane) - first] = T::from_f64(best[lane / REGISTER][lane % REGISTER]);
                        }
                        total.take(&near(0), &lanes(|lane| target[state(lane) - first].to_f64()));
                    }
                }
            }
        }
        total.change()
    }

    /// [`sweep`](Self::sweep) compiled for AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn sweep_avx2<T: Precise>(&self, first: usize, v: &[T], target: &mut [T]) -> Change {
        self.sweep(first, v, target)
    }
}

/// One number per lane, in a shape that the compiler vectorises.
type Lanes = [[f64; REGISTER]; REGISTERS];

/// Computes a number for each lane.
#[inline(always)]
fn lanes(number: impl Fn(usize) -> f64) -> Lanes {
    std::array::from_fn(|i| std::array::from_fn(|lane| number(REGISTER * i + lane)))
}

/// Calls `f` with the register and lane of each number.
#[inline(always)]
fn each(mut f: impl FnMut(usize, usize)) {
    for i in 0..REGISTERS {
        for lane in 0..REGISTER {
            f(i, lane);
        }
    }
}

/// One [`Change`] per lane of a register.
struct Changes {
    least: [f64; REGISTER],
    greatest: [f64; REGISTER],
    bits: [u64; REGISTER],
    /// Σ ΔV; not finite if any change is not.
    sum: [f64; REGISTER],
}

impl Changes {
    const NONE: Self = Self {
        least: [f64::INFINITY; REGISTER],
        greatest: [f64::NEG_INFINITY; REGISTER],
        bits: [0; REGISTER],
        sum: [0.0; REGISTER],
    };

    /// Includes states with their old and new values.
    #[inline(always)]
    fn take(&mut self, old: &Lanes, new: &Lanes) {
        each(|i, lane| {
            let delta = new[i][lane] - old[i][lane];
            self.least[lane] = if delta < self.least[lane] { delta } else { self.least[lane] };
            self.greatest[lane] = if delta > self.greatest[lane] { delta } else { self.greatest[lane] };
            self.bits[lane] |= old[i][lane].to_bits() ^ new[i][lane].to_bits();
            self.sum[lane] += delta;
        });
    }

    fn change(&self) -> Change {
        let greatest = self.greatest.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let finite = self.sum.iter().all(|sum| sum.is_finite());
        Change {
            least: self.least.into_iter().fold(f64::INFINITY, f64::min),
            // NaN must count as infinite.
            greatest: if finite { greatest } else { f64::INFINITY },
            any: self.bits.iter().any(|&bits| bits != 0),
        }
    }
}

impl<T: Precise> States<T> for Patterns {
    fn count(&self, state: usize) -> usize {
        self.dictionary.rows_of(self.pattern_of[state] as usize).len()
    }

    #[inline(always)]
    fn q_factors<'a>(
        &'a self,
        state: usize,
        value: impl Fn(usize) -> f64 + Copy + 'a,
    ) -> impl Iterator<Item = f64> + 'a {
        let patterns::Patterns { distance, prob, reward, .. } = &*self.dictionary;
        self.dictionary.rows_of(self.pattern_of[state] as usize).map(move |row| {
            let entries = self.dictionary.entries_of(row);
            let (distance, prob) = (&distance[entries.clone()], &prob[entries]);
            let term = |i: usize| prob[i] * value(state.wrapping_add_signed(distance[i]));
            reward[row] + self.gamma * expect(distance.len(), term)
        })
    }

    fn entries(&self, state: usize, mut show: impl FnMut(usize, f64)) {
        let patterns::Patterns { distance, prob, .. } = &*self.dictionary;
        let rows = self.dictionary.rows_of(self.pattern_of[state] as usize);
        for entry in rows.flat_map(|row| self.dictionary.entries_of(row)) {
            show(state.wrapping_add_signed(distance[entry]), self.gamma * prob[entry]);
        }
    }

    fn successors(&self, states: Range<usize>, mut show: impl FnMut(usize, usize) -> bool) {
        let Groups { groups, listed } = &self.blocks[states.start / BLOCK];
        for Group { pattern, states } in groups {
            let rows = self.dictionary.rows_of(*pattern as usize);
            let entries = self.dictionary.ends[rows.start] as usize..self.dictionary.ends[rows.end] as usize;
            for &distance in &self.dictionary.distance[entries] {
                let of = |state: u32| (state as usize).wrapping_add_signed(distance);
                let more = match states {
                    Members::Run(states) => show(of(states.start), of(states.end - 1)),
                    Members::Listed(range) => {
                        listed[range.start as usize..range.end as usize].iter().all(|&state| show(of(state), of(state)))
                    }
                };
                if !more {
                    return;
                }
            }
        }
    }

    type Projected = Self;

    /// Each row becomes a pattern; one further pattern has no rows.
    fn project(&self, policy: &[u32], rewards: bool) -> Self {
        let patterns::Patterns { ends, distance, prob, reward, .. } = &*self.dictionary;
        let rows = reward.len() as u32;
        let dictionary = patterns::Patterns {
            rows: (0..=rows).chain([rows]).collect(),
            ends: ends.clone(),
            distance: distance.clone(),
            prob: prob.clone(),
            reward: if rewards { reward.clone() } else { vec![0.0; reward.len()] },
            of_state: Vec::new(),
        };
        let row = |state: usize| match policy[state] {
            NO_ACTION => rows,
            action => self.dictionary.rows[self.pattern_of[state] as usize] + action,
        };
        let pattern_of = parallel::array(self.pattern_of.len(), row);
        Self::new(self.gamma, Arc::new(dictionary), pattern_of)
    }

    /// Excludes the dictionary, which is small and stays in cache.
    fn bytes(&self) -> u64 {
        let of_block = |block: &Groups| size_of_val(&block.groups[..]) + size_of_val(&block.listed[..]);
        self.blocks.iter().map(of_block).sum::<usize>() as u64
    }

    fn backup(&self, first: usize, v: &[T], target: &mut [T]) -> Change {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: `is_x86_feature_detected` found AVX2, the only feature that `sweep_avx2` requires.
            return unsafe { self.sweep_avx2(first, v, target) };
        }
        self.sweep(first, v, target)
    }
}
