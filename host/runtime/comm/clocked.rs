//! The time that a rank spends in communication.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::{Communicator, Error, Exchange, Message};

/// A communicator with a clock for its exchanges.
pub struct Clocked<'c> {
    comm: &'c dyn Communicator,
    spent: Cell<Duration>,
}

impl<'c> Clocked<'c> {
    /// `comm` with a clock at 0.
    #[must_use]
    pub fn new(comm: &'c dyn Communicator) -> Self {
        Self { comm, spent: Cell::default() }
    }

    /// The time spent to send, to receive, and to wait for other ranks.
    #[must_use]
    pub fn spent(&self) -> Duration {
        self.spent.get()
    }

    fn time<X>(&self, work: impl FnOnce() -> X) -> X {
        let begun = Instant::now();
        let result = work();
        self.spent.set(self.spent.get() + begun.elapsed());
        result
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
        let pending = self.time(|| self.comm.exchange(sends, receives))?;
        Ok(Box::new(Pending { clocked: self, pending }))
    }
}

struct Pending<'a> {
    clocked: &'a Clocked<'a>,
    pending: Box<dyn Exchange + 'a>,
}

impl Exchange for Pending<'_> {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, Error> {
        let Self { clocked, pending } = *self;
        clocked.time(|| pending.wait())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::Local;
    use super::*;

    #[test]
    fn a_rank_that_waits_spends_time() {
        const LATE: Duration = Duration::from_millis(100);

        let spent = Local::run::<_, Error>(2, Duration::from_secs(20), |local| {
            let clocked = Clocked::new(local);
            if clocked.rank() == 1 {
                thread::sleep(LATE);
            }
            clocked.barrier()?;
            Ok(clocked.spent())
        });
        let spent = spent.unwrap_or_else(|error| panic!("{error}"));
        assert!(spent[0] > LATE / 2 && spent[1] < spent[0], "{spent:?}");
    }
}
