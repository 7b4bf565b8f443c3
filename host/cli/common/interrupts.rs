//! Signals that ask a run to stop: Ctrl-C, SIGTERM and SIGUSR1.

use std::io::{self, Write};
use std::process;
use std::sync::Once;

use warpkov_common::interrupt;

use super::ranks;

/// Turns Ctrl-C, SIGTERM and SIGUSR1 into a request to stop. A second Ctrl-C ends the process. The first rank says so.
///
/// A batch system may send several signals before it kills: Slurm sends that of `--signal`, and SIGTERM at the time limit. They are one
/// request.
pub fn handle_interrupts() {
    static ONCE: Once = Once::new();

    // Without a handler, a signal ends the process at once, which is acceptable.
    ONCE.call_once(|| {
        let _ = listen();
    });
}

#[cfg(unix)]
fn listen() -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            match signal {
                SIGINT => stop(std::mem::replace(&mut asked, true)),
                SIGTERM => ask("SIGTERM"),
                _ => ask("SIGUSR1"),
            }
        }
    })?;
    Ok(())
}

#[cfg(not(unix))]
fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| stop(interrupt::requested()))
}

/// Handles Ctrl-C; `again` if it is not the first.
fn stop(again: bool) {
    if again {
        process::exit(130);
    }
    interrupt::request();
    say("\ninterrupted: stopping with what has been found; Ctrl-C again ends at once\n");
}

/// Handles another signal.
#[cfg(unix)]
fn ask(signal: &str) {
    if !interrupt::request() {
        say(&format!("interrupted by {signal}: stopping with what has been found\n"));
    }
}

fn say(message: &str) {
    if ranks::writes() {
        // A failure to write here has no other place to be reported.
        let _ = io::stderr().write_all(message.as_bytes());
    }
}
