//! Arrays whose elements are divided among ranks. Rank 0 reads them piece by piece, and never holds a whole array.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use bytemuck::Pod;

use super::{Communicator, Error};

/// Bytes of a piece.
const PIECE: u64 = 8 << 20;

/// Arrays of equal lengths, of which each rank has a part: one after another, in the order of ranks.
pub struct Divided<'a> {
    comm: &'a dyn Communicator,
    /// This rank's parts: bytes, and the size of an element.
    own: Vec<(&'a [u8], usize)>,
    /// The first element of each rank, and the number of elements.
    starts: Vec<u64>,
    /// The failure that ended the reading.
    failed: RefCell<Option<Error>>,
}

/// What rank 0 asks for: elements `start..end` of an array, or the end of its work.
type Request = [u64; 3];

const END: Request = [u64::MAX; 3];

impl<'a> Divided<'a> {
    /// Two arrays, this rank's parts of which are `first` and `second`. All ranks call this together.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    ///
    /// # Panics
    /// If the parts have different lengths.
    pub fn new<T: Pod, U: Pod>(comm: &'a dyn Communicator, first: &'a [T], second: &'a [U]) -> Result<Self, Error> {
        assert_eq!(first.len(), second.len(), "arrays of equal lengths");
        let mut starts = vec![0];
        for length in comm.gather(&[first.len() as u64])?.concat() {
            starts.push(starts[starts.len() - 1] + length);
        }
        let own = vec![(bytemuck::cast_slice(first), size_of::<T>()), (bytemuck::cast_slice(second), size_of::<U>())];
        Ok(Self { comm, own, starts, failed: RefCell::default() })
    }

    /// The number of elements of an array.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// Whether the arrays have no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `work` on rank 0, which may read the arrays; the other ranks answer it until it ends.
    ///
    /// # Errors
    /// If a rank failed, or did not answer in time.
    pub fn on_first<R>(&self, work: impl FnOnce() -> R) -> Result<Option<R>, Error> {
        if self.comm.rank() > 0 {
            return self.answer().map(|()| None);
        }
        let result = work();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.ask(END).map(|()| Some(result)),
        }
    }

    /// Answers the requests of rank 0.
    fn answer(&self) -> Result<(), Error> {
        loop {
            let mut bytes = bytemuck::cast_slice::<u64, u8>(&END).to_vec();
            self.comm.broadcast(0, &mut bytes)?;
            let request: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
            let (array, range) = (request[0], request[1]..request[2]);
            if array == END[0] {
                return Ok(());
            }
            if self.owner(range.start) == self.comm.rank() as usize {
                let piece = self.own_piece(array as usize, &range).to_vec();
                self.comm.exchange(vec![(0, piece)], &[])?.wait()?;
            }
        }
    }

    /// Tells all ranks a request: those that have nothing to send know that rank 0 is alive.
    fn ask(&self, request: Request) -> Result<(), Error> {
        self.comm.broadcast(0, &mut bytemuck::cast_slice(&request).to_vec())
    }

    /// The rank that has an element.
    fn owner(&self, element: u64) -> usize {
        self.starts.partition_point(|&start| start <= element) - 1
    }

    /// Elements of this rank's part of an array.
    fn own_piece(&self, array: usize, range: &Range<u64>) -> &'a [u8] {
        let (bytes, size) = self.own[array];
        let first = self.starts[self.comm.rank() as usize];
        &bytes[(range.start - first) as usize * size..(range.end - first) as usize * size]
    }

    /// The elements of an array from `start` on, as many as one piece holds. `None` if a rank failed.
    fn piece<T: Pod>(&self, array: usize, start: u64) -> Option<Cow<'a, [T]>> {
        let owner = self.owner(start);
        let range = start..self.starts[owner + 1].min(start + PIECE / size_of::<T>() as u64);
        let read = || {
            self.ask([array as u64, range.start, range.end])?;
            if owner == 0 {
                return Ok(Cow::Borrowed(bytemuck::cast_slice(self.own_piece(array, &range))));
            }
            let length = (range.end - range.start) as usize * size_of::<T>();
            let found = self.comm.exchange(Vec::new(), &[(owner as u32, length)])?.wait()?;
            Ok(Cow::Owned(bytemuck::pod_collect_to_vec(&found.concat())))
        };
        if self.failed.borrow().is_some() {
            return None;
        }
        read().map_err(|error| self.failed.replace(Some(error))).ok()
    }
}

/// An array that is in memory, or divided among ranks. On a failure it ends early, and [`Divided::on_first`] has the error.
#[derive(Clone, Copy)]
pub enum Column<'a, T> {
    /// The elements.
    Here(&'a [T]),
    /// An array of that number.
    Divided(&'a Divided<'a>, usize),
}

impl<'a, T: Pod> Column<'a, T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Here(elements) => elements.len() as u64,
            Self::Divided(divided, _) => divided.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements in their order, piece by piece.
    pub fn pieces(self) -> impl Iterator<Item = Cow<'a, [T]>> {
        let mut start = 0;
        std::iter::from_fn(move || {
            if start >= self.len() {
                return None;
            }
            let piece = match self {
                Self::Here(elements) => Some(Cow::Borrowed(elements)),
                Self::Divided(divided, array) => divided.piece(array, start),
            };
            start += piece.as_ref()?.len() as u64;
            piece
        })
    }

    /// The elements in their order.
    pub fn iter(self) -> impl Iterator<Item = T> + 'a
    where
        T: 'a,
    {
        self.pieces().flat_map(|piece| (0..piece.len()).map(move |at| piece[at]))
    }

    /// The elements at ascending positions below the length.
    pub fn at(self, positions: impl Iterator<Item = u64>) -> impl Iterator<Item = T> {
        let (mut first, mut piece) = (0, Cow::Borrowed(&[][..]));
        positions.map_while(move |position| {
            match self {
                Self::Here(elements) => piece = Cow::Borrowed(elements),
                Self::Divided(..) if (first..first + piece.len() as u64).contains(&position) => {}
                Self::Divided(divided, array) => {
                    piece = divided.piece(array, position)?;
                    first = position;
                }
            }
            piece.get((position - first) as usize).copied()
        })
    }

    /// All elements.
    #[must_use]
    pub fn whole(self) -> Cow<'a, [T]> {
        match self {
            Self::Here(elements) => Cow::Borrowed(elements),
            Self::Divided(..) => Cow::Owned(self.iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Local;
    use super::*;

    #[test]
    fn the_first_rank_reads_all_elements() {
        for size in 1..=4 {
            for lengths in [[0, 5, 0, 1_200_000], [3, 0, 2, 7], [0, 0, 0, 0]] {
                let found = Local::run::<_, Error>(size, Duration::from_secs(60), |comm| {
                    let rank = comm.rank() as usize;
                    let first: usize = lengths[..rank].iter().sum();
                    let numbers: Vec<f64> = (first..first + lengths[rank]).map(|i| i as f64).collect();
                    let halves: Vec<u32> = (first..first + lengths[rank]).map(|i| i as u32 / 2).collect();
                    let divided = Divided::new(comm, &numbers, &halves)?;
                    let all = lengths[..size as usize].iter().sum::<usize>();
                    let read = divided.on_first(|| {
                        let (numbers, halves) =
                            (Column::<f64>::Divided(&divided, 0), Column::<u32>::Divided(&divided, 1));
                        assert_eq!(numbers.len(), all as u64);
                        assert!(numbers.iter().eq((0..all).map(|i| i as f64)));
                        assert!(numbers.iter().zip(halves.iter()).all(|(number, half)| number as u32 / 2 == half));
                        let some = [0, 1, all / 2, all].map(|i| i as u64);
                        let some = some.into_iter().filter(|&i| i < all as u64);
                        assert!(halves.at(some.clone()).eq(some.map(|i| i as u32 / 2)));
                        halves.whole().len()
                    })?;
                    assert_eq!(read, (rank == 0).then_some(all));
                    Ok(())
                });
                assert_eq!(found.map(|all| all.len()), Ok(size as usize));
            }
        }
    }

    #[test]
    fn a_rank_that_fails_ends_the_reading() {
        let gone = Error::Length { rank: 2, found: 0, expected: 1 };
        let found = Local::run::<(), Error>(3, Duration::from_secs(60), |comm| {
            let numbers = vec![1.0; 10];
            let divided = Divided::new(comm, &numbers, &numbers)?;
            if comm.rank() == 2 {
                return Err(gone.clone());
            }
            divided.on_first(|| Column::<f64>::Divided(&divided, 0).iter().count()).map(drop)
        });
        assert_eq!(found, Err(gone));
    }
}
