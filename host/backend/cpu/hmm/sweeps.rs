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
use super::emissions::Row;
use super::product::{MaxPlus, SumProduct, WIDTH, accumulate, multiply, total};
use crate::backend::Precise;
use crate::hmm::recursions::NO_STATE;
use crate::hmm::sequences::Observations;

/// Rows of ξ that are multiplied at a time.
const BLOCK: usize = 128;

/// A sum of α below this is first lifted.
const TINY: f64 = 1e-30;

/// By how much.
const LIFT: f64 = (1_u64 << 60) as f64;

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
        let rows = vec![T::ZERO; group.before(length) * stride];
        Self { group, stride, length, rows, first: 0, kept: Vec::new() }
    }

    fn stretches(&self) -> usize {
        self.group.steps().div_ceil(self.length)
    }

    fn steps(&self, stretch: usize) -> Range<usize> {
        stretch * self.length..((stretch + 1) * self.length).min(self.group.steps())
    }

    /// The rows of some steps of the stretch.
    fn rows(&self, steps: Range<usize>) -> &[T] {
        let [start, end] = [steps.start, steps.end].map(|t| self.group.before(t) - self.group.before(self.first));
        &self.rows[start * self.stride..end * self.stride]
    }

    /// Fills a stretch; those before it have been. `step` makes rows from those of the step before, of which step 0 has none.
    fn fill(&mut self, stretch: usize, mut step: impl FnMut(usize, &[T], &mut [T])) {
        let steps = self.steps(stretch);
        self.first = steps.start;
        let origin = self.group.before(self.first);
        for t in steps.clone() {
            let (done, now) = self.rows.split_at_mut((self.group.before(t) - origin) * self.stride);
            match stretch.checked_sub(1).filter(|_| t == steps.start) {
                Some(previous) => step(t, &self.kept[previous], now),
                None if t == 0 => step(t, &[], now),
                None => step(t, &done[(self.group.before(t - 1) - origin) * self.stride..], now),
            }
        }
        if self.kept.len() == stretch {
            self.kept.push(self.rows(steps.end - 1..steps.end).to_vec());
        }
    }
}

/// ln P(O) of each sequence.
pub fn forward<T: Precise>(chain: &Chain<T>, seen: &Observations, group: &Group) -> Vec<f64> {
    let rows = group.size() * chain.stride;
    let (mut before, mut now) = (vec![T::ZERO; rows], vec![T::ZERO; rows]);
    let mut products = vec![LogProduct::ONE; group.size()];
    let mut scratch = Row::new(chain.stride);
    for t in 0..group.steps() {
        step(chain, seen, group, t, &before, &mut now, &mut scratch, &mut products);
        std::mem::swap(&mut before, &mut now);
    }
    products.into_iter().map(LogProduct::ln).collect()
}

/// α̂ₜ from α̂ₜ₋₁, and the products of the scales.
#[expect(clippy::too_many_arguments, reason = "the state of a loop")]
fn step<T: Precise>(
    chain: &Chain<T>,
    seen: &Observations,
    group: &Group,
    t: usize,
    before: &[T],
    now: &mut [T],
    scratch: &mut Row<T>,
    products: &mut [LogProduct],
) {
    let (stride, active) = (chain.stride, group.active(t));
    if t == 0 {
        now.chunks_exact_mut(stride).take(active).for_each(|row| row.copy_from_slice(&chain.start));
    } else {
        multiply::<SumProduct, T>(active, stride, before, &chain.forward, now);
    }
    for ((slot, row), product) in now.chunks_exact_mut(stride).take(active).enumerate().zip(products) {
        let (emitted, scale) = chain.emitter.row(seen, group.places[slot] + t, scratch);
        product.times_exp(scale);
        let mut sum = weigh(row, emitted);
        while sum > T::ZERO && sum.to_f64() < TINY {
            sum = scaled(row, T::from_f64(LIFT));
            product.times(1.0 / LIFT);
        }
        product.times(sum.to_f64());
        if sum > T::ZERO {
            scaled(row, T::ONE / sum);
        }
        if chain.ends && group.lengths[slot] == t + 1 {
            product.times(dot(row, &chain.ending).to_f64());
        }
    }
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

/// ln P(O) of each sequence; shows γₜ to `show`, from the last step to the first, by slot and t, and adds
/// Σ α̂ₜ(i) bⱼ(oₜ₊₁) βₜ₊₁(j) / sₜ to `pairs`, where there is such: ξ without A.
pub fn forward_backward<T: Precise>(
    chain: &Chain<T>,
    seen: &Observations,
    group: &Group,
    bytes: usize,
    mut pairs: Option<&mut [f64]>,
    mut show: impl FnMut(usize, usize, &[T]),
) -> Vec<f64> {
    let (stride, size) = (chain.stride, group.size());
    let mut trellis = Trellis::new(group, stride, bytes);
    let mut scratch = Row::new(stride);
    let mut products = vec![LogProduct::ONE; size];
    let stretches = trellis.stretches();
    for stretch in 0..stretches {
        trellis.fill(stretch, |t, before, now| {
            step(chain, seen, group, t, before, now, &mut scratch, &mut products);
        });
    }
    let logs: Vec<f64> = products.iter().map(|product| product.ln()).collect();
    let backward = chain.backward();
    // βₜ, and b(oₜ₊₁) ∘ βₜ₊₁, which becomes ξ's right factor.
    let (mut beta, mut weighted) = (vec![T::ZERO; size * stride], vec![T::ZERO; size * stride]);
    let mut gamma = vec![T::ZERO; stride];
    let mut block = Block { rows: vec![T::ZERO; (BLOCK + size) * stride], start: BLOCK + size, end: 0 };
    for stretch in (0..stretches).rev() {
        if stretch + 1 < stretches {
            // Their scales are known.
            let mut again = products.clone();
            trellis.fill(stretch, |t, before, now| {
                step(chain, seen, group, t, before, now, &mut scratch, &mut again);
            });
        }
        let steps = trellis.steps(stretch);
        block.end = steps.end;
        for t in steps.clone().rev() {
            let (active, going) = (group.active(t), group.active(t + 1));
            for (slot, row) in weighted.chunks_exact_mut(stride).take(going).enumerate() {
                let (emitted, _) = chain.emitter.row(seen, group.places[slot] + t + 1, &mut scratch);
                row.copy_from_slice(emitted);
                weigh(row, &beta[slot * stride..][..stride]);
            }
            multiply::<SumProduct, T>(going, stride, &weighted, backward, &mut beta);
            for row in beta.chunks_exact_mut(stride).take(active).skip(going) {
                row.copy_from_slice(&chain.ending);
            }
            let rows = trellis.rows(t..t + 1).chunks_exact(stride).zip(beta.chunks_exact_mut(stride));
            for ((slot, (alpha, beta)), weighted) in rows.enumerate().zip(weighted.chunks_exact_mut(stride)) {
                gamma.copy_from_slice(alpha);
                let mut sum = weigh(&mut gamma, beta);
                while sum > T::ZERO && sum.to_f64() < TINY {
                    scaled(beta, T::from_f64(LIFT));
                    scaled(weighted, T::from_f64(LIFT));
                    gamma.copy_from_slice(alpha);
                    sum = weigh(&mut gamma, beta);
                }
                // What is not possible counts for nothing.
                let scale = if sum > T::ZERO && logs[slot].is_finite() { T::ONE / sum } else { T::ZERO };
                scaled(&mut gamma, scale);
                scaled(weighted, scale);
                show(slot, t, &gamma);
                let sum = total(beta.as_chunks::<WIDTH>().0.iter().copied());
                if sum > T::ZERO {
                    scaled(beta, T::ONE / sum);
                }
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
        trellis.fill(stretch, |t, before, now| {
            let active = group.active(t);
            if t == 0 {
                now.chunks_exact_mut(stride).take(active).for_each(|row| row.copy_from_slice(&logs.start));
            } else {
                multiply::<MaxPlus, T>(active, stride, before, &logs.forward, now);
            }
            for (slot, row) in now.chunks_exact_mut(stride).take(active).enumerate() {
                let emitted = chain.emitter.log_row(&logs.emitted, seen, group.places[slot] + t, &mut scratch);
                lower(row, emitted);
            }
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
