//! JSON: a streaming reader that allocates only the result and names the key in errors, and a writer.

pub mod digits;
mod source;
mod unique;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Read, Write};
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use strsim::damerau_levenshtein;

use self::digits::Scan;
use self::source::{Position, Source};
pub use self::unique::Unique;
use super::Error;
use crate::terminal::quoted;

/// Reads a document that consists of one object.
pub fn parse<T: Fields>(mut reader: impl Read, file: String) -> Result<T, Error> {
    let path = Path::new(Source::new(&mut reader));
    let mut json = serde_json::Deserializer::from_reader(&path.source);
    let parsed = Object::at(&path).deserialize(&mut json).and_then(|object| json.end().map(|()| object));
    match parsed {
        Ok(object) => Ok(object),
        Err(error) if error.is_io() => Err(Error::read(file)(error.into())),
        Err(error) => {
            let Position { line, column } = path.source.place(error.line(), error.column());
            Err(Error::at(file, line, column, format!("{path}{}", plain(&error))))
        }
    }
}

/// serde_json's message without the line and column, with JSON's names of types and without the type of a number.
pub fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.strip_suffix(&format!(" at line {} column {}", error.line(), error.column())).unwrap_or(&text);
    let Some(found) = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: ")) else {
        return text.to_owned();
    };
    let number = found.strip_prefix("integer `").or_else(|| found.strip_prefix("floating point `"));
    match number.and_then(|number| number.split_once('`')) {
        Some((number, rest)) => format!("found {number}{rest}"),
        // serde says "map" and "sequence", JSON "object" and "array".
        None => match found.split_once(',') {
            Some(("map", rest)) => format!("found an object,{rest}"),
            Some(("sequence", rest)) => format!("found an array,{rest}"),
            _ => format!("found {found}"),
        },
    }
}

/// The document and the reader's present key and index, for errors. After a failure they stay at the place of the
/// error.
pub struct Path<'r> {
    source: Source<'r>,
    keys: RefCell<Vec<&'static str>>,
    /// Indices of the entry in nested arrays, outermost first.
    indices: RefCell<Vec<usize>>,
}

impl<'r> Path<'r> {
    fn new(source: Source<'r>) -> Self {
        Self { source, keys: RefCell::default(), indices: RefCell::default() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.borrow();
        if keys.is_empty() {
            return Ok(());
        }
        write!(f, "{}", keys.join("."))?;
        for index in &*self.indices.borrow() {
            write!(f, "[{index}]")?;
        }
        f.write_str(": ")
    }
}

/// An object with known keys. The first [`REQUIRED`](Self::REQUIRED) keys are required. Other keys are errors, except
/// [notes](is_note).
pub trait Fields: Default {
    /// All keys, the required ones first.
    const KEYS: &'static [&'static str];
    /// Number of required keys.
    const REQUIRED: usize;
    /// Groups of keys of which exactly one is required, the usual one first.
    const ONE_OF: &'static [&'static [&'static str]] = &[];
    /// Keys of similar documents, and what to write instead.
    const INSTEAD: &'static [(&'static str, &'static str)] = &[];

    /// Reads the value of `key`.
    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error>;

    /// Checks combinations of optional keys after the last one is read.
    fn complete(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

/// A deserializer of an object.
pub struct Object<'p, T> {
    path: &'p Path<'p>,
    fields: PhantomData<T>,
}

impl<'p, T> Object<'p, T> {
    /// The object at this path.
    pub fn at(path: &'p Path<'p>) -> Self {
        Self { path, fields: PhantomData }
    }
}

impl<'de, T: Fields> DeserializeSeed<'de> for Object<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Fields> Visitor<'de> for Object<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &T::KEYS[..T::REQUIRED] {
            [] => f.write_str("an object"),
            required => write!(f, "an object with {}", required.join(", ")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut fields = T::default();
        let mut seen = Vec::new();
        while let Some(key) = map.next_key_seed(Key(T::KEYS, T::INSTEAD))? {
            let Some(key) = key else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("key \"{key}\" appears twice")));
            }
            seen.push(key);
            self.path.keys.borrow_mut().push(key);
            fields.read(key, &mut map, self.path)?;
            self.path.keys.borrow_mut().pop();
        }
        for group in T::ONE_OF {
            let mut found = group.iter().filter(|key| seen.contains(key));
            match (found.next(), found.next()) {
                (Some(_), None) => {}
                (Some(first), Some(second)) => {
                    let message = format_args!("found both \"{first}\" and \"{second}\", expected one of them");
                    return Err(A::Error::custom(message));
                }
                (None, _) => {
                    let others = group[1..].join(", ");
                    return Err(A::Error::custom(format_args!("key \"{}\" is missing (or {others})", group[0])));
                }
            }
        }
        match T::KEYS[..T::REQUIRED].iter().find(|key| !seen.contains(key)) {
            Some(key) => Err(A::Error::custom(format_args!("key \"{key}\" is missing"))),
            None => fields.complete().map(|()| fields).map_err(A::Error::custom),
        }
    }
}

/// Whether a key holds free text that every reader ignores: `comment`, `$schema`, and keys that begin with `_`.
pub fn is_note(key: &str) -> bool {
    key == "comment" || key == "$schema" || key.starts_with('_')
}

/// The message for a key that is not among the known ones: the nearest known key, and all of them.
pub fn unknown_key(key: &str, known: &[&str]) -> String {
    let hint = nearest(key, known).map_or_else(String::new, |near| format!(", did you mean \"{near}\"?"));
    let (key, known) = (quoted(key.as_bytes()), known.join(", "));
    format!("unknown key \"{key}\"{hint} (known keys: {known}; free text: comment, _…)")
}

/// The known word that differs least from `word`, if it differs in at most a third of its letters. Case, blanks and
/// dashes do not count.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |word: &str| word.to_lowercase().replace(['_', '-', ' '], "");
    let distance = |known: &str| damerau_levenshtein(&plain(word), &plain(known));
    let near = known.iter().copied().min_by_key(|known| distance(known))?;
    (distance(near) <= plain(near).chars().count() / 3).then_some(near)
}

/// A deserializer of a key: one of these, or `None` for a [note](is_note). The other keys have messages of their own.
struct Key(&'static [&'static str], &'static [(&'static str, &'static str)]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<&'static str>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match self.0.iter().find(|key| **key == text) {
            None if !is_note(text) => Err(E::custom(match self.1.iter().find(|(key, _)| *key == text) {
                Some((key, instead)) => format!("found the key \"{key}\", {instead}"),
                None => unknown_key(text, self.0),
            })),
            key => Ok(key.copied()),
        }
    }
}

/// A deserializer of a string: one of these words, with the value that it stands for.
pub struct Word<'w, T>(pub &'w [(&'static str, T)]);

impl<'de, T: Copy> DeserializeSeed<'de> for Word<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T: Copy> Visitor<'_> for Word<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, (word, _)) in self.0.iter().enumerate() {
            write!(f, "{}\"{word}\"", if i == 0 { "" } else { " or " })?;
        }
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        let found = self.0.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// A number type.
pub trait Numeric: Sized {
    /// Converts an unsigned integer; `None` if it is out of range.
    fn from_integer(number: u64) -> Option<Self>;

    /// Converts a number with a sign, a point or an exponent; `None` for integer types.
    fn from_float(_: f64) -> Option<Self> {
        None
    }
}

impl Numeric for u32 {
    fn from_integer(number: u64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Numeric for u64 {
    fn from_integer(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Numeric for f64 {
    fn from_integer(number: u64) -> Option<Self> {
        Some(number as f64)
    }

    fn from_float(number: f64) -> Option<Self> {
        Some(number)
    }
}

/// A deserializer of a number.
pub struct Number<T> {
    expected: &'static str,
    number: PhantomData<T>,
}

impl<T> Number<T> {
    /// A number; an error says that `expected` was expected.
    pub fn new(expected: &'static str) -> Self {
        Self { expected, number: PhantomData }
    }
}

impl<'de, T: Numeric> DeserializeSeed<'de> for Number<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T: Numeric> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        T::from_integer(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        T::from_float(number as f64).ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        T::from_float(number).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// A deserializer of an array of numbers.
pub struct Array<'p, T> {
    path: &'p Path<'p>,
    expected: &'static str,
    element: PhantomData<T>,
}

impl<'p, T> Array<'p, T> {
    /// The array at this path; an error says that `expected` was expected.
    pub fn at(path: &'p Path<'p>, expected: &'static str) -> Self {
        Self { path, expected, element: PhantomData }
    }
}

impl<'de, T: Numeric + Scan> DeserializeSeed<'de> for Array<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Numeric + Scan> Visitor<'de> for Array<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut array = Vec::new();
        loop {
            match elements.next_element_seed(Number::new(self.expected)) {
                Ok(Some(element)) => {
                    array.push(element);
                    self.path.source.numbers(&mut array);
                }
                Ok(None) => break,
                Err(error) => {
                    self.path.indices.borrow_mut().insert(0, array.len());
                    return Err(error);
                }
            }
        }
        // Without this, the arrays of a large model could keep up to twice their size.
        array.shrink_to_fit();
        Ok(array)
    }
}

/// States or other items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Items {
    /// All are numbers.
    Numbers(Vec<u32>),
    /// Some are names.
    Named(Vec<Listed>),
}

/// A state or another item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Its number.
    Number(u32),
    /// Its name, or its number as text.
    Name(String),
}

impl Default for Items {
    fn default() -> Self {
        Self::Numbers(Vec::new())
    }
}

/// A deserializer of [`Items`].
pub struct ItemArray<'p> {
    path: &'p Path<'p>,
    expected: &'static str,
}

impl<'p> ItemArray<'p> {
    /// The array at this path; an error says that `expected` was expected.
    pub fn at(path: &'p Path<'p>, expected: &'static str) -> Self {
        Self { path, expected }
    }
}

impl<'de> DeserializeSeed<'de> for ItemArray<'_> {
    type Value = Items;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Items, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemArray<'_> {
    type Value = Items;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Items, A::Error> {
        let mut items = Items::default();
        let mut count = 0;
        loop {
            match elements.next_element_seed(ItemSeed(self.expected, &mut items)) {
                Ok(Some(())) => count += 1,
                Ok(None) => return Ok(items),
                Err(error) => {
                    self.path.indices.borrow_mut().insert(0, count);
                    return Err(error);
                }
            }
        }
    }
}

/// A deserializer of one of these items. It expects these words.
struct ItemSeed<'i>(&'static str, &'i mut Items);

impl<'de> DeserializeSeed<'de> for ItemSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for ItemSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        let number = number.try_into().map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
        match self.1 {
            Items::Numbers(numbers) => numbers.push(number),
            Items::Named(items) => items.push(Listed::Number(number)),
        }
        Ok(())
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        if let Items::Numbers(numbers) = self.1 {
            *self.1 = Items::Named(numbers.iter().copied().map(Listed::Number).collect());
        }
        if let Items::Named(items) = self.1 {
            items.push(Listed::Name(name.trim().to_owned()));
        }
        Ok(())
    }
}

/// Nested arrays of numbers, all of one length at each depth: a vector, a matrix, or a tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dense {
    /// Length at each depth, outermost first.
    pub shape: Vec<usize>,
    /// The numbers; the last index varies fastest.
    pub numbers: Vec<f64>,
}

/// A deserializer of an entry of [`Dense`] at some depth: a number or an array.
struct Level<'p, 'd> {
    path: &'p Path<'p>,
    expected: &'static str,
    depth: usize,
    /// Depth of the numbers, once there is one.
    rank: &'d mut Option<usize>,
    into: &'d mut Dense,
}

impl Level<'_, '_> {
    fn number<E: serde::de::Error>(self, number: f64, found: Unexpected<'_>) -> Result<(), E> {
        if *self.rank.get_or_insert(self.depth) != self.depth || self.into.shape.len() > self.depth {
            return Err(E::invalid_type(found, &"an array"));
        }
        self.into.numbers.push(number);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.number(number as f64, Unexpected::Unsigned(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.number(number as f64, Unexpected::Signed(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.number(number, Unexpected::Float(number))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Self { path, expected, depth, rank, into } = self;
        if rank.is_some_and(|rank| rank <= depth) {
            return Err(A::Error::invalid_type(Unexpected::Seq, &expected));
        }
        let (mut count, start) = (0, into.numbers.len());
        loop {
            let level = Level { path, expected, depth: depth + 1, rank: &mut *rank, into: &mut *into };
            match elements.next_element_seed(level) {
                Ok(Some(())) if *rank == Some(depth + 1) => {
                    path.source.numbers(&mut into.numbers);
                    count = into.numbers.len() - start;
                }
                Ok(Some(())) => count += 1,
                Ok(None) => break,
                Err(error) => {
                    path.indices.borrow_mut().insert(0, count);
                    return Err(error);
                }
            }
        }
        // An inner array ends before the outer one: lengths are known from the inside to the outside.
        let missing = (depth + 1).saturating_sub(into.shape.len());
        into.shape.extend(std::iter::repeat_n(usize::MAX, missing));
        let length = &mut into.shape[depth];
        if *length == usize::MAX {
            *length = count;
        }
        match *length == count {
            true => Ok(()),
            false => Err(A::Error::custom(format_args!("found {count} entries, expected {length} as in those before"))),
        }
    }
}

/// Largest number of entries of a table by names, whose absent entries take memory, too.
const MOST_NAMED: usize = 1 << 28;

/// A table of numbers as people write it: nested arrays, or nested objects whose keys are names.
#[derive(Clone, Debug)]
pub enum Table {
    /// Nested arrays.
    Dense(Dense),
    /// Nested objects, outermost first. Absent entries are 0.
    Named(BTreeMap<String, Entry>),
}

/// An entry of a table by names.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A number, at the innermost depth.
    Number(f64),
    /// The entries of the next depth.
    Named(BTreeMap<String, Entry>),
}

/// An index of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct Axis<'n> {
    /// What the index counts, such as `state`.
    pub kind: &'static str,
    /// The names of the indices; empty if they have none.
    pub names: &'n [String],
    /// Number of indices, if it is known.
    pub length: Option<usize>,
}

impl Axis<'_> {
    fn has(&self, length: usize) -> bool {
        self.length.is_none_or(|expected| expected == length)
    }

    /// The length, or else the plural of what the index counts.
    fn size(&self) -> String {
        self.length.map_or_else(|| format!("{}s", self.kind), |length| length.to_string())
    }
}

impl Table {
    /// The numbers, with one index for each of `axes`. `place` names the table in messages.
    ///
    /// # Errors
    /// If the depth, a length or a name does not fit.
    pub fn dense(self, place: &str, axes: &[Axis]) -> Result<Dense, String> {
        match self {
            Self::Dense(dense) => {
                if dense.shape.len() != axes.len() || dense.shape.iter().zip(axes).any(|(&n, axis)| !axis.has(n)) {
                    let product = |lengths: Vec<String>| lengths.join(" × ");
                    let found = product(dense.shape.iter().map(usize::to_string).collect());
                    let expected = product(axes.iter().map(Axis::size).collect());
                    let order: String = axes.iter().map(|axis| format!("[{}]", axis.kind)).collect();
                    return Err(format!("{place} is {found}, expected {expected}, in the order {order}"));
                }
                Ok(dense)
            }
            Self::Named(entries) => {
                let shape: Vec<usize> = axes.iter().map(|axis| axis.names.len()).collect();
                if let Some(axis) = axes.iter().find(|axis| axis.names.is_empty()) {
                    return Err(format!(
                        "{place} has names as keys, expected a list of the names of every {}",
                        axis.kind
                    ));
                }
                let size = shape.iter().try_fold(1usize, |size, length| size.checked_mul(*length));
                let Some(size) = size.filter(|size| *size <= MOST_NAMED) else {
                    return Err(format!(
                        "{place} has more than {MOST_NAMED} entries, expected fewer in a table by names"
                    ));
                };
                let mut numbers = vec![0.0; size];
                let numbers_of: Vec<HashMap<&str, usize>> =
                    axes.iter().map(|axis| axis.names.iter().map(String::as_str).zip(0..).collect()).collect();
                fill(place, entries, axes, &numbers_of, &mut numbers)?;
                Ok(Dense { shape, numbers })
            }
        }
    }
}

/// Writes entries by name to the part of a table with these axes.
fn fill(
    place: &str,
    entries: BTreeMap<String, Entry>,
    axes: &[Axis],
    indices: &[HashMap<&str, usize>],
    numbers: &mut [f64],
) -> Result<(), String> {
    let ([axis, inner @ ..], [index, inner_indices @ ..]) = (axes, indices) else { return Ok(()) };
    let part = numbers.len() / axis.names.len();
    for (name, entry) in entries {
        let Some(&at) = index.get(&*name) else { return Err(format!("{place}: {}", unknown_name(&name, axis))) };
        let target = &mut numbers[at * part..][..part];
        let place = format!("{place}[\"{}\"]", quoted(name.as_bytes()));
        match (entry, target, inner) {
            (Entry::Number(number), [target], []) => *target = number,
            (Entry::Named(entries), target, [_, ..]) => fill(&place, entries, inner, inner_indices, target)?,
            (_, _, []) => return Err(format!("{place}: found an object, expected a number")),
            (_, _, [_, ..]) => return Err(format!("{place}: found a number, expected an object with names as keys")),
        }
    }
    Ok(())
}

/// The message for a name that an axis does not have.
fn unknown_name(name: &str, axis: &Axis) -> String {
    let names: Vec<&str> = axis.names.iter().map(String::as_str).collect();
    let hint = nearest(name, &names).map_or_else(String::new, |near| format!(", did you mean \"{near}\"?"));
    format!("no {} is called \"{}\"{hint}", axis.kind, quoted(name.as_bytes()))
}

/// A deserializer of [`Table`].
pub struct Tabular<'p> {
    path: &'p Path<'p>,
    expected: &'static str,
}

impl<'p> Tabular<'p> {
    /// The table at this path; an error says that `expected` was expected.
    pub fn at(path: &'p Path<'p>, expected: &'static str) -> Self {
        Self { path, expected }
    }
}

impl<'de> DeserializeSeed<'de> for Tabular<'_> {
    type Value = Table;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Table, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tabular<'_> {
    type Value = Table;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array, or an object with names as keys")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Table, A::Error> {
        let mut dense = Dense::default();
        let Self { path, expected } = self;
        Level { path, expected, depth: 0, rank: &mut None, into: &mut dense }.visit_seq(elements)?;
        dense.numbers.shrink_to_fit();
        Ok(Table::Dense(dense))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table, A::Error> {
        NamedEntry(self.expected).entries(map).map(Table::Named)
    }
}

/// A deserializer of [`Entry`], with the expected number in words.
#[derive(Clone, Copy)]
struct NamedEntry(&'static str);

impl NamedEntry {
    fn entries<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<BTreeMap<String, Entry>, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let entry = map.next_value_seed(self)?;
            if entries.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key \"{}\" appears twice", quoted(key.as_bytes()))));
            }
            entries.insert(key, entry);
        }
        Ok(entries)
    }
}

impl<'de> DeserializeSeed<'de> for NamedEntry {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NamedEntry {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} or an object", self.0)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Entry, E> {
        Ok(Entry::Number(number as f64))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Entry, E> {
        Ok(Entry::Number(number as f64))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Entry, E> {
        Ok(Entry::Number(number))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
        self.entries(map).map(Entry::Named)
    }
}

/// Writes a key and its value.
pub fn field(out: &mut impl Write, name: &str, content: &(impl Serialize + ?Sized)) -> io::Result<()> {
    write!(out, ",\n\"{name}\":")?;
    value(out, content)
}

/// Writes a value.
pub fn value(out: &mut impl Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}
