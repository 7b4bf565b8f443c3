//! Which states have a positive probability, by the zeros of π, A and B alone: what no rounding changes.

use crate::hmm::cpu::product::stride;
use crate::hmm::model::{Emissions, Hmm};
use crate::runtime::Precise;

const BITS: usize = u64::BITS as usize;

/// Where a model's zeros are, as sets of states.
pub struct Reach {
    words: usize,
    start: Vec<u64>,
    /// A set for each state: those that it goes to.
    next: Vec<u64>,
    /// A set for each symbol: the states that emit it; `None` where all emit all.
    emitting: Option<Vec<u64>>,
    ending: Vec<u64>,
    /// Whether nothing of all that but an end is 0.
    everywhere: bool,
}

impl Reach {
    pub fn new(model: &Hmm) -> Self {
        let n = model.start().len();
        let words = n.div_ceil(BITS);
        let set = |member: &dyn Fn(usize) -> bool| -> Vec<u64> {
            let mut set = vec![0; words];
            (0..n).filter(|&state| member(state)).for_each(|state| set[state / BITS] |= 1 << (state % BITS));
            set
        };
        let emitting = match model.emissions() {
            Emissions::Categorical { symbols, probs } if probs.contains(&0.0) => {
                let symbols = *symbols as usize;
                Some((0..symbols).flat_map(|symbol| set(&|state| probs[state * symbols + symbol] > 0.0)).collect())
            }
            _ => None,
        };
        let everywhere = emitting.is_none() && model.start().iter().chain(model.transitions()).all(|prob| *prob > 0.0);
        Self {
            words,
            everywhere,
            start: set(&|state| model.start()[state] > 0.0),
            // Not asked for where all are reached from everywhere.
            next: (0..if everywhere { 0 } else { n }).flat_map(|i| set(&|j| model.row(i)[j] > 0.0)).collect(),
            emitting,
            ending: set(&|state| model.end().is_none_or(|end| end[state] > 0.0)),
        }
    }

    /// Whether any sequence is possible: nothing is 0, but for ends of some states.
    pub fn is_open(&self) -> bool {
        self.everywhere && self.ending.iter().any(|&word| word > 0)
    }

    fn set<'s>(&self, sets: &'s [u64], at: usize) -> &'s [u64] {
        &sets[at * self.words..][..self.words]
    }
}

/// The states that a sequence may be in, step by step.
#[derive(Clone)]
pub struct Frontier<T> {
    /// After the last observation.
    alive: Vec<u64>,
    /// Before the next.
    predicted: Vec<u64>,
    /// Where the next is made.
    spare: Vec<u64>,
    /// What each state's predicted probability has to be to be [certain](crate::hmm::cpu::sweeps): some number where it is predicted, else 0.
    pub needed: Vec<T>,
}

impl<T: Precise> Frontier<T> {
    /// Before the first observation.
    pub fn new(reach: &Reach, n: usize, least: T) -> Self {
        let mut frontier = Self {
            alive: if reach.everywhere { reach.start.clone() } else { vec![0; reach.words] },
            predicted: reach.start.clone(),
            spare: vec![0; reach.words],
            needed: vec![T::ZERO; stride(n)],
        };
        frontier.need(least);
        frontier
    }

    fn need(&mut self, least: T) {
        for (state, needed) in self.needed.iter_mut().enumerate() {
            let member = self.predicted.get(state / BITS).is_some_and(|word| word >> (state % BITS) & 1 == 1);
            *needed = if member { least } else { T::ZERO };
        }
    }

    /// Goes on behind an observation, which is this symbol, or a vector. Whether it is possible.
    #[inline(always)]
    pub fn see(&mut self, reach: &Reach, symbol: Option<u32>, least: T) -> bool {
        if reach.everywhere {
            return true;
        }
        let same = match (&reach.emitting, symbol) {
            (Some(emitting), Some(symbol)) => {
                let emitting = reach.set(emitting, symbol as usize);
                let mut alive = self.predicted.iter().zip(emitting).map(|(predicted, emitting)| predicted & emitting);
                alive.by_ref().zip(&self.alive).all(|(new, old)| new == *old)
            }
            _ => self.alive.iter().zip(&self.predicted).all(|(alive, predicted)| alive == predicted),
        };
        // What follows from the same states is the same.
        if !same {
            self.go(reach, symbol, least);
        }
        self.alive.iter().any(|&word| word > 0)
    }

    fn go(&mut self, reach: &Reach, symbol: Option<u32>, least: T) {
        self.alive.copy_from_slice(&self.predicted);
        if let (Some(emitting), Some(symbol)) = (&reach.emitting, symbol) {
            let emitting = reach.set(emitting, symbol as usize);
            self.alive.iter_mut().zip(emitting).for_each(|(alive, emitting)| *alive &= emitting);
        }
        self.spare.fill(0);
        for (at, &word) in self.alive.iter().enumerate() {
            let mut left = word;
            while left > 0 {
                let next = reach.set(&reach.next, at * BITS + left.trailing_zeros() as usize);
                self.spare.iter_mut().zip(next).for_each(|(set, next)| *set |= next);
                left &= left - 1;
            }
        }
        if self.spare != self.predicted {
            std::mem::swap(&mut self.spare, &mut self.predicted);
            self.need(least);
        }
    }

    /// Whether the sequence may end here.
    pub fn ends(&self, reach: &Reach) -> bool {
        self.alive.iter().zip(&reach.ending).any(|(alive, ending)| alive & ending > 0)
    }
}
