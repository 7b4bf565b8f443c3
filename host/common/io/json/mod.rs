//! JSON: a streaming reader that allocates only the result and names the key in errors, and a writer.

pub mod digits;
mod source;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, Read, Write};
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use self::digits::Scan;
use self::source::{Position, Source};
use super::Error;

/// Reads a document that consists of one object.
pub(crate) fn parse<T: Fields>(mut reader: impl Read, file: String) -> Result<T, Error> {
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
pub(crate) fn plain(error: &serde_json::Error) -> String {
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
pub(crate) struct Path<'r> {
    source: Source<'r>,
    keys: RefCell<Vec<&'static str>>,
    index: Cell<Option<usize>>,
}

impl<'r> Path<'r> {
    fn new(source: Source<'r>) -> Self {
        Self { source, keys: RefCell::default(), index: Cell::default() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.borrow();
        if keys.is_empty() {
            return Ok(());
        }
        write!(f, "{}", keys.join("."))?;
        if let Some(index) = self.index.get() {
            write!(f, "[{index}]")?;
        }
        f.write_str(": ")
    }
}

/// An object with known keys. The first [`REQUIRED`](Self::REQUIRED) keys are required.
pub(crate) trait Fields: Default {
    const KEYS: &'static [&'static str];
    const REQUIRED: usize;

    /// Reads the value of `key`.
    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error>;

    /// Checks combinations of optional keys after the last one is read.
    fn complete(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

/// A deserializer of an object.
pub(crate) struct Object<'p, T> {
    path: &'p Path<'p>,
    fields: PhantomData<T>,
}

impl<'p, T> Object<'p, T> {
    pub(crate) fn at(path: &'p Path<'p>) -> Self {
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
        write!(f, "an object with {}", T::KEYS[..T::REQUIRED].join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut fields = T::default();
        let mut seen = Vec::new();
        while let Some(key) = map.next_key_seed(Key(T::KEYS))? {
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
        match T::KEYS[..T::REQUIRED].iter().find(|key| !seen.contains(key)) {
            Some(key) => Err(A::Error::custom(format_args!("key \"{key}\" is missing"))),
            None => fields.complete().map(|()| fields).map_err(A::Error::custom),
        }
    }
}

/// A deserializer of a key: one of these, or `None` for an unknown key.
struct Key(&'static [&'static str]);

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

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().copied().find(|key| *key == text))
    }
}

/// A deserializer of a string: one of these words, with the value that it stands for.
pub(crate) struct Word<'w, T>(pub &'w [(&'static str, T)]);

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
pub(crate) trait Numeric: Sized {
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
pub(crate) struct Number<T> {
    expected: &'static str,
    number: PhantomData<T>,
}

impl<T> Number<T> {
    pub(crate) fn new(expected: &'static str) -> Self {
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
pub(crate) struct Array<'p, T> {
    path: &'p Path<'p>,
    expected: &'static str,
    element: PhantomData<T>,
}

impl<'p, T> Array<'p, T> {
    pub(crate) fn at(path: &'p Path<'p>, expected: &'static str) -> Self {
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
                    self.path.index.set(Some(array.len()));
                    return Err(error);
                }
            }
        }
        // Without this, the arrays of a large model could keep up to twice their size.
        array.shrink_to_fit();
        Ok(array)
    }
}

/// Writes a key and its value.
pub(crate) fn field(out: &mut impl Write, name: &str, content: &(impl Serialize + ?Sized)) -> io::Result<()> {
    write!(out, ",\n\"{name}\":")?;
    value(out, content)
}

/// Writes a value.
pub(crate) fn value(out: &mut impl Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}
