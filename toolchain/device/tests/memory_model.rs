//! Atomic operations, scopes and orderings: what orders accesses, and what does not.

use atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, atomic, kernel, thread};
use warpkov_device::emulator::fault::{Fault, Kind};
use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
use warpkov_device::launch::{Device, Shape};
use warpkov_device::shared_array;

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

/// Threads of several blocks read `flag`, atomically and not.
#[kernel]
fn loads_of_all_blocks(flag: GlobalMut<u32>, out: GlobalMut<u32>) {
    let value = atomic::load((flag, 0), Ordering::Relaxed, Scope::Block);
    out.set(thread::index_1d(), value + flag.get(0));
}

#[kernel]
fn load_beside_a_store(flag: GlobalMut<u32>) {
    if thread::block_idx_x() == 0 {
        atomic::store((flag, 0), 1, Ordering::Relaxed, Scope::Device);
    } else {
        let _: u32 = atomic::load((flag, 0), Ordering::Relaxed, Scope::Block);
    }
}

#[test]
fn a_load_at_block_scope_is_a_read() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let (mut flag, mut out) = (device.zeros(1).unwrap(), device.zeros(64).unwrap());
        // SAFETY: `flag` has one element, `out` one per thread.
        unsafe { loads_of_all_blocks(&device, Shape::new(2, 32), &mut flag, &mut out) }.unwrap();
        // SAFETY: as above.
        assert_race(&fault(unsafe { load_beside_a_store(&device, Shape::new(2, 1), &mut flag) }));
    }
}

/// Block 0 passes `data` to block 1 by a release, which a relaxed store follows: of the same thread, or of block 2.
#[kernel]
fn store_after_release(same: u32, data: GlobalMut<u32>, flag: GlobalMut<u32>, out: GlobalMut<u32>) {
    let relaxed = |value| atomic::store((flag, 0), value, Ordering::Relaxed, Scope::Device);
    let wait = |value| while atomic::load::<u32>((flag, 0), Ordering::Relaxed, Scope::Device) != value {};
    match thread::block_idx_x() {
        0 => {
            data.set(0, 7);
            atomic::store((flag, 0), 1, Ordering::Release, Scope::Device);
            if same == 1 {
                relaxed(2);
            }
        }
        1 => {
            wait(2);
            let _: u32 = atomic::load((flag, 0), Ordering::Acquire, Scope::Device);
            out.set(0, data.get(0));
        }
        _ => {
            if same == 0 {
                wait(1);
                relaxed(2);
            }
        }
    }
}

#[test]
fn a_store_of_the_same_thread_continues_a_release() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let run = |same| {
            let (mut data, mut flag, mut out) = (device.zeros(1)?, device.zeros(1)?, device.zeros(1)?);
            // SAFETY: each buffer has one element.
            unsafe { store_after_release(&device, Shape::new(3, 1), same, &mut data, &mut flag, &mut out) }?;
            assert_eq!(device.to_vec(&out)?, [7]);
            Ok(())
        };
        run(1).unwrap();
        // The store of another thread ends it.
        assert_race(&fault(run(0)));
    }
}

/// Both threads read, one of them by an exchange that fails.
#[kernel]
fn failed_exchange(value: GlobalMut<u32>, expected: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x() as usize;
    if t == 0 {
        out.set(t, atomic::compare_exchange((value, 0), expected, 1, Ordering::AcqRel, Scope::Device));
    } else {
        out.set(t, value.get(0));
    }
}

#[test]
fn an_exchange_that_fails_is_a_read() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let (mut value, mut out) = (device.zeros(1).unwrap(), device.zeros(2).unwrap());
        // SAFETY: `value` has one element, `out` one per thread.
        unsafe { failed_exchange(&device, Shape::new(1, 2), &mut value, 5, &mut out) }.unwrap();
        // SAFETY: as above.
        assert_race(&fault(unsafe { failed_exchange(&device, Shape::new(1, 2), &mut value, 0, &mut out) }));
    }
}

/// Two blocks exclude each other by two flags, each of which its owner raises before it reads the other one. Only a
/// sequentially consistent fence would order the two.
#[kernel]
fn dekker(flags: GlobalMut<u32>, inside: GlobalMut<u32>) {
    let me = thread::block_idx_x() as usize;
    atomic::store((flags, me), 1, Ordering::Relaxed, Scope::Device);
    thread::fence();
    if atomic::load::<u32>((flags, 1 - me), Ordering::Relaxed, Scope::Device) == 0 {
        inside.set(0, me as u32);
    }
}

/// Block 0 passes a message to block 1.
#[kernel]
fn message(ordered: u32, message: GlobalMut<u32>, flag: GlobalMut<u32>, out: GlobalMut<u32>) {
    let (release, acquire) =
        if ordered == 1 { (Ordering::Release, Ordering::Acquire) } else { (Ordering::Relaxed, Ordering::Relaxed) };
    if thread::block_idx_x() == 0 {
        atomic::store((message, 0), 7, Ordering::Relaxed, Scope::Device);
        atomic::store((flag, 0), 1, release, Scope::Device);
    } else {
        while atomic::load::<u32>((flag, 0), acquire, Scope::Device) == 0 {}
        out.set(0, atomic::load((message, 0), Ordering::Relaxed, Scope::Device));
    }
}

fn run_message(device: &Emulator, ordered: u32) -> Result<u32, EmulatorError> {
    let (mut data, mut flag, mut out) = (device.zeros(1)?, device.zeros(1)?, device.zeros(1)?);
    // SAFETY: each buffer has one element.
    unsafe { message(device, Shape::new(2, 1), ordered, &mut data, &mut flag, &mut out) }?;
    Ok(device.to_vec(&out)?[0])
}

#[test]
fn loads_may_read_older_values() {
    let dekker = Emulator::explore(40, |device| {
        let (mut flags, mut inside) = (device.zeros(2)?, device.zeros(1)?);
        // SAFETY: `flags` has one element per block, `inside` has one.
        unsafe { dekker(device, Shape::new(2, 1), &mut flags, &mut inside) }
    });
    assert_race(&fault(dekker.map_err(|explored| explored.error)));
    let relaxed = |device: &Emulator| match run_message(device, 0) {
        Ok(7) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    assert_eq!(Emulator::explore(40, relaxed).unwrap_err().error, "Ok(0)");
    let ordered = |device: &Emulator| run_message(device, 1).map(|read| assert_eq!(read, 7));
    Emulator::explore(400, ordered).unwrap();
}

/// Releases to `count` flags, then stores to each again: the chain of each release goes on.
#[kernel]
fn chains(count: u32, data: GlobalMut<u32>, flags: GlobalMut<u32>, out: GlobalMut<u32>) {
    let count = count as usize;
    if thread::block_idx_x() == 0 {
        for k in 0..count {
            data.set(k, 7);
            atomic::store((flags, k), 1, Ordering::Release, Scope::Device);
        }
        for k in 0..count {
            atomic::store((flags, k), 2, Ordering::Relaxed, Scope::Device);
        }
        data.set(count, 7);
    } else {
        for k in 0..count {
            while atomic::load::<u32>((flags, k), Ordering::Acquire, Scope::Device) != 2 {}
            out.set(k, data.get(k));
        }
    }
}

#[test]
fn a_release_to_each_of_many_flags_is_passed_on() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let (mut data, mut flags, mut out) =
            (device.zeros(101).unwrap(), device.zeros(100).unwrap(), device.zeros(100).unwrap());
        // SAFETY: the buffers have an element per flag, `data` one more.
        unsafe { chains(&device, Shape::new(2, 1), 100, &mut data, &mut flags, &mut out) }.unwrap();
        assert_eq!(device.to_vec(&out).unwrap(), [7; 100]);
    }
}

/// A loop without an end, by the last thread's mark.
#[kernel]
fn peek_spins(way: u32, other: Global<u32>, flag: GlobalMut<u32>, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if t == 63 {
        flag.mark(0, 1);
    }
    if t != 0 {
        return;
    }
    match way {
        0 => {
            while flag.peek(0) == 0 {
                let _ = other.get(0);
            }
        }
        1 => {
            while flag.peek(0) == 0 {
                let _ = out.get(1);
            }
        }
        2 => {
            while flag.peek(0) == 0 {
                if flag.peek(0) == 1 {
                    break;
                }
            }
        }
        _ => {
            while flag.peek(0) == 0 {
                thread::fence();
            }
        }
    }
    out.set(0, 1);
}

#[test]
fn a_loop_of_peeks_that_also_reads_may_never_end() {
    for way in 0..4 {
        let device = Emulator::default().step_limit(200_000);
        let (other, mut flag, mut out) = (device.zeros(1).unwrap(), device.zeros(1).unwrap(), device.zeros(2).unwrap());
        // SAFETY: all indices are in bounds.
        let result = unsafe { peek_spins(&device, Shape::new(1, 64), way, &other, &mut flag, &mut out) };
        if way == 3 {
            result.unwrap();
        } else {
            let fault = fault(result);
            assert!(matches!(fault.kind, Kind::Spin { .. }), "{fault}");
        }
    }
}

#[kernel]
fn plain_spin(writer: u32, flag: GlobalMut<u32>) {
    if thread::thread_idx_x() == writer {
        flag.set(0, 1);
    } else {
        while flag.get(0) == 0 {}
    }
}

#[test]
fn a_race_of_a_loop_that_waits_names_the_atomic_load() {
    for schedule in SCHEDULES {
        for writer in [0, 63] {
            let device = Emulator::new(schedule);
            let mut flag = device.zeros(1).unwrap();
            // SAFETY: the index is in bounds.
            let fault = fault(unsafe { plain_spin(&device, Shape::new(1, 64), writer, &mut flag) });
            assert_race(&fault);
            assert!(fault.hint.as_ref().is_some_and(|hint| hint.contains("must read by `atomic::load`")), "{fault}");
        }
    }
}

/// A thread that waits alone, and does something else in each round.
#[kernel]
fn lone(way: u32, constant: Global<u32>, flag: GlobalMut<u32>) {
    match way {
        0 => {
            while atomic::load::<u32>((flag, 0), Ordering::Acquire, Scope::Device) == 0 {
                flag.set(1, 3);
            }
        }
        1 => {
            while atomic::load::<u32>((flag, 0), Ordering::Acquire, Scope::Device) == 0 {
                atomic::add((flag, 1), 1);
            }
        }
        _ => while constant.get(0) == 0 {},
    }
}

#[test]
fn a_lone_thread_that_waits_is_reported_with_what_it_reads() {
    for (way, array) in [(0, "flag"), (1, "flag"), (2, "constant")] {
        let device = Emulator::default().step_limit(100_000);
        let (constant, mut flag) = (device.zeros(1).unwrap(), device.zeros(2).unwrap());
        // SAFETY: all indices are in bounds.
        let fault = fault(unsafe { lone(&device, Shape::new(1, 1), way, &constant, &mut flag) });
        assert!(matches!(fault.kind, Kind::StepLimit { .. }), "{fault}");
        let read = format!("the thread reads {array}[0] in global memory, which no thread of this launch has written");
        assert!(fault.hint.as_ref().is_some_and(|hint| hint.starts_with(&read)), "{fault}");
    }
}

/// Each thread reads every element once.
#[kernel]
fn read_once(count: u32, x: GlobalMut<u32>, out: GlobalMut<u32>) {
    let mut sum = 0;
    for k in 0..count as usize {
        sum += x.get(k);
    }
    out.set(thread::thread_idx_x(), sum);
}

#[test]
fn threads_that_read_much_once_do_not_wait() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule).step_limit(50_000);
        let (mut x, mut out) = (device.zeros(20_000).unwrap(), device.zeros(32).unwrap());
        // SAFETY: `x` has 20000 elements, `out` one per thread.
        unsafe { read_once(&device, Shape::new(1, 32), 20_000, &mut x, &mut out) }.unwrap();
    }
}

/// Warp 0 passes a message to warp 1 through shared memory.
#[kernel]
fn shared_message(ordered: u32, out: GlobalMut<u32>) {
    let cells = shared_array!(memory_model_message: u32; 2);
    let t = thread::thread_idx_x();
    if t < 2 {
        cells.set(t, 0);
    }
    thread::sync_threads();
    let (release, acquire) =
        if ordered == 1 { (Ordering::Release, Ordering::Acquire) } else { (Ordering::Relaxed, Ordering::Relaxed) };
    if t == 0 {
        atomic::store((cells, 0), 7, Ordering::Relaxed, Scope::Block);
        atomic::store((cells, 1), 1, release, Scope::Block);
    } else if t == 32 {
        while atomic::load::<u32>((cells, 1), acquire, Scope::Block) == 0 {}
        out.set(0, atomic::load((cells, 0), Ordering::Relaxed, Scope::Block));
    }
}

#[test]
fn loads_of_shared_memory_may_read_older_values() {
    let run = |device: &Emulator, ordered| {
        let mut out = device.zeros(1).unwrap();
        // SAFETY: `out` has one element.
        unsafe { shared_message(device, Shape::new(1, 64), ordered, &mut out) }.unwrap();
        match device.to_vec(&out).unwrap()[0] {
            7 => Ok(()),
            other => Err(other.to_string()),
        }
    };
    assert_eq!(Emulator::explore(40, |device| run(device, 0)).unwrap_err().error, "0");
    Emulator::explore(400, |device| run(device, 1)).unwrap();
}

/// A compare-exchange of one thread, which fails unless `expected` is 0, beside plain reads of the others.
#[kernel]
fn shared_exchange(expected: u32, out: GlobalMut<u32>) {
    let cell = shared_array!(memory_model_exchange: u32; 1);
    let t = thread::thread_idx_x();
    if t == 0 {
        cell.set(0, 0);
    }
    thread::sync_threads();
    let old = if t == 5 {
        atomic::compare_exchange((cell, 0), expected, 1, Ordering::AcqRel, Scope::Block)
    } else {
        cell.get(0)
    };
    out.set(t, old);
}

#[test]
fn a_failed_exchange_of_shared_memory_is_a_read() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let mut out = device.zeros(64).unwrap();
        // SAFETY: `out` has one element per thread.
        let mut launch = |expected| unsafe { shared_exchange(&device, Shape::new(1, 64), expected, &mut out) };
        launch(5).unwrap();
        assert_race(&fault(launch(0)));
    }
}

/// Each of two threads of different blocks writes its flag and reads that of the other one.
#[kernel]
fn store_buffering(way: u32, flags: GlobalMut<u32>, seen: GlobalMut<u32>) {
    let own = thread::block_idx_x() as usize;
    let order = if way == 1 { Ordering::SeqCst } else { Ordering::Relaxed };
    atomic::store((flags, own), 1, order, Scope::Device);
    match way {
        2 => atomic::fence(Ordering::SeqCst, Scope::Device),
        3 => atomic::fence(Ordering::AcqRel, Scope::Device),
        4 => atomic::fence(Ordering::SeqCst, Scope::Block),
        _ => {}
    }
    seen.set(own, atomic::load((flags, 1 - own), order, Scope::Device));
}

#[test]
fn sequentially_consistent_operations_have_one_order() {
    let run = |device: &Emulator, way| {
        let (mut flags, mut seen) = (device.zeros(2).unwrap(), device.zeros(2).unwrap());
        // SAFETY: both buffers have one element per block.
        unsafe { store_buffering(device, Shape::new(2, 1), way, &mut flags, &mut seen) }.unwrap();
        if device.to_vec(&seen).unwrap() == [0, 0] { Err("neither sees the other".to_owned()) } else { Ok(()) }
    };
    for way in [1, 2] {
        Emulator::explore(400, |device| run(device, way)).unwrap();
    }
    for way in [0, 3, 4] {
        assert!(Emulator::explore(400, |device| run(device, way)).is_err(), "way {way}");
    }
}

/// The first block passes a message to the second one by relaxed operations and fences.
#[kernel]
fn fenced_message(write: u32, read: u32, narrow: u32, data: GlobalMut<u32>, flag: GlobalMut<u32>) {
    let scope = if narrow == 1 { Scope::Block } else { Scope::Device };
    let order = |way| [Ordering::Relaxed, Ordering::Acquire, Ordering::Release, Ordering::SeqCst][way as usize];
    if thread::block_idx_x() == 0 {
        data.set(0, 7);
        atomic::fence(order(write), scope);
        atomic::store((flag, 0), 1, Ordering::Relaxed, Scope::Device);
    } else {
        while atomic::load((flag, 0), Ordering::Relaxed, Scope::Device) == 0 {}
        atomic::fence(order(read), scope);
        data.set(1, data.get(0));
    }
}

#[test]
fn fences_have_an_order_and_a_scope() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let launch = |write, read, narrow| {
            let (mut data, mut flag) = (device.zeros(2).unwrap(), device.zeros(1).unwrap());
            // SAFETY: `data` has two elements, `flag` one.
            unsafe { fenced_message(&device, Shape::new(2, 1), write, read, narrow, &mut data, &mut flag) }
        };
        for (write, read) in [(2, 1), (3, 3), (2, 3)] {
            launch(write, read, 0).unwrap();
            assert_race(&fault(launch(write, read, 1)));
        }
        for (write, read) in [(1, 1), (2, 2), (0, 1), (2, 0)] {
            assert_race(&fault(launch(write, read, 0)));
        }
    }
}

/// [`fenced_message`] between two threads of one block, in shared memory.
#[kernel]
fn fenced_in_block(write: u32, out: GlobalMut<u32>) {
    let cells = shared_array!(memory_model_fenced: u32; 2);
    let t = thread::thread_idx_x();
    if t == 0 {
        cells.set(1, 0);
    }
    thread::sync_threads();
    if t == 0 {
        cells.set(0, 7);
        atomic::fence(if write == 1 { Ordering::Release } else { Ordering::Acquire }, Scope::Block);
        atomic::store((cells, 1), 1, Ordering::Relaxed, Scope::Block);
    } else if t == 32 {
        while atomic::load((cells, 1), Ordering::Relaxed, Scope::Block) == 0 {}
        atomic::fence(Ordering::Acquire, Scope::Block);
        out.set(0, cells.get(0));
    }
}

#[test]
fn fences_at_block_scope_order_the_accesses_of_a_block() {
    for schedule in SCHEDULES {
        let device = Emulator::new(schedule);
        let mut out = device.zeros(1).unwrap();
        // SAFETY: `out` has one element.
        let mut launch = |write| unsafe { fenced_in_block(&device, Shape::new(1, 64), write, &mut out) };
        launch(1).unwrap();
        assert_race(&fault(launch(0)));
        assert_eq!(device.to_vec(&out).unwrap(), [7]);
    }
}
