//! NumPy's `.npz`: an archive of named arrays, as `numpy.savez` and `numpy.savez_compressed` write it.

use std::fs::File;
use std::io::{self, BufReader, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::BUFFER;
use super::binary::{Element, invalid, within};
use super::npy::{self, Tensor};

/// A reader of an archive.
pub struct Archive(ZipArchive<BufReader<File>>);

impl Archive {
    /// Opens an archive.
    pub fn open(file: File) -> io::Result<Self> {
        Ok(Self(ZipArchive::new(BufReader::with_capacity(BUFFER, file)).map_err(archive_error)?))
    }

    /// The names of its files.
    pub fn file_names(&self) -> impl Iterator<Item = String> {
        self.0.file_names().filter_map(|file| Some(file.ok()?.to_string()))
    }

    /// Whether the archive has an array `name`.
    pub fn has(&self, name: &str) -> bool {
        self.0.index_for_name(&format!("{name}.npy")).is_some()
    }

    /// Reads the array `name` with `read`.
    pub fn with<T>(&mut self, name: &str, read: impl FnOnce(&mut dyn io::Read) -> io::Result<T>) -> io::Result<T> {
        let mut member = self.0.by_name(&format!("{name}.npy")).map_err(|error| match error {
            zip::result::ZipError::FileNotFound => invalid(format!("array {name} is missing")),
            error => archive_error(error),
        })?;
        read(&mut member).map_err(within(name))
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
