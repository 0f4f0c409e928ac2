//! JSON parsing that detects duplicate keys.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::MAX_REPORTS;
use super::path::PathStep;

/// A parsed JSON text, with its duplicate keys.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed {
    /// The value; the last of duplicate keys wins.
    pub(crate) value: Value,
    /// The paths of keys that occur more than once in their object, such as `data.k`, once each.
    pub(crate) duplicates: Vec<String>,
}

/// Why a text is not valid JSON, worded like Go's JSON package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SyntaxFault(String);

/// Parses a whole JSON text. The parser limits nesting.
pub(crate) fn parse(text: &[u8]) -> Result<Parsed, SyntaxFault> {
    // Checking the whole text is cheaper than checking each string.
    let read = match std::str::from_utf8(text) {
        Ok(text) => read(serde_json::Deserializer::from_str(text)),
        Err(_) => read(serde_json::Deserializer::from_slice(text)),
    };
    // Where Go's scanner finds no error, the text nests too deep, or has numbers or strings that serde_json rejects.
    read.map_err(|error| SyntaxFault(crate::go_json::syntax_error(text).unwrap_or_else(|| error.to_string())))
}

fn read<'de, R: Read<'de>>(mut deserializer: serde_json::Deserializer<R>) -> serde_json::Result<Parsed> {
    let mut duplicates = Vec::new();
    let value = ValueSeed { path: PathStep::ROOT, duplicates: &mut duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Parsed { value, duplicates })
}

/// Returns the errors of strict decoding about unknown and duplicate fields, one per field (DRY-4).
pub(crate) fn complaints(unknown: &[String], duplicates: &[String]) -> Vec<String> {
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    unknown.chain(duplicates).collect()
}

/// Reads one value and notes its duplicate keys.
struct ValueSeed<'a> {
    path: PathStep<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = self.path.index(list.len());
            match items.next_element_seed(ValueSeed { path, duplicates: &mut *self.duplicates })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            // A duplicate is noted before those inside of its value.
            let position = self.duplicates.len();
            let path = self.path.key(&key);
            let value = entries.next_value_seed(ValueSeed { path, duplicates: &mut *self.duplicates })?;
            match object.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    note(self.duplicates, position, self.path.key(entry.key()));
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

/// Notes a duplicate key at a position, up to the limit, unless it is known.
fn note(duplicates: &mut Vec<String>, position: usize, path: PathStep<'_>) {
    if position >= MAX_REPORTS {
        return;
    }
    let path = path.to_path();
    if !duplicates.iter().any(|seen| seen == path.as_str()) {
        duplicates.insert(position, path.as_str().to_owned());
        duplicates.truncate(MAX_REPORTS);
    }
}
