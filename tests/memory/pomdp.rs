//! The memory limit of a solve: the run drops unneeded data before it reaches the limit, and continues.

#[allow(dead_code, reason = "what is allocated now is what is looked at")]
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use warpkov::pomdp::generate::{Maze, Tag};
use warpkov::pomdp::io::read_from;
use warpkov::pomdp::model::Pomdp;
use warpkov::pomdp::options::{Gap, Limits, SolveOptions};
use warpkov::pomdp::solution::{Solution, Status};
use warpkov::pomdp::solve::solve_with;
use warpkov::runtime::choose::DeviceChoice;

use crate::counting::{NOW, PEAK, alone};

/// Solves a model. Returns the solution and the peak of the additional memory in bytes, sampled once per round.
fn measured(model: &Pomdp, iterations: u64, memory: u64) -> (Solution, usize) {
    let limits =
        Limits { gap: Gap::Absolute(1e-9), iterations: Some(iterations), memory: Some(memory), ..Limits::default() };
    let options = SolveOptions { device: DeviceChoice::Cpu, limits, ..SolveOptions::default() };
    let (before, mut most) = (NOW.load(Relaxed), 0);
    let solution = solve_with(model, &options, &mut |_| {
        most = most.max(NOW.load(Relaxed).saturating_sub(before));
        ControlFlow::Continue(())
    });
    (solution.unwrap(), most)
}

/// A single test, because the allocator counts the memory of the whole process.
#[test]
fn the_memory_limit_holds() {
    let _alone = alone();
    small_files_with_large_models_are_refused();
    for (name, model, iterations) in
        [("Tag", Tag::default().generate().unwrap(), 250), ("hallway2", Maze::hallway2().generate().unwrap(), 60)]
    {
        // Memory of the bounds that use no beliefs.
        let (_, fixed) = measured(&model, 0, 1 << 30);
        let (free, needed) = measured(&model, iterations, 1 << 30);
        let memory = (needed - fixed) / 3;
        assert!(memory > 1 << 20, "{name}: {needed} is not much");
        let (kept, peak) = measured(&model, iterations, memory as u64);
        assert_eq!(kept.status, Status::Iterations, "{name}");
        assert!(peak <= fixed + memory * 105 / 100, "{name}: {peak} of {memory} and {fixed}");
        // Revisiting dropped beliefs costs time but does not change the bounds.
        let (kept, free) = (kept.end(), free.end());
        assert!(
            kept.lower >= free.lower - 0.15 * free.gap() && kept.upper <= free.upper + 0.5 * free.gap(),
            "{kept:?} {free:?}"
        );
    }
}

/// A file of a hundred bytes may declare 10¹⁰ probabilities: it is refused before memory for them is allocated.
fn small_files_with_large_models_are_refused() {
    let head = "discount: 0.95\nvalues: reward\nstates: 100000\nactions: 2\nobservations: 2\n";
    for rest in ["T: * uniform\nO: * uniform\n", "start: uniform\nT: 0 uniform\nT: 1 identity\nO: * uniform\n"] {
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        let error = read_from(format!("{head}{rest}").as_bytes(), "m", None).err().unwrap().to_string();
        assert!(error.contains("nonzeros"), "{error}");
        let taken = PEAK.load(Relaxed) - before;
        assert!(taken < 64 << 20, "{taken}");
    }
    // O is counted before T is built, and states that are alike are counted once.
    let text =
        "discount: 0.95\nvalues: reward\nstates: 100000000\nactions: 1\nobservations: 3\nT: * identity\nO: * uniform\n";
    let (before, begun) = (NOW.load(Relaxed), Instant::now());
    PEAK.store(before, Relaxed);
    let error = read_from(text.as_bytes(), "m", None).err().unwrap().to_string();
    assert_eq!(error.lines().next(), Some("m:8:1: O has more than 268435456 nonzeros"));
    let (taken, time) = (PEAK.load(Relaxed) - before, begun.elapsed());
    assert!(taken < 1 << 20 && time.as_secs() < 1, "{taken} bytes, {time:?}");
    // Few nonzeros in each row, but more rows than this machine can hold.
    if warpkov_common::memory::available().is_some_and(|bytes| bytes < 50 << 30) {
        let text = "discount: 0.95\nvalues: reward\nstates: 4000000\nactions: 60\nobservations: 1\nT: * identity\nO: * uniform\n";
        let (before, begun) = (NOW.load(Relaxed), Instant::now());
        PEAK.store(before, Relaxed);
        let error = read_from(text.as_bytes(), "m", None).err().unwrap().to_string();
        assert!(error.contains("a solve would need about 53.6 GiB of memory"), "{error}");
        let (taken, time) = (PEAK.load(Relaxed) - before, begun.elapsed());
        assert!(taken < 1 << 20 && time.as_secs() < 1, "{taken} bytes, {time:?}");
    }
}
