//! Files that are whole or not there.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file in one piece: whoever opens `path` finds the old file or all of the new one, and a process killed at
/// any time leaves nothing else behind.
///
/// On Linux the file has no name until it is whole, where the file system can do that and /proc is there; elsewhere a temporary name in the
/// same folder, which a killed process may leave. The new file's permissions are those of any new file.
///
/// # Errors
/// Those of `write`, and those of the file system: no such folder, not permitted, disk full.
pub fn atomic_write(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    #[cfg(target_os = "linux")]
    if Path::new("/proc/self/fd").exists()
        && let Some(mut file) = nameless::create(folder)?
    {
        write(&mut file)?;
        return nameless::publish(&file, folder, path);
    }
    named(folder, path, write)
}

/// By a temporary name.
fn named(folder: &Path, path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".warpkov-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The process's umask takes from these what it takes from all new files.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    write(&mut file)?;
    file.persist(path).map(|_: File| ()).map_err(|error| error.error)
}

#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use rustix::io::Errno;

    /// A file without a name; `None` where the file system has none.
    pub fn create(folder: &Path) -> io::Result<Option<File>> {
        let (flags, mode) = (OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        match open(folder, flags, mode) {
            Ok(file) => Ok(Some(file.into())),
            // An old kernel takes this for opening the folder itself.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOSYS | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the file its name. A link cannot replace another file, so there it is renamed from a name that exists for
    /// that instant only.
    pub fn publish(file: &File, folder: &Path, path: &Path) -> io::Result<()> {
        let link = |name: &Path| {
            let source = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, source, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
        };
        match link(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done,
        }
        let temporary = tempfile::Builder::new().prefix(".warpkov-").make_in(folder, |name| link(name))?;
        temporary.into_temp_path().persist(path).map_err(|error| error.error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    type Writer = fn(&Path, &[u8], Option<io::Error>) -> io::Result<()>;

    fn content(bytes: &[u8], failure: Option<io::Error>) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
        move |out| {
            out.write_all(bytes)?;
            failure.map_or(Ok(()), Err)
        }
    }

    /// The two ways to write.
    const WRITERS: [Writer; 2] = [
        |path, bytes, failure| atomic_write(path, content(bytes, failure)),
        |path, bytes, failure| named(path.parent().unwrap(), path, content(bytes, failure)),
    ];

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn writes_all_or_nothing() {
        for write in WRITERS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.json");
            assert!(write(&path, b"half", Some(io::Error::other("full"))).is_err());
            assert!(names(folder.path()).is_empty());

            write(&path, b"first", None).unwrap();
            assert!(write(&path, b"half", Some(io::Error::other("full"))).is_err());
            assert_eq!(fs::read(&path).unwrap(), b"first");
            write(&path, b"second", None).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"second");
            assert_eq!(names(folder.path()), ["a.json"]);
        }
    }

    #[test]
    fn needs_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        for write in WRITERS {
            let error = write(&folder.path().join("absent/a.json"), b"", None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_other_files() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        let folder = tempfile::tempdir().unwrap();
        let [plain, path] = ["plain", "a.json"].map(|name| folder.path().join(name));
        fs::write(&plain, "").unwrap();
        for write in WRITERS {
            write(&path, b"", None).unwrap();
            assert_eq!(mode(&path), mode(&plain));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn has_no_name_before_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let seen = |out: &mut dyn Write| {
            out.write_all(b"half")?;
            assert!(names(folder.path()).is_empty());
            Ok(())
        };
        atomic_write(&path, seen).unwrap();
        assert_eq!(names(folder.path()), ["a.json"]);
    }
}
