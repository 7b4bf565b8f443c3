//! exp and ln between proved bounds, whatever the library's functions return, and numbers with an exponent of their own.

use std::f64::consts::LN_2;

use crate::interval::{Interval, Sum};

/// ln 2 − [`LN_2`].
const LN_2_REST: f64 = 2.319_046_813_846_299_6e-17;

/// Beyond this, exponents are no longer distinguished: sums of as many as a sequence has fit into 64 bits.
const LARGE: f64 = 1e11;

/// m·2ᵉ with m in [½, 1), or 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scaled {
    mantissa: f64,
    exponent: i64,
}

impl Scaled {
    const ZERO: Self = Self { mantissa: 0.0, exponent: i64::MIN / 4 };

    /// A number ≥ 0.
    fn new(x: f64) -> Self {
        if x <= 0.0 {
            return Self::ZERO;
        }
        // Subnormal numbers first become normal: both factors are powers of two.
        let (x, shift) = if x < f64::MIN_POSITIVE { (x * 2f64.powi(64), -64) } else { (x, 0) };
        let exponent = ((x.to_bits() >> 52) & 0x7ff) as i64 - 1022;
        let mantissa = f64::from_bits((x.to_bits() & !(0x7ff << 52)) | 1022 << 52);
        Self { mantissa, exponent: exponent + shift }
    }

    fn rounded<const UP: bool>(x: f64, exponent: i64) -> Self {
        let x = if UP { x.next_up() } else { x.next_down() };
        let scaled = Self::new(x);
        Self { exponent: scaled.exponent + exponent, ..scaled }
    }

    fn times<const UP: bool>(self, other: Self) -> Self {
        if self.mantissa == 0.0 || other.mantissa == 0.0 {
            return Self::ZERO;
        }
        Self::rounded::<UP>(self.mantissa * other.mantissa, self.exponent + other.exponent)
    }

    fn plus<const UP: bool>(self, other: Self) -> Self {
        if self.mantissa == 0.0 || other.mantissa == 0.0 {
            return if self.mantissa == 0.0 { other } else { self };
        }
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        // Far below the last place, the rounding covers it.
        let distance = (large.exponent - small.exponent).min(200) as i32;
        Self::rounded::<UP>(large.mantissa + small.mantissa * 2f64.powi(-distance), large.exponent)
    }

    fn larger(self, other: Self) -> Self {
        let key = |x: Self| (x.exponent, x.mantissa);
        if key(other) > key(self) { other } else { self }
    }

    /// An interval around the logarithm.
    fn ln(self) -> Interval {
        if self.mantissa == 0.0 {
            return Interval::point(f64::NEG_INFINITY);
        }
        let mut sum = Sum::default();
        sum.add_interval(ln(self.mantissa));
        add_twos(&mut sum, self.exponent as f64);
        sum.interval()
    }
}

/// A number ≥ 0 between bounds that neither underflow nor overflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Positive {
    low: Scaled,
    high: Scaled,
}

impl Positive {
    pub const ZERO: Self = Self { low: Scaled::ZERO, high: Scaled::ZERO };

    /// The number of a model.
    pub fn new(x: f64) -> Self {
        Self { low: Scaled::new(x), high: Scaled::new(x) }
    }

    pub fn times(self, other: Self) -> Self {
        Self { low: self.low.times::<false>(other.low), high: self.high.times::<true>(other.high) }
    }

    pub fn plus(self, other: Self) -> Self {
        Self { low: self.low.plus::<false>(other.low), high: self.high.plus::<true>(other.high) }
    }

    pub fn larger(self, other: Self) -> Self {
        Self { low: self.low.larger(other.low), high: self.high.larger(other.high) }
    }

    /// An interval around the logarithm.
    pub fn ln(self) -> Interval {
        self.low.ln().hull(self.high.ln())
    }

    /// eˣ; `None` if it may be too large for any use.
    pub fn exp(x: Interval) -> Option<Self> {
        if x.hi > LARGE {
            return None;
        }
        // The exponential rises.
        let low = if x.lo < -LARGE { Scaled::ZERO } else { exp(x.lo).0 };
        Some(Self { low, high: exp(x.hi.max(-LARGE)).1 })
    }
}

/// Adds k ln 2 for an integer k.
fn add_twos(sum: &mut Sum, k: f64) {
    sum.add_product(k, LN_2);
    sum.add_interval(Interval::point(k) * Interval::new(LN_2_REST.next_down(), LN_2_REST.next_up()));
}

/// eʳ for |r| ≤ ½, by Taylor's series: 1 + r (1 + r/2 (1 + r/3 (…))). Beyond the term n = 19, the innermost factor is 1 up to
/// |r|/20 (1 + |r|/21 (…)) < 0.03.
fn exp_small(r: Interval) -> Interval {
    let rest = Interval::new(0.97, 1.03);
    (1..=19).rev().fold(rest, |sum, n| Interval::point(1.0) + (r * sum).over(Interval::point(f64::from(n))))
}

/// Bounds of eˣ for |x| ≤ [`LARGE`].
fn exp(x: f64) -> (Scaled, Scaled) {
    let k = (x / LN_2).round();
    let mut rest = Sum::default();
    rest.add(x);
    add_twos(&mut rest, -k);
    let m = exp_small(rest.interval());
    let scaled = |end: f64| Scaled { exponent: Scaled::new(end).exponent + k as i64, ..Scaled::new(end) };
    (scaled(m.lo), scaled(m.hi))
}

/// An interval around ln x for a finite x > 0. The library's ln is a proposal y: ln x = y + ln(x/eʸ), and 1 − 1/q ≤ ln q ≤ q − 1.
pub(crate) fn ln(x: f64) -> Interval {
    let scaled = Scaled::new(x);
    let y = scaled.mantissa.ln();
    let quotient = Interval::point(scaled.mantissa).over(exp_near(y));
    let one = Interval::point(1.0);
    let low = one - one.over(quotient);
    let high = quotient - one;
    let mut sum = Sum::default();
    sum.add(y);
    sum.add_interval(Interval::new(low.lo, high.hi));
    add_twos(&mut sum, scaled.exponent as f64);
    sum.interval()
}

/// eʸ for |y| < 1, as an interval of plain numbers.
fn exp_near(y: f64) -> Interval {
    let half = exp_small(Interval::point(y / 2.0));
    half * half
}

#[cfg(test)]
mod tests {
    use super::*;

    /// e = Σ 1/n!, and ln 10 to 30 digits: 2.302585092994045684017991454684…
    #[test]
    fn constants_are_enclosed() {
        let one = Positive::exp(Interval::point(1.0)).unwrap();
        let e = std::f64::consts::E;
        // The nearest f64 is below e.
        assert!(one.low.mantissa * 4.0 <= e && one.high.mantissa * 4.0 > e, "{one:?}");
        assert!(one.high.mantissa - one.low.mantissa < 1e-15);
        for (x, near, rest) in [
            (10.0, std::f64::consts::LN_10, -2.170_756_223_382_249e-16),
            (2.0, LN_2, LN_2_REST),
            (0.5, -LN_2, -LN_2_REST),
        ] {
            let found = ln(x);
            let (low, high) = (found.lo - near, found.hi - near);
            assert!(low <= rest && rest <= high && high - low < 4e-15, "{x}: {found:?}");
        }
        assert!(ln(1.0).contains(0.0));
        let wide = ln(f64::from_bits(1));
        assert!((wide.lo + 1074.0 * LN_2).abs() < 1e-12 && (wide.hi + 1074.0 * LN_2).abs() < 1e-12, "{wide:?}");
    }

    #[test]
    fn exponentials_and_logarithms_are_inverse_at_all_magnitudes() {
        for x in [-1e10, -1e6, -745.3, -1.0, -1e-9, 0.0, 1e-300, 0.3, 1.0, 709.9, 1e6] {
            let back = Positive::exp(Interval::point(x)).unwrap().ln();
            assert!(back.contains(x) && back.hi - back.lo <= 4e-15 * x.abs().max(1.0), "{x}: {back:?}");
        }
        assert!(Positive::exp(Interval::ALL).is_none());
        let all = Positive::exp(Interval::new(f64::NEG_INFINITY, 0.0)).unwrap();
        assert!(all.low == Scaled::ZERO && all.ln().contains(0.0));
    }
}
