//! `warpkov mdp info`.

use std::io::Write;

use clap::Args;
use warpkov_mdp::ask::select;
use warpkov_mdp::ask::show::Shown;
use warpkov_mdp::info::Info;

use super::file::Input;
use super::{Error, Outcome};
use crate::common::output::print;

/// Describes a model, names what looks wrong in it, and shows its rows in words.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Show the rows of these states in words: names or numbers, separated by commas, or a range 3..7.
    #[arg(long, value_name = "STATE|N")]
    show: Option<String>,
    /// Show long rows, and all actions, as a whole.
    #[arg(long, requires = "show")]
    all: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp info grid.safetensors
  warpkov mdp info grid.json --json | jq .transitions
  warpkov mdp info grid.json --json | jq .warnings
  warpkov mdp info forest.json --show 0..2
  warpkov mdp info plant.json --show broken,worn";

/// Reads the model, prints its description, or the rows asked for.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let model = arguments.input.read()?;
    if let Some(text) = &arguments.show {
        let states = select::states(&model, text).map_err(|error| Error::Usage(format!("--show: {error}")))?;
        print(&Shown::new(&model, states, arguments.all), arguments.json, out)?;
        return Ok(Outcome::Success);
    }
    print(&Info::from(&model), arguments.json, out)?;
    Ok(Outcome::Success)
}
