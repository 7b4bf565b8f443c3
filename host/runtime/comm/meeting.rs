//! Where ranks without MPI meet: the first gives all others the identifier of their NCCL communicator.
//!
//! NCCL connects the ranks once they have the same identifier. The first rank makes it, listens at a port that all know, and gives it to
//! every rank that comes. A rank that cannot use NCCL says why when it comes; then no rank gets an identifier, and all end with that reason.
//! A visitor without the token of the launch is no rank, and is refused. The connections remain, for the ranks to watch each other
//! (module `lifeline`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use warpkov_common::guard::counted;

use super::Error;
use super::error::named;

/// The identifier of an NCCL communicator.
pub type Id = [u8; 128];

/// The identifier, and the connections with other ranks.
pub type Met = (Id, Vec<(u32, TcpStream)>);

/// The first bytes of a rank that comes.
const GREETING: [u8; 8] = *b"warpkov2";

/// Bytes of the numbers that follow: rank, number of ranks, lengths of the token and of the problem.
const NUMBERS: usize = 16;

/// The answer to a visitor without the token.
const REFUSED: &str = "it lacks the token of rank 0 (WARPKOV_TOKEN, or --master TOKEN@HOST:PORT)";

/// Longest reason, in bytes.
const LONGEST: usize = 4096;

/// Time of a visitor to say who it is.
const GREETED: Duration = Duration::from_secs(1);

/// Time between two attempts to reach the first rank, or between two looks for visitors.
const PAUSE: Duration = Duration::from_millis(20);

/// A rank that goes to a meeting.
pub struct Visitor<'a> {
    /// The rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// HOST:PORT of the first rank.
    pub address: &'a str,
    /// What all ranks know, and no stranger.
    pub token: &'a str,
    /// The longest time that it waits.
    pub timeout: Duration,
}

impl Visitor<'_> {
    /// Meets the other ranks. Returns the identifier that `make` makes on the first, and the connections with the other ranks on the
    /// first, with the first on the others, unless a rank has a `problem`.
    ///
    /// # Errors
    /// If a rank has a problem, if not all come in time, or if `make` fails.
    pub fn meet(&self, problem: Option<String>, make: impl FnOnce() -> Result<Id, String>) -> Result<Met, Error> {
        let met = if self.rank == 0 { self.host(problem, make) } else { self.visit(problem) };
        met.map_err(|failure| match failure {
            Failure::Rank(rank, reason) => Error::Failed { rank, reason },
            Failure::Meeting(reason) => Error::Meeting { rank: self.rank, address: self.address.to_owned(), reason },
        })
    }

    /// Waits for all other ranks, and answers them.
    fn host(&self, problem: Option<String>, make: impl FnOnce() -> Result<Id, String>) -> Result<Met, Failure> {
        let begun = Instant::now();
        let mut problem = problem.map(|reason| Failure::Rank(0, reason));
        let port = self.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let port: u16 = port.ok_or_else(|| Failure::Meeting("expected HOST:PORT".to_owned()))?;
        // All interfaces: the name may lead to another of them than the ranks come by.
        let listener = TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
        let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = listener.map_err(|error| Failure::Meeting(format!("cannot listen there: {error}")))?;
        let mut came = vec![false; self.size as usize];
        came[0] = true;
        let mut streams = Vec::new();
        let mut refused = 0;
        while came.contains(&false) {
            if begun.elapsed() >= self.timeout {
                let missing: Vec<_> = (0..self.size).filter(|&rank| !came[rank as usize]).collect();
                let mut reason = format!("waited {:?} for {}", self.timeout, named(&missing));
                if refused > 0 {
                    reason += &format!(", and refused {} without the token of rank 0", counted(refused, "visitor"));
                }
                problem.get_or_insert(Failure::Meeting(reason));
                break;
            }
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            // Others may knock at a port.
            let Ok(Visit { rank, size, token, reason, stream }) = Visit::read(stream) else { continue };
            if token != self.token {
                refused += 1;
                let _ = answer(&stream, Err(REFUSED));
                continue;
            }
            streams.push((rank, stream));
            if size != self.size {
                let reason = format!("rank {rank} is one of {size} ranks, expected {}", self.size);
                problem.get_or_insert(Failure::Meeting(reason));
            } else if came.get(rank as usize) != Some(&false) {
                problem.get_or_insert(Failure::Meeting(format!("rank {rank} came twice")));
            } else {
                came[rank as usize] = true;
            }
            if let Some(reason) = reason {
                problem.get_or_insert(Failure::Rank(rank, reason));
            }
        }
        let made = match problem {
            Some(problem) => Err(problem),
            None => make().map_err(|reason| Failure::Rank(0, reason)),
        };
        for (_, stream) in &streams {
            // A visitor that has left is missed later.
            let _ = answer(stream, made.as_ref().map_err(Failure::reason));
        }
        made.map(|id| (id, streams))
    }

    /// Comes to the first rank, and waits for its answer.
    fn visit(&self, problem: Option<String>) -> Result<Met, Failure> {
        let begun = Instant::now();
        let left = || self.timeout.saturating_sub(begun.elapsed()).max(PAUSE);
        let connect = || -> io::Result<TcpStream> {
            let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
            for address in self.address.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, left()) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        let mut stream = loop {
            match connect() {
                Ok(stream) => break stream,
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    return Err(Failure::Meeting(error.to_string()));
                }
                Err(error) if begun.elapsed() >= self.timeout => {
                    return Err(Failure::Meeting(format!("waited {:?} for rank 0: {error}", self.timeout)));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        };
        let lost = |error: io::Error| {
            Failure::Meeting(match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    format!(
                        "waited {:?} for the answer of rank 0, which waits for other ranks or is stopped",
                        self.timeout
                    )
                }
                _ => format!("rank 0 has left: {error}"),
            })
        };
        let mut talk = || -> io::Result<Result<Id, Vec<u8>>> {
            let problem = problem.as_deref().unwrap_or_default().as_bytes();
            let problem = &problem[..problem.len().min(LONGEST)];
            let token = self.token.as_bytes();
            let numbers =
                [self.rank, self.size, token.len() as u32, problem.len() as u32].map(u32::to_le_bytes).concat();
            stream.write_all(&[&GREETING, &numbers[..], token, problem].concat())?;
            // The first rank names those that are missing when its own time is over.
            stream.set_read_timeout(Some(left().saturating_add(GREETED)))?;
            let mut head = [0; 5];
            stream.read_exact(&mut head)?;
            let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length.min(LONGEST)];
            stream.read_exact(&mut body)?;
            Ok(match (head[0], <Id>::try_from(&body[..])) {
                (1, Ok(id)) => Ok(id),
                _ => Err(body),
            })
        };
        let answer = talk().map_err(lost)?;
        answer.map(|id| (id, vec![(0, stream)])).map_err(|reason| match (String::from_utf8_lossy(&reason), problem) {
            (reason, _) if reason == REFUSED => Failure::Meeting(reason.into_owned()),
            (_, Some(problem)) => Failure::Rank(self.rank, problem),
            (reason, None) => Failure::Rank(0, reason.into_owned()),
        })
    }
}

/// Why ranks did not meet.
enum Failure {
    /// A rank has this problem.
    Rank(u32, String),
    /// They did not come together.
    Meeting(String),
}

impl Failure {
    fn reason(&self) -> String {
        match self {
            Self::Rank(0, reason) | Self::Meeting(reason) => reason.clone(),
            Self::Rank(rank, reason) => format!("rank {rank}: {reason}"),
        }
    }
}

/// What a visitor says.
struct Visit {
    rank: u32,
    size: u32,
    token: String,
    reason: Option<String>,
    stream: TcpStream,
}

impl Visit {
    fn read(mut stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(GREETED))?;
        stream.set_write_timeout(Some(GREETED))?;
        let mut head = [0; GREETING.len() + NUMBERS];
        stream.read_exact(&mut head)?;
        let (greeting, numbers) = head.split_at(GREETING.len());
        let [rank, size, token, reason] = bytemuck::pod_read_unaligned::<[[u8; 4]; 4]>(numbers).map(u32::from_le_bytes);
        if greeting != GREETING || token.max(reason) as usize > LONGEST {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut text = |length: u32| -> io::Result<String> {
            let mut bytes = vec![0; length as usize];
            stream.read_exact(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (token, reason) = (text(token)?, Some(text(reason)?).filter(|reason| !reason.is_empty()));
        Ok(Self { rank, size, token, reason, stream })
    }
}

/// Gives a visitor the identifier, or the reason why there is none.
fn answer(mut stream: &TcpStream, result: Result<&Id, impl AsRef<str>>) -> io::Result<()> {
    let (code, body) = match &result {
        Ok(id) => (1, &id[..]),
        Err(reason) => (0, reason.as_ref().as_bytes()),
    };
    let body = &body[..body.len().min(LONGEST)];
    stream.write_all(&[&[code][..], &(body.len() as u32).to_le_bytes(), body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a token";
    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(400);

    /// An address of this machine with a free port.
    fn address() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("127.0.0.1:{}", listener.local_addr().unwrap().port())
    }

    /// The results of `ranks`, of `size`, each with its problem.
    fn meet(address: &str, ranks: &[(u32, Option<&str>)], size: u32, timeout: Duration) -> Vec<Result<Id, Error>> {
        thread::scope(|scope| {
            let one = |&(rank, problem): &(u32, Option<&str>)| {
                let problem = problem.map(str::to_owned);
                let meet =
                    move || Visitor { rank, size, address, token: TOKEN, timeout }.meet(problem, || Ok([7; 128]));
                scope.spawn(move || meet().map(|(id, _)| id))
            };
            let threads: Vec<_> = ranks.iter().map(one).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_ranks_get_the_identifier() {
        for size in [2, 5, 16] {
            let ranks: Vec<_> = (0..size).map(|rank| (rank, None)).collect();
            assert_eq!(meet(&address(), &ranks, size, LONG), vec![Ok([7; 128]); size as usize]);
        }
    }

    #[test]
    fn strangers_are_ignored_and_late_hosts_awaited() {
        let address = &*address();
        thread::scope(|scope| {
            let visitor = scope.spawn(move || {
                Visitor { rank: 1, size: 2, address, token: TOKEN, timeout: LONG }.meet(None, || Ok([0; 128]))
            });
            thread::sleep(Duration::from_millis(200));
            let host = scope.spawn(move || {
                Visitor { rank: 0, size: 2, address, token: TOKEN, timeout: LONG }.meet(None, || Ok([3; 128]))
            });
            // One of them may meet a port that is closed already.
            if let Ok(mut stream) = TcpStream::connect(address) {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            }
            let [of_host, of_visitor] = [host, visitor].map(|thread| thread.join().unwrap().unwrap());
            assert_eq!((of_host.0, of_visitor.0), ([3; 128], [3; 128]));
            assert_eq!((of_host.1[0].0, of_visitor.1[0].0), (1, 0));
        });
    }

    #[test]
    fn strangers_are_not_counted() {
        let address = &*address();
        let meet =
            |rank, token| move || Visitor { rank, size: 2, address, token, timeout: SHORT }.meet(None, || Ok([1; 128]));
        let found = thread::scope(|scope| {
            let ranks = [scope.spawn(meet(0, TOKEN)), scope.spawn(meet(1, "another"))];
            ranks.map(|rank| rank.join().unwrap().unwrap_err().to_string())
        });
        assert!(found[0].contains("for rank 1, and refused 1 visitor without the token"), "{found:?}");
        assert!(found[1].contains("rank 1") && found[1].contains("it lacks the token of rank 0"), "{found:?}");
    }

    #[test]
    fn a_problem_of_one_rank_ends_all_at_once() {
        let begun = Instant::now();
        let found = meet(&address(), &[(0, None), (1, None), (2, Some("no NCCL"))], 3, LONG);
        let failed = |rank: u32, reason: &str| Err(Error::Failed { rank, reason: reason.to_owned() });
        assert_eq!(found, [failed(2, "no NCCL"), failed(0, "rank 2: no NCCL"), failed(2, "no NCCL")]);
        let found = meet(&address(), &[(0, Some("no GPU")), (1, None)], 2, LONG);
        assert_eq!(found, [failed(0, "no GPU"), failed(0, "no GPU")]);
        assert!(begun.elapsed() < LONG);
    }

    #[test]
    fn ranks_that_do_not_come_are_named() {
        let text = |found: &Result<Id, Error>| found.as_ref().unwrap_err().to_string();
        let found = meet(&address(), &[(0, None), (2, None)], 4, SHORT);
        assert!(text(&found[0]).contains("waited 400ms for ranks 1, 3"), "{found:?}");
        assert!(text(&found[1]).contains("waited 400ms for ranks 1, 3"), "{found:?}");
        let found = meet(&address(), &[(1, None)], 2, SHORT);
        assert!(text(&found[0]).contains("rank 1") && text(&found[0]).contains("for rank 0: "), "{found:?}");
    }

    #[test]
    fn ranks_of_another_group_are_refused() {
        let text = |found: &Result<Met, Error>| found.as_ref().unwrap_err().to_string();
        let found = meet(&address(), &[(0, None), (1, None), (1, None)], 3, SHORT);
        let twice = found[0].as_ref().unwrap_err().to_string();
        assert!(twice.contains("rank 1 came twice"), "{found:?}");
        for wrong in ["nowhere", "127.0.0.1:x", "127.0.0.1:99999"] {
            let found =
                Visitor { rank: 0, size: 2, address: wrong, token: TOKEN, timeout: SHORT }.meet(None, || Ok([0; 128]));
            assert!(text(&found).contains("expected HOST:PORT"), "{found:?}");
        }
        let taken = TcpListener::bind("0.0.0.0:0").unwrap();
        let address = format!("127.0.0.1:{}", taken.local_addr().unwrap().port());
        let found =
            Visitor { rank: 0, size: 2, address: &address, token: TOKEN, timeout: SHORT }.meet(None, || Ok([0; 128]));
        assert!(text(&found).contains("cannot listen there"), "{found:?}");
    }
}
