//! Sums of equally long parts, in a fixed order.

use warpkov_device::device::{Global, GlobalMut, kernel, thread, warp};
use warpkov_device::shared_array;

/// Threads per block of [`sum_parts`]: one warp per part, at most 32 warps.
#[must_use]
pub const fn sum_threads(parts: u32) -> u32 {
    if parts < 32 { 32 * parts } else { 1024 }
}

/// Sums `parts_count` parts of `len` elements, for each of several models.
///
/// - *Mathematics*: `sums[k]` = Σₚ `parts[p][k]`.
/// - *Thread mapping*: a block per 32 elements, a lane per element; of W warps, warp w sums the parts w, w + W, ….
///   `block_idx_y` is the model.
/// - *Shared memory*: 1024 words, static. *Barriers*: one. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `len` | scalar | elements per part |
/// | `parts_count` | scalar | parts per model, ≥ 1 |
/// | `parts` | models × `parts_count` × `len` | |
/// | `sums` | models × `len` | |
#[kernel(
    requires(
        parts_count >= 1,
        parts.len() >= shape.grid.y * parts_count * len,
        sums.len() >= shape.grid.y * len,
        shape.grid.x == len.div_ceil(32),
        shape.block == sum_threads(parts_count),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn sum_parts(len: u32, parts_count: u32, parts: Global<f64>, sums: GlobalMut<f64>) {
    let columns = shared_array!(part_columns: f64; 1024);
    let model = thread::block_idx_y() as usize;
    let (lane, id, warps) = (warp::lane_id(), warp::warp_id(), thread::block_dim_x() / 32);
    let k = 32 * thread::block_idx_x() + lane;
    let mut sum = 0.0;
    if k < len {
        let mut p = id;
        while p < parts_count {
            sum += parts.get((model * parts_count as usize + p as usize) * len as usize + k as usize);
            p += warps;
        }
    }
    columns.set(32 * id + lane, sum);
    thread::sync_threads();
    if id == 0 && k < len {
        let mut other = 1;
        while other < warps {
            sum += columns.get(32 * other + lane);
            other += 1;
        }
        sums.set(model * len as usize + k as usize, sum);
    }
}
