//! Atomic read-modify-write operations on global and shared memory.
//!
//! An operation has an [`Ordering`] and a [`Scope`]. `Relaxed` makes only the cell itself consistent, which is enough to
//! count or to find a maximum; `AcqRel` also orders the accesses around it, which is needed where the cell says that
//! other data is ready. The scope is how far that must reach: threads of one block, of the GPU, or of the whole system.
//!
//! Sums of floating-point numbers by [`add`] depend on the order in which threads come, and so differ
//! from run to run in the last bits. Maxima, minima and integer sums do not.

pub use core::sync::atomic::Ordering;

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread as emulated;

use super::{GlobalMut, Shared, Word};

/// How far an atomic operation's ordering reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of the same block (`.cta`).
    Block,
    /// Threads of the same GPU (`.gpu`).
    Device,
    /// All threads that share the memory, on other GPUs and the host too (`.sys`).
    System,
}

/// What an operation makes of the old value and its operand, for the emulator.
#[cfg(not(target_arch = "nvptx64"))]
type Update<T> = fn(T, T) -> T;

/// One `atom` instruction. `atom!` chooses its ordering, `atom_at_scope!` its scope; both choices are made at compile time.
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
macro_rules! atom_at_scope {
    ($sem:literal, $scope:expr, $($rest:tt)*) => {
        match $scope {
            Scope::Block => atom_instruction!($sem, "cta", $($rest)*),
            Scope::Device => atom_instruction!($sem, "gpu", $($rest)*),
            Scope::System => atom_instruction!($sem, "sys", $($rest)*),
        }
    };
}

#[cfg(target_arch = "nvptx64")]
macro_rules! atom {
    ($order:expr, $scope:expr, $($rest:tt)*) => {
        match $order {
            Ordering::Relaxed => atom_at_scope!("relaxed", $scope, $($rest)*),
            Ordering::Acquire => atom_at_scope!("acquire", $scope, $($rest)*),
            Ordering::Release => atom_at_scope!("release", $scope, $($rest)*),
            // `atom` has no sequentially consistent form; the strongest it has is this one.
            _ => atom_at_scope!("acq_rel", $scope, $($rest)*),
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
                        target! {
                            nvptx => {
                                let operand = value.to_raw() as $raw;
                                // SAFETY: the cell is in bounds and aligned, as its view promises.
                                let old: $raw = unsafe {
                                    match cell.place() {
                                        Address::Global(address) =>
                                            atom!(order, scope, "global", $ptx, address: reg64, $class -> $raw, [operand], "{}"),
                                        Address::Shared(address) =>
                                            atom!(order, scope, "shared", $ptx, address: reg32, $class -> $raw, [operand], "{}"),
                                    }
                                };
                                Self::from_raw(old as u64)
                            },
                            emulated => {
                                let _ = (order, scope);
                                let update: Update<$ty> = $update;
                                cell.update(|old| update(old, value))
                            },
                        }
                    }
                )*
            }
        )*
    };
}

/// Where a cell lies.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub enum Address {
    /// An address in global memory.
    Global(u64),
    /// A byte address in the block's shared memory.
    Shared(u32),
}

/// A cell of memory that atomic operations may be applied to: `(view, index)`.
pub trait Cell<T> {
    /// Where it lies.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    fn place(&self) -> Address;
    /// Replaces the value by `update` of it, and returns the old one.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    #[track_caller]
    fn update(&self, update: impl Fn(T) -> T) -> T;
}

impl<T: Word> Cell<T> for (GlobalMut<T>, usize) {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn place(&self) -> Address {
        // `atom.global` takes an address in the global window, which for global memory equals the generic address.
        Address::Global(self.0.address(self.1) as u64)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn update(&self, update: impl Fn(T) -> T) -> T {
        let address = self.0.address(self.1);
        // SAFETY: `address` has been checked, and the emulator runs one thread at a time.
        unsafe {
            let old = *address;
            *address = update(old);
            old
        }
    }
}

impl<T: Word> Cell<T> for (Shared<T>, u32) {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn place(&self) -> Address {
        Address::Shared(self.0.address(self.1))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn update(&self, update: impl Fn(T) -> T) -> T {
        let bytes = if T::WIDE { 8 } else { 4 };
        let old =
            emulated::current().update_shared(self.0.address(self.1), bytes, |raw| update(T::from_raw(raw)).to_raw());
        T::from_raw(old)
    }
}

operations! {
    AtomicNumber,
    /// Operations that every number has. Each returns the old value.
    {
        /// Adds `value` (integers wrap).
        fetch_add;
        /// Writes `value`.
        fetch_replace;
    }
    u32: u32, reg32, { fetch_add = "add.u32", |old, value| old.wrapping_add(value); fetch_replace = "exch.b32", |_, value| value; }
    i32: u32, reg32, { fetch_add = "add.s32", |old, value| old.wrapping_add(value); fetch_replace = "exch.b32", |_, value| value; }
    f32: u32, reg32, { fetch_add = "add.f32", |old, value| old + value; fetch_replace = "exch.b32", |_, value| value; }
    u64: u64, reg64, { fetch_add = "add.u64", |old, value| old.wrapping_add(value); fetch_replace = "exch.b64", |_, value| value; }
    f64: u64, reg64, { fetch_add = "add.f64", |old, value| old + value; fetch_replace = "exch.b64", |_, value| value; }
}

operations! {
    AtomicInteger,
    /// Operations that only integers have. Each returns the old value.
    {
        /// Keeps the larger of the old value and `value`.
        fetch_max;
        /// Keeps the smaller of the old value and `value`.
        fetch_min;
        /// Bitwise and.
        fetch_and;
        /// Bitwise or.
        fetch_or;
    }
    u32: u32, reg32, {
        fetch_max = "max.u32", |old, value| old.max(value);
        fetch_min = "min.u32", |old, value| old.min(value);
        fetch_and = "and.b32", |old, value| old & value;
        fetch_or = "or.b32", |old, value| old | value;
    }
    i32: u32, reg32, {
        fetch_max = "max.s32", |old, value| old.max(value);
        fetch_min = "min.s32", |old, value| old.min(value);
        fetch_and = "and.b32", |old, value| old & value;
        fetch_or = "or.b32", |old, value| old | value;
    }
    u64: u64, reg64, {
        fetch_max = "max.u64", |old, value| old.max(value);
        fetch_min = "min.u64", |old, value| old.min(value);
        fetch_and = "and.b64", |old, value| old & value;
        fetch_or = "or.b64", |old, value| old | value;
    }
}

/// Adds `value` to a cell (`atomicAdd`), relaxed, for the whole GPU. Returns the old value.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn add<T: AtomicNumber>(cell: impl Cell<T>, value: T) -> T {
    T::fetch_add(cell, value, Ordering::Relaxed, Scope::Device)
}

/// Keeps the larger of a cell and `value` (`atomicMax`), relaxed, for the whole GPU. Returns the old value.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn max<T: AtomicInteger>(cell: impl Cell<T>, value: T) -> T {
    T::fetch_max(cell, value, Ordering::Relaxed, Scope::Device)
}

/// Keeps the larger of a cell and `value` ≥ 0, relaxed, for the whole GPU.
///
/// The cell holds the bits of a number that is not negative: those order as the numbers do, so that the maximum is an
/// integer operation, exact and independent of the order in which threads come.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn max_nonnegative(cells: GlobalMut<u64>, index: usize, value: f64) {
    AtomicInteger::fetch_max((cells, index), value.to_bits(), Ordering::Relaxed, Scope::Device);
}

/// Writes `new` if the cell holds `expected`; returns what it held (`atomicCAS`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn compare_exchange(cell: impl Cell<u32>, expected: u32, new: u32, order: Ordering, scope: Scope) -> u32 {
    target! {
        nvptx => {
            // SAFETY: the cell is in bounds and aligned, as its view promises.
            unsafe {
                match cell.place() {
                    Address::Global(address) =>
                        atom!(order, scope, "global", "cas.b32", address: reg64, reg32 -> u32, [expected, new], "{}, {}"),
                    Address::Shared(address) =>
                        atom!(order, scope, "shared", "cas.b32", address: reg32, reg32 -> u32, [expected, new], "{}, {}"),
                }
            }
        },
        emulated => {
            let _ = (order, scope);
            cell.update(|old| if old == expected { new } else { old })
        },
    }
}
