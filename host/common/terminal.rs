//! What files say, as a terminal may show it.

use std::fmt::Write as _;

/// What a message quotes at most, in characters.
const QUOTED: usize = 60;

/// Characters that `escape_debug` marks with a backslash, although every terminal shows them as they are.
const PLAIN: [char; 3] = ['"', '\'', '\\'];

/// `text` with all characters that no terminal shows, or that it would obey, as `\n` or `\u{1b}`: control characters, marks that
/// turn the direction of writing, and invisible ones.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(PLAIN) {
        let body = part.strip_suffix(PLAIN).unwrap_or(part);
        shown.extend(body.escape_debug());
        shown.push_str(&part[body.len()..]);
    }
    shown
}

/// `bytes` as a message quotes them: [`escaped`], bytes that are not UTF-8 as `\xff`, and cut if they are long.
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

/// `text` without its middle, if it has more than `most` characters.
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
    fn nothing_is_obeyed() {
        assert_eq!(escaped("γ = \"a\\b\", it's 1/3 …"), "γ = \"a\\b\", it's 1/3 …");
        assert_eq!(escaped("\x1b]0;title\x07\u{9b}2J\r\n\t\0"), "\\u{1b}]0;title\\u{7}\\u{9b}2J\\r\\n\\t\\0");
        assert_eq!(escaped("a\u{202e}b\u{2066}c\u{200b}d"), "a\\u{202e}b\\u{2066}c\\u{200b}d");
        // Letters of several marks stay whole.
        assert_eq!(escaped("re\u{301}sume\u{301}"), "re\u{301}sume\u{301}");
    }

    #[test]
    fn what_is_quoted_is_short() {
        assert_eq!(quoted(b"a\xffb\xc3\x1b"), "a\\xffb\\xc3\\u{1b}");
        assert_eq!(quoted("é".repeat(60).as_bytes()), "é".repeat(60));
        assert_eq!(quoted("é".repeat(61).as_bytes()), "é".repeat(60) + "…");
        assert_eq!(quoted(&[0xff; 1000]), "\\xff".repeat(60) + "…");
        assert_eq!(cut("abcdefghij", 10), "abcdefghij");
        assert_eq!(cut("abcdefghijk", 8), "abcdef … jk");
    }
}
