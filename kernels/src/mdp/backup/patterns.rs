//! The greedy sweep over a model in which many states look alike: each has the number of a pattern.
//!
//! A pattern is all rows of a state, with successors relative to it: the offsets of its different successors, at most D,
//! and for each action its reward and a probability for each of them, 0 where it is none. All numbers are f64 and exact,
//! for V in f32 as well. In a grid world there are some hundred patterns however large it is.
//!
//! *Bytes* per state, V in f32: 2 for the pattern, 8 for V read and written. The patterns stay in the caches.

use crate::device::{Global, GlobalMut, Real, kernel, math, thread};

use super::{Change, Control, Values, greater};

/// States that a thread does together where they have the same pattern, so that it is loaded once for all of them.
const TOGETHER: usize = 4;

/// A sweep over patterns of at most `D` different successors.
///
/// Pattern p has `offset[p·D..]`, `reward[p·A..]` and `prob[(p·A + a)·D..]`, A = `actions`.
///
/// *Thread mapping*: as [`backup_slices`](super::slices::backup_slices), four states of a tile at a time per thread.
/// *Safety*: `pattern` has `states` elements, all below the number of patterns; offsets lead to states; the rest as in
/// [`Control`].
#[kernel(T = [f32, f64], D = [2, 3, 5, 8, 16])]
pub fn backup_patterns<T: Real, const D: usize>(
    states: u32,
    actions: u32,
    pattern: Global<u16>,
    offset: Global<i32>,
    prob: Global<f64>,
    reward: Global<f64>,
    gamma: f64,
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
    let successor = |state: u32, offset: i32| v_old.get(state.wrapping_add_signed(offset) as usize).to_f64();
    control.tiles(states, |first, end| {
        let mut change = Change::NONE;
        let mut state = first + thread::thread_idx_x();
        let stride = thread::block_dim_x();
        while state < end {
            let own = pattern.get(state as usize);
            let mut alike = state + (TOGETHER as u32 - 1) * stride < end;
            if alike {
                for k in 1..TOGETHER {
                    alike &= pattern.get((state + k as u32 * stride) as usize) == own;
                }
            }
            let (row, base) = (own as usize * actions as usize, own as usize * D);
            if alike {
                let mut v = [[0.0; D]; TOGETHER];
                for d in 0..D {
                    let away = offset.get(base + d);
                    for k in 0..TOGETHER {
                        v[k][d] = successor(state + k as u32 * stride, away);
                    }
                }
                let mut best = [f64::NEG_INFINITY; TOGETHER];
                let mut action = 0;
                while action < actions as usize {
                    let mut expected = [0.0; TOGETHER];
                    for d in 0..D {
                        let p = prob.get((row + action) * D + d);
                        for k in 0..TOGETHER {
                            expected[k] = math::fma(p, v[k][d], expected[k]);
                        }
                    }
                    let earned = reward.get(row + action);
                    for k in 0..TOGETHER {
                        best[k] = greater(best[k], math::fma(gamma, expected[k], earned));
                    }
                    action += 1;
                }
                for k in 0..TOGETHER {
                    change = change.and(values.update(state + k as u32 * stride, best[k]));
                }
                state += TOGETHER as u32 * stride;
            } else {
                let mut v = [0.0; D];
                for d in 0..D {
                    v[d] = successor(state, offset.get(base + d));
                }
                let mut best = f64::NEG_INFINITY;
                let mut action = 0;
                while action < actions as usize {
                    let mut expected = 0.0;
                    for d in 0..D {
                        expected = math::fma(prob.get((row + action) * D + d), v[d], expected);
                    }
                    best = greater(best, math::fma(gamma, expected, reward.get(row + action)));
                    action += 1;
                }
                change = change.and(values.update(state, best));
                state += stride;
            }
        }
        change
    });
}
