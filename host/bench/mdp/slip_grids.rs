//! Policy iteration on six slip grids, per method.
//!
//! Aydin, *Policy Iteration on the GPU* (2025), Tables 5.4 (the grids), 5.5 and 5.7 (times).

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{BenchOptions, Repeat, Repeated};
use crate::used::{Used, joules_per_1e9};
use warpkov_common::choice::Choice;
use warpkov_common::plot::panels::{Panel, Panels};
use warpkov_mdp::backend::Attempt;
use warpkov_mdp::certificate::{Certificate, certify, certify_centred};
use warpkov_mdp::error::SolveError;
use warpkov_mdp::generate::{self, SlipGrid};
use warpkov_mdp::model::Mdp;
use warpkov_mdp::options::{Method, Precision, Target};
use warpkov_mdp::solution::Status;
use warpkov_mdp::solve::certify::stop;
use warpkov_mdp::solve::place::Placement;

/// A published time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedTime {
    /// The method.
    pub method: &'static str,
    /// The hardware.
    pub device: &'static str,
    /// Milliseconds.
    pub milliseconds: f64,
}

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
    /// Tables 5.5 and 5.7: serial, plain, and projected on four GPUs.
    pub source: [PublishedTime; 6],
}

/// The six grids. All have slip 0.1 and seed 42.
pub const CASES: [Case; 6] = [
    case("G1", 512, 0.0, 0.0, 0.9, [21_002.0, 8_469.0, 1_456.0, 2_500.0, 1_729.0, 1_950.0]),
    case("G2", 1024, 0.0, 0.0, 0.9, [94_778.0, 46_350.0, 5_191.0, 13_989.0, 6_758.0, 6_580.0]),
    case("G3", 1024, 0.0, 0.0, 0.95, [377_828.0, 199_024.0, 21_217.0, 57_912.0, 27_527.0, 27_242.0]),
    case("G4", 1024, 0.3, 0.1, 0.9, [62_919.0, 33_393.0, 615.0, 1_876.0, 888.0, 811.0]),
    case("G5", 1024, 0.4, 0.1, 0.9, [1_268.0, 623.0, 82.0, 101.0, 50.0, 75.0]),
    case("G6", 2048, 0.0, 0.0, 0.9, [402_002.0, 191_833.0, 19_992.0, 51_752.0, 48_737.0, 45_591.0]),
];

const fn case(name: &'static str, side: u32, walls: f64, obstacles: f64, gamma: f64, source_ms: [f64; 6]) -> Case {
    const fn published(method: &'static str, device: &'static str, milliseconds: f64) -> PublishedTime {
        PublishedTime { method, device, milliseconds }
    }
    let [serial, plain, l40s, v100, l4, h100] = source_ms;
    let source = [
        published("serial", "EPYC 9634", serial),
        published("plain", "L4", plain),
        published("projected", "L40s", l40s),
        published("projected", "V100", v100),
        published("projected", "L4", l4),
        published("projected", "H100", h100),
    ];
    Case { name, side, walls, obstacles, gamma, source }
}

impl Case {
    /// The model of the grid; if `connected`, with a way to the goal from every cell.
    ///
    /// # Errors
    /// None for the cases of the table.
    pub fn generate(&self, connected: bool) -> Result<Mdp, generate::Error> {
        SlipGrid {
            width: self.side,
            height: self.side,
            walls: self.walls,
            obstacles: self.obstacles,
            connected,
            gamma: self.gamma,
            ..SlipGrid::default()
        }
        .generate()
    }

    /// The published time of a method, on the last GPU of the table.
    #[must_use]
    pub fn published(&self, method: Method) -> Option<PublishedTime> {
        self.source.into_iter().rfind(|published| published.method == method.name())
    }

    /// Tables 5.6 and 5.8: the published speed-up over the serial version.
    #[must_use]
    pub fn speed_up(&self, published: &PublishedTime) -> f64 {
        self.source[0].milliseconds / published.milliseconds
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
    /// Speed-up over the serial method in the same precision, if that was measured.
    pub speed_up: Option<f64>,
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
    /// Number of backups of a state in a run.
    pub backups: u64,
    /// The kernels and the memory of a run, if they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// Certificate of V of the last run.
    pub certificate: Certificate,
}

fn label<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&method.label())
}

/// Sweeps per timing; few enough that values still change.
const TIMED_SWEEPS: u32 = 48;

/// Measures one method on one model. `measured` has the results of the benchmark so far.
///
/// # Errors
/// As [`Solve::run`](warpkov_mdp::Solve::run).
pub fn measure(
    case: &Case,
    mdp: &Mdp,
    method: Method,
    options: &BenchOptions,
    measured: &[Measured],
) -> Result<Measured, SolveError> {
    let solve = options.solve(method);
    // The methods of the source use its stopping rule; value iteration stops at a certified error.
    let target = if method == Method::Values { Target::Epsilon(options.theta) } else { solve.limits.target };
    let timed_sweeps = if method == Method::Krylov { 0 } else { TIMED_SWEEPS };
    let stop = stop(mdp, target, Attempt::FIRST);
    let place = Placement::choose(mdp, &solve)?;
    let repeat = Repeat { timed_sweeps, stop, ..Repeat::new(&place, mdp.gamma(), &solve, options) };
    let (backend, setup, _) = place.open()?;
    let Repeated { run, mut values, mut times, mut sweep_times, sweep_bytes, joules } = repeat.measure(backend)?;
    let backups = run.sweeps() * u64::from(mdp.states());
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let milliseconds = super::milliseconds(median(&mut times));
    let is_serial = |other: &&Measured| other.method == Method::Serial && other.precision == options.precision;
    let serial = measured.iter().find(|other| other.case.name == case.name && is_serial(other));
    Ok(Measured {
        case: *case,
        method,
        precision: options.precision,
        device: place.device.clone(),
        status: run.status,
        policies: run.rounds.len(),
        sweeps: run.sweeps(),
        milliseconds,
        speed_up: serial.map(|serial| serial.milliseconds / milliseconds),
        range_ms: (super::milliseconds(times[0]), super::milliseconds(times[times.len() - 1])),
        setup_ms: super::milliseconds(setup),
        sweep_us: (timed_sweeps > 0)
            .then(|| 1e3 * super::milliseconds(median(&mut sweep_times)) / f64::from(timed_sweeps)),
        sweep_bytes,
        joules: joules_per_1e9(joules, backups),
        backups,
        used: repeat.used(&place, options)?,
        certificate: match target {
            Target::Epsilon(_) => certify_centred(mdp, &mut values),
            Target::Theta(_) => certify(mdp, &values),
        },
    })
}

/// Figures 5.1 to 5.4 with the measured times: times, and speed-ups over serial.
#[must_use]
pub fn figures(all: &[Measured]) -> Panels {
    let mut times = Panel::new("ms (Figures 5.1 and 5.3)", true);
    let mut speed_ups = Panel::new("speed-up over serial (Figures 5.2 and 5.4)", true);
    for measured in all {
        let name = format!("{}, {}", measured.method.label(), measured.precision);
        times.add(&name, false, measured.case.name, measured.milliseconds);
        if let Some(speed_up) = measured.speed_up {
            speed_ups.add(&name, false, measured.case.name, speed_up);
        }
    }
    for case in all.iter().map(|measured| measured.case) {
        for published in &case.source {
            let name = format!("{}, {} (2025)", published.method, published.device);
            times.add(&name, true, case.name, published.milliseconds);
            speed_ups.add(&name, true, case.name, case.speed_up(published));
        }
    }
    let title = "Policy iteration on slip grids; thin: Aydin (2025), Tables 5.5 to 5.8".to_owned();
    Panels { title, panels: vec![times, speed_ups] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpkov_mdp::options::Spmv;

    /// Tables 5.6 and 5.8 round the quotients of Tables 5.5 and 5.7, but for a tenth.
    #[test]
    fn speed_ups_are_those_of_the_source() {
        let table = [
            [2.50, 14.4, 8.4, 12.14, 10.8],
            [2.04, 18.3, 6.8, 14.02, 14.4],
            [1.89, 17.8, 6.5, 13.73, 13.9],
            [1.88, 102.3, 33.5, 70.85, 77.6],
            [2.03, 15.5, 12.6, 25.36, 16.9],
            [2.10, 20.1, 7.8, 8.25, 8.8],
        ];
        for (case, line) in CASES.iter().zip(table) {
            for (published, expected) in case.source[1..].iter().zip(line) {
                let found = case.speed_up(published);
                assert!((found / expected - 1.0).abs() < 0.01, "{} {published:?}: {found} {expected}", case.name);
            }
        }
        assert_eq!(CASES[0].published(Method::Plain).map(|published| published.device), Some("L4"));
        assert_eq!(CASES[0].published(Method::Projected(Spmv::Own)).map(|published| published.device), Some("H100"));
        assert_eq!(CASES[0].published(Method::Values), None);
    }
}
