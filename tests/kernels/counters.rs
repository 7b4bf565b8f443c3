//! The emulator's counters against those of NVIDIA's profiler, for the same launches.
//!
//! `ncu` measured the case `cuda:0::counters`: see `benches/counters.sh`. The case of the emulator compares its own counts
//! with that measurement. With
//! `WARPKOV_UPDATE_BOOK=1` it writes the table of the book.

use std::fmt::Write;
use warpkov_runtime::device::AnyDevice;

use warpkov::mdp::backends::device::PolicyLayout;
use warpkov_device::emulator::Emulator;
use warpkov_device::emulator::profile::{KernelProfile, Operation, Profiler};

use crate::mdp::Tested;
use crate::random::Random;
use crate::{Outcome, hmm, lessons, mdp, pomdp};

/// Kernels of each model class and of the lessons, in launches that are equal on every device.
pub fn launches(device: &AnyDevice) -> Outcome {
    lessons::vector_add::<f32>(device, 1)?;
    lessons::vector_add4::<f64>(device, 1)?;
    lessons::copy_streaming::<f32>(device, 1)?;
    lessons::indices(device, 1)?;
    lessons::reverse_blocks::<f64>(device, 1)?;
    lessons::transpose(device, 1)?;
    lessons::shuffles::<f64>(device, 1)?;
    lessons::scans::<f32>(device, 1)?;
    lessons::histogram(device, 1)?;
    lessons::special_functions(device, 1)?;
    hmm::slices::<f32>(device, 1)?;
    hmm::tensor_core(device, 1)?;
    pomdp::tensor_core(device, 1)?;
    pomdp::half_tensor_core(device, 1)?;
    pomdp::dense_products::<f32>(device, 1, 2e-6)?;
    let model = Random::new(12).mdp(90, 4, 5, 0.9);
    let projected = [PolicyLayout::Slices, PolicyLayout::Rows { lanes: 8 }].map(Tested::Projected);
    for tested in [Tested::Plain].into_iter().chain(projected) {
        mdp::sweeps::<f32, u32>(device, &model, tested)?;
    }
    Ok(())
}

/// What is compared.
const COLUMNS: [&str; 6] = [
    "load requests",
    "load sectors",
    "store requests",
    "store sectors",
    "conflicts of shared loads",
    "conflicts of shared stores",
];

fn counted(kernel: &KernelProfile) -> [u64; 6] {
    let [load, store, shared_load, shared_store] =
        [Operation::Load, Operation::Store, Operation::SharedLoad, Operation::SharedStore]
            .map(|operation| kernel.total(operation));
    let conflicts = [shared_load.bank_conflicts, shared_store.bank_conflicts];
    [load.requests, load.sectors, store.requests, store.sectors, conflicts[0], conflicts[1]]
}

/// What `ncu` measured: kernel, launches, the columns, and the reason if the emulator counts otherwise.
const MEASURED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/results/2026-11-27-h100-counters.csv");

/// Compares the emulator's counts with the measured ones. They differ exactly where the file of [`MEASURED`] has a reason.
pub fn compare(_: &AnyDevice, _: usize) -> Outcome {
    let profiler = Profiler::default();
    launches(&Emulator::default().profiled_by(&profiler).into())?;
    let profile = profiler.profile();
    let mut page = String::from(PAGE);
    let mut wrong = String::new();
    let mut reasons = String::new();
    for row in std::fs::read_to_string(MEASURED)?.lines().skip(1) {
        let fields: Vec<&str> = row.splitn(COLUMNS.len() + 3, ',').collect();
        let [name, numbers @ .., reason] = fields.as_slice() else { return Err("an empty row".into()) };
        let name = *name;
        let numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<u64>, _>>()?;
        let kernel = profile.kernels.get(name).ok_or_else(|| format!("{name} has not run"))?;
        let _ = write!(page, "| `{name}` | {} |", kernel.launches);
        let mut equal = kernel.launches == numbers[0];
        for (counted, measured) in counted(kernel).into_iter().zip(&numbers[1..]) {
            equal &= counted == *measured;
            let _ = match counted == *measured {
                true => write!(page, " {counted} |"),
                false => write!(page, " **{counted}**, {measured} |"),
            };
        }
        page.push('\n');
        if !reason.is_empty() {
            let _ = writeln!(reasons, "- `{name}`: {reason}");
        }
        if equal != reason.is_empty() {
            let _ = writeln!(wrong, "{name}: {:?}, measured {numbers:?} of {COLUMNS:?}", counted(kernel));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.into());
    }
    let _ = write!(page, "\n## Where they differ\n\n{reasons}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/book/counters.md");
    if std::env::var_os("WARPKOV_UPDATE_BOOK").is_some_and(|value| value == "1") {
        std::fs::write(path, &page)?;
    }
    match std::fs::read_to_string(path)? == page {
        true => Ok(()),
        false => Err("book/counters.md is out of date: WARPKOV_UPDATE_BOOK=1 writes it".into()),
    }
}

const PAGE: &str = "# What the emulator counts, and what the hardware does

`Emulator::profiled` counts requests of warps, sectors of global memory and conflicts of the banks of shared memory (see the module
`warpkov_device::emulator::profile`). The table compares its counts with those of NVIDIA's profiler `ncu` on an H100, for the same launches
(`tests/kernels/counters.rs`). One number stands for both where they agree. Where they differ, the emulator's is bold and precedes that of
`ncu`.

| kernel | launches | load requests | load sectors | store requests | store sectors | conflicts of shared loads | of shared stores |
| --- | --- | --- | --- | --- | --- | --- | --- |
";
