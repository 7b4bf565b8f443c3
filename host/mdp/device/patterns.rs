//! Patterns as the kernel reads them.

use std::collections::HashMap;

use warpkov_kernels::mdp::backup::patterns;

use crate::mdp::analysis::patterns::Patterns;

/// Different successors that a pattern may have: those that there are kernels for.
const DISTINCT: [usize; 4] = [3, 5, 7, 15];

/// The patterns of a model, each in two halves: its moves, that is offsets and discounted probabilities, and its rewards.
///
/// Many patterns have one half or the other in common. The fewer halves there are, the more often neighbouring states read the
/// same numbers, or such as are in different banks of shared memory.
pub(super) struct Table {
    pub actions: u32,
    pub distinct: usize,
    pub moves: Half,
    pub rewards: Half,
    /// The bit of a pattern's number at which the number of its moves begins.
    pub shift: u32,
    /// The bits of a pattern's number that are the number of its rewards.
    pub mask: u32,
    /// The number of each pattern.
    pub number: Vec<u16>,
    /// Offsets of different successors, moves after moves.
    pub offset: Vec<i32>,
}

/// Rows of numbers, each there once.
#[derive(Default)]
pub(super) struct Half {
    /// Row after row.
    pub numbers: Vec<f64>,
    /// How many rows there are.
    pub count: u32,
}

/// The numbers of the rows of a [`Half`].
type Index = HashMap<Vec<u64>, u32>;

impl Half {
    /// Which row this is, and whether it is new. Rows with different `key`s are different.
    fn add(&mut self, index: &mut Index, key: impl Iterator<Item = u64>, row: &[f64]) -> (u32, bool) {
        let key = key.chain(row.iter().map(|x| x.to_bits())).collect();
        let next = self.count;
        let number = *index.entry(key).or_insert(next);
        if number == next {
            self.numbers.extend(row);
            self.count += 1;
        }
        (number, number == next)
    }
}

impl Table {
    /// The patterns with their discount; `None` where one has too many successors, or there are too many patterns.
    pub fn of(patterns: &Patterns, gamma: f64) -> Option<Self> {
        Self::filled(patterns, gamma, true).or_else(|| Self::filled(patterns, gamma, false))
    }

    /// With equal halves there once, if `shared`; else each pattern has halves of its own, and their number.
    fn filled(patterns: &Patterns, gamma: f64, shared: bool) -> Option<Self> {
        let distances: Vec<Vec<isize>> = (0..patterns.count()).map(|p| distances(patterns, p)).collect();
        let most = distances.iter().map(Vec::len).max().unwrap_or(0);
        let distinct = DISTINCT.into_iter().find(|&distinct| distinct >= most)?;
        let actions = (0..patterns.count()).map(|p| patterns.rows_of(p).len()).max().unwrap_or(0);
        let (mut moves, mut rewards, mut all_offsets) = (Half::default(), Half::default(), Vec::new());
        let (mut moves_index, mut rewards_index) = (Index::new(), Index::new());
        let mut halves = Vec::new();
        for (p, distances) in distances.iter().enumerate() {
            let mut offset = vec![0; row_stride(distinct)];
            let mut prob = vec![0.0; row_stride(actions * distinct)];
            // −∞ for an action that the pattern does not have.
            let mut reward = vec![f64::NEG_INFINITY; row_stride(actions)];
            for (target, &distance) in offset.iter_mut().zip(distances) {
                *target = i32::try_from(distance).ok()?;
            }
            for (action, row) in patterns.rows_of(p).enumerate() {
                reward[action] = patterns.reward[row];
                for entry in patterns.entries_of(row) {
                    let d = distances.binary_search(&patterns.distance[entry]).ok()?;
                    prob[action * distinct + d] = gamma * patterns.prob[entry];
                }
            }
            let own = if shared { 0 } else { p as u64 };
            let key = [own].into_iter().chain(offset.iter().map(|&offset| offset as u64));
            let (of_moves, new) = moves.add(&mut moves_index, key, &prob);
            if new {
                all_offsets.extend(offset);
            }
            halves.push((of_moves, rewards.add(&mut rewards_index, [own].into_iter(), &reward).0));
        }
        // A pattern's number is that of its moves before that of its rewards; or both in one, where each has its own.
        let shift = if shared { rewards.count.next_power_of_two().trailing_zeros() } else { 0 };
        let mask = if shared { (1 << shift) - 1 } else { u32::from(u16::MAX) };
        // In 64 bits, as what does not fit 16 may not fit 32 either.
        let number = |(of_moves, of_rewards): (u32, u32)| {
            u16::try_from(u64::from(of_moves) << shift | u64::from(of_rewards)).ok()
        };
        let number = halves.into_iter().map(number).collect::<Option<_>>()?;
        Some(Self { actions: actions as u32, distinct, moves, rewards, shift, mask, number, offset: all_offsets })
    }

    /// Bytes that it takes, with probabilities and rewards in T.
    pub fn bytes<T>(&self) -> usize {
        size_of::<T>() * (self.moves.numbers.len() + self.rewards.numbers.len()) + 4 * self.offset.len()
    }
}

/// Elements of a row of `length` numbers, and those up to the next.
fn row_stride(length: usize) -> usize {
    patterns::row_stride(length as u32) as usize
}

/// The different distances of the successors of a pattern, ascending.
fn distances(patterns: &Patterns, pattern: usize) -> Vec<isize> {
    let rows = patterns.rows_of(pattern);
    let entries = patterns.ends[rows.start] as usize..patterns.ends[rows.end] as usize;
    let mut found = patterns.distance[entries].to_vec();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdp::generate::SlipGrid;

    #[test]
    fn walls_and_obstacles_share_moves_and_rewards() {
        let grid =
            SlipGrid { width: 90, height: 90, wall_fraction: 0.3, obstacle_fraction: 0.1, ..SlipGrid::default() };
        let mdp = grid.generate().unwrap();
        let patterns = Patterns::find(&mdp, &mdp.expected_rewards()).unwrap();
        let table = Table::of(&patterns, 0.9).unwrap();
        // Which of four sides are open. Walls and the goal are as what is walled in.
        assert_eq!(table.moves.count, 16);
        assert!(table.rewards.count < 40 && patterns.count() > 100);
        let own = Table::filled(&patterns, 0.9, false).unwrap();
        assert_eq!((own.moves.count as usize, own.rewards.count as usize), (patterns.count(), patterns.count()));
        // Both say the same of every pattern.
        let row = |half: &Half, number: u32| {
            let length = half.numbers.len() / half.count as usize;
            half.numbers[number as usize * length..][..length].to_vec()
        };
        for p in 0..patterns.count() {
            let of = |table: &Table| {
                let number = u32::from(table.number[p]);
                let moves = number >> table.shift;
                let offset = table.offset[moves as usize * row_stride(5)..][..row_stride(5)].to_vec();
                (offset, row(&table.moves, moves), row(&table.rewards, number & table.mask))
            };
            assert_eq!(of(&table), of(&own));
        }
    }
}
