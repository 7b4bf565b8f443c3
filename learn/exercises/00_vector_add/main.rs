//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::vector_add::VectorAdd for Launch {
    fn vector_add<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        z: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        // ANCHOR: launch
        // TODO: one block is not enough for every n.
        let shape = Shape::new(1, 256);
        // ANCHOR_END: launch
        kernels::vector_add(device, shape, n, x, y, z)
    }
}

learn::main!(learn::vector_add::Check<Launch>);
