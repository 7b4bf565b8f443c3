//! Bulk copies, and the barriers in shared memory that tell when they have ended.
//!
//! For the race detector, each copy is a block of its own, with a single access at time 1: it knows what the thread knew that has
//! started it, and only those know it who have waited for it. The bytes are read and written as late as possible.

use std::cell::RefMut;
use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::clock::{Action, Clock, Knowledge, Stamp};
use super::fault::{Kind, Place, Raised};
use super::memory::Record;
use super::phase::PhaseBarrier;
use super::shared::words;
use super::thread::{Block, Elements, Target, Thread, Wait};
use crate::device::tensor::swizzled;
use crate::launch::{Swizzle, TensorArg};

/// The unit of sizes and addresses.
const UNIT: usize = 16;

/// Fences of each thread that are kept: a thread may know an older one only.
const FENCES: usize = 4;

/// Steps of the start of a copy.
const COPY_STEPS: u64 = 16;

/// Bytes in shared memory.
#[derive(Clone, Copy)]
pub struct Chunk {
    pub address: u32,
    pub bytes: u32,
}

/// Elements of a buffer in global memory.
#[derive(Clone, Copy)]
pub struct Piece {
    pub record: *const Record,
    pub name: &'static str,
    pub first: usize,
    pub count: usize,
    /// Bytes of an element.
    pub size: usize,
}

impl Piece {
    pub fn elements(&self) -> Elements<'_> {
        let &Self { record, ref name, first, count, size } = self;
        // SAFETY: the launch's buffers outlive it.
        Elements { record: unsafe { &*record }, name, first, count, size }
    }

    fn place(&self) -> Place {
        Place { array: self.name, index: self.first, shared: false }
    }

    fn bytes(&self) -> usize {
        self.count * self.size
    }

    /// The address of the first element.
    fn address(&self) -> usize {
        // SAFETY: the launch's buffers outlive it.
        unsafe { &*self.record }.address + self.first * self.size
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes()];
        // SAFETY: the view has checked that the elements are within the buffer, which outlives the launch and has exposed its
        // address. The emulator runs one thread at a time.
        unsafe {
            ptr::copy_nonoverlapping(ptr::with_exposed_provenance(self.address()), bytes.as_mut_ptr(), bytes.len())
        };
        bytes
    }

    fn write(&self, bytes: &[u8]) {
        // SAFETY: as for `read`; `UnsafeCell`s permit writes. Elements are of a type for which all bytes are valid.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), ptr::with_exposed_provenance_mut(self.address()), self.bytes());
            (self.first..self.first + self.count).for_each(|element| (*self.record).write(element));
        }
    }
}

/// A tensor, and the kernel's parameter for it.
#[derive(Clone, Copy)]
pub struct Tile {
    pub tensor: TensorArg,
    pub name: &'static str,
}

impl Tile {
    /// Elements of the tile.
    pub fn elements(&self) -> u32 {
        self.tensor.tile.iter().product()
    }

    /// The parts of the copy of a tile that begins at `at`, to the address `to`: runs of elements that are inside or outside of the
    /// tensor, within chunks of 16 bytes of shared memory.
    fn parts(&self, to: u32, at: [i32; 3]) -> Vec<Part> {
        let TensorArg { address, element, sizes, tile, swizzle, .. } = self.tensor;
        let mut parts: Vec<Part> = Vec::new();
        for offset in 0..self.elements() {
            let inner = [offset % tile[0], offset / tile[0] % tile[1], offset / (tile[0] * tile[1])];
            let outer: [i64; 3] = std::array::from_fn(|axis| i64::from(at[axis]) + i64::from(inner[axis]));
            let inside = (0..3).all(|axis| (0..i64::from(sizes[axis])).contains(&outer[axis]));
            let first = (outer[2] * i64::from(sizes[1]) + outer[1]) * i64::from(sizes[0]) + outer[0];
            let bytes = match swizzle {
                Swizzle::None => element * offset,
                Swizzle::B128 => swizzled(element * offset),
            };
            let next = Chunk { address: to + bytes, bytes: element };
            if let Some(Part { to, from }) = parts.last_mut()
                && from.is_some() == inside
                && to.address + to.bytes == next.address
                && !next.address.is_multiple_of(UNIT as u32)
            {
                to.bytes += element;
                if let Some(from) = from {
                    from.count += 1;
                }
                continue;
            }
            let record = ptr::with_exposed_provenance::<Record>(address as usize);
            let piece = Piece { record, name: self.name, first: first as usize, count: 1, size: element as usize };
            parts.push(Part { to: next, from: inside.then_some(piece) });
        }
        parts
    }
}

/// A copy to shared memory.
pub struct Load {
    pub engine: Clock,
    pub bytes: u32,
    parts: Vec<Part>,
    pub site: &'static Location<'static>,
}

/// Consecutive bytes of a copy to shared memory.
pub struct Part {
    pub to: Chunk,
    /// Zeros if there is no source.
    pub from: Option<Piece>,
}

/// A copy from shared memory.
struct Store {
    engine: Clock,
    from: Chunk,
    to: Piece,
    site: &'static Location<'static>,
    /// The bytes, as soon as they are read.
    read: Option<Vec<u8>>,
}

/// The stores of a thread.
#[derive(Default)]
pub struct Stores {
    /// Not yet in a group.
    open: Vec<Store>,
    groups: VecDeque<Vec<Store>>,
}

impl Stores {
    pub fn clear(&mut self) {
        self.open.clear();
        self.groups.clear();
    }
}

/// What a block has of the asynchronous proxy.
#[derive(Default)]
pub struct Proxy {
    /// The barriers, by address.
    phases: BTreeMap<u32, PhaseBarrier>,
    /// The last fences of each thread.
    fences: BTreeMap<u16, VecDeque<Fence>>,
    /// Products that each warp has started.
    products: [u32; 32],
}

/// A fence of the proxy.
struct Fence {
    time: u32,
    /// What it orders before later copies.
    known: Arc<Knowledge>,
    /// Whether it is for barriers only.
    of_init: bool,
}

impl Proxy {
    pub fn reset(&mut self) {
        self.phases.clear();
        self.fences.clear();
        self.products = [0; 32];
    }

    /// Notes a product of a warp.
    pub fn count_product(&mut self, warp: u32) {
        self.products[warp as usize] += 1;
    }

    /// The numbers of products of the warps of a group, if they differ.
    pub fn uneven(&self) -> Option<&[u32]> {
        self.products.chunks(4).find(|group| group.iter().any(|count| *count != group[0]))
    }

    /// Whether a thread that waits for a phase can go on.
    pub fn can_pass(&self, address: u32, phase: u32) -> bool {
        self.phases.get(&address).is_none_or(|barrier| barrier.over(phase, false).is_some() || barrier.can_end())
    }

    /// What the phase of a barrier waits for.
    pub fn describe(&self, address: u32) -> String {
        self.phases.get(&address).map_or(String::new(), PhaseBarrier::describe)
    }

    /// A copy to shared memory for which no thread has waited.
    pub fn unawaited(&self) -> Option<&Load> {
        self.phases.values().find_map(|barrier| barrier.loads.first())
    }
}

#[cold]
fn raise(kind: Kind, hint: impl Into<String>, site: &'static Location<'static>) -> ! {
    Raised { hint: Some(hint.into()), ..Raised::new(kind, Some(site)) }.raise()
}

impl Thread {
    fn proxy(&self) -> RefMut<'_, Proxy> {
        self.block().proxy.borrow_mut()
    }

    /// A barrier, which must be initialised.
    fn phases(&self, address: u32, site: &'static Location<'static>) -> RefMut<'_, PhaseBarrier> {
        self.block().phases(address, site)
    }

    /// Initialises a barrier.
    #[track_caller]
    pub(crate) fn init_phases(&self, address: u32, arrivals: u32) {
        let site = Location::caller();
        if arrivals == 0 || arrivals >= 1 << 20 {
            let reason = format!("a phase has {arrivals} arrivals; 1 to 1048575 are possible");
            raise(Kind::Mbarrier { place: self.shared_place(address, 8), reason }, "how many threads arrive?", site);
        }
        let block = self.block();
        self.shared_of(block, address, 8, Action::Write, site).store(address, 8, 0);
        let init = self.clock.borrow().stamp(Action::Write, site);
        self.proxy().phases.insert(address, PhaseBarrier::new(arrivals, init));
    }

    /// Arrives at a barrier, and announces bytes.
    #[track_caller]
    pub(crate) fn arrive_in_phase(&self, address: u32, bytes: u32) {
        self.arrive_in(self.block(), address, bytes, Location::caller());
    }

    /// Arrives at the barrier of a block of the cluster whose address in this block is `address`.
    #[track_caller]
    pub(crate) fn arrive_in_phase_of(&self, rank: u32, address: u32) {
        self.arrive_in(self.visit(rank), self.map_shared(address, rank), 0, Location::caller());
    }

    fn arrive_in(&self, block: &Block, address: u32, bytes: u32, site: &'static Location<'static>) {
        self.communicates();
        drop(self.shared_of(block, address, 8, Action::Atomic, site));
        let known = self.clock.borrow_mut().publish();
        let mut barrier = block.phases(address, site);
        if !barrier.arrive(bytes, &known, block.serial != self.block().serial) {
            let reason = format!("more threads arrive than {}: {}", barrier.arrivals, barrier.describe());
            drop(barrier);
            let hint = "do threads arrive twice, or without a wait for the phase before?";
            raise(Kind::Mbarrier { place: block.phase_place(address), reason }, hint, site);
        }
    }

    /// The phase for which a thread waits: the last one of this parity, or the one that runs. Phases count from 1.
    fn awaited(&self, address: u32, parity: u32, site: &'static Location<'static>) -> u32 {
        drop(self.shared_of(self.block(), address, 8, Action::AtomicRead, site));
        self.phases(address, site).awaited(parity)
    }

    /// Whether a phase has ended: then the thread knows all before its end, of other blocks if it waits for the cluster. Executes the copies
    /// for which the phase waits.
    fn passes(&self, address: u32, phase: u32, of_cluster: bool, site: &'static Location<'static>) -> bool {
        let mut barrier = self.phases(address, site);
        if barrier.over(phase, false).is_none() && barrier.can_end() {
            let (coming, expected) = (barrier.coming(), barrier.expected());
            if coming > expected {
                let copy = barrier.loads.last().map_or(0, |load| load.site.line());
                drop(barrier);
                let reason = format!("copies bring {coming} bytes in a phase that expects {expected}");
                let hint =
                    format!("does `arrive_expecting` announce all bytes of the copies, the last on line {copy}?");
                raise(Kind::Mbarrier { place: self.shared_place(address, 8), reason }, hint, site);
            }
            let mut shared = self.block().shared.borrow_mut();
            for load in std::mem::take(&mut barrier.loads) {
                for Part { to, from } in &load.parts {
                    match from {
                        Some(from) => shared.copy_in(to.address, &from.read()),
                        None => shared.copy_in(to.address, &vec![0; to.bytes as usize]),
                    }
                    words(to.address, to.bytes).for_each(|word| shared.end_copy(word, &load.engine));
                }
                barrier.land(&load);
            }
            barrier.end_if_complete();
        }
        let known = barrier.over(phase, of_cluster);
        if let Some(known) = &known {
            self.clock.borrow_mut().acquire(known);
        }
        known.is_some()
    }

    /// Looks once whether the last phase of this parity has ended.
    #[track_caller]
    pub(crate) fn try_wait_for_phase(&self, address: u32, parity: u32) -> bool {
        let site = Location::caller();
        self.communicates();
        let passes = self.passes(address, self.awaited(address, parity, site), false, site);
        self.weighted_step(passes, false, 1, site, || Target::Shared { block: self.block(), address, size: 8 });
        passes
    }

    /// Waits for the end of the phase of this parity, and for what threads of other blocks have done before it if `of_cluster`.
    #[track_caller]
    pub(crate) fn wait_for_phase(&self, address: u32, parity: u32, of_cluster: bool) {
        let site = Location::caller();
        self.communicates();
        self.count_work(COPY_STEPS, site);
        self.forget_peeks();
        let phase = self.awaited(address, parity, site);
        while !self.passes(address, phase, of_cluster, site) {
            self.wait(Wait::Phase { site, address, phase });
        }
    }

    /// A fence of the asynchronous proxy; for barriers only, if `of_init`.
    #[track_caller]
    pub(crate) fn fence_async(&self, of_init: bool) {
        self.count_work(4, Location::caller());
        let (time, known) = {
            let mut clock = self.clock.borrow_mut();
            (clock.time, clock.publish())
        };
        let mut proxy = self.proxy();
        let fences = proxy.fences.entry(self.id as u16).or_default();
        fences.push_front(Fence { time, known, of_init });
        fences.truncate(FENCES);
    }

    /// Whether a fence of the proxy by a thread of `block` is between an ordinary write and the present.
    fn is_fenced(&self, block: &Block, write: &Stamp, of_init: bool) -> bool {
        let (clock, proxy) = (self.clock.borrow(), block.proxy.borrow());
        let orders = |(&thread, fences): (&u16, &VecDeque<Fence>)| {
            fences.iter().any(|fence| {
                (of_init || !fence.of_init)
                    && clock.knows_access(block.serial, thread, fence.time)
                    && fence.known.contains(write.block, write.thread, write.time)
            })
        };
        // Most often the thread that has written.
        proxy.fences.get_key_value(&write.thread).is_some_and(orders) || proxy.fences.iter().any(orders)
    }

    /// The place of a word in the shared memory of `block` that an ordinary write without a fence has written.
    pub(super) fn unfenced(&self, block: &Block, chunk: Chunk) -> Option<(Place, Stamp)> {
        let shared = block.shared.borrow();
        let mut fenced = Stamp::NONE;
        words(chunk.address, chunk.bytes).find_map(|word| {
            let write = shared.writes(word).find(|write| {
                let known = write.same_thread(&fenced) && write.time == fenced.time;
                if known || !block.shares_with(write.block) {
                    return false;
                }
                let passes = self.is_fenced(block, write, false);
                if passes {
                    fenced = *write;
                }
                !passes
            })?;
            Some((shared.place(4 * word as u32, 4), write))
        })
    }

    /// Ends the launch if a fence of the proxy is missing before a copy.
    pub(super) fn require_fence(&self, unfenced: Option<(Place, Stamp)>, site: &'static Location<'static>) {
        if let Some((place, write)) = unfenced {
            let line = write.site.map_or(0, Location::line);
            let hint = format!(
                "thread {} writes this on line {line}: is `bulk::fence` missing after it, or a barrier after the fence, before line {}?",
                write.thread,
                site.line()
            );
            raise(Kind::ProxyFence { place }, hint, site);
        }
    }

    /// A clock for a copy that the thread starts.
    pub(super) fn fork(&self, site: &'static Location<'static>) -> Clock {
        let serial = super::NEXT_BLOCK.fetch_add(1, Ordering::Relaxed);
        let mut clock = self.clock.borrow_mut();
        self.launch().copies.borrow_mut().insert(serial, clock.stamp(Action::Copy, site));
        clock.fork(serial)
    }

    /// Records an access of a copy to the shared memory of `block`.
    pub(super) fn touch_by_copy(
        &self,
        block: &Block,
        chunk: Chunk,
        action: Action,
        engine: &Clock,
        site: &'static Location<'static>,
    ) {
        let mut shared = block.shared.borrow_mut();
        let Chunk { address, bytes } = chunk;
        if action.writes() {
            shared.set_written(address, bytes);
        } else if let Some(word) = words(address, bytes).find(|&word| !shared.has_value(4 * word as u32, 4)) {
            let place = shared.place(4 * word as u32, 4);
            drop(shared);
            raise(Kind::Uninitialised { place }, "does the loop that fills it reach every element?", site);
        }
        for word in words(address, bytes) {
            if let Err(earlier) = shared.touch(4 * word as u32, 4, action, engine, site) {
                let place = shared.place(4 * word as u32, 4);
                drop(shared);
                self.race(place, earlier, action, site);
            }
        }
    }

    fn check_bulk(&self, chunk: Chunk, piece: &Piece, site: &'static Location<'static>) {
        let bytes = piece.bytes();
        if bytes == 0 || !bytes.is_multiple_of(UNIT) {
            let hint = "copy the rest by the threads of the block";
            raise(Kind::Bulk { reason: format!("its size, {bytes} bytes, is no multiple of {UNIT}") }, hint, site);
        }
        let misaligned = |place| {
            raise(Kind::Misaligned { place, bytes: UNIT }, "a bulk copy begins at a multiple of 16 bytes", site)
        };
        if !(chunk.address as usize).is_multiple_of(UNIT) {
            misaligned(self.shared_place(chunk.address, piece.size as u32));
        }
        if !(piece.first * piece.size).is_multiple_of(UNIT) {
            misaligned(piece.place());
        }
    }

    /// Starts a copy to shared memory, whose bytes count for the phase of a barrier.
    #[track_caller]
    pub(crate) fn load_bulk(&self, to: Chunk, from: Piece, barrier: u32) {
        let site = Location::caller();
        self.check_bulk(to, &from, site);
        self.read_only(from.elements(), false, site);
        self.start_load(self.block(), vec![Part { to, from: Some(from) }], barrier, site);
    }

    /// Starts a copy of a tile of a tensor to the same place of each block of the cluster in `ranks`, a bit for each; to this block if there
    /// are none.
    #[track_caller]
    pub(crate) fn load_tile(&self, to: Chunk, tile: &Tile, at: [i32; 3], barrier: u32, ranks: Option<u16>) {
        let site = Location::caller();
        let unit = if tile.tensor.swizzle == Swizzle::B128 { 1024 } else { 128 };
        if !to.address.is_multiple_of(unit) {
            let place = self.shared_place(to.address, tile.tensor.element);
            let hint = format!("such a tile begins at a multiple of {unit} bytes: `Shared::aligned` gives one");
            raise(Kind::Misaligned { place, bytes: unit as usize }, hint, site);
        }
        let start = i64::from(at[0]) * i64::from(tile.tensor.element);
        if start % UNIT as i64 != 0 {
            let reason = format!("the tile begins at byte {start} of a row, which is no multiple of {UNIT}");
            raise(
                Kind::Bulk { reason },
                "does the first coordinate count elements, and are they at a multiple of 16 bytes?",
                site,
            );
        }
        let parts = tile.parts(to.address, at);
        for part in parts.iter().filter_map(|part| part.from.as_ref()) {
            self.read_only(part.elements(), false, site);
        }
        let Some(ranks) = ranks else { return self.start_load(self.block(), parts, barrier, site) };
        if ranks == 0 {
            raise(Kind::Bulk { reason: "no block of the cluster gets it".to_owned() }, "is the mask right?", site);
        }
        for rank in (0..16).filter(|rank| ranks >> rank & 1 == 1) {
            let (block, start) = (self.existing_block(rank), self.map_shared(to.address, rank));
            self.start_load(block, tile.parts(start, at), self.map_shared(barrier, rank), site);
        }
    }

    /// Starts a copy of these parts to the shared memory of `block`, which has the barrier.
    fn start_load(&self, block: &Block, parts: Vec<Part>, barrier: u32, site: &'static Location<'static>) {
        self.communicates();
        self.count_work(COPY_STEPS, site);
        self.forget_peeks();
        drop(self.shared_of(block, barrier, 8, Action::AtomicRead, site));
        let init = block.phases(barrier, site).init;
        if !self.is_fenced(block, &init, true) {
            let line = init.site.map_or(0, Location::line);
            let hint = format!("is `fence_init` missing after line {line}, or a barrier after it?");
            raise(Kind::ProxyFence { place: block.phase_place(barrier) }, hint, site);
        }
        let unfenced = parts.iter().find_map(|part| self.unfenced(block, part.to));
        let engine = self.fork(site);
        for part in &parts {
            self.touch_by_copy(block, part.to, Action::Copy, &engine, site);
        }
        self.require_fence(unfenced, site);
        let bytes = parts.iter().map(|part| part.to.bytes).sum();
        block.phases(barrier, site).loads.push(Load { engine, bytes, parts, site });
    }

    /// Starts a copy to global memory.
    #[track_caller]
    pub(crate) fn store_bulk(&self, from: Chunk, to: Piece) {
        let site = Location::caller();
        self.communicates();
        self.count_work(COPY_STEPS, site);
        self.forget_peeks();
        self.check_bulk(from, &to, site);
        let unfenced = self.unfenced(self.block(), from);
        let engine = self.fork(site);
        self.touch_by_copy(self.block(), from, Action::Read, &engine, site);
        self.require_fence(unfenced, site);
        for element in to.first..to.first + to.count {
            let touched = to.elements().record.shadow.borrow_mut().touch(element, Action::Copy, &engine, site);
            if let Err(earlier) = touched {
                self.race(Place { index: element, ..to.place() }, earlier, Action::Copy, site);
            }
        }
        self.rare.set(true);
        self.stores.borrow_mut().open.push(Store { engine, from, to, site, read: None });
    }

    /// Combines the stores since the last call into a group.
    #[track_caller]
    pub(crate) fn commit_stores(&self) {
        self.count_work(1, Location::caller());
        self.rare.set(true);
        let stores = &mut *self.stores.borrow_mut();
        stores.groups.push_back(std::mem::take(&mut stores.open));
    }

    /// Waits until at most the last `pending` groups of stores have not read shared memory; if `whole`, until they are complete.
    #[track_caller]
    pub(crate) fn wait_for_stores(&self, pending: usize, whole: bool) {
        self.count_work(1, Location::caller());
        let stores = &mut *self.stores.borrow_mut();
        let done = stores.groups.len().saturating_sub(pending);
        for store in stores.groups.iter_mut().take(done).flatten().filter(|store| store.read.is_none()) {
            let Chunk { address, bytes } = store.from;
            store.read = Some(self.block().shared.borrow().bytes_at(address, bytes).to_vec());
            let mut known = Knowledge::default();
            known.add_block(store.engine.block);
            self.clock.borrow_mut().acquire(&known);
        }
        if whole {
            stores.groups.drain(..done).flatten().for_each(|store| store.complete());
        }
    }

    /// Ends the stores of a thread that ends.
    pub(super) fn end_stores(&self) {
        let stores = std::mem::take(&mut *self.stores.borrow_mut());
        for store in stores.groups.into_iter().flatten().chain(stores.open) {
            if store.read.is_none() {
                let reason =
                    "its thread ends, and the block's shared memory with it, before the copy need have read it";
                raise(Kind::Bulk { reason: reason.to_owned() }, "is `bulk::wait_read` missing at the end?", store.site);
            }
            store.complete();
        }
    }
}

impl Store {
    /// Writes the bytes.
    fn complete(&self) {
        let Self { engine, to, read, .. } = self;
        to.write(read.as_deref().unwrap_or_default());
        let mut shadow = to.elements().record.shadow.borrow_mut();
        (to.first..to.first + to.count).for_each(|element| shadow.end_copy(element, engine));
    }
}

impl Block {
    /// A barrier, which must be initialised.
    fn phases(&self, address: u32, site: &'static Location<'static>) -> RefMut<'_, PhaseBarrier> {
        RefMut::filter_map(self.proxy.borrow_mut(), |proxy| proxy.phases.get_mut(&address)).unwrap_or_else(|_| {
            let reason = "it is not initialised".to_owned();
            raise(Kind::Mbarrier { place: self.phase_place(address), reason }, "is `Mbarrier::init` missing?", site)
        })
    }

    /// The first word of the array that contains a barrier, for messages.
    pub(crate) fn phase_place(&self, address: u32) -> Place {
        self.shared.borrow().place(address, 8)
    }
}
