//! Launches the kernels.

mod kernels;

use kernels::{LARGE_TILE, THREADS, TILE};
use learn::prefix_sum::Workspace;
use learn::{Device, Shape};

struct Launch;

/// A block for each tile.
fn shape(n: u32) -> Shape {
    Shape::new(n.div_ceil(TILE), THREADS).with_shared(4 * TILE)
}

impl learn::prefix_sum::PrefixSum for Launch {
    fn scan_tiles<D: Device>(device: &D, n: u32, x: &D::Buffer<u32>, y: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        // SAFETY: x and y have n elements.
        unsafe { kernels::scan_tiles(device, shape(n), n, x, y) }
    }

    fn scan_in_three<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        sums: &mut D::Buffer<u32>,
        y: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let tiles = n.div_ceil(TILE);
        let one_block = Shape::new(1, THREADS).with_shared(4 * TILE);
        // SAFETY: x and y have n elements, sums has one for each tile.
        unsafe {
            kernels::tile_sums(device, shape(n), n, x, sums)?;
            kernels::scan_sums(device, one_block, tiles, sums)?;
            kernels::add_sums(device, shape(n), n, x, sums, y)
        }
    }

    fn scan_in_one<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        workspace: &mut Workspace<D>,
        y: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let shape = Shape::new(n.div_ceil(LARGE_TILE), THREADS).with_shared(4 * TILE);
        let Workspace { flags, aggregates, prefixes } = workspace;
        device.clear(flags)?;
        // SAFETY: x and y have n elements, the workspace fits n, and its flags are 0.
        unsafe { kernels::scan_once(device, shape, n, x, flags, aggregates, prefixes, y) }
    }
}

learn::main!(learn::prefix_sum::Check<Launch>);
