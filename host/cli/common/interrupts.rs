//! Ctrl-C.

use std::io::{self, Write};
use std::process;

use warpkov::common::interrupt;

/// Turns the first Ctrl-C into a request to stop; the second ends the process.
pub fn handle_interrupts() {
    // Without a handler Ctrl-C ends the process at once, which is all right too.
    let _ = ctrlc::set_handler(|| {
        if interrupt::request() {
            process::exit(130);
        }
        // Nobody is left to tell where this fails.
        let _ =
            io::stderr().write_all(b"\ninterrupted: stopping with what has been found; Ctrl-C again ends at once\n");
    });
}
