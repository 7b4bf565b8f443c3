//! Interval arithmetic in `f64` with outward rounding.
//!
//! An [`Interval`] contains the exact result of every operation on numbers within its operands. Each operation rounds to
//! nearest, as the processor does by default, and moves both ends outwards by one unit in the last place: the exact
//! result lies between the neighbours of the rounded one. The rounding mode of the processor is never changed.
//!
//! A [`Sum`] adds numbers and products with errors of the order of u², u = 2⁻⁵³: each addition splits into the rounded
//! result and its exact error (Knuth's TwoSum), each product likewise (by a fused multiply-add). The errors are summed
//! apart, and what this second sum loses is bounded (Ogita, Rump and Oishi, *Accurate Sum and Dot Product*, 2005).
//!
//! Overflow makes an end infinite and never a wrong finite number. Underflow of products is part of the bound.

use std::ops::{Add, Mul, Neg, Sub};

/// Unit roundoff of `f64`.
const UNIT: f64 = f64::EPSILON / 2.0;

/// Products of magnitudes outside `[SMALL, LARGE]` have no exact error term.
const SMALL: f64 = 1e-280;
/// See [`SMALL`].
const LARGE: f64 = 1e290;

/// A closed interval of real numbers, not empty. Ends may be infinite; NaN stands for the whole line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl Interval {
    /// All real numbers.
    pub const ALL: Self = Self { lo: f64::NEG_INFINITY, hi: f64::INFINITY };
    /// The number 0.
    pub const ZERO: Self = Self { lo: 0.0, hi: 0.0 };

    /// The interval of one number; all numbers for NaN.
    #[must_use]
    pub fn point(x: f64) -> Self {
        if x.is_nan() { Self::ALL } else { Self { lo: x, hi: x } }
    }

    /// The interval between two numbers; NaN opens its end.
    #[must_use]
    pub fn new(lo: f64, hi: f64) -> Self {
        Self { lo: if lo.is_nan() { f64::NEG_INFINITY } else { lo }, hi: if hi.is_nan() { f64::INFINITY } else { hi } }
    }

    /// The smallest interval that contains both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// {max(x, y)} of x and y within the operands.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { lo: self.lo.max(other.lo), hi: self.hi.max(other.hi) }
    }

    /// The numbers of both; of intervals without a common number, which contradict each other, this one.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        let (lo, hi) = (self.lo.max(other.lo), self.hi.min(other.hi));
        if lo <= hi { Self { lo, hi } } else { self }
    }

    /// Whether x is within.
    #[must_use]
    pub fn contains(self, x: f64) -> bool {
        self.lo <= x && x <= self.hi
    }

    /// x / y for y > 0; all numbers if y may be 0 or less.
    #[must_use]
    pub fn over(self, y: Self) -> Self {
        // NaN is no positive number either.
        if y.lo.is_nan() || y.lo <= 0.0 {
            return Self::ALL;
        }
        let quotient = |x: f64, y: f64| if x == 0.0 { 0.0 } else { x / y };
        let lo = quotient(self.lo, if self.lo < 0.0 { y.lo } else { y.hi });
        let hi = quotient(self.hi, if self.hi < 0.0 { y.hi } else { y.lo });
        Self::new(down(lo), up(hi))
    }
}

/// A lower bound of the exact result that was rounded to x. Exact zeros of sums and products stay.
fn down(x: f64) -> f64 {
    x.next_down()
}

/// An upper bound of the exact result that was rounded to x.
fn up(x: f64) -> f64 {
    x.next_up()
}

impl Add for Interval {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let exact = |a: f64, b: f64| a == 0.0 || b == 0.0;
        let (lo, hi) = (self.lo + other.lo, self.hi + other.hi);
        Self::new(
            if exact(self.lo, other.lo) { lo } else { down(lo) },
            if exact(self.hi, other.hi) { hi } else { up(hi) },
        )
    }
}

impl Neg for Interval {
    type Output = Self;

    fn neg(self) -> Self {
        Self { lo: -self.hi, hi: -self.lo }
    }
}

impl Sub for Interval {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Interval {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        // 0 times an infinite end is 0: the end stands for large finite numbers.
        let product = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        let ends = [(self.lo, other.lo), (self.lo, other.hi), (self.hi, other.lo), (self.hi, other.hi)];
        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
        for (a, b) in ends {
            let exact = a == 0.0 || b == 0.0 || a.abs() == 1.0 || b.abs() == 1.0;
            let p = product(a, b);
            lo = lo.min(if exact { p } else { down(p) });
            hi = hi.max(if exact { p } else { up(p) });
        }
        Self::new(lo, hi)
    }
}

/// A sum of numbers and products, with a bound on its error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// The sum in `f64`.
    high: f64,
    /// The sum of the errors of `high`.
    low: f64,
    /// Bound on what `low` lacks.
    error: f64,
}

impl Sum {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, x: f64) {
        let sum = self.high + x;
        let part = sum - self.high;
        let rest = (self.high - (sum - part)) + (x - part);
        self.high = sum;
        self.add_low(rest);
    }

    /// Adds an error term. Its addition rounds by at most u |low|.
    #[inline]
    fn add_low(&mut self, x: f64) {
        if x != 0.0 {
            self.low += x;
            self.widen(UNIT * self.low.abs());
        }
    }

    /// Enlarges the bound of the error.
    #[inline]
    fn widen(&mut self, error: f64) {
        // Two neighbours: the product before may have been rounded, too.
        self.error = (self.error + error.next_up()).next_up();
    }

    /// Adds a·b.
    #[inline]
    pub fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        let size = product.abs();
        self.add(product);
        if (SMALL..LARGE).contains(&size) {
            self.add_low(a.mul_add(b, -product));
        } else if a != 0.0 && b != 0.0 {
            self.widen((UNIT * size).max(f64::MIN_POSITIVE));
        }
    }

    /// Adds x·b.
    pub fn add_multiple(&mut self, x: Interval, b: f64) {
        if x.lo == x.hi { self.add_product(x.lo, b) } else { self.add_interval(x * Interval::point(b)) }
    }

    /// Adds a·b·c.
    #[inline]
    pub fn add_product3(&mut self, a: f64, b: f64, c: f64) {
        let product = a * b;
        let size = product.abs();
        self.add_product(product, c);
        if (SMALL..LARGE).contains(&size) {
            self.add_product(a.mul_add(b, -product), c);
        } else if a != 0.0 && b != 0.0 && c != 0.0 {
            self.widen(((UNIT * size).max(f64::MIN_POSITIVE) * c.abs()).next_up().max(f64::MIN_POSITIVE));
        }
    }

    /// Adds an interval.
    pub fn add_interval(&mut self, x: Interval) {
        // Half of an odd subnormal number is none.
        let middle = if x.lo == x.hi { x.lo } else { x.lo / 2.0 + x.hi / 2.0 };
        self.add(middle);
        if x.lo < x.hi {
            self.widen((x.hi - middle).max(middle - x.lo).next_up());
        }
    }

    /// The interval that contains the exact sum.
    #[must_use]
    pub fn interval(self) -> Interval {
        let Self { high, low, error } = self;
        if !(high.is_finite() && low.is_finite() && error.is_finite()) {
            return Interval::ALL;
        }
        Interval::point(high) + (Interval::point(low) + Interval::new(-error, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_contain_the_smallest_numbers() {
        for x in [f64::from_bits(1), -f64::from_bits(3), 1.0 / 3.0] {
            let mut sum = Sum::default();
            sum.add_interval(Interval::point(x));
            assert!(sum.interval().contains(x), "{x:e}");
        }
    }
}
