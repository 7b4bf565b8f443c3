//! A drawing area in resolution-independent units.

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::element::{BitMapElement, PathElement, Polygon, Rectangle};
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, FontTransform, IntoFont, RGBColor, TextStyle, register_font};

use super::PlotError;

/// Colour of text and frames.
pub const INK: RGBColor = RGBColor(34, 34, 34);
/// Colour of axes and tick labels.
pub const GREY: RGBColor = RGBColor(105, 105, 110);
/// Colour of grid lines.
pub const PALE: RGBColor = RGBColor(226, 226, 230);

/// Font family of the text. A viewer of an SVG substitutes its own font.
const FAMILY: &str = "sans-serif";

/// Registers the embedded font with plotters, once per process.
pub fn load_font() -> Result<(), PlotError> {
    static LOADED: OnceLock<bool> = OnceLock::new();
    let loaded = *LOADED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, notosans::REGULAR_TTF).is_ok());
    if loaded { Ok(()) } else { Err(PlotError::Font) }
}

/// A point, in units.
pub type Point = (i32, i32);

/// A rectangle, in units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: i32,
    /// Upper edge.
    pub y: i32,
    /// Extent to the right.
    pub width: i32,
    /// Extent downwards.
    pub height: i32,
}

impl Rect {
    /// The right edge.
    pub fn right(&self) -> i32 {
        self.x + self.width
    }

    /// The lower edge.
    pub fn bottom(&self) -> i32 {
        self.y + self.height
    }
}

/// Horizontal alignment of a text at its point. Vertically, texts are centred.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The text starts at the point.
    Start,
    /// The middle of the text is at the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// A drawing area. A unit is `scale` pixels.
pub struct Canvas<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    scale: i32,
}

impl<B: DrawingBackend> Canvas<B> {
    /// Creates a white canvas.
    pub fn new(area: DrawingArea<B, Shift>, scale: u32) -> Result<Self, PlotError> {
        area.fill(&RGBColor(255, 255, 255)).map_err(failed)?;
        Ok(Self { area, scale: scale as i32 })
    }

    /// Pixels per unit.
    pub fn scale(&self) -> i32 {
        self.scale
    }

    /// Writes a text with a font size of `size` units.
    pub fn text(&self, at: Point, size: i32, color: RGBColor, anchor: Anchor, text: &str) -> Result<(), PlotError> {
        self.area.draw_text(text, &self.style(size, color, anchor), self.pixel(at)).map_err(failed)
    }

    /// Writes a text with a font size of `size` units from bottom to top.
    pub fn upright(&self, at: Point, size: i32, color: RGBColor, anchor: Anchor, text: &str) -> Result<(), PlotError> {
        let style = self.style(size, color, anchor).transform(FontTransform::Rotate270);
        self.area.draw_text(text, &style, self.pixel(at)).map_err(failed)
    }

    fn style(&self, size: i32, color: RGBColor, anchor: Anchor) -> TextStyle<'static> {
        let horizontal = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        (FAMILY, size * self.scale).into_font().color(&color).pos(Pos::new(horizontal, VPos::Center))
    }

    /// Writes a label with a font size of `size` units. The text after `^` becomes a superscript: `10^-5`.
    ///
    /// Few fonts have all superscript characters, so the superscript is drawn as small raised text.
    pub fn label(
        &self,
        (x, y): Point,
        size: i32,
        color: RGBColor,
        anchor: Anchor,
        text: &str,
    ) -> Result<(), PlotError> {
        let Some((base, exponent)) = text.split_once('^') else {
            return self.text((x, y), size, color, anchor, text);
        };
        let small = size * 3 / 4;
        let (first, second) = (self.width(size, base)?, self.width(small, exponent)?);
        let start = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - (first + second) / 2,
            Anchor::End => x - first - second,
        };
        // Base and exponent are anchored at their common edge, because the viewer of an SVG may have a wider font.
        self.text((start + first, y), size, color, Anchor::End, base)?;
        self.text((start + first + 1, y - size * 2 / 5), small, color, Anchor::Start, exponent)
    }

    /// The width of a text with a font size of `size` units, in units.
    pub fn width(&self, size: i32, text: &str) -> Result<i32, PlotError> {
        let style = (FAMILY, size * self.scale).into_font().into();
        let (width, _) = self.area.estimate_text_size(text, &style).map_err(failed)?;
        Ok(width as i32 / self.scale)
    }

    /// Fills a rectangle.
    pub fn fill(&self, place: Rect, color: impl Color) -> Result<(), PlotError> {
        let corners = [self.pixel((place.x, place.y)), self.pixel((place.right(), place.bottom()))];
        self.area.draw(&Rectangle::new(corners, color.filled())).map_err(failed)
    }

    /// Draws the outline of a rectangle as a line, because plotters' SVG rectangles have no line width.
    pub fn outline(&self, place: Rect, color: impl Color, width: i32) -> Result<(), PlotError> {
        let Rect { x, y, .. } = place;
        let (right, bottom) = (place.right(), place.bottom());
        self.line(&[(x, y), (right, y), (right, bottom), (x, bottom), (x, y)], color, width)
    }

    /// Draws a line through `points`.
    pub fn line(&self, points: &[Point], color: impl Color, width: i32) -> Result<(), PlotError> {
        let points: Vec<_> = points.iter().map(|point| self.pixel(*point)).collect();
        self.area.draw(&PathElement::new(points, color.stroke_width(self.thick(width)))).map_err(failed)
    }

    /// Fills a polygon. The corners are in pixels, for exact placement of small shapes.
    pub fn polygon(&self, corners: Vec<Point>, color: impl Color) -> Result<(), PlotError> {
        self.area.draw(&Polygon::new(corners, color.filled())).map_err(failed)
    }

    /// Draws an RGB image of `size` pixels.
    pub fn image(&self, at: Point, size: (u32, u32), rgb: Vec<u8>) -> Result<(), PlotError> {
        let image: Option<BitMapElement<_>> = BitMapElement::with_owned_buffer(self.pixel(at), size, rgb);
        match image {
            Some(image) => self.area.draw(&image).map_err(failed),
            None => Err(PlotError::Draw("an image is smaller than its size".into())),
        }
    }

    /// Completes the drawing.
    pub fn finish(&self) -> Result<(), PlotError> {
        self.area.present().map_err(failed)
    }

    fn pixel(&self, (x, y): Point) -> Point {
        (x * self.scale, y * self.scale)
    }

    fn thick(&self, width: i32) -> u32 {
        (width * self.scale).unsigned_abs()
    }
}

fn failed(error: impl std::error::Error) -> PlotError {
    PlotError::Draw(error.to_string())
}
