//! Launches the kernel: one block of n threads.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::zip::Step for Launch {
    fn zip<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        z: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::zip(device, Shape::new(1, n), x, y, z)
    }
}

learn::main!(learn::steps::zip::Check<Launch>);
