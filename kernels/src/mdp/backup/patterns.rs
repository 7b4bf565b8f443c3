//! The greedy sweep over a model in which many states look alike: each has the number of a pattern.
//!
//! A pattern is all rows of a state, with successors relative to it: the offsets of its different successors, at most D,
//! and for each action a discounted probability for each of them, 0 where it is none, and its reward. In a grid world there are some
//! hundred patterns however large it is.
//!
//! *Bytes* per state, V in f32: 2 for the pattern, 8 for V read and written. The patterns stay in the caches, where threads
//! read them 16 bytes at a time: neighbouring states with different patterns would otherwise meet at every number.

use crate::device::{Global, GlobalMut, Real, kernel, thread};

use super::{Change, Control, Values, greater};

/// Numbers of an action of a pattern of `distinct` successors: probabilities, the reward, and zeros up to whole quads.
#[must_use]
pub const fn stride(distinct: usize) -> usize {
    (distinct + 1).next_multiple_of(4)
}

/// Offsets of such a pattern, with zeros up to whole quads.
#[must_use]
pub const fn offset_stride(distinct: usize) -> usize {
    distinct.next_multiple_of(4)
}

/// A sweep over patterns of at most `D` different successors.
///
/// Pattern p has offsets `offset[p·offset_stride(D)..]`; its action a has probabilities and then the reward
/// `table[(p·A + a)·stride(D)..]`, A = `actions`.
///
/// *Thread mapping*: as [`backup_slices`](super::slices::backup_slices). *Safety*: `pattern` has `states` elements, all below
/// the number of patterns; offsets lead to states; the rest as in [`Control`].
#[kernel(T = [f32, f64], D = [3, 5, 7, 15])]
pub fn backup_patterns<T: Real, const D: usize>(
    states: u32,
    actions: u32,
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
    let values = Values { old: v_old, new: v_new };
    control.tiles(states, |first, end| {
        let mut change = Change::NONE;
        let mut state = first + thread::thread_idx_x();
        let mut next = if state < end { pattern.get(state as usize) } else { 0 };
        while state < end {
            let own = next as usize;
            // The pattern of the next state is on its way while this one is swept.
            let after = state + thread::block_dim_x();
            if after < end {
                next = pattern.get(after as usize);
            }
            let mut v = [T::ZERO; D];
            for q in 0..offset_stride(D) / 4 {
                let away = offset.get4(own * (offset_stride(D) / 4) + q);
                for k in 0..4 {
                    if 4 * q + k < D {
                        v[4 * q + k] = v_old.get(state.wrapping_add_signed(away[k]) as usize);
                    }
                }
            }
            let mut best = T::NEG_INFINITY;
            let mut action = 0;
            while action < actions as usize {
                let (mut expected, mut earned) = (T::ZERO, T::ZERO);
                for q in 0..stride(D) / 4 {
                    let numbers = table.get4((own * actions as usize + action) * (stride(D) / 4) + q);
                    for k in 0..4 {
                        if 4 * q + k < D {
                            expected = numbers[k].fma(v[4 * q + k], expected);
                        } else if 4 * q + k == D {
                            earned = numbers[k];
                        }
                    }
                }
                best = greater(best, earned + expected);
                action += 1;
            }
            change = change.and(values.update(state, best));
            state = after;
        }
        change
    });
}
