//! Launches the kernel: a warp for each product.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::steps::fragments::Step for Launch {
    fn fragments<D: Device>(
        device: &D,
        products: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        kernels::fragments(device, Shape::new(products, 32), a, b, c)
    }
}

learn::main!(learn::steps::fragments::Check<Launch>);
