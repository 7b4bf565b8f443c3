//! Files named on the command line: standard streams, formats, and checks before the work begins.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use warpkov_common::choice::FileFormat;
use warpkov_common::io::output::{self, Identity};
use warpkov_common::io::{self as files, of_extension};
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::gpu::{Background, Gpu, MODULES};

use super::ranks;
use crate::error::Error;

/// A file, or `-` for a standard stream.
#[derive(Clone, Debug, PartialEq)]
pub enum FileOrStd {
    /// The standard input or output.
    Standard,
    /// A file.
    At(PathBuf),
}

impl From<OsString> for FileOrStd {
    fn from(text: OsString) -> Self {
        if text == "-" { Self::Standard } else { Self::At(text.into()) }
    }
}

impl FileOrStd {
    /// Starts the driver of the GPU in the background, if the GPU will be used, so that it starts while this file is read. `auto`
    /// solves small models on the CPU before a GPU could start, so small files start none.
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

    /// The name of the file, `-` of a standard stream.
    pub fn name(&self) -> String {
        match self {
            Self::Standard => "-".to_owned(),
            Self::At(path) => path.display().to_string(),
        }
    }

    /// The format to write in: the requested format, else that of the extension, else `standard` on the standard output. An unknown
    /// extension is an error that lists the extensions of the formats `known`.
    pub fn format<F: FileFormat>(&self, asked: Option<F>, known: &[F], standard: F) -> Result<F, Error> {
        match (asked, self) {
            (Some(format), _) => Ok(format),
            (None, Self::Standard) => Ok(standard),
            (None, Self::At(path)) => of_extension(path).ok_or_else(|| {
                let known: Vec<_> = known.iter().flat_map(|format| format.extensions()).copied().collect();
                no_extension(path, &known)
            }),
        }
    }

    /// Notes that this is written; the standard output needs no note.
    ///
    /// # Errors
    /// Those of [`writes`].
    pub fn writes(&self) -> Result<(), Error> {
        match self {
            Self::Standard => Ok(()),
            Self::At(path) => writes(path),
        }
    }

    /// Notes that this is read.
    ///
    /// # Errors
    /// Those of [`reads`].
    pub fn reads(&self) -> Result<(), Error> {
        match self {
            Self::Standard => reads_standard_input(),
            Self::At(path) => reads(path),
        }
    }
}

/// The extension of `path`, if it is one of those `known`.
pub fn extension<'a>(path: &Path, known: &[&'a str]) -> Result<&'a str, Error> {
    let found = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    known.iter().copied().find(|known| found.eq_ignore_ascii_case(known)).ok_or_else(|| no_extension(path, known))
}

fn no_extension(path: &Path, known: &[&str]) -> Error {
    Error::Usage(format!("{}: the name must end in .{}", path.display(), known.join(" or .")))
}

/// The files that this process is known to read and to write.
static FILES: Mutex<Files> = Mutex::new(Files { read: Vec::new(), written: Vec::new(), paths: Vec::new() });

/// Files by identity, so that links and other spellings of a path count as one file, with the name that the user gave.
struct Files {
    read: Vec<(Identity, String)>,
    written: Vec<(Identity, String)>,
    /// The paths of those that are read.
    paths: Vec<PathBuf>,
}

/// Notes that `path` will be written, before the work begins. Ranks that write nothing skip this.
///
/// # Errors
/// If the file cannot be written, is an input of the command, or receives another output.
pub fn writes(path: &Path) -> Result<(), Error> {
    if !ranks::writes() {
        return Ok(());
    }
    let file = path.display().to_string();
    output::check(path).map_err(files::Error::write(path))?;
    let Some(identity) = Identity::read(path).map_err(files::Error::write(path))? else { return Ok(()) };
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

/// Notes that `path` is read.
///
/// # Errors
/// If the file will be written as well.
pub fn reads(path: &Path) -> Result<(), Error> {
    // Reading the file reports why it cannot be read.
    let Ok(Some(identity)) = Identity::read(path) else { return Ok(()) };
    read(identity, path.display().to_string())?;
    FILES.lock().unwrap_or_else(PoisonError::into_inner).paths.push(path.to_owned());
    Ok(())
}

/// Notes a file that is read and then written, whose contents all ranks need.
pub fn continues(path: &Path) {
    FILES.lock().unwrap_or_else(PoisonError::into_inner).paths.push(path.to_owned());
}

/// The files that this process has read or is about to read.
pub fn read_so_far() -> Vec<PathBuf> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner).paths.clone()
}

/// Notes that the standard input is read.
///
/// # Errors
/// If it is a file that will be written as well.
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

/// Notes that the values are written to `path`, a NumPy array, and the policy to the file beside it.
///
/// # Errors
/// Those of [`writes`].
pub fn writes_arrays(path: &Path) -> Result<(), Error> {
    writes(path)?;
    policy_beside(path).map_or(Ok(()), |policy| writes(&policy))
}

/// The file of the policy whose values are written to `path`, a NumPy array. There is none beside a device or a pipe.
pub fn policy_beside(path: &Path) -> Option<PathBuf> {
    output::is_file(path).is_ok_and(|file| file).then(|| path.with_extension("policy.npy"))
}

/// Checks that a result of at least `bytes` bytes fits on the disk of `path`. Ranks that write nothing skip this.
///
/// # Errors
/// If it does not fit.
pub fn room(path: &Path, bytes: u64) -> Result<(), Error> {
    if !ranks::writes() {
        return Ok(());
    }
    Ok(output::room(path, bytes).map_err(files::Error::write(path))?)
}

/// Writes the file `path`, whole or not at all.
pub fn write_whole(path: &Path, mut write: impl FnMut(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    let buffered = |out: &mut dyn Write| {
        let mut out = io::BufWriter::new(out);
        write(&mut out)?;
        out.flush()
    };
    Ok(output::atomic_write(path, buffered).map_err(files::Error::write(path))?)
}

/// The error for a name or number that the model does not have.
pub fn no_such(text: &str, what: &str, count: u32) -> Error {
    Error::Usage(format!("{:?} is no {what} of the model, expected a name or a number below {count}", text.trim()))
}
