//! `warpkov hmm info`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use warpkov::hmm::model::{Covariances, Emissions};
use warpkov::hmm::plot::draw_transitions;

use super::file::{Input, print_json};
use super::{Error, Outcome};
use crate::cli::common::file::{plot_format, write_whole};

/// Says what a model has, and draws where its states lead.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov hmm info model.json
  warpkov hmm info model.npz --plot transitions.svg")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Draw the transition probabilities to this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Reads, then prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let format = arguments.plot.as_deref().map(plot_format).transpose()?;
    let model = arguments.input.read()?;
    if let (Some(path), Some(format)) = (&arguments.plot, format) {
        let title = format!("{}: transition probabilities", arguments.input.name());
        let picture = draw_transitions(&title, &model, format)?;
        write_whole(path, |out| out.write_all(&picture))?;
    }
    let n = model.start().len();
    let positive = |probs: &[f64]| probs.iter().filter(|p| **p > 0.0).count();
    let (starts, transitions) = (positive(model.start()), positive(model.transitions()));
    let ends = model.end().map(positive);
    let back = (0..n).flat_map(|state| &model.row(state)[..state]).any(|p| *p > 0.0);
    let (emitted, symbols, dimensions) = match model.emissions() {
        Emissions::Categorical { symbols, .. } => (format!("{symbols} symbols"), Some(*symbols), None),
        Emissions::Gaussian { dimensions, covariances, .. } => {
            let kind = match covariances {
                Covariances::Diagonal(_) => "diagonal",
                Covariances::Full(_) => "full",
            };
            let numbers = if *dimensions == 1 { "numbers".to_owned() } else { format!("vectors of {dimensions}") };
            (format!("{numbers}, normal, {kind} covariances"), None, Some(*dimensions))
        }
    };
    if arguments.json {
        let object = json!({
            "states": n, "symbols": symbols, "dimensions": dimensions, "starts": starts, "transitions": transitions,
            "ends": ends, "left_right": !back, "parameters": model.parameters(), "names": model.names(),
        });
        print_json(&mut out, &object)?;
        return Ok(Outcome::Success);
    }
    writeln!(out, "States (N)       {n}, {starts} to start in")?;
    writeln!(out, "Emissions        {emitted}")?;
    let kind = if back { "" } else { ", left to right" };
    writeln!(out, "Transitions      {transitions} of {} possible{kind}", n * n)?;
    match ends {
        Some(ends) => writeln!(out, "Ends             behind {ends} states")?,
        None => writeln!(out, "Ends             at any time")?,
    }
    writeln!(out, "Free parameters  {}", model.parameters())?;
    Ok(Outcome::Success)
}
