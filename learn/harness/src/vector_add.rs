//! Chapter 0: the sum of two vectors.

use std::marker::PhantomData;

use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// What the student launches.
pub trait VectorAdd {
    /// z = x + y for vectors of `n` elements.
    ///
    /// # Errors
    /// Those of the device.
    fn vector_add<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        z: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Checks a [`VectorAdd`].
pub struct Check<S>(PhantomData<S>);

impl<S: VectorAdd> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["a launch with enough threads"];

    fn sizes(_: usize) -> Vec<usize> {
        // The last one has elements for all threads of a large block on each of 132 multiprocessors, and more.
        vec![1, 31, 256, 257, 1000, 140_000]
    }

    fn counted(_: usize) -> usize {
        4096
    }

    fn timed(_: usize) -> usize {
        1 << 26
    }

    fn run<D: Device>(lab: &Lab<'_, D>, _: usize, n: usize) -> Result<(), Failure> {
        let (x, y) = (lab.floats(n, 0), lab.floats(n, 1));
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        let (x, y) = (lab.device.upload(&x)?, lab.device.upload(&y)?);
        let mut z = lab.device.uninitialised(n)?;
        lab.launch(|device| S::vector_add(device, n as u32, &x, &y, &mut z))?;
        lab.equal("z", &lab.device.to_vec(&z)?, &expected)
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let n = Self::counted(part);
        let [loads, stores] = Budget::coalesced("vector_add", 2 * n, n);
        vec![Budget::parallelism("vector_add", 2, 0, 0), Budget::launches_beside(&["vector_add"]), loads, stores]
    }

    fn work(_: usize, n: usize) -> Work {
        Work { bytes: (3 * size_of::<f32>() * n) as f64, flops: n as f64 }
    }
}
