//! JSON: an object with the keys of an MDP, and those of its observations. `schema.json` says the same for programs.
//!
//! | key | value |
//! | --- | --- |
//! | `S`, `A`, `O` | numbers of states, actions and observations; each optional where `names` lists them, or a table has that index |
//! | `gamma`, or `discount` | γ |
//! | `P` | T as a sparse matrix: row s·A + a, with S columns, is T(s, a, ·) |
//! | `P[a][s][s']`, `P[s][a][s']` | instead of `P`: T as a table with these indices |
//! | `transitions` | instead of `P`: a list of outcomes with their rewards, as for an MDP |
//! | `Z` | O as a sparse matrix: row a·S + s', with O columns, is O(a, s', ·) |
//! | `Z[a][s'][o]`, `Z[s'][a][o]`, `Z[s'][o]` | instead of `Z`: O as a table with these indices; also as `O[a][s'][o]` and so on |
//! | `R` | optional: rewards R(s, a, s') as a matrix of the shape of `P` |
//! | `action_rewards` | optional: one reward per row of `P` |
//! | `R[s]`, `R[s][a]`, `R[a][s]`, `R[a][s][s']`, `R[s][a][s']` | instead of both: rewards as a table |
//! | `R[a][s][s'][o]`, `R[s][a][s'][o]` | the same, with rewards of observations, of which the model keeps the expectation |
//! | `objective` | optional: `"minimize"` |
//! | `format`, `labels`, `grid` | optional: as for an MDP; `format` is `"CSR"` |
//! | `start` | optional: a state, or an object of `states`, by ascending numbers or by names, and their `probs`; uniform by default |
//! | `start[s]` | instead of `start`: a table with the probability of each state |
//! | `seen` | optional: the fully observed component of each state, known from the start |
//! | `names` | optional: an object of `states`, `actions` and `observations`, each an array of names or empty |
//! | `state_names`, `action_names`, `observation_names` | instead of `names`: an array of names |
//!
//! A sparse matrix is an object of `indptr`, `indices` and `data`. A table consists of nested arrays, or of nested
//! objects with names as keys; their absent entries are 0. Keys may have any order. Unknown keys are errors, except
//! `comment`, `$schema` and those that begin with `_`.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, Read, Write};

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};

use super::Error;
use crate::belief::{self, Belief};
use crate::model::{Invalid, Names, Pomdp, PomdpParts};
use warpkov_common::io::invalid;
use warpkov_common::io::json::{
    Array, Axis, Fields, ItemArray, Items, Listed, Number, Object, Path, Table, Tabular, field, nearest, parse,
};
use warpkov_common::names::name;
use warpkov_common::terminal::quoted;
use warpkov_mdp::io::json::{self, BESIDE_LIST, LIST, Matrix};
use warpkov_mdp::model::{ActionNames, Choices, Csr, InvalidCsr, MdpParts};

/// Reads a model without validation.
pub fn read(reader: impl Read, file: String) -> Result<PomdpParts, Error> {
    let model: Model = parse(reader, file.clone())?;
    PomdpParts::try_from(model).map_err(invalid(file))
}

impl TryFrom<Model> for PomdpParts {
    type Error = Invalid;

    fn try_from(model: Model) -> Result<Self, Invalid> {
        let Model { keys, mut process, observation_count, observations, tables, start, seen, mut names } = model;
        let is_list = process.is_list();
        if is_list {
            process.set_names(&names.states, &names.actions);
        }
        let mut process = MdpParts::try_from(process)?;
        let Choices::Uniform(actions) = process.choices else { return Err(Invalid::Choices) };
        if is_list {
            names_of_list(&mut process, actions, &mut names)?;
        }
        // The keys of sizes come first, then lists of names, then the shapes of tables.
        let size = |key: &str, given: u32, names: &[String], index: &str| match names.len() {
            _ if keys.contains(key) => given as usize,
            0 if is_list && index != "o" => given as usize,
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
        let mut observations = Csr::try_from(observations)?;
        let mut start = match start {
            Some(Start::Belief(belief)) => Some(belief),
            Some(Start::Named(named, probs)) => Some(named_start(&named, &probs, &names.states, process.states)?),
            None => None,
        };
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
        if let Some((key, numbers)) = dense.iter().find(|(key, _)| complete && key.starts_with(['Z', 'O'])) {
            let at = sizes.reader(key, numbers);
            observations = sparse(by_action(), width, |(a, next), o| at([0, a, next, o]))?;
        }
        for (key, numbers) in dense.iter().filter(|_| complete) {
            let at = sizes.reader(key, numbers);
            match (&key[..1], key.contains("[s']")) {
                ("R", true) if key.ends_with("[o]") => {
                    // Without a row of O for each action and state, the model is invalid.
                    if observations.rows() != process.transitions.rows() {
                        continue;
                    }
                    let expected = |(s, a): (usize, usize), next: usize| {
                        let (seen, probs) = observations.row(a * states + next);
                        let known = seen.iter().zip(probs).filter(|(o, _)| (**o as usize) < width);
                        known.fold(0.0, |sum, (&o, prob)| sum + prob * at([s, a, next, o as usize]))
                    };
                    process.rewards = sparse(by_state(), states, expected)?;
                }
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

/// Takes the names of a list of transitions, which names its states and actions in its own order.
fn names_of_list(process: &mut MdpParts, actions: u32, names: &mut Names) -> Result<(), Invalid> {
    if let Some(states) = process.state_names.take() {
        names.states = states.to_vec();
    }
    if let Some(ActionNames { names: listed, of_row }) = process.action_names.take() {
        let first = &of_row[..of_row.len().min(actions as usize)];
        if of_row.chunks(first.len().max(1)).any(|own| own != first) {
            return Err(Invalid::Choices);
        }
        if names.actions.is_empty() {
            names.actions = first.iter().filter_map(|&name| listed.get(name as usize).cloned()).collect();
        }
    }
    if !names.actions.is_empty() && names.actions.len() != actions as usize {
        return Err(Invalid::Choices);
    }
    Ok(())
}

/// The belief in these states, by their names or numbers in any order, with these probabilities.
fn named_start(items: &[Listed], probs: &[f64], names: &[String], count: u32) -> Result<Belief, Invalid> {
    let numbers: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let mut belief = Vec::new();
    for (item, &prob) in items.iter().zip(probs) {
        let (number, text) = match item {
            Listed::Number(number) => (Some(*number), number.to_string()),
            Listed::Name(text) => (numbers.get(text.as_str()).copied().or_else(|| text.parse().ok()), text.clone()),
        };
        let state = number.filter(|&state| state < count);
        belief.push((state.ok_or_else(|| Invalid::Start(no_state(&text, names)))?, prob));
    }
    belief.sort_by_key(|&(state, _)| state);
    if let Some(pair) = belief.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Invalid::Start(format!("has the state \"{}\" twice", name(names, pair[0].0))));
    }
    let (states, probs) = belief.into_iter().unzip();
    Belief::new(states, probs).map_err(|error| Invalid::Start(error.to_string()))
}

/// The message for a start that is no state.
fn no_state(name: &str, names: &[String]) -> String {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = nearest(name, &known).map_or_else(String::new, |near| format!(", did you mean \"{near}\"?"));
    format!("is in the state \"{}\", expected the name or the number of a state{hint}", quoted(name.as_bytes()))
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
const TABLES: [&str; 16] = [
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
    "O[a][s'][o]",
    "O[s'][a][o]",
    "O[s'][o]",
    "R[a][s][s'][o]",
    "R[s][a][s'][o]",
];

/// How to write the end of a process, which has no place in the model.
const ABSORBING: &str = "but a POMDP does not end: expected a further state without rewards, which every action leads to with this \
                         probability and does not leave";

#[derive(Default)]
struct Model {
    /// The keys that the object has.
    keys: BTreeSet<String>,
    process: json::Model,
    observation_count: u32,
    observations: Matrix,
    tables: Vec<(&'static str, Table)>,
    start: Option<Start>,
    seen: Vec<u32>,
    names: Names,
}

impl Fields for Model {
    const KEYS: &'static [&'static str] = &[
        "gamma",
        "discount",
        "P",
        TABLES[0],
        TABLES[1],
        LIST,
        "Z",
        TABLES[2],
        TABLES[3],
        TABLES[4],
        TABLES[11],
        TABLES[12],
        TABLES[13],
        "R",
        "action_rewards",
        TABLES[5],
        TABLES[6],
        TABLES[7],
        TABLES[8],
        TABLES[9],
        TABLES[14],
        TABLES[15],
        "S",
        "A",
        "O",
        "names",
        "state_names",
        "action_names",
        "observation_names",
        "start",
        TABLES[10],
        "seen",
        "objective",
        "labels",
        "format",
        "grid",
    ];
    const REQUIRED: usize = 0;
    const INSTEAD: &'static [(&'static str, &'static str)] = &[("ends", ABSORBING), ("ends[s][a]", ABSORBING)];
    const ONE_OF: &'static [&'static [&'static str]] = &[
        &["gamma", "discount"],
        &["P", TABLES[0], TABLES[1], LIST],
        &["Z", TABLES[2], TABLES[3], TABLES[4], TABLES[11], TABLES[12], TABLES[13]],
    ];

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        self.keys.insert(key.to_owned());
        match key {
            "O" => self.observation_count = map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?,
            "Z" => self.observations = map.next_value_seed(Object::at(path))?,
            "start" => self.start = Some(map.next_value_seed(StartSeed(path))?),
            "seen" => self.seen = map.next_value_seed(Array::at(path, "the observed component of a state"))?,
            "names" => self.names = map.next_value_seed(Object::at(path))?,
            "state_names" => self.names.states = map.next_value()?,
            "action_names" => self.names.actions = map.next_value()?,
            "observation_names" => self.names.observations = map.next_value()?,
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
            () if has("names") && NAMES.into_iter().any(has) => {
                Err("found both \"names\" and a list of names beside it, expected one of them")
            }
            () if has(LIST) && (rewards > 0 || has("R") || has("action_rewards")) => Err(BESIDE_LIST),
            () if !has(LIST) && !has("S") && names.states.is_empty() && !sizes("s") && !sizes("s'") => {
                Err("key \"S\" is missing (or names.states)")
            }
            () if !has(LIST) && !has("A") && names.actions.is_empty() && !sizes("a") => {
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

/// The keys of lists of names.
const NAMES: [&str; 3] = ["state_names", "action_names", "observation_names"];

/// The start as a file gives it.
enum Start {
    Belief(Belief),
    /// Names or numbers of states, and their probabilities.
    Named(Vec<Listed>, Vec<f64>),
}

/// A deserializer of [`Start`].
struct StartSeed<'p>(&'p Path<'p>);

impl<'de> DeserializeSeed<'de> for StartSeed<'_> {
    type Value = Start;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Start, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StartSeed<'_> {
    type Value = Start;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a state, or an object with states, probs")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Start, E> {
        let item = u32::try_from(number).map_or_else(|_| Listed::Name(number.to_string()), Listed::Number);
        Ok(Start::Named(vec![item], vec![1.0]))
    }

    fn visit_str<E>(self, name: &str) -> Result<Start, E> {
        Ok(Start::Named(vec![Listed::Name(name.trim().to_owned())], vec![1.0]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Start, A::Error> {
        let Distribution { states, probs } = Object::at(self.0).deserialize(MapAccessDeserializer::new(map))?;
        let belief = match states {
            Items::Numbers(states) => Belief::new(states, probs).map(Start::Belief),
            Items::Named(items) if items.len() == probs.len() => Ok(Start::Named(items, probs)),
            Items::Named(_) => Err(belief::Invalid::States),
        };
        belief.map_err(|error| A::Error::custom(format!("it {error}")))
    }
}

#[derive(Default)]
struct Distribution {
    states: Items,
    probs: Vec<f64>,
}

impl Fields for Distribution {
    const KEYS: &'static [&'static str] = &["states", "probs"];
    const REQUIRED: usize = 2;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "states" => self.states = map.next_value_seed(ItemArray::at(path, "a state: its number, or its name"))?,
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
