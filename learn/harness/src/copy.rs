//! Chapter 2: coalesced accesses.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// A particle: position (x, y, z), velocity (x, y, z), mass, charge.
pub type Particle = [f32; 8];

/// What the student launches.
pub trait Copies {
    /// y = x for vectors of `n` elements.
    ///
    /// # Errors
    /// Those of the device.
    fn copy<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;

    /// The particles in the order in which they lie in the device's memory.
    fn layout(particles: &[Particle]) -> Vec<f32>;

    /// Kinetic energies ½·m·|v|² of `n` particles in the order of [`layout`](Self::layout).
    ///
    /// # Errors
    /// Those of the device.
    fn energy<D: Device>(
        device: &D,
        n: u32,
        particles: &D::Buffer<f32>,
        energy: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// y = factor · x for vectors of `n` elements, four at a time. The buffers have ⌈n / 4⌉ · 4 elements, so that the last four are
    /// whole; what the launch writes to those beyond n does not matter.
    ///
    /// # Errors
    /// Those of the device.
    fn scale<D: Device>(
        device: &D,
        n: u32,
        factor: f32,
        x: &D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// The factor of part 3.
const FACTOR: f32 = 1.5;

/// Checks a [`Copies`].
pub struct Check<S>(PhantomData<S>);

impl<S: Copies> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["neighbouring lanes, neighbouring elements", "a struct of arrays", "four elements at a time"];

    fn sizes(_: usize) -> Vec<usize> {
        vec![1, 3, 31, 256, 1000, 4099]
    }

    fn counted(part: usize) -> usize {
        // Three elements are left after the last four.
        if part == 2 { 16_387 } else { 16_384 }
    }

    fn timed(part: usize) -> usize {
        if part == 1 { 1 << 23 } else { 1 << 26 }
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        if part == 2 {
            let mut numbers = lab.floats(n, 0);
            let expected: Vec<f32> = numbers.iter().map(|x| FACTOR * x).collect();
            numbers.resize(n.next_multiple_of(4), 0.0);
            let (x, mut y) = (lab.device.upload(&numbers)?, lab.device.zeros(numbers.len())?);
            lab.launch(|device| S::scale(device, n as u32, FACTOR, &x, &mut y))?;
            return lab.equal("y", &lab.device.to_vec(&y)?[..n], &expected);
        }
        let mut y = lab.device.uninitialised(n)?;
        if part == 0 {
            let numbers = lab.floats(n, 0);
            let x = lab.device.upload(&numbers)?;
            lab.launch(|device| S::copy(device, n as u32, &x, &mut y))?;
            return lab.equal("y", &lab.device.to_vec(&y)?, &numbers);
        }
        let numbers = lab.floats(8 * n, 0);
        let particles: &[Particle] = numbers.as_chunks().0;
        let expected: Vec<f64> = particles
            .iter()
            .map(|&[_, _, _, vx, vy, vz, mass, _]| {
                let [vx, vy, vz, mass] = [vx, vy, vz, mass].map(f64::from);
                0.5 * mass * (vx * vx + vy * vy + vz * vz)
            })
            .collect();
        let particles = lab.device.upload(&S::layout(particles))?;
        lab.launch(|device| S::energy(device, n as u32, &particles, &mut y))?;
        lab.close("energy", &lab.device.to_vec(&y)?, &expected, 1e-6)
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let (kernel, n) = (["copy", "energy", "scale"][part], Self::counted(part));
        let mut budgets = vec![Budget::parallelism(kernel, 4, 0, 0), Budget::launches_beside(&[kernel])];
        // Of a particle, four fields are loaded. The last four elements of part 3 are whole.
        budgets.extend(match part {
            0 => Budget::coalesced(kernel, n, n),
            1 => Budget::coalesced(kernel, 4 * n, n),
            _ => Budget::coalesced(kernel, n.next_multiple_of(4), n.next_multiple_of(4)),
        });
        if part == 2 {
            // A warp scales 128 elements by one request.
            let requests = |operation| Budget::requests(kernel, operation, n.div_ceil(128) as f64);
            budgets.extend([Operation::Load, Operation::Store].map(requests));
        }
        budgets
    }

    fn work(part: usize, n: usize) -> Work {
        let n = n as f64;
        // Bytes and operations per element. Part 2 reads four fields and writes one number per particle.
        let (bytes, operations) = [(8.0, 0.0), (20.0, 7.0), (8.0, 1.0)][part];
        Work { bytes: bytes * n, flops: operations * n }
    }
}
