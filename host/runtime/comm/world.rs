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
}

enum Ranks {
    Alone(Local),
    Mpi(Box<Mpi>),
}

impl World {
    /// This process alone.
    #[must_use]
    pub fn alone() -> Self {
        Self { ranks: Ranks::Alone(Local::alone()), nodes: vec![node()] }
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
        Ok(Self { ranks: Ranks::Mpi(Box::new(mpi)), nodes })
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

    /// Name, version and file of the MPI library, if several ranks use one.
    #[must_use]
    pub fn library(&self) -> Option<String> {
        match &self.ranks {
            Ranks::Alone(_) => None,
            Ranks::Mpi(mpi) => Some(format!("{}, {}", mpi.version(), mpi.library())),
        }
    }
}

/// Name of this node.
#[must_use]
pub fn node() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}
