//! Steps of training against the CPU and the definitions.

use warpkov::hmm::backend::{Recursions, Statistics};
use warpkov::hmm::backends::cpu::Batch as OnCpu;
use warpkov::hmm::backends::device::{Batch, Limits};
use warpkov::hmm::model::Emissions;
use warpkov::hmm::options::{Options, Pseudocount, Pseudocounts};
use warpkov::runtime::Precise;
use warpkov_runtime::device::AnyDevice;

use crate::check::{close, same};
use crate::random::Random;
use crate::{Outcome, Suite};

use super::common::in_logarithms;
use super::models::{of_two, with_unreachable};

pub fn add(suite: &mut Suite) {
    suite.add("hmm_maximise::f32", maximise::<f32>);
    suite.add("hmm_maximise::f64", maximise::<f64>);
    suite.add("hmm_out_of_range_trained::f32", out_of_range_trained::<f32>);
    suite.add("hmm_out_of_range_trained::f64", out_of_range_trained::<f64>);
}

/// A training step includes the expected counts of sequences in doubt, and the likelihood rises.
fn out_of_range_trained<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(33);
    let whole = Limits::default();
    let cases = [
        (5, whole),
        (5, Limits { chunks: Some(3), ..whole }),
        (5, Limits { trellis: 960, ..whole }),
        (34, whole),
        (130, whole),
    ];
    for (n, limits) in cases {
        let first = with_unreachable(&of_two([1.0, 0.0], [0.5, 0.5, 0.0, 1.0], [1.0, 1e-300, 1e-300, 1.0], None), n);
        let mut second = with_unreachable(&first, n).into_parts();
        second.transitions[..2].copy_from_slice(&[1.0, 1e-310]);
        let second = second.validated().unwrap();
        let models = [first, second];
        let observed: &[usize] = if n > 64 { &[3, 2] } else { &[8, 3, 5, 1] };
        let sequences = random.observed(observed, 2);
        let mut batch = Batch::<T>::new(device, &sequences, limits)?;
        batch.set_models(&models)?;
        let before = batch.e_step()?;
        batch.m_step(&Options { floor: 1e-6, ..Options::default() })?;
        let tolerance = if T::WIDE { 1e-11 } else { 1e-4 };
        for (k, (got, model)) in batch.models()?.iter().zip(&models).enumerate() {
            let what = |what: &str| format!("N = {n}, model {k}: {what}");
            let truth = in_logarithms(model, &sequences);
            close(&what("ln P(O)"), &before[k], &truth.logs, 0.0, tolerance)?;
            let rows = |probs: &[f64], counts: &[f64], width: usize| {
                let pairs = probs.chunks_exact(width).zip(counts.chunks_exact(width));
                let of = |(probs, counts): (&[f64], &[f64])| {
                    let sum: f64 = counts.iter().sum();
                    if sum > 0.0 { counts.iter().map(|count| count / sum).collect() } else { probs.to_vec() }
                };
                pairs.flat_map(of).collect::<Vec<f64>>()
            };
            close(&what("π"), got.start(), &rows(model.start(), &truth.expected.start, n), tolerance, 0.0)?;
            let transitions = rows(model.transitions(), &truth.expected.transitions, n);
            close(&what("A"), got.transitions(), &transitions, tolerance, 0.0)?;
            let (
                Emissions::Categorical { probs: got, .. },
                Emissions::Categorical { probs, .. },
                Statistics::Categorical(counts),
            ) = (got.emissions(), model.emissions(), &truth.expected.emissions)
            else {
                continue;
            };
            close(&what("B"), got, &rows(probs, counts, 2), tolerance, 0.0)?;
        }
        let after = batch.e_step()?;
        for (before, after) in before.iter().zip(after) {
            let (before, after): (f64, f64) = (before.iter().sum(), after.iter().sum());
            same("risen", &[after >= before - tolerance * before.abs()], &[true])?;
        }
    }
    Ok(())
}

/// Two training steps of models with and without ends agree with the CPU, for each way of counting.
fn maximise<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let mut random = Random::new(21);
    let (whole, tolerance) = (Limits::default(), if T::WIDE { 1e-11 } else { 1e-3 });
    let long: &[usize] = &[3, 1, 17, 2, 9];
    let cases: [(usize, usize, Limits, &[usize]); 7] = [
        (3, 2, whole, long),
        (12, 5, whole, long),
        (12, 700, whole, &[5, 20, 1]),
        (9, 4, Limits { chunks: Some(4), ..whole }, long),
        (30, 4, Limits { trellis: 192 * 30, ..whole }, long),
        (40, 3, whole, if scale > 1 { &[4, 1, 9] } else { &[4, 1, 5] }),
        (if scale > 1 { 300 } else { 130 }, 3, whole, if scale > 1 { &[3, 1, 4] } else { &[3, 1] }),
    ];
    for (n, symbols, limits, lengths) in cases {
        let mut models = vec![random.hmm(n, symbols, false), random.hmm(n, symbols, true)];
        // The last state of the first model is unreachable, so its parameters stay.
        let last = n - 1;
        let without_last = |row: &mut [f64]| {
            row[last] = 0.0;
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|prob| *prob /= sum);
        };
        let mut parts = models[0].clone().into_parts();
        without_last(&mut parts.start);
        parts.transitions.chunks_exact_mut(n).take(last).for_each(without_last);
        let kept = parts.transitions[last * n..].to_vec();
        models[0] = parts.validated().unwrap();
        let sequences = random.observed(lengths, symbols);
        let priors: &[f64] = if n < 64 || scale > 1 { &[0.0, 0.25] } else { &[0.0] };
        // The host computes the M step of pseudocounts that differ.
        let differing = (n < 10).then(|| Pseudocount::Each((0..n * n).map(|at| 0.1 * at as f64).collect()));
        let equal = priors.iter().map(|&prior| (prior, Pseudocount::Equal(2.0 * prior)));
        for (prior, transitions) in equal.chain(differing.map(|counts| (0.25, counts))) {
            let [start, emissions] = [1.0, 3.0].map(|factor| (factor * prior).into());
            let pseudocounts = Pseudocounts { start, transitions, emissions };
            let options = Options { pseudocounts, floor: 1e-6, ..Options::default() };
            let mut expected = OnCpu::<f64>::new(&sequences);
            let mut got = Batch::<T>::new(device, &sequences, limits)?;
            let Ok(()) = expected.set_models(&models);
            got.set_models(&models)?;
            // Without counts no parameter changes.
            got.m_step(&options)?;
            for _ in 0..2 {
                let Ok(logs) = expected.e_step();
                for (got, expected) in got.e_step()?.iter().zip(logs) {
                    close("ln P(O)", got, &expected, tolerance, tolerance)?;
                }
                let Ok(()) = expected.m_step(&options);
                got.m_step(&options)?;
            }
            let Ok(expected_models) = expected.models();
            let trained = got.models()?;
            for (got, expected) in trained.iter().zip(&expected_models) {
                let what = |what: &str| format!("N = {n}, V = {symbols}, pseudocount {prior}: {what}");
                close(&what("π"), got.start(), expected.start(), tolerance, 0.0)?;
                close(&what("A"), got.transitions(), expected.transitions(), tolerance, 0.0)?;
                same(&what("ends"), &[got.end().is_some()], &[expected.end().is_some()])?;
                if let (Some(got), Some(expected)) = (got.end(), expected.end()) {
                    close(&what("end"), got, expected, tolerance, 0.0)?;
                }
                if let (Emissions::Categorical { probs: got, .. }, Emissions::Categorical { probs: expected, .. }) =
                    (got.emissions(), expected.emissions())
                {
                    close(&what("B"), got, expected, tolerance, 0.0)?;
                }
                let zeros = |probs: &[f64]| probs.iter().map(|prob| *prob == 0.0).collect::<Vec<_>>();
                if T::WIDE {
                    same(&what("zeros"), &zeros(got.transitions()), &zeros(expected.transitions()))?;
                }
                got.clone().into_parts().validated()?;
            }
            if prior == 0.0 {
                close("a state without counts", &trained[0].transitions()[last * n..], &kept, 1e-6, 0.0)?;
            }
            // The next recursion uses the updated models.
            let Ok(decoded) = expected.viterbi();
            for (got, expected) in got.viterbi()?.iter().zip(decoded) {
                close("ln P(path, O)", &got.scores, &expected.scores, tolerance, tolerance)?;
            }
            let Ok(counts) = expected.expect();
            for (got, expected) in got.expect()?.iter().zip(counts) {
                let all = tolerance * sequences.steps() as f64;
                close("ξ", &got.transitions, &expected.transitions, all, 0.0)?;
            }
        }
    }
    Ok(())
}
