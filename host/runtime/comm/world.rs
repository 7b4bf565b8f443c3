//! What a process sees of the ranks that it works with.

use std::fs;
use std::time::Duration;

use super::launch::{Connection, Launch};
use super::{Communicator, Error, Local, Mpi, Nccl};

/// The ranks that a launcher started, or this process alone.
pub struct World {
    ranks: Ranks,
    /// Name of each rank's node.
    nodes: Vec<String>,
    /// This rank among those of its node.
    local_rank: u32,
    /// The number of ranks that have the same cores as this one.
    sharing: usize,
}

/// What a process does once a rank has failed while this one waits or computes: another thread calls it, with the failure.
pub type Lost = fn(Error);

enum Ranks {
    Alone(Local),
    Mpi(&'static Mpi),
    Nccl(Box<Nccl>),
}

impl Ranks {
    fn comm(&self) -> &dyn Communicator {
        match self {
            Self::Alone(local) => local,
            Self::Mpi(mpi) => *mpi,
            Self::Nccl(nccl) => &**nccl,
        }
    }
}

impl World {
    /// This process alone.
    #[must_use]
    pub fn alone() -> Self {
        Self { ranks: Ranks::Alone(Local::alone()), nodes: vec![node()], local_rank: 0, sharing: 1 }
    }

    /// Joins the ranks that were started with this process; without a `launch`, the process is alone. A rank waits at
    /// most `timeout` for another. A launcher of MPI without an MPI library is no obstacle if there are the variables of a launcher
    /// without MPI.
    ///
    /// `lost` is called on another thread where this one cannot go on: without MPI once another rank has failed, with MPI if it does not
    /// start or end in time.
    ///
    /// # Errors
    /// - With MPI: if there is no library, if it does not start, or if it knows other ranks than the launcher.
    /// - Without: if a rank has no GPU or no NCCL, or if the ranks do not meet.
    pub fn join(launch: Option<&Launch>, timeout: Duration, lost: Lost) -> Result<Self, Error> {
        let Some(launch) = launch else { return Ok(Self::alone()) };
        let ranks = match &launch.connection {
            Connection::Mpi => match (Self::mpi(launch, timeout, lost), Launch::without_mpi()) {
                (Err(Error::NoLibrary { .. }), Some(launch)) => Self::nccl(&launch, timeout, lost)?,
                (mpi, _) => mpi?,
            },
            Connection::Nccl(_) => Self::nccl(launch, timeout, lost)?,
        };
        let comm = ranks.comm();
        let names = comm.all_gather(node().as_bytes())?;
        let nodes: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let cores = comm.all_gather(cores().as_bytes())?;
        let rank = comm.rank() as usize;
        let place = |rank: usize| (&names[rank], &cores[rank]);
        let sharing = (0..names.len()).filter(|&other| place(other) == place(rank)).count();
        let lower = nodes[..rank].iter().filter(|node| **node == nodes[rank]).count() as u32;
        Ok(Self { ranks, nodes, local_rank: launch.local_rank.unwrap_or(lower), sharing })
    }

    fn mpi(launch: &Launch, timeout: Duration, lost: Lost) -> Result<Ranks, Error> {
        let mpi = Mpi::start(launch, timeout, lost)?;
        if mpi.size() != launch.size {
            let (launcher, library) = (launch.by, format!("{} ({})", mpi.version(), mpi.library()));
            return Err(Error::Launcher { launcher, started: launch.size, library, found: mpi.size() });
        }
        Ok(Ranks::Mpi(mpi))
    }

    fn nccl(launch: &Launch, timeout: Duration, lost: Lost) -> Result<Ranks, Error> {
        match &launch.connection {
            Connection::Nccl(Some(address)) => Ok(Ranks::Nccl(Box::new(Nccl::start(launch, address, timeout, lost)?))),
            _ => Err(Error::NoMaster { launcher: launch.by, started: launch.size }),
        }
    }

    /// The connection to the other ranks.
    #[must_use]
    pub fn comm(&self) -> &dyn Communicator {
        self.ranks.comm()
    }

    /// Name of each rank's node.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// This rank among those of its node, from 0: the ordinal of its GPU. If the launcher does not tell, the number of lower
    /// ranks on the node.
    #[must_use]
    pub fn local_rank(&self) -> u32 {
        self.local_rank
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
            Ranks::Alone(_) | Ranks::Nccl(_) => None,
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
