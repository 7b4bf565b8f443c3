//! Lengths, indices below them, and who owns which element.

use core::marker::PhantomData;

use super::{Brand, Safe, out_of_range};
use crate::device::{AnyIndex, DeviceCopy, Parameter, thread, warp};

mod sealed {
    /// Implemented for types whose [`to_u64`](super::Count::to_u64) is what a contract compares.
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// The type of a length: `u32` or `u64`.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// /// n less the index of the element.
/// fn store<'n, N: Count + Into<u64>>(n: Len<'n, N>, out: Out<'n, u64>, i: Own<'n>) {
///     out.set(&i, n.get().into() - i.index().get() as u64);
/// }
///
/// #[kernel(safe)]
/// fn numbers<'n>(n: Len<'n, u64>, out: Out<'n, u64>) {
///     for i in n.elements() {
///         store(n, out, i);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// numbers(&device, Shape::cover(40, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..3], [40, 39, 38]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Count: sealed::Sealed + Safe + Parameter + DeviceCopy {
    /// The length.
    #[doc(hidden)]
    fn to_u64(self) -> u64;
}

impl Count for u32 {
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self.into()
    }
}

impl Count for u64 {
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self
    }
}

/// A length n.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32>) {
///     for i in n.elements() {
///         out.set(&i, n.get() - i.index().get() as u32);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// numbers(&device, Shape::cover(40, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..3], [40, 39, 38]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Len<'n, N = u32> {
    pub(super) n: N,
    pub(super) brand: Brand<'n>,
}

/// A number below n, the length of [`Len<'n>`](Len).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn shift<'n>(n: Len<'n>, x: In<'n, u32>, out: Out<'n, u32>) {
///     for own in n.elements() {
///         let i: Index = own.index();
///         let next: Option<Index> = n.index(i.get() as u64 + 1);
///         out.set(&own, next.map_or(0, |next| x.get(next)));
///     }
/// }
///
/// # let device = Emulator::default();
/// let (x, mut out) = (device.upload(&[5, 6, 7])?, device.zeros(3)?);
/// shift(&device, Shape::cover(3, 32), 3, &x, &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [6, 7, 0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Index<'n> {
    pub(super) at: usize,
    brand: Brand<'n>,
}

/// Which thread, warp or block owns which element: [`ByThread`], [`ByRun`], [`ByWarp`] or [`ByBlock`]. The mapping is part of the types
/// of an [`Out`](super::Out) and of its [`Own`]s, so no element has two owners.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// fn store<'n, M: Mapping>(out: Out<'n, u32, M>, own: &Own<'n, M>) {
///     out.set(own, 7);
/// }
///
/// #[kernel(safe)]
/// fn fill<'n>(n: Len<'n>, out: Out<'n, u32, ByWarp>) {
///     for own in n.warp_elements() {
///         store(out, &own);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// fill(&device, Shape::cover(40, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [7; 40]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Mapping: Copy {
    /// Whether this thread is the one that writes for the owner.
    #[doc(hidden)]
    fn writes() -> bool;
}

/// A [`Mapping`] that gives each element to one thread, which may also read it.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// fn add<'n, M: OneThread>(out: Out<'n, u32, M>, own: &Own<'n, M>) {
///     out.set(own, out.get(own) + 1);
/// }
///
/// #[kernel(safe)]
/// fn increment<'n>(n: Len<'n>, out: Out<'n, u32>) {
///     for own in n.elements() {
///         add(out, &own);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// increment(&device, Shape::cover(40, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [1; 40]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait OneThread: Mapping {}

/// Element i belongs to thread i of the grid, or to thread i modulo their number. A [`Cell`] belongs to the thread with its column
/// in x and its row in y.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn fill<'n>(n: Len<'n>, out: Out<'n, u32, ByThread>) {
///     for i in n.elements() {
///         out.set(&i, thread::thread_idx_x());
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// fill(&device, Shape::new(1, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[30..34], [30, 31, 0, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct ByThread;

/// The elements K·t … K·t + K − 1 belong to thread t of the grid.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn fill<'n>(n: Len<'n>, out: Out<'n, u32, ByRun<4>>) {
///     for own in n.run::<4>().into_iter().flatten() {
///         out.set(&own, thread::thread_idx_x());
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// fill(&device, Shape::cover(10, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[2..6], [0, 0, 1, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct ByRun<const K: usize>;

/// Element i belongs to warp i of the grid, or to warp i modulo their number: its first lane writes.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn fill<'n>(n: Len<'n>, out: Out<'n, u32, ByWarp>) {
///     for own in n.warp_elements() {
///         out.set(&own, warp::warp_id());
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// fill(&device, Shape::new(1, 64), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..4], [0, 1, 0, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct ByWarp;

/// Element i belongs to block i of the grid, or to block i modulo their number: its first thread writes. Of a matrix, a row belongs to
/// the block, and a [`Cell`] of it to the thread with its column in the block, modulo the block's threads.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn fill<'n>(n: Len<'n>, out: Out<'n, u32, ByBlock>) {
///     for own in n.block_elements() {
///         out.set(&own, thread::block_idx_x());
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// fill(&device, Shape::new(3, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..4], [0, 1, 2, 0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct ByBlock;

impl Mapping for ByThread {
    #[inline(always)]
    fn writes() -> bool {
        true
    }
}

impl<const K: usize> Mapping for ByRun<K> {
    #[inline(always)]
    fn writes() -> bool {
        true
    }
}

impl Mapping for ByWarp {
    #[inline(always)]
    fn writes() -> bool {
        warp::lane_id() == 0
    }
}

impl Mapping for ByBlock {
    #[inline(always)]
    fn writes() -> bool {
        thread::thread_idx_x() == 0
    }
}

impl OneThread for ByThread {}
impl<const K: usize> OneThread for ByRun<K> {}

/// The index of an element that this thread owns, or its warp or block, of the n elements of an [`Out<'n, T, M>`](super::Out).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32>) {
///     let own: Option<Own> = n.element();
///     if let Some(own) = own {
///         out.set(&own, own.index().get() as u32);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// numbers(&device, Shape::cover(40, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[38..], [38, 39]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct Own<'n, M = ByThread> {
    index: Index<'n>,
    mapping: PhantomData<M>,
}

impl<'n> Index<'n> {
    /// The caller has compared `at` with n.
    #[inline(always)]
    pub(super) fn below(at: usize) -> Self {
        Self { at, brand: PhantomData }
    }

    /// The number.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32>) {
    ///     for i in n.elements() {
    ///         out.set(&i, i.index().get() as u32);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::cover(40, 32), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[38..], [38, 39]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> usize {
        self.at
    }

    /// The indices of element i of a tensor whose elements are stored with the last index fastest: i = ((d₀ n₁ + d₁) n₂ + d₂) ….
    /// The first extent is not used: d₀ is what remains. An extent of 0 counts as 1.
    ///
    /// ```
    /// use warpkov_device::device::kernel;
    /// use warpkov_device::device::safe::{Len, Out};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// The digits of the element's place in a tensor of a × b × c elements.
    /// #[kernel(safe)]
    /// fn digits<'n>(n: Len<'n>, a: u32, b: u32, c: u32, x: Out<'n, u32>) {
    ///     if let Some(i) = n.element() {
    ///         let [p, q, r] = i.index().unravel([a, b, c]);
    ///         x.set(&i, (100 * p + 10 * q + r) as u32);
    ///     }
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut x = device.zeros(24)?;
    /// digits(&device, Shape::cover(24, 32), 24, 2, 3, 4, &mut x)?;
    /// assert_eq!(device.to_vec(&x)?[11..14], [23, 100, 101]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn unravel<const D: usize>(self, extents: [u32; D]) -> [usize; D] {
        let (mut digits, mut rest) = ([0; D], self.at);
        for d in (1..D).rev() {
            let extent = extents[d].max(1) as usize;
            digits[d] = rest % extent;
            rest /= extent;
        }
        if let Some(first) = digits.first_mut() {
            *first = rest;
        }
        digits
    }
}

impl<'n, M> Own<'n, M> {
    #[inline(always)]
    fn of(index: Index<'n>) -> Self {
        Self { index, mapping: PhantomData }
    }

    /// The index.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn halve<'n>(n: Len<'n>, x: In<'n, f32>, out: Out<'n, f32>) {
    ///     for i in n.elements() {
    ///         let here = i.index();
    ///         out.set(&i, x.get(here) / 2.0);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1.0, 3.0])?, device.zeros(2)?);
    /// halve(&device, Shape::cover(2, 32), 2, &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [0.5, 1.5]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> Index<'n> {
        self.index
    }
}

impl<'n, M> From<&Own<'n, M>> for Index<'n> {
    #[inline(always)]
    fn from(own: &Own<'n, M>) -> Self {
        own.index
    }
}

impl<'r> Own<'r, ByBlock> {
    /// The cells of this row that the thread owns: from its index in the block on, one for each stride of the block.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32, ByBlock>) {
    ///     for row in rows.block_elements() {
    ///         for cell in row.cells(columns) {
    ///             out.set(&cell, row.index().get() as u32);
    ///         }
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(2, 32), 4, 10, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[8..12], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn cells<'c>(&self, columns: Len<'c>) -> impl Iterator<Item = OwnCell<'r, 'c, ByBlock>> {
        let (row, mut next) = (self.index, u64::from(thread::thread_idx_x()));
        core::iter::from_fn(move || {
            let own = OwnCell::of(Cell::of(row, columns, columns.index(next)?));
            next += u64::from(thread::block_dim_x());
            Some(own)
        })
    }
}

/// Threads of a grid in one dimension.
#[inline(always)]
fn threads() -> u64 {
    u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x())
}

impl<'n, N: Count> Len<'n, N> {
    /// n.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn fill<'n>(n: Len<'n>, out: Out<'n, u32>) {
    ///     for i in n.elements() {
    ///         out.set(&i, n.get());
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// fill(&device, Shape::cover(40, 32), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [40; 40]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> N {
        self.n
    }

    /// `i`, if it is below n.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32>) {
    ///     for i in n.elements() {
    ///         let before = u64::from(i.index().get() as u32).wrapping_sub(1);
    ///         out.set(&i, u32::from(n.index(before).is_some()));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::cover(40, 32), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[..3], [0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn index(self, i: impl AnyIndex) -> Option<Index<'n>> {
        let i = i.wide() as u64;
        (i < self.n.to_u64()).then_some(Index::below(i as usize))
    }

    /// `i`, which must be below n: otherwise the kernel stops, and the launch is an error.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn gather<'n, 'm>(n: Len<'n>, m: Len<'m>, at: In<'n, u32>, x: In<'m, f32>, out: Out<'n, f32>) {
    ///     for i in n.elements() {
    ///         out.set(&i, x.get(m.at(at.get(&i))));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (at, x, mut out) = (device.upload(&[2, 0])?, device.upload(&[1.0, 2.0, 3.0])?, device.zeros(2)?);
    /// gather(&device, Shape::cover(2, 32), 2, 3, &at, &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [3.0, 1.0]);
    ///
    /// let beyond = device.upload(&[2, 3])?;
    /// assert!(gather(&device, Shape::cover(2, 32), 2, 3, &beyond, &x, &mut out).is_err());
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn at(self, i: impl AnyIndex) -> Index<'n> {
        let i = i.wide() as u64;
        match self.index(i) {
            Some(index) => index,
            None => out_of_range("Len", i, self.n.to_u64()),
        }
    }

    /// All indices, ascending: each thread gets all of them, to read.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn sums<'n>(n: Len<'n>, x: In<'n, u32>, out: Out<'n, u32>) {
    ///     for i in n.elements() {
    ///         out.set(&i, n.indices().map(|j| x.get(j)).sum());
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1; 40])?, device.zeros(40)?);
    /// sums(&device, Shape::cover(40, 32), 40, &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [40; 40]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn indices(self) -> impl Iterator<Item = Index<'n>> {
        (0..self.n.to_u64() as usize).map(Index::below)
    }

    /// The element of this thread in a grid with a thread for each element: that with the thread's index; `None` for a thread beyond
    /// the last element.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32>) {
    ///     if let Some(i) = n.element() {
    ///         out.set(&i, thread::index_1d() as u32);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::cover(40, 32), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[38..], [38, 39]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn element(self) -> Option<Own<'n>> {
        self.index(thread::index_1d()).map(Own::of)
    }

    /// All elements that this thread owns: from its index on, one for each stride of the grid.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32>) {
    ///     for i in n.elements() {
    ///         out.set(&i, thread::thread_idx_x());
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(1, 32), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[30..34], [30, 31, 0, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn elements(self) -> OwnElements<'n, N> {
        OwnElements { n: self, next: thread::index_1d(), stride: threads() }
    }

    /// The same elements, in as many rounds for each thread of the block as the first has: a thread without an element in the last
    /// round gets `None`. Barriers may therefore stand in the loop.
    ///
    /// ```
    /// use warpkov_device::device::safe::{Len, Out};
    /// use warpkov_device::device::{block, kernel};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// Replaces x by its exclusive prefix sums.
    /// #[kernel(safe, requires(shape.grid == 1))]
    /// fn prefix_sums<'n>(n: Len<'n>, x: Out<'n, u32>) {
    ///     let mut before = 0;
    ///     for own in n.rounds() {
    ///         let value = own.as_ref().map_or(0, |i| x.get(i));
    ///         let (here, sum) = block::exclusive_scan(value, 0, |a, b| a + b);
    ///         if let Some(i) = own {
    ///             x.set(&i, before + here);
    ///         }
    ///         before += sum;
    ///     }
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut x = device.upload(&[1; 70])?;
    /// prefix_sums(&device, Shape::new(1, 32), 70, &mut x)?;
    /// assert_eq!(device.to_vec(&x)?, (0..70).collect::<Vec<u32>>());
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn rounds(self) -> impl Iterator<Item = Option<Own<'n>>> {
        let mut first = u64::from(thread::block_idx_x()) * u64::from(thread::block_dim_x());
        core::iter::from_fn(move || {
            let own =
                (first < self.n.to_u64()).then(|| self.index(first + u64::from(thread::thread_idx_x())).map(Own::of));
            first += threads();
            own
        })
    }

    /// The K elements of this thread in a grid with K consecutive elements for each thread; `None` beyond the last element.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32, ByRun<4>>) {
    ///     for own in n.run::<4>().into_iter().flatten() {
    ///         out.set(&own, thread::thread_idx_x());
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::cover(10, 32), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[2..6], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn run<const K: usize>(self) -> [Option<Own<'n, ByRun<K>>>; K] {
        let first = thread::index_1d() * K as u64;
        core::array::from_fn(|k| self.index(first + k as u64).map(Own::of))
    }

    /// The element of this thread's warp in a grid with a warp for each element; `None`, for all lanes, beyond the last.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32, ByWarp>) {
    ///     if let Some(own) = n.warp_element() {
    ///         out.set(&own, warp::reduce(warp::lane_id(), |a, b| a + b));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(20, 64), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [496; 40]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn warp_element(self) -> Option<Own<'n, ByWarp>> {
        let warps = u64::from(thread::block_dim_x() / warp::SIZE);
        self.index(u64::from(thread::block_idx_x()) * warps + u64::from(warp::warp_role())).map(Own::of)
    }

    /// All elements that this thread's warp owns: from the warp's number in the grid on, one for each stride of the grid's warps. All
    /// lanes do the same rounds, so operations of a warp may stand in the loop.
    ///
    /// ```
    /// use warpkov_device::device::safe::{ByWarp, In2, Len, Out};
    /// use warpkov_device::device::{kernel, warp};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// The sum of each row of a matrix.
    /// #[kernel(safe)]
    /// fn sums<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f64>, sums: Out<'r, f64, ByWarp>) {
    ///     for own in rows.warp_elements() {
    ///         let row = x.row(&own, columns);
    ///         let mut sum = 0.0;
    ///         for j in columns.lanes() {
    ///             sum += row.get(j);
    ///         }
    ///         sums.set(&own, warp::reduce(sum, |a, b| a + b));
    ///     }
    /// }
    ///
    /// let device = Emulator::default();
    /// let (x, mut found) = (device.upload(&[0.5; 5 * 40])?, device.zeros(5)?);
    /// sums(&device, Shape::new(1, 64), 5, 40, &x, &mut found)?;
    /// assert_eq!(device.to_vec(&found)?, [20.0; 5]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn warp_elements(self) -> impl Iterator<Item = Own<'n, ByWarp>> {
        // The number of a warp comes from its first lane, so that the compiler and the audit know it for equal in all lanes.
        let warps = u64::from(thread::block_dim_x() / warp::SIZE);
        let mut next = u64::from(thread::block_idx_x()) * warps + u64::from(warp::warp_role());
        core::iter::from_fn(move || {
            let own = self.index(next).map(Own::of);
            next += u64::from(thread::grid_dim_x()) * warps;
            own
        })
    }

    /// The element of this thread's block in a grid with a block for each element; `None`, for all threads, beyond the last.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32, ByBlock>) {
    ///     if let Some(own) = n.block_element() {
    ///         out.set(&own, block::reduce(1, 0, |a, b| a + b));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(40, 64), 40, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [64; 40]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn block_element(self) -> Option<Own<'n, ByBlock>> {
        self.index(u64::from(thread::block_idx_x())).map(Own::of)
    }

    /// All elements that this thread's block owns: from the block's index on, one for each stride of the grid. All threads of the block
    /// do the same rounds, so barriers may stand in the loop.
    ///
    /// ```
    /// use warpkov_device::device::safe::{ByBlock, In2, Len, Out2};
    /// use warpkov_device::device::{block, kernel};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// Divides each row of a matrix by its sum.
    /// #[kernel(safe)]
    /// fn normalise<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'r, 'c, f64>, y: Out2<'r, 'c, f64, ByBlock>) {
    ///     for row in rows.block_elements() {
    ///         let sum = row.cells(columns).map(|cell| x.get(&cell)).sum();
    ///         let (_, sum) = block::exclusive_scan(sum, 0.0, |a, b| a + b);
    ///         for cell in row.cells(columns) {
    ///             y.set(&cell, x.get(&cell) / sum);
    ///         }
    ///     }
    /// }
    ///
    /// let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[2.0; 3 * 50])?, device.zeros(3 * 50)?);
    /// normalise(&device, Shape::new(2, 32), 3, 50, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [0.02; 3 * 50]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn block_elements(self) -> impl Iterator<Item = Own<'n, ByBlock>> {
        let mut next = u64::from(thread::block_idx_x());
        core::iter::from_fn(move || {
            let own = self.index(next).map(Own::of);
            next += u64::from(thread::grid_dim_x());
            own
        })
    }

    /// Every 32nd index from the lane's number on, to read: the lanes of a warp get all of them.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn sums<'n>(n: Len<'n>, x: In<'n, u32>, out: PerThread<u32>) {
    ///     out.set(warp::reduce(n.lanes().map(|i| x.get(i)).sum(), |a, b| a + b));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1; 40])?, device.zeros(32)?);
    /// sums(&device, Shape::new(1, 32), 40, &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [40; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn lanes(self) -> impl Iterator<Item = Index<'n>> {
        (warp::lane_id() as usize..self.n.to_u64() as usize).step_by(warp::SIZE as usize).map(Index::below)
    }

    /// Every B-th index from the thread's index in the block on, to read, in a block of B threads in one dimension: the threads of the
    /// block get all of them.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn sums<'n>(n: Len<'n>, x: In<'n, u32>, out: PerBlock<u32>) {
    ///     out.set(block::reduce(n.threads().map(|i| x.get(i)).sum(), 0, |a, b| a + b));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1; 40])?, device.zeros(2)?);
    /// sums(&device, Shape::new(2, 64), 40, &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [40; 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn threads(self) -> impl Iterator<Item = Index<'n>> {
        let mut next = u64::from(thread::thread_idx_x());
        core::iter::from_fn(move || {
            let index = self.index(next);
            next += u64::from(thread::block_dim_x());
            index
        })
    }
}

impl<'n> Len<'n> {
    /// The cells of a matrix with n rows.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
    ///     for own in rows.by(columns).elements() {
    ///         let cell = own.cell();
    ///         out.set(&own, (10 * cell.row().get() + cell.column().get()) as u32);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[8..12], [8, 9, 10, 11]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn by<'c>(self, columns: Len<'c>) -> Area<'n, 'c> {
        Area { rows: self, columns }
    }
}

/// The elements that a thread owns: see [`Len::elements`].
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn numbers<'n>(n: Len<'n>, out: Out<'n, u32>) {
///     let mut own: OwnElements = n.elements();
///     if let Some(first) = own.next() {
///         out.set(&first, 7);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// numbers(&device, Shape::new(1, 32), 40, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[30..34], [7, 7, 0, 0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct OwnElements<'n, N = u32> {
    n: Len<'n, N>,
    next: u64,
    stride: u64,
}

impl<'n, N: Count> Iterator for OwnElements<'n, N> {
    type Item = Own<'n>;

    #[inline(always)]
    fn next(&mut self) -> Option<Own<'n>> {
        let own = self.n.index(self.next).map(Own::of);
        self.next += self.stride;
        own
    }
}

impl<'n, N: Count> OwnElements<'n, N> {
    /// Calls `each` with the next K elements, as long as there are as many: it can load all of them before it uses the first.
    ///
    /// ```
    /// use warpkov_device::device::kernel;
    /// use warpkov_device::device::safe::{In, Len, Out, Own};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// /// y = x, with two loads in flight.
    /// #[kernel(safe)]
    /// fn copy<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    ///     let mut own = n.elements();
    ///     own.each_chunk(|chunk: &[Own<'n>; 2]| {
    ///         let [a, b] = [x.get(&chunk[0]), x.get(&chunk[1])];
    ///         y.set(&chunk[0], a);
    ///         y.set(&chunk[1], b);
    ///     });
    ///     for i in own {
    ///         y.set(&i, x.get(&i));
    ///     }
    /// }
    ///
    /// let device = Emulator::default();
    /// let (x, mut y) = (device.upload(&[0.5; 99])?, device.zeros(99)?);
    /// copy(&device, Shape::new(1, 32), 99, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?, [0.5; 99]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn each_chunk<const K: usize>(&mut self, mut each: impl FnMut(&[Own<'n>; K])) {
        const { assert!(0 < K && K <= 1 << 16, "the place of the last of K elements fits 64 bits") };
        while self.next + (K as u64 - 1) * self.stride < self.n.get().to_u64() {
            let (first, stride) = (self.next, self.stride);
            each(&core::array::from_fn(|k| Own::of(Index::below((first + k as u64 * stride) as usize))));
            self.next += K as u64 * stride;
        }
    }
}

/// The rows and columns of a matrix, whose element (r, c) has the number r · `columns` + c.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
///     let area: Area = rows.by(columns);
///     if let Some(own) = area.element() {
///         out.set(&own, 10 * thread::index_1d() as u32);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[8..12], [80, 90, 0, 10]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Area<'r, 'c> {
    rows: Len<'r>,
    columns: Len<'c>,
}

/// A row and a column of a matrix.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
///     for own in rows.by(columns).elements() {
///         let cell: Cell = own.cell();
///         out.set(&own, (cell.row().get() * cell.column().get()) as u32);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
/// assert_eq!(device.to_vec(&out)?[8..12], [0, 0, 0, 1]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Cell<'r, 'c> {
    row: Index<'r>,
    column: Index<'c>,
    pub(super) at: usize,
}

/// A cell that this thread owns, of an [`Out2<'r, 'c, T, M>`](super::Out2).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel(safe)]
/// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
///     let own: Option<OwnCell> = rows.by(columns).element();
///     if let Some(own) = own {
///         out.set(&own, out.get(&own) + 1);
///     }
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(40)?;
/// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [1; 40]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct OwnCell<'r, 'c, M = ByThread> {
    pub(super) cell: Cell<'r, 'c>,
    mapping: PhantomData<M>,
}

impl<'r, 'c> Area<'r, 'c> {
    /// The cell in a row and a column.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn transpose<'r, 'c>(rows: Len<'r>, columns: Len<'c>, x: In2<'c, 'r, u32>, out: Out2<'r, 'c, u32>) {
    ///     for own in rows.by(columns).elements() {
    ///         let (row, column) = (own.cell().row(), own.cell().column());
    ///         out.set(&own, x.get(columns.by(rows).cell(column, row)));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let (x, mut out) = (device.upload(&[1, 2, 3, 4, 5, 6])?, device.zeros(6)?);
    /// transpose(&device, Shape::new(1, 32), 3, 2, &x, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn cell(self, row: impl Into<Index<'r>>, column: impl Into<Index<'c>>) -> Cell<'r, 'c> {
        Cell::of(row.into(), self.columns, column.into())
    }

    /// The cell of this thread in a grid with a thread for each cell: in the row of its index in y, and the column of its index in x.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
    ///     if let Some(own) = rows.by(columns).element() {
    ///         out.set(&own, thread::thread_idx_x());
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[8..12], [8, 9, 0, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn element(self) -> Option<OwnCell<'r, 'c>> {
        let row =
            u64::from(thread::block_idx_y()) * u64::from(thread::block_dim_y()) + u64::from(thread::thread_idx_y());
        Some(OwnCell::of(self.cell(self.rows.index(row)?, self.columns.index(thread::index_1d())?)))
    }

    /// All cells that this thread owns: one for each stride of the grid in y and in x. Every cell has one owner.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
    ///     for own in rows.by(columns).elements() {
    ///         let cell = own.cell();
    ///         out.set(&own, (10 * cell.row().get() + cell.column().get()) as u32);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[8..12], [8, 9, 10, 11]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    pub fn elements(self) -> impl Iterator<Item = OwnCell<'r, 'c>> {
        let down = u64::from(thread::grid_dim_y()) * u64::from(thread::block_dim_y());
        let mut row =
            u64::from(thread::block_idx_y()) * u64::from(thread::block_dim_y()) + u64::from(thread::thread_idx_y());
        let mut column = thread::index_1d();
        core::iter::from_fn(move || {
            if column >= self.columns.n.to_u64() {
                (row, column) = (row + down, thread::index_1d());
            }
            let own = OwnCell::of(self.cell(self.rows.index(row)?, self.columns.index(column)?));
            column += threads();
            Some(own)
        })
    }
}

impl<'r, 'c> Cell<'r, 'c> {
    #[inline(always)]
    fn of(row: Index<'r>, columns: Len<'c>, column: Index<'c>) -> Self {
        Self { row, column, at: row.at * columns.n as usize + column.at }
    }

    /// The row.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
    ///     for own in rows.by(columns).elements() {
    ///         out.set(&own, own.cell().row().get() as u32);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[8..12], [0, 0, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn row(self) -> Index<'r> {
        self.row
    }

    /// The column.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
    ///     for own in rows.by(columns).elements() {
    ///         out.set(&own, own.cell().column().get() as u32);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[8..12], [8, 9, 0, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn column(self) -> Index<'c> {
        self.column
    }
}

impl<'r, 'c, M> OwnCell<'r, 'c, M> {
    #[inline(always)]
    fn of(cell: Cell<'r, 'c>) -> Self {
        Self { cell, mapping: PhantomData }
    }

    /// The cell.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn numbers<'r, 'c>(rows: Len<'r>, columns: Len<'c>, out: Out2<'r, 'c, u32>) {
    ///     for own in rows.by(columns).elements() {
    ///         let cell = own.cell();
    ///         out.set(&own, (10 * cell.row().get() + cell.column().get()) as u32);
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(40)?;
    /// numbers(&device, Shape::new(Dim3 { x: 1, y: 2, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }), 4, 10, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[8..12], [8, 9, 10, 11]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn cell(&self) -> Cell<'r, 'c> {
        self.cell
    }
}

impl<'r, 'c, M> From<&OwnCell<'r, 'c, M>> for Cell<'r, 'c> {
    #[inline(always)]
    fn from(own: &OwnCell<'r, 'c, M>) -> Self {
        own.cell
    }
}
