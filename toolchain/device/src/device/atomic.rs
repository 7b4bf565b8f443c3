//! Atomic operations on global and shared memory: loads, stores and read-modify-write operations.
//!
//! An operation has an [`Ordering`] and a [`Scope`]. `Relaxed` makes the operation on the cell atomic and orders
//! nothing else; this suffices for counters and maxima. `AcqRel` also orders the accesses around it; this is necessary
//! if the cell signals that other data is ready. The scope names the threads for which this holds: those of the block,
//! the GPU, or the system. Operations with `SeqCst`, and [`fence`]s with it, have one order on which all threads agree.
//!
//! ```
//! use warpkov_device::device::atomic::{self, AtomicInteger, Ordering, Scope};
//! use warpkov_device::device::{GlobalMut, kernel, thread};
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Shape};
//!
//! /// Every thread toggles its bit and doubles a product by compare-and-exchange. The last one raises a flag.
//! #[kernel]
//! fn toggle(bits: GlobalMut<u64>, flag: GlobalMut<u32>) {
//!     u64::fetch_xor((bits, 0), 1 << thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
//!     let mut seen = atomic::load((bits, 1), Ordering::Relaxed, Scope::Device);
//!     loop {
//!         let found = atomic::compare_exchange((bits, 1), seen, 2 * seen, Ordering::AcqRel, Scope::Device);
//!         if found == seen {
//!             break;
//!         }
//!         seen = found;
//!     }
//!     if seen == 1 << 31 {
//!         atomic::fence(Ordering::Release, Scope::System);
//!         atomic::store((flag, 0), 1, Ordering::Relaxed, Scope::System);
//!     }
//! }
//!
//! let device = Emulator::default();
//! let (mut bits, mut flag) = (device.upload(&[0_u64, 1])?, device.zeros(1)?);
//! // SAFETY: `bits` has two elements, and `flag` one.
//! unsafe { toggle(&device, Shape::new(1, 32), &mut bits, &mut flag)? };
//! assert_eq!(device.to_vec(&bits)?, [0xffff_ffff, 1 << 32]);
//! assert_eq!(device.to_vec(&flag)?, [1_u32]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```
//!
//! Floating-point sums by [`add`] depend on the order of the threads, and therefore differ from run to run in the last
//! bits. Maxima, minima and integer sums are deterministic.

pub use core::sync::atomic::Ordering;

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread::{self as emulated, Atomic};

#[cfg(target_arch = "nvptx64")]
use super::Element;
use super::cluster::RemoteShared;
use super::{AnyIndex, GlobalMut, Shared, Word};

/// The threads for which an operation is atomic and its ordering holds.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::{AtomicNumber, Ordering, Scope};
/// #[kernel]
/// fn count(out: GlobalMut<u32>) {
///     let counter = shared_array!(counter: u32; 1);
///     if thread::thread_idx_x() == 0 {
///         counter.set(0, 0);
///     }
///     thread::sync_threads();
///     let before = u32::fetch_add((counter, 0), 1, Ordering::Relaxed, Scope::Block);
///     if before == 31 {
///         atomic::store((out, thread::block_idx_x() as usize), 32, Ordering::Relaxed, Scope::Device);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(2)?;
/// // SAFETY: `out` has one element per block.
/// unsafe { count(&device, Shape::new(2, 32), &mut out)? };
/// assert_eq!(device.to_vec(&out)?, [32_u32, 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of the same block (`.cta`).
    Block,
    /// Threads of the same GPU, and so of the same cluster (`.gpu`).
    Device,
    /// All threads that share the memory, including those of other GPUs and of the host (`.sys`).
    System,
}

/// The new value, from the old value and the operand.
#[cfg(not(target_arch = "nvptx64"))]
type Update<T> = fn(T, T) -> T;

/// One `atom` instruction. `atom!` selects its ordering and `at_scope!` its scope; both are constant after inlining.
#[cfg(target_arch = "nvptx64")]
macro_rules! atom_instruction {
    ($sem:literal, $scope:literal, $space:literal, $op:literal, $address:ident: $address_class:ident,
     $value_class:ident -> $raw:ty, [$($operand:ident),*], $operands:literal) => {{
        let old: $raw;
        asm!(concat!("atom.", $sem, ".", $scope, ".", $space, ".", $op, " {}, [{}], ", $operands, ";"),
             out($value_class) old, in($address_class) $address, $(in($value_class) $operand,)*
             options(nostack, preserves_flags));
        old
    }};
}

#[cfg(target_arch = "nvptx64")]
macro_rules! at_scope {
    ($instruction:ident, $sem:literal, $scope:expr, $($rest:tt)*) => {
        match $scope {
            Scope::Block => $instruction!($sem, "cta", $($rest)*),
            Scope::Device => $instruction!($sem, "gpu", $($rest)*),
            Scope::System => $instruction!($sem, "sys", $($rest)*),
        }
    };
}

#[cfg(target_arch = "nvptx64")]
macro_rules! atom {
    ($order:expr, $scope:expr, $($rest:tt)*) => {
        match $order {
            Ordering::Relaxed => at_scope!(atom_instruction, "relaxed", $scope, $($rest)*),
            Ordering::Acquire => at_scope!(atom_instruction, "acquire", $scope, $($rest)*),
            Ordering::Release => at_scope!(atom_instruction, "release", $scope, $($rest)*),
            // `atom` has no sequentially consistent form: a fence precedes it.
            _ => at_scope!(atom_instruction, "acq_rel", $scope, $($rest)*),
        }
    };
}

macro_rules! operations {
    ($trait:ident, $(#[$trait_doc:meta])* { $($(#[$doc:meta])* $name:ident;)* }
     $($ty:ty: $raw:ty, $class:ident, { $($op:ident = $ptx:literal, $update:expr;)* })*) => {
        $(#[$trait_doc])*
        pub trait $trait: Word {
            $(
                $(#[$doc])*
                #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                fn $name(cell: impl Cell<Self>, value: Self, order: Ordering, scope: Scope) -> Self;
            )*
        }
        $(
            impl $trait for $ty {
                $(
                    #[inline(always)]
                    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                    fn $op(cell: impl Cell<Self>, value: Self, order: Ordering, scope: Scope) -> Self {
                        let scope = cell.scope(scope);
                        fence_before(order, scope);
                        target! {
                            nvptx => {
                                let operand = value.to_raw() as $raw;
                                // SAFETY: the view's buffer contains the cell (the launcher's *Safety* section) and is
                                // aligned for its type.
                                let old: $raw = unsafe {
                                    match cell.address() {
                                        Address::Global(address) =>
                                            atom!(order, scope, "global", $ptx, address: reg64, $class -> $raw, [operand], "{}"),
                                        Address::Shared(address) =>
                                            atom!(order, scope, "shared", $ptx, address: reg32, $class -> $raw, [operand], "{}"),
                                        Address::Cluster(address) =>
                                            atom!(order, scope, "shared::cluster", $ptx, address: reg32, $class -> $raw, [operand], "{}"),
                                    }
                                };
                                Self::from_raw(old as u64)
                            },
                            emulated => {
                                let update: Update<$ty> = $update;
                                cell.update(Atomic { reads: true, writes: true, expected: None, order, scope }, |old| update(old, value))
                            },
                        }
                    }
                )*
            }
        )*
    };
}

/// Address of a cell.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub enum Address {
    /// An address in global memory.
    Global(u64),
    /// A byte address in the block's shared memory.
    Shared(u32),
    /// A byte address in the cluster's shared memory.
    Cluster(u32),
}

/// A memory cell for atomic operations: `(view, index)`.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::*;
/// fn bump(cell: impl atomic::Cell<u32>) {
///     atomic::add(cell, 1);
/// }
///
/// #[kernel(safe)]
/// fn count(cells: Atomics<u32>) {
///     bump(cells.at(0));
///     bump(cells.at(1));
/// }
///
/// # let device = Emulator::default();
/// let mut cells = device.upload(&[0_u32, 5])?;
/// count(&device, Shape::new(1, 32), &mut cells)?;
/// assert_eq!(device.to_vec(&cells)?, [32, 37]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Cell<T> {
    /// Its address.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    fn address(&self) -> Address;
    /// Replaces the value v by `update(v)` and returns v.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    #[track_caller]
    fn update(&self, atomic: Atomic, update: impl Fn(T) -> T) -> T;
    /// The scope of an operation that writes the cell and asks for `scope`.
    #[doc(hidden)]
    #[inline(always)]
    fn scope(&self, scope: Scope) -> Scope {
        scope
    }
}

impl<T: Word, I: AnyIndex> Cell<T> for (GlobalMut<T>, I) {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn address(&self) -> Address {
        // `atom.global` takes an address in the global window. For global memory it equals the generic address.
        Address::Global(self.0.address(self.1.wide()) as u64)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn update(&self, atomic: Atomic, update: impl Fn(T) -> T) -> T {
        self.0.update(self.1.wide(), atomic, update)
    }
}

impl<T: Word, I: AnyIndex> Cell<T> for (Shared<T>, I) {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn address(&self) -> Address {
        Address::Shared(self.0.address(self.1.narrow()))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn update(&self, atomic: Atomic, update: impl Fn(T) -> T) -> T {
        let (address, bytes) = (self.0.address(self.1.narrow()), if T::WIDE { 8 } else { 4 });
        let update = |raw| update(T::from_raw(raw)).to_raw();
        T::from_raw(emulated::current().update_shared(address, bytes, atomic, update))
    }
}

impl<T: Word, I: AnyIndex> Cell<T> for (RemoteShared<T>, I) {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn address(&self) -> Address {
        Address::Cluster(self.0.address(self.1.narrow()))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn update(&self, atomic: Atomic, update: impl Fn(T) -> T) -> T {
        let (address, bytes) = (self.0.address(self.1.narrow()), if T::WIDE { 8 } else { 4 });
        let update = |raw| update(T::from_raw(raw)).to_raw();
        T::from_raw(emulated::current().update_remote(self.0.rank(), address, bytes, atomic, update))
    }
}

operations! {
    AtomicNumber,
    /// Atomic operations on all numbers. Each returns the old value.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::device::atomic::*;
    /// #[kernel(safe)]
    /// fn sum(cells: Atomics<f32>) {
    ///     f32::fetch_add(cells.at(0), thread::thread_idx_x() as f32, Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[0.0_f32])?;
    /// sum(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [496.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    {
        /// Adds `value` (integers wrap).
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn sum(cells: Atomics<f64>) {
        ///     f64::fetch_add(cells.at(0), 0.5, Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[1.0])?;
        /// sum(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [17.0]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_add;
        /// Writes `value`.
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn pass_on(cells: Atomics<u32>) {
        ///     let before = u32::fetch_replace(cells.at(0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
        ///     atomic::add(cells.at(1), before);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[7_u32, 0])?;
        /// pass_on(&device, Shape::new(1, 32), &mut cells)?;
        /// let cells = device.to_vec(&cells)?;
        /// assert_eq!(cells[0] + cells[1], 7 + (0..32).sum::<u32>());
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_replace;
    }
    u32: u32, reg32, { fetch_add = "add.u32", |old, value| old.wrapping_add(value); fetch_replace = "exch.b32", |_, value| value; }
    i32: u32, reg32, { fetch_add = "add.s32", |old, value| old.wrapping_add(value); fetch_replace = "exch.b32", |_, value| value; }
    f32: u32, reg32, { fetch_add = "add.f32", |old, value| old + value; fetch_replace = "exch.b32", |_, value| value; }
    u64: u64, reg64, { fetch_add = "add.u64", |old, value| old.wrapping_add(value); fetch_replace = "exch.b64", |_, value| value; }
    // Two's complement: the sum of signed numbers has the bits of the unsigned sum.
    i64: u64, reg64, { fetch_add = "add.u64", |old, value| old.wrapping_add(value); fetch_replace = "exch.b64", |_, value| value; }
    f64: u64, reg64, { fetch_add = "add.f64", |old, value| old + value; fetch_replace = "exch.b64", |_, value| value; }
}

operations! {
    AtomicInteger,
    /// Atomic operations on integers. Each returns the old value.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::device::atomic::*;
    /// #[kernel(safe)]
    /// fn flags(cells: Atomics<u64>) {
    ///     u64::fetch_or(cells.at(0), 1 << thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[0_u64])?;
    /// flags(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [0xffff_ffff]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    {
        /// Writes the larger of the old value and `value`.
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn largest(cells: Atomics<u32>) {
        ///     u32::fetch_max(cells.at(0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[5_u32])?;
        /// largest(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [31]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_max;
        /// Writes the smaller of the old value and `value`.
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn smallest(cells: Atomics<i64>) {
        ///     i64::fetch_min(cells.at(0), -i64::from(thread::thread_idx_x()), Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[5_i64])?;
        /// smallest(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [-31]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_min;
        /// Bitwise and.
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn clear(cells: Atomics<u32>) {
        ///     u32::fetch_and(cells.at(0), !(1 << (thread::thread_idx_x() / 2)), Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[u32::MAX])?;
        /// clear(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [0xffff_0000]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_and;
        /// Bitwise or.
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn set(cells: Atomics<u32>) {
        ///     u32::fetch_or(cells.at(0), 1 << (thread::thread_idx_x() / 2), Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[0_u32])?;
        /// set(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [0xffff]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_or;
        /// Bitwise exclusive or.
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn toggle(cells: Atomics<u32>) {
        ///     u32::fetch_xor(cells.at(0), 1 << thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[0xffff_u32])?;
        /// toggle(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [0xffff_0000]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_xor;
    }
    u32: u32, reg32, {
        fetch_max = "max.u32", |old, value| old.max(value);
        fetch_min = "min.u32", |old, value| old.min(value);
        fetch_and = "and.b32", |old, value| old & value;
        fetch_or = "or.b32", |old, value| old | value;
        fetch_xor = "xor.b32", |old, value| old ^ value;
    }
    i32: u32, reg32, {
        fetch_max = "max.s32", |old, value| old.max(value);
        fetch_min = "min.s32", |old, value| old.min(value);
        fetch_and = "and.b32", |old, value| old & value;
        fetch_or = "or.b32", |old, value| old | value;
        fetch_xor = "xor.b32", |old, value| old ^ value;
    }
    u64: u64, reg64, {
        fetch_max = "max.u64", |old, value| old.max(value);
        fetch_min = "min.u64", |old, value| old.min(value);
        fetch_and = "and.b64", |old, value| old & value;
        fetch_or = "or.b64", |old, value| old | value;
        fetch_xor = "xor.b64", |old, value| old ^ value;
    }
    i64: u64, reg64, {
        fetch_max = "max.s64", |old, value| old.max(value);
        fetch_min = "min.s64", |old, value| old.min(value);
        fetch_and = "and.b64", |old, value| old & value;
        fetch_or = "or.b64", |old, value| old | value;
        fetch_xor = "xor.b64", |old, value| old ^ value;
    }
}

operations! {
    AtomicCounter,
    /// Counters that wrap at a limit. Each operation returns the old value.
    ///
    /// ```
    /// use warpkov_device::device::atomic::{AtomicCounter, Ordering, Scope};
    /// use warpkov_device::device::{GlobalMut, kernel};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// Counts the threads modulo 10, and down from 10.
    /// #[kernel]
    /// fn count(counters: GlobalMut<u32>) {
    ///     u32::fetch_inc((counters, 0), 9, Ordering::Relaxed, Scope::Device);
    ///     u32::fetch_dec((counters, 1), 10, Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut counters = device.zeros(2)?;
    /// // SAFETY: `counters` has two elements.
    /// unsafe { count(&device, Shape::new(1, 23), &mut counters)? };
    /// assert_eq!(device.to_vec(&counters)?, [3_u32, 10]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    {
        /// Adds 1, or writes 0 if the old value is `value` or more (`atomicInc`).
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn count(cells: Atomics<u32>) {
        ///     u32::fetch_inc(cells.at(0), 9, Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[0_u32])?;
        /// count(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [32 % 10]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_inc;
        /// Subtracts 1, or writes `value` if the old value is 0 or more than `value` (`atomicDec`).
        ///
        /// ```
        /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
        /// # use warpkov_device::device::atomic::*;
        /// #[kernel(safe)]
        /// fn count_down(cells: Atomics<u32>) {
        ///     u32::fetch_dec(cells.at(0), 40, Ordering::Relaxed, Scope::Device);
        /// }
        ///
        /// # let device = Emulator::default();
        /// let mut cells = device.upload(&[35_u32])?;
        /// count_down(&device, Shape::new(1, 32), &mut cells)?;
        /// assert_eq!(device.to_vec(&cells)?, [3]);
        /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
        /// ```
        fetch_dec;
    }
    u32: u32, reg32, {
        fetch_inc = "inc.u32", |old, value| if old >= value { 0 } else { old + 1 };
        fetch_dec = "dec.u32", |old, value| if old == 0 || old > value { value } else { old - 1 };
    }
}

/// Atomic maxima and minima of floating-point numbers. Each operation returns the old value.
///
/// The results do not depend on the order of the threads. −0 is less than +0. A `value` that is NaN changes nothing; a cell
/// that holds NaN orders it by its sign, above +∞ or below −∞.
///
/// ```
/// use warpkov_device::device::atomic::{AtomicFloat, Ordering, Scope};
/// use warpkov_device::device::{Global, GlobalMut, kernel, thread};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// #[kernel]
/// fn extremes(x: Global<f64>, found: GlobalMut<f64>) {
///     let x = x.get(thread::index_1d());
///     f64::fetch_max((found, 0), x, Ordering::Relaxed, Scope::Device);
///     f64::fetch_min((found, 1), x, Ordering::Relaxed, Scope::Device);
/// }
///
/// let device = Emulator::default();
/// let x = device.upload(&[-1.5, f64::NAN, 2.0, -3.0])?;
/// let mut found = device.upload(&[f64::NEG_INFINITY, f64::INFINITY])?;
/// // SAFETY: `x` has one element per thread, and `found` has two.
/// unsafe { extremes(&device, Shape::new(1, 4), &x, &mut found)? };
/// assert_eq!(device.to_vec(&found)?, [2.0, -3.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait AtomicFloat: Word {
    /// Writes the larger of the old value and `value`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::device::atomic::*;
    /// #[kernel(safe)]
    /// fn largest(cells: Atomics<f32>) {
    ///     f32::fetch_max(cells.at(0), thread::thread_idx_x() as f32 - 40.0, Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[f32::NEG_INFINITY])?;
    /// largest(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [-9.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn fetch_max(cell: impl Cell<Self>, value: Self, order: Ordering, scope: Scope) -> Self;
    /// Writes the smaller of the old value and `value`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::device::atomic::*;
    /// #[kernel(safe)]
    /// fn smallest(cells: Atomics<f32>) {
    ///     f32::fetch_min(cells.at(0), thread::thread_idx_x() as f32 - 40.0, Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[f32::INFINITY])?;
    /// smallest(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [-40.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn fetch_min(cell: impl Cell<Self>, value: Self, order: Ordering, scope: Scope) -> Self;
}

/// Bits of floating-point numbers, read as integers: those of nonnegative numbers have the order of the numbers, those of
/// negative ones the opposite, and as unsigned integers they are larger.
macro_rules! extremes {
    ($ty:ty: $raw:ty, $class:ident, $($op:ident = $nonnegative:literal, $negative:literal, $wins:ident;)*) => {
        impl AtomicFloat for $ty {$(
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn $op(cell: impl Cell<Self>, value: Self, order: Ordering, scope: Scope) -> Self {
                if value.is_nan() {
                    return load(cell, order, scope);
                }
                let scope = cell.scope(scope);
                fence_before(order, scope);
                target! {
                    nvptx => {
                        let operand = value.to_bits();
                        // SAFETY: as for the other operations.
                        let old: $raw = unsafe {
                            match (cell.address(), value.is_sign_negative()) {
                                (Address::Global(at), false) =>
                                    atom!(order, scope, "global", $nonnegative, at: reg64, $class -> $raw, [operand], "{}"),
                                (Address::Global(at), true) =>
                                    atom!(order, scope, "global", $negative, at: reg64, $class -> $raw, [operand], "{}"),
                                (Address::Shared(at), false) =>
                                    atom!(order, scope, "shared", $nonnegative, at: reg32, $class -> $raw, [operand], "{}"),
                                (Address::Cluster(at), false) =>
                                    atom!(order, scope, "shared::cluster", $nonnegative, at: reg32, $class -> $raw, [operand], "{}"),
                                (Address::Shared(at), true) =>
                                    atom!(order, scope, "shared", $negative, at: reg32, $class -> $raw, [operand], "{}"),
                                (Address::Cluster(at), true) =>
                                    atom!(order, scope, "shared::cluster", $negative, at: reg32, $class -> $raw, [operand], "{}"),
                            }
                        };
                        <$ty>::from_bits(old)
                    },
                    emulated => {
                        let atomic = Atomic { reads: true, writes: true, expected: None, order, scope };
                        cell.update(atomic, |old| if value.total_cmp(&old).$wins() { value } else { old })
                    },
                }
            }
        )*}
    };
}
extremes!(f32: u32, reg32, fetch_max = "max.s32", "min.u32", is_gt; fetch_min = "min.s32", "max.u32", is_lt;);
extremes!(f64: u64, reg64, fetch_max = "max.s64", "min.u64", is_gt; fetch_min = "min.s64", "max.u64", is_lt;);

/// Adds `value` to a cell (`atomicAdd`), relaxed, at device scope. Returns the old value.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::*;
/// #[kernel(safe)]
/// fn count(cells: Atomics<u64>) {
///     atomic::add(cells.at(0), 1);
/// }
///
/// # let device = Emulator::default();
/// let mut cells = device.upload(&[0_u64])?;
/// count(&device, Shape::new(2, 32), &mut cells)?;
/// assert_eq!(device.to_vec(&cells)?, [64]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn add<T: AtomicNumber>(cell: impl Cell<T>, value: T) -> T {
    T::fetch_add(cell, value, Ordering::Relaxed, Scope::Device)
}

/// Writes the larger of a cell's value and `value` (`atomicMax`), relaxed, at device scope. Returns the old value.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::*;
/// #[kernel(safe)]
/// fn largest(cells: Atomics<u32>) {
///     atomic::max(cells.at(0), thread::thread_idx_x());
/// }
///
/// # let device = Emulator::default();
/// let mut cells = device.upload(&[5_u32])?;
/// largest(&device, Shape::new(1, 32), &mut cells)?;
/// assert_eq!(device.to_vec(&cells)?, [31]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn max<T: AtomicInteger>(cell: impl Cell<T>, value: T) -> T {
    T::fetch_max(cell, value, Ordering::Relaxed, Scope::Device)
}

/// Writes the smaller of a cell's value and `value` (`atomicMin`), relaxed, at device scope. Returns the old value.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::*;
/// #[kernel(safe)]
/// fn smallest(cells: Atomics<i32>) {
///     atomic::min(cells.at(0), 5 - thread::thread_idx_x() as i32);
/// }
///
/// # let device = Emulator::default();
/// let mut cells = device.upload(&[0_i32])?;
/// smallest(&device, Shape::new(1, 32), &mut cells)?;
/// assert_eq!(device.to_vec(&cells)?, [-26]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn min<T: AtomicInteger>(cell: impl Cell<T>, value: T) -> T {
    T::fetch_min(cell, value, Ordering::Relaxed, Scope::Device)
}

/// Writes the larger of a cell's value and `value` ≥ 0, relaxed, at device scope.
///
/// The cell holds the bits of a nonnegative f64. Such bits, read as integers, have the order of the numbers, so the
/// maximum is an integer operation, independent of the order of the threads.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn largest(x: Global<f64>, cells: GlobalMut<u64>) {
///     let t = thread::thread_idx_x() as usize;
///     atomic::max_nonnegative(cells, 0, x.get(t));
/// }
///
/// # let device = Emulator::default();
/// let (x, mut cells) = (device.upload(&[0.5, 2.5, 1.5])?, device.zeros(1)?);
/// // SAFETY: `x` has one element per thread, and `cells` one.
/// unsafe { largest(&device, Shape::new(1, 3), &x, &mut cells)? };
/// assert_eq!(f64::from_bits(device.to_vec(&cells)?[0]), 2.5);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn max_nonnegative(cells: GlobalMut<u64>, index: impl AnyIndex, value: f64) {
    let index = index.wide();
    AtomicInteger::fetch_max((cells, index), value.to_bits(), Ordering::Relaxed, Scope::Device);
}

#[cfg(target_arch = "nvptx64")]
macro_rules! fence_instruction {
    ($sem:literal, $scope:literal,) => {
        asm!(concat!("fence.", $sem, ".", $scope, ";"), options(nostack, preserves_flags))
    };
}

/// A fence: orders the accesses of this thread before it and those after it, for the threads of `scope`.
///
/// With an atomic operation on the cell that signals, it has the effect of an ordered operation: a release fence before a
/// relaxed store, an acquire fence after a relaxed load. `SeqCst` fences also have one order on which all threads agree.
/// `Relaxed` does nothing.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::{Ordering, Scope};
/// #[kernel]
/// fn pass(data: GlobalMut<u32>, flag: GlobalMut<u32>) {
///     if thread::block_idx_x() == 1 {
///         data.set(0, 7);
///         atomic::fence(Ordering::Release, Scope::Device);
///         atomic::store((flag, 0), 1, Ordering::Relaxed, Scope::Device);
///     } else {
///         while atomic::load((flag, 0), Ordering::Relaxed, Scope::Device) == 0 {}
///         atomic::fence(Ordering::Acquire, Scope::Device);
///         data.set(1, data.get(0) + 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let (mut data, mut flag) = (device.zeros(2)?, device.zeros(1)?);
/// // SAFETY: `data` has two elements, and `flag` one.
/// unsafe { pass(&device, Shape::new(2, 1), &mut data, &mut flag)? };
/// assert_eq!(device.to_vec(&data)?, [7_u32, 8]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence(order: Ordering, scope: Scope) {
    target! {
        // SAFETY: a fence has no precondition.
        nvptx => unsafe {
            match order {
                Ordering::Relaxed => {}
                Ordering::SeqCst => at_scope!(fence_instruction, "sc", scope,),
                _ => at_scope!(fence_instruction, "acq_rel", scope,),
            }
        },
        emulated => emulated::current().fence(order, scope),
    }
}

/// The fence that makes the next operation sequentially consistent, if `order` asks for that.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn fence_before(order: Ordering, scope: Scope) {
    if order == Ordering::SeqCst {
        fence(order, scope);
    }
}

/// One `ld` instruction of a number of 4 or 8 bytes.
#[cfg(target_arch = "nvptx64")]
macro_rules! load_instruction {
    ($sem:literal, $scope:literal, $space:literal, $address:ident: $class:ident, $wide:expr) => {
        if $wide {
            let raw: u64;
            asm!(concat!("ld.", $sem, ".", $scope, ".", $space, ".b64 {}, [{}];"), out(reg64) raw,
                 in($class) $address, options(nostack, preserves_flags));
            raw
        } else {
            let raw: u32;
            asm!(concat!("ld.", $sem, ".", $scope, ".", $space, ".b32 {}, [{}];"), out(reg32) raw,
                 in($class) $address, options(nostack, preserves_flags));
            raw as u64
        }
    };
}

/// One `st` instruction of a number of 4 or 8 bytes.
#[cfg(target_arch = "nvptx64")]
macro_rules! store_instruction {
    ($sem:literal, $scope:literal, $space:literal, $address:ident: $class:ident, $wide:expr, $raw:ident) => {
        if $wide {
            asm!(concat!("st.", $sem, ".", $scope, ".", $space, ".b64 [{}], {};"), in($class) $address,
                 in(reg64) $raw, options(nostack, preserves_flags));
        } else {
            asm!(concat!("st.", $sem, ".", $scope, ".", $space, ".b32 [{}], {};"), in($class) $address,
                 in(reg32) $raw as u32, options(nostack, preserves_flags));
        }
    };
}

/// Reads a cell. `Acquire` orders later accesses after it, and after those that a release to the cell follows.
///
/// A thread that waits for another one polls with this function: a plain read races with the write that it waits for,
/// and the compiler may read once.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::{Ordering, Scope};
/// #[kernel]
/// fn pass(data: GlobalMut<u32>, flag: GlobalMut<u32>) {
///     if thread::block_idx_x() == 1 {
///         data.set(0, 7);
///         atomic::store((flag, 0), 1, Ordering::Release, Scope::Device);
///     } else {
///         while atomic::load((flag, 0), Ordering::Acquire, Scope::Device) == 0 {}
///         data.set(1, data.get(0) + 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let (mut data, mut flag) = (device.zeros(2)?, device.zeros(1)?);
/// // SAFETY: `data` has two elements, and `flag` one.
/// unsafe { pass(&device, Shape::new(2, 1), &mut data, &mut flag)? };
/// assert_eq!(device.to_vec(&data)?, [7_u32, 8]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn load<T: Word>(cell: impl Cell<T>, order: Ordering, scope: Scope) -> T {
    fence_before(order, scope);
    target! {
        nvptx => {
            // SAFETY: the view's buffer contains the cell (the launcher's *Safety* section) and is aligned for its
            // type.
            let raw: u64 = unsafe {
                match (cell.address(), order) {
                    (Address::Global(at), Ordering::Relaxed) =>
                        at_scope!(load_instruction, "relaxed", scope, "global", at: reg64, T::WIDE),
                    (Address::Global(at), _) =>
                        at_scope!(load_instruction, "acquire", scope, "global", at: reg64, T::WIDE),
                    (Address::Shared(at), Ordering::Relaxed) =>
                        at_scope!(load_instruction, "relaxed", scope, "shared", at: reg32, T::WIDE),
                    (Address::Cluster(at), Ordering::Relaxed) =>
                        at_scope!(load_instruction, "relaxed", scope, "shared::cluster", at: reg32, T::WIDE),
                    (Address::Shared(at), _) =>
                        at_scope!(load_instruction, "acquire", scope, "shared", at: reg32, T::WIDE),
                    (Address::Cluster(at), _) =>
                        at_scope!(load_instruction, "acquire", scope, "shared::cluster", at: reg32, T::WIDE),
                }
            };
            T::from_raw(raw)
        },
        emulated => cell.update(Atomic { reads: true, writes: false, expected: None, order, scope }, |old| old),
    }
}

/// Writes a cell. `Release` orders earlier accesses before it.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::{Ordering, Scope};
/// #[kernel]
/// fn pass(data: GlobalMut<u32>, flag: GlobalMut<u32>) {
///     if thread::block_idx_x() == 1 {
///         data.set(0, 7);
///         atomic::store((flag, 0), 1, Ordering::Release, Scope::Device);
///     } else {
///         while atomic::load((flag, 0), Ordering::Acquire, Scope::Device) != 1 {}
///         data.set(1, data.get(0) + 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let (mut data, mut flag) = (device.zeros(2)?, device.zeros(1)?);
/// // SAFETY: `data` has two elements, and `flag` one.
/// unsafe { pass(&device, Shape::new(2, 1), &mut data, &mut flag)? };
/// assert_eq!(device.to_vec(&data)?, [7_u32, 8]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn store<T: Word>(cell: impl Cell<T>, value: T, order: Ordering, scope: Scope) {
    let scope = cell.scope(scope);
    fence_before(order, scope);
    target! {
        nvptx => {
            let raw = value.to_raw();
            // SAFETY: the view's buffer contains the cell (the launcher's *Safety* section) and is aligned for its
            // type.
            unsafe {
                match (cell.address(), order) {
                    (Address::Global(at), Ordering::Relaxed) =>
                        at_scope!(store_instruction, "relaxed", scope, "global", at: reg64, T::WIDE, raw),
                    (Address::Global(at), _) =>
                        at_scope!(store_instruction, "release", scope, "global", at: reg64, T::WIDE, raw),
                    (Address::Shared(at), Ordering::Relaxed) =>
                        at_scope!(store_instruction, "relaxed", scope, "shared", at: reg32, T::WIDE, raw),
                    (Address::Cluster(at), Ordering::Relaxed) =>
                        at_scope!(store_instruction, "relaxed", scope, "shared::cluster", at: reg32, T::WIDE, raw),
                    (Address::Shared(at), _) =>
                        at_scope!(store_instruction, "release", scope, "shared", at: reg32, T::WIDE, raw),
                    (Address::Cluster(at), _) =>
                        at_scope!(store_instruction, "release", scope, "shared::cluster", at: reg32, T::WIDE, raw),
                }
            }
        },
        emulated => {
            cell.update(Atomic { reads: false, writes: true, expected: None, order, scope }, |_| value);
        },
    }
}

/// Writes `new` if the cell's value is `expected` (`atomicCAS`). Returns the old value. If it is another one, the operation
/// only reads, and releases nothing.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::device::atomic::*;
/// #[kernel(safe)]
/// fn one_wins(cells: Atomics<u32>) {
///     if atomic::compare_exchange(cells.at(0), 0, thread::thread_idx_x() + 1, Ordering::Relaxed, Scope::Device) == 0 {
///         atomic::add(cells.at(1), 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// let mut cells = device.upload(&[0_u32, 0])?;
/// one_wins(&device, Shape::new(1, 32), &mut cells)?;
/// assert_eq!(device.to_vec(&cells)?[1], 1);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn compare_exchange<T: AtomicInteger>(cell: impl Cell<T>, expected: T, new: T, order: Ordering, scope: Scope) -> T {
    let scope = cell.scope(scope);
    fence_before(order, scope);
    target! {
        nvptx => {
            let (expected, new) = (expected.to_raw(), new.to_raw());
            let halves = (expected as u32, new as u32);
            // SAFETY: the view's buffer contains the cell (the launcher's *Safety* section) and is aligned for its
            // type.
            T::from_raw(unsafe {
                match (cell.address(), T::WIDE, halves) {
                    (Address::Global(at), true, _) =>
                        atom!(order, scope, "global", "cas.b64", at: reg64, reg64 -> u64, [expected, new], "{}, {}"),
                    (Address::Shared(at), true, _) =>
                        atom!(order, scope, "shared", "cas.b64", at: reg32, reg64 -> u64, [expected, new], "{}, {}"),
                    (Address::Cluster(at), true, _) =>
                        atom!(order, scope, "shared::cluster", "cas.b64", at: reg32, reg64 -> u64, [expected, new], "{}, {}"),
                    (Address::Global(at), false, (expected, new)) =>
                        atom!(order, scope, "global", "cas.b32", at: reg64, reg32 -> u32, [expected, new], "{}, {}") as u64,
                    (Address::Shared(at), false, (expected, new)) =>
                        atom!(order, scope, "shared", "cas.b32", at: reg32, reg32 -> u32, [expected, new], "{}, {}") as u64,
                    (Address::Cluster(at), false, (expected, new)) =>
                        atom!(order, scope, "shared::cluster", "cas.b32", at: reg32, reg32 -> u32, [expected, new], "{}, {}") as u64,
                }
            })
        },
        emulated => {
            let atomic = Atomic { reads: true, writes: true, expected: Some(expected.to_raw()), order, scope };
            cell.update(atomic, |old| if old == expected { new } else { old })
        },
    }
}
