//! Mazes for a robot that turns and looks for walls: Littman, Cassandra and Kaelbling, *Learning policies for partially
//! observable environments: scaling up*, ICML (1995), of whose problem "hallway" these are the kind.

use super::{Error, Matrices, Sizes, names};
use crate::mdp::generate::{below, cells, discount, finite, fraction, matrix, random};
use crate::pomdp::belief::Belief;
use crate::pomdp::model::{Names, Pomdp};

/// A robot with an orientation that knows the maze but not where in it it is.
///
/// State 4 · cell + orientation, cells numbered row after row from above, orientations north, east, south, west. Actions:
/// stay, forward, right, left, around. With probability `moves` they do what they say, and else: forward leaves the robot
/// where it is with half of the rest and turns it right or left with a quarter each; a turn to the right or left is not
/// made or goes all the way around; a turn around ends half the way, on either side. Against a wall it stays.
///
/// Observations: f + 2r + 4b + 8l, where each of front, right, back and left is 1 where a wall is seen (with probability
/// `sees_wall` where there is one, 1 − `sees_opening` where there is none); 16 in a goal; 17 and above the map's marks, in
/// the order of their digits. Goals and marks are seen surely and from all sides. To come into a goal earns `reward`, and
/// whatever is done there leads to the start: all that is no goal, with any orientation.
#[derive(Clone, Debug, PartialEq)]
pub struct Maze {
    /// Where walls, goals and marks are.
    pub map: Map,
    /// The probability that an action does what it says, in [0, 1].
    pub moves: f64,
    /// The probability that a wall is seen, in [0, 1].
    pub sees_wall: f64,
    /// The probability that no wall is seen where there is none, in [0, 1].
    pub sees_opening: f64,
    /// What coming into a goal earns; finite.
    pub reward: f64,
    /// γ, in [0, 1).
    pub gamma: f64,
}

/// A corridor of eleven cells with four niches, of which three are marked and one is the goal: 60 states.
impl Default for Maze {
    fn default() -> Self {
        let map = Map { width: 13, cells: "##############...........####1#2#3#G################".chars().collect() };
        Self { map, moves: 0.8, sees_wall: 0.9, sees_opening: 0.95, reward: 1.0, gamma: 0.95 }
    }
}

/// A map: `#` is a wall, as is all around it, `.` is free, `G` a goal, and `1` to `9` are marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    width: usize,
    cells: Vec<char>,
}

impl std::str::FromStr for Map {
    type Err = Error;

    /// Lines of a text; shorter ones end in walls, and spaces are walls.
    fn from_str(text: &str) -> Result<Self, Error> {
        let lines: Vec<&str> = text.lines().collect();
        let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let mut cells = Vec::with_capacity(width * lines.len());
        for (number, line) in lines.iter().enumerate() {
            for (column, found) in line.chars().enumerate() {
                cells.push(match found {
                    ' ' => '#',
                    '#' | '.' | 'G' | '1'..='9' => found,
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
    /// A random maze without circles: `width` × `height` rooms with walls or passages between them, as a walk from the
    /// first room leaves it that goes to a random neighbour not yet seen, and back where there is none. The goal is the
    /// last room. Equal seeds give equal mazes.
    ///
    /// # Errors
    /// Where there are no rooms, or more than a million.
    pub fn random(width: u32, height: u32, seed: u64) -> Result<Self, Error> {
        let rooms = cells(width, height)?;
        crate::mdp::generate::count("the number of rooms", rooms, 2, 1_000_000)?;
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

    /// The cell beside, if the robot can go there.
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
    /// Makes the model.
    ///
    /// # Errors
    /// If a field is out of its range, or the map has no goal or no other cell.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        let Self { ref map, moves, sees_wall, sees_opening, reward, gamma } = *self;
        fraction("moves", moves)?;
        fraction("sees_wall", sees_wall)?;
        fraction("sees_opening", sees_opening)?;
        finite("reward", reward)?;
        discount(gamma)?;
        let places: Vec<usize> = (0..map.cells.len()).filter(|&place| map.cells[place] != '#').collect();
        let goals = places.iter().filter(|&&place| map.cells[place] == 'G').count();
        if goals == 0 || goals == places.len() {
            return Err(Error::Map { goals, free: places.len() - goals });
        }
        let mut marks: Vec<char> = map.cells.iter().copied().filter(char::is_ascii_digit).collect();
        marks.sort_unstable();
        marks.dedup();
        let states = u32::try_from(4 * places.len()).map_err(|_| crate::mdp::generate::Error::States)?;
        let sizes = Sizes { states, actions: 5, observations: 17 + marks.len() as u32 };
        let mut numbers = vec![0; map.cells.len()];
        for (number, &place) in (0..).zip(&places) {
            numbers[place] = number;
        }
        let kind = |s: u32| map.cells[places[(s / 4) as usize]];
        let start = Belief::uniform((0..states).filter(|&s| kind(s) != 'G').collect());

        let turned = |s: u32, by: u32| s / 4 * 4 + (s + by) % 4;
        let ahead = |s: u32| map.beside(places[(s / 4) as usize], s % 4).map_or(s, |to| 4 * numbers[to] + s % 4);
        let rest = 1.0 - moves;
        let transitions = sizes.transitions(|s, a| {
            if kind(s) == 'G' {
                return start.iter().collect();
            }
            let [right, around, left] = [1, 2, 3].map(|by| turned(s, by));
            match a {
                0 => vec![(s, 1.0)],
                1 => vec![(ahead(s), moves), (s, rest / 2.0), (right, rest / 4.0), (left, rest / 4.0)],
                2 => vec![(right, moves), (s, rest / 2.0), (around, rest / 2.0)],
                3 => vec![(left, moves), (s, rest / 2.0), (around, rest / 2.0)],
                _ => vec![(around, moves), (right, rest / 2.0), (left, rest / 2.0)],
            }
        })?;
        let observations = sizes.observations(|_, s| match kind(s) {
            'G' => vec![(16, 1.0)],
            '.' => {
                let wall = [0, 1, 2, 3].map(|by| map.beside(places[(s / 4) as usize], (s + by) % 4).is_none());
                let seen = wall.map(|wall| if wall { sees_wall } else { 1.0 - sees_opening });
                let chance = |bits: u32| {
                    seen.iter().zip(0..4).map(|(p, side)| if bits >> side & 1 == 1 { *p } else { 1.0 - p }).product()
                };
                (0..16).map(|bits| (bits, chance(bits))).collect()
            }
            mark => vec![(17 + marks.partition_point(|&known| known < mark) as u32, 1.0)],
        })?;
        // Whoever is in a goal leaves it, so that each of its entries is one that comes into it.
        let entered = |row: usize| {
            let successors = transitions.row(row).0.iter().copied();
            successors.filter(|&next| reward != 0.0 && kind(next) == 'G').map(move |next| (next, reward))
        };
        let rewards = matrix(transitions.rows(), entered)?;
        let matrices = Matrices { transitions: transitions.clone(), observations, rewards, ..Matrices::default() };
        let walls = (0..16).map(|bits: u32| {
            let sides = ["front", "right", "back", "left"].into_iter().zip(0..4);
            let seen: Vec<_> = sides.filter(|(_, side)| bits >> side & 1 == 1).map(|(name, _)| name).collect();
            if seen.is_empty() { "open".to_owned() } else { seen.join("-") }
        });
        let seen = walls.chain(["goal".to_owned()]).chain(marks.iter().map(|mark| format!("mark{mark}"))).collect();
        let actions = names(["stay", "forward", "right", "left", "around"]);
        sizes.model(gamma, matrices, start.clone(), Names { states: Vec::new(), actions, observations: seen })
    }
}
