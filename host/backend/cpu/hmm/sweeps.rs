//! The recursions over a group of sequences, of several lengths, the longest first.
//!
//! All sequences of a group that are at step t are rows of one small matrix. α̂ is kept for all steps, or, where that is much,
//! for one stretch of about √T steps at a time, and for the last step before each: stretches are computed again on the way back.
//!
//! β is scaled to sum to 1 in each step, and γ and ξ by their own sums: γₜ = α̂ₜ ∘ βₜ / sₜ, sₜ = α̂ₜ · βₜ. Divided by the forward
//! scales instead, as Rabiner has it, β of a state that α̂ thinks impossible may leave the range of numbers.

use std::ops::Range;

use super::Group;
use super::chain::{Chain, LogChain};
use super::emissions::{Row, Scale};
use super::limits::Limits;
use super::product::{MaxPlus, SumProduct, WIDTH, accumulate, multiply, total};
use super::reach::Frontier;
use crate::backend::Precise;
use crate::hmm::recursions::NO_STATE;
use crate::hmm::sequences::Observations;
use crate::interrupt;

/// Rows of ξ that are multiplied at a time.
const BLOCK: usize = 128;

/// ln of a product of many numbers, with few logarithms.
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

/// Rows for the steps of a group, those of one stretch of steps at a time.
struct Trellis<'g, T> {
    group: &'g Group,
    stride: usize,
    /// Steps of a stretch.
    length: usize,
    /// Rows of the last stretch that was filled.
    rows: Vec<T>,
    marks: Vec<Mark>,
    /// The first of its steps.
    first: usize,
    /// The last step of each stretch that has been filled.
    kept: Vec<Vec<T>>,
}

impl<'g, T: Precise> Trellis<'g, T> {
    /// Of all steps at once where their rows take no more than `bytes`, else of √T.
    fn new(group: &'g Group, stride: usize, bytes: usize) -> Self {
        let steps = group.steps();
        let whole = group.before(steps).saturating_mul(stride * size_of::<T>()) <= bytes;
        let length = if whole { steps } else { steps.isqrt() + 1 };
        let rows = group.before(length);
        let marks = vec![Mark::default(); rows];
        Self { group, stride, length, rows: vec![T::ZERO; rows * stride], marks, first: 0, kept: Vec::new() }
    }

    fn stretches(&self) -> usize {
        self.group.steps().div_ceil(self.length)
    }

    fn steps(&self, stretch: usize) -> Range<usize> {
        stretch * self.length..((stretch + 1) * self.length).min(self.group.steps())
    }

    /// The rows of some steps of the stretch.
    fn rows(&self, steps: Range<usize>) -> &[T] {
        let range = self.range(steps);
        &self.rows[range.start * self.stride..range.end * self.stride]
    }

    /// What they were scaled by.
    fn marks(&self, steps: Range<usize>) -> &[Mark] {
        &self.marks[self.range(steps)]
    }

    fn range(&self, steps: Range<usize>) -> Range<usize> {
        let origin = self.group.before(self.first);
        self.group.before(steps.start) - origin..self.group.before(steps.end) - origin
    }

    /// Fills a stretch; those before it have been. `step` makes rows from those of the step before, of which step 0 has none.
    fn fill(&mut self, stretch: usize, mut step: impl FnMut(usize, &[T], &mut [T], &mut [Mark])) {
        let steps = self.steps(stretch);
        self.first = steps.start;
        let origin = self.group.before(self.first);
        for t in steps.clone() {
            // What is left is not used then, and whatever it was is as good.
            if interrupt::requested() {
                break;
            }
            let at = self.group.before(t) - origin;
            let (done, now) = self.rows.split_at_mut(at * self.stride);
            let marks = &mut self.marks[at..];
            match stretch.checked_sub(1).filter(|_| t == steps.start) {
                Some(previous) => step(t, &self.kept[previous], now, marks),
                None if t == 0 => step(t, &[], now, marks),
                None => step(t, &done[(self.group.before(t - 1) - origin) * self.stride..], now, marks),
            }
        }
        if self.kept.len() == stretch {
            self.kept.push(self.rows(steps.end - 1..steps.end).to_vec());
        }
    }
}

/// How far a sequence has come.
#[derive(Clone)]
struct Course<T> {
    frontier: Frontier<T>,
    product: LogProduct,
    /// Bounds of the absolute errors of α̂, where they are followed.
    doubts: Option<Vec<T>>,
    /// ln P(O) of a sequence that is taken no further: −∞, or NaN where it is uncertain. Its rows are 0 from there on.
    out: Option<f64>,
}

impl<T: Precise> Course<T> {
    fn all(chain: &Chain<T>, excluded: &[bool]) -> Vec<Self> {
        let course = Self {
            frontier: Frontier::new(&chain.reach, chain.n, T::from_f64(Limits::of::<T>().least)),
            product: LogProduct::ONE,
            doubts: None,
            out: None,
        };
        excluded.iter().map(|&out| Self { out: out.then_some(f64::NAN), ..course.clone() }).collect()
    }

    fn ln(&self) -> f64 {
        self.out.unwrap_or_else(|| self.product.ln())
    }
}

/// What a row was scaled by: the logarithm of the shift of densities, and σ.
#[derive(Clone, Copy, Default)]
struct Mark {
    shift: f64,
    sum: f64,
}

/// ln P(O) of each sequence; NaN of the [uncertain](super::limits).
pub fn forward<T: Precise>(chain: &Chain<T>, seen: &Observations, group: &Group) -> Vec<f64> {
    let mut courses = Course::all(chain, &vec![false; group.size()]);
    let rows = group.size() * chain.stride;
    let (mut before, mut now) = (vec![T::ZERO; rows], vec![T::ZERO; rows]);
    let mut marks = vec![Mark::default(); group.size()];
    let mut scratch = Row::new(chain.stride);
    for t in 0..group.steps() {
        let (earlier, marks, scratch) = (&before[..], &mut marks[..], &mut scratch);
        Step { chain, seen, group, t, before: earlier, now: &mut now, marks, scratch, courses: &mut courses }.run();
        std::mem::swap(&mut before, &mut now);
        if courses[..group.active(t)].iter().all(|course| course.out.is_some()) || interrupt::requested() {
            break;
        }
    }
    courses.iter().map(Course::ln).collect()
}

/// α̂ₜ from α̂ₜ₋₁, and the products of the scales.
struct Step<'a, T> {
    chain: &'a Chain<T>,
    seen: &'a Observations,
    group: &'a Group,
    t: usize,
    before: &'a [T],
    now: &'a mut [T],
    marks: &'a mut [Mark],
    scratch: &'a mut Row<T>,
    courses: &'a mut [Course<T>],
}

impl<T: Precise> Step<'_, T> {
    fn run(self) {
        let Self { chain, seen, group, t, before, now, marks, scratch, courses } = self;
        let (stride, active, limits) = (chain.stride, group.active(t), Limits::of::<T>());
        if t == 0 {
            now.chunks_exact_mut(stride).take(active).for_each(|row| row.copy_from_slice(&chain.start));
        } else {
            multiply::<SumProduct, T>(active, stride, before, &chain.forward, now);
        }
        let rows = now.chunks_exact_mut(stride).take(active).enumerate();
        for (((slot, row), course), mark) in rows.zip(courses).zip(marks) {
            if course.out.is_some() {
                row.fill(T::ZERO);
                continue;
            }
            let (at, frontier) = (group.places[slot] + t, &mut course.frontier);
            let (emitted, shift) = chain.emitter.row(seen, at, Scale::Largest(&frontier.needed), scratch);
            let predicted = short(row, &frontier.needed).then(|| row.to_vec());
            let sum = weigh(row, emitted).to_f64();
            let (last, mut sure) = (group.lengths[slot] == t + 1, true);
            course.doubts = predicted.map(|predicted| {
                let errors = errors(chain, course.doubts.as_deref(), t);
                let (doubts, whole) = doubts(&frontier.needed, &predicted, &errors, emitted, sum);
                sure = whole <= limits.negligible * sum;
                doubts
            });
            let possible = frontier.see(&chain.reach, seen.symbol(at), T::from_f64(limits.least));
            if !possible || last && !frontier.ends(&chain.reach) {
                course.out = Some(f64::NEG_INFINITY);
            } else if !(sure && sum >= limits.least_sum && sum < f64::INFINITY) {
                course.out = Some(f64::NAN);
            } else {
                scaled(row, T::from_f64(1.0 / sum));
                course.product.times_exp(shift);
                course.product.times(sum * limits.unit);
                *mark = Mark { shift, sum };
                if chain.ends && last {
                    let end = dot(row, &chain.ending).to_f64();
                    course.product.times(end);
                    let doubted = course.doubts.as_ref().map_or(0.0, |doubts| dot(doubts, &chain.ending).to_f64());
                    let certain = end >= limits.least && doubted <= limits.negligible * end;
                    course.out = (!certain).then_some(f64::NAN);
                }
            }
            if course.out.is_some() {
                row.fill(T::ZERO);
            }
        }
    }
}

/// Whether some x is less than its `least`, or no number.
#[inline(always)]
fn short<T: Precise>(x: &[T], least: &[T]) -> bool {
    // All are looked at: that is faster than to stop.
    !x.iter().zip(least).fold(true, |enough, (x, least)| enough & (x >= least))
}

/// Bounds of the absolute errors of pₜ, by those of α̂ₜ₋₁.
fn errors<T: Precise>(chain: &Chain<T>, before: Option<&[T]>, t: usize) -> Vec<T> {
    let lost = Limits::of::<T>().lost;
    match before {
        Some(before) => {
            let mut errors = vec![T::ZERO; chain.stride];
            multiply::<SumProduct, T>(1, chain.stride, before, &chain.forward, &mut errors);
            errors
        }
        None => vec![T::from_f64(if t == 0 { lost } else { lost * chain.n as f64 }); chain.stride],
    }
}

/// Bounds of the absolute errors of α̂, and what the errors of states that are not right relatively make up of σ.
fn doubts<T: Precise>(needed: &[T], predicted: &[T], errors: &[T], emitted: &[T], sum: f64) -> (Vec<T>, f64) {
    let Limits { lost, negligible, .. } = Limits::of::<T>();
    let mut whole = 0.0;
    let states = needed.iter().zip(predicted).zip(errors.iter().zip(emitted));
    let doubts = states.map(|((&needed, p), (error, emitted))| {
        let (p, error) = (p.to_f64(), error.to_f64());
        if needed == T::ZERO {
            // 0 is exact.
            return T::ZERO;
        }
        if error <= negligible * p {
            return T::from_f64(lost);
        }
        let part = error * emitted.to_f64();
        whole += part;
        T::from_f64(part / sum + lost)
    });
    (doubts.collect(), whole)
}

/// x ← x ∘ y; the sum of that.
#[inline(always)]
fn weigh<T: Precise>(x: &mut [T], y: &[T]) -> T {
    total(x.as_chunks_mut::<WIDTH>().0.iter_mut().zip(y.as_chunks::<WIDTH>().0).map(|(x, y)| {
        for lane in 0..WIDTH {
            x[lane] = x[lane] * y[lane];
        }
        *x
    }))
}

/// x ← x · scale; the sum of that.
#[inline(always)]
fn scaled<T: Precise>(x: &mut [T], scale: T) -> T {
    total(x.as_chunks_mut::<WIDTH>().0.iter_mut().map(|x| {
        for x in x.iter_mut() {
            *x = *x * scale;
        }
        *x
    }))
}

/// x · y.
#[inline(always)]
fn dot<T: Precise>(x: &[T], y: &[T]) -> T {
    total(x.as_chunks::<WIDTH>().0.iter().zip(y.as_chunks::<WIDTH>().0).map(|(x, y)| {
        let mut terms = *x;
        for lane in 0..WIDTH {
            terms[lane] = terms[lane] * y[lane];
        }
        terms
    }))
}

/// What the backward recursion knows of the step behind.
#[derive(Clone, Copy)]
struct Behind {
    mark: Mark,
    /// Σ α̂ β̂.
    sum: f64,
    /// Sₜ / P(O).
    ratio: f64,
}

/// ln P(O) of each sequence, NaN of the [uncertain](super::limits) and of those that are excluded; shows γₜ to `show`, from the last step
/// to the first, by slot and t, and adds Σ α̂ₜ(i) bⱼ(oₜ₊₁) βₜ₊₁(j) / sₜ to `pairs`, where there is such: ξ without A. Sequences that
/// turn out to be uncertain have been shown, and have been counted, up to there.
pub fn forward_backward<T: Precise>(
    chain: &Chain<T>,
    seen: &Observations,
    group: &Group,
    excluded: &[bool],
    bytes: usize,
    mut pairs: Option<&mut [f64]>,
    mut show: impl FnMut(usize, usize, &[T]),
) -> Vec<f64> {
    let (stride, size, limits) = (chain.stride, group.size(), Limits::of::<T>());
    let mut trellis = Trellis::new(group, stride, bytes);
    let mut scratch = Row::new(stride);
    let mut courses = Course::all(chain, excluded);
    let stretches = trellis.stretches();
    // As they are before each stretch.
    let mut starts = Vec::with_capacity(stretches);
    for stretch in 0..stretches {
        starts.push(courses.clone());
        trellis.fill(stretch, |t, before, now, marks| {
            Step { chain, seen, group, t, before, now, marks, scratch: &mut scratch, courses: &mut courses }.run();
        });
        if courses.iter().all(|course| course.out.is_some()) {
            return courses.iter().map(Course::ln).collect();
        }
    }
    let mut logs: Vec<f64> = courses.iter().map(Course::ln).collect();
    let mut behind = vec![Behind { mark: Mark::default(), sum: 1.0, ratio: 1.0 }; size];
    let backward = chain.backward();
    // βₜ, and b(oₜ₊₁) ∘ βₜ₊₁, which becomes ξ's right factor.
    let (mut beta, mut weighted) = (vec![T::ZERO; size * stride], vec![T::ZERO; size * stride]);
    let mut gamma = vec![T::ZERO; stride];
    let mut block = Block { rows: vec![T::ZERO; (BLOCK + size) * stride], start: BLOCK + size, end: 0 };
    for stretch in (0..stretches).rev() {
        if stretch + 1 < stretches {
            let mut again = std::mem::take(&mut starts[stretch]);
            // Those that are out by now are out from the start.
            again
                .iter_mut()
                .zip(&logs)
                .filter(|(_, log)| !log.is_finite())
                .for_each(|(course, log)| course.out = Some(*log));
            trellis.fill(stretch, |t, before, now, marks| {
                Step { chain, seen, group, t, before, now, marks, scratch: &mut scratch, courses: &mut again }.run();
            });
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
                    let scale = Scale::Known(behind[slot].mark.shift);
                    let (emitted, _) = chain.emitter.row(seen, group.places[slot] + t + 1, scale, &mut scratch);
                    row.copy_from_slice(emitted);
                    weigh(row, &beta[slot * stride..][..stride]);
                } else {
                    row.fill(T::ZERO);
                }
            }
            multiply::<SumProduct, T>(going, stride, &weighted, backward, &mut beta);
            for row in beta.chunks_exact_mut(stride).take(active).skip(going) {
                row.copy_from_slice(&chain.ending);
            }
            let marks = trellis.marks(t..t + 1);
            let rows = trellis.rows(t..t + 1).chunks_exact(stride).zip(beta.chunks_exact_mut(stride));
            for ((slot, (alpha, beta)), weighted) in rows.enumerate().zip(weighted.chunks_exact_mut(stride)) {
                if !logs[slot].is_finite() {
                    continue;
                }
                gamma.copy_from_slice(alpha);
                let sum = weigh(&mut gamma, beta).to_f64();
                let behind = &mut behind[slot];
                let mut least = limits.least;
                if slot < going {
                    behind.ratio *= sum / (behind.mark.sum * behind.sum);
                    least = limits.least_sum;
                }
                let near = (behind.ratio - 1.0).abs() <= limits.tolerance(group.lengths[slot]);
                if !(near && sum >= least) {
                    logs[slot] = f64::NAN;
                    weighted.fill(T::ZERO);
                    continue;
                }
                let scale = T::from_f64(1.0 / sum);
                scaled(&mut gamma, scale);
                scaled(weighted, scale);
                show(slot, t, &gamma);
                let whole = total(beta.as_chunks::<WIDTH>().0.iter().copied());
                scaled(beta, T::ONE / whole);
                (behind.mark, behind.sum) = (marks[slot], sum / whole.to_f64());
            }
            if let Some(pairs) = pairs.as_deref_mut() {
                block.push(stride, active, &weighted[..going * stride]);
                if block.start < size || t == steps.start {
                    let alpha = trellis.rows(t..block.end);
                    accumulate(chain.n, stride, alpha, &block.rows[block.start * stride..], pairs);
                    block.start = BLOCK + size;
                    block.end = t;
                }
            }
        }
    }
    logs
}

/// Right factors of ξ, the last first.
struct Block<T> {
    rows: Vec<T>,
    /// The first row that is filled.
    start: usize,
    /// The step behind the last that is here.
    end: usize,
}

impl<T: Precise> Block<T> {
    /// Puts `active` rows before the others: these, and zeros for sequences that are at their end.
    fn push(&mut self, stride: usize, active: usize, rows: &[T]) {
        self.start -= active;
        let (own, ended) = self.rows[self.start * stride..][..active * stride].split_at_mut(rows.len());
        own.copy_from_slice(rows);
        ended.fill(T::ZERO);
    }
}

/// The most probable path of each sequence of the group, to its place in `paths`.
pub fn viterbi<T: Precise>(
    chain: &Chain<T>,
    logs: &LogChain<T>,
    seen: &Observations,
    group: &Group,
    bytes: usize,
    paths: &mut [&mut [u32]],
) {
    let stride = chain.stride;
    let mut trellis = Trellis::new(group, stride, bytes);
    let mut scratch = Row::new(stride);
    let stretches = trellis.stretches();
    for stretch in (0..stretches).chain((0..stretches - 1).rev()) {
        let done = trellis.kept.len();
        trellis.fill(stretch, |t, before, now, _| {
            Ascent { chain, logs, seen, group, t, before, now, scratch: &mut scratch }.run();
        });
        if done + 1 < stretches {
            continue;
        }
        for t in trellis.steps(stretch).rev() {
            for (slot, delta) in trellis.rows(t..t + 1).chunks_exact(stride).enumerate() {
                let path = &mut *paths[slot];
                path[t] = match path.get(t + 1) {
                    None => best(delta, &logs.ending),
                    Some(&NO_STATE) => NO_STATE,
                    Some(&next) => best(delta, &logs.columns[next as usize * stride..][..stride]),
                };
            }
        }
    }
}

/// δₜ from δₜ₋₁.
struct Ascent<'a, T> {
    chain: &'a Chain<T>,
    logs: &'a LogChain<T>,
    seen: &'a Observations,
    group: &'a Group,
    t: usize,
    before: &'a [T],
    now: &'a mut [T],
    scratch: &'a mut Row<T>,
}

impl<T: Precise> Ascent<'_, T> {
    fn run(self) {
        let Self { chain, logs, seen, group, t, before, now, scratch } = self;
        let (stride, active) = (chain.stride, group.active(t));
        if t == 0 {
            now.chunks_exact_mut(stride).take(active).for_each(|row| row.copy_from_slice(&logs.start));
        } else {
            multiply::<MaxPlus, T>(active, stride, before, &logs.forward, now);
        }
        for (slot, row) in now.chunks_exact_mut(stride).take(active).enumerate() {
            let emitted = chain.emitter.log_row(&logs.emitted, seen, group.places[slot] + t, scratch);
            lower(row, emitted);
        }
    }
}

/// x ← x + y − max(x + y): numbers near 0 have more digits behind the point.
#[inline(always)]
fn lower<T: Precise>(x: &mut [T], y: &[T]) {
    let mut most = [T::NEG_INFINITY; WIDTH];
    for (x, y) in x.as_chunks_mut::<WIDTH>().0.iter_mut().zip(y.as_chunks::<WIDTH>().0) {
        for lane in 0..WIDTH {
            x[lane] += y[lane];
            most[lane] = if x[lane] > most[lane] { x[lane] } else { most[lane] };
        }
    }
    let most = most.into_iter().fold(T::NEG_INFINITY, |most, x| if x > most { x } else { most });
    if most > T::NEG_INFINITY {
        x.iter_mut().for_each(|x| *x = *x - most);
    }
}

/// The first i at which xᵢ + yᵢ is largest; [`NO_STATE`] where it is −∞.
#[inline(always)]
fn best<T: Precise>(x: &[T], y: &[T]) -> u32 {
    let mut most = [T::NEG_INFINITY; WIDTH];
    for (x, y) in x.as_chunks::<WIDTH>().0.iter().zip(y.as_chunks::<WIDTH>().0) {
        for lane in 0..WIDTH {
            let sum = x[lane] + y[lane];
            most[lane] = if sum > most[lane] { sum } else { most[lane] };
        }
    }
    let most = most.into_iter().fold(T::NEG_INFINITY, |most, x| if x > most { x } else { most });
    if most > T::NEG_INFINITY {
        x.iter().zip(y).position(|(&x, &y)| x + y == most).map_or(NO_STATE, |state| state as u32)
    } else {
        NO_STATE
    }
}
