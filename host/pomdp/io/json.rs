//! JSON: that of a Markov decision process, and what is observed of it.
//!
//! An object with `S`, `A`, `O`, the numbers of states, actions and observations; `gamma`; and the matrices `P` and `Z`
//! (each an object of `indptr`, `indices` and `data`): row s·A + a of `P`, with S columns, is T(s, a, ·), and row a·S + s'
//! of `Z`, with O columns, is O(a, s', ·). Optional are the matrix `R` and `action_rewards` (rewards R(s, a, s'), rows and
//! columns as `P`; and one number per row), `"objective": "minimize"`, `"format": "CSR"`, `labels`, `grid`; `start`, an
//! object of `states`, ascending, and their `probs`, the same for all states where there is none; `seen`, for each state the number
//! of the part of it that is always seen, also at the start; and `names`, an object of
//! `states`, `actions` and `observations`, each an array of names or empty. Keys come in any order; others are ignored.

use std::io::{self, Read, Write};

use serde::de::MapAccess;

use super::Error;
use crate::common::io::invalid;
use crate::common::io::json::{Array, Fields, Number, Object, Path, field, parse};
use crate::mdp::io::json::{self, Matrix};
use crate::mdp::model::MdpParts;
use crate::pomdp::belief::Belief;
use crate::pomdp::model::{Invalid, Names, Pomdp, PomdpParts};

/// Reads a model, not yet validated.
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
            // A valid model has more rows than states; what is none takes no memory.
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
            "seen" => self.seen = map.next_value_seed(Array::at(path, "the number of what is seen of a state"))?,
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
