//! Block Divided Iteration: value iteration in blocks of states whose values stay in shared memory for several sweeps.
//!
//! Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), section 3.2.1, Algorithm 2, with the buffering and the
//! prioritizing enhancement of section 3.3.
//!
//! *Mathematics*: the states are divided into blocks. A launch takes V_old and does, for every block alone, a number of
//! sweeps V(s) ← max r(s, a) + γ Σ P(s'|s, a) V(s') over the block's states. Successors inside the block are read from
//! shared memory, as of the sweep before; all others keep their value in V_old. Then V_new is written. So blocks are a
//! Jacobi iteration among each other, whatever the order in which they run, and a launch is a contraction with modulus γ
//! as long as it updates every state: its fixed point is V*, and ‖V − V*‖∞ ≤ ‖V_new − V_old‖∞ γ / (1 − γ).
//!
//! *The change* of a launch is that of all its sweeps together, V_new − V_old. (That of the last sweep alone would be small
//! where a block has settled on values of its neighbours that are long out of date.) What a solver reports is the change
//! of a full sweep, [`sweep_once`], which it does when a launch has changed little.
//!
//! *Buffering*: values from outside that a block needs are copied to shared memory once, after its own. It changes where
//! values are read, not what they are.
//!
//! *Prioritizing*: a thread has two to five states, and a pass updates the one of the highest eligibility
//! Δ(s) + U_c / n(s), with Δ(s) the |ΔV(s)| of its last update and n(s) the number of its updates in this launch: so each
//! is updated once before any is updated twice, and a launch cannot leave out a state that would still change.
//!
//! *Layout*: a block has `cells` places for states, and state `cell` of block b is number p = b·`cells` + `cell`. Places may
//! be empty, with no action, as are those of terminal states. A position p has its rows from `first_row`\[p\], and the
//! entries of all of them from `first_entry`\[p\], each `stride` elements from the next. With a stride of 32, neighbours
//! are interleaved: the lanes of a warp read neighbouring elements.
//!
//! *Bytes* of a sweep of n entries and m rows, f32 and 32-bit offsets: 8n + 8m + 12S; of those, a launch reads from device
//! memory what the level-1 cache does not keep from sweep to sweep.

use warpkov_device::device::{Global, GlobalMut, Offset, Parameter, Real, Shared, kernel, math, shared, thread};

use super::change::Extremes;
use super::choices::NO_ACTION;
use super::model::Iterates;

/// A model in blocks of states.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `actions` | positions | actions |
/// | `first_row`, `first_entry` | positions | elements |
/// | `stride` | 1 | elements |
/// | `reward` | rows, with gaps | r(s, a) |
/// | `length` | rows, with gaps | entries |
/// | `place` | entries, with gaps | elements of shared memory, or positions |
/// | `prob` | entries, with gaps | P(s'\|s, a) |
/// | `resident` | 1 | elements of shared memory |
/// | `buffer_ptr` | blocks + 1 | elements of `buffer` |
/// | `buffer` | successors outside | positions |
/// | `gamma` | 1 | discount for a step |
#[derive(Clone, Copy, Parameter)]
pub struct Blocks<T, O> {
    /// Actions of each position; 0 where there is no state, or a terminal one.
    pub actions: Global<u32>,
    /// First row of each position.
    pub first_row: Global<O>,
    /// First entry of each position.
    pub first_entry: Global<O>,
    /// From a row, or an entry, of a position to the next.
    pub stride: u32,
    /// r(s, a) of each row.
    pub reward: Global<T>,
    /// Number of entries of each row.
    pub length: Global<u32>,
    /// Where the value of each entry's successor is: below `resident` in shared memory, else that much further in V_old.
    pub place: Global<u32>,
    /// Probability of each entry.
    pub prob: Global<T>,
    /// Values in shared memory: those of a block, and of its buffer.
    pub resident: u32,
    /// Block b buffers the values at positions `buffer[buffer_ptr[b]..buffer_ptr[b + 1]]`.
    pub buffer_ptr: Global<O>,
    /// See `buffer_ptr`.
    pub buffer: Global<u32>,
    /// γ.
    pub gamma: f64,
}

/// The model as a block sees it, and V_old.
#[derive(Clone, Copy)]
struct Model<T, O> {
    blocks: Blocks<T, O>,
    v_old: Global<T>,
}

impl<T: Real, O: Offset> Model<T, O> {
    /// Copies what this block reads to shared memory: the values of its states, then those of its buffer.
    #[inline(always)]
    fn load(self, cells: u32) -> Shared<T> {
        let Blocks { buffer_ptr, buffer, .. } = self.blocks;
        let values = shared::dynamic_shared_mem::<T>();
        let (t, threads) = (thread::index_in_block(), thread::block_size());
        let first = thread::block_idx_x() as usize * cells as usize;
        let mut cell = t;
        while cell < cells {
            values.set(cell, self.v_old.get(first + cell as usize));
            cell += threads;
        }
        let block = thread::block_idx_x() as usize;
        let start = buffer_ptr.get(block).to_usize();
        let count = (buffer_ptr.get(block + 1).to_usize() - start) as u32;
        let mut i = t;
        while i < count {
            values.set(cells + i, self.v_old.get(buffer.get(start + i as usize) as usize));
            i += threads;
        }
        thread::sync_threads();
        values
    }

    /// The first action of the largest Q-factor, and that Q-factor; 0 where there is no action.
    #[inline(always)]
    fn backup(self, position: usize, values: Shared<T>) -> (u32, T) {
        let actions = self.blocks.actions.get(position);
        let mut row = self.blocks.first_row.get(position).to_usize();
        let mut entry = self.blocks.first_entry.get(position).to_usize();
        let (mut best, mut value) = (NO_ACTION, 0.0);
        let mut action = 0;
        while action < actions {
            let mut left = self.blocks.length.get(row);
            let mut expected = 0.0;
            while left > 0 {
                let place = self.blocks.place.get(entry);
                let successor = if place < self.blocks.resident {
                    values.get(place)
                } else {
                    self.v_old.get((place - self.blocks.resident) as usize)
                };
                expected = math::fma(self.blocks.prob.get(entry).to_f64(), successor.to_f64(), expected);
                entry += self.blocks.stride as usize;
                left -= 1;
            }
            let q = math::fma(self.blocks.gamma, expected, self.blocks.reward.get(row).to_f64());
            if action == 0 || q > value {
                (best, value) = (action, q);
            }
            row += self.blocks.stride as usize;
            action += 1;
        }
        (best, T::from_f64(value))
    }

    /// V_new − V_old of a position; not a number where there is no action.
    #[inline(always)]
    fn change(self, position: usize, value: T) -> T {
        if self.blocks.actions.get(position) == 0 { T::from_f64(f64::NAN) } else { value - self.v_old.get(position) }
    }
}

/// `passes` passes over every block, in each of which a thread updates one of its states.
///
/// *Thread mapping*: one block per block of states, in any shape; thread t has the cells t, t + B, … of B threads, and
/// `per_thread` of them. With one, a pass is a sweep. *Shared memory*, dynamic, in elements of T: `resident` values, and
/// where `per_thread` > 1, the eligibility and the number of updates of each cell. *Barriers*: two per pass, and one.
/// *Deterministic*: yes.
/// *Safety*: `cells` is `per_thread` · B; there are `cells` positions per block, and as many elements of `v` and `change`; a
/// block's buffer has at most `resident − cells` elements; the rest as in [`Blocks`].
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn sweep_blocks<T: Real, O: Offset>(
    per_thread: u32,
    passes: u32,
    update_constant: f64,
    blocks: Blocks<T, O>,
    extremes: Extremes,
    v: Iterates<T>,
    change: GlobalMut<T>,
) {
    if extremes.met() {
        return;
    }
    let model = Model { blocks, v_old: v.old };
    let (t, threads) = (thread::index_in_block(), thread::block_size());
    let cells = threads * per_thread;
    let first = thread::block_idx_x() as usize * cells as usize;
    let values = model.load(cells);
    // Only this thread touches what belongs to its cells: no barrier is needed for these two.
    let (eligibility, updates) = (blocks.resident, blocks.resident + cells);
    if per_thread > 1 {
        let mut cell = t;
        while cell < cells {
            let empty = blocks.actions.get(first + cell as usize) == 0;
            values.set(eligibility + cell, T::from_f64(if empty { f64::NEG_INFINITY } else { f64::INFINITY }));
            values.set(updates + cell, T::ZERO);
            cell += threads;
        }
    }
    let mut pass = 0;
    while pass < passes {
        let mut chosen = t;
        if per_thread > 1 {
            let mut highest = values.get(eligibility + t);
            let mut cell = t + threads;
            while cell < cells {
                let other = values.get(eligibility + cell);
                if other > highest {
                    (chosen, highest) = (cell, other);
                }
                cell += threads;
            }
        }
        let (_, value) = model.backup(first + chosen as usize, values);
        // All have read the values of the sweep before.
        thread::sync_threads();
        if per_thread > 1 {
            let count = values.get(updates + chosen) + T::ONE;
            let difference = (value - values.get(chosen)).abs();
            values.set(updates + chosen, count);
            values.set(eligibility + chosen, difference + T::from_f64(update_constant) / count);
        }
        values.set(chosen, value);
        thread::sync_threads();
        pass += 1;
    }
    let mut cell = t;
    while cell < cells {
        let (position, value) = (first + cell as usize, values.get(cell));
        v.new.set(position, value);
        change.set(position, model.change(position, value));
        cell += threads;
    }
}

/// One full sweep V_new ← T V_old over all states, and the greedy actions of V_old.
///
/// *Thread mapping*: as [`sweep_blocks`]; a thread goes through all its states. *Shared memory*: `resident` elements of T,
/// dynamic. *Barriers*: one. *Deterministic*: yes.
/// *Safety*: as [`sweep_blocks`]; `policy` has `cells` elements per block.
#[kernel(T = [f32, f64], O = [u32, u64])]
pub fn sweep_once<T: Real, O: Offset>(
    per_thread: u32,
    blocks: Blocks<T, O>,
    v: Iterates<T>,
    change: GlobalMut<T>,
    policy: GlobalMut<u32>,
) {
    let model = Model { blocks, v_old: v.old };
    let cells = thread::block_size() * per_thread;
    let first = thread::block_idx_x() as usize * cells as usize;
    let values = model.load(cells);
    let mut cell = thread::index_in_block();
    while cell < cells {
        let position = first + cell as usize;
        let (action, value) = model.backup(position, values);
        v.new.set(position, value);
        change.set(position, model.change(position, value));
        policy.set(position, action);
        cell += thread::block_size();
    }
}
