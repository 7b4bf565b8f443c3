//! Examples of textbooks and articles, with their numbers.

use warpkov_hmm::backend::{Recursions, Statistics, posterior_path};
use warpkov_hmm::backends::cpu::Batch;
use warpkov_hmm::generate::IceCream;
use warpkov_hmm::model::{Emissions, Hmm, HmmParts, Names};
use warpkov_hmm::options::Options;
use warpkov_hmm::sequences::Sequences;

use super::common::{all, categorical, close, one, trained};

/// Eisner's diary (2002): one to three ice creams per day, as symbols 0 to 2.
const DIARY: [u32; 33] =
    [2, 3, 3, 2, 3, 2, 3, 2, 2, 3, 1, 3, 3, 1, 1, 1, 2, 1, 1, 1, 3, 1, 2, 1, 1, 1, 2, 3, 3, 2, 3, 2, 2];

fn diary() -> Sequences {
    Sequences::of_symbols(&[DIARY.map(|day| day - 1)]).unwrap()
}

/// P(o₁ … oₜ) of every prefix, and the filtered distribution of its last state.
fn filtered(model: &Hmm, symbols: &[u32]) -> Vec<(f64, Vec<f64>)> {
    let n = model.states() as usize;
    let beginnings = (1..=symbols.len()).map(|length| {
        let beginning = Sequences::of_symbols(&[&symbols[..length]]).unwrap();
        let all = all(model, &beginning);
        (all.logs[0].exp(), all.posteriors[(length - 1) * n..].to_vec())
    });
    beginnings.collect()
}

/// αₜ without scaling, for models without end probabilities: P(o₁ … oₜ) times the filtered distribution.
fn alpha(model: &Hmm, symbols: &[u32]) -> Vec<f64> {
    filtered(model, symbols).iter().flat_map(|(prob, filter)| filter.iter().map(move |p| prob * p)).collect()
}

#[test]
fn eisners_ice_cream_has_the_published_likelihood() {
    let model = IceCream.generate().unwrap();
    let all = all(&model, &diary());
    // Published: 0.912e-18. The other digits are from brute force in exact arithmetic.
    close(&all.logs, &[-41.537_817_821_1], 1e-11);
    close(&[all.logs[0].exp() * 1e19], &[9.127_565], 1e-6);
    // α without end probabilities: .1 .1; .009 .063; .00135 .03591. An extra state, which emits an unused symbol,
    // replaces the end.
    let HmmParts { mut start, emissions, .. } = model.into_parts();
    start.push(0.0);
    let Emissions::Categorical { symbols: 3, probs } = emissions else { panic!("three symbols") };
    let mut probs: Vec<f64> = probs.chunks(3).flat_map(|row| [row, &[0.0]].concat()).collect();
    probs.extend([0.0, 0.0, 0.0, 1.0]);
    let transitions = vec![0.8, 0.1, 0.1, 0.1, 0.8, 0.1, 0.0, 0.0, 1.0];
    let emissions = Emissions::Categorical { symbols: 4, probs };
    let names = Names::default();
    let endless = HmmParts { start, transitions, end: None, emissions, names }.validated().unwrap();
    let mut batch = Batch::<f64>::new(SEQUENCES_OF_THREE.get_or_init(three));
    one(batch.set_models(std::slice::from_ref(&endless)).map(|()| vec![()]));
    close(&one(batch.log_likelihoods()), &[0.2f64.ln(), 0.072f64.ln(), 0.03726f64.ln()], 1e-14);
}

static SEQUENCES_OF_THREE: std::sync::OnceLock<Sequences> = std::sync::OnceLock::new();

/// The first day, the first two days, and the first three days.
fn three() -> Sequences {
    Sequences::of_symbols(&[vec![1], vec![1, 2], vec![1, 2, 2]]).unwrap()
}

#[test]
fn eisners_ice_cream_has_the_published_counts() {
    let all = all(&IceCream.generate().unwrap(), &diary());
    let Statistics::Categorical(counts) = &all.expected.emissions else { panic!("symbols") };
    // Published to three decimals.
    close(counts, &[9.931, 3.212, 1.537, 1.069, 7.788, 9.463], 5e-4);
    close(&all.expected.transitions, &[12.855, 1.6, 1.695, 15.85], 1e-3);
    close(&[all.expected.end.iter().sum()], &[1.0], 1e-14);
}

#[test]
fn eisners_ice_cream_learns_as_published() {
    let model = IceCream.generate().unwrap();
    let step = Options { iterations: 1, tolerance: 0.0, ..Options::default() };
    let run = trained(&model, &diary(), &step).runs.remove(0).model;
    close(run.transitions(), &[0.8757410, 0.1089602, 0.0925170, 0.8651580], 1e-7);
    close(run.end().unwrap(), &[0.0152988, 0.0423250], 1e-7);
    let Emissions::Categorical { probs, .. } = run.emissions() else { panic!("symbols") };
    close(probs, &[0.6765024, 0.2188194, 0.1046782, 0.0583723, 0.4250865, 0.5165412], 1e-7);
    // From π = .3 .7, after ten iterations (published).
    let ten = Options { iterations: 10, ..step.clone() };
    let run = trained(&HmmParts { start: vec![0.3, 0.7], ..model.into_parts() }.validated().unwrap(), &diary(), &ten)
        .runs
        .remove(0)
        .model;
    close(run.transitions(), &[0.9337, 0.0663, 0.0718, 0.8650], 1e-4);
    close(run.end().unwrap(), &[0.0, 0.0632], 1e-4);
    let Emissions::Categorical { probs, .. } = run.emissions() else { panic!("symbols") };
    close(probs, &[0.6407, 0.1481, 0.2112, 1.5e-4, 0.5341, 0.4657], 1e-4);
}

#[test]
fn jurafsky_and_martin() {
    // States H, C; symbols 1, 2, 3 ice creams (Speech and Language Processing, 3rd edition, appendix A).
    let model = categorical(&[0.8, 0.2], &[0.6, 0.4, 0.5, 0.5], 3, &[0.2, 0.4, 0.4, 0.5, 0.4, 0.1]);
    close(&alpha(&model, &[2, 0, 2]), &[0.32, 0.02, 0.0404, 0.069, 0.023496, 0.005066], 1e-14);
    let all = all(&model, &Sequences::of_symbols(&[[2, 0, 2]]).unwrap());
    close(&[all.logs[0].exp(), all.decoded.scores[0].exp()], &[0.028562, 0.0128], 1e-14);
    assert_eq!(all.decoded.states, [0, 1, 0]);
}

#[test]
fn umbrella() {
    // States rain, no rain; observations umbrella, none (Russell and Norvig).
    let model = categorical(&[0.5, 0.5], &[0.7, 0.3, 0.3, 0.7], 2, &[0.9, 0.1, 0.2, 0.8]);
    let seen = [0, 0, 1, 0, 0];
    let filter: Vec<f64> = filtered(&model, &seen).iter().map(|(_, filter)| filter[0]).collect();
    close(&filter, &[0.8182, 0.8834, 0.1907, 0.7308, 0.8673], 1e-4);
    let all = all(&model, &Sequences::of_symbols(&[seen]).unwrap());
    let smoothed: Vec<f64> = all.posteriors.iter().step_by(2).copied().collect();
    close(&smoothed, &[0.8673, 0.8204, 0.3075, 0.8204, 0.8673], 1e-4);
    close(&[all.logs[0].exp(), all.decoded.scores[0].exp()], &[0.034_303_700_5, 0.011_573_604], 1e-9);
    assert_eq!(all.decoded.states, [0, 0, 1, 0, 0]);
    assert_eq!(posterior_path(&all.posteriors, 2), [0, 0, 1, 0, 0]);
}

#[test]
fn wikipedias_examples() {
    // States rainy, sunny; symbols walk, shop, clean.
    let model = categorical(&[0.6, 0.4], &[0.7, 0.3, 0.4, 0.6], 3, &[0.1, 0.4, 0.5, 0.6, 0.3, 0.1]);
    let seen = Sequences::of_symbols(&[[0, 1, 2]]).unwrap();
    let all_of = all(&model, &seen);
    close(&[all_of.logs[0].exp(), all_of.decoded.scores[0].exp()], &[0.033612, 0.01344], 1e-14);
    assert_eq!(all_of.decoded.states, [1, 0, 0]);
    // States healthy, fever; symbols normal, cold, dizzy.
    let model = categorical(&[0.6, 0.4], &[0.7, 0.3, 0.4, 0.6], 3, &[0.5, 0.4, 0.1, 0.1, 0.3, 0.6]);
    let all_of = all(&model, &seen);
    close(&[all_of.logs[0].exp(), all_of.decoded.scores[0].exp()], &[0.03628, 0.01512], 1e-14);
    assert_eq!(all_of.decoded.states, [0, 0, 1]);
}

#[test]
fn borodovsky_and_ekisheva() {
    // States H, L; GGCACTGAA over ACGT (Problems and Solutions in Biological Sequence Analysis).
    let model = categorical(&[0.5, 0.5], &[0.5, 0.5, 0.4, 0.6], 4, &[0.2, 0.3, 0.3, 0.2, 0.3, 0.2, 0.2, 0.3]);
    let all = all(&model, &Sequences::of_symbols(&[[2, 2, 1, 0, 1, 3, 2, 0, 0]]).unwrap());
    close(&[all.decoded.scores[0].exp() * 1e8, all.logs[0].exp() * 1e6], &[4.251528, 3.791_016_035_52], 1e-11);
    assert_eq!(all.decoded.states, [0, 0, 0, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn huangs_market() {
    // States bull, bear, steady; symbols up, down, unchanged (Huang, Acero and Hon, Spoken Language Processing, 8.2).
    let transitions = [0.6, 0.2, 0.2, 0.5, 0.3, 0.2, 0.4, 0.1, 0.5];
    let model = categorical(&[0.5, 0.2, 0.3], &transitions, 3, &[0.7, 0.1, 0.2, 0.1, 0.6, 0.3, 0.3, 0.3, 0.4]);
    close(&alpha(&model, &[0, 0]), &[0.35, 0.02, 0.09, 0.1792, 0.0085, 0.0357], 1e-14);
}
