//! The emulator: runs kernels on the host, thread by thread, and reports faults that a GPU does not detect.
//!
//! Each CUDA thread runs on the stack of a coroutine until it waits at a barrier or a warp operation. Barriers,
//! shuffles and votes have the semantics of the hardware, including partial masks. The [`Schedule`] chooses the order of
//! blocks and threads. The blocks of a grid run one after another, unless one waits for another or the schedule
//! interleaves them. A detected error ends the launch with a [`Fault`].
//!
//! # Races
//!
//! Two accesses to an element *race* if two threads make them, at least one writes, at least one is not atomic, and
//! neither *happens before* the other. The emulator decides this for every access to shared and global memory, with
//! vector clocks, so it reports a race in whatever order the two accesses run. An access happens before another one of
//! a different thread if one of these is between them:
//!
//! - a barrier, for the threads that reach it: those of a block (`sync_threads`), some of them (`sync_barrier`), those of a
//!   cluster ([`cluster::sync`](crate::device::cluster::sync)) or of the grid ([`GridGroup::sync`](crate::device::GridGroup::sync));
//! - `sync_warp`, for lanes of its mask. A shuffle, a vote or a warp reduction orders no memory accesses;
//! - an atomic operation that releases, or a later one of the same thread on the same element, and one that reads its
//!   value and acquires, if the scope of each includes the other thread. A fence before a relaxed operation makes it
//!   release, a fence after it makes it acquire, if the order of the fence says so, within its scope;
//! - the end of a launch; for an overlapping launch, [`grid::wait`](crate::device::grid::wait).
//!
//! In random and interleaved orders, an atomic load may read the value before the last write, as it may on a GPU, if that
//! write does not happen before the load and no other operation has read it.
//!
//! A bulk copy is ordered as if a block of its own made it: after what the thread knows that starts it, and before what follows the
//! wait of those who have waited for it.
//!
//! An atomic operation at block scope races with one of another block. The data of an asynchronous copy belong to the
//! copy until the thread that has started it waits for it.
//!
//! # Barriers
//!
//! The threads of a block must reach the same barrier, in the same round of each loop around it. The emulator compares the
//! lines of barriers, and the rounds of those loops in the kernel's body that contain a barrier or call a function which may
//! contain one.
//!
//! ```
//! # use warpkov_device::device::atomic::{Ordering, Scope};
//! # use warpkov_device::device::prelude::*;
//! # use warpkov_device::emulator::*;
//! # use warpkov_device::launch::*;
//! /// Each thread reads what its neighbour writes.
//! #[kernel]
//! fn shift(x: GlobalMut<u32>) {
//!     let t = thread::thread_idx_x() as usize;
//!     x.set(t, x.get((t + 1) % 32));
//! }
//!
//! let device = Emulator::default();
//! let mut x = device.zeros(32)?;
//! // SAFETY: `x` has one element per thread.
//! let error = unsafe { shift(&device, Shape::new(1, 32), &mut x) }.unwrap_err();
//! assert!(error.to_string().contains("race on x[1] in global memory: a read, then a write"), "{error}");
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

mod block;
pub(crate) mod bulk;
pub(crate) mod clock;
pub(crate) mod cluster;
mod explore;
pub mod fault;
mod launch;
pub(crate) mod meeting;
pub(crate) mod memory;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod overflow;
mod phase;
pub mod profile;
mod schedule;
mod shadow;
mod shared;
mod sites;
mod stack;
#[doc(hidden)]
pub mod thread;
pub(crate) mod wgmma;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use clock::{Action, Clock};
pub use explore::Explored;
pub use fault::Fault;
pub use memory::{EmulatedBuffer, EmulatedEvent};
pub use schedule::Schedule;

use crate::device::DeviceCopy;
use crate::launch::{Arg, Call, Device, Dim3, Shape, TensorArg, Unmet};
use launch::{Grid, Launch, Previous, RESIDENT_BLOCKS};
use meeting::Meeting;
use memory::{Record, Use};
use profile::{Profile, Profiler};

/// Serial number of the next block or event in this process. Buffers may move from one emulator to another.
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);

/// Returns true to stop. Called before each block, and not again after it has returned true.
type Stop = Box<dyn FnMut() -> bool + Send>;

/// The emulated device. A launch has executed when the call returns.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::Emulator;
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn double(x: GlobalMut<f32>) {
///     let t = thread::thread_idx_x() as usize;
///     x.set(t, 2.0 * x.get(t));
/// }
///
/// let device = Emulator::default();
/// let mut x = device.upload(&[1.0, 2.0])?;
/// // SAFETY: `x` has one element per thread.
/// unsafe { double(&device, Shape::new(1, 2), &mut x)? };
/// assert_eq!(device.to_vec(&x)?, [2.0, 4.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub struct Emulator {
    schedule: Schedule,
    pool: RefCell<block::Pool>,
    stop: RefCell<Option<Stop>>,
    limit: u64,
    /// Bytes of the largest buffer.
    largest: Cell<u64>,
    /// The last operation, if it was a launch: an overlapping launch may begin before it ends.
    previous: Cell<Option<Previous>>,
    /// Within [`Device::beside`]: the blocks of its first part.
    beside: RefCell<Option<Range<u64>>>,
    /// The serial numbers and names of the methods called within it that use buffers.
    methods: RefCell<Vec<(u64, &'static str)>>,
    communicated: Cell<bool>,
    competed: Cell<bool>,
    profiler: Option<Profiler>,
}

impl Default for Emulator {
    fn default() -> Self {
        Self::new(Schedule::default())
    }
}

impl Emulator {
    /// An emulator that runs blocks and threads in the order of `schedule`.
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn last(x: GlobalMut<u32>) {
    ///     atomic::store((x, 0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// let device = Emulator::new(Schedule::Reversed);
    /// # let mut x = device.zeros(1)?;
    /// // SAFETY: `x` has the elements that the kernel writes.
    /// unsafe { last(&device, Shape::new(1, 32), &mut x)? };
    /// assert_eq!(device.to_vec(&x)?, [0], "thread 0 comes last");
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            pool: RefCell::default(),
            stop: RefCell::default(),
            limit: 1 << 27,
            largest: Cell::new(u64::MAX),
            previous: Cell::default(),
            beside: RefCell::default(),
            methods: RefCell::default(),
            communicated: Cell::default(),
            competed: Cell::default(),
            profiler: None,
        }
    }

    /// Refuses buffers of more bytes from now on, as a device without memory does.
    ///
    /// ```
    /// use warpkov_device::emulator::Emulator;
    /// use warpkov_device::launch::Device;
    ///
    /// let device = Emulator::default();
    /// device.limit_buffers(1024);
    /// assert!(device.zeros::<f64>(128).is_ok() && device.zeros::<f64>(129).is_err());
    /// ```
    pub fn limit_buffers(&self, bytes: u64) {
        self.largest.set(bytes);
    }

    /// Fails if a buffer of `len` elements exceeds the limit.
    fn room<T: DeviceCopy>(&self, len: usize) -> Result<(), EmulatorError> {
        let (needed, limit) = (len as u64 * size_of::<T>() as u64, self.largest.get());
        if needed > limit { Err(EmulatorError::OutOfMemory { needed, limit }) } else { Ok(()) }
    }

    /// The same emulator, which counts what profilers count: see [`profile`]. Launches take longer.
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn last(x: GlobalMut<u32>) {
    ///     atomic::store((x, 0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// let device = Emulator::default().profiled();
    /// # let mut x = device.zeros(1)?;
    /// // SAFETY: `x` has the elements that the kernel writes.
    /// unsafe { last(&device, Shape::new(1, 32), &mut x)? };
    /// assert_eq!(device.profile().kernels["last"].launches, 1);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn profiled(self) -> Self {
        self.profiled_by(&Profiler::default())
    }

    /// The same emulator, whose launches `profiler` counts together with those of other emulators.
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn last(x: GlobalMut<u32>) {
    ///     atomic::store((x, 0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// let profiler = profile::Profiler::default();
    /// let device = Emulator::default().profiled_by(&profiler);
    /// # let mut x = device.zeros(1)?;
    /// // SAFETY: `x` has the elements that the kernel writes.
    /// unsafe { last(&device, Shape::new(1, 32), &mut x)? };
    /// assert_eq!(profiler.profile().kernels["last"].launches, 1);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn profiled_by(self, profiler: &Profiler) -> Self {
        Self { profiler: Some(profiler.clone()), ..self }
    }

    /// The counts of all launches so far, if the emulator is [`profiled`](Self::profiled); otherwise no kernels.
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn last(x: GlobalMut<u32>) {
    ///     atomic::store((x, 0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// let device = Emulator::default().profiled();
    /// # let mut x = device.zeros(1)?;
    /// // SAFETY: `x` has the elements that the kernel writes.
    /// unsafe { last(&device, Shape::new(1, 32), &mut x)? };
    /// assert_eq!(device.profile().kernels["last"].total(profile::Operation::Store).lanes, 32);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profiler.as_ref().map(Profiler::profile).unwrap_or_default()
    }

    /// Whether a thread of a launch so far has communicated with another: by a barrier, a warp operation, an atomic
    /// operation or a peek. If none has, and there was no [`Fault`], then every [`Schedule`] gives the same result: no
    /// thread has read what another one of its launch wrote.
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn fill(x: GlobalMut<u32>) {
    ///     x.set(thread::index_1d(), 7);
    /// }
    ///
    /// let device = Emulator::default();
    /// # let mut x = device.zeros(32)?;
    /// // SAFETY: `x` has the elements that the kernel writes.
    /// unsafe { fill(&device, Shape::new(1, 32), &mut x)? };
    /// assert!(!device.communicated(), "every order of threads gives this result");
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn communicated(&self) -> bool {
        self.communicated.get()
    }

    /// Whether a thread of a launch so far has made an atomic operation or a peek. Threads then compete, for example for a
    /// lock or for places in a list, and each [`Schedule`] may have other winners. Barriers and warp operations have the
    /// same result in all of them, if there was no [`Fault`].
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn last(x: GlobalMut<u32>) {
    ///     atomic::store((x, 0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
    /// }
    ///
    /// let device = Emulator::default();
    /// # let mut x = device.zeros(1)?;
    /// // SAFETY: `x` has the elements that the kernel writes.
    /// unsafe { last(&device, Shape::new(1, 32), &mut x)? };
    /// assert!(device.competed(), "another order may give another result");
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn competed(&self) -> bool {
        self.competed.get()
    }

    /// The same emulator with another limit on the work of a launch, by default 2²⁷ = 134 217 728: memory accesses of
    /// one thread, its other steps, and consecutive reads of all threads that change nothing. Beyond it the launch ends with
    /// [`Kind::StepLimit`](fault::Kind::StepLimit) or [`Kind::Spin`](fault::Kind::Spin).
    ///
    /// 16 rounds of a loop in the kernel's body, and a commit or wait of copies are one other step, a fence is 4, a barrier and
    /// a warp operation are 16. Loops in other functions count by what they do.
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn endless(x: GlobalMut<u32>) {
    ///     let mut i = 0;
    ///     while x.get(0) == 0 {
    ///         x.set(1, i);
    ///         i += 1;
    ///     }
    /// }
    ///
    /// let device = Emulator::default().step_limit(1000);
    /// let mut x = device.zeros(2)?;
    /// // SAFETY: `x` has two elements.
    /// let error = unsafe { endless(&device, Shape::new(1, 1), &mut x) }.unwrap_err();
    /// assert!(error.to_string().contains("steps of one thread"), "{error}");
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn step_limit(self, steps: u64) -> Self {
        Self { limit: steps, ..self }
    }

    /// The same emulator, which calls `stop` before each block. When `stop` first returns true, the current launch ends
    /// with [`EmulatorError::Stopped`] after some of its writes.
    ///
    /// `stop` is not called again, so later launches run to completion. A program can thus still compute and read its
    /// results.
    ///
    /// ```
    /// # use warpkov_device::device::atomic::{Ordering, Scope};
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::*;
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn fill(x: GlobalMut<u32>) {
    ///     x.set(thread::index_1d(), 7);
    /// }
    ///
    /// let mut blocks = 0;
    /// let device = Emulator::default().until(move || {
    ///     blocks += 1;
    ///     blocks > 2
    /// });
    /// let mut x = device.zeros(4)?;
    /// // SAFETY: `x` has one element per thread.
    /// let result = unsafe { fill(&device, Shape::new(4, 1), &mut x) };
    /// assert!(matches!(result, Err(EmulatorError::Stopped { kernel: "fill" })));
    /// assert_eq!(device.to_vec(&x)?, [7, 7, 0, 0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn until(self, stop: impl FnMut() -> bool + Send + 'static) -> Self {
        Self { stop: RefCell::new(Some(Box::new(stop))), ..self }
    }

    /// Calls `stop`, and removes it if it returns true.
    fn stopped(&self) -> bool {
        let mut stop = self.stop.borrow_mut();
        let stopped = stop.as_mut().is_some_and(|stop| stop());
        stop.take_if(|_| stopped).is_some()
    }

    /// Notes that a method of the device reads or writes the first `count` elements of a buffer. Within [`Device::beside`],
    /// returns an error if the other part uses them, too.
    #[track_caller]
    fn touch(&self, record: &Record, count: usize, action: Action, method: &'static str) -> Result<(), EmulatorError> {
        self.previous.take();
        let beside = self.beside.borrow().clone();
        let number = NEXT_BLOCK.fetch_add(u64::from(beside.is_some()), Ordering::Relaxed);
        if action.writes() {
            record.use_by(Use { number, by: method });
        }
        let Some(beside) = beside else { return Ok(()) };
        let mut clock = Clock::new(0);
        clock.begin(number, number, Some(&beside));
        let site = Location::caller();
        let mut methods = self.methods.borrow_mut();
        let mut shadow = record.shadow.borrow_mut();
        for element in 0..count {
            if let Err(earlier) = shadow.touch(element, action, &clock, site) {
                let by = methods.iter().find(|(number, _)| *number == earlier.block);
                let by = by.map(|(_, method)| format!("`{method}`")).unwrap_or_else(|| {
                    let place =
                        earlier.site.map_or(String::new(), |site| format!(" at {}:{}", site.file(), site.line()));
                    format!("a kernel{place}")
                });
                let (writes, by_writes) = (action.writes(), earlier.action.writes());
                return Err(EmulatorError::Beside { method, writes, by, by_writes, element });
            }
        }
        methods.push((number, method));
        Ok(())
    }

    /// In the first part of [`Device::beside`], notes that its operations so far have executed before the other part is
    /// submitted, as the host has waited for them. Returns whether this is the first part.
    fn settle_side(&self) -> bool {
        self.previous.take();
        match &mut *self.beside.borrow_mut() {
            Some(side) if side.is_empty() => {
                let next = NEXT_BLOCK.load(Ordering::Relaxed);
                *side = next..next;
                true
            }
            _ => false,
        }
    }

    fn run(&self, call: Call<'_>, thread: &dyn Fn()) -> Result<(), EmulatorError> {
        let refuse = |reason| Err(EmulatorError::Shape { kernel: call.kernel, reason });
        let (mut grid, threads) = (call.shape.grid, call.shape.block.count());
        if call.shape.resident {
            grid.x = grid.x.min(RESIDENT_BLOCKS);
        }
        let call = Call { shape: Shape { grid, ..call.shape }, ..call };
        if call.is_cooperative() {
            Unmet::unless_resident(call.kernel, grid.count(), RESIDENT_BLOCKS.into())?;
        }
        if threads == 0 || threads > 1024 {
            return refuse(format!("its block has {threads} threads; 1 to 1024 are possible"));
        }
        if grid.count() == 0 || grid.x > i32::MAX as u32 || grid.y > 65_535 || grid.z > 65_535 {
            let Dim3 { x, y, z } = grid;
            return refuse(format!("its grid is {x} × {y} × {z}; 1 to 2147483647 × 65535 × 65535 blocks are possible"));
        }
        let Ok(blocks) = u32::try_from(grid.count()) else {
            return refuse(format!("its grid has {} blocks; the emulator runs at most {}", grid.count(), u32::MAX));
        };
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        overflow::catch();
        let previous = self.previous.take().filter(|_| call.shape.overlapping);
        let first = NEXT_BLOCK.fetch_add(blocks.into(), Ordering::Relaxed);
        let launch = Launch {
            kernel: call.kernel,
            grid,
            schedule: self.schedule,
            first,
            settled: previous.map_or(first, |previous| previous.settled),
            previous,
            beside: self.beside.borrow().clone(),
            limit: self.limit,
            idle: Cell::new(0),
            early: Cell::new(false),
            communicated: Cell::new(false),
            competed: Cell::new(false),
            profiled: self.profiler.is_some(),
            methods: self.methods.borrow().clone(),
            copy_sites: RefCell::default(),
            declared: RefCell::default(),
            sequence: RefCell::default(),
            spin_sites: RefCell::default(),
            yields: Cell::new(false),
            yielded: Cell::new(false),
            random: Cell::new(self.schedule.seed()),
            meeting: Meeting::new("grid", blocks),
            clusters: RefCell::default(),
            copies: RefCell::default(),
        };
        if let Some(profiler) = &self.profiler {
            profiler.collector().launch(call.entry, grid.count(), threads as u32);
        }
        let grid_of_blocks = Grid { launch: &launch, profiler: self.profiler.as_ref(), call: &call, body: thread };
        let ended = grid_of_blocks.run(&mut self.pool.borrow_mut(), || self.stopped());
        self.communicated.set(self.communicated.get() || launch.communicated.get());
        self.competed.set(self.competed.get() || launch.competed.get());
        ended?;
        // The next launch begins after every block of this one has called `launch_dependents`. If that was after its
        // `wait`, all launches before this one have ended.
        let settled = if launch.early.get() { launch.settled } else { first };
        self.previous.set(Some(Previous { kernel: call.kernel, grid, first, settled }));
        Ok(())
    }
}

/// An error of a launch on the emulator.
///
/// ```
/// use warpkov_device::emulator::{Emulator, EmulatorError};
/// use warpkov_device::launch::Device;
///
/// let device = Emulator::default();
/// device.limit_buffers(16);
/// let Err(error) = device.zeros::<f64>(3) else { panic!("three numbers have 24 bytes") };
/// assert!(matches!(error, EmulatorError::OutOfMemory { needed: 24, limit: 16 }));
/// assert_eq!(error.to_string(), "a buffer needs 24 bytes, and the emulator is limited to 16");
/// ```
#[derive(thiserror::Error)]
pub enum EmulatorError {
    /// The kernel has a fault.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// The launch does not meet the kernel's contract.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// No GPU accepts the shape of the launch, or it has too many blocks to emulate.
    #[error("kernel {kernel} cannot be launched: {reason}")]
    Shape {
        /// The kernel.
        kernel: &'static str,
        /// The violated limit.
        reason: String,
    },
    /// A buffer exceeds [`Emulator::limit_buffers`].
    #[error("a buffer needs {needed} bytes, and the emulator is limited to {limit}")]
    OutOfMemory {
        /// Bytes of the buffer.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The condition of [`Emulator::until`] has stopped the launch.
    #[error("kernel {kernel}: stopped before its last block")]
    Stopped {
        /// The kernel.
        kernel: &'static str,
    },
    /// A method of the device, such as `clear`, uses a buffer that the other part of [`Device::beside`] uses, too, and one of
    /// them writes.
    #[error(
        "`{method}` {} a buffer of which {by} {} element {element}, in the other part of `beside`: nothing orders them",
        if *writes { "writes" } else { "reads" },
        if *by_writes { "writes" } else { "reads" },
    )]
    Beside {
        /// The method.
        method: &'static str,
        /// Whether it writes.
        writes: bool,
        /// A kernel, or the method of the other part.
        by: String,
        /// Whether that writes.
        by_writes: bool,
        /// The element.
        element: usize,
    },
    /// A copy of [`Device::stage`] overlaps with an operation on its target: on a GPU it may come before it.
    #[error(
        "`stage` copies to a buffer that `{by}` uses, submitted after the event: nothing makes the copy wait for it. Is \
         the event recorded too early?"
    )]
    Staged {
        /// The last kernel that uses the buffer, or the method of the device.
        by: &'static str,
    },
}

/// The report, which `expect` and tests that return an error print by `Debug`.
impl fmt::Debug for EmulatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Device for Emulator {
    type Error = EmulatorError;
    type Buffer<T: DeviceCopy> = EmulatedBuffer<T>;
    type Pinned<T: DeviceCopy> = Vec<T>;
    type Event = EmulatedEvent;
    type Graph = Infallible;

    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<EmulatedBuffer<T>, EmulatorError> {
        self.room::<T>(len)?;
        self.previous.take();
        Ok(EmulatedBuffer::new((0..len).map(|_| T::zeroed())))
    }

    /// The emulator reports reads of elements that nothing has written.
    fn uninitialised<T: DeviceCopy>(&self, len: usize) -> Result<EmulatedBuffer<T>, EmulatorError> {
        self.room::<T>(len)?;
        Ok(EmulatedBuffer::uninitialised(len))
    }

    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<EmulatedBuffer<T>, EmulatorError> {
        self.room::<T>(source.len())?;
        self.previous.take();
        Ok(EmulatedBuffer::new(source.iter().copied()))
    }

    #[track_caller]
    fn write<T: DeviceCopy>(&self, target: &mut EmulatedBuffer<T>, source: &[T]) -> Result<(), EmulatorError> {
        use crate::launch::Buffer;
        let len = target.len();
        assert!(source.len() <= len, "{} elements written to a buffer of {len}", source.len());
        self.touch(target.record(), source.len(), Action::Write, "write")?;
        target.fill(source.iter().copied());
        Ok(())
    }

    #[track_caller]
    fn clear<T: DeviceCopy>(&self, buffer: &mut EmulatedBuffer<T>) -> Result<(), EmulatorError> {
        use crate::launch::Buffer;
        self.touch(buffer.record(), buffer.len(), Action::Write, "clear")?;
        buffer.fill(std::iter::repeat(T::zeroed()));
        Ok(())
    }

    #[track_caller]
    fn download<T: DeviceCopy>(&self, buffer: &EmulatedBuffer<T>, target: &mut [T]) -> Result<(), EmulatorError> {
        if !self.settle_side() {
            self.touch(buffer.record(), target.len(), Action::Read, "download")?;
        }
        buffer.read(target);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), EmulatorError> {
        self.previous.take();
        self.settle_side();
        Ok(())
    }

    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<Vec<T>, EmulatorError> {
        Ok(source)
    }

    fn record_event(&self) -> Result<EmulatedEvent, EmulatorError> {
        Ok(EmulatedEvent(NEXT_BLOCK.fetch_add(1, Ordering::Relaxed)))
    }

    /// Executes the copy at once. Returns an error if `target` was used since `after`.
    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &Vec<T>,
        range: Range<usize>,
        target: &mut EmulatedBuffer<T>,
        after: &EmulatedEvent,
    ) -> Result<(), EmulatorError> {
        self.previous.take();
        if let Some(by) = target.record().used_since(after) {
            return Err(EmulatorError::Staged { by });
        }
        let source = &source[range];
        assert!(source.len() <= crate::launch::Buffer::len(target), "elements");
        target.fill(source.iter().copied());
        Ok(())
    }

    /// Executes `side`, then `main`. Accesses of a kernel of one that race with those of the other are faults. So are
    /// those of `clear` and `write`, and of `download` in `main`. A `download` or `synchronize` in `side` waits for all before
    /// it, so that `main` follows that. Reads before [`grid::wait`](crate::device::grid::wait) are not checked.
    unsafe fn beside<C>(
        &self,
        context: &mut C,
        side: impl FnOnce(&mut C) -> Result<(), EmulatorError>,
        main: impl FnOnce(&mut C) -> Result<(), EmulatorError>,
    ) -> Result<(), EmulatorError> {
        self.previous.take();
        let first = NEXT_BLOCK.load(Ordering::Relaxed);
        // Kernels of `side` record all their accesses, and forget none since `first`.
        self.beside.replace(Some(first..first));
        let mut result = side(context);
        if result.is_ok() {
            self.previous.take();
            let first = self.beside.borrow().as_ref().map_or(first, |side| side.start);
            self.beside.replace(Some(first..NEXT_BLOCK.load(Ordering::Relaxed)));
            result = main(context);
        }
        self.beside.take();
        self.methods.take();
        self.previous.take();
        result
    }

    /// Always `None`: the emulator executes every launch at once.
    fn capture(&self, _: impl FnOnce() -> Result<(), EmulatorError>) -> Result<Option<Infallible>, EmulatorError> {
        Ok(None)
    }

    unsafe fn launch_graph(&self, graph: &Infallible) -> Result<(), EmulatorError> {
        match *graph {}
    }

    unsafe fn launch(&self, call: Call<'_>) -> Result<(), EmulatorError> {
        let (thread, args) = (call.thread, call.args);
        let operation = Use { number: NEXT_BLOCK.load(Ordering::Relaxed), by: call.kernel };
        for arg in args {
            if let &Arg::Buffer { address, .. } | &Arg::Tensor(TensorArg { address, .. }) = arg {
                // SAFETY: the caller promises that it is a buffer of the emulator, whose address is that of its record.
                unsafe { &*std::ptr::with_exposed_provenance::<Record>(address as usize) }.use_by(operation);
            }
        }
        // SAFETY: the caller promises that the arguments belong to this instance, and that their buffers are the
        // emulator's, which are in host memory. They are borrowed until the launch returns.
        self.run(call, &|| unsafe { thread(args) })
    }
}
