//! What a kernel has as a parameter: a scalar, a view of global memory, or a struct of such.
//!
//! A struct that [derives](derive@super::Parameter) the trait is one parameter of a kernel, and one argument of its launch:
//!
//! ```
//! use warpkov_device::device::{Global, GlobalMut, Parameter, kernel, thread};
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Shape};
//!
//! /// A sparse matrix in compressed rows.
//! #[derive(Clone, Copy, Parameter)]
//! pub struct Rows {
//!     /// Row r holds the entries `ptr[r]..ptr[r + 1]`.
//!     pub ptr: Global<u32>,
//!     /// Value of each entry.
//!     pub value: Global<f64>,
//! }
//!
//! /// The sum of each row.
//! #[kernel]
//! pub fn sums(count: u32, rows: Rows, sums: GlobalMut<f64>) {
//!     let r = thread::index_1d() as usize;
//!     if r < count as usize {
//!         let entries = rows.ptr.get(r)..rows.ptr.get(r + 1);
//!         sums.set(r, entries.map(|entry| rows.value.get(entry as usize)).sum());
//!     }
//! }
//!
//! let device = Emulator::default();
//! let (ptr, value) = (device.upload(&[0_u32, 2, 3])?, device.upload(&[1.0, 2.0, 4.0])?);
//! let mut found = device.zeros(2)?;
//! // SAFETY: there are two rows, and `ptr` names entries of `value`.
//! unsafe { sums(&device, Shape::cover(2, 32), 2, RowsArgs { ptr: &ptr, value: &value }, &mut found)? };
//! assert_eq!(device.to_vec(&found)?, [3.0, 4.0]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```
//!
//! In the PTX a struct does not exist. Its entry point has a parameter for each scalar and view, and makes the struct of them in
//! its first lines: a pointer that came inside a struct would be read by generic loads, one that is a parameter is read by
//! `ld.global`, and by `ld.global.nc` where the kernel only reads.

#[cfg(not(target_arch = "nvptx64"))]
use crate::launch::{Arg, Buffer, Device};
#[cfg(not(target_arch = "nvptx64"))]
use core::slice;

// What the derive and `#[kernel]` call for shapes of structs.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub use warpkov_device_macros::{__entries, __shape};

use super::DeviceCopy;
use super::global::{Global, GlobalMut};

/// A kernel's parameter.
///
/// `#[derive(Parameter)]` is for a struct with named fields that are parameters themselves; each of its generics is a type of
/// elements. It also defines the launcher's argument: `NameArgs`, of the same fields, in which `&D::Buffer<T>` stands for
/// [`Global<T>`], `&mut D::Buffer<T>` for [`GlobalMut<T>`], and `InnerArgs` for a struct `Inner`. A struct of scalars alone is its own
/// argument. A buffer that is written in one place cannot be borrowed in another: such a launch does not compile.
pub trait Parameter: Sized {
    /// What the entry point declares; of a struct, a tuple of what it declares for its fields.
    #[cfg(target_arch = "nvptx64")]
    type Abi;

    /// The parameter as the kernel sees it.
    ///
    /// # Safety
    /// An address must be valid for every access that the kernel makes through the view.
    #[cfg(target_arch = "nvptx64")]
    unsafe fn from_abi(abi: Self::Abi) -> Self;

    /// What the launcher is given.
    #[cfg(not(target_arch = "nvptx64"))]
    type Launched<'a, D: Device>;

    /// Adds the names of all scalars and views, of which `path` is the first part.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn name(path: &str, names: &mut Vec<String>);

    /// Adds the arguments for all scalars and views.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn push<D: Device>(launched: &Self::Launched<'_, D>, args: &mut Vec<Arg>);

    /// The parameter as an emulated thread sees it, of the next `leaves`.
    ///
    /// # Safety
    /// The leaves must be those of a launch of this kernel, whose buffers are in host memory and outlive it.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self;
}

/// The scalars and views of a launch, in their order.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub struct Leaves<'a> {
    args: slice::Iter<'a, Arg>,
    names: slice::Iter<'static, String>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<'a> Leaves<'a> {
    /// As [`push`](Parameter::push) and [`name`](Parameter::name) have given them.
    #[inline]
    #[must_use]
    pub fn new(args: &'a [Arg], names: &'static [String]) -> Self {
        Self { args: args.iter(), names: names.iter() }
    }

    /// The next one, and its name.
    #[inline]
    fn take(&mut self) -> (Arg, &'static str) {
        let leaf = self.args.next().copied().zip(self.names.next());
        let (arg, name) = leaf.unwrap_or_else(|| unreachable!("a launch has an argument for each parameter"));
        (arg, name)
    }
}

macro_rules! scalars {
    ($($ty:ty)*) => {$(
        impl Parameter for $ty {
            #[cfg(target_arch = "nvptx64")]
            type Abi = $ty;

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn from_abi(abi: $ty) -> $ty {
                abi
            }

            #[cfg(not(target_arch = "nvptx64"))]
            type Launched<'a, D: Device> = $ty;

            #[cfg(not(target_arch = "nvptx64"))]
            fn name(path: &str, names: &mut Vec<String>) {
                names.push(path.to_owned());
            }

            #[cfg(not(target_arch = "nvptx64"))]
            fn push<D: Device>(launched: &$ty, args: &mut Vec<Arg>) {
                args.push(Arg::scalar(*launched));
            }

            #[cfg(not(target_arch = "nvptx64"))]
            #[inline]
            unsafe fn emulated(leaves: &mut Leaves<'_>) -> $ty {
                leaves.take().0.value()
            }
        }
    )*};
}
scalars!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

macro_rules! views {
    ($($view:ident: $pointer:ty, $borrow:ty;)*) => {$(
        impl<T: DeviceCopy> Parameter for $view<T> {
            #[cfg(target_arch = "nvptx64")]
            type Abi = $pointer;

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn from_abi(abi: $pointer) -> Self {
                Self::new(abi)
            }

            #[cfg(not(target_arch = "nvptx64"))]
            type Launched<'a, D: Device> = $borrow;

            #[cfg(not(target_arch = "nvptx64"))]
            fn name(path: &str, names: &mut Vec<String>) {
                names.push(path.to_owned());
            }

            #[cfg(not(target_arch = "nvptx64"))]
            fn push<D: Device>(launched: &Self::Launched<'_, D>, args: &mut Vec<Arg>) {
                args.push(launched.arg());
            }

            #[cfg(not(target_arch = "nvptx64"))]
            #[inline]
            unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self {
                let (argument, name) = leaves.take();
                // SAFETY: promised by the caller.
                unsafe { Self::of_argument(argument, name) }
            }
        }
    )*};
}
// A reference tells LLVM that nobody writes there during the launch; it then reads through the non-coherent cache.
views! {
    Global: &'static T, &'a D::Buffer<T>;
    GlobalMut: *mut T, &'a mut D::Buffer<T>;
}

/// The field number `I` of a struct.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub trait Field<const I: usize> {
    /// Its type.
    type Type: Parameter;
}
