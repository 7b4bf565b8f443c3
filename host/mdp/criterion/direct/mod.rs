//! Policies evaluated by elimination, in as many bits as it takes.
//!
//! Sweeps take as long as the process does: where it goes on for 2^N steps in N + 2 states, or some policy that is as good
//! as the best one does, no number of sweeps is enough, and the rounding errors of `f64` hide what they find. Here states
//! are eliminated instead, one after the other, from the equations of one policy ([`chain`]), and policies are improved by
//! Howard's method (*Dynamic Programming and Markov Processes*, 1960) until bounds from both sides are proven: of expected
//! totals ([`proper`]) and of gains ([`gain`]). Numbers have 128 bits at first, and twice as many as long as that is not
//! enough.
//!
//! # Numbers
//! Entries are those of the model, unrounded: an equation is multiplied by the sum of its row instead of divided. One
//! operation on numbers of b bits is off by at most 2⁻ᵇ of its result, and 2^(2 − b) is allowed for each.
//!
//! # Exactly 0
//! A value that lies within ±2⁻ᴮ for every B may be 0, and then nothing relative to it can be promised but 0 itself. Values
//! of policies are ratios of two determinants (Cramer's rule). The equation of a state s, times 2^d for the number d of
//! binary places of its numbers, has integers with magnitudes that add up to less than 2^(d + 2), and so the determinant
//! below is less than 2^B, B = Σₛ (dₛ + 2), by Hadamard's inequality. The one above is an integer: the value is 0, or 2⁻ᴮ at
//! least ([`separation`]).

use dashu_float::FBig;
use dashu_float::round::mode::HalfEven;

use super::{Options, middle};
use crate::common::interrupt;
use crate::mdp::model::Mdp;
use crate::mdp::solution::Status;

pub(super) mod chain;
pub(super) mod gain;
pub(super) mod model;
pub(super) mod proper;

/// A binary number of many bits.
pub(super) type Big = FBig<HalfEven>;

/// Entries of models that are solved this way, at most, and of what is made of them.
pub(super) const ENTRIES: usize = 1 << 20;

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It takes more work than is allowed.
    Spent,
    /// The observer asked to stop.
    Interrupted,
    /// Some states of the policy never reach the end.
    Improper,
    /// More bits are needed.
    Coarse,
}

/// Numbers of some bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Significant bits, at least 64.
    pub bits: usize,
}

impl Numbers {
    /// What is tried first.
    pub const FIRST: Self = Self { bits: 128 };

    /// The same number; 0 in place of one that is not finite.
    pub fn of(self, x: f64) -> Big {
        let exact = Big::try_from(x).unwrap_or(Big::ZERO);
        exact.with_precision(self.bits).value()
    }

    /// 2 to the power of `exponent`.
    pub fn power(self, exponent: isize) -> Big {
        Big::from_parts(1.into(), exponent).with_precision(self.bits).value()
    }

    /// More than `operations` are off by, relative to the magnitudes that they add up.
    pub fn error(self, operations: usize) -> Big {
        self.of(operations as f64) * self.power(2 - self.bits as isize)
    }

    /// With twice as many bits, and `least` at least.
    pub fn finer(self, least: usize) -> Self {
        Self { bits: (2 * self.bits).max(least.next_multiple_of(64)) }
    }
}

/// What may be spent: operations on numbers of 128 bits, about; and the question whether to stop.
pub(super) struct Work<'a> {
    left: f64,
    since: f64,
    interrupted: &'a mut dyn FnMut() -> bool,
}

impl<'a> Work<'a> {
    pub fn new(operations: f64, interrupted: &'a mut dyn FnMut() -> bool) -> Self {
        Self { left: operations, since: 0.0, interrupted }
    }

    /// Spends `operations` on numbers of so many bits.
    pub fn spend(&mut self, operations: usize, numbers: Numbers) -> Result<(), Halt> {
        /// Operations between two looks at the observer, about a hundredth of a second.
        const LOOK: f64 = 1e5;
        // Products of long numbers take more than twice as long if these are twice as long.
        let cost = operations as f64 * (0.75 + 0.25 * (numbers.bits as f64 / 128.0).powf(1.6));
        self.left -= cost;
        self.since += cost;
        if self.since > LOOK {
            self.since = 0.0;
            if interrupt::requested() || (self.interrupted)() {
                return Err(Halt::Interrupted);
            }
        }
        if self.left < 0.0 { Err(Halt::Spent) } else { Ok(()) }
    }
}

/// |x|
pub(super) fn size(x: &Big) -> Big {
    if *x < Big::ZERO { -x } else { x.clone() }
}

/// Bounds in `f64`, rounded outwards. Both are 0 where they differ from it by less than `smallest`, which is what a value
/// other than 0 would differ by.
pub(super) fn outwards(lower: &Big, upper: &Big, smallest: Option<&Big>) -> (f64, f64) {
    if smallest.is_some_and(|smallest| size(lower) < *smallest && size(upper) < *smallest) {
        return (0.0, 0.0);
    }
    let nearest = |x: &Big| x.to_f64().value();
    let (low, high) = (nearest(lower), nearest(upper));
    let is = |x: f64, of: &Big| Big::try_from(x).is_ok_and(|x| x == *of);
    (if is(low, lower) { low } else { low.next_down() }, if is(high, upper) { high } else { high.next_up() })
}

/// Bounds in `f64`, and what comes of them.
pub(super) struct Settled {
    pub lower: Vec<f64>,
    pub upper: Vec<f64>,
    verdict: Verdict,
}

impl Settled {
    /// Whether that is what was asked for.
    pub fn status(&self) -> Status {
        if self.verdict == Verdict::Met { Status::Solved } else { Status::Stalled }
    }
}

/// Bounds of all values, and what else a solution has.
pub(super) struct Solution<T> {
    pub lower: Vec<Big>,
    pub upper: Vec<Big>,
    pub rest: T,
}

/// Where [`deepen`] ended.
pub(super) struct Deepened<T> {
    /// The last solution.
    pub found: Option<(Settled, T)>,
    /// Whether it was asked to stop.
    pub interrupted: bool,
}

/// Solves a model in `numbers` of more and more bits, until bounds of its values are good enough or the work is spent. `numbers` become
/// the last.
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
    /// They are what was asked for.
    Met,
    /// They are not, but as close as numbers in `f64` can be.
    Enough,
    /// They will be closer with more bits, at least this many.
    More(usize),
}

/// What is known of values of a model that lie between these bounds.
fn settle(lower: &[Big], upper: &[Big], mdp: &Mdp, options: &Options, numbers: Numbers) -> Settled {
    // What a value other than 0 is at least, once it matters.
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
            let open = high - low > size(&numbers.of(middle(bounds.0, bounds.1))) * numbers.power(-60);
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

/// B: the value of a state is 0, or not within ±2⁻ᴮ.
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

/// How often a number must be doubled until it is an integer.
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
        let third = numbers.of(1.0) / numbers.of(3.0);
        let (low, high) = outwards(&third, &third, None);
        assert!(low < high && Big::try_from(low).unwrap() < third && Big::try_from(high).unwrap() > third);
        let half = numbers.of(0.5);
        assert_eq!(outwards(&half, &half, None), (0.5, 0.5));
        let (tiny, small) = (numbers.power(-5000), numbers.power(-4000));
        assert_eq!(outwards(&-&tiny, &tiny, Some(&small)), (0.0, 0.0));
        let (low, high) = outwards(&-&tiny, &tiny, None);
        assert!(low < 0.0 && high > 0.0);
    }
}
