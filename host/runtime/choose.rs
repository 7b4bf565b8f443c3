//! Where a run happens.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Where to solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU that the model fits on; else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this ordinal.
    Cuda(u32),
    /// The GPU's kernels, emulated on the CPU thread by thread. Slow; for tests and debugging.
    Emulated,
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Emulated => f.write_str("emulated"),
        }
    }
}

/// The text names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected auto, cpu, cuda:N or emulated")]
pub struct UnknownDevice;

impl FromStr for DeviceChoice {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "emulated" => Ok(Self::Emulated),
            _ => {
                let ordinal = text.strip_prefix("cuda:").ok_or(UnknownDevice)?;
                ordinal.parse().map(Self::Cuda).map_err(|_| UnknownDevice)
            }
        }
    }
}

impl Serialize for DeviceChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_parse_and_print() {
        for text in ["auto", "cpu", "cuda:0", "cuda:7", "emulated"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU"] {
            assert_eq!(text.parse::<DeviceChoice>(), Err(UnknownDevice), "{text}");
        }
    }
}
