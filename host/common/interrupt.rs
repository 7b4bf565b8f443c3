//! A request to stop that every long loop of the process sees: a program's handler of signals makes it by [`request`], and a program
//! that goes on solving afterwards withdraws it by [`clear`].
//!
//! Observers are asked between rounds, and a round may be long: the evaluation of a policy, a batch of sweeps, an E step. Loops
//! inside of a round ask [`requested`] once per sweep, launch or group of sequences, and return what they have. The loop around
//! them then asks its observer, which is expected to break.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// How long after a request loops have to come to their next step, before what they are in is given up.
const PATIENCE: Duration = Duration::from_millis(200);

/// Asks all solvers of this process to stop soon. Returns whether that had been asked for before.
///
/// It only sets a flag, so that a signal handler may call it.
pub fn request() -> bool {
    REQUESTED.swap(true, Ordering::Relaxed)
}

/// Whether solvers are to stop.
#[inline]
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Withdraws the request: solvers may run again. That is for programs that use the library and go on after a stop, as notebooks do;
/// the command `warpkov` ends.
pub fn clear() {
    REQUESTED.store(false, Ordering::Relaxed);
}

/// Says, when asked again and again, whether a request stands for so long that a single step must take long: then work in
/// hand is to be given up where it can be.
pub fn overdue() -> impl FnMut() -> bool + Send + 'static {
    let mut since = None;
    move || {
        if !requested() {
            since = None;
            return false;
        }
        since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
    }
}
