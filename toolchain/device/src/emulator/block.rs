//! Runs a block: one stackful coroutine per CUDA thread, which runs until it waits.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::clock::Clock;
use super::fault::{Earlier, Fault, Kind, Raised, Threads};
use super::launch::{Launch, index_of};
use super::profile::Collector;
use super::shared::SharedMemory;
use super::thread::{Block, Thread, Wait, enter, joined};
use crate::launch::{Call, Dim3};

type Routine = Coroutine<(), Wait, (), DefaultStack>;

/// Stack size of a thread. Kernels have no recursion and no large local arrays.
const STACK_BYTES: usize = 128 * 1024;

/// The fault of a thread that has unwound.
fn locate(launch: &Launch, block: Dim3, payload: Box<dyn Any + Send>, thread: u32) -> Box<Fault> {
    let raised = payload.downcast::<Raised>().map(|raised| *raised).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Raised::new(Kind::Panic { message: text.unwrap_or_default() }, None)
    });
    let earlier = raised.earlier.map(|stamp| {
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

/// Stacks of ended threads, for reuse.
#[derive(Default)]
pub struct Stacks(Vec<DefaultStack>);

impl Stacks {
    fn take(&mut self) -> std::io::Result<DefaultStack> {
        self.0.pop().map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
    }
}

enum State {
    Fresh,
    Ready(Routine),
    Waiting(Routine, Wait),
    Ended,
}

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
    states: Vec<State>,
    threads: Vec<Thread>,
    block: Box<Block>,
    /// The order of the threads.
    order: Vec<u32>,
}

impl<'a> Runner<'a> {
    /// The block of linear index `id`.
    pub fn new(launch: &'a Launch, call: &'a Call<'_>, body: &'a dyn Fn(), id: u32) -> Result<Self, Box<Fault>> {
        let count = call.shape.block.count() as u32;
        let index = index_of(id.into(), launch.grid);
        let memory = catch_unwind(AssertUnwindSafe(|| SharedMemory::new(call.shape.shared_bytes)));
        let shared = RefCell::new(memory.map_err(|payload| locate(launch, index, payload, 0))?);
        let serial = launch.first + u64::from(id);
        let block = Box::new(Block { index, shape: call.shape, shared, launch });
        let stream = u64::from(index.x) + (u64::from(index.y) << 24) + (u64::from(index.z) << 44);
        let order = launch.schedule.order(count, stream + 1);
        let mut states = Vec::new();
        states.resize_with(count as usize, || State::Fresh);
        let watched = launch.settled < launch.first || launch.beside.is_some();
        let beside = launch.beside.clone().unwrap_or_default();
        let thread = |id| {
            Thread::new(id, &raw const *block, Clock::new(serial, id as u16, launch.settled, beside.clone()), watched)
        };
        let threads = (0..count).map(thread).collect();
        Ok(Self { launch, body, states, threads, block, order })
    }

    /// Runs every thread until it waits, then ends the waits that are complete.
    pub fn round(&mut self, stacks: &mut Stacks) -> Result<Round, Box<Fault>> {
        let mut advanced = false;
        for k in 0..self.order.len() {
            advanced |= self.step(self.order[k] as usize, stacks)?;
        }
        advanced |= self.release_warps(0..self.states.len().div_ceil(32)) | self.release_barrier();
        self.ended(advanced)
    }

    /// Runs one random thread until it waits.
    pub fn turn(&mut self, stacks: &mut Stacks) -> Result<Round, Box<Fault>> {
        let able = |state: &State| match state {
            State::Fresh | State::Ready(_) | State::Waiting(_, Wait::Preempted | Wait::Spin { .. }) => true,
            State::Waiting(..) | State::Ended => false,
        };
        let able: Vec<usize> = (0..self.states.len()).filter(|&id| able(&self.states[id])).collect();
        let mut advanced = false;
        if !able.is_empty() {
            let id = able[self.launch.draw(able.len())];
            advanced = self.step(id, stacks)?;
            advanced |= self.release_warps(id / 32..id / 32 + 1);
        }
        advanced |= self.release_barrier();
        self.ended(advanced)
    }

    /// Adds the instructions of the block.
    pub fn add_to(&self, entry: &'static str, collector: &mut Collector) {
        let events: Vec<_> = self.threads.iter().map(|thread| thread.events.take()).collect();
        collector.block(entry, self.block.shared.borrow().len(), &events);
    }

    fn ended(&self, advanced: bool) -> Result<Round, Box<Fault>> {
        if self.states.iter().all(|state| matches!(state, State::Ended)) {
            return Ok(Round::Ended);
        }
        if advanced {
            return Ok(Round::Advanced);
        }
        let may_continue = |state: &State| match state {
            State::Waiting(_, Wait::Barrier { .. } | Wait::Warp { .. }) | State::Ended => false,
            State::Waiting(..) | State::Fresh | State::Ready(_) => true,
        };
        if self.states.iter().any(may_continue) { Ok(Round::Stalled) } else { Err(self.divergence()) }
    }

    /// Runs a thread until it waits or ends. Does nothing if it waits for others. Returns whether it has done more than
    /// to read what it has read before.
    fn step(&mut self, id: usize, stacks: &mut Stacks) -> Result<bool, Box<Fault>> {
        let before = std::mem::replace(&mut self.states[id], State::Ended);
        let routine = match before {
            State::Fresh => self.start(id, stacks).map_err(|payload| self.fault(payload, id))?,
            State::Ready(routine) | State::Waiting(routine, Wait::Spin { .. } | Wait::Preempted) => routine,
            other => {
                self.states[id] = other;
                return Ok(false);
            }
        };
        self.resume(id, routine, stacks)
    }

    fn resume(&mut self, id: usize, mut routine: Routine, stacks: &mut Stacks) -> Result<bool, Box<Fault>> {
        let before = enter(&raw const self.threads[id]);
        let result = catch_unwind(AssertUnwindSafe(|| routine.resume(())));
        enter(before);
        self.states[id] = match result.map_err(|payload| self.fault(payload, id))? {
            CoroutineResult::Yield(wait) => State::Waiting(routine, wait),
            CoroutineResult::Return(()) => {
                stacks.0.push(routine.into_stack());
                self.end(id);
                State::Ended
            }
        };
        Ok(!matches!(self.states[id], State::Waiting(_, Wait::Spin { .. } | Wait::Unwritten)))
    }

    fn end(&self, id: usize) {
        self.launch.idle.set(0);
        // The end of a block lets the next launch begin.
        let thread = &self.threads[id];
        if !thread.triggered.get() && thread.clock.borrow().settled < self.launch.first {
            self.launch.early.set(true);
        }
    }

    /// Ends the waits for elements to be written: nothing else can happen. Each is a fault.
    pub fn end_waits_for_values(&mut self, stacks: &mut Stacks) -> Result<(), Box<Fault>> {
        for k in 0..self.order.len() {
            let id = self.order[k] as usize;
            if matches!(self.states[id], State::Waiting(_, Wait::Unwritten))
                && let State::Waiting(routine, _) = std::mem::replace(&mut self.states[id], State::Ended)
            {
                self.resume(id, routine, stacks)?;
            }
        }
        Ok(())
    }

    fn fault(&self, payload: Box<dyn Any + Send>, thread: usize) -> Box<Fault> {
        locate(self.launch, self.block.index, payload, thread as u32)
    }

    fn start(&self, id: usize, stacks: &mut Stacks) -> Result<Routine, Box<dyn Any + Send>> {
        let stack =
            stacks.take().map_err(|error| Box::new(format!("no stack for an emulated thread: {error}")) as _)?;
        let thread = &raw const self.threads[id];
        // SAFETY: `Runner` owns the coroutine and is dropped when `run` returns, so the coroutine never outlives
        // `body`. The extended lifetime is necessary because the type `Routine` requires a `'static` closure.
        let body: &'static dyn Fn() = unsafe { std::mem::transmute::<&dyn Fn(), &'static dyn Fn()>(self.body) };
        Ok(Coroutine::with_stack(stack, move |yielder, ()| {
            // SAFETY: `Runner::threads` does not change after `run` has filled it, and is dropped after the coroutines.
            unsafe { (*thread).yielder.set(yielder) };
            body();
        }))
    }

    /// Completes every warp operation that all lanes of its mask have reached.
    fn release_warps(&mut self, warps: Range<usize>) -> bool {
        let mut released = false;
        for warp in warps {
            let base = warp * 32;
            for lane in 0..32.min(self.states.len() - base) {
                let State::Waiting(_, Wait::Warp { op, mask, .. }) = self.states[base + lane] else { continue };
                let Some(values) = self.exchanged_values(base, op, mask) else { continue };
                let members = || (0..32).filter(move |lane| mask & (1 << lane) != 0);
                if op == super::thread::WarpOp::Sync {
                    let mut lanes = [0; 32];
                    for member in members() {
                        let clock = self.threads[base + member].clock.borrow();
                        lanes.iter_mut().zip(clock.lanes).for_each(|(seen, known)| *seen = known.max(*seen));
                    }
                    let acquired = joined(members().map(|member| &self.threads[base + member]));
                    for member in members() {
                        let mut clock = self.threads[base + member].clock.borrow_mut();
                        clock.lanes = lanes;
                        let next = clock.time + 1;
                        clock.advance(next);
                        clock.acquired.clone_from(&acquired);
                    }
                }
                for member in members() {
                    self.threads[base + member].lanes.set(values);
                    self.wake(base + member);
                }
                released = true;
            }
        }
        released
    }

    /// The values of the lanes, if all lanes of the mask wait at the same operation with the same mask.
    fn exchanged_values(&self, base: usize, expected: super::thread::WarpOp, expected_mask: u32) -> Option<[u64; 32]> {
        let mut values = [0; 32];
        for (lane, slot) in values.iter_mut().enumerate().filter(|(lane, _)| expected_mask & (1 << lane) != 0) {
            match self.states.get(base + lane) {
                Some(State::Waiting(_, Wait::Warp { op, mask, value, .. }))
                    if *op == expected && *mask == expected_mask =>
                {
                    *slot = *value;
                }
                _ => return None,
            }
        }
        Some(values)
    }

    /// Completes the barrier if every thread waits at it.
    fn release_barrier(&mut self) -> bool {
        let mut common = None;
        let mut count = 0;
        for state in &self.states {
            let State::Waiting(_, Wait::Barrier { site, predicate }) = state else { return false };
            if *common.get_or_insert(*site) != *site {
                return false;
            }
            count += u32::from(*predicate);
        }
        let acquired = joined(self.threads.iter());
        let floor = self.threads.iter().map(|thread| thread.clock.borrow().time).max().unwrap_or_default() + 1;
        for id in 0..self.states.len() {
            let thread = &self.threads[id];
            thread.count.set(count);
            let mut clock = thread.clock.borrow_mut();
            clock.floor = floor;
            clock.advance(floor);
            clock.acquired.clone_from(&acquired);
            drop(clock);
            self.wake(id);
        }
        true
    }

    fn wake(&mut self, id: usize) {
        self.states[id] = match std::mem::replace(&mut self.states[id], State::Ended) {
            State::Waiting(routine, _) => State::Ready(routine),
            other => other,
        };
    }

    /// The fault, if no thread can continue.
    fn divergence(&self) -> Box<Fault> {
        let fault = |kind, threads, site: Option<&'static Location<'static>>, hint| {
            let (kernel, schedule) = (self.launch.kernel, self.launch.schedule);
            Box::new(Fault { kernel, block: self.block.index, threads, kind, site, earlier: None, hint, schedule })
        };
        let waits = || {
            self.states.iter().enumerate().filter_map(|(id, state)| match state {
                State::Waiting(_, wait) => Some((id, wait)),
                _ => None,
            })
        };
        // A warp operation that cannot complete is the cause, even if other threads wait at a barrier.
        for (id, wait) in waits() {
            let Wait::Warp { site, op, mask, .. } = *wait else { continue };
            let base = id / 32 * 32;
            let missing = (0..32).filter(|lane| mask & (1 << lane) != 0).find(|&lane| {
                !matches!(self.states.get(base + lane), Some(State::Waiting(_, Wait::Warp { op: its, mask: theirs, .. }))
                          if *its == op && *theirs == mask)
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
        let barrier = waits().find_map(|(id, wait)| match wait {
            Wait::Barrier { site, .. } => Some((id, *site)),
            _ => None,
        });
        let (waiting, site) = barrier.map_or((0, None), |(id, site)| (id, Some(site)));
        let elsewhere = (0..self.states.len()).find(|&id| match &self.states[id] {
            State::Waiting(_, Wait::Barrier { site: other, .. }) => Some(*other) != site,
            _ => true,
        });
        let other = elsewhere.unwrap_or(waiting);
        let kind =
            Kind::BarrierDivergence { waiting: site.map_or(0, |site| site.line()), other: self.describe_state(other) };
        let hint = "every thread of the block must reach the same barrier: move it out of the branch, or do not return before it";
        fault(kind, Threads::Two(waiting as u32, other as u32), site, Some(hint.to_owned()))
    }

    /// The block and the first thread that reads the same memory again and again.
    pub fn first_spin(&self) -> Option<(Dim3, u32, Option<&'static Location<'static>>)> {
        self.order.iter().find_map(|&id| match &self.states[id as usize] {
            State::Waiting(_, Wait::Spin { site, .. }) => Some((self.block.index, id, Some(*site))),
            _ => None,
        })
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
        match self.states.get(id) {
            None => "does not exist".to_owned(),
            Some(State::Ended) => "has returned".to_owned(),
            Some(State::Fresh | State::Ready(_)) => "is running".to_owned(),
            Some(State::Waiting(_, Wait::Unwritten | Wait::Preempted)) => "is running".to_owned(),
            Some(State::Waiting(_, Wait::Spin { site, place, change })) => {
                let change = change.map_or("no thread of this launch has written".to_owned(), |stamp| {
                    let Dim3 { x, y, z } = self.launch.block_of(stamp.block).1;
                    let line = stamp.site.map_or(0, Location::line);
                    format!("thread {} of block ({x}, {y}, {z}) has last written on line {line}", stamp.thread)
                });
                format!("reads {place}, which {change}, again and again at {}:{}", site.file(), site.line())
            }
            Some(State::Waiting(_, Wait::Barrier { site, .. })) => {
                format!("waits at the barrier at {}:{}", site.file(), site.line())
            }
            Some(State::Waiting(_, Wait::Warp { site, op, mask, .. })) => {
                format!("waits at {op:?} with mask {mask:#010x} at {}:{}", site.file(), site.line())
            }
        }
    }
}
