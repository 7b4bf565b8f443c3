//! Runs a test in several orders of blocks and threads.

use std::fmt;

use super::{Emulator, Schedule};

/// The first error of [`Emulator::explore`], and the order in which it happened.
///
/// ```
/// # use warpkov_device::device::atomic::{Ordering, Scope};
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::*;
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn last(x: GlobalMut<u32>) {
///     atomic::store((x, 0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
/// }
///
/// let last_wins = |device: &Emulator| -> Result<(), String> {
///     let mut x = device.zeros(1).map_err(|error| error.to_string())?;
///     // SAFETY: `x` has one element.
///     unsafe { last(device, Shape::new(1, 32), &mut x) }.map_err(|error| error.to_string())?;
///     let found = device.to_vec(&x).map_err(|error| error.to_string())?[0];
///     if found == 31 { Ok(()) } else { Err(format!("thread {found} was the last")) }
/// };
/// let Explored { schedule, error } = Emulator::explore(10, last_wins).unwrap_err();
/// assert_eq!((schedule, error.as_str()), (Schedule::Reversed, "thread 0 was the last"));
/// ```
#[derive(thiserror::Error)]
#[error("{error}\n  found by Emulator::explore under Schedule::{schedule:?}")]
pub struct Explored<E: fmt::Display> {
    /// The order. A run of the test on `Emulator::new(schedule)` repeats the error.
    pub schedule: Schedule,
    /// The error.
    pub error: E,
}

/// The report, which `expect` and tests that return an error print by `Debug`.
impl<E: fmt::Display> fmt::Debug for Explored<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names the order if the test panics.
struct Running(Schedule);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("Emulator::explore: a panic under Schedule::{:?}", self.0);
        }
    }
}

impl Emulator {
    /// Runs `test` on emulators of up to `orders` orders of blocks and threads: ascending, descending, then random and
    /// interleaved ones; the first in any case. After it, it stops if threads have not
    /// [communicated](Self::communicated), because every order then gives the same result.
    ///
    /// # Errors
    /// The first error of `test`, with its order. If `test` panics, the order is printed.
    ///
    /// # Examples
    /// The place in a list that each thread gets depends on the order:
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// use warpkov_device::device::{GlobalMut, atomic, kernel, thread};
    /// use warpkov_device::emulator::{Emulator, Schedule};
    /// use warpkov_device::launch::{Device, Shape};
    ///
    /// #[kernel]
    /// fn append(len: GlobalMut<u32>, list: GlobalMut<u32>) {
    ///     let place = atomic::add((len, 0), 1);
    ///     list.set(place, thread::thread_idx_x());
    /// }
    ///
    /// fn ascends(device: &Emulator) -> Result<(), Box<dyn Error>> {
    ///     let (mut len, mut list) = (device.zeros(1)?, device.zeros(64)?);
    ///     // SAFETY: `len` has one element, `list` one per thread.
    ///     unsafe { append(device, Shape::new(1, 64), &mut len, &mut list) }?;
    ///     if device.to_vec(&list)?.is_sorted() { Ok(()) } else { Err("the list does not ascend".into()) }
    /// }
    ///
    /// let error = Emulator::explore(10, ascends).unwrap_err();
    /// assert_eq!(error.schedule, Schedule::Reversed);
    /// ```
    pub fn explore<E: fmt::Display>(
        orders: u64,
        mut test: impl FnMut(&Self) -> Result<(), E>,
    ) -> Result<(), Explored<E>> {
        let random = (1..).flat_map(|seed| [Schedule::Random(seed), Schedule::Interleaved(seed)]);
        let schedules = [Schedule::RoundRobin, Schedule::Reversed].into_iter().chain(random);
        for (_, schedule) in (0..orders.max(1)).zip(schedules) {
            let (emulator, running) = (Self::new(schedule), Running(schedule));
            let result = test(&emulator);
            drop(running);
            result.map_err(|error| Explored { schedule, error })?;
            if !emulator.communicated() {
                break;
            }
        }
        Ok(())
    }
}
