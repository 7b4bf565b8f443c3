//! `warpkov bench mdp --suite ranks`.

use std::io::{self, Write};

use serde::Serialize;
use warpkov_bench::mdp::ranks::{Checked, Computed, H200, Machine, SWEEPS, checked, strong, weak};

use super::{Arguments, Error, Outcome, print_json};

/// All of it, as JSON.
#[derive(Serialize)]
struct Everything {
    machine: Machine,
    sweeps: u32,
    checked: Vec<Checked>,
    weak: Vec<Computed>,
    strong: Vec<Computed>,
}

/// Prints the measured times beside the model, and what the model says of more GPUs.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let all = Everything { machine: H200, sweeps: SWEEPS, checked: checked(), weak: weak(), strong: strong() };
    if arguments.json {
        print_json(&all, out)?;
        return Ok(Outcome::Success);
    }
    writeln!(out, "Value iteration on slip grids, NVIDIA H200, f64, γ = 0.99: {SWEEPS} sweeps of all cells\n")?;
    writeln!(out, "{:<22}{:>6}{:>14}{:>12}{:>12}", "cells", "GPUs", "measured ms", "model ms", "difference")?;
    for Checked { grid, gpus, measured_ms, model_ms } in all.checked {
        let difference = 100.0 * (model_ms / measured_ms - 1.0);
        let cells = format!("{} x {}", grid.width, grid.height);
        writeln!(out, "{cells:<22}{gpus:>6}{measured_ms:>14.1}{model_ms:>12.1}{difference:>10.1} %")?;
    }
    writeln!(out, "\nComputed, not measured: nodes of 8 GPUs, 400 Gb/s and 5 µs between nodes for each GPU\n")?;
    write_computed(&mut out, "10000 x 10000 cells on each GPU", &all.weak)?;
    writeln!(out)?;
    write_computed(&mut out, "100000 x 100000 cells together", &all.strong)?;
    Ok(Outcome::Success)
}

fn write_computed(out: &mut impl Write, title: &str, rows: &[Computed]) -> io::Result<()> {
    writeln!(out, "{title:<34}{:>6}{:>12}{:>12}{:>12}", "GPUs", "sweep µs", "seconds", "efficiency")?;
    for Computed { gpus, sweep_us, seconds, efficiency, .. } in rows {
        writeln!(out, "{:<34}{gpus:>6}{sweep_us:>12.1}{seconds:>12.2}{:>10.1} %", "", 100.0 * efficiency)?;
    }
    Ok(())
}
