//! Files named on the command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use warpkov::common::choice::Choice;
use warpkov::common::io::{self as files, output};
use warpkov::common::io::output::Identity;
use warpkov::common::plot;
use warpkov::mdp;
use warpkov::mdp::io::{Format, ReadOptions};
use warpkov::mdp::model::Mdp;
use warpkov::runtime::choose::DeviceChoice;
use warpkov::runtime::gpu::{Background, Gpu, MODULES};

use crate::cli::common::choice::choice;
use crate::cli::error::Error;

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
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
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
    pub fn start(&self, device: DeviceChoice) -> Option<Background> {
        self.file.start(device)
    }

    /// Reads the model.
    pub fn read(&self) -> Result<Mdp, Error> {
        let options = ReadOptions { format: self.format, reward: self.reward.clone(), costs: self.costs.clone() };
        Ok(match &self.file {
            ModelFile::Standard => {
                reads_standard_input()?;
                mdp::io::read_from(io::stdin().lock(), "standard input", &options)?
            }
            ModelFile::At(path) => {
                mdp::io::files_read(path, &options).iter().try_for_each(|file| reads(file))?;
                mdp::io::read_with(path, &options)?
            }
        })
    }
}

impl ModelFile {
    /// Starts the driver of the GPU, if one will be used, while this is read. `auto` uses none for what is small, which is done
    /// before a GPU has started and must not wait for it.
    pub fn start(&self, device: DeviceChoice) -> Option<Background> {
        const LARGE: u64 = 256 << 20;

        match (device, self) {
            (DeviceChoice::Cuda(ordinal), _) => Some(Gpu::start(ordinal, &MODULES)),
            (DeviceChoice::Auto, Self::At(path)) if std::fs::metadata(path).is_ok_and(|about| about.len() >= LARGE) => {
                Some(Gpu::start(0, &MODULES))
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
                format.streams().then_some(format).ok_or_else(|| refused(format))
            }
            Self::At(path) => {
                let known = Format::ALL.iter().flat_map(|format| format.extensions()).copied();
                let format = match asked {
                    Some(format) => format,
                    None => {
                        extension(path, &known.collect::<Vec<_>>())?;
                        Format::of_name(path).unwrap_or(Format::Json)
                    }
                };
                let files = format.files(path);
                if files.len() > 1 && !output::is_file(path).unwrap_or(true) {
                    return Err(refused(format));
                }
                files.iter().try_for_each(|file| writes(file))?;
                Ok(format)
            }
        }
    }
}

fn refused(format: Format) -> Error {
    Error::Usage(format!("{format} cannot be streamed, expected the name of a file"))
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
    let format = match extension(path, &["svg", "png"])? {
        "svg" => plot::Format::Svg,
        _ => plot::Format::Png,
    };
    writes(path)?;
    Ok(format)
}

/// The files that this process reads, and those that it writes, as far as they are known.
static FILES: Mutex<Files> = Mutex::new(Files { read: Vec::new(), written: Vec::new() });

/// Files by what they are, however they are called, and their names.
struct Files {
    read: Vec<(Identity, String)>,
    written: Vec<(Identity, String)>,
}

/// Takes note of a file that is to be written, before the work begins.
///
/// # Errors
/// If it cannot be written, is read as well, or is written for something else.
pub fn writes(path: &Path) -> Result<(), Error> {
    let file = path.display().to_string();
    output::check(path).map_err(files::Error::write(path))?;
    let Some(identity) = Identity::of(path).map_err(files::Error::write(path))? else { return Ok(()) };
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, read)) = files.read.iter().find(|(known, _)| *known == identity) {
        return Err(both(&file, read));
    }
    if let Some((_, other)) = files.written.iter().find(|(known, _)| *known == identity) {
        return Err(Error::Usage(format!("{file} and {other} are one file, expected two to write to")));
    }
    #[cfg(unix)]
    if Identity::of_open(io::stdout()).is_ok_and(|stdout| stdout.as_ref() == Some(&identity)) {
        return Err(Error::Usage(format!("{file} is the standard output as well, expected another file to write to")));
    }
    files.written.push((identity, file));
    Ok(())
}

/// Takes note of a file that is read.
///
/// # Errors
/// If it is to be written as well.
pub fn reads(path: &Path) -> Result<(), Error> {
    // One that cannot be read says so when it is.
    let Ok(Some(identity)) = Identity::of(path) else { return Ok(()) };
    read(identity, path.display().to_string())
}

/// Takes note that the standard input is read.
///
/// # Errors
/// If it is a file that is to be written as well.
pub fn reads_standard_input() -> Result<(), Error> {
    #[cfg(unix)]
    if let Ok(Some(identity)) = Identity::of_open(io::stdin()) {
        return read(identity, "the standard input".to_owned());
    }
    Ok(())
}

fn read(identity: Identity, file: String) -> Result<(), Error> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, written)) = files.written.iter().find(|(known, _)| *known == identity) {
        return Err(both(written, &file));
    }
    files.read.push((identity, file));
    Ok(())
}

fn both(written: &str, read: &str) -> Error {
    let what = if written == read { format!("{read} is") } else { format!("{written} is {read}, which is") };
    Error::Usage(format!("{what} read, expected another file to write to"))
}

/// Takes note of the file of an array of values that is to be written, and of that of the policy, beside it.
///
/// # Errors
/// Those of [`writes`].
pub fn writes_arrays(path: &Path) -> Result<(), Error> {
    writes(path)?;
    policy_beside(path).map_or(Ok(()), |policy| writes(&policy))
}

/// Where the policy is written of which the values are written to `path`, an array; nowhere beside a device or a pipe.
pub fn policy_beside(path: &Path) -> Option<PathBuf> {
    output::is_file(path).is_ok_and(|file| file).then(|| path.with_extension("policy.npy"))
}

/// Refuses to begin work whose result has `bytes` or more and does not fit where it is to be written.
pub fn room(path: &Path, bytes: u64) -> Result<(), Error> {
    Ok(output::room(path, bytes).map_err(files::Error::write(path))?)
}

/// Writes a whole file or none.
pub fn write_whole(path: &Path, mut write: impl FnMut(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let buffered = |out: &mut dyn Write| {
        let mut out = io::BufWriter::new(out);
        write(&mut out)?;
        out.flush()
    };
    Ok(output::atomic_write(path, buffered).map_err(files::Error::write(path))?)
}
