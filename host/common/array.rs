//! Arrays whose elements are in memory, in a memory-mapped file, or in the memory of another owner.

use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;

/// An array in memory, a view of a memory-mapped file, or the memory of another owner. Clones share the elements.
#[derive(Clone)]
pub struct Array<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Arc<Vec<T>>),
    Mapped { map: Arc<Mmap>, start: usize, end: usize },
    Lent(Arc<dyn Owner<T>>),
}

/// An owner of elements that any thread may read.
pub trait Owner<T>: AsRef<[T]> + Send + Sync + UnwindSafe + RefUnwindSafe {}

impl<T, O: AsRef<[T]> + Send + Sync + UnwindSafe + RefUnwindSafe> Owner<T> for O {}

impl<T: Pod> Array<T> {
    /// Views the bytes `start..end` of a mapped file as elements of `T`. `None` if the range exceeds the file, is
    /// misaligned, or does not contain a whole number of elements.
    pub fn mapped(map: Arc<Mmap>, start: usize, end: usize) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(map.get(start..end)?).ok()?;
        Some(Self(Storage::Mapped { map, start, end }))
    }

    /// Views elements that another owner keeps, such as an array of Python.
    ///
    /// # Safety
    /// `as_ref` returns the same slice every time, and nobody changes its elements while the array exists: a model relies on the
    /// checks of its arrays.
    pub unsafe fn lent(owner: impl Owner<T> + 'static) -> Self {
        Self(Storage::Lent(Arc::new(owner)))
    }

    /// The elements as a vector. Copies if the array is mapped, lent or shared.
    pub fn into_vec(self) -> Vec<T> {
        match self.0 {
            Storage::Owned(elements) => Arc::unwrap_or_clone(elements),
            Storage::Mapped { .. } | Storage::Lent(_) => self.to_vec(),
        }
    }
}

impl<T> Default for Array<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Storage::Owned(Arc::new(elements)))
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Owned(elements) => elements,
            Storage::Mapped { map, start, end } => bytemuck::cast_slice(&map[*start..*end]),
            Storage::Lent(owner) => (**owner).as_ref(),
        }
    }
}
