//! `warpkov pomdp act`.

use std::io::{self, BufRead, Write};

use clap::Args;
use warpkov_common::names;
use warpkov_common::parameters::SUM_TOLERANCE;
use warpkov_common::terminal::escaped;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::lookahead::lookahead;
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::report::Advice;

use super::file::WithPolicy;
use super::{Error, Outcome};
use crate::common::file::no_such;
use crate::common::output::print;

/// Gives the best action in a belief, by a lookahead of one step from the vectors of the policy.
///
/// The belief is the start of the model, or --belief, updated by the actions and observations of --after. With --follow, the command keeps
/// the belief: it prints an action, reads the observation that followed from the standard input, and goes on.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp act tiger.json --policy tiger.alpha
  warpkov pomdp act tiger.json --policy tiger.alpha --belief 0.97,0.03
  warpkov pomdp act tag.json --policy tag.alpha --after north:cell10 --after west:cell10 --json
  printf 'tiger-left\\ntiger-left\\n' | warpkov pomdp act tiger.json --policy tiger.alpha --follow")]
pub struct Arguments {
    #[command(flatten)]
    files: WithPolicy,
    /// Initial belief: one probability per state, or STATE=PROBABILITY for the possible states [default: the start of the model].
    #[arg(long, value_name = "B,…")]
    belief: Option<String>,
    /// Number of the observed part of the initial state, in models with a fully observed part of the state.
    #[arg(long, value_name = "X", conflicts_with = "belief")]
    seen: Option<u32>,
    /// Action and following observation, by name or number; may be repeated, in order of time.
    #[arg(long, value_name = "ACTION:OBSERVATION")]
    after: Vec<String>,
    /// Print the best action, then one more after each line of the standard input: the observation that followed the printed action, or
    /// ACTION:OBSERVATION after another action.
    #[arg(long)]
    follow: bool,
    /// Print one JSON object; with --follow, one for each action.
    #[arg(long)]
    json: bool,
}

/// Reads model and policy, looks one step ahead, prints the Q-factors.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let (model, policy) = arguments.files.read()?;
    let belief = arguments.belief(&model)?;
    if arguments.follow {
        return follow(&arguments, &model, &policy, belief, out);
    }
    let value = policy.best(&belief).map_or(f64::NEG_INFINITY, |best| best.1);
    let outlooks = lookahead(&model.to_maximize(), &policy, &belief);
    print(&Advice::new(&model, &belief, &outlooks, value), arguments.json, out)?;
    Ok(Outcome::Success)
}

/// Prints an action for the belief, and again after each observation.
fn follow(
    arguments: &Arguments,
    model: &Pomdp,
    policy: &AlphaVectors,
    mut belief: Belief,
    mut out: impl Write,
) -> Result<Outcome, Error> {
    arguments.files.keeps_standard_input()?;
    let maximized = model.to_maximize();
    let mut lines = io::stdin().lock().lines();
    loop {
        let value = policy.best(&belief).map_or(f64::NEG_INFINITY, |best| best.1);
        let outlooks = lookahead(&maximized, policy, &belief);
        let advice = Advice::new(model, &belief, &outlooks, value);
        match arguments.json {
            true => print(&advice, true, &mut out)?,
            false => writeln!(out, "{}", escaped(advice.best()))?,
        }
        out.flush()?;
        let action = advice.best().to_owned();
        let Some(line) = lines.by_ref().find(|line| line.as_ref().map_or(true, |line| !line.trim().is_empty())) else {
            return Ok(Outcome::Success);
        };
        let line = line?;
        let seen = line.trim();
        // A name may have a colon.
        let is_observation = names::index(seen, &model.names().observations, model.observation_count()).is_some();
        belief = match is_observation || !seen.contains(':') {
            true => after(model, &belief, [&action, seen])?,
            false => parse_step(seen).and_then(|step| after(model, &belief, step))?,
        };
    }
}

impl Arguments {
    /// The belief after all steps of `--after`.
    fn belief(&self, model: &Pomdp) -> Result<Belief, Error> {
        let start = match &self.belief {
            Some(text) => parse_belief(model, text)?,
            None => start_belief(model, self.seen)?,
        };
        self.after.iter().try_fold(start, |belief, step| after(model, &belief, parse_step(step)?))
    }
}

/// The belief before the first action.
fn start_belief(model: &Pomdp, seen: Option<u32>) -> Result<Belief, Error> {
    let mut starts = model.starts();
    let Some(seen) = seen else {
        return match starts.len() {
            1 => Ok(starts.swap_remove(0).1),
            count => Err(Error::Usage(format!(
                "the observed part of the state has {count} values at the start: expected --seen, the number of one, or --belief"
            ))),
        };
    };
    let has = |(_, start): &(f64, Belief)| start.states().iter().any(|&s| model.seen().get(s as usize) == Some(&seen));
    let found = starts.into_iter().find(has).map(|(_, start)| start);
    found.ok_or_else(|| Error::Usage(format!("--seen {seen}: no state of the start has this observed part")))
}

/// The index that `text` names: one of `names`, or a number below `count`.
fn index(text: &str, names: &[String], count: u32, what: &str) -> Result<u32, Error> {
    names::index(text, names, count).ok_or_else(|| no_such(text, what, count))
}

fn parse_belief(model: &Pomdp, text: &str) -> Result<Belief, Error> {
    let states = model.states();
    let wrong = |message: String| Error::Usage(format!("--belief: {message}"));
    let number = |text: &str| {
        let number = text.trim().parse().ok().filter(|p: &f64| (0.0..=1.0).contains(p));
        number.ok_or_else(|| wrong(format!("found {text:?}, expected a probability")))
    };
    let parts: Vec<&str> = text.split(',').collect();
    let mut dense = vec![0.0; states as usize];
    if text.contains('=') {
        for part in parts {
            let pair =
                part.split_once('=').ok_or_else(|| wrong(format!("found {part:?}, expected STATE=PROBABILITY")))?;
            dense[index(pair.0, &model.names().states, states, "state")? as usize] = number(pair.1)?;
        }
    } else {
        if parts.len() != states as usize {
            return Err(wrong(format!(
                "found {} probabilities, expected one for each of {states} states",
                parts.len()
            )));
        }
        for (target, part) in dense.iter_mut().zip(parts) {
            *target = number(part)?;
        }
    }
    let sum: f64 = dense.iter().sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(wrong(format!("the probabilities sum to {sum}, expected 1")));
    }
    dense.iter_mut().for_each(|p| *p /= sum);
    Belief::dense(&dense).map_err(|error| wrong(format!("it {error}")))
}

/// The parts of `step`, ACTION:OBSERVATION.
fn parse_step(step: &str) -> Result<[&str; 2], Error> {
    let parts = step.split_once(':').map(|(action, seen)| [action, seen]);
    parts.ok_or_else(|| Error::Usage(format!("--after: found {step:?}, expected ACTION:OBSERVATION")))
}

/// The belief after an action and an observation.
fn after(model: &Pomdp, belief: &Belief, [action, seen]: [&str; 2]) -> Result<Belief, Error> {
    let step = format!("{action}:{seen}");
    let action = index(action, &model.names().actions, model.actions(), "action")?;
    let seen = index(seen, &model.names().observations, model.observation_count(), "observation")?;
    Projection::default().update(model, belief, action, seen).ok_or_else(|| {
        Error::Usage(format!("{step}: the observation is impossible after this action in the belief before it"))
    })
}
