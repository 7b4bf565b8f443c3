//! Ctrl-C.

use std::io::{self, Write};
use std::process;

use warpkov::common::interrupt;

use super::ranks;

/// Turns the first Ctrl-C into a request to stop; the second ends the process. The first rank says so.
pub fn handle_interrupts() {
    // Without a handler, Ctrl-C ends the process at once, which is acceptable.
    let _ = ctrlc::set_handler(|| {
        if interrupt::request() {
            process::exit(130);
        }
        if !ranks::writes() {
            return;
        }
        // A failure to write here has no other place to be reported.
        let _ =
            io::stderr().write_all(b"\ninterrupted: stopping with what has been found; Ctrl-C again ends at once\n");
    });
}
