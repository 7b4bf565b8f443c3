//! C = A·Bᵀ: one warp starts copies, two warp groups multiply, and four tiles are on their way.

use warpkov_device::device::half::{Bf16, F16};
use warpkov_device::device::mbarrier::{Mbarrier, fence_init};
use warpkov_device::device::prelude::*;
use warpkov_device::device::shared::dynamic_shared_mem;
use warpkov_device::device::wgmma::{Accumulator, Factor};

/// Rows and columns of a tile of C, and the columns of the tiles of A and B.
pub const TILE: [u32; 3] = [128, 256, 64];

/// Bytes of a tile of A and one of B.
pub const BYTES: u32 = 2 * (TILE[0] + TILE[1]) * TILE[2];

/// Tiles of A and B that have room in shared memory.
pub const STAGES: u32 = 4;

/// C = A·Bᵀ for A and B of `n` × `k`, all by rows. Warps 0 to 3 and 4 to 7 multiply 64 rows each, warp 8 starts the copies.
///
/// *Safety*: `c` has `n`² elements, `n` is a multiple of 256, and `k` of 64. `a` and `b` are of `n` × `k`, in swizzled tiles of
/// 64 × 64 and 128 × 64.
/// Block (x, y) has the tile at row 128·y and column 256·x; its shared memory has `STAGES`·[`BYTES`] and 1024 to align them.
#[kernel(
    sm = "90a",
    T = [F16, Bf16],
    bounds(threads = 288, blocks = 1),
    requires(c.len() >= n * n, shape.block == 288, shape.shared >= 1024 + STAGES * BYTES)
)]
pub fn stages<T: Factor + Named>(n: u32, k: u32, a: TensorMap<T, 2>, b: TensorMap<T, 2>, c: GlobalMut<T>) {
    let tiles = dynamic_shared_mem::<u32>().aligned::<1024>().cast::<T>();
    let (full, free) = (shared_array!(full: u64; 4), shared_array!(free: u64; 4));
    let (warp, lane) = (warp::warp_id(), warp::lane_id());
    let (row, column) = (TILE[0] * thread::block_idx_y(), TILE[1] * thread::block_idx_x());
    if thread::thread_idx_x() == 0 {
        for stage in 0..STAGES {
            Mbarrier::at(full, stage).init(1);
            Mbarrier::at(free, stage).init(8);
        }
        fence_init();
    }
    thread::sync_threads();
    let rounds = k / TILE[2];
    let tile_of = |round: u32| tiles.split(round % STAGES * (BYTES / 2)).1;
    if warp == 8 {
        if lane == 0 {
            for round in 0..rounds {
                let full = Mbarrier::at(full, round % STAGES);
                // ANCHOR: part1
                // TODO: warps may still multiply what the stage held before.
                // ANCHOR_END: part1
                full.arrive_expecting(BYTES);
                let (tile, start) = (tile_of(round), (TILE[2] * round) as i32);
                for half in 0..2 {
                    a.load(tile, 4096 * half, [start, (row + 64 * half) as i32], full);
                    b.load(tile, 8192 * (1 + half), [start, (column + 128 * half) as i32], full);
                }
            }
        }
        return;
    }
    let first = 64 * (warp / 4);
    let mut sums = Accumulator::<128>::zeros();
    for round in 0..rounds {
        Mbarrier::at(full, round % STAGES).wait(round / STAGES % 2);
        let tile = tile_of(round);
        sums.fence();
        sums.multiply(tile.split(64 * first).1, tile.split(8192).1);
        wgmma::commit();
        // The product of the round before has ended, and this one runs on.
        sums.wait::<1>();
        if lane == 0 && round > 0 {
            Mbarrier::at(free, (round - 1) % STAGES).arrive();
        }
    }
    sums.wait::<0>();
    sums.for_pairs(|i, j, pair| c.set2(((row + first + i) * n + column + j) / 2, pair.map(T::nearest)));
}
