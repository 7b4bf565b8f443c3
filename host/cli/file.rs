//! Files named on the command line.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use warpkov::backend::cuda::{Gpu, Starting};
use warpkov::mdp::io::{Format, ReadOptions};
use warpkov::mdp::options::DeviceChoice;
use warpkov::mdp::plot;
use warpkov::mdp::{self, model::Mdp};
use warpkov::output;

use super::Error;

/// A model's file, or `-` for a standard stream.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelFile {
    /// The standard input or output.
    Standard,
    /// A file.
    At(PathBuf),
}

impl From<OsString> for ModelFile {
    fn from(text: OsString) -> Self {
        if text == "-" { Self::Standard } else { Self::At(text.into()) }
    }
}

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// The model's file, or - for the standard input.
    #[arg(value_name = "FILE")]
    file: ModelFile,
    /// Format of FILE [default: as its extension says, or its content].
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Name of the rewards to read, where FILE has several [default: the first].
    #[arg(long, value_name = "NAME")]
    reward: Option<String>,
    /// File of the costs, where FILE holds the probabilities of a PETSc model [default: NAME.g.bin for NAME.P.bin].
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
}

impl Input {
    /// As [`ModelFile::start`].
    pub fn start(&self, device: DeviceChoice) -> Option<Starting> {
        self.file.start(device)
    }

    /// Reads the model.
    pub fn read(&self) -> Result<Mdp, Error> {
        let options = ReadOptions { format: self.format, reward: self.reward.clone(), costs: self.costs.clone() };
        Ok(match &self.file {
            ModelFile::Standard => mdp::io::read_from(io::stdin().lock(), "standard input", &options)?,
            ModelFile::At(path) => mdp::io::read_with(path, &options)?,
        })
    }
}

impl ModelFile {
    /// Starts the driver of the GPU, if one will be used, while this is read. `auto` uses none for what is small, which is done
    /// before a GPU has started and must not wait for it.
    pub fn start(&self, device: DeviceChoice) -> Option<Starting> {
        const LARGE: u64 = 256 << 20;

        match (device, self) {
            (DeviceChoice::Cuda(ordinal), _) => Some(Gpu::start(ordinal)),
            (DeviceChoice::Auto, Self::At(path)) if fs::metadata(path).is_ok_and(|about| about.len() >= LARGE) => {
                Some(Gpu::start(0))
            }
            _ => None,
        }
    }

    /// Writes a model to here.
    pub fn write(&self, format: Format, model: &Mdp, out: impl Write) -> Result<(), Error> {
        match self {
            Self::Standard => mdp::io::write_to(out, format, model)?,
            Self::At(path) => mdp::io::write_as(path, format, model)?,
        }
        Ok(())
    }

    /// The format to write here in: the one asked for, else the extension's, else JSON on the standard output.
    pub fn format(&self, asked: Option<Format>) -> Result<Format, Error> {
        match self {
            Self::Standard => {
                let format = asked.unwrap_or(Format::Json);
                let refused = || Error::Usage(format!("{format} cannot be streamed, expected the name of a file"));
                format.streams().then_some(format).ok_or_else(refused)
            }
            Self::At(path) => {
                let known = Format::value_variants().iter().flat_map(|format| format.extensions()).copied();
                let format = match asked {
                    Some(format) => format,
                    None => {
                        extension(path, &known.collect::<Vec<_>>())?;
                        Format::of_name(path).unwrap_or(Format::Json)
                    }
                };
                folder_exists(path)?;
                Ok(format)
            }
        }
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

/// The format of a plot that is to be drawn to `path`, if it can be.
pub fn plot_format(path: &Path) -> Result<plot::Format, Error> {
    folder_exists(path)?;
    Ok(match extension(path, &["svg", "png"])? {
        "svg" => plot::Format::Svg,
        _ => plot::Format::Png,
    })
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
