//! Operations of a warp: 32 threads (*lanes*) that execute together and exchange registers.
//!
//! A `mask` has one bit for each participating lane; every lane of the mask must execute the same operation with the
//! same mask. [`FULL`] selects all 32 lanes. On a GPU, an operation by a lane outside its mask, and a read from such a
//! lane, is undefined. The emulator reports both, and lanes of the mask that do not arrive.

#[cfg(target_arch = "nvptx64")]
use super::nvvm;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread::{self as emulated, WarpOp};

use super::{Word, thread};

/// Lanes of a warp.
pub const SIZE: u32 = 32;

/// The mask of all lanes.
pub const FULL: u32 = u32::MAX;

/// The thread's lane in its warp: 0 … 31.
#[inline(always)]
#[must_use]
pub fn lane_id() -> u32 {
    thread::index_in_block() % SIZE
}

/// The warp's index in its block.
#[inline(always)]
#[must_use]
pub fn warp_id() -> u32 {
    thread::index_in_block() / SIZE
}

/// [`warp_id`], broadcast from lane 0: the compiler and the audit of `warpkov-build` then know that a branch on it does
/// not divide a warp.
///
/// *Takes part*: all 32 lanes.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warp_role() -> u32 {
    shuffle(FULL, warp_id(), 0)
}

/// Waits for the lanes of `mask` and makes their memory writes visible to each other (`__syncwarp`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_warp(mask: u32) {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => unsafe { nvvm::warp_sync(mask) },
        emulated => {
            emulated::current().exchange_with(WarpOp::Sync, mask, 0, 0);
        },
    }
}

/// Exchanges a value by one or two 32-bit exchanges.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn by_halves<T: Word>(value: T, exchange: impl Fn(u32) -> u32) -> T {
    let raw = value.to_raw();
    let low = exchange(raw as u32) as u64;
    T::from_raw(if T::WIDE { low | (exchange((raw >> 32) as u32) as u64) << 32 } else { low })
}

/// The value of lane `source(lane)`; this lane's own value if `source` is `None`.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn emulated_shuffle<T: Word>(op: WarpOp, mask: u32, value: T, source: impl Fn(u32) -> Option<u32>) -> T {
    let lane = lane_id();
    let from = source(lane).unwrap_or(lane);
    let value = emulated::current().exchange_with(op, mask, value.to_raw(), from);
    if mask & (1 << from) == 0 {
        use crate::emulator::fault;
        fault::raise(fault::Kind::LaneNotInMask { lane: from, mask });
    }
    T::from_raw(value)
}

/// The value of lane `source` mod 32 (`__shfl_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle<T: Word>(mask: u32, value: T, source: u32) -> T {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => by_halves(value, |half| unsafe { nvvm::shuffle_index(mask, half, source, 31) }),
        emulated => emulated_shuffle(WarpOp::Shuffle, mask, value, |_| Some(source % SIZE)),
    }
}

/// The value of lane i − `delta` in lane i; lanes below `delta` keep their own (`__shfl_up_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle_up<T: Word>(mask: u32, value: T, delta: u32) -> T {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => by_halves(value, |half| unsafe { nvvm::shuffle_up(mask, half, delta, 0) }),
        emulated => emulated_shuffle(WarpOp::ShuffleUp, mask, value, |lane| lane.checked_sub(delta)),
    }
}

/// The value of lane i + `delta` in lane i; the last `delta` lanes keep their own (`__shfl_down_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle_down<T: Word>(mask: u32, value: T, delta: u32) -> T {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => by_halves(value, |half| unsafe { nvvm::shuffle_down(mask, half, delta, 31) }),
        emulated => emulated_shuffle(WarpOp::ShuffleDown, mask, value, |lane| {
            lane.checked_add(delta).filter(|&from| from < SIZE)
        }),
    }
}

/// The value of lane i ⊕ `lanes` (bitwise exclusive or) in lane i (`__shfl_xor_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle_xor<T: Word>(mask: u32, value: T, lanes: u32) -> T {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => by_halves(value, |half| unsafe { nvvm::shuffle_xor(mask, half, lanes, 31) }),
        emulated => emulated_shuffle(WarpOp::ShuffleXor, mask, value, |lane| Some((lane ^ lanes) % SIZE)),
    }
}

/// Whether `predicate` is true in every lane of `mask` (`__all_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn all(mask: u32, predicate: bool) -> bool {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => unsafe { nvvm::vote_all(mask, predicate) },
        emulated => emulated_ballot(WarpOp::VoteAll, mask, predicate) == mask,
    }
}

/// Whether `predicate` is true in at least one lane of `mask` (`__any_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn any(mask: u32, predicate: bool) -> bool {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => unsafe { nvvm::vote_any(mask, predicate) },
        emulated => emulated_ballot(WarpOp::VoteAny, mask, predicate) != 0,
    }
}

/// The lanes of `mask` in which `predicate` is true, one bit per lane (`__ballot_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => unsafe { nvvm::vote_ballot(mask, predicate) },
        emulated => emulated_ballot(WarpOp::Ballot, mask, predicate),
    }
}

#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn emulated_ballot(op: WarpOp, mask: u32, predicate: bool) -> u32 {
    emulated::current().vote(op, mask, predicate)
}

/// The lanes of `mask` with the same `value` as this lane, one bit per lane (`__match_any_sync`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn match_any(mask: u32, value: u32) -> u32 {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => unsafe { nvvm::match_any(mask, value) },
        emulated => {
            let values = emulated::current().exchange(WarpOp::MatchAny, mask, u64::from(value));
            lanes(mask).filter(|&lane| values[lane as usize] == u64::from(value)).fold(0, |same, lane| same | 1 << lane)
        },
    }
}

#[cfg(not(target_arch = "nvptx64"))]
fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    (0..SIZE).filter(move |lane| mask & (1 << lane) != 0)
}

macro_rules! integer_reductions {
    ($($(#[$doc:meta])* $name:ident = $intrinsic:ident, $op:ident, $identity:expr, |$a:ident, $b:ident| $fold:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(mask: u32, value: u32) -> u32 {
            target! {
                // SAFETY: the module's contract: every lane of the mask executes this call.
                nvptx => unsafe { nvvm::$intrinsic(value, mask) },
                emulated => {
                    let values = emulated::current().exchange(WarpOp::$op, mask, u64::from(value));
                    lanes(mask).map(|lane| values[lane as usize] as u32).fold($identity, |$a: u32, $b: u32| $fold)
                },
            }
        }
    )*};
}

integer_reductions! {
    /// Σ `value` (mod 2³²) over the lanes of `mask`, in every lane of the mask, by one instruction
    /// (`__reduce_add_sync`).
    sum_u32 = redux_add, ReduceAdd, 0, |a, b| a.wrapping_add(b);
    /// The largest `value` of the lanes of `mask`, in every lane of the mask, by one instruction (`__reduce_max_sync`).
    max_u32 = redux_max, ReduceMax, 0, |a, b| a.max(b);
    /// The smallest `value` of the lanes of `mask`, in every lane of the mask, by one instruction
    /// (`__reduce_min_sync`).
    min_u32 = redux_min, ReduceMin, u32::MAX, |a, b| a.min(b);
}

/// Reduces over each group of `width` consecutive lanes by a butterfly of shuffles. `width` is a power of two, at most
/// 32.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane; it gets the result of its group. *Deterministic*: yes,
/// the tree is fixed. `combine` must be associative and commutative up to rounding.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_width<T: Word>(mut value: T, width: u32, combine: impl Fn(T, T) -> T) -> T {
    let mut distance = width / 2;
    while distance > 0 {
        value = combine(value, shuffle_xor(FULL, value, distance));
        distance /= 2;
    }
    value
}

/// [`reduce_width`] over all 32 lanes.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce<T: Word>(value: T, combine: impl Fn(T, T) -> T) -> T {
    reduce_width(value, SIZE, combine)
}

/// Inclusive scan over the lanes with an associative `combine`: lane i gets `value₀ ∘ … ∘ valueᵢ`.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane. *Deterministic*: yes.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn inclusive_scan<T: Word>(mut value: T, combine: impl Fn(T, T) -> T) -> T {
    let mut distance = 1;
    while distance < SIZE {
        let below = shuffle_up(FULL, value, distance);
        if lane_id() >= distance {
            value = combine(below, value);
        }
        distance *= 2;
    }
    value
}
