//! Arrays of other libraries in device memory, in both directions, by DLPack.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpkov_runtime::gpu::{CudaError, Foreign, SharedBuffer};

use crate::array::{Buffer, Input};
use crate::error::{exception, invalid};

/// The kind of device of the CPU.
const CPU: i32 = 1;
/// The kind of device of memory that one GPU of NVIDIA has.
const CUDA: i32 = 2;
/// The kind of device of memory that the host and GPUs of NVIDIA have together.
const MANAGED: i32 = 13;

/// The name of a capsule with a tensor, and of one from which the tensor was taken.
const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";

/// `DLTensor` of DLPack.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    /// Kind and ordinal.
    device: (i32, i32),
    dimensions: i32,
    element: Element,
    shape: *mut i64,
    /// In elements; null if the elements are adjacent, row by row.
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Element {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// A tensor that another library has given away, until it is dropped.
struct Taken(*mut Managed);

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: the tensor came from a capsule, whose consumer calls the deleter once, with the tensor.
        unsafe {
            if let Some(delete) = (*self.0).deleter {
                delete(self.0);
            }
        }
    }
}

/// The exception of a failed GPU.
fn failed(error: CudaError) -> PyErr {
    exception(warpkov_runtime::Error::from(error))
}

/// NumPy's name of a type of elements, without the order of the bytes.
fn name_of(Element { code, bits, lanes }: Element) -> PyResult<String> {
    let kind = match code {
        0 => 'i',
        1 => 'u',
        2 => 'f',
        6 => 'b',
        _ => return Err(invalid(format!("an array has elements of DLPack's kind {code}, expected numbers of NumPy"))),
    };
    if lanes != 1 || !matches!((kind, bits), ('b', 8) | ('f', 16 | 32 | 64) | ('i' | 'u', 8 | 16 | 32 | 64)) {
        return Err(invalid(format!("an array has elements of kind {kind} and {bits} bits, {lanes} together")));
    }
    Ok(format!("{kind}{}", bits / 8))
}

/// The bytes between the first and the last element of an array, as they are in memory; the place of element (0, 0, …) among
/// them; shape; strides in bytes; and NumPy's name of the type of the elements.
type Fetched = (Buffer, usize, Vec<usize>, Vec<isize>, String);

/// Copies an array to the host, on a stream that its library orders after its own work.
#[pyfunction]
fn fetch(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Fetched> {
    let (kind, ordinal): (i32, u32) = array.call_method0("__dlpack_device__")?.extract()?;
    if ![CPU, CUDA, MANAGED].contains(&kind) {
        return Err(invalid(format!(
            "an array is on a device of DLPack's kind {kind}, expected a CPU or NVIDIA's GPU"
        )));
    }
    let foreign = (kind != CPU).then(|| py.detach(|| Foreign::open(ordinal))).transpose();
    let foreign = foreign.map_err(failed)?;
    let options = PyDict::new(py);
    options.set_item("stream", foreign.as_ref().map(Foreign::stream))?;
    let capsule = array.call_method("__dlpack__", (), Some(&options))?;
    // SAFETY: both calls take any object and the interpreter lock is held. The rename marks the tensor as taken, as DLPack asks
    // of its consumer, so that the capsule does not delete it.
    let taken = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), NAME.as_ptr()) == 0 {
            return Err(PyBufferError::new_err("__dlpack__ has returned no capsule with a tensor"));
        }
        let tensor = ffi::PyCapsule_GetPointer(capsule.as_ptr(), NAME.as_ptr());
        if ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Taken(tensor.cast())
    };
    // SAFETY: a capsule with this name points at a tensor, which stays until `taken` is dropped.
    let tensor = unsafe { &(*taken.0).tensor };
    let name = name_of(tensor.element)?;
    let (width, rank) = (isize::from(tensor.element.bits / 8), tensor.dimensions.max(0) as usize);
    let list = |start: *mut i64| match rank {
        0 => &[][..],
        // SAFETY: a tensor has as many lengths, and strides unless their address is null, as dimensions.
        _ => unsafe { std::slice::from_raw_parts(start, rank) },
    };
    let wrong = || PyBufferError::new_err("a tensor has a length or a stride out of range");
    let shape = list(tensor.shape).iter().map(|&length| usize::try_from(length).map_err(|_| wrong()));
    let shape: Vec<usize> = shape.collect::<PyResult<_>>()?;
    let strides = if tensor.strides.is_null() {
        let within =
            |at: usize| shape[at + 1..].iter().fold(width, |product, &length| product.wrapping_mul(length as isize));
        (0..rank).map(within).collect()
    } else {
        // CuPy divides the bytes of a negative stride as a number without sign: modulo 2⁶⁴, the product is right.
        list(tensor.strides).iter().map(|&stride| (stride as isize).wrapping_mul(width)).collect::<Vec<isize>>()
    };
    // The places of the first and the last byte, relative to element (0, 0, …).
    let (mut first, mut last) = (0_isize, if shape.contains(&0) { 0 } else { width });
    if last > 0 {
        for (&length, &stride) in shape.iter().zip(&strides) {
            let reach = stride.checked_mul(length as isize - 1).ok_or_else(wrong)?;
            let (below, above) = (first.checked_add(reach.min(0)), last.checked_add(reach.max(0)));
            (first, last) = below.zip(above).ok_or_else(wrong)?;
        }
    }
    let mut bytes = vec![0_u8; last.abs_diff(first)];
    let start = (tensor.data as u64).wrapping_add(tensor.byte_offset).wrapping_add_signed(first as i64);
    if let Some(foreign) = foreign {
        let copied = py.detach(|| {
            // SAFETY: these are the bytes of a tensor of this GPU, which stays until `taken` is dropped. Its library has ordered
            // its own work before that of the stream.
            unsafe { foreign.download(start, &mut bytes) }
        });
        copied.map_err(failed)?;
    } else if !bytes.is_empty() {
        // SAFETY: these are the bytes of a tensor in memory of the host, which stays until `taken` is dropped.
        unsafe { ptr::copy_nonoverlapping(start as *const u8, bytes.as_mut_ptr(), bytes.len()) };
    }
    drop(taken);
    Ok((bytes.into(), first.unsigned_abs(), shape, strides, name))
}

/// An array in the memory of a GPU, for other libraries.
#[pyclass(frozen, module = "warpkov")]
pub struct DeviceArray {
    memory: Arc<SharedBuffer>,
    element: Element,
    /// NumPy's name of the type of the elements.
    typestr: String,
    shape: Vec<i64>,
}

/// What a tensor that was given away keeps.
struct Given {
    _memory: Arc<SharedBuffer>,
    shape: Vec<i64>,
}

/// Frees a tensor that another library has taken.
///
/// # Safety
/// `tensor` comes from [`DeviceArray::__dlpack__`], and this is called once.
unsafe extern "C" fn delete(tensor: *mut Managed) {
    // SAFETY: both boxes were leaked by `__dlpack__`.
    unsafe {
        let tensor = Box::from_raw(tensor);
        drop(Box::from_raw(tensor.context.cast::<Given>()));
    }
}

/// Frees the tensor of a capsule from which nobody has taken it.
///
/// # Safety
/// Python calls this once, with a capsule of [`DeviceArray::__dlpack__`].
unsafe extern "C" fn discard(capsule: *mut ffi::PyObject) {
    // SAFETY: the name tells whether the tensor is still there.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

#[pymethods]
impl DeviceArray {
    /// A copy of adjacent bytes on GPU `ordinal`, as elements of NumPy's `kind` and `width` bytes.
    #[staticmethod]
    fn copied(
        py: Python<'_>,
        bytes: Input<u8>,
        kind: char,
        width: u8,
        shape: Vec<i64>,
        ordinal: u32,
    ) -> PyResult<Self> {
        let code = match kind {
            'i' => 0,
            'u' => 1,
            'f' => 2,
            'b' => 6,
            _ => return Err(invalid(format!("an array has elements of kind '{kind}', expected numbers"))),
        };
        let element = Element { code, bits: width.checked_mul(8).unwrap_or(0), lanes: 1 };
        let typestr = format!("{}{}", if width == 1 { '|' } else { '<' }, name_of(element)?);
        let elements = shape.iter().try_fold(1_i64, |product, &length| product.checked_mul(length));
        if elements.and_then(|count| count.checked_mul(width.into())) != Some(bytes.as_ref().len() as i64) {
            return Err(invalid("the shape of an array does not fit its bytes"));
        }
        let memory = py.detach(|| Foreign::open(ordinal)?.upload(bytes.as_ref()));
        let memory = Arc::new(memory.map_err(failed)?);
        Ok(Self { memory, element, typestr, shape })
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, &self.shape)
    }

    /// NumPy's name of the type of the elements.
    #[getter]
    fn dtype(&self) -> &str {
        &self.typestr
    }

    /// Kind and ordinal of the device.
    fn __dlpack_device__(&self) -> (i32, u32) {
        (CUDA, self.memory.ordinal())
    }

    /// A capsule with the array, which shares its memory. The copy to the GPU has ended, so every stream may use it.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, u32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // All versions have this form of capsules, and no stream has to wait.
        let _ = (stream, max_version);
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) || copy == Some(true) {
            return Err(PyBufferError::new_err("the array is given without a copy, on its own device"));
        }
        let given = Box::leak(Box::new(Given { _memory: Arc::clone(&self.memory), shape: self.shape.clone() }));
        let tensor = Tensor {
            data: self.memory.address() as *mut c_void,
            device: (CUDA, self.memory.ordinal() as i32),
            dimensions: given.shape.len() as i32,
            element: self.element,
            shape: given.shape.as_mut_ptr(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let context = ptr::from_mut(given).cast();
        let managed = Box::into_raw(Box::new(Managed { tensor, context, deleter: Some(delete) }));
        // SAFETY: the interpreter lock is held, the name is static, and the destructor fits the pointer.
        unsafe {
            let capsule = ffi::PyCapsule_New(managed.cast(), NAME.as_ptr().cast::<c_char>(), Some(discard));
            if capsule.is_null() {
                delete(managed);
                return Err(PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err("there is no memory")));
            }
            Ok(Bound::from_owned_ptr(py, capsule))
        }
    }

    /// The CUDA array interface, version 3.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("data", (self.memory.address(), false))?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", &self.typestr)?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", py.None())?;
        Ok(interface)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeviceArray>()?;
    module.add_function(wrap_pyfunction!(fetch, module)?)
}
