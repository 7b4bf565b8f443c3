//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::compaction::Step for Launch {
    fn compaction<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        count: &mut D::Buffer<u32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::compaction(device, Shape::cover(n.into(), 256), n, x, count, y)
    }
}

learn::main!(learn::steps::compaction::Check<Launch>);
