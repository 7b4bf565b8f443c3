//! What a solve is asked for, and what it returns.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::certificate::Certificate;
use super::solve::{Limits, Run, Status, Target};
use crate::backend::device::Storage;
use crate::backend::device::divided::BlockDivided;

/// How a model is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Policy iteration on one CPU core; the baseline.
    Serial,
    /// Policy iteration on all CPU cores.
    Parallel,
    /// Policy iteration on the GPU: every sweep reads the rows of the whole model that the policy selects.
    Plain,
    /// Policy iteration on the GPU: the rows that the policy selects are first gathered into a matrix of their own.
    Projected,
    /// Value iteration, on all CPU cores or on the GPU.
    Values,
    /// Value iteration on one CPU core, in place; the baseline of Jóhannsson (2009).
    Sequential,
    /// Value iteration on the GPU with a thread for every result of every action: his Result Divided Iteration.
    ResultDivided,
    /// Value iteration on the GPU in blocks of states, several sweeps at a time: his Block Divided Iteration.
    BlockDivided,
    /// Value iteration by Gauss-Seidel sweeps, on all CPU cores.
    GaussSeidel,
    /// Modified policy iteration, on all CPU cores or on the GPU: a greedy sweep, then some sweeps of its policy.
    Modified,
    /// Policy iteration, on all CPU cores or on the GPU, whose policies are evaluated by BiCGSTAB: for γ near 1. Always in
    /// `f64`.
    Krylov,
}

impl Method {
    /// Whether a round ends with the improvement of a policy.
    #[must_use]
    pub fn has_policies(self) -> bool {
        !matches!(
            self,
            Self::Values
                | Self::Sequential
                | Self::ResultDivided
                | Self::BlockDivided
                | Self::GaussSeidel
                | Self::Modified
        )
    }

    /// The precision in which it settles ties where `asked` is asked for: BiCGSTAB has no use for less than `f64`.
    #[must_use]
    pub fn precision(self, asked: Precision) -> Precision {
        if self == Self::Krylov { Precision::F64 } else { asked }
    }

    /// Where it runs.
    #[must_use]
    pub fn places(self) -> Places {
        match self {
            Self::Serial | Self::Parallel | Self::Sequential | Self::GaussSeidel => Places { cpu: true, gpu: false },
            Self::Plain | Self::Projected | Self::ResultDivided | Self::BlockDivided => {
                Places { cpu: false, gpu: true }
            }
            Self::Values | Self::Modified | Self::Krylov => Places { cpu: true, gpu: true },
        }
    }
}

/// Where a method runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// On the CPU.
    pub cpu: bool,
    /// On a GPU, or emulated.
    pub gpu: bool,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serial => "serial",
            Self::Parallel => "parallel",
            Self::Plain => "plain",
            Self::Projected => "projected",
            Self::Values => "values",
            Self::Sequential => "sequential",
            Self::ResultDivided => "result-divided",
            Self::BlockDivided => "block-divided",
            Self::GaussSeidel => "gauss-seidel",
            Self::Modified => "modified",
            Self::Krylov => "krylov",
        })
    }
}

/// The floating-point type of V, P and R in the sweeps. Certificates are computed in `f64` for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// 32 bits: half the memory traffic.
    F32,
    /// 64 bits.
    F64,
    /// Value iteration on a GPU that has room for the model begins in 32 bits and ends in 64; all else is in 64 bits.
    Mixed,
    /// Value iteration sweeps in 32 bits and is refined in 64 on the host; all else is in 64 bits.
    Refined,
}

impl Precision {
    /// The tie-break ε that suits the rounding errors of Q-factors in this precision.
    pub fn default_tie(self) -> f64 {
        match self {
            Self::F32 => 1e-6,
            Self::F64 | Self::Mixed | Self::Refined => 1e-9,
        }
    }

    /// The same where values are to come as close as `target`: in `f64` less than would keep them from that.
    pub fn tie_for(self, target: Target, gamma: f64) -> f64 {
        match (self, target) {
            (Self::F32, _) | (_, Target::Theta(_)) => self.default_tie(),
            (_, Target::Epsilon(epsilon)) => self.default_tie().min(epsilon * (1.0 - gamma) / 4.0),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Mixed => "mixed",
            Self::Refined => "refined",
        })
    }
}

/// In which order states are numbered while a model is solved. What comes out is in the model's own order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Reorder {
    /// Reverse Cuthill–McKee where successors are far away and it brings them much nearer.
    #[default]
    Auto,
    /// The model's own.
    None,
    /// Reverse Cuthill–McKee.
    Rcm,
}

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

/// What a solve is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// How to compute; `None` is what [`auto`](super::auto) chooses.
    pub method: Option<Method>,
    /// Where to compute.
    pub device: DeviceChoice,
    /// In which floating-point type.
    pub precision: Precision,
    /// How value iteration stores the model on a GPU; `None` is the smallest that it has.
    pub storage: Option<Storage>,
    /// Whether value iteration on a GPU passes over states that cannot have changed. The values are the same.
    pub skip: bool,
    /// Bytes of a GPU's memory to use at most; value iteration streams larger models through them.
    pub device_memory: Option<u64>,
    /// In which order.
    pub reorder: Reorder,
    /// When to stop.
    pub limits: Limits,
    /// How [`Method::BlockDivided`] divides states.
    pub blocks: BlockDivided,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            method: None,
            device: DeviceChoice::Auto,
            precision: Precision::Mixed,
            storage: None,
            skip: true,
            device_memory: None,
            reorder: Reorder::default(),
            limits: Limits::default(),
            blocks: BlockDivided::default(),
        }
    }
}

/// Where the time of a solve goes beside its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// Reading and checking the model, if the caller says so.
    pub read: Duration,
    /// What the host finds out of the model: a better order of its states, a method, a layout.
    pub prepare: Duration,
    /// Until a GPU could be used; meanwhile the host prepares.
    pub start: Duration,
    /// Laying the model out, and bringing it to the device.
    pub upload: Duration,
    /// The certificate, and a policy.
    pub certify: Duration,
    /// Writing files, if the caller says so.
    pub write: Duration,
}

/// What a solve returns.
#[derive(Clone, Debug)]
pub struct Solution {
    /// V, one entry per state.
    pub values: Vec<f64>,
    /// π, one action per state.
    pub policy: Vec<u32>,
    /// How the loop went.
    pub run: Run,
    /// What is guaranteed about `values`.
    pub certificate: Certificate,
    /// The method that was used.
    pub method: Method,
    /// The precision that was used.
    pub precision: Precision,
    /// The device that was used, in words: "NVIDIA H200 (cuda:0)", "16 CPU cores".
    pub device: String,
    /// What was chosen on the user's behalf, and why.
    pub notes: Vec<String>,
    /// Time to convert the model and bring it to the device: of `phases`, what comes between reading and the loop.
    pub setup: Duration,
    /// Where the rest of the time went.
    pub phases: Phases,
}

impl Solution {
    /// Whether the target was met: ‖V − V*‖∞ ≤ ε is certain, or the run ended by itself, its last sweep met θ, and its
    /// values are finite (rewards near the end of a precision's range can overflow it).
    pub fn converged(&self, limits: &Limits) -> bool {
        match limits.target {
            Target::Epsilon(epsilon) => self.certificate.bound.is_some_and(|bound| bound <= epsilon),
            Target::Theta(_) => self.run.status == Status::Solved,
        }
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
