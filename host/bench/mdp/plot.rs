//! Plot of the time per sweep against model size, on logarithmic axes.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use super::scaling::{Point, Scaling};
use warpkov_common::plot::canvas::{Anchor, Canvas, GREY, INK, PALE, Rect};
use warpkov_common::plot::chart::Axis;
use warpkov_common::plot::{Format, Picture, PlotError, encode};

const COLOURS: [RGBColor; 4] =
    [RGBColor(38, 96, 164), RGBColor(40, 140, 90), RGBColor(206, 110, 20), RGBColor(136, 70, 150)];
/// Colour of the launch limit.
const LIMIT: RGBColor = RGBColor(200, 80, 40);
/// Background of the launch-bound and bandwidth-bound regions.
const REGION: RGBColor = RGBColor(244, 244, 247);

const FRAME: Rect = Rect { x: 120, y: 150, width: 1040, height: 700 };

/// Draws the scaling benchmark.
///
/// # Errors
/// If text cannot be laid out or the picture cannot be encoded.
pub fn draw_scaling(scaling: &Scaling, format: Format) -> Result<Vec<u8>, PlotError> {
    encode(scaling, format)
}

impl Scaling {
    /// The points grouped by family and layout.
    fn lines(&self) -> impl Iterator<Item = &[Point]> {
        self.points.chunk_by(|a, b| (a.family, a.chosen) == (b.family, b.chosen))
    }

    /// Time to copy the bytes of a sweep, in microseconds.
    fn memory_us(&self, point: &Point) -> f64 {
        point.sweep_bytes as f64 / self.copy_gbps / 1e3
    }

    /// The smallest and the largest size at which launch latency equals copy time, over all lines, extrapolated from
    /// the largest model of each.
    fn crossings(&self) -> (f64, f64) {
        let crossing = |point: &Point| point.nnz as f64 * self.launch_us / self.memory_us(point);
        let crossings = || self.lines().filter_map(<[Point]>::last).map(crossing);
        (crossings().fold(f64::INFINITY, f64::min), crossings().fold(0.0, f64::max))
    }
}

impl Picture for Scaling {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        let title = format!("Time of a greedy sweep, {}, V in {}", self.device, self.precision);
        canvas.text((40, 46), 32, INK, Anchor::Start, &title)?;
        let limits = format!(
            "copy {:.0} GB/s   ·   launch {:.2} µs   ·   thin lines: time to copy the bytes of a sweep",
            self.copy_gbps, self.launch_us
        );
        canvas.text((40, 84), 20, GREY, Anchor::Start, &limits)?;
        let sizes = || self.points.iter().map(|point| point.nnz as f64);
        let times = || self.points.iter().map(|point| point.sweep_us).chain([self.launch_us]);
        let ends = |least: f64, most: f64| if least <= most { (least, most) } else { (1.0, 10.0) };
        let (least, most) = ends(sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let x_axis = Axis::log(least, most, false);
        let (least, most) = ends(times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        let y_axis = Axis::log(least, most, false);
        let x = |nnz: f64| FRAME.x + (x_axis.part(nnz) * f64::from(FRAME.width)).round() as i32;
        let y = |us: f64| FRAME.bottom() - (y_axis.part(us) * f64::from(FRAME.height)).round() as i32;

        if !self.points.is_empty() {
            let (first, last) = self.crossings();
            for (from, to, name) in [(FRAME.x, x(first), "launch-bound"), (x(last), FRAME.right(), "bandwidth-bound")] {
                let width = to - from;
                if width > 0 {
                    canvas.fill(Rect { x: from, width, ..FRAME }, REGION)?;
                    // Too narrow for the name.
                    if width > 160 {
                        canvas.text(((from + to) / 2, FRAME.y - 16), 18, GREY, Anchor::Middle, name)?;
                    }
                }
            }
        }
        for (value, label) in &y_axis.ticks {
            canvas.line(&[(FRAME.x, y(*value)), (FRAME.right(), y(*value))], PALE, 1)?;
            canvas.label((FRAME.x - 10, y(*value)), 17, GREY, Anchor::End, label)?;
        }
        for (value, label) in &x_axis.ticks {
            canvas.line(&[(x(*value), FRAME.bottom()), (x(*value), FRAME.bottom() + 6)], GREY, 1)?;
            canvas.label((x(*value), FRAME.bottom() + 22), 17, GREY, Anchor::Middle, label)?;
        }
        canvas.outline(FRAME, GREY, 1)?;
        canvas.text((FRAME.x + FRAME.width / 2, FRAME.bottom() + 54), 18, INK, Anchor::Middle, "nonzeros of P")?;
        canvas.text((FRAME.x - 70, FRAME.y - 16), 18, INK, Anchor::Start, "µs per sweep")?;

        canvas.line(&[(FRAME.x, y(self.launch_us)), (FRAME.right(), y(self.launch_us))], LIMIT, 1)?;
        canvas.text((FRAME.right() + 12, y(self.launch_us)), 18, LIMIT, Anchor::Start, "launch")?;
        for ((line, colour), row) in self.lines().zip(COLOURS.into_iter().cycle()).zip(0..) {
            for pair in line.windows(2) {
                let place = |us: fn(&Self, &Point) -> f64| pair.iter().map(move |p| (x(p.nnz as f64), y(us(self, p))));
                canvas.line(&place(|_, point| point.sweep_us).collect::<Vec<_>>(), colour, 3)?;
                canvas.line(&place(Self::memory_us).collect::<Vec<_>>(), colour, 1)?;
            }
            for point in line {
                let (x, y) = (x(point.nnz as f64), y(point.sweep_us));
                canvas.fill(Rect { x: x - 4, y: y - 4, width: 8, height: 8 }, colour)?;
            }
            let Some(last) = line.last() else { continue };
            let (x, y) = (FRAME.right() + 40, FRAME.y + 20 + 64 * row);
            canvas.line(&[(x, y), (x + 34, y)], colour, 3)?;
            let name = format!("{}, {}", last.family.name(), last.storage);
            canvas.text((x + 46, y), 20, INK, Anchor::Start, &name)?;
            let bytes = last.sweep_bytes as f64 / last.nnz as f64;
            let figures = format!("{bytes:.1} B per nonzero, {:.0} GB/s at largest", last.gbps);
            canvas.text((x + 46, y + 26), 17, GREY, Anchor::Start, &figures)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdp::scaling::Family;
    use warpkov_mdp::options::Storage;

    /// 8 bytes per nonzero at 1000 GB/s and 2 µs per launch: both take the same time at 250,000 nonzeros.
    #[test]
    fn regions_meet_at_equal_limits() {
        let point = |nnz: usize, bytes: usize, chosen| Point {
            family: Family::Grid,
            storage: Storage::Slices,
            chosen,
            states: 1,
            nnz,
            sweep_us: 5.0,
            sweep_bytes: (bytes * nnz) as u64,
            gbps: 1.0,
        };
        let points = vec![point(100_000, 8, true), point(10_000_000, 8, true), point(10_000_000, 1, false)];
        let mut scaling = Scaling { copy_gbps: 1000.0, launch_us: 2.0, points, ..Scaling::default() };
        let (first, last) = scaling.crossings();
        assert!((first - 250_000.0).abs() < 1.0 && (last - 2_000_000.0).abs() < 1.0, "{first}, {last}");
        let svg = String::from_utf8(draw_scaling(&scaling, Format::Svg).unwrap()).unwrap();
        assert!(svg.contains("launch-bound") && svg.contains("bandwidth-bound") && svg.contains("grid, slices"));
        scaling.points.clear();
        assert!(draw_scaling(&scaling, Format::Svg).is_ok());
    }
}
