//! Likelihoods and best paths of hidden Markov models, between proved bounds.
//!
//! All numbers of the recursions are nonnegative, so rounding every operation down gives a lower bound and rounding up an upper one. A number
//! has a mantissa and an exponent of its own (64 bits): nothing underflows, however long a sequence is, and no scaling is needed.
//!
//! - *Likelihood.* α₁(i) = πᵢ bᵢ(O₁), αₜ(j) = Σᵢ αₜ₋₁(i) aᵢⱼ bⱼ(Oₜ), P(O) = Σ α_T(i) eᵢ (Rabiner, *A Tutorial on Hidden Markov Models*, 1989),
//!   with e = 1 for models without end probabilities.
//! - *Paths.* The maximum over all paths takes the place of the sum. The probability of a path is a product.
//!
//! ln m·2ᵉ = ln m + e ln 2, where the library's ln is taken to be off by at most two units in the last place.

use rayon::prelude::*;
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::sequences::{Observations, Sequences};

use crate::interval::Interval;

/// Why nothing can be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproved {
    /// Densities are computed by exponentials, which have no directed rounding here.
    #[error("likelihoods of vectors cannot be proved, expected symbols")]
    Vectors,
    /// The sequences have a symbol, or the path a state, that the model does not have.
    #[error("{what} {found}, expected one below {expected}")]
    Unknown {
        /// Symbol or state.
        what: &'static str,
        /// Its number.
        found: u32,
        /// The number of them.
        expected: u32,
    },
    /// Another number of states than of observations.
    #[error("a path of {found} states, expected {expected}")]
    Length {
        /// The length of the path.
        found: usize,
        /// The length of the sequence.
        expected: usize,
    },
}

/// m·2ᵉ with m in [½, 1), or 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scaled {
    mantissa: f64,
    exponent: i64,
}

impl Scaled {
    const ZERO: Self = Self { mantissa: 0.0, exponent: i64::MIN / 4 };
    const ONE: Self = Self { mantissa: 0.5, exponent: 1 };

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
        let near = self.mantissa.ln();
        let of_mantissa = Interval::new(near.next_down().next_down(), near.next_up().next_up());
        let two = std::f64::consts::LN_2;
        of_mantissa + Interval::point(self.exponent as f64) * Interval::new(two.next_down(), two.next_up())
    }
}

/// The numbers of a categorical model.
struct Chain {
    states: usize,
    symbols: usize,
    /// π.
    start: Vec<Scaled>,
    /// A, N × N.
    transitions: Vec<Scaled>,
    /// B, N × M.
    emissions: Vec<Scaled>,
    /// e.
    end: Vec<Scaled>,
}

impl Chain {
    fn new(model: &Hmm) -> Result<Self, Unproved> {
        let Emissions::Categorical { symbols, probs } = model.emissions() else { return Err(Unproved::Vectors) };
        let states = model.states() as usize;
        let scaled = |numbers: &[f64]| numbers.iter().map(|&x| Scaled::new(x)).collect::<Vec<_>>();
        Ok(Self {
            states,
            symbols: *symbols as usize,
            start: scaled(model.start()),
            transitions: scaled(model.transitions()),
            emissions: scaled(probs),
            end: model.end().map_or_else(|| vec![Scaled::ONE; states], scaled),
        })
    }

    fn emits(&self, state: usize, symbol: u32) -> Scaled {
        self.emissions[state * self.symbols + symbol as usize]
    }

    fn symbols<'s>(&self, sequences: &'s Sequences, sequence: usize) -> Result<&'s [u32], Unproved> {
        let Observations::Symbols(all) = sequences.observations() else { return Err(Unproved::Vectors) };
        let symbols = &all[sequences.range(sequence)];
        let expected = self.symbols as u32;
        match symbols.iter().find(|&&symbol| symbol >= expected) {
            Some(&found) => Err(Unproved::Unknown { what: "symbol", found, expected }),
            None => Ok(symbols),
        }
    }

    /// The sum over all paths, or the largest path, rounded one way.
    fn forward<const UP: bool>(&self, symbols: &[u32], join: fn(Scaled, Scaled) -> Scaled) -> Scaled {
        let states = self.states;
        let mut values = vec![Scaled::ONE; states];
        for (t, &symbol) in symbols.iter().enumerate() {
            let next = |to: usize| {
                let arrived = match t {
                    0 => self.start[to],
                    _ => (0..states).fold(Scaled::ZERO, |all, from| {
                        join(all, values[from].times::<UP>(self.transitions[from * states + to]))
                    }),
                };
                arrived.times::<UP>(self.emits(to, symbol))
            };
            values = (0..states).map(next).collect();
        }
        let ended = values.iter().enumerate().map(|(state, value)| value.times::<UP>(self.end[state]));
        ended.fold(Scaled::ZERO, join)
    }

    fn path<const UP: bool>(&self, symbols: &[u32], path: &[u32]) -> Scaled {
        let mut value = Scaled::ONE;
        let mut before = None;
        for (&symbol, &state) in symbols.iter().zip(path) {
            let state = state as usize;
            let step = match before {
                None => self.start[state],
                Some(before) => self.transitions[before * self.states + state],
            };
            value = value.times::<UP>(step).times::<UP>(self.emits(state, symbol));
            before = Some(state);
        }
        before.map_or(value, |state| value.times::<UP>(self.end[state]))
    }
}

/// ln P(O) of each sequence between proved bounds; −∞ where the model cannot emit it.
///
/// # Errors
/// [`Unproved`]: the model emits vectors, or lacks a symbol.
pub fn likelihoods(model: &Hmm, sequences: &Sequences) -> Result<Vec<Interval>, Unproved> {
    let chain = Chain::new(model)?;
    let of_sequence = |sequence: usize| {
        let symbols = chain.symbols(sequences, sequence)?;
        let low = chain.forward::<false>(symbols, Scaled::plus::<false>);
        let high = chain.forward::<true>(symbols, Scaled::plus::<true>);
        Ok(low.ln().hull(high.ln()))
    };
    (0..sequences.len()).into_par_iter().map(of_sequence).collect()
}

/// By how much ln P(O, q) of a path q for each sequence is below that of a best path, between proved bounds. `states` holds the paths one
/// after the other. 0 where no path is possible.
///
/// # Errors
/// [`Unproved`]: the model emits vectors, or lacks a symbol or a state.
pub fn shortfalls(model: &Hmm, sequences: &Sequences, states: &[u32]) -> Result<Vec<Interval>, Unproved> {
    let chain = Chain::new(model)?;
    if states.len() != sequences.steps() {
        return Err(Unproved::Length { found: states.len(), expected: sequences.steps() });
    }
    let of_sequence = |sequence: usize| {
        let symbols = chain.symbols(sequences, sequence)?;
        let low = chain.forward::<false>(symbols, Scaled::larger);
        let high = chain.forward::<true>(symbols, Scaled::larger);
        let best = low.ln().hull(high.ln());
        if best.hi == f64::NEG_INFINITY {
            return Ok(Interval::ZERO);
        }
        let path = &states[sequences.range(sequence)];
        let expected = model.states();
        if let Some(&found) = path.iter().find(|&&state| state >= expected) {
            return Err(Unproved::Unknown { what: "state", found, expected });
        }
        let own = chain.path::<false>(symbols, path).ln().hull(chain.path::<true>(symbols, path).ln());
        if own.hi == f64::NEG_INFINITY {
            return Ok(Interval::point(f64::INFINITY));
        }
        let gap = best - own;
        Ok(Interval::new(gap.lo.max(0.0), gap.hi.max(0.0)))
    };
    (0..sequences.len()).into_par_iter().map(of_sequence).collect()
}
