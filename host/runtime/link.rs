//! GPUs of several ranks that exchange data through NCCL.

use super::Error;
use super::comm::{self, Communicator};
use super::gpu::{self, Gpu};

/// One rank's GPU, linked with those of the other ranks.
pub struct Link(pub gpu::Communicator);

impl Link {
    /// Links the GPUs of all ranks. `None` if a rank has no NCCL, or if two ranks have the same GPU, which NCCL refuses:
    /// the ranks then exchange data through the memory of their hosts.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn new(gpu: &Gpu, comm: &dyn Communicator) -> Result<Option<Self>, Error> {
        let own = format!("{} {}", comm::node(), gpu.pci()?);
        let mut all = comm.all_gather(own.as_bytes())?;
        all.sort_unstable();
        let shared = all.windows(2).any(|pair| pair[0] == pair[1]);
        if comm.any(shared || gpu::nccl_version().is_err())? {
            return Ok(None);
        }
        let mut id = [0; 128];
        if comm.rank() == 0 {
            id = gpu::Communicator::unique_id()?;
        }
        comm.broadcast(0, &mut id)?;
        Ok(Some(Self(gpu::Communicator::new(gpu, &id, comm.rank(), comm.size(), comm.timeout())?)))
    }
}
