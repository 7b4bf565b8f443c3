//! Reports: text for people, one JSON object for programs, and files of results.

use std::io::{self, Write};

use serde::Serialize;

/// A report in two forms.
pub trait Report {
    /// Writes the report for people.
    ///
    /// # Errors
    /// Those of `out`.
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Writes one JSON object and a line end.
    ///
    /// # Errors
    /// Those of `out`.
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()>;

    /// The result in one line, which is all that `--quiet` prints: what is guaranteed, or else the estimate. `None` for a report that
    /// has no such option.
    fn guarantee(&self) -> Option<String> {
        None
    }
}

/// A report whose results also go to a file of their own.
pub trait Results: Report {
    /// The formats of that file.
    type Format: Copy;

    /// Writes the results alone, in one of these formats.
    ///
    /// # Errors
    /// Those of `out`, and if the format has no place for the results.
    fn write_as(&self, format: Self::Format, out: &mut dyn Write) -> io::Result<()>;
}

/// Writes `object` as JSON, and a line end.
///
/// # Errors
/// Those of `out`.
pub fn write_object(out: &mut dyn Write, object: &(impl Serialize + ?Sized)) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    writeln!(out)
}
