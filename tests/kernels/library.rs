//! The device library, function by function, against references of the host.

use libtest_mimic::Failed;
use warpkov::runtime::Precise;
use warpkov_device::device::half::{Bf16, Bf16x2, E4m3, E5m2, F16, F16x2};
use warpkov_device::device::{DeviceCopy, Named, Real, Word};
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_device::print::captured;
use warpkov_kernels::library;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::check::{self, same};
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("library_atomics", atomics);
    suite.add("library_math::f32", math::<f32>);
    suite.add("library_math::f64", math::<f64>);
    suite.add("library_segments::u32", segments::<u32>);
    suite.add("library_segments::u64", segments::<u64>);
    suite.add("library_warps", warps);
    suite.add("library_blocks", blocks);
    suite.add("library_barriers", barriers);
    suite.add("library_bounds", bounds);
    suite.add("library_indices", indices);
    suite.add("library_groups::u8", |device, scale| groups(device, scale, |i| i as u8));
    suite.add("library_groups::F16", |device, scale| groups(device, scale, |i| F16::from_f32(i as f32)));
    suite.add("library_groups::u32", |device, scale| groups(device, scale, |i| i as u32));
    suite.add("library_groups::u64", |device, scale| groups(device, scale, |i| i << 33));
    suite.add("library_elements", elements);
    suite.add("library_messages::f32", messages::<f32>);
    suite.add("library_messages::f64", messages::<f64>);
    suite.add("library_assertion", assertion);
    suite.add("library_shifted", shifted);
    suite.add("library_structs", structs);
    suite.add("library_grid", grid);
}

fn atomics(device: &AnyDevice, scale: usize) -> Outcome {
    let (blocks, threads) = (3 * scale, 96);
    let n = blocks * threads;
    let mut random = Random::new(41);
    let x: Vec<i64> = (0..n).map(|_| random.below(1 << 40) as i64 - (1 << 39)).collect();
    let dx = device.upload(&x)?;
    let mut wide = device.upload(&[0, i64::MIN, i64::MAX, -1, 0, 0, 0, 0, 0])?;
    let (mut narrow, mut sums) = (device.zeros(4)?, device.zeros(blocks)?);
    let mut extremes = device.upload(&[f64::NEG_INFINITY, f64::INFINITY])?;
    let mut narrow_extremes = device.upload(&[f32::NEG_INFINITY, f32::INFINITY])?;
    let shape = Shape::new(blocks as u32, threads as u32);
    // SAFETY: `x` has one element per thread, `sums` one per block, and there are as many cells as the kernel uses.
    unsafe {
        library::library_atomics(
            device,
            shape,
            &dx,
            &mut wide,
            &mut narrow,
            &mut sums,
            &mut extremes,
            &mut narrow_extremes,
        )?;
    }
    let (sum, count) = (x.iter().sum::<i64>(), n as i64);
    let (max, min) = (x.iter().max().copied().unwrap_or(0), x.iter().min().copied().unwrap_or(0));
    let (and, or, xor) = x.iter().fold((-1, 0, 0), |(and, or, xor), x| (and & x, or | x, xor ^ x));
    same("wide", &device.to_vec(&wide)?, &[sum, max, min, and, or, xor, count, -5, sum])?;
    let n = n as u32;
    same("narrow", &device.to_vec(&narrow)?, &[n % 100, (100 - n % 100) % 100, n, blocks as u32])?;
    let halves = || x.iter().filter(|&x| x % 7 != 0).map(|&x| x as f64 / 2.0);
    let expected = [halves().fold(f64::NEG_INFINITY, f64::max), halves().fold(f64::INFINITY, f64::min)];
    same("extremes", &device.to_vec(&extremes)?, &expected)?;
    same("narrow extremes", &device.to_vec(&narrow_extremes)?, &expected.map(|x| x as f32))
}

/// The host computes the same functions, so a device must agree to the last bit.
fn math<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(42);
    let special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-310, 1e300, -1e22, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let mut x: Vec<T> = special.iter().flat_map(|&x| special.map(|_| T::from_f64(x))).collect();
    let mut y: Vec<T> = special.iter().flat_map(|_| special.map(T::from_f64)).collect();
    for _ in 0..1000 * scale {
        let exponent = random.below(if T::WIDE { 2000 } else { 250 }) as i32;
        let size = 2f64.powi(exponent - if T::WIDE { 1000 } else { 125 });
        x.push(T::from_f64(if exponent % 2 == 0 { 20.0 } else { size } * (random.unit() - 0.3)));
        y.push(T::from_f64(8.0 * (random.unit() - 0.5)));
    }
    let n = x.len();
    let (dx, dy, mut out) = (device.upload(&x)?, device.upload(&y)?, device.zeros::<T>(11 * n)?);
    library::library_math(device, Shape::cover(n as u64, 128), n as u32, &dx, &dy, &mut out)?;
    let functions: [fn(T) -> T; 10] = [
        Real::sqrt,
        Real::rsqrt,
        Real::exp,
        Real::exp2,
        Real::ln,
        Real::log2,
        Real::sin,
        Real::cos,
        Real::tanh,
        Real::erf,
    ];
    // All NaN are equal.
    let bits = |x: T| if x.to_f64().is_nan() { u64::MAX } else { x.to_raw() };
    let expected = x
        .iter()
        .zip(&y)
        .flat_map(|(&x, &y)| functions.into_iter().map(move |function| function(x)).chain([Real::pow(x, y)]).map(bits));
    let found: Vec<u64> = device.to_vec(&out)?.into_iter().map(bits).collect();
    same("functions", &found, &expected.collect::<Vec<_>>())
}

/// A block beyond the launch bounds is refused before the launch, on every device.
fn bounds(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 300 * scale;
    let x: Vec<u32> = (0..n as u32).collect();
    let (dx, mut out) = (device.upload(&x)?, device.zeros(n)?);
    let refused = library::library_bounds(device, Shape::cover(n as u64, 512), n as u32, &dx, &mut out);
    let Err(DeviceError::Unmet(unmet)) = refused else { return Err("a block of 512 threads was launched".into()) };
    let expected = "kernel library_bounds cannot be launched: it requires shape.block <= 256, and shape.block is 512";
    same("refusal", &[unmet.to_string()], &[expected.to_owned()])?;
    library::library_bounds(device, Shape::cover(n as u64, 256), n as u32, &dx, &mut out)?;
    same("x + 1", &device.to_vec(&out)?, &x.iter().map(|x| x + 1).collect::<Vec<_>>())
}

fn indices(device: &AnyDevice, scale: usize) -> Outcome {
    let (blocks, mut random) = (2 * scale, Random::new(47));
    let bytes: Vec<u8> = (0..256 * blocks).map(|_| random.below(256) as u8).collect();
    let x: Vec<u32> = (0..256).map(|_| random.below(1 << 31) as u32).collect();
    let (dbytes, dx) = (device.upload(&bytes)?, device.upload(&x)?);
    let (mut out, mut counts) = (device.zeros(5 * bytes.len())?, device.zeros(256)?);
    // SAFETY: the buffers have the shapes that the kernel asks for.
    unsafe {
        library::library_indices(device, Shape::new(blocks as u32, 256), &dbytes, &dx, &mut out, &mut counts)?;
    }
    let expected = bytes.iter().flat_map(|&byte| [2 * x[usize::from(byte)]; 5]);
    same("elements", &device.to_vec(&out)?, &expected.collect::<Vec<_>>())?;
    let count = |byte: usize| bytes.iter().filter(|&&found| usize::from(found) == byte).count() as u32;
    same("counts", &device.to_vec(&counts)?, &(0..256).map(count).collect::<Vec<_>>())
}

fn groups<T: DeviceCopy + Named + PartialEq + std::fmt::Debug>(
    device: &AnyDevice,
    scale: usize,
    element: fn(u64) -> T,
) -> Outcome {
    let (blocks, threads) = (2 * scale, 64);
    let x: Vec<T> = (0..4 * (blocks * threads) as u64).map(element).collect();
    let (dx, mut y, mut z) = (device.upload(&x)?, device.zeros(x.len())?, device.zeros(x.len() / 2)?);
    let shape = Shape::new(blocks as u32, threads as u32);
    // SAFETY: the buffers have the shapes that the kernel asks for.
    unsafe { library::library_groups(device, shape, &dx, &mut y, &mut z)? };
    let reversed = x.chunks_exact(4).flat_map(|group| group.iter().rev().copied());
    same("groups of four", &device.to_vec(&y)?, &reversed.collect::<Vec<T>>())?;
    let halves = x.chunks_exact(4).flat_map(|group| group[..2].iter().copied());
    same("groups of two", &device.to_vec(&z)?, &halves.collect::<Vec<T>>())
}

fn segments<T: Word + Named + std::fmt::Debug>(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 64 * scale;
    let x: Vec<T> = (0..n as u64).map(|i| T::from_raw(i << if T::WIDE { 33 } else { 3 })).collect();
    let dx = device.upload(&x)?;
    for width in [2, 4, 8, 16, 32] {
        let mut out = device.zeros::<T>(4 * n)?;
        let shape = Shape::new(n as u32 / 64, 64);
        library::library_segments(device, shape, n as u32, width as u32, &dx, &mut out)?;
        let expected = (0..n).flat_map(|i| {
            let (first, at) = (i / width * width, i % width);
            let up = if at >= 2 { i - 2 } else { i };
            let down = if at + 2 < width { i + 2 } else { i };
            [first + 3 % width, up, down, i ^ 1].map(|from| x[from])
        });
        same("segments", &device.to_vec(&out)?, &expected.collect::<Vec<T>>())?;
    }
    Ok(())
}

fn warps(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 128 * scale;
    let mut random = Random::new(43);
    // The second warp of four has equal elements, the third one nearly.
    let x: Vec<i32> = (0..n)
        .map(|i| match i / 32 % 4 {
            1 => 77,
            2 => 800 + random.below(8) as i32,
            _ => random.below(9) as i32 - 4,
        })
        .collect();
    let (dx, mut out, mut count) = (device.upload(&x)?, device.zeros::<u32>(11 * n)?, device.zeros(1)?);
    // SAFETY: `x` has one element per thread, `out` eleven, and `count` has one.
    unsafe { library::library_warps(device, Shape::new(n as u32 / 64, 64), &dx, &mut out, &mut count)? };
    let expected = x.chunks(32).flat_map(|warp| {
        (0..32).flat_map(move |lane: usize| {
            let group = || (lane % 2..32).step_by(2);
            let values = || group().map(|i| warp[i]);
            let positive = values().filter(|&x| x > 0).count();
            let same = group().filter(|&i| warp[i] == warp[lane]).fold(0, |bits, i| bits | 1 << i);
            [
                u32::from(positive == 0 || positive == 16),
                same,
                same,
                u32::from(values().all(|x| x == warp[lane])),
                u32::from(values().all(|x| x / 8 == warp[lane] / 8)),
                values().max().unwrap_or(0) as u32,
                values().min().unwrap_or(0) as u32,
                values().fold(-1, |a, b| a & b) as u32,
                values().fold(0, |a, b| a | b) as u32,
                values().fold(0, |a, b| a ^ b) as u32,
                1,
            ]
        })
    });
    same("warps", &device.to_vec(&out)?, &expected.collect::<Vec<u32>>())?;
    same("count", &device.to_vec(&count)?, &[n as u32])
}

fn blocks(device: &AnyDevice, scale: usize) -> Outcome {
    for (x, y) in [(1, 1), (31, 1), (32, 1), (33, 1), (5, 13), (1000, 1), (1024, 1), (32, 32)] {
        let (threads, blocks) = ((x * y) as usize, scale.min(8));
        let mut random = Random::new(u64::from(x));
        let values: Vec<u64> = (0..threads * blocks).map(|_| random.below(u64::MAX)).collect();
        let (dx, mut out) = (device.upload(&values)?, device.zeros::<u64>(5 * values.len())?);
        // SAFETY: `x` has one element per thread, `out` five.
        unsafe { library::library_blocks(device, Shape::new(blocks as u32, Dim3 { x, y, z: 1 }), &dx, &mut out)? };
        let mut expected = Vec::new();
        for block in values.chunks(threads) {
            let fold = |part: &[u64]| part.iter().fold(1 << 32, |a, &b| library::composed(a, b));
            let sum = block.iter().fold(0, |sum: u32, &x| sum.wrapping_add(x as u32));
            let (total, last) = (fold(block), block[threads - 1]);
            let mut before = 1 << 32;
            for &x in block {
                let through = library::composed(before, x);
                expected.extend([before, through, total, last, sum.into()]);
                before = through;
            }
        }
        same("blocks", &device.to_vec(&out)?, &expected)?;
    }
    Ok(())
}

fn barriers(device: &AnyDevice, _: usize) -> Outcome {
    for warps in [2, 5, 12] {
        let x: Vec<u32> = (0..32 * warps).map(|i| 3 * i + 1).collect();
        let (dx, mut out) = (device.upload(&x)?, device.zeros::<u32>(x.len())?);
        // SAFETY: both buffers have one element per thread.
        unsafe { library::library_barriers(device, Shape::new(1, 32 * warps), &dx, &mut out)? };
        let expected = x.iter().zip(0..).map(|(&x, i)| if i < 32 { 1 } else { x + i / 32 });
        same("barriers", &device.to_vec(&out)?, &expected.collect::<Vec<u32>>())?;
    }
    Ok(())
}

/// The host converts by integer operations and rounds pairs by f64; a GPU has instructions.
fn elements(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 512 * scale;
    let mut random = Random::new(44);
    let mut number = || {
        let exponent = random.below(60) as i32 - 34;
        ((random.unit() - 0.5) * 2f64.powi(exponent)) as f32
    };
    let (mut x, mut y): (Vec<f32>, Vec<f32>) = (0..n).map(|_| (number(), number())).unzip();
    let special =
        [0.0, -0.0, 1e9, -1e9, f32::INFINITY, f32::MAX, 65519.0, 65520.0, 448.0, 465.0, 57344.0, 6e-8, 1e-40, 1.5];
    x[..special.len()].copy_from_slice(&special);
    y[..4].fill(0.0);
    let (dx, dy) = (device.upload(&x)?, device.upload(&y)?);
    let (mut halves, mut brains) = (device.zeros::<F16>(n)?, device.zeros::<Bf16>(n)?);
    let (mut bytes, mut back, mut packed) =
        (device.zeros::<u8>(2 * n)?, device.zeros::<f32>(4 * n)?, device.zeros::<u32>(6 * n)?);
    let shape = Shape::new(n as u32 / 128, 128);
    // SAFETY: all buffers have a row per thread.
    unsafe {
        library::library_elements(
            device,
            shape,
            &dx,
            &dy,
            &mut halves,
            &mut brains,
            &mut bytes,
            &mut back,
            &mut packed,
        )?;
    }
    let bits: Vec<u16> = device.to_vec(&halves)?.iter().map(|x| x.to_bits()).collect();
    same("f16", &bits, &x.iter().map(|&x| F16::from_f32(x).to_bits()).collect::<Vec<_>>())?;
    let bits: Vec<u16> = device.to_vec(&brains)?.iter().map(|x| x.to_bits()).collect();
    same("bf16", &bits, &x.iter().map(|&x| Bf16::from_f32(x).to_bits()).collect::<Vec<_>>())?;
    let small = x.iter().flat_map(|&x| [E4m3::from_f32(x).to_bits(), E5m2::from_f32(x).to_bits()]);
    same("8 bits", &device.to_vec(&bytes)?, &small.collect::<Vec<_>>())?;
    let wide = x.iter().flat_map(|&x| {
        [F16::from_f32(x).to_f32(), Bf16::from_f32(x).to_f32(), E4m3::from_f32(x).into(), E5m2::from_f32(x).into()]
    });
    same("back", &device.to_vec(&back)?, &wide.collect::<Vec<f32>>())?;
    let pairs = x.iter().zip(&y).enumerate().flat_map(|(i, (&a, &b))| {
        let first = x[i / 4 * 4];
        let (a16, b16) = (F16x2::from_f32(a, first), F16x2::from_f32(b, b));
        let (ab, bb) = (Bf16x2::from_f32(a, first), Bf16x2::from_f32(b, b));
        let f16 = [a16.fma(b16, a16), a16 + b16, a16 * b16].map(F16x2::to_bits);
        f16.into_iter().chain([ab.fma(bb, ab), ab + bb, ab * bb].map(Bf16x2::to_bits))
    });
    same("pairs", &device.to_vec(&packed)?, &pairs.collect::<Vec<u32>>())
}

/// Lines from all threads: more at a time than there is room for messages on a GPU if the host did not clear it.
fn messages<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    // Another thread that waits for the same GPU prints the lines.
    let Some(()) = alone(device, if T::WIDE { "library_messages::f64" } else { "library_messages::f32" })? else {
        return Ok(());
    };
    let (n, every) = (1000 * scale, 64);
    let x: Vec<T> = (0..n).map(|i| T::from_f64((i as f64).powi(i as i32 % 7 - 3))).collect();
    let dx = device.upload(&x)?;
    let mut y = device.zeros(n)?;
    let expected = (0..n).step_by(every).map(|i| {
        let x = x[i].to_f64();
        let (narrow, minus, low, large) = (x as f32, -x, (i as i16).wrapping_neg(), i > 5);
        format!("{i:>6} {i:#06x} {narrow:?} {x:.3} {minus:+e} {low:<4}| {large} {:?} {{}}", 'ß')
    });
    let mut expected: Vec<_> = expected.flat_map(|line| [line, "no values".to_owned()]).collect();
    expected.sort();
    for _ in 0..scale.max(2) {
        let (outcome, text) = captured(|| {
            library::library_messages(device, Shape::new(7, 64), n as u32, every as u32, &dx, &mut y)?;
            device.synchronize()
        });
        outcome?;
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        if lines != expected {
            let other = lines.iter().zip(&expected).find(|(line, expected)| line != expected);
            return Err(format!("{} lines, expected {}; {other:?}", lines.len(), expected.len()).into());
        }
    }
    let roots: Vec<T> = x.iter().map(|x| x.sqrt()).collect();
    same("y", &device.to_vec(&y)?, &roots)
}

/// The error of a failed assertion.
fn assertion(device: &AnyDevice, _: usize) -> Outcome {
    let Some(()) = alone(device, "library_assertion")? else { return Ok(()) };
    let mut y = device.zeros::<u32>(100)?;
    library::library_assertion(device, Shape::new(1, 96), 96, &mut y)?;
    same("y", &device.to_vec(&y)?, &[[4560; 32].as_slice(), &[0; 68]].concat())?;
    let failed = library::library_assertion(device, Shape::new(2, 64), 100, &mut y).and_then(|()| device.synchronize());
    let condition = "assertion failed: thread::index_1d() < u64::from(n.get())";
    stopped(device, failed, "library_assertion, block (1, 0, 0), thread ", &[condition, "library.rs:"])?;
    goes_on(device, &y)
}

/// The error of an index beyond a length.
fn shifted(device: &AnyDevice, _: usize) -> Outcome {
    let Some(()) = alone(device, "library_shifted")? else { return Ok(()) };
    let x: Vec<u32> = (0..64).collect();
    let (dx, mut y) = (device.upload(&x)?, device.zeros::<u32>(64)?);
    library::library_shifted(device, Shape::new(1, 64), 64, 0, &dx, &mut y)?;
    same("y", &device.to_vec(&y)?, &x)?;
    let failed =
        library::library_shifted(device, Shape::new(2, 32), 64, 1, &dx, &mut y).and_then(|()| device.synchronize());
    let text = if matches!(device, AnyDevice::Gpu(_)) { "index 64 is not below 64, at line" } else { "library.rs:" };
    stopped(device, failed, "library_shifted, block (1, 0, 0), thread ", &[text])?;
    goes_on(device, &y)
}

/// A kernel that stops ends the use of a GPU by the process, and other cases get its lines: on a GPU, another process runs the case, and this
/// one has nothing more to do.
fn alone(device: &AnyDevice, case: &str) -> Result<Option<()>, Failed> {
    match device {
        AnyDevice::Gpu(gpu) if !check::is_alone() => {
            check::alone(&format!("cuda:{}::{case}", gpu.ordinal()), &[]).map(|()| None)
        }
        _ => Ok(Some(())),
    }
}

/// Checks the error of a kernel that has stopped: the kernel and the place of the thread, and parts of the text.
fn stopped(device: &AnyDevice, outcome: Result<(), DeviceError>, place: &str, parts: &[&str]) -> Outcome {
    let text = outcome.err().map(|error| error.to_string()).unwrap_or_default().replace('`', "");
    let place = format!("kernel {place}{}", if matches!(device, AnyDevice::Gpu(_)) { "(" } else { "" });
    match text.starts_with(&place) && parts.iter().all(|part| text.contains(part)) {
        true => Ok(()),
        false => Err(format!("found {text:?}, expected {place:?} and {parts:?}").into()),
    }
}

/// Operations after a kernel has stopped fail on a GPU; the emulator goes on.
fn goes_on(device: &AnyDevice, buffer: &AnyBuffer<u32>) -> Outcome {
    match (device, device.to_vec(buffer)) {
        (AnyDevice::Gpu(_), Ok(_)) => Err("the GPU goes on after a kernel has stopped".into()),
        (AnyDevice::Emulated(_), Err(error)) => Err(error.into()),
        _ => Ok(()),
    }
}

fn structs(device: &AnyDevice, scale: usize) -> Outcome {
    use library::Particle;
    let n = 700 * scale;
    let particle = |i: usize| {
        let x = i as f32;
        Particle { at: [x, -x], mass: 0.5 * x, number: i as u16, charge: (i as i16).wrapping_mul(331) }
    };
    let particles: Vec<_> = (0..n).map(particle).collect();
    let (source, mut moved) = (device.upload(&particles)?, device.zeros::<Particle>(n)?);
    library::library_structs(device, Shape::new(5, 96), n as u32, &source, &mut moved)?;
    let expected = particles.iter().map(|&Particle { at: [x, y], mass, number, charge }| Particle {
        at: [x + 1.0, y + mass],
        mass,
        number,
        charge: charge.wrapping_add(1),
    });
    match device.to_vec(&moved)?.into_iter().zip(expected).find(|(found, expected)| found != expected) {
        Some((found, expected)) => Err(format!("found {found:?}, expected {expected:?}").into()),
        None => Ok(()),
    }
}

/// The barrier of the grid, in grids of several sizes, in a graph, and with more blocks than fit.
fn grid(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 1000 * scale;
    let mut expected: Vec<u32> = (0..n as u32).map(|i| i * i).collect();
    let (mut x, mut y) = (device.upload(&expected)?, device.zeros::<u32>(n)?);
    let mut check = |x: &AnyBuffer<u32>, rounds| {
        for _ in 0..rounds {
            let sum = |i: usize| expected[(i + 1) % n].wrapping_add(expected[(i + n - 1) % n]);
            expected = (0..n).map(sum).collect();
        }
        same("x", &device.to_vec(x)?, &expected)
    };
    for (shape, rounds) in [(Shape::new(1, 64), 1), (Shape::new(3, 96), 3), (Shape::grid_stride(n as u64, 128), 4)] {
        // SAFETY: both buffers have n elements.
        unsafe { library::library_grid(device, shape, n as u32, rounds, &mut x, &mut y)? };
        check(&x, rounds)?;
    }
    // SAFETY: as above.
    let graph =
        device.capture(|| unsafe { library::library_grid(device, Shape::new(4, 64), n as u32, 2, &mut x, &mut y) })?;
    if let Some(graph) = graph {
        for _ in 0..2 {
            // SAFETY: the buffers still exist.
            unsafe { device.launch_graph(&graph)? };
            check(&x, 2)?;
        }
    }
    // SAFETY: as above.
    let refused = unsafe { library::library_grid(device, Shape::new(1 << 20, 64), n as u32, 1, &mut x, &mut y) };
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    let expected =
        "kernel library_grid cannot be launched: it requires shape.grid <= resident blocks, and shape.grid is 1048576";
    if !text.starts_with(expected) {
        return Err(format!("found {text:?}, expected {expected:?}").into());
    }
    check(&x, 0)
}
