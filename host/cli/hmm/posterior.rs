//! `warpkov hmm posterior`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use warpkov::common::names::name;
use warpkov::hmm::io::sequences::field;
use warpkov::hmm::plot::draw_posteriors;
use warpkov::mdp::io::write_npy_rows;

use super::file::{Data, Given, Input, Phases, Watch, numbers, only, print_json};
use super::{Error, Outcome};
use crate::cli::common::file::{extension, plot_format, room, write_whole, writes};

/// Gives the posterior probability of every state at every step, by the forward and backward recursions.
///
/// Prints a table: sequence, position, and a probability for each state.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm posterior model.json data.txt
  warpkov hmm posterior model.json data.txt --out posteriors.npy
  warpkov hmm posterior model.json data.txt --out posteriors.csv --plot states.svg --sequence 2")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    data: Data,
    /// Write the probabilities to this file instead: .csv, or .npy with a row for each observation.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw the probabilities over time to this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Number of the sequence to draw, from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    sequence: u64,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "out")]
    json: bool,
}

/// Reads, computes, prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let target = match &arguments.out {
        Some(path) => {
            writes(path)?;
            Some((path, extension(path, &["csv", "npy"])?))
        }
        None => None,
    };
    let format = arguments.plot.as_deref().map(plot_format).transpose()?;
    let mut watch = Watch::start();
    let given = arguments.data.read(&arguments.input)?;
    let read = watch.lap();
    let (model, sequences) = (&given.model, given.sequences());
    if arguments.sequence > sequences.len() as u64 {
        let (found, count) = (arguments.sequence, sequences.len());
        return Err(Error::Usage(format!("--sequence {found}: expected 1 to {count}, the number of sequences")));
    }
    if let Some((path, format)) = target {
        let least = if format == "npy" { 8 } else { 4 };
        room(path, sequences.steps() as u64 * model.start().len() as u64 * least)?;
    }
    let place = arguments.data.place(&given)?;
    let start = watch.lap();
    let (mut recursions, device) = (arguments.data.by(&place, &given)?, place.name());
    let precision = arguments.data.precision(&place, &given);
    let posteriors = only(recursions.posteriors()?);
    let solve = watch.lap();
    let n = model.start().len();
    given.note_impossible(|sequence| posteriors[sequences.range(sequence).start * n..][..n].iter().any(|p| *p > 0.0));
    match target {
        Some((path, "npy")) => write_whole(path, |out| write_npy_rows(out, &posteriors, n))?,
        Some((path, _)) => write_whole(path, |out| write_csv(out, &given, &posteriors))?,
        None => {}
    }
    if let (Some(path), Some(format)) = (&arguments.plot, format) {
        let range = sequences.range(arguments.sequence as usize - 1);
        let name = given.records.name(arguments.sequence as usize - 1);
        let first = given.records.start(arguments.sequence as usize - 1) + 1;
        let title = format!("{}, sequence {name}: posterior of states", arguments.input.name());
        let picture = draw_posteriors(&title, model, &posteriors[range.start * n..range.end * n], first, format)?;
        write_whole(path, |out| out.write_all(&picture))?;
    }
    let phases = Phases { read, start, solve, write: watch.lap() };
    if arguments.json {
        let rows = |sequence: usize| -> Value {
            let range = sequences.range(sequence);
            posteriors[range.start * n..range.end * n].chunks_exact(n).map(numbers).collect()
        };
        let all: Value = (0..sequences.len()).map(rows).collect();
        let mut object = json!({ "posteriors": all, "device": device, "precision": precision, "phases": phases });
        given.describe(&mut object);
        print_json(&mut out, &object)?;
    } else if target.is_none() {
        write_csv(&mut BufWriter::new(out), &given, &posteriors)?;
    }
    Ok(Outcome::Success)
}

fn write_csv(out: &mut dyn Write, given: &Given, posteriors: &[f64]) -> io::Result<()> {
    let (model, sequences) = (&given.model, given.sequences());
    let n = model.start().len();
    write!(out, "sequence,position")?;
    for state in 0..model.states() {
        write!(out, ",{}", field(&name(&model.names().states, state)))?;
    }
    writeln!(out)?;
    for sequence in 0..sequences.len() {
        let (name, start) = (field(&given.records.name(sequence)), given.records.start(sequence));
        for (position, at) in (start + 1..).zip(sequences.range(sequence)) {
            write!(out, "{name},{position}")?;
            for p in &posteriors[at * n..][..n] {
                write!(out, ",{p:?}")?;
            }
            writeln!(out)?;
        }
    }
    out.flush()
}
