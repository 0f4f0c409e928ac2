//! From protobuf into any type that reads JSON.
//!
//! There is one deserializer for everything, [`Value`]: some bytes and what the table says of them. It shows types what JSON
//! would show them, names, text for times and base64 for bytes, so that types of k8s-openapi work as they are (PB-060 and
//! following).

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::error::{Failure, ProtobufError};
use super::leaf::{self, IntOrText, Json, Number, Schema};
use super::table::{Kind, Message, Type};
use super::walk::{Content, Items, Run, Walk};
use super::wire::Wire;
use super::{DEPTH_LIMIT, json, time};

/// The name under which serde_json asks for JSON as it is.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Something in a message, or a whole one.
#[derive(Clone, Copy)]
pub(super) struct Value<'de> {
    of: Type,
    content: Content<'de>,
    depth: usize,
}

impl<'de> Value<'de> {
    pub(super) fn whole(message: &'static Message, bytes: &'de [u8]) -> Value<'de> {
        Value { of: message.as_type(), content: Content::One(Wire::Bytes(bytes)), depth: 0 }
    }

    #[inline]
    fn text(bytes: &'de [u8]) -> Value<'de> {
        Value { of: Type::TEXT, content: Content::One(Wire::Bytes(bytes)), depth: 0 }
    }

    /// The bytes, of a single value of this kind.
    #[inline]
    fn single(&self, kind: Kind) -> Option<&'de [u8]> {
        match self.content {
            Content::One(Wire::Bytes(bytes)) if self.of.kind == kind => Some(bytes),
            _ => None,
        }
    }

    /// Whether JSON has null here.
    #[inline]
    fn is_null(&self) -> Result<bool, Failure> {
        match self.of.kind {
            Kind::Time | Kind::MicroTime | Kind::Json | Kind::SchemaOrSchemas | Kind::SchemaOrStrings => {
                self.is_null_where_it_can_be()
            }
            _ => Ok(false),
        }
    }

    fn is_null_where_it_can_be(&self) -> Result<bool, Failure> {
        let Content::One(Wire::Bytes(bytes)) = self.content else { return Ok(false) };
        Ok(match self.of.kind {
            Kind::Time | Kind::MicroTime => time::read(bytes)?.is_none(),
            Kind::Json => match leaf::json(bytes)? {
                Json::Null => true,
                Json::Text(text) => text.trim_ascii() == b"null",
                Json::Object { .. } => false,
            },
            Kind::SchemaOrSchemas | Kind::SchemaOrStrings => matches!(leaf::schema(self.of, bytes)?, Schema::Null),
            _ => false,
        })
    }

    /// Shows a single value to a visitor.
    #[inline]
    fn visit_one<V: Visitor<'de>>(self, wire: Wire<'de>, visitor: V) -> Result<V::Value, Failure> {
        match self.of.kind {
            Kind::Text => visit_text(wire.bytes()?, visitor),
            Kind::Message => visitor.visit_map(Fields::new(self.of.message(), wire.bytes()?, self.depth)?),
            Kind::Bool => visitor.visit_bool(wire.varint()? != 0),
            Kind::Int32 => visit_int(i64::from(wire.varint()? as i32), visitor),
            Kind::Int64 => visit_int(wire.varint()? as i64, visitor),
            Kind::Quantity => visit_text(leaf::quantity(wire.bytes()?)?, visitor),
            Kind::Time | Kind::MicroTime => match time::read(wire.bytes()?)? {
                Some((seconds, nanos)) => {
                    let micro = self.of.kind == Kind::MicroTime;
                    visitor.visit_str(time::text(seconds, nanos, micro, &mut [0; 27])?)
                }
                None => visitor.visit_unit(),
            },
            _ => self.visit_rare(wire, visitor),
        }
    }

    fn visit_rare<V: Visitor<'de>>(self, wire: Wire<'de>, visitor: V) -> Result<V::Value, Failure> {
        match self.of.kind {
            Kind::Bytes => visitor.visit_string(STANDARD.encode(wire.bytes()?)),
            Kind::Double => match leaf::number(f64::from_bits(wire.fixed64()?)) {
                Number::Signed(value) => visit_int(value, visitor),
                Number::Unsigned(value) => visitor.visit_u64(value),
                Number::Double(value) => visitor.visit_f64(value),
            },
            Kind::IntOrString => match leaf::int_or_text(wire.bytes()?)? {
                IntOrText::Int(value) => visit_int(i64::from(value), visitor),
                IntOrText::Text(text) => visit_text(text, visitor),
            },
            Kind::Duration => visitor.visit_string(leaf::duration(wire.bytes()?)?),
            Kind::Strings => {
                let run = Run::new(wire.bytes()?, 1);
                visitor.visit_seq(List { items: run.items(Type::TEXT), of: Type::TEXT, depth: self.depth, index: 0 })
            }
            Kind::SchemaOrBool | Kind::SchemaOrSchemas | Kind::SchemaOrStrings => {
                match leaf::schema(self.of, wire.bytes()?)? {
                    Schema::Null => visitor.visit_unit(),
                    Schema::Bool(value) => visitor.visit_bool(value),
                    Schema::Other(of, content) => Value { of, content, ..self }.deserialize_any(visitor),
                }
            }
            Kind::Json => match leaf::json(wire.bytes()?)? {
                Json::Null => visitor.visit_unit(),
                Json::Text(text) => through_json(text, |json| json.deserialize_any(visitor)),
                Json::Object { .. } => through_json_of(self, |json| json.deserialize_any(visitor)),
            },
            // The kinds of `visit_one`.
            _ => visitor.visit_unit(),
        }
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Failure;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.content {
            Content::One(wire) => self.visit_one(wire, visitor),
            Content::List(run) => {
                visitor.visit_seq(List { items: run.items(self.of), of: self.of, depth: self.depth, index: 0 })
            }
            Content::Map(run) => {
                visitor.visit_map(Pairs { items: run.items(self.of), of: self.of, depth: self.depth, value: None })
            }
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if self.is_null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    /// A time that is not set is null, which text cannot be: who insists gets the time that Go means by it (PB-061).
    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if let Some(message) = self.single(Kind::Time).or_else(|| self.single(Kind::MicroTime))
            && time::read(message)?.is_none()
        {
            return visitor.visit_borrowed_str(time::ZERO_TEXT);
        }
        self.deserialize_any(visitor)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Failure> {
        if name == RAW_VALUE {
            if let Some(message) = self.single(Kind::Json)
                && let Json::Text(text) = leaf::json(message)?
            {
                return through_json(text, |json| json.deserialize_newtype_struct(name, visitor));
            }
            return through_json_of(self, |json| json.deserialize_newtype_struct(name, visitor));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        if let Some(bytes) = self.single(Kind::Text) {
            return visitor.visit_enum(leaf::text(bytes).into_deserializer());
        }
        // Enums with contents are rare and have many forms: JSON knows them.
        through_json_of(self, |json| json.deserialize_enum(name, variants, visitor))
    }

    /// Nobody wants to know: nothing is read.
    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        true
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier
    }
}

#[inline]
fn visit_text<'de, V: Visitor<'de>>(bytes: &'de [u8], visitor: V) -> Result<V::Value, Failure> {
    match std::str::from_utf8(bytes) {
        Ok(text) => visitor.visit_borrowed_str(text),
        Err(_) => visitor.visit_string(leaf::text(bytes).into_owned()),
    }
}

/// Shows an integer the way JSON does, where only what is below zero is signed.
#[inline]
fn visit_int<'de, V: Visitor<'de>>(value: i64, visitor: V) -> Result<V::Value, Failure> {
    match u64::try_from(value) {
        Ok(value) => visitor.visit_u64(value),
        Err(_) => visitor.visit_i64(value),
    }
}

type JsonReader<'a, R> = &'a mut serde_json::Deserializer<R>;

/// Reads JSON that stands in a message.
fn through_json<'de, T>(
    text: &'de [u8],
    read: impl FnOnce(JsonReader<'_, serde_json::de::SliceRead<'de>>) -> serde_json::Result<T>,
) -> Result<T, Failure> {
    let mut json = serde_json::Deserializer::from_slice(text);
    read(&mut json).and_then(|value| json.end().map(|()| value)).map_err(misfit)
}

/// Reads the JSON of a value, for the few who ask for what only JSON can give.
fn through_json_of<T>(
    value: Value<'_>,
    read: impl FnOnce(JsonReader<'_, serde_json::de::IoRead<Cursor<Vec<u8>>>>) -> serde_json::Result<T>,
) -> Result<T, Failure> {
    let mut text = Vec::new();
    json::put(value.of, value.content, value.depth, &mut text)?;
    let mut json = serde_json::Deserializer::from_reader(Cursor::new(text));
    read(&mut json).map_err(misfit)
}

fn misfit(error: serde_json::Error) -> Failure {
    if error.is_data() { Failure::custom(error) } else { Failure::new(ProtobufError::NotJson { path: "".into() }) }
}

/// The fields of a message.
struct Fields<'de> {
    walk: Walk<'de>,
    value: Option<Value<'de>>,
    name: &'static str,
    depth: usize,
}

impl<'de> Fields<'de> {
    #[inline]
    fn new(message: &'static Message, bytes: &'de [u8], depth: usize) -> Result<Fields<'de>, Failure> {
        if depth >= DEPTH_LIMIT {
            return Err(Failure::new(ProtobufError::TooDeep { path: "".into(), limit: DEPTH_LIMIT }));
        }
        Ok(Fields { walk: Walk::new(message, bytes)?, value: None, name: "", depth: depth + 1 })
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Failure;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        let Some((field, content)) = self.walk.next()? else { return Ok(None) };
        self.value = Some(Value { of: field.of, content, depth: self.depth });
        self.name = field.name;
        seed.deserialize(BorrowedStrDeserializer::new(field.name)).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failure> {
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(|failure| failure.in_field(self.name)),
            None => Err(Failure::custom("a value was asked for before its name")),
        }
    }
}

/// The items of a list.
struct List<'de> {
    items: Items<'de>,
    of: Type,
    depth: usize,
    index: usize,
}

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = Failure;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failure> {
        let index = self.index;
        let Some(wire) = self.items.next().map_err(|fault| Failure::from(fault).in_item(index))? else {
            return Ok(None);
        };
        self.index += 1;
        let value = Value { of: self.of, content: Content::One(wire), depth: self.depth };
        seed.deserialize(value).map(Some).map_err(|failure| failure.in_item(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.hint())
    }
}

/// The pairs of a map.
struct Pairs<'de> {
    items: Items<'de>,
    of: Type,
    depth: usize,
    value: Option<Wire<'de>>,
}

impl<'de> MapAccess<'de> for Pairs<'de> {
    type Error = Failure;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        let Some((key, value)) = self.items.next_pair()? else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Value::text(key)).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failure> {
        let wire = self.value.take().ok_or_else(|| Failure::custom("a value was asked for before its key"))?;
        seed.deserialize(Value { of: self.of, content: Content::One(wire), depth: self.depth })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.hint())
    }
}
