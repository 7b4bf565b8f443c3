//! `warpkov pomdp info`.

use std::io::Write;

use clap::Args;
use warpkov_common::names::index;
use warpkov_pomdp::info::{Info, Row};

use super::file::Input;
use super::{Error, Outcome};
use crate::common::file::no_such;
use crate::common::output::print;

/// Describes a model, and names what looks wrong.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Describe this state alone, by name or by number from 0: its rewards, successors and observations.
    #[arg(long, value_name = "STATE")]
    show: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp info hallway.pomdp
  warpkov pomdp info tiger.pomdp --show tiger-left
  warpkov pomdp info tag.json --json | jq .transitions";

/// Reads the model, prints its description.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let model = arguments.input.read()?;
    match &arguments.show {
        None => print(&Info::from(&model), arguments.json, out)?,
        Some(text) => {
            let state = index(text, &model.names().states, model.states());
            let state = state.ok_or_else(|| no_such(text, "state", model.states()))?;
            print(&Row::new(&model, state), arguments.json, out)?;
        }
    }
    Ok(Outcome::Success)
}
