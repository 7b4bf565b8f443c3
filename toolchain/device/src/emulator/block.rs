//! Runs a block: one stackful coroutine per CUDA thread, which runs until it waits.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::Schedule;
use super::fault::{Fault, Kind, Raised, Threads};
use super::shared::SharedMemory;
use super::thread::{Block, Thread, Wait, enter};
use crate::launch::{Call, Dim3};

type Routine = Coroutine<(), Wait, (), DefaultStack>;

/// Stack size of a thread. Kernels have no recursion and no large local arrays.
const STACK_BYTES: usize = 128 * 1024;

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

struct Runner<'a> {
    /// The kernel for one thread.
    body: &'a dyn Fn(),
    // Declared, and so dropped, before `threads` and `block`: after a fault, the remaining coroutines unwind and may
    // still use both.
    states: Vec<State>,
    threads: Vec<Thread>,
    block: Block,
}

/// Runs one block of a launch to completion, or to its first fault.
pub fn run(
    call: &Call<'_>,
    body: &dyn Fn(),
    index: Dim3,
    schedule: Schedule,
    stacks: &mut Stacks,
) -> Result<(), Box<Fault>> {
    let count = call.shape.block.count() as u32;
    let locate = |(kind, threads, site)| Box::new(Fault { kernel: call.kernel, block: index, threads, kind, site });
    let shared = catch_unwind(AssertUnwindSafe(|| SharedMemory::new(call.shape.shared_bytes)))
        .map_err(|payload| locate(fault_of(payload, 0)))?;
    let block = Block { index, shape: call.shape, shared: RefCell::new(shared), epoch: Cell::new(0) };
    let mut runner = Runner { body, states: Vec::new(), threads: Vec::new(), block };
    runner.states.resize_with(count as usize, || State::Fresh);
    let stream = u64::from(index.x) + (u64::from(index.y) << 24) + (u64::from(index.z) << 44);
    let order = schedule.order(count, stream + 1);
    let block = &raw const runner.block;
    runner.threads = (0..count)
        .map(|id| {
            let mut clock = [0; 32];
            clock[(id % 32) as usize] = 1;
            Thread {
                id,
                block,
                yielder: Cell::new(ptr::null()),
                clock: RefCell::new(clock),
                count: Cell::new(0),
                lanes: Cell::new([0; 32]),
            }
        })
        .collect();
    loop {
        for &id in &order {
            runner.step(id as usize, stacks).map_err(|payload| locate(fault_of(payload, id)))?;
        }
        let released = runner.release_warps() | runner.release_barrier();
        if runner.states.iter().all(|state| matches!(state, State::Ended)) {
            return Ok(());
        }
        if !released {
            return Err(locate(runner.divergence()));
        }
    }
}

fn fault_of(
    payload: Box<dyn Any + Send>,
    thread: u32,
) -> (Kind, Threads, Option<&'static std::panic::Location<'static>>) {
    match payload.downcast::<Raised>() {
        Ok(raised) => {
            let threads = raised.other.map_or(Threads::One(thread), |other| Threads::Two(other, thread));
            (raised.kind, threads, raised.site)
        }
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (Kind::Panic { message: text.unwrap_or_default() }, Threads::One(thread), None)
        }
    }
}

impl<'a> Runner<'a> {
    /// Runs a thread until it waits or ends. Does nothing if it waits already.
    fn step(&mut self, id: usize, stacks: &mut Stacks) -> Result<(), Box<dyn Any + Send>> {
        let mut routine = match std::mem::replace(&mut self.states[id], State::Ended) {
            State::Fresh => self.start(id, stacks)?,
            State::Ready(routine) => routine,
            other => {
                self.states[id] = other;
                return Ok(());
            }
        };
        let before = enter(&raw const self.threads[id]);
        let result = catch_unwind(AssertUnwindSafe(|| routine.resume(())));
        enter(before);
        self.states[id] = match result? {
            CoroutineResult::Yield(wait) => State::Waiting(routine, wait),
            CoroutineResult::Return(()) => {
                stacks.0.push(routine.into_stack());
                State::Ended
            }
        };
        Ok(())
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
    fn release_warps(&mut self) -> bool {
        let mut released = false;
        for warp in 0..self.states.len().div_ceil(32) {
            let base = warp * 32;
            for lane in 0..32.min(self.states.len() - base) {
                let State::Waiting(_, Wait::Warp { op, mask, .. }) = self.states[base + lane] else { continue };
                let Some(values) = self.exchanged_values(base, op, mask) else { continue };
                let members = || (0..32).filter(move |lane| mask & (1 << lane) != 0);
                if op == super::thread::WarpOp::Sync {
                    let mut joined = [0; 32];
                    for member in members() {
                        let clock = self.threads[base + member].clock.borrow();
                        joined.iter_mut().zip(clock.iter()).for_each(|(seen, &known)| *seen = known.max(*seen));
                    }
                    for member in members() {
                        let mut clock = self.threads[base + member].clock.borrow_mut();
                        *clock = joined;
                        clock[member] += 1;
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
        for id in 0..self.states.len() {
            self.threads[id].count.set(count);
            self.wake(id);
        }
        self.block.epoch.set(self.block.epoch.get() + 1);
        true
    }

    fn wake(&mut self, id: usize) {
        self.states[id] = match std::mem::replace(&mut self.states[id], State::Ended) {
            State::Waiting(routine, _) => State::Ready(routine),
            other => other,
        };
    }

    /// The fault, if no thread can continue.
    fn divergence(&self) -> (Kind, Threads, Option<&'static std::panic::Location<'static>>) {
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
                return (kind, Threads::Two(id as u32, (base + lane) as u32), Some(site));
            }
        }
        let barrier = waits().find_map(|(id, wait)| match wait {
            Wait::Barrier { site, .. } => Some((id, *site)),
            Wait::Warp { .. } => None,
        });
        let (waiting, site) = barrier.map_or((0, None), |(id, site)| (id, Some(site)));
        let elsewhere = (0..self.states.len()).find(|&id| match &self.states[id] {
            State::Waiting(_, Wait::Barrier { site: other, .. }) => Some(*other) != site,
            _ => true,
        });
        let other = elsewhere.unwrap_or(waiting);
        let kind =
            Kind::BarrierDivergence { waiting: site.map_or(0, |site| site.line()), other: self.describe_state(other) };
        (kind, Threads::Two(waiting as u32, other as u32), site)
    }

    fn describe_state(&self, id: usize) -> String {
        match self.states.get(id) {
            None => "does not exist".to_owned(),
            Some(State::Ended) => "has returned".to_owned(),
            Some(State::Fresh | State::Ready(_)) => "is running".to_owned(),
            Some(State::Waiting(_, Wait::Barrier { site, .. })) => {
                format!("waits at the barrier at {}:{}", site.file(), site.line())
            }
            Some(State::Waiting(_, Wait::Warp { site, op, mask, .. })) => {
                format!("waits at {op:?} with mask {mask:#010x} at {}:{}", site.file(), site.line())
            }
        }
    }
}
