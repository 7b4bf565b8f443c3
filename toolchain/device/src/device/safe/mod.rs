//! Kernels whose launch is safe: `#[kernel(safe)]`.
//!
//! A lifetime parameter of the kernel stands for a length. [`Len<'n>`](Len) is the length itself, [`In<'n, T>`](In) has at least as many
//! elements, and [`Index<'n>`](Index) is a number below it. The launcher compares the lengths once; accesses through an index then
//! need no check. A thread writes only elements that it owns, for which [`Len::element`] and [`Len::elements`] give it an [`Own`].
//!
//! ```
//! use warpkov_device::device::safe::{In, Len, Out};
//! use warpkov_device::device::{Real, kernel};
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Shape};
//!
//! /// y ← a·x + y.
//! #[kernel(safe, T = [f32, f64])]
//! pub fn axpy<'n, T: Real>(n: Len<'n>, a: T, x: In<'n, T>, y: Out<'n, T>) {
//!     for i in n.elements() {
//!         y.set(&i, a.fma(x.get(&i), y.get(&i)));
//!     }
//! }
//!
//! let device = Emulator::default();
//! let x = device.upload(&[1.0, 2.0, 3.0])?;
//! let mut y = device.upload(&[0.5; 3])?;
//! axpy(&device, Shape::cover(3, 256), 3, 2.0, &x, &mut y)?;
//! assert_eq!(device.to_vec(&y)?, [2.5, 4.5, 6.5]);
//!
//! let error = axpy(&device, Shape::cover(4, 256), 4, 2.0, &x, &mut y).unwrap_err();
//! assert_eq!(error.to_string(), "kernel axpy cannot be launched: it requires x.len() >= n, and x.len() is 3, n is 4");
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```
//!
//! | parameter | launcher's argument | in the kernel |
//! | --- | --- | --- |
//! | [`Len<'n>`](Len) | `u32`; `u64` for `Len<'n, u64>` | n |
//! | [`In<'n, T>`](In) | `&D::Buffer<T>` | reads at any [`Index<'n>`](Index) |
//! | [`Out<'n, T, M>`](Out) | `&mut D::Buffer<T>` | reads and writes of the elements that the thread owns by the mapping M |
//! | [`In2<'r, 'c, T>`](In2), [`Out2`] | as above | the same for `rows` · `columns` elements, at a [`Cell`] |
//! | [`Slice<T>`](Slice) | `&D::Buffer<T>` | reads anywhere: an index is checked, or a whole range or row once |
//! | [`SparseRows<'r, 'c, T, O>`](SparseRows) | [`&SparseBuffer`](crate::launch::SparseBuffer) | a sparse matrix, which the upload has checked |
//! | [`Indices<'n, 'm>`](Indices) | [`&IndexBuffer`](crate::launch::IndexBuffer) | n indices below m, which the upload has checked |
//! | [`Counters<'n, T>`](Counters) | `&mut D::Buffer<T>` | sums of all threads, by atomic additions |
//! | [`Atomics<T>`](Atomics) | `&mut D::Buffer<T>` | all atomic operations, at checked indices |
//! | [`PerBlock<T>`](PerBlock), [`PerThread<T>`](PerThread) | `&mut D::Buffer<T>` | one result of each block, or thread |
//! | a scalar, a struct | the scalar, the struct | scalars, `Slice`s and `Atomics` |
//!
//! T is a number, an array of K consecutive numbers, or a struct: see [`Item`]. Who owns an element is a [`Mapping`]: a thread ([`ByThread`], by
//! default), a thread with a run of elements ([`ByRun`]), a warp ([`ByWarp`]) or a block ([`ByBlock`]).
//!
//! The functions of [`warp`](super::warp) and [`block`](super::block) may be called where all threads meet: `warpkov-build` refuses a
//! safe kernel with a barrier or a warp's operation on one side of a branch that divides threads. Blocks consist of whole warps.
//! A safe kernel has no `unsafe` code, and no shared memory but that of [`block`](super::block) and of [`tile!`](crate::tile).

mod index;
mod slice;
mod sparse;
mod tile;
mod view;

use core::marker::PhantomData;

pub use index::{
    Area, ByBlock, ByRun, ByThread, ByWarp, Cell, Count, Index, Len, Mapping, OneThread, Own, OwnCell, OwnElements,
};
pub use slice::{AtomicCell, Atomics, Slice};
pub use sparse::SparseRows;
pub use tile::{Filled, FilledRows, Sums, Tile};
#[doc(hidden)]
pub use tile::{Place, Places};
#[doc(hidden)]
pub use view::Single;
pub use view::{Counters, In, In2, Indices, Item, Out, Out2, PerBlock, PerThread};

#[cfg(target_arch = "nvptx64")]
use super::parameter::Field;
#[cfg(not(target_arch = "nvptx64"))]
use super::parameter::Leaves;
use super::{DeviceCopy, Element, Global, GlobalMut, Offset, Parameter, Word};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::fault;
#[cfg(not(target_arch = "nvptx64"))]
use crate::launch::{Arg, Buffer as _, Device, IndexBuffer, SparseBuffer};

/// Ties lengths, indices and views together. Invariant, so that one lifetime never stands for two lengths.
type Brand<'n> = PhantomData<fn(&'n ()) -> &'n ()>;

/// The same for two lengths.
type Brands<'n, 'm> = PhantomData<(Brand<'n>, Brand<'m>)>;

/// Stops the kernel: index `i` of `_array` is not below `n`.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
#[track_caller]
fn out_of_range(_array: &'static str, i: u64, n: u64) -> ! {
    crate::print::beyond(core::panic::Location::caller().line(), i, n)
}

/// Stops the kernel: index `i` of `array` is not below `n`.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
#[cold]
fn out_of_range(array: &'static str, i: u64, n: u64) -> ! {
    let index = usize::try_from(i).unwrap_or(usize::MAX);
    let place = fault::Place { array, index, shared: false };
    let hint = if array == "Len" { "`Len::index` returns an option" } else { "is the index, or the length, right?" };
    fault::raise_with(fault::Kind::OutOfBounds { place, len: n as usize }, hint.to_owned());
}

/// A parameter of a safe kernel.
///
/// # Safety
/// Through a parameter of this type, safe code accesses only elements within the lengths that the launcher has compared, and writes
/// no element that another thread accesses at the same time, but for atomic operations.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no parameter of a safe kernel",
    label = "expected a scalar, a struct of scalars, or one of the parameters in `warpkov_device::device::safe`",
    note = "a `Global` is accessed at any index, which the launch cannot check: use `In`, `Slice` or `Out`, or leave out `safe`"
)]
pub unsafe trait Safe {}

/// A parameter of a safe kernel that may be a field of a struct, because no other parameter and no shape limits its accesses.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no field of a parameter of a safe kernel",
    label = "expected a scalar, a `Slice` or `Atomics`"
)]
pub trait SafeField: Safe {}

macro_rules! safe_scalars {
    ($($ty:ty)*) => {
        $(
            // SAFETY: a scalar gives access to no memory.
            unsafe impl Safe for $ty {}
            impl SafeField for $ty {}
        )*
    };
}
safe_scalars!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

/// Implements [`Parameter`] for a type that is a parameter with a brand.
macro_rules! branded {
    ($([$($generics:tt)*] $view:ty: $field:ident of $inner:ty, $launched:ty, $brand:tt, |$argument:ident| $arg:expr;)*) => {$(
        // SAFETY: only indices of the brand, which are below its length, lead to elements; and only an `Own` to a plain write.
        unsafe impl<$($generics)*> Safe for $view {}

        impl<$($generics)*> Parameter for $view {
            #[cfg(target_arch = "nvptx64")]
            type Abi = <$inner as Parameter>::Abi;

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn from_abi(abi: Self::Abi) -> Self {
                // SAFETY: the caller's promise.
                let $field = unsafe { <$inner as Parameter>::from_abi(abi) };
                branded!(@new $field $brand)
            }

            #[cfg(not(target_arch = "nvptx64"))]
            type Launched<'a, D: Device> = $launched;

            #[cfg(not(target_arch = "nvptx64"))]
            fn push<D: Device>($argument: &Self::Launched<'_, D>, args: &mut Vec<Arg>) {
                args.push($arg);
            }

            #[cfg(not(target_arch = "nvptx64"))]
            #[inline]
            unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self {
                // SAFETY: the caller's promise.
                let $field = unsafe { <$inner as Parameter>::emulated(leaves) };
                branded!(@new $field $brand)
            }
        }
    )*};
    (@new $field:ident none) => { Self { $field } };
    (@new $field:ident one) => { Self { $field, brand: PhantomData } };
}
branded! {
    ['n, N: Count] Len<'n, N>: n of N, N, one, |n| Arg::scalar(*n);
    ['n, T: Item] In<'n, T>: view of Global<T::Number>, &'a D::Buffer<T::Number>, one, |buffer| buffer.arg();
    ['n, T: Item, M: Mapping] Out<'n, T, M>: view of GlobalMut<T::Number>, &'a mut D::Buffer<T::Number>, one, |buffer| buffer.arg();
    ['r, 'c, T: Item] In2<'r, 'c, T>: view of Global<T::Number>, &'a D::Buffer<T::Number>, one, |buffer| buffer.arg();
    ['r, 'c, T: Item, M: Mapping] Out2<'r, 'c, T, M>: view of GlobalMut<T::Number>, &'a mut D::Buffer<T::Number>, one, |buffer| buffer.arg();
    ['n, 'm] Indices<'n, 'm>: view of Global<u32>, &'a IndexBuffer<D::Buffer<u32>>, one, |indices| indices.arg();
    ['n, T: DeviceCopy] Counters<'n, T>: view of GlobalMut<T>, &'a mut D::Buffer<T>, one, |buffer| buffer.arg();
    [T: Item] PerBlock<T>: view of GlobalMut<T::Number>, &'a mut D::Buffer<T::Number>, none, |buffer| buffer.arg();
    [T: Item] PerThread<T>: view of GlobalMut<T::Number>, &'a mut D::Buffer<T::Number>, none, |buffer| buffer.arg();
}

/// Implements [`Parameter`] for a view of several leaves: buffers, or a buffer and its length.
macro_rules! of_leaves {
    ($([$($generics:tt)*] $view:ty: $launched:ty, ($($brand:ident)?), |$argument:ident| {
        $($field:ident $suffix:literal: $leaf:ty = $arg:expr;)*
    })*) => {$(
        impl<$($generics)*> Parameter for $view {
            #[cfg(target_arch = "nvptx64")]
            type Abi = ($(<$leaf as Parameter>::Abi,)*);

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn from_abi(($($field,)*): Self::Abi) -> Self {
                // SAFETY: the caller's promise.
                $(let $field = unsafe { <$leaf as Parameter>::from_abi($field) };)*
                Self { $($field,)* $($brand: PhantomData)? }
            }

            #[cfg(not(target_arch = "nvptx64"))]
            type Launched<'a, D: Device> = $launched;

            #[cfg(not(target_arch = "nvptx64"))]
            fn name(path: &str, names: &mut Vec<String>) {
                $(names.push([path, $suffix].concat());)*
            }

            #[cfg(not(target_arch = "nvptx64"))]
            fn push<D: Device>($argument: &Self::Launched<'_, D>, args: &mut Vec<Arg>) {
                $(args.push($arg);)*
            }

            #[cfg(not(target_arch = "nvptx64"))]
            #[inline]
            unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self {
                // SAFETY: the caller's promise; `push` has appended the leaves in this order.
                $(let $field = unsafe { <$leaf as Parameter>::emulated(leaves) };)*
                Self { $($field,)* $($brand: PhantomData)? }
            }
        }
    )*};
}
of_leaves! {
    [T: Element] Slice<T>: &'a D::Buffer<T>, (), |buffer| {
        view "": Global<T> = buffer.arg();
        len ".len()": u64 = Arg::scalar(buffer.len() as u64);
    }
    [T: Word] Atomics<T>: &'a mut D::Buffer<T>, (), |buffer| {
        view "": GlobalMut<T> = buffer.arg();
        len ".len()": u64 = Arg::scalar(buffer.len() as u64);
    }
    ['r, 'c, T: Element, O: Offset] SparseRows<'r, 'c, T, O>: &'a SparseBuffer<D::Buffer<O>, D::Buffer<u32>, D::Buffer<T>>, (brand), |matrix| {
        ptr ".ptr": Global<O> = matrix.ptr().arg();
        col ".col": Global<u32> = matrix.col().arg();
        value ".value": Global<T> = matrix.value().arg();
    }
}
// SAFETY: an access is compared with the length of the buffer, which is an argument of the launch.
unsafe impl<T: Element> Safe for Slice<T> {}
impl<T: Element> SafeField for Slice<T> {}
// SAFETY: as above; all accesses are atomic operations.
unsafe impl<T: Word> Safe for Atomics<T> {}
impl<T: Word> SafeField for Atomics<T> {}
// SAFETY: the upload has checked all entries against the numbers of rows and columns, which the launcher compares with the lengths.
unsafe impl<T: Element, O: Offset> Safe for SparseRows<'_, '_, T, O> {}

/// The leaves, in order: see [`Field`].
#[cfg(target_arch = "nvptx64")]
macro_rules! leaves {
    ($([$($generics:tt)*] $view:ty, $at:literal: $leaf:ty;)*) => {$(
        impl<$($generics)*> Field<$at> for $view {
            type Type = $leaf;
        }
    )*};
}
#[cfg(target_arch = "nvptx64")]
leaves! {
    [T: Element] Slice<T>, 0: Global<T>;
    [T: Element] Slice<T>, 1: u64;
    [T: Word] Atomics<T>, 0: GlobalMut<T>;
    [T: Word] Atomics<T>, 1: u64;
    ['r, 'c, T: Element, O: Offset] SparseRows<'r, 'c, T, O>, 0: Global<O>;
    ['r, 'c, T: Element, O: Offset] SparseRows<'r, 'c, T, O>, 1: Global<u32>;
    ['r, 'c, T: Element, O: Offset] SparseRows<'r, 'c, T, O>, 2: Global<T>;
}
