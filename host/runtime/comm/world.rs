//! What a process sees of the ranks that it works with.

use std::fs;
use std::time::Duration;

use super::launch::Launch;
use super::{Communicator, Error, Local, Mpi};

/// The ranks that a launcher started, or this process alone.
pub struct World {
    ranks: Ranks,
    /// Name of each rank's node.
    nodes: Vec<String>,
    /// The number of ranks that have the same cores as this one.
    sharing: usize,
}

enum Ranks {
    Alone(Local),
    Mpi(Box<Mpi>),
}

impl World {
    /// This process alone.
    #[must_use]
    pub fn alone() -> Self {
        Self { ranks: Ranks::Alone(Local::alone()), nodes: vec![node()], sharing: 1 }
    }

    /// Joins the ranks that the launcher of this process started; without a launcher, the process is alone. A rank
    /// waits at most `timeout` for another.
    ///
    /// # Errors
    /// If there is no MPI library, if it does not start, or if it knows other ranks than the launcher.
    pub fn join(timeout: Duration) -> Result<Self, Error> {
        let Some(launch) = Launch::of_environment() else { return Ok(Self::alone()) };
        let mpi = Mpi::start(timeout)?;
        if mpi.size() != launch.size {
            let (launcher, library) = (launch.by, format!("{} ({})", mpi.version(), mpi.library()));
            return Err(Error::Launcher { launcher, started: launch.size, library, found: mpi.size() });
        }
        let names = mpi.all_gather(node().as_bytes())?;
        let nodes = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let cores = mpi.all_gather(cores().as_bytes())?;
        let rank = mpi.rank() as usize;
        let place = |rank: usize| (&names[rank], &cores[rank]);
        let sharing = (0..names.len()).filter(|&other| place(other) == place(rank)).count();
        Ok(Self { ranks: Ranks::Mpi(Box::new(mpi)), nodes, sharing })
    }

    /// The connection to the other ranks.
    #[must_use]
    pub fn comm(&self) -> &dyn Communicator {
        match &self.ranks {
            Ranks::Alone(local) => local,
            Ranks::Mpi(mpi) => &**mpi,
        }
    }

    /// Name of each rank's node.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The number of lower ranks on this node: the ordinal of this rank's GPU.
    #[must_use]
    pub fn local_rank(&self) -> u32 {
        let rank = self.comm().rank() as usize;
        self.nodes[..rank].iter().filter(|node| **node == self.nodes[rank]).count() as u32
    }

    /// The number of ranks that have the same cores as this one: those of its node that the launcher did not bind to
    /// others, itself included.
    #[must_use]
    pub fn sharing(&self) -> usize {
        self.sharing
    }

    /// Name, version and file of the MPI library, if several ranks use one.
    #[must_use]
    pub fn library(&self) -> Option<String> {
        match &self.ranks {
            Ranks::Alone(_) => None,
            Ranks::Mpi(mpi) => Some(format!("{}, {}", mpi.version(), mpi.library())),
        }
    }
}

/// The cores that this process may use, as the kernel lists them.
fn cores() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default().trim().to_owned()
}

/// Name of this node.
#[must_use]
pub fn node() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}
