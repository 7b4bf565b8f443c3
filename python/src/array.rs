//! Arrays of NumPy, in both directions without copies, through NumPy's array interface (version 3): a dictionary with the
//! address, the shape and the type of the elements.

use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};

use bytemuck::Pod;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use warpkov_mdp::model::validate::Matrix as Name;
use warpkov_mdp::model::{Array, Csr};

use crate::error::invalid;
use crate::wait::detached;

/// States or elements per task of a parallel loop.
const CHUNK: usize = 4096;

/// A type of elements.
pub trait Number: Pod + Send + Sync {
    /// NumPy's name of the type, without the order of the bytes.
    const TYPE: &'static str;
}

impl Number for u8 {
    const TYPE: &'static str = "u1";
}

impl Number for u32 {
    const TYPE: &'static str = "u4";
}

impl Number for u64 {
    const TYPE: &'static str = "u8";
}

impl Number for f64 {
    const TYPE: &'static str = "f8";
}

/// NumPy's name of the type of `T`.
fn type_of<T: Number>() -> String {
    let order = match size_of::<T>() {
        1 => '|',
        _ if cfg!(target_endian = "little") => '<',
        _ => '>',
    };
    format!("{order}{}", T::TYPE)
}

/// A one-dimensional array of NumPy with adjacent elements, which this keeps alive.
pub struct Input<T> {
    start: *const T,
    length: usize,
    read_only: bool,
    _owner: Py<PyAny>,
}

// SAFETY: the elements are numbers, which any thread may read. PyO3 lets any thread drop an owner.
unsafe impl<T: Number> Send for Input<T> {}
// SAFETY: as above.
unsafe impl<T: Number> Sync for Input<T> {}

// Only numbers are read after a panic, and Python keeps its object.
impl<T> UnwindSafe for Input<T> {}
impl<T> RefUnwindSafe for Input<T> {}

impl<T: Number> FromPyObject<'_, '_> for Input<T> {
    type Error = PyErr;

    fn extract(array: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let interface = array.getattr("__array_interface__")?;
        let (address, read_only): (usize, bool) = interface.get_item("data")?.extract()?;
        let shape: Vec<usize> = interface.get_item("shape")?.extract()?;
        let found: String = interface.get_item("typestr")?.extract()?;
        let adjacent = interface.get_item("strides").map_or(Ok(true), |strides| Ok::<_, PyErr>(strides.is_none()))?;
        let expected = type_of::<T>();
        let [length] = shape[..] else {
            return Err(invalid(format!("an array has {} dimensions, expected 1", shape.len())));
        };
        if found != expected || !adjacent || (length > 0 && address % align_of::<T>() != 0) {
            return Err(invalid(format!("an array has type {found}, expected aligned and adjacent {expected}")));
        }
        Ok(Self { start: address as *const T, length, read_only, _owner: array.to_owned().unbind() })
    }
}

impl<T: Number> AsRef<[T]> for Input<T> {
    fn as_ref(&self) -> &[T] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the array has these elements side by side and aligned, and NumPy does not move or free them while the owner
        // lives. The documentation of the package forbids to change arrays that a model has.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T: Number> Input<T> {
    /// The memory of the array as that of a model.
    fn lent(self) -> Array<T> {
        if self.length == 0 {
            return Array::default();
        }
        // SAFETY: the slice is that of the array, which neither moves nor ends while the owner lives. The documentation of the
        // package forbids to change arrays that a model has.
        unsafe { Array::lent(self) }
    }

    /// The numbers for a model that trusts them once it has checked them: the memory of the array if it is read-only, else a copy. NumPy's
    /// flag is of the array: the documentation of the package forbids to write its memory through another one.
    pub fn kept(self) -> Array<T> {
        if self.read_only { self.lent() } else { self.to_vec().into() }
    }

    /// A copy.
    pub fn to_vec(&self) -> Vec<T> {
        self.as_ref().to_vec()
    }
}

/// A sparse matrix from Python: row pointers, columns and values.
pub type Matrix = (Input<u64>, Input<u32>, Input<f64>);

/// A matrix in the memory of read-only arrays of NumPy, else a copy. An error is a violated invariant of `name`.
pub fn matrix((row_ptr, col, val): Matrix, name: Name) -> PyResult<Csr> {
    name.csr(row_ptr.kept(), col.kept(), val.kept()).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Whether the columns of each row ascend, none of them twice. Row pointers that are wrong are found elsewhere. Runs on all
/// cores.
#[pyfunction]
pub fn ascending(py: Python<'_>, row_ptr: Input<u64>, col: Input<u32>) -> bool {
    let (row_ptr, col) = (row_ptr.as_ref(), col.as_ref());
    let row = |ends: &[u64]| col.get(usize::try_from(ends[0]).ok()?..usize::try_from(ends[1]).ok()?);
    let ascends = |ends: &[u64]| row(ends).is_none_or(|row| row.is_sorted_by(|one, next| one < next));
    py.detach(|| row_ptr.par_windows(2).with_min_len(CHUNK).all(ascends))
}

/// The greatest number, 0 of none. Runs on all cores.
#[pyfunction]
pub fn greatest(py: Python<'_>, numbers: Input<u32>) -> u32 {
    py.detach(|| numbers.as_ref().par_chunks(CHUNK).filter_map(|chunk| chunk.iter().max().copied()).max().unwrap_or(0))
}

/// One matrix from those of all actions: row s·A + a is row s of matrix a. All have equally many rows. Runs on all cores.
#[pyfunction]
pub fn interleave(py: Python<'_>, matrices: Vec<Matrix>, name: &str) -> PyResult<(Buffer, Buffer, Buffer)> {
    let name = if name == "P" { Name::P } else { Name::R };
    // They are copied at once, and the copies are checked again where they become a model.
    let lent = |(row_ptr, col, val): Matrix| name.csr(row_ptr.lent(), col.lent(), val.lent());
    let matrices: Result<Vec<Csr>, _> = matrices.into_iter().map(lent).collect();
    let matrices = matrices.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let (states, actions) = (matrices.first().map_or(0, Csr::rows), matrices.len());
    if let Some(other) = matrices.iter().find(|matrix| matrix.rows() != states) {
        return Err(invalid(format!("{name} has matrices of {states} and of {} rows", other.rows())));
    }
    let (row_ptr, col, val) = detached(py, || {
        let mut row_ptr = Vec::with_capacity(states * actions + 1);
        row_ptr.push(0);
        let mut end = 0;
        for state in 0..states {
            for matrix in &matrices {
                end += matrix.row(state).0.len() as u64;
                row_ptr.push(end);
            }
        }
        let (mut col, mut val) = (vec![0; end as usize], vec![0.0; end as usize]);
        let (mut cols, mut vals) = (&mut col[..], &mut val[..]);
        let mut tasks = Vec::new();
        for first in (0..states).step_by(CHUNK) {
            let last = states.min(first + CHUNK);
            let length = (row_ptr[last * actions] - row_ptr[first * actions]) as usize;
            let (own_cols, rest_cols) = cols.split_at_mut(length);
            let (own_vals, rest_vals) = vals.split_at_mut(length);
            (cols, vals) = (rest_cols, rest_vals);
            tasks.push((first..last, own_cols, own_vals));
        }
        tasks.into_par_iter().for_each(|(range, cols, vals)| {
            let mut at = 0;
            for (cols_of_row, vals_of_row) in range.flat_map(|state| matrices.iter().map(move |one| one.row(state))) {
                let next = at + cols_of_row.len();
                cols[at..next].copy_from_slice(cols_of_row);
                vals[at..next].copy_from_slice(vals_of_row);
                at = next;
            }
        });
        (row_ptr, col, val)
    })?;
    Ok((row_ptr.into(), col.into(), val.into()))
}

/// Numbers for Python, which `numpy.asarray` takes as an array without a copy.
#[pyclass(frozen, module = "warpkov._warpkov")]
pub struct Buffer {
    address: usize,
    length: usize,
    typestr: String,
    read_only: bool,
    /// What the numbers belong to.
    _owner: Box<dyn Any + Send + Sync>,
}

impl<T: Number> From<Vec<T>> for Buffer {
    fn from(mut numbers: Vec<T>) -> Self {
        let (address, length) = (numbers.as_mut_ptr() as usize, numbers.len());
        Self { address, length, typestr: type_of::<T>(), read_only: false, _owner: Box::new(numbers) }
    }
}

impl Buffer {
    /// The numbers of an object of Python that does not change, for which nobody can write.
    pub fn view<T: Number>(owner: &Bound<'_, PyAny>, numbers: &[T]) -> Self {
        let (address, length) = (numbers.as_ptr() as usize, numbers.len());
        Self { address, length, typestr: type_of::<T>(), read_only: true, _owner: Box::new(owner.clone().unbind()) }
    }
}

#[pymethods]
impl Buffer {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("data", (self.address, self.read_only))?;
        interface.set_item("shape", (self.length,))?;
        interface.set_item("typestr", &self.typestr)?;
        Ok(interface)
    }
}
