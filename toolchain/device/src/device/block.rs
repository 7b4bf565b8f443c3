//! Reductions and scans over the threads of a block.
//!
//! Each [warp] reduces by shuffles and writes its result to shared memory; the results of the warps are then reduced by
//! shuffles. [`reduce`] and [`exclusive_scan`] need a `block_size()` that is a multiple of 32: the emulator reports another
//! size. The other functions take any block.
//!
//! ```
//! use warpkov_device::device::{GlobalMut, block, kernel, thread};
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Shape};
//!
//! /// The share of each thread in the sum of all indices, and the sum up to it.
//! #[kernel]
//! fn shares(out: GlobalMut<f64>, sums: GlobalMut<u32>) {
//!     let t = thread::thread_idx_x();
//!     let total = block::reduce_all(t, 0, |a, b| a + b);
//!     out.set(t, f64::from(t) / f64::from(total));
//!     sums.set(t, block::scan(t, 0, |a, b| a + b).through);
//! }
//!
//! let device = Emulator::default();
//! let (mut out, mut sums) = (device.zeros(45)?, device.zeros(45)?);
//! // SAFETY: both buffers have one element per thread.
//! unsafe { shares(&device, Shape::new(1, 45), &mut out, &mut sums)? };
//! assert_eq!(device.to_vec(&out)?[44], 44.0 / 990.0);
//! assert_eq!(device.to_vec(&sums)?[40..], [820_u32, 861, 903, 946, 990]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

use super::{Word, thread, warp};
use crate::shared_array;

#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn check_whole_warps(function: &'static str) {
    use crate::emulator::fault::{Kind, raise_with};
    let threads = thread::block_size();
    if !threads.is_multiple_of(warp::SIZE) {
        let hint = format!("launch blocks of {} threads", threads.next_multiple_of(warp::SIZE));
        raise_with(Kind::PartialWarp { function, threads }, hint);
    }
}

/// Combines `value` over all threads of the block.
///
/// *Takes part*: every thread of the block. *Valid result in*: every thread of the first warp. *Shared memory*: 32
/// elements. *Barriers*: two; no further barrier is needed before the next call. *Deterministic*: yes, the tree is fixed.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn add(sums: PerBlock<u32>) {
///     sums.set(block::reduce(thread::thread_idx_x(), 0, |a, b| a + b));
/// }
///
/// # let device = Emulator::default();
/// # let mut sums = device.zeros(2)?;
/// add(&device, Shape::new(2, 64), &mut sums)?;
/// assert_eq!(device.to_vec(&sums)?, [2016; 2]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce<T: Word>(value: T, identity: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    #[cfg(not(target_arch = "nvptx64"))]
    check_whole_warps("block::reduce");
    reduce_warps(value, identity, combine)
}

/// [`reduce`], without the caller's line, so that each of its barriers has a line of its own.
#[inline(always)]
fn reduce_warps<T: Word>(value: T, identity: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    let partial = shared_array!(@named "$", block_reduce_partial: T; 32);
    let (lane, warps) = (warp::lane_id(), thread::block_size() / warp::SIZE);
    let value = warp::reduce(value, combine);
    if lane == 0 {
        partial.set(warp::warp_id(), value);
    }
    thread::sync_threads();
    let value = if lane < warps { partial.get(lane) } else { identity };
    thread::sync_threads();
    warp::reduce(value, combine)
}

/// Exclusive scan over the threads of the block, and the total over all threads: thread i gets `value₀ ∘ … ∘ valueᵢ₋₁`,
/// thread 0 the identity.
///
/// *Takes part*: every thread of the block. *Valid result in*: every thread. *Shared memory*: 32 elements. *Barriers*:
/// two; no further barrier is needed before the next call. *Deterministic*: yes.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn sums(out: PerThread<u32>) {
///     let (before, total) = block::exclusive_scan(2, 0, |a, b| a + b);
///     out.set(before + total);
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// sums(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..3], [128, 130, 132]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn exclusive_scan<T: Word>(value: T, identity: T, combine: impl Fn(T, T) -> T + Copy) -> (T, T) {
    #[cfg(not(target_arch = "nvptx64"))]
    check_whole_warps("block::exclusive_scan");
    scan_warps(value, identity, combine)
}

/// [`exclusive_scan`], without the caller's line, so that each of its barriers has a line of its own.
#[inline(always)]
fn scan_warps<T: Word>(value: T, identity: T, combine: impl Fn(T, T) -> T + Copy) -> (T, T) {
    let totals = shared_array!(@named "$", block_scan_totals: T; 32);
    let (lane, warp_id, warps) = (warp::lane_id(), warp::warp_id(), thread::block_size() / warp::SIZE);
    let inclusive = warp::inclusive_scan(value, combine);
    if lane == warp::SIZE - 1 {
        totals.set(warp_id, inclusive);
    }
    thread::sync_threads();
    // Every warp scans the totals of all warps itself. This saves an exchange through shared memory.
    let total = if lane < warps { totals.get(lane) } else { identity };
    let through = warp::inclusive_scan(total, combine);
    thread::sync_threads();
    let before_warp = warp::shuffle(warp::FULL, through, warp_id.wrapping_sub(1) % warp::SIZE);
    let all = warp::shuffle(warp::FULL, through, warps - 1);
    let base = if warp_id == 0 { identity } else { before_warp };
    let below = warp::shuffle_up(warp::FULL, inclusive, 1);
    (if lane == 0 { base } else { combine(base, below) }, all)
}

/// The results of [`scan`] in thread i.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn sums(out: PerThread<u32>) {
///     let block::Scan { before, through, total } = block::scan(1, 0, |a, b| a + b);
///     out.set(through - before + total);
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// sums(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [65; 64]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan<T> {
    /// `value₀ ∘ … ∘ valueᵢ₋₁`; the identity in thread 0.
    pub before: T,
    /// `value₀ ∘ … ∘ valueᵢ`.
    pub through: T,
    /// The values of all threads combined.
    pub total: T,
}

/// Scans over the threads of a block of any size, exclusive and inclusive, with an associative `combine`.
///
/// *Takes part*: every thread of the block. *Valid result in*: every thread. *Shared memory*: 64 elements. *Barriers*: two; no
/// further barrier is needed before the next call. *Deterministic*: yes.
///
/// Not in safe kernels, whose warps exchange with all their lanes: this function computes which lanes the last warp has. There,
/// [`exclusive_scan`] also gives the total to every thread.
///
/// ```
/// # use warpkov_device::{device::prelude::*, emulator::Emulator, launch::*};
/// #[kernel]
/// fn largest(out: GlobalMut<u32>) {
///     let t = thread::thread_idx_x();
///     out.set(t, block::scan(t % 40, 0, u32::max).through);
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { largest(&device, Shape::new(1, 64), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[38..42], [38, 39, 39, 39]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn scan<T: Word>(value: T, identity: T, combine: impl Fn(T, T) -> T + Copy) -> Scan<T> {
    let (totals, prefixes) =
        (shared_array!(@named "$", block_totals: T; 32), shared_array!(@named "$", block_prefixes: T; 32));
    let (lane, warp_id, threads) = (warp::lane_id(), warp::warp_id(), thread::block_size());
    let (warps, lanes) = (threads.div_ceil(warp::SIZE), warp::SIZE.min(threads - warp::SIZE * warp_id));
    let mask = warp::FULL >> (warp::SIZE - lanes);
    let within = warp::scan_lanes(mask, value, combine);
    if lane == lanes - 1 {
        totals.set(warp_id, within);
    }
    thread::sync_threads();
    // If there are several warps, the first one is whole.
    if warp_id == 0 {
        let total = if lane < warps { totals.get(lane) } else { identity };
        let through = warp::scan_lanes(mask, total, combine);
        if lane < warps {
            prefixes.set(lane, through);
        }
    }
    thread::sync_threads();
    let total = prefixes.get(warps - 1);
    let below = warp::shuffle_up(mask, within, 1);
    if warp_id == 0 {
        return Scan { before: if lane == 0 { identity } else { below }, through: within, total };
    }
    let base = prefixes.get(warp_id - 1);
    Scan { before: if lane == 0 { base } else { combine(base, below) }, through: combine(base, within), total }
}

/// Combines `value` over all threads of a block of any size. `combine` is associative; it need not be commutative.
///
/// *Takes part*: every thread of the block. *Valid result in*: every thread. *Shared memory*: 64 elements. *Barriers*: two; no
/// further barrier is needed before the next call. *Deterministic*: yes.
///
/// Not in safe kernels, whose warps exchange with all their lanes: this function computes which lanes the last warp has. There,
/// [`exclusive_scan`] also gives the total to every thread.
///
/// ```
/// # use warpkov_device::{device::prelude::*, emulator::Emulator, launch::*};
/// #[kernel]
/// fn sums(out: GlobalMut<u32>) {
///     out.set(thread::thread_idx_x(), block::reduce_all(thread::thread_idx_x(), 0, |a, b| a + b));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(50)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { sums(&device, Shape::new(1, 50), &mut out)? };
/// assert_eq!(device.to_vec(&out)?, [1225; 50]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn reduce_all<T: Word>(value: T, identity: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    scan(value, identity, combine).total
}

/// The value of the thread whose [`index_in_block`](thread::index_in_block) is `source`.
///
/// *Takes part*: every thread of the block. *Valid result in*: every thread. *Shared memory*: one element. *Barriers*: two; no
/// further barrier is needed before the next call.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn share(out: PerThread<u32>) {
///     let t = thread::thread_idx_x();
///     out.set(block::broadcast(t * t, 3));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// share(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [9; 64]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn broadcast<T: Word>(value: T, source: u32) -> T {
    let cell = shared_array!(@named "$", block_broadcast: T; 1);
    if thread::index_in_block() == source {
        cell.set(0, value);
    }
    thread::sync_threads();
    let value = cell.get(0);
    thread::sync_threads();
    value
}
