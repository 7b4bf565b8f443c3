//! Launches the kernels.

mod kernels;

use learn::{Device, Shape};

/// Blocks of 256 threads, a thread per element.
fn cover(n: u32) -> Shape {
    Shape::cover(n.into(), 256)
}

struct Launch;

impl learn::faults::Faults for Launch {
    fn block_sums<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, out: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        // SAFETY: x has n elements, and out has one per block.
        unsafe { kernels::block_sums(device, cover(n), n, x, out) }
    }

    fn differences<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: both vectors have n elements.
        unsafe { kernels::differences(device, cover(n), n, x, y) }
    }

    fn smooth<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: both vectors have n elements.
        unsafe { kernels::smooth(device, cover(n), n, x, y) }
    }

    fn block_max<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, out: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: x has n elements, and out has one per block.
        unsafe { kernels::block_max(device, cover(n), n, x, out) }
    }

    fn total<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        parts: &mut D::Buffer<u32>,
        arrived: &mut D::Buffer<u32>,
        total: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        // SAFETY: x has n elements, parts has one per block, the others have one, and arrived is 0.
        unsafe { kernels::total(device, Shape::cover(n.into(), 32), n, x, parts, arrived, total) }
    }
}

learn::main!(learn::faults::Check<Launch>);
