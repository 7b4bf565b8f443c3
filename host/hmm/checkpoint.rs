//! Checkpoints of training: all models after their last M step, and their log-likelihoods.
//!
//! | tensor | type | contents |
//! | --- | --- | --- |
//! | `start`, `transitions`, `end`, `emissions`, `covariances` | F64 | parameters of all models, one model after the other |
//! | `durations` | F64 | chains and durations of all models, where they have durations |
//! | `logs.count` | U64 | number of log-likelihoods of each model |
//! | `log_likelihoods`, `objectives` | F64 | those of all models, one model after the other |
//! | `converged` | U32 | 1 for models that have converged, else 0 |
//! | `fell` | F64 | objective of each model before it fell, NaN if it did not |
//!
//! `emissions` holds B, the means, or all parameters of channels. The metadata hold the number of M steps (`iterations`), the `seconds` so far, and
//! the `objective`: prior, variance floor, frozen parameters and constraint, which must stay the same.
//!
//! Training goes on with the E step that followed the last M step, so that its models have the bits of a training that
//! was not interrupted, on equally many ranks.

use std::borrow::Cow;
use std::path::Path;

use bytemuck::cast_slice;

use super::durations::Segments;
use super::model::{Covariances, Emissions, Hmm, HmmParts};
use super::options::{By, Constraint, Frozen, Options, Pseudocount};
use super::sequences::{Observations, Sequences};
use super::solution::Run;
use warpkov_common::checkpoint::{Contents, Hash, content};
use warpkov_common::io::Error;

const KIND: &str = "hmm";

/// The state of training between two iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Number of M steps.
    pub iteration: u32,
    /// All models, with their log-likelihoods.
    pub runs: Vec<Run>,
    /// Seconds so far.
    pub seconds: f64,
}

/// The hash of the models that training starts from, and of the sequences with their known states, their weights, and the
/// `sets` of their [ambiguous](super::ambiguous) symbols.
#[must_use]
pub fn hash(models: &[Hmm], (sequences, sets): (&Sequences, &[Vec<u32>])) -> Hash {
    let mut arrays: Vec<&[u8]> = vec![cast_slice(sequences.offsets())];
    arrays.extend(sets.iter().map(|set| cast_slice::<u32, u8>(set)));
    match sequences.observations() {
        Observations::Symbols(symbols) => arrays.push(cast_slice(symbols)),
        Observations::Vectors { values, .. } => arrays.push(cast_slice(values)),
    }
    let numbers: Vec<_> = models.iter().map(numbers).collect();
    for numbers in &numbers {
        arrays.extend(numbers.iter().map(|(_, numbers)| cast_slice::<f64, u8>(numbers)));
    }
    let (states, weights) = (sequences.states(), sequences.weights());
    arrays.extend([cast_slice(states), cast_slice(weights)].into_iter().filter(|array: &&[u8]| !array.is_empty()));
    (0..).zip(arrays).map(|(item, bytes)| Hash::new(item, bytes)).fold(Hash::default(), Hash::and)
}

/// The arrays of a model, and their names.
fn numbers(model: &Hmm) -> [(&'static str, Cow<'_, [f64]>); 5] {
    let (emissions, covariances): (Cow<'_, [f64]>, &[f64]) = match model.emissions() {
        Emissions::Categorical { probs, .. } => (probs.into(), &[]),
        Emissions::Gaussian {
            means, covariances: Covariances::Diagonal(numbers) | Covariances::Full(numbers), ..
        } => (means.into(), numbers),
        Emissions::Channels(channels) => (channels.numbers(model.start().len()).concat().into(), &[]),
    };
    [
        ("start", model.start().into()),
        ("transitions", model.transitions().into()),
        ("end", model.end().unwrap_or_default().into()),
        ("emissions", emissions),
        ("covariances", covariances.into()),
    ]
}

/// Replaces an array of a model, in the order of [`numbers`], by as many numbers.
fn replace(parts: &mut HmmParts, array: usize, mut numbers: &[f64]) {
    let arrays = match (array, &mut parts.emissions) {
        (0, _) => vec![&mut parts.start],
        (1, _) => vec![&mut parts.transitions],
        (2, _) => parts.end.as_mut().into_iter().collect(),
        (3, Emissions::Categorical { probs: numbers, .. } | Emissions::Gaussian { means: numbers, .. }) => {
            vec![numbers]
        }
        (3, Emissions::Channels(channels)) => channels.numbers_mut(),
        (_, Emissions::Gaussian { covariances: Covariances::Diagonal(numbers) | Covariances::Full(numbers), .. }) => {
            vec![numbers]
        }
        _ => Vec::new(),
    };
    for array in arrays {
        let (first, rest) = numbers.split_at(array.len());
        array.copy_from_slice(first);
        numbers = rest;
    }
}

/// What training maximises, beside the likelihood.
fn objective(options: &Options) -> String {
    let counts = &options.pseudocounts;
    let [start, transitions, emissions] =
        [&counts.start, &counts.transitions, &counts.emissions].map(|one| match one {
            Pseudocount::Equal(count) => count.to_string(),
            Pseudocount::Each(counts) => format!("{counts:?}"),
        });
    let mut text = match options.by {
        By::BaumWelch => String::new(),
        by => format!("by {by}, "),
    };
    text += &format!("pseudocounts {start}, {transitions} and {emissions}, variance floor {}", options.floor);
    if options.sticky != 0.0 {
        text += &format!(", sticky {}", options.sticky);
    }
    if let Some(prior) = &options.normals {
        text += &format!(", {prior:?}");
    }
    if options.frozen != Frozen::default() {
        text += &format!(", {:?}", options.frozen);
    }
    if !options.ties.is_empty() {
        text += &format!(", tied emissions {:?}", options.ties);
    }
    if !options.tied_transitions.is_empty() {
        text += &format!(", tied transitions {:?}", options.tied_transitions);
    }
    if options.constraint != Constraint::None {
        text += &format!(", {} covariances", options.constraint);
    }
    text
}

impl Checkpoint {
    /// Reads a checkpoint of training that started from these models.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is a checkpoint of other models, sequences or options.
    pub fn read(
        path: &Path,
        models: &[Hmm],
        data: (&Sequences, &[Vec<u32>]),
        options: &Options,
    ) -> Result<Self, Error> {
        let contents = Contents::read(path, KIND, hash(models, data))?;
        Self::from_contents(contents, models, options).map_err(content(path))
    }

    fn from_contents(mut contents: Contents, models: &[Hmm], options: &Options) -> Result<Self, String> {
        contents.expect("objective", &objective(options))?;
        let (iteration, seconds) = (contents.number("iterations")?, contents.number("seconds")?);
        let count = models.len();
        let mut trained = models.to_vec();
        for (at, (name, shape)) in models.first().map(numbers).into_iter().flatten().enumerate() {
            let all = contents.take_finite(name, count * shape.len())?;
            for (model, part) in trained.iter_mut().zip(all.chunks_exact(shape.len().max(1))) {
                model.update(|parts| replace(parts, at, part));
            }
        }
        let of_each = models.first().and_then(Hmm::segments).map_or(0, |segments| segments.numbers().len());
        if of_each > 0 {
            let all = contents.take_finite("durations", count * of_each)?;
            for (model, part) in trained.iter_mut().zip(all.chunks_exact(of_each)) {
                model.update_segments(|_, segments| segments.into_iter().for_each(|segments| segments.set(part)));
            }
        }
        // The validated model would be rescaled.
        for model in &trained {
            model.clone().into_parts().validated().map_err(|error| error.to_string())?;
        }
        let lengths: Vec<u64> = contents.take_all("logs.count", count)?;
        let total = lengths.iter().try_fold(0_usize, |sum, &length| sum.checked_add(usize::try_from(length).ok()?));
        let total = total.ok_or("tensor logs.count: too many log-likelihoods")?;
        let mut logs = contents.take_finite("log_likelihoods", total)?.into_iter();
        let mut objectives = contents.take_finite("objectives", total)?.into_iter();
        let converged: Vec<u32> = contents.take_all("converged", count)?;
        let fell: Vec<f64> = contents.take_all("fell", count)?;
        let run = |(index, model): (usize, Hmm)| {
            let length = lengths[index] as usize;
            Run {
                model,
                log_likelihoods: logs.by_ref().take(length).collect(),
                objectives: objectives.by_ref().take(length).collect(),
                converged: converged[index] > 0,
                fell: Some(fell[index]).filter(|fell| !fell.is_nan()),
            }
        };
        let runs: Vec<Run> = trained.into_iter().enumerate().map(run).collect();
        let least = |run: &Run| if run.ended() { 1 } else { u64::from(iteration) };
        match runs.iter().find(|run| (run.log_likelihoods.len() as u64) < least(run)) {
            Some(run) => Err(format!("{} log-likelihoods after {iteration} iterations", run.log_likelihoods.len())),
            None => Ok(Self { iteration, runs, seconds }),
        }
    }

    /// The file's contents for training with these options, where `model` is the [`hash`] of its start.
    #[must_use]
    pub fn contents(&self, options: &Options, model: Hash) -> Contents {
        let mut contents = Contents::new(KIND, model);
        contents.set("objective", objective(options));
        contents.set("iterations", self.iteration);
        contents.set("seconds", self.seconds);
        let runs = &self.runs;
        for at in 0..runs.first().map_or(0, |run| numbers(&run.model).len()) {
            let (name, _) = numbers(&runs[0].model)[at];
            contents.put(name, runs.iter().flat_map(|run| numbers(&run.model)[at].1.to_vec()).collect::<Vec<_>>());
        }
        let durations: Vec<f64> =
            runs.iter().filter_map(|run| run.model.segments()).flat_map(Segments::numbers).collect();
        if !durations.is_empty() {
            contents.put("durations", durations);
        }
        contents.put("logs.count", runs.iter().map(|run| run.log_likelihoods.len() as u64).collect::<Vec<_>>());
        contents.put("log_likelihoods", runs.iter().flat_map(|run| &run.log_likelihoods).copied().collect::<Vec<_>>());
        contents.put("objectives", runs.iter().flat_map(|run| &run.objectives).copied().collect::<Vec<_>>());
        contents.put("converged", runs.iter().map(|run| u32::from(run.converged)).collect::<Vec<_>>());
        contents.put("fell", runs.iter().map(|run| run.fell.unwrap_or(f64::NAN)).collect::<Vec<_>>());
        contents
    }
}
