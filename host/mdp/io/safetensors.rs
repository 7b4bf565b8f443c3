//! Models as safetensors. Arrays have their in-memory layout, so the reader maps the file instead of parsing it.
//!
//! All tensors have one dimension:
//!
//! | Tensor | Type |
//! | --- | --- |
//! | `P.indptr`, `R.indptr` | U64 |
//! | `P.indices`, `R.indices` | U32, or U64 or I64 |
//! | `P.data`, `R.data` | F64 |
//! | `choices` (optional) | U64 |
//! | `ends`, `action_rewards` (optional) | F64 |
//! | `labels.NAME`, `grid.walls`, `grid.obstacles` (optional) | U32, or U64 or I64 |
//! | `action_names.of_row` (optional) | U32 |
//! | `state_names.offsets`, S + 1 of them, and `state_names.bytes` (optional) | U64, U8 |
//!
//! The metadata holds `format` = `warpkov-mdp`, `version` = `1`, `S`, `gamma` and, unless the file has `choices`, `A`.
//! Optional metadata are `objective`, `action_names` (a JSON array), `grid.width`, `grid.height` and `grid.goal`.
//!
//! The name of state s is the UTF-8 text `state_names.bytes[offsets[s]..offsets[s + 1]]`.
//!
//! [`Mapped`] reads the rows of some states only. A model of 2³² states or more has 64-bit indices and can only be read so.

#[cfg(target_endian = "big")]
compile_error!("safetensors hold little-endian numbers, which this module maps without conversion");

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::{Add, ControlFlow, Range};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::{Mmap, MmapMut};
use rayon::prelude::*;
use safetensors::tensor::{Dtype, Metadata, SafeTensors};
use serde_json::{Value, json};

use super::Error;
use crate::model::validate::{self, Invalid, Matrix};
use crate::model::whole::{Actions, Columns, Described, Entries, Extent, Fault, Rows};
use crate::model::{ActionNames, Array, Choices, Csr, Grid, InvalidCsr, Mdp, MdpParts, Named, Objective, Whole};
use warpkov_common::io::invalid;
use warpkov_common::io::safetensors::{self as file, Entry, Header, PREFIX};
use warpkov_runtime::comm::file::{code, fill_together, write_at};
use warpkov_runtime::comm::{Communicator, Disagreed};

const FORMAT: &str = "warpkov-mdp";
const VERSION: &str = "1";
const LABEL: &str = "labels.";
const OF_ROW: &str = "action_names.of_row";
const OFFSETS: &str = "state_names.offsets";
const BYTES: &str = "state_names.bytes";

/// Whether a file of this length begins like safetensors: with a header length below the file's, then `{`. JSON cannot
/// pass this test, because its first eight characters form a number larger than any file.
pub fn sniff(start: &[u8], length: Option<u64>) -> bool {
    let prefix = start.first_chunk().map(|prefix| u64::from_le_bytes(*prefix));
    start.get(PREFIX) == Some(&b'{') && prefix < length
}

/// Reads or maps a file and validates its model.
pub fn read(file: &File, name: String, maps: bool) -> Result<Mdp, Error> {
    let map = if maps { map(file, &name)? } else { copied(file).map(Arc::new).map_err(Error::read(&name))? };
    let content = |message| Error::Content { file: name.clone(), message };
    let parts = Parts::from_map(map).map_err(content)?;
    parts.states().map_err(content)?;
    if !parts.is_short() {
        // Columns of 64 bits are checked before they become numbers of 32 bits.
        let mapped = Mapped::from_parts(parts, name.clone())?;
        mapped.check(0..mapped.states)?;
        let parts = mapped.parts.model().map_err(content)?;
        return parts.validated().map_err(invalid(name));
    }
    let parts = parts.model().map_err(content)?;
    parts.validated().map_err(invalid(name))
}

/// The content of a file, in memory of its own.
fn copied(mut file: &File) -> io::Result<Mmap> {
    let length = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut memory = MmapMut::map_anon(length.max(1))?;
    file.read_exact(&mut memory[..length])?;
    memory.make_read_only()
}

fn map(file: &File, name: &str) -> Result<Arc<Mmap>, Error> {
    // SAFETY: `Mmap::map` requires that nobody changes the file while it is mapped. No file system enforces that. The
    // contract of `super::read` demands it from callers, and warpkov's own writers replace files instead of changing
    // them.
    let map = unsafe { Mmap::map(file) };
    map.map(Arc::new).map_err(Error::read(name))
}

/// A mapped file, whose rows are read and validated by the numbers of their states.
///
/// Opening it validates the metadata and the lengths of the arrays. [`rows`](Whole::rows) validates the rows
/// asked for, and of the labels, the names of actions and the walls of a grid the same fraction as of the states.
pub struct Mapped {
    file: String,
    parts: Parts,
    states: u64,
    /// The number of rows.
    rows: u64,
    actions: Owners,
    gamma: f64,
    objective: Objective,
    transitions: Matrices,
    rewards: Matrices,
    ends: Option<Tensor>,
    action_rewards: Option<Tensor>,
    /// The names of actions, and the name of each row; none if the actions have no names.
    action_names: Option<(Vec<String>, Tensor)>,
    state_names: Option<TextPlaces>,
}

/// The offsets and the bytes of texts.
#[derive(Clone, Copy)]
struct TextPlaces {
    offsets: Tensor,
    bytes: Tensor,
}

/// The rows of each state: so many, or by offsets.
enum Owners {
    Uniform(u32),
    Ragged(Tensor),
}

/// The arrays of a matrix.
struct Matrices {
    name: Matrix,
    row_ptr: Tensor,
    col: Tensor,
    val: Tensor,
}

/// A tensor of one dimension in the file.
#[derive(Clone, Copy)]
struct Tensor {
    dtype: Dtype,
    /// Byte offset in the file.
    start: usize,
    /// Number of elements.
    length: u64,
}

impl Mapped {
    /// Maps a file and validates its header; messages call it `name`.
    ///
    /// # Errors
    /// If the file cannot be mapped, or its header is not that of a model.
    pub(super) fn open(file: &File, name: String) -> Result<Self, Error> {
        let content = |message| Error::Content { file: name.clone(), message };
        Self::from_parts(Parts::from_map(map(file, &name)?).map_err(content)?, name)
    }

    fn from_parts(parts: Parts, file: String) -> Result<Self, Error> {
        let content = |message| Error::Content { file: file.clone(), message };
        let read = || {
            parts.check_version()?;
            let matrix = |name: Matrix| {
                Ok::<_, String>(Matrices {
                    name,
                    row_ptr: parts.place(&format!("{name}.indptr"), &[Dtype::U64])?,
                    col: parts.place(&format!("{name}.indices"), &NUMBERS)?,
                    val: parts.place(&format!("{name}.data"), &[Dtype::F64])?,
                })
            };
            let per_row = |name: &str| parts.header.info(name).map(|_| parts.place(name, &[Dtype::F64])).transpose();
            Ok(Self {
                states: parts.number("S", "an integer")?,
                rows: 0,
                actions: match parts.header.info("choices") {
                    Some(_) => Owners::Ragged(parts.place("choices", &[Dtype::U64])?),
                    None => Owners::Uniform(parts.number("A", "an integer")?),
                },
                gamma: parts.number("gamma", "a number")?,
                objective: parts.objective()?,
                transitions: matrix(Matrix::P)?,
                rewards: matrix(Matrix::R)?,
                ends: per_row("ends")?,
                action_rewards: per_row("action_rewards")?,
                action_names: match parts.names()? {
                    Some(names) => Some((names, parts.place(OF_ROW, &[Dtype::U32])?)),
                    None => None,
                },
                state_names: parts.state_names()?,
                file: file.clone(),
                parts,
            })
        };
        let mut mapped = read().map_err(content)?;
        mapped.check_header().map_err(invalid(file))?;
        Ok(mapped)
    }

    /// Replaces the discount factor.
    ///
    /// # Errors
    /// If γ is not in [0, 1].
    pub fn with_gamma(self, gamma: f64) -> Result<Self, Invalid> {
        validate::check_gamma(gamma)?;
        Ok(Self { gamma, ..self })
    }

    /// Replaces the optimisation sense.
    #[must_use]
    pub fn with_objective(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// The initial states, ascending: those of the label "init".
    ///
    /// # Errors
    /// If the label has a wrong type.
    pub fn init(&self) -> Result<impl ExactSizeIterator<Item = u64>, Error> {
        let name = format!("{LABEL}init");
        let place = self.parts.header.info(&name).map(|_| self.parts.place(&name, &NUMBERS)).transpose();
        let place = place.map_err(|message| self.content(message))?;
        let count = place.map_or(0, |place| place.length as usize);
        let states = self.states;
        let of = move |at: usize| place.map_or(0, |place| self.parts.one(place, at as u64)).min(states - 1);
        Ok((0..count).map(of))
    }

    /// The names of states and actions, if either have names.
    #[must_use]
    pub fn names(&self) -> Option<&dyn Named> {
        (self.state_names.is_some() || self.action_names.is_some()).then_some(self as _)
    }

    /// The geometry, if the states are the cells of a grid.
    ///
    /// # Errors
    /// If the grid is not valid.
    pub fn grid(&self) -> Result<Option<Grid>, Error> {
        if !self.parts.metadata.contains_key("grid.width") {
            return Ok(None);
        }
        self.parts.grid().map(Some).map_err(|message| self.content(message))
    }

    fn content(&self, message: String) -> Error {
        Error::Content { file: self.file.clone(), message }
    }

    /// Checks the metadata, and lengths and ends of the arrays.
    fn check_header(&mut self) -> Result<(), Invalid> {
        if self.states == 0 {
            return Err(Invalid::NoStates);
        }
        self.rows = match self.actions {
            Owners::Uniform(actions) => validate::uniform_rows(self.states, actions)?,
            Owners::Ragged(place) => {
                let (found, expected) = (place.length as usize, self.states.saturating_add(1) as usize);
                if found != expected {
                    return Err(Invalid::ChoicesLength { found, expected });
                }
                match (self.parts.one(place, 0), self.parts.one(place, self.states)) {
                    (0, 0) => return Err(Invalid::NoRows),
                    (0, rows) => rows,
                    (found, _) => return Err(Invalid::ChoicesStart { found }),
                }
            }
        };
        validate::check_gamma(self.gamma)?;
        for Matrices { name: matrix, row_ptr, col, val } in [&self.transitions, &self.rewards] {
            let invalid = |source| Err(Invalid::Csr { matrix: *matrix, source });
            if row_ptr.length == 0 && *matrix == Matrix::R && col.length + val.length == 0 {
                // No rewards of transitions.
                continue;
            }
            let expected = self.rows.saturating_add(1);
            if row_ptr.length != expected {
                let (found, expected) = (row_ptr.length as usize, expected as usize);
                return Err(Invalid::RowPtrLength { matrix: *matrix, found, expected });
            }
            let (start, found) = (self.parts.one(*row_ptr, 0), self.parts.one(*row_ptr, self.rows));
            if start != 0 {
                return invalid(InvalidCsr::Start { found: start });
            }
            if col.length != val.length {
                return invalid(InvalidCsr::Lengths { indices: col.length as usize, data: val.length as usize });
            }
            if found != col.length {
                return invalid(InvalidCsr::End { found, entries: col.length as usize });
            }
        }
        for (array, place) in [("ends", self.ends), ("action_rewards", self.action_rewards)] {
            if let Some(place) = place.filter(|place| place.length != 0 && place.length != self.rows) {
                let (found, expected) = (place.length as usize, self.rows as usize);
                return Err(Invalid::PerRow { array, found, expected });
            }
        }
        Ok(())
    }

    /// The number of the first row of a state, or of S.
    fn first_row(&self, state: u64) -> u64 {
        match self.actions {
            Owners::Uniform(actions) => state * u64::from(actions),
            Owners::Ragged(place) => self.parts.one(place, state).min(self.rows),
        }
    }

    /// Reads and checks the rows of a range of states.
    fn check(&self, states: Range<u64>) -> Result<Rows<'_>, Error> {
        let wrong = |error: Invalid| invalid(self.file.clone())(error);
        let actions = match self.actions {
            Owners::Uniform(actions) => Actions::Uniform(actions),
            Owners::Ragged(place) => {
                let offsets = self.parts.slice::<u64>(place, states.start..states.end + 1);
                validate::check_steps(&offsets, states.start as usize).map_err(wrong)?;
                if offsets[offsets.len() - 1] > self.rows {
                    // They fall later, because the last one is the number of rows.
                    let rest = self.parts.slice::<u64>(place, states.end..self.states + 1);
                    validate::check_steps(&rest, states.end as usize).map_err(wrong)?;
                }
                Actions::Ragged(offsets)
            }
        };
        let rows = self.first_row(states.start)..self.first_row(states.end);
        let per_row = |place: Option<Tensor>| match place {
            Some(place) if place.length > 0 => self.parts.slice(place, rows.clone()),
            _ => Cow::Borrowed(&[][..]),
        };
        let mut found = Rows {
            transitions: self.entries(&self.transitions, &rows).map_err(wrong)?,
            rewards: self.entries(&self.rewards, &rows).map_err(wrong)?,
            ends: per_row(self.ends),
            action_rewards: per_row(self.action_rewards),
            names: Cow::Borrowed(&[]),
            actions,
            states,
        };
        if !validate::check_rows(&found, self.states).map_err(wrong)? {
            validate::check_distinct_rows(&found, self.states).map_err(wrong)?;
        }
        found.names = self.check_others(&found.states, &rows)?;
        Ok(found)
    }

    /// Some rows of a matrix.
    fn entries(&self, matrix: &Matrices, rows: &Range<u64>) -> Result<Entries<'_>, Invalid> {
        let Matrices { name, row_ptr: place, col, val } = matrix;
        if place.length == 0 {
            return Ok(Entries::empty((rows.end - rows.start) as usize));
        }
        let row_ptr = self.parts.slice::<u64>(*place, rows.start..rows.end + 1);
        let falls = |ends: &[u64], first: u64| {
            let row = ends.par_windows(2).position_first(|ends| ends[0] > ends[1])?;
            let (start, end) = (ends[row], ends[row + 1]);
            Some(Invalid::Csr { matrix: *name, source: InvalidCsr::Falls { row: first as usize + row, start, end } })
        };
        if let Some(error) = falls(&row_ptr, rows.start) {
            return Err(error);
        }
        let entries = row_ptr[0]..row_ptr[row_ptr.len() - 1];
        if entries.end > col.length {
            // They fall later, because the last one is the number of entries.
            let rest = self.parts.slice::<u64>(*place, rows.end..self.rows + 1);
            let end = InvalidCsr::End { found: entries.end, entries: col.length as usize };
            return Err(falls(&rest, rows.end).unwrap_or(Invalid::Csr { matrix: *name, source: end }));
        }
        Ok(Entries {
            row_ptr,
            col: match col.dtype {
                Dtype::U32 => Columns::Short(self.parts.slice(*col, entries.clone())),
                _ => Columns::Long(self.parts.slice(*col, entries.clone())),
            },
            val: self.parts.slice(*val, entries),
        })
    }

    /// Checks the fraction of labels, names and cells that goes with the states, and the names of the rows, which it returns.
    fn check_others(&self, states: &Range<u64>, rows: &Range<u64>) -> Result<Cow<'_, [u32]>, Error> {
        let wrong = |error: Invalid| invalid(self.file.clone())(error);
        let content = |message| self.content(message);
        let parts = &self.parts;
        // The first position whose number does not exceed the one before or is no state, with both.
        let violation = |place: Tensor| {
            let position = |state: u64| (u128::from(place.length) * u128::from(state) / u128::from(self.states)) as u64;
            let of = |at: u64| parts.one(place, at);
            let wrong = |&at: &u64| of(at) >= self.states || at > 0 && of(at) <= of(at - 1);
            let at = (position(states.start)..position(states.end)).find(wrong)?;
            Some((at as usize, of(at), if at > 0 { of(at - 1) } else { 0 }))
        };
        let mut labels: Vec<_> = parts.header.tensors().into_keys().filter(|name| name.starts_with(LABEL)).collect();
        labels.sort_unstable();
        for tensor in labels {
            if let Some((position, found, _)) = violation(parts.place(&tensor, &NUMBERS).map_err(content)?) {
                let label = tensor[LABEL.len()..].to_owned();
                return Err(wrong(Invalid::Label { label, position, found, states: self.states }));
            }
        }
        if let Some(places) = self.state_names {
            let (found, expected) = (places.offsets.length, self.states + 1);
            if found != expected {
                return Err(self.content(format!("{OFFSETS} has {found} elements, expected S + 1, {expected}")));
            }
            (states.start..states.end).try_for_each(|s| parts.text_at(places, s).map(drop)).map_err(content)?;
        }
        let mut of_row = Cow::Borrowed(&[][..]);
        if let Some((names, place)) = &self.action_names {
            let (array, names, place) = (OF_ROW, names.len(), *place);
            if place.length != self.rows {
                let (found, expected) = (place.length as usize, self.rows as usize);
                return Err(wrong(Invalid::PerRow { array, found, expected }));
            }
            of_row = parts.slice::<u32>(place, rows.clone());
            if let Some(row) = of_row.iter().position(|&name| name as usize >= names) {
                let position = rows.start as usize + row;
                return Err(wrong(Invalid::ActionName { position, found: of_row[row], names }));
            }
        }
        if parts.metadata.contains_key("grid.width") {
            let side = |key| parts.number::<u32>(key, "an integer");
            let goal = parts.number::<u64>("grid.goal", "an integer").map_err(content)?;
            let (width, height) = (side("grid.width").map_err(content)?, side("grid.height").map_err(content)?);
            validate::check_size(width, height, goal, self.states).map_err(wrong)?;
            for (tensor, list) in [("grid.walls", "walls"), ("grid.obstacles", "obstacles")] {
                let place = parts.header.info(tensor).map(|_| parts.place(tensor, &NUMBERS)).transpose();
                if let Some((position, found, previous)) = place.map_err(content)?.and_then(violation) {
                    return Err(wrong(match found >= self.states {
                        true => Invalid::Cell { list, position, found, states: self.states },
                        false => Invalid::CellOrder { list, position, found, previous },
                    }));
                }
            }
        }
        Ok(of_row)
    }
}

impl Named for Mapped {
    fn name_of_state(&self, state: u64) -> Cow<'_, str> {
        let name = self.state_names.and_then(|places| self.parts.text_at(places, state).ok());
        name.map_or_else(|| state.to_string().into(), Cow::Borrowed)
    }

    fn name_of_action(&self, state: u64, action: u32) -> Cow<'_, str> {
        let name = self.action_names.as_ref().and_then(|(names, of_row)| {
            let row = self.first_row(state) + u64::from(action);
            let name = (row < of_row.length).then(|| self.parts.one(*of_row, row))?;
            names.get(name as usize)
        });
        name.map_or_else(|| action.to_string().into(), |name| Cow::Borrowed(&name[..]))
    }
}

impl Whole for Mapped {
    fn states(&self) -> u64 {
        self.states
    }

    fn gamma(&self) -> f64 {
        self.gamma
    }

    fn objective(&self) -> Objective {
        self.objective
    }

    fn transitions_before(&self, state: u64) -> u64 {
        self.parts.one(self.transitions.row_ptr, self.first_row(state)).min(self.transitions.col.length)
    }

    fn rows(&self, states: Range<u64>) -> Result<Rows<'_>, Fault> {
        Ok(self.check(states)?)
    }
}

/// Types of tensors of states.
const NUMBERS: [Dtype; 3] = [Dtype::U32, Dtype::U64, Dtype::I64];

/// A mapped file and its parsed header.
struct Parts {
    map: Arc<Mmap>,
    /// Byte offset of the tensor data.
    start: usize,
    header: Metadata,
    metadata: HashMap<String, String>,
}

impl Parts {
    fn from_map(map: Arc<Mmap>) -> Result<Self, String> {
        let (length, header) =
            SafeTensors::read_metadata(&map).map_err(|error| format!("not a safetensors file: {error}"))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        Ok(Self { map, start: PREFIX + length, header, metadata })
    }

    /// Whether all columns have 32 bits, and all states fit them.
    fn is_short(&self) -> bool {
        let is_long = |name: &str| self.header.info(name).is_some_and(|info| info.dtype != Dtype::U32);
        !is_long("P.indices") && !is_long("R.indices")
    }

    fn check_version(&self) -> Result<(), String> {
        for (key, expected) in [("format", FORMAT), ("version", VERSION)] {
            let found = self.text(key)?;
            if found != expected {
                return Err(format!("metadata {key}: found \"{found}\", expected \"{expected}\""));
            }
        }
        Ok(())
    }

    /// Builds the model without validation.
    fn model(&self) -> Result<MdpParts, String> {
        self.check_version()?;
        Ok(MdpParts {
            states: self.states()?,
            choices: match self.header.info("choices") {
                Some(_) => Choices::Ragged(self.tensor("choices", Dtype::U64)?),
                None => Choices::Uniform(self.number("A", "an integer")?),
            },
            gamma: self.number("gamma", "a number")?,
            objective: self.objective()?,
            transitions: self.matrix("P")?,
            ends: self.optional("ends", Dtype::F64)?.unwrap_or_default(),
            rewards: self.matrix("R")?,
            action_rewards: self.optional("action_rewards", Dtype::F64)?.unwrap_or_default(),
            labels: self.labels()?,
            action_names: self.action_names()?,
            state_names: match self.state_names()? {
                Some(places) => {
                    let names = (0..places.offsets.length.saturating_sub(1))
                        .map(|state| self.text_at(places, state).map(str::to_owned));
                    Some(Arc::new(names.collect::<Result<_, _>>()?))
                }
                None => None,
            },
            grid: if self.metadata.contains_key("grid.width") { Some(self.grid()?) } else { None },
        })
    }

    /// S, as a number of 32 bits.
    fn states(&self) -> Result<u32, String> {
        let states: u64 = self.number("S", "an integer")?;
        let most = u32::MAX;
        u32::try_from(states)
            .map_err(|_| format!("metadata S: found {states}, expected at most {most}, or several ranks"))
    }

    fn objective(&self) -> Result<Objective, String> {
        match self.metadata.get("objective").map(String::as_str) {
            None | Some("maximize") => Ok(Objective::Maximize),
            Some("minimize") => Ok(Objective::Minimize),
            Some(found) => Err(format!("metadata objective: found \"{found}\", expected \"maximize\" or \"minimize\"")),
        }
    }

    fn labels(&self) -> Result<BTreeMap<String, Vec<u32>>, String> {
        let tensors = self.header.tensors();
        let named = tensors.keys().filter_map(|name| Some((name, name.strip_prefix(LABEL)?)));
        named.map(|(tensor, label)| Ok((label.to_owned(), self.numbers(tensor)?.into_vec()))).collect()
    }

    /// The names of actions, if any.
    fn names(&self) -> Result<Option<Vec<String>>, String> {
        let Some(text) = self.metadata.get("action_names") else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| format!("metadata action_names: {error}"))
    }

    fn action_names(&self) -> Result<Option<ActionNames>, String> {
        let Some(names) = self.names()? else { return Ok(None) };
        Ok(Some(ActionNames { names, of_row: self.tensor(OF_ROW, Dtype::U32)?.into_vec() }))
    }

    /// The places of the names of states, if any.
    fn state_names(&self) -> Result<Option<TextPlaces>, String> {
        let places = |_| {
            Ok(TextPlaces { offsets: self.place(OFFSETS, &[Dtype::U64])?, bytes: self.place(BYTES, &[Dtype::U8])? })
        };
        self.header.info(OFFSETS).or(self.header.info(BYTES)).map(places).transpose()
    }

    /// Text number `at`.
    fn text_at(&self, TextPlaces { offsets, bytes }: TextPlaces, at: u64) -> Result<&str, String> {
        if at + 1 >= offsets.length {
            return Err(format!("{OFFSETS} has {} elements, expected more than {}", offsets.length, at + 1));
        }
        let (start, end) = (self.one(offsets, at), self.one(offsets, at + 1));
        let range = Some(start..end).filter(|range| range.start <= range.end && range.end <= bytes.length);
        let range = range.ok_or_else(|| {
            let length = bytes.length;
            format!("{OFFSETS}: found {start}, then {end} at [{at}], expected ascending numbers up to {length}")
        })?;
        let text = self.map.get(bytes.start + range.start as usize..bytes.start + range.end as usize);
        str::from_utf8(text.unwrap_or_default()).map_err(|_| format!("{BYTES}: the name of state {at} is not UTF-8"))
    }

    fn matrix(&self, name: &str) -> Result<Csr, String> {
        let row_ptr: Array<u64> = self.tensor(&format!("{name}.indptr"), Dtype::U64)?;
        let col = self.numbers(&format!("{name}.indices"))?;
        let val: Array<f64> = self.tensor(&format!("{name}.data"), Dtype::F64)?;
        Csr::new(row_ptr, col, val).map_err(|error| format!("{name}.{error}"))
    }

    fn grid(&self) -> Result<Grid, String> {
        let number = |key| self.number(key, "an integer");
        let cells = |name| match self.header.info(name) {
            Some(_) => Ok::<_, String>(self.numbers(name)?.into_vec()),
            None => Ok(Vec::new()),
        };
        Ok(Grid {
            width: number("grid.width")?,
            height: number("grid.height")?,
            goal: self.number("grid.goal", "an integer")?,
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

    /// A tensor of states, whose type may have 64 bits.
    fn numbers(&self, name: &str) -> Result<Array<u32>, String> {
        let place = self.place(name, &NUMBERS)?;
        if place.dtype == Dtype::U32 {
            return self.tensor(name, Dtype::U32);
        }
        let numbers = self.slice::<u64>(place, 0..place.length);
        let short = |(position, &number): (usize, &u64)| {
            u32::try_from(number).map_err(|_| format!("{name}[{position}] is {number}, expected a number below 2³²"))
        };
        numbers.par_iter().enumerate().map(short).collect::<Result<Vec<u32>, _>>().map(Into::into)
    }

    /// The place of a tensor of one dimension and one of these types.
    fn place(&self, name: &str, dtypes: &[Dtype]) -> Result<Tensor, String> {
        let info = self.header.info(name).ok_or_else(|| format!("tensor {name} is missing"))?;
        match info.shape[..] {
            [length] if dtypes.contains(&info.dtype) => {
                Ok(Tensor { dtype: info.dtype, start: self.start + info.data_offsets.0, length: length as u64 })
            }
            _ => {
                let (found, shape, expected) = (info.dtype, &info.shape, dtypes[0]);
                Err(format!("tensor {name}: found {found} of shape {shape:?}, expected {expected} of one dimension"))
            }
        }
    }

    /// Some elements of a tensor, within its length. Copies them if the file has them misaligned.
    fn slice<T: Pod>(&self, place: Tensor, range: Range<u64>) -> Cow<'_, [T]> {
        let byte = |element: u64| place.start + element as usize * size_of::<T>();
        let bytes = self.map.get(byte(range.start)..byte(range.end)).unwrap_or_default();
        match bytemuck::try_cast_slice(bytes) {
            Ok(elements) => Cow::Borrowed(elements),
            Err(_) => Cow::Owned(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
        }
    }

    /// An element of a tensor of numbers of 32 or 64 bits.
    fn one(&self, place: Tensor, at: u64) -> u64 {
        match place.dtype {
            Dtype::U32 => self.slice::<u32>(place, at..at + 1)[0].into(),
            _ => self.slice::<u64>(place, at..at + 1)[0],
        }
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

/// The metadata and the tensors of the file of a model whose rows have this extent, in the order of the file.
fn plan(model: &dyn Described, extent: &Extent) -> Result<(Value, Vec<Entry>), Fault> {
    let (states, wide) = (model.states(), is_wide(model));
    let number = if wide { "U64" } else { "U32" };
    let mut metadata = json!({
        "format": FORMAT, "version": VERSION, "S": states.to_string(), "gamma": model.gamma().to_string(),
    });
    let mut entries = Vec::new();
    for (name, count) in [("P", extent.transitions), ("R", extent.rewards)] {
        entries.push(Entry::new(format!("{name}.indptr"), "U64", extent.rows + 1));
        entries.push(Entry::new(format!("{name}.indices"), number, count));
        entries.push(Entry::new(format!("{name}.data"), "F64", count));
    }
    match model.rows(0..0)?.actions {
        Actions::Uniform(actions) => metadata["A"] = actions.to_string().into(),
        Actions::Ragged(_) => entries.push(Entry::new("choices", "U64", states + 1)),
    }
    if model.objective() == Objective::Minimize {
        metadata["objective"] = "minimize".into();
    }
    for (name, count) in [("ends", extent.ends), ("action_rewards", extent.action_rewards)] {
        if count > 0 {
            entries.push(Entry::new(name, "F64", count));
        }
    }
    for (label, members) in model.labels() {
        entries.push(Entry::new(format!("{LABEL}{label}"), number, members.len() as u64));
    }
    let names = model.action_names();
    if !names.is_empty() {
        metadata["action_names"] = serde_json::to_string(&names)?.into();
        entries.push(Entry::new(OF_ROW, "U32", extent.rows));
    }
    if let Some(names) = model.state_names() {
        entries.push(Entry::new(OFFSETS, "U64", states + 1));
        entries.push(Entry::new(BYTES, "U8", names.iter().map(|name| name.len() as u64).sum()));
    }
    if let Some(grid) = model.grid() {
        let Grid { width, height, goal, walls, obstacles } = &*grid;
        for (key, number) in [("width", u64::from(*width)), ("height", (*height).into()), ("goal", *goal)] {
            metadata[format!("grid.{key}")] = number.to_string().into();
        }
        entries.push(Entry::new("grid.walls", "U32", walls.len() as u64));
        entries.push(Entry::new("grid.obstacles", "U32", obstacles.len() as u64));
    }
    file::align(&mut entries, |entry| entry);
    Ok((metadata, entries))
}

/// Whether numbers of states have 64 bits in a file.
fn is_wide(model: &dyn Described) -> bool {
    model.states() > u32::MAX.into()
}

/// Writes a model. The arrays are written from memory, without copies.
pub fn write(out: &mut dyn Write, mdp: &Mdp) -> io::Result<()> {
    let (metadata, entries) = plan(mdp, &mdp.extent(0..mdp.states().into())).map_err(io::Error::other)?;
    out.write_all(&Header::new(metadata, &entries)?.bytes)?;
    let names = mdp.state_names().unwrap_or_default();
    entries.iter().try_for_each(|entry| match &entry.name[..] {
        OFFSETS => out.write_all(bytemuck::cast_slice(&name_ends(names))),
        BYTES => names.iter().try_for_each(|name| out.write_all(name.as_bytes())),
        name => out.write_all(bytes_of(mdp, name)),
    })
}

/// The offsets of texts that follow one another.
fn name_ends(names: &[String]) -> Vec<u64> {
    let ends = names.iter().scan(0, |end, name| {
        *end += name.len() as u64;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The array of a model that is the tensor of this name.
fn bytes_of<'m>(mdp: &'m Mdp, name: &str) -> &'m [u8] {
    use bytemuck::cast_slice;

    let (p, r) = (mdp.transitions(), mdp.rewards());
    match (name, mdp.choices(), mdp.action_names(), mdp.grid()) {
        ("P.indptr", ..) => cast_slice(p.row_ptr()),
        ("P.indices", ..) => cast_slice(p.col()),
        ("P.data", ..) => cast_slice(p.val()),
        ("R.indptr", ..) => cast_slice(r.row_ptr()),
        ("R.indices", ..) => cast_slice(r.col()),
        ("R.data", ..) => cast_slice(r.val()),
        ("choices", Choices::Ragged(offsets), ..) => cast_slice(offsets),
        ("ends", ..) => cast_slice(mdp.ends()),
        ("action_rewards", ..) => cast_slice(mdp.action_rewards()),
        (OF_ROW, _, Some(names), _) => cast_slice(&names.of_row),
        ("grid.walls", .., Some(grid)) => cast_slice(&grid.walls),
        ("grid.obstacles", .., Some(grid)) => cast_slice(&grid.obstacles),
        (label, ..) => {
            cast_slice(mdp.labels().get(label.strip_prefix(LABEL).unwrap_or(label)).map_or(&[][..], Vec::as_slice))
        }
    }
}

/// Writes a model block by block: each rank makes the rows of its share of the states and writes them at their offsets. `Ok(false)`
/// if that is not possible, and nothing is written: the path is no regular file, or a rank does not see the files of rank 0. The bytes
/// are those of [`write_as`](super::write_as). All ranks call this together; `path` counts on rank 0.
///
/// `observe` is called with the fraction of this rank's work that is done. It may end the writing.
///
/// # Errors
/// The error of the first rank that failed, of the rows or of the file system; no file is left.
pub fn write_blocks(
    comm: &dyn Communicator,
    path: &Path,
    model: &dyn Described,
    mut observe: impl FnMut(f64) -> ControlFlow<()>,
) -> Result<bool, Disagreed<Error>> {
    let failed = |disagreed: Disagreed<io::Error>| disagreed.map(Error::write(path));
    let (states, rank, ranks) = (model.states(), comm.rank() as usize, u128::from(comm.size()));
    let border = |rank: usize| (u128::from(states) * rank as u128 / ranks) as u64;
    let own = border(rank)..border(rank + 1);
    // First the lengths, of which the offsets are made.
    let mut done = 0.0;
    let mut step = |states: Range<u64>, weight: f64| {
        done += weight * (states.end - states.start) as f64 / (own.end - own.start) as f64;
        match observe(done) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(io::Error::from(io::ErrorKind::Interrupted)),
        }
    };
    let mut measure = || -> io::Result<Extent> {
        let mut extent = Extent::default();
        for states in blocks(&own, MEASURED) {
            extent = extent + model.extent(states.clone());
            step(states, 0.25)?;
        }
        Ok(extent)
    };
    let extent = comm.agree(measure(), code).map_err(failed)?;
    let lengths = [extent.rows, extent.transitions, extent.rewards, extent.ends, extent.action_rewards];
    let of = |all: &[u64]| Extent {
        rows: all[0],
        transitions: all[1],
        rewards: all[2],
        ends: all[3],
        action_rewards: all[4],
    };
    let all: Vec<Extent> = comm.gather(&lengths).map_err(Disagreed::Comm)?.iter().map(|all| of(all)).collect();
    let total = all.iter().copied().fold(Extent::default(), Add::add);
    let plan = || -> io::Result<(Header, Vec<Entry>)> {
        let (metadata, entries) = plan(model, &total).map_err(io::Error::other)?;
        Ok((Header::new(metadata, &entries)?, entries))
    };
    let (header, entries) = comm.agree(plan(), code).map_err(failed)?;
    let length = header.offsets[entries.len()];
    let fill = |file: &mut File| -> io::Result<()> {
        let places = entries.iter().map(|entry| &entry.name[..]).zip(header.offsets.iter().copied()).collect();
        let before = all[..rank].iter().copied().fold(Extent::default(), Add::add);
        let mut blocks_file = Blocks { out: file, places, wide: is_wide(model), before };
        if rank == 0 {
            write_at(blocks_file.out, 0, &header.bytes)?;
            blocks_file.begin(model)?;
        }
        // Blocks of about equally many transitions.
        let per_state = extent.transitions.max(extent.rows) / (own.end - own.start).max(1) + 1;
        for states in blocks(&own, (ENTRIES / per_state).max(1)) {
            blocks_file.write(&model.rows(states.clone()).map_err(io::Error::other)?)?;
            step(states, 0.75)?;
        }
        Ok(())
    };
    fill_together(comm, path, length, fill).map_err(failed)
}

/// States whose lengths are counted at a time.
const MEASURED: u64 = 1 << 20;

/// Transitions that are made and written at a time.
const ENTRIES: u64 = 1 << 20;

/// Adjacent ranges of at most `count` states each.
fn blocks(states: &Range<u64>, count: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = states.end;
    states.clone().step_by(count as usize).map(move |first| first..end.min(first + count))
}

/// A file that is written block by block.
struct Blocks<'a> {
    out: &'a mut File,
    /// The offset of each tensor.
    places: HashMap<&'a str, u64>,
    /// Whether numbers of states have 64 bits.
    wide: bool,
    /// The lengths of the arrays before the next block.
    before: Extent,
}

impl Blocks<'_> {
    /// Writes elements of a tensor from number `first` on, if the file has the tensor.
    fn put<T: Pod>(&mut self, name: &str, first: u64, elements: &[T]) -> io::Result<()> {
        match self.places.get(name) {
            Some(place) => write_at(self.out, place + first * size_of::<T>() as u64, bytemuck::cast_slice(elements)),
            None => Ok(()),
        }
    }

    /// Writes what comes before the rows.
    fn begin(&mut self, model: &dyn Described) -> io::Result<()> {
        for name in ["P.indptr", "R.indptr", "choices"] {
            self.put(name, 0, &[0_u64])?;
        }
        for (label, members) in model.labels() {
            self.put_numbers(&format!("{LABEL}{label}"), 0, &members)?;
        }
        if let Some(grid) = model.grid() {
            self.put("grid.walls", 0, &grid.walls)?;
            self.put("grid.obstacles", 0, &grid.obstacles)?;
        }
        if let Some(names) = model.state_names() {
            self.put(OFFSETS, 0, &name_ends(names))?;
            self.put(BYTES, 0, names.concat().as_bytes())?;
        }
        Ok(())
    }

    /// Writes numbers of states.
    fn put_numbers(&mut self, name: &str, first: u64, numbers: &[u64]) -> io::Result<()> {
        match self.wide {
            true => self.put(name, first, numbers),
            false => self.put(name, first, &numbers.iter().map(|&number| number as u32).collect::<Vec<_>>()),
        }
    }

    /// Writes the next rows.
    fn write(&mut self, rows: &Rows) -> io::Result<()> {
        let before = self.before;
        let count = rows.count() as u64;
        for (name, entries, first) in
            [("P", &rows.transitions, before.transitions), ("R", &rows.rewards, before.rewards)]
        {
            let start = entries.row_ptr.first().copied().unwrap_or_default();
            let ends: Vec<u64> = entries.row_ptr.iter().skip(1).map(|end| first + end - start).collect();
            self.put(&format!("{name}.indptr"), before.rows + 1, &ends)?;
            let columns = format!("{name}.indices");
            match (&entries.col, self.wide) {
                (Columns::Short(col), false) => self.put(&columns, first, col)?,
                (Columns::Short(col), true) => {
                    self.put(&columns, first, &col.iter().map(|&col| u64::from(col)).collect::<Vec<_>>())?;
                }
                (Columns::Long(col), _) => self.put_numbers(&columns, first, col)?,
            }
            self.put(&format!("{name}.data"), first, &entries.val)?;
        }
        if let Actions::Ragged(firsts) = &rows.actions {
            self.put("choices", rows.states.start + 1, &firsts[1..])?;
        }
        self.put("ends", before.rows, &rows.ends)?;
        self.put("action_rewards", before.rows, &rows.action_rewards)?;
        self.put(OF_ROW, before.rows, &rows.names)?;
        self.before = before
            + Extent {
                rows: count,
                transitions: rows.transitions.val.len() as u64,
                rewards: rows.rewards.val.len() as u64,
                ..Extent::default()
            };
        Ok(())
    }
}
