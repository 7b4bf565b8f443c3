//! Input text from files, pipes and the standard input, plain or compressed by gzip, xz or zstd.
//!
//! The first bytes determine the compression; the file name does not. Decompression is streamed and uses bounded
//! memory. A UTF-8 byte-order mark is removed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Size of a block, in bytes.
const BUFFER: usize = 1 << 17;

/// Blocks that the decompression thread may be ahead of the reader.
const BLOCKS: usize = 8;

/// Largest text of unknown length that is read into memory, in bytes.
const LARGEST: u64 = 1 << 32;

/// Largest decompressed text that is read into memory whatever the length of the compressed data, in bytes.
const SMALL: u64 = 1 << 24;

/// Largest ratio of a longer text to the compressed data: a small compressed file can expand to any length. gzip reaches 1032.
const RATIO: u64 = 1000;

/// Memory limit of xz decompression, in KiB. `xz -9` needs less.
const XZ_MEMORY: u32 = 1 << 18;

/// Number of first bytes that decide the format of a file.
pub const SNIFFED: usize = 1 << 16;

/// The byte-order mark of UTF-8.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// One or several members of gzip (RFC 1952).
    Gzip,
    /// One or several streams of xz.
    Xz,
    /// One or several frames of Zstandard (RFC 8878).
    Zstd,
}

impl Compression {
    /// File extensions; the usual one of each format comes first.
    pub const EXTENSIONS: [&str; 5] = ["gz", "xz", "zst", "gzip", "zstd"];

    /// Length of the longest magic number, in bytes.
    const MAGIC: usize = 6;

    /// The compression format with the magic number at `start`. Zstandard includes its skippable frames.
    fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns a reader of the decompressed data.
    fn unpack<'r>(self, packed: impl Read + 'r) -> Box<dyn Read + 'r> {
        let packed = BufReader::with_capacity(BUFFER, packed);
        match self {
            Self::Gzip => Box::new(Unpacked { reader: MultiGzDecoder::new(packed), of: self }),
            Self::Xz => Box::new(Unpacked { reader: XzReader::new_mem_limit(packed, true, XZ_MEMORY), of: self }),
            Self::Zstd => Box::new(Unpacked { reader: Frames::new(packed), of: self }),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }
}

/// The file name without an extension of a compression format: `model.drn` for `model.drn.gz`.
#[must_use]
pub fn plain_name(path: &Path) -> PathBuf {
    let known = |extension: &str| Compression::EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known));
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) if known(extension) => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// The file at `path`, or else the compressed file with the same name, or `None`.
#[must_use]
pub fn find(path: &Path) -> Option<PathBuf> {
    let compressed = Compression::EXTENSIONS.iter().map(|extension| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{extension}"));
        PathBuf::from(name)
    });
    std::iter::once(path.to_owned()).chain(compressed).find(|path| path.exists())
}

/// A reader of a text, decompressed on the fly.
pub struct Input<'r> {
    reader: Box<dyn Read + 'r>,
    /// Bytes taken from `reader` by [`Input::start`].
    ahead: Vec<u8>,
    /// Number of bytes of `ahead` that the caller has read.
    read: usize,
    compression: Option<Compression>,
    /// Number of bytes read of the compressed data.
    packed: Arc<AtomicU64>,
    /// The file, if it is a regular file.
    file: Option<File>,
}

impl Input<'static> {
    /// Opens a file, a pipe or a device. Compressed data is decompressed on a separate thread, a few blocks ahead of
    /// the reader.
    ///
    /// # Errors
    /// If the file cannot be opened or read, is in UTF-16, or has damaged compressed data at its start.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let whole = file.metadata()?.is_file().then(|| file.try_clone()).transpose()?;
        let (packed, compression) = begin(file)?;
        let (packed, count) = Counted::new(packed);
        let reader: Box<dyn Read> = match compression {
            None => Box::new(packed),
            Some(compression) => Box::new(Ahead::start(move || compression.unpack(packed))?),
        };
        Ok(Self { file: whole, ..Self::from_reader(reader, compression, count)? })
    }
}

/// A stream that counts the bytes read.
struct Counted<R> {
    reader: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Counted<R> {
    /// The stream and its count.
    fn new(reader: R) -> (Self, Arc<AtomicU64>) {
        let count = Arc::default();
        (Self { reader, count: Arc::clone(&count) }, count)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.count.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

/// A stream with its first bytes put back.
type Rewound<R> = Chain<Cursor<Vec<u8>>, R>;

/// Reads the magic number of a stream. Returns the stream from its first byte, and its compression.
fn begin<R: Read>(mut reader: R) -> io::Result<(Rewound<R>, Option<Compression>)> {
    let mut start = Vec::new();
    reader.by_ref().take(Compression::MAGIC as u64).read_to_end(&mut start)?;
    let compression = Compression::detect(&start);
    Ok((Cursor::new(start).chain(reader), compression))
}

impl<'r> Input<'r> {
    /// Wraps a stream.
    ///
    /// # Errors
    /// If the stream cannot be read, is in UTF-16, or has damaged compressed data at its start.
    pub fn new(reader: impl Read + 'r) -> io::Result<Self> {
        let (packed, compression) = begin(reader)?;
        let (packed, count) = Counted::new(packed);
        let reader: Box<dyn Read + 'r> = match compression {
            None => Box::new(packed),
            Some(compression) => compression.unpack(packed),
        };
        Self::from_reader(reader, compression, count)
    }

    /// Wraps a decompressed stream and removes the UTF-8 byte-order mark.
    fn from_reader(
        reader: Box<dyn Read + 'r>,
        compression: Option<Compression>,
        packed: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let mut input = Self { reader, ahead: Vec::new(), read: 0, compression, packed, file: None };
        match input.start(MARK.len())? {
            MARK => input.ahead.clear(),
            // The byte-order mark of UTF-16, in both byte orders. No supported binary format starts with these bytes.
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(invalid("is in UTF-16, expected UTF-8".to_owned())),
            _ => {}
        }
        Ok(input)
    }

    /// The compression of the data; `None` for plain data.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// The length in bytes of a regular, uncompressed file; `None` for other sources.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn length(&self) -> io::Result<Option<u64>> {
        match (&self.file, self.compression) {
            (Some(file), None) => Ok(Some(file.metadata()?.len())),
            _ => Ok(None),
        }
    }

    /// The first `count` bytes, or all bytes of a shorter text, without consuming them. Call before the first read.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn start(&mut self, count: usize) -> io::Result<&[u8]> {
        let missing = count.saturating_sub(self.ahead.len());
        self.reader.by_ref().take(missing as u64).read_to_end(&mut self.ahead)?;
        Ok(&self.ahead[..count.min(self.ahead.len())])
    }

    /// The file, rewound to its first byte, if it is regular and uncompressed; otherwise this input unchanged.
    ///
    /// # Errors
    /// If the file cannot be rewound.
    pub fn into_file(self) -> io::Result<Result<File, Self>> {
        match self {
            Self { file: Some(mut file), compression: None, .. } => {
                file.rewind()?;
                Ok(Ok(file))
            }
            other => Ok(Err(other)),
        }
    }

    /// Reads the whole text.
    ///
    /// # Errors
    /// If the source cannot be read, is a stream or compressed file of more than 4 GiB, or compressed data that expand to more
    /// than 16 MiB and a thousand times their length.
    pub fn read_all(mut self) -> io::Result<Vec<u8>> {
        if let Some(length) = self.length()? {
            let mut text = Vec::new();
            text.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX).saturating_add(1))?;
            self.read_to_end(&mut text)?;
            return Ok(text);
        }
        let mut text = Vec::new();
        while self.by_ref().take(BUFFER as u64).read_to_end(&mut text)? > 0 {
            let (most, unpacked) = match self.compression {
                Some(_) => ((RATIO * self.packed.load(Relaxed)).clamp(SMALL, LARGEST), " when decompressed"),
                None => (LARGEST, ""),
            };
            if text.len() as u64 > most {
                return Err(invalid(format!(
                    "has more than {most} bytes{unpacked}, expected an uncompressed regular file"
                )));
            }
        }
        Ok(text)
    }

    /// Reads the whole text as UTF-8.
    ///
    /// # Errors
    /// The errors of [`read_all`](Self::read_all), and the line of the first byte that is not UTF-8.
    pub fn read_text(self) -> io::Result<String> {
        String::from_utf8(self.read_all()?).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + memchr::memchr_iter(b'\n', before).count();
            invalid(format!("line {line} is not UTF-8"))
        })
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.ahead.len() {
            return self.reader.read(buffer);
        }
        let count = (&self.ahead[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

/// A decompressor that adds the name of its format to errors.
struct Unpacked<R> {
    reader: R,
    of: Compression,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::Interrupted => error,
            // An error of the system concerns the file, not its content.
            _ if error.raw_os_error().is_some() => error,
            // The file's dictionary exceeds `XZ_MEMORY`.
            ErrorKind::OutOfMemory => {
                invalid(format!("decompressing the {} data needs more than {} MiB", self.of.name(), XZ_MEMORY >> 10))
            }
            ErrorKind::UnexpectedEof => invalid(format!("the {} data end too early", self.of.name())),
            _ => invalid(format!("the {} data are damaged: {error}", self.of.name())),
        })
    }
}

/// A stream that a thread reads ahead.
struct Ahead {
    /// Blocks in order. The last one is empty or an error.
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: Cursor<Vec<u8>>,
    ended: bool,
}

impl Ahead {
    /// Starts a thread that calls `open` and reads the stream until it ends or `self` is dropped.
    fn start<R: Read>(open: impl FnOnce() -> R + Send + 'static) -> io::Result<Self> {
        let (sender, blocks) = sync_channel(BLOCKS);
        let read = move || {
            let mut reader = open();
            loop {
                let mut block = Vec::with_capacity(BUFFER);
                let done = reader.by_ref().take(BUFFER as u64).read_to_end(&mut block);
                let ended = block.is_empty();
                // The bytes before an error are delivered first.
                if (!ended || done.is_ok()) && sender.send(Ok(block)).is_err() {
                    return;
                }
                if let Err(error) = done {
                    let _ = sender.send(Err(error));
                    return;
                }
                if ended {
                    return;
                }
            }
        };
        thread::Builder::new().name("unpack".to_owned()).spawn(read)?;
        Ok(Self { blocks, block: Cursor::default(), ended: false })
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && self.block.position() == self.block.get_ref().len() as u64 {
            let block = self.blocks.recv().map_err(|_| io::Error::other("the decompression thread has stopped"))?;
            self.block = Cursor::new(block?);
            self.ended = self.block.get_ref().is_empty();
        }
        self.block.read(buffer)
    }
}

/// A decoder of consecutive zstd frames.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder is inside a frame.
    open: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), open: false }
    }

    /// Starts the next frame; false at the end of the source. Skips skippable frames.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(invalid(error.to_string())),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.open || self.begin()? {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded = self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(|error| invalid(error.to_string()))?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            let said = self.decoder.get_checksum_from_data();
            if said.is_some() && said != self.decoder.get_calculated_checksum() {
                return Err(invalid("the checksum differs".to_owned()));
            }
            self.open = false;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression as Level;
    use flate2::write::GzEncoder;
    use lzma_rust2::{XzOptions, XzWriter};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(text: &[u8]) -> Vec<u8> {
        let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    type Packer = fn(&[u8]) -> Vec<u8>;

    const PACKERS: [Packer; 3] = [gzip, xz, zstd];

    /// A reader that returns one byte at a time, like a slow pipe.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn all(bytes: &[u8]) -> io::Result<Vec<u8>> {
        Input::new(Slow(bytes))?.read_all()
    }

    #[test]
    fn every_compression_is_read() {
        let long: Vec<u8> = (0..70_000u64).flat_map(|i| format!("{} ", i * i % 9973).into_bytes()).collect();
        for text in [&b""[..], b"a", b"ab\n", &long] {
            let marked = [MARK, text].concat();
            for bytes in [text.to_vec(), marked.clone()] {
                assert_eq!(all(&bytes).unwrap(), text);
                for pack in PACKERS {
                    assert_eq!(all(&pack(&bytes)).unwrap(), text);
                    // Members, streams and frames may follow one another.
                    assert_eq!(all(&[pack(&bytes), pack(b"!")].concat()).unwrap(), [text, b"!"].concat());
                }
            }
        }
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc", &zstd(b"x")].concat();
        assert_eq!(all(&skippable).unwrap(), b"x");
    }

    #[test]
    fn small_data_do_not_expand_to_large_texts() {
        for (blanks, fits) in [(SMALL, true), (SMALL + 1, false), (4 * SMALL, false)] {
            let packed = zstd(&vec![b' '; blanks as usize]);
            for read in [all, of_file] {
                match read(&packed) {
                    Ok(text) => assert!(fits && text.len() as u64 == blanks),
                    Err(error) => {
                        let expected =
                            "has more than 16777216 bytes when decompressed, expected an uncompressed regular file";
                        assert_eq!((fits, &error.to_string()[..]), (false, expected));
                    }
                }
            }
        }
    }

    #[test]
    fn start_consumes_nothing() {
        let mut input = Input::new(&b"abcdefgh"[..]).unwrap();
        assert_eq!(input.start(5).unwrap(), b"abcde");
        assert_eq!(input.start(2).unwrap(), b"ab");
        assert_eq!(input.start(100).unwrap(), b"abcdefgh");
        assert_eq!(input.read_all().unwrap(), b"abcdefgh");
    }

    /// The text of a file, decompressed by a thread.
    fn of_file(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(bytes)?;
        Input::open(file.path())?.read_all()
    }

    #[test]
    fn damaged_data_are_named() {
        for (pack, name) in PACKERS.into_iter().zip(["gzip", "xz", "zstd"]) {
            let packed = pack(&b"0 1 2 3 4 5 6 7 8 9 ".repeat(100));
            let mut changed = packed.clone();
            let middle = changed.len() / 2;
            changed[middle] ^= 0x55;
            for damaged in [&packed[..packed.len() - 9], &changed] {
                for read in [all, of_file] {
                    let error = read(damaged).unwrap_err().to_string();
                    assert!(error.contains(name), "{error}");
                }
            }
        }
    }

    #[test]
    fn files_are_decompressed_ahead() {
        // Fewer and more bytes than the thread may be ahead, and whole blocks.
        for length in [0, 1, BUFFER - 1, BUFFER, 3 * BUFFER, (BLOCKS + 3) * BUFFER + 17] {
            let text: Vec<u8> = (0..length as u64).map(|i| (i * i % 251) as u8).collect();
            for pack in PACKERS {
                assert!(of_file(&pack(&text)).unwrap() == text, "{length}");
            }
        }
        // The thread ends when its reader is dropped.
        let packed = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(packed.path(), gzip(&vec![0; 64 * BUFFER])).unwrap();
        let mut input = Input::open(packed.path()).unwrap();
        assert_eq!(input.start(3).unwrap(), [0; 3]);
    }

    #[test]
    fn a_plain_file_is_given_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"abcdefgh").unwrap();
        let mut input = Input::open(&path).unwrap();
        input.start(5).unwrap();
        let mut text = String::new();
        input.into_file().unwrap().unwrap_or_else(|_| panic!("a file")).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcdefgh");
        let packed = folder.path().join("b.gz");
        std::fs::write(&packed, gzip(b"abc")).unwrap();
        assert!(Input::open(&packed).unwrap().into_file().unwrap().is_err());
        assert_eq!(find(&folder.path().join("b")), Some(packed));
        assert_eq!(find(&folder.path().join("c")), None);
    }

    #[test]
    fn names_without_compression() {
        for (name, plain) in [("a.drn.gz", "a.drn"), ("a.JSON.XZ", "a.JSON"), ("a.zst", "a"), ("a.drn", "a.drn")] {
            assert_eq!(plain_name(Path::new(name)), Path::new(plain));
        }
    }
}
