//! `warpkov pomdp solve`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use warpkov_common::memory;
use warpkov_pomdp::checkpoint::Checkpoint;
use warpkov_pomdp::io::{Format, Kind};
use warpkov_pomdp::model::Pomdp;
use warpkov_pomdp::options::{Expansion, Limits, Precision, Scheme, SolveOptions};
use warpkov_pomdp::plot::draw_bounds;
use warpkov_pomdp::report::Solved;
use warpkov_pomdp::solution::{Round, Solution};
use warpkov_pomdp::solve::patience::Patience;
use warpkov_pomdp::solve::{self, Session, solve_session};
use warpkov_runtime::choose::{DeviceChoice, Devices};
use warpkov_runtime::comm::{self, Communicator};

use super::file::{Input, output_format};
use super::search::{self, Ends};
use super::{Error, Outcome, outcome};
use crate::common::checkpoint;
use crate::common::choice::choice;
use crate::common::file::FileOrStd;
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::{Output, Plots, Quiet};
use crate::common::ranks;

/// Solves a model: bounds the optimal value of its start belief from below and from above until the bounds meet.
///
/// Both bounds hold at any time, rounding errors included. The policy attains the lower bound of rewards, or the upper bound of costs.
/// Progress goes to the standard error, one line per second. Exit code 0 if the bounds differ by at most --relative-gap or --gap, or
/// the policy attains --target; 1 if a limit stopped the solver first. A fifth of --time is for making the policy compact.
///
/// With several GPUs, or several processes that mpirun or srun started, all work together: each takes its own walks or trials, or a part
/// of each batch of backups, and all share the vectors and the upper bounds. The first process writes the results.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Device: auto, cpu, cuda:N, emulated; or several GPUs, cuda:N,M,… or cuda:all. Of several processes, each takes one of the GPUs.
    #[arg(long, value_name = "DEVICE", default_value_t = Devices::One(DeviceChoice::Auto))]
    device: Devices,
    /// Floating-point type of the vectors on a device.
    #[arg(long, value_parser = choice::<Precision>(), default_value_t)]
    precision: Precision,
    /// Maximise the sum of the first T rewards. Required if γ is 1. The .pg or .dot of --out holds the plan of all steps, .alpha the
    /// vectors of the first step.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        conflicts_with_all = ["expansion", "backups", "trials"])]
    horizon: Option<u32>,
    /// Solve a small model in all beliefs, by linear programs, until only rounding errors are left, or up to --gap. With --horizon T, the
    /// vectors of every step.
    #[arg(long, conflicts_with_all = ["expansion", "backups", "trials"])]
    exact: bool,
    /// Expansion of the set of beliefs [default: chosen for the model; a note gives the reason].
    #[arg(long, value_parser = choice::<Expansion>())]
    expansion: Option<Expansion>,
    /// Beliefs to back up after each expansion [default: chosen for the expansion].
    #[arg(long, value_parser = choice::<Scheme>())]
    backups: Option<Scheme>,
    /// Maximum number of beliefs of an expansion; on a device, number of simultaneous walks of all GPUs. Trials have no maximum.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    beliefs: u32,
    /// Number of trials or walks whose paths are backed up together [default: 1 on the CPU, 64 on a device].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
    /// Beside the walks on a GPU, search on the CPU by trials guided by the bounds, and share the upper bounds. Equal runs then have
    /// different results.
    #[arg(long)]
    companion: bool,
    /// Seed of the random numbers: equal seeds on equally many processes or GPUs give equal runs, unless --time ends them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    ends: Ends,
    /// Stop when the policy attains the value V at the start belief.
    #[arg(long, value_name = "V", value_parser = number::finite, allow_hyphen_values = true)]
    target: Option<f64>,
    /// Maximum memory of the process, in bytes or as 4GiB; on GPUs, of beliefs and vectors on each. The solver drops the least recently used
    /// ones [default: 8GiB of beliefs and vectors, or half of the free memory of a GPU].
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    memory: Option<u64>,
    /// Maximum number of expansions.
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
    /// Maximum number of vectors that backups choose from. The policy also holds the vectors that these lead to.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    vectors: u32,
    /// Write the vectors to this file, .alpha or SARSOP's .policy, or their controller, .pg or Graphviz' .dot; or with - to the standard
    /// output, in place of the report.
    #[arg(long, value_name = "FILE|-")]
    out: Option<FileOrStd>,
    /// Format of --out: alpha, policy-xml, pg or dot [default: that of its extension; alpha on the standard output].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT", requires = "out")]
    to: Option<Format>,
    /// Draw both bounds against time to this file, .svg or .png; as ranks:FILE, the time of each rank in sweeps, exchange and waiting. May
    /// be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
    #[command(flatten)]
    checkpoints: checkpoint::Arguments,
    #[command(flatten)]
    pub ranks: ranks::Arguments,
}

const EXAMPLES: &str = "\
Examples:
  warpkov pomdp solve tiger.pomdp
  warpkov pomdp solve hallway2.pomdp --time 10 --json | jq '.lower, .upper'
  warpkov pomdp solve tag.json --time 5 --out tag.alpha --plot tag.svg
  warpkov pomdp solve tiger.pomdp --horizon 10 --out plan.dot
  warpkov pomdp solve tiger.pomdp --exact --out tiger.pg
  warpkov pomdp solve tiger.pomdp --quiet --out - --to dot | dot -Tsvg -o tiger.svg
  warpkov pomdp solve tag.json --expansion ssea --backups full --time 60
  warpkov pomdp solve olfactory.json --device cuda:0 --beliefs 684 --iterations 300
  warpkov pomdp solve olfactory.json --device cuda:all --time 60
  warpkov pomdp solve tag.json --time 3600 --checkpoint tag.checkpoint --out tag.alpha
  warpkov pomdp solve tag.json --time 7200 --resume tag.checkpoint --checkpoint tag.checkpoint --out tag.alpha
  mpirun -n 4 warpkov pomdp solve rock-sample.json --device cpu --time 60 --out rock-sample.alpha";

/// The model, the limits, and the destination of the results.
struct Options {
    input: Input,
    devices: Devices,
    solve: SolveOptions,
    checkpoints: checkpoint::Options,
    output: Output<Format>,
    plots: Plots,
    quiet: bool,
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let file = match arguments.out {
            Some(file) => {
                let format = output_format(&file, arguments.to, &[Kind::Vectors, Kind::Graph], Format::Alpha)?;
                Some((file, format))
            }
            None => None,
        };
        let searches = arguments.horizon.is_none() && !arguments.exact;
        if let Some(option) = arguments.checkpoints.asked().filter(|_| !searches) {
            return Err(Error::Usage(format!("{option} is for a search: --horizon and --exact have no checkpoints")));
        }
        let limits = Limits {
            target: arguments.target,
            memory: arguments.memory,
            iterations: arguments.iterations,
            vectors: arguments.vectors as usize,
            ..arguments.ends.limits(arguments.exact)
        };
        let solve = SolveOptions {
            device: DeviceChoice::Auto,
            precision: arguments.precision,
            horizon: arguments.horizon,
            exact: arguments.exact,
            expansion: arguments.expansion,
            scheme: arguments.backups,
            beliefs: arguments.beliefs as usize,
            trials: arguments.trials.map(|trials| trials as usize),
            companion: arguments.companion,
            seed: arguments.seed,
            limits,
        };
        Ok(Self {
            input: arguments.input,
            devices: arguments.device,
            solve,
            checkpoints: arguments.checkpoints.try_into()?,
            output: Output::to_file(file, arguments.json)?.quiet(arguments.quiet.quiet),
            plots: Plots::new(arguments.plot)?,
            quiet: arguments.quiet.quiet,
        })
    }
}

impl Options {
    /// Whether `auto` takes the CPU, whatever the model.
    fn is_sequential(&self) -> bool {
        self.solve.exact
            || self.solve.horizon.is_some()
            || self.solve.expansion.is_some_and(|expansion| !expansion.walks())
    }
}

/// Reads the model, solves it, writes the policy and the plot, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let ranks = arguments.ranks.join()?;
    let mut options: Options = ranks.agree(arguments.try_into())?;
    options.checkpoints.join(&ranks)?;
    let devices = match options.devices {
        // One rank would take the CPU for these, and all do the same.
        Devices::One(DeviceChoice::Auto) if options.is_sequential() => vec![DeviceChoice::Auto],
        ref devices => ranks.agree(ranks.devices(devices))?,
    };
    let on_host = devices.iter().all(|device| matches!(device, DeviceChoice::Auto | DeviceChoice::Cpu));
    let _starting = devices.iter().take(1).filter_map(|device| options.input.file.start(*device)).next();
    ranks.agree(options.plots.check(ranks.count(&devices)))?;
    if options.solve.limits.memory.is_some() {
        memory::keep_tight();
    }
    let model = ranks.agree(ranks.one_input(&options.input.file).and_then(|()| options.input.read()))?;
    if on_host {
        options.solve.limits.memory = options.solve.limits.memory.map(|memory| left(memory, &model));
    }
    let resume = options.checkpoints.resume().map(|path| Checkpoint::read(path, &model)).transpose();
    let resume = ranks.agree(resume.map_err(Error::from))?;
    ranks.same_files()?;
    handle_interrupts();
    let solve = |comm: &dyn Communicator, device| {
        let solve = SolveOptions { device, ..options.solve };
        let mut checkpoints = options.checkpoints.of_rank(comm.rank());
        let session = Session { resume: resume.as_ref(), checkpoints: checkpoints.as_mut() };
        let mut observe = observer(&options, comm.rank() == 0);
        Ok((solve_session(comm, &model, &solve, session, &mut observe)?, checkpoints))
    };
    let (mut solution, checkpoints) = match ranks.run(&devices, solve) {
        Err(Error::PomdpSolve(solve::Error::Elsewhere(_))) => {
            // Ends with the rank that reports the error.
            comm::finalize()?;
            return Err(Error::Elsewhere(3));
        }
        solution => solution?,
    };
    let outcome = outcome(solution.status);
    if !ranks.is_first() {
        return Ok(outcome);
    }
    let name = options.input.file.name();
    solution.notes.extend(left_out(&options));
    let report = Solved { model: &model, name: &name, solution: &solution };
    // A full disk or a closed pipe must not lose the other results.
    let written = options.output.write(&report);
    let drawn = draw(&options.plots, &name, &solution);
    options.output.print(&report, out)?;
    written.and(drawn)?;
    checkpoint::finish(checkpoints)?;
    Ok(outcome)
}

/// The note that a file of vectors lacks the later steps of a plan.
fn left_out(options: &Options) -> Option<String> {
    let (steps, format) = (options.solve.horizon?, options.output.format()?);
    (steps > 1 && format.kind() == Kind::Vectors).then(|| {
        format!(
            "{format} holds the vectors of the first of {steps} steps: --out FILE.pg or FILE.dot writes the plan of all"
        )
    })
}

/// What beliefs and vectors may take of `memory` bytes of a process, at least an eighth: the rest is for the program, the model and a copy
/// of it, and what allocations leave unused. It depends on nothing else, so that equal runs have equal results.
fn left(memory: u64, model: &Pomdp) -> u64 {
    /// Bytes of the program and its threads.
    const PROGRAM: u64 = 24 << 20;
    /// Bytes of the process per byte of beliefs and vectors, in tenths.
    const TENTHS: u64 = 15;

    let others = PROGRAM.saturating_add(2 * model.bytes() as u64);
    (memory.saturating_sub(others) / TENTHS * 10).max(memory / 8)
}

/// Draws the bounds of the model called `name` against time, and the time of its ranks.
fn draw(plots: &Plots, name: &str, solution: &Solution) -> Result<(), Error> {
    let end = solution.end();
    let title = format!("{name}: V*(b₀) from {:.4} to {:.4}, {} vectors", end.lower, end.upper, end.vectors);
    plots.draw(name, &solution.ranks, |format| draw_bounds(&title, &solution.rounds, format))
}

/// On the `first` rank, unless it is to be quiet, prints one line of progress per second, and once a hint if the gap closes slowly and
/// nothing else ends the run. Stops the solver after Ctrl-C.
fn observer(options: &Options, first: bool) -> impl FnMut(&Round) -> ControlFlow<()> {
    let quiet = options.quiet || !first;
    let (mut observe, mut patience) = (search::observer(quiet), Patience::new(&options.solve.limits));
    move |round| {
        let flow = observe(round);
        if !quiet && patience.is_slow(round) {
            eprintln!(
                "Hint: the gap, now {:.1e}, closes slowly: a larger --relative-gap or --gap, or --time, ends the run earlier, and \
                 Ctrl-C ends it now with the policy found so far",
                round.gap()
            );
        }
        flow
    }
}
