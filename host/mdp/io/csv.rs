//! CSV with one row per transition, which people write by hand and in spreadsheets.
//!
//! The header names the columns `state`, `action`, `next`, `probability` and, unless all rewards are 0, `reward`, in any order, or as
//! other programs call them: `s`, `a`, `next_state`, `s_next`, `prob`, `p`, `r`. Columns are separated by commas, semicolons or tabs. Rows come
//! in any order. States and actions are names or numbers; if all states are numbers, they are 0 … S − 1. A state without rows of its own
//! is terminal; a row that holds a state and nothing else says so, and gives the state its place in the order of states. An outcome that
//! comes twice is an error.
//!
//! The format has no discount factor: γ = 1. It has no labels, no end probabilities and no costs.

use std::io::{self, Read, Write};

use super::Error;
use super::outcomes::{Fault, Outcomes, number};
use super::rows::{name_of, without_ends};
use super::table::{Table, has_columns, write_field};
use crate::model::{Mdp, MdpParts};
use warpkov_common::io::lines::{Put, no_place, quoted, real};

const REQUIRED: [&str; 4] = ["state", "action", "next", "probability"];
const OPTIONAL: [&str; 1] = ["reward"];

/// Whether a text begins with the header of a model.
pub fn sniff(start: &[u8]) -> bool {
    has_columns(start, &REQUIRED)
}

/// Reads a model without validation. Calls `note` with what deserves the user's attention.
pub fn read(reader: impl Read, file: String, note: &mut dyn FnMut(String)) -> Result<MdpParts, Error> {
    let mut outcomes = Outcomes::default();
    let table = Table::open(reader, file.clone(), &REQUIRED, &OPTIONAL, false)?;
    table.each(|line, [state, action, next, probability, reward]| {
        if [action, next, probability, reward].iter().all(|field| field.is_empty()) {
            return outcomes.state(state, line).map(drop);
        }
        let parse = |text: &str, what| {
            real(text.as_bytes()).ok_or_else(|| match text {
                "" => format!("found no {what}"),
                _ => format!("found \"{}\", expected a {what}", quoted(text.as_bytes())),
            })
        };
        let probability = parse(probability, "probability")?;
        let reward = if reward.is_empty() { 0.0 } else { parse(reward, "reward")? };
        outcomes.add([state, action, next], [probability, reward], line)
    })?;
    if let Some(text) = outcomes.note() {
        note(text);
    }
    outcomes.into_model(|line| format!("line {line}")).map_err(|Fault { place, message }| match place {
        Some(line) => Error::Line { file, line, message },
        None => Error::Content { file, message },
    })
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    let mdp = &*without_ends(mdp);
    check_names(mdp)?;
    let named = names_actions(mdp);
    out.text("state,action,next,probability,reward\n")?;
    for state in 0..mdp.states() {
        let rows = mdp.choices().rows(state as usize);
        if rows.is_empty() {
            put_state(out, mdp, state)?;
            out.text(",,,,\n")?;
        }
        for (action, row) in rows.enumerate() {
            let (successors, probabilities) = mdp.transitions().row(row);
            for ((&next, &probability), reward) in successors.iter().zip(probabilities).zip(mdp.rewards_of(row)) {
                put_state(out, mdp, state)?;
                out.text(",")?;
                match name_of(mdp, row).filter(|_| named) {
                    Some(name) => write_field(out, name)?,
                    None => out.integer(action as u64)?,
                }
                out.text(",")?;
                put_state(out, mdp, next)?;
                for number in [probability, reward + mdp.action_reward(row)] {
                    out.text(",")?;
                    out.real(number)?;
                }
                out.text("\n")?;
            }
        }
    }
    Ok(())
}

fn put_state(out: &mut impl Write, mdp: &Mdp, state: u32) -> io::Result<()> {
    match mdp.state_names() {
        Some(names) => write_field(out, &names[state as usize]),
        None => out.integer(state.into()),
    }
}

/// Checks that the reader takes the names of states for names.
fn check_names(mdp: &Mdp) -> io::Result<()> {
    let Some(names) = mdp.state_names() else { return Ok(()) };
    if let Some(name) = names.iter().find(|name| name.is_empty() || name.contains(['\n', '\r'])) {
        return Err(no_place(format!("CSV has no place for the state's name {name:?}")));
    }
    let all_numbers = names.iter().all(|name| number(name).is_some());
    let others = (0..).zip(names).find(|(state, name)| number(name) != Some(*state)).filter(|_| all_numbers);
    match others {
        Some((state, name)) => Err(no_place(format!(
            "CSV has no place for names of states that are other numbers than theirs, found {name:?} of state {state}"
        ))),
        None => Ok(()),
    }
}

/// Whether the names of actions tell the actions of each state apart, and have a place in a line. If not, numbers stand for them.
fn names_actions(mdp: &Mdp) -> bool {
    let Some(names) = mdp.action_names() else { return false };
    if names.names.iter().any(|name| name.is_empty() || name.contains(['\n', '\r'])) {
        return false;
    }
    let mut own = Vec::new();
    (0..mdp.states() as usize).all(|state| {
        own.clear();
        own.extend(mdp.choices().rows(state).map(|row| &names.names[names.of_row[row] as usize]));
        own.sort_unstable();
        own.windows(2).all(|pair| pair[0] != pair[1])
    })
}
