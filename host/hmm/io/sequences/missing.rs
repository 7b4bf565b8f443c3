//! Observations that are missing, or one of several.

use crate::common::choice::choice;

choice! {
    /// What is done with observations that a file has not, as `NA`, or not exactly, as the `N` of DNA.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Missing {
        /// An error that names the place.
        #[default]
        Refuse = "refuse",
        /// Sum over the symbols that it may be: bⱼ is the sum of theirs. For symbols, and not to train.
        Marginalise = "marginalise",
        /// End the sequence before it, and begin another one behind it.
        Split = "split",
        /// Leave it out, as if what is behind it followed at once.
        Skip = "skip",
    }
}

/// The symbol of an observation that is missing, while a file is read.
pub const MISSING: u32 = u32::MAX;

/// Where to look, in a message.
pub const HINT: &str = " (option missing says how to read it)";

/// Whether a text is what programs write in place of an observation.
pub fn is_marker(text: &[u8]) -> bool {
    const MARKERS: [&[u8]; 10] = [b"", b"na", b"n/a", b"nan", b"-nan", b"null", b"none", b"<na>", b"?", b"."];
    MARKERS.iter().any(|marker| text.eq_ignore_ascii_case(marker))
}
