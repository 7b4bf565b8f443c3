//! The kernels. One has the fault if its parameter `broken` is 1. The lines that the report may name end in the comment `!`.

use atomic::{AtomicNumber, Ordering, Scope};
use warpkov_device::device::half::F16;
use warpkov_device::device::mbarrier::{Mbarrier, fence_init};
use warpkov_device::device::wgmma::{self, Accumulator};
use warpkov_device::device::{
    Global, GlobalMut, GridGroup, TensorMap, atomic, bulk, cluster, copy, grid, kernel, shared, thread, warp,
};
use warpkov_device::shared_array;

// Races in global memory.

#[kernel]
pub fn histogram(broken: u32, x: Global<u32>, bins: GlobalMut<u32>) {
    let bin = x.get(thread::index_1d()) as usize % 8;
    if broken == 1 {
        bins.set(bin, bins.get(bin) + 1); // !
    } else {
        atomic::add((bins, bin), 1);
    }
}

#[kernel]
pub fn sum(broken: u32, x: Global<u32>, total: GlobalMut<u32>) {
    let value = x.get(thread::index_1d());
    if broken == 1 {
        let before = total.get(0); // !
        total.set(0, before + value); // !
    } else {
        atomic::add((total, 0), value);
    }
}

#[kernel]
pub fn largest(broken: u32, x: Global<u32>, best: GlobalMut<u32>) {
    let value = x.get(thread::index_1d());
    if broken == 0 {
        atomic::max((best, 0), value);
        return;
    }
    let before = best.get(0); // !
    if value > before {
        best.set(0, value); // !
    }
}

#[kernel]
pub fn neighbours(broken: u32, values: GlobalMut<u32>, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x() as usize;
    values.set(t, 7 * t as u32); // !
    if broken == 0 {
        thread::sync_threads();
    }
    out.set(t, values.get(63 - t)); // !
}

#[kernel]
pub fn other_blocks(broken: u32, values: GlobalMut<u32>, out: GlobalMut<u32>) {
    let (i, t) = (thread::index_1d() as usize, thread::thread_idx_x() as usize);
    values.set(i, i as u32); // !
    thread::sync_threads();
    let first = if broken == 1 { 0 } else { i - t };
    out.set(i, values.get(first + 31 - t)); // !
}

#[kernel]
pub fn reverse_in_place(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    let value = if broken == 1 { y.get(i) } else { x.get(i) }; // !
    y.set(127 - i, value); // !
}

#[kernel]
pub fn two_writers(broken: u32, out: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    out.set(if broken == 1 { i / 2 } else { i }, i as u32); // !
}

#[kernel]
pub fn halo(broken: u32, out: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    out.set(i, 1); // !
    // The last thread of each block also writes the first element of the next.
    if broken == 1 && thread::thread_idx_x() == 31 {
        out.set(i + 1, 1); // !
    }
}

#[kernel]
pub fn found(broken: u32, x: Global<u32>, flag: GlobalMut<u32>) {
    if x.get(thread::index_1d()) > 3 {
        if broken == 1 {
            flag.set(0, 1); // !
        } else {
            atomic::store((flag, 0), 1, Ordering::Relaxed, Scope::Device);
        }
    }
}

#[kernel]
pub fn marks(broken: u32, x: Global<u32>, flag: GlobalMut<u32>) {
    let value = x.get(thread::index_1d());
    if flag.peek(0) < 2 {
        flag.mark(0, if broken == 1 { value } else { 1 }); // !
    }
}

#[kernel]
pub fn count_and_read(broken: u32, count: GlobalMut<u32>, out: GlobalMut<u32>) {
    atomic::add((count, 0), 1); // !
    if broken == 0 {
        thread::sync_threads();
    }
    if thread::thread_idx_x() == 5 {
        out.set(0, count.get(0)); // !
    }
}

#[kernel]
pub fn third_reader(broken: u32, values: GlobalMut<u32>, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    // Threads 0, 33 and 66 read; thread 0's warp alone is ordered before the write.
    if t.is_multiple_of(33) {
        out.set(t, values.get(0)); // !
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

// Races in shared memory.

#[kernel]
pub fn reverse_block(broken: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let tile = shared_array!(tile: f32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, x.get(t)); // !
    if broken == 0 {
        thread::sync_threads();
    }
    y.set(t, tile.get(63 - t)); // !
}

#[kernel]
pub fn reuse_of_a_tile(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    let mut sum = 0;
    for part in 0..3 {
        tile.set(t, x.get(64 * part + t)); // !
        thread::sync_threads();
        sum += tile.get(63 - t); // !
        if broken == 0 {
            thread::sync_threads();
        }
    }
    y.set(t, sum);
}

#[kernel]
pub fn misplaced_barrier(broken: u32, out: GlobalMut<u32>) {
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
    out.set(t, value);
}

#[kernel]
pub fn tree(broken: u32, out: GlobalMut<u32>) {
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

#[kernel]
pub fn last_warp(broken: u32, out: GlobalMut<u32>) {
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

#[kernel]
pub fn warp_for_block(broken: u32, out: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t); // !
    if broken == 1 {
        warp::sync_warp(warp::FULL);
    } else {
        thread::sync_threads();
    }
    out.set(t, tile.get(t ^ 32)); // !
}

#[kernel]
pub fn shuffle_for_sync(broken: u32, out: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 32);
    let t = thread::thread_idx_x();
    tile.set(t, t); // !
    // A shuffle synchronises the lanes but does not order their memory accesses.
    let _ = warp::shuffle(warp::FULL, t, 0);
    if broken == 0 {
        warp::sync_warp(warp::FULL);
    }
    out.set(t, tile.get(t ^ 1)); // !
}

#[kernel]
pub fn shared_histogram(broken: u32, x: Global<u32>, bins: GlobalMut<u32>) {
    let local = shared_array!(local: u32; 8);
    let t = thread::thread_idx_x();
    if t < 8 {
        local.set(t, 0);
    }
    thread::sync_threads();
    let bin = x.get(thread::index_1d()) % 8;
    if broken == 1 {
        local.set(bin, local.get(bin) + 1); // !
    } else {
        u32::fetch_add((local, bin), 1, Ordering::Relaxed, Scope::Block);
    }
    thread::sync_threads();
    if t < 8 {
        atomic::add((bins, t), local.get(t));
    }
}

#[kernel]
pub fn counting_before_zeros(broken: u32, out: GlobalMut<u32>) {
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

#[kernel]
pub fn every_thread_writes(broken: u32, x: Global<u32>, out: GlobalMut<u32>) {
    let cell = shared_array!(cell: u32; 1);
    let t = thread::thread_idx_x();
    if broken == 1 || t == 0 {
        cell.set(0, x.get(0)); // !
    }
    thread::sync_threads();
    out.set(t, cell.get(0));
}

// Asynchronous copies.

#[kernel]
pub fn copy_without_wait(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.copy::<1>(t, x, t); // !
    copy::commit();
    if broken == 0 {
        copy::wait::<0>();
    }
    thread::sync_threads();
    y.set(t, tile.get(63 - t)); // !
}

#[kernel]
pub fn copy_without_barrier(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.copy::<1>(t, x, t); // !
    copy::commit();
    copy::wait::<0>();
    if broken == 0 {
        thread::sync_threads();
    }
    y.set(t, tile.get(63 - t)); // !
}

#[kernel]
pub fn pipeline_too_short(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let stages = shared_array!(stages: u32; 64);
    let (t, mut sum) = (thread::thread_idx_x(), 0);
    stages.copy::<1>(t, x, t); // !
    copy::commit();
    for part in 0..4 {
        if part < 3 {
            let next = part + 1;
            stages.copy::<1>(next % 2 * 32 + t, x, 32 * next + t); // !
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
    y.set(t, sum);
}

#[kernel]
pub fn misaligned_copy(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 128);
    let t = thread::thread_idx_x();
    tile.copy::<4>(4 * t, x, 4 * t + broken); // !
    copy::commit();
    copy::wait::<0>();
    y.set(t, tile.get(4 * t));
}

#[kernel]
pub fn overwritten_source(broken: u32, x: GlobalMut<u32>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.copy::<1>(t, x, t); // !
    copy::commit();
    if broken == 0 {
        copy::wait::<0>();
    }
    thread::sync_threads();
    x.set(63 - t as usize, 0); // !
    copy::wait::<0>();
    y.set(t, tile.get(t));
}

// Barriers and warp operations.

#[kernel]
pub fn early_return(broken: u32, n: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if broken == 1 && t >= n {
        return;
    }
    thread::sync_threads(); // !
    if t < n {
        out.set(t, t);
    }
}

#[kernel]
pub fn barrier_in_a_loop(broken: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let rounds = if broken == 1 { 1 + t / 32 } else { 2 };
    for _ in 0..rounds {
        thread::sync_threads(); // !
    }
    out.set(t, t);
}

#[kernel]
pub fn missing_lane(broken: u32, out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    if broken == 0 || lane != 7 {
        out.set(lane, warp::sum_u32(warp::FULL, lane)); // !
    }
}

#[kernel]
pub fn outside_of_the_mask(broken: u32, out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    let mask = if broken == 1 { 0xffff } else { warp::FULL };
    out.set(lane, warp::ballot(mask, lane > 3)); // !
}

#[kernel]
pub fn shuffle_from_outside(broken: u32, out: GlobalMut<u32>) {
    let lane = warp::lane_id();
    if lane < 16 {
        let distance = if broken == 1 { 4 } else { 0 };
        out.set(lane, warp::shuffle_down(0xffff, lane, distance)); // !
    }
}

// Bounds and alignment.

#[kernel]
pub fn off_by_one(broken: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i + broken as usize)); // !
}

#[kernel]
pub fn forgotten_guard(broken: u32, n: u32, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if broken == 1 || i < n as usize {
        y.set(i, 1.0); // !
    }
}

#[kernel]
pub fn beyond_a_tile(broken: u32, y: GlobalMut<f32>) {
    let tile = shared_array!(tile: f32; 32);
    let t = thread::thread_idx_x();
    tile.set(t, 1.0);
    warp::sync_warp(warp::FULL);
    y.set(t, tile.get(t + broken)); // !
}

#[kernel]
pub fn no_dynamic_memory(x: Global<f32>, y: GlobalMut<f32>) {
    let tile = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    tile.set(t, x.get(t)); // !
    thread::sync_threads();
    y.set(t, tile.get(t ^ 1));
}

#[kernel]
pub fn underflow(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let left = if broken == 1 { t - 1 } else { t.saturating_sub(1) };
    y.set(t, x.get(left));
}

#[kernel]
pub fn misaligned_read(broken: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    let four = x.skip(4 + broken as usize).get4(i); // !
    y.set(i, four[0] + four[1] + four[2] + four[3]);
}

#[kernel]
pub fn misaligned_pair(broken: u32, y: GlobalMut<f64>) {
    let tile = shared_array!(tile: f64; 66);
    let t = thread::thread_idx_x();
    tile.set(2 * t, 1.0);
    tile.set(2 * t + 1, 2.0);
    if t < 2 {
        tile.set(64 + t, 1.0);
    }
    warp::sync_warp(warp::FULL);
    let [a, b] = tile.get2_at(2 * t + broken); // !
    y.set(t, a + b);
}

// Memory without a value.

#[kernel]
pub fn unwritten_tile(broken: u32, y: GlobalMut<f32>) {
    let tile = shared_array!(tile: f32; 32);
    let t = thread::thread_idx_x();
    if broken == 0 || t != 5 {
        tile.set(t, 1.0);
    }
    thread::sync_threads();
    y.set(t, tile.get(t)); // !
}

#[kernel]
pub fn accumulate(x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    y.set(i, y.get(i) + x.get(i)); // !
}

#[kernel]
pub fn fill(n: u32, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        y.set(i, 1.0);
    }
}

#[kernel]
pub fn copy_all(x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i)); // !
}

// Communication between blocks.

/// The last block to arrive adds what all have written.
#[kernel]
pub fn last_block(missing: u32, part: GlobalMut<u32>, arrived: GlobalMut<u32>, total: GlobalMut<u32>) {
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
    part.set(block, block + 1); // !
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
            sum += part.get(block); // !
        }
        total.set(0, sum);
    }
}

/// Each block waits for the sum of the blocks before it.
#[kernel]
pub fn look_back(mode: u32, ticket: GlobalMut<u32>, ready: GlobalMut<u32>, prefix: GlobalMut<u32>) {
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

/// Look-back that polls the flag with plain reads.
#[kernel]
pub fn plain_flag(broken: u32, ready: GlobalMut<u32>, out: GlobalMut<u32>) {
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
        out.set(thread::block_idx_x(), 1);
    }
}

/// A barrier of the grid: the last block to arrive raises `gate`.
#[kernel]
pub fn grid_barrier(
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

/// A lock around an update.
#[kernel]
pub fn lock(broken: u32, cell: GlobalMut<u32>, value: GlobalMut<u32>) {
    if thread::thread_idx_x() == 0 {
        while atomic::compare_exchange((cell, 0), 0, 1, Ordering::Acquire, Scope::Device) != 0 {} // !
        value.set(0, value.get(0) + 1);
        if broken == 0 {
            atomic::store((cell, 0), 0, Ordering::Release, Scope::Device);
        }
    }
}

/// A lock that does not order the update: it releases nothing.
#[kernel]
pub fn relaxed_lock(broken: u32, lock: GlobalMut<u32>, value: GlobalMut<u32>) {
    let (acquire, release) =
        if broken == 1 { (Ordering::Relaxed, Ordering::Relaxed) } else { (Ordering::Acquire, Ordering::Release) };
    while atomic::compare_exchange((lock, 0), 0, 1, acquire, Scope::Device) != 0 {}
    value.set(0, value.get(0) + 1); // !
    atomic::store((lock, 0), 0, release, Scope::Device);
}

#[kernel]
pub fn narrow_counter(broken: u32, count: GlobalMut<u32>) {
    let scope = if broken == 1 { Scope::Block } else { Scope::Device };
    u32::fetch_add((count, 0), 1, Ordering::Relaxed, scope); // !
}

#[kernel]
pub fn endless(broken: u32, n: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let mut i = thread::thread_idx_x();
    while i < n {
        y.set(i, x.get(i)); // !
        i += if broken == 1 { 0 } else { thread::block_dim_x() };
    }
}

#[kernel]
pub fn shared_flag(broken: u32, out: GlobalMut<u32>) {
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
    out.set(t, 1);
}

// Cooperative launches.

#[kernel]
pub fn shift_blocks(broken: u32, grid: GridGroup, values: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    let value = values.get((i + 32) % 128); // !
    if broken == 0 {
        grid.sync();
    } else {
        thread::sync_threads();
    }
    values.set(i, value + 1); // !
}

#[kernel]
pub fn block_without_work(broken: u32, grid: GridGroup, n: u32, values: GlobalMut<u32>) {
    let i = thread::index_1d() as u32;
    if broken == 1 && thread::block_idx_x() * 32 >= n {
        return;
    }
    if i < n {
        values.set(i, i);
    }
    grid.sync(); // !
    if i < n {
        let value = values.get(n - 1 - i);
        values.set(n + i, value);
    }
}

// Clusters.

#[kernel(cluster = 2)]
pub fn read_neighbour(broken: u32, out: GlobalMut<u32>) {
    let part = shared_array!(part: u32; 32);
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    cluster::sync();
    part.set(t, i as u32); // !
    if broken == 0 {
        cluster::sync();
    } else {
        thread::sync_threads();
    }
    out.set(i, cluster::map(part, 1 - cluster::rank()).get(t)); // !
    cluster::sync();
}

#[kernel(cluster = 2)]
pub fn write_to_a_neighbour(broken: u32, out: GlobalMut<u32>) {
    let part = shared_array!(part: u32; 32);
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    if broken == 0 {
        cluster::sync();
    }
    cluster::map(part, 1 - cluster::rank()).set(t, i as u32); // !
    cluster::sync();
    out.set(i, part.get(t));
}

#[kernel(cluster = 2)]
pub fn leave_early(broken: u32, out: GlobalMut<u32>) {
    let part = shared_array!(part: u32; 32);
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    part.set(t, i as u32);
    cluster::sync();
    if cluster::rank() == 0 {
        out.set(i, cluster::map(part, 1).get(t)); // !
    }
    if broken == 0 {
        cluster::sync();
    }
}

#[kernel(cluster = 2)]
pub fn cluster_in_a_branch(broken: u32, out: GlobalMut<u32>) {
    out.set(thread::index_1d(), 1);
    if broken == 0 || cluster::rank() == 0 {
        cluster::sync(); // !
    }
}

// Bulk copies, and barriers that count their bytes.

#[kernel(sm = 90)]
pub fn bulk_read_early(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        fence_init();
    }
    thread::sync_threads();
    if t == 0 {
        full.arrive_expecting(256);
        bulk::load(tile, 0, x, 0, 64, full); // !
    }
    if broken == 0 {
        full.wait(0);
    } else {
        thread::sync_threads();
    }
    y.set(t, tile.get(t)); // !
}

#[kernel(sm = 90)]
pub fn bulk_phase(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        fence_init();
    }
    thread::sync_threads();
    for round in 0..2 {
        if t == 0 {
            full.arrive_expecting(256);
            bulk::load(tile, 0, x, 64 * round as usize, 64, full); // !
        }
        // In the second round, phase 0 has ended, and phase 1 runs.
        full.wait(if broken == 1 { 0 } else { round }); // !
        y.set(64 * round + t, tile.get(t)); // !
        thread::sync_threads();
    }
}

#[kernel(sm = 90)]
pub fn bulk_no_such_phase(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        fence_init();
        full.arrive_expecting(256);
        bulk::load(tile, 0, x, 0, 64, full);
    }
    thread::sync_threads();
    full.wait(0);
    if broken == 1 {
        full.wait(1); // !
    }
    y.set(t, tile.get(t));
}

#[kernel(sm = 90)]
pub fn bulk_bytes(expected: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        fence_init();
        full.arrive_expecting(expected);
        bulk::load(tile, 0, x, 0, 64, full);
    }
    thread::sync_threads();
    full.wait(0); // !
    y.set(t, tile.get(t));
}

#[kernel(sm = 90)]
pub fn bulk_size(count: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        fence_init();
        full.arrive_expecting(4 * count);
        bulk::load(tile, 0, x, 0, count, full); // !
    }
    thread::sync_threads();
    full.wait(0);
    if t < count {
        y.set(t, tile.get(t));
    }
}

#[kernel(sm = 90)]
pub fn bulk_place(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        fence_init();
        full.arrive_expecting(128);
        bulk::load(tile, 2 * broken, x, 0, 32, full); // !
    }
    thread::sync_threads();
    full.wait(0);
    if t < 32 {
        y.set(t, tile.get(t));
    }
}

#[kernel(sm = 90)]
pub fn bulk_unfenced_barrier(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        if broken == 0 {
            fence_init();
        }
        full.arrive_expecting(256);
        bulk::load(tile, 0, x, 0, 64, full); // !
    }
    thread::sync_threads();
    full.wait(0);
    y.set(t, tile.get(t));
}

#[kernel(sm = 90)]
pub fn bulk_unordered_barrier(broken: u32, y: GlobalMut<u32>) {
    let full = Mbarrier::at(shared_array!(full: u64; 1), 0);
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(64); // !
        fence_init();
    }
    if broken == 0 {
        thread::sync_threads();
    }
    full.arrive(); // !
    full.wait(0);
    y.set(t, t);
}

#[kernel(sm = 90)]
pub fn bulk_reuse(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    let t = thread::thread_idx_x();
    if t == 0 {
        full.init(1);
        fence_init();
    }
    thread::sync_threads();
    if t == 0 {
        full.arrive_expecting(256);
        bulk::load(tile, 0, x, 0, 64, full);
    }
    full.wait(0);
    y.set(t, tile.get(63 - t)); // !
    if broken == 0 {
        thread::sync_threads();
    }
    if t == 0 {
        full.arrive_expecting(256);
        bulk::load(tile, 0, x, 64, 64, full); // !
    }
    thread::sync_threads();
    full.wait(1);
    y.set(64 + t as usize, tile.get(t));
}

#[kernel(sm = 90)]
pub fn bulk_unawaited(broken: u32, x: Global<u32>) {
    let (tile, full) = (shared_array!(tile: u32; 64), Mbarrier::at(shared_array!(full: u64; 1), 0));
    if thread::thread_idx_x() == 0 {
        full.init(1);
        fence_init();
        full.arrive_expecting(256);
        bulk::load(tile, 0, x, 0, 64, full); // !
        if broken == 0 {
            full.wait(0);
        }
    }
}

#[kernel(sm = 90)]
pub fn bulk_unfenced(broken: u32, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t);
    if broken == 0 {
        bulk::fence();
    }
    thread::sync_threads();
    if t == 0 {
        bulk::store(y, 0, tile, 0, 64); // !
        bulk::commit();
        bulk::wait_read::<0>();
    }
}

#[kernel(sm = 90)]
pub fn bulk_overwrite(broken: u32, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    for round in 0..2 {
        tile.set(t, 64 * round + t); // !
        bulk::fence();
        thread::sync_threads();
        if t == 0 {
            bulk::store(y, 64 * round as usize, tile, 0, 64); // !
            bulk::commit();
            if broken == 0 {
                bulk::wait_read::<0>();
            }
        }
        thread::sync_threads();
    }
    if t == 0 {
        bulk::wait_read::<0>();
    }
}

#[kernel(sm = 90)]
pub fn bulk_leave(broken: u32, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t);
    bulk::fence();
    thread::sync_threads();
    if t == 0 {
        bulk::store(y, 0, tile, 0, 64); // !
        bulk::commit();
        if broken == 0 {
            bulk::wait_read::<0>();
        }
    }
}

#[kernel(sm = 90)]
pub fn bulk_result(broken: u32, y: GlobalMut<u32>, out: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 64);
    let t = thread::thread_idx_x();
    tile.set(t, t);
    bulk::fence();
    thread::sync_threads();
    if t == 0 {
        bulk::store(y, 0, tile, 0, 64); // !
        bulk::commit();
        if broken == 0 {
            bulk::wait::<0>();
        } else {
            bulk::wait_read::<0>();
        }
    }
    thread::sync_threads();
    out.set(t, y.get(t)); // !
}

#[kernel(sm = 90, cluster = 2)]
pub fn multicast(broken: u32, x: TensorMap<u32, 2>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 96).aligned::<128>();
    let (full, free) = (shared_array!(full: u64; 1), shared_array!(free: u64; 1));
    let (full, free) = (Mbarrier::at(full, 0), Mbarrier::at(free, 0));
    let (t, rank) = (thread::thread_idx_x(), cluster::rank());
    if t == 0 {
        full.init(1);
        free.init(2);
        fence_init();
    }
    if broken == 1 {
        thread::sync_threads();
    } else {
        cluster::sync();
    }
    for round in 0..2 {
        if t == 0 {
            full.arrive_expecting(256);
            if rank == 0 {
                match broken {
                    2 => {}
                    3 => free.wait((round + 1) % 2),
                    _ => free.wait_for_blocks((round + 1) % 2),
                }
                x.load_to_blocks(tile, 0, [0, 4 * round as i32], full, 0b11); // !
            }
        }
        full.wait(round % 2);
        y.set(64 * (2 * round + rank) + t, tile.get(63 - t)); // !
        thread::sync_threads();
        if t == 0 {
            free.arrive_at(0);
        }
    }
    cluster::sync();
}

#[kernel(sm = 90)]
pub fn tile_place(broken: u32, x: TensorMap<u32, 2>, y: GlobalMut<u32>) {
    let tile = shared_array!(tile: u32; 160).aligned::<128>();
    let (t, full) = (thread::thread_idx_x(), Mbarrier::at(shared_array!(full: u64; 1), 0));
    if t == 0 {
        full.init(1);
        fence_init();
        full.arrive_expecting(256);
        x.load(tile, 4 * (broken & 1), [-4 + (broken >> 1) as i32, 6], full); // !
    }
    thread::sync_threads();
    full.wait(0);
    y.set(t, tile.get(t));
}

// Products of warp groups.

#[kernel(sm = "90a")]
pub fn product_read_early(broken: u32, d: GlobalMut<f32>) {
    let tiles = shared::dynamic_shared_mem::<u32>().aligned::<1024>();
    let t = thread::thread_idx_x();
    for i in (t..3072).step_by(128) {
        // Each f16 is 1.
        tiles.set(i, 0x3c00_3c00);
    }
    bulk::fence();
    thread::sync_threads();
    let (a, b) = tiles.cast::<F16>().split(4096);
    let mut sums = Accumulator::<16>::zeros();
    sums.fence();
    sums.multiply(a, b);
    wgmma::commit();
    if broken == 0 {
        sums.wait::<0>();
    }
    sums.for_elements(|i, j, sum| d.set(32 * i + j, sum)); // !
    if broken == 1 {
        sums.wait::<0>();
    }
}

#[kernel(sm = "90a")]
pub fn product_overwritten(broken: u32, d: GlobalMut<f32>) {
    let tiles = shared::dynamic_shared_mem::<u32>().aligned::<1024>();
    let t = thread::thread_idx_x();
    let mut sums = Accumulator::<16>::zeros();
    for round in 0..2 {
        for i in (t..3072).step_by(128) {
            tiles.set(i, if round == 0 { 0x3c00_3c00 } else { 0 }); // !
        }
        bulk::fence();
        thread::sync_threads();
        let (a, b) = tiles.cast::<F16>().split(4096);
        sums.fence();
        sums.multiply(a, b); // !
        wgmma::commit();
        if broken == 0 {
            sums.wait::<0>();
        }
        thread::sync_threads();
    }
    sums.wait::<0>();
    sums.for_elements(|i, j, sum| d.set(32 * i + j, sum));
}

#[kernel(sm = "90a")]
pub fn product_without_fences(missing: u32, d: GlobalMut<f32>) {
    let tiles = shared::dynamic_shared_mem::<u32>().aligned::<1024>();
    let t = thread::thread_idx_x();
    for i in (t..3072).step_by(128) {
        tiles.set(i, 0x3c00_3c00);
    }
    if missing != 1 {
        bulk::fence();
    }
    thread::sync_threads();
    let (a, b) = tiles.cast::<F16>().split(4096);
    let mut sums = Accumulator::<16>::zeros();
    if missing != 2 {
        sums.fence();
    }
    sums.multiply(a, b); // !
    wgmma::commit();
    sums.wait::<0>();
    sums.for_elements(|i, j, sum| d.set(32 * i + j, sum));
}

// Overlapping launches.

#[kernel]
pub fn produce(x: GlobalMut<u32>) {
    grid::launch_dependents();
    let i = thread::index_1d() as usize;
    x.set(i, i as u32); // !
}

#[kernel]
pub fn consume(broken: u32, x: Global<u32>, y: GlobalMut<u32>) {
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

#[kernel]
pub fn read_late(x: Global<u32>, y: GlobalMut<u32>) {
    grid::launch_dependents();
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i)); // !
}

#[kernel]
pub fn overwrite(broken: u32, x: GlobalMut<u32>) {
    if broken == 0 {
        grid::wait();
    }
    x.set(thread::index_1d(), 0); // !
}

/// The launch before the previous one has ended only if the previous one waits before it lets the next begin.
#[kernel]
pub fn pass(broken: u32, y: GlobalMut<u32>) {
    if broken == 1 {
        grid::launch_dependents();
    }
    grid::wait();
    grid::launch_dependents();
    y.set(thread::index_1d(), 0);
}

#[kernel]
pub fn read_early(x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    let value = x.get(i); // !
    grid::wait();
    y.set(i, value);
}
