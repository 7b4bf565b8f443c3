//! Policy iteration with evaluation by elimination, in as many bits as necessary.
//!
//! Sweeps take as long as the process lasts. A process of N + 2 states can last 2^N steps, under the optimal policy or
//! one as good. Then no affordable number of sweeps suffices, and rounding errors of `f64` hide the result. This module
//! instead eliminates the states, one after the other, from the equations of one policy ([`chain`]). Howard's method
//! (*Dynamic Programming and Markov Processes*, 1960) improves the policy until bounds from both sides are proven, for
//! expected totals ([`proper`]) and for gains ([`gain`]). Numbers start with 128 bits; the number of bits doubles until
//! it suffices.
//!
//! # Numbers
//! The entries of the model enter without rounding: each equation is multiplied by the sum of its row instead of
//! divided by it. An operation on numbers of b bits has a relative error of at most 2⁻ᵇ; the bounds allow 2^(2 − b) for
//! each.
//!
//! # Exact zeros
//! Bounds that enclose 0 permit no relative error, however close they are: only a proof that the value is exactly 0
//! helps. The value of a policy is a ratio of two determinants (Cramer's rule). Let dₛ be the number of binary places
//! of the numbers in the equation of state s. The equation times 2^dₛ has integer coefficients, whose magnitudes sum to
//! less than 2^(dₛ + 2). By Hadamard's inequality, the denominator is less than 2^B with B = Σₛ (dₛ + 2). The numerator
//! is an integer. The value is therefore 0, or at least 2⁻ᴮ in magnitude ([`separation`]).

use dashu_float::FBig;
use dashu_float::round::mode::HalfEven;

use super::{Options, middle};
use crate::model::Mdp;
use crate::solution::Status;

pub(super) mod chain;
pub(super) mod gain;
pub(super) mod model;
pub(super) mod proper;

/// A binary floating-point number of arbitrary precision.
pub(super) type Big = FBig<HalfEven>;

/// Maximum number of entries of a model for elimination. Fill-in may reach four times as many.
pub(super) const ENTRIES: usize = 1 << 20;

/// Why an elimination has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The work exceeds its budget.
    Spent,
    /// The observer stopped the run.
    Interrupted,
    /// Under the policy, some states never reach the end.
    Improper,
    /// The precision does not suffice.
    Coarse,
}

/// A precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Significant bits, at least 64.
    pub bits: usize,
}

impl Numbers {
    /// The initial precision.
    pub const FIRST: Self = Self { bits: 128 };

    /// Converts `x` exactly; a number that is not finite becomes 0.
    pub fn big(self, x: f64) -> Big {
        let exact = Big::try_from(x).unwrap_or(Big::ZERO);
        exact.with_precision(self.bits).value()
    }

    /// 2 to the power of `exponent`.
    pub fn power(self, exponent: isize) -> Big {
        Big::from_parts(1.into(), exponent).with_precision(self.bits).value()
    }

    /// Upper bound of the error of `operations` operations, relative to the sum of the magnitudes of their terms.
    pub fn error(self, operations: usize) -> Big {
        self.big(operations as f64) * self.power(2 - self.bits as isize)
    }

    /// Twice as many bits, and at least `least`.
    pub fn finer(self, least: usize) -> Self {
        Self { bits: (2 * self.bits).max(least.next_multiple_of(64)) }
    }
}

/// A budget of operations, in units of operations on 128-bit numbers, and the check for interruption.
pub(super) struct Work<'a> {
    left: f64,
    since: f64,
    interrupted: &'a mut dyn FnMut() -> bool,
}

impl<'a> Work<'a> {
    pub fn new(operations: f64, interrupted: &'a mut dyn FnMut() -> bool) -> Self {
        Self { left: operations, since: 0.0, interrupted }
    }

    /// Spends `operations` in the precision of `numbers`.
    ///
    /// # Errors
    /// [`Halt::Spent`], [`Halt::Interrupted`].
    pub fn spend(&mut self, operations: usize, numbers: Numbers) -> Result<(), Halt> {
        /// Operations between two calls of the observer, about a hundredth of a second.
        const LOOK: f64 = 1e5;
        // The time of a product grows faster than linearly with the number of bits.
        let cost = operations as f64 * (0.75 + 0.25 * (numbers.bits as f64 / 128.0).powf(1.6));
        self.left -= cost;
        self.since += cost;
        if self.since > LOOK {
            self.since = 0.0;
            if (self.interrupted)() {
                return Err(Halt::Interrupted);
            }
        }
        if self.left < 0.0 { Err(Halt::Spent) } else { Ok(()) }
    }
}

/// |x|.
pub(super) fn size(x: &Big) -> Big {
    if *x < Big::ZERO { -x } else { x.clone() }
}

/// Bounds in `f64`, rounded outwards. Both are 0 if their magnitudes are below `smallest`, the least magnitude of a
/// nonzero value.
pub(super) fn outwards(lower: &Big, upper: &Big, smallest: Option<&Big>) -> (f64, f64) {
    if smallest.is_some_and(|smallest| size(lower) < *smallest && size(upper) < *smallest) {
        return (0.0, 0.0);
    }
    let nearest = |x: &Big| x.to_f64().value();
    let (low, high) = (nearest(lower), nearest(upper));
    let is = |x: f64, of: &Big| Big::try_from(x).is_ok_and(|x| x == *of);
    (if is(low, lower) { low } else { low.next_down() }, if is(high, upper) { high } else { high.next_up() })
}

/// Bounds in `f64`, and the verdict on them.
pub(super) struct Settled {
    pub lower: Vec<f64>,
    pub upper: Vec<f64>,
    verdict: Verdict,
}

impl Settled {
    /// Solved if the bounds meet the options, else stalled.
    pub fn status(&self) -> Status {
        if self.verdict == Verdict::Met { Status::Solved } else { Status::Stalled }
    }
}

/// Bounds of all values, and the rest of a solution.
pub(super) struct Solution<T> {
    pub lower: Vec<Big>,
    pub upper: Vec<Big>,
    pub rest: T,
}

/// Result of [`deepen`].
pub(super) struct Deepened<T> {
    /// The last solution.
    pub found: Option<(Settled, T)>,
    /// Whether the observer stopped the run.
    pub interrupted: bool,
}

/// Solves a model in increasing precision, until the bounds of its values are good enough or the work is spent. Starts
/// at `numbers` and leaves the last precision in it.
pub(super) fn deepen<T>(
    mdp: &Mdp,
    options: &Options,
    numbers: &mut Numbers,
    work: &mut Work,
    mut solve: impl FnMut(Numbers, &mut Work) -> Result<Solution<T>, Halt>,
) -> Deepened<T> {
    let mut found = None;
    loop {
        let mut least = 0;
        match solve(*numbers, work) {
            Ok(Solution { lower, upper, rest }) => {
                let settled = settle(&lower, &upper, mdp, options, *numbers);
                let verdict = settled.verdict;
                found = Some((settled, rest));
                match verdict {
                    Verdict::More(bits) => least = bits,
                    Verdict::Met | Verdict::Enough => return Deepened { found, interrupted: false },
                }
            }
            Err(Halt::Coarse | Halt::Improper) => {}
            Err(halt @ (Halt::Spent | Halt::Interrupted)) => {
                return Deepened { found, interrupted: halt == Halt::Interrupted };
            }
        }
        *numbers = numbers.finer(least);
    }
}

/// Whether bounds are good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// They meet the options.
    Met,
    /// They do not meet the options, but are as close as `f64` allows.
    Enough,
    /// More bits, at least this many, bring them closer.
    More(usize),
}

/// Rounds these bounds to `f64` and judges them.
fn settle(lower: &[Big], upper: &[Big], mdp: &Mdp, options: &Options, numbers: Numbers) -> Settled {
    // B of [`separation`], computed on first use.
    let mut places = None;
    let (mut met, mut more) = (true, None);
    let of_state = |(low, high): (&Big, &Big)| {
        let (mut bounds, mut least) = (outwards(low, high, None), None);
        if *low <= Big::ZERO && *high >= Big::ZERO && options.relative {
            let places = *places.get_or_insert_with(|| separation(mdp));
            let smallest = numbers.power(-(places as isize));
            bounds = outwards(low, high, Some(&smallest));
            least = Some(places + 64);
        }
        if !options.is_met(bounds.0, bounds.1) {
            met = false;
            let open = high - low > size(&numbers.big(middle(bounds.0, bounds.1))) * numbers.power(-60);
            if open && bounds.0 != bounds.1 {
                more = more.max(Some(least.unwrap_or(0)));
            }
        }
        bounds
    };
    let (lower, upper) = lower.iter().zip(upper).map(of_state).unzip();
    let verdict = match (met, more) {
        (true, _) => Verdict::Met,
        (_, Some(bits)) => Verdict::More(bits),
        (_, None) => Verdict::Enough,
    };
    Settled { lower, upper, verdict }
}

/// B such that the value of each state is 0 or at least 2⁻ᴮ in magnitude.
fn separation(mdp: &Mdp) -> usize {
    let of_row = |row: usize| {
        let (_, probs) = mdp.transitions().row(row);
        let places_of_row = probs.iter().map(|&p| places(p)).fold(places(mdp.end(row)), usize::max);
        let rewards = mdp.rewards_of(row).zip(probs).map(|(r, &p)| if r == 0.0 { 0 } else { places(p) + places(r) });
        places_of_row + rewards.fold(places(mdp.action_reward(row)), usize::max)
    };
    let of_state = |state: usize| mdp.choices().rows(state).map(of_row).max().map_or(0, |places| places + 2);
    (0..mdp.states() as usize).map(of_state).sum()
}

/// Number of binary places of `x`: how often it must be doubled to become an integer.
fn places(x: f64) -> usize {
    if x == 0.0 || !x.is_finite() {
        return 0;
    }
    let bits = x.to_bits();
    let (biased, fraction) = (((bits >> 52) & 0x7ff) as isize, bits & ((1 << 52) - 1));
    let (significand, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | 1 << 52, biased - 1075) };
    let exponent = exponent + significand.trailing_zeros() as isize;
    usize::try_from(-exponent).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_places() {
        for (x, expected) in [(0.0, 0), (3.0, 0), (0.5, 1), (-0.75, 2), (1024.0, 0), (0.1, 55), (5e-324, 1074)] {
            assert_eq!(places(x), expected, "{x}");
        }
    }

    #[test]
    fn bounds_are_rounded_outwards() {
        let numbers = Numbers::FIRST;
        let third = numbers.big(1.0) / numbers.big(3.0);
        let (low, high) = outwards(&third, &third, None);
        assert!(low < high && Big::try_from(low).unwrap() < third && Big::try_from(high).unwrap() > third);
        let half = numbers.big(0.5);
        assert_eq!(outwards(&half, &half, None), (0.5, 0.5));
        let (tiny, small) = (numbers.power(-5000), numbers.power(-4000));
        assert_eq!(outwards(&-&tiny, &tiny, Some(&small)), (0.0, 0.0));
        let (low, high) = outwards(&-&tiny, &tiny, None);
        assert!(low < 0.0 && high > 0.0);
    }
}
