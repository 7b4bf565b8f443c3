//! `warpkov devices`.

use std::fmt;
use std::io::{self, Write};
use std::thread::available_parallelism;

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use warpkov_runtime::comm::mpi;
use warpkov_runtime::gpu::{DeviceInfo, Gpu, MODULES, nccl_version};

use super::common::ranks;
use super::error::{Error, Outcome};

/// Lists the devices: GPUs, CPU and emulator, and the libraries that connect several.
///
/// Started by mpirun or srun, it lists the devices of every rank.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pub ranks: ranks::Arguments,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov devices
  warpkov devices --json
  mpirun -n 2 warpkov devices";

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
    /// Version and file of NCCL.
    nccl: Library,
    /// Name, version and file of MPI.
    mpi: Library,
}

/// A library that is loaded at run time.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Library {
    /// Its version and its file.
    Found(String),
    /// Why there is none.
    Missing(String),
}

impl<E: ToString> From<Result<String, E>> for Library {
    fn from(found: Result<String, E>) -> Self {
        found.map_or_else(|error| Self::Missing(error.to_string()), Self::Found)
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(library) => f.write_str(library),
            Self::Missing(why) => write!(f, "none; {why}"),
        }
    }
}

/// The devices of all ranks.
#[derive(Serialize)]
struct Everywhere {
    ranks: Vec<OfRank>,
}

/// The devices of one of several ranks.
#[derive(Serialize)]
struct OfRank {
    rank: usize,
    node: String,
    /// What `devices --json` prints for one process.
    devices: Box<RawValue>,
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

/// The devices of this process; `mpi` is the library in use.
fn list(mpi: Option<String>) -> Listing {
    let (gpus, no_gpu) = match Gpu::list(&MODULES) {
        Ok(gpus) => (gpus, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let of_many = MODULES.baselines.iter().filter(|code| !code.alone);
    let machine_code = of_many.flat_map(|code| code.machine).map(|sm| format!("sm_{sm}"));
    let of_one = MODULES.baselines.iter().filter(|code| code.alone && !code.machine.is_empty());
    let machine_code = machine_code.chain(of_one.map(|code| code.target()));
    let baselines =
        MODULES.baselines.iter().map(|code| format!("{}, PTX {}.{}", code.target(), code.ptx.0, code.ptx.1));
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
        nccl: nccl_version().into(),
        mpi: mpi.map_or_else(mpi::installed, Ok).into(),
    }
}

/// Finds the devices of all ranks, prints them.
pub fn run(arguments: Arguments, mut out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.ranks.join()?;
    let listing = list(ranks.library());
    if ranks.size() == 1 {
        match arguments.json {
            true => writeln!(out, "{}", serde_json::to_string(&listing).map_err(io::Error::from)?)?,
            false => write_text(&listing, &mut out)?,
        }
        return Ok(Outcome::Success);
    }
    let mut text = Vec::new();
    write_text(&listing, &mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let own = (ranks.node(), serde_json::to_string(&listing).map_err(io::Error::from)?, text);
    let all = ranks.gather(&serde_json::to_vec(&own).map_err(io::Error::from)?)?;
    if !ranks.is_first() {
        return Ok(Outcome::Success);
    }
    let all: Result<Vec<(String, String, String)>, _> = all.iter().map(|bytes| serde_json::from_slice(bytes)).collect();
    let all = all.map_err(io::Error::from)?;
    if arguments.json {
        let of_rank = |(rank, (node, listing, _)): (usize, &(String, String, String))| {
            Ok(OfRank { rank, node: node.clone(), devices: RawValue::from_string(listing.clone())? })
        };
        let all: serde_json::Result<Vec<OfRank>> = all.iter().enumerate().map(of_rank).collect();
        let all = all.and_then(|ranks| serde_json::to_string(&Everywhere { ranks }));
        writeln!(out, "{}", all.map_err(io::Error::from)?)?;
        return Ok(Outcome::Success);
    }
    for (rank, (node, _, text)) in all.iter().enumerate() {
        writeln!(out, "rank {rank} on {node}")?;
        text.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    Ok(Outcome::Success)
}

/// Writes the devices for people.
fn write_text(listing: &Listing, mut out: impl Write) -> io::Result<()> {
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
        if !gpu.peers.is_empty() {
            let peers: Vec<_> = gpu.peers.iter().map(|peer| format!("cuda:{peer}")).collect();
            writeln!(out, "{:10} accesses the memory of {}", "", peers.join(", "))?;
        }
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
    writeln!(out, "NCCL: {}", listing.nccl)?;
    writeln!(out, "MPI: {}", listing.mpi)
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
