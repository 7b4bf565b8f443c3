//! The sawtooth bound: between the corners of the simplex and one belief more at a time (Hauskrecht, 2000, 4.3; HSVI).
//!
//! V\* is convex. Where V\*(e_s) ≤ v(s) and V\*(c) ≤ u, with b = ρ c + Σ (b(s) − ρ c(s)) e_s for ρ = min over c(s) > 0 of
//! b(s)/c(s),
//!
//! > V\*(b) ≤ Σ b(s) v(s) + ρ (u − Σ c(s) v(s))
//!
//! ρ is 0 unless b is possible wherever c is. So a point is filed under one state of its own, and a belief meets those
//! only that are filed under its states.

use std::sync::{Mutex, PoisonError};

use crate::pomdp::belief::Belief;

/// A belief whose value is bounded.
struct Point {
    /// c, its likeliest states first: where the ratio is least, as a rule. Empty where other points imply this one.
    entries: Vec<(u32, f64)>,
    /// u − Σ c(s) v(s) < 0.
    drop: f64,
    /// The state that it is filed under.
    home: u32,
    /// When it last changed.
    changed: u32,
    /// When it was last found not to be implied by others.
    checked: u32,
}

/// What is looked at of a point before all of it.
#[derive(Clone, Copy)]
struct Filed {
    number: u32,
    /// When the point last changed.
    time: u32,
    drop: f64,
    /// The first of its entries.
    state: u32,
    prob: f64,
}

/// Points between two looks at the clock.
const LOOK: usize = 256;

/// Bytes of a point where it is filed, with room for others, and of an allocation.
const FILED: usize = 3 * size_of::<Filed>() / 2 + 16;

/// Corners and points.
pub struct Sawtooth {
    /// v.
    corners: Vec<f64>,
    points: Vec<Point>,
    /// By state: points filed there, in the order of their last change.
    filed: Vec<Vec<Filed>>,
    /// Changes so far.
    time: u32,
    /// Bytes of all points' beliefs.
    bytes: usize,
    /// b(s) of the belief in hand, for each thread that has one; all 0 between uses.
    dense: Mutex<Vec<Vec<f64>>>,
    /// The next point to be looked at by [`prune`](Self::prune).
    next: usize,
}

impl Sawtooth {
    /// Corners without points.
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

    /// How many changes there were.
    #[must_use]
    pub fn time(&self) -> u32 {
        self.time
    }

    /// Bytes of points.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes + self.points.capacity() * size_of::<Point>()
    }

    /// Points that there were, with those that others imply.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Notes that V\*(belief) ≤ value, and returns the point's number. `number` is what it was before, if it is there.
    pub fn lower(&mut self, belief: &Belief, value: f64, number: Option<u32>) -> Option<u32> {
        let drop = value - belief.dot(&self.corners);
        if drop >= 0.0 {
            return number;
        }
        self.time += 1;
        let number = number.unwrap_or_else(|| {
            self.points.push(Point { entries: Vec::new(), drop, home: 0, changed: 0, checked: 0 });
            self.points.len() as u32 - 1
        });
        let point = &mut self.points[number as usize];
        (point.drop, point.changed) = (drop, self.time);
        if point.entries.is_empty() {
            point.entries = Vec::with_capacity(belief.states().len());
            point.entries.extend(belief.iter());
            point.entries.sort_by(|a, b| b.1.total_cmp(&a.1));
            // Where the fewest are.
            point.home = belief.states().iter().copied().min_by_key(|&state| self.filed[state as usize].len())?;
            self.bytes += size_of_val(&point.entries[..]) + FILED;
        }
        let filed = &mut self.filed[point.home as usize];
        filed.retain(|other| other.number != number);
        let (state, prob) = point.entries[0];
        filed.push(Filed { number, time: self.time, drop, state, prob });
        Some(number)
    }

    /// A bound on V\*(belief) by the points that changed after `since`, no more than `known`.
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

    /// Lends S zeros, which are zeros after.
    fn with_dense<R>(&self, work: impl FnOnce(&mut [f64]) -> R) -> R {
        let pool = || self.dense.lock().unwrap_or_else(PoisonError::into_inner);
        let free = pool().pop();
        let mut dense = free.unwrap_or_else(|| vec![0.0; self.corners.len()]);
        let result = work(&mut dense);
        pool().push(dense);
        result
    }

    /// The same for a belief that is in `dense`, without one of the points.
    fn scattered_bound(
        &self,
        dense: &[f64],
        belief: impl Iterator<Item = (u32, f64)>,
        base: f64,
        mut best: f64,
        since: u32,
        without: Option<u32>,
    ) -> f64 {
        for (state, _) in belief {
            let filed = &self.filed[state as usize];
            for point in filed.iter().rev().take_while(|point| point.time > since) {
                // What a point has to lower the bound by to say more than is known.
                let needed = base - best;
                let own = dense[point.state as usize].min(point.prob);
                if own * -point.drop <= needed * point.prob || without == Some(point.number) {
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

    /// Takes those points away that the others imply, of the `count` whose turn it is, or of fewer where it is late.
    pub fn prune(&mut self, count: usize, late: &mut dyn FnMut() -> bool) {
        for turn in 1..=count.min(self.points.len()) {
            if turn.is_multiple_of(LOOK) && late() {
                return;
            }
            let number = self.next;
            self.next = (number + 1) % self.points.len();
            let point = &self.points[number];
            // Who was not implied before is not by what has not changed since.
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
            self.bytes -= size_of_val(&entries[..]) + FILED;
            self.filed[point.home as usize].retain(|other| other.number != number as u32);
        }
    }

    /// Leaves points of so many bytes, those that changed last.
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
