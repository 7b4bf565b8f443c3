//! Plots and their encoding as SVG or PNG.

use std::io::Cursor;

use image::codecs::png::PngEncoder;
use image::imageops::{self, FilterType};
use image::{ColorType, ImageEncoder, RgbImage};
use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend};

use self::canvas::Canvas;

pub mod canvas;
pub mod chart;
pub mod lines;
pub mod panels;
mod ranks;

pub use ranks::draw_ranks;

/// Size of a plot, in units. A unit is one pixel of the final PNG.
const SIZE: (u32, u32) = (1600, 960);

/// A PNG is drawn this many times larger and then reduced, for antialiasing.
const SUPERSAMPLING: u32 = 2;

/// The encoding of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Vector graphics; heat maps are embedded images.
    Svg,
    /// 1600 × 960 pixels.
    Png,
}

/// An error of drawing or encoding a plot.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The embedded font cannot be loaded.
    #[error("cannot load the font of the plot")]
    Font,
    /// Drawing failed.
    #[error("cannot draw the plot: {0}")]
    Draw(String),
    /// Encoding failed.
    #[error("cannot encode the plot")]
    Encode(#[from] image::ImageError),
}

/// A plot.
pub trait Picture {
    /// Draws the plot on a canvas of `SIZE` units.
    fn draw_on<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Result<(), PlotError>;
}

/// Draws and encodes a plot.
pub fn encode(picture: &impl Picture, format: Format) -> Result<Vec<u8>, PlotError> {
    fn drawn<B: DrawingBackend>(backend: B, scale: u32, picture: &impl Picture) -> Result<(), PlotError> {
        let canvas = Canvas::new(backend.into_drawing_area(), scale)?;
        picture.draw_on(&canvas)?;
        canvas.finish()
    }
    canvas::load_font()?;
    match format {
        Format::Svg => {
            let mut text = String::new();
            drawn(SVGBackend::with_string(&mut text, SIZE), 1, picture)?;
            // The backend writes an incomplete media type, and strict viewers then show no image.
            Ok(text.replace("\"data:png;base64,", "\"data:image/png;base64,").into_bytes())
        }
        Format::Png => {
            let (width, height) = (SIZE.0 * SUPERSAMPLING, SIZE.1 * SUPERSAMPLING);
            let mut image = RgbImage::new(width, height);
            drawn(BitMapBackend::with_buffer(&mut image, (width, height)), SUPERSAMPLING, picture)?;
            let image = imageops::resize(&image, SIZE.0, SIZE.1, FilterType::Triangle);
            let mut bytes = Cursor::new(Vec::new());
            PngEncoder::new(&mut bytes).write_image(&image, SIZE.0, SIZE.1, ColorType::Rgb8)?;
            Ok(bytes.into_inner())
        }
    }
}
