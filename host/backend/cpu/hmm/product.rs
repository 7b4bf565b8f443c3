//! Products of a few rows with a matrix, over (+, ·) and over (max, +), compiled for the widest registers there are.
//!
//! Every entry of a product is summed in ascending order of the inner index, whatever rows are multiplied beside it: a row's
//! product has the same bits alone and among others.

use std::marker::PhantomData;

use crate::backend::Precise;

/// Columns of a panel: what rows are padded to a multiple of.
pub const WIDTH: usize = 16;

/// Panels from which rows have an odd number of, so that equal columns of many rows do not share a cache set.
const CROWDED: usize = 16;

/// Length of the rows of `n` numbers, with padding.
pub fn stride(n: usize) -> usize {
    let panels = n.div_ceil(WIDTH);
    WIDTH * if panels >= CROWDED { panels | 1 } else { panels }
}

/// What a processor has.
trait Registers {
    /// Whether a product and a sum are one instruction.
    const FUSED: bool;
    /// Bytes of the registers that sums are kept in.
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

/// Work that is compiled for each kind of [`Registers`]: `run` and all that it calls must be `#[inline(always)]`.
trait Work {
    /// Whether registers of 512 bits are of use.
    const WIDE: bool;

    fn run<S: Registers>(self);
}

/// Does the work with the widest registers that there are.
fn widest<W: Work>(work: W) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
        fn avx512<W: Work>(work: W) {
            work.run::<Avx512>();
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2<W: Work>(work: W) {
            work.run::<Avx2>();
        }
        let has512 = W::WIDE
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512dq");
        if has512 {
            // SAFETY: the processor has just been found to have what the function is compiled for.
            return unsafe { avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: likewise.
            return unsafe { avx2(work) };
        }
    }
    work.run::<Narrow>();
}

/// How terms are made and summed.
pub trait Semiring<T> {
    /// Whether sums become vectors of 512 bits.
    const WIDE: bool;

    /// The sum of nothing.
    const ZERO: T;

    /// sum + x · a, rounded once where `FUSED`.
    fn add<const FUSED: bool>(sum: T, x: T, a: T) -> T;
}

#[inline(always)]
fn sum<S: Registers, Q: Semiring<T>, T>(sum: T, x: T, a: T) -> T {
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
}

/// (max, +).
pub struct MaxPlus;

impl<T: Precise> Semiring<T> for MaxPlus {
    // Of comparisons in such, LLVM 22 makes scalars with masks.
    const WIDE: bool = false;
    const ZERO: T = T::NEG_INFINITY;

    #[inline(always)]
    fn add<const FUSED: bool>(sum: T, x: T, a: T) -> T {
        let term = x + a;
        if term > sum { term } else { sum }
    }
}

/// A square matrix, [`WIDTH`] columns side by side.
pub struct Panels<T> {
    n: usize,
    /// Panel p holds row i at p · n + i.
    rows: Vec<[T; WIDTH]>,
}

impl<T: Precise> Panels<T> {
    /// The matrix of `n` rows with these entries, padded with the semiring's zero.
    pub fn new<Q: Semiring<T>>(n: usize, entry: impl Fn(usize, usize) -> T) -> Self {
        let columns = |panel: usize, i: usize| {
            std::array::from_fn(|lane| {
                let j = panel * WIDTH + lane;
                if j < n { entry(i, j) } else { Q::ZERO }
            })
        };
        let rows = (0..n.div_ceil(WIDTH)).flat_map(|panel| (0..n).map(move |i| (panel, i)));
        Self { n, rows: rows.map(|(panel, i)| columns(panel, i)).collect() }
    }

    fn panels(&self) -> usize {
        self.n.div_ceil(WIDTH)
    }

    #[inline(always)]
    fn panel(&self, panel: usize) -> &[[T; WIDTH]] {
        &self.rows[panel * self.n..][..self.n]
    }
}

/// y = x · A of `rows` rows, each at a multiple of `stride`.
pub fn multiply<Q: Semiring<T>, T: Precise>(rows: usize, stride: usize, x: &[T], matrix: &Panels<T>, y: &mut [T]) {
    widest(Multiply { rows, stride, x, matrix, y, semiring: PhantomData::<Q> });
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

    #[inline(always)]
    fn run<S: Registers>(self) {
        let Self { rows, stride, x, matrix, y, .. } = self;
        let panels = matrix.panels();
        // Rows at a time: their sums fill the registers.
        let most = (S::BYTES / (WIDTH * size_of::<T>())).max(1);
        let whole = rows - rows % most;
        for panel in 0..panels {
            for row in (0..whole).step_by(most) {
                match most {
                    8 => tile::<S, Q, T, 8, 1>(row, panel, stride, x, matrix, y),
                    4 => tile::<S, Q, T, 4, 1>(row, panel, stride, x, matrix, y),
                    2 => tile::<S, Q, T, 2, 1>(row, panel, stride, x, matrix, y),
                    _ => tile::<S, Q, T, 1, 1>(row, panel, stride, x, matrix, y),
                }
            }
        }
        // Fewer rows, and more panels instead.
        let mut row = whole;
        for height in [4, 2, 1] {
            if (rows - whole) & height == 0 {
                continue;
            }
            let mut panel = 0;
            while panel < panels {
                let abreast = if panel + most / height <= panels { most / height } else { 1 };
                match (height, abreast) {
                    (4, 2) => tile::<S, Q, T, 4, 2>(row, panel, stride, x, matrix, y),
                    (4, _) => tile::<S, Q, T, 4, 1>(row, panel, stride, x, matrix, y),
                    (2, 4) => tile::<S, Q, T, 2, 4>(row, panel, stride, x, matrix, y),
                    (2, 2) => tile::<S, Q, T, 2, 2>(row, panel, stride, x, matrix, y),
                    (2, _) => tile::<S, Q, T, 2, 1>(row, panel, stride, x, matrix, y),
                    (_, 8) => tile::<S, Q, T, 1, 8>(row, panel, stride, x, matrix, y),
                    (_, 4) => tile::<S, Q, T, 1, 4>(row, panel, stride, x, matrix, y),
                    (_, 2) => tile::<S, Q, T, 1, 2>(row, panel, stride, x, matrix, y),
                    (_, _) => tile::<S, Q, T, 1, 1>(row, panel, stride, x, matrix, y),
                }
                panel += abreast;
            }
            row += height;
        }
    }
}

/// R rows of y, P panels wide.
#[inline(always)]
fn tile<S: Registers, Q: Semiring<T>, T: Precise, const R: usize, const P: usize>(
    row: usize,
    panel: usize,
    stride: usize,
    x: &[T],
    matrix: &Panels<T>,
    y: &mut [T],
) {
    let n = matrix.n;
    let x: [&[T]; R] = std::array::from_fn(|r| &x[(row + r) * stride..][..n]);
    let a: [&[[T; WIDTH]]; P] = std::array::from_fn(|p| matrix.panel(panel + p));
    let mut sums = [[[Q::ZERO; WIDTH]; P]; R];
    for i in 0..n {
        for p in 0..P {
            let a = &a[p][i];
            for r in 0..R {
                let x = x[r][i];
                for lane in 0..WIDTH {
                    sums[r][p][lane] = sum::<S, Q, T>(sums[r][p][lane], x, a[lane]);
                }
            }
        }
    }
    for r in 0..R {
        for p in 0..P {
            y[(row + r) * stride + (panel + p) * WIDTH..][..WIDTH].copy_from_slice(&sums[r][p]);
        }
    }
}

/// sums += xᵀ · y over the rows of x and y: N rows of `stride`, in double precision.
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

    #[inline(always)]
    fn run<S: Registers>(self) {
        let Self { n, stride, x, y, sums } = self;
        let high = (S::BYTES / (WIDTH * size_of::<T>())).max(1);
        for panel in 0..n.div_ceil(WIDTH) {
            for i in (0..n).step_by(high) {
                match high {
                    8 => outer::<S, T, 8>(n, i, panel * WIDTH, stride, x, y, sums),
                    4 => outer::<S, T, 4>(n, i, panel * WIDTH, stride, x, y, sums),
                    2 => outer::<S, T, 2>(n, i, panel * WIDTH, stride, x, y, sums),
                    _ => outer::<S, T, 1>(n, i, panel * WIDTH, stride, x, y, sums),
                }
            }
        }
    }
}

/// R rows of xᵀ · y from i on, [`WIDTH`] columns from j on.
#[inline(always)]
fn outer<S: Registers, T: Precise, const R: usize>(
    n: usize,
    i: usize,
    j: usize,
    stride: usize,
    x: &[T],
    y: &[T],
    sums: &mut [f64],
) {
    let mut tile = [[T::ZERO; WIDTH]; R];
    for (x, y) in x.chunks_exact(stride).zip(y.chunks_exact(stride)) {
        let (x, y) = (&x[i..][..R], &y[j..][..WIDTH]);
        for r in 0..R {
            for lane in 0..WIDTH {
                tile[r][lane] = sum::<S, SumProduct, T>(tile[r][lane], x[r], y[lane]);
            }
        }
    }
    for (r, tile) in tile.iter().enumerate().take(n - i) {
        for (sum, &term) in sums[(i + r) * stride + j..][..WIDTH].iter_mut().zip(tile) {
            *sum += term.to_f64();
        }
    }
}

/// The sum of a row, whose length is a multiple of [`WIDTH`], always in the same order.
#[inline(always)]
pub fn total<T: Precise>(terms: impl Iterator<Item = [T; WIDTH]>) -> T {
    let mut sums = [T::ZERO; WIDTH];
    for terms in terms {
        for lane in 0..WIDTH {
            sums[lane] += terms[lane];
        }
    }
    let mut half = WIDTH / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers: sums of their products are exact.
    fn whole(i: usize, j: usize) -> f64 {
        ((7 * i + 3 * j) % 11) as f64 - 5.0
    }

    #[test]
    fn products_are_those_of_plain_loops() {
        for n in [1, 2, 15, 16, 17, 70, 260] {
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
