//! The transition tables of Gymnasium's toy-text environments, `env.unwrapped.P`, in JSON.
//!
//! `P[s][a]` is an array of transitions `[p, s', r, done]`. States and actions are arrays, or objects with numbers as
//! keys, as `json.dumps` writes dictionaries. The document is the table itself, or an object with the table as `"P"`
//! and an optional `"gamma"`; γ is 1 without it. The process ends after a transition with `done`. A successor may occur
//! several times.
//!
//! The format has transition rewards only. The writer adds action rewards to every transition of the action, and
//! negates costs.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufReader, Read, Write};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use super::Error;
use crate::model::{ActionNames, Choices, Csr, Mdp, MdpParts};
use warpkov_common::io::BUFFER;
use warpkov_common::io::json::{is_note, plain, unknown_key};

/// Whether a document begins like a transition table, and like nothing else: four levels of arrays, or numbers as keys.
pub fn sniff(start: &[u8]) -> bool {
    let text: Vec<u8> = start.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    // In warpkov's own JSON format, P is an object of arrays with names, and tables of probabilities have three levels.
    let nested = |text: &[u8]| match text.strip_prefix(b"[") {
        Some(states) => {
            // States without actions and actions without transitions may come first, and fill all of `start`.
            let rest = inside(states).map(|actions| inside(actions).map(|transitions| transitions.starts_with(b"[")));
            !matches!(rest, Some(Some(false)))
        }
        None => text.strip_prefix(b"{\"").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit)),
    };
    let key = b"\"P\":";
    nested(&text)
        || text.windows(key.len()).position(|window| window == key).is_some_and(|at| nested(&text[at + key.len()..]))
}

/// What follows the bracket of the first element that is not empty, in an array without its bracket. `None` if the text ends before,
/// or all elements are empty.
fn inside(mut elements: &[u8]) -> Option<&[u8]> {
    while let Some(rest) = elements.strip_prefix(b"[],") {
        elements = rest;
    }
    match elements {
        [b'[', b']', ..] | [] | [b']', ..] => None,
        [b'[', rest @ ..] => (!rest.is_empty()).then_some(rest),
        // No array.
        other => Some(other),
    }
}

/// Reads a model without validation.
pub fn read(reader: impl Read, file: String) -> Result<MdpParts, Error> {
    let table = RefCell::new(Dynamics::default());
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(BUFFER, reader));
    let read = Document(&table).deserialize(&mut json).and_then(|()| json.end());
    let table = table.into_inner();
    match read {
        Ok(()) => table.into_model().map_err(|message| Error::Content { file, message }),
        Err(error) if error.is_io() => Err(Error::read(file)(error.into())),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let place: String = table.place.iter().map(|index| format!("[{index}]")).collect();
            let place = if place.is_empty() { place } else { format!("P{place}: ") };
            Err(Error::at(file, line, column, format!("{place}{}", plain(&error))))
        }
    }
}

/// The table read so far.
#[derive(Default)]
struct Dynamics {
    gamma: Option<f64>,
    /// 1 + the highest state number.
    states: u32,
    /// Number of states read, including states without actions.
    seen: u32,
    /// State and action of each row.
    rows: Vec<(u32, u32)>,
    /// Row, successor, probability, reward and `done`.
    transitions: Vec<(usize, u32, f64, f64, bool)>,
    /// Position of the parser: state, action and transition. Error messages show it.
    place: Vec<u32>,
}

impl Dynamics {
    fn into_model(mut self) -> Result<MdpParts, String> {
        if self.seen != self.states {
            return Err(format!(
                "P has {} states, and the highest is {}; expected consecutive states from 0",
                self.seen,
                self.states - 1
            ));
        }
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|&row| self.rows[row]);
        if let Some(same) = order.windows(2).find(|pair| self.rows[pair[0]] == self.rows[pair[1]]) {
            let (state, action) = self.rows[same[0]];
            return Err(format!("P[{state}][{action}] appears twice"));
        }
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| rank[old] = new);
        self.transitions.iter_mut().for_each(|transition| transition.0 = rank[transition.0]);
        // Groups the transitions by row, `done` and successor. Transitions with `done` come last in each row.
        self.transitions.sort_by_key(|&(row, successor, .., done)| (row, done, successor));

        let rows = order.len();
        let (mut row_ptr, mut rewards_ptr) = (vec![0; rows + 1], vec![0; rows + 1]);
        let (mut col, mut val, mut rewards_col, mut rewards_val) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut ends, mut earned) = (vec![0.0; rows], vec![0.0; rows]);
        for same in self.transitions.chunk_by(|a, b| (a.0, a.1, a.4) == (b.0, b.1, b.4)) {
            let (row, successor, _, first, done) = same[0];
            let p: f64 = same.iter().map(|transition| transition.2).sum();
            let pr: f64 = same.iter().map(|transition| transition.2 * transition.3).sum();
            if done {
                ends[row] += p;
                earned[row] += pr;
                continue;
            }
            row_ptr[row + 1] += 1;
            col.push(successor);
            val.push(p);
            let reward = if same.len() == 1 || p == 0.0 { first } else { pr / p };
            if reward != 0.0 {
                rewards_ptr[row + 1] += 1;
                rewards_col.push(successor);
                rewards_val.push(reward);
            }
        }
        for row in 0..rows {
            row_ptr[row + 1] += row_ptr[row];
            rewards_ptr[row + 1] += rewards_ptr[row];
        }

        let mut offsets = vec![0; self.states as usize + 1];
        self.rows.iter().for_each(|&(state, _)| offsets[state as usize + 1] += 1);
        for state in 0..self.states as usize {
            offsets[state + 1] += offsets[state];
        }
        let uniform = offsets[1..].windows(2).all(|ends| ends[1] - ends[0] == offsets[1])
            && offsets[self.states.min(1) as usize] > 0;
        let mut numbers: Vec<u32> = self.rows.iter().map(|&(_, action)| action).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let named = order.iter().enumerate().any(|(new, &old)| {
            let (state, action) = self.rows[old];
            u64::from(action) != new as u64 - offsets[state as usize]
        });
        let name = |&old: &usize| numbers.partition_point(|&number| number < self.rows[old].1) as u32;
        let used =
            |numbers: Vec<f64>| if numbers.iter().any(|&x| x != 0.0) { numbers.into() } else { Vec::new().into() };
        Ok(MdpParts {
            states: self.states,
            action_names: named.then(|| ActionNames {
                of_row: order.iter().map(name).collect(),
                names: numbers.iter().map(u32::to_string).collect(),
            }),
            choices: if uniform { Choices::Uniform(offsets[1] as u32) } else { Choices::Ragged(offsets.into()) },
            gamma: self.gamma.unwrap_or(1.0),
            transitions: Csr::built(row_ptr, col, val),
            rewards: Csr::built(rewards_ptr, rewards_col, rewards_val),
            ends: used(ends),
            action_rewards: used(earned),
            ..MdpParts::default()
        })
    }
}

/// Deserializes the table, or an object that holds it.
struct Document<'t>(&'t RefCell<Dynamics>);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a table P[s][a], or an object with P")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, states: A) -> Result<(), A::Error> {
        Level { table: self.0, depth: 0 }.visit_seq(states)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            let level = Level { table: self.0, depth: 0 };
            match &key[..] {
                "P" if found => return Err(A::Error::custom("key \"P\" appears twice")),
                "P" => map.next_value_seed(level)?,
                "gamma" => self.0.borrow_mut().gamma = Some(map.next_value()?),
                _ => match key.parse() {
                    Ok(state) => level.child(state, |child| map.next_value_seed(child))?,
                    Err(_) if is_note(&key) => map.next_value::<IgnoredAny>().map(|_| ())?,
                    Err(_) => return Err(A::Error::custom(unknown_key(&key, &["P", "gamma"]))),
                },
            }
            found |= key == "P" || key.parse::<u32>().is_ok();
        }
        if found { Ok(()) } else { Err(A::Error::custom("key \"P\" is missing")) }
    }
}

/// Deserializes one nesting level: 0, all states; 1, the actions of a state; 2, the transitions of an action; 3, a
/// transition.
#[derive(Clone, Copy)]
struct Level<'t> {
    table: &'t RefCell<Dynamics>,
    depth: usize,
}

const STATES: usize = 0;
const ACTIONS: usize = 1;
const TRANSITION: usize = 3;

impl Level<'_> {
    /// Reads the element `index`. On failure `place` keeps the position for the message.
    fn child<T, E>(self, index: u32, read: impl FnOnce(Self) -> Result<T, E>) -> Result<T, E> {
        {
            let mut table = self.table.borrow_mut();
            table.place.push(index);
            match self.depth {
                STATES => {
                    table.states = table.states.max(index.saturating_add(1));
                    table.seen += 1;
                }
                ACTIONS => {
                    let state = table.place[0];
                    table.rows.push((state, index));
                }
                _ => {}
            }
        }
        let value = read(Self { depth: self.depth + 1, ..self })?;
        self.table.borrow_mut().place.pop();
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self.depth {
            STATES => "the states",
            ACTIONS => "the actions of a state",
            TRANSITION => "a transition [p, s', r, done]",
            _ => "an array of transitions",
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        if self.depth == TRANSITION {
            let mut next =
                || elements.next_element_seed(Number)?.ok_or_else(|| A::Error::custom("expected [p, s', r, done]"));
            let (p, successor, reward, done) = (next()?, next()?, next()?, next()?);
            if elements.next_element::<IgnoredAny>()?.is_some() {
                return Err(A::Error::custom("found more than 4 elements, expected [p, s', r, done]"));
            }
            if successor.fract() != 0.0 || !(0.0..f64::from(u32::MAX)).contains(&successor) {
                return Err(A::Error::custom(format_args!("found {successor}, expected a state")));
            }
            let mut table = self.table.borrow_mut();
            let row = table.rows.len() - 1;
            table.transitions.push((row, successor as u32, p, reward, done != 0.0));
            return Ok(());
        }
        for index in 0.. {
            if self.child(index, |child| elements.next_element_seed(child))?.is_none() {
                // `child` counted an element that does not exist: undo that.
                let mut table = self.table.borrow_mut();
                match self.depth {
                    STATES => (table.states, table.seen) = (index, index),
                    ACTIONS => drop(table.rows.pop()),
                    _ => {}
                }
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth > ACTIONS {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        while let Some(key) = map.next_key::<String>()? {
            let index =
                key.parse().map_err(|_| A::Error::custom(format_args!("found key \"{key}\", expected a number")))?;
            self.child(index, |child| map.next_value_seed(child))?;
        }
        Ok(())
    }
}

/// Deserializes a number, or a boolean as 0 or 1.
struct Number;

impl<'de> DeserializeSeed<'de> for Number {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, or for done true or false")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<f64, E> {
        Ok(f64::from(u8::from(truth)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_i64<E>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    let mdp = &*mdp.to_maximize();
    write!(out, "{{\"gamma\":{},\n\"P\":[", serde_json::to_string(&mdp.gamma())?)?;
    for state in 0..mdp.states() as usize {
        write!(out, "{}", if state == 0 { "[" } else { ",\n[" })?;
        for (action, row) in mdp.choices().rows(state).enumerate() {
            write!(out, "{}", if action == 0 { "[" } else { ",[" })?;
            let (successors, probs) = mdp.transitions().row(row);
            let earned = mdp.action_reward(row);
            let going = successors.iter().zip(probs).zip(mdp.rewards_of(row));
            let going = going.map(|((&successor, &p), reward)| (p, successor, reward + earned, false));
            let done = Some((mdp.end(row), state as u32, earned, true)).filter(|(p, ..)| *p != 0.0);
            for (i, transition) in going.chain(done).enumerate() {
                write!(out, "{}{}", if i == 0 { "" } else { "," }, serde_json::to_string(&transition)?)?;
            }
            write!(out, "]")?;
        }
        write!(out, "]")?;
    }
    writeln!(out, "]}}")
}
