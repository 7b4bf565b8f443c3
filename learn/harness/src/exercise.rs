//! What a chapter states about its exercise.

use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::compiled::CodeBudget;
use crate::lab::{Failure, Lab};

/// The work that a launch cannot avoid, for rates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Bytes that have to pass between the GPU and its memory.
    pub bytes: f64,
    /// Floating-point operations.
    pub flops: f64,
}

/// An exercise, checked part by part.
pub trait Exercise {
    /// What each part is about. A part is checked once the parts before it pass.
    const PARTS: &'static [&'static str];

    /// The number of devices, all of one kind: [`Lab::devices`].
    const DEVICES: usize = 1;

    /// Whether a launch may copy between host and device.
    const COPIES: bool = false;

    /// The sizes at which the emulator runs a part, among them awkward ones.
    fn sizes(part: usize) -> Vec<usize>;

    /// The size at which the emulator counts, and which it draws.
    fn counted(part: usize) -> usize;

    /// The size at which a GPU is timed.
    fn timed(part: usize) -> usize;

    /// Makes inputs of this size, calls the student's launch within [`Lab::launch`], and compares its results with those
    /// of the host.
    ///
    /// # Errors
    /// The device reports an error, or a result is wrong.
    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, size: usize) -> Result<(), Failure>;

    /// Limits on what the emulator counts at size [`counted`](Self::counted).
    fn budgets(part: usize) -> Vec<Budget>;

    /// Limits on the compiled code. They are checked where the program has GPU code.
    fn compiled(_part: usize) -> Vec<CodeBudget> {
        Vec::new()
    }

    /// The work of a launch of this size.
    fn work(part: usize, size: usize) -> Work;
}
