//! Models in files: JSON for people and scripts, safetensors for large ones, and the formats of other tools.
//!
//! The formats of other tools have no place for all that a model can have: neither for [γ](Format::discount), nor for costs
//! (which are written as rewards), nor for a grid. Where rows end the process they get one more state, terminal, where such
//! rows lead.

mod drn;
mod gymnasium;
pub(crate) mod json;
mod npz;
mod petsc;
mod prism;
mod rows;
mod safetensors;
mod solution;
mod solved;
mod text;
mod umb;
mod xml;

use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::model::Mdp;
use crate::common::choice::choice;
use crate::common::io::binary::of_file;
use crate::common::io::input::{self, Input, plain_name};
use crate::common::io::output::{atomic_write, room};
use crate::common::io::{BUFFER, invalid, of_extension};
use crate::common::terminal::quoted;

pub use self::solution::{read_values, write_csv, write_npy, write_npy_rows};
pub use self::solved::{ReadError, Solved};
pub use crate::common::io::Error;

choice! {
    /// A format of models in files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Format {
        /// JSON, for people and scripts.
        Json = "json",
        /// Safetensors, for large models.
        Safetensors = "safetensors",
        /// PRISM's explicit files: .tra, and .srew, .trew, .lab beside it.
        Prism = "prism",
        /// Storm's dialect of them: .tra, and .state.rew, .trans.rew, .lab beside it.
        Storm = "storm",
        /// Storm's DRN.
        Drn = "drn",
        /// The XML of Jóhannsson's thesis.
        Xml = "xml",
        /// The plain text of Jóhannsson's thesis.
        Text = "text",
        /// NumPy's .npz: SciPy's CSR arrays, mdptoolbox' list of matrices, or QuantEcon's arrays.
        Npz = "npz",
        /// PETSc's binary matrices, as madupite takes them: NAME.P.bin, and costs in NAME.g.bin.
        Petsc = "petsc",
        /// UMB, the binary format of probabilistic model checkers.
        Umb = "umb",
        /// The transition table of a toy-text environment of Gymnasium, in JSON.
        Gymnasium = "gymnasium",
    }
}

impl Format {
    /// Extensions of the names of such files; the first is the usual one.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["json"],
            Self::Safetensors => &["safetensors"],
            Self::Prism => &["tra"],
            // By name it is PRISM's, whose reader knows the two apart.
            Self::Storm => &[],
            Self::Drn => &["drn"],
            Self::Xml => &["xml"],
            Self::Text => &["txt"],
            Self::Npz => &["npz"],
            Self::Petsc => &["bin"],
            Self::Umb => &["umb"],
            // By name it is JSON, and its content tells it apart.
            Self::Gymnasium => &[],
        }
    }

    /// Whether a model is written as one text, from its beginning to its end, so that a pipe can carry it.
    pub fn streams(self) -> bool {
        !matches!(self, Self::Safetensors | Self::Prism | Self::Storm | Self::Npz | Self::Petsc)
    }

    /// All files that writing a model to `path` makes, or removes because they would be read with it.
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

    /// Bytes that a model takes at least.
    fn least(self, mdp: &Mdp) -> u64 {
        mdp.transitions().nnz() as u64
            * match self {
                // A column of 4 bytes and a value of 8.
                Self::Safetensors | Self::Npz | Self::Petsc => 12,
                // A state, a probability, and what stands between.
                Self::Json | Self::Prism | Self::Storm | Self::Drn => 4,
                // Of dense tables, and of what is compressed, that is not told by entries.
                Self::Xml | Self::Text | Self::Gymnasium | Self::Umb => 0,
            }
    }

    /// γ of a model in a format that has no place for it: 1 in those of model checkers, and in those of Jóhannsson's thesis
    /// that of its experiments.
    pub fn discount(self) -> Option<f64> {
        match self {
            Self::Prism | Self::Storm | Self::Drn | Self::Petsc | Self::Umb => Some(1.0),
            Self::Xml | Self::Text => Some(text::GAMMA),
            _ => None,
        }
    }

    /// The format that the extension of `path` tells.
    pub fn of_name(path: &Path) -> Option<Self> {
        of_extension(path, Self::extensions)
    }

    /// The format of a file that begins with `start`, the first [`SNIFFED`] bytes or all, and is `length` bytes long, if
    /// that is known. What looks like nothing else is taken for JSON.
    fn of_content(start: &[u8], length: Option<u64>) -> Self {
        match start {
            _ if safetensors::sniff(start, length) => return Self::Safetensors,
            _ if npz::sniff(start) => return Self::Npz,
            _ if petsc::sniff(start) => return Self::Petsc,
            _ if umb::sniff(start) => return Self::Umb,
            _ if gymnasium::sniff(start) => return Self::Gymnasium,
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

/// Bytes at the beginning of a file that tell its format.
const SNIFFED: usize = 512;

/// How to read a model.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; if none, the one that the name's extension or else the content tells.
    pub format: Option<Format>,
    /// The name of the rewards to read, of several that a file has; if none, the first. Formats in which rewards have no
    /// names do not ask.
    pub reward: Option<String>,
    /// The file of the costs of a PETSc model; if none, the one beside the probabilities.
    pub costs: Option<PathBuf>,
}

/// Reads the model in `path`, in the format that the extension of its name tells, or else its content. A text may be
/// [compressed](crate::common::io::input), with or without a further extension such as `.gz`, and come through a pipe.
///
/// Safetensors are mapped to memory, not read: the file must not be changed in place while the model lives. (A file that
/// is replaced, as [`write()`] does, is safe.)
///
/// # Errors
/// If the file cannot be read, is of no known format, or its model is not valid.
pub fn read(path: &Path) -> Result<Mdp, Error> {
    read_with(path, &ReadOptions::default())
}

/// The files that [`read_with`] reads, as far as names tell.
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
/// Those of [`read()`].
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<Mdp, Error> {
    let name = path.display().to_string();
    match Input::open(path) {
        Ok(input) => read_input(input, Some(path), name, Format::of_name(&plain_name(path)), options),
        Err(error) => Err(of_file(name)(error)),
    }
}

/// Reads a model from a stream; `name` is what messages call it.
///
/// # Errors
/// Those of [`read()`], and if a model of this format needs a file that can be read at any place.
pub fn read_from(reader: impl Read, name: &str, options: &ReadOptions) -> Result<Mdp, Error> {
    match Input::new(reader) {
        Ok(input) => read_input(input, None, name.to_owned(), None, options),
        Err(error) => Err(of_file(name.to_owned())(error)),
    }
}

/// Reads a model in the format asked for, or that of its name, or that of its content. A stream has no path, and no files
/// beside it.
fn read_input(
    mut input: Input<'_>,
    path: Option<&Path>,
    file: String,
    named: Option<Format>,
    options: &ReadOptions,
) -> Result<Mdp, Error> {
    let name = file.clone();
    let cannot_read = |error| of_file(name.clone())(error);
    let format = match (options.format, named) {
        (Some(format), _) => format,
        (None, Some(format)) if format != Format::Json => format,
        (None, named) => {
            let length = input.length().map_err(cannot_read)?;
            let start = input.start(SNIFFED).map_err(cannot_read)?;
            match Format::of_content(start, length) {
                Format::Gymnasium => Format::Gymnasium,
                format => named.unwrap_or(format),
            }
        }
    };
    let reward = options.reward.as_deref();
    let named = matches!(format, Format::Prism | Format::Storm | Format::Drn | Format::Umb);
    if let Some(name) = reward.filter(|_| !named) {
        let message = format!("rewards have no names in {format}, found \"{}\" to read", quoted(name.as_bytes()));
        return Err(Error::Content { file, message });
    }
    if options.costs.is_some() && format != Format::Petsc {
        let message = format!("costs are in a file of their own in petsc only, and this is {format}");
        return Err(Error::Content { file, message });
    }
    let mdp = match format {
        Format::Json => return json::read(input, file),
        Format::Drn => drn::read(input, file, reward)?,
        Format::Xml => xml::read(input, file)?,
        Format::Text => text::read(input, file)?,
        Format::Umb => umb::read(input, file, reward)?,
        Format::Gymnasium => gymnasium::read(input, file)?,
        Format::Prism | Format::Storm => prism::read(input, path, file, reward)?,
        Format::Petsc => petsc::read(input, path, file, options.costs.as_deref())?,
        Format::Safetensors | Format::Npz => {
            let Ok(whole) = input.into_file().map_err(cannot_read)? else {
                let message = format!("{format} is read from a file that is neither a pipe nor compressed as a whole");
                return Err(Error::Content { file, message });
            };
            match format {
                Format::Safetensors => return safetensors::read(&whole, file),
                _ => npz::read(whole, file)?,
            }
        }
    };
    mdp.validated().map_err(invalid(name))
}

fn no_stream(format: Format) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{format} cannot be streamed, expected the name of a file"))
}

/// Reads a model in JSON; `name` is what messages call the source. It is read in small pieces and never held as text.
///
/// # Errors
/// If `reader` fails, gives no JSON of a model, or the model is not valid.
pub fn read_json(reader: impl Read, name: &str) -> Result<Mdp, Error> {
    json::read(reader, name.to_owned())
}

/// Writes a model to `path`, whole or not at all, in the format that the extension of the name tells, or else as JSON.
///
/// # Errors
/// Those of the file system.
pub fn write(path: &Path, mdp: &Mdp) -> Result<(), Error> {
    write_as(path, Format::of_name(path).unwrap_or(Format::Json), mdp)
}

/// Writes a model to `path`, whole or not at all.
///
/// # Errors
/// Those of the file system.
pub fn write_as(path: &Path, format: Format, mdp: &Mdp) -> Result<(), Error> {
    let failed = Error::write(path);
    // Of all files of the model, so that there are not some of one and some of another.
    room(path, format.least(mdp)).map_err(&failed)?;
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
/// Those of `writer`, and if a model of this format does not [stream](Format::streams).
pub fn write_to(writer: impl Write, format: Format, mdp: &Mdp) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, writer);
    match format {
        Format::Json => json::write(&mut out, mdp)?,
        Format::Drn => drn::write(&mut out, mdp)?,
        Format::Xml => xml::write(&mut out, mdp)?,
        Format::Text => text::write(&mut out, mdp)?,
        Format::Umb => umb::write(&mut out, mdp)?,
        Format::Gymnasium => gymnasium::write(&mut out, mdp)?,
        _ => return Err(no_stream(format)),
    }
    out.flush()
}

/// Writes a model as JSON. Numbers are as short as they can be and still be read back as the same bits.
///
/// # Errors
/// Those of `writer`.
pub fn write_json(writer: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    write_to(writer, Format::Json, mdp)
}
