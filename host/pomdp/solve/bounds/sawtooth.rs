//! The sawtooth upper bound: interpolation between the vertices of the simplex and one belief at a time (Hauskrecht,
//! 2000, 4.3; HSVI).
//!
//! V\* is convex. Let V\*(e_s) ≤ v(s) at the vertices e_s, and V\*(c) ≤ u at a point c. Every belief b is ρ c + Σ (b(s)
//! − ρ c(s)) e_s with ρ = min over c(s) > 0 of b(s)/c(s), so
//!
//! > V\*(b) ≤ Σ b(s) v(s) + ρ (u − Σ c(s) v(s))
//!
//! ρ > 0 only if the support of b contains the support of c. So each point is filed under one state of its support, and
//! the bound at b only reads points filed under the states of b.

use std::array::from_fn;
use std::sync::{Mutex, PoisonError};

use crate::belief::Belief;

/// A belief with an upper bound.
struct Point {
    /// c in descending order of probability, because the least ratio usually occurs early. Empty after
    /// removal.
    entries: Vec<(u32, f64)>,
    /// u − Σ c(s) v(s) < 0.
    drop: f64,
    /// The state that the point is filed under.
    filed_under: u32,
    /// Time of the last change.
    changed: u32,
    /// Time of the last check that other points do not imply it.
    checked: u32,
}

/// Entries of a point in [`Filed`], which then fills a cache line.
const LEADING: usize = 5;

/// The part of a point that is read first; it rules out most points.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Filed {
    number: u32,
    /// Time of the last change of the point.
    time: u32,
    drop: f64,
    /// The [signature] of the support of c.
    support: u64,
    /// States of the first entries of c; if these are fewer, the first one again.
    states: [u32; LEADING],
    /// Probabilities of these entries, rounded down.
    probs: [f32; LEADING],
}

impl Filed {
    /// A point with these entries, not filed yet.
    fn new(number: u32, entries: &[(u32, f64)]) -> Self {
        let leading: [_; LEADING] = from_fn(|i| *entries.get(i).unwrap_or(&entries[0]));
        let (states, probs) = (leading.map(|entry| entry.0), leading.map(|entry| rounded_down(entry.1)));
        Self { number, time: 0, drop: 0.0, support: signature(entries.iter().map(|entry| entry.0)), states, probs }
    }

    /// Whether ρ times the drop may exceed `needed` at the belief that `dense` holds, whose support has this signature.
    #[inline(always)]
    fn may_exceed(&self, needed: f64, dense: &[f64], support: u64) -> bool {
        if self.support & !support != 0 {
            return false;
        }
        let drop = -self.drop;
        let mut leading = self.states.iter().zip(self.probs);
        drop > needed && leading.all(|(&state, prob)| dense[state as usize] * drop > needed * f64::from(prob))
    }
}

/// The largest number of 32 bits that is not above x.
fn rounded_down(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}

/// A set of states in 64 bits: if a set contains another, so do their signatures.
fn signature(states: impl Iterator<Item = u32>) -> u64 {
    // The golden ratio spreads neighbours.
    states.fold(0, |set, state| set | 1 << (state.wrapping_mul(0x9E37_79B9) >> 26))
}

/// Points between two checks of the clock.
const POINTS_PER_CHECK: usize = 256;

/// Bytes per filed point, including spare capacity and allocation overhead.
const POINT_BYTES: usize = 3 * size_of::<Filed>() / 2 + 32;

/// The vertex values and all points.
pub struct Sawtooth {
    /// v(s).
    corners: Vec<f64>,
    points: Vec<Point>,
    /// Points filed under each state, in the order of their last change.
    filed: Vec<Vec<Filed>>,
    /// Number of changes so far, which serves as time.
    time: u32,
    /// Heap bytes of all points.
    bytes: usize,
    /// Scratch arrays of |S| zeros for dense beliefs, one per thread in use.
    dense: Mutex<Vec<Vec<f64>>>,
    /// The next point that [`prune`](Self::prune) examines.
    next: usize,
}

impl Sawtooth {
    /// The bound from vertex values, without points.
    #[must_use]
    pub fn new(corners: Vec<f64>) -> Self {
        let states = corners.len();
        Self {
            corners,
            points: Vec::new(),
            filed: vec![Vec::new(); states],
            time: 0,
            bytes: 0,
            dense: Mutex::default(),
            next: 0,
        }
    }

    /// Number of changes so far.
    #[must_use]
    pub fn time(&self) -> u32 {
        self.time
    }

    /// Bytes allocated for points.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes + self.points.capacity() * size_of::<Point>() + self.filed.capacity() * size_of::<Vec<Filed>>()
    }

    /// Number of points ever added, including implied ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether no point was ever added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Records V\*(`belief`) ≤ `value` and returns the index of its point. `number` is its present index, if any. A
    /// value that does not improve on the vertices adds no point.
    pub fn lower(&mut self, belief: &Belief, value: f64, number: Option<u32>) -> Option<u32> {
        let drop = value - self.base(belief);
        if drop < 0.0 { self.put(belief, drop, number) } else { number }
    }

    /// The bound of the vertices, Σ b(s) v(s).
    #[must_use]
    pub fn base(&self, belief: &Belief) -> f64 {
        belief.dot(&self.corners)
    }

    /// The points that changed after time `since`, each with its drop u − Σ c(s) v(s).
    pub fn changed(&self, since: u32) -> impl Iterator<Item = (Belief, f64)> + '_ {
        let changed = self.points.iter().filter(move |point| point.changed > since && !point.entries.is_empty());
        changed.map(|point| {
            let mut entries = point.entries.clone();
            entries.sort_unstable_by_key(|entry| entry.0);
            let (states, probs) = entries.into_iter().unzip();
            (Belief::built(states, probs), point.drop)
        })
    }

    /// [`lower`](Self::lower) to the value whose `drop` below the vertices is known and negative.
    pub fn put(&mut self, belief: &Belief, drop: f64, number: Option<u32>) -> Option<u32> {
        self.time += 1;
        let number = number.unwrap_or_else(|| {
            self.points.push(Point { entries: Vec::new(), drop, filed_under: 0, changed: 0, checked: 0 });
            self.points.len() as u32 - 1
        });
        let point = &mut self.points[number as usize];
        (point.drop, point.changed) = (drop, self.time);
        if point.entries.is_empty() {
            point.entries = Vec::with_capacity(belief.states().len());
            point.entries.extend(belief.iter());
            point.entries.sort_by(|a, b| b.1.total_cmp(&a.1));
            // The state with the fewest points.
            point.filed_under =
                belief.states().iter().copied().min_by_key(|&state| self.filed[state as usize].len())?;
            self.bytes += size_of_val(&point.entries[..]) + POINT_BYTES;
        }
        let filed = &mut self.filed[point.filed_under as usize];
        let known = filed.iter().position(|other| other.number == number).map(|place| filed.remove(place));
        let entry = known.unwrap_or_else(|| Filed::new(number, &point.entries));
        filed.push(Filed { time: self.time, drop, ..entry });
        Some(number)
    }

    /// The upper bound on V\*(`belief`) from `known`, the vertices, and the points that changed after time `since`.
    #[must_use]
    pub fn bound(&self, belief: &Belief, known: f64, since: u32) -> f64 {
        let base = belief.dot(&self.corners);
        if since == self.time {
            return known.min(base);
        }
        self.with_dense(|dense| {
            belief.iter().for_each(|(state, prob)| dense[state as usize] = prob);
            let best = self.scattered_bound(dense, belief.iter(), base, known.min(base), since, None);
            belief.states().iter().for_each(|&state| dense[state as usize] = 0.0);
            best
        })
    }

    /// Lends a scratch array of |S| zeros; `work` must return it with zeros.
    fn with_dense<R>(&self, work: impl FnOnce(&mut [f64]) -> R) -> R {
        let pool = || self.dense.lock().unwrap_or_else(PoisonError::into_inner);
        let free = pool().pop();
        let mut dense = free.unwrap_or_else(|| vec![0.0; self.corners.len()]);
        let result = work(&mut dense);
        pool().push(dense);
        result
    }

    /// [`bound`](Self::bound) of a belief that `dense` holds, ignoring the point `without`. `base` is the bound of the
    /// vertices.
    fn scattered_bound(
        &self,
        dense: &[f64],
        belief: impl Iterator<Item = (u32, f64)> + Clone,
        base: f64,
        mut best: f64,
        since: u32,
        without: Option<u32>,
    ) -> f64 {
        let support = signature(belief.clone().map(|(state, _)| state));
        for (state, _) in belief {
            let filed = &self.filed[state as usize];
            for point in filed.iter().rev().take_while(|point| point.time > since) {
                // Decrease that a point must exceed to improve the bound.
                let needed = base - best;
                if !point.may_exceed(needed, dense, support) || without == Some(point.number) {
                    continue;
                }
                let least = needed / -point.drop;
                let mut ratio = 1.0_f64;
                for &(state, prob) in &self.points[point.number as usize].entries {
                    let own = dense[state as usize];
                    if own < ratio * prob {
                        ratio = own / prob;
                        if ratio <= least {
                            break;
                        }
                    }
                }
                if ratio > least {
                    best = best.min(base + ratio * point.drop);
                }
            }
        }
        best
    }

    /// Examines the next `count` points in turn, and removes those that other points imply. Stops early when it is
    /// late.
    pub fn prune(&mut self, count: usize, late: &mut dyn FnMut() -> bool) {
        for turn in 1..=count.min(self.points.len()) {
            if turn.is_multiple_of(POINTS_PER_CHECK) && late() {
                return;
            }
            let number = self.next;
            self.next = (number + 1) % self.points.len();
            let point = &self.points[number];
            // A point that was not implied at its last check can only be implied by points that changed since.
            let since = if point.changed > point.checked { 0 } else { point.checked };
            let best = self.with_dense(|dense| {
                point.entries.iter().for_each(|&(state, prob)| dense[state as usize] = prob);
                let entries = point.entries.iter().copied();
                let best = self.scattered_bound(dense, entries, 0.0, point.drop, since, Some(number as u32));
                point.entries.iter().for_each(|&(state, _)| dense[state as usize] = 0.0);
                best
            });
            let point = &mut self.points[number];
            point.checked = self.time;
            if best < point.drop {
                self.remove(number);
            }
        }
    }

    fn remove(&mut self, number: usize) {
        let point = &mut self.points[number];
        let entries = std::mem::take(&mut point.entries);
        if !entries.is_empty() {
            self.bytes -= size_of_val(&entries[..]) + POINT_BYTES;
            self.filed[point.filed_under as usize].retain(|other| other.number != number as u32);
        }
    }

    /// Removes the points that changed least recently, until `bytes` bytes are in use.
    pub fn shrink(&mut self, bytes: usize) {
        let mut order: Vec<usize> = (0..self.points.len()).filter(|&i| !self.points[i].entries.is_empty()).collect();
        order.sort_by_key(|&i| self.points[i].changed);
        for number in order {
            if self.bytes() <= bytes {
                break;
            }
            self.remove(number);
        }
        self.filed.iter_mut().for_each(Vec::shrink_to_fit);
    }
}
