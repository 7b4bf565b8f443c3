//! Small models against sums over all paths, ties between paths, and sequences without a path.

use std::ops::ControlFlow;

use warpkov_hmm::backend::{NO_STATE, Statistics, posterior_path};
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::generate::{Kind, LeftRight, Uniform};
use warpkov_hmm::model::{Emissions, Hmm};
use warpkov_hmm::options::Options;
use warpkov_hmm::sample::sample;
use warpkov_hmm::sequences::{Observations, Sequences};
use warpkov_hmm::train::train;

use super::common::{all, categorical, close};

/// Every path q of a sequence with P(O, q), in the order of the numbers whose digits are the states, last state first.
fn paths(model: &Hmm, symbols: &[u32]) -> Vec<(Vec<u32>, f64)> {
    let Emissions::Categorical { symbols: v, probs } = model.emissions() else { panic!("symbols") };
    let n = model.states();
    let prob = |path: &[u32]| {
        let mut product = model.start()[path[0] as usize];
        for (t, &state) in path.iter().enumerate() {
            if t > 0 {
                product *= model.row(path[t - 1] as usize)[state as usize];
            }
            product *= probs[(state * v + symbols[t]) as usize];
        }
        product * model.end().map_or(1.0, |end| end[path[path.len() - 1] as usize])
    };
    (0..n.pow(symbols.len() as u32))
        .map(|number| {
            let path: Vec<u32> = (0..symbols.len() as u32).map(|t| number / n.pow(t) % n).collect();
            let prob = prob(&path);
            (path, prob)
        })
        .collect()
}

#[test]
fn small_models_agree_with_brute_force() {
    for seed in 0..60 {
        let (states, symbols) = (1 + seed as u32 % 4, 1 + seed as u32 % 3);
        let kind = Kind::Symbols(symbols);
        let model = match seed % 3 {
            0 => Uniform { states, kind, ends: false, seed }.generate(),
            1 => Uniform { states, kind, ends: true, seed }.generate(),
            _ => LeftRight { states, jump: 1, kind, ends: true, seed }.generate(),
        };
        let model = model.unwrap();
        let drawn = sample(&Uniform { states: 2, kind, ends: false, seed }.generate().unwrap(), 6, Some(5), seed);
        let drawn = drawn.unwrap().sequences;
        let Observations::Symbols(seen) = drawn.observations() else { panic!("symbols") };
        // Lengths 1, 2, 3, 4, 5 and 5.
        let cut: Vec<&[u32]> = (0..6).map(|m| &seen[5 * m..][..5.min(m + 1)]).collect();
        let sequences = Sequences::of_symbols(&cut).unwrap();
        let all = all(&model, &sequences);
        let n = states as usize;
        let (mut start, mut end) = (vec![0.0; n], vec![0.0; n]);
        let (mut pairs, mut counts) = (vec![0.0; n * n], vec![0.0; n * symbols as usize]);
        for (m, seen) in cut.iter().enumerate() {
            let paths = paths(&model, seen);
            let total: f64 = paths.iter().map(|(_, prob)| prob).sum();
            let range = sequences.range(m);
            close(&[all.logs[m]], &[total.ln()], 1e-12);
            let mut gamma = vec![0.0; seen.len() * n];
            for (path, prob) in paths.iter().filter(|(_, prob)| *prob > 0.0) {
                let weight = prob / total;
                start[path[0] as usize] += weight;
                end[path[path.len() - 1] as usize] += weight;
                for (t, &state) in path.iter().enumerate() {
                    gamma[t * n + state as usize] += weight;
                    counts[state as usize * symbols as usize + seen[t] as usize] += weight;
                    if t > 0 {
                        pairs[path[t - 1] as usize * n + state as usize] += weight;
                    }
                }
            }
            close(&all.posteriors[range.start * n..range.end * n], &gamma, 1e-12);
            // Ties go to the first path. In random models, rounding cannot break a tie, because there are none.
            let best = paths.iter().map(|(_, prob)| *prob).fold(0.0, f64::max);
            let path = &all.decoded.states[range];
            if best == 0.0 {
                assert!(path.iter().all(|&state| state == NO_STATE) && all.decoded.scores[m] == f64::NEG_INFINITY);
            } else {
                close(&[all.decoded.scores[m]], &[best.ln()], 1e-13);
                let first = paths.iter().find(|(_, prob)| *prob >= best * (1.0 - 1e-12));
                assert_eq!(path, first.unwrap().0, "seed {seed}, sequence {m}");
            }
        }
        close(&all.expected.start, &start, 1e-12);
        close(&all.expected.end, &end, 1e-12);
        close(&all.expected.transitions, &pairs, 1e-12);
        let Statistics::Categorical(found) = &all.expected.emissions else { panic!("symbols") };
        close(found, &counts, 1e-12);
    }
}

#[test]
fn ties_go_to_the_lowest_state_from_the_end() {
    // All paths have the same probability.
    let model = categorical(&[0.25; 4], &[0.25; 16], 2, &[0.5; 8]);
    let all_of = all(&model, &Sequences::of_symbols(&[[0, 1, 0, 1, 1]]).unwrap());
    assert_eq!(all_of.decoded.states, [0; 5]);
    // The paths 1 0 and 0 1 tie and all others are impossible. The path that ends in 0 wins.
    let model = categorical(&[0.5, 0.5], &[0.0, 1.0, 1.0, 0.0], 1, &[1.0, 1.0]);
    for length in 2..6 {
        let all_of = all(&model, &Sequences::of_symbols(&[vec![0; length]]).unwrap());
        let expected: Vec<u32> = (0..length as u32).rev().map(|left| left % 2).collect();
        assert_eq!(all_of.decoded.states, expected);
    }
}

#[test]
fn impossible_sequences_have_no_path_and_no_counts() {
    // State 1 never returns to state 0, and only state 0 emits symbol 0.
    let model = categorical(&[1.0, 0.0], &[0.5, 0.5, 0.0, 1.0], 2, &[1.0, 0.0, 0.0, 1.0]);
    let both = Sequences::of_symbols(&[vec![0, 1, 0], vec![0, 0, 1]]).unwrap();
    let all_of = all(&model, &both);
    assert_eq!(all_of.logs, [f64::NEG_INFINITY, 0.25f64.ln()]);
    assert_eq!(all_of.decoded.states, [NO_STATE, NO_STATE, NO_STATE, 0, 0, 1]);
    assert_eq!(all_of.decoded.scores, [f64::NEG_INFINITY, 0.25f64.ln()]);
    assert_eq!(all_of.posteriors, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    assert_eq!(posterior_path(&all_of.posteriors, 2), [NO_STATE, NO_STATE, NO_STATE, 0, 0, 1]);
    assert_eq!(all_of.expected.transitions, [1.0, 1.0, 0.0, 0.0]);
    let mut batch = Batch::<f64>::new(&both);
    let error = train(&mut batch, vec![model], &Options::default(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.to_string(), "sequence 1 has probability 0 under the model, and training cannot change that");
}
