//! Checkpoints of a search: its vectors with their continuations, the points of its upper bound, and its beliefs.
//!
//! | tensor | type | contents |
//! | --- | --- | --- |
//! | `vectors`, `actions`, `next` | F64, U32, U32 | Γ and the vectors that it continues with: α(s), the first action, and the index of the next vector after each observation |
//! | `points.length`, `points.states`, `points.probs`, `points.upper` | U64, U32, F64, F64 | the beliefs of the upper bound, one after the other, and the bound at each |
//! | `beliefs.length`, `beliefs.states`, `beliefs.probs` | U64, U32, F64 | the beliefs B |
//! | `rounds.*` | F64, U64 | the recorded progress, as in [`Round`] |
//!
//! The metadata hold the numbers of `iterations` and `backups`, the `seconds`, both bounds, and their rounding slack. Values
//! are those of the maximisation problem.
//!
//! Every vector is a lower bound and every point an upper bound, whatever found them. A search that goes on from them has
//! at least the bounds of the checkpoint. Its random numbers are a stream of their own, named by the number of expansions, so
//! that it does not walk the same walks again.

use std::io::{self, Write};
use std::path::Path;

use bytemuck::cast_slice;

use super::alpha::{AlphaVectors, VectorSet};
use super::backend::Plans;
use super::belief::Belief;
use super::model::Pomdp;
use super::solution::Round;
use warpkov_common::checkpoint::{Contents, Hash, content};
use warpkov_common::io::Error;
use warpkov_common::io::safetensors::{Entry, Tensor};
use warpkov_mdp::checkpoint::hash as process_hash;

const KIND: &str = "pomdp";

/// The state of a search between two expansions, for the maximisation problem.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Γ and retired vectors. The first |A| are the blind policies, which continue with themselves.
    pub plans: Plans,
    /// Beliefs, and upper bounds on V\* at them.
    pub points: Vec<(Belief, f64)>,
    /// B.
    pub beliefs: Vec<Belief>,
    /// Number of expansions.
    pub iterations: u64,
    /// Number of backups.
    pub backups: u64,
    /// Seconds so far.
    pub seconds: f64,
    /// An upper bound on V\*(b₀).
    pub upper: f64,
    /// Bounds on the rounding errors of vectors and points.
    pub slack: [f64; 2],
    /// Recorded progress, with the model's own sign.
    pub rounds: Vec<Round>,
}

/// The hash of a model's numbers.
#[must_use]
pub fn hash(model: &Pomdp) -> Hash {
    let (process, seen) = (model.process(), model.observations());
    let start = model.start();
    let first = u64::from(model.states());
    let sizes = [model.actions(), model.observation_count()];
    let numbers = [model.gamma(), process.objective().sign()];
    let arrays: [&[u8]; 8] = [
        cast_slice(&sizes),
        cast_slice(&numbers),
        cast_slice(seen.row_ptr()),
        cast_slice(seen.col()),
        cast_slice(seen.val()),
        cast_slice(start.states()),
        cast_slice(start.probs()),
        cast_slice(model.seen()),
    ];
    (first..).zip(arrays).map(|(item, bytes)| Hash::new(item, bytes)).fold(process_hash(process), Hash::and)
}

impl Checkpoint {
    /// Reads a checkpoint of a search in `model`.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is a checkpoint of another model.
    pub fn read(path: &Path, model: &Pomdp) -> Result<Self, Error> {
        let contents = Contents::read(path, KIND, hash(model))?;
        Self::from_contents(contents, model).map_err(content(path))
    }

    fn from_contents(mut contents: Contents, model: &Pomdp) -> Result<Self, String> {
        let (states, width) = (model.states(), model.observation_count() as usize);
        let actions: Vec<u32> = contents.take("actions")?;
        let count = actions.len();
        let length = |each: usize| count.checked_mul(each).ok_or("too many vectors");
        let values = contents.take_finite("vectors", length(states as usize)?)?;
        let next: Vec<u32> = contents.take_all("next", length(width)?)?;
        let vectors = AlphaVectors::from_parts(states, values, actions).map_err(|error| error.to_string())?;
        if !vectors.fit(states, model.actions()) {
            return Err(format!("tensor actions: expected actions below {}", model.actions()));
        }
        if let Some(found) = next.iter().find(|&&next| next as usize >= count) {
            return Err(format!("tensor next: found {found}, expected vectors below {count}"));
        }
        let blind = |action: usize| {
            vectors.actions()[action] == action as u32
                && next[action * width..][..width].iter().all(|&n| n == action as u32)
        };
        if count < model.actions() as usize || !(0..model.actions() as usize).all(blind) {
            return Err("tensor next: expected the blind policies first".to_owned());
        }
        let points = take_beliefs(&mut contents, "points", model)?;
        let upper = contents.take_finite("points.upper", points.len())?;
        let beliefs = take_beliefs(&mut contents, "beliefs", model)?;
        let slack: [f64; 2] = [contents.number("slack.below")?, contents.number("slack.above")?];
        let numbers: [f64; 2] = [contents.number("seconds")?, contents.number("upper")?];
        if numbers[0].is_nan()
            || numbers[1].is_nan()
            || numbers[0] < 0.0
            || slack.iter().any(|slack| slack.is_nan() || *slack < 0.0)
        {
            return Err("metadata seconds, upper or slack: expected numbers".to_owned());
        }
        Ok(Self {
            plans: Plans { vectors, next },
            points: points.into_iter().zip(upper).collect(),
            beliefs,
            iterations: contents.number("iterations")?,
            backups: contents.number("backups")?,
            seconds: numbers[0],
            upper: numbers[1],
            slack,
            rounds: take_rounds(&mut contents)?,
        })
    }
}

/// What a walk over beliefs calls with each, and with its upper bound if it is a point.
type Visit<'v> = &'v mut dyn FnMut(&Belief, f64) -> io::Result<()>;

/// A walk over beliefs.
pub type Walk<'a> = Box<dyn Fn(Visit) -> io::Result<()> + 'a>;

/// A [`Checkpoint`] to write, which borrows what is large.
pub struct Snapshot<'a> {
    /// |S|.
    pub states: u32,
    /// Γ, and behind it retired vectors.
    pub vectors: Box<dyn VectorSet + 'a>,
    /// The continuations of all vectors.
    pub next: Vec<u32>,
    /// Beliefs, and upper bounds on V\* at them.
    pub points: Walk<'a>,
    /// B.
    pub beliefs: Walk<'a>,
    /// Number of expansions.
    pub iterations: u64,
    /// Number of backups.
    pub backups: u64,
    /// Seconds so far.
    pub seconds: f64,
    /// An upper bound on V\*(b₀).
    pub upper: f64,
    /// Bounds on the rounding errors of vectors and points.
    pub slack: [f64; 2],
    /// Recorded progress, with the model's own sign.
    pub rounds: &'a [Round],
}

impl Snapshot<'_> {
    /// Writes the file, where `model` is the [`hash`] of the model.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, model: Hash, out: &mut dyn Write) -> io::Result<()> {
        let mut contents = Contents::new(KIND, model);
        contents.set("iterations", self.iterations);
        contents.set("backups", self.backups);
        contents.set("seconds", self.seconds);
        contents.set("upper", self.upper);
        contents.set("slack.below", self.slack[0]);
        contents.set("slack.above", self.slack[1]);
        let count = self.vectors.count();
        contents.put("actions", (0..count).map(|i| self.vectors.action(i)).collect::<Vec<_>>());
        put_rounds(&mut contents, self.rounds);
        let (upper, of_points) = put_lengths(&mut contents, "points", &self.points)?;
        contents.put("points.upper", upper);
        let (_, of_beliefs) = put_lengths(&mut contents, "beliefs", &self.beliefs)?;
        let vectors =
            |out: &mut dyn Write| (0..count).try_for_each(|i| out.write_all(cast_slice(&self.vectors.row(i))));
        let mut tensors = vec![
            Tensor::new("next", "U32", &self.next),
            Tensor::streamed(Entry::new("vectors", "F64", count as u64 * u64::from(self.states)), vectors),
        ];
        for (name, walk, total) in [("points", &self.points, of_points), ("beliefs", &self.beliefs, of_beliefs)] {
            tensors.push(Tensor::streamed(Entry::new(format!("{name}.states"), "U32", total), move |out| {
                walk(&mut |belief, _| out.write_all(cast_slice(belief.states())))
            }));
            tensors.push(Tensor::streamed(Entry::new(format!("{name}.probs"), "F64", total), move |out| {
                walk(&mut |belief, _| out.write_all(cast_slice(belief.probs())))
            }));
        }
        contents.write_with(out, tensors)
    }
}

/// Adds the length of each belief. Returns the bounds and the total length.
fn put_lengths(contents: &mut Contents, name: &str, walk: &Walk) -> io::Result<(Vec<f64>, u64)> {
    let (mut lengths, mut bounds) = (Vec::<u64>::new(), Vec::new());
    walk(&mut |belief, bound| {
        lengths.push(belief.states().len() as u64);
        bounds.push(bound);
        Ok(())
    })?;
    let total = lengths.iter().sum();
    contents.put(&format!("{name}.length"), lengths);
    Ok((bounds, total))
}

fn take_beliefs(contents: &mut Contents, name: &str, model: &Pomdp) -> Result<Vec<Belief>, String> {
    let lengths: Vec<u64> = contents.take(&format!("{name}.length"))?;
    let total = lengths.iter().try_fold(0_usize, |sum, &length| sum.checked_add(usize::try_from(length).ok()?));
    let total = total.ok_or_else(|| format!("tensor {name}.length: too many states"))?;
    let states: Vec<u32> = contents.take_all(&format!("{name}.states"), total)?;
    let probs = contents.take_finite(&format!("{name}.probs"), total)?;
    let mut at = 0;
    let belief = |length: &u64| {
        let own = at..at + *length as usize;
        at = own.end;
        let belief = Belief::new(states[own.clone()].to_vec(), probs[own].to_vec());
        let belief = belief.map_err(|error| format!("{name}: a belief {error}"))?;
        match belief.is_below(model.states()) {
            true => Ok(belief),
            false => Err(format!("{name}: a belief has a state of {} or above", model.states())),
        }
    };
    lengths.iter().map(belief).collect()
}

fn put_rounds(contents: &mut Contents, rounds: &[Round]) {
    let numbers = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
    let counts = |of: fn(&Round) -> u64| rounds.iter().map(of).collect::<Vec<_>>();
    contents.put("rounds.seconds", numbers(|round| round.seconds));
    contents.put("rounds.lower", numbers(|round| round.lower));
    contents.put("rounds.upper", numbers(|round| round.upper));
    contents.put("rounds.iterations", counts(|round| round.iterations));
    contents.put("rounds.backups", counts(|round| round.backups));
    contents.put("rounds.beliefs", counts(|round| round.beliefs as u64));
    contents.put("rounds.vectors", counts(|round| round.vectors as u64));
}

fn take_rounds(contents: &mut Contents) -> Result<Vec<Round>, String> {
    let seconds: Vec<f64> = contents.take("rounds.seconds")?;
    let count = seconds.len();
    let lower: Vec<f64> = contents.take_all("rounds.lower", count)?;
    let upper: Vec<f64> = contents.take_all("rounds.upper", count)?;
    let iterations: Vec<u64> = contents.take_all("rounds.iterations", count)?;
    let backups: Vec<u64> = contents.take_all("rounds.backups", count)?;
    let beliefs: Vec<u64> = contents.take_all("rounds.beliefs", count)?;
    let vectors: Vec<u64> = contents.take_all("rounds.vectors", count)?;
    let round = |i: usize| Round {
        seconds: seconds[i],
        iterations: iterations[i],
        backups: backups[i],
        beliefs: beliefs[i] as usize,
        vectors: vectors[i] as usize,
        lower: lower[i],
        upper: upper[i],
    };
    Ok((0..count).map(round).collect())
}
