//! Runs the blocks of a launch: one after another, or some at a time if they wait for each other or the schedule
//! interleaves them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::panic::Location;

use super::block::{Pool, Round, Runner};
use super::clock::{Released, Stamp};
use super::cluster::Cluster;
use super::fault::{Fault, Kind, Threads};
use super::meeting::Meeting;
use super::profile::Profiler;
use super::shared::Declared;
use super::{EmulatorError, Schedule};
use crate::launch::{Call, Dim3};

/// Blocks of the emulated device that run at one time: few, so that tests run grid-stride loops more than once.
pub const RESIDENT_BLOCKS: u32 = 4;

/// Reads that change nothing, after which another block runs.
const TURN: u64 = 1 << 20;

/// A launch: state that its blocks share.
pub struct Launch {
    pub kernel: &'static str,
    pub grid: Dim3,
    pub schedule: Schedule,
    /// Serial number of the first block, unique in the process. The block of linear index i has `first` + i.
    pub first: u64,
    /// Blocks with smaller serial numbers have ended before this launch begins.
    pub settled: u64,
    /// The launch before, if this one overlaps with it.
    pub previous: Option<Previous>,
    /// The blocks of launches that run beside this one, if any do. An empty range begins with the first of its own part.
    pub beside: Option<Range<u64>>,
    /// The serial numbers and names of the device's methods that run beside this launch.
    pub methods: Vec<(u64, &'static str)>,
    /// Maximum accesses of a thread, and of all threads without a change.
    pub limit: u64,
    /// Reads since the last change of the memory, by threads that read the same elements again and again.
    pub idle: Cell<u64>,
    /// Whether the next launch may begin before the ones before this launch have ended.
    pub early: Cell<bool>,
    /// Whether a thread has made an operation by which it can learn of others.
    pub communicated: Cell<bool>,
    /// Whether a thread has made an atomic operation or a peek.
    pub competed: Cell<bool>,
    /// Whether instructions are recorded.
    pub profiled: bool,
    /// Where asynchronous copies read memory that the kernel may write, for hints.
    pub copy_sites: RefCell<Vec<&'static Location<'static>>>,
    /// The static shared arrays of the kernel.
    pub declared: RefCell<Declared>,
    /// What threads knew at their sequentially consistent fences so far.
    pub(super) sequence: RefCell<Released>,
    /// Where threads wait by plain reads, for hints.
    pub spin_sites: RefCell<Vec<&'static Location<'static>>>,
    /// Whether atomic loads let another block begin.
    pub yields: Cell<bool>,
    /// Whether one of them has done so.
    pub yielded: Cell<bool>,
    /// State of the generator that interleaves threads.
    pub random: Cell<u64>,
    /// The barrier of the grid, if the launch is cooperative.
    pub meeting: Meeting,
    /// The clusters that run, by the linear index of their first block.
    pub clusters: RefCell<BTreeMap<u32, Box<Cluster>>>,
    /// Who has started each bulk copy, by its serial number.
    pub copies: RefCell<HashMap<u64, Stamp>>,
}

/// The last launch, as an overlapping one knows it.
#[derive(Clone, Copy)]
pub struct Previous {
    pub kernel: &'static str,
    pub grid: Dim3,
    /// Serial number of its first block.
    pub first: u64,
    /// Blocks with smaller serial numbers have ended before the next launch begins.
    pub settled: u64,
}

/// The index of the block of linear index `id`.
pub fn index_of(id: u64, grid: Dim3) -> Dim3 {
    let (x, y) = (u64::from(grid.x), u64::from(grid.y));
    Dim3 { x: (id % x) as u32, y: (id / x % y) as u32, z: (id / (x * y)) as u32 }
}

impl Launch {
    /// A random number below `bound`.
    pub fn draw(&self, bound: usize) -> usize {
        let mut state = self.random.get();
        let bits = super::schedule::split_mix(&mut state);
        self.random.set(state);
        (bits % bound as u64) as usize
    }

    /// Whether threads run in random turns.
    pub fn interleaves(&self) -> bool {
        matches!(self.schedule, Schedule::Interleaved(_))
    }

    /// Whether the current thread should let others run now.
    #[inline]
    pub fn preempts(&self) -> bool {
        self.interleaves() && self.draw(4) == 0
    }

    /// Whether atomic loads may read older values than the last one.
    #[inline]
    pub fn reads_older(&self) -> bool {
        matches!(self.schedule, Schedule::Random(_) | Schedule::Interleaved(_))
    }

    /// The start of the copy that has made an access, if it was one.
    pub fn origin(&self, access: &Stamp) -> Option<Stamp> {
        self.copies.borrow().get(&access.block).copied()
    }

    /// The kernel and the block of a serial number.
    pub fn block_of(&self, serial: u64) -> (&'static str, Dim3) {
        if let Some((_, method)) = self.methods.iter().find(|(number, _)| *number == serial) {
            return (method, Dim3 { x: 0, y: 0, z: 0 });
        }
        match &self.previous {
            _ if serial >= self.first => (self.kernel, index_of(serial - self.first, self.grid)),
            Some(previous) if serial >= previous.first => {
                (previous.kernel, index_of(serial - previous.first, previous.grid))
            }
            _ => ("an earlier kernel", Dim3 { x: 0, y: 0, z: 0 }),
        }
    }
}

/// The blocks of a launch.
pub struct Grid<'a> {
    pub launch: &'a Launch,
    pub profiler: Option<&'a Profiler>,
    pub call: &'a Call<'a>,
    pub body: &'a dyn Fn(),
}

impl Grid<'_> {
    /// Runs all blocks. `stopped` is called before each.
    pub fn run(&self, pool: &mut Pool, mut stopped: impl FnMut() -> bool) -> Result<(), EmulatorError> {
        let launch = self.launch;
        // The blocks of a cluster start together.
        let count = launch.grid.count() as u32 / self.call.cluster;
        let mut order = launch.schedule.order(count, 0).into_iter();
        let mut running: Vec<Runner<'_>> = Vec::new();
        // Blocks that have ended, but whose cluster has not.
        let mut ended: Vec<Runner<'_>> = Vec::new();
        let mut current = 0;
        let youngest_first = launch.schedule == Schedule::YoungestFirst;
        let turn = TURN.min(launch.limit / 4);
        // Rounds since a block has advanced, and how many end the hope for another one.
        let mut stalled = 0;
        let patience = if launch.interleaves() { 10_000 } else { 4 };
        loop {
            let together = launch.interleaves() || self.call.is_cooperative();
            let wanted = if together { RESIDENT_BLOCKS as usize } else { 1 };
            while running.len() < wanted
                && let Some(id) = order.next()
            {
                self.admit(id, &mut running, pool, &mut stopped)?;
            }
            if running.is_empty() {
                return Ok(());
            }
            if launch.interleaves() {
                current = launch.draw(running.len());
            }
            launch.yielded.set(false);
            launch.yields.set(youngest_first && running.len() < RESIDENT_BLOCKS as usize && order.len() > 0);
            let round = if launch.interleaves() { running[current].turn(pool) } else { running[current].round(pool) };
            let round = round?;
            if launch.idle.get() > launch.limit {
                self.give_up(&mut running, pool, order.len())?;
            }
            match round {
                Round::Ended => {
                    let runner = running.remove(current);
                    if let Some(profiler) = self.profiler {
                        runner.add_to(self.call.entry, &mut profiler.collector());
                    }
                    runner.end_block()?;
                    match runner.cluster() {
                        None => runner.recycle(pool),
                        Some(first) => {
                            ended.push(runner);
                            if launch.clusters.borrow().get(&first).is_none_or(|cluster| cluster.is_over()) {
                                let all = ended.extract_if(.., |runner| runner.cluster() == Some(first));
                                all.for_each(|runner| runner.recycle(pool));
                                launch.clusters.borrow_mut().remove(&first);
                            }
                        }
                    }
                    (current, stalled) = (if youngest_first { running.len().saturating_sub(1) } else { 0 }, 0);
                }
                Round::Advanced if launch.idle.get() < turn => {
                    stalled = 0;
                    if launch.yielded.take()
                        && let Some(id) = order.next()
                    {
                        self.admit(id, &mut running, pool, &mut stopped)?;
                        current = running.len() - 1;
                    }
                }
                // The block waits for another one.
                Round::Advanced | Round::Stalled => {
                    if running.iter().all(Runner::is_stuck) {
                        if let Some(fault) = running.iter().find_map(Runner::endless_phase) {
                            return Err(EmulatorError::Fault(fault));
                        }
                        return Err(self.apart(&running));
                    }
                    if round == Round::Advanced {
                        stalled = 0;
                    } else {
                        stalled += 1;
                    }
                    if running.len() < RESIDENT_BLOCKS as usize
                        && let Some(id) = order.next()
                    {
                        self.admit(id, &mut running, pool, &mut stopped)?;
                        (current, stalled) = (running.len() - 1, 0);
                    } else {
                        current = (current + 1) % running.len();
                        if stalled > patience * running.len() {
                            running.iter_mut().try_for_each(|runner| runner.end_waits_for_values(pool))?;
                        }
                    }
                }
            }
        }
    }

    fn admit<'r>(
        &'r self,
        id: u32,
        running: &mut Vec<Runner<'r>>,
        pool: &mut Pool,
        stopped: &mut impl FnMut() -> bool,
    ) -> Result<(), EmulatorError> {
        if stopped() {
            return Err(EmulatorError::Stopped { kernel: self.call.kernel });
        }
        let size = self.call.cluster;
        if size == 1 {
            running.push(Runner::new(self.launch, self.call, self.body, id, None, pool)?);
            return Ok(());
        }
        let (first, launch) = (id * size, self.launch);
        launch.clusters.borrow_mut().insert(first, Box::new(Cluster::new(size)));
        let clusters = launch.clusters.borrow();
        let cluster = clusters.get(&first).map(|cluster| &raw const **cluster);
        let start = running.len();
        for rank in 0..size {
            running.push(Runner::new(launch, self.call, self.body, first + rank, cluster, pool)?);
        }
        // In the order of the schedule.
        let mut order: Vec<_> =
            launch.schedule.order(size, 1 << 63 | u64::from(first)).into_iter().zip(running.drain(start..)).collect();
        order.sort_by_key(|(place, _)| *place);
        running.extend(order.into_iter().map(|(_, runner)| runner));
        Ok(())
    }

    /// The fault, if blocks wait for others that never come.
    fn apart(&self, running: &[Runner<'_>]) -> EmulatorError {
        let mut waits: Vec<String> = running.iter().flat_map(Runner::describe_waits).collect();
        let (first, (block, meeting, site)) = running
            .iter()
            .find_map(|runner| Some((runner.cluster(), runner.meets()?)))
            .unwrap_or((None, (index_of(0, self.launch.grid), &self.launch.meeting, None)));
        let (of, present) = (meeting.of, running.iter().filter(|runner| runner.cluster() == first).count());
        match meeting.blocks - present as u32 {
            0 => {}
            1 => waits.push(format!("a block of the {of} has ended")),
            ended => waits.push(format!("{ended} blocks of the {of} have ended")),
        }
        let hint = format!(
            "every thread of every block of the {of} must reach the same barrier, in the same round of the loops around it: \
             is it in a branch, or after a `return`, of some blocks?"
        );
        EmulatorError::Fault(Box::new(Fault {
            kernel: self.call.kernel,
            block,
            threads: Threads::One(0),
            kind: Kind::BlockDivergence { of, waits },
            site,
            earlier: None,
            hint: Some(hint),
            schedule: self.launch.schedule,
        }))
    }

    /// The fault, if no thread changes anything any more.
    fn give_up(&self, running: &mut [Runner<'_>], pool: &mut Pool, left: usize) -> Result<(), EmulatorError> {
        running.iter_mut().try_for_each(|runner| runner.end_waits_for_values(pool))?;
        let mut waits: Vec<String> = running.iter().flat_map(Runner::describe_waits).collect();
        if left > 0 {
            waits.push(format!("{left} blocks have not started: only {RESIDENT_BLOCKS} run at one time, in any order"));
        }
        let spin = running.iter().find_map(Runner::first_spin);
        let (block, thread) = spin.map_or((index_of(0, self.launch.grid), 0), |(block, thread, ..)| (block, thread));
        let hint = |(_, _, site, plain): (_, _, &Location<'_>, bool)| {
            let line = site.line();
            if plain {
                format!(
                    "the compiler may read only once what the loop at line {line} reads, and the loop never ends: a thread \
                     that waits for another one must read by `atomic::load`"
                )
            } else {
                format!(
                    "the loop at line {line} ends if another thread writes what it reads: does that thread wait, too, or \
                     has it returned?"
                )
            }
        };
        Err(EmulatorError::Fault(Box::new(Fault {
            kernel: self.call.kernel,
            block,
            threads: Threads::One(thread),
            kind: Kind::Spin { reads: self.launch.idle.get(), waits },
            site: spin.map(|(_, _, site, _)| site),
            earlier: None,
            hint: spin.map(hint),
            schedule: self.launch.schedule,
        })))
    }
}
