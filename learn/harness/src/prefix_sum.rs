//! Chapter 7: prefix sums.

use std::marker::PhantomData;

use warpkov_device::emulator::profile::Operation;
use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// Elements of a tile, which a block scans.
pub const TILE: usize = 1024;

/// Elements of a tile of [`PrefixSum::scan_in_one`].
pub const LARGE_TILE: usize = 8 * TILE;

/// What the student launches. All vectors have `n` ≥ 1 elements, in ⌈n / [`TILE`]⌉ tiles.
pub trait PrefixSum {
    /// Inclusive prefix sums of each tile: yᵢ is the sum of xⱼ from the first element of its tile to j = i.
    ///
    /// # Errors
    /// Those of the device.
    fn scan_tiles<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, y: &mut D::Buffer<u32>) -> Result<(), D::Error>;

    /// Inclusive prefix sums yᵢ = x₀ + … + xᵢ, by three launches. `sums` has one element per tile, which the launches
    /// may overwrite.
    ///
    /// # Errors
    /// Those of the device.
    fn scan_in_three<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        sums: &mut D::Buffer<u32>,
        y: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;

    /// Inclusive prefix sums yᵢ = x₀ + … + xᵢ, by one launch, in tiles of [`LARGE_TILE`] elements. The launch may overwrite the buffers of `workspace`.
    ///
    /// # Errors
    /// Those of the device.
    fn scan_in_one<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        workspace: &mut Workspace<D>,
        y: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error>;
}

/// What the tiles tell each other.
pub struct Workspace<D: Device> {
    /// The state of each large tile, and one element more, a counter.
    pub flags: D::Buffer<u32>,
    /// The sum of each large tile.
    pub aggregates: D::Buffer<u32>,
    /// The sum of all elements up to the end of each large tile.
    pub prefixes: D::Buffer<u32>,
}

/// Checks a [`PrefixSum`].
pub struct Check<S>(PhantomData<S>);

impl<S: PrefixSum> Exercise for Check<S> {
    const PARTS: &'static [&'static str] =
        &["a scan of each block", "all blocks, by three launches", "all blocks, in one pass"];

    fn sizes(part: usize) -> Vec<usize> {
        match part {
            0 | 1 => vec![1, 31, 1024, 1025, 5000, 34_000],
            // A look-back passes over more than 32 tiles.
            _ => vec![1, 31, 8192, 8193, 40_000, 34 * LARGE_TILE - 1],
        }
    }

    fn counted(part: usize) -> usize {
        if part < 2 { 32 * TILE } else { 32 * LARGE_TILE }
    }

    fn timed(_: usize) -> usize {
        1 << 26
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, n: usize) -> Result<(), Failure> {
        // The sum of 2²⁶ integers below 8 fits 32 bits.
        let x = lab.integers(n, 8, 0);
        let mut sum = 0;
        let expected = x.iter().enumerate().map(|(i, x)| {
            if part == 0 && i.is_multiple_of(TILE) {
                sum = 0;
            }
            sum += x;
            sum
        });
        let expected: Vec<u32> = expected.collect();
        let device = lab.device;
        let x = device.upload(&x)?;
        let mut y = device.uninitialised(n)?;
        match part {
            0 => lab.launch(|device| S::scan_tiles(device, n as u32, &x, &mut y))?,
            1 => {
                let mut sums = device.uninitialised(n.div_ceil(TILE))?;
                lab.launch(|device| S::scan_in_three(device, n as u32, &x, &mut sums, &mut y))?;
            }
            _ => {
                let tiles = n.div_ceil(LARGE_TILE);
                let mut workspace = Workspace {
                    flags: device.uninitialised(tiles + 1)?,
                    aggregates: device.uninitialised(tiles)?,
                    prefixes: device.uninitialised(tiles)?,
                };
                lab.launch(|device| S::scan_in_one(device, n as u32, &x, &mut workspace, &mut y))?;
            }
        }
        lab.equal("y", &device.to_vec(&y)?, &expected)
    }

    fn budgets(part: usize) -> Vec<Budget> {
        // Sectors of n elements, and tiles: 32 in each part.
        let (sectors, tiles) = (Self::counted(part) as f64 / 8.0, 32.0);
        match part {
            0 => vec![
                Budget::parallelism("scan_tiles", 8, 32, 8192),
                Budget::launches_beside(&["scan_tiles"]),
                Budget::barriers_per_block("scan_tiles", 4.0),
                Budget::requests_per_block("scan_tiles", Operation::SharedLoad, 32.0),
                Budget::bank_conflicts("scan_tiles", 0.0),
                Budget::sectors("scan_tiles", Operation::Load, sectors),
                Budget::sectors("scan_tiles", Operation::Store, sectors),
            ],
            1 => vec![
                Budget::parallelism("tile_sums", 8, 32, 8192),
                Budget::parallelism("add_sums", 8, 32, 8192),
                Budget::launches_beside(&["tile_sums", "scan_sums", "add_sums"]),
                Budget::requests("scan_sums", Operation::Load, tiles / 4.0),
                Budget::sectors("tile_sums", Operation::Load, sectors),
                // Each of the eight warps of a block may read the sum before its tile.
                Budget::sectors("add_sums", Operation::Load, sectors + 8.0 * tiles),
                Budget::sectors("add_sums", Operation::Store, sectors),
            ],
            _ => vec![
                // A tile finds a prefix after at most four tiles, and needs not wait for it. A request for elements has all lanes.
                Budget::new(
                    "loads by some lanes of a warp, to look back, of scan_once",
                    "scan_once",
                    12.0 * tiles,
                    |profile| profile.total(Operation::Load).partial as f64,
                ),
                // Eight scans.
                Budget::parallelism("scan_once", 8, 32, 16_384),
                Budget::launches_beside(&["scan_once"]),
                // A look-back may read 32 numbers from each of two arrays.
                Budget::sectors("scan_once", Operation::Load, sectors + 16.0 * tiles),
                Budget::sectors("scan_once", Operation::Store, sectors + 4.0 * tiles),
            ],
        }
    }

    fn work(_: usize, n: usize) -> Work {
        Work { bytes: (2 * size_of::<u32>() * n) as f64, flops: 0.0 }
    }
}
