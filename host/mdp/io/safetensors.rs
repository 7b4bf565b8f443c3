//! Models as safetensors. Arrays have their in-memory layout, so the reader maps the file instead of parsing it.
//!
//! All tensors have one dimension:
//!
//! | Tensor | Type |
//! | --- | --- |
//! | `P.indptr`, `R.indptr` | U64 |
//! | `P.indices`, `R.indices` | U32 |
//! | `P.data`, `R.data` | F64 |
//! | `choices` (optional) | U64 |
//! | `ends`, `action_rewards` (optional) | F64 |
//! | `labels.NAME`, `action_names.of_row`, `grid.walls`, `grid.obstacles` (optional) | U32 |
//!
//! The metadata holds `format` = `warpkov-mdp`, `version` = `1`, `S`, `gamma` and, unless the file has `choices`, `A`.
//! Optional metadata are `objective`, `action_names` (a JSON array), `grid.width`, `grid.height` and `grid.goal`.

#[cfg(target_endian = "big")]
compile_error!("safetensors hold little-endian numbers, which this module maps without conversion");

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};
use serde_json::json;

use super::Error;
use crate::common::io::invalid;
use crate::common::io::safetensors::{self as file, PREFIX, Tensor};
use crate::mdp::model::{ActionNames, Array, Choices, Csr, Grid, Mdp, MdpParts, Objective};

const FORMAT: &str = "warpkov-mdp";
const VERSION: &str = "1";
const LABEL: &str = "labels.";

/// Whether a file of this length begins like safetensors: with a header length below the file's, then `{`. JSON cannot
/// pass this test, because its first eight characters form a number larger than any file.
pub fn sniff(start: &[u8], length: Option<u64>) -> bool {
    let prefix = start.first_chunk().map(|prefix| u64::from_le_bytes(*prefix));
    start.get(PREFIX) == Some(&b'{') && prefix < length
}

/// Maps a file and validates its model.
pub fn read(file: &File, name: String) -> Result<Mdp, Error> {
    // SAFETY: `Mmap::map` requires that nobody changes the file while it is mapped. No file system enforces that. The
    // contract of `super::read` demands it from callers, and warpkov's own writers replace files instead of changing
    // them.
    let map = match unsafe { Mmap::map(file) } {
        Ok(map) => Arc::new(map),
        Err(error) => return Err(Error::read(name)(error)),
    };
    match Parts::of(map).and_then(|parts| parts.model()) {
        Ok(model) => model.validated().map_err(invalid(name)),
        Err(message) => Err(Error::Content { file: name, message }),
    }
}

/// A mapped file and its parsed header.
struct Parts {
    map: Arc<Mmap>,
    /// Byte offset of the tensor data.
    start: usize,
    header: Metadata,
    metadata: HashMap<String, String>,
}

impl Parts {
    fn of(map: Arc<Mmap>) -> Result<Self, String> {
        let (length, header) =
            SafeTensors::read_metadata(&map).map_err(|error| format!("not a safetensors file: {error}"))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        Ok(Self { map, start: PREFIX + length, header, metadata })
    }

    /// Builds the model without validation.
    fn model(&self) -> Result<MdpParts, String> {
        for (key, expected) in [("format", FORMAT), ("version", VERSION)] {
            let found = self.text(key)?;
            if found != expected {
                return Err(format!("metadata {key}: found \"{found}\", expected \"{expected}\""));
            }
        }
        Ok(MdpParts {
            states: self.number("S", "an integer")?,
            choices: match self.header.info("choices") {
                Some(_) => Choices::Ragged(self.tensor("choices", Dtype::U64)?),
                None => Choices::Uniform(self.number("A", "an integer")?),
            },
            gamma: self.number("gamma", "a number")?,
            objective: match self.metadata.get("objective").map(String::as_str) {
                None | Some("maximize") => Objective::Maximize,
                Some("minimize") => Objective::Minimize,
                Some(found) => {
                    return Err(format!(
                        "metadata objective: found \"{found}\", expected \"maximize\" or \"minimize\""
                    ));
                }
            },
            transitions: self.matrix("P")?,
            ends: self.optional("ends", Dtype::F64)?.unwrap_or_default(),
            rewards: self.matrix("R")?,
            action_rewards: self.optional("action_rewards", Dtype::F64)?.unwrap_or_default(),
            labels: self.labels()?,
            action_names: self.action_names()?,
            grid: if self.metadata.contains_key("grid.width") { Some(self.grid()?) } else { None },
        })
    }

    fn labels(&self) -> Result<BTreeMap<String, Vec<u32>>, String> {
        let tensors = self.header.tensors();
        let named = tensors.keys().filter_map(|name| Some((name, name.strip_prefix(LABEL)?)));
        named.map(|(tensor, label)| Ok((label.to_owned(), self.tensor(tensor, Dtype::U32)?.into_vec()))).collect()
    }

    fn action_names(&self) -> Result<Option<ActionNames>, String> {
        let Some(text) = self.metadata.get("action_names") else { return Ok(None) };
        let names = serde_json::from_str(text).map_err(|error| format!("metadata action_names: {error}"))?;
        Ok(Some(ActionNames { names, of_row: self.tensor("action_names.of_row", Dtype::U32)?.into_vec() }))
    }

    fn matrix(&self, name: &str) -> Result<Csr, String> {
        let row_ptr: Array<u64> = self.tensor(&format!("{name}.indptr"), Dtype::U64)?;
        let col: Array<u32> = self.tensor(&format!("{name}.indices"), Dtype::U32)?;
        let val: Array<f64> = self.tensor(&format!("{name}.data"), Dtype::F64)?;
        Csr::new(row_ptr, col, val).map_err(|error| format!("{name}.{error}"))
    }

    fn grid(&self) -> Result<Grid, String> {
        let number = |key| self.number(key, "an integer");
        let cells = |name| Ok::<_, String>(self.optional(name, Dtype::U32)?.unwrap_or_default().into_vec());
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

    /// A tensor of `T`, or `None` if the file lacks it.
    fn optional<T: Pod>(&self, name: &str, dtype: Dtype) -> Result<Option<Array<T>>, String> {
        self.header.info(name).map(|_| self.tensor(name, dtype)).transpose()
    }

    /// A tensor of `T`, the type that the header calls `dtype`.
    fn tensor<T: Pod>(&self, name: &str, dtype: Dtype) -> Result<Array<T>, String> {
        let info = self.header.info(name).ok_or_else(|| format!("tensor {name} is missing"))?;
        if info.dtype != dtype || info.shape.len() != 1 {
            let (found, shape) = (info.dtype, &info.shape);
            return Err(format!("tensor {name}: found {found} of shape {shape:?}, expected {dtype} of one dimension"));
        }
        let (start, end) = (self.start + info.data_offsets.0, self.start + info.data_offsets.1);
        let mapped = Array::mapped(Arc::clone(&self.map), start, end);
        // Files from other writers may be misaligned: copy their elements.
        let copied = || {
            let bytes = self.map.get(start..end).unwrap_or_default();
            bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect::<Vec<T>>().into()
        };
        Ok(mapped.unwrap_or_else(copied))
    }
}

/// Writes a model. The arrays are written from memory, without copies.
pub fn write(out: &mut dyn Write, mdp: &Mdp) -> io::Result<()> {
    let mut metadata = json!({
        "format": FORMAT, "version": VERSION, "S": mdp.states().to_string(), "gamma": mdp.gamma().to_string(),
    });
    let mut tensors = Vec::new();
    for (names, matrix) in
        [(["P.indptr", "P.indices", "P.data"], mdp.transitions()), (["R.indptr", "R.indices", "R.data"], mdp.rewards())]
    {
        tensors.push(Tensor::new(names[0], "U64", matrix.row_ptr()));
        tensors.push(Tensor::new(names[1], "U32", matrix.col()));
        tensors.push(Tensor::new(names[2], "F64", matrix.val()));
    }
    match mdp.choices() {
        Choices::Uniform(actions) => metadata["A"] = actions.to_string().into(),
        Choices::Ragged(offsets) => tensors.push(Tensor::new("choices", "U64", offsets)),
    }
    if mdp.objective() == Objective::Minimize {
        metadata["objective"] = "minimize".into();
    }
    for (name, numbers) in [("ends", mdp.ends()), ("action_rewards", mdp.action_rewards())] {
        if !numbers.is_empty() {
            tensors.push(Tensor::new(name, "F64", numbers));
        }
    }
    for (label, states) in mdp.labels() {
        tensors.push(Tensor::new(format!("{LABEL}{label}"), "U32", states));
    }
    if let Some(ActionNames { names, of_row }) = mdp.action_names() {
        metadata["action_names"] = serde_json::to_string(names)?.into();
        tensors.push(Tensor::new("action_names.of_row", "U32", of_row));
    }
    if let Some(Grid { width, height, goal, walls, obstacles }) = mdp.grid() {
        for (key, number) in [("grid.width", width), ("grid.height", height), ("grid.goal", goal)] {
            metadata[key] = number.to_string().into();
        }
        tensors.push(Tensor::new("grid.walls", "U32", walls));
        tensors.push(Tensor::new("grid.obstacles", "U32", obstacles));
    }
    file::write(out, metadata, &mut tensors)
}
