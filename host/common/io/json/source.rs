//! A document with two readers: serde_json reads it byte by byte, and [`Source::numbers`] reads the elements of long
//! arrays in bulk and in parallel.
//!
//! serde_json reads single bytes. After a number it has consumed exactly one delimiter. If this delimiter is a comma,
//! [`Source::numbers`] may remove any number of following elements, each with the comma after it: serde_json then finds
//! another element, as it expects. serde_json alone reads everything except numbers followed by commas, so all errors
//! are its own. [`Source::place`] converts serde_json's positions, which do not count the removed elements.

use std::cell::RefCell;
use std::io::{self, Read};
use std::mem::MaybeUninit;

use memchr::{memchr, memchr_iter, memrchr};
use rayon::prelude::*;

use super::digits::Scan;

/// Size of the buffer, in bytes: 32 chunks, for as many cores.
const BUFFER: usize = 1 << 22;

/// Bytes that one task scans.
const CHUNK: usize = 1 << 17;

/// Size of the first window of a bulk read, in bytes. The window doubles while it holds only numbers.
const FIRST: usize = 1 << 12;

/// A streamed document. Its memory does not depend on the length of the document.
pub struct Source<'r>(RefCell<Inner<'r>>);

struct Inner<'r> {
    reader: &'r mut dyn Read,
    buffer: Vec<u8>,
    /// `buffer[start..end]` is not yet consumed.
    start: usize,
    end: usize,
    /// An error of the reader that serde_json has not yet received.
    failure: Option<io::Error>,
    /// The last byte that serde_json read.
    last: u8,
    /// The position that serde_json counts, without the removed elements.
    seen: Position,
    /// The true position in the document.
    place: Position,
    /// `seen` and `place` after the last bulk read.
    skip: (Position, Position),
}

/// A position in a document: that of the last byte read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 at the start of a line.
    pub column: usize,
}

impl Position {
    const START: Self = Self { line: 1, column: 0 };

    /// Advances by `bytes` bytes that contain `lines` line ends, with `column` bytes after the last line end.
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
            seen: Position::START,
            place: Position::START,
            skip: (Position::START, Position::START),
        }))
    }

    /// The true position of serde_json's `line` and `column`. Requires that they are not before the last bulk read.
    pub fn place(&self, line: usize, column: usize) -> Position {
        let (seen, place) = self.0.borrow().skip;
        Position {
            line: line + place.line - seen.line,
            column: if line == seen.line { column + place.column - seen.column } else { column },
        }
    }

    /// Bulk read: if serde_json has just consumed a comma, moves the next elements and their commas to `array`. Stops
    /// before the last element of the JSON array, which has no comma, and before the first number that [`Scan`]
    /// refuses.
    pub fn numbers<T: Scan>(&self, array: &mut Vec<T>) {
        let mut inner = self.0.borrow_mut();
        if inner.last == b',' {
            inner.numbers(array);
        }
    }
}

impl Read for &Source<'_> {
    /// Reads one byte, so that serde_json never reads ahead.
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
    /// Reads until the buffer is full or the document ends.
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
            // No comma: the element is longer than the window.
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

/// The size of a run of array elements in the text.
#[derive(Clone, Copy, Default)]
struct Extent {
    elements: usize,
    bytes: usize,
    /// Number of line ends.
    lines: usize,
    /// Number of bytes after the last line end, if there is one.
    column: usize,
}

/// Appends the elements of `text`, each followed by a comma, up to the first number that [`Scan`] refuses.
fn scan_all<T: Scan>(text: &[u8], array: &mut Vec<T>) -> Extent {
    let chunks: Vec<_> = chunks(text).into_par_iter().map(|chunk| (chunk, memchr_iter(b',', chunk).count())).collect();
    array.reserve(chunks.iter().map(|(_, elements)| elements).sum());
    let mut rest = array.spare_capacity_mut();
    let tasks: Vec<_> = chunks
        .into_iter()
        .map(|(chunk, elements)| (chunk, rest.split_off_mut(..elements).unwrap_or_default()))
        .collect();
    let extents: Vec<_> = tasks.into_par_iter().map(|(chunk, target)| (scan(chunk, target), chunk.len())).collect();

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
    // SAFETY: `reserve` has allocated one element per comma. `scan` writes the first `extent.elements` of its slice.
    // All chunks before the last one in `sum` are complete, so that the first `sum.elements` of the spare capacity are
    // contiguous and written.
    unsafe { array.set_len(array.len() + sum.elements) };
    sum
}

/// Splits a text that ends with a comma into chunks of about [`CHUNK`] bytes that end with a comma.
fn chunks(mut text: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    while !text.is_empty() {
        let comma = text.get(CHUNK..).and_then(|rest| memchr(b',', rest));
        let (chunk, rest) = text.split_at(comma.map_or(text.len(), |comma| CHUNK + comma + 1));
        chunks.push(chunk);
        text = rest;
    }
    chunks
}

/// Scans at most `target.len()` elements, one per comma in `text`. Initialises exactly the first `elements` of the
/// returned extent.
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

/// The length of the white space at the start of `text`.
#[inline]
fn white(text: &[u8]) -> usize {
    text.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')).count()
}
