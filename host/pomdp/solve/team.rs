//! The ranks of one search, and what they tell each other.
//!
//! Ranks search in one of two ways.
//!
//! *Together*: all ranks run the same search in lock step, and divide the beliefs of each batch of backups ([`Divided`]). The
//! result is that of one rank, bit for bit. Whatever depends on time, [`Clock`](super::clock::Clock) decides for all ranks.
//!
//! *Apart*: each rank samples its own beliefs. Once a round, all ranks [exchange](Team::exchange) their new vectors and their
//! new points of the upper bound. A vector is a lower bound and a point is an upper bound, whichever rank found it. After the
//! exchange, Γ is the same on all ranks, continuations included, while beliefs and upper bounds are those of each rank.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Pod;

use super::error::Error;
use crate::alpha::AlphaVectors;
use crate::backend::{Plans, PointBackup};
use crate::belief::Belief;
use crate::checkpoint::hash;
use crate::model::Pomdp;
use crate::solution::{RankShare, RankWork};
use warpkov_runtime::comm::{self, Clocked, Communicator};

/// The ranks of a search.
///
/// After the first failure of the connection, no operation waits for other ranks again: each returns the contribution of this
/// rank, the [clock](super::clock::Clock) ends the search, and [`check`](Self::check) returns the error.
pub struct Team<'c> {
    comm: Clocked<'c>,
    failed: RefCell<Option<comm::Error>>,
    /// Whether no launch may be stopped, because the other ranks rely on its result.
    steady: Arc<AtomicBool>,
}

/// A point of the upper bound: a belief c and the drop u − Σ c(s) v(s) of the bound u at c below the vertices.
pub type Point = (Belief, f64);

/// The findings of a rank since the last exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// New vectors; their continuations are indices into Γ of this rank.
    pub plans: Plans,
    /// New points of the upper bound.
    pub points: Vec<Point>,
}

impl News {
    fn none(states: u32) -> Self {
        Self { plans: Plans { vectors: AlphaVectors::new(states), next: Vec::new() }, points: Vec::new() }
    }
}

impl<'c> Team<'c> {
    /// The ranks that `comm` connects.
    #[must_use]
    pub fn new(comm: &'c dyn Communicator) -> Self {
        Self { comm: Clocked::new(comm), failed: RefCell::default(), steady: Arc::default() }
    }

    /// The connection of the ranks.
    #[must_use]
    pub fn comm(&self) -> &dyn Communicator {
        &self.comm
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.comm.rank() as usize
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.comm.size() as usize
    }

    /// Whether there is only one rank.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.comm.size() == 1
    }

    /// Whether the connection has failed.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// The first failure of the connection, if there was one.
    ///
    /// # Errors
    /// That failure.
    pub fn check(&self) -> Result<(), comm::Error> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    /// A flag that is set while no launch may be stopped.
    #[must_use]
    pub fn steady(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.steady)
    }

    /// Forbids or permits to stop launches.
    pub fn set_steady(&self, steady: bool) {
        self.steady.store(steady, Ordering::Relaxed);
    }

    /// The result of a collective operation, or `own` without other ranks.
    fn ask<R>(
        &self,
        collective: impl FnOnce(&dyn Communicator) -> Result<R, comm::Error>,
        own: impl FnOnce() -> R,
    ) -> R {
        if self.is_alone() || self.is_broken() {
            return own();
        }
        collective(&self.comm).unwrap_or_else(|error| {
            *self.failed.borrow_mut() = Some(error);
            own()
        })
    }

    /// The elements of every rank, in the order of ranks; `lengths` are their numbers.
    fn parts<T: Pod>(&self, own: &[T], lengths: &[usize]) -> Vec<Vec<T>> {
        let bytes: Vec<usize> = lengths.iter().map(|length| length * size_of::<T>()).collect();
        self.ask(
            |comm| {
                let all = comm.gather_lengths(bytemuck::cast_slice(own), &bytes)?;
                Ok(all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect())
            },
            || vec![own.to_vec(); self.size()],
        )
    }

    /// The elements of every rank, in the order of ranks. All ranks have equally many.
    #[must_use]
    pub fn all<T: Pod>(&self, own: &[T]) -> Vec<Vec<T>> {
        self.parts(own, &vec![own.len(); self.size()])
    }

    /// Whether it holds on any rank.
    #[must_use]
    pub fn any(&self, holds: bool) -> bool {
        self.all(&[u8::from(holds)]).iter().any(|rank| rank == &[1])
    }

    /// The least number of all ranks.
    #[must_use]
    pub fn least(&self, own: u64) -> u64 {
        self.all(&[own]).into_iter().flatten().min().unwrap_or(own)
    }

    /// Replaces the numbers by those of the first rank.
    pub fn first(&self, numbers: &mut [f64]) {
        self.ask(|comm| comm.broadcast(0, bytemuck::cast_slice_mut(numbers)), || ());
    }

    /// Whether this rank has the same model as the first.
    #[must_use]
    pub fn agrees_on(&self, model: &Pomdp) -> bool {
        self.is_alone() || {
            let all = self.all(&[hash(model).number()]);
            all.iter().all(|found| *found == all[0])
        }
    }

    /// This rank's part of `range`: contiguous, in the order of ranks, and of nearly equal length.
    #[must_use]
    pub fn part(&self, range: &Range<usize>, rank: usize) -> Range<usize> {
        let end = |rank: usize| range.start + range.len() * rank / self.size();
        end(rank)..end(rank + 1)
    }

    /// This rank's part of `count` things to do; the first ranks have one more.
    #[must_use]
    pub fn portion(&self, count: u64) -> u64 {
        let size = self.size() as u64;
        count / size + u64::from((self.rank() as u64) < count % size)
    }

    /// The heads and the news of every rank, in the order of ranks. All heads have the same length. If the connection fails meanwhile,
    /// all other ranks have this rank's head, and no news.
    #[must_use]
    pub fn exchange(&self, head: &[u64], news: &News) -> Vec<(Vec<u64>, News)> {
        let News { plans: Plans { vectors, next }, points } = news;
        let entries: usize = points.iter().map(|(belief, _)| belief.states().len()).sum();
        let sizes = [vectors.len() as u64, next.len() as u64, points.len() as u64, entries as u64];
        let heads = self.all(&[&sizes[..], head].concat());
        let size = |head: &Vec<u64>| [0, 1, 2, 3].map(|i| head[i] as usize);
        let states = vectors.states() as usize;
        let mut numbers: Vec<f64> = vectors.values().to_vec();
        numbers.extend(points.iter().map(|point| point.1));
        numbers.extend(points.iter().flat_map(|(belief, _)| belief.probs()));
        let mut indices: Vec<u32> = [vectors.actions(), next].concat();
        indices.extend(points.iter().map(|(belief, _)| belief.states().len() as u32));
        indices.extend(points.iter().flat_map(|(belief, _)| belief.states()));
        let lengths = |length: fn([usize; 4], usize) -> usize| -> Vec<usize> {
            heads.iter().map(|head| length(size(head), states)).collect()
        };
        let numbers =
            self.parts(&numbers, &lengths(|[vectors, _, points, entries], states| vectors * states + points + entries));
        let indices =
            self.parts(&indices, &lengths(|[vectors, next, points, entries], _| vectors + next + points + entries));
        if self.is_broken() {
            // What was received before the failure does not belong to what was not.
            let mut all = vec![(head.to_vec(), News::none(states as u32)); self.size()];
            all[self.rank()].1 = news.clone();
            return all;
        }
        let news = heads.iter().zip(numbers.iter().zip(&indices)).map(|(head, (numbers, indices))| {
            let [count, next, points, _] = size(head);
            let (values, numbers) = numbers.split_at(count * states);
            let (drops, mut probs) = numbers.split_at(points);
            let (actions, indices) = indices.split_at(count);
            let (next, indices) = indices.split_at(next);
            let (lengths, mut states_of) = indices.split_at(points);
            let mut vectors = AlphaVectors::new(states as u32);
            vectors.append(values.iter().copied(), actions);
            let point = |(&length, &drop): (&u32, &f64)| {
                let (states, later_states) = states_of.split_at(length as usize);
                let (own, later) = probs.split_at(length as usize);
                (states_of, probs) = (later_states, later);
                (Belief::built(states.to_vec(), own.to_vec()), drop)
            };
            let points = lengths.iter().zip(drops).map(point).collect();
            (head[4..].to_vec(), News { plans: Plans { vectors, next: next.to_vec() }, points })
        });
        news.collect()
    }

    /// The device, the number of backups and the times of every rank; empty if there is one rank.
    #[must_use]
    pub fn shares(&self, device: &str, backups: u64) -> Vec<RankShare> {
        self.ask(|_| self.comm.shares(device, RankWork { backups }), Vec::new)
    }
}

/// The new vectors of all ranks in the order of ranks, with continuations in the Γ that has them after its first `known`
/// vectors, and the index of this rank's first new vector.
#[must_use]
pub fn joined(states: u32, known: usize, news: &[(Vec<u64>, News)], rank: usize) -> (Plans, usize) {
    let News { plans: mut all, .. } = News::none(states);
    let mut own = known;
    for (number, (_, News { plans: Plans { vectors, next }, .. })) in news.iter().enumerate() {
        let moved = all.vectors.len() as u32;
        if number == rank {
            own = known + moved as usize;
        }
        all.next.extend(next.iter().map(|&next| if (next as usize) < known { next } else { next + moved }));
        all.vectors.append(vectors.values().iter().copied(), vectors.actions());
    }
    (all, own)
}

/// Point-based backups of several ranks that run the same search: each rank backs up its part of the beliefs, and gets the
/// vectors of all. If a launch of a rank is [stopped](Error::is_stop), all ranks return that error.
pub struct Divided<'a, B> {
    backend: &'a mut B,
    team: &'a Team<'a>,
    /// |S|.
    states: u32,
    /// |Ω|.
    observations: u32,
    /// Number of backups of this rank.
    pub backups: u64,
}

impl<'a, B: PointBackup> Divided<'a, B> {
    /// Divides the backups of `backend`, which has this model, among the ranks of `team`.
    #[must_use]
    pub fn new(backend: &'a mut B, model: &Pomdp, team: &'a Team<'a>) -> Self {
        team.set_steady(!team.is_alone());
        Self { backend, team, states: model.states(), observations: model.observation_count(), backups: 0 }
    }
}

impl<B: PointBackup> PointBackup for Divided<'_, B>
where
    Error: From<B::Error>,
{
    type Error = Error;

    fn set_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Error> {
        Ok(self.backend.set_vectors(vectors)?)
    }

    fn add_vectors(&mut self, vectors: &AlphaVectors) -> Result<(), Error> {
        Ok(self.backend.add_vectors(vectors)?)
    }

    fn backup_part(&mut self, beliefs: &[Belief], part: Range<usize>) -> Result<Plans, Error> {
        let Self { backend, team, states, observations, backups } = self;
        let own = team.part(&part, team.rank());
        *backups += own.len() as u64;
        if team.is_alone() {
            return Ok(backend.backup_part(beliefs, own)?);
        }
        team.set_steady(false);
        let result = backend.backup_part(beliefs, own.clone()).map_err(Error::from);
        team.set_steady(true);
        // One message: whether the launch was stopped, the vectors, their actions, and their continuations.
        let (width, next) = (*states as usize, *observations as usize);
        let mut numbers = vec![0_u64; 1 + own.len() * width];
        let mut indices = vec![0_u32; own.len() * (1 + next)];
        match result {
            Err(error) if error.is_stop() => numbers[0] = 1,
            plans => {
                let Plans { vectors, next } = plans?;
                let values = vectors.values().iter().map(|value| value.to_bits());
                numbers[1..].iter_mut().zip(values).for_each(|(number, value)| *number = value);
                indices = [vectors.actions(), &next[..]].concat();
            }
        }
        let message = [bytemuck::cast_slice(&numbers), bytemuck::cast_slice::<u32, u8>(&indices)].concat();
        let counts: Vec<usize> = (0..team.size()).map(|rank| team.part(&part, rank).len()).collect();
        let lengths: Vec<usize> = counts.iter().map(|count| 8 + count * (8 * width + 4 + 4 * next)).collect();
        let all = team.parts(&message, &lengths);
        team.check()?;
        let mut joined = Plans { vectors: AlphaVectors::new(*states), next: Vec::new() };
        for (message, count) in all.iter().zip(counts) {
            let (numbers, indices) = message.split_at(8 + 8 * count * width);
            let numbers: Vec<u64> = bytemuck::pod_collect_to_vec(numbers);
            if numbers[0] != 0 {
                return Err(warpkov_runtime::Error::Interrupted.into());
            }
            let indices: Vec<u32> = bytemuck::pod_collect_to_vec(indices);
            let (actions, next) = indices.split_at(count);
            joined.vectors.append(numbers[1..].iter().map(|&bits| f64::from_bits(bits)), actions);
            joined.next.extend(next);
        }
        Ok(joined)
    }

    /// Every rank compares all beliefs: the result is too small to send.
    fn best(&mut self, beliefs: &[Belief]) -> Result<Vec<(u32, f64)>, Error> {
        Ok(self.backend.best(beliefs)?)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use warpkov_runtime::comm::{Exchange, Message};

    /// Rank 0 of 2, whose connection fails after some exchanges. Before, the other rank sends fives.
    struct Failing {
        left: Cell<u32>,
    }

    struct Fives(Vec<usize>);

    impl Exchange for Fives {
        fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, comm::Error> {
            let fives = |bytes: usize| bytemuck::cast_slice(&vec![5_u64; bytes.div_ceil(8)])[..bytes].to_vec();
            Ok(self.0.into_iter().map(fives).collect())
        }
    }

    impl Communicator for Failing {
        fn rank(&self) -> u32 {
            0
        }

        fn size(&self) -> u32 {
            2
        }

        fn timeout(&self) -> Duration {
            Duration::from_secs(1)
        }

        fn exchange<'a>(
            &'a self,
            _: Vec<Message>,
            receives: &[(u32, usize)],
        ) -> Result<Box<dyn Exchange + 'a>, comm::Error> {
            match self.left.get() {
                0 => Err(comm::Error::Timeout { rank: 0, others: vec![1], waited: self.timeout() }),
                left => {
                    self.left.set(left - 1);
                    Ok(Box::new(Fives(receives.iter().map(|receive| receive.1).collect())))
                }
            }
        }
    }

    #[test]
    fn an_exchange_that_fails_brings_no_news() {
        let mut vectors = AlphaVectors::new(3);
        vectors.append([1.0, 2.0, 3.0], &[7]);
        let news =
            News { plans: Plans { vectors, next: vec![0, 0] }, points: vec![(Belief::built(vec![1], vec![1.0]), 0.5)] };
        for left in 0..3 {
            let failing = Failing { left: Cell::new(left) };
            let team = Team::new(&failing);
            let all = team.exchange(&[9], &news);
            assert_eq!(all, [(vec![9], news.clone()), (vec![9], News::none(3))], "after {left} exchanges");
            assert!(team.check().is_err());
        }
    }
}
