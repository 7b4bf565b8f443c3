//! A barrier of several blocks: those of a cooperative grid, or of a cluster.
//!
//! The first thread of each block reaches it for its block, between two barriers of the block.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use super::clock::{Clock, Knowledge};

/// A barrier of `blocks` blocks.
pub struct Meeting {
    /// What the blocks are: "grid" or "cluster".
    pub of: &'static str,
    pub blocks: u32,
    /// Blocks that wait at it.
    arrived: Cell<u32>,
    /// Where the first of them waits, and in which round of its loops.
    first: Cell<Option<(&'static Location<'static>, u64)>>,
    /// Whether another one waits elsewhere, or in another round.
    differs: Cell<bool>,
    /// Rounds of the barrier that are complete.
    complete: Cell<u32>,
    /// What the blocks that have arrived know, and what all knew in the last complete round.
    known: RefCell<[Knowledge; 2]>,
}

impl Meeting {
    pub fn new(of: &'static str, blocks: u32) -> Self {
        Self {
            of,
            blocks,
            arrived: Cell::new(0),
            first: Cell::new(None),
            differs: Cell::new(false),
            complete: Cell::new(0),
            known: RefCell::default(),
        }
    }

    /// A block arrives. Returns the round for which it [waits](Self::is_over).
    pub fn arrive(&self, site: &'static Location<'static>, round: u64, clock: &mut Clock) -> u32 {
        let (first, first_round) = self.first.get().unwrap_or((site, round));
        self.first.set(Some((first, first_round)));
        self.differs.set(self.differs.get() || first != site || first_round != round);
        self.arrived.set(self.arrived.get() + 1);
        let [arriving, passed] = &mut *self.known.borrow_mut();
        arriving.join(&clock.publish());
        let waits_for = self.complete.get();
        if self.arrived.get() == self.blocks && !self.differs.get() {
            *passed = std::mem::take(arriving);
            self.arrived.set(0);
            self.first.set(None);
            self.complete.set(waits_for + 1);
        }
        waits_for
    }

    /// Whether all blocks have arrived in a round.
    pub fn is_over(&self, round: u32) -> bool {
        self.complete.get() != round
    }

    /// The effect on the clock of a thread that continues.
    pub fn leave(&self, clock: &mut Clock) {
        clock.acquire(&self.known.borrow()[1]);
    }
}
