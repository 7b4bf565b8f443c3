//! Checks a part of an exercise: on the emulator its results, faults and budgets; on a GPU its results and time.

use std::path::Path;
use std::time::Duration;

use warpkov_device::emulator::profile::{Profile, Profiler};
use warpkov_device::emulator::{Emulator, Schedule};

use crate::compiled::Code;
use crate::exercise::{Exercise, Work};
use crate::lab::{Failure, Lab};

/// Orders of blocks and threads in which the emulator runs each size. A GPU guarantees none of them.
pub const ORDERS: [(&str, Schedule); 3] = [
    ("ascending order", Schedule::RoundRobin),
    ("descending order", Schedule::Reversed),
    ("interleaved order", Schedule::Interleaved(1)),
];

/// One thing that was checked.
pub struct Step {
    /// What it is.
    pub name: String,
    /// Why it does not pass.
    pub failure: Option<String>,
}

impl Step {
    fn new(name: impl Into<String>, result: Result<(), Failure>) -> Self {
        Self { name: name.into(), failure: result.err().map(|failure| relative(&failure.to_string())) }
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
    let mut verdict = Verdict::default();
    for (order, schedule) in ORDERS {
        let run = |size| {
            let devices: Vec<_> = (0..E::DEVICES).map(|_| Emulator::new(schedule)).collect();
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
    let (profile, result) = profile::<E>(part);
    if result.is_err() {
        verdict.steps.push(Step::new(format!("results of size {}", E::counted(part)), result));
        return verdict;
    }
    for budget in &budgets {
        let result = match budget.measure(&profile) {
            None => Err(Failure::Wrong("this kernel was not launched".into())),
            // NaN fails as well.
            Some(finding) if finding.found <= budget.limit => Ok(()),
            Some(finding) => {
                let at = finding.line.map(|(file, line)| format!(", most of them at {file}:{line}"));
                let found = number(finding.found);
                Err(Failure::Wrong(format!("found {found}{}", at.unwrap_or_default())))
            }
        };
        verdict.steps.push(Step::new(format!("at most {} {}", number(budget.limit), budget.what), result));
    }
    verdict.profile = Some(profile);
    verdict
}

/// What the emulator counts in the launches of a part, up to its first fault, and whether its results are right.
pub fn profile<E: Exercise>(part: usize) -> (Profile, Result<(), Failure>) {
    let profiler = Profiler::default();
    let devices: Vec<_> = (0..E::DEVICES).map(|_| Emulator::default().profiled_by(&profiler)).collect();
    let result = E::run(&Lab::several(&devices), part, E::counted(part));
    (profiler.profile(), result)
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

/// A number without needless digits: integers as such, others with three decimals.
fn number(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x}") } else { format!("{x:.3}") }
}

/// The same text, with the paths of the toolchain's files relative to the folder that holds the course and the toolchain.
pub fn relative(text: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.map_or_else(|| text.into(), |root| text.replace(&format!("{}/", root.display()), ""))
}
