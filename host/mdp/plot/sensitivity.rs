//! Plot of the value of a start state over γ, coloured by the optimal action there.

use plotters::style::RGBColor;

use crate::ask::sensitivity::Sensitivity;
use warpkov_common::plot::canvas::GREY;
use warpkov_common::plot::lines::{COLOURS, Line, Lines};

/// The value with its certified bounds, and a vertical line at each change of the action.
pub(super) fn lines(sensitivity: &Sensitivity) -> Lines<'static> {
    let Sensitivity { start, points, changes, .. } = sensitivity;
    let mut actions: Vec<&Option<String>> = Vec::new();
    for action in points.iter().map(|point| &point.action).chain(changes.iter().map(|change| &change.before)) {
        if !actions.contains(&action) {
            actions.push(action);
        }
    }
    let colour = |action: &Option<String>| -> RGBColor {
        let number = actions.iter().position(|known| *known == action).unwrap_or_default();
        COLOURS[number % COLOURS.len()]
    };
    let mut lines: Vec<Line> = Vec::new();
    // Bars from the lower to the upper bound.
    for point in points.iter().filter(|point| point.error.0.is_finite()) {
        let (gamma, value, error) = (point.gamma, point.value.0, point.error.0);
        lines.push(Line { points: vec![(gamma, value - error), (gamma, value + error)], colour: GREY, width: 4 });
    }
    // A segment has the action of its right end; at a change, that is the action before.
    let ends = points.iter().map(|point| (point.gamma, point.value.0, &point.action));
    let broken = changes.iter().map(|change| (change.between[1], change.value.0, &change.before));
    let mut corners: Vec<_> = broken.chain(ends).collect();
    corners.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in corners.windows(2) {
        let points = pair.iter().map(|&(gamma, value, _)| (gamma, value)).collect();
        lines.push(Line { points, colour: colour(pair[1].2), width: 3 });
    }
    let values = || points.iter().map(|point| point.value.0).filter(|value| value.is_finite());
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    for change in changes {
        let gamma = f64::midpoint(change.between[0], change.between[1]);
        lines.push(Line { points: vec![(gamma, low), (gamma, high)], colour: GREY, width: 1 });
    }
    let name = |action: &Option<String>| action.as_deref().unwrap_or("no action").to_owned();
    Lines {
        title: format!("V*({start}) over the discount factor, with certified bounds"),
        abscissa: "γ",
        legend: actions.iter().map(|action| (name(action), colour(action))).collect(),
        lines,
    }
}
