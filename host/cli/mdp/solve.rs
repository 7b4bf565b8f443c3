//! `warpkov mdp solve`.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use warpkov::common::interrupt;
use warpkov::common::plot::{Format, PlotError};
use warpkov::mdp::model::{Mdp, Objective};
use warpkov::mdp::options::{Limits, Method, Precision, Reorder, SolveOptions, Storage, Target};
use warpkov::mdp::report::{Extent, Report, Summary};
use warpkov::mdp::solution::{Round, Solution, Status};
use warpkov::mdp::{self, plot, solve_from};
use warpkov::runtime::choose::DeviceChoice;
use warpkov::runtime::gpu::Gpu;

use super::{blocks, criterion};
use crate::cli::common::choice::choice;
use crate::cli::common::file::{self, Input, ModelFile};
use crate::cli::common::interrupts::handle_interrupts;
use crate::cli::common::number;
use crate::cli::error::{Error, Outcome};
use crate::cli::progress::Progress;

/// Solves a model: finds its optimal values and an optimal policy.
///
/// The result is certified: the sup-norm error of the values is at most ε, rounding errors included. Exit code 0 if that
/// was reached, 1 if a limit was met first. Values can be infinite where they are not discounted: those are inf and -inf in
/// CSV and text, infinities in .npy, and the strings "inf" and "-inf" in JSON.
#[derive(Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Where to solve: auto, cpu, cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// How to compute [default: what suits the model, with a note that says why].
    #[arg(long, value_parser = choice::<Method>())]
    method: Option<Method>,
    /// Floating-point type of the sweeps.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "mixed")]
    precision: Precision,
    /// How value iteration stores the model on a GPU [default: the smallest way that it has].
    #[arg(long, value_parser = choice::<Storage>())]
    storage: Option<Storage>,
    /// Sweep all states every time, also those that cannot have changed. The values are the same.
    #[arg(long)]
    no_skip: bool,
    /// GPU memory to use at most, in bytes or as 4GiB [default: all that is free]. Larger models are streamed through it.
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    device_memory: Option<u64>,
    /// Number states anew while solving, so that successors are near each other.
    #[arg(long, value_parser = choice::<Reorder>(), default_value = "auto")]
    reorder: Reorder,
    /// Start from the values in this file, a solution of a similar model: .json, .csv, .npy or .txt.
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
    /// Discount factor γ in [0, 1], instead of the model's; 1 with --horizon only.
    #[arg(long, value_name = "G", value_parser = number::probability)]
    gamma: Option<f64>,
    /// ε: the largest error that the values may have.
    #[arg(long, value_name = "E", default_value = "1e-6", value_parser = number::positive)]
    epsilon: f64,
    /// θ: stop when no value changes by this much in a sweep, as textbooks do, and certify what comes out.
    #[arg(long, value_name = "T", value_parser = number::positive, conflicts_with = "epsilon")]
    theta: Option<f64>,
    /// Sweeps at most, per policy or of value iteration [default: 1000000; 100000000 where nothing is discounted].
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    max_sweeps: Option<u32>,
    /// Policies at most.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_policies: u32,
    /// How much better an action must be to replace the present one [default: 1e-9 in f64, 1e-6 in f32].
    #[arg(long, value_name = "E", value_parser = number::non_negative)]
    tie: Option<f64>,
    #[command(flatten)]
    criterion: criterion::Arguments,
    #[command(flatten)]
    blocks: blocks::Blocks,
    /// Write values and policy to this file: .json (with all figures), .csv, .npy (values; the policy to .policy.npy) or
    /// .txt (two lines); or with - to the standard output, in place of the report.
    #[arg(long, value_name = "FILE")]
    out: Option<ModelFile>,
    /// Format of --out [default: as its extension says; csv on the standard output].
    #[arg(long, value_enum, value_name = "FORMAT", requires = "out")]
    to: Option<SolutionFormat>,
    /// Print one JSON object; values and policy are in it unless --out is given.
    #[arg(long)]
    json: bool,
    /// Draw values (of an average reward, the bias), policy and convergence to this file, .svg or .png; may be repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  warpkov mdp solve grid.json
  warpkov mdp solve grid.safetensors --device cuda:1 --precision f32 --out solution.json
  warpkov mdp solve frozen-lake.json --gamma 0.99 --out - | column -t -s ,
  warpkov mdp solve grid.json --gamma 0.95 --plot grid.png --plot grid.svg
  warpkov mdp solve coin.tra --criterion reach --goal 'finished & !agree' --maximize
  warpkov mdp solve grid.json --criterion reach --goal 63 --plot reach.svg
  warpkov mdp solve stock.json --horizon 12 --gamma 1 --all-steps plan.npy
  warpkov mdp generate grid --width 64 --height 64 --out - | warpkov mdp solve - --json | jq .certificate";

/// What to solve and where the results go.
pub struct Options {
    input: Input,
    gamma: Option<f64>,
    objective: Option<Objective>,
    /// If not the discounted sum.
    criterion: Option<criterion::Options>,
    solve: SolveOptions,
    initial: Option<PathBuf>,
    /// Whether the margin of ties is ours to choose.
    default_tie: bool,
    common: Common,
}

/// What all criteria have.
pub struct Common {
    pub device: DeviceChoice,
    out: Option<(ModelFile, SolutionFormat)>,
    plots: Vec<(PathBuf, Format)>,
    json: bool,
    pub quiet: bool,
}

/// How a solution is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SolutionFormat {
    /// One object, with all figures.
    Json,
    /// One row per state: its number, its value, its action.
    Csv,
    /// NumPy's arrays: values as f64, and in a file of its own the policy as u32.
    Npy,
    /// The lines `Optimal policy:` and `Optimal value:`.
    #[value(alias = "txt")]
    Text,
}

impl SolutionFormat {
    /// The format asked for, else the one that the name tells.
    fn of(asked: Option<Self>, out: &ModelFile) -> Result<Self, Error> {
        match (asked, out) {
            (Some(format), _) => Ok(format),
            (None, ModelFile::Standard) => Ok(Self::Csv),
            (None, ModelFile::At(path)) => Ok(match file::extension(path, &["json", "txt", "csv", "npy"])? {
                "json" => Self::Json,
                "csv" => Self::Csv,
                "npy" => Self::Npy,
                _ => Self::Text,
            }),
        }
    }

    /// Bytes at least for each state.
    fn least(self) -> u64 {
        match self {
            // A value of one digit and an action, and what stands between.
            Self::Json | Self::Text => 4,
            Self::Csv => 6,
            Self::Npy => 12,
        }
    }

    /// Writes a solution; as arrays, its values.
    fn write(self, report: &dyn Summary, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Json => report.write_json(out, true),
            Self::Csv => mdp::io::write_csv(out, report.values(), report.policy()),
            Self::Npy => mdp::io::write_npy(out, report.values()),
            Self::Text => report.write_solution(out, Extent::All),
        }
    }
}

impl Arguments {
    /// An option given that means nothing to criteria other than the discounted one.
    fn of_discounted_only(&self) -> Option<&'static str> {
        let given = [
            ("--method", self.method.is_some()),
            ("--precision f32", self.precision == Precision::F32),
            ("--storage", self.storage.is_some()),
            ("--no-skip", self.no_skip),
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
        let Arguments { precision, epsilon, theta, max_sweeps, max_policies, json, quiet, device, .. } = arguments;
        let discounted_only = arguments.of_discounted_only();
        let objective = arguments.criterion.objective();
        let criterion = arguments.criterion.options(epsilon, max_sweeps)?;
        if let (Some(_), Some(option)) = (&criterion, discounted_only) {
            return Err(Error::Usage(format!("{option} is for the discounted criterion only")));
        }
        let max_sweeps = max_sweeps.unwrap_or(Limits::default().max_sweeps);
        // Once γ is known, the default is less where ε asks for that.
        let (default_tie, tie) = (arguments.tie.is_none(), arguments.tie.unwrap_or(precision.default_tie()));
        let limits =
            Limits { target: theta.map_or(Target::Epsilon(epsilon), Target::Theta), max_sweeps, max_policies, tie };
        let out = arguments.out.map(|out| {
            let format = SolutionFormat::of(arguments.to, &out)?;
            match &out {
                ModelFile::At(path) if format == SolutionFormat::Npy => file::writes_arrays(path)?,
                ModelFile::At(path) => file::writes(path)?,
                ModelFile::Standard if json => {
                    return Err(Error::Usage("--out - and --json both write to the standard output".into()));
                }
                ModelFile::Standard => {}
            }
            Ok((out, format))
        });
        let plots = arguments.plot.into_iter().map(|path| {
            let format = file::plot_format(&path)?;
            Ok::<_, Error>((path, format))
        });
        Ok(Self {
            input: arguments.input,
            gamma: arguments.gamma,
            objective,
            criterion,
            solve: SolveOptions {
                method: arguments.method,
                device,
                precision,
                storage: arguments.storage,
                skip: !arguments.no_skip,
                device_memory: arguments.device_memory,
                reorder: arguments.reorder,
                limits,
                blocks: arguments.blocks.into(),
            },
            initial: arguments.values,
            default_tie,
            common: Common {
                device,
                out: out.transpose()?,
                plots: plots.collect::<Result<_, _>>()?,
                json,
                quiet: quiet || json,
            },
        })
    }
}

/// Reads the model, solves it, writes the files, prints the report.
pub fn run(options: &Options, out: impl Write) -> Result<Outcome, Error> {
    let _starting = options.input.start(options.common.device);
    let begun = Instant::now();
    let mut mdp = options.input.read()?;
    let read = begun.elapsed();
    if let Some(gamma) = options.gamma {
        mdp = mdp.with_gamma(gamma).map_err(|error| Error::Usage(format!("--gamma: {error}")))?;
    }
    if let Some(objective) = options.objective {
        mdp = mdp.with_objective(objective);
    }
    options.common.room(&mdp)?;
    if let Some(criterion) = &options.criterion {
        return criterion::run(&mdp, criterion, &options.common, out);
    }
    let mut solve_options = options.solve;
    if options.default_tie {
        let SolveOptions { method, precision, limits, .. } = &mut solve_options;
        let precision = method.map_or(*precision, |method| method.precision(*precision));
        limits.tie = precision.tie_for(limits.target, mdp.gamma());
    }
    let mut solution = solve(&mdp, &solve_options, options)?;
    solution.phases.read = read;
    let limits = &solve_options.limits;
    let report = Report { mdp: &mdp, limits, solution: &solution };
    // Neither a full disk nor a closed pipe may cost the other half of the results.
    let common = &options.common;
    let begun = Instant::now();
    let written = common.write_files(&report, |format| plot::draw(&report, format));
    solution.phases.write = begun.elapsed();
    let printed = common.print(&Report { mdp: &mdp, limits, solution: &solution }, out);
    written?;
    printed?;
    Ok(outcome(&solution, &solve_options.limits))
}

fn solve(mdp: &Mdp, solve: &SolveOptions, options: &Options) -> Result<Solution, Error> {
    let mut observer = observer(mdp.states(), options.common.quiet);
    let initial = options.initial.as_deref().map(initial_values).transpose()?;
    Ok(solve_from(mdp, initial.as_deref(), solve, &mut observer)?)
}

/// Shows progress, and breaks after Ctrl-C.
pub fn observer(states: u32, quiet: bool) -> impl FnMut(&Round) -> ControlFlow<()> {
    handle_interrupts();
    let progress = Progress::new(states, quiet);
    move |round| {
        progress.observe(round);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Values of states from a solution in any format that is written here.
pub fn initial_values(path: &Path) -> Result<Vec<f64>, Error> {
    file::reads(path)?;
    Ok(mdp::io::read_values(path)?)
}

impl Common {
    /// Refuses to solve a model for whose solution there is no room.
    pub fn room(&self, mdp: &Mdp) -> Result<(), Error> {
        match &self.out {
            Some((ModelFile::At(path), format)) => file::room(path, format.least() * u64::from(mdp.states())),
            _ => Ok(()),
        }
    }

    /// Writes the solution to the file asked for, and what `draw` draws to those of plots.
    pub fn write_files(
        &self,
        report: &dyn Summary,
        draw: impl Fn(Format) -> Result<Vec<u8>, PlotError>,
    ) -> Result<(), Error> {
        /// States whose values take about as long to write as contexts take to go down, 0.06 s.
        const MANY: usize = 1 << 21;

        let _stopping = (self.out.is_some() && report.values().len() >= MANY).then(Gpu::stop);
        if let Some((ModelFile::At(path), format)) = &self.out {
            file::write_whole(path, |out| format.write(report, out))?;
            if let (SolutionFormat::Npy, Some(policy)) = (format, file::policy_beside(path)) {
                file::write_whole(&policy, |out| mdp::io::write_npy(out, report.policy()))?;
            }
        }
        for (path, format) in &self.plots {
            let picture = draw(*format)?;
            file::write_whole(path, |out| out.write_all(&picture))?;
        }
        Ok(())
    }

    /// Prints what was asked for: the solution, one JSON object, or the report for people.
    pub fn print(&self, report: &dyn Summary, out: impl Write) -> io::Result<()> {
        // The lines of a large model are long, and the standard output flushes at every line only.
        let mut out = io::BufWriter::new(out);
        if let Some((ModelFile::Standard, format)) = &self.out {
            format.write(report, &mut out)?;
            return out.flush();
        }
        if self.json {
            report.write_json(&mut out, self.out.is_none())?;
            return out.flush();
        }
        let elsewhere = match &self.out {
            Some((ModelFile::At(path), _)) => Some(format!("all in {}", path.display())),
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
