//! The plain-text format of Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), Appendix A.2.
//!
//! `S:id:value:actions` begins a state, `A:id:divergences` begins an action of it, and `D:successor:probability:reward`
//! is an outcome of the action. States come in any order, each once. An action id has the same meaning in all states,
//! and a state may lack some actions: ids other than 0, 1, 2 and so on become action names. The reader ignores initial
//! values, and the writer writes 0. The format has no discount factor: γ = 0.9, as in the source.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use super::Error;
use super::rows::{RowsBuilder, without_ends};
use crate::model::{Mdp, MdpParts};
use warpkov_common::io::lines::{Line, Lines, Put};

/// γ of the source's experiments, section 6.2.
pub const GAMMA: f64 = 0.9;

/// Builds a model from states, actions and outcomes in file order. The XML reader uses it, too.
#[derive(Default)]
pub struct Domain {
    rows: RowsBuilder,
    /// All states so far once they come out of order; empty until then.
    ids: Vec<u32>,
    /// Number of states so far.
    states: u32,
    /// The last state.
    state: u32,
    /// Action ids of the last state so far.
    actions: BTreeSet<u32>,
    /// The largest successor and its line.
    largest: Option<(u32, u64)>,
}

impl Domain {
    /// Begins a state.
    pub fn state(&mut self, id: u32) {
        if self.ids.is_empty() && id != self.states {
            self.ids.extend(0..self.states);
        }
        if !self.ids.is_empty() || id != self.states {
            self.ids.push(id);
        }
        self.state = id;
        self.states += 1;
        self.actions.clear();
    }

    /// Begins an action of the last state.
    ///
    /// # Errors
    /// The state already has this action.
    pub fn action(&mut self, id: u32, name: Option<&str>) -> Result<(), String> {
        let action = self.actions.len() as u32;
        if !self.actions.insert(id) {
            return Err(format!("found action {id} of state {} twice", self.state));
        }
        self.rows.begin(self.state, action);
        match name {
            Some(name) => self.rows.named(name),
            None => self.rows.named(itoa::Buffer::new().format(id)),
        }
        Ok(())
    }

    /// Adds an outcome, from this line of the file, to the last action.
    #[inline]
    pub fn outcome(&mut self, successor: u32, prob: f64, reward: f64, line: u64) {
        if self.largest.is_none_or(|(largest, _)| successor > largest) {
            self.largest = Some((successor, line));
        }
        self.rows.entry(successor, prob, reward);
    }

    /// Builds the model without validation.
    pub fn into_model(mut self, file: &str) -> Result<MdpParts, Error> {
        let (states, file) = (self.states, file.to_owned());
        self.ids.sort_unstable();
        if let Some((expected, &found)) = (0..).zip(&self.ids).find(|(expected, found)| expected != *found) {
            let message = match found < expected {
                true => format!("found state {found} twice"),
                false => format!("found state {found}, but no state {expected}"),
            };
            return Err(Error::Content { file, message });
        }
        if let Some((found, line)) = self.largest.filter(|(largest, _)| *largest >= states) {
            let message = format!("found the successor {found}, expected one of the {states} states");
            return Err(Error::Line { file, line, message });
        }
        let mdp = self.rows.into_model(states);
        let mdp = mdp.map_err(|gap| Error::Content { file, message: gap.to_string() })?;
        Ok(MdpParts { gamma: GAMMA, ..mdp })
    }
}

/// Reads a model without validation.
pub fn read(reader: impl Read, file: String) -> Result<MdpParts, Error> {
    let mut lines = Lines::new(reader, file);
    let mut domain = Domain::default();
    // Actions still to come for the state, and outcomes for the action.
    let (mut actions, mut outcomes) = (0u32, 0u32);
    while let Some(mut line) = lines.next()? {
        let kind = line.field(b':');
        let due = if outcomes > 0 {
            "D"
        } else if actions > 0 {
            "A"
        } else {
            "S"
        };
        if kind != due.as_bytes() {
            return Err(line.unexpected(kind, due_text(actions, outcomes)));
        }
        match kind {
            b"D" => {
                let (successor, prob, reward) = (line.field(b':'), line.field(b':'), line.field(b':'));
                let successor = line.integer(successor, "a state")?;
                let prob = line.real(prob, "a probability")?;
                domain.outcome(successor, prob, line.real(reward, "a reward")?, line.number());
                outcomes -= 1;
            }
            b"A" => {
                let id = line.field(b':');
                let id = line.integer(id, "the id of an action")?;
                outcomes = count(&mut line, "divergences")?;
                domain.action(id, None).map_err(|message| line.error(message))?;
                actions -= 1;
            }
            _ => {
                let (id, value) = (line.field(b':'), line.field(b':'));
                let id = line.integer(id, "the id of a state")?;
                line.real(value, "an initial value")?;
                actions = count(&mut line, "actions")?;
                domain.state(id);
            }
        }
        line.finish()?;
    }
    if actions > 0 || outcomes > 0 {
        return Err(lines.ended(due_text(actions, outcomes)));
    }
    domain.into_model(lines.file())
}

fn count(line: &mut Line<'_>, what: &str) -> Result<u32, Error> {
    let count = line.field(b':');
    line.integer(count, format_args!("a number of {what}"))
}

fn due_text(actions: u32, outcomes: u32) -> String {
    match (actions, outcomes) {
        (0, 0) => "S: a state".to_owned(),
        (left, 0) => format!("A: {left} more actions of the state"),
        (_, left) => format!("D: {left} more divergences of the action"),
    }
}

/// Returns a function from a row and the action's index in its state to the action id. The id is the action name if all
/// names are numbers, else the index of the name; without names it is the index in the state.
pub fn action_ids(mdp: &Mdp) -> impl Fn(usize, usize) -> u32 {
    let names = mdp.action_names();
    let ids = names.map(|names| {
        let parsed = names.names.iter().map(|name| name.parse().ok());
        let parsed: Option<Vec<u32>> = parsed.collect();
        parsed.unwrap_or_else(|| (0..names.names.len() as u32).collect())
    });
    move |row, action| match (names, &ids) {
        (Some(names), Some(ids)) => ids[names.of_row[row] as usize],
        _ => action as u32,
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    let mdp = &*without_ends(mdp);
    let id = action_ids(mdp);
    for state in 0..mdp.states() as usize {
        let rows = mdp.choices().rows(state);
        put(out, "S:", &[state as u64, 0, rows.len() as u64])?;
        out.text("\n")?;
        for (action, row) in rows.enumerate() {
            let (successors, probs) = mdp.transitions().row(row);
            put(out, "A:", &[id(row, action).into(), successors.len() as u64])?;
            out.text("\n")?;
            for ((&successor, &prob), reward) in successors.iter().zip(probs).zip(mdp.rewards_of(row)) {
                put(out, "D:", &[successor.into()])?;
                for number in [prob, reward + mdp.action_reward(row)] {
                    out.text(":")?;
                    out.real(number)?;
                }
                out.text("\n")?;
            }
        }
    }
    Ok(())
}

fn put(out: &mut impl Write, kind: &str, numbers: &[u64]) -> io::Result<()> {
    out.text(kind)?;
    for (i, &number) in numbers.iter().enumerate() {
        out.text(if i > 0 { ":" } else { "" })?;
        out.integer(number)?;
    }
    Ok(())
}
