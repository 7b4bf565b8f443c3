//! The device library, function by function, against references of the host.

use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::library;
use warpkov_runtime::device::AnyDevice;

use crate::check::same;
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("library_atomics", atomics);
}

fn atomics(device: &AnyDevice, scale: usize) -> Outcome {
    let (blocks, threads) = (3 * scale, 96);
    let n = blocks * threads;
    let mut random = Random::new(41);
    let x: Vec<i64> = (0..n).map(|_| random.below(1 << 40) as i64 - (1 << 39)).collect();
    let dx = device.upload(&x)?;
    let mut wide = device.upload(&[0, i64::MIN, i64::MAX, -1, 0, 0, 0, 0, 0])?;
    let (mut narrow, mut sums) = (device.zeros(4)?, device.zeros(blocks)?);
    let mut extremes = device.upload(&[f64::NEG_INFINITY, f64::INFINITY])?;
    let mut narrow_extremes = device.upload(&[f32::NEG_INFINITY, f32::INFINITY])?;
    let shape = Shape::new(blocks as u32, threads as u32);
    // SAFETY: `x` has one element per thread, `sums` one per block, and there are as many cells as the kernel uses.
    unsafe {
        library::library_atomics(
            device,
            shape,
            &dx,
            &mut wide,
            &mut narrow,
            &mut sums,
            &mut extremes,
            &mut narrow_extremes,
        )?;
    }
    let (sum, count) = (x.iter().sum::<i64>(), n as i64);
    let (max, min) = (x.iter().max().copied().unwrap_or(0), x.iter().min().copied().unwrap_or(0));
    let (and, or, xor) = x.iter().fold((-1, 0, 0), |(and, or, xor), x| (and & x, or | x, xor ^ x));
    same("wide", &device.to_vec(&wide)?, &[sum, max, min, and, or, xor, count, -5, sum])?;
    let n = n as u32;
    same("narrow", &device.to_vec(&narrow)?, &[n % 100, (100 - n % 100) % 100, n, blocks as u32])?;
    let halves = || x.iter().filter(|&x| x % 7 != 0).map(|&x| x as f64 / 2.0);
    let expected = [halves().fold(f64::NEG_INFINITY, f64::max), halves().fold(f64::INFINITY, f64::min)];
    same("extremes", &device.to_vec(&extremes)?, &expected)?;
    same("narrow extremes", &device.to_vec(&narrow_extremes)?, &expected.map(|x| x as f32))
}
