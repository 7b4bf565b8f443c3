//! Models generated on the device.
//!
//! A cell of a slip grid is fully described by its own kind and those of its four neighbours: its pattern, with the
//! number Σ kindᵢ · 4ⁱ, where i counts the cell, then the cells above, below, right and left of it. A neighbour outside
//! the grid counts as a wall: a move towards it leaves the agent in its cell.

use warpkov_device::device::kernel;
use warpkov_device::device::safe::{Len, Out, Slice};

/// Kind of an empty cell.
pub const FREE: u8 = 0;
/// Kind of a cell that cannot be entered.
pub const WALL: u8 = 1;
/// Kind of a cell that costs to enter.
pub const OBSTACLE: u8 = 2;
/// Kind of a cell that earns a reward on entry.
pub const GOAL: u8 = 3;

/// Number of possible patterns.
pub const PATTERNS: usize = 1 << 10;

/// Pattern number of a cell; `kind` returns the kind of any cell of the grid.
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

/// Kind of a cell in a grid that is empty but for the goal, its last cell.
#[inline(always)]
#[must_use]
pub fn kind_without_walls(width: u32, height: u32, cell: u32) -> u8 {
    if cell == width * height - 1 { GOAL } else { FREE }
}

/// Pattern index of every cell of a grid of `width` × `height` cells. Few of the pattern numbers occur, so `index` maps
/// them to a dense range.
///
/// If `walled` is not 0, `kinds` holds the kind of each cell. Otherwise the grid is empty but for the goal.
///
/// - *Mathematics*: `pattern[c]` = `index[Σ kindᵢ · 4ⁱ]` over cell c and its four neighbours.
/// - *Thread mapping*: a grid-stride loop over cells.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `pattern`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `cells` | scalar | `width`·`height` |
/// | `walled` | scalar | 1 or 0 |
/// | `kinds` | cells if `walled`; else any length | below 4 |
/// | `index` | [`PATTERNS`] | index of each pattern number |
/// | `pattern` | cells | |
#[kernel(safe, requires(cells == width * height, index.len() >= PATTERNS))]
pub fn grid_patterns<'c>(
    cells: Len<'c>,
    width: u32,
    height: u32,
    walled: u32,
    kinds: Slice<u8>,
    index: Slice<u16>,
    pattern: Out<'c, u16>,
) {
    // There is no cell if the width is 0.
    let width = width.max(1);
    for i in cells.elements() {
        let number = pattern_of(width, height, i.index().get() as u32, |cell| {
            if walled > 0 { kinds.get(cell) } else { kind_without_walls(width, height, cell) }
        });
        pattern.set(&i, index.get(number));
    }
}
