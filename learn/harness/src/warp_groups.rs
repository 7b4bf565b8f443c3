//! The steps behind chapter 8: products of matrices on warp groups, up to the limit of a GPU of compute capability 9.0.

use std::marker::PhantomData;

use warpkov_device::device::Named;
use warpkov_device::device::half::{Bf16, F16};
use warpkov_device::device::wgmma::Factor;
use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::{Device, Swizzle, Tensor};

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// What the student launches.
pub trait Product {
    /// The names of the instances for f16 and bf16.
    const KERNEL: [&'static str; 2];

    /// C = A·Bᵀ for A and B of `n` × `k`, all by rows, on a device on which `blocks` blocks run at the same time. `n` is a multiple of 256,
    /// and `k` of 64. The tensors are swizzled, in tiles of 64 × 64 and of 128 × 64.
    ///
    /// # Errors
    /// Those of the device.
    fn product<D: Device, T: Factor + Named>(
        device: &D,
        blocks: u32,
        n: u32,
        k: u32,
        a: Tensor<'_, D::Buffer<T>, 2>,
        b: Tensor<'_, D::Buffer<T>, 2>,
        c: &mut D::Buffer<T>,
    ) -> Result<(), D::Error>;

    /// Bytes that all loads of a product may have.
    fn loads(n: usize, k: usize) -> usize;

    /// Row and column of the `i`-th square of C that is computed, of `edge` × `edge`, if the kernel has an order of its own.
    fn square(_edge: u32, _i: u32) -> Option<(u32, u32)> {
        None
    }
}

/// Checks a [`Product`].
pub struct Check<S>(PhantomData<S>);

/// The multiprocessors of an H100 or H200.
const MULTIPROCESSORS: u32 = 132;

/// Blocks that run at the same time under emulation: fewer than there are tiles.
const EMULATED: u32 = 4;

/// Columns of A and B under emulation: more than four stages have, in one tile, or in two for a kernel with an order of its own.
const fn depth(n: usize) -> usize {
    if n <= 256 { 320 } else { 192 }
}

/// Rows of C that are compared at large n.
const SAMPLES: usize = 8;

/// The squares of 256 × 256 that run at the same time, for n = 8192, may need so many bands of 256 rows of A and of B.
const BANDS: usize = 26;

impl<S: Product> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["f16", "bf16"];

    fn sizes(part: usize) -> Vec<usize> {
        vec![Self::counted(part)]
    }

    /// Clusters that go on to other squares need several.
    fn counted(_: usize) -> usize {
        if S::square(1, 0).is_some() { 512 } else { 256 }
    }

    fn timed(_: usize) -> usize {
        8192
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        check_order::<S>()?;
        if part == 0 { run::<S, D, F16>(lab, n, 11) } else { run::<S, D, Bf16>(lab, n, 8) }
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let (kernel, limit) = (S::KERNEL[part], S::loads(Self::counted(part), depth(Self::counted(part))));
        vec![
            Budget::launches_beside(&[kernel]),
            Budget::new(format!("bytes of loads of {kernel}"), kernel, limit as f64, |profile| {
                profile.total(Operation::Load).bytes as f64
            }),
        ]
    }

    fn work(_: usize, n: usize) -> Work {
        Work { bytes: (6 * n * n) as f64, flops: 2.0 * (n as f64).powi(3) }
    }
}

/// A product of factors with `digits` binary digits. Its bound on the error of an element is that of chapter 8's last rung: products are
/// exact, 2⁻²² of Sᵢⱼ = Σₖ |aᵢₖ·bⱼₖ| is allowed for each of k sums, and the result is rounded.
fn run<S: Product, D: Device, T: Factor + Named>(lab: &Lab<'_, D>, n: usize, digits: i32) -> Result<(), Failure> {
    let (k, blocks) = if lab.is_timed() { (n, MULTIPROCESSORS) } else { (depth(n), EMULATED) };
    let [a, b] = [0, 1].map(|stream| lab.floats(n * k, stream).into_iter().map(T::nearest).collect::<Vec<T>>());
    let (on_device_a, on_device_b) = (lab.device.upload(&a)?, lab.device.upload(&b)?);
    let mut c = lab.device.uninitialised::<T>(n * n)?;
    let left = Tensor::new(&on_device_a, [k as u32, n as u32], [64, 64], Swizzle::B128)?;
    let right = Tensor::new(&on_device_b, [k as u32, n as u32], [64, 128], Swizzle::B128)?;
    lab.launch(|device| S::product(device, blocks, n as u32, k as u32, left, right, &mut c))?;
    let c = lab.device.to_vec(&c)?;
    let rounding = 2.0_f64.powi(-digits);
    let wide = |x: &[T]| x.iter().map(|x| x.value()).collect::<Vec<f32>>();
    let (a, b) = (wide(&a), wide(&b));
    let rows: Vec<usize> =
        if n <= 512 { (0..n).collect() } else { (0..SAMPLES).map(|s| s * n / SAMPLES + 9 * s).collect() };
    for row in rows {
        let (mut expected, mut bounds) = (vec![0.0; n], vec![0.0; n]);
        for ((sum, bound), other) in expected.iter_mut().zip(&mut bounds).zip(b.chunks_exact(k)) {
            let mut size = 0.0;
            for (x, y) in a[row * k..][..k].iter().zip(other) {
                let product = f64::from(*x) * f64::from(*y);
                *sum += product;
                size += product.abs();
            }
            let before = k as f64 * 2.0_f64.powi(-22) * size;
            *bound = before + rounding * (f64::abs(*sum) + before);
        }
        lab.within(&format!("row {row} of c"), &wide(&c[row * n..][..n]), &expected, &bounds)?;
    }
    Ok(())
}

/// An order of the squares has each once, and those that run at the same time share bands.
fn check_order<S: Product>() -> Result<(), Failure> {
    for edge in [1, 2, 7, 8, 9, 32] {
        let squares: Option<Vec<_>> = (0..edge * edge).map(|i| S::square(edge, i)).collect();
        let Some(squares) = squares else { return Ok(()) };
        let mut sorted = squares.clone();
        sorted.sort_unstable();
        let all = (0..edge).flat_map(|row| (0..edge).map(move |column| (row, column)));
        if !sorted.iter().copied().eq(all) {
            return Err(Failure::Wrong(format!("the order of {edge} × {edge} squares has not each of them once")));
        }
        for (i, together) in squares.windows(MULTIPROCESSORS as usize / 2).enumerate() {
            let bands =
                |of: fn(&(u32, u32)) -> u32| together.iter().map(of).collect::<std::collections::BTreeSet<_>>().len();
            let bands = bands(|square| square.0) + bands(|square| square.1);
            if bands > BANDS {
                let last = i + together.len() - 1;
                return Err(Failure::Wrong(format!(
                    "squares {i} to {last} of {edge} × {edge} need {bands} bands of A and B, more than {BANDS}"
                )));
            }
        }
    }
    Ok(())
}
