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

use super::digits::Scan;

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
    seen: Position,
    place: Position,
    /// The same after the last elements that were left out.
    skip: (Position, Position),
}

/// A place in a document: the byte just read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// Bytes from 1; 0 at the start of a line.
    pub column: usize,
}

impl Position {
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
            seen: Position::START,
            place: Position::START,
            skip: (Position::START, Position::START),
        }))
    }

    /// Where serde_json's `line` and `column` are, if neither is before the last elements that were left out.
    pub fn place(&self, line: usize, column: usize) -> Position {
        let (seen, place) = self.0.borrow().skip;
        Position {
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
    // SAFETY: the spare capacity was reserved, and of it the first `sum.elements` are written: those of all chunks but
    // the last that counts, in a row, and then the first of that one.
    unsafe { array.set_len(array.len() + sum.elements) };
    sum
}

/// Splits a text that ends with a comma at others.
fn chunks(mut text: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    while !text.is_empty() {
        let comma = text.get(PIECE..).and_then(|rest| memchr(b',', rest));
        let (chunk, rest) = text.split_at(comma.map_or(text.len(), |comma| PIECE + comma + 1));
        chunks.push(chunk);
        text = rest;
    }
    chunks
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
