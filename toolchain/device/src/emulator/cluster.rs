//! A cluster of blocks, which access each other's shared memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::Location;

use super::clock::Stamp;
use super::fault::{Kind, Raised};
use super::meeting::Meeting;
use super::thread::Block;

/// The blocks of a cluster.
pub struct Cluster {
    /// Their barrier.
    pub meeting: Meeting,
    /// By rank.
    pub members: RefCell<Vec<Member>>,
}

/// A block of a cluster.
pub struct Member {
    pub block: *const Block,
    /// Whether all its threads have ended.
    pub ended: Cell<bool>,
    /// The last access to its shared memory by each thread of other blocks, by block and thread.
    visits: RefCell<BTreeMap<(u64, u16), Stamp>>,
}

impl Cluster {
    pub fn new(blocks: u32) -> Self {
        Self { meeting: Meeting::new("cluster", blocks), members: RefCell::default() }
    }

    /// Adds the block of the next rank.
    pub fn admit(&self, block: *const Block) {
        let member = Member { block, ended: Cell::new(false), visits: RefCell::default() };
        self.members.borrow_mut().push(member);
    }

    /// Whether all blocks have ended.
    pub fn is_over(&self) -> bool {
        self.members.borrow().iter().all(|member| member.ended.get())
    }
}

impl Member {
    /// Checks that the block exists. `begun` says whether its start happens before the access.
    pub fn require(&self, begun: bool, name: &str, site: &'static Location<'static>) {
        let line = site.line();
        if self.ended.get() {
            raise(format!("{name} has ended"), wait_at_the_end(line), site);
        }
        if !begun {
            let hint = format!(
                "is `cluster::sync` missing before line {line}? It shows that all blocks of the cluster have begun"
            );
            raise(format!("{name} need not have begun"), hint, site);
        }
    }

    /// Notes an access to the shared memory of the block.
    pub fn visit(&self, stamp: Stamp) {
        self.visits.borrow_mut().insert((stamp.block, stamp.thread), stamp);
    }

    /// An access that need not happen before the end of the block, of which `knows` says whether one of its threads knows it.
    pub fn unawaited(&self, knows: impl Fn(&Stamp) -> bool) -> Option<Stamp> {
        self.visits.borrow().values().find(|visit| !knows(visit)).copied()
    }
}

/// The hint for a block that does not wait for accesses to its shared memory.
pub fn wait_at_the_end(line: u32) -> String {
    format!(
        "shared memory exists as long as its block: is a last `cluster::sync` missing behind the access on line {line}, so that the \
         block waits for it?"
    )
}

fn raise(reason: String, hint: String, site: &'static Location<'static>) -> ! {
    Raised { hint: Some(hint), ..Raised::new(Kind::RemoteShared { reason }, Some(site)) }.raise()
}
