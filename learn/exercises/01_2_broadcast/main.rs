//! Launches the kernel: blocks of 32 × 8 threads.

mod kernels;

use learn::{Device, Dim3, Shape};

struct Launch;

impl learn::steps::broadcast::Step for Launch {
    fn broadcast<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let grid = Dim3 { x: columns.div_ceil(32), y: rows.div_ceil(8), z: 1 };
        kernels::broadcast(device, Shape::new(grid, Dim3 { x: 32, y: 8, z: 1 }), rows, columns, a, b, out)
    }
}

learn::main!(learn::steps::broadcast::Check<Launch>);
