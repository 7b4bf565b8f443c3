//! `warpkov hmm decode`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use warpkov::common::names::name;
use warpkov::hmm::backend::{NO_STATE, posterior_path};
use warpkov::hmm::io::sequences::{field, word};
use warpkov::hmm::model::Hmm;
use warpkov::mdp::io::write_npy;

use super::file::{Data, Given, Input, List, Phases, Watch, list, numbers, only, print_json};
use super::{Error, Outcome};
use crate::cli::common::file::{extension, room, write_whole, writes};

/// Finds the hidden states behind sequences: the most probable path, or the most probable state of each step.
///
/// Prints one line a sequence, its states by name or number; `impossible` where the model cannot emit the sequence. Of equally
/// probable paths it is the one whose last state is the lowest; of those, the one whose state before is the lowest; and so on.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm decode model.json data.txt
  warpkov hmm decode dna.json genes.fasta.gz --missing marginalise --out islands.bed --states CpG
  warpkov hmm decode model.json days.csv --columns rain,wind --id station --out states.csv
  warpkov hmm decode model.json data.txt --by posterior --json")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    data: Data,
    /// What is most probable.
    #[arg(long, value_enum, default_value = "viterbi")]
    by: By,
    /// Write the states to this file instead: .txt as they are printed, .csv, .bed with a line for each run of a state, or .npy as
    /// numbers (2³² − 1: none).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// States whose runs are written to a .bed file, by name, or by number from 0 where they have no names [default: all].
    #[arg(long, value_name = "LIST", value_parser = list, requires = "out")]
    states: Option<List>,
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
            Some((path, extension(path, &["txt", "csv", "bed", "npy"])?))
        }
        None => None,
    };
    let bed = matches!(target, Some((_, "bed")));
    if arguments.states.is_some() && !bed {
        return Err(Error::Usage("--states chooses what is written with --out to a .bed file".to_owned()));
    }
    let mut watch = Watch::start();
    let given = arguments.data.read(&arguments.input)?;
    let read = watch.lap();
    let (model, sequences) = (&given.model, given.sequences());
    if bed && given.records.skipped {
        let message = "positions in a .bed file are those of the sequences: with --missing skip they are not known";
        return Err(Error::Usage(message.to_owned()));
    }
    let chosen = chosen(model, arguments.states.as_ref())?;
    if let Some((path, format)) = target {
        // Runs of a state are one line of BED.
        let least = match format {
            "npy" => 4,
            "csv" => 6,
            "bed" => 0,
            _ => 2,
        };
        room(path, sequences.steps() as u64 * least)?;
    }
    let place = arguments.data.place(&given)?;
    let start = watch.lap();
    let (mut recursions, device) = (arguments.data.by(&place, &given)?, place.name());
    let precision = arguments.data.precision(&place, &given);
    let (states, scores) = match arguments.by {
        By::Viterbi => {
            let decoded = only(recursions.viterbi()?);
            (decoded.states, Some(decoded.scores))
        }
        By::Posterior => (posterior_path(&only(recursions.posteriors()?), model.states()), None),
    };
    let solve = watch.lap();
    given.note_impossible(|sequence| states[sequences.range(sequence).start] != NO_STATE);
    match target {
        Some((path, "npy")) => write_whole(path, |out| write_npy(out, &states))?,
        Some((path, "csv")) => write_whole(path, |out| write_csv(out, &given, &states))?,
        Some((path, "bed")) => write_whole(path, |out| write_bed(out, &given, &states, &chosen))?,
        Some((path, _)) => write_whole(path, |out| write_lines(out, &given, &states))?,
        None if arguments.json => {
            let path = |sequence: usize| -> Value {
                let names = states[sequences.range(sequence)].iter();
                names.map(|&state| (state != NO_STATE).then(|| name(&model.names().states, state))).collect()
            };
            let paths: Value = (0..sequences.len()).map(path).collect();
            let scores = scores.map(|scores| numbers(&scores));
            // --out, which is another phase, has no --json.
            let phases = Phases { read, start, solve, write: 0.0 };
            let mut object =
                json!({ "paths": paths, "scores": scores, "device": device, "precision": precision, "phases": phases });
            given.describe(&mut object);
            print_json(&mut out, &object)?;
        }
        None => write_lines(&mut BufWriter::new(out), &given, &states)?,
    }
    Ok(Outcome::Success)
}

/// Whether each state is to be written.
fn chosen(model: &Hmm, asked: Option<&List>) -> Result<Vec<bool>, Error> {
    let Some(List(asked)) = asked else { return Ok(vec![true; model.start().len()]) };
    let mut chosen = vec![false; model.start().len()];
    let names: Vec<String> = (0..model.states()).map(|state| name(&model.names().states, state)).collect();
    for text in asked {
        let Some(state) = names.iter().position(|name| name == text) else {
            return Err(Error::Usage(format!("--states: the model has no state {text:?}")));
        };
        chosen[state] = true;
    }
    Ok(chosen)
}

fn write_lines(out: &mut dyn Write, given: &Given, states: &[u32]) -> io::Result<()> {
    let sequences = given.sequences();
    let names = names(&given.model, |name| word(name).into_owned());
    for sequence in 0..sequences.len() {
        let path = &states[sequences.range(sequence)];
        if path[0] == NO_STATE {
            write!(out, "impossible")?;
        } else {
            for (t, &state) in path.iter().enumerate() {
                write!(out, "{}{}", if t == 0 { "" } else { " " }, names[state as usize])?;
            }
        }
        writeln!(out)?;
    }
    out.flush()
}

fn write_csv(out: &mut dyn Write, given: &Given, states: &[u32]) -> io::Result<()> {
    let sequences = given.sequences();
    let names = names(&given.model, field);
    writeln!(out, "sequence,position,state")?;
    for sequence in 0..sequences.len() {
        let (name, start) = (field(&given.records.name(sequence)), given.records.start(sequence));
        for (position, &state) in (start + 1..).zip(&states[sequences.range(sequence)]) {
            let state = names.get(state as usize).map_or("", String::as_str);
            writeln!(out, "{name},{position},{state}")?;
        }
    }
    Ok(())
}

/// Runs of the states that are chosen: name of the sequence, first position from 0, the one behind the last, and the state. What lies
/// between parts of a sequence is in no run.
fn write_bed(out: &mut dyn Write, given: &Given, states: &[u32], chosen: &[bool]) -> io::Result<()> {
    // Fields end at tabs.
    let plain = |text: &str| text.replace(|letter: char| letter.is_whitespace() || letter.is_control(), "_");
    let sequences = given.sequences();
    let names = names(&given.model, plain);
    for sequence in 0..sequences.len() {
        let record = plain(&given.records.name(sequence));
        let mut at = given.records.start(sequence);
        for run in states[sequences.range(sequence)].chunk_by(|a, b| a == b) {
            let (begin, state) = (at, run[0] as usize);
            at += run.len() as u64;
            if chosen.get(state) == Some(&true) {
                writeln!(out, "{record}\t{begin}\t{at}\t{}", names[state])?;
            }
        }
    }
    Ok(())
}

/// Names of states, as a file has them.
fn names(model: &Hmm, of: impl Fn(&str) -> String) -> Vec<String> {
    (0..model.states()).map(|state| of(&name(&model.names().states, state))).collect()
}
