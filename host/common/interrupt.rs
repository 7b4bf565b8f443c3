//! A process-wide stop request. A signal handler sets it with [`request`]. A program that continues to solve afterwards
//! resets it with [`clear`].
//!
//! Solvers call their observer between rounds. A round may be long: the evaluation of a policy, a batch of sweeps, an E
//! step. Loops inside a round therefore test [`requested`] once per sweep, launch or group of sequences, and return
//! their partial result. The outer loop then calls its observer, which is expected to break.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static REQUESTED: AtomicBool = AtomicBool::new(false);

static CHECKPOINT: AtomicBool = AtomicBool::new(false);

/// Time that a loop has after a request to reach its next step. After this time the current step is cancelled.
const PATIENCE: Duration = Duration::from_millis(200);

/// Asks all solvers of this process to stop soon. Returns whether a request was already pending.
///
/// The function only sets a flag, so a signal handler may call it.
pub fn request() -> bool {
    REQUESTED.swap(true, Ordering::Relaxed)
}

/// Whether a stop request is pending.
#[inline]
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Resets the request, so that solvers can run again. Programs that outlive a stop, such as notebooks, need this
/// function. The `warpkov` binary exits instead.
pub fn clear() {
    REQUESTED.store(false, Ordering::Relaxed);
}

/// Asks for a checkpoint soon, with which the run goes on. A signal handler may call it.
pub fn request_checkpoint() {
    CHECKPOINT.store(true, Ordering::Relaxed);
}

/// Whether a checkpoint was asked for since the last call.
#[must_use]
pub fn take_checkpoint() -> bool {
    CHECKPOINT.load(Ordering::Relaxed) && CHECKPOINT.swap(false, Ordering::Relaxed)
}

/// Returns a function for repeated polling. It returns true once a request has been pending for 200 ms after the first
/// poll that saw it. The caller then cancels its current step if it can.
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
