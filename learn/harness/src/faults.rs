//! Chapter 5: five kernels with a fault each.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// What the student launches.
pub trait Faults {
    /// The sum of each block of [`BLOCK`] elements.
    ///
    /// # Errors
    /// Those of the device.
    fn block_sums<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, out: &mut D::Buffer<u32>) -> Result<(), D::Error>;

    /// yᵢ = xᵢ − xᵢ₋₁, and y₀ = x₀.
    ///
    /// # Errors
    /// Those of the device.
    fn differences<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;

    /// yᵢ = (xᵢ₋₁ + xᵢ + xᵢ₊₁) / 3, where x₋₁ = x₀ and xₙ = xₙ₋₁.
    ///
    /// # Errors
    /// Those of the device.
    fn smooth<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;

    /// The largest element of each block of [`BLOCK`] elements.
    ///
    /// # Errors
    /// Those of the device.
    fn block_max<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, out: &mut D::Buffer<f32>) -> Result<(), D::Error>;

    /// The sum of all elements, by one launch in blocks of [`WARP`] threads. `parts` has an element per block; `arrived`
    /// has one, 0 before the launch.
    ///
    /// # Errors
    /// Those of the device.
    fn total<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        parts: &mut D::Buffer<u32>,
        arrived: &mut D::Buffer<u32>,
        total: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

/// Elements of a block, in parts 1 and 4.
pub const BLOCK: usize = 256;

/// Threads of a block in part 5: a warp.
pub const WARP: usize = 32;

/// Checks a [`Faults`].
pub struct Check<S>(PhantomData<S>);

impl<S: Faults> Check<S> {
    fn sums<D: Device>(lab: &Lab<'_, D>, n: usize, all: bool) -> Result<(), Failure> {
        let numbers = lab.integers(n, 100, 0);
        let blocks = n.div_ceil(if all { WARP } else { BLOCK });
        let x = lab.device.upload(&numbers)?;
        let mut sums = lab.device.uninitialised(blocks)?;
        if !all {
            lab.launch(|device| S::block_sums(device, n as u32, &x, &mut sums))?;
            let expected: Vec<u32> = numbers.chunks(BLOCK).map(|block| block.iter().sum()).collect();
            return lab.equal("out", &lab.device.to_vec(&sums)?, &expected);
        }
        let (mut arrived, mut total) = (lab.device.zeros(1)?, lab.device.uninitialised(1)?);
        lab.launch(|device| {
            // A launch that is timed is repeated.
            device.clear(&mut arrived)?;
            S::total(device, n as u32, &x, &mut sums, &mut arrived, &mut total)
        })?;
        lab.equal("total", &lab.device.to_vec(&total)?, &[numbers.iter().sum()])
    }
}

impl<S: Faults> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["sums of blocks", "differences", "a moving average", "largest elements of blocks", "a sum in one launch"];

    fn sizes(_: usize) -> Vec<usize> {
        vec![1, 31, 256, 257, 1000]
    }

    fn counted(_: usize) -> usize {
        4096
    }

    fn timed(part: usize) -> usize {
        // In part 5, one thread adds the sums of all blocks.
        if part == 4 { 1 << 18 } else { 1 << 25 }
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        if part == 0 || part == 4 {
            return Self::sums(lab, n, part == 4);
        }
        // Negative numbers: 0 is larger than all of them.
        let numbers: Vec<f32> = lab.floats(n, 0).into_iter().map(|x| x - 2.0).collect();
        let x = lab.device.upload(&numbers)?;
        let mut y = lab.device.uninitialised(if part == 3 { n.div_ceil(BLOCK) } else { n })?;
        lab.launch(|device| match part {
            1 => S::differences(device, n as u32, &x, &mut y),
            2 => S::smooth(device, n as u32, &x, &mut y),
            _ => S::block_max(device, n as u32, &x, &mut y),
        })?;
        let found = lab.device.to_vec(&y)?;
        let at = |i: usize| f64::from(numbers[i.min(n - 1)]);
        let expected: Vec<f64> = match part {
            1 => (0..n).map(|i| if i == 0 { at(0) } else { at(i) - at(i - 1) }).collect(),
            2 => (0..n).map(|i| (at(i.saturating_sub(1)) + at(i) + at(i + 1)) / 3.0).collect(),
            _ => numbers
                .chunks(BLOCK)
                .map(|block| block.iter().copied().fold(f32::NEG_INFINITY, f32::max).into())
                .collect(),
        };
        lab.close(if part == 3 { "out" } else { "y" }, &found, &expected, 1e-6)
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let kernel = ["block_sums", "differences", "smooth", "block_max", "total"][part];
        vec![
            match part {
                // The last block adds the sums of all blocks: as many more loads as there are warps.
                4 => Budget::requests(kernel, Operation::Load, (2 * Self::counted(part) / WARP) as f64),
                _ => Budget::parallelism(kernel, 4, 12, 4096),
            },
            Budget::launches_beside(&[kernel]),
        ]
    }

    fn work(part: usize, n: usize) -> Work {
        let n = n as f64;
        // Parts 2 and 3 write as much as they read.
        Work { bytes: if part == 1 || part == 2 { 8.0 * n } else { 4.0 * n }, flops: 0.0 }
    }
}
