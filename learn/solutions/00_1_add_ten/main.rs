//! Launches the kernel: one block of n threads.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::add_ten::Step for Launch {
    fn add_ten<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        kernels::add_ten(device, Shape::new(1, n), x, y)
    }
}

learn::main!(learn::steps::add_ten::Check<Launch>);
