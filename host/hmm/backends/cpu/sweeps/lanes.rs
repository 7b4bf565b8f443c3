//! The recursions of a model of at most [`LANES`] states, one sequence at a time: its rows stay in vector registers.

use std::array::from_fn;
use std::ops::Range;

use super::{BLOCK, Behind, Course, Errors, ForwardBackward, Given, Mark, Score, Show, weigh};
use crate::backends::cpu::chain::Chain;
use crate::backends::cpu::emissions::{Row, Scale, Scaled};
use crate::backends::cpu::product::{LANES, Registers, SumProduct, accumulate, few, total};
use crate::backends::cpu::reach::Frontier;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

/// Steps whose emission rows are computed at once where α is not kept.
const AHEAD: usize = 16;

/// Rows that are read and written as vectors. Where the stack happens to begin elsewhere, vectors cross cache lines, and a step of the
/// likelihood takes half as long again.
#[repr(align(64))]
struct Aligned<A>(A);

/// The forward recursion of one sequence. Its rows begin at cache lines, as [`Aligned`] ones do.
#[derive(Clone)]
#[repr(C, align(64))]
struct SingleForward<'a, T> {
    /// α of the last step; π before the first.
    alpha: [T; LANES],
    /// d; `errors` holds d A.
    doubts: [T; LANES],
    errors: [T; LANES],
    given: Given<'a, T>,
    /// Index of the first observation.
    place: usize,
    length: usize,
    course: Course,
    frontier: Frontier<T>,
}

/// The rows of at most `length` steps.
struct Stretch<T> {
    length: usize,
    /// α of all steps, then b̃ of all steps if it is computed. One vector, because the allocator keeps the memory of one.
    rows: Vec<[T; LANES]>,
    marks: Vec<(Mark, Scaled)>,
    scratch: Row<T>,
}

impl<T: Precise> Stretch<T> {
    fn new(chain: &Chain<T>, length: usize) -> Self {
        let rows = vec![[T::ZERO; LANES]; length * (1 + usize::from(chain.emitter.computes()))];
        Self { length, rows, marks: vec![Default::default(); length], scratch: Row::new(LANES) }
    }
}

impl<'a, T: Precise> SingleForward<'a, T> {
    fn new(given: Given<'a, T>, slot: usize) -> Self {
        let Given { chain, group, .. } = given;
        let (place, length, none) = (group.places[slot], group.lengths[slot], [T::ZERO; LANES]);
        let (course, frontier) = (Course::START, Frontier::new(&chain.reach, chain.n));
        let alpha = from_fn(|lane| chain.start[lane]);
        Self { given, place, length, course, frontier, alpha, doubts: none, errors: none }
    }

    /// Computes the next steps, up to the one where the sequence drops out.
    #[inline(always)]
    fn fill<S: Registers>(&mut self, steps: Range<usize>, stretch: &mut Stretch<T>) {
        match self.given.chain.open {
            true => self.advance::<S, true>(steps, stretch),
            false => self.advance::<S, false>(steps, stretch),
        }
    }

    #[inline(always)]
    fn advance<S: Registers, const OPEN: bool>(&mut self, steps: Range<usize>, stretch: &mut Stretch<T>) {
        let &mut Self { given, place, length, ref mut frontier, .. } = self;
        let Given { chain, seen, .. } = given;
        let Stretch { length: most, rows, marks, scratch } = stretch;
        let (alpha, emitted) = rows.split_at_mut(*most);
        let (transitions, computes) = (chain.forward.panel::<LANES>(0), chain.emitter.computes());
        // Of an open chain all states count for the scale, so that the rows do not depend on the recursion.
        let ahead = OPEN && computes;
        if ahead {
            for ((t, emitted), (_, scaled)) in steps.clone().zip(&mut *emitted).zip(&mut *marks) {
                let (at, scale) = (place + t, Scale::Largest(&frontier.needed));
                let (row, found) = chain.emitter.row::<S>(seen, at, scale, LANES, scratch);
                (*emitted, *scaled) = (from_fn(|lane| row[lane]), found);
            }
        }
        // What no call refers to stays in registers.
        let (mut course, mut now, [mut doubts, mut errors]) = (self.course, self.alpha, [self.doubts, self.errors]);
        let rows = alpha.iter_mut().zip(marks);
        for ((t, index), (row, (mark, scaled))) in steps.zip(0..).zip(rows) {
            if course.out.is_some() || interrupt::requested() {
                break;
            }
            if t > 0 {
                now = few::<S, SumProduct, T, LANES>(&now, transitions);
            }
            if !OPEN && course.doubtful {
                errors = few::<S, SumProduct, T, LANES>(&doubts, transitions);
            }
            let scaled = if ahead {
                (&emitted[index][..], *scaled)
            } else {
                let scale = Scale::Largest(&frontier.needed);
                let (row, scaled) = chain.emitter.row::<S>(seen, place + t, scale, LANES, scratch);
                if computes {
                    emitted[index] = from_fn(|lane| row[lane]);
                }
                (row, scaled)
            };
            let at = (place + t, t + 1 == length);
            let errors = Errors { now: &mut doubts, predicted: &mut errors };
            *mark = course.advance::<T, OPEN>(frontier, &given, at, &mut now, scaled, errors);
            *row = now;
        }
        (self.course, self.alpha, self.doubts, self.errors) = (course, now, doubts, errors);
    }
}

impl<T: Precise> Score<'_, T> {
    /// ln P(O) of each slot.
    #[inline(always)]
    pub(super) fn by_lanes<S: Registers>(self) -> Vec<f64> {
        let mut stretch = Stretch::new(self.0.chain, AHEAD);
        let mut logs = Vec::new();
        for slot in 0..self.0.group.size() {
            let mut forward = SingleForward::new(self.0, slot);
            for start in (0..forward.length).step_by(AHEAD) {
                forward.fill::<S>(start..forward.length.min(start + AHEAD), &mut stretch);
                if forward.course.out.is_some() || interrupt::requested() {
                    break;
                }
            }
            logs.push(forward.course.ln());
        }
        logs
    }
}

impl<T: Precise, W: Show<T>> ForwardBackward<'_, T, W> {
    /// Runs the recursion of each slot.
    #[inline(always)]
    pub(super) fn by_lanes<S: Registers>(mut self) -> Vec<f64> {
        let mut logs = Vec::new();
        for slot in 0..self.group.size() {
            logs.push(if self.excluded[slot] { f64::NAN } else { self.of_slot::<S>(slot) });
        }
        logs
    }

    #[inline(always)]
    fn of_slot<S: Registers>(&mut self, slot: usize) -> f64 {
        let Self { chain, seen, group, bytes, pairs, show, .. } = self;
        let mut forward = SingleForward::new(Given { chain, seen, group }, slot);
        let SingleForward { place, length: steps, .. } = forward;
        // All steps where they fit in memory, else a stretch of about √T steps at a time.
        let computes = chain.emitter.computes();
        let row = size_of::<[T; LANES]>() * (1 + usize::from(computes));
        let length = if steps.saturating_mul(row) <= *bytes { steps } else { steps.isqrt() + 1 };
        let stretches = steps.div_ceil(length);
        let of_stretch = |stretch: usize| stretch * length..steps.min((stretch + 1) * length);
        let mut filled = Stretch::new(chain, length);
        // The state before each stretch but the last.
        let mut starts = Vec::with_capacity(stretches);
        for stretch in 0..stretches {
            if stretch + 1 < stretches {
                starts.push(forward.clone());
            }
            forward.fill::<S>(of_stretch(stretch), &mut filled);
            if forward.course.out.is_some() {
                break;
            }
        }
        let log = forward.course.ln();
        if !log.is_finite() {
            return log;
        }
        let weight = pairs.as_ref().map_or(1.0, |_| seen.weight(group.members[slot]) / seen.unit());
        let backward = chain.backward().panel::<LANES>(0);
        let mut behind = Behind::new::<T>(steps);
        let mut beta: Aligned<[T; LANES]> = Aligned(from_fn(|lane| chain.ending[lane]));
        // b̃ of the step behind, if it was computed.
        let mut emitted = Aligned([T::ZERO; LANES]);
        // Right factors of ξ, filled from the back.
        let (mut right, mut begin) = (Aligned([[T::ZERO; LANES]; BLOCK]), BLOCK);
        for stretch in (0..stretches).rev() {
            let range = of_stretch(stretch);
            if stretch + 1 < stretches {
                forward = starts.swap_remove(stretch);
                forward.fill::<S>(range.clone(), &mut filled);
            }
            for (index, t) in range.enumerate().rev() {
                if interrupt::requested() {
                    break;
                }
                let (alpha, (mark, _), last) = (filled.rows[index], filled.marks[index], t + 1 == steps);
                // b̃(oₜ₊₁) ∘ βₜ₊₁
                let mut weighted = Aligned([T::ZERO; LANES]);
                if !last {
                    if !computes {
                        let scale = Scale::Known(behind.shift);
                        let row = chain.emitter.row::<S>(seen, place + t + 1, scale, LANES, &mut filled.scratch).0;
                        emitted.0 = from_fn(|lane| row[lane]);
                    }
                    let unit = T::from_f64(behind.unit);
                    // u comes last: it takes as long to compute as the product, whose entries T holds: they are at most 2²ᵏ⁺³,
                    // with the k of the limits.
                    let product: [T; LANES] = from_fn(|lane| beta.0[lane] * emitted.0[lane]);
                    weighted.0 = product.map(|x| x * unit);
                    beta.0 = few::<S, SumProduct, T, LANES>(&product, backward).map(|x| x * unit);
                }
                let mut gamma = Aligned(alpha);
                let sum = weigh(&mut gamma.0, T::from_f64(mark.unit), &beta.0).to_f64();
                let Some(inverse) = behind.advance::<T>(sum, total(&beta.0).to_f64(), mark, last) else {
                    return f64::NAN;
                };
                if let Some(pairs) = pairs.as_deref_mut() {
                    if !last {
                        let scale = T::from_f64(mark.unit * inverse * weight);
                        begin -= 1;
                        right.0[begin] = weighted.0.map(|x| x * scale);
                    }
                    if begin == 0 || index == 0 {
                        let left = &filled.rows[index..][..BLOCK - begin];
                        accumulate(chain.n, LANES, left.as_flattened(), right.0[begin..].as_flattened(), pairs);
                        begin = BLOCK;
                    }
                }
                let scale = T::from_f64(inverse * weight);
                gamma.0 = gamma.0.map(|x| x * scale);
                show.show(slot, t, &gamma.0);
                if computes {
                    emitted.0 = filled.rows[length + index];
                }
            }
        }
        log
    }
}
