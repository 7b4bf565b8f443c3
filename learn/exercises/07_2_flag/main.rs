//! Launches the kernel: blocks of one thread.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::flag::Step for Launch {
    fn flag<D: Device>(
        device: &D,
        blocks: u32,
        control: &mut D::Buffer<u32>,
        number: &mut D::Buffer<u32>,
        received: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        // SAFETY: the lengths are those that the kernel asks for, and the control words are 0.
        unsafe { kernels::flag(device, Shape::new(blocks, 1), control, number, received) }
    }
}

learn::main!(learn::steps::flag::Check<Launch>);
