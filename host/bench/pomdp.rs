//! Benchmarks of point-based solvers: backups per second, and the time of whole runs to a published bound.

use std::time::Instant;
use warpkov_runtime::device::AnyDevice;

use rayon::prelude::*;
use serde::Serialize;
use warpkov_device::launch::Device;

use warpkov_common::plot::panels::{Panel, Panels};
use warpkov_common::random::{below, draw, random, unit};
use warpkov_mdp::model::{Choices, Csr, MdpParts};
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::backend::PointBackup;
use warpkov_pomdp::backends::cpu::PointBased;
use warpkov_pomdp::backends::device::{Backups, Product};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::generate::{self, Layout, Maze, Olfactory, RockSample, Tag, Tiger};
use warpkov_pomdp::io::{self, Format};
use warpkov_pomdp::model::{Invalid, Pomdp, PomdpParts};
use warpkov_pomdp::options::{Gap, Limits, Precision, SolveOptions};
use warpkov_pomdp::projection::Projection;
use warpkov_pomdp::solution::Status;
use warpkov_pomdp::solve::{Error, solve_on};
use warpkov_runtime::choose::Place;
use warpkov_runtime::comm::Communicator;
use warpkov_runtime::{Precise, cores};

/// A model with a target value or a number of expansions.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name in the literature.
    pub name: &'static str,
    /// Target of the lower bound at b₀; `None` for a fixed number of expansions.
    pub target: Option<f64>,
    /// Number of expansions, without a target.
    pub expansions: Option<u64>,
    /// Number of simultaneous walks on a device.
    pub beliefs: usize,
    /// Limit of |Γ|.
    pub vectors: usize,
    /// Published results for comparison.
    pub source: &'static str,
    make: fn() -> Result<Pomdp, generate::Error>,
}

impl Case {
    /// Generates the model.
    ///
    /// # Errors
    /// Never: all parameters are in range.
    pub fn generate(&self) -> Result<Pomdp, generate::Error> {
        (self.make)()
    }
}

/// Models with published bounds. SARSOP's are those of its authors' implementation on one CPU core.
pub const CASES: [Case; 8] = [
    Case {
        name: "tiger",
        target: Some(19.3711),
        expansions: None,
        beliefs: 256,
        vectors: 1 << 20,
        source: "SARSOP 19.3711 in < 0.01 s",
        make: || Tiger::default().generate(),
    },
    Case {
        name: "tag",
        target: Some(-6.20),
        expansions: None,
        beliefs: 256,
        vectors: 1 << 20,
        source: "SARSOP -6.20 in 60 s",
        make: || Tag::default().generate(),
    },
    Case {
        name: "tiger-grid",
        target: Some(2.256),
        expansions: None,
        beliefs: 256,
        vectors: 1 << 20,
        source: "SARSOP 2.256 in 60 s",
        make: || Maze::tiger_grid().generate(),
    },
    Case {
        name: "hallway",
        target: Some(0.9939),
        expansions: None,
        beliefs: 256,
        vectors: 1 << 20,
        source: "SARSOP .9939 in 60 s",
        make: || Maze::hallway().generate(),
    },
    Case {
        name: "hallway2",
        target: Some(0.3559),
        expansions: None,
        beliefs: 256,
        vectors: 1 << 20,
        source: "SARSOP .3559 in 80 s",
        make: || Maze::hallway2().generate(),
    },
    Case {
        name: "rock-sample-7-8",
        target: Some(21.11),
        expansions: None,
        beliefs: 256,
        vectors: 1 << 20,
        source: "SARSOP 20.135 in 62 s (flat file)",
        make: || RockSample::new(Layout::R7x8).generate(),
    },
    Case {
        name: "rock-sample-10-10",
        target: Some(20.4),
        expansions: None,
        beliefs: 256,
        vectors: 1 << 20,
        source: "SARSOP hours or not at all (flat file)",
        make: || RockSample::new(Layout::R10x10).generate(),
    },
    Case {
        name: "olfactory",
        target: None,
        expansions: Some(300),
        beliefs: 684,
        vectors: 2230,
        source: "CuPy 22 s for 300 expansions of about 684 beliefs, 2,230 vectors",
        make: || Olfactory::default().generate(),
    },
];

/// Measurements of a whole run, including the time to read the model.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Name of the model.
    pub case: &'static str,
    /// |S|.
    pub states: u32,
    /// Published results for comparison.
    pub source: &'static str,
    /// Target of the lower bound at b₀.
    pub target: Option<f64>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Time to read the file, in seconds.
    pub read: f64,
    /// Time to solve the model, in seconds.
    pub solve: f64,
    /// Final lower bound on V\*(b₀).
    pub lower: f64,
    /// Final upper bound on V\*(b₀).
    pub upper: f64,
    /// Number of expansions.
    pub expansions: u64,
    /// Number of backups.
    pub backups: u64,
    /// |B|.
    pub beliefs: usize,
    /// |Γ|.
    pub vectors: usize,
    /// Why the run ended.
    pub stopped_by: Status,
    /// Name of the device that did the backups.
    pub device: String,
}

/// Why a benchmark failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A model could not be generated.
    #[error(transparent)]
    Generate(#[from] generate::Error),
    /// The model file could not be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The temporary directory could not be used.
    #[error("temporary model file: {0}")]
    Temporary(#[from] std::io::Error),
    /// A solve failed.
    #[error(transparent)]
    Solve(#[from] Error),
}

/// Writes a case's model as `.pomdp`, then reads it and solves it on all ranks `runs` times. Returns this rank's run with the
/// median time.
///
/// # Errors
/// [`BenchError`].
pub fn solve_case(
    comm: &dyn Communicator,
    case: &Case,
    options: &SolveOptions,
    runs: usize,
) -> Result<Run, BenchError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(format!("{}.pomdp", case.name));
    io::write(&path, Format::Pomdp, &case.generate()?)?;
    let bytes = std::fs::metadata(&path)?.len();
    let limits = Limits {
        gap: Gap::Absolute(1e-9),
        target: case.target,
        iterations: case.expansions,
        vectors: case.vectors,
        ..options.limits
    };
    let options = SolveOptions { beliefs: case.beliefs, limits, ..*options };
    let mut measured = Vec::new();
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        let model = io::read(&path, Some(Format::Pomdp))?;
        let read = start.elapsed().as_secs_f64();
        let solution = solve_on(comm, &model, &options, &mut |_| std::ops::ControlFlow::Continue(()))?;
        let solve = start.elapsed().as_secs_f64() - read;
        let end = *solution.end();
        measured.push(Run {
            case: case.name,
            states: model.states(),
            source: case.source,
            target: case.target,
            bytes,
            read,
            solve,
            lower: end.lower,
            upper: end.upper,
            expansions: end.iterations,
            backups: end.backups,
            beliefs: end.beliefs,
            vectors: end.vectors,
            stopped_by: solution.status,
            device: solution.device,
        });
    }
    measured.sort_by(|a, b| (a.read + a.solve).total_cmp(&(b.read + b.solve)));
    Ok(measured.swap_remove(measured.len() / 2))
}

/// Input of a backup benchmark: a model, beliefs and vectors.
pub struct Work {
    /// The model, a maximisation problem.
    pub model: Pomdp,
    /// B.
    pub beliefs: Vec<Belief>,
    /// Γ, with random entries.
    pub vectors: AlphaVectors,
}

impl Work {
    /// Beliefs from random walks in a model.
    #[must_use]
    pub fn walked(model: Pomdp, beliefs: usize, vectors: usize) -> Self {
        let mut random = random(0, 0);
        let mut projection = Projection::default();
        let mut walked = vec![model.start().clone()];
        while walked.len() < beliefs {
            let from = &walked[below(&mut random, walked.len() as u64) as usize];
            let action = below(&mut random, u64::from(model.actions())) as u32;
            let mut next = Vec::new();
            projection.each(&model, from, action, |_, prob, belief| next.push((belief, prob)));
            let drawn = draw(&mut random, next.iter().enumerate().map(|(i, (_, prob))| (i, *prob)));
            walked.extend(drawn.map(|i| next.swap_remove(i).0));
        }
        let vectors = random_vectors(&model, vectors);
        Self { model, beliefs: walked, vectors }
    }

    /// A sparse random model with `states` states, two actions, two observations and four successors per row, and dense
    /// beliefs.
    ///
    /// # Errors
    /// If there are fewer than four states.
    pub fn dense(states: u32, beliefs: usize, vectors: usize) -> Result<Self, Invalid> {
        let mut numbers = random(1, 0);
        let rows = states * 2;
        let distributions = |random: &mut _, columns: u32, each: u64| {
            let (mut col, mut val) = (Vec::new(), Vec::new());
            for _ in 0..rows {
                // Consecutive columns from a random first one.
                let mut own: Vec<u32> =
                    (below(random, u64::from(columns))..).take(each as usize).map(|c| c as u32 % columns).collect();
                own.sort_unstable();
                let weights: Vec<f64> = own.iter().map(|_| 0.1 + unit(random)).collect();
                let sum: f64 = weights.iter().sum();
                col.extend(own);
                val.extend(weights.into_iter().map(|weight| weight / sum));
            }
            let row_ptr: Vec<u64> = (0..=u64::from(rows)).map(|row| row * each).collect();
            Csr::built(row_ptr, col, val)
        };
        let process = MdpParts {
            states,
            choices: Choices::Uniform(2),
            gamma: 0.95,
            transitions: distributions(&mut numbers, states, 4),
            action_rewards: (0..rows).map(|_| unit(&mut numbers)).collect::<Vec<_>>().into(),
            ..MdpParts::default()
        };
        let observations = distributions(&mut numbers, 2, 2);
        let start = Belief::uniform((0..states).collect());
        let model =
            PomdpParts { process, observation_count: 2, observations, start, ..PomdpParts::default() }.validated()?;
        let belief = |seed: usize| {
            let mut numbers = random(2, seed as u64);
            let weights: Vec<f64> = (0..states).map(|_| unit(&mut numbers)).collect();
            let sum: f64 = weights.iter().sum();
            Belief::built((0..states).collect(), weights.into_iter().map(|weight| weight / sum).collect())
        };
        let beliefs = (0..beliefs).into_par_iter().map(belief).collect();
        let vectors = random_vectors(&model, vectors);
        Ok(Self { model, beliefs, vectors })
    }
}

/// Random vectors with entries in [0, 1).
fn random_vectors(model: &Pomdp, count: usize) -> AlphaVectors {
    let states = model.states() as usize;
    let rows: Vec<f64> = (0..count)
        .into_par_iter()
        .flat_map_iter(|seed| {
            let mut numbers = random(3, seed as u64);
            (0..states).map(move |_| unit(&mut numbers))
        })
        .collect();
    let actions: Vec<u32> = (0..count as u32).map(|i| i % model.actions()).collect();
    let mut vectors = AlphaVectors::new(model.states());
    vectors.append(rows, &actions);
    vectors
}

/// Throughput of backups of all beliefs. Each rank backs up an equal part of them.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// The number of ranks.
    pub ranks: u32,
    /// |S|.
    pub states: u32,
    /// |B|.
    pub beliefs: usize,
    /// |Γ|.
    pub vectors: usize,
    /// Name of the product.
    pub product: String,
    /// Number of projected rows of all ranks, for the dense product only.
    pub rows: Option<u64>,
    /// Median time in seconds.
    pub seconds: f64,
    /// Name of the device.
    pub device: String,
}

impl Rate {
    /// Backups per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.beliefs as f64 / self.seconds
    }

    /// Throughput in 10¹² floating-point operations per second. Counts only the dense product, but divides by the time
    /// of the whole backup.
    #[must_use]
    pub fn teraflops(&self) -> Option<f64> {
        let each = 2.0 * f64::from(self.states) * self.vectors as f64;
        self.rows.map(|rows| rows as f64 * each / self.seconds / 1e12)
    }
}

/// Whole runs: the time of each model, and the gap of its bounds relative to the lower one.
#[must_use]
pub fn figures_of_runs<'a>(all: impl IntoIterator<Item = &'a Run>) -> Panels {
    let mut seconds = Panel::new("seconds", true);
    let mut gaps = Panel::new("gap between the bounds, relative to the lower one", true);
    for run in all {
        seconds.add("to read", false, run.case, run.read);
        seconds.add("to solve", false, run.case, run.solve);
        gaps.add("gap", false, run.case, (run.upper - run.lower) / run.lower.abs());
    }
    Panels { title: "Point-based solves".to_owned(), panels: vec![seconds, gaps] }
}

/// Backups: their rate, and that of the operations of the dense products.
#[must_use]
pub fn figures_of_rates<'a>(all: impl IntoIterator<Item = &'a Rate>) -> Panels {
    let mut backups = Panel::new("backups per second", true);
    let mut operations = Panel::new("TFLOP/s", true);
    for rate in all {
        let case = format!("{} states", rate.states);
        backups.add(&rate.product, false, &case, rate.per_second());
        if let Some(teraflops) = rate.teraflops() {
            operations.add(&rate.product, false, &case, teraflops);
        }
    }
    Panels { title: "Backups".to_owned(), panels: vec![backups, operations] }
}

/// The median.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A measurement of backups: the beliefs of one rank, and the others to start and to end with.
struct Bench<'w> {
    comm: &'w dyn Communicator,
    work: &'w Work,
    beliefs: &'w [Belief],
    runs: usize,
}

impl<'w> Bench<'w> {
    fn new(comm: &'w dyn Communicator, work: &'w Work, runs: usize) -> Self {
        let (rank, size, all) = (comm.rank() as usize, comm.size() as usize, work.beliefs.len());
        Self { comm, work, beliefs: &work.beliefs[all * rank / size..all * (rank + 1) / size], runs }
    }

    /// The median time in which all ranks have done their work, after a first time that does not count.
    fn seconds(
        &self,
        mut work: impl FnMut() -> Result<(), warpkov_runtime::Error>,
    ) -> Result<f64, warpkov_runtime::Error> {
        let mut seconds = Vec::new();
        for run in 0..=self.runs {
            self.comm.barrier()?;
            let start = Instant::now();
            work()?;
            self.comm.barrier()?;
            if run > 0 {
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(median(seconds))
    }

    /// The result; `rows` is the number of this rank's projected rows.
    fn rate(
        &self,
        product: String,
        rows: Option<u64>,
        seconds: f64,
        device: String,
    ) -> Result<Rate, warpkov_runtime::Error> {
        let Work { model, beliefs, vectors } = self.work;
        let all = self.comm.gather(&[rows.unwrap_or_default()])?;
        Ok(Rate {
            ranks: self.comm.size(),
            states: model.states(),
            beliefs: beliefs.len(),
            vectors: vectors.len(),
            product,
            rows: rows.map(|_| all.iter().map(|of_rank| of_rank[0]).sum()),
            seconds,
            device,
        })
    }

    /// Measures a device. The new vectors stay in its memory.
    fn on_device<T: Precise>(
        &self,
        device: &AnyDevice,
        name: String,
        product: Product,
    ) -> Result<Rate, warpkov_runtime::Error> {
        let mut backups = Backups::<T>::new(device, &self.work.model, Some(product), Default::default())?;
        backups.set_vectors(&self.work.vectors)?;
        let batches = backups.batches(self.beliefs)?;
        let mut rows = 0;
        let seconds = self.seconds(|| {
            rows = 0;
            for batch in &batches {
                rows += u64::from(backups.back_up_here(batch)?);
            }
            Ok(device.synchronize()?)
        })?;
        let (product, rows) = match batches.first().map(|batch| backups.chosen_product(batch)) {
            Some(Product::Dense { exact: true }) => ("dense, 3 × tf32", Some(rows)),
            Some(Product::Dense { exact: false }) => ("dense, f16", Some(rows)),
            _ => ("sparse", None),
        };
        self.rate(format!("{product}, vectors {}", T::NAME), rows, seconds, name)
    }

    /// Measures all cores.
    fn on_cpu(&self) -> Result<Rate, warpkov_runtime::Error> {
        let mut backups = PointBased::new(&self.work.model);
        let Ok(()) = backups.set_vectors(&self.work.vectors);
        let seconds = self.seconds(|| {
            let Ok(made) = backups.backup(self.beliefs);
            std::hint::black_box(made);
            Ok(())
        })?;
        self.rate("sparse".to_owned(), None, seconds, cores::all())
    }
}

/// Measures backups on all ranks, each at its `place`; `product` and `precision` are those of a device.
///
/// # Errors
/// Those of the device, and if a rank fails.
pub fn rate(
    comm: &dyn Communicator,
    place: &Place,
    work: &Work,
    product: Product,
    precision: Precision,
    runs: usize,
) -> Result<Rate, warpkov_runtime::Error> {
    let (bench, name) = (Bench::new(comm, work, runs), place.name());
    match (place, precision) {
        (Place::Cpu, _) => bench.on_cpu(),
        (Place::Device(device), Precision::F32) => bench.on_device::<f32>(device, name, product),
        (Place::Device(device), Precision::F64) => bench.on_device::<f64>(device, name, product),
    }
}
