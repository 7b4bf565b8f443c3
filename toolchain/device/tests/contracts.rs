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
        bins.set(i, (x.get(LANES * i as usize).to_f64() + f64::from(table.numbers.get(0))) as u32);
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

#[kernel(T = [f32, f64], bounds(threads = 96, blocks = 3), requires(x.len() >= shape.threads))]
fn bounded<T: Real>(x: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    x.set(i, x.get(i) + T::ONE);
}

#[test]
fn a_block_beyond_the_launch_bounds_is_refused() {
    let device = Emulator::default();
    let mut x = device.zeros::<f64>(128).unwrap();
    // SAFETY: the contract compares the length.
    unsafe { bounded(&device, Shape::new(1, 96), &mut x) }.unwrap();
    for block in [128.into(), Dim3 { x: 32, y: 4, z: 1 }] {
        // SAFETY: as above.
        let refused = unsafe { bounded(&device, Shape::new(1, block), &mut x) };
        let Err(EmulatorError::Unmet(unmet)) = refused else { panic!("the block is too large: {refused:?}") };
        assert_eq!(unmet.sides[0], ("shape.block".to_owned(), 128));
        assert_eq!(
            unmet.to_string(),
            "kernel bounded cannot be launched: it requires shape.block <= 96, and shape.block is 128"
        );
    }
    let counts = device.to_vec(&x).unwrap();
    assert_eq!((counts[95], counts[96]), (1.0, 0.0));
}

/// The bytes of shared memory for so many numbers.
const fn shared(numbers: u32) -> u32 {
    4 * numbers
}

/// Numbers that a rule reads or leaves alone.
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(1 <= span, if span > BINS { marks.len() >= span.next_multiple_of(4) }))]
#[parameter(holds(marked), requires(marks.len() >= marked.next_power_of_two() + 11))]
pub struct Rule {
    /// How many.
    pub span: u32,
    /// Their marks.
    pub marks: Global<u32>,
}

/// A rule twice.
#[derive(Clone, Copy, Parameter)]
#[parameter(requires(first.span <= second.span.min(100)))]
#[parameter(holds(models, grids), requires(results.len() >= models * grids, if first.span > 8 { second.holds(grids) }))]
pub struct Rules<T> {
    /// Once.
    pub first: Rule,
    /// Again.
    pub second: Rule,
    /// The results.
    pub results: GlobalMut<T>,
}

#[kernel(
    T = [f32, f64],
    STORE = [false, true],
    requires(
        shape.shared >= shared(rules.first.span) + size_of::<T>() as u32,
        shape.grid.y <= 2,
        if STORE {
            rules.holds(models, shape.grid.y);
            if models > 1 && !(rules.first.span == 9) { shape.block.x == 32 }
        },
    )
)]
fn ruled<T: Real, const STORE: bool>(models: u32, rules: Rules<T>) {
    if STORE && thread::index_1d() == 0 && thread::block_idx_y() == 0 {
        rules.results.set(0, T::from_f64(f64::from(rules.second.span + models)));
    }
}

fn refused(launched: Result<(), EmulatorError>) -> String {
    match launched {
        Err(EmulatorError::Unmet(unmet)) => unmet.to_string(),
        other => panic!("expected an unmet requirement, got {other:?}"),
    }
}

/// Launches with these spans and lengths of the marks.
fn rule<const STORE: bool>(spans: [u32; 2], marks: [usize; 2], models: u32, shape: Shape) -> Result<(), EmulatorError> {
    let device = Emulator::default();
    let (first, second) = (device.zeros(marks[0])?, device.zeros(marks[1])?);
    let rules = RulesArgs {
        first: RuleArgs { span: spans[0], marks: &first },
        second: RuleArgs { span: spans[1], marks: &second },
        results: &mut device.zeros::<f64>(3)?,
    };
    // SAFETY: thread 0 writes one result.
    unsafe { ruled::<f64, STORE, _>(&device, shape, models, rules) }
}

#[test]
fn a_struct_requires_the_same_of_every_kernel() {
    let shape = Shape::new(Dim3 { x: 1, y: 2, z: 1 }, 64).with_shared(48);
    rule::<false>([1, 1], [0, 0], 9, shape).unwrap();
    rule::<true>([9, 9], [12, 13], 1, shape).unwrap();
    for (launched, expected) in [
        (rule::<true>([0, 9], [0, 0], 1, shape), "1 <= rules.first.span, and rules.first.span is 0"),
        (
            rule::<true>([1, 5], [0, 7], 1, shape),
            "rules.second.marks.len() >= rules.second.span.next_multiple_of(4) if rules.second.span > BINS, and \
             rules.second.marks.len() is 7, rules.second.span.next_multiple_of(4) is 8",
        ),
        (
            rule::<true>([4, 3], [0, 0], 1, shape),
            "rules.first.span <= rules.second.span.min(100), and rules.first.span is 4, rules.second.span.min(100) is 3",
        ),
    ] {
        assert_eq!(refused(launched), format!("kernel ruled cannot be launched: it requires {expected}"));
    }
}

#[test]
fn a_condition_requires_something_of_some_launches() {
    let shape = Shape::new(Dim3 { x: 1, y: 2, z: 1 }, 64).with_shared(48);
    rule::<false>([1, 1], [0, 0], 2, shape).unwrap();
    // A device counts the blocks of a resident grid in x alone.
    rule::<true>([1, 1], [0, 0], 1, Shape { resident: true, ..shape }).unwrap();
    for (launched, expected) in [
        (
            rule::<true>([1, 1], [0, 0], 2, shape),
            "rules.results.len() >= models * grids, and rules.results.len() is 3, models * grids is 4",
        ),
        (
            rule::<true>([9, 9], [12, 12], 1, Shape::new(Dim3 { x: 1, y: 3, z: 1 }, 64).with_shared(48)),
            "shape.grid.y <= 2, and shape.grid.y is 3",
        ),
        (
            rule::<true>([9, 9], [12, 12], 1, shape),
            "rules.second.marks.len() >= marked.next_power_of_two() + 11, and rules.second.marks.len() is 12, \
             marked.next_power_of_two() + 11 is 13",
        ),
        (
            rule::<true>([1, 1], [0, 0], 1, shape.with_shared(11)),
            "shape.shared >= shared(rules.first.span) + size_of::<T>() as u32, and shape.shared is 11, \
             shared(rules.first.span) + size_of::<T>() as u32 is 12",
        ),
    ] {
        assert_eq!(refused(launched), format!("kernel ruled cannot be launched: it requires {expected}"));
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
    let unmet = Unmet::unless(false, "k", ["x.len() >= 4", "x.len()", "4"], [3, 4]).unwrap_err();
    assert_eq!(unmet.to_string(), "kernel k cannot be launched: it requires x.len() >= 4, and x.len() is 3");
}
