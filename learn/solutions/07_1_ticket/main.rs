//! Launches the kernel: blocks of 256 threads.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::ticket::Step for Launch {
    fn ticket<D: Device>(
        device: &D,
        blocks: u32,
        next: &mut D::Buffer<u32>,
        tickets: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        kernels::ticket(device, Shape::new(blocks, 256), next, tickets)
    }
}

learn::main!(learn::steps::ticket::Check<Launch>);
