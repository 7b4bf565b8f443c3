//! Atomic operations, scopes and orderings: what orders accesses, and what does not.

use atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, atomic, kernel, thread};
use warpkov_device::emulator::fault::{Fault, Kind};
use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
use warpkov_device::launch::{Device, Shape};

const SCHEDULES: [Schedule; 5] =
    [Schedule::RoundRobin, Schedule::Reversed, Schedule::Random(1), Schedule::Interleaved(1), Schedule::Interleaved(2)];

fn fault(result: Result<(), EmulatorError>) -> Fault {
    match result {
        Err(EmulatorError::Fault(fault)) => *fault,
        Err(other) => panic!("expected a fault, got {other}"),
        Ok(()) => panic!("expected a fault, but the launch succeeded"),
    }
}

#[track_caller]
fn assert_race(fault: &Fault) {
    assert!(matches!(fault.kind, Kind::Race { .. }), "{fault}");
}

/// An addition at block scope, then one at device scope.
#[kernel]
fn narrow_then_wide(count: GlobalMut<u32>) {
    u32::fetch_add((count, 0), 1, Ordering::Relaxed, Scope::Block);
    u32::fetch_add((count, 0), 1, Ordering::Relaxed, Scope::Device);
}

#[kernel]
fn narrow_in_block_0(count: GlobalMut<u32>) {
    if thread::block_idx_x() == 0 {
        u32::fetch_add((count, 0), 1, Ordering::Relaxed, Scope::Block);
    }
    for _ in 0..40 {
        u32::fetch_add((count, 0), 1, Ordering::Relaxed, Scope::Device);
    }
}

#[kernel]
fn narrow_release(count: GlobalMut<u32>) {
    if thread::block_idx_x() == 0 {
        u32::fetch_add((count, 0), 1, Ordering::AcqRel, Scope::Block);
    }
    u32::fetch_add((count, 0), 1, Ordering::AcqRel, Scope::Device);
}

/// Stores at both scopes on one line, in a loop.
#[kernel]
fn one_line(count: GlobalMut<u32>) {
    for scope in [Scope::Block, Scope::Device] {
        atomic::store((count, 0), 1, Ordering::Relaxed, scope);
    }
}

#[test]
fn an_operation_at_block_scope_races_though_one_at_device_scope_follows() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let mut count = device.zeros(1).unwrap();
        for threads in [1, 32] {
            // SAFETY: `count` has one element.
            assert_race(&fault(unsafe { narrow_then_wide(&device, Shape::new(2, threads), &mut count) }));
            // SAFETY: as above.
            assert_race(&fault(unsafe { narrow_in_block_0(&device, Shape::new(2, threads), &mut count) }));
            // SAFETY: as above.
            assert_race(&fault(unsafe { one_line(&device, Shape::new(2, threads), &mut count) }));
            // SAFETY: as above.
            assert_race(&fault(unsafe { narrow_release(&device, Shape::new(2, threads), &mut count) }));
        }
    }
}

/// All threads but one wait for it by plain reads.
#[kernel]
fn wait_for(marker: u32, way: u32, flag: GlobalMut<u32>) {
    if thread::thread_idx_x() == marker {
        flag.mark(0, 1);
    } else if way == 0 {
        while flag.peek(0) == 0 {}
    } else {
        while flag.get(0) == 0 {}
    }
}

/// The first thread that finds 700 stops the search of the others.
#[kernel]
fn search(x: Global<u32>, found: GlobalMut<u32>) {
    let start = 1000 * thread::thread_idx_x() as usize;
    for i in start..start + 1000 {
        if found.peek(0) != 0 {
            break;
        }
        if x.get(i) == 700 {
            found.mark(0, 1);
        }
    }
}

#[test]
fn a_wait_by_plain_reads_never_ends() {
    for (schedule, marker) in [(Schedule::RoundRobin, 63), (Schedule::Reversed, 0), (Schedule::Interleaved(1), 63)] {
        let device = Emulator::new(schedule).step_limit(50_000);
        let mut flag = device.zeros(1).unwrap();
        // SAFETY: `flag` has one element.
        let fault = fault(unsafe { wait_for(&device, Shape::new(1, 64), marker, 0, &mut flag) });
        assert!(matches!(fault.kind, Kind::Spin { .. }), "{fault}");
        assert!(fault.to_string().contains(&format!("thread {marker} of block (0, 0, 0) has last written")), "{fault}");
        assert!(fault.hint.is_some_and(|hint| hint.contains("`atomic::load`")));
    }
}

#[test]
fn a_thread_that_waits_alone() {
    for way in [0, 1] {
        let device = Emulator::default().step_limit(50_000);
        let mut flag = device.zeros(1).unwrap();
        // SAFETY: `flag` has one element.
        let fault = fault(unsafe { wait_for(&device, Shape::new(1, 1), 1, way, &mut flag) });
        assert!(matches!(&fault.kind, Kind::Spin { waits, .. } if waits.len() == 1), "{fault}");
        assert!(fault.hint.is_some_and(|hint| hint.contains("`atomic::load`")));
    }
}

#[test]
fn a_search_that_a_plain_read_may_end_is_right() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule).step_limit(50_000);
        let x: Vec<u32> = (0..4000).map(|i| if i == 3100 { 700 } else { 0 }).collect();
        let (x, mut found) = (device.upload(&x).unwrap(), device.zeros(1).unwrap());
        // SAFETY: `x` has 1000 elements per thread, and `found` has one.
        unsafe { search(&device, Shape::new(1, 4), &x, &mut found) }.unwrap();
        assert_eq!(device.to_vec(&found).unwrap(), [1]);
    }
}
