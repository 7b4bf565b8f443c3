//! Launches the kernel.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::index_types::Step for Launch {
    fn index_types<D: Device>(
        device: &D,
        n: u32,
        columns: u32,
        row: &D::Buffer<u32>,
        column: &D::Buffer<u32>,
        index: &mut D::Buffer<u64>,
    ) -> Result<(), D::Error> {
        kernels::index_types(device, Shape::cover(n.into(), 256), n, columns, row, column, index)
    }
}

learn::main!(learn::steps::index_types::Check<Launch>);
