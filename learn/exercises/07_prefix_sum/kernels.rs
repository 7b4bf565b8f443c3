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
    // TODO: this is the scan of Hillis and Steele over all 1024 elements: ten steps, each with two barriers.
    let t = thread::thread_idx_x();
    for k in 0..4 {
        sums.set(4 * t + k, values[k as usize]);
    }
    thread::sync_threads();
    let mut distance = 1;
    while distance < TILE {
        // Neighbouring threads have neighbouring elements in this loop.
        let next = [0, 1, 2, 3].map(|k| {
            let i = THREADS * k + t;
            if i >= distance { sums.get(i - distance) + sums.get(i) } else { sums.get(i) }
        });
        thread::sync_threads();
        for k in 0..4 {
            sums.set(THREADS * k + t, next[k as usize]);
        }
        thread::sync_threads();
        distance *= 2;
    }
    let through = [0, 1, 2, 3].map(|k| sums.get(4 * t + k));
    let total = sums.get(TILE - 1);
    thread::sync_threads();
    (through, total)
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
    // TODO: one thread adds one tile after another.
    if t == 0 {
        let mut before = 0;
        for tile in 0..tiles as usize {
            let own = sums.get(tile);
            sums.set(tile, before);
            before += own;
        }
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
    // TODO: which tiles have begun when this block waits for them?
    let tile = thread::block_idx_x();
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
    // TODO: nothing orders the number of the tile before and its flag, and every tile waits for the one before.
    if warp::warp_id() == 0 && warp::lane_id() == 0 {
        aggregates.set(tile, total);
        atomic::store((flags, tile as usize), AGGREGATE, Ordering::Relaxed, Scope::Device);
        let mut before = 0;
        if tile > 0 {
            while atomic::load((flags, tile as usize - 1), Ordering::Relaxed, Scope::Device) != PREFIX {}
            before = prefixes.get(tile as usize - 1);
        }
        prefixes.set(tile, before + total);
        atomic::store((flags, tile as usize), PREFIX, Ordering::Relaxed, Scope::Device);
        word.set(0, before);
    }
    // ANCHOR_END: part3
    thread::sync_threads();
    let before = word.get(0);
    each_piece!(PIECE, {
        store(first + PIECE * TILE as usize, n, y, values[PIECE].map(|sum| before + sum));
    });
}
