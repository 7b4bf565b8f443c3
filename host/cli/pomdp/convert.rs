//! `warpkov pomdp convert`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use warpkov_mdp::model::Objective;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::{Format, Kind, Policy, PolicyGraph};
use warpkov_pomdp::model::Pomdp;

use super::file::{Input, output_format, write};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::file::{FileOrStd, reads};

/// Converts a model, or a policy, from one format to another.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// File to write, or - for the standard output.
    #[arg(value_name = "OUT")]
    output: FileOrStd,
    /// Format of OUT [default: that of its extension; json on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    to: Option<Format>,
    /// File of the model of a policy. Controllers (.pg, .dot) need it.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp convert tag.pomdpx tag.pomdp
  warpkov pomdp convert tag.json tag.pomdpx
  warpkov pomdp convert tag.json tag.pomdpx --to pomdpx-dd
  warpkov pomdp convert tiger.pomdp - | jq .names
  warpkov pomdp convert out.policy tiger.alpha
  warpkov pomdp convert tiger.alpha tiger.dot --model tiger.pomdp";

/// The model or the policy to convert, and its destination.
pub struct Options {
    input: Input,
    output: FileOrStd,
    format: Format,
    /// The model of a policy.
    model: Option<PathBuf>,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(Arguments { input, output, to, model }: Arguments) -> Result<Self, Error> {
        let format = output_format(&output, to, &[Kind::Model, Kind::Vectors, Kind::Graph], Format::Json)?;
        match (format.kind(), &model) {
            (Kind::Model, Some(_)) => Err(Error::Usage(format!("--model is for policies, and {format} holds a model"))),
            (Kind::Graph, None) => {
                Err(Error::Usage(format!("{format} needs the model of the policy, expected --model FILE")))
            }
            _ => Ok(Self { input, output, format, model }),
        }
    }
}

/// Reads a model or a policy, writes it.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    match options.format.kind() {
        Kind::Model => {
            let model = options.input.read()?;
            note_losses(options.format, &model);
            write(&options.output, options.format, &model, out)?;
        }
        Kind::Vectors | Kind::Graph => convert_policy(&options, out)?,
    }
    Ok(Outcome::Success)
}

fn convert_policy(options: &Options, out: impl Write) -> Result<(), Error> {
    let Options { input, output, format, model } = options;
    input.file.reads()?;
    model.as_deref().map_or(Ok(()), reads)?;
    let name = model.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let model = model.as_ref().map(|path| formats::read(path, None)).transpose()?;
    let vectors = match &input.file {
        FileOrStd::Standard => {
            formats::read_vectors_from(io::stdin().lock(), "standard input", input.format, model.as_ref())?
        }
        FileOrStd::At(path) => formats::read_vectors(path, input.format, model.as_ref())?,
    };
    let policy = Policy { vectors: &vectors, model: model.as_ref(), name: &name, stages: &[], support: None };
    if let (Kind::Graph, Some(model)) = (format.kind(), &model)
        && let Some([vectors, controller]) = PolicyGraph::shortfall(model, &vectors)
    {
        eprintln!(
            "note: the vectors have the value {vectors:.6} at the start, this controller {controller:.6}: it remembers a vector, not the \
             belief. The controller that solve --out writes attains the value of its vectors"
        );
    }
    match output {
        FileOrStd::Standard => formats::write_policy_to(out, *format, policy)?,
        FileOrStd::At(path) => formats::write_policy(path, *format, policy)?,
    }
    Ok(())
}

/// Notes on stderr the parts of `model` that a file in `format` cannot hold.
pub fn note_losses(format: Format, model: &Pomdp) {
    if model.process().objective() == Objective::Minimize {
        match format {
            Format::Pomdp => {
                eprintln!("note: SARSOP takes costs in {format} for rewards, so they are written as negated rewards");
            }
            Format::Pomdpx | Format::PomdpxDd => {
                eprintln!("note: {format} has no place for costs, which are written as negated rewards");
            }
            _ => {}
        }
    }
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
