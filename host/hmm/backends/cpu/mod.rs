//! The CPU backend: all recursions on all cores, for groups of up to 16 sequences whose states are rows of a small
//! matrix. Sequences of models of at most 8 states pass one after the other, each with its row in registers.
//!
//! The results of a sequence have the same bits in any group. Sums over sequences are added in an order that does not
//! depend on the number of cores.

use std::convert::Infallible;
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::backend::{Decoded, Expected, NO_STATE, Recursions, fit};
use crate::backends::cpu::chain::Chain;
use crate::backends::cpu::statistics::Sums;
use crate::backends::cpu::sweeps::{ForwardBackward, Show};
use crate::maximise::{Spread, maximise};
use crate::model::Hmm;
use crate::options::Options;
use crate::sequences::Sequences;
use warpkov_runtime::Precise;

mod chain;
mod channels;
mod densities;
mod emissions;
mod exp;
mod limits;
pub(crate) mod list;
mod paths;
mod product;
mod reach;
mod statistics;
mod sweeps;
mod wide;

pub(crate) use channels::ChannelDensities;
pub(crate) use densities::{Completion, Densities, is_partial};
pub(crate) use emissions::restrict;
pub use wide::Exact;

/// Maximum number of sequences in a group.
const GROUP: usize = 16;

/// Memory for the forward variables of a group, in bytes. Where all steps need more, checkpoints of 2 · 16 · √T rows
/// replace them, and the forward recursion runs twice.
pub const TRELLIS: usize = 32 << 20;

/// Maximum number of partial sums over sequences, which are independent tasks.
const PARTS: usize = 64;

/// Memory for all partial sums, in bytes. A single partial sum may exceed it.
const SUMS: usize = 1 << 30;

/// Multiplications below which waking other threads costs more than the work.
const FEW: usize = 1 << 23;

/// The CPU backend in precision `T`: M sequences in groups, and the models.
///
/// Sequences for which underflow in `T` may change a result are recomputed with the [exact recursions](Exact).
pub struct Batch<'s, T> {
    sequences: &'s Sequences,
    groups: Vec<Group>,
    trellis: usize,
    models: Vec<Chain<T>>,
    /// Expected counts of the last E step, one per model; empty after the M step.
    expected: Vec<Expected>,
    /// Spread of the observations, computed at the first M step.
    spread: OnceLock<Spread>,
}

/// Sequences that are processed together, in order of descending length. A *slot* is an index into the group.
struct Group {
    /// Index of each sequence.
    members: Vec<usize>,
    /// Index of each sequence's first observation.
    places: Vec<usize>,
    lengths: Vec<usize>,
}

impl Group {
    fn new(sequences: &Sequences, members: &[usize]) -> Self {
        let range = |&member: &usize| sequences.range(member);
        Self {
            members: members.to_vec(),
            places: members.iter().map(|member| range(member).start).collect(),
            lengths: members.iter().map(|member| range(member).len()).collect(),
        }
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    /// Length of the longest sequence.
    fn steps(&self) -> usize {
        self.lengths[0]
    }

    /// Number of sequences of more than t steps; they occupy the first slots.
    fn active(&self, t: usize) -> usize {
        self.lengths.iter().take_while(|&&length| length > t).count()
    }

    /// Number of observations before step t, over all sequences of the group.
    fn before(&self, t: usize) -> usize {
        self.lengths.iter().map(|&length| length.min(t)).sum()
    }
}

impl<'s, T: Precise> Batch<'s, T> {
    /// A backend for `sequences`.
    #[must_use]
    pub fn new(sequences: &'s Sequences) -> Self {
        Self::with_trellis(sequences, TRELLIS)
    }

    /// A backend with `bytes` for the forward variables of a group instead of [`TRELLIS`].
    #[must_use]
    pub fn with_trellis(sequences: &'s Sequences, bytes: usize) -> Self {
        let mut members: Vec<usize> = (0..sequences.len()).collect();
        members.sort_by_key(|&member| std::cmp::Reverse(sequences.range(member).len()));
        let groups = members.chunks(GROUP).map(|members| Group::new(sequences, members)).collect();
        Self { sequences, groups, trellis: bytes, models: Vec::new(), expected: Vec::new(), spread: OnceLock::new() }
    }

    /// `of` for each model and each group.
    fn by_group<R: Send>(&self, of: impl Fn(&Chain<T>, &Group) -> R + Sync) -> Vec<Vec<R>> {
        let (few, of) = (self.few(), &of);
        let of_model = |chain: &Chain<T>| each(few, self.groups.iter().collect(), |group| of(chain, group));
        each(few, self.models.iter().collect(), of_model)
    }

    /// Whether one thread is faster than waking others.
    fn few(&self) -> bool {
        let states = self.models.first().map_or(0, |chain| chain.n);
        self.models.len() * self.sequences.steps() * states * states < FEW
    }

    /// Reorders one number per slot, group by group, into sequence order.
    fn in_order(&self, groups: impl IntoIterator<Item = Vec<f64>>) -> Vec<f64> {
        let mut all = vec![f64::NEG_INFINITY; self.sequences.len()];
        for (group, numbers) in self.groups.iter().zip(groups) {
            group.members.iter().zip(numbers).for_each(|(&member, number)| all[member] = number);
        }
        all
    }

    /// Splits `whole`, with `width` numbers per observation, into one slice per sequence, arranged by group and slot.
    fn split<'w, X>(&self, whole: &'w mut [X], width: usize) -> Vec<Vec<&'w mut [X]>> {
        let mut rest = whole;
        let mut parts: Vec<Option<&mut [X]>> = Vec::with_capacity(self.sequences.len());
        for sequence in 0..self.sequences.len() {
            let (part, behind) = rest.split_at_mut(self.sequences.range(sequence).len() * width);
            parts.push(Some(part));
            rest = behind;
        }
        let of_group = |group: &Group| group.members.iter().filter_map(|&member| parts[member].take()).collect();
        self.groups.iter().map(of_group).collect()
    }
}

impl<T: Precise> Recursions for Batch<'_, T> {
    type Error = Infallible;

    fn set_models(&mut self, models: &[Hmm]) -> Result<(), Infallible> {
        assert!(fit(models, self.sequences), "models of one shape that emit what was observed");
        self.models = each(models.len() == 1, models.iter().collect(), Chain::new);
        self.expected.clear();
        Ok(())
    }

    fn log_likelihoods(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
        let seen = self.sequences;
        let by_group = self.by_group(|chain, group| sweeps::forward(chain, seen, group));
        let pairs = self.models.iter().zip(by_group);
        let of_model = |(chain, groups): (&Chain<T>, Vec<Vec<f64>>)| {
            let mut logs = self.in_order(groups);
            let uncertain = uncertain(&logs);
            if !uncertain.is_empty() {
                put(&mut logs, &uncertain, &chain.exact().log_likelihoods(self.sequences, &uncertain));
            }
            logs
        };
        Ok(pairs.map(of_model).collect())
    }

    fn posteriors(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
        let (seen, bytes, few) = (self.sequences, self.trellis, self.few());
        let of_model = |chain: &Chain<T>| {
            let n = chain.n;
            let mut all = vec![0.0; self.sequences.steps() * n];
            let parts = self.split(&mut all, n);
            let of_group = |(group, mut targets): (&Group, Vec<&mut [f64]>)| {
                let excluded = vec![false; group.size()];
                let show = Keeping { n, targets: &mut targets };
                ForwardBackward { chain, seen, group, excluded: &excluded, bytes, pairs: None, show }.logs()
            };
            let logs = each(few, self.groups.iter().zip(parts).collect(), of_group);
            let uncertain = uncertain(&self.in_order(logs));
            if !uncertain.is_empty() {
                chain.exact().posteriors(self.sequences, &uncertain, &mut all);
            }
            all
        };
        Ok(self.models.iter().map(of_model).collect())
    }

    fn viterbi(&mut self) -> Result<Vec<Decoded>, Infallible> {
        let (seen, bytes, few) = (self.sequences, self.trellis, self.few());
        let of_model = |chain: &Chain<T>| {
            let mut states = vec![NO_STATE; self.sequences.steps()];
            let parts = self.split(&mut states, 1);
            let of_group = |(group, mut paths): (&Group, Vec<&mut [u32]>)| -> Vec<f64> {
                paths::viterbi(chain, chain.logs(), seen, group, bytes, &mut paths);
                let scores = group.members.iter().zip(&paths);
                scores.map(|(&member, path)| chain.score(seen, member, path)).collect()
            };
            let scores = each(few, self.groups.iter().zip(parts).collect(), of_group);
            Decoded { states, scores: self.in_order(scores) }
        };
        Ok(self.models.iter().map(of_model).collect())
    }

    fn expect(&mut self) -> Result<Vec<Expected>, Infallible> {
        let (seen, bytes, few) = (self.sequences, self.trellis, self.few());
        let of_model = |chain: &Chain<T>| {
            let parts = (SUMS / Sums::bytes(chain)).clamp(1, PARTS);
            let of_part = |groups: &[Group]| {
                let mut excluded: Vec<_> = groups.iter().map(|group| vec![false; group.size()]).collect();
                loop {
                    let mut sums = Sums::new(chain);
                    let pairs = groups.iter().zip(&excluded);
                    let logs: Vec<Vec<f64>> =
                        pairs.map(|(group, excluded)| sums.count(chain, seen, group, excluded, bytes)).collect();
                    // A sequence that becomes uncertain during the backward pass has already added counts: exclude it
                    // and count again.
                    let mut left = false;
                    for (excluded, logs) in excluded.iter_mut().zip(&logs) {
                        for (excluded, log) in excluded.iter_mut().zip(logs) {
                            left |= log.is_nan() && !*excluded;
                            *excluded |= log.is_nan();
                        }
                    }
                    if !left {
                        return (logs, sums);
                    }
                }
            };
            let parts = each(few, self.groups.chunks(self.groups.len().div_ceil(parts)).collect(), of_part);
            // A fixed order of addition, for reproducible bits.
            let (logs, sums): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            let mut sums = sums.into_iter();
            let mut total = sums.next().unwrap_or_else(|| Sums::new(chain));
            sums.for_each(|part| total.add(&part));
            let mut expected = total.expected(chain, self.in_order(logs.into_iter().flatten()));
            expected.scale(seen.unit());
            let uncertain = uncertain(&expected.log_likelihoods);
            if !uncertain.is_empty() {
                let more = chain.exact().expect(self.sequences, &uncertain);
                put(&mut expected.log_likelihoods, &uncertain, &more.log_likelihoods);
                expected.add_counts(&more);
            }
            expected
        };
        Ok(each(few, self.models.iter().collect(), of_model))
    }

    fn e_step(&mut self) -> Result<Vec<Vec<f64>>, Infallible> {
        self.expected = self.expect()?;
        Ok(self.expected.iter().map(|expected| expected.log_likelihoods.clone()).collect())
    }

    fn take_counts(&mut self) -> Result<Vec<Expected>, Infallible> {
        let mut expected = std::mem::take(&mut self.expected);
        expected.iter_mut().for_each(|expected| expected.log_likelihoods.clear());
        Ok(expected)
    }

    fn m_step(&mut self, options: &Options) -> Result<(), Infallible> {
        let expected = std::mem::take(&mut self.expected);
        let floors = self.spread.get_or_init(|| Spread::new(self.sequences)).floors(options.floor);
        each(self.models.len() == 1, self.models.iter_mut().zip(&expected).collect(), |(chain, expected)| {
            let mut model = chain.model.clone();
            maximise(&mut model, expected, options, &floors);
            *chain = Chain::new(&model);
        });
        Ok(())
    }

    fn weights(&self) -> &[f64] {
        self.sequences.weights()
    }

    fn models(&mut self) -> Result<Vec<Hmm>, Infallible> {
        Ok(self.models.iter().map(|chain| chain.model.clone()).collect())
    }
}

/// Stores γ, `n` numbers for each step of each slot.
struct Keeping<'a, 'w> {
    n: usize,
    targets: &'a mut [&'w mut [f64]],
}

impl<T: Precise> Show<T> for Keeping<'_, '_> {
    #[inline(always)]
    fn show(&mut self, slot: usize, t: usize, gamma: &[T]) {
        let target = &mut self.targets[slot][t * self.n..][..self.n];
        target.iter_mut().zip(gamma).for_each(|(target, gamma)| *target = gamma.to_f64());
    }
}

/// Indices of the sequences whose ln P(O) is NaN, which marks them for the exact recursions.
fn uncertain(logs: &[f64]) -> Vec<u32> {
    (0..).zip(logs).filter(|(_, log)| log.is_nan()).map(|(sequence, _)| sequence).collect()
}

/// Scatters `numbers` to the indices `which`.
fn put(all: &mut [f64], which: &[u32], numbers: &[f64]) {
    which.iter().zip(numbers).for_each(|(&at, &number)| all[at as usize] = number);
}

/// Maps `of` over the items, in their order. Where `few` is set, uses this thread alone.
fn each<I: Send, R: Send>(few: bool, items: Vec<I>, of: impl Fn(I) -> R + Sync + Send) -> Vec<R> {
    if few { items.into_iter().map(of).collect() } else { items.into_par_iter().map(of).collect() }
}
