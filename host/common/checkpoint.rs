//! Checkpoints: what a solve needs to go on after its process has ended.
//!
//! A checkpoint is one file of [safetensors](https://github.com/huggingface/safetensors). Its metadata hold `format` =
//! `warpkov-checkpoint`, `version` = `2`, `kind` (`mdp`, `pomdp` or `hmm`), and `model`, a [hash](struct@Hash) of the model's
//! numbers; the rest is that of the model class, in the module `checkpoint` of each. [`Contents`] is the file in memory.
//! [`Checkpoints`] decides when the next one is due, and writes it.
//!
//! Solvers write between two rounds of their loops, and when a run ends. Of several ranks, the first decides when one is
//! due and writes it; the others have [`Checkpoints::elsewhere`]. An array that is divided among ranks is the last of its file: each
//! rank writes its part at its offset behind the [head](Contents::head), and reads its part [alone](Contents::read_apart).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use memmap2::Mmap;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::json;
use twox_hash::XxHash3_64;

use super::interrupt;
use super::io::safetensors::{self as file, Entry, Tensor};
use super::io::{Error, output};

const FORMAT: &str = "warpkov-checkpoint";
const VERSION: &str = "2";

/// Hash of the numbers of a model: XXH3 of its items, each with its number as the seed, added modulo 2⁶⁴. Thus items can
/// be hashed in any order. It detects mistakes, not forgeries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// The hash of one item.
    #[must_use]
    pub fn new(item: u64, bytes: &[u8]) -> Self {
        Self(XxHash3_64::oneshot_with_seed(item, bytes))
    }

    /// The hash with this number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// The hash as a number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The hash of these items and those.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

/// An array of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// 64-bit floating point.
    F64(Vec<f64>),
    /// 64-bit unsigned integers.
    U64(Vec<u64>),
    /// 32-bit unsigned integers.
    U32(Vec<u32>),
}

macro_rules! array {
    ($type:ty, $variant:ident) => {
        impl From<Vec<$type>> for Array {
            fn from(numbers: Vec<$type>) -> Self {
                Self::$variant(numbers)
            }
        }

        impl TryFrom<Array> for Vec<$type> {
            type Error = &'static str;

            /// The numbers, or the name of the expected type.
            fn try_from(array: Array) -> Result<Self, &'static str> {
                if let Array::$variant(numbers) = array { Ok(numbers) } else { Err(stringify!($variant)) }
            }
        }
    };
}

array!(f64, F64);
array!(u64, U64);
array!(u32, U32);

/// The contents of a checkpoint: named texts and arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    texts: BTreeMap<String, String>,
    arrays: BTreeMap<String, Array>,
}

impl Contents {
    /// A checkpoint of this kind and model.
    #[must_use]
    pub fn new(kind: &str, model: Hash) -> Self {
        let mut contents = Self { texts: BTreeMap::new(), arrays: BTreeMap::new() };
        contents.set("format", FORMAT);
        contents.set("version", VERSION);
        contents.set("kind", kind);
        contents.set("model", model);
        contents
    }

    /// Reads a checkpoint and checks its kind and its model.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or is a checkpoint of something else.
    pub fn read(path: &Path, kind: &str, model: Hash) -> Result<Self, Error> {
        let bytes = open(path).and_then(|mut file| {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut file, &mut bytes).map(|_| bytes)
        });
        Self::parse(&bytes.map_err(Error::read(path))?, kind, model, None).map_err(content(path))
    }

    /// [`read`](Self::read) without the array `name` of `length` numbers, which stays in the file.
    ///
    /// # Errors
    /// As for [`read`](Self::read), and if the array is missing or another one.
    pub fn read_apart(
        path: &Path,
        kind: &str,
        model: Hash,
        name: &'static str,
        length: u64,
    ) -> Result<(Self, Apart), Error> {
        let file = open(path).map_err(Error::read(path))?;
        // SAFETY: nobody may change the file while it is mapped. warpkov's own writers replace files instead of changing them,
        // and nobody reads the map after the solve has begun.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::read(path))?;
        let read = || {
            let contents = Self::parse(&map, kind, model, Some(name))?;
            let (start, header) = SafeTensors::read_metadata(&map).map_err(|error| error.to_string())?;
            let info = header.info(name).ok_or_else(|| format!("tensor {name} is missing"))?;
            match (info.dtype, &info.shape[..]) {
                (Dtype::F64, &[found]) if found as u64 == length => {
                    Ok((contents, file::PREFIX + start + info.data_offsets.0))
                }
                (Dtype::F64, [found]) => Err(format!("tensor {name} has {found} numbers, expected {length}")),
                _ => Err(format!("tensor {name} has another type, expected F64")),
            }
        };
        let (contents, start) = read().map_err(content(path))?;
        Ok((contents, Apart { map, start, name, path: path.to_owned() }))
    }

    /// Parses a file, and takes all arrays but `apart`.
    fn parse(bytes: &[u8], kind: &str, model: Hash, apart: Option<&str>) -> Result<Self, String> {
        let damaged = |error| format!("not a checkpoint, or a damaged one: {error}");
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let texts = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let mut contents = Self { texts, arrays: BTreeMap::new() };
        contents.expect("format", FORMAT)?;
        contents.expect("version", VERSION)?;
        match contents.text("kind")? {
            found if found == kind => {}
            found => return Err(format!("a checkpoint of kind \"{found}\", expected kind \"{kind}\"")),
        }
        match contents.text("model")? {
            found if found == model.to_string() => {}
            found => {
                return Err(format!("the checkpoint belongs to another model: its hash is {found}, expected {model}"));
            }
        }
        // Checks that the tensors fill the file.
        let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
        for (name, tensor) in tensors.iter().filter(|(name, _)| apart != Some(name)) {
            let data = match (tensor.dtype(), tensor.shape()) {
                (Dtype::F64, [_]) => Array::F64(numbers(tensor.data())),
                (Dtype::U64, [_]) => Array::U64(numbers(tensor.data())),
                (Dtype::U32, [_]) => Array::U32(numbers(tensor.data())),
                (dtype, shape) => {
                    let expected = "expected F64, U64 or U32 of one dimension";
                    return Err(format!("tensor {name}: found {dtype} of shape {shape:?}, {expected}"));
                }
            };
            contents.arrays.insert(name.to_owned(), data);
        }
        Ok(contents)
    }

    /// Sets a text.
    pub fn set(&mut self, key: &str, value: impl ToString) {
        self.texts.insert(key.to_owned(), value.to_string());
    }

    /// Adds an array.
    pub fn put(&mut self, name: &str, numbers: impl Into<Array>) {
        self.arrays.insert(name.to_owned(), numbers.into());
    }

    /// A text.
    ///
    /// # Errors
    /// The message for the user, if it is missing.
    pub fn text(&self, key: &str) -> Result<&str, String> {
        self.texts.get(key).map(String::as_str).ok_or_else(|| format!("metadata {key} is missing"))
    }

    /// A number, or another value with a text.
    ///
    /// # Errors
    /// The message for the user, if it is missing or another one.
    pub fn number<T: FromStr>(&self, key: &str) -> Result<T, String> {
        let text = self.text(key)?;
        text.parse().map_err(|_| format!("metadata {key}: found \"{text}\", expected a number"))
    }

    /// Checks a text that must be the same as in this run.
    ///
    /// # Errors
    /// The message for the user, if it is another one.
    pub fn expect(&self, key: &str, expected: &str) -> Result<(), String> {
        match self.text(key)? {
            found if found == expected => Ok(()),
            found => Err(format!("the checkpoint has {key} \"{found}\", expected \"{expected}\"")),
        }
    }

    /// Whether it has an array.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.arrays.contains_key(name)
    }

    /// Takes an array.
    ///
    /// # Errors
    /// The message for the user, if it is missing or has another type.
    pub fn take<T>(&mut self, name: &str) -> Result<Vec<T>, String>
    where
        Vec<T>: TryFrom<Array, Error = &'static str>,
    {
        let found = self.arrays.remove(name).ok_or_else(|| format!("tensor {name} is missing"))?;
        found.try_into().map_err(|expected| format!("tensor {name} has another type, expected {expected}"))
    }

    /// Takes an array of this many numbers.
    ///
    /// # Errors
    /// As for [`take`](Self::take), and if it has another length.
    pub fn take_all<T>(&mut self, name: &str, length: usize) -> Result<Vec<T>, String>
    where
        Vec<T>: TryFrom<Array, Error = &'static str>,
    {
        let found: Vec<T> = self.take(name)?;
        match found.len() == length {
            true => Ok(found),
            false => Err(format!("tensor {name} has {} numbers, expected {length}", found.len())),
        }
    }

    /// Takes an array of this many finite numbers.
    ///
    /// # Errors
    /// As for [`take_all`](Self::take_all), and if one of them is not finite.
    pub fn take_finite(&mut self, name: &str, length: usize) -> Result<Vec<f64>, String> {
        let found = self.take_all(name, length)?;
        finite(name, 0, &found)?;
        Ok(found)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_before(out, Vec::new(), None)
    }

    /// Writes the file with more tensors, which need not be in memory.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_with(&self, out: &mut dyn Write, more: Vec<Tensor>) -> io::Result<()> {
        self.write_before(out, more, None)
    }

    /// The bytes of a file that has one more array, the last one: `length` numbers F64 of this name, which follow.
    ///
    /// # Errors
    /// If the header is too large.
    pub fn head(&self, name: &str, length: u64) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.write_before(&mut head, Vec::new(), Some(Entry::new(name, "F64", length)))?;
        Ok(head)
    }

    fn write_before(&self, out: &mut dyn Write, more: Vec<Tensor>, last: Option<Entry>) -> io::Result<()> {
        let mut tensors = more;
        for (name, array) in &self.arrays {
            tensors.push(match array {
                Array::F64(numbers) => Tensor::new(name, "F64", numbers),
                Array::U64(numbers) => Tensor::new(name, "U64", numbers),
                Array::U32(numbers) => Tensor::new(name, "U32", numbers),
            });
        }
        tensors.sort_by(|a, b| a.name().cmp(b.name()));
        file::write(out, json!(self.texts), &mut tensors, last)
    }
}

/// An array of numbers that stays in its file, of which a rank reads its part.
pub struct Apart {
    map: Mmap,
    /// Byte offset.
    start: usize,
    name: &'static str,
    path: PathBuf,
}

impl Apart {
    /// Reads a range of finite numbers, which must be within the array.
    ///
    /// # Errors
    /// If one of them is not finite.
    pub fn take(&self, range: Range<u64>) -> Result<Vec<f64>, Error> {
        let byte = |number: u64| self.start + number as usize * size_of::<f64>();
        let found: Vec<f64> = numbers(self.map.get(byte(range.start)..byte(range.end)).unwrap_or_default());
        match finite(self.name, range.start, &found) {
            Ok(()) => Ok(found),
            Err(message) => Err(content(&self.path)(message)),
        }
    }
}

/// Checks that the numbers of an array, from number `first` on, are finite.
fn finite(name: &str, first: u64, found: &[f64]) -> Result<(), String> {
    match found.iter().position(|number| !number.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let place = first + at as u64;
            Err(format!("tensor {name}: {place} is {}, expected a finite number", found[at]))
        }
    }
}

/// Wraps a message about the contents of the file at `path`.
pub fn content(path: &Path) -> impl Fn(String) -> Error {
    move |message| Error::Content { file: path.display().to_string(), message }
}

/// Opens a regular file.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file"));
    }
    File::open(path)
}

/// The numbers in these bytes, which need not be aligned.
fn numbers<T: Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// The checkpoints of a run.
pub struct Checkpoints {
    /// The file; `None` if another rank writes it.
    file: Option<PathBuf>,
    every: Duration,
    last: Instant,
    /// Why the last checkpoint could not be written.
    failed: Option<Error>,
    warn: fn(&Error),
}

impl Checkpoints {
    /// Checkpoints to `file`, which are due `every` so often. Calls `warn` when one cannot be written.
    #[must_use]
    pub fn new(file: PathBuf, every: Duration, warn: fn(&Error)) -> Self {
        Self { file: Some(file), every, last: Instant::now(), failed: None, warn }
    }

    /// Checkpoints that another rank writes: none is due here, and none is written.
    #[must_use]
    pub fn elsewhere() -> Self {
        Self { file: None, every: Duration::MAX, last: Instant::now(), failed: None, warn: |_| {} }
    }

    /// Whether this rank writes the checkpoints.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.file.is_some()
    }

    /// The file; `None` if another rank writes it.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether the next checkpoint is due, by its time or [by request](interrupt::request_checkpoint).
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.file.is_some() && (interrupt::take_checkpoint() || self.last.elapsed() >= self.every)
    }

    /// Writes a checkpoint, whole or not at all. The run goes on if this fails: see [`finish`](Self::finish).
    pub fn save(&mut self, contents: &Contents) {
        self.save_with(|out| contents.write(out));
    }

    /// [`save`](Self::save) of what `write` writes, the same bytes each time.
    pub fn save_with(&mut self, mut write: impl FnMut(&mut dyn Write) -> io::Result<()>) {
        let Some(path) = &self.file else { return };
        let buffered = |out: &mut dyn Write| {
            let mut out = io::BufWriter::new(out);
            write(&mut out)?;
            out.flush()
        };
        let written = output::atomic_write(path, buffered);
        self.note(written);
    }

    /// Notes whether a checkpoint was written.
    pub fn note(&mut self, written: io::Result<()>) {
        let Some(path) = &self.file else { return };
        self.failed = written.map_err(Error::write(path)).err();
        if let Some(error) = &self.failed {
            (self.warn)(error);
        }
        self.last = Instant::now();
    }

    /// Ends the checkpoints.
    ///
    /// # Errors
    /// If the last one could not be written. The file then holds an earlier one, if there was one.
    pub fn finish(self) -> Result<(), Error> {
        self.failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Contents {
        let mut contents = Contents::new("test", Hash::new(0, b"model"));
        contents.set("seconds", 0.1);
        contents.put("values", vec![1.5, f64::NEG_INFINITY, f64::NAN]);
        contents.put("counts", vec![u64::MAX]);
        contents.put("actions", vec![3_u32, 4, 5]);
        contents
    }

    fn bytes(contents: &Contents) -> Vec<u8> {
        let mut bytes = Vec::new();
        contents.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let (file, model) = (bytes(&contents()), Hash::new(0, b"model"));
        let mut found = Contents::parse(&file, "test", model, None).unwrap();
        assert_eq!(found.number::<f64>("seconds").unwrap(), 0.1);
        let values: Vec<f64> = found.take_all("values", 3).unwrap();
        assert!(values[0] == 1.5 && values[1] == f64::NEG_INFINITY && values[2].is_nan());
        assert_eq!(found.take::<u32>("counts").unwrap_err(), "tensor counts has another type, expected U32");
        assert_eq!(found.take::<u32>("actions").unwrap(), [3, 4, 5]);
        assert_eq!(found.take::<u32>("actions").unwrap_err(), "tensor actions is missing");
        let mut again = Contents::parse(&file, "test", model, None).unwrap();
        assert_eq!(again.take_all::<u32>("actions", 2).unwrap_err(), "tensor actions has 3 numbers, expected 2");
        assert!(again.take_finite("values", 3).unwrap_err().contains("1 is -inf, expected a finite number"));
    }

    #[test]
    fn other_and_damaged_files_are_refused() {
        let (file, model) = (bytes(&contents()), Hash::new(0, b"model"));
        for length in 0..file.len() {
            let error = Contents::parse(&file[..length], "test", model, None).unwrap_err();
            assert!(error.contains("damaged"), "{length}: {error}");
        }
        let longer = [&file[..], b"x"].concat();
        assert!(Contents::parse(&longer, "test", model, None).is_err());
        let error = |file: &[u8], kind, model| Contents::parse(file, kind, model, None).unwrap_err();
        assert!(error(&file, "mdp", model).contains("kind \"test\", expected kind \"mdp\""));
        assert!(error(&file, "test", Hash::new(0, b"other")).contains("another model"));
        for (key, value) in [("version", "1"), ("format", "warpkov-mdp")] {
            let mut other = contents();
            other.set(key, value);
            let error = error(&bytes(&other), "test", model);
            assert!(error.contains(key) && error.contains(value), "{error}");
        }
        // Any byte that changes gives an error or other contents, and no panic.
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0x41;
            let _ = Contents::parse(&changed, "test", model, None);
        }
    }

    #[test]
    fn a_checkpoint_that_cannot_be_written_is_reported_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder/checkpoint");
        let mut checkpoints = Checkpoints::new(path.clone(), Duration::ZERO, |_| {});
        assert!(checkpoints.is_due());
        checkpoints.save(&contents());
        fs::create_dir(folder.path().join("folder")).unwrap();
        let failed = Checkpoints { failed: checkpoints.failed.take(), ..Checkpoints::elsewhere() };
        assert!(failed.finish().unwrap_err().to_string().contains("cannot write"));
        // One that can be written later makes up for it.
        checkpoints.save(&contents());
        assert!(checkpoints.finish().is_ok() && Contents::read(&path, "test", Hash::new(0, b"model")).is_ok());
    }
}
