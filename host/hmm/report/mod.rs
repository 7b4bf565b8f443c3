//! Reports of scoring, decoding, posteriors and training: text, JSON, and files of results.
//!
//! The JSON objects share the fields of their [`Context`]: `device`, `precision`, `phases`, and,
//! where there are any, `names`, `starts`, `positions`, `notes`, `ranks` and `verified`.

mod decode;
mod lists;
mod occupancy;
mod posteriors;
mod score;
mod stochastic;
mod train;
mod variational;
mod windows;

use std::io::{self, Write};

use serde::Serialize;

pub use self::decode::{PathFormat, Paths, StateFormat};
pub use self::lists::PathLists;
pub use self::occupancy::Occupancies;
pub use self::posteriors::{PosteriorFormat, Posteriors};
pub use self::score::{ScoreFormat, Scores};
pub use self::stochastic::StochasticTraining;
pub use self::train::{Training, progress};
pub use self::variational::{BeliefTraining, LOWER_BOUND};
pub use self::windows::WindowScores;
use super::divided::RankShare;
use super::io::sequences::Records;
use super::model::Hmm;
use super::options::Precision;
use warpkov_common::names::name;
use warpkov_common::numbers::Number;
use warpkov_common::ranks::summary;
use warpkov_common::report::write_object;

/// Seconds of the phases of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Reading and checking model and sequences.
    pub read: f64,
    /// Opening the device.
    pub start: f64,
    /// The recursions, with the copies of model and sequences to a device.
    pub solve: f64,
    /// Writing files.
    pub write: f64,
}

/// How far a result may be from the exact one, by a proof apart from the recursions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Proven {
    /// Whether that is at most `limit`.
    pub proved: bool,
    /// What was asked.
    pub limit: f64,
    /// Proved upper bound; infinite where nothing is proved.
    pub upper: Number,
}

/// Input and device of a run.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The model.
    pub model: &'a Hmm,
    /// The sequences, with the names and positions that their file gives.
    pub records: &'a Records,
    /// The device, in words.
    pub device: String,
    /// Floating-point type of the recursions.
    pub precision: Precision,
    /// Reason why `auto` chose the device.
    pub reason: Option<String>,
    /// Time of each phase.
    pub phases: Phases,
    /// All ranks, if there are several.
    pub ranks: Vec<RankShare>,
    /// The proof of the result, if there is one.
    pub verified: Option<Proven>,
}

/// The fields that all JSON objects share.
#[derive(Serialize)]
struct Shared<'a> {
    device: &'a str,
    precision: Precision,
    phases: Phases,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    starts: &'a [u64],
    /// Positions, from 0, of the observations of each sequence, if some were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    positions: Vec<&'a [u64]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'a String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ranks: &'a [RankShare],
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Proven>,
}

/// The fields of one report beside the shared ones.
#[derive(Serialize)]
struct Object<'a, R: Serialize> {
    #[serde(flatten)]
    results: R,
    #[serde(flatten)]
    shared: Shared<'a>,
}

impl Context<'_> {
    fn write_json(&self, out: &mut dyn Write, results: impl Serialize) -> io::Result<()> {
        let Records { sequences, names, starts, positions, notes, .. } = self.records;
        let positions = match &positions[..] {
            [] => Vec::new(),
            all => (0..sequences.len()).map(|sequence| &all[sequences.range(sequence)]).collect(),
        };
        let notes = notes.iter().chain(&self.reason).collect();
        let Self { device, precision, phases, ranks, verified, .. } = self;
        let (precision, phases, verified) = (*precision, *phases, *verified);
        let shared = Shared { device, precision, phases, names, starts, positions, notes, ranks, verified };
        write_object(out, &Object { results, shared })
    }

    /// Two lines about the time of the solve on its device, and that of the files.
    fn write_times(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { device, precision, phases: Phases { read, solve, write, .. }, .. } = self;
        writeln!(out, "Time             {solve:.3} s on {device}, {precision}")?;
        writeln!(out, "  files          {read:.3} s to read, {write:.3} s to write")
    }

    /// One line about the ranks, if there are several.
    fn write_ranks(&self, out: &mut dyn Write) -> io::Result<()> {
        match summary(&self.ranks) {
            Some(ranks) => writeln!(out, "Ranks            {ranks}"),
            None => Ok(()),
        }
    }

    /// M, the number of sequences.
    fn sequences(&self) -> usize {
        self.records.sequences.len()
    }

    /// N, the number of states.
    fn states(&self) -> usize {
        self.model.start().len()
    }

    /// The name of each state, passed through `quote`.
    fn state_names(&self, quote: impl Fn(&str) -> String) -> Vec<String> {
        state_names(self.model, quote)
    }
}

fn state_names(model: &Hmm, quote: impl Fn(&str) -> String) -> Vec<String> {
    (0..model.states()).map(|state| quote(&name(&model.names().states, state))).collect()
}

/// One element per sequence.
#[derive(Serialize)]
#[serde(transparent)]
struct Each<T>(Vec<T>);
