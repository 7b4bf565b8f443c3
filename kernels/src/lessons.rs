//! One small kernel per primitive of the device library: how each is used, and what the test suite runs on every device.

use atomic::{AtomicInteger, AtomicNumber, Ordering, Scope};
use warpkov_device::device::{Global, GlobalMut, Real, atomic, block, kernel, math, mma, shared, thread, warp};
use warpkov_device::shared_array;

/// z = x + y: one thread per element, the first kernel of every course.
///
/// *Safety*: all three vectors have `n` elements.
#[kernel(T = [f32, f64])]
pub fn vector_add<T: Real>(n: u32, x: Global<T>, y: Global<T>, z: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        z.set(i, x.get(i) + y.get(i));
    }
}

/// The same with 16-byte accesses: four elements per thread.
///
/// *Safety*: all three vectors have `4 · quads` elements.
#[kernel(T = [f32, f64])]
pub fn vector_add4<T: Real>(quads: u32, x: Global<T>, y: Global<T>, z: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    if i < quads as usize {
        let (a, b) = (x.get4(i), y.get4(i));
        z.set4(i, [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]);
    }
}

/// y = x, by streaming loads that leave the caches to others.
///
/// *Safety*: both vectors have `n` elements.
#[kernel(T = [f32, f64])]
pub fn copy_streaming<T: Real>(n: u32, x: Global<T>, y: GlobalMut<T>) {
    let mut i = thread::index_1d() as usize;
    while i < n as usize {
        y.set(i, x.get_streaming(i));
        i += thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    }
}

/// Every index and dimension of each thread, twelve numbers per thread, in the order of x, y, z.
///
/// *Safety*: `out` has twelve elements per thread of the grid.
#[kernel]
pub fn indices(out: GlobalMut<u32>) {
    let block = thread::block_idx_x()
        + thread::grid_dim_x() * (thread::block_idx_y() + thread::grid_dim_y() * thread::block_idx_z());
    let first = 12 * (block * thread::block_size() + thread::index_in_block()) as usize;
    let numbers = [
        thread::thread_idx_x(),
        thread::thread_idx_y(),
        thread::thread_idx_z(),
        thread::block_idx_x(),
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::block_dim_x(),
        thread::block_dim_y(),
        thread::block_dim_z(),
        thread::grid_dim_x(),
        thread::grid_dim_y(),
        thread::grid_dim_z(),
    ];
    for (i, &number) in numbers.iter().enumerate() {
        out.set(first + i, number);
    }
}

/// Reverses each block's part of a vector through dynamic shared memory.
///
/// *Safety*: `x` and `y` have one element per thread of the grid. *Shared memory*: one element per thread, dynamic.
#[kernel(T = [f32, f64])]
pub fn reverse_blocks<T: Real>(x: Global<T>, y: GlobalMut<T>) {
    let tile = shared::dynamic_shared_mem::<T>();
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    tile.set(t, x.get(i));
    thread::sync_threads();
    y.set(i, tile.get(tile.len() - 1 - t));
}

/// The number of threads of the block with x > 0, and whether that is so for all, and for any: three per block.
///
/// *Safety*: `x` has one element per thread of the grid, `out` three per block.
#[kernel]
pub fn barrier_votes(x: Global<i32>, out: GlobalMut<u32>) {
    let positive = x.get(thread::index_1d() as usize) > 0;
    let count = thread::sync_threads_count(positive);
    let all = thread::sync_threads_and(positive);
    let any = thread::sync_threads_or(positive);
    if thread::thread_idx_x() == 0 {
        let first = 3 * thread::block_idx_x() as usize;
        out.set(first, count);
        out.set(first + 1, u32::from(all));
        out.set(first + 2, u32::from(any));
    }
}

/// The four shuffles of x: up, down, xor and from lane 5, four per thread.
///
/// *Safety*: `x` has one element per thread of the grid, `out` four.
#[kernel(T = [f32, f64])]
pub fn shuffles<T: Real>(x: Global<T>, out: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    let value = x.get(i);
    out.set(4 * i, warp::shuffle_up(warp::FULL, value, 3));
    out.set(4 * i + 1, warp::shuffle_down(warp::FULL, value, 3));
    out.set(4 * i + 2, warp::shuffle_xor(warp::FULL, value, 9));
    out.set(4 * i + 3, warp::shuffle(warp::FULL, value, 5));
}

/// Votes and integer reductions, by the even lanes among themselves and the odd ones among themselves.
///
/// Eight per thread: ballot of x > 0, all, any, lanes with the same x, Σx, max x, min x, and the sum again after a
/// [`sync_warp`](warp::sync_warp). *Safety*: `x` has one element per thread of the grid, `out` eight.
#[kernel]
pub fn partial_warps(x: Global<u32>, out: GlobalMut<u32>) {
    const EVEN: u32 = 0x5555_5555;
    let i = thread::index_1d() as usize;
    let value = x.get(i);
    let positive = value > 0;
    let numbers =
        if warp::lane_id().is_multiple_of(2) { among(EVEN, value, positive) } else { among(!EVEN, value, positive) };
    for (j, &number) in numbers.iter().enumerate() {
        out.set(8 * i + j, number);
    }
}

#[inline(always)]
fn among(mask: u32, value: u32, positive: bool) -> [u32; 8] {
    let ballot = warp::ballot(mask, positive);
    let (all, any) = (warp::all(mask, positive), warp::any(mask, positive));
    let same = warp::match_any(mask, value);
    let (sum, max, min) = (warp::sum_u32(mask, value), warp::max_u32(mask, value), warp::min_u32(mask, value));
    warp::sync_warp(mask);
    [ballot, u32::from(all), u32::from(any), same, sum, max, min, warp::sum_u32(mask, value)]
}

/// Warp scan, block scan and block sum of x: three per thread (the sum in the first warp only, 0 elsewhere).
///
/// *Safety*: `x` has one element per thread of the grid, `out` three; blocks have whole warps.
#[kernel(T = [f32, f64])]
pub fn scans<T: Real>(x: Global<T>, out: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    let value = x.get(i);
    let in_warp = warp::inclusive_scan(value, |a, b| a + b);
    let (in_block, _) = block::exclusive_scan(value, T::ZERO, |a, b| a + b);
    let sum = block::reduce(value, T::ZERO, |a, b| a + b);
    out.set(3 * i, in_warp);
    out.set(3 * i + 1, in_block);
    out.set(3 * i + 2, if warp::warp_id() == 0 { sum } else { T::ZERO });
}

/// A histogram of x mod 64: counted in shared memory by each block, then added up in global memory.
///
/// *Safety*: `x` has `n` elements, `bins` 64; blocks have 64 threads at least.
#[kernel]
pub fn histogram(n: u32, x: Global<u32>, bins: GlobalMut<u32>) {
    let local = shared_array!(histogram_bins: u32; 64);
    let t = thread::thread_idx_x();
    if t < 64 {
        local.set(t, 0);
    }
    thread::sync_threads();
    let i = thread::index_1d() as usize;
    if i < n as usize {
        u32::fetch_add((local, x.get(i) % 64), 1, Ordering::Relaxed, Scope::Block);
    }
    thread::sync_threads();
    if t < 64 {
        atomic::add((bins, t as usize), local.get(t));
    }
}

/// The other atomics, all threads on the same cells: sum, max, min, and, or of x; a count by compare-and-exchange; and
/// how many threads an exchange lets through.
///
/// *Safety*: `x` has one element per thread of the grid, `cells` seven.
#[kernel]
pub fn atomics(x: Global<i32>, cells: GlobalMut<i32>, flags: GlobalMut<u32>, sums: GlobalMut<f64>) {
    let value = x.get(thread::index_1d() as usize);
    i32::fetch_add((cells, 0), value, Ordering::AcqRel, Scope::Device);
    i32::fetch_max((cells, 1), value, Ordering::Release, Scope::Device);
    i32::fetch_min((cells, 2), value, Ordering::Acquire, Scope::System);
    i32::fetch_and((cells, 3), value, Ordering::Relaxed, Scope::Device);
    i32::fetch_or((cells, 4), value, Ordering::Relaxed, Scope::Device);
    // What a machine with only compare-and-exchange would do to count.
    let mut seen = 0;
    loop {
        let found = atomic::compare_exchange((flags, 0), seen, seen + 1, Ordering::AcqRel, Scope::Device);
        if found == seen {
            break;
        }
        seen = found;
    }
    if u32::fetch_replace((flags, 1), 1, Ordering::AcqRel, Scope::Device) == 0 {
        atomic::add((flags, 2), 1);
    }
    thread::fence();
    // A sum of small integers is exact in f64, whatever the order.
    atomic::add((sums, 0), f64::from(value));
}

/// D = A·B + C on the tensor core, A of 16 × 8, B of 8 × 8, C and D of 16 × 8, all row by row.
///
/// *Safety*: the launch has one warp; `a`, `c` and `d` have 128 elements, `b` 64.
#[kernel]
pub fn tensor_product(a: Global<f32>, b: Global<f32>, c: Global<f32>, d: GlobalMut<f32>) {
    let (g, t) = ((warp::lane_id() / 4) as usize, (warp::lane_id() % 4) as usize);
    let of_a = [8 * g + t, 8 * (g + 8) + t, 8 * g + t + 4, 8 * (g + 8) + t + 4].map(|place| a.get(place));
    let of_b = [8 * t + g, 8 * (t + 4) + g].map(|place| b.get(place));
    let places = [8 * g + 2 * t, 8 * g + 2 * t + 1, 8 * (g + 8) + 2 * t, 8 * (g + 8) + 2 * t + 1];
    let sums = mma::tf32_16x8x8(of_a, of_b, places.map(|place| c.get(place)));
    for (place, sum) in places.into_iter().zip(sums) {
        d.set(place, sum);
    }
}

/// D = A·B + C on the tensor core in f16, two factors in a word: A of 16 × 8 words by rows, B of 8 × 8 words by columns, C and
/// D of 16 × 8 by rows.
///
/// *Safety*: the launch has one warp; `a`, `c` and `d` have 128 elements, `b` 64.
#[kernel]
pub fn half_tensor_product(a: Global<u32>, b: Global<u32>, c: Global<f32>, d: GlobalMut<f32>) {
    let (g, t) = ((warp::lane_id() / 4) as usize, (warp::lane_id() % 4) as usize);
    let of_a = [8 * g + t, 8 * (g + 8) + t, 8 * g + t + 4, 8 * (g + 8) + t + 4].map(|place| a.get(place));
    let of_b = [8 * g + t, 8 * g + t + 4].map(|place| b.get(place));
    let places = [8 * g + 2 * t, 8 * g + 2 * t + 1, 8 * (g + 8) + 2 * t, 8 * (g + 8) + 2 * t + 1];
    let sums = mma::f16_16x8x16(of_a, of_b, places.map(|place| c.get(place)));
    for (place, sum) in places.into_iter().zip(sums) {
        d.set(place, sum);
    }
}

/// The same in f64.
///
/// *Safety*: as that of [`tensor_product`].
#[kernel]
pub fn wide_tensor_product(a: Global<f64>, b: Global<f64>, c: Global<f64>, d: GlobalMut<f64>) {
    let (g, t) = ((warp::lane_id() / 4) as usize, (warp::lane_id() % 4) as usize);
    let of_a = [8 * g + t, 8 * (g + 8) + t, 8 * g + t + 4, 8 * (g + 8) + t + 4].map(|place| a.get(place));
    let of_b = [8 * t + g, 8 * (t + 4) + g].map(|place| b.get(place));
    let places = [8 * g + 2 * t, 8 * g + 2 * t + 1, 8 * (g + 8) + 2 * t, 8 * (g + 8) + 2 * t + 1];
    let sums = mma::f64_16x8x8(of_a, of_b, places.map(|place| c.get(place)));
    for (place, sum) in places.into_iter().zip(sums) {
        d.set(place, sum);
    }
}

/// fma and the approximate functions of x: six per element.
///
/// *Safety*: `x` has `n` elements, `out` six each.
#[kernel]
pub fn special_functions(n: u32, x: Global<f32>, out: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        let value = x.get(i);
        out.set(6 * i, math::fma_f32(value, value, -1.0));
        out.set(6 * i + 1, math::exp2_approx(value));
        out.set(6 * i + 2, math::log2_approx(value));
        out.set(6 * i + 3, math::reciprocal_approx(value));
        out.set(6 * i + 4, math::rsqrt_approx(value));
        out.set(6 * i + 5, math::sqrt_approx(value));
    }
}
