//! Kernels with planted faults: each is caught under every order of threads, in the right array and on the right lines;
//! each runs without a fault once it is mended.

#[path = "planted/kernels.rs"]
mod kernels;
#[path = "planted/launches.rs"]
mod launches;

use std::collections::BTreeSet;
use std::fmt::Write;

use launches::Planted;
use warpkov_device::device::{GlobalMut, kernel, thread};
use warpkov_device::emulator::fault::{Fault, Kind, Place};
use warpkov_device::emulator::{Emulator, EmulatorError, Schedule};
use warpkov_device::launch::{Device, Shape};

// `warpkov-build` refuses the first of these kernels, so it is not among those for a GPU. On a GPU, the others have no
// definite behaviour.

#[kernel]
fn barrier_in_a_branch(broken: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if broken == 0 {
        thread::sync_threads();
    } else if t < 32 {
        thread::sync_threads(); // !
    } else {
        thread::sync_threads_count(true); // !
    }
    out.set(t, t);
}

fn run_barrier_in_a_branch(device: &Emulator, broken: u32) -> Result<(), EmulatorError> {
    let mut out = device.zeros(64)?;
    // SAFETY: the emulator checks every access.
    unsafe { barrier_in_a_branch(device, Shape::new(1, 64), broken, &mut out) }
}

#[kernel]
fn barrier_skipped_in_a_round(broken: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    for round in 0..3 {
        if broken == 1 && round == t / 32 {
            continue;
        }
        thread::sync_threads(); // !
    }
    out.set(t, t);
}

fn run_barrier_skipped_in_a_round(device: &Emulator, broken: u32) -> Result<(), EmulatorError> {
    let mut out = device.zeros(64)?;
    // SAFETY: the emulator checks every access.
    unsafe { barrier_skipped_in_a_round(device, Shape::new(1, 64), broken, &mut out) }
}

#[kernel]
fn barrier_in_an_inner_loop(broken: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    for pass in 0..2 {
        let rounds = if broken == 1 && pass == t / 32 { 0 } else { 2 };
        for _ in 0..rounds {
            thread::sync_threads(); // !
        }
    }
    out.set(t, t);
}

fn run_barrier_in_an_inner_loop(device: &Emulator, broken: u32) -> Result<(), EmulatorError> {
    let mut out = device.zeros(64)?;
    // SAFETY: the emulator checks every access.
    unsafe { barrier_in_an_inner_loop(device, Shape::new(1, 64), broken, &mut out) }
}

/// All mistakes.
fn planted() -> Vec<Planted<Emulator>> {
    let mut planted = launches::planted();
    planted.push(Planted {
        title: "A barrier in each branch",
        kernel: "barrier_in_a_branch",
        report: "barrier divergence",
        array: "",
        run: run_barrier_in_a_branch,
    });
    planted.push(Planted {
        title: "A barrier skipped in one round of a loop",
        kernel: "barrier_skipped_in_a_round",
        report: "barrier divergence",
        array: "",
        run: run_barrier_skipped_in_a_round,
    });
    planted.push(Planted {
        title: "A barrier in different rounds of an outer loop",
        kernel: "barrier_in_an_inner_loop",
        report: "barrier divergence",
        array: "",
        run: run_barrier_in_an_inner_loop,
    });
    planted
}

const SOURCES: [&str; 2] = [include_str!("planted/kernels.rs"), include_str!("planted.rs")];

const SCHEDULES: [Schedule; 9] = [
    Schedule::RoundRobin,
    Schedule::Reversed,
    Schedule::Random(1),
    Schedule::Random(2),
    Schedule::Interleaved(1),
    Schedule::Interleaved(2),
    Schedule::Interleaved(3),
    Schedule::Interleaved(4),
    Schedule::Interleaved(5),
];

fn emulator(schedule: Schedule) -> Emulator {
    Emulator::new(schedule).step_limit(50_000)
}

/// The lines that a report of the kernel may name. The overlapping launches share those of the launch before.
fn lines_of(kernel: &str) -> BTreeSet<u32> {
    let mut lines = BTreeSet::new();
    let before: &[&str] = match kernel {
        "consume" | "read_early" => &["produce"],
        "overwrite" => &["read_late"],
        _ => &[],
    };
    for source in SOURCES {
        let mut inside = false;
        for (number, line) in (1..).zip(source.lines()) {
            let declared = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("fn ");
            if let Some((name, _)) = declared.and_then(|rest| rest.split_once('(')) {
                inside = name == kernel || before.contains(&name);
            }
            if inside && line.ends_with("// !") {
                lines.insert(number);
            }
        }
    }
    lines
}

fn fault_of(planted: &Planted<Emulator>, schedule: Schedule) -> Fault {
    match (planted.run)(&emulator(schedule), 1) {
        Err(EmulatorError::Fault(fault)) => *fault,
        other => panic!("{}, {schedule:?}: expected a fault, got {other:?}", planted.title),
    }
}

fn place_of(kind: &Kind) -> Option<Place> {
    match *kind {
        Kind::Race { place, .. }
        | Kind::OutOfBounds { place, .. }
        | Kind::Misaligned { place, .. }
        | Kind::Mbarrier { place, .. }
        | Kind::ProxyFence { place }
        | Kind::Uninitialised { place } => Some(place),
        _ => None,
    }
}

#[test]
fn every_planted_fault_is_caught_in_every_order() {
    assert!(planted().len() >= 30);
    let mut wrong = String::new();
    for planted in &planted() {
        let allowed = lines_of(planted.kernel);
        for schedule in SCHEDULES {
            let result = std::panic::catch_unwind(|| fault_of(planted, schedule));
            let Ok(fault) = result else {
                let _ = writeln!(wrong, "{}, {schedule:?}: no fault", planted.title);
                continue;
            };
            let sites = [fault.site, fault.earlier.as_ref().and_then(|earlier| earlier.site)];
            let lines: BTreeSet<u32> = sites.into_iter().flatten().map(|site| site.line()).collect();
            let right = fault.kind.to_string().starts_with(planted.report)
                && fault.kernel == planted.kernel
                && fault.kind.to_string().contains(planted.array)
                && place_of(&fault.kind).is_none_or(|place| place.array == planted.array)
                && lines.is_subset(&allowed)
                && lines.is_empty() == allowed.is_empty()
                && matches!(fault.kind, Kind::Race { .. }) == fault.earlier.is_some()
                && (fault.hint.is_some() || !fault.kind.to_string().starts_with("race"))
                && fault.to_string().contains(&format!("Schedule::{schedule:?}"));
            if !right {
                let _ = writeln!(wrong, "{}, {schedule:?}, lines {lines:?} of {allowed:?}: {fault}", planted.title);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_mended_kernel_has_a_fault_in_any_order() {
    for planted in &planted() {
        for schedule in SCHEDULES.into_iter().chain((6..30).map(Schedule::Interleaved)) {
            if let Err(error) = (planted.run)(&emulator(schedule), 0) {
                panic!("{}, {schedule:?}: {error}", planted.title);
            }
        }
    }
}

#[test]
fn a_seed_repeats_a_fault() {
    for planted in &planted() {
        for seed in 0..3 {
            let schedule = Schedule::Interleaved(seed);
            assert_eq!(fault_of(planted, schedule).to_string(), fault_of(planted, schedule).to_string());
        }
    }
}

/// The source of a kernel.
fn source_of(kernel: &str) -> &'static str {
    let declared = |source: &'static str| Some((source, source.find(&format!("fn {kernel}("))?));
    let (source, name) = SOURCES.into_iter().find_map(declared).expect("one file has the kernel");
    let start = source[..name].rfind("#[kernel").expect("it is a kernel");
    let end = name + source[name..].find("\n}\n").expect("it ends") + 3;
    &source[start..end]
}

/// The page of the book, from runs.
fn page() -> String {
    let mut page = String::from(PAGE);
    let mut shown = BTreeSet::new();
    for planted in &planted() {
        let _ = write!(page, "\n## {}\n", planted.title);
        let others: &[&str] = match planted.kernel {
            "consume" => &["produce"],
            "overwrite" => &["read_late"],
            "copy_all" => &["fill"],
            "read_early" => &["pass"],
            _ => &[],
        };
        for kernel in others.iter().chain([&planted.kernel]) {
            if shown.insert(*kernel) {
                let _ = write!(page, "\n```rust\n{}```\n", source_of(kernel));
            } else {
                let _ = write!(page, "\nKernel `{kernel}`, as above.\n");
            }
        }
        let _ = write!(page, "\n```text\n{}\n```\n", fault_of(planted, Schedule::RoundRobin));
    }
    page + LIMITS
}

const PAGE: &str = "# What the emulator finds

Each section plants one fault in a small kernel and shows the report. The kernels have the fault if their parameter `broken`
(`missing`, `mode`) says so. The comment `!` marks the lines that a report may name. The file
[`launches.rs`](../toolchain/device/tests/planted/launches.rs) holds the launches. Tests run each kernel in ascending, descending, random and
interleaved order of threads: the fault is found in every order, and the mended kernel has none in any order.

Reports under `Schedule::RoundRobin`; the test writes this page with `WARPKOV_UPDATE_BOOK=1`.
";

const LIMITS: &str = "
## What it does not find

- **Two barriers of one macro call.** Rust gives all code of a `macro_rules!` call the line of the call, so the emulator takes barriers in
  the two branches of such a macro for the same barrier. The audit of the device code finds them: `warpkov-build` refuses a kernel if a
  branch that divides threads has a barrier on both sides, wherever the barriers come from.
- **Rounds of loops outside of the kernel's body.** `#[kernel]` counts the rounds of loops and of `for_each` in the kernel's body that
  contain a barrier or call a function or a method. A barrier that one thread reaches in another round of a loop is no fault if the loop is
  in a function that the kernel calls, is a recursion, or comes from a macro. Functions and methods with the names of those of the
  library or of numbers, such as `get`, count as theirs.
- **Loops without an end in other functions.** A loop in the kernel's body reaches the limit of `Emulator::step_limit` whatever it does. A
  loop in a function that the kernel calls, or from a macro, does so only if it accesses memory, waits or has a fence; otherwise the test
  does not end.
- **Local variables of 512 KiB to 1 MiB without an access.** The limit of a thread's local memory, 512 KiB, is checked at accesses and
  barriers. An array beyond it that lives between two of them is found only if it needs more than 1 MiB.
- **The wrong round of a warp operation.** Lanes may execute a shuffle in different rounds of a loop.
- **Orders of memory that no run shows.** Races are found in every order of threads, but a wrong result that depends on the order, such as
  that of a lock which the wrong thread gets, only in an order that shows it: `Emulator::explore` tries many.
";

#[test]
fn the_book_shows_every_fault() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/faults.md");
    let page = page();
    if std::env::var_os("WARPKOV_UPDATE_BOOK").is_some_and(|value| value == "1") {
        std::fs::write(path, &page).unwrap();
    }
    let shown = std::fs::read_to_string(path).unwrap_or_default();
    assert!(shown == page, "book/faults.md is out of date: WARPKOV_UPDATE_BOOK=1 writes it");
}
