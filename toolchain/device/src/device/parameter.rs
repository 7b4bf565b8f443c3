//! Kernel parameters: scalars, views of global memory, and structs of parameters.
//!
//! A struct that [derives](derive@super::Parameter) the trait is one parameter of the kernel and one argument of the
//! launcher:
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
//!         sums.set(r, entries.map(|entry| rows.value.get(entry)).sum());
//!     }
//! }
//!
//! let device = Emulator::default();
//! let (ptr, value) = (device.upload(&[0_u32, 2, 3])?, device.upload(&[1.0, 2.0, 4.0])?);
//! let mut found = device.zeros(2)?;
//! // SAFETY: `ptr` has two rows of entries within `value`, and `found` has two elements.
//! unsafe { sums(&device, Shape::cover(2, 32), 2, RowsArgs { ptr: &ptr, value: &value }, &mut found)? };
//! assert_eq!(device.to_vec(&found)?, [3.0, 4.0]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```
//!
//! The PTX entry point has no struct parameter. It has one parameter for each scalar and view, and builds the struct
//! from them. The reason is the load instruction: LLVM reads through a pointer inside a struct by generic loads, and
//! through a pointer parameter by `ld.global`, or by `ld.global.nc` for a [`Global`].

#[cfg(not(target_arch = "nvptx64"))]
use crate::{
    emulator::bulk::Tile,
    launch::{Arg, Buffer, Device, Tensor, Unmet},
};
#[cfg(not(target_arch = "nvptx64"))]
use core::slice;

// The derive and `#[kernel]` call these to learn the shapes of structs.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub use warpkov_device_macros::{__entries, __shape};

use super::global::{Global, GlobalMut};
use super::grid::GridGroup;
use super::tensor::TensorMap;
use super::{DeviceCopy, Element};

/// A kernel parameter.
///
/// `#[derive(Parameter)]` requires a struct with named fields that are parameters. Its generics are element types. For
/// a struct `Name` the derive also defines the launcher's argument `NameArgs`, with the same field names:
///
/// | field of `Name` | field of `NameArgs` |
/// | --- | --- |
/// | a scalar | the scalar |
/// | [`Global<T>`] | `&D::Buffer<T>` |
/// | [`GlobalMut<T>`] | `&mut D::Buffer<T>` |
/// | a struct `Inner` | `InnerArgs` |
///
/// A struct of scalars only is its own argument. A launch that borrows a buffer both mutably and a second time does not
/// compile.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[derive(Clone, Copy, Parameter)]
/// struct Point {
///     x: f32,
///     id: u32,
/// }
///
/// #[kernel]
/// fn fill(point: Point, out: GlobalMut<f32>) {
///     out.set(point.id as usize, point.x);
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(3)?;
/// // SAFETY: `id` is an index of `out`.
/// unsafe { fill(&device, Shape::new(1, 1), Point { x: 2.5, id: 1 }, &mut out)? };
/// assert_eq!(device.to_vec(&out)?, [0.0, 2.5, 0.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Parameter: Sized {
    /// The type of the entry point's parameter; for a struct, a tuple of its fields' types.
    #[cfg(target_arch = "nvptx64")]
    type Abi;

    /// The kernel's parameter, from the entry point's.
    ///
    /// # Safety
    /// An address in `abi` is valid for every access of the kernel through the view.
    #[cfg(target_arch = "nvptx64")]
    unsafe fn from_abi(abi: Self::Abi) -> Self;

    /// The type of the launcher's argument.
    #[cfg(not(target_arch = "nvptx64"))]
    type Launched<'a, D: Device>;

    /// Appends the names of all scalars and views, each of which begins with `path`: by default it is the name of one.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn name(path: &str, names: &mut Vec<String>) {
        names.push(path.to_owned());
    }

    /// Appends the arguments of all scalars and views.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn push<D: Device>(launched: &Self::Launched<'_, D>, args: &mut Vec<Arg>);

    /// Compares what the parameter requires of itself.
    ///
    /// # Errors
    /// If a launch of `kernel` with these arguments does not meet a requirement.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn check<D: Device>(launched: &Self::Launched<'_, D>, kernel: &'static str) -> Result<(), Unmet> {
        let _ = (launched, kernel);
        Ok(())
    }

    /// The parameter of an emulated thread. Takes as many `leaves` as the parameter has scalars and views.
    ///
    /// # Safety
    /// The leaves belong to a launch of this kernel. Its buffers are in host memory and outlive the launch.
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self;
}

/// The scalars and views of a launch, in the order of the parameters.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub struct Leaves<'a> {
    args: slice::Iter<'a, Arg>,
    names: slice::Iter<'static, String>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<'a> Leaves<'a> {
    /// The leaves that [`push`](Parameter::push) and [`name`](Parameter::name) have appended.
    #[inline]
    #[must_use]
    pub fn new(args: &'a [Arg], names: &'static [String]) -> Self {
        Self { args: args.iter(), names: names.iter() }
    }

    /// The next leaf and its name.
    #[inline]
    fn take(&mut self) -> (Arg, &'static str) {
        let leaf = self.args.next().copied().zip(self.names.next());
        let (arg, name) = leaf.unwrap_or_else(|| unreachable!("a launch has an argument for each parameter"));
        (arg, name)
    }
}

/// A parameter without views: plain numbers, of which an array in device memory holds many, one 8-byte word for each
/// number. A struct of scalars that derives [`Parameter`](derive@super::Parameter) is one.
///
/// ```
/// use warpkov_device::device::{Parameter, Scalars};
///
/// #[derive(Clone, Copy, Parameter)]
/// struct Point {
///     x: f32,
///     id: u32,
/// }
///
/// assert_eq!(Point::WORDS, 2);
/// ```
pub trait Scalars: Parameter + Copy {
    /// The number of words.
    const WORDS: usize;

    /// Gives the words to `each`, in order.
    ///
    /// ```
    /// use warpkov_device::device::{Parameter, Scalars};
    ///
    /// #[derive(Clone, Copy, Parameter)]
    /// struct Point {
    ///     x: f32,
    ///     id: u32,
    /// }
    ///
    /// let mut words = Vec::new();
    /// Point { x: 1.0, id: 7 }.to_words(&mut |word| words.push(word));
    /// assert_eq!(words, [0x3f80_0000, 7]);
    /// ```
    fn to_words(&self, each: &mut impl FnMut(u64));

    /// The value whose words `next` returns, in order.
    ///
    /// ```
    /// use warpkov_device::device::{Parameter, Scalars};
    ///
    /// #[derive(Clone, Copy, Parameter)]
    /// struct Point {
    ///     x: f32,
    ///     id: u32,
    /// }
    ///
    /// let mut words = [0x3f80_0000, 7].into_iter();
    /// let Point { x, id } = Point::of_words(&mut || words.next().unwrap_or_default());
    /// assert_eq!((x, id), (1.0, 7));
    /// ```
    fn of_words(next: &mut impl FnMut() -> u64) -> Self;
}

macro_rules! words {
    ($($ty:ty: |$x:ident| $to:expr, |$word:ident| $of:expr;)*) => {$(
        impl Scalars for $ty {
            const WORDS: usize = 1;

            #[inline(always)]
            fn to_words(&self, each: &mut impl FnMut(u64)) {
                let $x = *self;
                each($to);
            }

            #[inline(always)]
            fn of_words(next: &mut impl FnMut() -> u64) -> Self {
                let $word = next();
                $of
            }
        }
    )*};
}
words! {
    u8: |x| u64::from(x), |word| word as u8;
    i8: |x| x as u64, |word| word as i8;
    u16: |x| u64::from(x), |word| word as u16;
    i16: |x| x as u64, |word| word as i16;
    u32: |x| u64::from(x), |word| word as u32;
    i32: |x| x as u64, |word| word as i32;
    u64: |x| x, |word| word;
    i64: |x| x as u64, |word| word as i64;
    f32: |x| u64::from(x.to_bits()), |word| f32::from_bits(word as u32);
    f64: |x| x.to_bits(), |word| f64::from_bits(word);
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
            fn push<D: Device>(launched: &Self::Launched<'_, D>, args: &mut Vec<Arg>) {
                args.push(launched.arg());
            }

            #[cfg(not(target_arch = "nvptx64"))]
            #[inline]
            unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self {
                let (argument, name) = leaves.take();
                // SAFETY: the caller promises that the leaf is a buffer in host memory that outlives the launch; the
                // launcher's types make it a buffer of `T`.
                unsafe { Self::of_argument(argument, name) }
            }
        }
    )*};
}
// `&'static T` is `noalias readonly` for LLVM, which then reads by `ld.global.nc`.
views! {
    Global: &'static T, &'a D::Buffer<T>;
    GlobalMut: *mut T, &'a mut D::Buffer<T>;
}

impl Parameter for GridGroup {
    #[cfg(target_arch = "nvptx64")]
    type Abi = *mut u32;

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn from_abi(abi: *mut u32) -> Self {
        Self::new(GlobalMut::new(abi))
    }

    #[cfg(not(target_arch = "nvptx64"))]
    type Launched<'a, D: Device> = ();

    #[cfg(not(target_arch = "nvptx64"))]
    fn push<D: Device>((): &(), args: &mut Vec<Arg>) {
        args.push(Arg::Grid);
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline]
    unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self {
        leaves.take();
        Self::new()
    }
}

impl<T: Element, const R: usize> Parameter for TensorMap<T, R> {
    /// The address of the entry point's parameter.
    #[cfg(target_arch = "nvptx64")]
    type Abi = u64;

    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn from_abi(abi: u64) -> Self {
        Self::new(abi)
    }

    #[cfg(not(target_arch = "nvptx64"))]
    type Launched<'a, D: Device> = Tensor<'a, D::Buffer<T>, R>;

    #[cfg(not(target_arch = "nvptx64"))]
    fn push<D: Device>(launched: &Self::Launched<'_, D>, args: &mut Vec<Arg>) {
        args.push(launched.arg());
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline]
    unsafe fn emulated(leaves: &mut Leaves<'_>) -> Self {
        let (argument, name) = leaves.take();
        let Arg::Tensor(tensor) = argument else { unreachable!("the argument of a tensor map is a tensor") };
        Self::new(Tile { tensor, name })
    }
}

/// A tensor map as the entry point's parameter. `#[kernel]` passes its address on.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct TensorBytes([u64; 16]);

/// Field `I` of a struct.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub trait Field<const I: usize> {
    /// The field's type.
    type Type: Parameter;
}
