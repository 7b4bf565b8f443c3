//! Models as safetensors: the arrays as they are in memory, so that a file is mapped, not parsed.
//!
//! Tensors of one dimension: `P.indptr` and `R.indptr` (U64), `P.indices` and `R.indices` (U32), `P.data` and `R.data`
//! (F64), and of a grid that has them `grid.walls` and `grid.obstacles` (U32). Metadata: `format` = `warpkov-mdp`,
//! `version` = `1`, `S`, `A`, `gamma`, and of a grid `grid.width`, `grid.height` and `grid.goal`.

#[cfg(target_endian = "big")]
compile_error!("safetensors hold little-endian numbers, and are mapped as they are");

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::str::FromStr;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};
use serde_json::{Value, json};

use super::Error;
use crate::mdp::model::{Array, Csr, Grid, Mdp};

const FORMAT: &str = "warpkov-mdp";
const VERSION: &str = "1";

/// Bytes of the number that says how long the header is.
const PREFIX: usize = size_of::<u64>();

/// Whether a file begins like safetensors: with the length of a header that fits, and the header. No JSON does, as its
/// first eight characters make a number larger than any file.
pub fn sniff(file: &mut File) -> io::Result<bool> {
    let mut start = [0; PREFIX + 1];
    let mut length = 0;
    while length < start.len() {
        match file.read(&mut start[length..])? {
            0 => break,
            read => length += read,
        }
    }
    file.rewind()?;
    let [prefix @ .., first] = start;
    Ok(length == start.len() && first == b'{' && u64::from_le_bytes(prefix) < file.metadata()?.len())
}

/// Maps and validates a model.
pub fn read(file: &File, name: String) -> Result<Mdp, Error> {
    // SAFETY: the map is only read. That nobody changes the file in place meanwhile cannot be enforced on any file
    // system; `super::read` demands it, and what writes here replaces files.
    let map = match unsafe { Mmap::map(file) } {
        Ok(map) => Arc::new(map),
        Err(source) => return Err(Error::Read { file: name, source }),
    };
    let parts = match Parts::of(map).and_then(|parts| parts.split()) {
        Ok(parts) => parts,
        Err(message) => return Err(Error::Safetensors { file: name, message }),
    };
    let (states, actions, gamma, transitions, rewards, grid) = parts;
    Mdp::new(states, actions, gamma, transitions, rewards, grid).map_err(|source| Error::Invalid { file: name, source })
}

/// A file and what its header says.
struct Parts {
    map: Arc<Mmap>,
    /// Where the tensors begin.
    start: usize,
    header: Metadata,
    metadata: HashMap<String, String>,
}

impl Parts {
    fn of(map: Arc<Mmap>) -> Result<Self, String> {
        let (length, header) = SafeTensors::read_metadata(&map).map_err(|error| format!("no safetensors: {error}"))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        Ok(Self { map, start: PREFIX + length, header, metadata })
    }

    #[allow(clippy::type_complexity, reason = "the arguments of Mdp::new")]
    fn split(&self) -> Result<(u32, u32, f64, Csr, Csr, Option<Grid>), String> {
        for (key, expected) in [("format", FORMAT), ("version", VERSION)] {
            let found = self.text(key)?;
            if found != expected {
                return Err(format!("metadata {key}: found \"{found}\", expected \"{expected}\""));
            }
        }
        let (states, actions) = (self.number("S", "an integer")?, self.number("A", "an integer")?);
        let gamma = self.number("gamma", "a number")?;
        let grid = if self.metadata.contains_key("grid.width") { Some(self.grid()?) } else { None };
        Ok((states, actions, gamma, self.matrix("P")?, self.matrix("R")?, grid))
    }

    fn matrix(&self, name: &str) -> Result<Csr, String> {
        Ok(Csr {
            row_ptr: self.tensor(&format!("{name}.indptr"), Dtype::U64)?,
            col: self.tensor(&format!("{name}.indices"), Dtype::U32)?,
            val: self.tensor(&format!("{name}.data"), Dtype::F64)?,
        })
    }

    fn grid(&self) -> Result<Grid, String> {
        let number = |key| self.number(key, "an integer");
        let cells = |name| match self.header.info(name) {
            Some(_) => Ok::<_, String>(self.tensor(name, Dtype::U32)?.into_vec()),
            None => Ok(Vec::new()),
        };
        Ok(Grid {
            width: number("grid.width")?,
            height: number("grid.height")?,
            goal: number("grid.goal")?,
            walls: cells("grid.walls")?,
            obstacles: cells("grid.obstacles")?,
        })
    }

    fn text(&self, key: &str) -> Result<&str, String> {
        self.metadata.get(key).map(String::as_str).ok_or_else(|| format!("metadata {key} is missing"))
    }

    fn number<T: FromStr>(&self, key: &str, expected: &str) -> Result<T, String> {
        let text = self.text(key)?;
        text.parse().map_err(|_| format!("metadata {key}: found \"{text}\", expected {expected}"))
    }

    /// A tensor of `T`, whose name in the header is `dtype`.
    fn tensor<T: Pod>(&self, name: &str, dtype: Dtype) -> Result<Array<T>, String> {
        let info = self.header.info(name).ok_or_else(|| format!("tensor {name} is missing"))?;
        if info.dtype != dtype || info.shape.len() != 1 {
            let (found, shape) = (info.dtype, &info.shape);
            return Err(format!("tensor {name}: found {found} of shape {shape:?}, expected {dtype} of one dimension"));
        }
        let (start, end) = (self.start + info.data_offsets.0, self.start + info.data_offsets.1);
        let mapped = Array::mapped(Arc::clone(&self.map), start, end);
        // Files of others may be misaligned.
        let copied = || {
            let bytes = self.map.get(start..end).unwrap_or_default();
            bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect::<Vec<T>>().into()
        };
        Ok(mapped.unwrap_or_else(copied))
    }
}

/// Writes a model; its arrays go from where they are.
pub fn write(out: &mut dyn Write, mdp: &Mdp) -> io::Result<()> {
    let Mdp { states, actions, gamma, transitions: p, rewards: r, grid } = mdp;
    let mut metadata = json!({
        "format": FORMAT, "version": VERSION,
        "S": states.to_string(), "A": actions.to_string(), "gamma": gamma.to_string(),
    });
    // By falling alignment, so that all are aligned.
    let mut tensors: Vec<(&str, &str, usize, &[u8])> = Vec::new();
    for (names, matrix) in [(["P.indptr", "P.data"], p), (["R.indptr", "R.data"], r)] {
        tensors.push((names[0], "U64", matrix.row_ptr.len(), bytemuck::cast_slice(&matrix.row_ptr)));
        tensors.push((names[1], "F64", matrix.val.len(), bytemuck::cast_slice(&matrix.val)));
    }
    tensors.push(("P.indices", "U32", p.col.len(), bytemuck::cast_slice(&p.col)));
    tensors.push(("R.indices", "U32", r.col.len(), bytemuck::cast_slice(&r.col)));
    if let Some(Grid { width, height, goal, walls, obstacles }) = grid {
        for (key, number) in [("grid.width", width), ("grid.height", height), ("grid.goal", goal)] {
            metadata[key] = number.to_string().into();
        }
        for (name, cells) in [("grid.walls", walls), ("grid.obstacles", obstacles)] {
            tensors.push((name, "U32", cells.len(), bytemuck::cast_slice(cells)));
        }
    }

    let mut header = serde_json::Map::from_iter([("__metadata__".to_owned(), metadata)]);
    let mut end = 0;
    for (name, dtype, length, bytes) in &tensors {
        let start = end;
        end += bytes.len();
        let entry: Value = json!({ "dtype": dtype, "shape": [length], "data_offsets": [start, end] });
        header.insert((*name).to_owned(), entry);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(PREFIX), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    tensors.iter().try_for_each(|(.., bytes)| out.write_all(bytes))
}
