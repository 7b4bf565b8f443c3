//! Launches the kernel: one block of 32 × 8 threads.

mod kernels;

use learn::{Device, Dim3, Shape};

struct Launch;

impl learn::steps::map_2d::Step for Launch {
    fn map_2d<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::map_2d(device, Shape::new(1, Dim3 { x: 32, y: 8, z: 1 }), rows, columns, a, out)
    }
}

learn::main!(learn::steps::map_2d::Check<Launch>);
