//! Chapter 14: a grid world on several devices.

use std::marker::PhantomData;
use std::mem;

use warpkov_device::launch::Device;

use crate::budget::Budget;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};
use crate::recorded::{Record, Recorded};

/// Sweeps of a run.
const SWEEPS: usize = 4;

/// The discount factor.
pub const GAMMA: f32 = 0.875;

/// A device's rows of the grid.
pub struct Part<D: Device> {
    /// Rows of the part, at least two.
    pub rows: u32,
    /// Rewards: rows × width, as all buffers but the last four.
    pub rewards: D::Buffer<f32>,
    /// The values before a sweep.
    pub values: D::Buffer<f32>,
    /// The values after it.
    pub next: D::Buffer<f32>,
    /// A copy of the part's first row of `next`: width elements.
    pub top: D::Buffer<f32>,
    /// A copy of the part's last row of `next`.
    pub bottom: D::Buffer<f32>,
    /// The row above the part, of the values before the sweep; at the top of the grid, the part's own first row.
    pub above: D::Buffer<f32>,
    /// The row below the part; at the bottom of the grid, the part's own last row.
    pub below: D::Buffer<f32>,
}

/// What the student launches.
pub trait SeveralGpus {
    /// One sweep of value iteration on all parts: computes `next` from `values`, and exchanges what the next sweep needs in
    /// `above` and `below`. The harness swaps `values` and `next` afterwards.
    ///
    /// # Errors
    /// Those of the devices.
    fn sweep<D: Device>(devices: &[D], width: u32, parts: &mut [Part<D>]) -> Result<(), D::Error>;
}

/// Checks a [`SeveralGpus`].
pub struct Check<S>(PhantomData<S>);

/// Width of a grid of this height.
fn width(height: usize) -> usize {
    if height < 1000 { 256 } else { 4096 }
}

/// V'(s) = r(s) + γ max V(s'), over the four neighbours s'; a wall leads back to s.
fn sweep(width: usize, rewards: &[f32], values: &[f32]) -> Vec<f32> {
    let height = values.len() / width;
    let value = |row: usize, column: usize| values[row * width + column];
    let next = |s: usize| {
        let (row, column) = (s / width, s % width);
        let vertical = value(row.saturating_sub(1), column).max(value((row + 1).min(height - 1), column));
        let horizontal = value(row, column.saturating_sub(1)).max(value(row, (column + 1).min(width - 1)));
        rewards[s] + GAMMA * vertical.max(horizontal)
    };
    (0..values.len()).map(next).collect()
}

/// The rows of each part: as equal as possible.
fn parts(height: usize, count: usize) -> Vec<usize> {
    (0..count).map(|i| height * (i + 1) / count - height * i / count).collect()
}

fn solve<S: SeveralGpus, D: Device>(lab: &Lab<'_, D>, part: usize, height: usize, count: usize) -> Result<(), Failure> {
    let width = width(height);
    // Eighths: a few sweeps are exact in f32.
    let rewards: Vec<f32> = lab.integers(width * height, 64, 0).into_iter().map(|r| r as f32 / 8.0).collect();
    let start: Vec<f32> = lab.integers(width * height, 64, 1).into_iter().map(|v| v as f32 / 8.0).collect();
    let mut expected = start.clone();
    for _ in 0..SWEEPS {
        expected = sweep(width, &rewards, &expected);
    }

    let record = Record::default();
    let devices: Vec<_> = lab.devices[..count]
        .iter()
        .enumerate()
        .map(|(number, device)| Recorded::new(device, number, &record))
        .collect();
    let (mut all, mut first) = (Vec::with_capacity(count), 0);
    for (device, rows) in devices.iter().zip(parts(height, count)) {
        let row = |row: usize| &start[row * width..][..width];
        let cells = first * width..(first + rows) * width;
        all.push(Part {
            rows: rows as u32,
            rewards: device.upload(&rewards[cells.clone()])?,
            values: device.upload(&start[cells.clone()])?,
            next: device.uninitialised(cells.len())?,
            top: device.uninitialised(width)?,
            bottom: device.uninitialised(width)?,
            above: device.upload(row(first.saturating_sub(1)))?,
            below: device.upload(row((first + rows).min(height - 1)))?,
        });
        first += rows;
    }
    record.clear();
    sweeps::<S, _>(&devices, width, &mut all)?;
    let mut found = Vec::with_capacity(start.len());
    for (device, part) in lab.devices.iter().zip(&all) {
        found.extend(device.to_vec(&part.values)?);
    }
    lab.equal("V", &found, &expected)?;
    let operations = Traffic::of(&record);
    if part == 0 {
        operations.check_elements(width, count)?
    } else {
        operations.check_overlap(height, count)?
    }
    if count == lab.devices.len() && lab.is_timed() {
        // The clock is that of the first device; the sweeps end when the host has waited for all of them.
        lab.launch(|_| sweeps::<S, _>(&devices, width, &mut all))?;
    }
    Ok(())
}

/// Sweeps, until all devices are done.
fn sweeps<S: SeveralGpus, D: Device>(devices: &[D], width: usize, parts: &mut [Part<D>]) -> Result<(), D::Error> {
    for _ in 0..SWEEPS {
        S::sweep(devices, width as u32, parts)?;
        parts.iter_mut().for_each(|part| mem::swap(&mut part.values, &mut part.next));
    }
    devices.iter().try_for_each(Device::synchronize)
}

/// What the devices exchanged in a run.
struct Traffic {
    downloaded: usize,
    uploaded: usize,
    beside: u64,
    threads: u64,
}

impl Traffic {
    fn of(record: &Record) -> Self {
        let (beside, threads) = record.beside_travel();
        Self { downloaded: record.downloaded(), uploaded: record.uploaded(), beside, threads }
    }

    /// Each boundary between two parts sends a row each way. The ends of the grid may send their own row to themselves.
    fn check_elements(&self, width: usize, count: usize) -> Result<(), Failure> {
        let (found, limit) = (self.downloaded.max(self.uploaded) / SWEEPS, 2 * count * width);
        if found <= limit {
            return Ok(());
        }
        Err(Failure::Wrong(format!(
            "{count} devices: {found} elements travel in each sweep; at most {limit}, two rows for each device, are needed"
        )))
    }

    /// The inner rows of a part do not wait for its neighbours.
    fn check_overlap(&self, height: usize, count: usize) -> Result<(), Failure> {
        // Threads beyond the grid's cells: the blocks of a launch are whole.
        let inner = (height - 2 * count) as f64 / height as f64;
        let found = self.beside as f64 / self.threads.max(1) as f64;
        if found >= 0.75 * inner {
            return Ok(());
        }
        Err(Failure::Wrong(format!(
            "{count} devices: {:.0} % of the threads are launched while rows travel; {:.0} % of the cells need no row of a \
             neighbour",
            100.0 * found,
            100.0 * inner
        )))
    }
}

impl<S: SeveralGpus> Exercise for Check<S> {
    const PARTS: &'static [&'static str] = &["only the halo travels", "the inner rows while the halo travels"];
    const COPIES: bool = true;
    const DEVICES: usize = 3;

    fn sizes(part: usize) -> Vec<usize> {
        if part == 0 { vec![6, 7, 24] } else { vec![24, 31] }
    }

    fn counted(_: usize) -> usize {
        48
    }

    fn timed(_: usize) -> usize {
        3072
    }

    fn run<D: Device>(lab: &Lab<'_, D>, part: usize, height: usize) -> Result<(), Failure> {
        (2..=lab.devices.len()).try_for_each(|count| solve::<S, D>(lab, part, height, count))
    }

    fn budgets(_: usize) -> Vec<Budget> {
        Vec::new()
    }

    fn work(_: usize, height: usize) -> Work {
        // A sweep reads the rewards and the values, and writes the new values.
        let cells = (SWEEPS * height * width(height)) as f64;
        Work { bytes: 12.0 * cells, flops: 5.0 * cells }
    }
}
