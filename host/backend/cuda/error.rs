//! What can go wrong on a GPU.

use super::driver::driver;

/// An error of the CUDA backend. Each message says what to do where something can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no driver on this machine.
    #[error("there is no NVIDIA driver on this machine ({why})")]
    NoDriver {
        /// What the dynamic linker said.
        why: String,
    },
    /// There is a driver, and no GPU.
    #[error("the NVIDIA driver finds no GPU")]
    NoGpu,
    /// There is no GPU of this number.
    #[error("there is no GPU cuda:{ordinal}; this machine has {count}, numbered from 0")]
    NoSuchGpu {
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// This binary holds no device code.
    #[error("this binary was built without device code: {why}")]
    NoPtx {
        /// What the build said.
        why: String,
    },
    /// No device code of this binary runs on this GPU with this driver.
    #[error(
        "no device code in this binary fits: the GPU has compute capability {}.{}, the driver is for CUDA {}.{}; \
         {needs}", capability.0, capability.1, driver.0, driver.1
    )]
    Unsupported {
        /// Compute capability of the GPU.
        capability: (u32, u32),
        /// CUDA version of the driver.
        driver: (u32, u32),
        /// What would be needed.
        needs: String,
    },
    /// The driver's compiler refused the device code.
    #[error("the driver cannot compile the device code: {text}\n{log}")]
    Jit {
        /// The driver's text for its error code.
        text: String,
        /// The compiler's log.
        log: String,
    },
    /// Not enough device memory.
    #[error("{what} needs {} of device memory, and {} of {} are free", mebibytes(*needed), mebibytes(*free), mebibytes(*total))]
    OutOfMemory {
        /// What needs it.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// Bytes there are.
        total: u64,
    },
    /// A launch that does not fit the kernel or the GPU.
    #[error("kernel {entry}: {reason}")]
    Launch {
        /// The entry point.
        entry: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Any other error of the driver.
    #[error("{call} failed: {text} (error {code})")]
    Driver {
        /// What was asked for.
        call: &'static str,
        /// The driver's code.
        code: u32,
        /// The driver's text for it.
        text: String,
    },
}

impl CudaError {
    /// The error that a code of the driver stands for.
    pub(super) fn of(call: &'static str, code: u32) -> Self {
        Self::Driver { call, code, text: error_text(code) }
    }

    /// `Ok` for 0, else the error that the code stands for.
    pub(super) fn check(call: &'static str, code: u32) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self::of(call, code)) }
    }

    /// For `map_err`: names what was asked of cust.
    pub(super) fn from_cust(call: &'static str) -> impl Fn(cust::error::CudaError) -> Self {
        move |error| Self::of(call, error as u32)
    }
}

/// The driver's text for an error code.
pub(super) fn error_text(code: u32) -> String {
    let text = driver().ok().and_then(|driver| driver.error_string(code));
    text.map_or_else(|| "unknown error".to_owned(), |text| text.to_string_lossy().into_owned())
}

fn mebibytes(bytes: u64) -> String {
    if bytes < 10 << 30 {
        format!("{:.1} MiB", bytes as f64 / (1u64 << 20) as f64)
    } else {
        format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_sizes_in_words() {
        let error =
            CudaError::OutOfMemory { what: "the model".to_owned(), needed: 20 << 30, free: 100 << 20, total: 16 << 30 };
        assert_eq!(error.to_string(), "the model needs 20.0 GiB of device memory, and 100.0 MiB of 16.0 GiB are free");
    }

    #[test]
    fn codes_newer_than_cust_have_a_message() {
        let text = CudaError::of("cuLaunchKernel", 123_456).to_string();
        assert!(text.starts_with("cuLaunchKernel failed: ") && text.ends_with("(error 123456)"), "{text}");
    }
}
