//! The counters, against counts by hand.

use atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, atomic, copy, kernel, shared, thread, warp};
use warpkov_device::emulator::profile::{Counts, KernelProfile, Operation, Profile};
use warpkov_device::emulator::{Emulator, Schedule};
use warpkov_device::launch::{Device, Shape};

/// The profile of a kernel's launches, and that of the device.
fn profile(name: &str, run: impl FnOnce(&Emulator)) -> (KernelProfile, Profile) {
    let device = Emulator::default().profiled();
    run(&device);
    let profile = device.profile();
    (profile.kernels[name].clone(), profile)
}

#[kernel]
fn strided(stride: u32, x: Global<f32>, y: GlobalMut<f64>) {
    let i = thread::index_1d() as usize;
    y.set(i, f64::from(x.get(stride as usize * i)));
}

#[test]
fn sectors_follow_the_stride() {
    for (stride, sectors) in [(0, 1), (1, 4), (2, 8), (4, 16), (8, 32), (100, 32)] {
        let (kernel, _) = profile("strided", |device| {
            let (x, mut y) = (device.zeros(64 * 100).unwrap(), device.zeros(64).unwrap());
            // SAFETY: the emulator checks every access.
            unsafe { strided(device, Shape::new(2, 32), stride, &x, &mut y) }.unwrap();
        });
        assert_eq!((kernel.launches, kernel.blocks, kernel.block_threads), (1, 2, 32));
        let loads = kernel.total(Operation::Load);
        assert_eq!((loads.requests, loads.sectors, loads.bytes), (2, 2 * sectors, 2 * 128), "stride {stride}");
        assert_eq!(loads.sectors_per_request(), sectors as f64);
        let stores = kernel.total(Operation::Store);
        assert_eq!((stores.requests, stores.sectors, stores.bytes, stores.partial), (2, 16, 512, 0));
    }
}

#[kernel]
fn by_four(x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < 24 {
        y.set4(i, x.get4(i));
    }
}

#[test]
fn vector_accesses_and_idle_lanes() {
    let (kernel, _) = profile("by_four", |device| {
        let (x, mut y) = (device.zeros(96).unwrap(), device.zeros(96).unwrap());
        // SAFETY: the emulator checks every access.
        unsafe { by_four(device, Shape::new(1, 32), &x, &mut y) }.unwrap();
    });
    let counts = Counts { requests: 1, lanes: 24, partial: 1, bytes: 384, sectors: 12, ..Counts::default() };
    assert_eq!(kernel.total(Operation::Load), counts);
    assert_eq!(kernel.total(Operation::Store), counts);
    // The lanes divide at the guard, before any request.
    assert_eq!(kernel.divergent_branches, 1);
}

/// 0: no branch divides lanes. 1: two sides that meet again. 2: one side only. 3: loops of one to three rounds.
#[kernel]
fn branches(mode: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let i = t as usize;
    let mut sum = x.get(i);
    if mode == 1 && t < 16 {
        sum += x.get(i + 1);
    } else if mode == 1 {
        sum *= x.get(i + 2);
    }
    if mode == 2 && t == 7 {
        sum += x.get(i + 3);
    }
    let rounds = if mode == 3 { 1 + t % 3 } else { 2 };
    for round in 0..rounds {
        sum += x.get(i + round as usize);
    }
    y.set(i, sum);
}

#[test]
fn divergent_branches_are_counted_whether_or_not_the_lanes_meet_again() {
    for (mode, expected) in [(0, 0), (1, 1), (2, 1), (3, 2)] {
        let (kernel, _) = profile("branches", |device| {
            let (x, mut y) = (device.zeros(40).unwrap(), device.zeros(32).unwrap());
            // SAFETY: the emulator checks every access.
            unsafe { branches(device, Shape::new(1, 32), mode, &x, &mut y) }.unwrap();
        });
        let by_line: u64 = kernel.lines.iter().map(|line| line.counts.branches).sum();
        assert_eq!((kernel.divergent_branches, by_line), (expected, expected), "mode {mode}");
        let stores = kernel.total(Operation::Store);
        assert_eq!((stores.requests, stores.partial), (1, 0), "the lanes meet again in mode {mode}");
    }
}

#[kernel]
fn banks(stride: u32, y: GlobalMut<f32>) {
    let tile = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    tile.set(t * stride, 1.0);
    y.set(t, tile.get(t * stride));
}

#[kernel]
fn wide_banks(stride: u32, y: GlobalMut<f64>) {
    let tile = shared::dynamic_shared_mem::<f64>();
    let t = thread::thread_idx_x();
    tile.set(t * stride, 1.0);
    y.set(t, tile.get(t * stride));
}

#[test]
fn bank_conflicts_follow_the_stride() {
    let shape = Shape::new(1, 32).with_shared(33 * 32 * 8);
    for (stride, conflicts) in [(1, 0), (2, 1), (4, 3), (32, 31), (33, 0), (16, 15), (17, 0)] {
        let (kernel, _) = profile("banks", |device| {
            let mut y = device.zeros(32).unwrap();
            // SAFETY: the emulator checks every access.
            unsafe { banks(device, shape, stride, &mut y) }.unwrap();
        });
        assert_eq!(kernel.total(Operation::SharedStore).bank_conflicts, conflicts, "stride {stride}");
        assert_eq!(kernel.total(Operation::SharedLoad).bank_conflicts, conflicts, "stride {stride}");
    }
    // A half of the warp at a time: each lane uses two banks.
    for (stride, conflicts) in [(1, 0), (2, 2), (16, 30), (17, 0)] {
        let (kernel, _) = profile("wide_banks", |device| {
            let mut y = device.zeros(32).unwrap();
            // SAFETY: the emulator checks every access.
            unsafe { wide_banks(device, shape, stride, &mut y) }.unwrap();
        });
        assert_eq!(kernel.total(Operation::SharedLoad).bank_conflicts, conflicts, "stride {stride}");
    }
}

#[kernel]
fn instructions(bins: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    u32::fetch_add((bins, (t % 3) as usize), 1, Ordering::Relaxed, Scope::Device);
    thread::sync_threads();
    let _ = warp::shuffle_down(warp::FULL, t, 1);
    let _ = warp::all(warp::FULL, t > 3);
    let _ = warp::sum_u32(warp::FULL, t);
    warp::sync_warp(warp::FULL);
    for _ in 0..3 {
        thread::fence();
    }
}

#[test]
fn instructions_of_each_kind_and_atomics_per_address() {
    let (kernel, profile) = profile("instructions", |device| {
        let mut bins = device.zeros(3).unwrap();
        // SAFETY: the emulator checks every access.
        unsafe { instructions(device, Shape::new(2, 64), &mut bins) }.unwrap();
    });
    let requests = |operation| kernel.total(operation).requests;
    for (operation, count) in [
        (Operation::Atomic, 4),
        (Operation::Barrier, 4),
        (Operation::Shuffle, 4),
        (Operation::Vote, 4),
        (Operation::Reduction, 4),
        (Operation::WarpSync, 4),
        (Operation::Fence, 12),
        (Operation::Load, 0),
    ] {
        assert_eq!(requests(operation), count, "{operation:?}");
    }
    assert_eq!(kernel.atomics_per_address, [44, 42, 42]);
    let svg = profile.svg();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("instructions: 1 launches"));
    assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    // 64 warps of 32 registers fill a multiprocessor; 128 registers halve twice.
    let occupancy = |registers| profile.clone().with_registers(|_| registers).kernels["instructions"].occupancy();
    assert_eq!([None, Some(32), Some(128)].map(occupancy), [None, Some(1.0), Some(0.25)]);
    assert!(profile.with_registers(|_| Some(128)).svg().contains("128 registers: occupancy 25 %"));
}

/// Block 0 does nothing, and in each other block the first warp does the work of all.
#[kernel]
fn uneven(x: Global<u32>, y: GlobalMut<u32>) {
    let (block, t) = (thread::block_idx_x(), thread::thread_idx_x());
    if block > 0 && t < 32 {
        for warp in 0..4 {
            let i = 128 * block + 32 * warp + t;
            y.set(i, x.get(i));
        }
    }
}

#[test]
fn busiest_blocks_and_warps() {
    let (kernel, _) = profile("uneven", |device| {
        let (x, mut y) = (device.zeros(384).unwrap(), device.zeros(384).unwrap());
        // SAFETY: the emulator checks every access.
        unsafe { uneven(device, Shape::new(3, 128), &x, &mut y) }.unwrap();
    });
    assert_eq!((kernel.blocks, kernel.busy_blocks, kernel.busy_warps), (3, 2, 8));
    assert_eq!((kernel.busiest_block, kernel.busiest_warp), (8, 8));
}

/// Waits for a copy before (`late` is 0) or after (1) it reads another element of shared memory.
#[kernel]
fn copies(late: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let tile = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    tile.set(32 + t, 1.0);
    tile.copy::<1>(t, x, t);
    copy::commit();
    if late == 0 {
        copy::wait::<0>();
    }
    let other = tile.get(32 + t);
    copy::wait::<0>();
    y.set(t, other + tile.get(t));
}

#[test]
fn accesses_while_copies_are_in_flight() {
    for (late, lanes) in [(0, 0), (1, 32)] {
        let (kernel, _) = profile("copies", |device| {
            let (x, mut y) = (device.zeros(32).unwrap(), device.zeros(32).unwrap());
            // SAFETY: the emulator checks every access.
            unsafe { copies(device, Shape::new(1, 32).with_shared(256), late, &x, &mut y) }.unwrap();
        });
        let loads = kernel.total(Operation::SharedLoad);
        assert_eq!((loads.lanes, loads.copying), (64, lanes));
    }
}

/// Each block adds one to the number of the block before it. Before it reads that, it writes into `early`.
#[kernel]
fn chain(early: GlobalMut<u32>, numbers: GlobalMut<u32>) {
    let block = thread::block_idx_x() as usize;
    atomic::store((early, block), 1, Ordering::Relaxed, Scope::Device);
    let mut before = 1;
    if block > 0 {
        while atomic::load((early, block - 1), Ordering::Relaxed, Scope::Device) == 0 {}
        before = atomic::load((numbers, block - 1), Ordering::Relaxed, Scope::Device);
        while before == 0 {
            before = atomic::load((numbers, block - 1), Ordering::Relaxed, Scope::Device);
        }
    }
    atomic::store((numbers, block), before + 1, Ordering::Relaxed, Scope::Device);
}

#[test]
fn youngest_first_lets_a_chain_of_blocks_wait() {
    let loads = |schedule| {
        let device = Emulator::new(schedule).profiled();
        let (mut early, mut numbers) = (device.zeros(20).unwrap(), device.zeros(20).unwrap());
        // SAFETY: the emulator checks every access.
        unsafe { chain(&device, Shape::new(20, 1), &mut early, &mut numbers) }.unwrap();
        assert!(device.to_vec(&numbers).unwrap().into_iter().eq(2..22));
        let profile = device.profile();
        let lines = profile.kernels["chain"].lines.iter().filter(|line| line.operation == Operation::Load);
        lines.map(|line| line.counts.requests).collect::<Vec<_>>()
    };
    assert_eq!(loads(Schedule::RoundRobin), [19, 19]);
    let [early, first, again] = loads(Schedule::YoungestFirst)[..] else { panic!("three lines have loads") };
    // What a block writes before its loads is there when the next one reads it.
    assert_eq!((early, first), (19, 19));
    assert!(again > 1000, "{again}");
}

#[test]
fn nothing_is_counted_unless_asked_for() {
    let device = Emulator::default();
    let mut bins = device.zeros(3).unwrap();
    // SAFETY: the emulator checks every access.
    unsafe { instructions(&device, Shape::new(2, 64), &mut bins) }.unwrap();
    assert!(device.profile().kernels.is_empty());
}
