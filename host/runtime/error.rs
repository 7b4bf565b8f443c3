//! What can go wrong where a model is solved, whatever the model.

use std::convert::Infallible;

use warpkov_device::emulator::EmulatorError;

use crate::runtime::gpu::CudaError;

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such device, not enough of its memory, or it failed.
    #[error(transparent)]
    Device(#[from] CudaError),
    /// A [request to stop](crate::common::interrupt) came before there was a result.
    #[error("interrupted before there was a result")]
    Interrupted,
    /// The CPU was asked for work that only kernels do.
    #[error("device cpu runs no kernels, expected auto, cuda:N or emulated")]
    NoKernels,
    /// An emulated kernel did what it must not.
    #[error(transparent)]
    Emulator(EmulatorError),
}

impl From<EmulatorError> for Error {
    fn from(error: EmulatorError) -> Self {
        match error {
            EmulatorError::Stopped { .. } => Self::Interrupted,
            error => Self::Emulator(error),
        }
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// An error type with a variant for [`Error`] is made of the errors of all devices.
macro_rules! from_devices {
    ($error:ty) => {
        impl From<$crate::runtime::gpu::CudaError> for $error {
            fn from(error: $crate::runtime::gpu::CudaError) -> Self {
                $crate::runtime::Error::from(error).into()
            }
        }

        impl From<warpkov_device::emulator::EmulatorError> for $error {
            fn from(error: warpkov_device::emulator::EmulatorError) -> Self {
                $crate::runtime::Error::from(error).into()
            }
        }

        impl From<std::convert::Infallible> for $error {
            fn from(never: std::convert::Infallible) -> Self {
                match never {}
            }
        }
    };
}

pub(crate) use from_devices;
