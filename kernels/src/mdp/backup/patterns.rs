//! The greedy sweep over a model in which many states have the same rows relative to themselves: one pattern number per
//! state.
//!
//! A pattern holds all rows of a state, with successors relative to the state, in two halves. Its *moves* are the
//! offsets of its different successors, at most D, and one discounted probability per action and successor, 0 if the
//! action does not lead there. Its *rewards* are one number per action. A grid world has some hundred patterns,
//! independent of its size, composed of some twenty moves and some twenty rewards.
//!
//! *Bytes* per state, V in f32: 2 for the pattern, 8 to read and write V. Lanes of a warp that have different patterns
//! read different table rows at the same time. The caches would serve these one line after another; so each block first
//! copies both tables to shared memory, if they fit. There, lanes conflict only if they read different words of the
//! same bank. The stride of the table rows is odd, so that up to 32 rows never conflict.

use warpkov_device::device::{Global, Parameter, Real, Shared, Word, kernel, shared, thread};

use super::{Change, Sweep, greater};
use crate::mdp::model::Iterates;

/// Stride of table rows of `length` numbers: odd, to avoid bank conflicts.
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
        self.get(index)
    }
}

impl<T: Word> Numbers<T> for Shared<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn number(self, index: u32) -> T {
        self.get(index)
    }
}

/// A model in which each state has one of several patterns, with at most D different successors.
///
/// Pattern p has the moves m = p >> `shift` and the rewards q = p & `mask`. The offsets of m start at
/// `offset[m·row_stride(D)]`, and the probabilities of its action a at `prob[m·row_stride(A·D) + a·D]`, with A =
/// `actions`. The rewards q start at `reward[q·row_stride(A)]`.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `actions` | scalar | A |
/// | `moves`, `rewards` | scalar | number of different moves; of different rewards |
/// | `shift`, `mask` | scalar | bits of a pattern |
/// | `pattern` | S | moves below `moves`, rewards below `rewards` |
/// | `offset` | `moves` × row_stride(D) | states; s + offset is below S |
/// | `prob` | `moves` × row_stride(A·D) | γ P(s'\|s, a) |
/// | `reward` | `rewards` × row_stride(A) | r(s, a) |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(reward.len() >= rewards * row_stride(actions)))]
pub struct Patterns<T> {
    /// A.
    pub actions: u32,
    /// Number of different moves.
    pub moves: u32,
    /// Number of different rewards (one number per action).
    pub rewards: u32,
    /// Lowest bit of the moves in a pattern.
    pub shift: u32,
    /// Bits of the rewards in a pattern.
    pub mask: u32,
    /// Pattern of each state.
    pub pattern: Global<u16>,
    /// Offsets of the successors of each move.
    pub offset: Global<i32>,
    /// Discounted probabilities of each move, action by action.
    pub prob: Global<T>,
    /// Rewards, action by action.
    pub reward: Global<T>,
}

/// A sweep over patterns of at most `D` different successors.
///
/// - *Mathematics*: V_new(s) = maxₐ r(s, a) + γ Σ P(s'|s, a) V_old(s').
/// - *Thread mapping*: as [`backup_slices`](super::slices::backup_slices).
/// - *Shared memory*: `prob`, `reward` and `offset` if `shared_table`, dynamic; 32 words, static.
/// - *Barriers*: one if `shared_table`, and those of [`Sweep::tiles`]. *Deterministic*: yes.
/// - *Valid result in*: `v.new` from `start` on, and the slots of `sweep`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `patterns` | [`Patterns`] | |
/// | `shared_table` | scalar | 1 or 0 |
/// | `v` | [`Iterates`] | |
/// | `sweep` | [`Sweep`] | |
/// | `start` | scalar | multiple of `sweep.tiles.len` |
#[kernel(
    T = [f32, f64], D = [3, 5, 7, 15],
    requires(
        patterns.pattern.len() >= states,
        patterns.offset.len() >= patterns.moves * row_stride(D as u32),
        patterns.prob.len() >= patterns.moves * row_stride(patterns.actions * D as u32),
        if shared_table > 0 {
            shape.shared >= size_of::<T>() * (patterns.moves * row_stride(patterns.actions * D as u32)
                + patterns.rewards * row_stride(patterns.actions)) + 4 * patterns.moves * row_stride(D as u32)
        },
        v.holds(states),
        sweep.holds(states),
        start % sweep.tiles.len == 0,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn backup_patterns<T: Real, const D: usize>(
    states: u32,
    patterns: Patterns<T>,
    shared_table: u32,
    v: Iterates<T>,
    sweep: Sweep,
    start: u32,
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
        sweep.tiles(start, states, |first, end| model.sweep::<D>(first, end, own_offset, own_prob, own_reward));
    } else {
        sweep.tiles(start, states, |first, end| model.sweep::<D>(first, end, offset, prob, reward));
    }
}

/// Copies `count` numbers to shared memory.
///
/// *Takes part*: every thread of the block.
#[inline(always)]
fn copy<T: Word>(count: u32, from: Global<T>, to: Shared<T>) {
    let mut i = thread::thread_idx_x();
    while i < count {
        to.set(i, from.get(i));
        i += thread::block_dim_x();
    }
}

/// The part of a sweep that does not depend on the memory of the tables.
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
        let mut next = if state < end { self.pattern.get(state) } else { 0 };
        while state < end {
            let (moves, rewards) = (u32::from(next) >> self.shift, u32::from(next) & self.mask);
            // Prefetch the pattern of the next state.
            let after = state + thread::block_dim_x();
            if after < end {
                next = self.pattern.get(after);
            }
            let mut v = [T::ZERO; D];
            for d in 0..D {
                let away = offset.number(moves * row_stride(D as u32) + d as u32);
                v[d] = self.v.old.get(state.wrapping_add_signed(away));
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
