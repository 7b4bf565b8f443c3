//! Chapter 5.

use learn::check::{Verdict, emulated};
use learn::faults::{Check, Faults};
use learn::{Device, Shape};

use crate::{Case, fails, passes};

#[path = "../../solutions/05_faults/kernels.rs"]
mod solution;

mod serial {
    use warpkov_device::device::prelude::*;

    /// Thread 0 of each block adds its elements.
    #[kernel]
    pub fn block_sums(n: u32, x: Global<u32>, out: GlobalMut<u32>) {
        let first = 256 * thread::block_idx_x();
        if thread::thread_idx_x() == 0 {
            let mut sum = 0;
            for i in first..n.min(first + 256) {
                sum += x.get(i);
            }
            out.set(thread::block_idx_x(), sum);
        }
    }

    /// The first thread adds all elements.
    #[kernel]
    pub fn total(n: u32, x: Global<u32>, out: GlobalMut<u32>) {
        if thread::index_1d() == 0 {
            let mut sum = 0;
            for i in 0..n {
                sum += x.get(i);
            }
            out.set(0, sum);
        }
    }
}

const SERIAL: u32 = 0;
const SOLUTION: u32 = 1;

struct Launch<const CASE: u32>;

impl<const CASE: u32> Faults for Launch<CASE> {
    fn block_sums<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, out: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        let shape = Shape::cover(n.into(), 256);
        // SAFETY: x has n elements, and out has one per block.
        unsafe {
            match CASE {
                SERIAL => serial::block_sums(device, shape, n, x, out),
                _ => solution::block_sums(device, shape, n, x, out),
            }
        }
    }

    fn differences<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: both vectors have n elements.
        unsafe { solution::differences(device, Shape::cover(n.into(), 256), n, x, y) }
    }

    fn smooth<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: both vectors have n elements.
        unsafe { solution::smooth(device, Shape::cover(n.into(), 256), n, x, y) }
    }

    fn block_max<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, out: &mut D::Buffer<f32>) -> Result<(), D::Error> {
        // SAFETY: x has n elements, and out has one per block.
        unsafe { solution::block_max(device, Shape::cover(n.into(), 256), n, x, out) }
    }

    fn total<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        parts: &mut D::Buffer<u32>,
        arrived: &mut D::Buffer<u32>,
        total: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let shape = Shape::cover(n.into(), 32);
        // SAFETY: x has n elements, parts has one per block, the others have one, and arrived is 0.
        unsafe {
            match CASE {
                SERIAL => serial::total(device, shape, n, x, total),
                _ => solution::total(device, shape, n, x, parts, arrived, total),
            }
        }
    }
}

fn case<const CASE: u32, const PART: usize>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(PART)
}

pub const CASES: &[Case] = &[
    fails("one thread per block", case::<SERIAL, 0>, "parallelism of block_sums"),
    fails("one thread", case::<SERIAL, 4>, "at most 256 loads of total"),
    passes("the solution of part 4", case::<SOLUTION, 3>),
    passes("the solution of part 5", case::<SOLUTION, 4>),
];
