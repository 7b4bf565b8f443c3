//! The emulated CUDA thread, as the device library uses it.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::bulk::{Proxy, Stores};
use super::clock::{Action, Clock, Knowledge, Stamp};
use super::cluster::Cluster;
use super::fault::{Kind, Place, Raised};
use super::launch::Launch;
use super::meeting::Meeting;
use super::memory::Record;
use super::profile::{Event, Operation};
use super::shared::{SharedMemory, words};
use super::stack::{Bounds, LOCAL_LIMIT, Yielder};
use super::wgmma::Products;
use crate::device::DeviceCopy;
use crate::device::atomic::{Ordering, Scope};
use crate::launch::{Dim3, Shape};

/// The warp operations. All lanes of a mask must execute the same one.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpOp {
    Sync,
    Shuffle,
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    VoteAll,
    VoteAny,
    VoteUniform,
    Ballot,
    MatchAny,
    ReduceAdd,
    ReduceMax,
    ReduceMin,
    ReduceMaxSigned,
    ReduceMinSigned,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
    Mma,
}

impl WarpOp {
    #[inline]
    fn operation(self) -> Operation {
        match self {
            Self::Sync => Operation::WarpSync,
            Self::Shuffle | Self::ShuffleUp | Self::ShuffleDown | Self::ShuffleXor => Operation::Shuffle,
            Self::VoteAll | Self::VoteAny | Self::VoteUniform | Self::Ballot | Self::MatchAny => Operation::Vote,
            Self::Mma => Operation::TensorProduct,
            _ => Operation::Reduction,
        }
    }
}

/// Accesses in a row that change nothing, after which a thread lets others run: it may wait for them.
const PATIENCE: u32 = 256;

/// Reads that take as long as an atomic operation which reads and writes.
const UPDATE_READS: u32 = 16;

/// Accesses of read-only memory between two counts of them.
const UNCOUNTED: u32 = 1 << 16;

/// Steps of a barrier or a warp operation, and of a fence: they take as long as several accesses.
const WAIT_STEPS: u64 = 16;
const FENCE_STEPS: u64 = 4;

/// Rounds of a loop between two counts of them, and rounds that are one step.
const UNCOUNTED_ROUNDS: u32 = 1 << 10;
const ROUNDS_PER_STEP: u32 = 16;

/// The point at which a thread waits.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    Barrier {
        site: &'static Location<'static>,
    },
    Named {
        site: &'static Location<'static>,
        barrier: u32,
    },
    /// Waits for other blocks, in a round of their barrier.
    Meeting {
        site: &'static Location<'static>,
        meeting: *const Meeting,
        round: u32,
    },
    /// Waits for the phase of a barrier in shared memory.
    Phase {
        site: &'static Location<'static>,
        address: u32,
        /// From 1.
        phase: u32,
    },
    Warp {
        site: &'static Location<'static>,
        op: WarpOp,
        mask: u32,
        value: u64,
        reply: Reply,
    },
    /// Reads an element without a value, which another thread may be about to write: that is a race.
    Unwritten,
    /// Reads and changes nothing.
    Spin {
        site: &'static Location<'static>,
        target: Target,
        /// Whether the access is not atomic.
        plain: bool,
    },
    /// Lets other threads run.
    Preempted,
}

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Has not begun.
    Fresh,
    /// May continue.
    Ready,
    /// May continue, but might only read again what it has read before.
    Spinning,
    /// Waits for a value.
    Unwritten,
    /// Waits at a barrier.
    Barrier,
    /// Waits at a named barrier.
    Named,
    /// Waits at a warp operation.
    Warp,
    /// Waits for other blocks.
    Meeting,
    /// Waits for the phase of a barrier in shared memory.
    Phase,
    Ended,
}

impl State {
    #[inline]
    pub fn is_able(self) -> bool {
        matches!(self, Self::Fresh | Self::Ready | Self::Spinning)
    }
}

impl Wait {
    #[inline(always)]
    fn state(&self) -> State {
        match self {
            Self::Barrier { .. } => State::Barrier,
            Self::Named { .. } => State::Named,
            Self::Warp { .. } => State::Warp,
            Self::Meeting { .. } => State::Meeting,
            Self::Phase { .. } => State::Phase,
            Self::Unwritten => State::Unwritten,
            Self::Spin { .. } => State::Spinning,
            Self::Preempted => State::Ready,
        }
    }
}

/// What a thread wants from an exchange of values.
#[derive(Clone, Copy)]
pub(crate) enum Reply {
    /// Those of all lanes.
    All,
    /// That of one lane.
    Lane(u32),
    /// The lanes whose value is not 0, one bit each.
    Ballot,
}

/// An element that a thread reads, perhaps again and again.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Target {
    Global { record: *const Record, name: &'static str, element: usize },
    Shared { block: *const Block, address: u32, size: u32 },
}

/// The rounds of a loop of the kernel's body, which are steps of the thread. `#[kernel]` makes one for each loop without a
/// [`Loop`].
#[doc(hidden)]
#[derive(Default)]
pub struct Rounds(u32);

impl Rounds {
    /// Begins the next round, which counts as `weight` rounds.
    #[track_caller]
    #[inline(always)]
    pub fn begin_round(&mut self, weight: u32) {
        self.0 += weight;
        if self.0 >= UNCOUNTED_ROUNDS {
            self.0 = 0;
            count_rounds();
        }
    }
}

/// A loop of the kernel's body that does nothing but to evaluate its condition: it waits for another thread.
#[doc(hidden)]
pub struct Waiting(bool);

impl Waiting {
    /// Begins the loop.
    #[must_use]
    pub fn enter() -> Self {
        Self(current().waiting.replace(true))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(thread) = running() {
            thread.waiting.set(self.0);
        }
    }
}

#[track_caller]
#[cold]
fn count_rounds() {
    current().count_work((UNCOUNTED_ROUNDS / ROUNDS_PER_STEP).into(), Location::caller());
}

/// A loop that a thread executes. Threads must reach a barrier in the same round of each loop around it. `#[kernel]`
/// makes one for each loop that may contain a barrier.
#[doc(hidden)]
pub struct Loop {
    rounds: Cell<u32>,
    /// What the thread has around it.
    round: u64,
    innermost: Option<(&'static Location<'static>, u64)>,
}

impl Loop {
    /// Begins the loop at the caller's line.
    #[must_use]
    #[track_caller]
    #[inline]
    pub fn enter() -> Self {
        let thread = current();
        let (round, innermost, site) = (thread.round.get(), thread.innermost.get(), Location::caller());
        // Rounds of different loops, and of one loop in different rounds of another, get different numbers.
        let start = round.wrapping_add(u64::from(site.line()) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        thread.round.set(start);
        thread.innermost.set(Some((site, start)));
        Self { rounds: Cell::new(0), round, innermost }
    }

    /// Begins the next round, which counts as `weight` rounds.
    #[track_caller]
    #[inline(always)]
    pub fn begin_round(&self, weight: u32) {
        let thread = current();
        thread.round.set(thread.round.get().wrapping_add(1));
        self.rounds.set(self.rounds.get() + weight);
        if self.rounds.get() >= UNCOUNTED_ROUNDS {
            self.rounds.set(0);
            count_rounds();
        }
    }
}

impl Drop for Loop {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(thread) = running() {
            thread.round.set(self.round);
            thread.innermost.set(self.innermost);
        }
    }
}

/// A peek. A compiler may use its value for the next peeks of the element, if the thread does nothing between that others
/// can see, apart from reads: a loop then never learns of a change.
#[derive(Clone, Copy)]
struct Peeked {
    record: *const Record,
    element: usize,
    value: [u8; Self::BYTES],
}

impl Peeked {
    /// The largest element.
    const BYTES: usize = 8;
    /// Elements whose values are kept.
    const RECENT: usize = 8;
}

/// The element that a thread has read most often of late, by a majority vote.
#[derive(Clone, Copy)]
struct Polled {
    site: &'static Location<'static>,
    target: Target,
    votes: u64,
}

/// A block: state that its threads share.
pub struct Block {
    /// Index in the grid.
    pub index: Dim3,
    /// Shape of the launch.
    pub shape: Shape,
    pub(crate) shared: RefCell<SharedMemory>,
    pub(crate) launch: *const Launch,
    /// Its cluster, if the launch has clusters.
    pub(crate) cluster: Option<*const Cluster>,
    pub(crate) proxy: RefCell<Proxy>,
    /// Threads that wait for phases of barriers.
    pub(crate) waiting_for_phases: Cell<u32>,
    /// Serial number, unique in the process.
    pub(super) serial: u64,
    pub(crate) barrier: Barrier,
    pub(crate) named: RefCell<[NamedBarrier; 16]>,
    /// The threads that a named barrier has let go since the last round.
    pub(crate) released: RefCell<Vec<u32>>,
    /// For each warp.
    pub(crate) exchanges: Vec<Exchange>,
    /// The order of the threads.
    pub(crate) order: Vec<u32>,
    /// The threads: as many as the shape has.
    pub(crate) threads: *const Thread,
    /// The thread that runs in a coroutine which has not waited yet, and its position in the order.
    pub(crate) current: Cell<u32>,
    pub(crate) position: Cell<usize>,
    /// The end of the positions of threads that the coroutine may run.
    end: Cell<usize>,
    /// The stack of the coroutine that has continued last.
    pub(crate) stack: Cell<Option<Bounds>>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            index: Dim3 { x: 0, y: 0, z: 0 },
            shape: Shape::new(1, 1),
            shared: RefCell::default(),
            launch: ptr::null(),
            cluster: None,
            proxy: RefCell::default(),
            waiting_for_phases: Cell::new(0),
            serial: 0,
            barrier: Barrier::default(),
            named: RefCell::default(),
            released: RefCell::default(),
            exchanges: Vec::new(),
            order: Vec::new(),
            threads: ptr::null(),
            current: Cell::new(0),
            position: Cell::new(0),
            end: Cell::new(0),
            stack: Cell::new(None),
        }
    }
}

impl Block {
    /// Makes this the block of index `index` and serial number `serial`. `stream` selects the order of its threads.
    pub(crate) fn reset(&mut self, launch: &Launch, index: Dim3, serial: u64, shape: Shape, stream: u64) {
        self.index = index;
        self.shape = shape;
        self.shared.get_mut().reset(shape.shared_bytes);
        self.launch = launch;
        self.proxy.get_mut().reset();
        self.waiting_for_phases.set(0);
        self.serial = serial;
        self.barrier = Barrier::default();
        self.named.get_mut().iter_mut().for_each(|named| *named = NamedBarrier::default());
        self.exchanges.resize_with(shape.block.count().div_ceil(32) as usize, Exchange::new);
        launch.schedule.fill(&mut self.order, shape.block.count() as u32, stream);
    }

    pub(crate) fn launch(&self) -> &Launch {
        // SAFETY: the launch outlives its blocks: `Grid` drops them first.
        unsafe { &*self.launch }
    }

    /// Its cluster, if the launch has clusters.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        // SAFETY: `Grid` drops a cluster after its blocks.
        self.cluster.map(|cluster| unsafe { &*cluster })
    }

    /// Whether the block of a serial number is this one, or one of its cluster.
    pub(crate) fn shares_with(&self, serial: u64) -> bool {
        let blocks = self.cluster().map_or(1, |cluster| cluster.meeting.blocks);
        let first = self.serial - u64::from(self.rank());
        (first..first + u64::from(blocks)).contains(&serial)
    }

    /// Linear index in the grid.
    pub(crate) fn linear(&self) -> u32 {
        (self.serial - self.launch().first) as u32
    }

    /// Rank in the cluster.
    pub(crate) fn rank(&self) -> u32 {
        self.cluster().map_or(0, |cluster| self.index.x % cluster.meeting.blocks)
    }

    /// "block (1, 0, 0)".
    pub(crate) fn name(&self) -> String {
        let Dim3 { x, y, z } = self.index;
        format!("block ({x}, {y}, {z})")
    }

    /// Chooses the threads that the next coroutine runs: `id`, then those at further `positions` of the order. The first
    /// of the positions is that of `id`.
    pub(crate) fn schedule(&self, id: u32, positions: Range<usize>) {
        self.current.set(id);
        self.position.set(positions.start);
        self.end.set(positions.end);
    }

    #[inline]
    pub(crate) fn current_thread(&self) -> &Thread {
        // SAFETY: `Runner` owns the threads, which do not move while it runs, and `current` is less than their number.
        unsafe { &*self.threads.add(self.current.get() as usize) }
    }

    /// Goes on to the next thread that the coroutine runs. Returns false if there is none.
    #[inline]
    pub(crate) fn next_thread(&self) -> bool {
        let next = self.position.get() + 1;
        if next >= self.end.get() {
            return false;
        }
        self.position.set(next);
        self.current.set(self.order[next]);
        true
    }
}

/// The barrier of a block.
#[derive(Default)]
pub(crate) struct Barrier {
    /// Threads that wait at it.
    arrived: Cell<usize>,
    /// Where the first of them waits.
    site: Cell<Option<&'static Location<'static>>>,
    /// Its [`Thread::round`].
    round: Cell<u64>,
    /// Whether another one waits elsewhere, or in another round.
    differs: Cell<bool>,
    arriving: RefCell<Passage>,
    /// What threads get that continue: some may arrive again before others have continued.
    complete: RefCell<Passage>,
}

#[derive(Default)]
struct Passage {
    /// Threads with a true predicate.
    count: u32,
    /// The largest time of the threads that wait. When the barrier is complete, the time that begins.
    time: u32,
    /// What the threads have acquired together.
    acquired: Option<Arc<Knowledge>>,
}

impl Barrier {
    #[inline]
    pub fn arrive(&self, site: &'static Location<'static>, round: u64, predicate: bool, clock: &Clock) {
        if self.arrived.get() == 0 {
            self.site.set(Some(site));
            self.round.set(round);
        }
        self.arrived.set(self.arrived.get() + 1);
        let same = self.site.get().is_some_and(|first| ptr::eq(first, site) || first == site);
        self.differs.set(self.differs.get() || !same || self.round.get() != round);
        let arriving = &mut *self.arriving.borrow_mut();
        arriving.count += u32::from(predicate);
        arriving.time = arriving.time.max(clock.time);
        join(&mut arriving.acquired, clock);
    }

    /// Completes it if all `threads` threads wait, at the same site in the same round. Returns whether they do.
    #[inline]
    pub fn release(&self, threads: usize) -> bool {
        if self.arrived.get() < threads || self.differs.get() {
            return false;
        }
        let Passage { count, time, acquired } = self.arriving.take();
        self.complete.replace(Passage { count, time: time + 1, acquired });
        self.arrived.set(0);
        true
    }

    /// The effect on the clock of a thread that continues. Returns the number of threads with a true predicate.
    #[inline]
    pub fn leave(&self, clock: &mut Clock) -> u32 {
        let complete = self.complete.borrow();
        clock.floor = complete.time;
        clock.advance(complete.time);
        if complete.acquired.is_some() || clock.acquired.is_some() {
            clock.acquired.clone_from(&complete.acquired);
        }
        complete.count
    }
}

/// A barrier for some threads of a block.
#[derive(Default)]
pub(crate) struct NamedBarrier {
    /// Threads that it waits for, and those of the warps that have arrived in this round.
    pub threads: u32,
    pub arrived: u32,
    /// Threads of warps of which some lanes have not arrived, whether they wait, and what they have published.
    arriving: Vec<(u32, bool, Arc<Knowledge>)>,
    /// Those of the warps that have arrived.
    waiting: Vec<u32>,
    known: Knowledge,
}

/// The operations of one warp in which all 32 lanes take part. Those of other masks take another way.
pub(crate) struct Exchange {
    op: Cell<WarpOp>,
    /// The lanes that wait at `op`, one bit each.
    arrived: Cell<u32>,
    /// Whether a lane waits at another operation.
    differs: Cell<bool>,
    /// Whether the number of complete operations is odd.
    odd: Cell<bool>,
    /// What the lanes pass, to even and to odd operations: some lanes may arrive again before others have continued, but
    /// not twice.
    passed: [Passed; 2],
}

struct Passed {
    values: [Cell<u64>; 32],
    /// The lanes whose value is not 0, one bit each.
    ballot: Cell<u32>,
}

impl Exchange {
    fn new() -> Self {
        let passed = || Passed { values: [const { Cell::new(0) }; 32], ballot: Cell::new(0) };
        Self {
            op: Cell::new(WarpOp::Sync),
            arrived: Cell::new(0),
            differs: Cell::new(false),
            odd: Cell::new(false),
            passed: [passed(), passed()],
        }
    }

    /// A lane begins to wait. Returns what the lanes will have passed when it continues.
    #[inline]
    fn arrive(&self, lane: u32, op: WarpOp, value: u64) -> &Passed {
        let passed = &self.passed[usize::from(self.odd.get())];
        if self.arrived.get() == 0 {
            self.op.set(op);
            passed.ballot.set(0);
        }
        self.differs.set(self.differs.get() || self.op.get() != op);
        self.arrived.set(self.arrived.get() | 1 << lane);
        passed.values[lane as usize].set(value);
        passed.ballot.set(passed.ballot.get() | u32::from(value != 0) << lane);
        passed
    }

    /// Completes the operation if all lanes wait at it, and returns it.
    #[inline]
    pub fn release(&self) -> Option<WarpOp> {
        if self.arrived.get() != u32::MAX || self.differs.get() {
            return None;
        }
        self.arrived.set(0);
        self.odd.set(!self.odd.get());
        Some(self.op.get())
    }
}

/// The asynchronous copies of a thread.
#[derive(Default)]
struct Copies {
    /// Not yet in a group.
    open: Vec<Copied>,
    groups: VecDeque<Vec<Copied>>,
}

impl Copies {
    /// Whether the thread has not waited for some of them.
    fn are_in_flight(&self) -> bool {
        !self.open.is_empty() || self.groups.iter().any(|group| !group.is_empty())
    }
}

/// An end of an asynchronous copy.
enum Copied {
    /// The address of a shared word.
    To(usize),
    /// An element of a buffer that the kernel may write.
    From {
        record: *const Record,
        name: &'static str,
        element: usize,
        copy: Stamp,
        /// The last changes before the copy.
        changes: [Option<Stamp>; 2],
    },
}

/// A thread of a block. The fields that most operations use come first, so that few cache lines are touched.
#[repr(C)]
pub struct Thread {
    pub(crate) id: u32,
    /// Reads of read-only views that the thread may make before it must call [`read_only`](Self::read_only).
    unrecorded: Cell<u32>,
    /// Accesses since the last one that changed the memory, or since the last look.
    idle: Cell<u32>,
    /// Looks at what it reads since the last access that changed the memory.
    looks: Cell<u32>,
    pub(crate) block: *const Block,
    launch: Cell<*const Launch>,
    yielder: Cell<*const Yielder>,
    /// Memory accesses so far.
    steps: Cell<u64>,
    /// Other steps so far: rounds of loops, and operations that wait or order.
    work: Cell<u64>,
    /// Steps of each kind that it may make.
    limit: Cell<u64>,
    /// The lowest address of the stack that its local variables may have.
    floor: Cell<usize>,
    /// Whether it has waited.
    waited: Cell<bool>,
    /// What it has done last: wait, if it has waited.
    pub(crate) state: Cell<State>,
    /// Whether instructions are recorded.
    profiled: Cell<bool>,
    /// Whether reads of read-only views are recorded: the launch overlaps with another one.
    watched: Cell<bool>,
    /// Whether the thread has let the next launch begin.
    pub(crate) triggered: Cell<bool>,
    /// Whether a vector access is being made, which is one instruction.
    vector: Cell<bool>,
    /// Whether it is in a loop that does nothing but to wait.
    waiting: Cell<bool>,
    /// Whether one of the fields `copies`, `stores`, `products`, `peeked`, `polled`, `heard` and `missed` may have changed since the thread began.
    pub(super) rare: Cell<bool>,
    /// Index in the block.
    index: Cell<Dim3>,
    /// A number for the rounds of all its counted loops; 0 outside of them.
    pub(crate) round: Cell<u64>,
    /// The innermost of these loops, and the value of `round` before its first round.
    innermost: Cell<Option<(&'static Location<'static>, u64)>>,
    /// Barriers and warp operations passed.
    phase: Cell<u32>,
    /// The value that an exchange has returned, unless it returns those of all lanes.
    reply: Cell<u64>,
    /// What the thread waits for, if it does.
    pub(crate) wait: Cell<Wait>,
    pub(crate) clock: RefCell<Clock>,
    /// Values of all lanes in an exchange.
    lanes: Cell<[u64; 32]>,
    copies: RefCell<Copies>,
    pub(super) stores: RefCell<Stores>,
    pub(super) products: RefCell<Products>,
    /// The last peeks of different elements since the last operation other than a read.
    peeked: RefCell<Vec<Peeked>>,
    /// The element that atomic reads and peeks have found unchanged most often, for hints.
    polled: Cell<Option<Polled>>,
    /// A read of earlier, which shows whether the thread reads the same elements again.
    looked: Cell<Option<Target>>,
    /// Reads since then.
    unrepeated: Cell<u64>,
    /// The last atomic operations of other threads that this thread's have read from, for hints.
    heard: RefCell<Vec<Stamp>>,
    /// Releases that the thread has read but not seen, because of their scope or its own, for hints.
    missed: RefCell<Knowledge>,
    /// What a named barrier has told the thread.
    told: RefCell<Option<Arc<Knowledge>>>,
    /// Instructions, if the launch is profiled.
    pub(crate) events: RefCell<Vec<Event>>,
}

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// Sets the thread that `current` returns, and returns the former one.
#[inline]
pub(crate) fn enter(thread: *const Thread) -> *const Thread {
    CURRENT.replace(thread)
}

/// The running emulated thread, for one operation of a kernel. What is borrowed from it ends with it, and it is neither `Copy` nor
/// `Send`: nothing that one call of a kernel learns of its thread outlasts the call by accident.
pub(crate) struct Current(NonNull<Thread>);

impl Deref for Current {
    type Target = Thread;

    #[inline]
    fn deref(&self) -> &Thread {
        // SAFETY: `Runner` sets the pointer to a thread that outlives the call of the kernel, and resets it afterwards. Device
        // primitives and guards make a `Current`, which ends within their own call, and the kernel makes that call.
        unsafe { self.0.as_ref() }
    }
}

/// The running emulated thread, if a kernel is running.
#[inline]
fn running() -> Option<Current> {
    NonNull::new(CURRENT.get().cast_mut()).map(Current)
}

/// The running emulated thread.
///
/// # Panics
/// If no kernel is running: host code has called a device primitive.
#[must_use]
#[inline]
pub(crate) fn current() -> Current {
    let Some(thread) = running() else {
        panic!("host code called a device primitive, which only works inside a kernel");
    };
    thread
}

/// The address of the static shared array `name` of `bytes` bytes, for [`shared_array!`](crate::shared_array).
#[doc(hidden)]
#[must_use]
#[track_caller]
pub fn static_shared(site: usize, name: &'static str, bytes: u32) -> u32 {
    current().static_shared(site, name, bytes)
}

/// The stack of the running emulated thread, if `address` belongs to it or to its guard page, and if a panic can begin.
/// For signal handlers.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn overflowing(address: usize) -> Option<Bounds> {
    let thread = CURRENT.get();
    if thread.is_null() || std::thread::panicking() {
        return None;
    }
    // SAFETY: as in `running`.
    let stack = unsafe { &*thread }.block().stack.get();
    stack.filter(|stack| stack.stack_ptr_in_bounds(address))
}

/// Elements of a buffer, as a view accesses them.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a> {
    pub record: &'a Record,
    /// The kernel's parameter. By reference: most accesses do not need it.
    pub name: &'a &'static str,
    pub first: usize,
    pub count: usize,
    /// Bytes of an element.
    pub size: usize,
}

impl Elements<'_> {
    fn place(&self, element: usize) -> Place {
        Place { array: self.name, index: element, shared: false }
    }

    fn target(&self) -> Target {
        Target::Global { record: self.record, name: self.name, element: self.first }
    }
}

/// An atomic operation.
#[derive(Clone, Copy)]
pub struct Atomic {
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// The bits that the element must have so that it writes; `None` if it writes in any case.
    pub expected: Option<u64>,
    /// Its ordering.
    pub order: Ordering,
    /// Its scope.
    pub scope: Scope,
}

impl Thread {
    pub(crate) fn new(id: u32, block: *const Block) -> Self {
        Self {
            id,
            unrecorded: Cell::new(0),
            block,
            index: Cell::new(Dim3 { x: 0, y: 0, z: 0 }),
            launch: Cell::new(ptr::null()),
            yielder: Cell::new(ptr::null()),
            wait: Cell::new(Wait::Preempted),
            waited: Cell::new(false),
            state: Cell::new(State::Fresh),
            steps: Cell::new(0),
            work: Cell::new(0),
            limit: Cell::new(0),
            floor: Cell::new(0),
            idle: Cell::new(0),
            profiled: Cell::new(false),
            watched: Cell::new(false),
            triggered: Cell::new(false),
            vector: Cell::new(false),
            round: Cell::new(0),
            innermost: Cell::new(None),
            phase: Cell::new(0),
            clock: RefCell::new(Clock::new(id as u16)),
            reply: Cell::new(0),
            lanes: Cell::new([0; 32]),
            rare: Cell::new(false),
            copies: RefCell::default(),
            stores: RefCell::default(),
            products: RefCell::default(),
            peeked: RefCell::default(),
            polled: Cell::new(None),
            looks: Cell::new(0),
            waiting: Cell::new(false),
            looked: Cell::new(None),
            unrepeated: Cell::new(0),
            heard: RefCell::default(),
            missed: RefCell::default(),
            told: RefCell::default(),
            events: RefCell::default(),
        }
    }

    /// Begins the thread on the coroutine of `yielder`. The memory may be that of a thread of an earlier block.
    #[inline]
    pub(crate) fn begin(&self, yielder: &Yielder) {
        let block = self.block();
        let launch = block.launch();
        let Dim3 { x, y, .. } = block.shape.block;
        let id = self.id;
        self.index.set(if id < x {
            Dim3 { x: id, y: 0, z: 0 }
        } else {
            Dim3 { x: id % x, y: id / x % y, z: id / (x * y) }
        });
        self.launch.set(launch);
        self.yielder.set(yielder);
        self.waited.set(false);
        self.steps.set(0);
        self.work.set(0);
        self.limit.set(launch.limit);
        // The yielder is at the start of the coroutine's stack, which grows towards lower addresses.
        self.floor.set(ptr::from_ref(yielder).addr().saturating_sub(LOCAL_LIMIT));
        self.idle.set(0);
        self.looks.set(0);
        self.waiting.set(false);
        self.profiled.set(launch.profiled);
        self.watched.set(launch.settled < launch.first || launch.beside.is_some());
        self.unrecorded.set(self.unrecorded_reads());
        self.triggered.set(false);
        self.vector.set(false);
        self.phase.set(0);
        self.clock.borrow_mut().begin(block.serial, launch.settled, launch.beside.as_ref());
        if self.rare.replace(false) {
            self.peeked.borrow_mut().clear();
            self.polled.set(None);
            let copies = &mut *self.copies.borrow_mut();
            copies.open.clear();
            copies.groups.clear();
            self.stores.borrow_mut().clear();
            self.forget_products();
            self.heard.borrow_mut().clear();
            let missed = &mut *self.missed.borrow_mut();
            if !missed.is_empty() {
                *missed = Knowledge::default();
            }
        }
    }

    /// The round in which it waits, beside that of another thread: "round 2 of the loop on line 7, not in round 1".
    pub(crate) fn round_beside(&self, other: &Self) -> String {
        let [mine, others] = [self, other].map(|thread| thread.innermost.get());
        let number = |thread: &Self, start| thread.round.get().wrapping_sub(start);
        match (mine, others) {
            (Some((site, start)), Some((same, other_start))) if site == same => {
                let (number, line, others) = (number(self, start), site.line(), number(other, other_start));
                if number == others {
                    format!("another round of a loop around that on line {line}")
                } else {
                    format!("round {number} of the loop on line {line}, not in round {others}")
                }
            }
            _ => {
                let line = |innermost: Option<(&Location<'_>, _)>| innermost.map_or(0, |(site, _)| site.line());
                format!("the loop on line {}, not in that on line {}", line(mine), line(others))
            }
        }
    }

    /// Ends the thread.
    #[inline]
    pub(crate) fn end(&self) {
        if self.rare.get() {
            self.end_stores();
        }
        let launch = self.launch();
        launch.idle.set(0);
        // The end of a block lets the next launch begin.
        if !self.triggered.get() && self.clock.borrow().settled < launch.first {
            launch.early.set(true);
        }
    }

    /// Whether the thread has waited: if so, its coroutine runs no other thread.
    #[inline]
    pub(crate) fn has_waited(&self) -> bool {
        self.waited.get()
    }

    /// Index in the block.
    #[must_use]
    #[inline]
    pub fn index(&self) -> Dim3 {
        self.index.get()
    }

    /// Linear index in the block.
    #[inline]
    pub(crate) fn index_in_block(&self) -> u32 {
        self.id
    }

    /// The block.
    #[must_use]
    #[inline(always)]
    pub fn block(&self) -> &Block {
        // SAFETY: `Runner` owns the block and drops its threads first.
        unsafe { &*self.block }
    }

    #[inline(always)]
    pub(super) fn launch(&self) -> &Launch {
        // SAFETY: the launch outlives its blocks: `Grid` drops them first.
        unsafe { &*self.launch.get() }
    }

    #[inline(always)]
    pub(super) fn wait(&self, wait: Wait) {
        if let Wait::Phase { .. } = wait {
            let waiting = &self.block().waiting_for_phases;
            waiting.set(waiting.get() + 1);
        }
        self.wait.set(wait);
        self.state.set(wait.state());
        self.waited.set(true);
        // SAFETY: `begin` sets the pointer before the kernel's code runs. The yielder lives as long as the coroutine,
        // which is executing this call.
        unsafe { (*self.yielder.get()).suspend(()) };
    }

    /// Waits at a block-wide barrier. Returns the number of threads whose `predicate` is true.
    #[track_caller]
    pub fn barrier(&self, predicate: bool) -> u32 {
        let site = Location::caller();
        self.count_work(WAIT_STEPS, site);
        self.record(Operation::Barrier, 0, 0, site);
        self.communicates();
        self.forget_peeks();
        let barrier = &self.block().barrier;
        barrier.arrive(site, self.round.get(), predicate, &self.clock.borrow());
        self.wait(Wait::Barrier { site });
        barrier.leave(&mut self.clock.borrow_mut())
    }

    /// Waits at the barrier of the grid.
    #[track_caller]
    pub(crate) fn sync_grid(&self) {
        self.meet(&self.launch().meeting);
    }

    /// The block's rank in its cluster.
    pub(crate) fn cluster_rank(&self) -> u32 {
        self.block().rank()
    }

    /// Blocks of the cluster.
    pub(crate) fn cluster_size(&self) -> u32 {
        self.block().cluster().map_or(1, |cluster| cluster.meeting.blocks)
    }

    /// Waits at the barrier of the cluster.
    #[track_caller]
    pub(crate) fn sync_cluster(&self) {
        match self.block().cluster() {
            Some(cluster) => self.meet(&cluster.meeting),
            None => {
                self.barrier(false);
            }
        }
    }

    /// The block of a rank of the cluster.
    #[track_caller]
    fn block_of_rank(&self, rank: u32) -> &Block {
        let size = self.cluster_size();
        if rank >= size {
            let reason = format!("there is no rank {rank}: the cluster has {size} blocks");
            super::fault::raise(Kind::RemoteShared { reason });
        }
        match self.block().cluster() {
            // SAFETY: `Grid` keeps the blocks of a cluster until all of them have ended.
            Some(cluster) => unsafe { &*cluster.members.borrow()[rank as usize].block },
            None => self.block(),
        }
    }

    /// The block of a rank of the cluster, which has begun and not ended.
    #[track_caller]
    pub(super) fn existing_block(&self, rank: u32) -> &Block {
        let (block, site) = (self.block_of_rank(rank), Location::caller());
        if let Some(cluster) = self.block().cluster()
            && !ptr::eq(block, self.block())
        {
            let begun = self.clock.borrow().knows_of(block.serial);
            cluster.members.borrow()[rank as usize].require(begun, &block.name(), site);
        }
        block
    }

    /// The block of a rank of the cluster, whose shared memory the thread now accesses.
    #[track_caller]
    pub(super) fn visit(&self, rank: u32) -> &Block {
        let block = self.existing_block(rank);
        if let Some(cluster) = self.block().cluster()
            && !ptr::eq(block, self.block())
        {
            let stamp = self.clock.borrow().stamp(Action::Read, Location::caller());
            cluster.members.borrow()[rank as usize].visit(stamp);
        }
        block
    }

    /// The address in the shared memory of another block of the cluster of what is at `address` in this one.
    #[track_caller]
    pub(crate) fn map_shared(&self, address: u32, rank: u32) -> u32 {
        let other = self.block_of_rank(rank);
        if ptr::eq(other, self.block()) {
            return address;
        }
        let array = self.block().shared.borrow().array_at(address);
        match array {
            None => address,
            Some((site, name, start)) => {
                let declared = &self.launch().declared;
                other.shared.borrow_mut().static_array(declared, site.0, name, site.1) + (address - start)
            }
        }
    }

    /// Ends the launch: an index is beyond the end of an array of another block.
    #[track_caller]
    pub(crate) fn remote_out_of_bounds(&self, rank: u32, address: u32, size: u32, index: u32, len: u32) -> ! {
        let first = self.block_of_rank(rank).shared.borrow().place(address, size);
        let place = Place { index: first.index + index as usize, ..first };
        super::fault::raise(Kind::OutOfBounds { place, len: first.index + len as usize });
    }

    /// Reads `size` bytes of the shared memory of a block of the cluster.
    #[track_caller]
    pub(crate) fn load_remote(&self, rank: u32, address: u32, size: u32) -> u64 {
        let site = Location::caller();
        self.shared_of(self.visit(rank), address, size, Action::Read, site).load(address, size)
    }

    /// Writes `size` bytes of the shared memory of a block of the cluster.
    #[track_caller]
    pub(crate) fn store_remote(&self, rank: u32, address: u32, size: u32, raw: u64) {
        let site = Location::caller();
        self.shared_of(self.visit(rank), address, size, Action::Write, site).store(address, size, raw);
    }

    /// An atomic operation on the shared memory of a block of the cluster.
    #[track_caller]
    pub(crate) fn update_remote(
        &self,
        rank: u32,
        address: u32,
        size: u32,
        atomic: Atomic,
        update: impl FnOnce(u64) -> u64,
    ) -> u64 {
        self.update_shared_of(self.visit(rank), address, size, atomic, update)
    }

    /// Waits at a barrier of several blocks.
    #[track_caller]
    fn meet(&self, meeting: &Meeting) {
        self.barrier(false);
        if self.id == 0 {
            let site = Location::caller();
            let round = meeting.arrive(site, self.round.get(), &mut self.clock.borrow_mut());
            if !meeting.is_over(round) {
                self.wait(Wait::Meeting { site, meeting, round });
            }
            meeting.leave(&mut self.clock.borrow_mut());
        }
        self.barrier(false);
    }

    /// Arrives at a barrier for `threads` threads of the block. Waits for them if `waits`.
    #[track_caller]
    pub(crate) fn named_barrier(&self, barrier: u32, threads: u32, waits: bool) {
        let site = Location::caller();
        self.count_work(WAIT_STEPS, site);
        self.record(Operation::Barrier, 0, 0, site);
        self.communicates();
        self.forget_peeks();
        if !self.arrive_named(barrier, threads, waits) && waits {
            self.wait(Wait::Named { site, barrier });
        }
        if let Some(known) = self.told.take() {
            self.clock.borrow_mut().acquire(&known);
        }
    }

    /// Arrives at a named barrier. Returns whether this completes it.
    #[track_caller]
    fn arrive_named(&self, barrier: u32, threads: u32, waits: bool) -> bool {
        let block = self.block();
        let warps = block.shape.block.count().div_ceil(32) as u32;
        let all = &mut *block.named.borrow_mut();
        let reason = if !(1..16).contains(&barrier) {
            Some("the number is 1 to 15; barrier 0 is that of `sync_threads`".to_owned())
        } else if threads == 0 || !threads.is_multiple_of(32) || threads > 32 * warps {
            Some(format!("the number of threads is a multiple of 32, at most {}", 32 * warps))
        } else {
            let named = &all[barrier as usize];
            let other = named.arrived > 0 && named.threads != threads;
            other.then(|| format!("others have arrived at it as one for {} threads", named.threads))
        };
        if let Some(reason) = reason {
            super::fault::raise(Kind::NamedBarrier { barrier, threads, reason });
        }
        let named = &mut all[barrier as usize];
        named.threads = threads;
        let known = self.clock.borrow_mut().publish();
        named.arriving.push((self.id, waits, known));
        let (warp, bit) = (self.id / 32, |id: u32| 1_u32 << (id % 32));
        let ids = named.arriving.iter().map(|(id, ..)| *id).filter(|id| id / 32 == warp);
        if ids.fold(0, |lanes, id| lanes | bit(id)).count_ones()
            == (block.shape.block.count() as u32 - 32 * warp).min(32)
        {
            let NamedBarrier { arriving, waiting, known, .. } = named;
            let mut taken = 0;
            // A lane that does not wait may have arrived in the next round, too.
            arriving.retain(|(id, waits, published)| {
                let stays = id / 32 != warp || taken & bit(*id) != 0;
                if !stays {
                    taken |= bit(*id);
                    known.join(published);
                    waiting.extend(waits.then_some(*id));
                }
                stays
            });
            named.arrived += 32;
        }
        let complete = named.arrived == threads;
        if complete {
            let (waiting, known) = (std::mem::take(&mut named.waiting), Arc::new(std::mem::take(&mut named.known)));
            named.arrived = 0;
            for &id in &waiting {
                // SAFETY: as in `Block::current_thread`.
                unsafe { &*block.threads.add(id as usize) }.told.replace(Some(known.clone()));
            }
            block.released.borrow_mut().extend(waiting.into_iter().filter(|&id| id != self.id));
        }
        complete
    }

    /// Memory accesses and other steps so far.
    pub(crate) fn time(&self) -> u64 {
        self.count_work(1, Location::caller());
        self.steps.get() + self.work.get()
    }

    /// Passes `value` to the lanes of `mask`, and returns the values of all lanes; 0 outside of the mask.
    #[track_caller]
    pub fn exchange(&self, op: WarpOp, mask: u32, value: u64) -> [u64; 32] {
        match self.pass(op, mask, value, Reply::All) {
            Some(passed) => std::array::from_fn(|lane| passed.values[lane].get()),
            None => self.lanes.get(),
        }
    }

    /// Passes `value` to the lanes of `mask`, and returns that of the lane `source`; 0 outside of the mask.
    #[track_caller]
    #[inline]
    pub(crate) fn exchange_with(&self, op: WarpOp, mask: u32, value: u64, source: u32) -> u64 {
        match self.pass(op, mask, value, Reply::Lane(source)) {
            Some(passed) => passed.values[source as usize].get(),
            None => self.reply.get(),
        }
    }

    /// The lanes of `mask` in which `predicate` is true, one bit each.
    #[track_caller]
    pub(crate) fn vote(&self, op: WarpOp, mask: u32, predicate: bool) -> u32 {
        match self.pass(op, mask, predicate.into(), Reply::Ballot) {
            Some(passed) => passed.ballot.get(),
            None => self.reply.get() as u32,
        }
    }

    /// Waits at a warp operation. Returns what all lanes have passed, or `None` if the mask does not select all of them:
    /// then, [`answer`](Self::answer) has set the reply.
    #[track_caller]
    fn pass(&self, op: WarpOp, mask: u32, value: u64, reply: Reply) -> Option<&Passed> {
        let lane = self.id % 32;
        if mask & (1 << lane) == 0 {
            super::fault::raise(Kind::LaneOutsideMask { lane, mask });
        }
        let site = Location::caller();
        self.count_work(WAIT_STEPS, site);
        self.record(op.operation(), 0, 0, site);
        self.communicates();
        self.forget_peeks();
        let all = mask == u32::MAX;
        let passed = all.then(|| self.block().exchanges[self.id as usize / 32].arrive(lane, op, value));
        self.wait(Wait::Warp { site, op, mask, value, reply });
        passed
    }

    /// Answers the exchange for which the thread waits.
    #[inline]
    pub(crate) fn answer(&self, reply: Reply, values: &[u64; 32]) {
        match reply {
            Reply::All => self.lanes.set(*values),
            Reply::Lane(lane) => self.reply.set(values[lane as usize]),
            Reply::Ballot => {
                let bit = |(lane, value): (usize, &u64)| u64::from(*value != 0) << lane;
                self.reply.set(values.iter().enumerate().map(bit).fold(0, |ballot, bit| ballot | bit));
            }
        }
    }

    /// A compiler reads again after a write or an operation that orders accesses.
    #[inline(always)]
    pub(super) fn forget_peeks(&self) {
        if self.rare.get() {
            self.peeked.borrow_mut().clear();
        }
    }

    #[inline(always)]
    pub(super) fn communicates(&self) {
        self.launch().communicated.set(true);
    }

    /// Communicates in a way whose result may depend on the order.
    #[inline(always)]
    fn competes(&self) {
        self.communicates();
        self.launch().competed.set(true);
    }

    /// Records an instruction, if the launch is profiled.
    #[inline(always)]
    fn record(&self, operation: Operation, address: u64, bytes: u32, site: &'static Location<'static>) {
        if self.profiled.get() {
            self.add_event(operation, address, bytes, site);
        }
    }

    #[inline(never)]
    fn add_event(&self, operation: Operation, address: u64, bytes: u32, site: &'static Location<'static>) {
        if !self.vector.get() {
            let phase = self.phase.get();
            let copying = self.rare.get() && self.copies.borrow().are_in_flight();
            self.events.borrow_mut().push(Event { site, operation, phase, address, bytes, copying });
            if matches!(
                operation,
                Operation::Barrier
                    | Operation::WarpSync
                    | Operation::Shuffle
                    | Operation::Vote
                    | Operation::Reduction
                    | Operation::TensorProduct
            ) {
                self.phase.set(phase + 1);
            }
        }
    }

    #[inline(always)]
    fn record_global(&self, operation: Operation, elements: &Elements<'_>, site: &'static Location<'static>) {
        if self.profiled.get() {
            self.add_global_events(operation, elements, site);
        }
    }

    #[inline(never)]
    fn add_global_events(&self, operation: Operation, elements: &Elements<'_>, site: &'static Location<'static>) {
        // Buffers begin at multiples of 256 bytes, and do not overlap.
        let first = (std::ptr::from_ref(elements.record) as u64) << 16;
        let bytes = elements.count * elements.size;
        let address = first + (elements.first * elements.size) as u64;
        // One instruction moves at most 16 bytes.
        for part in 0..bytes.div_ceil(16) {
            self.record(operation, address + 16 * part as u64, (bytes - 16 * part).min(16) as u32, site);
        }
    }

    /// Records a vector access to shared memory. Until [`end_vector`](Self::end_vector), accesses are parts of it.
    #[track_caller]
    pub(crate) fn begin_vector(&self, operation: Operation, address: u32, bytes: u32) {
        self.record(operation, address.into(), bytes, Location::caller());
        self.vector.set(true);
    }

    pub(crate) fn end_vector(&self) {
        self.vector.set(false);
    }

    /// A fence.
    #[track_caller]
    pub fn fence(&self, order: Ordering, scope: Scope) {
        if order == Ordering::Relaxed {
            return;
        }
        let site = Location::caller();
        self.count_work(FENCE_STEPS, site);
        self.record(Operation::Fence, 0, 0, site);
        self.forget_peeks();
        let (clock, wide) = (&mut *self.clock.borrow_mut(), scope != Scope::Block);
        let known = clock.fence(order, wide);
        if order == Ordering::SeqCst {
            self.competes();
            let sequence = &mut *self.launch().sequence.borrow_mut();
            clock.sequenced = Some(sequence.seen_by(clock.block, wide));
            sequence.add(clock.block, wide, &known);
        }
    }

    /// Waits until all previous launches have ended.
    pub fn wait_for_launches(&self) {
        self.clock.borrow_mut().settled = self.launch().first;
        self.watch(self.triggered.get() || self.launch().beside.is_some());
    }

    /// Lets the next launch begin, which may then run while this one still reads.
    pub fn launch_dependents(&self) {
        let launch = self.launch();
        if self.clock.borrow().settled < launch.first {
            launch.early.set(true);
        }
        self.triggered.set(true);
        self.watch(true);
    }

    fn watch(&self, watched: bool) {
        self.watched.set(watched);
        self.unrecorded.set(self.unrecorded_reads());
    }

    /// Whether a read of a read-only view need not be recorded.
    #[inline(always)]
    pub(crate) fn reads_unrecorded(&self) -> bool {
        let left = self.unrecorded.get();
        self.unrecorded.set(left.saturating_sub(1));
        left > 0
    }

    /// Reads of read-only views that need not be recorded before the next count of accesses.
    #[inline]
    fn unrecorded_reads(&self) -> u32 {
        if self.watched.get() || self.profiled.get() { 0 } else { UNCOUNTED }
    }

    /// Counts an access. Lets other threads run after many that change nothing.
    #[inline(always)]
    fn step(&self, changed: bool, plain: bool, site: &'static Location<'static>, target: impl FnOnce() -> Target) {
        self.weighted_step(changed, plain, 1, site, target);
    }

    /// Counts an access, which takes as long as `weight` reads.
    #[inline(always)]
    pub(super) fn weighted_step(
        &self,
        changed: bool,
        plain: bool,
        weight: u32,
        site: &'static Location<'static>,
        target: impl FnOnce() -> Target,
    ) {
        let launch = self.launch();
        self.count_steps(1, site);
        if changed {
            self.idle.set(0);
            self.looks.set(0);
            launch.idle.set(0);
            if launch.preempts() {
                self.wait(Wait::Preempted);
            }
        } else {
            self.idle.set(self.idle.get() + weight);
            if self.idle.get() >= PATIENCE || launch.preempts() {
                let target = target();
                self.look(plain, site, target);
                self.wait(Wait::Spin { site, target, plain });
            }
        }
    }

    /// Counts the reads of a thread that reads the same elements again, which only another thread can end: those between two
    /// looks at the same element. The looks that later ones are compared with get rarer, so that a cycle of any length is
    /// found (Brent).
    #[inline(never)]
    fn look(&self, plain: bool, site: &'static Location<'static>, target: Target) {
        let launch = self.launch();
        let looks = self.looks.get().wrapping_add(1);
        self.looks.set(looks);
        self.unrepeated.set(self.unrepeated.get() + u64::from(self.idle.replace(0)));
        if looks > 1 && self.looked.get() == Some(target) {
            launch.idle.set(launch.idle.get() + self.unrepeated.replace(0));
        }
        if plain && self.waiting.get() && !launch.spin_sites.borrow().contains(&site) {
            launch.spin_sites.borrow_mut().push(site);
        }
        if looks.is_power_of_two() {
            self.looked.set(Some(target));
            self.unrepeated.set(0);
        }
    }

    #[inline(always)]
    fn count_steps(&self, steps: u64, site: &'static Location<'static>) {
        let here = std::mem::MaybeUninit::<u8>::uninit();
        self.steps.set(self.steps.get() + steps);
        if self.steps.get() > self.limit.get() || (&raw const here).addr() < self.floor.get() {
            self.check_limits(site);
        }
    }

    /// Counts steps that access no memory.
    #[inline(always)]
    pub(super) fn count_work(&self, steps: u64, site: &'static Location<'static>) {
        let here = std::mem::MaybeUninit::<u8>::uninit();
        self.work.set(self.work.get() + steps);
        if self.work.get() > self.limit.get() || (&raw const here).addr() < self.floor.get() {
            self.check_limits(site);
        }
    }

    /// Checks that local variables are within their limit: what allocates memory must not be interrupted by the end of the
    /// stack.
    #[inline(always)]
    fn check_stack(&self, site: &'static Location<'static>) {
        self.count_steps(0, site);
    }

    /// Checks that the thread is within its limits.
    #[cold]
    fn check_limits(&self, site: &'static Location<'static>) {
        let (steps, launch, here) = (self.steps.get().max(self.work.get()), self.launch(), 0_u8);
        let bytes = (self.floor.get() + LOCAL_LIMIT).saturating_sub((&raw const here).addr());
        // The destructors of a faulty kernel may access memory.
        if bytes > LOCAL_LIMIT && !std::thread::panicking() {
            Raised::local_memory(bytes, Some(site)).raise();
        }
        // A thread that has only read for long waits for another one: `Grid` reports that when `idle` reaches the limit.
        if steps > launch.limit && launch.idle.get() <= launch.limit / 2 {
            let hint =
                self.polled.get().filter(|polled| polled.votes >= steps / 8).map(|Polled { site, target, .. }| {
                    let read = self.describe_read(&target);
                    format!(
                        "the thread reads {read}, again and again on line {}: does it wait for another one?",
                        site.line()
                    )
                });
            Raised { hint, ..Raised::new(Kind::StepLimit { accesses: steps }, Some(site)) }.raise();
        }
    }

    /// The place of an element, and the last access that has changed it.
    pub(crate) fn last_change(&self, target: &Target) -> (Place, Option<Stamp>) {
        match *target {
            Target::Global { record, name, element } => {
                // SAFETY: the launch's buffers outlive it.
                let change = unsafe { &*record }.shadow.borrow().last_change(element);
                (Place { array: name, index: element, shared: false }, change)
            }
            Target::Shared { block, address, size } => {
                // SAFETY: the block is this one, or one of its cluster, all of which `Grid` keeps as long as this one runs.
                let shared = unsafe { &*block }.shared.borrow();
                (shared.place(address, size), shared.shadow.last_change(words(address, size).start))
            }
        }
    }

    /// An element, and who has changed it last: "flag[0] in global memory, which no thread of this launch has written".
    pub(crate) fn describe_read(&self, target: &Target) -> String {
        let (place, change) = self.last_change(target);
        let launch = self.launch();
        let change = change.filter(|stamp| stamp.block >= launch.first);
        let change = change.map_or("no thread of this launch has written".to_owned(), |stamp| {
            let Dim3 { x, y, z } = launch.block_of(stamp.block).1;
            let line = stamp.site.map_or(0, Location::line);
            format!("thread {} of block ({x}, {y}, {z}) has last written on line {line}", stamp.thread)
        });
        format!("{place}, which {change}")
    }

    /// Checks that an element has a value: if not, lets all others run. One that then writes it races with this read.
    fn expect_value(&self, written: impl Fn() -> bool, site: &'static Location<'static>, place: impl Fn() -> Place) {
        if written() {
            return;
        }
        self.communicates();
        self.wait(Wait::Unwritten);
        if !written() {
            let place = place();
            let hint = format!(
                "thread {} reads {place} at line {}, and no thread of its block writes it before: does the loop that \
                 fills it reach every element?",
                self.id,
                site.line()
            );
            Raised { hint: Some(hint), ..Raised::new(Kind::Uninitialised { place }, Some(site)) }.raise();
        }
    }

    /// Ends the launch with a race between an earlier access and this one.
    #[cold]
    pub(super) fn race(&self, place: Place, earlier: Stamp, action: Action, site: &'static Location<'static>) -> ! {
        let Some(copy) = self.launch().origin(&earlier) else {
            let hint = self.hint(&earlier, action, site);
            Raised::race(place, earlier, action, site, hint).raise()
        };
        let (then, now, does, line) = (copy.thread, self.id, verb(action).0, site.line());
        let (may, wait) = match (place.shared, earlier.action) {
            (_, Action::Read) => ("read", "`bulk::wait_read`"),
            (true, _) => ("write", "`Mbarrier::wait` for the right phase"),
            (false, _) => ("write", "`bulk::wait`"),
        };
        let hint = format!(
            "thread {now} {does} this while a bulk copy that thread {then} has started may still {may} it: is {wait}, or a barrier \
             after it, missing before line {line}?"
        );
        let earlier = Stamp { action: Action::Copy, ..earlier };
        Raised::race(place, earlier, action, site, hint).raise()
    }

    fn hint(&self, earlier: &Stamp, action: Action, site: &'static Location<'static>) -> String {
        let clock = self.clock.borrow();
        let (line, now) = (site.line(), self.id);
        let then = earlier.thread;
        let before = earlier.site.map_or(0, Location::line);
        let (does, done) = (verb(action).0, verb(earlier.action).1);
        let own = earlier.block == clock.block;
        let story = format!(
            "thread {now} {does} this after thread {then} {}has {done} it",
            if own { "" } else { "of another block " }
        );
        if earlier.action == Action::Copy {
            return format!(
                "thread {then} has not waited for its asynchronous copy: is `copy::wait`, or the barrier after it, \
                 missing before line {line}?"
            );
        }
        if earlier.action == Action::Read
            && earlier.site.is_some_and(|site| self.launch().copy_sites.borrow().contains(&site))
        {
            return format!(
                "thread {now} {does} this while the asynchronous copy of thread {then} may still read it: is `copy::wait` \
                 missing before a barrier?"
            );
        }
        if clock.beside.contains(&earlier.block) {
            return format!(
                "{story}, in a launch that runs beside this one: `Device::beside` orders neither before the other"
            );
        }
        if earlier.block < self.launch().first {
            return format!(
                "{story}, in the previous launch, which may still run: is `grid::wait` missing before line {line}?"
            );
        }
        if clock
            .observed
            .as_ref()
            .is_some_and(|observed| observed.contains(earlier.block, earlier.thread, earlier.time))
        {
            return format!(
                "{story} and has read a signal of it by a relaxed atomic operation: is `Ordering::Acquire` or \
                 `thread::fence` missing before line {line}?"
            );
        }
        if self.missed.borrow().contains(earlier.block, earlier.thread, earlier.time) {
            return format!(
                "{story} and has read a signal of it, but the scope `Block` of one of the two signals does not \
                 include other blocks: is `Scope::Device` meant?"
            );
        }
        let signalled =
            self.heard.borrow().iter().any(|heard| heard.same_thread(earlier) && heard.time >= earlier.time);
        if signalled {
            return format!(
                "{story} and has read a signal of it that releases nothing: is `Ordering::Release` or \
                 `thread::fence` missing after line {before}?"
            );
        }
        if [earlier.action, action] == [Action::Mark; 2] {
            return format!("{story} with another value: marks must agree. Which one is meant to win?");
        }
        let spins = self.launch().spin_sites.borrow();
        let waited = match (earlier.action, action) {
            (Action::Read, _) if earlier.site.is_some_and(|site| spins.contains(&site)) => Some((before, line, action)),
            (_, Action::Read) if self.waiting.get() || spins.contains(&site) => Some((line, before, earlier.action)),
            _ => None,
        };
        if let Some((read, write, writes)) = waited {
            let store =
                if writes.is_atomic() { String::new() } else { format!(", and line {write} write by `atomic::store`") };
            return format!("{story}: the loop on line {read} waits, so it must read by `atomic::load`{store}");
        }
        let atomic = [earlier.action.is_atomic(), action.is_atomic()];
        if atomic == [true, true] {
            return format!("{story}, at block scope, which does not include other blocks: is `Scope::Device` meant?");
        }
        if atomic[0] != atomic[1] {
            let plain = if atomic[0] { line } else { before };
            return format!(
                "{story}: must the access on line {plain} be atomic too, or is a barrier missing before line {line}?"
            );
        }
        if before == line && earlier.action == action {
            return format!(
                "{story}, on the same line: is the index wrong? If all threads write the same value, let one of them \
                 write it, or say so by `mark`."
            );
        }
        if before == line {
            let barrier = if own { ", or a barrier between the rounds of a loop" } else { "" };
            return format!("{story}, on the same line: is an atomic operation (`atomic::add`) missing{barrier}?");
        }
        if own {
            let warp = if u32::from(then) / 32 == now / 32 { " (or `sync_warp`)" } else { "" };
            return format!("{story}: is a barrier{warp} missing before line {line}?");
        }
        if self.block().shares_with(earlier.block) {
            return format!("{story}: is `cluster::sync` missing before line {line}?");
        }
        format!(
            "{story}: no barrier orders blocks; does this need a second launch, or a signal by an atomic operation \
             that releases and one that acquires?"
        )
    }

    /// A read of a read-only view.
    #[cold]
    pub(crate) fn read_only(&self, elements: Elements<'_>, exhausted: bool, site: &'static Location<'static>) {
        if exhausted {
            let unrecorded = self.unrecorded_reads();
            self.count_steps(u64::from(unrecorded.max(1)), site);
            self.unrecorded.set(unrecorded);
            if unrecorded > 0 {
                self.poll(site, elements.target(), unrecorded.into());
            }
        }
        self.record_global(Operation::Load, &elements, site);
        for element in elements.first..elements.first + elements.count {
            let place = || elements.place(element);
            self.expect_value(|| elements.record.written(element), site, place);
            if self.watched.get() {
                let clock = self.clock.borrow();
                let touched = elements.record.shadow.borrow_mut().touch_read_only(element, &clock, site);
                drop(clock);
                if let Err(earlier) = touched {
                    self.race(place(), earlier, Action::Read, site);
                }
            }
        }
    }

    /// A plain access of a view.
    #[inline(never)]
    pub(crate) fn global(&self, elements: Elements<'_>, action: Action, site: &'static Location<'static>) {
        let operation = if action.writes() { Operation::Store } else { Operation::Load };
        self.record_global(operation, &elements, site);
        if action == Action::Peek {
            self.competes();
        }
        self.step(action.writes(), true, site, || elements.target());
        if action.writes() && self.rare.get() {
            self.forget_peeks();
            self.check_not_copied(&elements, action, site);
        }
        let range = elements.first..elements.first + elements.count;
        if elements.record.partial.get() {
            for element in range.clone() {
                if action.writes() {
                    elements.record.write(element);
                } else {
                    self.expect_value(|| elements.record.written(element), site, || elements.place(element));
                }
            }
        }
        let mut shadow = elements.record.shadow.borrow_mut();
        let clock = self.clock.borrow();
        for element in range {
            if let Err(earlier) = shadow.touch(element, action, &clock, site) {
                drop((shadow, clock));
                self.race(elements.place(element), earlier, action, site);
            }
        }
    }

    /// The value of a peek, `value` in memory: that of an earlier peek if a compiler may have used it again.
    pub(crate) fn peek<T: DeviceCopy>(&self, elements: Elements<'_>, site: &'static Location<'static>, value: T) -> T {
        let (record, element, size) = (&raw const *elements.record, elements.first, size_of::<T>());
        self.rare.set(true);
        self.poll(site, elements.target(), 1);
        if size > Peeked::BYTES {
            return value;
        }
        let mut peeked = self.peeked.borrow_mut();
        if let Some(before) = peeked.iter().find(|before| (before.record, before.element) == (record, element)) {
            return bytemuck::pod_read_unaligned(&before.value[..size]);
        }
        let mut bytes = [0; Peeked::BYTES];
        bytes[..size].copy_from_slice(bytemuck::bytes_of(&value));
        if peeked.len() == Peeked::RECENT {
            peeked.remove(0);
        }
        peeked.push(Peeked { record, element, value: bytes });
        value
    }

    /// Notes `count` reads, perhaps of one element, by which threads wait for others, for hints.
    fn poll(&self, site: &'static Location<'static>, target: Target, count: u64) {
        self.rare.set(true);
        self.polled.set(match self.polled.get() {
            Some(polled) if polled.target == target => Some(Polled { votes: polled.votes + count, ..polled }),
            Some(polled) if polled.votes > count => Some(Polled { votes: polled.votes - count, ..polled }),
            _ => Some(Polled { site, target, votes: count }),
        });
    }

    /// A mark of an element: `changes` says whether the value differs from the present one. Concurrent marks must agree.
    pub(crate) fn mark(
        &self,
        elements: Elements<'_>,
        changes: impl FnOnce() -> bool,
        site: &'static Location<'static>,
    ) {
        self.global(elements, Action::Mark, site);
        let shadow = &elements.record.shadow;
        let other = shadow.borrow().unordered_mark(elements.first, &self.clock.borrow());
        if let Some(other) = other.filter(|_| changes()) {
            self.race(elements.place(elements.first), other, Action::Mark, site);
        }
    }

    /// An atomic operation on an element: `value` reads its bits, and `update` performs the operation and returns whether
    /// the value changed. The argument of `update` is an older value that a load reads instead of the last one.
    pub(crate) fn global_atomic(
        &self,
        elements: Elements<'_>,
        atomic: Atomic,
        site: &'static Location<'static>,
        value: impl Fn() -> u64,
        update: impl FnOnce(Option<u64>) -> bool,
    ) {
        let element = elements.first;
        let place = || elements.place(element);
        let operation = match (atomic.reads, atomic.writes) {
            (true, false) => Operation::Load,
            (false, true) => Operation::Store,
            _ => Operation::Atomic,
        };
        self.record_global(operation, &elements, site);
        if atomic.reads {
            self.expect_value(|| elements.record.written(element), site, place);
        }
        let writes = atomic.writes && atomic.expected.is_none_or(|expected| value() == expected);
        let launch = self.launch();
        let before = (writes && launch.reads_older() && elements.record.written(element)).then(value);
        if writes {
            elements.record.write(element);
        }
        let wide = atomic.scope != Scope::Block;
        let action = match (wide, writes) {
            (true, true) => Action::Atomic,
            (true, false) => Action::AtomicRead,
            (false, true) => Action::BlockAtomic,
            (false, false) => Action::BlockRead,
        };
        let mut shadow = elements.record.shadow.borrow_mut();
        if let Err(earlier) = shadow.touch(element, action, &self.clock.borrow(), site) {
            drop(shadow);
            self.race(place(), earlier, action, site);
        }
        self.competes();
        let (other, missed) = shadow.signal(element, &self.clock.borrow(), wide);
        if atomic.reads {
            self.hear(other, missed);
        }
        let clock = &mut self.clock.borrow_mut();
        let mut older = None;
        if !atomic.writes && launch.reads_older() && launch.draw(4) == 0 {
            older = shadow.older(element, clock);
        }
        if older.is_some() {
            shadow.synchronise_older(element, atomic.order, wide, clock);
        } else {
            shadow.synchronise(element, (atomic.reads, writes), before, atomic.order, wide, clock);
        }
        drop(shadow);
        self.atomic_step(update(older), atomic, site, elements.target());
        if !atomic.writes && launch.yields.get() {
            launch.yielded.set(true);
            self.wait(Wait::Preempted);
        }
    }

    /// Counts an atomic operation.
    fn atomic_step(&self, changed: bool, atomic: Atomic, site: &'static Location<'static>, target: Target) {
        self.forget_peeks();
        if atomic.reads && !changed {
            self.poll(site, target, 1);
        }
        let weight = if atomic.reads && atomic.writes { UPDATE_READS } else { 1 };
        self.weighted_step(changed, false, weight, site, || target);
    }

    fn hear(&self, other: Option<Stamp>, missed: Option<Knowledge>) {
        if other.is_none() && missed.is_none() {
            return;
        }
        self.rare.set(true);
        let mut heard = self.heard.borrow_mut();
        if let Some(other) = other
            && heard.iter().all(|known| !known.same_thread(&other))
        {
            heard.truncate(3);
            heard.insert(0, other);
        }
        if let Some(missed) = missed {
            self.missed.borrow_mut().join(&missed);
        }
    }

    /// The address of the static shared array `name` of `bytes` bytes.
    #[must_use]
    #[track_caller]
    pub(crate) fn static_shared(&self, site: usize, name: &'static str, bytes: u32) -> u32 {
        self.check_stack(Location::caller());
        self.block().shared.borrow_mut().static_array(&self.launch().declared, site, name, bytes)
    }

    /// The element of `size` bytes at an address of shared memory.
    pub(crate) fn shared_place(&self, address: u32, size: u32) -> Place {
        self.block().shared.borrow().place(address, size)
    }

    /// Checks and records an access to shared memory. Returns the memory.
    #[inline]
    fn shared(
        &self,
        address: u32,
        size: u32,
        action: Action,
        site: &'static Location<'static>,
    ) -> RefMut<'_, SharedMemory> {
        self.shared_of(self.block(), address, size, action, site)
    }

    /// The same for the shared memory of a block, this one or another of the cluster.
    pub(super) fn shared_of<'a>(
        &'a self,
        block: &'a Block,
        address: u32,
        size: u32,
        action: Action,
        site: &'static Location<'static>,
    ) -> RefMut<'a, SharedMemory> {
        let operation = match action {
            Action::Read | Action::AtomicRead | Action::BlockRead => Operation::SharedLoad,
            Action::Write | Action::Copy => Operation::SharedStore,
            Action::Atomic | Action::BlockAtomic | Action::Peek | Action::Mark => Operation::SharedAtomic,
        };
        self.record(operation, address.into(), size, site);
        if !action.is_atomic() {
            self.step(action != Action::Read, true, site, || Target::Shared { block, address, size });
            if action != Action::Read {
                self.forget_peeks();
            }
        }
        let mut shared = block.shared.borrow_mut();
        if matches!(action, Action::Write | Action::Copy) {
            shared.set_written(address, size);
        } else if !shared.has_value(address, size) {
            drop(shared);
            let has_value = || block.shared.borrow().has_value(address, size);
            self.expect_value(has_value, site, || block.shared.borrow().place(address, size));
            shared = block.shared.borrow_mut();
        }
        let clock = self.clock.borrow();
        if let Err(earlier) = shared.touch(address, size, action, &clock, site) {
            let place = shared.place(address, size);
            drop((shared, clock));
            self.race(place, earlier, action, site);
        }
        shared
    }

    /// Reads `size` bytes of shared memory.
    #[track_caller]
    pub fn load_shared(&self, address: u32, size: u32) -> u64 {
        self.shared(address, size, Action::Read, Location::caller()).load(address, size)
    }

    /// Writes `size` bytes of shared memory.
    #[track_caller]
    pub fn store_shared(&self, address: u32, size: u32, raw: u64) {
        self.shared(address, size, Action::Write, Location::caller()).store(address, size, raw);
    }

    /// Writes `size` bytes of shared memory by an asynchronous copy. The bytes have no definite value before
    /// [`wait_for_copies`](Self::wait_for_copies).
    #[track_caller]
    pub fn copy_to_shared(&self, address: u32, size: u32, raw: u64) {
        self.shared(address, size, Action::Copy, Location::caller()).store(address, size, raw);
        self.rare.set(true);
        self.copies.borrow_mut().open.extend(words(address, size).map(Copied::To));
    }

    /// Reads an element by an asynchronous copy, which may read it at any time before
    /// [`wait_for_copies`](Self::wait_for_copies).
    pub(crate) fn copy_from(&self, elements: Elements<'_>, site: &'static Location<'static>) {
        self.global(elements, Action::Read, site);
        let Elements { record, name, first: element, .. } = elements;
        let (copy, changes) = (self.clock.borrow().stamp(Action::Copy, site), record.shadow.borrow().changes(element));
        let mut sites = self.launch().copy_sites.borrow_mut();
        if !sites.contains(&site) {
            sites.push(site);
        }
        self.rare.set(true);
        self.copies.borrow_mut().open.push(Copied::From { record, name, element, copy, changes });
    }

    /// Checks that no asynchronous copy of this thread reads the elements.
    #[cold]
    fn check_not_copied(&self, elements: &Elements<'_>, action: Action, site: &'static Location<'static>) {
        let range = elements.first..elements.first + elements.count;
        let copies = self.copies.borrow();
        for copied in copies.open.iter().chain(copies.groups.iter().flatten()) {
            if let &Copied::From { record, element, copy, .. } = copied
                && ptr::eq(record, elements.record)
                && range.contains(&element)
            {
                self.race(elements.place(element), copy, action, site);
            }
        }
    }

    /// Combines the copies since the last call into a group.
    #[track_caller]
    pub fn commit_copies(&self) {
        self.count_work(1, Location::caller());
        self.rare.set(true);
        let copies = &mut *self.copies.borrow_mut();
        copies.groups.push_back(std::mem::take(&mut copies.open));
    }

    /// Waits until at most the last `pending` groups are incomplete.
    #[track_caller]
    pub fn wait_for_copies(&self, pending: usize) {
        self.count_work(1, Location::caller());
        let mut copies = self.copies.borrow_mut();
        let (mut shared, clock) = (self.block().shared.borrow_mut(), self.clock.borrow());
        while copies.groups.len() > pending {
            for copied in copies.groups.pop_front().into_iter().flatten() {
                match copied {
                    Copied::To(word) => shared.end_copy(word, &clock),
                    Copied::From { record, name, element, copy, changes } => {
                        let Some(site) = copy.site else { continue };
                        // SAFETY: the launch's buffers outlive it.
                        let mut shadow = unsafe { &*record }.shadow.borrow_mut();
                        let when = |stamp: Stamp| (stamp.block, stamp.thread, stamp.time, stamp.site);
                        let present = shadow.changes(element).into_iter().zip(changes);
                        let mut changed = present.filter(|(present, before)| present.map(when) != before.map(when));
                        let changed = changed.find_map(|(present, _)| present);
                        let raced = changed.map_or_else(|| shadow.touch(element, Action::Read, &clock, site), Err);
                        if let Err(write) = raced {
                            let hint = format!(
                                "thread {} {} this before thread {} has waited for its asynchronous copy of it: is \
                                 `copy::wait` missing before a barrier?",
                                write.thread,
                                verb(write.action).0,
                                self.id
                            );
                            let place = Place { array: name, index: element, shared: false };
                            Raised::race(place, write, Action::Copy, site, hint).raise();
                        }
                    }
                }
            }
        }
    }

    /// An atomic operation on `size` bytes of shared memory. Returns the old value.
    #[track_caller]
    pub fn update_shared(&self, address: u32, size: u32, atomic: Atomic, update: impl FnOnce(u64) -> u64) -> u64 {
        self.update_shared_of(self.block(), address, size, atomic, update)
    }

    /// The same for the shared memory of a block, this one or another of the cluster.
    #[track_caller]
    fn update_shared_of(
        &self,
        block: &Block,
        address: u32,
        size: u32,
        atomic: Atomic,
        update: impl FnOnce(u64) -> u64,
    ) -> u64 {
        let site = Location::caller();
        self.competes();
        let launch = self.launch();
        let shared = || block.shared.borrow();
        // The value before it, if it has one.
        let present = (launch.reads_older() && shared().has_value(address, size)).then(|| shared().load(address, size));
        if !atomic.reads {
            block.shared.borrow_mut().set_written(address, size);
        }
        let writes = atomic.writes
            && atomic.expected.is_none_or(|expected| {
                self.expect_value(|| shared().has_value(address, size), site, || shared().place(address, size));
                shared().load(address, size) == expected
            });
        // All threads with access are of the block, but in a cluster.
        let wide = atomic.scope != Scope::Block || block.cluster.is_none();
        let action = match (wide, writes) {
            (true, true) => Action::Atomic,
            (true, false) => Action::AtomicRead,
            (false, true) => Action::BlockAtomic,
            (false, false) => Action::BlockRead,
        };
        let mut shared = self.shared_of(block, address, size, action, site);
        let first = words(address, size).start;
        let (other, missed) = shared.shadow.signal(first, &self.clock.borrow(), wide);
        if atomic.reads {
            self.hear(other, missed);
        }
        let mut clock = self.clock.borrow_mut();
        let mut older = None;
        if !atomic.writes && launch.reads_older() && launch.draw(4) == 0 {
            older = shared.shadow.older(first, &clock);
        }
        if let Some(older) = older {
            shared.shadow.synchronise_older(first, atomic.order, wide, &mut clock);
            drop((shared, clock));
            self.atomic_step(false, atomic, site, Target::Shared { block, address, size });
            return older;
        }
        let before = present.filter(|_| writes);
        shared.shadow.synchronise(first, (atomic.reads, writes), before, atomic.order, wide, &mut clock);
        let old = shared.load(address, size);
        let new = update(old);
        shared.store(address, size, new);
        drop((shared, clock));
        self.atomic_step(new != old, atomic, site, Target::Shared { block, address, size });
        old
    }
}

/// "writes", "written".
fn verb(action: Action) -> (&'static str, &'static str) {
    match action {
        Action::Read | Action::AtomicRead | Action::BlockRead => ("reads", "read"),
        Action::Write => ("writes", "written"),
        Action::Atomic | Action::BlockAtomic => ("updates", "updated"),
        Action::Peek => ("peeks at", "peeked at"),
        Action::Mark => ("marks", "marked"),
        Action::Copy => ("copies to", "copied to"),
    }
}

/// Adds what the thread of `clock` has acquired.
#[inline]
pub(crate) fn join(joined: &mut Option<Arc<Knowledge>>, clock: &Clock) {
    let Some(acquired) = &clock.acquired else { return };
    match joined {
        None => *joined = Some(acquired.clone()),
        Some(joined) if Arc::ptr_eq(joined, acquired) => {}
        Some(joined) => Arc::make_mut(joined).join(acquired),
    }
}

/// What all of these threads have acquired.
pub(crate) fn joined<'a>(threads: impl Iterator<Item = &'a Thread>) -> Option<Arc<Knowledge>> {
    let mut joined = None;
    threads.for_each(|thread| join(&mut joined, &thread.clock.borrow()));
    joined
}
