//! `warpkov bench pomdp`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use warpkov_bench::pomdp::{BenchError, CASES, Rate, Run, Work, figures_of_rates, figures_of_runs, rate, solve_case};
use warpkov_bench::used;
use warpkov_common::plot::panels::Panels;
use warpkov_pomdp::backends::device::Product;
use warpkov_pomdp::generate::{self, Tag};
use warpkov_pomdp::options::{Expansion, Limits, Precision, SolveOptions};
use warpkov_runtime::choose::{DeviceChoice, Devices, Place};

use super::{Error, Metered, Metering, Outcome, measured_on, note, print_json, write_kernels};
use crate::common::choice::choice;
use crate::common::number;
use crate::common::output::{draw_panels, plots};
use crate::common::progress::Steps;
use crate::common::ranks::{self, Ranks};

/// Measures point-based solvers: whole runs to a published value, or backups per second.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov bench pomdp
  warpkov bench pomdp --case tag --device cpu --runs 5
  warpkov bench pomdp --case tiger-grid --case hallway --plot runs.svg
  warpkov bench pomdp --suite backups --device cuda:0 --json > results.json
  warpkov bench pomdp --suite backups --device cuda:all --beliefs 16384")]
pub struct Arguments {
    /// Measurement.
    #[arg(long, value_enum, default_value = "runs")]
    suite: PomdpSuite,
    /// Name of a model; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Device: auto, cpu, cuda:N, emulated; or several GPUs, cuda:N,M,… or cuda:all. Of several processes, each takes one of the GPUs.
    #[arg(long, value_name = "DEVICE", default_value_t = Devices::One(DeviceChoice::Auto))]
    device: Devices,
    /// Floating-point type of the vectors on a device, in runs.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t)]
    precision: Precision,
    /// Expansion of the set of beliefs, in runs [default: chosen for the model].
    #[arg(long, value_parser = choice::<Expansion>())]
    expansion: Option<Expansion>,
    /// Number of simultaneous walks, in runs on a device [default: that of the case]; number of beliefs, in backups
    /// [default: that of --size].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    beliefs: Option<u32>,
    /// Maximum time of a run in seconds.
    #[arg(long, value_name = "S", default_value = "60", value_parser = number::positive)]
    time: f64,
    /// Number of states of the large model, in backups.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(4..=1 << 24))]
    states: u32,
    /// Number of beliefs and number of vectors, in backups.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    /// Number of runs; times are medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..1000))]
    runs: u32,
    #[command(flatten)]
    metering: Metering,
    /// Draw the measurements to this file, .svg or .png; may be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Print JSON: one array.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub ranks: ranks::Arguments,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PomdpSuite {
    /// Whole runs, from reading the file of the model until the policy attains a published value.
    Runs,
    /// Backups of a batch of beliefs, in Tag and in a large sparse model.
    Backups,
}

/// Measures, and prints each line when its measurement ends.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.ranks.join()?;
    let devices = ranks.agree(ranks.devices(&arguments.device))?;
    let plots = ranks.agree(plots(&arguments.plot))?;
    let draw = |panels: Panels| draw_panels(&plots, &panels);
    if arguments.metering.kernels && ranks.count(&devices) > 1 {
        return ranks.agree(Err(Error::Usage("--kernels is for one device: --usage has all of a process".to_owned())));
    }
    match arguments.suite {
        PomdpSuite::Runs => runs(&arguments, &ranks, &devices, out, draw),
        PomdpSuite::Backups => backups(&arguments, &ranks, &devices, out, draw),
    }
}

fn runs(
    arguments: &Arguments,
    ranks: &Ranks,
    devices: &[DeviceChoice],
    mut out: impl Write,
    draw: impl Fn(Panels) -> Result<(), Error>,
) -> Result<Outcome, Error> {
    let named = |name: &String| {
        let case = CASES.iter().find(|case| case.name.eq_ignore_ascii_case(name));
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        case.ok_or_else(|| Error::Usage(format!("--case {name}: expected one of {}", names.join(", "))))
    };
    let cases = arguments.case.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let cases = if cases.is_empty() { CASES.iter().collect() } else { cases };
    let options = SolveOptions {
        precision: arguments.precision,
        expansion: arguments.expansion,
        limits: Limits { time: Some(Duration::from_secs_f64(arguments.time.min(1e9))), ..Limits::default() },
        ..SolveOptions::default()
    };
    let steps = Steps::new(cases.len(), arguments.json || !ranks.is_first());
    let mut all: Vec<Metered<Run>> = Vec::new();
    for case in cases {
        steps.say(case.name.to_owned());
        let mut case = *case;
        case.beliefs = arguments.beliefs.map_or(case.beliefs, |beliefs| beliefs as usize);
        let solve = |runs| {
            ranks.run(devices, |comm, device| {
                let options = SolveOptions { device, ..options };
                solve_case(comm, &case, &options, runs).map_err(|error| match error {
                    BenchError::Generate(error) => error.into(),
                    BenchError::File(error) => error.into(),
                    BenchError::Temporary(error) => Error::from(error),
                    BenchError::Solve(error) => error.into(),
                })
            })
        };
        let run = solve(arguments.runs as usize)?;
        let used = used(arguments.metering.kernels, || solve(1))?;
        steps.next();
        if !arguments.json && ranks.is_first() {
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
            writeln!(
                out,
                "{case:<18} {states:>7} {:>8.1} {read:>9.3} {solve:>9.3} {target:>10} {lower:>10.4} {upper:>10.4} \
                 {expansions:>6} {backups:>9} {vectors:>7}  {source}; here {}, {}",
                *bytes as f64 / 1e6,
                run.device,
                run.stopped_by,
            )?;
            out.flush()?;
        }
        all.push(Metered { measured: run, used });
    }
    if ranks.is_first() {
        draw(figures_of_runs(all.iter().map(|line| &line.measured)))?;
    }
    if arguments.json && ranks.is_first() {
        print_json(&all, out)?;
    } else if ranks.is_first() {
        write_kernels(&mut out, all.iter().map(|line| (line.measured.case.to_owned(), &line.used)))?;
    }
    let attained = |line: &Metered<Run>| line.measured.target.is_none_or(|target| line.measured.lower >= target);
    Ok(if all.iter().all(attained) { Outcome::Success } else { Outcome::Negative })
}

fn backups(
    arguments: &Arguments,
    ranks: &Ranks,
    devices: &[DeviceChoice],
    mut out: impl Write,
    draw: impl Fn(Panels) -> Result<(), Error>,
) -> Result<Outcome, Error> {
    let (size, runs) = (arguments.size as usize, arguments.runs as usize);
    let beliefs = arguments.beliefs.map_or(size, |beliefs| beliefs as usize);
    let kernels = devices.iter().all(|device| device.runs_kernels());
    let dense = [Product::Dense { exact: false }, Product::Dense { exact: true }];
    let all_products = [Product::Sparse, dense[0], dense[1]];
    let mut all: Vec<Metered<Rate>> = Vec::new();
    for large in [false, true] {
        let (products, precisions): (&[_], &[_]) = match (kernels, large) {
            // The CPU has one product in one type, and the large model is for devices.
            (false, true) => continue,
            (false, false) => (&[Product::Sparse], &[Precision::F64]),
            (true, true) => (&dense, &[Precision::F32, Precision::F64]),
            (true, false) => (&all_products, &[Precision::F32, Precision::F64]),
        };
        let work = match large {
            true => Work::dense(arguments.states, beliefs, size).map_err(generate::Error::from)?,
            false => Work::walked(Tag::default().generate()?, beliefs, size),
        };
        for &product in products {
            for &precision in precisions {
                let measure = |runs| {
                    ranks.run(devices, |comm, device| {
                        let (place, reason) = Place::open(device, None)?;
                        if comm.rank() == 0 && all.is_empty() {
                            note(reason);
                        }
                        Ok(rate(comm, &place, &work, product, precision, runs)?)
                    })
                };
                let measured = measure(runs)?;
                let used = used(arguments.metering.kernels, || measure(0))?;
                if !arguments.json && ranks.is_first() {
                    write_rate(&mut out, &measured, all.is_empty())?;
                }
                all.push(Metered { measured, used });
            }
        }
    }
    if ranks.is_first() {
        draw(figures_of_rates(all.iter().map(|line| &line.measured)))?;
    }
    match (ranks.is_first(), arguments.json, all.first()) {
        (true, true, _) => print_json(&all, out)?,
        (true, false, Some(Metered { measured: Rate { ranks, device, .. }, .. })) => {
            let name = |rate: &Rate| format!("{} states, {}", rate.states, rate.product);
            write_kernels(&mut out, all.iter().map(|line| (name(&line.measured), &line.used)))?;
            let device = if *ranks > 1 { format!("{ranks} ranks, the first on {device}") } else { device.clone() };
            writeln!(out, "\n{}", measured_on(&device))?;
        }
        _ => {}
    }
    Ok(Outcome::Success)
}

/// Writes a line, the first one after a heading.
fn write_rate(out: &mut impl Write, rate: &Rate, first: bool) -> std::io::Result<()> {
    if first {
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
    out.flush()
}
