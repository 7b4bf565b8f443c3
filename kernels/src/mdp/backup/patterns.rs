//! The greedy sweep over a model in which many states look alike: each has the number of a pattern.
//!
//! A pattern is all rows of a state, with successors relative to it: the offsets of its different successors, at most D,
//! and for each action a discounted probability for each of them, 0 where it is none, and its reward. In a grid world there are some
//! hundred patterns however large it is.
//!
//! *Bytes* per state, V in f32: 2 for the pattern, 8 for V read and written. Neighbouring states of different patterns read
//! different numbers at the same time. From the caches these come one line after the other; so each block first copies
//! all patterns to shared memory, if they fit, where 32 threads meet only if their numbers are in the same bank. Patterns
//! are an odd number of words apart, which spreads them over the banks.

use crate::device::{Global, GlobalMut, Real, Shared, Word, kernel, shared, thread};

use super::{Change, Control, Values, greater};

/// Offsets of a pattern of `distinct` successors, and where those of the next begin.
#[must_use]
pub const fn offset_stride(distinct: usize) -> usize {
    distinct | 1
}

/// Numbers of a pattern: for each action `distinct` probabilities and the reward, and where those of the next pattern begin.
#[must_use]
pub const fn stride(actions: usize, distinct: usize) -> usize {
    (actions * (distinct + 1)) | 1
}

/// An array of numbers in global or in shared memory.
trait Numbers<T>: Copy {
    fn number(self, index: usize) -> T;
}

impl<T: Word> Numbers<T> for Global<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn number(self, index: usize) -> T {
        self.get(index)
    }
}

impl<T: Word> Numbers<T> for Shared<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn number(self, index: usize) -> T {
        self.get(index as u32)
    }
}

/// A sweep over patterns of at most `D` different successors.
///
/// Pattern p has offsets `offset[p·offset_stride(D)..]`, and its action a has probabilities and then the reward in
/// `table[p·stride(A, D) + a·(D + 1)..]`, A = `actions`.
///
/// *Thread mapping*: as [`backup_slices`](super::slices::backup_slices). *Shared memory*: if `shared_table`, room for `table`
/// and then `offset`, dynamic. *Barriers*: one, if so. *Safety*: `pattern` has `states` elements, all below `patterns`;
/// offsets lead to states; the rest as in [`Control`].
#[kernel(T = [f32, f64], D = [3, 5, 7, 15])]
pub fn backup_patterns<T: Real, const D: usize>(
    states: u32,
    actions: u32,
    patterns: u32,
    shared_table: u32,
    pattern: Global<u16>,
    offset: Global<i32>,
    table: Global<T>,
    v_old: Global<T>,
    v_new: GlobalMut<T>,
    sweep: u32,
    span: u32,
    bound: f64,
    slots: GlobalMut<u64>,
    tile: u32,
    skip: u32,
    needs_ptr: Global<u32>,
    needs: Global<u32>,
    changed_old: Global<u32>,
    changed_new: GlobalMut<u32>,
) {
    let control = Control { sweep, span, bound, slots, tile, skip, needs_ptr, needs, changed_old, changed_new };
    if control.is_done() {
        return;
    }
    let model = Model { actions: actions as usize, pattern, values: Values { old: v_old, new: v_new } };
    if shared_table > 0 {
        let numbers = patterns * stride(actions as usize, D) as u32;
        let offsets = patterns * offset_stride(D) as u32;
        let (own_table, after) = shared::dynamic_shared_mem::<T>().split(numbers);
        let own_offset = after.cast::<i32>();
        let mut i = thread::thread_idx_x();
        while i < numbers {
            own_table.set(i, table.get(i as usize));
            i += thread::block_dim_x();
        }
        let mut i = thread::thread_idx_x();
        while i < offsets {
            own_offset.set(i, offset.get(i as usize));
            i += thread::block_dim_x();
        }
        thread::sync_threads();
        control.tiles(states, |first, end| model.sweep::<D>(first, end, own_offset, own_table));
    } else {
        control.tiles(states, |first, end| model.sweep::<D>(first, end, offset, table));
    }
}

/// What both ways to read the patterns have in common.
#[derive(Clone, Copy)]
struct Model<T: Real> {
    actions: usize,
    pattern: Global<u16>,
    values: Values<T>,
}

impl<T: Real> Model<T> {
    /// Sweeps the states of a tile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn sweep<const D: usize>(
        self,
        first: u32,
        end: u32,
        offset: impl Numbers<i32>,
        table: impl Numbers<T>,
    ) -> Change<T> {
        let mut change = Change::NONE;
        let mut state = first + thread::thread_idx_x();
        let mut next = if state < end { self.pattern.get(state as usize) } else { 0 };
        while state < end {
            let own = next as usize;
            // The pattern of the next state is on its way while this one is swept.
            let after = state + thread::block_dim_x();
            if after < end {
                next = self.pattern.get(after as usize);
            }
            let mut v = [T::ZERO; D];
            for d in 0..D {
                let away = offset.number(own * offset_stride(D) + d);
                v[d] = self.values.old.get(state.wrapping_add_signed(away) as usize);
            }
            let mut best = T::NEG_INFINITY;
            let mut at = own * stride(self.actions, D);
            let mut action = 0;
            while action < self.actions {
                let mut q = table.number(at + D);
                for d in 0..D {
                    q = table.number(at + d).fma(v[d], q);
                }
                best = greater(best, q);
                at += D + 1;
                action += 1;
            }
            change = change.and(self.values.update(state, best));
            state = after;
        }
        change
    }
}
