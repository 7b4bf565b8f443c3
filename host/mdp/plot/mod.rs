//! Plots of a solve under any criterion: a heat map of V or of the bias with policy arrows, and convergence charts.
//!
//! A model without grid geometry gets a sorted profile of its values instead of the heat map.

use std::borrow::Cow;

use plotters::prelude::DrawingBackend;

use super::criterion;
use super::model::{Grid, Mdp};
use super::options::Target;
use super::report::Report;
use crate::ask::sensitivity::Sensitivity;
use warpkov_common::plot::canvas::{Anchor, Canvas, GREY, INK, Rect};
use warpkov_common::plot::chart::{Chart, Scale};
use warpkov_common::plot::{Format, Picture, PlotError, encode};
use warpkov_runtime::comm::Column;

mod bounds;
mod heat;
mod sensitivity;

/// Aspect ratio (columns to rows) above which charts are below the map instead of beside it.
const WIDE: f64 = 1.6;

/// Aspect ratio above which a grid is drawn like a model without geometry.
const SLENDER: u64 = 30;

/// States of a model divided among ranks beyond which neither values nor policy are drawn: one rank would hold all.
pub const MOST_DRAWN: u64 = 1 << 24;

/// Draws a discounted solve. Of a model divided among ranks it draws no arrows, which need the transitions, and no values
/// if there are more than [`MOST_DRAWN`] states.
///
/// # Errors
/// If text cannot be laid out or the picture cannot be encoded.
pub fn draw(report: &Report, format: Format) -> Result<Vec<u8>, PlotError> {
    encode(report, format)
}

/// Draws a solve under a criterion other than the discounted one.
///
/// # Errors
/// As [`draw`].
pub fn draw_bounds(report: &criterion::Report, format: Format) -> Result<Vec<u8>, PlotError> {
    encode(report, format)
}

/// Draws the value of a start state over γ.
///
/// # Errors
/// As [`draw`].
pub fn draw_sensitivity(sensitivity: &Sensitivity, format: Format) -> Result<Vec<u8>, PlotError> {
    encode(&sensitivity::lines(sensitivity), format)
}

impl Picture for Report<'_> {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        title(canvas, self)?;
        let grid = self.model.grid;
        let goals = grid.iter().map(|grid| grid.goal as u32).collect();
        // The values of other ranks are gathered here.
        let drawn = matches!(self.values, Column::Here(_)) || self.values.len() <= MOST_DRAWN;
        let (values, policy) = match drawn {
            true => (self.values.whole(), self.policy.whole()),
            false => (Cow::default(), Cow::default()),
        };
        let (values, policy, bound) = (&values[..], &policy[..], self.solution.certificate.bound);
        let grid = grid.filter(|_| drawn);
        let mdp = self.model.mdp;
        let field = Field { grid, mdp, symbol: "V", name: "Values", values, policy, bound, goals };
        lay_out(canvas, &field, |abreast| convergence(self, abreast))
    }
}

/// Values and policy of the states, with labels.
struct Field<'a> {
    /// Geometry, if the states are the cells of a grid.
    grid: Option<&'a Grid>,
    /// The model, for the arrows of the policy.
    mdp: Option<&'a Mdp>,
    /// Symbol of the values, and their name.
    symbol: &'a str,
    name: &'a str,
    values: &'a [f64],
    policy: &'a [u32],
    /// Error bound of the values; smaller magnitudes are not significant.
    bound: Option<f64>,
    /// States to mark as goals.
    goals: Vec<u32>,
}

/// Draws the field as a heat map or a profile, with charts beside or below it. `charts` receives whether they stand
/// side by side.
fn lay_out<'c, B: DrawingBackend>(
    canvas: &Canvas<B>,
    field: &Field,
    charts: impl Fn(bool) -> Vec<Chart<'c>>,
) -> Result<(), PlotError> {
    match field.grid.filter(|grid| is_visible(grid)) {
        Some(grid) if f64::from(grid.width) > WIDE * f64::from(grid.height) => {
            heat::draw(canvas, Rect { x: 40, y: 126, width: 1520, height: 480 }, field, grid)?;
            draw_charts(canvas, Rect { x: 90, y: 660, width: 1440, height: 270 }, &charts(true), true)
        }
        Some(grid) => {
            let edge = heat::draw(canvas, Rect { x: 40, y: 126, width: 1020, height: 794 }, field, grid)?;
            // Charts use the remaining width, but keep clear of the legend below a narrow map.
            let x = edge.max(720) + 90;
            draw_charts(canvas, Rect { x, y: 116, width: 1555 - x, height: 804 }, &charts(false), false)
        }
        None => {
            profile(canvas, Rect { x: 110, y: 116, width: 850, height: 804 }, field)?;
            draw_charts(canvas, Rect { x: 1080, y: 116, width: 475, height: 804 }, &charts(false), false)
        }
    }
}

/// Whether both sides of the map are long enough to be visible.
fn is_visible(grid: &Grid) -> bool {
    u64::from(grid.width.max(grid.height)) <= SLENDER * u64::from(grid.width.min(grid.height))
}

fn title<B: DrawingBackend>(canvas: &Canvas<B>, report: &Report) -> Result<(), PlotError> {
    let Report { ref model, solution, limits, .. } = *report;
    let gamma = model.gamma;
    let model = model_in_words(model.grid, solution.size.states, solution.size.actions);
    let outcome = if solution.converged(limits) { "solved" } else { "not converged" };
    canvas.text((40, 46), 32, INK, Anchor::Start, &format!("{model}, γ = {gamma}: {outcome}"))?;
    let bound = match solution.certificate.bound_text() {
        Some(bound) => format!("|V − V*| ≤ {bound}"),
        None => format!("Bellman residual {:.1e}", solution.certificate.bellman_residual),
    };
    let seconds = solution.run.elapsed.as_secs_f64();
    let mut sweeps = count(solution.run.sweeps(), "sweep", "sweeps");
    if solution.method.has_policies() {
        sweeps = format!("{}, {sweeps}", count(solution.run.rounds.len() as u64, "policy", "policies"));
    }
    let how = format!("{}, {}, {}", solution.device, solution.method, solution.precision);
    let details = format!("{bound}   ·   {sweeps} in {seconds:.3} s   ·   {how}");
    canvas.text((40, 80), 20, GREY, Anchor::Start, &details)
}

fn model_in_words(grid: Option<&Grid>, states: u64, actions: u32) -> String {
    match grid {
        Some(grid) => format!("Grid world, {} × {} cells", grid.width, grid.height),
        None => format!("{states} states, {actions} actions"),
    }
}

fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Draws the values in ascending order.
fn profile<B: DrawingBackend>(canvas: &Canvas<B>, place: Rect, field: &Field) -> Result<(), PlotError> {
    let mut values: Vec<f64> = field.values.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    // More points than pixels only increase the file size.
    let points = (last + 1).min(1000);
    let index = |point: usize| if points > 1 { point * last / (points - 1) } else { 0 };
    let points = (0..points).map(|point| (index(point) as f64, values[index(point)])).collect();
    let chart = Chart {
        title: &format!("{}, sorted", field.name),
        abscissa: Some("states with a smaller value"),
        points,
        scale: Scale::Linear,
        level: None,
    };
    chart.draw(canvas, place)
}

/// Charts of changed states, sweeps and residual per round.
fn convergence<'r>(report: &Report<'r>, abreast: bool) -> Vec<Chart<'r>> {
    let rounds = &report.solution.run.rounds;
    let points = |y: fn(&super::solution::Round) -> f64| -> Vec<(f64, f64)> {
        rounds.iter().map(|round| (f64::from(round.round), y(round))).collect()
    };
    let mut charts = vec![
        Chart {
            title: "Sweeps",
            abscissa: abreast.then_some("round"),
            points: points(|round| f64::from(round.sweeps)),
            scale: Scale::Count,
            level: None,
        },
        Chart {
            title: "Largest change of the last sweep, ‖ΔV‖∞",
            abscissa: Some("round"),
            points: points(|round| round.residual),
            scale: Scale::Log,
            level: match report.limits.target {
                Target::Theta(theta) => Some((theta, "θ")),
                Target::Epsilon(_) => None,
            },
        },
    ];
    // Only policy iteration changes a policy per round.
    if report.solution.method.has_policies() {
        let changed = Chart {
            title: "States whose action changed",
            abscissa: abreast.then_some("round"),
            points: points(|round| round.changed.unwrap_or_default() as f64),
            scale: Scale::Log,
            level: None,
        };
        charts.insert(0, changed);
    }
    charts
}

/// Draws charts side by side or stacked.
fn draw_charts<B: DrawingBackend>(
    canvas: &Canvas<B>,
    place: Rect,
    charts: &[Chart],
    abreast: bool,
) -> Result<(), PlotError> {
    let count = charts.len() as i32;
    for (chart, index) in charts.iter().zip(0..) {
        let place = if abreast {
            let width = (place.width - (count - 1) * 100) / count;
            Rect { x: place.x + index * (width + 100), width, ..place }
        } else {
            let height = (place.height - (count - 1) * 24) / count;
            Rect { y: place.y + index * (height + 24), height, ..place }
        };
        chart.draw(canvas, place)?;
    }
    Ok(())
}
