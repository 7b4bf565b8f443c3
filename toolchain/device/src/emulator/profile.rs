//! What profilers of a GPU count, per kernel and source line.
//!
//! The emulator runs lane by lane, so it must find out which accesses a warp would make together: the k-th execution of
//! a source line by each lane, counted from the last barrier or warp operation, forms one *request*. This is what a GPU
//! does if lanes that take different branches meet again at once. A line with two accesses of one kind counts as two.
//!
//! The emulator sees the [operations](Operation) of a thread, not its jumps. It counts a *divergent branch* where lanes
//! that made a request together, or began the kernel together, make different requests next, or end while others
//! continue. This includes branches whose sides meet again, loops of different lengths (once per length), and early
//! returns. It leaves out branches that differ in arithmetic only, and includes those that a compiler turns into
//! predicated instructions or selections.
//!
//! The source has accesses that a compiler merges, moves out of loops or leaves out. `book/counters.md` of the repository
//! compares the counts of ten kernels with those of NVIDIA's profiler.
//!
//! ```
//! # use warpkov_device::device::prelude::*;
//! # use warpkov_device::emulator::{Emulator, profile::*};
//! # use warpkov_device::launch::*;
//! #[kernel]
//! fn scatter(x: GlobalMut<u32>) {
//!     x.set(8 * thread::thread_idx_x() as usize, 1);
//! }
//!
//! let device = Emulator::default().profiled();
//! # let mut x = device.zeros(256)?;
//! // SAFETY: `x` has eight elements per thread.
//! unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
//! let stores = device.profile().kernels["scatter"].total(Operation::Store);
//! assert_eq!((stores.requests, stores.sectors), (1, 32), "a sector for each lane");
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kinds of instruction that the emulator sees.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::{Emulator, profile::*};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn scatter(x: GlobalMut<u32>) {
///     x.set(8 * thread::thread_idx_x() as usize, 1);
/// }
///
/// let device = Emulator::default().profiled();
/// # let mut x = device.zeros(256)?;
/// // SAFETY: `x` has eight elements per thread.
/// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
/// let kernel = &device.profile().kernels["scatter"];
/// assert_eq!(kernel.total(Operation::Store).requests, 1);
/// assert_eq!(kernel.total(Operation::Load).requests, 0);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A read of global memory.
    Load,
    /// A write of global memory.
    Store,
    /// An atomic operation on global memory.
    Atomic,
    /// A read of shared memory.
    SharedLoad,
    /// A write of shared memory.
    SharedStore,
    /// An atomic operation on shared memory.
    SharedAtomic,
    /// A barrier of the block.
    Barrier,
    /// `sync_warp`.
    WarpSync,
    /// A shuffle.
    Shuffle,
    /// A vote.
    Vote,
    /// A reduction by one instruction.
    Reduction,
    /// A product on the tensor core.
    TensorProduct,
    /// A fence.
    Fence,
}

impl Operation {
    fn is_global(self) -> bool {
        matches!(self, Self::Load | Self::Store | Self::Atomic)
    }

    fn is_memory(self) -> bool {
        self.is_global() || self.is_shared()
    }

    fn is_shared(self) -> bool {
        matches!(self, Self::SharedLoad | Self::SharedStore | Self::SharedAtomic)
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Load => "#4477aa",
            Self::Store => "#ee6677",
            Self::Atomic | Self::SharedAtomic => "#aa3377",
            Self::SharedLoad => "#66ccee",
            Self::SharedStore => "#ccbb44",
            Self::Barrier | Self::WarpSync | Self::Fence => "#222222",
            Self::Shuffle | Self::Vote | Self::Reduction => "#228833",
            Self::TensorProduct => "#ee8866",
        }
    }
}

/// An instruction of one lane.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub site: &'static Location<'static>,
    pub operation: Operation,
    /// Barriers and warp operations that the thread has passed.
    pub phase: u32,
    /// Byte address.
    pub address: u64,
    pub bytes: u32,
    /// Whether the thread has not waited for an asynchronous copy that it has started before.
    pub copying: bool,
}

/// Counts of one operation on one source line.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::{Emulator, profile::*};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn scatter(x: GlobalMut<u32>) {
///     x.set(8 * thread::thread_idx_x() as usize, 1);
/// }
///
/// let device = Emulator::default().profiled();
/// # let mut x = device.zeros(256)?;
/// // SAFETY: `x` has eight elements per thread.
/// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
/// let kernel = &device.profile().kernels["scatter"];
/// let Counts { lanes, bytes, sectors, .. } = kernel.total(Operation::Store);
/// assert_eq!((lanes, bytes, sectors), (32, 128, 32));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions of a warp.
    pub requests: u64,
    /// Lanes that took part in them. A warp of 32 threads has 32·`requests` − `lanes` idle lanes.
    pub lanes: u64,
    /// Those of these lanes that had started an asynchronous copy before, and not waited for it yet.
    pub copying: u64,
    /// Requests in which some lanes of the warp did not take part.
    pub partial: u64,
    /// Divergent branches right after these requests, whether or not the lanes meet again.
    pub branches: u64,
    /// Bytes that the lanes asked for.
    pub bytes: u64,
    /// Sectors of 32 bytes of global memory that the requests touch.
    pub sectors: u64,
    /// Passes through the banks of shared memory beyond the least possible for the width of the access.
    pub bank_conflicts: u64,
}

impl Counts {
    /// Sectors per request.
    ///
    /// ```
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::{Emulator, profile::*};
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn scatter(x: GlobalMut<u32>) {
    ///     x.set(8 * thread::thread_idx_x() as usize, 1);
    /// }
    ///
    /// let device = Emulator::default().profiled();
    /// # let mut x = device.zeros(256)?;
    /// // SAFETY: `x` has eight elements per thread.
    /// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
    /// let kernel = &device.profile().kernels["scatter"];
    /// assert_eq!(kernel.total(Operation::Store).sectors_per_request(), 32.0);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn sectors_per_request(&self) -> f64 {
        self.sectors as f64 / self.requests.max(1) as f64
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.copying += other.copying;
        self.partial += other.partial;
        self.branches += other.branches;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.bank_conflicts += other.bank_conflicts;
    }
}

/// The counts of a source line.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::{Emulator, profile::*};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn scatter(x: GlobalMut<u32>) {
///     x.set(8 * thread::thread_idx_x() as usize, 1);
/// }
///
/// let device = Emulator::default().profiled();
/// # let mut x = device.zeros(256)?;
/// // SAFETY: `x` has eight elements per thread.
/// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
/// let kernel = &device.profile().kernels["scatter"];
/// let [Line { operation, counts, .. }] = kernel.lines[..] else { panic!("one line has an access") };
/// assert_eq!((operation, counts.requests), (Operation::Store, 1));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// The operation.
    pub operation: Operation,
    /// What was counted.
    pub counts: Counts,
}

/// The counts of a kernel, over all its launches.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::{Emulator, profile::*};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn scatter(x: GlobalMut<u32>) {
///     x.set(8 * thread::thread_idx_x() as usize, 1);
/// }
///
/// let device = Emulator::default().profiled();
/// # let mut x = device.zeros(256)?;
/// // SAFETY: `x` has eight elements per thread.
/// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
/// let kernel = &device.profile().kernels["scatter"];
/// assert_eq!((kernel.launches, kernel.blocks, kernel.block_threads), (1, 1, 32));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelProfile {
    /// Launches.
    pub launches: u64,
    /// Blocks of all launches.
    pub blocks: u64,
    /// Threads of a block, in the last launch.
    pub block_threads: u32,
    /// Static and dynamic shared memory of a block in bytes, in the last launch.
    pub shared_bytes: u32,
    /// Blocks that access global or shared memory.
    pub busy_blocks: u64,
    /// Warps of these blocks, whether or not they take part.
    pub busy_warps: u64,
    /// Requests to global and shared memory by the block that makes most of them, in one launch.
    pub busiest_block: u64,
    /// Requests to global and shared memory by the warp that makes most of them, in one launch.
    pub busiest_warp: u64,
    /// Source lines in the order of file and line.
    pub lines: Vec<Line>,
    /// Atomic operations of one lane on each address of global memory, in descending order.
    pub atomics_per_address: Vec<u64>,
    /// Divergent branches: those after a request of a line, and those before a warp's first request.
    pub divergent_branches: u64,
    /// Registers of a thread, if [`Profile::with_registers`] knows them.
    pub registers: Option<u32>,
    trace: Vec<Request>,
}

/// Limits of a multiprocessor of compute capability 9.0.
const SM_WARPS: u32 = 64;
const SM_BLOCKS: u32 = 32;
const SM_REGISTERS: u32 = 65_536;
const SM_SHARED: u32 = 228 * 1024;
/// Shared memory that the system reserves for each block.
const RESERVED: u32 = 1024;

impl KernelProfile {
    /// The counts of all lines with this operation.
    ///
    /// ```
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::{Emulator, profile::*};
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn scatter(x: GlobalMut<u32>) {
    ///     x.set(8 * thread::thread_idx_x() as usize, 1);
    /// }
    ///
    /// let device = Emulator::default().profiled();
    /// # let mut x = device.zeros(256)?;
    /// // SAFETY: `x` has eight elements per thread.
    /// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
    /// let kernel = &device.profile().kernels["scatter"];
    /// assert_eq!(kernel.total(Operation::Store).lanes, 32);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn total(&self, operation: Operation) -> Counts {
        let mut total = Counts::default();
        self.lines.iter().filter(|line| line.operation == operation).for_each(|line| total.add(&line.counts));
        total
    }

    /// Occupancy on a GPU of compute capability 9.0: resident warps as a part of the 64 of a multiprocessor. `None` if the
    /// [registers](Self::registers) are not known.
    ///
    /// ```
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::{Emulator, profile::*};
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn scatter(x: GlobalMut<u32>) {
    ///     x.set(8 * thread::thread_idx_x() as usize, 1);
    /// }
    ///
    /// let device = Emulator::default().profiled();
    /// # let mut x = device.zeros(256)?;
    /// // SAFETY: `x` has eight elements per thread.
    /// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
    /// let profile = device.profile().with_registers(|_| Some(32));
    /// // At most 32 blocks of one warp, and 64 warps.
    /// assert_eq!(profile.kernels["scatter"].occupancy(), Some(0.5));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn occupancy(&self) -> Option<f64> {
        let registers = self.registers?;
        let warps = self.block_threads.div_ceil(32).max(1);
        // Registers are given to warps in units of 256.
        let by_registers = SM_REGISTERS / (registers.max(1) * 32).next_multiple_of(256) / warps;
        let by_shared = SM_SHARED / (self.shared_bytes.next_multiple_of(128) + RESERVED);
        let blocks = SM_BLOCKS.min(SM_WARPS / warps).min(by_registers).min(by_shared);
        Some(f64::from(blocks * warps) / f64::from(SM_WARPS))
    }
}

/// What [`Emulator::profile`](super::Emulator::profile) returns: the counts of each kernel.
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::{Emulator, profile::*};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn scatter(x: GlobalMut<u32>) {
///     x.set(8 * thread::thread_idx_x() as usize, 1);
/// }
///
/// let device = Emulator::default().profiled();
/// # let mut x = device.zeros(256)?;
/// // SAFETY: `x` has eight elements per thread.
/// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
/// let profile: Profile = device.profile();
/// assert_eq!(profile.kernels.keys().collect::<Vec<_>>(), [&"scatter"]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The kernels by the name of the entry point, such as `axpy_f32`.
    pub kernels: BTreeMap<&'static str, KernelProfile>,
}

impl Profile {
    /// The same counts with the registers per thread that `registers` returns for a kernel's entry point, for
    /// [occupancies](KernelProfile::occupancy).
    ///
    /// ```
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::{Emulator, profile::*};
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn scatter(x: GlobalMut<u32>) {
    ///     x.set(8 * thread::thread_idx_x() as usize, 1);
    /// }
    ///
    /// let device = Emulator::default().profiled();
    /// # let mut x = device.zeros(256)?;
    /// // SAFETY: `x` has eight elements per thread.
    /// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
    /// let profile = device.profile().with_registers(|entry| (entry == "scatter").then_some(40));
    /// assert_eq!(profile.kernels["scatter"].registers, Some(40));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn with_registers(mut self, registers: impl Fn(&str) -> Option<u32>) -> Self {
        self.kernels.iter_mut().for_each(|(entry, kernel)| kernel.registers = registers(entry));
        self
    }
}

/// Counts the launches of one or several emulators: see [`Emulator::profiled_by`](super::Emulator::profiled_by).
///
/// ```
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::{Emulator, profile::*};
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn fill(x: GlobalMut<u32>) {
///     x.set(thread::thread_idx_x(), 7);
/// }
///
/// let profiler = Profiler::default();
/// for threads in [16, 32] {
///     let device = Emulator::default().profiled_by(&profiler);
/// #     let mut x = device.zeros(32)?;
///     // SAFETY: `x` has one element per thread.
///     unsafe { fill(&device, Shape::new(1, threads), &mut x)? };
/// }
/// assert_eq!(profiler.profile().kernels["fill"].launches, 2);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Default)]
pub struct Profiler(Arc<Mutex<Collector>>);

impl Profiler {
    /// The counts of all launches so far.
    ///
    /// ```
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::{Emulator, profile::*};
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn fill(x: GlobalMut<u32>) {
    ///     x.set(thread::thread_idx_x(), 7);
    /// }
    ///
    /// let profiler = Profiler::default();
    /// for threads in [16, 32] {
    ///     let device = Emulator::default().profiled_by(&profiler);
    /// #     let mut x = device.zeros(32)?;
    ///     // SAFETY: `x` has one element per thread.
    ///     unsafe { fill(&device, Shape::new(1, threads), &mut x)? };
    /// }
    /// assert_eq!(profiler.profile().kernels["fill"].total(Operation::Store).lanes, 48);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.collector().profile()
    }

    pub(crate) fn collector(&self) -> MutexGuard<'_, Collector> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a warp executes together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    site: &'static Location<'static>,
    operation: Operation,
    /// Bytes of a lane.
    bytes: u32,
    /// Lane and address, in the order of the lanes.
    lanes: Vec<(u8, u64)>,
    /// Lanes with asynchronous copies in flight.
    copying: u64,
    /// Whether the lanes make different requests next.
    divides: bool,
}

impl Request {
    fn count(&self, threads: usize) -> Counts {
        Counts {
            requests: 1,
            lanes: self.lanes.len() as u64,
            copying: self.copying,
            partial: u64::from(self.lanes.len() < threads),
            branches: u64::from(self.divides),
            bytes: self.lanes.len() as u64 * u64::from(self.bytes),
            sectors: if self.operation.is_global() { self.sectors() } else { 0 },
            bank_conflicts: if self.operation.is_shared() { self.bank_conflicts() } else { 0 },
        }
    }

    fn sectors(&self) -> u64 {
        let sectors = |&(_, address): &(u8, u64)| address / 32..(address + u64::from(self.bytes)).div_ceil(32);
        let mut touched: Vec<u64> = self.lanes.iter().flat_map(sectors).collect();
        touched.sort_unstable();
        touched.dedup();
        touched.len() as u64
    }

    /// 32 lanes of 4 bytes pass at once; of 8 bytes a half of the warp, of 16 bytes a quarter. In each pass, a bank serves
    /// one word.
    fn bank_conflicts(&self) -> u64 {
        let together = 32 / (self.bytes / 4).max(1);
        let mut passes: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for &(lane, address) in &self.lanes {
            let words = address / 4..(address + u64::from(self.bytes)).div_ceil(4);
            passes.entry(u32::from(lane) / together).or_default().extend(words);
        }
        let conflicts = |mut words: Vec<u64>| {
            words.sort_unstable();
            words.dedup();
            let mut banks = [0; 32];
            words.iter().for_each(|word| banks[(word % 32) as usize] += 1);
            banks.into_iter().max().unwrap_or(1) - 1
        };
        passes.into_values().map(conflicts).sum()
    }
}

/// Requests of a kernel's first warp that the drawing shows.
const TRACED: usize = 192;

/// A hasher of few numbers, faster than that of the standard library.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mixer>>;
type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<Mixer>>;

/// Collects events.
#[derive(Default)]
pub(crate) struct Collector {
    kernels: BTreeMap<&'static str, Collected>,
}

#[derive(Default)]
struct Collected {
    profile: KernelProfile,
    lines: HashMap<(&'static str, u32, Operation), Counts>,
    addresses: HashMap<u64, u64>,
}

impl Collector {
    pub fn launch(&mut self, kernel: &'static str, blocks: u64, block_threads: u32) {
        let profile = &mut self.kernels.entry(kernel).or_default().profile;
        profile.launches += 1;
        profile.blocks += blocks;
        profile.block_threads = block_threads;
    }

    /// Adds the events of a block: those of each thread.
    pub fn block(&mut self, kernel: &'static str, shared_bytes: u32, threads: &[Vec<Event>]) {
        let collected = self.kernels.entry(kernel).or_default();
        collected.profile.shared_bytes = shared_bytes;
        let mut of_block = 0;
        for warp in threads.chunks(32) {
            let (requests, branches) = requests_of(warp);
            collected.profile.divergent_branches += branches;
            let of_warp = requests.iter().filter(|request| request.operation.is_memory()).count() as u64;
            collected.profile.busiest_warp = collected.profile.busiest_warp.max(of_warp);
            of_block += of_warp;
            for request in &requests {
                let key = (request.site.file(), request.site.line(), request.operation);
                collected.lines.entry(key).or_default().add(&request.count(warp.len()));
                if request.operation == Operation::Atomic {
                    for (_, address) in &request.lanes {
                        *collected.addresses.entry(*address).or_default() += 1;
                    }
                }
            }
            if collected.profile.trace.is_empty() {
                collected.profile.trace = requests.into_iter().take(TRACED).collect();
            }
        }
        if of_block > 0 {
            let profile = &mut collected.profile;
            profile.busy_blocks += 1;
            profile.busy_warps += threads.len().div_ceil(32) as u64;
            profile.busiest_block = profile.busiest_block.max(of_block);
        }
    }

    pub fn profile(&self) -> Profile {
        let finished = |collected: &Collected| {
            let line = |(&(file, line, operation), &counts): (&_, &_)| Line { file, line, operation, counts };
            let mut lines: Vec<Line> = collected.lines.iter().map(line).collect();
            lines.sort_unstable_by_key(|line| (line.file, line.line, line.operation));
            let mut atomics_per_address: Vec<u64> = collected.addresses.values().copied().collect();
            atomics_per_address.sort_unstable_by(|a, b| b.cmp(a));
            KernelProfile { lines, atomics_per_address, ..collected.profile.clone() }
        };
        Profile { kernels: self.kernels.iter().map(|(&name, collected)| (name, finished(collected))).collect() }
    }
}

/// The requests of a warp, from the events of its lanes: by phase, then in the order of the first lane that executes them.
/// And the number of divergent branches.
fn requests_of(lanes: &[Vec<Event>]) -> (Vec<Request>, u64) {
    let mut requests: Vec<(u32, usize, Request)> = Vec::new();
    let mut known = HashMap::default();
    // The request that follows each, and the first one, in the first lane. The end of the thread is `None`.
    let mut next: HashMap<Option<usize>, Option<usize>> = HashMap::default();
    let mut divides = HashSet::default();
    let mut follow = |at, then| {
        if *next.entry(at).or_insert(then) != then {
            divides.insert(at);
        }
    };
    for (lane, events) in lanes.iter().enumerate() {
        let mut executions = HashMap::default();
        let mut before = None;
        for (order, event) in events.iter().enumerate() {
            let line = (event.phase, std::ptr::from_ref(event.site) as usize, event.operation);
            let execution: &mut u32 = executions.entry(line).or_default();
            *execution += 1;
            let at = *known.entry((line, *execution)).or_insert_with(|| {
                let Event { site, operation, bytes, .. } = *event;
                requests.push((
                    event.phase,
                    order,
                    Request { site, operation, bytes, lanes: Vec::new(), copying: 0, divides: false },
                ));
                requests.len() - 1
            });
            requests[at].2.lanes.push((lane as u8, event.address));
            requests[at].2.copying += u64::from(event.copying);
            follow(before, Some(at));
            before = Some(at);
        }
        follow(before, None);
    }
    divides.iter().flatten().for_each(|&at| requests[at].2.divides = true);
    requests.sort_by_key(|&(phase, order, _)| (phase, order));
    (requests.into_iter().map(|(_, _, request)| request).collect(), divides.len() as u64)
}

/// Writes to a string. This never fails.
macro_rules! draw {
    ($svg:expr, $($arguments:tt)*) => {
        let _ = writeln!($svg, $($arguments)*);
    };
}

impl Profile {
    /// A drawing (SVG) of each kernel: the lanes of its first warp over time, the banks of shared memory that the lanes of
    /// its worst request use, and the sectors per request of each line beside the fewest possible.
    ///
    /// ```
    /// # use warpkov_device::device::prelude::*;
    /// # use warpkov_device::emulator::{Emulator, profile::*};
    /// # use warpkov_device::launch::*;
    /// #[kernel]
    /// fn scatter(x: GlobalMut<u32>) {
    ///     x.set(8 * thread::thread_idx_x() as usize, 1);
    /// }
    ///
    /// let device = Emulator::default().profiled();
    /// # let mut x = device.zeros(256)?;
    /// // SAFETY: `x` has eight elements per thread.
    /// unsafe { scatter(&device, Shape::new(1, 32), &mut x)? };
    /// assert!(device.profile().svg().starts_with("<svg"));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    #[must_use]
    pub fn svg(&self) -> String {
        const WIDTH: usize = 1000;
        const HEIGHT: usize = 430;
        let mut svg = String::new();
        let height = HEIGHT * self.kernels.len().max(1);
        draw!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
             font-size=\"11\">"
        );
        draw!(svg, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>");
        for (i, (name, kernel)) in self.kernels.iter().enumerate() {
            draw!(svg, "<g transform=\"translate(10, {})\">", HEIGHT * i + 20);
            draw!(
                svg,
                "<text font-size=\"14\">{name}: {} launches, {} blocks of {} threads, {} divergent branches{}</text>",
                kernel.launches,
                kernel.blocks,
                kernel.block_threads,
                kernel.divergent_branches,
                kernel.describe_occupancy()
            );
            kernel.draw_lanes(&mut svg);
            kernel.draw_banks(&mut svg);
            kernel.draw_lines(&mut svg);
            draw!(svg, "</g>");
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A request of a kernel's first warp.
#[doc(hidden)]
pub struct Traced<'a> {
    pub file: &'static str,
    pub line: u32,
    pub operation: Operation,
    /// Bytes of a lane.
    pub bytes: u32,
    /// Lane and address. Buffers begin at multiples of 256 bytes.
    pub lanes: &'a [(u8, u64)],
    pub counts: Counts,
}

impl KernelProfile {
    /// The first requests of the kernel's first warp, for drawings.
    #[doc(hidden)]
    pub fn traced(&self) -> impl Iterator<Item = Traced<'_>> {
        let threads = self.block_threads.min(32) as usize;
        self.trace.iter().map(move |request| Traced {
            file: request.site.file(),
            line: request.site.line(),
            operation: request.operation,
            bytes: request.bytes,
            lanes: &request.lanes,
            counts: request.count(threads),
        })
    }

    fn describe_occupancy(&self) -> String {
        let describe = |(registers, occupancy): (u32, f64)| {
            format!(", {registers} registers: occupancy {:.0} % of an H100 or H200", 100.0 * occupancy)
        };
        self.registers.zip(self.occupancy()).map(describe).unwrap_or_default()
    }

    /// Lanes × time.
    fn draw_lanes(&self, svg: &mut String) {
        draw!(
            svg,
            "<g transform=\"translate(0, 20)\"><text y=\"0\">first warp: lanes (down) × requests (right)</text>"
        );
        for (x, request) in self.trace.iter().enumerate() {
            let (site, colour) = (request.site, request.operation.colour());
            draw!(
                svg,
                "<g fill=\"{colour}\"><title>{:?} at {}:{}</title>",
                request.operation,
                site.file(),
                site.line()
            );
            for &(lane, _) in &request.lanes {
                draw!(svg, "<rect x=\"{}\" y=\"{}\" width=\"4\" height=\"3\"/>", 5 * x, 6 + 4 * usize::from(lane));
            }
            draw!(svg, "</g>");
        }
        draw!(svg, "</g>");
    }

    /// Banks × lanes.
    fn draw_banks(&self, svg: &mut String) {
        let shared = self.trace.iter().filter(|request| request.operation.is_shared());
        let Some(worst) = shared.max_by_key(|request| request.bank_conflicts()) else { return };
        draw!(
            svg,
            "<g transform=\"translate(0, 180)\"><text>line {}: lanes (down) × banks (right), {} conflicts</text>",
            worst.site.line(),
            worst.bank_conflicts()
        );
        for &(lane, address) in &worst.lanes {
            for word in address / 4..(address + u64::from(worst.bytes)).div_ceil(4) {
                let (x, y) = (7 * (word % 32), 6 + 6 * u64::from(lane));
                draw!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"6\" height=\"5\" fill=\"{}\"/>",
                    worst.operation.colour()
                );
            }
        }
        draw!(svg, "</g>");
    }

    /// Coalescing per line.
    fn draw_lines(&self, svg: &mut String) {
        draw!(
            svg,
            "<g transform=\"translate(300, 180)\"><text>sectors per request (grey: the fewest for these bytes)</text>"
        );
        let global = self.lines.iter().filter(|line| line.operation.is_global());
        for (row, Line { line, operation, counts, .. }) in global.take(14).enumerate() {
            let y = 14 + 16 * row;
            let found = counts.sectors_per_request();
            let least = (counts.bytes as f64 / 32.0 / counts.requests.max(1) as f64).max(1.0);
            draw!(svg, "<text y=\"{}\">line {line}, {operation:?}: {found:.2}</text>", y + 10);
            draw!(svg, "<rect x=\"200\" y=\"{y}\" width=\"{:.0}\" height=\"5\" fill=\"#bbbbbb\"/>", 12.0 * least);
            draw!(
                svg,
                "<rect x=\"200\" y=\"{}\" width=\"{:.0}\" height=\"6\" fill=\"{}\"/>",
                y + 5,
                12.0 * found,
                operation.colour()
            );
        }
        draw!(svg, "</g>");
    }
}
