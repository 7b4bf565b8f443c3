//! `warpkov bench mdp --suite ranks`.

use std::io::{self, Write};

use serde::Serialize;
use warpkov_bench::ranks::{Checked, Computed, DividedStep, GPUS, H200, Machine, SWEEPS, WORK, checked, strong, weak};

use super::{Arguments, Error, Outcome, print_json};

/// All of it, as JSON.
#[derive(Serialize)]
struct Everything {
    machine: Machine,
    sweeps: u32,
    checked: Vec<Checked>,
    weak: Vec<Computed>,
    strong: Vec<Computed>,
    work: [DividedStep; 11],
}

/// Prints the measured times beside the model, and what the model says of more GPUs.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let all =
        Everything { machine: H200, sweeps: SWEEPS, checked: checked(), weak: weak(), strong: strong(), work: WORK };
    if arguments.json {
        print_json(&all, out)?;
        return Ok(Outcome::Success);
    }
    writeln!(out, "Value iteration on slip grids, NVIDIA H200, f64, γ = 0.99: {SWEEPS} sweeps of all cells\n")?;
    writeln!(out, "{:<22}{:>6}{:>14}{:>12}{:>12}", "cells", "GPUs", "measured ms", "model ms", "difference")?;
    let difference = |model: f64, measured: f64| 100.0 * (model / measured - 1.0);
    for Checked { grid, mixed, gpus, measured_ms, model_ms } in all.checked {
        let difference = difference(model_ms, measured_ms);
        let cells = format!("{} x {}{}", grid.width, grid.height, if mixed { ", mixed" } else { "" });
        writeln!(out, "{cells:<22}{gpus:>6}{measured_ms:>14.1}{model_ms:>12.1}{difference:>10.1} %")?;
    }
    writeln!(out, "\nOther work: a step on one GPU, and on more\n")?;
    writeln!(
        out,
        "{:<42}{:>10}{:>6}{:>14}{:>12}{:>12}",
        "step", "one GPU", "GPUs", "measured ms", "model ms", "difference"
    )?;
    for of in &all.work {
        let (DividedStep { step, one_ms, .. }, (gpus, measured)) = (of, of.measured);
        let model = of.on(&H200, gpus);
        let difference = difference(model, measured);
        writeln!(out, "{step:<42}{one_ms:>10.3}{gpus:>6}{measured:>14.3}{model:>12.3}{difference:>10.1} %")?;
    }
    writeln!(out, "\nComputed, not measured: nodes of 8 GPUs, 400 Gb/s and 5 µs between nodes for each GPU\n")?;
    write_computed(&mut out, "10000 x 10000 cells on each GPU", &all.weak)?;
    writeln!(out)?;
    write_computed(&mut out, "100000 x 100000 cells together", &all.strong)?;
    writeln!(
        out,
        "\n{:<42}{:>14}{:>16}{:>16}{:>16}",
        "the same step, ms and efficiency", GPUS[0], GPUS[1], GPUS[2], GPUS[3]
    )?;
    for (at, of) in all.work.iter().enumerate() {
        // Measured on several numbers of GPUs.
        if all.work[..at].iter().any(|before| before.step == of.step) {
            continue;
        }
        write!(out, "{:<42}", of.step)?;
        for gpus in GPUS {
            let time = of.on(&H200, gpus);
            match of.divides(gpus) {
                true => write!(out, "{time:>8.3}{:>6.1} %", 100.0 * of.one_ms / time / f64::from(gpus))?,
                false => write!(out, "{:>16}", "-")?,
            }
        }
        writeln!(out)?;
    }
    Ok(Outcome::Success)
}

fn write_computed(out: &mut impl Write, title: &str, rows: &[Computed]) -> io::Result<()> {
    writeln!(out, "{title:<34}{:>6}{:>12}{:>12}{:>12}", "GPUs", "sweep µs", "seconds", "efficiency")?;
    for Computed { gpus, sweep_us, seconds, efficiency, .. } in rows {
        writeln!(out, "{:<34}{gpus:>6}{sweep_us:>12.1}{seconds:>12.2}{:>10.1} %", "", 100.0 * efficiency)?;
    }
    Ok(())
}
