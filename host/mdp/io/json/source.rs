//! The text of a document, with two readers: serde_json, byte by byte, and [`Source::numbers`], which takes the elements
//! of long arrays from under it.
//!
//! That works because serde_json, whose reader is one of single bytes, has taken no more than the delimiter when it has
//! read a number, and looks at nothing before it. If the delimiter is a comma, then any number of elements, each with
//! *its* comma, can be left out: serde_json finds the next element where it expects one. Hence all that is not a number
//! and a comma is judged by serde_json alone, and errors are its own; only their places need to be
//! [translated](Source::place).

use std::cell::RefCell;
use std::io::{self, Read};
use std::mem::MaybeUninit;

use memchr::{memchr, memchr_iter, memrchr};
use rayon::prelude::*;

use super::scan::Scan;

/// Bytes read at a time: enough for the tasks of many cores.
const BUFFER: usize = 1 << 22;

/// Bytes that one task scans.
const PIECE: usize = 1 << 17;

/// Bytes scanned first. While they hold nothing but numbers, as many again.
const FIRST: usize = 1 << 12;

/// A document as it is read, in memory that does not depend on its length.
pub struct Source<'r>(RefCell<Inner<'r>>);

struct Inner<'r> {
    reader: &'r mut dyn Read,
    buffer: Vec<u8>,
    /// What of the buffer is still to be read.
    start: usize,
    end: usize,
    /// Why the reader failed, until that is told.
    failure: Option<io::Error>,
    /// The last byte that serde_json got.
    last: u8,
    /// Where serde_json thinks that it is, and where it is.
    seen: Place,
    place: Place,
    /// The same after the last elements that were left out.
    skip: (Place, Place),
}

/// A place in a document: the byte just read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// Bytes from 1; 0 at the start of a line.
    pub column: usize,
}

impl Place {
    const START: Self = Self { line: 1, column: 0 };

    /// The place `bytes` bytes later, with `lines` line ends among them, and `column` bytes after the last.
    fn advance(&mut self, Extent { bytes, lines, column, .. }: Extent) {
        self.line += lines;
        self.column = if lines == 0 { self.column + bytes } else { column };
    }
}

impl<'r> Source<'r> {
    pub fn new(reader: &'r mut dyn Read) -> Self {
        Self(RefCell::new(Inner {
            reader,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            failure: None,
            last: 0,
            seen: Place::START,
            place: Place::START,
            skip: (Place::START, Place::START),
        }))
    }

    /// Where serde_json's `line` and `column` are, if neither is before the last elements that were left out.
    pub fn place(&self, line: usize, column: usize) -> Place {
        let (seen, place) = self.0.borrow().skip;
        Place {
            line: line + place.line - seen.line,
            column: if line == seen.line { column + place.column - seen.column } else { column },
        }
    }

    /// Moves elements of an array to `array`, if serde_json has just read one, and the comma after it: all that come
    /// next with their commas, but neither the last nor any that is out of the ordinary.
    pub fn numbers<T: Scan>(&self, array: &mut Vec<T>) {
        let mut inner = self.0.borrow_mut();
        if inner.last == b',' {
            inner.numbers(array);
        }
    }
}

impl Read for &Source<'_> {
    /// One byte: serde_json must not take more than it needs.
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.0.borrow_mut();
        if inner.start == inner.end {
            inner.fill();
        }
        let Some(&byte) = inner.buffer[inner.start..inner.end].first() else {
            return inner.failure.take().map_or(Ok(0), Err);
        };
        let Some(target) = target.first_mut() else { return Ok(0) };
        *target = byte;
        inner.start += 1;
        inner.last = byte;
        let extent = Extent { bytes: 1, lines: usize::from(byte == b'\n'), ..Extent::default() };
        inner.seen.advance(extent);
        inner.place.advance(extent);
        Ok(1)
    }
}

impl Inner<'_> {
    /// Reads until the buffer is full or nothing is left.
    fn fill(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.failure.is_none() && self.end < self.buffer.len() {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.failure = Some(error),
            }
        }
    }

    fn numbers<T: Scan>(&mut self, array: &mut Vec<T>) {
        let mut window = FIRST;
        loop {
            if self.end - self.start < window {
                self.fill();
            }
            let text = &self.buffer[self.start..self.end];
            let text = &text[..text.len().min(window)];
            let (text, closed) = match memchr(b']', text) {
                Some(end) => (&text[..end], true),
                None => (text, false),
            };
            // None where an element is longer than the window.
            let Some(last) = memrchr(b',', text) else { return };
            let elements = &text[..=last];
            let whole = elements.len();
            let taken = scan_all(elements, array);
            self.start += taken.bytes;
            self.place.advance(taken);
            self.skip = (self.seen, self.place);
            if closed || taken.bytes < whole {
                return;
            }
            window = (2 * window).min(self.buffer.len());
        }
    }
}

/// What elements of an array take.
#[derive(Clone, Copy, Default)]
struct Extent {
    elements: usize,
    bytes: usize,
    /// Line ends.
    lines: usize,
    /// Bytes after the last line end, if there is one.
    column: usize,
}

/// Appends the elements of `text`, each with a comma after it, up to the first that is out of the ordinary.
fn scan_all<T: Scan>(text: &[u8], array: &mut Vec<T>) -> Extent {
    let pieces: Vec<_> = pieces(text).into_par_iter().map(|piece| (piece, memchr_iter(b',', piece).count())).collect();
    array.reserve(pieces.iter().map(|(_, elements)| elements).sum());
    let mut rest = array.spare_capacity_mut();
    let tasks: Vec<_> = pieces
        .into_iter()
        .map(|(piece, elements)| (piece, rest.split_off_mut(..elements).unwrap_or_default()))
        .collect();
    let extents: Vec<_> = tasks.into_par_iter().map(|(piece, target)| (scan(piece, target), piece.len())).collect();

    let mut sum = Extent::default();
    for (extent, length) in extents {
        sum.elements += extent.elements;
        sum.bytes += extent.bytes;
        sum.lines += extent.lines;
        sum.column = if extent.lines == 0 { sum.column + extent.bytes } else { extent.column };
        if extent.bytes < length {
            break;
        }
    }
    // SAFETY: the spare capacity was reserved, and of it the first `sum.elements` are written: those of all pieces but
    // the last that counts, in a row, and then the first of that one.
    unsafe { array.set_len(array.len() + sum.elements) };
    sum
}

/// Splits a text that ends with a comma at others.
fn pieces(mut text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let comma = text.get(PIECE..).and_then(|rest| memchr(b',', rest));
        let (piece, rest) = text.split_at(comma.map_or(text.len(), |comma| PIECE + comma + 1));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

/// Scans one element after the other, as many as `target` holds: as there are commas. Those that the result counts are
/// written, from the first.
fn scan<T: Scan>(text: &[u8], target: &mut [MaybeUninit<T>]) -> Extent {
    let (mut bytes, mut elements) = (0, 0);
    for element in target {
        let start = bytes + white(&text[bytes..]);
        let Some((number, length)) = T::scan(&text[start..]) else { break };
        let end = start + length;
        let comma = end + white(&text[end..]);
        if text.get(comma) != Some(&b',') {
            break;
        }
        element.write(number);
        elements += 1;
        bytes = comma + 1;
    }
    let column = memrchr(b'\n', &text[..bytes]).map_or(0, |last| bytes - last - 1);
    Extent { elements, bytes, lines: memchr_iter(b'\n', &text[..bytes]).count(), column }
}

/// The length of the white space that `text` begins with.
#[inline]
fn white(text: &[u8]) -> usize {
    text.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::super::{Error, read};
    use super::*;

    /// Gives a text in parts of random lengths, and fails at its end if it is to.
    struct Parts<'t>(&'t [u8], ChaCha8Rng, bool);

    impl Read for Parts<'_> {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() && self.2 {
                return Err(io::Error::other("the cable is out"));
            }
            let part = target.len().min(1 + self.1.next_u32() as usize % 100_000);
            self.0.read(&mut target[..part])
        }
    }

    fn parts(text: &str, fails: bool) -> Parts<'_> {
        Parts(text.as_bytes(), ChaCha8Rng::seed_from_u64(text.len() as u64), fails)
    }

    /// A chain of `states` states with long arrays in all styles: the indices are `[…]`'s content.
    fn chain(states: usize, indices: &str) -> String {
        let row_ptr: Vec<_> = (0..=states).map(|row| row.to_string()).collect();
        let ones = ["1", "1.0", "10e-1", "0.1E+1", "1000000000000000000000e-21"];
        let data: Vec<_> = (0..states).map(|row| ones[row % ones.len()]).collect();
        let (row_ptr, data) = (row_ptr.join(",\n"), data.join(", "));
        format!(
            r#"{{"S":{states},"A":1,"gamma":0.5,"P":{{"indptr":[{row_ptr}],"data":[ {data} ],"indices":[{indices}]}}}}"#
        )
    }

    /// Numbers from 0, with white space of all kinds about the commas.
    fn numbers(count: usize) -> Vec<String> {
        let style = |n: usize| match n {
            n if n % 1000 == 0 => format!("\n\t {n} "),
            n if n % 7 == 0 => format!(" {n}"),
            n if n % 11 == 0 => format!("\r\n{n}"),
            n => n.to_string(),
        };
        (0..count).map(style).collect()
    }

    const STATES: usize = 700_000;

    #[test]
    fn long_arrays_are_read_whole() {
        let mdp = read(parts(&chain(STATES, &numbers(STATES).join(",")), false), "text".into()).unwrap();
        assert!(mdp.transitions.col[..].iter().copied().eq(0..STATES as u32));
        assert!(mdp.transitions.row_ptr[..].iter().copied().eq(0..=STATES as u64));
        assert!(mdp.transitions.val[..].iter().all(|&p| p == 1.0));
    }

    #[test]
    fn errors_in_long_arrays_have_their_places() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for (found, what) in [
            ("\"x\"", "found string \"x\", expected a column index"),
            ("-4", "found -4, expected a column index"),
            ("4294967296", "found 4294967296, expected a column index"),
            ("0.5", "found 0.5, expected a column index"),
            ("01", "invalid number"),
            ("", "expected value"),
            ("7 7", "expected `,` or `]`"),
        ] {
            for position in [0, 1, random.next_u32() as usize % STATES, STATES - 1] {
                let mut elements = numbers(STATES);
                elements[position] = found.to_owned();
                let before = chain(STATES, &(elements[..position].join(",") + if position == 0 { "" } else { "," }));
                let text = chain(STATES, &elements.join(","));
                // Where serde_json alone is when it finds that.
                let read_all = serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|e| (e.line(), e.column()));
                let end = before.len() - "]}}".len() + found.len();
                let line = 1 + text[..end].matches('\n').count();
                let place = (line, end - text[..end].rfind('\n').map_or(0, |last| last + 1));
                // A number is known when the byte after it was seen.
                let past = usize::from(found.ends_with(|c: char| c.is_ascii_digit()));
                let (line, column) = read_all.err().unwrap_or((place.0, place.1 + past));
                let error = read(parts(&text, false), "text".into()).err().unwrap().to_string();
                let what = if found.is_empty() && position == STATES - 1 { "trailing comma" } else { what };
                let position = if found == "7 7" { position + 1 } else { position };
                assert_eq!(error, format!("text:{line}:{column}: P.indices[{position}]: {what}"));
            }
        }
    }

    #[test]
    fn what_cannot_be_read_says_so() {
        let text = chain(STATES, &numbers(STATES).join(","));
        for end in [10, text.len() / 2, text.len() - 5] {
            let error = read(parts(&text[..end], true), "text".into()).err().unwrap();
            assert!(matches!(error, Error::Read { .. }), "{error}");
            let error = read(parts(&text[..end], false), "text".into()).err().unwrap();
            assert!(error.to_string().contains("EOF while parsing"), "{error}");
        }
    }
}
