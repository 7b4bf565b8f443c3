//! The greedy sweep over compressed rows: several lanes per row, for rows of some length.
//!
//! *Bytes* per row of n entries, f32: 8·n for P, 4 for r, 4 or 8 for the offset; gathers of V.

use crate::device::{Global, GlobalMut, Offset, Real, kernel, math, shared, thread};

use super::{Change, Control, Values, greater};
use crate::mdp::choices::Choices;
use crate::mdp::row::Rows;

/// A sweep over compressed rows; its tiles are the states of a block.
///
/// *Thread mapping*: as [`improve`](crate::mdp::improve::improve): the rows of a tile in chunks, `LANES` lanes per row, then
/// one thread per state compares; tiles are at most as long as a block. *Shared memory*: one f64 per row of a chunk
/// (`block_dim_x / LANES`), dynamic. *Safety*: as there and in [`Control`].
#[kernel(T = [f32, f64], O = [u32, u64], LANES = [1, 2, 4, 8, 16, 32])]
pub fn backup_rows<T: Real, O: Offset, const LANES: u32>(
    states: u32,
    actions: u32,
    offsets: Global<O>,
    row_ptr: Global<O>,
    col: Global<u32>,
    prob: Global<T>,
    reward: Global<T>,
    gamma: f64,
    v_old: Global<T>,
    v_new: GlobalMut<T>,
    sweep: u32,
    stop: Global<f64>,
    slots: GlobalMut<u64>,
    tile: u32,
    skip: u32,
    needs_ptr: Global<u32>,
    needs: Global<u32>,
    changed_old: Global<u32>,
    changed_new: GlobalMut<u32>,
) {
    let control = Control { sweep, stop, slots, tile, skip, needs_ptr, needs, changed_old, changed_new };
    let values = Values { old: v_old, new: v_new };
    let q = shared::dynamic_shared_mem::<f64>();
    let rows = Rows { row_ptr, col, prob };
    let choices = Choices { actions, offsets };
    let t = thread::thread_idx_x();
    let per_chunk = (thread::block_dim_x() / LANES) as usize;
    control.tiles(states, |first, end| {
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
            let expected = rows.expect::<LANES>(inside.then_some(row), v_old);
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
        if state < end { values.update(state, best) } else { Change::NONE }
    });
}
