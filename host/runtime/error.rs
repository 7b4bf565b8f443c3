//! Errors of devices, common to all model classes.

use std::convert::Infallible;

use warpkov_device::emulator::EmulatorError;
use warpkov_device::launch::Unmet;

use super::comm;
use super::device::DeviceError;
use crate::gpu::CudaError;

/// A failed or interrupted run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device does not exist, has too little memory, or failed.
    #[error(transparent)]
    Device(#[from] CudaError),
    /// A [stop request](warpkov_common::interrupt) came before the first result.
    #[error("interrupted before there was a result")]
    Interrupted,
    /// The CPU was asked for work that only kernels do.
    #[error("device cpu runs no kernels, expected auto, cuda:N or emulated")]
    NoKernels,
    /// Another rank failed, or the connection to it.
    #[error(transparent)]
    Comm(#[from] comm::Error),
    /// The emulator found a fault in a kernel.
    #[error(transparent)]
    Emulator(EmulatorError),
    /// A launch does not meet the kernel's contract.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// What an operation works with is not on the device.
    #[error("{0}")]
    Missing(&'static str),
}

impl From<EmulatorError> for Error {
    fn from(error: EmulatorError) -> Self {
        match error {
            EmulatorError::Stopped { .. } => Self::Interrupted,
            error => Self::Emulator(error),
        }
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Gpu(error) => error.into(),
            DeviceError::Emulator(error) => error.into(),
            DeviceError::Unmet(unmet) => unmet.into(),
            DeviceError::Missing(what) => Self::Missing(what),
        }
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Implements conversions from the errors of all devices for an error type that converts from [`Error`].
#[macro_export]
macro_rules! from_devices {
    ($error:ty) => {
        impl From<$crate::gpu::CudaError> for $error {
            fn from(error: $crate::gpu::CudaError) -> Self {
                $crate::Error::from(error).into()
            }
        }

        impl From<$crate::comm::Error> for $error {
            fn from(error: $crate::comm::Error) -> Self {
                $crate::Error::from(error).into()
            }
        }

        impl From<$crate::device::DeviceError> for $error {
            fn from(error: $crate::device::DeviceError) -> Self {
                $crate::Error::from(error).into()
            }
        }

        impl From<std::convert::Infallible> for $error {
            fn from(never: std::convert::Infallible) -> Self {
                match never {}
            }
        }
    };
}

pub use from_devices;
