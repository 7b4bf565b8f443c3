//! `warpkov bench mdp`.

use std::io::Write;

use clap::{Args, Subcommand};
use warpkov::backend::cuda::Gpu;
use warpkov::backend::device::Storage;
use warpkov::mdp::bench::{BenchOptions, CASES, Case, Measured, measure};
use warpkov::mdp::options::{DeviceChoice, Method, Precision};

use super::{Error, Outcome, number};
use crate::progress::Steps;

/// What to measure.
#[derive(Subcommand)]
pub enum Suite {
    Mdp(Arguments),
}

pub const EXAMPLES: &str = "\
Examples:
  warpkov bench mdp
  warpkov bench mdp --case G1 --case G2 --method parallel --runs 1";

/// Policy iteration on the slip grids G1 to G6, beside the times of the source.
///
/// The source is Aydin, Policy Iteration on the GPU (2025): the grids are those of its Table 5.4, its times those of
/// Tables 5.5 (serial on an EPYC 9634, plain on an L4) and 5.7 (projected on an H100). A time is that of the whole
/// policy iteration, from V = 0 with the model on the device to the stable policy.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov bench mdp
  warpkov bench mdp --device cuda:0 --case G6 --method projected --precision f32 --runs 9
  warpkov bench mdp --json > results.json")]
pub struct Arguments {
    /// Which grid; may be repeated [default: all].
    #[arg(long, value_parser = case, value_name = "G1..G6")]
    case: Vec<Case>,
    /// Which method; may be repeated [default: plain and projected on a GPU, serial and parallel on the CPU].
    #[arg(long, value_enum)]
    method: Vec<Method>,
    /// Where plain and projected run: auto, cuda:N or emulated. Serial and parallel run on the CPU.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Floating-point type; may be repeated [default: f32].
    #[arg(long, value_enum)]
    precision: Vec<Precision>,
    /// θ: a policy is evaluated until no value changes by this much in a sweep.
    #[arg(long, value_name = "T", default_value = "1e-5", value_parser = number::positive)]
    theta: f64,
    /// How value iteration stores the model on a GPU [default: the smallest way that it has].
    #[arg(long, value_enum)]
    storage: Option<Storage>,
    /// Sweep all states every time, also those that cannot have changed.
    #[arg(long)]
    no_skip: bool,
    /// Runs per line; times are medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..1000))]
    runs: u32,
    /// Print one JSON array.
    #[arg(long)]
    json: bool,
}

fn case(name: &str) -> Result<Case, String> {
    let found = CASES.iter().find(|case| case.name.eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| "the grids are G1 to G6".to_owned())
}

/// `chosen`, or what stands in for nothing.
fn or_default<T: Copy>(chosen: &[T], default: &[T]) -> Vec<T> {
    if chosen.is_empty() { default.to_vec() } else { chosen.to_vec() }
}

/// Measures case by case, and prints each line when it is there.
pub fn run(arguments: &Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let on_gpu = !matches!(arguments.device, DeviceChoice::Cpu) && Gpu::count().is_ok_and(|count| count > 0);
    let methods: &[Method] = if on_gpu {
        &[Method::Plain, Method::Projected, Method::Values]
    } else {
        &[Method::Serial, Method::Parallel, Method::Values]
    };
    let cases = or_default(&arguments.case, &CASES);
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
                    Method::Serial | Method::Parallel => DeviceChoice::Cpu,
                    _ => arguments.device,
                };
                let options = BenchOptions {
                    device,
                    precision,
                    theta: arguments.theta,
                    storage: arguments.storage,
                    skip: !arguments.no_skip,
                    runs: arguments.runs as usize,
                };
                let measured = measure(case, &mdp, method, &options)?;
                steps.next();
                if !arguments.json {
                    if all.is_empty() {
                        write_header(&mut out, arguments)?;
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

fn write_header(out: &mut impl Write, arguments: &Arguments) -> std::io::Result<()> {
    writeln!(
        out,
        "θ = {:e}, median of {} runs; `source` is the time that Aydin (2025) gives, and on what\n",
        arguments.theta, arguments.runs
    )?;
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
