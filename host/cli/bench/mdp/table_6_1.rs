//! `warpkov bench mdp --suite table-6.1`.

use std::io::Write;

use serde::Serialize;
use warpkov_bench::mdp::BenchOptions;
use warpkov_bench::mdp::table_6_1::{
    CONTENDERS, Contender, Locality, Measured, REDIRECTED, SpeedUp, count_sweeps, figures, less_local, means, measure,
};
use warpkov_common::choice::Choice;
use warpkov_mdp::generate::{TABLE_6_1, WetFloor};
use warpkov_mdp::options::{Method, Precision};
use warpkov_runtime::choose::DeviceChoice;

use super::{
    Arguments, Error, Outcome, factor, measured_on, of_backups, of_backups_header, or_default, print_json,
    write_kernels,
};
use crate::common::output::{draw_panels, plots};
use crate::common::progress::Steps;

/// The measurements.
#[derive(Default, Serialize)]
struct Results {
    table: Vec<Measured>,
    locality: Vec<Locality>,
}

/// Measures domain by domain, and prints each line when its measurement ends; then counts the sweeps with less locality.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let on_gpu = arguments.on_gpu();
    // A name stands for the method with all its parameters.
    let is = |contender: &Contender, method: &Method| contender.method.name() == method.name();
    let chosen = |contender: &&Contender| {
        let asked = arguments.method.is_empty() || arguments.method.iter().any(|method| is(contender, method));
        (contender.on_cpu || on_gpu) && asked
    };
    let contenders: Vec<_> = CONTENDERS.iter().filter(chosen).collect();
    for method in &arguments.method {
        let why = match CONTENDERS.iter().find(|contender| is(contender, method)) {
            None => {
                let mut names: Vec<_> = CONTENDERS.iter().map(|contender| contender.method.to_string()).collect();
                names.sort_unstable();
                names.dedup();
                format!("the suite measures {}", names.join(", "))
            }
            Some(_) if contenders.iter().any(|contender| is(contender, method)) => continue,
            Some(_) => "it needs a GPU, or --device emulated".to_owned(),
        };
        return Err(Error::Usage(format!("--method {method}: {why}")));
    }
    let plots = plots(&arguments.plot)?;
    let domains = arguments.cases(&TABLE_6_1, WetFloor::named, "GW-64x64x1 to GW-1024x1024x4")?;
    let precisions = or_default(&arguments.precision, &[Precision::F32]);
    // `--case` names domains, and the models with less locality have no names.
    let redirected: &[f64] = if arguments.case.is_empty() { &REDIRECTED } else { &[] };
    // The emulator would take minutes for these models.
    let counted = |contender: &&&Contender| contender.on_cpu || arguments.device() != DeviceChoice::Emulated;
    let counting: Vec<_> = contenders.iter().copied().filter(|contender| counted(&contender)).collect();
    let lines = (domains.len() * contenders.len() + redirected.len() * counting.len()) * precisions.len();
    let steps = Steps::new(lines, arguments.json);
    let (theta, runs) = (arguments.theta.unwrap_or(1e-4), arguments.runs.unwrap_or(12) as usize);
    let options = |precision| arguments.options(arguments.device(), precision, theta, runs);

    let mut results = Results::default();
    for domain in &domains {
        steps.say(format!("generating {}", domain.name()));
        let mdp = domain.generate()?;
        for &precision in &precisions {
            let mut baseline: Option<Measured> = None;
            for contender in &contenders {
                steps.say(format!("{}, {}, {precision}", domain.name(), contender.name));
                let measured = measure(domain, &mdp, contender, &options(precision), baseline.as_ref())?;
                steps.next();
                if !arguments.json {
                    if results.table.is_empty() {
                        write_header(&mut out, &options(precision), &arguments)?;
                    }
                    write_line(&mut out, &measured, arguments.price)?;
                    out.flush()?;
                }
                if baseline.is_none() && **contender == CONTENDERS[0] {
                    baseline = Some(measured.clone());
                }
                results.table.push(measured);
            }
        }
    }
    for &redirected in redirected {
        let mdp = less_local(redirected)?;
        for &precision in &precisions {
            for contender in &counting {
                steps.say(format!("{:.0} % elsewhere, {}, {precision}", 100.0 * redirected, contender.name));
                results.locality.push(count_sweeps(redirected, &mdp, contender, &options(precision))?);
                steps.next();
            }
        }
    }

    draw_panels(&plots, &figures(&results.table, &results.locality))?;
    if arguments.json {
        print_json(&results, out)?;
        return Ok(Outcome::Success);
    }
    if domains.len() > 1 {
        write_means(&mut out, &results.table, &precisions, &contenders)?;
    }
    if !results.locality.is_empty() {
        write_locality(&mut out, &results.locality, &precisions, &counting)?;
    }
    let mut devices: Vec<_> = results.table.iter().map(|measured| measured.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    let name =
        |measured: &Measured| format!("{}, {}, {}", measured.domain, measured.contender.name, measured.precision);
    write_kernels(&mut out, results.table.iter().map(|measured| (name(measured), &measured.used)))?;
    writeln!(out, "\n{}", measured_on(&devices.join(", ")))?;
    Ok(Outcome::Success)
}

fn write_header(out: &mut impl Write, options: &BenchOptions, arguments: &Arguments) -> std::io::Result<()> {
    writeln!(
        out,
        "γ = 0.9, θ = {:e}, mean of {} runs without the best and the worst. Speed-ups are over `sequential`, to \
         convergence and per sweep;\nthose of the source are a GeForce 8800 GTX's over one core of a Core 2 Duo \
         (Jóhannsson 2009, Table 6.2)\n",
        options.theta, options.runs
    )?;
    writeln!(
        out,
        "{:<15} {:>9} {:<15} {:<4} {:>10} {:>7} {:>10} {:>17} {:>15} {:>9}{}",
        "domain",
        "cost",
        "method",
        "type",
        "time ms",
        "sweeps",
        "sweep µs",
        "speed-up",
        "source",
        "certified",
        of_backups_header(arguments)
    )
}

fn write_line(out: &mut impl Write, measured: &Measured, price: Option<f64>) -> std::io::Result<()> {
    let Measured { domain, cost, contender, precision, sweeps, milliseconds, sweep_us, certificate, .. } = measured;
    writeln!(
        out,
        "{:<15} {:>9} {:<15} {:<4} {:>10.3} {:>7} {:>10.2} {:>17} {:>15} {:>9}{}",
        domain,
        cost,
        contender.name,
        precision.to_string(),
        milliseconds,
        sweeps,
        sweep_us,
        both(measured.speed_up),
        both(measured.published),
        certificate.bound_text().unwrap_or_else(|| "none".to_owned()),
        of_backups(measured.joules, price, *milliseconds, measured.backups),
    )
}

/// The speed-ups to convergence and of a sweep.
fn both(speed_up: Option<SpeedUp>) -> String {
    speed_up.map_or_else(String::new, |SpeedUp { convergence, sweep }| {
        format!("{} {:>8}", factor(convergence), factor(sweep))
    })
}

/// The means of the speed-ups over the domains (section 6.4).
fn write_means(
    out: &mut impl Write,
    table: &[Measured],
    precisions: &[Precision],
    contenders: &[&Contender],
) -> std::io::Result<()> {
    for contender in contenders {
        for &precision in precisions {
            let own = |measured: &&Measured| measured.contender == **contender && measured.precision == precision;
            let [here, source] = means(&table.iter().filter(own).collect::<Vec<_>>()).map(both);
            let precision = precision.to_string();
            writeln!(out, "{:<25} {:<15} {precision:<4} {here:>47} {source:>15}", "mean", contender.name)?;
        }
    }
    Ok(())
}

fn write_locality(
    out: &mut impl Write,
    counts: &[Locality],
    precisions: &[Precision],
    contenders: &[&Contender],
) -> std::io::Result<()> {
    writeln!(
        out,
        "\nSweeps on GW-256x256x1 with this percentage of successors replaced by random states (section 6.3)\n"
    )?;
    write!(out, "{:<15} {:<4}", "method", "type")?;
    for redirected in REDIRECTED {
        write!(out, " {:>5.0} %", 100.0 * redirected)?;
    }
    writeln!(out)?;
    for contender in contenders {
        for precision in precisions {
            write!(out, "{:<15} {:<4}", contender.name, precision.to_string())?;
            let own = |count: &&Locality| count.contender == **contender && count.precision == *precision;
            for count in counts.iter().filter(own) {
                write!(out, " {:>7}", count.sweeps)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
