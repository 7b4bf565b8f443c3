//! Work that no machine changes, compared with `benches/baseline`: nothing may grow by more than 2 %.
//!
//! `runs.csv` counts what a run does: launches, requests of warps and sectors of memory as the emulator counts them, and the calls and bytes of the
//! allocator on the CPU. `kernels.csv` has the instructions of each kernel's PTX, and its registers for compute capability 9.0, by one
//! compiler. With `WARPKOV_UPDATE_BOOK=1` the test writes both.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use warpkov::hmm::backends::device::Limits as HmmLimits;
use warpkov::hmm::generate::{Kind, Uniform};
use warpkov::hmm::options::{Options, Precision as HmmPrecision};
use warpkov::hmm::place::recursions;
use warpkov::hmm::sample::sample;
use warpkov::hmm::train::train;
use warpkov::mdp::Solve;
use warpkov::mdp::generate::SlipGrid;
use warpkov::mdp::options::{BlockDivided, Method, Precision, SolveOptions, Spmv};
use warpkov::pomdp::generate::Tiger;
use warpkov::pomdp::options::{Expansion, Gap, Limits, SolveOptions as PomdpOptions};
use warpkov::pomdp::solve::solve_with;
use warpkov::runtime;
use warpkov::runtime::choose::{DeviceChoice, Place};
use warpkov::runtime::gpu::MODULES;

use crate::counting::{ALLOCATED, CALLS, alone};

/// The counts of each run or kernel.
type Table<const N: usize> = BTreeMap<String, [u64; N]>;

const RUNS: [&str; 5] = ["launches", "requests", "sectors", "allocations", "bytes"];
const KERNELS: [&str; 2] = ["instructions", "registers"];

/// Calls `run` and counts what it does. The emulator allocates for itself: its runs have no allocations.
fn counted(emulated: bool, run: &mut dyn FnMut()) -> [u64; 5] {
    let on_device = || {
        let kernels = runtime::profiler().profile().kernels;
        let lines = kernels.values().flat_map(|kernel| &kernel.lines);
        let sum = lines
            .fold([0, 0], |[requests, sectors], line| [requests + line.counts.requests, sectors + line.counts.sectors]);
        [kernels.values().map(|kernel| kernel.launches).sum::<u64>(), sum[0], sum[1]]
    };
    let before = on_device();
    let host = [CALLS.load(Relaxed), ALLOCATED.load(Relaxed)];
    run();
    let host = [CALLS.load(Relaxed) - host[0], ALLOCATED.load(Relaxed) - host[1]];
    let device = std::array::from_fn::<u64, 3, _>(|at| on_device()[at] - before[at]);
    let [calls, bytes] = if emulated { [0, 0] } else { host.map(|count| count as u64) };
    [device[0], device[1], device[2], calls, bytes]
}

/// The runs: every method of MDPs, every recursion of HMMs, and searches for POMDPs, on both devices that any machine has.
fn runs() -> Table<5> {
    let mut table = Table::new();
    for device in [DeviceChoice::Emulated, DeviceChoice::Cpu] {
        let emulated = device == DeviceChoice::Emulated;
        let mut add = |name: String, run: &mut dyn FnMut()| {
            if !emulated {
                // What is set up once is not counted.
                run();
            }
            table.insert(format!("{name} {device}"), counted(emulated, run));
        };
        let grid =
            SlipGrid { width: 6, height: 6, obstacles: 0.2, gamma: 0.9, ..SlipGrid::default() }.generate().unwrap();
        for method in [
            Method::Serial,
            Method::Parallel,
            Method::Plain,
            Method::Projected(Spmv::Own),
            Method::Values,
            Method::Sequential,
            Method::ResultDivided,
            Method::BlockDivided(BlockDivided::PLAIN),
            Method::GaussSeidel,
            Method::Modified,
            Method::Krylov,
        ] {
            let places = method.places();
            if !(if emulated { places.gpu } else { places.cpu }) {
                continue;
            }
            for precision in [Precision::F32, Precision::F64] {
                let options = SolveOptions { method: Some(method), precision, device, ..SolveOptions::default() };
                add(format!("mdp {method} {precision}"), &mut || {
                    Solve::new(&grid, &options).run().unwrap();
                });
            }
        }
        for states in [3, 40, 136] {
            let model = Uniform { states, kind: Kind::Symbols(8), ends: false, seed: 1 }.generate().unwrap();
            let sequences = sample(&model, 2, Some(12), 1).unwrap().sequences;
            let (place, _) = Place::open(device, None).unwrap();
            for precision in [HmmPrecision::F32, HmmPrecision::F64] {
                let mut batch = recursions(&place, &sequences, precision, HmmLimits::default()).unwrap();
                batch.set_models(std::slice::from_ref(&model)).unwrap();
                add(format!("hmm score {states} {precision}"), &mut || {
                    batch.log_likelihoods().unwrap();
                });
                add(format!("hmm decode {states} {precision}"), &mut || {
                    batch.viterbi().unwrap();
                });
                let options = Options { iterations: 1, tolerance: 0.0, ..Options::default() };
                add(format!("hmm train {states} {precision}"), &mut || {
                    train(&mut *batch, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(())).unwrap();
                });
            }
        }
        let tiger = Tiger::default().generate().unwrap();
        for (expansion, iterations) in [(Expansion::Walks, 2), (Expansion::Sarsop, 20)] {
            let limits = Limits { gap: Gap::Absolute(1e-9), iterations: Some(iterations), ..Limits::default() };
            let options = PomdpOptions { device, limits, expansion: Some(expansion), ..PomdpOptions::default() };
            add(format!("pomdp {expansion}"), &mut || {
                solve_with(&tiger, &options, &mut |_| ControlFlow::Continue(())).unwrap();
            });
        }
    }
    table
}

/// Instructions and registers of the kernels of this build, of the newest baseline that has them. Registers are 0 where they are not known:
/// without the assembler, and for text with numbers of lines, for which it chooses others.
fn kernels() -> Table<2> {
    let mut table = Table::new();
    for baseline in MODULES.baselines.iter().rev() {
        for entry in baseline.entries {
            table.entry(entry.name.to_owned()).or_insert_with(|| {
                let text = baseline.text(entry).unwrap();
                let body = &text[text.find(&format!(".entry {}(", entry.name)).unwrap()..];
                let lines = body.lines().map(str::trim);
                let instructions = lines.filter(|line| line.ends_with(';') && !line.starts_with('.')).count();
                let registers = MODULES.registers(entry.name, 90).filter(|_| !body.contains("\t.loc\t"));
                [instructions as u64, registers.unwrap_or(0).into()]
            });
        }
    }
    table
}

/// Whether the files are written.
fn updates() -> bool {
    std::env::var_os("WARPKOV_UPDATE_BOOK").is_some_and(|value| value == "1")
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/baseline").join(name)
}

/// Compares a table with that of the file, whose first line is `head`; returns what has grown.
fn compare<const N: usize>(name: &str, head: &str, columns: [&str; N], table: &Table<N>) -> String {
    let path = path(name);
    if updates() {
        let mut text = format!("{head},{}\n", columns.join(","));
        for (row, counts) in table {
            let _ = writeln!(text, "{row},{}", counts.map(|count| count.to_string()).join(","));
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let mut baseline = BTreeMap::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split(',');
        let row = fields.next().unwrap().to_owned();
        baseline.insert(row, fields.map(|field| field.parse::<u64>().unwrap()).collect::<Vec<_>>());
    }
    let mut grown = String::new();
    for (row, counts) in table {
        let Some(before) = baseline.remove(row) else {
            let _ = writeln!(grown, "{name}: `{row}` is new");
            continue;
        };
        for ((column, &now), before) in columns.iter().zip(counts).zip(before) {
            if now as f64 > 1.02 * before as f64 {
                let _ = writeln!(grown, "{name}: `{row}`: {column} {before} → {now}");
            } else if now > 0 && (now as f64) < before as f64 / 1.02 {
                println!("{name}: `{row}`: {column} {before} → {now}: fewer");
            }
        }
    }
    baseline.keys().for_each(|row| {
        let _ = writeln!(grown, "{name}: `{row}` is gone");
    });
    grown
}

#[test]
fn nothing_grows() {
    let _alone = alone();
    runtime::profiler();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut grown = compare("runs.csv", "run", RUNS, &pool.install(runs));
    let head = format!("kernel by {}", MODULES.compiler.unwrap_or("no compiler").replace(',', ""));
    let text = std::fs::read_to_string(path("kernels.csv")).unwrap_or_default();
    if updates() || text.starts_with(&format!("{head},")) {
        grown += &compare("kernels.csv", &head, KERNELS, &kernels());
    } else {
        println!("kernels.csv is of another compiler: {:?}", text.lines().next());
    }
    assert!(grown.is_empty(), "more work than before; if it is meant, WARPKOV_UPDATE_BOOK=1 accepts it:\n{grown}");
}
