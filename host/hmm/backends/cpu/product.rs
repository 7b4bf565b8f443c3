//! Products of a few rows with a matrix over (+, ·) and (max, +), compiled for the widest vector registers of the
//! processor.
//!
//! The order of summation of an entry is that of the inner index, or the one of [`few`] for at most [`LANES`] states.
//! It does not depend on the other rows, so a row's product has the same bits alone and in a group. Panel rows that
//! hold only the semiring's zero are skipped, which changes no bit.

use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;

use warpkov_runtime::Precise;

/// Vector length of all loops. The stride of rows is a multiple of it.
pub const LANES: usize = 8;

/// Columns per panel for more than [`LANES`] states.
const WIDTH: usize = 16;

/// Number of panels from which the stride is an odd number of panels, so that equal columns of many rows do not share a
/// cache set.
const CROWDED: usize = 16;

/// Padded length of a row of `n` numbers.
pub fn stride(n: usize) -> usize {
    let panels = n.div_ceil(WIDTH);
    match n {
        0..=LANES => LANES,
        _ => WIDTH * if panels >= CROWDED { panels | 1 } else { panels },
    }
}

/// An instruction set.
pub trait Registers {
    /// Whether it has a fused multiply-add.
    const FUSED: bool;
    /// Bytes of the vector registers that hold the sums of a tile.
    const BYTES: usize;
}

struct Narrow;

impl Registers for Narrow {
    const FUSED: bool = cfg!(target_arch = "aarch64");
    const BYTES: usize = 128;
}

#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Registers for Avx2 {
    const FUSED: bool = true;
    const BYTES: usize = 256;
}

#[cfg(target_arch = "x86_64")]
struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Registers for Avx512 {
    const FUSED: bool = true;
    const BYTES: usize = 512;
}

/// Work compiled once per instruction set. `run` and all functions that it calls are `#[inline(always)]`, so that they
/// inherit the target features.
pub trait Work {
    /// Whether 512-bit registers make it faster.
    const WIDE: bool;
    type Output;

    fn run<S: Registers>(self) -> Self::Output;
}

/// Runs the work with the widest registers of this processor.
pub fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
        fn avx512<W: Work>(work: W) -> W::Output {
            work.run::<Avx512>()
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2<W: Work>(work: W) -> W::Output {
            work.run::<Avx2>()
        }
        let has512 = W::WIDE
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512dq");
        if has512 {
            // SAFETY: `has512` holds, so this processor has every target feature of `avx512`.
            return unsafe { avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the condition holds, so this processor has both target features of `avx2`.
            return unsafe { avx2(work) };
        }
    }
    work.run::<Narrow>()
}

/// A semiring; + and · in these comments are its operations.
pub trait Semiring<T> {
    /// Whether 512-bit registers make it faster.
    const WIDE: bool;

    /// The neutral element of +.
    const ZERO: T;

    /// sum + x · a, rounded once where `FUSED`.
    fn add<const FUSED: bool>(sum: T, x: T, a: T) -> T;

    /// a + b.
    fn join(a: T, b: T) -> T;
}

/// sum + x · a.
#[inline(always)]
pub fn sum<S: Registers, Q: Semiring<T>, T>(sum: T, x: T, a: T) -> T {
    if S::FUSED { Q::add::<true>(sum, x, a) } else { Q::add::<false>(sum, x, a) }
}

/// (+, ·).
pub struct SumProduct;

impl<T: Precise> Semiring<T> for SumProduct {
    const WIDE: bool = true;
    const ZERO: T = T::ZERO;

    #[inline(always)]
    fn add<const FUSED: bool>(sum: T, x: T, a: T) -> T {
        if FUSED { x.fma(a, sum) } else { sum + x * a }
    }

    #[inline(always)]
    fn join(a: T, b: T) -> T {
        a + b
    }
}

/// (max, +).
pub struct MaxPlus;

impl<T: Precise> Semiring<T> for MaxPlus {
    // LLVM 22 turns 512-bit comparisons into scalar code with masks.
    const WIDE: bool = false;
    const ZERO: T = T::NEG_INFINITY;

    #[inline(always)]
    fn add<const FUSED: bool>(sum: T, x: T, a: T) -> T {
        let term = x + a;
        if term > sum { term } else { sum }
    }

    #[inline(always)]
    fn join(a: T, b: T) -> T {
        if b > a { b } else { a }
    }
}

/// A square matrix in panels of [`WIDTH`] or [`LANES`] columns.
pub struct Panels<T> {
    n: usize,
    /// Row i of panel p of W columns begins at (p · n + i) · W.
    entries: Vec<T>,
    /// For each panel the range of rows outside which all entries are the semiring's zero; narrow for left-right
    /// models.
    bands: Vec<Range<usize>>,
}

impl<T: Precise> Panels<T> {
    /// The matrix of `n` rows with these entries, padded with the semiring's zero.
    pub fn new<Q: Semiring<T>>(n: usize, entry: impl Fn(usize, usize) -> T) -> Self {
        let width = if n <= LANES { LANES } else { WIDTH };
        let mut entries = vec![Q::ZERO; n.next_multiple_of(width) * n];
        let mut bands = Vec::with_capacity(n.div_ceil(width));
        for (panel, rows) in entries.chunks_exact_mut(width * n).enumerate() {
            let columns = panel * width..n.min((panel + 1) * width);
            let mut band = 0..0;
            for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                let mut some = false;
                for (target, j) in row.iter_mut().zip(columns.clone()) {
                    *target = entry(i, j);
                    some |= *target != Q::ZERO;
                }
                if some {
                    band = if band.is_empty() { i..i + 1 } else { band.start..i + 1 };
                }
            }
            bands.push(band);
        }
        Self { n, entries, bands }
    }

    /// All rows of a panel of W columns.
    #[inline(always)]
    pub fn panel<const W: usize>(&self, panel: usize) -> &[[T; W]] {
        &self.entries.as_chunks::<W>().0[panel * self.n..][..self.n]
    }
}

/// y = x · A for `rows` rows of `stride` numbers.
pub fn multiply<Q: Semiring<T>, T: Precise>(rows: usize, stride: usize, x: &[T], matrix: &Panels<T>, y: &mut [T]) {
    widest(Multiply { rows, stride, x, matrix, y, semiring: PhantomData::<Q> });
}

/// x · A for at most W states, which are at most [`LANES`]. Terms of even and of odd index have separate sums, which halves the latency.
#[inline(always)]
pub fn few<S: Registers, Q: Semiring<T>, T: Precise, const W: usize>(x: &[T; W], rows: &[[T; LANES]]) -> [T; W] {
    let (mut even, mut odd) = ([Q::ZERO; W], [Q::ZERO; W]);
    // A loop of constant length, so that x stays in registers.
    for (i, &x) in x.iter().enumerate() {
        let Some(row) = rows.get(i) else { break };
        let sums = if i % 2 == 0 { &mut even } else { &mut odd };
        for lane in 0..W {
            sums[lane] = sum::<S, Q, T>(sums[lane], x, row[lane]);
        }
    }
    std::array::from_fn(|lane| Q::join(even[lane], odd[lane]))
}

struct Multiply<'a, Q, T> {
    rows: usize,
    stride: usize,
    x: &'a [T],
    matrix: &'a Panels<T>,
    y: &'a mut [T],
    semiring: PhantomData<Q>,
}

impl<Q: Semiring<T>, T: Precise> Work for Multiply<'_, Q, T> {
    const WIDE: bool = Q::WIDE;
    type Output = ();

    #[inline(always)]
    fn run<S: Registers>(self) {
        let Self { rows, stride, x, matrix, y, .. } = self;
        if stride == LANES {
            for (x, y) in x.as_chunks().0.iter().zip(y.as_chunks_mut().0).take(rows) {
                *y = few::<S, Q, T, LANES>(x, matrix.panel(0));
            }
            return;
        }
        let panels = matrix.bands.len();
        // Rows per tile, such that their sums fill the registers.
        let most = (S::BYTES / (WIDTH * size_of::<T>())).max(1);
        let whole = rows - rows % most;
        for panel in 0..panels {
            for row in (0..whole).step_by(most) {
                match most {
                    8 => tile::<S, Q, T, 8, 1, WIDTH>(row, panel, stride, x, matrix, y),
                    4 => tile::<S, Q, T, 4, 1, WIDTH>(row, panel, stride, x, matrix, y),
                    2 => tile::<S, Q, T, 2, 1, WIDTH>(row, panel, stride, x, matrix, y),
                    _ => tile::<S, Q, T, 1, 1, WIDTH>(row, panel, stride, x, matrix, y),
                }
            }
        }
        // The remaining rows take tiles of fewer rows and more panels, unless the bands of the panels differ.
        let banded = 2 * matrix.bands.iter().map(Range::len).sum::<usize>() < panels * matrix.n;
        let mut row = whole;
        for height in [4, 2, 1] {
            if (rows - whole) & height == 0 {
                continue;
            }
            let mut panel = 0;
            while panel < panels {
                let abreast = if !banded && panel + most / height <= panels { most / height } else { 1 };
                match (height, abreast) {
                    (4, 2) => tile::<S, Q, T, 4, 2, WIDTH>(row, panel, stride, x, matrix, y),
                    (4, _) => tile::<S, Q, T, 4, 1, WIDTH>(row, panel, stride, x, matrix, y),
                    (2, 4) => tile::<S, Q, T, 2, 4, WIDTH>(row, panel, stride, x, matrix, y),
                    (2, 2) => tile::<S, Q, T, 2, 2, WIDTH>(row, panel, stride, x, matrix, y),
                    (2, _) => tile::<S, Q, T, 2, 1, WIDTH>(row, panel, stride, x, matrix, y),
                    (_, 8) => tile::<S, Q, T, 1, 8, WIDTH>(row, panel, stride, x, matrix, y),
                    (_, 4) => tile::<S, Q, T, 1, 4, WIDTH>(row, panel, stride, x, matrix, y),
                    (_, 2) => tile::<S, Q, T, 1, 2, WIDTH>(row, panel, stride, x, matrix, y),
                    (_, _) => tile::<S, Q, T, 1, 1, WIDTH>(row, panel, stride, x, matrix, y),
                }
                panel += abreast;
            }
            row += height;
        }
    }
}

/// Computes a tile of y: R rows by P panels of W columns.
#[inline(always)]
fn tile<S: Registers, Q: Semiring<T>, T: Precise, const R: usize, const P: usize, const W: usize>(
    row: usize,
    panel: usize,
    stride: usize,
    x: &[T],
    matrix: &Panels<T>,
    y: &mut [T],
) {
    let bands = &matrix.bands[panel..][..P];
    let band = bands[1..].iter().fold(bands[0].clone(), |all, band| all.start.min(band.start)..all.end.max(band.end));
    let x: [&[T]; R] = std::array::from_fn(|r| &x[(row + r) * stride..][band.clone()]);
    let a: [&[[T; W]]; P] = std::array::from_fn(|p| &matrix.panel(panel + p)[band.clone()]);
    let mut sums = [[[Q::ZERO; W]; P]; R];
    for i in 0..band.len() {
        for p in 0..P {
            let a = &a[p][i];
            for r in 0..R {
                let x = x[r][i];
                for lane in 0..W {
                    sums[r][p][lane] = sum::<S, Q, T>(sums[r][p][lane], x, a[lane]);
                }
            }
        }
    }
    for r in 0..R {
        for p in 0..P {
            y[(row + r) * stride + (panel + p) * W..][..W].copy_from_slice(&sums[r][p]);
        }
    }
}

/// sums += xᵀ · y. x and y have rows of `stride` numbers; `sums` has `n` rows, in double precision.
pub fn accumulate<T: Precise>(n: usize, stride: usize, x: &[T], y: &[T], sums: &mut [f64]) {
    widest(Accumulate { n, stride, x, y, sums });
}

struct Accumulate<'a, T> {
    n: usize,
    stride: usize,
    x: &'a [T],
    y: &'a [T],
    sums: &'a mut [f64],
}

impl<T: Precise> Work for Accumulate<'_, T> {
    const WIDE: bool = true;
    type Output = ();

    #[inline(always)]
    fn run<S: Registers>(self) {
        let Self { n, stride, x, y, sums } = self;
        if stride == LANES {
            return outer::<S, T, LANES, LANES>(n, 0, 0, stride, x, y, sums);
        }
        let high = (S::BYTES / (WIDTH * size_of::<T>())).max(1);
        for panel in 0..n.div_ceil(WIDTH) {
            for i in (0..n).step_by(high) {
                match high {
                    8 => outer::<S, T, 8, WIDTH>(n, i, panel * WIDTH, stride, x, y, sums),
                    4 => outer::<S, T, 4, WIDTH>(n, i, panel * WIDTH, stride, x, y, sums),
                    2 => outer::<S, T, 2, WIDTH>(n, i, panel * WIDTH, stride, x, y, sums),
                    _ => outer::<S, T, 1, WIDTH>(n, i, panel * WIDTH, stride, x, y, sums),
                }
            }
        }
    }
}

/// Adds a tile of xᵀ · y: R rows from i, W columns from j.
#[inline(always)]
fn outer<S: Registers, T: Precise, const R: usize, const W: usize>(
    n: usize,
    i: usize,
    j: usize,
    stride: usize,
    x: &[T],
    y: &[T],
    sums: &mut [f64],
) {
    let mut tile = [[T::ZERO; W]; R];
    for (x, y) in x.chunks_exact(stride).zip(y.chunks_exact(stride)) {
        let (x, y) = (&x[i..][..R], &y[j..][..W]);
        for r in 0..R {
            for lane in 0..W {
                tile[r][lane] = sum::<S, SumProduct, T>(tile[r][lane], x[r], y[lane]);
            }
        }
    }
    for (r, tile) in tile.iter().enumerate().take(n - i) {
        for (sum, &term) in sums[(i + r) * stride + j..][..W].iter_mut().zip(tile) {
            *sum += term.to_f64();
        }
    }
}

/// The sum of a row, in a fixed order.
#[inline(always)]
pub fn total<T: Precise>(terms: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    for terms in terms.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            sums[lane] += terms[lane];
        }
    }
    fold_row(terms.len(), sums, |a, b| a + b)
}

/// Keeps LLVM from vectorising across iterations, with gathers and scatters, where each iteration is one vector
/// operation.
#[inline(always)]
fn one_by_one() {
    black_box(());
}

/// xᵢ ← f(xᵢ, yᵢ). Each iteration reads all lanes before it writes, because LLVM vectorises possibly aliasing rows only
/// then.
#[inline(always)]
pub fn by_lanes<T: Copy, U: Copy>(x: &mut [T], y: &[U], f: impl Fn(T, U) -> T) {
    for (x, y) in x.as_chunks_mut::<LANES>().0.iter_mut().zip(y.as_chunks::<LANES>().0) {
        one_by_one();
        let (mut all, y) = (*x, *y);
        for lane in 0..LANES {
            all[lane] = f(all[lane], y[lane]);
        }
        *x = all;
    }
}

/// Reduces all lanes, which a loop over a row of `stride` numbers has filled.
#[inline(always)]
pub fn fold_row<T: Precise>(stride: usize, all: [T; LANES], of: impl Fn(T, T) -> T) -> T {
    // `black_box` keeps the array in memory. LLVM 22 would otherwise split the loop into vectors of two lanes.
    fold(if stride > LANES { black_box(all) } else { all }, of)
}

/// Reduces W lanes, a power of two, by halving.
#[inline(always)]
pub fn fold<T: Precise, const W: usize>(mut all: [T; W], of: impl Fn(T, T) -> T) -> T {
    let mut half = W / 2;
    while half > 0 {
        for lane in 0..half {
            all[lane] = of(all[lane], all[lane + half]);
        }
        half /= 2;
    }
    all[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers, so that sums of products are exact.
    fn whole(i: usize, j: usize) -> f64 {
        ((7 * i + 3 * j) % 11) as f64 - 5.0
    }

    #[test]
    fn products_are_those_of_plain_loops() {
        for n in [1, 2, 8, 9, 15, 16, 17, 70, 260] {
            let stride = stride(n);
            for rows in [1, 2, 3, 5, 7, 16] {
                let x: Vec<f64> = (0..rows * stride).map(|at| whole(at % stride, at / stride)).collect();
                let sums = Panels::new::<SumProduct>(n, whole);
                let (mut found, mut highest) = (vec![0.0; rows * stride], vec![0.0; rows * stride]);
                multiply::<SumProduct, f64>(rows, stride, &x, &sums, &mut found);
                let most = Panels::new::<MaxPlus>(n, whole);
                multiply::<MaxPlus, f64>(rows, stride, &x, &most, &mut highest);
                for row in 0..rows {
                    for j in 0..n {
                        let terms = || (0..n).map(|i| (x[row * stride + i], whole(i, j)));
                        assert_eq!(found[row * stride + j], terms().map(|(x, a)| x * a).sum::<f64>());
                        let expected = terms().map(|(x, a)| x + a).fold(f64::NEG_INFINITY, f64::max);
                        assert_eq!(highest[row * stride + j], expected, "{n} {rows} {row} {j}");
                    }
                }
            }
        }
    }
}
