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
use super::table::{PIECE, Table, has_columns, write_field};
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
    read_pieces(reader, file, PIECE, note)
}

/// Reads a model in pieces of about `piece` bytes.
fn read_pieces(reader: impl Read, file: String, piece: usize, note: &mut dyn FnMut(String)) -> Result<MdpParts, Error> {
    let mut outcomes = Outcomes::default();
    let table = Table::open(reader, file.clone(), &REQUIRED, &OPTIONAL, false)?;
    let too_many = |message| Error::Content { file: file.clone(), message };
    table.in_pieces(piece, read_rows, |more| outcomes.append(more).map_err(too_many))?;
    if let Some(text) = outcomes.note() {
        note(text);
    }
    outcomes.into_model(|line| format!("line {line}")).map_err(|Fault { place, message }| match place {
        Some(line) => Error::Line { file, line, message },
        None => Error::Content { file, message },
    })
}

/// Reads the rows of a table.
fn read_rows(table: Table<&[u8]>) -> Result<Outcomes, Error> {
    let mut outcomes = Outcomes::default();
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
    Ok(outcomes)
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

#[cfg(test)]
mod tests {
    use warpkov_common::random::{below, random};

    use super::*;

    /// What is read of a text in pieces, the model and the notes, or the error.
    fn found(text: &str, piece: usize) -> Result<String, String> {
        let mut notes = Vec::new();
        let parts = read_pieces(text.as_bytes(), "m".to_owned(), piece, &mut |note| notes.push(note));
        let mdp = parts.map_err(|error| error.to_string())?.validated().map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        write(&mut out, &mdp).map_err(|error| error.to_string())?;
        Ok(format!("{}{notes:?}", String::from_utf8_lossy(&out)))
    }

    /// Rows in any order, by names and by numbers, are one model however they are cut, and the first fault is the error.
    #[test]
    fn pieces_are_read_as_the_whole() {
        let mut random = random(1, 0);
        let mut below = |bound: u64| below(&mut random, bound);
        let mut right = 0;
        for trial in 0..60 {
            let (states, named) = (1 + below(20), trial % 2 == 0);
            let name = |state: u64| if named { format!("\"state, {state}\"") } else { state.to_string() };
            let mut rows: Vec<String> = Vec::new();
            for state in 0..states {
                for action in 0..below(3) {
                    let next = [below(states), below(states)];
                    let action = if trial % 3 == 0 { format!("a{}", 7 - action) } else { action.to_string() };
                    let mut row = |next, p| format!("{},{action},{},{p},{}", name(state), name(next), below(5));
                    match next[0] == next[1] {
                        true => rows.push(row(next[0], "1")),
                        false => rows.extend([row(next[0], "1/4"), row(next[1], "0.75")]),
                    }
                }
                rows.push(format!("{},,,,", name(state)));
            }
            for i in 0..rows.len() {
                let other = below(rows.len() as u64) as usize;
                rows.swap(i, other);
            }
            if trial % 4 == 3 {
                // Two faults: of one row, and of the model.
                for fault in ["0,0,0,x,0", "0,0,0,0.5,0"] {
                    let at = below(rows.len() as u64 + 1) as usize;
                    rows.insert(at, fault.to_owned());
                }
            }
            let text = format!("state,action,next,probability,reward\n{}\n", rows.join("\n\n"));
            let whole = found(&text, PIECE);
            assert!(whole.is_err() || trial % 4 != 3);
            right += u32::from(whole.is_ok());
            for piece in [1, 17, 100, 1000] {
                assert_eq!(found(&text, piece), whole, "{piece}: {text}");
            }
        }
        assert!(right > 30, "{right}");
    }
}
