//! A block's shared memory, with a shadow that records the last accesses to each byte.
//!
//! A happens-before relation decides whether two accesses race. It has two parts. A block-wide barrier starts a new
//! *epoch*; an access of an earlier epoch happens before every access of the current one. Within an epoch, only
//! `sync_warp` orders accesses, among threads of one warp; each thread therefore has a *vector clock* over the 32 lanes
//! of its warp. An access (epoch, thread, clock) happens before the current access of another thread of the warp if
//! that thread's vector clock has reached `clock` in the first thread's component.

use std::collections::HashMap;
use std::panic::Location;

use super::fault::{self, Kind};

/// Maximum shared memory per block of any GPU to date (Hopper, Blackwell): 227 KiB.
pub const LIMIT: usize = 227 * 1024;

/// The thread and time of the current access.
#[derive(Clone, Copy)]
pub struct Now<'a> {
    pub thread: u32,
    pub epoch: u32,
    pub clock: &'a [u32; 32],
}

#[derive(Clone, Copy)]
struct Access {
    thread: u32,
    epoch: u32,
    clock: u32,
    atomic: bool,
}

impl Access {
    const NONE: Self = Self { thread: 0, epoch: u32::MAX, clock: 0, atomic: false };

    fn before(&self, now: &Now<'_>) -> bool {
        self.epoch == u32::MAX
            || self.epoch < now.epoch
            || self.thread == now.thread
            || (self.thread / 32 == now.thread / 32 && now.clock[(self.thread % 32) as usize] >= self.clock)
    }
}

/// The record of one byte: its last write, and the last reads of two different threads.
#[derive(Clone, Copy)]
struct Shadow {
    written: bool,
    write: Access,
    reads: [Access; 2],
}

/// The kind of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Read,
    Write,
    Atomic,
}

/// The shared memory of one block.
pub struct SharedMemory {
    bytes: Vec<u8>,
    shadow: Vec<Shadow>,
    /// Byte address of each static array, by its declaration site.
    statics: HashMap<usize, u32>,
}

impl SharedMemory {
    pub fn new(dynamic_bytes: u32) -> Self {
        let mut memory = Self { bytes: Vec::new(), shadow: Vec::new(), statics: HashMap::new() };
        memory.grow(dynamic_bytes as usize);
        memory
    }

    fn grow(&mut self, bytes: usize) {
        let end = (self.bytes.len() + bytes).next_multiple_of(16);
        if end > LIMIT {
            fault::raise_at(Kind::SharedExhausted { bytes: end, limit: LIMIT }, None, None);
        }
        self.bytes.resize(end, 0);
        self.shadow.resize(end, Shadow { written: false, write: Access::NONE, reads: [Access::NONE; 2] });
    }

    /// The address of the static array declared at `site`. The first call reserves the memory.
    pub fn static_array(&mut self, site: usize, bytes: u32) -> u32 {
        if let Some(&address) = self.statics.get(&site) {
            return address;
        }
        let address = self.bytes.len() as u32;
        self.grow(bytes as usize);
        self.statics.insert(site, address);
        address
    }

    pub fn load(&mut self, address: u32, size: u32, now: Now<'_>, site: &'static Location<'static>) -> u64 {
        self.touch(address, size, Action::Read, now, site);
        self.raw(address, size)
    }

    pub fn store(&mut self, address: u32, size: u32, raw: u64, now: Now<'_>, site: &'static Location<'static>) {
        self.touch(address, size, Action::Write, now, site);
        self.set_raw(address, size, raw);
    }

    pub fn update(
        &mut self,
        address: u32,
        size: u32,
        update: impl FnOnce(u64) -> u64,
        now: Now<'_>,
        site: &'static Location<'static>,
    ) -> u64 {
        self.touch(address, size, Action::Atomic, now, site);
        let old = self.raw(address, size);
        self.set_raw(address, size, update(old));
        old
    }

    fn raw(&self, address: u32, size: u32) -> u64 {
        let mut raw = [0; 8];
        raw[..size as usize].copy_from_slice(&self.bytes[address as usize..(address + size) as usize]);
        u64::from_le_bytes(raw)
    }

    fn set_raw(&mut self, address: u32, size: u32, raw: u64) {
        let target = &mut self.bytes[address as usize..(address + size) as usize];
        target.copy_from_slice(&raw.to_le_bytes()[..size as usize]);
    }

    /// Checks an access against the recorded ones, and records it.
    fn touch(&mut self, address: u32, size: u32, action: Action, now: Now<'_>, site: &'static Location<'static>) {
        let access = Access {
            thread: now.thread,
            epoch: now.epoch,
            clock: now.clock[(now.thread % 32) as usize],
            atomic: action == Action::Atomic,
        };
        for address in address..address + size {
            let shadow = &mut self.shadow[address as usize];
            if action != Action::Write && !shadow.written {
                fault::raise_at(Kind::SharedUninitialised { address }, None, Some(site));
            }
            let conflict = |earlier: &Access, first, second| {
                if !(earlier.before(&now) || earlier.atomic && access.atomic) {
                    fault::raise_at(Kind::SharedRace { address, first, second }, Some(earlier.thread), Some(site));
                }
            };
            let second = match action {
                Action::Read => "a read",
                Action::Write => "a write",
                Action::Atomic => "an atomic operation",
            };
            conflict(&shadow.write, if shadow.write.atomic { "an atomic operation" } else { "a write" }, second);
            if action == Action::Read {
                if shadow.reads[0].thread != access.thread {
                    shadow.reads[1] = shadow.reads[0];
                }
                shadow.reads[0] = access;
            } else {
                shadow.reads.iter().for_each(|read| conflict(read, "a read", second));
                shadow.write = access;
                shadow.written = true;
            }
        }
    }
}
