//! Models that come into being on the device.
//!
//! The cells of a slip grid look alike wherever the same stands around them: a cell's pattern has the number
//! Σ kindᵢ · 4ⁱ, where i counts the cell itself and those above, below, right and left of it. What is off the grid is as
//! good as a wall: who moves there stays where he is.

use warpkov_device::device::{Global, GlobalMut, kernel, thread};

/// The kind of a cell that nothing is in.
pub const FREE: u8 = 0;
/// The kind of a cell that cannot be entered.
pub const WALL: u8 = 1;
/// The kind of a cell that costs to enter.
pub const OBSTACLE: u8 = 2;
/// The kind of a cell that earns to enter.
pub const GOAL: u8 = 3;

/// Numbers that a pattern may have.
pub const PATTERNS: usize = 1 << 10;

/// The number of the pattern of a cell, where `kind` says what is in each.
#[inline(always)]
#[must_use]
pub fn pattern_of(width: u32, height: u32, cell: u32, kind: impl Fn(u32) -> u8) -> u16 {
    let (x, y) = (cell % width, cell / width);
    let kind = |inside: bool, cell: u32| u16::from(if inside { kind(cell) } else { WALL });
    kind(true, cell)
        | kind(y > 0, cell.wrapping_sub(width)) << 2
        | kind(y + 1 < height, cell.wrapping_add(width)) << 4
        | kind(x + 1 < width, cell.wrapping_add(1)) << 6
        | kind(x > 0, cell.wrapping_sub(1)) << 8
}

/// What is in a cell of a grid with nothing but the goal, its last cell.
#[inline(always)]
#[must_use]
pub fn kind_without_walls(width: u32, height: u32, cell: u32) -> u8 {
    if cell == width * height - 1 { GOAL } else { FREE }
}

/// The pattern of every cell of a grid of `width` · `height` cells, in which there are `kinds` if `walled`, else nothing
/// but the goal: `index` of the pattern's number, for few of them occur.
///
/// *Thread mapping*: a grid-stride loop over cells. *Safety*: `pattern` has one element per cell, as many as fit 32 bits;
/// so has `kinds` if `walled`, all below 4; `index` has [`PATTERNS`] elements.
#[kernel]
pub fn grid_patterns(
    width: u32,
    height: u32,
    walled: u32,
    kinds: Global<u8>,
    index: Global<u16>,
    pattern: GlobalMut<u16>,
) {
    let cells = width as u64 * height as u64;
    let stride = thread::grid_dim_x() as u64 * thread::block_dim_x() as u64;
    let mut i = thread::index_1d();
    while i < cells {
        let number = pattern_of(width, height, i as u32, |cell| {
            if walled > 0 { kinds.get(cell as usize) } else { kind_without_walls(width, height, cell) }
        });
        pattern.set(i as usize, index.get(number as usize));
        i += stride;
    }
}
