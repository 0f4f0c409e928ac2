//! Deserializes a message with its `kind` and `apiVersion`, as JSON has them.
//!
//! Messages do not contain `kind` and `apiVersion`. Types of k8s-openapi check them, which detects a wrong type, and dynamic types
//! need them.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::error::ProtobufError;
use crate::protobuf::{BoxedError, Message, RAW_VALUE, deserializer, visit_raw, whole, write_json};

/// Decodes an object from its message, its kind and its API version.
pub(super) fn decode<K: DeserializeOwned>(
    message: &'static Message,
    bytes: &[u8],
    kind: &str,
    api_version: &str,
) -> Result<K, ProtobufError> {
    K::deserialize(WithTypeMeta { message, bytes, kind, api_version }).map_err(ProtobufError::from)
}

#[derive(Clone, Copy)]
struct WithTypeMeta<'de> {
    message: &'static Message,
    bytes: &'de [u8],
    kind: &'de str,
    api_version: &'de str,
}

impl WithTypeMeta<'_> {
    /// Returns the object as JSON text, for the few types that need it.
    fn json(self) -> Result<String, BoxedError> {
        let mut json = Vec::new();
        write_json(self.message, self.bytes, Some((self.api_version, self.kind)), &mut json)
            .map_err(BoxedError::new)?;
        String::from_utf8(json).map_err(BoxedError::custom)
    }
}

impl<'de> Deserializer<'de> for WithTypeMeta<'de> {
    type Error = BoxedError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        // As a struct, for which less code is made than for any value.
        let visitor = TypeMetaVisitor { stated: self, visitor };
        deserializer(self.message, &whole(self.bytes)).deserialize_struct("", &[], visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, BoxedError> {
        if name == RAW_VALUE {
            return visit_raw(self.json()?, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BoxedError> {
        let json: serde_json::Value = serde_json::from_str(&self.json()?).map_err(BoxedError::custom)?;
        json.deserialize_enum(name, variants, visitor).map_err(BoxedError::custom)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
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

/// A visitor that receives `kind` and `apiVersion` before the fields of the message.
struct TypeMetaVisitor<'de, V> {
    stated: WithTypeMeta<'de>,
    visitor: V,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for TypeMetaVisitor<'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let stated = [("kind", self.stated.kind), ("apiVersion", self.stated.api_version)];
        self.visitor.visit_map(MembersWithTypeMeta { stated: stated.into_iter(), value: None, fields })
    }
}

/// `kind` and `apiVersion`, then the fields of the message.
struct MembersWithTypeMeta<'de, A> {
    stated: std::array::IntoIter<(&'static str, &'de str), 2>,
    value: Option<&'de str>,
    fields: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for MembersWithTypeMeta<'de, A> {
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
