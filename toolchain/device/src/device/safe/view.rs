//! Buffers whose lengths are those of the brands, and results of blocks and threads.

use core::marker::PhantomData;

use super::index::{ByBlock, ByThread, Cell, Index, Len, Mapping, OneThread, Own, OwnCell};
use super::{Brand, Brands, Count};
use crate::device::atomic::{self, AtomicNumber};
use crate::device::{DeviceCopy, Element, Global, GlobalMut, Word, thread};

/// An element of a buffer of a safe kernel: a number, or an array of K consecutive numbers.
///
/// A buffer of n arrays has K · n numbers; the launcher's argument is the buffer of numbers. An array is one access as far as its size
/// allows, of 16 or 8 bytes.
///
/// ```
/// use warpkov_device::device::kernel;
/// use warpkov_device::device::safe::{In, Len, Out};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// /// Products of complex numbers.
/// #[kernel(safe)]
/// fn multiply<'n>(n: Len<'n>, x: In<'n, [f32; 2]>, y: In<'n, [f32; 2]>, z: Out<'n, [f32; 2]>) {
///     for i in n.elements() {
///         let ([a, b], [c, d]) = (x.get(&i), y.get(&i));
///         z.set(&i, [a * c - b * d, a * d + b * c]);
///     }
/// }
///
/// let device = Emulator::default();
/// let (x, y) = (device.upload(&[0.0, 1.0, 2.0, 1.0])?, device.upload(&[0.0, 1.0, 3.0, 0.0])?);
/// let mut z = device.zeros(4)?;
/// multiply(&device, Shape::cover(2, 32), 2, &x, &y, &mut z)?;
/// assert_eq!(device.to_vec(&z)?, [-1.0, 0.0, 6.0, 3.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Item: Copy {
    /// The type of its numbers, which is that of the launcher's buffer.
    type Number: DeviceCopy;
    /// How many numbers it has.
    const COUNT: usize;

    #[doc(hidden)]
    #[track_caller]
    fn read(view: Global<Self::Number>, index: usize) -> Self;

    #[doc(hidden)]
    #[track_caller]
    fn read_back(view: GlobalMut<Self::Number>, index: usize) -> Self;

    #[doc(hidden)]
    #[track_caller]
    fn write(view: GlobalMut<Self::Number>, index: usize, value: Self);
}

impl<T: Element> Item for T {
    type Number = T;
    const COUNT: usize = 1;

    #[inline(always)]
    #[track_caller]
    fn read(view: Global<T>, index: usize) -> T {
        view.get(index)
    }

    #[inline(always)]
    #[track_caller]
    fn read_back(view: GlobalMut<T>, index: usize) -> T {
        view.get(index)
    }

    #[inline(always)]
    #[track_caller]
    fn write(view: GlobalMut<T>, index: usize, value: T) {
        view.set(index, value);
    }
}

/// An [`Item`] that is its own number: a number, or a struct that [derives](derive@crate::device::DeviceCopy) it.
#[doc(hidden)]
pub trait Single: Item<Number = Self> {}
impl<T: Element> Single for T {}

impl<T: Element, const K: usize> Item for [T; K] {
    type Number = T;
    const COUNT: usize = K;

    #[inline(always)]
    #[track_caller]
    fn read(view: Global<T>, index: usize) -> Self {
        view.get_array(index)
    }

    #[inline(always)]
    #[track_caller]
    fn read_back(view: GlobalMut<T>, index: usize) -> Self {
        view.get_array(index)
    }

    #[inline(always)]
    #[track_caller]
    fn write(view: GlobalMut<T>, index: usize, value: Self) {
        view.set_array(index, value);
    }
}

/// A buffer of at least n elements, which no thread writes.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn double<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
///     for i in n.elements() {
///         y.set(&i, 2.0 * x.get(&i));
///     }
/// }
///
/// # let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.upload(&[10.0; 3])?);
/// double(&device, Shape::cover(3, 32), 3, &x, &mut y)?;
/// assert_eq!(device.to_vec(&y)?, [2.0, 4.0, 6.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct In<'n, T: Item> {
    pub(super) view: Global<T::Number>,
    pub(super) brand: Brand<'n>,
}

/// A buffer of at least n elements, each of which one thread owns, or one warp or block, as the [`Mapping`] says.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn add<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
///     for i in n.elements() {
///         y.set(&i, y.get(&i) + x.get(&i));
///     }
/// }
///
/// # let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.upload(&[10.0; 3])?);
/// add(&device, Shape::cover(3, 32), 3, &x, &mut y)?;
/// assert_eq!(device.to_vec(&y)?, [11.0, 12.0, 13.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Out<'n, T: Item, M: Mapping = ByThread> {
    pub(super) view: GlobalMut<T::Number>,
    pub(super) brand: PhantomData<(Brand<'n>, M)>,
}

/// A buffer of at least `rows` · `columns` elements, which no thread writes.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn negate<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f32>, y: Out2<'r, 'c, f32>) {
///     for cell in rows.by(columns).elements() {
///         y.set(&cell, -x.get(&cell));
///     }
/// }
///
/// # let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.upload(&[10.0; 6])?);
/// negate(&device, Shape::new(1, 32), 2, 3, &x, &mut y)?;
/// assert_eq!(device.to_vec(&y)?[..4], [-1.0, -2.0, -3.0, -4.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct In2<'r, 'c, T: Item> {
    pub(super) view: Global<T::Number>,
    pub(super) brand: Brands<'r, 'c>,
}

/// A buffer of at least `rows` · `columns` elements, each of which one thread owns.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn add<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f32>, y: Out2<'r, 'c, f32>) {
///     for cell in rows.by(columns).elements() {
///         y.set(&cell, y.get(&cell) + x.get(&cell));
///     }
/// }
///
/// # let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.upload(&[10.0; 6])?);
/// add(&device, Shape::new(1, 32), 2, 3, &x, &mut y)?;
/// assert_eq!(device.to_vec(&y)?[..4], [11.0, 12.0, 13.0, 14.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Out2<'r, 'c, T: Item, M: Mapping = ByThread> {
    pub(super) view: GlobalMut<T::Number>,
    pub(super) brand: PhantomData<(Brands<'r, 'c>, M)>,
}

/// n indices below m.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn gather<'n, 'm>(n: Len<'n>, m: Len<'m>, at: Indices<'n, 'm>, x: In<'m, f32>, y: Out<'n, f32>) {
///     let _ = m;
///     for i in n.elements() {
///         y.set(&i, x.get(at.get(&i)));
///     }
/// }
///
/// # let device = Emulator::default();
/// let at = IndexBuffer::upload(&device, &[2, 0], 3)?;
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.zeros(2)?);
/// gather(&device, Shape::cover(2, 32), 2, 3, &at, &x, &mut y)?;
/// assert_eq!(device.to_vec(&y)?, [3.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Indices<'n, 'm> {
    pub(super) view: Global<u32>,
    pub(super) brand: Brands<'n, 'm>,
}

/// n numbers, to which all threads add.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn histogram<'n, 'b>(n: Len<'n>, bins: Len<'b>, x: In<'n, u32>, counts: Counters<'b, u32>) {
///     for i in n.elements() {
///         counts.add(bins.at(x.get(&i) % bins.get()), 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// let (x, mut counts) = (device.upload(&[0, 4, 5, 6, 7])?, device.zeros(2)?);
/// histogram(&device, Shape::cover(5, 32), 5, 2, &x, &mut counts)?;
/// assert_eq!(device.to_vec(&counts)?, [3, 2]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Counters<'n, T> {
    pub(super) view: GlobalMut<T>,
    pub(super) brand: Brand<'n>,
}

/// An element of each block of the grid.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn numbers(out: PerBlock<[u32; 2]>) {
///     out.set([thread::block_idx_x(), thread::block_dim_x()]);
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(4)?;
/// numbers(&device, Shape::new(2, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [0, 32, 1, 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct PerBlock<T: Item> {
    pub(super) view: GlobalMut<T::Number>,
}

/// An element of each thread of the grid, in one to three dimensions. The elements of a block are consecutive, in the order of
/// [`index_in_block`](thread::index_in_block).
///
/// ```
/// use warpkov_device::device::safe::{PerBlock, PerThread};
/// use warpkov_device::device::{block, kernel, thread};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// /// The index of each thread in its block, and the sum of them.
/// #[kernel(safe)]
/// fn number(indices: PerThread<u32>, sums: PerBlock<u32>) {
///     indices.set(thread::index_in_block());
///     sums.set(block::reduce(indices.get(), 0, |a, b| a + b));
/// }
///
/// let device = Emulator::default();
/// let (mut indices, mut sums) = (device.zeros(64)?, device.zeros(2)?);
/// number(&device, Shape::new(2, 32), &mut indices, &mut sums)?;
/// assert_eq!(device.to_vec(&indices)?[30..34], [30, 31, 0, 1]);
/// assert_eq!(device.to_vec(&sums)?, [496, 496]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct PerThread<T: Item> {
    pub(super) view: GlobalMut<T::Number>,
}

impl<'n, T: Item> In<'n, T> {
    /// The element at an index.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn double<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    ///     for i in n.elements() {
    ///         y.set(&i, 2.0 * x.get(&i));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.upload(&[10.0; 3])?);
    /// double(&device, Shape::cover(3, 32), 3, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(self, index: impl Into<Index<'n>>) -> T {
        T::read(self.view, index.into().at)
    }

    /// The number at an index, read once: see [`Global::get_streaming`].
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn double<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    ///     for i in n.elements() {
    ///         y.set(&i, 2.0 * x.get_streaming(&i));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.upload(&[10.0; 3])?);
    /// double(&device, Shape::cover(3, 32), 3, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get_streaming(self, index: impl Into<Index<'n>>) -> T
    where
        T: Word,
        T: Item<Number = T>,
    {
        self.view.get_streaming(index.into().at)
    }
}

impl<'n, T: Item, M: Mapping> Out<'n, T, M> {
    /// Writes the element that this thread owns, or its warp or block: then the value is that of the owner's first thread.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn copy<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    ///     for i in n.elements() {
    ///         y.set(&i, x.get(&i));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.upload(&[10.0; 3])?);
    /// copy(&device, Shape::cover(3, 32), 3, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn set(self, own: &Own<'n, M>, value: T) {
        if M::writes() {
            T::write(self.view, own.index().at, value);
        }
    }
}

impl<'n, T: Item, M: OneThread> Out<'n, T, M> {
    /// The element that this thread owns.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn add<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    ///     for i in n.elements() {
    ///         y.set(&i, y.get(&i) + x.get(&i));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.upload(&[10.0; 3])?);
    /// add(&device, Shape::cover(3, 32), 3, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [11.0, 12.0, 13.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(self, own: &Own<'n, M>) -> T {
        T::read_back(self.view, own.index().at)
    }
}

impl<'r, 'c, T: Item> In2<'r, 'c, T> {
    /// The element of a cell.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn negate<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f32>, y: Out2<'r, 'c, f32>) {
    ///     for cell in rows.by(columns).elements() {
    ///         y.set(&cell, -x.get(&cell));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.upload(&[10.0; 6])?);
    /// negate(&device, Shape::new(1, 32), 2, 3, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?[..4], [-1.0, -2.0, -3.0, -4.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(self, cell: impl Into<Cell<'r, 'c>>) -> T {
        T::read(self.view, cell.into().at)
    }

    /// The elements of a row.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn row_sums<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f32>, y: Out<'r, f32>) {
    ///     for i in rows.elements() {
    ///         let row = x.row(&i, columns);
    ///         y.set(&i, columns.indices().map(|j| row.get(j)).sum());
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.upload(&[10.0; 6])?);
    /// row_sums(&device, Shape::new(1, 32), 2, 3, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?[..2], [6.0, 15.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn row<N: Count>(self, row: impl Into<Index<'r>>, columns: Len<'c, N>) -> In<'c, T> {
        let first = row.into().at * columns.get().to_u64() as usize;
        In { view: self.view.skip(T::COUNT * first), brand: PhantomData }
    }
}

macro_rules! cells_of_threads {
    ($($mapping:ty)*) => {$(
        impl<'r, 'c, T: Item> Out2<'r, 'c, T, $mapping> {
            /// The element that this thread owns.
            ///
            /// ```
            /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
            /// #[kernel(safe)]
            /// fn add<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f32>, y: Out2<'r, 'c, f32>) {
            ///     for cell in rows.by(columns).elements() {
            ///         y.set(&cell, y.get(&cell) + x.get(&cell));
            ///     }
            /// }
            ///
            /// # let device = Emulator::default();
            /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.upload(&[10.0; 6])?);
            /// add(&device, Shape::new(1, 32), 2, 3, &x, &mut y)?;
            /// assert_eq!(device.to_vec(&y)?[..4], [11.0, 12.0, 13.0, 14.0]);
            /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
            /// ```
            #[inline(always)]
            #[must_use]
            #[track_caller]
            pub fn get(self, own: &OwnCell<'r, 'c, $mapping>) -> T {
                T::read_back(self.view, own.cell.at)
            }

            /// Writes the element that this thread owns.
            ///
            /// ```
            /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
            /// #[kernel(safe)]
            /// fn negate<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f32>, y: Out2<'r, 'c, f32>) {
            ///     for cell in rows.by(columns).elements() {
            ///         y.set(&cell, -x.get(&cell));
            ///     }
            /// }
            ///
            /// # let device = Emulator::default();
            /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.upload(&[10.0; 6])?);
            /// negate(&device, Shape::new(1, 32), 2, 3, &x, &mut y)?;
            /// assert_eq!(device.to_vec(&y)?[..4], [-1.0, -2.0, -3.0, -4.0]);
            /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
            /// ```
            #[inline(always)]
            #[track_caller]
            pub fn set(self, own: &OwnCell<'r, 'c, $mapping>, value: T) {
                T::write(self.view, own.cell.at, value);
            }
        }
    )*};
}
cells_of_threads!(ByThread ByBlock);

impl<'n, 'm> Indices<'n, 'm> {
    /// The index at an index.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn gather<'n, 'm>(n: Len<'n>, m: Len<'m>, at: Indices<'n, 'm>, x: In<'m, f32>, y: Out<'n, f32>) {
    ///     let _ = m;
    ///     for i in n.elements() {
    ///         y.set(&i, x.get(at.get(&i)));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let at = IndexBuffer::upload(&device, &[2, 0], 3)?;
    /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0])?, device.zeros(2)?);
    /// gather(&device, Shape::cover(2, 32), 2, 3, &at, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [3.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(self, index: impl Into<Index<'n>>) -> Index<'m> {
        Index::below(self.view.get(index.into().at) as usize)
    }
}

impl<'n, T: AtomicNumber> Counters<'n, T> {
    /// Adds to the number at an index, at any time and from any thread. The sums of integers are deterministic.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn histogram<'n, 'b>(n: Len<'n>, bins: Len<'b>, x: In<'n, u32>, counts: Counters<'b, u32>) {
    ///     for i in n.elements() {
    ///         counts.add(bins.at(x.get(&i) % bins.get()), 1);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut counts) = (device.upload(&[0, 4, 5, 6, 7])?, device.zeros(2)?);
    /// histogram(&device, Shape::cover(5, 32), 5, 2, &x, &mut counts)?;
    /// assert_eq!(device.to_vec(&counts)?, [3, 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn add(self, index: impl Into<Index<'n>>, value: T) {
        atomic::add((self.view, index.into().at), value);
    }
}

impl<T: Item> PerBlock<T> {
    /// Writes the block's element: the value of its first thread.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers(out: PerBlock<[u32; 2]>) {
    ///     out.set([thread::block_idx_x(), thread::block_dim_x()]);
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(4)?;
    /// numbers(&device, Shape::new(2, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [0, 32, 1, 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn set(self, value: T) {
        if thread::thread_idx_x() == 0 {
            T::write(self.view, thread::block_idx_x() as usize, value);
        }
    }
}

/// The thread's index in a grid of one to three dimensions.
#[inline(always)]
fn index_in_grid() -> usize {
    let block = thread::block_idx_x() as usize
        + thread::grid_dim_x() as usize
            * (thread::block_idx_y() as usize + thread::grid_dim_y() as usize * thread::block_idx_z() as usize);
    block * thread::block_size() as usize + thread::index_in_block() as usize
}

impl<T: Item> PerThread<T> {
    /// The thread's element.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn increment(x: PerThread<u32>) {
    ///     x.set(x.get() + thread::thread_idx_x());
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.upload(&[100; 32])?;
    /// increment(&device, Shape::new(1, 32), &mut x)?;
    /// assert_eq!(device.to_vec(&x)?[..3], [100, 101, 102]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(self) -> T {
        T::read_back(self.view, index_in_grid())
    }

    /// Writes the thread's element.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn increment(x: PerThread<u32>) {
    ///     x.set(x.get() + thread::thread_idx_x());
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut x = device.upload(&[100; 32])?;
    /// increment(&device, Shape::new(1, 32), &mut x)?;
    /// assert_eq!(device.to_vec(&x)?[..3], [100, 101, 102]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn set(self, value: T) {
        T::write(self.view, index_in_grid(), value);
    }
}
