//! What a rank knows of the others without a connection: which of their processes are on its node, and which of these are stopped.
//!
//! The processes of a launcher have its variables in their environment, and on each node its daemon among their ancestors.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{fs, process, thread};

use super::error::named;
use super::launch::Launch;
use super::node;

/// The ranks with a process on this node, and of each a process that is stopped, if there is one.
type Found = BTreeMap<u32, Option<u32>>;

/// Longest time that a thread counts at once.
const STEP: Duration = Duration::from_millis(100);

/// The result of `work`. Calls `late` on another thread if it takes longer than `limit`. The time in which this process is stopped does not
/// count.
pub fn limited<R>(limit: Duration, late: impl FnOnce() + Send + 'static, work: impl FnOnce() -> R) -> R {
    let (working, ended) = channel::<()>();
    let watch = move || {
        let mut left = limit;
        while ended.recv_timeout(STEP.min(left)) == Err(RecvTimeoutError::Timeout) {
            left = left.saturating_sub(STEP);
            if left.is_zero() {
                return late();
            }
        }
    };
    // Without a thread there is no limit.
    let _ = thread::Builder::new().name("time limit".to_owned()).spawn(watch);
    let result = work();
    drop(working);
    result
}

/// State and parent of a process.
pub fn state(process: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // They follow the name, which stands in parentheses.
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The rank of a process by this variable of its launcher. A process that has ended has none.
fn rank_of(process: u32, variable: &str) -> Option<u32> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |entry: &[u8]| String::from_utf8_lossy(entry).strip_prefix(variable)?.strip_prefix('=')?.parse().ok();
    environment.split(|&byte| byte == 0).find_map(value)
}

/// The daemon that started a process: its nearest ancestor without the variable.
fn daemon(mut process: u32, variable: &str) -> Option<u32> {
    loop {
        process = state(process)?.1;
        if rank_of(process, variable).is_none() {
            return Some(process);
        }
    }
}

/// The ranks with a process below `from`.
fn found(from: u32, variable: &str) -> Found {
    let mut ranks = Found::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(rank) = rank_of(process, variable) else { continue };
        if daemon(process, variable) == Some(from) {
            let stopped = state(process).filter(|(state, _)| matches!(state, 'T' | 't')).map(|_| process);
            let known = ranks.entry(rank).or_insert(None);
            *known = known.or(stopped);
        }
    }
    ranks
}

/// The other ranks of a launch that cannot go on, in a sentence.
pub fn describe(launch: &Launch) -> String {
    let variable = launch.rank_variable();
    let from = daemon(process::id(), variable).unwrap_or_default();
    told(&found(from, variable), launch.size)
}

fn told(found: &Found, size: u32) -> String {
    let stopped =
        found.iter().filter_map(|(rank, process)| Some(format!("rank {rank} is stopped (process {})", (*process)?)));
    let absent: Vec<u32> = (0..size).filter(|rank| !found.contains_key(rank)).collect();
    let ended = match absent.len() {
        0 => None,
        1 => Some(format!("{} has no process on node {}: it has ended, or is on another node", named(&absent), node())),
        _ => Some(format!(
            "{} have no process on node {}: they have ended, or are on other nodes",
            named(&absent),
            node()
        )),
    };
    let all: Vec<_> = stopped.chain(ended).collect();
    match all.is_empty() {
        true => "the processes of all ranks run, and which of them is late is not known".to_owned(),
        false => all.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use super::*;

    const VARIABLE: &str = "WARPKOV_TEST_RANK";

    fn start(rank: u32) -> Child {
        Command::new("sleep").arg("60").env(VARIABLE, rank.to_string()).spawn().unwrap()
    }

    #[test]
    fn stopped_and_ended_processes_are_found() {
        let mut children = [0, 1, 2].map(start);
        let from = process::id();
        let until = |holds: &dyn Fn(&Found) -> bool| {
            let begun = Instant::now();
            loop {
                let ranks = found(from, VARIABLE);
                if holds(&ranks) {
                    return ranks;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "{ranks:?}");
            }
        };
        let running = until(&|ranks| ranks.len() == 3);
        assert_eq!(told(&running, 3), "the processes of all ranks run, and which of them is late is not known");
        let stopped = children[1].id();
        assert!(Command::new("kill").args(["-STOP", &stopped.to_string()]).status().unwrap().success());
        // A process that has ended and is not waited for counts as ended.
        children[2].kill().unwrap();
        let ranks = until(&|ranks| ranks.get(&1) == Some(&Some(stopped)) && !ranks.contains_key(&2));
        let (text, node) = (told(&ranks, 3), node());
        let expected = format!("rank 1 is stopped (process {stopped}); rank 2 has no process on node {node}: ");
        assert!(text.starts_with(&expected), "{text}");
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn work_that_takes_too_long_is_told() {
        static LATE: AtomicBool = AtomicBool::new(false);
        let set = || LATE.store(true, Ordering::Relaxed);
        assert_eq!(limited(Duration::MAX, set, || 7), 7);
        assert!(!LATE.load(Ordering::Relaxed));
        limited(Duration::from_millis(1), set, || {
            while !LATE.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
    }
}
