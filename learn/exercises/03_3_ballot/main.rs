//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::ballot::Step for Launch {
    fn ballot<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, below: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        kernels::ballot(device, Shape::cover(n.into(), 256), n, x, below)
    }
}

learn::main!(learn::steps::ballot::Check<Launch>);
