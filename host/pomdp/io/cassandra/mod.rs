//! Cassandra's `.pomdp` format, complete.
//!
//! The preamble has `discount`, `values`, `states`, `actions`, `observations` and `start` in any order. T, O and R
//! follow by entry, row or matrix, with `*` as wildcard, `uniform`, `identity` and `reset`. Unspecified entries are 0,
//! later settings override earlier ones, and white space and line ends have no meaning. Rows of T and O must sum to 1
//! within 10⁻⁵ and are rescaled. Without `values`, values are rewards; without `start`, all states are equally likely.
//! States may also be referred to by number.
//!
//! R(s, a, s', o) is reduced to its expectation over o. A file without `observations` is a Markov decision process: its
//! R has no observation, and the observation is the state itself.
//!
//! The writer uses names of states, actions and observations if the grammar [allows](nameable) them, and numbers
//! otherwise, and negated rewards for costs. Rows that sum to 1 within rounding error are read back bit for bit.

mod cursor;
mod rewards;
mod table;
mod write;

use std::collections::HashMap;

use self::cursor::Cursor;
use self::rewards::Rewards;
use self::table::{Table, Whole};
use super::Error;
use super::fault::Fault;
use crate::belief::Belief;
use crate::model::{Names, PomdpParts, scaled};
use warpkov_common::io::lines::quoted;
use warpkov_common::memory;
use warpkov_common::parameters::SUM_TOLERANCE;
use warpkov_mdp::model::{Choices, Csr, MdpParts, Objective};

pub use self::write::{nameable, write};

/// The wildcard `*`.
const ALL: u32 = u32::MAX;

/// Maximum number of state-action pairs, and of nonzeros of T and of O.
const MAX_ENTRIES: u32 = 1 << 28;

/// A byte offset in the file.
type ByteOffset = u64;

/// Reads a model without validation.
pub fn read(text: &[u8], file: String) -> Result<PomdpParts, Error> {
    let mut reader = Reader { cursor: Cursor::new(text), end: text.len(), ..Reader::default() };
    reader.read().and_then(|()| reader.model()).map_err(|fault| fault.error(file, text))
}

/// A declared set: states, actions or observations.
struct Things<'t> {
    /// Singular noun for messages, e.g. `state`.
    kind: &'static str,
    count: u32,
    names: HashMap<&'t [u8], u32>,
}

impl<'t> Things<'t> {
    /// All names in order of index.
    fn list(&self) -> Vec<String> {
        let mut list = vec![String::new(); self.names.len()];
        for (name, &i) in &self.names {
            list[i as usize] = String::from_utf8_lossy(name).into_owned();
        }
        list
    }

    /// The description of an element in messages.
    fn describe(&self, i: u32) -> String {
        let name = self.names.iter().find(|(_, at)| **at == i).map(|(name, _)| quoted(name));
        format!("{} {}", self.kind, name.unwrap_or_else(|| i.to_string()))
    }

    /// Reads an element by name or number.
    #[inline]
    fn one(&self, cursor: &mut Cursor<'t>) -> Result<u32, Fault> {
        let word = cursor.word();
        let found = match word {
            [b'0'..=b'9', ..] if word.len() < 10 => word.iter().try_fold(0, |number, byte| {
                let digit = byte.wrapping_sub(b'0');
                (digit < 10).then_some(10 * number + u32::from(digit))
            }),
            _ => self.names.get(word).copied(),
        };
        found.filter(|&i| i < self.count).ok_or_else(|| self.unknown(cursor, word))
    }

    /// Reads an element or the wildcard.
    #[inline]
    fn one_or_all(&self, cursor: &mut Cursor<'t>) -> Result<u32, Fault> {
        if cursor.peek() == Some(b'*') {
            cursor.at += 1;
            return Ok(ALL);
        }
        self.one(cursor)
    }

    #[cold]
    fn unknown(&self, cursor: &mut Cursor<'t>, word: &[u8]) -> Fault {
        cursor.at -= word.len();
        let named = if self.names.is_empty() { "" } else { " by its name, or" };
        cursor.unexpected(&format!("the {}{named} by a number below {}", self.kind, self.count))
    }
}

#[derive(Default)]
struct Reader<'t> {
    cursor: Cursor<'t>,
    end: usize,
    discount: Option<f64>,
    objective: Option<Objective>,
    states: Option<Things<'t>>,
    actions: Option<Things<'t>>,
    observations: Option<Things<'t>>,
    /// Offset behind the word `start`.
    start: Option<usize>,
    body: Option<Body>,
}

/// The settings of T, O and R.
struct Body {
    transitions: Table,
    observations: Table,
    rewards: Rewards,
}

impl<'t> Reader<'t> {
    fn read(&mut self) -> Result<(), Fault> {
        while self.cursor.peek().is_some() {
            let at = self.cursor.at;
            let word = self.cursor.word();
            match word {
                b"T" => self.transition(at)?,
                b"O" => self.observation(at)?,
                b"R" => self.reward(at)?,
                _ => self.preamble(word, at)?,
            }
        }
        Ok(())
    }

    fn preamble(&mut self, word: &'t [u8], at: usize) -> Result<(), Fault> {
        let twice = match word {
            b"discount" => self.discount.is_some(),
            b"values" => self.objective.is_some(),
            b"states" => self.states.is_some(),
            b"actions" => self.actions.is_some(),
            b"observations" => self.observations.is_some(),
            b"start" => self.start.is_some(),
            _ => {
                self.cursor.at = at;
                let expected = match self.body {
                    Some(_) => "T, O or R",
                    None => "discount, values, states, actions, observations, start, T, O or R",
                };
                return Err(self.cursor.unexpected(expected));
            }
        };
        let word = String::from_utf8_lossy(word);
        if twice {
            return Err(Fault::new(at, format!("{word} appears twice")));
        }
        if self.body.is_some() && word != "start" {
            return Err(Fault::new(at, format!("{word} after T, O or R, expected it before them")));
        }
        if word == "start" {
            self.start = Some(self.cursor.at);
            // `start` may precede `states`, so its value is parsed at the end.
            let _ = self.cursor.takes(b"include") || self.cursor.takes(b"exclude");
            self.cursor.takes_colon();
            self.cursor.names();
            return Ok(());
        }
        self.cursor.colon()?;
        match &*word {
            "discount" => {
                let (at, discount) = (self.cursor.place(), self.cursor.signed("γ")?);
                if !(0.0..=1.0).contains(&discount) {
                    return Err(Fault::new(at, format!("found {discount}, expected γ in [0, 1]")));
                }
                self.discount = Some(discount);
            }
            "values" => {
                self.objective = Some(match self.cursor.next_word() {
                    b"reward" => Objective::Maximize,
                    b"cost" => Objective::Minimize,
                    _ => return Err(self.cursor.unexpected("reward or cost")),
                });
                self.cursor.word();
            }
            "states" => self.states = Some(self.things("state")?),
            "actions" => self.actions = Some(self.things("action")?),
            _ => self.observations = Some(self.things("observation")?),
        }
        Ok(())
    }

    /// Reads a number of elements, or their names.
    fn things(&mut self, kind: &'static str) -> Result<Things<'t>, Fault> {
        let at = self.cursor.place();
        let words = self.cursor.names();
        let unexpected = |at: usize, word: &[u8], expected: &str| {
            Fault::new(at, format!("found `{}`, expected {expected}", quoted(word)))
        };
        let mut names = HashMap::new();
        let count = match words[..] {
            [] => {
                self.cursor.at = at;
                return Err(self.cursor.unexpected(&format!("the names or the number of {kind}s")));
            }
            [(at, word), ref rest @ ..] if word.iter().all(u8::is_ascii_digit) => {
                if let Some((at, word)) = rest.first() {
                    return Err(unexpected(*at, word, "the next section"));
                }
                let count = str::from_utf8(word).ok().and_then(|text| text.parse().ok());
                count
                    .filter(|count| (1..=MAX_ENTRIES).contains(count))
                    .ok_or_else(|| unexpected(at, word, &format!("a number from 1 to {MAX_ENTRIES}")))?
            }
            _ => {
                for (i, (at, word)) in words.iter().enumerate() {
                    if !(word[0].is_ascii_alphabetic() || word[0] == b'_' || word[0] >= 0x80) {
                        return Err(unexpected(
                            *at,
                            word,
                            &format!("the name of a {kind}, which begins with a letter"),
                        ));
                    }
                    if names.insert(*word, i as u32).is_some() {
                        return Err(Fault::new(*at, format!("the {kind} `{}` appears twice", quoted(word))));
                    }
                }
                words.len() as u32
            }
        };
        Ok(Things { kind, count, names })
    }

    /// States, actions, observations and the settings. Fails unless states and actions are declared before T, O or R at
    /// offset `at`.
    fn parts(&mut self, at: usize) -> Result<(&mut Cursor<'t>, [&Things<'t>; 3], &mut Body), Fault> {
        let (states, actions) = match (&self.states, &self.actions) {
            (Some(states), Some(actions)) => (states, actions),
            (None, _) => return Err(Fault::new(at, "states are not declared, expected `states:` before T, O and R")),
            _ => return Err(Fault::new(at, "actions are not declared, expected `actions:` before T, O and R")),
        };
        if u64::from(states.count) * u64::from(actions.count) > u64::from(MAX_ENTRIES) {
            let (states, actions) = (states.count, actions.count);
            return Err(Fault::new(
                at,
                format!("{states} states and {actions} actions make more than {MAX_ENTRIES} pairs"),
            ));
        }
        let observations = self.observations.as_ref().unwrap_or(states);
        let body = self.body.get_or_insert_with(|| Body {
            transitions: Table::new("T", actions.count, states.count, states.count),
            observations: Table::new("O", actions.count, states.count, observations.count),
            rewards: Rewards::new(states.count, actions.count),
        });
        Ok((&mut self.cursor, [states, actions, observations], body))
    }

    fn transition(&mut self, at: usize) -> Result<(), Fault> {
        let (cursor, [states, actions, _], body) = self.parts(at)?;
        matrix(cursor, at, &mut body.transitions, states, actions, states)
    }

    fn observation(&mut self, at: usize) -> Result<(), Fault> {
        if self.observations.is_none() {
            return Err(Fault::new(at, "observations are not declared, expected `observations:` before O"));
        }
        let (cursor, [states, actions, observations], body) = self.parts(at)?;
        matrix(cursor, at, &mut body.observations, states, actions, observations)
    }

    fn reward(&mut self, at: usize) -> Result<(), Fault> {
        let process = self.observations.is_none();
        let (cursor, [states, actions, observations], Body { rewards, .. }) = self.parts(at)?;
        const EXPECTED: &str = "a reward";
        // Without observations, all rewards hold for any observation.
        let kinds: &[_] = if process { &[actions, states, states] } else { &[actions, states, states, observations] };
        let mut given = [ALL; 4];
        let mut length = 0;
        for kind in kinds {
            // An action is required; with observations, so is at least one state.
            let more = if length == 0 { cursor.colon().map(|()| true)? } else { cursor.takes_colon() };
            if !more {
                break;
            }
            given[length] = kind.one_or_all(cursor)?;
            length += 1;
        }
        match kinds.len() - length {
            0 => {
                let at = cursor.place();
                rewards.set(given, at as ByteOffset, cursor.signed(EXPECTED)?);
            }
            missing @ (1 | 2) => {
                // Entries of the row or matrix that are not set below are 0.
                rewards.set(given, at as ByteOffset, 0.0);
                let last = kinds[kinds.len() - 1].count;
                let rows = if missing == 2 { kinds[length].count } else { 1 };
                for row in 0..rows {
                    for column in 0..last {
                        let at = cursor.place();
                        let value = cursor.signed(EXPECTED)?;
                        if value != 0.0 {
                            if missing == 2 {
                                given[length] = row;
                            }
                            given[kinds.len() - 1] = column;
                            rewards.set(given, at as ByteOffset, value);
                        }
                    }
                }
            }
            _ => return Err(cursor.unexpected("`:` and a state")),
        }
        Ok(())
    }

    fn model(mut self) -> Result<PomdpParts, Fault> {
        let end = self.end;
        let missing = |what: &str| Fault::new(end, format!("the file ends, expected {what}"));
        self.parts(end)?;
        let (Some(Body { transitions, observations, rewards }), Some(states), Some(actions)) =
            (self.body, self.states, self.actions)
        else {
            return Err(missing("T, O and R"));
        };
        let gamma = self.discount.ok_or_else(|| missing("`discount:` at its beginning"))?;
        // Before any large allocation: an empty T needs no memory.
        if transitions.is_empty() {
            return Err(missing("T"));
        }
        let (transitions, observations) = (transitions.sorted(end)?, observations.sorted(end)?);
        fits(transitions.bytes() + observations.bytes(), end)?;
        let start = start_belief(&mut self.cursor, self.start, &states)?;
        let describe = |action, state| format!("{} in {}", actions.describe(action), states.describe(state));
        let transitions = scaled(transitions.rows(&start, end, describe)?);
        let (observation_count, observations, observation_names) = match &self.observations {
            Some(things) => {
                let describe = |action, state| format!("{} to {}", actions.describe(action), states.describe(state));
                (things.count, scaled(observations.rows(&start, end, describe)?), things.list())
            }
            None => (states.count, seen(states.count, actions.count), states.list()),
        };
        let (rewards, action_rewards) = rewards.reduced(&transitions, &observations, observation_count);
        let names = Names { states: states.list(), actions: actions.list(), observations: observation_names };
        let process = MdpParts {
            states: states.count,
            choices: Choices::Uniform(actions.count),
            gamma,
            objective: self.objective.unwrap_or_default(),
            transitions,
            rewards,
            action_rewards: action_rewards.into(),
            ..MdpParts::default()
        };
        Ok(PomdpParts { process, observation_count, observations, start, names, ..PomdpParts::default() })
    }
}

/// Checks that a model of which T and O have so many `bytes` can be solved in the memory that there is. A short text may declare much, by
/// wildcards, `uniform` and `identity`; `end` is its length. A solve holds T and O by rows and by columns, and vectors of all states.
fn fits(bytes: u64, end: usize) -> Result<(), Fault> {
    const COPIES: u64 = 6;

    let (needed, gib) = (COPIES.saturating_mul(bytes), |bytes: u64| bytes as f64 / f64::from(1 << 30));
    match memory::available() {
        Some(available) if bytes / 16 > end as u64 && needed > available => {
            let (needed, available) = (gib(needed), gib(available));
            let message =
                format!("a solve would need about {needed:.1} GiB of memory, and {available:.1} GiB are available");
            Err(Fault::new(end, message))
        }
        _ => Ok(()),
    }
}

/// Parses the start belief behind offset `at`; uniform without `start`.
fn start_belief<'t>(cursor: &mut Cursor<'t>, at: Option<usize>, states: &Things<'t>) -> Result<Belief, Fault> {
    let everywhere = || Belief::uniform((0..states.count).collect());
    let Some(at) = at else { return Ok(everywhere()) };
    cursor.at = at;
    let (include, exclude) = (cursor.takes(b"include"), cursor.takes(b"exclude"));
    cursor.colon()?;
    let at = cursor.place();
    let words = cursor.names();
    let end = cursor.at;
    cursor.at = at;
    if include || exclude {
        let mut listed = vec![false; states.count as usize];
        while cursor.place() < end {
            listed[states.one(cursor)? as usize] = true;
        }
        let starts: Vec<_> = (0..states.count).filter(|&state| listed[state as usize] == include).collect();
        if starts.is_empty() {
            return Err(Fault::new(at, "the start belief has no state"));
        }
        return Ok(Belief::uniform(starts));
    }
    let belief = match words[..] {
        [(_, b"uniform"), ..] => {
            cursor.word();
            everywhere()
        }
        // A single integer is a state, except in a model with one state, where it is a probability.
        [(_, word)] if states.count > 1 && word.iter().all(u8::is_ascii_digit) => Belief::at(states.one(cursor)?),
        [(_, [b'0'..=b'9' | b'.' | b'+' | b'-', ..]), ..] => {
            let mut belief = Belief::default();
            for state in 0..states.count {
                let prob = cursor.probability(SUM_TOLERANCE)?;
                if prob > 0.0 {
                    belief.push(state, prob);
                }
            }
            let sum = belief.sum();
            if (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(Fault::new(at, format!("the start belief sums to {sum}, expected 1")));
            }
            belief
        }
        _ => Belief::at(states.one(cursor)?),
    };
    if cursor.place() < end {
        return Err(cursor.unexpected("the next section"));
    }
    Ok(belief)
}

/// O of an observed state.
fn seen(states: u32, actions: u32) -> Csr {
    let rows = u64::from(states) * u64::from(actions);
    let col: Vec<u32> = (0..actions).flat_map(|_| 0..states).collect();
    let val = vec![1.0; col.len()];
    Csr::built((0..=rows).collect::<Vec<_>>(), col, val)
}

/// Reads the settings behind `T` or `O`.
fn matrix<'t>(
    cursor: &mut Cursor<'t>,
    at: usize,
    table: &mut Table,
    states: &Things<'t>,
    actions: &Things<'t>,
    columns: &Things<'t>,
) -> Result<(), Fault> {
    cursor.colon()?;
    let action = actions.one_or_all(cursor)?;
    let state = if cursor.takes_colon() { Some(states.one_or_all(cursor)?) } else { None };
    if state.is_some() && cursor.takes_colon() {
        let column = columns.one_or_all(cursor)?;
        let value = cursor.probability(SUM_TOLERANCE)?;
        let state = state.unwrap_or(ALL);
        match column {
            ALL => table.set_row(action, state, Whole::Fill(value), at as ByteOffset),
            column => table.set(action, state, column, at as ByteOffset, value),
        }
        return Ok(());
    }
    let place = cursor.place() as ByteOffset;
    let rows = state.unwrap_or(ALL);
    if cursor.takes(b"uniform") {
        table.set_row(action, rows, Whole::Fill(1.0 / f64::from(columns.count)), place);
        return Ok(());
    }
    if state.is_none() && states.count == columns.count && cursor.takes(b"identity") {
        table.set_row(action, ALL, Whole::Identity, place);
        return Ok(());
    }
    if state.is_some() && columns.kind == "state" && cursor.takes(b"reset") {
        table.set_row(action, rows, Whole::Start, place);
        return Ok(());
    }
    // Entries of the row or matrix that are not set below are 0.
    table.set_row(action, rows, Whole::Fill(0.0), at as ByteOffset);
    let count = if state.is_none() { states.count } else { 1 };
    for row in 0..count {
        for column in 0..columns.count {
            let place = cursor.place();
            let value = cursor.probability(SUM_TOLERANCE)?;
            if value != 0.0 {
                table.set(action, if state.is_none() { row } else { rows }, column, place as ByteOffset, value);
            }
        }
    }
    Ok(())
}
