//! Chapter 3: atomic operations.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// Values are below this number; a histogram has as many bins.
pub const BINS: usize = 256;

/// What the student launches. The results are zero before a launch.
pub trait Histogram {
    /// Adds the number of elements with each value to `bins`.
    ///
    /// # Errors
    /// Those of the device.
    fn histogram<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, bins: &mut D::Buffer<u32>) -> Result<(), D::Error>;

    /// The same, with few atomic operations per address of global memory.
    ///
    /// # Errors
    /// Those of the device.
    fn histogram_by_blocks<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        bins: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;

    /// Adds the number of elements above `threshold` to `count[0]`.
    ///
    /// # Errors
    /// Those of the device.
    fn count_above<D: Device>(
        device: &D,
        n: u32,
        threshold: u32,
        x: &D::Buffer<u32>,
        count: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

/// Checks a [`Histogram`].
pub struct Check<S>(PhantomData<S>);

/// Elements above it are counted in part 3.
const THRESHOLD: u32 = 100;

/// The values of an image of a night sky: half of them are 0.
fn values<D: Device>(lab: &Lab<'_, D>, n: usize) -> Vec<u32> {
    let dark = lab.integers(n, 2, 1);
    lab.integers(n, BINS as u32, 0).into_iter().zip(dark).map(|(value, dark)| value * dark).collect()
}

impl<S: Histogram> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["atomic operations", "a private histogram per block", "one atomic operation per warp"];

    fn sizes(_: usize) -> Vec<usize> {
        vec![1, 31, 256, 257, 1000, 5000]
    }

    fn counted(_: usize) -> usize {
        16_384
    }

    fn timed(_: usize) -> usize {
        1 << 25
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        let values = values(lab, n);
        let mut expected = vec![0; if part == 2 { 1 } else { BINS }];
        for &value in &values {
            if part < 2 {
                expected[value as usize] += 1;
            } else if value > THRESHOLD {
                expected[0] += 1;
            }
        }
        let x = lab.device.upload(&values)?;
        let mut out = lab.device.zeros::<u32>(expected.len())?;
        lab.launch(|device| {
            // A launch that is timed is repeated.
            device.clear(&mut out)?;
            match part {
                0 => S::histogram(device, n as u32, &x, &mut out),
                1 => S::histogram_by_blocks(device, n as u32, &x, &mut out),
                _ => S::count_above(device, n as u32, THRESHOLD, &x, &mut out),
            }
        })?;
        lab.equal(if part == 2 { "count" } else { "bins" }, &lab.device.to_vec(&out)?, &expected)
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let (kernel, n) = (["histogram", "histogram_by_blocks", "count_above"][part], Self::counted(part));
        // There is room for a private histogram per warp.
        let mut budgets = vec![Budget::parallelism(kernel, 4, 8, 16_384), Budget::launches_beside(&[kernel])];
        match part {
            0 => {}
            // One per block of 256 threads.
            1 => budgets.push(Budget::atomics_per_address(kernel, (n / 256) as f64)),
            // One per warp.
            _ => budgets.push(Budget::atomics_per_address(kernel, (n / 32) as f64)),
        }
        budgets.push(Budget::sectors(kernel, Operation::Load, (n / 8) as f64));
        budgets
    }

    fn work(_: usize, n: usize) -> Work {
        // The bins are small.
        Work { bytes: 4.0 * n as f64, flops: 0.0 }
    }
}
