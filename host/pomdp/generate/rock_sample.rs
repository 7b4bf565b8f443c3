//! RockSample: Smith and Simmons, *Heuristic search value iteration for POMDPs*, UAI (2004), section 6.

use super::{Error, Matrices, Sizes, inside, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::choice::choice;
use warpkov_common::parameters::{BELOW_ONE, FINITE, POSITIVE, Parameters as _, count, parameters};

parameters! {
    /// A rover on a grid of `size` × `size` cells with k rocks, each good or bad.
    ///
    /// State ((y · size) + x) · 2ᵏ + Σ 2ⁱ·goodᵢ, plus a last state for a rover that has left. Actions: north (y + 1),
    /// south, east (x + 1), west, sample, check0 to check(k−1). A move off the grid has no effect, except that a move east
    /// from the last column leaves the grid and yields `exit`. Sampling a good rock yields `good` and makes it bad;
    /// sampling a bad rock yields `bad`; sampling without a rock has no effect. Check i reports whether rock i is good,
    /// correctly with probability (1 + η)/2, where η = 2^(−d/d₀) at Euclidean distance d. Observations: good, bad. All
    /// other actions observe bad.
    ///
    /// In the files of ZMDP and SARSOP, other moves off the grid and sampling without a rock end the process and cost 100.
    /// V\*(b₀) is the same, because neither action is ever useful.
    ///
    /// The default is RockSample\[7,8\].
    #[derive(Clone, Debug, PartialEq)]
    pub struct RockSample {
        /// n, number of columns and of rows, 1 to 1000.
        pub size: u32 = 7, "N" in 1..=1000;
        /// Positions of the rocks, (x, y); 0 to 24 of them.
        pub rocks: Vec<(u32, u32)> = vec![(2, 0), (0, 1), (3, 1), (6, 3), (2, 4), (3, 4), (5, 5), (1, 6)];
        /// Start of the rover, (x, y).
        pub start: (u32, u32) = (0, 3), "X,Y";
        /// d₀, distance at which the efficiency η of the sensor is ½; above 0.
        pub half_efficiency_distance: f64 = 20.0, "D" in POSITIVE;
        /// Reward of sampling a good rock; finite.
        pub good: f64 = 10.0, "R" in FINITE;
        /// Reward of sampling a bad rock; finite.
        pub bad: f64 = -10.0, "R" in FINITE;
        /// Reward of leaving; finite.
        pub exit: f64 = 10.0, "R" in FINITE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.95, "G" in BELOW_ONE;
    }
}

choice! {
    /// Published positions of rocks and start. Those up to \[10,10\] are from ZMDP, by the source's first author;
    /// SARSOP's published bounds refer to its files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Layout {
        /// 4 × 4 cells, 4 rocks, 257 states.
        R4x4 = "4,4",
        /// 5 × 5 cells, 5 rocks, 801 states.
        R5x5 = "5,5",
        /// 5 × 5 cells, 7 rocks, 3,201 states.
        R5x7 = "5,7",
        /// 7 × 7 cells, 8 rocks, 12,545 states.
        R7x8 = "7,8",
        /// 10 × 10 cells, 10 rocks, 102,401 states.
        R10x10 = "10,10",
        /// 11 × 11 cells, 11 rocks, 247,809 states.
        R11x11 = "11,11",
    }
}

impl RockSample {
    /// A published layout with the source's rewards and γ = 0.95. The sensor is that of the layout: η = e^(−d), i.e. d₀
    /// = ln 2, for \[4,4\]; d₀ = 4 for \[5,5\]; d₀ = 20 for all others.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let (size, start, rocks): (u32, (u32, u32), &[(u32, u32)]) = match layout {
            Layout::R4x4 => (4, (0, 2), &[(3, 1), (2, 1), (1, 3), (1, 0)]),
            Layout::R5x5 => (5, (0, 2), &[(2, 4), (0, 4), (3, 3), (2, 2), (4, 1)]),
            Layout::R5x7 => (5, (0, 2), &[(1, 0), (2, 1), (1, 2), (2, 2), (4, 2), (0, 3), (3, 4)]),
            Layout::R7x8 => (7, (0, 3), &[(2, 0), (0, 1), (3, 1), (6, 3), (2, 4), (3, 4), (5, 5), (1, 6)]),
            Layout::R10x10 => {
                (10, (0, 5), &[(0, 3), (0, 7), (1, 8), (3, 3), (3, 8), (4, 3), (5, 8), (6, 1), (9, 3), (9, 9)])
            }
            Layout::R11x11 => {
                (11, (0, 5), &[(0, 3), (0, 7), (1, 8), (2, 4), (3, 3), (3, 8), (4, 3), (5, 8), (6, 1), (9, 3), (9, 9)])
            }
        };
        let half_efficiency_distance = match layout {
            Layout::R4x4 => std::f64::consts::LN_2,
            Layout::R5x5 => 4.0,
            _ => 20.0,
        };
        Self { size, rocks: rocks.to_vec(), start, half_efficiency_distance, ..Self::default() }
    }

    /// Generates the model. At the start each rock is good with probability ½, independently.
    ///
    /// # Errors
    /// If a field is out of its range, a position is outside the grid, or two rocks share one.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { size, ref rocks, start, half_efficiency_distance: d0, good, bad, exit, gamma } = *self;
        count("the number of rocks", u32::try_from(rocks.len()).unwrap_or(u32::MAX), 0, 24)?;
        inside("the start", start, size, size)?;
        for (i, &rock) in rocks.iter().enumerate() {
            inside("the rock", rock, size, size)?;
            if rocks[..i].contains(&rock) {
                return Err(Error::Twice { x: rock.0, y: rock.1 });
            }
        }

        let (kinds, cells) = (1_u32 << rocks.len(), size * size);
        let states = cells.checked_mul(kinds).and_then(|states| states.checked_add(1));
        let states = states.ok_or(warpkov_common::parameters::Error::States)?;
        let sizes = Sizes { states, actions: 5 + rocks.len() as u32, observations: 2 };
        let gone = states - 1;
        let rock_at: Vec<Option<u32>> = (0..cells)
            .map(|cell| rocks.iter().position(|&(x, y)| y * size + x == cell).map(|rock| 1 << rock))
            .collect();
        let next = |s: u32, a: u32| {
            let (cell, kind) = (s / kinds, s % kinds);
            let (x, y) = (cell % size, cell / size);
            let (cell, kind) = match a {
                _ if s == gone => return gone,
                0 => (if y + 1 < size { cell + size } else { cell }, kind),
                1 => (if y > 0 { cell - size } else { cell }, kind),
                2 if x + 1 == size => return gone,
                2 => (cell + 1, kind),
                3 => (if x > 0 { cell - 1 } else { cell }, kind),
                4 => (cell, kind & !rock_at[cell as usize].unwrap_or(0)),
                _ => (cell, kind),
            };
            cell * kinds + kind
        };
        let reward = |s: u32, a: u32| match a {
            _ if s == gone => 0.0,
            2 if s / kinds % size + 1 == size => exit,
            4 => match rock_at[(s / kinds) as usize] {
                Some(rock) if (s % kinds) & rock != 0 => good,
                Some(_) => bad,
                None => 0.0,
            },
            _ => 0.0,
        };
        let shown = |a: u32, s: u32| {
            let Some(rock) = a.checked_sub(5).filter(|_| s != gone) else { return [(0, 0.0), (1, 1.0)] };
            let (x, y) = rocks[rock as usize];
            let cell = s / kinds;
            let (dx, dy) = (x.abs_diff(cell % size), y.abs_diff(cell / size));
            let distance = f64::from(dx * dx + dy * dy).sqrt();
            let correct = f64::midpoint(1.0, libm::exp2(-distance / d0));
            let truth = u32::from((s % kinds) & (1 << rock) == 0);
            [(truth, correct), (1 - truth, 1.0 - correct)]
        };
        let matrices = Matrices {
            transitions: sizes.transitions(|s, a| [(next(s, a), 1.0)])?,
            observations: sizes.observations(shown)?,
            action_rewards: sizes.rewards(reward),
            ..Matrices::default()
        };
        let first = (start.1 * size + start.0) * kinds;
        let checks = (0..rocks.len()).map(|rock| format!("check{rock}"));
        let actions = names(["north", "south", "east", "west", "sample"]).into_iter().chain(checks).collect();
        let names = Names { states: Vec::new(), actions, observations: names(["good", "bad"]) };
        sizes.model(gamma, matrices, Belief::uniform((first..first + kinds).collect()), names)
    }
}
