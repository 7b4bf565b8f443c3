//! Checkpoints of discounted solves and of criteria: V in the model's own state order, and the record of the rounds.
//!
//! | tensor | type | contents |
//! | --- | --- | --- |
//! | `values` | F64 | V, one value per state |
//! | `rounds.sweeps` | U32 | sweeps of each round |
//! | `rounds.residual`, `rounds.seconds` | F64 | as in [`Round`] |
//! | `rounds.changed` | U64 | changed states of each round; 2⁶⁴ − 1 for greedy sweeps |
//!
//! The metadata hold the `problem` (criterion, γ, objective), the `method`, whether V has reached f64 in mixed precision,
//! the `seconds` so far, and ε with the fraction of it that the stopping rule had reached.
//!
//! V is all that value iteration goes on from, so that a run of Jacobi sweeps that was interrupted ends with the bits of
//! one that was not. Policy iteration goes on from the greedy policy of V.

use std::path::Path;
use std::time::Duration;

use bytemuck::cast_slice;
use rayon::prelude::*;

use super::model::Mdp;
use super::options::{Method, Target};
use super::solution::{Round, Run, Status};
use crate::common::checkpoint::{Contents, Hash, content};
use crate::common::choice::Choice;
use crate::common::io::Error;

const KIND: &str = "mdp";

/// The state of a solve between two rounds.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The method in use.
    pub method: Method,
    /// Whether V has left f32 in mixed precision.
    pub in_f64: bool,
    /// The target.
    pub target: Target,
    /// The fraction of ε in the stopping rule.
    pub epsilon_fraction: f64,
    /// V, one value per state.
    pub values: Vec<f64>,
    /// All rounds so far.
    pub run: Run,
}

/// The hash of a model's numbers: choices, P, end probabilities and expected rewards. Labels, names, γ and the objective
/// do not matter.
#[must_use]
pub fn hash(mdp: &Mdp) -> Hash {
    let of_state = |bytes: &mut Vec<u8>, state: usize| {
        bytes.clear();
        let rows = mdp.choices().rows(state);
        bytes.extend((rows.len() as u64).to_le_bytes());
        for row in rows {
            let (col, val) = mdp.transitions().row(row);
            let reward = mdp.rewards_of(row).zip(val).fold(0.0, |sum, (reward, prob)| sum + prob * reward);
            // Adding 0 turns −0 into 0.
            let numbers = [mdp.end(row) + 0.0, reward + mdp.action_reward(row) + 0.0];
            bytes.extend((col.len() as u64).to_le_bytes());
            bytes.extend_from_slice(cast_slice(&numbers));
            bytes.extend_from_slice(cast_slice(col));
            bytes.extend_from_slice(cast_slice(val));
        }
        Hash::of(state as u64, bytes)
    };
    let states = (0..mdp.states() as usize).into_par_iter();
    states.map_init(Vec::new, of_state).reduce(Hash::default, Hash::and)
}

/// The discounted problem of a model.
fn problem(mdp: &Mdp) -> String {
    format!("discounted, gamma {}, {}", mdp.gamma(), mdp.objective())
}

/// The state of a solve for a criterion without a discount, between two rounds. Sweeps only propose values, from which
/// bounds are proven: they go on from any values.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// Values, one per state; 0 where the graph of the model decides the value.
    pub values: Option<Vec<f64>>,
    /// The bias, one per state, if gains are sought.
    pub bias: Option<Vec<f64>>,
    /// Number of sweeps over them.
    pub sweeps: u64,
    /// All rounds so far.
    pub run: Run,
}

impl Proposal {
    /// Reads a checkpoint of a solve of `mdp` for the `problem` in words.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is a checkpoint of another problem.
    pub fn read(path: &Path, mdp: &Mdp, problem: &str) -> Result<Self, Error> {
        let contents = Contents::read(path, KIND, hash(mdp))?;
        Self::of(contents, mdp, problem).map_err(content(path))
    }

    fn of(mut contents: Contents, mdp: &Mdp, problem: &str) -> Result<Self, String> {
        contents.expect("problem", problem)?;
        let mut optional = |name: &str| match contents.has(name) {
            true => contents.take_finite(name, mdp.states() as usize).map(Some),
            false => Ok(None),
        };
        let (values, bias) = (optional("values")?, optional("bias")?);
        Ok(Self { values, bias, sweeps: contents.number("sweeps")?, run: rounds(&mut contents)? })
    }

    /// The file's contents for a problem in words, where `model` is the [`hash`] of the model.
    #[must_use]
    pub fn contents(&self, problem: &str, model: Hash) -> Contents {
        let mut contents = Contents::new(KIND, model);
        contents.set("problem", problem);
        for (name, numbers) in [("values", &self.values), ("bias", &self.bias)] {
            if let Some(numbers) = numbers {
                contents.put(name, numbers.clone());
            }
        }
        put_rounds(&mut contents, &self.run);
        contents.set("sweeps", self.sweeps);
        contents
    }
}

impl Checkpoint {
    /// Reads a checkpoint of a discounted solve of `mdp`.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is a checkpoint of another problem.
    pub fn read(path: &Path, mdp: &Mdp) -> Result<Self, Error> {
        let contents = Contents::read(path, KIND, hash(mdp))?;
        Self::of(contents, mdp).map_err(content(path))
    }

    fn of(mut contents: Contents, mdp: &Mdp) -> Result<Self, String> {
        contents.expect("problem", &problem(mdp))?;
        let method = contents.text("method")?;
        let method = Method::of_name(method).ok_or_else(|| format!("metadata method: found \"{method}\""))?;
        let target: f64 = contents.number("target")?;
        let target = if contents.text("rule")? == "theta" { Target::Theta(target) } else { Target::Epsilon(target) };
        let epsilon_fraction = contents.number("fraction")?;
        if !(epsilon_fraction > 0.0 && epsilon_fraction <= 1.0) {
            return Err(format!("metadata fraction: found {epsilon_fraction}, expected a number in (0, 1]"));
        }
        let in_f64 = contents.number("in_f64")?;
        let values = contents.take_finite("values", mdp.states() as usize)?;
        Ok(Self { method, in_f64, target, epsilon_fraction, values, run: rounds(&mut contents)? })
    }

    /// The file's contents for `mdp`, whose hash is `model`.
    #[must_use]
    pub fn contents(self, mdp: &Mdp, model: Hash) -> Contents {
        let mut contents = Contents::new(KIND, model);
        contents.set("problem", problem(mdp));
        contents.set("method", self.method);
        contents.set("in_f64", self.in_f64);
        let (rule, target) = match self.target {
            Target::Epsilon(epsilon) => ("epsilon", epsilon),
            Target::Theta(theta) => ("theta", theta),
        };
        contents.set("rule", rule);
        contents.set("target", target);
        contents.set("fraction", self.epsilon_fraction);
        contents.put("values", self.values);
        put_rounds(&mut contents, &self.run);
        contents
    }
}

/// Adds the record of a run.
fn put_rounds(contents: &mut Contents, run: &Run) {
    let rounds = &run.rounds;
    contents.set("sweeps", run.sweeps());
    contents.set("seconds", run.elapsed.as_secs_f64());
    contents.put("rounds.sweeps", rounds.iter().map(|round| round.sweeps).collect::<Vec<_>>());
    contents.put("rounds.residual", rounds.iter().map(|round| round.residual).collect::<Vec<_>>());
    contents.put("rounds.changed", rounds.iter().map(|round| round.changed.unwrap_or(u64::MAX)).collect::<Vec<_>>());
    contents.put("rounds.seconds", rounds.iter().map(|round| round.seconds).collect::<Vec<_>>());
}

/// The record of a run.
fn rounds(contents: &mut Contents) -> Result<Run, String> {
    let seconds: f64 = contents.number("seconds")?;
    let elapsed = Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("metadata seconds: found {seconds}, expected a time"))?;
    let sweeps: Vec<u32> = contents.take("rounds.sweeps")?;
    let residual: Vec<f64> = contents.take_all("rounds.residual", sweeps.len())?;
    let changed: Vec<u64> = contents.take_all("rounds.changed", sweeps.len())?;
    let seconds: Vec<f64> = contents.take_all("rounds.seconds", sweeps.len())?;
    let round = |index: usize| Round {
        round: index as u32 + 1,
        sweeps: sweeps[index],
        residual: residual[index],
        changed: Some(changed[index]).filter(|&changed| changed != u64::MAX),
        seconds: seconds[index],
    };
    Ok(Run { status: Status::Interrupted, rounds: (0..sweeps.len()).map(round).collect(), elapsed })
}
