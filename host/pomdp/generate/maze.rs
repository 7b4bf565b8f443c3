//! Mazes for a robot with wall sensors: Littman, Cassandra and Kaelbling, *Learning policies for partially observable
//! environments: scaling up*, ICML (1995), with three of their mazes.

use super::{Error, Matrices, Sizes, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{BELOW_ONE, FINITE, FRACTION, Parameters as _, cells, parameters};
use warpkov_common::random::{below, random};
use warpkov_mdp::generate::matrix;

parameters! {
    /// A robot with an orientation that knows the map, but not its own position.
    ///
    /// State 4 · cell + orientation; cells are numbered in row-major order from the top, orientations are north, east,
    /// south, west. Actions: stay, forward, right, around, left.
    ///
    /// - Forward succeeds with probability `forward`. The rest is split evenly among a step right, a step left, a step
    ///   back, and no step. A step to a side also turns the robot to that side; a step back turns it around in one of two
    ///   cases. A step into a wall stays.
    /// - Right and left succeed with probability `turn`. The rest is split evenly among the other three orientations.
    /// - Around succeeds with probability `around`. Of the rest, one quarter is no turn, and right and left share the other
    ///   three.
    ///
    /// Observations: first 8f + 4r + 2b + l, where front, right, back and left are 1 if the robot sees a wall there: with
    /// probability `sees_wall` if there is one, and 1 − `sees_opening` if not. Then the marks of the map in the order of
    /// their digits: a robot that looks south on a mark observes exactly this mark. Last the goal, which is observed
    /// exactly there. Entering a goal yields `goal`, and every action in a goal leads back to the start. Every step that
    /// ends at a tiger yields `tiger`.
    ///
    /// The default is [`hallway`](Maze::hallway).
    #[derive(Clone, Debug, PartialEq)]
    pub struct Maze {
        /// The map.
        pub map: Map = Map::hallway();
        /// Probability that a step succeeds, in [0, 1].
        pub forward: f64 = 0.8, "P" in FRACTION;
        /// Probability that a quarter turn succeeds, in [0, 1].
        pub turn: f64 = 0.7, "P" in FRACTION;
        /// Probability that a half turn succeeds, in [0, 1].
        pub around: f64 = 0.6, "P" in FRACTION;
        /// Probability of seeing an existing wall, in [0, 1].
        pub sees_wall: f64 = 0.9, "P" in FRACTION;
        /// Probability of seeing that there is no wall, in [0, 1].
        pub sees_opening: f64 = 0.95, "P" in FRACTION;
        /// Reward of entering a goal; finite.
        pub goal: f64 = 1.0, "R" in FINITE;
        /// Reward of a step that ends at a tiger; finite.
        pub tiger: f64 = -1.0, "R" in FINITE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.95, "G" in BELOW_ONE;
    }
}

/// The mazes of the source.
impl Maze {
    /// A corridor with four niches, the last of which is the goal, and a mark in front of each: 60 states, 21
    /// observations.
    #[must_use]
    pub fn hallway() -> Self {
        Self::default()
    }

    /// A block of similar corridors: 92 states, 17 observations.
    #[must_use]
    pub fn hallway2() -> Self {
        Self::known(7, "#.....#..#.#..#.#.#.#..#.#.G#.....#")
    }

    /// Two rooms that differ in the positions of goal and tiger. The robot starts in either: 36 states, 17
    /// observations.
    #[must_use]
    pub fn tiger_grid() -> Self {
        Self::known(5, "T.G.T.^#^.")
    }

    fn known(width: usize, cells: &str) -> Self {
        Self { map: Map::known(width, cells), ..Self::default() }
    }
}

/// A map of characters: `#` wall (also all around the map), `.` free cell, `G` goal, `T` tiger, `1` to `9` marks that a
/// robot sees when it looks south. `^`, `>`, `v` and `<` are start cells with their orientation; without any, the robot
/// starts in every cell except goals, in every orientation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    width: usize,
    cells: Vec<char>,
}

/// Characters of the orientations.
const ORIENTATIONS: [char; 4] = ['^', '>', 'v', '<'];

impl std::str::FromStr for Map {
    type Err = Error;

    /// Reads the lines of a text. Shorter lines are padded with walls, and spaces are walls.
    fn from_str(text: &str) -> Result<Self, Error> {
        let lines: Vec<&str> = text.lines().collect();
        let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let mut cells = Vec::with_capacity(width * lines.len());
        for (number, line) in lines.iter().enumerate() {
            for (column, found) in line.chars().enumerate() {
                cells.push(match found {
                    ' ' => '#',
                    '#' | '.' | 'G' | 'T' | '1'..='9' | '^' | '>' | 'v' | '<' => found,
                    _ => return Err(Error::Cell { line: number + 1, column: column + 1, found }),
                });
            }
            cells.resize((number + 1) * width, '#');
        }
        Ok(Self { width, cells })
    }
}

impl std::fmt::Display for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in self.cells.chunks(self.width.max(1)) {
            writeln!(f, "{}", line.iter().collect::<String>())?;
        }
        Ok(())
    }
}

impl Map {
    fn known(width: usize, cells: &str) -> Self {
        Self { width, cells: cells.chars().collect() }
    }

    /// The map of [`Maze::hallway`].
    fn hallway() -> Self {
        Self::known(11, "..1.2.3.4..##.#.#.#G##")
    }

    /// A random maze without cycles: `width` × `height` rooms with walls or passages between them, from a randomised
    /// depth-first search that starts in the first room. The goal is the last room. Equal seeds give equal mazes.
    ///
    /// # Errors
    /// If there are no rooms, or more than a million.
    pub fn random(width: u32, height: u32, seed: u64) -> Result<Self, Error> {
        let rooms = cells(width, height)?;
        warpkov_common::parameters::count("the number of rooms", rooms, 2, 1_000_000)?;
        let (columns, rows) = (2 * width as usize - 1, 2 * height as usize - 1);
        let mut map = Self { width: columns, cells: vec!['#'; columns * rows] };
        let mut random = random(seed, 0);
        let mut path = vec![(0_usize, 0_usize)];
        map.cells[0] = '.';
        while let Some(&(x, y)) = path.last() {
            let around = [(x, y.wrapping_sub(2)), (x + 2, y), (x, y + 2), (x.wrapping_sub(2), y)];
            let unseen = |&(x, y): &(usize, usize)| x < columns && y < rows && map.cells[y * columns + x] == '#';
            let unseen: Vec<_> = around.into_iter().filter(unseen).collect();
            if unseen.is_empty() {
                path.pop();
                continue;
            }
            let (to_x, to_y) = unseen[below(&mut random, unseen.len() as u64) as usize];
            map.cells[to_y * columns + to_x] = '.';
            map.cells[usize::midpoint(y, to_y) * columns + usize::midpoint(x, to_x)] = '.';
            path.push((to_x, to_y));
        }
        map.cells[columns * rows - 1] = 'G';
        Ok(map)
    }

    /// The adjacent cell in this direction, unless it is a wall.
    fn beside(&self, place: usize, orientation: u32) -> Option<usize> {
        let (x, y) = (place % self.width, place / self.width);
        let beside = match orientation {
            0 => place.checked_sub(self.width),
            1 => (x + 1 < self.width).then_some(place + 1),
            2 => ((y + 1) * self.width < self.cells.len()).then_some(place + self.width),
            _ => (x > 0).then(|| place - 1),
        };
        beside.filter(|&place| self.cells[place] != '#')
    }
}

impl Maze {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range, or if the map has no goal or no other cell.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { ref map, forward, turn, around, sees_wall, sees_opening, goal, tiger, gamma } = *self;
        let places: Vec<usize> = (0..map.cells.len()).filter(|&place| map.cells[place] != '#').collect();
        let goals = places.iter().filter(|&&place| map.cells[place] == 'G').count();
        if goals == 0 || goals == places.len() {
            return Err(Error::Map { goals, free: places.len() - goals });
        }
        let mut marks: Vec<char> = map.cells.iter().copied().filter(char::is_ascii_digit).collect();
        marks.sort_unstable();
        marks.dedup();
        let states = u32::try_from(4 * places.len()).map_err(|_| warpkov_common::parameters::Error::States)?;
        let sizes = Sizes { states, actions: 5, observations: 17 + marks.len() as u32 };
        let mut numbers = vec![0; map.cells.len()];
        for (number, &place) in (0..).zip(&places) {
            numbers[place] = number;
        }
        let kind = |s: u32| map.cells[places[(s / 4) as usize]];
        let given = (0..states).filter(|&s| ORIENTATIONS[(s % 4) as usize] == kind(s));
        let given = Some(given.collect::<Vec<_>>()).filter(|given| !given.is_empty());
        let start = Belief::uniform(given.unwrap_or_else(|| (0..states).filter(|&s| kind(s) != 'G').collect()));

        let turned = |s: u32, by: u32| s / 4 * 4 + (s + by) % 4;
        // The state after a step to a side, which also turns the robot; `None` if there is a wall.
        let step = |s: u32, by: u32| {
            let to = map.beside(places[(s / 4) as usize], (s + by) % 4)?;
            Some(4 * numbers[to] + (s + by) % 4)
        };
        let transitions = sizes.transitions(|s, a| {
            if kind(s) == 'G' {
                return start.iter().collect();
            }
            let quarter = (1.0 - forward) / 4.0;
            match a {
                0 => vec![(s, 1.0)],
                1 => {
                    let side = |by: u32, chance: f64| (step(s, by).unwrap_or(s), chance);
                    let back = step(s, 2);
                    let facing = [back.unwrap_or(s), back.map_or(s, |to| turned(to, 2))].map(|to| (to, quarter / 2.0));
                    [side(0, forward), side(1, quarter), side(3, quarter), (s, quarter)]
                        .into_iter()
                        .chain(facing)
                        .collect()
                }
                2 | 4 => {
                    let ends = |by: u32| if by == a - 1 { turn } else { (1.0 - turn) / 3.0 };
                    (0..4).map(|by| (turned(s, by), ends(by))).collect()
                }
                _ => {
                    let side = (1.0 - around) * 3.0 / 8.0;
                    let ends = [(1.0 - around) / 4.0, side, around, side];
                    (0..).zip(ends).map(|(by, chance)| (turned(s, by), chance)).collect()
                }
            }
        })?;
        let observations = sizes.observations(|_, s| {
            let place = kind(s);
            if place == 'G' {
                return vec![(16 + marks.len() as u32, 1.0)];
            }
            if place.is_ascii_digit() && s % 4 == 2 {
                return vec![(16 + marks.partition_point(|&known| known < place) as u32, 1.0)];
            }
            let seen = [0, 1, 2, 3].map(|by| if step(s, by).is_none() { sees_wall } else { 1.0 - sees_opening });
            let chance = |bits: u32| {
                seen.iter().zip(0..4).map(|(p, side)| if bits << side & 8 == 8 { *p } else { 1.0 - p }).product()
            };
            (0..16).map(|bits| (bits, chance(bits))).collect()
        })?;
        // Every action in a goal leaves it, so each transition to a goal enters it.
        let earned = |row: usize| {
            let earns = |next: u32| match kind(next) {
                'G' => goal,
                'T' => tiger,
                _ => 0.0,
            };
            let earned = transitions.row(row).0.iter().map(move |&next| (next, earns(next)));
            earned.filter(|&(_, reward)| reward != 0.0)
        };
        let rewards = matrix(transitions.rows(), earned)?;
        let matrices = Matrices { transitions: transitions.clone(), observations, rewards, ..Matrices::default() };
        let walls = (0..16).map(|bits: u32| {
            let sides = ["front", "right", "back", "left"].into_iter().zip(0..4);
            let seen: Vec<_> = sides.filter(|(_, side)| bits << side & 8 == 8).map(|(name, _)| name).collect();
            if seen.is_empty() { "open".to_owned() } else { seen.join("-") }
        });
        let seen = walls.chain(marks.iter().map(|mark| format!("mark{mark}"))).chain(["goal".to_owned()]).collect();
        let actions = names(["stay", "forward", "right", "around", "left"]);
        sizes.model(gamma, matrices, start.clone(), Names { states: Vec::new(), actions, observations: seen })
    }
}
