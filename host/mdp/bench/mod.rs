//! The benchmarks of the sources: their models, per method, beside what they measured.

pub mod huge_grid;
pub mod scaling;
pub mod slip_grids;
pub mod table_6_1;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::backend::Stop;
use super::dynamic::Dynamic;
use super::error::SolveError;
use super::options::{BlockDivided, Limits, Method, Precision, Reorder, SolveOptions, Storage, Target};
use super::solution::Run;
use super::solve::run;
use crate::runtime::choose::DeviceChoice;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions {
    /// Where.
    pub device: DeviceChoice,
    /// In which precision.
    pub precision: Precision,
    /// θ of the methods of the sources; ε of our value iteration beside policy iteration.
    pub theta: f64,
    /// How value iteration stores the model on a GPU.
    pub storage: Option<Storage>,
    /// Whether it passes over states that cannot have changed.
    pub skip: bool,
    /// Bytes of a GPU's memory to use at most.
    pub device_memory: Option<u64>,
    /// Runs per model and method.
    pub runs: usize,
}

impl BenchOptions {
    /// What a solver is asked for.
    fn solve(&self, method: Method, blocks: BlockDivided) -> SolveOptions {
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
            blocks,
        }
    }
}

/// Runs a method several times from its start, then times sweeps like the last.
struct Repeat {
    limits: Limits,
    theta: f64,
    /// Where value iteration stops.
    stop: Stop,
    runs: usize,
    warm_up: bool,
    /// Sweeps that are timed together, besides the runs; none if 0.
    timed_sweeps: u32,
}

/// What came of it.
struct Repeated {
    /// The last run.
    run: Run,
    values: Vec<f64>,
    times: Vec<Duration>,
    /// Times of as many sweeps as are timed together, if any.
    sweep_times: Vec<Duration>,
    sweep_bytes: u64,
}

impl Repeat {
    /// Runs only, to θ.
    fn new(solve: &SolveOptions, options: &BenchOptions) -> Self {
        let warm_up = solve.device != DeviceChoice::Cpu && solve.method.is_some_and(|method| method.places().gpu);
        let (theta, runs) = (options.theta, options.runs.max(1));
        Self { limits: solve.limits, theta, stop: Stop::Change(theta), runs, warm_up, timed_sweeps: 0 }
    }

    /// Sweeps, none of which is skipped: no residual is below 0.
    fn sweep(backend: &mut Dynamic, sweeps: u32) -> Result<(), SolveError> {
        match backend {
            Dynamic::Values(backend) => {
                backend.reset(None)?;
                backend.backup(Stop::Change(0.0), sweeps).map(|_| ())
            }
            Dynamic::Policies(backend) => backend.evaluate(0.0, sweeps).map(|_| ()),
            Dynamic::Modified(backend) => backend.evaluate(0.0, sweeps).map(|_| ()),
        }
    }

    /// Measures a backend.
    fn measure(&self, mut backend: Dynamic) -> Result<Repeated, SolveError> {
        let mut once = || {
            backend.state().reset(None)?;
            run(&mut backend, self.stop, self.theta, &self.limits, &mut |_| ControlFlow::Continue(()))
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
        let values = backend.state().values()?;
        // Two lengths, so that what an evaluation does besides sweeping drops out of the difference.
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
        Ok(Repeated { run, values, times, sweep_times, sweep_bytes: backend.state().sweep_bytes()? })
    }
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
