//! `warpkov pomdp info`.

use std::io::Write;

use clap::Args;
use warpkov::pomdp::info::Info;

use super::file::Input;
use super::{Error, Outcome};
use crate::cli::common::output::print;

/// Describes a model.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp info hallway.pomdp
  warpkov pomdp info tag.json --json | jq .transitions";

/// Reads the model, prints its description.
pub fn run(arguments: &Arguments, out: impl Write) -> Result<Outcome, Error> {
    let model = arguments.input.read()?;
    print(&Info::from(&model), arguments.json, out)?;
    Ok(Outcome::Success)
}
