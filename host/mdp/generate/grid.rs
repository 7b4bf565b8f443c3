//! Grid worlds in which moves slip sideways: Aydin, *Policy Iteration on the GPU* (2025), section 5.2.2.

use warpkov_kernels::mdp::generate::{FREE, GOAL, OBSTACLE, WALL};

use std::borrow::Cow;
use std::collections::VecDeque;

use super::demand::{Family, OnDemand};
use super::{Error, RewardOf, choose};
use crate::model::whole::{At, Described};
use crate::model::{Grid, Mdp};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, cells, parameters};
use warpkov_common::random::random;

mod patterns;

pub use patterns::GridPatterns;

parameters! {
    /// A grid world of `width` × `height` cells, one state each.
    ///
    /// Actions 0 to 3 are up, down, right and left. An action moves in its direction with probability 1 − `slip` and to
    /// either side of it with probability `slip` / 2; it never reverses. A move off the grid or into a wall leaves the
    /// agent in place, and so does any move from a wall cell. The goal is the last cell; it is not absorbing. Every step
    /// that ends in the goal, including staying there, earns `goal_reward`. Every step that ends in an obstacle earns
    /// −`obstacle_penalty`.
    ///
    /// Equal fields give bit-identical models on every machine.
    ///
    /// The default is grid G1 of the source's Table 5.3.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SlipGrid {
        /// Cells in a row, at least 1.
        pub width: u32 = 64, "CELLS";
        /// Cells in a column, at least 1; `width` · `height` is at most 2³² − 1.
        pub height: u32 = 64, "CELLS";
        /// ε, the probability of slipping, in [0, 1].
        pub slip: f64 = 0.1, "P" in FRACTION;
        /// Fraction of the cells that are walls, in [0, 1); the number of walls is rounded.
        pub walls: f64 = 0.0, "FRACTION" in BELOW_ONE;
        /// Fraction of the cells that are obstacles, in [0, 1); the number of obstacles is rounded.
        pub obstacles: f64 = 0.0, "FRACTION" in BELOW_ONE;
        /// Whether walls that close cells off from the goal are opened, on the ways through the fewest walls, so that fewer remain.
        pub connected: bool = false, "flag";
        /// γ, the discount factor, in [0, 1).
        pub gamma: f64 = 0.9, "G" in BELOW_ONE;
        /// Seed of the positions of walls and obstacles.
        pub seed: u64 = 42, "N";
        /// Reward of a step that ends in the goal; finite.
        pub goal_reward: f64 = 1.0, "R" in FINITE;
        /// Cost of a step that ends in an obstacle; finite.
        pub obstacle_penalty: f64 = 1.0, "COST" in FINITE;
    }
}

impl SlipGrid {
    /// Generates the model on all cores. R has entries only where P has; neither stores zeros.
    ///
    /// # Errors
    /// A field is out of its range, or walls and obstacles do not fit.
    pub fn generate(&self) -> Result<Mdp, Error> {
        cells(self.width, self.height)?;
        self.on_demand()?.whole()
    }

    /// The model as a source of rows. Without walls and obstacles, the number of cells is limited by `width` and `height` alone.
    /// With them, which are drawn from all cells, it is at most 2³² − 1, and the source has a byte of memory for each cell.
    ///
    /// # Errors
    /// A field is out of its range, or walls and obstacles do not fit.
    pub fn source(&self) -> Result<impl Described + use<>, Error> {
        self.on_demand()
    }

    fn on_demand(&self) -> Result<OnDemand<Cells>, Error> {
        self.check()?;
        let (walls, obstacles) = match self.is_open() && self.width > 0 && self.height > 0 {
            true => Default::default(),
            false => self.place(cells(self.width, self.height)?)?,
        };
        let open = walls.is_empty() && obstacles.is_empty();
        let kinds = if open { Vec::new() } else { kinds(self.width * self.height, &walls, &obstacles) };
        OnDemand::new(Cells { grid: *self, kinds, walls, obstacles })
    }

    /// Whether no walls and obstacles are asked for.
    fn is_open(&self) -> bool {
        self.walls == 0.0 && self.obstacles == 0.0
    }

    /// Draws walls and obstacles without replacement from all cells but the goal; both ascend.
    fn place(&self, states: u32) -> Result<(Vec<u32>, Vec<u32>), Error> {
        let count = |fraction: f64| (fraction * f64::from(states)).round() as u32;
        let (walls, obstacles) = (count(self.walls), count(self.obstacles));
        let free = states - 1;
        let chosen = walls.checked_add(obstacles).filter(|&chosen| chosen <= free);
        let chosen = chosen.ok_or(Error::Full { walls, obstacles, free })? as usize;
        let mut cells = choose(&mut random(self.seed, 0), free, chosen);
        let mut obstacles = cells.split_off(walls as usize);
        cells.sort_unstable();
        obstacles.sort_unstable();
        if self.connected {
            self.open_ways(&mut cells);
        }
        Ok((cells, obstacles))
    }

    /// Removes walls, so that every cell that is not a wall has a way to the goal: of the ways through the fewest walls, one for
    /// each cell, and the union of these ways is opened.
    fn open_ways(&self, walls: &mut Vec<u32>) {
        const UNSEEN: u32 = u32::MAX;
        let goal = self.width * self.height - 1;
        let mut is_wall = vec![false; goal as usize + 1];
        walls.iter().for_each(|&wall| is_wall[wall as usize] = true);
        // Cells by ascending number of walls on the way to the goal: those of as many walls as the present one come first.
        let mut towards_goal = vec![UNSEEN; goal as usize + 1];
        towards_goal[goal as usize] = goal;
        let mut ahead = VecDeque::from([goal]);
        while let Some(cell) = ahead.pop_front() {
            for next in neighbours(self.width, self.height, cell) {
                if towards_goal[next as usize] == UNSEEN {
                    towards_goal[next as usize] = cell;
                    if is_wall[next as usize] { ahead.push_back(next) } else { ahead.push_front(next) }
                }
            }
        }
        let mut connected = vec![false; goal as usize + 1];
        connected[goal as usize] = true;
        for cell in 0..goal {
            if is_wall[cell as usize] {
                continue;
            }
            // Walls that earlier ways have opened are connected.
            let mut way = cell;
            while !connected[way as usize] {
                connected[way as usize] = true;
                is_wall[way as usize] = false;
                way = towards_goal[way as usize];
            }
        }
        walls.retain(|&wall| is_wall[wall as usize]);
    }
}

/// The cells above, below, right and left of a cell.
fn neighbours(width: u32, height: u32, cell: u32) -> impl Iterator<Item = u32> {
    let (x, y) = (cell % width, cell / width);
    let places = [
        (y > 0).then(|| cell - width),
        (y + 1 < height).then(|| cell + width),
        (x + 1 < width).then(|| cell + 1),
        (x > 0).then(|| cell - 1),
    ];
    places.into_iter().flatten()
}

/// Kind of each cell: free, wall, obstacle or goal.
fn kinds(states: u32, walls: &[u32], obstacles: &[u32]) -> Vec<u8> {
    let mut kinds = vec![FREE; states as usize];
    walls.iter().for_each(|&wall| kinds[wall as usize] = WALL);
    obstacles.iter().for_each(|&obstacle| kinds[obstacle as usize] = OBSTACLE);
    kinds[states as usize - 1] = GOAL;
    kinds
}

/// A grid and the kinds of its cells.
struct Cells {
    grid: SlipGrid,
    /// Kind of each cell; empty for a grid without walls and obstacles.
    kinds: Vec<u8>,
    walls: Vec<u32>,
    obstacles: Vec<u32>,
}

impl Cells {
    fn kind(&self, cell: u64) -> u8 {
        match self.kinds.get(cell as usize) {
            Some(&kind) => kind,
            None if cell + 1 == self.states() => GOAL,
            None => FREE,
        }
    }

    /// The cells after a move up, down, right and left.
    fn moved(&self, cell: u64) -> [u64; 4] {
        let (width, height) = (u64::from(self.grid.width), u64::from(self.grid.height));
        let (x, y) = (cell % width, cell / width);
        let targets = [
            if y > 0 { cell - width } else { cell },
            if y + 1 < height { cell + width } else { cell },
            if x + 1 < width { cell + 1 } else { cell },
            if x > 0 { cell - 1 } else { cell },
        ];
        let stays = self.kind(cell) == WALL;
        targets.map(|target| if stays || self.kind(target) == WALL { cell } else { target })
    }

    /// Reward of a step that ends in `cell`.
    fn reward_in(&self, cell: u64) -> f64 {
        match self.kind(cell) {
            GOAL => self.grid.goal_reward,
            OBSTACLE => -self.grid.obstacle_penalty,
            _ => 0.0,
        }
    }
}

impl Family for Cells {
    fn states(&self) -> u64 {
        u64::from(self.grid.width) * u64::from(self.grid.height)
    }

    fn gamma(&self) -> f64 {
        self.grid.gamma
    }

    fn uniform(&self) -> Option<u32> {
        Some(4)
    }

    fn successors(&self, At { state: cell, action, .. }: At) -> impl Iterator<Item = (u64, f64)> {
        let targets = self.moved(cell);
        let sides = if action < 2 { [2, 3] } else { [0, 1] };
        let (ahead, sides) = (targets[action as usize], sides.map(|side: usize| targets[side]));
        let mut cells = [ahead, sides[0], sides[1]];
        cells.sort_unstable();
        let slip = self.grid.slip;
        (0..3).filter(move |&i| i == 0 || cells[i] != cells[i - 1]).filter_map(move |i| {
            let slips = sides.iter().filter(|&&side| side == cells[i]).count();
            // Coinciding moves: the sum of their probabilities, rounded once: 1 − ε/2, not (1 − ε) + ε/2.
            let probability = match (cells[i] == ahead, slips) {
                (true, 0) => 1.0 - slip,
                (true, 1) => 1.0 - slip / 2.0,
                (true, _) => 1.0,
                (false, 1) => slip / 2.0,
                (false, _) => slip,
            };
            (probability > 0.0).then_some((cells[i], probability))
        })
    }

    fn reward_of(&self) -> RewardOf {
        RewardOf::Transition
    }

    fn rewards(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        let rewards = self.successors(at).map(|(cell, _)| (cell, self.reward_in(cell)));
        rewards.filter(|&(_, reward)| reward != 0.0)
    }

    fn grid(&self) -> Option<Cow<'_, Grid>> {
        let (SlipGrid { width, height, .. }, goal) = (self.grid, self.states() - 1);
        Some(Cow::Owned(Grid { width, height, goal, walls: self.walls.clone(), obstacles: self.obstacles.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_source() {
        let mdp = SlipGrid { width: 512, height: 512, ..SlipGrid::default() }.generate().unwrap();
        assert_eq!(mdp.transitions().nnz(), 3_145_720);
    }

    #[test]
    fn walls_are_the_same_everywhere() {
        let grid = SlipGrid { width: 512, height: 512, walls: 0.3, obstacles: 0.1, ..SlipGrid::default() };
        let Grid { walls, obstacles, .. } = grid.generate().unwrap().grid().unwrap().clone();
        assert_eq!((walls.len(), obstacles.len()), (78_643, 26_214));
        assert_eq!(walls[..8], [2, 4, 8, 9, 10, 13, 16, 19]);
        assert_eq!(obstacles[..8], [34, 45, 57, 61, 62, 63, 69, 74]);
        let other = SlipGrid { seed: 43, ..grid }.generate().unwrap();
        assert_ne!(walls, other.grid().unwrap().walls);
        assert!(walls.iter().all(|wall| obstacles.binary_search(wall).is_err()));
    }

    /// From every cell that is no wall, moves lead to the goal; of the walls without the option, only some are opened.
    #[test]
    fn connected_cells_have_a_way_to_the_goal() {
        let shapes = [(1, 1), (1, 60), (60, 1), (2, 9), (31, 17), (64, 64), (200, 200)];
        for ((width, height), (walls, seed)) in shapes.into_iter().flat_map(|shape| {
            [0.05, 0.3, 0.4, 0.6, 0.95]
                .into_iter()
                .flat_map(move |walls| (0..4).map(move |seed| (shape, (walls, seed))))
        }) {
            let grid = SlipGrid { width, height, walls, obstacles: 0.02, seed, ..SlipGrid::default() };
            let Ok((all, obstacles)) = grid.place(width * height) else { continue };
            let (kept, same) = SlipGrid { connected: true, ..grid }.place(width * height).unwrap();
            assert!(obstacles == same && kept.iter().all(|wall| all.binary_search(wall).is_ok()));
            let mut seen = vec![false; (width * height) as usize];
            let mut ahead = vec![width * height - 1];
            while let Some(cell) = ahead.pop() {
                if !std::mem::replace(&mut seen[cell as usize], true) {
                    ahead.extend(neighbours(width, height, cell).filter(|next| kept.binary_search(next).is_err()));
                }
            }
            let reached = seen.iter().filter(|&&seen| seen).count();
            assert_eq!(reached + kept.len(), seen.len(), "{grid:?}");
            assert!(kept.len() == all.len() || all.len() > 2, "{grid:?}");
        }
        // Where all cells have a way, nothing is opened.
        let grid = SlipGrid { walls: 0.05, seed: 1, ..SlipGrid::default() };
        let open = |connected| SlipGrid { connected, ..grid }.place(4096).unwrap().0.len();
        assert!(open(false) - open(true) < 3, "{} {}", open(false), open(true));
    }

    #[test]
    fn walls_hold_and_obstacles_cost() {
        let grid = SlipGrid { width: 9, height: 7, walls: 0.3, obstacles: 0.2, ..SlipGrid::default() };
        let grid = SlipGrid { obstacle_penalty: 2.5, goal_reward: 4.0, ..grid };
        let mdp = grid.generate().unwrap();
        let Grid { walls, obstacles, goal, .. } = mdp.grid().unwrap().clone();
        for row in 0..mdp.rows() {
            let (state, (cells, probs), (ends, rewards)) =
                (row / 4, mdp.transitions().row(row), mdp.rewards().row(row));
            if walls.contains(&(state as u32)) {
                assert_eq!((cells, probs, ends.len()), (&[state as u32][..], &[1.0][..], 0));
            } else {
                assert!(cells.iter().all(|cell| !walls.contains(cell)));
            }
            let expected = |cell: u32| match cell {
                _ if u64::from(cell) == goal => Some((cell, 4.0)),
                _ if obstacles.contains(&cell) => Some((cell, -2.5)),
                _ => None,
            };
            let expected: Vec<_> = cells.iter().copied().filter_map(expected).collect();
            assert_eq!(ends.iter().copied().zip(rewards.iter().copied()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn zero_probabilities_are_not_stored() {
        let sure = SlipGrid { width: 3, height: 3, slip: 0.0, ..SlipGrid::default() }.generate().unwrap();
        assert_eq!(sure.transitions().nnz(), 36);
        let sideways = SlipGrid { width: 1, height: 1, slip: 1.0, ..SlipGrid::default() }.generate().unwrap();
        assert_eq!(sideways.transitions().val()[..], [1.0; 4]);
        let line = SlipGrid { width: 3, height: 1, ..SlipGrid::default() }.generate().unwrap();
        assert_eq!(line.transitions().row(4 + 2), (&[1, 2][..], &[0.1, 0.9][..]));
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |grid: SlipGrid| grid.generate().err().unwrap().to_string();
        let size = "a grid of 65536 × 65536 cells: expected 1 to 4294967295 cells";
        assert_eq!(message(SlipGrid { width: 65536, height: 65536, ..SlipGrid::default() }), size);
        assert_eq!(
            message(SlipGrid { slip: f64::NAN, ..SlipGrid::default() }),
            "slip is NaN, expected a number in [0, 1]"
        );
        assert_eq!(message(SlipGrid { gamma: 1.0, ..SlipGrid::default() }), "gamma is 1, expected a number in [0, 1)");
        let full = SlipGrid { width: 2, height: 2, walls: 0.5, obstacles: 0.5, ..SlipGrid::default() };
        assert_eq!(message(full), "2 walls and 2 obstacles do not fit in the 3 cells other than the goal");
    }
}
