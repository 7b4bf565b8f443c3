//! The recursions on long sequences store O(√T) steps, not T.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use warpkov::hmm::backend::Recursions;
use warpkov::hmm::backends::cpu::Batch;
use warpkov::hmm::generate::{Kind, Uniform, restart};
use warpkov::hmm::options::Options;
use warpkov::hmm::sample::sample;
use warpkov::hmm::train::train;

use crate::counting::{NOW, PEAK, alone};

/// Runs `work` and returns its result and its peak memory in bytes, beyond the memory allocated before.
fn peak<R>(work: impl FnOnce() -> R) -> (usize, R) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (PEAK.load(Relaxed) - before, result)
}

#[test]
fn a_million_steps_of_64_states_are_trained_in_16_mebibytes() {
    let _alone = alone();
    let source = Uniform { states: 64, kind: Kind::Symbols(16), ends: false, seed: 1 }.generate().unwrap();
    let steps = 1_000_000;
    let sequences = sample(&source, 1, Some(steps), 1).unwrap().sequences;
    let model = restart(&source, &sequences, 1, 0);
    let options = Options { iterations: 1, tolerance: 0.0, ..Options::default() };
    let (bytes, trained) = peak(|| {
        let mut batch = Batch::<f64>::new(&sequences);
        train(&mut batch, vec![model], &options, &mut |_| ControlFlow::Continue(())).unwrap()
    });
    let objectives = &trained.best().objectives;
    assert!(objectives.len() == 2 && objectives[1] > objectives[0], "{objectives:?}");
    // The complete trellis of α would take 512 MB.
    assert!(bytes < 16 << 20, "{bytes}");
    // The path itself takes 4 bytes per step.
    let (bytes, decoded) = peak(|| {
        let mut batch = Batch::<f64>::new(&sequences);
        let Ok(()) = batch.set_models(&[source]);
        let Ok(mut decoded) = batch.viterbi();
        decoded.remove(0)
    });
    assert_eq!(decoded.states.len(), steps);
    assert!(bytes < 4 * steps + (16 << 20), "{bytes}");
}
