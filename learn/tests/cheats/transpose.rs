//! Chapter 4.

use learn::check::{Verdict, emulated};
use learn::transpose::{Check, Transpose};
use learn::{Device, Dim3, Shape};

use crate::{Case, fails, passes};

#[path = "../../solutions/04_transpose/kernels.rs"]
mod solution;

mod naive {
    use warpkov_device::device::prelude::*;

    /// A thread per element.
    #[kernel]
    pub fn transpose(rows: u32, columns: u32, a: Global<f32>, b: GlobalMut<f32>) {
        let x = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
        let y = thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y();
        if x < columns && y < rows {
            b.set(x * rows + y, a.get(y * columns + x));
        }
    }

    #[kernel]
    pub fn reverse(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
        for _ in 0..100 {
            thread::sync_threads();
        }
        let (first, t) = (256 * thread::block_idx_x(), thread::thread_idx_x());
        if first + t < n {
            y.set(first + t, x.get(n.min(first + 256) - 1 - t));
        }
    }

    /// A warp per block of 128 rows: each lane adds four rows.
    #[kernel]
    pub fn row_sums(rows: u32, columns: u32, a: Global<f32>, sums: GlobalMut<f32>) {
        let t = thread::thread_idx_x();
        for k in 0..4 {
            let row = 128 * thread::block_idx_x() + 32 * k + t;
            if t < 32 && row < rows {
                let mut sum = 0.0;
                for column in 0..columns {
                    sum += a.get(row * columns + column);
                }
                sums.set(row, sum);
            }
        }
    }
}

mod tall {
    use warpkov_device::device::prelude::*;

    /// A thread of a block of 32 × 8 copies four elements of a tile.
    #[kernel]
    pub fn transpose(rows: u32, columns: u32, a: Global<f32>, b: GlobalMut<f32>) {
        let tile = shared_array!(tall: f32; 1056);
        let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
        let (top, left) = (32 * thread::block_idx_y(), 32 * thread::block_idx_x());
        for k in 0..4 {
            let (row, column) = (top + y + 8 * k, left + x);
            if row < rows && column < columns {
                tile.set(33 * (y + 8 * k) + x, a.get(row * columns + column));
            }
        }
        thread::sync_threads();
        for k in 0..4 {
            let (row, column) = (top + x, left + y + 8 * k);
            if row < rows && column < columns {
                b.set(column * rows + row, tile.get(33 * x + y + 8 * k));
            }
        }
    }
}

const NAIVE: u32 = 0;
const BLOCKS_OF_ONE_THREAD: u32 = 1;
const TALL: u32 = 2;

struct Launch<const CASE: u32>;

impl<const CASE: u32> Transpose for Launch<CASE> {
    fn reverse<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: the vectors have n elements.
        unsafe { naive::reverse(device, Shape::cover(n.into(), 256), n, x, y) }
    }

    fn transpose<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let (x, y) = match CASE {
            BLOCKS_OF_ONE_THREAD => (1, 1),
            _ => (32, 8),
        };
        let grid = |height| Dim3 { x: columns.div_ceil(x), y: rows.div_ceil(height), z: 1 };
        let block = Dim3 { x, y, z: 1 };
        // SAFETY: the matrices have rows · columns elements.
        unsafe {
            match CASE {
                TALL => tall::transpose(device, Shape::new(grid(32), block), rows, columns, a, b),
                _ => naive::transpose(device, Shape::new(grid(y), block), rows, columns, a, b),
            }
        }
    }

    fn row_sums<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        sums: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let shape = Shape::cover(rows.into(), 128);
        match CASE {
            // SAFETY: the matrix has rows · columns elements, and there is a sum for each row.
            NAIVE => unsafe { naive::row_sums(device, shape, rows, columns, a, sums) },
            _ => solution::row_sums(device, shape, rows, columns, a, sums),
        }
    }
}

fn case<const CASE: u32, const PART: usize>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(PART)
}

pub const CASES: &[Case] = &[
    fails("100 barriers", case::<NAIVE, 0>, "parallelism of reverse"),
    fails("no tiles", case::<NAIVE, 1>, "at most 1536 sectors of stores of transpose"),
    fails("no tiles, blocks of one thread", case::<BLOCKS_OF_ONE_THREAD, 1>, "parallelism of transpose"),
    fails("a warp for all rows", case::<NAIVE, 2>, "parallelism of row_sums"),
    passes("several elements per thread", case::<TALL, 1>),
    passes("several elements per thread, and sums", case::<TALL, 2>),
];
