//! Files named on the command line.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use warpkov::mdp::{self, model::Mdp};
use warpkov::output;

use super::Error;

/// A model's file, or `-` for JSON on a standard stream.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelFile {
    /// The standard input or output.
    Standard,
    /// A file; its extension tells the format.
    At(PathBuf),
}

impl From<OsString> for ModelFile {
    fn from(text: OsString) -> Self {
        if text == "-" { Self::Standard } else { Self::At(text.into()) }
    }
}

impl ModelFile {
    /// Reads a model from here.
    pub fn read(&self) -> Result<Mdp, Error> {
        Ok(match self {
            Self::Standard => mdp::io::read_json(io::stdin().lock(), "standard input")?,
            Self::At(path) => mdp::io::read(path)?,
        })
    }

    /// Writes a model to here.
    pub fn write(&self, model: &Mdp, mut out: impl Write) -> Result<(), Error> {
        match self {
            Self::Standard => {
                mdp::io::write_json(&mut out, model)?;
                out.flush()?;
            }
            Self::At(path) => mdp::io::write(path, model)?,
        }
        Ok(())
    }

    /// The same file, if a model can be written to it.
    pub fn writable(self) -> Result<Self, Error> {
        if let Self::At(path) = &self {
            extension(path, &["json", "safetensors"])?;
            folder_exists(path)?;
        }
        Ok(self)
    }
}

/// The extension of `path`, if it is one of those `known`.
pub fn extension<'a>(path: &Path, known: &[&'a str]) -> Result<&'a str, Error> {
    let found = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    known
        .iter()
        .copied()
        .find(|known| found.eq_ignore_ascii_case(known))
        .ok_or_else(|| Error::Usage(format!("{}: the name must end in .{}", path.display(), known.join(" or ."))))
}

/// Whether a file can be made at `path`, as far as can be told before the work.
pub fn folder_exists(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Error::Usage(format!("{}: {} is not a folder", path.display(), folder.display()))),
        Err(source) => Err(Error::Write { file: path.display().to_string(), source }),
    }
}

/// Writes a whole file or none.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let buffered = |out: &mut dyn Write| {
        let mut out = io::BufWriter::new(out);
        write(&mut out)?;
        out.flush()
    };
    output::atomic_write(path, buffered).map_err(|source| Error::Write { file: path.display().to_string(), source })
}
