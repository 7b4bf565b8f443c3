//! Ranks on GPUs without MPI: NCCL carries the messages of their hosts.
//!
//! The ranks meet once (module `meeting`), and create a communicator on their GPUs. A message goes from the host to its GPU, by NCCL to
//! the other GPU, and to that host; a message without bytes is one byte. Long messages go in pieces, so that little GPU memory
//! is needed.
//!
//! The communicator stays on the thread that started it, and there is one per process.

use std::cell::RefCell;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use warpkov_device::launch::Device;

use super::launch::Launch;
use super::lifeline::Lifeline;
use super::meeting::Visitor;
use super::world::Lost;
use super::{Communicator, Error, Exchange, Message};
use crate::gpu::{self, Gpu, GpuBuffer, nccl_version};

/// Device memory for the pieces sent by one exchange, and for those received, in bytes.
const STAGING: usize = 64 << 20;

/// Least length of a piece, in bytes.
const PIECE: usize = 64 << 10;

/// Alignment of a piece in device memory, in bytes.
const ALIGNMENT: usize = 128;

/// Time to learn which rank has failed.
const NEWS: Duration = Duration::from_secs(1);

/// The connection of this process.
struct Connection {
    ranks: gpu::Communicator,
    gpu: Gpu,
    lifeline: Lifeline,
}

thread_local! {
    static STARTED: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

/// All ranks of a launcher without MPI.
pub struct Nccl {
    rank: u32,
    size: u32,
    timeout: Duration,
    version: String,
}

impl Nccl {
    /// Meets the other ranks at `address`, HOST:PORT of the first, and connects the GPUs: each rank takes that of its local rank, or, if
    /// the launcher does not tell, of its rank, modulo the number of GPUs that it sees. A rank waits at most `timeout` for another, and calls
    /// `lost` once one has failed.
    ///
    /// # Errors
    /// If a rank has no GPU or no NCCL, if two have the same GPU, or if not all come in time.
    pub fn start(launch: &Launch, address: &str, timeout: Duration, lost: Lost) -> Result<Self, Error> {
        let Launch { rank, size, local_rank, ref token, .. } = *launch;
        let open = || {
            let version = nccl_version()?;
            let gpu = gpu::open(local_rank.unwrap_or(rank) % Gpu::count()?)?;
            Ok::<_, gpu::CudaError>((version, gpu))
        };
        let opened = open();
        let lacks = |error: &gpu::CudaError| {
            format!(
                "{error}. Ranks without MPI reach each other by their GPUs and NCCL; with an MPI library, start them by its mpirun"
            )
        };
        let make = || gpu::Communicator::unique_id().map_err(|error| error.to_string());
        let visitor = Visitor { rank, size, address, token, timeout };
        let (id, streams) = visitor.meet(opened.as_ref().err().map(lacks), make)?;
        let (version, gpu) = opened?;
        let lifeline = Lifeline::new(rank, streams, timeout, lost).map_err(|error| Error::Meeting {
            rank,
            address: address.to_owned(),
            reason: format!("cannot watch the others: {error}"),
        })?;
        let ranks = gpu::Communicator::new(&gpu, &id, rank, size, timeout)?;
        STARTED.set(Some(Connection { ranks, gpu, lifeline }));
        Ok(Self { rank, size, timeout, version })
    }

    /// Version and file of the library.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Longest piece of a message: equal on all ranks.
    fn piece(&self) -> usize {
        (STAGING / self.size as usize).max(PIECE)
    }

    /// Calls `work` with the connection.
    fn with<R>(&self, work: impl FnOnce(&Connection) -> Result<R, gpu::CudaError>) -> Result<R, Error> {
        STARTED.with_borrow(|started| match started {
            Some(connection) => Ok(work(connection).inspect_err(|error| {
                if let gpu::CudaError::RankTimeout { .. } = error {
                    // The lifeline knows which rank it is, or will soon, and then ends this process.
                    thread::sleep(NEWS);
                }
            })?),
            None => Err(Error::Failed {
                rank: self.rank,
                reason: "NCCL has ended, or is used by another thread".to_owned(),
            }),
        })
    }

    /// Starts the exchange of piece `at` of all messages that have one.
    fn submit(&self, at: usize, sends: &[Message], receives: &[(u32, usize)]) -> Result<Round, Error> {
        let sent: Vec<_> = sends.iter().map(|(to, bytes)| (*to, bytes.len())).collect();
        let (sent, received) = (Pieces::new(&sent, at, self.piece()), Pieces::new(receives, at, self.piece()));
        let mut bytes = vec![0; sent.capacity()];
        for place in &sent.0 {
            let part = &sends[place.message].1[place.part.clone()];
            bytes[place.start..][..part.len()].copy_from_slice(part);
        }
        self.with(|Connection { ranks, gpu, .. }| {
            let source = gpu.upload(&bytes)?;
            let mut target = gpu.zeros(received.capacity())?;
            // SAFETY: the other ranks take part with the messages that belong to these (`Communicator::exchange`), in pieces
            // of the same length. Both buffers are those of this GPU.
            unsafe { ranks.exchange(&source, &sent.ranges(), &mut target, &received.ranges()) }?;
            Ok(Round { _source: source, target, received })
        })
    }

    /// Waits for the pieces of a round, and appends them to the messages.
    fn complete(&self, round: Round, messages: &mut [Vec<u8>]) -> Result<(), Error> {
        let Round { target, received, .. } = &round;
        let mut bytes = vec![0; received.0.last().map_or(0, |place| place.start + place.length())];
        self.with(|Connection { gpu, .. }| match bytes.is_empty() {
            // The pieces sent.
            true => gpu.synchronize(),
            false => gpu.download(target, &mut bytes),
        })?;
        for place in &received.0 {
            messages[place.message].extend_from_slice(&bytes[place.start..][..place.part.len()]);
        }
        Ok(())
    }
}

/// The place of a piece in device memory.
#[derive(Clone, Debug, PartialEq)]
struct Piece {
    /// Index of the message.
    message: usize,
    rank: u32,
    /// The bytes of the message.
    part: Range<usize>,
    /// The first byte in device memory.
    start: usize,
}

impl Piece {
    /// Bytes that travel: one for a message without bytes.
    fn length(&self) -> usize {
        self.part.len().max(1)
    }
}

/// The pieces of a round, by ascending start.
struct Pieces(Vec<Piece>);

impl Pieces {
    /// Piece `at` of all messages (rank, bytes) that have one, in pieces of `piece` bytes. Every message has a first piece.
    fn new(messages: &[(u32, usize)], at: usize, piece: usize) -> Self {
        let mut start = 0;
        let mut places = Vec::new();
        for (message, &(rank, bytes)) in messages.iter().enumerate() {
            let first = at * piece;
            if first >= bytes.max(1) {
                continue;
            }
            let place = Piece { message, rank, part: first..bytes.min(first + piece), start };
            start += place.length().next_multiple_of(ALIGNMENT);
            places.push(place);
        }
        Self(places)
    }

    /// Device memory for the pieces. Few different sizes, so that later rounds use the memory of earlier ones.
    fn capacity(&self) -> usize {
        let end = self.0.last().map_or(0, |place| place.start + place.length());
        end.next_power_of_two().max(PIECE)
    }

    fn ranges(&self) -> Vec<(u32, Range<usize>)> {
        self.0.iter().map(|place| (place.rank, place.start..place.start + place.length())).collect()
    }
}

/// Pieces under way.
struct Round {
    /// Lives until the pieces have left.
    _source: GpuBuffer<u8>,
    target: GpuBuffer<u8>,
    received: Pieces,
}

/// Ends NCCL, if it was started: waits for all other ranks to do so. [`Nccl`] is of no use afterwards.
pub fn finalize() {
    if let Some(Connection { lifeline, .. }) = STARTED.take() {
        lifeline.end();
    }
}

/// Ends NCCL at once, if it was started, and tells the other ranks that this one fails with this exit code.
pub fn abort(exit_code: u8) {
    if let Some(Connection { ranks, lifeline, .. }) = STARTED.take() {
        lifeline.fail(format!("exit code {exit_code}"));
        ranks.abort();
    }
}

impl Communicator for Nccl {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Of long messages, all but the last pieces have arrived when this returns.
    fn exchange<'a>(&'a self, sends: Vec<Message>, receives: &[(u32, usize)]) -> Result<Box<dyn Exchange + 'a>, Error> {
        let mut received: Vec<_> = receives.iter().map(|&(_, bytes)| Vec::with_capacity(bytes)).collect();
        let lengths = sends.iter().map(|(_, bytes)| bytes.len()).chain(receives.iter().map(|&(_, bytes)| bytes));
        let rounds = lengths.map(|bytes| bytes.div_ceil(self.piece()).max(1)).max().unwrap_or(0);
        for round in 1..rounds {
            self.complete(self.submit(round - 1, &sends, receives)?, &mut received)?;
        }
        let last = if rounds > 0 { Some(self.submit(rounds - 1, &sends, receives)?) } else { None };
        Ok(Box::new(Pending { nccl: self, last, received }))
    }
}

struct Pending<'a> {
    nccl: &'a Nccl,
    last: Option<Round>,
    received: Vec<Vec<u8>>,
}

impl Exchange for Pending<'_> {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<u8>>, Error> {
        let Self { nccl, last, mut received } = *self;
        if let Some(round) = last {
            nccl.complete(round, &mut received)?;
        }
        Ok(received)
    }
}

#[cfg(test)]
mod tests {
    use super::super::launch::Connection as Means;
    use super::*;

    /// The pieces of both sides of a message are the same, and put together they are the message.
    #[test]
    fn pieces_make_up_messages() {
        let lengths = [0, 1, 99, 100, 101, 250, 1000];
        let messages: Vec<_> = (0..).zip(lengths).collect();
        let mut found = vec![Vec::new(); lengths.len()];
        for at in 0..12 {
            let Pieces(places) = Pieces::new(&messages, at, 100);
            assert!(places.windows(2).all(|pair| pair[0].start + pair[0].length() <= pair[1].start));
            for place in &places {
                assert_eq!((place.rank as usize, place.start % ALIGNMENT), (place.message, 0));
                // Whatever else is sent.
                let alone = Pieces::new(&messages[place.message..=place.message], at, 100);
                assert_eq!((alone.0.len(), &alone.0[0].part), (1, &place.part));
                found[place.message].push(place.part.clone());
            }
        }
        for (parts, length) in found.iter().zip(lengths) {
            assert_eq!(parts.len(), usize::max(1, length.div_ceil(100)));
            assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, length));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
        assert_eq!(Pieces::new(&messages, 0, 100).capacity(), PIECE);
    }

    /// Without a GPU, every rank says what is missing, and none waits for its time limit.
    #[test]
    fn ranks_without_gpus_say_what_is_missing() {
        if Gpu::count().is_ok() {
            return;
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let one = |rank: u32| {
            let connection = Means::Nccl(Some(address.clone()));
            let launch =
                Launch { by: "a test", rank, size: 2, local_rank: Some(rank), connection, token: String::new() };
            Nccl::start(&launch, &address, Duration::from_secs(60), |_| ()).err().map(|error| error.to_string())
        };
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| one(1));
            (one(0), second.join().unwrap())
        });
        for message in [first, second].map(Option::unwrap) {
            assert!(message.contains("NVIDIA driver") || message.contains("NCCL library"), "{message}");
            assert!(message.contains("by its mpirun"), "{message}");
        }
    }
}
