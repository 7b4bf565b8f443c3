//! The Viterbi algorithm: δₜ(j) = maxᵢ (δₜ₋₁(i) + ln Aᵢⱼ) + ln bⱼ(oₜ).
//!
//! Each row is shifted so that its maximum is 0. Numbers near 0 have a finer resolution, and sums of a few logarithms
//! of powers of two compare equal where they should.

use crate::backend::NO_STATE;
use crate::backends::cpu::Group;
use crate::backends::cpu::chain::{Chain, LogChain};
use crate::backends::cpu::emissions::Row;
use crate::backends::cpu::product::{LANES, MaxPlus, Registers, Work, few, fold, fold_row, multiply, widest};
use crate::backends::cpu::sweeps::{Rows, Step, Trellis};
use crate::sequences::Sequences;
use warpkov_common::interrupt;
use warpkov_runtime::Precise;

/// Half of the lanes: few states take half of the registers.
const HALF: usize = LANES / 2;

/// Writes the most probable path of each sequence of the group to `paths`, one slice per slot.
pub fn viterbi<T: Precise>(
    chain: &Chain<T>,
    logs: &LogChain<T>,
    seen: &Sequences,
    group: &Group,
    bytes: usize,
    paths: &mut [&mut [u32]],
) {
    widest(Viterbi { chain, logs, seen, group, bytes, paths });
}

struct Viterbi<'a, 'p, T> {
    chain: &'a Chain<T>,
    logs: &'a LogChain<T>,
    seen: &'a Sequences,
    group: &'a Group,
    bytes: usize,
    paths: &'a mut [&'p mut [u32]],
}

impl<T: Precise> Work for Viterbi<'_, '_, T> {
    const WIDE: bool = false;
    type Output = ();

    #[inline(always)]
    fn run<S: Registers>(self) {
        match self.chain.stride {
            ..=LANES if self.chain.n <= HALF => self.by_pointers::<S, HALF>(),
            ..=LANES => self.by_pointers::<S, LANES>(),
            stride => self.by_rows::<S>(stride),
        }
    }
}

impl<T: Precise> Viterbi<'_, '_, T> {
    /// Stores δ; the traceback recomputes the argmax for the one state on the path.
    #[inline(always)]
    fn by_rows<S: Registers>(self, stride: usize) {
        let Self { chain, logs, seen, group, bytes, paths } = self;
        let mut trellis = Trellis::<T, ()>::new(group, stride, bytes);
        let mut ascent = Ascent { chain, logs, seen, group, scratch: Row::new(stride) };
        let stretches = trellis.stretches();
        for stretch in (0..stretches).chain((0..stretches - 1).rev()) {
            let done = trellis.kept.len();
            trellis.fill::<S>(stride, stretch, &mut ascent);
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

    /// For at most W states: stores back-pointers, one byte per state, in place of δ.
    #[inline(always)]
    fn by_pointers<S: Registers, const W: usize>(mut self) {
        for slot in 0..self.group.size() {
            self.of_slot::<S, W>(slot);
        }
    }

    #[inline(always)]
    fn of_slot<S: Registers, const W: usize>(&mut self, slot: usize) {
        let Self { chain, logs, seen, group, bytes, .. } = *self;
        let (place, path) = (group.places[slot], &mut *self.paths[slot]);
        let steps = path.len();
        let length = if steps.saturating_mul(size_of::<u64>()) <= bytes { steps } else { steps.isqrt() + 1 };
        let stretches = steps.div_ceil(length);
        let transitions = logs.forward.panel::<LANES>(0);
        let (mut scratch, mut pointers) = (Row::new(LANES), vec![0_u64; length]);
        // Checkpoints: δ before each stretch.
        let mut kept: Vec<[T; W]> = vec![std::array::from_fn(|lane| logs.start[lane])];
        for stretch in (0..stretches).chain((0..stretches - 1).rev()) {
            let range = stretch * length..steps.min((stretch + 1) * length);
            let mut delta = kept[stretch];
            for (t, pointers) in range.clone().zip(&mut pointers) {
                if interrupt::requested() {
                    return;
                }
                if t > 0 {
                    (delta, *pointers) = ascend::<S, T, W>(&delta, transitions);
                }
                let emitted = chain.emitter.log_row(&logs.emitted, seen, place + t, &mut scratch);
                let emitted: [T; LANES] = std::array::from_fn(|lane| emitted[lane]);
                delta = lowered(std::array::from_fn(|lane| delta[lane] + emitted[lane]));
            }
            if range.end < steps && kept.len() < stretches {
                kept.push(delta);
                continue;
            }
            if range.end == steps {
                let mut row = [T::NEG_INFINITY; LANES];
                row[..W].copy_from_slice(&delta);
                path[steps - 1] = best(&row, &logs.ending);
                if path[steps - 1] == NO_STATE {
                    return path.fill(NO_STATE);
                }
            }
            for (t, pointers) in range.zip(&pointers).rev().filter(|(t, _)| *t > 0) {
                path[t - 1] = (pointers >> (8 * path[t])) as u32 & 0xff;
            }
        }
    }
}

/// maxᵢ (xᵢ + Aᵢⱼ) for each j, and the lowest maximising i in byte j of the second result.
#[inline(always)]
fn ascend<S: Registers, T: Precise, const W: usize>(x: &[T; W], transitions: &[[T; LANES]]) -> ([T; W], u64) {
    let most = few::<S, MaxPlus, T, W>(x, transitions);
    // Separate from the maximum: the next step does not depend on the back-pointers, so their latency is hidden.
    let mut from = [0_u64; W];
    for (i, (x, row)) in x.iter().zip(transitions).enumerate().rev() {
        for lane in 0..W {
            from[lane] = if *x + row[lane] == most[lane] { i as u64 } else { from[lane] };
        }
    }
    (most, from.iter().enumerate().fold(0, |all, (lane, from)| all | from << (8 * lane)))
}

/// x − max x, unless all are −∞.
#[inline(always)]
fn lowered<T: Precise, const W: usize>(x: [T; W]) -> [T; W] {
    let most = fold(x, |a, b| if b > a { b } else { a });
    let most = if most > T::NEG_INFINITY { most } else { T::ZERO };
    x.map(|x| x - most)
}

/// The step from δₜ₋₁ to δₜ.
struct Ascent<'a, T> {
    chain: &'a Chain<T>,
    logs: &'a LogChain<T>,
    seen: &'a Sequences,
    group: &'a Group,
    scratch: Row<T>,
}

impl<T: Precise> Step<T, ()> for Ascent<'_, T> {
    #[inline(always)]
    fn step<S: Registers>(&mut self, rows: Rows<'_, T, ()>) {
        let Self { chain, logs, seen, group, scratch } = self;
        let Rows { t, stride, before, now, .. } = rows;
        let active = group.active(t);
        if t == 0 {
            now.chunks_exact_mut(stride).take(active).for_each(|row| row.copy_from_slice(&logs.start));
        } else {
            multiply::<MaxPlus, T>(active, stride, before, &logs.forward, now);
        }
        for (slot, row) in now.chunks_exact_mut(stride).take(active).enumerate() {
            lower(row, chain.emitter.log_row(&logs.emitted, seen, group.places[slot] + t, scratch));
        }
    }
}

/// x ← x + y − max(x + y), unless all are −∞.
#[inline(always)]
fn lower<T: Precise>(x: &mut [T], y: &[T]) {
    let mut most = [T::NEG_INFINITY; LANES];
    for (x, y) in x.as_chunks_mut::<LANES>().0.iter_mut().zip(y.as_chunks::<LANES>().0) {
        let (mut all, y) = (*x, *y);
        for lane in 0..LANES {
            all[lane] += y[lane];
            most[lane] = if all[lane] > most[lane] { all[lane] } else { most[lane] };
        }
        *x = all;
    }
    let most = fold_row(x.len(), most, |a, b| if b > a { b } else { a });
    let most = if most > T::NEG_INFINITY { most } else { T::ZERO };
    x.as_chunks_mut::<LANES>().0.iter_mut().for_each(|x| *x = x.map(|x| x - most));
}

/// The lowest i that maximises xᵢ + yᵢ; [`NO_STATE`] where the maximum is −∞.
#[inline(always)]
fn best<T: Precise>(x: &[T], y: &[T]) -> u32 {
    let mut most = [T::NEG_INFINITY; LANES];
    for (x, y) in x.as_chunks::<LANES>().0.iter().zip(y.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            let sum = x[lane] + y[lane];
            most[lane] = if sum > most[lane] { sum } else { most[lane] };
        }
    }
    let most = fold_row(x.len(), most, |a, b| if b > a { b } else { a });
    if most > T::NEG_INFINITY {
        x.iter().zip(y).position(|(&x, &y)| x + y == most).map_or(NO_STATE, |state| state as u32)
    } else {
        NO_STATE
    }
}
