//! Text from files and file names, made safe to print on a terminal.

use std::fmt::Write as _;

/// Longest quotation in a message, in characters.
const QUOTED: usize = 60;

/// Characters that `escape_debug` escapes although every terminal prints them unchanged.
const PRINTABLE: [char; 3] = ['"', '\'', '\\'];

/// `text` with escapes such as `\n` or `\u{1b}` in place of characters that a terminal interprets or hides: control
/// characters, direction marks, and invisible characters.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(PRINTABLE) {
        let body = part.strip_suffix(PRINTABLE).unwrap_or(part);
        shown.extend(body.escape_debug());
        shown.push_str(&part[body.len()..]);
    }
    shown
}

/// `bytes` as a quotation in a message: [`escaped`], with invalid UTF-8 as `\xff`, and cut after 60 characters.
#[must_use]
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut left = QUOTED;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars().take(left) {
            text.push(character);
        }
        let count = chunk.valid().chars().take(left + 1).count();
        if count > left {
            return escaped(&text) + "…";
        }
        left -= count;
        let invalid = chunk.invalid();
        if !invalid.is_empty() {
            if left == 0 {
                return escaped(&text) + "…";
            }
            left -= 1;
            for byte in invalid {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    escaped(&text)
}

/// `text` with ` … ` in place of its middle if it has more than `most` characters.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let (first, last) = (most - most / 4, most / 4);
    let start: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(count - last).collect();
    format!("{start} … {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escaped("γ = \"a\\b\", it's 1/3 …"), "γ = \"a\\b\", it's 1/3 …");
        assert_eq!(escaped("\x1b]0;title\x07\u{9b}2J\r\n\t\0"), "\\u{1b}]0;title\\u{7}\\u{9b}2J\\r\\n\\t\\0");
        assert_eq!(escaped("a\u{202e}b\u{2066}c\u{200b}d"), "a\\u{202e}b\\u{2066}c\\u{200b}d");
        // Combining marks stay with their letters.
        assert_eq!(escaped("re\u{301}sume\u{301}"), "re\u{301}sume\u{301}");
    }

    #[test]
    fn quotations_are_cut() {
        assert_eq!(quoted(b"a\xffb\xc3\x1b"), "a\\xffb\\xc3\\u{1b}");
        assert_eq!(quoted("é".repeat(60).as_bytes()), "é".repeat(60));
        assert_eq!(quoted("é".repeat(61).as_bytes()), "é".repeat(60) + "…");
        assert_eq!(quoted(&[0xff; 1000]), "\\xff".repeat(60) + "…");
        assert_eq!(cut("abcdefghij", 10), "abcdefghij");
        assert_eq!(cut("abcdefghijk", 8), "abcdef … jk");
    }
}
