//! Happens-before by vector clocks.
//!
//! Each thread has a time, which grows with every operation that publishes its accesses. An access is a [`Stamp`]: its
//! block, thread and time. It happens before the present of another thread if that thread *knows* its time. Knowledge
//! comes from five sources:
//!
//! - the end of a launch: every thread knows all earlier launches; in an overlapping launch, only after
//!   [`grid::wait`](crate::device::grid::wait);
//! - a barrier: the threads of a block know each other's accesses up to the *floor*, the common time of the last
//!   barrier, so that a barrier costs one number per thread instead of a vector;
//! - `sync_warp`: a vector of the times of the 32 lanes;
//! - an atomic operation that acquires what another has released to the same element;
//! - a fence after a relaxed atomic operation, of what another thread has published by a fence before one.
//!
//! The first three need no allocation. Only releases and fences copy a sparse clock of all threads, [`Knowledge`].
//! (Flanagan, Freund: *FastTrack*, 2009, for epochs; the PTX memory model for the rules.)

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    /// An atomic operation at device or system scope.
    Atomic,
    /// An atomic operation at block scope.
    BlockAtomic,
    /// An atomic operation at device or system scope that writes nothing.
    AtomicRead,
    /// An atomic operation at block scope that writes nothing.
    BlockRead,
    /// A read that may see the old or the new value of a mark: [`GlobalMut::peek`](crate::device::GlobalMut::peek).
    Peek,
    /// A write of a value that all writers write: [`GlobalMut::mark`](crate::device::GlobalMut::mark).
    Mark,
    /// The write of an asynchronous copy that has not been waited for.
    Copy,
}

impl Action {
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Write,
        Self::Atomic,
        Self::BlockAtomic,
        Self::AtomicRead,
        Self::BlockRead,
        Self::Peek,
        Self::Mark,
        Self::Copy,
    ];

    #[inline]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic | Self::BlockAtomic | Self::AtomicRead | Self::BlockRead)
    }

    /// Whether the action changes the element.
    #[inline]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Peek | Self::AtomicRead | Self::BlockRead)
    }

    /// Whether two concurrent actions, both of the kinds that a set of accesses holds, race.
    #[inline]
    pub const fn conflicts(self, other: Self, same_block: bool) -> bool {
        let ordered = match (self.is_atomic(), other.is_atomic()) {
            (true, true) => same_block || !self.is_narrow() && !other.is_narrow(),
            (false, false) => true,
            _ => false,
        };
        !ordered && (self.writes() || other.writes())
    }

    const fn is_narrow(self) -> bool {
        matches!(self, Self::BlockAtomic | Self::BlockRead)
    }

    /// The kinds of the actions that conflict with this one in some block, one bit each.
    #[inline]
    pub const fn conflicting(self) -> u16 {
        const KINDS: [u16; Action::ALL.len()] = {
            let mut kinds = [0; Action::ALL.len()];
            let mut k = 0;
            while k < kinds.len() * kinds.len() {
                let (one, other) = (Action::ALL[k / kinds.len()], Action::ALL[k % kinds.len()]);
                if one.conflicts(other, false) {
                    kinds[one as usize] |= 1 << other as u16;
                }
                k += 1;
            }
            kinds
        };
        KINDS[self as usize]
    }

    /// Whether every action that conflicts with the earlier action of a thread also conflicts with its later action
    /// `self`, of the same kind of set of accesses.
    pub fn covers(self, earlier: Self) -> bool {
        match earlier {
            Self::AtomicRead => self.is_atomic(),
            Self::BlockRead => matches!(self, Self::BlockRead | Self::BlockAtomic),
            Self::Atomic => matches!(self, Self::Atomic | Self::BlockAtomic),
            Self::Peek => matches!(self, Self::Peek | Self::Mark),
            _ => self == earlier,
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Self::Read => "a read",
            Self::Write => "a write",
            Self::Atomic => "an atomic operation",
            Self::BlockAtomic => "an atomic operation at block scope",
            Self::AtomicRead => "an atomic read",
            Self::BlockRead => "an atomic read at block scope",
            Self::Peek => "a peek",
            Self::Mark => "a mark",
            Self::Copy => "an asynchronous copy",
        }
    }
}

/// An access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub site: Option<&'static Location<'static>>,
    /// Serial number of the block, unique in the process; 0 if there was no access.
    pub block: u64,
    pub time: u32,
    pub thread: u16,
    pub action: Action,
}

impl Stamp {
    pub const NONE: Self = Self { site: None, block: 0, time: 0, thread: 0, action: Action::Read };

    #[inline]
    pub fn same_thread(&self, other: &Self) -> bool {
        self.block == other.block && self.thread == other.thread
    }
}

/// What is known of the threads of one block: all accesses before `floor`, and those of some threads up to a time.
#[derive(Clone, Debug, Default)]
struct View {
    floor: u32,
    threads: BTreeMap<u16, u32>,
}

/// A sparse vector clock over the threads of all blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge(BTreeMap<u64, View>);

impl Knowledge {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the access is known.
    pub fn contains(&self, block: u64, thread: u16, time: u32) -> bool {
        self.0
            .get(&block)
            .is_some_and(|view| time < view.floor || view.threads.get(&thread).is_some_and(|&known| time <= known))
    }

    /// Adds all accesses of a block that is a copy.
    pub fn add_block(&mut self, copy: u64) {
        self.0.entry(copy).or_default().floor = 2;
    }

    pub fn join(&mut self, other: &Self) {
        for (&block, theirs) in &other.0 {
            let view = self.0.entry(block).or_default();
            view.floor = view.floor.max(theirs.floor);
            for (&thread, &time) in &theirs.threads {
                let known = view.threads.entry(thread).or_default();
                *known = time.max(*known);
            }
            let floor = view.floor;
            view.threads.retain(|_, &mut time| time >= floor);
        }
    }
}

/// The releases to one element, by the scope in which they are visible.
#[derive(Debug, Default)]
pub(crate) struct Released {
    /// For acquiring operations at device or system scope.
    wide: Knowledge,
    /// For acquiring operations of the same block.
    by_block: BTreeMap<u64, Knowledge>,
    /// Whether some releases are at block scope.
    narrow: bool,
}

impl Released {
    pub fn is_empty(&self) -> bool {
        self.by_block.is_empty()
    }

    /// Adds what a thread of `block` has published.
    pub fn add(&mut self, block: u64, wide: bool, knowledge: &Knowledge) {
        if wide {
            self.wide.join(knowledge);
        }
        self.narrow |= !wide;
        self.by_block.entry(block).or_default().join(knowledge);
    }

    /// What a thread of `block` learns.
    pub fn seen_by(&self, block: u64, wide: bool) -> Knowledge {
        let mut seen = if wide { self.wide.clone() } else { Knowledge::default() };
        if let Some(own) = self.by_block.get(&block) {
            seen.join(own);
        }
        seen
    }

    /// The releases of other blocks that a thread of `block` does not learn because of a scope; `None` if there are none.
    pub fn unseen_by(&self, block: u64, wide: bool) -> Option<Knowledge> {
        let narrow = !wide || self.narrow;
        let others = || self.by_block.iter().filter(|&(&publisher, _)| publisher != block);
        (narrow && others().next().is_some()).then(|| {
            let mut unseen = Knowledge::default();
            others().for_each(|(_, knowledge)| unseen.join(knowledge));
            unseen
        })
    }
}

/// A release of a thread to one element. Later atomic writes of the thread to the element pass it on, whatever their order
/// (the *release pattern* of the PTX memory model).
///
/// A kernel may release to many elements, so this is less than a [`Knowledge`] each.
#[derive(Debug)]
struct Release {
    wide: bool,
    /// What the thread had acquired.
    acquired: Option<Arc<Knowledge>>,
    own: Own,
}

/// What a thread knows of its block by barriers and `sync_warp`.
#[derive(Debug)]
struct Own {
    block: u64,
    floor: u32,
    thread: u16,
    time: u32,
    /// Known times of the lanes of its warp, if there are others.
    lanes: Option<Box<[u32; 32]>>,
}

impl Own {
    /// With what the thread had acquired.
    fn and(&self, acquired: Option<&Knowledge>) -> Knowledge {
        let Self { block, floor, thread, time, ref lanes } = *self;
        let base = thread / 32 * 32;
        let others = lanes.iter().flat_map(|lanes| (base..).zip(**lanes));
        let times = others.chain([(thread, time)]).filter(|&(_, time)| time >= floor);
        let own = Knowledge(BTreeMap::from([(block, View { floor, threads: times.collect() })]));
        match acquired {
            Some(acquired) => {
                let mut known = acquired.clone();
                known.join(&own);
                known
            }
            None => own,
        }
    }
}

/// The clock of a thread. The fields that each access needs come first, so that few cache lines are touched.
#[repr(C)]
pub(crate) struct Clock {
    pub block: u64,
    pub time: u32,
    /// The thread knows all accesses of its block before this time.
    pub floor: u32,
    /// The thread knows all accesses of blocks with smaller serial numbers: those of earlier launches.
    pub settled: u64,
    /// All threads of this launch and of later ones know all accesses of blocks with smaller serial numbers.
    pub horizon: u64,
    pub thread: u16,
    /// Whether `sync_warp` has set times of other lanes.
    synced: bool,
    /// What the thread has acquired.
    pub acquired: Option<Arc<Knowledge>>,
    /// The blocks that run [beside](crate::launch::Device::beside) this launch: an exception to `settled`.
    pub beside: Range<u64>,
    /// What the thread knew at its last fence that releases. Its relaxed atomic operations publish this.
    pub fenced: Option<Arc<Knowledge>>,
    /// The same of a fence at block scope after that one.
    pub fenced_in_block: Option<Arc<Knowledge>>,
    /// What its relaxed atomic operations have read since its last fence that acquires. The next one acquires this.
    pub observed: Option<Knowledge>,
    /// The part of it that a fence at block scope acquires.
    observed_in_block: Option<Knowledge>,
    /// The writes before the sequentially consistent fences that precede the last one of the thread: it reads no values
    /// from before them.
    pub sequenced: Option<Knowledge>,
    /// Its last release to each element, by the memory and the element.
    releases: BTreeMap<(usize, usize), Release>,
    /// Known times of the other lanes of its warp, if `synced`.
    lanes: [u32; 32],
}

impl Clock {
    pub fn new(thread: u16) -> Self {
        Self {
            block: 0,
            thread,
            time: 1,
            floor: 1,
            settled: 0,
            horizon: 0,
            beside: 0..0,
            lanes: [0; 32],
            synced: false,
            acquired: None,
            fenced: None,
            fenced_in_block: None,
            observed: None,
            observed_in_block: None,
            sequenced: None,
            releases: BTreeMap::new(),
        }
    }

    /// Begins the thread, in a block.
    #[inline]
    pub fn begin(&mut self, block: u64, settled: u64, beside: Option<&Range<u64>>) {
        self.block = block;
        self.floor = 1;
        self.settled = settled;
        self.horizon = beside.map_or(settled, |beside| beside.start.min(settled));
        self.beside = beside.cloned().unwrap_or_default();
        // Most threads have none of these.
        if self.synced {
            self.lanes = [0; 32];
            self.synced = false;
        }
        if self.acquired.is_some() || self.observed.is_some() {
            (self.acquired, self.observed, self.observed_in_block) = (None, None, None);
        }
        if self.fenced.is_some() || self.fenced_in_block.is_some() || self.sequenced.is_some() {
            (self.fenced, self.fenced_in_block, self.sequenced) = (None, None, None);
        }
        if !self.releases.is_empty() {
            self.releases.clear();
        }
        self.advance(1);
    }

    /// The current access.
    #[inline]
    pub fn stamp(&self, action: Action, site: &'static Location<'static>) -> Stamp {
        Stamp { site: Some(site), block: self.block, time: self.time, thread: self.thread, action }
    }

    /// Whether the access happens before the present.
    #[inline]
    pub fn knows(&self, stamp: &Stamp) -> bool {
        self.knows_access(stamp.block, stamp.thread, stamp.time)
    }

    /// Whether the accesses of a thread of a block up to this time happen before the present.
    #[inline]
    pub fn knows_access(&self, block: u64, thread: u16, time: u32) -> bool {
        let own = block == self.block
            && (time < self.floor
                || thread == self.thread
                || (thread / 32 == self.thread / 32 && time <= self.lanes[usize::from(thread % 32)]));
        own || self.knows_launch(block)
            || self.acquired.as_ref().is_some_and(|acquired| acquired.contains(block, thread, time))
    }

    /// Whether all accesses of a block up to this time are known to happen before the present, whatever its thread.
    #[inline]
    pub fn knows_block_at(&self, block: u64, time: u32) -> bool {
        block == self.block && time < self.floor || self.knows_launch(block)
    }

    /// Whether some access of a thread of another block, and so the start of the block, happens before the present.
    pub fn knows_of(&self, block: u64) -> bool {
        self.acquired.as_ref().is_some_and(|acquired| acquired.0.contains_key(&block))
    }

    /// Whether the block is one of an earlier launch that has ended.
    #[inline]
    fn knows_launch(&self, block: u64) -> bool {
        block < self.settled && !self.beside.contains(&block)
    }

    /// Adds the known times of the lanes of its warp.
    pub fn add_lanes(&self, lanes: &mut [u32; 32]) {
        if self.synced {
            lanes.iter_mut().zip(self.lanes).for_each(|(known, time)| *known = time.max(*known));
        }
        let own = &mut lanes[usize::from(self.thread % 32)];
        *own = self.time.max(*own);
    }

    /// The effect of `sync_warp`: the threads of its mask know the times `lanes` of the warp, and what they have acquired
    /// together.
    pub fn sync_warp(&mut self, lanes: [u32; 32], acquired: &Option<Arc<Knowledge>>) {
        self.lanes = lanes;
        self.synced = true;
        self.advance(self.time + 1);
        self.acquired.clone_from(acquired);
    }

    /// Begins a new time.
    #[inline]
    pub fn advance(&mut self, time: u32) {
        self.time = time;
    }

    /// What the thread knows of its block.
    fn own(&self) -> Own {
        let Self { block, floor, thread, time, synced, lanes, .. } = *self;
        Own { block, floor, thread, time, lanes: synced.then(|| Box::new(lanes)) }
    }

    /// All accesses before now. Later accesses have a later time.
    pub fn publish(&mut self) -> Arc<Knowledge> {
        let known = self.own().and(self.acquired.as_deref());
        self.advance(self.time + 1);
        Arc::new(known)
    }

    /// The clock of a copy that the thread starts, whose serial number is `copy`: a block of its own, which knows what the thread knows.
    pub fn fork(&mut self, copy: u64) -> Self {
        let known = self.publish();
        let (settled, horizon, beside) = (self.settled, self.horizon, self.beside.clone());
        Self { block: copy, settled, horizon, beside, acquired: Some(known), ..Self::new(0) }
    }

    /// Whether the thread knows all of it, and would pass it on.
    fn includes(&self, knowledge: &Knowledge) -> bool {
        knowledge.0.iter().all(|(&block, view)| {
            let own = block == self.block;
            let acquired = self.acquired.as_ref().and_then(|acquired| acquired.0.get(&block));
            let floor = if own { self.floor } else { 0 }.max(acquired.map_or(0, |acquired| acquired.floor));
            let knows = |(&thread, &time): (&u16, &u32)| {
                time < floor
                    || own && thread == self.thread
                    || acquired.and_then(|acquired| acquired.threads.get(&thread)).is_some_and(|&known| time <= known)
            };
            view.floor <= floor && view.threads.iter().all(knows)
        })
    }

    pub fn acquire(&mut self, knowledge: &Knowledge) {
        if !self.includes(knowledge) {
            Arc::make_mut(self.acquired.get_or_insert_default()).join(knowledge);
        }
    }

    /// Publishes all accesses before now to those who read a value that this thread writes to `cell`, now or later.
    pub fn release(&mut self, cell: (usize, usize), wide: bool) -> Arc<Knowledge> {
        self.releases.insert(cell, Release { wide, acquired: self.acquired.clone(), own: self.own() });
        self.publish()
    }

    /// What the thread has released to `cell`, and whether at device or system scope.
    pub fn released_to(&self, cell: (usize, usize)) -> Option<(bool, Knowledge)> {
        let release = self.releases.get(&cell)?;
        Some((release.wide, release.own.and(release.acquired.as_deref())))
    }

    /// A fence. Returns all accesses before it.
    pub fn fence(&mut self, order: Ordering, wide: bool) -> Arc<Knowledge> {
        if order != Ordering::Release {
            let in_block = self.observed_in_block.take();
            if let Some(observed) = if wide { self.observed.take() } else { in_block } {
                self.acquire(&observed);
            }
        }
        let known = self.publish();
        if order != Ordering::Acquire {
            self.fenced_in_block = (!wide).then(|| known.clone());
            if wide {
                self.fenced = Some(known.clone());
            }
        }
        known
    }

    /// A relaxed atomic operation has read an element with these releases, and those that count at block scope.
    pub fn observe(&mut self, seen: &Knowledge, in_block: &Knowledge) {
        for (observed, seen) in [(&mut self.observed, seen), (&mut self.observed_in_block, in_block)] {
            if !seen.is_empty() {
                observed.get_or_insert_default().join(seen);
            }
        }
    }
}
