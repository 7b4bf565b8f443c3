//! `warpkov bench mdp`.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use warpkov::mdp::bench::BenchOptions;
use warpkov::mdp::bench::slip_grids::{CASES, Measured, measure};
use warpkov::mdp::options::{Method, Precision, Storage};
use warpkov::runtime::choose::DeviceChoice;
use warpkov::runtime::gpu::Gpu;

use super::common::{file, number};
use super::error::{Error, Outcome};
use super::progress::Steps;
use crate::cli::common::choice::choice;

mod hmm;
mod huge_grid;
mod pomdp;
mod scaling;
mod table_6_1;

/// What to measure.
#[derive(Subcommand)]
pub enum Suite {
    Mdp(Box<Arguments>),
    Pomdp(pomdp::Arguments),
    Hmm(hmm::Arguments),
}

pub const EXAMPLES: &str = "\
Examples:
  warpkov bench mdp
  warpkov bench mdp --case G1 --case G2 --method parallel --runs 1
  warpkov bench pomdp --case tag
  warpkov bench hmm --case 64x64x16";

/// Measures methods on the models of a source, beside what that source has measured.
///
/// The times of a suite are those of whole runs, from V = 0 with the model on the device.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov bench mdp
  warpkov bench mdp --device cuda:0 --case G6 --method projected --precision f32 --runs 9
  warpkov bench mdp --suite table-6.1 --case GW-1024x1024x4
  warpkov bench mdp --suite huge-grid --side 10000 --gamma 0.99
  warpkov bench mdp --suite scaling --largest 1e8 --plot scaling.svg
  warpkov bench mdp --json > results.json")]
pub struct Arguments {
    /// Which models, and which methods.
    #[arg(long, value_enum, default_value = "slip-grids")]
    suite: MdpSuite,
    /// Which model, G1 to G6 or GW-64x64x1 to GW-1024x1024x4, or which family, grid, garnet or power-law; may be repeated
    /// [default: all].
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Which method; may be repeated [default: those of the suite's source that run here, and what is best here].
    #[arg(long, value_parser = choice::<Method>())]
    method: Vec<Method>,
    /// Where methods for the GPU run: auto, cuda:N or emulated. Those for the CPU run there.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Floating-point type; may be repeated [default: f32].
    #[arg(long, value_parser = choice::<Precision>())]
    precision: Vec<Precision>,
    /// θ: sweep until no value changes by this much [default: the source's, 1e-5 or 1e-4].
    #[arg(long, value_name = "T", value_parser = number::positive)]
    theta: Option<f64>,
    /// How value iteration stores the model on a GPU [default: the smallest way that it has].
    #[arg(long, value_parser = choice::<Storage>())]
    storage: Option<Storage>,
    /// Sweep all states every time, also those that cannot have changed.
    #[arg(long)]
    no_skip: bool,
    /// GPU memory to use at most, in bytes or as 4GiB [default: all that is free]. Larger models are streamed through it.
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    device_memory: Option<u64>,
    /// Runs per line [default: 5, of which times are medians, or 12, of which they are means without best and worst].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    runs: Option<u32>,
    /// Print JSON: one array, or one object with an array for each table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    huge_grid: huge_grid::HugeGridArguments,
    #[command(flatten)]
    scaling: scaling::ScalingArguments,
}

/// A source.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MdpSuite {
    /// Policy iteration on slip grids: Aydin, Policy Iteration on the GPU (2025), Tables 5.4 (grids), 5.5 and 5.7 (times).
    SlipGrids,
    /// Value iteration on grid worlds: Jóhannsson, GPU-Based Markov Decision Process Solver (2009), Tables 6.1 (grids) and
    /// 6.2 (speed-ups), and section 6.3 (locality).
    #[value(name = "table-6.1")]
    Table61,
    /// A slip grid that is made, solved and certified on the device.
    HugeGrid,
    /// The time of a sweep of value iteration against the size of the model.
    Scaling,
}

impl Arguments {
    /// The models that are asked for, or all of them. `named` finds one, `expected` says which there are.
    fn cases<C: Clone>(&self, all: &[C], named: impl Fn(&str) -> Option<C>, expected: &str) -> Result<Vec<C>, Error> {
        if self.case.is_empty() {
            return Ok(all.to_vec());
        }
        let found =
            |name: &String| named(name).ok_or_else(|| Error::Usage(format!("--case {name}: expected {expected}")));
        self.case.iter().map(found).collect()
    }

    /// How to measure a line.
    fn options(&self, device: DeviceChoice, precision: Precision, theta: f64, runs: usize) -> BenchOptions {
        let Self { storage, no_skip, device_memory, .. } = *self;
        BenchOptions { device, precision, theta, storage, skip: !no_skip, device_memory, runs }
    }

    /// Whether methods for the GPU can run.
    fn on_gpu(&self) -> bool {
        match self.device {
            DeviceChoice::Cpu => false,
            DeviceChoice::Emulated => true,
            _ => Gpu::count().is_ok_and(|count| count > 0),
        }
    }
}

/// `chosen`, or what stands in for nothing.
fn or_default<T: Copy>(chosen: &[T], default: &[T]) -> Vec<T> {
    if chosen.is_empty() { default.to_vec() } else { chosen.to_vec() }
}

/// Measures case by case, and prints each line when it is there.
pub fn run(suite: &Suite, out: impl Write) -> Result<Outcome, Error> {
    match suite {
        Suite::Mdp(arguments) => mdp(arguments, out),
        Suite::Pomdp(arguments) => pomdp::run(arguments, out),
        Suite::Hmm(arguments) => hmm::run(arguments, out),
    }
}

fn mdp(arguments: &Arguments, out: impl Write) -> Result<Outcome, Error> {
    let given = match arguments.suite {
        MdpSuite::HugeGrid => arguments.scaling.given().map(|name| (name, "scaling")),
        MdpSuite::Scaling => arguments.huge_grid.given().map(|name| (name, "huge-grid")),
        _ => arguments
            .huge_grid
            .given()
            .map(|name| (name, "huge-grid"))
            .or_else(|| arguments.scaling.given().map(|name| (name, "scaling"))),
    };
    if let Some((name, suite)) = given {
        return Err(Error::Usage(format!("{name} belongs to --suite {suite}")));
    }
    match arguments.suite {
        MdpSuite::HugeGrid => huge_grid::run(arguments, out),
        MdpSuite::Scaling => scaling::run(arguments, out),
        MdpSuite::SlipGrids => slip_grids(arguments, out),
        MdpSuite::Table61 => table_6_1::run(arguments, out),
    }
}

fn slip_grids(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let methods: &[Method] = if arguments.on_gpu() {
        &[Method::Plain, Method::Projected, Method::Values]
    } else {
        &[Method::Serial, Method::Parallel, Method::Values]
    };
    let named = |name: &str| CASES.iter().find(|case| case.name.eq_ignore_ascii_case(name)).copied();
    let cases = arguments.cases(&CASES, named, "G1 to G6")?;
    let (theta, runs) = (arguments.theta.unwrap_or(1e-5), arguments.runs.unwrap_or(5) as usize);
    let methods = or_default(&arguments.method, methods);
    let precisions = or_default(&arguments.precision, &[Precision::F32]);
    let steps = Steps::new(cases.len() * methods.len() * precisions.len(), arguments.json);
    let mut all = Vec::new();
    for case in &cases {
        steps.say(format!("generating {}", case.name));
        let mdp = case.generate()?;
        for &method in &methods {
            for &precision in &precisions {
                steps.say(format!("{}, {method}, {precision}", case.name));
                let device = match method {
                    _ if !method.places().gpu => DeviceChoice::Cpu,
                    _ => arguments.device,
                };
                let options = arguments.options(device, precision, theta, runs);
                let measured = measure(case, &mdp, method, &options)?;
                steps.next();
                if !arguments.json {
                    if all.is_empty() {
                        write_header(&mut out, theta, runs)?;
                    }
                    write_line(&mut out, &measured)?;
                    out.flush()?;
                }
                all.push(measured);
            }
        }
    }
    if arguments.json {
        serde_json::to_writer(&mut out, &all).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        let mut devices: Vec<_> = all.iter().map(|measured| measured.device.as_str()).collect();
        devices.dedup();
        writeln!(out, "\nMeasured on {}.", devices.join(", "))?;
    }
    Ok(Outcome::Success)
}

fn write_header(out: &mut impl Write, theta: f64, runs: usize) -> std::io::Result<()> {
    writeln!(out, "θ = {theta:e}, median of {runs} runs; `source` is the time that Aydin (2025) gives, and on what\n",)?;
    writeln!(
        out,
        "{:<4} {:<5} {:<9} {:<4} {:>8} {:>7} {:>10} {:>9} {:>8} {:>9} {:>22} {:>8}",
        "grid",
        "side",
        "method",
        "type",
        "policies",
        "sweeps",
        "time ms",
        "sweep µs",
        "GB/s",
        "certified",
        "source ms",
        "ratio"
    )
}

fn write_line(out: &mut impl Write, measured: &Measured) -> std::io::Result<()> {
    let Measured {
        case, method, precision, policies, sweeps, milliseconds, sweep_us, sweep_bytes, certificate, ..
    } = measured;
    let source = case.source_ms(*method);
    writeln!(
        out,
        "{:<4} {:<5} {:<9} {:<4} {:>8} {:>7} {:>10.2} {:>9.2} {:>8.0} {:>9} {:>22} {:>8}",
        case.name,
        case.side,
        method.to_string(),
        precision.to_string(),
        policies,
        sweeps,
        milliseconds,
        sweep_us,
        *sweep_bytes as f64 / sweep_us / 1e3,
        certificate.bound_text().unwrap_or_else(|| "none".to_owned()),
        source.map_or_else(String::new, |(time, device)| format!("{time:.0} ({device})")),
        source.map_or_else(String::new, |(time, _)| format!("{:.1}×", time / milliseconds)),
    )
}
