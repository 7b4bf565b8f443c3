//! Launches the kernel: blocks of 256 threads.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::neighbour::Step for Launch {
    fn neighbour<D: Device>(
        device: &D,
        blocks: u32,
        x: &mut D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::neighbour(device, Shape::new(blocks, 256), x, y)
    }
}

learn::main!(learn::steps::neighbour::Check<Launch>);
