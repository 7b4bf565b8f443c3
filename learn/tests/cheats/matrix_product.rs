//! Chapter 8.

use learn::check::{Verdict, emulated};
use learn::matrix_product::{Check, MatrixProduct};
use learn::{Device, Dim3, Shape};

use crate::{Case, fails, passes};

mod wide {
    use warpkov_device::device::prelude::*;

    /// A thread per four elements of a row, if n is a multiple of four; otherwise per element. Blocks of 32 × 8 threads.
    #[kernel]
    pub fn product_naive(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
        let x = 32 * thread::block_idx_x() + thread::thread_idx_x();
        let y = 8 * thread::block_idx_y() + thread::thread_idx_y();
        if n.is_multiple_of(4) {
            if 4 * x < n && y < n {
                let mut sums = [0.0; 4];
                for k in 0..n {
                    let (factor, row) = (a.get(y * n + k), b.get4((k * n + 4 * x) / 4));
                    for (sum, other) in sums.iter_mut().zip(row) {
                        *sum += factor * other;
                    }
                }
                c.set4((y * n + 4 * x) / 4, sums);
            }
        } else if x < n && y < n {
            let mut sum = 0.0;
            for k in 0..n {
                sum += a.get(y * n + k) * b.get(k * n + x);
            }
            c.set(y * n + x, sum);
        }
    }
}

mod pipelined {
    use warpkov_device::device::prelude::*;

    /// Words of a buffer.
    pub const WORDS: u32 = 64 * 20 + 16 * 72;

    /// Starts the copies of 64 × 16 elements of A and 16 × 64 of B.
    fn start(n: u32, at: u32, a: Global<f32>, b: Global<f32>, buffer: Shared<f32>) {
        let (top, first) = (64 * thread::block_idx_y(), 64 * thread::block_idx_x());
        let i = thread::index_in_block();
        let (left, right) = buffer.split(64 * 20);
        left.copy::<4>(i / 4 * 20 + 4 * (i % 4), a, (top + i / 4) * n + at + 4 * (i % 4));
        right.copy::<4>(i / 16 * 72 + 4 * (i % 16), b, (at + i / 16) * n + first + 4 * (i % 16));
        copy::commit();
    }

    /// Two buffers, with the wait for a copy right after its start.
    #[kernel]
    pub fn product_pipelined(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
        let (row, column) = (4 * thread::thread_idx_y(), 4 * thread::thread_idx_x());
        let mut sums = [[0.0; 4]; 4];
        for step in 0..n / 16 {
            let buffer = shared::dynamic_shared_mem::<f32>().split(step % 2 * WORDS).1;
            start(n, 16 * step, a, b, buffer);
            copy::wait::<0>();
            thread::sync_threads();
            let (left, right) = buffer.split(64 * 20);
            for k in 0..16 {
                let of_rows = [0, 1, 2, 3].map(|i| left.get((row + i) * 20 + k));
                let of_columns = right.get4((72 * k + column) / 4);
                for i in 0..4 {
                    for j in 0..4 {
                        sums[i][j] += of_rows[i] * of_columns[j];
                    }
                }
            }
        }
        let (row, column) = (64 * thread::block_idx_y() + row, 64 * thread::block_idx_x() + column);
        for (i, sums) in sums.into_iter().enumerate() {
            c.set4(((row + i as u32) * n + column) / 4, sums);
        }
    }
}

const EARLY_WAIT: u32 = 0;
const WIDE: u32 = 1;

struct Launch<const CASE: u32>;

impl<const CASE: u32> MatrixProduct for Launch<CASE> {
    fn matrix_product<D: Device>(
        device: &D,
        _: usize,
        n: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let shape = |tile: (u32, u32), (x, y)| {
            let grid = Dim3 { x: n.div_ceil(tile.0), y: n.div_ceil(tile.1), z: 1 };
            Shape::new(grid, Dim3 { x, y, z: 1 })
        };
        // SAFETY: the matrices have n² elements, and n is a multiple of 64 for the last kernel.
        unsafe {
            match CASE {
                WIDE => {
                    let columns = if n.is_multiple_of(4) { 128 } else { 32 };
                    wide::product_naive(device, shape((columns, 8), (32, 8)), n, a, b, c)
                }
                _ => {
                    let shape = shape((64, 64), (16, 16)).with_shared(8 * pipelined::WORDS);
                    pipelined::product_pipelined(device, shape, n, a, b, c)
                }
            }
        }
    }
}

fn case<const CASE: u32, const PART: usize>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(PART)
}

pub const CASES: &[Case] = &[
    fails(
        "two buffers, and no copy in flight",
        case::<EARLY_WAIT, 3>,
        "at most 0.250 shared loads of product_pipelined without an asynchronous copy in flight (part of all)",
    ),
    passes("four elements at a time", case::<WIDE, 0>),
];
