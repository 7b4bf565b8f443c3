//! How the engine stores a model, and what a sweep does with one block of states.
//!
//! | storage | what is in it | when |
//! | --- | --- | --- |
//! | [`Patterns`] | each distinct state once: relative successors, probabilities, rewards; and where it occurs | states repeat |
//! | `Rows`, packed | successors as 16-bit offsets, probabilities as indices into a palette, as far as they fit | large models |
//! | `Rows`, plain | the arrays of the model itself | else |
//!
//! Nothing is rounded: all storages of a model give the same V, bit for bit. Every sum is taken in `f64`, in the order of
//! the entries; a row of [`LONG`] entries or more has four partial sums.

mod patterns;
mod rows;

use std::ops::Range;

use rayon::prelude::*;

use crate::mdp::analysis::tiles::Needed;
use crate::mdp::model::{Mdp, NO_ACTION};
use crate::runtime::Precise;
use patterns::Patterns;

/// States of a block: what a task sweeps, and what is skipped as a whole.
pub(super) const BLOCK: usize = 1024;

/// Entries from which on a row is summed in four parts: enough to hide the latency of addition.
const LONG: usize = 16;

/// Bytes of a model above which it is packed: well beyond what the inner caches hold.
const PACK_ABOVE: usize = 4 << 20;

/// Blocks that a block may depend on before it counts as dependent on all.
const MAX_DEPENDENCIES: usize = 64;

/// How a model is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Patterns where states repeat; else packed rows where the model is large; else plain rows.
    #[default]
    Auto,
    /// The arrays of the model, in the precision of the run.
    Plain,
    /// Narrow offsets and a palette of probabilities, as far as the model allows.
    Packed,
    /// Every distinct state once; plain where rows have 16 entries or more, or hardly any state repeats.
    Patterns,
}

/// What a sweep did to the states of a block that have actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    /// The least V_new − V_old.
    pub least: f64,
    /// The greatest V_new − V_old.
    pub greatest: f64,
    /// Whether any bit of V changed.
    pub any: bool,
}

impl Change {
    /// That of no states.
    pub const NONE: Self = Self { least: f64::INFINITY, greatest: f64::NEG_INFINITY, any: false };
    /// That of states that kept their values.
    pub const ZERO: Self = Self { least: 0.0, greatest: 0.0, any: false };

    /// That of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            any: self.any || other.any,
        }
    }

    /// ‖ΔV‖∞; infinite if a value is not a number, 0 if there are no states.
    pub fn norm(self) -> f64 {
        if self.least > self.greatest { 0.0 } else { self.greatest.max(-self.least) }
    }

    /// Takes in one state.
    #[inline(always)]
    fn take(&mut self, old: f64, new: f64) {
        // What is not a number must not pass for small; minima and maxima would ignore it.
        let delta = if (new - old).is_nan() { f64::INFINITY } else { new - old };
        self.least = self.least.min(delta);
        self.greatest = self.greatest.max(delta);
        self.any |= new.to_bits() != old.to_bits();
    }
}

/// States and their Q-factors, one at a time.
pub(super) trait States<T: Precise>: Send + Sync + Sized {
    /// The number of actions of a state.
    fn count(&self, state: usize) -> usize;

    /// The Q-factors r(s, a) + γ Σ P(s'|s, a)·`value`(s') of a state, in the order of its actions.
    fn q_factors<'a>(
        &'a self,
        state: usize,
        value: impl Fn(usize) -> f64 + Copy + 'a,
    ) -> impl Iterator<Item = f64> + 'a;

    /// Shows each successor s' of a state with γP(s'|s, a), action by action.
    fn entries(&self, state: usize, show: impl FnMut(usize, f64));

    /// Shows ranges that hold the successors of `states`, first and last, until `show` returns false.
    fn successors(&self, states: Range<usize>, show: impl FnMut(usize, usize) -> bool);

    /// What [`project`](Self::project) makes.
    type Projected: States<T> + 'static;

    /// The model with one action per state, that of `policy`, with its rewards or without.
    fn project(&self, policy: &[u32], rewards: bool) -> Self::Projected;

    /// Bytes that a sweep reads of the model.
    fn bytes(&self) -> u64;

    /// Replaces r(s, a); false where rows share it.
    fn set_rewards(&mut self, _rewards: &[f64]) -> bool {
        false
    }

    /// One greedy backup of the states `first..first + target.len()`.
    fn backup(&self, first: usize, v: &[T], target: &mut [T]) -> Change {
        let mut change = Change::NONE;
        for (state, target) in (first..).zip(target) {
            let best = self.q_factors(state, |s| v[s].to_f64()).fold(None, larger);
            if let Some(best) = best {
                let value = T::from_f64(best);
                change.take(v[state].to_f64(), value.to_f64());
                *target = value;
            }
        }
        change
    }
}

/// The larger of the Q-factors so far and the next.
#[inline(always)]
fn larger(best: Option<f64>, q: f64) -> Option<f64> {
    Some(best.map_or(q, |best| if q > best { q } else { best }))
}

/// What the engine asks of a storage, per block of states.
pub(super) trait Layout<T: Precise>: Send + Sync {
    /// One greedy backup of the states `first..first + target.len()` from `v`, all of V. Terminal ones are left alone.
    fn backup(&self, first: usize, v: &[T], target: &mut [T]) -> Change;

    /// The same in place: states of the block already backed up are seen by the later ones, and all others as in `v`.
    /// `target` holds the block's present values.
    fn backup_in_place(&self, first: usize, v: &[T], target: &mut [T], backward: bool) -> Change;

    /// Of a model with one action per state and no rewards: an incomplete factorisation of I − γP, restricted to the states
    /// `first..first + weight.len()`, that changes its diagonal only (DILU; Pommerell, *Solution of Large Unsymmetric
    /// Systems of Linear Equations*, 1992). It is exact where states have no neighbours but the ones before and behind.
    ///
    /// With γP = L + D + U, lower, diagonal and upper, it is (E − L) E⁻¹ (E − U), where
    /// Eₛ = 1 − Dₛ − Σ Lₛₖ Uₖₛ / Eₖ over k < s. `weight` gets 1 / E.
    fn factor(&self, first: usize, weight: &mut [T]);

    /// `y` ← (E − U)⁻¹ E (E − L)⁻¹ `x` for the states of a block that [`factor`](Self::factor) has had.
    fn precondition(&self, first: usize, weight: &[T], x: &[T], y: &mut [T]);

    /// Of a model with one action per state and no rewards: the chain of aggregates of `size` neighbouring states each,
    /// that is the mean of γP over those members that act, its columns summed over those. `None` where that would have more
    /// than half as many entries: successors are nowhere near each other.
    fn aggregated(&self, states: usize, size: usize) -> Option<Box<dyn Layout<T>>>;

    /// Greedy improvement of a block's actions; returns how many changed. An action is kept unless another's Q-factor
    /// exceeds its own by more than `tie`; then the lowest-numbered of the best is taken. One that is
    /// [`NO_ACTION`] is always replaced, where the state has any.
    fn improve(&self, first: usize, v: &[T], policy: &mut [u32], tie: f64) -> u64;

    /// For each block those that it depends on, or `None` where they are too many to tell.
    fn dependencies(&self, states: usize) -> Vec<Option<Box<[u32]>>>;

    /// The model with one action per state, that of `policy`, with its rewards or without.
    fn project(&self, policy: &[u32], rewards: bool) -> Box<dyn Layout<T>>;

    /// Whether some state of the block has actions.
    fn acts(&self, states: Range<usize>) -> bool;

    /// Bytes that a sweep reads of the model.
    fn bytes(&self) -> u64;

    /// Replaces r(s, a), one per row; false, and nothing is done, where rows share it.
    fn set_rewards(&mut self, rewards: &[f64]) -> bool;
}

/// Any storage of states, as a layout.
struct Stored<S>(S);

impl<T: Precise, S: States<T>> Layout<T> for Stored<S> {
    fn backup(&self, first: usize, v: &[T], target: &mut [T]) -> Change {
        self.0.backup(first, v, target)
    }

    fn backup_in_place(&self, first: usize, v: &[T], target: &mut [T], backward: bool) -> Change {
        let mut change = Change::NONE;
        for i in 0..target.len() {
            let i = if backward { target.len() - 1 - i } else { i };
            let block = &*target;
            let value = |s: usize| block.get(s.wrapping_sub(first)).unwrap_or(&v[s]).to_f64();
            if let Some(best) = self.0.q_factors(first + i, value).fold(None, larger) {
                let new = T::from_f64(best);
                change.take(target[i].to_f64(), new.to_f64());
                target[i] = new;
            }
        }
        change
    }

    fn factor(&self, first: usize, weight: &mut [T]) {
        let entry = |row: usize, column: usize| {
            let mut factors = self.0.q_factors(row, move |s| f64::from(u8::from(s == column)));
            factors.next().unwrap_or_default()
        };
        for i in 0..weight.len() {
            let state = first + i;
            let before = &*weight;
            let product = |s: usize| match s.wrapping_sub(first) {
                k if k < i => entry(s, state) * before[k].to_f64(),
                _ => 0.0,
            };
            let products = self.0.q_factors(state, product).next().unwrap_or_default();
            weight[i] = T::from_f64(1.0 / (1.0 - entry(state, state) - products));
        }
    }

    fn precondition(&self, first: usize, weight: &[T], x: &[T], y: &mut [T]) {
        for i in 0..y.len() {
            let before = &y[..i];
            let value = |s: usize| before.get(s.wrapping_sub(first)).map_or(0.0, |y| y.to_f64());
            let sum = self.0.q_factors(first + i, value).next().unwrap_or_default();
            y[i] = T::from_f64((x[i].to_f64() + sum) * weight[i].to_f64());
        }
        for i in (0..y.len()).rev() {
            let (here, behind) = y.split_at_mut(i + 1);
            let behind = &*behind;
            let value = |s: usize| behind.get(s.wrapping_sub(first + i + 1)).map_or(0.0, |y| y.to_f64());
            let sum = self.0.q_factors(first + i, value).next().unwrap_or_default();
            here[i] = T::from_f64(here[i].to_f64() + sum * weight[i].to_f64());
        }
    }

    fn aggregated(&self, states: usize, size: usize) -> Option<Box<dyn Layout<T>>> {
        let of_aggregate = |aggregate: usize| {
            let (mut found, mut members) = (Vec::new(), 0);
            for state in aggregate * size..states.min((aggregate + 1) * size) {
                members += usize::from(self.0.count(state) > 0);
                self.0.entries(state, |successor, probability| {
                    if self.0.count(successor) > 0 {
                        found.push(((successor / size) as u32, probability));
                    }
                });
            }
            let all = found.len();
            // Stable, so that sums are the same every time.
            found.sort_by_key(|entry| entry.0);
            let mut merged: Vec<(u32, T)> = Vec::new();
            for group in found.chunk_by(|a, b| a.0 == b.0) {
                let sum: f64 = group.iter().map(|entry| entry.1).sum();
                merged.push((group[0].0, T::from_f64(sum / members as f64)));
            }
            (all, merged)
        };
        let rows: Vec<_> =
            (0..states.div_ceil(size)).into_par_iter().with_min_len(BLOCK / 4).map(of_aggregate).collect();
        let (all, merged) = rows.iter().fold((0, 0), |sums, row| (sums.0 + row.0, sums.1 + row.1.len()));
        (2 * merged <= all).then(|| rows::chain(rows.into_iter().map(|row| row.1)))
    }

    fn improve(&self, first: usize, v: &[T], policy: &mut [u32], tie: f64) -> u64 {
        let mut changed = 0;
        for (state, old) in (first..).zip(policy) {
            let (mut old_q, mut best_q, mut best) = (f64::NEG_INFINITY, f64::NEG_INFINITY, *old);
            for (action, q) in (0..).zip(self.0.q_factors(state, |s| v[s].to_f64())) {
                if action == *old {
                    old_q = q;
                }
                // The first one counts even if it is −∞ or not a number: a state with actions takes one.
                if q > best_q || best == NO_ACTION {
                    (best_q, best) = (q, action);
                }
            }
            if best != *old && (best_q > old_q + tie || *old == NO_ACTION) {
                *old = best;
                changed += 1;
            }
        }
        changed
    }

    fn dependencies(&self, states: usize) -> Vec<Option<Box<[u32]>>> {
        let of_block = |block: usize| {
            let mut found = Needed::up_to(MAX_DEPENDENCIES);
            self.0.successors(block * BLOCK..states.min((block + 1) * BLOCK), |first, last| {
                ((first / BLOCK) as u32..=(last / BLOCK) as u32).all(|successor| found.take(successor))
            });
            found.all().map(Vec::into_boxed_slice)
        };
        (0..states.div_ceil(BLOCK)).into_par_iter().map(of_block).collect()
    }

    fn project(&self, policy: &[u32], rewards: bool) -> Box<dyn Layout<T>> {
        Box::new(Stored(self.0.project(policy, rewards)))
    }

    fn acts(&self, mut states: Range<usize>) -> bool {
        states.any(|state| self.0.count(state) > 0)
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn set_rewards(&mut self, rewards: &[f64]) -> bool {
        self.0.set_rewards(rewards)
    }
}

/// Stores a model.
pub(super) fn store<T: Precise>(mdp: &Mdp, storage: Storage) -> Box<dyn Layout<T> + '_> {
    let reward = mdp.expected_rewards();
    if matches!(storage, Storage::Auto | Storage::Patterns)
        && let Some(patterns) = Patterns::find::<T>(mdp, &reward)
    {
        return Box::new(Stored(patterns));
    }
    let bytes = mdp.transitions().nnz() * (4 + size_of::<T>());
    let pack = storage == Storage::Packed || storage == Storage::Auto && bytes > PACK_ABOVE;
    rows::store(mdp, &reward, pack)
}

/// Σ probᵢ·valueᵢ over `length` entries, in the order that all storages share.
#[inline(always)]
fn expect(length: usize, term: impl Fn(usize) -> f64) -> f64 {
    if length < LONG {
        return (0..length).fold(0.0, |sum, i| sum + term(i));
    }
    let mut sums = [0.0; 4];
    for quad in 0..length / 4 {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += term(4 * quad + i);
        }
    }
    let rest = (length / 4 * 4..length).fold(0.0, |sum, i| sum + term(i));
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}
