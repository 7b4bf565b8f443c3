//! Writer of POMDPX 1.0: a flat model as one variable of states, one of actions and one of observations, with tables or with
//! [decision diagrams](super::pomdpx_diagrams).
//!
//! Numbers stand between blanks, because SARSOP's programs would read a tag behind a number as part of it. A row of a
//! table with many nonzeros is one entry, and each nonzero of another row is one; absent entries are 0. Costs are
//! negated rewards.

use std::io::{self, Write};

use super::pomdpx_diagrams::{self as diagrams, Variable, terminal};
use super::pomdpx_function::MAX_ENTRIES;
use crate::model::Pomdp;
use warpkov_common::io::lines::{Put, no_place, quoted};
use warpkov_common::names::name;

/// Checks that the format can express the model.
fn check(model: &Pomdp) -> io::Result<()> {
    if model.starts().len() > 1 {
        let message =
            "a component observed at the start would need variables, which a flat model lacks; JSON has a place for it";
        return Err(no_place(format!("pomdpx: {message}")));
    }
    let names = model.names();
    for (what, names) in [("state", &names.states), ("action", &names.actions), ("observation", &names.observations)] {
        let is_word = |name: &str| {
            let is_wrong = |c: char| c.is_whitespace() || c.is_control() || "<>&".contains(c);
            !(name.is_empty() || name == "*" || name == "-" || name.contains(is_wrong))
        };
        if let Some(name) = names.iter().find(|name| !is_word(name)) {
            let name = quoted(name.as_bytes());
            return Err(no_place(format!(
                "pomdpx has no place for the {what} \"{name}\", expected a name without blanks, <, > and &, other than * and -"
            )));
        }
    }
    let (states, actions, count) = (model.states().into(), model.actions().into(), model.observation_count().into());
    let size = |lengths: [u64; 3]| lengths.into_iter().try_fold(1, u64::checked_mul).is_some_and(|n| n <= MAX_ENTRIES);
    if !size([states, actions, states]) || !size([states, actions, count]) {
        return Err(no_place(format!("the tables of this model in pomdpx have more than {MAX_ENTRIES} entries each")));
    }
    Ok(())
}

/// The values of a variable: names, or numbers with a prefix, as readers of `NumValues` call them.
pub struct Values<'m> {
    names: &'m [String],
    prefix: char,
}

impl Values<'_> {
    pub fn get(&self, index: usize) -> String {
        if self.names.is_empty() { format!("{}{index}", self.prefix) } else { name(self.names, index as u32) }
    }

    fn declare(&self, out: &mut impl Write, count: u32) -> io::Result<()> {
        match self.names {
            [] => writeln!(out, "<NumValues> {count} </NumValues>"),
            names => writeln!(out, "<ValueEnum> {} </ValueEnum>", names.join(" ")),
        }
    }
}

/// Writes the entries of a row of a table: `given` are the values of the other variables.
fn row(
    out: &mut impl Write,
    leaf: &str,
    given: &str,
    values: &Values<'_>,
    count: u32,
    entries: (&[u32], &[f64]),
) -> io::Result<()> {
    let (columns, numbers) = entries;
    if 3 * columns.len() as u64 > u64::from(count) {
        let mut dense = vec![0.0; count as usize];
        columns.iter().zip(numbers).for_each(|(&column, &number)| dense[column as usize] = number);
        write!(out, "<Entry><Instance> {given} - </Instance><{leaf}> ")?;
        for number in dense {
            out.real(number)?;
            out.text(" ")?;
        }
        return writeln!(out, "</{leaf}></Entry>");
    }
    for (&column, &number) in columns.iter().zip(numbers) {
        write!(out, "<Entry><Instance> {given} {} </Instance><{leaf}> ", values.get(column as usize))?;
        out.real(number)?;
        writeln!(out, " </{leaf}></Entry>")?;
    }
    Ok(())
}

/// How functions are written.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    Tables,
    Diagrams,
}

/// Writes a model.
pub fn write(out: &mut impl Write, model: &Pomdp, form: Form) -> io::Result<()> {
    check(model)?;
    let (count, action_count, observation_count) = (model.states(), model.actions(), model.observation_count());
    let names = model.names();
    let states = Values { names: &names.states, prefix: 's' };
    let actions = Values { names: &names.actions, prefix: 'a' };
    let observations = Values { names: &names.observations, prefix: 'o' };
    out.text(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<pomdpx version=\"1.0\" id=\"model\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:noNamespaceSchemaLocation=\"pomdpx.xsd\">\n\
         <Description> A flat model </Description>\n<Discount> ",
    )?;
    out.real(model.gamma())?;
    out.text(" </Discount>\n<Variable>\n<StateVar vnamePrev=\"state_0\" vnameCurr=\"state_1\" fullyObs=\"false\">\n")?;
    states.declare(out, count)?;
    out.text("</StateVar>\n<ObsVar vname=\"observation\">\n")?;
    observations.declare(out, observation_count)?;
    out.text("</ObsVar>\n<ActionVar vname=\"action\">\n")?;
    actions.declare(out, action_count)?;
    out.text("</ActionVar>\n<RewardVar vname=\"reward\"/>\n")?;
    if pairs(model).any(|pair| follows(model, pair)) {
        out.text("<RewardVar vname=\"reward_of_next\"/>\n")?;
    }
    out.text("</Variable>\n")?;

    let action = Variable { name: "action", values: &actions, count: action_count };
    let [before, after] = ["state_0", "state_1"].map(|name| Variable { name, values: &states, count });
    let seen = Variable { name: "observation", values: &observations, count: observation_count };
    out.text("<InitialStateBelief>\n<CondProb>\n<Var>state_0</Var>\n<Parent>null</Parent>\n")?;
    let start = (model.start().states(), model.start().probs());
    let diagram = (form == Form::Diagrams).then(|| before.row(start, true)).flatten();
    match diagram {
        Some(diagram) => writeln!(out, "<Parameter type=\"DD\">\n<DAG>{diagram}</DAG>\n</Parameter>")?,
        None => table(out, |out| row(out, "ProbTable", "", &states, count, start))?,
    }
    out.text("</CondProb>\n</InitialStateBelief>\n")?;

    out.text("<StateTransitionFunction>\n<CondProb>\n<Var>state_1</Var>\n<Parent>action state_0</Parent>\n")?;
    let given = |action: u32, state: u32| format!("{} {}", actions.get(action as usize), states.get(state as usize));
    match form {
        Form::Tables => table(out, |out| {
            pairs(model).try_for_each(|(action, state)| {
                row(out, "ProbTable", &given(action, state), &states, count, model.successors(state, action))
            })
        })?,
        Form::Diagrams => {
            let stays = |action: u32| (0..count).all(|s| model.successors(s, action) == (&[s][..], &[1.0][..]));
            let whole = |action: u32| stays(action).then(|| after.persistent());
            diagrams::write(out, action, before, whole, |a, s| after.row(model.successors(s, a), true))?;
        }
    }
    out.text("</CondProb>\n</StateTransitionFunction>\n")?;

    out.text("<ObsFunction>\n<CondProb>\n<Var>observation</Var>\n<Parent>action state_1</Parent>\n")?;
    match form {
        Form::Tables => table(out, |out| {
            pairs(model).try_for_each(|(action, state)| {
                let observed = model.observed(action, state);
                row(out, "ProbTable", &given(action, state), &observations, observation_count, observed)
            })
        })?,
        Form::Diagrams => diagrams::write(out, action, after, |_| None, |a, s| seen.row(model.observed(a, s), true))?,
    }
    out.text("</CondProb>\n</ObsFunction>\n<RewardFunction>\n")?;
    rewards(out, model, form, [action, before, after], given)?;
    out.text("</RewardFunction>\n</pomdpx>\n")
}

/// Writes a table with these entries.
fn table<W: Write>(out: &mut W, entries: impl FnOnce(&mut W) -> io::Result<()>) -> io::Result<()> {
    out.text("<Parameter type=\"TBL\">\n")?;
    entries(out)?;
    out.text("</Parameter>\n")
}

/// All pairs of an action and a state.
fn pairs(model: &Pomdp) -> impl Iterator<Item = (u32, u32)> {
    let states = model.states();
    (0..model.actions()).flat_map(move |action| (0..states).map(move |state| (action, state)))
}

/// The row of an action and a state in the process.
fn place(model: &Pomdp, (action, state): (u32, u32)) -> usize {
    model.process().choices().first(state as usize) + action as usize
}

/// Whether the reward of an action in a state depends on the next state.
fn follows(model: &Pomdp, pair: (u32, u32)) -> bool {
    let (rewards, row) = (model.process().rewards(), place(model, pair));
    row < rewards.rows() && !rewards.row(row).0.is_empty()
}

/// Writes the rewards: a function of action and state, and one of the next state too where rewards depend on it. Each has
/// a variable of its own, as SARSOP's programs expect.
fn rewards(
    out: &mut impl Write,
    model: &Pomdp,
    form: Form,
    [action, before, after]: [Variable; 3],
    given: impl Fn(u32, u32) -> String,
) -> io::Result<()> {
    let (process, sign) = (model.process(), model.process().objective().sign());
    let own = process.rewards();
    // 0 where the reward depends on the next state.
    let alone = |pair: (u32, u32)| match follows(model, pair) {
        true => 0.0,
        false => sign * process.action_reward(place(model, pair)),
    };
    // Successors with their rewards; none where these do not depend on them.
    let following = |(action, state): (u32, u32)| {
        let place = place(model, (action, state));
        if !follows(model, (action, state)) {
            return (&[][..], Vec::new());
        }
        let ((columns, numbers), all) = (own.row(place), process.action_reward(place));
        let successors = model.successors(state, action).0;
        let total = |next: &u32| {
            let index = columns.iter().position(|column| column == next);
            sign * (index.map_or(0.0, |index| numbers[index]) + all)
        };
        (successors, successors.iter().map(total).collect::<Vec<f64>>())
    };
    out.text("<Func>\n<Var>reward</Var>\n<Parent>action state_0</Parent>\n")?;
    match form {
        Form::Tables => table(out, |out| {
            // A table needs an entry.
            writeln!(out, "<Entry><Instance> * * </Instance><ValueTable> 0 </ValueTable></Entry>")?;
            for (action, state) in pairs(model).filter(|&pair| alone(pair) != 0.0) {
                write!(out, "<Entry><Instance> {} </Instance><ValueTable> ", given(action, state))?;
                out.real(alone((action, state)))?;
                writeln!(out, " </ValueTable></Entry>")?;
            }
            Ok(())
        })?,
        Form::Diagrams => diagrams::write(out, action, before, |_| None, |a, s| Some(terminal(alone((a, s)))))?,
    }
    out.text("</Func>\n")?;
    if !pairs(model).any(|pair| follows(model, pair)) {
        return Ok(());
    }
    out.text("<Func>\n<Var>reward_of_next</Var>\n<Parent>action state_0 state_1</Parent>\n")?;
    match form {
        Form::Tables => table(out, |out| {
            pairs(model).filter(|&pair| follows(model, pair)).try_for_each(|(action, state)| {
                let (successors, totals) = following((action, state));
                row(out, "ValueTable", &given(action, state), after.values, after.count, (successors, &totals))
            })
        })?,
        Form::Diagrams => diagrams::write(
            out,
            action,
            before,
            |_| None,
            |a, s| {
                let (successors, totals) = following((a, s));
                after.row((successors, &totals), false)
            },
        )?,
    }
    out.text("</Func>\n")
}
