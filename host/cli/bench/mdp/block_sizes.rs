//! `warpkov bench mdp --suite block-sizes`.

use std::io::Write;

use warpkov_bench::mdp::block_sizes::{EXTENTS, SWEEPS, Sized, figures, measure_size};
use warpkov_mdp::generate::WetFloor;
use warpkov_mdp::options::Precision;

use super::{Arguments, Error, Outcome, measured_on, or_default, print_json};
use crate::common::output::{draw_panels, plots};
use crate::common::progress::Steps;

/// Measures size by size, and prints each line when its measurement ends.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    if !arguments.on_gpu() {
        return Err(Error::Usage("--suite block-sizes needs a GPU, or --device emulated".to_owned()));
    }
    let plots = plots(&arguments.plot)?;
    let default = [WetFloor::new(256, 256, 1), WetFloor::new(256, 256, 4)];
    let domains = arguments.cases(&default, WetFloor::named, "GW-64x64x1 to GW-1024x1024x4")?;
    let precisions = or_default(&arguments.precision, &[Precision::F32]);
    let steps = Steps::new(domains.len() * precisions.len() * EXTENTS.len() * SWEEPS.len(), arguments.json);
    let (theta, runs) = (arguments.theta.unwrap_or(1e-4), arguments.runs.unwrap_or(12) as usize);
    let mut all: Vec<Sized> = Vec::new();
    for domain in &domains {
        steps.say(format!("generating {}", domain.name()));
        let mdp = domain.generate()?;
        for &precision in &precisions {
            let options = arguments.options(arguments.device(), precision, theta, runs);
            for (block, sweeps) in EXTENTS.into_iter().flat_map(|block| SWEEPS.map(|sweeps| (block, sweeps))) {
                steps.say(format!("{}, {}x{}, {sweeps} sweeps, {precision}", domain.name(), block.0, block.1));
                let sized = measure_size(domain, &mdp, block, sweeps, &options)?;
                steps.next();
                if !arguments.json {
                    write_line(&mut out, &sized, all.is_empty())?;
                    out.flush()?;
                }
                all.push(sized);
            }
        }
    }
    drop(steps);
    draw_panels(&plots, &figures(&all))?;
    match (arguments.json, all.first()) {
        (true, _) => print_json(&all, out)?,
        (false, Some(Sized { measured, .. })) => {
            writeln!(
                out,
                "\nθ = {theta:e}, mean of {runs} runs without the best and the worst. {}",
                measured_on(&measured.device)
            )?;
        }
        (false, None) => {}
    }
    Ok(Outcome::Success)
}

/// Writes a line, the first one after a heading.
fn write_line(out: &mut impl Write, sized: &Sized, first: bool) -> std::io::Result<()> {
    if first {
        writeln!(
            out,
            "{:<15} {:<4} {:>6} {:>17} {:>7} {:>10} {:>10} {:>9}",
            "domain", "type", "block", "sweeps per launch", "sweeps", "time ms", "sweep µs", "certified"
        )?;
    }
    let Sized { block: (width, height), sweeps_per_launch, measured } = sized;
    writeln!(
        out,
        "{:<15} {:<4} {:>6} {sweeps_per_launch:>17} {:>7} {:>10.3} {:>10.2} {:>9}",
        measured.domain,
        measured.precision.to_string(),
        format!("{width}x{height}"),
        measured.sweeps,
        measured.milliseconds,
        measured.sweep_us,
        measured.certificate.bound_text().unwrap_or_else(|| "none".to_owned()),
    )
}
