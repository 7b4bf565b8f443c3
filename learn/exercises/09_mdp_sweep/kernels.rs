//! A sweep of value iteration, V_new(s) = maxₐ r(s, a) + Σ γ P(s'|s, a) V(s'), from five layouts of the model.

use warpkov_device::device::{Global, GlobalMut, kernel, math, shared, thread, warp};
use warpkov_device::shared_array;

/// Compressed rows: a block of 32 threads per state, one action after the other.
///
/// *Safety*: `ptr` has 4·grid + 1 elements; columns are below the length of `v`; `new` has an element per block.
// ANCHOR: block
#[kernel]
pub fn sweep_block(
    ptr: Global<u32>,
    col: Global<u32>,
    prob: Global<f32>,
    reward: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
) {
    let partial = shared_array!(block_partial: f32; 32);
    let (state, t) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let mut best = f32::NEG_INFINITY;
    for row in 4 * state..4 * state + 4 {
        let (mut entry, end) = (ptr.get(row) + t, ptr.get(row + 1));
        let mut sum = 0.0;
        while entry < end {
            sum = math::fma_f32(prob.get(entry), v.get(col.get(entry)), sum);
            entry += 32;
        }
        partial.set(t, sum);
        thread::sync_threads();
        let mut half = 16;
        while half > 0 {
            if t < half {
                partial.set(t, partial.get(t) + partial.get(t + half));
            }
            thread::sync_threads();
            half /= 2;
        }
        best = best.max(reward.get(row) + partial.get(0));
        thread::sync_threads();
    }
    if t == 0 {
        new.set(state, best);
    }
}
// ANCHOR_END: block

/// Compressed rows: a warp per state, eight lanes per row.
///
/// *Safety*: `ptr` has 4·`states` + 1 elements; columns are below `states`; `v` and `new` have `states` elements.
// ANCHOR: rows
#[kernel]
pub fn sweep_rows(
    states: u32,
    ptr: Global<u32>,
    col: Global<u32>,
    prob: Global<f32>,
    reward: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
) {
    let lane = warp::lane_id() as usize;
    let state = thread::index_1d() as usize / 32;
    let inside = state < states as usize;
    let row = 4 * state + lane / 8;
    let (mut q, mut entry, mut end) = (0.0, 0, 0);
    if inside {
        (entry, end) = (ptr.get(row) as usize + lane % 8, ptr.get(row + 1) as usize);
    }
    while entry < end {
        q = math::fma_f32(prob.get(entry), v.get(col.get(entry)), q);
        entry += 8;
    }
    // All 32 lanes take part in the sums of eight lanes and in the maximum over the four actions.
    q = warp::reduce_width(q, 8, |a, b| a + b);
    if inside {
        q += reward.get(row);
    }
    let best = warp::reduce(q, f32::max);
    if inside && lane == 0 {
        new.set(state, best);
    }
}
// ANCHOR_END: rows

/// SELL: entry j of action a of the state in lane l of slice i is element `first[i]` + (aL + j)·32 + l, its reward
/// element (4i + a)·32 + l.
///
/// *Safety*: as the chapter's `Sell` says; `v` and `new` have `states` elements.
#[kernel]
pub fn sweep_sell(
    states: u32,
    first: Global<u32>,
    col: Global<u32>,
    prob: Global<f32>,
    reward: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
) {
    // ANCHOR: part1
    // TODO: a warp per state, as in `sweep_rows`: each lane reads a sector for 4 bytes.
    let lane = warp::lane_id() as usize;
    let (action, j) = (lane / 8, lane % 8);
    let state = thread::index_1d() as usize / 32;
    let inside = state < states as usize;
    let slice = state / 32;
    let mut q = 0.0;
    if inside {
        let (begin, end) = (first.get(slice) as usize, first.get(slice + 1) as usize);
        let length = (end - begin) / 128;
        if j < length {
            let entry = begin + (action * length + j) * 32 + state % 32;
            q = prob.get(entry) * v.get(col.get(entry));
        }
    }
    q = warp::reduce_width(q, 8, |a, b| a + b);
    if inside {
        q += reward.get((4 * slice + action) * 32 + state % 32);
    }
    let best = warp::reduce(q, f32::max);
    if inside && lane == 0 {
        new.set(state, best);
    }
    // ANCHOR_END: part1
}

/// SELL with small entries: the successor is s + `offset`, the probability `palette[prob]`, the reward
/// `rewards[reward]`.
///
/// *Safety*: as the chapter's `Narrow` says; `v` and `new` have `states` elements.
#[kernel]
pub fn sweep_narrow(
    states: u32,
    first: Global<u32>,
    offset: Global<i16>,
    prob: Global<u8>,
    palette: Global<f32>,
    reward: Global<u8>,
    rewards: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
) {
    // ANCHOR: part2
    // TODO: decodes nothing, and has the mapping of `sweep_rows`.
    let lane = warp::lane_id() as usize;
    let (action, j) = (lane / 8, lane % 8);
    let state = thread::index_1d() as usize / 32;
    let inside = state < states as usize;
    let slice = state / 32;
    let mut q = 0.0;
    if inside {
        let (begin, end) = (first.get(slice) as usize, first.get(slice + 1) as usize);
        let length = (end - begin) / 128;
        if j < length {
            let entry = begin + (action * length + j) * 32 + state % 32;
            q = palette.get(prob.get(entry)) * v.get(offset.get(entry) as usize);
        }
    }
    q = warp::reduce_width(q, 8, |a, b| a + b);
    if inside {
        q += rewards.get(reward.get((4 * slice + action) * 32 + state % 32));
    }
    let best = warp::reduce(q, f32::max);
    if inside && lane == 0 {
        new.set(state, best);
    }
    // ANCHOR_END: part2
}

/// Patterns: each block copies the tables to shared memory, then takes one state per thread in a grid-stride loop.
///
/// *Safety*: as the chapter's `Patterns` says; `v` and `new` have `states` elements.
// ANCHOR: patterns
#[kernel]
pub fn sweep_patterns(
    states: u32,
    pattern: Global<u8>,
    offset: Global<i32>,
    prob: Global<f32>,
    rewards: Global<f32>,
    v: Global<f32>,
    new: GlobalMut<f32>,
) {
    // Odd strides: up to 32 rows of a table never conflict in the banks.
    let (own_prob, rest) = shared::dynamic_shared_mem::<f32>().split(16 * 21);
    let (own_rewards, rest) = rest.split(4 * 5);
    let own_offset = rest.cast::<i32>();
    let (t, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let mut i = t;
    while i < 16 * 21 {
        own_prob.set(i, prob.get(i));
        if i < 4 * 5 {
            own_rewards.set(i, rewards.get(i));
        }
        if i < 16 * 5 {
            own_offset.set(i, offset.get(i));
        }
        i += threads;
    }
    thread::sync_threads();
    let mut state = thread::index_1d() as usize;
    while state < states as usize {
        let pattern = u32::from(pattern.get(state));
        let (moves, kind) = (pattern % 16, pattern / 16);
        let mut values = [0.0; 5];
        for (d, value) in values.iter_mut().enumerate() {
            let away = own_offset.get(5 * moves + d as u32);
            *value = v.get(state.wrapping_add_signed(away as isize));
        }
        let mut best = f32::NEG_INFINITY;
        for action in 0..4 {
            let mut q = own_rewards.get(5 * kind + action);
            for (d, &value) in values.iter().enumerate() {
                q = math::fma_f32(own_prob.get(21 * moves + 5 * action + d as u32), value, q);
            }
            best = best.max(q);
        }
        new.set(state, best);
        state += (thread::grid_dim_x() * threads) as usize;
    }
}
// ANCHOR_END: patterns
