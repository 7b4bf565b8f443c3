//! Products of sparse matrices with vectors by NVIDIA's cuSPARSE: a peer of our own kernels.

use super::device::{AnyBuffer, AnyDevice, DeviceError};
use super::gpu::{self, CudaError, SparseNumber};

/// cuSPARSE on a GPU.
pub struct Cusparse(gpu::Cusparse);

/// A matrix in compressed rows.
pub struct Matrix<'b, T: SparseNumber>(gpu::SparseMatrix<'b, T>);

impl Cusparse {
    /// Whether there is such a library.
    #[must_use]
    pub fn is_available() -> bool {
        gpu::Cusparse::is_available()
    }

    /// Loads cuSPARSE; `None` on the emulator.
    ///
    /// # Errors
    /// There is no such library, or it does not start.
    pub fn new(device: &AnyDevice) -> Result<Option<Self>, CudaError> {
        device.gpu().map(gpu::Cusparse::new).transpose().map(|found| found.map(Self))
    }

    /// Version and file of the library.
    ///
    /// # Errors
    /// Those of cuSPARSE.
    pub fn version(&self) -> Result<String, CudaError> {
        self.0.version()
    }

    /// The matrix of `[rows, columns]` whose row i has the entries `ptr[i]..ptr[i + 1]` of `col` and `val`.
    ///
    /// # Errors
    /// Those of cuSPARSE, and of the GPU.
    ///
    /// # Safety
    /// The elements of `ptr` ascend from 0, those of `col` are below the number of columns. The buffers belong to this GPU.
    pub unsafe fn matrix<'b, T: SparseNumber>(
        &'b self,
        extent: [usize; 2],
        ptr: &'b AnyBuffer<u32>,
        col: &'b AnyBuffer<u32>,
        val: &'b AnyBuffer<T>,
    ) -> Result<Matrix<'b, T>, DeviceError> {
        // SAFETY: the caller's promise.
        Ok(Matrix(unsafe { self.0.matrix(extent, ptr.on_gpu(), col.on_gpu(), val.on_gpu()) }?))
    }
}

impl<T: SparseNumber> Matrix<'_, T> {
    /// `y` ← `alpha` A `x` + `z`.
    ///
    /// # Errors
    /// Those of cuSPARSE, and of the GPU.
    pub fn multiply_add(
        &self,
        alpha: T,
        x: &AnyBuffer<T>,
        z: &AnyBuffer<T>,
        y: &mut AnyBuffer<T>,
    ) -> Result<(), DeviceError> {
        Ok(self.0.multiply_add(alpha, x.on_gpu(), z.on_gpu(), y.on_gpu_mut())?)
    }
}
