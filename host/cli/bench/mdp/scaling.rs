//! `warpkov bench mdp --suite scaling`.

use std::io::Write;

use clap::Args;
use warpkov_bench::mdp::plot::draw_scaling;
use warpkov_bench::mdp::scaling::{Event, FAMILIES, Point, Scaling, ScalingError, ScalingOptions, measure};
use warpkov_mdp::options::Precision;

use super::{Arguments, Error, Outcome, measured_on, number, print_json};
use crate::common::output::plots;
use crate::common::progress::Steps;

/// The sizes.
#[derive(Args)]
#[command(next_help_heading = "Options of --suite scaling")]
pub struct ScalingArguments {
    /// Entries of the largest models [default: 1e9]. An entry takes some 30 bytes of host memory.
    #[arg(long, value_name = "N", value_parser = number::positive)]
    largest: Option<f64>,
}

impl ScalingArguments {
    /// The first of these options that is given.
    pub fn given(&self) -> Option<&'static str> {
        self.largest.map(|_| "--largest")
    }
}

impl From<ScalingError> for Error {
    fn from(error: ScalingError) -> Self {
        match error {
            ScalingError::Generate(error) => error.into(),
            ScalingError::Solve(error) => error.into(),
        }
    }
}

/// Measures model by model, prints each line when its measurement ends, and draws the times.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let ScalingArguments { largest } = &arguments.scaling;
    let plots = plots(&arguments.plot)?;
    let named = |name: &str| FAMILIES.into_iter().find(|family| family.name().eq_ignore_ascii_case(name));
    let families = arguments.cases(&FAMILIES, named, "grid, garnet or power-law")?;
    let wide = match arguments.precision[..] {
        [] | [Precision::F32] => false,
        [Precision::F64] => true,
        _ => return Err(Error::Usage("--suite scaling times one type: expected --precision f32 or f64, once".into())),
    };
    let options = ScalingOptions { wide, largest: largest.unwrap_or(1e9), runs: arguments.runs.unwrap_or(5) as usize };
    let lines = families.iter().map(|family| family.storages().len()).sum::<usize>() * options.sizes().len();
    let (device, _) = arguments.device().open_kernels(false)?;
    let steps = Steps::new(lines, arguments.json);
    let mut written = Ok(());
    let scaling = measure(&device, &families, &options, &mut |event| match event {
        Event::Making(family, nnz) => steps.say(format!("{} with {nnz:.0e} entries", family.name())),
        Event::Device(scaling) if !arguments.json && written.is_ok() => written = write_header(&mut out, scaling),
        Event::Point(point) => {
            steps.next();
            if !arguments.json && written.is_ok() {
                written = write_line(&mut out, point);
            }
        }
        Event::Device(_) => {}
    })?;
    drop(steps);
    plots.iter().try_for_each(|plot| plot.draw(|format| draw_scaling(&scaling, format)))?;
    written?;
    if arguments.json {
        print_json(&scaling, out)?;
        return Ok(Outcome::Success);
    }
    for note in &scaling.notes {
        writeln!(out, "left out: {note}")?;
    }
    writeln!(out, "\n{}", measured_on(&scaling.device))?;
    Ok(Outcome::Success)
}

fn write_header(out: &mut impl Write, scaling: &Scaling) -> std::io::Result<()> {
    writeln!(
        out,
        "{}; copies {:.0} GB/s ({:.1e} bytes read, as many written), a launch takes {:.2} µs (a sweep over 16 states)\n",
        scaling.precision, scaling.copy_gbps, scaling.copy_bytes, scaling.launch_us
    )?;
    writeln!(
        out,
        "{:<10} {:<9} {:>12} {:>12} {:>12} {:>14} {:>8}",
        "family", "storage", "states", "entries", "sweep µs", "sweep bytes", "GB/s"
    )
}

fn write_line(out: &mut impl Write, point: &Point) -> std::io::Result<()> {
    let Point { family, storage, states, nnz, sweep_us, sweep_bytes, gbps, .. } = point;
    writeln!(
        out,
        "{:<10} {:<9} {states:>12} {nnz:>12} {sweep_us:>12.2} {sweep_bytes:>14} {gbps:>8.0}",
        family.name(),
        storage.to_string(),
    )?;
    out.flush()
}
