//! `warpkov mdp convert`.

use std::io::Write;

use clap::Args;
use warpkov::mdp::io::Format;
use warpkov::mdp::model::{Mdp, Objective};

use crate::cli::common::choice::choice;
use crate::cli::common::file::{Input, ModelFile};
use crate::cli::error::{Error, Outcome};

/// Converts a model from one format to another.
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
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp convert grid.json grid.safetensors
  warpkov mdp convert grid.safetensors - | jq .gamma
  warpkov mdp convert model.tra model.drn
  warpkov mdp convert grid.json --to storm storm.tra";

/// What to convert.
pub struct Options {
    input: Input,
    output: ModelFile,
    format: Format,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, output, to } = arguments;
        let format = output.format(to)?;
        Ok(Self { input, output, format })
    }
}

/// Reads, then writes.
pub fn run(options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let mdp = options.input.read()?;
    note_losses(options.format, &mdp);
    options.output.write(options.format, &mdp, out)?;
    Ok(Outcome::Success)
}

/// Says on stderr what of `mdp` a file in `format` will lack.
pub fn note_losses(format: Format, mdp: &Mdp) {
    let Some(discount) = format.discount() else { return };
    if discount != mdp.gamma() {
        eprintln!("note: {format} has no place for γ = {}, and is read with {discount}", mdp.gamma());
    }
    if mdp.objective() == Objective::Minimize {
        eprintln!("note: {format} has no place for costs, which are written as rewards");
    }
}
