//! Model files: JSON and CSV for people and scripts, safetensors for large models, and the formats of other tools.
//!
//! The formats of other tools cannot store every part of a model. Most have no [discount factor](Format::discount), no
//! objective (costs are written as rewards) and no grid. Few store termination probabilities: a model that has any is
//! written with one more state, which is terminal and takes them up.

mod csv;
mod drn;
mod gymnasium;
pub mod json;
mod npz;
mod outcomes;
mod petsc;
mod policy;
mod prism;
mod rows;
mod safetensors;
mod solution;
mod solved;
mod table;
mod text;
mod umb;
mod xml;

use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::model::Mdp;
use warpkov_common::choice::file_format;
use warpkov_common::io::binary::of_file;
use warpkov_common::io::input::{self, Input, SNIFFED, plain_name};
use warpkov_common::io::output::{atomic_write, room};
use warpkov_common::io::{BUFFER, invalid, of_extension};
use warpkov_common::terminal::quoted;

pub use self::policy::read_policy;
pub use self::safetensors::{Mapped, write_blocks};
pub(crate) use self::solution::write_csv_rows;
pub use self::solution::{
    read_values, read_values_of, write_csv, write_csv_named, write_npy, write_npy_pieces, write_npy_rows,
    write_npy_together,
};
pub use self::solved::{ReadError, SolutionFile};
pub use warpkov_common::io::Error;
pub use warpkov_common::io::npy::Store;

/// The JSON Schema (draft 2020-12) of models as JSON.
pub const SCHEMA: &str = include_str!("schema.json");

file_format! {
    /// A model file format.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Format {
        /// JSON, for people and scripts.
        Json = "json" in ["json"],
        /// CSV with one row per transition, for people and spreadsheets.
        Csv = "csv" in ["csv"],
        /// Safetensors, for large models.
        Safetensors = "safetensors" in ["safetensors"],
        /// PRISM's explicit files: .tra, with .srew, .trew and .lab beside it.
        Prism = "prism" in ["tra"],
        /// Storm's dialect of PRISM's explicit files: .tra, with .state.rew, .trans.rew and .lab beside it.
        // PRISM has the same extension, and its reader accepts both dialects.
        Storm = "storm" in [],
        /// Storm's DRN.
        Drn = "drn" in ["drn"],
        /// The XML of Jóhannsson's thesis.
        Xml = "xml" in ["xml"],
        /// The plain text of Jóhannsson's thesis.
        Text = "text" in ["txt"],
        /// NumPy's .npz: SciPy's CSR arrays, mdptoolbox's list of matrices, or QuantEcon's arrays.
        Npz = "npz" in ["npz"],
        /// PETSc's binary matrices as madupite reads them: NAME.P.bin, and costs in NAME.g.bin.
        Petsc = "petsc" in ["bin"],
        /// UMB, the binary format of probabilistic model checkers.
        Umb = "umb" in ["umb"],
        /// The transition table of a toy-text environment of Gymnasium, in JSON.
        // The extension is JSON's; the content identifies the format.
        Gymnasium = "gymnasium" in [],
    }
}

impl Format {
    /// Whether a model is written front to back as one stream, which a pipe can carry.
    pub fn streams(self) -> bool {
        !matches!(self, Self::Safetensors | Self::Prism | Self::Storm | Self::Npz | Self::Petsc)
    }

    /// All files that a write to `path` creates. Stale files of the same model name, which a read would pick up, count
    /// too: the write removes them.
    pub fn files(self, path: &Path) -> Vec<PathBuf> {
        let mut files = vec![path.to_owned()];
        match self {
            Self::Prism => files.extend(prism::beside(path, prism::Dialect::Prism)),
            Self::Storm => files.extend(prism::beside(path, prism::Dialect::Storm)),
            Self::Petsc => files.extend(petsc::beside(path)),
            _ => {}
        }
        files
    }

    /// Lower bound of the file size, in bytes.
    fn min_bytes(self, mdp: &Mdp) -> u64 {
        mdp.transitions().nnz() as u64
            * match self {
                // Per nonzero, a 4-byte column and an 8-byte value.
                Self::Safetensors | Self::Npz | Self::Petsc => 12,
                // Per nonzero, a state, a probability and separators.
                Self::Json | Self::Prism | Self::Storm | Self::Drn => 4,
                // A state, an action, a successor, a probability, a reward and separators.
                Self::Csv => 10,
                // The number of nonzeros does not bound dense tables or compressed data.
                Self::Xml | Self::Text | Self::Gymnasium | Self::Umb => 0,
            }
    }

    /// γ of a model read from a format without a discount factor: 1 for CSV, the formats of model checkers and PETSc, 0.9
    /// for the formats of Jóhannsson's thesis, as in its experiments. `None` where the format stores γ.
    pub fn discount(self) -> Option<f64> {
        match self {
            Self::Csv | Self::Prism | Self::Storm | Self::Drn | Self::Petsc | Self::Umb => Some(1.0),
            Self::Xml | Self::Text => Some(text::GAMMA),
            _ => None,
        }
    }

    /// Whether files hold names of states.
    pub fn names_states(self) -> bool {
        matches!(self, Self::Json | Self::Csv | Self::Safetensors | Self::Npz)
    }

    /// The format that the extension of `path` names.
    pub fn of_name(path: &Path) -> Option<Self> {
        of_extension(path)
    }

    /// The format of a file of `length` bytes, if known, which begins with `start`: its first [`SNIFFED`] bytes, or all
    /// of them. The fallback is JSON.
    fn of_content(start: &[u8], length: Option<u64>) -> Self {
        match start {
            _ if safetensors::sniff(start, length) => return Self::Safetensors,
            _ if npz::sniff(start) => return Self::Npz,
            _ if petsc::sniff(start) => return Self::Petsc,
            _ if umb::sniff(start) => return Self::Umb,
            _ if gymnasium::sniff(start) => return Self::Gymnasium,
            _ if csv::sniff(start) => return Self::Csv,
            _ => {}
        }
        match start.trim_ascii_start() {
            [b'<', ..] => Self::Xml,
            [b'@', ..] | [b'/', b'/', ..] => Self::Drn,
            [b'S', b':', ..] => Self::Text,
            [b'0'..=b'9', ..] => Self::Prism,
            [b'm', b'd', b'p', ..] | [b'd', b't', b'm', b'c', ..] => Self::Storm,
            _ => Self::Json,
        }
    }
}

/// Options of [`read_with`].
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format. Without it, the file name extension decides, then the content.
    pub format: Option<Format>,
    /// Name of the reward structure to read; by default the first in the file. An error in formats whose rewards have
    /// no names.
    pub reward: Option<String>,
    /// Cost file of a PETSc model; by default the file beside the probabilities.
    pub costs: Option<PathBuf>,
    /// Maps a file of safetensors into memory in place of reading it: do not change the file in place while the model lives. Replacing
    /// it, as [`write()`] does, is safe. A process whose mapped file is cut short ends with SIGBUS.
    pub map: bool,
}

/// Reads the model in `path`. The file name extension decides the format, or else the content. A text file may be
/// [compressed](warpkov_common::io::input), with or without a further extension such as `.gz`, and may be a pipe.
///
/// # Errors
/// The file cannot be read, its format is unknown, or its model is invalid.
pub fn read(path: &Path) -> Result<Mdp, Error> {
    read_with(path, &ReadOptions::default())
}

/// The files that [`read_with`] may read, derived from names alone.
pub fn files_read(path: &Path, options: &ReadOptions) -> Vec<PathBuf> {
    let plain = plain_name(path);
    let mut files = match options.format.or(Format::of_name(&plain)) {
        Some(Format::Prism | Format::Storm) => {
            let both = [Format::Prism, Format::Storm].map(|format| format.files(&plain));
            both.into_iter().flatten().filter_map(|file| input::find(&file)).collect()
        }
        Some(format) => format.files(path),
        None => Vec::new(),
    };
    files.push(path.to_owned());
    files.extend(options.costs.clone());
    files
}

/// Reads the model in `path` as [`read()`] does, with options.
///
/// # Errors
/// The errors of [`read()`].
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<Mdp, Error> {
    read_noted(path, options, &mut |_| ())
}

/// [`read_with`], which calls `note` with what deserves attention and is no error: of CSV and of lists of transitions, states that only
/// come as next states.
///
/// # Errors
/// The errors of [`read()`].
pub fn read_noted(path: &Path, options: &ReadOptions, note: &mut dyn FnMut(String)) -> Result<Mdp, Error> {
    let name = path.display().to_string();
    match Input::open(path) {
        Ok(input) => read_input(input, Some(path), name, Format::of_name(&plain_name(path)), options, note),
        Err(error) => Err(of_file(name)(error)),
    }
}

/// Opens the model in `path` to read [its rows](super::model::Whole) in parts, if its format permits: an uncompressed
/// safetensors file, which is memory-mapped. `None` for other files.
///
/// # Errors
/// The errors of [`read()`] that concern the header.
pub fn open_parts(path: &Path, options: &ReadOptions) -> Result<Option<Mapped>, Error> {
    if !path.metadata().is_ok_and(|about| about.is_file()) || options.reward.is_some() || options.costs.is_some() {
        return Ok(None);
    }
    let name = path.display().to_string();
    let mut input = Input::open(path).map_err(of_file(name.clone()))?;
    if format_of(&mut input, Format::of_name(&plain_name(path)), options).map_err(of_file(name.clone()))?
        != Format::Safetensors
    {
        return Ok(None);
    }
    match input.into_file().map_err(of_file(name.clone()))? {
        Ok(file) => Mapped::open(&file, name).map(Some),
        Err(_) => Ok(None),
    }
}

/// Reads a model from a stream; messages call it `name`.
///
/// # Errors
/// The errors of [`read()`], and formats that need random access to a file.
pub fn read_from(reader: impl Read, name: &str, options: &ReadOptions) -> Result<Mdp, Error> {
    read_from_noted(reader, name, options, &mut |_| ())
}

/// [`read_from`], with notes as those of [`read_noted`].
///
/// # Errors
/// The errors of [`read_from`].
pub fn read_from_noted(
    reader: impl Read,
    name: &str,
    options: &ReadOptions,
    note: &mut dyn FnMut(String),
) -> Result<Mdp, Error> {
    match Input::new(reader) {
        Ok(input) => read_input(input, None, name.to_owned(), None, options, note),
        Err(error) => Err(of_file(name.to_owned())(error)),
    }
}

/// The format that the options, the name or the content gives, in this order.
fn format_of(input: &mut Input<'_>, named: Option<Format>, options: &ReadOptions) -> io::Result<Format> {
    match (options.format, named) {
        (Some(format), _) => Ok(format),
        (None, Some(format)) if format != Format::Json => Ok(format),
        (None, named) => {
            let length = input.length()?;
            Ok(match Format::of_content(input.start(SNIFFED)?, length) {
                Format::Gymnasium => Format::Gymnasium,
                format => named.unwrap_or(format),
            })
        }
    }
}

/// Reads a model in its [format](format_of). A stream has no path and
/// no files beside it.
fn read_input(
    mut input: Input<'_>,
    path: Option<&Path>,
    file: String,
    named: Option<Format>,
    options: &ReadOptions,
    note: &mut dyn FnMut(String),
) -> Result<Mdp, Error> {
    let name = file.clone();
    let cannot_read = |error| of_file(name.clone())(error);
    let format = format_of(&mut input, named, options).map_err(cannot_read)?;
    let reward = options.reward.as_deref();
    let named = matches!(format, Format::Prism | Format::Storm | Format::Drn | Format::Umb);
    if let Some(name) = reward.filter(|_| !named) {
        let message =
            format!("rewards have no names in {format}, found the reward name \"{}\"", quoted(name.as_bytes()));
        return Err(Error::Content { file, message });
    }
    if options.costs.is_some() && format != Format::Petsc {
        let message = format!("only petsc has a separate file of costs, and this is {format}");
        return Err(Error::Content { file, message });
    }
    let mdp = match format {
        Format::Json => return json::read(input, file, note),
        Format::Csv => csv::read(input, file, note)?,
        Format::Drn => drn::read(input, file, reward)?,
        Format::Xml => xml::read(input, file)?,
        Format::Text => text::read(input, file)?,
        Format::Umb => umb::read(input, file, reward)?,
        Format::Gymnasium => gymnasium::read(input, file)?,
        Format::Prism | Format::Storm => prism::read(input, path, file, reward)?,
        Format::Petsc => petsc::read(input, path, file, options.costs.as_deref())?,
        Format::Safetensors | Format::Npz => {
            let Ok(whole) = input.into_file().map_err(cannot_read)? else {
                let message = format!("{format} needs an uncompressed file, not a pipe");
                return Err(Error::Content { file, message });
            };
            match format {
                Format::Safetensors => return safetensors::read(&whole, file, options.map),
                _ => npz::read(whole, file)?,
            }
        }
    };
    mdp.validated().map_err(invalid(name))
}

fn no_stream(format: Format) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{format} cannot be streamed, expected the name of a file"))
}

/// Reads a model in JSON; messages call the source `name`. The parser streams: the text is never held in memory.
///
/// # Errors
/// `reader` fails, its text is not a model in JSON, or the model is invalid.
pub fn read_json(reader: impl Read, name: &str) -> Result<Mdp, Error> {
    json::read(reader, name.to_owned(), &mut |_| ())
}

/// Writes a model to `path` atomically, in the format that the extension names, or else as JSON.
///
/// # Errors
/// Errors of the file system.
pub fn write(path: &Path, mdp: &Mdp) -> Result<(), Error> {
    write_as(path, Format::of_name(path).unwrap_or(Format::Json), mdp)
}

/// Writes a model to `path` atomically, in the given format.
///
/// # Errors
/// Errors of the file system.
pub fn write_as(path: &Path, format: Format, mdp: &Mdp) -> Result<(), Error> {
    let failed = Error::write(path);
    // Checked before the first of several files is written, so that a full disk leaves no mixture of two models.
    room(path, format.min_bytes(mdp)).map_err(&failed)?;
    let written = match format {
        Format::Safetensors => atomic_write(path, |out| safetensors::write(out, mdp)),
        Format::Prism => return prism::write(path, mdp, prism::Dialect::Prism),
        Format::Storm => return prism::write(path, mdp, prism::Dialect::Storm),
        Format::Npz => atomic_write(path, |out| npz::write(&mut BufWriter::with_capacity(BUFFER, out), mdp)),
        Format::Petsc => return petsc::write(path, mdp),
        _ => atomic_write(path, |out| write_to(out, format, mdp)),
    };
    written.map_err(failed)
}

/// Writes a model to a stream.
///
/// # Errors
/// I/O errors of `writer`, and formats that do not [stream](Format::streams).
pub fn write_to(writer: impl Write, format: Format, mdp: &Mdp) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, writer);
    match format {
        Format::Json => json::write(&mut out, mdp)?,
        Format::Csv => csv::write(&mut out, mdp)?,
        Format::Drn => drn::write(&mut out, mdp)?,
        Format::Xml => xml::write(&mut out, mdp)?,
        Format::Text => text::write(&mut out, mdp)?,
        Format::Umb => umb::write(&mut out, mdp)?,
        Format::Gymnasium => gymnasium::write(&mut out, mdp)?,
        _ => return Err(no_stream(format)),
    }
    out.flush()
}

/// Writes a model as JSON. Numbers have the fewest digits that read back as the same bits.
///
/// # Errors
/// I/O errors of `writer`.
pub fn write_json(writer: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    write_to(writer, Format::Json, mdp)
}
