//! The accesses to each element of a memory that the next access might race with.
//!
//! Most elements need the last plain write and the last read only: 16 bytes. What further accesses need is kept apart.
//! Pages of elements are allocated at their first access. They are forgotten when a thread of a later launch touches them,
//! which knows all their accesses.

use std::collections::HashMap;
use std::panic::Location;
use std::ptr;

use super::clock::{Action, Clock, Knowledge, Released, Stamp};
use super::sites;
use crate::device::atomic::Ordering;

#[cfg(test)]
mod tests;

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

    /// The block and the time, if it is not wide. `base` is that of its page.
    #[inline(always)]
    fn block_and_time(self, base: u64) -> (u64, u32) {
        (base + self.bits(Self::BLOCK, Self::WIDE), self.bits(Self::TIME, Self::BLOCK) as u32)
    }

    /// Whether both are of one thread, if this one is not wide.
    #[inline(always)]
    fn same_thread(self, other: Self) -> bool {
        const SAME: u64 = (u64::MAX << Word::BLOCK) | ((1 << Word::SITE) - (1 << Word::THREAD));
        !self.is_wide() && (self.0 ^ other.0) & SAME == 0
    }

    /// Whether both are of one warp, at one time and site.
    #[inline(always)]
    fn same_group(self, other: Self) -> bool {
        (self.0 ^ other.0) >> (Self::THREAD + 5) == 0
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
    /// Whether an element may have atomic operations, peeks or marks among these.
    atomics: bool,
    /// The lanes that have read each element as the last reader has, but for this: in its warp, at its time and site.
    lanes: Option<Box<[u32; PAGE]>>,
    cells: [Cell; PAGE],
}

impl Page {
    fn new() -> Box<Self> {
        Box::new(Self { newest: 0, base: 0, more: None, atomics: false, lanes: None, cells: [Cell::NONE; PAGE] })
    }

    /// Forgets all accesses.
    #[cold]
    fn clear(&mut self, pool: &mut Pool, base: u64) {
        self.cells.fill(Cell::NONE);
        self.base = base;
        self.atomics = false;
        for index in self.more.iter_mut().flat_map(|more| more.iter_mut()) {
            pool.remove(index);
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.fill(0);
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
        let (block, time) = word.block_and_time(self.base);
        Stamp { site: Some(site), block, time, thread, action }
    }

    /// The block and the time of a word.
    #[inline(always)]
    fn when(&self, word: Word, wide: &Wide) -> (u64, u32) {
        if word.is_wide() {
            let stamp = &wide.stamps[word.index()];
            (stamp.block, stamp.time)
        } else {
            word.block_and_time(self.base)
        }
    }

    /// The last read of an element, and those by lanes of the same warp at the same time and site.
    #[inline]
    fn last_reads(&self, slot: usize, wide: &Wide) -> Group {
        let word = self.cells[slot].read;
        let (block, time) = self.when(word, wide);
        let site = if word.is_wide() {
            wide.stamps[word.index()].site.map_or(0, sites::number)
        } else {
            word.bits(Word::SITE, Word::TIME) as u32
        };
        let thread = word.thread();
        let lanes = self.lanes.as_ref().map_or(0, |lanes| lanes[slot]) | 1 << (thread % 32);
        // Threads run in ascending or descending order most often.
        let ends = [lanes.trailing_zeros() as u16, 31 - lanes.leading_zeros() as u16];
        let first = thread / 32 * 32 + if ends[0] < thread % 32 { ends[0] } else { ends[1] };
        Group::new(block, (time, site), (first, lanes), Action::Read)
    }

    /// Whether the last read of an element, and those by lanes of the same warp at the same time and site, happen before
    /// the present, which has the word `now`.
    #[inline(always)]
    fn knows_reads(&self, slot: usize, now: Word, clock: &Clock, wide: &Wide) -> bool {
        let word = self.cells[slot].read;
        if word == Word::NONE {
            return true;
        }
        let (block, time) = self.when(word, wide);
        clock.knows_block_at(block, time)
            || self.knows(word, now, clock, wide)
                && self.lanes.as_ref().is_none_or(|lanes| {
                    lanes[slot] == 0 || self.last_reads(slot, wide).unordered(clock).next().is_none()
                })
    }

    /// One of these reads that does not happen before the present.
    #[cold]
    fn unordered_read(&self, slot: usize, now: Word, clock: &Clock, wide: &Wide) -> Stamp {
        let read = self.cells[slot].read;
        let last = self.stamp(read, Action::Read, wide);
        if !self.knows(read, now, clock, wide) {
            return last;
        }
        let other = self.last_reads(slot, wide).unordered(clock).next();
        other.map_or(last, |(_, thread)| Stamp { thread, ..last })
    }

    /// Whether the access happens before the present, which has the word `now`.
    #[inline(always)]
    fn knows(&self, word: Word, now: Word, clock: &Clock, wide: &Wide) -> bool {
        if word == Word::NONE {
            return true;
        }
        if word.is_wide() {
            return clock.knows(&self.stamp(word, Action::Read, wide));
        }
        if word.same_thread(now) {
            return true;
        }
        let (block, time) = word.block_and_time(self.base);
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
    /// Reads before the last ones.
    reads: Accesses,
    atomic: Option<Box<Atomics>>,
}

#[derive(Default)]
struct Atomics {
    /// Atomic operations, peeks and marks.
    accesses: Accesses,
    /// The last four of them that may have changed the element, for hints.
    recent: Vec<Stamp>,
    /// The last of them that may have changed the element.
    change: Option<Stamp>,
    released: Released,
    /// The value before the last atomic write, which loads may still read.
    older: Option<Box<Older>>,
}

/// A value before an atomic write that no operation has read yet.
struct Older {
    value: u64,
    /// The releases that a load of this value reads.
    released: Released,
    /// The block, thread and time of the write. Loads that it happens before must read the new value.
    write: (u64, u16, u32),
}

impl Atomics {
    /// Adds an atomic operation, a peek or a mark.
    fn add(&mut self, stamp: Stamp, clock: &Clock) {
        let Stamp { block, time, thread, action, .. } = stamp;
        let site = stamp.site.map_or(0, sites::number);
        self.accesses.add(Group::new(block, (time, site), (thread, 1 << (thread % 32)), action), clock);
        match self.recent.last_mut() {
            _ if !action.writes() => {}
            Some(last) if last.same_thread(&stamp) => *last = stamp,
            _ => {
                if self.recent.len() == 4 {
                    self.recent.remove(0);
                }
                self.recent.push(stamp);
            }
        }
        if action.writes() && self.change.is_none_or(|change| change.block <= block) {
            self.change = Some(stamp);
        }
    }
}

/// The further accesses to elements, by index.
#[derive(Default)]
struct Pool {
    entries: Vec<More>,
    free: Vec<u32>,
}

impl Pool {
    /// The further accesses of an element. `index` is 0 if there are none yet.
    #[inline]
    fn get_or_insert(&mut self, index: &mut u32) -> &mut More {
        if *index == 0 {
            *index = self.free.pop().unwrap_or_else(|| {
                self.entries.push(More::default());
                self.entries.len() as u32
            });
        }
        &mut self.entries[*index as usize - 1]
    }

    #[inline]
    fn get(&self, index: u32) -> Option<&More> {
        (index > 0).then(|| &self.entries[index as usize - 1])
    }

    /// Forgets the further accesses of an element.
    fn remove(&mut self, index: &mut u32) {
        if *index > 0 {
            let more = &mut self.entries[*index as usize - 1];
            more.newest = 0;
            more.reads.clear();
            more.atomic = None;
            self.free.push(*index);
            *index = 0;
        }
    }
}

/// The same access by the same lanes of the same warps of some blocks, at one time.
#[derive(Clone, Copy)]
struct Group {
    /// The serial number of the first of 64 blocks, a multiple of 64.
    base: u64,
    /// The blocks, one bit each.
    blocks: u64,
    time: u32,
    /// The number of the site.
    site: u32,
    lanes: u32,
    warps: u32,
    /// One of the threads, which is the first in reports, and the position of its block.
    first: u16,
    first_block: u8,
    action: Action,
}

impl Group {
    /// The access of some lanes of the warp of a thread.
    #[inline]
    fn new(block: u64, (time, site): (u32, u32), (first, lanes): (u16, u32), action: Action) -> Self {
        let first_block = (block % 64) as u8;
        let (blocks, warps) = (1 << first_block, 1 << (first / 32));
        Self { base: block - block % 64, blocks, time, site, lanes, warps, first, first_block, action }
    }

    /// Adds the threads of another group, if this one can hold them.
    #[inline]
    fn join(&mut self, other: &Self) -> bool {
        if (self.base, self.time, self.site, self.action) != (other.base, other.time, other.site, other.action) {
            return false;
        }
        let (same_warps, same_blocks) = (self.warps == other.warps, self.blocks == other.blocks);
        // A single lane stays in its warp, where others may follow.
        let same_lanes = self.lanes == other.lanes && !other.lanes.is_power_of_two();
        if u8::from(same_warps) + u8::from(same_blocks) + u8::from(same_lanes) < 2 {
            return false;
        }
        self.add(other);
        true
    }

    fn add(&mut self, other: &Self) {
        self.lanes |= other.lanes;
        self.warps |= other.warps;
        self.blocks |= other.blocks;
    }

    /// Whether it is the access of one thread.
    fn is_single(&self) -> bool {
        self.lanes.is_power_of_two() && self.warps.is_power_of_two() && self.blocks.is_power_of_two()
    }

    fn threads(&self) -> impl Iterator<Item = u16> + use<> {
        let Self { lanes, warps, .. } = *self;
        ones(warps).flat_map(move |warp| ones(lanes).map(move |lane| warp * 32 + lane))
    }

    /// The threads whose accesses do not happen before the present, and their blocks.
    #[inline]
    fn unordered(&self, clock: &Clock) -> impl Iterator<Item = (u64, u16)> {
        let group = *self;
        let Self { base, blocks, time, first, first_block, .. } = group;
        let unknown = move |block| !clock.knows_block_at(block, time);
        let first = Some((base + u64::from(first_block), first)).into_iter();
        let low = ones(blocks as u32).map(u64::from);
        let high = ones((blocks >> 32) as u32).map(|bit| u64::from(bit) + 32);
        let all = low.chain(high).map(move |bit| base + bit).filter(move |&block| unknown(block));
        let all = all.flat_map(move |block| group.threads().map(move |thread| (block, thread)));
        let first = first.filter(move |&(block, _)| unknown(block));
        first.chain(all).filter(move |&(block, thread)| !clock.knows_access(block, thread, time))
    }
}

/// The positions of ones, in ascending order.
#[inline]
fn ones(mut bits: u32) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as u16);
        bits &= bits.wrapping_sub(1);
        bit
    })
}

/// A set of accesses, none of which is known to happen before another one.
#[derive(Default)]
struct Accesses {
    groups: Vec<Group>,
    /// The kinds of the accesses, one bit each; perhaps more.
    kinds: u16,
    /// Length at which the next search for superseded accesses takes place.
    full: usize,
}

impl Accesses {
    /// Groups in which an access is looked for.
    const RECENT: usize = 4;
    /// Groups after which superseded ones are first looked for. Reads are merged then, of which there may be one by each
    /// thread to each element.
    const FULL: usize = 16;
    const FULL_OF_READS: usize = 4;

    fn clear(&mut self) {
        self.groups.clear();
        self.kinds = 0;
        self.full = 0;
    }

    /// Adds accesses by the thread of `clock`, or earlier ones.
    fn add(&mut self, group: Group, clock: &Clock) {
        if self.groups.iter_mut().rev().take(Self::RECENT).any(|other| other.join(&group)) {
            return;
        }
        self.kinds |= 1 << group.action as u8;
        // A later access of the same thread, or of one that knows the earlier access, supersedes it.
        let covers = |earlier: &Group| group.action.covers(earlier.action);
        if let Some(last) = self.groups.last_mut()
            && group.is_single()
            && (last.base, last.blocks, last.lanes, last.warps) == (group.base, group.blocks, group.lanes, group.warps)
            && covers(last)
        {
            *last = group;
            return;
        }
        let least = if group.action.writes() { Self::FULL } else { Self::FULL_OF_READS };
        if self.groups.len() >= self.full.max(least) {
            self.groups.retain_mut(|earlier| {
                if !covers(earlier) {
                    return true;
                }
                let Some((_, first)) = earlier.unordered(clock).next() else { return false };
                if earlier.warps.is_power_of_two() && earlier.blocks.is_power_of_two() {
                    let lanes = earlier.unordered(clock).fold(0, |lanes, (_, thread)| lanes | 1 << (thread % 32));
                    (earlier.first, earlier.lanes) = (first, lanes);
                }
                true
            });
            if !group.action.writes() {
                self.merge();
            }
            self.full = 2 * self.groups.len();
        }
        if self.groups.capacity() == 0 {
            self.groups.reserve_exact(1);
        }
        self.groups.push(group);
    }

    /// Merges groups that together are the same lanes of the same warps of some blocks.
    #[cold]
    fn merge(&mut self) {
        let access = |group: &Group| (group.base, group.time, group.site, group.action as u8);
        let mut merge_by = |key: fn(&Group) -> (u64, u64)| {
            let key = |group: &Group| (access(group), key(group));
            self.groups.sort_by_key(key);
            self.groups.dedup_by(|group, kept| {
                let same = key(group) == key(kept);
                if same {
                    kept.add(group);
                }
                same
            });
        };
        merge_by(|group| (group.blocks, group.warps.into()));
        merge_by(|group| (group.blocks, group.lanes.into()));
        merge_by(|group| (u64::from(group.warps) << 32 | u64::from(group.lanes), 0));
    }

    /// An access whose action and block are `wanted`, and that does not happen before the present.
    #[inline]
    fn unordered(&self, clock: &Clock, wanted: impl Fn(Action, u64) -> bool) -> Option<Stamp> {
        self.groups.iter().find_map(|group| {
            let Group { time, site, action, .. } = *group;
            // The wish depends on the block only in so far as it is that of the present.
            if !wanted(action, u64::MAX) && !wanted(action, clock.block) {
                return None;
            }
            let (block, thread) = group.unordered(clock).find(|&(block, _)| wanted(action, block))?;
            Some(Stamp { site: Some(sites::location(site)), block, time, thread, action })
        })
    }
}

/// The effect of reading a value with these releases.
#[inline(never)]
fn acquire(released: &Released, order: Ordering, wide: bool, clock: &mut Clock) {
    let seen = released.seen_by(clock.block, wide);
    if matches!(order, Ordering::Relaxed | Ordering::Release) {
        clock.observe(&seen, &released.seen_by(clock.block, false));
    } else {
        clock.acquire(&seen);
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
        let done = match action {
            Action::Read => self.touch_plain::<false>(element, clock, site),
            Action::Write => self.touch_plain::<true>(element, clock, site),
            _ => false,
        };
        if done { Ok(()) } else { self.touch_any::<true>(element, action, clock, site) }
    }

    /// An earlier access that races with a read or a write, which is not recorded.
    pub fn check(
        &mut self,
        element: usize,
        action: Action,
        clock: &Clock,
        site: &'static Location<'static>,
    ) -> Result<(), Stamp> {
        self.touch_any::<false>(element, action, clock, site)
    }

    /// Records a read or a write if the words of the last write and the last read show that there is no race. Returns
    /// whether they do. [`touch_any`](Self::touch_any) would do the same in more time.
    #[inline(always)]
    fn touch_plain<const WRITES: bool>(
        &mut self,
        element: usize,
        clock: &Clock,
        site: &'static Location<'static>,
    ) -> bool {
        let slot = element % PAGE;
        let Some(Some(page)) = self.pages.get_mut(element / PAGE) else { return false };
        let page = &mut **page;
        if page.newest < clock.horizon {
            return false;
        }
        let block = clock.block.wrapping_sub(page.base);
        let Some(now) = Word::pack(block, clock.time, sites::number(site), clock.thread, false) else { return false };
        // Blocks before this one are known. The bits of a wide word would be those of a later block.
        let known = clock.horizon.saturating_sub(page.base).min(1 << (Word::WIDE - Word::BLOCK));
        let knows_all = |word: Word| {
            let (then, time) = (word.0 >> Word::BLOCK, word.bits(Word::TIME, Word::BLOCK));
            word == Word::NONE || if then == block { time < u64::from(clock.floor) } else { then < known }
        };
        let Cell { write, read } = page.cells[slot];
        if write.is_copy() || !knows_all(write) && !write.same_thread(now) {
            return false;
        }
        let lanes = page.lanes.as_mut().map(|lanes| &mut lanes[slot]);
        if WRITES {
            if page.more.as_ref().is_some_and(|more| more[slot] > 0) {
                return false;
            }
        } else if page.atomics {
            return false;
        }
        if !WRITES && read.same_group(now) {
            if read != now {
                let Some(lanes) = lanes else { return false };
                *lanes |= 1 << (read.thread() % 32);
            }
        } else {
            let others = lanes.as_ref().is_some_and(|lanes| **lanes != 0);
            if !knows_all(read) && (others || !read.same_thread(now)) {
                return false;
            }
            if others && let Some(lanes) = lanes {
                *lanes = 0;
            }
        }
        page.cells[slot] = if WRITES { Cell { write: now, read: Word::NONE } } else { Cell { write, read: now } };
        page.newest = page.newest.max(clock.block);
        true
    }

    #[inline(never)]
    fn touch_any<const RECORDS: bool>(
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
        if let Some(more) = &mut page.more
            && let Some(accesses) = pool.get(more[slot])
            && accesses.newest < clock.horizon
        {
            pool.remove(&mut more[slot]);
        }
        let more = page.more.as_ref().and_then(|more| pool.get(more[slot]));
        match action {
            Action::Read => {
                if let Some(atomic) = more.and_then(|more| more.atomic.as_ref())
                    && let Some(change) = atomic.accesses.unordered(clock, |other, _| other.writes())
                {
                    return Err(change);
                }
                if !RECORDS {
                    return Ok(());
                }
                if read.same_group(now) {
                    // The word of the last reader becomes a bit.
                    let bit = 1 << (read.thread() % 32);
                    if read != now {
                        page.lanes.get_or_insert_with(|| Box::new([0; PAGE]))[slot] |= bit;
                    }
                } else {
                    if !page.knows_reads(slot, now, clock, wide) {
                        let earlier = page.last_reads(slot, wide);
                        let more = pool.get_or_insert(&mut page.more.get_or_insert_with(|| Box::new([0; PAGE]))[slot]);
                        more.newest = more.newest.max(stamp.block).max(earlier.base + u64::from(earlier.first_block));
                        more.reads.add(earlier, clock);
                    }
                    if let Some(lanes) = &mut page.lanes {
                        lanes[slot] = 0;
                    }
                }
                page.cells[slot].read = now;
            }
            Action::Write | Action::Copy => {
                if !page.knows_reads(slot, now, clock, wide) {
                    return Err(page.unordered_read(slot, now, clock, wide));
                }
                if let Some(more) = more {
                    let any = |_, _| true;
                    let atomic = || more.atomic.as_ref()?.accesses.unordered(clock, any);
                    let earlier = more.reads.unordered(clock, any).or_else(atomic);
                    earlier.map_or(Ok(()), Err)?;
                    if let Some(more) = &mut page.more
                        && RECORDS
                    {
                        pool.remove(&mut more[slot]);
                    }
                }
                if !RECORDS {
                    return Ok(());
                }
                page.cells[slot] = Cell { write: now, read: Word::NONE };
                if let Some(lanes) = &mut page.lanes {
                    lanes[slot] = 0;
                }
            }
            Action::Atomic
            | Action::BlockAtomic
            | Action::AtomicRead
            | Action::BlockRead
            | Action::Peek
            | Action::Mark => {
                if action.writes() && !page.knows_reads(slot, now, clock, wide) {
                    return Err(page.unordered_read(slot, now, clock, wide));
                }
                let more = pool.get_or_insert(&mut page.more.get_or_insert_with(|| Box::new([0; PAGE]))[slot]);
                let reads = if action.writes() { more.reads.unordered(clock, |_, _| true) } else { None };
                let conflicts = |other, block| action.conflicts(other, block == stamp.block);
                let atomics = || {
                    let accesses = &more.atomic.as_ref()?.accesses;
                    (accesses.kinds & action.conflicting() != 0).then(|| accesses.unordered(clock, conflicts)).flatten()
                };
                reads.or_else(atomics).map_or(Ok(()), Err)?;
                more.newest = more.newest.max(stamp.block);
                more.atomic.get_or_insert_default().add(stamp, clock);
                page.atomics = true;
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
        if let Some(atomic) = more.and_then(|more| more.atomic.as_ref()?.accesses.unordered(clock, |_, _| true)) {
            return Err(atomic);
        }
        page.cells[slot].read = word_of(clock.stamp(Action::Read, site), page.base, wide);
        if let Some(lanes) = &mut page.lanes {
            lanes[slot] = 0;
        }
        Ok(())
    }

    /// The further accesses of an element.
    #[inline]
    fn more(&self, element: usize) -> Option<&More> {
        let page = self.pages.get(element / PAGE)?.as_ref()?;
        self.pool.get(page.more.as_ref()?[element % PAGE])
    }

    #[inline]
    fn more_mut(&mut self, element: usize) -> Option<&mut More> {
        let page = self.pages.get(element / PAGE)?.as_ref()?;
        let index = page.more.as_ref()?[element % PAGE] as usize;
        self.pool.entries.get_mut(index.checked_sub(1)?)
    }

    /// A mark of another thread that is not ordered before the present.
    pub fn unordered_mark(&self, element: usize, clock: &Clock) -> Option<Stamp> {
        self.more(element)?.atomic.as_ref()?.accesses.unordered(clock, |action, _| action == Action::Mark)
    }

    /// The effect of an atomic operation on happens-before, after [`touch`](Self::touch). `reads` and `writes`: whether
    /// the operation does. `before`: the value before it, if later loads may still read that.
    #[inline]
    pub fn synchronise(
        &mut self,
        element: usize,
        (reads, writes): (bool, bool),
        before: Option<u64>,
        order: Ordering,
        wide: bool,
        clock: &mut Clock,
    ) {
        let cell = (ptr::from_ref(self).addr(), element);
        let Some(more) = self.more_mut(element).and_then(|more| more.atomic.as_mut()) else { return };
        let unreleased = more.released.is_empty();
        if reads && !unreleased {
            acquire(&more.released, order, wide, clock);
        }
        if let Some(value) = before
            && (unreleased || !reads)
        {
            let released = std::mem::take(&mut more.released);
            more.older = Some(Box::new(Older { value, released, write: (clock.block, clock.thread, clock.time) }));
        } else if more.older.is_some() {
            more.older = None;
        }
        // A store, unlike a read-modify-write operation, ends the releases of other threads before it.
        if !reads && !unreleased {
            more.released = Released::default();
        }
        if writes {
            if matches!(order, Ordering::Relaxed | Ordering::Acquire) {
                if let Some(fenced) = &clock.fenced {
                    more.released.add(clock.block, wide, fenced);
                }
                if let Some(fenced) = &clock.fenced_in_block {
                    more.released.add(clock.block, false, fenced);
                }
                if let Some((was_wide, known)) = clock.released_to(cell) {
                    more.released.add(clock.block, wide && was_wide, &known);
                }
            } else {
                let known = clock.release(cell, wide);
                more.released.add(clock.block, wide, &known);
            }
        }
    }

    /// A value that a load may read instead of the last one: the write of the last one does not happen before the load,
    /// and no other operation has read it. Nor do sequentially consistent fences order them.
    pub fn older(&self, element: usize, clock: &Clock) -> Option<u64> {
        let older = self.more(element)?.atomic.as_ref()?.older.as_ref()?;
        let (block, thread, time) = older.write;
        let sequenced = clock.sequenced.as_ref().is_some_and(|known| known.contains(block, thread, time));
        (!sequenced && !clock.knows_access(block, thread, time)).then_some(older.value)
    }

    /// As [`synchronise`](Self::synchronise), for a load that reads the [older](Self::older) value.
    pub fn synchronise_older(&mut self, element: usize, order: Ordering, wide: bool, clock: &mut Clock) {
        let Some(more) = self.more_mut(element).and_then(|more| more.atomic.as_mut()) else { return };
        if let Some(older) = &more.older {
            acquire(&older.released, order, wide, clock);
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
    #[inline]
    pub fn signal(&self, element: usize, clock: &Clock, wide: bool) -> (Option<Stamp>, Option<Knowledge>) {
        let Some(more) = self.more(element).and_then(|more| more.atomic.as_ref()) else { return (None, None) };
        let other =
            |stamp: &&Stamp| stamp.action.writes() && (stamp.thread != clock.thread || stamp.block != clock.block);
        let other = more.recent.iter().rev().find(other);
        let unseen = if more.released.is_empty() { None } else { more.released.unseen_by(clock.block, wide) };
        (other.copied(), unseen)
    }

    /// The last plain write, and the last atomic operation or mark that may have changed the element.
    pub fn changes(&self, element: usize) -> [Option<Stamp>; 2] {
        let Some(Some(page)) = self.pages.get(element / PAGE) else { return [None; 2] };
        let write = page.stamp(page.cells[element % PAGE].write, Action::Write, &self.wide);
        let atomic = self.more(element).and_then(|more| more.atomic.as_ref()?.change);
        [Some(write), atomic].map(|change| change.filter(|stamp| stamp.action.writes()))
    }

    /// The last of them; it need not have changed the value.
    pub fn last_change(&self, element: usize) -> Option<Stamp> {
        self.changes(element).into_iter().flatten().max_by_key(|stamp| (stamp.block, stamp.time))
    }
}
