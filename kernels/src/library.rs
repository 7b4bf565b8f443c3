//! The device library, function by function, with many results per thread: the test suite compares them with references on
//! every device. [`lessons`](crate::lessons) are for readers; these kernels are for coverage.

use atomic::{AtomicCounter, AtomicFloat, AtomicInteger, AtomicNumber, Ordering, Scope};
use warpkov_device::device::half::{Bf16, Bf16x2, E4m3, E5m2, F16, F16x2};
use warpkov_device::device::safe::{In, Len, Out};
use warpkov_device::device::{
    DeviceCopy, Global, GlobalMut, GridGroup, Named, Real, Word, atomic, block, device_assert, device_println, kernel,
    thread, warp,
};
use warpkov_device::shared_array;

/// Every atomic operation that [`lessons::atomics`](crate::lessons::atomics) and `histogram` lack, all threads on the same
/// cells.
///
/// - *Mathematics*: of x: Σ, max, min, and, or, xor, the number of elements; xor; counters modulo 100, up and down, and a
///   count by compare-and-exchange; extremes of x / 2 without those of x divisible by 7, which are NaN; and Σ of the sums
///   of all blocks, by the last block.
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: 2 words, static. *Barriers*: three. *Deterministic*: yes.
/// - *Valid result in*: all buffers but `x` and `sums`, after the launch.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | threads of the grid | |
/// | `wide` | 9 | Σ, max, min, and, or, xor, count, exchange, Σ of `sums` |
/// | `narrow` | 4 | up, down, count, blocks that have ended |
/// | `sums` | blocks | 0 before the launch |
/// | `extremes` | 2 | max, min |
/// | `narrow_extremes` | 2 | max, min |
#[kernel(
    requires(
        x.len() >= shape.threads,
        wide.len() >= 9,
        narrow.len() >= 4,
        sums.len() >= shape.grid,
        extremes.len() >= 2,
        narrow_extremes.len() >= 2,
        shape.dimensions == 1,
    )
)]
pub fn library_atomics(
    x: Global<i64>,
    wide: GlobalMut<i64>,
    narrow: GlobalMut<u32>,
    sums: GlobalMut<i64>,
    extremes: GlobalMut<f64>,
    narrow_extremes: GlobalMut<f32>,
) {
    let local = shared_array!(library_extremes: f32; 2);
    let last = shared_array!(library_last: u32; 1);
    let (t, block, value) = (thread::thread_idx_x(), thread::block_idx_x() as usize, x.get(thread::index_1d()));
    if t == 0 {
        local.set(0, f32::NEG_INFINITY);
        local.set(1, f32::INFINITY);
    }
    thread::sync_threads();

    i64::fetch_add((wide, 0), value, Ordering::SeqCst, Scope::Device);
    i64::fetch_max((wide, 1), value, Ordering::Relaxed, Scope::System);
    i64::fetch_min((wide, 2), value, Ordering::AcqRel, Scope::Device);
    i64::fetch_and((wide, 3), value, Ordering::Release, Scope::Device);
    i64::fetch_or((wide, 4), value, Ordering::Acquire, Scope::Device);
    i64::fetch_xor((wide, 5), value, Ordering::SeqCst, Scope::System);
    let mut seen = atomic::load((wide, 6), Ordering::SeqCst, Scope::Device);
    loop {
        let found = atomic::compare_exchange((wide, 6), seen, seen + 1, Ordering::SeqCst, Scope::Device);
        if found == seen {
            break;
        }
        seen = found;
    }
    i64::fetch_replace((wide, 7), -5, Ordering::Relaxed, Scope::Device);

    u32::fetch_inc((narrow, 0), 99, Ordering::Relaxed, Scope::Device);
    u32::fetch_dec((narrow, 1), 99, Ordering::SeqCst, Scope::Device);
    let mut seen = 0;
    loop {
        let found = atomic::compare_exchange((narrow, 2), seen, seen + 1, Ordering::Relaxed, Scope::Device);
        if found == seen {
            break;
        }
        seen = found;
    }

    let half = if value % 7 == 0 { f64::NAN } else { value as f64 / 2.0 };
    f64::fetch_max((extremes, 0), half, Ordering::Relaxed, Scope::Device);
    f64::fetch_min((extremes, 1), half, Ordering::SeqCst, Scope::Device);
    f32::fetch_max((local, 0), half as f32, Ordering::Relaxed, Scope::Block);
    f32::fetch_min((local, 1), half as f32, Ordering::Relaxed, Scope::Block);

    atomic::add((sums, block), value);
    thread::sync_threads();
    if t == 0 {
        f32::fetch_max((narrow_extremes, 0), local.get(0), Ordering::Relaxed, Scope::Device);
        f32::fetch_min((narrow_extremes, 1), local.get(1), Ordering::Relaxed, Scope::Device);
        atomic::fence(Ordering::Release, Scope::Device);
        let ended = u32::fetch_inc((narrow, 3), u32::MAX, Ordering::Relaxed, Scope::Device);
        last.set(0, u32::from(ended == thread::grid_dim_x() - 1));
    }
    thread::sync_threads();
    if t == 0 && last.get(0) == 1 {
        atomic::fence(Ordering::SeqCst, Scope::System);
        let mut sum = 0;
        for block in 0..thread::grid_dim_x() {
            sum += atomic::load((sums, block as usize), Ordering::Relaxed, Scope::Device);
        }
        atomic::store((wide, 8), sum, Ordering::SeqCst, Scope::Device);
    }
}

/// The elementary functions of x and y, eleven numbers per element: √x, 1/√x, eˣ, 2ˣ, ln x, log₂ x, sin x, cos x, tanh x,
/// erf x, xʸ.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes; NaN may have other bits. *Valid result in*: `out`.
#[kernel(safe, T = [f32, f64], requires(shape.threads >= n))]
pub fn library_math<'n, T: Real>(n: Len<'n>, x: In<'n, T>, y: In<'n, T>, out: Out<'n, [T; 11]>) {
    if let Some(i) = n.element() {
        let (x, y) = (x.get(&i), y.get(&i));
        out.set(
            &i,
            [x.sqrt(), x.rsqrt(), x.exp(), x.exp2(), x.ln(), x.log2(), x.sin(), x.cos(), x.tanh(), x.erf(), x.pow(y)],
        );
    }
}

/// Shuffles of x within segments of `width` lanes, which is 2, 4, 8, 16 or 32: from lane 3, up by 2, down by 2, xor 1; four numbers
/// per element.
///
/// - *Thread mapping*: one thread per element; those without one take part with 0.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out`.
#[kernel(safe, T = [u32, u64], requires(width <= 32, 32 % width == 0, shape.threads >= n))]
pub fn library_segments<'n, T: Word + Named>(n: Len<'n>, width: u32, x: In<'n, T>, out: Out<'n, [T; 4]>) {
    let own = n.element();
    let value = own.as_ref().map_or(T::from_raw(0), |i| x.get(i));
    let shuffled = [
        warp::shuffle_in(warp::FULL, value, 3, width),
        warp::shuffle_up_in(warp::FULL, value, 2, width),
        warp::shuffle_down_in(warp::FULL, value, 2, width),
        warp::shuffle_xor_in(warp::FULL, value, 1, width),
    ];
    if let Some(i) = own {
        out.set(&i, shuffled);
    }
}

/// Votes, matches and reductions of x among the even lanes, and separately among the odd lanes: eleven numbers per thread.
/// They are: whether x > 0 is the same in all lanes; the lanes with equal x and equal x · 2³²; whether x and x / 8 are the same
/// in all; max, min, and, or, xor of x; whether the active lanes contain this one; and the number of threads, which one of
/// each set of active lanes adds to `count`.
///
/// - *Thread mapping*: one thread per element; 16 lanes of a warp take part in each operation.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out` and `count`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | threads of the grid | |
/// | `out` | 11 × threads of the grid | |
/// | `count` | 1 | 0 before the launch |
#[kernel(
    requires(
        x.len() >= shape.threads,
        out.len() >= 11 * shape.threads,
        count.len() >= 1,
        shape.block % 32 == 0,
        shape.dimensions == 1,
    )
)]
pub fn library_warps(x: Global<i32>, out: GlobalMut<u32>, count: GlobalMut<u32>) {
    const EVEN: u32 = 0x5555_5555;
    let i = thread::index_1d() as usize;
    let x = x.get(i);
    let lane = warp::lane_id();
    let mask = if lane.is_multiple_of(2) { EVEN } else { !EVEN };
    out.set(11 * i, u32::from(warp::uniform(mask, x > 0)));
    out.set(11 * i + 1, warp::match_any(mask, x));
    out.set(11 * i + 2, warp::match_any(mask, i64::from(x) << 32));
    out.set(11 * i + 3, u32::from(warp::match_all(mask, x)));
    out.set(11 * i + 4, u32::from(warp::match_all(mask, x / 8)));
    out.set(11 * i + 5, warp::max_i32(mask, x) as u32);
    out.set(11 * i + 6, warp::min_i32(mask, x) as u32);
    out.set(11 * i + 7, warp::and_u32(mask, x as u32));
    out.set(11 * i + 8, warp::or_u32(mask, x as u32));
    out.set(11 * i + 9, warp::xor_u32(mask, x as u32));
    let active = warp::active_mask();
    out.set(11 * i + 10, active >> lane & 1);
    if active.trailing_zeros() == lane {
        atomic::add((count, 0), active.count_ones());
    }
}

/// Scans of a block of any size with an operation that does not commute, the composition of x ↦ a·x + b over the integers
/// modulo 2³², a in the high half: before, through and total; x of the last thread; and Σ of the low halves. Five numbers per
/// thread.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: 1032 bytes, static. *Barriers*: six. *Deterministic*: yes. *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | threads of the grid | |
/// | `out` | 5 × threads of the grid | |
#[kernel(requires(x.len() >= shape.threads, out.len() >= 5 * shape.threads))]
pub fn library_blocks(x: Global<u64>, out: GlobalMut<u64>) {
    let block = thread::block_idx_x() * thread::block_size();
    let i = (block + thread::index_in_block()) as usize;
    let x = x.get(i);
    let scan = block::scan(x, 1 << 32, composed);
    let last = block::broadcast(x, thread::block_size() - 1);
    let sum = block::reduce_all(x as u32, 0, |a, b| a.wrapping_add(b));
    out.set(5 * i, scan.before);
    out.set(5 * i + 1, scan.through);
    out.set(5 * i + 2, scan.total);
    out.set(5 * i + 3, last);
    out.set(5 * i + 4, sum.into());
}

/// First x ↦ `first`(x), then `then`.
#[inline(always)]
pub fn composed(first: u64, then: u64) -> u64 {
    let [(a, b), (c, d)] = [first, then].map(|of| ((of >> 32) as u32, of as u32));
    u64::from(a.wrapping_mul(c)) << 32 | u64::from(b.wrapping_mul(c).wrapping_add(d))
}

/// A warp hands numbers to each other warp of the block in turn, through one buffer and two named barriers: warp w > 0 writes
/// the numbers plus w. Clocks do not go back.
///
/// - *Thread mapping*: one thread per element of a warp's part.
/// - *Shared memory*: 32 words, static. *Barriers*: two named ones per other warp. *Deterministic*: yes.
/// - *Valid result in*: `out`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | block | |
/// | `out` | block | part 0: 1 if the clocks are right |
#[kernel(
    requires(
        x.len() >= shape.block,
        out.len() >= shape.block,
        shape.grid == 1,
        shape.block % 32 == 0,
        shape.block >= 64,
        shape.dimensions == 1,
    )
)]
pub fn library_barriers(x: Global<u32>, out: GlobalMut<u32>) {
    let buffer = shared_array!(library_buffer: u32; 32);
    let (t, lane, role) = (thread::thread_idx_x(), warp::lane_id(), warp::warp_role());
    let (cycles, narrow, nanoseconds) = (thread::clock64(), thread::clock(), thread::global_timer());
    if role == 0 {
        for other in 1..thread::block_dim_x() / 32 {
            buffer.set(lane, x.get(32 * other + lane));
            thread::arrive_barrier(1, 64);
            thread::sync_barrier(2, 64);
        }
    } else {
        // The warps take turns: each waits for the one before.
        if role > 1 {
            thread::sync_barrier(2 + role, 64);
        }
        thread::sync_barrier(1, 64);
        out.set(t, buffer.get(lane) + role);
        thread::arrive_barrier(2, 64);
        if role + 1 < thread::block_dim_x() / 32 {
            thread::arrive_barrier(3 + role, 64);
        }
    }
    thread::nanosleep(100);
    if role == 0 {
        let narrow = thread::clock().wrapping_sub(narrow);
        let forward = thread::clock64() > cycles && narrow < 1 << 31 && thread::global_timer() >= nanoseconds;
        out.set(t, u32::from(forward));
    }
}

/// Numbers of 1 and 2 bytes: x in each small format, through shared memory; the same number again from each; and x·y + x, x + y and x·y in pairs of f16 and bf16.
///
/// - *Thread mapping*: one thread per row of the matrices.
/// - *Shared memory*: 1280 bytes, static. *Barriers*: one. *Deterministic*: yes. *Valid result in*: all buffers but `x`, `y`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x`, `y` | threads of the grid | |
/// | `halves`, `brains` | threads of the grid | |
/// | `bytes` | threads of the grid × 2 | E4M3, E5M2 |
/// | `back` | threads of the grid × 4 | f16, bf16, E4M3, E5M2 as f32 |
/// | `packed` | threads of the grid × 6 | f16: x·y + x, x + y, x·y; the same in bf16 |
#[kernel(
    requires(
        x.len() >= shape.threads,
        y.len() >= shape.threads,
        halves.len() >= shape.threads,
        brains.len() >= shape.threads,
        bytes.len() >= 2 * shape.threads,
        back.len() >= 4 * shape.threads,
        packed.len() >= 6 * shape.threads,
        shape.block == 128,
        shape.dimensions == 1,
    )
)]
pub fn library_elements(
    x: Global<f32>,
    y: Global<f32>,
    halves: GlobalMut<F16>,
    brains: GlobalMut<Bf16>,
    bytes: GlobalMut<u8>,
    back: GlobalMut<f32>,
    packed: GlobalMut<u32>,
) {
    let of_two = shared_array!(library_two: F16; 128);
    let of_brains = shared_array!(library_brains: Bf16; 128);
    let of_one = shared_array!(library_one: E4m3; 128);
    let (of_bytes, of_floats) = (shared_array!(library_bytes: E5m2; 128), shared_array!(library_floats: f32; 128));
    let (t, i) = (thread::thread_idx_x(), thread::index_1d() as usize);
    let (x, y) = (x.get(i), y.get(i));
    of_two.set(t, F16::from_f32(x));
    of_brains.set(t, Bf16::from_f32(x));
    of_one.set(t, E4m3::from_f32(x));
    of_bytes.set(t, E5m2::from_f32(x));
    of_floats.rows(4).set(t / 4, t % 4, x);
    thread::sync_threads();
    // The elements of the neighbour, back to its place.
    let from = t ^ 1;
    let place = i ^ 1;
    let (half, brain, one, two) = (of_two.get(from), of_brains.get(from), of_one.get(from), of_bytes.get(from));
    halves.set(place, half);
    brains.set(place, brain);
    bytes.rows(2).set(place, 0, one.to_bits());
    bytes.rows(2).set(place, 1, two.to_bits());
    let back = back.rows(4);
    back.set(place, 0, half.to_f32());
    back.set(place, 1, brain.to_f32());
    back.set(place, 2, one.to_f32());
    back.set(place, 3, two.to_f32());
    let packed = packed.rows(6);
    // The first number of each pair is of this thread, the second one of the first of four.
    let first = of_floats.get4(t / 4)[0];
    let (a, b) = (F16x2::from_f32(x, first), F16x2::from_f32(y, y));
    packed.set(i, 0, a.fma(b, a).to_bits());
    packed.set(i, 1, (a + b).to_bits());
    packed.set(i, 2, (a * b).to_bits());
    let (a, b) = (Bf16x2::from_f32(x, first), Bf16x2::from_f32(y, y));
    packed.set(i, 3, a.fma(b, a).to_bits());
    packed.set(i, 4, (a + b).to_bits());
    packed.set(i, 5, (a * b).to_bits());
}

/// y = √x. Prints every `every`-th element, in many formats, and asserts that no element is negative.
///
/// - *Thread mapping*: a grid-stride loop over elements.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes, but for the order of the lines. *Valid result in*: `y`.
#[kernel(safe, T = [f32, f64])]
pub fn library_messages<'n, T: Real>(n: Len<'n>, every: u32, x: In<'n, T>, y: Out<'n, T>) {
    for own in n.elements() {
        let (i, x) = (own.index().get() as u32, x.get(&own));
        device_assert!(x >= T::ZERO, "element {} is {:.1}", i, x.to_f64());
        if i.is_multiple_of(every) {
            device_println!(
                "{:>6} {0:#06x} {:?} {:.3} {:+e} {:<4}| {} {:?} {{}}",
                i,
                x.to_f64() as f32,
                x.to_f64(),
                -x.to_f64(),
                -(i as i16),
                i > 5,
                'ß'
            );
            device_println!("no values");
        }
        y.set(&own, x.sqrt());
    }
}

/// Asserts that every thread has an element, without a message. The first warp writes the sum of the block's thread indices, others 0.
///
/// - *Thread mapping*: one thread per element.
/// - *Shared memory*: 32 words, static. *Barriers*: two. *Deterministic*: yes. *Valid result in*: `y`.
#[kernel(safe)]
pub fn library_assertion<'n>(n: Len<'n>, y: Out<'n, u32>) {
    device_assert!(thread::index_1d() < u64::from(n.get()));
    // The condition divides threads before a barrier, but one of its ways ends the kernel.
    let sum = block::reduce(thread::thread_idx_x(), 0, |a, b| a + b);
    if let Some(own) = n.element() {
        y.set(&own, if warp::warp_id() == 0 { sum } else { 0 });
    }
}

/// A particle: 16 bytes, which a GPU loads by one instruction.
#[derive(Clone, Copy, Debug, PartialEq, DeviceCopy)]
#[repr(C, align(16))]
pub struct Particle {
    /// Place.
    pub at: [f32; 2],
    /// Mass.
    pub mass: f32,
    /// Number.
    pub number: u16,
    /// Charge, in elementary charges.
    pub charge: i16,
}

/// Moves particles by (1, mass), and counts their charges up.
///
/// - *Thread mapping*: a grid-stride loop over particles.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `moved`.
#[kernel(safe)]
pub fn library_structs<'n>(n: Len<'n>, particles: In<'n, Particle>, moved: Out<'n, Particle>) {
    for own in n.elements() {
        let Particle { at: [x, y], mass, number, charge } = particles.get(&own);
        moved.set(&own, Particle { at: [x + 1.0, y + mass], mass, number, charge: charge.wrapping_add(1) });
    }
}

/// y\[i\] = x\[i + `by`\], which stops where that is beyond x.
///
/// - *Thread mapping*: a grid-stride loop over elements.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `y`.
#[kernel(safe)]
pub fn library_shifted<'n>(n: Len<'n>, by: u32, x: In<'n, u32>, y: Out<'n, u32>) {
    for own in n.elements() {
        y.set(&own, x.get(n.at(own.index().get() as u64 + u64::from(by))));
    }
}

/// Replaces each element of a ring by the sum of its neighbours, `rounds` times.
///
/// - *Thread mapping*: a grid-stride loop over elements, in each half of a round.
/// - *Shared memory*: none. *Barriers*: two of the grid per round. *Deterministic*: yes. *Valid result in*: `x`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | n | modulo 2³² |
/// | `y` | n | |
#[kernel(requires(n >= 1, x.len() >= n, y.len() >= n))]
pub fn library_grid(grid: GridGroup, n: u32, rounds: u32, x: GlobalMut<u32>, y: GlobalMut<u32>) {
    let (first, n) = (thread::index_1d() as usize, n as usize);
    let threads = thread::grid_dim_x() as usize * thread::block_dim_x() as usize;
    for _ in 0..rounds {
        for i in (first..n).step_by(threads) {
            y.set(i, x.get((i + 1) % n).wrapping_add(x.get((i + n - 1) % n)));
        }
        grid.sync();
        for i in (first..n).step_by(threads) {
            x.set(i, y.get(i));
        }
        grid.sync();
    }
}

/// x + 1 of each element, in blocks that the launch bounds limit.
///
/// - *Thread mapping*: a grid-stride loop.
/// - *Shared memory*: none. *Barriers*: none. *Deterministic*: yes. *Valid result in*: `out`.
#[kernel(safe, bounds(threads = 256, blocks = 2))]
pub fn library_bounds<'n>(n: Len<'n>, x: In<'n, u32>, out: Out<'n, u32>) {
    for i in n.elements() {
        out.set(&i, x.get(&i) + 1);
    }
}

/// Elements of global memory, of shared memory, and of atomic cells, each by indices of five types.
///
/// - *Mathematics*: out(i, k) = 2 · x(bytesᵢ) for every type k; countsᵦ = the number of threads whose byte is b.
/// - *Thread mapping*: one thread per byte.
/// - *Shared memory*: 256 words, static. *Barriers*: one. *Deterministic*: yes. *Valid result in*: `out` and `counts`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `bytes` | threads of the grid | |
/// | `x` | 256 | |
/// | `out` | threads of the grid × 5 | |
/// | `counts` | 256 | 0 before the launch |
#[kernel(
    requires(
        bytes.len() >= shape.threads,
        x.len() >= 256,
        out.len() >= 5 * shape.threads,
        counts.len() >= 256,
        shape.dimensions == 1,
    ),
    block = 256,
)]
pub fn library_indices(bytes: Global<u8>, x: Global<u32>, out: GlobalMut<u32>, counts: GlobalMut<u32>) {
    let tile = shared_array!(library_tile: u32; 256);
    let (t, i) = (thread::thread_idx_x(), thread::index_1d());
    tile.set(t, x.get(t));
    thread::sync_threads();

    let byte = bytes.get(i);
    let (short, word, long, size) = (u16::from(byte), u32::from(byte), u64::from(byte), usize::from(byte));
    out.set(5 * i, x.get(byte) + tile.get(byte));
    out.set(5 * i + 1, x.get(short) + tile.get(short));
    out.set(5 * i + 2, x.get(word) + tile.get(word));
    out.set(5 * i + 3, x.get(long) + tile.get(long));
    out.set(5 * i + 4, x.get(size) + tile.get(size));
    atomic::add((counts, byte), 1);
}

/// Groups of elements in accesses as wide as they are: y holds the groups of four of x in reverse order within each, z their first halves.
///
/// - *Thread mapping*: one thread per group of four.
/// - *Shared memory*: none. *Deterministic*: yes. *Valid result in*: `y` and `z`.
///
/// *Safety*:
///
/// | parameter | shape | range or unit |
/// | --- | --- | --- |
/// | `x` | 4 × threads of the grid | |
/// | `y` | 4 × threads of the grid | |
/// | `z` | 2 × threads of the grid | |
#[kernel(
    T = [u8, F16, u32, u64],
    requires(x.len() >= 4 * shape.threads, y.len() >= 4 * shape.threads, z.len() >= 2 * shape.threads, shape.dimensions == 1)
)]
pub fn library_groups<T: DeviceCopy + Named>(x: Global<T>, y: GlobalMut<T>, z: GlobalMut<T>) {
    let i = thread::index_1d();
    let [a, b, c, d] = x.get4(i);
    y.set4(i, [d, c, b, a]);
    z.set2(i, [a, b]);
}
