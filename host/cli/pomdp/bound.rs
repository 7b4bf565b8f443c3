//! `warpkov pomdp bound`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpkov_common::interrupt;
use warpkov_pomdp::plot::draw_vectors;
use warpkov_pomdp::report::Bounded;
use warpkov_pomdp::simulate;
use warpkov_pomdp::verify::verify;

use super::file::WithPolicy;
use super::{Error, Outcome};
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::{Plot, print};

/// Verifies the vectors of a policy: computes V(b₀) by the vectors, and two bounds that hold even if the vectors are wrong.
///
/// A vector is supported if one Bellman backup of the vectors is at least as large in every state. Its residual δ is the largest
/// shortfall. V(b₀) − δ/(1 − γ) is a lower bound on the optimal value, and so is the value of the controller that follows the
/// vectors from b₀. Both are computed in f64, and their rounding errors are not part of them: `pomdp verify` proves bounds with rounding. Exit
/// code 1 if the residual of some vector exceeds --tolerance.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp bound tiger.json --policy tiger.alpha
  warpkov pomdp bound tag.pomdp --policy tag.policy.xml --json | jq .attained
  warpkov pomdp bound tiger.json --policy tiger.alpha --plot tiger.svg")]
pub struct Arguments {
    #[command(flatten)]
    files: WithPolicy,
    /// Largest residual that counts as a rounding error.
    #[arg(long, value_name = "D", default_value = "1e-6", value_parser = number::non_negative)]
    tolerance: f64,
    /// Maximum number of rounds of the search for support, per vector. It ends before, once the residual is the least.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Draw the vectors over the belief to this file, .svg or .png. Needs a model with two states.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The policy to verify.
pub struct Options {
    files: WithPolicy,
    tolerance: f64,
    rounds: u32,
    plot: Option<Plot>,
    json: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(Arguments { files, tolerance, rounds, plot, json }: Arguments) -> Result<Self, Error> {
        Ok(Self { files, tolerance, rounds, plot: plot.map(Plot::new).transpose()?, json })
    }
}

/// Reads model and policy, draws the vectors, verifies them, prints the bounds.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let options = Options::try_from(arguments)?;
    let (model, policy) = options.files.read()?;
    if model.gamma() >= 1.0 {
        return Err(Error::Usage("γ is 1, where one backup bounds nothing".to_owned()));
    }
    let sign = model.process().objective().sign();
    let model = model.to_maximize();
    if let Some(plot) = &options.plot {
        plot.draw(|format| draw_vectors(&model, &policy, format))?;
    }
    handle_interrupts();
    let Some(certificate) = verify(&model, &policy, options.tolerance, options.rounds, &interrupt::requested) else {
        return Err(simulate::Error::NoVectors.into());
    };
    let bounds = Bounded { certificate, sign };
    print(&bounds, options.json, out)?;
    Ok(match bounds.is_supported() {
        _ if interrupt::requested() => Outcome::Interrupted,
        true => Outcome::Success,
        false => Outcome::Negative,
    })
}
