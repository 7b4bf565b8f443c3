//! Buffers with a length of their own.

use core::marker::PhantomData;
use core::ops::Range;

use super::index::Len;
use super::{Count, In, Item, out_of_range};
#[cfg(target_arch = "nvptx64")]
use crate::device::atomic::Address;
use crate::device::atomic::{Cell, Scope};
use crate::device::{AnyIndex, Element, Global, GlobalMut, Word};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::thread::Atomic;

/// A buffer that no thread writes, and its length. An access is checked, as in a Rust slice; that of a whole range or row is checked
/// once. Where the check fails, the kernel stops, and the launch is an error.
///
/// ```
/// use warpkov_device::device::kernel;
/// use warpkov_device::device::safe::{Len, Out, Slice};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// /// The sum of each row of a matrix whose rows have any lengths.
/// #[kernel(safe)]
/// fn sums<'n>(n: Len<'n>, first: Slice<u32>, x: Slice<f64>, y: Out<'n, f64>) {
///     for i in n.elements() {
///         let row = i.index().get();
///         let (start, end) = (first.get(row) as usize, first.get(row + 1) as usize);
///         y.set(&i, x.range(start..end).iter().sum());
///     }
/// }
///
/// let device = Emulator::default();
/// let (first, x) = (device.upload(&[0, 2, 3])?, device.upload(&[1.0, 2.0, 4.0])?);
/// let mut y = device.zeros(2)?;
/// sums(&device, Shape::cover(2, 32), 2, &first, &x, &mut y)?;
/// assert_eq!(device.to_vec(&y)?, [3.0, 4.0]);
///
/// let wrong = device.upload(&[0, 2, 5])?;
/// assert!(sums(&device, Shape::cover(2, 32), 2, &wrong, &x, &mut y).is_err());
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Slice<T> {
    pub(super) view: Global<T>,
    pub(super) len: u64,
}

impl<T: Element> Slice<T> {
    /// Number of elements.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     out.set(x.len() as u32);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [4; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     out.set(u32::from(x.is_empty()));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [0; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The element at an index.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     out.set(x.get(thread::thread_idx_x() as usize % 4));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[2..6], [3, 4, 1, 2]);
    ///
    /// let short = device.upload(&[1, 2, 3])?;
    /// assert!(read(&device, Shape::new(1, 32), &short, &mut out).is_err());
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(self, index: impl AnyIndex) -> T {
        let index = index.wide();
        if index as u64 >= self.len {
            self.beyond(index);
        }
        self.view.get(index)
    }

    /// The element at an index, or the last one if the index is beyond it: where an index comes from data that nobody has checked, and
    /// loads of several rounds should be in flight. Under emulation, an index beyond the end is an error.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     out.set(x.get_clamped(thread::thread_idx_x() as usize % 4));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[2..6], [3, 4, 1, 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get_clamped(self, index: impl AnyIndex) -> T {
        let index = index.wide();
        if self.len == 0 || (cfg!(not(target_arch = "nvptx64")) && index as u64 >= self.len) {
            self.beyond(index);
        }
        self.view.get((index as u64).min(self.len - 1) as usize)
    }

    /// The K elements from `first` on.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     let [a, b, c] = x.chunk(1);
    ///     out.set(100 * a + 10 * b + c);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [234; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn chunk<const K: usize>(self, first: impl AnyIndex) -> [T; K] {
        let first = first.wide();
        if K as u64 > self.len || first as u64 > self.len - K as u64 {
            self.beyond(first.saturating_add(K).saturating_sub(1));
        }
        core::array::from_fn(|k| self.view.get(first + k))
    }

    /// The elements of a range.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     out.set(x.range(1..3).iter().sum());
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [5; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn range(self, Range { start, end }: Range<impl AnyIndex>) -> Self {
        let (start, end) = (start.wide(), end.wide());
        if start > end || end as u64 > self.len {
            self.beyond(end.wrapping_sub(1));
        }
        Self { view: self.view.skip(start), len: (end - start) as u64 }
    }

    /// The n elements from `first` on, for indices below n.
    ///
    /// ```
    /// use warpkov_device::device::kernel;
    /// use warpkov_device::device::safe::{In, Len, Out, Slice};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// The product of a matrix and a vector. The loop over columns has no check.
    /// #[kernel(safe)]
    /// fn multiply<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: Slice<f64>, x: In<'c, f64>, y: Out<'r, f64>) {
    ///     for i in rows.elements() {
    ///         let row = a.row(i.index().get() * columns.get() as usize, columns);
    ///         let mut sum = 0.0;
    ///         for j in columns.indices() {
    ///             sum += row.get(j) * x.get(j);
    ///         }
    ///         y.set(&i, sum);
    ///     }
    /// }
    ///
    /// let device = Emulator::default();
    /// let (a, x) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.upload(&[10.0, 1.0])?);
    /// let mut y = device.zeros(2)?;
    /// multiply(&device, Shape::cover(2, 32), 2, 2, &a, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [12.0, 34.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn row<'n, N: Count>(self, first: impl AnyIndex, len: Len<'n, N>) -> In<'n, T>
    where
        T: Item<Number = T>,
    {
        let first = first.wide();
        let n = len.get().to_u64();
        if n > self.len || first as u64 > self.len - n {
            self.beyond(first.saturating_add(n as usize).saturating_sub(1));
        }
        In { view: self.view.skip(first), brand: PhantomData }
    }

    /// All elements, in order.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     out.set(x.iter().sum());
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [10; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = T> {
        (0..self.len as usize).map(move |index| self.view.get(index))
    }

    /// `count` elements: that at `first`, and those at each further distance `stride`.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn read(x: Slice<u32>, out: PerThread<u32>) {
    ///     out.set(x.every(1, 2, 2).sum());
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4])?, device.zeros(32)?);
    /// read(&device, Shape::new(1, 32), &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [6; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn every(self, first: impl AnyIndex, stride: impl AnyIndex, count: impl AnyIndex) -> impl Iterator<Item = T> {
        let (first, stride, count) = (first.wide(), stride.wide(), count.wide());
        if count > 0 {
            // The product of two numbers of 64 bits may not fit.
            let last = (count as u64 - 1).checked_mul(stride as u64).and_then(|last| last.checked_add(first as u64));
            if last.is_none_or(|last| last >= self.len) {
                self.beyond(last.unwrap_or(u64::MAX) as usize);
            }
        }
        (0..count).map(move |k| self.view.get(first + k * stride))
    }

    #[inline(always)]
    #[track_caller]
    fn beyond(self, index: usize) -> ! {
        target! {
            nvptx => out_of_range("", index as u64, self.len),
            emulated => out_of_range(self.view.first_place().array, index as u64, self.len),
        }
    }
}

/// Numbers that all threads access by [atomic](crate::device::atomic) operations only, and how many there are.
///
/// ```
/// use warpkov_device::device::safe::{Atomics, In, Len};
/// use warpkov_device::device::{atomic, kernel};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// /// The sum and the largest of x.
/// #[kernel(safe)]
/// fn sum_and_max<'n>(n: Len<'n>, x: In<'n, u32>, found: Atomics<u32>) {
///     for i in n.elements() {
///         atomic::add(found.at(0), x.get(&i));
///         atomic::max(found.at(1), x.get(&i));
///     }
/// }
///
/// let device = Emulator::default();
/// let (x, mut found) = (device.upload(&[3, 9, 4])?, device.zeros(2)?);
/// sum_and_max(&device, Shape::cover(3, 32), 3, &x, &mut found)?;
/// assert_eq!(device.to_vec(&found)?, [16, 9]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Atomics<T> {
    pub(super) view: GlobalMut<T>,
    pub(super) len: u64,
}

/// A number of [`Atomics`]: the first argument of the functions of [`atomic`](crate::device::atomic). All blocks may have it, so an operation
/// that writes it with [`Scope::Block`] has [`Scope::Device`]: none is lost. A load with `Scope::Block` may return an older number.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn count(cells: Atomics<u32>) {
///     let cell: AtomicCell<u32> = cells.at(1);
///     atomic::add(cell, 1);
/// }
///
/// # let device = Emulator::default();
/// let mut cells = device.upload(&[0_u32, 5])?;
/// count(&device, Shape::new(1, 32), &mut cells)?;
/// assert_eq!(device.to_vec(&cells)?, [0, 37]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct AtomicCell<T> {
    cell: (GlobalMut<T>, usize),
}

impl<T: Word> Atomics<T> {
    /// Number of numbers.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn count(cells: Atomics<u32>) {
    ///     atomic::max(cells.at(0), cells.len() as u32);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[0_u32, 5])?;
    /// count(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [2, 5]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn count(cells: Atomics<u32>) {
    ///     if !cells.is_empty() {
    ///         atomic::add(cells.at(0), 1);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[0_u32, 5])?;
    /// count(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [32, 5]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The number at an index, which must be below their number: otherwise the kernel stops, and the launch is an error.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn count(cells: Atomics<u32>) {
    ///     atomic::add(cells.at(1), 1);
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[0_u32, 5])?;
    /// count(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [0, 37]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn at(self, index: impl AnyIndex) -> AtomicCell<T> {
        let index = index.wide();
        if index as u64 >= self.len {
            self.beyond(index);
        }
        AtomicCell { cell: (self.view, index) }
    }

    /// The K numbers from `first` on, which must all be below their number.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn count(cells: Atomics<u32>) {
    ///     for cell in cells.chunk::<2>(0) {
    ///         atomic::add(cell, 1);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let mut cells = device.upload(&[0_u32, 5])?;
    /// count(&device, Shape::new(1, 32), &mut cells)?;
    /// assert_eq!(device.to_vec(&cells)?, [32, 37]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn chunk<const K: usize>(self, first: impl AnyIndex) -> [AtomicCell<T>; K] {
        let first = first.wide();
        if K as u64 > self.len || first as u64 > self.len - K as u64 {
            self.beyond(first.saturating_add(K).saturating_sub(1));
        }
        core::array::from_fn(|k| AtomicCell { cell: (self.view, first + k) })
    }

    #[inline(always)]
    #[track_caller]
    fn beyond(self, index: usize) -> ! {
        target! {
            nvptx => out_of_range("", index as u64, self.len),
            emulated => out_of_range(self.view.first_place().array, index as u64, self.len),
        }
    }
}

impl<T: Word> Cell<T> for AtomicCell<T> {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn address(&self) -> Address {
        self.cell.address()
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    fn update(&self, atomic: Atomic, update: impl Fn(T) -> T) -> T {
        self.cell.update(atomic, update)
    }

    #[inline(always)]
    fn scope(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Block => Scope::Device,
            wider => wider,
        }
    }
}
