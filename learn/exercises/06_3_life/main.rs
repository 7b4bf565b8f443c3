//! Launches the kernel: blocks of 32 × 8 threads.

mod kernels;

use learn::{Device, Dim3, Shape};

struct Launch;

impl learn::steps::life::Step for Launch {
    fn life<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        now: &D::Buffer<u32>,
        next: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let grid = Dim3 { x: columns.div_ceil(32), y: rows.div_ceil(8), z: 1 };
        kernels::life(device, Shape::new(grid, Dim3 { x: 32, y: 8, z: 1 }), rows, columns, now, next)
    }
}

learn::main!(learn::steps::life::Check<Launch>);
