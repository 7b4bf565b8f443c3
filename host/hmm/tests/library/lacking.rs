//! Devices whose memory runs out.

use warpkov_device::emulator::Emulator;
use warpkov_hmm::backend::{Expected, Recursions};
use warpkov_hmm::backends::device::{Batch, ForwardMethod, Limits};
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::Options;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_runtime::device::{AnyDevice, DeviceError};

/// A batch that lacks memory anywhere, in any recursion, has the same results afterwards as a new one.
#[test]
fn a_batch_without_memory_stays_whole() {
    let vectors = Kind::Vectors { dimensions: 2, full: true };
    let fused = ForwardMethod::Fused;
    let cases = [
        (5, Kind::Symbols(3), None, fused),
        (5, Kind::Symbols(3), Some(512), fused),
        (5, Kind::Symbols(3), None, ForwardMethod::Slices),
        (40, Kind::Symbols(3), None, fused),
        (129, Kind::Symbols(2), None, fused),
        (5, vectors, None, fused),
    ];
    for (states, kind, chunks, method) in cases {
        let model = Uniform { states, kind, ends: false, seed: 7 }.generate().unwrap();
        let mut sequences = sample(&model, 2, Some(4), 1).unwrap().sequences;
        if let Observations::Vectors { dimensions, values } = sequences.observations() {
            let (dimensions, mut values) = (*dimensions, values.clone());
            values[3] = f64::NAN;
            let observations = Observations::Vectors { dimensions, values };
            sequences = Sequences::with_missing(sequences.offsets().to_vec(), observations).unwrap();
        }
        let device = AnyDevice::from(Emulator::default());
        let AnyDevice::Emulated(emulator) = &device else { panic!("an emulator") };
        // Two windows, so that forward recursions are repeated.
        let trellis = 4 * states as usize * 3 * 8;
        let limits = Limits { chunks, trellis, method, ..Limits::default() };
        let expected = all(&mut Batch::<f64>::new(&device, &sequences, limits).unwrap(), &model).unwrap();
        let mut lacked = 0;
        let mut bytes = 8;
        let mut batch = Batch::<f64>::new(&device, &sequences, limits).unwrap();
        loop {
            emulator.limit_buffers(bytes);
            let found = all(&mut batch, &model);
            emulator.limit_buffers(u64::MAX);
            match found {
                Ok(_) => break,
                Err(error) => assert!(error.to_string().contains("limited to"), "{error}"),
            }
            lacked += 1;
            assert_eq!(all(&mut batch, &model).unwrap(), expected, "{states} states, {bytes} bytes");
            // Its buffers have grown: a new one lacks them again.
            batch = Batch::<f64>::new(&device, &sequences, limits).unwrap();
            bytes *= match states {
                ..=32 => 4,
                33..=128 => 16,
                _ => 128,
            };
        }
        assert!(lacked > 2, "{states} states: {lacked}");
    }
}

/// After a failed upload of models, every query is an error, until models are set again.
#[test]
fn a_batch_without_models_has_no_results() {
    for kind in [Kind::Symbols(3), Kind::Vectors { dimensions: 2, full: true }] {
        let model = Uniform { states: 5, kind, ends: false, seed: 7 }.generate().unwrap();
        let sequences = sample(&model, 2, Some(4), 1).unwrap().sequences;
        let device = AnyDevice::from(Emulator::default());
        let AnyDevice::Emulated(emulator) = &device else { panic!("an emulator") };
        for method in [ForwardMethod::Fused, ForwardMethod::Slices] {
            if method == ForwardMethod::Slices && kind != Kind::Symbols(3) {
                continue;
            }
            let mut batch = Batch::<f64>::new(&device, &sequences, Limits { method, ..Limits::default() }).unwrap();
            let expected = all(&mut batch, &model).unwrap();
            emulator.limit_buffers(8);
            let error = batch.set_models(std::slice::from_ref(&model)).unwrap_err();
            emulator.limit_buffers(u64::MAX);
            assert!(error.to_string().contains("limited to"), "{error}");
            let errors = [
                batch.log_likelihoods().map(drop),
                batch.posteriors().map(drop),
                batch.viterbi().map(drop),
                batch.expect().map(drop),
                batch.e_step().map(drop),
                batch.take_counts().map(drop),
                batch.m_step(&Options::default()),
                batch.models().map(drop),
                batch.score(),
                batch.decode(),
                batch.count(),
            ];
            for (query, found) in errors.into_iter().enumerate() {
                let error = found.expect_err(&format!("query {query}"));
                assert!(matches!(error, DeviceError::Missing(_)), "query {query}: {error}");
            }
            assert_eq!(all(&mut batch, &model).unwrap(), expected);
        }
    }
}

type Found = (Vec<Vec<f64>>, Vec<Vec<f64>>, Vec<u32>, Vec<Expected>, Vec<Hmm>);

/// The results of all recursions, and the model after a round of training.
fn all(batch: &mut Batch<'_, f64>, model: &Hmm) -> Result<Found, Box<dyn std::error::Error>> {
    batch.set_models(std::slice::from_ref(model))?;
    let found = (batch.log_likelihoods()?, batch.posteriors()?, batch.viterbi()?.remove(0).states, batch.expect()?);
    batch.e_step()?;
    batch.m_step(&Options::default())?;
    Ok((found.0, found.1, found.2, found.3, batch.models()?))
}
