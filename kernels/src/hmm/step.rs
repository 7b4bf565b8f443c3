//! One step of all sequences per launch: a tiled product of all rows with A, and the recursion's remaining operations
//! in the same launch.
//!
//! The forward and backward recursions are products on tensor cores: in f64; or in f32 as three TF32 products, where
//! each factor is the sum of two numbers of 11 bits. The Viterbi step is a (max, +) product on ordinary cores.
//!
//! *Bytes* per step of M rows: 2·M·NS + NS² elements. With 512 states and sequences, the product takes 2·512³
//! operations, 4 µs of the f64 tensor cores of an H200, and its bytes take 2 µs.

use warpkov_device::device::mma::Multiply;
use warpkov_device::device::{
    Global, GlobalMut, Real, Shared, Source, Word, atomic, block, copy, grid, kernel, shared, thread, warp,
};

use crate::hmm::model::{Forward, Model, Sequences, Step};
use crate::hmm::{Doubt, grounded, high, power, relied, scale, top};

/// Columns per tile.
pub const COLUMNS: u32 = 64;
/// Rows per tile.
pub const ROWS: u32 = 32;
/// Threads per block: four groups, each with a quarter of the states of every step of the product.
pub const THREADS: u32 = GROUPS * GROUP;
/// Groups per block.
const GROUPS: u32 = 4;
/// Threads per group; its four warps share the tile.
const GROUP: u32 = 128;
/// States per step of the product.
const DEPTH: u32 = 8 * GROUPS;
/// Stages of the pipeline: steps in flight or in use. f64 has three, which fit into the 99 KiB per block of the GPUs with
/// the least shared memory.
const fn stages(wide: bool) -> u32 {
    if wide { 3 } else { 4 }
}
/// Factor of the stored û: it keeps both 11-bit parts of an f32 number normal.
pub const LIFT: f64 = power(100);

/// Row pitch of the left factor in shared memory: the lanes of a warp read from all banks.
const LEFT: u32 = DEPTH + 4;

/// Row pitch of the right factor in shared memory.
const fn right(wide: bool) -> u32 {
    COLUMNS + if wide { 4 } else { 8 }
}

/// Elements per stage.
const fn stage_len(wide: bool) -> u32 {
    ROWS * LEFT + DEPTH * right(wide)
}

/// Dynamic shared memory per block, in bytes, for elements of 8 bytes (`wide`) or 4.
#[must_use]
pub const fn step_shared(wide: bool) -> u32 {
    stages(wide) * stage_len(wide) * if wide { 8 } else { 4 }
}

/// First row and first column of the block's tile, and the row stride.
#[derive(Clone, Copy)]
struct Tile {
    row: u32,
    column: u32,
    stride: u32,
}

impl Tile {
    /// The block's tile, in rows of `stride` elements.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_block(stride: u32) -> Self {
        let columns = stride / COLUMNS;
        let (row, column) = (thread::block_idx_x() / columns * ROWS, thread::block_idx_x() % columns * COLUMNS);
        Self { row, column, stride }
    }

    /// Calls `multiply` with both factors of each step of the product, in shared memory: rows from row `x_first` of `x`
    /// on, `rows` of them valid, and `matrix` from element `first` on. The first copies of the matrix are issued before
    /// the grid [waits](grid::wait) for the launch that writes `x`.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: one per step.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn product<T: Word>(
        self,
        x: impl Source<T>,
        x_first: usize,
        rows: u32,
        matrix: Global<T>,
        first: usize,
        mut multiply: impl FnMut(Shared<T>, Shared<T>),
    ) {
        let memory = shared::dynamic_shared_mem::<T>();
        let (stride, width) = (self.stride as usize, Shared::<T>::IN_16_BYTES);
        let ahead = stages(T::WIDE) - 1;
        let stage_of = |step: u32| memory.split(step % (ahead + 1) * stage_len(T::WIDE)).1.split(ROWS * LEFT);
        // A thread copies one 16-byte piece of the rows per step, and one or two of the matrix.
        let t = thread::thread_idx_x();
        let (r, c) = (t / (DEPTH / width), t % (DEPTH / width) * width);
        // Behind the last row, repeat it; nothing reads the result.
        let x_at = (x_first + (self.row + r).min(rows - 1) as usize) * stride + c as usize;
        let x_to = r * LEFT + c;
        let stage_rows = |step: u32| {
            if t < ROWS * DEPTH / width {
                stage_of(step).0.copy16(x_to, x, x_at + (step * DEPTH) as usize);
            }
        };
        let (r, c) = (t / (COLUMNS / width), t % (COLUMNS / width) * width);
        let matrix_at = first + r as usize * stride + (self.column + c) as usize;
        let matrix_to = r * right(T::WIDE) + c;
        let stage_matrix = |step: u32| {
            let from = matrix_at + (step * DEPTH) as usize * stride;
            each!(PASS < 2, {
                let further = PASS as u32 * THREADS / (COLUMNS / width);
                if further < DEPTH {
                    let to = matrix_to + further * right(T::WIDE);
                    stage_of(step).1.copy16(to, matrix, from + further as usize * stride);
                }
            });
        };
        let steps = self.stride / DEPTH;
        let mut step = 0;
        while step < ahead {
            if step < steps {
                stage_matrix(step);
            }
            step += 1;
        }
        grid::wait();
        grid::launch_dependents();
        step = 0;
        while step < ahead {
            if step < steps {
                stage_rows(step);
            }
            copy::commit();
            step += 1;
        }
        step = 0;
        while step < steps {
            if T::WIDE {
                copy::wait::<{ stages(true) - 2 }>()
            } else {
                copy::wait::<{ stages(false) - 2 }>()
            }
            thread::sync_threads();
            if step + ahead < steps {
                stage_rows(step + ahead);
                stage_matrix(step + ahead);
            }
            copy::commit();
            let (of_x, of_matrix) = stage_of(step);
            multiply(of_x, of_matrix);
            step += 1;
        }
    }
}

/// A warp's quarter of a tile: 16 rows and 32 columns, as four adjacent products in the layout of
/// [`mma`](warpkov_device::device::mma).
type Quarter<T> = [[T; 4]; 4];

/// The thread's group, and its index in the group.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn group() -> (u32, u32) {
    (thread::thread_idx_x() / GROUP, thread::thread_idx_x() % GROUP)
}

/// Combines the groups' contributions to a tile. Group q gets row q of the four rows of a thread's elements.
///
/// *Takes part*: every thread of the block. *Barriers*: two. *Deterministic*: yes; a group's own contribution comes
/// first, then those of the others in ascending order.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn combined<T: Word>(x: [[T; 4]; 4], combine: impl Fn(T, T) -> T) -> [T; 4] {
    let memory = shared::dynamic_shared_mem::<T>();
    let (group, place) = group();
    let at = |row: u32, other: u32, j: u32| ((row * (GROUPS - 1) + other) * 4 + j) * GROUP + place;
    // All reads of the last stages are done.
    thread::sync_threads();
    let mut own = x[0];
    each!(I < 4, {
        let row = I as u32;
        if row == group {
            own = x[I];
        } else {
            for j in 0..4 {
                memory.set(at(row, if group > row { group - 1 } else { group }, j as u32), x[I][j]);
            }
        }
    });
    thread::sync_threads();
    each!(OTHER < 3, {
        for j in 0..4 {
            own[j] = combine(own[j], memory.get(at(group, OTHER as u32, j as u32)));
        }
    });
    own
}

/// Bits of x ≥ 0 that order such numbers, at least by their exponents.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn order<T: Word>(x: T) -> u32 {
    if T::WIDE { (x.to_raw() >> 32) as u32 } else { x.to_raw() as u32 }
}

/// A group's share of the rows x times the matrix, on tensor cores, with fewer bits if `plain`; and the [order] of the
/// largest element that a thread has read in each of its two rows.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn tensor_product<T: Multiply>(
    tile: Tile,
    x: impl Source<T>,
    x_first: usize,
    rows: u32,
    matrix: Global<T>,
    first: usize,
    plain: bool,
) -> (Quarter<T>, [u32; 2]) {
    if plain && !T::WIDE {
        product_by(tile, x, x_first, rows, matrix, first, T::multiply_plain)
    } else {
        product_by(tile, x, x_first, rows, matrix, first, T::multiply)
    }
}

/// [`tensor_product`] with the given product of small matrices.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn product_by<T: Multiply>(
    tile: Tile,
    x: impl Source<T>,
    x_first: usize,
    rows: u32,
    matrix: Global<T>,
    first: usize,
    multiply: impl Fn([T; 4], [T; 2], [T; 4]) -> [T; 4],
) -> (Quarter<T>, [u32; 2]) {
    let (above, beside, g, t) = place();
    let k = 8 * group().0;
    let mut sums = [[T::ZERO; 4]; 4];
    let mut tops = [0; 2];
    tile.product(x, x_first, rows, matrix, first, |left, of_matrix| {
        let at = (above + g) * LEFT + k + t;
        let a = [left.get(at), left.get(at + 8 * LEFT), left.get(at + 4), left.get(at + 8 * LEFT + 4)];
        tops = [tops[0].max(order(a[0])).max(order(a[2])), tops[1].max(order(a[1])).max(order(a[3]))];
        for n in 0..4 {
            let at = (k + t) * right(T::WIDE) + beside + 8 * n as u32 + g;
            let b = [of_matrix.get(at), of_matrix.get(at + 4 * right(T::WIDE))];
            sums[n] = multiply(a, b, sums[n]);
        }
    });
    (sums, tops)
}

/// First row and column of the warp's quarter of the tile, and g and t of the lane.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn place() -> (u32, u32, u32, u32) {
    let (lane, id) = (warp::lane_id(), warp::warp_id() % 4);
    (16 * (id / 2), 32 * (id % 2), lane / 4, lane % 4)
}

/// α̂ of a step, for all sequences that have it, from α̂ of the previous step.
///
/// The rows of α̂ of the previous step start at row `step.before` of `alpha`, those of this step at row `step.now`.
/// `exponents[row]` becomes eₜ; `doubts[m]` becomes nonzero if sequence m is in doubt.
///
/// - *Mathematics*: α̂ₜ(j) = Σᵢ α̂ₜ₋₁(i) Aᵢⱼ · bⱼ(oₜ) · 2^−eₜ, plus the [floor](super).
/// - *Thread mapping*: a block per 32 rows and 64 columns, `block_idx_y` the model; a warp per quarter of the tile and
///   quarter of the states, then per quarter of the columns.
/// - *Shared memory*: [`step_shared`] bytes, dynamic; 128 words, static. *Barriers*: one per 32 states, and two.
/// - *Deterministic*: yes. *Valid result in*: `alpha`, `exponents` and `doubts`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `model` | [`Model`], stride `step.stride` | |
/// | `step` | [`Step`] | |
/// | `alpha` | models × `step.window` × stride | previous rows and new rows do not overlap; aligned to 16 bytes |
/// | `exponents` | models × `sequences.rows` | |
/// | `doubts` | models × M | from [`forward_start`] |
///
/// *Overlapping*: the launch may overlap the previous one, which may write α̂ of the previous step but no other input.
#[kernel(
    T = [f32, f64],
    requires(
        model.holds(shape.grid.y, step.stride),
        alpha.len() >= shape.grid.y * step.window * step.stride,
        exponents.len() >= shape.grid.y * sequences.rows,
        doubts.len() >= shape.grid.y * sequences.count,
        shape.grid.x == step.live.div_ceil(ROWS) * (step.stride / COLUMNS),
        shape.shared >= step_shared(T::WIDE),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = THREADS
)]
pub fn forward_step<T: Multiply>(
    sequences: Sequences,
    model: Model<T>,
    step: Step,
    alpha: GlobalMut<T>,
    exponents: GlobalMut<i32>,
    doubts: GlobalMut<u32>,
) {
    let Sequences { count: sequences, rows, symbol, .. } = sequences;
    let Model { symbols, transitions, table, .. } = model;
    let Step { first, live, stride, before, now, window, plain } = step;
    let row_tops = warpkov_device::shared_array!(step_tops: u32; 128);
    let model = thread::block_idx_y() as usize;
    let tile = Tile::of_block(stride);
    let n = stride as usize;
    let (above, beside, g, t) = place();
    let group = group().0;
    let j = (tile.column + beside + 8 * group + 2 * t) as usize;
    // Loads that are independent of the product, for this thread's two rows.
    let m = [0, 8].map(|half| tile.row + above + half + g);
    let b = m.map(|m| {
        let v = model * symbols as usize + symbol.get(first + m.min(live - 1)) as usize;
        [table.get(v * n + j).to_f64(), table.get(v * n + j + 1).to_f64()]
    });
    let x_first = model * window as usize + before as usize;
    let (sums, tops) = tensor_product(tile, alpha, x_first, live, transitions, model * n * n, plain > 0);
    each!(HALF < 2, {
        let top = tops[HALF].max(warp::shuffle_xor(warp::FULL, tops[HALF], 1));
        let top = top.max(warp::shuffle_xor(warp::FULL, top, 2));
        if beside == 0 && t == 0 {
            row_tops.set((above + 8 * HALF as u32 + g) * GROUPS + group, top);
        }
    });
    let sums = combined(sums, |x, y| x + y);
    each!(HALF < 2, {
        let of_groups = row_tops.get4(above + 8 * HALF as u32 + g);
        let top = of_groups[0].max(of_groups[1]).max(of_groups[2]).max(of_groups[3]);
        let (factor, e) = scale::<T>(if T::WIDE { top } else { high(f64::from(f32::from_bits(top))) });
        if m[HALF] < live {
            let at = (model * window as usize + (now + m[HALF]) as usize) * n + j;
            let mut doubt = Doubt::NONE;
            for c in 0..2 {
                let (p, b) = (sums[2 * HALF + c].to_f64(), b[HALF][c]);
                alpha.set(at + c, T::from_f64(p.fma(b * factor, grounded::<T>(p, b))));
                doubt = doubt.with(p);
            }
            if doubt.is::<T>() {
                atomic::max((doubts, model * sequences as usize + m[HALF] as usize), 1);
            }
            if j == 0 {
                exponents.set(model * rows as usize + (first + m[HALF]) as usize, e);
            }
        }
    });
}

/// α̂ of the first step. Also sets e₁ and clears `doubts`.
///
/// - *Mathematics*: α̂₁ = π ∘ b(o₁) · 2^−e₁, plus the [floor](super).
/// - *Thread mapping*: a block per sequence, `block_idx_y` the model; a thread per state.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes.
/// - *Valid result in*: `alpha`, `exponents` and `doubts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `model` | [`Model`], stride `step.stride` | |
/// | `step` | [`Step`] | |
/// | `alpha` | models × `step.window` × stride | |
/// | `exponents` | models × `sequences.rows` | |
/// | `doubts` | models × M | |
#[kernel(
    T = [f32, f64],
    requires(
        model.holds(shape.grid.y, step.stride),
        alpha.len() >= shape.grid.y * step.window * step.stride,
        exponents.len() >= shape.grid.y * sequences.rows,
        doubts.len() >= shape.grid.y * sequences.count,
        shape.grid.x == sequences.count,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn forward_start<T: Real>(
    sequences: Sequences,
    model: Model<T>,
    step: Step,
    alpha: GlobalMut<T>,
    exponents: GlobalMut<i32>,
    doubts: GlobalMut<u32>,
) {
    let Sequences { rows, symbol, .. } = sequences;
    let Model { symbols, start, table, .. } = model;
    let Step { stride, now, window, .. } = step;
    let (m, model, n) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize, stride as usize);
    let v = model * symbols as usize + symbol.get(m) as usize;
    let mut j = thread::thread_idx_x() as usize;
    while j < n {
        let (pi, b) = (start.get(model * n + j).to_f64() * power(top(T::WIDE)), table.get(v * n + j).to_f64());
        let x = pi.fma(b, grounded::<T>(pi, b));
        alpha.set((model * window as usize + now as usize + m) * n + j, T::from_f64(x));
        j += thread::block_dim_x() as usize;
    }
    if thread::thread_idx_x() == 0 {
        exponents.set(model * rows as usize + m, -top(T::WIDE));
        doubts.set(model * thread::grid_dim_x() as usize + m, 0);
    }
}

/// P̂, NaN in doubt, and Σ eₜ of the sequences whose last step is `last`: those from number `step.first` on.
///
/// - *Mathematics*: P̂ = Σⱼ α̂_T(j) endⱼ.
/// - *Thread mapping*: a block per sequence, `block_idx_y` the model; a thread per state, then per step.
/// - *Shared memory*: 32 words, static. *Barriers*: four. *Deterministic*: yes. *Valid result in*: `likelihoods`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `last` | scalar | index of the last step |
/// | `sequences` | [`Sequences`] | |
/// | `model` | [`Model`], stride `step.stride` | |
/// | `step` | [`Step`] | |
/// | `alpha` | models × `step.window` × stride | from [`forward_step`] |
/// | `exponents` | models × `sequences.rows` | eₜ |
/// | `doubts` | models × M | from [`forward_step`] |
/// | `likelihoods` | models × M × 2 | |
#[kernel(
    T = [f32, f64],
    requires(
        model.holds(shape.grid.y, step.stride),
        alpha.len() >= shape.grid.y * step.window * step.stride,
        exponents.len() >= shape.grid.y * sequences.rows,
        doubts.len() >= shape.grid.y * sequences.count,
        likelihoods.len() >= 2 * shape.grid.y * sequences.count,
        step.first + shape.grid.x <= sequences.count,
        shape.block % 32 == 0,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn forward_end<T: Real>(
    last: u32,
    sequences: Sequences,
    model: Model<T>,
    step: Step,
    alpha: Global<T>,
    exponents: Global<i32>,
    doubts: Global<u32>,
    likelihoods: GlobalMut<f64>,
) {
    let Sequences { count: sequences, rows, base, .. } = sequences;
    let Model { end, .. } = model;
    let Step { first, stride, now, window, .. } = step;
    let (m, model, n) = ((first + thread::block_idx_x()) as usize, thread::block_idx_y() as usize, stride as usize);
    let (mut sum, mut total) = (0.0, 0.0);
    let mut j = thread::thread_idx_x() as usize;
    while j < n {
        let x = alpha.get((model * window as usize + now as usize + m) * n + j).to_f64();
        sum += x * end.get(model * n + j).to_f64();
        j += thread::block_dim_x() as usize;
    }
    let mut t = thread::thread_idx_x();
    while t <= last {
        total += f64::from(exponents.get(model * rows as usize + base.get(t) as usize + m));
        t += thread::block_dim_x();
    }
    let sum = block::reduce(sum, 0.0, |a, b| a + b);
    let total = block::reduce(total, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        let place = model * sequences as usize + m;
        likelihoods.set(2 * place, if doubts.get(place) > 0 { f64::NAN } else { relied::<T>(sum) });
        likelihoods.set(2 * place + 1, total);
    }
}

/// β̂, γ and û of a step, from û of the succeeding step.
///
/// The first `on` sequences have the succeeding step. `pairs` holds û of that step from row `step.before` on, and
/// receives û of this step from row `step.now` on, all times [`LIFT`]. α̂ and γ of this step start at row `here`.
///
/// - *Mathematics*: β̂ₜ = A ûₜ₊₁ or end / P̂, γₜ = α̂ₜ ∘ β̂ₜ, ûₜ = b(oₜ) ∘ β̂ₜ · 2^−eₜ where α̂ₜ is positive, else 0.
/// - *Thread mapping*: as [`forward_step`].
/// - *Shared memory*: [`step_shared`] bytes, dynamic. *Barriers*: one per 32 states, and two. *Deterministic*: yes.
/// - *Valid result in*: `gamma` and `pairs`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `on` | scalar | sequences, ≤ `step.live` |
/// | `here` | scalar | row of the window |
/// | `sequences` | [`Sequences`] | |
/// | `model` | [`Model`], stride `step.stride` | |
/// | `step` | [`Step`] | |
/// | `forward` | [`Forward`] | results for the same window |
/// | `gamma` | models × `step.window` × stride | |
/// | `pairs` | models × `step.window` × stride | aligned to 16 bytes |
///
/// *Overlapping*: the launch may overlap the previous one, which may write û of the succeeding step but no other input.
#[kernel(
    T = [f32, f64],
    requires(
        model.holds(shape.grid.y, step.stride),
        on <= step.live,
        forward.holds(shape.grid.y, step.window, step.stride, sequences.rows, sequences.count),
        gamma.len() >= shape.grid.y * step.window * step.stride,
        pairs.len() >= shape.grid.y * step.window * step.stride,
        shape.grid.x == step.live.div_ceil(ROWS) * (step.stride / COLUMNS),
        shape.shared >= step_shared(T::WIDE),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = THREADS
)]
pub fn backward_step<T: Multiply>(
    on: u32,
    here: u32,
    sequences: Sequences,
    model: Model<T>,
    step: Step,
    forward: Forward<T>,
    gamma: GlobalMut<T>,
    pairs: GlobalMut<T>,
) {
    let Sequences { count: sequences, rows, symbol, .. } = sequences;
    let Model { symbols, transposed, table, end, .. } = model;
    let Step { first, live, stride, before: behind, now, window, plain } = step;
    let Forward { alpha, exponents, likelihoods } = forward;
    let model = thread::block_idx_y() as usize;
    let tile = Tile::of_block(stride);
    let n = stride as usize;
    let (above, beside, g, t) = place();
    let j = (tile.column + beside + 8 * group().0 + 2 * t) as usize;
    // Loads that are independent of the product, for this thread's two rows: α̂, b · 2^−e, and β̂ of sequences that end
    // here.
    let m = [0, 8].map(|half| tile.row + above + half + g);
    let of_window = |place: u32, m: u32| (model * window as usize + (place + m) as usize) * n + j;
    let known = m.map(|m| {
        let m = m.min(live - 1);
        let e = exponents.get(model * rows as usize + (first + m) as usize);
        let factor = f64::from_bits(((1023 - e) as u64) << 52);
        let v = model * symbols as usize + symbol.get(first + m) as usize;
        let likelihood = likelihoods.get(2 * (model * sequences as usize + m as usize));
        let inverse = if likelihood > 0.0 { LIFT / likelihood } else { 0.0 };
        [0, 1].map(|c| {
            let x = alpha.get(of_window(here, m) + c).to_f64();
            let last = if m < on { 0.0 } else { end.get(model * n + j + c).to_f64() * inverse };
            (x, table.get(v * n + j + c).to_f64() * factor, last)
        })
    });
    let mut sums = [T::ZERO; 4];
    if tile.row < on {
        let pair_first = model * window as usize + behind as usize;
        let (parts, _) = tensor_product(tile, pairs, pair_first, on, transposed, model * n * n, plain > 0);
        sums = combined(parts, |x, y| x + y);
    } else {
        grid::wait();
    }
    each!(HALF < 2, {
        let m = m[HALF];
        if m < live {
            for c in 0..2 {
                let (x, b, last) = known[HALF][c];
                let beta = if m < on { sums[2 * HALF + c].to_f64() } else { last };
                let lives = high(x) > 0;
                gamma.set(of_window(here, m) + c, if lives { T::from_f64(x * beta * (1.0 / LIFT)) } else { T::ZERO });
                pairs.set(of_window(now, m) + c, if lives { T::from_f64(beta * b) } else { T::ZERO });
                if m >= on {
                    pairs.set(of_window(behind, m) + c, T::ZERO);
                }
            }
        }
    });
}

/// δ of a step, from δ of the previous step: rows of `delta` from `step.first` on, and from `step.before` on.
///
/// - *Mathematics*: δₜ(j) = maxᵢ (δₜ₋₁(i) + ln Aᵢⱼ) + ln bⱼ(oₜ); δ₁ = ln π + ln b(o₁).
/// - *Thread mapping*: a block per 32 rows and 64 columns, `block_idx_y` the model; a thread per 4 × 4 of the tile and
///   quarter of the states, then per 4 columns.
/// - *Shared memory*: [`step_shared`] bytes, dynamic. *Barriers*: one per 32 states, and two. *Deterministic*: yes.
/// - *Valid result in*: `delta`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `logs` | [`Model`], logarithms, stride `step.stride` | −∞ for missing states |
/// | `step` | [`Step`] | `first` = 0 for the first step |
/// | `delta` | models × `sequences.rows` × stride | aligned to 16 bytes |
///
/// *Overlapping*: the launch may overlap the previous one, which may write δ of the previous step but no other input.
/// The launch of the first step (`step.first` = 0) must not overlap.
#[kernel(
    T = [f32, f64],
    requires(
        logs.holds(shape.grid.y, step.stride),
        delta.len() >= shape.grid.y * sequences.rows * step.stride,
        shape.grid.x == step.live.div_ceil(ROWS) * (step.stride / COLUMNS),
        shape.shared >= step_shared(T::WIDE),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = THREADS
)]
pub fn viterbi_step<T: Real>(sequences: Sequences, logs: Model<T>, step: Step, delta: GlobalMut<T>) {
    let Sequences { rows, symbol, .. } = sequences;
    let Model { symbols, start: log_start, transitions: log_transitions, table: log_table, .. } = logs;
    let Step { first, live, stride, before, .. } = step;
    let model = thread::block_idx_y() as usize;
    let tile = Tile::of_block(stride);
    let n = stride as usize;
    let (group, place) = group();
    let (r, c) = (4 * (place / 16), 4 * (place % 16));
    let (m, state) = (tile.row + r + group, (tile.column + c) as usize);
    let v = model * symbols as usize + symbol.get(first + m.min(live - 1)) as usize;
    let emission = log_table.get4((v * n + state) / 4);
    let largest = if first == 0 {
        log_start.get4((model * n + state) / 4)
    } else {
        let mut best = [[T::NEG_INFINITY; 4]; 4];
        let before = model * rows as usize + before as usize;
        tile.product(delta, before, live, log_transitions, model * n * n, |left, of_matrix| {
            let mut k = 8 * group;
            while k < 8 * group + 8 {
                let mut x = [[T::ZERO; 4]; 4];
                for i in 0..4 {
                    x[i] = left.get4_at((r + i as u32) * LEFT + k);
                }
                for q in 0..4 {
                    let a = of_matrix.get4_at((k + q as u32) * right(T::WIDE) + c);
                    for i in 0..4 {
                        for j in 0..4 {
                            best[i][j] = best[i][j].max(x[i][q] + a[j]);
                        }
                    }
                }
                k += 4;
            }
        });
        combined(best, T::max)
    };
    if m < live {
        let at = (model * rows as usize + (first + m) as usize) * n + state;
        delta.set4(at / 4, [0, 1, 2, 3].map(|k| largest[k] + emission[k]));
    }
}

/// Subtracts the largest element from each row of δ, from row `first` on; consecutive models are `rows` rows apart.
///
/// - *Mathematics*: δ(j) ← δ(j) − maxᵢ δ(i), unless all are −∞.
/// - *Thread mapping*: a warp per row, one warp per block; `block_idx_y` is the model.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `delta`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements per row |
/// | `first` | scalar | row |
/// | `rows` | scalar | rows per model |
/// | `delta` | models × `rows` × `stride` | logarithm |
///
/// *Launch*: rows to level × models blocks.
#[kernel(
    T = [f32, f64],
    requires(
        delta.len() >= shape.grid.y * rows * stride,
        first + shape.grid.x <= rows,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn level_rows<T: Real>(stride: u32, first: u32, rows: u32, delta: GlobalMut<T>) {
    let row = thread::block_idx_y() as usize * rows as usize + (first + thread::block_idx_x()) as usize;
    let (n, lane) = (stride as usize, warp::lane_id() as usize);
    let mut largest = T::NEG_INFINITY;
    let mut j = lane;
    while j < n {
        largest = largest.max(delta.get(row * n + j));
        j += 32;
    }
    let largest = warp::reduce(largest, T::max);
    if largest > T::NEG_INFINITY {
        j = lane;
        while j < n {
            delta.set(row * n + j, delta.get(row * n + j) - largest);
            j += 32;
        }
    }
}

/// Copies rows of `stride` elements, from row `from` on to row `to` on. Consecutive models are `source_window` and
/// `target_window` rows apart.
///
/// - *Mathematics*: `target[to + r]` = `source[from + r]`.
/// - *Thread mapping*: a block per row, `block_idx_y` the model.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `target`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `stride` | scalar | elements per row |
/// | `from`, `to` | scalar | rows |
/// | `source_window`, `target_window` | scalar | rows per model |
/// | `source` | models × `source_window` × `stride` | |
/// | `target` | models × `target_window` × `stride` | |
///
/// *Launch*: rows to copy × models blocks.
#[kernel(
    T = [f32, f64],
    requires(
        source.len() >= shape.grid.y * source_window * stride,
        target.len() >= shape.grid.y * target_window * stride,
        from + shape.grid.x <= source_window,
        to + shape.grid.x <= target_window,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn place_rows<T: Real>(
    stride: u32,
    from: u32,
    source_window: u32,
    to: u32,
    target_window: u32,
    source: Global<T>,
    target: GlobalMut<T>,
) {
    let (r, model, n) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize, stride as usize);
    let (from, to) = (model * source_window as usize + from as usize, model * target_window as usize + to as usize);
    let mut j = thread::thread_idx_x() as usize;
    while j < n {
        target.set((to + r) * n + j, source.get((from + r) * n + j));
        j += thread::block_dim_x() as usize;
    }
}
