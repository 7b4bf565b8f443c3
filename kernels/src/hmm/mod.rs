//! Kernels for hidden Markov models: forward, backward and Viterbi recursions over a batch of sequences, by one or
//! several models.
//!
//! # Data layout
//!
//! The sequences are sorted by length, longest first, and stored by time: step t of all sequences longer than t
//! occupies the rows `base[t] … base[t + 1] − 1`, with sequence m in row `base[t] + m`. The sequences that have step t
//! are therefore always the first ones, rows of one step are contiguous, and nothing is padded to a common length.
//!
//! A row has N elements, padded with zeros to a stride NS. `symbol[row]` is the step's row of the emission table,
//! `table[v][j]` = bⱼ(v); for continuous emissions the table has one row of densities per step. `block_idx_y` is the
//! index of the model.
//!
//! # Scaling
//!
//! Rabiner divides α̂ₜ by its sum. Any factor works if the same factors scale β̂. Here they are powers of two, so that
//! scaling rounds nothing: α̂ₜ = (α̂ₜ₋₁ A) ∘ b(oₜ) · 2^−eₜ, where 2^−eₜ scales the largest element of α̂ₜ₋₁ to
//! 2^[`top`]. The factor is thus known one step before it is needed. With P̂ = Σⱼ α̂_T(j) endⱼ,
//!
//! > ln P(O) = ln P̂ + ln 2 · Σ eₜ,  β̂_T = end / P̂,  ûₜ = b(oₜ) ∘ β̂ₜ · 2^−eₜ,  β̂ₜ₋₁ = A ûₜ
//!
//! > γₜ = α̂ₜ ∘ β̂ₜ,  ξₜ(i, j) = α̂ₜ(i) Aᵢⱼ ûₜ₊₁(j)
//!
//! Both γₜ and ξₜ sum to 1 without a division. Where α̂ₜ(j) is 0, so are γ, ξ and ûₜ(j).
//!
//! # Underflow
//!
//! Floating-point range is finite, and a state whose α̂ trails the largest by more than that range may be the only
//! explanation of the next observation. The kernels therefore let no positive number underflow to 0, and detect every
//! result that underflow could affect.
//!
//! *No positive number becomes 0.* Every positive parameter of the model is positive in its tables: at least
//! 2^[`entry`] in A and end, and a normal number elsewhere. The recursion adds a floor: α̂ₜ(j) = pₜ(j) bⱼ(oₜ) · 2^−eₜ +
//! 2^[`ground`] if both factors are positive, else 0. Since 2^`ground` · 2^`entry` is a normal number, pₜ₊₁ = α̂ₜ A is
//! 0 exactly where no path leads; so is P̂.
//!
//! *The added amounts are detected where they matter.* An element of α̂ is at most 2^[`ground`] too large, and a raised
//! entry of A adds at most 2^(`top` + `entry`): together at most 2^(`sound` − 69) in f64 and 2^(`sound` − 33) in f32.
//! If all positive pₜ₊₁(k) are at least 2^[`sound`], each has a relative error of at most N · 2⁻⁶⁸ or N · 2⁻³²,
//! whatever was added before. An element may thus trail the largest by 880 or 82 binary orders of magnitude. A sequence
//! with a pₜ(k) or P̂ in (0, 2^`sound`) is *in doubt*: its P̂ becomes NaN. The test is one comparison per element, off
//! the critical path. A model whose A has neither zeros nor tiny entries never raises doubt: every pₜ₊₁(k) contains a
//! share of the largest element.
//!
//! *No overflow.* γₜ(j) = pₜ(j) ûₜ(j) ≤ 1 bounds û by 2^−`sound`. A β̂ or û that underflows removes less than 2⁻⁴² of γ
//! in f32.
//!
//! A sequence in doubt has β̂ = 0, hence γ = 0, and adds nothing to any sum. [`wide`] recomputes it with one exponent
//! per number, and the host adds its counts.
//!
//! | module | N | contents |
//! | --- | --- | --- |
//! | [`forward`], [`backward`], [`viterbi`] | ≤ 128 | the whole recursion in one launch: a warp for 8 sequences, or a block for one |
//! | [`step`] | any | one step of all sequences as a tiled matrix product |
//! | [`trace`] | > 32 | traceback of the most probable path |
//! | [`scan`] | ≤ 64 | few long sequences: a parallel scan over chunks, by products of matrices |
//! | [`counts`] | any | Σ ξ as one product over all rows, and sums over rows |
//! | [`gaussian`] | any | densities and moments of normal emissions |
//! | [`emission`] | any | densities and sums of emissions as Rust code |
//! | [`maximise`] | any | the M step: the model that maximises the likelihood of the counts |
//! | [`wide`] | ≤ 1024 | recomputes sequences in doubt |
//! | [`slices`] | any | the forward recursion in its parts, a kernel each: a method to compare with |
//!
//! Source: L. R. Rabiner, "A Tutorial on Hidden Markov Models and Selected Applications in Speech Recognition", 1989,
//! with A. Rahimi's erratum, 2000.
#![allow(clippy::needless_range_loop, reason = "tiles of several arrays share constant indices")]

/// Repeats a block for `NAME` = 0 … `count` − 1, `count` ≤ 32. Under emulation a loop.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! each {
    ($name:ident < $count:expr, $(at most $most:literal,)? $body:block) => {
        $(const { assert!($count <= $most) };)?
        for index in 0..$count {
            #[allow(non_snake_case)]
            let $name: usize = index;
            $body
        }
    };
}

/// Repeats a block for `NAME` = 0 … `count` − 1, `count` ≤ 32, with constant indices, so that arrays stay in registers.
///
/// The compiler checks as many copies of the block as `count` may need: `each!(J < TILES, at most 8, {…})` makes 8 of them in
/// place of 32, which matters where one is inside another.
#[cfg(target_arch = "nvptx64")]
macro_rules! each {
    ($name:ident < $count:expr, at most 8, $body:block) => {
        const { assert!($count <= 8) };
        each!(@ $name < $count, $body, 0 1 2 3 4 5 6 7)
    };
    ($name:ident < $count:expr, $body:block) => {
        each!(@ $name < $count, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    (@ $name:ident < $count:expr, $body:block, $($value:literal)*) => {$(
        { const $name: usize = $value; if $name < $count $body }
    )*};
}

pub mod backward;
pub mod counts;
pub mod emission;
pub mod forward;
pub mod gaussian;
pub mod maximise;
pub mod model;
pub mod scan;
pub mod slices;
pub mod step;
pub mod trace;
pub mod viterbi;
pub mod wide;

pub use emission::Emission;
use warpkov_device::device::{Global, GlobalMut, Real, Word, math, warp};

/// States per tile of a warp kernel: it has 8·`TILES` states.
pub const TILE: usize = 8;

/// Exponent bias of f64.
const BIAS: u32 = 1023;

/// High 32 bits of x ≥ 0, which contain the exponent; monotonic in x.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn high(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}

/// Exponent to which the largest element of a row is scaled, for elements of 8 bytes (`wide`) or 4.
#[must_use]
pub const fn top(wide: bool) -> i32 {
    if wide { 900 } else { 106 }
}

/// Exponent of the floor that is added to every positive element of α̂.
#[must_use]
pub const fn ground(wide: bool) -> i32 {
    if wide { -60 } else { -10 }
}

/// Exponent at and above which an element of α̂ A is accurate.
#[must_use]
pub const fn sound(wide: bool) -> i32 {
    if wide { 20 } else { 24 }
}

/// Exponent of the least positive entry of A and of end.
#[must_use]
pub const fn entry(wide: bool) -> i32 {
    if wide { -950 } else { -116 }
}

/// Exponent of the least positive entry of π and of the emission table: the least normal number.
#[must_use]
pub const fn normal(wide: bool) -> i32 {
    if wide { -1022 } else { -126 }
}

/// 2ᵏ for −1023 < k < 1024.
#[must_use]
#[inline(always)]
pub const fn power(k: i32) -> f64 {
    f64::from_bits(((BIAS as i32 + k) as u64) << 52)
}

/// 2^−e and e, where 2^−e scales the largest element of a row, given by its [high] half, to 2^[`top`]. A row of zeros
/// is not scaled.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn scale<T: Word>(high: u32) -> (f64, i32) {
    let aim = BIAS + top(T::WIDE) as u32;
    let biased = high >> 20;
    let biased = if biased == 0 { aim } else { biased };
    (f64::from_bits(u64::from(BIAS + aim - biased) << 52), biased as i32 - aim as i32)
}

/// Floor of an element of α̂ that is p times b: 0 if either factor is 0.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn grounded<T: Word>(p: f64, b: f64) -> f64 {
    ground_of::<T>(high(p).min(high(b)))
}

/// Floor for the smaller of the [high] halves of the two factors.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn ground_of<T: Word>(least: u32) -> f64 {
    if least > 0 { power(ground(T::WIDE)) } else { 0.0 }
}

/// x, with its evaluation pinned [here](math::settled).
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn settled(x: f64) -> f64 {
    let bits = x.to_bits();
    f64::from_bits(u64::from(math::settled(high(x))) << 32 | u64::from(math::settled(bits as u32)))
}

/// The smallest positive element of α̂ A so far, by its [high] half minus 1; 0 becomes the largest integer.
#[derive(Clone, Copy)]
struct Doubt(u32);

impl Doubt {
    const NONE: Self = Self(u32::MAX);

    /// Includes another element.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn with(self, p: f64) -> Self {
        // 0 wraps to the largest integer.
        Self(self.0.min(high(p).wrapping_sub(1)))
    }

    /// Whether an element was positive but too small to be accurate.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is<T: Word>(self) -> bool {
        self.0 < high(power(sound(T::WIDE))) - 1
    }
}

/// P̂, or NaN if it is in doubt.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn relied<T: Word>(likelihood: f64) -> f64 {
    if Doubt::NONE.with(likelihood).is::<T>() { f64::NAN } else { likelihood }
}

/// Table entry: 0 stays 0; a positive number becomes at least 2^`least`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn raised(x: f64, least: i32) -> f64 {
    if x > 0.0 && x < power(least) { power(least) } else { x }
}

/// x after rounding to the storage type.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn stored<T: Real>(x: f64) -> f64 {
    T::from_f64(x).to_f64()
}

/// The elements of a row that a lane of a warp kernel holds: `[n][c]` is state 2·`TILES`·t + 2n + c, for t = lane
/// mod 4.
type Part<const TILES: usize> = [[f64; 2]; TILES];

/// Loads the lane's [part](Part) of a row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn part<T: Real, const TILES: usize>(view: Global<T>, row: usize) -> Part<TILES> {
    let view = view.skip(2 * TILES * (warp::lane_id() % 4) as usize);
    let mut x = [[0.0; 2]; TILES];
    if TILES == 1 {
        x[0] = [view.get(8 * row).to_f64(), view.get(8 * row + 1).to_f64()];
    } else {
        for n in 0..TILES / 2 {
            let [a, b, c, d] = view.get4(2 * TILES * row + n);
            x[2 * n] = [a.to_f64(), b.to_f64()];
            x[2 * n + 1] = [c.to_f64(), d.to_f64()];
        }
    }
    x
}

/// Stores the lane's [part](Part) of a row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn set_part<T: Real, const TILES: usize>(view: GlobalMut<T>, row: usize, x: Part<TILES>) {
    let t = (warp::lane_id() % 4) as usize;
    let y = x.map(|pair| pair.map(T::from_f64));
    if TILES == 1 {
        view.set(8 * row + 2 * t, y[0][0]);
        view.set(8 * row + 2 * t + 1, y[0][1]);
    } else {
        for n in 0..TILES / 2 {
            let four = [y[2 * n][0], y[2 * n][1], y[2 * n + 1][0], y[2 * n + 1][1]];
            view.set4(2 * TILES * row + TILES / 2 * t + n, four);
        }
    }
}

/// Loads the lane's [part](Part) of row `row` of the state that one launch leaves for the next.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn carried<T: Real, const TILES: usize>(view: GlobalMut<T>, row: usize) -> Part<TILES> {
    let first = 8 * TILES * row + 2 * TILES * (warp::lane_id() % 4) as usize;
    let mut x = [[0.0; 2]; TILES];
    for n in 0..TILES {
        x[n] = [view.get(first + 2 * n).to_f64(), view.get(first + 2 * n + 1).to_f64()];
    }
    x
}

/// Prefetch queue for the per-step numbers of the sequence that a group of `WIDTH` lanes follows through time. Each
/// lane of the group loads one step's number; `WIDTH` consecutive steps form a *block*, and three blocks are in flight.
///
/// A load result must not be moved between registers before it arrives, or the move stalls. If steps are short, a loop
/// over blocks first issues the loads [`beyond`](Self::beyond) the queue, then runs the steps of its block, and finally
/// [turns](Self::turn) the queue. Other loops [advance](Self::go_to) step by step.
#[derive(Clone, Copy)]
struct Ahead<const WIDTH: usize> {
    now: u32,
    next: u32,
    later: u32,
}

impl<const WIDTH: usize> Ahead<WIDTH> {
    const LANES: u32 = WIDTH as u32;

    /// This lane's load of the block `blocks` after that of step `t`, or before it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_block(t: u32, blocks: u32, up: bool, load: impl Fn(u32) -> u32) -> u32 {
        let block = if up { (t / Self::LANES).wrapping_add(blocks) } else { (t / Self::LANES).wrapping_sub(blocks) };
        load(block.wrapping_mul(Self::LANES).wrapping_add(warp::lane_id() % Self::LANES))
    }

    /// Starts at step `t`, upwards or downwards. `load` returns the number of a step of this lane's sequence, or any
    /// number if the sequence lacks that step.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new(t: u32, up: bool, load: impl Fn(u32) -> u32) -> Self {
        let of = |blocks: u32| Self::of_block(t, blocks, up, &load);
        Self { now: of(0), next: of(1), later: of(2) }
    }

    /// Whether a step is the first of its block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn begins(t: u32, up: bool) -> bool {
        t % Self::LANES == if up { 0 } else { Self::LANES - 1 }
    }

    /// Issues the loads of the block behind the queue; [`turn`](Self::turn) appends them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn beyond(t: u32, up: bool, load: impl Fn(u32) -> u32) -> u32 {
        Self::of_block(t, 3, up, load)
    }

    /// Advances by one block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn turn(&mut self, beyond: u32) {
        (self.now, self.next, self.later) = (self.next, self.later, beyond);
    }

    /// Advances to step `t` from its neighbour.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn go_to(&mut self, t: u32, up: bool, load: impl Fn(u32) -> u32) {
        if Self::begins(t, up) {
            let from = if up { t.wrapping_sub(1) } else { t.wrapping_add(1) };
            self.turn(Self::beyond(from, up, load));
        }
    }

    /// The number of step `t` of the present block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn get(&self, t: u32) -> u32 {
        Self::shared(self.now, t)
    }

    /// The number of step `t`, the successor of a step of the present block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn peek(&self, t: u32, up: bool) -> u32 {
        Self::shared(if Self::begins(t, up) { self.next } else { self.now }, t)
    }

    /// The number of step `t`, which is `blocks` blocks away: 0, 1 or 2.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn away(&self, t: u32, blocks: u32) -> u32 {
        let of_lane = if blocks == 0 {
            self.now
        } else if blocks == 1 {
            self.next
        } else {
            self.later
        };
        Self::shared(of_lane, t)
    }

    /// The number of step `t`, from the lane of the group that holds it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn shared(of_lane: u32, t: u32) -> u32 {
        warp::shuffle(warp::FULL, of_lane, warp::lane_id() / Self::LANES * Self::LANES + t % Self::LANES)
    }
}
