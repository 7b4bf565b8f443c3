//! Checks a part of an exercise: on the emulator its results, faults and budgets; on a GPU its results and time.

use std::io::{self, IsTerminal};
use std::marker::PhantomData;
use std::path::Path;
use std::time::{Duration, Instant};

use warpkov_device::emulator::profile::{Profile, Profiler};
use warpkov_device::emulator::{Emulator, Schedule};

use crate::compiled::Code;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};
use crate::recorded::{Blocks, Record, Recorded};

/// Orders of blocks and threads in which the emulator runs each size. A GPU guarantees none of them.
pub const ORDERS: [(&str, Schedule); 3] = [
    ("ascending order", Schedule::RoundRobin),
    ("descending order", Schedule::Reversed),
    ("interleaved order", Schedule::Interleaved(1)),
];

/// Steps of a launch, and reads of threads that wait for nothing, after which the emulator gives up: two seconds or so.
const STEPS: u64 = 1 << 21;

/// What a check is doing, on a terminal, once it takes long.
struct Progress(Instant);

impl Progress {
    const SILENCE: Duration = Duration::from_secs(2);

    fn new() -> Self {
        Self(Instant::now())
    }

    fn is_shown(&self) -> bool {
        self.0.elapsed() >= Self::SILENCE && io::stderr().is_terminal()
    }

    fn tell(&self, what: &str) {
        if self.is_shown() {
            eprint!("\r\x1b[K{what}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown() {
            eprint!("\r\x1b[K");
        }
    }
}

/// One thing that was checked.
pub struct Step {
    /// What it is.
    pub name: String,
    /// Why it does not pass.
    pub failure: Option<String>,
    /// The count of a budget that is met.
    pub score: Option<String>,
}

impl Step {
    fn new(name: impl Into<String>, result: Result<(), Failure>) -> Self {
        let failure = result.err().map(|failure| relative(&failure.to_string()));
        Self { name: name.into(), failure, score: None }
    }

    /// Whether it passes.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }
}

/// What became of a part of an exercise.
#[derive(Default)]
pub struct Verdict {
    /// What was checked, in order. A check of results that fails is the last one.
    pub steps: Vec<Step>,
    /// What was not checked, and why.
    pub unchecked: Vec<(String, String)>,
    /// What the emulator counted.
    pub profile: Option<Profile>,
    /// The time of a launch on a GPU, and its work.
    pub time: Option<(Duration, Work)>,
}

impl Verdict {
    /// Whether everything passes.
    pub fn passed(&self) -> bool {
        self.steps.iter().all(Step::passed)
    }

    /// This verdict and what a further check finds, which is made if everything has passed so far.
    #[cfg(feature = "gpu")]
    pub fn then(self, further: impl FnOnce() -> Self) -> Self {
        if !self.passed() {
            return self;
        }
        let Self { mut steps, profile, .. } = self;
        let further = further();
        steps.extend(further.steps);
        Self { steps, profile, ..further }
    }
}

/// Checks a part on the emulator.
pub fn emulated<E: Exercise>(part: usize) -> Verdict {
    let (mut verdict, progress) = (Verdict::default(), Progress::new());
    for (order, schedule) in ORDERS {
        let run = |size| {
            progress.tell(&format!("part {}, {order}, size {size}", part + 1));
            let emulators: Vec<_> = (0..E::DEVICES).map(|_| Emulator::new(schedule).step_limit(STEPS)).collect();
            let record = Record::default();
            // The device of `profile`: the exercise is compiled for one type.
            let devices: Vec<_> = emulators.iter().map(|device| Recorded::new(device, 0, &record)).collect();
            let result = E::run(&Lab::several(&devices), part, size);
            result.map_err(|failure| Failure::Wrong(format!("size {size}: {failure}")))
        };
        let result = E::sizes(part).into_iter().try_for_each(run);
        verdict.steps.push(Step::new(format!("results in {order}"), result));
        if !verdict.passed() {
            return verdict;
        }
    }
    let budgets = E::budgets(part);
    progress.tell(&format!("part {}, counts of size {}", part + 1, E::counted(part)));
    let (profile, copied, result) = profile::<E>(part);
    if result.is_err() {
        verdict.steps.push(Step::new(format!("results of size {}", E::counted(part)), result));
        return verdict;
    }
    if copied > 0 && !E::COPIES {
        let found = format!("found {copied} elements: the launch has to compute where the buffers are");
        verdict.steps.push(Step::new("no copies between host and device", Err(Failure::Wrong(found))));
    }
    for budget in &budgets {
        let (score, result) = match budget.check(&profile) {
            Ok(score) => (score, Ok(())),
            Err(why) => (None, Err(Failure::Wrong(why))),
        };
        verdict.steps.push(Step { score, ..Step::new(budget.name(), result) });
    }
    verdict.profile = Some(profile);
    verdict
}

/// What the emulator counts in the launches of a part, up to its first fault; the elements that these copy between host and
/// device; and whether the results are right.
pub fn profile<E: Exercise>(part: usize) -> (Profile, usize, Result<(), Failure>) {
    profile_of::<E>(part, E::counted(part), None)
}

/// The same for a size, and with other blocks of one kernel.
fn profile_of<E: Exercise>(
    part: usize,
    size: usize,
    blocks: Option<Blocks<'_>>,
) -> (Profile, usize, Result<(), Failure>) {
    let (profiler, record) = (Profiler::default(), Record::default());
    // Blocks that wait for the end of others wait for long.
    let emulator = |_| Emulator::new(Schedule::YoungestFirst).step_limit(STEPS).profiled_by(&profiler);
    let emulators: Vec<_> = (0..E::DEVICES).map(emulator).collect();
    let devices: Vec<_> = (0..)
        .zip(&emulators)
        .map(|(number, device)| Recorded::new(device, number, &record).with_blocks(blocks))
        .collect();
    let lab = Lab::recorded(&devices, &record);
    let result = E::run(&lab, part, size);
    (profiler.profile(), lab.copied(), result)
}

/// An exercise whose type is not known.
pub trait Profiled {
    /// [`Exercise::PARTS`].
    fn parts(&self) -> &'static [&'static str];

    /// [`Exercise::sizes`].
    fn sizes(&self, part: usize) -> Vec<usize>;

    /// [`Exercise::counted`].
    fn counted(&self, part: usize) -> usize;

    /// What the emulator counts in the launches of a part up to its first fault, and whether the results are right.
    fn profile(&self, part: usize, size: usize, blocks: Option<Blocks<'_>>) -> (Profile, Result<(), Failure>);
}

impl<E: Exercise> Profiled for PhantomData<E> {
    fn parts(&self) -> &'static [&'static str] {
        E::PARTS
    }

    fn sizes(&self, part: usize) -> Vec<usize> {
        E::sizes(part)
    }

    fn counted(&self, part: usize) -> usize {
        E::counted(part)
    }

    fn profile(&self, part: usize, size: usize, blocks: Option<Blocks<'_>>) -> (Profile, Result<(), Failure>) {
        let (profile, _, result) = profile_of::<E>(part, size, blocks);
        (profile, result)
    }
}

/// Checks the compiled code of a part that passes otherwise.
pub fn compiled<E: Exercise>(part: usize, code: Option<&dyn Code>, verdict: &mut Verdict) {
    if !verdict.passed() {
        return;
    }
    for budget in E::compiled(part) {
        let name = format!("at most {} {}", budget.limit, budget.what);
        let result = match budget.measure(code) {
            Err(why) => {
                verdict.unchecked.push((name, why));
                continue;
            }
            Ok(found) if found <= budget.limit => Ok(()),
            Ok(found) => Err(Failure::Wrong(format!("found {found}"))),
        };
        verdict.steps.push(Step::new(name, result));
    }
}

/// Checks a part on a GPU, and measures its time: the median of [`SAMPLES`] launches after a first one.
///
/// # Panics
/// If there is no GPU.
#[cfg(feature = "gpu")]
pub fn on_gpu<E: Exercise>(gpus: &[warpkov_cuda::Gpu], part: usize) -> Verdict {
    let mut verdict = Verdict::default();
    for size in E::sizes(part) {
        let result = E::run(&Lab::several(gpus), part, size);
        verdict.steps.push(Step::new(format!("results of size {size} on the GPU"), result));
        if !verdict.passed() {
            return verdict;
        }
    }
    let timer = |launch: &mut dyn FnMut() -> Result<(), warpkov_cuda::CudaError>| {
        launch()?;
        let mut times = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            times.push(gpus[0].time(&mut *launch)?.1);
        }
        times.sort_unstable();
        Ok(times[SAMPLES / 2])
    };
    let size = E::timed(part);
    let lab = Lab::timed(gpus, &timer);
    verdict.steps.push(Step::new(format!("results of size {size} on the GPU"), E::run(&lab, part, size)));
    // A part without a launch has no time.
    if verdict.passed() && !lab.time().is_zero() {
        verdict.time = Some((lab.time(), E::work(part, size)));
    }
    verdict
}

/// Launches that are measured.
#[cfg(feature = "gpu")]
const SAMPLES: usize = 21;

/// The same text, with the paths of the toolchain's files relative to the folder that holds the course and the toolchain.
pub fn relative(text: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.map_or_else(|| text.into(), |root| text.replace(&format!("{}/", root.display()), ""))
}
