//! The ranks that run a command together: those that a launcher started, or threads for the GPUs of this process.

use std::time::Duration;

use clap::Args;
use warpkov::runtime::choose::{DeviceChoice, Devices};
use warpkov::runtime::comm::{Communicator, Disagreed, Local, World, mpi};

use super::file::FileOrStd;
use super::number;
use crate::cli::error::Error;

/// Options of a command that several ranks may run.
#[derive(Args, Clone, Copy)]
#[group(skip)]
pub struct Arguments {
    /// Seconds that a rank waits for another before all end, if a launcher (mpirun, srun) started several, or for several GPUs.
    #[arg(long, value_name = "S", default_value = "30", value_parser = number::positive)]
    timeout: f64,
}

/// The ranks of a command.
pub struct Ranks {
    world: World,
    timeout: Duration,
}

impl Arguments {
    /// Joins the ranks that the launcher of this process started.
    pub fn join(self) -> Result<Ranks, Error> {
        // A time beyond the range of `Duration` is no limit.
        let timeout = Duration::try_from_secs_f64(self.timeout).unwrap_or(Duration::MAX);
        Ok(Ranks { world: World::join(timeout)?, timeout })
    }
}

impl Ranks {
    /// Whether this process writes the results.
    pub fn is_first(&self) -> bool {
        self.world.comm().rank() == 0
    }

    /// The result, if all ranks have one. If not, one of them keeps its error, all others are silent, and MPI ends.
    pub fn agree<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        self.world.comm().agree(result, Error::exit_code).map_err(|disagreed| {
            if !matches!(disagreed, Disagreed::Comm(_)) {
                mpi::finalize();
            }
            match disagreed {
                Disagreed::Here(error) => error,
                Disagreed::Elsewhere { code, .. } => Error::Elsewhere(code),
                Disagreed::Comm(error) => error.into(),
            }
        })
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

    /// The devices of this process: one for each of its ranks.
    pub fn devices(&self, devices: &Devices) -> Result<Vec<DeviceChoice>, Error> {
        Ok(devices.of(&self.world)?)
    }

    /// Runs `work` on every rank, each with its device, and returns the result of this process's first rank.
    pub fn run<T: Send>(
        &self,
        devices: &[DeviceChoice],
        work: impl Fn(&dyn Communicator, DeviceChoice) -> Result<T, Error> + Sync,
    ) -> Result<T, Error> {
        match devices {
            [device] => work(self.world.comm(), *device),
            devices => {
                let of_rank = |local: &Local| work(local, devices[local.rank() as usize]);
                let mut results = Local::run(devices.len() as u32, self.timeout, of_rank)?;
                Ok(results.swap_remove(0))
            }
        }
    }
}
