//! Sequences divided among ranks, against one rank.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_hmm::backend::Recursions;
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::backends::device::Limits;
use warpkov_hmm::divided::{Divided, Division, RankShare};
use warpkov_hmm::generate::{Kind, Uniform, restart};
use warpkov_hmm::model::{Covariances, Emissions, Hmm};
use warpkov_hmm::options::{Options, Precision, Pseudocounts};
use warpkov_hmm::place::{self, recursions};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences, offsets};
use warpkov_hmm::train::train;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

use super::common::{categorical, close};

type Running<'r> = dyn Recursions<Error = place::Error> + 'r;

/// The results of `work` on each of `size` ranks.
fn on_ranks<T: Send>(
    size: u32,
    device: DeviceChoice,
    precision: Precision,
    sequences: &Sequences,
    work: impl Fn(&mut Running) -> T + Sync,
) -> Vec<T> {
    let found = Local::run(size, Duration::from_secs(60), |local| {
        let division = Division::new(sequences, size);
        let share = division.share(local.rank());
        let (place, _) = Place::open(device, None).unwrap();
        let divided = Divided::open(&division, share.as_ref(), &place, precision, Limits::default(), local);
        let mut divided = divided.map_err(|error| error.to_string())?;
        let found = work(&mut divided);
        let shares = divided.shares(&place.name()).map_err(|error| error.to_string())?;
        if let Some(RankShare { work, time, .. }) = shares.get(local.rank() as usize) {
            let own = division.of_rank(local.rank());
            assert_eq!((work.sequences, work.steps), (own.len(), share.as_ref().map_or(0, Sequences::steps)));
            assert!(time.sweeps > 0.0 && time.waiting > 0.0, "{shares:?}");
        }
        assert_eq!(shares.len(), if size > 1 { size as usize } else { 0 });
        Ok::<_, String>(found)
    });
    found.unwrap()
}

/// The numbers of a model.
fn parameters(model: &Hmm) -> Vec<f64> {
    let emitted = match model.emissions() {
        Emissions::Categorical { probs, .. } => probs.clone(),
        Emissions::Gaussian { means, covariances, .. } => {
            let (Covariances::Diagonal(squares) | Covariances::Full(squares)) = covariances;
            [&means[..], squares].concat()
        }
        Emissions::Channels(channels) => channels.numbers(model.start().len()).concat(),
    };
    [model.start(), model.transitions(), model.end().unwrap_or_default(), &emitted].concat()
}

/// Scores, paths, posteriors and counts of all models, and their training, on each of several ranks and on one.
fn ranks_are_one(device: DeviceChoice, precision: Precision, models: &[Hmm], sequences: &Sequences, sizes: &[u32]) {
    let options = Options {
        iterations: 4,
        tolerance: 0.0,
        pseudocounts: Pseudocounts { transitions: 0.25.into(), ..Pseudocounts::default() },
        slack: precision.slack(),
        ..Options::default()
    };
    let work = |recursions: &mut Running| {
        recursions.set_models(models).unwrap();
        let found = (
            recursions.log_likelihoods().unwrap(),
            recursions.viterbi().unwrap(),
            recursions.posteriors().unwrap(),
            recursions.expect().unwrap(),
        );
        let trained = train(recursions, models.to_vec(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
        (found, trained)
    };
    let (place, _) = Place::open(device, None).unwrap();
    let (alone, trained) = work(&mut *recursions(&place, sequences, precision, Limits::default()).unwrap());
    for &size in sizes {
        let ranks = on_ranks(size, device, precision, sequences, work);
        let (first, learned) = &ranks[0];
        assert!((&first.0, &first.1, &first.2) == (&alone.0, &alone.1, &alone.2), "{size} ranks");
        // In f32 the CPU rounds the counts of a group, and a group is of one rank.
        let tolerance = if precision == Precision::F64 { 1e-12 } else { 1e-5 };
        for (expected, counts) in alone.3.iter().zip(&first.3) {
            assert_eq!(counts.log_likelihoods, expected.log_likelihoods);
            close(&counts.transitions, &expected.transitions, tolerance);
            close(&counts.start, &expected.start, tolerance);
            close(&counts.end, &expected.end, tolerance);
        }
        assert_eq!((learned.best, learned.status), (trained.best, trained.status));
        for (run, expected) in learned.runs.iter().zip(&trained.runs) {
            close(&run.log_likelihoods, &expected.log_likelihoods, tolerance);
            close(&parameters(&run.model), &parameters(&expected.model), tolerance);
        }
        for (found, also) in &ranks[1..] {
            assert!(also == learned, "all of {size} ranks learn the same bits");
            assert!(found.0.is_empty() && found.1.is_empty() && found.2.is_empty());
            assert_eq!(found.3, first.3);
        }
        assert!(on_ranks(size, device, precision, sequences, work) == ranks, "{size} ranks, again");
    }
}

/// Sequences of these lengths, or shorter where the model ends them.
fn of_lengths(model: &Hmm, lengths: &[usize]) -> Sequences {
    let parts: Vec<Sequences> =
        (0..).zip(lengths).map(|(seed, &length)| sample(model, 1, Some(length), seed).unwrap().sequences).collect();
    let offsets = offsets(parts.iter().map(Sequences::steps));
    let mut parts = parts.into_iter().map(|part| part.observations().clone());
    let mut all = parts.next().unwrap();
    for part in parts {
        match (&mut all, part) {
            (Observations::Symbols(all), Observations::Symbols(part)) => all.extend(part),
            (Observations::Vectors { values: all, .. }, Observations::Vectors { values: part, .. }) => all.extend(part),
            _ => unreachable!("one model emits one kind"),
        }
    }
    Sequences::new(offsets, all).unwrap()
}

fn kinds() -> [(Kind, bool); 5] {
    let vectors = |dimensions, full| Kind::Vectors { dimensions, full };
    [
        (Kind::Symbols(4), false),
        (Kind::Symbols(5), true),
        (vectors(2, false), true),
        (vectors(3, true), false),
        (vectors(1, false), false),
    ]
}

/// A random model of this kind, and restarts.
fn several(states: u32, kind: Kind, ends: bool, sequences: &Sequences) -> Vec<Hmm> {
    let model = Uniform { states, kind, ends, seed: 8 }.generate().unwrap();
    let restarts: Vec<Hmm> = (0..2).map(|stream| restart(&model, sequences, 3, stream)).collect();
    [vec![model], restarts].concat()
}

#[test]
fn any_number_of_ranks_is_one_rank() {
    for (kind, ends) in kinds() {
        let source = Uniform { states: 4, kind, ends: false, seed: 2 }.generate().unwrap();
        for lengths in [&[3, 400, 1, 1, 60, 2, 90, 31, 5, 5, 5, 17][..], &[20, 200, 7]] {
            let sequences = of_lengths(&source, lengths);
            for precision in [Precision::F64, Precision::F32] {
                let models = several(3, kind, ends, &sequences);
                ranks_are_one(DeviceChoice::Cpu, precision, &models, &sequences, &[1, 2, 3, 4, 5, 6, 7]);
            }
        }
    }
}

#[test]
fn emulated_ranks_are_one_rank() {
    for (kind, ends) in kinds() {
        let source = Uniform { states: 3, kind, ends: false, seed: 2 }.generate().unwrap();
        let sequences = of_lengths(&source, &[3, 40, 12]);
        for precision in [Precision::F64, Precision::F32] {
            let models = several(2, kind, ends, &sequences);
            ranks_are_one(DeviceChoice::Emulated, precision, &models, &sequences, &[2, 4]);
        }
    }
}

#[test]
fn an_impossible_sequence_has_its_own_number_on_every_rank() {
    let model = categorical(&[1.0, 0.0], &[0.5, 0.5, 0.0, 1.0], 2, &[1.0, 0.0, 0.0, 1.0]);
    let sequences = Sequences::of_symbols(&[&[0, 0, 0, 1][..], &[0, 1, 1], &[0, 1], &[0, 1, 0], &[1]]).unwrap();
    let ranks = on_ranks(3, DeviceChoice::Cpu, Precision::F64, &sequences, |recursions| {
        let models = vec![model.clone()];
        let error = train(recursions, models, &Options::default(), &mut |_| ControlFlow::Continue(())).unwrap_err();
        recursions.set_models(std::slice::from_ref(&model)).unwrap();
        (error.to_string(), recursions.viterbi().unwrap(), recursions.posteriors().unwrap())
    });
    let mut batch = Batch::<f64>::new(&sequences);
    let Ok(()) = batch.set_models(std::slice::from_ref(&model));
    let (Ok(paths), Ok(posteriors)) = (batch.viterbi(), batch.posteriors());
    assert_eq!((&ranks[0].1, &ranks[0].2), (&paths, &posteriors));
    let expected = "sequence 4 has probability 0 under the model, and training cannot change that";
    assert!(ranks.iter().all(|(error, ..)| error == expected));
}
