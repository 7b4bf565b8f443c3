//! `warpkov hmm score`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use warpkov::hmm::io::sequences::field;
use warpkov::hmm::train::{aic, bic};
use warpkov::mdp::io::write_npy;

use super::file::{Data, Input, Phases, Watch, number, numbers, only, print_json};
use super::{Error, Outcome};
use crate::cli::common::file::{extension, write_whole, writes};

/// Scores sequences: ln P(O) of each, by the forward recursion.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm score model.json data.txt
  warpkov hmm score model.npz data.npy --lengths lengths.npy --out scores.npy
  warpkov hmm score dna.json genes.fasta --json | jq .log_likelihoods")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    data: Data,
    /// Write ln P(O) of each sequence to this file: .csv, with their names, or .npy.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Reads, scores, prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let target = match &arguments.out {
        Some(path) => {
            writes(path)?;
            Some((path, extension(path, &["csv", "npy"])?))
        }
        None => None,
    };
    let mut watch = Watch::start();
    let given = arguments.data.read(&arguments.input)?;
    let read = watch.lap();
    let (model, sequences) = (&given.model, given.sequences());
    let place = arguments.data.place(&given)?;
    let start = watch.lap();
    let (mut recursions, device) = (arguments.data.by(&place, &given)?, place.name());
    let precision = arguments.data.precision(&place, &given);
    let logs = only(recursions.log_likelihoods()?);
    let solve = watch.lap();
    if let Some((path, format)) = target {
        write_whole(path, |out| match format {
            "npy" => write_npy(out, &logs),
            _ => {
                writeln!(out, "sequence,log_likelihood")?;
                let rows = logs.iter().enumerate();
                rows.map(|(index, log)| (given.records.name(index), log))
                    .try_for_each(|(name, log)| writeln!(out, "{},{log:?}", field(&name)))
            }
        })?;
    }
    let phases = Phases { read, start, solve, write: watch.lap() };
    let total: f64 = logs.iter().sum();
    let (aic, bic) = (aic(model, total), bic(model, sequences, total));
    let (count, steps) = (sequences.len(), sequences.steps());
    let possible = |index: usize| logs[index] > f64::NEG_INFINITY;
    given.note_impossible(possible);
    if arguments.json {
        let mut object = json!({
            "sequences": count, "observations": steps, "log_likelihood": number(total), "aic": number(aic),
            "bic": number(bic), "device": device, "precision": precision, "phases": phases, "log_likelihoods": numbers(&logs),
        });
        given.describe(&mut object);
        print_json(&mut out, &object)?;
        return Ok(Outcome::Success);
    }
    let impossible = (0..count).filter(|&index| !possible(index)).count();
    let (least, most) =
        (logs.iter().copied().fold(f64::INFINITY, f64::min), logs.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    writeln!(out, "Sequences        {count}, {steps} observations")?;
    writeln!(out, "ln P(O)          {total:.6}, {:.6} per observation", total / steps as f64)?;
    writeln!(out, "  of a sequence  {least:.6} to {most:.6}")?;
    if impossible > 0 {
        writeln!(out, "  not possible   {impossible}")?;
    }
    writeln!(out, "AIC, BIC         {aic:.3}, {bic:.3}")?;
    writeln!(out, "Device           {device}, {precision}")?;
    Ok(Outcome::Success)
}
