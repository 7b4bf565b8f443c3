//! Launches each kernel with one warp.

mod kernels;

use kernels::{EVERY_EIGHTH, EVERY_SECOND, NEIGHBOURS, SHIFTED};
use learn::{Device, Shape};

struct Launch;

impl learn::steps::sectors::Step for Launch {
    const SECTORS: [u32; 4] = [NEIGHBOURS, SHIFTED, EVERY_SECOND, EVERY_EIGHTH];

    fn sectors<D: Device>(
        device: &D,
        pattern: usize,
        x: &D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let warp = Shape::new(1, 32);
        match pattern {
            0 => kernels::neighbours(device, warp, x, y),
            1 => kernels::shifted(device, warp, x, y),
            2 => kernels::every_second(device, warp, x, y),
            _ => kernels::every_eighth(device, warp, x, y),
        }
    }
}

learn::main!(learn::steps::sectors::Check<Launch>);
