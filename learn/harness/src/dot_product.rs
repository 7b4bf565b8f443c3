//! Chapter 6: the dot product of two vectors.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// What the student launches.
pub trait DotProduct {
    /// result₀ = Σᵢ xᵢ·yᵢ for vectors of `n` ≥ 1 elements, by the kernel of `part` 1, 2 or 3. `partials` has ⌈n / 256⌉
    /// elements or more, which the launch may overwrite.
    ///
    /// # Errors
    /// Those of the device.
    fn dot_product<D: Device>(
        device: &D,
        part: usize,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        partials: &mut D::Buffer<f32>,
        result: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Checks a [`DotProduct`].
pub struct Check<S>(PhantomData<S>);

/// The kernels of the parts.
const KERNELS: [&str; 3] = ["dot_tree", "dot_shuffle", "dot_block"];

impl<S: DotProduct> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["a tree in shared memory", "shuffles within a warp", "one barrier, and several elements per thread"];

    fn sizes(_: usize) -> Vec<usize> {
        vec![1, 31, 256, 257, 1000, 5000]
    }

    fn counted(_: usize) -> usize {
        16_384
    }

    fn timed(_: usize) -> usize {
        1 << 26
    }

    /// The elements are integers from −8 to 8. Every partial sum of these inputs is below 2²⁴, thus exact in f32, and the
    /// result does not depend on the order of the additions.
    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        let integers = |stream| lab.integers(n, 17, stream).into_iter().map(|k| k as f32 - 8.0).collect::<Vec<_>>();
        let (x, y) = (integers(0), integers(1));
        let expected: f64 = x.iter().zip(&y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
        let (x, y) = (lab.device.upload(&x)?, lab.device.upload(&y)?);
        let mut partials = lab.device.uninitialised(n.div_ceil(256))?;
        let mut result = lab.device.uninitialised(1)?;
        lab.launch(|device| S::dot_product(device, part + 1, n as u32, &x, &y, &mut partials, &mut result))?;
        lab.equal("result", &lab.device.to_vec(&result)?, &[expected as f32])
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let kernel = KERNELS[part];
        let mut budgets = vec![
            Budget::parallelism(kernel, 4, 9, 8192),
            Budget::launches_beside(&[kernel, "sum_partials"]),
            // Two partial sums for each lane.
            Budget::requests("sum_partials", Operation::Load, 8.0),
            // Each element is loaded once, in whole sectors of 8.
            Budget::sectors(kernel, Operation::Load, 2.0 * Self::counted(part) as f64 / 8.0),
            Budget::requests(kernel, Operation::Atomic, 0.0),
            Budget::requests(kernel, Operation::SharedAtomic, 0.0),
        ];
        budgets.extend(match part {
            0 => vec![
                Budget::requests_per_block(kernel, Operation::SharedLoad, 32.0),
                Budget::bank_conflicts(kernel, 0.0),
                Budget::barriers_per_block(kernel, 9.0),
            ],
            1 => vec![
                Budget::requests_per_block(kernel, Operation::SharedLoad, 8.0),
                Budget::requests_per_block(kernel, Operation::SharedStore, 8.0),
                Budget::barriers_per_block(kernel, 2.0),
                // Five for each of the eight warps, and as many again.
                Budget::requests_per_block(kernel, Operation::Shuffle, 80.0),
            ],
            _ => vec![
                Budget::requests_per_block(kernel, Operation::SharedLoad, 8.0),
                Budget::barriers_per_block(kernel, 1.0),
                // Part 2 needs 40 or more for each 256 elements; with 8 elements per thread, an eighth of that.
                Budget::requests(kernel, Operation::Shuffle, Self::counted(part) as f64 / 32.0),
            ],
        });
        budgets
    }

    fn work(_: usize, n: usize) -> Work {
        Work { bytes: (2 * size_of::<f32>() * n) as f64, flops: (2 * n) as f64 }
    }
}
