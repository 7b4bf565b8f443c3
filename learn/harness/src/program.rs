//! The command line of an exercise. `warpkov learn` calls it; it also works alone: `cargo run --bin 00_vector_add`.

use std::env;
use std::fs;
use std::process::ExitCode;

use serde_json::{Value, json};
#[cfg(feature = "gpu")]
use warpkov_cuda::{CudaError, Gpu, Modules};
use warpkov_device::emulator::profile::Profile;

use crate::budget;
use crate::check::{self, Verdict};
use crate::compiled::Code;
use crate::exercise::Exercise;

const USAGE: &str =
    "usage: PROGRAM [check] [--part N] [--device cpu|cuda] [--reference SECONDS,...] [--json] [--report FILE]
       PROGRAM time [--part N] [--json]
       PROGRAM trace [--part N] FILE.svg
       PROGRAM ptx ENTRY";

/// What the arguments ask for.
#[derive(Default)]
struct Request {
    trace: Option<String>,
    ptx: Option<String>,
    part: Option<usize>,
    gpu: bool,
    /// Measure the time on a GPU, whatever the emulator says.
    time: bool,
    json: bool,
    /// Write the JSON object into this file.
    report: Option<String>,
    /// Seconds of the solution's launches, of each part that is checked.
    reference: Vec<f64>,
}

impl Request {
    fn parse(arguments: impl IntoIterator<Item = String>, parts: usize) -> Result<Self, String> {
        let mut request = Self::default();
        let mut arguments = arguments.into_iter().peekable();
        let command = arguments.next_if(|word| ["check", "time", "trace", "ptx"].contains(&word.as_str()));
        let trace = command.as_deref() == Some("trace");
        request.time = command.as_deref() == Some("time");
        request.gpu = request.time;
        if command.as_deref() == Some("ptx") {
            request.ptx =
                Some(arguments.next().ok_or_else(|| format!("ptx: expected a kernel's entry point\n{USAGE}"))?);
        }
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => request.json = true,
                "--report" => request.report = Some(arguments.next().ok_or("--report: expected a file")?),
                "--part" => {
                    let number = arguments.next().and_then(|number| number.parse().ok());
                    let part = number.filter(|part| (1..=parts).contains(part));
                    request.part =
                        Some(part.ok_or_else(|| format!("--part: expected a number from 1 to {parts}"))? - 1);
                }
                "--device" => match arguments.next().as_deref() {
                    Some("cpu") => request.gpu = false,
                    Some("cuda") => request.gpu = true,
                    _ => return Err("--device: expected cpu or cuda".into()),
                },
                "--reference" => {
                    let numbers = arguments.next().unwrap_or_default();
                    let numbers = numbers.split(',').map(str::parse).collect::<Result<_, _>>();
                    request.reference = numbers.map_err(|_| "--reference: expected numbers of seconds")?;
                }
                file if trace && request.trace.is_none() && !file.starts_with('-') => request.trace = Some(argument),
                _ => return Err(format!("unexpected {argument:?}\n{USAGE}")),
            }
        }
        if trace && (request.trace.is_none() || request.gpu || request.json) {
            return Err(format!("trace: expected a file alone\n{USAGE}"));
        }
        Ok(request)
    }
}

/// Runs an exercise as a program. Exit codes: 0 passed, 1 not passed, 2 wrong arguments, 3 no GPU.
pub fn main<E: Exercise>(#[cfg(feature = "gpu")] modules: &'static Modules) -> ExitCode {
    let request = match Request::parse(env::args().skip(1), E::PARTS.len()) {
        Ok(request) => request,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    #[cfg(feature = "gpu")]
    let code: Option<&dyn Code> = Some(modules);
    #[cfg(not(feature = "gpu"))]
    let code: Option<&dyn Code> = None;
    if let Some(entry) = request.ptx {
        return ptx(code, &entry);
    }
    let parts = request.part.map_or(0..E::PARTS.len(), |part| part..part + 1);
    if let Some(file) = request.trace {
        return trace::<E>(parts.start, &file);
    }
    #[cfg(feature = "gpu")]
    let gpus = match request.gpu.then(|| open::<E>(modules)).transpose() {
        Ok(gpus) => gpus,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(3);
        }
    };
    #[cfg(not(feature = "gpu"))]
    if request.gpu {
        eprintln!("this program has no GPU code: `warpkov learn check --device cuda` compiles it");
        return ExitCode::from(3);
    }
    let device = if request.gpu { "cuda" } else { "cpu" };
    let mut reports = Vec::new();
    let mut passed = true;
    for (index, part) in parts.enumerate() {
        #[cfg(feature = "gpu")]
        let mut verdict = match &gpus {
            Some(gpus) if request.time => check::on_gpu::<E>(gpus, part),
            Some(gpus) => check::emulated::<E>(part).then(|| check::on_gpu::<E>(gpus, part)),
            None => check::emulated::<E>(part),
        };
        #[cfg(not(feature = "gpu"))]
        let mut verdict = check::emulated::<E>(part);
        if !request.time {
            check::compiled::<E>(part, code, &mut verdict);
        }
        passed = verdict.passed();
        let reference = request.reference.get(index).copied();
        reports.push(report(part, E::PARTS[part], &verdict, reference));
        if !request.json {
            print(part, E::PARTS[part], &verdict, reference);
        }
        if !passed {
            break;
        }
    }
    let report = json!({ "device": device, "passed": passed, "of": E::PARTS.len(), "parts": reports });
    if request.json {
        println!("{report}");
    }
    if let Some(file) = request.report
        && let Err(error) = fs::write(&file, report.to_string())
    {
        eprintln!("{file}: {error}");
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Opens the GPUs of an exercise. Where there are fewer, it gets the same ones several times, each time with a stream of
/// its own.
#[cfg(feature = "gpu")]
fn open<E: Exercise>(modules: &'static Modules) -> Result<Vec<Gpu>, CudaError> {
    let count = Gpu::count()?;
    (0..E::DEVICES as u32).map(|i| Gpu::open(i % count, modules)).collect()
}

/// Prints the PTX of a kernel.
fn ptx(code: Option<&dyn Code>, entry: &str) -> ExitCode {
    match code.and_then(|code| code.ptx(entry)) {
        Some(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("this program has no PTX of a kernel {entry:?}");
            ExitCode::from(3)
        }
    }
}

/// Draws the memory accesses of a part's first warp, and prints its counts.
fn trace<E: Exercise>(part: usize, file: &str) -> ExitCode {
    let (profile, _, result) = check::profile::<E>(part);
    if let Err(failure) = result {
        // What was counted until then may show why.
        eprintln!("{failure}");
    }
    if let Err(error) = fs::write(file, check::relative(&profile.svg())) {
        eprintln!("{file}: {error}");
        return ExitCode::FAILURE;
    }
    for (entry, kernel) in &profile.kernels {
        println!("{entry}: {} launches, {} divergent branches", kernel.launches, kernel.divergent_branches);
        for line in &kernel.lines {
            let (counts, name) = (line.counts, budget::name(line.operation));
            println!(
                "  {}:{}  {} × {name}, {} lanes, {} sectors, {} bank conflicts",
                check::relative(line.file),
                line.line,
                counts.requests,
                counts.lanes,
                counts.sectors,
                counts.bank_conflicts
            );
        }
    }
    ExitCode::SUCCESS
}

fn print(part: usize, name: &str, verdict: &Verdict, reference: Option<f64>) {
    println!("part {}: {name}", part + 1);
    for step in &verdict.steps {
        match &step.failure {
            None => {
                let score = step.score.as_ref().map(|score| format!(": {score}"));
                println!("  passed  {}{}", step.name, score.unwrap_or_default());
            }
            Some(why) => println!("  FAILED  {}\n{}", step.name, indented(why)),
        }
    }
    for (name, why) in &verdict.unchecked {
        println!("  not checked: {name}\n{}", indented(why));
    }
    if let Some((time, work)) = verdict.time {
        let seconds = time.as_secs_f64();
        let relative = reference.map(|reference| format!(", {:.2} times the solution's", seconds / reference));
        let rates = rates(work.bytes / seconds, work.flops / seconds);
        println!("  time    {:.2} µs{rates}{}", 1e6 * seconds, relative.unwrap_or_default());
    }
}

fn rates(bytes: f64, flops: f64) -> String {
    let bytes = if bytes > 0.0 { format!(", {:.1} GB/s", bytes / 1e9) } else { String::new() };
    let flops = if flops > 0.0 { format!(", {:.2} TFLOP/s", flops / 1e12) } else { String::new() };
    bytes + &flops
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("          {line}")).collect::<Vec<_>>().join("\n")
}

fn report(part: usize, name: &str, verdict: &Verdict, reference: Option<f64>) -> Value {
    let steps =
        verdict.steps.iter().map(|step| json!({ "name": step.name, "score": step.score, "failure": step.failure }));
    let mut report = json!({
        "part": part + 1,
        "name": name,
        "passed": verdict.passed(),
        "checks": steps.collect::<Vec<_>>(),
    });
    if !verdict.unchecked.is_empty() {
        let unchecked = verdict.unchecked.iter().map(|(name, why)| json!({ "name": name, "why": why }));
        report["not_checked"] = unchecked.collect();
    }
    if let Some(profile) = &verdict.profile {
        report["counts"] = counts(profile);
    }
    if let Some((time, work)) = verdict.time {
        report["seconds"] = json!(time.as_secs_f64());
        report["relative"] = json!(reference.map(|reference| time.as_secs_f64() / reference));
        report["bytes"] = json!(work.bytes);
        report["flops"] = json!(work.flops);
    }
    report
}

/// The counts of each kernel by operation.
fn counts(profile: &Profile) -> Value {
    let kernels = profile.kernels.iter().map(|(&entry, kernel)| {
        let mut operations: Vec<_> = kernel.lines.iter().map(|line| line.operation).collect();
        operations.sort_unstable();
        operations.dedup();
        let totals = operations.into_iter().map(|operation| {
            let counts = kernel.total(operation);
            let value = json!({
                "requests": counts.requests,
                "lanes": counts.lanes,
                "sectors": counts.sectors,
                "bank_conflicts": counts.bank_conflicts,
            });
            (budget::name(operation).to_owned(), value)
        });
        let value = json!({
            "launches": kernel.launches,
            "blocks": kernel.blocks,
            "block_threads": kernel.block_threads,
            "divergent_branches": kernel.divergent_branches,
            "operations": totals.collect::<serde_json::Map<_, _>>(),
        });
        (entry.to_owned(), value)
    });
    Value::Object(kernels.collect())
}
