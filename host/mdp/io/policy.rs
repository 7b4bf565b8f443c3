//! The reader of policies.

use std::collections::{BTreeMap, HashMap};
use std::io::BufReader;
use std::path::Path;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::Value;

use super::Error;
use super::solved::{ACTIONS, entries};
use super::table::Table;
use crate::model::{Mdp, NO_ACTION};
use warpkov_common::io::BUFFER;
use warpkov_common::io::binary::of_file;
use warpkov_common::io::input::{Input, SNIFFED, plain_name};
use warpkov_common::io::json::{Unique, plain};
use warpkov_common::io::npy;
use warpkov_common::terminal::quoted;

/// Reads a policy of a model: for each state the number of its action, from 0 among the actions of the state, or
/// [`NO_ACTION`] for a state without actions. The file is one of:
///
/// - CSV with columns `state` and `action`, each a name or a number, in any order of rows, as `solve --out` writes it. Where it has
///   columns `state_number` and `action_number` as well, they stand for names that the model does not have.
/// - JSON: an array of actions in the order of the states, an object of actions under the names of their states, or an object with
///   one of these as `policy`. An action is a name, a number, or `null`.
/// - .npy, one dimension of integers.
/// - Text with a line `Optimal policy:` of numbers, `-` for none.
///
/// A plan has actions for each of T steps, and becomes T·|S| actions, step by step: CSV with a third column `step`, from 0; a JSON array of
/// arrays or objects; .npy of T × |S| integers.
///
/// Names win over numbers: an action "1" is the action of this name, if the state has one.
///
/// # Errors
/// The file cannot be read or has none of these formats; a state or an action is not one of the model; a state has no action, or
/// several. Messages name the line or the entry, and what was expected.
pub fn read_policy(path: &Path, mdp: &Mdp) -> Result<Vec<u32>, Error> {
    let file = path.display().to_string();
    let mut input = Input::open(path).map_err(of_file(file.clone()))?;
    let mut policy = Policy::new(mdp);
    let npy = plain_name(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
        || npy::sniff(input.start(SNIFFED).map_err(of_file(file.clone()))?);
    if npy {
        let tensor = npy::read::<i64>(&mut BufReader::with_capacity(BUFFER, input)).map_err(of_file(file.clone()))?;
        let content = |message| Error::Content { file: file.clone(), message };
        let columns = match tensor.shape[..] {
            [states] | [_, states] if states > 0 => states,
            _ => return Err(content(format!("is of shape {:?}, expected one action per state", tensor.shape))),
        };
        // The writer has `NO_ACTION` in 32 bits, other programs −1.
        let number = |number: &i64| u32::try_from(*number).unwrap_or(NO_ACTION);
        let step = |actions: &[i64]| {
            let given = actions.iter().map(|action| Given::Number(number(action)));
            policy.step(|step| step.in_order(given))
        };
        let steps: Result<Vec<_>, _> = tensor.elements.chunks(columns).map(step).collect();
        return Ok(steps.map_err(content)?.concat());
    }
    let text = input.read_text().map_err(of_file(file.clone()))?;
    let content = |message| Error::Content { file: file.clone(), message };
    if let [b'[' | b'{', ..] = text.trim_ascii_start().as_bytes() {
        let Unique(value) = serde_json::from_str(&text)
            .map_err(|error| Error::at(file.clone(), error.line(), error.column(), plain(&error)))?;
        return policy.json(value).map_err(content);
    } else if text.lines().any(|line| line.starts_with(ACTIONS)) {
        let number = |word: &str| match word {
            "-" => Some(Given::None),
            _ => word.parse().ok().map(Given::Number),
        };
        let actions = entries(&text, &file, ACTIONS, "an action", number).map_err(|error| error.in_file(&file))?;
        policy.in_order(actions.into_iter()).map_err(content)?;
    } else {
        return policy.csv(text.as_bytes(), &file);
    }
    policy.complete().map_err(content)
}

/// An action as a file gives it.
#[derive(Clone, Copy)]
enum Given<'t> {
    None,
    Number(u32),
    Name(&'t str),
}

impl<'t> From<&'t str> for Given<'t> {
    fn from(text: &'t str) -> Self {
        if text.is_empty() { Self::None } else { Self::Name(text) }
    }
}

/// The actions read so far.
struct Policy<'m> {
    mdp: &'m Mdp,
    /// States by name.
    states: Rc<HashMap<&'m str, u32>>,
    actions: Vec<Option<u32>>,
}

impl<'m> Policy<'m> {
    fn new(mdp: &'m Mdp) -> Self {
        let names = mdp.state_names().unwrap_or_default();
        let states = Rc::new(names.iter().map(String::as_str).zip(0..).collect());
        Self { mdp, states, actions: vec![None; mdp.states() as usize] }
    }

    /// A policy of which no action is read.
    fn fresh(&self) -> Self {
        Self { mdp: self.mdp, states: Rc::clone(&self.states), actions: vec![None; self.actions.len()] }
    }

    /// The actions that `read` sets: those of one step of a plan.
    fn step(&self, read: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<Vec<u32>, String> {
        let mut step = self.fresh();
        read(&mut step)?;
        step.complete()
    }

    /// The state of this name, or of this number.
    fn state(&self, text: &str) -> Option<u32> {
        let number = || text.parse().ok().filter(|&state| state < self.mdp.states());
        self.states.get(text).copied().or_else(number)
    }

    /// Sets the action of a state.
    fn set(&mut self, state: u32, given: Given<'_>) -> Result<(), String> {
        let count = self.mdp.choices().count(state as usize) as u32;
        let number = |number: u32| (number < count).then_some(number);
        let found = match given {
            Given::None | Given::Number(NO_ACTION) => (count == 0).then_some(NO_ACTION),
            Given::Number(found) => number(found),
            Given::Name(name) => self.action(state, name).or_else(|| number(name.parse().ok()?)),
        };
        let Some(action) = found else { return Err(self.no_action(state, given)) };
        let name = quoted(self.mdp.state_name(state).as_bytes());
        match self.actions[state as usize].replace(action) {
            Some(_) => Err(format!("state {name} has a second action, expected one action per state")),
            None => Ok(()),
        }
    }

    /// The action of a state with this name.
    fn action(&self, state: u32, name: &str) -> Option<u32> {
        let names = self.mdp.action_names()?;
        let mut rows = self.mdp.choices().rows(state as usize);
        let action = rows.position(|row| names.names[names.of_row[row] as usize] == name)?;
        Some(action as u32)
    }

    fn no_action(&self, state: u32, given: Given<'_>) -> String {
        /// Actions that a message lists.
        const SHOWN: u32 = 8;

        let quote = |name: String| quoted(name.as_bytes());
        let found = match given {
            Given::None | Given::Number(NO_ACTION) => "no action".to_owned(),
            Given::Number(number) => format!("action {number}"),
            Given::Name(name) => format!("action {}", quote(name.to_owned())),
        };
        let count = self.mdp.choices().count(state as usize) as u32;
        let expected = match count {
            0 => "none: it has no actions".to_owned(),
            _ if self.mdp.action_names().is_none() => format!("a number below {count}"),
            _ => {
                let shown = (0..count.min(SHOWN)).map(|action| quote(self.mdp.action_name(state, action)));
                let shown = shown.collect::<Vec<_>>().join(", ");
                let rest = if count > SHOWN { ", …" } else { "" };
                format!("one of {shown}{rest}, or a number below {count}")
            }
        };
        format!("found {found} of state {}, expected {expected}", quote(self.mdp.state_name(state)))
    }

    /// Sets the actions of all states in order.
    fn in_order<'t>(&mut self, given: impl ExactSizeIterator<Item = Given<'t>>) -> Result<(), String> {
        let (found, states) = (given.len(), self.mdp.states());
        if found != states as usize {
            return Err(format!("found {found} actions, expected one per state, {states}"));
        }
        (0..).zip(given).try_for_each(|(state, given)| self.set(state, given))
    }

    /// The actions of a JSON value, which may be those of several steps.
    fn json(&self, value: Value) -> Result<Vec<u32>, String> {
        #[derive(Deserialize)]
        struct Solved {
            policy: Value,
        }
        let named = |value: &Value| Solved::deserialize(value).ok();
        let value = match named(&value) {
            Some(Solved { policy }) if policy.is_array() || policy.is_object() => policy,
            _ => value,
        };
        match value {
            Value::Array(steps) if steps.first().is_some_and(|first| first.is_array() || first.is_object()) => {
                let steps = steps.into_iter().map(|actions| self.step(|step| step.json_step(actions)));
                steps.collect::<Result<Vec<_>, _>>().map(|steps| steps.concat())
            }
            actions => self.step(|step| step.json_step(actions)),
        }
    }

    /// Sets the actions of one step.
    fn json_step(&mut self, value: Value) -> Result<(), String> {
        let given = |value: &Value| match value {
            Value::Null => Ok(None),
            Value::String(name) => Ok(Some(Err(name.clone()))),
            Value::Number(number) => match number.as_u64().and_then(|number| u32::try_from(number).ok()) {
                Some(number) => Ok(Some(Ok(number))),
                None => Err(format!("found {number}, expected an action: its name or number")),
            },
            other => {
                Err(format!("found {}, expected an action: its name or number", quoted(other.to_string().as_bytes())))
            }
        };
        fn stated(given: &Option<Result<u32, String>>) -> Given<'_> {
            match given {
                None => Given::None,
                Some(Ok(number)) => Given::Number(*number),
                Some(Err(name)) => Given::Name(name),
            }
        }
        match value {
            Value::Array(actions) => {
                let actions: Vec<_> = actions.iter().map(given).collect::<Result<_, _>>()?;
                self.in_order(actions.iter().map(stated))
            }
            Value::Object(actions) => actions.iter().try_for_each(|(name, action)| {
                let state = self.state(name).ok_or_else(|| self.no_state(name))?;
                self.set(state, stated(&given(action)?))
            }),
            _ => Err("expected an array of actions or an object of states".to_owned()),
        }
    }

    fn no_state(&self, found: &str) -> String {
        let (found, states) = (quoted(found.as_bytes()), self.mdp.states());
        match self.mdp.state_names() {
            Some([first, ..]) => {
                let first = quoted(first.as_bytes());
                format!(
                    "found state {found}, expected one of the {states} names of states, such as {first}, or a number below {states}"
                )
            }
            _ => format!("found state {found}, expected a number below {states}"),
        }
    }

    fn csv(&self, text: &[u8], file: &str) -> Result<Vec<u32>, Error> {
        let optional = ["state_number", "action_number", "step"];
        let table = Table::open(text, file.to_owned(), &["state", "action"], &optional, true)?;
        let mut steps: BTreeMap<u32, Self> = BTreeMap::new();
        table.each(|_, [state, action, state_number, action_number, step]| {
            let found = self.state(state).or_else(|| self.state(state_number)).ok_or_else(|| self.no_state(state))?;
            let known = action.is_empty() || self.action(found, action).is_some() || action.parse::<u32>().is_ok();
            let number = if step.is_empty() { Ok(0) } else { step.parse() };
            let number = number.map_err(|_| format!("found step {}, expected a number", quoted(step.as_bytes())))?;
            let step = steps.entry(number).or_insert_with(|| self.fresh());
            step.set(found, if known || action_number.is_empty() { action } else { action_number }.into())
        })?;
        let content = |message| Error::Content { file: file.to_owned(), message };
        if let Some((missing, _)) = (0..).zip(steps.keys()).find(|(expected, step)| expected != *step) {
            return Err(content(format!("has no actions of step {missing}, expected all steps from 0 on")));
        }
        if steps.is_empty() {
            return self.fresh().complete().map_err(content);
        }
        steps
            .into_values()
            .map(Self::complete)
            .collect::<Result<Vec<_>, _>>()
            .map(|steps| steps.concat())
            .map_err(content)
    }

    /// The policy, if all states with actions have one.
    fn complete(self) -> Result<Vec<u32>, String> {
        let Self { mdp, actions, .. } = self;
        let missing = |(state, action): (usize, &Option<u32>)| action.is_none() && mdp.choices().count(state) > 0;
        if let Some(state) = actions.iter().enumerate().position(missing) {
            let name = mdp.state_name(state as u32);
            return Err(format!("state {} has no action, expected one for each state", quoted(name.as_bytes())));
        }
        Ok(actions.into_iter().map(|action| action.unwrap_or(NO_ACTION)).collect())
    }
}
