//! Chapter 1: from the indices of threads to those of elements.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// What the student launches. All matrices are stored by rows.
pub trait Grids {
    /// out = 1 − image, for images of `rows` × `columns` pixels.
    ///
    /// # Errors
    /// Those of the device.
    fn negative<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        image: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// C = A + B, for matrices of `rows` × `columns` elements.
    ///
    /// # Errors
    /// Those of the device.
    fn matrix_sum<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;

    /// `out[r, c] = (table[r, c] − mean[c]) · scale[c]`, for tables of `rows` × `columns` elements, by at most `blocks`
    /// blocks.
    ///
    /// # Errors
    /// Those of the device.
    #[expect(clippy::too_many_arguments, reason = "a launch has these")]
    fn standardise<D: Device>(
        device: &D,
        blocks: u32,
        rows: u32,
        columns: u32,
        table: &D::Buffer<f32>,
        mean: &D::Buffer<f32>,
        scale: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Checks a [`Grids`].
pub struct Check<S>(PhantomData<S>);

/// Columns of the table of part 3: fewer than lanes of a warp.
const FEATURES: usize = 20;

/// Rows and columns at a size.
fn shape(part: usize, size: usize) -> (usize, usize) {
    if part == 2 { (size, FEATURES) } else { (3 * size / 4 + 1, size) }
}

/// Blocks of part 3: each thread of blocks of 256 gets eight elements or more, and a large table fills 132 multiprocessors
/// eight times.
fn blocks(elements: usize) -> usize {
    (elements / 2048).clamp(1, 8 * 132)
}

impl<S: Grids> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["a guard in two dimensions", "neighbouring lanes, neighbouring columns", "a grid-stride loop"];

    fn sizes(part: usize) -> Vec<usize> {
        if part == 2 { vec![1, 13, 100, 1000] } else { vec![1, 16, 31, 33, 100] }
    }

    fn counted(part: usize) -> usize {
        if part == 2 { 2000 } else { 128 }
    }

    fn timed(part: usize) -> usize {
        if part == 2 { 1 << 21 } else { 8192 }
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, size: usize) -> Result<(), Failure> {
        let (rows, columns) = shape(part, size);
        let n = rows * columns;
        let x = lab.floats(n, 0);
        let mut out = lab.device.uninitialised(n)?;
        let matrix = lab.device.upload(&x)?;
        let expected: Vec<f32> = match part {
            0 => {
                lab.launch(|device| S::negative(device, rows as u32, columns as u32, &matrix, &mut out))?;
                x.iter().map(|x| 1.0 - x).collect()
            }
            1 => {
                let y = lab.floats(n, 1);
                let other = lab.device.upload(&y)?;
                lab.launch(|device| S::matrix_sum(device, rows as u32, columns as u32, &matrix, &other, &mut out))?;
                x.iter().zip(&y).map(|(x, y)| x + y).collect()
            }
            _ => {
                let (mean, scale) = (lab.floats(columns, 1), lab.floats(columns, 2));
                let (means, scales) = (lab.device.upload(&mean)?, lab.device.upload(&scale)?);
                let (blocks, rows, columns) = (blocks(n) as u32, rows as u32, columns as u32);
                lab.launch(|device| S::standardise(device, blocks, rows, columns, &matrix, &means, &scales, &mut out))?;
                let of_row = |row: &[f32]| {
                    let columns = row.iter().zip(mean.iter().zip(&scale));
                    columns.map(|(x, (mean, scale))| (x - mean) * scale).collect::<Vec<_>>()
                };
                x.chunks(FEATURES).flat_map(of_row).collect()
            }
        };
        lab.equal("out", &lab.device.to_vec(&out)?, &expected)
    }

    fn budgets(part: usize) -> Vec<Budget> {
        let (rows, columns) = shape(part, Self::counted(part));
        let n = rows * columns;
        match part {
            0 => vec![Budget::parallelism("negative", 4, 0, 0), Budget::launches_beside(&["negative"])],
            1 => {
                let [loads, stores] = Budget::coalesced("matrix_sum", 2 * n, n);
                let parallelism = Budget::parallelism("matrix_sum", 4, 0, 0);
                vec![parallelism, Budget::launches_beside(&["matrix_sum"]), loads, stores]
            }
            _ => {
                // The vectors are read as often as the table. A row has no whole number of sectors.
                let [loads, stores] = Budget::coalesced("standardise", 4 * n, 3 * n / 2);
                let blocks = blocks(n) as f64;
                vec![
                    Budget::parallelism("standardise", 8, 0, 0),
                    Budget::launches_beside(&["standardise"]),
                    loads,
                    stores,
                    Budget::new("blocks of standardise", "standardise", blocks, |profile| profile.blocks as f64),
                    Budget::idle_lanes("standardise", Operation::Load, 0.01),
                    Budget::idle_lanes("standardise", Operation::Store, 0.01),
                ]
            }
        }
    }

    fn work(part: usize, size: usize) -> Work {
        let (rows, columns) = shape(part, size);
        let n = (rows * columns) as f64;
        // Matrices read and written, and operations per element. The vectors of part 3 are small.
        let (matrices, operations) = [(2.0, 1.0), (3.0, 1.0), (2.0, 2.0)][part];
        Work { bytes: 4.0 * matrices * n, flops: operations * n }
    }
}
