//! An emulated CUDA thread, as the device library sees it.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;

use corosensei::Yielder;

use super::fault::{self, Kind};
use super::shared::{Now, SharedMemory};
use crate::launch::{Dim3, Shape};

/// The warp operations. Lanes that meet must execute the same one.
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

/// What a thread waits for.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    Barrier { site: &'static Location<'static>, predicate: bool },
    Warp { site: &'static Location<'static>, op: WarpOp, mask: u32, value: u64 },
}

/// What the threads of a block share.
pub struct Block {
    /// Index in the grid.
    pub index: Dim3,
    /// Shape of the launch.
    pub shape: Shape,
    pub(crate) shared: RefCell<SharedMemory>,
    /// Barriers passed so far.
    pub(crate) epoch: Cell<u32>,
}

/// A thread of a block.
pub struct Thread {
    pub(crate) id: u32,
    pub(crate) block: *const Block,
    pub(crate) yielder: Cell<*const Yielder<(), Wait>>,
    /// What this thread has seen of the lanes of its warp.
    pub(crate) clock: RefCell<[u32; 32]>,
    /// What the last barrier counted.
    pub(crate) count: Cell<u32>,
    /// What the lanes gave in the last exchange.
    pub(crate) lanes: Cell<[u64; 32]>,
}

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// Makes `thread` the one that [`current`] gives, and returns the one before.
pub(crate) fn enter(thread: *const Thread) -> *const Thread {
    CURRENT.replace(thread)
}

/// The emulated thread that is running.
///
/// # Panics
/// If no kernel is running here: a device primitive was called from host code.
#[must_use]
pub fn current() -> &'static Thread {
    let thread = CURRENT.get();
    assert!(!thread.is_null(), "a device primitive was called outside of a kernel");
    // SAFETY: the scheduler sets the pointer to a thread that lives until it is reset, and no kernel can keep the
    // reference beyond that: kernels store only plain data.
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
        // SAFETY: a block outlives its threads.
        unsafe { &*self.block }
    }

    fn wait(&self, wait: Wait) {
        // SAFETY: the scheduler sets the pointer when the thread starts, and the yielder lives as long as the thread.
        unsafe { (*self.yielder.get()).suspend(wait) };
    }

    /// Waits at a block-wide barrier; the number of threads whose `predicate` was true.
    #[track_caller]
    pub fn barrier(&self, predicate: bool) -> u32 {
        self.wait(Wait::Barrier { site: Location::caller(), predicate });
        self.count.get()
    }

    /// Gives `value` to the lanes of `mask`, and gets theirs.
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

    /// Replaces `size` bytes of shared memory atomically; the old ones.
    #[track_caller]
    pub fn update_shared(&self, address: u32, size: u32, update: impl FnOnce(u64) -> u64) -> u64 {
        let now = &self.clock.borrow();
        self.block().shared.borrow_mut().update(address, size, update, self.now(now), Location::caller())
    }

    fn now<'a>(&self, clock: &'a [u32; 32]) -> Now<'a> {
        Now { thread: self.id, epoch: self.block().epoch.get(), clock }
    }
}
