//! Launches the kernels.

mod kernels;

use learn::{Device, Dim3, Shape};

/// Blocks of 32 × 8 threads: at least `x` threads in x, and `y` in y.
fn cover(x: u32, y: u32) -> Shape {
    Shape::new(Dim3 { x: x.div_ceil(32), y: y.div_ceil(8), z: 1 }, Dim3 { x: 32, y: 8, z: 1 })
}

struct Launch;

impl learn::grids::Grids for Launch {
    fn negative<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        image: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        // ANCHOR: part1
        let shape = cover(columns, rows);
        // ANCHOR_END: part1
        kernels::negative(device, shape, rows, columns, image, out)
    }

    fn matrix_sum<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        // ANCHOR: part2
        let shape = cover(columns, rows);
        // ANCHOR_END: part2
        kernels::matrix_sum(device, shape, rows, columns, a, b, c)
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
        // ANCHOR: part3
        kernels::standardise(device, Shape::new(blocks, 256), rows * columns, columns, table, mean, scale, out)
        // ANCHOR_END: part3
    }
}

learn::main!(learn::grids::Check<Launch>);
