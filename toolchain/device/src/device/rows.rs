//! Views as matrices, row after row.
//!
//! ```
//! use warpkov_device::device::prelude::*;
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Dim3, Shape};
//!
//! /// The transpose of a matrix of `rows` × `columns` elements.
//! #[kernel]
//! fn transpose(rows: u32, columns: u32, x: Global<f64>, y: GlobalMut<f64>) {
//!     let (x, y) = (x.rows(columns as usize), y.rows(rows as usize));
//!     let (row, column) = (thread::thread_idx_y() as usize, thread::thread_idx_x() as usize);
//!     y.set(column, row, x.get(row, column));
//! }
//!
//! let device = Emulator::default();
//! let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.zeros(6)?);
//! let shape = Shape::new(1, Dim3 { x: 3, y: 2, z: 1 });
//! // SAFETY: both matrices have 2 · 3 elements.
//! unsafe { transpose(&device, shape, 2, 3, &x, &mut y)? };
//! assert_eq!(device.to_vec(&y)?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

use super::{AnyIndex, DeviceCopy, Element, Global, GlobalMut, Shared};

/// A view whose elements form rows of one length. A GPU checks no index; the emulator reports a column beyond the end of its
/// row, too, though the view has an element at that place.
///
/// ```
/// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
/// #[kernel]
/// fn double(x: Global<f32>, y: GlobalMut<f32>) {
///     let (row, column) = (thread::thread_idx_y() as usize, thread::thread_idx_x() as usize);
///     let (x, y): (Rows<_, _>, Rows<_, _>) = (x.rows(3), y.rows(3));
///     y.set(row, column, 2.0 * x.get(row, column));
/// }
///
/// # let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.zeros(6)?);
/// // SAFETY: both matrices have 2 · 3 elements.
/// unsafe { double(&device, Shape::new(1, Dim3 { x: 3, y: 2, z: 1 }), &x, &mut y)? };
/// assert_eq!(device.to_vec(&y)?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Rows<View, Index> {
    view: View,
    length: Index,
}

macro_rules! rows {
    ($($view:ident, $bound:ident, $index:ty, $convert:ident;)*) => {$(
        impl<T: $bound> $view<T> {
            /// The view as a matrix with rows of `length` elements.
            ///
            /// ```
            /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
            /// #[kernel]
            /// fn transpose(x: Global<f32>, y: GlobalMut<f32>) {
            ///     let (row, column) = (thread::thread_idx_y(), thread::thread_idx_x());
            ///     let tile = shared_array!(tile: f32; 6).rows(3);
            ///     tile.set(row, column, x.rows(3).get(row, column as usize));
            ///     y.rows(2).set(column, row as usize, tile.get(row, column));
            /// }
            ///
            /// # let device = Emulator::default();
            /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.zeros(6)?);
            /// // SAFETY: both matrices have 2 · 3 elements.
            /// unsafe { transpose(&device, Shape::new(1, Dim3 { x: 3, y: 2, z: 1 }), &x, &mut y)? };
            /// assert_eq!(device.to_vec(&y)?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
            /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
            /// ```
            #[inline(always)]
            #[must_use]
            pub fn rows(self, length: impl AnyIndex) -> Rows<Self, $index> {
                Rows { view: self, length: length.$convert() }
            }
        }

        impl<T: $bound> Rows<$view<T>, $index> {
            /// The index in the view of the element at `column` of `row`, for an atomic operation or a copy.
            ///
            /// ```
            /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
            /// #[kernel]
            /// fn row_sums(x: Global<f32>, y: GlobalMut<f32>) {
            ///     let (row, column) = (thread::thread_idx_y() as usize, thread::thread_idx_x() as usize);
            ///     let (x, sums) = (x.rows(3), y.rows(1));
            ///     atomic::add((y, sums.index(row, 0)), x.get(row, column));
            /// }
            ///
            /// # let device = Emulator::default();
            /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.zeros(6)?);
            /// // SAFETY: both matrices have 2 · 3 elements.
            /// unsafe { row_sums(&device, Shape::new(1, Dim3 { x: 3, y: 2, z: 1 }), &x, &mut y)? };
            /// assert_eq!(device.to_vec(&y)?[..2], [6.0, 15.0]);
            /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
            /// ```
            #[inline(always)]
            #[must_use]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn index(self, row: impl AnyIndex, column: impl AnyIndex) -> $index {
                let (row, column) = (row.$convert(), column.$convert());
                #[cfg(not(target_arch = "nvptx64"))]
                if column >= self.length {
                    use crate::emulator::fault::{Kind, raise};
                    let array = self.view.first_place().array;
                    raise(Kind::ColumnOutOfBounds { array, column: column as usize, length: self.length as usize });
                }
                row * self.length + column
            }

            /// The element at `column` of `row`.
            ///
            /// ```
            /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
            /// #[kernel]
            /// fn transpose(x: Global<f32>, y: GlobalMut<f32>) {
            ///     let (row, column) = (thread::thread_idx_y(), thread::thread_idx_x());
            ///     let tile = shared_array!(tile: f32; 6).rows(3);
            ///     tile.set(row, column, x.rows(3).get(row, column as usize));
            ///     y.rows(2).set(column, row as usize, tile.get(row, column));
            /// }
            ///
            /// # let device = Emulator::default();
            /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.zeros(6)?);
            /// // SAFETY: both matrices have 2 · 3 elements.
            /// unsafe { transpose(&device, Shape::new(1, Dim3 { x: 3, y: 2, z: 1 }), &x, &mut y)? };
            /// assert_eq!(device.to_vec(&y)?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
            /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
            /// ```
            #[inline(always)]
            #[must_use]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn get(self, row: impl AnyIndex, column: impl AnyIndex) -> T {
                self.view.get(self.index(row, column))
            }
        }
    )*};
}
rows! {
    Global, DeviceCopy, usize, wide;
    GlobalMut, DeviceCopy, usize, wide;
    Shared, Element, u32, narrow;
}

macro_rules! written_rows {
    ($($view:ident, $bound:ident, $index:ty;)*) => {$(
        impl<T: $bound> Rows<$view<T>, $index> {
            /// Writes the element at `column` of `row`.
            ///
            /// ```
            /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
            /// #[kernel]
            /// fn transpose(x: Global<f32>, y: GlobalMut<f32>) {
            ///     let (row, column) = (thread::thread_idx_y(), thread::thread_idx_x());
            ///     let tile = shared_array!(tile: f32; 6).rows(3);
            ///     tile.set(row, column, x.rows(3).get(row, column as usize));
            ///     y.rows(2).set(column, row as usize, tile.get(row, column));
            /// }
            ///
            /// # let device = Emulator::default();
            /// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, device.zeros(6)?);
            /// // SAFETY: both matrices have 2 · 3 elements.
            /// unsafe { transpose(&device, Shape::new(1, Dim3 { x: 3, y: 2, z: 1 }), &x, &mut y)? };
            /// assert_eq!(device.to_vec(&y)?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
            /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
            /// ```
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn set(self, row: impl AnyIndex, column: impl AnyIndex, value: T) {
                self.view.set(self.index(row, column), value);
            }
        }
    )*};
}
written_rows! {
    GlobalMut, DeviceCopy, usize;
    Shared, Element, u32;
}
