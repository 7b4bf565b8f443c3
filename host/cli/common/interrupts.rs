//! Signals: those that stop a run, ask for a checkpoint, or report a failure of files.

use std::io::{self, Write};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkov_common::interrupt;

use super::ranks;

/// Whether a run stops by itself after a request.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Where signals are added to those that are handled.
#[cfg(unix)]
static HANDLED: OnceLock<signal_hook::iterator::Handle> = OnceLock::new();

/// From now on, Ctrl-C, SIGTERM and SIGHUP are requests to a run to stop, which writes what it has found. A second Ctrl-C ends the
/// process. SIGHUP stays ignored if it was (`nohup`). A batch system may send several signals before it kills; they are one request.
pub fn handle_interrupts() {
    if !RUNNING.swap(true, Ordering::Relaxed) {
        #[cfg(unix)]
        if let Some(handled) = HANDLED.get() {
            use signal_hook::consts::{SIGHUP, SIGTERM};

            // Without a handler, a signal ends the process at once, which is acceptable.
            let _ = handled.add_signal(SIGTERM);
            if !is_ignored(SIGHUP) {
                let _ = handled.add_signal(SIGHUP);
            }
        }
    }
}

/// Handles signals from now on.
///
/// - Ctrl-C ends the process with exit code 130, until [`handle_interrupts`].
/// - SIGUSR1 asks for a checkpoint; the run goes on.
/// - SIGXFSZ, a file above `ulimit -f`, becomes an error of the write.
/// - SIGBUS, a mapped file that another process has cut, ends the process with a message and exit code 2.
///
/// The first rank says so.
pub fn listen_to_signals() {
    // Without a handler, a signal ends the process at once, which is acceptable.
    let _ = listen();
}

#[cfg(unix)]
fn listen() -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
    use signal_hook::iterator::Signals;

    signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default())?;
    report_cut_files()?;
    let mut signals = Signals::new([SIGINT, SIGUSR1])?;
    HANDLED.get_or_init(|| signals.handle());
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => interrupt::request_checkpoint(),
                SIGINT => stop(std::mem::replace(&mut asked, true)),
                SIGTERM => ask("SIGTERM"),
                _ => ask("SIGHUP"),
            }
        }
    })?;
    Ok(())
}

/// Whether the process that started this one ignores a signal.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Ends the process with a message on SIGBUS.
///
/// Not through `signal_hook`, which calls the former handler first: that of Rust's standard library makes SIGBUS deadly, and another thread
/// may read the file, too, before this one has ended the process.
#[cfg(unix)]
fn report_cut_files() -> io::Result<()> {
    static FIRST: AtomicBool = AtomicBool::new(true);

    extern "C" fn report(_: libc::c_int) {
        const MESSAGE: &[u8] = b"error: an input file was truncated while it was read, or its disk failed\n";

        // SAFETY: signal-safety(7) lists write(2), pause(2) and _exit(2). The message is in static memory.
        unsafe {
            if !FIRST.swap(false, Ordering::Relaxed) {
                loop {
                    libc::pause();
                }
            }
            libc::write(2, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(2);
        }
    }

    // SAFETY: a zeroed `sigaction` is valid, with an empty mask. The handler has the type for flags without SA_SIGINFO, and is safe in a
    // signal handler, as its own comment says.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = report as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
    if !RUNNING.load(Ordering::Relaxed) {
        say("\ninterrupted\n");
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
