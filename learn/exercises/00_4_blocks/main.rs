//! Launches the kernel: blocks of 256 threads.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::blocks::Step for Launch {
    fn blocks<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // ANCHOR: part1
        // TODO: one block is not enough for every n.
        let blocks = 1;
        // ANCHOR_END: part1
        kernels::blocks(device, Shape::new(blocks, 256), n, x, y)
    }
}

learn::main!(learn::steps::blocks::Check<Launch>);
