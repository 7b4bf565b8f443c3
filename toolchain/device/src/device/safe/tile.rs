//! Arrays in shared memory that the threads of a block fill, or add to, and then read.

use super::out_of_range;
use crate::device::atomic::{AtomicNumber, Ordering, Scope};
use crate::device::{AnyIndex, Element, Shared, thread};

/// An array in the block's shared memory, which its threads fill and then read: see [`tile!`](crate::tile).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::tile;
/// #[kernel(safe)]
/// fn squares(out: PerThread<u32>) {
///     let mut tile: Tile<u32> = tile!(squares: u32; 32);
///     let filled = tile.fill(|i| i * i);
///     out.set(filled.get(31 - thread::thread_idx_x()));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// squares(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..3], [961, 900, 841]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct Tile<T> {
    array: Shared<T>,
    len: u32,
}

/// A filled [`Tile`].
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::tile;
/// #[kernel(safe)]
/// fn squares(out: PerThread<u32>) {
///     let mut tile = tile!(squares: u32; 32);
///     let filled: Filled<u32> = tile.fill(|i| i * i);
///     out.set(filled.get(31 - thread::thread_idx_x()));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// squares(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..3], [961, 900, 841]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct Filled<'t, T> {
    tile: &'t Tile<T>,
}

/// A [`Tile`] that holds a matrix: see [`Tile::fill_rows`].
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::tile;
/// #[kernel(safe)]
/// fn products(out: PerThread<u32>) {
///     let mut tile = tile!(products: u32; 32);
///     let filled: FilledRows<u32> = tile.fill_rows(7, 8, |row, column| row * column);
///     out.set(filled.get(3, 6));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// products(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [18; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct FilledRows<'t, T> {
    tile: &'t Tile<T>,
    rows: u32,
    columns: u32,
    pitch: u32,
}

/// A [`Tile`] to which all threads of the block add: see [`Tile::sums`].
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::tile;
/// #[kernel(safe)]
/// fn count(out: PerThread<u32>) {
///     let mut tile = tile!(counts: u32; 2);
///     let counts = tile.sums(|counts: Sums<u32>| counts.add(thread::thread_idx_x() / 20, 1));
///     out.set(counts.get(0));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// count(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?, [20; 32]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct Sums<'t, T> {
    tile: &'t Tile<T>,
}

/// The places of the `tile!` in a safe kernel's body: each moves into its tile, so that no array has two. `#[kernel]` gives them to
/// the body as an argument that has no name there.
#[doc(hidden)]
pub struct Places(());

/// The place of one `tile!`.
#[doc(hidden)]
pub struct Place(());

impl Places {
    /// The places of a kernel.
    ///
    /// # Safety
    /// Each thread of a kernel has one.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new() -> Self {
        Self(())
    }

    /// One place, and the others.
    #[inline(always)]
    #[must_use]
    pub fn take(self) -> (Place, Self) {
        (Place(()), self)
    }
}

impl<T: Element> Tile<T> {
    /// For [`tile!`](crate::tile).
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn of_array(_: Place, array: Shared<T>, len: u32) -> Self {
        Self { array, len }
    }

    /// Writes `value(i)` to each element i: the threads of the block take turns. Then all threads may read all elements.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: two, before and after the writes.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::tile;
    /// #[kernel(safe)]
    /// fn squares(out: PerThread<u32>) {
    ///     let mut tile = tile!(squares: u32; 32);
    ///     let filled = tile.fill(|i| i * i);
    ///     out.set(filled.get(31 - thread::thread_idx_x()));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// squares(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[..3], [961, 900, 841]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
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

    /// Sets all elements to 0; then the threads add to them, as `add` says. Then all threads may read all elements.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: three.
    ///
    /// ```
    /// use warpkov_device::device::kernel;
    /// use warpkov_device::device::safe::{In, Len, PerBlock};
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::{Device, Shape};
    /// use warpkov_device::tile;
    ///
    /// /// For each block, how many of its elements are even, and how many odd.
    /// #[kernel(safe)]
    /// fn parities<'n>(n: Len<'n>, x: In<'n, u32>, counts: PerBlock<[u32; 2]>) {
    ///     let mut tile = tile!(parity_counts: u32; 2);
    ///     let found = tile.sums(|counts| {
    ///         for i in n.elements() {
    ///             counts.add(x.get(&i) % 2, 1);
    ///         }
    ///     });
    ///     counts.set([found.get(0), found.get(1)]);
    /// }
    ///
    /// let device = Emulator::default();
    /// let (x, mut counts) = (device.upload(&(0..99).collect::<Vec<u32>>())?, device.zeros(2)?);
    /// parities(&device, Shape::new(1, 64), 99, &x, &mut counts)?;
    /// assert_eq!(device.to_vec(&counts)?, [50, 49]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn sums(&mut self, add: impl FnOnce(Sums<'_, T>)) -> Filled<'_, T>
    where
        T: AtomicNumber,
    {
        self.fill(|_| T::from_raw(0));
        add(Sums { tile: self });
        thread::sync_threads();
        Filled { tile: self }
    }
}

impl<T: Element> Tile<T> {
    /// Writes `value(r, c)` to element (r, c) of a matrix with `columns` columns, in as many rows of `pitch` elements as the tile has: the
    /// threads of the block take turns, with c fastest. Then all threads may read all elements. The elements (r, c) of a column lie in
    /// different banks of shared memory if they have 4 bytes and `pitch` is odd.
    ///
    /// `columns` is at most `pitch`: otherwise the kernel stops, and the launch is an error.
    ///
    /// *Takes part*: every thread of the block. *Barriers*: two, before and after the writes.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::tile;
    /// /// yᵢⱼ = xⱼᵢ, for 32 × 32 elements by one block of 32 × 32 threads.
    /// #[kernel(safe)]
    /// fn transpose<'n>(n: Len<'n>, x: In2<'n, 'n, f32>, y: Out2<'n, 'n, f32>) {
    ///     let mut tile = tile!(transpose: f32; 1056);
    ///     let tile = tile.fill_rows(32, 33, |row, column| x.get(n.by(n).cell(n.at(row), n.at(column))));
    ///     if let Some(own) = n.by(n).element() {
    ///         y.set(&own, tile.get(thread::thread_idx_x(), thread::thread_idx_y()));
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let x: Vec<f32> = (0..1024).map(|i| i as f32).collect();
    /// # let (x, mut y) = (device.upload(&x)?, device.zeros(1024)?);
    /// transpose(&device, Shape::new(1, Dim3 { x: 32, y: 32, z: 1 }), 32, &x, &mut y)?;
    /// assert_eq!(device.to_vec(&y)?[..3], [0.0, 32.0, 64.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn fill_rows(&mut self, columns: u32, pitch: u32, mut value: impl FnMut(u32, u32) -> T) -> FilledRows<'_, T> {
        if columns == 0 || columns > pitch {
            out_of_range("row of a tile", columns.into(), pitch.into());
        }
        let rows = self.len / pitch;
        // Threads may still read what the tile holds.
        thread::sync_threads();
        let mut i = thread::index_in_block();
        while i < rows * columns {
            let (row, column) = (i / columns, i % columns);
            self.array.set(pitch * row + column, value(row, column));
            i += thread::block_size();
        }
        thread::sync_threads();
        FilledRows { tile: self, rows, columns, pitch }
    }
}

impl<T: AtomicNumber> Sums<'_, T> {
    /// Adds to element `i`, which must be one of the tile: otherwise the kernel stops, and the launch is an error.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::tile;
    /// #[kernel(safe)]
    /// fn count(out: PerThread<u32>) {
    ///     let mut tile = tile!(counts: u32; 2);
    ///     let counts = tile.sums(|counts| counts.add(thread::thread_idx_x() / 20, 1));
    ///     out.set(counts.get(0));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// count(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [20; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn add(&self, i: impl AnyIndex, value: T) {
        if !i.is_below(self.tile.len) {
            out_of_range("tile", i.wide() as u64, self.tile.len.into());
        }
        T::fetch_add((self.tile.array, i.narrow()), value, Ordering::Relaxed, Scope::Block);
    }
}

impl<T: Element> Filled<'_, T> {
    /// Element `i`, which must be one of the tile: otherwise the kernel stops, and the launch is an error.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::tile;
    /// #[kernel(safe)]
    /// fn squares(out: PerThread<u32>) {
    ///     let mut tile = tile!(squares: u32; 32);
    ///     let filled = tile.fill(|i| i * i);
    ///     out.set(filled.get(31 - thread::thread_idx_x()));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// squares(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?[..3], [961, 900, 841]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(&self, i: impl AnyIndex) -> T {
        match i.is_below(self.tile.len) {
            true => self.tile.array.get(i.narrow()),
            false => out_of_range("tile", i.wide() as u64, self.tile.len.into()),
        }
    }
}

impl<T: Element> FilledRows<'_, T> {
    /// Element (`row`, `column`), which must be one of the matrix: otherwise the kernel stops, and the launch is an error.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// # use warpkov_device::tile;
    /// #[kernel(safe)]
    /// fn products(out: PerThread<u32>) {
    ///     let mut tile = tile!(products: u32; 32);
    ///     let filled = tile.fill_rows(7, 8, |row, column| row * column);
    ///     out.set(filled.get(3, 6));
    /// }
    ///
    /// # let device = Emulator::default();
    /// # let mut out = device.zeros(32)?;
    /// products(&device, Shape::new(1, 32), &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [18; 32]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn get(&self, row: impl AnyIndex, column: impl AnyIndex) -> T {
        // The words between two rows are never written.
        if !row.is_below(self.rows) {
            out_of_range("rows of a tile", row.wide() as u64, self.rows.into());
        }
        if !column.is_below(self.columns) {
            out_of_range("columns of a tile", column.wide() as u64, self.columns.into());
        }
        self.tile.array.get(self.pitch * row.narrow() + column.narrow())
    }
}

/// An array in shared memory that the threads of a block fill and read: `let mut tile = tile!(tile: f32; 256);`. The name must differ
/// from that of all other arrays of the crate. It stands in the body of a `#[kernel(safe)]`, not in another function, and not in a
/// loop: two tiles of one array would race. See [`Tile`](crate::device::safe::Tile).
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// # use warpkov_device::tile;
/// #[kernel(safe)]
/// fn squares(out: PerThread<u32>) {
///     let mut tile = tile!(squares: u32; 32);
///     let filled = tile.fill(|i| i * i);
///     out.set(filled.get(31 - thread::thread_idx_x()));
/// }
///
/// # let device = Emulator::default();
/// # let mut out = device.zeros(32)?;
/// squares(&device, Shape::new(1, 32), &mut out)?;
/// assert_eq!(device.to_vec(&out)?[..3], [961, 900, 841]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[macro_export]
macro_rules! tile {
    (@at $place:ident, $name:ident: $ty:ty; $len:literal) => {
        $crate::device::safe::Tile::<$ty>::of_array(
            $place,
            $crate::shared_array!(@named "$tile_", $name: $ty; $len),
            $len,
        )
    };
    ($name:ident: $ty:ty; $len:literal) => {
        compile_error!("`tile!` stands in the body of a `#[kernel(safe)]` itself, by this name")
    };
}
