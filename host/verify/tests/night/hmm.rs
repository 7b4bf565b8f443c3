//! Hidden Markov models: every precision, scan and method of the recursions, over symbols and vectors.

use warpkov_common::choice::Choice;
use warpkov_hmm::backends::device::{ForwardMethod, OverPaths, Scan};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::Precision;
use warpkov_hmm::place;
use warpkov_hmm::run::{Running, Setup};
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::Local;
use warpkov_verify::hmm::{likelihoods, shortfalls};

use crate::hmms::{categorical, gaussian, observed};
use crate::models::Random;
use crate::{gpu, night};

/// A model and sequences of observations. The numbers of states take each way of a device: a warp, a block, and products of matrices.
fn drawn(random: &mut Random, device: DeviceChoice) -> (Hmm, Sequences) {
    let is_slow = device == DeviceChoice::Emulated;
    let (n, longest) = match random.below(if is_slow { 7 } else { 8 }) {
        0..=3 => (1 + random.below(4), if is_slow { 12 } else { 100 }),
        4..=5 => (5 + random.below(28), if is_slow { 6 } else { 30 }),
        6 => (33 + random.below(32), if is_slow { 3 } else { 20 }),
        _ => (65 + random.below(76), 10),
    };
    let n = n as usize;
    let mut offsets = vec![0];
    for _ in 0..1 + random.below(5) {
        offsets.push(offsets[offsets.len() - 1] + 1 + random.below(longest));
    }
    let steps = offsets[offsets.len() - 1] as usize;
    if random.below(2) == 0 {
        let v = 1 + random.below(6) as usize;
        let model = categorical(random, n, v);
        let symbols = (0..steps).map(|_| random.below(v as u64) as u32).collect();
        return (model, Sequences::new(offsets, Observations::Symbols(symbols)).unwrap());
    }
    let (d, scale) = (1 + random.below(3) as usize, 10f64.powi(random.below(13) as i32 - 6));
    let model = gaussian(random, n, d, scale);
    let values = (0..steps * d).map(|_| observed(random, scale)).collect();
    let observations = Observations::Vectors { dimensions: d as u32, values };
    (model, Sequences::with_missing(offsets, observations).unwrap())
}

/// What is claimed here: the largest error of ln P(O) of a sequence of this many steps, and of ln P(O, q) of a best path, relative to
/// them or to 1.
fn claims(model: &Hmm, precision: Precision, steps: usize) -> [f64; 2] {
    match precision {
        Precision::F64 => [1e-11, 1e-11],
        // Both factors are rounded to 11 significant bits in each step.
        Precision::Tf32 if model.states() > Precision::TF32_STATES => [steps as f64 * 2f64.powi(-10), 1e-5],
        Precision::F32 | Precision::Tf32 => [1e-5, 1e-5],
    }
}

/// Runs the recursions, and verifies their results. Returns whether this way takes the model.
fn holds(
    what: &str,
    (model, sequences): &(Hmm, Sequences),
    place: &Place,
    (precision, scan, method): (Precision, Scan, ForwardMethod),
) -> bool {
    let comm = Local::alone();
    let over = OverPaths::Sums;
    let setup = Setup { sequences, sets: &[], place, precision, scan, over, method, comm: &comm };
    let work = |recursions: &mut Running<'_>| {
        recursions.set_models(std::slice::from_ref(model))?;
        Ok((recursions.log_likelihoods()?.remove(0), recursions.viterbi()?.remove(0)))
    };
    let (scores, decoded) = match setup.with_recursions(model, 1, |divided| divided, work) {
        Ok((found, _)) => found,
        Err(place::Error::Method(_)) => return false,
        Err(error) => panic!("{what}: {error}"),
    };
    let claims = |sequence: usize| claims(model, precision, sequences.range(sequence).len());
    let exact = likelihoods(model, sequences, &[]).unwrap();
    for (sequence, (score, x)) in scores.iter().zip(&exact).enumerate() {
        let error = (score - x.lo).max(x.hi - score) / score.abs().max(1.0);
        let is_impossible = *score == x.lo && *score == x.hi;
        assert!(is_impossible || error <= claims(sequence)[0], "{what}, sequence {sequence}: {score}, proved {x:?}");
    }
    let gaps = shortfalls(model, sequences, &[], &decoded.states).unwrap();
    for (sequence, (score, gap)) in decoded.scores.iter().zip(&gaps).enumerate() {
        let size = if score.is_finite() { score.abs().max(1.0) } else { 1.0 };
        assert!(gap.hi <= claims(sequence)[1] * size, "{what}, path {sequence} of {score}: below the best by {gap:?}");
    }
    true
}

fn recursions(device: DeviceChoice, count: u64) {
    let mut all = Vec::new();
    for &precision in Precision::ALL {
        let ways = [
            (Scan::Never, ForwardMethod::Fused),
            (Scan::Always, ForwardMethod::Fused),
            (Scan::Never, ForwardMethod::Slices),
        ];
        all.extend(
            ways[..if device == DeviceChoice::Cpu { 1 } else { 3 }]
                .iter()
                .map(|&(scan, method)| (precision, scan, method)),
        );
    }
    let (solved, models) = night(device, count, |seed| {
        let place = Place::open(device, None).unwrap().0;
        let drawn = drawn(&mut Random(seed ^ 0x4a11), device);
        let what = |how| format!("seed {seed}, {how:?}, {device}, {} states", drawn.0.states());
        all.iter().filter(|how| holds(&what(**how), &drawn, &place, **how)).count()
    });
    assert!(solved * 2 > all.len() * models, "{solved} of {} for each of {models}", all.len());
}

#[test]
fn on_the_cpu() {
    recursions(DeviceChoice::Cpu, 40);
}

#[test]
fn under_the_emulator() {
    recursions(DeviceChoice::Emulated, 6);
}

#[test]
fn on_a_gpu() {
    if let Some(gpu) = gpu() {
        recursions(gpu, 100);
    }
}
