//! What the run of an exercise has: a device, inputs, comparisons, and a clock.

use std::cell::Cell;
use std::error::Error;
use std::fmt::{self, Display};
use std::slice;
use std::time::Duration;

use warpkov_device::launch::Device;

use crate::recorded::Record;

/// Why a run does not pass.
#[derive(Debug)]
pub enum Failure {
    /// The device reports an error: a fault on the emulator, or an error of the driver.
    Device(String),
    /// A result is wrong.
    Wrong(String),
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Device(text) | Self::Wrong(text)) = self;
        f.write_str(text)
    }
}

/// Errors of devices. `Failure` itself must not be an error, so that this does not overlap with `From<T> for T`.
impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Device(error.to_string())
    }
}

/// Work for a device, and the time that it takes.
pub type Timer<'a, E> = &'a dyn Fn(&mut dyn FnMut() -> Result<(), E>) -> Result<Duration, E>;

/// A device and what an exercise needs beside it.
pub struct Lab<'a, D: Device> {
    /// The device.
    pub device: &'a D,
    /// All devices; `device` is the first.
    pub devices: &'a [D],
    timer: Option<Timer<'a, D::Error>>,
    time: Cell<Duration>,
    record: Option<&'a Record>,
    copied: Cell<usize>,
}

impl<'a, D: Device> Lab<'a, D> {
    /// A laboratory whose launches run once.
    pub fn new(device: &'a D) -> Self {
        Self::several(slice::from_ref(device))
    }

    /// A laboratory of several devices, whose launches run once.
    ///
    /// # Panics
    /// If there is no device.
    pub fn several(devices: &'a [D]) -> Self {
        let (time, copied) = (Cell::default(), Cell::default());
        Self { device: &devices[0], devices, timer: None, time, record: None, copied }
    }

    /// A laboratory of devices that record what they are asked to do.
    ///
    /// # Panics
    /// If there is no device.
    pub fn recorded(devices: &'a [D], record: &'a Record) -> Self {
        Self { record: Some(record), ..Self::several(devices) }
    }

    /// A laboratory that repeats launches and measures their time.
    ///
    /// # Panics
    /// If there is no device.
    pub fn timed(devices: &'a [D], timer: Timer<'a, D::Error>) -> Self {
        Self { timer: Some(timer), ..Self::several(devices) }
    }

    /// Whether launches are repeated and their time is measured.
    pub fn is_timed(&self) -> bool {
        self.timer.is_some()
    }

    /// The time of the last [`launch`](Self::launch), zero if it was not measured.
    pub fn time(&self) -> Duration {
        self.time.get()
    }

    /// Elements that launches have copied between host and device, if the devices [record](Self::recorded) that.
    pub fn copied(&self) -> usize {
        self.copied.get()
    }

    /// Runs the student's launch: once, or many times if time is measured. A launch must give the same result each time.
    ///
    /// # Errors
    /// Those of the launch.
    pub fn launch(&self, mut launch: impl FnMut(&D) -> Result<(), D::Error>) -> Result<(), Failure> {
        let copied = || self.record.map_or(0, Record::copied);
        let before = copied();
        match self.timer {
            None => launch(self.device)?,
            Some(timer) => self.time.set(timer(&mut || launch(self.device))?),
        }
        self.copied.set(self.copied.get() + copied() - before);
        Ok(())
    }

    /// `n` numbers in [−1, 1), the same for the same `stream`.
    pub fn floats(&self, n: usize, stream: u64) -> Vec<f32> {
        // 24 bits: an f32 represents them exactly.
        self.integers(n, 1 << 24, stream).into_iter().map(|bits| bits as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    /// `n` integers below `bound`, the same for the same `stream`.
    pub fn integers(&self, n: usize, bound: u32, stream: u64) -> Vec<u32> {
        let mut state = stream.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ n as u64;
        (0..n).map(|_| ((u64::from((split_mix(&mut state) >> 32) as u32) * u64::from(bound)) >> 32) as u32).collect()
    }

    /// Compares results that must be equal.
    ///
    /// # Errors
    /// The first element that differs.
    pub fn equal<T: PartialEq + Display>(&self, name: &str, found: &[T], expected: &[T]) -> Result<(), Failure> {
        self.compare(name, found, expected, |found, expected| found == expected)
    }

    /// Compares results that must agree within `tolerance`·(1 + |expected|).
    ///
    /// # Errors
    /// The first element that differs.
    pub fn close(&self, name: &str, found: &[f32], expected: &[f64], tolerance: f64) -> Result<(), Failure> {
        let found: Vec<f64> = found.iter().map(|&x| f64::from(x)).collect();
        // NaN fails the comparison.
        self.compare(name, &found, expected, |found, expected| {
            (found - expected).abs() <= tolerance * (1.0 + expected.abs())
        })
    }

    /// Compares results that must agree within a bound for each element, such as one from an analysis of rounding.
    ///
    /// # Errors
    /// The first element that differs by more.
    pub fn within(&self, name: &str, found: &[f32], expected: &[f64], bounds: &[f64]) -> Result<(), Failure> {
        let differences: Vec<f64> = found.iter().zip(expected).map(|(&x, y)| (f64::from(x) - y).abs()).collect();
        // NaN is not within the bound.
        let wrong =
            differences.iter().zip(bounds).position(|(difference, bound)| difference.is_nan() || difference > bound);
        if found.len() != expected.len() || bounds.len() != expected.len() {
            let text = format!("{name} has {} elements, expected {}", found.len(), expected.len());
            return Err(Failure::Wrong(text));
        }
        let Some(i) = wrong else { return Ok(()) };
        let (found, expected, bound) = (found[i], expected[i], bounds[i]);
        Err(Failure::Wrong(format!(
            "{name}[{i}] is {found}, expected {expected:.6} with an error of at most {bound:.1e}"
        )))
    }

    fn compare<T: Display>(
        &self,
        name: &str,
        found: &[T],
        expected: &[T],
        same: impl Fn(&T, &T) -> bool,
    ) -> Result<(), Failure> {
        if found.len() != expected.len() {
            let text = format!("{name} has {} elements, expected {}", found.len(), expected.len());
            return Err(Failure::Wrong(text));
        }
        let mut wrong = found.iter().zip(expected).enumerate().filter(|(_, (found, expected))| !same(found, expected));
        let Some((i, (first, right))) = wrong.next() else { return Ok(()) };
        let count = 1 + wrong.count();
        Err(Failure::Wrong(format!(
            "{name}[{i}] is {first}, expected {right} ({count} of {} elements are wrong)",
            expected.len()
        )))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
