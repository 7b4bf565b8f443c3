//! JSON values in which no object has a key twice.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::terminal::quoted;

/// Any value. An object with a key twice is an error: serde_json would keep the last one.
pub struct Unique(pub Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any).map(Self)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, found: bool) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_u64<E>(self, found: u64) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_i64<E>(self, found: i64) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_f64<E>(self, found: f64) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_str<E>(self, found: &str) -> Result<Value, E> {
        Ok(found.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(element)) = elements.next_element()? {
            all.push(element);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((key, Unique(value))) = entries.next_entry::<String, _>()? {
            if all.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key \"{}\" appears twice", quoted(key.as_bytes()))));
            }
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}
