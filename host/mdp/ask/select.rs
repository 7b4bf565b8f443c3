//! States of a model as people name them: by name, by number, or as a range of numbers.

use crate::model::Mdp;
use warpkov_common::terminal::quoted;

/// A text that names no state of the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnknownState {
    /// No state has this name or number.
    #[error("found '{found}', expected {expected}")]
    Unknown {
        /// The text.
        found: String,
        /// What the model has.
        expected: String,
    },
    /// A range whose end is before its start.
    #[error("found the range {first}..{last}, expected the first state first")]
    Reversed {
        /// First state.
        first: u32,
        /// Last state.
        last: u32,
    },
}

/// The state with this name, or else with this number.
///
/// # Errors
/// [`UnknownState::Unknown`].
pub fn state(mdp: &Mdp, text: &str) -> Result<u32, UnknownState> {
    let named = |name: &str| mdp.state_names()?.iter().position(|known| known == name).map(|state| state as u32);
    let number = || text.trim().parse().ok().filter(|&state| state < mdp.states());
    named(text).or_else(|| named(text.trim())).or_else(number).ok_or_else(|| unknown(mdp, text))
}

/// The states of a list separated by commas. Each part is a name, a number, or a range of numbers `3..7`, its last state
/// included. A text that is the name of a state, commas included, is that state.
///
/// # Errors
/// [`UnknownState`].
pub fn states(mdp: &Mdp, text: &str) -> Result<Vec<u32>, UnknownState> {
    if let Ok(state) = state(mdp, text) {
        return Ok(vec![state]);
    }
    let mut found = Vec::new();
    for part in text.split(',') {
        match (state(mdp, part), part.split_once("..")) {
            (Ok(state), _) => found.push(state),
            (Err(_), Some((first, last))) => {
                let (first, last) = (state(mdp, first)?, state(mdp, last)?);
                if last < first {
                    return Err(UnknownState::Reversed { first, last });
                }
                found.extend(first..=last);
            }
            (Err(error), None) => return Err(error),
        }
    }
    Ok(found)
}

fn unknown(mdp: &Mdp, text: &str) -> UnknownState {
    /// Names in a message.
    const SHOWN: usize = 8;

    let numbers = format!("a number below {}", mdp.states());
    let expected = match mdp.state_names() {
        None => format!("a state: {numbers}"),
        Some(names) => {
            let shown: Vec<_> = names.iter().take(SHOWN).map(|name| quoted(name.as_bytes())).collect();
            let rest = if names.len() > SHOWN { ", …" } else { "" };
            format!("a state: one of {}{rest}, or {numbers}", shown.join(", "))
        }
    };
    UnknownState::Unknown { found: quoted(text.as_bytes()), expected }
}
