//! Safetensors: the header of a file, and its tensors, written from memory without copies.

use std::cmp::Reverse;
use std::io::{self, Write};

use bytemuck::Pod;
use serde_json::{Map, Value, json};

/// Size of the prefix, the header length as a u64, in bytes.
pub const PREFIX: usize = size_of::<u64>();

/// What a header says of a tensor of one dimension.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its type: F64, U64, U32 or U8.
    pub dtype: &'static str,
    /// The number of elements.
    pub length: u64,
}

impl Entry {
    /// A tensor of `length` elements of type `dtype`.
    pub fn new(name: impl Into<String>, dtype: &'static str, length: u64) -> Self {
        Self { name: name.into(), dtype, length }
    }

    fn bytes(&self) -> u64 {
        self.length * self.size()
    }

    /// Bytes of an element.
    fn size(&self) -> u64 {
        match self.dtype {
            "U8" => 1,
            "U32" => 4,
            _ => 8,
        }
    }
}

/// The beginning of a file, and the places of its tensors.
#[derive(Clone, Debug)]
pub struct Header {
    /// The bytes before the first tensor.
    pub bytes: Vec<u8>,
    /// The offset of each tensor in the file, and the length of the file.
    pub offsets: Vec<u64>,
}

impl Header {
    /// The header of a file with `metadata`, an object of strings, and tensors in this order.
    pub fn new(metadata: Value, entries: &[Entry]) -> io::Result<Self> {
        let mut header = Map::from_iter([("__metadata__".to_owned(), metadata)]);
        let mut ends = vec![0];
        for entry in entries {
            let start = ends[ends.len() - 1];
            let end = start + entry.bytes();
            let said = json!({ "dtype": entry.dtype, "shape": [entry.length], "data_offsets": [start, end] });
            header.insert(entry.name.clone(), said);
            ends.push(end);
        }
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(PREFIX), b' ');
        let bytes = [&(header.len() as u64).to_le_bytes()[..], &header].concat();
        let offsets = ends.into_iter().map(|end| bytes.len() as u64 + end).collect();
        Ok(Self { bytes, offsets })
    }
}

/// A tensor of one dimension.
pub struct Tensor<'a> {
    entry: Entry,
    elements: Elements<'a>,
}

/// Writes elements.
type Writer<'a> = Box<dyn Fn(&mut dyn Write) -> io::Result<()> + 'a>;

enum Elements<'a> {
    Here(&'a [u8]),
    Streamed(Writer<'a>),
}

impl<'a> Tensor<'a> {
    /// A tensor that borrows its elements, whose type the file calls `dtype`.
    pub fn new<T: Pod>(name: impl Into<String>, dtype: &'static str, elements: &'a [T]) -> Self {
        let entry = Entry::new(name, dtype, elements.len() as u64);
        Self { entry, elements: Elements::Here(bytemuck::cast_slice(elements)) }
    }

    /// A tensor whose elements `write` writes, as many as `entry` says.
    pub fn streamed(entry: Entry, write: impl Fn(&mut dyn Write) -> io::Result<()> + 'a) -> Self {
        Self { entry, elements: Elements::Streamed(Box::new(write)) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }
}

/// Sorts entries, or what has them, by decreasing alignment, so that every tensor is aligned.
pub fn align<T>(tensors: &mut [T], entry: impl Fn(&T) -> &Entry) {
    tensors.sort_by_key(|tensor| Reverse(entry(tensor).size()));
}

/// Writes a file: `metadata`, an object of strings, and the tensors. The elements of the `last` tensor, if there is one, follow.
pub fn write(out: &mut dyn Write, metadata: Value, tensors: &mut [Tensor], last: Option<Entry>) -> io::Result<()> {
    align(tensors, |tensor| &tensor.entry);
    let entries: Vec<_> = tensors.iter().map(|tensor| tensor.entry.clone()).chain(last).collect();
    out.write_all(&Header::new(metadata, &entries)?.bytes)?;
    tensors.iter().try_for_each(|tensor| match &tensor.elements {
        Elements::Here(bytes) => out.write_all(bytes),
        Elements::Streamed(write) => write(out),
    })
}
