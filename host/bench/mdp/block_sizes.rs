//! Block Divided Iteration with other sizes of blocks and other numbers of sweeps between blocks: the evaluation that Jóhannsson,
//! *GPU-Based Markov Decision Process Solver* (2009), leaves for future work (chapter 7).

use serde::Serialize;

use super::BenchOptions;
use super::table_6_1::{Contender, Measured, measure};
use warpkov_common::plot::panels::{Panel, Panels};
use warpkov_mdp::error::SolveError;
use warpkov_mdp::generate::WetFloor;
use warpkov_mdp::model::Mdp;
use warpkov_mdp::options::{BlockDivided, Method};

/// Threads per block in x and y.
pub const EXTENTS: [(u32, u32); 6] = [(8, 4), (8, 8), (16, 8), (16, 16), (32, 16), (32, 32)];

/// Sweeps per launch.
pub const SWEEPS: [u32; 4] = [1, 4, 8, 16];

/// A size of blocks and its measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Sized {
    /// Threads per block in x and y, one state each.
    pub block: (u32, u32),
    /// Sweeps between two launches.
    pub sweeps_per_launch: u32,
    /// The measurement.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Measures blocks of one size.
///
/// # Errors
/// As [`Solve::run`](warpkov_mdp::Solve::run).
pub fn measure_size(
    domain: &WetFloor,
    mdp: &Mdp,
    block: (u32, u32),
    sweeps_per_launch: u32,
    options: &BenchOptions,
) -> Result<Sized, SolveError> {
    let (width, height) = block;
    let blocks = BlockDivided { width, height, sweeps_per_launch, ..BlockDivided::PLAIN };
    let contender = Contender { name: "block-divided", method: Method::BlockDivided(blocks), on_cpu: false };
    let measured = measure(domain, mdp, &contender, options, None)?;
    Ok(Sized { block, sweeps_per_launch, measured })
}

/// Two charts for each domain: sweeps and time by the size of blocks, a line for each number of sweeps per launch.
#[must_use]
pub fn figures(all: &[Sized]) -> Panels {
    let mut panels: Vec<Panel> = Vec::new();
    for Sized { block: (width, height), sweeps_per_launch, measured } in all {
        let (sweeps, ms) = (format!("{}, sweeps", measured.domain), format!("{}, ms", measured.domain));
        if panels.iter().all(|panel| panel.title != sweeps) {
            panels.extend([Panel::new(&sweeps, false), Panel::new(&ms, true)]);
        }
        let line = format!("{sweeps_per_launch} sweeps per launch, {}", measured.precision);
        for panel in &mut panels {
            let value = match &panel.title {
                title if *title == sweeps => measured.sweeps as f64,
                title if *title == ms => measured.milliseconds,
                _ => continue,
            };
            panel.add(&line, false, &format!("{width}x{height}"), value);
        }
    }
    Panels { title: "Block Divided Iteration by the size of blocks".to_owned(), panels }
}
