//! The method slices: its kernels, and its likelihoods.

use std::f64::consts::LN_2;

use warpkov::hmm::backend::Recursions;
use warpkov::hmm::backends::cpu::Exact;
use warpkov::hmm::backends::device::{Batch, ForwardMethod, Limits};
use warpkov::hmm::generate::{Kind, Uniform};
use warpkov::hmm::model::{Emissions, Hmm};
use warpkov::hmm::options::Options;
use warpkov::hmm::sequences::{Observations, Sequences};
use warpkov::runtime::Precise;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::hmm::slices::{emission_product, product, row_sums, scale_rows, start_rows};
use warpkov_kernels::hmm::{power, top};
use warpkov_runtime::device::AnyDevice;

use crate::check::{close, of, same};
use crate::random::Random;
use crate::{Outcome, Suite, wide};

use super::common::{agree, on_cpu, said};
use super::models::with_doubt;

pub fn add(suite: &mut Suite) {
    suite.add("hmm_slices::f32", slices::<f32>);
    suite.add("hmm_slices::f64", slices::<f64>);
    suite.add("hmm_doubtful_rows::f32", doubtful_rows::<f32>);
    suite.add("hmm_doubtful_rows::f64", doubtful_rows::<f64>);
    suite.add("hmm_by_slices::f32", by_slices::<f32>);
    suite.add("hmm_by_slices::f64", by_slices::<f64>);
    suite.add("hmm_long_by_slices::f32", long_by_slices::<f32>);
    suite.add("hmm_long_by_slices::f64", long_by_slices::<f64>);
}

/// The partial kernels of a step together give the forward recursion.
pub fn slices<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut random = Random::new(16);
    let (n, v, m) = (37, 5, 6);
    let model = random.hmm(n, v, false);
    let sequences = random.observed(&[4; 6], v);
    let Observations::Symbols(observed) = sequences.observations() else { return Ok(()) };
    let Emissions::Categorical { probs, .. } = model.emissions() else { return Ok(()) };
    let by_symbol: Vec<f64> = (0..v * n).map(|at| probs[at % n * v + at / n]).collect();
    let (emissions, transitions) =
        (device.upload(&of::<T>(&by_symbol))?, device.upload(&of::<T>(model.transitions()))?);
    let (start, end) = (device.upload(&of::<T>(model.start()))?, device.upload(&of::<T>(&vec![1.0; n]))?);
    let symbols: Vec<u32> = (0..4 * m).map(|at| observed[at % m * 4 + at / m]).collect();
    let symbols = device.upload(&symbols)?;
    let (mut c, mut w) = (device.zeros::<T>(m * n)?, device.zeros::<T>(m * n)?);
    let (mut exponents, mut likelihoods) = (device.zeros::<f64>(m)?, device.zeros::<f64>(2 * m)?);
    let (grid, block) = (Dim3 { x: n.div_ceil(32) as u32, y: m as u32, z: 1 }, 32);
    let (elements, of_rows) = (Shape::new(grid, block), Shape::new(m as u32, 64));
    let (rows, states) = (m as u32, n as u32);
    start_rows(device, elements, rows, states, &start, &mut c)?;
    for t in 0..4 {
        scale_rows(device, of_rows, rows, states, 1e-30, &mut c, &mut exponents)?;
        let (first, v) = (rows * t, v as u32);
        emission_product(device, elements, rows, states, v, first, &symbols, &emissions, &c, &mut w)?;
        product(device, elements, rows, states, &w, &transitions, &mut c)?;
    }
    row_sums(device, of_rows, rows, states, &w, &end, &exponents, &mut likelihoods)?;
    let likelihoods = device.to_vec(&likelihoods)?;
    let logs: Vec<f64> = likelihoods.chunks_exact(2).map(|pair| pair[0].ln() + pair[1] * LN_2).collect();
    let tolerance = if T::WIDE { 1e-12 } else { 1e-5 };
    close("ln P(O)", &logs, &on_cpu(&[model], &sequences)[0].logs, tolerance, 0.0)
}

/// A number below the least one puts its row in doubt, and no other row; and the row stays so.
fn doubtful_rows<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let mut c = device.upload(&of::<T>(&[1.0, 1e-20, 0.0, 1e-20, 0.0, 0.0]))?;
    let (mut exponents, mut likelihoods) = (device.zeros::<f64>(3)?, device.zeros::<f64>(6)?);
    let (shape, top) = (Shape::new(3, 32), top(T::WIDE));
    for least in [power(top - 60), 1e-30] {
        scale_rows(device, shape, 3, 2, least, &mut c, &mut exponents)?;
    }
    row_sums(device, shape, 3, 2, &c, &device.upload(&of::<T>(&[1.0; 2]))?, &exponents, &mut likelihoods)?;
    let found = device.to_vec(&likelihoods)?;
    same("in doubt", &[0, 2, 4].map(|at| found[at].is_nan()), &[true, false, false])?;
    same("scaled", &[(power(top)..power(top + 1)).contains(&found[2])], &[true])?;
    close("1e-20", &[found[2].ln() + found[3] * LN_2], &[f64::ln(1e-20)], 1e-6, 0.0)?;
    same("nothing", &found[4..], &[0.0; 2])
}

/// The method slices has the likelihoods of the fused kernels and of exact arithmetic, whatever the lengths, the ends and the
/// magnitudes.
fn by_slices<T: Precise>(device: &AnyDevice, scale: usize) -> Outcome {
    let limits = Limits { method: ForwardMethod::Slices, chunks: Some(5), ..Limits::default() };
    let logs = |models: &[Hmm], sequences: &Sequences, limits: Limits| {
        let mut batch = Batch::<T>::new(device, sequences, limits)?;
        batch.set_models(models)?;
        batch.log_likelihoods()
    };
    let mut random = Random::new(41);
    for n in [1, 3, 33, 70, 130] {
        let lengths: &[usize] = if n < 33 || scale > 1 { &[3, 1, 17, 2, 17, 1, 33] } else { &[3, 1, 4, 4] };
        let sequences = random.observed(lengths, 4);
        let models = [random.hmm(n, 4, false), random.hmm(n, 4, true)];
        let (found, expected) = (logs(&models, &sequences, limits)?, on_cpu(&models, &sequences));
        for (found, expected) in found.iter().zip(&expected) {
            let possible = |logs: &[f64]| logs.iter().map(|log| log.is_finite()).collect::<Vec<_>>();
            same("possible", &possible(found), &possible(&expected.logs))?;
            let finite = |logs: &[f64]| logs.iter().copied().filter(|log| log.is_finite()).collect::<Vec<_>>();
            let tolerance = if T::WIDE { 1e-12 } else { 1e-4 };
            close("ln P(O)", &finite(found), &finite(&expected.logs), tolerance, tolerance)?;
        }
        // The other results have one method, and training changes the models of this one.
        let mut batch = Batch::<T>::new(device, &sequences, limits)?;
        let all = said(&mut batch, &models)?;
        agree::<T>(&all[1], &expected[1], &models[1], &sequences)?;
        batch.e_step()?;
        batch.m_step(&Options::default())?;
        let (trained, after) = (batch.models()?, batch.log_likelihoods()?);
        same("after an M step", &after, &logs(&trained, &sequences, limits)?)?;
    }
    let agrees = |what: &str, found: f64, truth: f64, steps: usize| {
        let tolerance = if T::WIDE { 1e-12 } else { 1e-4 } * truth.abs().max(steps as f64);
        match truth.is_finite() {
            true => close(what, &[found], &[truth], tolerance, 0.0),
            false => same(what, &[found], &[truth]),
        }
    };
    for seed in 0..if scale > 1 { 150 } else { 24 } {
        let (model, sequences) = wide::random_case(seed);
        if !matches!(model.emissions(), Emissions::Categorical { .. }) {
            continue;
        }
        for model in [with_doubt(&model), model] {
            let models = std::slice::from_ref(&model);
            let found = logs(models, &sequences, limits)?.remove(0);
            let fused = logs(models, &sequences, Limits::default())?.remove(0);
            for (m, (found, fused)) in found.into_iter().zip(fused).enumerate() {
                let (truth, steps) = (wide::truth(&model, &sequences, m).log, sequences.range(m).len());
                agrees(&format!("seed {seed}, sequence {m}"), found, truth, steps)?;
                agrees(&format!("seed {seed}, sequence {m}, fused"), found, fused, steps)?;
            }
        }
    }
    for _ in 0..scale.min(8) {
        let models = [random.wild(6, 3, false, false), random.wild(6, 3, true, false)];
        let sequences = random.observed(&[7, 1, 12, 4], 3);
        for (model, found) in models.iter().zip(logs(&models, &sequences, limits)?) {
            for (m, found) in found.into_iter().enumerate() {
                agrees("all magnitudes", found, wide::truth(model, &sequences, m).log, sequences.range(m).len())?;
            }
        }
    }
    Ok(())
}

/// 4000 steps and more: P(O) is below e^−5000, far below every number of f64.
fn long_by_slices<T: Precise>(device: &AnyDevice, _: usize) -> Outcome {
    let models = [Uniform { states: 3, kind: Kind::Symbols(4), ends: true, seed: 42 }.generate()?];
    let sequences = Random::new(42).observed(&[200, 4_200, 4_000], 4);
    let mut batch = Batch::<T>::new(device, &sequences, Limits { method: ForwardMethod::Slices, ..Limits::default() })?;
    batch.set_models(&models)?;
    let (found, expected) =
        (batch.log_likelihoods()?.remove(0), Exact::new(&models[0]).log_likelihoods(&sequences, &[0, 1, 2]));
    same("possible", &[expected[1].is_finite(), expected[1] < -5000.0], &[true; 2])?;
    close("ln P(O)", &found, &expected, 0.0, if T::WIDE { 1e-12 } else { 1e-6 })
}
