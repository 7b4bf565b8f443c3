//! Launches the kernel: a block for each row.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::softmax::Step for Launch {
    fn softmax<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        x: &D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::softmax(device, Shape::new(rows, 256), rows, columns, x, y)
    }
}

learn::main!(learn::steps::softmax::Check<Launch>);
