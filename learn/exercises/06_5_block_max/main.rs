//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::block_max::Step for Launch {
    fn block_max<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        maxima: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::maximum_of_block(device, Shape::cover(n.into(), 256), n, x, maxima)
    }
}

learn::main!(learn::steps::block_max::Check<Launch>);
