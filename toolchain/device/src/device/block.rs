//! Reductions and scans over the threads of a block.
//!
//! Each [warp] reduces by shuffles and writes its result to shared memory; the results of the warps are then reduced by
//! shuffles. `block_size()` must be a multiple of 32: the emulator reports another size.

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
/// *Takes part*: every thread of the block. *Valid result in*: every thread of the first warp. *Shared memory*: 256
/// bytes. *Barriers*: two; no further barrier is needed before the next call. *Deterministic*: yes, the tree is fixed.
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
    let partial = shared_array!(block_reduce_partial: T; 32);
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
/// *Takes part*: every thread of the block. *Valid result in*: every thread. *Shared memory*: 256 bytes. *Barriers*:
/// two; no further barrier is needed before the next call. *Deterministic*: yes.
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
    let totals = shared_array!(block_scan_totals: T; 32);
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
