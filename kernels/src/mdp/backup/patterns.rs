//! The greedy sweep over a model in which many states look alike: each has the number of a pattern.
//!
//! A pattern is all rows of a state, with successors relative to it, in two halves. Its moves are the offsets of its different
//! successors, at most D, and for each action a discounted probability for each of them, 0 where it is none. Its rewards are
//! one for each action. In a grid world there are some hundred patterns however large it is, but some twenty moves and some
//! twenty rewards, of which they are made.
//!
//! *Bytes* per state, V in f32: 2 for the pattern, 8 for V read and written. Neighbouring states of different patterns read
//! different numbers at the same time. From the caches these come one line after the other; so each block first copies
//! all halves to shared memory, if they fit, where 32 threads meet only if their numbers are different and in the same bank.
//! Rows are an odd number of words apart, so that up to 32 of them never meet.

use warpkov_device::device::{Global, Parameter, Real, Shared, Word, kernel, shared, thread};

use super::{Change, Sweep, greater};
use crate::mdp::model::Iterates;

/// Where the row after one of `length` numbers begins.
#[must_use]
pub const fn row_stride(length: u32) -> u32 {
    length | 1
}

/// An array of numbers in global or in shared memory.
trait Numbers<T>: Copy {
    fn number(self, index: u32) -> T;
}

impl<T: Word> Numbers<T> for Global<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn number(self, index: u32) -> T {
        self.get(index as usize)
    }
}

impl<T: Word> Numbers<T> for Shared<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn number(self, index: u32) -> T {
        self.get(index)
    }
}

/// A model whose states all have one of some patterns, of at most D different successors.
///
/// A pattern p has moves p >> `shift` and rewards p & `mask`. Moves m have offsets `offset[m·row_stride(D)..]`, and their action a
/// has probabilities `prob[m·row_stride(A·D) + a·D..]`, A = `actions`; rewards r are `reward[r·row_stride(A)..]`.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `actions`, `moves`, `rewards` | 1 | actions; moves; rewards |
/// | `shift`, `mask` | 1 | bits of a pattern |
/// | `pattern` | S | patterns |
/// | `offset` | `moves` × row_stride(D) | states |
/// | `prob` | `moves` × row_stride(A·D) | γ P(s'\|s, a) |
/// | `reward` | `rewards` × row_stride(A) | r(s, a) |
#[derive(Clone, Copy, Parameter)]
pub struct Patterns<T> {
    /// A.
    pub actions: u32,
    /// Different moves.
    pub moves: u32,
    /// Different rewards of all actions.
    pub rewards: u32,
    /// Where the bits of moves begin in a pattern.
    pub shift: u32,
    /// The bits of rewards.
    pub mask: u32,
    /// The pattern of each state.
    pub pattern: Global<u16>,
    /// How far the successors of moves are.
    pub offset: Global<i32>,
    /// Their discounted probabilities, action by action.
    pub prob: Global<T>,
    /// Rewards, action by action.
    pub reward: Global<T>,
}

/// A sweep over patterns of at most `D` different successors.
///
/// *Thread mapping*: as [`backup_slices`](super::slices::backup_slices). *Shared memory*: if `shared_table`, room for `prob`,
/// `reward` and `offset`, dynamic. *Barriers*: one, if so. *Safety*: patterns name one of `moves` and one of
/// `rewards`; offsets lead to states; the rest as in [`Patterns`] and [`Sweep`].
#[kernel(T = [f32, f64], D = [3, 5, 7, 15])]
pub fn backup_patterns<T: Real, const D: usize>(
    states: u32,
    patterns: Patterns<T>,
    shared_table: u32,
    v: Iterates<T>,
    sweep: Sweep,
) {
    if sweep.is_done() {
        return;
    }
    let Patterns { actions, moves, rewards, shift, mask, pattern, offset, prob, reward } = patterns;
    let model = Model { actions, shift, mask, pattern, v };
    if shared_table > 0 {
        let probs = moves * row_stride(actions * D as u32);
        let rewards = rewards * row_stride(actions);
        let (own_prob, after) = shared::dynamic_shared_mem::<T>().split(probs);
        let (own_reward, after) = after.split(rewards);
        let own_offset = after.cast::<i32>();
        copy(probs, prob, own_prob);
        copy(rewards, reward, own_reward);
        copy(moves * row_stride(D as u32), offset, own_offset);
        thread::sync_threads();
        sweep.tiles(states, |first, end| model.sweep::<D>(first, end, own_offset, own_prob, own_reward));
    } else {
        sweep.tiles(states, |first, end| model.sweep::<D>(first, end, offset, prob, reward));
    }
}

/// Copies `count` numbers, all threads of the block together.
#[inline(always)]
fn copy<T: Word>(count: u32, from: Global<T>, to: Shared<T>) {
    let mut i = thread::thread_idx_x();
    while i < count {
        to.set(i, from.get(i as usize));
        i += thread::block_dim_x();
    }
}

/// What both ways to read the patterns have in common.
#[derive(Clone, Copy)]
struct Model<T: Real> {
    actions: u32,
    shift: u32,
    mask: u32,
    pattern: Global<u16>,
    v: Iterates<T>,
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
        prob: impl Numbers<T>,
        reward: impl Numbers<T>,
    ) -> Change<T> {
        let mut change = Change::NONE;
        let mut state = first + thread::thread_idx_x();
        let mut next = if state < end { self.pattern.get(state as usize) } else { 0 };
        while state < end {
            let (moves, rewards) = (u32::from(next) >> self.shift, u32::from(next) & self.mask);
            // The pattern of the next state is on its way while this one is swept.
            let after = state + thread::block_dim_x();
            if after < end {
                next = self.pattern.get(after as usize);
            }
            let mut v = [T::ZERO; D];
            for d in 0..D {
                let away = offset.number(moves * row_stride(D as u32) + d as u32);
                v[d] = self.v.old.get(state.wrapping_add_signed(away) as usize);
            }
            let mut best = T::NEG_INFINITY;
            let mut p = moves * row_stride(self.actions * D as u32);
            let r = rewards * row_stride(self.actions);
            let mut action = 0;
            while action < self.actions {
                let mut q = reward.number(r + action);
                for d in 0..D {
                    q = prob.number(p + d as u32).fma(v[d], q);
                }
                best = greater(best, q);
                p += D as u32;
                action += 1;
            }
            change = change.and(self.v.update(state, best));
            state = after;
        }
        change
    }
}
