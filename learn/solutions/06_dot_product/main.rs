//! Launches the kernels.

mod kernels;

use kernels::{LAST, PER_THREAD, THREADS};
use learn::{Device, Shape};

struct Launch;

impl learn::dot_product::DotProduct for Launch {
    fn dot_product<D: Device>(
        device: &D,
        part: usize,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        partials: &mut D::Buffer<f32>,
        result: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error> {
        let blocks = if part == 3 { n.div_ceil(THREADS * PER_THREAD) } else { n.div_ceil(THREADS) };
        let shape = Shape::new(blocks, THREADS).with_shared(4 * THREADS);
        // SAFETY: x and y have n elements, partials at least one for each block, result one.
        unsafe {
            match part {
                1 => kernels::dot_tree(device, shape, n, x, y, partials)?,
                2 => kernels::dot_shuffle(device, shape, n, x, y, partials)?,
                _ => kernels::dot_block(device, shape, n, x, y, partials)?,
            }
            let last = Shape::new(1, LAST).with_shared(4 * LAST);
            kernels::sum_partials(device, last, blocks, partials, result)
        }
    }
}

learn::main!(learn::dot_product::Check<Launch>);
