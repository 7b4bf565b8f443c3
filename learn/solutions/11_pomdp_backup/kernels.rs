//! The best α-vector of each belief, i*(j) = argmaxᵢ b_j · αᵢ.

use warpkov_device::device::{Global, GlobalMut, Shared, kernel, math, shared, thread, warp};

/// Threads of a block.
pub const THREADS: u32 = 128;
/// Beliefs of a tile.
pub const TILE: u32 = 16;
/// Words between two states of a tile in shared memory: a multiple of 4, with fewer bank conflicts than 16.
pub const PITCH: u32 = 20;

// ANCHOR: each
/// Unrolls a loop over 16 beliefs: its indices are then constants, so that arrays stay in registers.
macro_rules! each {
    ($name:ident, $body:block) => { each!($name in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] $body) };
    ($name:ident in [$($value:literal)*] $body:block) => {$({ const $name: usize = $value; $body })*};
}
// ANCHOR_END: each

// ANCHOR: key
/// An integer that orders by score; of equal scores, that of the smaller index is the larger. Never 0.
#[inline(always)]
fn key(score: f32, index: u32) -> u64 {
    // Adding 0 turns −0 into +0: equal scores then have equal bits.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(!index)
}

/// The index of a key.
#[inline(always)]
fn index_of(key: u64) -> u32 {
    !(key as u32)
}
// ANCHOR_END: key

// ANCHOR: tile
/// Copies 16 beliefs from `first` on to shared memory: b_{first + k}(s) at s·[`PITCH`] + k; 0 behind the last belief.
///
/// *Takes part*: every thread of the block. *Barriers*: one.
#[inline(always)]
fn load_tile(beliefs: u32, states: u32, first: u32, belief: Global<f32>) -> Shared<f32> {
    let tile = shared::dynamic_shared_mem::<f32>();
    let mut element = thread::thread_idx_x();
    while element < TILE * states {
        let (k, s) = (element / states, element % states);
        let inside = first + k < beliefs;
        let place = (first + k) as usize * states as usize + s as usize;
        tile.set(s * PITCH + k, if inside { belief.get(place) } else { 0.0 });
        element += thread::block_dim_x();
    }
    thread::sync_threads();
    tile
}

/// The scores of vector i for the 16 beliefs of a tile.
#[inline(always)]
fn scores_of(tile: Shared<f32>, states: u32, vectors: u32, alpha: Global<f32>, i: u32) -> [f32; 16] {
    let mut sums = [0.0; 16];
    for s in 0..states {
        let a = alpha.get(s as usize * vectors as usize + i as usize);
        for quad in 0..4 {
            let b = tile.get4(s * PITCH / 4 + quad as u32);
            for k in 0..4 {
                sums[4 * quad + k] = math::fma_f32(b[k], a, sums[4 * quad + k]);
            }
        }
    }
    sums
}
// ANCHOR_END: tile

// ANCHOR: part1
/// The largest keys of 16 beliefs, from those of each thread: calls `each` once per belief.
///
/// *Takes part*: every thread of the block. *Barriers*: one.
#[inline(always)]
fn reduce_tile(best: [u64; 16], each: impl Fn(u32, u64)) {
    let keys = warpkov_device::shared_array!(best_keys: u64; 2048);
    each!(K, {
        keys.set(THREADS * K as u32 + thread::thread_idx_x(), best[K]);
    });
    thread::sync_threads();
    // Each of four warps reduces the keys of four beliefs.
    let lane = warp::lane_id();
    for part in 0..4 {
        let k = 4 * warp::warp_id() + part;
        let mut found = 0;
        for quarter in 0..4 {
            found = found.max(keys.get(THREADS * k + 32 * quarter + lane));
        }
        found = warp::reduce(found, u64::max);
        if lane == 0 {
            each(k, found);
        }
    }
}

/// The best vector of each belief: a block per 16 beliefs, a thread per vector, then the vector 128 further on.
///
/// *Safety*: as the chapter's `Model` says; `winners` has B elements; blocks of [`THREADS`] threads; 4·[`PITCH`]·S
/// bytes of dynamic shared memory.
#[kernel]
pub fn best_of_product(
    beliefs: u32,
    states: u32,
    vectors: u32,
    belief: Global<f32>,
    alpha: Global<f32>,
    winners: GlobalMut<u32>,
) {
    let first = TILE * thread::block_idx_x();
    let tile = load_tile(beliefs, states, first, belief);
    // A thread's vectors come in ascending order: of equal scores it keeps the first one's.
    let (mut best, mut place) = ([f32::NEG_INFINITY; 16], [u32::MAX; 16]);
    let mut i = thread::thread_idx_x();
    while i < vectors {
        let scores = scores_of(tile, states, vectors, alpha, i);
        each!(K, {
            if scores[K] > best[K] {
                (best[K], place[K]) = (scores[K], i);
            }
        });
        i += THREADS;
    }
    let mut keys = [0; 16];
    each!(K, {
        keys[K] = key(best[K], place[K]);
    });
    reduce_tile(keys, |k, found| {
        if first + k < beliefs {
            winners.set(first + k, index_of(found));
        }
    });
}
// ANCHOR_END: part1

// ANCHOR: part2
/// Raises `keys[j]` to the largest key of belief j: a block per 16 beliefs and 128 vectors, a thread per vector.
///
/// *Safety*: as for `best_of_product`; `keys` has B elements.
#[kernel]
pub fn raise_keys(
    beliefs: u32,
    states: u32,
    vectors: u32,
    belief: Global<f32>,
    alpha: Global<f32>,
    keys: GlobalMut<u64>,
) {
    let first = TILE * thread::block_idx_y();
    let tile = load_tile(beliefs, states, first, belief);
    let i = THREADS * thread::block_idx_x() + thread::thread_idx_x();
    let mut best = [0; 16];
    if i < vectors {
        let scores = scores_of(tile, states, vectors, alpha, i);
        each!(K, {
            best[K] = key(scores[K], i);
        });
    }
    reduce_tile(best, |k, found| {
        if first + k < beliefs {
            warpkov_device::device::atomic::max((keys, (first + k) as usize), found);
        }
    });
}

/// The vectors of the keys.
///
/// *Safety*: `keys` and `winners` have B elements.
#[kernel]
pub fn read_keys(beliefs: u32, keys: Global<u64>, winners: GlobalMut<u32>) {
    let j = thread::index_1d() as usize;
    if j < beliefs as usize {
        winners.set(j, index_of(keys.get(j)));
    }
}
// ANCHOR_END: part2
