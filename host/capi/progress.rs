//! The progress of a run, and requests to stop it.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;

use warpkov_common::interrupt;

use crate::border::look;

/// The progress of a run. What a class of models does not have is 0, or NaN. Later versions may add members at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct wk_progress {
    /// Seconds since the start.
    pub seconds: f64,
    /// Number of rounds: evaluations, expansions of the set of beliefs, or M steps.
    pub round: u64,
    /// Number of sweeps over the values of an MDP.
    pub sweeps: u64,
    /// Largest change of a value in the last sweep.
    pub residual: f64,
    /// Lower bound of the value of a POMDP at its start.
    pub lower: f64,
    /// Upper bound of the value of a POMDP at its start.
    pub upper: f64,
    /// ln P(O) of all sequences under the model in training.
    pub log_likelihood: f64,
}

impl wk_progress {
    /// A round, of which nothing else is known.
    pub fn new(round: u64, seconds: f64) -> Self {
        let unknown = f64::NAN;
        Self { seconds, round, sweeps: 0, residual: unknown, lower: unknown, upper: unknown, log_likelihood: unknown }
    }
}

/// Called after each round, in the thread that called the solver. `user` is what the solver was given. A result other than 0
/// stops the run. The function must return: it must not throw an exception, nor jump out, nor free what the solver uses.
pub type wk_observer = Option<unsafe extern "C" fn(user: *mut c_void, progress: *const wk_progress) -> c_int>;

/// A callback of C with its argument.
pub struct Observer {
    /// The function, unless it is NULL.
    pub call: wk_observer,
    /// Its first argument.
    pub user: *mut c_void,
}

impl Observer {
    /// Breaks if the callback or anybody else asks for a stop.
    pub fn see(&self, progress: &wk_progress) -> ControlFlow<()> {
        // SAFETY: the caller of the solver guarantees that the function takes these arguments and returns.
        let stops = self.call.is_some_and(|call| unsafe { call(self.user, progress) } != 0);
        if stops || interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Asks all runs in this process to stop soon, those within a round too, until `wk_interrupt_clear`. A signal handler may call
/// it. A callback stops one run alone, after its round.
#[unsafe(no_mangle)]
pub extern "C" fn wk_interrupt() {
    // No more than an atomic flag, so that signal handlers may call it.
    interrupt::request();
}

/// Ends the request of `wk_interrupt`, so that the process can solve again.
#[unsafe(no_mangle)]
pub extern "C" fn wk_interrupt_clear() {
    look((), || {
        interrupt::clear();
        Ok(())
    });
}
