//! Every fault that the emulator detects, each in a small kernel: kind, kernel, block, threads and line of the report.

use warpkov_device::device::{Global, GlobalMut, Parameter, atomic, block, copy, device_assert, kernel, thread, warp};
use warpkov_device::emulator::fault::{Fault, Kind, Place, Threads};
use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
use warpkov_device::launch::{Device, Shape};
use warpkov_device::shared_array;

/// The fault of a launch.
fn fault(result: Result<(), EmulatorError>) -> Fault {
    match result {
        Err(EmulatorError::Fault(fault)) => *fault,
        Err(other) => panic!("expected a fault, got {other}"),
        Ok(()) => panic!("expected a fault, but the launch succeeded"),
    }
}

/// An element of a buffer.
fn global(array: &'static str, index: usize) -> Place {
    Place { array, index, shared: false }
}

/// An element of a shared array.
fn shared(array: &'static str, index: usize) -> Place {
    Place { array, index, shared: true }
}

/// The line of this file that ends in the comment `marker`.
fn line_of(marker: &str) -> u32 {
    let marker = format!("// {marker}");
    let line = include_str!("faults.rs").lines().position(|line| line.ends_with(&marker));
    line.expect("a line of this file ends in the marker") as u32 + 1
}

#[track_caller]
fn assert_site(fault: &Fault, marker: &str) {
    let site = fault.site.expect("the fault has a line");
    assert!(site.file().ends_with("faults.rs"), "{site}");
    assert_eq!(site.line(), line_of(marker), "{fault}");
}

#[kernel]
fn early_return(n: u32) {
    if thread::thread_idx_x() >= n {
        return;
    }
    thread::sync_threads(); // missed barrier
}

#[test]
fn a_thread_that_returns_before_a_barrier() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no memory.
    let fault = fault(unsafe { early_return(&emulator, Shape::new(3, 64), 40) });
    assert_eq!(fault.kernel, "early_return");
    assert_eq!(fault.block.x, 0);
    assert_eq!(fault.threads, Threads::Two(0, 40));
    assert!(matches!(&fault.kind, Kind::BarrierDivergence { other, .. } if other == "has returned"), "{fault}");
    assert_site(&fault, "missed barrier");
}

#[test]
fn debug_prints_the_report() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no memory.
    let error = unsafe { early_return(&emulator, Shape::new(3, 64), 40) }.unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(error.to_string().contains("hint: every thread of the block must reach the barrier"), "{error}");
}

#[kernel]
fn reduce_block(scan: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let sum = |a, b| a + b;
    if scan == 1 {
        out.set(t, block::exclusive_scan(1, 0, sum).0); // scan of a block
    } else {
        out.set(t, block::reduce(1, 0, sum)); // sum of a block
    }
}

#[test]
fn a_sum_over_a_block_of_partial_warps() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(128).unwrap();
    for (scan, function, line) in
        [(0, "block::reduce", "sum of a block"), (1, "block::exclusive_scan", "scan of a block")]
    {
        // SAFETY: `out` has one element per thread.
        unsafe { reduce_block(&emulator, Shape::new(1, 128), scan, &mut out) }.unwrap();
        // SAFETY: as above.
        let fault = fault(unsafe { reduce_block(&emulator, Shape::new(1, 100), scan, &mut out) });
        assert_eq!(fault.kind, Kind::PartialWarp { function, threads: 100 });
        assert_site(&fault, line);
    }
}

/// Warp 0 skips the barrier in round `skipped`, warp 1 in round `other`.
#[kernel]
fn rounds(way: u32, skipped: u32, other: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let mine = if t < 32 { skipped } else { other };
    if way == 0 {
        #[allow(clippy::needless_continue)]
        for round in 0..3 {
            // loop by for
            if round == mine {
                continue;
            }
            thread::sync_threads(); // barrier in rounds
        }
    } else {
        let mut outer = 0;
        let last = 'passes: loop {
            let mut round = 0;
            'rounds: while round < 3 {
                round += 1;
                if 3 * outer + round == mine + 1 {
                    continue 'rounds;
                }
                out.set(t, block::reduce(1, 0, |a, b| a + b)); // sum in rounds
                if outer == 1 && round == 3 {
                    break 'passes outer;
                }
            }
            outer += 1;
            if outer == 2 {
                break outer;
            }
        };
        out.set(t, last);
    }
}

#[test]
fn a_barrier_in_different_rounds_of_a_loop() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(64).unwrap();
    let mut launch = |way, skipped, other| {
        // SAFETY: `out` has one element per thread.
        unsafe { rounds(&emulator, Shape::new(1, 64), way, skipped, other, &mut out) }
    };
    let (first, second) = (line_of("loop by for") - 1, line_of("sum in rounds") - 5);
    for (way, line) in [(0, first), (1, second)] {
        for mine in 0..9 {
            launch(way, mine, mine).unwrap();
        }
        let fault = fault(launch(way, 0, 1));
        assert_eq!(fault.threads, Threads::Two(0, 32));
        let Kind::BarrierDivergence { other, .. } = &fault.kind else { panic!("{fault}") };
        assert_eq!(*other, format!("waits at it in round 1 of the loop on line {line}, not in round 2"));
    }
    assert_site(&fault(launch(0, 0, 1)), "barrier in rounds");
    // Each warp skips the third round of one pass of the outer loop.
    let fault = fault(launch(1, 2, 5));
    let Kind::BarrierDivergence { other, .. } = &fault.kind else { panic!("{fault}") };
    assert_eq!(*other, format!("waits at it in round 3 of the loop on line {second}, not in round 1"));
}

struct Tile;

impl Tile {
    fn load(&self, skip: bool) {
        Self::all(skip);
    }

    fn all(skip: bool) {
        if !skip {
            thread::sync_threads();
        }
    }
}

/// A module with the name of one of the library's.
mod tools {
    pub mod warp {
        pub fn fill(skip: bool) {
            super::super::Tile.load(skip);
        }
    }
}

#[kernel]
fn rounds_of_calls(way: u32, skipped: u32, other: u32) {
    let mine = if thread::thread_idx_x() < 32 { skipped } else { other };
    match way {
        0 => {
            for round in 0..3 {
                Tile.load(round == mine);
            }
        }
        1 => {
            for round in 0..3 {
                Tile::all(round == mine);
            }
        }
        2 => {
            use tools::warp;
            for round in 0..3 {
                warp::fill(round == mine);
            }
        }
        _ => (0..3).for_each(|round| {
            if round != mine {
                thread::sync_threads();
            }
        }),
    }
}

#[test]
fn a_barrier_of_a_method_in_different_rounds_of_a_loop() {
    for way in 0..4 {
        let emulator = Emulator::default();
        // SAFETY: the kernel touches no memory.
        let launch = |skipped, other| unsafe { rounds_of_calls(&emulator, Shape::new(1, 64), way, skipped, other) };
        launch(1, 1).unwrap();
        let fault = fault(launch(0, 1));
        let Kind::BarrierDivergence { other, .. } = &fault.kind else { panic!("{fault}") };
        assert!(other.starts_with("waits at it in round 1 of the loop on line "), "{other}");
    }
}

/// Loops that never end unless `never` is 1. None accesses memory that the others write.
#[kernel]
fn endless_loops(way: u32, never: u32) {
    let t = thread::thread_idx_x();
    match way {
        0 => {
            while std::hint::black_box(never) != 1 {
                thread::sync_threads();
            }
        }
        1 => {
            while std::hint::black_box(never) != 1 {
                warp::sync_warp(warp::FULL);
            }
        }
        2 => while warp::shuffle(warp::FULL, t, 0) == never {},
        3 => {
            while std::hint::black_box(never) != 1 {
                thread::fence();
            }
        }
        4 => {
            while std::hint::black_box(never) != 1 {
                copy::commit();
                copy::wait::<0>();
            }
        }
        5 => while block::reduce(1, never, |a: u32, b| a + b) != 7 {},
        6 => while std::hint::black_box(t) != never + 100 {},
        7 => {
            while std::hint::black_box(never) != 1 {
                for k in 0..4 {
                    std::hint::black_box(k);
                }
            }
        }
        _ => {
            for k in 0..u64::MAX {
                Tile.load(std::hint::black_box(k) < u64::from(never + 1) << 62);
            }
        }
    }
}

#[test]
fn loops_without_accesses_end_at_the_step_limit() {
    for way in 0..9 {
        for schedule in [Schedule::RoundRobin, Schedule::Interleaved(1)] {
            let emulator = Emulator::new(schedule).step_limit(10_000);
            // SAFETY: the kernel touches no memory.
            let fault = fault(unsafe { endless_loops(&emulator, Shape::new(1, 32), way, 0) });
            assert!(matches!(fault.kind, Kind::StepLimit { accesses } if accesses > 10_000), "{way}: {fault}");
        }
    }
}

#[kernel]
fn two_branches() {
    if thread::thread_idx_x().is_multiple_of(2) {
        thread::sync_threads(); // even barrier
    } else {
        thread::sync_threads(); // odd barrier
    }
}

#[test]
fn a_barrier_in_each_of_two_branches() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no memory.
    let fault = fault(unsafe { two_branches(&emulator, Shape::new(1, 32)) });
    assert_eq!(fault.threads, Threads::Two(0, 1));
    let Kind::BarrierDivergence { waiting, other } = &fault.kind else { panic!("{fault}") };
    assert_eq!(*waiting, line_of("even barrier"));
    assert!(other.contains(&format!("faults.rs:{}", line_of("odd barrier"))), "{other}");
}

#[kernel]
fn lane_missing(out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    if lane != 7 {
        out.set(lane, warp::sum_u32(warp::FULL, lane)); // sum without lane 7
    }
}

#[test]
fn a_lane_of_the_mask_that_has_returned() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(32).unwrap();
    // SAFETY: `out` has one element per lane.
    let fault = fault(unsafe { lane_missing(&emulator, Shape::new(1, 32), &mut out) });
    assert!(
        matches!(&fault.kind, Kind::WarpDivergence { lane: 7, mask: u32::MAX, other, .. } if other == "has returned"),
        "{fault}"
    );
    assert_site(&fault, "sum without lane 7");
}

#[kernel]
fn different_operations(out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    let value = if lane < 16 { warp::sum_u32(warp::FULL, 1) } else { warp::max_u32(warp::FULL, 1) };
    out.set(lane, value);
}

#[test]
fn lanes_of_a_mask_at_different_operations() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(32).unwrap();
    // SAFETY: `out` has one element per lane.
    let fault = fault(unsafe { different_operations(&emulator, Shape::new(1, 32), &mut out) });
    let Kind::WarpDivergence { lane: 16, other, .. } = &fault.kind else { panic!("{fault}") };
    assert!(other.contains("ReduceMax"), "{other}");
}

#[kernel]
fn partial_block() {
    warp::sync_warp(warp::FULL);
}

#[test]
fn a_full_mask_in_a_partial_warp() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no memory.
    let fault = fault(unsafe { partial_block(&emulator, Shape::new(1, 40)) });
    assert!(matches!(&fault.kind, Kind::WarpDivergence { lane: 8, other, .. } if other == "does not exist"), "{fault}");
}

#[kernel]
fn outside_mask() {
    warp::sync_warp(0xffff);
}

#[test]
fn a_lane_outside_its_own_mask() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no memory.
    let fault = fault(unsafe { outside_mask(&emulator, Shape::new(1, 32)) });
    assert_eq!(fault.kind, Kind::LaneOutsideMask { lane: 16, mask: 0xffff });
}

#[kernel]
fn shuffle_from_outside(out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    if lane < 16 {
        out.set(lane, warp::shuffle_down(0xffff, lane, 4)); // shuffle from lane 16
    }
}

#[test]
fn a_shuffle_from_a_lane_outside_its_mask() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(32).unwrap();
    // SAFETY: `out` has one element per lane.
    let fault = fault(unsafe { shuffle_from_outside(&emulator, Shape::new(1, 32), &mut out) });
    assert_eq!(fault.kind, Kind::LaneNotInMask { lane: 16, mask: 0xffff });
    assert_eq!(fault.threads, Threads::One(12));
    assert_site(&fault, "shuffle from lane 16");
}

#[kernel]
fn off_by_one(x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i + 1)); // off by one
}

#[test]
fn a_global_read_beyond_the_end() {
    let emulator = Emulator::default();
    let (x, mut y) = (emulator.zeros(64).unwrap(), emulator.zeros(64).unwrap());
    // SAFETY: the emulator checks all accesses. The launch is invalid on purpose.
    let fault = fault(unsafe { off_by_one(&emulator, Shape::new(2, 32), &x, &mut y) });
    assert_eq!(fault.kind, Kind::OutOfBounds { place: global("x", 64), len: 64 });
    assert_eq!((fault.block.x, fault.threads.clone()), (1, Threads::One(31)));
    assert_site(&fault, "off by one");
    assert!(fault.to_string().contains("x[64] in global memory, which has 64 elements"), "{fault}");
}

/// Neighbours in a ring.
#[derive(Clone, Copy, Parameter)]
struct Ring {
    next: Global<u32>,
}

/// Two values for each element.
#[derive(Clone, Copy, Parameter)]
struct Values {
    scale: f32,
    ring: Ring,
    out: GlobalMut<f32>,
}

#[kernel]
fn write_next(values: Values, unread: Global<f32>) {
    let i = thread::index_1d() as usize;
    let next = if i == 7 { 32 + unread.get(0) as usize } else { i };
    values.out.set(values.ring.next.get(next) as usize, values.scale);
}

#[test]
fn a_fault_names_the_field_of_a_struct() {
    let emulator = Emulator::default();
    let next: Vec<u32> = (0..32).map(|i| if i == 9 { 99 } else { i }).collect();
    let (next, unread, mut out) =
        (emulator.upload(&next).unwrap(), emulator.zeros(1).unwrap(), emulator.zeros(32).unwrap());
    for (threads, buffer, index) in [(7, "values.out", 99), (0, "values.ring.next", 32)] {
        // The schedule decides which faulty thread runs first, and the first fault ends the launch.
        let emulator = Emulator::new(if threads == 7 { Schedule::Reversed } else { Schedule::RoundRobin });
        let values = ValuesArgs { scale: 2.5, ring: RingArgs { next: &next }, out: &mut out };
        // SAFETY: the emulator checks all accesses. The launch is invalid on purpose.
        let fault = fault(unsafe { write_next(&emulator, Shape::new(1, 32), values, &unread) });
        assert_eq!(fault.kind, Kind::OutOfBounds { place: global(buffer, index), len: 32 });
    }
    assert_eq!(emulator.to_vec(&out).unwrap()[6], 2.5);
}

#[kernel]
fn write_beyond(y: GlobalMut<f32>) {
    y.set4(thread::index_1d(), [0.0; 4]);
}

#[test]
fn a_global_write_beyond_the_end() {
    let emulator = Emulator::default();
    let mut y = emulator.zeros(126).unwrap();
    // SAFETY: the emulator checks all accesses. The launch is invalid on purpose.
    let fault = fault(unsafe { write_beyond(&emulator, Shape::new(1, 32), &mut y) });
    assert_eq!(fault.kind, Kind::OutOfBounds { place: global("y", 127), len: 126 });
}

#[kernel]
fn shared_beyond() {
    let tile = shared_array!(faults_beyond: f32; 32);
    tile.set(thread::thread_idx_x() + 1, 1.0); // shared off by one
}

#[test]
fn a_shared_access_beyond_the_end() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no global memory.
    let fault = fault(unsafe { shared_beyond(&emulator, Shape::new(1, 32)) });
    assert_eq!(fault.kind, Kind::OutOfBounds { place: shared("faults_beyond", 32), len: 32 });
    assert_site(&fault, "shared off by one");
}

#[kernel]
fn uninitialised(out: GlobalMut<f32>) {
    let tile = warpkov_device::device::shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    if t != 5 {
        tile.set(t, 1.0);
    }
    thread::sync_threads();
    out.set(t, tile.get(t)); // read of uninitialised memory
}

#[test]
fn a_read_of_uninitialised_shared_memory() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(32).unwrap();
    // SAFETY: `out` has one element per thread.
    let fault = fault(unsafe { uninitialised(&emulator, Shape::new(1, 32).with_shared(128), &mut out) });
    assert_eq!(fault.kind, Kind::Uninitialised { place: shared("dynamic_shared_mem", 5) });
    assert_eq!(fault.threads, Threads::One(5));
    assert_site(&fault, "read of uninitialised memory");
}

#[kernel]
fn forgotten_barrier(out: GlobalMut<u32>) {
    let tile = shared_array!(faults_race: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t);
    out.set(t, tile.get(63 - t)); // read with no barrier
}

#[test]
fn a_read_before_the_write_of_another_thread() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(64).unwrap();
    // SAFETY: `out` has one element per thread.
    let fault = fault(unsafe { forgotten_barrier(&emulator, Shape::new(1, 64), &mut out) });
    // Threads 0 to 31 wait for a value. Thread 32 is the first to read one that another thread has written.
    let place = shared("faults_race", 31);
    assert_eq!(fault.kind, Kind::Race { place, first: "a write", second: "a read" });
    assert_eq!(fault.threads, Threads::Two(31, 32));
    assert_site(&fault, "read with no barrier");
}

#[kernel]
fn race_after_initialisation(out: GlobalMut<u32>) {
    let tile = shared_array!(faults_race_initialised: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, 0);
    thread::sync_threads();
    tile.set(t, t); // races with the mirrored read
    out.set(t, tile.get(63 - t));
}

#[test]
fn a_write_that_races_with_a_read() {
    // The first thread that writes a cell which another has read since the barrier: 32 in ascending order, 31 in
    // descending.
    for (schedule, threads, cell) in
        [(Schedule::RoundRobin, Threads::Two(31, 32), 32), (Schedule::Reversed, Threads::Two(32, 31), 31)]
    {
        let emulator = Emulator::new(schedule);
        let mut out = emulator.zeros(64).unwrap();
        // SAFETY: `out` has one element per thread.
        let fault = fault(unsafe { race_after_initialisation(&emulator, Shape::new(1, 64), &mut out) });
        assert_eq!(
            fault.kind,
            Kind::Race { place: shared("faults_race_initialised", cell), first: "a read", second: "a write" }
        );
        assert_eq!(fault.threads, threads);
        assert_site(&fault, "races with the mirrored read");
    }
}

#[kernel]
fn two_writers() {
    let cell = shared_array!(faults_writers: u32; 1);
    cell.set(0, thread::thread_idx_x()); // two writers
}

#[test]
fn two_threads_that_write_one_cell() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no global memory.
    let fault = fault(unsafe { two_writers(&emulator, Shape::new(1, 32)) });
    assert_eq!(fault.kind, Kind::Race { place: shared("faults_writers", 0), first: "a write", second: "a write" });
    assert_eq!(fault.threads, Threads::Two(0, 1));
    assert_site(&fault, "two writers");
}

#[kernel]
fn plain_and_atomic(out: GlobalMut<u32>) {
    let cell = shared_array!(faults_plain_and_atomic: u32; 1);
    if thread::thread_idx_x() == 0 {
        cell.set(0, 0);
    }
    thread::sync_threads();
    atomic::add((cell, 0), 1);
    if thread::thread_idx_x() == 0 {
        out.set(0, cell.get(0));
    }
    thread::sync_threads();
}

#[test]
fn a_plain_read_beside_atomics() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(1).unwrap();
    // SAFETY: `out` has one element.
    let fault = fault(unsafe { plain_and_atomic(&emulator, Shape::new(1, 64), &mut out) });
    assert_eq!(
        fault.kind,
        Kind::Race { place: shared("faults_plain_and_atomic", 0), first: "a read", second: "an atomic operation" }
    );
}

#[kernel]
fn warp_exchange(ordered: u32, out: GlobalMut<u32>) {
    let tile = shared_array!(faults_warp_exchange: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t);
    if ordered != 0 {
        warp::sync_warp(warp::FULL);
    } else {
        // A shuffle synchronises the lanes but does not order their memory accesses.
        let _ = warp::shuffle(warp::FULL, t, 0);
    }
    out.set(t, tile.get(t ^ 1));
}

#[test]
fn sync_warp_orders_memory_and_a_shuffle_does_not() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(64).unwrap();
    // SAFETY: `out` has one element per thread.
    unsafe { warp_exchange(&emulator, Shape::new(1, 64), 1, &mut out) }.unwrap();
    assert_eq!(emulator.to_vec(&out).unwrap(), (0..64).map(|t| t ^ 1).collect::<Vec<u32>>());
    // SAFETY: as above.
    let fault = fault(unsafe { warp_exchange(&emulator, Shape::new(1, 64), 0, &mut out) });
    assert!(matches!(fault.kind, Kind::Race { first: "a write", second: "a read", .. }), "{fault}");
}

#[kernel]
fn across_warps(out: GlobalMut<u32>) {
    let tile = shared_array!(faults_across_warps: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t);
    warp::sync_warp(warp::FULL);
    out.set(t, tile.get(t ^ 32));
}

#[test]
fn sync_warp_does_not_order_other_warps() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(64).unwrap();
    // SAFETY: `out` has one element per thread.
    let fault = fault(unsafe { across_warps(&emulator, Shape::new(1, 64), &mut out) });
    assert!(matches!(fault.kind, Kind::Race { .. }), "{fault}");
    assert_eq!(fault.threads, Threads::Two(32, 0));
}

/// Each round copies an element that the thread has written, and one group may be in flight.
#[kernel]
fn rewritten_source(own: GlobalMut<u32>) {
    let stages = shared_array!(faults_rewritten: u32; 64);
    let t = thread::thread_idx_x();
    for round in 0..3 {
        own.set(t, round); // rewritten source
        stages.copy::<1>(round % 2 * 32 + t, own, t);
        copy::commit();
        copy::wait::<1>();
    }
}

#[test]
fn a_thread_that_writes_what_its_own_copy_reads() {
    let emulator = Emulator::default();
    let mut own = emulator.zeros(32).unwrap();
    // SAFETY: `own` has one element per thread.
    let fault = fault(unsafe { rewritten_source(&emulator, Shape::new(1, 32), &mut own) });
    assert_eq!(fault.kind, Kind::Race { place: global("own", 0), first: "an asynchronous copy", second: "a write" });
    assert_site(&fault, "rewritten source");
    assert!(fault.hint.is_some_and(|hint| hint.contains("`copy::wait`")));
}

/// Another thread changes the source by an atomic operation after a plain write of this launch.
#[kernel]
fn source_changed_by_an_atomic_operation(early: u32, x: GlobalMut<u32>) {
    let tile = shared_array!(faults_changed_source: u32; 64);
    let t = thread::thread_idx_x();
    x.set(t, 5);
    thread::sync_threads();
    tile.copy::<1>(t, x, t); // changed source
    copy::commit();
    if early == 0 {
        copy::wait::<0>();
    }
    thread::sync_threads();
    atomic::add((x, 63 - t as usize), 1);
    thread::sync_threads();
    copy::wait::<0>();
}

#[test]
fn an_atomic_operation_on_what_a_copy_reads() {
    let emulator = Emulator::default();
    let mut x = emulator.zeros(64).unwrap();
    // SAFETY: `x` has one element per thread.
    let mut launch =
        |early| unsafe { source_changed_by_an_atomic_operation(&emulator, Shape::new(1, 64), early, &mut x) };
    launch(0).unwrap();
    let fault = fault(launch(1));
    assert!(
        matches!(fault.kind, Kind::Race { first: "an atomic operation", second: "an asynchronous copy", .. }),
        "{fault}"
    );
    assert_site(&fault, "changed source");
}

#[kernel]
fn misaligned_target(x: Global<u32>) {
    let tile = shared_array!(faults_misaligned_target: u32; 64);
    tile.copy::<2>(thread::thread_idx_x() + 1, x, 0); // misaligned target
}

#[test]
fn a_copy_to_an_odd_element() {
    let emulator = Emulator::default();
    let x = emulator.zeros(32).unwrap();
    // SAFETY: `x` has two elements. The launch is invalid on purpose.
    let fault = fault(unsafe { misaligned_target(&emulator, Shape::new(1, 32), &x) });
    assert_eq!(fault.kind, Kind::Misaligned { place: shared("faults_misaligned_target", 1), bytes: 8 });
    assert_site(&fault, "misaligned target");
}

#[kernel]
fn overflow(out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    out.set(t, t - 3);
}

#[test]
fn arithmetic_that_overflows() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(32).unwrap();
    // SAFETY: `out` has one element per thread.
    let fault = fault(unsafe { overflow(&emulator, Shape::new(1, 32), &mut out) });
    assert!(matches!(&fault.kind, Kind::Panic { message } if message.contains("overflow")), "{fault}");
    assert_eq!(fault.threads, Threads::One(0));
}

#[test]
fn more_shared_memory_than_any_gpu_has() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no memory.
    let fault = fault(unsafe { early_return(&emulator, Shape::new(1, 32).with_shared(300_000), 32) });
    assert!(matches!(fault.kind, Kind::SharedExhausted { bytes: 300_000, .. }), "{fault}");
}

#[kernel]
fn large_arrays(third: u32) {
    let _ = shared_array!(faults_large_a: f64; 3072);
    let _ = shared_array!(faults_large_b: f64; 3072);
    if third == 1 {
        let _ = shared_array!(faults_large_c: f32; 1); // third array
    }
}

#[test]
fn more_static_shared_memory_than_a_kernel_may_declare() {
    let emulator = Emulator::default();
    let shape = Shape::new(1, 32).with_shared(100_000);
    // SAFETY: the kernel touches no memory.
    unsafe { large_arrays(&emulator, shape, 0) }.unwrap();
    // SAFETY: as above.
    let fault = fault(unsafe { large_arrays(&emulator, shape, 1) });
    assert!(matches!(fault.kind, Kind::StaticSharedExhausted { bytes: 49_168, limit: 49_152 }), "{fault}");
    assert_site(&fault, "third array");
}

#[kernel]
fn arrays_in_branches(way: u32) {
    if way == 1 {
        let _ = shared_array!(faults_huge: f64; 40_000); // huge array
    } else if thread::block_idx_x() == 0 {
        let _ = shared_array!(faults_branch_a: f64; 4096);
    } else {
        let _ = shared_array!(faults_branch_b: f32; 8192); // other branch
    }
}

#[test]
fn the_shared_arrays_of_all_branches_count() {
    let emulator = Emulator::default();
    // SAFETY: the kernel touches no memory.
    let launch = |way, blocks| unsafe { arrays_in_branches(&emulator, Shape::new(blocks, 1), way) };
    launch(0, 1).unwrap();
    let both = fault(launch(0, 2));
    assert!(matches!(both.kind, Kind::StaticSharedExhausted { bytes: 65_536, .. }), "{both}");
    assert_site(&both, "other branch");
    let huge = fault(launch(1, 1));
    assert!(matches!(huge.kind, Kind::StaticSharedExhausted { bytes: 320_000, .. }), "{huge}");
    assert_site(&huge, "huge array");
}

/// Writes zeros, and adds elements.
fn recursion(depth: u32, x: Global<u32>, out: GlobalMut<u32>) -> u32 {
    out.set(0, 0);
    x.get(depth as usize % 32) + if depth == 0 { 0 } else { recursion(depth - 1, x, out) }
}

#[inline(never)]
fn array<const LENGTH: usize>(x: Global<u32>) -> u32 {
    let mut local = [0; LENGTH];
    for k in 0..LENGTH {
        local[k] = x.get(k % 32) + if k == 0 { 0 } else { local[k - 1] };
    }
    local[std::hint::black_box(LENGTH - 1)]
}

#[kernel]
fn local_memory(way: u32, x: Global<u32>, out: GlobalMut<u32>) {
    let value = match way {
        0 => array::<65_536>(x),
        1 => array::<150_000>(x),
        depth => recursion(depth, x, out),
    };
    out.set(thread::thread_idx_x(), value);
}

#[test]
fn more_local_memory_than_any_gpu_has() {
    let emulator = Emulator::default();
    let (x, mut out) = (emulator.zeros(32).unwrap(), emulator.zeros(32).unwrap());
    let mut launch = |way| {
        // SAFETY: `x` and `out` have 32 elements.
        unsafe { local_memory(&emulator, Shape::new(1, 1), way, &x, &mut out) }
    };
    launch(0).unwrap();
    launch(100).unwrap();
    for way in [1, 1_000_000_000] {
        let fault = fault(launch(way));
        assert!(matches!(fault.kind, Kind::LocalMemoryExhausted { bytes: 524_288.., .. }), "{fault}");
    }
    launch(0).unwrap();
}

/// A recursion without memory accesses.
#[allow(unconditional_recursion)]
fn endless(depth: u64) -> u64 {
    std::hint::black_box(endless(std::hint::black_box(depth + 1))) + depth
}

/// An array of 4 MiB, which no memory access of the kernel shows to the emulator.
#[inline(never)]
fn large_array(value: u8) -> u8 {
    let mut local = [value; 1 << 22];
    std::hint::black_box(&mut local)[value as usize]
}

#[kernel]
fn stack_overflow(way: u32, last: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    thread::sync_threads();
    if t == last {
        let value = if way == 0 { endless(0) } else { large_array(way as u8).into() };
        out.set(t, value as u32);
    }
}

#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn local_memory_beyond_the_stack_of_a_thread() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(64).unwrap();
    for (way, last) in [(0, 40), (1, 3), (0, 0)] {
        // SAFETY: `out` has one element per thread.
        let fault = fault(unsafe { stack_overflow(&emulator, Shape::new(2, 64), way, last, &mut out) });
        assert_eq!((fault.kernel, fault.block.x, &fault.threads), ("stack_overflow", 0, &Threads::One(last)));
        assert!(matches!(fault.kind, Kind::LocalMemoryExhausted { bytes: 524_288.., .. }), "{fault}");
        // The emulator and the buffer can still be used.
        // SAFETY: `out` has one element per thread.
        unsafe { stack_overflow(&emulator, Shape::new(2, 64), way, 64, &mut out) }.unwrap();
        assert_eq!(emulator.to_vec(&out).unwrap(), [0; 64]);
    }
}

/// The handler of overflows passes on those of other stacks.
#[test]
#[cfg(target_os = "linux")]
fn an_overflow_of_the_hosts_stack_ends_the_process() {
    const CHILD: &str = "WARPKOV_TEST_OVERFLOW";
    if std::env::var_os(CHILD).is_some() {
        let emulator = Emulator::default();
        let mut out = emulator.zeros(64).unwrap();
        // SAFETY: `out` has one element per thread.
        unsafe { identity(&emulator, Shape::new(2, 32), &mut out) }.unwrap();
        println!("{}", endless(0));
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "an_overflow_of_the_hosts_stack_ends_the_process";
    let ended = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && text.contains("has overflowed its stack"), "{text}");
}

#[test]
fn shapes_that_no_gpu_accepts() {
    let emulator = Emulator::default();
    for shape in [Shape::new(1, 0), Shape::new(1, 1025), Shape::new(0, 32), Shape::new(u32::MAX, 32)] {
        // SAFETY: the kernel touches no memory.
        let error = unsafe { early_return(&emulator, shape, 2000) }.unwrap_err();
        assert!(matches!(error, EmulatorError::Shape { kernel: "early_return", .. }), "{error}");
    }
}

#[kernel]
fn twice(x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    y.set(i, 2 * x.get(i)); // twice
}

#[kernel]
fn increment(x: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    x.set(i, x.get(i) + 1); // increment
}

#[test]
fn launches_beside_each_other_must_not_share_what_one_writes() {
    let emulator = Emulator::default();
    let shape = Shape::new(2, 32);
    for (shared, reversed) in [(false, false), (true, false), (true, true)] {
        let buffers = || [0; 3].map(|_| emulator.zeros::<u32>(64).unwrap());
        let mut context = buffers();
        let read = |[x, y, _]: &mut [_; 3]| {
            // SAFETY: the buffers have one element per thread. The launch is invalid on purpose.
            unsafe { twice(&emulator, shape, x, y) }
        };
        let write = |[x, _, z]: &mut [_; 3]| {
            let target = if shared { x } else { z };
            // Launches of one part are ordered.
            for _ in 0..2 {
                // SAFETY: as above.
                unsafe { increment(&emulator, shape, target) }?;
            }
            Ok(())
        };
        // SAFETY: the emulator checks the kernels.
        let result = unsafe {
            if reversed {
                emulator.beside(&mut context, write, read)
            } else {
                emulator.beside(&mut context, read, write)
            }
        };
        if shared {
            let fault = fault(result);
            assert!(matches!(fault.kind, Kind::Race { place: Place { array: "x", index: 0, .. }, .. }), "{fault}");
            assert_site(&fault, if reversed { "twice" } else { "increment" });
            assert!(fault.hint.is_some_and(|hint| hint.contains("beside")));
        } else {
            result.unwrap();
            assert_eq!(emulator.to_vec(&context[2]).unwrap(), [2; 64]);
        }
        // Afterwards, all is ordered.
        // SAFETY: as above.
        unsafe { increment(&emulator, shape, &mut context[0]) }.unwrap();
        let [x, y, _] = &mut context;
        // SAFETY: as above.
        unsafe { twice(&emulator, shape, x, y) }.unwrap();
    }
}

#[test]
fn methods_beside_launches_must_not_use_what_one_writes() {
    let emulator = Emulator::default();
    let (clear, write, download, launch) = (0, 1, 2, 3);
    let cases = [
        (clear, launch, true),
        (write, launch, true),
        (launch, clear, true),
        (launch, write, true),
        (launch, download, true),
        (clear, clear, true),
        (clear, download, true),
        // The host waits before the other part begins.
        (download, launch, false),
        (download, download, false),
    ];
    for (side, main, wrong) in cases {
        for other in [false, true] {
            let mut context = [0; 2].map(|_| emulator.zeros::<u32>(64).unwrap());
            let run = |what: u32, buffer: &mut _| match what {
                0 => emulator.clear(buffer),
                1 => emulator.write(buffer, &[3; 64]),
                2 => emulator.to_vec(buffer).map(drop),
                // SAFETY: the buffer has one element per thread. The launch is invalid on purpose.
                _ => unsafe { increment(&emulator, Shape::new(2, 32), buffer) },
            };
            // SAFETY: the emulator checks the operations.
            let result = unsafe {
                emulator.beside(&mut context, |c| run(side, &mut c[0]), |c| run(main, &mut c[usize::from(other)]))
            };
            if !wrong || other {
                result.unwrap();
            } else if main == launch {
                let fault = fault(result);
                assert!(fault.earlier.is_some_and(|earlier| earlier.kernel == ["clear", "write"][side as usize]));
            } else {
                let error = result.unwrap_err();
                assert!(matches!(error, EmulatorError::Beside { by_writes: true, element: 0, .. }), "{error}");
            }
            run(main, &mut context[0]).unwrap();
        }
    }
}

#[test]
fn a_staged_copy_waits_for_what_uses_its_target() {
    let (emulator, shape) = (Emulator::default(), Shape::new(1, 64));
    let source = emulator.pin(vec![1; 64]).unwrap();
    let (mut x, mut other) = (emulator.zeros(64).unwrap(), emulator.zeros(64).unwrap());
    for (order, by) in [(0, None), (1, Some("increment")), (2, Some("clear")), (3, Some("write"))] {
        // SAFETY: both buffers have 64 elements.
        unsafe { increment(&emulator, shape, &mut x) }.unwrap();
        emulator.clear(&mut x).unwrap();
        let event = emulator.record_event().unwrap();
        // SAFETY: as above.
        unsafe { increment(&emulator, shape, &mut other) }.unwrap();
        match order {
            0 => {}
            // SAFETY: as above.
            1 => unsafe { increment(&emulator, shape, &mut x) }.unwrap(),
            2 => emulator.clear(&mut x).unwrap(),
            _ => emulator.write(&mut x, &[5; 64]).unwrap(),
        }
        // SAFETY: the emulator checks what uses `x`.
        let staged = unsafe { emulator.stage(&source, 0..64, &mut x, &event) };
        match by {
            None => assert_eq!((staged.unwrap(), emulator.to_vec(&x).unwrap()), ((), vec![1; 64])),
            Some(by) => {
                let error = staged.unwrap_err();
                assert!(matches!(error, EmulatorError::Staged { by: found } if found == by), "{error}");
            }
        }
    }
}

#[kernel]
fn order_of_arrival(next: GlobalMut<u32>, order: GlobalMut<u32>) {
    let place = atomic::add((next, 0), 1);
    order.set(thread::index_1d(), place);
}

#[test]
fn a_result_that_depends_on_the_order_differs_between_schedules() {
    let schedules = [
        Schedule::RoundRobin,
        Schedule::Reversed,
        Schedule::Random(1),
        Schedule::Random(2),
        Schedule::Interleaved(1),
        Schedule::Interleaved(2),
    ];
    let run = |schedule| {
        let emulator = Emulator::new(schedule);
        let (mut next, mut order) = (emulator.zeros(1).unwrap(), emulator.zeros(256).unwrap());
        // SAFETY: `next` has one element, `order` one per thread.
        unsafe { order_of_arrival(&emulator, Shape::new(4, 64), &mut next, &mut order) }.unwrap();
        emulator.to_vec(&order).unwrap()
    };
    let results: Vec<Vec<u32>> = schedules.into_iter().map(run).collect();
    assert!(results[0].iter().copied().eq(0..256));
    assert!(results[1].iter().copied().eq((0..256).rev()));
    for (i, result) in results.iter().enumerate() {
        assert!(results[..i].iter().all(|other| other != result), "{:?}", schedules[i]);
        assert_eq!(*result, run(schedules[i]), "{:?}", schedules[i]);
    }
}

#[test]
fn explore_names_the_first_order_with_an_error() {
    let mut orders = Vec::new();
    let explored = Emulator::explore(6, |emulator| {
        let (mut next, mut order) = (emulator.zeros(1)?, emulator.zeros(256)?);
        // SAFETY: `next` has one element, `order` one per thread.
        unsafe { order_of_arrival(emulator, Shape::new(4, 64), &mut next, &mut order) }?;
        orders.push(emulator.to_vec(&order)?);
        // SAFETY: the kernel touches no memory. It has a fault in the fourth order.
        if orders.len() == 4 { unsafe { early_return(emulator, Shape::new(1, 64), 40) } } else { Ok(()) }
    });
    let explored = explored.unwrap_err();
    assert_eq!(explored.schedule, Schedule::Interleaved(1));
    assert!(format!("{explored:?}").contains("barrier divergence"), "{explored}");
    assert!(format!("{explored:?}").ends_with("under Schedule::Interleaved(1)"), "{explored}");
    assert!(orders.iter().enumerate().all(|(i, order)| !orders[..i].contains(order)));
}

#[test]
fn explore_runs_the_first_order_in_any_case() {
    let explored = Emulator::explore(0, |emulator| -> Result<(), EmulatorError> {
        // SAFETY: the kernel touches no memory.
        unsafe { early_return(emulator, Shape::new(1, 64), 40) }
    });
    assert_eq!(explored.unwrap_err().schedule, Schedule::RoundRobin);
}

#[test]
fn explore_runs_one_order_if_threads_do_not_communicate() -> Result<(), Box<dyn std::error::Error>> {
    let mut runs = 0;
    Emulator::explore(6, |emulator| -> Result<(), EmulatorError> {
        runs += 1;
        let mut out = emulator.zeros(64)?;
        // SAFETY: `out` has one element per thread.
        unsafe { identity(emulator, Shape::new(2, 32), &mut out) }
    })?;
    assert_eq!(runs, 1);
    Ok(())
}

#[kernel]
fn identity(out: GlobalMut<u32>) {
    out.set(thread::index_1d(), thread::index_1d() as u32);
}

#[kernel]
fn communicate(operation: u32, flags: GlobalMut<u32>) {
    let votes = shared_array!(faults_communicate: u32; 1);
    match operation {
        0 => thread::sync_threads(),
        1 => warp::sync_warp(u32::MAX),
        2 => _ = warp::shuffle(u32::MAX, 1_u32, 0),
        3 => _ = atomic::add((flags, 0), 1),
        4 => atomic::store((votes, 0), 1, atomic::Ordering::Relaxed, atomic::Scope::Block),
        5 => _ = flags.peek(0),
        _ => flags.set(thread::index_1d(), 1),
    }
}

#[test]
fn the_emulator_knows_whether_threads_communicate() {
    for operation in 0..7 {
        let emulator = Emulator::default();
        let mut flags = emulator.zeros(32).unwrap();
        // SAFETY: `flags` has one element per thread.
        unsafe { communicate(&emulator, Shape::new(1, 32), operation, &mut flags) }.unwrap();
        assert_eq!(emulator.communicated(), operation < 6, "{operation}");
        assert_eq!(emulator.competed(), (3..6).contains(&operation), "{operation}");
    }
}

#[test]
fn until_stops_one_launch_between_blocks() {
    let mut asked = 0;
    let emulator = Emulator::default().until(move || {
        asked += 1;
        asked == 4
    });
    let mut out = emulator.zeros(9 * 32).unwrap();
    // SAFETY: `out` has one element per thread.
    let mut launch = |blocks| unsafe { identity(&emulator, Shape::new(blocks, 32), &mut out) };
    launch(2).unwrap();
    let error = launch(5).unwrap_err();
    assert!(matches!(error, EmulatorError::Stopped { kernel: "identity" }), "{error}");
    assert_eq!(emulator.to_vec(&out).unwrap()[63..65], [63, 0]);
    // The next launch runs to completion.
    // SAFETY: as above.
    unsafe { identity(&emulator, Shape::new(9, 32), &mut out) }.unwrap();
    assert_eq!(emulator.to_vec(&out).unwrap()[9 * 32 - 1], 9 * 32 - 1);
}

/// Warps wait at a named barrier for `threads` threads: all but those below `missing`.
#[kernel]
fn named(barrier: u32, threads: u32, missing: u32) {
    if thread::thread_idx_x() >= missing {
        thread::sync_barrier(barrier, threads); // named barrier
    }
}

#[test]
fn a_named_barrier_that_too_few_threads_reach() {
    for schedule in [Schedule::RoundRobin, Schedule::Random(1), Schedule::Interleaved(1)] {
        let emulator = Emulator::new(schedule);
        // SAFETY: the kernel touches no memory.
        let launch =
            |barrier, threads, missing| unsafe { named(&emulator, Shape::new(2, 96), barrier, threads, missing) };
        launch(1, 96, 0).unwrap();
        launch(15, 64, 32).unwrap();
        launch(1, 32, 32).unwrap();
        for (barrier, threads, missing, why) in [
            (1, 96, 32, "only 64 have reached it"),
            // Half of a warp.
            (1, 96, 16, "only 64 have reached it"),
            (1, 64, 0, "only 32 have reached it"),
            (0, 96, 0, "the number is 1 to 15"),
            (16, 96, 0, "the number is 1 to 15"),
            (1, 48, 0, "a multiple of 32, at most 96"),
            (1, 128, 0, "a multiple of 32, at most 96"),
        ] {
            let fault = fault(launch(barrier, threads, missing));
            assert!(matches!(fault.kind, Kind::NamedBarrier { .. }) && fault.to_string().contains(why), "{fault}");
            assert_site(&fault, "named barrier");
        }
    }
}

#[kernel]
fn named_differently(out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if t < 32 {
        thread::sync_barrier(2, 64);
    } else {
        thread::arrive_barrier(2, 96);
    }
    out.set(t, t);
}

#[test]
fn a_named_barrier_for_two_numbers_of_threads() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(96).unwrap();
    // SAFETY: `out` has one element per thread.
    let fault = fault(unsafe { named_differently(&emulator, Shape::new(1, 96), &mut out) });
    assert!(fault.to_string().contains("barrier 2 for 96 threads: others have arrived at it as one for 64"), "{fault}");
}

/// The first warp fills a buffer for the second one, round by round, with a barrier for either direction. Of the third warp,
/// only one that takes part may read.
#[kernel]
fn produce(arrives: u32, reads: u32, out: GlobalMut<u32>) {
    let cells = shared_array!(cells: u32; 32);
    let t = thread::thread_idx_x();
    for round in 0..3 {
        if t < 32 {
            cells.set(t, round + t); // produced
            thread::arrive_barrier(1, 64);
            thread::sync_barrier(2, 64);
        } else if t < 64 {
            if arrives == 1 {
                thread::sync_barrier(1, 64);
            } else {
                thread::arrive_barrier(1, 64);
            }
            out.set(32 * round + t - 32, cells.get(63 - t)); // consumed
            thread::arrive_barrier(2, 64);
        }
    }
    if t >= 64 && reads == 1 {
        out.set(t, cells.get(t - 64));
    }
}

#[test]
fn a_named_barrier_orders_the_accesses_of_its_threads() {
    for schedule in [Schedule::RoundRobin, Schedule::Reversed, Schedule::Random(1), Schedule::Interleaved(1)] {
        let emulator = Emulator::new(schedule);
        let mut out = emulator.zeros(96).unwrap();
        // SAFETY: `out` has 96 elements.
        let mut launch = |arrives, reads| unsafe { produce(&emulator, Shape::new(1, 96), arrives, reads, &mut out) };
        launch(1, 0).unwrap();
        for (arrives, reads) in [(0, 0), (1, 1)] {
            let fault = fault(launch(arrives, reads));
            assert!(matches!(fault.kind, Kind::Race { .. } | Kind::Uninitialised { .. }), "{fault}");
        }
        let expected: Vec<u32> = (0..96).map(|i| i / 32 + 31 - i % 32).collect();
        launch(1, 0).unwrap();
        assert_eq!(emulator.to_vec(&out).unwrap(), expected);
    }
}

#[kernel]
fn segments(width: u32, source: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let value = warp::shuffle_xor_in(u32::MAX, t, 1, width);
    out.set(t, block::broadcast(value, source));
}

#[test]
fn a_segment_of_five_lanes_and_a_broadcast_from_nowhere() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(64).unwrap();
    // SAFETY: `out` has one element per thread.
    let mut launch = |width, source| unsafe { segments(&emulator, Shape::new(1, 64), width, source, &mut out) };
    launch(8, 63).unwrap();
    assert!(matches!(fault(launch(5, 63)).kind, Kind::Panic { .. }));
    assert!(matches!(fault(launch(8, 64)).kind, Kind::Uninitialised { .. }));
    assert_eq!(emulator.to_vec(&out).unwrap(), [62; 64]);
}

/// Threads write bytes of one word, and another one its neighbour or the word.
#[kernel]
fn bytes_of_a_word(way: u32, out: GlobalMut<u32>) {
    let words = shared_array!(words: u32; 8);
    let bytes = words.cast::<u8>();
    let t = thread::thread_idx_x();
    if way == 3 && t == 5 {
        words.set(1, 0);
    }
    bytes.set(t, t as u8); // byte
    match way {
        1 if t == 5 => bytes.set(6, 0), // other byte
        2 if t == 5 => words.set(1, 0),
        _ => {}
    }
    thread::sync_threads();
    if t < 8 {
        out.set(t, words.get(t));
    }
}

#[test]
fn bytes_race_with_the_same_bytes_only() {
    for schedule in [Schedule::RoundRobin, Schedule::Reversed, Schedule::Random(1), Schedule::Interleaved(1)] {
        let emulator = Emulator::new(schedule);
        let mut out = emulator.zeros(8).unwrap();
        // SAFETY: `out` has eight elements.
        let mut launch = |way| unsafe { bytes_of_a_word(&emulator, Shape::new(1, 32), way, &mut out) };
        launch(0).unwrap();
        for way in [1, 2, 3] {
            assert!(matches!(fault(launch(way)).kind, Kind::Race { .. }), "way {way}");
        }
        launch(0).unwrap();
        assert_eq!(emulator.to_vec(&out).unwrap()[..2], [0x0302_0100, 0x0706_0504]);
    }
}

/// A word of which one byte has no value.
#[kernel]
fn partly_written(out: GlobalMut<u32>) {
    let words = shared_array!(words: u32; 1);
    for k in 0..3 {
        words.cast::<u8>().set(k, 1);
    }
    out.set(0, words.get(0)); // three bytes
}

#[test]
fn a_word_with_a_byte_that_nothing_has_written() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(1).unwrap();
    // SAFETY: `out` has one element.
    let fault = fault(unsafe { partly_written(&emulator, Shape::new(1, 1), &mut out) });
    assert_eq!(fault.kind, Kind::Uninitialised { place: shared("words", 0) });
    assert_site(&fault, "three bytes");
}

#[kernel]
fn columns(way: u32, x: Global<u16>, y: GlobalMut<u16>) {
    let (tile, column) = (shared_array!(tile: u16; 8), thread::thread_idx_x());
    if column < 4 {
        tile.rows(4).set(0, column, 1);
    }
    let value = match way {
        0 => x.rows(4).get(0, column as usize), // column of x
        1 => tile.rows(4).get(0, column),       // column of tile
        _ => x.rows(4).get(1, column as usize % 4),
    };
    y.rows(4).set(0, column as usize, value); // column of y
}

#[test]
fn columns_beyond_the_end_of_a_row() {
    let emulator = Emulator::default();
    let (x, mut y) = (emulator.upload(&[7_u16; 8]).unwrap(), emulator.zeros(8).unwrap());
    let mut launch = |way, threads| {
        // SAFETY: both vectors have eight elements.
        unsafe { columns(&emulator, Shape::new(1, threads), way, &x, &mut y) }
    };
    launch(2, 4).unwrap();
    for (way, array) in [(0, "x"), (1, "tile"), (2, "y")] {
        let fault = fault(launch(way, 5));
        assert_eq!(fault.kind, Kind::ColumnOutOfBounds { array, column: 4, length: 4 });
        assert_site(&fault, &format!("column of {array}"));
    }
}

/// Instances of a generic function with elements of two sizes have two arrays.
#[kernel]
fn two_sizes(out: GlobalMut<u64>) {
    let t = thread::thread_idx_x();
    let narrow = block::broadcast(t, 3);
    let wide = block::broadcast(u64::from(t) << 32, 2);
    out.set(t, wide + u64::from(narrow));
}

#[test]
fn shared_arrays_of_two_instances() {
    let emulator = Emulator::default();
    let mut out = emulator.zeros(4).unwrap();
    // SAFETY: `out` has one element per thread.
    unsafe { two_sizes(&emulator, Shape::new(1, 4), &mut out) }.unwrap();
    assert_eq!(emulator.to_vec(&out).unwrap(), [(2 << 32) + 3; 4]);
}

#[kernel]
fn asserted(n: u32, x: Global<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        device_assert!(x.get(i) < 3.0, "x[{}] is {:.2}", i, x.get(i)); // failed assertion
    }
}

#[test]
fn a_failed_assertion() {
    let emulator = Emulator::default();
    let x = emulator.upload(&[1.0, 2.0, 3.5, 4.0]).unwrap();
    // SAFETY: `x` has four elements.
    unsafe { asserted(&emulator, Shape::new(1, 32), 2, &x) }.unwrap();
    // SAFETY: as above.
    let fault = fault(unsafe { asserted(&emulator, Shape::new(2, 32), 4, &x) });
    assert_eq!((fault.kernel, &fault.threads), ("asserted", &Threads::One(2)));
    assert!(matches!(&fault.kind, Kind::Assertion { message } if message == "x[2] is 3.50"), "{fault}");
    assert_site(&fault, "failed assertion");
}
