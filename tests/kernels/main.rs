//! Every kernel on every device: the same cases run on the emulator under several schedules, and on each GPU.
//!
//! `cargo test --test kernels` lists the cases as `device::kernel::instance`. Without a GPU, only the emulated cases
//! exist; `WARPKOV_REQUIRE_GPU=1` makes this an error.

/// Adds cases that are generic over precision and offsets, in every combination.
macro_rules! instances {
    ($suite:ident, $($name:literal: $case:ident,)*) => {$(
        $suite.add(concat!($name, "::f32_u32"), $case::<f32, u32>);
        $suite.add(concat!($name, "::f32_u64"), $case::<f32, u64>);
        $suite.add(concat!($name, "::f64_u32"), $case::<f64, u32>);
        $suite.add(concat!($name, "::f64_u64"), $case::<f64, u64>);
    )*};
}

mod check;
mod counters;
mod divided;
mod generate;
mod gpu;
mod hmm;
mod lessons;
mod mdp;
mod pomdp;
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
    Emulated(Schedule),
    Gpu(u32),
}

thread_local! {
    /// The open GPU, kept for the next cases of this thread.
    static GPU: RefCell<Option<(u32, Rc<AnyDevice>)>> = const { RefCell::new(None) };
}

impl Which {
    fn open(self) -> Result<Rc<AnyDevice>, Failed> {
        match self {
            Self::Emulated(schedule) => Ok(Rc::new(Emulator::new(schedule).into())),
            Self::Gpu(ordinal) => GPU.with_borrow_mut(|slot| match slot {
                Some((open, gpu)) if *open == ordinal => Ok(gpu.clone()),
                _ => Ok(slot.insert((ordinal, Rc::new(Gpu::open(ordinal, &MODULES)?.into()))).1.clone()),
            }),
        }
    }

    /// Size factor of cases: emulated threads are a thousand times slower than those of a GPU.
    fn scale(self) -> usize {
        match self {
            Self::Emulated(_) => 1,
            Self::Gpu(_) => 64,
        }
    }
}

impl Suite {
    fn new(device: String, which: Which) -> Self {
        Self { device, which, trials: Vec::new() }
    }

    /// Adds a case.
    pub fn add(&mut self, name: &str, case: impl FnOnce(&AnyDevice, usize) -> Outcome + Send + 'static) {
        let (name, which) = (format!("{}::{name}", self.device), self.which);
        self.trials.push(Trial::test(name, move || case(&*which.open()?, which.scale())));
    }
}

/// The cases that every device runs.
fn trials(device: String, which: Which) -> Vec<Trial> {
    let mut suite = Suite::new(device, which);
    lessons::add(&mut suite);
    mdp::add(&mut suite);
    pomdp::add(&mut suite);
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
    let mut all = Vec::new();
    for (name, schedule) in [
        ("emulated", Schedule::RoundRobin),
        ("emulated-reversed", Schedule::Reversed),
        ("emulated-random", Schedule::Random(0x5eed)),
    ] {
        all.extend(trials(name.to_owned(), Which::Emulated(schedule)));
    }
    let mut interleaved = Suite::new("emulated-interleaved".to_owned(), Which::Emulated(Schedule::Interleaved(1)));
    lessons::add(&mut interleaved);
    all.extend(interleaved.trials);
    let mut profiled = Suite::new("emulated".to_owned(), Which::Emulated(Schedule::default()));
    profiled.add("counters", counters::compare);
    all.extend(profiled.trials);
    let gpus = Gpu::count().unwrap_or(0);
    if gpus == 0 && std::env::var_os("WARPKOV_REQUIRE_GPU").is_some_and(|value| value == "1") {
        eprintln!("error: WARPKOV_REQUIRE_GPU is set, and there is no GPU");
        return ExitCode::FAILURE;
    }
    for ordinal in 0..gpus {
        all.extend(trials(format!("cuda:{ordinal}"), Which::Gpu(ordinal)));
        let mut suite = Suite::new(format!("cuda:{ordinal}"), Which::Gpu(ordinal));
        gpu::add(&mut suite);
        suite.add("counters", |device, _| counters::launches(device));
        all.extend(suite.trials);
    }
    if gpus > 0 {
        all.extend(ranks::of_gpus(gpus));
    }
    libtest_mimic::run(&arguments, all).exit_code()
}
