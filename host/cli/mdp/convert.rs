//! `warpkov mdp convert`.

use std::io::Write;

use clap::Args;
use warpkov_mdp::io::Format;
use warpkov_mdp::model::{Mdp, Objective};

use super::file::{Input, output_format, write};
use super::{Error, Outcome};
use crate::common::choice::choice;
use crate::common::file::FileOrStd;

/// Converts a model from one format to another.
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
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp convert grid.json grid.safetensors
  warpkov mdp convert grid.safetensors - | jq .gamma
  warpkov mdp convert model.tra model.drn
  warpkov mdp convert grid.json --to storm storm.tra";

/// The model to convert, and its destination.
pub struct Options {
    input: Input,
    output: FileOrStd,
    format: Format,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, output, to } = arguments;
        let format = output_format(&output, to)?;
        Ok(Self { input, output, format })
    }
}

/// Reads the model, writes it.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let mdp = options.input.read()?;
    note_losses(options.format, &mdp);
    write(&options.output, options.format, &mdp, out)?;
    Ok(Outcome::Success)
}

/// Notes on stderr the parts of `mdp` that a file in `format` cannot hold.
pub fn note_losses(format: Format, mdp: &Mdp) {
    if mdp.state_names().is_some() && !format.names_states() {
        eprintln!("note: {format} has no place for the names of states, which are written as numbers");
    }
    let Some(discount) = format.discount() else { return };
    if discount != mdp.gamma() {
        eprintln!("note: {format} has no place for γ = {}, and readers take {discount}", mdp.gamma());
    }
    if mdp.objective() == Objective::Minimize {
        eprintln!("note: {format} has no place for costs, which are written as rewards");
    }
}
