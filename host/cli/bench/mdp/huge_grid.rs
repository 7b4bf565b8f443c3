//! `warpkov bench mdp --suite huge-grid`.

use std::io::Write;

use clap::Args;
use warpkov_bench::mdp::huge_grid::{HugeOptions, Measured, measure};
use warpkov_mdp::generate::SlipGrid;
use warpkov_mdp::options::Precision;

use super::{Arguments, Error, Outcome, number, print_json};

/// The grid.
#[derive(Args)]
#[command(next_help_heading = "Options of --suite huge-grid")]
pub struct HugeGridArguments {
    /// Cells in a row and in a column [default: 10000]; more than 65535 need several ranks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1 << 24))]
    side: Option<u32>,
    /// Discount factor γ [default: 0.99].
    #[arg(long, value_name = "G", value_parser = number::below_one)]
    gamma: Option<f64>,
    /// ε: maximum error of the values [default: 1e-5].
    #[arg(long, value_name = "E", value_parser = number::positive)]
    epsilon: Option<f64>,
    /// Fraction of cells that are walls [default: 0]. If positive, the host generates the contents of the cells.
    #[arg(long, value_name = "F", value_parser = number::probability)]
    walls: Option<f64>,
}

impl HugeGridArguments {
    /// The first of these options that is given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            (self.side.is_some(), "--side"),
            (self.gamma.is_some(), "--gamma"),
            (self.epsilon.is_some(), "--epsilon"),
            (self.walls.is_some(), "--walls"),
        ];
        given.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}

/// Generates and solves the grid on the device, prints the measurement.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let HugeGridArguments { side, gamma, epsilon, walls } = arguments.huge_grid;
    let mixed = match arguments.precision[..] {
        [] | [Precision::Mixed] => true,
        [Precision::F64] => false,
        _ => return Err(Error::Usage("--suite huge-grid ends in f64: expected --precision mixed or f64, once".into())),
    };
    let side = side.unwrap_or(10_000);
    let grid = SlipGrid {
        width: side,
        height: side,
        gamma: gamma.unwrap_or(0.99),
        walls: walls.unwrap_or(0.0),
        ..SlipGrid::default()
    };
    let ranks = arguments.ranks.join()?;
    let devices = ranks.agree(ranks.devices(&arguments.device))?;
    let options = HugeOptions { mixed, epsilon: epsilon.unwrap_or(1e-5), skip: !arguments.no_skip };
    let measured = ranks.run(&devices, |comm, device| {
        let (device, _) = device.open_kernels(false)?;
        Ok(measure(comm, &device, &grid.patterns_of(comm.rank(), comm.size())?, &options)?)
    })?;
    if !ranks.is_first() {
        // Rank 0 prints.
    } else if arguments.json {
        print_json(&measured, out)?;
    } else {
        write(&mut out, &measured)?;
    }
    let reached = measured.certificate.proves(measured.epsilon);
    Ok(if reached { Outcome::Success } else { Outcome::Negative })
}

fn write(out: &mut impl Write, measured: &Measured) -> std::io::Result<()> {
    let Measured { width, height, gamma, precision, device, generation_ms, solve_ms, sweeps, sweep_us, .. } = measured;
    writeln!(out, "grid         {width} × {height} cells, γ = {gamma}")?;
    writeln!(out, "states       {}", measured.states)?;
    match measured.ranks {
        1 => writeln!(out, "device       {device}, {precision}")?,
        ranks => writeln!(out, "device       {device} on the first of {ranks} ranks, {precision}")?,
    }
    writeln!(out, "memory       {:.3} GB on the device", measured.device_bytes as f64 / 1e9)?;
    writeln!(out, "generation   {generation_ms:.2} ms")?;
    writeln!(out, "solution     {solve_ms:.2} ms, {sweeps} sweeps, {sweep_us:.2} µs each")?;
    let bound = measured.certificate.bound_text().map_or_else(|| "not known".into(), |bound| format!("≤ {bound}"));
    writeln!(out, "|V − V*|     {bound}; asked for {:e}", measured.epsilon)
}
