//! A line chart with a linear or logarithmic y-axis.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use super::PlotError;
use super::canvas::{Anchor, Canvas, GREY, INK, PALE, Point, Rect};

const CURVE: RGBColor = RGBColor(38, 96, 164);
const LEVEL: RGBColor = RGBColor(200, 80, 40);

/// Curves of at most this many points have a marker at each point.
const MARKED: usize = 40;

/// The scale of the y-axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Linear, from the smallest to the largest value.
    Linear,
    /// Linear, from 0, with integer ticks.
    Count,
    /// Logarithmic; the value 0 is drawn on the lower edge.
    Log,
}

/// A chart of one curve.
pub struct Chart<'a> {
    /// Label of the y-axis, drawn above the chart.
    pub title: &'a str,
    /// Label of the x-axis; `None` if the chart below shows it.
    pub abscissa: Option<&'a str>,
    /// Points (x, y), by ascending x.
    pub points: Vec<(f64, f64)>,
    /// Scale of the y-axis.
    pub scale: Scale,
    /// A horizontal reference line and its label.
    pub level: Option<(f64, &'a str)>,
}

impl Chart<'_> {
    /// Draws the chart. The tick labels of the y-axis are left of `place`.
    pub fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>, place: Rect) -> Result<(), PlotError> {
        canvas.text((place.x, place.y + 8), 19, INK, Anchor::Start, self.title)?;
        let below = if self.abscissa.is_some() { 52 } else { 26 };
        let frame = Rect { y: place.y + 30, height: place.height - 30 - below, ..place };
        let (x_axis, y_axis) = (self.abscissas(), self.ordinates());
        let x = |value: f64| frame.x + (x_axis.part(value) * f64::from(frame.width)).round() as i32;
        let y = |value: f64| frame.bottom() - (y_axis.part(value) * f64::from(frame.height)).round() as i32;
        for (value, label) in &y_axis.ticks {
            canvas.line(&[(frame.x, y(*value)), (frame.right(), y(*value))], PALE, 1)?;
            canvas.label((frame.x - 10, y(*value)), 16, GREY, Anchor::End, label)?;
        }
        for (value, label) in &x_axis.ticks {
            canvas.line(&[(x(*value), frame.bottom()), (x(*value), frame.bottom() + 5)], GREY, 1)?;
            canvas.text((x(*value), frame.bottom() + 17), 16, GREY, Anchor::Middle, label)?;
        }
        canvas.line(&[(frame.x, frame.y), (frame.x, frame.bottom()), (frame.right(), frame.bottom())], GREY, 1)?;
        if let Some(name) = self.abscissa {
            canvas.text((frame.x + frame.width / 2, frame.bottom() + 42), 17, INK, Anchor::Middle, name)?;
        }
        if let Some((value, name)) = self.level {
            canvas.line(&[(frame.x, y(value)), (frame.right(), y(value))], LEVEL, 1)?;
            canvas.text((frame.right() + 8, y(value)), 17, LEVEL, Anchor::Start, name)?;
        }
        let curve: Vec<Point> = self.points.iter().map(|point| (x(point.0), y(point.1))).collect();
        // Segment by segment: plotters' joins at sharp angles have spikes far beyond the frame.
        for segment in curve.windows(2) {
            canvas.line(segment, CURVE, 2)?;
        }
        if curve.len() <= MARKED {
            for (x, y) in curve {
                canvas.fill(Rect { x: x - 3, y: y - 3, width: 6, height: 6 }, CURVE)?;
            }
        }
        Ok(())
    }

    fn abscissas(&self) -> Axis {
        let first = self.points.first().map_or(0.0, |point| point.0);
        let last = self.points.last().map_or(1.0, |point| point.0);
        let (first, last) = if first < last { (first, last) } else { (first - 1.0, last + 1.0) };
        Axis::linear(first, last, 6, true)
    }

    fn ordinates(&self) -> Axis {
        let values =
            || self.points.iter().map(|point| point.1).filter(|y| y.is_finite()).chain(self.level.map(|l| l.0));
        match self.scale {
            Scale::Linear => {
                let least = values().fold(f64::INFINITY, f64::min);
                let most = values().fold(f64::NEG_INFINITY, f64::max);
                let (least, most) = if least < most { (least, most) } else { (most - 1.0, most + 1.0) };
                Axis::linear(least, most, 8, false)
            }
            Scale::Count => Axis::linear(0.0, values().fold(1.0, f64::max), 4, true),
            Scale::Log => {
                let positive = || values().filter(|y| *y > 0.0);
                let least = positive().fold(f64::INFINITY, f64::min);
                let most = positive().fold(f64::NEG_INFINITY, f64::max);
                let zero = values().any(|y| y == 0.0);
                if least <= most { Axis::log(least, most, zero) } else { Axis::linear(0.0, 1.0, 1, true) }
            }
        }
    }
}

/// An axis with ticks and tick labels.
pub struct Axis {
    log: bool,
    low: f64,
    high: f64,
    /// Values and labels of the ticks, ascending.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis over `least..=most` with about `count` ticks, at integers only if `whole`.
    pub fn linear(least: f64, most: f64, count: u32, whole: bool) -> Self {
        let rough = (most - least) / f64::from(count);
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let step = if whole { step.max(1.0).round() } else { step };
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let first = (least / step).ceil() as i64;
        let last = (most / step).floor() as i64;
        let label = |value: f64| {
            let plain = decimals <= 6 && step < 1e7;
            minus(&if plain { format!("{value:.decimals$}") } else { format!("{value:.1e}") })
        };
        let ticks = (first..=last).map(|k| (k as f64 * step, label(k as f64 * step)));
        Self { log: false, low: least, high: most, ticks: ticks.collect() }
    }

    /// A logarithmic axis over the decades of `least..=most`. If `zero`, the value 0 is below the lowest decade.
    pub fn log(least: f64, most: f64, zero: bool) -> Self {
        // A time that the clock does not resolve is 0.
        let decade = |x: f64| x.clamp(1e-300, 1e300).log10();
        let first = decade(least).floor() as i32;
        let last = (decade(most).ceil() as i32).max(first + 1);
        let step = ((last - first + 3) / 4).max(1) as usize;
        let decades = (first..=last).step_by(step).map(|k| (10f64.powi(k), power_of_ten(k)));
        let low = f64::from(first) - if zero { 0.2 * f64::from(last - first) } else { 0.0 };
        let zero = zero.then(|| (0.0, "0".to_owned()));
        Self { log: true, low, high: f64::from(last), ticks: zero.into_iter().chain(decades).collect() }
    }

    /// The position of `value` on the axis, from 0 to 1; values outside the axis are clamped.
    pub fn part(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// 10ᵏ as a label.
pub fn power_of_ten(k: i32) -> String {
    match k {
        0 => "1".into(),
        1 => "10".into(),
        _ => format!("10^{}", minus(&k.to_string())),
    }
}

/// Replaces the hyphen of a number by a minus sign.
fn minus(number: &str) -> String {
    number.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_have_round_ticks() {
        let labels = |axis: Axis| axis.ticks.into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(labels(Axis::linear(0.0, 1.0, 5, false)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(Axis::linear(-1.0, 1.0, 4, false)), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(Axis::linear(1.0, 3.0, 6, true)), ["1", "2", "3"]);
    }

    #[test]
    fn log_axes_hold_what_has_no_logarithm() {
        for (least, most) in [(0.0, 1.0), (0.0, 0.0), (-1.0, f64::INFINITY), (f64::NAN, f64::NAN)] {
            assert!(Axis::log(least, most, false).ticks.len() > 1, "{least} {most}");
        }
    }

    #[test]
    fn log_axes_put_zero_at_the_lower_end() {
        let axis = Axis::log(3.0, 4000.0, true);
        assert_eq!(axis.part(0.0), 0.0);
        assert!(axis.part(1.0) > 0.1 && (axis.part(10000.0) - 1.0).abs() < 1e-12);
        assert_eq!(power_of_ten(-12), "10^−12");
    }
}
