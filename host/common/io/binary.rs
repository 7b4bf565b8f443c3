//! Numbers of binary formats: conversion from every width, byte order and type, and errors.

use std::fmt::Display;
use std::io::{self, Read, Write};

use super::Error;

/// Bytes converted at a time.
const BLOCK: usize = 1 << 16;

/// An error of content that violates its format.
pub fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Prefixes an error with the part of the file.
pub fn within(part: impl Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| match error.kind() {
        io::ErrorKind::InvalidData => invalid(format!("{part}: {error}")),
        io::ErrorKind::UnexpectedEof => invalid(format!("{part}: the file ends in it")),
        _ => error,
    }
}

/// Adds the file's name to an error.
pub fn of_file(file: String) -> impl FnOnce(io::Error) -> Error {
    move |error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            Error::Content { file, message: error.to_string() }
        }
        _ => Error::read(file)(error),
    }
}

/// The encoding of a number in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoding {
    /// Floating point or integer.
    pub kind: Kind,
    /// Bytes: 1, 2, 4 or 8; for [`Kind::Float`], 4 or 8.
    pub size: usize,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

/// The type of a number in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// IEEE 754 floating point.
    Float,
    /// Signed integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
}

impl Encoding {
    /// Little-endian numbers.
    pub const fn little(kind: Kind, size: usize) -> Self {
        Self { kind, size, big_endian: false }
    }
}

/// The type of a number in memory. Each conversion returns `None` if the type cannot represent the number.
pub trait Element: Copy {
    /// Description of the valid numbers, for errors.
    const EXPECTED: &'static str;

    /// The number, from a signed integer.
    fn from_signed(number: i64) -> Option<Self>;
    /// The number, from an unsigned integer.
    fn from_unsigned(number: u64) -> Option<Self>;
    /// The number, from a floating-point number.
    fn from_float(number: f64) -> Option<Self>;
}

impl Element for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_signed(number: i64) -> Option<Self> {
        Some(number as f64)
    }
    fn from_unsigned(number: u64) -> Option<Self> {
        Some(number as f64)
    }
    fn from_float(number: f64) -> Option<Self> {
        Some(number)
    }
}

impl Element for u64 {
    const EXPECTED: &'static str = "an integer from 0 to 2⁶⁴ − 1";

    fn from_signed(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
    fn from_unsigned(number: u64) -> Option<Self> {
        Some(number)
    }
    fn from_float(_: f64) -> Option<Self> {
        None
    }
}

impl Element for i64 {
    const EXPECTED: &'static str = "an integer from −2⁶³ to 2⁶³ − 1";

    fn from_signed(number: i64) -> Option<Self> {
        Some(number)
    }
    fn from_unsigned(number: u64) -> Option<Self> {
        number.try_into().ok()
    }
    fn from_float(_: f64) -> Option<Self> {
        None
    }
}

impl Element for u32 {
    const EXPECTED: &'static str = "an integer from 0 to 2³² − 1";

    fn from_signed(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
    fn from_unsigned(number: u64) -> Option<Self> {
        number.try_into().ok()
    }
    fn from_float(_: f64) -> Option<Self> {
        None
    }
}

/// Reads `count` numbers.
pub fn elements<T: Element>(reader: &mut (impl Read + ?Sized), encoding: Encoding, count: usize) -> io::Result<Vec<T>> {
    let mut elements = Vec::new();
    let mut block = vec![0; BLOCK];
    while elements.len() < count {
        let bytes = &mut block[..(count - elements.len()).min(BLOCK / encoding.size) * encoding.size];
        reader.read_exact(bytes)?;
        decode(bytes, encoding, &mut elements)?;
    }
    // Without this, the arrays of a large model could keep up to twice their size.
    elements.shrink_to_fit();
    Ok(elements)
}

/// Appends the numbers in `bytes` to `elements`.
pub fn decode<T: Element>(bytes: &[u8], encoding: Encoding, elements: &mut Vec<T>) -> io::Result<()> {
    let Encoding { kind, size, big_endian } = encoding;
    match (kind, size) {
        (Kind::Float, 8) => each(bytes, big_endian, elements, f64::from_le_bytes, T::from_float),
        (Kind::Float, 4) => each(bytes, big_endian, elements, f32::from_le_bytes, |x| T::from_float(x.into())),
        (Kind::Signed, 8) => each(bytes, big_endian, elements, i64::from_le_bytes, T::from_signed),
        (Kind::Signed, 4) => each(bytes, big_endian, elements, i32::from_le_bytes, |n| T::from_signed(n.into())),
        (Kind::Signed, 2) => each(bytes, big_endian, elements, i16::from_le_bytes, |n| T::from_signed(n.into())),
        (Kind::Signed, 1) => each(bytes, big_endian, elements, i8::from_le_bytes, |n| T::from_signed(n.into())),
        (Kind::Unsigned, 8) => each(bytes, big_endian, elements, u64::from_le_bytes, T::from_unsigned),
        (Kind::Unsigned, 4) => each(bytes, big_endian, elements, u32::from_le_bytes, |n| T::from_unsigned(n.into())),
        (Kind::Unsigned, 2) => each(bytes, big_endian, elements, u16::from_le_bytes, |n| T::from_unsigned(n.into())),
        (Kind::Unsigned, 1) => each(bytes, big_endian, elements, u8::from_le_bytes, |n| T::from_unsigned(n.into())),
        _ => Err(invalid(format!("found numbers of {size} bytes, expected 1, 2, 4 or 8"))),
    }
}

/// Appends numbers of N bytes: `raw` decodes little-endian bytes, `convert` converts to the element type.
fn each<const N: usize, R: Display + Copy, T: Element>(
    bytes: &[u8],
    big_endian: bool,
    elements: &mut Vec<T>,
    raw: impl Fn([u8; N]) -> R,
    convert: impl Fn(R) -> Option<T>,
) -> io::Result<()> {
    let (numbers, _) = bytes.as_chunks::<N>();
    elements.reserve(numbers.len());
    for &(mut number) in numbers {
        if big_endian {
            number.reverse();
        }
        let found = raw(number);
        let element = convert(found);
        let position = elements.len();
        elements.push(element.ok_or_else(|| invalid(format!("[{position}] is {found}, expected {}", T::EXPECTED)))?);
    }
    Ok(())
}

/// Writes numbers of N bytes each.
pub fn write_all<const N: usize>(out: &mut dyn Write, numbers: impl IntoIterator<Item = [u8; N]>) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK);
    for number in numbers {
        block.extend_from_slice(&number);
        if block.len() >= BLOCK {
            out.write_all(&block)?;
            block.clear();
        }
    }
    out.write_all(&block)
}
