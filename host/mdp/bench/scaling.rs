//! The time of a greedy sweep against the size of the model, beside what the device allows: the time that a launch takes
//! at least, and the time in which it copies as many bytes as the sweep has to move.

use std::time::{Duration, Instant};

use serde::Serialize;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::primitives::copy::copy;

use super::milliseconds;
use crate::mdp::backend::{GreedySweeps, State, Stop};
use crate::mdp::device::{SweepLayout, ValueIteration};
use crate::mdp::error::SolveError;
use crate::mdp::generate::{self, Garnet, SlipGrid};
use crate::mdp::model::Mdp;
use crate::mdp::options::{Precision, Storage};
use crate::runtime::Precise;
use crate::runtime::choose::KernelDevice;
use crate::runtime::gpu::CudaError;

/// A family of models of all sizes. γ is 0.99, so that values change for longer than sweeps are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Square slip grids.
    Grid,
    /// Random models: 4 actions of 5 successors each, anywhere.
    Garnet,
    /// Random models: 4 actions of 1 to 1000 successors each, k or more of them with probability 1/k.
    PowerLaw,
}

/// All families.
pub const FAMILIES: [Family; 3] = [Family::Grid, Family::Garnet, Family::PowerLaw];

const GAMMA: f64 = 0.99;

impl Family {
    /// Its name on the command line and in plots.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Garnet => "garnet",
            Self::PowerLaw => "power-law",
        }
    }

    /// How its models are stored, each of them measured; `None` is the smallest way that there is.
    #[must_use]
    pub fn storages(self) -> &'static [Option<Storage>] {
        match self {
            Self::Grid => &[Some(Storage::Slices), None],
            Self::Garnet | Self::PowerLaw => &[None],
        }
    }

    /// A model with about `nnz` entries.
    ///
    /// # Errors
    /// If it does not fit in memory.
    pub fn model(self, nnz: f64) -> Result<Mdp, generate::Error> {
        /// The longest rows of the power law.
        const LONGEST: u32 = 1000;
        let garnet =
            |per_state: f64| Garnet { states: (nnz / per_state).max(8.0) as u32, gamma: GAMMA, ..Garnet::default() };
        match self {
            Self::Grid => {
                // Three entries for each of four actions.
                let side = (nnz / 12.0).sqrt().round().max(2.0) as u32;
                SlipGrid { width: side, height: side, gamma: GAMMA, ..SlipGrid::default() }.generate()
            }
            Self::Garnet => garnet(20.0).generate(),
            Self::PowerLaw => {
                let mean: f64 = (1..=LONGEST).map(|k| f64::from(k).recip()).sum();
                let garnet = garnet(4.0 * mean);
                Garnet { power_law: true, branching: LONGEST.min(garnet.states), ..garnet }.generate()
            }
        }
    }
}

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct ScalingOptions {
    /// Whether in f64, or else in f32.
    pub wide: bool,
    /// Entries of the largest models.
    pub largest: f64,
    /// Times that are taken of each model, of which the median counts.
    pub runs: usize,
}

impl ScalingOptions {
    /// Sizes of models, ascending: half-decades down from the largest, to 10⁵.
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

/// One model in one layout.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The family.
    pub family: Family,
    /// How it is stored.
    pub storage: Storage,
    /// Whether that was asked for; else it is the smallest way that the model has.
    pub chosen: bool,
    /// S.
    pub states: u32,
    /// Entries of P.
    pub nnz: usize,
    /// Median time of a sweep over all states, of many that are launched together; microseconds.
    pub sweep_us: f64,
    /// Bytes that a sweep must move: the model read once, V read and written once.
    pub sweep_bytes: u64,
    /// Those bytes in that time; 10⁹ bytes per second.
    pub gbps: f64,
}

/// All that was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scaling {
    /// The device, in words.
    pub device: String,
    /// The precision.
    pub precision: String,
    /// What the device copies, bytes read and bytes written; 10⁹ bytes per second.
    pub copy_gbps: f64,
    /// Bytes of the vector that was copied.
    pub copy_bytes: u64,
    /// Time of a sweep over a model of 16 states: what a launch takes; microseconds.
    pub launch_us: f64,
    /// All models, those of a family and a layout by ascending size.
    pub points: Vec<Point>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// What happens as it is measured.
pub enum Event<'a> {
    /// The device has been measured.
    Device(&'a Scaling),
    /// A model is being made.
    Making(Family, f64),
    /// A model has been measured.
    Point(&'a Point),
}

/// Why there is nothing.
#[derive(Debug, thiserror::Error)]
pub enum ScalingError {
    /// A model cannot be made.
    #[error(transparent)]
    Generate(#[from] generate::Error),
    /// The device cannot be used.
    #[error(transparent)]
    Solve(#[from] SolveError),
}

/// Measures models of these families, and tells `observe` as it goes. Sizes that do not fit on the device are left out.
///
/// # Errors
/// Those of the device, and of models that do not fit in the memory of the host.
pub fn measure(
    device: &KernelDevice,
    families: &[Family],
    options: &ScalingOptions,
    observe: &mut dyn FnMut(Event),
) -> Result<Scaling, ScalingError> {
    fn typed<D: Device>(on: On<D>, families: &[Family], options: &ScalingOptions) -> Result<Scaling, ScalingError>
    where
        SolveError: From<D::Error>,
    {
        match options.wide {
            true => on.measure::<f64>(families, options),
            false => on.measure::<f32>(families, options),
        }
    }
    let name = device.name();
    match device {
        KernelDevice::Emulated(device) => {
            let on = On { device, name: &name, copied: 1 << 10, reserve: &|_| Ok(()), observe };
            typed(on, families, options)
        }
        KernelDevice::Gpu(device) => {
            let reserve = |bytes| device.reserve(bytes, "the model");
            // 2³⁰ bytes: far more than caches hold.
            let on = On { device, name: &name, copied: 1 << 30, reserve: &reserve, observe };
            typed(on, families, options)
        }
    }
}

/// A device to measure on.
struct On<'a, D: Device> {
    device: &'a D,
    name: &'a str,
    /// Bytes of the vector to copy.
    copied: usize,
    /// Whether so many bytes of device memory are free.
    reserve: &'a dyn Fn(u64) -> Result<(), CudaError>,
    observe: &'a mut dyn FnMut(Event),
}

impl<D: Device> On<'_, D>
where
    SolveError: From<D::Error>,
{
    fn measure<T: Precise>(self, families: &[Family], options: &ScalingOptions) -> Result<Scaling, ScalingError> {
        let runs = options.runs.max(1);
        let precision = if options.wide { Precision::F64 } else { Precision::F32 };
        let mut scaling = Scaling {
            device: self.name.to_owned(),
            precision: precision.to_string(),
            copy_gbps: self.copy(runs)?,
            copy_bytes: self.copied as u64,
            ..Scaling::default()
        };
        let tiny = Family::Grid.model(12.0 * 16.0)?;
        let plan = laid_out(&tiny, Some(Storage::Slices))?;
        scaling.launch_us = self.point::<T>(Family::Grid, &tiny, &plan, false, runs)?.sweep_us;
        (self.observe)(Event::Device(&scaling));
        for &family in families {
            for nnz in options.sizes() {
                (self.observe)(Event::Making(family, nnz));
                let mdp = family.model(nnz)?;
                let before = scaling.points.len();
                for &storage in family.storages() {
                    let plan = laid_out(&mdp, storage)?;
                    let bytes = if plan.is_wide() { plan.bytes::<T, u64>() } else { plan.bytes::<T, u32>() };
                    if let Err(error) = (self.reserve)(bytes) {
                        scaling.notes.push(format!(
                            "{} with {} entries: {error}",
                            family.name(),
                            mdp.transitions().nnz()
                        ));
                        continue;
                    }
                    let point = self.point::<T>(family, &mdp, &plan, storage.is_some(), runs)?;
                    (self.observe)(Event::Point(&point));
                    scaling.points.push(point);
                }
                if scaling.points.len() == before {
                    break;
                }
            }
        }
        // One line after the other: by layout first, then by size.
        scaling.points.sort_by_key(|point| (families.iter().position(|f| *f == point.family), !point.chosen));
        Ok(scaling)
    }

    /// 10⁹ bytes per second that the device copies.
    fn copy(&self, runs: usize) -> Result<f64, SolveError> {
        /// Copies that are timed together.
        const COPIES: usize = 16;
        let elements = self.copied / size_of::<f32>();
        let (source, mut target) = (self.device.zeros::<f32>(elements)?, self.device.zeros::<f32>(elements)?);
        let quads = (elements / 4) as u32;
        let shape = Shape::grid_stride(quads.into(), 512);
        let mut timed = || {
            let start = Instant::now();
            for _ in 0..COPIES {
                // SAFETY: both vectors have four elements per quad.
                unsafe { copy(self.device, shape, quads, &source, &mut target)? };
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
        plan: &SweepLayout,
        chosen: bool,
        runs: usize,
    ) -> Result<Point, SolveError> {
        let nnz = mdp.transitions().nnz();
        // Small models take a few µs, large ones some ms.
        let sweeps = (1_000_000_000 / nnz.max(1)).clamp(8, 128) as u32;
        let (time, sweep_bytes) = if plan.is_wide() {
            sweep_time(ValueIteration::<T, u64, D>::new(self.device, plan)?, sweeps, runs)?
        } else {
            sweep_time(ValueIteration::<T, u32, D>::new(self.device, plan)?, sweeps, runs)?
        };
        let sweep_us = 1e3 * milliseconds(time) / f64::from(sweeps);
        let gbps = sweep_bytes as f64 / sweep_us / 1e3;
        Ok(Point { family, storage: plan.storage(), chosen, states: mdp.states(), nnz, sweep_us, sweep_bytes, gbps })
    }
}

/// The model in the layout asked for; every sweep is to read all of it.
fn laid_out(mdp: &Mdp, storage: Option<Storage>) -> Result<SweepLayout<'_>, SolveError> {
    let plan = SweepLayout::new(mdp, storage).ok_or(SolveError::Storage(storage.unwrap_or(Storage::Rows)))?;
    Ok(plan.without_skipping())
}

/// Median time of `sweeps` sweeps from V = 0, without what a batch of sweeps takes besides; and the bytes of a sweep.
fn sweep_time<B: GreedySweeps + State>(mut backend: B, sweeps: u32, runs: usize) -> Result<(Duration, u64), B::Error> {
    let mut timed = |sweeps| {
        backend.reset(None)?;
        let start = Instant::now();
        // No change is below 0: all of these sweeps are done.
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
