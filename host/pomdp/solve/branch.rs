//! The choice among several successors or actions.

/// A number whose digits choose between branches of similar merit, so that ranks go different ways. The first rank has 0, and
/// always takes the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch(pub usize);

/// Least merit of a branch that a rank may take instead of the best, relative to it.
const SIMILAR: f64 = 0.1;

impl Branch {
    /// The index of the branch to take, by the merits of all: the largest of them, the first in case of ties; or another of at
    /// least `SIMILAR` times its merit, which consumes a digit.
    pub fn choose(&mut self, merits: &[f64]) -> Option<usize> {
        let best = first_largest(merits)?;
        let similar = |&i: &usize| merits[i] > 0.0 && merits[i] >= SIMILAR * merits[best];
        let mut ways: Vec<usize> = if self.0 == 0 { Vec::new() } else { (0..merits.len()).filter(similar).collect() };
        if ways.len() < 2 {
            return Some(best);
        }
        ways.sort_by(|&a, &b| merits[b].total_cmp(&merits[a]));
        let chosen = ways[self.0 % ways.len()];
        self.0 /= ways.len();
        Some(chosen)
    }
}

/// Index of the largest number, the first in case of ties.
pub fn first_largest(numbers: &[f64]) -> Option<usize> {
    let indexed = numbers.iter().copied().enumerate();
    indexed.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(index, _)| index)
}
