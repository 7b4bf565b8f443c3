//! Model layouts of the engine and the sweep over one block of states.
//!
//! | layout | contents | used for |
//! | --- | --- | --- |
//! | [`Patterns`] | each distinct state once, with relative successors; the states of each | repetitive models |
//! | `Rows`, packed | successors as 16-bit offsets, probabilities as palette indices, each if it fits | large models |
//! | `Rows`, plain | the arrays of the model itself | other models |
//!
//! All layouts are lossless and give the same V, bit for bit: every sum is computed in `f64`, in the order of the
//! entries. A row of [`LONG`] or more entries has four partial sums.

mod patterns;
mod rows;

use std::ops::Range;

use warpkov_common::parallel;

use crate::analysis::tiles::Needed;
use crate::model::{Mdp, NO_ACTION};
use patterns::Patterns;
use warpkov_runtime::Precise;

/// States per block: the unit of parallel work and of skipping.
pub(super) const BLOCK: usize = 1024;

/// Row length from which a sum has four parts, to hide the latency of additions.
const LONG: usize = 16;

/// Model size in bytes above which rows are packed: well beyond the inner caches.
const PACK_ABOVE: usize = 4 << 20;

/// Maximum dependencies of a block; beyond, it counts as dependent on all blocks.
const MAX_DEPENDENCIES: usize = 64;

/// Layout of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Patterns if states repeat; otherwise packed rows if the model is large; otherwise plain rows.
    #[default]
    Auto,
    /// The arrays of the model in the precision of the run.
    Plain,
    /// 16-bit successor offsets and a palette of probabilities, each if the model permits.
    Packed,
    /// Each distinct state once; plain rows if rows have 16 or more entries or few states repeat.
    Patterns,
}

/// The change of V in a block, over states with actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    /// Least V_new − V_old.
    pub least: f64,
    /// Greatest V_new − V_old.
    pub greatest: f64,
    /// Whether any bit of V changed.
    pub any: bool,
}

impl Change {
    /// No states.
    pub const NONE: Self = Self { least: f64::INFINITY, greatest: f64::NEG_INFINITY, any: false };
    /// States that kept their values.
    pub const ZERO: Self = Self { least: 0.0, greatest: 0.0, any: false };

    /// The change over two sets of states.
    pub fn and(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            any: self.any || other.any,
        }
    }

    /// ‖ΔV‖∞; infinite if a value is NaN, 0 if there are no states.
    pub fn norm(self) -> f64 {
        if self.least > self.greatest { 0.0 } else { self.greatest.max(-self.least) }
    }

    /// Includes one state.
    #[inline(always)]
    fn take(&mut self, old: f64, new: f64) {
        // Minima and maxima ignore NaN, so a NaN must count as infinite.
        let delta = if (new - old).is_nan() { f64::INFINITY } else { new - old };
        self.least = self.least.min(delta);
        self.greatest = self.greatest.max(delta);
        self.any |= new.to_bits() != old.to_bits();
    }
}

/// Storage of states with access to their Q-factors.
pub(super) trait States<T: Precise>: Send + Sync + Sized {
    /// The number of actions of a state.
    fn count(&self, state: usize) -> usize;

    /// The Q-factors r(s, a) + γ Σ P(s'|s, a)·`value`(s') of a state, in the order of its actions.
    fn q_factors<'a>(
        &'a self,
        state: usize,
        value: impl Fn(usize) -> f64 + Copy + 'a,
    ) -> impl Iterator<Item = f64> + 'a;

    /// Calls `show` with each successor s' of a state and γP(s'|s, a), action by action.
    fn entries(&self, state: usize, show: impl FnMut(usize, f64));

    /// Calls `show` with ranges (first, last) that cover the successors of `states`, until it returns false.
    fn successors(&self, states: Range<usize>, show: impl FnMut(usize, usize) -> bool);

    /// Result of [`project`](Self::project).
    type Projected: States<T> + 'static;

    /// The model restricted to the actions of `policy`, with or without rewards.
    fn project(&self, policy: &[u32], rewards: bool) -> Self::Projected;

    /// Bytes of the model that a sweep reads.
    fn bytes(&self) -> u64;

    /// Replaces r(s, a), one per row; false if rows share stored rewards.
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

/// The larger of two Q-factors.
#[inline(always)]
fn larger(best: Option<f64>, q: f64) -> Option<f64> {
    Some(best.map_or(q, |best| if q > best { q } else { best }))
}

/// Block operations of the engine on a layout.
pub(super) trait Storable<T: Precise>: Send + Sync {
    /// Greedy backup of the states `first..first + target.len()` from `v`, the whole of V. Terminal states keep their
    /// entry of `target`.
    fn backup(&self, first: usize, v: &[T], target: &mut [T]) -> Change;

    /// The same in place. `target` holds the current values of the block; states see the new values of states backed up
    /// before them, and `v` outside the block.
    fn backup_in_place(&self, first: usize, v: &[T], target: &mut [T], backward: bool) -> Change;

    /// Computes a DILU factorisation of I − γP on the states `first..first + weight.len()`: an incomplete LU
    /// factorisation that modifies only the diagonal (Pommerell, *Solution of Large Unsymmetric Systems of Linear
    /// Equations*, 1992). The model must have one action per state and no rewards. The factorisation is exact for
    /// tridiagonal matrices.
    ///
    /// With γP = L + D + U (lower, diagonal, upper), it is (E − L) E⁻¹ (E − U), where Eₛ = 1 − Dₛ − Σ Lₛₖ Uₖₛ / Eₖ over
    /// k < s. `weight` receives 1 / E.
    fn factor(&self, first: usize, weight: &mut [T]);

    /// `y` ← (E − U)⁻¹ E (E − L)⁻¹ `x` for a block factorised by [`factor`](Self::factor).
    fn precondition(&self, first: usize, weight: &[T], x: &[T], y: &mut [T]);

    /// The chain of aggregates of `size` adjacent states: γP averaged over the members with actions, its columns summed
    /// over members with actions. The model must have one action per state and no rewards. `None` if aggregation leaves
    /// more than half of the entries, because successors are not adjacent.
    fn aggregated(&self, states: usize, size: usize) -> Option<Box<dyn Storable<T>>>;

    /// Greedy improvement of the actions of a block; returns the number of changes. An action changes only if another's
    /// Q-factor exceeds its own by more than `tie`, to the lowest-numbered best one. [`NO_ACTION`] is always replaced
    /// in states with actions.
    fn improve(&self, first: usize, v: &[T], policy: &mut [u32], tie: f64) -> u64;

    /// The blocks that each block depends on; `None` for more than [`MAX_DEPENDENCIES`].
    fn dependencies(&self, states: usize) -> Vec<Option<Box<[u32]>>>;

    /// The model restricted to the actions of `policy`, with or without rewards.
    fn project(&self, policy: &[u32], rewards: bool) -> Box<dyn Storable<T>>;

    /// Whether any state of the block has actions.
    fn has_actions(&self, states: Range<usize>) -> bool;

    /// Bytes of the model that a sweep reads.
    fn bytes(&self) -> u64;

    /// Replaces r(s, a), one per row. Returns false without any change if rows share stored rewards.
    fn set_rewards(&mut self, rewards: &[f64]) -> bool;
}

/// Implements [`Storable`] for any [`States`].
struct Stored<S>(S);

impl<T: Precise, S: States<T>> Storable<T> for Stored<S> {
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

    fn aggregated(&self, states: usize, size: usize) -> Option<Box<dyn Storable<T>>> {
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
            // The sort is stable, so that sums are deterministic.
            found.sort_by_key(|entry| entry.0);
            let mut merged: Vec<(u32, T)> = Vec::new();
            for group in found.chunk_by(|a, b| a.0 == b.0) {
                let sum: f64 = group.iter().map(|entry| entry.1).sum();
                merged.push((group[0].0, T::from_f64(sum / members as f64)));
            }
            (all, merged)
        };
        let rows = parallel::flat_map(states.div_ceil(size), |aggregate| [of_aggregate(aggregate)]);
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
                // Take the first action even if its Q-factor is −∞ or NaN: a state with actions needs one.
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
        parallel::map(0..states.div_ceil(BLOCK), of_block)
    }

    fn project(&self, policy: &[u32], rewards: bool) -> Box<dyn Storable<T>> {
        Box::new(Stored(self.0.project(policy, rewards)))
    }

    fn has_actions(&self, mut states: Range<usize>) -> bool {
        states.any(|state| self.0.count(state) > 0)
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn set_rewards(&mut self, rewards: &[f64]) -> bool {
        self.0.set_rewards(rewards)
    }
}

/// Converts a model to the requested layout.
pub(super) fn store<T: Precise>(mdp: &Mdp, storage: Storage) -> Box<dyn Storable<T> + '_> {
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

/// Σ over `length` terms, in the order common to all layouts.
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
