//! The greedy sweep over compressed rows, several lanes per row; for long rows.
//!
//! *Bytes* per row of n entries, f32: 8n for P, 4 for r, 4 or 8 for the row pointer, and the gathers of V.

use warpkov_device::device::{Offset, Real, kernel, math, shared, thread};

use super::{Change, Sweep, greater};
use crate::mdp::model::{Iterates, Model};

/// A sweep over compressed rows. A tile holds at most as many states as a block has threads.
///
/// - *Mathematics*: V_new(s) = maxₐ r(s, a) + γ Σ P(s'|s, a) V_old(s').
/// - *Thread mapping*: as [`improve`](crate::mdp::improve::improve): a block processes the rows of a tile in chunks,
///   `LANES` lanes per row; then one thread per state takes the maximum.
/// - *Shared memory*: one f64 per row of a chunk, dynamic; 32 words, static.
/// - *Barriers*: two per chunk, and those of [`Sweep::tiles`]. *Deterministic*: yes.
/// - *Valid result in*: `v.new` from `start` on, and the slots of `sweep`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `model` | [`Model`] | |
/// | `v` | [`Iterates`] | |
/// | `sweep` | [`Sweep`] | `tiles.len` ≤ B |
/// | `start` | scalar | multiple of `sweep.tiles.len` |
#[kernel(
    T = [f32, f64], O = [u32, u64], LANES = [1, 2, 4, 8, 16, 32],
    requires(
        model.holds(states),
        v.holds(states),
        sweep.holds(states),
        start % sweep.tiles.len == 0,
        sweep.tiles.len <= shape.block,
        shape.shared >= 8 * shape.block / LANES,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn backup_rows<T: Real, O: Offset, const LANES: u32>(
    states: u32,
    model: Model<T, O>,
    v: Iterates<T>,
    sweep: Sweep,
    start: u32,
) {
    let Model { choices, rows, reward, gamma } = model;
    let q = shared::dynamic_shared_mem::<f64>();
    let t = thread::thread_idx_x();
    let per_chunk = (thread::block_dim_x() / LANES) as usize;
    sweep.tiles(start, states, |first, end| {
        let state = first + t;
        let (mut chunk, rows_end) = (choices.first(first as usize), choices.first(end as usize));
        let (own, own_end) = if state < end {
            (choices.first(state as usize), choices.first(state as usize + 1))
        } else {
            (rows_end, rows_end)
        };
        let mut best = T::NEG_INFINITY;
        while chunk < rows_end {
            let row = chunk + (t / LANES) as usize;
            let inside = row < rows_end;
            let expected = rows.expect::<LANES>(inside.then_some(row), v.old);
            if inside && t.is_multiple_of(LANES) {
                q.set(t / LANES, math::fma(gamma, expected, reward.get(row).to_f64()));
            }
            thread::sync_threads();
            let mut row = own.max(chunk);
            while row < own_end.min(chunk + per_chunk) {
                best = greater(best, T::from_f64(q.get((row - chunk) as u32)));
                row += 1;
            }
            thread::sync_threads();
            chunk += per_chunk;
        }
        if state < end { v.update(state, best) } else { Change::NONE }
    });
}
