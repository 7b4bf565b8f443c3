//! Faults that the emulator detects. On a GPU they would cause wrong results or a hang.
//!
//! ```
//! # use warpkov_device::device::prelude::*;
//! # use warpkov_device::emulator::fault::*;
//! # use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
//! # use warpkov_device::launch::*;
//! #[kernel]
//! fn write(x: GlobalMut<u32>) {
//!     x.set(thread::thread_idx_x(), 1);
//! }
//!
//! let device = Emulator::default();
//! let mut x = device.zeros(1)?;
//! // SAFETY: the emulator checks every access.
//! let result = unsafe { write(&device, Shape::new(1, 2), &mut x) };
//! let Err(EmulatorError::Fault(fault)) = result else { panic!("a fault is reported") };
//! let place = Place { array: "x", index: 1, shared: false };
//! assert_eq!(fault.kind, Kind::OutOfBounds { place, len: 1 });
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

use std::fmt;
use std::panic::Location;

use super::Schedule;
use super::clock::{Action, Stamp};
use crate::launch::Dim3;

/// A fault, with its kernel, block, threads and source lines.
///
/// Its text also says which [`Schedule`] repeats it, and what may be missing:
///
/// ```text
/// kernel reverse, block (0, 0, 0), threads 0 and 32: race on tile[32] in shared memory: a read, then a write, and nothing orders them
///   thread 0 reads it at kernels.rs:12
///   thread 32 writes it at kernels.rs:14
///   hint: thread 32 writes this after thread 0 has read it: is a barrier missing before line 14?
///   order of threads: Schedule::RoundRobin
/// ```
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::fault::*;
/// # use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn write(x: GlobalMut<u32>) {
///     x.set(thread::thread_idx_x(), 1);
/// }
///
/// let device = Emulator::default();
/// let mut x = device.zeros(1)?;
/// // SAFETY: the emulator checks every access.
/// let result = unsafe { write(&device, Shape::new(1, 2), &mut x) };
/// let Err(EmulatorError::Fault(fault)) = result else { panic!("a fault is reported") };
/// assert_eq!((fault.kernel, &fault.threads), ("write", &Threads::One(1)));
/// assert!(fault.to_string().starts_with("kernel write, block (0, 0, 0), thread 1: out of bounds: x[1]"));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone)]
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
    /// The earlier access of a race.
    pub earlier: Option<Earlier>,
    /// What may be wrong.
    pub hint: Option<String>,
    /// The order of blocks and threads. The same schedule repeats the fault.
    pub schedule: Schedule,
}

impl std::error::Error for Fault {}

/// The report, which `expect` and tests that return an error print by `Debug`.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, block, threads, kind, site, earlier, hint, schedule } = self;
        write!(f, "kernel {kernel}, block {}, {threads}: {kind}", Triple(*block))?;
        if let (Some(earlier), Threads::Two(_, thread)) = (earlier, threads) {
            write!(f, "\n  {earlier}")?;
            let verb = if let Kind::Race { second, .. } = kind { *second } else { "an access" };
            write!(f, "\n  thread {thread} of block {}: {verb}", Triple(*block))?;
        } else if site.is_some() {
            write!(f, "\n  thread {}", threads.last())?;
        }
        if let Some(site) = site {
            write!(f, " at {}:{}", site.file(), site.line())?;
        }
        if let Some(hint) = hint {
            write!(f, "\n  hint: {hint}")?;
        }
        write!(f, "\n  order of threads: Schedule::{schedule:?}")
    }
}

struct Triple(Dim3);

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.0.x, self.0.y, self.0.z)
    }
}

/// The earlier access of a race.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::fault::*;
/// # use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn write(x: GlobalMut<u32>) {
///     x.set(0, thread::thread_idx_x());
/// }
///
/// let device = Emulator::default();
/// let mut x = device.zeros(1)?;
/// // SAFETY: the emulator checks every access.
/// let result = unsafe { write(&device, Shape::new(1, 2), &mut x) };
/// let Err(EmulatorError::Fault(fault)) = result else { panic!("a fault is reported") };
/// let earlier = fault.earlier.as_ref().expect("a race has an earlier access");
/// assert_eq!((earlier.thread, earlier.access), (0, "a write"));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Its kernel: another one if an overlapping launch races with the launch before it.
    pub kernel: &'static str,
    /// Its block.
    pub block: Dim3,
    /// Its thread.
    pub thread: u32,
    /// Its kind: "a read", "a write", "an atomic operation" or "an asynchronous copy".
    pub access: &'static str,
    /// Its source line.
    pub site: Option<&'static Location<'static>>,
}

impl fmt::Display for Earlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} of block {}: {}", self.thread, Triple(self.block), self.access)?;
        if let Some(site) = self.site {
            write!(f, " at {}:{} (kernel {})", site.file(), site.line(), self.kernel)?;
        }
        Ok(())
    }
}

/// One or two threads, by their [`index_in_block`](crate::device::thread::index_in_block).
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::fault::*;
/// # use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn write(x: GlobalMut<u32>) {
///     x.set(0, thread::thread_idx_x());
/// }
///
/// let device = Emulator::default();
/// let mut x = device.zeros(1)?;
/// // SAFETY: the emulator checks every access.
/// let result = unsafe { write(&device, Shape::new(1, 2), &mut x) };
/// let Err(EmulatorError::Fault(fault)) = result else { panic!("a fault is reported") };
/// assert_eq!(fault.threads, Threads::Two(0, 1));
/// assert_eq!(fault.threads.to_string(), "threads 0 and 1");
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One thread.
    One(u32),
    /// Two threads in conflict; in a race, the earlier access first. It may be of another block: see
    /// [`Fault::earlier`].
    Two(u32, u32),
}

impl Threads {
    /// The thread that has raised the fault.
    fn last(&self) -> u32 {
        match *self {
            Self::One(thread) | Self::Two(thread, _) => thread,
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(thread) => write!(f, "thread {thread}"),
            Self::Two(first, second) => write!(f, "threads {first} and {second}"),
        }
    }
}

/// An element of an array in device memory.
///
/// ```
/// use warpkov_device::emulator::fault::Place;
///
/// let place = Place { array: "tile", index: 32, shared: true };
/// assert_eq!(place.to_string(), "tile[32] in shared memory");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The array: a kernel's parameter, such as `values.out`; the name of a `shared_array!`; or
    /// `dynamic_shared_mem`.
    pub array: &'static str,
    /// Index of the element, from the start of the array.
    pub index: usize,
    /// Whether the array is in shared memory.
    pub shared: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] in {} memory", self.array, self.index, if self.shared { "shared" } else { "global" })
    }
}

/// The kinds of fault.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::fault::*;
/// # use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn write(x: GlobalMut<u32>) {
///     x.set(0, thread::thread_idx_x());
/// }
///
/// let device = Emulator::default();
/// let mut x = device.zeros(1)?;
/// // SAFETY: the emulator checks every access.
/// let result = unsafe { write(&device, Shape::new(1, 2), &mut x) };
/// let Err(EmulatorError::Fault(fault)) = result else { panic!("a fault is reported") };
/// let place = Place { array: "x", index: 0, shared: false };
/// assert_eq!(fault.kind, Kind::Race { place, first: "a write", second: "a write" });
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    /// Some threads wait at a barrier that another thread never reaches, because it has returned or waits elsewhere; or
    /// that it reaches in another round of a loop in the kernel's body.
    #[error("barrier divergence: one thread waits at the barrier on line {waiting}, the other {other}")]
    BarrierDivergence {
        /// Line of the barrier.
        waiting: u32,
        /// State of the other thread.
        other: String,
    },
    /// Some blocks wait at a barrier of several blocks, which another one never reaches, because it has ended or waits elsewhere.
    #[error("block divergence: not all blocks of the {of} reach its barrier{}", waits.iter().map(|wait| format!("\n  {wait}")).collect::<String>())]
    BlockDivergence {
        /// The blocks: "grid" or "cluster".
        of: &'static str,
        /// Who waits for what.
        waits: Vec<String>,
    },
    /// An access to the shared memory of another block, which may not exist then.
    #[error("distributed shared memory: {reason}")]
    RemoteShared {
        /// What is wrong.
        reason: String,
    },
    /// A barrier in shared memory that is misused, or whose phase never ends.
    #[error("mbarrier {place}: {reason}")]
    Mbarrier {
        /// The barrier.
        place: Place,
        /// What is wrong.
        reason: String,
    },
    /// A bulk copy that no GPU executes, or that outlives its block.
    #[error("bulk copy: {reason}")]
    Bulk {
        /// What is wrong.
        reason: String,
    },
    /// A product of a warp group that is misused.
    #[error("wgmma: {reason}")]
    Products {
        /// What is wrong.
        reason: String,
    },
    /// An asynchronous copy of memory that ordinary stores have written, without a fence between them.
    #[error("missing proxy fence: ordinary stores have written {place}, which an asynchronous operation accesses")]
    ProxyFence {
        /// The element; in words of 4 bytes.
        place: Place,
    },
    /// A named barrier that too few threads reach, or that cannot be.
    #[error("barrier {barrier} for {threads} threads: {reason}")]
    NamedBarrier {
        /// Its number.
        barrier: u32,
        /// Threads that it is for.
        threads: u32,
        /// What is wrong.
        reason: String,
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
    /// An index beyond the end of an array.
    #[error("out of bounds: {place}, which has {len} elements")]
    OutOfBounds {
        /// The element.
        place: Place,
        /// Length of the array.
        len: usize,
    },
    /// A column beyond the end of a row.
    #[error("column {column} of a row of {array}, which has {length} elements")]
    ColumnOutOfBounds {
        /// The array.
        array: &'static str,
        /// The column.
        column: usize,
        /// Length of the row.
        length: usize,
    },
    /// A vector access to an address that is not a multiple of its size: the GPU ends the program.
    #[error("misaligned: {place}, accessed {bytes} bytes at a time, is not at a multiple of {bytes} bytes")]
    Misaligned {
        /// The first element.
        place: Place,
        /// Size of the access.
        bytes: usize,
    },
    /// A read of memory that nothing has written.
    #[error("read of {place}, which nothing has written")]
    Uninitialised {
        /// The element.
        place: Place,
    },
    /// Two threads access an element, at least one writes it, at least one access is not atomic, and nothing orders
    /// them.
    #[error("race on {place}: {first}, then {second}, and nothing orders them")]
    Race {
        /// The element.
        place: Place,
        /// The earlier access: "a read", "a write", "an atomic operation", …
        first: &'static str,
        /// The later access.
        second: &'static str,
    },
    /// Threads read the same memory again and again, and no thread changes it, or the compiler may read it only once.
    #[error("no thread can continue: {reads} reads changed nothing{}", waits.iter().map(|wait| format!("\n  {wait}")).collect::<String>())]
    Spin {
        /// Reads since the last change of the memory. An atomic operation that may also write counts as 16.
        reads: u64,
        /// Who waits for what.
        waits: Vec<String>,
    },
    /// A thread makes more steps than [`Emulator::step_limit`](super::Emulator::step_limit) allows.
    #[error("{accesses} steps of one thread, such as memory accesses: does its loop end?")]
    StepLimit {
        /// Steps of the thread.
        accesses: u64,
    },
    /// A block uses more shared memory than any GPU has.
    #[error("a block uses {bytes} bytes of shared memory; no GPU has more than {limit}")]
    SharedExhausted {
        /// Static and dynamic shared memory of the block.
        bytes: usize,
        /// Maximum over all GPUs.
        limit: usize,
    },
    /// The shared arrays of a kernel, those of all its branches together, are larger than it may declare.
    #[error("the shared arrays of the kernel have {bytes} bytes; it may declare at most {limit}")]
    StaticSharedExhausted {
        /// Static shared memory declared so far.
        bytes: usize,
        /// Maximum on every GPU.
        limit: usize,
    },
    /// The local variables of a thread need more memory than any GPU has for a thread. Those of the host take more space, so
    /// a thread near the limit may still run on a GPU. Checked at accesses and barriers, and by the end of the stack, twice as
    /// far.
    #[error("a thread has at least {bytes} bytes of local variables; on a GPU it may have at most {limit}")]
    LocalMemoryExhausted {
        /// The thread's stack on the host, or a part of it.
        bytes: usize,
        /// Maximum over all GPUs.
        limit: usize,
    },
    /// A function of the device library that needs blocks of whole warps runs in another block.
    #[error("{function} in a block of {threads} threads, which is not a multiple of 32")]
    PartialWarp {
        /// The function.
        function: &'static str,
        /// Threads of the block.
        threads: u32,
    },
    /// A [`device_assert!`](crate::device_assert) failed.
    #[error("assertion failed: {message}")]
    Assertion {
        /// The message, or the condition.
        message: String,
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
    pub earlier: Option<Stamp>,
    pub site: Option<&'static Location<'static>>,
    pub hint: Option<String>,
}

impl Raised {
    pub fn new(kind: Kind, site: Option<&'static Location<'static>>) -> Self {
        Self { kind, earlier: None, site, hint: None }
    }

    /// A race of an access with an earlier one.
    pub fn race(place: Place, earlier: Stamp, action: Action, site: &'static Location<'static>, hint: String) -> Self {
        let kind = Kind::Race { place, first: earlier.action.describe(), second: action.describe() };
        Self { kind, earlier: Some(earlier), site: Some(site), hint: Some(hint) }
    }

    /// Local variables of at least `bytes` bytes.
    pub fn local_memory(bytes: usize, site: Option<&'static Location<'static>>) -> Self {
        let hint = "is a local array too large, or a recursion too deep?".to_owned();
        let kind = Kind::LocalMemoryExhausted { bytes, limit: super::stack::LOCAL_LIMIT };
        Self { hint: Some(hint), ..Self::new(kind, site) }
    }

    /// Ends the launch with this fault of the current thread.
    #[cold]
    pub fn raise(self) -> ! {
        super::stack::abandon(self, |raised| raised.kind.to_string())
    }
}

/// Ends the launch with a fault of the current thread at the caller's line.
#[track_caller]
#[cold]
pub(crate) fn raise(kind: Kind) -> ! {
    Raised::new(kind, Some(Location::caller())).raise()
}

/// Ends the launch with a fault of the current thread at the caller's line, and a hint.
#[track_caller]
#[cold]
pub(crate) fn raise_with(kind: Kind, hint: String) -> ! {
    Raised { hint: Some(hint), ..Raised::new(kind, Some(Location::caller())) }.raise()
}
