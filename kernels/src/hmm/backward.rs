//! The backward recursion.
//!
//! *Mathematics*: β̂_T = end / P̂; ûₜ = b(oₜ) ∘ β̂ₜ · 2^−eₜ where α̂ₜ is positive, else 0; β̂ₜ₋₁ = A ûₜ; and γₜ = α̂ₜ ∘
//! β̂ₜ. The expected counts are Σ γₜ and Σ ξₜ with ξₜ(i, j) = α̂ₜ(i) Aᵢⱼ ûₜ₊₁(j).
//!
//! A launch covers the steps `until − 1 … from`, after the forward recursion of the same window. Before the launch,
//! `carry` holds û of step `until`; after it, û of step `from`.
//!
//! *Bytes* per row: reads NS elements of α̂, and 8 for symbol and exponent; writes NS elements each of γ and û.

use warpkov_device::device::{GlobalMut, Parameter, Real, copy, kernel, mma, shared, thread, warp};

use crate::hmm::forward::{Factor, dot, factor, multiply, sixteenth};
use crate::hmm::model::{Forward, Model, Sequences, Window};
use crate::hmm::{Ahead, carried, high, part, set_part, stored};

/// Rows of α̂ in flight to shared memory, or in use.
const STAGES: u32 = 8;

/// Requested results of a backward kernel.
pub mod want {
    /// γ only.
    pub const POSTERIORS: u32 = 0;
    /// Expected counts only.
    pub const COUNTS: u32 = 1;
    /// γ, and expected counts other than those of symbols.
    pub const BOTH: u32 = 2;
}

/// Warps per block of [`backward_warp`]: one runs the recursion, one sums pairs, one sums γ. With four tiles, the
/// registers suffice for two warps, and one warp computes both sums.
const fn warps(tiles: usize) -> u32 {
    if tiles < 4 { 3 } else { 2 }
}

/// Threads per block of [`backward_warp`].
#[must_use]
pub const fn warp_threads(tiles: usize, wanted: u32) -> u32 {
    32 * if wanted == want::POSTERIORS { 1 } else { warps(tiles) }
}

/// Steps per chunk, the unit in which the first warp hands data to the others.
const fn chunk(tiles: usize) -> u32 {
    if tiles < 4 { 4 } else { 2 }
}

/// Rows of α̂ and of the emission table in flight to the shared memory of [`backward_warp`], or in use.
const fn stages(tiles: usize) -> u32 {
    if tiles < 4 { STAGES } else { 4 }
}

/// Row pitch of a tile in shared memory: lanes that read a column use different banks.
const fn pitch(tiles: usize) -> u32 {
    8 * tiles as u32 + 4
}

/// Words per step: the tiles of α̂, of û of the succeeding step, and of γ, for 8 sequences; and their symbols.
const fn step_len(tiles: usize) -> u32 {
    3 * 8 * pitch(tiles) + 8
}

/// Dynamic shared memory per block of [`backward_warp`], in bytes, for elements of `element` bytes and `slots` symbols.
#[must_use]
pub const fn warp_shared(tiles: usize, element: usize, slots: usize, wanted: u32) -> usize {
    let chunks = if wanted == want::POSTERIORS { 0 } else { 2 * chunk(tiles) * step_len(tiles) };
    8 * (chunks as usize + 32 * slots) + 2 * stages(tiles) as usize * 8 * 8 * tiles * element
}

/// In place of a symbol: the sequence does not have the step.
const NOTHING: u32 = u32::MAX;

/// Flag beside the symbol of a sequence's last step.
const LAST: u32 = 1 << 31;

/// Elements of a block's part of the counts: Σ ξ without the factor A, N × N; Σ γ₁ and Σ γ_T, N each; Σ γ by symbol,
/// `slots` × N.
#[must_use]
pub const fn counts_len(states: usize, slots: usize) -> usize {
    states * (states + 2 + slots)
}

/// Expected counts, one part per model and block.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `slots` | scalar | 0, or symbols: at least V |
/// | `more` | scalar | 1 or 0 |
/// | `parts` | models × blocks × [`counts_len`] | expected counts |
#[derive(Clone, Copy, Parameter)]
pub struct Counts {
    /// Number of symbols that are counted.
    pub slots: u32,
    /// Whether the kernel adds to the present counts.
    pub more: u32,
    /// The parts.
    pub parts: GlobalMut<f64>,
}

/// N ≤ 8·`TILES`: all steps of 8 sequences in one warp, on tensor cores; further warps sum the counts.
///
/// Results, as `WANT` requests: `gamma[row − base[from]]`, and the block's [part of the counts](Counts).
///
/// Each step of the recursion depends on the previous one, while sums depend on nothing: the first warp hands α̂, û and
/// γ to the others chunk by chunk, and continues while the others sum the previous chunk. The sum over sequences is a
/// product as well, ξ += α̂ᵀ û, with the sequences as inner dimension. Sums of γ by symbol go to cells of each lane's
/// own; a lane has one state of one of the groups of sequences.
///
/// All warps run the same loop over chunks, each in its role, and meet at the barrier
/// at its end; the recursion keeps A, û and two prefetch queues in registers throughout.
///
/// - *Thread mapping*: the first warp as in [`forward_warp`](super::forward::forward_warp); the second has the same 8
///   sequences; the last has a lane per state, in 4/`TILES` groups of sequences.
/// - *Shared memory*: [`warp_shared`], dynamic.
/// - *Barriers*: one per chunk of 4 steps (2 steps with four tiles) if counts are requested.
/// - *Deterministic*: yes, for a fixed grid. *Valid result in*: the results above.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `window` | [`Window`] | |
/// | `model` | [`Model`], stride 8·`TILES` | as in the forward recursion |
/// | `forward` | [`Forward`], stride 8·`TILES` | results for the same window |
/// | `carry` | models × M × stride | û of step `until` of longer sequences |
/// | `gamma` | models × `window.capacity` × stride if `WANT` ≠ 1; else any length | γ |
/// | `counts` | [`Counts`] if `WANT` ≠ 0 | `slots` ≤ the `slots` of [`warp_shared`] |
#[kernel(
    T = [f32, f64], TILES = [1, 2, 4], WANT = [0, 1, 2],
    requires(
        model.holds(shape.grid.y, 8 * TILES),
        forward.holds(shape.grid.y, window.capacity, 8 * TILES, sequences.rows, sequences.count),
        carry.len() >= shape.grid.y * sequences.count * 8 * TILES,
        if WANT != 1 { gamma.len() >= shape.grid.y * window.capacity * 8 * TILES },
        if WANT != 0 { counts.parts.len() >= shape.grid * counts_len(8 * TILES, counts.slots as usize) },
        shape.block == warp_threads(TILES, WANT),
        shape.shared >= warp_shared(TILES, size_of::<T>(), counts.slots as usize, WANT),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn backward_warp<T: Real, const TILES: usize, const WANT: u32>(
    sequences: Sequences,
    window: Window,
    model: Model<T>,
    forward: Forward<T>,
    carry: GlobalMut<T>,
    gamma: GlobalMut<T>,
    counts: Counts,
) {
    let Sequences { count: sequences, rows, lengths, base, symbol } = sequences;
    let Window { from, until, capacity: window } = window;
    let Model { symbols, transitions, table, end, .. } = model;
    let Forward { alpha, exponents, likelihoods } = forward;
    let Counts { slots, more, parts } = counts;
    let (states, model) = (8 * TILES, thread::block_idx_y() as usize);
    let (g, t) = (warp::lane_id() / 4, warp::lane_id() % 4);
    let (chunk, stages) = (chunk(TILES), stages(TILES));
    let counted = WANT != want::POSTERIORS;
    // The role of this warp.
    let role = warp::warp_role();
    let (recursive, pairing, summing) = (role == 0, role == 1, role == warps(TILES) - 1);
    let memory = shared::dynamic_shared_mem::<f64>();
    let (chunks, memory) = memory.split(if counted { 2 * chunk * step_len(TILES) } else { 0 });
    let (cells, memory) = memory.split(32 * slots);
    let (ring, emitted) = memory.cast::<T>().split(stages * 8 * states as u32);
    let handed = Handed::<TILES>(chunks);

    // Registers of a warp: A in the first, Σ ξ in the second.
    let mut kept = if recursive {
        factor::<T, TILES>(transitions, model * states * states, 1, states)
    } else {
        [[[0.0; 2]; TILES]; TILES]
    };
    let table = table.skip(model * symbols as usize * states);
    let end = part::<T, TILES>(end, model);
    let origin = base.get(from);
    let mut sums = Sums { starts: 0.0, ends: 0.0 };
    if WANT == want::COUNTS && summing && !recursive {
        let mut v = 0;
        while v < slots {
            cells.set(32 * v + warp::lane_id(), 0.0);
            v += 1;
        }
    }

    let mut first = 8 * thread::block_idx_x();
    while first < sequences {
        let longest = lengths.get(first);
        let there = first + g < sequences;
        let m = if there { first + g } else { first };
        let length = if there { lengths.get(m) } else { 0 };
        let place = model * sequences as usize + m as usize;
        let likelihood = likelihoods.get(2 * place);
        let inverse = if likelihood > 0.0 { 1.0 / likelihood } else { 0.0 };
        // û of the succeeding step.
        let mut u = [[0.0; 2]; TILES];
        if length > until {
            u = carried::<T, TILES>(carry, place);
        }

        let row_of = |step: u32| base.get(step) + m;
        let load = |step: u32| if step < length { symbol.get(row_of(step)) } else { 0 };
        let load_exponent = |step: u32| {
            if step < length { exponents.get(model * rows as usize + row_of(step) as usize) as u32 } else { 0 }
        };
        let slot_of = |step: u32| (step % stages * 8 + g) * states as u32 + 2 * TILES as u32 * t;
        // Each lane copies the elements that it reads.
        let stage = |step: u32, row: u32, v: u32| {
            if step < length {
                let row = model * window as usize + (row - origin) as usize;
                for n in 0..TILES as u32 {
                    let (slot, place) = (slot_of(step) + 2 * n, (2 * TILES as u32 * t + 2 * n) as usize);
                    ring.copy::<2>(slot, alpha, row * states + place);
                    emitted.copy::<2>(slot, table, v as usize * states + place);
                }
            }
        };
        // If the window reaches none of the 8 sequences, there are no chunks.
        let stop = longest.min(until);
        let last = stop.saturating_sub(1);
        let chunks = if stop > from { last / chunk - from / chunk + 1 } else { 0 };
        // Steps of a chunk, latest chunk first: first step, and first step behind.
        let range = |done: u32| {
            let low = (last / chunk - done) * chunk;
            (from.max(low), stop.min(low + chunk))
        };
        let mut symbols_ahead = Ahead::<4>::new(last, false, load);
        let mut exponents_ahead = Ahead::<4>::new(last, false, load_exponent);
        if recursive {
            let mut k = 1;
            while k < stages {
                let step = stop.saturating_sub(k);
                let v = symbols_ahead.away(step, last / 4 - step / 4);
                if stop >= from + k {
                    stage(step, row_of(step), v);
                }
                copy::commit();
                k += 1;
            }
        }
        // The previous iteration, or an earlier one, issues all loads of a step.
        let coming = |step: u32| step.saturating_sub(stages - 1).max(from);
        let mut row_coming = row_of(coming(last));
        let mut e = exponents_ahead.get(last);
        let mut done = 0;
        while done < chunks + u32::from(counted) {
            if recursive && done < chunks {
                let (low, mut step) = range(done);
                let symbols_beyond = Ahead::<4>::beyond(low, false, load);
                let exponents_beyond = Ahead::<4>::beyond(low, false, load_exponent);
                while step > low {
                    step -= 1;
                    // All rows but the latest `stages − 2` have arrived.
                    if TILES < 4 {
                        copy::wait::<6>();
                    } else {
                        copy::wait::<2>();
                    }
                    let row = row_of(step);
                    let v = symbols_ahead.get(step);
                    let v_coming = symbols_ahead.away(coming(step), stages / 4 - u32::from(step % 4 == 3));
                    let mut beta = multiply(u, &kept);
                    let (alive, is_last) = (step < length, step + 1 == length);
                    if is_last {
                        beta = end.map(|pair| pair.map(|x| x * inverse));
                    }
                    let (mut alpha_now, mut b) = ([[0.0; 2]; TILES], [[0.0; 2]; TILES]);
                    if alive {
                        for n in 0..TILES {
                            let at = slot_of(step) + 2 * n as u32;
                            alpha_now[n] = ring.get2_at(at).map(T::to_f64);
                            b[n] = emitted.get2_at(at).map(T::to_f64);
                        }
                    }
                    if step >= from + stages - 1 {
                        stage(coming(step), row_coming, v_coming);
                    }
                    copy::commit();

                    let factor = f64::from_bits(u64::from(1023_u32.wrapping_sub(e)) << 52);
                    let mut gamma_now = [[0.0; 2]; TILES];
                    for n in 0..TILES {
                        for c in 0..2 {
                            let x = alpha_now[n][c];
                            let lives = alive && high(x) > 0;
                            gamma_now[n][c] = if lives { x * beta[n][c] } else { 0.0 };
                            if counted {
                                let at = g * pitch(TILES) + 2 * TILES as u32 * t + 2 * n as u32 + c as u32;
                                handed.tile(step, ALPHA).set(at, x);
                                handed.tile(step, BEHIND).set(at, u[n][c]);
                                handed.tile(step, GAMMA).set(at, gamma_now[n][c]);
                            }
                            u[n][c] = if lives { stored::<T>(beta[n][c] * (b[n][c] * factor)) } else { 0.0 };
                        }
                    }
                    if counted && t == 0 {
                        let symbol = if slots > 0 { v } else { 0 };
                        handed.observed(step).set(
                            g,
                            if !alive {
                                NOTHING
                            } else if is_last {
                                symbol | LAST
                            } else {
                                symbol
                            },
                        );
                    }
                    row_coming = row_of(coming(step.saturating_sub(1)));
                    e = exponents_ahead.peek(step.wrapping_sub(1), false);
                    if WANT != want::COUNTS && alive {
                        let row = model * window as usize + (row - origin) as usize;
                        set_part::<T, TILES>(gamma, row, gamma_now);
                    }
                }
                // Chunks of two steps: two of them share a block of the queues.
                if TILES < 4 || low % 4 == 0 {
                    symbols_ahead.turn(symbols_beyond);
                    exponents_ahead.turn(exponents_beyond);
                }
            } else if !recursive && done > 0 {
                let (low, mut step) = range(done - 1);
                while step > low {
                    step -= 1;
                    if pairing {
                        handed.add_pairs(step, &mut kept);
                    }
                    if summing {
                        handed.add_gammas::<WANT>(step, cells, &mut sums);
                    }
                }
            }
            if counted {
                thread::sync_threads();
            }
            done += 1;
        }
        if recursive && from > 0 && length > from {
            set_part::<T, TILES>(carry, place, u);
        }
        first += 8 * thread::grid_dim_x();
    }

    if counted {
        let block = model * thread::grid_dim_x() as usize + thread::block_idx_x() as usize;
        let part = CountsPart { first: block * counts_len(states, slots as usize), more, parts };
        if pairing {
            part.put_pairs(&kept);
        }
        if summing && !recursive {
            part.put_sums::<TILES>(sums, slots, cells);
        }
    }
}

/// Tiles of a step of 8 sequences: α̂, û of the succeeding step, γ; and their symbols.
const ALPHA: u32 = 0;
const BEHIND: u32 = 1;
const GAMMA: u32 = 2;
const OBSERVED: u32 = 3;

/// The data that the first warp of [`backward_warp`] hands to the others, in shared memory: the tiles of the steps of
/// two chunks.
#[derive(Clone, Copy)]
struct Handed<const TILES: usize>(shared::Shared<f64>);

impl<const TILES: usize> Handed<TILES> {
    /// A tile of a step.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn tile(self, step: u32, which: u32) -> shared::Shared<f64> {
        let first = step % (2 * chunk(TILES)) * step_len(TILES);
        self.0.split(first).1.split(which * 8 * pitch(TILES)).1
    }

    /// Symbols of a step.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn observed(self, step: u32) -> shared::Shared<u32> {
        self.tile(step, OBSERVED).cast::<u32>()
    }

    /// Adds α̂ᵀ û of a step, summed over its 8 sequences: Σ ξ without the factor A.
    ///
    /// *Takes part*: a whole warp.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn add_pairs(self, step: u32, pairs: &mut Factor<TILES>) {
        let (g, t) = (warp::lane_id() / 4, warp::lane_id() % 4);
        for half in 0..2 {
            let (mut left, mut right) = ([0.0; TILES], [0.0; TILES]);
            for n in 0..TILES {
                let at = (4 * half + t) * pitch(TILES) + 8 * n as u32 + g;
                left[n] = self.tile(step, ALPHA).get(at);
                right[n] = self.tile(step, BEHIND).get(at);
            }
            for i in 0..TILES {
                for j in 0..TILES {
                    pairs[i][j] = mma::f64_8x8x4(left[i], right[j], pairs[i][j]);
                }
            }
        }
    }

    /// Adds γ of a step to the sums of this lane's state and, by symbol, to its cells.
    ///
    /// *Takes part*: a whole warp.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn add_gammas<const WANT: u32>(self, step: u32, cells: shared::Shared<f64>, sums: &mut Sums) {
        let Lane { groups, of_group, state } = Lane::of::<TILES>();
        // Issue all loads before the first use.
        let mut all = [[(0.0, NOTHING); 2]; TILES];
        for n in 0..TILES {
            for c in 0..2 {
                let row = (2 * n + c) as u32 * groups + of_group;
                all[n][c] = (self.tile(step, GAMMA).get(row * pitch(TILES) + state), self.observed(step).get(row));
            }
        }
        for n in 0..TILES {
            for c in 0..2 {
                let (x, v) = all[n][c];
                sums.starts += if step == 0 { x } else { 0.0 };
                sums.ends += if v != NOTHING && v & LAST != 0 { x } else { 0.0 };
                if WANT == want::COUNTS && v != NOTHING {
                    let at = 32 * (v & !LAST) + warp::lane_id();
                    cells.set(at, cells.get(at) + x);
                }
            }
        }
    }
}

/// The share of a lane of the last warp of [`backward_warp`]: one state, of every `groups`-th sequence.
struct Lane {
    groups: u32,
    of_group: u32,
    state: u32,
}

impl Lane {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of<const TILES: usize>() -> Self {
        let (states, lane) = (8 * TILES as u32, warp::lane_id());
        Self { groups: warp::SIZE / states, of_group: lane / states, state: lane % states }
    }
}

/// Σ γ₁ and Σ γ_T over a lane's state and sequences.
#[derive(Clone, Copy)]
struct Sums {
    starts: f64,
    ends: f64,
}

/// A block's part of the counts.
#[derive(Clone, Copy)]
struct CountsPart {
    first: usize,
    more: u32,
    parts: GlobalMut<f64>,
}

impl CountsPart {
    /// Stores an element, or adds it to the present one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn put(self, at: usize, x: f64) {
        let before = if self.more != 0 { self.parts.get(self.first + at) } else { 0.0 };
        self.parts.set(self.first + at, before + x);
    }

    /// Stores the sums of [`add_pairs`](Handed::add_pairs).
    ///
    /// *Takes part*: a whole warp.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn put_pairs<const TILES: usize>(self, pairs: &Factor<TILES>) {
        let (g, t) = ((warp::lane_id() / 4) as usize, (warp::lane_id() % 4) as usize);
        for i in 0..TILES {
            for j in 0..TILES {
                for c in 0..2 {
                    self.put((8 * i + g) * 8 * TILES + 8 * j + 2 * t + c, pairs[i][j][c]);
                }
            }
        }
    }

    /// Stores the sums of [`add_gammas`](Handed::add_gammas): starts, ends, and `slots` symbols.
    ///
    /// *Takes part*: a whole warp.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn put_sums<const TILES: usize>(self, sums: Sums, slots: u32, cells: shared::Shared<f64>) {
        let (states, Lane { of_group, state, .. }) = (8 * TILES, Lane::of::<TILES>());
        let put_row = |row: usize, x: f64| {
            // Sum of a state over the groups of sequences.
            let mut sum = x;
            let mut mask = states as u32;
            while mask < warp::SIZE {
                sum += warp::shuffle_xor(warp::FULL, sum, mask);
                mask *= 2;
            }
            if of_group == 0 {
                self.put(row * states + state as usize, sum);
            }
        };
        put_row(states, sums.starts);
        put_row(states + 1, sums.ends);
        let mut v = 0;
        while v < slots {
            put_row(states + 2 + v as usize, cells.get(32 * v + warp::lane_id()));
            v += 1;
        }
    }
}

/// N ≤ 4·`PER`: all steps of one sequence in one block, with A distributed over the registers of its threads.
///
/// Results: `gamma[row − base[from]]`; and if `PAIRS`, at the same place of `pairs`, û of the succeeding step, or 0 at
/// the last step. Σ ξ is then [a product](super::counts) over all rows of α̂ and `pairs`.
///
/// - *Thread mapping*: as [`forward_block`](super::forward::forward_block).
/// - *Shared memory*: 1280 words, static: two rows of f64, and eight rows of α̂. *Barriers*: one per step, and one.
/// - *Deterministic*: yes. *Valid result in*: `gamma`, `pairs` and `carry`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `sequences` | [`Sequences`] | |
/// | `window` | [`Window`] | |
/// | `model` | [`Model`], stride 4·`PER` | as in the forward recursion |
/// | `forward` | [`Forward`], stride 4·`PER` | results for the same window |
/// | `carry` | models × M × stride | û of step `until` of longer sequences |
/// | `gamma` | models × `window.capacity` × stride | γ |
/// | `pairs` | models × `window.capacity` × stride if `PAIRS`; else any length | û |
#[kernel(
    T = [f32, f64], PER = [16, 32], PAIRS = [false, true],
    requires(
        model.holds(shape.grid.y, 4 * PER),
        forward.holds(shape.grid.y, window.capacity, 4 * PER, sequences.rows, sequences.count),
        carry.len() >= shape.grid.y * sequences.count * 4 * PER,
        gamma.len() >= shape.grid.y * window.capacity * 4 * PER,
        if PAIRS { pairs.len() >= shape.grid.y * window.capacity * 4 * PER },
        shape.grid.x == sequences.count,
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    ),
    block = 16 * PER
)]
pub fn backward_block<T: Real, const PER: usize, const PAIRS: bool>(
    sequences: Sequences,
    window: Window,
    model: Model<T>,
    forward: Forward<T>,
    carry: GlobalMut<T>,
    gamma: GlobalMut<T>,
    pairs: GlobalMut<T>,
) {
    let Sequences { count: sequences, rows, lengths, base, symbol } = sequences;
    let Window { from, until, capacity: window } = window;
    let Model { symbols, transitions, table, end, .. } = model;
    let Forward { alpha, exponents, likelihoods } = forward;
    let memory = warpkov_device::shared_array!(backward_rows: f64; 256);
    let ring = warpkov_device::shared_array!(backward_ring: T; 1024);
    let (states, model) = (4 * PER, thread::block_idx_y() as usize);
    let m = thread::block_idx_x();
    let length = lengths.get(m);
    if length <= from {
        return;
    }
    let (i, p) = ((thread::thread_idx_x() / 4) as usize, thread::thread_idx_x() % 4);
    let a = sixteenth::<T, PER>(transitions, model * states * states, 1, states);
    let place = model * sequences as usize + m as usize;
    let origin = base.get(from);
    let half_of = |half: u32| memory.split(half * states as u32).1.split(states as u32).0;
    let likelihood = likelihoods.get(2 * place);
    let inverse = if likelihood > 0.0 { 1.0 / likelihood } else { 0.0 };

    let row_of = |step: u32| base.get(step) + m;
    let at = |row: u32| (model * window as usize + (row - origin) as usize) * states + i;
    let load = |step: u32| if step < length { symbol.get(row_of(step)) } else { 0 };
    let load_exponent = |step: u32| {
        if step < length { exponents.get(model * rows as usize + row_of(step) as usize) as u32 } else { 0 }
    };
    let emission = |v: u32| table.get((model * symbols as usize + v as usize) * states + i).to_f64();
    // The first lane of each four copies the element that it reads.
    let stage = |step: u32| {
        if p == 0 {
            ring.copy::<1>(step % STAGES * states as u32 + i as u32, alpha, at(row_of(step)));
        }
    };
    let stop = length.min(until);
    let mut k = 1;
    while k < STAGES {
        if stop >= from + k {
            stage(stop - k);
        }
        copy::commit();
        k += 1;
    }
    let mut symbols_ahead = Ahead::<32>::new(stop - 1, false, load);
    let mut exponents_ahead = Ahead::<32>::new(stop - 1, false, load_exponent);
    let mut next_b = emission(symbols_ahead.get(stop - 1));
    let mut half = 0;
    if length > until {
        if p == 0 {
            let u = carry.get(place * states + i);
            half_of(half).set(i as u32, u.to_f64());
            if PAIRS {
                pairs.set(at(row_of(stop - 1)), u);
            }
        }
        thread::sync_threads();
    } else if PAIRS && p == 0 {
        pairs.set(at(row_of(stop - 1)), T::ZERO);
    }
    let mut step = stop;
    while step > from {
        step -= 1;
        copy::wait::<{ STAGES - 2 }>();
        let b = next_b;
        let e = exponents_ahead.get(step) as i32;
        if step > from {
            symbols_ahead.go_to(step - 1, false, load);
            exponents_ahead.go_to(step - 1, false, load_exponent);
            next_b = emission(symbols_ahead.get(step - 1));
        }
        let beta =
            if step + 1 == length { end.get(model * states + i).to_f64() * inverse } else { dot(&a, half_of(half)) };
        half ^= 1;
        if p == 0 {
            let x = ring.get(step % STAGES * states as u32 + i as u32).to_f64();
            let lives = high(x) > 0;
            let factor = f64::from_bits(((1023 - e) as u64) << 52);
            let u = if lives { stored::<T>(beta * (b * factor)) } else { 0.0 };
            half_of(half).set(i as u32, u);
            gamma.set(at(row_of(step)), if lives { T::from_f64(x * beta) } else { T::ZERO });
            if PAIRS && step > from {
                pairs.set(at(row_of(step - 1)), T::from_f64(u));
            }
            if step == from && from > 0 {
                carry.set(place * states + i, T::from_f64(u));
            }
        }
        if step >= from + STAGES - 1 {
            stage(step - (STAGES - 1));
        }
        copy::commit();
        thread::sync_threads();
    }
}
