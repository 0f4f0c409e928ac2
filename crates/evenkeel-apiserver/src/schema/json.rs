//! JSON parsing that detects duplicate keys.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::MAX_REPORTS;
use super::path::Path;

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
    let mut reader = Reader::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let read = ValueSeed(&mut reader).deserialize(&mut deserializer);
    match read.and_then(|value| deserializer.end().map(|()| value)) {
        Ok(value) => Ok(Parsed { value, duplicates: reader.duplicates }),
        // Where Go's scanner finds no error, the text nests too deep, or has numbers or strings that serde_json
        // rejects.
        Err(error) => Err(SyntaxFault(crate::go_json::syntax_error(text).unwrap_or_else(|| error.to_string()))),
    }
}

/// Returns the errors of strict decoding about unknown and duplicate fields, one per field (DRY-4).
pub(crate) fn complaints(unknown: &[String], duplicates: &[String]) -> Vec<String> {
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {path:?}"));
    unknown.chain(duplicates).collect()
}

#[derive(Default)]
struct Reader {
    path: Path,
    duplicates: Vec<String>,
}

struct ValueSeed<'a>(&'a mut Reader);

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
            let mark = self.0.path.push_index(list.len());
            let item = items.next_element_seed(ValueSeed(self.0))?;
            self.0.path.back(mark);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let mark = self.0.path.push(&key);
            if object.contains_key(&key)
                && self.0.duplicates.len() < MAX_REPORTS
                && !self.0.duplicates.iter().any(|seen| seen == self.0.path.as_str())
            {
                self.0.duplicates.push(self.0.path.as_str().to_owned());
            }
            let value = entries.next_value_seed(ValueSeed(self.0))?;
            self.0.path.back(mark);
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
