//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::warp_sum::Step for Launch {
    fn warp_sum<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, sums: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        kernels::warp_sum(device, Shape::cover(n.into(), 256), n, n.div_ceil(32), x, sums)
    }
}

learn::main!(learn::steps::warp_sum::Check<Launch>);
