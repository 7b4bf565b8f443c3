//! NumPy's `.npz`: an archive of named arrays, as `numpy.savez` and `numpy.savez_compressed` write it.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::BUFFER;
use super::binary::{Element, invalid, within};
use super::npy::{self, Tensor};

/// Bytes of arrays that may be read whatever the length of the archive.
const SMALL: u64 = 1 << 24;

/// Most bytes of arrays per byte of a larger archive. Deflate reaches 1032, and readers read an array at most twice. Only archives whose
/// arrays share their bytes have more.
const RATIO: u64 = 2064;

/// A reader of an archive.
pub struct Archive {
    zip: ZipArchive<BufReader<File>>,
    /// Bytes of arrays that may still be read.
    left: u64,
}

impl Archive {
    /// Opens an archive.
    pub fn open(file: File) -> io::Result<Self> {
        let left = file.metadata()?.len().saturating_mul(RATIO).max(SMALL);
        let zip = ZipArchive::new(BufReader::with_capacity(BUFFER, file)).map_err(archive_error)?;
        Ok(Self { zip, left })
    }

    /// The names of its files.
    pub fn file_names(&self) -> impl Iterator<Item = String> {
        self.zip.file_names().filter_map(|file| Some(file.ok()?.to_string()))
    }

    /// Whether the archive has an array `name`.
    pub fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(&format!("{name}.npy")).is_some()
    }

    /// Reads the array `name` with `read`.
    pub fn with<T>(&mut self, name: &str, read: impl FnOnce(&mut dyn io::Read) -> io::Result<T>) -> io::Result<T> {
        let Self { zip, left } = self;
        let member = zip.by_name(&format!("{name}.npy")).map_err(|error| match error {
            zip::result::ZipError::FileNotFound => invalid(format!("array {name} is missing")),
            error => archive_error(error),
        })?;
        read(&mut Budgeted { reader: member, left }).map_err(within(name))
    }

    /// Reads the array `name`.
    pub fn array<T: Element>(&mut self, name: &str) -> io::Result<Tensor<T>> {
        self.with(name, |reader| npy::read(reader))
    }

    /// Reads the array `name`; `None` if the archive has no such array.
    pub fn optional<T: Element>(&mut self, name: &str) -> io::Result<Option<Tensor<T>>> {
        self.has(name).then(|| self.array(name)).transpose()
    }

    /// Reads the elements of the array `name`; empty if the archive has no such array.
    pub fn elements<T: Element>(&mut self, name: &str) -> io::Result<Vec<T>> {
        Ok(self.optional(name)?.map_or_else(Vec::new, |tensor| tensor.elements))
    }
}

/// A reader of at most so many bytes, which several readers share.
struct Budgeted<'l, R> {
    reader: R,
    left: &'l mut u64,
}

impl<R: Read> Read for Budgeted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let left = self.left.checked_sub(read as u64);
        *self.left = left.ok_or_else(|| invalid("the arrays are more than a thousand times as long as the archive"))?;
        Ok(read)
    }
}

/// A writer of an archive.
pub struct Members<W: Write>(ZipWriter<zip::write::StreamWriter<W>>);

impl<W: Write> Members<W> {
    /// Writes to a stream.
    pub fn new(out: W) -> Self {
        Self(ZipWriter::new_stream(out))
    }

    /// Writes the central directory of the archive.
    pub fn finish(self) -> io::Result<()> {
        self.0.finish().map(|_| ()).map_err(archive_error)
    }

    /// Writes the array `name` with `write`.
    pub fn add(&mut self, name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
        self.0.start_file(format!("{name}.npy"), options).map_err(archive_error)?;
        write(&mut self.0)
    }

    /// Writes the one-dimensional array `name`.
    pub fn array<T: npy::Store>(&mut self, name: &str, elements: &[T]) -> io::Result<()> {
        self.add(name, |out| npy::write(out, elements))
    }
}

fn archive_error(error: zip::result::ZipError) -> io::Error {
    match error {
        zip::result::ZipError::Io(error) => error,
        error => invalid(format!("not an archive of arrays: {error}")),
    }
}
