//! Syntax errors with their position and an excerpt of the text.

use super::Error;

/// Characters of the line shown on either side of the error.
const SHOWN: usize = 60;

/// A syntax error and its byte offset.
#[derive(Debug)]
pub struct Fault {
    /// Offset in bytes from the beginning of the text.
    pub at: usize,
    /// What was found and what was expected.
    pub message: String,
}

impl Fault {
    /// An error at byte offset `at`.
    #[cold]
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// Converts the error to one of `file` with content `text`, with line, column and excerpt.
    pub fn error(self, file: String, text: &[u8]) -> Error {
        let at = self.at.min(text.len());
        let line = 1 + memchr::memchr_iter(b'\n', &text[..at]).count() as u64;
        let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |length| at + length);
        let before = plain(&text[start.max(at.saturating_sub(4 * SHOWN))..at]);
        let cut = before.chars().count().saturating_sub(SHOWN);
        let before: String = before.chars().skip(cut).collect();
        let after: String = plain(&text[at..end.min(at + 4 * SHOWN)]).chars().take(SHOWN).collect();
        let after = after.trim_end();
        let excerpt = match (before.trim(), after) {
            ("", "") => String::new(),
            _ => format!("\n  {before}{after}\n  {:indent$}^", "", indent = before.chars().count()),
        };
        Error::Place { file, line, column: (at - start + 1) as u64, message: self.message, excerpt }
    }
}

/// The words of a line and their byte offsets; the line begins at offset `start`.
pub fn words(line: &[u8], start: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = start;
    line.split(u8::is_ascii_whitespace).filter_map(move |word| {
        let place = at;
        at += word.len() + 1;
        (!word.is_empty()).then_some((place, word))
    })
}

/// Text with control characters replaced by spaces.
fn plain(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_stands_under_the_place() {
        let text = "T: a\n\tγ x\n".as_bytes();
        let error = Fault::new(9, "found x").error("f".to_owned(), text).to_string();
        assert_eq!(error, "f:2:5: found x\n   γ x\n     ^");
        let long = format!("{}!{}", "a".repeat(1000), "b".repeat(1000));
        let error = Fault::new(1000, "here").error("f".to_owned(), long.as_bytes()).to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[0], "f:1:1001: here");
        assert_eq!(lines[1].find('!'), lines[2].find('^'));
        assert_eq!(lines[1].len(), 2 + 2 * SHOWN);
        assert_eq!(Fault::new(7, "ends").error("f".to_owned(), b"a\n").to_string(), "f:2:1: ends");
    }
}
