//! `warpkov mdp convert`.

use std::io::Write;

use clap::Args;

use super::file::ModelFile;
use super::{Error, Outcome};

/// Converts a model between JSON and safetensors.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The model: .json, .safetensors, or - for JSON on the standard input.
    #[arg(value_name = "IN")]
    input: ModelFile,
    /// Where to write it: .json, .safetensors, or - for JSON on the standard output.
    #[arg(value_name = "OUT")]
    output: ModelFile,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp convert grid.json grid.safetensors
  warpkov mdp convert grid.safetensors - | jq .gamma";

/// What to convert.
pub struct Options {
    input: ModelFile,
    output: ModelFile,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        Ok(Self { input: arguments.input, output: arguments.output.writable()? })
    }
}

/// Reads, then writes.
pub fn run(options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let mdp = options.input.read()?;
    options.output.write(&mdp, out)?;
    Ok(Outcome::Success)
}
