//! Grid worlds with scattered rewards: Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), section 6.1 and
//! Table 6.1; with redirected outcomes, section 6.3.

use std::borrow::Cow;

use super::demand::{Family, OnDemand};
use super::{Error, RewardOf, choose};
use crate::model::whole::{At, Described};
use crate::model::{Grid, Mdp};
use warpkov_common::parameters::{BELOW_ONE, FRACTION, Parameters as _, cells, count, number, parameters};
use warpkov_common::random::{below, random, unit};

parameters! {
    /// A grid world of `width` × `height` cells, one state each.
    ///
    /// Actions 0 to 3 are up, right, down and left. A move off the grid leaves the agent in place. `successors` is the
    /// number of outcomes of an action:
    ///
    /// | `successors` | intended direction | other directions |
    /// | --- | --- | --- |
    /// | 1 | 1 | |
    /// | 2 | 0.9 | 0.1, the next clockwise |
    /// | 4 | 0.7 | 0.1 each |
    ///
    /// (The source gives these probabilities, but not the other directions.) Outcomes that end in the same cell are merged.
    ///
    /// Randomly chosen cells have a reward, uniform in 2 to 20. As the source defines R, a transition earns it: every step
    /// that ends in such a cell, including staying there. No cell is terminal. `grid.goal` is the cell with the largest
    /// reward.
    ///
    /// The default is GW-64x64x1, the first domain of Table 6.1.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct WetFloor {
        /// Cells in a row, at least 1.
        pub width: u32 = 64, "CELLS";
        /// Cells in a column, at least 1; `width` · `height` is at most 2³² − 1.
        pub height: u32 = 64, "CELLS";
        /// Outcomes of an action: 1, 2 or 4.
        pub successors: u32 = 1, "N";
        /// Number of cells with a reward, at most all. By default that of Table 6.1 for its sizes, else S / 1000, rounded, at least 1.
        pub reward_states: Option<u32> = None, "STATES";
        /// Draw real rewards, in place of integers.
        pub real_rewards: bool = false, "flag";
        /// The source's locality modification: the probability that an outcome is redirected to a uniformly drawn cell, in
        /// [0, 1].
        pub redirected: f64 = 0.0, "FRACTION" in FRACTION;
        /// γ, the discount factor, in [0, 1).
        pub gamma: f64 = 0.9, "G" in BELOW_ONE;
        /// Seed of the cells and sizes of rewards and of the redirected outcomes.
        pub seed: u64 = 42, "N";
    }
}

/// The twelve domains of the source's Table 6.1.
pub const TABLE_6_1: [WetFloor; 12] = [
    domain(64, 1),
    domain(256, 1),
    domain(512, 1),
    domain(1024, 1),
    domain(64, 2),
    domain(256, 2),
    domain(512, 2),
    domain(1024, 2),
    domain(64, 4),
    domain(256, 4),
    domain(512, 4),
    domain(1024, 4),
];

const fn domain(side: u32, successors: u32) -> WetFloor {
    WetFloor {
        width: side,
        height: side,
        successors,
        reward_states: None,
        real_rewards: false,
        redirected: 0.0,
        gamma: 0.9,
        seed: 42,
    }
}

/// Number of reward states: Table 6.1's for its sizes, otherwise S / 1000, rounded, at least 1.
fn default_reward_states(states: u32) -> u32 {
    match states {
        4_096 => 5,
        65_536 => 65,
        262_144 => 260,
        1_048_576 => 1_024,
        _ if states < 1_500 => 1,
        _ => states.saturating_add(500) / 1_000,
    }
}

impl WetFloor {
    /// A grid in the style of Table 6.1: integer rewards in about 1 of 1000 cells, γ = 0.9, seed 42.
    #[must_use]
    pub const fn new(width: u32, height: u32, successors: u32) -> Self {
        Self { width, height, ..domain(64, successors) }
    }

    /// The domain of Table 6.1 with this name, case-insensitively.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TABLE_6_1.into_iter().find(|domain| domain.name().eq_ignore_ascii_case(name))
    }

    /// The source's computational cost: states · actions · successors of an action.
    #[must_use]
    pub fn cost(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * 4 * u64::from(self.successors)
    }

    /// The name in the style of Table 6.1, such as GW-64x64x1.
    #[must_use]
    pub fn name(&self) -> String {
        format!("GW-{}x{}x{}", self.width, self.height, self.successors)
    }

    /// Generates the model on all cores. R has entries only where P has; neither stores zeros.
    ///
    /// # Errors
    /// A field is out of its range, or the model does not fit in memory.
    pub fn generate(&self) -> Result<Mdp, Error> {
        self.on_demand()?.whole()
    }

    /// The model as a source of rows, which has all rewards in memory.
    ///
    /// # Errors
    /// A field is out of its range.
    pub fn source(&self) -> Result<impl Described + use<>, Error> {
        self.on_demand()
    }

    fn on_demand(&self) -> Result<OnDemand<Floor>, Error> {
        self.check()?;
        let states = cells(self.width, self.height)?;
        let outcomes = matches!(self.successors, 1 | 2 | 4);
        number("successors", f64::from(self.successors), outcomes, "1, 2 or 4")?;
        let rewarded = self.reward_states.unwrap_or(default_reward_states(states));
        count("reward_states", rewarded, 0, states)?;
        OnDemand::new(Floor { grid: *self, rewards: self.rewards(states, rewarded) })
    }

    /// The cells with rewards, ascending, and the rewards of ending a step there.
    fn rewards(&self, states: u32, rewarded: u32) -> Vec<(u64, f64)> {
        let mut random = random(self.seed, 0);
        let cells = choose(&mut random, states, rewarded as usize);
        let mut draw = || match self.real_rewards {
            true => 2.0 + 18.0 * unit(&mut random),
            false => 2.0 + below(&mut random, 19) as f64,
        };
        let mut rewards: Vec<_> = cells.into_iter().map(|cell| (u64::from(cell), draw())).collect();
        rewards.sort_unstable_by_key(|&(cell, _)| cell);
        rewards
    }

    /// The cell after a move in a direction: up, right, down, left.
    fn moved(&self, cell: u64, direction: u32) -> u64 {
        let (width, height) = (u64::from(self.width), u64::from(self.height));
        let (x, y) = (cell % width, cell / width);
        match direction {
            0 if y > 0 => cell - width,
            1 if x + 1 < width => cell + 1,
            2 if y + 1 < height => cell + width,
            3 if x > 0 => cell - 1,
            _ => cell,
        }
    }

    /// A row of P: cells, ascending, with their probabilities.
    fn outcomes(&self, At { row, state: cell, action }: At) -> impl Iterator<Item = (u64, f64)> {
        let mut entries = [(0, 0); 4];
        let outcomes = &mut entries[..self.successors as usize];
        for (turn, outcome) in (0..).zip(outcomes.iter_mut()) {
            // Probabilities in tenths, so that sums are exact: 1 for each other outcome, the rest for the first.
            let tenths = if turn == 0 { 11 - self.successors } else { 1 };
            *outcome = (self.moved(cell, (action + turn) % 4), tenths);
        }
        if self.redirected > 0.0 {
            let states = u64::from(self.width) * u64::from(self.height);
            let mut random = random(self.seed, 1 + row);
            for outcome in outcomes.iter_mut() {
                if unit(&mut random) < self.redirected {
                    outcome.0 = below(&mut random, states);
                }
            }
        }
        outcomes.sort_unstable();
        let mut last = 0;
        for i in 1..outcomes.len() {
            if outcomes[i].0 == outcomes[last].0 {
                outcomes[last].1 += outcomes[i].1;
            } else {
                last += 1;
                outcomes[last] = outcomes[i];
            }
        }
        entries.into_iter().take(last + 1).map(|(cell, tenths)| (cell, f64::from(tenths) / 10.0))
    }
}

/// A grid and its rewards.
struct Floor {
    grid: WetFloor,
    /// As [`WetFloor::rewards`] returns them.
    rewards: Vec<(u64, f64)>,
}

impl Family for Floor {
    fn states(&self) -> u64 {
        u64::from(self.grid.width) * u64::from(self.grid.height)
    }

    fn gamma(&self) -> f64 {
        self.grid.gamma
    }

    fn uniform(&self) -> Option<u32> {
        Some(4)
    }

    fn successors(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        self.grid.outcomes(at)
    }

    fn reward_of(&self) -> RewardOf {
        RewardOf::Transition
    }

    fn rewards(&self, at: At) -> impl Iterator<Item = (u64, f64)> {
        self.successors(at).filter_map(|(cell, _)| {
            let found = self.rewards.binary_search_by_key(&cell, |&(cell, _)| cell).ok()?;
            Some(self.rewards[found])
        })
    }

    fn grid(&self) -> Option<Cow<'_, Grid>> {
        let WetFloor { width, height, .. } = self.grid;
        let larger = |best: (u64, f64), next: &(u64, f64)| if next.1 > best.1 { *next } else { best };
        let (goal, _) = self.rewards.iter().fold((0, 0.0), larger);
        Some(Cow::Owned(Grid { width, height, goal, ..Grid::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 6.1: names, states, actions and reward states.
    #[test]
    fn domains_are_those_of_the_table() {
        assert_eq!(TABLE_6_1[3].name(), "GW-1024x1024x1");
        assert_eq!(
            TABLE_6_1.map(|domain| default_reward_states(domain.width * domain.height))[..4],
            [5, 65, 260, 1024]
        );
        for domain in TABLE_6_1.into_iter().filter(|domain| domain.width <= 256) {
            assert_eq!(WetFloor::named(&domain.name().to_lowercase()), Some(domain));
            let mdp = domain.generate().unwrap();
            assert_eq!(mdp.rows(), 4 * mdp.states() as usize);
            let mut rewarded: Vec<_> = mdp.rewards().col().to_vec();
            rewarded.sort_unstable();
            rewarded.dedup();
            assert_eq!(
                rewarded.len(),
                default_reward_states(domain.width * domain.height) as usize,
                "{}",
                domain.name()
            );
            assert!(mdp.rewards().val().iter().all(|&r| (2.0..=20.0).contains(&r) && r.fract() == 0.0));
            let goal = mdp.grid().unwrap().goal;
            assert!(rewarded.binary_search(&(goal as u32)).is_ok());
        }
        assert_eq!(WetFloor::named("GW-128x128x1"), None);
    }

    /// Listings A.1 and A.2 of the source show states 0, 1 and the like of a deterministic grid.
    #[test]
    fn moves_are_those_of_the_listing() {
        let one = WetFloor::new(64, 64, 1).generate().unwrap();
        let cells = |mdp: &Mdp, row| mdp.transitions().row(row).0.to_vec();
        assert_eq!([0, 1, 2, 3].map(|row| cells(&one, row)), [[0], [1], [64], [0]]);
        assert_eq!([4, 5, 6, 7].map(|row| cells(&one, row)), [[1], [2], [65], [0]]);
        let two = WetFloor::new(64, 64, 2).generate().unwrap();
        // Up from cell 65, or right with probability 0.1.
        assert_eq!(two.transitions().row(4 * 65), (&[1, 66][..], &[0.9, 0.1][..]));
        let four = WetFloor::new(64, 64, 4).generate().unwrap();
        assert_eq!(four.transitions().row(4 * 65 + 1), (&[1, 64, 66, 129][..], &[0.1, 0.1, 0.7, 0.1][..]));
        assert_eq!(four.transitions().row(0), (&[0, 1, 64][..], &[0.8, 0.1, 0.1][..]));
    }

    #[test]
    fn the_requested_fraction_is_redirected() {
        let grid = WetFloor::named("GW-256x256x1").unwrap();
        let local = grid.generate().unwrap();
        for redirected in [0.05, 0.5] {
            let moved = WetFloor { redirected, ..grid }.generate().unwrap();
            let changed =
                local.transitions().col().iter().zip(&moved.transitions().col()[..]).filter(|(a, b)| a != b).count();
            // Five standard deviations of 262,144 coin tosses.
            let deviation = (262_144.0 * redirected * (1.0 - redirected)).sqrt();
            assert!((changed as f64 - 262_144.0 * redirected).abs() < 5.0 * deviation, "{changed}");
            assert_eq!(moved.transitions().val()[..], local.transitions().val()[..]);
        }
    }

    #[test]
    fn is_the_same_everywhere() {
        let grid = WetFloor { redirected: 0.3, real_rewards: true, ..WetFloor::new(40, 30, 4) };
        let mdp = grid.generate().unwrap();
        let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let again = single.install(|| grid.generate()).unwrap();
        assert_eq!(mdp.transitions().col()[..], again.transitions().col()[..]);
        assert_eq!(mdp.rewards().val()[..], again.rewards().val()[..]);
        assert!(mdp.rewards().val().iter().any(|r| r.fract() != 0.0));
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |grid: WetFloor| grid.generate().err().unwrap().to_string();
        assert_eq!(message(WetFloor::new(8, 8, 3)), "successors is 3, expected 1, 2 or 4");
        let full = WetFloor { reward_states: Some(65), ..WetFloor::new(8, 8, 1) };
        assert_eq!(message(full), "reward_states is 65, expected 0 to 64");
    }
}
