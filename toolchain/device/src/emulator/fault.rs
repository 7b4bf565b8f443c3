//! What the emulator reports: faults that a GPU would let pass, or hang on.

use std::fmt;
use std::panic::{Location, resume_unwind};

use crate::launch::Dim3;

/// A fault, with the place where it happened.
#[derive(Clone, Debug, thiserror::Error)]
#[error("kernel {kernel}, block ({}, {}, {}), {threads}: {kind}{}", block.x, block.y, block.z,
        site.map(|site| format!(" [{}:{}]", site.file(), site.line())).unwrap_or_default())]
pub struct Fault {
    /// The kernel, as declared in the source.
    pub kernel: &'static str,
    /// Index of the block in the grid.
    pub block: Dim3,
    /// The thread or threads concerned, by their index in the block.
    pub threads: Threads,
    /// What happened.
    pub kind: Kind,
    /// The line of source, where it is known.
    pub site: Option<&'static Location<'static>>,
}

/// Threads of a block, by [`index_in_block`](crate::device::thread::index_in_block).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One thread.
    One(u32),
    /// Two threads that conflict: the earlier one first.
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
    /// Some threads wait at a barrier that another will never reach.
    #[error("barrier divergence: one waits at the barrier on line {waiting}, the other {other}")]
    BarrierDivergence {
        /// Line of the barrier.
        waiting: u32,
        /// What the other thread does instead.
        other: String,
    },
    /// A warp operation whose mask names lanes that do not take part.
    #[error("warp divergence: {operation} with mask {mask:#010x} waits for lane {lane}, which {other}")]
    WarpDivergence {
        /// The operation.
        operation: String,
        /// Its mask.
        mask: u32,
        /// The lane that does not come.
        lane: u32,
        /// What that lane does instead.
        other: String,
    },
    /// A lane executes an operation whose mask does not name it.
    #[error("lane {lane} executes a warp operation whose mask {mask:#010x} does not name it")]
    LaneOutsideMask {
        /// The lane.
        lane: u32,
        /// The mask.
        mask: u32,
    },
    /// A shuffle reads a lane that its mask does not name: the value is undefined.
    #[error("a shuffle reads lane {lane}, which its mask {mask:#010x} does not name")]
    LaneNotInMask {
        /// The lane that is read.
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
    /// A read of shared memory that nobody wrote.
    #[error("read of uninitialised shared memory at byte {address}")]
    SharedUninitialised {
        /// Byte address in the block's shared memory.
        address: u32,
    },
    /// Two threads access one cell of shared memory, one of them writing, with nothing to order them.
    #[error("shared-memory race at byte {address}: {first} and {second} with no barrier between them")]
    SharedRace {
        /// Byte address in the block's shared memory.
        address: u32,
        /// What the first thread did.
        first: &'static str,
        /// What the second thread did.
        second: &'static str,
    },
    /// A block asks for more shared memory than a multiprocessor has.
    #[error("{bytes} bytes of shared memory in one block; the largest GPU has {limit}")]
    SharedExhausted {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes there are.
        limit: usize,
    },
    /// The kernel's own code panicked: an overflow, a failed assertion, an index of a local array.
    #[error("panic: {message}")]
    Panic {
        /// Its message.
        message: String,
    },
}

/// A fault on its way out of the thread that caused it.
pub(crate) struct Raised {
    pub kind: Kind,
    pub other: Option<u32>,
    pub site: Option<&'static Location<'static>>,
}

/// Ends the launch with a fault of the current thread, at the caller's line.
#[track_caller]
#[cold]
pub fn raise(kind: Kind) -> ! {
    raise_at(kind, None, Some(Location::caller()))
}

/// Ends the launch with a fault between the current thread and an `other`.
#[cold]
pub(crate) fn raise_at(kind: Kind, other: Option<u32>, site: Option<&'static Location<'static>>) -> ! {
    // Not a panic of its own: the panic hook prints nothing, and the launch returns the fault as an error.
    resume_unwind(Box::new(Raised { kind, other, site }))
}
