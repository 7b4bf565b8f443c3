//! `warpkov bench mdp --suite slip-grids`.

use std::io::Write;

use warpkov_bench::mdp::slip_grids::{CASES, Case, Measured, PublishedTime, figures, measure};
use warpkov_mdp::options::{Method, Precision, Spmv};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::sparse::Cusparse;

use super::{
    Arguments, Error, Outcome, factor, measured_on, of_backups, of_backups_header, or_default, print_json,
    write_kernels,
};
use crate::common::output::{draw_panels, plots};
use crate::common::progress::Steps;

/// Measures grid by grid and method by method, and prints each line when its measurement ends.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    // The products of cuSPARSE are the source's contender, where that library is.
    let with_cusparse = arguments.device() != DeviceChoice::Emulated && Cusparse::is_available();
    let methods: &[Method] = match (arguments.on_gpu(), with_cusparse) {
        (true, true) => {
            &[Method::Plain, Method::Projected(Spmv::Own), Method::Projected(Spmv::Cusparse), Method::Values]
        }
        (true, false) => &[Method::Plain, Method::Projected(Spmv::Own), Method::Values],
        (false, _) => &[Method::Serial, Method::Parallel, Method::Values],
    };
    let named = |name: &str| CASES.iter().find(|case| case.name.eq_ignore_ascii_case(name)).copied();
    let cases = arguments.cases(&CASES, named, "G1 to G6")?;
    let (theta, runs) = (arguments.theta.unwrap_or(1e-5), arguments.runs.unwrap_or(5) as usize);
    let mut methods = or_default(&arguments.method, methods);
    // Speed-ups are over the serial method.
    methods.sort_by_key(|method| *method != Method::Serial);
    let plots = plots(&arguments.plot)?;
    let precisions = or_default(&arguments.precision, &[Precision::F32]);
    let steps = Steps::new(cases.len() * methods.len() * precisions.len(), arguments.json);
    let width = methods.iter().map(|method| method.label().len()).max().unwrap_or(0).max(9);
    let mut all = Vec::new();
    for case in &cases {
        steps.say(format!("generating {}", case.name));
        let mdp = case.generate(arguments.connected)?;
        for &method in &methods {
            for &precision in &precisions {
                steps.say(format!("{}, {}, {precision}", case.name, method.label()));
                let device = match method {
                    _ if !method.places().gpu => DeviceChoice::Cpu,
                    _ => arguments.device(),
                };
                let options = arguments.options(device, precision, theta, runs);
                let measured = measure(case, &mdp, method, &options, &all)?;
                steps.next();
                if !arguments.json {
                    if all.is_empty() {
                        write_header(&mut out, width, theta, runs, &arguments)?;
                    }
                    write_line(&mut out, width, &measured, arguments.price)?;
                    out.flush()?;
                }
                all.push(measured);
            }
        }
    }
    draw_panels(&plots, &figures(&all))?;
    if arguments.json {
        print_json(&all, out)?;
    } else {
        write_source(&mut out, &cases)?;
        let mut devices: Vec<_> = all.iter().map(|measured| measured.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        let name = |measured: &Measured| {
            format!("{}, {}, {}", measured.case.name, measured.method.label(), measured.precision)
        };
        write_kernels(&mut out, all.iter().map(|measured| (name(measured), &measured.used)))?;
        writeln!(out, "\n{}", measured_on(&devices.join(", ")))?;
    }
    Ok(Outcome::Success)
}

fn write_header(
    out: &mut impl Write,
    width: usize,
    theta: f64,
    runs: usize,
    arguments: &Arguments,
) -> std::io::Result<()> {
    writeln!(
        out,
        "θ = {theta:e}, median of {runs} run{}; `speed-up` is over serial here; `source` is the time in Aydin (2025), and its device\n",
        if runs == 1 { "" } else { "s" }
    )?;
    writeln!(
        out,
        "{:<4} {:<5} {:<width$} {:<4} {:>8} {:>7} {:>10} {:>8} {:>9} {:>8} {:>9} {:>22} {:>8}{}",
        "grid",
        "side",
        "method",
        "type",
        "policies",
        "sweeps",
        "time ms",
        "speed-up",
        "sweep µs",
        "GB/s",
        "certified",
        "source ms",
        "ratio",
        of_backups_header(arguments)
    )
}

fn write_line(out: &mut impl Write, width: usize, measured: &Measured, price: Option<f64>) -> std::io::Result<()> {
    let Measured {
        case,
        method,
        precision,
        policies,
        sweeps,
        milliseconds,
        speed_up,
        sweep_us,
        sweep_bytes,
        joules,
        backups,
        certificate,
        ..
    } = measured;
    let source = case.published(*method);
    let of_sweep = |text: &dyn Fn(f64) -> String| sweep_us.map_or_else(String::new, text);
    writeln!(
        out,
        "{:<4} {:<5} {:<width$} {:<4} {:>8} {:>7} {:>10.2} {:>8} {:>9} {:>8} {:>9} {:>22} {:>8}{}",
        case.name,
        case.side,
        method.label(),
        precision.to_string(),
        policies,
        sweeps,
        milliseconds,
        speed_up.map_or_else(String::new, factor),
        of_sweep(&|time| format!("{time:.2}")),
        of_sweep(&|time| format!("{:.0}", *sweep_bytes as f64 / time / 1e3)),
        certificate.bound_text().unwrap_or_else(|| "none".to_owned()),
        source.map_or_else(String::new, |source| format!("{:.0} ({})", source.milliseconds, source.device)),
        source.map_or_else(String::new, |source| factor(source.milliseconds / milliseconds)),
        of_backups(*joules, price, *milliseconds, *backups),
    )
}

/// The published times and speed-ups, and what is not the same there.
fn write_source(out: &mut impl Write, cases: &[Case]) -> std::io::Result<()> {
    let Some(Case { source, .. }) = cases.first() else { return Ok(()) };
    writeln!(out, "\nAydin (2025), Tables 5.5 to 5.8: milliseconds, and speed-ups over serial\n")?;
    for name in [|published: &PublishedTime| published.method, |published: &PublishedTime| published.device] {
        write!(out, "{:<4}", if name(&source[0]) == source[0].method { "grid" } else { "" })?;
        for published in source {
            write!(out, " {:>16}", name(published))?;
        }
        writeln!(out)?;
    }
    for case in cases {
        write!(out, "{:<4}", case.name)?;
        for published in &case.source {
            let speed_up = factor(case.speed_up(published));
            let speed_up = if *published == case.source[0] { String::new() } else { speed_up };
            write!(out, " {:>9.0} {speed_up:>6}", published.milliseconds)?;
        }
        writeln!(out)?;
    }
    if cases.iter().any(|case| case.walls > 0.0) {
        writeln!(
            out,
            "\nG4 and G5: the source gives neither the places of walls and obstacles nor how ties break. Its times differ by 50 to 1; the \
             sweeps here do not."
        )?;
    }
    Ok(())
}
