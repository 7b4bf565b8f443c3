//! The forward recursion.
//!
//! *Mathematics*: α̂₁ = π ∘ b(o₁) · 2^−e₁, α̂ₜ(j) = Σᵢ α̂ₜ₋₁(i) Aᵢⱼ · bⱼ(oₜ) · 2^−eₜ, and P̂ = Σⱼ α̂_T(j) endⱼ.
//! Positive elements get a small [floor](super); P̂ is NaN if the floor could affect it.
//!
//! A launch covers the steps `from … until − 1`. The next launch continues from `carry`, so that long sequences can be
//! cut into windows; the bits of the result do not depend on the cuts.
//!
//! *Bytes* per row: 4 for the symbol and, if α̂ is stored, NS elements and 4 for the exponent.

use warpkov_device::device::{Global, GlobalMut, Real, Word, block, kernel, math, mma, shared, thread, warp};

use crate::hmm::model::{Model, Sequences, Window};
use crate::hmm::{
    Ahead, Doubt, Part, carried, ground_of, grounded, high, part, power, relied, scale, set_part, settled, stored, top,
};

/// A or Aᵀ as factor B of a warp's products: `[n][m][c]` is the lane's element of the 4 × 8 tile whose rows are the
/// states `[n][c]` of each part and whose columns are tile m.
pub(super) type Factor<const TILES: usize> = [[[f64; 2]; TILES]; TILES];

/// Loads the [factor](Factor) of the matrix at element `first`, whose element (i, j) is at i·`row` + j·`column`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn factor<T: Real, const TILES: usize>(
    matrix: Global<T>,
    first: usize,
    row: usize,
    column: usize,
) -> Factor<TILES> {
    let (g, t) = ((warp::lane_id() / 4) as usize, (warp::lane_id() % 4) as usize);
    let mut x = [[[0.0; 2]; TILES]; TILES];
    for n in 0..TILES {
        for c in 0..2 {
            for m in 0..TILES {
                let (i, j) = (2 * TILES * t + 2 * n + c, 2 * TILES * (g / 2) + 2 * m + g % 2);
                x[n][m][c] = matrix.get(first + i * row + j * column).to_f64();
            }
        }
    }
    x
}

/// x times the matrix of a [factor](Factor), for the 8 rows x of a warp. Input and output have the same layout.
///
/// In a tile of D, lane 4g + t holds row g and columns 2t, 2t + 1; in a tile of A, row g and column t. The columns of A
/// may stand for any states, as long as the rows of B stand for the same states. So the two elements of D serve as two
/// tiles of A without data movement.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn multiply<const TILES: usize>(x: Part<TILES>, factor: &Factor<TILES>) -> Part<TILES> {
    let mut sums = [[0.0; 2]; TILES];
    for n in 0..TILES {
        for m in 0..TILES {
            for c in 0..2 {
                sums[m] = mma::f64_8x8x4(x[n][c], factor[n][m][c], sums[m]);
            }
        }
    }
    sums
}

/// [High](high) half of the lane's largest element.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn lane_top<const TILES: usize>(x: Part<TILES>) -> u32 {
    let mut top = 0;
    for n in 0..TILES {
        top = top.max(high(x[n][0])).max(high(x[n][1]));
    }
    top
}

/// [High](high) half of each row's largest element.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn row_top<const TILES: usize>(x: Part<TILES>) -> u32 {
    let mut top = lane_top(x);
    top = top.max(warp::shuffle_xor(warp::FULL, top, 1));
    top.max(warp::shuffle_xor(warp::FULL, top, 2))
}

/// N ≤ 8·`TILES`: all steps of 8 sequences in one warp, on tensor cores, with A and α̂ in registers.
///
/// Results: `likelihoods[2m]` = P̂, NaN in doubt, and `likelihoods[2m + 1]` = Σ eₜ of each sequence m whose last step
/// is in the window; `carry` = α̂ of step `until` − 1 of each longer sequence; and if `STORE`, `alpha[row −
/// base[from]]` and `exponents[row]`.
///
/// A, α̂ and the prefetch queues stay in registers across the time loop.
///
/// - *Thread mapping*: lane 4g + t holds the states from 2·`TILES`·t on of sequence g of the warp's 8; one warp per
///   block. A block takes every `grid_dim_x`-th group of 8 sequences; `block_idx_y` is the model.
/// - *Shared memory*: none. *Barriers*: none.
/// - *Deterministic*: yes; the bits of a sequence do not depend on the other sequences.
/// - *Valid result in*: the results above.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `window` | [`Window`] | |
/// | `model` | [`Model`], stride 8·`TILES` | start rows per model, or per model and sequence if `own` |
/// | `own` | scalar | 1 or 0 |
/// | `carry` | models × M × stride | α̂ of step `from` − 1, if `from` > 0 |
/// | `alpha` | models × `window.capacity` × stride if `STORE`; else any length | α̂ ≥ 0 |
/// | `exponents` | models × `sequences.rows` if `STORE`; else any length | eₜ |
/// | `likelihoods` | models × M × 2 | from the launch of the previous window, if `from` > 0 |
#[kernel(
    T = [f32, f64], TILES = [1, 2, 4], STORE = [false, true],
    requires(
        model.holds(shape.grid.y, 8 * TILES),
        if own > 0 { model.start.len() >= shape.grid.y * sequences.count * 8 * TILES },
        carry.len() >= shape.grid.y * sequences.count * 8 * TILES,
        if STORE {
            alpha.len() >= shape.grid.y * window.capacity * 8 * TILES;
            exponents.len() >= shape.grid.y * sequences.rows
        },
        likelihoods.len() >= 2 * shape.grid.y * sequences.count,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 32
)]
pub fn forward_warp<T: Real, const TILES: usize, const STORE: bool>(
    sequences: Sequences,
    window: Window,
    model: Model<T>,
    own: u32,
    carry: GlobalMut<T>,
    alpha: GlobalMut<T>,
    exponents: GlobalMut<i32>,
    likelihoods: GlobalMut<f64>,
) {
    let Sequences { count: sequences, rows, lengths, base, symbol } = sequences;
    let Window { from, until, capacity: window } = window;
    let Model { symbols, start, transitions, table, end, .. } = model;
    let (states, model) = (8 * TILES, thread::block_idx_y() as usize);
    let (g, t) = (warp::lane_id() / 4, warp::lane_id() % 4);
    let a = factor::<T, TILES>(transitions, model * states * states, states, 1);
    let starts = start;
    let table = table.skip(model * symbols as usize * states);
    let end = part::<T, TILES>(end, model);
    let origin = base.get(from);

    let mut first = 8 * thread::block_idx_x();
    while first < sequences {
        let longest = lengths.get(first);
        let there = first + g < sequences;
        let m = if there { first + g } else { first };
        let length = if there { lengths.get(m) } else { 0 };
        let place = model * sequences as usize + m as usize;
        let start = part::<T, TILES>(starts, if own == 0 { model } else { place });
        let mut x = [[0.0; 2]; TILES];
        let (mut exponent, mut before, mut doubt) = (0_i64, [0.0; 2], Doubt::NONE);
        if from > 0 && length > from {
            x = carried::<T, TILES>(carry, place);
            // The lane that writes them.
            if t == 0 {
                before = [likelihoods.get(2 * place), likelihoods.get(2 * place + 1)];
            }
        }

        let load = |step: u32| if step < length { symbol.get(base.get(step) + m) } else { 0 };
        let emission = |v: u32| part::<T, TILES>(table, v as usize);
        let stop = longest.min(until);
        let mut ahead = Ahead::<4>::new(from, true, load);
        let mut b = emission(ahead.get(from));
        let keep = |step: u32, row: u32, x: Part<TILES>, e: i32| {
            if STORE && step < length {
                set_part::<T, TILES>(alpha, model * window as usize + (row - origin) as usize, x);
                if t == 0 {
                    exponents.set(model * rows as usize + row as usize, e);
                }
            }
        };
        let mut step = from;
        if from == 0 {
            for n in 0..TILES {
                for c in 0..2 {
                    let (pi, b) = (start[n][c] * power(top(T::WIDE)), b[n][c]);
                    x[n][c] = stored::<T>(pi.fma(b, grounded::<T>(pi, b)));
                }
            }
            exponent = -i64::from(top(T::WIDE));
            keep(0, m, x, -top(T::WIDE));
            b = emission(ahead.peek(1, true));
            step = 1;
        }
        while step < stop {
            let beyond = Ahead::<4>::beyond(step, true, load);
            let left_behind = stop.min(step / 4 * 4 + 4);
            while step < left_behind {
                let row = base.get(step) + m;
                let (factor, e) = scale::<T>(row_top(x));
                let y = multiply(x, &a);
                let alive = step < length;
                // Nonzero if any element is. Each use of it waits for all products; the products wait for none of each
                // other.
                let any = math::settled(lane_top(y));
                let mut so_far = doubt;
                for n in 0..TILES {
                    for c in 0..2 {
                        // This order of evaluation does not wait for the emissions until the product has arrived.
                        let ground = ground_of::<T>(math::settled(high(y[n][c]).min(any)).min(high(b[n][c])));
                        let now = (y[n][c] * factor).fma(b[n][c], ground);
                        // Select instead of branch: a branch costs more than it saves.
                        let now = settled(stored::<T>(now));
                        x[n][c] = if alive { now } else { x[n][c] };
                        so_far = so_far.with(y[n][c]);
                    }
                }
                doubt = if alive { so_far } else { doubt };
                exponent += if alive { i64::from(e) } else { 0 };
                keep(step, row, x, e);
                // In flight during the next product; the load reuses its registers, so no copy is needed.
                b = emission(ahead.peek(step + 1, true));
                step += 1;
            }
            ahead.turn(beyond);
        }

        let mut sum = 0.0;
        for n in 0..TILES {
            sum += x[n][0] * end[n][0] + x[n][1] * end[n][1];
        }
        if doubt.is::<T>() {
            sum = f64::NAN;
        }
        sum += warp::shuffle_xor(warp::FULL, sum, 1);
        sum += warp::shuffle_xor(warp::FULL, sum, 2);
        if length > from {
            if length > until {
                set_part::<T, TILES>(carry, place, x);
            } else {
                sum = relied::<T>(sum);
            }
            if t == 0 {
                likelihoods.set(2 * place, if before[0].is_nan() { before[0] } else { sum });
                likelihoods.set(2 * place + 1, before[1] + exponent as f64);
            }
        }
        first += 8 * thread::grid_dim_x();
    }
}

/// Reduces four values of each of 16 lanes over these lanes: lane p gets the result p / 4, as do its three neighbours.
///
/// *Takes part*: all 32 lanes. *Deterministic*: yes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn scattered<T: Word>([a, b, c, d]: [T; 4], combine: impl Fn(T, T) -> T) -> T {
    let lane = warp::lane_id();
    let ((keep, give), upper) = (if lane & 8 == 0 { ([a, b], [c, d]) } else { ([c, d], [a, b]) }, lane & 4 != 0);
    let first = combine(keep[0], warp::shuffle_xor(warp::FULL, give[0], 8));
    let second = combine(keep[1], warp::shuffle_xor(warp::FULL, give[1], 8));
    let (keep, give) = if upper { (second, first) } else { (first, second) };
    let x = combine(keep, warp::shuffle_xor(warp::FULL, give, 4));
    let x = combine(x, warp::shuffle_xor(warp::FULL, x, 2));
    combine(x, warp::shuffle_xor(warp::FULL, x, 1))
}

/// Σᵢ xᵢ Aᵢⱼ for column j = thread / 4, from the [part](sixteenth) of A that each lane keeps.
///
/// 16 lanes share four columns; lane p has the rows 32q + 2p and 32q + 2p + 1. Each element of x is thus read once for
/// four columns.
///
/// *Takes part*: all 32 lanes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn dot<const PER: usize>(a: &[f64; PER], x: shared::Shared<f64>) -> f64 {
    let p = warp::lane_id() % 16;
    let mut sums = [0.0; 4];
    each!(Q < PER / 8, {
        let pair = x.get2(16 * Q as u32 + p);
        for (r, x) in pair.iter().enumerate() {
            for c in 0..4 {
                sums[c] = a[8 * Q + 4 * r + c].fma(*x, sums[c]);
            }
        }
    });
    scattered(sums, |x, y| x + y)
}

/// Loads a thread's part of the matrix for [`dot`]. Element (i, j) of the matrix is at `first` + i·`row` + j·`column`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn sixteenth<T: Real, const PER: usize>(
    matrix: Global<T>,
    first: usize,
    row: usize,
    column: usize,
) -> [f64; PER] {
    let (p, four) = ((warp::lane_id() % 16) as usize, (thread::thread_idx_x() / 16) as usize);
    let mut a = [0.0; PER];
    each!(K < PER, {
        let (i, j) = (32 * (K / 8) + 2 * p + K / 4 % 2, 4 * four + K % 4);
        a[K] = matrix.get(first + i * row + j * column).to_f64();
    });
    a
}

/// N ≤ 4·`PER`: all steps of one sequence in one block, with A distributed over the registers of its threads.
///
/// Results as those of [`forward_warp`].
///
/// - *Thread mapping*: 16 lanes per four states, a sixteenth of the columns each; then four lanes per state. One block
///   per sequence; `block_idx_y` is the model.
/// - *Shared memory*: 320 words, static: two rows of f64, and reductions. *Barriers*: one per step, and three.
/// - *Deterministic*: yes. *Valid result in*: the results of [`forward_warp`].
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `window` | [`Window`] | |
/// | `model` | [`Model`], stride 4·`PER` | start rows per model, or per model and sequence if `own` |
/// | `own` | scalar | 1 or 0 |
/// | `carry` | models × M × stride | α̂ of step `from` − 1, if `from` > 0 |
/// | `alpha` | models × `window.capacity` × stride if `STORE`; else any length | α̂ ≥ 0 |
/// | `exponents` | models × `sequences.rows` if `STORE`; else any length | eₜ |
/// | `likelihoods` | models × M × 2 | from the launch of the previous window, if `from` > 0 |
#[kernel(
    T = [f32, f64], PER = [16, 32], STORE = [false, true],
    requires(
        model.holds(shape.grid.y, 4 * PER),
        if own > 0 { model.start.len() >= shape.grid.y * sequences.count * 4 * PER },
        carry.len() >= shape.grid.y * sequences.count * 4 * PER,
        if STORE {
            alpha.len() >= shape.grid.y * window.capacity * 4 * PER;
            exponents.len() >= shape.grid.y * sequences.rows
        },
        likelihoods.len() >= 2 * shape.grid.y * sequences.count,
        shape.grid.x == sequences.count,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 16 * PER
)]
pub fn forward_block<T: Real, const PER: usize, const STORE: bool>(
    sequences: Sequences,
    window: Window,
    model: Model<T>,
    own: u32,
    carry: GlobalMut<T>,
    alpha: GlobalMut<T>,
    exponents: GlobalMut<i32>,
    likelihoods: GlobalMut<f64>,
) {
    let Sequences { count: sequences, rows, lengths, base, symbol } = sequences;
    let Window { from, until, capacity: window } = window;
    let Model { symbols, start, transitions, table, end, .. } = model;
    let memory = warpkov_device::shared_array!(forward_rows: f64; 256);
    let tops = warpkov_device::shared_array!(forward_tops: u32; 32);
    let (states, model) = (4 * PER, thread::block_idx_y() as usize);
    let m = thread::block_idx_x();
    let length = lengths.get(m);
    if length <= from {
        return;
    }
    let (j, p) = ((thread::thread_idx_x() / 4) as usize, thread::thread_idx_x() % 4);
    let (warp_id, warps) = (warp::warp_id(), PER as u32 / 2);
    let a = sixteenth::<T, PER>(transitions, model * states * states, states, 1);
    let place = model * sequences as usize + m as usize;
    let origin = base.get(from);
    let row_of = |half: u32| memory.split(half * states as u32).1.split(states as u32).0;

    let load = |step: u32| if step < length { symbol.get(base.get(step) + m) } else { 0 };
    let emission = |v: u32| table.get((model * symbols as usize + v as usize) * states + j).to_f64();
    // Ends with a barrier; afterwards all threads may read this step's row.
    let publish = |half: u32, x: f64| {
        let top = warp::max_u32(warp::FULL, high(x));
        if p == 0 {
            row_of(half).set(j as u32, x);
        }
        if warp::lane_id() == 0 {
            tops.set(16 * half + warp_id, top);
        }
        thread::sync_threads();
    };
    let keep = |step: u32, x: f64, e: i32| {
        if STORE && p == 0 {
            let row = base.get(step) + m;
            alpha.set((model * window as usize + (row - origin) as usize) * states + j, T::from_f64(x));
            if j == 0 {
                exponents.set(model * rows as usize + row as usize, e);
            }
        }
    };
    let stop = length.min(until);
    let (mut before, mut exponent, mut step, mut doubt) = (0.0, -f64::from(top(T::WIDE)), from, Doubt::NONE);
    let mut x;
    let mut ahead = Ahead::<32>::new(from, true, load);
    if from == 0 {
        let start = start.get(if own == 0 { model } else { place } * states + j).to_f64();
        let (pi, b) = (start * power(top(T::WIDE)), emission(ahead.get(0)));
        x = stored::<T>(pi.fma(b, grounded::<T>(pi, b)));
        keep(0, x, -top(T::WIDE));
        step = 1;
    } else {
        x = carry.get(place * states + j).to_f64();
        (before, exponent) = (likelihoods.get(2 * place), likelihoods.get(2 * place + 1));
    }
    publish(0, x);
    if from == 0 && step < stop {
        ahead.go_to(step, true, load);
    }
    let mut next = emission(ahead.get(step));
    let mut half = 0;
    while step < stop {
        let b = next;
        if step + 1 < stop {
            ahead.go_to(step + 1, true, load);
            next = emission(ahead.get(step + 1));
        }
        let (factor, e) = scale::<T>(warp::max_u32(warp::FULL, tops.get(16 * half + warp::lane_id() % warps)));
        let y = dot(&a, row_of(half));
        x = stored::<T>(y.fma(b * factor, grounded::<T>(y, b)));
        doubt = doubt.with(y);
        exponent += f64::from(e);
        half ^= 1;
        publish(half, x);
        keep(step, x, e);
        step += 1;
    }
    if length > until && p == 0 {
        carry.set(place * states + j, T::from_f64(x));
    }
    let share = if p == 0 { x * end.get(model * states + j).to_f64() } else { 0.0 };
    let share = if doubt.is::<T>() { f64::NAN } else { share };
    let sum = block::reduce(share, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        let sum = if length > until { sum } else { relied::<T>(sum) };
        likelihoods.set(2 * place, if before.is_nan() { before } else { sum });
        likelihoods.set(2 * place + 1, exponent);
    }
}
