//! `warpkov pomdp act`.

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use warpkov::common::names::name;
use warpkov::common::parameters::SUM_TOLERANCE;
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::lookahead::lookahead;
use warpkov::pomdp::model::Pomdp;
use warpkov::pomdp::projection::Projection;

use super::policy::WithPolicy;
use super::{Error, Outcome};

/// Says what to do: the best action, with the values of all, one step ahead of the policy's vectors.
///
/// What is known is the model's start, or --belief, and what --after says has happened since.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp act tiger.json --policy tiger.alpha
  warpkov pomdp act tiger.json --policy tiger.alpha --belief 0.97,0.03
  warpkov pomdp act tag.json --policy tag.alpha --after north:cell10 --after west:cell10 --json")]
pub struct Arguments {
    #[command(flatten)]
    files: WithPolicy,
    /// What is known at first: a probability for each state, or STATE=PROBABILITY for those that may be [default: the
    /// model's start].
    #[arg(long, value_name = "B,…")]
    belief: Option<String>,
    /// What is seen at the start, of a model with a part of the state that always is: the number of that part's value.
    #[arg(long, value_name = "X", conflicts_with = "belief")]
    seen: Option<u32>,
    /// An action and what was seen after it, by name or number; may be repeated, in the order of time.
    #[arg(long, value_name = "ACTION:OBSERVATION")]
    after: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// An action as it is printed.
#[derive(Serialize)]
struct Line {
    action: String,
    value: f64,
    reward: f64,
}

/// Looks ahead, then prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let (model, policy) = arguments.files.read()?;
    let mut belief = match &arguments.belief {
        Some(text) => parse_belief(&model, text)?,
        None => known_at_start(&model, arguments.seen)?,
    };
    for step in &arguments.after {
        belief = after(&model, &belief, step)?;
    }
    let sign = model.process().objective().sign();
    let model = model.to_maximize();
    let outlooks = lookahead(&model, &policy, &belief);
    // The first of the best.
    let best = outlooks.iter().rev().max_by(|a, b| a.value.total_cmp(&b.value)).map_or(0, |best| best.action);
    let value = sign * policy.best(&belief).map_or(f64::NEG_INFINITY, |best| best.1);
    let lines: Vec<Line> = outlooks
        .iter()
        .map(|outlook| Line {
            action: name(&model.names().actions, outlook.action),
            value: sign * outlook.value,
            reward: sign * outlook.reward,
        })
        .collect();
    let chosen = name(&model.names().actions, best);
    if arguments.json {
        let known: Vec<(u32, f64)> = belief.iter().collect();
        let printed = serde_json::json!({ "action": chosen, "value": value, "actions": lines, "belief": known });
        serde_json::to_writer(&mut out, &printed).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(Outcome::Success);
    }
    let width = lines.iter().map(|line| line.action.chars().count()).max().unwrap_or(0).max(6);
    writeln!(out, "  {:<width$}        Q(b, a)        r(b, a)", "action")?;
    for line in &lines {
        let mark = if line.action == chosen { '*' } else { ' ' };
        writeln!(out, "{mark} {:<width$}  {:>13.6}  {:>13.6}", line.action, line.value, line.reward)?;
    }
    writeln!(out, "V(b) by the vectors: {value:.6}; {} states are possible", belief.states().len())?;
    Ok(Outcome::Success)
}

/// What is known before the first action.
fn known_at_start(model: &Pomdp, seen: Option<u32>) -> Result<Belief, Error> {
    let mut starts = model.starts();
    let Some(seen) = seen else {
        return match starts.len() {
            1 => Ok(starts.swap_remove(0).1),
            count => Err(Error::Usage(format!(
                "a part of the state is seen at the start, and may be one of {count}: expected --seen, its number, or --belief"
            ))),
        };
    };
    let has = |(_, start): &(f64, Belief)| start.states().iter().any(|&s| model.seen().get(s as usize) == Some(&seen));
    let found = starts.into_iter().find(has).map(|(_, start)| start);
    found.ok_or_else(|| Error::Usage(format!("--seen {seen}: no state of the start has this part")))
}

/// What number `text` names, among `count` things with `names`.
fn index(text: &str, names: &[String], count: u32, what: &str) -> Result<u32, Error> {
    let text = text.trim();
    let named = names.iter().position(|name| name == text).map(|index| index as u32);
    named.or_else(|| text.parse().ok().filter(|index| *index < count)).ok_or_else(|| {
        Error::Usage(format!("{text:?} is no {what} of the model, expected a name or a number below {count}"))
    })
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

/// The belief after `step`, ACTION:OBSERVATION.
fn after(model: &Pomdp, belief: &Belief, step: &str) -> Result<Belief, Error> {
    let parts = step.split_once(':');
    let (action, seen) =
        parts.ok_or_else(|| Error::Usage(format!("--after: found {step:?}, expected ACTION:OBSERVATION")))?;
    let action = index(action, &model.names().actions, model.actions(), "action")?;
    let seen = index(seen, &model.names().observations, model.observation_count(), "observation")?;
    Projection::default().update(model, belief, action, seen).ok_or_else(|| {
        Error::Usage(format!("--after {step}: this cannot be seen after that, from what was known before"))
    })
}
