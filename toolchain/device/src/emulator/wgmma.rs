//! Products of warp groups. The emulator computes them at once, and lets nobody see that before the wait.

use std::panic::Location;

use super::bulk::Chunk;
use super::clock::{Action, Clock, Knowledge};
use super::fault::{Kind, Raised};
use super::thread::{Thread, WarpOp};
use crate::device::tensor::swizzled;

/// Threads of a warp group.
const GROUP: u64 = 128;

/// Bytes of a row of a tile.
const ROW_BYTES: u32 = 128;

/// What products have done to an accumulator.
#[derive(Default)]
pub struct Flight {
    /// Whether a fence, or a product, is the last operation.
    fenced: bool,
    /// The group of the last product whose result has not been waited for, and where it was started.
    group: Option<(u64, &'static Location<'static>)>,
}

/// The products of a thread.
#[derive(Default)]
pub struct Products {
    /// Groups that are committed.
    committed: u64,
    /// Groups that are complete.
    complete: u64,
    /// The reads of tiles by products that are incomplete, with their group.
    reads: Vec<(u64, Clock)>,
}

#[cold]
fn raise(reason: &str, hint: String, site: &'static Location<'static>) -> ! {
    let kind = Kind::Products { reason: reason.to_owned() };
    Raised { hint: Some(hint), ..Raised::new(kind, Some(site)) }.raise()
}

impl Thread {
    /// The effect of a fence on an accumulator.
    #[track_caller]
    pub(crate) fn fence_products(&self, flight: &mut Flight) {
        self.exchange(WarpOp::Mma, u32::MAX, 0);
        flight.fenced = true;
    }

    /// D = D + A·Bᵀ: `registers` are those of this thread, `place` tells their rows and columns, and `value` that of an element.
    #[track_caller]
    pub(crate) fn multiply_tiles(
        &self,
        registers: &mut [f32],
        flight: &mut Flight,
        tiles: [Chunk; 2],
        value: impl Fn(u64) -> f32,
        place: impl Fn(u32) -> (u32, u32),
    ) {
        let site = Location::caller();
        let block = self.block();
        if u64::from(self.id) / GROUP * GROUP + GROUP > block.shape.block.count() {
            raise(
                "the warp group of the thread has no four warps",
                "launch blocks of whole warp groups".to_owned(),
                site,
            );
        }
        for Chunk { address, .. } in tiles {
            if !address.is_multiple_of(1024) {
                let kind = Kind::Misaligned { place: self.shared_place(address, 2), bytes: 1024 };
                let hint = "a tile begins at a multiple of 1024 bytes: `Shared::aligned` gives one".to_owned();
                Raised { hint: Some(hint), ..Raised::new(kind, Some(site)) }.raise();
            }
        }
        if !flight.fenced {
            let hint = format!("is `fence` missing before line {}, behind all that sets the accumulator?", site.line());
            raise("the accumulator is not fenced", hint, site);
        }
        let [a, b] = tiles;
        let addresses = u64::from(a.address) << 32 | u64::from(b.address);
        if self.exchange(WarpOp::Mma, u32::MAX, addresses).iter().any(|&other| other != addresses) {
            raise(
                "the lanes of a warp name different tiles",
                "are the tiles those of the warp group?".to_owned(),
                site,
            );
        }
        let (lane, warp) = (self.id % 32, self.id / 32);
        let group = self.products.borrow().committed;
        if lane == 0 {
            // The rows of this warp, and all of the other tile.
            let rows = Chunk { address: a.address + warp % 4 * 16 * ROW_BYTES, bytes: 16 * ROW_BYTES };
            for chunk in [rows, b] {
                let unfenced = self.unfenced(block, chunk);
                let engine = self.fork(site);
                self.touch_by_copy(block, chunk, Action::Read, &engine, site);
                self.require_fence(unfenced, site);
                self.products.borrow_mut().reads.push((group, engine));
            }
            block.proxy.borrow_mut().count_product(warp);
        }
        self.rare.set(true);
        let shared = block.shared.borrow();
        let row_of = |tile: Chunk, row: u32| -> [f32; 64] {
            let mut values = [0.0; 64];
            for (values, first) in values.chunks_exact_mut(8).zip((ROW_BYTES * row..).step_by(16)) {
                let bytes = shared.bytes_at(tile.address + swizzled(first), 16);
                for (to, from) in values.iter_mut().zip(bytes.chunks_exact(2)) {
                    *to = value(u16::from_le_bytes([from[0], from[1]]).into());
                }
            }
            values
        };
        // Registers i and i + 2 are of the same column, and those of four columns of the same two rows.
        let left = [0, 2].map(|i| row_of(a, place(i).0));
        for i in (0..registers.len() as u32).filter(|i| i / 2 % 2 == 0) {
            let right = row_of(b, place(i).1);
            for (left, i) in left.iter().zip([i, i + 2]) {
                let sum = &mut registers[i as usize];
                // Products are exact.
                *sum = left.iter().zip(&right).fold(*sum, |sum, (x, y)| sum + x * y);
            }
        }
        flight.group = Some((group, site));
    }

    /// Ends a group of products.
    #[track_caller]
    pub(crate) fn commit_products(&self) {
        self.exchange(WarpOp::Mma, u32::MAX, 0);
        self.rare.set(true);
        self.products.borrow_mut().committed += 1;
    }

    /// Waits until at most the last `pending` groups are incomplete.
    #[track_caller]
    pub(crate) fn wait_for_products(&self, flight: &mut Flight, pending: usize) {
        self.exchange(WarpOp::Mma, u32::MAX, 0);
        let products = &mut *self.products.borrow_mut();
        products.complete = products.complete.max(products.committed.saturating_sub(pending as u64));
        let mut known = Knowledge::default();
        let complete = products.complete;
        products.reads.retain(|(group, engine)| {
            let done = *group < complete;
            if done {
                known.add_block(engine.block);
            }
            !done
        });
        self.clock.borrow_mut().acquire(&known);
        if flight.group.is_some_and(|(group, _)| group < complete) {
            flight.group = None;
        }
    }

    /// Ends the launch if an accumulator does not have its values yet.
    #[track_caller]
    pub(crate) fn check_landed(&self, flight: &Flight) {
        if let Some((_, start)) = flight.group {
            let site = Location::caller();
            let hint = format!(
                "the product on line {} need not have ended: is `commit`, or `wait`, missing before line {}?",
                start.line(),
                site.line()
            );
            raise("the accumulator is read before the wait for its products", hint, site);
        }
    }

    /// Forgets the products of an earlier thread.
    pub(super) fn forget_products(&self) {
        *self.products.borrow_mut() = Products::default();
    }
}
