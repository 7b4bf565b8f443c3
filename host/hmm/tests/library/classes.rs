//! Classes of states: their posteriors and paths, and tied emissions in training.

use std::ops::ControlFlow;

use warpkov_hmm::backend::{NO_STATE, Recursions, Statistics};
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, StateClasses};
use warpkov_hmm::options::{Constraint, Options, Precision, Pseudocount, Pseudocounts};
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_runtime::choose::{DeviceChoice, Place};

fn model(kind: Kind, seed: u64, states: &[&str], classes: &[&str]) -> Hmm {
    let mut parts = Uniform { states: 4, kind, ends: false, seed }.generate().unwrap().into_parts();
    parts.names.states = states.iter().map(|&name| name.to_owned()).collect();
    parts.names.classes = classes.iter().map(|&name| name.to_owned()).collect();
    parts.validated().unwrap()
}

#[test]
fn classes_are_in_the_order_of_their_first_states() {
    let classes = model(Kind::Symbols(2), 1, &["a", "b", "c", "d"], &["x", "", "y", "x"]).classes();
    assert_eq!(
        classes,
        StateClasses { names: ["x", "b", "y"].map(str::to_owned).to_vec(), of_state: vec![0, 1, 2, 0] }
    );
    assert_eq!(classes.path(&[3, 1, NO_STATE]), [0, 1, NO_STATE]);
    assert_eq!(classes.posteriors(&[0.1, 0.2, 0.3, 0.4, 0.0, 1.0, 0.0, 0.0]), [0.5, 0.2, 0.3, 0.0, 1.0, 0.0]);
    let none = model(Kind::Symbols(2), 1, &[], &[]).classes();
    assert_eq!((none.names.join(" "), none.of_state), ("0 1 2 3".to_owned(), vec![0, 1, 2, 3]));
    let wrong = |classes: &[&str]| {
        let mut parts = model(Kind::Symbols(2), 1, &["a", "b", "c", "d"], &[]).into_parts();
        parts.names.classes = classes.iter().map(|&name| name.to_owned()).collect();
        parts.validated().unwrap_err().to_string()
    };
    assert_eq!(wrong(&["x"]), "1 names of classes, expected 4");
    assert_eq!(wrong(&["b", "", "x", "x"]), "two classes are called \"b\"");
}

#[test]
fn a_model_by_class_is_a_model() {
    for kind in [Kind::Symbols(3), Kind::Vectors { dimensions: 2, full: true }] {
        let lumped = model(kind, 3, &["a", "b", "c", "d"], &["x", "", "x", "y"]).by_class();
        let valid = lumped.clone().into_parts().validated().unwrap();
        assert_eq!((lumped.states(), lumped.names().states.join(" ")), (3, "x b y".to_owned()));
        assert_eq!(valid.states(), 3);
    }
}

/// The M step with tied emissions, against pooled counts, and the objective, on all devices.
#[test]
fn tied_emissions_are_those_of_pooled_counts() {
    let kinds =
        [Kind::Symbols(3), Kind::Vectors { dimensions: 2, full: false }, Kind::Vectors { dimensions: 2, full: true }];
    for seed in 0..30_u64 {
        let kind = kinds[seed as usize % 3];
        let given = model(kind, seed, &[], &["x", "y", "x", ""]);
        let ties = given.classes().of_state;
        let mut parts = given.into_parts();
        parts.emissions = parts.emissions.shared(&ties);
        let mut model = parts.validated().unwrap();
        let sequences = sample(&model, 4, Some(30), seed + 1).unwrap().sequences;
        let constraint = if seed % 2 == 0 || kind == kinds[0] { Constraint::None } else { Constraint::Tied };
        if constraint == Constraint::Tied {
            let mut parts = model.into_parts();
            if let Emissions::Gaussian { covariances, .. } = &mut parts.emissions {
                *covariances = covariances.clone().tied(2);
            }
            model = parts.validated().unwrap();
        }
        let pseudocount = if seed % 4 == 0 { 0.0 } else { 0.5 };
        let pseudocounts = Pseudocounts::equal(pseudocount);
        let options = Options { iterations: 8, tolerance: 0.0, constraint, ties, pseudocounts, ..Options::default() };
        let run = |place: DeviceChoice, iterations: u32| {
            let (place, _) = Place::open(place, None).unwrap();
            let mut all = recursions(&place, &sequences, Precision::F64, Default::default()).unwrap();
            let options = Options { iterations, ..options.clone() };
            let trained = train_all(&mut *all, &model, &options);
            assert_eq!(trained.fell, None, "{seed}");
            trained
        };
        let cpu = run(DeviceChoice::Cpu, 8);
        assert_eq!(*cpu.model.emissions(), cpu.model.emissions().clone().shared(&options.ties), "{seed}");
        let emulated = run(DeviceChoice::Emulated, 8);
        for (a, b) in cpu.objectives.iter().zip(&emulated.objectives) {
            assert!((a - b).abs() < 1e-8 * a.abs().max(1.0), "{seed}: {a} {b}");
        }
        let mut batch = Batch::<f64>::new(&sequences);
        let Ok(()) = batch.set_models(std::slice::from_ref(&model));
        let Ok(mut expected) = batch.expect();
        let counts = expected.remove(0).emissions;
        let pooled = |numbers: &[f64], at: usize| numbers[at] + numbers[2 * (numbers.len() / 4) + at];
        match (run(DeviceChoice::Cpu, 1).model.emissions(), counts) {
            (Emissions::Categorical { probs, .. }, Statistics::Categorical(counts)) => {
                let count = |o: usize| pooled(&counts, o) + 2.0 * pseudocount;
                let total: f64 = (0..3).map(count).sum();
                for (o, prob) in probs[..3].iter().enumerate() {
                    assert!((prob - count(o) / total).abs() < 1e-12, "{seed}");
                }
                assert_eq!(options.parameters(&model), 3 + 4 * 3 + 3 * 2);
            }
            (Emissions::Gaussian { means, covariances, .. }, Statistics::Gaussian { weights, sums, squares }) => {
                let Emissions::Gaussian { means: before, .. } = model.emissions() else { panic!("vectors") };
                let weight = pooled(&weights, 0);
                for k in 0..2 {
                    let shift = pooled(&sums, k) / weight;
                    assert!((means[k] - before[k] - shift).abs() < 1e-10, "{seed}");
                }
                if let (Constraint::None, Covariances::Diagonal(numbers)) = (constraint, covariances) {
                    let shift = pooled(&sums, 0) / weight;
                    assert!((numbers[0] - (pooled(&squares, 0) / weight - shift * shift)).abs() < 1e-9, "{seed}");
                }
            }
            _ => panic!("of one kind"),
        }
    }
}

fn train_all<E: std::fmt::Debug>(
    all: &mut dyn Recursions<Error = E>,
    model: &Hmm,
    options: &Options,
) -> warpkov_hmm::solution::Run {
    warpkov_hmm::train::train(all, vec![model.clone()], options, &mut |_| ControlFlow::Continue(()))
        .unwrap()
        .runs
        .remove(0)
}

#[test]
fn ties_are_checked() {
    let given = model(Kind::Symbols(2), 5, &[], &["x", "x", "", ""]);
    let sequences = sample(&given, 2, Some(5), 1).unwrap().sequences;
    let error = |model: &Hmm, options: Options| {
        let mut batch = Batch::<f64>::new(&sequences);
        let trained =
            warpkov_hmm::train::train(&mut batch, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
        trained.unwrap_err().to_string()
    };
    let ties = given.classes().of_state;
    let tied = |ties: Vec<u32>| Options { ties, ..Options::default() };
    assert_eq!(error(&given, tied(vec![0, 0])), "2 classes of states are tied, expected 4");
    assert_eq!(error(&given, tied(ties.clone())), "the emissions of tied states differ");
    let mut parts = given.into_parts();
    parts.emissions = parts.emissions.shared(&ties);
    let equal = parts.validated().unwrap();
    let counts = Pseudocount::Each((0..8).map(f64::from).collect());
    let pseudocounts = Pseudocounts { emissions: counts, ..Pseudocounts::default() };
    assert_eq!(error(&equal, Options { pseudocounts, ..tied(ties) }), "the priors of tied states differ");
}
