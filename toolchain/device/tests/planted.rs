//! Kernels with planted faults: each is caught under every order of threads, in the right array and on the right lines;
//! each runs without a fault once it is mended.
//!
//! A kernel has the fault if its parameter `broken` is 1. The lines that the report may name end in the comment `!`.

use std::collections::BTreeSet;
use std::fmt::Write;

use atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, atomic, copy, grid, kernel, shared, thread, warp};
use warpkov_device::emulator::fault::{Fault, Kind, Place};
use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
use warpkov_device::launch::{Device, Shape};
use warpkov_device::shared_array;

type Launched = Result<(), EmulatorError>;

struct Planted {
    /// The mistake, as a title of the book.
    title: &'static str,
    kernel: &'static str,
    /// The start of the report.
    report: &'static str,
    /// The array; empty if the fault is of none.
    array: &'static str,
    /// Launches the kernel: with the fault if the number is 1.
    run: fn(&Emulator, u32) -> Launched,
}

macro_rules! launch {
    ($kernel:ident($device:expr, $shape:expr $(, $argument:expr)*)) => {
        // SAFETY: the emulator checks every access.
        unsafe { $kernel($device, $shape $(, $argument)*) }
    };
}

/// Checks a result of the mended kernel.
fn expect<T: PartialEq + std::fmt::Debug + warpkov_device::device::DeviceCopy>(
    device: &Emulator,
    buffer: &<Emulator as Device>::Buffer<T>,
    expected: impl Iterator<Item = T>,
) -> Launched {
    assert_eq!(device.to_vec(buffer)?, expected.collect::<Vec<T>>());
    Ok(())
}

// Races in global memory.

#[kernel]
fn histogram(broken: u32, x: Global<u32>, bins: GlobalMut<u32>) {
    let bin = x.get(thread::index_1d() as usize) as usize % 8;
    if broken == 1 {
        bins.set(bin, bins.get(bin) + 1); // !
    } else {
        atomic::add((bins, bin), 1);
    }
}

fn run_histogram(device: &Emulator, broken: u32) -> Launched {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut bins = device.zeros(8)?;
    launch!(histogram(device, Shape::new(2, 64), broken, &x, &mut bins))?;
    expect(device, &bins, [16_u32; 8].into_iter())
}

#[kernel]
fn sum(broken: u32, x: Global<u32>, total: GlobalMut<u32>) {
    let value = x.get(thread::index_1d() as usize);
    if broken == 1 {
        let before = total.get(0); // !
        total.set(0, before + value); // !
    } else {
        atomic::add((total, 0), value);
    }
}

fn run_sum(device: &Emulator, broken: u32) -> Launched {
    let (x, mut total) = (device.upload(&[2_u32; 96])?, device.zeros(1)?);
    launch!(sum(device, Shape::new(3, 32), broken, &x, &mut total))?;
    expect(device, &total, [192_u32].into_iter())
}

#[kernel]
fn largest(broken: u32, x: Global<u32>, best: GlobalMut<u32>) {
    let value = x.get(thread::index_1d() as usize);
    if broken == 0 {
        atomic::max((best, 0), value);
        return;
    }
    let before = best.get(0); // !
    if value > before {
        best.set(0, value); // !
    }
}

fn run_largest(device: &Emulator, broken: u32) -> Launched {
    let x = device.upload(&(0..64).map(|i| i * 37 % 64).collect::<Vec<u32>>())?;
    let mut best = device.zeros(1)?;
    launch!(largest(device, Shape::new(1, 64), broken, &x, &mut best))?;
    expect(device, &best, [63_u32].into_iter())
}

#[kernel]
fn neighbours(broken: u32, values: GlobalMut<u32>, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x() as usize;
    values.set(t, 7 * t as u32); // !
    if broken == 0 {
        thread::sync_threads();
    }
    out.set(t, values.get(63 - t)); // !
}

fn run_neighbours(device: &Emulator, broken: u32) -> Launched {
    let (mut values, mut out) = (device.zeros(64)?, device.zeros(64)?);
    launch!(neighbours(device, Shape::new(1, 64), broken, &mut values, &mut out))?;
    expect(device, &out, (0..64_u32).map(|t| 7 * (63 - t)))
}

#[kernel]
fn other_blocks(broken: u32, values: GlobalMut<u32>, out: GlobalMut<u32>) {
    let (i, t) = (thread::index_1d() as usize, thread::thread_idx_x() as usize);
    values.set(i, i as u32); // !
    thread::sync_threads();
    let first = if broken == 1 { 0 } else { i - t };
    out.set(i, values.get(first + 31 - t)); // !
}

fn run_other_blocks(device: &Emulator, broken: u32) -> Launched {
    let (mut values, mut out) = (device.zeros(96)?, device.zeros(96)?);
    launch!(other_blocks(device, Shape::new(3, 32), broken, &mut values, &mut out))
}

#[kernel]
fn reverse_in_place(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    let value = if broken == 1 { y.get(i) } else { x.get(i) }; // !
    y.set(127 - i, value); // !
}

fn run_reverse_in_place(device: &Emulator, broken: u32) -> Launched {
    let x: Vec<u32> = (0..128).collect();
    let (x, mut y) = (device.upload(&x)?, device.upload(&x)?);
    launch!(reverse_in_place(device, Shape::new(4, 32), broken, &x, &mut y))?;
    expect(device, &y, (0..128_u32).rev())
}

#[kernel]
fn two_writers(broken: u32, out: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    out.set(if broken == 1 { i / 2 } else { i }, i as u32); // !
}

fn run_two_writers(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(64)?;
    launch!(two_writers(device, Shape::new(2, 32), broken, &mut out))
}

#[kernel]
fn halo(broken: u32, out: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    out.set(i, 1); // !
    // The last thread of each block also writes the first element of the next.
    if broken == 1 && thread::thread_idx_x() == 31 {
        out.set(i + 1, 1); // !
    }
}

fn run_halo(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(65)?;
    launch!(halo(device, Shape::new(2, 32), broken, &mut out))
}

#[kernel]
fn found(broken: u32, x: Global<u32>, flag: GlobalMut<u32>) {
    if x.get(thread::index_1d() as usize) > 3 {
        if broken == 1 {
            flag.set(0, 1); // !
        } else {
            atomic::store((flag, 0), 1, Ordering::Relaxed, Scope::Device);
        }
    }
}

fn run_found(device: &Emulator, broken: u32) -> Launched {
    let (x, mut flag) = (device.upload(&[1_u32, 5, 2, 9].repeat(16))?, device.zeros(1)?);
    launch!(found(device, Shape::new(2, 32), broken, &x, &mut flag))?;
    expect(device, &flag, [1_u32].into_iter())
}

#[kernel]
fn marks(broken: u32, x: Global<u32>, flag: GlobalMut<u32>) {
    let value = x.get(thread::index_1d() as usize);
    if flag.peek(0) < 2 {
        flag.mark(0, if broken == 1 { value } else { 1 }); // !
    }
}

fn run_marks(device: &Emulator, broken: u32) -> Launched {
    let (x, mut flag) = (device.upload(&[1_u32, 0, 1, 0].repeat(16))?, device.zeros(1)?);
    launch!(marks(device, Shape::new(2, 32), broken, &x, &mut flag))?;
    expect(device, &flag, [1_u32].into_iter())
}

#[kernel]
fn count_and_read(broken: u32, count: GlobalMut<u32>, out: GlobalMut<u32>) {
    atomic::add((count, 0), 1); // !
    if broken == 0 {
        thread::sync_threads();
    }
    if thread::thread_idx_x() == 5 {
        out.set(0, count.get(0)); // !
    }
}

fn run_count_and_read(device: &Emulator, broken: u32) -> Launched {
    let (mut count, mut out) = (device.zeros(1)?, device.zeros(1)?);
    launch!(count_and_read(device, Shape::new(1, 64), broken, &mut count, &mut out))?;
    expect(device, &out, [64_u32].into_iter())
}

#[kernel]
fn third_reader(broken: u32, values: GlobalMut<u32>, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    // Threads 0, 33 and 66 read; thread 0's warp alone is ordered before the write.
    if t.is_multiple_of(33) {
        out.set(t as usize, values.get(0)); // !
    }
    if broken == 1 {
        warp::sync_warp(warp::FULL);
    } else {
        thread::sync_threads();
    }
    if t == 70 {
        values.set(0, 1); // !
    }
}

fn run_third_reader(device: &Emulator, broken: u32) -> Launched {
    let (mut values, mut out) = (device.zeros(1)?, device.zeros(96)?);
    launch!(third_reader(device, Shape::new(1, 96), broken, &mut values, &mut out))
}

// Races in shared memory.

#[kernel]
fn reverse_block(broken: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let tile = shared_array!(tile: f32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, x.get(t as usize)); // !
    if broken == 0 {
        thread::sync_threads();
    }
    y.set(t as usize, tile.get(63 - t)); // !
}

fn run_reverse_block(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.upload(&[1.5_f32; 64])?, device.zeros(64)?);
    launch!(reverse_block(device, Shape::new(1, 64), broken, &x, &mut y))
}

#[kernel]
fn reuse_of_a_tile(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    let mut sum = 0;
    for part in 0..3 {
        tile.set(t, x.get((64 * part + t) as usize)); // !
        thread::sync_threads();
        sum += tile.get(63 - t); // !
        if broken == 0 {
            thread::sync_threads();
        }
    }
    y.set(t as usize, sum);
}

fn run_reuse_of_a_tile(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.upload(&[2_u32; 192])?, device.zeros(64)?);
    launch!(reuse_of_a_tile(device, Shape::new(1, 64), broken, &x, &mut y))?;
    expect(device, &y, [6_u32; 64].into_iter())
}

#[kernel]
fn misplaced_barrier(broken: u32, out: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    if broken == 1 {
        thread::sync_threads();
    }
    tile.set(t, t); // !
    if broken == 0 {
        thread::sync_threads();
    }
    let value = tile.get((t + 40) % 64); // !
    thread::sync_threads();
    out.set(t as usize, value);
}

fn run_misplaced_barrier(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(64)?;
    launch!(misplaced_barrier(device, Shape::new(1, 64), broken, &mut out))
}

#[kernel]
fn tree(broken: u32, out: GlobalMut<u32>) {
    let sums = shared_array!(sums: u32; 128);
    let t = thread::thread_idx_x();
    sums.set(t, 1);
    thread::sync_threads();
    let mut half = 64;
    while half > 0 {
        if t < half {
            sums.set(t, sums.get(t) + sums.get(t + half)); // !
        }
        if broken == 0 {
            thread::sync_threads();
        }
        half /= 2;
    }
    if t == 0 {
        out.set(0, sums.get(0));
    }
}

fn run_tree(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(1)?;
    launch!(tree(device, Shape::new(1, 128), broken, &mut out))?;
    expect(device, &out, [128_u32].into_iter())
}

#[kernel]
fn last_warp(broken: u32, out: GlobalMut<u32>) {
    let sums = shared_array!(sums: u32; 64);
    let t = thread::thread_idx_x();
    sums.set(t, 1);
    sums.set(t + 32, 1);
    warp::sync_warp(warp::FULL);
    let mut half = 32;
    while half > 0 {
        // "The lanes of a warp run in step": not since Volta.
        let sum = sums.get(t) + sums.get(t + half); // !
        if broken == 0 {
            warp::sync_warp(warp::FULL);
        }
        sums.set(t, sum); // !
        if broken == 0 {
            warp::sync_warp(warp::FULL);
        }
        half /= 2;
    }
    if t == 0 {
        out.set(0, sums.get(0));
    }
}

fn run_last_warp(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(1)?;
    launch!(last_warp(device, Shape::new(1, 32), broken, &mut out))?;
    expect(device, &out, [64_u32].into_iter())
}

#[kernel]
fn warp_for_block(broken: u32, out: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t); // !
    if broken == 1 {
        warp::sync_warp(warp::FULL);
    } else {
        thread::sync_threads();
    }
    out.set(t as usize, tile.get(t ^ 32)); // !
}

fn run_warp_for_block(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(64)?;
    launch!(warp_for_block(device, Shape::new(1, 64), broken, &mut out))
}

#[kernel]
fn shuffle_for_sync(broken: u32, out: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 32);
    let t = thread::thread_idx_x();
    tile.set(t, t); // !
    // A shuffle synchronises the lanes but does not order their memory accesses.
    let _ = warp::shuffle(warp::FULL, t, 0);
    if broken == 0 {
        warp::sync_warp(warp::FULL);
    }
    out.set(t as usize, tile.get(t ^ 1)); // !
}

fn run_shuffle_for_sync(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(32)?;
    launch!(shuffle_for_sync(device, Shape::new(1, 32), broken, &mut out))
}

#[kernel]
fn shared_histogram(broken: u32, x: Global<u32>, bins: GlobalMut<u32>) {
    let local = shared_array!(local: u32; 8);
    let t = thread::thread_idx_x();
    if t < 8 {
        local.set(t, 0);
    }
    thread::sync_threads();
    let bin = x.get(thread::index_1d() as usize) % 8;
    if broken == 1 {
        local.set(bin, local.get(bin) + 1); // !
    } else {
        u32::fetch_add((local, bin), 1, Ordering::Relaxed, Scope::Block);
    }
    thread::sync_threads();
    if t < 8 {
        atomic::add((bins, t as usize), local.get(t));
    }
}

fn run_shared_histogram(device: &Emulator, broken: u32) -> Launched {
    let x = device.upload(&(0..128).collect::<Vec<u32>>())?;
    let mut bins = device.zeros(8)?;
    launch!(shared_histogram(device, Shape::new(2, 64), broken, &x, &mut bins))?;
    expect(device, &bins, [16_u32; 8].into_iter())
}

#[kernel]
fn counting_before_zeros(broken: u32, out: GlobalMut<u32>) {
    let count = shared_array!(count: u32; 1);
    if thread::thread_idx_x() == 40 {
        count.set(0, 0); // !
    }
    if broken == 0 {
        thread::sync_threads();
    }
    atomic::add((count, 0), 1); // !
    thread::sync_threads();
    if thread::thread_idx_x() == 0 {
        out.set(0, count.get(0));
    }
}

fn run_counting_before_zeros(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(1)?;
    launch!(counting_before_zeros(device, Shape::new(1, 64), broken, &mut out))?;
    expect(device, &out, [64_u32].into_iter())
}

#[kernel]
fn every_thread_writes(broken: u32, x: Global<u32>, out: GlobalMut<u32>) {
    let cell = shared_array!(cell: u32; 1);
    let t = thread::thread_idx_x();
    if broken == 1 || t == 0 {
        cell.set(0, x.get(0)); // !
    }
    thread::sync_threads();
    out.set(t as usize, cell.get(0));
}

fn run_every_thread_writes(device: &Emulator, broken: u32) -> Launched {
    let (x, mut out) = (device.upload(&[3_u32])?, device.zeros(64)?);
    launch!(every_thread_writes(device, Shape::new(1, 64), broken, &x, &mut out))
}

// Asynchronous copies.

#[kernel]
fn copy_without_wait(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.copy::<1>(t, x, t as usize); // !
    copy::commit();
    if broken == 0 {
        copy::wait::<0>();
    }
    thread::sync_threads();
    y.set(t as usize, tile.get(63 - t)); // !
}

fn run_copy_without_wait(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.upload(&[4_u32; 64])?, device.zeros(64)?);
    launch!(copy_without_wait(device, Shape::new(1, 64), broken, &x, &mut y))
}

#[kernel]
fn copy_without_barrier(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.copy::<1>(t, x, t as usize); // !
    copy::commit();
    copy::wait::<0>();
    if broken == 0 {
        thread::sync_threads();
    }
    y.set(t as usize, tile.get(63 - t)); // !
}

fn run_copy_without_barrier(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.upload(&[4_u32; 64])?, device.zeros(64)?);
    launch!(copy_without_barrier(device, Shape::new(1, 64), broken, &x, &mut y))
}

#[kernel]
fn pipeline_too_short(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let stages = shared_array!(stages: u32; 64);
    let (t, mut sum) = (thread::thread_idx_x(), 0);
    stages.copy::<1>(t, x, t as usize); // !
    copy::commit();
    for part in 0..4 {
        if part < 3 {
            let next = part + 1;
            stages.copy::<1>(next % 2 * 32 + t, x, (32 * next + t) as usize); // !
        }
        copy::commit();
        // One group may be in flight, not two.
        if broken == 1 {
            copy::wait::<2>();
        } else {
            copy::wait::<1>();
        }
        sum += stages.get(part % 2 * 32 + t); // !
    }
    y.set(t as usize, sum);
}

fn run_pipeline_too_short(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.upload(&[4_u32; 128])?, device.zeros(32)?);
    launch!(pipeline_too_short(device, Shape::new(1, 32), broken, &x, &mut y))?;
    expect(device, &y, [16_u32; 32].into_iter())
}

// Barriers and warp operations.

#[kernel]
fn early_return(broken: u32, n: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if broken == 1 && t >= n {
        return;
    }
    thread::sync_threads(); // !
    if t < n {
        out.set(t as usize, t);
    }
}

fn run_early_return(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(40)?;
    launch!(early_return(device, Shape::new(1, 64), broken, 40, &mut out))
}

#[kernel]
fn barrier_in_a_branch(broken: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if broken == 0 {
        thread::sync_threads();
    } else if t < 32 {
        thread::sync_threads(); // !
    } else {
        thread::sync_threads_count(true); // !
    }
    out.set(t as usize, t);
}

fn run_barrier_in_a_branch(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(64)?;
    launch!(barrier_in_a_branch(device, Shape::new(1, 64), broken, &mut out))
}

#[kernel]
fn barrier_in_a_loop(broken: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let rounds = if broken == 1 { 1 + t / 32 } else { 2 };
    for _ in 0..rounds {
        thread::sync_threads(); // !
    }
    out.set(t as usize, t);
}

fn run_barrier_in_a_loop(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(64)?;
    launch!(barrier_in_a_loop(device, Shape::new(1, 64), broken, &mut out))
}

#[kernel]
fn missing_lane(broken: u32, out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    if broken == 0 || lane != 7 {
        out.set(lane as usize, warp::sum_u32(warp::FULL, lane)); // !
    }
}

fn run_missing_lane(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(32)?;
    launch!(missing_lane(device, Shape::new(1, 32), broken, &mut out))
}

#[kernel]
fn outside_of_the_mask(broken: u32, out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    let mask = if broken == 1 { 0xffff } else { warp::FULL };
    out.set(lane as usize, warp::ballot(mask, lane > 3)); // !
}

fn run_outside_of_the_mask(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(32)?;
    launch!(outside_of_the_mask(device, Shape::new(1, 32), broken, &mut out))
}

#[kernel]
fn shuffle_from_outside(broken: u32, out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    if lane < 16 {
        let distance = if broken == 1 { 4 } else { 0 };
        out.set(lane as usize, warp::shuffle_down(0xffff, lane, distance)); // !
    }
}

fn run_shuffle_from_outside(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(32)?;
    launch!(shuffle_from_outside(device, Shape::new(1, 32), broken, &mut out))
}

// Bounds and alignment.

#[kernel]
fn off_by_one(broken: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i + broken as usize)); // !
}

fn run_off_by_one(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.zeros(64)?, device.zeros(64)?);
    launch!(off_by_one(device, Shape::new(2, 32), broken, &x, &mut y))
}

#[kernel]
fn forgotten_guard(broken: u32, n: u32, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if broken == 1 || i < n as usize {
        y.set(i, 1.0); // !
    }
}

fn run_forgotten_guard(device: &Emulator, broken: u32) -> Launched {
    let mut y = device.zeros(100)?;
    launch!(forgotten_guard(device, Shape::cover(100, 64), broken, 100, &mut y))
}

#[kernel]
fn beyond_a_tile(broken: u32, y: GlobalMut<f32>) {
    let tile = shared_array!(tile: f32; 32);
    let t = thread::thread_idx_x();
    tile.set(t, 1.0);
    warp::sync_warp(warp::FULL);
    y.set(t as usize, tile.get(t + broken)); // !
}

fn run_beyond_a_tile(device: &Emulator, broken: u32) -> Launched {
    let mut y = device.zeros(32)?;
    launch!(beyond_a_tile(device, Shape::new(1, 32), broken, &mut y))
}

#[kernel]
fn no_dynamic_memory(x: Global<f32>, y: GlobalMut<f32>) {
    let tile = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    tile.set(t, x.get(t as usize)); // !
    thread::sync_threads();
    y.set(t as usize, tile.get(t ^ 1));
}

fn run_no_dynamic_memory(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.zeros(32)?, device.zeros(32)?);
    let shape = Shape::new(1, 32);
    launch!(no_dynamic_memory(device, if broken == 1 { shape } else { shape.with_shared(128) }, &x, &mut y))
}

#[kernel]
fn underflow(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let left = if broken == 1 { t - 1 } else { t.saturating_sub(1) };
    y.set(t as usize, x.get(left as usize));
}

fn run_underflow(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.zeros(32)?, device.zeros(32)?);
    launch!(underflow(device, Shape::new(1, 32), broken, &x, &mut y))
}

#[kernel]
fn misaligned_read(broken: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    let four = x.skip(4 + broken as usize).get4(i); // !
    y.set(i, four[0] + four[1] + four[2] + four[3]);
}

fn run_misaligned_read(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.zeros(140)?, device.zeros(32)?);
    launch!(misaligned_read(device, Shape::new(1, 32), broken, &x, &mut y))
}

#[kernel]
fn misaligned_pair(broken: u32, y: GlobalMut<f64>) {
    let tile = shared_array!(tile: f64; 66);
    let t = thread::thread_idx_x();
    tile.set(2 * t, 1.0);
    tile.set(2 * t + 1, 2.0);
    if t < 2 {
        tile.set(64 + t, 1.0);
    }
    warp::sync_warp(warp::FULL);
    let [a, b] = tile.get2(2 * t + broken); // !
    y.set(t as usize, a + b);
}

fn run_misaligned_pair(device: &Emulator, broken: u32) -> Launched {
    let mut y = device.zeros(32)?;
    launch!(misaligned_pair(device, Shape::new(1, 32), broken, &mut y))
}

// Memory without a value.

#[kernel]
fn unwritten_tile(broken: u32, y: GlobalMut<f32>) {
    let tile = shared_array!(tile: f32; 32);
    let t = thread::thread_idx_x();
    if broken == 0 || t != 5 {
        tile.set(t, 1.0);
    }
    thread::sync_threads();
    y.set(t as usize, tile.get(t)); // !
}

fn run_unwritten_tile(device: &Emulator, broken: u32) -> Launched {
    let mut y = device.zeros(32)?;
    launch!(unwritten_tile(device, Shape::new(1, 32), broken, &mut y))
}

#[kernel]
fn accumulate(x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    y.set(i, y.get(i) + x.get(i)); // !
}

fn run_accumulate(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.zeros(64)?, device.uninitialised(64)?);
    if broken == 0 {
        device.clear(&mut y)?;
    }
    launch!(accumulate(device, Shape::new(2, 32), &x, &mut y))
}

#[kernel]
fn fill(n: u32, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        y.set(i, 1.0);
    }
}

#[kernel]
fn copy_all(x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i)); // !
}

fn run_copy_all(device: &Emulator, broken: u32) -> Launched {
    let (mut x, mut y) = (device.uninitialised(64)?, device.zeros(64)?);
    launch!(fill(device, Shape::new(2, 32), 64 - broken, &mut x))?;
    launch!(copy_all(device, Shape::new(2, 32), &x, &mut y))
}

// Communication between blocks.

/// The last block to arrive adds what all have written.
#[kernel]
fn last_block(missing: u32, part: GlobalMut<u32>, arrived: GlobalMut<u32>, total: GlobalMut<u32>) {
    let (fence, order, scope) = match missing {
        0 => (true, Ordering::Relaxed, Scope::Device),
        1 => (false, Ordering::Acquire, Scope::Device),
        2 => (false, Ordering::Release, Scope::Device),
        3 => (false, Ordering::AcqRel, Scope::Block),
        _ => (false, Ordering::AcqRel, Scope::Device),
    };
    if thread::thread_idx_x() > 0 {
        return;
    }
    let block = thread::block_idx_x();
    part.set(block as usize, block + 1); // !
    if fence {
        thread::fence();
    }
    let before = u32::fetch_add((arrived, 0), 1, order, scope); // !
    if fence {
        thread::fence();
    }
    if before == thread::grid_dim_x() - 1 {
        let mut sum = 0;
        for block in 0..thread::grid_dim_x() {
            sum += part.get(block as usize); // !
        }
        total.set(0, sum);
    }
}

fn last_block_with(device: &Emulator, missing: u32) -> Launched {
    let (mut part, mut arrived, mut total) = (device.zeros(6)?, device.zeros(1)?, device.zeros(1)?);
    launch!(last_block(device, Shape::new(6, 32), missing, &mut part, &mut arrived, &mut total))?;
    expect(device, &total, [21_u32].into_iter())
}

/// Each block waits for the sum of the blocks before it.
#[kernel]
fn look_back(mode: u32, ticket: GlobalMut<u32>, ready: GlobalMut<u32>, prefix: GlobalMut<u32>) {
    if thread::thread_idx_x() > 0 {
        return;
    }
    let (release, acquire) = match mode {
        0 => (Ordering::Release, Ordering::Acquire),
        2 => (Ordering::Release, Ordering::Relaxed),
        3 => (Ordering::Relaxed, Ordering::Acquire),
        _ => (Ordering::Relaxed, Ordering::Relaxed),
    };
    let block = atomic::add((ticket, 0), 1) as usize;
    let mut sum = 1;
    if block > 0 {
        if mode == 4 {
            while ready.get(block - 1) == 0 {}
        } else {
            while atomic::load((ready, block - 1), acquire, Scope::Device) == 0 {}
        }
        sum += prefix.get(block - 1); // !
    }
    prefix.set(block, sum); // !
    if mode == 4 {
        ready.set(block, 1);
    } else {
        atomic::store((ready, block), 1, release, Scope::Device);
    }
}

fn look_back_with(device: &Emulator, mode: u32) -> Launched {
    let (mut ticket, mut ready, mut prefix) = (device.zeros(1)?, device.zeros(6)?, device.zeros(6)?);
    launch!(look_back(device, Shape::new(6, 32), mode, &mut ticket, &mut ready, &mut prefix))?;
    expect(device, &prefix, 1..7_u32)
}

/// Look-back that polls the flag with plain reads.
#[kernel]
fn plain_flag(broken: u32, ready: GlobalMut<u32>, out: GlobalMut<u32>) {
    if thread::thread_idx_x() == 0 {
        if thread::block_idx_x() == 0 {
            if broken == 1 {
                ready.set(0, 1); // !
            } else {
                atomic::store((ready, 0), 1, Ordering::Release, Scope::Device);
            }
        } else if broken == 1 {
            while ready.get(0) == 0 {} // !
        } else {
            while atomic::load((ready, 0), Ordering::Acquire, Scope::Device) == 0 {}
        }
        out.set(thread::block_idx_x() as usize, 1);
    }
}

fn run_plain_flag(device: &Emulator, broken: u32) -> Launched {
    let (mut ready, mut out) = (device.zeros(1)?, device.zeros(2)?);
    launch!(plain_flag(device, Shape::new(2, 32), broken, &mut ready, &mut out))
}

/// A barrier of the grid: the last block to arrive raises `gate`.
#[kernel]
fn grid_barrier(
    expected: u32,
    arrived: GlobalMut<u32>,
    gate: GlobalMut<u32>,
    part: GlobalMut<u32>,
    out: GlobalMut<u32>,
) {
    let (block, t) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    if t == 3 {
        part.set(block, block as u32);
    }
    thread::sync_threads();
    if t == 0 {
        if u32::fetch_add((arrived, 0), 1, Ordering::AcqRel, Scope::Device) == expected - 1 {
            atomic::store((gate, 0), 1, Ordering::Release, Scope::Device);
        }
        while atomic::load((gate, 0), Ordering::Acquire, Scope::Device) == 0 {} // !
    }
    thread::sync_threads();
    if t == 7 {
        out.set(block, part.get((block + 1) % thread::grid_dim_x() as usize));
    }
}

fn run_grid_barrier(device: &Emulator, broken: u32) -> Launched {
    let (mut arrived, mut gate) = (device.zeros(1)?, device.zeros(1)?);
    let (mut part, mut out) = (device.zeros(3)?, device.zeros(3)?);
    launch!(grid_barrier(device, Shape::new(3, 32), 3 + broken, &mut arrived, &mut gate, &mut part, &mut out))?;
    expect(device, &out, [1_u32, 2, 0].into_iter())
}

/// A barrier of the grid that needs more blocks than run at one time.
fn run_too_many_blocks(device: &Emulator, broken: u32) -> Launched {
    let blocks = if broken == 1 { 9 } else { 4 };
    let (mut arrived, mut gate) = (device.zeros(1)?, device.zeros(1)?);
    let (mut part, mut out) = (device.zeros(9)?, device.zeros(9)?);
    launch!(grid_barrier(device, Shape::new(blocks, 32), blocks, &mut arrived, &mut gate, &mut part, &mut out))
}

/// A lock around an update.
#[kernel]
fn lock(broken: u32, lock: GlobalMut<u32>, value: GlobalMut<u32>) {
    if thread::thread_idx_x() == 0 {
        while atomic::compare_exchange((lock, 0), 0, 1, Ordering::Acquire, Scope::Device) != 0 {} // !
        value.set(0, value.get(0) + 1);
        if broken == 0 {
            atomic::store((lock, 0), 0, Ordering::Release, Scope::Device);
        }
    }
}

fn run_lock(device: &Emulator, broken: u32) -> Launched {
    let (mut cell, mut value) = (device.zeros(1)?, device.zeros(1)?);
    launch!(lock(device, Shape::new(3, 32), broken, &mut cell, &mut value))?;
    expect(device, &value, [3_u32].into_iter())
}

/// A lock that does not order the update: it releases nothing.
#[kernel]
fn relaxed_lock(broken: u32, lock: GlobalMut<u32>, value: GlobalMut<u32>) {
    let (acquire, release) =
        if broken == 1 { (Ordering::Relaxed, Ordering::Relaxed) } else { (Ordering::Acquire, Ordering::Release) };
    while atomic::compare_exchange((lock, 0), 0, 1, acquire, Scope::Device) != 0 {}
    value.set(0, value.get(0) + 1); // !
    atomic::store((lock, 0), 0, release, Scope::Device);
}

fn run_relaxed_lock(device: &Emulator, broken: u32) -> Launched {
    let (mut cell, mut value) = (device.zeros(1)?, device.zeros(1)?);
    launch!(relaxed_lock(device, Shape::new(2, 8), broken, &mut cell, &mut value))?;
    expect(device, &value, [16_u32].into_iter())
}

#[kernel]
fn narrow_counter(broken: u32, count: GlobalMut<u32>) {
    let scope = if broken == 1 { Scope::Block } else { Scope::Device };
    u32::fetch_add((count, 0), 1, Ordering::Relaxed, scope); // !
}

fn run_narrow_counter(device: &Emulator, broken: u32) -> Launched {
    let mut count = device.zeros(1)?;
    launch!(narrow_counter(device, Shape::new(2, 32), broken, &mut count))
}

#[kernel]
fn endless(broken: u32, n: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let mut i = thread::thread_idx_x();
    while i < n {
        y.set(i as usize, x.get(i as usize)); // !
        i += if broken == 1 { 0 } else { thread::block_dim_x() };
    }
}

fn run_endless(device: &Emulator, broken: u32) -> Launched {
    let (x, mut y) = (device.zeros(100)?, device.zeros(100)?);
    launch!(endless(device, Shape::new(1, 32), broken, 100, &x, &mut y))
}

#[kernel]
fn shared_flag(broken: u32, out: GlobalMut<u32>) {
    let flag = shared_array!(flag: u32; 1);
    let t = thread::thread_idx_x();
    if t == 0 {
        flag.set(0, 0);
    }
    thread::sync_threads();
    if t == 40 && broken == 0 {
        atomic::store((flag, 0), 1, Ordering::Release, Scope::Block);
    }
    while atomic::load((flag, 0), Ordering::Acquire, Scope::Block) == 0 {} // !
    out.set(t as usize, 1);
}

fn run_shared_flag(device: &Emulator, broken: u32) -> Launched {
    let mut out = device.zeros(64)?;
    launch!(shared_flag(device, Shape::new(1, 64), broken, &mut out))
}

// Overlapping launches.

#[kernel]
fn produce(x: GlobalMut<u32>) {
    grid::launch_dependents();
    let i = thread::index_1d() as usize;
    x.set(i, i as u32); // !
}

#[kernel]
fn consume(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    if broken == 0 {
        grid::wait();
    }
    let value = x.get(i); // !
    if broken == 1 {
        grid::wait();
    }
    y.set(i, value + 1);
}

fn run_consume(device: &Emulator, broken: u32) -> Launched {
    let (mut x, mut y) = (device.zeros(64)?, device.zeros(64)?);
    launch!(produce(device, Shape::new(2, 32), &mut x))?;
    launch!(consume(device, Shape::new(2, 32).overlapping(), broken, &x, &mut y))?;
    expect(device, &y, 1..65_u32)
}

#[kernel]
fn read_late(x: Global<u32>, y: GlobalMut<u32>) {
    grid::launch_dependents();
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i)); // !
}

#[kernel]
fn overwrite(broken: u32, x: GlobalMut<u32>) {
    if broken == 0 {
        grid::wait();
    }
    x.set(thread::index_1d() as usize, 0); // !
}

fn run_overwrite(device: &Emulator, broken: u32) -> Launched {
    let (mut x, mut y) = (device.zeros(64)?, device.zeros(64)?);
    launch!(read_late(device, Shape::new(2, 32), &x, &mut y))?;
    launch!(overwrite(device, Shape::new(2, 32).overlapping(), broken, &mut x))
}

/// The launch before the previous one has ended only if the previous one waits before it lets the next begin.
#[kernel]
fn pass(broken: u32, y: GlobalMut<u32>) {
    if broken == 1 {
        grid::launch_dependents();
    }
    grid::wait();
    grid::launch_dependents();
    y.set(thread::index_1d() as usize, 0);
}

#[kernel]
fn read_early(x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    let value = x.get(i); // !
    grid::wait();
    y.set(i, value);
}

fn run_read_early(device: &Emulator, broken: u32) -> Launched {
    let (mut x, mut y, mut z) = (device.zeros(64)?, device.zeros(64)?, device.zeros(64)?);
    let shape = Shape::new(2, 32);
    launch!(produce(device, shape, &mut x))?;
    launch!(pass(device, shape.overlapping(), broken, &mut y))?;
    launch!(read_early(device, shape.overlapping(), &x, &mut z))?;
    expect(device, &z, 0..64_u32)
}

#[rustfmt::skip]
const PLANTED: &[Planted] = &[
    Planted { title: "A histogram without atomic operations", kernel: "histogram", report: "race", array: "bins", run: run_histogram },
    Planted { title: "A sum without atomic operations", kernel: "sum", report: "race", array: "total", run: run_sum },
    Planted { title: "A maximum without atomic operations", kernel: "largest", report: "race", array: "best", run: run_largest },
    Planted { title: "A missing barrier, in global memory", kernel: "neighbours", report: "race", array: "values", run: run_neighbours },
    Planted { title: "A barrier does not order blocks", kernel: "other_blocks", report: "race", array: "values", run: run_other_blocks },
    Planted { title: "In-place reversal", kernel: "reverse_in_place", report: "race", array: "y", run: run_reverse_in_place },
    Planted { title: "Two threads write one element", kernel: "two_writers", report: "race", array: "out", run: run_two_writers },
    Planted { title: "Overlapping halos of two blocks", kernel: "halo", report: "race", array: "out", run: run_halo },
    Planted { title: "Several threads set a flag", kernel: "found", report: "race", array: "flag", run: run_found },
    Planted { title: "Threads mark an element with different values", kernel: "marks", report: "race", array: "flag", run: run_marks },
    Planted { title: "A plain read beside atomic operations", kernel: "count_and_read", report: "race", array: "count", run: run_count_and_read },
    Planted { title: "One of three readers is not ordered", kernel: "third_reader", report: "race", array: "values", run: run_third_reader },
    Planted { title: "A missing first barrier, in shared memory", kernel: "reverse_block", report: "race", array: "tile", run: run_reverse_block },
    Planted { title: "A missing barrier before a tile is overwritten", kernel: "reuse_of_a_tile", report: "race", array: "tile", run: run_reuse_of_a_tile },
    Planted { title: "A misplaced barrier", kernel: "misplaced_barrier", report: "race", array: "tile", run: run_misplaced_barrier },
    Planted { title: "A tree reduction without barriers", kernel: "tree", report: "race", array: "sums", run: run_tree },
    Planted { title: "A warp that is expected to run in step", kernel: "last_warp", report: "race", array: "sums", run: run_last_warp },
    Planted { title: "sync_warp instead of sync_threads", kernel: "warp_for_block", report: "race", array: "tile", run: run_warp_for_block },
    Planted { title: "A shuffle instead of sync_warp", kernel: "shuffle_for_sync", report: "race", array: "tile", run: run_shuffle_for_sync },
    Planted { title: "A shared histogram without atomic operations", kernel: "shared_histogram", report: "race", array: "local", run: run_shared_histogram },
    Planted { title: "Counting before the counter is zero", kernel: "counting_before_zeros", report: "race", array: "count", run: run_counting_before_zeros },
    Planted { title: "Every thread writes the same value", kernel: "every_thread_writes", report: "race", array: "cell", run: run_every_thread_writes },
    Planted { title: "An asynchronous copy without wait", kernel: "copy_without_wait", report: "race", array: "tile", run: run_copy_without_wait },
    Planted { title: "An asynchronous copy without a barrier", kernel: "copy_without_barrier", report: "race", array: "tile", run: run_copy_without_barrier },
    Planted { title: "A pipeline with too few stages", kernel: "pipeline_too_short", report: "race", array: "stages", run: run_pipeline_too_short },
    Planted { title: "A return before a barrier", kernel: "early_return", report: "barrier divergence", array: "", run: run_early_return },
    Planted { title: "A barrier in each branch", kernel: "barrier_in_a_branch", report: "barrier divergence", array: "", run: run_barrier_in_a_branch },
    Planted { title: "A barrier in a loop of different lengths", kernel: "barrier_in_a_loop", report: "barrier divergence", array: "", run: run_barrier_in_a_loop },
    Planted { title: "A lane that does not take part", kernel: "missing_lane", report: "warp divergence", array: "", run: run_missing_lane },
    Planted { title: "A lane outside of its mask", kernel: "outside_of_the_mask", report: "lane ", array: "", run: run_outside_of_the_mask },
    Planted { title: "A shuffle from a lane outside of the mask", kernel: "shuffle_from_outside", report: "a shuffle", array: "", run: run_shuffle_from_outside },
    Planted { title: "An index off by one", kernel: "off_by_one", report: "out of bounds", array: "x", run: run_off_by_one },
    Planted { title: "A forgotten guard", kernel: "forgotten_guard", report: "out of bounds", array: "y", run: run_forgotten_guard },
    Planted { title: "An index beyond a shared array", kernel: "beyond_a_tile", report: "out of bounds", array: "tile", run: run_beyond_a_tile },
    Planted { title: "Forgotten dynamic shared memory", kernel: "no_dynamic_memory", report: "out of bounds", array: "dynamic_shared_mem", run: run_no_dynamic_memory },
    Planted { title: "An index below zero", kernel: "underflow", report: "panic", array: "", run: run_underflow },
    Planted { title: "A misaligned 16-byte read", kernel: "misaligned_read", report: "misaligned", array: "x", run: run_misaligned_read },
    Planted { title: "A misaligned pair in shared memory", kernel: "misaligned_pair", report: "misaligned", array: "tile", run: run_misaligned_pair },
    Planted { title: "Shared memory that nothing has written", kernel: "unwritten_tile", report: "read of", array: "tile", run: run_unwritten_tile },
    Planted { title: "A sum into memory that nothing has written", kernel: "accumulate", report: "read of", array: "y", run: run_accumulate },
    Planted { title: "An element that the launch before has left out", kernel: "copy_all", report: "read of", array: "x", run: run_copy_all },
    Planted { title: "A last-block sum that does not release", kernel: "last_block", report: "race", array: "part", run: |device, broken| last_block_with(device, if broken == 1 { 1 } else { 0 }) },
    Planted { title: "A last-block sum that does not acquire", kernel: "last_block", report: "race", array: "part", run: |device, broken| last_block_with(device, if broken == 1 { 2 } else { 4 }) },
    Planted { title: "A last-block sum at the scope of a block", kernel: "last_block", report: "race", array: "arrived", run: |device, broken| last_block_with(device, if broken == 1 { 3 } else { 4 }) },
    Planted { title: "A look-back without ordering", kernel: "look_back", report: "race", array: "prefix", run: look_back_with },
    Planted { title: "A look-back that does not acquire", kernel: "look_back", report: "race", array: "prefix", run: |device, broken| look_back_with(device, 2 * broken) },
    Planted { title: "A look-back that does not release", kernel: "look_back", report: "race", array: "prefix", run: |device, broken| look_back_with(device, 3 * broken) },
    Planted { title: "A flag without atomic operations", kernel: "plain_flag", report: "race", array: "ready", run: run_plain_flag },
    Planted { title: "A counter at the scope of a block", kernel: "narrow_counter", report: "race", array: "count", run: run_narrow_counter },
    Planted { title: "A lock without ordering", kernel: "relaxed_lock", report: "race", array: "value", run: run_relaxed_lock },
    Planted { title: "A grid barrier that waits for too many", kernel: "grid_barrier", report: "no thread can continue", array: "gate", run: run_grid_barrier },
    Planted { title: "A grid barrier of more blocks than run at one time", kernel: "grid_barrier", report: "no thread can continue", array: "gate", run: run_too_many_blocks },
    Planted { title: "A lock that is never released", kernel: "lock", report: "no thread can continue", array: "lock", run: run_lock },
    Planted { title: "A flag that nobody raises", kernel: "shared_flag", report: "no thread can continue", array: "flag", run: run_shared_flag },
    Planted { title: "A loop without an end", kernel: "endless", report: "50001 memory accesses", array: "", run: run_endless },
    Planted { title: "A read before the previous launch has written", kernel: "consume", report: "race", array: "x", run: run_consume },
    Planted { title: "A write before the previous launch has read", kernel: "overwrite", report: "race", array: "x", run: run_overwrite },
    Planted { title: "A read before the launch before the previous one has written", kernel: "read_early", report: "race", array: "x", run: run_read_early },
];

const SCHEDULES: [Schedule; 9] = [
    Schedule::RoundRobin,
    Schedule::Reversed,
    Schedule::Random(1),
    Schedule::Random(2),
    Schedule::Interleaved(1),
    Schedule::Interleaved(2),
    Schedule::Interleaved(3),
    Schedule::Interleaved(4),
    Schedule::Interleaved(5),
];

fn emulator(schedule: Schedule) -> Emulator {
    Emulator::new(schedule).step_limit(50_000)
}

/// The lines that a report of the kernel may name. The overlapping launches share those of the launch before.
fn lines_of(kernel: &str) -> BTreeSet<u32> {
    let source = include_str!("planted.rs");
    let mut lines = BTreeSet::new();
    let mut inside = false;
    let before: &[&str] = match kernel {
        "consume" | "read_early" => &["produce"],
        "overwrite" => &["read_late"],
        _ => &[],
    };
    for (number, line) in (1..).zip(source.lines()) {
        if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')).map(|(name, _)| name) {
            inside = name == kernel || before.contains(&name);
        }
        if inside && line.ends_with("// !") {
            lines.insert(number);
        }
    }
    lines
}

fn fault_of(planted: &Planted, schedule: Schedule) -> Fault {
    match (planted.run)(&emulator(schedule), 1) {
        Err(EmulatorError::Fault(fault)) => *fault,
        other => panic!("{}, {schedule:?}: expected a fault, got {other:?}", planted.title),
    }
}

fn place_of(kind: &Kind) -> Option<Place> {
    match *kind {
        Kind::Race { place, .. }
        | Kind::OutOfBounds { place, .. }
        | Kind::Misaligned { place, .. }
        | Kind::Uninitialised { place } => Some(place),
        _ => None,
    }
}

#[test]
fn every_planted_fault_is_caught_in_every_order() {
    assert!(PLANTED.len() >= 30);
    let mut wrong = String::new();
    for planted in PLANTED {
        let allowed = lines_of(planted.kernel);
        for schedule in SCHEDULES {
            let result = std::panic::catch_unwind(|| fault_of(planted, schedule));
            let Ok(fault) = result else {
                let _ = writeln!(wrong, "{}, {schedule:?}: no fault", planted.title);
                continue;
            };
            let sites = [fault.site, fault.earlier.as_ref().and_then(|earlier| earlier.site)];
            let lines: BTreeSet<u32> = sites.into_iter().flatten().map(|site| site.line()).collect();
            let right = fault.kind.to_string().starts_with(planted.report)
                && fault.kernel == planted.kernel
                && fault.kind.to_string().contains(planted.array)
                && place_of(&fault.kind).is_none_or(|place| place.array == planted.array)
                && lines.is_subset(&allowed)
                && lines.is_empty() == allowed.is_empty()
                && matches!(fault.kind, Kind::Race { .. }) == fault.earlier.is_some()
                && (fault.hint.is_some() || !fault.kind.to_string().starts_with("race"))
                && fault.to_string().contains(&format!("Schedule::{schedule:?}"));
            if !right {
                let _ = writeln!(wrong, "{}, {schedule:?}, lines {lines:?} of {allowed:?}: {fault}", planted.title);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_mended_kernel_has_a_fault_in_any_order() {
    for planted in PLANTED {
        for schedule in SCHEDULES.into_iter().chain((6..30).map(Schedule::Interleaved)) {
            if let Err(error) = (planted.run)(&emulator(schedule), 0) {
                panic!("{}, {schedule:?}: {error}", planted.title);
            }
        }
    }
}

#[test]
fn a_seed_repeats_a_fault() {
    for planted in PLANTED {
        for seed in 0..3 {
            let schedule = Schedule::Interleaved(seed);
            assert_eq!(fault_of(planted, schedule).to_string(), fault_of(planted, schedule).to_string());
        }
    }
}

/// The source of a kernel.
fn source_of(kernel: &str) -> &'static str {
    let source = include_str!("planted.rs");
    let name = source.find(&format!("\nfn {kernel}(")).expect("the kernel is in this file");
    let start = source[..name].rfind("#[kernel]").expect("it is a kernel");
    let end = name + source[name..].find("\n}\n").expect("it ends") + 3;
    &source[start..end]
}

/// The page of the book, from runs.
fn page() -> String {
    let mut page = String::from(PAGE);
    let mut shown = BTreeSet::new();
    for planted in PLANTED {
        let _ = write!(page, "\n## {}\n", planted.title);
        let others: &[&str] = match planted.kernel {
            "consume" => &["produce"],
            "overwrite" => &["read_late"],
            "copy_all" => &["fill"],
            "read_early" => &["pass"],
            _ => &[],
        };
        for kernel in others.iter().chain([&planted.kernel]) {
            if shown.insert(*kernel) {
                let _ = write!(page, "\n```rust\n{}```\n", source_of(kernel));
            } else {
                let _ = write!(page, "\nKernel `{kernel}`, as above.\n");
            }
        }
        let _ = write!(page, "\n```text\n{}\n```\n", fault_of(planted, Schedule::RoundRobin));
    }
    page
}

const PAGE: &str = "# What the emulator finds

Each section plants one fault in a small kernel and shows the report. The kernels have the fault if their parameter `broken`
(`missing`, `mode`) says so. The comment `!` marks the lines that a report may name. The file
[`planted.rs`](../toolchain/device/tests/planted.rs) holds the launches. Its tests run each kernel in ascending, descending, random and
interleaved order of threads: the fault is found in every order, and the mended kernel has none in any order.

Reports under `Schedule::RoundRobin`; the test writes this page with `WARPKOV_UPDATE_BOOK=1`.
";

#[test]
fn the_book_shows_every_fault() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/faults.md");
    let page = page();
    if std::env::var_os("WARPKOV_UPDATE_BOOK").is_some_and(|value| value == "1") {
        std::fs::write(path, &page).unwrap();
    }
    let shown = std::fs::read_to_string(path).unwrap_or_default();
    assert!(shown == page, "book/faults.md is out of date: WARPKOV_UPDATE_BOOK=1 writes it");
}
