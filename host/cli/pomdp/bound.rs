//! `warpkov pomdp bound`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use warpkov::common::interrupt;
use warpkov::pomdp::plot;
use warpkov::pomdp::verify::verify;

use super::policy::WithPolicy;
use super::{Error, Outcome};
use crate::cli::common::file::{plot_format, write_whole};
use crate::cli::common::interrupts::handle_interrupts;
use crate::cli::common::number;

/// Evaluates a policy's vectors anew: V(b₀) as they have it, and what surely holds of it.
///
/// A vector is supported if one Bellman backup from the other vectors gives at least as much in every state; by how much one
/// is not is its residual δ. V(b₀) − δ/(1 − γ) holds whatever the file says, and so does what the controller attains that
/// follows the vectors from b₀. Exit code 1 if some vector has more than --tolerance.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov pomdp bound tiger.json --policy tiger.alpha
  warpkov pomdp bound tag.pomdp --policy tag.policy.xml --json | jq .attained
  warpkov pomdp bound tiger.json --policy tiger.alpha --plot tiger.svg")]
pub struct Arguments {
    #[command(flatten)]
    files: WithPolicy,
    /// The largest residual that is taken for rounding.
    #[arg(long, value_name = "D", default_value = "1e-6", value_parser = number::non_negative)]
    tolerance: f64,
    /// Rounds at most in which support is looked for, for each vector.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Draw the vectors over the belief, of a model with two states, to this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Verifies, then prints.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let plot_format = arguments.plot.as_deref().map(plot_format).transpose()?;
    let (model, policy) = arguments.files.read()?;
    if model.gamma() >= 1.0 {
        return Err(Error::Usage("γ is 1, where one backup bounds nothing".to_owned()));
    }
    let sign = model.process().objective().sign();
    let model = model.to_maximize();
    if let (Some(path), Some(format)) = (&arguments.plot, plot_format) {
        let picture = plot::draw_vectors(&model, &policy, format)?;
        write_whole(path, |out| out.write_all(&picture))?;
    }
    handle_interrupts();
    let Some(found) = verify(&model, &policy, arguments.tolerance, arguments.rounds, &interrupt::requested) else {
        return Err(warpkov::pomdp::simulate::Error::NoVectors.into());
    };
    let supported = found.supported == found.vectors;
    if arguments.json {
        let printed = serde_json::json!({
            "value": sign * found.value,
            "certified": sign * found.certified,
            "attained": sign * found.attained,
            "vectors": found.vectors,
            "supported": found.supported,
            "residual": found.residual,
            "worst": found.worst,
            "nodes": found.nodes,
        });
        serde_json::to_writer(&mut out, &printed).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(out, "V(b0)             {:.9}, as the vectors have it", sign * found.value)?;
        writeln!(out, "Attained          {:.9}, by a controller of {} nodes", sign * found.attained, found.nodes)?;
        writeln!(out, "Certified         {:.9}, V(b0) less δ/(1 − γ)", sign * found.certified)?;
        writeln!(out, "Supported         {} of {} vectors", found.supported, found.vectors)?;
        if !supported {
            writeln!(out, "Residual (δ)      {:.3e}, of vector {}", found.residual, found.worst)?;
        }
    }
    Ok(if interrupt::requested() {
        Outcome::Interrupted
    } else if supported {
        Outcome::Success
    } else {
        Outcome::Negative
    })
}
