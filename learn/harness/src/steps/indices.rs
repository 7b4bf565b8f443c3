//! The steps before chapters 0, 1 and 2: which thread has which element.

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use super::map;
use crate::budget::Budget;
use crate::lab::{Failure, Lab};

/// `n` small whole numbers, the same for the same `stream`: a wrong result is easy to read.
fn numbers<D: Device>(lab: &Lab<'_, D>, n: usize, stream: u64) -> Vec<f32> {
    lab.integers(n, 100, stream).into_iter().map(|x| x as f32).collect()
}

/// x + 10 of all elements.
fn plus_ten(x: &[f32]) -> Vec<f32> {
    x.iter().map(|x| x + 10.0).collect()
}

step! {
    /// 0.1: y = x + 10, by one block of `n` threads.
    add_ten: "one thread, one element", [32, 96, 1024], 256, [],
    |lab, n| {
        let x = numbers(lab, n, 0);
        let y = map(lab, &x, n, |device, x, y| S::add_ten(device, n as u32, x, y))?;
        lab.equal("y", &y, &plus_ten(&x))
    }
    /// y = x + 10.
    fn add_ten<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;
}

step! {
    /// 0.2: z = x · y, by one block of `n` threads.
    zip: "two inputs, one result", [32, 96, 1024], 256, [],
    |lab, n| {
        let (x, y) = (numbers(lab, n, 0), numbers(lab, n, 1));
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
        let other = lab.device.upload(&y)?;
        let z = map(lab, &x, n, |device, x, z| S::zip(device, n as u32, x, &other, z))?;
        lab.equal("z", &z, &expected)
    }
    /// z = x · y, element by element.
    fn zip<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        y: &D::Buffer<f32>,
        z: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

step! {
    /// 0.3: y = x + 10, by one block of 256 threads for at most 256 elements.
    guard: "threads without an element", [100, 1, 31, 255, 256], 250, [],
    |lab, n| {
        let x = numbers(lab, n, 0);
        let y = map(lab, &x, n, |device, x, y| S::guard(device, n as u32, x, y))?;
        lab.equal("y", &y, &plus_ten(&x))
    }
    /// y = x + 10.
    fn guard<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;
}

step! {
    /// 0.4: y = x + 10, by as many blocks of 256 threads as `n` elements need.
    blocks: "enough blocks, and no more", [1000, 1, 255, 256, 257, 5000], 1000,
    [Budget::new("blocks", "blocks", 4.0, |kernel| kernel.blocks as f64)],
    |lab, n| {
        let x = numbers(lab, n, 0);
        let y = map(lab, &x, n, |device, x, y| S::blocks(device, n as u32, x, y))?;
        lab.equal("y", &y, &plus_ten(&x))
    }
    /// y = x + 10.
    fn blocks<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;
}

step! {
    /// 1.1: out = a + 10, for a matrix of at most 8 × 32 elements stored by rows, by one block of 32 × 8 threads.
    map_2d: "x is the column, y is the row", [4, 1, 7, 8], 8, [],
    |lab, rows| {
        let columns = 4 * rows - 1;
        let a = numbers(lab, rows * columns, 0);
        let (rows, columns) = (rows as u32, columns as u32);
        let out = map(lab, &a, a.len(), |device, a, out| S::map_2d(device, rows, columns, a, out))?;
        lab.equal("out", &out, &plus_ten(&a))
    }
    /// out = a + 10.
    fn map_2d<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

step! {
    /// 1.2: `out[r, c] = a[r] + b[c]`, for a column a and a row b.
    broadcast: "a column and a row make a matrix", [7, 1, 31, 33, 100], 64, [],
    |lab, columns| {
        let rows = 3 * columns / 4 + 1;
        let (a, b) = (numbers(lab, rows, 0), numbers(lab, columns, 1));
        let expected: Vec<f32> = a.iter().flat_map(|a| b.iter().map(move |b| a + b)).collect();
        let row = lab.device.upload(&b)?;
        let (rows, columns) = (rows as u32, columns as u32);
        let len = expected.len();
        let out = map(lab, &a, len, |device, a, out| S::broadcast(device, rows, columns, a, &row, out))?;
        lab.equal("out", &out, &expected)
    }
    /// `out[r, c] = a[r] + b[c]`, for `rows` × `columns` elements.
    fn broadcast<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Columns of the matrix of step 1.3: its last elements are beyond 2³².
const COLUMNS: u32 = 70_000;

step! {
    /// 1.3: the indices of elements of a matrix of 70 000 × 70 000, by their rows and columns.
    index_types: "row · columns needs 64 bits", [100, 1, 31, 257], 256, [],
    |lab, n| {
        let (row, column) = (lab.integers(n, COLUMNS, 0), lab.integers(n, COLUMNS, 1));
        let index = |(&row, &column)| u64::from(row) * u64::from(COLUMNS) + u64::from(column);
        let expected: Vec<u64> = row.iter().zip(&column).map(index).collect();
        let other = lab.device.upload(&column)?;
        let index = map(lab, &row, n, |device, row, index| {
            S::index_types(device, n as u32, COLUMNS, row, &other, index)
        })?;
        lab.equal("index", &index, &expected)
    }
    /// `index[i]` is the index of the element in row `row[i]` and column `column[i]`, of a matrix of `columns` columns stored by rows.
    fn index_types<D: Device>(
        device: &D,
        n: u32,
        columns: u32,
        row: &D::Buffer<u32>,
        column: &D::Buffer<u32>,
        index: &mut D::Buffer<u64>,
    ) -> Result<(), D::Error>;
}

/// The kernels of step 2.1, each of which is launched with one warp.
const PATTERNS: [&str; 4] = ["neighbours", "shifted", "every_second", "every_eighth"];

step! {
    /// 2.1: the sectors that one warp's request touches, for four patterns of addresses.
    sectors: "sectors of a warp's request", [256], 256,
    std::array::from_fn::<_, 4, _>(|k| {
        let what = format!("wrong answers for {}", PATTERNS[k]);
        Budget::new(what, PATTERNS[k], 0.0, move |kernel| {
            f64::from(kernel.total(Operation::Load).sectors != u64::from(S::SECTORS[k]))
        })
    }),
    |lab, n| {
        let x = numbers(lab, n, 0);
        for (k, stride) in [1, 1, 2, 8].into_iter().enumerate() {
            let y = map(lab, &x, 32, |device, x, y| S::sectors(device, k, x, y))?;
            let expected: Vec<f32> = (0..32).map(|lane| x[stride * lane + usize::from(k == 1)]).collect();
            lab.equal("y", &y, &expected)?;
        }
        Ok(())
    }
    /// The sectors of each pattern: the student's answers.
    const SECTORS: [u32; 4];

    /// Launches the kernel of a pattern with one warp.
    fn sectors<D: Device>(
        device: &D,
        pattern: usize,
        x: &D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}
