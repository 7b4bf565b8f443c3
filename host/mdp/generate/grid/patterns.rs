//! Slip grids as patterns, from which a device generates the model. Without walls and obstacles, host memory does not
//! grow with the grid.

use rayon::prelude::*;
use warpkov_kernels::mdp::generate::{PATTERNS, WALL, kind_without_walls, pattern_of};

use super::{Cells, SlipGrid, kinds};
use crate::mdp::analysis::patterns::Patterns;
use crate::mdp::certificate::{Extremes, first_best};
use crate::mdp::generate::Error;
use crate::mdp::model::CHUNK;

/// A slip grid and the patterns that its cells have, without a pattern number per cell.
#[derive(Clone)]
pub struct GridPatterns {
    /// The grid.
    pub(crate) grid: SlipGrid,
    /// Kind of each cell; empty for a grid without walls and obstacles.
    pub(crate) kinds: Vec<u8>,
    /// Pattern index of each neighbourhood number (see [`pattern_of`]); 0 for numbers that do not occur.
    pub(crate) index: Vec<u16>,
    /// The patterns. `of_state` is empty.
    pub(crate) patterns: Patterns,
}

impl SlipGrid {
    /// The patterns of the model that [`generate`](Self::generate) returns, computed by the same code.
    ///
    /// # Errors
    /// The errors of [`generate`](Self::generate).
    pub fn patterns(&self) -> Result<GridPatterns, Error> {
        let states = self.check()?;
        let (walls, obstacles) = self.place(states)?;
        let empty = walls.is_empty() && obstacles.is_empty();
        let kinds = if empty { Vec::new() } else { kinds(states, &walls, &obstacles) };
        let mut patterns = Patterns {
            rows: vec![0],
            ends: vec![0],
            distance: Vec::new(),
            prob: Vec::new(),
            reward: Vec::new(),
            of_state: Vec::new(),
        };
        let mut index = vec![0; PATTERNS];
        for (number, _) in self.occurring(&kinds).into_iter().enumerate().filter(|(_, occurs)| *occurs) {
            index[number] = patterns.count() as u16;
            self.add(number as u16, &mut patterns);
        }
        Ok(GridPatterns { grid: *self, kinds, index, patterns })
    }

    /// For each neighbourhood number, whether some cell has it.
    fn occurring(&self, kinds: &[u8]) -> Vec<bool> {
        let Self { width, height, .. } = *self;
        if kinds.is_empty() {
            // Cells near the edges and corners cover all neighbourhoods of an empty grid.
            let near = |length: u32| (0..length.min(2)).chain(length.saturating_sub(3)..length);
            let mut occurring = vec![false; PATTERNS];
            for (x, y) in near(width).flat_map(|x| near(height).map(move |y| (x, y))) {
                let kind = |cell| kind_without_walls(width, height, cell);
                occurring[pattern_of(width, height, y * width + x, kind) as usize] = true;
            }
            return occurring;
        }
        let either = |mut a: Vec<bool>, b: Vec<bool>| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
            a
        };
        let seen = |mut seen: Vec<bool>, cell: u32| {
            seen[pattern_of(width, height, cell, |cell| kinds[cell as usize]) as usize] = true;
            seen
        };
        let none = || vec![false; PATTERNS];
        (0..width * height).into_par_iter().with_min_len(CHUNK).fold(none, seen).reduce(none, either)
    }

    /// Adds the pattern of neighbourhood `number`, computed as the centre of a 3 × 3 grid with these kinds of cells.
    fn add(&self, number: u16, patterns: &mut Patterns) {
        const OWN: u32 = 4;
        let mut kinds = vec![WALL; 9];
        for (place, cell) in [OWN, 1, 7, 5, 3].into_iter().enumerate() {
            kinds[cell as usize] = (number >> (2 * place) & 3) as u8;
        }
        let small = Self { width: 3, height: 3, ..*self };
        let cells = Cells { grid: &small, kinds };
        for row in 4 * OWN as usize..4 * OWN as usize + 4 {
            // Sums in the order of successors from +0, for the same bits as `Mdp::expected_rewards`.
            let mut reward = 0.0;
            for (cell, prob) in cells.successors(row) {
                reward += prob * cells.reward(cell);
                patterns.prob.push(prob);
                patterns.distance.push(match cell {
                    1 => -(self.width as isize),
                    7 => self.width as isize,
                    beside => beside as isize - OWN as isize,
                });
            }
            patterns.reward.push(reward);
            patterns.ends.push(patterns.distance.len() as u32);
        }
        patterns.rows.push(patterns.reward.len() as u32);
    }
}

impl GridPatterns {
    /// The grid.
    #[must_use]
    pub fn grid(&self) -> &SlipGrid {
        &self.grid
    }

    /// Kind of each cell; empty for a grid without walls and obstacles.
    #[must_use]
    pub fn kinds(&self) -> &[u8] {
        &self.kinds
    }

    /// Pattern index of each neighbourhood number; 0 for numbers that do not occur.
    #[must_use]
    pub fn index(&self) -> &[u16] {
        &self.index
    }

    /// S, the number of cells.
    #[must_use]
    pub fn states(&self) -> u32 {
        self.grid.width * self.grid.height
    }

    /// Pattern index of a cell.
    #[must_use]
    pub fn pattern(&self, cell: u32) -> usize {
        let SlipGrid { width, height, .. } = self.grid;
        let kind = |cell: u32| match self.kinds.get(cell as usize) {
            Some(&kind) => kind,
            None => kind_without_walls(width, height, cell),
        };
        self.index[pattern_of(width, height, cell, kind) as usize].into()
    }

    /// The greedy policy with respect to `values`, as [`greedy`](crate::mdp::certificate::greedy) computes it.
    #[must_use]
    pub fn greedy(&self, values: &[f64]) -> Vec<u32> {
        let Self { patterns, grid, .. } = self;
        let of_cell = |cell: u32| {
            let q_factor = |row: usize| {
                let next = patterns.entries_of(row).map(|entry| {
                    patterns.prob[entry] * values[cell.wrapping_add_signed(patterns.distance[entry] as i32) as usize]
                });
                patterns.reward[row] + grid.gamma * next.sum::<f64>()
            };
            first_best(patterns.rows_of(self.pattern(cell)).map(q_factor))
        };
        (0..self.states()).into_par_iter().with_min_len(CHUNK / 4).map(of_cell).collect()
    }

    /// Data for the certificate of a V with this minimum and maximum of TV − V and ‖V‖∞ = `largest`, all computed in
    /// `f64`.
    #[must_use]
    pub fn extremes(&self, [least, greatest]: [f64; 2], largest: f64) -> Extremes {
        let Self { patterns, grid, .. } = self;
        let rows = || (0..patterns.reward.len()).map(|row| patterns.entries_of(row));
        let sums = rows().map(|entries| patterns.prob[entries].iter().sum());
        let [low, high] = sums.fold([f64::INFINITY, 0.0], |[low, high]: [f64; 2], sum| [low.min(sum), high.max(sum)]);
        let reward = grid.goal_reward.abs().max(grid.obstacle_penalty.abs());
        Extremes {
            least,
            greatest,
            magnitude: high * reward + (grid.gamma * high + 1.0) * largest,
            row_sum: [low, high],
            length: rows().map(|entries| entries.len()).max().unwrap_or(0),
            never_terminates: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::mdp::certificate::{certify, greedy};

    #[test]
    fn patterns_are_the_rows_of_the_model() {
        let walls = SlipGrid { wall_fraction: 0.2, obstacle_fraction: 0.15, ..SlipGrid::default() };
        let values = |states: u32| (0..states).map(|s| f64::from(s * 37 % 101) / 8.0).collect::<Vec<_>>();
        for (grid, width, height) in [
            (SlipGrid::default(), 13, 9),
            (walls, 20, 31),
            (SlipGrid { slip: 0.0, ..walls }, 6, 6),
            (SlipGrid { slip: 1.0, goal_reward: -0.3, ..walls }, 9, 4),
            (walls, 1, 7),
            (walls, 7, 1),
            (walls, 2, 2),
            (SlipGrid::default(), 1, 1),
        ] {
            let grid = SlipGrid { width, height, ..grid };
            let (mdp, made) = (grid.generate().unwrap(), grid.patterns().unwrap());
            let reward = mdp.expected_rewards();
            let used: BTreeSet<_> = (0..mdp.states()).map(|cell| made.pattern(cell)).collect();
            assert_eq!(used.len(), made.patterns.count(), "{grid:?}");
            for state in 0..mdp.states() {
                let rows = made.patterns.rows_of(made.pattern(state));
                assert_eq!(rows.len(), 4);
                for (own, row) in rows.zip(mdp.choices().rows(state as usize)) {
                    let (entries, (cells, probs)) = (made.patterns.entries_of(own), mdp.transitions().row(row));
                    let own_cells: Vec<_> = made.patterns.distance[entries.clone()]
                        .iter()
                        .map(|&distance| state.wrapping_add_signed(distance as i32))
                        .collect();
                    assert_eq!((&own_cells[..], &made.patterns.prob[entries]), (cells, probs), "{grid:?}, row {row}");
                    assert_eq!(made.patterns.reward[own].to_bits(), reward[row].to_bits(), "{grid:?}, row {row}");
                }
            }
            let values = values(mdp.states());
            assert_eq!(made.greedy(&values), greedy(&mdp, &values));
        }
    }

    #[test]
    fn the_certificate_is_close_to_that_of_the_model() {
        let grid = SlipGrid { width: 12, height: 10, wall_fraction: 0.1, ..SlipGrid::default() };
        let mdp = grid.generate().unwrap();
        let values = vec![3.0; 120];
        let exact = certify(&mdp, &values);
        let told = grid.patterns().unwrap().extremes(exact.range, 3.0).certificate(0.9, 0.0);
        assert_eq!((told.contraction, told.bellman_residual), (exact.contraction, exact.bellman_residual));
        let (told, exact) = (told.bound.unwrap(), exact.bound.unwrap());
        assert!(told >= exact && told < exact + 1e-12, "{told}, {exact}");
    }
}
