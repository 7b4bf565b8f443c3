//! Safe kernels: launches without `unsafe`, whose contract follows from the lengths.

use warpkov_device::device::safe::{Counters, In, In2, Indices, Len, Out, Out2, PerBlock};
use warpkov_device::device::{Real, block, kernel};
use warpkov_device::emulator::{Emulator, EmulatorError};
use warpkov_device::launch::{Device, Dim3, IndexBuffer, IndexError, Shape};
use warpkov_device::tile;

#[kernel(safe, T = [f32, f64])]
fn axpy<'n, T: Real>(n: Len<'n>, a: T, x: In<'n, T>, y: Out<'n, T>) {
    for i in n.elements() {
        y.set(&i, a.fma(x.get(&i), y.get(&i)));
    }
}

#[kernel(safe)]
fn gather<'n, 'm>(n: Len<'n>, m: Len<'m>, indices: Indices<'n, 'm>, x: In<'m, f32>, y: Out<'n, f32>) {
    if let Some(i) = n.element() {
        let _ = m;
        y.set(&i, x.get(indices.get(&i)));
    }
}

#[kernel(safe)]
fn histogram<'n, 'b>(n: Len<'n>, b: Len<'b>, x: Indices<'n, 'b>, bins: Counters<'b, u32>) {
    let _ = b;
    for i in n.elements() {
        bins.add(x.get(&i), 1);
    }
}

#[kernel(safe)]
fn shifted<'n>(n: Len<'n>, by: u32, x: In<'n, f32>, y: Out<'n, f32>) {
    for i in n.elements() {
        y.set(&i, x.get(n.at(i.index().get() as u64 + u64::from(by))));
    }
}

#[kernel(safe)]
fn negative<'r, 'c>(rows: Len<'r>, columns: Len<'c>, image: In2<'r, 'c, f32>, out: Out2<'r, 'c, f32>) {
    for cell in rows.by(columns).elements() {
        out.set(&cell, 1.0 - image.get(&cell));
    }
}

#[kernel(safe)]
fn scaled<'r, 'c>(
    rows: Len<'r>,
    columns: Len<'c>,
    table: In2<'r, 'c, f32>,
    scale: In<'c, f32>,
    out: Out2<'r, 'c, f32>,
) {
    if let Some(own) = rows.by(columns).element() {
        out.set(&own, table.get(&own) * scale.get(own.cell().column()));
    }
}

#[kernel(safe)]
fn sums<'n>(n: Len<'n>, x: In<'n, f64>, sums: PerBlock<f64>) {
    let sum = n.elements().map(|i| x.get(&i)).sum();
    sums.set(block::reduce(sum, 0.0, |a, b| a + b));
}

/// Reverses blocks of 64 elements.
#[kernel(safe, block = 64)]
fn reversed<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
    let mut tile = tile!(reversed_tile: f32; 64);
    let first = 64 * warpkov_device::device::thread::block_idx_x();
    let length = n.get().saturating_sub(first).min(64);
    let filled = tile.fill(|i| n.index(u64::from(first + i)).map_or(0.0, |i| x.get(i)));
    if let Some(i) = n.element() {
        y.set(&i, filled.get(length - 1 - (i.index().get() as u32 - first)));
    }
}

#[kernel(safe)]
fn beyond_the_tile<'n>(n: Len<'n>, y: Out<'n, f32>) {
    let mut tile = tile!(small_tile: f32; 4);
    let filled = tile.fill(|i| i as f32);
    for i in n.elements() {
        y.set(&i, filled.get(i.index().get() as u32));
    }
}

fn message(result: Result<(), EmulatorError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn elements_have_one_owner_each() {
    Emulator::explore(6, |device| {
        for (n, shape) in
            [(0, Shape::new(1, 32)), (5, Shape::new(1, 32)), (1000, Shape::new(3, 64)), (70, Shape::cover(70, 32))]
        {
            let x: Vec<f64> = (0..n).map(f64::from).collect();
            let (input, mut y) = (device.upload(&x)?, device.upload(&vec![1.0; n as usize])?);
            axpy(device, shape, n, 2.0, &input, &mut y)?;
            assert_eq!(device.to_vec(&y)?, x.iter().map(|x| 2.0 * x + 1.0).collect::<Vec<_>>());
        }
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
}

#[test]
fn cells_have_one_owner_each() {
    Emulator::explore(6, |device| {
        for (rows, columns) in [(1, 1), (3, 70), (40, 3), (0, 4), (4, 0)] {
            let image: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let scale: Vec<f32> = (0..columns).map(|c| c as f32 + 0.5).collect();
            let (input, scales) = (device.upload(&image)?, device.upload(&scale)?);
            for shape in [
                Shape::new(1, 32),
                Shape::new(Dim3 { x: 2, y: 2, z: 1 }, Dim3 { x: 16, y: 2, z: 1 }),
                Shape::new(Dim3 { x: 3, y: 20, z: 1 }, Dim3 { x: 32, y: 2, z: 1 }),
            ] {
                let mut out = device.zeros(image.len())?;
                negative(device, shape, rows, columns, &input, &mut out)?;
                assert_eq!(device.to_vec(&out)?, image.iter().map(|x| 1.0 - x).collect::<Vec<_>>());
            }
            let mut out = device.zeros(image.len())?;
            let shape = Shape::new(Dim3 { x: 3, y: 20, z: 1 }, Dim3 { x: 32, y: 2, z: 1 });
            scaled(device, shape, rows, columns, &input, &scales, &mut out)?;
            let expected = image.iter().enumerate().map(|(i, x)| x * scale[i % columns as usize]);
            assert_eq!(device.to_vec(&out)?, expected.collect::<Vec<_>>());
        }
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
}

#[test]
fn indices_are_checked_by_the_upload() {
    let device = Emulator::default();
    let wrong = IndexBuffer::upload(&device, &[3, 0, 4], 4);
    assert_eq!(wrong.err().unwrap().to_string(), "index 2 is 4, expected a number below 4");
    assert!(matches!(IndexBuffer::upload(&device, &[0], 0).err(), Some(IndexError::TooLarge { position: 0, .. })));

    let indices = IndexBuffer::upload(&device, &[3, 0, 3, 1], 4).unwrap();
    let x = device.upload(&[10.0_f32, 11.0, 12.0, 13.0]).unwrap();
    let mut y = device.zeros(4).unwrap();
    gather(&device, Shape::new(1, 32), 4, 4, &indices, &x, &mut y).unwrap();
    assert_eq!(device.to_vec(&y).unwrap(), [13.0, 10.0, 13.0, 11.0]);

    let mut bins = device.zeros(4).unwrap();
    histogram(&device, Shape::new(2, 32), 4, 4, &indices, &mut bins).unwrap();
    assert_eq!(device.to_vec(&bins).unwrap(), [1, 1, 0, 2]);
    // The indices are below 4, which does not make them below 3.
    assert_eq!(
        message(histogram(&device, Shape::new(2, 32), 4, 3, &indices, &mut bins)),
        "kernel histogram cannot be launched: it requires x.below() <= b, and x.below() is 4, b is 3"
    );
}

#[test]
fn blocks_reduce_and_exchange() {
    Emulator::explore(6, |device| {
        let x: Vec<f64> = (0..500).map(f64::from).collect();
        let input = device.upload(&x)?;
        for shape in [Shape::new(3, 64), Shape::grid_stride(500, 64)] {
            let mut found = device.zeros::<f64>(8)?;
            sums(device, shape, 500, &input, &mut found)?;
            assert_eq!(device.to_vec(&found)?.iter().sum::<f64>(), x.iter().sum::<f64>());
        }
        let x: Vec<f32> = (0..150).map(|i| i as f32).collect();
        let (input, mut y) = (device.upload(&x)?, device.zeros(150)?);
        reversed(device, Shape::cover(150, 64), 150, &input, &mut y)?;
        let expected: Vec<f32> = x.chunks(64).flat_map(|chunk| chunk.iter().rev().copied()).collect();
        assert_eq!(device.to_vec(&y)?, expected);
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
}

#[test]
fn refusals_name_the_parameter() {
    let device = Emulator::default();
    let (x, mut y) = (device.zeros::<f32>(8).unwrap(), device.zeros::<f32>(8).unwrap());
    let of = |kernel: &str, what: &str| format!("kernel {kernel} cannot be launched: it requires {what}");
    assert_eq!(
        message(axpy(&device, Shape::new(1, 32), 9, 1.0, &x, &mut y)),
        of("axpy", "x.len() >= n, and x.len() is 8, n is 9")
    );
    let mut short = device.zeros(7).unwrap();
    assert_eq!(
        message(axpy(&device, Shape::new(1, 32), 8, 1.0, &x, &mut short)),
        of("axpy", "y.len() >= n, and y.len() is 7, n is 8")
    );
    assert_eq!(
        message(axpy(&device, Shape::new(1, 31), 8, 1.0, &x, &mut y)),
        of("axpy", "shape.block % 32 == 0, and shape.block % 32 is 31")
    );
    let plane = Shape::new(1, Dim3 { x: 32, y: 2, z: 1 });
    assert_eq!(
        message(axpy(&device, plane, 8, 1.0, &x, &mut y)),
        of("axpy", "shape.dimensions == 1, and shape.dimensions is 2")
    );
    let space = Shape::new(1, Dim3 { x: 32, y: 1, z: 2 });
    assert_eq!(
        message(negative(&device, space, 2, 4, &x, &mut y)),
        of("negative", "shape.dimensions <= 2, and shape.dimensions is 3")
    );
    assert_eq!(
        message(axpy(&device, Shape::new(1, 32).overlapping(), 8, 1.0, &x, &mut y)),
        of("axpy", "shape.overlapping == 0, and shape.overlapping is 1")
    );
    assert_eq!(
        message(negative(&device, Shape::new(1, 32), 3, 3, &x, &mut y)),
        of("negative", "image.len() >= rows * columns, and image.len() is 8, rows * columns is 9")
    );
    let (z, mut found) = (device.zeros::<f64>(8).unwrap(), device.zeros::<f64>(2).unwrap());
    assert_eq!(
        message(sums(&device, Shape::new(3, 32), 8, &z, &mut found)),
        of("sums", "sums.len() >= shape.grid, and sums.len() is 2, shape.grid is 3")
    );
}

#[test]
fn reads_out_of_range_stop_the_kernel() {
    let device = Emulator::default();
    let (x, mut y) = (device.zeros::<f32>(8).unwrap(), device.zeros::<f32>(8).unwrap());
    shifted(&device, Shape::new(1, 32), 8, 0, &x, &mut y).unwrap();
    let error = message(shifted(&device, Shape::new(1, 32), 8, 1, &x, &mut y));
    assert!(error.contains("shifted") && error.contains("tests/safe.rs"), "{error}");
    let error = message(beyond_the_tile(&device, Shape::new(1, 32), 8, &mut y));
    assert!(error.contains("beyond_the_tile") && error.contains("tests/safe.rs"), "{error}");
}
