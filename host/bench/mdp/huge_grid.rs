//! A slip grid larger than host memory permits: the device generates it, solves it and measures the residual for the
//! certificate. On several ranks, each has a part of the rows.

use std::time::Instant;
use warpkov_runtime::device::AnyDevice;

use serde::Serialize;
use warpkov_device::launch::Device;

use super::milliseconds;
use warpkov_mdp::backend::Attempt;
use warpkov_mdp::backends::device::{Certify, Mixed, Ranks, Residual, SweepLayout, ValueIteration};
use warpkov_mdp::backends::dynamic::Unified;
use warpkov_mdp::certificate::Certificate;
use warpkov_mdp::error::SolveError;
use warpkov_mdp::generate::GridPatterns;
use warpkov_mdp::options::{Limits, Precision, Storage, Target};
use warpkov_mdp::solution::{Run, Status};
use warpkov_mdp::solve::certify::Attempts;
use warpkov_mdp::solve::loops::{to_the_end, value_iteration};
use warpkov_mdp::team::Team;
use warpkov_runtime::comm::Communicator;

/// Options of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct HugeOptions {
    /// Whether to start in f32. The run ends in f64, because the certificate needs a residual in f64.
    pub mixed: bool,
    /// ε: maximum error of V.
    pub epsilon: f64,
    /// Whether to skip states whose value cannot have changed.
    pub skip: bool,
}

/// Result of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Columns of the grid.
    pub width: u32,
    /// Rows of the grid.
    pub height: u32,
    /// S.
    pub states: u64,
    /// The number of ranks.
    pub ranks: u32,
    /// γ.
    pub gamma: f64,
    /// ε.
    pub epsilon: f64,
    /// The precision.
    pub precision: Precision,
    /// Description of the device.
    pub device: String,
    /// How the run ended.
    pub status: Status,
    /// Time until the model is on the device, including host work; milliseconds.
    pub generation_ms: f64,
    /// Time from V = 0 to the certificate; milliseconds.
    pub solve_ms: f64,
    /// Sweeps, excluding those of the certificate.
    pub sweeps: u64,
    /// Mean time per sweep, including sweeps that skip most states; microseconds.
    pub sweep_us: f64,
    /// Bytes of device memory, on rank 0.
    pub device_bytes: u64,
    /// Certificate of V + `shift`.
    pub certificate: Certificate,
    /// Constant to add to all values.
    pub shift: f64,
}

/// Generates, solves and certifies a grid on all ranks of `comm`, each its [part](warpkov_mdp::generate::SlipGrid::patterns_of).
///
/// # Errors
/// Those of the device, if its memory does not hold the model, and if a rank fails.
pub fn measure(
    comm: &dyn Communicator,
    device: &AnyDevice,
    grid: &GridPatterns,
    options: &HugeOptions,
) -> Result<Measured, SolveError> {
    let team = grid.part().map_or_else(Team::alone, |part| Team::new(comm, part));
    let ranks = Ranks::new(device, &team)?;
    let start = Instant::now();
    let layout = SweepLayout::generated(grid).ok_or(SolveError::Storage(Storage::Patterns))?;
    let layout = if options.skip { layout } else { layout.without_skipping() };
    let exact = layout.bytes::<f64, u32>();
    let device_bytes = exact + if options.mixed { layout.bytes::<f32, u32>() } else { 0 };
    device.reserve(device_bytes, "the model")?;
    let mut backend: Box<dyn Certify<Error = SolveError> + '_> = match (&ranks, options.mixed) {
        (None, true) => Box::new(Unified::new(Mixed::<u32>::new(device, &layout)?)),
        (None, false) => Box::new(Unified::new(ValueIteration::<f64, u32>::new(device, &layout)?)),
        (Some(ranks), true) => Box::new(ranks.wrap(Mixed::<u32>::in_team(device, &layout, Some(ranks))?)),
        (Some(ranks), false) => {
            let ghosts = Box::new(ranks.ghosts::<f64>(device)?);
            Box::new(ranks.wrap(ValueIteration::<f64, u32>::in_team(device, &layout, Some(ghosts))?))
        }
    };
    device.synchronize()?;
    let solved = solve(start, &team, &mut *backend, grid, options);
    let Solved { generation_ms, solve_ms, run, certificate, shift } = solved?;
    let states = grid.part().map_or(grid.states().into(), |part| part.all);
    Ok(Measured {
        width: grid.slip_grid().width,
        height: (states / u64::from(grid.slip_grid().width)) as u32,
        states,
        ranks: comm.size(),
        gamma: grid.slip_grid().gamma,
        epsilon: options.epsilon,
        precision: if options.mixed { Precision::Mixed } else { Precision::F64 },
        device: device.name(),
        status: run.status,
        generation_ms,
        solve_ms,
        sweeps: run.sweeps(),
        sweep_us: 1e3 * milliseconds(run.elapsed) / run.sweeps() as f64,
        device_bytes,
        certificate,
        shift,
    })
}

struct Solved {
    generation_ms: f64,
    solve_ms: f64,
    run: Run,
    certificate: Certificate,
    shift: f64,
}

/// Solves and certifies the model of `backend`, whose construction began at `start`, with the other ranks of `team`.
fn solve(
    start: Instant,
    team: &Team,
    backend: &mut dyn Certify<Error = SolveError>,
    grid: &GridPatterns,
    options: &HugeOptions,
) -> Result<Solved, SolveError> {
    // The ranks begin together.
    let mut generation = [milliseconds(start.elapsed())];
    team.max(&mut generation)?;
    let start = Instant::now();
    let (gamma, epsilon) = (grid.slip_grid().gamma, options.epsilon);
    let limits = Limits { target: Target::Epsilon(epsilon), ..Limits::default() };
    let (mut attempts, mut run) = (Attempts::new(limits.target, Attempt::FIRST), Run::default());
    let (certificate, shift) = loop {
        let stop = attempts.current().stop(gamma, epsilon, true);
        run.append(value_iteration(&mut *backend, stop, &limits, to_the_end)?);
        let Residual { range, largest } = backend.residual()?;
        let (certificate, shift) = grid.extremes(range, largest).of_all(team)?.centred(gamma);
        if !attempts.again(run.status, &certificate) {
            break (certificate, shift);
        }
    };
    Ok(Solved { generation_ms: generation[0], solve_ms: milliseconds(start.elapsed()), run, certificate, shift })
}
