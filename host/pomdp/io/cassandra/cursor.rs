//! Tokeniser: words, numbers and signs of a text, without copies.

use crate::io::fault::Fault;
use warpkov_common::io::json::digits::Scan;
use warpkov_common::io::lines::quoted;

/// A text and the present byte offset.
#[derive(Default)]
pub struct Cursor<'t> {
    text: &'t [u8],
    /// Offset of the next byte.
    pub at: usize,
}

/// Keywords that start a section, if a colon follows.
pub const SECTIONS: [&[u8]; 9] =
    [b"discount", b"values", b"states", b"actions", b"observations", b"start", b"T", b"O", b"R"];

/// Bytes that end a word: white space, colon, comment and wildcard.
const ENDS: [bool; 256] = {
    let mut ends = [false; 256];
    let mut byte = 0;
    while byte <= b' ' as usize {
        ends[byte] = true;
        byte += 1;
    }
    ends[b':' as usize] = true;
    ends[b'#' as usize] = true;
    ends[b'*' as usize] = true;
    ends
};

impl<'t> Cursor<'t> {
    /// A cursor at the beginning of the text, after a byte order mark.
    pub fn new(text: &'t [u8]) -> Self {
        Self { text, at: if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 } }
    }

    /// Skips white space and comments; returns the next byte.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at)? {
                0..=b' ' => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                &byte => return Some(byte),
            }
        }
    }

    /// Skips white space and comments; returns the offset of the next byte.
    #[inline]
    pub fn place(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Consumes a colon, if it is next.
    #[inline]
    pub fn takes_colon(&mut self) -> bool {
        let next = self.peek() == Some(b':');
        self.at += usize::from(next);
        next
    }

    /// Consumes a colon; an error if it is not next.
    pub fn colon(&mut self) -> Result<(), Fault> {
        if self.takes_colon() { Ok(()) } else { Err(self.unexpected("`:`")) }
    }

    /// Consumes a word, up to white space, colon, comment or wildcard; or a single colon or wildcard. Empty at the end
    /// of the text.
    #[inline]
    pub fn word(&mut self) -> &'t [u8] {
        if self.peek().is_none() {
            return &[];
        }
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|&byte| ENDS[byte as usize]).unwrap_or(rest.len()).max(1);
        self.at += length;
        &rest[..length]
    }

    /// The next word, without consuming it.
    pub fn next_word(&mut self) -> &'t [u8] {
        let before = self.at;
        let word = self.word();
        self.at = before;
        word
    }

    /// Consumes the next word if it equals `word`.
    pub fn takes(&mut self, word: &[u8]) -> bool {
        let before = self.at;
        let found = self.word() == word;
        if !found {
            self.at = before;
        }
        found
    }

    /// Consumes all words before the next section or the end of the file. Returns them with their offsets.
    pub fn names(&mut self) -> Vec<(usize, &'t [u8])> {
        let mut names = Vec::new();
        loop {
            let at = self.place();
            let word = self.word();
            let begins = SECTIONS.contains(&word) && {
                let next = self.next_word();
                next == b":" || word == b"start" && matches!(next, b"include" | b"exclude")
            };
            if word.is_empty() || begins {
                self.at = at;
                return names;
            }
            names.push((at, word));
        }
    }

    /// Consumes an unsigned number.
    #[inline]
    pub fn number(&mut self, expected: &str) -> Result<f64, Fault> {
        self.peek();
        let rest = &self.text[self.at..];
        if let Some((number, length)) = f64::scan(rest)
            && rest[0] != b'-'
            && rest.get(length).is_none_or(|&byte| ENDS[byte as usize])
        {
            self.at += length;
            return Ok(number);
        }
        self.rare_number(expected)
    }

    /// Consumes numbers that [`Scan`] rejects, such as `1.`, `.5` and `007`.
    fn rare_number(&mut self, expected: &str) -> Result<f64, Fault> {
        let word = self.next_word();
        let number = match word {
            [b'0'..=b'9' | b'.', rest @ ..] if rest.iter().all(|byte| b"0123456789.eE+-".contains(byte)) => {
                str::from_utf8(word).ok().and_then(|text| text.parse().ok()).filter(|number: &f64| number.is_finite())
            }
            _ => None,
        };
        match number {
            Some(number) => {
                self.at += word.len();
                Ok(number)
            }
            None => Err(self.unexpected(expected)),
        }
    }

    /// Consumes a number with an optional sign; white space may separate the two.
    #[inline]
    pub fn signed(&mut self, expected: &str) -> Result<f64, Fault> {
        match self.peek() {
            Some(b'-') => {
                self.at += 1;
                Ok(-self.number(expected)?)
            }
            Some(b'+') => {
                self.at += 1;
                self.number(expected)
            }
            _ => self.number(expected),
        }
    }

    /// Consumes a probability; values up to 1 + `tolerance` count as 1.
    #[inline]
    pub fn probability(&mut self, tolerance: f64) -> Result<f64, Fault> {
        const EXPECTED: &str = "a probability";
        let number = self.number(EXPECTED)?;
        if number <= 1.0 {
            return Ok(number);
        }
        if number <= 1.0 + tolerance {
            return Ok(1.0);
        }
        // The number just consumed gives the offset of the error.
        let length = self.text[..self.at].iter().rev().take_while(|&&byte| !ENDS[byte as usize]).count();
        Err(Fault::new(self.at - length, format!("found {number}, expected a probability")))
    }

    /// A fault at the next word.
    #[cold]
    pub fn unexpected(&mut self, expected: &str) -> Fault {
        let at = self.place();
        let word = self.next_word();
        let found = match word {
            [] => "the file ends".to_owned(),
            _ => format!("found `{}`", quoted(word)),
        };
        Fault::new(at, format!("{found}, expected {expected}"))
    }
}
