//! Training of channels: the objective never falls, the M step is a maximum, and samples refit to the truth.

use std::ops::ControlFlow;
use std::time::Duration;

use warpkov_hmm::backend::Statistics;
use warpkov_hmm::channels::{
    Bernoulli, Categorical, Channel, Exponential, Family, Gamma, Gaussian, Logistic, Mixture, Multinomial, Poisson,
    Regression, StudentT,
};
use warpkov_hmm::covariances::Covariances;
use warpkov_hmm::divided::{Divided, Division};
use warpkov_hmm::generate::restart;
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::options::{Options, Precision};
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::solution::Run;
use warpkov_hmm::train::train;
use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

use super::{ALL, case, channel, model};

fn trained(device: DeviceChoice, model: &Hmm, sequences: &Sequences, options: &Options) -> Run {
    let (place, _) = Place::open(device, None).unwrap();
    let mut all = recursions(&place, sequences, Precision::F64, Default::default()).unwrap();
    train(&mut *all, vec![model.clone()], options, &mut |_| ControlFlow::Continue(())).unwrap().runs.remove(0)
}

fn agree(found: &[f64], expected: &[f64], place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-7 * expected.abs().max(1.0), "{place}: {found}, expected {expected}");
    }
}

#[test]
fn the_objective_never_falls() {
    for (index, name) in ALL.iter().enumerate() {
        for seed in 0..12_u64 {
            let (model, sequences) = case(100 * seed + index as u64, 1 + seed as usize % 3, &[name], &[40, 25, 1, 7]);
            let options = Options { iterations: 25, tolerance: 0.0, slack: 1e-10, ..Options::default() };
            let run = trained(DeviceChoice::Cpu, &model, &sequences, &options);
            for pair in run.objectives.windows(2) {
                assert!(
                    pair[1] >= pair[0] - 1e-10 * pair[0].abs().max(1.0),
                    "{name}, seed {seed}: {:?}",
                    run.objectives
                );
            }
            assert!(run.objectives.last() > run.objectives.first(), "{name}, seed {seed}");
            run.model.clone().into_parts().validated().unwrap();
            let fresh = restart(&model, &sequences, seed, 1);
            fresh.clone().into_parts().validated().unwrap();
            assert_eq!(trained(DeviceChoice::Cpu, &fresh, &sequences, &options).fell, None, "{name}, seed {seed}");
        }
    }
}

#[test]
fn training_is_the_same_on_all_devices_and_ranks() {
    for seed in 0..6_u64 {
        let names = [ALL[2 * seed as usize], ALL[2 * seed as usize + 1]];
        let (model, sequences) = case(seed, 3, &names, &[20, 13, 6, 2]);
        let sequences = sequences.with_weights(vec![1.0, 2.0, 0.5, 4.0]).unwrap();
        let ties = if seed % 2 == 0 { vec![0, 1, 0] } else { Vec::new() };
        let mut parts = model.into_parts();
        if !ties.is_empty() {
            parts.emissions = parts.emissions.shared(&ties);
        }
        let model = parts.validated().unwrap();
        let options = Options { iterations: 8, tolerance: 0.0, ties: ties.clone(), ..Options::default() };
        let cpu = trained(DeviceChoice::Cpu, &model, &sequences, &options);
        assert_eq!(cpu.fell, None, "{names:?}");
        if !ties.is_empty() {
            assert_eq!(*cpu.model.emissions(), cpu.model.emissions().clone().shared(&ties), "{names:?}");
        }
        agree(&trained(DeviceChoice::Emulated, &model, &sequences, &options).objectives, &cpu.objectives, "emulator");
        let ranks = Local::run(2, Duration::from_secs(60), |local| {
            let division = Division::new(&sequences, 2);
            let share = division.share(local.rank());
            let (place, _) = Place::open(DeviceChoice::Cpu, None).unwrap();
            let mut all = Divided::open(&division, share.as_ref(), &place, Precision::F64, Default::default(), local)
                .map_err(|error| error.to_string())?;
            let trained = train(&mut all, vec![model.clone()], &options, &mut |_| ControlFlow::Continue(()));
            trained.map(|mut trained| trained.runs.remove(0)).map_err(|error| error.to_string())
        });
        agree(&ranks.unwrap()[1].objectives, &cpu.objectives, "ranks");
    }
}

/// Families with sums that suffice are at the maximum after one step of a model of one state.
#[test]
fn one_step_of_one_state_is_the_estimate_of_maximum_likelihood() {
    let step = |dimensions: u32, family: Family, values: &[f64]| {
        let columns: Vec<u32> = (0..dimensions).collect();
        let model = model(&[1.0], &[1.0], dimensions, vec![channel(&columns, family)]);
        let sequences = super::vectors(dimensions, &[values.to_vec()]);
        let run = trained(DeviceChoice::Cpu, &model, &sequences, &Options { iterations: 1, ..Options::default() });
        let Emissions::Channels(channels) = run.model.emissions().clone() else { panic!("channels") };
        channels.list[0].parameters(1).iter().flat_map(|parameter| parameter.numbers.to_vec()).collect::<Vec<f64>>()
    };
    let close = |found: Vec<f64>, expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{found}, expected {expected}");
        }
    };
    let nan = f64::NAN;
    close(step(1, Family::Poisson(Poisson { rates: vec![1.0] }), &[3.0, 0.0, nan, 6.0]), &[3.0]);
    close(
        step(2, Family::Bernoulli(Bernoulli { probs: vec![0.5; 2] }), &[1.0, nan, 0.0, 1.0, 1.0, 1.0]),
        &[2.0 / 3.0, 1.0],
    );
    close(
        step(1, Family::Categorical(Categorical { probs: vec![0.25; 4] }), &[1.0, 1.0, 3.0, nan, 0.0]),
        &[0.25, 0.5, 0.0, 0.25],
    );
    let multinomial = Family::Multinomial(Multinomial { trials: None, probs: vec![0.5; 2] });
    close(step(2, multinomial, &[1.0, 3.0, 2.0, 2.0, 0.0, 2.0]), &[0.3, 0.7]);
    close(step(1, Family::Exponential(Exponential { rates: vec![1.0] }), &[0.5, 1.5, 4.0]), &[0.5]);
    // y = 1 + 2 z exactly, with errors ±½.
    let regression =
        Regression { inputs: vec![1], lags: 0, coefficients: vec![0.0], intercepts: vec![0.0], variances: vec![1.0] };
    let rows = [1.5, 0.0, 0.5, 0.0, 3.5, 1.0, 2.5, 1.0, 5.5, 2.0, 4.5, 2.0];
    let model = model(&[1.0], &[1.0], 2, vec![channel(&[0], Family::Regression(regression))]);
    let run = trained(
        DeviceChoice::Cpu,
        &model,
        &super::vectors(2, &[rows.to_vec()]),
        &Options { iterations: 1, ..Options::default() },
    );
    let Emissions::Channels(channels) = run.model.emissions().clone() else { panic!("channels") };
    let found: Vec<f64> =
        channels.list[0].parameters(1).iter().flat_map(|parameter| parameter.numbers.to_vec()).collect();
    close(found, &[2.0, 1.0, 0.25]);
}

/// The likelihood of a gamma distribution is stationary at the estimate: its derivative by the shape vanishes.
#[test]
fn gamma_distributions_solve_their_equation() {
    let values = [0.3, 1.7, 2.2, 0.9, 5.0];
    let family = Family::Gamma(Gamma { shapes: vec![1.0], rates: vec![1.0] });
    let model = model(&[1.0], &[1.0], 1, vec![channel(&[0], family)]);
    let sequences = super::vectors(1, &[values.to_vec()]);
    let log = |shape: f64, rate: f64| -> f64 {
        let term = |x: &f64| shape * rate.ln() + (shape - 1.0) * x.ln() - rate * x - super::log_gamma(shape);
        values.iter().map(term).sum()
    };
    let run = trained(DeviceChoice::Cpu, &model, &sequences, &Options { iterations: 1, ..Options::default() });
    let Emissions::Channels(channels) = run.model.emissions().clone() else { panic!("channels") };
    let Family::Gamma(Gamma { shapes, rates }) = &channels.list[0].family else { panic!("gamma") };
    let best = log(shapes[0], rates[0]);
    for (a, b) in [(1.001, 1.0), (0.999, 1.0), (1.0, 1.001), (1.0, 0.999), (1.001, 1.001), (0.999, 0.999)] {
        assert!(log(a * shapes[0], b * rates[0]) < best, "{a} {b}");
    }
}

fn refit(truth: &Hmm, start: &Hmm, steps: usize) -> Vec<f64> {
    let drawn = sample(truth, 4, Some(steps), 7).unwrap().sequences;
    let run =
        trained(DeviceChoice::Cpu, start, &drawn, &Options { iterations: 400, tolerance: 1e-9, ..Options::default() });
    let Emissions::Channels(channels) = run.model.emissions() else { panic!("channels") };
    channels.numbers(truth.start().len()).concat()
}

/// Samples refit to near the truth, from a start nearby.
#[test]
fn samples_refit_to_the_truth() {
    let two = |of: &dyn Fn(f64) -> Channel, dimensions: u32| {
        [of(0.0), of(1.0)].map(|channel| model(&[0.5, 0.5], &[0.95, 0.05, 0.1, 0.9], dimensions, vec![channel]))
    };
    let check = |name: &str, of: &dyn Fn(f64) -> Channel, dimensions: u32, tolerance: f64| {
        let [truth, start] = two(of, dimensions);
        let Emissions::Channels(channels) = truth.emissions() else { panic!("channels") };
        let expected = channels.numbers(2).concat();
        for (found, expected) in refit(&truth, &start, 3000).iter().zip(&expected) {
            assert!(
                (found - expected).abs() < tolerance * expected.abs().max(0.5),
                "{name}: {found}, expected {expected}"
            );
        }
    };
    check("poisson", &|off| channel(&[0], Family::Poisson(Poisson { rates: vec![2.0 + off, 9.0 + off] })), 1, 0.05);
    check(
        "bernoulli",
        &|off| {
            let probs = [0.1, 0.2, 0.1, 0.8, 0.9, 0.7].map(|p| p + 0.05 * off).to_vec();
            channel(&[0, 1, 2], Family::Bernoulli(Bernoulli { probs }))
        },
        3,
        0.1,
    );
    check(
        "exponential",
        &|off| channel(&[0], Family::Exponential(Exponential { rates: vec![0.2 + 0.1 * off, 5.0] })),
        1,
        0.1,
    );
    check(
        "gamma",
        &|off| channel(&[0], Family::Gamma(Gamma { shapes: vec![2.0, 9.0 + off], rates: vec![4.0, 2.0] })),
        1,
        0.15,
    );
    check(
        "student-t",
        &|off| {
            let (degrees, locations) = (vec![3.0 + off, 5.0], vec![-2.0 + off, 3.0]);
            channel(&[0], Family::StudentT(StudentT { degrees, locations, scales: vec![0.5, 1.0 + off] }))
        },
        1,
        0.3,
    );
    check(
        "multinomial",
        &|off| {
            let probs = vec![0.1 + 0.1 * off, 0.9 - 0.1 * off, 0.6, 0.4];
            channel(&[0, 1], Family::Multinomial(Multinomial { trials: Some(8), probs }))
        },
        2,
        0.05,
    );
    check(
        "mixture",
        &|off| {
            let (weights, means) = (vec![0.3, 0.7, 0.5, 0.5], vec![-5.0 + off, 0.0, 5.0, 9.0 + off]);
            channel(&[0], Family::Mixture(Mixture { weights, means, variances: vec![0.5, 1.0, 0.7, 0.5] }))
        },
        1,
        0.15,
    );
    check(
        "autoregression",
        &|off| {
            let (coefficients, intercepts) = (vec![0.8 - 0.2 * off, -0.5], vec![0.0, 2.0 + off]);
            let (inputs, lags, variances) = (Vec::new(), 1, vec![0.5, 0.2 + off]);
            channel(&[0], Family::Regression(Regression { inputs, lags, coefficients, intercepts, variances }))
        },
        1,
        0.15,
    );
    check(
        "gaussian",
        &|off| {
            let covariances = Covariances::Full(vec![1.0, 0.5, 0.5, 2.0, 1.0, -0.3, -0.3, 0.5]);
            channel(&[0, 1], Family::Gaussian(Gaussian { means: vec![0.0, 3.0, 2.0 + off, -2.0], covariances }))
        },
        2,
        0.15,
    );
}

/// A chain of channels, each of which depends on the one before: a logistic regression on a regression on a normal number.
#[test]
fn channels_that_depend_on_each_other_refit() {
    let of = |off: f64| {
        let normal = Gaussian { means: vec![0.0, 1.0 + off], covariances: Covariances::Diagonal(vec![1.0, 2.0]) };
        let line = Regression {
            inputs: vec![0],
            lags: 0,
            coefficients: vec![2.0, -1.0 + off],
            intercepts: vec![0.0, 4.0],
            variances: vec![0.2, 0.3],
        };
        let odds = Logistic { inputs: vec![1], coefficients: vec![1.0, -0.5 - off], intercepts: vec![0.5, 0.0] };
        let list = vec![
            channel(&[0], Family::Gaussian(normal)),
            channel(&[1], Family::Regression(line)),
            channel(&[2], Family::Logistic(odds)),
        ];
        model(&[0.5, 0.5], &[0.95, 0.05, 0.1, 0.9], 3, list)
    };
    let (truth, start) = (of(0.0), of(0.5));
    let Emissions::Channels(channels) = truth.emissions() else { panic!("channels") };
    let expected = channels.numbers(2).concat();
    for (found, expected) in refit(&truth, &start, 5000).iter().zip(&expected) {
        assert!((found - expected).abs() < 0.15 * expected.abs().max(1.0), "{found}, expected {expected}");
    }
}

#[test]
fn counts_of_states_come_first_in_the_sums() {
    let (model, sequences) = case(3, 2, &["poisson", "mixture"], &[9]);
    let (place, _) = Place::open(DeviceChoice::Cpu, None).unwrap();
    let mut all = recursions(&place, &sequences, Precision::F64, Default::default()).unwrap();
    all.set_models(&[model]).unwrap();
    let Statistics::Channels(sums) = all.expect().unwrap().remove(0).emissions else { panic!("sums") };
    // 1, of 2 components 1 and x, of 2 parts 1 + 2 · 2.
    assert_eq!(sums.len(), 2 * (1 + 4 + 10));
    assert!((sums[0] + sums[15] - 9.0).abs() < 1e-12);
}
