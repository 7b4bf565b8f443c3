//! Writer of `.pomdp` files.

use std::collections::HashSet;
use std::io::{self, Write};

use super::ALL;
use super::cursor::SECTIONS;
use crate::belief::Belief;
use crate::model::Pomdp;
use warpkov_common::io::lines::Put;
use warpkov_mdp::model::Csr;

/// Further reserved words of the grammar.
const RESERVED: [&[u8]; 7] = [b"include", b"exclude", b"uniform", b"identity", b"reset", b"reward", b"cost"];

/// Whether Cassandra's grammar allows these names: a letter, then letters, digits, `_` and `-`; no reserved words and
/// no duplicates. `false` for an empty list.
#[must_use]
pub fn nameable(names: &[String]) -> bool {
    let mut seen = HashSet::new();
    !names.is_empty()
        && names.iter().all(|name| {
            let name = name.as_bytes();
            name.first().is_some_and(u8::is_ascii_alphabetic)
                && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
                && !SECTIONS.contains(&name)
                && !RESERVED.contains(&name)
                && seen.insert(name)
        })
}

/// Names of a declared set, or only its size.
struct Things<'m> {
    names: Option<&'m [String]>,
    count: u32,
}

impl<'m> Things<'m> {
    fn new(names: &'m [String], count: u32) -> Self {
        Self { names: nameable(names).then_some(names), count }
    }

    fn declare(&self, out: &mut impl Write, section: &str) -> io::Result<()> {
        out.text(section)?;
        match self.names {
            Some(names) => names.iter().try_for_each(|name| write!(out, " {name}"))?,
            None => write!(out, " {}", self.count)?,
        }
        out.text("\n")
    }

    fn put(&self, out: &mut impl Write, i: u32) -> io::Result<()> {
        match self.names {
            _ if i == ALL => out.text("*"),
            Some(names) => out.text(&names[i as usize]),
            None => out.integer(i.into()),
        }
    }
}

/// Writes a model. Costs become negated rewards, because APPL (SARSOP) ignores `values: cost`.
pub fn write(out: &mut impl Write, model: &Pomdp) -> io::Result<()> {
    let (process, names) = (model.process(), model.names());
    let states = Things::new(&names.states, model.states());
    let actions = Things::new(&names.actions, model.actions());
    let observations = Things::new(&names.observations, model.observation_count());
    out.text("discount: ")?;
    real(out, process.gamma())?;
    out.text("\nvalues: reward\n")?;
    states.declare(out, "states:")?;
    actions.declare(out, "actions:")?;
    observations.declare(out, "observations:")?;
    write_start(out, model.start(), &states)?;
    out.text("\n")?;

    for action in 0..actions.count {
        for state in 0..states.count {
            let (successors, probs) = model.successors(state, action);
            for (&successor, &prob) in successors.iter().zip(probs) {
                line(out, "T", &[(&actions, action), (&states, state), (&states, successor)], prob)?;
            }
        }
    }
    out.text("\n")?;

    let every = same_for_all(model.observations(), actions.count, states.count);
    for action in 0..if every { 1 } else { actions.count } {
        for state in 0..states.count {
            let (observed, probs) = model.observed(action, state);
            let said = if every { ALL } else { action };
            for (&observation, &prob) in observed.iter().zip(probs) {
                line(out, "O", &[(&actions, said), (&states, state), (&observations, observation)], prob)?;
            }
        }
    }
    out.text("\n")?;

    let sign = process.objective().sign();
    for action in 0..actions.count {
        let row = |state: u32| process.choices().first(state as usize) + action as usize;
        let plain = |state: u32| process.rewards().row(row(state)).0.is_empty();
        let reward = |out: &mut _, state: u32, successor: u32, reward: f64| {
            // Unspecified rewards are 0 already.
            if reward == 0.0 {
                return Ok(());
            }
            let of = [(&actions, action), (&states, state), (&states, successor), (&observations, ALL)];
            line(out, "R", &of, sign * reward)
        };
        let first = process.action_reward(row(0));
        if (0..states.count).all(|state| plain(state) && process.action_reward(row(state)) == first) {
            reward(out, ALL, ALL, first)?;
            continue;
        }
        for state in 0..states.count {
            let own = process.action_reward(row(state));
            if plain(state) {
                reward(out, state, ALL, own)?;
                continue;
            }
            let (successors, _) = model.successors(state, action);
            for (&successor, following) in successors.iter().zip(process.rewards_of(row(state))) {
                reward(out, state, successor, own + following)?;
            }
        }
    }
    Ok(())
}

/// Writes one setting of a section.
fn line(out: &mut impl Write, section: &str, of: &[(&Things<'_>, u32)], value: f64) -> io::Result<()> {
    out.text(section)?;
    for (i, (things, thing)) in of.iter().enumerate() {
        out.text(if i == 0 { ": " } else { " : " })?;
        things.put(out, *thing)?;
    }
    out.text(" ")?;
    real(out, value)?;
    out.text("\n")
}

/// Writes the start belief in its shortest form.
fn write_start(out: &mut impl Write, start: &Belief, states: &Things<'_>) -> io::Result<()> {
    let even = start.probs().iter().all(|prob| *prob == 1.0 / start.probs().len() as f64);
    if even && start.states().len() == states.count as usize {
        return out.text("start: uniform\n");
    }
    if even {
        // SARSOP does not understand `start:` with a single state.
        out.text("start include:")?;
        for &state in start.states() {
            out.text(" ")?;
            states.put(out, state)?;
        }
        return out.text("\n");
    }
    out.text("start:")?;
    let mut probs = start.iter().peekable();
    for state in 0..states.count {
        out.text(" ")?;
        real(out, probs.next_if(|prob| prob.0 == state).map_or(0.0, |prob| prob.1))?;
    }
    out.text("\n")
}

/// Whether O(a, s', ·) is the same for all actions.
fn same_for_all(observations: &Csr, actions: u32, states: u32) -> bool {
    let (actions, states) = (actions as usize, states as usize);
    (1..actions)
        .all(|action| (0..states).all(|state| observations.row(action * states + state) == observations.row(state)))
}

/// Writes a number. Cassandra's grammar requires a decimal point before an exponent.
fn real(out: &mut impl Write, number: f64) -> io::Result<()> {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(number);
    let text = text.strip_suffix(".0").unwrap_or(text);
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => write!(out, "{digits}.0e{exponent}"),
        _ => out.text(text),
    }
}
