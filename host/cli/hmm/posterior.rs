//! `warpkov hmm posterior`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use warpkov::hmm::model::{Hmm, name};
use warpkov::hmm::plot::draw_posteriors;
use warpkov::hmm::sequences::Sequences;
use warpkov::mdp::io::write_npy_rows;

use super::file::{Data, Input, numbers, only, print_json};
use super::{Error, Outcome};
use crate::cli::file::{extension, plot_format, write_whole, writes};

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
    let (model, sequences) = arguments.data.read(&arguments.input)?;
    if arguments.sequence > sequences.len() as u64 {
        let (found, count) = (arguments.sequence, sequences.len());
        return Err(Error::Usage(format!("--sequence {found}: expected 1 to {count}, the number of sequences")));
    }
    let place = arguments.data.place(&model, &sequences)?;
    let (mut recursions, device) = (arguments.data.by(&place, &model, &sequences)?, place.name());
    let posteriors = only(recursions.posteriors()?);
    let n = model.start.len();
    match target {
        Some((path, "npy")) => write_whole(path, |out| write_npy_rows(out, &posteriors, n))?,
        Some((path, _)) => write_whole(path, |out| write_csv(out, &model, &sequences, &posteriors))?,
        None => {}
    }
    if let (Some(path), Some(format)) = (&arguments.plot, format) {
        let range = sequences.range(arguments.sequence as usize - 1);
        let title = format!("{}, sequence {}: posterior of states", arguments.input.name(), arguments.sequence);
        let picture = draw_posteriors(&title, &model, &posteriors[range.start * n..range.end * n], format)?;
        write_whole(path, |out| out.write_all(&picture))?;
    }
    if arguments.json {
        let rows = |sequence: usize| -> Value {
            let range = sequences.range(sequence);
            posteriors[range.start * n..range.end * n].chunks_exact(n).map(numbers).collect()
        };
        let all: Value = (0..sequences.len()).map(rows).collect();
        let object = json!({ "posteriors": all, "device": device, "precision": arguments.data.precision });
        print_json(&mut out, &object)?;
    } else if target.is_none() {
        write_csv(&mut BufWriter::new(out), &model, &sequences, &posteriors)?;
    }
    Ok(Outcome::Success)
}

fn write_csv(out: &mut dyn Write, model: &Hmm, sequences: &Sequences, posteriors: &[f64]) -> io::Result<()> {
    let n = model.start.len();
    write!(out, "sequence,position")?;
    for state in 0..model.states() {
        write!(out, ",{}", name(&model.names.states, state))?;
    }
    writeln!(out)?;
    for sequence in 0..sequences.len() {
        for (position, at) in sequences.range(sequence).enumerate() {
            write!(out, "{},{}", sequence + 1, position + 1)?;
            for p in &posteriors[at * n..][..n] {
                write!(out, ",{p:?}")?;
            }
            writeln!(out)?;
        }
    }
    out.flush()
}
