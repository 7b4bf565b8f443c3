//! C = A·Bᵀ: as many blocks as run at the same time go through all tiles, in an order that lets tiles of A and B stay in the L2 cache.

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

/// Row and column of the `i`-th of `edge` × `edge` squares of 256 × 256, two tiles each.
#[inline(always)]
pub fn square(edge: u32, i: u32) -> (u32, u32) {
    // ANCHOR: part1
    // TODO: row by row, the clusters that run at the same time need all of B.
    (i / edge, i % edge)
    // ANCHOR_END: part1
}

/// C = A·Bᵀ for A and B of `n` × `k`, all by rows. Warps 0 to 3 and 4 to 7 multiply 64 rows each, warp 8 starts the copies.
///
/// *Safety*: `c` has `n`² elements, `n` is a multiple of 256, and `k` of 64. `a` and `b` are of `n` × `k`, in swizzled tiles of
/// 64 × 64 and 128 × 64.
/// A cluster of two blocks has a square of 256 × 256 at a time; a block's shared memory has `STAGES`·[`BYTES`] and 1024 to align them.
#[kernel(
    sm = "90a",
    cluster = 2,
    T = [F16, Bf16],
    bounds(threads = 288, blocks = 1),
    requires(c.len() >= n * n, shape.block == 288, shape.dimensions == 1, shape.shared >= 1024 + STAGES * BYTES)
)]
pub fn order<T: Factor + Named>(n: u32, k: u32, a: TensorMap<T, 2>, b: TensorMap<T, 2>, c: GlobalMut<T>) {
    let tiles = dynamic_shared_mem::<u32>().aligned::<1024>().cast::<T>();
    let (full, free) = (shared_array!(full: u64; 4), shared_array!(free: u64; 4));
    let (warp, lane, rank) = (warp::warp_id(), warp::lane_id(), cluster::rank());
    if thread::thread_idx_x() == 0 {
        for stage in 0..STAGES {
            Mbarrier::at(full, stage).init(1);
            Mbarrier::at(free, stage).init(16);
        }
        fence_init();
    }
    cluster::sync();
    let (edge, rounds) = (n / TILE[1], k / TILE[2]);
    let tile_of = |step: u32| tiles.split(step % STAGES * (BYTES / 2)).1;
    let (first, clusters) = (thread::block_idx_x() / 2, thread::grid_dim_x() / 2);
    let place = |i: u32| {
        let (down, across) = square(edge, i);
        (TILE[0] * (2 * down + rank), TILE[1] * across)
    };
    // Steps of all squares count on.
    let mut step = 0;
    if warp == 8 {
        if lane == 0 {
            for i in (first..edge * edge).step_by(clusters as usize) {
                let (row, column) = place(i);
                for round in 0..rounds {
                    let full = Mbarrier::at(full, step % STAGES);
                    // The warps of both blocks have multiplied what the stage held before.
                    Mbarrier::at(free, step % STAGES).wait_for_blocks((step / STAGES + 1) % 2);
                    full.arrive_expecting(BYTES);
                    let (tile, start) = (tile_of(step), (TILE[2] * round) as i32);
                    for half in 0..2 {
                        a.load(tile, 4096 * half, [start, (row + 64 * half) as i32], full);
                    }
                    b.load_to_blocks(tile, 8192 * (1 + rank), [start, (column + 128 * rank) as i32], full, 0b11);
                    step += 1;
                }
            }
        }
    } else {
        let release = |step: u32| {
            if lane == 0 {
                let free = Mbarrier::at(free, step % STAGES);
                free.arrive_at(0);
                free.arrive_at(1);
            }
        };
        for i in (first..edge * edge).step_by(clusters as usize) {
            let (row, column) = place(i);
            let mut sums = Accumulator::<128>::zeros();
            for round in 0..rounds {
                Mbarrier::at(full, step % STAGES).wait(step / STAGES % 2);
                let tile = tile_of(step);
                sums.fence();
                sums.multiply(tile.split(4096 * (warp / 4)).1, tile.split(8192).1);
                wgmma::commit();
                // The product of the round before has ended, and this one runs on.
                sums.wait::<1>();
                if round > 0 {
                    release(step - 1);
                }
                step += 1;
            }
            sums.wait::<0>();
            release(step - 1);
            let row = row + 64 * (warp / 4);
            sums.for_pairs(|i, j, pair| c.set2(((row + i) * n + column + j) / 2, pair.map(T::nearest)));
        }
    }
    // Each block keeps its shared memory until the other has done with it.
    cluster::sync();
}
