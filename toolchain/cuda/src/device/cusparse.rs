//! Products of sparse matrices with vectors by cuSPARSE, loaded at run time: a peer to compare kernels with.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Arg, Buffer, Device};

use super::buffer::GpuBuffer;
use super::{Core, Gpu};
use crate::driver::Handle;
use crate::error::CudaError;
use crate::library::{Search, functions, mapped};

/// Where cuSPARSE is: CUDA 12 and 13 both have version 12. PyPI's `nvidia-cusparse-cu12` and `nvidia-cusparse` have it in these folders of
/// the packages.
const SEARCH: Search = Search {
    variable: "WARPKOV_CUSPARSE",
    names: &["libcusparse.so.12"],
    packages: &["nvidia/cusparse/lib", "nvidia/cu13/lib"],
};

functions! {
    /// cuSPARSE's functions; versions 12.0 to 12.6 declare the same. The doc comments list the parameters; NVIDIA's *cuSPARSE* describes
    /// the functions.
    Functions of "cuSPARSE 12":
    /// (&handle)
    create = cusparseCreate(*mut Handle) -> u32;
    /// (handle)
    destroy = cusparseDestroy(Handle) -> u32;
    /// (handle, stream)
    set_stream = cusparseSetStream(Handle, Handle) -> u32;
    /// (handle, &version)
    get_version = cusparseGetVersion(Handle, *mut c_int) -> u32;
    /// (code)
    get_error_string = cusparseGetErrorString(u32) -> *const c_char;
    /// (&matrix, rows, columns, entries, offsets, columns of entries, values, types of offsets and of columns, base, type of values)
    create_csr = cusparseCreateCsr(
        *mut Handle, i64, i64, i64, *mut c_void, *mut c_void, *mut c_void, c_int, c_int, c_int, c_int
    ) -> u32;
    /// (matrix)
    destroy_matrix = cusparseDestroySpMat(Handle) -> u32;
    /// (&vector, size, values, type)
    create_vector = cusparseCreateDnVec(*mut Handle, i64, *mut c_void, c_int) -> u32;
    /// (vector)
    destroy_vector = cusparseDestroyDnVec(Handle) -> u32;
    /// (handle, operation, &α, matrix, x, &β, y, type, algorithm, &bytes)
    buffer_size = cusparseSpMV_bufferSize(
        Handle, c_int, *const c_void, Handle, Handle, *const c_void, Handle, c_int, c_int, *mut usize
    ) -> u32;
    /// (handle, operation, &α, matrix, x, &β, y, type, algorithm, scratch)
    multiply = cusparseSpMV(
        Handle, c_int, *const c_void, Handle, Handle, *const c_void, Handle, c_int, c_int, *mut c_void
    ) -> u32;
}

/// `CUSPARSE_STATUS_SUCCESS`.
const SUCCESS: u32 = 0;

/// `CUSPARSE_INDEX_32I`.
const INDEX: c_int = 2;

/// `CUSPARSE_INDEX_BASE_ZERO`, `CUSPARSE_OPERATION_NON_TRANSPOSE` and `CUSPARSE_SPMV_ALG_DEFAULT`.
const DEFAULT: c_int = 0;

struct Library {
    functions: Functions,
    file: PathBuf,
}

/// cuSPARSE, loaded at the first call.
fn get() -> Result<&'static Library, CudaError> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| {
        SEARCH.load(
            |name| std::env::var_os(name),
            |library, name| {
                let functions = Functions::resolve(library)?;
                let file = mapped(functions.create as usize).unwrap_or_else(|| name.to_owned());
                Ok(Library { functions, file })
            },
        )
    });
    loaded.as_ref().map_err(|why| CudaError::NoCusparse { why: why.clone() })
}

mod sealed {
    pub trait Sealed {
        /// `cudaDataType`.
        const TYPE: std::ffi::c_int;
        const ONE: Self;
    }
}

/// Numbers of [`SparseMatrix`]: `f32`, `f64`.
///
/// ```
/// fn bytes<T: warpkov_cuda::SparseNumber>(entries: usize) -> usize {
///     entries * (4 + size_of::<T>())
/// }
/// assert_eq!(bytes::<f64>(3), 36);
/// ```
pub trait SparseNumber: DeviceCopy + sealed::Sealed {}

impl sealed::Sealed for f32 {
    const TYPE: c_int = 0;
    const ONE: Self = 1.0;
}

impl sealed::Sealed for f64 {
    const TYPE: c_int = 1;
    const ONE: Self = 1.0;
}

impl SparseNumber for f32 {}
impl SparseNumber for f64 {}

/// cuSPARSE on a GPU.
///
/// The library is searched for as NCCL is: the file that `WARPKOV_CUSPARSE` names, then `libcusparse.so.12` of the system, then
/// that of a Python environment.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let gpu = Gpu::open(0, &MODULES)?;
/// let cusparse = Cusparse::new(&gpu)?;
/// println!("cuSPARSE {}", cusparse.version()?);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Cusparse {
    library: &'static Library,
    handle: Handle,
    core: Rc<Core>,
}

/// A matrix in compressed rows, for products by [`Cusparse`].
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let gpu = Gpu::open(0, &MODULES)?;
/// // (0.5 0.5; 0 1).
/// let (ptr, col, val) = (gpu.upload(&[0_u32, 2, 3])?, gpu.upload(&[0_u32, 1, 1])?, gpu.upload(&[0.5, 0.5, 1.0])?);
/// let cusparse = Cusparse::new(&gpu)?;
/// // SAFETY: the rows ascend, and the columns are below 2.
/// let matrix: SparseMatrix<f64> = unsafe { cusparse.matrix([2, 2], &ptr, &col, &val) }?;
/// let (x, mut y) = (gpu.upload(&[1.0, 3.0])?, gpu.zeros(2)?);
/// matrix.multiply_add(2.0, &x, &x, &mut y)?;
/// assert_eq!((matrix.entries(), gpu.to_vec(&y)?), (3, vec![5.0, 9.0]));
/// # Ok::<(), CudaError>(())
/// ```
pub struct SparseMatrix<'b, T: SparseNumber> {
    cusparse: &'b Cusparse,
    handle: Handle,
    entries: usize,
    extent: [usize; 2],
    scratch: Option<GpuBuffer<u8>>,
    values: PhantomData<&'b T>,
}

/// A dense vector, as cuSPARSE knows it.
struct Vector<'c> {
    cusparse: &'c Cusparse,
    handle: Handle,
}

/// The address of a buffer.
fn address<T: DeviceCopy>(buffer: &GpuBuffer<T>) -> *mut c_void {
    let Arg::Buffer { address, .. } = buffer.arg() else { unreachable!("the argument of a buffer") };
    ptr::without_provenance_mut(address as usize)
}

impl Cusparse {
    /// Whether there is a cuSPARSE library.
    ///
    /// ```
    /// println!("cuSPARSE: {}", warpkov_cuda::Cusparse::is_available());
    /// ```
    #[must_use]
    pub fn is_available() -> bool {
        get().is_ok()
    }

    /// Starts cuSPARSE on `gpu`.
    ///
    /// # Errors
    /// [`CudaError::NoCusparse`] if there is no such library; [`CudaError::Cusparse`] if it does not start.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let cusparse = Cusparse::new(&Gpu::open(0, &MODULES)?)?;
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn new(gpu: &Gpu) -> Result<Self, CudaError> {
        let library = get()?;
        let core = &gpu.core;
        core.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: cusparseCreate writes one handle; the context of the GPU is current, and cuSPARSE takes its device from it.
        library.check("cusparseCreate", unsafe { (library.functions.create)(&mut handle) })?;
        Ok(Self { library, handle, core: Rc::clone(core) })
    }

    /// Version and file of the library.
    ///
    /// # Errors
    /// [`CudaError::Cusparse`].
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # fn part(cusparse: &Cusparse) -> Result<(), CudaError> {
    /// println!("cuSPARSE {}", cusparse.version()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn version(&self) -> Result<String, CudaError> {
        let mut version = 0;
        // SAFETY: cusparseGetVersion writes one integer: 1000·major + 100·minor + patch.
        let code = unsafe { (self.library.functions.get_version)(self.handle, &mut version) };
        self.library.check("cusparseGetVersion", code)?;
        let (major, minor, patch) = (version / 1000, version % 1000 / 100, version % 100);
        Ok(format!("{major}.{minor}.{patch}, {}", self.library.file.display()))
    }

    /// The matrix of `[rows, columns]` in compressed rows: row i has the entries `ptr[i]..ptr[i + 1]` of `col` and `val`. Waits for the GPU.
    ///
    /// # Errors
    /// [`CudaError::Cusparse`], and errors of the driver.
    ///
    /// # Panics
    /// If a buffer is too short, or if there are more than 2³¹ − 1 rows, columns or entries.
    ///
    /// # Safety
    /// The elements of `ptr` ascend from 0, those of `col` are below the number of columns. The buffers belong to this GPU.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, cusparse: &Cusparse) -> Result<(), CudaError> {
    /// let (ptr, col, val) = (gpu.upload(&[0_u32, 1])?, gpu.upload(&[0_u32])?, gpu.upload(&[0.5])?);
    /// // SAFETY: one row with one entry, in column 0.
    /// let matrix = unsafe { cusparse.matrix::<f64>([1, 1], &ptr, &col, &val) }?;
    /// assert_eq!(matrix.entries(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn matrix<'b, T: SparseNumber>(
        &'b self,
        extent: [usize; 2],
        ptr: &'b GpuBuffer<u32>,
        col: &'b GpuBuffer<u32>,
        val: &'b GpuBuffer<T>,
    ) -> Result<SparseMatrix<'b, T>, CudaError> {
        let [rows, columns] = extent;
        assert!(ptr.len() > rows, "{} offsets of {rows} rows", ptr.len());
        let mut end = [0];
        self.core.download_from(ptr, rows, &mut end)?;
        let entries = end[0] as usize;
        assert!(col.len() >= entries && val.len() >= entries, "{entries} entries in {} and {}", col.len(), val.len());
        assert!([rows, columns, entries].iter().all(|&count| i32::try_from(count).is_ok()), "indices of 32 bits");
        let (library, functions) = (self.library, &self.library.functions);
        let mut handle = ptr::null_mut();
        let [rows, columns, count] = [rows, columns, entries].map(|count| count as i64);
        // SAFETY: cusparseCreateCsr keeps the addresses, of buffers that outlive the matrix, and writes one handle. The caller promises
        // the rest.
        let code = unsafe {
            let [ptr, col, val] = [address(ptr), address(col), address(val)];
            (functions.create_csr)(&mut handle, rows, columns, count, ptr, col, val, INDEX, INDEX, DEFAULT, T::TYPE)
        };
        library.check("cusparseCreateCsr", code)?;
        let mut matrix = SparseMatrix { cusparse: self, handle, entries, extent, scratch: None, values: PhantomData };
        // Only the sizes of the vectors count here.
        let [x, y] = [extent[1], extent[0]].map(|len| self.vector::<T>(len, address(val)));
        let (x, y, one, mut bytes) = (x?, y?, T::ONE, 0);
        // SAFETY: cusparseSpMV_bufferSize reads two numbers of the vectors' type from the host, and writes one size.
        let code = unsafe {
            let one = ptr::from_ref(&one).cast();
            (functions.buffer_size)(
                self.handle,
                DEFAULT,
                one,
                matrix.handle,
                x.handle,
                one,
                y.handle,
                T::TYPE,
                DEFAULT,
                &mut bytes,
            )
        };
        library.check("cusparseSpMV_bufferSize", code)?;
        if bytes > 0 {
            matrix.scratch = Some(Gpu { core: Rc::clone(&self.core) }.uninitialised(bytes)?);
        }
        Ok(matrix)
    }

    /// A vector of `len` elements at this address.
    fn vector<T: SparseNumber>(&self, len: usize, address: *mut c_void) -> Result<Vector<'_>, CudaError> {
        let mut handle = ptr::null_mut();
        // SAFETY: cusparseCreateDnVec keeps the address and writes one handle.
        let code = unsafe { (self.library.functions.create_vector)(&mut handle, len as i64, address, T::TYPE) };
        self.library.check("cusparseCreateDnVec", code)?;
        Ok(Vector { cusparse: self, handle })
    }
}

impl<T: SparseNumber> SparseMatrix<'_, T> {
    /// The number of stored entries.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # fn part(matrix: &SparseMatrix<f64>) {
    /// println!("{} entries", matrix.entries());
    /// # }
    /// ```
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// `y` ← `alpha` A `x` + `z`, in the order of the GPU's other operations: a copy of `z`, and a product.
    ///
    /// # Errors
    /// [`CudaError::Cusparse`], and errors of the driver.
    ///
    /// # Panics
    /// If a vector is shorter than the matrix, or beside other operations ([`Device::beside`]): products share memory.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # fn part(p: &SparseMatrix<f64>, v: &GpuBuffer<f64>, r: &GpuBuffer<f64>, next: &mut GpuBuffer<f64>) -> Result<(), CudaError> {
    /// // V' = r + 0.9 P V.
    /// p.multiply_add(0.9, v, r, next)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn multiply_add(
        &self,
        alpha: T,
        x: &GpuBuffer<T>,
        z: &GpuBuffer<T>,
        y: &mut GpuBuffer<T>,
    ) -> Result<(), CudaError> {
        let (Cusparse { library, handle, core }, [rows, columns]) = (self.cusparse, self.extent);
        let lens = [x.len(), z.len(), y.len()];
        assert!(lens[0] >= columns && lens[1] >= rows && lens[2] >= rows, "{lens:?} elements, {rows} × {columns}");
        assert!(!core.on_side.get(), "a product beside other operations");
        core.enter()?;
        core.copy(z, y, rows)?;
        let functions = &library.functions;
        // SAFETY: the stream exists, and belongs to the context of the handle.
        library.check("cusparseSetStream", unsafe { (functions.set_stream)(*handle, core.stream()) })?;
        let (x, y) = (self.cusparse.vector::<T>(columns, address(x))?, self.cusparse.vector::<T>(rows, address(y))?);
        let scratch = self.scratch.as_ref().map_or(ptr::null_mut(), address);
        let one = T::ONE;
        // SAFETY: cusparseSpMV reads α and β from the host before it returns. The vectors have the sizes of the matrix, which has valid
        // indices by the promise of its maker, and their memory is freed in the order of the stream.
        let code = unsafe {
            let [alpha, one] = [&alpha, &one].map(|number| ptr::from_ref(number).cast());
            (functions.multiply)(
                *handle,
                DEFAULT,
                alpha,
                self.handle,
                x.handle,
                one,
                y.handle,
                T::TYPE,
                DEFAULT,
                scratch,
            )
        };
        library.check("cusparseSpMV", code)
    }
}

impl Library {
    /// The error of a call with this code.
    fn check(&self, call: &'static str, code: u32) -> Result<(), CudaError> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: cusparseGetErrorString returns a string literal for every code.
        let text = unsafe { CStr::from_ptr((self.functions.get_error_string)(code)) };
        Err(CudaError::Cusparse { call, text: format!("{} (code {code})", text.to_string_lossy()) })
    }
}

impl Drop for Vector<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is that of a vector, and is not used again.
        unsafe { (self.cusparse.library.functions.destroy_vector)(self.handle) };
    }
}

impl<T: SparseNumber> Drop for SparseMatrix<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the handle is that of a matrix, and is not used again.
        unsafe { (self.cusparse.library.functions.destroy_matrix)(self.handle) };
    }
}

impl Drop for Cusparse {
    fn drop(&mut self) {
        if self.core.enter().is_ok() {
            // SAFETY: nothing uses the handle after this call; the context is current.
            unsafe { (self.library.functions.destroy)(self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_the_functions_is_no_cusparse() {
        let named = |_: &str| Some("libc.so.6".into());
        let why = SEARCH.load(named, |library, _| Functions::resolve(library)).err().unwrap();
        assert_eq!(why, "tried libc.so.6: it lacks cusparseCreate: it is not cuSPARSE 12, or too old");
        let error = CudaError::NoCusparse { why }.to_string();
        assert!(error.contains("libc.so.6") && error.contains(SEARCH.variable), "{error}");
    }
}
