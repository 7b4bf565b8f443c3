//! Semi-Markov models, against the enumeration of all visits.

use std::fs::File;
use std::ops::ControlFlow;

use warpkov_hmm::backend::Statistics;
use warpkov_hmm::checkpoint::{Checkpoint, hash};
use warpkov_hmm::durations::Duration;
use warpkov_hmm::generate::restart;
use warpkov_hmm::io;
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::{Frozen, Options, Precision, Pseudocounts};
use warpkov_hmm::place::recursions;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::train::{Run, Trained, train};
use warpkov_runtime::choose::{DeviceChoice, Place};

use crate::logarithms::log_sum;
use crate::random::Random;

fn distribution(random: &mut Random, len: usize, zeros: f64) -> Vec<f64> {
    let mut probs = random.magnitudes(len, -12.0, 0.0);
    probs.iter_mut().skip(1).for_each(|p| *p = if random.unit() < zeros { 0.0 } else { *p });
    let total: f64 = probs.iter().sum();
    probs.into_iter().map(|p| p / total).collect()
}

/// A random family, or none.
fn duration(random: &mut Random) -> Option<Duration> {
    let max = 1 + (4.0 * random.unit()) as u32;
    Some(match (5.0 * random.unit()) as u32 {
        0 => return None,
        1 => Duration::Categorical(distribution(random, max as usize, 0.3)),
        2 => Duration::Geometric { probability: random.magnitude(-9.0, 0.0) },
        3 => Duration::Poisson { rate: random.magnitude(-6.0, 3.0), max },
        _ => Duration::NegativeBinomial {
            size: random.magnitude(-3.0, 3.0),
            probability: random.magnitude(-6.0, 0.0),
            max,
        },
    })
}

/// A semi-Markov model of K states and V symbols.
struct Semi {
    parts: HmmParts,
    durations: Vec<Option<Duration>>,
}

impl Semi {
    fn random(random: &mut Random, k: usize, symbols: usize, ends: bool) -> Self {
        let durations: Vec<_> = (0..k).map(|_| duration(random)).collect();
        let (mut transitions, mut end) = (Vec::new(), Vec::new());
        for (i, duration) in durations.iter().enumerate() {
            let mut row = distribution(random, k + 1, 0.2);
            if !ends {
                row[k] = 0.0;
            }
            if duration.is_some() {
                row[i] = 0.0;
            }
            if row.iter().all(|p| *p == 0.0) {
                row[(i + 1) % k] = 1.0;
            }
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= total);
            end.extend(row.pop());
            transitions.extend(row);
        }
        let probs = (0..k).flat_map(|_| distribution(random, symbols, 0.2)).collect();
        let emissions = Emissions::Categorical { symbols: symbols as u32, probs };
        let start = distribution(random, k, 0.2);
        let parts = HmmParts { start, transitions, end: ends.then_some(end), emissions, names: Names::default() };
        Self { parts, durations }
    }

    fn model(&self) -> Hmm {
        self.parts.clone().with_durations(self.durations.clone()).unwrap()
    }

    /// P(d) of state i, and the probability of d steps or more, by the formulas of the families.
    fn lasts(&self, i: usize, d: usize) -> [f64; 2] {
        let limited = |max: u32, weight: &dyn Fn(usize) -> f64| {
            let all: Vec<f64> = (0..max as usize).map(weight).collect();
            let total: f64 = all.iter().sum();
            [all.get(d - 1).map_or(0.0, |w| w / total), all.iter().skip(d - 1).sum::<f64>() / total]
        };
        let factorial = |k: usize| (1..=k).map(|x| x as f64).product::<f64>();
        match &self.durations[i] {
            None => [f64::from(u8::from(d == 1)); 2],
            Some(Duration::Categorical(probs)) => {
                [probs.get(d - 1).copied().unwrap_or(0.0), probs.iter().skip(d - 1).sum()]
            }
            Some(Duration::Geometric { probability }) => {
                let stays = (1.0 - probability).powi(d as i32 - 1);
                [probability * stays, stays]
            }
            Some(Duration::Poisson { rate, max }) => limited(*max, &|k| rate.powi(k as i32) / factorial(k)),
            Some(Duration::NegativeBinomial { size, probability, max }) => limited(*max, &|k| {
                let rising: f64 = (0..k).map(|j| size + j as f64).product();
                rising / factorial(k) * (1.0 - probability).powi(k as i32)
            }),
        }
    }

    /// All visits that explain the observations: the state of each step, and ln P.
    fn paths(&self, seen: &[u32]) -> Vec<(Vec<u32>, f64)> {
        let mut found = Vec::new();
        for i in 0..self.parts.start.len() {
            self.visit(seen, i, Vec::new(), self.parts.start[i].ln(), &mut found);
        }
        found
    }

    fn visit(&self, seen: &[u32], i: usize, path: Vec<u32>, log: f64, found: &mut Vec<(Vec<u32>, f64)>) {
        let Emissions::Categorical { symbols, probs } = &self.parts.emissions else { panic!("symbols") };
        let (k, left) = (self.parts.start.len(), seen.len() - path.len());
        let (mut path, mut emitted) = (path, log);
        for d in 1..=left {
            emitted += probs[i * *symbols as usize + seen[path.len()] as usize].ln();
            path.push(i as u32);
            let [exactly, at_least] = self.lasts(i, d);
            if d == left {
                let last = self.parts.end.as_ref().map_or(at_least, |end| exactly * end[i]);
                found.push((path.clone(), emitted + last.ln()));
            } else {
                for j in 0..k {
                    let log = emitted + exactly.ln() + self.parts.transitions[i * k + j].ln();
                    if log > f64::NEG_INFINITY {
                        self.visit(seen, j, path.clone(), log, found);
                    }
                }
            }
        }
    }
}

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64, place: &str) {
    let close = found == expected || (found - expected).abs() <= tolerance * expected.abs().max(1.0);
    assert!(close, "{place}: {found:e}, expected {expected:e}");
}

#[test]
fn recursions_sum_over_all_visits() {
    let places = [DeviceChoice::Cpu, DeviceChoice::Emulated].map(|device| Place::open(device, None).unwrap().0);
    let (mut possible, mut impossible) = (0, 0);
    for seed in 0..200_u64 {
        let random = &mut Random(seed);
        let (k, ends) = (2 + (seed % 3) as usize, seed % 2 == 0);
        let semi = Semi::random(random, k, 3, ends);
        let model = semi.model();
        // The expansion is itself a valid model.
        let again = model.clone().into_parts().validated().unwrap();
        for (found, expected) in again.transitions().iter().zip(model.transitions()) {
            near(*found, *expected, 1e-12, "A");
        }
        let lists: Vec<Vec<u32>> =
            (1..=6).map(|steps| (0..steps).map(|_| (3.0 * random.unit()) as u32).collect()).collect();
        let sequences = Sequences::of_symbols(&lists).unwrap();
        for (place, precision, tolerance) in [
            (&places[0], Precision::F64, 1e-11),
            (&places[1], Precision::F64, 1e-10),
            (&places[1], Precision::F32, 2e-4),
        ] {
            if place.name() != places[0].name() && seed % 8 > 1 {
                continue;
            }
            let mut all = recursions(place, &sequences, precision, Default::default()).unwrap();
            all.set_models(std::slice::from_ref(&model)).unwrap();
            let (logs, decoded) = (all.log_likelihoods().unwrap().remove(0), all.viterbi().unwrap().remove(0));
            let posteriors = model.classes().posteriors(&all.posteriors().unwrap().remove(0));
            for (m, seen) in lists.iter().enumerate() {
                let name = format!("seed {seed}, sequence {m}, {}, {precision:?}", place.name());
                let (paths, range) = (semi.paths(seen), sequences.range(m));
                let log = log_sum(paths.iter().map(|(_, log)| *log));
                let best = paths.iter().fold(f64::NEG_INFINITY, |best, (_, log)| best.max(*log));
                near(logs[m], log, tolerance, &name);
                near(decoded.scores[m], best, tolerance, &name);
                if log == f64::NEG_INFINITY {
                    impossible += 1;
                    continue;
                }
                possible += 1;
                let path = model.classes().path(&decoded.states[range.clone()]);
                let own = paths.iter().filter(|(states, _)| *states == path);
                near(log_sum(own.map(|(_, log)| *log)).max(best), best, tolerance, &name);
                for (t, row) in posteriors[range.start * k..range.end * k].chunks_exact(k).enumerate() {
                    for (i, found) in row.iter().enumerate() {
                        let with = paths.iter().filter(|(states, _)| states[t] as usize == i);
                        near(*found, (log_sum(with.map(|(_, log)| *log)) - log).exp(), tolerance, &name);
                    }
                }
            }
        }
    }
    assert!(possible > 500 && impossible > 20, "{possible} possible, {impossible} impossible");
}

fn options(model: &Hmm, iterations: u32) -> Options {
    let ties = model.segments().map(|segments| segments.of_state()).unwrap_or_default();
    Options { iterations, tolerance: 0.0, ties, ..Options::default() }
}

fn trained(device: DeviceChoice, model: &Hmm, sequences: &Sequences, options: &Options) -> Trained {
    let (place, _) = Place::open(device, None).unwrap();
    let mut all = recursions(&place, sequences, Precision::F64, Default::default()).unwrap();
    train(&mut *all, vec![model.clone()], options, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn training_raises_the_likelihood_of_every_family() {
    let mut trainings = 0;
    for seed in 0..150_u64 {
        let random = &mut Random(seed);
        let semi = Semi::random(random, 3, 3, seed % 2 == 0);
        let model = semi.model();
        let drawn = sample(&model, 6, Some(1 + seed as usize % 20), seed).unwrap();
        // A sequence may be cut where the model cannot end.
        if (0..6).any(|m| drawn.sequences.impossible_at(&model, m).is_some()) {
            continue;
        }
        let mut options = options(&model, 6);
        if seed % 3 == 0 {
            options.pseudocounts = Pseudocounts::equal(0.5);
        }
        let run = |device| -> Run { trained(device, &model, &drawn.sequences, &options).runs.remove(0) };
        let cpu = run(DeviceChoice::Cpu);
        assert_eq!(cpu.fell, None, "seed {seed}: {:?}", cpu.objectives);
        assert!(cpu.objectives.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0)), "{seed}");
        // The parameters of the segments are those of the expansion.
        let segments = cpu.model.segments().unwrap();
        let again = cpu.model.visits().into_owned().into_parts().with_durations(segments.durations().to_vec()).unwrap();
        for (found, expected) in again.transitions().iter().zip(cpu.model.transitions()) {
            near(*found, *expected, 1e-9, "A of the trained model");
        }
        if seed < 20 {
            let emulated = run(DeviceChoice::Emulated);
            let both = emulated.objectives.iter().zip(&cpu.objectives);
            both.for_each(|(found, expected)| near(*found, *expected, 1e-8, "emulated"));
        }
        trainings += 1;
    }
    assert!(trainings > 100, "{trainings}");
}

/// Visits that are seen whole, in symbols that name the states, are counted.
#[test]
fn visible_visits_are_counted() {
    let counted = |durations: Vec<Option<Duration>>| {
        let emissions = Emissions::Categorical { symbols: 2, probs: vec![1.0, 0.0, 0.0, 1.0] };
        let (start, transitions, end) = (vec![0.5, 0.5], vec![0.0, 0.6, 0.6, 0.0], Some(vec![0.4, 0.4]));
        let parts = HmmParts { start, transitions, end, emissions, names: Names::default() };
        let model = parts.with_durations(durations).unwrap();
        // Visits of state 0: 2, 1, 3 and 2 steps; of state 1: 1 and 3.
        let lists = [vec![0, 0, 1, 0, 1, 1, 1], vec![0, 0, 0], vec![0, 0]];
        let sequences = Sequences::of_symbols(&lists).unwrap();
        trained(DeviceChoice::Cpu, &model, &sequences, &options(&model, 1)).runs.remove(0).model
    };
    let even = |steps: usize| Some(Duration::Categorical(vec![1.0 / steps as f64; steps]));
    let model = counted(vec![even(3), even(4)]);
    let segments = model.segments().unwrap();
    let expected = [[0.25, 0.5, 0.25, 0.0], [0.5, 0.0, 0.5, 0.0]];
    for (duration, expected) in segments.durations().iter().zip(expected) {
        let Some(Duration::Categorical(probs)) = duration else { panic!("{duration:?}") };
        probs.iter().zip(expected).for_each(|(found, expected)| near(*found, expected, 1e-12, "P(d)"));
    }
    let [to, back] = [segments.transitions()[1], segments.transitions()[2]];
    near(to, 0.5, 1e-12, "two of four visits of state 0 go on");
    near(back, 0.5, 1e-12, "one of two visits of state 1 goes on");
    near(segments.start()[0], 1.0, 1e-12, "π");
    // The maximum of the likelihood of a Poisson distribution without a limit is the mean, and so nearly with a large limit.
    let geometric = Some(Duration::Geometric { probability: 0.5 });
    let model = counted(vec![Some(Duration::Poisson { rate: 0.1, max: 60 }), geometric]);
    let [Some(Duration::Poisson { rate, .. }), Some(Duration::Geometric { probability })] =
        model.segments().unwrap().durations()
    else {
        panic!("families stay");
    };
    near(*rate, 1.0, 1e-6, "a mean of 2 steps");
    near(*probability, 0.5, 1e-12, "a mean of 2 steps");
}

#[test]
fn parameters_of_samples_are_found() {
    let covariances = Covariances::Diagonal(vec![1.0, 1.0]);
    let emissions = Emissions::Gaussian { dimensions: 1, means: vec![0.0, 4.0], covariances };
    let (start, transitions) = (vec![0.5, 0.5], vec![0.0, 1.0, 1.0, 0.0]);
    let names = Names { states: vec!["low".to_owned(), "high".to_owned()], ..Names::default() };
    let parts = HmmParts { start, transitions, end: None, emissions, names };
    let model = |rate, size, probability| {
        let negative = Duration::NegativeBinomial { size, probability, max: 60 };
        parts.clone().with_durations(vec![Some(Duration::Poisson { rate, max: 40 }), Some(negative)]).unwrap()
    };
    let truth = model(6.0, 3.0, 0.3);
    assert_eq!(truth.parameters(), 1 + 1 + 2 + 4);
    let sequences = sample(&truth, 20, Some(500), 1).unwrap().sequences;
    let from = model(2.0, 1.0, 0.2);
    let run = trained(DeviceChoice::Cpu, &from, &sequences, &options(&from, 30)).runs.remove(0);
    let means: Vec<f64> = run.model.segments().unwrap().durations().iter().flatten().map(Duration::mean).collect();
    // About 600 visits of each state: standard errors of 0.1 and 0.2 steps.
    near(means[0] / 7.0, 1.0, 0.07, "the mean of the Poisson distribution");
    near(means[1] / 8.0, 1.0, 0.1, "the mean of the negative binomial distribution");
    let at_truth = trained(DeviceChoice::Cpu, &truth, &sequences, &options(&truth, 0)).runs.remove(0);
    assert!(run.log_likelihood() > at_truth.log_likelihood(), "{} {}", run.log_likelihood(), at_truth.log_likelihood());
    let restarted = restart(&truth, &sequences, 1, 1);
    assert_eq!(restarted.segments().unwrap().names(), ["low", "high"]);
    let fixed = Options { frozen: Frozen { transitions: true, ..Frozen::default() }, ..options(&truth, 3) };
    let run = trained(DeviceChoice::Cpu, &from, &sequences, &fixed).runs.remove(0);
    assert_eq!(run.model.segments().unwrap().durations(), from.segments().unwrap().durations());
}

#[test]
fn checkpoints_hold_durations() {
    for seed in 0..20_u64 {
        let semi = Semi::random(&mut Random(seed), 3, 3, seed % 2 == 0);
        let model = semi.model();
        let sequences = sample(&model, 4, Some(12), seed).unwrap().sequences;
        let options = options(&model, 3);
        let runs = trained(DeviceChoice::Cpu, &model, &sequences, &options).runs;
        let given = std::slice::from_ref(&model);
        let key = hash(given, (&sequences, &[]));
        let checkpoint = Checkpoint { iteration: 3, runs, seconds: 1.0 };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        checkpoint.contents(&options, key).write(&mut File::create(&path).unwrap()).unwrap();
        let found = Checkpoint::read(&path, given, (&sequences, &[]), &options).unwrap();
        assert_eq!(found, checkpoint, "{seed}");
    }
}

fn of_json(text: &str) -> Result<Hmm, String> {
    io::read_from(text.as_bytes(), "m", None).map_err(|error| error.to_string())
}

#[test]
fn durations_are_read_and_written() {
    for seed in 0..60_u64 {
        let mut semi = Semi::random(&mut Random(seed), 4, 3, seed % 2 == 0);
        if seed % 3 == 0 {
            semi.parts.names.states = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        }
        let model = semi.model();
        let mut text = Vec::new();
        io::write_to(&mut text, io::Format::Json, &model).unwrap();
        let found = of_json(&String::from_utf8(text).unwrap()).unwrap();
        assert_eq!((found.segments(), found.states()), (model.segments(), model.states()), "{seed}");
    }
    let model = |durations: &str| {
        of_json(&format!(
            r#"{{"pi": [1, 0], "A": [[0, 1], [1, 0]], "B": [[1, 0], [0, 1]], "states": ["x", "y"], "durations": {durations}}}"#
        ))
    };
    let named = model(r#"{"y": {"categorical": [0.5, 0.5]}}"#).unwrap();
    assert_eq!(named.segments().unwrap().durations(), [None, Some(Duration::Categorical(vec![0.5, 0.5]))]);
    assert_eq!((named.states(), named.names().states.join(" ")), (3, "x y:1 y:2".to_owned()));
    assert_eq!(named.transitions(), [0.0, 1.0, 0.0, 0.5, 0.0, 0.5, 1.0, 0.0, 0.0]);
    assert_eq!(named.names().classes, ["x", "y", "y"]);
    let Emissions::Categorical { probs, .. } = named.emissions() else { panic!("symbols") };
    assert_eq!(probs[..], [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
    let error = |durations: &str| model(durations).unwrap_err();
    assert_eq!(error("[null]"), "m: durations has 1 numbers, expected 2");
    assert_eq!(error(r#"{"z": null}"#), "m: durations: no state is called \"z\"");
    assert_eq!(error(r#"{"x": null, "x": null}"#), "m: durations: \"x\" occurs twice");
    assert_eq!(error(r#"[null, {"categorical": [0.5]}]"#), "m: durations[1].categorical sums to 0.5, expected 1");
    assert_eq!(error(r#"[null, {"categorical": []}]"#), "m: durations[1] is 0, expected at least one step");
    let message = "m: durations[0].poisson.rate is -1, expected a number of at least 0";
    assert_eq!(error(r#"[{"poisson": {"rate": -1, "max": 3}}, null]"#), message);
    let message = "m: durations[0].negative-binomial.size is 0, expected a positive number";
    assert_eq!(error(r#"[{"negative-binomial": {"size": 0, "probability": 0.5, "max": 3}}, null]"#), message);
    assert_eq!(error(r#"[{"poisson": {"rate": 1, "max": 6000}}, null]"#), "m: too many steps of durations");
    assert!(
        error(r#"[{"weibull": 1}, null]"#).contains("unknown variant `weibull`"),
        "{}",
        error(r#"[{"weibull": 1}]"#)
    );
    let stays = of_json(r#"{"pi": [1], "A": [[1]], "B": [[1]], "durations": [{"categorical": [1]}]}"#).unwrap_err();
    assert_eq!(stays, "m: A[0][0] is 1, expected 0, because the state has a duration");
    let untied = train_untied(&named);
    assert_eq!(untied, "the steps of a duration are not tied");
}

/// Training without ties is refused.
fn train_untied(model: &Hmm) -> String {
    let sequences = Sequences::of_symbols(&[vec![0, 1]]).unwrap();
    let (place, _) = Place::open(DeviceChoice::Cpu, None).unwrap();
    let mut all = recursions(&place, &sequences, Precision::F64, Default::default()).unwrap();
    let found = train(&mut *all, vec![model.clone()], &Options::default(), &mut |_| ControlFlow::Continue(()));
    found.unwrap_err().to_string()
}

#[test]
fn steps_of_a_state_emit_alike_after_training() {
    let semi = Semi::random(&mut Random(3), 3, 3, true);
    let model = semi.model();
    let sequences = sample(&model, 5, Some(15), 1).unwrap().sequences;
    let (place, _) = Place::open(DeviceChoice::Cpu, None).unwrap();
    let mut all = recursions(&place, &sequences, Precision::F64, Default::default()).unwrap();
    all.set_models(std::slice::from_ref(&model)).unwrap();
    let expected = all.expect().unwrap().remove(0);
    let Statistics::Categorical(counts) = &expected.emissions else { panic!("symbols") };
    let run = trained(DeviceChoice::Cpu, &model, &sequences, &options(&model, 1)).runs.remove(0);
    let Emissions::Categorical { probs, .. } = run.model.emissions() else { panic!("symbols") };
    let of_state = model.segments().unwrap().of_state();
    for (row, class) in probs.chunks_exact(3).zip(&of_state) {
        let pooled: Vec<f64> = (0..3)
            .map(|o| {
                let members = of_state.iter().enumerate().filter(|(_, other)| *other == class);
                members.map(|(state, _)| counts[state * 3 + o]).sum::<f64>()
            })
            .collect();
        let total: f64 = pooled.iter().sum();
        if total > 1e-9 {
            row.iter().zip(&pooled).for_each(|(found, count)| near(*found, count / total, 1e-9, "B"));
        }
    }
}

#[test]
fn channels_have_durations() {
    let text = r#"{"pi": [1, 0], "A": [[0, 1], [1, 0]], "states": ["few", "many"],
        "channels": [{"family": "poisson", "columns": [0], "rates": [1, 9]}],
        "durations": [{"poisson": {"rate": 3, "max": 8}}, {"categorical": [0.5, 0.25, 0.25]}]}"#;
    let model = of_json(text).unwrap();
    let mut written = Vec::new();
    io::write_to(&mut written, io::Format::Json, &model).unwrap();
    assert_eq!(of_json(&String::from_utf8(written).unwrap()).unwrap(), model);
    assert_eq!((model.states(), model.visits().states()), (11, 2));
    assert_eq!(model.parameters(), 1 + 2 + 2);
    let sequences = sample(&model, 10, Some(60), 1).unwrap().sequences;
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let run = trained(device, &model, &sequences, &options(&model, 5)).runs.remove(0);
        assert_eq!(run.fell, None, "{:?}", run.objectives);
        let Emissions::Channels(channels) = run.model.emissions() else { panic!("channels") };
        let rates = channels.numbers(11)[0];
        assert!(rates[..8].iter().all(|rate| *rate == rates[0]) && rates[8..].iter().all(|rate| *rate == rates[8]));
        assert!(rates[0] < 2.0 && rates[8] > 7.0, "{rates:?}");
    }
}
