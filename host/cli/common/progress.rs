//! Progress on a terminal.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use warpkov_mdp::solution::Round;

/// Solves shorter than this show no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Resolution of the bar.
const STEPS: u64 = 1000;

/// A bar on stderr that appears once the work takes a while.
struct Bar {
    bar: ProgressBar,
    /// Its drop ends the thread that waits to show the bar.
    _waiting: Option<Sender<()>>,
}

impl Bar {
    /// A bar that is hidden if `quiet` or if stderr is no terminal.
    fn new(template: &str, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let waiting = (!quiet && stderr().is_terminal()).then(|| show_after(PATIENCE, bar.clone()));
        Self { bar, _waiting: waiting }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The progress of a solve, on stderr.
pub struct Progress {
    bar: Bar,
    states: f64,
}

impl Progress {
    /// Progress of a model with `states` states, hidden if `quiet` or if stderr is no terminal.
    pub fn new(states: u64, quiet: bool) -> Self {
        let bar = Bar::new("{elapsed:>5} {bar:30} {msg}", quiet);
        bar.bar.set_message("round 1");
        Self { bar, states: states as f64 }
    }

    /// Shows a round.
    pub fn observe(&self, round: &Round) {
        let bar = &self.bar.bar;
        let Round { round: number, sweeps, residual, .. } = round;
        let mut message = format!("round {number}: {sweeps} sweeps to residual {residual:.1e}");
        if let Some(changed) = round.changed {
            // The number of changed states falls about geometrically: its logarithm measures the remaining work.
            let left = (changed as f64).ln_1p() / self.states.ln_1p();
            let position = ((1.0 - left) * STEPS as f64) as u64;
            bar.set_position(position.max(bar.position()));
            message += &format!(", {changed} states changed");
        }
        bar.set_message(message);
    }
}

/// The progress of work whose amount is known, on stderr.
pub struct Fraction(Bar);

impl Fraction {
    /// Progress that is hidden if `quiet` or if stderr is no terminal.
    pub fn new(quiet: bool) -> Self {
        Self(Bar::new("{elapsed:>5} {bar:30} {percent} %", quiet))
    }

    /// Shows the fraction that is done.
    pub fn set(&self, done: f64) {
        self.0.bar.set_position((done * STEPS as f64) as u64);
    }
}

/// Work of an unknown amount, on stderr: its name, and the time that it takes.
pub struct Waiting(#[allow(dead_code, reason = "its drop clears the line")] Bar);

impl Waiting {
    /// Shows `what` once it takes a while, unless `quiet` or if stderr is no terminal.
    pub fn new(what: &'static str, quiet: bool) -> Self {
        let bar = Bar::new("{elapsed:>5} {spinner} {msg}", quiet);
        bar.bar.set_message(what);
        Self(bar)
    }
}

fn show_after(patience: Duration, bar: ProgressBar) -> Sender<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        if receiver.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) && !bar.is_finished() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    });
    sender
}

/// The progress of a known number of steps, on stderr.
pub struct Steps(ProgressBar);

impl Steps {
    /// `count` steps, hidden if `quiet` or if stderr is no terminal.
    pub fn new(count: usize, quiet: bool) -> Self {
        if quiet || !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(count as u64);
        if let Ok(style) = ProgressStyle::with_template("{elapsed:>5} {bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Shows the present step.
    pub fn say(&self, what: String) {
        self.0.set_message(what);
    }

    /// Completes a step.
    pub fn next(&self) {
        self.0.inc(1);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
