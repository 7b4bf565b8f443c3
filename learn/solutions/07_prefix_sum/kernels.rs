//! Prefix sums on the GPU. A block of 256 threads scans a tile of 1024 elements; thread t holds the elements
//! 4t … 4t + 3.

use warpkov_device::device::atomic::{self, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, Shared, kernel, shared, thread, warp};
use warpkov_device::shared_array;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Elements of a tile.
pub const TILE: u32 = 4 * THREADS;

/// Elements `first … first + 3`, with 0 beyond the end.
#[inline(always)]
fn load(first: usize, n: u32, x: Global<u32>) -> [u32; 4] {
    if first + 4 <= n as usize {
        return x.get4(first / 4);
    }
    [0, 1, 2, 3].map(|k| if first + k < n as usize { x.get(first + k) } else { 0 })
}

/// Writes elements `first … first + 3`, up to the end.
#[inline(always)]
fn store(first: usize, n: u32, y: GlobalMut<u32>, values: [u32; 4]) {
    if first + 4 <= n as usize {
        return y.set4(first / 4, values);
    }
    for (k, value) in values.into_iter().enumerate() {
        if first + k < n as usize {
            y.set(first + k, value);
        }
    }
}

/// The inclusive prefix sums of the block's tile, and the sum of the tile. It may be called again at once: it ends with a
/// barrier after its last access to `sums`, which has 1024 elements.
#[inline(always)]
fn scan_block(values: [u32; 4], sums: Shared<u32>) -> ([u32; 4], u32) {
    // ANCHOR: part1
    let (lane, warp_id) = (warp::lane_id(), warp::warp_id());
    let mut through = values;
    for k in 1..4 {
        through[k] += through[k - 1];
    }
    // The sums of the threads, up to the own one, within the warp.
    let mut in_warp = through[3];
    let mut distance = 1;
    while distance < warp::SIZE {
        let below = warp::shuffle_up(warp::FULL, in_warp, distance);
        if lane >= distance {
            in_warp += below;
        }
        distance *= 2;
    }
    if lane == warp::SIZE - 1 {
        sums.set(warp_id, in_warp);
    }
    thread::sync_threads();
    // Every warp scans the sums of the warps.
    let sum = if lane < THREADS / warp::SIZE { sums.get(lane) } else { 0 };
    let warps = warp::inclusive_scan(sum, |a, b| a + b);
    thread::sync_threads();
    let before_warp = warp::shuffle(warp::FULL, warps - sum, warp_id);
    let before = before_warp + in_warp - through[3];
    (through.map(|sum| before + sum), warp::shuffle(warp::FULL, warps, warp::SIZE - 1))
    // ANCHOR_END: part1
}

/// Inclusive prefix sums of each tile.
///
/// *Safety*: x and y have `n` elements; 4096 bytes of dynamic shared memory.
#[kernel]
pub fn scan_tiles(n: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let first = 4 * thread::index_1d() as usize;
    let (through, _) = scan_block(load(first, n, x), shared::dynamic_shared_mem());
    store(first, n, y, through);
}

/// The sum of each tile.
///
/// *Safety*: x has `n` elements, `sums` one per tile; 4096 bytes of dynamic shared memory.
#[kernel]
pub fn tile_sums(n: u32, x: Global<u32>, sums: GlobalMut<u32>) {
    let first = 4 * thread::index_1d() as usize;
    let (_, total) = scan_block(load(first, n, x), shared::dynamic_shared_mem());
    if thread::thread_idx_x() == 0 {
        sums.set(thread::block_idx_x(), total);
    }
}

/// Replaces the sum of each tile by the sum of all tiles before it. One block.
///
/// *Safety*: `sums` has `tiles` elements; 4096 bytes of dynamic shared memory.
#[kernel]
pub fn scan_sums(tiles: u32, sums: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    // ANCHOR: part2
    let mut before = 0;
    let mut start = 0;
    while start < tiles {
        let first = start + 4 * t;
        let values = [0, 1, 2, 3].map(|k| if first + k < tiles { sums.get(first + k) } else { 0 });
        let (through, total) = scan_block(values, shared::dynamic_shared_mem());
        for k in 0..4 {
            if first + k < tiles {
                sums.set(first + k, before + through[k as usize] - values[k as usize]);
            }
        }
        before += total;
        start += TILE;
    }
    // ANCHOR_END: part2
}

/// Inclusive prefix sums, from the sum of all tiles before each tile.
///
/// *Safety*: x and y have `n` elements, `sums` one per tile; 4096 bytes of dynamic shared memory.
#[kernel]
pub fn add_sums(n: u32, x: Global<u32>, sums: Global<u32>, y: GlobalMut<u32>) {
    let first = 4 * thread::index_1d() as usize;
    let before = sums.get(thread::block_idx_x());
    let (through, _) = scan_block(load(first, n, x), shared::dynamic_shared_mem());
    store(first, n, y, through.map(|sum| before + sum));
}

/// Elements of a tile of [`scan_once`]: eight pieces of [`TILE`], so that it looks back less often.
pub const LARGE_TILE: u32 = 8 * TILE;

/// Repeats the body for the pieces 0 … 7 of a large tile. The indices are then constants, so that arrays stay in registers.
macro_rules! each_piece {
    ($piece:ident, $body:block) => { each_piece!($piece in [0 1 2 3 4 5 6 7] $body) };
    ($piece:ident in [$($value:literal)*] $body:block) => {$({ const $piece: usize = $value; $body })*};
}

/// The state of a tile: it has released its aggregate, the sum of its elements.
pub const AGGREGATE: u32 = 1;

/// The state of a tile: it has released its prefix, the sum of all elements up to its end.
pub const PREFIX: u32 = 2;

/// Inclusive prefix sums in one pass.
///
/// *Safety*: x and y have `n` elements, `aggregates` and `prefixes` one per large tile; `flags` has one element more, a
/// counter, and all of them are 0 at first; 4096 bytes of dynamic shared memory.
#[kernel]
pub fn scan_once(
    n: u32,
    x: Global<u32>,
    flags: GlobalMut<u32>,
    aggregates: GlobalMut<u32>,
    prefixes: GlobalMut<u32>,
    y: GlobalMut<u32>,
) {
    let t = thread::thread_idx_x();
    let word = shared_array!(scan_once_word: u32; 1);
    // ANCHOR: tile
    if t == 0 {
        word.set(0, atomic::add((flags, thread::grid_dim_x() as usize), 1));
    }
    thread::sync_threads();
    let tile = word.get(0);
    thread::sync_threads();
    // ANCHOR_END: tile
    let first = (tile * LARGE_TILE + 4 * t) as usize;
    let mut values = [[0; 4]; 8];
    // All loads are on their way before the first scan.
    each_piece!(PIECE, {
        values[PIECE] = load(first + PIECE * TILE as usize, n, x);
    });
    let mut total = 0;
    each_piece!(PIECE, {
        let (through, sum) = scan_block(values[PIECE], shared::dynamic_shared_mem());
        values[PIECE] = through.map(|own| total + own);
        total += sum;
    });
    // ANCHOR: part3
    if warp::warp_id() == 0 {
        if t == 0 {
            aggregates.set(tile, total);
            atomic::store((flags, tile as usize), AGGREGATE, Ordering::Release, Scope::Device);
        }
        // The sum of the tiles from `end` to the own one, which excludes the own one.
        let mut before = 0;
        let mut end = tile;
        while end > 0 {
            // Lane t looks at tile end − 1 − t. Before the first tile, the prefix is 0.
            let (mut state, mut value) = (PREFIX, 0);
            if t < end {
                let other = (end - 1 - t) as usize;
                state = atomic::load((flags, other), Ordering::Acquire, Scope::Device);
                while state == 0 {
                    state = atomic::load((flags, other), Ordering::Acquire, Scope::Device);
                }
                value = if state == PREFIX { prefixes.get(other) } else { aggregates.get(other) };
            }
            // The nearest prefix, and all aggregates between it and the own tile.
            let found = warp::ballot(warp::FULL, state == PREFIX);
            let nearest = found.trailing_zeros();
            before += warp::sum_u32(warp::FULL, if t <= nearest { value } else { 0 });
            end = if found == 0 { end - warp::SIZE } else { 0 };
        }
        if t == 0 {
            prefixes.set(tile, before + total);
            atomic::store((flags, tile as usize), PREFIX, Ordering::Release, Scope::Device);
            word.set(0, before);
        }
    }
    // ANCHOR_END: part3
    thread::sync_threads();
    let before = word.get(0);
    each_piece!(PIECE, {
        store(first + PIECE * TILE as usize, n, y, values[PIECE].map(|sum| before + sum));
    });
}
