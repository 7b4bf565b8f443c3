//! Checkpoints of discounted solves and of criteria: V in the model's own state order, and the record of the rounds.
//!
//! | tensor | type | contents |
//! | --- | --- | --- |
//! | `values` | F64 | V, one value per state; the last tensor |
//! | `rounds.sweeps` | U64 | sweeps of each round |
//! | `rounds.residual`, `rounds.seconds` | F64 | as in [`Round`] |
//! | `rounds.changed` | U64 | changed states of each round; 2⁶⁴ − 1 for greedy sweeps |
//!
//! The metadata hold the `problem` (criterion, γ, objective), the `method`, whether V has reached f64 in mixed precision,
//! the `seconds` so far, ε with the fraction of it that the stopping rule had reached and whether that rule is of the span, the span
//! at the last shift of V, and whether the run was `solved`: then no sweep follows.
//!
//! This is all that sweeps go on from, so that an interrupted run of value iteration ends with the bits of one that was not: of Jacobi
//! sweeps on any number of ranks, of Gauss-Seidel sweeps on the same. Policy iteration goes on from the greedy policy of V.
//!
//! Ranks write and read the values of their own states at their offset in the one file. The hash of the model is the sum of
//! those of its states, so that each rank adds its own.

use std::cmp::Ordering;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use bytemuck::cast_slice;
use rayon::prelude::*;

use super::backend::{Attempt, InRound};
use super::model::whole::{Column, Fault, Lines, Rows, with_lines};
use super::model::{Mdp, Whole};
use super::options::{Method, Target};
use super::solution::{Round, Run, Status};
use warpkov_common::checkpoint::{Apart, Checkpoints, Contents, Hash, content};
use warpkov_common::choice::Choice;
use warpkov_common::io::Error;
use warpkov_runtime::comm::file::{Bytes, write_together};
use warpkov_runtime::comm::{self, Communicator, Disagreed, Divided};

const KIND: &str = "mdp";

/// The tensor that is divided among ranks.
const VALUES: &str = "values";

/// States whose rows are hashed at a time.
const BLOCK: u64 = 1 << 14;

/// The state of a solve between two rounds.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The method in use.
    pub method: Method,
    /// Whether V has left f32 in mixed precision.
    pub in_f64: bool,
    /// The target.
    pub target: Target,
    /// The attempt to prove ε.
    pub attempt: Attempt,
    /// What the next sweeps depend on beside V.
    pub in_round: InRound,
    /// V, one value per state; of several ranks, each has those of its own states, in the order of ranks.
    pub values: Vec<f64>,
    /// All rounds so far.
    pub run: Run,
}

/// The hash of a model's numbers: choices, P, end probabilities and expected rewards. Labels, names, γ and the objective
/// do not matter.
#[must_use]
pub fn hash(mdp: &Mdp) -> Hash {
    // The rows of a model in memory can be read.
    Whole::rows(mdp, 0..mdp.states().into()).map_or_else(|_| Hash::default(), |rows| hash_of_rows(&rows))
}

/// The part of a model's [`hash`] for a range of states: hashes of ranges add up to that of the model.
///
/// # Errors
/// If the rows cannot be read.
pub fn hash_of(whole: &dyn Whole, states: Range<u64>) -> Result<Hash, Fault> {
    let mut sum = Hash::default();
    for first in states.clone().step_by(BLOCK as usize) {
        sum = sum.and(hash_of_rows(&whole.rows(first..states.end.min(first + BLOCK))?));
    }
    Ok(sum)
}

fn hash_of_rows(rows: &Rows) -> Hash {
    with_lines!(&rows.transitions, |p| with_lines!(&rows.rewards, |r| hash_of_lines(rows, p, r)))
}

fn hash_of_lines<P: Column, R: Column>(rows: &Rows, p: Lines<P>, r: Lines<R>) -> Hash {
    let first = rows.first(rows.states.start);
    let number = |numbers: &[f64], row: usize| numbers.get(row).copied().unwrap_or_default();
    let of_state = |(bytes, transitions, rewards): &mut (Vec<u8>, Vec<_>, Vec<_>), state: u64| {
        let own = (rows.first(state) - first) as usize..(rows.first(state + 1) - first) as usize;
        bytes.clear();
        bytes.extend((own.len() as u64).to_le_bytes());
        for row in own {
            sort_into(transitions, p.row(row));
            sort_into(rewards, if r.rows() > 0 { r.row(row) } else { (&[][..], &[][..]) });
            let reward = expected(transitions, rewards);
            // Adding 0 turns −0 into 0.
            let numbers = [number(&rows.ends, row) + 0.0, reward + number(&rows.action_rewards, row) + 0.0];
            bytes.extend((transitions.len() as u64).to_le_bytes());
            bytes.extend_from_slice(cast_slice(&numbers));
            bytes.extend(transitions.iter().flat_map(|(col, _)| col.to_le_bytes()));
            bytes.extend(transitions.iter().flat_map(|(_, val)| val.to_le_bytes()));
        }
        Hash::new(state, bytes)
    };
    let states = rows.states.clone().into_par_iter();
    states.map_init(Default::default, of_state).reduce(Hash::default, Hash::and)
}

/// Replaces `entries` by those of a row, in ascending order.
fn sort_into<C: Column>(entries: &mut Vec<(u64, f64)>, (col, val): (&[C], &[f64])) {
    entries.clear();
    entries.extend(col.iter().map(|&col| col.into()).zip(val.iter().copied()));
    if !entries.is_sorted_by(|a, b| a.0 < b.0) {
        entries.sort_unstable_by_key(|entry| entry.0);
    }
}

/// Σ P·R over the entries present in both rows.
fn expected(transitions: &[(u64, f64)], rewards: &[(u64, f64)]) -> f64 {
    let (mut sum, mut left) = (0.0, rewards);
    for &(successor, probability) in transitions {
        while let [(col, reward), rest @ ..] = left {
            match col.cmp(&successor) {
                Ordering::Less => left = rest,
                Ordering::Equal => {
                    sum += probability * reward;
                    break;
                }
                Ordering::Greater => break,
            }
        }
    }
    sum
}

/// The discounted problem of a model.
fn problem(whole: &dyn Whole) -> String {
    format!("discounted, gamma {}, {}", whole.gamma(), whole.objective())
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
        Self::from_contents(contents, mdp, problem).map_err(content(path))
    }

    fn from_contents(mut contents: Contents, mdp: &Mdp, problem: &str) -> Result<Self, String> {
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
    /// Opens a checkpoint of a discounted solve of `whole`, whose hash is `model`. The checkpoint has no values; each rank
    /// takes its own.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is a checkpoint of another problem.
    pub fn open(path: &Path, whole: &dyn Whole, model: Hash) -> Result<(Self, Apart), Error> {
        let (contents, values) = Contents::read_apart(path, KIND, model, VALUES, whole.states())?;
        Ok((Self::from_contents(contents, &problem(whole)).map_err(content(path))?, values))
    }

    fn from_contents(mut contents: Contents, problem: &str) -> Result<Self, String> {
        contents.expect("problem", problem)?;
        let method = contents.text("method")?;
        let method = Method::of_name(method).ok_or_else(|| format!("metadata method: found \"{method}\""))?;
        let target: f64 = contents.number("target")?;
        let target = if contents.text("rule")? == "theta" { Target::Theta(target) } else { Target::Epsilon(target) };
        let epsilon_fraction = contents.number("fraction")?;
        if !(epsilon_fraction > 0.0 && epsilon_fraction <= 1.0) {
            return Err(format!("metadata fraction: found {epsilon_fraction}, expected a number in (0, 1]"));
        }
        let in_f64 = contents.number("in_f64")?;
        let attempt = Attempt { epsilon_fraction, by_span: contents.number("by_span")? };
        let in_round = InRound {
            shift_span: contents.number("shift_span")?,
            sweeps: contents.number("round.sweeps")?,
            backward: contents.number("round.backward")?,
            trial: contents.number("round.trial")?,
        };
        let mut run = rounds(&mut contents)?;
        // Files of earlier versions do not tell.
        if contents.text("solved").is_ok() && contents.number("solved")? {
            run.status = Status::Solved;
        }
        Ok(Self { method, in_f64, target, attempt, in_round, values: Vec::new(), run })
    }

    /// The file's contents without the values, for `whole`, whose hash is `model`.
    fn contents(&self, whole: &dyn Whole, model: Hash) -> Contents {
        let mut contents = Contents::new(KIND, model);
        contents.set("problem", problem(whole));
        contents.set("method", self.method);
        contents.set("in_f64", self.in_f64);
        let (rule, target) = match self.target {
            Target::Epsilon(epsilon) => ("epsilon", epsilon),
            Target::Theta(theta) => ("theta", theta),
        };
        contents.set("rule", rule);
        contents.set("target", target);
        contents.set("fraction", self.attempt.epsilon_fraction);
        contents.set("by_span", self.attempt.by_span);
        contents.set("shift_span", self.in_round.shift_span);
        contents.set("round.sweeps", self.in_round.sweeps);
        contents.set("round.backward", self.in_round.backward);
        contents.set("round.trial", self.in_round.trial);
        contents.set("solved", self.run.status == Status::Solved);
        put_rounds(&mut contents, &self.run);
        contents
    }

    /// Writes a checkpoint of `whole`, whose hash is `model`, to the file of the first rank: every rank writes its values at
    /// their offset, or the first reads those of the others piece by piece if they do not share the file system. All ranks
    /// call this together.
    ///
    /// # Errors
    /// If a rank failed. That the file cannot be written is no error here: see [`Checkpoints::finish`].
    pub fn save(
        &self,
        comm: &dyn Communicator,
        checkpoints: &mut Checkpoints,
        whole: &dyn Whole,
        model: Hash,
    ) -> Result<(), comm::Error> {
        let values: &[u8] = cast_slice(&self.values);
        let mut head = Vec::new();
        let mut begin = || {
            if checkpoints.writes() {
                head = self.contents(whole, model).head(VALUES, whole.states())?;
            }
            Ok(())
        };
        let begun = begin();
        if comm.size() == 1 {
            let mut write = |out: &mut dyn io::Write| {
                out.write_all(&head)?;
                out.write_all(values)
            };
            match begun {
                Ok(()) => checkpoints.save_with(&mut write),
                error => checkpoints.note(error),
            }
            return Ok(());
        }
        // The head of the first rank counts: the others have other times.
        let sizes = comm.gather(&[head.len() as u64, values.len() as u64])?;
        let offset = |rank: usize| sizes[0][0] + sizes[..rank].iter().map(|sizes| sizes[1]).sum::<u64>();
        let path = checkpoints.file().unwrap_or(Path::new("")).to_owned();
        let bytes =
            Bytes { header: &head, own: values, offset: offset(comm.rank() as usize), length: offset(sizes.len()) };
        match write_together(comm, &path, &bytes) {
            Ok(true) => checkpoints.note(Ok(())),
            Ok(false) => {
                let divided = Divided::new(comm, &self.values, &self.values)?;
                divided.on_first(|| checkpoints.save_with(|out| write_divided(out, &head, &divided)))?;
            }
            Err(Disagreed::Comm(error)) => return Err(error),
            // The first rank reports it.
            Err(failed) => {
                let message = match &failed {
                    Disagreed::Here(error) => error.to_string(),
                    _ => String::new(),
                };
                let all = comm.all_gather(message.as_bytes())?;
                let message = all.into_iter().enumerate().find(|(_, message)| !message.is_empty());
                let other = |(rank, message): (usize, Vec<u8>)| {
                    io::Error::other(format!("rank {rank}: {}", String::from_utf8_lossy(&message)))
                };
                checkpoints.note(Err(match failed {
                    Disagreed::Here(error) => error,
                    _ => message.map_or_else(|| io::Error::other("a rank failed"), other),
                }));
            }
        }
        Ok(())
    }
}

/// Writes the head of a file, and the values of all ranks.
fn write_divided(out: &mut dyn io::Write, head: &[u8], values: &Divided) -> io::Result<()> {
    out.write_all(head)?;
    let mut left = values.len();
    for piece in comm::Column::<f64>::Divided(values, 0).pieces() {
        out.write_all(cast_slice(&piece))?;
        left -= piece.len() as u64;
    }
    if left == 0 { Ok(()) } else { Err(io::Error::other("the values of a rank are missing")) }
}

/// Adds the record of a run.
fn put_rounds(contents: &mut Contents, run: &Run) {
    let rounds = &run.rounds;
    contents.set("sweeps", run.sweeps());
    contents.set("seconds", run.elapsed.as_secs_f64());
    contents.put("rounds.sweeps", rounds.iter().map(|round| u64::from(round.sweeps)).collect::<Vec<_>>());
    contents.put("rounds.residual", rounds.iter().map(|round| round.residual).collect::<Vec<_>>());
    contents.put("rounds.changed", rounds.iter().map(|round| round.changed.unwrap_or(u64::MAX)).collect::<Vec<_>>());
    contents.put("rounds.seconds", rounds.iter().map(|round| round.seconds).collect::<Vec<_>>());
}

/// The record of a run.
fn rounds(contents: &mut Contents) -> Result<Run, String> {
    let seconds: f64 = contents.number("seconds")?;
    let elapsed = Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("metadata seconds: found {seconds}, expected a time"))?;
    let sweeps: Vec<u64> = contents.take("rounds.sweeps")?;
    let residual: Vec<f64> = contents.take_all("rounds.residual", sweeps.len())?;
    let changed: Vec<u64> = contents.take_all("rounds.changed", sweeps.len())?;
    let seconds: Vec<f64> = contents.take_all("rounds.seconds", sweeps.len())?;
    let round = |index: usize| Round {
        round: index as u32 + 1,
        sweeps: u32::try_from(sweeps[index]).unwrap_or(u32::MAX),
        residual: residual[index],
        changed: Some(changed[index]).filter(|&changed| changed != u64::MAX),
        seconds: seconds[index],
    };
    Ok(Run { status: Status::Interrupted, rounds: (0..sweeps.len()).map(round).collect(), elapsed })
}
