//! `warpkov devices`.

use std::io::Write;
use std::thread::available_parallelism;

use clap::Args;
use serde::Serialize;
use warpkov::mdp::options::DeviceChoice;
use warpkov::mdp::standin;

use super::{Error, Outcome};

/// Lists the devices that can solve.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov devices
  warpkov devices --json";

/// What there is to solve on.
#[derive(Serialize)]
struct Listing {
    devices: Vec<Device>,
    /// Why no GPU is among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_gpu: Option<String>,
}

/// Something to solve on.
#[derive(Serialize)]
struct Device {
    /// What `--device` takes.
    device: DeviceChoice,
    /// What it is.
    name: String,
    /// Memory in bytes, of a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

/// Memory in bytes.
#[derive(Clone, Copy, Serialize)]
struct Memory {
    free: u64,
    total: u64,
}

/// The GPUs, then what every machine has.
fn list() -> Listing {
    let (gpus, no_gpu) = match standin::gpus() {
        Ok(gpus) if gpus.is_empty() => (gpus, Some("the NVIDIA driver reports no GPU".to_owned())),
        Ok(gpus) => (gpus, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let gpus = gpus.into_iter().zip(0..).map(|(gpu, ordinal)| Device {
        device: DeviceChoice::Cuda(ordinal),
        name: gpu.name,
        memory: Some(Memory { free: gpu.free, total: gpu.memory }),
    });
    let cores = available_parallelism().map_or(1, usize::from);
    let host = [
        (DeviceChoice::Cpu, format!("{cores} CPU {}", if cores == 1 { "core" } else { "cores" })),
        (DeviceChoice::Emulated, "the GPU's kernels on the CPU, thread by thread; slow, for tests".to_owned()),
    ];
    let host = host.into_iter().map(|(device, name)| Device { device, name, memory: None });
    Listing { devices: gpus.chain(host).collect(), no_gpu }
}

/// Lists, then prints.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let listing = list();
    if arguments.json {
        serde_json::to_writer(&mut out, &listing).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(Outcome::Success);
    }
    for Device { device, name, memory } in &listing.devices {
        // `DeviceChoice` does not pad, its text does.
        write!(out, "{:<10} {name}", device.to_string())?;
        match memory {
            Some(Memory { free, total }) => {
                writeln!(out, ", {:.1} of {:.1} GiB memory free", gibibytes(*free), gibibytes(*total))?;
            }
            None => writeln!(out)?,
        }
    }
    if let Some(reason) = &listing.no_gpu {
        writeln!(out, "No GPU: {reason}")?;
    }
    Ok(Outcome::Success)
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
