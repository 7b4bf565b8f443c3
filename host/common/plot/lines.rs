//! A line plot with a legend.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use super::canvas::{Anchor, Canvas, GREY, INK, PALE, Point, Rect};
use super::chart::Axis;
use super::{Picture, PlotError};

/// Colours of lines, in order of use; they repeat.
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(38, 96, 164),
    RGBColor(206, 110, 20),
    RGBColor(40, 140, 90),
    RGBColor(136, 70, 150),
    RGBColor(176, 60, 60),
    RGBColor(90, 110, 120),
];

const FRAME: Rect = Rect { x: 120, y: 130, width: 1160, height: 740 };

/// A line of a plot.
pub struct Line {
    /// Points (x, y), by ascending x. A value that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
    /// Colour of the line.
    pub colour: RGBColor,
    /// Width of the line, in units.
    pub width: i32,
}

/// A plot of several lines, with axes and a legend at the right.
pub struct Lines<'a> {
    /// Title above the frame.
    pub title: String,
    /// Label of the x-axis.
    pub abscissa: &'a str,
    /// The lines; later lines cover earlier ones.
    pub lines: Vec<Line>,
    /// Names and colours of the legend.
    pub legend: Vec<(String, RGBColor)>,
}

impl Picture for Lines<'_> {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        canvas.text((40, 60), 30, INK, Anchor::Start, &self.title)?;
        let range = |of: fn(&(f64, f64)) -> f64| {
            let values = || self.lines.iter().flat_map(|line| &line.points).map(of).filter(|value| value.is_finite());
            let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
            if least < most { (least, most) } else { (least.min(0.0), most.max(1.0)) }
        };
        let ((left, right), (low, high)) = (range(|point| point.0), range(|point| point.1));
        let margin = 0.03 * (high - low);
        let mut abscissas = self.lines.iter().flat_map(|line| &line.points).map(|point| point.0);
        // Counts, such as iterations, get integer ticks.
        let whole = right - left >= 2.0 && abscissas.all(|x| x.fract() == 0.0);
        let (x_axis, y_axis) =
            (Axis::linear(left, right, 8, whole), Axis::linear(low - margin, high + margin, 8, false));
        let place = |&(x, y): &(f64, f64)| -> Point {
            (
                FRAME.x + (x_axis.part(x) * f64::from(FRAME.width)).round() as i32,
                FRAME.bottom() - (y_axis.part(y) * f64::from(FRAME.height)).round() as i32,
            )
        };
        for (value, label) in &y_axis.ticks {
            let y = place(&(left, *value)).1;
            canvas.line(&[(FRAME.x, y), (FRAME.right(), y)], PALE, 1)?;
            canvas.label((FRAME.x - 10, y), 17, GREY, Anchor::End, label)?;
        }
        for (value, label) in &x_axis.ticks {
            let x = place(&(*value, low)).0;
            canvas.line(&[(x, FRAME.bottom()), (x, FRAME.bottom() + 6)], GREY, 1)?;
            canvas.label((x, FRAME.bottom() + 22), 17, GREY, Anchor::Middle, label)?;
        }
        canvas.outline(FRAME, GREY, 1)?;
        canvas.text((FRAME.x + FRAME.width / 2, FRAME.bottom() + 54), 18, INK, Anchor::Middle, self.abscissa)?;
        for line in &self.lines {
            for pair in line.points.windows(2).filter(|pair| pair.iter().all(|point| point.1.is_finite())) {
                canvas.line(&[place(&pair[0]), place(&pair[1])], line.colour, line.width)?;
            }
        }
        for ((name, colour), row) in self.legend.iter().zip(0..) {
            let (x, y) = (FRAME.right() + 30, FRAME.y + 16 + 34 * row);
            canvas.line(&[(x, y), (x + 34, y)], *colour, 3)?;
            canvas.text((x + 44, y), 18, INK, Anchor::Start, name)?;
        }
        Ok(())
    }
}
