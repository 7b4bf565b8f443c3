//! A sweep of value iteration on a part of a grid.

use warpkov_device::device::{Global, GlobalMut, Parameter, kernel, thread};

/// The discount factor.
const GAMMA: f32 = 0.875;

/// A part of the grid: whole rows.
#[derive(Clone, Copy, Parameter)]
pub struct Part {
    /// Columns.
    pub width: u32,
    /// Rows of the part.
    pub rows: u32,
    /// Rewards, rows × width.
    pub rewards: Global<f32>,
    /// Values, rows × width.
    pub values: Global<f32>,
    /// Values of the row above the part.
    pub above: Global<f32>,
    /// Values of the row below the part.
    pub below: Global<f32>,
}

/// r(s) + γ max V(s') over the neighbours s' of the cell s = (row, column).
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn backup(part: &Part, row: usize, column: usize) -> f32 {
    let (width, rows) = (part.width as usize, part.rows as usize);
    let value = |row: usize, column: usize| part.values.get(row * width + column);
    let up = if row == 0 { part.above.get(column) } else { value(row - 1, column) };
    let down = if row + 1 == rows { part.below.get(column) } else { value(row + 1, column) };
    let left = value(row, column.saturating_sub(1));
    let right = value(row, (column + 1).min(width - 1));
    part.rewards.get(row * width + column) + GAMMA * up.max(down).max(left.max(right))
}

// ANCHOR: sweep
/// The new values of the `count` rows `first`, `first + step`, …: a thread for each cell. Copies those of the part's first
/// and last row to `top` and `bottom`.
///
/// *Safety*: the rows are rows of the part, all different; `next` has rows × width elements, `top` and `bottom` width.
#[kernel]
pub fn sweep_part(
    part: Part,
    first: u32,
    step: u32,
    count: u32,
    next: GlobalMut<f32>,
    top: GlobalMut<f32>,
    bottom: GlobalMut<f32>,
) {
    let (k, width) = (thread::index_1d() as usize, part.width as usize);
    if k < count as usize * width {
        let (row, column) = (first as usize + step as usize * (k / width), k % width);
        let value = backup(&part, row, column);
        next.set(row * width + column, value);
        if row == 0 {
            top.set(column, value);
        }
        if row + 1 == part.rows as usize {
            bottom.set(column, value);
        }
    }
}
// ANCHOR_END: sweep
