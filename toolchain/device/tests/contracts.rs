//! Launches that do not meet a kernel's contract: an error before anything is launched, which names what is wrong.

use warpkov_device::device::{Global, GlobalMut, Parameter, Real, kernel, thread};
use warpkov_device::emulator::{Emulator, EmulatorError};
use warpkov_device::launch::{Device, Dim3, Extent, Shape, Unmet};

const BINS: u32 = 4;

/// Rows of a table.
#[derive(Clone, Copy, Parameter)]
pub struct Table {
    /// Number of rows.
    pub rows: u32,
    /// Numbers in a row.
    pub columns: u64,
    /// The numbers.
    pub numbers: Global<f32>,
}

#[kernel(
    T = [f32, f64],
    LANES = [1, 2],
    requires(
        x.len() >= LANES * n,
        bins.len() >= BINS,
        table.numbers.len() >= table.rows * table.columns + 1,
        (x.len() + 3) / 4 <= 8,
        shape.block % 32 == 0,
        shape.threads >= n,
        shape.shared >= 8 * shape.block,
        shape.dimensions == 1,
    ),
    block = 64
)]
fn counted<T: Real, const LANES: usize>(n: u32, x: Global<T>, bins: GlobalMut<u32>, table: Table) {
    let i = thread::index_1d();
    if i < u64::from(n) {
        bins.set(i as usize, (x.get(LANES * i as usize).to_f64() + f64::from(table.numbers.get(0))) as u32);
    }
}

/// Launches with these lengths of `x`, `bins` and `numbers`, and this shape.
fn launched([x, bins, numbers]: [usize; 3], columns: u64, shape: Shape) -> Result<Vec<u32>, EmulatorError> {
    let device = Emulator::default();
    let (x, numbers) = (device.zeros::<f64>(x)?, device.upload(&vec![1.0_f32; numbers])?);
    let mut bins = device.zeros::<u32>(bins)?;
    let table = TableArgs { rows: 3, columns, numbers: &numbers };
    // SAFETY: three threads write the first elements of `bins`, which has four, and read as many pairs of `x`: so says the contract.
    unsafe { counted::<f64, 2, _>(&device, shape, 3, &x, &mut bins, table)? };
    device.to_vec(&bins)
}

fn refusal(lengths: [usize; 3], columns: u64, shape: Shape) -> String {
    match launched(lengths, columns, shape) {
        Err(EmulatorError::Unmet(unmet)) => unmet.to_string(),
        other => panic!("expected an unmet requirement, got {other:?}"),
    }
}

#[test]
fn launches_that_meet_the_contract_run() {
    let shape = Shape::new(1, 64).with_shared(512);
    assert_eq!(launched([6, 4, 7], 2, shape).unwrap(), [1, 1, 1, 0]);
}

#[test]
fn a_refusal_names_the_requirement_and_the_numbers() {
    let shape = Shape::new(1, 64).with_shared(512);
    let of = |what: &str| format!("kernel counted cannot be launched: it requires {what}");
    for (lengths, columns, shape, expected) in [
        ([5, 4, 7], 2, shape, "x.len() >= LANES * n, and x.len() is 5, LANES * n is 6"),
        ([6, 3, 7], 2, shape, "bins.len() >= BINS, and bins.len() is 3, BINS is 4"),
        (
            [6, 4, 6],
            2,
            shape,
            "table.numbers.len() >= table.rows * table.columns + 1, and table.numbers.len() is 6, table.rows * table.columns + 1 is 7",
        ),
        // 3·(2⁶⁴ − 1) + 1 exceeds 64 bits.
        (
            [6, 4, 6],
            u64::MAX,
            shape,
            "table.numbers.len() >= table.rows * table.columns + 1, and table.numbers.len() is 6, table.rows * table.columns + 1 is \
             55340232221128654846",
        ),
        ([33, 4, 7], 2, shape, "(x.len() + 3) / 4 <= 8, and (x.len() + 3) / 4 is 9"),
        ([6, 4, 7], 2, Shape::new(1, 40), "shape.block % 32 == 0, and shape.block % 32 is 8"),
        ([6, 4, 7], 2, Shape::new(0, 64), "shape.threads >= n, and shape.threads is 0, n is 3"),
        ([6, 4, 7], 2, Shape::grid_stride(3, 64), "shape.threads >= n, and shape.resident is 1"),
        (
            [6, 4, 7],
            2,
            Shape::new(1, 64).with_shared(511),
            "shape.shared >= 8 * shape.block, and shape.shared is 511, 8 * shape.block is 512",
        ),
        (
            [6, 4, 7],
            2,
            Shape::new(Dim3 { x: 1, y: 2, z: 1 }, 64).with_shared(512),
            "shape.dimensions == 1, and shape.dimensions is 2",
        ),
        ([6, 4, 7], 2, Shape::new(1, 32).with_shared(512), "shape.block == 64, and shape.block is 32"),
    ] {
        assert_eq!(refusal(lengths, columns, shape), of(expected));
    }
}

#[test]
fn extents_neither_wrap_nor_panic() {
    let of = Extent::of::<u64>;
    assert_eq!(of(3) - of(5), of(0));
    assert_eq!(Extent(u128::MAX) * of(2) + of(1), Extent(u128::MAX));
    assert_eq!(Extent::of(-1_i32), of(0));
    assert_eq!(
        (of(7).div_ceil(of(2)), of(7).next_multiple_of(of(4)), of(7) / of(2), of(7) % of(4)),
        (of(4), of(8), of(3), of(3))
    );
    assert_eq!((of(7) / of(0), of(7).div_ceil(of(0))), (Extent(u128::MAX), Extent(u128::MAX)));
    let unmet = Unmet { kernel: "k", requirement: "x.len() >= 4", sides: [("x.len()", 3), ("4", 4)] };
    assert_eq!(unmet.to_string(), "kernel k cannot be launched: it requires x.len() >= 4, and x.len() is 3");
}
