//! Models and observations that are refused, and impossible ones.

use warpkov_hmm::channels::{
    Bernoulli, Categorical, Channel, Channels, Exponential, Family, Gamma, Gaussian, Multinomial, Poisson, Regression,
};
use warpkov_hmm::covariances::Covariances;
use warpkov_hmm::filter::Filter;
use warpkov_hmm::model::{Emissions, HmmParts, Names};
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Observation;

use super::{channel, log_density, model, vectors};

fn poisson(rate: f64) -> Family {
    Family::Poisson(Poisson { rates: vec![rate] })
}

#[test]
fn what_is_wrong_with_channels_is_named() {
    let message = |dimensions: u32, names: &[&str], list: Vec<Channel>| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let emissions = Emissions::Channels(Channels { dimensions, names, list });
        let (start, transitions) = (vec![1.0], vec![1.0]);
        let parts = HmmParts { start, transitions, end: None, emissions, names: Names::default() };
        parts.validated().unwrap_err().to_string()
    };
    assert_eq!(message(1, &[], Vec::new()), "a model that emits vectors needs at least one channel");
    assert_eq!(message(1, &["a", "b"], vec![channel(&[0], poisson(1.0))]), "2 names of columns, expected 1");
    assert_eq!(message(2, &["a", "a"], vec![channel(&[0], poisson(1.0))]), "two columns are called \"a\"");
    assert_eq!(message(1, &[], vec![channel(&[], poisson(1.0))]), "channels[0] has no columns");
    assert_eq!(message(1, &[], vec![channel(&[1], poisson(1.0))]), "channels[0] has column 1, expected one below 1");
    assert_eq!(message(2, &["a", "b"], vec![channel(&[0], poisson(1.0))]), "no channel has column b");
    let twice = vec![channel(&[0], poisson(1.0)), channel(&[0], poisson(1.0))];
    assert_eq!(message(1, &["a"], twice), "column a is emitted twice, again by channels[1]");
    assert_eq!(
        message(1, &[], vec![channel(&[0], poisson(-1.0))]),
        "channels[0].rates[0][0] is -1, expected a number of at least 0"
    );
    let short = Family::Poisson(Poisson { rates: vec![1.0] });
    assert_eq!(message(2, &[], vec![channel(&[0, 1], short)]), "channels[0].rates has 1 numbers, expected 1 × 2");
    let sum = Family::Categorical(Categorical { probs: vec![0.5, 0.25] });
    assert_eq!(message(1, &[], vec![channel(&[0], sum.clone())]), "channels[0].probs[0] sums to 0.75, expected 1");
    assert_eq!(message(2, &[], vec![channel(&[0, 1], sum)]), "channels[0] is categorical with 2 columns, expected 1");
    let matrix =
        Family::Gaussian(Gaussian { means: vec![0.0; 2], covariances: Covariances::Full(vec![1.0, 2.0, 2.0, 1.0]) });
    assert_eq!(
        message(2, &[], vec![channel(&[0, 1], matrix)]),
        "channels[0].covariances[0] is not symmetric and positive definite"
    );
    let regression = |input: u32| {
        let (coefficients, intercepts, variances) = (vec![1.0], vec![0.0], vec![1.0]);
        Family::Regression(Regression { inputs: vec![input], lags: 0, coefficients, intercepts, variances })
    };
    assert_eq!(
        message(1, &["y"], vec![channel(&[0], regression(0))]),
        "channels[0] has the input y, expected one that a channel before it emits, or none"
    );
    let circle = vec![channel(&[0], regression(1)), channel(&[1], regression(0))];
    assert_eq!(
        message(2, &[], circle),
        "channels[0] has the input 1, expected one that a channel before it emits, or none"
    );
}

#[test]
fn what_is_wrong_with_observations_has_a_position() {
    let refused = |dimensions: u32, list: Vec<Channel>, sequences: &[Vec<f64>]| {
        let model = model(&[1.0], &[1.0], dimensions, list);
        let sequences = vectors(dimensions, sequences);
        assert!(!sequences.fit(&model));
        sequences.check(&model).unwrap_err().to_string()
    };
    let one = |family, x: f64| refused(1, vec![channel(&[0], family)], &[vec![1.0], vec![1.0, x]]);
    let count = "expected a count, an integer of at least 0";
    assert_eq!(one(poisson(1.0), -1.0), format!("sequence 2, position 2, column 0: found -1, {count}"));
    assert_eq!(one(poisson(1.0), 0.5), format!("sequence 2, position 2, column 0: found 0.5, {count}"));
    let bernoulli = Family::Bernoulli(Bernoulli { probs: vec![0.5] });
    assert_eq!(one(bernoulli, 2.0), "sequence 2, position 2, column 0: found 2, expected 0 or 1");
    let categorical = Family::Categorical(Categorical { probs: vec![0.5, 0.5] });
    let text =
        "sequence 2, position 2, column 0: found 2, expected a number of a symbol, as many as there are probabilities";
    assert_eq!(one(categorical, 2.0), text);
    let exponential = Family::Exponential(Exponential { rates: vec![1.0] });
    assert_eq!(
        one(exponential, -1e-9),
        "sequence 2, position 2, column 0: found -0.000000001, expected a number of at least 0"
    );
    let gamma = Family::Gamma(Gamma { shapes: vec![1.0], rates: vec![1.0] });
    assert_eq!(one(gamma, 0.0), "sequence 2, position 2, column 0: found 0, expected a number above 0");
    let multinomial = |trials| vec![channel(&[0, 1], Family::Multinomial(Multinomial { trials, probs: vec![0.5; 2] }))];
    assert_eq!(
        refused(2, multinomial(None), &[vec![1.0, f64::NAN]]),
        "sequence 1, position 1, column 1: found NaN, expected a count of each outcome, or of none"
    );
    assert_eq!(
        refused(2, multinomial(Some(3)), &[vec![1.0, 1.0]]),
        "sequence 1, position 1, column 0: found 1, expected counts whose sum is the number of trials"
    );
    let regression = |inputs: Vec<u32>, lags| {
        let (coefficients, intercepts, variances) = (vec![1.0], vec![0.0], vec![1.0]);
        vec![channel(&[0], Family::Regression(Regression { inputs, lags, coefficients, intercepts, variances }))]
    };
    let needed = "found NaN, expected a number, which a regression of this step depends on";
    assert_eq!(
        refused(2, regression(vec![1], 0), &[vec![1.0, f64::NAN]]),
        format!("sequence 1, position 1, column 1: {needed}")
    );
    assert_eq!(
        refused(1, regression(Vec::new(), 1), &[vec![1.0, f64::NAN, 1.0]]),
        format!("sequence 1, position 3, column 0: {needed}")
    );
    // Where an output is missing, so may be its input.
    let both = model(&[1.0], &[1.0], 2, regression(vec![1], 0));
    vectors(2, &[vec![f64::NAN, f64::NAN]]).check(&both).unwrap();
}

#[test]
fn impossible_counts_have_probability_zero() {
    let zero = |family, x| log_density(1, vec![channel(&[0], family)], &[x]);
    assert_eq!(zero(poisson(0.0), 0.0), 0.0);
    assert_eq!(zero(poisson(0.0), 3.0), f64::NEG_INFINITY);
    assert_eq!(zero(Family::Bernoulli(Bernoulli { probs: vec![0.0] }), 1.0), f64::NEG_INFINITY);
    assert_eq!(zero(Family::Categorical(Categorical { probs: vec![1.0, 0.0] }), 1.0), f64::NEG_INFINITY);
    // The second state alone emits positive counts, and no path leads back.
    let rates = Family::Poisson(Poisson { rates: vec![0.0, 2.0] });
    let model = model(&[0.5, 0.5], &[0.5, 0.5, 1.0, 0.0], 1, vec![channel(&[0], rates)]);
    let sequences = vectors(1, &[vec![0.0, 3.0, 0.0], vec![1.0, 0.0, 1.0, 1.0], vec![0.0]]);
    assert_eq!([0, 1, 2].map(|at| sequences.impossible_at(&model, at)), [None, Some(4), None]);
    let mut filter = Filter::new(&model, 0);
    filter.push(Observation::Vector(&[1.0])).unwrap();
    assert_eq!(filter.probs(), [0.0, 1.0]);
    assert!(filter.push(Observation::Vector(&[1.0])).is_err());
    assert!(filter.push(Observation::Vector(&[-1.0])).is_err());
    filter.push(Observation::Vector(&[0.0])).unwrap();
}

#[test]
fn models_that_do_not_say_all_cannot_be_sampled() {
    let trials = model(
        &[1.0],
        &[1.0],
        2,
        vec![channel(&[0, 1], Family::Multinomial(Multinomial { trials: None, probs: vec![0.5; 2] }))],
    );
    let message = |model| sample(model, 1, Some(3), 1).unwrap_err().to_string();
    assert_eq!(
        message(&trials),
        "channel 0 needs the number of trials of a multinomial channel: the model cannot be sampled"
    );
    let (coefficients, intercepts, variances) = (vec![1.0], vec![0.0], vec![1.0]);
    let regression = Regression { inputs: vec![1], lags: 0, coefficients, intercepts, variances };
    let inputs = model(&[1.0], &[1.0], 2, vec![channel(&[0], Family::Regression(regression))]);
    assert_eq!(message(&inputs), "channel 0 depends on column 1, which no channel emits: the model cannot be sampled");
}
