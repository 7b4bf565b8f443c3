//! C = A·B on the GPU, five times. All matrices are row-major, n × n.

use warpkov_device::device::{Global, GlobalMut, Shared, copy, kernel, shared, thread, warp};

/// x(row, column), or 0 outside.
#[inline(always)]
fn element(n: u32, x: Global<f32>, row: u32, column: u32) -> f32 {
    if row < n && column < n { x.get(row as usize * n as usize + column as usize) } else { 0.0 }
}

/// C = A·B: a thread per element of C.
///
/// *Safety*: a, b and c have `n`² elements. Blocks of 32 × 8 threads.
#[kernel]
pub fn product_naive(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
    let x = 32 * thread::block_idx_x() + thread::thread_idx_x();
    let y = 8 * thread::block_idx_y() + thread::thread_idx_y();
    // ANCHOR: part1
    let (row, column) = (y, x);
    // ANCHOR_END: part1
    let mut sum = 0.0;
    for k in 0..n {
        sum += element(n, a, row, k) * element(n, b, k, column);
    }
    if row < n && column < n {
        c.set(row as usize * n as usize + column as usize, sum);
    }
}

/// Rows and columns of the tiles of [`product_tiled`].
pub const SMALL: u32 = 16;

/// C = A·B: a block per tile of 16 × 16, a thread per element.
///
/// *Safety*: a, b and c have `n`² elements. Blocks of 16 × 16 threads, 2048 bytes of dynamic shared memory.
#[kernel]
pub fn product_tiled(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (row, column) = (SMALL * thread::block_idx_y() + y, SMALL * thread::block_idx_x() + x);
    let mut sum = 0.0;
    // ANCHOR: part2
    let (left, right) = shared::dynamic_shared_mem::<f32>().split(SMALL * SMALL);
    let mut start = 0;
    while start < n {
        left.set(SMALL * y + x, element(n, a, row, start + x));
        right.set(SMALL * y + x, element(n, b, start + y, column));
        thread::sync_threads();
        for k in 0..SMALL {
            sum += left.get(SMALL * y + k) * right.get(SMALL * k + x);
        }
        thread::sync_threads();
        start += SMALL;
    }
    // ANCHOR_END: part2
    if row < n && column < n {
        c.set(row as usize * n as usize + column as usize, sum);
    }
}

/// Threads of a block from here on.
pub const THREADS: u32 = 256;

/// Columns of A's tile and rows of B's tile: the depth of a step.
pub const DEPTH: u32 = 16;

/// Words from a row of A's tile to the next. Its multiples are spread over the banks, and begin at multiples of 16 bytes.
const PITCH: u32 = DEPTH + 4;

/// Words from a row of B's tile of `T` columns to the next.
const fn pitch(columns: u32) -> u32 {
    columns + 8
}

/// Words of a tile of A and one of B, for a tile of C of `T` × `T`.
pub const fn words(edge: u32) -> u32 {
    edge * PITCH + DEPTH * pitch(edge)
}

/// The `buffer`-th tiles of A and B.
#[inline(always)]
fn tiles<const T: u32>(buffer: u32) -> (Shared<f32>, Shared<f32>) {
    shared::dynamic_shared_mem().split(buffer * words(T)).1.split(T * PITCH)
}

/// Rows and columns of the tiles of C of [`product_registers`] and [`product_pipelined`].
pub const TILE: u32 = 64;

/// Adds the product of the tiles to the 4 × 4 sums of this thread, which are those of the rows from `row` on and the
/// columns from `column` on, multiples of 4.
#[inline(always)]
fn multiply(row: u32, column: u32, left: Shared<f32>, right: Shared<f32>, sums: &mut [[f32; 4]; 4]) {
    // ANCHOR: part3
    for k in 0..DEPTH {
        let of_rows = [0, 1, 2, 3].map(|i| left.get((row + i) * PITCH + k));
        let of_columns = right.get4((k * pitch(TILE) + column) / 4);
        for i in 0..4 {
            for j in 0..4 {
                sums[i][j] += of_rows[i] * of_columns[j];
            }
        }
    }
    // ANCHOR_END: part3
}

/// Writes 4 × 4 elements of C.
#[inline(always)]
fn write(n: u32, row: u32, column: u32, c: GlobalMut<f32>, sums: [[f32; 4]; 4]) {
    for (i, sums) in sums.into_iter().enumerate() {
        c.set4(((row as usize + i) * n as usize + column as usize) / 4, sums);
    }
}

/// C = A·B: a block per tile of 64 × 64, a thread per 4 × 4 elements.
///
/// *Safety*: a, b and c have `n`² elements, `n` is a multiple of 64. Blocks of 16 × 16 threads, 4·`words(64)` bytes of
/// dynamic shared memory.
#[kernel]
pub fn product_registers(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
    let (top, first) = (TILE * thread::block_idx_y(), TILE * thread::block_idx_x());
    let (row, column) = (4 * thread::thread_idx_y(), 4 * thread::thread_idx_x());
    let (left, right) = tiles::<TILE>(0);
    let mut sums = [[0.0; 4]; 4];
    let mut start = 0;
    while start < n {
        for part in 0..4 {
            let i = THREADS * part + thread::index_in_block();
            let (down, across) = (i / DEPTH, i % DEPTH);
            left.set(down * PITCH + across, element(n, a, top + down, start + across));
            let (down, across) = (i / TILE, i % TILE);
            right.set(down * pitch(TILE) + across, element(n, b, start + down, first + across));
        }
        thread::sync_threads();
        multiply(row, column, left, right, &mut sums);
        thread::sync_threads();
        start += DEPTH;
    }
    write(n, top + row, first + column, c, sums);
}

/// Starts the copies of the tiles of A and B at depth `start` to a buffer, as one group: 16 bytes per copy.
#[inline(always)]
fn start_copies<const T: u32>(n: u32, start: u32, a: Global<f32>, b: Global<f32>, buffer: u32) {
    let (left, right) = tiles::<T>(buffer);
    let (top, first) = (T * thread::block_idx_y(), T * thread::block_idx_x());
    for part in 0..4 * T / THREADS {
        let i = THREADS * part + thread::index_in_block();
        let (down, across) = (i / 4, 4 * (i % 4));
        left.copy::<4>(down * PITCH + across, a, (top + down) as usize * n as usize + (start + across) as usize);
        let (down, across) = (i / (T / 4), 4 * (i % (T / 4)));
        right.copy::<4>(down * pitch(T) + across, b, (start + down) as usize * n as usize + (first + across) as usize);
    }
    copy::commit();
}

/// Calls `multiply` with all tiles of A and B for the block's tile of C, one after another. There is room for two buffers.
#[inline(always)]
fn pipeline<const T: u32>(n: u32, a: Global<f32>, b: Global<f32>, mut multiply: impl FnMut(Shared<f32>, Shared<f32>)) {
    // ANCHOR: part4
    start_copies::<T>(n, 0, a, b, 0);
    let mut buffer = 0;
    let mut start = 0;
    while start < n {
        copy::wait::<0>();
        thread::sync_threads();
        // This buffer is full, for all threads, and all are done with the other one.
        if start + DEPTH < n {
            start_copies::<T>(n, start + DEPTH, a, b, 1 - buffer);
        }
        let (left, right) = tiles::<T>(buffer);
        multiply(left, right);
        buffer = 1 - buffer;
        start += DEPTH;
    }
    // ANCHOR_END: part4
}

/// C = A·B as [`product_registers`], by asynchronous copies.
///
/// *Safety*: as for [`product_registers`], with 8·`words(64)` bytes of dynamic shared memory.
#[kernel]
pub fn product_pipelined(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
    let (top, first) = (TILE * thread::block_idx_y(), TILE * thread::block_idx_x());
    let (row, column) = (4 * thread::thread_idx_y(), 4 * thread::thread_idx_x());
    let mut sums = [[0.0; 4]; 4];
    pipeline::<TILE>(n, a, b, |left, right| multiply(row, column, left, right, &mut sums));
    write(n, top + row, first + column, c, sums);
}

/// Rows and columns of the tiles of C of [`product_tensor`].
pub const WIDE: u32 = 128;

/// Adds the product of the tiles to the sums of this warp: 4 × 4 fragments of 16 × 8 elements, from `row` and `column` on.
/// With g = lane / 4 and t = lane mod 4, a lane has the elements (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1) of each.
#[inline(always)]
fn multiply_fragments(row: u32, column: u32, left: Shared<f32>, right: Shared<f32>, sums: &mut [[[f32; 4]; 4]; 4]) {
    let (g, t) = (warp::lane_id() / 4, warp::lane_id() % 4);
    // ANCHOR: part5
    use warpkov_device::device::mma;
    for k in [0, 8] {
        let of_rows = [0, 1, 2, 3].map(|i| {
            let at = (row + 16 * i + g) * PITCH + k + t;
            [left.get(at), left.get(at + 8 * PITCH), left.get(at + 4), left.get(at + 8 * PITCH + 4)]
        });
        let of_columns = [0, 1, 2, 3].map(|j| {
            let at = (k + t) * pitch(WIDE) + column + 8 * j + g;
            [right.get(at), right.get(at + 4 * pitch(WIDE))]
        });
        for i in 0..4 {
            for j in 0..4 {
                sums[i][j] = mma::tf32_16x8x8(of_rows[i], of_columns[j], sums[i][j]);
            }
        }
    }
    // ANCHOR_END: part5
}

/// C = A·B on the tensor cores: a block per tile of 128 × 128, a warp per 64 × 32 elements.
///
/// *Safety*: a, b and c have `n`² elements, `n` is a multiple of 128. Blocks of 16 × 16 threads, 8·`words(128)` bytes of
/// dynamic shared memory.
#[kernel]
pub fn product_tensor(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
    let (row, column) = (64 * (warp::warp_id() / 4), 32 * (warp::warp_id() % 4));
    let mut sums = [[[0.0; 4]; 4]; 4];
    pipeline::<WIDE>(n, a, b, |left, right| multiply_fragments(row, column, left, right, &mut sums));
    let top = WIDE * thread::block_idx_y() + row + warp::lane_id() / 4;
    let first = WIDE * thread::block_idx_x() + column + 2 * (warp::lane_id() % 4);
    for i in 0..4 {
        for j in 0..4 {
            for (k, &sum) in sums[i as usize][j as usize].iter().enumerate() {
                let (row, column) = (top + 16 * i + 8 * (k as u32 / 2), first + 8 * j + k as u32 % 2);
                c.set(row as usize * n as usize + column as usize, sum);
            }
        }
    }
}
