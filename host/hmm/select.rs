//! The choice of the number of states: models of several numbers are trained on the same sequences, and compared by the [Bayesian
//! information criterion](bic), or by the likelihood of sequences that training leaves out.

use serde::Serialize;

use super::generate::{Error, Kind, Uniform};
use super::model::{Covariances, Emissions, Hmm, Names};
use super::options::Options;
use super::sequences::Sequences;
use super::train::{Trained, aic, bic};
use warpkov_common::random::{below, random};

/// A number of states, and what its best trained model reaches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// N.
    pub states: u32,
    /// Number of free [parameters](Options::parameters).
    pub parameters: usize,
    /// ln P(O) of the sequences it was trained on, by their weights.
    pub log_likelihood: f64,
    /// Akaike's information criterion of them.
    pub aic: f64,
    /// The Bayesian information criterion of them.
    pub bic: f64,
    /// ln P(O) of the sequences that were left out, by their own weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<f64>,
    /// M steps.
    pub iterations: usize,
    /// Whether training has converged.
    pub converged: bool,
}

impl Candidate {
    /// The figures of a training on `sequences` without those that are held out; `logs` has ln P(O) of each sequence under its best model.
    #[must_use]
    pub fn new(
        trained: &Trained,
        logs: &[f64],
        options: &Options,
        sequences: &Sequences,
        held: Option<&HeldOut>,
    ) -> Self {
        let run = trained.best();
        let weighted = |weight: &dyn Fn(usize) -> f64| -> f64 {
            let terms = logs.iter().enumerate().map(|(at, log)| (weight(at), log)).filter(|(weight, _)| *weight > 0.0);
            terms.map(|(weight, log)| weight * log).sum()
        };
        let log_likelihood = weighted(&|at| sequences.weight(at));
        let parameters = options.parameters(&run.model);
        Self {
            states: run.model.visits().states(),
            parameters,
            log_likelihood,
            aic: aic(parameters, log_likelihood),
            bic: bic(parameters, sequences, log_likelihood),
            held_out: held.map(|held| weighted(&|at| held.weights[at])),
            iterations: run.log_likelihoods.len().saturating_sub(1),
            converged: run.converged,
        }
    }

    /// What is least for the best candidate.
    fn loss(&self) -> f64 {
        self.held_out.map_or(self.bic, |log| -log)
    }
}

/// Index of the best candidate: the highest likelihood of held-out sequences, or else the lowest BIC. Ties go to the first. 0 if there is none.
#[must_use]
pub fn best(candidates: &[Candidate]) -> usize {
    let losses = candidates.iter().map(Candidate::loss).enumerate();
    losses.fold((0, f64::INFINITY), |best, (at, loss)| if loss < best.1 { (at, loss) } else { best }).0
}

/// Sequences that training leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// The weights of the sequences that are left out, 0 for the others, M numbers.
    pub weights: Vec<f64>,
}

impl HeldOut {
    /// Draws a part of the sequences, at least one and not all, and returns them beside all sequences, in which they weigh 0.
    ///
    /// # Errors
    /// If there are fewer than two sequences of positive weight.
    pub fn draw(sequences: Sequences, fraction: f64, seed: u64) -> Result<(Sequences, Self), String> {
        let mut order: Vec<usize> = (0..sequences.len()).filter(|&at| sequences.weight(at) > 0.0).collect();
        let count = order.len();
        if count < 2 {
            return Err(format!("found {count} sequences, expected at least 2, of which some are held out"));
        }
        let random = &mut random(seed, 0);
        (1..count).rev().for_each(|at| order.swap(at, below(random, at as u64 + 1) as usize));
        let held = ((fraction * count as f64).round() as usize).clamp(1, count - 1);
        let mut weights = vec![0.0; sequences.len()];
        let mut left: Vec<f64> = (0..sequences.len()).map(|at| sequences.weight(at)).collect();
        order[..held].iter().for_each(|&at| std::mem::swap(&mut weights[at], &mut left[at]));
        Ok((sequences.with_weights(left).map_err(|error| error.to_string())?, Self { weights }))
    }
}

/// A model of N states with all transitions, which emits what `model` emits, and has end probabilities if it has. Its states have the
/// channels and the durations of those of `model`, in turn; a single state without an end has no duration.
///
/// # Errors
/// If N is out of range, or the states of all durations are too many.
pub fn shape(model: &Hmm, states: u32) -> Result<Hmm, Error> {
    let visits = model.visits();
    let kind = match visits.emissions() {
        Emissions::Categorical { symbols, .. } => Kind::Symbols(*symbols),
        Emissions::Gaussian { dimensions, covariances, .. } => {
            Kind::Vectors { dimensions: *dimensions, full: matches!(covariances, Covariances::Full(_)) }
        }
        Emissions::Channels(_) => Kind::Symbols(1),
    };
    let mut drawn = Uniform { states, kind, ends: visits.end().is_some(), seed: 0 }.generate()?.into_parts();
    let own: Vec<u32> = (0..states).map(|state| state % visits.states()).collect();
    if let Emissions::Channels(_) = visits.emissions() {
        drawn.emissions = visits.emissions().of_states(visits.start().len(), &own);
    }
    drawn.names = Names { symbols: visits.names().symbols.clone(), ..Names::default() };
    match model.segments() {
        Some(segments) if states > 1 || drawn.end.is_some() => {
            let durations: Vec<_> = own.iter().map(|&state| segments.durations()[state as usize].clone()).collect();
            let n = states as usize;
            for (state, _) in durations.iter().enumerate().filter(|(_, duration)| duration.is_some()) {
                let row = &mut drawn.transitions[state * n..][..n];
                row[state] = 0.0;
                let end = drawn.end.as_ref().map_or(0.0, |end| end[state]);
                let left = (1.0 - end) / row.iter().sum::<f64>();
                if left.is_finite() {
                    row.iter_mut().for_each(|prob| *prob *= left);
                } else if let Some(end) = &mut drawn.end {
                    // The only state.
                    end[state] = 1.0;
                }
            }
            Ok(drawn.with_durations(durations)?)
        }
        _ => Ok(drawn.validated()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::IceCream;

    #[test]
    fn held_out_sequences_weigh_nothing_and_the_others_as_before() {
        let all = Sequences::of_symbols(&[[0], [1], [2], [0], [1], [2]]).unwrap();
        let weights = [1.0, 2.0, 0.0, 4.0, 5.0, 6.0];
        let weighted = all.clone().with_weights(weights.to_vec()).unwrap();
        for (fraction, count) in [(1e-9, 1), (0.4, 2), (0.5, 3), (0.999, 4)] {
            let (left, held) = HeldOut::draw(weighted.clone(), fraction, 3).unwrap();
            assert_eq!(held.weights.iter().filter(|weight| **weight > 0.0).count(), count);
            let sums = (0..6).map(|at| left.weight(at) + held.weights[at]);
            assert!(sums.eq(weights) && (0..6).all(|at| left.weight(at) * held.weights[at] == 0.0));
        }
        let drawn = |seed| HeldOut::draw(all.clone(), 0.5, seed).unwrap().1;
        assert_eq!(drawn(1), drawn(1));
        assert!((0..9).any(|seed| drawn(seed) != drawn(1)));
        let message = HeldOut::draw(Sequences::of_symbols(&[[0]]).unwrap(), 0.5, 1).unwrap_err();
        assert_eq!(message, "found 1 sequences, expected at least 2, of which some are held out");
    }

    #[test]
    fn shapes_emit_what_the_model_emits() {
        let model = IceCream.generate().unwrap();
        let found = shape(&model, 5).unwrap();
        assert_eq!((found.states(), &found.names().symbols), (5, &model.names().symbols));
        assert!(found.end().is_some() && found.names().states.is_empty());
        assert!(shape(&model, 0).is_err());
        let read = |text: &str| crate::io::read_from(text.as_bytes(), "m", None).unwrap();
        let channels = read(
            r#"{"pi": [0.5, 0.5], "A": [[1, 0], [0, 1]],
                "channels": [{"family": "poisson", "columns": [0], "rates": [1, 2]}]}"#,
        );
        let Emissions::Channels(found) = shape(&channels, 3).unwrap().into_parts().emissions else {
            panic!("channels")
        };
        assert_eq!(found.numbers(3), [[1.0, 2.0, 1.0]]);
        // A state that lasts 2 steps, and one of any number.
        for ends in ["", r#""end": [0.5, 0.5],"#] {
            let moves = if ends.is_empty() { "[[0, 1], [1, 0]]" } else { "[[0, 0.5], [0.5, 0]]" };
            let text = format!(
                r#"{{"pi": [0.5, 0.5], "A": {moves}, {ends} "B": [[0.5, 0.5], [0.1, 0.9]],
                    "durations": [{{"categorical": [0, 1]}}, {{"poisson": {{"rate": 3, "max": 9}}}}]}}"#
            );
            let model = read(&text);
            for states in [1, 2, 3, 4] {
                let found = shape(&model, states).unwrap();
                assert_eq!(found.visits().states(), states);
                assert_eq!(found.end().is_some(), model.end().is_some());
                let lasting = found.segments().map_or(0, |segments| segments.durations().iter().flatten().count());
                assert_eq!(lasting as u32, if states == 1 && ends.is_empty() { 0 } else { states });
            }
        }
    }
}
