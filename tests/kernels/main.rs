//! Every kernel on every device: the same cases run on the emulator, in several orders of threads, and on each GPU.
//!
//! `cargo test --test kernels` lists the cases as `device::kernel::instance`. Without a GPU, only the emulated cases
//! exist; `WARPKOV_REQUIRE_GPU=1` makes this an error.
//!
//! Where threads compete, by atomic operations, each order of threads may have other winners. `WARPKOV_ORDERS=100` runs
//! these cases in 100 random orders besides the fixed ones. A failure names the order, whose number repeats it:
//! `Interleaved(17)` needs `WARPKOV_ORDERS=17`.
//!
//! `thousands_of_solves` measures the process, so it runs alone: `--ignored`.

/// Adds cases that are generic over precision and offsets, in every combination; the emulator runs those in which each of the
/// four types occurs once.
macro_rules! instances {
    ($suite:ident, $($name:literal: $case:ident,)*) => {$(
        $suite.add(concat!($name, "::f32_u32"), $case::<f32, u32>);
        $suite.add(concat!($name, "::f64_u64"), $case::<f64, u64>);
        if let crate::Which::Gpu(_) = $suite.which {
            $suite.add(concat!($name, "::f32_u64"), $case::<f32, u64>);
            $suite.add(concat!($name, "::f64_u32"), $case::<f64, u32>);
        }
    )*};
}

mod check;
mod counters;
mod divided;
mod full_backup;
mod generate;
mod gpu;
mod hmm;
mod hopper;
mod lessons;
mod library;
mod many;
mod mdp;
mod pomdp;
mod pomdp_bounds;
#[path = "../support/random.rs"]
mod random;
mod ranks;
mod streamed;
mod values;
mod vector;
#[path = "../support/wide.rs"]
mod wide;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use warpkov_runtime::device::AnyDevice;

use libtest_mimic::{Arguments, Failed, Trial};
use warpkov_device::emulator::{Emulator, Schedule};
use warpkov_runtime::gpu::{Gpu, MODULES};

/// The result of a case.
pub type Outcome = Result<(), Failed>;

/// The cases of one device.
pub struct Suite {
    device: String,
    which: Which,
    trials: Vec<Trial>,
}

/// A device that any thread can open.
#[derive(Clone, Copy)]
enum Which {
    /// The emulator, with these orders of threads, and a number of random ones; `None`: [`RANDOM_ORDERS`] of short cases.
    Emulated(&'static [Schedule], Option<u64>),
    Gpu(u32),
}

/// The cases that take seconds under emulation.
const LONG: [&str; 14] = [
    "counters",
    "hmm_by_slices::",
    "hmm_gaussian::",
    "hmm_large::",
    "hmm_maximise::",
    "hmm_one_by_one::",
    "hmm_out_of_range",
    "hmm_windows::",
    "mixed",
    "pomdp_backups::",
    "pomdp_walks::",
    "skipping",
    "slip_grid::",
    "table_5_3::",
];

/// The orders of threads of the suite.
const ORDERS: [Schedule; 3] = [Schedule::RoundRobin, Schedule::Reversed, Schedule::Random(0x5eed)];

/// Random orders of cases whose fixed orders take less than [`SHORT`], unless `WARPKOV_ORDERS` says how many all cases get.
const RANDOM_ORDERS: u64 = 9;

const SHORT: Duration = Duration::from_millis(250);

/// Random orders: in odd ones, the threads of some blocks interleave.
fn random_orders(count: u64) -> impl Iterator<Item = Schedule> {
    (1..=count).map(|seed| if seed % 2 == 1 { Schedule::Interleaved(seed) } else { Schedule::Random(seed) })
}

/// Names the order if a case panics.
struct Running(Schedule);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("a panic under Schedule::{:?}", self.0);
        }
    }
}

thread_local! {
    /// The open GPU, kept for the next cases of this thread.
    static GPU: RefCell<Option<(u32, Rc<AnyDevice>)>> = const { RefCell::new(None) };
}

/// Opens a GPU, unless it is the last one that this thread has opened.
fn gpu(ordinal: u32) -> Result<Rc<AnyDevice>, Failed> {
    GPU.with_borrow_mut(|slot| match slot {
        Some((open, gpu)) if *open == ordinal => Ok(gpu.clone()),
        _ => Ok(slot.insert((ordinal, Rc::new(Gpu::open(ordinal, &MODULES)?.into()))).1.clone()),
    })
}

impl Which {
    /// Runs a case, on the emulator once in each order. If its threads do not communicate, one order shows all. If they do
    /// not compete, the fixed orders do.
    ///
    /// The size factor of cases is larger on a GPU: emulated threads are a thousand times slower.
    fn run(self, case: impl Fn(&AnyDevice, usize) -> Outcome) -> Outcome {
        let (fixed, random) = match self {
            Self::Emulated(fixed, random) => (fixed, random),
            Self::Gpu(ordinal) => return case(&*gpu(ordinal)?, 64),
        };
        let begun = Instant::now();
        let random =
            random_orders(random.unwrap_or(RANDOM_ORDERS)).take_while(|_| random.is_some() || begun.elapsed() < SHORT);
        for (number, schedule) in (1..).zip(fixed.iter().copied().chain(random)) {
            let (device, running) = (AnyDevice::from(Emulator::new(schedule)), Running(schedule));
            let outcome = case(&device, 1);
            drop(running);
            outcome.map_err(|failed| format!("{schedule:?}: {}", failed.message().unwrap_or("failed")))?;
            let AnyDevice::Emulated(emulator) = &device else { continue };
            if !emulator.communicated() || number >= fixed.len() && !emulator.competed() {
                break;
            }
        }
        Ok(())
    }
}

impl Suite {
    fn new(device: String, which: Which) -> Self {
        Self { device, which, trials: Vec::new() }
    }

    /// Adds a case. The emulator runs it in one order, and if its threads communicate, in all.
    pub fn add(&mut self, name: &str, case: impl Fn(&AnyDevice, usize) -> Outcome + Send + 'static) {
        let (name, which) = (format!("{}::{name}", self.device), self.which);
        self.trials.push(Trial::test(name, move || which.run(case)));
    }

    /// Adds a case that runs by itself, once, and only where `--ignored` asks for it.
    pub fn add_alone(&mut self, name: &str, case: impl FnOnce(&AnyDevice) -> Outcome + Send + 'static) {
        let (name, which) = (format!("{}::{name}", self.device), self.which);
        let run = move || match which {
            Which::Emulated(..) => case(&Emulator::default().into()),
            Which::Gpu(ordinal) => case(&*gpu(ordinal)?),
        };
        self.trials.push(Trial::test(name, run).with_ignored_flag(true));
    }
}

/// The cases that every device runs.
fn trials(device: String, which: Which) -> Vec<Trial> {
    let mut suite = Suite::new(device, which);
    lessons::add(&mut suite);
    library::add(&mut suite);
    hopper::add(&mut suite);
    mdp::add(&mut suite);
    pomdp::add(&mut suite);
    pomdp_bounds::add(&mut suite);
    hmm::add(&mut suite);
    vector::add(&mut suite);
    values::add(&mut suite);
    generate::add(&mut suite);
    divided::add(&mut suite);
    streamed::add(&mut suite);
    ranks::add(&mut suite);
    suite.trials
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let orders = std::env::var("WARPKOV_ORDERS").ok().map(|orders| orders.parse::<u64>()).transpose();
    let Ok(orders) = orders else {
        eprintln!("error: WARPKOV_ORDERS is not a number");
        return ExitCode::FAILURE;
    };
    let mut all = trials("emulated".to_owned(), Which::Emulated(&ORDERS, orders));
    let mut interleaved =
        Suite::new("emulated-interleaved".to_owned(), Which::Emulated(&[Schedule::Interleaved(1)], Some(0)));
    lessons::add(&mut interleaved);
    all.extend(interleaved.trials);
    let mut once = Suite::new("emulated".to_owned(), Which::Emulated(&[Schedule::RoundRobin], Some(0)));
    once.add("counters", counters::compare);
    many::add(&mut once);
    all.extend(once.trials);
    let gpus = Gpu::count().unwrap_or(0);
    if gpus == 0 && std::env::var_os("WARPKOV_REQUIRE_GPU").is_some_and(|value| value == "1") {
        eprintln!("error: WARPKOV_REQUIRE_GPU is set, and there is no GPU");
        return ExitCode::FAILURE;
    }
    for ordinal in 0..gpus {
        all.extend(trials(format!("cuda:{ordinal}"), Which::Gpu(ordinal)));
        let mut suite = Suite::new(format!("cuda:{ordinal}"), Which::Gpu(ordinal));
        gpu::add(&mut suite);
        many::add(&mut suite);
        suite.add("counters", |device, _| counters::launches(device));
        all.extend(suite.trials);
    }
    if gpus > 0 {
        all.extend(ranks::of_gpus(gpus));
    }
    // Long cases first, so that no core waits for the last one.
    all.sort_by_key(|trial| !LONG.iter().any(|name| trial.name().contains(name)));
    libtest_mimic::run(&arguments, all).exit_code()
}
