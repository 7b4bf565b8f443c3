//! The steps before chapters 7 and 8: blocks that wait for each other, and fragments.

use warpkov_device::launch::Device;

use super::map;
use crate::budget::Budget;
use crate::lab::{Failure, Lab};

/// Threads of a block.
const BLOCK: usize = 256;

step! {
    /// 7.1: each block draws a ticket, which all of its threads know.
    ticket: "tickets in the order of starts", [1, 2, 5, 33], 16, [Budget::atomics_per_address("ticket", 16.0)],
    |lab, blocks| {
        let (mut next, mut tickets) = (lab.device.zeros(1)?, lab.device.zeros(BLOCK * blocks)?);
        lab.launch(|device| {
            device.clear(&mut next)?;
            S::ticket(device, blocks as u32, &mut next, &mut tickets)
        })?;
        let found: Vec<u32> = lab.device.to_vec(&tickets)?;
        let of_block: Vec<u32> = found.chunks(BLOCK).flat_map(|block| [block[0]; BLOCK]).collect();
        lab.equal("tickets", &found, &of_block)?;
        let mut all: Vec<u32> = found.into_iter().step_by(BLOCK).collect();
        all.sort_unstable();
        lab.equal("tickets, in ascending order,", &all, &(0..blocks as u32).collect::<Vec<_>>())?;
        lab.equal("next", &lab.device.to_vec(&next)?, &[blocks as u32])
    }
    /// Each thread of `blocks` blocks of 256 writes its block's ticket: the number of blocks that drew before it. `next[0]` is 0.
    fn ticket<D: Device>(
        device: &D,
        blocks: u32,
        next: &mut D::Buffer<u32>,
        tickets: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

step! {
    /// 7.2: the first block leaves a number for all others.
    flag: "release and acquire", [1, 2, 5, 33], 16, [],
    |lab, blocks| {
        let (mut control, mut number) = (lab.device.zeros(2)?, lab.device.zeros(1)?);
        let mut received = lab.device.zeros(blocks)?;
        lab.launch(|device| {
            device.clear(&mut control)?;
            device.clear(&mut number)?;
            S::flag(device, blocks as u32, &mut control, &mut number, &mut received)
        })?;
        lab.equal("received", &lab.device.to_vec(&received)?, &vec![42; blocks])
    }
    /// `blocks` blocks of one thread: the first to draw a ticket from `control[0]` writes 42 to `number[0]` and sets `control[1]`. All
    /// write the number to their element of `received`. Both control words are 0.
    fn flag<D: Device>(
        device: &D,
        blocks: u32,
        control: &mut D::Buffer<u32>,
        number: &mut D::Buffer<u32>,
        received: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

step! {
    /// 7.3: the sum of each tile of 256 elements and of all tiles before it.
    look_back: "wait for the tile before", [1, 256, 257, 1000, 5000], 4096, [Budget::launches("look_back", 1.0)],
    |lab, n| {
        let numbers = lab.integers(n, 100, 0);
        let mut sum = 0;
        let expected: Vec<u32> = numbers.chunks(BLOCK).map(|tile| {
            sum += tile.iter().sum::<u32>();
            sum
        }).collect();
        let tiles = expected.len();
        let x = lab.device.upload(&numbers)?;
        let (mut flags, mut prefixes) = (lab.device.zeros(tiles + 1)?, lab.device.zeros(tiles)?);
        lab.launch(|device| {
            device.clear(&mut flags)?;
            S::look_back(device, n as u32, &x, &mut flags, &mut prefixes)
        })?;
        lab.equal("prefixes", &lab.device.to_vec(&prefixes)?, &expected)
    }
    /// `prefixes[k]` is the sum of tiles 0 … k. `flags` has a word for each tile and one for the tickets, all of them 0.
    fn look_back<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        flags: &mut D::Buffer<u32>,
        prefixes: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

/// Rows of A and C, columns of A, columns of B and C.
const SHAPE: (usize, usize, usize) = (16, 8, 8);

step! {
    /// 8.1: products of 16 × 8 and 8 × 8 matrices on the tensor core.
    fragments: "which lane holds A(g, t)", [1, 3], 2, [],
    |lab, products| {
        let (rows, depth, columns) = SHAPE;
        // Small integers: a tf32 represents them and their products exactly.
        let a: Vec<f32> = lab.integers(products * rows * depth, 16, 0).into_iter().map(|x| x as f32).collect();
        let b: Vec<f32> = lab.integers(products * depth * columns, 16, 1).into_iter().map(|x| x as f32).collect();
        let product = |(a, b): (&[f32], &[f32])| {
            let element = |i| (0..depth).map(|k| a[i / columns * depth + k] * b[k * columns + i % columns]).sum();
            (0..rows * columns).map(element).collect::<Vec<f32>>()
        };
        let expected: Vec<f32> = a.chunks(rows * depth).zip(b.chunks(depth * columns)).flat_map(product).collect();
        let right = lab.device.upload(&b)?;
        let fragments: Vec<f32> =
            map(lab, &a, expected.len(), |device, a, c| S::fragments(device, products as u32, a, &right, c))?;
        // Lane 4g + t holds (g, 2t), (g, 2t + 1), (g + 8, 2t) and (g + 8, 2t + 1) of C.
        let at = |i: usize| {
            let (row, column) = (i / columns % rows, i % columns);
            i / (rows * columns) * rows * columns + 16 * (row % 8) + 4 * (column / 2) + 2 * (row / 8) + column % 2
        };
        let c: Vec<f32> = (0..expected.len()).map(|i| fragments[at(i)]).collect();
        lab.equal("c", &c, &expected)
    }
    /// C = A·B for `products` matrices A of 16 × 8 and B of 8 × 8 by rows, by one warp each. C is written as its lanes hold it.
    fn fragments<D: Device>(
        device: &D,
        products: u32,
        a: &D::Buffer<f32>,
        b: &D::Buffer<f32>,
        c: &mut D::Buffer<f32>,
    ) -> Result<(), D::Error>;
}
