//! Every kernel on every device: the same cases run on the emulator under several schedules, and on each GPU.
//!
//! `cargo test --test kernels` lists the cases as `device::kernel::instance`. Without a GPU, only the emulated cases
//! exist; `WARPKOV_REQUIRE_GPU=1` makes this an error.

/// Adds cases that are generic over precision and offsets, in every combination.
macro_rules! instances {
    ($suite:ident, $($name:literal: $case:ident,)*) => {$(
        $suite.add(concat!($name, "::f32_u32"), $case::<f32, u32, _>);
        $suite.add(concat!($name, "::f32_u64"), $case::<f32, u64, _>);
        $suite.add(concat!($name, "::f64_u32"), $case::<f64, u32, _>);
        $suite.add(concat!($name, "::f64_u64"), $case::<f64, u64, _>);
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

use std::process::ExitCode;
use std::rc::Rc;

use libtest_mimic::{Arguments, Failed, Trial};
use warpkov::runtime::gpu::{Gpu, MODULES};
use warpkov_device::emulator::{Emulator, Schedule};
use warpkov_device::launch::Device;

/// The result of a case.
pub type Outcome = Result<(), Failed>;

/// The cases of one device. `with` gives access to the device.
pub struct Suite<W> {
    device: String,
    with: W,
    trials: Vec<Trial>,
}

/// Access to a device from any thread.
pub trait With: Clone + Send + 'static {
    /// The device.
    type Device: Device + 'static;
    /// Runs `case` on the device.
    fn with(&self, case: impl FnOnce(&Self::Device) -> Outcome) -> Outcome;
    /// Size factor of cases: emulated threads are a thousand times slower than those of a GPU.
    fn scale(&self) -> usize;
}

impl<W: With> Suite<W> {
    /// Adds a case.
    pub fn add(&mut self, name: &str, case: impl FnOnce(&W::Device, usize) -> Outcome + Send + 'static) {
        let with = self.with.clone();
        let name = format!("{}::{name}", self.device);
        self.trials.push(Trial::test(name, move || with.with(|device| case(device, with.scale()))));
    }
}

fn trials<W: With>(device: String, with: W) -> Vec<Trial> {
    let mut suite = Suite { device, with, trials: Vec::new() };
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

#[derive(Clone)]
struct Emulated(Schedule);

impl With for Emulated {
    type Device = Emulator;
    fn with(&self, case: impl FnOnce(&Emulator) -> Outcome) -> Outcome {
        case(&Emulator::new(self.0))
    }
    fn scale(&self) -> usize {
        1
    }
}

#[derive(Clone)]
struct OnGpu(u32);

thread_local! {
    /// The open GPU, kept for the next cases of this thread.
    static GPU: std::cell::RefCell<Option<(u32, Rc<Gpu>)>> = const { std::cell::RefCell::new(None) };
}

impl With for OnGpu {
    type Device = Gpu;
    fn with(&self, case: impl FnOnce(&Gpu) -> Outcome) -> Outcome {
        let gpu = GPU.with_borrow_mut(|slot| match slot {
            Some((ordinal, gpu)) if *ordinal == self.0 => Ok(gpu.clone()),
            _ => Gpu::open(self.0, &MODULES).map(|gpu| slot.insert((self.0, Rc::new(gpu))).1.clone()),
        })?;
        case(&gpu)
    }
    fn scale(&self) -> usize {
        64
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut all = Vec::new();
    for (name, schedule) in [
        ("emulated", Schedule::RoundRobin),
        ("emulated-reversed", Schedule::Reversed),
        ("emulated-random", Schedule::Random(0x5eed)),
    ] {
        all.extend(trials(name.to_owned(), Emulated(schedule)));
    }
    let mut interleaved = Suite {
        device: "emulated-interleaved".to_owned(),
        with: Emulated(Schedule::Interleaved(1)),
        trials: Vec::new(),
    };
    lessons::add(&mut interleaved);
    all.extend(interleaved.trials);
    let mut profiled = Suite { device: "emulated".to_owned(), with: Emulated(Schedule::default()), trials: Vec::new() };
    profiled.add("counters", counters::compare);
    all.extend(profiled.trials);
    let gpus = Gpu::count().unwrap_or(0);
    if gpus == 0 && std::env::var_os("WARPKOV_REQUIRE_GPU").is_some_and(|value| value == "1") {
        eprintln!("error: WARPKOV_REQUIRE_GPU is set, and there is no GPU");
        return ExitCode::FAILURE;
    }
    for ordinal in 0..gpus {
        all.extend(trials(format!("cuda:{ordinal}"), OnGpu(ordinal)));
        let mut suite = Suite { device: format!("cuda:{ordinal}"), with: OnGpu(ordinal), trials: Vec::new() };
        gpu::add(&mut suite);
        suite.add("counters", |device: &Gpu, _| counters::launches(device));
        all.extend(suite.trials);
    }
    if gpus > 0 {
        all.extend(ranks::of_gpus(gpus));
    }
    libtest_mimic::run(&arguments, all).exit_code()
}
