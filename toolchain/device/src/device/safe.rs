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
//! | [`Len<'n>`](Len) | `u32` | n |
//! | [`In<'n, T>`](In) | `&D::Buffer<T>` | reads at any [`Index<'n>`](Index) |
//! | [`Out<'n, T>`](Out) | `&mut D::Buffer<T>` | reads and writes of the elements that the thread owns |
//! | [`In2<'r, 'c, T>`](In2), [`Out2`] | as above | the same for `rows` · `columns` elements, at a [`Cell`] |
//! | [`Indices<'n, 'm>`](Indices) | [`&IndexBuffer`](crate::launch::IndexBuffer) | n indices below m, which the upload has checked |
//! | [`Counters<'n, T>`](Counters) | `&mut D::Buffer<T>` | sums of all threads, by atomic additions |
//! | [`PerBlock<T>`](PerBlock) | `&mut D::Buffer<T>` | one result of each block |
//! | a scalar | the scalar | the scalar |
//!
//! The functions of [`warp`](super::warp) and [`block`](super::block) may be called where all threads meet: `warpkov-build` refuses a
//! safe kernel with a barrier or a warp's operation on one side of a branch that divides threads. Blocks consist of whole warps.
//! A safe kernel has no `unsafe` code, and no shared memory but that of [`block`](super::block) and of [`tile!`](crate::tile).

use core::marker::PhantomData;

use super::atomic::{self, AtomicNumber};
#[cfg(not(target_arch = "nvptx64"))]
use super::parameter::Leaves;
use super::{DeviceCopy, Element, Global, GlobalMut, Parameter, Shared, thread};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::fault;
#[cfg(not(target_arch = "nvptx64"))]
use crate::launch::{Arg, Buffer as _, Device, IndexBuffer};

/// Ties lengths, indices and views together. Invariant, so that one lifetime never stands for two lengths.
type Brand<'n> = PhantomData<fn(&'n ()) -> &'n ()>;

/// The same for two lengths.
type Brands<'n, 'm> = PhantomData<(Brand<'n>, Brand<'m>)>;

/// A length n.
#[derive(Clone, Copy)]
pub struct Len<'n> {
    n: u32,
    brand: Brand<'n>,
}

/// A number below n, the length of [`Len<'n>`](Len).
#[derive(Clone, Copy)]
pub struct Index<'n> {
    at: usize,
    brand: Brand<'n>,
}

/// The index of an element that this thread owns, of the n elements of an [`Out<'n, T>`](Out).
pub struct Own<'n>(Index<'n>);

impl<'n> Len<'n> {
    /// n.
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> u32 {
        self.n
    }

    /// `i`, if it is below n.
    #[inline(always)]
    #[must_use]
    pub fn index(self, i: u64) -> Option<Index<'n>> {
        (i < u64::from(self.n)).then_some(Index { at: i as usize, brand: PhantomData })
    }

    /// `i`, which must be below n: otherwise the kernel stops, and the launch is an error.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at(self, i: u64) -> Index<'n> {
        match self.index(i) {
            Some(index) => index,
            None => out_of_range(i, u64::from(self.n)),
        }
    }

    /// The element of this thread in a grid with a thread for each element: that with the thread's index; `None` for a thread beyond
    /// the last element.
    #[inline(always)]
    #[must_use]
    pub fn element(self) -> Option<Own<'n>> {
        self.index(thread::index_1d()).map(Own)
    }

    /// All elements that this thread owns: from its index on, one for each stride of the grid. Every element has one owner.
    #[inline(always)]
    pub fn elements(self) -> impl Iterator<Item = Own<'n>> {
        let stride = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
        let mut next = thread::index_1d();
        core::iter::from_fn(move || {
            let own = self.index(next).map(Own);
            next += stride;
            own
        })
    }

    /// The cells of a matrix with n rows.
    #[inline(always)]
    #[must_use]
    pub fn by<'c>(self, columns: Len<'c>) -> Area<'n, 'c> {
        Area { rows: self, columns }
    }
}

impl Index<'_> {
    /// The number.
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> usize {
        self.at
    }
}

impl<'n> Own<'n> {
    /// The index.
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> Index<'n> {
        self.0
    }
}

impl<'n> From<&Own<'n>> for Index<'n> {
    #[inline(always)]
    fn from(own: &Own<'n>) -> Self {
        own.0
    }
}

/// Stops the kernel.
#[cfg(target_arch = "nvptx64")]
#[cold]
fn out_of_range(_: u64, _: u64) -> ! {
    // SAFETY: the instruction ends the kernel.
    unsafe { core::arch::asm!("trap;", options(noreturn)) }
}

/// Stops the kernel.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
#[cold]
fn out_of_range(i: u64, n: u64) -> ! {
    let index = usize::try_from(i).unwrap_or(usize::MAX);
    let place = fault::Place { array: "Len", index, shared: false };
    fault::raise_with(fault::Kind::OutOfBounds { place, len: n as usize }, "`Len::index` returns an option".to_owned());
}

/// The rows and columns of a matrix, whose element (r, c) has the number r · `columns` + c.
#[derive(Clone, Copy)]
pub struct Area<'r, 'c> {
    rows: Len<'r>,
    columns: Len<'c>,
}

/// A row and a column of a matrix.
#[derive(Clone, Copy)]
pub struct Cell<'r, 'c> {
    row: Index<'r>,
    column: Index<'c>,
    at: usize,
}

/// A cell that this thread owns, of an [`Out2<'r, 'c, T>`](Out2).
pub struct OwnCell<'r, 'c>(Cell<'r, 'c>);

impl<'r, 'c> Area<'r, 'c> {
    /// The cell in a row and a column.
    #[inline(always)]
    #[must_use]
    pub fn cell(self, row: Index<'r>, column: Index<'c>) -> Cell<'r, 'c> {
        Cell { row, column, at: row.at * self.columns.n as usize + column.at }
    }

    /// The cell of this thread in a grid with a thread for each cell: in the row of its index in y, and the column of its index in x.
    #[inline(always)]
    #[must_use]
    pub fn element(self) -> Option<OwnCell<'r, 'c>> {
        let row =
            u64::from(thread::block_idx_y()) * u64::from(thread::block_dim_y()) + u64::from(thread::thread_idx_y());
        Some(OwnCell(self.cell(self.rows.index(row)?, self.columns.index(thread::index_1d())?)))
    }

    /// All cells that this thread owns: one for each stride of the grid in y and in x. Every cell has one owner.
    #[inline(always)]
    pub fn elements(self) -> impl Iterator<Item = OwnCell<'r, 'c>> {
        let down = u64::from(thread::grid_dim_y()) * u64::from(thread::block_dim_y());
        let right = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
        let mut row =
            u64::from(thread::block_idx_y()) * u64::from(thread::block_dim_y()) + u64::from(thread::thread_idx_y());
        let mut column = thread::index_1d();
        core::iter::from_fn(move || {
            if column >= u64::from(self.columns.n) {
                (row, column) = (row + down, thread::index_1d());
            }
            let own = OwnCell(self.cell(self.rows.index(row)?, self.columns.index(column)?));
            column += right;
            Some(own)
        })
    }
}

impl<'r, 'c> Cell<'r, 'c> {
    /// The row.
    #[inline(always)]
    #[must_use]
    pub fn row(self) -> Index<'r> {
        self.row
    }

    /// The column.
    #[inline(always)]
    #[must_use]
    pub fn column(self) -> Index<'c> {
        self.column
    }
}

impl<'r, 'c> OwnCell<'r, 'c> {
    /// The cell.
    #[inline(always)]
    #[must_use]
    pub fn cell(&self) -> Cell<'r, 'c> {
        self.0
    }
}

impl<'r, 'c> From<&OwnCell<'r, 'c>> for Cell<'r, 'c> {
    #[inline(always)]
    fn from(own: &OwnCell<'r, 'c>) -> Self {
        own.0
    }
}

/// A buffer of at least n elements, which no thread writes.
#[derive(Clone, Copy)]
pub struct In<'n, T> {
    view: Global<T>,
    brand: Brand<'n>,
}

/// A buffer of at least n elements, each of which one thread owns.
#[derive(Clone, Copy)]
pub struct Out<'n, T> {
    view: GlobalMut<T>,
    brand: Brand<'n>,
}

/// A buffer of at least `rows` · `columns` elements, which no thread writes.
#[derive(Clone, Copy)]
pub struct In2<'r, 'c, T> {
    view: Global<T>,
    brand: Brands<'r, 'c>,
}

/// A buffer of at least `rows` · `columns` elements, each of which one thread owns.
#[derive(Clone, Copy)]
pub struct Out2<'r, 'c, T> {
    view: GlobalMut<T>,
    brand: Brands<'r, 'c>,
}

/// n indices below m.
#[derive(Clone, Copy)]
pub struct Indices<'n, 'm> {
    view: Global<u32>,
    brand: Brands<'n, 'm>,
}

/// n numbers, to which all threads add.
#[derive(Clone, Copy)]
pub struct Counters<'n, T> {
    view: GlobalMut<T>,
    brand: Brand<'n>,
}

/// A number of each block of the grid.
#[derive(Clone, Copy)]
pub struct PerBlock<T> {
    view: GlobalMut<T>,
}

impl<'n, T: DeviceCopy> In<'n, T> {
    /// The element at an index.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: impl Into<Index<'n>>) -> T {
        self.view.get(index.into().at)
    }
}

impl<'n, T: DeviceCopy> Out<'n, T> {
    /// The element that this thread owns.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, own: &Own<'n>) -> T {
        self.view.get(own.0.at)
    }

    /// Writes the element that this thread owns.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, own: &Own<'n>, value: T) {
        self.view.set(own.0.at, value);
    }
}

impl<'r, 'c, T: DeviceCopy> In2<'r, 'c, T> {
    /// The element of a cell.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, cell: impl Into<Cell<'r, 'c>>) -> T {
        self.view.get(cell.into().at)
    }
}

impl<'r, 'c, T: DeviceCopy> Out2<'r, 'c, T> {
    /// The element that this thread owns.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, own: &OwnCell<'r, 'c>) -> T {
        self.view.get(own.0.at)
    }

    /// Writes the element that this thread owns.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, own: &OwnCell<'r, 'c>, value: T) {
        self.view.set(own.0.at, value);
    }
}

impl<'n, 'm> Indices<'n, 'm> {
    /// The index at an index.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, index: impl Into<Index<'n>>) -> Index<'m> {
        Index { at: self.view.get(index.into().at) as usize, brand: PhantomData }
    }
}

impl<'n, T: AtomicNumber> Counters<'n, T> {
    /// Adds to the number at an index, at any time and from any thread. The sums of integers are deterministic.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn add(self, index: impl Into<Index<'n>>, value: T) {
        atomic::add((self.view, index.into().at), value);
    }
}

impl<T: DeviceCopy> PerBlock<T> {
    /// Writes the block's number: the value of its first thread.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(self, value: T) {
        if thread::thread_idx_x() == 0 {
            self.view.set(thread::block_idx_x() as usize, value);
        }
    }
}

/// An array in the block's shared memory, which its threads fill and then read: see [`tile!`](crate::tile).
pub struct Tile<T> {
    array: Shared<T>,
    len: u32,
}

/// A filled [`Tile`].
pub struct Filled<'t, T> {
    tile: &'t Tile<T>,
}

impl<T: Element> Tile<T> {
    /// For [`tile!`](crate::tile).
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn of_array(array: Shared<T>, len: u32) -> Self {
        Self { array, len }
    }

    /// Writes `value(i)` to each element i: the threads of the block take turns. Then all threads may read all elements.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: two, before and after the writes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fill(&mut self, mut value: impl FnMut(u32) -> T) -> Filled<'_, T> {
        // Threads may still read what the tile holds.
        thread::sync_threads();
        let mut i = thread::index_in_block();
        while i < self.len {
            self.array.set(i, value(i));
            i += thread::block_size();
        }
        thread::sync_threads();
        Filled { tile: self }
    }
}

impl<T: Element> Filled<'_, T> {
    /// Element `i`, which must be one of the tile: otherwise the kernel stops, and the launch is an error.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(&self, i: u32) -> T {
        match i < self.tile.len {
            true => self.tile.array.get(i),
            false => out_of_range(i.into(), self.tile.len.into()),
        }
    }
}

/// An array in shared memory that the threads of a block fill and read: `let mut tile = tile!(tile: f32; 256);`. The name must differ
/// from that of all other arrays of the crate. See [`Tile`](crate::device::safe::Tile).
#[macro_export]
macro_rules! tile {
    ($name:ident: $ty:ty; $len:literal) => {
        $crate::device::safe::Tile::<$ty>::of_array($crate::shared_array!(@named "tile_", $name: $ty; $len), $len)
    };
}

/// A parameter of a safe kernel.
///
/// # Safety
/// Through a parameter of this type, safe code accesses only elements within the lengths that the launcher has compared, and writes
/// no element that another thread accesses at the same time, but for atomic operations.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no parameter of a safe kernel",
    label = "expected a scalar, or one of `Len`, `In`, `Out`, `In2`, `Out2`, `Indices`, `Counters` and `PerBlock`",
    note = "a `Global` is accessed at any index, which the launch cannot check: use `In` or `Out`, or leave out `safe`"
)]
pub unsafe trait Safe {}

macro_rules! safe_scalars {
    ($($ty:ty)*) => {
        $(
            // SAFETY: a scalar gives access to no memory.
            unsafe impl Safe for $ty {}
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
            fn name(path: &str, names: &mut Vec<String>) {
                names.push(path.to_owned());
            }

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
    ['n] Len<'n>: n of u32, u32, one, |n| Arg::scalar(*n);
    ['n, T: DeviceCopy] In<'n, T>: view of Global<T>, &'a D::Buffer<T>, one, |buffer| buffer.arg();
    ['n, T: DeviceCopy] Out<'n, T>: view of GlobalMut<T>, &'a mut D::Buffer<T>, one, |buffer| buffer.arg();
    ['r, 'c, T: DeviceCopy] In2<'r, 'c, T>: view of Global<T>, &'a D::Buffer<T>, one, |buffer| buffer.arg();
    ['r, 'c, T: DeviceCopy] Out2<'r, 'c, T>: view of GlobalMut<T>, &'a mut D::Buffer<T>, one, |buffer| buffer.arg();
    ['n, 'm] Indices<'n, 'm>: view of Global<u32>, &'a IndexBuffer<D::Buffer<u32>>, one, |indices| indices.arg();
    ['n, T: DeviceCopy] Counters<'n, T>: view of GlobalMut<T>, &'a mut D::Buffer<T>, one, |buffer| buffer.arg();
    [T: DeviceCopy] PerBlock<T>: view of GlobalMut<T>, &'a mut D::Buffer<T>, none, |buffer| buffer.arg();
}
