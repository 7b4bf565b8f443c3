//! Launches the kernel: blocks of 256 threads.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::reverse::Step for Launch {
    fn reverse<D: Device>(
        device: &D,
        blocks: u32,
        x: &mut D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::reverse_block(device, Shape::new(blocks, 256), x, y)
    }
}

learn::main!(learn::steps::reverse::Check<Launch>);
