//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::convolution::Step for Launch {
    fn convolution<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        kernels::convolution(device, Shape::cover(n.into(), 256), n, x, y)
    }
}

learn::main!(learn::steps::convolution::Check<Launch>);
