//! Lessons: one small kernel per primitive of the device library. Each shows one primitive in use, and the test suite
//! runs all of them on every device. The first line of a kernel states its *mathematics*.

use atomic::{AtomicInteger, AtomicNumber, Ordering, Scope};
use warpkov_device::device::safe::{Atomics, In, Len, Out, PerBlock, PerThread};
use warpkov_device::device::{Global, GlobalMut, Real, atomic, block, kernel, math, mma, shared, thread, warp};
use warpkov_device::{shared_array, tile};

/// z = x + y: the first kernel of every course.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `z`.
///
/// *Launch*: ⌈n / B⌉ blocks or more of B threads in whole warps.
#[kernel(safe, T = [f32, f64])]
pub fn vector_add<'n, T: Real>(n: Len<'n>, x: In<'n, T>, y: In<'n, T>, z: Out<'n, T>) {
    if let Some(i) = n.element() {
        z.set(&i, x.get(&i) + y.get(&i));
    }
}

/// z = x + y with 16-byte accesses.
///
/// - *Thread mapping*: one thread per four consecutive elements.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `z`.
#[kernel(safe, T = [f32, f64], requires(shape.threads >= quads))]
pub fn vector_add4<'q, T: Real>(quads: Len<'q>, x: In<'q, [T; 4]>, y: In<'q, [T; 4]>, z: Out<'q, [T; 4]>) {
    if let Some(i) = quads.element() {
        let (a, b) = (x.get(&i), y.get(&i));
        z.set(&i, [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]);
    }
}

/// y = x by streaming loads, which do not evict other data from the caches.
///
/// - *Thread mapping*: a grid-stride loop over elements.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `y`.
#[kernel(safe, T = [f32, f64])]
pub fn copy_streaming<'n, T: Real>(n: Len<'n>, x: In<'n, T>, y: Out<'n, T>) {
    for i in n.elements() {
        y.set(&i, x.get_streaming(&i));
    }
}

/// All indices and dimensions of each thread: twelve numbers per thread, each triple in the order x, y, z.
///
/// - *Thread mapping*: every thread writes its own twelve numbers.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out`.
#[kernel(safe)]
pub fn indices(out: PerThread<[u32; 12]>) {
    out.set([
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
    ]);
}

/// Reverses each block's part of a vector through dynamic shared memory.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: one element of `T` per thread, dynamic. *Barriers*: one. *Deterministic*: yes.
/// - *Valid result in*: `y`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x`, `y` | threads of the grid | |
#[kernel(
    T = [f32, f64],
    requires(
        x.len() >= shape.threads,
        y.len() >= shape.threads,
        shape.shared == shape.block * size_of::<T>(),
        shape.dimensions == 1,
    )
)]
pub fn reverse_blocks<T: Real>(x: Global<T>, y: GlobalMut<T>) {
    let tile = shared::dynamic_shared_mem::<T>();
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    tile.set(t, x.get(i));
    thread::sync_threads();
    y.set(i, tile.get(tile.len() - 1 - t));
}

/// Transposes a matrix tile by tile through shared memory: yⱼᵢ = xᵢⱼ. Both global accesses are coalesced.
///
/// The lanes of a warp read one column of the tile. With `pitch` = 32 all its elements are in one bank, so the lanes wait
/// for each other; with 33 each is in a bank of its own.
///
/// - *Thread mapping*: one block per tile of 32 × 32, one thread per four elements of a column.
/// - *Shared memory*: 32 · `pitch` floats, dynamic. *Barriers*: one. *Deterministic*: yes. *Valid result in*: `y`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `pitch` | scalar | floats from one row of the tile to the next, 32 or more |
/// | `x`, `y` | (32 · grid x)² | |
#[kernel(
    requires(
        pitch >= 32,
        x.len() >= 1024 * shape.grid,
        y.len() >= 1024 * shape.grid,
        shape.grid.x == shape.grid.y,
        shape.block.x == 32,
        shape.block.y == 8,
        shape.shared >= 128 * pitch,
        shape.dimensions <= 2,
    )
)]
pub fn transpose(pitch: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let tile = shared::dynamic_shared_mem::<f32>();
    let (column, first) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (across, down) = (32 * thread::block_idx_x() as usize, 32 * thread::block_idx_y() as usize);
    let n = 32 * thread::grid_dim_x() as usize;
    for part in 0..4 {
        let row = first + 8 * part;
        tile.set(row * pitch + column, x.get((down + row as usize) * n + across + column as usize));
    }
    thread::sync_threads();
    for part in 0..4 {
        let row = first + 8 * part;
        y.set((across + row as usize) * n + down + column as usize, tile.get(column * pitch + row));
    }
}

/// Votes of a block on x > 0, three numbers per block: the count, 1 if true for all threads, 1 if true for any thread.
///
/// - *Thread mapping*: one thread per element. A thread without one votes no.
/// - *Shared memory*: none. *Barriers*: three. *Deterministic*: yes. *Valid result in*: `out`.
#[kernel(safe, requires(shape.threads >= n))]
pub fn barrier_votes<'n>(n: Len<'n>, x: In<'n, i32>, out: PerBlock<[u32; 3]>) {
    let positive = n.element().is_some_and(|i| x.get(&i) > 0);
    let count = thread::sync_threads_count(positive);
    let all = thread::sync_threads_and(positive);
    let any = thread::sync_threads_or(positive);
    out.set([count, u32::from(all), u32::from(any)]);
}

/// The four warp shuffles of x: up by 3, down by 3, xor 9, and from lane 5; four numbers per element.
///
/// - *Thread mapping*: one thread per element; all 32 lanes take part, those without an element with 0.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out`.
#[kernel(safe, T = [f32, f64], requires(shape.threads >= n))]
pub fn shuffles<'n, T: Real>(n: Len<'n>, x: In<'n, T>, out: Out<'n, [T; 4]>) {
    let own = n.element();
    let value = own.as_ref().map_or(T::ZERO, |i| x.get(i));
    let shuffled = [
        warp::shuffle_up(warp::FULL, value, 3),
        warp::shuffle_down(warp::FULL, value, 3),
        warp::shuffle_xor(warp::FULL, value, 9),
        warp::shuffle(warp::FULL, value, 5),
    ];
    if let Some(i) = own {
        out.set(&i, shuffled);
    }
}

/// Votes and integer reductions among the even lanes, and separately among the odd lanes.
///
/// Eight numbers per thread: the ballot of x > 0, all, any, the lanes with equal x, Σx, max x, min x, and Σx again
/// after a [`sync_warp`](warp::sync_warp).
///
/// - *Thread mapping*: one thread per element; 16 lanes of a warp take part in each operation.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | threads of the grid | the sum over a warp fits 32 bits |
/// | `out` | 8 × threads of the grid | |
#[kernel(
    requires(
        x.len() >= shape.threads,
        out.len() >= 8 * shape.threads,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
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

/// The eight numbers of [`partial_warps`] for a lane of `mask`.
///
/// *Takes part*: all lanes of `mask`.
#[inline(always)]
fn among(mask: u32, value: u32, positive: bool) -> [u32; 8] {
    let ballot = warp::ballot(mask, positive);
    let (all, any) = (warp::all(mask, positive), warp::any(mask, positive));
    let same = warp::match_any(mask, value);
    let (sum, max, min) = (warp::sum_u32(mask, value), warp::max_u32(mask, value), warp::min_u32(mask, value));
    warp::sync_warp(mask);
    [ballot, u32::from(all), u32::from(any), same, sum, max, min, warp::sum_u32(mask, value)]
}

/// Warp scan, block scan and block sum of x: three numbers per element. Threads outside the first warp get 0 for the
/// block sum.
///
/// - *Thread mapping*: one thread per element; a thread without one takes part with 0.
/// - *Shared memory*: 64 words, static. *Barriers*: four. *Deterministic*: yes. *Valid result in*: `out`.
#[kernel(safe, T = [f32, f64], requires(shape.threads >= n))]
pub fn scans<'n, T: Real>(n: Len<'n>, x: In<'n, T>, out: Out<'n, [T; 3]>) {
    let own = n.element();
    let value = own.as_ref().map_or(T::ZERO, |i| x.get(i));
    let in_warp = warp::inclusive_scan(value, |a, b| a + b);
    let (in_block, _) = block::exclusive_scan(value, T::ZERO, |a, b| a + b);
    let sum = block::reduce(value, T::ZERO, |a, b| a + b);
    if let Some(i) = own {
        out.set(&i, [in_warp, in_block, if warp::warp_id() == 0 { sum } else { T::ZERO }]);
    }
}

/// Histogram of x mod 64: each block counts in shared memory, then adds its counts to global memory.
///
/// - *Thread mapping*: one thread per element; then the threads of a block take turns with the bins.
/// - *Shared memory*: 64 words, static. *Barriers*: three. *Deterministic*: yes: integer sums.
/// - *Valid result in*: `bins`, after the launch: 64 counts, of at least as many numbers that are 0 before.
#[kernel(safe, requires(bins.len() >= 64, shape.threads >= n))]
pub fn histogram<'n>(n: Len<'n>, x: In<'n, u32>, bins: Atomics<u32>) {
    let mut tile = tile!(histogram_bins: u32; 64);
    let local = tile.sums(|local| {
        if let Some(i) = n.element() {
            local.add(x.get(&i) % 64, 1);
        }
    });
    let mut bin = thread::thread_idx_x();
    while bin < 64 {
        atomic::add(bins.at(bin), local.get(bin));
        bin += thread::block_dim_x();
    }
}

/// The other atomics, all threads on the same cells: sum, max, min, and, or of x; a count by compare-and-exchange; and
/// the number of threads that win an exchange.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes: all results are independent of the order.
/// - *Valid result in*: `cells` (sum, max, min, and, or), `flags` (count, exchange, winners; 0 before the launch) and `sums` (Σx),
///   after the launch.
#[kernel(safe, requires(cells.len() >= 5, flags.len() >= 3, sums.len() >= 1, shape.threads >= n, shape.dimensions == 1))]
pub fn atomics<'n>(n: Len<'n>, x: In<'n, i32>, cells: Atomics<i32>, flags: Atomics<u32>, sums: Atomics<f64>) {
    let Some(i) = n.element() else { return };
    let value = x.get(&i);
    let [sum, max, min, and, or] = cells.chunk(0);
    let [count, exchange, winners] = flags.chunk(0);
    i32::fetch_add(sum, value, Ordering::AcqRel, Scope::Device);
    i32::fetch_max(max, value, Ordering::Release, Scope::Device);
    i32::fetch_min(min, value, Ordering::Acquire, Scope::System);
    i32::fetch_and(and, value, Ordering::Relaxed, Scope::Device);
    i32::fetch_or(or, value, Ordering::Relaxed, Scope::Device);
    // Counts by compare-and-exchange alone.
    let mut seen = 0;
    loop {
        let found = atomic::compare_exchange(count, seen, seen + 1, Ordering::AcqRel, Scope::Device);
        if found == seen {
            break;
        }
        seen = found;
    }
    if u32::fetch_replace(exchange, 1, Ordering::AcqRel, Scope::Device) == 0 {
        atomic::add(winners, 1);
    }
    thread::fence();
    // A sum of small integers is exact in f64 and thus independent of the order.
    atomic::add(sums.at(0), f64::from(value));
}

/// Exclusive prefix sum in one launch (chained scan): each block waits for the total of all elements before its own.
///
/// - *Mathematics*: yᵢ = x₀ + … + xᵢ₋₁.
/// - *Thread mapping*: one thread per element. A block takes the next tile, so that it waits for blocks only that have
///   begun. Its first thread waits until the tile before has released its prefix, and then releases its own.
/// - *Shared memory*: 34 words, static. *Barriers*: four. *Deterministic*: yes. *Valid result in*: `y`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x`, `y` | threads of the grid | the sum fits 32 bits |
/// | `ticket` | 1 or more | 0 before the launch |
/// | `ready` | blocks | 0 before the launch |
/// | `prefixes` | blocks | |
#[kernel(
    requires(
        x.len() >= shape.threads,
        y.len() >= shape.threads,
        ticket.len() >= 1,
        ready.len() >= shape.grid,
        prefixes.len() >= shape.grid,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn chained_scan(
    x: Global<u32>,
    ticket: GlobalMut<u32>,
    ready: GlobalMut<u32>,
    prefixes: GlobalMut<u32>,
    y: GlobalMut<u32>,
) {
    let (tile, base) = (shared_array!(chained_tile: u32; 1), shared_array!(chained_base: u32; 1));
    let t = thread::thread_idx_x();
    if t == 0 {
        tile.set(0, atomic::add((ticket, 0), 1));
    }
    thread::sync_threads();
    let own = tile.get(0) as usize;
    let i = own * thread::block_dim_x() as usize + t as usize;
    let (before, total) = block::exclusive_scan(x.get(i), 0, |a, b| a + b);
    if t == 0 {
        let mut prefix = 0;
        if own > 0 {
            while atomic::load((ready, own - 1), Ordering::Acquire, Scope::Device) == 0 {}
            prefix = prefixes.get(own - 1);
        }
        prefixes.set(own, prefix + total);
        atomic::store((ready, own), 1, Ordering::Release, Scope::Device);
        base.set(0, prefix);
    }
    thread::sync_threads();
    y.set(i, base.get(0) + before);
}

/// D = A·B + C on the tensor core in TF32: A is 16 × 8, B is 8 × 8, C and D are 16 × 8, all row-major.
///
/// - *Thread mapping*: lane 4g + t holds the elements of A, B, C and D that [`mma`] assigns to it.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `d`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `a`, `c`, `d` | 128 | |
/// | `b` | 64 | |
#[kernel(
    requires(
        a.len() >= 128,
        b.len() >= 64,
        c.len() >= 128,
        d.len() >= 128,
        shape.grid == 1,
        shape.dimensions == 1,
    ),
    block = 32
)]
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

/// D = A·B + C on the tensor core in f16, two factors per 32-bit word: A is 16 × 8 words row-major, B is 8 × 8 words
/// column-major, C and D are 16 × 8 row-major in f32.
///
/// - *Thread mapping*: lane 4g + t holds the elements of A, B, C and D that [`mma`] assigns to it.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `d`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `a` | 128 words | f16 pairs |
/// | `b` | 64 words | f16 pairs |
/// | `c`, `d` | 128 | |
#[kernel(
    requires(
        a.len() >= 128,
        b.len() >= 64,
        c.len() >= 128,
        d.len() >= 128,
        shape.grid == 1,
        shape.dimensions == 1,
    ),
    block = 32
)]
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

/// [`tensor_product`] in f64.
///
/// - *Thread mapping*: lane 4g + t holds the elements of A, B, C and D that [`mma`] assigns to it.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `d`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `a`, `c`, `d` | 128 | |
/// | `b` | 64 | |
#[kernel(
    requires(
        a.len() >= 128,
        b.len() >= 64,
        c.len() >= 128,
        d.len() >= 128,
        shape.grid == 1,
        shape.dimensions == 1,
    ),
    block = 32
)]
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

/// Fused multiply-add and the approximate functions of x, six numbers per element: x² − 1, 2ˣ, log₂ x, 1/x, 1/√x, √x.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out`.
#[kernel(safe, requires(shape.threads >= n))]
pub fn special_functions<'n>(n: Len<'n>, x: In<'n, f32>, out: Out<'n, [f32; 6]>) {
    if let Some(i) = n.element() {
        let value = x.get(&i);
        out.set(
            &i,
            [
                math::fma_f32(value, value, -1.0),
                math::exp2_approx(value),
                math::log2_approx(value),
                math::reciprocal_approx(value),
                math::rsqrt_approx(value),
                math::sqrt_approx(value),
            ],
        );
    }
}
