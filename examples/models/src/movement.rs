//! The movement of an animal: short steps with any turns while it forages, long steps straight on while it travels.

use std::f64::consts::PI;
use std::ops::ControlFlow;

use warpkov::hmm::backends::device::OverPaths;
use warpkov::hmm::channels::{Channel, Channels, Code, Family, Gamma};
use warpkov::hmm::model::{Emissions, Hmm, HmmParts, Invalid, Names};
use warpkov::hmm::options::{Options, Precision};
use warpkov::hmm::run::alone;
use warpkov::hmm::sequences::{Observations, Sequences};
use warpkov::hmm::train::{self, Run};
use warpkov::runtime::choose::DeviceChoice;

use crate::MODULES;
use crate::models::VonMises;

/// Two states whose steps have gamma distributions, and whose turns have von Mises distributions. A state is the mean and the
/// standard deviation of its steps, and μ and κ of its turns.
///
/// # Errors
/// If a number is out of range.
pub fn movement(states: [[f64; 4]; 2], stay: f64) -> Result<Hmm, Invalid> {
    let shape = |[mean, deviation, ..]: [f64; 4]| (mean / deviation).powi(2);
    let shapes = states.map(shape).to_vec();
    let rates = states.map(|state| shape(state) / state[0]).to_vec();
    let steps = Channel { columns: vec![0], family: Family::Gamma(Gamma { shapes, rates }) };
    let parameters = states.iter().flat_map(|&[.., mean, kappa]| VonMises::parameters(mean, kappa));
    let turns = Channel {
        columns: vec![1],
        family: Family::Code(Code::new(VonMises { most: 1000.0 }, &MODULES, parameters.collect())),
    };
    HmmParts {
        start: vec![0.5, 0.5],
        transitions: vec![stay, 1.0 - stay, 1.0 - stay, stay],
        end: None,
        emissions: Emissions::Channels(Channels {
            dimensions: 2,
            names: vec!["step".into(), "turn".into()],
            list: vec![steps, turns],
        }),
        names: Names { states: vec!["forages".into(), "travels".into()], ..Names::default() },
    }
    .validated()
}

/// Trains a model on steps and turns.
///
/// # Errors
/// Those of the device, and an observation that no state emits.
pub fn fit(
    model: &Hmm,
    sequences: &Sequences,
    device: DeviceChoice,
    precision: Precision,
) -> Result<Run, Box<dyn std::error::Error>> {
    sequences.check(model)?;
    let options = Options { tolerance: 1e-9, ..Options::default() };
    alone(model, sequences, device, precision, OverPaths::Sums, |recursions| {
        let models = vec![model.clone()];
        let mut trained = train::train(recursions, models, &options, &mut |_| ControlFlow::Continue(()))?;
        Ok(trained.runs.remove(0))
    })
}

/// Steps and turns between the points of a track, which are pairs of coordinates. The first step has no turn.
///
/// # Errors
/// If the track has less than two points, or coordinates that are no numbers.
pub fn steps_and_turns(track: &[[f64; 2]]) -> Result<Sequences, warpkov::hmm::sequences::Invalid> {
    let mut values = Vec::new();
    let mut before = f64::NAN;
    for pair in track.windows(2) {
        let (x, y) = (pair[1][0] - pair[0][0], pair[1][1] - pair[0][1]);
        let heading = y.atan2(x);
        let turn = (heading - before + 3.0 * PI).rem_euclid(2.0 * PI) - PI;
        values.extend([x.hypot(y), turn]);
        before = heading;
    }
    let steps = track.len().saturating_sub(1) as u64;
    let observations = Observations::Vectors { dimensions: 2, values };
    Sequences::with_missing(vec![0, steps], observations)
}
