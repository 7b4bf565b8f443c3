//! `warpkov mdp solve`.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use warpkov_common::choice::Choice;
use warpkov_common::interrupt;
use warpkov_common::plot::{Format, PlotError};
use warpkov_mdp::analysis::guards::{Purpose, Warning, inspect_quickly};
use warpkov_mdp::analysis::partition::require_metis;
use warpkov_mdp::ask::evaluate;
use warpkov_mdp::criterion::Options as Accuracy;
use warpkov_mdp::model::whole::Fault;
use warpkov_mdp::model::{Grid, Mdp, Objective};
use warpkov_mdp::options::{Divide, Limits, Method, Precision, Reorder, SolveOptions, Storage, Target};
use warpkov_mdp::plot;
use warpkov_mdp::report::{Extent, Facts, Report, SolutionFormat, Summary};
use warpkov_mdp::solution::{RankShare, Round, Solution, Status};
use warpkov_mdp::solve::{Initial, Session, Solve};
use warpkov_runtime::choose::{DeviceChoice, Devices};
use warpkov_runtime::comm::Column;
use warpkov_runtime::gpu::Gpu;

use super::method::WithOptions;
use super::origin::{self, Model, Origin, Parts};
use super::{Error, Outcome, criterion, exact};
use crate::common::checkpoint;
use crate::common::choice::{choice, format};
use crate::common::file::{self, FileOrStd};
use crate::common::interrupts::handle_interrupts;
use crate::common::number;
use crate::common::output::{Plots, Quiet, with_usage};
use crate::common::progress::Progress;
use crate::common::ranks::{self, Ranks};

/// Solves a model: computes its optimal values and an optimal policy.
///
/// The result is certified: the sup-norm error of the values is at most ε, rounding errors included. Exit code 0 if the certificate
/// holds, 1 if a limit stopped the solver first. Without a discount, values may be infinite: inf and -inf in CSV and text, infinities
/// in .npy, and the strings "inf" and "-inf" in JSON.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    origin: origin::Arguments,
    /// Device: auto, cpu, cuda:N or emulated; several GPUs as cuda:0,1 or cuda:all.
    #[arg(long, value_name = "DEVICE", default_value_t = Devices::One(DeviceChoice::Auto))]
    device: Devices,
    #[command(flatten)]
    pub ranks: ranks::Arguments,
    /// Method [default: chosen for the model; a note gives the reason]. Options of block-divided follow a
    /// colon: block-divided:block=16x8,buffering. They are block, sweeps-per-launch, states-per-thread, update-constant and
    /// grouping, each with =VALUE, buffering and by-action. projected:spmv=cusparse takes NVIDIA's products, on a GPU with that library.
    #[arg(long, value_parser = WithOptions, value_name = "METHOD")]
    method: Option<Method>,
    /// Floating-point type of the sweeps.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "mixed")]
    precision: Precision,
    /// Layout of the model for value iteration on a GPU [default: the most compact that fits the model].
    #[arg(long, value_parser = choice::<Storage>())]
    storage: Option<Storage>,
    /// Sweep all states every time. By default, sweeps skip states whose value cannot have changed; the result is the same.
    #[arg(long)]
    no_skip: bool,
    /// Sweeps of value iteration between two exchanges of several ranks: 1 to 1000, or auto. More than 1 can pay where an exchange
    /// takes longer than a sweep and the process can end; the values then depend on the number of ranks, within ε. auto is 1.
    #[arg(long, value_name = "N", default_value = "auto", value_parser = local_sweeps)]
    local_sweeps: u32,
    /// Maximum GPU memory, in bytes or as 4GiB [default: all free memory]. Larger models are streamed through it.
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    device_memory: Option<u64>,
    /// Renumbering of the states while solving, which brings successors close together in memory.
    #[arg(long, value_parser = choice::<Reorder>(), default_value = "auto")]
    reorder: Reorder,
    /// Division of the states among several ranks, if each has the whole model: of a safetensors file, metis lets every rank read all.
    #[arg(long, value_parser = choice::<Divide>(), default_value = "contiguous")]
    divide: Divide,
    /// Initial values: a solution of a similar model, .json, .csv, .npy or .txt.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "auto_resume"])]
    values: Option<PathBuf>,
    /// Discount factor γ in [0, 1], in place of that of the model. 1 needs --horizon.
    #[arg(long, value_name = "G", value_parser = number::probability)]
    gamma: Option<f64>,
    /// ε: maximum error of the values.
    #[arg(long, value_name = "E", default_value = "1e-6", value_parser = number::positive)]
    epsilon: f64,
    /// θ: stop when no value changes by θ or more in a sweep, the rule of textbooks. The result is certified afterwards.
    #[arg(long, value_name = "T", value_parser = number::positive, conflicts_with = "epsilon")]
    theta: Option<f64>,
    /// Maximum number of sweeps, per policy or of value iteration [default: 1000000; 100000000 without a discount].
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    max_sweeps: Option<u32>,
    /// Maximum number of policies.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_policies: u32,
    /// Least improvement of the Q-factor for an action to replace the action of the policy [default: 1e-9 in f64, 1e-6 in f32].
    #[arg(long, value_name = "E", value_parser = number::non_negative)]
    tie: Option<f64>,
    /// Solve exactly: V* as fractions, by rational arithmetic from the solution in f64. The numbers of the model count as they are in f64. Of a
    /// large model, prove bounds of V* and of the policy's loss instead, by intervals with outward rounding.
    #[arg(long, conflicts_with_all = ["theta", "relative", "values", "terminal_values", "all_steps", "plot", "checkpoint", "resume", "auto_resume"])]
    exact: bool,
    #[command(flatten)]
    criterion: criterion::Arguments,
    #[command(flatten)]
    checkpoints: checkpoint::Arguments,
    /// Write values and policy to this file: .json with the report, .csv, .npy (values; the policy goes to .policy.npy) or .txt; or with
    /// - to the standard output, in place of the report.
    #[arg(long, value_name = "FILE")]
    out: Option<FileOrStd>,
    /// Format of --out [default: that of its extension; csv on the standard output].
    #[arg(long, value_parser = format::<SolutionFormat>(), value_name = "FORMAT", requires = "out")]
    to: Option<SolutionFormat>,
    /// Print one JSON object. It holds values and policy unless --out is given.
    #[arg(long)]
    json: bool,
    /// Draw values (for the average reward, the bias), policy and convergence to this file, .svg or .png; as ranks:FILE, the time of each
    /// rank in sweeps, exchange and waiting. May be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    #[command(flatten)]
    quiet: Quiet,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp solve grid.json
  warpkov mdp solve grid.safetensors --device cuda:1 --precision f32 --out solution.json
  warpkov mdp solve frozen-lake.json --gamma 0.99 --out - | column -t -s ,
  warpkov mdp solve --generate 'grid --width 1000 --height 1000 --walls 0.1' --gamma 0.99
  warpkov mdp solve grid.json --gamma 0.95 --plot grid.png --plot grid.svg
  warpkov mdp solve coin.tra --criterion reach --goal 'finished & !agree' --maximize
  warpkov mdp solve grid.json --criterion reach --goal 63 --plot reach.svg
  warpkov mdp solve grid.safetensors --checkpoint grid.checkpoint --checkpoint-every 60 --out solution.npy
  warpkov mdp solve grid.safetensors --resume grid.checkpoint --checkpoint grid.checkpoint --out solution.npy
  warpkov mdp solve stock.json --horizon 12 --gamma 1 --all-steps plan.npy
  warpkov mdp solve forest.json --exact --json | jq .exact
  warpkov mdp generate grid --width 64 --height 64 --out - | warpkov mdp solve - --json | jq .certificate";

/// Parses the number of local sweeps. `auto` is 1: sweeps then have the bits of one rank, whatever their times.
fn local_sweeps(text: &str) -> Result<u32, String> {
    const MOST: u32 = 1000;

    let number = if text == "auto" { Some(1) } else { text.parse().ok() };
    number
        .filter(|number| (1..=MOST).contains(number))
        .ok_or_else(|| format!("expected auto, or a number from 1 to {MOST}"))
}

/// The model, the criterion, and the destination of the results.
pub struct Options {
    origin: Origin,
    gamma: Option<f64>,
    objective: Option<Objective>,
    /// The criterion, unless it is the discounted sum.
    criterion: Option<criterion::Options>,
    solve: SolveOptions,
    initial: Option<PathBuf>,
    ranks: ranks::Arguments,
    /// Whether the tie margin follows from ε and γ.
    default_tie: bool,
    /// Whether the solution is exact or proved.
    exact: bool,
    common: Common,
}

/// Options that all criteria share.
pub struct Common {
    pub devices: Devices,
    out: Option<(FileOrStd, SolutionFormat)>,
    plots: Plots,
    pub checkpoints: checkpoint::Options,
    json: bool,
    pub quiet: bool,
    /// Name of the model in plots.
    name: String,
}

impl Arguments {
    /// An option that only the discounted criterion has, if one is given.
    fn of_discounted_only(&self) -> Option<&'static str> {
        let given = [
            ("--method", self.method.is_some()),
            ("--precision f32", self.precision == Precision::F32),
            ("--storage", self.storage.is_some()),
            ("--no-skip", self.no_skip),
            ("--local-sweeps", self.local_sweeps > 1),
            ("--divide metis", self.divide == Divide::Metis),
            ("--values", self.values.is_some()),
            ("--theta", self.theta.is_some()),
            ("--tie", self.tie.is_some()),
            ("--gamma", self.gamma.is_some() && !self.criterion.discounts()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

impl TryFrom<Arguments> for Options {
    type Error = Error;

    fn try_from(arguments: Arguments) -> Result<Self, Error> {
        let Arguments { precision, epsilon, theta, max_sweeps, max_policies, json, quiet: Quiet { quiet }, .. } =
            arguments;
        let discounted_only = arguments.of_discounted_only();
        let objective = arguments.criterion.objective();
        let criterion = arguments.criterion.options(epsilon, max_sweeps)?;
        if let (Some(_), Some(option)) = (&criterion, discounted_only) {
            return Err(Error::Usage(format!("{option} is for the discounted criterion only")));
        }
        if let (Some(option), Some(true)) =
            (arguments.checkpoints.asked(), criterion.as_ref().map(criterion::Options::keeps_all_steps))
        {
            return Err(Error::Usage(format!(
                "{option} and --all-steps exclude each other: a checkpoint holds one step"
            )));
        }
        if let (Some(method), true) = (arguments.method, arguments.local_sweeps > 1)
            && method != Method::Values
        {
            return Err(Error::Usage(format!("--local-sweeps is for method values, found method {method}")));
        }
        if arguments.divide == Divide::Metis {
            require_metis().map_err(|error| Error::Usage(format!("--divide metis: {error}")))?;
        }
        let max_sweeps = max_sweeps.unwrap_or(Limits::default().max_sweeps);
        // `Options::solve_options` lowers the default once γ is known.
        let (default_tie, tie) = (arguments.tie.is_none(), arguments.tie.unwrap_or(precision.default_tie()));
        let limits =
            Limits { target: theta.map_or(Target::Epsilon(epsilon), Target::Theta), max_sweeps, max_policies, tie };
        let origin = Origin::try_from(arguments.origin)?;
        let name = origin.name();
        let out = arguments.out.map(|out| {
            let format = out.format(arguments.to, SolutionFormat::ALL, SolutionFormat::Csv)?;
            match &out {
                FileOrStd::At(path) if format == SolutionFormat::Npy => file::writes_arrays(path)?,
                FileOrStd::At(path) => file::writes(path)?,
                FileOrStd::Standard if json => {
                    return Err(Error::Usage("--out - and --json both write to the standard output".into()));
                }
                FileOrStd::Standard => {}
            }
            Ok((out, format))
        });
        Ok(Self {
            origin,
            gamma: arguments.gamma,
            objective,
            criterion,
            solve: SolveOptions {
                method: arguments.method,
                device: DeviceChoice::Auto,
                precision,
                storage: arguments.storage,
                skip: !arguments.no_skip,
                local_sweeps: arguments.local_sweeps,
                device_memory: arguments.device_memory,
                reorder: arguments.reorder,
                divide: arguments.divide,
                limits,
            },
            initial: arguments.values,
            ranks: arguments.ranks,
            default_tie,
            exact: arguments.exact,
            common: Common {
                devices: arguments.device,
                out: out.transpose()?,
                plots: Plots::new(arguments.plot)?,
                name,
                checkpoints: arguments.checkpoints.try_into()?,
                json,
                quiet: quiet || json,
            },
        })
    }
}

/// Reads the model, solves it by the criterion, writes the files, prints the report.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    let mut options = Options::try_from(arguments)?;
    let ranks = options.ranks.join()?;
    options.common.checkpoints.join(&ranks)?;
    let options = &options;
    let devices = ranks.agree(ranks.devices(&options.common.devices))?;
    ranks.agree(options.common.plots.check(ranks.count(&devices)))?;
    let _starting: Vec<_> = devices.iter().map(|&device| options.origin.start(device)).collect();
    let begun = Instant::now();
    let model = ranks.agree(options.read(&ranks, devices.len()))?;
    ranks.same_files()?;
    let read = begun.elapsed();
    let warnings = options.warnings(&model);
    if ranks.is_first() {
        warnings.iter().for_each(|warning| eprintln!("warning: {}", warning.message));
    }
    if options.exact {
        let ([device], 1, Model::Whole(mdp)) = (&devices[..], ranks.size(), &model) else {
            return Err(Error::Usage("--exact is for one process and one device".to_owned()));
        };
        let Limits { target, max_sweeps, .. } = options.solve.limits;
        // --theta excludes --exact.
        let epsilon = if let Target::Epsilon(epsilon) = target { epsilon } else { Accuracy::default().epsilon };
        let (criterion, accuracy) = match &options.criterion {
            Some(asked) => asked.plain(mdp).map(|(criterion, accuracy)| (Some(criterion), accuracy))?,
            None => (None, Accuracy { epsilon, relative: false, max_sweeps: max_sweeps.into() }),
        };
        let solve = evaluate::Options { device: *device, precision: options.solve.precision, accuracy };
        return exact::run(mdp, criterion.as_ref(), &solve, &options.common, out);
    }
    match (&model, &options.criterion) {
        (Model::Whole(mdp), Some(criterion)) => {
            criterion::run(mdp, &warnings, &ranks, &devices, criterion, &options.common, out)
        }
        (Model::Whole(mdp), None) => discounted(mdp, &warnings, &ranks, &devices, read, options, out),
        (Model::Parts(parts), _) => in_parts(parts, &ranks, &devices, read, options, out),
    }
}

/// Solves for the discounted sum of rewards; `read` is the time of reading the model.
fn discounted(
    mdp: &Mdp,
    warnings: &[Warning],
    ranks: &Ranks,
    devices: &[DeviceChoice],
    read: Duration,
    options: &Options,
    out: impl Write,
) -> Result<Outcome, Error> {
    let (solve, common) = (options.solve_options(mdp.gamma()), &options.common);
    let initial = ranks.agree(options.initial.as_deref().map(initial_values).transpose())?;
    let (mut solution, checkpoints) = ranks.run(devices, |comm, device| {
        let solve = SolveOptions { device, ..solve };
        let mut observe = observer(mdp.states().into(), common.quiet || comm.rank() > 0);
        let mut checkpoints = common.checkpoints.of_rank(comm.rank());
        let session = Session {
            initial: initial.as_deref().into(),
            resume: common.checkpoints.resume(),
            checkpoints: checkpoints.as_mut(),
            observe: Some(&mut observe),
        };
        Ok((Solve::new(mdp, &solve).session(session).run_on(comm)?, checkpoints))
    })?;
    if ranks.is_first() {
        solution.phases.read = read;
        common.present(Report { warnings, ..Report::new(mdp, &solve.limits, &solution) }, false, out)?;
    }
    checkpoint::finish(checkpoints)?;
    Ok(outcome(&solution, &solve.limits))
}

/// [`discounted`], if each rank has its own part of the model. No rank holds the values of all states.
fn in_parts(
    model: &Parts,
    ranks: &Ranks,
    devices: &[DeviceChoice],
    read: Duration,
    options: &Options,
    out: impl Write,
) -> Result<Outcome, Error> {
    let (whole, common) = (model.whole(), &options.common);
    let (solve, states) = (options.solve_options(whole.gamma()), whole.states());
    let values = options.initial.as_deref();
    ranks.agree(values.map_or(Ok(()), file::reads))?;
    let read_values =
        values.map(|path| move |range| Ok::<_, Fault>(warpkov_mdp::io::read_values_of(path, range, states)?));
    let parts = ranks.run_all(devices, |comm, device| {
        let solve = SolveOptions { device, ..solve };
        let mut observe = observer(states, common.quiet || comm.rank() > 0);
        let mut checkpoints = common.checkpoints.of_rank(comm.rank());
        let session = Session {
            initial: read_values.as_ref().map_or(Initial::Zero, |read| Initial::Parts(read)),
            resume: common.checkpoints.resume(),
            checkpoints: checkpoints.as_mut(),
            observe: Some(&mut observe),
        };
        Ok((Solve::in_parts(whole, &solve).session(session).run_on(comm)?, checkpoints))
    })?;
    let (parts, checkpoints): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let mut solution = joined(parts)?;
    solution.phases.read = read;
    if solve.reorder == Reorder::Auto {
        solution.notes.push(model.note().to_owned());
    }
    if common.plots.of_results() && ranks.size() > 1 && states > plot::MOST_DRAWN {
        let most = plot::MOST_DRAWN;
        solution.notes.push(format!("plots show no values: more than {most} states are divided among ranks"));
    }
    let begun = Instant::now();
    let written = common.write_together(ranks, &solution)?;
    let (values, policy) = (std::mem::take(&mut solution.values), std::mem::take(&mut solution.policy));
    let outcome = outcome(&solution, &solve.limits);
    let divided = ranks.divided(&values, &policy)?;
    let done = divided.on_first(|| {
        let (init, grid) = (model.init()?, common.grid(model)?);
        let facts = Facts {
            gamma: whole.gamma(),
            objective: whole.objective(),
            init,
            grid: grid.as_ref(),
            names: model.names(),
            mdp: None,
        };
        let (values, policy) = match ranks.size() {
            1 => (Column::Here(&values[..]), Column::Here(&policy[..])),
            _ => (Column::Divided(&divided, 0), Column::Divided(&divided, 1)),
        };
        let (solution, limits, spent) = (&solution, &solve.limits, begun.elapsed());
        let report = Report { model: facts, limits, solution, values, policy, written: spent, warnings: &[] };
        common.present(report, written, out)
    })?;
    done.unwrap_or(Ok(()))?;
    checkpoints.into_iter().try_for_each(checkpoint::finish)?;
    Ok(outcome)
}

/// One solution from those of adjacent parts.
fn joined(parts: Vec<Solution>) -> Result<Solution, Error> {
    let mut parts = parts.into_iter();
    let first = parts.next().ok_or_else(|| Error::Usage("expected at least one device".to_owned()))?;
    Ok(parts.fold(first, |mut all, part| {
        all.values.extend(part.values);
        all.policy.extend(part.policy);
        all
    }))
}

impl Options {
    /// What most likely means that a file holds another model than the one meant. Models that are made are right.
    fn warnings(&self, model: &Model) -> Vec<Warning> {
        let (Model::Whole(mdp), Origin::File(..)) = (model, &self.origin) else { return Vec::new() };
        let purpose = match (&self.criterion, self.solve.limits.target) {
            (Some(criterion), _) => Purpose { rewards: criterion.has_rewards(), epsilon: None },
            (None, Target::Epsilon(epsilon)) => Purpose { rewards: true, epsilon: Some(epsilon) },
            (None, Target::Theta(_)) => Purpose { rewards: true, epsilon: None },
        };
        inspect_quickly(mdp, purpose)
    }

    /// Reads or generates the model, or opens it for ranks that have parts. Checks that the solution has room.
    fn read(&self, ranks: &Ranks, devices: usize) -> Result<Model, Error> {
        self.origin.check(ranks)?;
        let divided = ranks.size() > 1 || devices > 1;
        // The criteria and the order need the whole graph.
        if divided
            && self.criterion.is_none()
            && self.solve.reorder != Reorder::Rcm
            && self.solve.divide != Divide::Metis
            && let Some(parts) = self.origin.open_parts()?
        {
            self.common.room(parts.whole().states())?;
            return Ok(Model::Parts(parts.with(self.gamma, self.objective)?));
        }
        let mut mdp = self.origin.read()?;
        self.common.room(mdp.states().into())?;
        if let Some(gamma) = self.gamma {
            mdp = mdp.with_gamma(gamma).map_err(|error| Error::Usage(format!("--gamma: {error}")))?;
        }
        if let Some(objective) = self.objective {
            mdp = mdp.with_objective(objective);
        }
        Ok(Model::Whole(Box::new(mdp)))
    }

    /// The options of the solver. The default tie margin depends on γ.
    fn solve_options(&self, gamma: f64) -> SolveOptions {
        let mut options = self.solve;
        if self.default_tie {
            let SolveOptions { method, precision, limits, .. } = &mut options;
            let precision = method.map_or(*precision, |method| method.precision(*precision));
            limits.tie = precision.tie_for(limits.target, gamma);
        }
        options
    }
}

/// Shows progress; stops the solver after Ctrl-C.
pub fn observer(states: u64, quiet: bool) -> impl FnMut(&Round) -> ControlFlow<()> {
    handle_interrupts();
    let progress = Progress::new(states, quiet);
    move |round| {
        progress.observe(round);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Reads the values of a solution, in any format that `--out` writes.
pub fn initial_values(path: &Path) -> Result<Vec<f64>, Error> {
    file::reads(path)?;
    Ok(warpkov_mdp::io::read_values(path)?)
}

impl Common {
    /// Checks that the disk has room for the solution and for checkpoints.
    pub fn room(&self, states: u64) -> Result<(), Error> {
        self.checkpoints.room(size_of::<f64>() as u64 * states)?;
        match &self.out {
            Some((FileOrStd::At(path), format)) => file::room(path, format.least_bytes() * states),
            _ => Ok(()),
        }
    }

    /// The geometry of a model, if its values are drawn.
    fn grid(&self, model: &Parts) -> Result<Option<Grid>, Error> {
        let drawn = self.plots.of_results() && model.whole().states() <= plot::MOST_DRAWN;
        if drawn { model.grid() } else { Ok(None) }
    }

    /// Writes NumPy's arrays of a solution that is divided among processes, each its own part. Returns whether it is done.
    fn write_together(&self, ranks: &Ranks, solution: &Solution) -> Result<bool, Error> {
        let path = match &self.out {
            Some((FileOrStd::At(path), SolutionFormat::Npy)) => Some(&**path),
            _ => None,
        };
        if ranks.size() == 1 || !ranks.of_first(path.is_some())? {
            return Ok(false);
        }
        // The path of the first process counts.
        let path = path.unwrap_or(Path::new(""));
        let Solution { values, policy, first, size, .. } = solution;
        Ok(ranks.write_npy(path, values, *first, size.states)?
            && ranks.write_npy(&path.with_extension("policy.npy"), policy, *first, size.states)?)
    }

    /// Writes the files of a discounted solve, except the solution if it is `written`, and prints the report.
    fn present(&self, mut report: Report, written: bool, out: impl Write) -> Result<(), Error> {
        // A full disk or a closed pipe must not lose the other half of the results.
        let begun = Instant::now();
        let done = self.write_files(&report, &report.solution.ranks, written, |format| plot::draw(&report, format));
        report.written += begun.elapsed();
        let printed = self.print(&report, out);
        done?;
        Ok(printed?)
    }

    /// Writes the solution, unless it is `written`, and the plots of it, which `draw` draws, and of `ranks`, to their files.
    pub fn write_files(
        &self,
        report: &dyn Summary,
        ranks: &[RankShare],
        written: bool,
        draw: impl Fn(Format) -> Result<Vec<u8>, PlotError>,
    ) -> Result<(), Error> {
        /// States whose values take about as long to write as contexts take to go down, 0.06 s.
        const MANY: u64 = 1 << 21;

        let _stopping = (self.out.is_some() && report.values().len() >= MANY).then(Gpu::stop);
        if !written {
            self.write_solution(report)?;
        }
        self.plots.draw(&self.name, ranks, draw)
    }

    /// Writes the solution to its file, if there is one.
    pub fn write_solution(&self, report: &dyn Summary) -> Result<(), Error> {
        if let Some((FileOrStd::At(path), format)) = &self.out {
            file::write_whole(path, |out| format.write(report, out))?;
            if let (SolutionFormat::Npy, Some(policy)) = (format, file::policy_beside(path)) {
                file::write_whole(&policy, |out| warpkov_mdp::io::write_npy_pieces(out, report.policy()))?;
            }
        }
        Ok(())
    }

    /// Prints the solution, one JSON object, or the report for people.
    pub fn print(&self, report: &dyn Summary, out: impl Write) -> io::Result<()> {
        // The lines of a large model are long, and the standard output writes long lines in many small pieces.
        let mut out = io::BufWriter::new(out);
        if let Some((FileOrStd::Standard, format)) = &self.out {
            format.write(report, &mut out)?;
            return out.flush();
        }
        if self.json {
            with_usage(&mut out, report.backups(), |out| report.write_json(out, self.out.is_none()))?;
            return out.flush();
        }
        if self.quiet {
            writeln!(out, "{}", report.guarantee())?;
            return out.flush();
        }
        let elsewhere = match &self.out {
            Some((FileOrStd::At(path), _)) => Some(format!("all in {}", path.display())),
            _ => None,
        };
        let extent = match &elsewhere {
            Some(rest) => Extent::Shortened { rest },
            None if io::stdout().is_terminal() => Extent::Shortened { rest: "--out writes all" },
            None => Extent::All,
        };
        report.write_solution(&mut out, extent)?;
        writeln!(out)?;
        report.write_summary(&mut out)?;
        out.flush()
    }
}

fn outcome(solution: &Solution, limits: &Limits) -> Outcome {
    match solution.run.status {
        Status::Interrupted => Outcome::Interrupted,
        _ if solution.converged(limits) => Outcome::Success,
        _ => Outcome::Negative,
    }
}
