//! Launches the kernels.

mod kernels;

use learn::{Device, Dim3, Shape};

/// Threads of a block that works on a tile.
const THREADS: Dim3 = Dim3 { x: 32, y: 8, z: 1 };

struct Launch;

impl learn::transpose::Transpose for Launch {
    fn reverse<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: both vectors have n elements.
        unsafe { kernels::reverse(device, Shape::cover(n.into(), 256), n, x, y) }
    }

    fn transpose<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let tiles = Dim3 { x: columns.div_ceil(32), y: rows.div_ceil(32), z: 1 };
        // SAFETY: both matrices have rows · columns elements.
        unsafe { kernels::transpose(device, Shape::new(tiles, THREADS), rows, columns, a, b) }
    }

    fn row_sums<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        sums: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        // SAFETY: the matrix has rows · columns elements, and there is a sum per row.
        unsafe { kernels::row_sums(device, Shape::new(rows.div_ceil(32), THREADS), rows, columns, a, sums) }
    }
}

learn::main!(learn::transpose::Check<Launch>);
