//! The time that a rank spends in communication.

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Communicator, Error, Exchange, Message, node};
use warpkov_common::ranks::{RankShare, RankTime};

/// A communicator with a clock for its exchanges.
pub struct Clocked<'c> {
    comm: &'c dyn Communicator,
    begun: Instant,
    exchange: Cell<Duration>,
    waiting: Cell<Duration>,
}

impl<'c> Clocked<'c> {
    /// `comm` with its clocks at 0.
    #[must_use]
    pub fn new(comm: &'c dyn Communicator) -> Self {
        Self { comm, begun: Instant::now(), exchange: Cell::default(), waiting: Cell::default() }
    }

    /// The time since this value exists.
    #[must_use]
    pub fn time(&self) -> RankTime {
        let [all, exchange, waiting] = [self.begun.elapsed(), self.exchange.get(), self.waiting.get()];
        let sweeps = all.saturating_sub(exchange + waiting);
        let [seconds, sweeps, exchange, waiting] = [all, sweeps, exchange, waiting].map(|time| time.as_secs_f64());
        RankTime { seconds, sweeps, exchange, waiting }
    }

    /// What each rank did so far; nothing if there is one. All ranks call it, each with its own device and work.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    pub fn shares<W: Serialize + DeserializeOwned>(&self, device: &str, work: W) -> Result<Vec<RankShare<W>>, Error> {
        if self.size() == 1 {
            return Ok(Vec::new());
        }
        let own = RankShare { rank: self.rank(), node: node(), device: device.to_owned(), work, time: self.time() };
        let failed = |rank: u32, error: serde_json::Error| Error::Failed { rank, reason: error.to_string() };
        let own = serde_json::to_vec(&own).map_err(|error| failed(self.rank(), error))?;
        let all = self.comm.all_gather(&own)?;
        let read = |(rank, bytes): (u32, Vec<u8>)| serde_json::from_slice(&bytes).map_err(|error| failed(rank, error));
        (0..).zip(all).map(read).collect()
    }
}

impl Communicator for Clocked<'_> {
    fn rank(&self) -> u32 {
        self.comm.rank()
    }

    fn size(&self) -> u32 {
        self.comm.size()
    }

    fn timeout(&self) -> Duration {
        self.comm.timeout()
    }

    fn exchange<'a>(&'a self, sends: Vec<Message>, receives: &[(u32, usize)]) -> Result<Box<dyn Exchange + 'a>, Error> {
        let pending = timed(&self.exchange, || self.comm.exchange(sends, receives))?;
        Ok(Box::new(Pending { clocked: self, pending }))
    }

    fn barrier(&self) -> Result<(), Error> {
        timed(&self.waiting, || self.comm.barrier())
    }

    fn gather_lengths(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
        timed(&self.waiting, || self.comm.gather_lengths(own, lengths))
    }

    fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), Error> {
        timed(&self.waiting, || self.comm.broadcast(root, bytes))
    }
}

/// The result of `work`, whose time is added to `clock`.
fn timed<X>(clock: &Cell<Duration>, work: impl FnOnce() -> X) -> X {
    let begun = Instant::now();
    let result = work();
    clock.set(clock.get() + begun.elapsed());
    result
}

struct Pending<'a> {
    clocked: &'a Clocked<'a>,
    pending: Box<dyn Exchange + 'a>,
}

impl Exchange for Pending<'_> {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, Error> {
        let Self { clocked, pending } = *self;
        timed(&clocked.waiting, || pending.wait())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use serde::Deserialize;

    use super::super::Local;
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    struct Work {
        sequences: u32,
    }

    #[test]
    fn late_ranks_let_others_wait() {
        const LATE: Duration = Duration::from_millis(100);

        let shares = Local::run::<_, Error>(3, Duration::from_secs(20), |local| {
            let clocked = Clocked::new(local);
            if clocked.rank() == 1 {
                thread::sleep(LATE);
            }
            clocked.barrier()?;
            clocked.shares("a device", Work { sequences: local.rank() })
        });
        let shares = shares.unwrap_or_else(|error| panic!("{error}"));
        assert!(shares[1] == shares[0] && shares[2] == shares[0]);
        for (rank, share) in (0..).zip(&shares[0]) {
            let RankTime { seconds, sweeps, exchange, waiting } = share.time;
            assert!((seconds - sweeps - exchange - waiting).abs() < 1e-6, "{share:?}");
            assert_eq!(
                (share.rank, &*share.device, share.work.sequences, &*share.node),
                (rank, "a device", rank, &*node())
            );
        }
        let [punctual, late, _] = [0, 1, 2].map(|rank: usize| shares[0][rank].time);
        let least = LATE.as_secs_f64() / 2.0;
        assert!(punctual.waiting > least && late.waiting < punctual.waiting, "{shares:?}");
        assert!(late.sweeps > least && punctual.sweeps < late.sweeps, "{shares:?}");
    }

    #[test]
    fn one_rank_has_no_shares() {
        assert_eq!(Clocked::new(&Local::alone()).shares("", 0), Ok(Vec::new()));
    }
}
