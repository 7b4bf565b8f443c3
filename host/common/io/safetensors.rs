//! Safetensors: the header of a file, and its tensors, written from memory without copies.

use std::io::{self, Write};

use bytemuck::Pod;
use serde_json::{Map, Value, json};

/// Size of the prefix, the header length as a u64, in bytes.
pub(crate) const PREFIX: usize = size_of::<u64>();

/// A tensor of one dimension.
pub(crate) struct Tensor<'a> {
    name: String,
    dtype: &'static str,
    length: usize,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    pub(crate) fn new<T: Pod>(name: impl Into<String>, dtype: &'static str, elements: &'a [T]) -> Self {
        Self { name: name.into(), dtype, length: elements.len(), bytes: bytemuck::cast_slice(elements) }
    }
}

/// Writes a file: `metadata`, an object of strings, and the tensors.
pub(crate) fn write(out: &mut dyn Write, metadata: Value, tensors: &mut [Tensor]) -> io::Result<()> {
    // In order of decreasing alignment, so that every tensor is aligned.
    tensors.sort_by_key(|tensor| tensor.dtype == "U32");
    let mut header = Map::from_iter([("__metadata__".to_owned(), metadata)]);
    let mut end = 0;
    for Tensor { name, dtype, length, bytes } in &*tensors {
        let start = end;
        end += bytes.len();
        let entry: Value = json!({ "dtype": dtype, "shape": [length], "data_offsets": [start, end] });
        header.insert(name.clone(), entry);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(PREFIX), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    tensors.iter().try_for_each(|tensor| out.write_all(tensor.bytes))
}
