//! Runs a block. Each CUDA thread runs on the stack of a coroutine until it waits. A coroutine whose thread ends without
//! having waited goes on with the next thread of the block, so threads that never wait need no switch of stacks.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use super::clock::{Action, Stamp};
use super::cluster::{Cluster, wait_at_the_end};
use super::fault::{Earlier, Fault, Kind, Raised, Threads};
use super::launch::{Launch, index_of};
use super::meeting::Meeting;
use super::profile::Collector;
use super::stack::{LOCAL_LIMIT, Payload, Routine, Stack, Yielder};
use super::thread::{Block, State, Thread, Wait, WarpOp, enter, joined};
use crate::launch::{Call, Dim3};

/// Stack size of a thread. The part beyond [`LOCAL_LIMIT`] is for the emulator's functions, and for the fault. Memory that no
/// thread touches costs nothing.
pub const STACK_BYTES: usize = 2 * LOCAL_LIMIT;

/// The fault of a thread that has unwound.
fn locate(launch: &Launch, block: Dim3, payload: Payload, thread: u32) -> Box<Fault> {
    let raised = payload.downcast::<Raised>().map(|raised| *raised).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Raised::new(Kind::Panic { message: text.unwrap_or_default() }, None)
    });
    let earlier = raised.earlier.map(|stamp| {
        let stamp = launch.origin(&stamp).unwrap_or(stamp);
        let (kernel, block) = launch.block_of(stamp.block);
        Earlier { kernel, block, thread: stamp.thread.into(), access: stamp.action.describe(), site: stamp.site }
    });
    let threads = earlier.as_ref().map_or(Threads::One(thread), |earlier| Threads::Two(earlier.thread, thread));
    let (kernel, schedule) = (launch.kernel, launch.schedule);
    Box::new(Fault {
        kernel,
        block,
        threads,
        kind: raised.kind,
        site: raised.site,
        earlier,
        hint: raised.hint,
        schedule,
    })
}

/// The threads of a block that are able to continue.
struct Able {
    /// One bit for each thread.
    words: [u64; 16],
    /// Ones in each word.
    counts: [u16; 16],
    count: usize,
}

impl Able {
    /// All of `count` threads.
    fn all(count: usize) -> Self {
        let counts = std::array::from_fn(|word| count.saturating_sub(64 * word).min(64) as u16);
        let words = counts.map(|count| if count == 0 { 0 } else { u64::MAX >> (64 - count) });
        Self { words, counts, count }
    }

    #[inline]
    fn set(&mut self, id: usize, able: bool) {
        let (word, bit) = (id / 64, 1 << (id % 64));
        if able != (self.words[word] & bit != 0) {
            self.words[word] ^= bit;
            self.counts[word] = if able { self.counts[word] + 1 } else { self.counts[word] - 1 };
            self.count = if able { self.count + 1 } else { self.count - 1 };
        }
    }

    /// The thread that has `rank` such threads before it.
    fn nth(&self, mut rank: usize) -> usize {
        let mut word = 0;
        while rank >= usize::from(self.counts[word]) {
            rank -= usize::from(self.counts[word]);
            word += 1;
        }
        let mut bits = self.words[word];
        let mut start = 64 * word;
        for width in [32, 16, 8] {
            let low = (bits & ((1 << width) - 1)).count_ones() as usize;
            if rank >= low {
                rank -= low;
                bits >>= width;
                start += width;
            }
        }
        (0..rank).for_each(|_| bits &= bits - 1);
        start + bits.trailing_zeros() as usize
    }
}

/// Memory of ended threads and blocks, for reuse.
#[derive(Default)]
pub struct Pool {
    stacks: Vec<Stack>,
    blocks: Vec<Memory>,
}

impl Pool {
    fn stack(&mut self) -> std::io::Result<Stack> {
        self.stacks.pop().map_or_else(|| Stack::new(STACK_BYTES), Ok)
    }
}

/// A block and its threads.
struct Memory {
    // Dropped before `block`, to which its threads point.
    threads: Vec<Thread>,
    block: Box<Block>,
    states: Vec<State>,
    routines: Vec<Option<Routine>>,
}

// SAFETY: what is not `Send` in it are coroutines and pointers from threads to their block, launch and coroutine. In the
// pool, which alone is sent, there are no coroutines: all have ended. `Thread::begin` replaces the pointers before they
// are used, or they point within the same `Memory`.
unsafe impl Send for Memory {}

/// What a round has achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// All threads have returned.
    Ended,
    /// Some threads have continued.
    Advanced,
    /// All threads wait; some of them for other blocks, perhaps.
    Stalled,
}

/// A block that runs.
pub struct Runner<'a> {
    launch: &'a Launch,
    /// The kernel for one thread.
    body: &'a dyn Fn(),
    // Declared, and so dropped, before `threads` and `block`: after a fault, the remaining coroutines unwind and may
    // still use both.
    /// The coroutines of threads that have begun and wait.
    routines: Vec<Option<Routine>>,
    states: Vec<State>,
    threads: Vec<Thread>,
    block: Box<Block>,
    /// Threads that have not ended.
    left: usize,
    /// The lanes of each warp that wait at a warp operation.
    exchanging: [u32; 32],
    /// Whether `able` is up to date: threads run in random turns.
    interleaved: bool,
    able: Able,
}

impl<'a> Runner<'a> {
    /// The block of linear index `id`.
    pub fn new(
        launch: &'a Launch,
        call: &'a Call<'_>,
        body: &'a dyn Fn(),
        id: u32,
        cluster: Option<*const Cluster>,
        pool: &mut Pool,
    ) -> Result<Self, Box<Fault>> {
        let count = call.shape.block.count() as usize;
        let index = index_of(id.into(), launch.grid);
        let mut memory = pool.blocks.pop().unwrap_or_else(|| Memory {
            threads: Vec::new(),
            block: Box::default(),
            states: Vec::new(),
            routines: Vec::new(),
        });
        let block = &mut *memory.block;
        let stream = u64::from(index.x) + (u64::from(index.y) << 24) + (u64::from(index.z) << 44);
        let reset = || block.reset(launch, index, launch.first + u64::from(id), call.shape, stream + 1);
        catch_unwind(AssertUnwindSafe(reset)).map_err(|payload| locate(launch, index, payload, 0))?;
        memory.block.cluster = cluster;
        let block = &raw const *memory.block;
        if let Some(cluster) = memory.block.cluster() {
            cluster.admit(block);
        }
        memory.threads.truncate(count);
        for id in memory.threads.len()..count {
            memory.threads.push(Thread::new(id as u32, block));
        }
        memory.block.threads = memory.threads.as_ptr();
        memory.states.clear();
        memory.states.resize(count, State::Fresh);
        memory.routines.resize_with(count, || None);
        let Memory { threads, block, states, routines } = memory;
        let (able, interleaved) = (Able::all(count), launch.interleaves());
        Ok(Self { launch, body, routines, states, threads, block, left: count, exchanging: [0; 32], interleaved, able })
    }

    /// Keeps the memory of the ended block.
    pub fn recycle(self, pool: &mut Pool) {
        let Self { routines, states, threads, mut block, .. } = self;
        block.cluster = None;
        pool.blocks.push(Memory { threads, block, states, routines });
    }

    #[inline]
    fn set(&mut self, id: usize, state: State) {
        self.states[id] = state;
        if self.interleaved {
            self.able.set(id, state.is_able());
        }
    }

    /// Runs every thread until it waits, then ends the waits that are complete.
    pub fn round(&mut self, pool: &mut Pool) -> Result<Round, Box<Fault>> {
        self.catch(|runner| runner.run_all(pool))
    }

    /// Runs one random thread until it waits.
    pub fn turn(&mut self, pool: &mut Pool) -> Result<Round, Box<Fault>> {
        self.catch(|runner| runner.run_one(pool))
    }

    /// Ends the waits for elements to be written: nothing else can happen. Each is a fault.
    pub fn end_waits_for_values(&mut self, pool: &mut Pool) -> Result<(), Box<Fault>> {
        self.catch(|runner| {
            for k in 0..runner.states.len() {
                let id = runner.block.order[k] as usize;
                if runner.states[id] == State::Unwritten {
                    runner.resume(id, pool)?;
                }
            }
            Ok(())
        })
    }

    /// Calls `run`, which runs threads. Returns the fault if one of them panics.
    fn catch<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Box<Fault>>) -> Result<T, Box<Fault>> {
        let before = enter(std::ptr::null());
        let result = catch_unwind(AssertUnwindSafe(|| run(self)));
        enter(before);
        result.unwrap_or_else(|payload| Err(self.fault(payload, self.block.current.get())))
    }

    fn run_all(&mut self, pool: &mut Pool) -> Result<Round, Box<Fault>> {
        let mut advanced = false;
        let mut position = 0;
        while position < self.states.len() {
            let id = self.block.order[position] as usize;
            if self.states[id] == State::Fresh {
                // In the first round, all threads from here on are fresh.
                advanced |= self.start(id, position..self.states.len(), pool)?;
                position = self.block.position.get();
            } else if self.states[id].is_able() {
                advanced |= self.resume(id, pool)?;
            }
            position += 1;
        }
        for warp in 0..self.states.len().div_ceil(32) {
            advanced |= self.release_warp(warp);
        }
        advanced |= self.release_named();
        advanced |= self.release_meeting();
        advanced |= self.release_phases();
        advanced |= self.release_barrier();
        self.ended(advanced)
    }

    fn run_one(&mut self, pool: &mut Pool) -> Result<Round, Box<Fault>> {
        let mut advanced = false;
        if self.able.count > 0 {
            let id = self.able.nth(self.launch.draw(self.able.count));
            advanced = match self.states[id] {
                State::Fresh => self.start(id, 0..0, pool)?,
                _ => self.resume(id, pool)?,
            };
            advanced |= self.release_warp(id / 32);
        }
        advanced |= self.release_named();
        advanced |= self.release_meeting();
        advanced |= self.release_phases();
        advanced |= self.release_barrier();
        self.ended(advanced)
    }

    /// Adds the instructions of the block.
    pub fn add_to(&self, entry: &'static str, collector: &mut Collector) {
        let events: Vec<_> = self.threads.iter().map(|thread| thread.events.take()).collect();
        collector.block(entry, self.block.shared.borrow().len(), &events);
    }

    fn ended(&self, advanced: bool) -> Result<Round, Box<Fault>> {
        if self.left == 0 {
            return Ok(Round::Ended);
        }
        if advanced {
            return Ok(Round::Advanced);
        }
        let may_continue = |state: &State| state.is_able() || matches!(state, State::Unwritten | State::Meeting);
        if self.states.iter().any(may_continue) || self.waits_for_phases() {
            Ok(Round::Stalled)
        } else {
            Err(self.divergence())
        }
    }

    /// Starts a coroutine with a fresh thread. When it ends, the coroutine goes on with the threads at the further
    /// `positions` of the order, the first of which is its own, until one waits. Returns whether a thread has done more
    /// than to wait for a value.
    fn start(&mut self, id: usize, positions: Range<usize>, pool: &mut Pool) -> Result<bool, Box<Fault>> {
        let stack = pool.stack().map_err(|error| {
            let message = format!("no stack for an emulated thread: {error}");
            self.fault(Box::new(message), id as u32)
        })?;
        let first = positions.start;
        self.block.schedule(id as u32, positions);
        let block = &raw const *self.block;
        // SAFETY: `Runner` owns the coroutine and is dropped when `Grid::run` returns, so the coroutine never outlives
        // `body`. The extended lifetime is necessary because the type `Routine` requires a `'static` closure.
        let body: &'static dyn Fn() = unsafe { std::mem::transmute::<&dyn Fn(), &'static dyn Fn()>(self.body) };
        let mut routine = Routine::new(stack, move |yielder: &Yielder| {
            // SAFETY: `Runner` drops the coroutines before the block, which does not move.
            let block = unsafe { &*block };
            loop {
                let thread = block.current_thread();
                thread.begin(yielder);
                enter(thread);
                body();
                thread.end();
                if thread.has_waited() || !block.next_thread() {
                    return;
                }
            }
        });
        self.block.stack.set(Some(routine.bounds()));
        let result = routine.resume();
        let last = self.block.current.get() as usize;
        for position in first..self.block.position.get() {
            self.end(self.block.order[position] as usize);
        }
        let advanced = if result.map_err(|fault| self.fault(fault, last as u32))? {
            self.routines[last] = Some(routine);
            self.suspend(last)
        } else {
            pool.stacks.push(routine.into_stack());
            self.end(last);
            true
        };
        Ok(advanced || last != id)
    }

    /// Runs a thread that has waited until it waits again or ends. Returns whether it has done more than to read what it
    /// has read before.
    fn resume(&mut self, id: usize, pool: &mut Pool) -> Result<bool, Box<Fault>> {
        let routine = self.routines[id].as_mut().expect("a thread that waits has a coroutine");
        self.block.current.set(id as u32);
        self.block.stack.set(Some(routine.bounds()));
        enter(&raw const self.threads[id]);
        if routine.resume().map_err(|fault| self.fault(fault, id as u32))? {
            return Ok(self.suspend(id));
        }
        pool.stacks.extend(self.routines[id].take().map(Routine::into_stack));
        self.end(id);
        Ok(true)
    }

    #[inline]
    fn end(&mut self, id: usize) {
        self.left -= 1;
        self.set(id, State::Ended);
    }

    /// Notes what a thread waits for. Returns whether it has done more than to read what it has read before.
    #[inline]
    fn suspend(&mut self, id: usize) -> bool {
        let state = self.threads[id].state.get();
        self.set(id, state);
        if state == State::Warp {
            self.exchanging[id / 32] |= 1 << (id % 32);
        }
        !matches!(state, State::Spinning | State::Unwritten)
    }

    fn fault(&self, payload: Payload, thread: u32) -> Box<Fault> {
        locate(self.launch, self.block.index, payload, thread)
    }

    /// Completes every operation of the warp that all lanes of its mask have reached.
    fn release_warp(&mut self, warp: usize) -> bool {
        let base = warp * 32;
        if let Some(op) = self.block.exchanges[warp].release() {
            if op == WarpOp::Sync {
                self.sync_warp(base..base + 32);
            }
            self.exchanging[warp] = 0;
            (base..base + 32).for_each(|id| self.set(id, State::Ready));
            return true;
        }
        let mut released = false;
        if self.exchanging[warp] == 0 {
            return released;
        }
        for lane in 0..32 {
            if self.exchanging[warp] & (1 << lane) == 0 {
                continue;
            }
            let Wait::Warp { op, mask, .. } = self.threads[base + lane].wait.get() else { continue };
            let Some(values) = self.exchanged_values(warp, op, mask) else { continue };
            let members = || (0..32).filter(move |lane| mask & (1 << lane) != 0).map(move |lane| base + lane);
            if op == WarpOp::Sync {
                self.sync_warp(members());
            }
            self.exchanging[warp] &= !mask;
            for member in members() {
                if let Wait::Warp { reply, .. } = self.threads[member].wait.get() {
                    self.threads[member].answer(reply, &values);
                }
                self.set(member, State::Ready);
            }
            released = true;
        }
        released
    }

    /// The effect of `sync_warp` on the clocks of threads of a warp.
    fn sync_warp(&self, members: impl Iterator<Item = usize> + Clone) {
        let mut lanes = [0; 32];
        for member in members.clone() {
            self.threads[member].clock.borrow().add_lanes(&mut lanes);
        }
        let acquired = joined(members.clone().map(|member| &self.threads[member]));
        for member in members {
            self.threads[member].clock.borrow_mut().sync_warp(lanes, &acquired);
        }
    }

    /// The values of the lanes, if all lanes of the mask wait at the same operation with the same mask.
    fn exchanged_values(&self, warp: usize, expected: WarpOp, expected_mask: u32) -> Option<[u64; 32]> {
        if expected_mask & !self.exchanging[warp] != 0 {
            return None;
        }
        let mut values = [0; 32];
        for (lane, slot) in values.iter_mut().enumerate().filter(|(lane, _)| expected_mask & (1 << lane) != 0) {
            match self.threads[warp * 32 + lane].wait.get() {
                Wait::Warp { op, mask, value, .. } if op == expected && mask == expected_mask => *slot = value,
                _ => return None,
            }
        }
        Some(values)
    }

    /// Lets the threads go on whose named barriers are complete.
    fn release_named(&mut self) -> bool {
        let released = self.block.released.take();
        released.iter().for_each(|&id| self.set(id as usize, State::Ready));
        !released.is_empty()
    }

    /// Lets the first thread go on if all blocks have reached the barrier at which it waits.
    fn release_meeting(&mut self) -> bool {
        let released = self.meeting().is_some_and(|(meeting, round, _)| meeting.is_over(round));
        if released {
            self.set(0, State::Ready);
        }
        released
    }

    /// The barrier of several blocks at which the block waits, the round, and where.
    fn meeting(&self) -> Option<(&Meeting, u32, &'static Location<'static>)> {
        match self.wait_of(0)? {
            // SAFETY: the meeting belongs to the launch, which outlives its blocks.
            Wait::Meeting { site, meeting, round } => Some((unsafe { &*meeting }, round, site)),
            _ => None,
        }
    }

    /// The index of the block, the barrier at which it waits for other blocks, and where.
    pub fn meets(&self) -> Option<(Dim3, &Meeting, Option<&'static Location<'static>>)> {
        self.meeting().map(|(meeting, _, site)| (self.block.index, meeting, Some(site)))
    }

    /// The linear index of the first block of its cluster.
    pub fn cluster(&self) -> Option<u32> {
        self.block.cluster()?;
        Some(self.block.linear() - self.block.rank())
    }

    /// Ends the block: its shared memory cannot be accessed any more.
    pub fn end_block(&self) -> Result<(), Box<Fault>> {
        if let Some(counts) = self.block.proxy.borrow().uneven() {
            return Err(Box::new(Fault {
                kernel: self.launch.kernel,
                block: self.block.index,
                threads: Threads::One(0),
                kind: Kind::Products { reason: format!("the warps of a group have started {counts:?} products") },
                site: None,
                earlier: None,
                hint: Some("all four warps of a group must make each product: is it in a branch of some?".to_owned()),
                schedule: self.launch.schedule,
            }));
        }
        if let Some(load) = self.block.proxy.borrow().unawaited() {
            let thread =
                self.launch.origin(&load.engine.stamp(Action::Copy, load.site)).map_or(0, |start| start.thread);
            let reason =
                "its block ends, and the shared memory with it, before the copy need have written it".to_owned();
            return Err(Box::new(Fault {
                kernel: self.launch.kernel,
                block: self.block.index,
                threads: Threads::One(thread.into()),
                kind: Kind::Bulk { reason },
                site: Some(load.site),
                earlier: None,
                hint: Some("is `Mbarrier::wait` missing?".to_owned()),
                schedule: self.launch.schedule,
            }));
        }
        let Some(cluster) = self.block.cluster() else { return Ok(()) };
        let members = cluster.members.borrow();
        let member = &members[self.block.rank() as usize];
        member.ended.set(true);
        let knows = |visit: &Stamp| self.threads.iter().any(|thread| thread.clock.borrow().knows(visit));
        let Some(visit) = member.unawaited(knows) else { return Ok(()) };
        let (kernel, schedule) = (self.launch.kernel, self.launch.schedule);
        let hint = visit.site.map(|site| wait_at_the_end(site.line()));
        Err(Box::new(Fault {
            kernel,
            block: self.launch.block_of(visit.block).1,
            threads: Threads::One(visit.thread.into()),
            kind: Kind::RemoteShared { reason: format!("{} may end before this access", self.block.name()) },
            site: visit.site,
            earlier: None,
            hint,
            schedule,
        }))
    }

    /// Whether the block waits for other blocks, which have not come, and none of its threads can do anything else.
    pub fn is_stuck(&self) -> bool {
        let able = |state: &State| state.is_able() || *state == State::Unwritten;
        let waits = match self.meeting() {
            Some((meeting, round, _)) => !meeting.is_over(round),
            None => self.waits_for_phases(),
        };
        waits && !self.states.iter().any(able)
    }

    /// Whether threads wait for phases of barriers in the shared memory of a cluster, which other blocks can end, and none has ended.
    fn waits_for_phases(&self) -> bool {
        let passes = |id| match self.wait_of(id) {
            Some(Wait::Phase { address, phase, .. }) => self.block.proxy.borrow().can_pass(address, phase),
            _ => false,
        };
        self.block.cluster().is_some() && self.block.waiting_for_phases.get() > 0 && !(0..self.states.len()).any(passes)
    }

    /// The fault of a block all of whose threads wait, some for phases that never end.
    pub fn endless_phase(&self) -> Option<Box<Fault>> {
        self.waits_for_phases().then(|| self.divergence())
    }

    /// Lets the threads go on for whose phases only copies are missing.
    fn release_phases(&mut self) -> bool {
        let mut released = false;
        if self.block.waiting_for_phases.get() == 0 {
            return released;
        }
        for id in 0..self.states.len() {
            if let Some(Wait::Phase { address, phase, .. }) =
                self.wait_of(id).filter(|_| self.states[id] == State::Phase)
                && self.block.proxy.borrow().can_pass(address, phase)
            {
                self.set(id, State::Ready);
                self.block.waiting_for_phases.set(self.block.waiting_for_phases.get() - 1);
                released = true;
            }
        }
        released
    }

    /// Completes the barrier if every thread waits at it.
    fn release_barrier(&mut self) -> bool {
        let released = self.block.barrier.release(self.states.len());
        if released {
            self.states.fill(State::Ready);
            self.able = Able::all(self.states.len());
        }
        released
    }

    /// The fault, if no thread can continue.
    fn divergence(&self) -> Box<Fault> {
        let fault = |kind, threads, site: Option<&'static Location<'static>>, hint| {
            let (kernel, schedule) = (self.launch.kernel, self.launch.schedule);
            Box::new(Fault { kernel, block: self.block.index, threads, kind, site, earlier: None, hint, schedule })
        };
        let waits = || (0..self.states.len()).filter_map(|id| Some((id, self.wait_of(id)?)));
        // A warp operation that cannot complete is the cause, even if other threads wait at a barrier.
        for (id, wait) in waits() {
            let Wait::Warp { site, op, mask, .. } = wait else { continue };
            let base = id / 32 * 32;
            let missing = (0..32).filter(|lane| mask & (1 << lane) != 0).find(|&lane| {
                !matches!(self.wait_of(base + lane), Some(Wait::Warp { op: its, mask: theirs, .. })
                          if its == op && theirs == mask)
            });
            if let Some(lane) = missing {
                let kind = Kind::WarpDivergence {
                    operation: format!("{op:?}"),
                    mask,
                    lane: lane as u32,
                    other: self.describe_state(base + lane),
                };
                let hint = format!(
                    "every lane of the mask must execute the operation on line {}: is it in a branch that some lanes do \
                     not take, or is the mask too wide?",
                    site.line()
                );
                return fault(kind, Threads::Two(id as u32, (base + lane) as u32), Some(site), Some(hint));
            }
        }
        for (id, wait) in waits() {
            let Wait::Phase { site, address, phase } = wait else { continue };
            let reason = format!(
                "thread {id} waits for phase {} on line {}, and no thread can continue: {}",
                phase - 1,
                site.line(),
                self.block.proxy.borrow().describe(address)
            );
            let kind = Kind::Mbarrier { place: self.block.phase_place(address), reason };
            let hint = "is the parity right, do all threads arrive, and does `arrive_expecting` announce the bytes of the copies?";
            return fault(kind, Threads::One(id as u32), Some(site), Some(hint.to_owned()));
        }
        for (id, wait) in waits() {
            let Wait::Named { site, barrier } = wait else { continue };
            let named = &self.block.named.borrow()[barrier as usize];
            let reason =
                format!("only {} have reached it when thread {id} waits on line {}", named.arrived, site.line());
            let kind = Kind::NamedBarrier { barrier, threads: named.threads, reason };
            let hint = "as many threads as the barrier is for must reach it, by `sync_barrier` or `arrive_barrier`, and all lanes \
                        of each warp: is the number too large, or does a branch keep some away?";
            return fault(kind, Threads::One(id as u32), Some(site), Some(hint.to_owned()));
        }
        let barrier = waits().find_map(|(id, wait)| match wait {
            Wait::Barrier { site } => Some((id, site)),
            _ => None,
        });
        let (waiting, site) = barrier.map_or((0, None), |(id, site)| (id, Some(site)));
        let line = site.map_or(0, Location::line);
        let elsewhere = (0..self.states.len()).find(|&id| match self.wait_of(id) {
            Some(Wait::Barrier { site: other }) => Some(other) != site,
            _ => true,
        });
        let first = &self.threads[waiting];
        let in_another_round = self.threads.iter().find(|thread| thread.round != first.round);
        if let Some(other) = in_another_round.filter(|_| elsewhere.is_none()) {
            let other_text = format!("waits at it in {}", other.round_beside(first));
            let kind = Kind::BarrierDivergence { waiting: line, other: other_text };
            let hint = "every thread of the block must reach the barrier in the same round of the loop: does a thread \
                        skip it in one round, by `continue` or in a branch?";
            return fault(kind, Threads::Two(waiting as u32, other.id), site, Some(hint.to_owned()));
        }
        let other = elsewhere.unwrap_or(waiting);
        let kind = Kind::BarrierDivergence { waiting: line, other: self.describe_state(other) };
        let hint = if self.states.get(other) == Some(&State::Ended) {
            "every thread of the block must reach the barrier: let threads without work skip the work instead of returning. \
             (GPUs since Volta do not wait for threads that have returned, but CUDA leaves the behaviour undefined.)"
        } else {
            "every thread of the block must reach the same barrier: move it out of the branch"
        };
        fault(kind, Threads::Two(waiting as u32, other as u32), site, Some(hint.to_owned()))
    }

    /// The block and the first thread that reads the same memory again and again, where, and whether by plain reads.
    pub fn first_spin(&self) -> Option<(Dim3, u32, &'static Location<'static>, bool)> {
        self.block.order.iter().find_map(|&id| match self.wait_of(id as usize) {
            Some(Wait::Spin { site, plain, .. }) => Some((self.block.index, id, site, plain)),
            _ => None,
        })
    }

    /// What a thread waits for; `None` if it need not wait, or not any more.
    fn wait_of(&self, id: usize) -> Option<Wait> {
        let wait = || self.threads[id].wait.get();
        match self.states.get(id)? {
            State::Fresh | State::Ready | State::Ended => None,
            State::Spinning
            | State::Unwritten
            | State::Barrier
            | State::Named
            | State::Warp
            | State::Phase
            | State::Meeting => Some(wait()),
        }
    }

    /// What the threads wait for; consecutive threads with the same state together.
    pub fn describe_waits(&self) -> Vec<String> {
        let mut runs: Vec<(Range<usize>, String)> = Vec::new();
        for id in 0..self.states.len() {
            let state = self.describe_state(id);
            match runs.last_mut() {
                Some((range, last)) if *last == state => range.end = id + 1,
                _ => runs.push((id..id + 1, state)),
            }
        }
        let Dim3 { x, y, z } = self.block.index;
        let threads = |range: &Range<usize>| match range.len() {
            1 => format!("thread {}", range.start),
            _ => format!("threads {} to {}", range.start, range.end - 1),
        };
        let more = runs.len().saturating_sub(8);
        let mut waits: Vec<String> = runs
            .iter()
            .take(8)
            .map(|(range, state)| format!("block ({x}, {y}, {z}), {}: {state}", threads(range)))
            .collect();
        if more > 0 {
            waits.push(format!("block ({x}, {y}, {z}): and {more} more"));
        }
        waits
    }

    fn describe_state(&self, id: usize) -> String {
        let wait = match self.states.get(id) {
            None => return "does not exist".to_owned(),
            Some(State::Ended) => return "has returned".to_owned(),
            Some(_) => self.wait_of(id),
        };
        match wait {
            None | Some(Wait::Unwritten | Wait::Preempted) => "is running".to_owned(),
            Some(Wait::Spin { site, target, .. }) => {
                let read = self.threads[id].describe_read(&target);
                format!("reads {read}, again and again at {}:{}", site.file(), site.line())
            }
            Some(Wait::Barrier { site }) => format!("waits at the barrier at {}:{}", site.file(), site.line()),
            Some(Wait::Phase { site, address, phase }) => {
                let place = self.block.phase_place(address);
                format!("waits for phase {} of {place} at {}:{}", phase - 1, site.file(), site.line())
            }
            Some(Wait::Meeting { site, meeting, .. }) => {
                // SAFETY: as in `meeting`.
                let of = unsafe { &*meeting }.of;
                format!("waits at the barrier of the {of} at {}:{}", site.file(), site.line())
            }
            Some(Wait::Named { site, barrier }) => {
                format!("waits at barrier {barrier} at {}:{}", site.file(), site.line())
            }
            Some(Wait::Warp { site, op, mask, .. }) => {
                format!("waits at {op:?} with mask {mask:#010x} at {}:{}", site.file(), site.line())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Able;

    #[test]
    fn able_threads_in_ascending_order() {
        for count in [1, 31, 64, 65, 200, 1024] {
            let mut able = Able::all(count);
            let excluded = |id: usize| id.is_multiple_of(3) || id / 64 == 1;
            (0..count).filter(|&id| excluded(id)).for_each(|id| able.set(id, false));
            (0..count).filter(|&id| id == 66).for_each(|id| able.set(id, true));
            let expected: Vec<usize> = (0..count).filter(|&id| !excluded(id) || id == 66).collect();
            assert_eq!(able.count, expected.len());
            let found: Vec<usize> = (0..able.count).map(|rank| able.nth(rank)).collect();
            assert_eq!(found, expected);
        }
    }
}
