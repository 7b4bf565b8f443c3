//! Chapter 8: the product of two matrices.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// What the student launches.
pub trait MatrixProduct {
    /// C = A·B for row-major matrices of `n` × `n`, by the kernel of `part` 1 to 5. From part 3 on, `n` is a multiple of
    /// 64, in part 5 of 128.
    ///
    /// # Errors
    /// Those of the device.
    fn matrix_product<D: Device>(
        device: &D,
        part: usize,
        n: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Checks a [`MatrixProduct`].
pub struct Check<S>(PhantomData<S>);

/// The kernels of the parts.
const KERNELS: [&str; 5] =
    ["product_naive", "product_tiled", "product_registers", "product_pipelined", "product_tensor"];

/// The largest n for which all rows of C are compared. Of larger matrices, [`SAMPLES`] rows are.
const ALL: usize = 256;

/// Rows that are compared, if not all are.
const SAMPLES: usize = 8;

/// Bytes that the lanes ask for from global memory, per floating-point operation. Loads must be whole sectors for this to
/// be the traffic.
fn bytes_per_flop(kernel: &'static str, n: usize, limit: f64) -> Budget {
    let flops = 2.0 * (n as f64).powi(3);
    Budget::new(format!("bytes of loads per FLOP of {kernel}"), kernel, limit, move |profile| {
        let loads = profile.total(Operation::Load);
        // Lanes that ask for the same word get it from one sector.
        loads.bytes.min(32 * loads.sectors) as f64 / flops
    })
}

/// Words that a lane loads from shared memory by separate instructions, per multiply-add.
fn shared_loads(kernel: &'static str, n: usize, limit: f64) -> Budget {
    let products = (n as f64).powi(3);
    Budget::new(format!("shared loads per multiply-add of {kernel}"), kernel, limit, move |profile| {
        32.0 * profile.total(Operation::SharedLoad).requests as f64 / products
    })
}

/// Reads of a tile while no copy of the next one is on its way: those of the last two of n / 16 steps may be.
fn unhidden_copies(kernel: &'static str, n: usize) -> Budget {
    let what = format!("shared loads of {kernel} without an asynchronous copy in flight (part of all)");
    Budget::new(what, kernel, 2.0 * 16.0 / n as f64, |profile| {
        let loads = profile.total(Operation::SharedLoad);
        1.0 - loads.copying as f64 / loads.lanes as f64
    })
}

impl<S: MatrixProduct> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &[
        "coalesced loads",
        "tiles in shared memory",
        "tiles in registers",
        "asynchronous copies to two buffers",
        "tensor cores",
    ];

    fn sizes(part: usize) -> Vec<usize> {
        match part {
            0 | 1 => vec![1, 17, 32, 45],
            2 | 3 => vec![64, 128],
            _ => vec![128],
        }
    }

    fn counted(_: usize) -> usize {
        128
    }

    fn timed(_: usize) -> usize {
        4096
    }

    /// The bound on the error of an element is relative to Sᵢⱼ = Σₖ |aᵢₖ·bₖⱼ|. A sum of n products in f32, in any order,
    /// errs by at most n·u / (1 − n·u)·S with u = 2⁻²⁴. TF32 truncates each factor by less than one part in 2¹⁰, thus a
    /// product by less than 2 in 2¹⁰; how the tensor core rounds its sums is not specified, and 2⁻²² for each is allowed.
    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        let (a, b) = (lab.floats(n * n, 0), lab.floats(n * n, 1));
        let (on_device_a, on_device_b) = (lab.device.upload(&a)?, lab.device.upload(&b)?);
        let mut c = lab.device.uninitialised(n * n)?;
        lab.launch(|device| S::matrix_product(device, part + 1, n as u32, &on_device_a, &on_device_b, &mut c))?;
        let c = lab.device.to_vec(&c)?;

        let u = 2.0_f64.powi(-24);
        let relative = match part {
            4 => 2.0 * 2.0_f64.powi(-10) + n as f64 * 2.0_f64.powi(-22),
            _ => n as f64 * u / (1.0 - n as f64 * u),
        };
        let rows: Vec<usize> =
            if n <= ALL { (0..n).collect() } else { (0..SAMPLES).map(|s| s * n / SAMPLES + 9 * s).collect() };
        for row in rows {
            let (mut expected, mut bounds) = (vec![0.0; n], vec![0.0; n]);
            for (factor, line) in a[row * n..][..n].iter().zip(b.chunks_exact(n)) {
                for ((sum, bound), other) in expected.iter_mut().zip(&mut bounds).zip(line) {
                    let product = f64::from(*factor) * f64::from(*other);
                    *sum += product;
                    *bound += relative * product.abs();
                }
            }
            lab.within(&format!("row {row} of c"), &c[row * n..][..n], &expected, &bounds)?;
        }
        Ok(())
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let (kernel, n) = (KERNELS[part], Self::counted(part));
        // A part's blocks for n = 128, barriers of a block, and shared memory: about twice what two tiles need.
        let (blocks, barriers, shared_bytes) =
            [(8, 0, 0), (8, n / 8 + 2, 16_384), (4, n / 8 + 2, 32_768), (4, n / 8 + 2, 49_152), (1, n / 8 + 2, 98_304)]
                [part];
        let mut budgets =
            vec![Budget::parallelism(kernel, blocks, barriers, shared_bytes), Budget::launches_beside(&[kernel])];
        budgets.extend(match part {
            0 => vec![
                // For each product, a warp loads an element of A and 32 of B.
                Budget::sectors(kernel, Operation::Load, 5.0 * (n as f64).powi(3) / 32.0),
                bytes_per_flop(kernel, n, 2.6),
            ],
            1 => vec![bytes_per_flop(kernel, n, 0.26), Budget::bank_conflicts(kernel, 0.0)],
            2 => vec![bytes_per_flop(kernel, n, 0.07), shared_loads(kernel, n, 0.5)],
            3 => vec![
                bytes_per_flop(kernel, n, 0.07),
                // A step has a depth of 16.
                Budget::barriers_per_block(kernel, (n / 16 + 2) as f64),
                unhidden_copies(kernel, n),
            ],
            _ => vec![
                bytes_per_flop(kernel, n, 0.04),
                unhidden_copies(kernel, n),
                shared_loads(kernel, n, 0.1),
                // The emulator makes a copy of 16 bytes word by word, whose stores conflict on no GPU.
                Budget::new(format!("bank conflicts of shared loads of {kernel}"), kernel, 0.0, |profile| {
                    profile.total(Operation::SharedLoad).bank_conflicts as f64
                }),
                Budget::new(format!("multiply-adds of {kernel} per tensor product"), kernel, 2048.0, move |profile| {
                    (n as f64).powi(3) / profile.total(Operation::TensorProduct).requests as f64
                }),
            ],
        });
        budgets
    }

    fn work(_: usize, n: usize) -> Work {
        Work { bytes: (3 * size_of::<f32>() * n * n) as f64, flops: 2.0 * (n as f64).powi(3) }
    }
}
