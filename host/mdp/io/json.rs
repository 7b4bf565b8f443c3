//! JSON, for people and scripts. `schema.json` says the same for programs.
//!
//! A model is an object with `gamma` (or `discount`; 1 without both) and its transitions in one of four forms:
//!
//! | key | value |
//! | --- | --- |
//! | `P[a][s][s']` | a table: for each action a matrix with a row for each state |
//! | `P[s][a][s']` | a table: for each state a matrix with a row for each action |
//! | `transitions` | an array of objects of `state`, `action`, `next`, `probability` and, if it is not 0, `reward` |
//! | `P` | a sparse matrix, row s·A + a: an object of `indptr`, `indices` and `data`, as in Aydin, *Policy Iteration on the GPU* (2025), Listing A.1 |
//!
//! Rewards are one of the tables `R[s]`, `R[s][a]`, `R[a][s]`, `R[a][s][s']` and `R[s][a][s']`, or, beside `P`, the sparse matrix `R` and
//! `action_rewards`, one per row. End probabilities are the table `ends[s][a]`, or, beside `P`, `ends`, one per row. `S` and `A` are needed
//! beside `P` only. Where states have different numbers of actions, `choices` replaces `A`: state s has rows `choices[s]` to
//! `choices[s + 1]` − 1 of `P`.
//!
//! The other keys are optional: `"objective": "minimize"`, `state_names` and `action_names` (arrays; of `choices`, `action_names` is an
//! object of `names` and `of_row`), `labels` (an object of arrays of states), `"format": "CSR"`, and `grid`, the fields of [`Grid`]. Keys
//! come in any order. Unknown keys are errors, except `comment`, `$schema` and those that begin with `_`.
//!
//! A table under the keys `P` or `R` alone is an error, as it has two readings.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Read, Write};
use std::mem;
use std::sync::Arc;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};

use super::Error;
use super::outcomes::{Fault, Outcomes};
use crate::model::validate::{self, Invalid};
use crate::model::{ActionNames, Choices, Csr, Grid, InvalidCsr, Mdp, MdpParts, Objective};
use warpkov_common::io::invalid;
use warpkov_common::io::json::{Array, Dense, Fields, Number, Object, Path, Table, Tabular, Word, field, parse, value};
use warpkov_common::terminal::quoted;

/// Reads and validates a model. Calls `note` with what deserves the user's attention.
pub fn read(reader: impl Read, file: String, note: &mut dyn FnMut(String)) -> Result<Mdp, Error> {
    let model: Model = parse(reader, file.clone())?;
    model.parts(note).and_then(MdpParts::validated).map_err(invalid(file))
}

/// The fields of a model object.
#[derive(Default)]
pub struct Model {
    states: Option<u32>,
    actions: Option<u32>,
    choices: Option<Vec<u64>>,
    gamma: Option<f64>,
    objective: Objective,
    transitions: Transitions,
    ends: Vec<f64>,
    ends_table: Option<Dense>,
    rewards: Option<Matrix>,
    rewards_table: Option<(RewardOrder, Dense)>,
    action_rewards: Vec<f64>,
    labels: BTreeMap<String, Members>,
    action_names: Option<NamesOfActions>,
    state_names: Option<Vec<String>>,
    grid: Option<Grid>,
}

/// The transitions in one of their forms.
enum Transitions {
    Sparse(Matrix),
    Table(AxisOrder, Dense),
    List(Vec<Transition>),
}

impl Default for Transitions {
    fn default() -> Self {
        Self::Sparse(Matrix::default())
    }
}

/// The order of the first two indices of a table of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AxisOrder {
    ActionState,
    StateAction,
}

/// The indices of a table of rewards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RewardOrder {
    State,
    Pair(AxisOrder),
    Transition(AxisOrder),
}

const P_ACTION_STATE: &str = "P[a][s][s']";
const P_STATE_ACTION: &str = "P[s][a][s']";
/// The key of a list of transitions.
pub const LIST: &str = "transitions";
/// The message for tables beside a list of transitions.
pub const BESIDE_LIST: &str =
    "\"transitions\" holds the rewards and ends in terminal states, expected no tables beside it";
const ENDS: &str = "ends[s][a]";
/// γ of a model without `gamma`.
const GAMMA: f64 = 1.0;

impl AxisOrder {
    const fn key(self) -> &'static str {
        match self {
            Self::ActionState => P_ACTION_STATE,
            Self::StateAction => P_STATE_ACTION,
        }
    }

    /// The row of a table with `states` states and `actions` actions that is that of row s·A + a.
    fn row(self, row: usize, states: usize, actions: usize) -> usize {
        match self {
            Self::ActionState => row % actions * states + row / actions,
            Self::StateAction => row,
        }
    }
}

impl RewardOrder {
    const ALL: [Self; 5] = [
        Self::State,
        Self::Pair(AxisOrder::StateAction),
        Self::Pair(AxisOrder::ActionState),
        Self::Transition(AxisOrder::ActionState),
        Self::Transition(AxisOrder::StateAction),
    ];

    const fn key(self) -> &'static str {
        match self {
            Self::State => "R[s]",
            Self::Pair(AxisOrder::StateAction) => "R[s][a]",
            Self::Pair(AxisOrder::ActionState) => "R[a][s]",
            Self::Transition(AxisOrder::ActionState) => "R[a][s][s']",
            Self::Transition(AxisOrder::StateAction) => "R[s][a][s']",
        }
    }

    fn shape(self, states: usize, actions: usize) -> Vec<usize> {
        let pair = |order| match order {
            AxisOrder::StateAction => [states, actions],
            AxisOrder::ActionState => [actions, states],
        };
        match self {
            Self::State => vec![states],
            Self::Pair(order) => pair(order).to_vec(),
            Self::Transition(order) => [&pair(order)[..], &[states]].concat(),
        }
    }
}

impl Fields for Model {
    const KEYS: &'static [&'static str] = &[
        "gamma",
        "discount",
        P_ACTION_STATE,
        P_STATE_ACTION,
        LIST,
        "P",
        RewardOrder::ALL[0].key(),
        RewardOrder::ALL[1].key(),
        RewardOrder::ALL[2].key(),
        RewardOrder::ALL[3].key(),
        RewardOrder::ALL[4].key(),
        "R",
        "action_rewards",
        ENDS,
        "ends",
        "S",
        "A",
        "choices",
        "objective",
        "state_names",
        "action_names",
        "labels",
        "format",
        "grid",
    ];
    const REQUIRED: usize = 0;
    const ONE_OF: &'static [&'static [&'static str]] = &[&["P", P_ACTION_STATE, P_STATE_ACTION, LIST]];

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        let numbers = |map: &mut A| match map.next_value_seed(Tabular::at(path, "a number"))? {
            Table::Dense(table) => Ok(table),
            Table::Named(_) => Err(A::Error::custom("found an object, expected an array")),
        };
        match key {
            "S" => self.states = Some(map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?),
            "A" => self.actions = Some(map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?),
            "choices" => self.choices = Some(map.next_value_seed(Array::at(path, "a number of rows"))?),
            "gamma" | "discount" if self.gamma.is_some() => {
                return Err(A::Error::custom("found both \"gamma\" and \"discount\", expected one of them"));
            }
            "gamma" | "discount" => self.gamma = Some(map.next_value_seed(Number::new("a number"))?),
            "objective" => self.objective = map.next_value_seed(Word(&OBJECTIVES))?,
            "P" => self.transitions = Transitions::Sparse(map.next_value_seed(Sparse { path, of_rewards: false })?),
            P_ACTION_STATE => self.transitions = Transitions::Table(AxisOrder::ActionState, numbers(map)?),
            P_STATE_ACTION => self.transitions = Transitions::Table(AxisOrder::StateAction, numbers(map)?),
            LIST => self.transitions = Transitions::List(map.next_value_seed(List(path))?),
            "ends" => self.ends = map.next_value_seed(Array::at(path, "a probability"))?,
            ENDS => self.ends_table = Some(numbers(map)?),
            "R" => self.rewards = Some(map.next_value_seed(Sparse { path, of_rewards: true })?),
            "action_rewards" => self.action_rewards = map.next_value_seed(Array::at(path, "a number"))?,
            "labels" => self.labels = map.next_value()?,
            "action_names" => self.action_names = Some(map.next_value_seed(NamesSeed(path))?),
            "state_names" => self.state_names = Some(map.next_value()?),
            "grid" => self.grid = Some(map.next_value_seed(Object::at(path))?),
            "format" => map.next_value_seed(Word(&[("CSR", ())]))?,
            key => match RewardOrder::ALL.into_iter().find(|order| order.key() == key) {
                Some(order) if self.rewards_table.is_none() => self.rewards_table = Some((order, numbers(map)?)),
                _ => return Err(A::Error::custom("found two tables of rewards, expected one")),
            },
        }
        Ok(())
    }

    fn complete(&self) -> Result<(), &'static str> {
        match (&self.transitions, self.actions, &self.choices) {
            (Transitions::Sparse(_), ..) if self.states.is_none() => Err("key \"S\" is missing"),
            (Transitions::Sparse(_), None, None) => {
                Err("found neither key \"A\" nor key \"choices\", expected one of them")
            }
            (Transitions::Sparse(_), Some(_), Some(_)) => {
                Err("found both key \"A\" and key \"choices\", expected one of them")
            }
            (Transitions::Sparse(_), ..) => Ok(()),
            (.., Some(_)) => Err("key \"choices\" is for the rows of \"P\" only"),
            _ if matches!(self.action_names, Some(NamesOfActions::OfRows(_))) => {
                Err("key \"action_names\": an object is for the rows of \"P\" only, expected an array of names")
            }
            _ if !self.ends.is_empty() => Err("key \"ends\" is for the rows of \"P\", expected \"ends[s][a]\""),
            _ if self.rewards.is_some() || !self.action_rewards.is_empty() => Err(
                "keys \"R\" and \"action_rewards\" are for the rows of \"P\", expected \"R[s][a]\" or another table",
            ),
            (Transitions::List(_), ..) if self.rewards_table.is_some() || self.ends_table.is_some() => Err(BESIDE_LIST),
            _ => Ok(()),
        }?;
        match (&self.rewards_table, &self.ends_table) {
            (Some(_), _) if self.rewards.is_some() || !self.action_rewards.is_empty() => {
                Err("found a table of rewards and \"R\" or \"action_rewards\", expected one of them")
            }
            (_, Some(_)) if !self.ends.is_empty() => Err("found both key \"ends\" and key \"ends[s][a]\""),
            _ => Ok(()),
        }
    }
}

const OBJECTIVES: [(&str, Objective); 2] = [("maximize", Objective::Maximize), ("minimize", Objective::Minimize)];

impl TryFrom<Model> for MdpParts {
    type Error = Invalid;

    fn try_from(model: Model) -> Result<Self, Invalid> {
        model.parts(&mut |_| ())
    }
}

impl Model {
    /// Whether the transitions are a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.transitions, Transitions::List(_))
    }

    /// Names the states and the actions; an empty list names none.
    pub fn set_names(&mut self, states: &[String], actions: &[String]) {
        self.state_names = (!states.is_empty()).then(|| states.to_vec());
        self.action_names = (!actions.is_empty()).then(|| NamesOfActions::All(actions.to_vec()));
    }

    fn parts(mut self, note: &mut dyn FnMut(String)) -> Result<MdpParts, Invalid> {
        let is_list = self.is_list();
        let mut parts = self.transitions(note)?;
        if let Some(table) = self.ends_table {
            let (states, actions) = uniform(&parts, ENDS)?;
            check_shape(ENDS, &table.shape, &[states, actions]).map_err(Invalid::Form)?;
            parts.ends = table.numbers.into();
        }
        if let Some((order, table)) = self.rewards_table {
            set_rewards(&mut parts, order, &table)?;
        }
        parts.action_names = match self.action_names {
            Some(NamesOfActions::OfRows(names)) => Some(names),
            // `of_list` has named the actions.
            _ if is_list => parts.action_names,
            Some(NamesOfActions::All(names)) => Some(names_of_rows(names, &parts)?),
            None => None,
        };
        parts.labels = numbers_of_labels(self.labels, parts.state_names.as_deref())?;
        Ok(parts)
    }

    /// The parts that all forms of transitions have, taken from the model.
    fn transitions(&mut self, note: &mut dyn FnMut(String)) -> Result<MdpParts, Invalid> {
        let csr = |matrix, arrays: Matrix| arrays.try_into().map_err(|source| Invalid::Csr { matrix, source });
        let (states, actions) = (self.states, self.actions);
        let same = MdpParts {
            gamma: self.gamma.unwrap_or(GAMMA),
            objective: self.objective,
            grid: self.grid.take(),
            ..MdpParts::default()
        };
        let state_names = self.state_names.take();
        let (ends, action_rewards) = (mem::take(&mut self.ends).into(), mem::take(&mut self.action_rewards).into());
        Ok(match mem::take(&mut self.transitions) {
            Transitions::Sparse(matrix) => MdpParts {
                states: states.unwrap_or_default(),
                choices: match self.choices.take() {
                    Some(offsets) => Choices::Ragged(offsets.into()),
                    None => Choices::Uniform(actions.unwrap_or_default()),
                },
                transitions: csr(validate::Matrix::P, matrix)?,
                rewards: csr(validate::Matrix::R, self.rewards.take().unwrap_or_default())?,
                state_names: state_names.map(Arc::new),
                ends,
                action_rewards,
                ..same
            },
            Transitions::Table(order, table) => {
                let (states, actions, transitions) = of_table(order, &table, states, actions).map_err(Invalid::Form)?;
                let (choices, state_names) = (Choices::Uniform(actions), state_names.map(Arc::new));
                MdpParts { states, choices, transitions, state_names, ends, action_rewards, ..same }
            }
            Transitions::List(list) => {
                let named = match &self.action_names {
                    Some(NamesOfActions::All(names)) => Some(&names[..]),
                    _ => None,
                };
                let listed = of_list(list, state_names.as_deref(), named, note).map_err(Invalid::Form)?;
                check_count("S", states, listed.states).map_err(Invalid::Form)?;
                check_count("A", actions, listed.choices.max()).map_err(Invalid::Form)?;
                MdpParts { gamma: same.gamma, objective: same.objective, grid: same.grid, ..listed }
            }
        })
    }
}

/// S and A of a model with as many actions in every state, which `what` needs.
fn uniform(parts: &MdpParts, what: &str) -> Result<(usize, usize), Invalid> {
    match parts.choices {
        Choices::Uniform(actions) => Ok((parts.states as usize, actions as usize)),
        Choices::Ragged(_) => {
            Err(Invalid::Form(format!("{what} needs as many actions in every state, and \"choices\" has others")))
        }
    }
}

/// Sets the rewards to those of a table.
fn set_rewards(parts: &mut MdpParts, order: RewardOrder, table: &Dense) -> Result<(), Invalid> {
    let (states, actions) = uniform(parts, order.key())?;
    check_shape(order.key(), &table.shape, &order.shape(states, actions)).map_err(Invalid::Form)?;
    let numbers = &table.numbers;
    match order {
        RewardOrder::State => {
            let repeated = numbers.iter().flat_map(|&reward| std::iter::repeat_n(reward, actions));
            parts.action_rewards = repeated.collect::<Vec<_>>().into();
        }
        RewardOrder::Pair(order) => {
            let rows = (0..states * actions).map(|row| numbers[order.row(row, states, actions)]);
            parts.action_rewards = rows.collect::<Vec<_>>().into();
        }
        RewardOrder::Transition(order) => parts.rewards = nonzeros(numbers, order, states, actions),
    }
    Ok(())
}

/// The names of the actions of all rows, of one name per action.
fn names_of_rows(names: Vec<String>, parts: &MdpParts) -> Result<ActionNames, Invalid> {
    let Choices::Uniform(actions) = parts.choices else {
        let expected = "expected an object of names and of_row, as states have different numbers of actions";
        return Err(Invalid::Form(format!("action_names is an array, {expected}")));
    };
    if names.len() as u32 != actions {
        let found = names.len();
        let message = format!("action_names has {found} elements, expected one per action, {actions}");
        return Err(Invalid::Form(message));
    }
    let of_row = (0..parts.transitions.rows() as u32).map(|row| row % actions.max(1)).collect();
    Ok(ActionNames { names, of_row })
}

/// The numbers of the states of each label. Members are numbers and names.
fn numbers_of_labels(
    labels: BTreeMap<String, Members>,
    state_names: Option<&Vec<String>>,
) -> Result<BTreeMap<String, Vec<u32>>, Invalid> {
    let of_name: HashMap<&str, u32> = match state_names {
        Some(names) if labels.values().any(|members| !members.names.is_empty()) => {
            names.iter().map(String::as_str).zip(0..).collect()
        }
        _ => HashMap::new(),
    };
    let members = |(label, Members { mut numbers, names }): (String, Members)| {
        let sort = !names.is_empty();
        for name in names {
            let name = of_name.get(&*name).copied().ok_or_else(|| {
                let (label, name) = (quoted(label.as_bytes()), quoted(name.as_bytes()));
                Invalid::Form(format!("label \"{label}\": found \"{name}\", expected a state's name or number"))
            })?;
            numbers.push(name);
        }
        if sort {
            numbers.sort_unstable();
        }
        Ok((label, numbers))
    };
    labels.into_iter().map(members).collect()
}

/// Checks a number that stands in the file besides what it counts.
fn check_count(key: &str, said: Option<u32>, found: u32) -> Result<(), String> {
    match said {
        Some(said) if said != found => Err(format!("{key} is {said}, and the transitions have {found}")),
        _ => Ok(()),
    }
}

/// The lengths of a table in words.
fn product(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ")
}

fn check_shape(key: &str, found: &[usize], expected: &[usize]) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{key} is of {} numbers, expected {}", product(found), product(expected))),
    }
}

/// S, A and P of a table.
fn of_table(
    order: AxisOrder,
    table: &Dense,
    states: Option<u32>,
    actions: Option<u32>,
) -> Result<(u32, u32, Csr), String> {
    let key = order.key();
    let &[first, second, last] = &table.shape[..] else {
        return Err(format!("{key} has {} levels of arrays, expected 3", table.shape.len()));
    };
    let reading = |order: AxisOrder| {
        let (states, actions) = if order == AxisOrder::ActionState { (second, first) } else { (first, second) };
        (states == last && states > 0 && actions > 0).then_some((states, actions))
    };
    let Some((s, a)) = reading(order) else {
        let other = if order == AxisOrder::ActionState { AxisOrder::StateAction } else { AxisOrder::ActionState };
        let hint = match reading(other) {
            Some((s, a)) => format!(" (as \"{}\" it has {s} states and {a} actions)", other.key()),
            None => String::new(),
        };
        let expected = if order == AxisOrder::ActionState { "A × S × S" } else { "S × A × S" };
        return Err(format!("{key} is of {} numbers, expected {expected}{hint}", product(&table.shape)));
    };
    let small = |count: usize| {
        u32::try_from(count).map_err(|_| format!("{key} has {count} states or actions, expected fewer than 2³²"))
    };
    let (states_found, actions_found) = (small(s)?, small(a)?);
    check_count("S", states, states_found)?;
    check_count("A", actions, actions_found)?;
    Ok((states_found, actions_found, nonzeros(&table.numbers, order, s, a)))
}

/// The nonzeros of a table of three indices, with row s·A + a.
fn nonzeros(numbers: &[f64], order: AxisOrder, states: usize, actions: usize) -> Csr {
    let (mut row_ptr, mut col, mut val) = (Vec::with_capacity(states * actions + 1), Vec::new(), Vec::new());
    row_ptr.push(0);
    for row in 0..states * actions {
        let own = &numbers[order.row(row, states, actions) * states..][..states];
        for (next, &number) in (0..).zip(own).filter(|(_, number)| **number != 0.0) {
            col.push(next);
            val.push(number);
        }
        row_ptr.push(col.len() as u64);
    }
    Csr::built(row_ptr, col, val)
}

/// The model of a list of transitions, with γ = 1.
fn of_list(
    list: Vec<Transition>,
    states: Option<&[String]>,
    actions: Option<&[String]>,
    note: &mut dyn FnMut(String),
) -> Result<MdpParts, String> {
    let mut outcomes = Outcomes::new(states, actions);
    for (index, transition) in (0..).zip(list) {
        let Transition { state, action, next, probability, reward } = transition;
        match (action, next, probability, reward) {
            (None, None, None, None) => outcomes.state(&state, index).map(drop),
            (Some(action), Some(next), Some(probability), reward) => {
                outcomes.add([&state, &action, &next], [probability, reward.unwrap_or_default()], index)
            }
            _ => {
                Err("expected action, next and probability beside state, or none of them for a terminal state"
                    .to_owned())
            }
        }
        .map_err(|message| format!("{LIST}[{index}]: {message}"))?;
    }
    if let Some(text) = outcomes.note() {
        note(text);
    }
    outcomes.into_model(|index| format!("{LIST}[{index}]")).map_err(|Fault { place, message }| match place {
        Some(index) => format!("{LIST}[{index}]: {message}"),
        None => message,
    })
}

/// An outcome, or a state without actions.
#[derive(Default)]
struct Transition {
    state: String,
    action: Option<String>,
    next: Option<String>,
    probability: Option<f64>,
    reward: Option<f64>,
}

impl Fields for Transition {
    const KEYS: &'static [&'static str] = &["state", "action", "next", "probability", "reward"];
    const REQUIRED: usize = 1;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, _: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "state" => self.state = map.next_value_seed(NameSeed("the name of a state, or its number"))?,
            "action" => self.action = Some(map.next_value_seed(NameSeed("the name of an action, or its number"))?),
            "next" => self.next = Some(map.next_value_seed(NameSeed("the name of a state, or its number"))?),
            "probability" => self.probability = Some(map.next_value_seed(Number::new("a probability"))?),
            _ => self.reward = Some(map.next_value_seed(Number::new("a number"))?),
        }
        Ok(())
    }
}

/// A deserializer of an array of transitions.
struct List<'p>(&'p Path<'p>);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Vec<Transition>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Vec<Transition>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of objects with state, action, next and probability")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(transition) = elements.next_element_seed(Object::at(self.0))? {
            list.push(transition);
        }
        Ok(list)
    }
}

/// A deserializer of a name, or of a number as its text. It expects these words.
struct NameSeed(&'static str);

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_str<E>(self, name: &str) -> Result<String, E> {
        Ok(name.to_owned())
    }
}

/// Members of a label: numbers of states, and names.
#[derive(Default)]
struct Members {
    numbers: Vec<u32>,
    names: Vec<String>,
}

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an array of states")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Members, A::Error> {
                let mut members = Members::default();
                while elements.next_element_seed(Member(&mut members))?.is_some() {}
                Ok(members)
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

/// A deserializer of one member of a label.
struct Member<'m>(&'m mut Members);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Member<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a state: its number, or its name")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        let state = number.try_into().map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
        self.0.numbers.push(state);
        Ok(())
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        self.0.names.push(name.to_owned());
        Ok(())
    }
}

/// The names of actions as a file gives them.
enum NamesOfActions {
    /// Of the actions of every state.
    All(Vec<String>),
    OfRows(ActionNames),
}

/// A deserializer of [`NamesOfActions`].
struct NamesSeed<'p>(&'p Path<'p>);

impl<'de> DeserializeSeed<'de> for NamesSeed<'_> {
    type Value = NamesOfActions;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NamesOfActions, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NamesSeed<'_> {
    type Value = NamesOfActions;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of names, or an object with names, of_row")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<NamesOfActions, A::Error> {
        serde::Deserialize::deserialize(SeqAccessDeserializer::new(names)).map(NamesOfActions::All)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NamesOfActions, A::Error> {
        Object::at(self.0).deserialize(MapAccessDeserializer::new(map)).map(NamesOfActions::OfRows)
    }
}

/// A deserializer of a sparse matrix. A table is an error that shows its readings.
struct Sparse<'p> {
    path: &'p Path<'p>,
    of_rewards: bool,
}

impl<'de> DeserializeSeed<'de> for Sparse<'_> {
    type Value = Matrix;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Matrix, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Sparse<'_> {
    type Value = Matrix;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "an object with {}", Matrix::KEYS.join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Matrix, A::Error> {
        Object::at(self.path).deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Matrix, A::Error> {
        let table = Tabular::at(self.path, "a number").deserialize(SeqAccessDeserializer::new(elements))?;
        let Table::Dense(Dense { shape, .. }) = table else {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        };
        Err(A::Error::custom(if self.of_rewards { readings_of_rewards(&shape) } else { readings(&shape) }))
    }
}

/// What a table of transitions of this shape under the key `P` may mean.
fn readings(shape: &[usize]) -> String {
    let table = format!("found a table of {} numbers", product(shape));
    match *shape {
        [first, second, last] => {
            let reading = |order: AxisOrder, states, actions| match states == last {
                true => format!("\"{}\" ({states} states, {actions} actions)", order.key()),
                false => format!("\"{}\" (does not fit: {states} states and rows of {last})", order.key()),
            };
            let by_action = reading(AxisOrder::ActionState, second, first);
            let by_state = reading(AxisOrder::StateAction, first, second);
            format!("{table} without its order, expected the key {by_action} or the key {by_state}")
        }
        [_, _, _, 4] => format!(
            "{table}: rows of [p, s', r, done] are read with option format: gymnasium; a table of transitions has 3 levels"
        ),
        _ => format!(
            "{table}, expected an object with {}, or a table as \"{P_ACTION_STATE}\" or \"{P_STATE_ACTION}\"",
            Matrix::KEYS.join(", ")
        ),
    }
}

/// What a table of rewards of this shape under the key `R` may mean.
fn readings_of_rewards(shape: &[usize]) -> String {
    let keys: Vec<String> = RewardOrder::ALL
        .into_iter()
        .filter(|order| order.shape(1, 1).len() == shape.len())
        .map(|order| format!("\"{}\"", order.key()))
        .collect();
    let keys = match &keys[..] {
        [] => RewardOrder::ALL.map(|order| format!("\"{}\"", order.key())).join(", "),
        keys => keys.join(" or "),
    };
    format!("found a table of {} numbers without its order, expected the key {keys}", product(shape))
}

/// A matrix in compressed sparse rows.
#[derive(Default)]
pub struct Matrix {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    data: Vec<f64>,
}

impl Fields for Matrix {
    const KEYS: &'static [&'static str] = &["indptr", "indices", "data"];
    const REQUIRED: usize = 3;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "indptr" => self.indptr = map.next_value_seed(Array::at(path, "a number of entries"))?,
            "indices" => self.indices = map.next_value_seed(Array::at(path, "a column index"))?,
            _ => self.data = map.next_value_seed(Array::at(path, "a number"))?,
        }
        Ok(())
    }
}

impl TryFrom<Matrix> for Csr {
    type Error = InvalidCsr;

    fn try_from(Matrix { indptr, indices, data }: Matrix) -> Result<Self, InvalidCsr> {
        Self::new(indptr, indices, data)
    }
}

impl Fields for ActionNames {
    const KEYS: &'static [&'static str] = &["names", "of_row"];
    const REQUIRED: usize = 2;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "names" => self.names = map.next_value()?,
            _ => self.of_row = map.next_value_seed(Array::at(path, "the number of a name"))?,
        }
        Ok(())
    }
}

impl Fields for Grid {
    const KEYS: &'static [&'static str] = &["width", "height", "goal", "walls", "obstacles"];
    const REQUIRED: usize = 5;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "width" => self.width = map.next_value_seed(Number::new("a number of cells"))?,
            "height" => self.height = map.next_value_seed(Number::new("a number of cells"))?,
            "goal" => self.goal = map.next_value_seed(Number::new("a state"))?,
            "walls" => self.walls = map.next_value_seed(Array::at(path, "a state"))?,
            _ => self.obstacles = map.next_value_seed(Array::at(path, "a state"))?,
        }
        Ok(())
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    open(out, mdp)?;
    writeln!(out, "}}")
}

/// Writes the object of a model without its closing brace, so that the caller can append keys.
pub fn open(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    write!(out, "{{\"S\":{}", mdp.states())?;
    match mdp.choices() {
        Choices::Uniform(actions) => field(out, "A", actions)?,
        Choices::Ragged(offsets) => field(out, "choices", &offsets[..])?,
    }
    field(out, "gamma", &mdp.gamma())?;
    field(out, "format", "CSR")?;
    if mdp.objective() != Objective::default() {
        field(out, "objective", &mdp.objective())?;
    }
    matrix(out, "P", mdp.transitions())?;
    matrix(out, "R", mdp.rewards())?;
    for (name, numbers) in [("ends", mdp.ends()), ("action_rewards", mdp.action_rewards())] {
        if !numbers.is_empty() {
            field(out, name, &numbers[..])?;
        }
    }
    if !mdp.labels().is_empty() {
        field(out, "labels", mdp.labels())?;
    }
    if let Some(ActionNames { names, of_row }) = mdp.action_names() {
        write!(out, ",\n\"action_names\":{{\"names\":")?;
        value(out, names)?;
        field(out, "of_row", of_row)?;
        write!(out, "}}")?;
    }
    if let Some(names) = mdp.state_names() {
        field(out, "state_names", names)?;
    }
    if let Some(grid) = mdp.grid() {
        field(out, "grid", grid)?;
    }
    Ok(())
}

/// Writes a comma, a key and its matrix.
pub fn matrix(out: &mut impl Write, name: &str, matrix: &Csr) -> io::Result<()> {
    write!(out, ",\n\"{name}\":{{\"indptr\":")?;
    value(out, &matrix.row_ptr()[..])?;
    field(out, "indices", &matrix.col()[..])?;
    field(out, "data", &matrix.val()[..])?;
    write!(out, "}}")
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Reader of a text in parts of random lengths. Fails at the end if the third field is true.
    struct Parts<'t>(&'t [u8], ChaCha8Rng, bool);

    impl Read for Parts<'_> {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() && self.2 {
                return Err(io::Error::other("the cable is out"));
            }
            let part = target.len().min(1 + self.1.next_u32() as usize % 100_000);
            self.0.read(&mut target[..part])
        }
    }

    fn parts(text: &str, fails: bool) -> Parts<'_> {
        Parts(text.as_bytes(), ChaCha8Rng::seed_from_u64(text.len() as u64), fails)
    }

    /// A chain of `states` states with long arrays in all number styles; `indices` is the content of the array of that
    /// name.
    fn chain(states: usize, indices: &str) -> String {
        let row_ptr: Vec<_> = (0..=states).map(|row| row.to_string()).collect();
        let ones = ["1", "1.0", "10e-1", "0.1E+1", "1000000000000000000000e-21"];
        let data: Vec<_> = (0..states).map(|row| ones[row % ones.len()]).collect();
        let (row_ptr, data) = (row_ptr.join(",\n"), data.join(", "));
        format!(
            r#"{{"S":{states},"A":1,"gamma":0.5,"P":{{"indptr":[{row_ptr}],"data":[ {data} ],"indices":[{indices}]}}}}"#
        )
    }

    /// Numbers from 0, with white space of all kinds around the commas.
    fn numbers(count: usize) -> Vec<String> {
        let style = |n: usize| match n {
            n if n % 1000 == 0 => format!("\n\t {n} "),
            n if n % 7 == 0 => format!(" {n}"),
            n if n % 11 == 0 => format!("\r\n{n}"),
            n => n.to_string(),
        };
        (0..count).map(style).collect()
    }

    const STATES: usize = 700_000;

    #[test]
    fn long_arrays_are_read_whole() {
        let mdp = read(parts(&chain(STATES, &numbers(STATES).join(",")), false), "text".into(), &mut |_| ()).unwrap();
        assert!(mdp.transitions().col()[..].iter().copied().eq(0..STATES as u32));
        assert!(mdp.transitions().row_ptr()[..].iter().copied().eq(0..=STATES as u64));
        assert!(mdp.transitions().val()[..].iter().all(|&p| p == 1.0));
    }

    #[test]
    fn errors_in_long_arrays_have_positions() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for (found, what) in [
            ("\"x\"", "found string \"x\", expected a column index"),
            ("-4", "found -4, expected a column index"),
            ("4294967296", "found 4294967296, expected a column index"),
            ("0.5", "found 0.5, expected a column index"),
            ("01", "invalid number"),
            ("", "expected value"),
            ("7 7", "expected `,` or `]`"),
        ] {
            for position in [0, 1, random.next_u32() as usize % STATES, STATES - 1] {
                let mut elements = numbers(STATES);
                elements[position] = found.to_owned();
                let before = chain(STATES, &(elements[..position].join(",") + if position == 0 { "" } else { "," }));
                let text = chain(STATES, &elements.join(","));
                // Position at which serde_json alone reports the error.
                let read_all = serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|e| (e.line(), e.column()));
                let end = before.len() - "]}}".len() + found.len();
                let line = 1 + text[..end].matches('\n').count();
                let place = (line, end - text[..end].rfind('\n').map_or(0, |last| last + 1));
                // The parser recognizes the end of a number at the byte after it.
                let past = usize::from(found.ends_with(|c: char| c.is_ascii_digit()));
                let (line, column) = read_all.err().unwrap_or((place.0, place.1 + past));
                let error = read(parts(&text, false), "text".into(), &mut |_| ()).err().unwrap().to_string();
                let what = if found.is_empty() && position == STATES - 1 { "trailing comma" } else { what };
                let position = if found == "7 7" { position + 1 } else { position };
                assert_eq!(error, format!("text:{line}:{column}: P.indices[{position}]: {what}"));
            }
        }
    }

    #[test]
    fn read_errors_are_reported() {
        let text = chain(STATES, &numbers(STATES).join(","));
        for end in [10, text.len() / 2, text.len() - 5] {
            let error = read(parts(&text[..end], true), "text".into(), &mut |_| ()).err().unwrap();
            assert!(matches!(error, Error::Read { .. }), "{error}");
            let error = read(parts(&text[..end], false), "text".into(), &mut |_| ()).err().unwrap();
            assert!(error.to_string().contains("EOF while parsing"), "{error}");
        }
    }
}
