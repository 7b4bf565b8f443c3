//! The time of small kernels under the emulator, beside the same loops in plain Rust:
//! `cargo bench -p warpkov-device --bench emulator`. A machine that is busy disturbs single runs: the table shows the
//! fastest of `RUNS` (5). `-- NAME` measures the kernels whose row contains `NAME`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use warpkov_device::device::{Global, GlobalMut, atomic, block, kernel, thread, warp};
use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_device::shared_array;

const BLOCK: u32 = 256;

/// z ← x + y. *Safety*: all have `n` elements.
#[kernel]
fn vector_add(n: u32, x: Global<f32>, y: Global<f32>, z: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        z.set(i, x.get(i) + y.get(i));
    }
}

/// Each thread sums the `count` elements of `x` that begin at its own. *Safety*: `x` has `n + count` elements, `z` has `n`.
#[kernel]
fn window_sums(n: u32, count: u32, x: GlobalMut<f32>, z: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        let mut sum = 0.0;
        for k in 0..count as usize {
            sum += x.get(i + k);
        }
        z.set(i, sum);
    }
}

/// The sum of each block's elements by a tree in shared memory. *Safety*: `x` has one element per thread, `z` one per
/// block.
#[kernel]
fn tree_sums(x: Global<f32>, z: GlobalMut<f32>) {
    let tile = shared_array!(tile: f32; 256);
    let t = thread::thread_idx_x();
    tile.set(t, x.get(thread::index_1d()));
    thread::sync_threads();
    let mut half = thread::block_dim_x() / 2;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
        }
        thread::sync_threads();
        half /= 2;
    }
    if t == 0 {
        z.set(thread::block_idx_x(), tile.get(0));
    }
}

/// The sum of each warp's elements by shuffles. *Safety*: `x` has one element per thread, `z` one per warp.
#[kernel]
fn shuffle_sums(x: Global<f32>, z: GlobalMut<f32>) {
    let i = thread::index_1d() as usize;
    let sum = warp::reduce(x.get(i), |a, b| a + b);
    if warp::lane_id() == 0 {
        z.set(i / 32, sum);
    }
}

/// The sum of each block's elements by [`block::reduce`]. *Safety*: as for `tree_sums`.
#[kernel]
fn block_sums(x: Global<f32>, z: GlobalMut<f32>) {
    let sum = block::reduce(x.get(thread::index_1d()), 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        z.set(thread::block_idx_x(), sum);
    }
}

/// C ← A · B by tiles of 16 × 16. *Safety*: all are `n` × `n`, and `n` is a multiple of 16.
#[kernel]
fn multiply(n: u32, a: Global<f32>, b: Global<f32>, c: GlobalMut<f32>) {
    let left = shared_array!(left: f32; 256);
    let right = shared_array!(right: f32; 256);
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (row, column) = (thread::block_idx_y() * 16 + y, thread::block_idx_x() * 16 + x);
    let mut sum = 0.0;
    for tile in 0..n / 16 {
        left.set(16 * y + x, a.get(row * n + 16 * tile + x));
        right.set(16 * y + x, b.get((16 * tile + y) * n + column));
        thread::sync_threads();
        for k in 0..16 {
            sum += left.get(16 * y + k) * right.get(16 * k + x);
        }
        thread::sync_threads();
    }
    c.set(row * n + column, sum);
}

/// Counts the elements by their value modulo the length of `bins`. *Safety*: `x` has one element per thread.
#[kernel]
fn histogram(bins: u32, x: Global<u32>, counts: GlobalMut<u32>) {
    let value = x.get(thread::index_1d());
    atomic::add((counts, (value % bins) as usize), 1);
}

/// The shortest of several runs.
fn fastest(mut run: impl FnMut()) -> Duration {
    let runs = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5);
    let mut time = || {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..runs).map(|_| time()).min().unwrap_or_default()
}

/// Prints a row: `count` operations take the time of `emulated`, and `plain` in plain Rust.
fn row(name: &str, count: usize, plain: Duration, emulated: impl FnMut()) {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted)) {
        return;
    }
    let emulated = fastest(emulated);
    let each = |time: Duration| time.as_secs_f64() * 1e9 / count as f64;
    let ratio = emulated.as_secs_f64() / plain.as_secs_f64().max(1e-9);
    println!("{name:<44} {:>9.1} {:>10.2} {ratio:>8.0}", each(emulated), each(plain));
}

fn main() -> Result<(), EmulatorError> {
    println!("{:<44} {:>9} {:>10} {:>8}", "ns per thread (reads: per read)", "emulated", "plain Rust", "ratio");

    let n = 1 << 20;
    let numbers: Vec<f32> = (0..n + 64).map(|i| (i % 7) as f32).collect();
    let mut sums = vec![0.0_f32; n];
    let plain = fastest(|| {
        for ((z, x), y) in sums.iter_mut().zip(&numbers).zip(black_box(&numbers)) {
            *z = x + y;
        }
        black_box(&mut sums);
    });
    let shape = Shape::cover(n as u64, BLOCK);
    let schedules = [Schedule::RoundRobin, Schedule::Reversed, Schedule::Random(1), Schedule::Interleaved(1)];
    for schedule in schedules {
        let device = Emulator::new(schedule);
        let (x, y) = (device.upload(&numbers[..n])?, device.upload(&numbers[..n])?);
        let mut z = device.uninitialised(n)?;
        row(&format!("vector addition, {schedule:?}"), n, plain, || {
            // SAFETY: all have n elements.
            unsafe { vector_add(&device, shape, n as u32, &x, &y, &mut z) }.expect("no fault");
        });
    }
    {
        let device = Emulator::default().profiled();
        let (x, y) = (device.upload(&numbers[..n])?, device.upload(&numbers[..n])?);
        let mut z = device.zeros(n)?;
        row("vector addition, profiled", n, plain, || {
            // SAFETY: all have n elements.
            unsafe { vector_add(&device, shape, n as u32, &x, &y, &mut z) }.expect("no fault");
        });
    }

    let (m, count) = (1 << 15, 32);
    let plain = fastest(|| {
        for (i, z) in sums[..m].iter_mut().enumerate() {
            *z = black_box(&numbers)[i..i + count].iter().sum();
        }
        black_box(&mut sums);
    });
    for schedule in schedules {
        let device = Emulator::new(schedule);
        let (mut x, mut z) = (device.upload(&numbers[..m + count])?, device.zeros(m)?);
        row(&format!("reads of a writable buffer, {schedule:?}"), m * count, plain, || {
            let shape = Shape::cover(m as u64, BLOCK);
            // SAFETY: x has m + count elements and z has m.
            unsafe { window_sums(&device, shape, m as u32, count as u32, &mut x, &mut z) }.expect("no fault");
        });
    }

    let m = 1 << 17;
    let plain = fastest(|| {
        for (z, x) in sums.iter_mut().zip(black_box(&numbers)[..m].chunks(BLOCK as usize)) {
            *z = x.iter().sum();
        }
        black_box(&mut sums);
    });
    let device = Emulator::default();
    let x = device.upload(&numbers[..m])?;
    let mut z = device.zeros(m / 32)?;
    let shape = Shape::cover(m as u64, BLOCK);
    row("sums of blocks, tree with barriers", m, plain, || {
        // SAFETY: x has one element per thread, z one per warp.
        unsafe { tree_sums(&device, shape, &x, &mut z) }.expect("no fault");
    });
    row("sums of warps, shuffles", m, plain, || {
        // SAFETY: x has one element per thread, z one per warp.
        unsafe { shuffle_sums(&device, shape, &x, &mut z) }.expect("no fault");
    });
    row("sums of blocks, block::reduce", m, plain, || {
        // SAFETY: x has one element per thread, z one per warp.
        unsafe { block_sums(&device, shape, &x, &mut z) }.expect("no fault");
    });

    let n = 128_usize;
    let a = &numbers[..n * n];
    let plain = fastest(|| {
        for (i, c) in sums[..n * n].iter_mut().enumerate() {
            let (row, column) = (i / n, i % n);
            *c = (0..n).map(|k| a[row * n + k] * black_box(a)[k * n + column]).sum();
        }
        black_box(&mut sums);
    });
    let x = device.upload(a)?;
    let mut z = device.zeros(n * n)?;
    let (tiles, tile) = (n as u32 / 16, 16);
    let shape = Shape::new(Dim3 { x: tiles, y: tiles, z: 1 }, Dim3 { x: tile, y: tile, z: 1 });
    row("matrix product in tiles, per product", n * n * n, plain, || {
        // SAFETY: all are n × n.
        unsafe { multiply(&device, shape, n as u32, &x, &x, &mut z) }.expect("no fault");
    });

    let values: Vec<u32> = (0..m as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 8).collect();
    let mut counts = vec![0_u32; 256];
    let plain = fastest(|| {
        for value in black_box(&values) {
            counts[(value % 256) as usize] += 1;
        }
        black_box(&mut counts);
    });
    let x = device.upload(&values)?;
    let mut z = device.zeros(256)?;
    let shape = Shape::cover(m as u64, BLOCK);
    row("histogram by atomic operations", m, plain, || {
        // SAFETY: x has one element per thread.
        unsafe { histogram(&device, shape, 256, &x, &mut z) }.expect("no fault");
    });
    Ok(())
}
