//! Random programs, whose races the shadow must find exactly: it is compared with a detector that keeps all accesses.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::Location;

use super::super::clock::{Action, Clock, Stamp};
use super::super::schedule::split_mix;
use super::super::thread::{Barrier, join};
use super::Shadow;
use crate::device::atomic::Ordering;

/// Indices of the threads of a block: two warps, and a third one with one thread.
const THREADS: [u16; 8] = [0, 1, 5, 31, 32, 33, 63, 64];

const BLOCKS: usize = 2;

/// Elements of three pages.
const ELEMENTS: [usize; 5] = [0, 1, 127, 128, 1000];

fn sites() -> [&'static Location<'static>; 3] {
    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }
    [here(), here(), here()]
}

/// Keeps every access.
#[derive(Default)]
struct Reference(BTreeMap<usize, Vec<Stamp>>);

impl Reference {
    /// The earlier accesses that race with this one.
    fn races(&self, element: usize, now: &Stamp, clock: &Clock) -> Vec<Stamp> {
        let plain = |action| matches!(action, Action::Read | Action::Write);
        let conflicts = |earlier: &Stamp| match (earlier.action, now.action) {
            (one, other) if plain(one) || plain(other) => one.writes() || other.writes(),
            (one, other) => one.conflicts(other, earlier.block == now.block),
        };
        let accesses = self.0.get(&element).into_iter().flatten();
        accesses.filter(|earlier| conflicts(earlier) && !clock.knows(earlier)).copied().collect()
    }
}

struct Program {
    random: u64,
    clocks: Vec<[Clock; THREADS.len()]>,
    shadow: Shadow,
    reference: Reference,
    /// The largest serial number of a block so far.
    last: u64,
    /// Whether atomic operations order accesses. What a thread acquires does not include that earlier launches have ended,
    /// so they do not where launches overlap.
    synchronises: bool,
    /// Races found.
    races: BTreeSet<(&'static str, &'static str)>,
}

impl Program {
    fn new(seed: u64) -> Self {
        let clocks = (0..BLOCKS).map(|_| THREADS.map(Clock::new)).collect();
        let mut shadow = Shadow::default();
        shadow.wide.full = 8;
        let (reference, races) = (Reference::default(), BTreeSet::new());
        Self { random: seed, clocks, shadow, reference, last: 0, synchronises: true, races }
    }

    fn draw(&mut self, bound: usize) -> usize {
        (split_mix(&mut self.random) % bound as u64) as usize
    }

    /// Begins a launch. Returns the serial number of its first block.
    fn launch(&mut self, settled: Option<u64>, beside: Option<&Range<u64>>) -> u64 {
        // Sometimes far behind, so that the words of a page need another base, or a wide word.
        let first = self.last + 1 + if self.draw(4) == 0 { 1 << 21 } else { 0 };
        for (serial, block) in (first..).zip(&mut self.clocks) {
            block.iter_mut().for_each(|clock| clock.begin(serial, settled.unwrap_or(first), beside));
        }
        self.last = first + BLOCKS as u64 - 1;
        first
    }

    fn access(&mut self, block: usize, thread: usize) {
        let element = ELEMENTS[self.draw(ELEMENTS.len())];
        let action = match self.draw(17) {
            0..8 => Action::Read,
            8..11 => Action::Write,
            11 => Action::Atomic,
            12 => Action::BlockAtomic,
            13 => Action::AtomicRead,
            14 => Action::Peek,
            15 => Action::BlockRead,
            _ => Action::Mark,
        };
        let site = sites()[self.draw(3)];
        let clock = &mut self.clocks[block][thread];
        let now = clock.stamp(action, site);
        let races = self.reference.races(element, &now, clock);
        match self.shadow.touch(element, action, clock, site) {
            Ok(()) => assert!(races.is_empty(), "{now:?} at {element}: {races:?}"),
            // The access does not take place, and the program goes on.
            Err(earlier) => {
                let same = |race: &Stamp| {
                    (race.block, race.thread, race.time, race.action, race.site)
                        == (earlier.block, earlier.thread, earlier.time, earlier.action, earlier.site)
                };
                assert!(races.iter().any(same), "{now:?} at {element}: {earlier:?} is not of {races:?}");
                self.races.insert((earlier.action.describe(), action.describe()));
                return;
            }
        }
        self.reference.0.entry(element).or_default().push(now);
        if self.synchronises && matches!(action, Action::Atomic | Action::AtomicRead) {
            let order = [Ordering::Relaxed, Ordering::AcqRel][self.draw(2)];
            let writes = action == Action::Atomic;
            let clock = &mut self.clocks[block][thread];
            self.shadow.synchronise(element, (true, writes), None, order, true, clock);
        }
    }

    fn barrier(&mut self, block: usize) {
        let barrier = Barrier::default();
        let clocks = &mut self.clocks[block];
        clocks.iter().for_each(|clock| barrier.arrive(sites()[0], 0, false, clock));
        assert!(barrier.release(THREADS.len()));
        clocks.iter_mut().for_each(|clock| {
            barrier.leave(clock);
        });
    }

    /// `sync_warp` of some threads of the warp of `thread`.
    fn sync_warp(&mut self, block: usize, thread: usize) {
        let chosen = self.draw(256);
        let member = |k: usize| THREADS[k] / 32 == THREADS[thread] / 32 && (k == thread || chosen & (1 << k) != 0);
        let members: Vec<usize> = (0..THREADS.len()).filter(|&k| member(k)).collect();
        let (mut lanes, acquired) = ([0; 32], RefCell::default());
        for &member in &members {
            let clock = &self.clocks[block][member];
            clock.add_lanes(&mut lanes);
            join(&mut acquired.borrow_mut(), clock);
        }
        members.iter().for_each(|&member| self.clocks[block][member].sync_warp(lanes, &acquired.borrow()));
    }

    /// A number of random operations.
    fn run(&mut self, operations: usize) {
        for _ in 0..operations {
            let (block, thread) = (self.draw(BLOCKS), self.draw(THREADS.len()));
            match self.draw(24) {
                0 => self.barrier(block),
                1 => self.sync_warp(block, thread),
                2 => {
                    self.clocks[block][thread].fence(Ordering::AcqRel, true);
                }
                // Many synchronisations, so that a word cannot hold the time.
                3 if self.draw(8) == 0 => {
                    let clock = &mut self.clocks[block][thread];
                    clock.advance(clock.time + (1 << 18));
                }
                _ => self.access(block, thread),
            }
        }
    }
}

/// Runs programs, and returns the kinds of the races in them.
fn races_of(program: impl Fn(&mut Program)) -> BTreeSet<(&'static str, &'static str)> {
    let mut races = BTreeSet::new();
    for seed in 0..400 {
        let mut random = Program::new(seed);
        program(&mut random);
        races.append(&mut random.races);
    }
    races
}

#[test]
fn races_within_launches() {
    let races = races_of(|program| {
        for _ in 0..3 {
            program.launch(None, None);
            program.run(60);
        }
    });
    for pair in [("a read", "a write"), ("a write", "a read"), ("a mark", "an atomic operation"), ("a peek", "a write")]
    {
        assert!(races.contains(&pair), "{races:?}");
    }
    assert!(!races.contains(&("a read", "a peek")) && !races.contains(&("a mark", "a mark")));
}

#[test]
fn races_between_overlapping_launches() {
    let races = races_of(|program| {
        program.synchronises = false;
        let mut settled = program.launch(None, None);
        program.run(40);
        for _ in 0..4 {
            let first = program.launch(Some(settled), None);
            program.run(20);
            // All threads pass `grid::wait`.
            program.clocks.iter_mut().flatten().for_each(|clock| clock.settled = first);
            program.run(20);
            settled = first;
        }
    });
    assert!(races.contains(&("a read", "a write")), "{races:?}");
}

#[test]
fn races_between_launches_beside_each_other() {
    let races = races_of(|program| {
        program.synchronises = false;
        program.launch(None, None);
        program.run(30);
        let first = program.last + 1;
        for _ in 0..2 {
            program.launch(None, Some(&(first..first)));
            program.run(30);
        }
        let side = first..program.last + 1;
        for _ in 0..2 {
            program.launch(None, Some(&side));
            program.run(30);
        }
        program.launch(None, None);
        program.run(30);
    });
    assert!(races.contains(&("a read", "a write")), "{races:?}");
}

#[test]
fn readers_of_a_block_take_one_group() {
    let (mut shadow, site) = (Shadow::default(), sites()[0]);
    let mut clocks: Vec<Clock> = (0..1024).map(Clock::new).collect();
    for clock in &mut clocks {
        clock.begin(1, 1, None);
        shadow.touch(0, Action::Read, clock, site).unwrap();
    }
    let reads: Vec<_> = shadow.pool.entries.iter().map(|more| more.reads.groups.len()).collect();
    assert_eq!(reads, [1]);
    // The write of each thread races with the reads of all others.
    for clock in &clocks {
        assert!(shadow.touch(0, Action::Write, clock, site).is_err_and(|read| read.thread != clock.thread));
    }
}

/// Reads of one element by the same threads of many blocks or warps, in several orders, need few groups, and a write races
/// with each of them.
#[test]
fn readers_of_many_blocks_and_warps_are_few_groups() {
    let site = sites()[0];
    let shapes: [&dyn Fn(u64) -> (u64, u16); 4] =
        [&|k| (k, 0), &|k| (k / 64, (k % 64 * 16) as u16), &|k| (k % 32, (k / 32) as u16), &|k| {
            (k / 32, (k % 32) as u16)
        }];
    for (shape, reader) in shapes.into_iter().enumerate() {
        for stride in [1, 63, 37] {
            let count: u64 = if shape == 0 { 64 } else { 1024 };
            let thread = |k: u64| {
                let (block, thread) = reader(k * stride % count);
                let mut clock = Clock::new(thread);
                clock.begin(64 + block, 64, None);
                clock
            };
            let mut shadow = Shadow::default();
            for k in 0..count {
                shadow.touch(5, Action::Read, &thread(k), site).unwrap();
            }
            let groups = shadow.more(5).unwrap().reads.groups.len();
            let most = if stride == 1 { 5 } else { count as usize / 8 };
            assert!(groups <= most, "{shape}, {stride}: {groups} groups");
            // A writer that knows all readers but one of another warp or block.
            for unknown in [0, count / 2, count - 1] {
                let unknown = thread(unknown);
                let mut writer = thread(1);
                (0..count)
                    .map(thread)
                    .filter(|reader| (reader.block, reader.thread) != (unknown.block, unknown.thread))
                    .for_each(|mut reader| writer.acquire(&reader.publish()));
                let race = shadow.touch(5, Action::Write, &writer, site).unwrap_err();
                assert_eq!((race.block, race.thread), (unknown.block, unknown.thread), "{shape}, {stride}");
            }
        }
    }
}
