//! The states with positive probability, from the zeros of π, A and B alone, which rounding cannot change.

use crate::backends::cpu::limits::Limits;
use crate::backends::cpu::product::stride;
use crate::model::{Emissions, Hmm};
use warpkov_runtime::Precise;

const BITS: usize = u64::BITS as usize;

/// The zero pattern of a model, as bit sets of states of `words` words each.
pub struct Reach {
    words: usize,
    start: Vec<u64>,
    /// Successors of each state; empty where `everywhere` holds.
    next: Vec<u64>,
    /// For each symbol the states that emit it; `None` where all states emit all symbols.
    emitting: Option<Vec<u64>>,
    ending: Vec<u64>,
    /// Whether π, A and B have no zeros.
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
            // Not read where `everywhere` holds.
            next: (0..if everywhere { 0 } else { n }).flat_map(|i| set(&|j| model.row(i)[j] > 0.0)).collect(),
            emitting,
            ending: set(&|state| model.end().is_none_or(|end| end[state] > 0.0)),
        }
    }

    /// Whether every sequence is possible: π, A and B have no zeros, and at least one state may end a sequence.
    pub fn is_open(&self) -> bool {
        self.everywhere && self.ending.iter().any(|&word| word > 0)
    }

    fn set<'s>(&self, sets: &'s [u64], at: usize) -> &'s [u64] {
        &sets[at * self.words..][..self.words]
    }

    /// Word `at` of the set of states that emit a symbol, or a vector where it is `None`, of which one may be known to have done so.
    #[inline(always)]
    fn emitters(&self, symbol: Option<u32>, state: Option<u32>, at: usize) -> u64 {
        let emitting = match (&self.emitting, symbol) {
            (Some(emitting), Some(symbol)) => emitting[symbol as usize * self.words + at],
            _ => u64::MAX,
        };
        match state {
            None => emitting,
            Some(state) if state as usize / BITS == at => emitting & 1_u64 << (state as usize % BITS),
            Some(_) => 0,
        }
    }
}

/// The states that a sequence can be in at the present step.
#[derive(Clone)]
pub struct Frontier<T> {
    /// States possible after the last observation.
    alive: Vec<u64>,
    /// States possible before the next observation.
    predicted: Vec<u64>,
    /// Scratch for the next `predicted`.
    spare: Vec<u64>,
    /// Least predicted probability of each state that needs no error bound ([limits](crate::backends::cpu::limits)): `least`
    /// for states in `predicted`, else 0.
    pub needed: Vec<T>,
}

impl<T: Precise> Frontier<T> {
    /// Before the first observation.
    pub fn new(reach: &Reach, n: usize) -> Self {
        let mut frontier = Self {
            alive: if reach.everywhere { reach.start.clone() } else { vec![0; reach.words] },
            predicted: reach.start.clone(),
            spare: vec![0; reach.words],
            needed: vec![T::ZERO; stride(n)],
        };
        frontier.need();
        frontier
    }

    fn need(&mut self) {
        let least = T::from_f64(Limits::current::<T>().least);
        for (state, needed) in self.needed.iter_mut().enumerate() {
            let member = self.predicted.get(state / BITS).is_some_and(|word| word >> (state % BITS) & 1 == 1);
            *needed = if member { least } else { T::ZERO };
        }
    }

    /// Advances past an observation: `symbol`, or a vector where it is `None`, emitted by `state` if that is known. Returns whether the
    /// sequence is still possible.
    #[inline(always)]
    pub fn see(&mut self, reach: &Reach, symbol: Option<u32>, state: Option<u32>) -> bool {
        if reach.everywhere {
            return true;
        }
        let mut words = self.predicted.iter().zip(&self.alive).enumerate();
        let same = words.all(|(at, (predicted, alive))| predicted & reach.emitters(symbol, state, at) == *alive);
        // Equal `alive` sets have equal successors.
        if !same {
            self.advance(reach, symbol, state);
        }
        self.alive.iter().any(|&word| word > 0)
    }

    fn advance(&mut self, reach: &Reach, symbol: Option<u32>, state: Option<u32>) {
        for (at, (alive, predicted)) in self.alive.iter_mut().zip(&self.predicted).enumerate() {
            *alive = predicted & reach.emitters(symbol, state, at);
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
            self.need();
        }
    }

    /// Whether the sequence may end after the last observation.
    pub fn ends(&self, reach: &Reach) -> bool {
        self.alive.iter().zip(&reach.ending).any(|(alive, ending)| alive & ending > 0)
    }
}
