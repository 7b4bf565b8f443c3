//! Ranks that are threads of one process.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use warpkov_common::parallel;

use super::{Communicator, Error, Exchange, Message};

/// Messages between threads.
#[derive(Default)]
struct Mail {
    /// Messages under way, by sender and receiver.
    boxes: HashMap<(u32, u32), VecDeque<Vec<u8>>>,
    /// The ranks that wait.
    waiting: HashSet<u32>,
    /// The first failure.
    failed: Option<Error>,
}

#[derive(Default)]
struct Shared {
    mail: Mutex<Mail>,
    arrived: Condvar,
}

impl Shared {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of several threads. A thread that drops its rank while it panics, or that calls [`fail`](Self::fail), ends the waits of
/// all others with its reason.
pub struct Local {
    rank: u32,
    size: u32,
    timeout: Duration,
    shared: Arc<Shared>,
}

impl Local {
    /// `size` ranks, one for each thread, that wait at most `timeout` for each other.
    #[must_use]
    pub fn ranks(size: u32, timeout: Duration) -> Vec<Self> {
        let shared = Arc::new(Shared::default());
        (0..size).map(|rank| Self { rank, size, timeout, shared: Arc::clone(&shared) }).collect()
    }

    /// The only rank.
    #[must_use]
    pub fn alone() -> Self {
        Self { rank: 0, size: 1, timeout: Duration::ZERO, shared: Arc::default() }
    }

    /// Runs `work` on `size` threads, a rank each, and returns their results in the order of ranks.
    ///
    /// # Errors
    /// The first failure of a rank.
    pub fn run<T: Send, E: Send + ToString>(
        size: u32,
        timeout: Duration,
        work: impl Fn(&Self) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let work = &work;
        thread::scope(|scope| {
            let ranks = Self::ranks(size, timeout);
            let Some(shared) = ranks.first().map(|first| Arc::clone(&first.shared)) else { return Ok(Vec::new()) };
            let threads: Vec<_> = ranks
                .into_iter()
                .map(|local| {
                    scope.spawn(move || {
                        let result = work(&local);
                        if let Err(error) = &result {
                            local.fail(error.to_string());
                        }
                        result
                    })
                })
                .collect();
            let mut results: Vec<_> = threads.into_iter().map(parallel::join).collect();
            // The first failure is the cause of the others.
            match shared.mail().failed {
                Some(Error::Failed { rank, .. }) => results.swap_remove(rank as usize).map(|_| Vec::new()),
                _ => results.into_iter().collect(),
            }
        })
    }

    /// Ends the waits of all other ranks with this reason, unless another rank failed before.
    pub fn fail(&self, reason: String) {
        self.shared.mail().failed.get_or_insert(Error::Failed { rank: self.rank, reason });
        self.shared.arrived.notify_all();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail("a panic".to_owned());
        }
    }
}

impl Communicator for Local {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn exchange<'a>(&'a self, sends: Vec<Message>, receives: &[(u32, usize)]) -> Result<Box<dyn Exchange + 'a>, Error> {
        let mut mail = self.shared.mail();
        for (to, bytes) in sends {
            mail.boxes.entry((self.rank, to)).or_default().push_back(bytes);
        }
        drop(mail);
        self.shared.arrived.notify_all();
        Ok(Box::new(Pending { local: self, receives: receives.to_vec() }))
    }
}

struct Pending<'a> {
    local: &'a Local,
    receives: Vec<(u32, usize)>,
}

impl Exchange for Pending<'_> {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, Error> {
        let Local { rank, size, timeout, ref shared } = *self.local;
        let begun = Instant::now();
        let mut mail = shared.mail();
        let mut found = Vec::with_capacity(self.receives.len());
        for &(from, expected) in &self.receives {
            loop {
                if let Some(bytes) = mail.boxes.get_mut(&(from, rank)).and_then(VecDeque::pop_front) {
                    mail.waiting.remove(&rank);
                    if bytes.len() != expected {
                        return Err(Error::Length { rank: from, found: bytes.len(), expected });
                    }
                    found.push(bytes);
                    break;
                }
                if let Some(error) = &mail.failed {
                    return Err(error.clone());
                }
                let left = timeout.saturating_sub(begun.elapsed());
                if left.is_zero() {
                    // The rank that sends nothing may wait for another itself.
                    let others = (0..size).filter(|other| *other != rank && !mail.waiting.contains(other)).collect();
                    return Err(Error::Timeout { rank, others, waited: timeout });
                }
                mail.waiting.insert(rank);
                mail = shared.arrived.wait_timeout(mail, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn collectives_have_the_results_of_their_definitions() {
        for size in 1..=7 {
            let results = Local::run::<_, Error>(size, Duration::from_secs(20), |local| {
                let rank = local.rank();
                for length in [0, 1, 2, 5, 64, 1001] {
                    let own = |rank: u32| {
                        (0..length).map(move |i| f64::from(rank + 1) * 0.1 + f64::from(i)).collect::<Vec<_>>()
                    };
                    let mut sum = own(rank);
                    local.all_reduce_sum(&mut sum)?;
                    let expected = (1..size).fold(own(0), |mut sum, rank| {
                        sum.iter_mut().zip(own(rank)).for_each(|(a, b)| *a += b);
                        sum
                    });
                    assert_eq!(sum, expected);
                    let mut max = own(rank);
                    local.all_reduce_max(&mut max)?;
                    assert_eq!(max, own(size - 1));
                    let gathered = local.all_gather(&[rank as u8; 3])?;
                    assert!(gathered.iter().enumerate().all(|(rank, bytes)| bytes == &[rank as u8; 3]));
                    for root in 0..size {
                        let mut bytes = vec![rank as u8; length as usize];
                        local.broadcast(root, &mut bytes)?;
                        assert_eq!(bytes, vec![root as u8; length as usize]);
                    }
                    local.barrier()?;
                }
                Ok(rank)
            });
            assert_eq!(results, Ok((0..size).collect()));
        }
    }

    #[test]
    fn a_rank_that_fails_ends_the_others() {
        let cause = Error::Length { rank: 1, found: 0, expected: 1 };
        let found = Local::run::<(), Error>(3, Duration::from_secs(60), |local| match local.rank() {
            1 => Err(cause.clone()),
            _ => local.barrier(),
        });
        assert_eq!(found, Err(cause));
        let found = Local::run::<(), Error>(2, SHORT, |local| if local.rank() == 0 { local.barrier() } else { Ok(()) });
        assert_eq!(found, Err(Error::Timeout { rank: 0, others: vec![1], waited: SHORT }));
    }

    /// All workers of the pool wait for ranks, which wait for the pool.
    #[test]
    fn ranks_run_within_the_pool_that_they_use() {
        use rayon::prelude::*;

        let work = |run: usize| {
            let sum = |local: &Local| {
                Ok::<_, Error>((0..1000_usize).into_par_iter().map(|i| i + run).sum::<usize>() + local.rank() as usize)
            };
            Local::run(2, Duration::from_secs(60), sum).unwrap()
        };
        let runs = 4 * rayon::current_num_threads();
        let all: Vec<Vec<usize>> = (0..runs).into_par_iter().with_max_len(1).map(work).collect();
        let expected = |run: usize| (0..2).map(|rank| 499_500 + 1000 * run + rank).collect::<Vec<_>>();
        assert_eq!(all, (0..runs).map(expected).collect::<Vec<_>>());
    }

    /// Rank 0 waits for rank 1, which waits for rank 2: that one is missing.
    #[test]
    fn a_rank_that_waits_itself_is_not_missing() {
        let waits = |local: &Local| match local.rank() {
            2 => {
                thread::sleep(2 * SHORT);
                Ok(())
            }
            rank => local.exchange(Vec::new(), &[(rank + 1, 1)])?.wait().map(|_| ()),
        };
        let found = Local::run::<_, Error>(3, SHORT, waits);
        let Err(Error::Timeout { others, .. }) = &found else { panic!("{found:?}") };
        assert_eq!(others, &[2]);
    }
}
