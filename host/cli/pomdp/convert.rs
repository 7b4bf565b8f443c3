//! `warpkov pomdp convert`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use warpkov::pomdp::io as formats;
use warpkov::pomdp::io::{Format, Kind, Policy};
use warpkov::pomdp::model::Pomdp;

use super::file::{self, Input};
use super::{Error, Outcome};
use crate::cli::common::choice::choice;
use crate::cli::common::file::{ModelFile, reads, reads_standard_input};

/// Converts a model, or a policy, from one format to another.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Where to write it, or - for the standard output.
    #[arg(value_name = "OUT")]
    output: ModelFile,
    /// Format of OUT [default: as its extension says; JSON on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
    /// The model that a policy is of; a graph needs it.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp convert tag.pomdpx tag.pomdp
  warpkov pomdp convert tiger.pomdp - | jq .names
  warpkov pomdp convert out.policy tiger.alpha
  warpkov pomdp convert tiger.alpha tiger.dot --model tiger.pomdp";

/// Reads, then writes.
pub fn run(arguments: &Arguments, out: impl Write) -> Result<Outcome, Error> {
    let Arguments { input, output, to, model } = arguments;
    let format = file::output_format(output, *to, &[Kind::Model, Kind::Vectors, Kind::Graph])?;
    match format.kind() {
        Kind::Model => {
            if model.is_some() {
                return Err(Error::Usage(format!("--model is for policies, and {format} holds a model")));
            }
            let model = input.read()?;
            note_losses(format, &model);
            file::write(output, format, &model, out)?;
        }
        Kind::Vectors | Kind::Graph => {
            if format.kind() == Kind::Graph && model.is_none() {
                return Err(Error::Usage(format!("{format} needs the model of the policy, expected --model FILE")));
            }
            let name = model.as_ref().map_or_else(String::new, |path| path.display().to_string());
            match &input.file {
                ModelFile::Standard => reads_standard_input()?,
                ModelFile::At(path) => reads(path)?,
            }
            model.as_deref().map_or(Ok(()), reads)?;
            let model = model.as_ref().map(|path| formats::read(path, None)).transpose()?;
            let vectors = match &input.file {
                ModelFile::Standard => {
                    formats::read_vectors_from(io::stdin().lock(), "standard input", input.format, model.as_ref())?
                }
                ModelFile::At(path) => formats::read_vectors(path, input.format, model.as_ref())?,
            };
            let policy = Policy { vectors: &vectors, model: model.as_ref(), name: &name, stages: &[] };
            match output {
                ModelFile::Standard => formats::write_policy_to(out, format, policy)?,
                ModelFile::At(path) => formats::write_policy(path, format, policy)?,
            }
        }
    }
    Ok(Outcome::Success)
}

/// Says on stderr what of `model` a file in `format` will lack.
pub fn note_losses(format: Format, model: &Pomdp) {
    if format != Format::Pomdp {
        return;
    }
    let names = model.names();
    for (what, names) in [("states", &names.states), ("actions", &names.actions), ("observations", &names.observations)]
    {
        if !names.is_empty() && !formats::nameable(names) {
            eprintln!("note: {format} has no place for the names of these {what}, which are written as numbers");
        }
    }
}
