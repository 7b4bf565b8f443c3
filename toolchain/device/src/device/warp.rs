//! Operations of a warp: 32 threads (*lanes*) that execute together and exchange registers.
//!
//! A `mask` has one bit for each participating lane; every lane of the mask must execute the same operation with the
//! same mask. [`FULL`] selects all 32 lanes. On a GPU, an operation by a lane outside its mask, and a read from such a
//! lane, is undefined. The emulator reports both, and lanes of the mask that do not arrive.
//!
//! ```
//! # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
//! #[kernel(safe)]
//! fn add<'n>(n: Len<'n>, x: In<'n, f32>, sums: Out<'n, f32>) {
//!     if let Some(i) = n.element() {
//!         sums.set(&i, warp::reduce(x.get(&i), |a, b| a + b));
//!     }
//! }
//!
//! # let device = Emulator::default();
//! let (x, mut sums) = (device.upload(&[0.5; 64])?, device.zeros(64)?);
//! add(&device, Shape::new(1, 64), 64, &x, &mut sums)?;
//! assert_eq!(device.to_vec(&sums)?, [16.0; 64]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn lanes(out: PerThread<u32>) {
///     out.set(warp::lane_id());
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// lanes(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[30..34], [30, 31, 0, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn lane_id() -> u32 {
    thread::index_in_block() % SIZE
}

/// The warp's index in its block.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn warps(out: PerThread<u32>) {
///     out.set(warp::warp_id());
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// warps(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[30..34], [0, 0, 1, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn warp_id() -> u32 {
    thread::index_in_block() / SIZE
}

/// [`warp_id`], broadcast from lane 0: the compiler and the audit of `warpkov-build` then know that a branch on it does
/// not divide a warp.
///
/// *Takes part*: all 32 lanes.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn warps(out: PerThread<u32>) {
///     out.set(warp::warp_role());
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(64)?;
/// warps(&device, Shape::new(1, 64), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[30..34], [0, 0, 1, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warp_role() -> u32 {
    shuffle(FULL, warp_id(), 0)
}

/// Waits for the lanes of `mask` and makes their memory writes visible to each other (`__syncwarp`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn reverse(out: GlobalMut<u32>) {
///     let tile = shared_array!(tile: u32; 32);
///     let lane = warp::lane_id();
///     tile.set(lane, lane);
///     warp::sync_warp(warp::FULL);
///     out.set(lane, tile.get(31 - lane));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// // SAFETY: `out` has one element per thread.
/// unsafe { reverse(&device, Shape::new(1, 32), &mut out)? };
/// assert_eq!(device.to_vec(&out)?[..3], [31_u32, 30, 29]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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

/// The operand of a shuffle within segments of `width` lanes: the bits of a lane that number its segment, and the last lane
/// of the first segment.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn segments(width: u32, last: u32) -> u32 {
    (SIZE - width) << 8 | last
}

macro_rules! shuffles {
    ($($(#[$doc:meta])* $name:ident, $(#[$doc_width:meta])* $in_segments:ident = $intrinsic:ident, $op:ident, $last:literal,
       $by:ident, |$lane:ident, $width:ident| $source:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name<T: Word>(mask: u32, value: T, $by: u32) -> T {
            $in_segments(mask, value, $by, SIZE)
        }

        $(#[$doc_width])*
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $in_segments<T: Word>(mask: u32, value: T, $by: u32, width: u32) -> T {
            target! {
                // SAFETY: the module's contract: every lane of the mask executes this call.
                nvptx => by_halves(value, |half| unsafe { nvvm::$intrinsic(mask, half, $by, segments(width, $last)) }),
                emulated => {
                    assert!(width.is_power_of_two() && width <= SIZE, "a segment has 1, 2, 4, 8, 16 or 32 lanes, not {width}");
                    let $width = width;
                    emulated_shuffle(WarpOp::$op, mask, value, |$lane| $source)
                },
            }
        }
    )*};
}

shuffles! {
    /// The value of lane `source` mod 32 (`__shfl_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn first(out: PerThread<u32>) {
    ///     out.set(warp::shuffle(warp::FULL, 10 * warp::lane_id(), 5));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// first(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [50; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle,
    /// [`shuffle`] within each segment of `width` lanes, 1, 2, 4, 8, 16 or 32: the value of the segment's lane `source` mod
    /// `width`.
    ///
    /// ```
    /// use warpkov_device::device::{GlobalMut, kernel, thread, warp};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// The first index of each segment of 8 lanes, and a wide sum over the segment.
    /// #[kernel]
    /// fn segments(first: GlobalMut<u32>, sums: GlobalMut<u64>) {
    ///     let t = thread::thread_idx_x();
    ///     first.set(t, warp::shuffle_in(warp::FULL, t, 0, 8));
    ///     let mut sum = u64::from(t) << 32;
    ///     for distance in [4, 2, 1] {
    ///         sum += warp::shuffle_xor_in(warp::FULL, sum, distance, 8);
    ///     }
    ///     sums.set(t, sum);
    /// }
    ///
    /// let device = Emulator::default();
    /// let (mut first, mut sums) = (device.zeros(32)?, device.zeros(32)?);
    /// // SAFETY: both buffers have one element per thread.
    /// unsafe { segments(&device, Shape::new(1, 32), &mut first, &mut sums)? };
    /// assert_eq!(device.to_vec(&first)?[6..10], [0, 0, 8, 8]);
    /// assert_eq!(device.to_vec(&sums)?[31], (24..32).sum::<u64>() << 32);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle_in = shuffle_index, Shuffle, 31, source, |lane, width| Some(lane / width * width + source % width);

    /// The value of lane i − `delta` in lane i; lanes below `delta` keep their own (`__shfl_up_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn below(out: PerThread<u32>) {
    ///     out.set(warp::shuffle_up(warp::FULL, warp::lane_id(), 1));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// below(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[..4], [0, 0, 1, 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle_up,
    /// [`shuffle_up`] within each segment of `width` lanes; its first `delta` lanes keep their own.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn below(out: PerThread<u32>) {
    ///     out.set(warp::shuffle_up_in(warp::FULL, warp::lane_id(), 1, 8));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// below(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[6..10], [5, 6, 8, 8]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle_up_in = shuffle_up, ShuffleUp, 0, delta,
        |lane, width| lane.checked_sub(delta).filter(|&from| from >= lane / width * width);

    /// The value of lane i + `delta` in lane i; the last `delta` lanes keep their own (`__shfl_down_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn above(out: PerThread<u32>) {
    ///     out.set(warp::shuffle_down(warp::FULL, warp::lane_id(), 1));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// above(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[28..], [29, 30, 31, 31]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle_down,
    /// [`shuffle_down`] within each segment of `width` lanes; its last `delta` lanes keep their own.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn above(out: PerThread<u32>) {
    ///     out.set(warp::shuffle_down_in(warp::FULL, warp::lane_id(), 1, 8));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// above(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[5..9], [6, 7, 7, 9]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle_down_in = shuffle_down, ShuffleDown, 31, delta,
        |lane, width| lane.checked_add(delta).filter(|&from| from / width == lane / width);

    /// The value of lane i ⊕ `lanes` (bitwise exclusive or) in lane i (`__shfl_xor_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn neighbour(out: PerThread<u32>) {
    ///     out.set(warp::shuffle_xor(warp::FULL, warp::lane_id(), 1));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// neighbour(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[..4], [1, 0, 3, 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle_xor,
    /// [`shuffle_xor`] within each segment of `width` lanes: `lanes` is less than `width`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn opposite(out: PerThread<u32>) {
    ///     out.set(warp::shuffle_xor_in(warp::FULL, warp::lane_id(), 3, 4));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// opposite(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[2..6], [1, 0, 7, 6]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    shuffle_xor_in = shuffle_xor, ShuffleXor, 31, lanes, |lane, width| Some(lane / width * width + (lane ^ lanes) % width);
}

/// Whether `predicate` is true in every lane of `mask` (`__all_sync`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn vote(out: PerThread<u32>) {
///     out.set(u32::from(warp::all(warp::FULL, warp::lane_id() < 31)));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// vote(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [0; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn vote(out: PerThread<u32>) {
///     out.set(u32::from(warp::any(warp::FULL, warp::lane_id() == 31)));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// vote(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [1; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn vote(out: PerThread<u32>) {
///     out.set(warp::ballot(warp::FULL, warp::lane_id() < 4));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// vote(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [0b1111; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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

/// Whether `predicate` is the same in all lanes of `mask` (`vote.sync.uni`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn vote(out: PerThread<u32>) {
///     out.set(u32::from(warp::uniform(warp::FULL, warp::lane_id() == 31)));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// vote(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [0; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn uniform(mask: u32, predicate: bool) -> bool {
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => unsafe { nvvm::vote_uniform(mask, predicate) },
        emulated => {
            let ballot = emulated_ballot(WarpOp::VoteUniform, mask, predicate);
            ballot == 0 || ballot == mask
        },
    }
}

/// The lanes of `mask` with the same `value` as this lane, one bit per lane (`__match_any_sync`). Values are compared by
/// their bits.
///
/// ```
/// use warpkov_device::device::{Global, GlobalMut, kernel, thread, warp};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// /// The lanes with equal x, whether all are equal, and the exclusive or of the numbers below 2.
/// #[kernel]
/// fn compare(x: Global<u64>, out: GlobalMut<u32>) {
///     let i = thread::thread_idx_x() as usize;
///     let x = x.get(i);
///     let (same, all) = (warp::match_any(warp::FULL, x), warp::match_all(warp::FULL, x));
///     let odd = warp::xor_u32(warp::FULL, x as u32 % 2);
///     out.set(3 * i, same);
///     out.set(3 * i + 1, u32::from(all));
///     out.set(3 * i + 2, odd);
/// }
///
/// let device = Emulator::default();
/// let x: Vec<u64> = (0..32).map(|lane| (lane % 3) << 40 | lane % 2).collect();
/// let (x, mut out) = (device.upload(&x)?, device.zeros(96)?);
/// // SAFETY: `x` has one element per thread, and `out` three.
/// unsafe { compare(&device, Shape::new(1, 32), &x, &mut out)? };
/// assert_eq!(device.to_vec(&out)?[3..6], [0x8208_2082, 0, 0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn match_any<T: Word>(mask: u32, value: T) -> u32 {
    let raw = value.to_raw();
    target! {
        // SAFETY: the module's contract: every lane of the mask executes this call.
        nvptx => unsafe { if T::WIDE { nvvm::match_any_wide(mask, raw) } else { nvvm::match_any(mask, raw as u32) } },
        emulated => {
            let values = emulated::current().exchange(WarpOp::MatchAny, mask, raw);
            lanes(mask).filter(|&lane| values[lane as usize] == raw).fold(0, |same, lane| same | 1 << lane)
        },
    }
}

/// Whether all lanes of `mask` have the same `value` (`__match_all_sync`).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn compare(out: PerThread<u32>) {
///     let (equal, different) = (warp::match_all(warp::FULL, 7), warp::match_all(warp::FULL, warp::lane_id()));
///     out.set(u32::from(equal && !different));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// compare(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [1; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn match_all<T: Word>(mask: u32, value: T) -> bool {
    match_any(mask, value) == mask
}

/// Lanes that execute this call together with this lane, one bit per lane (`__activemask`): any set that contains it.
///
/// Lanes that take the same branch need not execute together, so the result is no mask for an operation of all lanes in the
/// branch. Whatever the result, one lane may act for those that have it, such as by one atomic addition of their number. Under
/// emulation every lane executes alone.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn own_bit(out: PerThread<u32>) {
///     out.set(warp::active_mask() >> warp::lane_id() & 1);
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// own_bit(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [1; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
pub fn active_mask() -> u32 {
    target! {
        // SAFETY: the instruction has no precondition.
        nvptx => unsafe { nvvm::active_mask() },
        emulated => 1 << lane_id(),
    }
}

#[cfg(not(target_arch = "nvptx64"))]
fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    (0..SIZE).filter(move |lane| mask & (1 << lane) != 0)
}

macro_rules! integer_reductions {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $intrinsic:ident, $op:ident, $identity:expr, |$a:ident, $b:ident| $fold:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(mask: u32, value: $ty) -> $ty {
            target! {
                // SAFETY: the module's contract: every lane of the mask executes this call.
                nvptx => unsafe { nvvm::$intrinsic(value, mask) },
                emulated => {
                    let values = emulated::current().exchange(WarpOp::$op, mask, value as u64);
                    lanes(mask).map(|lane| values[lane as usize] as $ty).fold($identity, |$a: $ty, $b: $ty| $fold)
                },
            }
        }
    )*};
}

integer_reductions! {
    /// Σ `value` (mod 2³²) over the lanes of `mask`, in every lane of the mask, by one instruction
    /// (`__reduce_add_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn sum(out: PerThread<u32>) {
    ///     out.set(warp::sum_u32(warp::FULL, warp::lane_id()));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// sum(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [496; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    sum_u32: u32 = redux_add, ReduceAdd, 0, |a, b| a.wrapping_add(b);
    /// The largest `value` of the lanes of `mask`, in every lane of the mask, by one instruction (`__reduce_max_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn largest(out: PerThread<u32>) {
    ///     out.set(warp::max_u32(warp::FULL, warp::lane_id()));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// largest(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [31; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    max_u32: u32 = redux_max, ReduceMax, 0, |a, b| a.max(b);
    /// The smallest `value` of the lanes of `mask`, in every lane of the mask, by one instruction
    /// (`__reduce_min_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn smallest(out: PerThread<u32>) {
    ///     out.set(warp::min_u32(warp::FULL, warp::lane_id() + 3));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// smallest(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [3; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    min_u32: u32 = redux_min, ReduceMin, u32::MAX, |a, b| a.min(b);
    /// [`max_u32`] of signed numbers.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn largest(out: PerThread<i32>) {
    ///     out.set(warp::max_i32(warp::FULL, warp::lane_id() as i32 - 40));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// largest(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [-9; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    max_i32: i32 = redux_max_signed, ReduceMaxSigned, i32::MIN, |a, b| a.max(b);
    /// [`min_u32`] of signed numbers.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn smallest(out: PerThread<i32>) {
    ///     out.set(warp::min_i32(warp::FULL, warp::lane_id() as i32 - 40));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// smallest(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [-40; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    min_i32: i32 = redux_min_signed, ReduceMinSigned, i32::MAX, |a, b| a.min(b);
    /// Bitwise and of `value` over the lanes of `mask`, in every lane of the mask, by one instruction
    /// (`__reduce_and_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn common(out: PerThread<u32>) {
    ///     out.set(warp::and_u32(warp::FULL, warp::lane_id() | 0b110_0000));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// common(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [0b110_0000; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    and_u32: u32 = redux_and, ReduceAnd, u32::MAX, |a, b| a & b;
    /// Bitwise or, as [`and_u32`] (`__reduce_or_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn bits(out: PerThread<u32>) {
    ///     out.set(warp::or_u32(warp::FULL, 2 * warp::lane_id()));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// bits(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [0b11_1110; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    or_u32: u32 = redux_or, ReduceOr, 0, |a, b| a | b;
    /// Bitwise exclusive or, as [`and_u32`] (`__reduce_xor_sync`).
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn parity(out: PerThread<u32>) {
    ///     out.set(warp::xor_u32(warp::FULL, u32::from(warp::lane_id() < 5)));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// parity(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [1; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    xor_u32: u32 = redux_xor, ReduceXor, 0, |a, b| a ^ b;
}

/// Reduces over each group of `width` consecutive lanes by a butterfly of shuffles. `width` is a power of two, at most
/// 32.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane; it gets the result of its group. *Deterministic*: yes,
/// the tree is fixed. `combine` must be associative and commutative up to rounding.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn sums(out: PerThread<u32>) {
///     out.set(warp::reduce_width(warp::lane_id(), 8, |a, b| a + b));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// sums(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[6..10], [28, 28, 92, 92]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
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
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn sum(out: PerThread<u32>) {
///     out.set(warp::reduce(warp::lane_id(), |a, b| a + b));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// sum(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [496; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce<T: Word>(value: T, combine: impl Fn(T, T) -> T) -> T {
    reduce_width(value, SIZE, combine)
}

/// Inclusive scan over the lanes with an associative `combine`: lane i gets `value₀ ∘ … ∘ valueᵢ`.
///
/// *Takes part*: all 32 lanes. *Valid result in*: every lane. *Deterministic*: yes.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn sums(out: PerThread<u32>) {
///     out.set(warp::inclusive_scan(warp::lane_id(), |a, b| a + b));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// sums(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..5], [0, 1, 3, 6, 10]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn inclusive_scan<T: Word>(value: T, combine: impl Fn(T, T) -> T) -> T {
    scan_lanes(FULL, value, combine)
}

/// [`inclusive_scan`] over the lanes of `mask`, which are the first lanes of the warp.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) fn scan_lanes<T: Word>(mask: u32, mut value: T, combine: impl Fn(T, T) -> T) -> T {
    let mut distance = 1;
    while distance < SIZE {
        let below = shuffle_up(mask, value, distance);
        if lane_id() >= distance {
            value = combine(below, value);
        }
        distance *= 2;
    }
    value
}
