//! C = A·Bᵀ: a warp group per tile of C. The copy engine brings the tiles of A and B.

use warpkov_device::device::half::{Bf16, F16};
use warpkov_device::device::mbarrier::{Mbarrier, fence_init};
use warpkov_device::device::prelude::*;
use warpkov_device::device::shared::dynamic_shared_mem;
use warpkov_device::device::wgmma::{Accumulator, Factor};

/// Rows and columns of a tile of C, and the columns of the tiles of A and B.
pub const TILE: [u32; 3] = [64, 128, 64];

/// Bytes of a tile of A and one of B.
pub const BYTES: u32 = 2 * (TILE[0] + TILE[1]) * TILE[2];

/// C = A·Bᵀ for A and B of `n` × `k`, all by rows: a block of one warp group per tile of C.
///
/// *Safety*: `c` has `n`² elements, `n` is a multiple of 128, and `k` of 64. `a` and `b` are of `n` × `k`, in swizzled tiles of
/// 64 × 64 and 128 × 64.
/// Block (x, y) has the tile at row 64·y and column 128·x; its shared memory has [`BYTES`] and 1024 to align them.
#[kernel(sm = "90a", T = [F16, Bf16], requires(c.len() >= n * n, shape.block == 128, shape.shared >= 1024 + BYTES))]
pub fn warp_group<T: Factor + Named>(n: u32, k: u32, a: TensorMap<T, 2>, b: TensorMap<T, 2>, c: GlobalMut<T>) {
    let (left, right) = dynamic_shared_mem::<u32>().aligned::<1024>().cast::<T>().split(TILE[0] * TILE[2]);
    let (t, full) = (thread::thread_idx_x(), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let (row, column) = (TILE[0] * thread::block_idx_y(), TILE[1] * thread::block_idx_x());
    if t == 0 {
        full.init(1);
        fence_init();
    }
    thread::sync_threads();
    let mut sums = Accumulator::<64>::zeros();
    for round in 0..k / TILE[2] {
        if t == 0 {
            full.arrive_expecting(BYTES);
            let start = (TILE[2] * round) as i32;
            a.load(left, 0, [start, row as i32], full);
            b.load(right, 0, [start, column as i32], full);
        }
        full.wait(round % 2);
        // ANCHOR: part1
        // TODO: the tiles have come; start their product, end the group, and wait.
        sums.fence();
        // ANCHOR_END: part1
        thread::sync_threads();
    }
    sums.for_pairs(|i, j, pair| c.set2(((row + i) * n + column + j) / 2, pair.map(T::nearest)));
}
