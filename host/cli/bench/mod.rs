//! `warpkov bench`.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Serialize;
use warpkov_bench::{Kernel, Used};
use warpkov_runtime::gpu::{Usage, size};

use super::common::ranks;
use super::error::{Error, Outcome};

mod hmm;
mod mdp;
mod pomdp;

/// The model class to measure.
#[derive(Subcommand)]
pub enum BenchCommand {
    Mdp(Box<mdp::Arguments>),
    Pomdp(pomdp::Arguments),
    Hmm(hmm::Arguments),
}

impl BenchCommand {
    /// The options of ranks, if several can run this command together.
    pub fn ranks(&self) -> Option<&ranks::Arguments> {
        match self {
            Self::Pomdp(arguments) => Some(&arguments.ranks),
            Self::Mdp(arguments) => arguments.ranks(),
            Self::Hmm(_) => None,
        }
    }
}

pub const EXAMPLES: &str = "\
Examples:
  warpkov bench mdp
  warpkov bench mdp --case G1 --case G2 --method parallel --runs 1
  warpkov bench pomdp --case tag
  warpkov bench hmm --case 64x64x16";

/// Runs a benchmark.
pub fn run(command: BenchCommand, out: impl Write) -> Result<Outcome, Error> {
    match command {
        BenchCommand::Mdp(arguments) => mdp::run(*arguments, out),
        BenchCommand::Pomdp(arguments) => pomdp::run(arguments, out),
        BenchCommand::Hmm(arguments) => hmm::run(arguments, out),
    }
}

/// `chosen`, or `default` if nothing is chosen.
fn or_default<T: Copy>(chosen: &[T], default: &[T]) -> Vec<T> {
    if chosen.is_empty() { default.to_vec() } else { chosen.to_vec() }
}

/// A ratio with two digits or more, such as 152×, 5.2× or 0.043×.
fn factor(ratio: f64) -> String {
    let digits = if ratio.is_normal() { (1.0 - ratio.abs().log10().floor()).clamp(0.0, 9.0) } else { 0.0 };
    format!("{ratio:.0$}×", digits as usize)
}

/// Measurements beside the times.
#[derive(Args, Clone, Copy)]
#[group(skip)]
struct Metering {
    /// Also run once more with every kernel launched and timed by itself: launches and time of each kernel, and the most memory at one time.
    #[arg(long)]
    kernels: bool,
}

/// A measurement, and what one more run used, if that was asked for.
#[derive(Serialize)]
struct Metered<M> {
    #[serde(flatten)]
    measured: M,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<Used>,
}

/// Writes the kernels of each line that was measured so, under its name.
fn write_kernels<'a>(
    out: &mut impl Write,
    lines: impl Iterator<Item = (String, &'a Option<Used>)>,
) -> std::io::Result<()> {
    let mut first = true;
    for (name, used) in lines {
        let Some(Used { kernels, peak_bytes, .. }) = used else { continue };
        if std::mem::take(&mut first) {
            writeln!(out, "\nOne run, with every kernel launched and timed by itself\n")?;
            writeln!(out, "{:>10} {:>12} {:>10}  kernel", "launches", "ms", "µs each")?;
        }
        writeln!(out, "{name}: {} of GPU memory", size(*peak_bytes))?;
        for Kernel { kernel, launches, seconds } in kernels {
            let (all, each) = (1e3 * seconds, 1e6 * seconds / *launches as f64);
            writeln!(out, "{launches:>10} {all:>12.3} {each:>10.2}  {kernel}")?;
        }
        if kernels.is_empty() {
            writeln!(out, "{:>10}  no kernel ran on a GPU", 0)?;
        }
    }
    Ok(())
}

/// Where and by what the times were measured.
fn measured_on(device: &str) -> String {
    let driver = Usage::so_far().driver.map_or_else(String::new, |driver| format!(", driver {driver}"));
    format!("Measured on {device}{driver}, by warpkov {}.", env!("CARGO_PKG_VERSION"))
}

/// Prints the measurements as JSON.
fn print_json(measured: &impl Serialize, mut out: impl Write) -> Result<(), Error> {
    serde_json::to_writer(&mut out, measured).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Notes on stderr why `auto` chose a device.
fn note(reason: Option<String>) {
    if let Some(reason) = reason {
        eprintln!("note: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ratios_are_not_0() {
        for (ratio, text) in [
            (152.3, "152×"),
            (27.4, "27×"),
            (5.23, "5.2×"),
            (1.0, "1.0×"),
            (0.432, "0.43×"),
            (0.0123, "0.012×"),
            (0.0, "0×"),
        ] {
            assert_eq!(factor(ratio), text);
        }
    }
}
