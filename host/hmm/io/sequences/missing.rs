//! Missing and ambiguous observations.

use warpkov_common::choice::choice;

choice! {
    /// Treatment of missing observations, such as `NA`, and of ambiguous ones, such as the `N` of DNA.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Missing {
        /// Fail with an error that names the position.
        #[default]
        Refuse = "refuse",
        /// Sum bⱼ over the symbols that the observation may be, or integrate bⱼ over the missing components of a vector.
        Marginalise = "marginalise",
        /// Split the sequence in two at the observation.
        Split = "split",
        /// Remove the observation; its neighbours become adjacent.
        Skip = "skip",
    }
}

/// Placeholder for a missing symbol while a file is read.
pub const MISSING: u32 = u32::MAX;

/// Hint appended to messages about missing observations.
pub const HINT: &str = " (option missing selects a treatment)";

/// Whether a text is a customary marker of a missing observation.
pub fn is_marker(text: &[u8]) -> bool {
    const MARKERS: [&[u8]; 11] = [b"", b"na", b"n/a", b"nan", b"-nan", b"null", b"none", b"<na>", b"?", b".", b"-"];
    MARKERS.iter().any(|marker| text.eq_ignore_ascii_case(marker))
}
