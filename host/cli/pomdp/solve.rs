//! `warpkov pomdp solve`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use warpkov::common::interrupt;
use warpkov::common::plot::Format;
use warpkov::pomdp::io::{Kind, Policy, write_policy};
use warpkov::pomdp::options::{Expansion, Limits, Precision, Scheme, SolveOptions};
use warpkov::pomdp::plot::draw_bounds;
use warpkov::pomdp::report;
use warpkov::pomdp::solution::{Round, Solution, Status};
use warpkov::pomdp::solve::solve_with;
use warpkov::runtime::choose::DeviceChoice;

use super::file::{Input, output_format};
use super::{Error, Outcome};
use crate::cli::common::choice::choice;
use crate::cli::common::file::{ModelFile, plot_format, write_whole};
use crate::cli::common::interrupts::handle_interrupts;
use crate::cli::common::number;

/// Solves a model: closes in on the value of its start belief from below and from above.
///
/// Both bounds hold at any time, rounding included, and the policy attains the one that it can attain. A line a second on the standard error says how far they are. Exit code 0
/// if they came as close as --gap asks for or --target is attained, 1 if a limit was met first.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Where backups are done: auto, cpu, cuda:N, or emulated to run the GPU's kernels without one.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Type of the vectors on a device.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t)]
    precision: Precision,
    /// Steps to act for, discounted or not: needed where γ is 1. The .pg or .dot of --out is the whole plan then, its vectors those of
    /// the first step.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = ["expansion", "backups", "trials"])]
    horizon: Option<u32>,
    /// Which beliefs to look at [default: what suits the model, with a note that says why].
    #[arg(long, value_parser = choice::<Expansion>())]
    expansion: Option<Expansion>,
    /// Which beliefs to back up after each expansion [default: what suits the expansion].
    #[arg(long, value_parser = choice::<Scheme>())]
    backups: Option<Scheme>,
    /// Beliefs of one expansion at most, walks at a time on a device; trials are as long as they need to be.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    beliefs: u32,
    /// Trials or walks whose paths are backed up together [default: 1 on the CPU, 64 on a device].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
    /// Seed of what is random: equal seeds give equal runs, up to where time ends them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How close the bounds are to come.
    #[arg(long, value_name = "G", default_value = "1e-3", value_parser = number::positive)]
    gap: f64,
    /// Stop when a policy is found that attains this value at the start belief.
    #[arg(long, value_name = "V", value_parser = number::finite, allow_negative_numbers = true)]
    target: Option<f64>,
    /// Seconds at most.
    #[arg(long, value_name = "S", value_parser = number::positive)]
    time: Option<f64>,
    /// Memory for beliefs and vectors, in bytes or as 4GiB: what was not used for longest is given up [default: 8GiB, or half of what is free on a GPU].
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    memory: Option<u64>,
    /// Expansions at most.
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
    /// Vectors that backups choose from at most; those that they go on with are written, too.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    vectors: u32,
    /// Write the vectors to this file: .alpha, or .policy as SARSOP does; or their controller: .pg, or .dot for Graphviz.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw both bounds against time to this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp solve tiger.pomdp
  warpkov pomdp solve hallway2.pomdp --time 10 --json | jq '.lower, .upper'
  warpkov pomdp solve tag.json --time 5 --out tag.alpha --plot tag.svg
  warpkov pomdp solve tiger.pomdp --horizon 10 --out plan.dot
  warpkov pomdp solve tag.json --expansion ssea --backups full --time 60
  warpkov pomdp solve olfactory.json --device cuda:0 --beliefs 684 --iterations 300";

/// Reads the model, solves it, prints the report.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let policy_format =
        |path: &PathBuf| output_format(&ModelFile::At(path.clone()), None, &[Kind::Vectors, Kind::Graph]);
    let out_format = arguments.out.as_ref().map(policy_format).transpose()?;
    let plot_format = arguments.plot.as_deref().map(plot_format).transpose()?;
    let _starting = arguments.input.file.start(arguments.device);
    let model = arguments.input.read()?;
    let options = SolveOptions {
        device: arguments.device,
        precision: arguments.precision,
        horizon: arguments.horizon,
        expansion: arguments.expansion,
        scheme: arguments.backups,
        beliefs: arguments.beliefs as usize,
        trials: arguments.trials.map(|trials| trials as usize),
        seed: arguments.seed,
        limits: Limits {
            gap: arguments.gap,
            target: arguments.target,
            // More than a duration holds is for ever.
            time: arguments.time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            memory: arguments.memory,
            iterations: arguments.iterations,
            vectors: arguments.vectors as usize,
        },
    };
    let solution = solve_with(&model, &options, &mut observer(arguments.quiet))?;
    let name = match &arguments.input.file {
        ModelFile::Standard => "-".to_owned(),
        ModelFile::At(path) => path.display().to_string(),
    };
    // Neither a full disk nor a closed pipe may cost the other results.
    let written = match (&arguments.out, out_format) {
        (Some(path), Some(format)) => {
            let Solution { vectors, stages, .. } = &solution;
            write_policy(path, format, Policy { vectors, model: Some(&model), name: &name, stages })
        }
        _ => Ok(()),
    };
    let drawn = match (&arguments.plot, plot_format) {
        (Some(path), Some(format)) => draw(path, format, &name, &solution),
        _ => Ok(()),
    };
    if arguments.json {
        report::write_json(&mut out, &model, &solution)?;
    } else {
        report::write_text(&mut out, &model, &solution)?;
    }
    written?;
    drawn?;
    Ok(match solution.status {
        Status::Gap | Status::Target => Outcome::Success,
        Status::Interrupted => Outcome::Interrupted,
        Status::Time | Status::Memory | Status::Iterations | Status::Stalled => Outcome::Negative,
    })
}

/// Draws the bounds of the model called `name` against time.
fn draw(path: &Path, format: Format, name: &str, solution: &Solution) -> Result<(), Error> {
    let end = solution.end();
    let title = format!("{name}: V*(b₀) from {:.4} to {:.4}, {} vectors", end.lower, end.upper, end.vectors);
    let picture = draw_bounds(&title, &solution.rounds, format)?;
    write_whole(path, |out| out.write_all(&picture))
}

/// Writes a line a second, and breaks after Ctrl-C.
fn observer(quiet: bool) -> impl FnMut(&Round) -> ControlFlow<()> {
    handle_interrupts();
    let mut due = 1.0;
    move |round| {
        if !quiet && round.seconds >= due {
            due = round.seconds.floor() + 1.0;
            eprintln!("{}", report::progress(round));
        }
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
