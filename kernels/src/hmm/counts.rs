//! Expected counts: sums over the rows of all steps of all sequences.
//!
//! *Deterministic*: yes. Every sum has a fixed order: parts of a fixed number of rows, then the sum of the parts.

use warpkov_device::device::safe::{ByBlock, Len, Out2, Slice};
use warpkov_device::device::{Global, GlobalMut, Real, copy, kernel, mma, shared, thread, warp};
use warpkov_device::device::{Shared, Source};

use crate::hmm::model::Split;

/// Rows and columns per tile of [`pair_product`].
pub const TILE: usize = 64;
/// Threads per block of [`pair_product`]: four warps, each with a quarter of the tile.
pub const PRODUCT_THREADS: u32 = 128;
/// Rows per step.
const STEP: u32 = 16;
/// Stages of the pipeline: steps in flight or in use.
const STAGES: u32 = 4;

/// Row pitch in shared memory: the lanes of a warp read from all banks.
const fn pitch(wide: bool) -> u32 {
    TILE as u32 + if wide { 4 } else { 8 }
}

/// Dynamic shared memory per block of [`pair_product`], in bytes, for elements of 8 bytes (`wide`) or 4.
#[must_use]
pub const fn product_shared(wide: bool) -> u32 {
    STAGES * 2 * STEP * pitch(wide) * if wide { 8 } else { 4 }
}

/// The matrix product Xᵀ Y in parts, in f64.
///
/// - *Mathematics*: `parts[s]` = `scale` · Σᵣ xᵣ yᵣᵀ over the rows r of part s. With X = α̂ and Y = û of the succeeding
///   step, the element-wise product with A is Σ ξ.
/// - *Thread mapping*: grid x is the tile, y the model, z the part; a warp per 32 × 32 of the tile, on tensor cores.
/// - *Shared memory*: [`product_shared`] bytes, dynamic. *Barriers*: one per 16 rows. *Deterministic*: yes.
/// - *Valid result in*: `parts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | a multiple of [`TILE`] |
/// | `split` | [`Split`] | |
/// | `scale` | scalar | |
/// | `x`, `y` | models × `split.window` × `stride` | aligned to 16 bytes |
/// | `parts` | models × parts × `stride` × `stride` | |
#[kernel(
    T = [f32, f64],
    requires(
        stride % TILE == 0,
        x.len() >= shape.grid.y * split.window * stride,
        y.len() >= shape.grid.y * split.window * stride,
        parts.len() >= shape.grid.y * shape.grid.z * stride * stride,
        shape.grid.x == stride / TILE * (stride / TILE),
        shape.shared >= product_shared(T::WIDE),
        shape.block.x == shape.block,
    ),
    block = PRODUCT_THREADS
)]
pub fn pair_product<T: Real>(stride: u32, split: Split, scale: f64, x: Global<T>, y: Global<T>, parts: GlobalMut<f64>) {
    let Split { rows, window, split, more } = split;
    let memory = shared::dynamic_shared_mem::<T>();
    let (model, z) = (thread::block_idx_y() as usize, thread::block_idx_z());
    let pitch = pitch(T::WIDE);
    let tiles = stride / TILE as u32;
    let (top, left) = (TILE as u32 * (thread::block_idx_x() / tiles), TILE as u32 * (thread::block_idx_x() % tiles));
    let (first, last) = (z * split, (z * split + split).min(rows));
    let (lane, id) = (warp::lane_id(), warp::warp_id());
    let (g, t) = (lane / 4, lane % 4);
    let (above, beside) = (32 * (id / 2), 32 * (id % 2));
    let stage_of = |step: u32| memory.split(step % STAGES * 2 * STEP * pitch).1.split(STEP * pitch);
    let stage = |step: u32| {
        let (of_x, of_y) = stage_of(step);
        let from = first + step * STEP;
        rows_to::<T>(of_x, pitch, x, model * window as usize, from, last, stride, top);
        rows_to::<T>(of_y, pitch, y, model * window as usize, from, last, stride, left);
    };

    let steps = last.saturating_sub(first).div_ceil(STEP);
    let mut step = 0;
    while step < STAGES - 1 {
        if step < steps {
            stage(step);
        }
        copy::commit();
        step += 1;
    }
    let mut sums = [[[0.0; 4]; 4]; 2];
    step = 0;
    while step < steps {
        copy::wait::<{ STAGES - 2 }>();
        thread::sync_threads();
        if step + STAGES - 1 < steps {
            stage(step + STAGES - 1);
        }
        copy::commit();
        let (of_x, of_y) = stage_of(step);
        let mut k = 0;
        while k < STEP {
            let at = |r: u32, column: u32| (k + r) * pitch + column;
            let mut a = [[0.0; 4]; 2];
            for m in 0..2 {
                let column = above + 16 * m as u32 + g;
                a[m] = [
                    of_x.get(at(t, column)).to_f64(),
                    of_x.get(at(t, column + 8)).to_f64(),
                    of_x.get(at(t + 4, column)).to_f64(),
                    of_x.get(at(t + 4, column + 8)).to_f64(),
                ];
            }
            for n in 0..4 {
                let column = beside + 8 * n as u32 + g;
                let b = [of_y.get(at(t, column)).to_f64(), of_y.get(at(t + 4, column)).to_f64()];
                for m in 0..2 {
                    sums[m][n] = mma::f64_16x8x8(a[m], b, sums[m][n]);
                }
            }
            k += 8;
        }
        step += 1;
    }

    let part = (model * thread::grid_dim_z() as usize + z as usize) * stride as usize * stride as usize;
    for m in 0..2 {
        for n in 0..4 {
            for c in 0..4 {
                let i = top + above + 16 * m as u32 + 8 * (c as u32 / 2) + g;
                let j = left + beside + 8 * n as u32 + 2 * t + c as u32 % 2;
                let at = part + i as usize * stride as usize + j as usize;
                let before = if more != 0 { parts.get(at) } else { 0.0 };
                parts.set(at, scale.fma(sums[m][n][c], before));
            }
        }
    }
}

/// Issues the copies of [`STEP`] rows from `from` on, columns `left` … `left` + 63; rows from `last` on are zeros. A
/// thread copies the same columns of all its rows.
#[allow(clippy::too_many_arguments, reason = "a tile and its source")]
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn rows_to<T: Real>(
    tile: Shared<T>,
    pitch: u32,
    source: impl Source<T>,
    origin: usize,
    from: u32,
    last: u32,
    stride: u32,
    left: u32,
) {
    let width = Shared::<T>::IN_16_BYTES;
    let across = TILE as u32 / width;
    let (r, column) = (thread::thread_idx_x() / across, thread::thread_idx_x() % across * width);
    let at = (origin + (from + r) as usize) * stride as usize + (left + column) as usize;
    let whole = from + STEP <= last;
    each!(PASS < 4, {
        let further = PASS as u32 * PRODUCT_THREADS / across;
        if further < STEP {
            let to = (r + further) * pitch + column;
            if whole || from + r + further < last {
                tile.copy16(to, source, at + further as usize * stride as usize);
            } else {
                for c in 0..width {
                    tile.set(to + c, T::ZERO);
                }
            }
        }
    });
}

/// Maximum number of rows per chunk of [`sum_rows`].
pub const CHUNK: u32 = 64;

/// Sums the rows of each chunk.
///
/// A chunk holds rows of one symbol, or the first rows of sequences, or the last rows.
///
/// - *Mathematics*: `sums[c][j]` = Σ γ(`order[k]`, j) over k in `chunk[c] … chunk[c + 1] − 1`.
/// - *Thread mapping*: grid x is the chunk, y the model; a thread per state.
/// - *Shared memory*: [`CHUNK`] words, static. *Barriers*: one. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements per row |
/// | `window` | scalar | rows per model |
/// | `chunk` | chunks + 1 | elements of `order`, ascending; at most [`CHUNK`] per chunk |
/// | `order` | rows | rows, below `window` |
/// | `gamma` | models × `window` × `stride` | |
/// | `sums` | models × chunks × `stride` | |
#[kernel(
    T = [f32, f64],
    requires(
        chunk.len() >= shape.grid.x + 1,
        gamma.len() >= shape.grid.y * window * stride,
        sums.len() >= shape.grid * stride,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn sum_rows<T: Real>(
    stride: u32,
    window: u32,
    chunk: Global<u32>,
    order: Global<u32>,
    gamma: Global<T>,
    sums: GlobalMut<f64>,
) {
    let rows = warpkov_device::shared_array!(chunk_rows: u32; 64);
    let (c, model) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize);
    let (first, count) = (chunk.get(c), chunk.get(c + 1) - chunk.get(c));
    let mut k = thread::thread_idx_x();
    while k < count {
        rows.set(k, order.get(first + k));
        k += thread::block_dim_x();
    }
    thread::sync_threads();
    let mut j = thread::thread_idx_x() as usize;
    while j < stride as usize {
        let at = |k: u32| gamma.get((model * window as usize + rows.get(k) as usize) * stride as usize + j).to_f64();
        // Independent loads.
        let mut parts = [0.0; 8];
        let mut k = 0;
        while k + 8 <= count {
            let loaded = [0, 1, 2, 3, 4, 5, 6, 7].map(|q| at(k + q));
            for q in 0..8 {
                parts[q] += loaded[q];
            }
            k += 8;
        }
        while k < count {
            parts[0] += at(k);
            k += 1;
        }
        let sum = [0, 1, 2, 3].map(|q| parts[q] + parts[q + 4]);
        let sum = (sum[0] + sum[2]) + (sum[1] + sum[3]);
        sums.set((model * thread::grid_dim_x() as usize + c) * stride as usize + j, sum);
        j += thread::block_dim_x() as usize;
    }
}

/// Sums the chunks of each list.
///
/// - *Mathematics*: `sums[v][j]` = Σ `chunks[c][j]` over c in `list[v] … list[v + 1] − 1`, plus the present sum if
///   `more` is not 0.
/// - *Thread mapping*: a block per list of a model; a thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `sums`.
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `rows` | scalar | models × lists |
/// | `stride` | scalar | elements per row |
/// | `lists`, `chunk_count` | scalar | lists and chunks per model |
/// | `more` | scalar | 1 or 0 |
/// | `list` | lists + 1 | chunks, ascending, at most `chunk_count` |
/// | `chunks` | models × `chunk_count` × `stride` | from [`sum_rows`] |
/// | `sums` | models × lists × `stride` | |
#[kernel(safe, requires(shape.grid >= rows))]
pub fn sum_chunks<'r, 'n>(
    rows: Len<'r>,
    stride: Len<'n>,
    lists: u32,
    chunk_count: u32,
    more: u32,
    list: Slice<u32>,
    chunks: Slice<f64>,
    sums: Out2<'r, 'n, f64, ByBlock>,
) {
    if let Some(row) = rows.block_element() {
        let [model, v] = row.index().unravel([0, lists]);
        let (first, end) = (list.get(v), list.get(v + 1));
        let start = (model * chunk_count as usize + first as usize) * stride.get() as usize;
        for own in row.cells(stride) {
            let mut sum = if more != 0 { sums.get(&own) } else { 0.0 };
            let j = own.cell().column().get();
            for chunk in chunks.every(start + j, stride.get() as usize, end.saturating_sub(first) as usize) {
                sum += chunk;
            }
            sums.set(&own, sum);
        }
    }
}
