//! `warpkov bench mdp`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpkov_bench::mdp::BenchOptions;
use warpkov_mdp::options::{Method, Precision, Storage};
use warpkov_runtime::choose::{DeviceChoice, Devices};

use super::{Error, Metering, Outcome, factor, measured_on, or_default, print_json, write_kernels};
use crate::common::choice::choice;
use crate::common::number;
use crate::common::ranks::Arguments as RankArguments;
use crate::mdp::method::WithOptions;

mod block_sizes;
mod huge_grid;
mod ranks;
mod scaling;
mod slip_grids;
mod table_6_1;

/// Measures methods on the models of a publication, beside the times of the publication.
///
/// A time is that of a whole run, from V = 0 with the model on the device.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpkov bench mdp
  warpkov bench mdp --device cuda:0 --case G6 --method projected --precision f32 --runs 9
  warpkov bench mdp --method serial --method projected --method values --connected --plot slip-grids.svg
  warpkov bench mdp --suite table-6.1 --case GW-1024x1024x4
  warpkov bench mdp --suite block-sizes --case GW-256x256x4 --plot blocks.svg
  warpkov bench mdp --suite huge-grid --side 10000 --gamma 0.99
  warpkov bench mdp --suite huge-grid --side 100000 --device cuda:all
  warpkov bench mdp --suite scaling --largest 1e8 --plot scaling.svg
  warpkov bench mdp --suite ranks
  warpkov bench mdp --json > results.json")]
pub struct Arguments {
    /// Models and methods.
    #[arg(long, value_enum, default_value = "slip-grids")]
    suite: MdpSuite,
    /// Model, G1 to G6 or GW-64x64x1 to GW-1024x1024x4, or family, grid, garnet or power-law; may be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Method; may be repeated [default: the methods of the publication that run on this machine, and the fastest method].
    #[arg(long, value_parser = WithOptions, value_name = "METHOD")]
    method: Vec<Method>,
    /// Device of the methods that run on a GPU: auto, cpu, cuda:N or emulated; for --suite huge-grid also several GPUs,
    /// cuda:N,M,… or cuda:all. Other methods run on the CPU.
    #[arg(long, value_name = "DEVICE", default_value_t = Devices::One(DeviceChoice::Auto))]
    device: Devices,
    #[command(flatten)]
    ranks: RankArguments,
    /// Floating-point type; may be repeated [default: f32].
    #[arg(long, value_parser = choice::<Precision>())]
    precision: Vec<Precision>,
    /// θ: sweep until no value changes by θ or more [default: that of the publication, 1e-5 or 1e-4].
    #[arg(long, value_name = "T", value_parser = number::positive)]
    theta: Option<f64>,
    /// Layout of the model for value iteration on a GPU [default: the most compact that fits the model].
    #[arg(long, value_parser = choice::<Storage>())]
    storage: Option<Storage>,
    /// Sweep all states every time, including states whose value cannot have changed.
    #[arg(long)]
    no_skip: bool,
    /// Maximum GPU memory, in bytes or as 4GiB [default: all free memory]. Larger models are streamed through it.
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    device_memory: Option<u64>,
    /// Runs per line [default: 5, with median times; 12 in table-6.1, with mean times without the best and the worst].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    runs: Option<u32>,
    /// Also measure the energy of the GPU by NVML, in joules per 10⁹ backups of a state, in slip-grids and table-6.1: three seconds more for
    /// each line.
    #[arg(long)]
    energy: bool,
    /// Price of the machine per hour: the price of 10⁹ backups of a state is printed, too, in slip-grids and table-6.1.
    #[arg(long, value_name = "PRICE", value_parser = number::positive)]
    price: Option<f64>,
    #[command(flatten)]
    metering: Metering,
    /// Open walls that close cells off from the goal, in slip-grids: without, 56 of G5's 629146 cells have a way to it.
    #[arg(long)]
    connected: bool,
    /// Draw the figures of the publication with the measured numbers, or the times of scaling, to this file, .svg or .png; may be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    plot: Vec<PathBuf>,
    /// Print JSON: one array, or one object with an array per table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    huge_grid: huge_grid::HugeGridArguments,
    #[command(flatten)]
    scaling: scaling::ScalingArguments,
}

/// The models and methods of a publication, or of this program.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MdpSuite {
    /// Policy iteration on slip grids: Aydin, Policy Iteration on the GPU (2025), Tables 5.4 (grids), 5.5 and 5.7 (times).
    SlipGrids,
    /// Value iteration on grid worlds: Jóhannsson, GPU-Based Markov Decision Process Solver (2009), Tables 6.1 (grids) and
    /// 6.2 (speed-ups), and section 6.3 (locality).
    #[value(name = "table-6.1")]
    Table61,
    /// Block Divided Iteration on the same grid worlds by the size of blocks and the sweeps between them.
    BlockSizes,
    /// A slip grid, generated, solved and certified on the device.
    HugeGrid,
    /// Time of a sweep of value iteration against the size of the model.
    Scaling,
    /// Value iteration on up to 4096 GPUs, computed by a model of its cost, and the measured times beside it. Runs nothing.
    Ranks,
}

impl Arguments {
    /// Checks that options of one suite are not given to another.
    fn check(&self) -> Result<(), Error> {
        let huge_grid = self.huge_grid.given().filter(|_| self.suite != MdpSuite::HugeGrid);
        let scaling = self.scaling.given().filter(|_| self.suite != MdpSuite::Scaling);
        let foreign = huge_grid.map(|name| (name, "huge-grid")).or(scaling.map(|name| (name, "scaling")));
        if self.suite != MdpSuite::HugeGrid && !matches!(self.device, Devices::One(_)) {
            return Err(Error::Usage("several GPUs are for --suite huge-grid, expected one device".to_owned()));
        }
        let has_methods = matches!(self.suite, MdpSuite::SlipGrids | MdpSuite::Table61);
        let method = (!self.method.is_empty() && !has_methods).then_some(("--method", "slip-grids or table-6.1"));
        let has_cases = has_methods || matches!(self.suite, MdpSuite::Scaling | MdpSuite::BlockSizes);
        let plot = (!self.plot.is_empty() && !has_cases)
            .then_some(("--plot", "slip-grids, table-6.1, block-sizes or scaling"));
        let connected = self.connected && self.suite != MdpSuite::SlipGrids;
        let connected = connected.then_some(("--connected", "slip-grids"));
        let case = (!self.case.is_empty() && !has_cases)
            .then_some(("--case", "slip-grids, table-6.1, block-sizes or scaling"));
        let metered =
            [("--energy", self.energy), ("--price", self.price.is_some()), ("--kernels", self.metering.kernels)];
        let metered = metered.iter().find(|(_, given)| *given && !has_methods);
        let metered = metered.map(|(name, _)| (*name, "slip-grids or table-6.1"));
        match foreign.or(method).or(case).or(plot).or(connected).or(metered) {
            Some((name, suite)) => Err(Error::Usage(format!("{name} belongs to --suite {suite}"))),
            None if self.energy && (self.device() == DeviceChoice::Emulated || !self.on_gpu()) => {
                Err(Error::Usage("--energy needs a GPU: NVML tells of no other device".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// The models of `--case`, or `all`. `named` finds a model by its name; `expected` lists the names for the error.
    fn cases<C: Clone>(&self, all: &[C], named: impl Fn(&str) -> Option<C>, expected: &str) -> Result<Vec<C>, Error> {
        if self.case.is_empty() {
            return Ok(all.to_vec());
        }
        let found =
            |name: &String| named(name).ok_or_else(|| Error::Usage(format!("--case {name}: expected {expected}")));
        self.case.iter().map(found).collect()
    }

    /// Options of the measurement of one line.
    fn options(&self, device: DeviceChoice, precision: Precision, theta: f64, runs: usize) -> BenchOptions {
        let Self { storage, no_skip, device_memory, energy, metering: Metering { kernels }, .. } = *self;
        BenchOptions { device, precision, theta, storage, skip: !no_skip, device_memory, runs, energy, kernels }
    }

    /// The device of a suite for one.
    fn device(&self) -> DeviceChoice {
        match self.device {
            Devices::One(device) => device,
            _ => DeviceChoice::Auto,
        }
    }

    /// Whether methods for the GPU can run.
    fn on_gpu(&self) -> bool {
        self.device().runs_kernels()
    }

    /// The options of ranks, if several can run this suite together.
    pub fn ranks(&self) -> Option<&RankArguments> {
        (self.suite == MdpSuite::HugeGrid).then_some(&self.ranks)
    }
}

/// The heads of the columns of 10⁹ backups.
fn of_backups_header(arguments: &Arguments) -> String {
    let energy = if arguments.energy { "    J/10⁹" } else { "" };
    let price = if arguments.price.is_some() { "  price/10⁹" } else { "" };
    format!("{energy}{price}")
}

/// Energy and price of 10⁹ backups of a state, as far as they are asked for.
fn of_backups(joules: Option<f64>, price: Option<f64>, milliseconds: f64, backups: u64) -> String {
    let energy = joules.map_or_else(String::new, |joules| format!(" {joules:>8.2}"));
    let price = price.map(|price| price * milliseconds / 3.6e6 * 1e9 / backups as f64);
    energy + &price.map_or_else(String::new, |price| format!(" {price:>10.2e}"))
}

/// Measures the models of a suite, and prints each line when its measurement ends.
pub fn run(arguments: Arguments, out: impl Write) -> Result<Outcome, Error> {
    arguments.check()?;
    match arguments.suite {
        MdpSuite::HugeGrid => huge_grid::run(arguments, out),
        MdpSuite::Scaling => scaling::run(arguments, out),
        MdpSuite::Ranks => ranks::run(arguments, out),
        MdpSuite::SlipGrids => slip_grids::run(arguments, out),
        MdpSuite::Table61 => table_6_1::run(arguments, out),
        MdpSuite::BlockSizes => block_sizes::run(arguments, out),
    }
}
