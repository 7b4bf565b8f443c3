//! Launches the kernel: a block for each tile.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::look_back::Step for Launch {
    fn look_back<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        flags: &mut D::Buffer<u32>,
        prefixes: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        // SAFETY: the lengths are those that the kernel asks for, and the flags are 0.
        unsafe { kernels::look_back(device, Shape::cover(n.into(), 256), n, x, flags, prefixes) }
    }
}

learn::main!(learn::steps::look_back::Check<Launch>);
