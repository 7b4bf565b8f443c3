//! The ranks that run a command together: those that a launcher started, or threads for the GPUs of this process.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, thread};

use clap::Args;
use serde::Serialize;
use warpkov_bench::{Used, joules_per_1e9};
use warpkov_common::report::write_object;
use warpkov_mdp::io::{Store, write_blocks, write_npy_together};
use warpkov_mdp::model::whole::Described;
use warpkov_runtime as runtime;
use warpkov_runtime::choose::{DeviceChoice, Devices};
use warpkov_runtime::comm::launch::Launch;
use warpkov_runtime::comm::{self, Communicator, Disagreed, Divided, Local, World};
use warpkov_runtime::gpu::{MODULES, Usage};

use super::file::{self, FileOrStd};
use super::{number, same};
use crate::error::Error;

/// Options of a command that several ranks may run.
#[derive(Args, Clone)]
#[group(skip)]
pub struct Arguments {
    /// Run as one of N processes, started by hand: each with its --rank, a GPU, and the same --master. By default, a launcher says so
    /// (mpirun, srun, torchrun, or the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "rank", requires = "master")]
    ranks: Option<u32>,
    /// The number of this process, from 0.
    #[arg(long, value_name = "I", requires = "ranks")]
    rank: Option<u32>,
    /// Host of process 0, and a port at which it listens until all have come. It refuses processes with another TOKEN, which may also come
    /// from the variable WARPKOV_TOKEN.
    #[arg(long, value_name = "[TOKEN@]HOST:PORT", requires = "ranks")]
    master: Option<String>,
    /// Seconds that a rank waits for another, from the start to the end, before all end, if a launcher (mpirun, srun) started several, or
    /// for several GPUs.
    #[arg(long, value_name = "S", default_value = "30", value_parser = number::positive)]
    timeout: f64,
    /// Draw what the emulated kernels do: lanes over time, banks of shared memory, and coalescing per line (SVG). For --device
    /// emulated, which then takes longer.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write what the GPUs of this process did to this file (.json), and with --json into the report: launches and time of each kernel, peak
    /// memory, energy, and the versions of driver and program. Every kernel is then launched and timed by itself, which takes longer.
    #[arg(long, value_name = "FILE")]
    usage: Option<PathBuf>,
}

/// The ranks of a command.
pub struct Ranks {
    world: World,
    timeout: Duration,
    /// Whether the kernels are drawn.
    traced: bool,
}

impl Arguments {
    /// Joins the ranks that the launcher of this process started, and divides the cores of a node among its ranks.
    pub fn join(&self) -> Result<Ranks, Error> {
        if let Some(path) = &self.trace {
            file::extension(path, &["svg"])?;
            file::writes(path)?;
            runtime::profiler();
        }
        if let Some(path) = &self.usage {
            file::extension(path, &["json"])?;
            file::writes(path)?;
            Usage::measure();
        }
        // A time beyond the range of `Duration` is no limit.
        let timeout = Duration::try_from_secs_f64(self.timeout).unwrap_or(Duration::MAX);
        let world = World::join(launch().as_ref(), timeout, lost)?;
        same::options(world.comm())?;
        if world.sharing() > 1 && env::var_os("RAYON_NUM_THREADS").is_none() {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let threads = (cores / world.sharing()).max(1);
            // A pool that exists stays.
            let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        }
        Ok(Ranks { world, timeout, traced: self.trace.is_some() })
    }

    /// Writes what the kernels did, if it is asked for: a drawing, or the use of GPUs. Called at the end of the command.
    pub fn finish(&self) -> Result<(), Error> {
        if let Some(path) = self.usage.as_ref().filter(|_| writes()) {
            let usage = ProcessUsage::so_far(None);
            if usage.used.kernels.is_empty() {
                eprintln!("note: --usage: no kernel ran on a GPU");
            }
            file::write_whole(path, |out| write_object(out, &usage))?;
        }
        let Some(path) = self.trace.as_ref().filter(|_| writes()) else { return Ok(()) };
        let profile = runtime::profiler().profile();
        if profile.kernels.is_empty() {
            return Err(no_trace());
        }
        let profile = profile.with_registers(|entry| MODULES.registers(entry, 90));
        file::write_whole(path, |out| out.write_all(profile.svg().as_bytes()))
    }
}

/// What the GPUs of this process did.
#[derive(Serialize)]
pub struct ProcessUsage {
    #[serde(flatten)]
    used: Used,
    joules: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    joules_per_1e9_backups: Option<f64>,
}

impl ProcessUsage {
    fn so_far(backups: Option<u64>) -> Self {
        let usage = Usage::so_far();
        let joules = usage.joules;
        let joules_per_1e9_backups = backups.and_then(|backups| joules_per_1e9(joules, backups));
        Self { used: usage.into(), joules, joules_per_1e9_backups }
    }

    /// The use for the report of a command, with the energy of 10⁹ of its backups; `None` without `--usage`.
    pub fn reported(backups: Option<u64>) -> Option<Self> {
        Usage::is_measured().then(|| Self::so_far(backups))
    }
}

/// Ends this process because another rank has failed. The main thread may wait for that rank on the GPU.
fn lost(failure: comm::Error) {
    let code = Error::from(failure).report();
    signal_hook::low_level::exit(code.into());
}

/// The place of this process by its options.
static GIVEN: OnceLock<Option<Launch>> = OnceLock::new();

/// Takes the place of this process from its options, if they give one. Called before the options are validated.
pub fn place(arguments: Option<&Arguments>) -> Result<(), Error> {
    let Some(Arguments { ranks: Some(ranks), rank: Some(rank), master: Some(master), .. }) = arguments else {
        return match arguments.and_then(|_| Launch::wrong_environment()) {
            Some(wrong) => Err(Error::Usage(format!("the variables of a launcher: {wrong}"))),
            None => Ok(()),
        };
    };
    let launch = Launch::given(*rank, *ranks, master);
    GIVEN.get_or_init(|| launch);
    match rank < ranks {
        true => Ok(()),
        false => {
            Err(Error::Usage(format!("--rank {rank}: expected at most {}, as there are {ranks} ranks", ranks - 1)))
        }
    }
}

/// The place of this process, by its options, else by its launcher; `None` if it is alone.
pub fn launch() -> Option<Launch> {
    GIVEN.get().cloned().unwrap_or_else(Launch::of_environment)
}

impl Ranks {
    /// Whether this process writes the results.
    pub fn is_first(&self) -> bool {
        self.world.comm().rank() == 0
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        self.world.comm().size()
    }

    /// Name, version and file of the MPI library, if several processes use one.
    pub fn library(&self) -> Option<String> {
        self.world.library()
    }

    /// The bytes of every process.
    pub fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.world.comm().all_gather(own)?)
    }

    /// Name of this process's node.
    pub fn node(&self) -> &str {
        &self.world.nodes()[self.world.comm().rank() as usize]
    }

    /// The result, if all ranks have one. If not, one of them has its error, and all others are silent.
    pub fn agree<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        self.world.comm().agree(result, Error::exit_code).map_err(agreed)
    }

    /// Checks that all processes have the same input files, of those that this one has read so far.
    pub fn same_files(&self) -> Result<(), Error> {
        same::files(self.world.comm())
    }

    /// What holds on the first process, whose outputs count for all.
    pub fn of_first(&self, holds: bool) -> Result<bool, Error> {
        Ok(self.world.comm().all_gather_equal(&[holds.into()])?[0] == [1])
    }

    /// Bytes of the first process.
    pub fn bytes_of_first(&self, own: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.world.comm().all_gather(own)?.swap_remove(0))
    }

    /// Arrays of which every process has a part.
    pub fn divided<'a>(&'a self, values: &'a [f64], policy: &'a [u32]) -> Result<Divided<'a>, Error> {
        Ok(Divided::new(self.world.comm(), values, policy)?)
    }

    /// Writes an array, of which every process has a part from number `first` of `all` on, whole or not at all. Returns
    /// whether the processes can, as they share the file system.
    pub fn write_npy<T: Store>(&self, path: &Path, own: &[T], first: u64, all: u64) -> Result<bool, Error> {
        let written = write_npy_together(self.world.comm(), path, own, first, all);
        written.map_err(|disagreed| agreed(disagreed.map(Error::from)))
    }

    /// Writes a model as safetensors, whole or not at all: every process its part, or the first one all if the processes share no file
    /// system. Returns whether it is written.
    pub fn write_model(
        &self,
        path: &Path,
        model: &dyn Described,
        mut observe: impl FnMut(f64) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        let written = |comm: &dyn Communicator, observe: &mut dyn FnMut(f64) -> ControlFlow<()>| {
            write_blocks(comm, path, model, observe).map_err(|disagreed| agreed(disagreed.map(Error::from)))
        };
        let done = written(self.world.comm(), &mut observe)?;
        if done || self.size() == 1 || !self.is_first() {
            return Ok(done);
        }
        written(&Local::alone(), &mut observe)
    }

    /// Checks that every process can read this input: the standard input reaches only one.
    pub fn one_input(&self, file: &FileOrStd) -> Result<(), Error> {
        match file {
            FileOrStd::Standard if self.world.comm().size() > 1 => {
                Err(Error::Usage("the standard input reaches one of the processes only, expected a file".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The number of ranks of the command: processes, or GPUs of this process.
    pub fn count(&self, devices: &[DeviceChoice]) -> usize {
        devices.len().max(self.size() as usize)
    }

    /// The devices of this process: one for each of its ranks.
    pub fn devices(&self, devices: &Devices) -> Result<Vec<DeviceChoice>, Error> {
        match devices {
            Devices::One(DeviceChoice::Emulated) => {}
            _ if self.traced => return Err(no_trace()),
            _ => {}
        }
        Ok(devices.choose(&self.world)?)
    }

    /// Runs `work` on every rank, each with its device, and returns the result of this process's first rank.
    pub fn run<T: Send>(
        &self,
        devices: &[DeviceChoice],
        work: impl Fn(&dyn Communicator, DeviceChoice) -> Result<T, Error> + Sync,
    ) -> Result<T, Error> {
        Ok(self.run_all(devices, work)?.swap_remove(0))
    }

    /// Runs `work` on every rank, each with its device, and returns the results of this process's ranks.
    pub fn run_all<T: Send>(
        &self,
        devices: &[DeviceChoice],
        work: impl Fn(&dyn Communicator, DeviceChoice) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        match devices {
            [device] => match work(self.world.comm(), *device) {
                // Wrong input is wrong on every rank.
                Err(error) if error.exit_code() == 2 && self.size() > 1 => self.agree(Err(error)),
                Err(error) if self.size() > 1 => Err(error.on(*device)),
                result => result.map(|result| vec![result]),
            },
            devices => {
                let of_rank = |local: &Local| {
                    let device = devices[local.rank() as usize];
                    work(local, device).map_err(|error| error.on(device))
                };
                Local::run(devices.len() as u32, self.timeout, of_rank)
            }
        }
    }
}

fn no_trace() -> Error {
    Error::Usage("--trace: no emulated kernel to draw, expected --device emulated".to_owned())
}

/// The error of this rank, when all know of it.
fn agreed(disagreed: Disagreed<Error>) -> Error {
    match disagreed {
        Disagreed::Here(error) => Error::Agreed(Box::new(error)),
        Disagreed::Elsewhere { code, .. } => Error::Elsewhere(code),
        Disagreed::Comm(error) => error.into(),
    }
}

/// The error of a command that a launcher started in a way that no rank can run: the first rank reports it.
pub fn refused(launch: Launch, message: String) -> Error {
    if launch.rank == 0 {
        return Error::Usage(message);
    }
    leave_to_first();
    Error::Elsewhere(2)
}

/// Leaves a message to the first rank, before the ranks have joined. A launcher may end all ranks as soon as one has failed.
pub fn leave_to_first() {
    thread::sleep(Duration::from_millis(500));
}

/// The rank of this process, before the ranks have joined.
pub fn launched() -> u32 {
    launch().map_or(0, |launch| launch.rank)
}

/// Whether this process writes files, for checks before the ranks have joined: the first rank does.
pub fn writes() -> bool {
    launched() == 0
}
