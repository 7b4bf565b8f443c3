//! The emulated CUDA thread, as the device library uses it.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;

use corosensei::Yielder;

use super::fault::{self, Kind};
use super::shared::{Now, SharedMemory};
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
    Ballot,
    MatchAny,
    ReduceAdd,
    ReduceMax,
    ReduceMin,
    Mma,
}

/// The point at which a thread waits.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    Barrier { site: &'static Location<'static>, predicate: bool },
    Warp { site: &'static Location<'static>, op: WarpOp, mask: u32, value: u64 },
}

/// A block: state that its threads share.
pub struct Block {
    /// Index in the grid.
    pub index: Dim3,
    /// Shape of the launch.
    pub shape: Shape,
    pub(crate) shared: RefCell<SharedMemory>,
    /// Number of completed barriers.
    pub(crate) epoch: Cell<u32>,
}

/// A thread of a block.
pub struct Thread {
    pub(crate) id: u32,
    pub(crate) block: *const Block,
    pub(crate) yielder: Cell<*const Yielder<(), Wait>>,
    /// Vector clock over the lanes of the warp.
    pub(crate) clock: RefCell<[u32; 32]>,
    /// Result of the last barrier: threads with a true predicate.
    pub(crate) count: Cell<u32>,
    /// Values of the lanes in the last exchange.
    pub(crate) lanes: Cell<[u64; 32]>,
}

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// Sets the thread that [`current`] returns, and returns the former one.
pub(crate) fn enter(thread: *const Thread) -> *const Thread {
    CURRENT.replace(thread)
}

/// The running emulated thread.
///
/// # Panics
/// If no kernel is running: host code has called a device primitive.
#[must_use]
pub fn current() -> &'static Thread {
    let thread = CURRENT.get();
    assert!(!thread.is_null(), "host code called a device primitive, which only works inside a kernel");
    // SAFETY: `Runner::step` sets the pointer to a thread that outlives the call, and resets it afterwards. A kernel
    // cannot keep the reference: the views that it writes to accept `DeviceCopy` types only, which contain no
    // references.
    unsafe { &*thread }
}

impl Thread {
    /// Index in the block.
    #[must_use]
    pub fn index(&self) -> Dim3 {
        let block = self.block().shape.block;
        Dim3 { x: self.id % block.x, y: self.id / block.x % block.y, z: self.id / (block.x * block.y) }
    }

    /// The block.
    #[must_use]
    pub fn block(&self) -> &Block {
        // SAFETY: `Runner` owns the block and drops its threads first.
        unsafe { &*self.block }
    }

    fn wait(&self, wait: Wait) {
        // SAFETY: `Runner::start` sets the pointer before the kernel's code runs. The yielder lives as long as the
        // coroutine, which is executing this call.
        unsafe { (*self.yielder.get()).suspend(wait) };
    }

    /// Waits at a block-wide barrier. Returns the number of threads whose `predicate` is true.
    #[track_caller]
    pub fn barrier(&self, predicate: bool) -> u32 {
        self.wait(Wait::Barrier { site: Location::caller(), predicate });
        self.count.get()
    }

    /// Passes `value` to the lanes of `mask`, and returns the values of all lanes; 0 outside of the mask.
    #[track_caller]
    pub fn exchange(&self, op: WarpOp, mask: u32, value: u64) -> [u64; 32] {
        let lane = self.id % 32;
        if mask & (1 << lane) == 0 {
            fault::raise(Kind::LaneOutsideMask { lane, mask });
        }
        self.wait(Wait::Warp { site: Location::caller(), op, mask, value });
        self.lanes.get()
    }

    /// The address of a static shared array of `bytes` bytes.
    #[must_use]
    pub fn static_shared(&self, site: usize, bytes: u32) -> u32 {
        self.block().shared.borrow_mut().static_array(site, bytes)
    }

    /// Reads `size` bytes of shared memory.
    #[track_caller]
    pub fn load_shared(&self, address: u32, size: u32) -> u64 {
        self.block().shared.borrow_mut().load(address, size, self.now(&self.clock.borrow()), Location::caller())
    }

    /// Writes `size` bytes of shared memory.
    #[track_caller]
    pub fn store_shared(&self, address: u32, size: u32, raw: u64) {
        self.block().shared.borrow_mut().store(address, size, raw, self.now(&self.clock.borrow()), Location::caller());
    }

    /// Replaces `size` bytes of shared memory atomically. Returns the old value.
    #[track_caller]
    pub fn update_shared(&self, address: u32, size: u32, update: impl FnOnce(u64) -> u64) -> u64 {
        let now = &self.clock.borrow();
        self.block().shared.borrow_mut().update(address, size, update, self.now(now), Location::caller())
    }

    fn now<'a>(&self, clock: &'a [u32; 32]) -> Now<'a> {
        Now { thread: self.id, epoch: self.block().epoch.get(), clock }
    }
}
