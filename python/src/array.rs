//! Arrays of NumPy as arrays of models, and back, without copies.

use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpkov::mdp::model::{Array, Csr};

/// The elements of an array of NumPy, which this keeps alive.
struct Lent<T> {
    start: *const T,
    length: usize,
    _owner: Py<PyArray1<T>>,
}

// SAFETY: the elements are numbers, which any thread may read. PyO3 lets any thread drop an owner.
unsafe impl<T: Sync> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T> AsRef<[T]> for Lent<T> {
    fn as_ref(&self) -> &[T] {
        // SAFETY: `lent` checked that the array has these elements side by side, and NumPy does not move or free them while
        // the owner lives. The documentation of the package forbids to change arrays that a model has.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// The memory of an array of NumPy.
pub fn lent<T: Element + bytemuck::Pod + Sync>(array: Bound<'_, PyArray1<T>>) -> PyResult<Array<T>> {
    if array.len() == 0 {
        return Ok(Array::default());
    }
    if !array.is_contiguous() || !array.is_aligned() {
        return Err(PyValueError::new_err("expected an aligned array of adjacent elements"));
    }
    let (start, length) = (array.data().cast_const(), array.len());
    Ok(Array::lent(Lent { start, length, _owner: array.unbind() }))
}

/// A sparse matrix as Python passes it: row pointers, columns and values.
pub type Matrix<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f64>>);

/// A matrix in the memory of arrays of NumPy. An error is that of the arrays, or a violated invariant of `name`.
pub fn matrix(arrays: Matrix<'_>, name: warpkov::mdp::model::validate::Matrix) -> PyResult<Csr> {
    let (row_ptr, col, val) = (lent(arrays.0)?, lent(arrays.1)?, lent(arrays.2)?);
    name.of(row_ptr, col, val).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The elements of an array of a model as an array of NumPy that nobody can write. `owner` keeps the elements alive.
pub fn view<'py, T: Element>(owner: &Bound<'py, PyAny>, elements: &[T]) -> PyResult<Bound<'py, PyArray1<T>>> {
    let view = numpy::ndarray::ArrayView1::from(elements);
    // SAFETY: the elements belong to `owner`, which is immutable, and which the array keeps alive.
    let array = unsafe { PyArray1::borrow_from_array(&view, owner.clone()) };
    array.call_method1("setflags", (false,))?;
    Ok(array)
}
