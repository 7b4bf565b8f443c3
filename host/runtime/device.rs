//! One type for all devices that run kernels: a GPU, or the emulator.
//!
//! Backends are written for [`AnyDevice`], so the compiler makes their code once. An operation branches once between GPU and
//! emulator, which costs nothing beside a launch.

use std::ops::Range;
use std::time::{Duration, Instant};

use warpkov_device::device::DeviceCopy;
use warpkov_device::emulator::{EmulatedBuffer, EmulatedEvent, Emulator, EmulatorError};
use warpkov_device::launch::{Arg, Buffer, Call, Device, Unmet};

use crate::gpu::{self, CudaError, Gpu, GpuBuffer};

/// An open device that runs kernels.
pub enum AnyDevice {
    /// A GPU.
    Gpu(Gpu),
    /// The emulator.
    Emulated(Box<Emulator>),
}

/// A failed operation of an [`AnyDevice`].
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// An error of the GPU or of its driver.
    #[error(transparent)]
    Gpu(#[from] CudaError),
    /// A fault that the emulator found.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// A launch that does not meet the kernel's contract.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// What an operation works with is not on the device.
    #[error("{0}")]
    Missing(&'static str),
}

/// Memory of an [`AnyDevice`].
pub enum AnyBuffer<T: DeviceCopy> {
    /// Memory of a GPU.
    Gpu(GpuBuffer<T>),
    /// Memory of the emulator.
    Emulated(EmulatedBuffer<T>),
}

/// Host memory from which an [`AnyDevice`] copies beside other work.
pub enum AnyPinned<T: DeviceCopy> {
    /// Memory for a GPU.
    Gpu(gpu::Pinned<T>),
    /// Memory for the emulator.
    Emulated(Vec<T>),
}

/// A point in the order of operations of an [`AnyDevice`].
pub enum AnyEvent {
    /// Of a GPU.
    Gpu(gpu::Event),
    /// Of the emulator.
    Emulated(EmulatedEvent),
}

impl AnyDevice {
    /// Its name, in words.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Gpu(gpu) => gpu.name(),
            Self::Emulated(_) => "the emulator".to_owned(),
        }
    }

    /// The GPU, if it is one.
    #[must_use]
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Self::Gpu(gpu) => Some(gpu),
            Self::Emulated(_) => None,
        }
    }

    /// Bytes of free memory; `None` on the emulator.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn free_memory(&self) -> Result<Option<u64>, DeviceError> {
        Ok(self.gpu().map(Gpu::memory).transpose()?.map(|(free, _)| free))
    }

    /// The time in which the device executes the operations that `work` submits: by the GPU's clock, or by the host's for the
    /// emulator.
    ///
    /// # Errors
    /// Errors of `work`, and errors of the device while it executes the operations.
    pub fn time(&self, work: impl FnOnce() -> Result<(), DeviceError>) -> Result<Duration, DeviceError> {
        match self {
            Self::Gpu(gpu) => Ok(gpu.time(|| work().map_err(of_gpu))?.1),
            Self::Emulated(_) => {
                let begun = Instant::now();
                work().map(|()| begun.elapsed())
            }
        }
    }

    /// Checks that `bytes` of memory are free for `what`. The emulator has the memory of the host, which is not checked.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn reserve(&self, bytes: u64, what: &str) -> Result<(), DeviceError> {
        self.gpu().map_or(Ok(()), |gpu| Ok(gpu.reserve(bytes, what)?))
    }
}

impl From<Gpu> for AnyDevice {
    fn from(gpu: Gpu) -> Self {
        Self::Gpu(gpu)
    }
}

impl From<Emulator> for AnyDevice {
    fn from(emulator: Emulator) -> Self {
        Self::Emulated(Box::new(emulator))
    }
}

/// A buffer is used on the device that made it: every owner of buffers owns one device.
const FOREIGN: &str = "the memory belongs to another device";

impl<T: DeviceCopy> AnyBuffer<T> {
    pub(crate) fn on_gpu(&self) -> &GpuBuffer<T> {
        let Self::Gpu(buffer) = self else { unreachable!("{FOREIGN}") };
        buffer
    }

    pub(crate) fn on_gpu_mut(&mut self) -> &mut GpuBuffer<T> {
        let Self::Gpu(buffer) = self else { unreachable!("{FOREIGN}") };
        buffer
    }

    fn emulated(&self) -> &EmulatedBuffer<T> {
        let Self::Emulated(buffer) = self else { unreachable!("{FOREIGN}") };
        buffer
    }

    fn emulated_mut(&mut self) -> &mut EmulatedBuffer<T> {
        let Self::Emulated(buffer) = self else { unreachable!("{FOREIGN}") };
        buffer
    }
}

impl<T: DeviceCopy> Buffer<T> for AnyBuffer<T> {
    fn len(&self) -> usize {
        match self {
            Self::Gpu(buffer) => buffer.len(),
            Self::Emulated(buffer) => buffer.len(),
        }
    }

    fn arg(&self) -> Arg {
        match self {
            Self::Gpu(buffer) => buffer.arg(),
            Self::Emulated(buffer) => buffer.arg(),
        }
    }
}

/// The error of the GPU on which a closure of [`Device::beside`] or [`Device::capture`] has worked.
pub(crate) fn of_gpu(error: DeviceError) -> CudaError {
    match error {
        DeviceError::Gpu(error) => error,
        DeviceError::Unmet(unmet) => unmet.into(),
        DeviceError::Emulator(_) => unreachable!("{FOREIGN}"),
        DeviceError::Missing(what) => unreachable!("{what}"),
    }
}

/// The error of the emulator, likewise.
fn of_emulator(error: DeviceError) -> EmulatorError {
    match error {
        DeviceError::Emulator(error) => error,
        DeviceError::Unmet(unmet) => unmet.into(),
        DeviceError::Gpu(_) => unreachable!("{FOREIGN}"),
        DeviceError::Missing(what) => unreachable!("{what}"),
    }
}

impl Device for AnyDevice {
    type Error = DeviceError;
    type Buffer<T: DeviceCopy> = AnyBuffer<T>;
    type Pinned<T: DeviceCopy> = AnyPinned<T>;
    type Event = AnyEvent;
    /// The emulator records nothing.
    type Graph = gpu::Graph;

    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<AnyBuffer<T>, DeviceError> {
        Ok(match self {
            Self::Gpu(gpu) => AnyBuffer::Gpu(gpu.zeros(len)?),
            Self::Emulated(emulator) => AnyBuffer::Emulated(emulator.zeros(len)?),
        })
    }

    fn uninitialised<T: DeviceCopy>(&self, len: usize) -> Result<AnyBuffer<T>, DeviceError> {
        Ok(match self {
            Self::Gpu(gpu) => AnyBuffer::Gpu(gpu.uninitialised(len)?),
            Self::Emulated(emulator) => AnyBuffer::Emulated(emulator.uninitialised(len)?),
        })
    }

    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<AnyBuffer<T>, DeviceError> {
        Ok(match self {
            Self::Gpu(gpu) => AnyBuffer::Gpu(gpu.upload(source)?),
            Self::Emulated(emulator) => AnyBuffer::Emulated(emulator.upload(source)?),
        })
    }

    fn upload_pieces<T: DeviceCopy>(
        &self,
        ends: &[usize],
        fill: impl FnMut(usize, &mut [T]),
    ) -> Result<AnyBuffer<T>, DeviceError> {
        Ok(match self {
            Self::Gpu(gpu) => AnyBuffer::Gpu(gpu.upload_pieces(ends, fill)?),
            Self::Emulated(emulator) => AnyBuffer::Emulated(emulator.upload_pieces(ends, fill)?),
        })
    }

    fn write<T: DeviceCopy>(&self, target: &mut AnyBuffer<T>, source: &[T]) -> Result<(), DeviceError> {
        match self {
            Self::Gpu(gpu) => gpu.write(target.on_gpu_mut(), source)?,
            Self::Emulated(emulator) => emulator.write(target.emulated_mut(), source)?,
        }
        Ok(())
    }

    fn clear<T: DeviceCopy>(&self, buffer: &mut AnyBuffer<T>) -> Result<(), DeviceError> {
        match self {
            Self::Gpu(gpu) => gpu.clear(buffer.on_gpu_mut())?,
            Self::Emulated(emulator) => emulator.clear(buffer.emulated_mut())?,
        }
        Ok(())
    }

    fn download<T: DeviceCopy>(&self, buffer: &AnyBuffer<T>, target: &mut [T]) -> Result<(), DeviceError> {
        match self {
            Self::Gpu(gpu) => gpu.download(buffer.on_gpu(), target)?,
            Self::Emulated(emulator) => emulator.download(buffer.emulated(), target)?,
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        match self {
            Self::Gpu(gpu) => gpu.synchronize()?,
            Self::Emulated(emulator) => emulator.synchronize()?,
        }
        Ok(())
    }

    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<AnyPinned<T>, DeviceError> {
        Ok(match self {
            Self::Gpu(gpu) => AnyPinned::Gpu(gpu.pin(source)?),
            Self::Emulated(emulator) => AnyPinned::Emulated(emulator.pin(source)?),
        })
    }

    fn record_event(&self) -> Result<AnyEvent, DeviceError> {
        Ok(match self {
            Self::Gpu(gpu) => AnyEvent::Gpu(gpu.record_event()?),
            Self::Emulated(emulator) => AnyEvent::Emulated(emulator.record_event()?),
        })
    }

    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &AnyPinned<T>,
        range: Range<usize>,
        target: &mut AnyBuffer<T>,
        after: &AnyEvent,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise is the device's.
        unsafe {
            match (self, source, after) {
                (Self::Gpu(gpu), AnyPinned::Gpu(source), AnyEvent::Gpu(after)) => {
                    gpu.stage(source, range, target.on_gpu_mut(), after)?;
                }
                (Self::Emulated(emulator), AnyPinned::Emulated(source), AnyEvent::Emulated(after)) => {
                    emulator.stage(source, range, target.emulated_mut(), after)?;
                }
                _ => unreachable!("{FOREIGN}"),
            }
        }
        Ok(())
    }

    unsafe fn beside<C>(
        &self,
        context: &mut C,
        side: impl FnOnce(&mut C) -> Result<(), DeviceError>,
        main: impl FnOnce(&mut C) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise is the device's.
        unsafe {
            match self {
                Self::Gpu(gpu) => gpu.beside(context, |c| side(c).map_err(of_gpu), |c| main(c).map_err(of_gpu))?,
                Self::Emulated(emulator) => {
                    emulator.beside(context, |c| side(c).map_err(of_emulator), |c| main(c).map_err(of_emulator))?;
                }
            }
        }
        Ok(())
    }

    unsafe fn launch(&self, call: Call<'_>) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise is the device's.
        unsafe {
            match self {
                Self::Gpu(gpu) => gpu.launch(call)?,
                Self::Emulated(emulator) => emulator.launch(call)?,
            }
        }
        Ok(())
    }

    fn capture(&self, work: impl FnOnce() -> Result<(), DeviceError>) -> Result<Option<gpu::Graph>, DeviceError> {
        Ok(match self {
            Self::Gpu(gpu) => gpu.capture(|| work().map_err(of_gpu))?,
            Self::Emulated(_) => None,
        })
    }

    unsafe fn launch_graph(&self, graph: &gpu::Graph) -> Result<(), DeviceError> {
        let Self::Gpu(gpu) = self else { unreachable!("{FOREIGN}") };
        // SAFETY: the caller's promise is the GPU's.
        unsafe { gpu.launch_graph(graph) }.map_err(Into::into)
    }
}
