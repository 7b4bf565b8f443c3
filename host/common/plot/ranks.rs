//! The time of each rank in sweeps, exchange and waiting, as stacked bars.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use super::canvas::{Anchor, Canvas, GREY, INK, PALE, Rect};
use super::chart::Axis;
use super::lines::COLOURS;
use super::{Format, Picture, PlotError, encode};
use crate::ranks::{RankShare, RankTime};

const FRAME: Rect = Rect { x: 230, y: 130, width: 1090, height: 740 };

/// Largest number of bars. A bar of more ranks stands for several of them.
const BARS: usize = 64;

/// Largest height of a bar with its gap.
const TALL: i32 = 60;

/// Longest name of a node in a label, in characters.
const NAME: usize = 14;

/// A part of a bar: name, colour, and seconds.
type Share = (&'static str, RGBColor, fn(&RankTime) -> f64);

/// The parts of a bar, from the left.
const PARTS: [Share; 3] = [
    ("sweeps", COLOURS[0], |time| time.sweeps),
    ("exchange", COLOURS[2], |time| time.exchange),
    ("waiting", COLOURS[1], |time| time.waiting),
];

/// Draws a horizontal bar for each rank: its seconds in sweeps, exchange and waiting. If there are more than 64 ranks, a bar is the mean
/// of several consecutive ones.
///
/// # Errors
/// If text cannot be laid out or the picture cannot be encoded.
pub fn draw_ranks<W>(title: &str, ranks: &[RankShare<W>], format: Format) -> Result<Vec<u8>, PlotError> {
    let together = ranks.len().div_ceil(BARS).max(1);
    let bar = |ranks: &[RankShare<W>]| {
        let mean = |of: fn(&RankTime) -> f64| ranks.iter().map(|rank| of(&rank.time)).sum::<f64>() / ranks.len() as f64;
        let label = match ranks {
            [only] => format!("{}, {}", only.rank, only.node.chars().take(NAME).collect::<String>()),
            [first, .., last] => format!("{} to {}", first.rank, last.rank),
            [] => String::new(),
        };
        Bar { label, seconds: PARTS.map(|(_, _, of)| mean(of)) }
    };
    let bars = ranks.chunks(together).map(bar).collect();
    encode(&Bars { title, together, bars }, format)
}

struct Bar {
    label: String,
    /// In the order of [`PARTS`].
    seconds: [f64; 3],
}

struct Bars<'a> {
    title: &'a str,
    /// Number of ranks of a bar.
    together: usize,
    bars: Vec<Bar>,
}

impl Picture for Bars<'_> {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        canvas.text((40, 60), 30, INK, Anchor::Start, self.title)?;
        let what = match self.together {
            1 => "Time of each rank".to_owned(),
            together => format!("Mean time of {together} consecutive ranks"),
        };
        canvas.text((40, 96), 20, GREY, Anchor::Start, &what)?;
        let longest = self.bars.iter().map(|bar| bar.seconds.iter().sum()).fold(0.0, f64::max);
        let axis = Axis::linear(0.0, if longest > 0.0 { longest } else { 1.0 }, 8, false);
        let x = |seconds: f64| FRAME.x + (axis.part(seconds) * f64::from(FRAME.width)).round() as i32;
        let pitch = f64::from(FRAME.height) / self.bars.len().max(1) as f64;
        let pitch = pitch.min(f64::from(TALL));
        let bottom = FRAME.y + (pitch * self.bars.len() as f64).round() as i32;
        for (value, label) in &axis.ticks {
            canvas.line(&[(x(*value), FRAME.y), (x(*value), bottom)], PALE, 1)?;
            canvas.text((x(*value), bottom + 22), 17, GREY, Anchor::Middle, label)?;
        }
        let size = (pitch as i32 * 3 / 4).clamp(8, 17);
        for (bar, row) in self.bars.iter().zip(0..) {
            let edge = |row: i32| FRAME.y + (pitch * f64::from(row)).round() as i32;
            let (top, next) = (edge(row), edge(row + 1));
            let gap = (next - top) / 6;
            let (y, height) = (top + gap, next - top - 2 * gap);
            canvas.text((FRAME.x - 12, y + height / 2), size, INK, Anchor::End, &bar.label)?;
            let mut before = 0.0;
            for (seconds, (_, colour, _)) in bar.seconds.iter().zip(PARTS) {
                let (from, to) = (x(before), x(before + seconds));
                before += seconds;
                if to > from {
                    canvas.fill(Rect { x: from, y, width: to - from, height }, colour)?;
                }
            }
            if before > 0.0 {
                let share = format!("{:.0} %", 100.0 * bar.seconds[0] / before);
                canvas.text((x(before) + 8, y + height / 2), size, GREY, Anchor::Start, &share)?;
            }
        }
        canvas.line(&[(FRAME.x, FRAME.y), (FRAME.x, bottom)], GREY, 1)?;
        canvas.text((FRAME.x + FRAME.width / 2, bottom + 54), 18, INK, Anchor::Middle, "seconds")?;
        for ((name, colour, _), row) in PARTS.iter().zip(0..) {
            let (x, y) = (FRAME.right() + 110, FRAME.y + 16 + 34 * row);
            canvas.fill(Rect { x, y: y - 8, width: 16, height: 16 }, *colour)?;
            canvas.text((x + 28, y), 18, INK, Anchor::Start, name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(count: u32) -> Vec<RankShare<()>> {
        let share = |rank: u32| {
            let (sweeps, exchange, waiting) = (3.0, 0.5, f64::from(rank % 2) * 0.5);
            let time = RankTime { seconds: sweeps + exchange + waiting, sweeps, exchange, waiting };
            RankShare { rank, node: "node".to_owned(), device: String::new(), work: (), time }
        };
        (0..count).map(share).collect()
    }

    /// Width of the rectangles of a colour, in the order of the picture.
    fn widths(svg: &str, colour: RGBColor) -> Vec<i32> {
        let colour = format!("fill=\"#{:02X}{:02X}{:02X}\"", colour.0, colour.1, colour.2);
        let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        svg.lines().filter(|line| line.starts_with("<rect") && line.contains(&colour)).filter_map(width).collect()
    }

    #[test]
    fn bars_have_the_lengths_of_times() {
        let svg = String::from_utf8(draw_ranks("model", &shares(2), Format::Svg).unwrap()).unwrap();
        // The longest bar, of 4 s, fills the frame. The last rectangle is the legend's.
        let unit = f64::from(FRAME.width) / 4.0;
        for ((_, colour, _), expected) in PARTS.iter().zip([&[3.0, 3.0][..], &[0.5, 0.5], &[0.5]]) {
            let found = widths(&svg, *colour);
            assert_eq!(found.len(), expected.len() + 1, "{svg}");
            for (found, expected) in found.iter().zip(expected) {
                assert!((f64::from(*found) - expected * unit).abs() <= 1.0, "{found}, expected {}", expected * unit);
            }
        }
        for text in ["0, node", "1, node", "86 %", "75 %", "sweeps", "exchange", "waiting", "seconds", "model"] {
            assert!(svg.contains(&format!("{text}\n")), "{text} is missing in {svg}");
        }
    }

    #[test]
    fn bars_of_many_ranks_stand_for_several() {
        let svg = String::from_utf8(draw_ranks("model", &shares(4096), Format::Svg).unwrap()).unwrap();
        assert!(svg.contains("Mean time of 64 consecutive ranks") && svg.contains("4032 to 4095"));
        assert_eq!(widths(&svg, PARTS[0].1).len(), BARS + 1);
        for (count, format) in [(0, Format::Svg), (3, Format::Png), (65, Format::Png)] {
            assert!(!draw_ranks("model", &shares(count), format).unwrap().is_empty());
        }
        let idle = [RankShare { time: RankTime::default(), ..shares(1).swap_remove(0) }];
        assert!(draw_ranks("model", &idle, Format::Svg).is_ok());
    }
}
