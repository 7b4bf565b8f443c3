//! Kernels for GPUs of compute capability 9.0 and newer. On older ones, their launches are errors that name the need.

use warpkov_device::device::half::{Bf16, F16};
use warpkov_device::device::wgmma::Factor;
use warpkov_device::device::{Named, Word};
use warpkov_device::launch::{Device, Dim3, Shape, Swizzle, Tensor, TensorError};
use warpkov_kernels::hopper;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use crate::check::{close, same};
use crate::random::Random;
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("cluster_rotate::f32", rotate::<f32>);
    suite.add("cluster_rotate::u64", rotate::<u64>);
    suite.add("cluster_histogram", histogram);
    suite.add("bulk_axpy", axpy);
    suite.add("bulk_rows", rows);
    suite.add("tensor_tile", tile);
    suite.add("tensor_multicast", multicast);
    suite.add("wgmma_tile", wgmma_tile);
    suite.add("wgmma_matmul::F16", matmul::<F16>);
    suite.add("wgmma_matmul::Bf16", matmul::<Bf16>);
}

/// Whether the device runs such kernels. The launch on an older one is an error.
fn runs(device: &AnyDevice, launched: Result<(), DeviceError>) -> Result<bool, DeviceError> {
    match launched {
        Err(error)
            if matches!(device, AnyDevice::Gpu(_)) && error.to_string().contains("needs compute capability 9.0") =>
        {
            Ok(false)
        }
        launched => launched.map(|()| true),
    }
}

fn rotate<T: Word + Named + std::fmt::Debug>(device: &AnyDevice, scale: usize) -> Outcome {
    let clusters = 3 * scale;
    let n = clusters * 256;
    let x: Vec<T> = (0..n as u64).map(|i| T::from_raw(i << if T::WIDE { 33 } else { 3 })).collect();
    let (dx, mut y, mut z) = (device.upload(&x)?, device.zeros::<T>(n)?, device.zeros::<T>(n)?);
    let shape = Shape::new(4 * clusters as u32, 64);
    // SAFETY: the buffers have one element per thread.
    if !runs(device, unsafe { hopper::cluster_rotate(device, shape, &dx, &mut y, &mut z) })? {
        return Ok(());
    }
    let from = |blocks: usize| (0..n).map(move |i| i / 256 * 256 + (i + 64 * blocks) % 256);
    same("before", &device.to_vec(&y)?, &from(3).map(|i| x[i]).collect::<Vec<T>>())?;
    same("after", &device.to_vec(&z)?, &from(1).map(|i| x[i]).collect::<Vec<T>>())?;
    // SAFETY: as above.
    let refused = unsafe { hopper::cluster_rotate(device, Shape::new(6, 64), &dx, &mut y, &mut z) };
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    let expected =
        "kernel cluster_rotate cannot be launched: it requires shape.grid.x % 4 == 0, and shape.grid.x % 4 is 2";
    if text == expected { Ok(()) } else { Err(format!("found {text:?}, expected {expected:?}").into()) }
}

fn histogram(device: &AnyDevice, scale: usize) -> Outcome {
    let n = 3000 * scale;
    let mut random = Random::new(51);
    // Some keys have no bin.
    let keys: Vec<u32> = (0..n).map(|_| (random.unit() * random.unit() * 1100.0) as u32).collect();
    let (dkeys, mut counts) = (device.upload(&keys)?, device.zeros::<u32>(1024)?);
    // SAFETY: the buffers have the shapes of the kernel's table.
    if !runs(device, unsafe { hopper::cluster_histogram(device, Shape::new(8, 256), n as u32, &dkeys, &mut counts) })? {
        return Ok(());
    }
    let mut expected = vec![0; 1024];
    keys.iter().filter(|&&key| key < 1024).for_each(|&key| expected[key as usize] += 1);
    same("counts", &device.to_vec(&counts)?, &expected)
}

fn axpy(device: &AnyDevice, scale: usize) -> Outcome {
    for (tiles, blocks) in [(1, 1), (2, 1), (3 * scale, 1), (11 * scale, 3)] {
        let n = tiles * hopper::TILE as usize;
        let x: Vec<f32> = (0..n).map(|i| (i * 7 % 1001) as f32).collect();
        let (dx, mut y) = (device.upload(&x)?, device.zeros::<f32>(n)?);
        let shape = Shape::new(blocks, 128);
        // SAFETY: the buffers have `tiles` tiles.
        if !runs(device, unsafe { hopper::bulk_axpy(device, shape, tiles as u32, 0.5, -3.0, &dx, &mut y) })? {
            return Ok(());
        }
        same("y", &device.to_vec(&y)?, &x.iter().map(|x| x.mul_add(0.5, -3.0)).collect::<Vec<f32>>())?;
    }
    Ok(())
}

fn rows(device: &AnyDevice, _: usize) -> Outcome {
    let x: Vec<F16> = (0..2048).map(|i| F16::from_f32(i as f32)).collect();
    let order: Vec<u32> = (0..32).map(|r| r * 7 % 32).collect();
    let (dx, dorder, mut out) = (device.upload(&x)?, device.upload(&order)?, device.zeros::<F16>(2048)?);
    // SAFETY: the buffers have the shapes of the kernel's table.
    if !runs(device, unsafe { hopper::bulk_rows(device, Shape::new(1, 32), &dx, &dorder, &mut out) })? {
        return Ok(());
    }
    let bits = |x: &[F16]| x.iter().map(|x| x.to_bits()).collect::<Vec<u16>>();
    let expected: Vec<F16> = order.iter().flat_map(|&row| x[64 * row as usize..][..64].iter().copied()).collect();
    same("rows", &bits(&device.to_vec(&out)?), &bits(&expected))
}

fn multicast(device: &AnyDevice, _: usize) -> Outcome {
    let x: Vec<u32> = (0..128).map(|i| 3 * i).collect();
    let (dx, mut out) = (device.upload(&x)?, device.zeros::<u32>(256)?);
    let tensor = Tensor::new(&dx, [16, 8], [16, 4], Swizzle::None)?;
    // SAFETY: `out` has two tiles for each of two blocks.
    if !runs(device, unsafe { hopper::tensor_multicast(device, Shape::new(2, 64), tensor, &mut out) })? {
        return Ok(());
    }
    let expected = x.chunks_exact(64).flat_map(|tile| [tile, tile].concat());
    same("tiles of both blocks", &device.to_vec(&out)?, &expected.collect::<Vec<u32>>())
}

/// Tiles inside and across the bounds of tensors, in each order.
fn tile(device: &AnyDevice, _: usize) -> Outcome {
    let x: Vec<f32> = (1..=6000).map(|i| i as f32).collect();
    let (buffer, mut out) = (device.upload(&x)?, device.zeros::<f32>(256)?);
    let expected = |sizes: [i32; 3], tile: [i32; 3], at: [i32; 3]| {
        (0..256).map(move |i| {
            let place = [at[0] + i % tile[0], at[1] + i / tile[0] % tile[1], at[2] + i / (tile[0] * tile[1])];
            let inside = (0..3).all(|axis| (0..sizes[axis]).contains(&place[axis]));
            if inside { ((place[2] * sizes[1] + place[1]) * sizes[0] + place[0] + 1) as f32 } else { 0.0 }
        })
    };
    for at in [[0, 0, 0], [4, 1, 1], [-4, -2, -1], [88, 45, 9], [5000, -100, 3]] {
        let [x, y, z] = at;
        let one = Tensor::new(&buffer, [5999], [256], Swizzle::None)?;
        // SAFETY: `out` has 256 elements, and the tile as many.
        let launched = unsafe { hopper::tensor_tile(device, Shape::new(1, 256), one, x, y, z, 0, &mut out) };
        if !runs(device, launched)? {
            return Ok(());
        }
        same("1-D", &device.to_vec(&out)?, &expected([5999, 1, 1], [256, 1, 1], [x, 0, 0]).collect::<Vec<f32>>())?;
        for (swizzle, swizzled) in [(Swizzle::None, 0), (Swizzle::B128, 1)] {
            let two = Tensor::new(&buffer, [100, 50], [32, 8], swizzle)?;
            // SAFETY: as above.
            unsafe { hopper::tensor_tile(device, Shape::new(1, 256), two, x, y, z, swizzled, &mut out)? };
            same("2-D", &device.to_vec(&out)?, &expected([100, 50, 1], [32, 8, 1], [x, y, 0]).collect::<Vec<f32>>())?;
        }
        let three = Tensor::new(&buffer, [20, 30, 10], [8, 8, 4], Swizzle::None)?;
        // SAFETY: as above.
        unsafe { hopper::tensor_tile(device, Shape::new(1, 256), three, x, y, z, 0, &mut out)? };
        same("3-D", &device.to_vec(&out)?, &expected([20, 30, 10], [8, 8, 4], at).collect::<Vec<f32>>())?;
    }
    let refusals = [
        (
            Tensor::new(&buffer, [100, 61], [32, 8], Swizzle::None).err(),
            TensorError::TooShort { len: 6000, needed: 6100 },
        ),
        (
            Tensor::new(&buffer, [100, 60], [32, 257], Swizzle::None).err(),
            TensorError::Tile { dimension: 1, extent: 257 },
        ),
        (
            Tensor::new(&buffer, [100, 60], [30, 8], Swizzle::None).err(),
            TensorError::Row { bytes: 120, swizzled: false },
        ),
        (
            Tensor::new(&buffer, [100, 60], [64, 8], Swizzle::B128).err(),
            TensorError::Row { bytes: 256, swizzled: true },
        ),
        (Tensor::new(&buffer, [99, 60], [32, 8], Swizzle::None).err(), TensorError::Stride { bytes: 396 }),
    ];
    match refusals.into_iter().find(|(found, expected)| found.as_ref() != Some(expected)) {
        Some((found, expected)) => Err(format!("found {found:?}, expected {expected:?}").into()),
        None => Ok(()),
    }
}

/// A·Bᵀ in f64, for rows of `depth` elements.
fn product(a: &[f64], b: &[f64], depth: usize) -> Vec<f64> {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum();
    a.chunks(depth).flat_map(|x| b.chunks(depth).map(move |y| dot(x, y))).collect()
}

fn wgmma_tile(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(52);
    let mut tile =
        |rows: usize| -> Vec<F16> { (0..64 * rows).map(|_| F16::from_f32(random.unit() as f32 - 0.5)).collect() };
    let values = |tile: &[F16]| tile.iter().map(|x| f64::from(x.to_f32())).collect::<Vec<f64>>();
    for registers in [16, 32, 128] {
        let (a, b) = (tile(64), tile(2 * registers));
        let (da, db, mut d) = (device.upload(&a)?, device.upload(&b)?, device.zeros::<f32>(256 * registers)?);
        let shape = Shape::new(1, 128).with_shared(1024 + 8192 + 256 * registers as u32);
        // SAFETY: the buffers have the shapes of the kernel's table.
        let launched = unsafe {
            match registers {
                16 => hopper::wgmma_tile::<16, _>(device, shape, &da, &db, &mut d),
                32 => hopper::wgmma_tile::<32, _>(device, shape, &da, &db, &mut d),
                _ => hopper::wgmma_tile::<128, _>(device, shape, &da, &db, &mut d),
            }
        };
        if !runs(device, launched)? {
            return Ok(());
        }
        let once = product(&values(&a), &values(&b), 64);
        let expected: Vec<f64> = once.iter().copied().chain(once.iter().map(|x| 2.0 * x)).collect();
        let found: Vec<f64> = device.to_vec(&d)?.into_iter().map(f64::from).collect();
        close("products", &found, &expected, 2e-5, 2e-5)?;
    }
    Ok(())
}

fn matmul<T: Factor + Named>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(53);
    let sizes = if scale == 1 {
        vec![(64, 128, 64), (100, 150, 200)]
    } else {
        vec![(64, 128, 64), (100, 150, 200), (1000, 999, 1000)]
    };
    for (m, n, k) in sizes {
        // Numbers of 8 bits, which both formats hold.
        let mut matrix =
            |rows: usize| -> Vec<f32> { (0..rows * k).map(|_| random.below(256) as f32 / 256.0 - 0.5).collect() };
        let (a, b) = (matrix(m), matrix(n));
        let bits = |x: &f32| {
            T::from_raw(u64::from(if T::NAME == "F16" {
                F16::from_f32(*x).to_bits()
            } else {
                Bf16::from_f32(*x).to_bits()
            }))
        };
        let upload = |x: &[f32]| device.upload(&x.iter().map(bits).collect::<Vec<T>>());
        let (da, db, mut c) = (upload(&a)?, upload(&b)?, device.zeros::<f32>(m * n)?);
        let [m32, n32, k32] = [m, n, k].map(|size| size as u32);
        let left = Tensor::new(&da, [k32, m32], [64, 64], Swizzle::B128)?;
        let right = Tensor::new(&db, [k32, n32], [64, 128], Swizzle::B128)?;
        let grid = Dim3 { x: n32.div_ceil(128), y: m32.div_ceil(64), z: 1 };
        let shape = Shape::new(grid, 160).with_shared(hopper::PRODUCT_SHARED);
        // SAFETY: the buffers have the shapes of the kernel's table.
        if !runs(device, unsafe { hopper::wgmma_matmul::<T, _>(device, shape, m32, n32, k32, left, right, &mut c) })? {
            return Ok(());
        }
        let wide = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<f64>>();
        let found: Vec<f64> = device.to_vec(&c)?.into_iter().map(f64::from).collect();
        close("c", &found, &product(&wide(&a), &wide(&b), k), 1e-5 * k as f64, 1e-5)?;
    }
    Ok(())
}
