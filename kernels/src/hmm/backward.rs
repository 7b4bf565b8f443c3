//! The backward recursion: β̂_T = end / P̂, ûₜ = b(oₜ) ∘ β̂ₜ · 2^−eₜ where α̂ₜ does not vanish, β̂ₜ₋₁ = A ûₜ, and γₜ = α̂ₜ ∘ β̂ₜ.
//!
//! Steps `until − 1 … from` are one launch, behind the forward recursion of the same window. `carry` holds û of the window's end
//! before the launch, and of its beginning after it.
//!
//! *Bytes*, per row: NS elements of α̂ are read, 8 for symbol and exponent, and NS elements are written for each of γ and û.

use crate::device::{Global, GlobalMut, Real, copy, kernel, mma, shared, thread, warp};
use crate::hmm::forward::{dot, factor, multiply, sixteenth};
use crate::hmm::{Ahead, carried, part, set_part, stored, vanishes};

/// Rows of α̂ that are on their way to shared memory, or there.
const STAGES: u32 = 8;

/// What a backward kernel is asked for.
pub mod want {
    /// γ alone.
    pub const POSTERIORS: u32 = 0;
    /// Expected counts alone.
    pub const COUNTS: u32 = 1;
    /// γ, and expected counts without those of symbols.
    pub const BOTH: u32 = 2;
}

/// The `TILES` of which A and Σ ξ do not fit in the registers together: A is in shared memory then.
const WIDE: usize = 4;

/// From row to row of a tile in shared memory: lanes that read a column of it meet different banks.
const fn pitch(tiles: usize) -> usize {
    8 * tiles + 4
}

/// Shared memory of a block of [`backward_warp`] in bytes, for elements of `element` bytes and `slots` symbols.
#[must_use]
pub const fn warp_shared(tiles: usize, element: usize, slots: usize) -> usize {
    let factor = if tiles == WIDE { 32 * 2 * tiles * tiles } else { 0 };
    let doubles = factor + 8 * slots * 8 * tiles + 2 * 8 * pitch(tiles);
    8 * doubles + STAGES as usize * 8 * 8 * tiles * element
}

/// Elements of a block's part of the counts: Σ ξ without A, N × N; Σ γ₁ and Σ γ_T, N each; Σ γ by symbol, `slots` × N.
#[must_use]
pub const fn counts_len(states: usize, slots: usize) -> usize {
    states * (states + 2 + slots)
}

/// The sum over the 8 rows of a warp.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn over_rows(x: f64) -> f64 {
    let x = x + warp::shuffle_xor(warp::FULL, x, 4);
    let x = x + warp::shuffle_xor(warp::FULL, x, 8);
    x + warp::shuffle_xor(warp::FULL, x, 16)
}

/// N ≤ 8·`TILES`: all steps of 8 sequences in one warp, on tensor cores.
///
/// Results, as `WANT` asks: `gamma[row − base[from]]`; and `parts[block]`, the block's [part of the counts](counts_len), to which it is added
/// where `more` is not 0.
///
/// Sums over sequences are products too, ξ += α̂ᵀ û; their factors have sequences across, for which tiles go through shared memory.
/// Each lane adds γ by symbol to cells of its own.
///
/// *Thread mapping*: that of [`forward_warp`](super::forward::forward_warp). *Shared memory*: [`warp_shared`], dynamic. *Barriers*:
/// none; warps synchronise. *Deterministic*: yes, for one grid. *Safety*: as there; `gamma` has `window` rows for each model if it is
/// asked for; `slots` is V or more, or 0 where counts of symbols are not asked for; `parts` has a part for each model and block.
#[kernel(T = [f32, f64], TILES = [1, 2, 4], WANT = [0, 1, 2])]
pub fn backward_warp<T: Real, const TILES: usize, const WANT: u32>(
    sequences: u32,
    symbols: u32,
    slots: u32,
    from: u32,
    until: u32,
    window: u32,
    rows: u32,
    more: u32,
    lengths: Global<u32>,
    base: Global<u32>,
    symbol: Global<u32>,
    transitions: Global<T>,
    table: Global<T>,
    end: Global<T>,
    likelihoods: Global<f64>,
    alpha: Global<T>,
    exponents: Global<i32>,
    carry: GlobalMut<T>,
    gamma: GlobalMut<T>,
    parts: GlobalMut<f64>,
) {
    let (states, model) = (8 * TILES, thread::block_idx_y() as usize);
    let (g, t) = (warp::lane_id() / 4, warp::lane_id() % 4);
    let pitch = pitch(TILES) as u32;
    let memory = shared::dynamic_shared_mem::<f64>();
    let (factors, memory) = memory.split(if TILES == WIDE { (64 * TILES * TILES) as u32 } else { 0 });
    let (cells, memory) = memory.split(8 * slots * states as u32);
    let (tile_a, memory) = memory.split(8 * pitch);
    let (tile_u, memory) = memory.split(8 * pitch);
    let ring = memory.cast::<T>();
    let cell = |v: u32, n: usize, c: usize| (g * slots + v) * states as u32 + 8 * n as u32 + 2 * t + c as u32;

    let a = factor::<T, TILES>(transitions, model * states * states, 1, states);
    let kept = |n: usize, c: usize, m: usize| ((2 * n + c) * TILES + m) as u32 * warp::SIZE + warp::lane_id();
    let in_registers = TILES != WIDE || WANT == want::POSTERIORS;
    if !in_registers {
        for n in 0..TILES {
            for c in 0..2 {
                for m in 0..TILES {
                    factors.set(kept(n, c, m), a[n][c][m]);
                }
            }
        }
    }
    let end = part::<T, TILES>(end, model * states);
    let origin = base.get(from as usize);
    let mut xi = [[[0.0; 2]; TILES]; TILES];
    let (mut starts, mut ends) = ([[0.0; 2]; TILES], [[0.0; 2]; TILES]);
    if WANT == want::COUNTS {
        let mut v = 0;
        while v < slots {
            for n in 0..TILES {
                for c in 0..2 {
                    cells.set(cell(v, n, c), 0.0);
                }
            }
            v += 1;
        }
    }

    let mut first = 8 * thread::block_idx_x();
    while first < sequences {
        let longest = lengths.get(first as usize);
        let there = first + g < sequences;
        let m = if there { first + g } else { first };
        let length = if there { lengths.get(m as usize) } else { 0 };
        let place = model * sequences as usize + m as usize;
        let likelihood = likelihoods.get(2 * place);
        let inverse = if likelihood > 0.0 { 1.0 / likelihood } else { 0.0 };
        // û of the step behind the present one.
        let mut u = [[0.0; 2]; TILES];
        if length > until {
            u = carried::<T, TILES>(carry, place);
        }

        let row_of = |step: u32| base.get(step as usize) + m;
        let load = |step: u32| if step < length { symbol.get(row_of(step) as usize) } else { 0 };
        let load_exponent = |step: u32| {
            if step < length { exponents.get(model * rows as usize + row_of(step) as usize) as u32 } else { 0 }
        };
        let emission = |v: u32| part::<T, TILES>(table, (model * symbols as usize + v as usize) * states);
        let slot_of = |step: u32| (step % STAGES * 8 + g) * states as u32 + 2 * TILES as u32 * t;
        // Each lane copies what it reads itself.
        let stage = |step: u32| {
            if step < length {
                let row = model * window as usize + (row_of(step) - origin) as usize;
                for n in 0..TILES as u32 {
                    ring.copy::<2>(
                        slot_of(step) + 2 * n,
                        alpha,
                        row * states + (2 * TILES as u32 * t + 2 * n) as usize,
                    );
                }
            }
        };
        let stop = longest.min(until);
        let mut k = 1;
        while k < STAGES {
            if stop >= from + k {
                stage(stop - k);
            }
            copy::commit();
            k += 1;
        }
        // A block of sequences that the window does not reach has nothing to do.
        let mut step = stop;
        if stop > from {
            let mut symbols_ahead = Ahead::<4>::new(stop - 1, false, load);
            let mut exponents_ahead = Ahead::<4>::new(stop - 1, false, load_exponent);
            let mut next = symbols_ahead.get(stop - 1);
            let mut next_b = emission(next);
            while step > from {
                step -= 1;
                copy::wait::<{ STAGES - 2 }>();
                let (v, b) = (next, next_b);
                let e = exponents_ahead.get(step) as i32;
                if step > from {
                    symbols_ahead.go_to(step - 1, false, load);
                    exponents_ahead.go_to(step - 1, false, load_exponent);
                    next = symbols_ahead.get(step - 1);
                    next_b = emission(next);
                }
                let mut beta =
                    multiply(u, |n, c, m| if in_registers { a[n][c][m] } else { factors.get(kept(n, c, m)) });
                if step + 1 == length {
                    beta = end.map(|pair| pair.map(|x| x * inverse));
                }
                let alive = step < length;
                let mut alpha_now = [[0.0; 2]; TILES];
                if alive {
                    for n in 0..TILES {
                        let [x, y] = ring.get2(slot_of(step) + 2 * n as u32);
                        alpha_now[n] = [x.to_f64(), y.to_f64()];
                    }
                }
                if step >= from + STAGES - 1 {
                    stage(step - (STAGES - 1));
                }
                copy::commit();

                if WANT != want::POSTERIORS {
                    warp::sync_warp(warp::FULL);
                    for n in 0..TILES {
                        for c in 0..2 {
                            let at = g * pitch + 8 * n as u32 + 2 * t + c as u32;
                            tile_a.set(at, alpha_now[n][c]);
                            tile_u.set(at, u[n][c]);
                        }
                    }
                    warp::sync_warp(warp::FULL);
                    for half in 0..2 {
                        let (mut left, mut right) = ([0.0; TILES], [0.0; TILES]);
                        for n in 0..TILES {
                            let at = (4 * half + t) * pitch + 8 * n as u32 + g;
                            left[n] = tile_a.get(at);
                            right[n] = tile_u.get(at);
                        }
                        for i in 0..TILES {
                            for j in 0..TILES {
                                xi[i][j] = mma::f64_8x8x4(left[i], right[j], xi[i][j]);
                            }
                        }
                    }
                }

                let mut gamma_now = [[0.0; 2]; TILES];
                let factor = f64::from_bits(((1023 - e) as u64) << 52);
                for n in 0..TILES {
                    for c in 0..2 {
                        let x = alpha_now[n][c];
                        let lives = alive && !vanishes::<T>(x);
                        gamma_now[n][c] = if lives { x * beta[n][c] } else { 0.0 };
                        u[n][c] = if lives { stored::<T>(beta[n][c] * (b[n][c] * factor)) } else { 0.0 };
                    }
                }
                if WANT != want::COUNTS && alive {
                    let row = model * window as usize + (row_of(step) - origin) as usize;
                    set_part::<T, TILES>(gamma, row * states, gamma_now);
                }
                if WANT == want::COUNTS && slots > 0 {
                    for n in 0..TILES {
                        for c in 0..2 {
                            let at = cell(v, n, c);
                            cells.set(at, cells.get(at) + gamma_now[n][c]);
                        }
                    }
                }
                if WANT != want::POSTERIORS {
                    for n in 0..TILES {
                        for c in 0..2 {
                            starts[n][c] += if step == 0 { gamma_now[n][c] } else { 0.0 };
                            ends[n][c] += if step + 1 == length { gamma_now[n][c] } else { 0.0 };
                        }
                    }
                }
            }
            if from > 0 && length > from {
                set_part::<T, TILES>(carry, place * states, u);
            }
        }
        first += 8 * thread::grid_dim_x();
    }

    if WANT != want::POSTERIORS {
        let block = model * thread::grid_dim_x() as usize + thread::block_idx_x() as usize;
        let counts = block * counts_len(states, slots as usize);
        let put = |at: usize, x: f64| {
            let before = if more != 0 { parts.get(counts + at) } else { 0.0 };
            parts.set(counts + at, before + x);
        };
        let state = |place: usize, n: usize| 2 * TILES * (place / 2) + 2 * n + place % 2;
        for i in 0..TILES {
            for j in 0..TILES {
                for c in 0..2 {
                    put(state(g as usize, i) * states + state(2 * t as usize + c, j), xi[i][j][c]);
                }
            }
        }
        each!(N < TILES, {
            let first = [over_rows(starts[N][0]), over_rows(starts[N][1])];
            let last = [over_rows(ends[N][0]), over_rows(ends[N][1])];
            if g == 0 {
                for c in 0..2 {
                    put(states * states + state(2 * t as usize + c, N), first[c]);
                    put(states * (states + 1) + state(2 * t as usize + c, N), last[c]);
                }
            }
        });
        if WANT == want::COUNTS {
            warp::sync_warp(warp::FULL);
            let mut at = warp::lane_id();
            while at < slots * states as u32 {
                let mut sum = 0.0;
                for group in 0..8 {
                    sum += cells.get(group * slots * states as u32 + at);
                }
                let (v, q) = ((at / states as u32) as usize, (at % states as u32) as usize);
                put(states * (states + 2 + v) + state(q % 8, q / 8), sum);
                at += warp::SIZE;
            }
        }
    }
}

/// N ≤ 4·`PER`: all steps of one sequence in one block, with A spread over the registers of its threads.
///
/// Results: `gamma[row − base[from]]`, and where `PAIRS` as `pairs` in the same place the û of the step behind, or 0 behind the last one: then
/// Σ ξ is [a product](super::counts) over all rows of α̂ and of `pairs`.
///
/// *Thread mapping*: that of [`forward_block`](super::forward::forward_block). *Shared memory*: two rows of f64, and eight rows of α̂,
/// static. *Barriers*: one per step. *Deterministic*: yes. *Safety*: as there; `gamma` and, where asked for, `pairs` have `window`
/// rows for each model.
#[kernel(T = [f32, f64], PER = [16, 32], PAIRS = [false, true])]
pub fn backward_block<T: Real, const PER: usize, const PAIRS: bool>(
    sequences: u32,
    symbols: u32,
    from: u32,
    until: u32,
    window: u32,
    rows: u32,
    lengths: Global<u32>,
    base: Global<u32>,
    symbol: Global<u32>,
    transitions: Global<T>,
    table: Global<T>,
    end: Global<T>,
    likelihoods: Global<f64>,
    alpha: Global<T>,
    exponents: Global<i32>,
    carry: GlobalMut<T>,
    gamma: GlobalMut<T>,
    pairs: GlobalMut<T>,
) {
    let memory = crate::shared_array!(backward_rows: f64; 256);
    let ring = crate::shared_array!(backward_ring: T; 1024);
    let (states, model) = (4 * PER, thread::block_idx_y() as usize);
    let m = thread::block_idx_x();
    let length = lengths.get(m as usize);
    if length <= from {
        return;
    }
    let (i, p) = ((thread::thread_idx_x() / 4) as usize, thread::thread_idx_x() % 4);
    let a = sixteenth::<T, PER>(transitions, model * states * states, 1, states);
    let place = model * sequences as usize + m as usize;
    let origin = base.get(from as usize);
    let half_of = |half: u32| memory.split(half * states as u32).1.split(states as u32).0;
    let likelihood = likelihoods.get(2 * place);
    let inverse = if likelihood > 0.0 { 1.0 / likelihood } else { 0.0 };

    let row_of = |step: u32| base.get(step as usize) + m;
    let at = |row: u32| (model * window as usize + (row - origin) as usize) * states + i;
    let load = |step: u32| if step < length { symbol.get(row_of(step) as usize) } else { 0 };
    let load_exponent = |step: u32| {
        if step < length { exponents.get(model * rows as usize + row_of(step) as usize) as u32 } else { 0 }
    };
    let emission = |v: u32| table.get((model * symbols as usize + v as usize) * states + i).to_f64();
    // The first lane of each four copies what it reads itself.
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
            let lives = !vanishes::<T>(x);
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
