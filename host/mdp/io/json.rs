//! The JSON of Aydin, *Policy Iteration on the GPU* (2025), Listing A.1.
//!
//! An object with `S`, `A`, `gamma`, the matrices `P` and `R` (each an object of `indptr`, `indices` and `data`), and
//! optionally `"format": "CSR"` and `grid`, the fields of [`Grid`]. Keys come in any order; others are ignored.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use super::Error;
use crate::mdp::model::{Csr, Grid, Mdp};

/// Bytes read or written at a time.
const BUFFER: usize = 1 << 17;

/// Reads and validates a model.
pub fn read(reader: impl Read, file: String) -> Result<Mdp, Error> {
    let path = Path::default();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(BUFFER, reader));
    let parsed = Object::<Model>::at(&path).deserialize(&mut json).and_then(|model| json.end().map(|()| model));
    match parsed {
        Ok(Model { states, actions, gamma, transitions, rewards, grid }) => {
            Mdp::new(states, actions, gamma, transitions.into(), rewards.into(), grid)
                .map_err(|source| Error::Invalid { file, source })
        }
        Err(error) if error.is_io() => Err(Error::Read { file, source: error.into() }),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            Err(Error::Json { file, line, column, message: format!("{path}{}", plain(&error)) })
        }
    }
}

/// serde_json's message without the place, and without the kind of a number.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.strip_suffix(&format!(" at line {} column {}", error.line(), error.column())).unwrap_or(&text);
    let Some(found) = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: ")) else {
        return text.to_owned();
    };
    let number = found.strip_prefix("integer `").or_else(|| found.strip_prefix("floating point `"));
    match number.and_then(|number| number.split_once('`')) {
        Some((number, rest)) => format!("found {number}{rest}"),
        // Serde's names of what JSON calls otherwise.
        None => match found.split_once(',') {
            Some(("map", rest)) => format!("found an object,{rest}"),
            Some(("sequence", rest)) => format!("found an array,{rest}"),
            _ => format!("found {found}"),
        },
    }
}

/// Where in the document the reader is, for messages. What fails leaves it there.
#[derive(Default)]
struct Path {
    keys: RefCell<Vec<&'static str>>,
    index: Cell<Option<usize>>,
}

impl fmt::Display for Path {
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

/// An object of known keys, the first [`REQUIRED`](Self::REQUIRED) of which must be there.
trait Fields: Default {
    const KEYS: &'static [&'static str];
    const REQUIRED: usize;

    /// Reads the value of a key.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &Path) -> Result<(), A::Error>;
}

#[derive(Default)]
struct Model {
    states: u32,
    actions: u32,
    gamma: f64,
    transitions: Matrix,
    rewards: Matrix,
    grid: Option<Grid>,
}

impl Fields for Model {
    const KEYS: &'static [&'static str] = &["S", "A", "gamma", "P", "R", "format", "grid"];
    const REQUIRED: usize = 5;

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &Path) -> Result<(), A::Error> {
        match key {
            "S" => self.states = map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?,
            "A" => self.actions = map.next_value_seed(Number::new("an integer from 1 to 4294967295"))?,
            "gamma" => self.gamma = map.next_value_seed(Number::new("a number"))?,
            "P" => self.transitions = map.next_value_seed(Object::at(path))?,
            "R" => self.rewards = map.next_value_seed(Object::at(path))?,
            "grid" => self.grid = Some(map.next_value_seed(Object::at(path))?),
            _ => map.next_value_seed(Format)?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Matrix {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    data: Vec<f64>,
}

impl Fields for Matrix {
    const KEYS: &'static [&'static str] = &["indptr", "indices", "data"];
    const REQUIRED: usize = 3;

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &Path) -> Result<(), A::Error> {
        match key {
            "indptr" => self.indptr = map.next_value_seed(Array::at(path, "a number of entries"))?,
            "indices" => self.indices = map.next_value_seed(Array::at(path, "a column index"))?,
            _ => self.data = map.next_value_seed(Array::at(path, "a number"))?,
        }
        Ok(())
    }
}

impl From<Matrix> for Csr {
    fn from(Matrix { indptr, indices, data }: Matrix) -> Self {
        Self { row_ptr: indptr.into(), col: indices.into(), val: data.into() }
    }
}

impl Fields for Grid {
    const KEYS: &'static [&'static str] = &["width", "height", "goal", "walls", "obstacles"];
    const REQUIRED: usize = 5;

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &Path) -> Result<(), A::Error> {
        match key {
            "width" => self.width = map.next_value_seed(Number::new("a number of cells"))?,
            "height" => self.height = map.next_value_seed(Number::new("a number of cells"))?,
            "goal" => self.goal = map.next_value_seed(Number::new("a state"))?,
            "walls" => self.walls = map.next_value_seed(Array::at(path, "a state"))?,
            _ => self.obstacles = map.next_value_seed(Array::at(path, "a state"))?,
        }
        Ok(())
    }
}

/// Reads an object.
struct Object<'p, T> {
    path: &'p Path,
    fields: PhantomData<T>,
}

impl<'p, T> Object<'p, T> {
    fn at(path: &'p Path) -> Self {
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
            None => Ok(fields),
        }
    }
}

/// Reads a key: one of these, or `None`.
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

/// Reads the name of the only format there is.
struct Format;

impl<'de> DeserializeSeed<'de> for Format {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Format {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("\"CSR\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if text == "CSR" { Ok(()) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
    }
}

/// A type of numbers.
trait Numeric: Sized {
    fn from_integer(number: u64) -> Option<Self>;

    /// From a number with a sign, a point or an exponent.
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

/// Reads a number.
struct Number<T> {
    expected: &'static str,
    number: PhantomData<T>,
}

impl<T> Number<T> {
    fn new(expected: &'static str) -> Self {
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

/// Reads an array of numbers.
struct Array<'p, T> {
    path: &'p Path,
    expected: &'static str,
    element: PhantomData<T>,
}

impl<'p, T> Array<'p, T> {
    fn at(path: &'p Path, expected: &'static str) -> Self {
        Self { path, expected, element: PhantomData }
    }
}

impl<'de, T: Numeric> DeserializeSeed<'de> for Array<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Numeric> Visitor<'de> for Array<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut array = Vec::new();
        loop {
            match elements.next_element_seed(Number::new(self.expected)) {
                Ok(Some(element)) => array.push(element),
                Ok(None) => break,
                Err(error) => {
                    self.path.index.set(Some(array.len()));
                    return Err(error);
                }
            }
        }
        // Else the arrays of a large model would take up to twice their size for good.
        array.shrink_to_fit();
        Ok(array)
    }
}

/// Writes a model.
pub fn write(out: &mut impl Write, mdp: &Mdp) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER, out);
    let Mdp { states, actions, gamma, transitions, rewards, grid } = mdp;
    write!(out, "{{\"S\":{states},\"A\":{actions},\"gamma\":")?;
    value(&mut out, gamma)?;
    write!(out, ",\"format\":\"CSR\"")?;
    for (name, matrix) in [("P", transitions), ("R", rewards)] {
        write!(out, ",\n\"{name}\":{{\"indptr\":")?;
        value(&mut out, &matrix.row_ptr[..])?;
        write!(out, ",\n\"indices\":")?;
        value(&mut out, &matrix.col[..])?;
        write!(out, ",\n\"data\":")?;
        value(&mut out, &matrix.val[..])?;
        write!(out, "}}")?;
    }
    if let Some(grid) = grid {
        write!(out, ",\n\"grid\":")?;
        value(&mut out, grid)?;
    }
    writeln!(out, "}}")?;
    out.flush()
}

fn value(out: &mut impl Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}
