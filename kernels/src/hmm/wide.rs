//! The recursions with unlimited exponent range, for sequences that are [in doubt](super) elsewhere.
//!
//! *Mathematics*: every number is m · 2ᵉ with 1 ≤ m < 2. The exponent e is an integer stored as an f64, so that nothing
//! overflows or underflows, not even a density of e^−10³⁰⁰. Zero is 0 · 2^−∞. In memory a number is the pair m, e.
//! Nothing is scaled, hence
//!
//! > αₜ(j) = bⱼ(oₜ) Σᵢ αₜ₋₁(i) Aᵢⱼ,  wₜ(j) = bⱼ(oₜ) βₜ(j),  βₜ(i) = Σⱼ Aᵢⱼ wₜ₊₁(j),  P(O) = Σᵢ αₜ(i) βₜ(i) at any t
//!
//! A sum uses the largest exponent of its terms, so the terms that it drops are below 2⁻¹⁰⁰⁰ of the sum. γₜ and ξₜ are
//! divided by the sum at t, so that they sum to 1 whatever was rounded before.
//!
//! The matrix of a model holds its nonzero entries only: a left-right model has two per state, and a step costs
//! accordingly.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, Shared, kernel, math, shared, thread, warp};

use crate::hmm::gaussian::{Densities, Gaussians, moment, moments_len};
use crate::hmm::{Ahead, power};

/// Maximum number of states, set by the shared memory of a block.
pub const STATES: u32 = 1024;

/// Threads per block for a number of states.
#[must_use]
pub const fn threads(states: u32) -> u32 {
    let all = states.next_multiple_of(32);
    if all < 256 { all } else { 256 }
}

/// Dynamic shared memory per block, in bytes.
#[must_use]
pub const fn wide_shared(states: u32) -> u32 {
    ROWS * 2 * 8 * states
}

/// Rows in shared memory: two of α, two of w, one of γ.
const ROWS: u32 = 5;

/// Requested results beside ln P(O).
pub mod wanted {
    /// None.
    pub const NOTHING: u32 = 0;
    /// γ.
    pub const POSTERIORS: u32 = 1;
    /// Expected counts.
    pub const COUNTS: u32 = 2;
}

/// Numbers per sequence that locate its data.
pub const PLACES: usize = 5;

/// Exponents of at least this size leave no digits to compare mantissas.
const DIGITS: f64 = power(40);

/// Counts of a block: Σ ξ of the entries of A, `width` per state; starts and ends, one per state each; and `emitted`
/// symbols or moments per state.
#[must_use]
pub const fn counts_len(states: usize, width: usize, emitted: usize) -> usize {
    (width + 2 + emitted) * states
}

/// The pair m, e of a number ≥ 0.
#[must_use]
pub fn pair(x: f64) -> [f64; 2] {
    let x = if x < power(-1022) { Number::normal(x * power(100), -100.0) } else { Number::normal(x, 0.0) };
    [x.m, x.e]
}

/// 1.5 · 2⁵², whose last bit has the value 1: adding it rounds to an integer.
const WHOLE: f64 = 1.5 * power(52);

/// 2ᵏ of an integer k < 1024; 0 for k < −1022 and for NaN.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn pow2(k: f64) -> f64 {
    let low = (k.max(-1023.0) + (WHOLE + 1023.0)).to_bits() as u32;
    f64::from_bits(u64::from(low) << 52)
}

/// m · 2ᵉ.
#[derive(Clone, Copy)]
struct Number {
    m: f64,
    e: f64,
}

impl Number {
    const ZERO: Self = Self { m: 0.0, e: f64::NEG_INFINITY };

    /// m · 2ᵉ for a normal m > 0, or 0.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn normal(m: f64, e: f64) -> Self {
        const FRACTION: u64 = (1 << 52) - 1;
        if m > 0.0 {
            let bits = m.to_bits();
            let exponent = (bits >> 52) as i32 - 1023;
            Self { m: f64::from_bits(bits & FRACTION | 1.0_f64.to_bits()), e: e + f64::from(exponent) }
        } else {
            Self::ZERO
        }
    }

    /// eˣ of a finite x; 0 for NaN and ±∞.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn exp(x: f64) -> Self {
        // ln 2 as a sum of two numbers, the first with 33 bits.
        const HIGH: f64 = 0.693_147_180_369_123_8;
        const LOW: f64 = 1.908_214_929_270_587_7e-10;
        let e = x * core::f64::consts::LOG2_E;
        let size = if e < 0.0 { -e } else { e };
        // From 2⁵² on, e is an integer already.
        let e = if size < power(52) { (e + WHOLE) - WHOLE } else { e };
        let rest = if size < power(20) {
            math::fma(-e, LOW, math::fma(-e, HIGH, x))
        } else {
            // No digits are left after the binary point.
            math::fma(-e, core::f64::consts::LN_2, x).clamp(-1.0, 1.0)
        };
        if size < f64::INFINITY { Self::normal(math::exp(rest), e) } else { Self::ZERO }
    }

    /// The product.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn times(self, other: Self) -> Self {
        // Both are below 2.
        let (m, e) = (self.m * other.m, self.e + other.e);
        if m >= 2.0 { Self { m: 0.5 * m, e: e + 1.0 } } else { Self { m, e } }
    }

    /// The sum, with m not reduced below 2: a chain of sums needs no normalisation in between.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn plus(self, other: Self) -> Self {
        let e = self.e.max(other.e);
        Self { m: self.m * pow2(self.e - e) + other.m * pow2(other.e - e), e }
    }

    /// self / other; 0 if the quotient is subnormal or other is 0.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn over(self, other: Self) -> f64 {
        if other.m > 0.0 { self.m / other.m * pow2((self.e - other.e).min(1000.0)) } else { 0.0 }
    }

    /// Whether both numbers are equal up to the rounding of a whole sequence; true if the exponent leaves no digits to
    /// compare.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn agrees(self, other: Self) -> bool {
        let off = self.over(other) - 1.0;
        self.e >= DIGITS || self.e <= -DIGITS || off < 1e-3 && off > -1e-3
    }

    /// Loads number `at` from read-only memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn of(view: Global<f64>, at: usize) -> Self {
        Self { m: view.get(2 * at), e: view.get(2 * at + 1) }
    }

    /// Loads number `at` from writable memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn kept(view: GlobalMut<f64>, at: usize) -> Self {
        Self { m: view.get(2 * at), e: view.get(2 * at + 1) }
    }

    /// Stores number `at`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn keep(self, view: GlobalMut<f64>, at: usize) {
        view.set(2 * at, self.m);
        view.set(2 * at + 1, self.e);
    }

    /// Loads number `j` from shared memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn shared(row: Shared<f64>, j: u32) -> Self {
        let [m, e] = row.get2(j);
        Self { m, e }
    }

    /// Stores number `j` to shared memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn share(self, row: Shared<f64>, j: u32) {
        row.set(2 * j, self.m);
        row.set(2 * j + 1, self.e);
    }

    /// Σ over the threads of the block.
    ///
    /// *Takes part*: every thread, in blocks of whole warps. *Valid result in*: every thread. *Shared memory*: 64
    /// words. *Barriers*: two, or none in a block of one warp. *Deterministic*: yes, the tree is fixed.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn total(self) -> Self {
        let partial = warpkov_device::shared_array!(wide_partial: f64; 64);
        let mut sum = self;
        let mut distance = 16;
        while distance > 0 {
            let m = warp::shuffle_xor(warp::FULL, sum.m, distance);
            let e = warp::shuffle_xor(warp::FULL, sum.e, distance);
            sum = sum.plus(Self { m, e });
            distance /= 2;
        }
        let warps = thread::block_dim_x() / warp::SIZE;
        if warps > 1 {
            if warp::lane_id() == 0 {
                sum.share(partial, warp::warp_id());
            }
            thread::sync_threads();
            sum = Self::shared(partial, 0);
            let mut other = 1;
            while other < warps {
                sum = sum.plus(Self::shared(partial, other));
                other += 1;
            }
            thread::sync_threads();
        }
        Self::normal(sum.m, sum.e)
    }
}

/// The nonzero entries of a matrix by rows or by columns: `width` entries per sum, padded with zeros. The k-th entries
/// of all sums are contiguous.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `width` | scalar | entries per sum |
/// | `index` | `width` × N | states, below N |
/// | `values` | `width` × N × 2 | probability, as m and e |
#[derive(Clone, Copy, Parameter)]
#[parameter(
    holds(models, states),
    requires(
        index.len() >= models * width * states,
        values.len() >= 2 * models * width * states,
    )
)]
pub struct Terms {
    /// Entries per sum.
    pub width: u32,
    /// The other state of each entry.
    pub index: Global<u32>,
    /// Value of each entry.
    pub values: Global<f64>,
}

/// Models with unlimited exponent range, as pairs m and e.
///
/// | field | shape per model | range or unit |
/// | --- | --- | --- |
/// | `states`, `symbols` | scalar | N ≤ [`STATES`], V |
/// | `start`, `end` | N × 2 | probability |
/// | `table` | V × N × 2 | probability |
/// | `into` | [`Terms`] | for each j the i with Aᵢⱼ > 0 |
/// | `onward` | [`Terms`] | for each i the j with Aᵢⱼ > 0 |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(states <= STATES))]
#[parameter(
    holds(models),
    requires(
        start.len() >= 2 * models * states,
        end.len() >= 2 * models * states,
        table.len() >= 2 * models * symbols * states,
        into.holds(models, states),
    )
)]
pub struct WideModel {
    /// N.
    pub states: u32,
    /// Rows of the emission table.
    pub symbols: u32,
    /// π.
    pub start: Global<f64>,
    /// Probability of the end after each state.
    pub end: Global<f64>,
    /// bⱼ(v).
    pub table: Global<f64>,
    /// A by columns.
    pub into: Terms,
    /// A by rows; empty if only P(O) is wanted.
    pub onward: Terms,
}

/// Sequences in doubt, and the location of their observations.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `until` | scalar | steps per chunk, ≥ 1 |
/// | `first` | models + 1 | sequences, ascending |
/// | `models` | models | models of normal densities |
/// | `places` | sequences × [`PLACES`] | see [`take_again`] |
/// | `chain` | chunks | chunks |
/// | `base` | steps + 1 | rows, ascending |
/// | `symbol` | rows | rows of the emission table, or of x |
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(until >= 1))]
#[parameter(holds(count), requires(first.len() >= count + 1, models.len() >= count))]
pub struct Doubtful {
    /// Steps per chunk.
    pub until: u32,
    /// First sequence of each model, and the number of sequences.
    pub first: Global<u32>,
    /// Model of normal densities of each model.
    pub models: Global<u32>,
    /// Location of each sequence's data.
    pub places: Global<u32>,
    /// The chunks of one sequence after another.
    pub chain: Global<u32>,
    /// First row of each step.
    pub base: Global<u32>,
    /// Observation of each row.
    pub symbol: Global<u32>,
}

/// [`Terms`] of one model.
#[derive(Clone, Copy)]
struct Sparse {
    /// First entry of this model.
    first: usize,
    states: usize,
    width: u32,
    index: Global<u32>,
    values: Global<f64>,
}

impl Sparse {
    /// Index of the k-th entry of sum j.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn at(self, k: u32, j: u32) -> usize {
        self.first + k as usize * self.states + j as usize
    }

    /// Σᵢ xᵢ Aᵢⱼ over the entries of sum j.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn sum(self, x: Shared<f64>, j: u32) -> Number {
        let (mut largest, mut k) = (f64::NEG_INFINITY, 0);
        while k < self.width {
            let at = self.at(k, j);
            largest = largest.max(x.get(2 * self.index.get(at) + 1) + self.values.get(2 * at + 1));
            k += 1;
        }
        let mut sum = 0.0;
        k = 0;
        while k < self.width {
            let at = self.at(k, j);
            let (x, a) = (Number::shared(x, self.index.get(at)), Number::of(self.values, at));
            sum = (x.m * a.m).fma(pow2(x.e + a.e - largest), sum);
            k += 1;
        }
        Number::normal(sum, largest)
    }
}

/// Recomputes sequences in doubt: P(O) of each, and the [`wanted`] results.
///
/// Results: `likelihoods[2i]` and `likelihoods[2i + 1]` are m and e of P(O) of sequence i; m is NaN if Σᵢ αₜ(i) βₜ(i)
/// differs between steps, which indicates a defect of this program. γₜ(j) is at `gamma[(p + t)·N + j]`, where p is the
/// fifth of the sequence's places. The counts are added to the block's part of `parts`, [`counts_len`] numbers: Σ ξ of
/// the entries of `onward`; starts; ends; symbols, or moments as in [`moments`](super::gaussian::moments).
///
/// The sequences `first[k]` … `first[k + 1] − 1` belong to model k, whose normal densities are those of model
/// `models[k]`. The five `places` of a sequence are: its first chunk in `chain`; T; its first row of `alpha`; the steps
/// per stretch; its first row of `gamma`. Chunks have `until` steps; if sequences are not cut, `until` exceeds every T.
///
/// *Checkpoints*: memory holds α of all steps of one stretch and, behind them, α of the last step of every stretch but
/// the last. The backward pass recomputes α stretch by stretch, with the same bits. If only P(O) is wanted, no α is
/// stored, and one stretch covers all T steps.
///
/// The forward and backward passes alternate over the stretches and share the two rows of α
/// in shared memory and the present stretch of the trellis.
///
/// - *Thread mapping*: a block takes every `grid_dim_x`-th sequence of a model, `block_idx_y`; a thread takes every
///   `block_dim_x`-th state.
/// - *Shared memory*: [`wide_shared`], dynamic, and 64 words, static.
/// - *Barriers*: one per step and direction, one per stretch, and one per step for moments; with several warps per
///   block two more per backward step, and two.
/// - *Deterministic*: yes; the bits of P(O) and γ of a sequence depend neither on other sequences nor on the stretches.
/// - *Valid result in*: the results above.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `doubtful` | [`Doubtful`] | `symbol` below V, or below the rows of `x` |
/// | `model` | [`WideModel`] | |
/// | `gaussians` | [`Gaussians`] | D = 0 for symbols |
/// | `x` | rows × D if D > 0; else any length | observations |
/// | `alpha` | (stretch + number of stretches − 1) × N × 2 per sequence if `WANTED` ≠ 0 | α |
/// | `likelihoods` | sequences × 2 | |
/// | `gamma` | T × N per sequence if `WANTED` = 1 | γ |
/// | `parts` | models × blocks × [`counts_len`] if `WANTED` = 2 | counts; incremented |
#[kernel(
    WANTED = [0, 1, 2],
    requires(
        doubtful.holds(shape.grid.y),
        model.holds(shape.grid.y),
        if WANTED != 0 { model.onward.holds(shape.grid.y, model.states) },
        if WANTED == 2 && gaussians.dimensions == 0 {
            parts.len() >= shape.grid
                * counts_len(model.states as usize, model.onward.width as usize, model.symbols as usize)
        },
        if WANTED == 2 && gaussians.dimensions > 0 {
            parts.len() >= shape.grid * counts_len(
                model.states as usize,
                model.onward.width as usize,
                moments_len(gaussians.dimensions as usize, gaussians.full != 0),
            )
        },
        shape.block == threads(model.states),
        shape.shared >= wide_shared(model.states),
        shape.dimensions <= 2,
        shape.block.x == shape.block,
    )
)]
pub fn take_again<const WANTED: u32>(
    doubtful: Doubtful,
    model: WideModel,
    gaussians: Gaussians,
    x: Global<f64>,
    alpha: GlobalMut<f64>,
    likelihoods: GlobalMut<f64>,
    gamma: GlobalMut<f64>,
    parts: GlobalMut<f64>,
) {
    let Doubtful { until, first, models, places, chain, base, symbol } = doubtful;
    let WideModel { states, symbols, start, end, table, into, onward } = model;
    let (dimensions, full) = (gaussians.dimensions, gaussians.full);
    let (onward_width, onward_index, onward_values) = (onward.width, onward.index, onward.values);
    let memory = shared::dynamic_shared_mem::<f64>();
    let row = |r: u32| memory.split(r * 2 * states).1.split(2 * states).0;
    let shown = row(4);
    let (n, model) = (states as usize, thread::block_idx_y() as usize);
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let matrix = |terms: Terms| Sparse {
        first: model * terms.width as usize * n,
        states: n,
        width: terms.width,
        index: terms.index,
        values: terms.values,
    };
    let (into, onward) = (matrix(into), matrix(onward));
    let own = models.get(model) as usize;
    let densities = Densities::new(gaussians, x);
    let emit = |v: u32, j: u32| {
        if dimensions > 0 {
            Number::exp(densities.log(own, v as usize, j as usize))
        } else {
            Number::of(table, (model * symbols as usize + v as usize) * n + j as usize)
        }
    };
    let emitted = if dimensions > 0 { moments_len(dimensions as usize, full != 0) } else { symbols as usize };
    let block = model * thread::grid_dim_x() as usize + thread::block_idx_x() as usize;
    let counts = block * counts_len(n, onward_width as usize, emitted);
    let add = |at: usize, x: f64| parts.set(counts + at, parts.get(counts + at) + x);
    let (of_start, of_end) = (onward_width as usize * n, (onward_width as usize + 1) * n);
    let of_emitted = of_end + n;

    let mut item = first.get(model) + thread::block_idx_x();
    while item < first.get(model + 1) {
        let place = |k: usize| places.get(PLACES * item as usize + k);
        let (link, length, origin, stretch) = (place(0), place(1), place(2) as usize, place(3));
        let first_shown = place(4) as usize;
        let load = |t: u32| {
            if t < length {
                let m = chain.get(link + t / until);
                symbol.get(base.get(t % until) + m)
            } else {
                0
            }
        };
        let stretches = length.div_ceil(stretch);
        // Positions of α: of a step of the stretch, and of the last step of a stretch.
        let trellis = |t: u32, j: u32| (origin + (t % stretch) as usize) * n + j as usize;
        let last_of = |s: u32, j: u32| (origin + (stretch + s) as usize) * n + j as usize;
        let (mut half, mut other) = (0, 0);
        let (mut prob, mut off) = (Number::ZERO, false);
        let visits = if WANTED == wanted::NOTHING { stretches } else { 2 * stretches - 1 };
        let mut visit = 0;
        while visit < visits {
            // Ascends to the last stretch, then descends to the first.
            let s = if visit < stretches { visit } else { 2 * stretches - 2 - visit };
            let (from, to) = (s * stretch, length.min((s + 1) * stretch));
            if s > 0 {
                let mut j = thread;
                while j < states {
                    Number::kept(alpha, last_of(s - 1, j)).share(row(half ^ 1), j);
                    j += threads;
                }
                thread::sync_threads();
            }
            let mut ahead = Ahead::<32>::new(from, true, load);
            let mut t = from;
            while t < to {
                let v = ahead.get(t);
                let mut j = thread;
                while j < states {
                    let b = emit(v, j);
                    let p = if t == 0 { Number::of(start, model * n + j as usize) } else { into.sum(row(half ^ 1), j) };
                    let now = p.times(b);
                    now.share(row(half), j);
                    if WANTED != wanted::NOTHING {
                        now.keep(alpha, trellis(t, j));
                        if t + 1 == to && to < length {
                            now.keep(alpha, last_of(s, j));
                        }
                    }
                    j += threads;
                }
                thread::sync_threads();
                half ^= 1;
                t += 1;
                ahead.go_to(t, true, load);
            }
            if visit + 1 == stretches {
                let mut sum = Number::ZERO;
                let mut j = thread;
                while j < states {
                    let last = Number::shared(row(half ^ 1), j);
                    sum = sum.plus(last.times(Number::of(end, model * n + j as usize)));
                    j += threads;
                }
                prob = sum.total();
            }
            if visit + 1 >= stretches && WANTED != wanted::NOTHING {
                let mut ahead = Ahead::<32>::new(to - 1, false, load);
                while t > from {
                    t -= 1;
                    let v = ahead.get(t);
                    let (behind, now) = (row(2 + other), row(2 + (other ^ 1)));
                    let mut sum = Number::ZERO;
                    let mut j = thread;
                    while j < states {
                        // In flight during the sum.
                        let (left, b) = (Number::kept(alpha, trellis(t, j)), emit(v, j));
                        let beta = if t + 1 == length {
                            Number::of(end, model * n + j as usize)
                        } else {
                            onward.sum(behind, j)
                        };
                        b.times(beta).share(now, j);
                        let both = left.times(beta);
                        both.share(shown, j);
                        sum = sum.plus(both);
                        j += threads;
                    }
                    let sum = sum.total();
                    off = off || !sum.agrees(prob);
                    let mut j = thread;
                    while j < states {
                        let g = Number::shared(shown, j).over(sum);
                        if WANTED == wanted::POSTERIORS {
                            gamma.set((first_shown + t as usize) * n + j as usize, g);
                        } else {
                            if t == 0 {
                                add(of_start + j as usize, g);
                            }
                            if t + 1 == length {
                                add(of_end + j as usize, g);
                            }
                            if dimensions == 0 {
                                add(of_emitted + v as usize * n + j as usize, g);
                            } else {
                                shown.set(2 * j, g);
                            }
                            let left = Number::kept(alpha, trellis(t, j));
                            if t + 1 < length && left.m > 0.0 && sum.m > 0.0 {
                                let (m, e) = (left.m / sum.m, left.e - sum.e);
                                let mut k = 0;
                                while k < onward_width {
                                    let at = onward.at(k, j);
                                    let a = Number::of(onward_values, at);
                                    let w = Number::shared(behind, onward_index.get(at));
                                    let xi = m * a.m * w.m * pow2((e + a.e + w.e).min(1000.0));
                                    if xi > 0.0 {
                                        add(k as usize * n + j as usize, xi.min(1.0));
                                    }
                                    k += 1;
                                }
                            }
                        }
                        j += threads;
                    }
                    if WANTED == wanted::COUNTS && dimensions > 0 {
                        thread::sync_threads();
                        let mut l = thread as usize;
                        while l < emitted * n {
                            let (f, j) = (l / n, l % n);
                            let g = shown.get(2 * j as u32);
                            if g > 0.0 {
                                let from_mean = |k: usize| densities.deviation(own, v as usize, j, k);
                                add(of_emitted + l, moment(g, f, dimensions as usize, full, from_mean));
                            }
                            l += threads as usize;
                        }
                    }
                    thread::sync_threads();
                    other ^= 1;
                    ahead.go_to(t.wrapping_sub(1), false, load);
                }
            }
            visit += 1;
        }
        if thread == 0 {
            likelihoods.set(2 * item as usize, if off { f64::NAN } else { prob.m });
            likelihoods.set(2 * item as usize + 1, prob.e);
        }
        item += thread::grid_dim_x();
    }
}
