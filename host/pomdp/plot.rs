//! Plots: alpha vectors over the belief simplex of two states, and bounds over time.

use super::alpha::AlphaVectors;
use super::model::Pomdp;
use super::solution::Round;
use warpkov_common::names::name;
use warpkov_common::plot::lines::{COLOURS, Line, Lines};
use warpkov_common::plot::{Format, PlotError, encode};

/// Sample points of the upper envelope; enough for a smooth line.
const SAMPLES: u32 = 1000;

/// Draws every vector as a line over b(s₁) in the colour of its action, and V, their upper envelope, as a thick line.
///
/// # Errors
/// [`PlotError::Draw`] unless the model has two states; otherwise the errors of [`warpkov_mdp::plot::draw`].
pub fn draw_vectors(model: &Pomdp, policy: &AlphaVectors, format: Format) -> Result<Vec<u8>, PlotError> {
    if model.states() != 2 {
        let message = format!("the model has {} states, and a plot of alpha vectors needs exactly 2", model.states());
        return Err(PlotError::Draw(message));
    }
    let colour = |action: u32| COLOURS[action as usize % COLOURS.len()];
    let mut lines: Vec<Line> = (0..policy.len())
        .map(|i| {
            let alpha = policy.vector(i);
            Line { points: vec![(0.0, alpha[0]), (1.0, alpha[1])], colour: colour(policy.actions()[i]), width: 1 }
        })
        .collect();
    // The envelope, in the colour of its best vector's action.
    let surface = |b: f64| {
        let values = (0..policy.len()).map(|i| (i, (1.0 - b) * policy.vector(i)[0] + b * policy.vector(i)[1]));
        values.fold((0, f64::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best })
    };
    let mut before = (0.0, surface(0.0));
    for sample in 1..=SAMPLES {
        let b = f64::from(sample) / f64::from(SAMPLES);
        let next = surface(b);
        let colour = policy.actions().get(before.1.0).map_or(COLOURS[0], |action| colour(*action));
        lines.push(Line { points: vec![(before.0, before.1.1), (b, next.1)], colour, width: 4 });
        before = (b, next);
    }
    let legend = (0..model.actions()).map(|a| (name(&model.names().actions, a), colour(a))).collect();
    let abscissa = format!("b({})", name(&model.names().states, 1));
    let title = format!("V(b), the upper envelope of {} vectors, γ = {}", policy.len(), model.gamma());
    encode(&Lines { title, abscissa: &abscissa, lines, legend }, format)
}

/// Draws both bounds as step functions of time.
///
/// # Errors
/// The errors of [`warpkov_mdp::plot::draw`].
pub fn draw_bounds(title: &str, rounds: &[Round], format: Format) -> Result<Vec<u8>, PlotError> {
    let steps = |of: fn(&Round) -> f64| {
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(2 * rounds.len());
        for round in rounds {
            if let Some(&(_, last)) = points.last() {
                points.push((round.seconds, last));
            }
            points.push((round.seconds, of(round)));
        }
        points
    };
    let lines = vec![
        Line { points: steps(|round| round.upper), colour: COLOURS[1], width: 3 },
        Line { points: steps(|round| round.lower), colour: COLOURS[0], width: 3 },
    ];
    let legend = vec![("upper bound".to_owned(), COLOURS[1]), ("lower bound".to_owned(), COLOURS[0])];
    encode(&Lines { title: title.to_owned(), abscissa: "seconds", lines, legend }, format)
}
