//! The benchmark of the source: policy iteration on six slip grids, per method.
//!
//! Aydin, *Policy Iteration on the GPU* (2025), Tables 5.4 (the grids), 5.5 and 5.7 (times).

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::certificate::{Certificate, certify, certify_centred};
use super::dispatch::{Job, SolveError, stop, with_backend};
use super::generate::SlipGrid;
use super::model::Mdp;
use super::options::{DeviceChoice, Method, Precision, SolveOptions};
use super::solve::{
    Backup, Evaluate, Limits, PARTIAL_SWEEPS, Run, State, Status, Stop, Target, modified_policy_iteration,
    policy_iteration, value_iteration,
};

use crate::backend::device::Storage;

/// A grid of Table 5.4, with the times that the source gives for it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// G1 to G6.
    pub name: &'static str,
    /// Cells in a row and in a column.
    pub side: u32,
    /// Fraction of walls.
    pub walls: f64,
    /// Fraction of obstacles.
    pub obstacles: f64,
    /// γ.
    pub gamma: f64,
    /// Milliseconds of its serial version on an AMD EPYC 9634.
    pub source_serial_ms: f64,
    /// Milliseconds of its plain CUDA version on an NVIDIA L4.
    pub source_plain_ms: f64,
    /// Milliseconds of its projected version on an NVIDIA H100.
    pub source_projected_ms: f64,
}

/// The six grids. All have slip 0.1 and seed 42.
pub const CASES: [Case; 6] = [
    case("G1", 512, 0.0, 0.0, 0.9, [21002.0, 8469.0, 1950.0]),
    case("G2", 1024, 0.0, 0.0, 0.9, [94778.0, 46350.0, 6580.0]),
    case("G3", 1024, 0.0, 0.0, 0.95, [377_828.0, 199_024.0, 27242.0]),
    case("G4", 1024, 0.3, 0.1, 0.9, [62919.0, 33393.0, 811.0]),
    case("G5", 1024, 0.4, 0.1, 0.9, [1268.0, 623.0, 75.0]),
    case("G6", 2048, 0.0, 0.0, 0.9, [402_002.0, 191_833.0, 45591.0]),
];

const fn case(name: &'static str, side: u32, walls: f64, obstacles: f64, gamma: f64, source_ms: [f64; 3]) -> Case {
    let [source_serial_ms, source_plain_ms, source_projected_ms] = source_ms;
    Case { name, side, walls, obstacles, gamma, source_serial_ms, source_plain_ms, source_projected_ms }
}

impl Case {
    /// Its model.
    ///
    /// # Errors
    /// None for the cases of the table.
    pub fn generate(&self) -> Result<Mdp, super::generate::Error> {
        SlipGrid {
            width: self.side,
            height: self.side,
            wall_fraction: self.walls,
            obstacle_fraction: self.obstacles,
            gamma: self.gamma,
            ..SlipGrid::default()
        }
        .generate()
    }

    /// What the source gives for a method: milliseconds, and on what.
    #[must_use]
    pub fn source_ms(&self, method: Method) -> Option<(f64, &'static str)> {
        match method {
            Method::Serial => Some((self.source_serial_ms, "EPYC 9634")),
            Method::Plain => Some((self.source_plain_ms, "L4")),
            Method::Projected => Some((self.source_projected_ms, "H100")),
            _ => None,
        }
    }
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions {
    /// Where.
    pub device: DeviceChoice,
    /// In which precision.
    pub precision: Precision,
    /// θ of the methods of the source; ε of value iteration.
    pub theta: f64,
    /// How value iteration stores the model on a GPU.
    pub storage: Option<Storage>,
    /// Whether it passes over states that cannot have changed.
    pub skip: bool,
    /// Runs per case and method; the times are medians.
    pub runs: usize,
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The grid.
    pub case: Case,
    /// The method.
    pub method: Method,
    /// The precision.
    pub precision: Precision,
    /// The device, in words.
    pub device: String,
    /// How the last run ended.
    pub status: Status,
    /// Policies evaluated.
    pub policies: usize,
    /// Sweeps in all.
    pub sweeps: u64,
    /// Median time of a run, from V = 0 with the model on the device, to the stable policy; milliseconds.
    pub milliseconds: f64,
    /// Fastest and slowest run.
    pub range_ms: (f64, f64),
    /// Time to convert the model and to bring it to the device, in the first run; milliseconds.
    pub setup_ms: f64,
    /// Median time of a sweep with the last policy; microseconds.
    pub sweep_us: f64,
    /// Bytes that a sweep cannot do without: each input read once and each output written once.
    pub sweep_bytes: u64,
    /// What is guaranteed about V of the last run.
    pub certificate: Certificate,
}

/// Sweeps that are timed together: far from where values no longer change.
const TIMED_SWEEPS: u32 = 48;

/// Measures one method on one model.
///
/// # Errors
/// As [`solve_with`](super::solve_with).
pub fn measure(case: &Case, mdp: &Mdp, method: Method, options: &BenchOptions) -> Result<Measured, SolveError> {
    let target = Target::Theta(options.theta);
    let limits = Limits { target, max_sweeps: 10_000, max_policies: 10_000, tie: options.precision.default_tie() };
    let solve = SolveOptions {
        storage: options.storage,
        skip: options.skip,
        method: Some(method),
        device: options.device,
        precision: options.precision,
        limits,
        ..SolveOptions::default()
    };
    let warm_up = method.places().gpu;
    // The methods of the source stop by its rule, ours where the error is certain.
    let target = if method == Method::Values { Target::Epsilon(options.theta) } else { target };
    let stop = stop(mdp, target);
    let repeat = Repeat { limits, theta: options.theta, stop, runs: options.runs.max(1), warm_up };
    let done = with_backend(mdp, &solve, repeat)?;
    let Repeated { run, mut values, mut times, mut sweep_times, sweep_bytes } = done.result;
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let milliseconds = |time: Duration| 1e3 * time.as_secs_f64();
    Ok(Measured {
        case: *case,
        method,
        precision: options.precision,
        device: done.device,
        status: run.status,
        policies: run.rounds.len(),
        sweeps: run.sweeps(),
        milliseconds: milliseconds(median(&mut times)),
        range_ms: (milliseconds(times[0]), milliseconds(times[times.len() - 1])),
        setup_ms: milliseconds(done.setup),
        sweep_us: 1e3 * milliseconds(median(&mut sweep_times)) / f64::from(TIMED_SWEEPS),
        sweep_bytes,
        certificate: match target {
            Target::Epsilon(_) => certify_centred(mdp, &mut values),
            Target::Theta(_) => certify(mdp, &values),
        },
    })
}

/// Runs policy iteration several times from its start, then times sweeps of the policy it ended with.
struct Repeat {
    limits: Limits,
    theta: f64,
    stop: Stop,
    runs: usize,
    warm_up: bool,
}

struct Repeated {
    run: Run,
    values: Vec<f64>,
    times: Vec<Duration>,
    sweep_times: Vec<Duration>,
    sweep_bytes: u64,
}

impl Job for Repeat {
    type Result = Repeated;

    fn policies<B: Evaluate>(self, backend: B) -> Result<Repeated, SolveError>
    where
        SolveError: From<B::Error>,
    {
        let run = |backend: &mut B| policy_iteration(backend, self.theta, &self.limits, |_| ControlFlow::Continue(()));
        // No residual is below 0: none of these sweeps is skipped.
        Ok(self.repeat(backend, run, |backend, sweeps| backend.evaluate(0.0, sweeps).map(|_| ()))?)
    }

    fn modified<B: Backup + Evaluate>(self, backend: B) -> Result<Repeated, SolveError>
    where
        SolveError: From<B::Error>,
    {
        let stop = Stop::Change(self.theta);
        let run = |backend: &mut B| {
            modified_policy_iteration(backend, stop, PARTIAL_SWEEPS, &self.limits, |_| ControlFlow::Continue(()))
        };
        Ok(self.repeat(backend, run, |backend, sweeps| backend.evaluate(0.0, sweeps).map(|_| ()))?)
    }

    fn values<B: Backup>(self, backend: B) -> Result<Repeated, SolveError>
    where
        SolveError: From<B::Error>,
    {
        let run = |backend: &mut B| value_iteration(backend, self.stop, &self.limits, |_| ControlFlow::Continue(()));
        let sweep = |backend: &mut B, sweeps| {
            backend.reset(None)?;
            backend.backup(Stop::Change(0.0), sweeps).map(|_| ())
        };
        Ok(self.repeat(backend, run, sweep)?)
    }
}

impl Repeat {
    fn repeat<B: State>(
        &self,
        mut backend: B,
        mut run_once: impl FnMut(&mut B) -> Result<Run, B::Error>,
        mut sweep: impl FnMut(&mut B, u32) -> Result<(), B::Error>,
    ) -> Result<Repeated, B::Error> {
        let mut once = || {
            backend.reset(None)?;
            run_once(&mut backend)
        };
        if self.warm_up {
            once()?;
        }
        let mut run = once()?;
        let mut times = vec![run.elapsed];
        for _ in 1..self.runs {
            run = once()?;
            times.push(run.elapsed);
        }
        let values = backend.values()?;
        // Two lengths, so that what an evaluation does besides sweeping drops out of the difference.
        let mut timed = |sweeps| {
            let start = Instant::now();
            sweep(&mut backend, sweeps).map(|()| start.elapsed())
        };
        let mut sweep_times = Vec::new();
        for _ in 0..self.runs {
            let (short, long) = (timed(TIMED_SWEEPS)?, timed(2 * TIMED_SWEEPS)?);
            sweep_times.push(long.saturating_sub(short));
        }
        Ok(Repeated { run, values, times, sweep_times, sweep_bytes: backend.sweep_bytes()? })
    }
}
