//! Slip grids as patterns, from which a device generates the model. Without walls and obstacles, host memory does not
//! grow with the grid.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use warpkov_kernels::mdp::generate::{FREE, GOAL, PATTERNS, WALL, kind_without_walls, pattern_of};

use super::{Cells, SlipGrid, kinds};
use crate::analysis::patterns::Patterns;
use crate::certificate::{Extremes, first_best};
use crate::generate::Error;
use crate::generate::demand::Family;
use crate::model::whole::At;
use crate::model::{CHUNK, Part, Peer, Sends};
use warpkov_common::parameters::{self, Parameters as _, count};

/// A slip grid and the patterns that its cells have, without a pattern number per cell; or the part of a rank: its rows of
/// the grid, and the ghosts, which are the row above and the row below.
#[derive(Clone)]
pub struct GridPatterns {
    /// The grid; of a part, its own rows and the ghosts.
    pub(crate) grid: SlipGrid,
    /// The place in the whole grid, if this is a part.
    part: Option<Arc<Part>>,
    /// The goal, if it is here.
    goal: Option<u32>,
    /// The pattern of ghosts, which has no actions, if this is a part.
    ghost: usize,
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
        self.check()?;
        let states = parameters::cells(self.width, self.height)?;
        let (walls, obstacles) = self.place(states)?;
        let empty = walls.is_empty() && obstacles.is_empty();
        let kinds = if empty { Vec::new() } else { kinds(states, &walls, &obstacles) };
        let (patterns, index) = self.found(&kinds);
        Ok(GridPatterns { grid: *self, part: None, goal: Some(states - 1), ghost: 0, kinds, index, patterns })
    }

    /// The part of one of `ranks` ranks: rows of the grid, about equally many for each rank. Numbers of cells have 64 bits in
    /// the whole grid, and 32 bits in a part. With walls or obstacles, which are drawn from all cells, the whole grid
    /// is limited to 2³² − 1 cells as well, and the host holds a byte for each.
    ///
    /// # Errors
    /// The errors of [`generate`](Self::generate), and if a part has too few or too many cells.
    ///
    /// # Panics
    /// If `rank` is not below `ranks`.
    pub fn patterns_of(&self, rank: u32, ranks: u32) -> Result<GridPatterns, Error> {
        assert!(rank < ranks, "a rank");
        if ranks == 1 {
            return self.patterns();
        }
        let Self { width, height, .. } = *self;
        self.check()?;
        count("height", height, ranks, u32::MAX)?;
        let all = u64::from(width) * u64::from(height);
        let most = u64::from(width) * u64::from(height.div_ceil(ranks) + 2);
        if width == 0 || most > u64::from(u32::MAX) {
            return Err(Error::Part { width, height, ranks });
        }
        let first = |rank: u32| (u64::from(height) * u64::from(rank) / u64::from(ranks)) as u32;
        let own = first(rank)..first(rank + 1);
        let local = own.start.saturating_sub(1)..height.min(own.end + 1);
        let cells = |rows: Range<u32>| u64::from(width) * u64::from(rows.start)..u64::from(width) * u64::from(rows.end);
        let kinds = if !self.is_open() {
            let states = parameters::cells(width, height)?;
            let (walls, obstacles) = self.place(states)?;
            let here = cells(local.clone());
            kinds(states, &walls, &obstacles)[here.start as usize..here.end as usize].to_vec()
        } else {
            Vec::new()
        };
        let grid = Self { height: local.len() as u32, ..*self };
        // Without walls, the neighbourhoods are those of the whole grid.
        let (mut patterns, index) = if kinds.is_empty() { self.found(&kinds) } else { grid.found(&kinds) };
        let ghost = patterns.count();
        patterns.rows.push(patterns.reward.len() as u32);
        let (above, below) = (own.start > local.start, own.end < local.end);
        let row = width as usize;
        let end = row * grid.height as usize;
        let inside = if above { row } else { 0 }..if below { end - row } else { end };
        let peer = |rank: u32, sends: Range<usize>, ghosts: Range<usize>| Peer {
            rank,
            sends: Sends::Run(sends.start as u32..sends.end as u32),
            ghosts,
        };
        let up = above.then(|| peer(rank - 1, inside.start..inside.start + row, 0..row));
        let down = below.then(|| peer(rank + 1, inside.end - row..inside.end, end - row..end));
        let part = Part {
            first: cells(own).start,
            all,
            own: inside,
            never_terminates: true,
            works: true,
            peers: up.into_iter().chain(down).collect(),
            all_gather: false,
        };
        // The last cell of the grid, also among the ghosts.
        let goal = (local.end == height).then(|| end as u32 - 1);
        Ok(GridPatterns { grid, part: Some(part.into()), goal, ghost, kinds, index, patterns })
    }

    /// The patterns of the cells of these kinds, and the pattern index of each neighbourhood number.
    fn found(&self, kinds: &[u8]) -> (Patterns, Vec<u16>) {
        let mut patterns = Patterns { rows: vec![0], ends: vec![0], ..Patterns::default() };
        let mut index = vec![0; PATTERNS];
        for (number, _) in self.occurring(kinds).into_iter().enumerate().filter(|(_, occurs)| *occurs) {
            index[number] = patterns.count() as u16;
            self.add(number as u16, &mut patterns);
        }
        (patterns, index)
    }

    /// For each neighbourhood number, whether some cell has it.
    fn occurring(&self, kinds: &[u8]) -> Vec<bool> {
        let Self { width, height, .. } = *self;
        if kinds.is_empty() {
            // Cells near the edges and corners cover all neighbourhoods of an empty grid, whatever its size.
            const LARGE: u32 = 8;

            let (width, height) = (width.min(LARGE), height.min(LARGE));
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
        let cells = Cells { grid: small, kinds, walls: Vec::new(), obstacles: Vec::new() };
        for action in 0..4 {
            // Sums in the order of successors from +0, for the same bits as `Mdp::expected_rewards`.
            let mut reward = 0.0;
            let at = At { row: 4 * u64::from(OWN) + u64::from(action), state: OWN.into(), action };
            for (cell, prob) in cells.successors(at) {
                reward += prob * cells.reward_in(cell);
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
    /// The grid; of a part, its own rows and the ghosts.
    #[must_use]
    pub fn slip_grid(&self) -> &SlipGrid {
        &self.grid
    }

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

    /// The place in the whole grid, if this is the part of a rank.
    #[must_use]
    pub fn part(&self) -> Option<&Arc<Part>> {
        self.part.as_ref()
    }

    /// S, the number of cells; of a part, with its ghosts.
    #[must_use]
    pub fn states(&self) -> u32 {
        self.grid.width * self.grid.height
    }

    /// Pattern index of a cell.
    #[must_use]
    pub fn pattern(&self, cell: u32) -> usize {
        let SlipGrid { width, height, .. } = self.grid;
        if self.part.as_ref().is_some_and(|part| !part.own.contains(&(cell as usize))) {
            return self.ghost;
        }
        let kind = |cell: u32| match self.kinds.get(cell as usize) {
            Some(&kind) => kind,
            None if self.goal == Some(cell) => GOAL,
            None => FREE,
        };
        self.index[pattern_of(width, height, cell, kind) as usize].into()
    }

    /// The greedy policy with respect to `values`, as [`greedy`](crate::certificate::greedy) computes it.
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
    use crate::certificate::{certify, greedy};

    #[test]
    fn patterns_are_the_rows_of_the_model() {
        let walls = SlipGrid { walls: 0.2, obstacles: 0.15, ..SlipGrid::default() };
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

    /// The patterns of the parts are those of the whole grid, and ghosts have no actions.
    #[test]
    fn parts_have_the_patterns_of_the_whole() {
        let walls = SlipGrid { walls: 0.2, obstacles: 0.15, ..SlipGrid::default() };
        for (grid, width, height) in
            [(SlipGrid::default(), 7, 9), (walls, 12, 10), (walls, 1, 7), (SlipGrid::default(), 3, 7)]
        {
            let grid = SlipGrid { width, height, ..grid };
            let whole = grid.patterns().unwrap();
            for ranks in 1..=7 {
                let parts: Vec<_> = (0..ranks).map(|rank| grid.patterns_of(rank, ranks).unwrap()).collect();
                let mut next = 0;
                for (rank, part) in parts.iter().enumerate() {
                    let Some(place) = part.part() else { continue };
                    assert_eq!((place.first, place.all), (next, u64::from(width * height)));
                    next += place.own.len() as u64;
                    for cell in 0..part.states() {
                        let rows = part.patterns.rows_of(part.pattern(cell));
                        if !place.own.contains(&(cell as usize)) {
                            assert!(rows.is_empty());
                            continue;
                        }
                        let global = place.first as u32 + cell - place.own.start as u32;
                        for (own, row) in rows.zip(whole.patterns.rows_of(whole.pattern(global))) {
                            let (own_entries, entries) =
                                (part.patterns.entries_of(own), whole.patterns.entries_of(row));
                            assert_eq!(part.patterns.reward[own], whole.patterns.reward[row]);
                            assert_eq!(part.patterns.prob[own_entries.clone()], whole.patterns.prob[entries.clone()]);
                            assert_eq!(part.patterns.distance[own_entries], whole.patterns.distance[entries]);
                        }
                    }
                    for peer in &place.peers {
                        let other = parts[peer.rank as usize].part().unwrap();
                        let back = other.peers.iter().find(|peer| peer.rank as usize == rank).unwrap();
                        let global = |part: &Part, cell: usize| part.first as usize + cell - part.own.start;
                        let sent: Vec<_> = back.sends.iter().map(|cell| global(other, cell as usize)).collect();
                        let first = (place.first as usize + peer.ghosts.start).wrapping_sub(place.own.start);
                        assert_eq!(sent, (first..first + peer.ghosts.len()).collect::<Vec<_>>());
                    }
                }
                assert!(ranks == 1 || next == u64::from(width * height));
            }
        }
        let large = SlipGrid { width: 100_000, height: 100_000, ..SlipGrid::default() };
        assert_eq!(large.patterns_of(3, 4).unwrap().part().unwrap().first, 7_500_000_000);
        let message = large.patterns_of(0, 2).err().unwrap().to_string();
        assert!(
            message.ends_with("on 2 ranks: expected at most 4294967295 cells on a rank, at least 3 ranks"),
            "{message}"
        );
    }

    #[test]
    fn the_certificate_is_close_to_that_of_the_model() {
        let grid = SlipGrid { width: 12, height: 10, walls: 0.1, ..SlipGrid::default() };
        let mdp = grid.generate().unwrap();
        let values = vec![3.0; 120];
        let exact = certify(&mdp, &values);
        let told = grid.patterns().unwrap().extremes(exact.range, 3.0).certificate(0.9, 0.0);
        assert_eq!((told.contraction, told.bellman_residual), (exact.contraction, exact.bellman_residual));
        let (told, exact) = (told.bound.unwrap(), exact.bound.unwrap());
        assert!(told >= exact && told < exact + 1e-12, "{told}, {exact}");
    }
}
