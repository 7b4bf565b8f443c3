//! Plots: training curves, posteriors of a sequence, and transition matrices.

use std::ops::Range;

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;
use plotters::style::colors::colormaps::{ColorMap, ViridisRGB};

use super::model::Hmm;
use warpkov_common::names::name;
use warpkov_common::plot::canvas::{Anchor, Canvas, GREY, INK, Rect};
use warpkov_common::plot::chart::Axis;
use warpkov_common::plot::lines::{COLOURS, Line, Lines};
use warpkov_common::plot::{Format, Picture, PlotError, encode};

/// Line height of labels, in canvas units.
const LINE: i32 = 20;

/// Maximum number of characters of a state name.
const NAME: usize = 16;

/// Horizontal gap between labels, in canvas units.
const GAP: i32 = 12;

/// The frame for labels of one line below it.
const FRAME: Rect = Rect { x: 180, y: 130, width: 1180, height: 740 };

/// Draws the objective of every model of a training, called `objective`, against the iterations; its values after 0, 1, 2 … iterations are one
/// of `courses`. The course of the `best` model is drawn last, in front.
///
/// If the lowest tenth of the values would take most of the frame, as after a poor start, the frame excludes it.
///
/// # Errors
/// [`PlotError`], if text cannot be laid out or the picture cannot be encoded.
pub fn draw_training(
    title: &str,
    courses: &[&[f64]],
    best: usize,
    objective: &str,
    format: Format,
) -> Result<Vec<u8>, PlotError> {
    let all = courses.iter().copied().flatten().copied();
    let low = lowest_shown(all.clone().collect());
    let line = |index: usize, colour: RGBColor, width: i32| Line { points: above(courses[index], low), colour, width };
    let others = (0..courses.len()).filter(|&index| index != best);
    let mut lines: Vec<Line> = others.map(|index| line(index, COLOURS[5], 1)).collect();
    lines.push(line(best, COLOURS[0], 3));
    // An invisible point that extends the frame, so that rounding errors do not fill it.
    let shown = all.clone().filter(|log| log.is_finite() && *log >= low);
    let (least, most) = (shown.clone().fold(f64::INFINITY, f64::min), shown.fold(f64::NEG_INFINITY, f64::max));
    let least = least.min(most - 1e-3 * most.abs().max(1.0));
    lines.push(Line { points: vec![(0.0, least)], colour: COLOURS[5], width: 1 });
    let mut legend = vec![(objective.to_owned(), COLOURS[0])];
    if courses.len() > 1 {
        legend.push(("other starts".to_owned(), COLOURS[5]));
    }
    let below = all.filter(|&log| log < low);
    let abscissa = match below.clone().count() {
        0 => "iterations".to_owned(),
        count => {
            let least = below.fold(f64::INFINITY, f64::min);
            let (points, lie) = if count == 1 { ("point", "lies") } else { ("points", "lie") };
            format!("iterations; {count} {points} {lie} below the frame, down to {least:.6e}")
        }
    };
    encode(&Lines { title: title.to_owned(), abscissa: &abscissa, lines, legend }, format)
}

/// The least value in the frame: −∞, or, if the lowest tenth of the values (at least one) takes more than 4/5 of the
/// ordinate, the next value above it.
fn lowest_shown(mut numbers: Vec<f64>) -> f64 {
    numbers.retain(|number| number.is_finite());
    numbers.sort_unstable_by(f64::total_cmp);
    let tenth = (numbers.len() / 10).max(1);
    match (numbers.first(), numbers.get(tenth), numbers.last()) {
        (Some(least), Some(low), Some(most)) if low - least > 4.0 * (most - low) => *low,
        _ => f64::NEG_INFINITY,
    }
}

/// The line through `numbers` at abscissas 0, 1, 2, …, clipped below `low`.
fn above(numbers: &[f64], low: f64) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(numbers.len());
    for (x, &y) in (0..).map(f64::from).zip(numbers) {
        if let Some(&(last, before)) = points.last().filter(|_| low.is_finite()) {
            let crosses: bool = (before < low) != (y < low) && f64::is_finite(before) && y.is_finite();
            if crosses {
                points.push((last + (low - before) / (y - before), low));
            }
        }
        points.push((x, y));
    }
    // NaN leaves a gap.
    points.iter_mut().filter(|point| point.1 < low).for_each(|point| point.1 = f64::NAN);
    points
}

/// Draws γₜ(i) of one sequence, one row per state, from position `first`. `posteriors` is T × N. A pixel that covers
/// several observations shows their mean, the expected fraction of time in the state.
///
/// # Errors
/// [`PlotError`], if text cannot be laid out or the picture cannot be encoded.
pub fn draw_posteriors(
    title: &str,
    model: &Hmm,
    posteriors: &[f64],
    first: u64,
    format: Format,
) -> Result<Vec<u8>, PlotError> {
    encode(&Map { title, model, cells: Cells::Posteriors { posteriors, first } }, format)
}

/// Draws A, one row per origin state. A pixel that covers several entries shows the largest.
///
/// # Errors
/// [`PlotError`], if text cannot be laid out or the picture cannot be encoded.
pub fn draw_transitions(title: &str, model: &Hmm, format: Format) -> Result<Vec<u8>, PlotError> {
    encode(&Map { title, model, cells: Cells::Transitions }, format)
}

/// A heat map of probabilities, one row per state.
struct Map<'a> {
    title: &'a str,
    model: &'a Hmm,
    cells: Cells<'a>,
}

/// Contents of a heat map.
enum Cells<'a> {
    Posteriors { posteriors: &'a [f64], first: u64 },
    Transitions,
}

impl Map<'_> {
    fn columns(&self) -> usize {
        let n = self.model.start().len();
        match self.cells {
            Cells::Posteriors { posteriors, .. } => posteriors.len() / n,
            Cells::Transitions => n,
        }
    }

    /// The values of each column of pixels: `width` rows of N, one per state.
    fn by_pixel(&self, width: usize) -> Vec<f64> {
        let (n, columns) = (self.model.start().len(), self.columns());
        let mut shades = vec![0.0f64; width * n];
        for (x, shades) in shades.chunks_exact_mut(n).enumerate() {
            let covered = covered(x, width, columns);
            match self.cells {
                Cells::Posteriors { posteriors, .. } => {
                    for row in posteriors[covered.start * n..covered.end * n].chunks_exact(n) {
                        shades.iter_mut().zip(row).for_each(|(shade, p)| *shade += p);
                    }
                    shades.iter_mut().for_each(|shade| *shade /= covered.len() as f64);
                }
                Cells::Transitions => {
                    for (from, shade) in shades.iter_mut().enumerate() {
                        *shade = self.model.row(from)[covered.clone()].iter().copied().fold(0.0, f64::max);
                    }
                }
            }
        }
        shades
    }

    /// The value of a pixel that covers several states.
    fn of_states(&self, shades: &[f64]) -> f64 {
        match self.cells {
            Cells::Posteriors { .. } => shades.iter().sum(),
            Cells::Transitions => shades.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl Picture for Map<'_> {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        canvas.text((40, 60), 30, INK, Anchor::Start, self.title)?;
        let (rows, columns) = (self.model.start().len(), self.columns());
        let label =
            |state: usize| -> String { name(&self.model.names().states, state as u32).chars().take(NAME).collect() };
        let labels: Vec<String> = (0..rows).map(label).collect();
        let mut widest = 0;
        for label in &labels {
            widest = widest.max(canvas.width(16, label)?);
        }
        // Names that do not fit side by side are rotated.
        let upright = matches!(self.cells, Cells::Transitions)
            && !self.model.names().states.is_empty()
            && (widest + GAP) * columns as i32 > FRAME.width;
        let below = if upright { widest - 16 } else { 0 };
        let frame = Rect { height: FRAME.height - below.max(0), ..FRAME };

        let (width, height) = ((frame.width * canvas.scale()) as usize, (frame.height * canvas.scale()) as usize);
        let shades = self.by_pixel(width);
        let mut rgb = Vec::with_capacity(3 * width * height);
        for y in 0..height {
            let states = covered(y, height, rows);
            for of_column in shades.chunks_exact(rows) {
                let colour = colour(self.of_states(&of_column[states.clone()]));
                rgb.extend([colour.0, colour.1, colour.2]);
            }
        }
        canvas.image((frame.x, frame.y), (width as u32, height as u32), rgb)?;
        canvas.outline(frame, GREY, 1)?;

        let row = |state: usize| frame.y + ((state as f64 + 0.5) * f64::from(frame.height) / rows as f64) as i32;
        for state in (0..rows).step_by(step(rows, LINE, frame.height)) {
            canvas.text((frame.x - 10, row(state)), 16, GREY, Anchor::End, &labels[state])?;
        }
        let column = |at: f64| frame.x + ((at + 0.5) * f64::from(frame.width) / columns as f64) as i32;
        let (ordinate, abscissa) = match self.cells {
            Cells::Posteriors { first, .. } => {
                let first = first as f64;
                let axis = Axis::linear(first, first + (columns - 1).max(1) as f64, 10, true);
                for (position, label) in axis.ticks.iter().filter(|tick| tick.0 < first + columns as f64) {
                    let x = column(position - first);
                    canvas.line(&[(x, frame.bottom()), (x, frame.bottom() + 5)], GREY, 1)?;
                    canvas.text((x, frame.bottom() + 20), 16, GREY, Anchor::Middle, label)?;
                }
                ("state", "position, from 1")
            }
            Cells::Transitions => {
                let extent = if upright { LINE } else { widest + GAP };
                for state in (0..columns).step_by(step(columns, extent, frame.width)) {
                    let x = column(state as f64);
                    match upright {
                        true => canvas.upright((x, frame.bottom() + 8), 16, GREY, Anchor::End, &labels[state])?,
                        false => canvas.text((x, frame.bottom() + 20), 16, GREY, Anchor::Middle, &labels[state])?,
                    }
                }
                ("from state", "to state")
            }
        };
        canvas.text((frame.x - 10, frame.y - 16), 18, INK, Anchor::End, ordinate)?;
        canvas.text((frame.x + frame.width / 2, FRAME.bottom() + 54), 18, INK, Anchor::Middle, abscissa)?;

        let legend = match self.cells {
            Cells::Posteriors { .. } if columns > FRAME.width as usize => "mean γ",
            Cells::Posteriors { .. } => "γ",
            Cells::Transitions => "A",
        };
        let bar = Rect { x: frame.right() + 40, width: 22, ..frame };
        canvas.text((bar.x + 11, bar.y - 16), 19, INK, Anchor::Middle, legend)?;
        for unit in 0..bar.height {
            let part = 1.0 - f64::from(unit) / f64::from(bar.height - 1);
            canvas.fill(Rect { y: bar.y + unit, height: 1, ..bar }, colour(part))?;
        }
        for (part, label) in [(0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1")] {
            let y = bar.bottom() - (part * f64::from(bar.height)) as i32;
            canvas.text((bar.right() + 10, y), 16, GREY, Anchor::Start, label)?;
        }
        Ok(())
    }
}

/// Step between drawn labels, 1, 2 or 5 times a power of ten, such that `count` labels of `extent` units fit in `room`
/// units.
fn step(count: usize, extent: i32, room: i32) -> usize {
    let least = (extent.max(1) as usize * count).div_ceil(room as usize).max(1);
    let power = 10usize.pow(least.ilog10());
    [1, 2, 5, 10].map(|factor| factor * power).into_iter().find(|step| *step >= least).unwrap_or(least)
}

fn colour(prob: f64) -> RGBColor {
    ViridisRGB.get_color(prob.clamp(0.0, 1.0))
}

/// The cells that pixel `pixel` of `pixels` covers in a row of `cells`; at least one.
fn covered(pixel: usize, pixels: usize, cells: usize) -> Range<usize> {
    let first = pixel * cells / pixels;
    first..((pixel + 1) * cells / pixels).max(first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_start_does_not_take_the_frame() {
        assert_eq!(lowest_shown(vec![-1e6, -100.0, -99.0, f64::NEG_INFINITY]), -100.0);
        assert_eq!(lowest_shown(vec![-500.0, -420.0, -400.0, -395.0]), f64::NEG_INFINITY);
        assert_eq!(lowest_shown(vec![-5.0, -5.0]), f64::NEG_INFINITY);
        assert_eq!(lowest_shown(Vec::new()), f64::NEG_INFINITY);
        let line = above(&[-300.0, -100.0, -90.0], -150.0);
        assert!(line[0].1.is_nan());
        assert_eq!(line[1..], [(0.75, -150.0), (1.0, -100.0), (2.0, -90.0)]);
        assert_eq!(above(&[1.0, 2.0], f64::NEG_INFINITY), [(0.0, 1.0), (1.0, 2.0)]);
    }

    #[test]
    fn labels_stand_at_round_numbers() {
        assert_eq!([(5, 10), (60, 10), (300, 20), (3000, 20)].map(|(n, extent)| step(n, extent, 500)), [1, 2, 20, 200]);
    }

    #[test]
    fn pixels_of_long_sequences_show_the_mean() {
        let mut model = crate::generate::IceCream.generate().unwrap().into_parts();
        model.names.states.clear();
        let model = model.validated().unwrap();
        // Every tenth step is in state 1.
        let posteriors: Vec<f64> = (0..1000).flat_map(|t| if t % 10 == 0 { [0.0, 1.0] } else { [1.0, 0.0] }).collect();
        let map = Map { title: "", model: &model, cells: Cells::Posteriors { posteriors: &posteriors, first: 1 } };
        let shades = map.by_pixel(10);
        assert!(shades.chunks_exact(2).all(|shade| (shade[0] - 0.9).abs() < 1e-12 && (shade[1] - 0.1).abs() < 1e-12));
        // Fewer steps than pixels: no averaging.
        assert_eq!(map.by_pixel(2000)[..6], [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
    }
}
