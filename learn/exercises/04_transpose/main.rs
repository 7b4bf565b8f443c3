//! Launches the kernels.

mod kernels;

use learn::{Device, Dim3, Shape};

/// Threads of a block that writes a tile of B.
const THREADS: Dim3 = Dim3 { x: 32, y: 32, z: 1 };

struct Launch;

impl learn::transpose::Transpose for Launch {
    fn reverse<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        kernels::reverse(device, Shape::cover(n.into(), 256), n, x, y)
    }

    fn transpose<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        // B has a row for each column of A.
        let tiles = Dim3 { x: rows.div_ceil(32), y: columns.div_ceil(32), z: 1 };
        kernels::transpose(device, Shape::new(tiles, THREADS), rows, columns, a, b)
    }

    fn row_sums<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        sums: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::row_sums(device, Shape::cover(rows.into(), 128), rows, columns, a, sums)
    }
}

learn::main!(learn::transpose::Check<Launch>);
