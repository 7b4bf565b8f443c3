//! Ranks that work on one model together.
//!
//! A [`Communicator`] connects the ranks: threads of one process ([`Local`]), processes that an MPI launcher started
//! ([`Mpi`]), or processes with GPUs that any other launcher started ([`Nccl`]). A transport supplies one operation, [`Communicator::exchange`]; collectives are
//! built on it, unless the transport has its own. [`World`] is what a process sees of its ranks: the communicator, the nodes, and the GPU
//! of this rank.
//!
//! *Reproducibility*: sums are taken in the order of ranks, so equal inputs on equally many ranks give equal bits.

pub mod clocked;
pub mod divided;
pub mod error;
pub mod file;
pub mod launch;
mod lifeline;
pub mod local;
mod meeting;
pub mod mpi;
pub mod nccl;
mod peers;
pub mod world;

pub use clocked::Clocked;
pub use divided::{Column, Divided};
pub use error::Error;
pub use local::Local;
pub use mpi::Mpi;
pub use nccl::Nccl;
pub use world::{World, node};

use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;

/// Up to so many numbers, an all-reduce takes one step.
const SHORT: usize = 64;

/// Ends the connection to other processes, if there is one: waits for all of them to do so.
///
/// # Errors
/// With MPI: if a rank failed, or did not come to its end in time.
pub fn finalize() -> Result<(), Error> {
    nccl::finalize();
    mpi::finalize()
}

/// Ends the connection to other processes at once, if there is one: their ranks end as soon as they notice. With MPI, this process ends
/// with this exit code, too.
pub fn abort(exit_code: u8) {
    nccl::abort(exit_code);
    mpi::abort(exit_code);
}

/// A message to or from another rank.
pub type Message = (u32, Vec<u8>);

/// An exchange in progress.
#[must_use = "the messages arrive in wait"]
pub trait Exchange {
    /// Waits for the messages, in the order in which they were asked for.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, Error>;
}

/// Ranks 0 … `size` − 1, one of which is this one. All ranks call the collective operations in the same order.
pub trait Communicator {
    /// This rank.
    fn rank(&self) -> u32;

    /// The number of ranks.
    fn size(&self) -> u32;

    /// The longest time that this rank waits for another.
    fn timeout(&self) -> Duration;

    /// Starts to send each message of `sends` to its rank, and to receive from each of `receives` (rank, bytes) one
    /// message of that length. Messages between two ranks arrive in the order in which they were sent.
    ///
    /// # Errors
    /// If the transport fails.
    fn exchange<'a>(&'a self, sends: Vec<Message>, receives: &[(u32, usize)]) -> Result<Box<dyn Exchange + 'a>, Error>;

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn barrier(&self) -> Result<(), Error> {
        // Dissemination: in round k, each rank hears of 2ᵏ ranks more.
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            let to = (rank + distance) % size;
            let from = (rank + size - distance) % size;
            self.exchange(vec![(to, Vec::new())], &[(from, 0)])?.wait()?;
            distance *= 2;
        }
        Ok(())
    }

    /// The bytes of every rank, in the order of ranks.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let lengths = self.all_gather_equal(&(own.len() as u64).to_le_bytes())?;
        let length = |bytes: &Vec<u8>| u64::from_le_bytes(bytes[..].try_into().unwrap_or_default()) as usize;
        self.gather_lengths(own, &lengths.iter().map(length).collect::<Vec<_>>())
    }

    /// [`all_gather`](Self::all_gather) if all ranks have the same number of bytes.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn all_gather_equal(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.gather_lengths(own, &vec![own.len(); self.size() as usize])
    }

    /// [`all_gather`](Self::all_gather) of these numbers of bytes.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn gather_lengths(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
        gather_by_messages(self, own, lengths)
    }

    /// Replaces `bytes` by those of rank `root`. All have the same number of bytes.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), Error> {
        // A binomial tree over ranks relative to the root: rank r hears from r without its highest bit.
        let (size, own) = (self.size(), (self.rank() + self.size() - root) % self.size());
        let absolute = |relative: u32| (relative + root) % size;
        if own > 0 {
            let parent = own & !(1 << own.ilog2());
            let received = self.exchange(Vec::new(), &[(absolute(parent), bytes.len())])?.wait()?;
            bytes.copy_from_slice(&received[0]);
        }
        let first = if own > 0 { own.ilog2() + 1 } else { 0 };
        let children = (first..32).map(|bit| own | 1 << bit).take_while(|&child| child < size);
        let sends = children.map(|child| (absolute(child), bytes.to_vec())).collect();
        self.exchange(sends, &[])?.wait()?;
        Ok(())
    }

    /// Replaces each number by the largest of all ranks. NaN is larger than all numbers.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn all_reduce_max(&self, numbers: &mut [f64]) -> Result<(), Error> {
        let larger = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
        self.all_reduce(numbers, larger)
    }

    /// Replaces each number by the sum of all ranks, in the order of ranks: all ranks have the same bits.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn all_reduce_sum(&self, numbers: &mut [f64]) -> Result<(), Error> {
        self.all_reduce(numbers, |a, b| a + b)
    }

    /// Combines each number of all ranks in the order of ranks. Each rank combines a part, and all gather the parts: a
    /// rank sends and receives 16 bytes for a number, however many ranks there are. Every rank sends a few numbers to all
    /// others at once.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    fn all_reduce(&self, numbers: &mut [f64], combine: fn(f64, f64) -> f64) -> Result<(), Error> {
        let (rank, size) = (self.rank(), self.size());
        if size == 1 || numbers.is_empty() {
            return Ok(());
        }
        if numbers.len() <= SHORT {
            let all = self.all_gather_equal(&bytes_of(numbers))?;
            let mut all = all.iter().map(|bytes| numbers_of(bytes));
            numbers.copy_from_slice(&all.next().unwrap_or_default());
            for of_rank in all {
                numbers.iter_mut().zip(of_rank).for_each(|(sum, number)| *sum = combine(*sum, number));
            }
            return Ok(());
        }
        let len = numbers.len();
        let range = |of| part(len, size, of);
        let others: Vec<u32> = (1..size).map(|distance| (rank + distance) % size).collect();
        let sends = others.iter().map(|&to| (to, bytes_of(&numbers[range(to)]))).collect();
        let own = range(rank);
        let receives: Vec<_> = others.iter().map(|&from| (from, 8 * own.len())).collect();
        let mut parts = vec![Vec::new(); size as usize];
        parts[rank as usize] = numbers[own.clone()].to_vec();
        for (&from, bytes) in others.iter().zip(self.exchange(sends, &receives)?.wait()?) {
            parts[from as usize] = numbers_of(&bytes);
        }
        let mut combined = parts[0].clone();
        for part in &parts[1..] {
            combined.iter_mut().zip(part).for_each(|(sum, &number)| *sum = combine(*sum, number));
        }
        combined.resize(range(0).len(), 0.0);
        let all = self.all_gather_equal(&bytes_of(&combined))?;
        for (of, bytes) in (0..size).zip(all) {
            let target = &mut numbers[range(of)];
            target.copy_from_slice(&numbers_of(&bytes)[..target.len()]);
        }
        Ok(())
    }
}

/// The part that a rank of `size` combines of `len` numbers: the last parts may be shorter, or empty.
pub(crate) fn part(len: usize, size: u32, rank: u32) -> Range<usize> {
    let (longest, rank) = (len.div_ceil(size as usize), rank as usize);
    (rank * longest).min(len)..((rank + 1) * longest).min(len)
}

/// The bytes of every rank, each of which sends its own to all others.
fn gather_by_messages<C: Communicator + ?Sized>(
    comm: &C,
    own: &[u8],
    lengths: &[usize],
) -> Result<Vec<Vec<u8>>, Error> {
    let (rank, size) = (comm.rank(), comm.size());
    let others = || (1..size).map(move |distance| (rank + distance) % size);
    let sends = others().map(|to| (to, own.to_vec())).collect();
    let receives: Vec<_> = others().map(|from| (from, lengths[from as usize])).collect();
    let mut all = vec![Vec::new(); size as usize];
    all[rank as usize] = own.to_vec();
    for (&(from, _), bytes) in receives.iter().zip(comm.exchange(sends, &receives)?.wait()?) {
        all[from as usize] = bytes;
    }
    Ok(all)
}

/// Typed collectives, and collective decisions.
impl dyn Communicator + '_ {
    /// The elements of every rank, in the order of ranks.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    pub fn gather<T: Pod>(&self, own: &[T]) -> Result<Vec<Vec<T>>, Error> {
        let all = self.all_gather(bytemuck::cast_slice(own))?;
        Ok(all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect())
    }

    /// The elements of all ranks one after another, in the order of ranks, on rank 0; nothing on the others.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    pub fn collect<T: Pod>(&self, own: &[T]) -> Result<Vec<T>, Error> {
        let lengths = self.gather(&[own.len() as u64])?;
        if self.rank() > 0 {
            self.exchange(vec![(0, bytemuck::cast_slice(own).to_vec())], &[])?.wait()?;
            return Ok(Vec::new());
        }
        let mut all = own.to_vec();
        for (rank, length) in (1..).zip(lengths[1..].iter().flatten()) {
            for bytes in self.exchange(Vec::new(), &[(rank, *length as usize * size_of::<T>())])?.wait()? {
                all.extend(bytemuck::pod_collect_to_vec::<u8, T>(&bytes));
            }
        }
        Ok(all)
    }

    /// Whether it holds on any rank.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    pub fn any(&self, holds: bool) -> Result<bool, Error> {
        Ok(self.size() > 1 && self.all_gather_equal(&[holds.into()])?.iter().any(|rank| rank == &[1]) || holds)
    }

    /// The result, if all ranks succeeded. The first rank that failed has its own error, and all others have
    /// [`Elsewhere`](Disagreed::Elsewhere) with its `code`.
    ///
    /// # Errors
    /// If a rank failed.
    pub fn agree<T, E>(&self, result: Result<T, E>, code: impl Fn(&E) -> u8) -> Result<T, Disagreed<E>> {
        if self.size() == 1 {
            return result.map_err(Disagreed::Here);
        }
        let own = result.as_ref().err().map_or([0, 0], |error| [1, code(error)]);
        let (all, result) = match (self.all_gather_equal(&own), result) {
            (Ok(all), result) => (all, result),
            // The other ranks are elsewhere.
            (Err(_), Err(error)) => return Err(Disagreed::Here(error)),
            (Err(error), Ok(_)) => return Err(Disagreed::Comm(error)),
        };
        match (all.iter().position(|found| found[0] != 0), result) {
            (None, Ok(result)) => Ok(result),
            (Some(rank), Err(error)) if rank == self.rank() as usize => Err(Disagreed::Here(error)),
            (rank, _) => {
                let rank = rank.unwrap_or_default();
                Err(Disagreed::Elsewhere { rank: rank as u32, code: all[rank][1] })
            }
        }
    }
}

/// Why not all ranks succeeded.
#[derive(Clone, Debug, PartialEq)]
pub enum Disagreed<E> {
    /// This rank is the first that failed.
    Here(E),
    /// Another rank is.
    Elsewhere {
        /// The rank.
        rank: u32,
        /// Its code.
        code: u8,
    },
    /// The ranks could not be asked.
    Comm(Error),
}

impl<E> Disagreed<E> {
    /// Converts the error of this rank.
    pub fn map<F>(self, convert: impl FnOnce(E) -> F) -> Disagreed<F> {
        match self {
            Self::Here(error) => Disagreed::Here(convert(error)),
            Self::Elsewhere { rank, code } => Disagreed::Elsewhere { rank, code },
            Self::Comm(error) => Disagreed::Comm(error),
        }
    }
}

fn bytes_of(numbers: &[f64]) -> Vec<u8> {
    bytemuck::cast_slice(numbers).to_vec()
}

fn numbers_of(bytes: &[u8]) -> Vec<f64> {
    bytemuck::pod_collect_to_vec(bytes)
}
