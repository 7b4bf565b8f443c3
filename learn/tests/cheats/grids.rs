//! Chapter 1.

use learn::check::{Verdict, emulated};
use learn::grids::{Check, Grids};
use learn::{Device, Dim3, Shape};

use crate::{Case, fails, passes};

#[path = "../../solutions/01_grids/kernels.rs"]
mod solution;

mod naive {
    use warpkov_device::device::prelude::*;

    /// Consecutive threads, in the order of the grid, have elements of consecutive rows.
    #[kernel]
    pub fn matrix_sum(rows: u32, columns: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
        let row = thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x();
        let column = thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y();
        if row < rows && column < columns {
            let i = row * columns + column;
            c.set(i, a.get(i) + b.get(i));
        }
    }
}

mod flat {
    use warpkov_device::device::prelude::*;

    /// The first `threads` threads, over all elements.
    #[kernel]
    pub fn negative(threads: u32, n: u32, image: Global<f32>, out: GlobalMut<f32>) {
        let mut i = thread::index_1d() as u32;
        while i < n && thread::index_1d() < threads.into() {
            out.set(i, 1.0 - image.get(i));
            i += threads;
        }
    }

    /// Four elements at a time, whatever their rows.
    #[kernel]
    pub fn matrix_sum(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
        let mut i = thread::index_1d() as u32;
        while 4 * i + 4 <= n {
            let (x, y) = (a.get4(i), b.get4(i));
            c.set4(i, [0, 1, 2, 3].map(|k| x[k] + y[k]));
            i += thread::grid_dim_x() * thread::block_dim_x();
        }
        for i in 4 * i..n {
            c.set(i, a.get(i) + b.get(i));
        }
    }

    /// The first warp of each block of 256 threads does the work of all.
    #[kernel]
    pub fn standardise(
        n: u32,
        columns: u32,
        table: Global<f32>,
        mean: Global<f32>,
        scale: Global<f32>,
        out: GlobalMut<f32>,
    ) {
        let mut i = 32 * thread::block_idx_x() + thread::thread_idx_x();
        while i < n && thread::thread_idx_x() < 32 {
            let column = i % columns;
            out.set(i, (table.get(i) - mean.get(column)) * scale.get(column));
            i += 32 * thread::grid_dim_x();
        }
    }
}

const ONE_WARP: u32 = 0;
const BLOCKS_OF_ONE_THREAD: u32 = 1;
const FIRST_WARPS: u32 = 2;
const SQUARE_BLOCKS: u32 = 3;
const GRID_STRIDE: u32 = 4;
const COLUMNS: u32 = 5;

struct Launch<const CASE: u32>;

impl<const CASE: u32> Grids for Launch<CASE> {
    fn negative<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        image: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let n = rows * columns;
        let shape = Shape::cover(n.div_ceil(4).into(), 256);
        let threads = if CASE == ONE_WARP { 32 } else { 256 * shape.grid.x };
        // SAFETY: the matrices have n elements.
        unsafe { flat::negative(device, shape, threads, n, image, out) }
    }

    fn matrix_sum<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let square = Dim3 { x: columns.div_ceil(16), y: rows.div_ceil(16), z: 1 };
        let n = rows * columns;
        match CASE {
            // SAFETY: the matrices have n elements.
            BLOCKS_OF_ONE_THREAD => unsafe {
                let shape = Shape::new(Dim3 { x: rows, y: columns, z: 1 }, 1);
                naive::matrix_sum(device, shape, rows, columns, a, b, c)
            },
            // SAFETY: the matrices have n elements.
            COLUMNS => unsafe {
                let grid = Dim3 { x: rows.div_ceil(32), y: columns.div_ceil(8), z: 1 };
                let shape = Shape::new(grid, Dim3 { x: 32, y: 8, z: 1 });
                naive::matrix_sum(device, shape, rows, columns, a, b, c)
            },
            SQUARE_BLOCKS => {
                let shape = Shape::new(square, Dim3 { x: 16, y: 16, z: 1 });
                solution::matrix_sum(device, shape, rows, columns, a, b, c)
            }
            // SAFETY: the matrices have n elements.
            _ => unsafe { flat::matrix_sum(device, Shape::cover(n.div_ceil(8).into(), 256), n, a, b, c) },
        }
    }

    fn standardise<D: Device>(
        device: &D,
        blocks: u32,
        rows: u32,
        columns: u32,
        table: &D::Buffer<f32>,
        mean: &D::Buffer<f32>,
        scale: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let (shape, n) = (Shape::new(blocks, 256), rows * columns);
        match CASE {
            // SAFETY: the matrices have n elements, and the vectors one per column.
            FIRST_WARPS => unsafe { flat::standardise(device, shape, n, columns, table, mean, scale, out) },
            _ => solution::standardise(device, shape, n, columns, table, mean, scale, out),
        }
    }
}

fn case<const CASE: u32, const PART: usize>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(PART)
}

pub const CASES: &[Case] = &[
    fails("one warp", case::<ONE_WARP, 0>, "parallelism of negative"),
    fails("lanes in a column", case::<COLUMNS, 1>, "at most 3104 sectors of loads of matrix_sum"),
    fails("blocks of one thread", case::<BLOCKS_OF_ONE_THREAD, 1>, "parallelism of matrix_sum"),
    fails("the first warp of each block", case::<FIRST_WARPS, 2>, "parallelism of standardise"),
    passes("a grid-stride loop over an image", case::<GRID_STRIDE, 0>),
    passes("four elements at a time", case::<GRID_STRIDE, 1>),
    passes("square blocks", case::<SQUARE_BLOCKS, 1>),
];
