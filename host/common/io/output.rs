//! Atomic output files, and outputs to pipes, sockets, devices and descriptors.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

/// Longest chain of symbolic links, as on Linux. A longer chain counts as a loop.
const LINKS: usize = 40;

/// Writes to `path`.
///
/// - *Regular files* are replaced atomically: a reader sees the complete old file or the complete new file. The
///   function follows symbolic links, also a link whose target does not exist yet. The new file gets the owner, the
///   permissions and the extended attributes of the old file. If the system denies this (a file of another user, a
///   mount point), the function overwrites the old file after the new content is complete.
/// - *Devices, pipes, sockets and open descriptors* (`/dev/stdout`, `/dev/fd/3`) are opened and written.
///
/// The function does not fill the disk. If the content exceeds half of the free space, the function calls `write` a
/// second time to measure the length, and a third time to write, if everything fits. `write` must produce the same
/// bytes each time.
///
/// On Linux the new file has no name until it is complete, if the file system supports `O_TMPFILE` and /proc is
/// mounted. On other systems it has a temporary name in the same folder, and a killed process may leave that file
/// behind.
///
/// # Errors
/// The errors of `write` and of the file system, for example a missing folder or a missing permission;
/// [`ErrorKind::StorageFull`] if the content does not fit.
pub fn atomic_write(path: &Path, mut write: impl FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match resolve(path)? {
        Target::File { path, old } => {
            let folder = folder(&path);
            replace(New::create(folder)?, &path, old.as_ref(), free(folder), write)
        }
        other => {
            let mut out = other.open()?;
            write(&mut out)?;
            out.flush()
        }
    }
}

/// Checks whether [`atomic_write`] can write to `path`, without changing anything.
///
/// # Errors
/// If `path` is a folder, is not writable, is a loop of symbolic links, or is in a folder that does not exist or is not
/// writable.
pub fn check(path: &Path) -> io::Result<()> {
    match resolve(path)? {
        Target::File { path, old } => {
            if old.is_some() {
                // Does not truncate the file.
                OpenOptions::new().write(true).open(&path)?;
            }
            New::create(folder(&path)).map(drop)
        }
        // Opening a pipe would block until it has a reader.
        Target::Pipe(path) | Target::Socket(path) => writable(&path),
        other => other.open().map(drop),
    }
}

/// Checks whether a new regular file at `path` can have at least `bytes` bytes. Succeeds for other targets, and if the
/// free space is unknown.
///
/// # Errors
/// [`ErrorKind::StorageFull`] if the file system has fewer bytes free, and the errors of [`check`].
pub fn room(path: &Path, bytes: u64) -> io::Result<()> {
    match resolve(path)? {
        Target::File { path, .. } => fits(bytes, free(folder(&path))),
        _ => Ok(()),
    }
}

/// Whether [`atomic_write`] to `path` creates or replaces a regular file. Further files can then be written next to it.
///
/// # Errors
/// The errors of [`check`], if `path` cannot be resolved.
pub fn is_file(path: &Path) -> io::Result<bool> {
    Ok(matches!(resolve(path)?, Target::File { .. }))
}

/// A duplicate of the standard output, which needs no lock.
///
/// # Errors
/// If the standard output is closed.
pub fn stdout() -> io::Result<File> {
    descriptor::duplicate(1)
}

/// The identity of a file: equal for two paths to the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device and inode number of the file, or of its folder if the file does not exist yet.
    #[cfg(unix)]
    place: (u64, u64),
    /// On Unix, the file's name in the folder if the file does not exist yet. On other systems, the canonical path.
    name: Option<PathBuf>,
}

impl Identity {
    /// The identity of the file or pipe at `path`; `None` for devices, sockets and open descriptors, which can be
    /// shared.
    ///
    /// # Errors
    /// If `path` cannot be resolved.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match resolve(path)? {
            Target::File { old: Some(metadata), path } => Ok(Some(Self::of_file(&metadata, &path)?)),
            Target::Pipe(path) => Ok(Some(Self::of_file(&fs::metadata(&path)?, &path)?)),
            Target::File { old: None, path } => {
                let folder = folder(&path);
                let place = Self::of_file(&fs::metadata(folder)?, folder)?;
                Ok(Some(Self { name: path.file_name().map(PathBuf::from), ..place }))
            }
            Target::Socket(_) | Target::Device(_) | Target::Descriptor { .. } => Ok(None),
        }
    }

    /// The identity of an open file, such as the standard input; `None` if it is not a regular file.
    ///
    /// # Errors
    /// The errors of the file system.
    #[cfg(unix)]
    pub fn of_open(file: impl std::os::fd::AsFd) -> io::Result<Option<Self>> {
        let file = File::from(file.as_fd().try_clone_to_owned()?);
        let metadata = file.metadata()?;
        metadata.is_file().then(|| Self::of_file(&metadata, Path::new(""))).transpose()
    }

    #[cfg(unix)]
    fn of_file(metadata: &Metadata, _: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        Ok(Self { place: (metadata.dev(), metadata.ino()), name: None })
    }

    #[cfg(not(unix))]
    fn of_file(_: &Metadata, path: &Path) -> io::Result<Self> {
        Ok(Self { name: Some(fs::canonicalize(path)?) })
    }
}

/// The target of a resolved path. No `path` is a symbolic link.
enum Target {
    /// A regular file; `old` is `None` if it does not exist yet.
    File { path: PathBuf, old: Option<Metadata> },
    /// An open descriptor: `own` is its number in this process, `None` for a descriptor of another process.
    Descriptor { path: PathBuf, own: Option<i32> },
    /// A named pipe.
    Pipe(PathBuf),
    /// A listening Unix socket.
    Socket(PathBuf),
    /// A device.
    Device(PathBuf),
}

impl Target {
    fn open(&self) -> io::Result<Box<dyn Write>> {
        match self {
            Self::Descriptor { own: Some(number), .. } => Ok(Box::new(descriptor::duplicate(*number)?)),
            Self::Descriptor { path, own: None } => Ok(Box::new(OpenOptions::new().append(true).open(path)?)),
            Self::File { path, .. } | Self::Pipe(path) | Self::Device(path) => {
                Ok(Box::new(OpenOptions::new().write(true).open(path)?))
            }
            #[cfg(unix)]
            Self::Socket(path) => Ok(Box::new(std::os::unix::net::UnixStream::connect(path)?)),
            #[cfg(not(unix))]
            Self::Socket(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

/// Resolves a path: follows symbolic links and classifies the target.
fn resolve(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if let Some(own) = descriptor::named(&path) {
            fs::symlink_metadata(&path)?;
            return Ok(Target::Descriptor { path, own });
        }
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return absent(path),
            Err(error) => return Err(error),
        };
        if metadata.is_symlink() {
            path = folder(&path).join(fs::read_link(&path)?);
            continue;
        }
        return match kind(&metadata) {
            Kind::Folder => Err(ErrorKind::IsADirectory.into()),
            Kind::File => Ok(Target::File { path, old: Some(metadata) }),
            Kind::Pipe => Ok(Target::Pipe(path)),
            Kind::Socket => Ok(Target::Socket(path)),
            Kind::Device => Ok(Target::Device(path)),
        };
    }
    Err(io::Error::other("its symbolic links form a loop"))
}

/// The target of a path that does not exist yet.
fn absent(path: PathBuf) -> io::Result<Target> {
    let folder = folder(&path);
    match fs::metadata(folder) {
        Ok(metadata) if !metadata.is_dir() => Err(ErrorKind::NotADirectory.into()),
        Ok(_) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => Err(ErrorKind::IsADirectory.into()),
        Ok(_) if path.file_name().is_none() => {
            Err(io::Error::new(ErrorKind::InvalidInput, "the path has no file name"))
        }
        Ok(_) => Ok(Target::File { path, old: None }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(io::Error::new(ErrorKind::NotFound, format!("there is no folder {}", folder.display())))
        }
        Err(error) => Err(error),
    }
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

enum Kind {
    Folder,
    File,
    Pipe,
    Socket,
    Device,
}

#[cfg(unix)]
fn kind(metadata: &Metadata) -> Kind {
    use std::os::unix::fs::FileTypeExt;
    match metadata.file_type() {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_fifo() => Kind::Pipe,
        kind if kind.is_socket() => Kind::Socket,
        kind if kind.is_file() => Kind::File,
        _ => Kind::Device,
    }
}

#[cfg(not(unix))]
fn kind(metadata: &Metadata) -> Kind {
    if metadata.is_dir() { Kind::Folder } else { Kind::File }
}

/// Checks the write permission of a target that must not be opened for the check.
fn writable(path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
    }
    #[cfg(not(target_os = "linux"))]
    match fs::metadata(path)?.permissions().readonly() {
        true => Err(ErrorKind::PermissionDenied.into()),
        false => Ok(()),
    }
}

/// A new file that gets its path when it is complete.
enum New {
    #[cfg(target_os = "linux")]
    Nameless(File),
    Named(tempfile::NamedTempFile),
}

impl New {
    fn create(folder: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if Path::new("/proc/self/fd").exists()
            && let Some(file) = nameless::create(folder)?
        {
            return Ok(Self::Nameless(file));
        }
        Self::named(folder)
    }

    /// Creates a file with a temporary name.
    fn named(folder: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".warpkov-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The process's umask applies to these permissions, as for all new files.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        builder.tempfile_in(folder).map(Self::Named)
    }

    fn file(&mut self) -> &mut File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nameless(file) => file,
            Self::Named(file) => file.as_file_mut(),
        }
    }

    /// Renames the file to `path`. A failure returns the file with the error.
    fn publish(self, path: &Path) -> Result<(), (Self, io::Error)> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nameless(file) => {
                nameless::publish(&file, folder(path), path).map_err(|error| (Self::Nameless(file), error))
            }
            Self::Named(file) => match file.persist(path) {
                Ok(_) => Ok(()),
                Err(error) => Err((Self::Named(error.file), error.error)),
            },
        }
    }

    /// Copies the content over the old file. If there is no room for both, the old file stays unchanged.
    fn overwrite(mut self, path: &Path) -> io::Result<()> {
        let length = self.file().stream_position()?;
        self.file().rewind()?;
        let mut old = OpenOptions::new().write(true).open(path)?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            match fallocate(&old, FallocateFlags::KEEP_SIZE, 0, length) {
                // INVAL: the length is 0. The others: the file system cannot reserve space.
                Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) | Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        io::copy(self.file(), &mut old)?;
        old.set_len(length)?;
        old.sync_all()
    }
}

/// Free bytes in the file system of `folder`; `None` if unknown.
fn free(folder: &Path) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let system = rustix::fs::statvfs(folder).ok()?;
        // Pseudo file systems report no blocks.
        (system.f_blocks > 0).then(|| system.f_bavail.saturating_mul(system.f_frsize))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        None
    }
}

/// An error if `bytes` exceeds the free space.
fn fits(bytes: u64, free: Option<u64>) -> io::Result<()> {
    match free {
        Some(free) if bytes > free => {
            let message =
                format!("needs at least {}, and its file system has {} free", readable(bytes), readable(free));
            Err(io::Error::new(ErrorKind::StorageFull, message))
        }
        _ => Ok(()),
    }
}

/// A number of bytes in bytes, MB or GB.
fn readable(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{bytes} bytes"),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Writes to an empty file. The file takes at most half of the `free` bytes before its length is known to fit.
fn fill(file: &mut File, free: Option<u64>, mut write: impl FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut half = Limited { out: &mut *file, left: free.map_or(u64::MAX, |free| free / 2), exceeded: false };
    let written = write(&mut half);
    if !half.exceeded {
        return written;
    }
    file.set_len(0)?;
    file.rewind()?;
    let mut whole = Limited { out: io::sink(), left: u64::MAX, exceeded: false };
    write(&mut whole)?;
    fits(u64::MAX - whole.left, free)?;
    write(file)
}

/// A writer of at most `left` bytes.
struct Limited<W> {
    out: W,
    left: u64,
    /// Whether the caller wrote more than `left` bytes.
    exceeded: bool,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.exceeded || bytes.len() as u64 > self.left {
            self.exceeded = true;
            return Err(ErrorKind::StorageFull.into());
        }
        let count = self.out.write(bytes)?;
        self.left -= count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A new file of its full length that several processes fill, by a temporary name beside its path; or one process, without a name if
/// the file system allows it. Dropped, it is removed.
pub struct Draft {
    new: New,
    path: PathBuf,
    old: Option<Metadata>,
    /// Whether the new file has the metadata of the old one.
    copied: bool,
}

impl Draft {
    /// Creates a file of `length` zeros that [`publish`](Self::publish) moves to `path`; `None` if that is no regular file. It has a
    /// name if it is `shared`.
    ///
    /// # Errors
    /// [`ErrorKind::StorageFull`] if the file system has too little space, and the errors of [`check`].
    pub fn create(path: &Path, length: u64, shared: bool) -> io::Result<Option<Self>> {
        let Target::File { path, old } = resolve(path)? else { return Ok(None) };
        let folder = folder(&path);
        fits(length, free(folder))?;
        let mut new = if shared { New::named(folder) } else { New::create(folder) }?;
        let copied = old.as_ref().is_none_or(|old| copy_metadata(new.file(), &path, old).is_ok());
        new.file().set_len(length)?;
        Ok(Some(Self { new, path, old, copied }))
    }

    /// Its temporary name, in any working folder; `None` if it has none.
    ///
    /// # Errors
    /// If the working folder is gone.
    pub fn name(&self) -> io::Result<Option<PathBuf>> {
        match &self.new {
            New::Named(file) => std::path::absolute(file.path()).map(Some),
            #[cfg(target_os = "linux")]
            New::Nameless(_) => Ok(None),
        }
    }

    /// The file.
    pub fn file(&mut self) -> &mut File {
        self.new.file()
    }

    /// Moves the file to its path.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn publish(mut self) -> io::Result<()> {
        // A file that cannot replace the old one is copied up to its position.
        self.new.file().seek(io::SeekFrom::End(0))?;
        place(self.new, &self.path, self.old.as_ref(), self.copied)
    }
}

/// Fills `new` by `write`, copies the metadata of the `old` file, and puts `new` at `path`.
fn replace(
    mut new: New,
    path: &Path,
    old: Option<&Metadata>,
    free: Option<u64>,
    write: impl FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let copied = old.is_none_or(|old| copy_metadata(new.file(), path, old).is_ok());
    fill(new.file(), free, write)?;
    place(new, path, old, copied)
}

/// Puts `new` at `path`, where the `old` file is, whose metadata it has if `copied`. The content is on the disk before the name is: after a loss
/// of power, the path has the old file or the new one.
fn place(mut new: New, path: &Path, old: Option<&Metadata>, copied: bool) -> io::Result<()> {
    if !copied {
        return new.overwrite(path);
    }
    match new.file().sync_all() {
        // Some file systems cannot tell.
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => return Err(error),
        _ => {}
    }
    match new.publish(path) {
        // A mount point is busy. In a sticky folder such as /tmp only the owner of a file can replace it.
        Err((new, error))
            if old.is_some() && matches!(error.kind(), ErrorKind::ResourceBusy | ErrorKind::PermissionDenied) =>
        {
            new.overwrite(path)
        }
        Err((_, error)) => Err(error),
        Ok(()) => Ok(()),
    }
}

/// Copies owner, permissions and extended attributes of the old file to the new one.
fn copy_metadata(new: &File, path: &Path, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let own = new.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            fchown(new, Some(old.uid()), Some(old.gid()))?;
        }
    }
    new.set_permissions(old.permissions())?;
    #[cfg(target_os = "linux")]
    attributes::copy(path, new)?;
    #[cfg(not(target_os = "linux"))]
    let _ = path;
    Ok(())
}

/// Extended attributes, including access control lists.
#[cfg(target_os = "linux")]
mod attributes {
    use std::ffi::CStr;
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use rustix::fs::{XattrFlags, fremovexattr, fsetxattr, getxattr, listxattr};

    /// The access control list.
    const ACCESS: &CStr = c"system.posix_acl_access";

    /// Linux's limit for the list of names and for a value, in bytes.
    const LARGEST: usize = 1 << 16;

    /// Copies the attributes that this process may read and set. Failure to copy the access control list is an error.
    pub fn copy(path: &Path, new: &File) -> io::Result<()> {
        let (mut names, mut value) = (vec![0; LARGEST], vec![0; LARGEST]);
        // Some file systems have no extended attributes.
        let length = listxattr(path, &mut names[..]).unwrap_or(0);
        let mut listed = false;
        for name in names[..length].split_inclusive(|&byte| byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            let copied = getxattr(path, name, &mut value[..])
                .and_then(|length| fsetxattr(new, name, &value[..length], XattrFlags::empty()));
            if name == ACCESS {
                listed = true;
                copied?;
            }
        }
        if !listed {
            // The new file may have inherited the default list of its folder.
            let _ = fremovexattr(new, ACCESS);
        }
        Ok(())
    }
}

/// Open descriptors and their paths.
mod descriptor {
    use std::fs::{self, File};
    use std::io;
    use std::path::Path;

    use super::folder;

    /// `None` if `path` is not a descriptor; `Some(None)` for a descriptor of another process; else its number in this
    /// process.
    pub fn named(path: &Path) -> Option<Option<i32>> {
        let number: i32 = path.file_name()?.to_str()?.parse().ok()?;
        let folder = fs::canonicalize(folder(path)).ok()?;
        let own = |name: &str| folder == Path::new(name) || fs::canonicalize(name).is_ok_and(|own| own == folder);
        if own("/dev/fd") || own("/proc/self/fd") {
            return Some(Some(number));
        }
        (folder.starts_with("/proc") && folder.ends_with("fd")).then_some(None)
    }

    /// Duplicates a descriptor; the duplicate shares its file position. Works for sockets too.
    #[cfg(unix)]
    pub fn duplicate(number: i32) -> io::Result<File> {
        use std::os::fd::{AsFd, BorrowedFd};
        let owned = match number {
            1 => io::stdout().as_fd().try_clone_to_owned()?,
            2 => io::stderr().as_fd().try_clone_to_owned()?,
            _ => {
                // SAFETY: `borrow_raw` needs an open descriptor. `resolve` has found its entry in /dev/fd or
                // /proc/self/fd, and this program never closes descriptors that it inherited.
                let open = unsafe { BorrowedFd::borrow_raw(number) };
                open.try_clone_to_owned()?
            }
        };
        #[cfg(target_os = "linux")]
        if rustix::fs::fcntl_getfl(&owned)? & rustix::fs::OFlags::ACCMODE == rustix::fs::OFlags::RDONLY {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the descriptor is open for reading only"));
        }
        Ok(owned.into())
    }

    #[cfg(not(unix))]
    pub fn duplicate(_: i32) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use rustix::io::Errno;

    /// Creates a file without a name; `None` if the file system does not support it.
    pub fn create(folder: &Path) -> io::Result<Option<File>> {
        let (flags, mode) = (OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        match open(folder, flags, mode) {
            Ok(file) => Ok(Some(file.into())),
            // Kernels without O_TMPFILE try to open the folder itself.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOSYS | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Links the file to `path`. A link cannot replace another file, so an existing `path` is replaced by renaming from
    /// a temporary link.
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

    fn content(bytes: &[u8], mut failure: Option<io::Error>) -> impl FnMut(&mut dyn Write) -> io::Result<()> {
        move |out| {
            out.write_all(bytes)?;
            failure.take().map_or(Ok(()), Err)
        }
    }

    /// Both implementations: unnamed and temporarily named files.
    const WRITERS: [Writer; 2] = [
        |path, bytes, failure| atomic_write(path, content(bytes, failure)),
        |path, bytes, failure| {
            let new = New::named(path.parent().unwrap())?;
            replace(new, path, fs::metadata(path).ok().as_ref(), None, content(bytes, failure))
        },
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
    fn a_disk_is_not_filled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "old").unwrap();
        let write = |length: usize, free: u64| {
            let mut calls = 0;
            let new = New::create(folder.path()).unwrap();
            let done = replace(new, &path, fs::metadata(&path).ok().as_ref(), Some(free), |out| {
                calls += 1;
                // Buffered and in small parts, like the real writers.
                let mut out = io::BufWriter::with_capacity(7, out);
                for position in 0..length {
                    out.write_all(&[position as u8])?;
                }
                out.flush()
            });
            (done, calls)
        };
        for (length, free, calls) in [(50, 100, 1), (51, 100, 3), (100, 100, 3), (0, 0, 1)] {
            let (done, called) = write(length, free);
            done.unwrap();
            assert_eq!((fs::read(&path).unwrap().len(), called), (length, calls));
        }
        fs::write(&path, "old").unwrap();
        for (length, free) in [(101, 100), (1, 0), (3_000_000, 1_500_000)] {
            let (done, calls) = write(length, free);
            let error = done.unwrap_err();
            assert_eq!((error.kind(), calls), (io::ErrorKind::StorageFull, 2));
            if free > 1_000_000 {
                assert_eq!(error.to_string(), "needs at least 3.0 MB, and its file system has 1.5 MB free");
            }
            assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"old".to_vec(), 1));
        }
        assert!(fits(u64::MAX, None).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn room_is_that_of_the_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        room(&path, 0).unwrap();
        assert_eq!(room(&path, 1 << 62).unwrap_err().kind(), io::ErrorKind::StorageFull);
        for stream in ["/dev/null", "/dev/full", "/dev/stdout"] {
            room(Path::new(stream), 1 << 62).unwrap();
        }
        assert!(room(&folder.path().join("absent/a.json"), 0).is_err());
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

    #[cfg(unix)]
    #[test]
    fn what_a_replaced_file_has_is_kept() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        for write in WRITERS {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
            // Only root can give files away.
            let given = chown(&path, Some(12_345), Some(12_346)).is_ok();
            let before = fs::metadata(&path).unwrap();
            write(&path, b"new", None).unwrap();
            let after = fs::metadata(&path).unwrap();
            assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
            assert_eq!((given, after.mode() & 0o777), (after.uid() == 12_345, 0o604));
            assert_ne!(after.ino(), before.ino());
            assert_eq!(fs::read(&path).unwrap(), b"new");
            fs::remove_file(&path).unwrap();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn extended_attributes_are_kept() {
        use rustix::fs::{XattrFlags, getxattr, setxattr};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "old").unwrap();
        // Some file systems have no extended attributes.
        if setxattr(&path, c"user.note", b"mine", XattrFlags::empty()).is_err() {
            return;
        }
        atomic_write(&path, content(b"new", None)).unwrap();
        let mut value = [0; 16];
        let length = getxattr(&path, c"user.note", &mut value[..]).unwrap();
        assert_eq!((&value[..length], fs::read(&path).unwrap()), (&b"mine"[..], b"new".to_vec()));
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "something old").unwrap();
        let mut new = New::create(folder.path()).unwrap();
        new.file().write_all(b"new").unwrap();
        new.overwrite(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        symlink("folder/target", at("a")).unwrap();
        symlink(at("a"), at("b")).unwrap();
        // In the first round the target does not exist.
        for content_of in ["first", "second"] {
            check(&at("b")).unwrap();
            atomic_write(&at("b"), content(content_of.as_bytes(), None)).unwrap();
            assert_eq!(fs::read_to_string(at("folder/target")).unwrap(), content_of);
            assert!(at("a").is_symlink() && at("b").is_symlink());
        }
        assert_eq!(Identity::read(&at("b")).unwrap(), Identity::read(&at("folder/target")).unwrap());
        fs::hard_link(at("folder/target"), at("c")).unwrap();
        assert_eq!(Identity::read(&at("b")).unwrap(), Identity::read(&at("c")).unwrap());
        assert_ne!(Identity::read(&at("d")).unwrap(), Identity::read(&at("c")).unwrap());
        assert_eq!(Identity::read(&at("d")).unwrap(), Identity::read(&at("folder/../d")).unwrap());

        symlink("y", at("x")).unwrap();
        symlink("x", at("y")).unwrap();
        symlink("absent/z", at("z")).unwrap();
        for (name, word) in [("x", "loop"), ("z", "absent"), ("folder", "directory"), ("new/", ""), ("c/d", "")] {
            let error = check(&at(name)).unwrap_err().to_string();
            assert!(error.contains(word), "{name}: {error}");
            assert!(atomic_write(&at(name), content(b"", None)).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("c")).unwrap(), "second");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_pipes_are_written_through() {
        use std::os::unix::fs::FileTypeExt;
        let kind = |path: &Path| fs::symlink_metadata(path).unwrap().file_type();
        for device in ["/dev/null", "/dev/full"] {
            let device = Path::new(device);
            check(device).unwrap();
            let written = atomic_write(device, content(b"text", None));
            assert_eq!(written.is_err(), device.ends_with("full"), "{written:?}");
            assert!(kind(device).is_char_device());
            assert!(Identity::read(device).unwrap().is_none() && !is_file(device).unwrap());
        }
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // The check does not block.
        check(&pipe).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        atomic_write(&pipe, content(b"text", None)).unwrap();
        assert_eq!(reader.join().unwrap(), b"text");
        assert!(kind(&pipe).is_fifo());

        let socket = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        check(&socket).unwrap();
        atomic_write(&socket, content(b"text", None)).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut listener.accept().unwrap().0, &mut text).unwrap();
        assert_eq!(text, "text");

        // A descriptor keeps its file position.
        use std::os::fd::AsRawFd;
        let path = folder.path().join("file");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"1").unwrap();
        let name = format!("/dev/fd/{}", file.as_raw_fd());
        check(Path::new(&name)).unwrap();
        atomic_write(Path::new(&name), content(b"2", None)).unwrap();
        file.write_all(b"3").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"123");
        let file = File::open(&path).unwrap();
        assert!(check(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd()))).is_err());
        assert!(check(Path::new("/dev/fd/999")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_new_file_has_no_name_before_it_is_complete() {
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
