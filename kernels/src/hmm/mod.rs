//! Kernels for hidden Markov models: the recursions over a batch of sequences, by one or several models.
//!
//! # What lies where
//!
//! Sequences are sorted, the longest first, and lie by time: step t of all sequences that are longer than t makes the rows
//! `base[t] … base[t + 1] − 1`, that of sequence m the row `base[t] + m`. So the sequences that go on are always the first ones,
//! rows of one step lie side by side, and nothing is padded to a common length.
//!
//! A row has N elements, padded with zeros to a stride of NS. `symbol[row]` is the row of the emission table that the step has,
//! `table[v][j]` = bⱼ(v); densities are a table with a row for each step. The index of the model is `block_idx_y`.
//!
//! # Scaling
//!
//! Rabiner divides α̂ₜ by its sum. Any factor serves, as long as the same ones scale β̂; here they are powers of two, so that
//! scaling rounds nothing: α̂ₜ = (α̂ₜ₋₁ A) ∘ b(oₜ) · 2^−eₜ, where 2^eₜ takes the largest element of α̂ₜ₋₁ to 2^[`top`]. It is known one
//! step before it is needed. With P̂ = Σⱼ α̂_T(j) endⱼ,
//!
//! > ln P(O) = ln P̂ + ln 2 · Σ eₜ,  β̂_T = end / P̂,  ûₜ = b(oₜ) ∘ β̂ₜ · 2^−eₜ,  β̂ₜ₋₁ = A ûₜ
//!
//! > γₜ = α̂ₜ ∘ β̂ₜ,  ξₜ(i, j) = α̂ₜ(i) Aᵢⱼ ûₜ₊₁(j)
//!
//! with sums of 1 and no division. Where α̂ₜ(j) is 0 so are γ, ξ and ûₜ(j).
//!
//! # Where numbers are too small
//!
//! The range of a number ends: a state that trails by more than that can be all that explains the next observation. So no number
//! vanishes that is not 0, and what cannot be relied on is found.
//!
//! *Nothing vanishes.* What is positive in the model is so in its tables: at least 2^[`entry`] in A and end, and a normal number elsewhere.
//! α̂ₜ(j) = pₜ(j) bⱼ(oₜ) · 2^−eₜ + 2^[`ground`] where both factors are positive, and 0 where one is not. As 2^`ground` · 2^`entry` is a normal
//! number, pₜ₊₁ = α̂ₜ A is 0 where no path leads, and nowhere else: so is P̂.
//!
//! *What was added is found where it counts.* An element of α̂ has 2^`ground` too much at most, and a raised entry adds 2^(`top` + `entry`) at
//! most: less than 2^(`sound` − 69) in f64 and 2^(`sound` − 33) in f32. So where all positive pₜ₊₁(k) are at least 2^[`sound`], each is
//! off by a part of N · 2⁻⁶⁸ or N · 2⁻³² at most, whatever was added before: that is how far it may be behind the largest one, 880 or 82
//! binary orders of magnitude. A sequence for which a pₜ(k) or P̂ lies in (0, 2^`sound`) is *in doubt*: P̂ is NaN then. One comparison for each
//! element finds it, which nothing waits for. A model without zeros, whose A is not nearly 0 anywhere, never gets there: every pₜ₊₁(k) has a
//! part of the largest element.
//!
//! *The rest follows.* γₜ(j) = pₜ(j) ûₜ(j) ≤ 1 bounds û by 2^−`sound`, so nothing overflows; and what vanishes of β̂ or û takes with it
//! what it is of γ, less than 2⁻⁴² in f32.
//!
//! β̂ of a sequence in doubt is 0, so γ is, and it adds nothing to any sum. It is taken again with an exponent for each number, by
//! [`wide`], and the host adds its counts.
//!
//! | module | N | what |
//! | --- | --- | --- |
//! | [`forward`], [`backward`], [`viterbi`] | ≤ 128 | the whole recursion in one launch: a warp for 8 sequences, or a block for one |
//! | [`step`] | any | one step of all sequences as a tiled matrix product |
//! | [`trace`] | > 32 | the most probable path, backwards |
//! | [`scan`] | ≤ 64 | few and long sequences in chunks, by products of matrices |
//! | [`counts`] | any | Σ ξ as one product over all rows, and sums over rows |
//! | [`maximise`] | any | the model that the counts make most likely |
//! | [`wide`] | ≤ 1024 | sequences in doubt, again |
//! | [`slices`] | any | the step in its parts, each a kernel: to read, and to compare |
//!
//! Source: L. R. Rabiner, "A Tutorial on Hidden Markov Models and Selected Applications in Speech Recognition", 1989, with
//! A. Rahimi's erratum, 2000.
#![allow(clippy::needless_range_loop, reason = "tiles of several arrays, by the same constant indices")]

/// Repeats a block for `NAME` = 0 … `count` − 1, of 32 at most, with constants for indices, so that arrays stay in registers. Under
/// emulation there are none, and it is a loop.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! each {
    ($name:ident < $count:expr, $body:block) => {
        for index in 0..$count {
            #[allow(non_snake_case)]
            let $name: usize = index;
            $body
        }
    };
}

/// Repeats a block for `NAME` = 0 … `count` − 1, of 32 at most, with constants for indices, so that arrays stay in registers.
#[cfg(target_arch = "nvptx64")]
macro_rules! each {
    ($name:ident < $count:expr, $body:block) => {
        each!($name < $count, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    ($name:ident < $count:expr, $body:block, $($value:literal)*) => {$(
        { const $name: usize = $value; if $name < $count $body }
    )*};
}

pub mod backward;
pub mod counts;
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

use warpkov_device::device::{Global, GlobalMut, Real, Word, math, warp};

/// States that a warp kernel has for a `TILES` of 1.
pub const TILE: usize = 8;

/// What 2⁵² · 1023 is for: the exponent of 1 in the bits of an f64.
const BIAS: u32 = 1023;

/// The half of x ≥ 0 that has its exponent: larger for larger x, up to what the other half has.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn high(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}

/// The exponent of two that the largest element of a row is scaled to, for elements of 8 bytes or 4.
#[must_use]
pub const fn top(wide: bool) -> i32 {
    if wide { 900 } else { 106 }
}

/// The exponent of what is added to every element of α̂ that is not 0.
#[must_use]
pub const fn ground(wide: bool) -> i32 {
    if wide { -60 } else { -10 }
}

/// The exponent from which on an element of α̂ A is relied on.
#[must_use]
pub const fn sound(wide: bool) -> i32 {
    if wide { 20 } else { 24 }
}

/// The exponent of the least entry of A and of ends that is not 0.
#[must_use]
pub const fn entry(wide: bool) -> i32 {
    if wide { -950 } else { -116 }
}

/// The exponent of the least entry of π and of the emission table that is not 0: that of the least normal number.
#[must_use]
pub const fn normal(wide: bool) -> i32 {
    if wide { -1022 } else { -126 }
}

/// 2ᵏ, for −1023 < k < 1024.
#[must_use]
#[inline(always)]
pub const fn power(k: i32) -> f64 {
    f64::from_bits(((BIAS as i32 + k) as u64) << 52)
}

/// 2^−e and e, by which the largest element of a row, of this [high] half, goes to 2^[`top`]. A row of zeros is not scaled.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn scale<T: Word>(high: u32) -> (f64, i32) {
    let aim = BIAS + top(T::WIDE) as u32;
    let biased = high >> 20;
    let biased = if biased == 0 { aim } else { biased };
    (f64::from_bits(u64::from(BIAS + aim - biased) << 52), biased as i32 - aim as i32)
}

/// What is added to an element of α̂ that is p times b, so that it is 0 where one of them is, and nowhere else.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn grounded<T: Word>(p: f64, b: f64) -> f64 {
    ground_of::<T>(high(p).min(high(b)))
}

/// What is added where the lower of the [high] halves of two factors is this.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn ground_of<T: Word>(least: u32) -> f64 {
    if least > 0 { power(ground(T::WIDE)) } else { 0.0 }
}

/// x, computed [here](math::settled).
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn settled(x: f64) -> f64 {
    let bits = x.to_bits();
    f64::from_bits(u64::from(math::settled(high(x))) << 32 | u64::from(math::settled(bits as u32)))
}

/// Positive elements of α̂ A that have been too small to rely on.
#[derive(Clone, Copy)]
struct Doubt(u32);

impl Doubt {
    const NONE: Self = Self(u32::MAX);

    /// With this element.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn with(self, p: f64) -> Self {
        // 0 is the largest number then.
        Self(self.0.min(high(p).wrapping_sub(1)))
    }

    /// Whether there was one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn is<T: Word>(self) -> bool {
        self.0 < high(power(sound(T::WIDE))) - 1
    }
}

/// P̂, or NaN where it is in doubt.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn relied<T: Word>(likelihood: f64) -> f64 {
    if Doubt::NONE.with(likelihood).is::<T>() { f64::NAN } else { likelihood }
}

/// An entry of a table that is not 0 unless it was before, and at least 2^`least` otherwise.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn raised(x: f64, least: i32) -> f64 {
    if x > 0.0 && x < power(least) { power(least) } else { x }
}

/// x as it is when it has been stored.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn stored<T: Real>(x: f64) -> f64 {
    T::from_f64(x).to_f64()
}

/// The part of a row that a lane of a warp kernel has: `[n][c]` is state 2·`TILES`·t + 2n + c, for t = lane mod 4.
type Part<const TILES: usize> = [[f64; 2]; TILES];

/// The [part](Part) of a row.
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

/// Writes the [part](Part) of a row.
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

/// The [part](Part) of row `row` of what one launch leaves for the next.
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

/// Numbers of the rows that a group of lanes follows through time, loaded long before they are needed: a lane of the group
/// loads what one step needs, and `WIDTH` lanes share a *block* of `WIDTH` steps.
///
/// A register that is loaded must not be moved before it is there, or the move waits. Where steps are short, a loop over blocks asks for
/// what is [beyond](Self::beyond), then goes through the steps of its block, and only then [turns](Self::turn); others
/// [go](Self::go_to) step by step.
#[derive(Clone, Copy)]
struct Ahead<const WIDTH: usize> {
    now: u32,
    next: u32,
    later: u32,
}

impl<const WIDTH: usize> Ahead<WIDTH> {
    const LANES: u32 = WIDTH as u32;

    /// What this lane loads of the block that is `blocks` behind that of step `t`, or before it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_block(t: u32, blocks: u32, up: bool, load: impl Fn(u32) -> u32) -> u32 {
        let block = if up { (t / Self::LANES).wrapping_add(blocks) } else { (t / Self::LANES).wrapping_sub(blocks) };
        load(block.wrapping_mul(Self::LANES).wrapping_add(warp::lane_id() % Self::LANES))
    }

    /// From step `t` on, up or down; `load` gives the number of a step for this lane's sequence, or anything where it has none.
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

    /// What is to be known once the block of step `t` has been left behind: on its way.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn beyond(t: u32, up: bool, load: impl Fn(u32) -> u32) -> u32 {
        Self::of_block(t, 3, up, load)
    }

    /// Leaves a block behind.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn turn(&mut self, beyond: u32) {
        (self.now, self.next, self.later) = (self.next, self.later, beyond);
    }

    /// Goes on to step `t`, from the one before it or behind it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn go_to(&mut self, t: u32, up: bool, load: impl Fn(u32) -> u32) {
        if Self::begins(t, up) {
            let from = if up { t.wrapping_sub(1) } else { t.wrapping_add(1) };
            self.turn(Self::beyond(from, up, load));
        }
    }

    /// The number of step `t`, which is in this block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn get(&self, t: u32) -> u32 {
        Self::shared(self.now, t)
    }

    /// The number of step `t`, which is the one to go on to from a step of this block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn peek(&self, t: u32, up: bool) -> u32 {
        Self::shared(if Self::begins(t, up) { self.next } else { self.now }, t)
    }

    /// The number of step `t`, which is `blocks` blocks away from this one: 0, 1 or 2.
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

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn shared(of_lane: u32, t: u32) -> u32 {
        warp::shuffle(warp::FULL, of_lane, warp::lane_id() / Self::LANES * Self::LANES + t % Self::LANES)
    }
}
