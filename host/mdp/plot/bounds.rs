//! Plot of a solve under a criterion other than the discounted one: values, or the bias if the gain is the same for all
//! states, and the convergence of the bounds.

use plotters::prelude::DrawingBackend;

use super::{Field, count, lay_out, model_in_words};
use crate::certificate::rounded_up;
use crate::criterion::{Criterion, Report};
use warpkov_common::plot::canvas::{Anchor, Canvas, GREY, INK};
use warpkov_common::plot::chart::{Chart, Scale};
use warpkov_common::plot::{Picture, PlotError};

/// Maximum number of goals to mark; beyond, the values show them.
const MOST_GOALS: usize = 64;

impl Picture for Report<'_> {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        title(canvas, self)?;
        let bounded = &self.solved.bounded;
        let (symbol, name, values) = match (self.criterion, &bounded.bias) {
            (Criterion::Average, Some(bias)) => ("h", "Bias", bias),
            (Criterion::Average, None) => ("g", "Gains", &self.values),
            (Criterion::Reach { .. }, _) => ("P", "Probabilities", &self.values),
            _ => ("V", "Values", &self.values),
        };
        let goals = match self.criterion {
            Criterion::Reach { goal } | Criterion::TotalReward { goal: Some(goal) } => goal.clone(),
            _ => self.mdp.grid().iter().map(|grid| grid.goal as u32).collect(),
        };
        let field = Field {
            grid: self.mdp.grid(),
            mdp: Some(self.mdp),
            symbol,
            name,
            values,
            policy: &bounded.policy,
            bound: Some(bounded.error()).filter(|error| error.is_finite()),
            goals: if goals.len() > MOST_GOALS { Vec::new() } else { goals },
        };
        lay_out(canvas, &field, |_| convergence(self).into_iter().collect())
    }
}

fn title<B: DrawingBackend>(canvas: &Canvas<B>, report: &Report) -> Result<(), PlotError> {
    let bounded = &report.solved.bounded;
    let what = match report.criterion {
        Criterion::Reach { .. } => "probability of reaching the goal".to_owned(),
        Criterion::TotalReward { goal: Some(_) } => "total reward until the goal".to_owned(),
        Criterion::TotalReward { goal: None } => "total reward".to_owned(),
        Criterion::Average => match &bounded.bias {
            Some(_) => format!("average reward {:.6}", report.values[0]),
            None => "average reward".to_owned(),
        },
        Criterion::Horizon(steps) => {
            format!("reward of {}, γ = {}", count(u64::from(*steps), "step", "steps"), report.mdp.gamma())
        }
    };
    let outcome = if report.converged() { "solved" } else { "not converged" };
    let mdp = report.mdp;
    let model = model_in_words(mdp.grid(), mdp.states().into(), mdp.choices().max());
    canvas.text((40, 46), 32, INK, Anchor::Start, &format!("{model}, {what}: {outcome}"))?;
    let (error, seconds) = (bounded.error(), report.elapsed.as_secs_f64());
    let bound = match error.is_finite() {
        true => format!("|V − V*| ≤ {}, by bounds from both sides", rounded_up(error)),
        false => "some values are bounded from one side only".to_owned(),
    };
    let sweeps = count(bounded.sweeps(), "sweep", "sweeps");
    let details = format!("{bound}   ·   {sweeps} in {seconds:.3} s   ·   {}", report.solved.device);
    canvas.text((40, 80), 20, GREY, Anchor::Start, &details)
}

/// The half-width of the bounds per sweep. For a finite horizon, which has bounds only at the end, the residual of the
/// sweeps; under other criteria the residual implies no bound.
fn convergence<'r>(report: &Report<'r>) -> Option<Chart<'r>> {
    let bounded = &report.solved.bounded;
    let chart = |title, points, level| Chart { title, abscissa: Some("sweeps"), points, scale: Scale::Log, level };
    if matches!(report.criterion, Criterion::Horizon(_)) {
        let changes = bounded.rounds.iter().scan(0.0, |sweeps, round| {
            *sweeps += f64::from(round.sweeps);
            Some((*sweeps, round.residual))
        });
        return Some(chart("Largest change of the last sweep, ‖ΔV‖∞", changes.collect(), None));
    }
    let known = bounded.looks.iter().filter(|look| look.error.is_finite());
    let points: Vec<_> = known.map(|look| (look.sweeps as f64, look.error)).collect();
    let level = (!report.options.relative).then_some((report.options.epsilon, "ε"));
    // Without points, the graph analysis alone solved the model.
    (!points.is_empty()).then(|| chart("Half of the widest interval between bounds", points, level))
}
