//! Greedy policy improvement.
//!
//! *Mathematics*: Q(s, a) = r(s, a) + γ Σ P(s'|s, a) V(s'). A state keeps its action unless another action's Q-factor
//! exceeds its own by more than a tolerance. Then the action of the largest Q-factor wins; the lowest number breaks
//! ties.
//!
//! *Bytes*: reads the whole model and V once.

use warpkov_device::device::{Global, GlobalMut, Offset, Real, atomic, kernel, math, shared, thread};

use super::model::Model;

/// Improves the policy of every state and counts the states whose action changed.
///
/// `states_per_block` = 1 and `LANES` = 1 give the plain version of the original program: one block per state, one
/// thread per action. More states per block fill the block if states have few actions; more lanes per action share long
/// rows.
///
/// - *Thread mapping*: a block processes the rows of its states in order, `LANES` lanes per row, in chunks of B /
///   `LANES` rows for B threads. After each chunk, one thread per state compares the Q-factors.
/// - *Shared memory*: one f64 per row of a chunk, dynamic. *Barriers*: two per chunk, and one.
/// - *Deterministic*: yes. *Valid result in*: `policy` and `changed`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `states` | scalar | S |
/// | `states_per_block` | scalar | 1 … B |
/// | `model` | [`Model`] | |
/// | `v` | S | reward |
/// | `tie` | scalar | tolerance ≥ 0, reward |
/// | `policy` | S | actions of each state |
/// | `changed` | 1 | states; incremented |
#[kernel(
    T = [f32, f64], O = [u32, u64], LANES = [1, 2, 4, 8, 16, 32],
    requires(
        model.holds(states),
        v.len() >= states,
        policy.len() >= states,
        changed.len() >= 1,
        states_per_block >= 1,
        states_per_block <= shape.block,
        shape.grid * states_per_block >= states,
        shape.shared >= 8 * shape.block / LANES,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn improve<T: Real, O: Offset, const LANES: u32>(
    states: u32,
    states_per_block: u32,
    model: Model<T, O>,
    v: Global<T>,
    tie: f64,
    policy: GlobalMut<u32>,
    changed: GlobalMut<u64>,
) {
    let Model { choices, rows, reward, gamma } = model;
    let q = shared::dynamic_shared_mem::<f64>();
    let t = thread::thread_idx_x();
    let first = thread::block_idx_x() as usize * states_per_block as usize;
    let here = (states as usize - first).min(states_per_block as usize) as u32;
    // The state that this thread compares for, if any: its present action.
    let compares = t < here;
    let old = if compares { policy.get(first + t as usize) } else { 0 };
    // Rows of the block, and rows of this thread's state.
    let (mut chunk, end) = (choices.first(first), choices.first(first + here as usize));
    let (own, own_end) =
        if compares { (choices.first(first + t as usize), choices.first(first + t as usize + 1)) } else { (end, end) };
    let (mut old_q, mut best_q, mut best) = (f64::NEG_INFINITY, f64::NEG_INFINITY, 0);

    let per_chunk = (thread::block_dim_x() / LANES) as usize;
    while chunk < end {
        let row = chunk + (t / LANES) as usize;
        let inside = row < end;
        let expected = rows.expect::<LANES>(inside.then_some(row), v);
        if inside && t.is_multiple_of(LANES) {
            q.set(t / LANES, math::fma(gamma, expected, reward.get(row).to_f64()));
        }
        thread::sync_threads();
        let mut row = own.max(chunk);
        while row < own_end.min(chunk + per_chunk) {
            let (action, value) = ((row - own) as u32, q.get((row - chunk) as u32));
            if action == old {
                old_q = value;
            }
            if value > best_q {
                (best_q, best) = (value, action);
            }
            row += 1;
        }
        thread::sync_threads();
        chunk += per_chunk;
    }

    let improves = compares && best_q > old_q + tie;
    if improves {
        policy.set(first + t as usize, best);
    }
    let count = thread::sync_threads_count(improves);
    if t == 0 && count > 0 {
        atomic::add((changed, 0), u64::from(count));
    }
}
