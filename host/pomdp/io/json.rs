//! JSON: an object with the keys of an MDP, and those of its observations.
//!
//! | key | value |
//! | --- | --- |
//! | `S`, `A`, `O` | numbers of states, actions and observations |
//! | `gamma` | γ |
//! | `P` | T as a matrix: row s·A + a, with S columns, is T(s, a, ·) |
//! | `Z` | O as a matrix: row a·S + s', with O columns, is O(a, s', ·) |
//! | `R` | optional: rewards R(s, a, s') as a matrix of the shape of `P` |
//! | `action_rewards` | optional: one reward per row of `P` |
//! | `objective` | optional: `"minimize"` |
//! | `format`, `labels`, `grid` | optional: as for an MDP; `format` is `"CSR"` |
//! | `start` | optional: an object of ascending `states` and their `probs`; uniform by default |
//! | `seen` | optional: the fully observed component of each state, known from the start |
//! | `names` | optional: an object of `states`, `actions` and `observations`, each an array of names or empty |
//!
//! A matrix is an object of `indptr`, `indices` and `data`. Keys may have any order; unknown keys are ignored.

use std::io::{self, Read, Write};

use serde::de::MapAccess;

use super::Error;
use crate::common::io::invalid;
use crate::common::io::json::{Array, Fields, Number, Object, Path, field, parse};
use crate::mdp::io::json::{self, Matrix};
use crate::mdp::model::MdpParts;
use crate::pomdp::belief::Belief;
use crate::pomdp::model::{Invalid, Names, Pomdp, PomdpParts};

/// Reads a model without validation.
pub fn read(reader: impl Read, file: String) -> Result<PomdpParts, Error> {
    let model: Model = parse(reader, file.clone())?;
    PomdpParts::try_from(model).map_err(invalid(file))
}

impl TryFrom<Model> for PomdpParts {
    type Error = Invalid;

    fn try_from(model: Model) -> Result<Self, Invalid> {
        let Model { process, observation_count, observations, start, seen, names } = model;
        let process = MdpParts::try_from(process)?;
        let start = match start {
            Some(Start { states, probs }) => {
                Belief::new(states, probs).map_err(|error| Invalid::Start(error.to_string()))?
            }
            // A valid T has at least as many rows as there are states. The minimum limits memory for an invalid one.
            None => Belief::uniform((0..process.states.min(process.transitions.rows() as u32)).collect()),
        };
        Ok(Self { process, observation_count, observations: observations.try_into()?, start, seen, names })
    }
}

#[derive(Default)]
struct Model {
    process: json::Model,
    observation_count: u32,
    observations: Matrix,
    start: Option<Start>,
    seen: Vec<u32>,
    names: Names,
}

impl Fields for Model {
    const KEYS: &'static [&'static str] = &[
        "S",
        "A",
        "O",
        "gamma",
        "P",
        "Z",
        "R",
        "action_rewards",
        "objective",
        "labels",
        "format",
        "grid",
        "start",
        "seen",
        "names",
    ];
    const REQUIRED: usize = 6;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "O" => self.observation_count = map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?,
            "Z" => self.observations = map.next_value_seed(Object::at(path))?,
            "start" => self.start = Some(map.next_value_seed(Object::at(path))?),
            "seen" => self.seen = map.next_value_seed(Array::at(path, "the observed component of a state"))?,
            "names" => self.names = map.next_value_seed(Object::at(path))?,
            key => self.process.read(key, map, path)?,
        }
        Ok(())
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
