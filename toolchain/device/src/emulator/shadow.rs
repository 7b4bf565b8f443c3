//! The accesses to each element of a memory that the next access might race with.
//!
//! Most elements need the last plain write and the last read only: 16 bytes. What further accesses need is kept apart.
//! Pages of elements are allocated at their first access. They are forgotten when a thread of a later launch touches them,
//! which knows all their accesses.

use std::collections::HashMap;
use std::panic::Location;

use super::clock::{Action, Clock, Knowledge, Released, Stamp};
use super::sites;
use crate::device::atomic::Ordering;

/// Elements per page.
const PAGE: usize = 128;

/// A plain access in 8 bytes: zero if there was none, or else, from the most significant bit on,
///
/// - 0; the block, as its serial number minus that of the page; the time; the number of the site; the thread; 1 for an
///   asynchronous copy. Or, if one of these needs more bits,
/// - 1; an index of [`Wide`]; the thread; 1 for an asynchronous copy.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Word(u64);

impl Word {
    const NONE: Self = Self(0);

    const THREAD: u32 = 1;
    const SITE: u32 = Self::THREAD + 10;
    const TIME: u32 = Self::SITE + 14;
    const BLOCK: u32 = Self::TIME + 18;
    const WIDE: u32 = Self::BLOCK + 20;

    /// The word of the access, if its parts are small enough.
    #[inline(always)]
    fn pack(block: u64, time: u32, site: u32, thread: u16, copy: bool) -> Option<Self> {
        let fits = block >> (Self::WIDE - Self::BLOCK) == 0
            && time >> (Self::BLOCK - Self::TIME) == 0
            && site >> (Self::TIME - Self::SITE) == 0;
        let word = block << Self::BLOCK
            | u64::from(time) << Self::TIME
            | u64::from(site) << Self::SITE
            | u64::from(thread) << Self::THREAD
            | u64::from(copy);
        fits.then_some(Self(word))
    }

    fn wide(index: u32, thread: u16, copy: bool) -> Self {
        let word = 1 << Self::WIDE | u64::from(index) << Self::SITE;
        Self(word | u64::from(thread) << Self::THREAD | u64::from(copy))
    }

    /// The bits from `from` up to `to`.
    #[inline(always)]
    fn bits(self, from: u32, to: u32) -> u64 {
        (self.0 >> from) & ((1 << (to - from)) - 1)
    }

    #[inline(always)]
    fn is_wide(self) -> bool {
        self.0 >> Self::WIDE != 0
    }

    /// The index of a wide word.
    fn index(self) -> usize {
        self.bits(Self::SITE, Self::WIDE) as usize
    }

    #[inline(always)]
    fn thread(self) -> u16 {
        self.bits(Self::THREAD, Self::SITE) as u16
    }

    #[inline(always)]
    fn is_copy(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The block, time and site of accesses whose words cannot hold them.
struct Wide {
    stamps: Vec<Stamp>,
    indices: HashMap<(u64, u32, &'static Location<'static>), u32>,
    /// Length at which the next search for forgotten accesses takes place.
    full: usize,
}

impl Default for Wide {
    fn default() -> Self {
        Self { stamps: Vec::new(), indices: HashMap::new(), full: 1 << 16 }
    }
}

impl Wide {
    #[cold]
    fn word(&mut self, stamp: Stamp) -> Word {
        let Some(site) = stamp.site else { return Word::NONE };
        let index = *self.indices.entry((stamp.block, stamp.time, site)).or_insert_with(|| {
            self.stamps.push(stamp);
            self.stamps.len() as u32 - 1
        });
        Word::wide(index, stamp.thread, stamp.action == Action::Copy)
    }
}

/// The plain accesses to one element that are not followed by an ordered write.
#[derive(Clone, Copy)]
struct Cell {
    /// The last write.
    write: Word,
    /// The last read.
    read: Word,
}

impl Cell {
    const NONE: Self = Self { write: Word::NONE, read: Word::NONE };
}

struct Page {
    /// Largest serial number of a block that has accessed the page.
    newest: u64,
    /// Serial number of block 0 in the words.
    base: u64,
    /// Indices plus 1 of the further accesses to each element; 0 if there are none.
    more: Option<Box<[u32; PAGE]>>,
    cells: [Cell; PAGE],
}

impl Page {
    fn new() -> Box<Self> {
        Box::new(Self { newest: 0, base: 0, more: None, cells: [Cell::NONE; PAGE] })
    }

    /// Forgets all accesses.
    #[cold]
    fn clear(&mut self, pool: &mut Pool, base: u64) {
        self.cells.fill(Cell::NONE);
        self.base = base;
        for index in self.more.iter_mut().flat_map(|more| more.iter_mut()) {
            pool.remove(index);
        }
    }

    /// Counts blocks from `base` on, and forgets accesses of blocks before it.
    #[cold]
    fn rebase(&mut self, base: u64, wide: &mut Wide) {
        for k in 0..PAGE {
            let Cell { write, read } = self.cells[k];
            let mut word = |word, action| {
                let stamp = self.stamp(word, action, wide);
                if stamp.block < base { Word::NONE } else { word_of(stamp, base, wide) }
            };
            self.cells[k] = Cell { write: word(write, Action::Write), read: word(read, Action::Read) };
        }
        self.base = base;
    }

    /// The access of a word: a read, or a write or an asynchronous copy.
    fn stamp(&self, word: Word, action: Action, wide: &Wide) -> Stamp {
        if word == Word::NONE {
            return Stamp::NONE;
        }
        let action = if word.is_copy() { Action::Copy } else { action };
        let thread = word.thread();
        if word.is_wide() {
            return Stamp { thread, action, ..wide.stamps[word.index()] };
        }
        let site = sites::location(word.bits(Word::SITE, Word::TIME) as u32);
        let (block, time) = self.block_and_time(word);
        Stamp { site: Some(site), block, time, thread, action }
    }

    /// The read of a word.
    fn group(&self, word: Word, wide: &Wide) -> Group {
        let thread = word.thread();
        let (block, time, site) = if word.is_wide() {
            let stamp = &wide.stamps[word.index()];
            (stamp.block, stamp.time, stamp.site.map_or(0, sites::number))
        } else {
            let (block, time) = self.block_and_time(word);
            (block, time, word.bits(Word::SITE, Word::TIME) as u32)
        };
        Group { block, time, site, lanes: 1 << (thread % 32), first: thread }
    }

    /// Of a word that is not wide.
    #[inline(always)]
    fn block_and_time(&self, word: Word) -> (u64, u32) {
        (self.base + word.bits(Word::BLOCK, Word::WIDE), word.bits(Word::TIME, Word::BLOCK) as u32)
    }

    /// Whether the access happens before the present, which has the word `now`.
    #[inline(always)]
    fn knows(&self, word: Word, now: Word, clock: &Clock, wide: &Wide) -> bool {
        // Equal blocks and threads, if no word is wide.
        const SAME: u64 = (u64::MAX << Word::BLOCK) | (1 << Word::SITE) - (1 << Word::THREAD);
        if word == Word::NONE {
            return true;
        }
        if word.is_wide() {
            return clock.knows(&self.stamp(word, Action::Read, wide));
        }
        if (word.0 ^ now.0) & SAME == 0 {
            return true;
        }
        let (block, time) = self.block_and_time(word);
        clock.knows_access(block, word.thread(), time)
    }
}

/// The word of an access, on a page whose words count blocks from `base` on.
#[inline(always)]
fn word_of(stamp: Stamp, base: u64, wide: &mut Wide) -> Word {
    let site = stamp.site.map_or(0, sites::number);
    let block = stamp.block.wrapping_sub(base);
    Word::pack(block, stamp.time, site, stamp.thread, stamp.action == Action::Copy).unwrap_or_else(|| wide.word(stamp))
}

#[derive(Default)]
struct More {
    /// Largest serial number of a block in the lists.
    newest: u64,
    /// Reads besides the last one.
    reads: Readers,
    /// Atomic operations, peeks and marks.
    atomics: Accesses,
    released: Released,
}

/// The further accesses to elements, by index.
#[derive(Default)]
struct Pool {
    entries: Vec<More>,
    free: Vec<u32>,
}

impl Pool {
    /// The further accesses of an element. `index` is 0 if there are none yet.
    fn get_or_insert(&mut self, index: &mut u32) -> &mut More {
        if *index == 0 {
            *index = self.free.pop().unwrap_or_else(|| {
                self.entries.push(More::default());
                self.entries.len() as u32
            });
        }
        &mut self.entries[*index as usize - 1]
    }

    fn get(&self, index: u32) -> Option<&More> {
        (index > 0).then(|| &self.entries[index as usize - 1])
    }

    /// Forgets the further accesses of an element.
    fn remove(&mut self, index: &mut u32) {
        if *index > 0 {
            let more = &mut self.entries[*index as usize - 1];
            more.newest = 0;
            more.reads.groups.clear();
            more.reads.full = 0;
            more.atomics.list.clear();
            more.atomics.full = 0;
            more.released = Released::default();
            self.free.push(*index);
            *index = 0;
        }
    }
}

/// Reads of one element.
#[derive(Default)]
struct Readers {
    groups: Vec<Group>,
    /// Length at which the next search for superseded reads takes place.
    full: usize,
}

/// The same read by lanes of one warp, at one time.
struct Group {
    block: u64,
    time: u32,
    /// The number of the site.
    site: u32,
    lanes: u32,
    /// One of the threads, which is the first in reports.
    first: u16,
}

impl Group {
    fn same(&self, other: &Self) -> bool {
        let (warp, other_warp) = (self.first / 32, other.first / 32);
        (self.block, self.time, self.site, warp) == (other.block, other.time, other.site, other_warp)
    }

    fn threads(&self) -> impl Iterator<Item = u16> {
        let lanes = (0..32).filter(|lane| self.lanes & (1 << lane) != 0);
        let warp = self.first / 32;
        [self.first].into_iter().chain(lanes.map(move |lane| warp * 32 + lane))
    }

    /// The threads whose reads do not happen before the present.
    fn unordered(&self, clock: &Clock) -> impl Iterator<Item = u16> {
        let Self { block, time, .. } = *self;
        let all = clock.knows_block_at(block, time);
        self.threads().filter(move |&thread| !all && !clock.knows_access(block, thread, time))
    }
}

impl Readers {
    /// Groups in which a read is looked for.
    const RECENT: usize = 4;

    /// Adds the reads of a group, by the thread of `clock` or earlier ones.
    fn add(&mut self, group: Group, clock: &Clock) {
        if let Some(same) = self.groups.iter_mut().rev().take(Self::RECENT).find(|other| other.same(&group)) {
            same.lanes |= group.lanes;
            return;
        }
        // A later read of the same thread supersedes an earlier one.
        if let Some(last) = self.groups.last_mut()
            && (last.block, last.first, last.lanes) == (group.block, group.first, group.lanes)
        {
            *last = group;
            return;
        }
        if self.groups.len() >= self.full.max(16) {
            self.groups.retain_mut(|group| {
                let Some(first) = group.unordered(clock).next() else { return false };
                group.lanes = group.unordered(clock).fold(0, |lanes, thread| lanes | 1 << (thread % 32));
                group.first = first;
                true
            });
            self.full = 2 * self.groups.len();
        }
        self.groups.push(group);
    }

    /// A read that does not happen before the present.
    fn unordered(&self, clock: &Clock) -> Option<Stamp> {
        self.groups.iter().find_map(|group| {
            let thread = group.unordered(clock).next()?;
            let site = Some(sites::location(group.site));
            Some(Stamp { site, block: group.block, time: group.time, thread, action: Action::Read })
        })
    }
}

/// A set of accesses, none of which is known to happen before another one.
#[derive(Default)]
struct Accesses {
    list: Vec<Stamp>,
    /// Length at which the next search for superseded accesses takes place.
    full: usize,
}

impl Accesses {
    /// Adds an access of the thread of `clock`, or an earlier one.
    fn add(&mut self, stamp: Stamp, clock: &Clock) {
        // A later access of the same thread, or of one that knows the earlier access, supersedes it, but a read does not
        // supersede a write.
        let stronger = |earlier: &Stamp| stamp.action.writes() || !earlier.action.writes();
        if let Some(last) = self.list.last_mut()
            && last.same_thread(&stamp)
            && stronger(last)
        {
            *last = stamp;
            return;
        }
        if self.list.len() >= self.full.max(16) {
            self.list.retain(|access| !clock.knows(access) || !stronger(access));
            self.full = 2 * self.list.len();
        }
        self.list.push(stamp);
    }

    fn unordered(&self, clock: &Clock) -> Option<Stamp> {
        self.list.iter().find(|access| !clock.knows(access)).copied()
    }
}

/// The accesses to the elements of a memory.
#[derive(Default)]
pub(crate) struct Shadow {
    pages: Vec<Option<Box<Page>>>,
    pool: Pool,
    wide: Wide,
}

impl Shadow {
    /// Forgets all accesses.
    pub fn reset(&mut self) {
        // The next access clears the page.
        self.pages.iter_mut().flatten().for_each(|page| page.newest = 0);
    }

    /// The page of an element, without accesses that all threads of the launch know.
    #[inline(always)]
    fn page<'a>(pages: &'a mut Vec<Option<Box<Page>>>, pool: &mut Pool, element: usize, clock: &Clock) -> &'a mut Page {
        let number = element / PAGE;
        if number >= pages.len() {
            pages.resize_with(number + 1, || None);
        }
        let page = pages[number].get_or_insert_with(Page::new);
        if page.newest < clock.horizon {
            page.clear(pool, clock.horizon);
        }
        page
    }

    /// Forgets accesses in `wide` that all threads of the launch know, or that no element has any more.
    #[cold]
    fn sweep(&mut self, horizon: u64) {
        let old = std::mem::take(&mut self.wide);
        let words = self.pages.iter_mut().flatten().flat_map(|page| &mut page.cells);
        for word in words.flat_map(|cell| [&mut cell.write, &mut cell.read]).filter(|word| word.is_wide()) {
            let action = if word.is_copy() { Action::Copy } else { Action::Read };
            let stamp = Stamp { thread: word.thread(), action, ..old.stamps[word.index()] };
            *word = if stamp.block < horizon { Word::NONE } else { self.wide.word(stamp) };
        }
        self.wide.full = self.wide.full.max(2 * self.wide.stamps.len());
    }

    /// Records an access. Returns an earlier one that races with it.
    pub fn touch(
        &mut self,
        element: usize,
        action: Action,
        clock: &Clock,
        site: &'static Location<'static>,
    ) -> Result<(), Stamp> {
        if self.wide.stamps.len() >= self.wide.full {
            self.sweep(clock.horizon);
        }
        let Self { pages, pool, wide } = self;
        let page = Self::page(pages, pool, element, clock);
        page.newest = page.newest.max(clock.block);
        let stamp = clock.stamp(action, site);
        if stamp.block.wrapping_sub(page.base) >> (Word::WIDE - Word::BLOCK) != 0 && page.base < clock.horizon {
            page.rebase(clock.horizon, wide);
        }
        let now = word_of(stamp, page.base, wide);
        let slot = element % PAGE;
        let Cell { write, read } = page.cells[slot];
        if !page.knows(write, now, clock, wide) || write.is_copy() {
            let write = page.stamp(write, Action::Write, wide);
            if !clock.knows(&write) || write.block >= clock.settled {
                return Err(write);
            }
        }
        let knows_read = page.knows(read, now, clock, wide);
        let further = match &mut page.more {
            None => None,
            Some(more) => {
                let index = &mut more[slot];
                if *index > 0 && pool.entries[*index as usize - 1].newest < clock.horizon {
                    pool.remove(index);
                }
                (*index > 0).then_some(index)
            }
        };
        match action {
            Action::Read => {
                if let Some(index) = &further {
                    let atomics = &pool.entries[**index as usize - 1].atomics.list;
                    let change = atomics.iter().find(|other| other.action.writes() && !clock.knows(other));
                    change.map_or(Ok(()), |change| Err(*change))?;
                }
                if !knows_read {
                    let earlier = page.group(read, wide);
                    let index = &mut page.more.get_or_insert_with(|| Box::new([0; PAGE]))[slot];
                    let more = pool.get_or_insert(index);
                    more.newest = more.newest.max(stamp.block).max(earlier.block);
                    more.reads.add(earlier, clock);
                }
                page.cells[slot].read = now;
            }
            Action::Write | Action::Copy => {
                if !knows_read {
                    return Err(page.stamp(read, Action::Read, wide));
                }
                if let Some(index) = further {
                    let more = &pool.entries[*index as usize - 1];
                    let earlier = more.reads.unordered(clock).or_else(|| more.atomics.unordered(clock));
                    earlier.map_or(Ok(()), Err)?;
                    pool.remove(index);
                }
                page.cells[slot] = Cell { write: now, read: Word::NONE };
            }
            Action::Atomic | Action::BlockAtomic | Action::AtomicRead | Action::Peek | Action::Mark => {
                if action.writes() && !knows_read {
                    return Err(page.stamp(read, Action::Read, wide));
                }
                let index = &mut page.more.get_or_insert_with(|| Box::new([0; PAGE]))[slot];
                let more = pool.get_or_insert(index);
                let conflict =
                    |other: &&Stamp| action.conflicts(other.action, other.block == stamp.block) && !clock.knows(other);
                let reads = if action.writes() { more.reads.unordered(clock) } else { None };
                let earlier = reads.or_else(|| more.atomics.list.iter().find(conflict).copied());
                earlier.map_or(Ok(()), Err)?;
                more.newest = more.newest.max(stamp.block);
                more.atomics.add(stamp, clock);
            }
        }
        Ok(())
    }

    /// Records a read of a view that no thread of the launch writes. Returns a write of another launch that races with it.
    ///
    /// One reader is enough: a write of the next launch is ordered after all of them or after none.
    pub fn touch_read_only(
        &mut self,
        element: usize,
        clock: &Clock,
        site: &'static Location<'static>,
    ) -> Result<(), Stamp> {
        let Self { pages, pool, wide } = self;
        let page = Self::page(pages, pool, element, clock);
        page.newest = page.newest.max(clock.block);
        let slot = element % PAGE;
        let write = page.stamp(page.cells[slot].write, Action::Write, wide);
        if !clock.knows(&write) {
            return Err(write);
        }
        let more = page.more.as_ref().and_then(|more| pool.get(more[slot]));
        if let Some(atomic) = more.and_then(|more| more.atomics.unordered(clock)) {
            return Err(atomic);
        }
        page.cells[slot].read = word_of(clock.stamp(Action::Read, site), page.base, wide);
        Ok(())
    }

    /// The further accesses of an element.
    fn more(&self, element: usize) -> Option<&More> {
        let page = self.pages.get(element / PAGE)?.as_ref()?;
        self.pool.get(page.more.as_ref()?[element % PAGE])
    }

    fn more_mut(&mut self, element: usize) -> Option<&mut More> {
        let page = self.pages.get(element / PAGE)?.as_ref()?;
        let index = page.more.as_ref()?[element % PAGE] as usize;
        self.pool.entries.get_mut(index.checked_sub(1)?)
    }

    /// A mark of another thread that is not ordered before the present.
    pub fn unordered_mark(&self, element: usize, clock: &Clock) -> Option<Stamp> {
        let marks = |stamp: &&Stamp| stamp.action == Action::Mark && !clock.knows(stamp);
        self.more(element)?.atomics.list.iter().find(marks).copied()
    }

    /// The effect of an atomic operation on happens-before, after [`touch`](Self::touch). `reads` and `writes`: whether
    /// the operation does.
    pub fn synchronise(
        &mut self,
        element: usize,
        (reads, writes): (bool, bool),
        order: Ordering,
        wide: bool,
        clock: &mut Clock,
    ) {
        let Some(more) = self.more_mut(element) else { return };
        if reads {
            let seen = more.released.seen_by(clock.block, wide);
            if matches!(order, Ordering::Relaxed | Ordering::Release) {
                clock.observe(&seen);
            } else {
                clock.acquire(&seen);
            }
        } else {
            // A store, unlike a read-modify-write operation, ends the releases before it.
            more.released = Released::default();
        }
        if writes {
            if matches!(order, Ordering::Relaxed | Ordering::Acquire) {
                if let Some(fenced) = &clock.fenced {
                    more.released.add(clock.block, wide, fenced);
                }
            } else {
                let known = clock.publish();
                more.released.add(clock.block, wide, &known);
            }
        }
    }

    /// Ends the asynchronous copy by this thread to an element: it is a write of now.
    pub fn end_copy(&mut self, element: usize, clock: &Clock) {
        let Some(Some(page)) = self.pages.get_mut(element / PAGE) else { return };
        let slot = element % PAGE;
        let write = page.stamp(page.cells[slot].write, Action::Write, &self.wide);
        if write.action == Action::Copy && write.block == clock.block && write.thread == clock.thread {
            let write = Stamp { action: Action::Write, time: clock.time, ..write };
            page.cells[slot].write = word_of(write, page.base, &mut self.wide);
        }
    }

    /// For hints: the last atomic operation of another thread on the element, and the releases that this operation
    /// does not see because of a scope.
    pub fn signal(&self, element: usize, clock: &Clock, wide: bool) -> (Option<Stamp>, Option<Knowledge>) {
        let Some(more) = self.more(element) else { return (None, None) };
        let other =
            |stamp: &&Stamp| stamp.action.writes() && (stamp.thread != clock.thread || stamp.block != clock.block);
        let other = more.atomics.list.iter().rev().take(4).find(other);
        (other.copied(), more.released.unseen_by(clock.block, wide))
    }

    /// The last plain write or atomic operation; it need not have changed the value.
    pub fn last_change(&self, element: usize) -> Option<Stamp> {
        let page = self.pages.get(element / PAGE)?.as_ref()?;
        let write = page.stamp(page.cells[element % PAGE].write, Action::Write, &self.wide);
        let atomics = self.more(element).map(|more| &more.atomics.list);
        let changes = atomics.into_iter().flatten().chain([&write]);
        changes.filter(|stamp| stamp.action.writes()).max_by_key(|stamp| stamp.block).copied()
    }
}
