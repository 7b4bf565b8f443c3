//! Why ranks cannot work together.

use std::time::Duration;

use warpkov_common::guard::listed;

use crate::gpu::CudaError;

/// A failure of a [`Communicator`](super::Communicator).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No library with MPI was found.
    #[error("no MPI library was found (tried {tried}); WARPKOV_MPI=FILE names one")]
    NoLibrary {
        /// The names that were tried.
        tried: String,
    },
    /// The library lacks a function.
    #[error("{library} has no {symbol}")]
    NoSymbol {
        /// File of the library.
        library: String,
        /// Name of the function.
        symbol: &'static str,
    },
    /// An MPI call failed.
    #[error("rank {rank}: {call}: {message}")]
    Mpi {
        /// The rank that called.
        rank: u32,
        /// Name of the function.
        call: &'static str,
        /// The library's text.
        message: String,
    },
    /// MPI knows other ranks than the launcher.
    #[error(
        "{launcher} started {started} ranks, and MPI knows {found} ({library}): expected the launcher of this library; for srun, option --mpi"
    )]
    Launcher {
        /// The launcher.
        launcher: &'static str,
        /// Ranks that it started.
        started: u32,
        /// The library.
        library: String,
        /// Ranks that the library knows.
        found: u32,
    },
    /// A launcher of ranks without MPI does not say where they meet.
    #[error(
        "{launcher} started {started} ranks, and says not where they meet: expected MASTER_ADDR and MASTER_PORT, or option --master"
    )]
    NoMaster {
        /// The launcher.
        launcher: &'static str,
        /// Ranks that it started.
        started: u32,
    },
    /// Ranks without MPI did not meet.
    #[error("rank {rank} did not meet the others at {address}: {reason}")]
    Meeting {
        /// The rank.
        rank: u32,
        /// HOST:PORT of the first rank.
        address: String,
        /// The reason.
        reason: String,
    },
    /// The GPU of a rank, or NCCL, failed.
    #[error(transparent)]
    Gpu(#[from] CudaError),
    /// Another rank failed.
    #[error("rank {rank} failed: {reason}")]
    Failed {
        /// The rank that failed first.
        rank: u32,
        /// Its reason.
        reason: String,
    },
    /// Ranks did not answer in time.
    #[error("rank {rank} waited {waited:?} for {}", awaited(others))]
    Timeout {
        /// The rank that waited.
        rank: u32,
        /// The ranks that do not wait with it, as far as it can know.
        others: Vec<u32>,
        /// The time that it waited.
        waited: Duration,
    },
    /// MPI did not start or end in time.
    #[error("rank {rank} waited {waited:?} in {call}: {peers}")]
    Stuck {
        /// The rank that waited.
        rank: u32,
        /// The function.
        call: &'static str,
        /// The time limit.
        waited: Duration,
        /// What is known of the other ranks.
        peers: String,
    },
    /// A message longer than its receiver expects.
    #[error("rank {rank} sent more than the expected {expected} bytes")]
    TooLong {
        /// The sender.
        rank: u32,
        /// Bytes that the receiver expects.
        expected: usize,
    },
    /// A message of the wrong length.
    #[error("rank {rank} sent {found} bytes, expected {expected}")]
    Length {
        /// The sender.
        rank: u32,
        /// Bytes of the message.
        found: usize,
        /// Bytes that the receiver expects.
        expected: usize,
    },
}

/// Most ranks that a message names.
const NAMED: usize = 16;

/// These ranks as part of a sentence: "rank 1", "ranks 1, 2".
#[must_use]
pub fn named(ranks: &[u32]) -> String {
    let names: Vec<_> = ranks.iter().take(NAMED).map(u32::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, listed(&names, ranks.len()))
}

/// The ranks that a rank waited for, and why they may be late.
fn awaited(others: &[u32]) -> String {
    match others.len() {
        0 => "the others, which wait too: one of them was late, or they wait for each other".to_owned(),
        1 => format!("{}, which has failed or is slower than option timeout allows", named(others)),
        _ => format!("{}, which have failed or are slower than option timeout allows", named(others)),
    }
}
