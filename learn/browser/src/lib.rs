//! Runs the solutions of the course for the panels in its pages: `describe` says what can be set, and `run` runs a kernel in the
//! emulator and returns what its lanes access. Both speak JSON, with the panel (`book/emulator.js`) through WebAssembly, and with
//! tests directly.

mod chapters;
#[cfg(target_arch = "wasm32")]
mod exports;
mod strides;

use std::collections::BTreeSet;

pub use chapters::CHAPTERS;
use learn::budget::name;
use learn::check::{Profiled, relative};
use learn::lab::Failure;
use learn::recorded::Blocks;
use serde_json::{Value, json};
use warpkov_device::emulator::profile::{Counts, KernelProfile, Operation, Profile};

/// The largest size that a panel runs, in a few seconds.
const LARGEST: usize = 1 << 16;

/// The largest size with which a panel begins.
const QUICK: usize = 4096;

/// What a panel can run: the parts of an exercise, or kernels with a stride.
pub(crate) trait Program {
    /// What a panel can set, of each part.
    fn parts(&self) -> Vec<Value>;

    /// Runs a part.
    fn run(&self, part: usize, settings: &Settings<'_>) -> (Profile, Result<(), Failure>);
}

/// What a panel has set.
pub(crate) struct Settings<'a> {
    size: usize,
    stride: u32,
    offset: u32,
    blocks: Option<Blocks<'a>>,
}

/// A version of an exercise.
pub(crate) struct Version {
    /// Such as "solution".
    name: &'static str,
    exercise: fn() -> &'static dyn Profiled,
}

impl Program for Version {
    fn parts(&self) -> Vec<Value> {
        let exercise = (self.exercise)();
        let part = |(part, name)| {
            let counted = exercise.counted(part);
            let stated: Vec<usize> = exercise.sizes(part).into_iter().chain([counted]).collect();
            // A kernel may need whole tiles.
            let unit = stated.iter().fold(0, |divisor, &size| common_divisor(divisor, size));
            let powers = (0..).map(|power| 1 << power).take_while(|&size| size < counted);
            let sizes = powers.filter(|&size| size % unit == 0).chain(stated);
            let sizes: BTreeSet<usize> = sizes.filter(|&size| size <= counted.min(LARGEST)).collect();
            // The first drawing comes soon.
            let size = sizes.range(..=(counted / 4).min(QUICK)).next_back().or(sizes.first());
            let title = format!("{}, part {}: {name}", self.name, part + 1);
            json!({ "name": title, "sizes": sizes, "size": size, "counted": counted })
        };
        exercise.parts().iter().enumerate().map(part).collect()
    }

    fn run(&self, part: usize, settings: &Settings<'_>) -> (Profile, Result<(), Failure>) {
        (self.exercise)().profile(part, settings.size, settings.blocks)
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The answer to a request: `{"chapter": …}` asks what can be set, and with `"part"` and what is set, the kernel runs.
pub fn answer(request: &str) -> String {
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    let chapter = request["chapter"].as_str().unwrap_or_default();
    let programs = chapters::programs(chapter);
    let parts: Vec<_> =
        programs.iter().flat_map(|&program| (0..program.parts().len()).map(move |k| (program, k))).collect();
    let part = request["part"].as_u64().map(|part| part as usize);
    let answer = match part {
        None => json!({ "parts": programs.iter().flat_map(|program| program.parts()).collect::<Vec<_>>() }),
        Some(part) => match parts.get(part) {
            Some(&(program, part)) => run(program, part, &request),
            None => json!({ "fault": format!("there is no part {part} of {chapter:?}") }),
        },
    };
    answer.to_string()
}

fn run(program: &dyn Program, part: usize, request: &Value) -> Value {
    let number = |value: &Value, default: u64| value.as_u64().unwrap_or(default);
    let threads = request["threads"].as_u64();
    let blocks = request["kernel"].as_str().zip(threads);
    let blocks = blocks.map(|(kernel, threads)| Blocks { kernel, threads: threads as u32 });
    let settings = Settings {
        size: number(&request["size"], 1) as usize,
        stride: number(&request["stride"], 1) as u32,
        offset: number(&request["offset"], 0) as u32,
        blocks,
    };
    let (profile, result) = program.run(part, &settings);
    let fault = result.err().map(|failure| without_folders(&relative(&failure.to_string())));
    let kernels: Vec<Value> = profile.kernels.iter().map(|(name, kernel)| describe(name, kernel)).collect();
    json!({ "fault": fault, "kernels": kernels })
}

/// The files of exercises as the course names them.
fn without_folders(text: &str) -> String {
    text.replace("browser/src/../../", "")
}

const OPERATIONS: [Operation; 13] = [
    Operation::Load,
    Operation::Store,
    Operation::Atomic,
    Operation::SharedLoad,
    Operation::SharedStore,
    Operation::SharedAtomic,
    Operation::Barrier,
    Operation::WarpSync,
    Operation::Shuffle,
    Operation::Vote,
    Operation::Reduction,
    Operation::TensorProduct,
    Operation::Fence,
];

fn counts(operation: Operation, counts: &Counts) -> Value {
    let Counts { requests, lanes, bytes, sectors, bank_conflicts, .. } = *counts;
    json!({
        "operation": format!("{operation:?}"),
        "name": name(operation),
        "requests": requests,
        "lanes": lanes,
        "bytes": bytes,
        "sectors": sectors,
        "conflicts": bank_conflicts,
    })
}

/// The counts of a kernel, and the requests of its first warp.
fn describe(name: &str, kernel: &KernelProfile) -> Value {
    let totals = OPERATIONS.into_iter().map(|operation| (operation, kernel.total(operation)));
    let totals: Vec<_> =
        totals.filter(|(_, total)| total.requests > 0).map(|(operation, total)| counts(operation, &total)).collect();
    let requests = kernel.traced().map(|traced| {
        // Buffers lie elsewhere in each run: addresses count from the first sector. Those of shared memory tell the bank.
        let shared = format!("{:?}", traced.operation).starts_with("Shared");
        let first = traced.lanes.iter().map(|(_, address)| address / 32 * 32).min().filter(|_| !shared).unwrap_or(0);
        let lanes: Vec<_> = traced.lanes.iter().map(|(lane, address)| json!([lane, address - first])).collect();
        let mut request = counts(traced.operation, &traced.counts);
        request["width"] = traced.bytes.into();
        request["place"] = format!("{}:{}", without_folders(&relative(traced.file)), traced.line).into();
        request["at"] = lanes.into();
        request
    });
    json!({
        "name": name,
        "launches": kernel.launches,
        "blocks": kernel.blocks,
        "threads": kernel.block_threads,
        "shared": kernel.shared_bytes,
        "branches": kernel.divergent_branches,
        "busiest": kernel.busiest_warp,
        "totals": totals,
        "requests": requests.collect::<Vec<_>>(),
    })
}
