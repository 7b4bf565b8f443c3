//! `warpkov devices`.

use std::io::Write;
use std::thread::available_parallelism;

use clap::Args;
use serde::Serialize;
use warpkov::runtime::gpu::{DeviceInfo, Gpu, MODULES};

use super::error::{Error, Outcome};

/// Lists the devices: GPUs, CPU and emulator.
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

/// The devices of this machine.
#[derive(Serialize)]
struct Listing {
    /// CUDA version of the driver: "13.0".
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    gpus: Vec<DeviceInfo>,
    /// Reason why there is no GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_gpu: Option<String>,
    cpu_cores: usize,
    device_code: DeviceCode,
}

/// The kernels in this binary.
#[derive(Serialize)]
struct DeviceCode {
    /// Compiler of the kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    compiler: Option<&'static str>,
    /// Baselines: "sm_80, PTX 7.4".
    baselines: Vec<String>,
    /// Architectures with machine code: "sm_86".
    machine_code: Vec<String>,
    /// CUDA release of the assembler.
    #[serde(skip_serializing_if = "Option::is_none")]
    assembler: Option<&'static str>,
    /// Reason why there are no kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'static str>,
}

fn list() -> Listing {
    let (gpus, no_gpu) = match Gpu::list(&MODULES) {
        Ok(gpus) => (gpus, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let machine_code = MODULES.baselines.iter().flat_map(|code| code.machine).map(|sm| format!("sm_{sm}"));
    let baselines = MODULES.baselines.iter().map(|code| format!("sm_{}, PTX {}.{}", code.sm, code.ptx.0, code.ptx.1));
    Listing {
        driver: Gpu::driver_version().ok().map(|(major, minor)| format!("{major}.{minor}")),
        gpus,
        no_gpu,
        cpu_cores: available_parallelism().map_or(1, usize::from),
        device_code: DeviceCode {
            compiler: MODULES.compiler.ok(),
            baselines: baselines.collect(),
            machine_code: machine_code.collect(),
            assembler: MODULES.assembler.map(|(version, _)| version),
            missing: MODULES.compiler.err(),
        },
    }
}

/// Finds the devices, prints them.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let listing = list();
    if arguments.json {
        serde_json::to_writer(&mut out, &listing).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(Outcome::Success);
    }
    for gpu in &listing.gpus {
        let (major, minor) = gpu.compute_capability;
        writeln!(out, "{:<10} {}", format!("cuda:{}", gpu.ordinal), gpu.name)?;
        let free = gpu.free_bytes.map_or_else(|| "?".to_owned(), |free| format!("{:.1}", gibibytes(free)));
        writeln!(
            out,
            "{:10} {free} of {:.1} GiB free, compute capability {major}.{minor}, {} multiprocessors, {:.0} MiB of L2, PCI {}",
            "",
            gibibytes(gpu.total_bytes),
            gpu.multiprocessors,
            1024.0 * gibibytes(gpu.l2_bytes),
            gpu.pci,
        )?;
        match (gpu.machine_code, gpu.ptx, &gpu.unsupported) {
            (Some(sm), ..) => writeln!(out, "{:10} runs machine code for sm_{sm}", "")?,
            (None, Some(sm), _) => {
                writeln!(out, "{:10} runs PTX for sm_{sm}: the driver compiles each kernel when it is first used", "")?;
            }
            (None, None, why) => {
                writeln!(out, "{:10} cannot be used: {}", "", why.as_deref().unwrap_or("no reason given"))?
            }
        }
    }
    let cores = listing.cpu_cores;
    writeln!(out, "{:<10} {cores} {}", "cpu", if cores == 1 { "core" } else { "cores" })?;
    writeln!(out, "{:<10} the GPU's kernels on the CPU, thread by thread; slow, for tests", "emulated")?;
    writeln!(out)?;
    match (&listing.driver, &listing.no_gpu) {
        (_, Some(reason)) => writeln!(out, "No GPU: {reason}")?,
        (Some(version), None) => writeln!(out, "Driver: for CUDA {version}")?,
        (None, None) => {}
    }
    let code = &listing.device_code;
    match (code.missing, code.compiler) {
        (Some(why), _) => writeln!(out, "Device code: none; {why}")?,
        (None, compiler) => writeln!(
            out,
            "Device code: {}, by {}",
            code.baselines.join("; "),
            compiler.unwrap_or("an unknown compiler")
        )?,
    }
    if let Some(version) = code.assembler {
        writeln!(out, "Machine code: for {}, by ptxas {version}", code.machine_code.join(", "))?;
    }
    Ok(Outcome::Success)
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
