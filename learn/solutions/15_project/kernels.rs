//! The kernels of the project.

// ANCHOR: plain
use warpkov_device::device::{Global, GlobalMut, kernel, thread, warp};

/// The discount factor.
const GAMMA: f32 = 0.95;

/// The probability that a machine wears by one state.
const WEAR: f32 = 0.3;

/// The price of a new machine.
const PRICE: f32 = 20.0;

/// The smaller of the costs of keeping a machine and of replacing it: `value` in this state, `worse` in the next, `new` in
/// state 0.
#[inline(always)]
fn best(cost: f32, value: f32, worse: f32, new: f32) -> f32 {
    let keep = cost + GAMMA * (WEAR * worse + (1.0 - WEAR) * value);
    let replace = PRICE + GAMMA * new;
    keep.min(replace)
}

/// A Bellman backup of the machine-replacement chain: a thread for each state.
///
/// *Safety*: all vectors have `n` elements.
#[kernel]
pub fn backup_plain(n: u32, cost: Global<f32>, value: Global<f32>, next: GlobalMut<f32>) {
    let (s, n) = (thread::index_1d() as usize, n as usize);
    if s < n {
        let worse = value.get((s + 1).min(n - 1));
        next.set(s, best(cost.get(s), value.get(s), worse, value.get(0)));
    }
}
// ANCHOR_END: plain

// ANCHOR: fast
/// Four states of a thread. With `edge`, the last lane reads the state after its own four.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn four(n: usize, cost: Global<f32>, value: Global<f32>, next: GlobalMut<f32>, edge: bool) {
    let i = thread::index_1d() as usize;
    let first = 4 * i;
    let whole = first + 4 <= n;
    let new = value.get(0);
    let mut own = [0.0; 4];
    if whole {
        own = value.get4(i);
    } else {
        for k in 0..4 {
            if first + k < n {
                own[k] = value.get(first + k);
            }
        }
    }
    // The state after a lane's four is the first of the next lane. All lanes take part.
    let mut after = warp::shuffle_down(warp::FULL, own[0], 1);
    if edge && warp::lane_id() == warp::SIZE - 1 && first + 4 < n {
        after = value.get(first + 4);
    }
    let worse = |k: usize| {
        if first + k + 1 == n {
            own[k]
        } else if k < 3 {
            own[k + 1]
        } else {
            after
        }
    };
    if whole {
        let cost = cost.get4(i);
        next.set4(i, [0, 1, 2, 3].map(|k| best(cost[k], own[k], worse(k), new)));
    } else {
        for k in 0..4 {
            if first + k < n {
                next.set(first + k, best(cost.get(first + k), own[k], worse(k), new));
            }
        }
    }
}

/// The same backup: a thread for four states.
///
/// *Safety*: all vectors have `n` elements.
#[kernel]
pub fn backup(n: u32, cost: Global<f32>, value: Global<f32>, next: GlobalMut<f32>) {
    four(n as usize, cost, value, next, true);
}
// ANCHOR_END: fast

// ANCHOR: wrong
/// The mistake: lane 31 has no next lane, and `shuffle_down` returns its own value.
///
/// *Safety*: all vectors have `n` elements.
#[kernel]
pub fn backup_wrong(n: u32, cost: Global<f32>, value: Global<f32>, next: GlobalMut<f32>) {
    four(n as usize, cost, value, next, false);
}
// ANCHOR_END: wrong
