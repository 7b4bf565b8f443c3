//! One file that all ranks write, each its own bytes.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Communicator, Disagreed};
use warpkov_common::io::output::Draft;

/// The bytes of a file that this rank writes.
pub struct Bytes<'a> {
    /// What the file begins with: the same on all ranks, at least 8 bytes. Rank 0 writes it.
    pub header: &'a [u8],
    /// This rank's bytes, and their offset in the file. Ranges of ranks do not overlap.
    pub own: &'a [u8],
    /// The offset of `own`.
    pub offset: u64,
    /// The length of the whole file.
    pub length: u64,
}

/// Writes a file whole or not at all: every rank writes its bytes at their offset. [`fill_together`] says how.
///
/// # Errors
/// The error of the first rank that failed.
pub fn write_together(comm: &dyn Communicator, path: &Path, bytes: &Bytes) -> Result<bool, Disagreed<io::Error>> {
    fill_together(comm, path, bytes.length, |file| {
        if comm.rank() == 0 {
            write_at(file, 0, bytes.header)?;
        }
        write_at(file, bytes.offset, bytes.own)
    })
}

/// Writes bytes at an offset of a file.
///
/// # Errors
/// Those of the file system.
pub fn write_at(file: &mut File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Writes a file of at least 8 bytes whole or not at all: every rank fills its places in a temporary file of the full `length` beside
/// `path`, which rank 0 moves to `path` after all have succeeded. That of a single rank has no name where the file system allows it. `Ok(false)` if the ranks cannot do so, and nothing is written:
/// `path` is no regular file, or a rank does not see the files of rank 0.
///
/// All ranks call this together. `path` counts on rank 0.
///
/// # Errors
/// The error of the first rank that failed. The temporary file is removed.
pub fn fill_together(
    comm: &dyn Communicator,
    path: &Path,
    length: u64,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<bool, Disagreed<io::Error>> {
    let agree = |result: io::Result<()>| comm.agree(result, code);
    let (mut draft, mut name) = (None, None);
    let mut begin = || {
        if comm.rank() == 0 {
            draft = Draft::create(path, length, comm.size() > 1)?;
            name = draft.as_ref().map_or(Ok(None), Draft::name)?;
        }
        Ok(())
    };
    agree(begin())?;
    // The other ranks know the file by random numbers at its beginning.
    let sign = RandomState::new().build_hasher().finish().to_le_bytes();
    let name = name.map_or_else(Vec::new, |name| name.into_os_string().into_encoded_bytes());
    agree(draft.as_mut().map_or(Ok(()), |draft| draft.file().write_all(&sign)))?;
    let told = comm.all_gather(&[&sign[..], &name].concat()).map_err(Disagreed::Comm)?.swap_remove(0);
    let (sign, name) = told.split_at(sign.len());
    let path = path_of(name);
    let mut opened = match &mut draft {
        Some(draft) => draft.file().try_clone().ok(),
        None if name.is_empty() => None,
        None => path.and_then(|path| seen(&path, sign, length)),
    };
    if comm.any(opened.is_none()).map_err(Disagreed::Comm)? {
        return Ok(false);
    }
    let write = || {
        let Some(file) = &mut opened else { return Ok(()) };
        fill(file)?;
        file.sync_all()
    };
    agree(write())?;
    agree(draft.map_or(Ok(()), Draft::publish))?;
    Ok(true)
}

/// The exit code of an error: 130 if a stop request ended the writing.
pub fn code(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::Interrupted { 130 } else { 2 }
}

/// The file at a path of another rank, if this rank sees it.
fn seen(path: &Path, sign: &[u8], length: u64) -> Option<File> {
    let mut file = File::options().read(true).write(true).open(path).ok()?;
    let mut found = vec![0; sign.len()];
    file.read_exact(&mut found).ok()?;
    (found == sign && file.metadata().ok()?.len() == length).then_some(file)
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(std::ffi::OsStr::from_bytes(name).into())
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(name).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::{Error, Local};
    use super::*;

    const HEADER: &[u8] = b"a header";

    /// Runs `write` on ranks whose parts have `lengths`.
    fn written(path: &Path, lengths: &[usize], fails: Option<u32>) -> Vec<Result<bool, String>> {
        let all = HEADER.len() + lengths.iter().sum::<usize>();
        let work = |comm: &Local| {
            let rank = comm.rank() as usize;
            let offset = HEADER.len() + lengths[..rank].iter().sum::<usize>();
            let own = vec![b'0' + rank as u8; lengths[rank]];
            // No file has so large an offset.
            let offset = if fails == Some(comm.rank()) { u64::MAX / 2 + 9 } else { offset as u64 };
            let bytes = Bytes { header: HEADER, own: &own, offset, length: all as u64 };
            Ok::<_, Error>(write_together(comm, path, &bytes).map_err(|error| format!("{error:?}")))
        };
        Local::run(lengths.len() as u32, Duration::from_secs(60), work).unwrap()
    }

    #[test]
    fn all_or_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        for rank in 0..3 {
            let found = written(&path, &[3, 1, 4], Some(rank));
            assert!(found.iter().enumerate().all(|(at, result)| match result {
                Err(error) => error.contains("Here") == (at == rank as usize),
                Ok(_) => false,
            }));
            assert_eq!(names(), 0, "no file is left");
        }
        assert!(written(&path, &[3, 0, 4], None).into_iter().all(|found| found == Ok(true)));
        assert_eq!(fs::read(&path).unwrap(), b"a header0002222");
        assert!(written(&path, &[1, 1, 1], Some(2)).iter().all(Result::is_err));
        assert_eq!(fs::read(&path).unwrap(), b"a header0002222", "the old file stays");
        assert!(written(&path, &[1, 2], None).into_iter().all(|found| found == Ok(true)));
        assert_eq!((fs::read(&path).unwrap(), names()), (b"a header011".to_vec(), 1));
        let missing = written(&folder.path().join("none").join("a"), &[1, 2], None);
        assert!(missing[0].as_ref().is_err_and(|error| error.contains("no folder")), "{missing:?}");
        assert!(written(Path::new("/dev/null"), &[1, 2], None).into_iter().all(|found| found == Ok(false)));
    }

    #[test]
    fn a_rank_sees_a_file_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"12345678abc").unwrap();
        assert!(seen(&path, b"12345678", 11).is_some());
        assert!(seen(&path, b"12345679", 11).is_none() && seen(&path, b"12345678", 12).is_none());
        assert!(seen(&folder.path().join("b"), b"12345678", 11).is_none());
    }
}
