//! The forward and forward-backward recursions over a group of sequences, in order of descending length.
//!
//! The sequences of a group that have a step t are the first rows of one small matrix. The trellis stores α of all
//! steps where they fit in memory. Otherwise it stores one stretch of about √T steps at a time, and as checkpoints the
//! last step of each stretch. The backward pass then recomputes each stretch from its checkpoint.
//!
//! α and β are scaled by powers of two: αₜ = (uₜ₋₁ αₜ₋₁ A) ∘ b̃ₜ with uₜ = 2⁻ᵉ and 2ᵉ ≤ Σ αₜ < 2ᵉ⁺¹. A step uses the
//! factor of the step before, so it does not wait for its own sum. Powers of two cause no rounding. ln P(O) takes one
//! logarithm: P(O) = uₜ Σ αₜ · 2ᴱ, where E is the sum of all e, corrected by the scales of b̃. γ and ξ are normalised
//! by their own sums: γₜ = uₜ αₜ ∘ βₜ / sₜ with sₜ = uₜ αₜ · βₜ.

use std::f64::consts::LN_2;
use std::ops::Range;

use crate::backends::cpu::Group;
use crate::backends::cpu::chain::Chain;
use crate::backends::cpu::emissions::{Row, Scale, Scaled};
use crate::backends::cpu::limits::{Limits, power};
use crate::backends::cpu::product::{
    LANES, Registers, SumProduct, Work, accumulate, by_lanes, fold_row, multiply, total, widest,
};
use crate::backends::cpu::reach::Frontier;
use crate::sequences::Sequences;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

mod lanes;

/// Rows that are accumulated into ξ in one matrix product.
const BLOCK: usize = 128;

/// The logarithm of a product of many factors, with few calls of `ln`.
#[derive(Clone, Copy)]
pub struct LogProduct {
    log: f64,
    product: f64,
}

impl LogProduct {
    pub const ONE: Self = Self { log: 0.0, product: 1.0 };

    /// Multiplies by x ≥ 0.
    #[inline(always)]
    pub fn times(&mut self, x: f64) {
        let product = self.product * x;
        if (1e-200..1e200).contains(&product) {
            self.product = product;
        } else {
            self.log += self.product.ln() + x.ln();
            self.product = 1.0;
        }
    }

    /// Multiplies by eˣ.
    #[inline(always)]
    pub fn times_exp(&mut self, x: f64) {
        self.log += x;
    }

    pub fn ln(self) -> f64 {
        self.log + self.product.ln()
    }
}

/// One step of a recursion.
pub trait Step<T, M> {
    /// Computes the rows of step t. Implementations are `#[inline(always)]`, like all of [`Work`].
    fn step<S: Registers>(&mut self, rows: Rows<'_, T, M>);
}

/// Operands of a step: `now` are the rows to compute, `before` those of the previous step (empty at step 0), `marks`
/// one mark per row.
pub struct Rows<'r, T, M> {
    pub t: usize,
    pub stride: usize,
    pub before: &'r [T],
    pub now: &'r mut [T],
    pub marks: &'r mut [M],
}

/// The rows of a group for one stretch of steps, with one mark per row, and the checkpoints.
pub struct Trellis<'g, T, M> {
    group: &'g Group,
    stride: usize,
    /// Steps per stretch.
    length: usize,
    /// Rows of the present stretch.
    rows: Vec<T>,
    marks: Vec<M>,
    /// First step of the present stretch.
    first: usize,
    /// Checkpoints: the rows of the last step of each stretch filled so far.
    pub kept: Vec<Vec<T>>,
}

impl<'g, T: Precise, M: Copy + Default> Trellis<'g, T, M> {
    /// A trellis of all steps if their rows fit in `bytes`, else of stretches of about √T steps.
    pub fn new(group: &'g Group, stride: usize, bytes: usize) -> Self {
        let steps = group.steps();
        let whole = group.before(steps).saturating_mul(stride * size_of::<T>()) <= bytes;
        let length = if whole { steps } else { steps.isqrt() + 1 };
        let rows = group.before(length);
        let marks = vec![M::default(); rows];
        Self { group, stride, length, rows: vec![T::ZERO; rows * stride], marks, first: 0, kept: Vec::new() }
    }

    pub fn stretches(&self) -> usize {
        self.group.steps().div_ceil(self.length)
    }

    pub fn steps(&self, stretch: usize) -> Range<usize> {
        stretch * self.length..((stretch + 1) * self.length).min(self.group.steps())
    }

    /// The rows of `steps`, which are steps of the present stretch.
    pub fn rows(&self, steps: Range<usize>) -> &[T] {
        let range = self.range(steps);
        &self.rows[range.start * self.stride..range.end * self.stride]
    }

    /// The marks of `steps`, which are steps of the present stretch.
    fn marks(&self, steps: Range<usize>) -> &[M] {
        &self.marks[self.range(steps)]
    }

    fn range(&self, steps: Range<usize>) -> Range<usize> {
        let origin = self.group.before(self.first);
        self.group.before(steps.start) - origin..self.group.before(steps.end) - origin
    }

    /// Computes a stretch. All earlier stretches have been computed before.
    #[inline(always)]
    pub fn fill<S: Registers>(&mut self, stride: usize, stretch: usize, by: &mut impl Step<T, M>) {
        let steps = self.steps(stretch);
        self.first = steps.start;
        let (mut before, mut at) = (0, 0);
        for t in steps.clone() {
            // The remaining rows stay stale; callers discard the results of an interrupted pass.
            if interrupt::requested() {
                break;
            }
            let (done, now) = self.rows.split_at_mut(at * stride);
            let earlier = match stretch.checked_sub(1).filter(|_| t == steps.start) {
                Some(previous) => &self.kept[previous][..],
                None => &done[before * stride..],
            };
            by.step::<S>(Rows { t, stride, before: earlier, now, marks: &mut self.marks[at..] });
            (before, at) = (at, at + self.group.active(t));
        }
        if self.kept.len() == stretch {
            self.kept.push(self.rows(steps.end - 1..steps.end).to_vec());
        }
    }
}

/// Scale of a row: the logarithmic scale of its emissions, and its u.
#[derive(Clone, Copy)]
struct Mark {
    shift: f64,
    unit: f64,
}

impl Default for Mark {
    fn default() -> Self {
        Self { shift: 0.0, unit: 1.0 }
    }
}

/// State of the forward recursion of one sequence, beside its [`Frontier`].
#[derive(Clone, Copy)]
struct Course {
    /// u of the last row.
    unit: f64,
    /// u Σ α of the last row, in [1, 2).
    sum: f64,
    /// ln P(O) = ln `sum` + `exponent` ln 2 + `log`.
    exponent: i64,
    log: f64,
    /// Whether error bounds are tracked.
    doubtful: bool,
    /// ln P(O) of a sequence that has dropped out: −∞ if impossible, NaN if uncertain or excluded. Its rows are 0 from
    /// then on.
    out: Option<f64>,
}

impl Course {
    /// Before the first step.
    const START: Self = Self { unit: 1.0, sum: 1.0, exponent: 0, log: 0.0, doubtful: false, out: None };

    /// Turns `row`, which holds p / u, into α. Returns its mark. `OPEN` selects code for [open](Chain::open) chains.
    #[inline(always)]
    fn advance<T: Precise, const OPEN: bool>(
        &mut self,
        frontier: &mut Frontier<T>,
        given: &Given<'_, T>,
        (at, last): (usize, bool),
        row: &mut [T],
        (emitted, scaled): (&[T], Scaled),
        errors: Errors<'_, T>,
    ) -> Mark {
        let (chain, limits) = (given.chain, Limits::current::<T>());
        let unit = T::from_f64(self.unit);
        let enough = OPEN || chain.firm || enough(row, unit, &frontier.needed);
        let wrong = if enough {
            0.0
        } else {
            self.doubt(chain.n, row, (emitted, &frontier.needed), errors.now, errors.predicted)
        };
        self.doubtful = !enough;
        let sum = weigh(row, unit, emitted).to_f64();
        let certain = within(sum, limits.least_sum) && (enough || wrong <= limits.negligible * sum);
        let possible = OPEN || {
            let (symbol, state) = (given.seen.observations().symbol(at), given.seen.state(at));
            let some = frontier.see(&chain.reach, symbol, state);
            some && (!last || frontier.ends(&chain.reach))
        };
        if !possible {
            self.out = Some(f64::NEG_INFINITY);
        } else if !certain {
            self.out = Some(f64::NAN);
        } else {
            let (unit, exponent) = unit_of(sum);
            (self.unit, self.sum) = (unit, sum * unit);
            self.exponent += exponent + i64::from(scaled.exponent - limits.bias);
            self.log += scaled.log;
            if !enough {
                let (unit, lost) = (T::from_f64(unit), T::from_f64(limits.lost));
                errors.now.iter_mut().for_each(|error| *error = *error * unit + lost);
            }
            if chain.ends && last {
                self.end(chain, row, errors.now);
            }
        }
        if self.out.is_some() {
            row.fill(T::ZERO);
        }
        Mark { shift: scaled.log, unit: self.unit }
    }

    /// Propagates the error bounds of a row p / u. Writes e ∘ b̃ to `now` for the states whose relative error may
    /// matter, 0 for the others, and returns the sum.
    #[inline(always)]
    fn doubt<T: Precise>(
        &self,
        n: usize,
        row: &[T],
        (emitted, needed): (&[T], &[T]),
        now: &mut [T],
        predicted: &mut [T],
    ) -> f64 {
        let limits = Limits::current::<T>();
        if !self.doubtful {
            predicted.fill(T::ZERO);
        }
        let [unit, more, negligible] = [self.unit, limits.lost * n as f64, limits.negligible].map(T::from_f64);
        let mut sums = [T::ZERO; LANES];
        let states = now.as_chunks_mut::<LANES>().0.iter_mut().zip(row.as_chunks::<LANES>().0);
        let factors = predicted.as_chunks::<LANES>().0.iter().zip(emitted.as_chunks::<LANES>().0);
        let needed = needed.as_chunks::<LANES>().0;
        for (((now, row), (errors, emitted)), needed) in states.zip(factors).zip(needed) {
            let (mut wrong, row, errors, emitted, needed) = ([T::ZERO; LANES], *row, *errors, *emitted, *needed);
            for lane in 0..LANES {
                let error = errors[lane] + more;
                let right = error <= negligible * (row[lane] * unit);
                // States that cannot be reached are exactly 0.
                wrong[lane] = if right | (needed[lane] == T::ZERO) { T::ZERO } else { error * emitted[lane] };
                sums[lane] += wrong[lane];
            }
            *now = wrong;
        }
        fold_row(row.len(), sums, |a, b| a + b).to_f64()
    }

    /// Multiplies P(O) by the factor Σ α̂_T(i) endᵢ. Inlined, since what a call refers to stays in memory.
    #[inline(always)]
    fn end<T: Precise>(&mut self, chain: &Chain<T>, row: &[T], errors: &[T]) {
        let limits = Limits::current::<T>();
        self.sum = dot(row, &chain.ending).to_f64() * self.unit;
        let wrong = if self.doubtful { dot(errors, &chain.ending).to_f64() } else { 0.0 };
        let certain = self.sum >= limits.least && wrong <= limits.negligible * self.sum;
        self.out = (!certain).then_some(f64::NAN);
    }

    fn ln(&self) -> f64 {
        self.out.unwrap_or_else(|| self.sum.ln() + self.exponent as f64 * LN_2 + self.log)
    }
}

/// Bounds of the absolute errors of a doubtful sequence.
struct Errors<'r, T> {
    /// d, the bounds for u α.
    now: &'r mut [T],
    /// d A, the bounds for p.
    predicted: &'r mut [T],
}

/// Inputs of the forward recursion.
#[derive(Clone, Copy)]
struct Given<'a, T> {
    chain: &'a Chain<T>,
    seen: &'a Sequences,
    group: &'a Group,
}

/// The forward recursion of a group. `OPEN` selects code for [open](Chain::open) chains, without reachability checks.
struct Forward<'a, T, const OPEN: bool> {
    given: Given<'a, T>,
    courses: Vec<Course>,
    frontiers: Vec<Frontier<T>>,
    /// d, one row per sequence; `errors` holds d A.
    doubts: Vec<T>,
    errors: Vec<T>,
    scratch: Row<T>,
}

impl<'a, T: Precise, const OPEN: bool> Forward<'a, T, OPEN> {
    /// The state before the first step.
    fn new(given: Given<'a, T>, excluded: &[bool]) -> Self {
        let chain = given.chain;
        let courses = excluded.iter().map(|&out| Course { out: out.then_some(f64::NAN), ..Course::START }).collect();
        let frontiers = vec![Frontier::new(&chain.reach, chain.n); excluded.len()];
        let none = vec![T::ZERO; excluded.len() * chain.stride];
        Self { given, courses, frontiers, doubts: none.clone(), errors: none, scratch: Row::new(chain.stride) }
    }

    fn logs(&self) -> Vec<f64> {
        self.courses.iter().map(|course| course.ln()).collect()
    }

    /// Whether the first `active` sequences have all dropped out.
    fn all_out(&self, active: usize) -> bool {
        self.courses[..active].iter().all(|course| course.out.is_some())
    }
}

impl<T: Precise, const OPEN: bool> Step<T, Mark> for Forward<'_, T, OPEN> {
    #[inline(always)]
    fn step<S: Registers>(&mut self, rows: Rows<'_, T, Mark>) {
        let Self { given, courses, frontiers, doubts, errors, scratch } = self;
        let Given { chain, group, .. } = *given;
        let Rows { t, stride, before, now, marks } = rows;
        let active = group.active(t);
        if t == 0 {
            (0..active).for_each(|slot| now[slot * stride..][..stride].copy_from_slice(&chain.start));
        } else {
            multiply::<SumProduct, T>(active, stride, before, &chain.forward, now);
        }
        if !OPEN && !chain.firm && courses[..active].iter().any(|course| course.doubtful) {
            multiply::<SumProduct, T>(active, stride, doubts, &chain.forward, errors);
        }
        for (slot, (course, frontier)) in courses[..active].iter_mut().zip(frontiers).enumerate() {
            let row = &mut now[slot * stride..][..stride];
            if course.out.is_some() {
                row.fill(T::ZERO);
            } else {
                let last = group.lengths[slot] == t + 1;
                let now = &mut doubts[slot * stride..][..stride];
                let errors = Errors { now, predicted: &mut errors[slot * stride..][..stride] };
                let (at, scale) = (group.places[slot] + t, Scale::Largest(&frontier.needed));
                let emitted = chain.emitter.row::<S>(given.seen, at, scale, stride, scratch);
                marks[slot] = course.advance::<T, OPEN>(frontier, given, (at, last), row, emitted, errors);
            }
        }
    }
}

/// (2⁻ᵉ, e) for a normal number x with 2ᵉ ≤ x < 2ᵉ⁺¹.
#[inline(always)]
fn unit_of(x: f64) -> (f64, i64) {
    let exponent = x.to_bits() >> 52;
    (f64::from_bits((2 * 1023 - exponent) << 52), exponent as i64 - 1023)
}

/// Whether `least` ≤ x < ∞, for `least` > 0. One comparison of bit patterns replaces two of numbers.
#[inline(always)]
fn within(x: f64, least: f64) -> bool {
    let least = least.to_bits();
    x.to_bits().wrapping_sub(least) < f64::INFINITY.to_bits() - least
}

/// Whether u x ≥ `needed` in every entry.
#[inline(always)]
fn enough<T: Precise>(x: &[T], unit: T, needed: &[T]) -> bool {
    // No early exit: the vectorised loop over all entries is faster.
    let mut least = [T::ZERO; LANES];
    for (x, needed) in x.as_chunks::<LANES>().0.iter().zip(needed.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            let over = x[lane] * unit - needed[lane];
            least[lane] = if over < least[lane] { over } else { least[lane] };
        }
    }
    fold_row(x.len(), least, |a, b| if b < a { b } else { a }) >= T::ZERO
}

/// x ← u x ∘ y. Returns its sum.
#[inline(always)]
fn weigh<T: Precise>(x: &mut [T], unit: T, y: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    for (x, y) in x.as_chunks_mut::<LANES>().0.iter_mut().zip(y.as_chunks::<LANES>().0) {
        let (mut terms, y) = (*x, *y);
        for lane in 0..LANES {
            terms[lane] = terms[lane] * unit * y[lane];
            sums[lane] += terms[lane];
        }
        *x = terms;
    }
    fold_row(x.len(), sums, |a, b| a + b)
}

/// x · y.
#[inline(always)]
fn dot<T: Precise>(x: &[T], y: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    for (x, y) in x.as_chunks::<LANES>().0.iter().zip(y.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    fold_row(x.len(), sums, |a, b| a + b)
}

/// ln P(O) of each sequence; NaN for [uncertain](crate::backends::cpu::limits) ones.
pub fn forward<T: Precise>(chain: &Chain<T>, seen: &Sequences, group: &Group) -> Vec<f64> {
    widest(Score(Given { chain, seen, group }))
}

struct Score<'a, T>(Given<'a, T>);

impl<T: Precise> Work for Score<'_, T> {
    const WIDE: bool = true;
    type Output = Vec<f64>;

    #[inline(always)]
    fn run<S: Registers>(self) -> Vec<f64> {
        match self.0.chain.stride {
            ..=LANES => self.by_lanes::<S>(),
            stride if self.0.chain.open => self.in_stride::<S, true>(stride),
            stride => self.in_stride::<S, false>(stride),
        }
    }
}

impl<T: Precise> Score<'_, T> {
    #[inline(always)]
    fn in_stride<S: Registers, const OPEN: bool>(self, stride: usize) -> Vec<f64> {
        let group = self.0.group;
        let mut forward = Forward::<T, OPEN>::new(self.0, &vec![false; group.size()]);
        let rows = group.size() * stride;
        let (mut before, mut now) = (vec![T::ZERO; rows], vec![T::ZERO; rows]);
        let mut marks = vec![Mark::default(); group.size()];
        for t in 0..group.steps() {
            forward.step::<S>(Rows { t, stride, before: &before, now: &mut now, marks: &mut marks });
            std::mem::swap(&mut before, &mut now);
            if forward.all_out(group.active(t)) || interrupt::requested() {
                break;
            }
        }
        forward.logs()
    }
}

/// A consumer of posteriors.
pub trait Show<T> {
    /// Takes γₜ of the sequence in `slot`. Implementations are `#[inline(always)]`, like all of [`Work`].
    fn show(&mut self, slot: usize, t: usize, gamma: &[T]);
}

/// The forward-backward recursion of a group.
pub struct ForwardBackward<'a, T, W> {
    pub chain: &'a Chain<T>,
    pub seen: &'a Sequences,
    pub group: &'a Group,
    /// Slots to skip.
    pub excluded: &'a [bool],
    /// Memory for α, in bytes.
    pub bytes: usize,
    /// If present, receives Σ ξ without the factor A: adds Σ uₜ αₜ(i) b̃ⱼ(oₜ₊₁) βₜ₊₁(j) / sₜ. Both this and γ then have the weights of
    /// the sequences in their [unit](Sequences::unit).
    pub pairs: Option<&'a mut [f64]>,
    /// Receives γₜ from the last step to the first.
    pub show: W,
}

/// Quantities of step t + 1 that the backward recursion needs at step t.
#[derive(Clone, Copy)]
struct Behind {
    /// Logarithmic scale of the emissions.
    shift: f64,
    /// Power of two that scales Σ β into [1, 2).
    unit: f64,
    /// 1 / Σ α β.
    inverse: f64,
    /// Sₜ / P(O).
    ratio: f64,
    /// Largest |`ratio` − 1|.
    tolerance: f64,
}

impl Behind {
    /// Behind the last of `steps` steps.
    fn new<T: Precise>(steps: usize) -> Self {
        let tolerance = Limits::current::<T>().tolerance(steps);
        Self { shift: 0.0, unit: 1.0, inverse: 1.0, ratio: 1.0, tolerance }
    }

    /// Goes back to a step t, from Σ uₜ αₜ βₜ and Σ βₜ. Returns 1 / Σ uₜ αₜ βₜ; `None` if the sequence is uncertain.
    #[inline(always)]
    fn advance<T: Precise>(&mut self, sum: f64, beta: f64, mark: Mark, last: bool) -> Option<f64> {
        let limits = Limits::current::<T>();
        let mut least = limits.least;
        if !last {
            self.ratio *= sum * self.inverse;
            least = limits.least_sum;
        }
        let near = (self.ratio - 1.0).abs() <= self.tolerance;
        if !(near && sum >= least) {
            return None;
        }
        let (inverse, (unit, exponent)) = (1.0 / sum, unit_of(beta));
        (self.shift, self.unit, self.inverse) = (mark.shift, unit, inverse * mark.unit * power(exponent));
        Some(inverse)
    }
}

impl<T: Precise, W: Show<T>> ForwardBackward<'_, T, W> {
    /// Runs the recursion. Returns ln P(O) of each slot; NaN for [uncertain](crate::backends::cpu::limits) and excluded
    /// ones. `show` and `pairs` have already received the steps of an uncertain sequence after the one that revealed
    /// the uncertainty.
    pub fn logs(self) -> Vec<f64> {
        widest(self)
    }
}

impl<T: Precise, W: Show<T>> Work for ForwardBackward<'_, T, W> {
    const WIDE: bool = true;
    type Output = Vec<f64>;

    #[inline(always)]
    fn run<S: Registers>(self) -> Vec<f64> {
        match self.chain.stride {
            ..=LANES => self.by_lanes::<S>(),
            stride => self.in_stride::<S>(stride),
        }
    }
}

impl<T: Precise, W: Show<T>> ForwardBackward<'_, T, W> {
    /// The recursion for rows of `stride` numbers. One function, because every step of the backward pass updates β, γ
    /// and ξ of all slots from shared buffers.
    #[inline(always)]
    fn in_stride<S: Registers>(self, stride: usize) -> Vec<f64> {
        let Self { chain, seen, group, excluded, bytes, mut pairs, mut show } = self;
        let size = group.size();
        let mut trellis = Trellis::new(group, stride, bytes);
        let given = Given { chain, seen, group };
        let mut forward = Forward::<T, false>::new(given, excluded);
        let stretches = trellis.stretches();
        // The forward state at the start of each stretch but the last.
        let mut starts = Vec::with_capacity(stretches);
        for stretch in 0..stretches {
            if stretch + 1 < stretches {
                starts.push((forward.courses.clone(), forward.frontiers.clone(), forward.doubts.clone()));
            }
            trellis.fill::<S>(stride, stretch, &mut forward);
            if forward.all_out(size) {
                return forward.logs();
            }
        }
        let mut logs = forward.logs();
        let mut behind: Vec<Behind> = group.lengths.iter().map(|&length| Behind::new::<T>(length)).collect();
        let weight = |&member: &usize| if pairs.is_some() { seen.weight(member) / seen.unit() } else { 1.0 };
        let weights: Vec<f64> = group.members.iter().map(weight).collect();
        let backward = chain.backward();
        // βₜ, and b̃(oₜ₊₁) ∘ βₜ₊₁, the right factor of ξ.
        let (mut beta, mut weighted) = (vec![T::ZERO; size * stride], vec![T::ZERO; size * stride]);
        let mut gamma = vec![T::ZERO; stride];
        let mut block = Block { rows: vec![T::ZERO; (BLOCK + size) * stride], start: BLOCK + size, end: 0 };
        for stretch in (0..stretches).rev() {
            if stretch + 1 < stretches {
                (forward.courses, forward.frontiers, forward.doubts) = starts.pop().unwrap_or_default();
                // Sequences that have dropped out by now are skipped from the start.
                let out = forward.courses.iter_mut().zip(&logs).filter(|(_, log)| !log.is_finite());
                out.for_each(|(course, log)| course.out = Some(*log));
                trellis.fill::<S>(stride, stretch, &mut forward);
            }
            let steps = trellis.steps(stretch);
            block.end = steps.end;
            for t in steps.clone().rev() {
                if interrupt::requested() {
                    break;
                }
                let (active, going) = (group.active(t), group.active(t + 1));
                for (slot, row) in weighted.chunks_exact_mut(stride).take(going).enumerate() {
                    if logs[slot].is_finite() {
                        let (scale, unit) = (Scale::Known(behind[slot].shift), T::from_f64(behind[slot].unit));
                        let (emitted, _) = chain.emitter.row::<S>(
                            seen,
                            group.places[slot] + t + 1,
                            scale,
                            stride,
                            &mut forward.scratch,
                        );
                        by_lanes(row, &beta[slot * stride..][..stride], |_, beta| beta * unit);
                        by_lanes(row, emitted, |row, emitted| row * emitted);
                    } else {
                        row.fill(T::ZERO);
                    }
                }
                multiply::<SumProduct, T>(going, stride, &weighted, backward, &mut beta);
                for row in beta.chunks_exact_mut(stride).take(active).skip(going) {
                    row.copy_from_slice(&chain.ending);
                }
                let counted = pairs.is_some().then(|| block.push(stride, active));
                let counted = counted.unwrap_or_default();
                let rows = trellis.rows(t..t + 1).chunks_exact(stride).zip(beta.chunks_exact(stride));
                for ((slot, (alpha, beta)), mark) in rows.enumerate().zip(trellis.marks(t..t + 1)) {
                    let counted = counted.get_mut(slot * stride..(slot + 1) * stride).unwrap_or_default();
                    if !logs[slot].is_finite() {
                        counted.fill(T::ZERO);
                        continue;
                    }
                    by_lanes(&mut gamma, alpha, |_, alpha| alpha);
                    let sum = weigh(&mut gamma, T::from_f64(mark.unit), beta).to_f64();
                    let Some(inverse) = behind[slot].advance::<T>(sum, total(beta).to_f64(), *mark, slot >= going)
                    else {
                        logs[slot] = f64::NAN;
                        counted.fill(T::ZERO);
                        continue;
                    };
                    if slot < going {
                        let scale = T::from_f64(mark.unit * inverse * weights[slot]);
                        by_lanes(counted, &weighted[slot * stride..][..stride], |_, x| x * scale);
                    } else {
                        counted.fill(T::ZERO);
                    }
                    let scale = T::from_f64(inverse * weights[slot]);
                    by_lanes(&mut gamma, alpha, |x, _| x * scale);
                    show.show(slot, t, &gamma);
                }
                if let Some(pairs) = pairs.as_deref_mut()
                    && (block.start < size || t == steps.start)
                {
                    let alpha = trellis.rows(t..block.end);
                    accumulate(chain.n, stride, alpha, &block.rows[block.start * stride..], pairs);
                    block.start = BLOCK + size;
                    block.end = t;
                }
            }
        }
        logs
    }
}

/// Right factors of ξ, filled from the back.
struct Block<T> {
    rows: Vec<T>,
    /// Index of the first filled row.
    start: usize,
    /// One past the last step in the block.
    end: usize,
}

impl<T> Block<T> {
    /// Reserves `active` rows in front of the filled ones.
    fn push(&mut self, stride: usize, active: usize) -> &mut [T] {
        self.start -= active;
        &mut self.rows[self.start * stride..][..active * stride]
    }
}
