//! JSON: an object with the keys of an MDP, and those of its observations. `schema.json` says the same for programs.
//!
//! | key | value |
//! | --- | --- |
//! | `S`, `A`, `O` | numbers of states, actions and observations; each optional where `names` lists them, or a table has that index |
//! | `gamma` | γ |
//! | `P` | T as a sparse matrix: row s·A + a, with S columns, is T(s, a, ·) |
//! | `P[a][s][s']`, `P[s][a][s']` | instead of `P`: T as a table with these indices |
//! | `Z` | O as a sparse matrix: row a·S + s', with O columns, is O(a, s', ·) |
//! | `Z[a][s'][o]`, `Z[s'][a][o]`, `Z[s'][o]` | instead of `Z`: O as a table with these indices |
//! | `R` | optional: rewards R(s, a, s') as a matrix of the shape of `P` |
//! | `action_rewards` | optional: one reward per row of `P` |
//! | `R[s]`, `R[s][a]`, `R[a][s]`, `R[a][s][s']`, `R[s][a][s']` | instead of both: rewards as a table |
//! | `objective` | optional: `"minimize"` |
//! | `format`, `labels`, `grid` | optional: as for an MDP; `format` is `"CSR"` |
//! | `start` | optional: an object of ascending `states` and their `probs`; uniform by default |
//! | `start[s]` | instead of `start`: a table with the probability of each state |
//! | `seen` | optional: the fully observed component of each state, known from the start |
//! | `names` | optional: an object of `states`, `actions` and `observations`, each an array of names or empty |
//!
//! A sparse matrix is an object of `indptr`, `indices` and `data`. A table consists of nested arrays, or of nested
//! objects with names as keys; their absent entries are 0. Keys may have any order. Unknown keys are errors, except
//! `comment`, `$schema` and those that begin with `_`.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use serde::de::{Error as _, MapAccess};

use super::Error;
use crate::belief::Belief;
use crate::model::{Invalid, Names, Pomdp, PomdpParts};
use warpkov_common::io::invalid;
use warpkov_common::io::json::{Array, Axis, Fields, Number, Object, Path, Table, Tabular, field, parse};
use warpkov_mdp::io::json::{self, Matrix};
use warpkov_mdp::model::{Choices, Csr, InvalidCsr, MdpParts};

/// Reads a model without validation.
pub fn read(reader: impl Read, file: String) -> Result<PomdpParts, Error> {
    let model: Model = parse(reader, file.clone())?;
    PomdpParts::try_from(model).map_err(invalid(file))
}

impl TryFrom<Model> for PomdpParts {
    type Error = Invalid;

    fn try_from(model: Model) -> Result<Self, Invalid> {
        let Model { keys, process, observation_count, observations, tables, start, seen, names } = model;
        let mut process = MdpParts::try_from(process)?;
        let Choices::Uniform(actions) = process.choices else { return Err(Invalid::Choices) };
        // The keys of sizes come first, then lists of names, then the shapes of tables.
        let size = |key: &str, given: u32, names: &[String], index: &str| match names.len() {
            _ if keys.contains(key) => given as usize,
            0 => tables.iter().find_map(|(key, table)| length(key, table, index)).unwrap_or_default(),
            count => count,
        };
        let by_next = size("S", process.states, &names.states, "s'");
        let sizes = Sizes {
            states: size("S", process.states, &names.states, "s").max(by_next),
            actions: size("A", actions, &names.actions, "a"),
            observations: size("O", observation_count, &names.observations, "o"),
            names: &names,
        };
        let small = |length: usize| u32::try_from(length).map_err(|_| Invalid::Table("too many entries".to_owned()));
        (process.states, process.choices) = (small(sizes.states)?, Choices::Uniform(small(sizes.actions)?));
        let observation_count = small(sizes.observations)?;
        let (mut observations, mut start) = (Csr::try_from(observations)?, start);
        let mut dense = Vec::new();
        for (key, table) in tables {
            dense.push((key, table.dense(key, &sizes.axes(key)).map_err(Invalid::Table)?.numbers));
        }
        let Sizes { states, actions, observations: width, .. } = sizes;
        let by_state = || (0..states).flat_map(|s| (0..actions).map(move |a| (s, a)));
        let by_action = || (0..actions).flat_map(|a| (0..states).map(move |next| (a, next)));
        if let Some((key, numbers)) = dense.iter().find(|(key, _)| key.starts_with('P')) {
            let at = sizes.reader(key, numbers);
            process.transitions = sparse(by_state(), states, |(s, a), next| at([s, a, next, 0]))?;
        }
        // Without a row of T for each state and action, the model is invalid, and its sizes say nothing about memory.
        let complete = states.checked_mul(actions) == Some(process.transitions.rows());
        for (key, numbers) in dense.iter().filter(|_| complete) {
            let at = sizes.reader(key, numbers);
            match (&key[..1], key.contains("[s']")) {
                ("Z", _) => observations = sparse(by_action(), width, |(a, next), o| at([0, a, next, o]))?,
                ("R", true) => process.rewards = sparse(by_state(), states, |(s, a), next| at([s, a, next, 0]))?,
                ("R", false) => {
                    process.action_rewards = by_state().map(|(s, a)| at([s, a, 0, 0])).collect::<Vec<_>>().into();
                }
                ("s", _) => {
                    let belief = Belief::dense(numbers).map_err(|error| Invalid::Start(error.to_string()))?;
                    start = Some(belief);
                }
                _ => {}
            }
        }
        // The minimum limits memory for an invalid model.
        let rows = process.transitions.rows() as u32;
        let start = start.unwrap_or_else(|| Belief::uniform((0..process.states.min(rows)).collect()));
        Ok(Self { process, observation_count, observations, start, seen, names })
    }
}

/// The sparse matrix with a row for each of `rows`, without zeros.
fn sparse<R: Copy>(
    rows: impl Iterator<Item = R>,
    columns: usize,
    entry: impl Fn(R, usize) -> f64,
) -> Result<Csr, InvalidCsr> {
    let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        for column in 0..columns {
            let value = entry(row, column);
            if value != 0.0 {
                col.push(column as u32);
                val.push(value);
            }
        }
        row_ptr.push(col.len() as u64);
    }
    Csr::new(row_ptr, col, val)
}

/// The indices that the key of a table names: `a`, `s'` and `o` of `Z[a][s'][o]`.
fn indices(key: &str) -> impl Iterator<Item = &str> {
    key.split('[').skip(1).map(|index| index.trim_end_matches(']'))
}

/// The length of the index of a table that its key calls `index`.
fn length(key: &str, table: &Table, index: &str) -> Option<usize> {
    let Table::Dense(dense) = table else { return None };
    dense.shape.get(indices(key).position(|found| found == index)?).copied()
}

/// The lengths and the names of a model's indices.
struct Sizes<'n> {
    states: usize,
    actions: usize,
    observations: usize,
    names: &'n Names,
}

impl<'n> Sizes<'n> {
    /// The indices of a table.
    fn axes(&self, key: &str) -> Vec<Axis<'n>> {
        let axis = |kind, names: &'n [String], length| Axis { kind, names, length: Some(length) };
        let named = |index: &str| match index {
            "s" => axis("state", &self.names.states, self.states),
            "a" => axis("action", &self.names.actions, self.actions),
            "s'" => axis("next state", &self.names.states, self.states),
            _ => axis("observation", &self.names.observations, self.observations),
        };
        indices(key).map(named).collect()
    }

    /// The entry of a table at [s, a, s', o]. Indices that the table does not have do not count.
    fn reader<'t>(&self, key: &str, numbers: &'t [f64]) -> impl Fn([usize; 4]) -> f64 + 't {
        let (mut strides, mut stride) = ([0; 4], 1);
        for index in indices(key).collect::<Vec<_>>().into_iter().rev() {
            let (at, length) = match index {
                "s" => (0, self.states),
                "a" => (1, self.actions),
                "s'" => (2, self.states),
                _ => (3, self.observations),
            };
            strides[at] = stride;
            stride *= length;
        }
        move |place| numbers[place.iter().zip(strides).map(|(index, stride)| index * stride).sum::<usize>()]
    }
}

/// The keys of tables, each with the order of its indices.
const TABLES: [&str; 11] = [
    "P[a][s][s']",
    "P[s][a][s']",
    "Z[a][s'][o]",
    "Z[s'][a][o]",
    "Z[s'][o]",
    "R[s]",
    "R[s][a]",
    "R[a][s]",
    "R[a][s][s']",
    "R[s][a][s']",
    "start[s]",
];

#[derive(Default)]
struct Model {
    /// The keys that the object has.
    keys: BTreeSet<String>,
    process: json::Model,
    observation_count: u32,
    observations: Matrix,
    tables: Vec<(&'static str, Table)>,
    start: Option<Belief>,
    seen: Vec<u32>,
    names: Names,
}

impl Fields for Model {
    const KEYS: &'static [&'static str] = &[
        "gamma",
        "P",
        TABLES[0],
        TABLES[1],
        "Z",
        TABLES[2],
        TABLES[3],
        TABLES[4],
        "R",
        "action_rewards",
        TABLES[5],
        TABLES[6],
        TABLES[7],
        TABLES[8],
        TABLES[9],
        "S",
        "A",
        "O",
        "names",
        "start",
        TABLES[10],
        "seen",
        "objective",
        "labels",
        "format",
        "grid",
    ];
    const REQUIRED: usize = 1;
    const ONE_OF: &'static [&'static [&'static str]] =
        &[&["P", TABLES[0], TABLES[1]], &["Z", TABLES[2], TABLES[3], TABLES[4]]];

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        self.keys.insert(key.to_owned());
        match key {
            "O" => self.observation_count = map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?,
            "Z" => self.observations = map.next_value_seed(Object::at(path))?,
            "start" => {
                let Start { states, probs } = map.next_value_seed(Object::at(path))?;
                self.start = Some(Belief::new(states, probs).map_err(|error| A::Error::custom(format!("it {error}")))?);
            }
            "seen" => self.seen = map.next_value_seed(Array::at(path, "the observed component of a state"))?,
            "names" => self.names = map.next_value_seed(Object::at(path))?,
            key => match TABLES.into_iter().find(|table| *table == key) {
                Some(table) => {
                    let expected = if table.starts_with('R') { "a number" } else { "a probability" };
                    self.tables.push((table, map.next_value_seed(Tabular::at(path, expected))?));
                }
                None => self.process.read(key, map, path)?,
            },
        }
        Ok(())
    }

    fn complete(&self) -> Result<(), &'static str> {
        let (has, names) = (|key: &str| self.keys.contains(key), &self.names);
        let sizes = |index: &str| self.tables.iter().any(|(key, table)| length(key, table, index).is_some());
        let rewards = self.tables.iter().filter(|(key, _)| key.starts_with('R')).count();
        match () {
            () if !has("S") && names.states.is_empty() && !sizes("s") && !sizes("s'") => {
                Err("key \"S\" is missing (or names.states)")
            }
            () if !has("A") && names.actions.is_empty() && !sizes("a") => {
                Err("key \"A\" is missing (or names.actions)")
            }
            () if !has("O") && names.observations.is_empty() && !sizes("o") => {
                Err("key \"O\" is missing (or names.observations)")
            }
            () if rewards > 1 => Err("found two tables of rewards, expected one"),
            () if rewards > 0 && (has("R") || has("action_rewards")) => {
                Err("found a table of rewards, and \"R\" or \"action_rewards\", expected one of them")
            }
            () if has("start") && has("start[s]") => Err("found both \"start\" and \"start[s]\", expected one of them"),
            () => Ok(()),
        }
    }
}

#[derive(Default)]
struct Start {
    states: Vec<u32>,
    probs: Vec<f64>,
}

impl Fields for Start {
    const KEYS: &'static [&'static str] = &["states", "probs"];
    const REQUIRED: usize = 2;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "states" => self.states = map.next_value_seed(Array::at(path, "a state"))?,
            _ => self.probs = map.next_value_seed(Array::at(path, "a probability"))?,
        }
        Ok(())
    }
}

impl Fields for Names {
    const KEYS: &'static [&'static str] = &["states", "actions", "observations"];
    const REQUIRED: usize = 0;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, _: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "states" => self.states = map.next_value()?,
            "actions" => self.actions = map.next_value()?,
            _ => self.observations = map.next_value()?,
        }
        Ok(())
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, model: &Pomdp) -> io::Result<()> {
    json::open(out, model.process())?;
    field(out, "O", &model.observation_count())?;
    json::matrix(out, "Z", model.observations())?;
    write!(out, ",\n\"start\":{{\"states\":")?;
    serde_json::to_writer(&mut *out, model.start().states())?;
    field(out, "probs", model.start().probs())?;
    write!(out, "}}")?;
    if !model.seen().is_empty() {
        field(out, "seen", model.seen())?;
    }
    if *model.names() != Names::default() {
        field(out, "names", model.names())?;
    }
    writeln!(out, "}}")
}
