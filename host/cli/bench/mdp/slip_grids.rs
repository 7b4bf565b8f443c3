//! `warpkov bench mdp --suite slip-grids`.

use std::io::Write;

use warpkov_bench::mdp::slip_grids::{CASES, Measured, measure};
use warpkov_mdp::options::{Method, Precision, Spmv};
use warpkov_runtime::choose::DeviceChoice;

use super::{Arguments, Error, Outcome, factor, or_default, print_json};
use crate::common::progress::Steps;

/// Measures grid by grid and method by method, and prints each line when its measurement ends.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let methods: &[Method] = if arguments.on_gpu() {
        &[Method::Plain, Method::Projected(Spmv::Own), Method::Values]
    } else {
        &[Method::Serial, Method::Parallel, Method::Values]
    };
    let named = |name: &str| CASES.iter().find(|case| case.name.eq_ignore_ascii_case(name)).copied();
    let cases = arguments.cases(&CASES, named, "G1 to G6")?;
    let (theta, runs) = (arguments.theta.unwrap_or(1e-5), arguments.runs.unwrap_or(5) as usize);
    let methods = or_default(&arguments.method, methods);
    let precisions = or_default(&arguments.precision, &[Precision::F32]);
    let steps = Steps::new(cases.len() * methods.len() * precisions.len(), arguments.json);
    let width = methods.iter().map(|method| method.label().len()).max().unwrap_or(0).max(9);
    let mut all = Vec::new();
    for case in &cases {
        steps.say(format!("generating {}", case.name));
        let mdp = case.generate()?;
        for &method in &methods {
            for &precision in &precisions {
                steps.say(format!("{}, {}, {precision}", case.name, method.label()));
                let device = match method {
                    _ if !method.places().gpu => DeviceChoice::Cpu,
                    _ => arguments.device(),
                };
                let options = arguments.options(device, precision, theta, runs);
                let measured = measure(case, &mdp, method, &options)?;
                steps.next();
                if !arguments.json {
                    if all.is_empty() {
                        write_header(&mut out, width, theta, runs, arguments.energy)?;
                    }
                    write_line(&mut out, width, &measured)?;
                    out.flush()?;
                }
                all.push(measured);
            }
        }
    }
    if arguments.json {
        print_json(&all, out)?;
    } else {
        let mut devices: Vec<_> = all.iter().map(|measured| measured.device.as_str()).collect();
        devices.dedup();
        writeln!(out, "\nMeasured on {}.", devices.join(", "))?;
    }
    Ok(Outcome::Success)
}

fn write_header(out: &mut impl Write, width: usize, theta: f64, runs: usize, energy: bool) -> std::io::Result<()> {
    writeln!(out, "θ = {theta:e}, median of {runs} runs; `source` is the time in Aydin (2025), and its device\n",)?;
    writeln!(
        out,
        "{:<4} {:<5} {:<width$} {:<4} {:>8} {:>7} {:>10} {:>9} {:>8} {:>9} {:>22} {:>8}{}",
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
        "ratio",
        if energy { "    J/10⁹" } else { "" }
    )
}

fn write_line(out: &mut impl Write, width: usize, measured: &Measured) -> std::io::Result<()> {
    let Measured {
        case,
        method,
        precision,
        policies,
        sweeps,
        milliseconds,
        sweep_us,
        sweep_bytes,
        joules,
        certificate,
        ..
    } = measured;
    let source = case.source_ms(*method);
    let of_sweep = |text: &dyn Fn(f64) -> String| sweep_us.map_or_else(String::new, text);
    writeln!(
        out,
        "{:<4} {:<5} {:<width$} {:<4} {:>8} {:>7} {:>10.2} {:>9} {:>8} {:>9} {:>22} {:>8}{}",
        case.name,
        case.side,
        method.label(),
        precision.to_string(),
        policies,
        sweeps,
        milliseconds,
        of_sweep(&|time| format!("{time:.2}")),
        of_sweep(&|time| format!("{:.0}", *sweep_bytes as f64 / time / 1e3)),
        certificate.bound_text().unwrap_or_else(|| "none".to_owned()),
        source.map_or_else(String::new, |(time, device)| format!("{time:.0} ({device})")),
        source.map_or_else(String::new, |(time, _)| factor(time / milliseconds)),
        joules.map_or_else(String::new, |joules| format!(" {joules:>8.2}")),
    )
}
