//! `warpkov hmm info`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_common::names::index;
use warpkov_hmm::info::{Info, Row};
use warpkov_hmm::plot::draw_transitions;

use super::file::Input;
use super::{Error, Outcome};
use crate::common::file::no_such;
use crate::common::output::{Plot, print};

/// Describes a model, names what looks wrong, and draws its transition probabilities.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm info model.json
  warpkov hmm info model.json --show Hot
  warpkov hmm info model.npz --plot transitions.svg")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Draw the transition probabilities to this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Describe this state alone, by name or by number from 0: where it leads, and what it emits.
    #[arg(long, value_name = "STATE")]
    show: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The model to describe.
pub struct Options {
    input: Input,
    plot: Option<Plot>,
    show: Option<String>,
    json: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(Arguments { input, plot, show, json }: Arguments) -> Result<Self, Error> {
        Ok(Self { input, plot: plot.map(Plot::new).transpose()?, show, json })
    }
}

/// Reads the model, draws the plot, prints the description.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let model = options.input.read()?;
    if let Some(plot) = &options.plot {
        let title = format!("{}: transition probabilities", options.input.model.name());
        plot.draw(|format| draw_transitions(&title, &model.visits(), format))?;
    }
    match &options.show {
        None => print(&Info::new(&model), options.json, out)?,
        Some(text) => {
            let visits = model.visits();
            let state = index(text, &visits.names().states, visits.states());
            let state = state.ok_or_else(|| no_such(text, "state", visits.states()))?;
            print(&Row::new(&model, state), options.json, out)?;
        }
    }
    Ok(Outcome::Success)
}
