//! `warpkov hmm decode`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use warpkov::hmm::model::{Hmm, name};
use warpkov::hmm::recursions::{NO_STATE, posterior_path};
use warpkov::hmm::sequences::Sequences;
use warpkov::mdp::io::write_npy;

use super::file::{Data, Input, numbers, only, print_json};
use super::{Error, Outcome};
use crate::cli::file::{extension, write_whole, writes};

/// Finds the hidden states behind sequences: the most probable path, or the most probable state of each step.
///
/// Prints one line a sequence, its states by name or number; `impossible` where the model cannot emit the sequence. Of equally
/// probable paths it is the one whose last state is the lowest; of those, the one whose state before is the lowest; and so on.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm decode model.json data.txt
  warpkov hmm decode dna.json genes.fasta --out paths.txt
  warpkov hmm decode model.json data.txt --by posterior --json")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    data: Data,
    /// What is most probable.
    #[arg(long, value_enum, default_value = "viterbi")]
    by: By,
    /// Write the states to this file instead: .txt as they are printed, .csv, or .npy as numbers (2³² − 1: none).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum By {
    /// The path, by Viterbi's algorithm.
    Viterbi,
    /// The state of each step by itself, by its posterior probability.
    Posterior,
}

/// Reads, decodes, prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let target = match &arguments.out {
        Some(path) => {
            writes(path)?;
            Some((path, extension(path, &["txt", "csv", "npy"])?))
        }
        None => None,
    };
    let (model, sequences) = arguments.data.read(&arguments.input)?;
    let place = arguments.data.place(&model, &sequences)?;
    let (mut recursions, device) = (arguments.data.by(&place, &model, &sequences)?, place.name());
    let (states, scores) = match arguments.by {
        By::Viterbi => {
            let decoded = only(recursions.viterbi()?);
            (decoded.states, Some(decoded.scores))
        }
        By::Posterior => (posterior_path(&only(recursions.posteriors()?), model.states()), None),
    };
    match target {
        Some((path, "npy")) => write_whole(path, |out| write_npy(out, &states))?,
        Some((path, "csv")) => write_whole(path, |out| write_csv(out, &model, &sequences, &states))?,
        Some((path, _)) => write_whole(path, |out| write_lines(out, &model, &sequences, &states))?,
        None if arguments.json => {
            let path = |sequence: usize| -> Value {
                let names = states[sequences.range(sequence)].iter();
                names.map(|&state| (state != NO_STATE).then(|| name(&model.names.states, state))).collect()
            };
            let paths: Value = (0..sequences.len()).map(path).collect();
            let scores = scores.map(|scores| numbers(&scores));
            let object = json!({
                "paths": paths, "scores": scores, "device": device, "precision": arguments.data.precision,
            });
            print_json(&mut out, &object)?;
        }
        None => write_lines(&mut BufWriter::new(out), &model, &sequences, &states)?,
    }
    Ok(Outcome::Success)
}

fn write_lines(out: &mut dyn Write, model: &Hmm, sequences: &Sequences, states: &[u32]) -> io::Result<()> {
    for sequence in 0..sequences.len() {
        let path = &states[sequences.range(sequence)];
        if path[0] == NO_STATE {
            write!(out, "impossible")?;
        } else {
            for (t, &state) in path.iter().enumerate() {
                write!(out, "{}{}", if t == 0 { "" } else { " " }, name(&model.names.states, state))?;
            }
        }
        writeln!(out)?;
    }
    out.flush()
}

fn write_csv(out: &mut dyn Write, model: &Hmm, sequences: &Sequences, states: &[u32]) -> io::Result<()> {
    writeln!(out, "sequence,position,state")?;
    for sequence in 0..sequences.len() {
        for (position, &state) in states[sequences.range(sequence)].iter().enumerate() {
            let state = if state == NO_STATE { String::new() } else { name(&model.names.states, state) };
            writeln!(out, "{},{},{state}", sequence + 1, position + 1)?;
        }
    }
    Ok(())
}
