//! Exact recursions: numbers with an extended exponent, for sequences whose α or β leave the range of `f64`. Results
//! are exact up to rounding.
//!
//! Every number is m · 2ᵉ with 1 ≤ m < 2. The exponent e is an integer stored as an `f64`, so that densities as small
//! as e^−10³⁰⁰ do not underflow. The recursions need no scaling:
//!
//! > αₜ(j) = bⱼ(oₜ) Σᵢ αₜ₋₁(i) Aᵢⱼ,  βₜ(i) = Σⱼ Aᵢⱼ bⱼ(oₜ₊₁) βₜ₊₁(j),  P(O) = Σᵢ αₜ(i) βₜ(i) at any t
//!
//! A sum is taken relative to the largest exponent of its terms, which loses less than 2⁻²⁰⁰ of the sum. Most sums take
//! a faster way. Let x = α / 2ᴱ, where E is the largest exponent of α. The plain `f64` sum Σᵢ xᵢ Aᵢⱼ has an absolute
//! error below N · 2⁻¹⁰⁰⁰ from underflow, so it is accurate wherever it is at least [`HEALTHY`]. Only the other entries
//! are summed term by term. A row takes O(N²) operations, or O(nonzeros of A) for a sparse A.
//!
//! Every backend, in any precision, hands [`Exact`] the sequences that are [uncertain](crate::backends::cpu::limits).

use std::f64::consts::{LN_2, LOG2_E};
use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

use crate::backend::{Expected, Statistics};
use crate::backends::cpu::channels::ChannelDensities;
use crate::backends::cpu::densities::{Completion, Densities, is_partial};
use crate::backends::cpu::emissions::restrict;
use crate::backends::cpu::limits::power;
use crate::backends::cpu::product::{Panels, SumProduct, multiply, stride};
use crate::backends::cpu::{FEW, each};
use crate::model::{Covariances, Emissions, Hmm};
use crate::sequences::{Observations, Sequences};

mod paths;

/// Least accurate plain `f64` sum, where the largest left factor is in [1, 2).
const HEALTHY: f64 = power(-800);

/// Exponent below which a plain sum omits a left factor.
const LOWEST: f64 = -1000.0;

/// Stored probabilities are multiplied by 2⁵⁰⁰, so that products with subnormal ones keep all bits.
const LIFT: f64 = 500.0;

/// Memory for the forward variables of a sequence, in bytes. A longer sequence stores checkpoints and √T steps at a
/// time.
const TRELLIS: usize = 4 << 20;

/// Maximum number of partial sums over sequences, and their memory in bytes.
const PARTS: usize = 64;
const SUMS: usize = 1 << 30;

/// Exponent from which rounding of the logarithm leaves no correct digit in the mantissa.
const DIGITS: f64 = power(40);

/// 2ᵏ for an integer k < 1024; 0 for k < −1022.
#[inline(always)]
fn pow2(k: f64) -> f64 {
    if k < -1022.0 { 0.0 } else { power(k as i64) }
}

/// (m, e) with x = m · 2ᵉ and 1 ≤ m < 2; (0, −∞) for x = 0.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    const FRACTION: u64 = (1 << 52) - 1;
    match x {
        x if x >= f64::MIN_POSITIVE => {
            let bits = x.to_bits();
            let exponent = (bits >> 52) as i64 - 1023;
            (f64::from_bits(bits & FRACTION | 1.0_f64.to_bits()), exponent as f64)
        }
        x if x > 0.0 => {
            let (m, e) = split(x * power(100));
            (m, e - 100.0)
        }
        _ => (0.0, f64::NEG_INFINITY),
    }
}

/// m · 2ᵉ.
#[derive(Clone, Copy, Debug)]
struct Number {
    m: f64,
    e: f64,
}

impl Number {
    const ZERO: Self = Self { m: 0.0, e: f64::NEG_INFINITY };

    /// m · 2ᵉ for any m ≥ 0, normalised.
    #[inline(always)]
    fn new(m: f64, e: f64) -> Self {
        let (m, more) = split(m);
        Self { m, e: if m > 0.0 { e + more } else { f64::NEG_INFINITY } }
    }

    /// eˣ; 0 for an infinite x or NaN.
    #[inline(always)]
    fn exp(x: f64) -> Self {
        // ln 2 = `HIGH` + `LOW`. `HIGH` has 33 significant bits, so that e · `HIGH` is exact.
        const HIGH: f64 = 0.693_147_180_369_123_8;
        const LOW: f64 = 1.908_214_929_270_587_7e-10;
        let e = (x * LOG2_E).round();
        match e.is_finite() {
            true if e.abs() < power(20) => Self::new(((x - e * HIGH) - e * LOW).exp(), e),
            // |x| is so large that its fraction is mostly rounding error.
            true => Self::new((x - e * LN_2).clamp(-1.0, 1.0).exp(), e),
            false => Self::ZERO,
        }
    }

    fn ln(self) -> f64 {
        if self.m == 0.0 { f64::NEG_INFINITY } else { self.m.ln() + self.e * LN_2 }
    }

    /// Whether the ratio to `other` is 1 within 10⁻³. Numbers whose mantissas have no correct digits always agree.
    fn agrees(self, other: Self) -> bool {
        self.e.abs() >= DIGITS || (self.over(other) - 1.0).abs() < 1e-3
    }

    /// `self` / `other` as an `f64`; 0 where the power of two is subnormal.
    fn over(self, other: Self) -> f64 {
        self.m / other.m * pow2((self.e - other.e).min(1000.0))
    }
}

/// A row of numbers, mantissas and exponents apart.
#[derive(Clone, Debug)]
struct Row {
    m: Vec<f64>,
    e: Vec<f64>,
}

impl Row {
    fn new(n: usize) -> Self {
        Self { m: vec![0.0; n], e: vec![f64::NEG_INFINITY; n] }
    }

    fn from_numbers(x: &[f64]) -> Self {
        let mut row = Self::new(x.len());
        x.iter().enumerate().for_each(|(j, &x)| row.set(j, Number::new(x, 0.0)));
        row
    }

    #[inline(always)]
    fn get(&self, j: usize) -> Number {
        Number { m: self.m[j], e: self.e[j] }
    }

    #[inline(always)]
    fn set(&mut self, j: usize, x: Number) {
        (self.m[j], self.e[j]) = (x.m, x.e);
    }

    fn copy_from(&mut self, other: &Self) {
        self.m.copy_from_slice(&other.m);
        self.e.copy_from_slice(&other.e);
    }

    /// x ∘ y.
    fn product(&mut self, x: &Self, y: &Self) {
        for j in 0..self.m.len() {
            // Both mantissas are below 2, the product below 4.
            let m = x.m[j] * y.m[j];
            let over = f64::from(u8::from(m >= 2.0));
            self.m[j] = if over > 0.0 { m * 0.5 } else { m };
            self.e[j] = x.e[j] + y.e[j] + over;
        }
    }

    /// x ∘ y for ordinary numbers y.
    fn set_products(&mut self, x: &Self, y: impl Fn(usize) -> f64) {
        for j in 0..self.m.len() {
            let (m, e) = split(y(j));
            self.set(j, Number::new(x.m[j] * m, x.e[j] + e));
        }
    }

    /// The indices of positive numbers, and their shares of the sum.
    fn shares(&self) -> impl Iterator<Item = (u32, f64)> {
        let sum = self.sum();
        let positive = (0..self.m.len()).filter(|&j| self.m[j] > 0.0);
        positive.map(move |j| (j as u32, self.get(j).over(sum))).filter(|(_, share)| *share > 0.0)
    }

    fn largest(&self) -> f64 {
        self.e.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn sum(&self) -> Number {
        let largest = self.largest();
        if largest == f64::NEG_INFINITY {
            return Number::ZERO;
        }
        Number::new(self.m.iter().zip(&self.e).map(|(m, e)| m * pow2(e - largest)).sum(), largest)
    }
}

/// A matrix of probabilities for products x · A: compressed sparse columns, and a dense copy where that is faster.
struct Matrix {
    n: usize,
    /// Dense copy, for plain sums over a matrix with many nonzeros.
    panels: Option<Panels<f64>>,
    /// Column pointers into the nonzeros, n + 1.
    starts: Vec<usize>,
    /// The nonzeros, column by column: row indices, values, and values times 2⁵⁰⁰.
    rows: Vec<u32>,
    values: Vec<f64>,
    lifted: Vec<f64>,
}

impl Matrix {
    fn new(n: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let (mut starts, mut rows, mut values) = (vec![0], Vec::new(), Vec::new());
        for j in 0..n {
            for (i, value) in (0..n).map(|i| (i, entry(i, j))).filter(|(_, value)| *value > 0.0) {
                rows.push(i as u32);
                values.push(value);
            }
            starts.push(rows.len());
        }
        // A sparse entry takes about four times as long as a vectorised dense one.
        let panels = (4 * values.len() > n * n && n > 4).then(|| Panels::new::<SumProduct>(n, entry));
        let lifted = values.iter().map(|value| value * power(LIFT as i64)).collect();
        Self { n, panels, starts, rows, values, lifted }
    }

    fn column(&self, j: usize) -> Range<usize> {
        self.starts[j]..self.starts[j + 1]
    }

    /// y = x · A.
    fn multiply(&self, x: &Row, y: &mut Row, scratch: &mut OrdinarySums) {
        let largest = x.largest();
        if largest == f64::NEG_INFINITY {
            y.m.fill(0.0);
            y.e.fill(f64::NEG_INFINITY);
            return;
        }
        for ((plain, m), e) in scratch.x.iter_mut().zip(&x.m).zip(&x.e) {
            let e = e - largest;
            *plain = if e < LOWEST { 0.0 } else { m * pow2(e) };
        }
        match &self.panels {
            Some(panels) => multiply::<SumProduct, f64>(1, scratch.x.len(), &scratch.x, panels, &mut scratch.y),
            None => {
                for j in 0..self.n {
                    let column = self.column(j);
                    let terms = self.rows[column.clone()].iter().zip(&self.values[column]);
                    scratch.y[j] = terms.map(|(&i, value)| scratch.x[i as usize] * value).sum();
                }
            }
        }
        for j in 0..self.n {
            let plain = scratch.y[j];
            y.set(j, if plain >= HEALTHY { Number::new(plain, largest) } else { self.sum(x, j) });
        }
    }

    /// Entry j of x · A, term by term.
    fn sum(&self, x: &Row, j: usize) -> Number {
        let terms = || {
            let column = self.column(j);
            self.rows[column.clone()].iter().zip(&self.lifted[column]).map(|(&i, &value)| {
                let (m, e) = split(value);
                (x.m[i as usize] * m, x.e[i as usize] + e)
            })
        };
        let largest = terms().map(|(_, e)| e).fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return Number::ZERO;
        }
        Number::new(terms().map(|(m, e)| m * pow2(e - largest)).sum(), largest - LIFT)
    }
}

/// Operands of plain `f64` products.
struct OrdinarySums {
    x: Vec<f64>,
    y: Vec<f64>,
}

impl OrdinarySums {
    fn new(n: usize) -> Self {
        Self { x: vec![0.0; stride(n)], y: vec![0.0; stride(n)] }
    }
}

/// Emissions bⱼ(o).
enum Emitter {
    /// One row per symbol.
    Table(Vec<Row>),
    Densities(Box<Densities>),
    Channels(ChannelDensities),
}

/// The recursions under one model, exact up to rounding. Results do not depend on the number of cores.
///
/// Every method takes the indices `which` of the sequences to process.
///
/// ```
/// use warpkov_hmm::backends::cpu::Exact;
/// use warpkov_hmm::generate::IceCream;
/// use warpkov_hmm::sequences::Sequences;
///
/// let model = IceCream.generate()?;
/// let days = Sequences::of_symbols(&[vec![1, 2, 2], vec![0; 1000]])?;
/// // Only the second sequence.
/// let logs = Exact::new(&model).log_likelihoods(&days, &[1]);
/// assert!(logs.len() == 1 && logs[0] < -300.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Exact<'m> {
    model: &'m Hmm,
    n: usize,
    start: Row,
    /// A.
    forward: Matrix,
    /// Aᵀ, computed on first use.
    backward: OnceLock<Matrix>,
    /// β_T: end probabilities, or 1.
    ending: Row,
    emitter: Emitter,
}

/// Scratch memory of a pass over one sequence.
struct Scratch {
    plain: OrdinarySums,
    predicted: Row,
    emitted: Row,
    logs: Vec<f64>,
}

impl<'m> Exact<'m> {
    /// The exact recursions for `model`.
    #[must_use]
    pub fn new(model: &'m Hmm) -> Self {
        let n = model.start().len();
        let emitter = match model.emissions() {
            Emissions::Categorical { symbols, probs } => {
                let symbols = *symbols as usize;
                let row = |symbol: usize| -> Vec<f64> { (0..n).map(|j| probs[j * symbols + symbol]).collect() };
                Emitter::Table((0..symbols).map(|symbol| Row::from_numbers(&row(symbol))).collect())
            }
            Emissions::Gaussian { dimensions, means, covariances } => {
                Emitter::Densities(Box::new(Densities::new(n, *dimensions as usize, means, covariances)))
            }
            Emissions::Channels(channels) => Emitter::Channels(ChannelDensities::new(n, channels)),
        };
        Self {
            model,
            n,
            start: Row::from_numbers(model.start()),
            forward: Matrix::new(n, |i, j| model.transitions()[i * n + j]),
            backward: OnceLock::new(),
            ending: Row::from_numbers(model.end().unwrap_or(&vec![1.0; n])),
            emitter,
        }
    }

    /// Whether one thread is faster than waking others.
    fn few(&self, sequences: &Sequences, which: &[u32]) -> bool {
        let steps: usize = which.iter().map(|&sequence| sequences.range(sequence as usize).len()).sum();
        // A multiplication takes about eight times as long as in the scaled recursions.
        8 * steps * self.forward.values.len() < FEW
    }

    fn backward(&self) -> &Matrix {
        let (n, transitions) = (self.n, self.model.transitions());
        self.backward.get_or_init(|| Matrix::new(n, |i, j| transitions[j * n + i]))
    }

    fn scratch(&self) -> Scratch {
        let (n, wide) = (self.n, stride(self.n));
        Scratch { plain: OrdinarySums::new(n), predicted: Row::new(n), emitted: Row::new(n), logs: vec![0.0; wide] }
    }

    /// ln P(O) of the sequences `which`, in that order. It is −∞ only where P(O) is 0, or where all densities of an
    /// observation are below e^−10³⁰⁸.
    #[must_use]
    pub fn log_likelihoods(&self, sequences: &Sequences, which: &[u32]) -> Vec<f64> {
        let of = |&sequence: &u32| self.log_likelihood(sequences, sequence as usize).ln();
        each(self.few(sequences, which), which.iter().collect(), of)
    }

    /// Writes γₜ(i) of the sequences `which` to their rows in `all`, ΣT × N numbers for all sequences. Returns their ln
    /// P(O).
    ///
    /// # Panics
    /// If `which` is not strictly ascending, or `all` has the wrong length.
    pub fn posteriors(&self, sequences: &Sequences, which: &[u32], all: &mut [f64]) -> Vec<f64> {
        assert_eq!(all.len(), sequences.steps() * self.n);
        assert!(which.is_sorted_by(|a, b| a < b), "sequences in ascending order");
        let (mut rest, mut before, mut targets) = (all, 0, Vec::with_capacity(which.len()));
        for &sequence in which {
            let range = sequences.range(sequence as usize);
            let (_, behind) = rest.split_at_mut((range.start - before) * self.n);
            let (target, behind) = behind.split_at_mut(range.len() * self.n);
            targets.push((sequence as usize, target));
            (rest, before) = (behind, range.end);
        }
        each(self.few(sequences, which), targets, |(sequence, target)| {
            target.fill(0.0);
            let show = |t: usize, gamma: &[f64]| target[t * self.n..][..self.n].copy_from_slice(gamma);
            self.forward_backward(sequences, sequence, 1.0, None, show).ln()
        })
    }

    /// Expected counts of the sequences `which`, with their ln P(O) in that order.
    #[must_use]
    pub fn expect(&self, sequences: &Sequences, which: &[u32]) -> Expected {
        let bytes = Expected::zero(self.model).numbers() * size_of::<f64>();
        let parts = (SUMS / bytes.max(1)).clamp(1, PARTS);
        let of_part = |which: &[u32]| {
            let mut expected = Expected::zero(self.model);
            for &sequence in which {
                let range = sequences.range(sequence as usize);
                let Expected { start, transitions, end, emissions, .. } = &mut expected;
                let show = |t: usize, gamma: &[f64]| {
                    let add = |sums: &mut [f64]| sums.iter_mut().zip(gamma).for_each(|(sum, gamma)| *sum += gamma);
                    if t == 0 {
                        add(start);
                    }
                    if t + 1 == range.len() {
                        add(end);
                    }
                    self.count(emissions, sequences, range.start + t, gamma);
                };
                let weight = sequences.weight(sequence as usize);
                let prob = self.forward_backward(sequences, sequence as usize, weight, Some(transitions), show);
                expected.log_likelihoods.push(prob.ln());
            }
            expected
        };
        let chunks = which.chunks(which.len().div_ceil(parts).max(1)).collect();
        // A fixed order of addition, for reproducible bits.
        let mut parts = each(self.few(sequences, which), chunks, of_part).into_iter();
        let mut total = parts.next().unwrap_or_else(|| Expected::zero(self.model));
        for mut part in parts {
            total.log_likelihoods.append(&mut part.log_likelihoods);
            total.add_counts(&part);
        }
        total
    }

    /// Writes bⱼ(o) of observation `at` to `scratch`. Densities are computed only for states j with positive `wanted`.
    fn emit(&self, seen: &Sequences, at: usize, wanted: &Row, scratch: &mut Row, logs: &mut [f64]) {
        match (&self.emitter, seen.observations()) {
            (Emitter::Table(rows), Observations::Symbols(symbols)) => scratch.copy_from(&rows[symbols[at] as usize]),
            (Emitter::Densities(_) | Emitter::Channels(_), Observations::Vectors { dimensions, values }) => {
                let d = *dimensions as usize;
                match &self.emitter {
                    Emitter::Densities(densities) => densities.logs(&values[at * d..][..d], logs),
                    Emitter::Channels(densities) => densities.logs(densities.rows(seen, at), logs),
                    Emitter::Table(_) => {}
                }
                for (j, &log) in logs[..self.n].iter().enumerate() {
                    scratch.set(j, if wanted.m[j] > 0.0 { Number::exp(log) } else { Number::ZERO });
                }
            }
            // Unreachable: the sequences fit the model.
            _ => {}
        }
        restrict(&mut scratch.m, seen.state(at), 0.0);
        restrict(&mut scratch.e, seen.state(at), f64::NEG_INFINITY);
    }

    /// αₜ from αₜ₋₁, or from π at the first step.
    fn step(&self, seen: &Sequences, at: usize, before: Option<&Row>, now: &mut Row, scratch: &mut Scratch) {
        let Scratch { plain, predicted, emitted, logs } = scratch;
        match before {
            Some(before) => self.forward.multiply(before, predicted, plain),
            None => predicted.copy_from(&self.start),
        }
        self.emit(seen, at, predicted, emitted, logs);
        now.product(predicted, emitted);
    }

    fn log_likelihood(&self, sequences: &Sequences, sequence: usize) -> Number {
        let mut scratch = self.scratch();
        let (mut before, mut now) = (Row::new(self.n), Row::new(self.n));
        for (t, at) in sequences.range(sequence).enumerate() {
            self.step(sequences, at, (t > 0).then_some(&before), &mut now, &mut scratch);
            std::mem::swap(&mut before, &mut now);
            if before.largest() == f64::NEG_INFINITY {
                return Number::ZERO;
            }
        }
        now.product(&before, &self.ending);
        now.sum()
    }

    /// Passes αₜ of a sequence to `visit`, from the last step to the first, until it breaks.
    fn descend(
        &self,
        seen: &Sequences,
        sequence: usize,
        mut visit: impl FnMut(usize, &Row, &mut Scratch) -> ControlFlow<()>,
    ) {
        let (n, range) = (self.n, seen.range(sequence));
        let mut scratch = self.scratch();
        let steps = range.len();
        let length = if steps.saturating_mul(16 * n) <= TRELLIS { steps } else { steps.isqrt() + 1 };
        let stretches = steps.div_ceil(length);
        let mut rows = vec![Row::new(n); length];
        // Checkpoints: α of the last step of each stretch but the last.
        let mut kept: Vec<Row> = Vec::with_capacity(stretches);
        let fill = |stretch: usize, rows: &mut [Row], kept: &[Row], scratch: &mut Scratch| {
            let steps = stretch * length..((stretch + 1) * length).min(steps);
            for t in steps.clone() {
                let (done, rest) = rows.split_at_mut(t - steps.start);
                let before = done.last().or_else(|| kept.get(stretch.wrapping_sub(1)));
                self.step(seen, range.start + t, before, &mut rest[0], scratch);
            }
            steps
        };
        for stretch in 0..stretches {
            let steps = fill(stretch, &mut rows, &kept, &mut scratch);
            if stretch + 1 < stretches {
                kept.push(rows[steps.len() - 1].clone());
            }
        }
        for stretch in (0..stretches).rev() {
            if stretch + 1 < stretches {
                fill(stretch, &mut rows, &kept, &mut scratch);
            }
            for t in (stretch * length..((stretch + 1) * length).min(steps)).rev() {
                if visit(t, &rows[t - stretch * length], &mut scratch).is_break() {
                    return;
                }
            }
        }
    }

    /// Passes γₜ to `show` from the last step to the first, adds ξ to `pairs`, both times `weight`, and returns P(O). If P(O) is 0, `show`
    /// and `pairs` receive nothing. Returns NaN if Σ αₜ(i) βₜ(i) is not constant in t, which would be a defect of this
    /// program. The [invariants](crate::invariants) reject an ln P(O) of NaN.
    fn forward_backward(
        &self,
        sequences: &Sequences,
        sequence: usize,
        weight: f64,
        mut pairs: Option<&mut Vec<f64>>,
        mut show: impl FnMut(usize, &[f64]),
    ) -> Number {
        let (n, range, seen) = (self.n, sequences.range(sequence), sequences);
        let steps = range.len();
        let (mut prob, mut beta) = (Number::ZERO, self.ending.clone());
        let (mut gamma, mut weighted, mut shown) = (Row::new(n), Row::new(n), vec![0.0; n]);
        self.descend(seen, sequence, |t, alpha, scratch| {
            if t + 1 < steps {
                let Scratch { plain, emitted, logs, .. } = scratch;
                self.emit(seen, range.start + t + 1, &beta, emitted, logs);
                weighted.product(emitted, &beta);
                self.backward().multiply(&weighted, &mut beta, plain);
            }
            gamma.product(alpha, &beta);
            let sum = gamma.sum();
            if t + 1 == steps {
                prob = sum;
            }
            if prob.m == 0.0 {
                return ControlFlow::Break(());
            }
            if !sum.agrees(prob) {
                prob = Number { m: f64::NAN, e: 0.0 };
                return ControlFlow::Break(());
            }
            for (j, shown) in shown.iter_mut().enumerate() {
                *shown = weight * gamma.get(j).over(sum);
            }
            show(t, &shown);
            if let Some(pairs) = pairs.as_deref_mut().filter(|_| t + 1 < steps) {
                self.count_pairs(alpha, &weighted, sum, weight, pairs);
            }
            ControlFlow::Continue(())
        });
        prob
    }

    /// Adds `weight` times ξ(i, j) = α(i) Aᵢⱼ w(j) / P.
    fn count_pairs(&self, alpha: &Row, weighted: &Row, prob: Number, weight: f64, pairs: &mut [f64]) {
        let (matrix, n) = (self.backward(), self.n);
        for i in (0..n).filter(|&i| alpha.m[i] > 0.0) {
            let (m, e) = (alpha.m[i] / prob.m, alpha.e[i] - prob.e - LIFT);
            let row = &mut pairs[i * n..][..n];
            for at in matrix.column(i) {
                let j = matrix.rows[at] as usize;
                // x < 8 · 2⁵⁰⁰. With its exponent, ξ is at most 1 up to rounding.
                let x = m * weighted.m[j] * matrix.lifted[at];
                let k = (e + weighted.e[j]).clamp(-2000.0, 2000.0);
                let half = (0.5 * k).floor();
                row[j] += weight * (x * pow2(half) * pow2(k - half)).min(1.0);
            }
        }
    }

    /// Adds γ of observation `at` to the emission statistics.
    fn count(&self, emissions: &mut Statistics, sequences: &Sequences, at: usize, gamma: &[f64]) {
        let seen = sequences.observations();
        match (emissions, seen, &self.emitter) {
            (Statistics::Channels(sums), _, Emitter::Channels(densities)) => {
                densities.count(densities.rows(sequences, at), |state| gamma[state], sums);
            }
            (
                Statistics::Gaussian { weights, sums, squares },
                Observations::Vectors { dimensions, values },
                Emitter::Densities(densities),
            ) if is_partial(&values[at * *dimensions as usize..][..*dimensions as usize]) => {
                let d = *dimensions as usize;
                densities.completions(&values[at * d..][..d], |Completion { state, deviation, covariance }| {
                    let gamma = gamma[state];
                    weights[state] += gamma;
                    for k in 0..d {
                        sums[state * d + k] += gamma * deviation[k];
                    }
                    let width = covariance.len();
                    for (entry, more) in covariance.iter().enumerate() {
                        let (a, b) = if width > d { (entry / d, entry % d) } else { (entry, entry) };
                        squares[state * width + entry] += gamma * (deviation[a] * deviation[b] + more);
                    }
                });
            }
            (emissions, ..) => count(emissions, self.model, self.n, seen, at, gamma),
        }
    }
}

/// Adds γ of observation `at` to the emission statistics.
fn count(emissions: &mut Statistics, model: &Hmm, n: usize, seen: &Observations, at: usize, gamma: &[f64]) {
    match (emissions, seen, model.emissions()) {
        (Statistics::Categorical(counts), Observations::Symbols(seen), Emissions::Categorical { symbols, .. }) => {
            let symbols = *symbols as usize;
            (0..n).for_each(|j| counts[j * symbols + seen[at] as usize] += gamma[j]);
        }
        (
            Statistics::Gaussian { weights, sums, squares },
            Observations::Vectors { dimensions, values },
            Emissions::Gaussian { means, covariances, .. },
        ) => {
            let d = *dimensions as usize;
            let x = &values[at * d..][..d];
            for (j, &gamma) in gamma.iter().enumerate().filter(|(_, gamma)| **gamma > 0.0) {
                weights[j] += gamma;
                let mean = &means[j * d..][..d];
                for k in 0..d {
                    let part = gamma * (x[k] - mean[k]);
                    sums[j * d + k] += part;
                    match covariances {
                        Covariances::Diagonal(_) => squares[j * d + k] += part * (x[k] - mean[k]),
                        Covariances::Full(_) => {
                            let row = &mut squares[(j * d + k) * d..][..d];
                            row.iter_mut()
                                .zip(x.iter().zip(mean))
                                .for_each(|(sum, (x, mean))| *sum += part * (x - mean));
                        }
                    }
                }
            }
        }
        // Unreachable: the sequences fit the model.
        _ => {}
    }
}
