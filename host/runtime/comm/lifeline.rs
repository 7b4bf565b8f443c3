//! How ranks without MPI learn at once that another has ended.
//!
//! The ranks keep the connections by which they met: each has one with the first. A rank that ends says that all is well, or with which
//! exit code it fails. A connection that closes without a word belongs to a process that was killed. The first rank passes the news
//! to all others. Without it they would wait for their time limits, and would not know for which rank.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::Error;

/// Time between two looks at the connections.
const PAUSE: Duration = Duration::from_millis(20);

/// Time of a message.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest reason, in bytes.
const LONGEST: usize = 4096;

/// First byte of the message that all is well.
const WELL: u8 = 0;

/// First byte of the message that a rank has failed: its number, the length of the reason, and the reason follow.
const FAILED: u8 = 1;

/// The connections of a rank: with all others on the first, with the first on all others.
type Streams = Arc<Mutex<Vec<(u32, TcpStream)>>>;

/// The watch of a rank over the others.
pub struct Lifeline {
    rank: u32,
    streams: Streams,
}

impl Lifeline {
    /// Watches the ranks of `streams`. Calls `lost`, on another thread, with the failure of the first rank that fails.
    pub fn new(
        rank: u32,
        streams: Vec<(u32, TcpStream)>,
        lost: impl FnOnce(Error) + Send + 'static,
    ) -> io::Result<Self> {
        for (_, stream) in &streams {
            stream.set_nonblocking(true)?;
        }
        let streams = Arc::new(Mutex::new(streams));
        let watched = Arc::clone(&streams);
        thread::Builder::new().name("lifeline".to_owned()).spawn(move || {
            if let Some(failure) = watch(&watched) {
                if rank == 0 {
                    tell(&held(&watched), &failed(&failure));
                }
                let Failure { rank, reason } = failure;
                lost(Error::Failed { rank, reason });
            }
        })?;
        Ok(Self { rank, streams })
    }

    /// Tells the others that all is well.
    pub fn end(self) {
        tell(&std::mem::take(&mut *held(&self.streams)), &[WELL]);
    }

    /// Tells the others that this rank fails.
    pub fn fail(self, reason: String) {
        tell(&std::mem::take(&mut *held(&self.streams)), &failed(&Failure { rank: self.rank, reason }));
    }
}

/// The failure of a rank.
struct Failure {
    rank: u32,
    reason: String,
}

fn held(streams: &Streams) -> MutexGuard<'_, Vec<(u32, TcpStream)>> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a failure. `None` once all ranks have ended well, or this one has ended.
fn watch(streams: &Streams) -> Option<Failure> {
    loop {
        let mut streams = held(streams);
        let mut failure = None;
        streams.retain_mut(|(rank, stream)| match news(*rank, stream) {
            Ok(None) => true,
            Ok(Some(found)) => {
                failure = failure.take().or(found);
                false
            }
            Err(_) => {
                let place = stream.peer_addr().map_or_else(|_| "?".to_owned(), |address| address.ip().to_string());
                let reason = format!("its process, on {place}, has ended without a word");
                failure = failure.take().or(Some(Failure { rank: *rank, reason }));
                false
            }
        });
        if failure.is_some() || streams.is_empty() {
            return failure;
        }
        drop(streams);
        thread::sleep(PAUSE);
    }
}

/// What a rank says: nothing yet, that all is well, or the failure of a rank.
fn news(rank: u32, stream: &mut TcpStream) -> io::Result<Option<Option<Failure>>> {
    let mut kind = [0];
    match stream.read_exact(&mut kind) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
        read => read?,
    }
    if kind[0] == WELL {
        return Ok(Some(None));
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = [[0; 4]; 2];
    stream.read_exact(head.as_flattened_mut())?;
    let [of, length] = head.map(u32::from_le_bytes);
    let mut reason = vec![0; LONGEST.min(length as usize)];
    stream.read_exact(&mut reason)?;
    // The first rank passes on the news of others.
    let failed = if rank == 0 { of } else { rank };
    Ok(Some(Some(Failure { rank: failed, reason: String::from_utf8_lossy(&reason).into_owned() })))
}

fn failed(Failure { rank, reason }: &Failure) -> Vec<u8> {
    let reason = &reason.as_bytes()[..reason.len().min(LONGEST)];
    [&[FAILED][..], &rank.to_le_bytes(), &(reason.len() as u32).to_le_bytes(), reason].concat()
}

/// Sends a message to all. Whoever does not take it has ended.
fn tell(streams: &[(u32, TcpStream)], message: &[u8]) {
    for (_, stream) in streams {
        let mut stream = stream;
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.write_all(message);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

    use super::*;

    /// The lifelines of three ranks, and what each has lost.
    fn three() -> (Vec<Option<Lifeline>>, Vec<Receiver<Error>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut streams = vec![Vec::new()];
        for rank in 1..3 {
            streams.push(vec![(0, TcpStream::connect(address).unwrap())]);
            streams[0].push((rank, listener.accept().unwrap().0));
        }
        let (mut lines, mut heard) = (Vec::new(), Vec::new());
        for (rank, streams) in (0..).zip(streams) {
            let (sender, receiver) = channel();
            lines.push(Some(Lifeline::new(rank, streams, move |error| sender.send(error).unwrap()).unwrap()));
            heard.push(receiver);
        }
        (lines, heard)
    }

    /// Closes the connections of a rank, as the end of its process does.
    fn kill(line: Lifeline) {
        for (_, stream) in held(&line.streams).drain(..) {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_killed_rank_is_named_to_all() {
        for killed in 0..3 {
            let (mut lines, heard) = three();
            kill(lines[killed].take().unwrap());
            for (rank, heard) in heard.iter().enumerate().filter(|(rank, _)| *rank != killed) {
                let text = heard.recv_timeout(LONG).unwrap().to_string();
                let expected = format!("rank {killed} failed: its process, on 127.0.0.1, has ended without a word");
                assert_eq!(text, expected, "on rank {rank}");
            }
        }
    }

    #[test]
    fn a_rank_that_fails_says_why() {
        for failing in 0..3 {
            let (mut lines, heard) = three();
            lines[failing].take().unwrap().fail("exit code 3".to_owned());
            for (_, heard) in heard.iter().enumerate().filter(|(rank, _)| *rank != failing) {
                let found = heard.recv_timeout(LONG).unwrap();
                assert_eq!(found, Error::Failed { rank: failing as u32, reason: "exit code 3".to_owned() });
            }
        }
    }

    #[test]
    fn ranks_that_end_well_are_not_lost() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let (mut lines, heard) = three();
            for rank in order {
                lines[rank].take().unwrap().end();
                thread::sleep(2 * PAUSE);
            }
            // Each watch has ended, and has dropped its sender.
            assert!(heard.iter().all(|heard| heard.recv_timeout(LONG) == Err(RecvTimeoutError::Disconnected)));
        }
    }
}
