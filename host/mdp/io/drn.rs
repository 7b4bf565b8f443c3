//! DRN, the explicit text format of the Storm model checker: an MDP or a DTMC in one file.
//!
//! The header consists of sections. After `@model` follow, per state, a line `state 0 [1] init` (rewards and labels);
//! per action, a line `action up [0.5]` (name and rewards); per transition, a line `3 : 1/3`. States are numbered from
//! 0, in order. Source: <https://www.stormchecker.org/documentation/background/drn.html>.
//!
//! The format has no discount factor: γ = 1. The reader takes one reward model, the first unless the caller names
//! another. A state without actions is terminal. Storm allows no such states: the writer gives each a self-loop and the
//! label `deadlock`, as Storm itself does. The writer replaces transition rewards by the expected reward of their
//! action.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};

use super::Error;
use super::rows::{Labels, RowsBuilder, name_of, without_ends};
use crate::model::{Mdp, MdpParts};
use warpkov_common::io::lines::{Line, Lines, Put, no_place, no_reward, real};

/// Storm's label of a state without actions, to which it adds a self-loop.
const DEADLOCK: &str = "deadlock";

/// Storm's name for an action without a name.
const UNNAMED: &str = "__NOLABEL__";

/// Content of the header.
#[derive(Default)]
struct Header {
    states: Option<u32>,
    choices: Option<u64>,
    rewards: Vec<String>,
    placeholders: HashMap<Vec<u8>, f64>,
}

/// Reads a model without validation.
pub fn read(reader: impl Read, file: String, reward: Option<&str>) -> Result<MdpParts, Error> {
    let mut lines = Lines::new(reader, file);
    let header = header(&mut lines)?;
    let reward = match reward {
        None => 0,
        Some(name) => header
            .rewards
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| no_reward(lines.file(), &header.rewards, name))?,
    };
    Body { header, reward, ..Body::default() }.read(&mut lines)
}

fn header<R: Read>(lines: &mut Lines<R>) -> Result<Header, Error> {
    let mut header = Header::default();
    let (mut section, mut typed) = (Vec::new(), false);
    while let Some(mut line) = lines.next()? {
        if line.rest().starts_with(b"//") {
            continue;
        }
        if line.rest().starts_with(b"@") {
            section = line.field(b':').to_vec();
            let value = line.rest().trim_ascii();
            match &section[..] {
                b"@type" if matches!(value, b"MDP" | b"mdp" | b"DTMC" | b"dtmc") => typed = true,
                b"@type" => return Err(line.unexpected(value, "MDP or DTMC")),
                b"@value_type" if matches!(value, b"double" | b"rational") => {}
                b"@value_type" => return Err(line.unexpected(value, "double or rational")),
                b"@model" if !typed => return Err(line.error("found @model, expected @type: MDP before".to_owned())),
                b"@model" if header.states.is_none() => {
                    return Err(line.error("found @model, expected @nr_states before".to_owned()));
                }
                b"@model" => return Ok(header),
                b"@parameters" | b"@placeholders" | b"@reward_models" | b"@nr_states" | b"@nr_choices" => {}
                found => return Err(line.unexpected(found, "a section of a DRN file")),
            }
            continue;
        }
        match &section[..] {
            b"@parameters" => {
                return Err(
                    line.unexpected(line.rest(), "no parameters: a model with values in place of all parameters")
                );
            }
            b"@placeholders" => {
                let name = line.field(b':').to_vec();
                let value = line.rest().trim_ascii();
                let value = line.real(value, "a number")?;
                header.placeholders.insert(name, value);
            }
            b"@reward_models" => {
                while !line.rest().is_empty() {
                    let name = line.word();
                    header.rewards.push(line.utf8(name)?.to_owned());
                }
            }
            b"@nr_states" => header.states = Some(line.integer(line.rest(), "a number of states")?),
            b"@nr_choices" => header.choices = Some(line.integer(line.rest(), "a number of choices")?),
            _ => return Err(line.unexpected(line.rest(), "a section of a DRN file, such as @type: MDP")),
        }
    }
    Err(lines.ended("@model"))
}

/// Parser state for the lines after the header.
#[derive(Default)]
struct Body {
    header: Header,
    /// Index of the reward model to read.
    reward: usize,
    rows: RowsBuilder,
    labels: BTreeMap<String, Vec<u32>>,
    /// States read so far.
    states: u32,
    /// Actions of the last state read so far.
    actions: u32,
    /// Reward of the last state.
    state_reward: f64,
}

impl Body {
    fn read<R: Read>(mut self, lines: &mut Lines<R>) -> Result<MdpParts, Error> {
        let states = self.header.states.unwrap_or_default();
        while let Some(mut line) = lines.next()? {
            // Most lines are transitions.
            if line.rest()[0].is_ascii_digit() {
                let successor = line.field(b':');
                let successor = line.state(successor, states)?;
                if self.actions == 0 {
                    self.action(&line, "")?;
                }
                let prob = self.value(&line, line.rest().trim_ascii(), "a probability")?;
                self.rows.entry(successor, prob, 0.0);
                continue;
            }
            match line.word() {
                b"action" => {
                    let name = line.word();
                    let name = line.utf8(name)?;
                    self.action(&line, if name == UNNAMED { "" } else { name })?;
                    let reward = self.rewards(&mut line)?;
                    self.rows.earns(reward);
                    line.finish()?;
                }
                b"state" => self.state(line, states)?,
                word if word.starts_with(b"//") => {}
                found => return Err(line.unexpected(found, "a state, an action or a transition")),
            }
        }
        if self.states < states {
            return Err(lines.ended(format_args!("state {} of {states}", self.states)));
        }
        let (found, file) = (self.rows.parts() as u64, lines.file().to_owned());
        self.check_terminal().map_err(|message| Error::Content { file: file.clone(), message })?;
        if let Some(expected) = self.header.choices.filter(|&expected| expected != found) {
            let message = format!("found {found} actions, expected {expected}, as @nr_choices says");
            return Err(Error::Content { file, message });
        }
        let mdp = self.rows.into_model(states).map_err(|gap| Error::Content { file, message: gap.to_string() })?;
        Ok(MdpParts { labels: self.labels, ..mdp })
    }

    fn state(&mut self, mut line: Line<'_>, states: u32) -> Result<(), Error> {
        self.check_terminal().map_err(|message| line.error(message))?;
        let id = line.word();
        if self.states == states {
            return Err(line.unexpected(id, format_args!("no more than {states} states")));
        }
        if line.integer::<u32>(id, "a state")? != self.states {
            return Err(line.unexpected(id, format_args!("state {}", self.states)));
        }
        self.state_reward = self.rewards(&mut line)?;
        while !line.rest().is_empty() {
            let label = if line.rest().starts_with(b"\"") {
                line.skip(1);
                let length = memchr::memchr(b'"', line.rest());
                let length =
                    length.ok_or_else(|| line.unexpected(line.rest(), "a label and a closing quotation mark"))?;
                let label = &line.rest()[..length];
                line.skip(length + 1);
                label
            } else {
                line.word()
            };
            let label = line.utf8(label)?;
            match self.labels.get_mut(label) {
                Some(members) if members.last() == Some(&self.states) => {}
                Some(members) => members.push(self.states),
                None => drop(self.labels.insert(label.to_owned(), vec![self.states])),
            }
        }
        self.states += 1;
        self.actions = 0;
        Ok(())
    }

    /// Checks that the last state, if it has no actions, has no reward: the value of a terminal state is 0.
    fn check_terminal(&self) -> Result<(), String> {
        match self.states.checked_sub(1) {
            Some(state) if self.actions == 0 && self.state_reward != 0.0 => {
                Err(format!("state {state} has the reward {}, but no actions that earn it", self.state_reward))
            }
            _ => Ok(()),
        }
    }

    fn action(&mut self, line: &Line<'_>, name: &str) -> Result<(), Error> {
        let Some(state) = self.states.checked_sub(1) else {
            return Err(line.error("found an action, expected a state before".to_owned()));
        };
        self.rows.begin(state, self.actions);
        self.rows.named(name);
        self.rows.earns(self.state_reward);
        self.actions += 1;
        Ok(())
    }

    /// Parses the bracketed rewards that may come next in the line, and returns the reward of the selected reward
    /// model; 0 without brackets.
    fn rewards(&self, line: &mut Line<'_>) -> Result<f64, Error> {
        if !line.rest().starts_with(b"[") {
            return Ok(0.0);
        }
        line.skip(1);
        let length = memchr::memchr(b']', line.rest())
            .ok_or_else(|| line.unexpected(line.rest(), "a reward and a closing ]"))?;
        let mut reward = 0.0;
        for (model, text) in line.rest()[..length].split(|&byte| byte == b',').enumerate() {
            let value = self.value(line, text.trim_ascii(), "a reward")?;
            if model == self.reward {
                reward = value;
            }
        }
        line.skip(length + 1);
        Ok(reward)
    }

    #[inline]
    fn value(&self, line: &Line<'_>, text: &[u8], expected: &str) -> Result<f64, Error> {
        let value = real(text).or_else(|| self.header.placeholders.get(text).copied());
        value.ok_or_else(|| line.unexpected(text, expected))
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    let mdp = &*without_ends(mdp);
    let rewards = mdp.expected_rewards();
    let rewarded = rewards.iter().any(|&reward| reward != 0.0);
    let terminal = (0..mdp.states() as usize).filter(|&state| mdp.choices().count(state) == 0).count();
    let model = if rewarded { "reward" } else { "" };
    writeln!(out, "@type: MDP\n@value_type: double\n@parameters\n\n@reward_models\n{model}\n@nr_states")?;
    writeln!(out, "{}\n@nr_choices\n{}\n@model", mdp.states(), mdp.rows() + terminal)?;
    let mut labels = Labels::new(mdp);
    if let Some(label) = labels.names().find(|label| label.is_empty() || label.contains(['"', '\n', '\r'])) {
        return Err(no_place(format!("DRN has no place for the label {label:?}")));
    }
    for state in 0..mdp.states() {
        out.text("state ")?;
        out.integer(state.into())?;
        if rewarded {
            out.text(" [0]")?;
        }
        let mut has_deadlock = false;
        for (_, label) in labels.next(state) {
            let quote = if label.contains(char::is_whitespace) { "\"" } else { "" };
            write!(out, " {quote}{label}{quote}")?;
            has_deadlock |= label == DEADLOCK;
        }
        let rows = mdp.choices().rows(state as usize);
        if rows.is_empty() {
            let (label, reward) = (if has_deadlock { "" } else { " deadlock" }, if rewarded { " [0]" } else { "" });
            writeln!(out, "{label}\n\taction 0{reward}\n\t\t{state} : 1")?;
            continue;
        }
        out.text("\n")?;
        for (action, row) in rows.enumerate() {
            out.text("\taction ")?;
            match name_of(mdp, row) {
                None => out.integer(action as u64)?,
                Some("") => out.text(UNNAMED)?,
                Some(name) if name.contains(char::is_whitespace) => {
                    return Err(no_place(format!("DRN has no place for white space in the action's name {name:?}")));
                }
                Some(name) => out.text(name)?,
            }
            if rewarded {
                out.text(" [")?;
                out.real(rewards[row])?;
                out.text("]")?;
            }
            out.text("\n")?;
            let (successors, probs) = mdp.transitions().row(row);
            for (&successor, &prob) in successors.iter().zip(probs) {
                out.text("\t\t")?;
                out.integer(successor.into())?;
                out.text(" : ")?;
                out.real(prob)?;
                out.text("\n")?;
            }
        }
    }
    Ok(())
}
