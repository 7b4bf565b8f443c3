//! NumPy's `.npy`: one array with its type and shape.
//!
//! The module reads versions 1 to 3 and writes version 1.0. Source: NumPy Enhancement Proposal 1, *A Simple File Format
//! for NumPy Arrays*.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use super::binary::{self, Element, Encoding, Kind, invalid};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Alignment of the first element in the file, in bytes.
const ALIGNMENT: usize = 64;

/// Longest valid header, in bytes; far more than any array of numbers needs.
const LONGEST_HEADER: usize = 1 << 20;

/// Whether a file starts like an array.
pub fn sniff(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// An array in C order: the last index varies fastest.
#[derive(Debug, PartialEq)]
pub struct Tensor<T> {
    /// Extent of each dimension.
    pub shape: Vec<usize>,
    /// The elements.
    pub elements: Vec<T>,
}

/// Reads an array of numbers or Booleans.
pub fn read<T: Element>(reader: &mut (impl Read + ?Sized)) -> io::Result<Tensor<T>> {
    let Header { descr, fortran, shape, count } = Header::read(reader)?;
    let Some(encoding) = encoding(&descr) else {
        let hint =
            if descr.contains('O') { ": Python objects; save the arrays they are made of one by one" } else { "" };
        return Err(invalid(format!("found elements of type '{descr}'{hint}, expected numbers")));
    };
    let mut reader = Counted { reader, bytes: 0 };
    let elements = binary::elements(&mut reader, encoding, count).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            truncated(format!("it has {} of {count} numbers", reader.bytes / encoding.size))
        }
        _ => error,
    })?;
    let elements = if fortran && shape.len() > 1 { transposed(&shape, &elements) } else { elements };
    Ok(Tensor { shape, elements })
}

/// Reads the shape of an array, and the elements of a range of its rows, as far as it has them; none of an array in column order.
pub fn read_part<T: Element>(file: &mut File, range: Range<u64>) -> io::Result<(Vec<usize>, Vec<T>)> {
    file.rewind()?;
    let mut reader = BufReader::new(&mut *file);
    let Header { descr, shape, fortran, count } = Header::read(&mut reader)?;
    let begin = reader.stream_position()?;
    let (Some(encoding), [length, columns @ ..]) = (encoding(&descr), &shape[..]) else {
        return Ok((shape, Vec::new()));
    };
    if fortran && !columns.is_empty() {
        return Ok((shape, Vec::new()));
    }
    let size = encoding.size as u64;
    let end = begin.saturating_add(size.saturating_mul(count as u64));
    let found = file.metadata()?.len();
    if found < end {
        return Err(truncated(format!("it has {} of {count} numbers", found.saturating_sub(begin) / size)));
    }
    // The header's count of all elements is a number, so that these are.
    let columns = columns.iter().product::<usize>() as u64;
    let range = range.start.min(*length as u64)..range.end.min(*length as u64);
    file.seek(SeekFrom::Start(begin + size * range.start * columns))?;
    let count = (range.end - range.start) * columns;
    let elements = binary::elements(&mut BufReader::new(file), encoding, count as usize)?;
    Ok((shape, elements))
}

/// Whether `start` is the start of an array of floating-point numbers.
pub fn is_float(mut start: &[u8]) -> bool {
    let header = Header::read(&mut start).ok();
    header.and_then(|header| encoding(&header.descr)).is_some_and(|encoding| encoding.kind == Kind::Float)
}

/// The error of a file that ends too early.
fn truncated(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("is truncated: {message}"))
}

/// A reader that counts its bytes.
struct Counted<'r, R: ?Sized> {
    reader: &'r mut R,
    bytes: usize,
}

impl<R: Read + ?Sized> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.bytes += count;
        Ok(count)
    }
}

/// Reads an array of strings.
pub fn read_texts(reader: &mut (impl Read + ?Sized)) -> io::Result<Vec<String>> {
    let Header { descr, count, .. } = Header::read(reader)?;
    let Some(length) =
        descr.strip_prefix("<U").and_then(|length| length.parse::<usize>().ok()).filter(|&length| length > 0)
    else {
        return Err(invalid(format!("found elements of type '{descr}', expected texts, '<U…'")));
    };
    let characters = length.checked_mul(count).ok_or_else(|| invalid("is too large"))?;
    let codes: Vec<u32> = binary::elements(reader, Encoding::little(Kind::Unsigned, 4), characters)?;
    let text = |codes: &[u32]| {
        let used = codes.iter().rposition(|&code| code != 0).map_or(0, |last| last + 1);
        codes[..used].iter().map(|&code| char::from_u32(code)).collect::<Option<String>>()
    };
    codes.chunks(length).map(text).collect::<Option<_>>().ok_or_else(|| invalid("contains invalid character codes"))
}

/// Converts an array from Fortran order (the first index varies fastest) to C order.
fn transposed<T: Copy>(shape: &[usize], elements: &[T]) -> Vec<T> {
    let position = |index: usize| {
        let (mut rest, mut position, mut stride) = (index, 0, elements.len());
        for &length in shape.iter().rev() {
            stride /= length;
            position += rest % length * stride;
            rest /= length;
        }
        position
    };
    (0..elements.len()).map(|index| elements[position(index)]).collect()
}

fn encoding(descr: &str) -> Option<Encoding> {
    let (order, kind) = descr.split_at_checked(1)?;
    let (kind, size) = kind.split_at_checked(1)?;
    let kind = match kind {
        "f" => Kind::Float,
        "i" => Kind::Signed,
        "u" | "b" => Kind::Unsigned,
        _ => return None,
    };
    let size = size
        .parse()
        .ok()
        .filter(|size| if kind == Kind::Float { [4, 8].contains(size) } else { [1, 2, 4, 8].contains(size) })?;
    Some(Encoding { kind, size, big_endian: order == ">" })
}

struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
    /// Number of elements.
    count: usize,
}

impl Header {
    fn read(reader: &mut (impl Read + ?Sized)) -> io::Result<Self> {
        let mut start = [0; 8];
        let begun = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => truncated("it ends before its first number".to_owned()),
            _ => error,
        };
        reader.read_exact(&mut start).map_err(begun)?;
        if !start.starts_with(MAGIC) {
            return Err(invalid("is not a NumPy array: it does not start with \\x93NUMPY"));
        }
        let mut length = [0; 4];
        match start[6] {
            1 => reader.read_exact(&mut length[..2]).map_err(begun)?,
            2 | 3 => reader.read_exact(&mut length).map_err(begun)?,
            version => return Err(invalid(format!("is of version {version}, expected 1, 2 or 3"))),
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST_HEADER {
            return Err(invalid(format!("has a header of {length} bytes, expected at most {LONGEST_HEADER}")));
        }
        let mut header = vec![0; length];
        reader.read_exact(&mut header).map_err(begun)?;
        let text = String::from_utf8_lossy(&header);
        Self::parse(&text)
            .ok_or_else(|| invalid(format!("has the header {:?}, expected descr, fortran_order, shape", text.trim())))
    }

    /// Parses the header, a dictionary in Python syntax.
    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let rest = text[text.find(&format!("'{key}'"))? + key.len() + 2..].trim_start();
            rest.strip_prefix(':').map(str::trim_start)
        };
        let descr = value("descr")?.strip_prefix('\'')?.split('\'').next()?.to_owned();
        let order = value("fortran_order")?;
        let shape = value("shape")?.strip_prefix('(')?.split(')').next()?;
        let lengths = shape.split(',').map(str::trim).filter(|length| !length.is_empty());
        let shape = lengths.map(|length| length.parse().ok()).collect::<Option<Vec<usize>>>()?;
        let count = shape.iter().try_fold(1, |count: usize, &length| count.checked_mul(length))?;
        Some(Self { descr, fortran: order.starts_with("True"), shape, count })
    }
}

/// Writes the header of an array. The caller writes the elements after it.
pub fn write_header(out: &mut dyn Write, descr: &str, shape: &[usize]) -> io::Result<()> {
    let lengths: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let lengths = if shape.len() == 1 { lengths.trim_end() } else { lengths.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lengths}), }}");
    let before = MAGIC.len() + 4;
    let total = (before + header.len() + 1).next_multiple_of(ALIGNMENT);
    header.extend(std::iter::repeat_n(' ', total - before - header.len() - 1));
    header.push('\n');
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}

/// Writes an array of one dimension.
pub fn write<T: Store>(out: &mut dyn Write, elements: &[T]) -> io::Result<()> {
    write_header(out, T::DESCR, &[elements.len()])?;
    out.write_all(bytemuck::cast_slice(elements))
}

/// Writes an array of two dimensions, whose rows have `columns` elements each.
pub fn write_rows<T: Store>(out: &mut dyn Write, elements: &[T], columns: usize) -> io::Result<()> {
    write_header(out, T::DESCR, &[elements.len() / columns.max(1), columns])?;
    out.write_all(bytemuck::cast_slice(elements))
}

/// An element type whose bytes in memory are its bytes in the file.
pub trait Store: bytemuck::Pod {
    /// NumPy's name of the type.
    const DESCR: &'static str;
}

impl Store for f64 {
    const DESCR: &'static str = "<f8";
}

impl Store for u64 {
    const DESCR: &'static str = "<u8";
}

impl Store for i64 {
    const DESCR: &'static str = "<i8";
}

impl Store for u32 {
    const DESCR: &'static str = "<u4";
}

impl Store for i32 {
    const DESCR: &'static str = "<i4";
}

/// Writes an array of strings.
pub fn write_texts(out: &mut dyn Write, texts: &[&str]) -> io::Result<()> {
    let length = texts.iter().map(|text| text.chars().count()).max().unwrap_or_default().max(1);
    write_header(out, &format!("<U{length}"), &[texts.len()])?;
    let codes = texts.iter().flat_map(|text| {
        let codes = text.chars().map(u32::from).chain(std::iter::repeat(0));
        codes.take(length)
    });
    binary::write_all(out, codes.map(u32::to_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that NumPy 2.4 writes for an array, for example `numpy.arange(6.).reshape(2, 3)`.
    fn numpy(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        header.extend(std::iter::repeat_n(' ', (128 - 10 - 1) - header.len()));
        header.push('\n');
        [&b"\x93NUMPY\x01\x00\x76\x00"[..], header.as_bytes(), data].concat()
    }

    fn message<T: Element + std::fmt::Debug>(bytes: &[u8]) -> String {
        read::<T>(&mut &bytes[..]).unwrap_err().to_string()
    }

    #[test]
    fn written_as_numpy_writes() {
        let mut out = Vec::new();
        write(&mut out, &[1.0, -2.5]).unwrap();
        assert_eq!(out, numpy("<f8", "False", "(2,)", &[1.0f64.to_le_bytes(), (-2.5f64).to_le_bytes()].concat()));
        out.clear();
        write_header(&mut out, "<f8", &[2, 3]).unwrap();
        assert_eq!(out, numpy("<f8", "False", "(2, 3)", &[]));
        out.clear();
        write_texts(&mut out, &["a", "", "münchen"]).unwrap();
        assert_eq!(read_texts(&mut &out[..]).unwrap(), ["a", "", "münchen"]);
    }

    #[test]
    fn types_and_orders_are_converted() {
        let columns: Vec<u8> = [1.0f64, 4.0, 2.0, 5.0, 3.0, 6.0].iter().flat_map(|x| x.to_be_bytes()).collect();
        let found = read::<f64>(&mut &numpy(">f8", "True", "(2, 3)", &columns)[..]).unwrap();
        assert_eq!(found, Tensor { shape: vec![2, 3], elements: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] });
        let found = read::<u64>(&mut &numpy("<i2", "False", "(2,)", &[7, 0, 0, 1])[..]).unwrap();
        assert_eq!(found.elements, [7, 256]);
        let found = read::<f64>(&mut &numpy("|b1", "False", "()", &[1])[..]).unwrap();
        assert_eq!(found, Tensor { shape: vec![], elements: vec![1.0] });
        let found = read::<f64>(&mut &numpy("<f4", "False", "(1,)", &0.5f32.to_le_bytes())[..]).unwrap();
        assert_eq!(found.elements, [0.5]);
    }

    #[test]
    fn errors_name_the_fault() {
        assert!(message::<f64>(b"PK\x03\x04....").contains("not a NumPy array"));
        assert!(message::<f64>(b"\x93NUMPY\x09\x00..").contains("version 9"));
        assert!(message::<f64>(&numpy("|O", "False", "(2,)", &[])).contains("Python objects"));
        assert!(message::<f64>(&numpy("<c16", "False", "(2,)", &[])).contains("'<c16'"));
        assert!(message::<u32>(&numpy("<i1", "False", "(2,)", &[3, 0xff])).contains("[1] is -1, expected an integer"));
        assert!(message::<u32>(&numpy("<f8", "False", "(1,)", &[0; 8])).contains("[0] is 0, expected an integer"));
        assert!(message::<f64>(&numpy("<f8", "False", "(2", &[])).contains("has the header"));
        let huge = numpy("<f8", "False", "(4611686018427387904, 8)", &[]);
        assert!(message::<f64>(&huge).contains("has the header"));
        let long = read::<f64>(&mut &numpy("<f8", "False", "(9000000000000000,)", &[0; 16])[..]).unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(long.to_string(), "is truncated: it has 2 of 9000000000000000 numbers");
        let whole = numpy("<f8", "False", "(2,)", &[0; 16]);
        assert_eq!(message::<f64>(&whole[..140]), "is truncated: it has 1 of 2 numbers");
        for length in [0, 5, 9, 100] {
            assert_eq!(message::<f64>(&whole[..length]), "is truncated: it ends before its first number");
        }
        assert!(is_float(&whole) && !is_float(&numpy("<i8", "False", "(2,)", &[])) && !is_float(b""));
    }
}
