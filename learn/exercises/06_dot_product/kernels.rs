//! Σ xᵢ·yᵢ on the GPU: each block sums its products, and a last block sums the blocks' sums.

use warpkov_device::device::{Global, GlobalMut, kernel, shared, thread, warp};

/// Threads of a block.
pub const THREADS: u32 = 256;

/// xᵢ·yᵢ, or 0 beyond the end.
fn product(i: usize, n: u32, x: Global<f32>, y: Global<f32>) -> f32 {
    if i < n as usize { x.get(i) * y.get(i) } else { 0.0 }
}

/// The sum of 256 products per block, by a tree in shared memory.
///
/// *Safety*: x and y have `n` elements, `partials` one per block; 1024 bytes of dynamic shared memory.
#[kernel]
pub fn dot_tree(n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
    let sums = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    sums.set(t, product(thread::index_1d() as usize, n, x, y));
    thread::sync_threads();
    // ANCHOR: part1
    // TODO: the sum is right, but too many warps take part, each with few lanes.
    let mut distance = 1;
    while distance < THREADS {
        if t.is_multiple_of(2 * distance) {
            sums.set(t, sums.get(t) + sums.get(t + distance));
        }
        thread::sync_threads();
        distance *= 2;
    }
    // ANCHOR_END: part1
    if t == 0 {
        partials.set(thread::block_idx_x(), sums.get(0));
    }
}

/// The sum of 256 products per block, by shuffles.
///
/// *Safety*: x and y have `n` elements, `partials` one per block; 1024 bytes of dynamic shared memory.
#[kernel]
pub fn dot_shuffle(n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
    let sums = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    let mut sum = product(thread::index_1d() as usize, n, x, y);
    // ANCHOR: part2
    // TODO: the lanes of a warp can pass their sums to each other without shared memory.
    sums.set(t, sum);
    thread::sync_threads();
    if warp::lane_id() == 0 {
        for lane in 1..warp::SIZE {
            sum += sums.get(t + lane);
        }
        sums.set(t, sum);
    }
    thread::sync_threads();
    if t == 0 {
        for other in 1..THREADS / warp::SIZE {
            sum += sums.get(warp::SIZE * other);
        }
    }
    // ANCHOR_END: part2
    if t == 0 {
        partials.set(thread::block_idx_x(), sum);
    }
}

/// Products that a thread of [`dot_block`] adds.
pub const PER_THREAD: u32 = 8;

/// The sum of 2048 products per block.
///
/// *Safety*: x and y have `n` elements, `partials` one per block; 1024 bytes of dynamic shared memory.
#[kernel]
pub fn dot_block(n: u32, x: Global<f32>, y: Global<f32>, partials: GlobalMut<f32>) {
    let sums = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    let first = thread::block_idx_x() as usize * (THREADS * PER_THREAD) as usize;
    let mut sum = 0.0;
    // ANCHOR: part3
    // TODO: neighbouring lanes load elements that are far apart, and one barrier is enough.
    for k in 0..PER_THREAD {
        sum += product(first + (t * PER_THREAD + k) as usize, n, x, y);
    }
    sums.set(t, sum);
    thread::sync_threads();
    if warp::warp_id() == 0 {
        for other in 1..THREADS / warp::SIZE {
            sum += sums.get(t + warp::SIZE * other);
        }
        sums.set(t, sum);
    }
    thread::sync_threads();
    if t == 0 {
        for lane in 1..warp::SIZE {
            sum += sums.get(lane);
        }
    }
    // ANCHOR_END: part3
    if t == 0 {
        partials.set(thread::block_idx_x(), sum);
    }
}

/// Threads of [`sum_partials`].
pub const LAST: u32 = 1024;

/// The sum of the blocks' sums, by one block: each thread adds some, then 32 threads add 32 each, then thread 0.
///
/// *Safety*: `partials` has `count` elements, `result` one; one block of 1024 threads, 4096 bytes of dynamic shared
/// memory.
#[kernel]
pub fn sum_partials(count: u32, partials: Global<f32>, result: GlobalMut<f32>) {
    let sums = shared::dynamic_shared_mem::<f32>();
    let t = thread::thread_idx_x();
    let mut sum = 0.0;
    let mut i = t;
    while i < count {
        sum += partials.get(i);
        i += LAST;
    }
    sums.set(t, sum);
    thread::sync_threads();
    if t < 32 {
        for k in 1..32 {
            sum += sums.get(t + 32 * k);
        }
        sums.set(t, sum);
    }
    thread::sync_threads();
    if t == 0 {
        for k in 1..32 {
            sum += sums.get(k);
        }
        result.set(0, sum);
    }
}
