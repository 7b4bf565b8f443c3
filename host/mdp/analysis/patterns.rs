//! Patterns: states with equal rows relative to their own number.
//!
//! A pattern holds, for each action, the expected reward, and for each successor s' of a state s the distance s' − s
//! and the probability. A grid world has few patterns whatever its size, so a model can be stored as one pattern number
//! per state. The representation is exact.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use crate::model::{CsrView, Mdp};

/// Minimum mean number of states per pattern.
const REPEATS: usize = 8;

/// Maximum number of entries of all patterns together, so that they fit in a cache.
const MAX_ENTRIES: usize = 1 << 16;

/// Maximum length of a row: longer rows hardly repeat.
const MAX_ROW: usize = 15;

/// Neighbouring states that one task searches for patterns.
const CHUNK: usize = 1 << 14;

/// The patterns of a model. Pattern p has rows `rows[p]..rows[p + 1]`, and row r has entries `ends[r]..ends[r + 1]`.
#[derive(Clone, Default)]
pub struct Patterns {
    /// First row of each pattern, and the number of rows.
    pub rows: Vec<u32>,
    /// First entry of each row, and the number of entries.
    pub ends: Vec<u32>,
    /// Distance s' − s of each entry.
    pub distance: Vec<isize>,
    /// Probability of each entry.
    pub prob: Vec<f64>,
    /// Expected reward r of each row.
    pub reward: Vec<f64>,
    /// The pattern of each state.
    pub of_state: Vec<u32>,
}

impl Patterns {
    /// Finds the patterns of a model with expected rewards `reward`, on all cores. `None` if patterns do not pay:
    /// states repeat too rarely, or rows are long. Patterns are in the order of their first states, so equal models
    /// have equal patterns.
    #[must_use]
    pub fn find(mdp: &Mdp, reward: &[f64]) -> Option<Self> {
        let states = mdp.states() as usize;
        // First the patterns of each chunk of states. A model without repetition stops the search after a few states.
        let of_chunk = |chunk: usize| {
            let mut finder = Finder::new(mdp, reward);
            let mut of_state: Vec<u32> = Vec::with_capacity(CHUNK);
            for state in chunk * CHUNK..states.min((chunk + 1) * CHUNK) {
                let known = of_state.last().filter(|&&last| finder.is(last as usize, state));
                of_state.push(match known {
                    Some(&last) => last,
                    None if finder.is_long(state) => return None,
                    None => finder.pattern(state),
                });
                if finder.patterns.is_too_large(CHUNK / 16 + of_state.len()) {
                    return None;
                }
            }
            Some((finder.example, of_state))
        };
        let chunks: Option<Vec<_>> = (0..states.div_ceil(CHUNK)).into_par_iter().map(of_chunk).collect();
        // Then the patterns of all chunks merged.
        let mut finder = Finder::new(mdp, reward);
        let mut numbered = Vec::new();
        for (examples, local) in chunks? {
            let global: Vec<u32> = examples.into_iter().map(|state| finder.pattern(state)).collect();
            if finder.patterns.is_too_large(states) {
                return None;
            }
            numbered.push((global, local));
        }
        let mut of_state = vec![0; states];
        of_state.par_chunks_mut(CHUNK).zip(&numbered).for_each(|(all, (global, local))| {
            all.iter_mut().zip(local).for_each(|(pattern, &local)| *pattern = global[local as usize]);
        });
        Some(Self { of_state, ..finder.patterns })
    }

    /// The number of patterns.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows.len() - 1
    }

    /// The rows of a pattern, one per action.
    #[must_use]
    pub fn rows_of(&self, pattern: usize) -> Range<usize> {
        self.rows[pattern] as usize..self.rows[pattern + 1] as usize
    }

    /// The entries of a row.
    #[must_use]
    pub fn entries_of(&self, row: usize) -> Range<usize> {
        self.ends[row] as usize..self.ends[row + 1] as usize
    }

    fn is_too_large(&self, states: usize) -> bool {
        self.count() > states.div_ceil(REPEATS) || self.distance.len().max(self.reward.len()) > MAX_ENTRIES
    }
}

/// Patterns found so far, indexed by hash.
struct Finder<'m> {
    mdp: &'m Mdp,
    transitions: CsrView<'m>,
    reward: &'m [f64],
    patterns: Patterns,
    /// The first state of each pattern.
    example: Vec<usize>,
    by_hash: HashMap<u64, Vec<u32>>,
}

impl<'m> Finder<'m> {
    fn new(mdp: &'m Mdp, reward: &'m [f64]) -> Self {
        let patterns = Patterns { rows: vec![0], ends: vec![0], ..Patterns::default() };
        Self {
            mdp,
            transitions: mdp.transitions().view(),
            reward,
            patterns,
            example: Vec::new(),
            by_hash: HashMap::new(),
        }
    }

    /// The pattern of a state; adds it if it is new.
    fn pattern(&mut self, state: usize) -> u32 {
        let hash = self.hash(state);
        if let Some(known) = self.by_hash.get(&hash)
            && let Some(&pattern) = known.iter().find(|&&pattern| self.is(pattern as usize, state))
        {
            return pattern;
        }
        let pattern = self.patterns.count() as u32;
        self.by_hash.entry(hash).or_default().push(pattern);
        self.add(state);
        self.example.push(state);
        pattern
    }

    /// Whether a row of the state exceeds [`MAX_ROW`].
    fn is_long(&self, state: usize) -> bool {
        self.mdp.choices().rows(state).any(|row| self.transitions.row(row).0.len() > MAX_ROW)
    }

    /// A hash of the pattern of a state.
    fn hash(&self, state: usize) -> u64 {
        // Firefox's hash function. Collisions cost time only: `is` compares the patterns themselves.
        let mut hash = 0u64;
        let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        for row in self.mdp.choices().rows(state) {
            let (successors, probs) = self.transitions.row(row);
            mix(self.reward[row].to_bits());
            mix(successors.len() as u64);
            successors.iter().for_each(|&successor| mix(distance(successor, state) as u64));
            probs.iter().for_each(|prob| mix(prob.to_bits()));
        }
        hash
    }

    /// Whether `state` has pattern `pattern`.
    fn is(&self, pattern: usize, state: usize) -> bool {
        let found = &self.patterns;
        let (own, rows) = (found.rows_of(pattern), self.mdp.choices().rows(state));
        own.len() == rows.len()
            && own.zip(rows).all(|(own, row)| {
                let (entries, (successors, probs)) = (found.entries_of(own), self.transitions.row(row));
                found.reward[own].to_bits() == self.reward[row].to_bits()
                    && entries.len() == successors.len()
                    && found.distance[entries.clone()].iter().zip(successors).all(|(&d, &s)| d == distance(s, state))
                    && found.prob[entries].iter().zip(probs).all(|(own, prob)| own.to_bits() == prob.to_bits())
            })
    }

    /// Adds the pattern of a state.
    fn add(&mut self, state: usize) {
        for row in self.mdp.choices().rows(state) {
            let (successors, probs) = self.transitions.row(row);
            self.patterns.distance.extend(successors.iter().map(|&successor| distance(successor, state)));
            self.patterns.prob.extend(probs);
            self.patterns.reward.push(self.reward[row]);
            self.patterns.ends.push(self.patterns.distance.len() as u32);
        }
        self.patterns.rows.push(self.patterns.reward.len() as u32);
    }
}

fn distance(successor: u32, state: usize) -> isize {
    successor as isize - state as isize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::SlipGrid;
    use crate::model::MdpParts;

    #[test]
    fn a_grid_has_few_patterns_and_they_are_its_rows() {
        let mdp = SlipGrid { width: 301, height: 200, ..SlipGrid::default() }.generate().unwrap();
        let reward = mdp.expected_rewards();
        let patterns = Patterns::find(&mdp, &reward).unwrap();
        // Interior, four sides, four corners (one of them the goal), and the two neighbours of the goal.
        assert_eq!(patterns.count(), 11);
        for state in 0..mdp.states() as usize {
            let rows = patterns.rows_of(patterns.of_state[state] as usize);
            for (own, row) in rows.zip(mdp.choices().rows(state)) {
                let (successors, probs) = mdp.transitions().row(row);
                let entries = patterns.entries_of(own);
                let expected: Vec<_> = successors.iter().map(|&s| distance(s, state)).collect();
                assert_eq!((&patterns.distance[entries.clone()], &patterns.prob[entries]), (&expected[..], probs));
                assert_eq!(patterns.reward[own], reward[row]);
            }
        }
    }

    #[test]
    fn distinct_states_have_no_patterns() {
        let mdp = SlipGrid::default().generate().unwrap();
        let rewards: Vec<f64> = (0..mdp.rows()).map(|row| row as f64).collect();
        let mdp = MdpParts { action_rewards: rewards.into(), ..mdp.into_parts() }.validated().unwrap();
        assert!(Patterns::find(&mdp, &mdp.expected_rewards()).is_none());
    }
}
