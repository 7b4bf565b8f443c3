//! Launches the kernels.

mod kernels;

use learn::{Device, Shape};

struct Launch;

impl learn::histogram::Histogram for Launch {
    fn histogram<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, bins: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        kernels::histogram(device, Shape::cover(n.into(), 256), n, x, bins)
    }

    fn histogram_by_blocks<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        bins: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        kernels::histogram_by_blocks(device, Shape::cover(n.into(), 256), n, x, bins)
    }

    fn count_above<D: Device>(
        device: &D,
        n: u32,
        threshold: u32,
        x: &D::Buffer<u32>,
        count: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        kernels::count_above(device, Shape::cover(n.into(), 256), n, threshold, x, count)
    }
}

learn::main!(learn::histogram::Check<Launch>);
