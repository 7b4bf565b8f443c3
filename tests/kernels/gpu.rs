//! Properties of real GPUs only: events, graphs, limits, and exhaustion of memory.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use warpkov::mdp::Solve;
use warpkov::mdp::generate::{Garnet, SlipGrid};
use warpkov::mdp::options::{Limits, Method, Precision, SolveOptions, Spmv, Target};
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::{lessons, library};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::device::AnyDevice;
use warpkov_runtime::gpu;
use warpkov_runtime::gpu::{CudaError, Foreign, Gpu, MODULES, Usage};
use warpkov_runtime::sparse::Cusparse;

use crate::check::{alone, is_alone, same};
use crate::{Outcome, Suite};

pub fn add(suite: &mut Suite) {
    suite.add("events", |device, _| events(opened(device)?));
    suite.add("shared_memory_beyond_48_kib", |device, _| shared_memory(opened(device)?));
    suite.add("memory_that_is_not_there", |device, _| memory(opened(device)?));
    suite.add("empty_buffers", |device, _| empty(opened(device)?));
    suite.add("buffers_outlive_their_gpu", |_, _| outlive());
    suite.add("memory_of_other_libraries", |device, _| foreign(opened(device)?));
    let device = suite.device.clone();
    suite.add(NEW, move |any, _| new_kernels(opened(any)?, &device));
    let device = suite.device.clone();
    suite.add(USED, move |_, _| used(&device));
    suite.add("cusparse::f32", |device, _| cusparse(opened(device)?, Precision::F32));
    suite.add("cusparse::f64", |device, _| cusparse(opened(device)?, Precision::F64));
}

fn opened(device: &AnyDevice) -> Result<&Gpu, Failed> {
    device.gpu().ok_or_else(|| "not a GPU".into())
}

/// The names of cases that run themselves in a child process.
const NEW: &str = "new_kernels";
const USED: &str = "used_gpus";

/// Launches, memory and energy are measured, in a process that has opened no GPU before.
fn used(device: &str) -> Outcome {
    if !is_alone() {
        return alone(&format!("{device}::{USED}"), &[]);
    }
    Usage::measure();
    let ordinal = device.trim_start_matches("cuda:").parse()?;
    let gpu = gpu::open(ordinal)?;
    let n = 1 << 20;
    let (x, y) = (gpu.zeros::<f64>(n)?, gpu.zeros::<f64>(n)?);
    let mut z = gpu.zeros::<f64>(n)?;
    let mut add = || lessons::vector_add(&gpu, Shape::cover(n as u64, 256), n as u32, &x, &y, &mut z);
    (0..3).try_for_each(|_| add())?;
    if gpu.capture(add)?.is_some() {
        return Err("a graph was captured while launches are measured".into());
    }
    drop((x, y, z, gpu));
    let usage = Usage::so_far();
    let [kernel] = &usage.kernels[..] else { return Err(format!("{usage:?}").into()) };
    // 24 MB take a microsecond at 24 TB/s.
    let plausible = kernel.time > Duration::from_micros(3) && kernel.time < Duration::from_secs(1);
    let joules = usage.joules.is_none_or(|joules| (0.0..1e4).contains(&joules));
    match (kernel.entry, kernel.launches) {
        ("vector_add_f64", 3) if plausible && joules && usage.peak_bytes >= 24 << 20 => Ok(()),
        _ => Err(format!("{usage:?}").into()),
    }
}

/// Policy iteration with cuSPARSE's products ends with the policy and the values of our own.
fn cusparse(gpu: &Gpu, precision: Precision) -> Outcome {
    if !Cusparse::is_available() {
        return Ok(());
    }
    let garnet = Garnet { states: 700, actions: 3, branching: 9, terminals: 0.05, ..Garnet::default() };
    let grid = SlipGrid { width: 60, height: 40, walls: 0.2, ..SlipGrid::default() };
    for mdp in [garnet.generate()?, grid.generate()?] {
        let solved = |spmv| {
            let (device, target) = (DeviceChoice::Cuda(gpu.ordinal()), Target::Theta(1e-5));
            let options =
                SolveOptions { method: Some(Method::Projected(spmv)), precision, device, ..SolveOptions::default() };
            let limits = Limits { target, ..options.limits };
            Solve::new(&mdp, &SolveOptions { limits, ..options }).run()
        };
        let (own, other) = (solved(Spmv::Own)?, solved(Spmv::Cusparse)?);
        // In f32, rounding may decide between actions that are worth the same.
        if precision == Precision::F64 && own.policy != other.policy {
            return Err("the policies differ".into());
        }
        // Both are within θ γ/(1 − γ) of V^π, and rounding.
        let scale = own.values.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
        let bound = 2e-5 / (1.0 - mdp.gamma()) + 1e-5 * scale;
        let far = own.values.iter().zip(&other.values).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
        if far > bound {
            return Err(format!("values differ by {far}, expected at most {bound}").into());
        }
    }
    Ok(())
}

/// Captures the first launch of a kernel, as machine code and as PTX, in a child process that has loaded no kernel.
fn new_kernels(gpu: &Gpu, device: &str) -> Outcome {
    if is_alone() {
        return captured(gpu);
    }
    let machine = Gpu::list(&MODULES)?
        .iter()
        .any(|info| device == format!("cuda:{}", info.ordinal) && info.machine_code.is_some());
    for code in ["ptx", "machine"].into_iter().take(1 + usize::from(machine)) {
        alone(&format!("{device}::{NEW}"), &[("WARPKOV_CODE", code)])?;
    }
    Ok(())
}

fn captured(gpu: &Gpu) -> Outcome {
    let (x, y) = (gpu.upload(&[1f32, 2.0, 3.0])?, gpu.upload(&[10f32, 20.0, 30.0])?);
    let mut z = gpu.zeros::<f32>(3)?;
    let numbers: Vec<u32> = (0..64).collect();
    let (dn, mut copy) = (gpu.upload(&numbers)?, gpu.zeros(64)?);
    let both = || {
        lessons::vector_add(gpu, Shape::cover(3, 256), 3, &x, &y, &mut z)?;
        // It may print, so loading it connects it to the messages of the GPU.
        library::library_shifted(gpu, Shape::new(1, 64), 64, 0, &dn, &mut copy)
    };
    let graph = gpu.capture(both)?.ok_or("no graph was captured")?;
    same("before the replay", &gpu.to_vec(&z)?, &[0.0; 3])?;
    // SAFETY: the captured vectors still exist, with three and 64 elements.
    unsafe { gpu.launch_graph(&graph)? };
    same("after the replay", &gpu.to_vec(&z)?, &[11.0, 22.0, 33.0])?;
    same("of the kernel that may print", &gpu.to_vec(&copy)?, &numbers)
}

/// GPU time is at most the host's time, and close to it for work that keeps the GPU busy.
fn events(gpu: &Gpu) -> Outcome {
    let n = 1 << 24;
    let (x, y) = (gpu.zeros::<f64>(n)?, gpu.zeros::<f64>(n)?);
    let mut z = gpu.zeros::<f64>(n)?;
    let mut add = || {
        for _ in 0..100 {
            lessons::vector_add(gpu, Shape::cover(n as u64, 256), n as u32, &x, &y, &mut z)?;
        }
        Ok::<_, CudaError>(())
    };
    add()?;
    gpu.synchronize()?;
    let start = Instant::now();
    let ((), device) = gpu.time(add)?;
    let host = start.elapsed();
    if device > host || device < host / 10 || device < Duration::from_micros(100) {
        return Err(format!("{device:?} by the GPU's clock, {host:?} by the host's").into());
    }
    Ok(())
}

/// A block may use more than the default of 48 KiB of shared memory, but not more than the GPU has.
fn shared_memory(gpu: &Gpu) -> Outcome {
    let x = gpu.upload(&[1i32; 64])?;
    let mut out = gpu.zeros::<u32>(3)?;
    for bytes in [96 * 1024, 60 * 1024] {
        lessons::barrier_votes(gpu, Shape::new(1, 64).with_shared(bytes), 64, &x, &mut out)?;
        same("votes", &gpu.to_vec(&out)?, &[64, 1, 1])?;
    }
    match lessons::barrier_votes(gpu, Shape::new(1, 64).with_shared(1 << 20), 64, &x, &mut out) {
        Err(CudaError::BadLaunch { .. }) => Ok(()),
        other => Err(format!("a megabyte of shared memory: {other:?}").into()),
    }
}

/// Reserving and allocating too much memory are errors that name the sizes. The GPU stays usable.
fn memory(gpu: &Gpu) -> Outcome {
    let (_, total) = gpu.memory()?;
    let too_much = total + (1 << 30);
    match gpu.reserve(too_much, "a test") {
        Err(CudaError::OutOfMemory { needed, total: all, .. }) if needed == too_much && all == total => {}
        other => return Err(format!("reserving too much: {other:?}").into()),
    }
    match gpu.zeros::<u8>(too_much as usize) {
        Err(CudaError::OutOfMemory { .. }) => {}
        Err(other) => return Err(format!("allocating too much: {other}").into()),
        Ok(_) => return Err("allocated more than there is".into()),
    }
    let buffer = gpu.upload(&[1u32, 2, 3])?;
    same("after the failure", &gpu.to_vec(&buffer)?, &[1, 2, 3])
}

fn empty(gpu: &Gpu) -> Outcome {
    let mut nothing = gpu.upload::<f32>(&[])?;
    gpu.clear(&mut nothing)?;
    same("nothing", &gpu.to_vec(&nothing)?, &[])
}

/// Memory that is handed out is read back by its address, whole and in part, by a thread that has no context; the memory
/// outlives the stream; and the calling thread keeps its context, so the GPU stays usable.
fn foreign(gpu: &Gpu) -> Outcome {
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    let shared = Foreign::open(gpu.ordinal())?.upload(&bytes)?;
    let read = |at: usize, len: usize| {
        let (stream, mut target) = (Foreign::open(shared.ordinal())?, vec![0; len]);
        // SAFETY: the range is within the memory, and nothing writes to it.
        unsafe { stream.download(shared.address() + at as u64, &mut target) }?;
        Ok::<_, CudaError>(target)
    };
    same("all", &read(0, bytes.len())?, &bytes)?;
    same("a part", &read(12_345, 678)?, &bytes[12_345..][..678])?;
    same("nothing", &read(0, 0)?, &[])?;
    let elsewhere = std::thread::scope(|scope| scope.spawn(|| read(1, 2)).join());
    same("another thread", &elsewhere.map_err(|_| "the thread panicked")??, &bytes[1..3])?;
    same("no bytes", &[Foreign::open(0)?.upload(&[])?.address()], &[0])?;
    let buffer = gpu.upload(&[1u32, 2, 3])?;
    drop(shared);
    same("afterwards", &gpu.to_vec(&buffer)?, &[1, 2, 3])
}

fn outlive() -> Outcome {
    let buffer = {
        let gpu = gpu::open(0)?;
        gpu.upload(&[7u64; 1000])?
    };
    drop(buffer);
    let gpu = gpu::open(0)?;
    let buffer = gpu.upload(&[8u64])?;
    same("a GPU opened again", &gpu.to_vec(&buffer)?, &[8])
}
