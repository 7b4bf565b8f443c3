//! Faults that the emulator detects. On a GPU they would cause wrong results or a hang.

use std::fmt;
use std::panic::{Location, resume_unwind};

use crate::launch::Dim3;

/// A fault, with its kernel, block, threads and source line.
#[derive(Clone, Debug, thiserror::Error)]
#[error("kernel {kernel}, block ({}, {}, {}), {threads}: {kind}{}", block.x, block.y, block.z,
        site.map(|site| format!(" [{}:{}]", site.file(), site.line())).unwrap_or_default())]
pub struct Fault {
    /// Name of the kernel in the source.
    pub kernel: &'static str,
    /// Index of the block in the grid.
    pub block: Dim3,
    /// The threads that cause the fault.
    pub threads: Threads,
    /// The kind of fault and its details.
    pub kind: Kind,
    /// The source line, if known.
    pub site: Option<&'static Location<'static>>,
}

/// One or two threads of a block, by their [`index_in_block`](crate::device::thread::index_in_block).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One thread.
    One(u32),
    /// Two threads in conflict; in a race, the earlier access first.
    Two(u32, u32),
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(thread) => write!(f, "thread {thread}"),
            Self::Two(first, second) => write!(f, "threads {first} and {second}"),
        }
    }
}

/// The kinds of fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    /// Some threads wait at a barrier that another thread never reaches.
    #[error("barrier divergence: one thread waits at the barrier on line {waiting}, the other {other}")]
    BarrierDivergence {
        /// Line of the barrier.
        waiting: u32,
        /// State of the other thread.
        other: String,
    },
    /// A lane of the mask never reaches a warp operation.
    #[error("warp divergence: {operation} with mask {mask:#010x} waits for lane {lane}, which {other}")]
    WarpDivergence {
        /// The operation.
        operation: String,
        /// Its mask.
        mask: u32,
        /// The missing lane.
        lane: u32,
        /// State of the missing lane.
        other: String,
    },
    /// A lane executes a warp operation whose mask excludes it.
    #[error("lane {lane} executes a warp operation with mask {mask:#010x}, which excludes it")]
    LaneOutsideMask {
        /// The lane.
        lane: u32,
        /// The mask.
        mask: u32,
    },
    /// A shuffle reads from a lane that its mask excludes: the value is undefined.
    #[error("a shuffle with mask {mask:#010x} reads from lane {lane}, which the mask excludes")]
    LaneNotInMask {
        /// The source lane.
        lane: u32,
        /// The mask.
        mask: u32,
    },
    /// An index beyond the end of a buffer.
    #[error("global access out of bounds: {buffer}[{index}], which has {len} elements")]
    GlobalOutOfBounds {
        /// The kernel's parameter.
        buffer: &'static str,
        /// The index.
        index: usize,
        /// The buffer's length.
        len: usize,
    },
    /// An index beyond the end of a shared array.
    #[error("shared access out of bounds: index {index} of an array of {len} elements")]
    SharedOutOfBounds {
        /// The index.
        index: u32,
        /// The array's length.
        len: u32,
    },
    /// A read of shared memory that no thread has written.
    #[error("read of uninitialised shared memory at byte {address}")]
    SharedUninitialised {
        /// Byte address in the block's shared memory.
        address: u32,
    },
    /// Two threads access a byte of shared memory, at least one writes it, and no barrier orders the accesses.
    #[error("shared-memory race at byte {address}: {first} and {second} with no barrier between them")]
    SharedRace {
        /// Byte address in the block's shared memory.
        address: u32,
        /// The first access: "a read", "a write" or "an atomic operation".
        first: &'static str,
        /// The second access.
        second: &'static str,
    },
    /// A block uses more shared memory than any GPU has.
    #[error("a block uses {bytes} bytes of shared memory; no GPU has more than {limit}")]
    SharedExhausted {
        /// Static and dynamic shared memory of the block.
        bytes: usize,
        /// Maximum over all GPUs.
        limit: usize,
    },
    /// The kernel's code panicked, for example by integer overflow, a failed assertion, or an index out of bounds.
    #[error("panic: {message}")]
    Panic {
        /// The panic message.
        message: String,
    },
}

/// The payload that unwinds a faulty thread.
pub(crate) struct Raised {
    pub kind: Kind,
    pub other: Option<u32>,
    pub site: Option<&'static Location<'static>>,
}

/// Ends the launch with a fault of the current thread at the caller's line.
#[track_caller]
#[cold]
pub fn raise(kind: Kind) -> ! {
    raise_at(kind, None, Some(Location::caller()))
}

/// Ends the launch with a fault of the current thread and, if given, the thread `other`.
#[cold]
pub(crate) fn raise_at(kind: Kind, other: Option<u32>, site: Option<&'static Location<'static>>) -> ! {
    // `resume_unwind` does not call the panic hook, which would print. The launch returns the fault as an error.
    resume_unwind(Box::new(Raised { kind, other, site }))
}
