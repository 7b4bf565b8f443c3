//! The lessons: each primitive of the device library against its definition.

use warpkov::runtime::Precise;
use warpkov::runtime::prefix_sum::{exclusive_scan, scratch_len};
use warpkov_device::device::Offset;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::lessons;
use warpkov_runtime::device::AnyDevice;

use crate::check::{close, epsilon, of, same};
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("vector_add::f32", vector_add::<f32>);
    suite.add("vector_add::f64", vector_add::<f64>);
    suite.add("vector_add4::f32", vector_add4::<f32>);
    suite.add("vector_add4::f64", vector_add4::<f64>);
    suite.add("copy_streaming::f32", copy_streaming::<f32>);
    suite.add("copy_streaming::f64", copy_streaming::<f64>);
    suite.add("indices", indices);
    suite.add("reverse_blocks::f32", reverse_blocks::<f32>);
    suite.add("reverse_blocks::f64", reverse_blocks::<f64>);
    suite.add("transpose", transpose);
    suite.add("barrier_votes", barrier_votes);
    suite.add("shuffles::f32", shuffles::<f32>);
    suite.add("shuffles::f64", shuffles::<f64>);
    suite.add("partial_warps", partial_warps);
    suite.add("scans::f32", scans::<f32>);
    suite.add("scans::f64", scans::<f64>);
    suite.add("histogram", histogram);
    suite.add("atomics", atomics);
    suite.add("chained_scan", chained_scan);
    suite.add("special_functions", special_functions);
    suite.add("exclusive_scan::u32", prefix_sum::<u32>);
    suite.add("exclusive_scan::u64", prefix_sum::<u64>);
}

pub fn vector_add<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 1000 * scale + 7;
    let mut random = Random::new(1);
    let (x, y) = (of::<T>(&random.signed(n)), of::<T>(&random.signed(n)));
    let (dx, dy, mut dz) = (device.upload(&x)?, device.upload(&y)?, device.zeros::<T>(n)?);
    lessons::vector_add(device, Shape::cover(n as u64, 128), n as u32, &dx, &dy, &mut dz)?;
    let expected: Vec<T> = x.iter().zip(&y).map(|(&x, &y)| x + y).collect();
    same("z", &device.to_vec(&dz)?, &expected)
}

pub fn vector_add4<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let quads = 250 * scale + 3;
    let mut random = Random::new(2);
    let (x, y) = (of::<T>(&random.signed(4 * quads)), of::<T>(&random.signed(4 * quads)));
    let (dx, dy, mut dz) = (device.upload(&x)?, device.upload(&y)?, device.zeros::<T>(4 * quads)?);
    lessons::vector_add4(device, Shape::cover(quads as u64, 128), quads as u32, &dx, &dy, &mut dz)?;
    let expected: Vec<T> = x.iter().zip(&y).map(|(&x, &y)| x + y).collect();
    same("z", &device.to_vec(&dz)?, &expected)
}

pub fn copy_streaming<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 1000 * scale + 7;
    let x = of::<T>(&Random::new(3).signed(n));
    let (dx, mut dy) = (device.upload(&x)?, device.zeros::<T>(n)?);
    lessons::copy_streaming(device, Shape::new(3, 64), n as u32, &dx, &mut dy)?;
    same("y", &device.to_vec(&dy)?, &x)
}

pub fn indices(device: &AnyDevice, _: usize) -> Outcome {
    let (grid, block) = (Dim3 { x: 3, y: 2, z: 2 }, Dim3 { x: 8, y: 4, z: 3 });
    let mut out = device.zeros::<u32>(12 * (grid.count() * block.count()) as usize)?;
    lessons::indices(device, Shape::new(grid, block), &mut out)?;
    let mut expected = Vec::new();
    let of = |extent: Dim3| {
        (0..extent.z).flat_map(move |z| (0..extent.y).flat_map(move |y| (0..extent.x).map(move |x| [x, y, z])))
    };
    for b in of(grid) {
        for t in of(block) {
            expected.extend(t.into_iter().chain(b).chain([block.x, block.y, block.z, grid.x, grid.y, grid.z]));
        }
    }
    same("indices", &device.to_vec(&out)?, &expected)
}

pub fn reverse_blocks<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let (blocks, threads) = (4 * scale, 96);
    let x = of::<T>(&Random::new(4).signed(blocks * threads));
    let (dx, mut dy) = (device.upload(&x)?, device.zeros::<T>(x.len())?);
    let shape = Shape::new(blocks as u32, threads as u32).with_shared((threads * size_of::<T>()) as u32);
    // SAFETY: both vectors have one element per thread.
    unsafe { lessons::reverse_blocks(device, shape, &dx, &mut dy)? };
    let expected: Vec<T> = x.chunks(threads).flat_map(|block| block.iter().rev().copied()).collect();
    same("y", &device.to_vec(&dy)?, &expected)
}

pub fn transpose(device: &AnyDevice, _: usize) -> Outcome {
    let (tiles, n) = (3, 96);
    let x = of::<f32>(&Random::new(13).signed(n * n));
    let expected: Vec<f32> = (0..n * n).map(|i| x[i % n * n + i / n]).collect();
    for pitch in [32, 33] {
        let (dx, mut dy) = (device.upload(&x)?, device.zeros::<f32>(n * n)?);
        let square = |x, y| Dim3 { x, y, z: 1 };
        let shape = Shape::new(square(tiles, tiles), square(32, 8)).with_shared(128 * pitch);
        // SAFETY: both matrices have 32 · tiles rows, and the shared memory has 32 · pitch floats.
        unsafe { lessons::transpose(device, shape, pitch, &dx, &mut dy)? };
        same("y", &device.to_vec(&dy)?, &expected)?;
    }
    Ok(())
}

fn barrier_votes(device: &AnyDevice, scale: usize) -> Outcome {
    let (blocks, threads) = (6 * scale, 64);
    let mut random = Random::new(5);
    // Blocks in which all, no and some elements are positive.
    let x: Vec<i32> = (0..blocks * threads)
        .map(|i| match i / threads % 3 {
            0 => 1,
            1 => -1,
            _ => random.below(3) as i32 - 1,
        })
        .collect();
    let (dx, mut out) = (device.upload(&x)?, device.zeros::<u32>(3 * blocks)?);
    lessons::barrier_votes(device, Shape::new(blocks as u32, threads as u32), x.len() as u32, &dx, &mut out)?;
    let expected: Vec<u32> = x
        .chunks(threads)
        .flat_map(|block| {
            let count = block.iter().filter(|&&x| x > 0).count();
            [count as u32, u32::from(count == threads), u32::from(count > 0)]
        })
        .collect();
    same("votes", &device.to_vec(&out)?, &expected)
}

pub fn shuffles<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 128 * scale;
    let x = of::<T>(&Random::new(6).signed(n));
    let (dx, mut out) = (device.upload(&x)?, device.zeros::<T>(4 * n)?);
    lessons::shuffles(device, Shape::new(n as u32 / 64, 64), n as u32, &dx, &mut out)?;
    let expected: Vec<T> = x
        .chunks(32)
        .flat_map(|warp| {
            (0..32).flat_map(|lane: usize| {
                let up = if lane >= 3 { lane - 3 } else { lane };
                let down = if lane + 3 < 32 { lane + 3 } else { lane };
                [warp[up], warp[down], warp[lane ^ 9], warp[5]]
            })
        })
        .collect();
    same("shuffles", &device.to_vec(&out)?, &expected)
}

fn partial_warps(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 128 * scale;
    let mut random = Random::new(7);
    // All elements of each block's second warp are positive.
    let x: Vec<u32> = (0..n).map(|i| random.below(4) as u32 + u32::from(i / 32 % 2 == 1)).collect();
    let (dx, mut out) = (device.upload(&x)?, device.zeros::<u32>(8 * n)?);
    // SAFETY: `x` has one element per thread, `out` eight.
    unsafe { lessons::partial_warps(device, Shape::new(n as u32 / 64, 64), &dx, &mut out)? };
    let expected: Vec<u32> = x
        .chunks(32)
        .flat_map(|warp| {
            (0..32).flat_map(|lane: usize| {
                let group = || (lane % 2..32).step_by(2);
                let bits = |keep: &dyn Fn(usize) -> bool| group().filter(|&i| keep(i)).fold(0, |b, i| b | 1 << i);
                let sum = group().map(|i| warp[i]).sum();
                [
                    bits(&|i| warp[i] > 0),
                    u32::from(group().all(|i| warp[i] > 0)),
                    u32::from(group().any(|i| warp[i] > 0)),
                    bits(&|i| warp[i] == warp[lane]),
                    sum,
                    group().map(|i| warp[i]).max().unwrap_or(0),
                    group().map(|i| warp[i]).min().unwrap_or(0),
                    sum,
                ]
            })
        })
        .collect();
    same("partial warps", &device.to_vec(&out)?, &expected)
}

pub fn scans<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    for threads in [32, 96, 1024] {
        let n = threads * scale.min(8);
        let x = of::<T>(&Random::new(8).signed(n));
        let (dx, mut out) = (device.upload(&x)?, device.zeros::<T>(3 * n)?);
        lessons::scans(device, Shape::new((n / threads) as u32, threads as u32), n as u32, &dx, &mut out)?;
        let mut expected = Vec::new();
        for block in x.chunks(threads) {
            let sum = |range: &[T]| range.iter().map(|x| x.to_f64()).sum::<f64>();
            for i in 0..threads {
                let total = if i < 32 { sum(block) } else { 0.0 };
                expected.extend([sum(&block[i / 32 * 32..=i]), sum(&block[..i]), total]);
            }
        }
        // Partial sums are of order √n, and every addition rounds once.
        close("scans", &device.to_vec(&out)?, &expected, threads as f64 * epsilon::<T>(), 0.0)?;
    }
    Ok(())
}

pub fn histogram(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 2000 * scale;
    let mut random = Random::new(9);
    let x: Vec<u32> = (0..n).map(|_| random.below(1 << 20) as u32).collect();
    let (dx, mut bins) = (device.upload(&x)?, device.zeros::<u32>(64)?);
    lessons::histogram(device, Shape::cover(n as u64, 128), n as u32, &dx, &mut bins)?;
    let mut expected = vec![0; 64];
    x.iter().for_each(|x| expected[(x % 64) as usize] += 1);
    same("bins", &device.to_vec(&bins)?, &expected)
}

fn atomics(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 256 * scale;
    let mut random = Random::new(10);
    let x: Vec<i32> = (0..n).map(|_| random.below(2001) as i32 - 1000).collect();
    let (dx, mut cells) = (device.upload(&x)?, device.upload(&[0, i32::MIN, i32::MAX, -1, 0])?);
    let (mut flags, mut sums) = (device.zeros::<u32>(3)?, device.zeros::<f64>(1)?);
    let shape = Shape::new(n as u32 / 128, 128);
    lessons::atomics(device, shape, n as u32, &dx, &mut cells, &mut flags, &mut sums)?;
    let sum: i32 = x.iter().sum();
    let (max, min) = (x.iter().max().copied().unwrap_or(0), x.iter().min().copied().unwrap_or(0));
    let (and, or) = x.iter().fold((-1, 0), |(and, or), &x| (and & x, or | x));
    same("cells", &device.to_vec(&cells)?, &[sum, max, min, and, or])?;
    same("flags", &device.to_vec(&flags)?, &[n as u32, 1, 1])?;
    same("sums", &device.to_vec(&sums)?, &[f64::from(sum)])
}

pub fn chained_scan(device: &AnyDevice, scale: usize) -> Outcome {
    let blocks = 7 * scale;
    let mut random = Random::new(12);
    let x: Vec<u32> = (0..64 * blocks).map(|_| random.below(9) as u32).collect();
    let (dx, mut y) = (device.upload(&x)?, device.zeros::<u32>(x.len())?);
    let (mut ticket, mut ready) = (device.zeros::<u32>(1)?, device.zeros::<u32>(blocks)?);
    let mut prefixes = device.uninitialised::<u32>(blocks)?;
    let shape = Shape::new(blocks as u32, 64);
    // SAFETY: `x` and `y` have one element per thread, `ready` and `prefixes` one per block.
    unsafe { lessons::chained_scan(device, shape, &dx, &mut ticket, &mut ready, &mut prefixes, &mut y)? };
    let expected = x.iter().scan(0, |sum, &x| Some(std::mem::replace(sum, *sum + x)));
    same("y", &device.to_vec(&y)?, &expected.collect::<Vec<u32>>())
}

pub fn special_functions(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 500 * scale;
    let mut random = Random::new(11);
    let x: Vec<f32> = (0..n).map(|_| (0.01 + 20.0 * random.unit()) as f32).collect();
    let (dx, mut out) = (device.upload(&x)?, device.zeros::<f32>(6 * n)?);
    lessons::special_functions(device, Shape::cover(n as u64, 128), n as u32, &dx, &mut out)?;
    let got = device.to_vec(&out)?;
    for (x, got) in x.iter().map(|&x| f64::from(x)).zip(got.chunks(6)) {
        same("fma", &got[..1], &[(x * x - 1.0) as f32])?;
        close("exp2", &got[1..2], &[x.exp2()], 0.0, 3e-7)?;
        close("log2", &got[2..3], &[x.log2()], 2.4e-7, 2.4e-7)?;
        close("1/x", &got[3..4], &[1.0 / x], 0.0, 1.2e-7)?;
        close("1/sqrt", &got[4..5], &[1.0 / x.sqrt()], 0.0, 1.9e-7)?;
        close("sqrt", &got[5..6], &[x.sqrt()], 0.0, 1.9e-7)?;
    }
    Ok(())
}

fn prefix_sum<O: Offset + std::fmt::Debug>(device: &AnyDevice, scale: usize) -> Outcome {
    // A partial tile, a full tile, several tiles, and more tiles than the scan of totals has threads.
    for n in [0, 1, 5, 1024, 1025, 5000 * scale, if scale > 1 { 600_000 } else { 264_000 }] {
        let mut random = Random::new(n as u64);
        let x: Vec<O> = (0..n).map(|_| O::from_usize(random.below(9) as usize)).collect();
        let input = device.upload(&x)?;
        let (mut output, mut scratch) = (device.zeros::<O>(n + 1)?, device.zeros::<O>(scratch_len(n))?);
        exclusive_scan(device, n, &input, &mut output, &mut scratch)?;
        let mut expected = vec![O::ZERO];
        let mut sum = O::ZERO;
        expected.extend(x.iter().map(|&x| {
            sum += x;
            sum
        }));
        same("offsets", &device.to_vec(&output)?, &expected)?;
    }
    Ok(())
}
