//! The time of the phases of a command.

use std::time::Instant;

/// Measures one phase after the other.
#[derive(Clone, Copy)]
pub struct Watch(Instant);

impl Watch {
    /// Begins the first phase.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The seconds of the present phase so far.
    pub fn elapsed(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    /// Ends a phase and begins the next. Returns the seconds of the phase that ended.
    pub fn lap(&mut self) -> f64 {
        let begun = std::mem::replace(&mut self.0, Instant::now());
        (self.0 - begun).as_secs_f64()
    }
}
