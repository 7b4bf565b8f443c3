//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::sliding_sum::Step for Launch {
    fn sliding_sum<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        kernels::sliding_sum(device, Shape::cover(n.into(), 256), n, x, y)
    }
}

learn::main!(learn::steps::sliding_sum::Check<Launch>);
