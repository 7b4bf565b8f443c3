//! Time per greedy sweep against model size, next to the limits of the device: launch latency and the time to copy the
//! bytes of a sweep.

use std::time::{Duration, Instant};
use warpkov_runtime::device::AnyDevice;

use serde::Serialize;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::primitives::copy::copy;

use super::milliseconds;
use warpkov_mdp::backend::{GreedySweeps, State, Stop};
use warpkov_mdp::backends::device::{SweepLayout, ValueIteration};
use warpkov_mdp::error::SolveError;
use warpkov_mdp::generate::{self, Garnet, SlipGrid};
use warpkov_mdp::model::Mdp;
use warpkov_mdp::options::{Precision, Storage};
use warpkov_runtime::Precise;

/// A family of models of any size. γ = 0.99, so that values keep changing during the timed sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Square slip grids.
    Grid,
    /// Random models with 4 actions and 5 uniform successors each.
    Garnet,
    /// Random models with 4 actions of 1 to 1000 successors; P(at least k successors) = 1/k.
    PowerLaw,
}

/// All families.
pub const FAMILIES: [Family; 3] = [Family::Grid, Family::Garnet, Family::PowerLaw];

const GAMMA: f64 = 0.99;

impl Family {
    /// Name on the command line and in plots.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Garnet => "garnet",
            Self::PowerLaw => "power-law",
        }
    }

    /// The layouts to measure; `None` chooses the smallest.
    #[must_use]
    pub fn storages(self) -> &'static [Option<Storage>] {
        match self {
            Self::Grid => &[Some(Storage::Slices), None],
            Self::Garnet | Self::PowerLaw => &[None],
        }
    }

    /// A model with about `nnz` nonzeros.
    ///
    /// # Errors
    /// If the model does not fit in memory.
    pub fn model(self, nnz: f64) -> Result<Mdp, generate::Error> {
        /// Longest rows of the power law.
        const LONGEST: u32 = 1000;
        let garnet =
            |per_state: f64| Garnet { states: (nnz / per_state).max(8.0) as u64, gamma: GAMMA, ..Garnet::default() };
        match self {
            Self::Grid => {
                // Three nonzeros for each of four actions.
                let side = (nnz / 12.0).sqrt().round().max(2.0) as u32;
                SlipGrid { width: side, height: side, gamma: GAMMA, ..SlipGrid::default() }.generate()
            }
            Self::Garnet => garnet(20.0).generate(),
            Self::PowerLaw => {
                let mean: f64 = (1..=LONGEST).map(|k| f64::from(k).recip()).sum();
                let garnet = garnet(4.0 * mean);
                Garnet { power_law: true, branching: u64::from(LONGEST).min(garnet.states) as u32, ..garnet }.generate()
            }
        }
    }
}

/// Options of the scaling benchmark.
#[derive(Clone, Copy, Debug)]
pub struct ScalingOptions {
    /// Whether V is in f64 instead of f32.
    pub wide: bool,
    /// Nonzeros of the largest models.
    pub largest: f64,
    /// Timings per model; the result is their median.
    pub runs: usize,
}

impl ScalingOptions {
    /// Model sizes in nonzeros, ascending: half-decades from about 10⁵ to the largest.
    #[must_use]
    pub fn sizes(&self) -> Vec<f64> {
        let mut sizes = vec![self.largest];
        while let Some(&last) = sizes.last().filter(|&&last| last > 2e5) {
            sizes.push(last / 10f64.sqrt());
        }
        sizes.reverse();
        sizes
    }
}

/// Measurement of one model in one layout.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Family of the model.
    pub family: Family,
    /// Layout.
    pub storage: Storage,
    /// Whether the benchmark requested the layout; otherwise it is the smallest that fits.
    pub chosen: bool,
    /// S.
    pub states: u32,
    /// Nonzeros of P.
    pub nnz: usize,
    /// Median time of a sweep over all states, in batches without host synchronisation; microseconds.
    pub sweep_us: f64,
    /// Minimum memory traffic of a sweep in bytes: the model read once, V read and written once.
    pub sweep_bytes: u64,
    /// `sweep_bytes` per sweep time; 10⁹ bytes per second.
    pub gbps: f64,
}

/// Results of the scaling benchmark.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scaling {
    /// Description of the device.
    pub device: String,
    /// Precision of V.
    pub precision: String,
    /// Copy bandwidth of the device, bytes read plus bytes written; 10⁹ bytes per second.
    pub copy_gbps: f64,
    /// Bytes of the copied vector.
    pub copy_bytes: u64,
    /// Time of a sweep over 16 states, the launch latency; microseconds.
    pub launch_us: f64,
    /// The measurements, grouped by family and layout, by ascending size.
    pub points: Vec<Point>,
    /// Skipped models, with reasons.
    pub notes: Vec<String>,
}

/// Progress of the benchmark.
pub enum Event<'a> {
    /// The device limits have been measured.
    Device(&'a Scaling),
    /// The model of a family with this many nonzeros is being generated.
    Making(Family, f64),
    /// A model has been measured.
    Point(&'a Point),
}

/// Why the benchmark failed.
#[derive(Debug, thiserror::Error)]
pub enum ScalingError {
    /// A model cannot be generated.
    #[error(transparent)]
    Generate(#[from] generate::Error),
    /// The device cannot be used.
    #[error(transparent)]
    Solve(#[from] SolveError),
}

/// Measures models of `families` and reports progress to `observe`. Skips models that do not fit on the device.
///
/// # Errors
/// Errors of the device, and models that do not fit in host memory.
pub fn measure(
    device: &AnyDevice,
    families: &[Family],
    options: &ScalingOptions,
    observe: &mut dyn FnMut(Event),
) -> Result<Scaling, ScalingError> {
    // On a GPU 2³⁰ bytes, far beyond the caches.
    let copied = if device.gpu().is_some() { 1 << 30 } else { 1 << 10 };
    let on = On { device, copied, observe };
    match options.wide {
        true => on.measure::<f64>(families, options),
        false => on.measure::<f32>(families, options),
    }
}

/// A device to measure on.
struct On<'a> {
    device: &'a AnyDevice,
    /// Bytes of the vector for the copy bandwidth.
    copied: usize,
    observe: &'a mut dyn FnMut(Event),
}

impl On<'_> {
    fn measure<T: Precise>(self, families: &[Family], options: &ScalingOptions) -> Result<Scaling, ScalingError> {
        let runs = options.runs.max(1);
        let precision = if options.wide { Precision::F64 } else { Precision::F32 };
        let mut scaling = Scaling {
            device: self.device.name(),
            precision: precision.to_string(),
            copy_gbps: self.copy(runs)?,
            copy_bytes: self.copied as u64,
            ..Scaling::default()
        };
        let tiny = Family::Grid.model(12.0 * 16.0)?;
        let layout = sweep_layout(&tiny, Some(Storage::Slices))?;
        scaling.launch_us = self.point::<T>(Family::Grid, &tiny, &layout, false, runs)?.sweep_us;
        (self.observe)(Event::Device(&scaling));
        for &family in families {
            for nnz in options.sizes() {
                (self.observe)(Event::Making(family, nnz));
                let mdp = family.model(nnz)?;
                let before = scaling.points.len();
                for &storage in family.storages() {
                    let layout = sweep_layout(&mdp, storage)?;
                    let bytes = if layout.is_wide() { layout.bytes::<T, u64>() } else { layout.bytes::<T, u32>() };
                    if let Err(error) = self.device.reserve(bytes, "the model") {
                        scaling.notes.push(format!(
                            "{} with {} nonzeros: {error}",
                            family.name(),
                            mdp.transitions().nnz()
                        ));
                        continue;
                    }
                    let point = self.point::<T>(family, &mdp, &layout, storage.is_some(), runs)?;
                    (self.observe)(Event::Point(&point));
                    scaling.points.push(point);
                }
                if scaling.points.len() == before {
                    break;
                }
            }
        }
        // Group by family and layout; the sort is stable and keeps ascending sizes.
        scaling.points.sort_by_key(|point| (families.iter().position(|f| *f == point.family), !point.chosen));
        Ok(scaling)
    }

    /// Measures the copy bandwidth in 10⁹ bytes per second.
    fn copy(&self, runs: usize) -> Result<f64, SolveError> {
        /// Copies per timing.
        const COPIES: usize = 16;
        let elements = self.copied / size_of::<f32>();
        let (source, mut target) = (self.device.zeros::<f32>(elements)?, self.device.zeros::<f32>(elements)?);
        let quads = (elements / 4) as u32;
        let shape = Shape::grid_stride(quads.into(), 512);
        let mut timed = || {
            let start = Instant::now();
            for _ in 0..COPIES {
                copy(self.device, shape, quads, &source, &mut target)?;
            }
            self.device.synchronize().map(|()| start.elapsed())
        };
        timed()?;
        let times = (0..runs).map(|_| timed()).collect::<Result<Vec<_>, _>>()?;
        Ok((2 * COPIES * self.copied) as f64 / median(times).as_secs_f64() / 1e9)
    }

    fn point<T: Precise>(
        &self,
        family: Family,
        mdp: &Mdp,
        layout: &SweepLayout,
        chosen: bool,
        runs: usize,
    ) -> Result<Point, SolveError> {
        let nnz = mdp.transitions().nnz();
        // Sweeps take a few µs for small models and some ms for large ones.
        let sweeps = (1_000_000_000 / nnz.max(1)).clamp(8, 128) as u32;
        let (time, sweep_bytes) = if layout.is_wide() {
            sweep_time(ValueIteration::<T, u64>::new(self.device, layout)?, sweeps, runs)?
        } else {
            sweep_time(ValueIteration::<T, u32>::new(self.device, layout)?, sweeps, runs)?
        };
        let sweep_us = 1e3 * milliseconds(time) / f64::from(sweeps);
        let gbps = sweep_bytes as f64 / sweep_us / 1e3;
        Ok(Point { family, storage: layout.storage(), chosen, states: mdp.states(), nnz, sweep_us, sweep_bytes, gbps })
    }
}

/// The model in the requested layout, without skipping, so that every sweep reads all of it.
fn sweep_layout(mdp: &Mdp, storage: Option<Storage>) -> Result<SweepLayout<'_>, SolveError> {
    let layout = SweepLayout::new(mdp, storage).ok_or(SolveError::Storage(storage.unwrap_or(Storage::Rows)))?;
    Ok(layout.without_skipping())
}

/// Median time of `sweeps` sweeps from V = 0 without the fixed costs of a batch, and the bytes of a sweep.
fn sweep_time<B: GreedySweeps + State>(mut backend: B, sweeps: u32, runs: usize) -> Result<(Duration, u64), B::Error> {
    let mut timed = |sweeps| {
        backend.reset(None)?;
        let start = Instant::now();
        // The bound 0 is never met, so all sweeps are done.
        backend.backup(Stop::Change(0.0), sweeps).map(|_| start.elapsed())
    };
    timed(sweeps)?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let (short, long) = (timed(sweeps)?, timed(2 * sweeps)?);
        times.push(long.saturating_sub(short));
    }
    Ok((median(times), backend.sweep_bytes()?))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_half_decades_up_to_the_largest() {
        let sizes = |largest| {
            let options = ScalingOptions { wide: false, largest, runs: 1 };
            options.sizes()
        };
        assert_eq!(sizes(400.0), [400.0]);
        let all = sizes(1e9);
        assert_eq!((all.len(), all[8]), (9, 1e9));
        assert!((all[0] - 1e5).abs() < 1.0 && (all[4] - 1e7).abs() < 10.0, "{all:?}");
    }

    #[test]
    fn models_have_about_as_many_entries_as_asked_for() {
        for family in FAMILIES {
            let nnz = family.model(300_000.0).unwrap().transitions().nnz() as f64;
            assert!((nnz / 300_000.0 - 1.0).abs() < 0.1, "{}: {nnz}", family.name());
        }
    }
}
