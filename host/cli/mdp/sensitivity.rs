//! `warpkov mdp sensitivity`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_mdp::ask::sensitivity::{Range, sensitivity};
use warpkov_mdp::plot::draw_sensitivity;

use super::accuracy::Arguments as Accuracy;
use super::file::Input;
use super::solve::observer;
use super::{Error, Outcome, start};
use crate::common::number;
use crate::common::output::{Plot, Quiet, print_short};

/// Computes the value of a start state for a range of discount factors, and where the optimal action there changes.
///
/// Each value has a certified error, and each solve starts from the values of the one before. Exit code 0 if all values are within ε, 1
/// if a limit stopped a solve first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov mdp sensitivity forest.json --gamma 0.5..0.99
  warpkov mdp sensitivity forest.json --gamma 0.9..0.999 --points 40 --start 2 --plot gamma.svg
  warpkov mdp sensitivity forest.json --gamma 0.5..0.99 --json | jq .changes")]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Discount factors, from the first to the last one, below 1.
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    gamma: (f64, f64),
    /// Number of discount factors, evenly spaced.
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(2..))]
    points: u32,
    /// Start state: a name or a number [default: the first of label init, else state 0].
    #[arg(long, value_name = "STATE")]
    start: Option<String>,
    #[command(flatten)]
    accuracy: Accuracy,
    /// Draw the values to this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// Two discount factors, the smaller one first.
fn range(text: &str) -> Result<(f64, f64), String> {
    let expected = || "expected FROM..TO, two numbers from 0 to below 1, such as 0.5..0.99".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(expected)?;
    let [from, to] = [from, to].map(number::below_one);
    let (from, to) = (from.map_err(|_| expected())?, to.map_err(|_| expected())?);
    if from < to { Ok((from, to)) } else { Err(expected()) }
}

/// The model, the range, and the plot.
pub struct Options {
    input: Input,
    range: Range,
    start: start::Arguments,
    accuracy: Accuracy,
    plot: Option<Plot>,
    json: bool,
    quiet: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { input, gamma: (from, to), points, start, accuracy, plot, json, quiet: Quiet { quiet } } =
            arguments;
        Ok(Self {
            input,
            range: Range { from, to, points },
            start: start::Arguments::new(start),
            accuracy,
            plot: plot.map(Plot::new).transpose()?,
            json,
            quiet: quiet || json,
        })
    }
}

/// Reads the model, solves it for each γ, draws the plot, prints the values.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let mdp = options.input.read()?;
    let start = options.start.state(&mdp)?;
    let solve = options.accuracy.discounted().discounted(options.range.to);
    let mut observe = observer(mdp.states().into(), options.quiet);
    let found = sensitivity(&mdp, start, options.range, &solve, &mut observe)?;
    let drawn = options.plot.as_ref().map_or(Ok(()), |plot| plot.draw(|format| draw_sensitivity(&found, format)));
    print_short(&found, options.json, options.quiet, out)?;
    drawn?;
    Ok(match found.converged {
        _ if found.interrupted => Outcome::Interrupted,
        true => Outcome::Success,
        false => Outcome::Negative,
    })
}
