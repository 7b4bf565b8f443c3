//! Heat map of the value function of a grid world with walls, obstacles, goal and policy arrows.

use plotters::prelude::DrawingBackend;
use plotters::style::colors::colormaps::{ColorMap, ViridisRGB};
use plotters::style::{Color, RGBColor};

use super::Field;
use crate::model::{Grid, Mdp, NO_ACTION};
use warpkov_common::plot::PlotError;
use warpkov_common::plot::canvas::{Anchor, Canvas, GREY, INK, Point, Rect};
use warpkov_common::plot::chart::{Axis, power_of_ten};

const WALL: RGBColor = RGBColor(62, 62, 66);
const OBSTACLE: RGBColor = RGBColor(255, 127, 42);
const GOAL: RGBColor = RGBColor(235, 30, 60);

/// Minimum size of an arrow's area in canvas units. If cells are smaller, one arrow represents a block of cells.
const ARROW_ROOM: f64 = 18.0;

/// Cell size in pixels from which obstacles are outlined instead of tinted.
const OUTLINED: i32 = 8;

/// Content of a cell.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Free,
    Obstacle,
    Wall,
}

/// A grid with its position and scale on the canvas.
struct Map<'a> {
    grid: &'a Grid,
    field: &'a Field<'a>,
    cells: Vec<Cell>,
    scale: ValueScale,
    /// Position on the canvas.
    place: Rect,
    /// Pixels per cell side; below 1 if several cells share a pixel.
    cell: f64,
}

/// Draws the heat map with colour bar and legend within `place`. Returns the right edge of the area used.
pub fn draw<B: DrawingBackend>(canvas: &Canvas<B>, place: Rect, field: &Field, grid: &Grid) -> Result<i32, PlotError> {
    let room = Rect { width: place.width - 110, height: place.height - 40, ..place };
    let map = Map::new(field, grid, room, canvas.scale());
    map.draw_cells(canvas)?;
    map.draw_obstacles(canvas)?;
    map.draw_arrows(canvas)?;
    map.draw_goals(canvas)?;
    // The colour bar is as tall as the map, but tall enough to keep its labels apart.
    let height = map.place.height.max(240).min(room.height);
    map.scale.draw(canvas, field.symbol, Rect { x: map.place.right() + 24, width: 22, height, ..map.place })?;
    map.draw_legend(canvas, (place.x, map.place.bottom() + 28))?;
    Ok(map.place.right() + 110)
}

impl<'a> Map<'a> {
    fn new(field: &'a Field<'a>, grid: &'a Grid, room: Rect, scale: i32) -> Self {
        let values = field.values;
        let mut cells = vec![Cell::Free; values.len()];
        for (states, kind) in [(&grid.obstacles, Cell::Obstacle), (&grid.walls, Cell::Wall)] {
            for state in states {
                if let Some(cell) = cells.get_mut(*state as usize) {
                    *cell = kind;
                }
            }
        }
        let shown = values.iter().zip(&cells).filter(|(_, cell)| **cell != Cell::Wall).map(|(value, _)| *value);
        let value_scale = ValueScale::new(shown.collect(), field.bound);
        let (columns, rows) = (f64::from(grid.width), f64::from(grid.height));
        let fit = (f64::from(room.width * scale) / columns).min(f64::from(room.height * scale) / rows);
        // Whole pixels per cell give even cells, but waste space if cells are small.
        let cell = if fit >= 8.0 { fit.floor() } else { fit };
        let units = |count: f64| ((count * cell / f64::from(scale)).round() as i32).max(1);
        let (width, height) = (units(columns), units(rows));
        let place = Rect { width, height, ..room };
        Self { grid, field, cells, scale: value_scale, place, cell }
    }

    /// Side in cells of the blocks with one arrow each.
    fn block(&self, canvas_scale: i32) -> u32 {
        (ARROW_ROOM * f64::from(canvas_scale) / self.cell).ceil() as u32
    }

    /// Centre of a cell in pixels.
    fn centre(&self, canvas_scale: i32, column: u32, row: u32) -> (f64, f64) {
        let at = |origin: i32, index: u32| f64::from(origin * canvas_scale) + (f64::from(index) + 0.5) * self.cell;
        (at(self.place.x, column), at(self.place.y, row))
    }

    fn color(&self, state: usize) -> RGBColor {
        if self.cells[state] == Cell::Wall { WALL } else { self.scale.color(self.field.values[state]) }
    }

    /// Draws all cells as one image. A pixel that covers several cells has their mean colour.
    fn draw_cells<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        let width = (self.place.width * canvas.scale()) as usize;
        let height = (self.place.height * canvas.scale()) as usize;
        let (columns, rows) = (self.grid.width as usize, self.grid.height as usize);
        let tinted = self.cell < f64::from(OUTLINED * canvas.scale());
        let mut rgb = Vec::with_capacity(3 * width * height);
        for y in 0..height {
            let covered_rows = covered(y, height, rows);
            for x in 0..width {
                let mut sum = [0.0; 3];
                let mut count = 0.0;
                for row in covered_rows.clone() {
                    for column in covered(x, width, columns) {
                        let state = row * columns + column;
                        let mut color = self.color(state);
                        if tinted && self.cells[state] == Cell::Obstacle {
                            color = mix(color, OBSTACLE, 0.55);
                        }
                        for (sum, channel) in sum.iter_mut().zip([color.0, color.1, color.2]) {
                            *sum += f64::from(channel);
                        }
                        count += 1.0;
                    }
                }
                rgb.extend(sum.map(|sum| (sum / count) as u8));
            }
        }
        canvas.image((self.place.x, self.place.y), (width as u32, height as u32), rgb)?;
        canvas.outline(self.place, GREY, 1)
    }

    fn draw_obstacles<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        if self.cell < f64::from(OUTLINED * canvas.scale()) {
            return Ok(());
        }
        let inset = (self.cell * 0.06).max(1.0);
        let thickness = (self.cell * 0.09).max(1.5);
        for state in &self.grid.obstacles {
            let (x, y) = self.centre(canvas.scale(), state % self.grid.width, state / self.grid.width);
            let outer = self.cell / 2.0 - inset;
            let inner = outer - thickness;
            // One polygon: the outer edge, then the inner edge in reverse.
            let ring = |r: f64| [(-r, -r), (r, -r), (r, r), (-r, r), (-r, -r)];
            let mut corners = ring(outer).to_vec();
            corners.extend(ring(inner).iter().rev());
            canvas.polygon(shifted(&corners, (x, y)), OBSTACLE)?;
        }
        Ok(())
    }

    /// Draws one arrow per cell or block to the most likely next state; a dot if that is the cell itself.
    fn draw_arrows<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        let Grid { width, height, .. } = *self.grid;
        let Field { mdp: Some(mdp), policy, goals, .. } = self.field else { return Ok(()) };
        let block = self.block(canvas.scale());
        // In a block of even size the middle cell is off centre; a smaller arrow stays within the block.
        let size = self.cell * if block == 1 { 1.0 } else { 0.8 * f64::from(block) };
        for row in (0..height).skip(block as usize / 2).step_by(block as usize) {
            for column in (0..width).skip(block as usize / 2).step_by(block as usize) {
                let state = row * width + column;
                if goals.contains(&state) || self.cells[state as usize] == Cell::Wall {
                    continue;
                }
                let at = self.centre(canvas.scale(), column, row);
                let color = contrasting(self.color(state as usize));
                match likeliest_direction(mdp, policy, state, width) {
                    Some(direction) => canvas.polygon(shifted(&arrow(direction, size), at), color)?,
                    None => canvas.polygon(shifted(&disc(0.09 * size), at), color)?,
                }
            }
        }
        Ok(())
    }

    fn draw_goals<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        // On large grids the star exceeds its cell so that it remains visible.
        let radius = (0.42 * self.cell).clamp(f64::from(11 * canvas.scale()), f64::from(40 * canvas.scale()));
        self.field.goals.iter().try_for_each(|goal| {
            draw_star(canvas, self.centre(canvas.scale(), goal % self.grid.width, goal / self.grid.width), radius)
        })
    }

    fn draw_legend<B: DrawingBackend>(&self, canvas: &Canvas<B>, (mut x, y): Point) -> Result<(), PlotError> {
        let scale = f64::from(canvas.scale());
        if !self.field.goals.is_empty() {
            draw_star(canvas, (f64::from(x + 9) * scale, f64::from(y) * scale), 11.0 * scale)?;
            canvas.text((x + 26, y), 17, INK, Anchor::Start, "goal")?;
            x += 90;
        }
        let swatch = |x: i32| Rect { x, y: y - 8, width: 16, height: 16 };
        if !self.grid.walls.is_empty() {
            canvas.fill(swatch(x), WALL)?;
            canvas.text((x + 24, y), 17, INK, Anchor::Start, "wall")?;
            x += 90;
        }
        if !self.grid.obstacles.is_empty() {
            if self.cell < f64::from(OUTLINED * canvas.scale()) {
                canvas.fill(swatch(x), OBSTACLE)?;
            } else {
                canvas.outline(swatch(x), OBSTACLE, 2)?;
            }
            canvas.text((x + 24, y), 17, INK, Anchor::Start, "obstacle")?;
            x += 120;
        }
        let block = self.block(canvas.scale());
        let arrows = if block == 1 {
            "arrow: likeliest next cell under the policy".to_owned()
        } else {
            format!("arrow: likeliest next cell under the policy, one cell of every {block} × {block}")
        };
        canvas.text((x, y), 17, GREY, Anchor::Start, &arrows)
    }
}

/// The cells that pixel `pixel` of `pixels` covers in a line of `cells`; at least one.
fn covered(pixel: usize, pixels: usize, cells: usize) -> std::ops::Range<usize> {
    let first = pixel * cells / pixels;
    first..((pixel + 1) * cells / pixels).max(first + 1)
}

/// The direction from `state` to its most likely successor; `None` if that is `state`.
fn likeliest_direction(mdp: &Mdp, policy: &[u32], state: u32, width: u32) -> Option<(f64, f64)> {
    let action = policy.get(state as usize).copied().filter(|&action| action != NO_ACTION)?;
    let row = mdp.choices().first(state as usize) + action as usize;
    let (columns, probabilities) = mdp.transitions().row(row);
    let likeliest = columns.iter().zip(probabilities).max_by(|a, b| a.1.total_cmp(b.1)).map(|entry| *entry.0)?;
    let offset = |to: u32, from: u32| f64::from(to) - f64::from(from);
    let (x, y) = (offset(likeliest % width, state % width), offset(likeliest / width, state / width));
    let length = x.hypot(y);
    (length > 0.0).then(|| (x / length, y / length))
}

/// The corners of an arrow through the origin for a cell of `size` pixels.
fn arrow((x, y): (f64, f64), size: f64) -> Vec<(f64, f64)> {
    // Positions along and across the direction, in fractions of the cell.
    let outline = [(-0.32, 0.045), (0.05, 0.045), (0.05, 0.17), (0.34, 0.0)];
    let back = outline.iter().rev().skip(1).map(|(along, across)| (*along, -across));
    let corner = |(along, across): (f64, f64)| (size * (along * x - across * y), size * (along * y + across * x));
    outline.iter().copied().chain(back).map(corner).collect()
}

fn disc(radius: f64) -> Vec<(f64, f64)> {
    (0..12).map(|k| f64::from(k) * std::f64::consts::TAU / 12.0).map(|t| (radius * t.cos(), radius * t.sin())).collect()
}

fn draw_star<B: DrawingBackend>(canvas: &Canvas<B>, at: (f64, f64), radius: f64) -> Result<(), PlotError> {
    let star = |radius: f64| -> Vec<(f64, f64)> {
        let corner = |k: i32| {
            let r = if k % 2 == 0 { radius } else { 0.45 * radius };
            let t = f64::from(k) * std::f64::consts::PI / 5.0;
            (r * t.sin(), -r * t.cos())
        };
        (0..10).map(corner).collect()
    };
    canvas.polygon(shifted(&star(radius), at), RGBColor(255, 255, 255))?;
    canvas.polygon(shifted(&star(0.74 * radius), at), GOAL)
}

fn shifted(corners: &[(f64, f64)], (x, y): (f64, f64)) -> Vec<Point> {
    corners.iter().map(|corner| ((x + corner.0).round() as i32, (y + corner.1).round() as i32)).collect()
}

fn mix(a: RGBColor, b: RGBColor, part: f64) -> RGBColor {
    let mix = |a: u8, b: u8| ((1.0 - part) * f64::from(a) + part * f64::from(b)) as u8;
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// White on dark colours, black on light colours.
fn contrasting(color: RGBColor) -> impl Color {
    let luminance = 0.299 * f64::from(color.0) + 0.587 * f64::from(color.1) + 0.114 * f64::from(color.2);
    if luminance < 130.0 { RGBColor(255, 255, 255).mix(0.9) } else { RGBColor(20, 20, 30).mix(0.9) }
}

/// Mapping of values to colours.
struct ValueScale {
    low: f64,
    high: f64,
    /// Magnitude below which a logarithmic scale is linear; `None` for a linear scale.
    threshold: Option<f64>,
}

impl ValueScale {
    /// A scale for `values`. Discounted values decay geometrically with the distance from rewards, so on large grids
    /// most values fall in a small part of their range. The scale is then logarithmic, down to `bound`, below which
    /// values are not significant.
    fn new(mut values: Vec<f64>, bound: Option<f64>) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_unstable_by(f64::total_cmp);
        let (Some(low), Some(high)) = (values.first().copied(), values.last().copied()) else {
            return Self { low: 0.0, high: 1.0, threshold: None };
        };
        if low == high {
            return Self { low: low - 0.5, high: high + 0.5, threshold: None };
        }
        let quantile = |part: usize| values[part * (values.len() - 1) / 8];
        let crowded = quantile(7) - quantile(1) < 0.2 * (high - low);
        let largest = low.abs().max(high.abs());
        let threshold = bound.unwrap_or(0.0).clamp(1e-6 * largest, 1e-2 * largest);
        Self { low, high, threshold: crowded.then_some(threshold) }
    }

    fn transform(&self, value: f64) -> f64 {
        match self.threshold {
            Some(threshold) => value.signum() * (value.abs() / threshold).ln_1p(),
            None => value,
        }
    }

    /// Position of `value` on the scale, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let (low, high) = (self.transform(self.low), self.transform(self.high));
        ((self.transform(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    fn color(&self, value: f64) -> RGBColor {
        if value.is_nan() { GREY } else { ViridisRGB.get_color(self.part(value)) }
    }

    /// Labels of the colour bar, most important first.
    fn ticks(&self) -> Vec<(f64, String)> {
        let Some(threshold) = self.threshold else {
            return Axis::linear(self.low, self.high, 8, false).ticks;
        };
        let largest = self.low.abs().max(self.high.abs());
        let exponents = (threshold.log10().ceil() as i32..=largest.log10().floor() as i32).rev();
        let powers = exponents
            .flat_map(|k| [(10f64.powi(k), power_of_ten(k)), (-(10f64.powi(k)), format!("−{}", power_of_ten(k)))]);
        let ticks = [(0.0, "0".to_owned())].into_iter().chain(powers);
        ticks.filter(|(value, _)| (self.low..=self.high).contains(value)).collect()
    }

    /// Draws the colour bar with its labels to the right of `place`.
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>, symbol: &str, place: Rect) -> Result<(), PlotError> {
        canvas.text((place.x + place.width / 2, place.y - 14), 19, INK, Anchor::Middle, symbol)?;
        let (width, height) = (place.width * canvas.scale(), place.height * canvas.scale());
        let mut rgb = Vec::new();
        for y in 0..height {
            let color = ViridisRGB.get_color(1.0 - f64::from(y) / f64::from(height));
            for _ in 0..width {
                rgb.extend([color.0, color.1, color.2]);
            }
        }
        canvas.image((place.x, place.y), (width as u32, height as u32), rgb)?;
        canvas.outline(place, GREY, 1)?;
        let mut taken: Vec<i32> = Vec::new();
        for (value, label) in self.ticks() {
            let y = place.bottom() - (self.part(value) * f64::from(place.height)).round() as i32;
            if taken.iter().any(|other| (other - y).abs() < 22) {
                continue;
            }
            taken.push(y);
            canvas.line(&[(place.right(), y), (place.right() + 5, y)], GREY, 1)?;
            canvas.label((place.right() + 10, y), 16, INK, Anchor::Start, &label)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_reach_from_end_to_end() {
        let linear = ValueScale::new((0..=8).map(f64::from).collect(), Some(1e-5));
        assert_eq!((linear.threshold, linear.part(0.0), linear.part(4.0), linear.part(8.0)), (None, 0.0, 0.5, 1.0));
        let crowded = ValueScale::new((0..100).map(|k| 0.8f64.powi(k)).collect(), Some(1e-5));
        assert_eq!((crowded.threshold, crowded.part(1.0)), (Some(1e-5), 1.0));
        assert!(crowded.part(1e-2) > 0.5);
        let flat = ValueScale::new(vec![3.0; 5], None);
        assert_eq!(flat.part(3.0), 0.5);
        assert_eq!(ValueScale::new(vec![f64::NAN], None).part(0.5), 0.5);
    }

    #[test]
    fn every_pixel_covers_a_cell_and_every_cell_is_covered() {
        for (pixels, cells) in [(10, 3), (3, 10), (7, 7), (1, 5)] {
            let mut next = 0;
            for pixel in 0..pixels {
                let range = covered(pixel, pixels, cells);
                assert!(!range.is_empty() && range.end <= cells && range.start <= next);
                next = range.end;
            }
            assert_eq!(next, cells);
        }
    }
}
