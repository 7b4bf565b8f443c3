//! One step of all sequences as one launch: a tiled product of all rows with A, and what a recursion makes of it in the same
//! launch.
//!
//! The forward and backward recursion are products on tensor cores: in f64, or in f32 of three TF32 products, each factor being the
//! sum of two numbers of 11 bits. Viterbi's is a product in which sums are maxima and products sums, on ordinary cores.
//!
//! *Bytes*, per step of M rows: 2·M·NS + NS² elements; at 512 states and sequences the product takes 2·512³ operations, 4 µs of the
//! tensor cores of an H200 in f64, and its bytes 2 µs.

use crate::device::mma::Multiply;
use crate::device::{Global, GlobalMut, Real, Shared, Source, Word, atomic, copy, kernel, shared, thread, warp};
use crate::hmm::{high, scale, stored, vanishes};

/// Columns of a tile.
pub const COLUMNS: u32 = 64;
/// Rows of a tile.
pub const ROWS: u32 = 32;
/// Threads of a block: four groups, each with a quarter of the states of every step.
pub const THREADS: u32 = GROUPS * GROUP;
/// Groups.
const GROUPS: u32 = 4;
/// Threads of a group, which has a tile among its four warps.
const GROUP: u32 = 128;
/// States of a step of the product.
const DEPTH: u32 = 8 * GROUPS;
/// Steps that are on their way, or in use.
const STAGES: u32 = 3;
/// From row to row of the left factor in shared memory: the lanes of a warp read from all banks.
const LEFT: u32 = DEPTH + 4;

/// From row to row of the right factor.
const fn right(wide: bool) -> u32 {
    COLUMNS + if wide { 4 } else { 8 }
}

/// Elements of a stage.
const fn stage_len(wide: bool) -> u32 {
    ROWS * LEFT + DEPTH * right(wide)
}

/// Shared memory of a block in bytes, for elements of 8 bytes or 4.
#[must_use]
pub const fn step_shared(wide: bool) -> u32 {
    STAGES * stage_len(wide) * if wide { 8 } else { 4 }
}

/// Which rows and columns a block has, and what its threads copy.
#[derive(Clone, Copy)]
struct Tile {
    row: u32,
    column: u32,
    stride: u32,
}

impl Tile {
    /// The block's, of rows of `stride` elements.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_block(stride: u32) -> Self {
        let columns = stride / COLUMNS;
        let (row, column) = (thread::block_idx_x() / columns * ROWS, thread::block_idx_x() % columns * COLUMNS);
        Self { row, column, stride }
    }

    /// Calls `multiply` with both factors of each step of the product, as they lie in shared memory: rows from row `x_first` of `x` on,
    /// of which `rows` count, and `matrix` from element `first` on.
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
        let stage_of = |step: u32| memory.split(step % STAGES * stage_len(T::WIDE)).1.split(ROWS * LEFT);
        let stage = |step: u32| {
            let (of_x, of_matrix) = stage_of(step);
            let k = step * DEPTH;
            let mut at = thread::thread_idx_x();
            while at < ROWS * DEPTH / width {
                let (r, c) = (at / (DEPTH / width), at % (DEPTH / width) * width);
                // Rows that are not there are rows that are not looked at.
                let row = x_first + (self.row + r).min(rows - 1) as usize;
                of_x.copy16(r * LEFT + c, x, row * stride + (k + c) as usize);
                at += THREADS;
            }
            at = thread::thread_idx_x();
            while at < DEPTH * COLUMNS / width {
                let (r, c) = (at / (COLUMNS / width), at % (COLUMNS / width) * width);
                let from = first + (k + r) as usize * stride + (self.column + c) as usize;
                of_matrix.copy16(r * right(T::WIDE) + c, matrix, from);
                at += THREADS;
            }
        };
        let steps = self.stride / DEPTH;
        let mut step = 0;
        while step < STAGES - 1 {
            if step < steps {
                stage(step);
            }
            copy::commit();
            step += 1;
        }
        step = 0;
        while step < steps {
            copy::wait::<{ STAGES - 2 }>();
            thread::sync_threads();
            if step + STAGES - 1 < steps {
                stage(step + STAGES - 1);
            }
            copy::commit();
            let (of_x, of_matrix) = stage_of(step);
            multiply(of_x, of_matrix);
            step += 1;
        }
    }
}

/// What a warp has of a tile: 16 rows and 32 columns, as [`mma`](crate::device::mma) lays out four products beside each other.
type Quarter<T> = [[T; 4]; 4];

/// Which group a thread is in, and its place there.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn group() -> (u32, u32) {
    (thread::thread_idx_x() / GROUP, thread::thread_idx_x() % GROUP)
}

/// What the groups have of a tile, combined in the order of groups; valid in the first group. Each thread has 16 elements.
///
/// *Barriers*: two.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn combined<T: Word>(mut x: [[T; 4]; 4], combine: impl Fn(T, T) -> T) -> [[T; 4]; 4] {
    let memory = shared::dynamic_shared_mem::<T>();
    let (group, place) = group();
    // Nobody reads the last stages any more.
    thread::sync_threads();
    if group > 0 {
        each!(I < 4, {
            for j in 0..4 {
                memory.set(((group - 1) * 16 + (4 * I + j) as u32) * GROUP + place, x[I][j]);
            }
        });
    }
    thread::sync_threads();
    if group == 0 {
        let mut other = 0;
        while other < GROUPS - 1 {
            each!(I < 4, {
                for j in 0..4 {
                    x[I][j] = combine(x[I][j], memory.get((other * 16 + (4 * I + j) as u32) * GROUP + place));
                }
            });
            other += 1;
        }
    }
    x
}

/// The rows x times the matrix, on tensor cores; valid in the first group.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn tensor_product<T: Multiply>(
    tile: Tile,
    x: impl Source<T>,
    x_first: usize,
    rows: u32,
    matrix: Global<T>,
    first: usize,
) -> Quarter<T> {
    let (lane, id) = (warp::lane_id(), warp::warp_id() % 4);
    let (g, t) = (lane / 4, lane % 4);
    let (above, beside) = (16 * (id / 2), 32 * (id % 2));
    let k = 8 * group().0;
    let mut sums = [[T::ZERO; 4]; 4];
    tile.product(x, x_first, rows, matrix, first, |left, of_matrix| {
        let at = (above + g) * LEFT + k + t;
        let a = [left.get(at), left.get(at + 8 * LEFT), left.get(at + 4), left.get(at + 8 * LEFT + 4)];
        for n in 0..4 {
            let at = (k + t) * right(T::WIDE) + beside + 8 * n as u32 + g;
            let b = [of_matrix.get(at), of_matrix.get(at + 4 * right(T::WIDE))];
            sums[n] = T::multiply(a, b, sums[n]);
        }
    });
    combined(sums, |x, y| x + y)
}

/// α̂ of step `step`, for all sequences that have it, from α̂ of the step before.
///
/// Rows of α̂ lie from row `before` and row `now` of `alpha` on; of a model, `window` rows further. `tops[row]` becomes the exponent half of the
/// row's largest element, `exponents[row]` eₜ.
///
/// *Thread mapping*: a block per 32 rows and 64 columns, the grid's y the model; a warp per quarter of the tile and of the states. *Shared memory*:
/// [`step_shared`], dynamic. *Barriers*: one per 32 states, and two. *Deterministic*: yes; the maximum is one of integers. *Safety*: blocks have
/// [`THREADS`] threads; `step` > 0; `stride` is a multiple of [`COLUMNS`]; `tops` has `rows` zeros for each model from this step on.
#[kernel(T = [f32, f64])]
pub fn forward_step<T: Multiply>(
    step: u32,
    stride: u32,
    symbols: u32,
    before: u32,
    now: u32,
    window: u32,
    rows: u32,
    base: Global<u32>,
    symbol: Global<u32>,
    transitions: Global<T>,
    table: Global<T>,
    alpha: GlobalMut<T>,
    tops: GlobalMut<u32>,
    exponents: GlobalMut<i32>,
) {
    let model = thread::block_idx_y() as usize;
    let tile = Tile::of_block(stride);
    let (first, end) = (base.get(step as usize), base.get(step as usize + 1));
    let earlier = base.get(step as usize - 1);
    let live = end - first;
    if tile.row >= live {
        return;
    }
    let n = stride as usize;
    let x_first = model * window as usize + before as usize;
    let sums = tensor_product(tile, alpha, x_first, live, transitions, model * n * n);
    let (g, t) = (warp::lane_id() / 4, warp::lane_id() % 4);
    if group().0 > 0 {
        return;
    }
    let (above, beside) = (16 * (warp::warp_id() / 2), 32 * (warp::warp_id() % 2));
    each!(HALF < 2, {
        let m = tile.row + above + 8 * HALF as u32 + g;
        let there = m < live;
        let m = if there { m } else { live - 1 };
        let row = model * rows as usize + (first + m) as usize;
        let (factor, e) = scale(tops.get(model * rows as usize + (earlier + m) as usize));
        let v = model * symbols as usize + symbol.get((first + m) as usize) as usize;
        let mut top = 0;
        for k in 0..4 {
            for c in 0..2 {
                let j = (tile.column + beside + 8 * k as u32 + 2 * t + c as u32) as usize;
                let b = table.get(v * n + j).to_f64();
                let x = stored::<T>(sums[k][2 * HALF + c].to_f64() * (b * factor));
                top = top.max(high(x));
                if there {
                    alpha.set((model * window as usize + (now + m) as usize) * n + j, T::from_f64(x));
                }
            }
        }
        top = top.max(warp::shuffle_xor(warp::FULL, top, 1));
        top = top.max(warp::shuffle_xor(warp::FULL, top, 2));
        if there && t == 0 {
            atomic::max((tops, row), top);
            if tile.column == 0 && beside == 0 {
                exponents.set(row, e);
            }
        }
    });
}

/// α̂ of the first step: π ∘ b(o₁); and what [`forward_step`] says of it.
///
/// *Thread mapping*: a warp per sequence, in blocks of one, the grid's y the model. *Deterministic*: yes. *Safety*: as there.
#[kernel(T = [f32, f64])]
pub fn forward_start<T: Real>(
    stride: u32,
    symbols: u32,
    now: u32,
    window: u32,
    rows: u32,
    symbol: Global<u32>,
    start: Global<T>,
    table: Global<T>,
    alpha: GlobalMut<T>,
    tops: GlobalMut<u32>,
    exponents: GlobalMut<i32>,
) {
    let (m, model, n) = (thread::block_idx_x() as usize, thread::block_idx_y() as usize, stride as usize);
    let v = model * symbols as usize + symbol.get(m) as usize;
    let mut j = warp::lane_id() as usize;
    let mut top = 0;
    while j < n {
        let x = stored::<T>(start.get(model * n + j).to_f64() * table.get(v * n + j).to_f64());
        alpha.set((model * window as usize + now as usize + m) * n + j, T::from_f64(x));
        top = top.max(high(x));
        j += 32;
    }
    let top = warp::max_u32(warp::FULL, top);
    if warp::lane_id() == 0 {
        tops.set(model * rows as usize + m, top);
        exponents.set(model * rows as usize + m, 0);
    }
}

/// P̂ and Σ eₜ of the sequences whose last step is `step`: those from `first` on, `count` of them; rows of α̂ of the step lie from row `now` on.
///
/// *Thread mapping*: a warp per sequence, in blocks of one, the grid's y the model. *Deterministic*: yes. *Safety*: as there.
#[kernel(T = [f32, f64])]
pub fn forward_end<T: Real>(
    step: u32,
    stride: u32,
    sequences: u32,
    first: u32,
    now: u32,
    window: u32,
    rows: u32,
    base: Global<u32>,
    end: Global<T>,
    alpha: Global<T>,
    exponents: Global<i32>,
    likelihoods: GlobalMut<f64>,
) {
    let (m, model, n) = ((first + thread::block_idx_x()) as usize, thread::block_idx_y() as usize, stride as usize);
    let (mut sum, mut total) = (0.0, 0);
    let mut j = warp::lane_id() as usize;
    while j < n {
        let x = alpha.get((model * window as usize + now as usize + m) * n + j).to_f64();
        sum += x * end.get(model * n + j).to_f64();
        j += 32;
    }
    let mut t = warp::lane_id();
    while t <= step {
        total += exponents.get(model * rows as usize + base.get(t as usize) as usize + m);
        t += 32;
    }
    let sum = warp::reduce(sum, |a, b| a + b);
    let total = warp::reduce(total, |a, b| a + b);
    if warp::lane_id() == 0 {
        let place = model * sequences as usize + m;
        likelihoods.set(2 * place, sum);
        likelihoods.set(2 * place + 1, f64::from(total));
    }
}

/// β̂, γ and û of step `step`, from û of the step behind.
///
/// `pairs` has û of the step behind from row `behind` on, and gets û of this one from row `now` on; α̂ and γ of this step lie from row
/// `here` on.
///
/// *Thread mapping*, *Shared memory*, *Barriers*: those of [`forward_step`]. *Deterministic*: yes. *Safety*: as there.
#[kernel(T = [f32, f64])]
pub fn backward_step<T: Multiply>(
    step: u32,
    last: u32,
    stride: u32,
    sequences: u32,
    symbols: u32,
    behind: u32,
    now: u32,
    here: u32,
    window: u32,
    pair_window: u32,
    rows: u32,
    base: Global<u32>,
    symbol: Global<u32>,
    transposed: Global<T>,
    table: Global<T>,
    end: Global<T>,
    likelihoods: Global<f64>,
    alpha: Global<T>,
    exponents: Global<i32>,
    gamma: GlobalMut<T>,
    pairs: GlobalMut<T>,
) {
    let model = thread::block_idx_y() as usize;
    let tile = Tile::of_block(stride);
    let first = base.get(step as usize);
    let live = base.get(step as usize + 1) - first;
    // Sequences that go on behind this step.
    let on = if step == last { 0 } else { base.get(step as usize + 2) - base.get(step as usize + 1) };
    if tile.row >= live {
        return;
    }
    let n = stride as usize;
    let pair_first = model * pair_window as usize;
    let mut sums = [[T::ZERO; 4]; 4];
    if tile.row < on {
        sums = tensor_product(tile, pairs, pair_first + behind as usize, on, transposed, model * n * n);
    }
    let (g, t) = (warp::lane_id() / 4, warp::lane_id() % 4);
    if group().0 > 0 {
        return;
    }
    let (above, beside) = (16 * (warp::warp_id() / 2), 32 * (warp::warp_id() % 2));
    each!(HALF < 2, {
        let m = tile.row + above + 8 * HALF as u32 + g;
        if m < live {
            let e = exponents.get(model * rows as usize + (first + m) as usize);
            let factor = f64::from_bits(((1023 - e) as u64) << 52);
            let v = model * symbols as usize + symbol.get((first + m) as usize) as usize;
            let likelihood = likelihoods.get(2 * (model * sequences as usize + m as usize));
            let inverse = if likelihood > 0.0 { 1.0 / likelihood } else { 0.0 };
            let at = (model * window as usize + (here + m) as usize) * n;
            for k in 0..4 {
                for c in 0..2 {
                    let j = (tile.column + beside + 8 * k as u32 + 2 * t + c as u32) as usize;
                    let beta =
                        if m < on { sums[k][2 * HALF + c].to_f64() } else { end.get(model * n + j).to_f64() * inverse };
                    let x = alpha.get(at + j).to_f64();
                    let lives = !vanishes::<T>(x);
                    let u = if lives { beta * (table.get(v * n + j).to_f64() * factor) } else { 0.0 };
                    gamma.set(at + j, if lives { T::from_f64(x * beta) } else { T::ZERO });
                    pairs.set((pair_first + (now + m) as usize) * n + j, T::from_f64(u));
                    if m >= on {
                        pairs.set((pair_first + (behind + m) as usize) * n + j, T::ZERO);
                    }
                }
            }
        }
    });
}

/// δ of step `step`, from δ of the step before: both are rows of `delta`, `rows` for each model.
///
/// *Thread mapping*: a block per 32 rows and 64 columns, the grid's y the model; a thread per 4 × 4 of it. *Shared memory*:
/// [`step_shared`], dynamic. *Barriers*: one per 32 states, and two. *Deterministic*: yes. *Safety*: as [`forward_step`]; at `step` 0 nothing is
/// before.
#[kernel(T = [f32, f64])]
pub fn viterbi_step<T: Real>(
    step: u32,
    stride: u32,
    symbols: u32,
    rows: u32,
    base: Global<u32>,
    symbol: Global<u32>,
    log_start: Global<T>,
    log_transitions: Global<T>,
    log_table: Global<T>,
    delta: GlobalMut<T>,
) {
    let model = thread::block_idx_y() as usize;
    let tile = Tile::of_block(stride);
    let first = base.get(step as usize);
    let live = base.get(step as usize + 1) - first;
    if tile.row >= live {
        return;
    }
    let n = stride as usize;
    let (group, place) = group();
    let (r, c) = (4 * (place / 16), 4 * (place % 16));
    let mut best = [[T::NEG_INFINITY; 4]; 4];
    if step > 0 {
        let before = model * rows as usize + base.get(step as usize - 1) as usize;
        tile.product(delta, before, live, log_transitions, model * n * n, |left, of_matrix| {
            let mut k = 8 * group;
            while k < 8 * group + 8 {
                let mut x = [[T::ZERO; 4]; 4];
                for i in 0..4 {
                    x[i] = left.get4((r + i as u32) * LEFT + k);
                }
                for q in 0..4 {
                    let a = of_matrix.get4((k + q as u32) * right(T::WIDE) + c);
                    for i in 0..4 {
                        for j in 0..4 {
                            best[i][j] = best[i][j].max(x[i][q] + a[j]);
                        }
                    }
                }
                k += 4;
            }
        });
        best = combined(best, T::max);
    }
    if group > 0 {
        return;
    }
    for i in 0..4 {
        let m = tile.row + r + i as u32;
        if m < live {
            let v = model * symbols as usize + symbol.get((first + m) as usize) as usize;
            let mut now = [T::ZERO; 4];
            for j in 0..4 {
                let state = (tile.column + c) as usize + j;
                let maximum = if step == 0 { log_start.get(model * n + state) } else { best[i][j] };
                now[j] = maximum + log_table.get(v * n + state);
            }
            let at = (model * rows as usize + (first + m) as usize) * n + (tile.column + c) as usize;
            delta.set4(at / 4, now);
        }
    }
}

/// Takes its largest element from each of `count` rows of δ, from row `first` on; of a model, `rows` rows further.
///
/// *Thread mapping*: a warp per row, in blocks of one, the grid's y the model. *Deterministic*: yes. *Safety*: `delta` has these rows, of
/// `stride` elements.
#[kernel(T = [f32, f64])]
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

/// Copies rows of `stride` elements, from row `from` on, to rows from `to` on; of a model, they lie `source_window` and `target_window` rows
/// further.
///
/// *Thread mapping*: a block per row, the grid's y the model. *Safety*: both have these rows.
#[kernel(T = [f32, f64])]
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
