//! Charts side by side over named cases: what benchmarks draw, beside published numbers.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use super::canvas::{Anchor, Canvas, GREY, INK, PALE, Point, Rect};
use super::chart::Axis;
use super::lines::COLOURS;
use super::{Format, Picture, PlotError, encode};

/// Where the charts are.
const PLACE: Rect = Rect { x: 40, y: 76, width: 1270, height: 864 };
/// Room for the numbers at the left of a chart.
const LEFT: i32 = 62;
/// Names of cases with more characters than this stand upright.
const SHORT: usize = 5;

/// The values of one contender, case by case.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The contender.
    pub name: String,
    /// Whether a publication has the values: thin lines.
    pub published: bool,
    /// A value for each case; not a finite number where there is none.
    pub values: Vec<f64>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What is drawn, and in which unit.
    pub title: String,
    /// Whether the y-axis is logarithmic. Values of 0 and below are then left out.
    pub log: bool,
    /// Names on the x-axis.
    pub cases: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
}

impl Panel {
    /// A chart without lines.
    #[must_use]
    pub fn new(title: &str, log: bool) -> Self {
        Self { title: title.to_owned(), log, cases: Vec::new(), series: Vec::new() }
    }

    /// Adds a value. Cases and contenders stand in the order in which they come first.
    pub fn add(&mut self, name: &str, published: bool, case: &str, value: f64) {
        let at = self.cases.iter().position(|known| known == case).unwrap_or_else(|| {
            self.cases.push(case.to_owned());
            self.cases.len() - 1
        });
        let line = self.series.iter().position(|line| line.name == name).unwrap_or_else(|| {
            self.series.push(Series { name: name.to_owned(), published, values: Vec::new() });
            self.series.len() - 1
        });
        let values = &mut self.series[line].values;
        values.resize(values.len().max(at + 1), f64::NAN);
        values[at] = value;
    }

    /// Whether a value is drawn.
    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    fn ordinates(&self) -> Axis {
        let values = || self.series.iter().flat_map(|line| &line.values).copied().filter(|&value| self.shows(value));
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        match self.log {
            true if most > 0.0 => Axis::log(values().fold(f64::INFINITY, f64::min), most, false),
            _ => Axis::linear(values().fold(0.0, f64::min), if most > 0.0 { most } else { 1.0 }, 5, false),
        }
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>, place: Rect, styles: &[Style]) -> Result<(), PlotError> {
        canvas.text((place.x, place.y + 10), 18, INK, Anchor::Start, &self.title)?;
        let upright = self.cases.iter().any(|case| case.chars().count() > SHORT);
        let below = if upright { 132 } else { 34 };
        let frame = Rect {
            x: place.x + LEFT,
            y: place.y + 30,
            width: place.width - LEFT - 20,
            height: place.height - 30 - below,
        };
        let axis = self.ordinates();
        let y = |value: f64| frame.bottom() - (axis.part(value) * f64::from(frame.height)).round() as i32;
        let x = |case: usize| frame.x + frame.width * (2 * case as i32 + 1) / (2 * self.cases.len() as i32);
        for (value, label) in &axis.ticks {
            canvas.line(&[(frame.x, y(*value)), (frame.right(), y(*value))], PALE, 1)?;
            canvas.label((frame.x - 8, y(*value)), 14, GREY, Anchor::End, label)?;
        }
        for (case, name) in self.cases.iter().enumerate() {
            canvas.line(&[(x(case), frame.bottom()), (x(case), frame.bottom() + 5)], GREY, 1)?;
            match upright {
                true => canvas.upright((x(case), frame.bottom() + 10), 13, GREY, Anchor::End, name)?,
                false => canvas.text((x(case), frame.bottom() + 18), 15, GREY, Anchor::Middle, name)?,
            }
        }
        canvas.outline(frame, GREY, 1)?;
        for line in &self.series {
            let Some(style) = styles.iter().find(|style| style.name == line.name) else { continue };
            let points: Vec<Option<Point>> = (line.values.iter().enumerate())
                .map(|(case, &value)| self.shows(value).then(|| (x(case), y(value))))
                .collect();
            for pair in points.windows(2) {
                if let [Some(from), Some(to)] = *pair {
                    canvas.line(&[from, to], style.colour, style.width)?;
                }
            }
            let half = style.width + 1;
            for (x, y) in points.into_iter().flatten() {
                canvas.fill(Rect { x: x - half, y: y - half, width: 2 * half, height: 2 * half }, style.colour)?;
            }
        }
        Ok(())
    }
}

/// The contender in the name of a line, before its type or source.
fn contender(name: &str) -> &str {
    name.split([',', '(']).next().unwrap_or(name).trim_end()
}

/// How the lines of a contender look.
struct Style<'a> {
    name: &'a str,
    colour: RGBColor,
    width: i32,
}

/// Charts with one legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    /// Title above the charts.
    pub title: String,
    /// The charts, row by row.
    pub panels: Vec<Panel>,
}

impl Panels {
    /// Draws the charts that have lines.
    ///
    /// # Errors
    /// If text cannot be laid out or the picture cannot be encoded.
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        encode(self, format)
    }

    /// Thick lines in the order of colours. The first thin line of a publication for a contender has its colour, others the next ones.
    fn styles(&self) -> Vec<Style<'_>> {
        let mut styles: Vec<Style> = Vec::new();
        let mut next = COLOURS.iter().copied().cycle();
        let (thick, thin) = (3, 1);
        for width in [thick, thin] {
            for line in self.panels.iter().flat_map(|panel| &panel.series) {
                if line.published != (width == thin) || styles.iter().any(|style| style.name == line.name) {
                    continue;
                }
                let same = |style: &&Style| contender(style.name) == contender(&line.name);
                let first = line.published && !styles.iter().any(|style| style.width == thin && same(&style));
                let ours = styles.iter().find(same).filter(|_| first).map(|style| style.colour);
                let colour = ours.or_else(|| next.next()).unwrap_or(INK);
                styles.push(Style { name: &line.name, colour, width });
            }
        }
        styles
    }
}

impl Picture for Panels {
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError> {
        canvas.text((40, 44), 28, INK, Anchor::Start, &self.title)?;
        let (styles, panels) = (self.styles(), self.panels.iter().filter(|panel| !panel.series.is_empty()));
        let count = panels.clone().count().max(1) as i32;
        let columns = f64::from(count).sqrt().ceil() as i32;
        let rows = (count + columns - 1) / columns;
        let (width, height) = (PLACE.width / columns, PLACE.height / rows);
        for (panel, at) in panels.zip(0..) {
            let (x, y) = (PLACE.x + width * (at % columns), PLACE.y + height * (at / columns));
            panel.draw(canvas, Rect { x, y, width, height }, &styles)?;
        }
        for (style, row) in styles.iter().zip(0..) {
            let (x, y) = (PLACE.right() + 8, PLACE.y + 40 + 30 * row);
            canvas.line(&[(x, y), (x + 26, y)], style.colour, style.width)?;
            canvas.text((x + 34, y), 15, INK, Anchor::Start, style.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_placed_by_case_and_contender() {
        let mut panel = Panel::new("ms", true);
        panel.add("ours", false, "small", 2.0);
        panel.add("theirs", true, "large", 30.0);
        panel.add("ours", false, "large", 20.0);
        assert_eq!(panel.cases, ["small", "large"]);
        assert_eq!(panel.series[0].values, [2.0, 20.0]);
        assert!(panel.series[1].values[0].is_nan() && panel.series[1].published);
    }

    #[test]
    fn publications_have_the_colours_of_their_contenders() {
        let mut panel = Panel::new("ms", true);
        for (name, published) in [
            ("plain (2025)", true),
            ("serial, f32", false),
            ("plain, f32", false),
            ("plain, L4 (2025)", true),
            ("serial (2025)", true),
        ] {
            panel.add(name, published, "case", 1.0);
        }
        let panels = Panels { title: String::new(), panels: vec![panel] };
        let styles = panels.styles();
        let colour = |name: &str| styles.iter().find(|style| style.name == name).unwrap().colour;
        assert_eq!((colour("plain (2025)"), colour("serial (2025)")), (colour("plain, f32"), colour("serial, f32")));
        assert!(
            styles.iter().all(|style| style.name == "plain, L4 (2025)" || style.colour != colour("plain, L4 (2025)"))
        );
    }

    #[test]
    fn pictures_name_what_they_show() {
        let mut panels = Panels { title: "A benchmark".into(), panels: Vec::new() };
        for (log, title) in [(true, "time, ms"), (false, "speed-up"), (true, "nothing")] {
            let mut panel = Panel::new(title, log);
            if title != "nothing" {
                panel.add("ours", false, "a long name", 2.0);
                panel.add("ours", false, "b", 0.0);
                panel.add("theirs", true, "b", f64::NAN);
            }
            panels.panels.push(panel);
        }
        let svg = String::from_utf8(panels.draw(Format::Svg).unwrap()).unwrap();
        for text in ["A benchmark", "time, ms", "speed-up", "ours", "theirs", "a long name"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("nothing"));
        panels.panels.clear();
        assert!(panels.draw(Format::Png).is_ok());
    }
}
