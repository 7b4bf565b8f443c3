//! Safe kernels: launches without `unsafe`, whose contract follows from the lengths.

use warpkov_device::device::atomic::{AtomicCounter, AtomicFloat, AtomicInteger, AtomicNumber, Ordering, Scope};
use warpkov_device::device::safe::{
    Atomics, ByBlock, ByRun, ByWarp, Counters, In, In2, Indices, Len, Out, Out2, Own, PerBlock, PerThread, Slice,
    SparseRows,
};
use warpkov_device::device::{Offset, Parameter, Real, atomic, block, kernel, thread, warp};
use warpkov_device::emulator::{Emulator, EmulatorError};
use warpkov_device::launch::{Device, Dim3, IndexBuffer, IndexError, Shape, SparseBuffer};
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

/// Bᵢⱼ = Aⱼᵢ in tiles of 32 × 32 elements, by blocks of 32 × 32 threads.
#[kernel(safe)]
fn transposed<'r, 'c>(rows: Len<'r>, columns: Len<'c>, pitch: u32, a: In2<'r, 'c, f32>, b: Out2<'c, 'r, f32>) {
    let (top, left) = (32 * thread::block_idx_x(), 32 * thread::block_idx_y());
    let mut tile = tile!(transposed: f32; 1056);
    let tile = tile.fill_rows(32, pitch, |row, column| match (rows.index(top + row), columns.index(left + column)) {
        (Some(row), Some(column)) => a.get(rows.by(columns).cell(row, column)),
        _ => 0.0,
    });
    if let Some(own) = columns.by(rows).element() {
        b.set(&own, tile.get(thread::thread_idx_x(), thread::thread_idx_y()));
    }
}

#[test]
fn tiles_hold_matrices() {
    let block = Dim3 { x: 32, y: 32, z: 1 };
    Emulator::explore(4, |device| {
        for (rows, columns) in [(1_u32, 1_u32), (32, 33), (70, 40)] {
            let a: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let (input, mut b) = (device.upload(&a)?, device.zeros(a.len())?);
            let grid = Dim3 { x: rows.div_ceil(32), y: columns.div_ceil(32), z: 1 };
            transposed(device, Shape::new(grid, block), rows, columns, 33, &input, &mut b)?;
            let (rows, columns) = (rows as usize, columns as usize);
            let expected: Vec<f32> = (0..a.len()).map(|i| a[i % rows * columns + i / rows]).collect();
            assert_eq!(device.to_vec(&b)?, expected);
        }
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
    // Rows overlap if the pitch is too small; and with a larger one, the tile has fewer rows than the kernel reads.
    let device = Emulator::default();
    for (pitch, says) in [(31, "row of a tile[32]"), (34, "rows of a tile[31]"), (0, "row of a tile[32]")] {
        let (a, mut b) = (device.zeros(1024).unwrap(), device.zeros(1024).unwrap());
        let found = message(transposed(&device, Shape::new(1, block), 32, 32, pitch, &a, &mut b));
        assert!(found.contains(says), "{found}");
    }
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

#[kernel(safe, T = [f32, f64])]
fn swapped<'n, T: Real>(n: Len<'n, u64>, x: In<'n, [T; 2]>, y: Out<'n, [T; 2]>, z: Out<'n, [T; 3]>) {
    let mut own = n.elements();
    own.each_chunk(|pair: &[Own<'n>; 2]| {
        for i in pair {
            let [a, b] = x.get(i);
            y.set(i, [b, a]);
        }
    });
    for i in own {
        let [a, b] = x.get(&i);
        y.set(&i, [b, a]);
    }
    for i in n.elements() {
        let [b, a] = y.get(&i);
        z.set(&i, [a, b, a + b]);
    }
}

/// An array is one element: the launcher counts its numbers.
#[test]
fn arrays_are_elements() {
    Emulator::explore(4, |device| {
        for (n, shape) in [(1, Shape::new(1, 32)), (70, Shape::new(1, 32)), (500, Shape::new(2, 64))] {
            let x: Vec<f32> = (0..2 * n).map(|i| i as f32).collect();
            let (input, mut y, mut z) = (device.upload(&x)?, device.zeros(x.len())?, device.zeros(3 * n)?);
            swapped(device, shape, n as u64, &input, &mut y, &mut z)?;
            let expected: Vec<f32> = x.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
            assert_eq!(device.to_vec(&y)?, expected);
            let expected: Vec<f32> = x.chunks(2).flat_map(|pair| [pair[0], pair[1], pair[0] + pair[1]]).collect();
            assert_eq!(device.to_vec(&z)?, expected);
        }
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
    let device = Emulator::default();
    let (x, mut y, mut z) = (device.zeros::<f64>(7).unwrap(), device.zeros(8).unwrap(), device.zeros(12).unwrap());
    assert_eq!(
        message(swapped(&device, Shape::new(1, 32), 4, &x, &mut y, &mut z)),
        "kernel swapped cannot be launched: it requires x.len() >= 2 * n, and x.len() is 7, 2 * n is 8"
    );
}

#[kernel(safe)]
fn owners<'n, 'r, 'c>(
    n: Len<'n>,
    rows: Len<'r>,
    columns: Len<'c>,
    by_run: Out<'n, u32, ByRun<3>>,
    by_warp: Out<'n, u32, ByWarp>,
    by_block: Out<'n, u32, ByBlock>,
    cells: Out2<'r, 'c, u32, ByBlock>,
    counts: PerBlock<[u32; 2]>,
) {
    for i in n.run::<3>().iter().flatten() {
        by_run.set(i, i.index().get() as u32);
    }
    let (mut of_warp, mut of_block) = (0, 0);
    for i in n.warp_elements() {
        // All lanes take part.
        let sum = warp::reduce(1_u32, |a, b| a + b);
        by_warp.set(&i, 100 * sum + i.index().get() as u32);
        of_warp += 1;
    }
    for i in n.block_elements() {
        let sum = block::reduce(1_u32, 0, |a, b| a + b);
        by_block.set(&i, 100 * sum + i.index().get() as u32);
        of_block += 1;
    }
    for row in rows.block_elements() {
        thread::sync_threads();
        for own in row.cells(columns) {
            cells.set(&own, cells.get(&own) + 1);
        }
    }
    // The first of them again.
    if let Some(i) = n.warp_element() {
        by_warp.set(&i, 100 * warp::reduce(1_u32, |a, b| a + b) + i.index().get() as u32);
    }
    if let Some(i) = n.block_element() {
        by_block.set(&i, 100 * block::reduce(1_u32, 0, |a, b| a + b) + i.index().get() as u32);
    }
    counts.set([of_warp, of_block]);
}

/// Every element has one owner by each mapping, and threads meet in the loops of warps and blocks.
#[test]
fn mappings_give_each_element_one_owner() {
    Emulator::explore(6, |device| {
        for (n, rows, columns) in [(0, 1, 1), (1, 3, 70), (130, 9, 5), (190, 2, 64)] {
            let zeros = |len: u32| device.zeros::<u32>(len as usize);
            let (mut by_run, mut by_warp, mut by_block) = (zeros(n)?, zeros(n)?, zeros(n)?);
            let (mut cells, mut counts) = (zeros(rows * columns)?, zeros(4)?);
            owners(
                device,
                Shape::new(2, 64),
                n,
                rows,
                columns,
                &mut by_run,
                &mut by_warp,
                &mut by_block,
                &mut cells,
                &mut counts,
            )?;
            assert_eq!(device.to_vec(&by_run)?, (0..n).collect::<Vec<_>>());
            assert_eq!(device.to_vec(&by_warp)?, (0..n).map(|i| 3200 + i).collect::<Vec<_>>());
            assert_eq!(device.to_vec(&by_block)?, (0..n).map(|i| 6400 + i).collect::<Vec<_>>());
            assert_eq!(device.to_vec(&cells)?, vec![1; (rows * columns) as usize]);
            assert_eq!(device.to_vec(&counts)?, [n.div_ceil(4), n.div_ceil(2), (n + 1) / 4, n / 2]);
        }
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
}

#[kernel(safe)]
fn positions(out: PerThread<[u32; 2]>) {
    out.set([thread::block_idx_y(), thread::index_in_block()]);
    let [y, t] = out.get();
    out.set([t, y]);
}

#[test]
fn threads_have_elements_in_three_dimensions() {
    let device = Emulator::default();
    let (grid, block) = (Dim3 { x: 2, y: 2, z: 1 }, Dim3 { x: 4, y: 4, z: 2 });
    let mut out = device.zeros(256).unwrap();
    positions(&device, Shape::new(grid, block), &mut out).unwrap();
    let expected: Vec<u32> = (0..128).flat_map(|i| [i % 32, i / 64]).collect();
    assert_eq!(device.to_vec(&out).unwrap(), expected);
    let mut short = device.zeros(255).unwrap();
    assert_eq!(
        message(positions(&device, Shape::new(grid, block), &mut short)),
        "kernel positions cannot be launched: it requires out.len() >= 2 * shape.threads, and out.len() is 255, 2 * shape.threads is 256"
    );
}

/// Numbers, and where they are.
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(totals.len() >= 1))]
struct Place {
    /// Added to every index.
    skip: u32,
    /// The numbers.
    x: Slice<f64>,
    /// Their sum, and more.
    totals: Atomics<u64>,
}

#[kernel(safe)]
fn reads<'n>(n: Len<'n>, place: Place, kind: u32, y: Out<'n, f64>) {
    for i in n.elements() {
        let at = i.index().get() + place.skip as usize;
        let value = match kind {
            0 => place.x.get(at),
            1 => place.x.range(at..at + 1).iter().sum(),
            2 => place.x.row(at, n).get(&i),
            3 => place.x.every(at, n.get() as usize, 2).sum(),
            5 => place.x.chunk::<2>(at).iter().sum(),
            6 => place.x.get_clamped(at),
            _ => place.x.range(at..at - 1).iter().sum(),
        };
        atomic::add(place.totals.at(kind as usize % 5), 1);
        let [first, second] = place.totals.chunk(3);
        atomic::max(first, atomic::load(second, atomic::Ordering::Relaxed, atomic::Scope::Device));
        y.set(&i, value);
    }
}

/// A slice stops the kernel where a read, a range, a row or the last of several elements is not within.
#[test]
fn slices_check_their_accesses() {
    let device = Emulator::default();
    let x = device.upload(&(0..12).map(f64::from).collect::<Vec<_>>()).unwrap();
    let mut y = device.zeros(4).unwrap();
    let mut run = |skip: u32, kind: u32, cells: usize| {
        let mut totals = device.zeros(cells).unwrap();
        let place = PlaceArgs { skip, x: &x, totals: &mut totals };
        reads(&device, Shape::new(1, 32), 4, place, kind, &mut y)?;
        Ok::<_, EmulatorError>((device.to_vec(&y)?, device.to_vec(&totals)?))
    };
    assert_eq!(run(2, 0, 5).unwrap(), (vec![2.0, 3.0, 4.0, 5.0], vec![4, 0, 0, 0, 0]));
    assert_eq!(run(8, 1, 5).unwrap(), (vec![8.0, 9.0, 10.0, 11.0], vec![0, 4, 0, 0, 0]));
    assert_eq!(run(1, 2, 5).unwrap().0, [1.0, 3.0, 5.0, 7.0]);
    assert_eq!(run(4, 3, 5).unwrap().0, [12.0, 14.0, 16.0, 18.0]);
    assert_eq!(run(7, 5, 5).unwrap().0, [15.0, 17.0, 19.0, 21.0]);
    assert_eq!(run(8, 6, 5).unwrap().0, [8.0, 9.0, 10.0, 11.0]);
    for (skip, kind) in [
        (9, 0),
        (9, 1),
        (6, 2),
        (5, 3),
        (3, 4),
        (8, 5),
        (9, 6),
        (u32::MAX, 0),
        (u32::MAX, 2),
        (u32::MAX, 3),
        (u32::MAX, 5),
    ] {
        let error = run(skip, kind, 5).unwrap_err().to_string();
        assert!(error.contains("reads") && error.contains("place.x[") && error.contains("tests/safe.rs"), "{error}");
    }
    for (kind, cells) in [(2, 2), (0, 4)] {
        let error = run(0, kind, cells).unwrap_err().to_string();
        assert!(error.contains("place.totals[") && error.contains("tests/safe.rs"), "{error}");
    }
    assert_eq!(
        run(0, 0, 0).unwrap_err().to_string(),
        "kernel reads cannot be launched: it requires place.totals.len() >= 1, and place.totals.len() is 0"
    );
}

#[kernel(safe)]
fn prefix_sums<'n>(n: Len<'n>, x: Out<'n, u64>) {
    let mut before = 0;
    for own in n.rounds() {
        let value = own.as_ref().map_or(0, |i| x.get(i));
        let (here, sum) = block::exclusive_scan(value, 0, |a, b| a + b);
        if let Some(i) = own {
            x.set(&i, before + here);
        }
        before += sum;
    }
}

#[kernel(safe)]
fn digits<'n>(n: Len<'n>, x: Slice<u32>, bins: Atomics<u32>) {
    let mut tile = tile!(digit_bins: u32; 10);
    let found = tile.sums(|bins| {
        for i in n.elements() {
            bins.add(x.get(i.index().get()) % 11, 1);
        }
    });
    let mut digit = thread::thread_idx_x();
    while digit < 10 {
        atomic::add(bins.at(digit as usize), found.get(digit));
        digit += thread::block_dim_x();
    }
}

#[test]
fn rounds_and_sums_of_blocks() {
    Emulator::explore(6, |device| {
        for n in [0, 1, 64, 65, 200] {
            let mut x = device.upload(&(0..n).collect::<Vec<u64>>())?;
            prefix_sums(device, Shape::new(1, 64), n as u32, &mut x)?;
            assert_eq!(device.to_vec(&x)?, (0..n).map(|i| i * i.saturating_sub(1) / 2).collect::<Vec<_>>());
        }
        let (x, mut bins) = (device.upload(&(0..99).map(|i| i % 10).collect::<Vec<u32>>())?, device.zeros(10)?);
        digits(device, Shape::new(2, 32), 99, &x, &mut bins)?;
        assert_eq!(device.to_vec(&bins)?, [10, 10, 10, 10, 10, 10, 10, 10, 10, 9]);
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
    let device = Emulator::default();
    let (x, mut bins) = (device.upload(&[10_u32; 8]).unwrap(), device.zeros(10).unwrap());
    let error = message(digits(&device, Shape::new(1, 32), 8, &x, &mut bins));
    assert!(error.contains("digits") && error.contains("tests/safe.rs"), "{error}");
}

/// Each thread updates each cell once, and asks for the scope of its block.
#[kernel(safe)]
fn narrow_updates(counts: Atomics<u32>, wide: Atomics<i64>, extremes: Atomics<f64>) {
    let (one, scope) = (1 << (thread::index_1d() % 32), Scope::Block);
    u32::fetch_add(counts.at(0), 1, Ordering::Relaxed, scope);
    u32::fetch_dec(counts.at(1), u32::MAX, Ordering::AcqRel, scope);
    u32::fetch_inc(counts.at(2), u32::MAX, Ordering::Relaxed, scope);
    u32::fetch_or(counts.at(3), one, Ordering::SeqCst, scope);
    u32::fetch_xor(counts.at(4), one, Ordering::Relaxed, scope);
    u32::fetch_and(counts.at(5), !one, Ordering::Relaxed, scope);
    atomic::store(counts.at(6), 7, Ordering::Relaxed, scope);
    let mut old: u32 = atomic::load(counts.at(7), Ordering::Relaxed, Scope::Device);
    loop {
        match atomic::compare_exchange(counts.at(7), old, old + 1, Ordering::Relaxed, scope) {
            found if found == old => break,
            found => old = found,
        }
    }
    let index = thread::index_1d() as i64;
    i64::fetch_max(wide.at(0), index, Ordering::Relaxed, scope);
    i64::fetch_min(wide.at(1), -index, Ordering::Relaxed, scope);
    i64::fetch_replace(wide.at(2), 5, Ordering::Relaxed, scope);
    f64::fetch_max(extremes.at(0), index as f64, Ordering::Relaxed, scope);
    f64::fetch_min(extremes.at(1), -index as f64, Ordering::Relaxed, scope);
}

/// All blocks may have a cell of a safe kernel: none of their updates is lost or is a race, whatever scope they ask for.
#[test]
fn updates_of_several_blocks_are_all_kept() {
    Emulator::explore(6, |device| {
        let mut counts = device.upload(&[0, 64, 0, 0, 0, u32::MAX, 0, 0])?;
        let (mut wide, mut extremes) = (device.zeros::<i64>(3)?, device.zeros::<f64>(2)?);
        narrow_updates(device, Shape::new(2, 32), &mut counts, &mut wide, &mut extremes)?;
        assert_eq!(device.to_vec(&counts)?, [64, 0, 64, u32::MAX, 0, 0, 7, 64]);
        assert_eq!(device.to_vec(&wide)?, [63, -63, 5]);
        assert_eq!(device.to_vec(&extremes)?, [63.0, -63.0]);
        Ok::<_, EmulatorError>(())
    })
    .unwrap();
}

#[kernel(safe, T = [f32, f64], O = [u32, u64])]
fn multiply<'r, 'c, T: Real, O: Offset>(
    rows: Len<'r>,
    columns: Len<'c>,
    a: SparseRows<'r, 'c, T, O>,
    x: In<'c, T>,
    y: Out<'r, f64>,
) {
    let _ = columns;
    for i in rows.elements() {
        let mut sum = 0.0;
        for (j, value) in a.row(&i) {
            sum += value.to_f64() * x.get(j).to_f64();
        }
        y.set(&i, sum);
    }
}

fn products<T: Real, O: Offset>(device: &Emulator) -> Result<(), EmulatorError> {
    let ptr: Vec<O> = [0, 2, 2, 5, 5].into_iter().map(O::from_usize).collect();
    let value: Vec<T> = (1..=6).map(|x| T::from_f64(x.into())).collect();
    // An entry behind the last row belongs to none.
    let a = SparseBuffer::upload(device, &ptr, &[0, 3, 1, 1, 2, 0], &value, 4).unwrap();
    assert_eq!((a.rows(), a.columns()), (4, 4));
    let x = device.upload(&[10.0, 20.0, 30.0, 40.0].map(T::from_f64))?;
    let mut y = device.zeros(4)?;
    multiply(device, Shape::new(1, 32), 4, 4, &a, &x, &mut y)?;
    assert_eq!(device.to_vec(&y)?, [90.0, 0.0, 290.0, 0.0]);
    assert_eq!(
        message(multiply(device, Shape::new(1, 32), 5, 4, &a, &x, &mut y)),
        "kernel multiply cannot be launched: it requires a.rows() >= rows, and a.rows() is 4, rows is 5"
    );
    assert_eq!(
        message(multiply(device, Shape::new(1, 32), 4, 3, &a, &x, &mut y)),
        "kernel multiply cannot be launched: it requires a.columns() <= columns, and a.columns() is 4, columns is 3"
    );
    Ok(())
}

#[test]
fn sparse_rows_are_checked_by_the_upload() {
    Emulator::explore(4, |device| {
        products::<f32, u32>(device)?;
        products::<f64, u32>(device)?;
        products::<f32, u64>(device)?;
        products::<f64, u64>(device)
    })
    .unwrap();
    let device = Emulator::default();
    let wrong = |ptr: &[u32], col: &[u32], values: usize| {
        SparseBuffer::upload(&device, ptr, col, &vec![0.5_f64; values], 3).err().unwrap().to_string()
    };
    for (ptr, col, values, expected) in [
        (&[][..], &[][..], 0, "a matrix has one row pointer more than rows, expected at least one"),
        (&[0, 2, 1, 2], &[0, 1], 2, "row pointer 1 is 2, and the next is 1, expected one that is no smaller"),
        (&[0, 3], &[0, 1], 2, "the last row pointer is 3, expected at most the number of entries, 2"),
        (&[0, 2], &[0, 1], 3, "there are 2 columns and 3 values, expected as many"),
        (&[0, 2], &[0, 3], 2, "the column of entry 1 is 3, expected a number below 3"),
        // Also behind the last row.
        (&[0, 1], &[0, 3], 2, "the column of entry 1 is 3, expected a number below 3"),
    ] {
        assert_eq!(wrong(ptr, col, values), expected);
    }
    assert_eq!(SparseBuffer::upload::<_, f64, u32>(&device, &[0], &[], &[], 0).unwrap().rows(), 0);
}
