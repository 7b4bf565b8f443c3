//! A hidden Markov model built by hand: Eisner's ice-cream diary (2002). Evaluates, decodes and trains a model of the
//! weather.

use std::ops::ControlFlow;

use warpkov::hmm::backends::device::Limits;
use warpkov::hmm::model::{Emissions, HmmParts, Names};
use warpkov::hmm::options::{Options, Precision};
use warpkov::hmm::place::{cost, recursions};
use warpkov::hmm::sequences::Sequences;
use warpkov::hmm::train::train;
use warpkov::runtime::choose::{DeviceChoice, Place};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = HmmParts {
        start: vec![0.5, 0.5],
        // P(j|i), rows by state i: hot, cold.
        transitions: vec![0.8, 0.2, 0.1, 0.9],
        end: None,
        // P(o|j) for one, two and three ice creams; rows by state j.
        emissions: Emissions::Categorical { symbols: 3, probs: vec![0.1, 0.2, 0.7, 0.7, 0.2, 0.1] },
        names: Names::default(),
    }
    .validated()?;
    let diary = [1, 2, 2, 1, 2, 1, 2, 1, 1, 2, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 0, 0, 1, 2, 2, 1, 2, 1, 1];
    let sequences = Sequences::of_symbols(&[diary])?;
    // `Auto` chooses the CPU: a GPU needs longer to start than this computation takes.
    let (place, _reason) = Place::open(DeviceChoice::Auto, Some(&cost(&model, &sequences)))?;
    let mut recursions = recursions(&place, &sequences, Precision::F64, Limits::default())?;
    recursions.set_models(std::slice::from_ref(&model))?;
    let log = recursions.log_likelihoods()?[0][0];
    let decoded = &recursions.viterbi()?[0];
    println!("ln P(O) = {log:.6}, ln P(O, best path) = {:.6}", decoded.scores[0]);
    let weather: String = decoded.states.iter().map(|&state| if state == 0 { 'H' } else { 'C' }).collect();
    println!("{weather}");
    let trained = train(&mut *recursions, vec![model], &Options::default(), &mut |_round| ControlFlow::Continue(()))?;
    println!(
        "ln P(O) = {:.6} after {} Baum-Welch iterations",
        trained.best().log_likelihood(),
        trained.best().objectives.len() - 1
    );
    assert!(decoded.scores[0] <= log && log <= trained.best().log_likelihood());
    Ok(())
}
