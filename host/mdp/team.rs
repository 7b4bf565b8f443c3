//! The ranks that share a model: exchange of ghosts, and reductions.

use std::sync::Arc;

use bytemuck::Pod;

use super::model::{Part, Peer};
use warpkov_runtime::comm::{Communicator, Error, Exchange};

/// The ranks that share a model, seen from one of them.
#[derive(Clone, Default)]
pub struct Team<'c> {
    others: Option<(&'c dyn Communicator, Arc<Part>)>,
}

impl<'c> Team<'c> {
    /// One rank with the whole model.
    #[must_use]
    pub fn alone() -> Self {
        Self::default()
    }

    /// The ranks of `comm`, each with its part of a model.
    #[must_use]
    pub fn new(comm: &'c dyn Communicator, part: &Arc<Part>) -> Self {
        Self { others: (comm.size() > 1).then(|| (comm, Arc::clone(part))) }
    }

    /// The connection to the other ranks; `None` for one rank.
    #[must_use]
    pub fn comm(&self) -> Option<&'c dyn Communicator> {
        self.others.as_ref().map(|(comm, _)| *comm)
    }

    /// The part of this rank; `None` if the model is whole.
    #[must_use]
    pub fn part(&self) -> Option<&Part> {
        self.others.as_ref().map(|(_, part)| &**part)
    }

    /// Whether this rank has states with actions.
    #[must_use]
    pub fn works(&self) -> bool {
        self.part().is_none_or(|part| part.works)
    }

    /// Starts the exchange of the ghosts: sends the values of the states that other ranks need.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn send<T: Pod>(&self, values: &[T]) -> Result<GhostsOnTheirWay<'_>, Error> {
        let Some((comm, part)) = &self.others else { return Ok(GhostsOnTheirWay(None)) };
        let own = |peer: &Peer| match peer.sends.run() {
            Some(run) => bytemuck::cast_slice(&values[run]).to_vec(),
            None => {
                let states = peer.sends.iter().map(|state| values[state as usize]);
                bytemuck::cast_slice(&states.collect::<Vec<T>>()).to_vec()
            }
        };
        let sends = part.peers.iter().filter(|peer| !peer.sends.is_empty());
        let sends = sends.map(|peer| (peer.rank, own(peer))).collect();
        let receives: Vec<_> = part.receives().map(|peer| (peer.rank, size_of::<T>() * peer.ghosts.len())).collect();
        Ok(GhostsOnTheirWay(Some((comm.exchange(sends, &receives)?, part))))
    }

    /// Replaces the ghosts of `values` by the values of their owners.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn refresh<T: Pod>(&self, values: &mut [T]) -> Result<(), Error> {
        self.send(values)?.receive(|first, ghosts: &[T]| values[first..first + ghosts.len()].copy_from_slice(ghosts))
    }

    /// Replaces each number by its maximum over all ranks.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn max(&self, numbers: &mut [f64]) -> Result<(), Error> {
        self.others.as_ref().map_or(Ok(()), |(comm, _)| comm.all_reduce_max(numbers))
    }

    /// Replaces each number by its sum over all ranks, in the order of the ranks.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn sum(&self, numbers: &mut [f64]) -> Result<(), Error> {
        self.others.as_ref().map_or(Ok(()), |(comm, _)| comm.all_reduce_sum(numbers))
    }

    /// The sum over all ranks.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn count(&self, own: u64) -> Result<u64, Error> {
        let Some((comm, _)) = &self.others else { return Ok(own) };
        Ok(comm.gather(&[own])?.iter().map(|of_rank| of_rank[0]).sum())
    }

    /// Whether it holds on any rank.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn any(&self, holds: bool) -> Result<bool, Error> {
        self.others.as_ref().map_or(Ok(holds), |(comm, _)| comm.any(holds))
    }
}

/// Values of ghosts on their way.
#[must_use = "the values arrive in receive"]
pub struct GhostsOnTheirWay<'t>(Option<(Box<dyn Exchange + 't>, &'t Part)>);

impl GhostsOnTheirWay<'_> {
    /// Waits for the values. Calls `take` with the first of a range of ghosts and their values, rank by rank.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn receive<T: Pod>(self, mut take: impl FnMut(usize, &[T])) -> Result<(), Error> {
        let Some((exchange, part)) = self.0 else { return Ok(()) };
        for (peer, bytes) in part.receives().zip(exchange.wait()?) {
            take(peer.ghosts.start, &bytemuck::pod_collect_to_vec::<u8, T>(&bytes));
        }
        Ok(())
    }
}
