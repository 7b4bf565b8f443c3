//! Block Divided Iteration: value iteration on blocks of states whose values stay in shared memory for several sweeps.
//!
//! Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), section 3.2.1, Algorithm 2, with the buffering and
//! the prioritizing enhancement of section 3.3.
//!
//! *Mathematics*: the states are divided into blocks. A launch reads V_old and runs, for each block alone, several
//! sweeps V(s) ← max r(s, a) + γ Σ P(s'|s, a) V(s') over the block's states. Successors inside the block are read from
//! shared memory, as of the previous sweep; all other successors keep their value in V_old. The launch then writes
//! V_new. Among each other, the blocks perform a Jacobi iteration, independent of the order in which they run. A launch
//! that updates every state is a contraction with modulus γ: its fixed point is V*, and ‖V − V*‖∞ ≤ ‖V_new − V_old‖∞ γ
//! / (1 − γ).
//!
//! *Change*: a launch reports the change over all its sweeps, V_new − V_old. (The change of the last sweep alone would
//! be small in a block that has converged against outdated values of its neighbours.)
//!
//! *Buffering*: a block copies the outside values that it needs to shared memory once, after its own values. Buffering
//! changes where values are read, not the values.
//!
//! *Prioritizing*: a thread owns two to five states. A pass updates the state of the highest eligibility Δ(s) + U_c /
//! n(s), where Δ(s) is |ΔV(s)| of its last update and n(s) the number of its updates in this launch. Every state is
//! thus updated once before any is updated twice, and no launch leaves out a state that would still change.
//!
//! *Layout*: a block has `cells` cells for states; cell c of block b is position p = b·`cells` + c. Empty cells and
//! terminal states have no actions. The rows of position p start at `first_row`\[p\] and its entries at
//! `first_entry`\[p\], each `stride` elements apart. A stride of 32 interleaves neighbouring positions, which makes the
//! accesses of a warp coalesced.
//!
//! *Bytes* per sweep of n entries and m rows, f32 and 32-bit offsets: 8n + 8m + 12S. A launch reads from device memory
//! only those bytes that the L1 cache does not keep between sweeps.

use warpkov_device::device::{Global, GlobalMut, Offset, Parameter, Real, Shared, kernel, math, shared, thread};

use super::change::Extremes;
use super::model::Iterates;

/// A model divided into blocks of states.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `actions` | positions | actions; 0 for an empty cell or a terminal state |
/// | `first_row`, `first_entry` | positions | elements |
/// | `stride` | scalar | elements, ≥ 1 |
/// | `reward` | rows, with gaps | r(s, a) |
/// | `length` | rows, with gaps | entries |
/// | `place` | entries, with gaps | < `resident`: element of shared memory; else `resident` + position |
/// | `prob` | entries, with gaps | P(s'\|s, a) |
/// | `resident` | scalar | elements of shared memory, ≥ cells per block |
/// | `buffer_ptr` | blocks + 1 | elements of `buffer`, ascending |
/// | `buffer` | buffered successors | positions; at most `resident` − cells per block |
/// | `gamma` | scalar | discount per step, in \[0, 1\] |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(stride >= 1))]
#[parameter(
    holds(blocks, cells),
    requires(
        actions.len() >= blocks * cells,
        first_row.len() >= blocks * cells,
        first_entry.len() >= blocks * cells,
        resident >= cells,
        buffer_ptr.len() >= blocks + 1,
    )
)]
pub struct Blocks<T, O> {
    /// Number of actions of each position.
    pub actions: Global<u32>,
    /// First row of each position.
    pub first_row: Global<O>,
    /// First entry of each position.
    pub first_entry: Global<O>,
    /// Distance between consecutive rows, or entries, of a position.
    pub stride: u32,
    /// r(s, a) of each row.
    pub reward: Global<T>,
    /// Number of entries of each row.
    pub length: Global<u32>,
    /// Location of each entry's successor: in shared memory if below `resident`, else at position `place − resident` of
    /// V_old.
    pub place: Global<u32>,
    /// Probability of each entry.
    pub prob: Global<T>,
    /// Values in shared memory: those of the block's cells and of its buffer.
    pub resident: u32,
    /// Block b buffers the positions `buffer[buffer_ptr[b]..buffer_ptr[b + 1]]`.
    pub buffer_ptr: Global<O>,
    /// Positions of buffered values.
    pub buffer: Global<u32>,
    /// γ, the discount factor.
    pub gamma: f64,
}

/// The model and V_old, as a block reads them.
#[derive(Clone, Copy)]
struct Model<T, O> {
    blocks: Blocks<T, O>,
    v_old: Global<T>,
}

impl<T: Real, O: Offset> Model<T, O> {
    /// Copies the values of the block's states, then those of its buffer, to shared memory.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: one.
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
            values.set(cells + i, self.v_old.get(buffer.get(start + i as usize)));
            i += threads;
        }
        thread::sync_threads();
        values
    }

    /// Bellman backup: the largest Q-factor; 0 without actions.
    #[inline(always)]
    fn backup(self, position: usize, values: Shared<T>) -> T {
        self.largest(position, values, 0, 1)
    }

    /// The largest Q-factor of the actions `lane`, `lane` + `lanes`, …; without any, 0 for lane 0 and else −∞.
    #[inline(always)]
    fn largest(self, position: usize, values: Shared<T>, lane: u32, lanes: u32) -> T {
        let actions = self.blocks.actions.get(position);
        let stride = self.blocks.stride as usize;
        let mut row = self.blocks.first_row.get(position).to_usize();
        let mut entry = self.blocks.first_entry.get(position).to_usize();
        let mut value = if lane == 0 { 0.0 } else { f64::NEG_INFINITY };
        let mut action = 0;
        let mut own = lane;
        while action < actions {
            let mut left = self.blocks.length.get(row);
            if action < own {
                entry += left as usize * stride;
            } else {
                let mut expected = 0.0;
                while left > 0 {
                    let place = self.blocks.place.get(entry);
                    let successor = if place < self.blocks.resident {
                        values.get(place)
                    } else {
                        self.v_old.get(place - self.blocks.resident)
                    };
                    expected = math::fma(self.blocks.prob.get(entry).to_f64(), successor.to_f64(), expected);
                    entry += stride;
                    left -= 1;
                }
                let q = math::fma(self.blocks.gamma, expected, self.blocks.reward.get(row).to_f64());
                if action == lane || q > value {
                    value = q;
                }
                own += lanes;
            }
            row += stride;
            action += 1;
        }
        T::from_f64(value)
    }

    /// V_new − V_old of a position; NaN without actions.
    #[inline(always)]
    fn change(self, position: usize, value: T) -> T {
        if self.blocks.actions.get(position) == 0 { T::from_f64(f64::NAN) } else { value - self.v_old.get(position) }
    }
}

/// `passes` passes over every block of states; in each pass a thread updates one of its states.
///
/// - *Thread mapping*: one thread block per block of states; of B threads, thread t owns the `per_thread` cells t, t +
///   B, …. With one cell per thread a pass is a sweep.
/// - *Shared memory*: in elements of T, dynamic: `resident` values and, if `per_thread` > 1, eligibility and number of
///   updates of each cell.
/// - *Barriers*: two per pass, and one. *Deterministic*: yes. *Valid result in*: `v.new` and `change`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `per_thread` | scalar | cells per thread, ≥ 1 |
/// | `passes` | scalar | passes |
/// | `update_constant` | scalar | U_c ≥ 0, reward |
/// | `blocks` | [`Blocks`], `per_thread`·B cells per block | |
/// | `extremes` | [`Extremes`] | |
/// | `v` | positions, [`Iterates`] | reward |
/// | `change` | positions | ΔV, reward or NaN |
///
/// *Launch*: one block per block of states.
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        per_thread >= 1,
        blocks.holds(shape.grid, per_thread * shape.block),
        v.holds(shape.threads * per_thread),
        change.len() >= shape.threads * per_thread,
        shape.shared >= blocks.resident * size_of::<T>(),
        if per_thread > 1 { shape.shared >= (blocks.resident + 2 * per_thread * shape.block) * size_of::<T>() },
        shape.grid.x == shape.grid,
        shape.dimensions <= 2,
    )
)]
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
    // Each thread accesses the eligibility and the update counts of its own cells only: no barrier needed.
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
        let value = model.backup(first + chosen as usize, values);
        // All threads have read the values of the previous sweep.
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

/// `sweeps` sweeps over every block of states, with `lanes` threads for each state: the hybrid with Result Divided Iteration that the
/// source proposes in chapter 7.
///
/// - *Mathematics*: as [`sweep_blocks`] with one state per thread, whose values have the same bits.
/// - *Thread mapping*: one thread block per block of states; thread l · `cells` + c computes the Q-factors of the actions l, l + `lanes`, … of
///   cell c, and the first `cells` threads take the largest. Neighbouring threads read interleaved rows of neighbouring states.
/// - *Shared memory*: in elements of T, dynamic: `resident` values, and a Q-factor per thread.
/// - *Barriers*: two per sweep, and one. *Deterministic*: yes. *Valid result in*: `v.new` and `change`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `cells` | scalar | states per block, ≥ 1 |
/// | `lanes` | scalar | threads per state, ≥ 1 |
/// | `sweeps` | scalar | sweeps |
/// | `blocks` | [`Blocks`], `cells` cells per block | |
/// | `extremes` | [`Extremes`] | |
/// | `v` | positions, [`Iterates`] | reward |
/// | `change` | positions | ΔV, reward or NaN |
///
/// *Launch*: one block per block of states.
#[kernel(
    T = [f32, f64], O = [u32, u64],
    requires(
        cells >= 1,
        lanes >= 1,
        shape.block == cells * lanes,
        blocks.holds(shape.grid, cells),
        v.holds(shape.grid * cells),
        change.len() >= shape.grid * cells,
        shape.shared >= (blocks.resident + cells * lanes) * size_of::<T>(),
        shape.grid.x == shape.grid,
        shape.dimensions <= 2,
    )
)]
pub fn sweep_actions<T: Real, O: Offset>(
    cells: u32,
    lanes: u32,
    sweeps: u32,
    blocks: Blocks<T, O>,
    extremes: Extremes,
    v: Iterates<T>,
    change: GlobalMut<T>,
) {
    if extremes.met() {
        return;
    }
    let model = Model { blocks, v_old: v.old };
    let t = thread::index_in_block();
    let (cell, lane) = (t % cells, t / cells);
    let position = thread::block_idx_x() as usize * cells as usize + cell as usize;
    let values = model.load(cells);
    let factors = blocks.resident;
    let mut sweep = 0;
    while sweep < sweeps {
        values.set(factors + t, model.largest(position, values, lane, lanes));
        // All threads have read the values of the previous sweep.
        thread::sync_threads();
        if lane == 0 {
            let mut value = values.get(factors + cell);
            let mut other = cell + cells;
            while other < cells * lanes {
                let q = values.get(factors + other);
                if q > value {
                    value = q;
                }
                other += cells;
            }
            values.set(cell, value);
        }
        thread::sync_threads();
        sweep += 1;
    }
    if lane == 0 {
        let value = values.get(cell);
        v.new.set(position, value);
        change.set(position, model.change(position, value));
    }
}
