//! Plots: alpha vectors over the belief simplex of two states, bounds over time, and beliefs step by step.

use super::alpha::AlphaVectors;
use super::model::Pomdp;
use super::simulate::Step;
use super::solution::Round;
use plotters::prelude::DrawingBackend;
use warpkov_common::names::name;
use warpkov_common::plot::canvas::{Anchor, Canvas, GREY, INK, PALE, Rect};
use warpkov_common::plot::lines::{COLOURS, Line, Lines};
use warpkov_common::plot::{Format, Picture, PlotError, encode};

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

/// Largest number of steps that [`draw_episode`] shows.
pub const FRAMES: usize = 150;

/// Draws an episode, one row per step from the top: the belief before the step as bars over the states, the true state below them, and at the left
/// the action and what is observed then. Of more than [`FRAMES`] steps, the first are drawn.
///
/// # Errors
/// The errors of [`warpkov_mdp::plot::draw`].
pub fn draw_episode(title: &str, model: &Pomdp, steps: &[Step], format: Format) -> Result<Vec<u8>, PlotError> {
    encode(&Frames { title, model, steps: &steps[..steps.len().min(FRAMES)] }, format)
}

/// Beliefs, one row per step.
struct Frames<'a> {
    title: &'a str,
    model: &'a Pomdp,
    steps: &'a [Step],
}

/// The rows of all beliefs.
const ROWS: Rect = Rect { x: 360, y: 110, width: 1200, height: 740 };

/// Largest number of states whose names are written.
const NAMED: u32 = 60;

impl Picture for Frames<'_> {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        let Self { title, model, steps } = self;
        canvas.text((40, 50), 28, INK, Anchor::Start, title)?;
        let (states, names) = (model.states(), model.names());
        // States share a bar if there are more than units.
        let bars = states.min(ROWS.width as u32);
        let bar = |state: u32| (u64::from(state) * u64::from(bars) / u64::from(states)) as usize;
        let edge = |bar: usize| ROWS.x + (bar as u64 * ROWS.width as u64 / u64::from(bars)) as i32;
        let gap = i32::from(ROWS.width as u32 / bars >= 4);
        let place = |bar: usize, top: i32, height: i32| Rect {
            x: edge(bar),
            y: top,
            width: edge(bar + 1) - edge(bar) - gap,
            height,
        };
        // At least ten rows, so that few are not too high.
        let height = ROWS.height / (steps.len() as i32).max(10);
        let mark = (height / 8).clamp(1, 5);
        for (step, row) in steps.iter().zip(0..) {
            let (top, base) = (ROWS.y + row * height, ROWS.y + (row + 1) * height - mark - 1);
            canvas.line(&[(ROWS.x, base), (ROWS.right(), base)], PALE, 1)?;
            let mut sums = vec![0.0; bars as usize];
            step.belief.iter().for_each(|(state, prob)| sums[bar(state)] += prob);
            for (bar, sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
                let high = ((f64::from(base - top - 1) * sum).round() as i32).max(1);
                canvas.fill(place(bar, base - high, high), COLOURS[0])?;
            }
            canvas.fill(place(bar(step.state), base + 1, mark), COLOURS[1])?;
            if height >= 14 {
                let (action, seen) = (name(&names.actions, step.action), name(&names.observations, step.observation));
                let (middle, size) = ((top + base) / 2, (height * 2 / 3).min(17));
                canvas.text((40, middle), size, GREY, Anchor::Start, &row.to_string())?;
                canvas.text((80, middle), size, INK, Anchor::Start, &format!("{action}: {seen}"))?;
            }
        }
        let bottom = ROWS.y + steps.len() as i32 * height;
        canvas.text((80, 96), 17, GREY, Anchor::Start, "action: what is observed then")?;
        for (text, y, colour) in [("belief before each step", 74, COLOURS[0]), ("true state", 96, COLOURS[1])] {
            canvas.text((ROWS.right(), y), 17, colour, Anchor::End, text)?;
        }
        if states <= NAMED {
            let size = (ROWS.width / states as i32 - 2).clamp(8, 16);
            let texts: Vec<String> = (0..states).map(|state| name(&names.states, state)).collect();
            let widths: Result<Vec<i32>, _> = texts.iter().map(|text| canvas.width(size, text)).collect();
            let fit = widths?.iter().all(|&width| width + 4 < ROWS.width / states as i32);
            for (text, state) in texts.iter().zip(0..) {
                let place = place(bar(state), bottom, 0);
                let middle = place.x + place.width / 2;
                match fit {
                    true => canvas.text((middle, bottom + 20), size, GREY, Anchor::Middle, text)?,
                    false => canvas.upright((middle, bottom + 8), size, GREY, Anchor::End, text)?,
                }
            }
        } else {
            canvas.text((ROWS.x, bottom + 20), 17, GREY, Anchor::Start, &name(&names.states, 0))?;
            canvas.text((ROWS.right(), bottom + 20), 17, GREY, Anchor::End, &name(&names.states, states - 1))?;
        }
        Ok(())
    }
}
