//! The pattern table as the kernel reads it.

use std::collections::HashMap;

use warpkov_kernels::mdp::backup::patterns;

use crate::analysis::patterns::Patterns;

/// Maximum distinct successors per pattern for which kernel instances exist.
const DISTINCT: [usize; 4] = [3, 5, 7, 15];

/// The patterns of a model, split in two halves: *moves* (successor offsets and discounted probabilities) and
/// *rewards*.
///
/// Many patterns share one of their halves, so equal halves are stored once. With fewer halves, neighbouring states
/// more often read the same numbers, or numbers in different banks of shared memory.
pub(super) struct Table {
    pub actions: u32,
    pub distinct: usize,
    pub moves: Half,
    pub rewards: Half,
    /// Position of the moves index within a pattern number, in bits.
    pub shift: u32,
    /// Bit mask of the rewards index within a pattern number.
    pub mask: u32,
    /// The pattern number of each pattern.
    pub number: Vec<u16>,
    /// Offsets of distinct successors, one row per moves half.
    pub offset: Vec<i32>,
}

/// A table of distinct rows of numbers.
#[derive(Default)]
pub(super) struct Half {
    /// Row-major elements.
    pub numbers: Vec<f64>,
    /// Number of rows.
    pub count: u32,
}

/// Row indices of a [`Half`] by key and bits.
type Index = HashMap<Vec<u64>, u32>;

impl Half {
    /// The index of a row, added if absent, and whether it was added. Rows with different `key`s are distinct.
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
    /// Builds the table with discounted probabilities; `None` if a pattern has too many successors or the table has too
    /// many halves.
    pub fn of(patterns: &Patterns, gamma: f64) -> Option<Self> {
        Self::filled(patterns, gamma, true).or_else(|| Self::filled(patterns, gamma, false))
    }

    /// Builds the table, with equal halves stored once if `shared`; otherwise each pattern has its own halves under its
    /// own index.
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
            // −∞ marks an action that the pattern lacks.
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
        // A pattern number holds the moves index above the rewards index. If patterns do not share halves, one index
        // serves both.
        let shift = if shared { rewards.count.next_power_of_two().trailing_zeros() } else { 0 };
        let mask = if shared { (1 << shift) - 1 } else { u32::from(u16::MAX) };
        // In 64 bits: a number beyond 16 bits may exceed 32 bits too.
        let number = |(of_moves, of_rewards): (u32, u32)| {
            u16::try_from(u64::from(of_moves) << shift | u64::from(of_rewards)).ok()
        };
        let number = halves.into_iter().map(number).collect::<Option<_>>()?;
        Some(Self { actions: actions as u32, distinct, moves, rewards, shift, mask, number, offset: all_offsets })
    }

    /// Bytes of the table with probabilities and rewards in T.
    pub fn bytes<T>(&self) -> usize {
        size_of::<T>() * (self.moves.numbers.len() + self.rewards.numbers.len()) + 4 * self.offset.len()
    }
}

/// Stride between rows of `length` elements.
fn row_stride(length: usize) -> usize {
    patterns::row_stride(length as u32) as usize
}

/// Distinct successor offsets of a pattern, ascending.
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
    use crate::generate::SlipGrid;

    #[test]
    fn walls_and_obstacles_share_moves_and_rewards() {
        let grid =
            SlipGrid { width: 90, height: 90, wall_fraction: 0.3, obstacle_fraction: 0.1, ..SlipGrid::default() };
        let mdp = grid.generate().unwrap();
        let patterns = Patterns::find(&mdp, &mdp.expected_rewards()).unwrap();
        let table = Table::of(&patterns, 0.9).unwrap();
        // 2⁴ sets of open sides. Walls and the goal have the moves of an enclosed cell.
        assert_eq!(table.moves.count, 16);
        assert!(table.rewards.count < 40 && patterns.count() > 100);
        let own = Table::filled(&patterns, 0.9, false).unwrap();
        assert_eq!((own.moves.count as usize, own.rewards.count as usize), (patterns.count(), patterns.count()));
        // Both tables describe the same patterns.
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
