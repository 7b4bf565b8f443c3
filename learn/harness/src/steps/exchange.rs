//! The steps before chapters 3 and 6: threads that exchange numbers.

use warpkov_device::emulator::profile::{KernelProfile, Operation};
use warpkov_device::launch::Device;

use super::map;
use crate::budget::Budget;
use crate::lab::{Failure, Lab};

/// Threads of a block.
const BLOCK: usize = 256;

/// Lanes of a warp.
const WARP: usize = 32;

step! {
    /// 3.1: each thread gets its right neighbour's number; the last of a block gets the first's.
    neighbour: "write, wait, read a neighbour", [1, 2, 5], 4, [],
    |lab, blocks| {
        let x = lab.floats(BLOCK * blocks, 0);
        let expected: Vec<f32> = x.chunks(BLOCK).flat_map(|x| (0..BLOCK).map(|t| x[(t + 1) % BLOCK])).collect();
        let y = map(lab, &x, x.len(), |device, x, y| S::neighbour(device, blocks as u32, x, y))?;
        lab.equal("y", &y, &expected)
    }
    /// y of each thread is x of the next one, in blocks of 256 threads.
    fn neighbour<D: Device>(
        device: &D,
        blocks: u32,
        x: &mut D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

step! {
    /// 3.2: reverses each block of 256 elements.
    reverse: "each thread reads the opposite one's number", [1, 2, 5], 4, [],
    |lab, blocks| {
        let x = lab.floats(BLOCK * blocks, 0);
        let expected: Vec<f32> = x.chunks(BLOCK).flat_map(|x| x.iter().rev().copied()).collect();
        let y = map(lab, &x, x.len(), |device, x, y| S::reverse(device, blocks as u32, x, y))?;
        lab.equal("y", &y, &expected)
    }
    /// Reverses each block of 256 elements, in blocks of 256 threads.
    fn reverse<D: Device>(
        device: &D,
        blocks: u32,
        x: &mut D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

step! {
    /// 3.3: for each lane, the number of lanes below it, in its warp, whose element is positive.
    ballot: "how many lanes below say yes", [33, 1, 31, 257, 1000], 1024,
    // A load and a vote of each warp.
    [Budget::requests("ballot", Operation::Load, 32.0), Budget::waits("ballot", 32.0)],
    |lab, n| {
        let x = lab.floats(n, 0);
        let below = |warp: &[f32]| {
            let before = |lane| warp[..lane].iter().filter(|&&x| x > 0.0).count() as u32;
            (0..warp.len()).map(before).collect::<Vec<_>>()
        };
        let expected: Vec<u32> = x.chunks(WARP).flat_map(below).collect();
        let below = map(lab, &x, n, |device, x, below| S::ballot(device, n as u32, x, below))?;
        lab.equal("below", &below, &expected)
    }
    /// `below[i]` is the number of positive elements before element i in its warp.
    fn ballot<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, below: &mut D::Buffer<u32>) -> Result<(), D::Error>;
}

step! {
    /// 3.4: moves the positive elements to the front, in any order, and counts them.
    compaction: "a place for each positive element", [33, 1, 31, 257, 1000], 1024,
    [Budget::atomics_per_address("compaction", 32.0)],
    |lab, n| {
        let numbers = lab.floats(n, 0);
        let x = lab.device.upload(&numbers)?;
        let (mut count, mut y) = (lab.device.zeros(1)?, lab.device.zeros(n)?);
        lab.launch(|device| {
            device.clear(&mut count)?;
            S::compaction(device, n as u32, &x, &mut count, &mut y)
        })?;
        let mut expected: Vec<f32> = numbers.into_iter().filter(|&x| x > 0.0).collect();
        lab.equal("count", &lab.device.to_vec(&count)?, &[expected.len() as u32])?;
        let mut found = lab.device.to_vec(&y)?;
        found.truncate(expected.len());
        found.sort_by(f32::total_cmp);
        expected.sort_by(f32::total_cmp);
        lab.equal("y, in ascending order,", &found, &expected)
    }
    /// Adds the number of positive elements to `count[0]`, which is 0, and writes them to the first elements of y.
    fn compaction<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<f32>,
        count: &mut D::Buffer<u32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}

/// Σₖ wₖ·xᵢ₊ₖ₋ᵣ for the weights w₀ … w₂ᵣ, with zeros beyond the ends of x.
fn filtered(x: &[f32], weights: &[f64]) -> Vec<f64> {
    let padding = vec![0.0; weights.len() / 2];
    let x = [&padding[..], &x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), &padding].concat();
    x.windows(weights.len()).map(|x| x.iter().zip(weights).map(|(x, w)| x * w).sum()).collect()
}

/// Each of 1000 elements is loaded once, but for `halo` per block of 256.
fn loads(kernel: &'static str, halo: usize) -> Budget {
    Budget::new(format!("elements that {kernel} loads"), kernel, (1000 + 4 * halo) as f64, |kernel: &KernelProfile| {
        kernel.total(Operation::Load).lanes as f64
    })
}

step! {
    /// 6.1: yᵢ = xᵢ₋₁ + xᵢ + xᵢ₊₁.
    sliding_sum: "each element loaded once", [1, 2, 31, 256, 257, 1000], 1000, [loads("sliding_sum", 2)],
    |lab, n| {
        let x = lab.floats(n, 0);
        let y = map(lab, &x, n, |device, x, y| S::sliding_sum(device, n as u32, x, y))?;
        lab.close("y", &y, &filtered(&x, &[1.0; 3]), 1e-6)
    }
    /// yᵢ = xᵢ₋₁ + xᵢ + xᵢ₊₁, with 0 beyond the ends.
    fn sliding_sum<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;
}

step! {
    /// 6.2: a convolution with five weights.
    convolution: "a tile with a halo", [1, 3, 31, 256, 257, 1000], 1000, [loads("convolution", 4)],
    |lab, n| {
        let x = lab.floats(n, 0);
        let y = map(lab, &x, n, |device, x, y| S::convolution(device, n as u32, x, y))?;
        lab.close("y", &y, &filtered(&x, &[1.0, 4.0, 6.0, 4.0, 1.0].map(|w| w / 16.0)), 1e-6)
    }
    /// yᵢ = (xᵢ₋₂ + 4·xᵢ₋₁ + 6·xᵢ + 4·xᵢ₊₁ + xᵢ₊₂) / 16, with 0 beyond the ends.
    fn convolution<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, y: &mut D::Buffer<f32>) -> Result<(), D::Error>;
}

step! {
    /// 6.3: one generation of the game of life.
    life: "a cell and its eight neighbours", [7, 1, 2, 33, 50], 64, [],
    |lab, columns| {
        let rows = 3 * columns / 4 + 1;
        let cells = lab.integers(rows * columns, 2, 0);
        let next = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            let around = |k: usize, n: usize| k.saturating_sub(1)..(k + 2).min(n);
            let all: u32 = around(row, rows).flat_map(|r| around(column, columns).map(move |c| (r, c)))
                .map(|(r, c)| cells[r * columns + c]).sum();
            u32::from(all == 3 || (all == 4 && cells[i] == 1))
        };
        let expected: Vec<u32> = (0..cells.len()).map(next).collect();
        let (rows, columns) = (rows as u32, columns as u32);
        let next = map(lab, &cells, cells.len(), |device, now, next| S::life(device, rows, columns, now, next))?;
        lab.equal("next", &next, &expected)
    }
    /// The cells of the next generation, 1 for a living one. All cells outside are dead.
    fn life<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        now: &D::Buffer<u32>,
        next: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

step! {
    /// 6.4: the sum of each 32 elements.
    warp_sum: "a sum by shuffles", [1, 31, 32, 33, 1000], 1024,
    // Of each warp: a load, a shuffle for each halving, and one for the number of the warp.
    [
        Budget::requests("warp_sum", Operation::Load, 32.0),
        Budget::requests("warp_sum", Operation::SharedStore, 0.0),
        Budget::waits("warp_sum", 6.0 * 32.0),
    ],
    |lab, n| {
        let x = lab.floats(n, 0);
        let expected: Vec<f64> = x.chunks(WARP).map(|warp| warp.iter().map(|&x| f64::from(x)).sum()).collect();
        let sums = map(lab, &x, expected.len(), |device, x, sums| S::warp_sum(device, n as u32, x, sums))?;
        lab.close("sums", &sums, &expected, 1e-5)
    }
    /// The sum of each 32 elements; the last ones may be fewer.
    fn warp_sum<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, sums: &mut D::Buffer<f32>) -> Result<(), D::Error>;
}

step! {
    /// 6.5: the maximum of each 256 elements.
    block_max: "from warps to a block", [1, 31, 33, 257, 1000], 1024,
    // Of each warp: a load, and its maximum once to and from shared memory.
    [
        Budget::requests("maximum_of_block", Operation::Load, 32.0),
        Budget::requests("maximum_of_block", Operation::SharedLoad, 32.0),
        Budget::barriers_per_block("maximum_of_block", 2.0),
        Budget::bank_conflicts("maximum_of_block", 0.0),
    ],
    |lab, n| {
        let x = lab.floats(n, 0);
        let expected: Vec<f32> = x.chunks(BLOCK).map(|x| x.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect();
        let maxima = map(lab, &x, expected.len(), |device, x, maxima| S::block_max(device, n as u32, x, maxima))?;
        lab.equal("maxima", &maxima, &expected)
    }
    /// The maximum of each 256 elements; the last ones may be fewer.
    fn block_max<D: Device>(device: &D, n: u32, x: &D::Buffer<f32>, maxima: &mut D::Buffer<f32>) -> Result<(), D::Error>;
}

step! {
    /// 6.6: the softmax of each row of a matrix, whose elements may be large.
    softmax: "no overflow", [20, 1, 32, 100, 256], 200, [],
    |lab, columns| {
        let rows = 5;
        // The exponential of 89 is beyond the largest f32.
        let x: Vec<f32> = lab.floats(rows * columns, 0).into_iter().map(|x| 1000.0 + 4.0 * x).collect();
        let softmax = |row: &[f32]| {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let powers = row.iter().map(|x| f64::from(x - largest).exp());
            let sum: f64 = powers.clone().sum();
            powers.map(|power| power / sum).collect::<Vec<_>>()
        };
        let expected: Vec<f64> = x.chunks(columns).flat_map(softmax).collect();
        let columns = columns as u32;
        let y = map(lab, &x, x.len(), |device, x, y| S::softmax(device, rows as u32, columns, x, y))?;
        lab.close("y", &y, &expected, 1e-5)
    }
    /// `y[r, c] = exp(x[r, c]) / Σₖ exp(x[r, k])`, for `rows` rows and at most 256 columns.
    fn softmax<D: Device>(
        device: &D,
        rows: u32,
        columns: u32,
        x: &D::Buffer<f32>,
        y: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}
