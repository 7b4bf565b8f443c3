//! Sparse matrices whose row pointers and columns the upload has checked.

use super::Brands;
use super::index::Index;
use crate::device::{Element, Global, Offset};

/// A sparse matrix in compressed rows (CSR), of which the upload of its [`SparseBuffer`](crate::launch::SparseBuffer) has checked that
/// row pointers ascend and that columns are below the number of columns.
///
/// ```
/// use warpkov_device::device::kernel;
/// use warpkov_device::device::safe::{In, Len, Out, SparseRows};
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape, SparseBuffer};
///
/// /// The product of a sparse matrix and a vector. Nothing in the loops needs a check.
/// #[kernel(safe)]
/// fn multiply<'r, 'c>(
///     rows: Len<'r>,
///     columns: Len<'c>,
///     a: SparseRows<'r, 'c, f64, u32>,
///     x: In<'c, f64>,
///     y: Out<'r, f64>,
/// ) {
///     let _ = columns;
///     for i in rows.elements() {
///         let mut sum = 0.0;
///         for (j, value) in a.row(&i) {
///             sum += value * x.get(j);
///         }
///         y.set(&i, sum);
///     }
/// }
///
/// let device = Emulator::default();
/// let a = SparseBuffer::upload(&device, &[0_u32, 2, 2, 3], &[0, 3, 1], &[1.0, 2.0, 0.5], 4)?;
/// let (x, mut y) = (device.upload(&[1.0, 2.0, 3.0, 4.0])?, device.zeros(3)?);
/// multiply(&device, Shape::cover(3, 32), 3, 4, &a, &x, &mut y)?;
/// assert_eq!(device.to_vec(&y)?, [9.0, 0.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct SparseRows<'r, 'c, T, O> {
    pub(super) ptr: Global<O>,
    pub(super) col: Global<u32>,
    pub(super) value: Global<T>,
    pub(super) brand: Brands<'r, 'c>,
}

impl<'r, 'c, T: Element, O: Offset> SparseRows<'r, 'c, T, O> {
    /// The entries of a row: column and value of each.
    ///
    /// ```
    /// # use warpkov_device::{device::{prelude::*, safe::*}, emulator::Emulator, launch::*};
    /// #[kernel(safe)]
    /// fn row_sums<'r, 'c>(rows: Len<'r>, columns: Len<'c>, a: SparseRows<'r, 'c, f64, u32>, out: Out<'r, f64>) {
    ///     let _ = columns;
    ///     for i in rows.elements() {
    ///         out.set(&i, a.row(&i).map(|(_, value)| value).sum());
    ///     }
    /// }
    ///
    /// # let device = Emulator::default();
    /// let a = SparseBuffer::upload(&device, &[0_u32, 2, 2, 3], &[0, 3, 1], &[1.0, 2.0, 0.5], 4)?;
    /// # let mut out = device.zeros(3)?;
    /// row_sums(&device, Shape::cover(3, 32), 3, 4, &a, &mut out)?;
    /// assert_eq!(device.to_vec(&out)?, [3.0, 0.0, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn row(self, row: impl Into<Index<'r>>) -> impl Iterator<Item = (Index<'c>, T)> {
        let row = row.into().get();
        let (first, end) = (self.ptr.get(row).to_usize(), self.ptr.get(row + 1).to_usize());
        (first..end).map(move |entry| (Index::below(self.col.get(entry) as usize), self.value.get(entry)))
    }
}
