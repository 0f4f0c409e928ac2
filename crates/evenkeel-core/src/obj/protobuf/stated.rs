//! A message that states its kind to whoever reads it, as JSON does.
//!
//! Messages do not hold `kind` and `apiVersion`. Types of k8s-openapi can do without, but they object to another kind than
//! their own, which is how a wrong type is found out; and types that stand for any object have nothing else to go by.

use std::fmt;
use std::io::Cursor;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::protobuf::{Failure, Message, ProtobufError, deserializer, write_json};

/// The name under which serde_json asks for JSON as it is.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Reads an object from its message and from what is known of it besides.
pub(super) fn decode<K: DeserializeOwned>(
    message: &'static Message,
    bytes: &[u8],
    kind: &str,
    api_version: &str,
) -> Result<K, ProtobufError> {
    K::deserialize(Stated { message, bytes, kind, api_version }).map_err(ProtobufError::from)
}

#[derive(Clone, Copy)]
struct Stated<'de> {
    message: &'static Message,
    bytes: &'de [u8],
    kind: &'de str,
    api_version: &'de str,
}

impl Stated<'_> {
    /// Reads the object as JSON, for the few who ask for what only JSON can give.
    fn through_json<T>(
        self,
        read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::IoRead<Cursor<Vec<u8>>>>) -> serde_json::Result<T>,
    ) -> Result<T, Failure> {
        let mut json = Vec::new();
        write_json(self.message, self.bytes, Some((self.api_version, self.kind)), &mut json).map_err(Failure::new)?;
        read(&mut serde_json::Deserializer::from_reader(Cursor::new(json))).map_err(Failure::custom)
    }
}

impl<'de> Deserializer<'de> for Stated<'de> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        deserializer(self.message, self.bytes).deserialize_any(Told { stated: self, visitor })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Failure> {
        if name == RAW_VALUE {
            return self.through_json(|json| json.deserialize_newtype_struct(name, visitor));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.through_json(|json| json.deserialize_enum(name, variants, visitor))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        true
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

/// A visitor that is told the kind before anything else.
struct Told<'de, V> {
    stated: Stated<'de>,
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Told<'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let stated = [("kind", self.stated.kind), ("apiVersion", self.stated.api_version)];
        self.visitor.visit_map(Members { stated: stated.into_iter(), value: None, fields })
    }
}

/// What is stated, and the fields of the message after it.
struct Members<'de, A> {
    stated: std::array::IntoIter<(&'static str, &'de str), 2>,
    value: Option<&'de str>,
    fields: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'de, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        match self.stated.next() {
            Some((name, value)) => {
                self.value = Some(value);
                seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
            }
            None => self.fields.next_key_seed(seed),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(BorrowedStrDeserializer::new(value)),
            None => self.fields.next_value_seed(seed),
        }
    }
}
