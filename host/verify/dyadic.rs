//! The numbers of a model as they are: every finite `f64` is a dyadic rational m·2ᵉ, and so are sums and products.

use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;
use warpkov_mdp::model::Mdp;

use crate::interval::Sum;

/// A number m·2ᵉ.
#[derive(Clone, Debug)]
pub(crate) struct Dyadic {
    pub mantissa: IBig,
    pub exponent: i64,
}

impl Dyadic {
    pub fn new(x: f64) -> Self {
        let bits = x.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i64;
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, exponent) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        // Few bits make small integers.
        let zeros = if mantissa == 0 { 0 } else { mantissa.trailing_zeros() };
        let mantissa = IBig::from(mantissa >> zeros);
        Self { mantissa: if x < 0.0 { -mantissa } else { mantissa }, exponent: exponent + i64::from(zeros) }
    }

    pub fn times(&self, other: &Self) -> Self {
        Self { mantissa: &self.mantissa * &other.mantissa, exponent: self.exponent + other.exponent }
    }

    pub fn plus(self, other: Self) -> Self {
        if self.mantissa == IBig::ZERO {
            return other;
        }
        if other.mantissa == IBig::ZERO {
            return self;
        }
        let exponent = self.exponent.min(other.exponent);
        Self { mantissa: self.shifted(exponent) + other.shifted(exponent), exponent }
    }

    /// The integer x / 2^`exponent`, for an exponent of at most that of x.
    pub fn shifted(&self, exponent: i64) -> IBig {
        &self.mantissa << (self.exponent - exponent).max(0) as usize
    }

    /// The number as a fraction.
    pub fn rational(&self) -> RBig {
        if self.exponent >= 0 {
            RBig::from(&self.mantissa << self.exponent as usize)
        } else {
            RBig::from_parts(self.mantissa.clone(), UBig::ONE << self.exponent.unsigned_abs() as usize)
        }
    }
}

/// The rational number that equals a finite x.
#[must_use]
pub fn rational(x: f64) -> RBig {
    Dyadic::new(x).rational()
}

/// c + Σ P R of a row.
pub(crate) fn reward(mdp: &Mdp, row: usize) -> Dyadic {
    let (_, probs) = mdp.transitions().row(row);
    let terms = mdp.rewards_of(row).zip(probs).filter(|(r, _)| *r != 0.0);
    let terms = terms.map(|(r, &p)| Dyadic::new(p).times(&Dyadic::new(r)));
    terms.fold(Dyadic::new(mdp.action_reward(row)), Dyadic::plus)
}

/// The sign of the expected reward of a row, exactly.
pub(crate) fn sign_of_reward(mdp: &Mdp, row: usize) -> i8 {
    let (_, probs) = mdp.transitions().row(row);
    let mut sum = Sum::default();
    sum.add(mdp.action_reward(row));
    mdp.rewards_of(row).zip(probs).for_each(|(r, &p)| sum.add_product(p, r));
    let found = sum.interval();
    match (found.lo > 0.0, found.hi < 0.0) {
        (true, _) => 1,
        (_, true) => -1,
        _ => match reward(mdp, row).mantissa {
            x if x > IBig::ZERO => 1,
            x if x < IBig::ZERO => -1,
            _ => 0,
        },
    }
}
