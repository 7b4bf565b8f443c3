//! Policy iteration on six slip grids, per method.
//!
//! Aydin, *Policy Iteration on the GPU* (2025), Tables 5.4 (the grids), 5.5 and 5.7 (times).

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{BenchOptions, Repeat, Repeated, milliseconds};
use warpkov_mdp::backend::Attempt;
use warpkov_mdp::certificate::{Certificate, certify, certify_centred};
use warpkov_mdp::error::SolveError;
use warpkov_mdp::generate::{self, SlipGrid};
use warpkov_mdp::model::Mdp;
use warpkov_mdp::options::{Method, Precision, Target};
use warpkov_mdp::solution::Status;
use warpkov_mdp::solve::certify::stop;
use warpkov_mdp::solve::place::Placement;

/// A grid of Table 5.4 with the published times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// Name, G1 to G6.
    pub name: &'static str,
    /// Columns and rows of the grid.
    pub side: u32,
    /// Fraction of walls.
    pub walls: f64,
    /// Fraction of obstacles.
    pub obstacles: f64,
    /// γ.
    pub gamma: f64,
    /// Published milliseconds of the serial version on an AMD EPYC 9634.
    pub source_serial_ms: f64,
    /// Published milliseconds of the plain CUDA version on an NVIDIA L4.
    pub source_plain_ms: f64,
    /// Published milliseconds of the projected version on an NVIDIA H100.
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
    /// The model of the grid.
    ///
    /// # Errors
    /// None for the cases of the table.
    pub fn generate(&self) -> Result<Mdp, generate::Error> {
        SlipGrid {
            width: self.side,
            height: self.side,
            walls: self.walls,
            obstacles: self.obstacles,
            gamma: self.gamma,
            ..SlipGrid::default()
        }
        .generate()
    }

    /// The published time of a method in milliseconds, and its hardware.
    #[must_use]
    pub fn source_ms(&self, method: Method) -> Option<(f64, &'static str)> {
        match method {
            Method::Serial => Some((self.source_serial_ms, "EPYC 9634")),
            Method::Plain => Some((self.source_plain_ms, "L4")),
            Method::Projected(_) => Some((self.source_projected_ms, "H100")),
            _ => None,
        }
    }
}

/// A row of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The grid.
    pub case: Case,
    /// The method.
    #[serde(serialize_with = "label")]
    pub method: Method,
    /// The precision.
    pub precision: Precision,
    /// Description of the device.
    pub device: String,
    /// How the last run ended.
    pub status: Status,
    /// Number of evaluated policies.
    pub policies: usize,
    /// Total number of sweeps.
    pub sweeps: u64,
    /// Median time per run from V = 0 with the model on the device to the stable policy; milliseconds.
    pub milliseconds: f64,
    /// Fastest and slowest run; milliseconds.
    pub range_ms: (f64, f64),
    /// Time to convert the model and transfer it to the device in the first run; milliseconds.
    pub setup_ms: f64,
    /// Median time per sweep with the last policy; microseconds. `None` for krylov, whose evaluations are not sweeps.
    pub sweep_us: Option<f64>,
    /// Minimum memory traffic of a sweep in bytes: each input read once, each output written once.
    pub sweep_bytes: u64,
    /// Energy of the whole GPU per 10⁹ backups of a state, in joules; `None` unless it was measured.
    pub joules: Option<f64>,
    /// Certificate of V of the last run.
    pub certificate: Certificate,
}

fn label<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&method.label())
}

/// Sweeps per timing; few enough that values still change.
const TIMED_SWEEPS: u32 = 48;

/// Measures one method on one model.
///
/// # Errors
/// As [`Solve::run`](warpkov_mdp::Solve::run).
pub fn measure(case: &Case, mdp: &Mdp, method: Method, options: &BenchOptions) -> Result<Measured, SolveError> {
    let solve = options.solve(method);
    // The methods of the source use its stopping rule; value iteration stops at a certified error.
    let target = if method == Method::Values { Target::Epsilon(options.theta) } else { solve.limits.target };
    let timed_sweeps = if method == Method::Krylov { 0 } else { TIMED_SWEEPS };
    let stop = stop(mdp, target, Attempt::FIRST);
    let repeat = Repeat { timed_sweeps, stop, ..Repeat::new(mdp.gamma(), &solve, options) };
    let place = Placement::choose(mdp, &solve)?;
    let (backend, setup, _) = place.open()?;
    let Repeated { run, mut values, mut times, mut sweep_times, sweep_bytes, joules } = repeat.measure(backend)?;
    let backups = run.sweeps() as f64 * f64::from(mdp.states());
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    Ok(Measured {
        case: *case,
        method,
        precision: options.precision,
        device: place.device.clone(),
        status: run.status,
        policies: run.rounds.len(),
        sweeps: run.sweeps(),
        milliseconds: milliseconds(median(&mut times)),
        range_ms: (milliseconds(times[0]), milliseconds(times[times.len() - 1])),
        setup_ms: milliseconds(setup),
        sweep_us: (timed_sweeps > 0).then(|| 1e3 * milliseconds(median(&mut sweep_times)) / f64::from(timed_sweeps)),
        sweep_bytes,
        joules: joules.map(|joules| 1e9 * joules / backups),
        certificate: match target {
            Target::Epsilon(_) => certify_centred(mdp, &mut values),
            Target::Theta(_) => certify(mdp, &values),
        },
    })
}
