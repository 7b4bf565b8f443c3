//! Value iteration on the twelve grid worlds of Jóhannsson, *GPU-Based Markov Decision Process Solver* (2009), Table
//! 6.1, per method, next to the speed-ups of Table 6.2; and the sweep counts of section 6.3 for decreasing locality.

use serde::Serialize;

use super::{BenchOptions, Repeat, Repeated, milliseconds};
use crate::used::{Used, joules_per_1e9};
use warpkov_common::plot::panels::{Panel, Panels};
use warpkov_mdp::certificate::{Certificate, certify};
use warpkov_mdp::error::SolveError;
use warpkov_mdp::generate::{Error, WetFloor};
use warpkov_mdp::model::Mdp;
use warpkov_mdp::options::{BlockDivided, Method, Precision, Spmv};
use warpkov_mdp::solution::Status;
use warpkov_mdp::solve::place::Placement;
use warpkov_runtime::choose::DeviceChoice;

/// A method under its name in the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Contender {
    /// Name in the benchmark.
    pub name: &'static str,
    /// The method.
    pub method: Method,
    /// Whether it runs on the CPU.
    pub on_cpu: bool,
}

const PLAIN: BlockDivided = BlockDivided::PLAIN;

/// The compared methods. The first is the baseline; a thread per action is future work of the source, and the last two are not in it.
pub const CONTENDERS: [Contender; 10] = [
    contender("sequential", Method::Sequential, true),
    contender("all cores", Method::Values, true),
    contender("result-divided", Method::ResultDivided, false),
    blocks("block-divided", PLAIN),
    blocks("+ buffering", BlockDivided { buffering: true, ..PLAIN }),
    blocks("+ prioritizing", BlockDivided { states_per_thread: 2, ..PLAIN }),
    blocks("+ both", BlockDivided { buffering: true, states_per_thread: 2, ..PLAIN }),
    blocks("+ by action", BlockDivided { by_action: true, ..PLAIN }),
    contender("values", Method::Values, false),
    contender("projected", Method::Projected(Spmv::Own), false),
];

const fn contender(name: &'static str, method: Method, on_cpu: bool) -> Contender {
    Contender { name, method, on_cpu }
}

const fn blocks(name: &'static str, parameters: BlockDivided) -> Contender {
    contender(name, Method::BlockDivided(parameters), false)
}

/// Speed-up relative to the sequential method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpeedUp {
    /// Of the time to convergence.
    pub convergence: f64,
    /// Of the time per sweep.
    pub sweep: f64,
}

/// A row of Table 6.2: a GeForce 8800 GTX against one core of a Core 2 Duo, both of 2007.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Name of the domain.
    pub name: &'static str,
    /// Block Divided Iteration, without enhancements.
    pub block_divided: SpeedUp,
    /// Result Divided Iteration.
    pub result_divided: SpeedUp,
}

/// Table 6.2 of the source.
pub const TABLE_6_2: [Published; 12] = [
    published("GW-64x64x1", [4.7, 9.0, 0.8, 1.3]),
    published("GW-64x64x2", [5.0, 10.4, 1.2, 2.0]),
    published("GW-64x64x4", [5.0, 11.5, 1.8, 2.8]),
    published("GW-256x256x1", [12.7, 17.0, 4.5, 5.2]),
    published("GW-256x256x2", [14.2, 28.1, 6.6, 8.3]),
    published("GW-512x512x1", [14.3, 18.6, 5.7, 6.1]),
    published("GW-256x256x4", [10.8, 31.6, 7.8, 10.8]),
    published("GW-512x512x2", [13.3, 28.8, 7.5, 8.9]),
    published("GW-1024x1024x1", [13.9, 18.3, 6.0, 6.2]),
    published("GW-512x512x4", [17.5, 50.5, 13.4, 17.9]),
    published("GW-1024x1024x2", [10.0, 29.2, 8.0, 9.3]),
    published("GW-1024x1024x4", [18.4, 51.8, 14.5, 19.1]),
];

const fn published(name: &'static str, [convergence, sweep, result_convergence, result_sweep]: [f64; 4]) -> Published {
    Published {
        name,
        block_divided: SpeedUp { convergence, sweep },
        result_divided: SpeedUp { convergence: result_convergence, sweep: result_sweep },
    }
}

impl Contender {
    /// The published speed-up for a domain.
    #[must_use]
    pub fn published(&self, domain: &str) -> Option<SpeedUp> {
        let line = TABLE_6_2.iter().find(|line| line.name == domain)?;
        match self.method {
            Method::ResultDivided => Some(line.result_divided),
            Method::BlockDivided(PLAIN) => Some(line.block_divided),
            _ => None,
        }
    }

    /// The benchmark options for this method.
    fn options(&self, options: &BenchOptions) -> BenchOptions {
        BenchOptions { device: if self.on_cpu { DeviceChoice::Cpu } else { options.device }, ..*options }
    }
}

/// A row of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Name of the domain, for example GW-64x64x1.
    pub domain: String,
    /// Table 6.1: its computational cost, states · actions · successors.
    pub cost: u64,
    /// The method.
    #[serde(flatten)]
    pub contender: Contender,
    /// The precision.
    pub precision: Precision,
    /// Description of the device.
    pub device: String,
    /// How the last run ended.
    pub status: Status,
    /// Sweeps per run.
    pub sweeps: u64,
    /// Mean time per run from V = 0 with the model on the device, without the fastest and the slowest run;
    /// milliseconds.
    pub milliseconds: f64,
    /// Fastest and slowest run; milliseconds.
    pub range_ms: (f64, f64),
    /// Mean time divided by the number of sweeps; microseconds.
    pub sweep_us: f64,
    /// Time to convert the model and transfer it to the device; milliseconds.
    pub setup_ms: f64,
    /// Speed-up over the sequential method, if measured.
    pub speed_up: Option<SpeedUp>,
    /// Published speed-up.
    pub published: Option<SpeedUp>,
    /// Number of backups of a state in a run.
    pub backups: u64,
    /// Energy of the whole GPU per 10⁹ backups of a state, in joules; `None` unless it was measured.
    pub joules: Option<f64>,
    /// The kernels and the memory of a run, if they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// Certificate of V of the last run.
    pub certificate: Certificate,
}

/// Measures one method on one domain. `baseline` is the result of the sequential method.
///
/// # Errors
/// As [`Solve::run`](warpkov_mdp::Solve::run).
pub fn measure(
    domain: &WetFloor,
    mdp: &Mdp,
    contender: &Contender,
    options: &BenchOptions,
    baseline: Option<&Measured>,
) -> Result<Measured, SolveError> {
    let options = contender.options(options);
    let solve = options.solve(contender.method);
    let place = Placement::choose(mdp, &solve)?;
    let (backend, setup, _) = place.open()?;
    let repeat = Repeat::new(&place, mdp.gamma(), &solve, &options);
    let Repeated { run, values, times, joules, .. } = repeat.measure(backend)?;
    let backups = run.sweeps() * u64::from(mdp.states());
    let mut times: Vec<f64> = times.into_iter().map(milliseconds).collect();
    times.sort_unstable_by(f64::total_cmp);
    let kept = if times.len() > 2 { &times[1..times.len() - 1] } else { &times[..] };
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let sweep_us = 1e3 * mean / run.sweeps() as f64;
    let (domain, cost) = (domain.name(), domain.cost());
    Ok(Measured {
        cost,
        contender: *contender,
        precision: options.precision,
        device: place.device.clone(),
        status: run.status,
        sweeps: run.sweeps(),
        milliseconds: mean,
        range_ms: (times[0], times[times.len() - 1]),
        sweep_us,
        setup_ms: milliseconds(setup),
        speed_up: baseline
            .map(|baseline| SpeedUp { convergence: baseline.milliseconds / mean, sweep: baseline.sweep_us / sweep_us }),
        published: contender.published(&domain),
        backups,
        joules: joules_per_1e9(joules, backups),
        used: repeat.used(&place, &options)?,
        certificate: certify(mdp, &values),
        domain,
    })
}

/// Fractions of redirected successors in section 6.3 of the source.
pub const REDIRECTED: [f64; 5] = [0.05, 0.1, 0.15, 0.3, 0.5];

/// The domain of section 6.3 in which the fraction `redirected` of the successors are random states.
///
/// # Errors
/// If `redirected` is not in [0, 1].
pub fn less_local(redirected: f64) -> Result<Mdp, Error> {
    WetFloor { redirected, ..WetFloor::new(256, 256, 1) }.generate()
}

/// Sweep count of a method for a given locality.
#[derive(Clone, Debug, Serialize)]
pub struct Locality {
    /// The method.
    #[serde(flatten)]
    pub contender: Contender,
    /// The precision.
    pub precision: Precision,
    /// The device, in words.
    pub device: String,
    /// Fraction of redirected successors.
    pub redirected: f64,
    /// Sweeps per run.
    pub sweeps: u64,
}

/// Counts the sweeps of one method on the model for `redirected`.
///
/// # Errors
/// As [`Solve::run`](warpkov_mdp::Solve::run).
pub fn count_sweeps(
    redirected: f64,
    mdp: &Mdp,
    contender: &Contender,
    options: &BenchOptions,
) -> Result<Locality, SolveError> {
    let options = BenchOptions { runs: 1, ..contender.options(options) };
    let solve = options.solve(contender.method);
    let place = Placement::choose(mdp, &solve)?;
    let once = Repeat { warm_up: false, ..Repeat::new(&place, mdp.gamma(), &solve, &options) };
    let Repeated { run, .. } = once.measure(place.open()?.0)?;
    let device = place.device.clone();
    Ok(Locality { contender: *contender, precision: options.precision, device, redirected, sweeps: run.sweeps() })
}

/// The means over all domains of the speed-ups of a contender, and of the published ones.
#[must_use]
pub fn means(of_contender: &[&Measured]) -> [Option<SpeedUp>; 2] {
    let mean = |of: fn(&Measured) -> Option<SpeedUp>| {
        let all = of_contender.iter().map(|measured| of(measured)).collect::<Option<Vec<_>>>()?;
        let mean = |part: fn(&SpeedUp) -> f64| all.iter().map(part).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| SpeedUp { convergence: mean(|up| up.convergence), sweep: mean(|up| up.sweep) })
    };
    [mean(|measured| measured.speed_up), mean(|measured| measured.published)]
}

/// Figures 6.1 to 6.7 with the measured numbers; domains by ascending cost. Of the source's, only Figure 6.5 has numbers (Table 6.2).
#[must_use]
pub fn figures(table: &[Measured], locality: &[Locality]) -> Panels {
    let mut table: Vec<_> = table.iter().collect();
    table.sort_by_key(|measured| measured.cost);
    type Value = fn(&Measured) -> f64;
    let of_all: [(&str, bool, Value); 5] = [
        ("ms (Figure 6.1)", false, |measured| measured.milliseconds),
        ("ms (Figure 6.2)", true, |measured| measured.milliseconds),
        ("sweeps (Figure 6.3)", false, |measured| measured.sweeps as f64),
        ("µs per sweep (Figure 6.4)", true, |measured| measured.sweep_us),
        ("ns per unit of cost (Figure 6.7)", true, |measured| 1e3 * measured.sweep_us / measured.cost as f64),
    ];
    let panel = |&(title, log, value): &(&str, bool, Value)| {
        let mut panel = Panel::new(title, log);
        for measured in &table {
            let name = format!("{}, {}", measured.contender.name, measured.precision);
            panel.add(&name, false, &measured.domain, value(measured));
        }
        panel
    };
    let mut panels: Vec<_> = of_all.iter().map(panel).collect();
    let mut speed_ups = Panel::new("speed-up over sequential (Figure 6.5)", true);
    for measured in &table {
        let name = format!("{}, {}", measured.contender.name, measured.precision);
        if let Some(SpeedUp { convergence, .. }) = measured.speed_up {
            speed_ups.add(&name, false, &measured.domain, convergence);
        }
        let Some(line) = TABLE_6_2.iter().find(|line| line.name == measured.domain) else { continue };
        for (name, of_source) in [("block-divided", line.block_divided), ("result-divided", line.result_divided)] {
            speed_ups.add(&format!("{name} (2009)"), true, line.name, of_source.convergence);
            speed_ups.add(&format!("{name}, a sweep (2009)"), true, line.name, of_source.sweep);
        }
    }
    let mut local = Panel::new("sweeps by % of random successors (Figure 6.6)", false);
    for Locality { contender, precision, redirected, sweeps, .. } in locality {
        let name = format!("{}, {precision}", contender.name);
        local.add(&name, false, &format!("{:.0}", 100.0 * redirected), *sweeps as f64);
    }
    panels.insert(4, speed_ups);
    panels.insert(5, local);
    let title = "Value iteration on grid worlds; thin: Jóhannsson (2009), Table 6.2".to_owned();
    Panels { title, panels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpkov_mdp::generate::TABLE_6_1;

    /// Section 6.4 of the source gives the means of Table 6.2, whose entries are rounded.
    #[test]
    fn published_rows_match_the_published_means() {
        let is_mean = |average: f64, of: fn(&Published) -> f64| {
            let mean = TABLE_6_2.iter().map(of).sum::<f64>() / 12.0;
            assert!((mean - average).abs() < 0.11, "{mean}, {average}");
        };
        is_mean(11.7, |line| line.block_divided.convergence);
        is_mean(25.5, |line| line.block_divided.sweep);
        is_mean(6.5, |line| line.result_divided.convergence);
        is_mean(8.2, |line| line.result_divided.sweep);
        assert!(TABLE_6_1.iter().all(|domain| TABLE_6_2.iter().any(|line| line.name == domain.name())));
        let costs: Vec<_> = TABLE_6_1.iter().map(WetFloor::cost).collect();
        assert_eq!((costs[0], costs[3], costs[11]), (16_384, 4_194_304, 16_777_216));
    }
}
