//! Line-oriented text: a buffered reader of lines, words and numbers with errors that name the line, and a writer.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::str;

use super::BUFFER;
use super::Error;

pub use crate::terminal::quoted;

/// Longest valid line, in bytes. The limit bounds the memory of the reader.
pub const LONGEST: usize = 1 << 24;

/// A reader of the lines of a text that skips blank lines.
pub struct Lines<R> {
    reader: R,
    file: String,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are read from the file and not yet returned.
    unread: Range<usize>,
    /// Number of the last returned line, from 1.
    number: u64,
}

impl<R: Read> Lines<R> {
    /// Wraps a reader; `file` is its name in errors.
    pub fn new(reader: R, file: String) -> Self {
        Self::behind(0, reader, file)
    }

    /// Wraps a reader of the lines behind the first `number` ones.
    pub fn behind(number: u64, reader: R, file: String) -> Self {
        Self { reader, file, buffer: vec![0; BUFFER], unread: 0..0, number }
    }

    /// The next lines, about `size` bytes or one longer line, and the number of lines before them; `None` at the end of the text.
    pub fn block(&mut self, size: usize) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let unread = loop {
            let unread = &self.buffer[self.unread.clone()];
            let whole = memchr::memrchr(b'\n', unread).filter(|_| unread.len() >= size);
            match whole {
                Some(last) => break self.unread.start..self.unread.start + last + 1,
                None if self.fill()? == 0 => break self.unread.clone(),
                None => {}
            }
        };
        let (before, block) = (self.number, self.buffer[unread.clone()].to_vec());
        self.unread.start = unread.end;
        self.number += memchr::memchr_iter(b'\n', &block).count() as u64;
        Ok((!block.is_empty()).then_some((before, block)))
    }

    /// The next non-blank line, trimmed; `None` at the end of the text.
    #[expect(clippy::should_implement_trait, reason = "a line borrows the reader")]
    pub fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        let line = self.next_whole()?;
        Ok(line.map(|line| Line { text: line.text.trim_ascii(), ..line }))
    }

    /// The next non-blank line with the white space around it; `None` at the end of the text.
    pub fn next_whole(&mut self) -> Result<Option<Line<'_>>, Error> {
        while let Some(line) = self.advance()? {
            if !self.buffer[line.clone()].trim_ascii().is_empty() {
                return Ok(Some(Line { text: &self.buffer[line], file: &self.file, number: self.number }));
            }
        }
        Ok(None)
    }

    /// The error of a file that ends too early.
    pub fn ended(&self, expected: impl Display) -> Error {
        Error::Content { file: self.file.clone(), message: format!("the file ends, expected {expected}") }
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The next line as a range of `buffer`, blank or not, without its line feed.
    fn advance(&mut self) -> Result<Option<Range<usize>>, Error> {
        let mut searched = self.unread.start;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[searched..self.unread.end]) {
                let line = self.unread.start..searched + length;
                self.unread.start = line.end + 1;
                self.number += 1;
                return Ok(Some(line));
            }
            searched = self.unread.len();
            if self.fill()? == 0 {
                let line = self.unread.clone();
                self.unread.start = line.end;
                self.number += 1;
                return Ok((!line.is_empty()).then_some(line));
            }
        }
    }

    /// Moves the unread bytes to the front of the buffer and reads more bytes behind them. Returns the number of new
    /// bytes.
    fn fill(&mut self) -> Result<usize, Error> {
        if self.unread.start > 0 {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.unread.end == self.buffer.len() {
            if self.buffer.len() >= LONGEST {
                let message = format!("a line of more than {LONGEST} bytes");
                return Err(Error::Line { file: self.file.clone(), line: self.number + 1, message });
            }
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.unread.end..]) {
                Ok(bytes) => {
                    self.unread.end += bytes;
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::read(&self.file)(error)),
            }
        }
    }
}

/// A line, or the rest of a partly parsed line.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    text: &'a [u8],
    file: &'a str,
    number: u64,
}

impl<'a> Line<'a> {
    /// The text that is not yet parsed.
    pub fn rest(&self) -> &'a [u8] {
        self.text
    }

    /// The number of the line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Skips `length` bytes and the white space after them.
    pub fn skip(&mut self, length: usize) {
        self.text = self.text[length..].trim_ascii_start();
    }

    /// Takes the next word and skips the white space after it. Empty at the end of the line.
    #[inline]
    pub fn word(&mut self) -> &'a [u8] {
        let length = self.text.iter().position(u8::is_ascii_whitespace).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(length);
        self.text = rest.trim_ascii_start();
        word
    }

    /// Takes the text up to `delimiter`, trimmed, and skips the delimiter. Without a delimiter, takes the rest of the
    /// line.
    #[inline]
    pub fn field(&mut self, delimiter: u8) -> &'a [u8] {
        let length = self.text.iter().position(|&byte| byte == delimiter).unwrap_or(self.text.len());
        let (field, rest) = self.text.split_at(length);
        self.text = rest.get(1..).unwrap_or_default();
        field.trim_ascii()
    }

    /// Parses `text`, a part of this line, as an integer.
    #[inline]
    pub fn integer<T: TryFrom<u64>>(&self, text: &[u8], expected: impl Display) -> Result<T, Error> {
        integer(text).and_then(|number| number.try_into().ok()).ok_or_else(|| self.unexpected(text, expected))
    }

    /// Parses `text` as a state below `states`.
    #[inline]
    pub fn state(&self, text: &[u8], states: u32) -> Result<u32, Error> {
        let state = integer(text).and_then(|number| u32::try_from(number).ok()).filter(|&state| state < states);
        state.ok_or_else(|| self.unexpected(text, format_args!("a state below {states}")))
    }

    /// Parses `text` as a finite decimal number or fraction.
    #[inline]
    pub fn real(&self, text: &[u8], expected: impl Display) -> Result<f64, Error> {
        real(text).ok_or_else(|| self.unexpected(text, expected))
    }

    /// Checks that `bytes` are UTF-8.
    pub fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str, Error> {
        str::from_utf8(bytes).map_err(|_| self.unexpected(bytes, "UTF-8"))
    }

    /// Checks that the line ends here.
    #[inline]
    pub fn finish(&self) -> Result<(), Error> {
        if self.text.is_empty() { Ok(()) } else { Err(self.unexpected(self.text, "the end of the line")) }
    }

    /// The error of an unexpected `text`, a part of this line.
    #[cold]
    pub fn unexpected(&self, text: &[u8], expected: impl Display) -> Error {
        self.error(match text {
            [] => format!("the line ends, expected {expected}"),
            _ => format!("found \"{}\", expected {expected}", quoted(text)),
        })
    }

    /// An error of this line.
    #[cold]
    pub fn error(&self, message: String) -> Error {
        Error::Line { file: self.file.to_owned(), line: self.number, message }
    }
}

/// Parses `text` as a natural number of at most 19 digits, without a sign.
#[inline]
pub fn integer(text: &[u8]) -> Option<u64> {
    // 19 digits fit into a u64.
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter().try_fold(0, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(10 * number + u64::from(digit))
    })
}

/// Parses `text` as a finite number: decimal, or a fraction of two decimal numbers.
#[inline]
pub fn real(text: &[u8]) -> Option<f64> {
    let number = match decimal(text) {
        Some(number) => number,
        None => {
            let slash = text.iter().position(|&byte| byte == b'/')?;
            decimal(text[..slash].trim_ascii())? / decimal(text[slash + 1..].trim_ascii())?
        }
    };
    number.is_finite().then_some(number)
}

#[inline]
fn decimal(text: &[u8]) -> Option<f64> {
    short(text).or_else(|| str::from_utf8(text).ok()?.parse().ok())
}

/// Fast path of [`decimal`]: at most 15 digits and at most one point. Both the digits and the power of ten are exact in
/// f64, so their quotient is correctly rounded (Clinger, *How to Read Floating Point Numbers Accurately*, 1990).
#[inline]
fn short(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    // 15 digits and a point.
    if text.len() > 16 {
        return None;
    }
    let (mut digits, mut count, mut point) = (0u64, 0, None);
    for &byte in text {
        match byte {
            b'0'..=b'9' => (digits, count) = (10 * digits + u64::from(byte - b'0'), count + 1),
            b'.' if point.is_none() => point = Some(count),
            _ => return None,
        }
    }
    match count {
        1..=15 => Some(digits as f64 / POWERS[count - point.unwrap_or(count)]),
        _ => None,
    }
}

/// Extends [`Write`] with text and numbers.
pub trait Put: Write {
    /// Writes a text.
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.write_all(text.as_bytes())
    }

    /// Writes an integer.
    fn integer(&mut self, number: u64) -> io::Result<()> {
        self.write_all(itoa::Buffer::new().format(number).as_bytes())
    }

    /// Writes a finite number in the shortest form that reads back to the same bits.
    fn real(&mut self, number: f64) -> io::Result<()> {
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(number);
        self.text(text.strip_suffix(".0").unwrap_or(text))
    }
}

impl<W: Write + ?Sized> Put for W {}

/// The error of a `--reward` name that the file does not have; `names` are the names in the file.
pub fn no_reward(file: &str, names: &[String], wanted: &str) -> Error {
    let known: Vec<_> = names.iter().map(|name| quoted(name.as_bytes())).collect();
    let found = match &known[..] {
        [] => "no named rewards".to_owned(),
        known => format!("the rewards \"{}\"", known.join("\", \"")),
    };
    let message = format!("found {found}, expected \"{}\"", quoted(wanted.as_bytes()));
    Error::Content { file: file.to_owned(), message }
}

/// The error of a model that a format cannot represent.
pub fn no_place(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn lines_are_found_wherever_reads_end() {
        let long = "x".repeat(3 * BUFFER);
        let text = format!("\n  one two\r\n\n\t{long}\n \n3");
        for slow in [false, true] {
            let reader: Box<dyn Read> = if slow { Box::new(Slow(text.as_bytes())) } else { Box::new(text.as_bytes()) };
            let mut lines = Lines::new(reader, "a".to_owned());
            let mut found = Vec::new();
            while let Some(line) = lines.next().unwrap() {
                found.push((line.number, line.rest().to_vec()));
            }
            assert_eq!(found, [(2, b"one two".to_vec()), (4, long.clone().into_bytes()), (6, b"3".to_vec())]);
        }
    }

    /// Blocks are the text, cut at line ends.
    #[test]
    fn blocks_are_whole_lines() {
        let text: String = (0..300).map(|i| format!("{}\n", "x".repeat(i * i % 97))).collect();
        for text in [&text[..], text.trim_end(), "", "\n", "a"] {
            for size in [1, 2, 100, 5000, 1 << 20] {
                for slow in [false, true] {
                    let bytes = text.as_bytes();
                    let reader: Box<dyn Read> = if slow { Box::new(Slow(bytes)) } else { Box::new(bytes) };
                    let (mut lines, mut joined) = (Lines::new(reader, "a".to_owned()), Vec::<u8>::new());
                    while let Some((before, block)) = lines.block(size).unwrap() {
                        assert_eq!(before, joined.iter().filter(|&&byte| byte == b'\n').count() as u64);
                        joined.extend(&block);
                        assert!(joined.len() == text.len() || block.ends_with(b"\n"));
                    }
                    assert_eq!(joined, bytes);
                }
            }
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let error = Lines::new(io::repeat(b'x'), "a".to_owned()).next().err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("a:1: a line of more than 16777216 bytes"));
    }

    #[test]
    fn numbers_are_parsed() {
        assert_eq!(integer(b"4294967295"), Some(u64::from(u32::MAX)));
        assert!([&b""[..], b"-1", b"+1", b"1.0", b"99999999999999999999", b"1x"].iter().all(|x| integer(x).is_none()));
        assert_eq!([&b".5"[..], b"-1e-3", b"23/10", b"1 / 3"].map(real), [0.5, -1e-3, 2.3, 1.0 / 3.0].map(Some));
        assert!(
            [&b""[..], b"x", b"nan", b"inf", b"1e999", b"1/0", b"1/", b"/", b"0x1"].iter().all(|x| real(x).is_none())
        );
    }

    #[test]
    fn short_numbers_equal_the_standard_library() {
        for text in ["0", "1", "0.1", ".5", "5.", "0.30000000000000", "999999999999999", "0.00000000000001", "123.456"]
        {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(short(text.as_bytes()).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
        assert!(
            ["", ".", "1.2.3", "-1", "1e3", "1234567890123456"].iter().all(|text| short(text.as_bytes()).is_none())
        );
    }

    #[test]
    fn written_numbers_are_read_back() {
        for number in [0.0, -0.0, 1.0, 0.1, -2.5, 1.0 / 3.0, 1e-300, 1e300, f64::MIN_POSITIVE, 12345678.9] {
            let mut text = Vec::new();
            text.real(number).unwrap();
            assert_eq!(real(&text).map(f64::to_bits), Some(number.to_bits()), "{}", quoted(&text));
        }
    }
}
