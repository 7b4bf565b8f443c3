//! Chapter 4: shared memory.

use std::marker::PhantomData;

use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// What the student launches. All matrices are stored by rows.
pub trait Transpose {
    /// Reverses each block of [`BLOCK`] elements of x; the last block may be shorter.
    ///
    /// # Errors
    /// Those of the device.
    fn reverse<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;

    /// B = Aᵀ, for A of `rows` × `columns` elements.
    ///
    /// # Errors
    /// Those of the device.
    fn transpose<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// The sum of each row of A, of `rows` × `columns` elements.
    ///
    /// # Errors
    /// Those of the device.
    fn row_sums<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        sums: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Elements that a block reverses.
pub const BLOCK: usize = 256;

/// Checks a [`Transpose`].
pub struct Check<S>(PhantomData<S>);

/// Rows and columns at a size. Of part 3, a row is no whole number of tiles, and a whole number of sectors.
fn shape(part: usize, size: usize) -> (usize, usize) {
    if part == 2 { (size, 104) } else { ((3 * size / 4).max(1), size) }
}

impl<S: Transpose> Check<S> {
    fn reverse<D: Device>(lab: &Lab<'_, D>, n: usize) -> Result<(), Failure> {
        let numbers = lab.floats(n, 0);
        let expected: Vec<f32> = numbers.chunks(BLOCK).flat_map(|block| block.iter().rev().copied()).collect();
        let x = lab.device.upload(&numbers)?;
        let mut y = lab.device.uninitialised(n)?;
        lab.launch(|device| S::reverse(device, n as u32, &x, &mut y))?;
        lab.equal("y", &lab.device.to_vec(&y)?, &expected)
    }

    fn transpose<D: Device>(lab: &Lab<'_, D>, rows: usize, columns: usize) -> Result<(), Failure> {
        let numbers = lab.floats(rows * columns, 0);
        let mut expected = Vec::with_capacity(rows * columns);
        for column in 0..columns {
            expected.extend((0..rows).map(|row| numbers[row * columns + column]));
        }
        let a = lab.device.upload(&numbers)?;
        let mut b = lab.device.uninitialised(rows * columns)?;
        lab.launch(|device| S::transpose(device, rows as u32, columns as u32, &a, &mut b))?;
        lab.equal("b", &lab.device.to_vec(&b)?, &expected)
    }

    fn row_sums<D: Device>(lab: &Lab<'_, D>, rows: usize, columns: usize) -> Result<(), Failure> {
        let numbers = lab.floats(rows * columns, 0);
        let expected: Vec<f64> = numbers.chunks(columns).map(|row| row.iter().map(|&x| f64::from(x)).sum()).collect();
        let a = lab.device.upload(&numbers)?;
        let mut sums = lab.device.uninitialised(rows)?;
        lab.launch(|device| S::row_sums(device, rows as u32, columns as u32, &a, &mut sums))?;
        lab.close("sums", &lab.device.to_vec(&sums)?, &expected, 1e-5)
    }
}

impl<S: Transpose> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["reversed blocks", "a transpose in tiles", "no bank conflicts"];

    fn sizes(part: usize) -> Vec<usize> {
        if part == 0 { vec![1, 31, 256, 257, 1000] } else { vec![1, 31, 32, 33, 100] }
    }

    fn counted(part: usize) -> usize {
        if part == 0 { 4096 } else { 128 }
    }

    fn timed(part: usize) -> usize {
        [1 << 26, 6144, 1 << 19][part]
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, size: usize) -> Result<(), Failure> {
        let (rows, columns) = shape(part, size);
        match part {
            0 => Self::reverse(lab, size),
            1 => Self::transpose(lab, rows, columns),
            _ => {
                // The second launch is the one that is timed.
                Self::transpose(lab, rows, columns)?;
                Self::row_sums(lab, rows, columns)
            }
        }
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let (rows, columns) = shape(part, Self::counted(part));
        let n = if part == 0 { Self::counted(part) } else { rows * columns };
        let transpose = Budget::parallelism("transpose", 4, 4, 16_384);
        let mut budgets = match part {
            0 => vec![Budget::parallelism("reverse", 2, 4, 4096), Budget::launches_beside(&["reverse"])],
            1 => vec![transpose, Budget::launches_beside(&["transpose"])],
            _ => vec![
                // A block of 128 threads adds 128 rows, in four tiles.
                Budget::parallelism("row_sums", 1, 12, 32_768),
                transpose,
                Budget::launches_beside(&["row_sums", "transpose"]),
                Budget::bank_conflicts("row_sums", 0.0),
                Budget::bank_conflicts("transpose", 0.0),
            ],
        };
        if part == 2 {
            budgets.extend(Budget::coalesced("row_sums", n, rows));
        }
        budgets.extend(Budget::coalesced(if part == 0 { "reverse" } else { "transpose" }, n, n));
        budgets
    }

    fn work(part: usize, size: usize) -> Work {
        let (rows, columns) = shape(part, size);
        let n = (rows * columns) as f64;
        match part {
            0 => Work { bytes: 8.0 * size as f64, flops: 0.0 },
            1 => Work { bytes: 8.0 * n, flops: 0.0 },
            // The matrix is read, and a sum of each row is written.
            _ => Work { bytes: 4.0 * (n + rows as f64), flops: n },
        }
    }
}
