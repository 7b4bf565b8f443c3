//! How ranks without MPI learn at once that another has ended.
//!
//! The ranks keep the connections by which they met: each has one with the first. A rank that ends says that all is well, or with which
//! exit code it fails. A connection that closes without a word belongs to a process that was killed. A process that is silent for the time
//! limit is stopped, or its node is dead: each rank says now and then that it lives, however long it computes. The first rank
//! passes the news to all others. Without it they would wait for their time limits, and would not know for which rank.
//!
//! TCP's own keepalive ends the connections with a dead node even if the time limit is long.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

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

/// The message that a rank lives.
const ALIVE: u8 = 2;

/// Time between two of these messages.
const BEAT: Duration = Duration::from_millis(500);

/// Shortest silence that means something.
const SILENCE: Duration = Duration::from_secs(2);

/// Silence of a connection before TCP asks whether the other node lives, time between two questions, and their number.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

/// A connection with another rank.
struct Line {
    rank: u32,
    stream: TcpStream,
    /// When the other rank was last heard.
    heard: Instant,
}

/// The connections of a rank: with all others on the first, with the first on all others.
type Lines = Arc<Mutex<Vec<Line>>>;

/// The watch of a rank over the others.
pub struct Lifeline {
    rank: u32,
    lines: Lines,
}

impl Lifeline {
    /// Watches the ranks of `streams`. Calls `lost`, on another thread, with the failure of the first rank that fails, or is silent for
    /// `timeout`.
    pub fn new(
        rank: u32,
        streams: Vec<(u32, TcpStream)>,
        timeout: Duration,
        lost: impl FnOnce(Error) + Send + 'static,
    ) -> io::Result<Self> {
        let mut lines = Vec::new();
        for (rank, stream) in streams {
            stream.set_nonblocking(true)?;
            // The last message leaves before the connection is closed.
            stream.set_nodelay(true)?;
            keep_alive(&stream)?;
            lines.push(Line { rank, stream, heard: Instant::now() });
        }
        let lines = Arc::new(Mutex::new(lines));
        let watched = Arc::clone(&lines);
        thread::Builder::new().name("lifeline".to_owned()).spawn(move || {
            if let Some(failure) = watch(&watched, timeout) {
                if rank == 0 {
                    tell(&held(&watched), &failed(&failure));
                }
                let Failure { rank, reason } = failure;
                lost(Error::Failed { rank, reason });
            }
        })?;
        Ok(Self { rank, lines })
    }

    /// Tells the others that all is well.
    pub fn end(self) {
        tell(&std::mem::take(&mut *held(&self.lines)), &[WELL]);
    }

    /// Tells the others that this rank fails.
    pub fn fail(self, reason: String) {
        tell(&std::mem::take(&mut *held(&self.lines)), &failed(&Failure { rank: self.rank, reason }));
    }
}

/// The failure of a rank.
struct Failure {
    rank: u32,
    reason: String,
}

fn held(lines: &Lines) -> MutexGuard<'_, Vec<Line>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the kernel close the connection with a dead node.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let (idle, interval, count) = KEEPALIVE;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    Ok(sockopt::set_tcp_keepcnt(stream, count)?)
}

/// Waits for a failure. `None` once all ranks have ended well, or this one has ended.
fn watch(lines: &Lines, timeout: Duration) -> Option<Failure> {
    let timeout = timeout.max(SILENCE);
    let mut looked = Instant::now();
    let mut told = looked;
    loop {
        let mut lines = held(lines);
        // If this process was stopped, it has not listened either.
        if looked.elapsed() > SILENCE / 2 {
            lines.iter_mut().for_each(|line| line.heard = Instant::now());
        }
        looked = Instant::now();
        if told.elapsed() >= BEAT {
            told = looked;
            // A full buffer, or the end of the other rank, is found by listening.
            lines.iter().for_each(|line| _ = (&line.stream).write(&[ALIVE]));
        }
        let mut failure = None;
        lines.retain_mut(|line| {
            let found = match news(line) {
                Ok(News::Well) => return false,
                Ok(News::Failed(found)) => found,
                Ok(News::None) if line.heard.elapsed() < timeout => return true,
                silent => {
                    let address = line.stream.peer_addr();
                    let place = address.map_or_else(|_| "?".to_owned(), |address| address.ip().to_string());
                    let what = match silent {
                        Ok(_) => format!("has been silent for {timeout:?}: it is stopped, or its node is dead"),
                        Err(_) => "has ended without a word".to_owned(),
                    };
                    Failure { rank: line.rank, reason: format!("its process, on {place}, {what}") }
                }
            };
            failure.get_or_insert(found);
            false
        });
        if failure.is_some() || lines.is_empty() {
            return failure;
        }
        drop(lines);
        thread::sleep(PAUSE);
    }
}

/// What a rank says.
enum News {
    None,
    Well,
    Failed(Failure),
}

/// Listens to a rank.
fn news(Line { rank, stream, heard }: &mut Line) -> io::Result<News> {
    let mut kind = [ALIVE];
    while kind[0] == ALIVE {
        match stream.read_exact(&mut kind) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(News::None),
            read => read?,
        }
        *heard = Instant::now();
    }
    if kind[0] == WELL {
        return Ok(News::Well);
    }
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = [[0; 4]; 2];
    stream.read_exact(head.as_flattened_mut())?;
    let [of, length] = head.map(u32::from_le_bytes);
    let mut reason = vec![0; LONGEST.min(length as usize)];
    stream.read_exact(&mut reason)?;
    // The first rank passes on the news of others.
    let failed = if *rank == 0 { of } else { *rank };
    Ok(News::Failed(Failure { rank: failed, reason: String::from_utf8_lossy(&reason).into_owned() }))
}

fn failed(Failure { rank, reason }: &Failure) -> Vec<u8> {
    let reason = &reason.as_bytes()[..reason.len().min(LONGEST)];
    [&[FAILED][..], &rank.to_le_bytes(), &(reason.len() as u32).to_le_bytes(), reason].concat()
}

/// Sends a message to all. Whoever does not take it has ended.
fn tell(lines: &[Line], message: &[u8]) {
    for Line { stream, .. } in lines {
        let mut stream = stream;
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.write_all(message);
        // To close a connection with unread bytes would reset it, and the message might be lost.
        let _ = stream.set_nonblocking(true);
        while stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

    use super::*;

    /// The lifelines of three ranks, and what each has lost.
    fn three() -> (Vec<Option<Lifeline>>, Vec<Receiver<Error>>) {
        three_within(LONG)
    }

    fn three_within(timeout: Duration) -> (Vec<Option<Lifeline>>, Vec<Receiver<Error>>) {
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
            let lost = move |error| sender.send(error).unwrap();
            lines.push(Some(Lifeline::new(rank, streams, timeout, lost).unwrap()));
            heard.push(receiver);
        }
        (lines, heard)
    }

    /// Closes the connections of a rank, as the end of its process does.
    fn kill(line: Lifeline) {
        for Line { stream, .. } in held(&line.lines).drain(..) {
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

    /// Ranks that compute live. A stopped process holds its connection, and says nothing.
    #[test]
    fn a_silent_rank_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (sender, heard) = channel();
        let lost = move |error| sender.send(error).unwrap();
        let line = Lifeline::new(0, vec![(1, silent)], Duration::ZERO, lost).unwrap();
        assert!(sockopt::socket_keepalive(&held(&line.lines)[0].stream).unwrap());
        let (_lines, others) = three_within(Duration::ZERO);
        let text = heard.recv_timeout(LONG).unwrap().to_string();
        let expected =
            "rank 1 failed: its process, on 127.0.0.1, has been silent for 2s: it is stopped, or its node is dead";
        assert_eq!(text, expected);
        thread::sleep(BEAT);
        assert!(others.iter().all(|heard| heard.try_recv().is_err()));
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
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]].repeat(5) {
            let (mut lines, heard) = three();
            for rank in order {
                // Signs of life that no rank will read.
                for line in lines.iter().flatten() {
                    held(&line.lines).iter().for_each(|line| _ = (&line.stream).write(&[ALIVE; 9]));
                }
                lines[rank].take().unwrap().end();
                thread::sleep(2 * PAUSE);
            }
            // Each watch has ended, and has dropped its sender.
            assert!(heard.iter().all(|heard| heard.recv_timeout(LONG) == Err(RecvTimeoutError::Disconnected)));
        }
    }
}
