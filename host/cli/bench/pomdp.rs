//! `warpkov bench pomdp`.

use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use warpkov::mdp::SolveError;
use warpkov::pomdp::bench::{BenchError, CASES, Rate, Run, Work, cpu_rate, device_rate, solve_case};
use warpkov::pomdp::device::Product;
use warpkov::pomdp::generate::Tag;
use warpkov::pomdp::options::{Expansion, Limits, Precision, SolveOptions};
use warpkov::pomdp::report;
use warpkov::runtime::choose::DeviceChoice;
use warpkov::runtime::gpu;
use warpkov::runtime::gpu::Gpu;
use warpkov_device::emulator::Emulator;
use warpkov_device::launch::Device;

use super::{Error, Outcome, number};
use crate::cli::common::choice::choice;
use crate::cli::progress::Steps;

/// Measures point-based solvers: whole runs to a published value, or backups per second.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov bench pomdp
  warpkov bench pomdp --case tag --device cpu --runs 5
  warpkov bench pomdp --suite backups --device cuda:0 --json > results.json")]
pub struct Arguments {
    /// What to measure.
    #[arg(long, value_enum, default_value = "runs")]
    suite: PomdpSuite,
    /// Which model; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Where: auto, cpu, cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Type of the vectors on a device.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t)]
    precision: Precision,
    /// Which beliefs to look at, in runs [default: what suits the model].
    #[arg(long, value_parser = choice::<Expansion>())]
    expansion: Option<Expansion>,
    /// Walks at a time, in runs on a device [default: the case's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    beliefs: Option<u32>,
    /// Seconds of a run at most.
    #[arg(long, value_name = "S", default_value = "60", value_parser = number::positive)]
    time: f64,
    /// States of the large model, in backups.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(4..=1 << 24))]
    states: u32,
    /// Beliefs and vectors, in backups.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    /// Runs, of which times are medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..1000))]
    runs: u32,
    /// Print JSON: one array.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PomdpSuite {
    /// Whole runs, from reading the model's file until a published value is attained.
    Runs,
    /// Backups of a batch of beliefs, of a model of Tag's size and of a large sparse one.
    Backups,
}

/// Measures, and prints each line when it is there.
pub fn run(arguments: &Arguments, out: impl Write) -> Result<Outcome, Error> {
    match arguments.suite {
        PomdpSuite::Runs => runs(arguments, out),
        PomdpSuite::Backups => match arguments.device {
            DeviceChoice::Cpu => backups(arguments, None::<&Emulator>, "", out),
            DeviceChoice::Emulated => backups(arguments, Some(&Emulator::default()), "the emulator", out),
            DeviceChoice::Auto if !Gpu::count().is_ok_and(|count| count > 0) => {
                backups(arguments, None::<&Emulator>, "", out)
            }
            DeviceChoice::Auto | DeviceChoice::Cuda(_) => {
                let ordinal = if let DeviceChoice::Cuda(ordinal) = arguments.device { ordinal } else { 0 };
                let gpu = gpu::open(ordinal).map_err(SolveError::from)?;
                backups(arguments, Some(&gpu), &gpu.name(), out)
            }
        },
    }
}

fn runs(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let named = |name: &String| {
        let case = CASES.iter().find(|case| case.name.eq_ignore_ascii_case(name));
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        case.ok_or_else(|| Error::Usage(format!("--case {name}: expected one of {}", names.join(", "))))
    };
    let cases = arguments.case.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let cases = if cases.is_empty() { CASES.iter().collect() } else { cases };
    let options = SolveOptions {
        device: arguments.device,
        precision: arguments.precision,
        expansion: arguments.expansion,
        limits: Limits { time: Some(Duration::from_secs_f64(arguments.time.min(1e9))), ..Limits::default() },
        ..SolveOptions::default()
    };
    let steps = Steps::new(cases.len(), arguments.json);
    let mut all: Vec<Run> = Vec::new();
    for case in cases {
        steps.say(case.name.to_owned());
        let mut case = *case;
        case.beliefs = arguments.beliefs.map_or(case.beliefs, |beliefs| beliefs as usize);
        let run = solve_case(&case, &options, arguments.runs as usize).map_err(|error| match error {
            BenchError::Generate(error) => error.into(),
            BenchError::File(error) => error.into(),
            BenchError::Temporary(error) => Error::from(error),
            BenchError::Solve(error) => error.into(),
        })?;
        steps.next();
        if !arguments.json {
            if all.is_empty() {
                writeln!(
                    out,
                    "{:<18} {:>7} {:>8} {:>9} {:>9} {:>10} {:>10} {:>10} {:>6} {:>9} {:>7}  others",
                    "model",
                    "states",
                    "file MB",
                    "read s",
                    "solve s",
                    "target",
                    "lower",
                    "upper",
                    "steps",
                    "backups",
                    "vectors"
                )?;
            }
            let Run { case, states, bytes, read, solve, lower, upper, expansions, backups, vectors, source, .. } = &run;
            let target = run.target.map_or_else(String::new, |target| target.to_string());
            let ended = report::ended(run.stopped_by);
            writeln!(
                out,
                "{case:<18} {states:>7} {:>8.1} {read:>9.3} {solve:>9.3} {target:>10} {lower:>10.4} {upper:>10.4} \
                 {expansions:>6} {backups:>9} {vectors:>7}  {source}; here {}, {ended}",
                *bytes as f64 / 1e6,
                run.device,
            )?;
            out.flush()?;
        }
        all.push(run);
    }
    if arguments.json {
        serde_json::to_writer(&mut out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    let attained = |run: &Run| run.target.is_none_or(|target| run.lower >= target);
    Ok(if all.iter().all(attained) { Outcome::Success } else { Outcome::Negative })
}

fn backups<D: Device>(
    arguments: &Arguments,
    device: Option<&D>,
    name: &str,
    mut out: impl Write,
) -> Result<Outcome, Error>
where
    SolveError: From<D::Error>,
{
    let (size, runs) = (arguments.size as usize, arguments.runs as usize);
    let mut all = Vec::new();
    let mut line = |rate: Rate, all: &mut Vec<Rate>| -> Result<(), Error> {
        if !arguments.json {
            if all.is_empty() {
                writeln!(
                    out,
                    "{:>7} {:>7} {:>7} {:<32} {:>10} {:>12} {:>9}",
                    "states", "beliefs", "vectors", "product", "ms", "backups/s", "TFLOP/s"
                )?;
            }
            writeln!(
                out,
                "{:>7} {:>7} {:>7} {:<32} {:>10.2} {:>12.0} {:>9}",
                rate.states,
                rate.beliefs,
                rate.vectors,
                rate.product,
                1e3 * rate.seconds,
                rate.per_second(),
                rate.teraflops().map_or_else(String::new, |rate| format!("{rate:.1}")),
            )?;
            out.flush()?;
        }
        all.push(rate);
        Ok(())
    };
    let dense = [Product::Dense { exact: false }, Product::Dense { exact: true }];
    for large in [false, true] {
        let work = if large {
            if device.is_none() {
                continue;
            }
            Work::dense(arguments.states, size, size).map_err(warpkov::pomdp::generate::Error::from)?
        } else {
            Work::walked(Tag::default().generate()?, size, size)
        };
        let Some(device) = device else {
            line(cpu_rate(&work, runs), &mut all)?;
            continue;
        };
        let products = if large { &dense[..] } else { &[Product::Sparse, dense[0], dense[1]] };
        for &product in products {
            let narrow = device_rate::<f32, D>(device, name, &work, Some(product), runs).map_err(SolveError::from)?;
            line(narrow, &mut all)?;
            let wide = device_rate::<f64, D>(device, name, &work, Some(product), runs).map_err(SolveError::from)?;
            line(wide, &mut all)?;
        }
    }
    if arguments.json {
        serde_json::to_writer(&mut out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else if let Some(rate) = all.first() {
        writeln!(out, "\nMeasured on {}.", rate.device)?;
    }
    Ok(Outcome::Success)
}
