//! Kernels for GPUs of compute capability 9.0 and newer: clusters, bulk copies, tensor maps, products of warp groups. Each shows one primitive; the test suite runs them under emulation
//! and on such GPUs.

use atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::half::{Bf16, F16};
use warpkov_device::device::mbarrier::{Mbarrier, fence_init};
use warpkov_device::device::shared::dynamic_shared_mem;
use warpkov_device::device::tensor::swizzled;
use warpkov_device::device::wgmma::{self, Accumulator, Factor};
use warpkov_device::device::{Global, GlobalMut, Named, Real, TensorMap, Word, atomic, bulk, cluster, kernel, thread};
use warpkov_device::shared_array;

/// Bins of one block in [`cluster_histogram`].
pub const BINS: u32 = 256;

/// Passes the elements of each block to the next block of its cluster: y = x, rotated by a block within each cluster. The way there is by
/// a store, that of the results by a load.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: 128 words, static. *Barriers*: four of the cluster. *Deterministic*: yes.
/// - *Valid result in*: `y` and `z`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | threads of the grid | |
/// | `y` | threads of the grid | from the block before in the cluster |
/// | `z` | threads of the grid | from the block after |
#[kernel(
    cluster = 4,
    T = [f32, u64],
    requires(
        x.len() >= shape.threads,
        y.len() >= shape.threads,
        z.len() >= shape.threads,
        shape.block == 64,
        shape.dimensions == 1,
    )
)]
pub fn cluster_rotate<T: Word + Named>(x: Global<T>, y: GlobalMut<T>, z: GlobalMut<T>) {
    let (passed, own) = (shared_array!(rotate_passed: T; 64), shared_array!(rotate_own: T; 64));
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    let next = (cluster::rank() + 1) % cluster::size();
    // Until here, the next block may not have begun.
    cluster::sync();
    cluster::map(passed, next).set(t, x.get(i));
    own.set(t, x.get(i));
    cluster::sync();
    y.set(i, passed.get(t));
    z.set(i, cluster::map(own, next).get(t));
    // The next block keeps its memory until all have read.
    cluster::sync();
}

/// Counts of keys, in bins that are distributed over the shared memory of a cluster: block r holds the bins 256·r … 256·r + 255.
///
/// - *Thread mapping*: a grid-stride loop over keys.
/// - *Shared memory*: 256 words, static. *Barriers*: two of the cluster. *Deterministic*: yes. *Valid result in*: `counts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `keys` | n | 0 … 1023; others are not counted |
/// | `counts` | 1024 | 0 before the launch |
#[kernel(
    cluster = 4,
    requires(keys.len() >= n, counts.len() >= 4 * BINS, shape.block == 256, shape.dimensions == 1)
)]
pub fn cluster_histogram(n: u32, keys: Global<u32>, counts: GlobalMut<u32>) {
    let bins = shared_array!(histogram_bins: u32; 256);
    let (t, first) = (thread::thread_idx_x(), thread::index_1d() as usize);
    bins.set(t, 0);
    cluster::sync();
    for i in (first..n as usize).step_by((thread::grid_dim_x() * thread::block_dim_x()) as usize) {
        let key = keys.get(i);
        if key < BINS * cluster::size() {
            let bins = cluster::map(bins, key / BINS);
            u32::fetch_add((bins, key % BINS), 1, Ordering::Relaxed, Scope::Device);
        }
    }
    cluster::sync();
    atomic::add((counts, (cluster::rank() * BINS + t) as usize), bins.get(t));
}

/// Elements of a tile of [`bulk_axpy`].
pub const TILE: u32 = 512;

/// y = a·x + b, tile by tile, in a pipeline of bulk copies: two tiles are on their way to shared memory while one is computed, and the results
/// of the one before are on their way back.
///
/// - *Thread mapping*: a grid-stride loop over tiles of 512 elements; within a tile, a block-stride loop over elements.
/// - *Shared memory*: 10 KiB, static. *Barriers*: two of the block per tile, and the phases of two barriers per tile.
/// - *Deterministic*: yes. *Valid result in*: `y`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | tiles × 512 | |
/// | `y` | tiles × 512 | |
#[kernel(
    sm = 90,
    requires(x.len() >= TILE * tiles, y.len() >= TILE * tiles, shape.block == 128, shape.dimensions == 1)
)]
pub fn bulk_axpy(tiles: u32, a: f32, b: f32, x: Global<f32>, y: GlobalMut<f32>) {
    const STAGES: u32 = 3;
    let (input, output) = (shared_array!(axpy_input: f32; 1536), shared_array!(axpy_output: f32; 1024));
    let (full, free) = (shared_array!(axpy_full: u64; 3), shared_array!(axpy_free: u64; 3));
    let (t, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    if t == 0 {
        for stage in 0..STAGES {
            Mbarrier::at(full, stage).init(1);
            Mbarrier::at(free, stage).init(threads);
        }
        fence_init();
    }
    thread::sync_threads();
    let (first, stride) = (thread::block_idx_x(), thread::grid_dim_x());
    let load = |round: u32, tile: u32| {
        let (stage, full) = (round % STAGES, Mbarrier::at(full, round % STAGES));
        full.arrive_expecting(4 * TILE);
        bulk::load(input, stage * TILE, x, (tile * TILE) as usize, TILE, full);
    };
    if t == 0 {
        for round in 0..STAGES - 1 {
            if first + round * stride < tiles {
                load(round, first + round * stride);
            }
        }
    }
    let (mut round, mut tile) = (0, first);
    while tile < tiles {
        let stage = round % STAGES;
        let ahead = round + STAGES - 1;
        if t == 0 && tile + (STAGES - 1) * stride < tiles {
            // All threads have read what the stage held before.
            Mbarrier::at(free, ahead % STAGES).wait((ahead / STAGES + 1) % 2);
            load(ahead, tile + (STAGES - 1) * stride);
        }
        Mbarrier::at(full, stage).wait(round / STAGES % 2);
        let (from, to) = (stage * TILE, round % 2 * TILE);
        for i in (t..TILE).step_by(threads as usize) {
            output.set(to + i, input.get(from + i).fma(a, b));
        }
        Mbarrier::at(free, stage).arrive();
        bulk::fence();
        thread::sync_threads();
        if t == 0 {
            bulk::store(y, (tile * TILE) as usize, output, to, TILE);
            bulk::commit();
            // The copy before this one has read the other half.
            bulk::wait_read::<1>();
        }
        thread::sync_threads();
        round += 1;
        tile += stride;
    }
    if t == 0 {
        bulk::wait_read::<0>();
    }
}

/// The rows of a matrix in the order of `order`: each thread copies a row to shared memory and, after all have come, another one back.
///
/// - *Thread mapping*: one block; thread r copies rows r and 31 − r.
/// - *Shared memory*: 4 KiB, static. *Barriers*: two of the block. *Deterministic*: yes. *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | 32 × 64 | f16 |
/// | `order` | 32 | 0 … 31 |
/// | `out` | 32 × 64 | |
#[kernel(sm = 90, requires(x.len() >= 2048, order.len() >= 32, out.len() >= 2048, shape.grid == 1, shape.block == 32))]
pub fn bulk_rows(x: Global<F16>, order: Global<u32>, out: GlobalMut<F16>) {
    let (rows, full) = (shared_array!(bulk_matrix: F16; 2048), Mbarrier::at(shared_array!(bulk_full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(32);
        fence_init();
    }
    thread::sync_threads();
    full.arrive_expecting(128);
    bulk::load(rows, 64 * t, x, 64 * order.get(t) as usize, 64, full);
    while !full.try_wait(0) {}
    let other = 31 - t;
    bulk::store(out, 64 * other as usize, rows, 64 * other, 64);
    bulk::commit();
    bulk::wait::<0>();
}

/// The tile of a tensor that begins at (x, y, z), of 256 elements in the order of the tile. Elements outside of the tensor are 0.
///
/// - *Thread mapping*: one block; one thread per element.
/// - *Shared memory*: 2 KiB, static. *Barriers*: one of the block. *Deterministic*: yes. *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `tensor` | any; a tile of 256 elements | |
/// | `x` | | a multiple of 4 |
/// | `swizzled_tile` | | 1 if the tile is swizzled |
/// | `out` | 256 | |
#[kernel(sm = 90, R = [1, 2, 3], requires(out.len() >= 256, shape.grid == 1, shape.block == 256, shape.dimensions == 1))]
pub fn tensor_tile<const R: usize>(
    tensor: TensorMap<f32, R>,
    x: i32,
    y: i32,
    z: i32,
    swizzled_tile: u32,
    out: GlobalMut<f32>,
) {
    let tile = shared_array!(tensor_tile: f32; 512).aligned::<1024>();
    let (t, full) = (thread::thread_idx_x(), Mbarrier::at(shared_array!(tensor_full: u64; 1), 0));
    if t == 0 {
        full.init(1);
        fence_init();
        full.arrive_expecting(1024);
        let mut at = [0; R];
        for (axis, from) in [x, y, z].into_iter().enumerate() {
            if axis < R {
                at[axis] = from;
            }
        }
        tensor.load(tile, 0, at, full);
    }
    thread::sync_threads();
    full.wait(0);
    out.set(t, tile.get(if swizzled_tile == 1 { swizzled(4 * t) / 4 } else { t }));
}

/// Two tiles of a matrix, one after another, to both blocks of a cluster by one copy each, which the block of rank 0 starts.
///
/// - *Thread mapping*: one cluster; a thread of each block per element of a tile.
/// - *Shared memory*: 384 bytes and two barriers, static. *Barriers*: two of the cluster; per tile, one of the block and one phase of two.
/// - *Deterministic*: yes. *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `tensor` | 8 × 16, tiles of 4 × 16 | |
/// | `out` | 2 × 2 × 64 | tiles, then blocks |
#[kernel(sm = 90, cluster = 2, requires(out.len() >= 256, shape.grid == 2, shape.block == 64, shape.dimensions == 1))]
pub fn tensor_multicast(tensor: TensorMap<u32, 2>, out: GlobalMut<u32>) {
    let tile = shared_array!(multicast_tile: u32; 96).aligned::<128>();
    let barriers = shared_array!(multicast_barriers: u64; 2);
    let (full, free) = (Mbarrier::at(barriers, 0), Mbarrier::at(barriers, 1));
    let (t, rank) = (thread::thread_idx_x(), cluster::rank());
    if t == 0 {
        full.init(1);
        free.init(2);
        fence_init();
    }
    cluster::sync();
    for round in 0..2 {
        if t == 0 {
            full.arrive_expecting(256);
            if rank == 0 {
                // Both blocks have read what was there before.
                free.wait_for_blocks((round + 1) % 2);
                tensor.load_to_blocks(tile, 0, [0, 4 * round as i32], full, 0b11);
            }
        }
        full.wait(round % 2);
        out.set(64 * (2 * round + rank) + t, tile.get(t));
        thread::sync_threads();
        if t == 0 {
            free.arrive_at(0);
        }
    }
    // The block of rank 0 keeps its barrier until the other has arrived.
    cluster::sync();
}

/// Rows of the result of a block of [`wgmma_matmul`].
pub const ROWS: u32 = 64;

/// Columns of the result of a block.
pub const COLUMNS: u32 = 128;

/// Columns of both factors that a block multiplies at a time.
pub const DEPTH: u32 = 64;

/// Stages of the pipeline of [`wgmma_matmul`].
pub const STAGES: u32 = 3;

/// Dynamic shared memory of [`wgmma_matmul`] in bytes: tiles of both factors for each stage, and room to align them.
pub const PRODUCT_SHARED: u32 = 1024 + STAGES * 2 * (ROWS + COLUMNS) * DEPTH;

/// C = A·Bᵀ, a tile of 64 × 128 per block: the copy engine brings tiles of A and B, and a warp group multiplies them, at the same time.
///
/// - *Mathematics*: c\[i\]\[j\] = Σₖ a\[i\]\[k\]·b\[j\]\[k\], products exact, sums in f32.
/// - *Thread mapping*: warps 0 to 3 multiply; the first thread of warp 4 starts the copies of the tiles, up to three ahead. Block (x, y) has
///   the tile at row 64·y, column 128·x.
/// - *Shared memory*: [`PRODUCT_SHARED`] bytes, dynamic; 6 words, static. *Barriers*: one of the block; per tile, one phase of two barriers.
/// - *Deterministic*: yes, on one GPU model. *Valid result in*: `c`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `a` | m × k, tiles of 64 × 64, swizzled | |
/// | `b` | n × k, tiles of 128 × 64, swizzled | |
/// | `c` | m × n | |
///
/// *Launch*: ⌈n / 128⌉ × ⌈m / 64⌉ blocks.
#[kernel(
    sm = "90a",
    T = [F16, Bf16],
    requires(
        c.len() >= m * n,
        shape.grid.x * COLUMNS >= n,
        shape.grid.y * ROWS >= m,
        shape.block == 160,
        shape.shared >= PRODUCT_SHARED,
    )
)]
pub fn wgmma_matmul<T: Factor + Named>(
    m: u32,
    n: u32,
    k: u32,
    a: TensorMap<T, 2>,
    b: TensorMap<T, 2>,
    c: GlobalMut<f32>,
) {
    let tiles = dynamic_shared_mem::<u32>().aligned::<1024>().cast::<T>();
    let (full, free) = (shared_array!(matmul_full: u64; 3), shared_array!(matmul_free: u64; 3));
    let t = thread::thread_idx_x();
    let (row, column) = (thread::block_idx_y() * ROWS, thread::block_idx_x() * COLUMNS);
    if t == 0 {
        for stage in 0..STAGES {
            Mbarrier::at(full, stage).init(1);
            Mbarrier::at(free, stage).init(128);
        }
        fence_init();
    }
    thread::sync_threads();
    let rounds = k.div_ceil(DEPTH);
    let tile_of = |stage: u32| tiles.split(stage * (ROWS + COLUMNS) * DEPTH).1;
    if t >= 128 {
        if t == 128 {
            for round in 0..rounds {
                let (stage, full) = (round % STAGES, Mbarrier::at(full, round % STAGES));
                // All threads have multiplied what the stage held before.
                Mbarrier::at(free, stage).wait((round / STAGES + 1) % 2);
                full.arrive_expecting(2 * (ROWS + COLUMNS) * DEPTH);
                let at = (round * DEPTH) as i32;
                a.load(tile_of(stage), 0, [at, row as i32], full);
                b.load(tile_of(stage), ROWS * DEPTH, [at, column as i32], full);
            }
        }
        return;
    }
    let mut sums = Accumulator::<64>::zeros();
    for round in 0..rounds {
        let stage = round % STAGES;
        Mbarrier::at(full, stage).wait(round / STAGES % 2);
        let (left, right) = tile_of(stage).split(ROWS * DEPTH);
        sums.fence();
        sums.multiply(left, right);
        wgmma::commit();
        sums.wait::<0>();
        Mbarrier::at(free, stage).arrive();
    }
    sums.for_elements(|i, j, sum| {
        if row + i < m && column + j < n {
            c.set((row + i) as usize * n as usize + (column + j) as usize, sum);
        }
    });
}

/// D = A·Bᵀ for one tile of each, in shared memory written by ordinary stores, with two groups of products in flight where there are
/// registers for both.
///
/// - *Thread mapping*: one warp group.
/// - *Shared memory*: 1 KiB and the tiles, dynamic. *Barriers*: one of the block. *Deterministic*: yes, on one GPU model.
/// - *Valid result in*: `d`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `a` | 64 × 64 | |
/// | `b` | 2·REGISTERS × 64 | |
/// | `d` | 2 × 64 × 2·REGISTERS | A·Bᵀ; 2·A·Bᵀ |
#[kernel(
    sm = "90a",
    REGISTERS = [16, 32, 128],
    requires(
        a.len() >= 4096,
        b.len() >= 128 * REGISTERS,
        d.len() >= 256 * REGISTERS,
        shape.grid == 1,
        shape.block == 128,
        shape.dimensions == 1,
        shape.shared >= 1024 + 8192 + 256 * REGISTERS,
    )
)]
pub fn wgmma_tile<const REGISTERS: usize>(a: Global<F16>, b: Global<F16>, d: GlobalMut<f32>) {
    let (left, right) = dynamic_shared_mem::<u32>().aligned::<1024>().cast::<F16>().split(4096);
    let t = thread::thread_idx_x();
    for i in (t..4096).step_by(128) {
        left.set(swizzled(2 * i) / 2, a.get(i));
    }
    for i in (t..128 * REGISTERS as u32).step_by(128) {
        right.set(swizzled(2 * i) / 2, b.get(i));
    }
    bulk::fence();
    thread::sync_threads();
    macro_rules! products {
        ($($registers:literal, $together:literal;)*) => {
            match REGISTERS {
                $($registers => {
                    let columns = Accumulator::<$registers>::COLUMNS;
                    let store = |first: u32| move |i, j, sum| d.set((first + i) * columns + j, sum);
                    let mut once = Accumulator::<$registers>::zeros();
                    once.fence();
                    once.multiply(left, right);
                    wgmma::commit();
                    if !$together {
                        once.wait::<0>();
                        once.for_elements(store(0));
                    }
                    let mut twice = Accumulator::<$registers>::zeros();
                    twice.fence();
                    twice.multiply(left, right);
                    twice.multiply(left, right);
                    wgmma::commit();
                    if $together {
                        once.wait::<1>();
                        once.for_elements(store(0));
                    }
                    twice.wait::<0>();
                    twice.for_elements(store(64));
                })*
                _ => {}
            }
        };
    }
    // Two large accumulators need more registers than a thread has.
    products!(16, true; 32, true; 128, false;);
}
