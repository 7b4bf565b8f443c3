//! Benchmarks of the sources: their models, measured per method, next to the published results.

pub mod block_sizes;
pub mod huge_grid;
pub mod plot;
pub mod scaling;
pub mod slip_grids;
pub mod table_6_1;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use warpkov_mdp::backend::Stop;
use warpkov_mdp::backends::dynamic::Dynamic;
use warpkov_mdp::error::SolveError;
use warpkov_mdp::options::{Limits, Method, Precision, Reorder, SolveOptions, Storage, Target};
use warpkov_mdp::solution::Run;
use warpkov_mdp::solve::certify::run_once;
use warpkov_mdp::solve::place::Placement;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::gpu::energy;

use crate::used::{Used, used};

/// Options of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions {
    /// Device.
    pub device: DeviceChoice,
    /// Floating-point type.
    pub precision: Precision,
    /// θ for the methods of the sources; ε for value iteration in the policy iteration benchmark.
    pub theta: f64,
    /// Layout of value iteration on a GPU; `None` chooses the smallest.
    pub storage: Option<Storage>,
    /// Whether value iteration skips states whose value cannot have changed.
    pub skip: bool,
    /// Maximum GPU memory in bytes.
    pub device_memory: Option<u64>,
    /// Number of timed runs per model and method.
    pub runs: usize,
    /// Whether the energy of GPUs is measured, in more runs that take about three seconds.
    pub energy: bool,
    /// Whether one more run is measured kernel by kernel.
    pub kernels: bool,
}

impl BenchOptions {
    /// The options of a solve by `method`.
    fn solve(&self, method: Method) -> SolveOptions {
        let target = Target::Theta(self.theta);
        let limits = Limits { target, max_sweeps: 10_000, max_policies: 10_000, tie: self.precision.default_tie() };
        SolveOptions {
            method: Some(method),
            device: self.device,
            precision: self.precision,
            storage: self.storage,
            skip: self.skip,
            device_memory: self.device_memory,
            reorder: Reorder::None,
            limits,
            ..SolveOptions::default()
        }
    }
}

/// Runs a method several times from its start, then times evaluation or greedy sweeps.
struct Repeat {
    limits: Limits,
    gamma: f64,
    theta: f64,
    /// Stopping rule of value iteration.
    stop: Stop,
    runs: usize,
    warm_up: bool,
    /// Sweeps per sweep timing; 0 disables it.
    timed_sweeps: u32,
    /// The GPU whose energy is measured.
    energy_of: Option<u32>,
}

/// Result of [`Repeat::measure`].
struct Repeated {
    /// The last run.
    run: Run,
    values: Vec<f64>,
    times: Vec<Duration>,
    /// Times of `timed_sweeps` sweeps; empty if disabled.
    sweep_times: Vec<Duration>,
    sweep_bytes: u64,
    /// Energy of the whole GPU during a run, in joules.
    joules: Option<f64>,
}

/// Time before the energy is measured, so that clocks and the counter follow, and the time in which it is.
const ENERGY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

impl Repeat {
    /// Runs to θ, without sweep timing.
    fn new(place: &Placement, gamma: f64, solve: &SolveOptions, options: &BenchOptions) -> Self {
        let warm_up = solve.device != DeviceChoice::Cpu && solve.method.is_some_and(|method| method.places().gpu);
        let (theta, runs) = (options.theta, options.runs.max(1));
        let energy_of = place.gpu().filter(|_| options.energy);
        let (limits, stop) = (solve.limits, Stop::Change(theta));
        Self { limits, gamma, theta, stop, runs, warm_up, timed_sweeps: 0, energy_of }
    }

    /// Runs `sweeps` sweeps; the bound 0 is never met, so none returns early.
    fn sweep(backend: &mut Dynamic, sweeps: u32) -> Result<(), SolveError> {
        match backend {
            Dynamic::Values(backend) => {
                backend.reset(None)?;
                backend.backup(Stop::Change(0.0), sweeps).map(|_| ())
            }
            Dynamic::Policies(backend) => backend.evaluate(0.0, sweeps).map(|_| ()),
            Dynamic::Modified(backend) => {
                backend.reset(None)?;
                backend.evaluate(0.0, sweeps).map(|_| ())
            }
        }
    }

    /// What a run uses of a GPU, if `options` ask for it.
    fn used(&self, place: &Placement, options: &BenchOptions) -> Result<Option<Used>, SolveError> {
        let once = Self { runs: 1, warm_up: false, timed_sweeps: 0, energy_of: None, ..*self };
        used(options.kernels, || once.measure(place.open()?.0).and_then(|_| place.synchronize()))
    }

    /// Measures a backend: a warm-up on GPUs, the runs, and the sweep timing.
    fn measure(&self, mut backend: Dynamic) -> Result<Repeated, SolveError> {
        let mut once = || {
            backend.state().reset(None)?;
            run_once(&mut backend, self.gamma, self.stop, self.theta, &self.limits, &mut |_, _| {
                Ok(ControlFlow::Continue(()))
            })
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
        let mut joules = None;
        if let Some(ordinal) = self.energy_of {
            let mut repeated = |time: Duration| -> Result<u32, SolveError> {
                let (begun, mut runs) = (Instant::now(), 0);
                while begun.elapsed() < time {
                    once()?;
                    runs += 1;
                }
                Ok(runs)
            };
            repeated(ENERGY[0])?;
            let before = energy(ordinal);
            let runs = repeated(ENERGY[1])?;
            joules = energy(ordinal).zip(before).map(|(after, before)| (after - before) / f64::from(runs));
        }
        let values = backend.state().values()?;
        // The difference of two lengths cancels the fixed costs of an evaluation.
        let mut timed = |sweeps| {
            let start = Instant::now();
            Self::sweep(&mut backend, sweeps).map(|()| start.elapsed())
        };
        let mut sweep_times = Vec::new();
        if self.timed_sweeps > 0 {
            for _ in 0..self.runs {
                let (short, long) = (timed(self.timed_sweeps)?, timed(2 * self.timed_sweeps)?);
                sweep_times.push(long.saturating_sub(short));
            }
        }
        Ok(Repeated { run, values, times, sweep_times, sweep_bytes: backend.state().sweep_bytes()?, joules })
    }
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
