//! The accesses to each element of a memory that the next access might race with.

use std::panic::Location;

use super::clock::{Action, Clock, Knowledge, Released, Stamp};
use crate::device::atomic::Ordering;

/// Elements per page. Pages are allocated at their first access.
const PAGE: usize = 512;

/// The accesses to one element that are not followed by an ordered write.
struct Cell {
    /// The last plain write.
    write: Stamp,
    /// The last read.
    read: Stamp,
    /// Further accesses; most elements have none.
    more: Option<Box<More>>,
}

#[derive(Default)]
struct More {
    /// Largest serial number of a block in the lists.
    newest: u64,
    /// Reads besides the last one.
    reads: Accesses,
    /// Atomic operations, peeks and marks.
    atomics: Accesses,
    released: Released,
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
    pages: Vec<Option<Box<[Cell]>>>,
}

impl Shadow {
    /// Forgets all accesses.
    pub fn reset(&mut self) {
        self.pages.clear();
    }

    fn cell(&mut self, element: usize) -> &mut Cell {
        let page = element / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| {
            (0..PAGE).map(|_| Cell { write: Stamp::NONE, read: Stamp::NONE, more: None }).collect()
        });
        &mut page[element % PAGE]
    }

    /// Records an access. Returns an earlier one that races with it.
    pub fn touch(
        &mut self,
        element: usize,
        action: Action,
        clock: &Clock,
        site: &'static Location<'static>,
    ) -> Result<(), Stamp> {
        let cell = self.cell(element);
        let now = clock.stamp(action, site);
        if !clock.knows(&cell.write) || cell.write.action == Action::Copy && cell.write.block >= clock.settled {
            return Err(cell.write);
        }
        if let Some(more) = &mut cell.more
            && clock.knows_all_to(more.newest)
        {
            cell.more = None;
        }
        match action {
            Action::Read => {
                let change = |more: &More| {
                    more.atomics.list.iter().find(|other| other.action.writes() && !clock.knows(other)).copied()
                };
                if let Some(change) = cell.more.as_deref().and_then(change) {
                    return Err(change);
                }
                if !clock.knows(&cell.read) {
                    let more = cell.more.get_or_insert_default();
                    more.newest = more.newest.max(now.block).max(cell.read.block);
                    more.reads.add(cell.read, clock);
                }
                cell.read = now;
            }
            Action::Write | Action::Copy => {
                if !clock.knows(&cell.read) {
                    return Err(cell.read);
                }
                if let Some(more) = &cell.more {
                    let earlier = more.reads.unordered(clock).or_else(|| more.atomics.unordered(clock));
                    earlier.map_or(Ok(()), Err)?;
                }
                *cell = Cell { write: now, read: Stamp::NONE, more: None };
            }
            Action::Atomic | Action::BlockAtomic | Action::AtomicRead | Action::Peek | Action::Mark => {
                if action.writes() && !clock.knows(&cell.read) {
                    return Err(cell.read);
                }
                let more = cell.more.get_or_insert_default();
                let conflict =
                    |other: &&Stamp| action.conflicts(other.action, other.block == now.block) && !clock.knows(other);
                let reads = if action.writes() { more.reads.unordered(clock) } else { None };
                let earlier = reads.or_else(|| more.atomics.list.iter().find(conflict).copied());
                earlier.map_or(Ok(()), Err)?;
                more.newest = more.newest.max(now.block);
                more.atomics.add(now, clock);
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
        let cell = self.cell(element);
        if !clock.knows(&cell.write) {
            return Err(cell.write);
        }
        if let Some(atomic) = cell.more.as_ref().and_then(|more| more.atomics.unordered(clock)) {
            return Err(atomic);
        }
        cell.read = clock.stamp(Action::Read, site);
        Ok(())
    }

    /// A mark of another thread that is not ordered before the present.
    pub fn unordered_mark(&mut self, element: usize, clock: &Clock) -> Option<Stamp> {
        let marks = |stamp: &&Stamp| stamp.action == Action::Mark && !clock.knows(stamp);
        self.cell(element).more.as_ref().and_then(|more| more.atomics.list.iter().find(marks).copied())
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
        let Some(more) = &mut self.cell(element).more else { return };
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
        let cell = self.cell(element);
        let write = &mut cell.write;
        if write.action == Action::Copy && write.block == clock.block && write.thread == clock.thread {
            (write.action, write.time) = (Action::Write, clock.time);
        }
    }

    /// For hints: the last atomic operation of another thread on the element, and the releases that this operation
    /// does not see because of a scope.
    pub fn signal(&mut self, element: usize, clock: &Clock, wide: bool) -> (Option<Stamp>, Option<Knowledge>) {
        let Some(more) = &self.cell(element).more else { return (None, None) };
        let other =
            |stamp: &&Stamp| stamp.action.writes() && (stamp.thread != clock.thread || stamp.block != clock.block);
        let other = more.atomics.list.iter().rev().take(4).find(other);
        (other.copied(), more.released.unseen_by(clock.block, wide))
    }

    /// The last plain write or atomic operation; it need not have changed the value.
    pub fn last_change(&mut self, element: usize) -> Option<Stamp> {
        let cell = self.cell(element);
        let atomics = cell.more.as_ref().map(|more| &more.atomics.list);
        let changes = atomics.into_iter().flatten().chain([&cell.write]);
        changes.filter(|stamp| stamp.action.writes()).max_by_key(|stamp| stamp.block).copied()
    }
}
