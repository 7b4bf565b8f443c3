//! The recursions over channels on all backends, against recursions in logarithms with the tests' own densities.

use warpkov_hmm::backend::{NO_STATE, Statistics};
use warpkov_hmm::backends::cpu::Exact;
use warpkov_hmm::backends::device::{Limits, OverPaths, Scan};
use warpkov_hmm::filter::Filter;
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::options::Precision;
use warpkov_hmm::place::recursions;
use warpkov_hmm::sequences::{Observation, Observations, Sequences};
use warpkov_runtime::choose::{DeviceChoice, Place};

use super::{ALL, case, reference};
use crate::logarithms::Trellis;
use crate::random::Random;

/// ln bⱼ(x) of observation `t` of a sequence, of which the state may be known.
fn emitted(model: &Hmm, sequences: &Sequences, sequence: usize, t: usize, state: usize) -> f64 {
    let at = sequences.range(sequence).start + t;
    if sequences.state(at).is_some_and(|known| known as usize != state) {
        return f64::NEG_INFINITY;
    }
    let (Emissions::Channels(channels), Observations::Vectors { values, .. }) =
        (model.emissions(), sequences.observations())
    else {
        panic!("channels")
    };
    let d = channels.dimensions as usize;
    let row = |at: usize| &values[at * d..][..d];
    let before = (t > 0).then(|| row(at - 1));
    channels.list.iter().map(|channel| reference(channel, model.start().len(), state, row(at), before)).sum()
}

#[track_caller]
fn near(found: &[f64], expected: &[f64], tolerance: f64, place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(
            found == expected || error <= tolerance * expected.abs().max(1.0),
            "{place}, {at}: {found:e}, expected {expected:e}"
        );
    }
}

#[test]
fn every_backend_has_the_results_of_the_definitions() {
    let places = [DeviceChoice::Cpu, DeviceChoice::Emulated].map(|device| Place::open(device, None).unwrap().0);
    for seed in 0..26_u64 {
        let names: Vec<&str> =
            if seed % 6 == 0 { ALL.to_vec() } else { vec![ALL[seed as usize % 13], ALL[(7 * seed as usize + 3) % 13]] };
        let (n, random) = (2 + seed as usize % 4, &mut Random(seed));
        let lengths: Vec<usize> = (0..4).map(|_| 1 + (random.unit() * 12.0) as usize).collect();
        let (model, mut sequences) = case(seed, n, &names, &lengths);
        sequences.check(&model).unwrap();
        if seed % 3 == 0 {
            let states = (0..sequences.steps())
                .map(|_| if random.unit() < 0.3 { (random.unit() * n as f64) as u32 } else { NO_STATE });
            sequences = sequences.clone().with_states(states.collect()).unwrap();
        }
        if seed % 4 == 1 {
            sequences = sequences.with_weights(vec![0.5, 3.0, 1.0, 1e-3]).unwrap();
        }
        let trellises: Vec<Trellis> =
            (0..4).map(|m| Trellis::new(&model, lengths[m], |t, j| emitted(&model, &sequences, m, t, j))).collect();
        let logs: Vec<f64> = trellises.iter().map(|trellis| trellis.log).collect();
        let scores: Vec<f64> = trellises.iter().map(|trellis| trellis.score).collect();
        let gamma: Vec<f64> =
            (0..4).flat_map(|m| (0..lengths[m]).flat_map(|t| trellises[m].gamma(t)).collect::<Vec<_>>()).collect();
        let mut sums: Option<Vec<f64>> = None;
        for (place, scan) in [(&places[0], Scan::Never), (&places[1], Scan::Never), (&places[1], Scan::Always)] {
            for precision in [Precision::F64, Precision::F32] {
                let name = format!("seed {seed}, {names:?}, {}, {scan:?}, {precision:?}", place.name());
                let chunks = scan.steps(OverPaths::Sums, model.states(), 1, &sequences);
                let mut all = recursions(place, &sequences, precision, Limits { chunks, ..Limits::default() }).unwrap();
                all.set_models(std::slice::from_ref(&model)).unwrap();
                let tolerance = if precision == Precision::F64 { 1e-10 } else { 1e-4 };
                near(&all.log_likelihoods().unwrap().remove(0), &logs, tolerance, &name);
                near(&all.viterbi().unwrap().remove(0).scores, &scores, tolerance, &name);
                near(&all.posteriors().unwrap().remove(0), &gamma, tolerance, &name);
                let Statistics::Channels(found) = all.expect().unwrap().remove(0).emissions else { panic!("sums") };
                let weighted = |state: usize| -> f64 {
                    let rows = (0..sequences.steps())
                        .map(|at| sequences.weight(sequences.place(at).0 - 1) * gamma[at * n + state]);
                    rows.sum()
                };
                for state in 0..n {
                    near(&[found[state * (found.len() / n)]], &[weighted(state)], 10.0 * tolerance, &name);
                }
                // All backends have the same sums.
                let size = found.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
                let same = sums.get_or_insert_with(|| found.clone());
                let differ = found.iter().zip(&*same).any(|(a, b)| (a - b).abs() > 10.0 * tolerance * size);
                assert!(!differ, "{name}: {found:?}, expected {same:?}");
            }
        }
        let exact = Exact::new(&model).expect(&sequences, &[0, 1, 2, 3]);
        near(&exact.log_likelihoods, &logs, 1e-10, "the exact recursions");
        if let (true, Observations::Vectors { values, dimensions }) =
            (sequences.states().is_empty(), sequences.observations())
        {
            let (d, mut filter) = (*dimensions as usize, Filter::new(&model, 0));
            for (m, log) in logs.iter().enumerate() {
                let range = sequences.range(m);
                for x in values[range.start * d..range.end * d].chunks_exact(d) {
                    filter.push(Observation::Vector(x)).unwrap();
                }
                near(&[filter.log_likelihood()], &[*log], 1e-10, "the filter");
                filter.finish().unwrap();
            }
        }
    }
}

/// A short sequence by all its paths.
#[test]
fn likelihoods_sum_over_all_paths() {
    for seed in 0..20_u64 {
        let (model, sequences) = case(seed, 2, &["poisson", "autoregression", "student-t"], &[5]);
        let log = |path: u32| -> f64 {
            let states: Vec<usize> = (0..5).map(|t| (path >> t & 1) as usize).collect();
            let steps = states.windows(2).map(|pair| model.row(pair[0])[pair[1]].ln());
            let emissions = states.iter().enumerate().map(|(t, &state)| emitted(&model, &sequences, 0, t, state));
            model.start()[states[0]].ln() + steps.sum::<f64>() + emissions.sum::<f64>()
        };
        let logs: Vec<f64> = (0..32).map(log).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln();
        near(&Exact::new(&model).log_likelihoods(&sequences, &[0]), &[sum], 1e-12, "all paths");
    }
}
