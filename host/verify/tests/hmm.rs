//! Likelihoods and paths against sums over all paths in rational arithmetic.

use dashu_ratio::RBig;
use warpkov_hmm::model::{Emissions, Hmm, HmmParts};
use warpkov_hmm::sequences::Sequences;
use warpkov_verify::hmm::{likelihoods, shortfalls};
use warpkov_verify::rational::{Exact, rational};

#[path = "support/hmms.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod hmms;

#[path = "support/models.rs"]
#[allow(dead_code, reason = "other tests need all of it")]
mod models;

use hmms::categorical;
use models::{Random, seeds};

/// P(O, q) of all paths q.
fn all_paths(model: &Hmm, probs: &[f64], symbols: &[u32]) -> Vec<(Vec<u32>, RBig)> {
    let n = model.states();
    let v = probs.len() / n as usize;
    let mut all: Vec<(Vec<u32>, RBig)> = vec![(Vec::new(), RBig::ONE)];
    for &symbol in symbols {
        all = all
            .iter()
            .flat_map(|(path, p)| {
                (0..n).map(move |state| {
                    let step = match path.last() {
                        None => model.start()[state as usize],
                        Some(&before) => model.row(before as usize)[state as usize],
                    };
                    let emitted = probs[state as usize * v + symbol as usize];
                    ([&path[..], &[state]].concat(), p * rational(step) * rational(emitted))
                })
            })
            .collect();
    }
    all
}

/// An interval of logarithms contains ln x, up to the ln of `f64`.
fn near(bounds: warpkov_verify::interval::Interval, x: &RBig) -> bool {
    let x = Exact::Finite(x.clone()).nearest().ln();
    let slack = 1e-14 * x.abs().max(1.0);
    if x == f64::NEG_INFINITY {
        bounds.hi == x
    } else {
        bounds.lo <= x + slack && x - slack <= bounds.hi && bounds.hi - bounds.lo < 1e-12 * x.abs().max(1.0)
    }
}

#[test]
fn likelihoods_and_paths_are_enclosed() {
    for seed in seeds(100) {
        let mut random = Random(seed);
        let (n, v) = (1 + random.below(3) as usize, 1 + random.below(3) as usize);
        let model = categorical(&mut random, n, v);
        let Emissions::Categorical { probs, .. } = model.emissions() else { unreachable!() };
        let length = 1 + random.below(6) as usize;
        let symbols: Vec<u32> = (0..length).map(|_| random.below(v as u64) as u32).collect();
        let sequences = Sequences::of_symbols(&[&symbols[..]]).unwrap();
        let all = all_paths(&model, probs, &symbols);
        let sum = all.iter().fold(RBig::ZERO, |sum, (_, p)| sum + p);
        assert!(near(likelihoods(&model, &sequences, &[]).unwrap()[0], &sum), "seed {seed}");
        let most = all.iter().map(|(_, p)| p).max().unwrap();
        for (path, p) in &all {
            let gap = shortfalls(&model, &sequences, &[], path).unwrap()[0];
            match (*most == RBig::ZERO, *p == RBig::ZERO) {
                (true, _) => assert_eq!(gap.hi, 0.0),
                (_, true) => assert_eq!(gap.lo, f64::INFINITY),
                _ if p == most => assert!(gap.lo == 0.0 && gap.hi < 1e-12, "seed {seed}"),
                _ => {
                    let x = Exact::Finite(most / p).nearest().ln();
                    assert!(gap.lo <= x + 1e-12 && x - 1e-12 <= gap.hi, "seed {seed}: {gap:?}, {x}");
                }
            }
        }
    }
}

/// A symbol V + k stands for a set: the sum over its symbols.
#[test]
fn sets_of_symbols_are_sums() {
    let emissions = Emissions::Categorical { symbols: 3, probs: vec![0.2, 0.3, 0.5, 0.1, 0.8, 0.1] };
    let (start, transitions) = (vec![0.6, 0.4], vec![0.7, 0.3, 0.4, 0.6]);
    let model = HmmParts { start, transitions, emissions, end: None, names: Default::default() }.validated().unwrap();
    let sets = [vec![0, 2], vec![0, 1, 2]];
    let score = |symbols: &[u32]| likelihoods(&model, &Sequences::of_symbols(&[symbols]).unwrap(), &sets);
    let [both, first, last] = [[3, 1], [0, 1], [2, 1]].map(|symbols| score(&symbols).unwrap()[0]);
    let sum = (first.lo.exp() + last.lo.exp()).ln();
    assert!(both.lo <= sum + 1e-15 && sum - 1e-15 <= both.hi && both.hi - both.lo < 1e-14, "{both:?}, {sum}");
    assert!(score(&[4]).unwrap()[0].contains(0.0));
    assert!(score(&[5]).unwrap_err().to_string().contains("symbol 5, expected one below 5"));
}
