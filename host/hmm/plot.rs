//! Pictures: how training went, which states a sequence was in, and where states lead.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;
use plotters::style::colors::colormaps::{ColorMap, ViridisRGB};

use super::model::{Hmm, name};
use super::train::Trained;
use crate::mdp::plot::canvas::{Anchor, Canvas, GREY, INK, Rect};
use crate::mdp::plot::lines::{COLOURS, Line, Lines};
use crate::mdp::plot::{Format, Picture, PlotError, encode};

/// Rows with at least so many units have names at their left.
const NAMED: i32 = 14;

const FRAME: Rect = Rect { x: 180, y: 130, width: 1180, height: 740 };

/// Draws the log-likelihood of every model against the iterations, that of the best one on top.
///
/// # Errors
/// As [`crate::mdp::plot::draw`].
pub fn draw_training(title: &str, trained: &Trained, format: Format) -> Result<Vec<u8>, PlotError> {
    let line = |index: usize, colour: RGBColor, width: i32| {
        let points = (0..).map(f64::from).zip(trained.runs[index].log_likelihoods.iter().copied()).collect();
        Line { points, colour, width }
    };
    let others = (0..trained.runs.len()).filter(|&index| index != trained.best);
    let mut lines: Vec<Line> = others.map(|index| line(index, COLOURS[5], 1)).collect();
    lines.push(line(trained.best, COLOURS[0], 3));
    let mut legend = vec![("ln P(O)".to_owned(), COLOURS[0])];
    if trained.runs.len() > 1 {
        legend.push(("other starts".to_owned(), COLOURS[5]));
    }
    encode(&Lines { title: title.to_owned(), abscissa: "iterations", lines, legend }, format)
}

/// Draws γₜ(i) of one sequence, a row for each state. `posteriors` are N numbers for each observation.
///
/// # Errors
/// As [`crate::mdp::plot::draw`].
pub fn draw_posteriors(title: &str, model: &Hmm, posteriors: &[f64], format: Format) -> Result<Vec<u8>, PlotError> {
    let n = model.start.len();
    let value = |state: usize, t: usize| posteriors[t * n + state];
    let columns = posteriors.len() / n;
    encode(&Map { title, model, columns, abscissa: "position, from 1", value, legend: "γ" }, format)
}

/// Draws A, a row for each state that is left.
///
/// # Errors
/// As [`crate::mdp::plot::draw`].
pub fn draw_transitions(title: &str, model: &Hmm, format: Format) -> Result<Vec<u8>, PlotError> {
    let value = |from: usize, to: usize| model.row(from)[to];
    let columns = model.start.len();
    encode(&Map { title, model, columns, abscissa: "next state, from 1", value, legend: "A" }, format)
}

/// Probabilities as colours, a row for each state.
struct Map<'a, F> {
    title: &'a str,
    model: &'a Hmm,
    columns: usize,
    abscissa: &'a str,
    value: F,
    legend: &'a str,
}

impl<F: Fn(usize, usize) -> f64> Picture for Map<'_, F> {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        canvas.text((40, 60), 30, INK, Anchor::Start, self.title)?;
        let rows = self.model.start.len();
        let (width, height) = (FRAME.width * canvas.scale(), FRAME.height * canvas.scale());
        let mut rgb = Vec::with_capacity(3 * (width * height) as usize);
        for y in 0..height as usize {
            let covered_rows = covered(y, height as usize, rows);
            for x in 0..width as usize {
                // A pixel that covers several shows the largest: what is rare must be seen.
                let covered = covered(x, width as usize, self.columns);
                let cells = covered_rows.clone().flat_map(|row| covered.clone().map(move |column| (row, column)));
                let colour = colour(cells.map(|(row, column)| (self.value)(row, column)).fold(0.0, f64::max));
                rgb.extend([colour.0, colour.1, colour.2]);
            }
        }
        canvas.image((FRAME.x, FRAME.y), (width as u32, height as u32), rgb)?;
        canvas.outline(FRAME, GREY, 1)?;
        let step = (NAMED as usize * rows).div_ceil(FRAME.height as usize).max(1);
        for row in (0..rows).step_by(step) {
            let y = FRAME.y + ((row as f64 + 0.5) * f64::from(FRAME.height) / rows as f64) as i32;
            let label: String = name(&self.model.names.states, row as u32).chars().take(16).collect();
            canvas.text((FRAME.x - 10, y), 16, GREY, Anchor::End, &label)?;
        }
        let step = self.columns.div_ceil(12).max(1);
        for column in (0..self.columns).step_by(step) {
            let x = FRAME.x + ((column as f64 + 0.5) * f64::from(FRAME.width) / self.columns as f64) as i32;
            canvas.text((x, FRAME.bottom() + 20), 16, GREY, Anchor::Middle, &(column + 1).to_string())?;
        }
        canvas.text((FRAME.x + FRAME.width / 2, FRAME.bottom() + 54), 18, INK, Anchor::Middle, self.abscissa)?;
        let bar = Rect { x: FRAME.right() + 40, width: 22, ..FRAME };
        canvas.text((bar.x + 11, bar.y - 16), 19, INK, Anchor::Middle, self.legend)?;
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

fn colour(prob: f64) -> RGBColor {
    ViridisRGB.get_color(prob.clamp(0.0, 1.0))
}

/// The cells, of `cells` in a row, that pixel `pixel` of `pixels` covers: at least one.
fn covered(pixel: usize, pixels: usize, cells: usize) -> std::ops::Range<usize> {
    let first = pixel * cells / pixels;
    first..((pixel + 1) * cells / pixels).max(first + 1)
}
