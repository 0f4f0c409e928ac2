//! Deserializes protobuf into any type that reads JSON.
//!
//! [`ValueDeserializer`] deserializes everything: bytes and their type in the table. It produces what JSON would, such as text for times
//! and base64 for bytes, so that types of k8s-openapi work unchanged (PB-060 and following).
//!
//! Code is made for every type and every deserializer. Values that need a tree of JSON are therefore read by the same
//! deserializer, and not by that of serde_json: types of k8s-openapi exist twice in a program, for JSON and for this one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::error::BoxedError;
use super::field_reader::{Content, FieldReader, Items, Run};
use super::table::{Field, FieldKind, FieldType, Message};
use super::well_known::{self, EmbeddedJson, IntOrText, Number, Schema};
use super::wire::Wire;
use super::{DEPTH_LIMIT, json, time};
use crate::error::ProtobufError;

/// The newtype name by which serde_json requests raw JSON.
pub(crate) const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// A value: part of a message, a whole message, or part of a tree of JSON. It is small, as it is copied a lot: the content is borrowed.
#[derive(Clone, Copy)]
pub(super) enum ValueDeserializer<'a, 'de> {
    Wire(WireValue<'a, 'de>),
    Tree(&'a Value),
}

/// A value in a message, or a whole message.
#[derive(Clone, Copy)]
pub(super) struct WireValue<'a, 'de> {
    of: FieldType,
    content: &'a Content<'de>,
    depth: usize,
}

impl<'a, 'de> ValueDeserializer<'a, 'de> {
    pub(super) fn whole(message: &'static Message, content: &'a Content<'de>) -> ValueDeserializer<'a, 'de> {
        ValueDeserializer::Wire(WireValue { of: message.as_type(), content, depth: 0 })
    }
}

impl<'a, 'de> WireValue<'a, 'de> {
    /// Returns the bytes of a single value of this kind.
    #[inline]
    fn single(&self, kind: FieldKind) -> Option<&'de [u8]> {
        match *self.content {
            Content::One(Wire::Bytes(bytes)) if self.of.kind == kind => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether JSON has null here.
    #[inline]
    fn is_null(&self) -> Result<bool, BoxedError> {
        match self.of.kind {
            FieldKind::Time
            | FieldKind::MicroTime
            | FieldKind::Json
            | FieldKind::SchemaOrSchemas
            | FieldKind::SchemaOrStrings => self.is_null_where_it_can_be(),
            _ => Ok(false),
        }
    }

    fn is_null_where_it_can_be(&self) -> Result<bool, BoxedError> {
        let Content::One(Wire::Bytes(bytes)) = *self.content else { return Ok(false) };
        Ok(match self.of.kind {
            FieldKind::Time | FieldKind::MicroTime => time::read(bytes)?.is_none(),
            FieldKind::Json => match well_known::json(bytes)? {
                EmbeddedJson::Null => true,
                EmbeddedJson::Text(text) => text.trim_ascii() == b"null",
                EmbeddedJson::Object { .. } => false,
            },
            FieldKind::SchemaOrSchemas | FieldKind::SchemaOrStrings => {
                matches!(well_known::schema(self.of, bytes)?, Schema::Null)
            }
            _ => false,
        })
    }

    #[inline]
    fn items(self, run: Run<'de>) -> ListAccess<'a, 'de> {
        ListAccess::Wire(WireItems { items: run.items(self.of), of: self.of, depth: self.depth, index: 0 })
    }

    #[inline]
    fn pairs(self, run: Run<'de>) -> MapEntries<'de> {
        MapEntries { items: run.items(self.of), of: self.of, depth: self.depth, value: None }
    }

    #[inline]
    fn fields(self, message: &'de [u8]) -> Result<MessageAccess<'a, 'de>, BoxedError> {
        MessageAccess::new(self.of.message(), message, self.depth)
    }

    /// Returns the value as a JSON tree.
    #[cold]
    fn tree(self) -> Result<Value, BoxedError> {
        Value::deserialize(ValueDeserializer::Wire(self))
    }

    /// Returns the value as JSON text.
    #[cold]
    fn text(self) -> Result<Vec<u8>, BoxedError> {
        let mut text = Vec::new();
        json::put(self.of, *self.content, self.depth, &mut text)?;
        Ok(text)
    }

    /// Deserializes a value through JSON: embedded JSON, or a value whose JSON has another type than requested.
    #[cold]
    fn visit_tree<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        visit_tree(&self.tree()?, visitor)
    }

    /// Deserializes a single value.
    #[inline]
    fn visit_one<V: Visitor<'de>>(self, wire: Wire<'de>, visitor: V) -> Result<V::Value, BoxedError> {
        match self.of.kind {
            FieldKind::Text => visit_text(wire.bytes()?, visitor),
            FieldKind::Message => visitor.visit_map(&mut self.fields(wire.bytes()?)?),
            FieldKind::Bool => visitor.visit_bool(wire.varint()? != 0),
            FieldKind::Int32 => visit_int(i64::from(wire.varint()? as i32), visitor),
            FieldKind::Int64 => visit_int(wire.varint()? as i64, visitor),
            FieldKind::Quantity => visit_text(well_known::quantity(wire.bytes()?)?, visitor),
            FieldKind::Time | FieldKind::MicroTime => match time::read(wire.bytes()?)? {
                Some((seconds, nanos)) => {
                    let micro = self.of.kind == FieldKind::MicroTime;
                    visitor.visit_str(time::text(seconds, nanos, micro, &mut [0; 27])?)
                }
                None => visitor.visit_unit(),
            },
            _ => self.visit_rare(wire, visitor),
        }
    }

    fn visit_rare<V: Visitor<'de>>(self, wire: Wire<'de>, visitor: V) -> Result<V::Value, BoxedError> {
        match self.of.kind {
            FieldKind::Bytes => visitor.visit_string(STANDARD.encode(wire.bytes()?)),
            FieldKind::Double => match well_known::number(f64::from_bits(wire.fixed64()?)) {
                Number::Signed(value) => visit_int(value, visitor),
                Number::Unsigned(value) => visitor.visit_u64(value),
                Number::Double(value) => visitor.visit_f64(value),
            },
            FieldKind::IntOrString => match well_known::int_or_text(wire.bytes()?)? {
                IntOrText::Int(value) => visit_int(i64::from(value), visitor),
                IntOrText::Text(text) => visit_text(text, visitor),
            },
            FieldKind::Duration => visitor.visit_string(well_known::duration(wire.bytes()?)?),
            FieldKind::Strings => {
                let run = Run::new(wire.bytes()?, 1);
                visitor.visit_seq(&mut WireValue { of: FieldType::TEXT, ..self }.items(run))
            }
            FieldKind::SchemaOrBool | FieldKind::SchemaOrSchemas | FieldKind::SchemaOrStrings => {
                match well_known::schema(self.of, wire.bytes()?)? {
                    Schema::Null => visitor.visit_unit(),
                    Schema::Bool(value) => visitor.visit_bool(value),
                    Schema::Other(of, content) => {
                        ValueDeserializer::Wire(WireValue { of, content: &content, ..self }).deserialize_any(visitor)
                    }
                }
            }
            FieldKind::Json => match well_known::json(wire.bytes()?)? {
                EmbeddedJson::Null => visitor.visit_unit(),
                EmbeddedJson::Text(text) => {
                    let mut json = serde_json::Deserializer::from_slice(text);
                    let value = json.deserialize_any(visitor).map_err(misfit)?;
                    json.end().map(|()| value).map_err(misfit)
                }
                EmbeddedJson::Object { .. } => {
                    visit_tree(&serde_json::from_slice::<Value>(&self.text()?).map_err(misfit)?, visitor)
                }
            },
            // The kinds of `visit_one`.
            _ => visitor.visit_unit(),
        }
    }
}

/// The ways in which types ask for something that messages have: they get it at once. Whatever else is there is shown to
/// them as a tree, so that what they say about it is what they would say about JSON. The way by the tree is the same for all,
/// as code is made for every type and every way.
impl<'de> Deserializer<'de> for ValueDeserializer<'_, 'de> {
    type Error = BoxedError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        let value = match self {
            ValueDeserializer::Wire(value) => value,
            ValueDeserializer::Tree(tree) => return visit_tree(tree, visitor),
        };
        match *value.content {
            Content::One(wire) => value.visit_one(wire, visitor),
            Content::List(run) => visitor.visit_seq(&mut value.items(run)),
            Content::Map(run) => visitor.visit_map(value.pairs(run)),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        let is_null = match self {
            ValueDeserializer::Wire(value) => value.is_null()?,
            ValueDeserializer::Tree(tree) => tree.is_null(),
        };
        if is_null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BoxedError> {
        let value = match self {
            ValueDeserializer::Wire(value) => value,
            ValueDeserializer::Tree(tree) => return visit_tree(tree, visitor),
        };
        match value.single(FieldKind::Message) {
            Some(bytes) => visitor.visit_map(&mut value.fields(bytes)?),
            None => value.visit_tree(visitor),
        }
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        let value = match self {
            ValueDeserializer::Wire(value) => value,
            ValueDeserializer::Tree(tree) => return visit_tree(tree, visitor),
        };
        match *value.content {
            Content::Map(run) => visitor.visit_map(value.pairs(run)),
            Content::One(Wire::Bytes(bytes)) if value.of.kind == FieldKind::Message => {
                visitor.visit_map(&mut value.fields(bytes)?)
            }
            _ => value.visit_tree(visitor),
        }
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        match self {
            ValueDeserializer::Wire(value) => match *value.content {
                Content::List(run) => visitor.visit_seq(&mut value.items(run)),
                _ => value.visit_tree(visitor),
            },
            ValueDeserializer::Tree(tree) => visit_tree(tree, visitor),
        }
    }

    /// An unset time is null. A type that requires text receives Go's zero time (PB-061).
    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        let value = match self {
            ValueDeserializer::Wire(value) => value,
            ValueDeserializer::Tree(tree) => return visit_tree(tree, visitor),
        };
        let Content::One(Wire::Bytes(bytes)) = *value.content else { return value.visit_tree(visitor) };
        match value.of.kind {
            FieldKind::Text => visit_text(bytes, visitor),
            FieldKind::Bytes => visitor.visit_string(STANDARD.encode(bytes)),
            FieldKind::Time | FieldKind::MicroTime => match time::read(bytes)? {
                Some((seconds, nanos)) => {
                    let micro = value.of.kind == FieldKind::MicroTime;
                    visitor.visit_str(time::text(seconds, nanos, micro, &mut [0; 27])?)
                }
                None => visitor.visit_borrowed_str(time::ZERO_TEXT),
            },
            _ => value.visit_tree(visitor),
        }
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        match self {
            ValueDeserializer::Wire(value) => match *value.content {
                Content::One(Wire::Varint(bool)) if value.of.kind == FieldKind::Bool => visitor.visit_bool(bool != 0),
                _ => value.visit_tree(visitor),
            },
            ValueDeserializer::Tree(tree) => visit_tree(tree, visitor),
        }
    }

    #[inline]
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        match self {
            ValueDeserializer::Wire(value) => match *value.content {
                Content::One(Wire::Varint(int)) if value.of.kind == FieldKind::Int32 => {
                    visit_int(i64::from(int as i32), visitor)
                }
                Content::One(Wire::Varint(int)) if value.of.kind == FieldKind::Int64 => visit_int(int as i64, visitor),
                _ => value.visit_tree(visitor),
            },
            ValueDeserializer::Tree(tree) => visit_tree(tree, visitor),
        }
    }

    #[inline]
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, BoxedError> {
        if name == RAW_VALUE {
            return visit_raw(self.text()?, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BoxedError> {
        // Enums with contents are rare and have many representations, which serde_json implements.
        let tree = match self {
            ValueDeserializer::Wire(value) => match value.single(FieldKind::Text) {
                Some(bytes) => return visitor.visit_enum(well_known::text(bytes).into_deserializer()),
                None => value.tree()?,
            },
            ValueDeserializer::Tree(tree) => tree.clone(),
        };
        tree.deserialize_enum(name, variants, visitor).map_err(misfit)
    }

    /// Skips the value.
    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BoxedError> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        true
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

#[inline]
fn visit_text<'de, V: Visitor<'de>>(bytes: &'de [u8], visitor: V) -> Result<V::Value, BoxedError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => visitor.visit_borrowed_str(text),
        Err(_) => visitor.visit_string(well_known::text(bytes).into_owned()),
    }
}

/// Visits an integer as serde_json does: signed only if negative.
#[inline]
fn visit_int<'de, V: Visitor<'de>>(value: i64, visitor: V) -> Result<V::Value, BoxedError> {
    match u64::try_from(value) {
        Ok(value) => visitor.visit_u64(value),
        Err(_) => visitor.visit_i64(value),
    }
}

impl ValueDeserializer<'_, '_> {
    /// Returns the value as JSON text.
    #[cold]
    fn text(self) -> Result<String, BoxedError> {
        match self {
            ValueDeserializer::Wire(value) => String::from_utf8(value.text()?)
                .map_err(|_| BoxedError::new(ProtobufError::NotJson { path: "".into() })),
            ValueDeserializer::Tree(tree) => Ok(tree.to_string()),
        }
    }
}

/// Visits raw JSON, which serde_json shows to its type as a map with one entry.
#[cold]
pub(crate) fn visit_raw<'de, V: Visitor<'de>>(json: String, visitor: V) -> Result<V::Value, BoxedError> {
    // Rejects embedded JSON that is none, as parsing it would.
    serde_json::from_str::<serde::de::IgnoredAny>(&json).map_err(misfit)?;
    visitor.visit_map(MapDeserializer::new(std::iter::once((RAW_VALUE, json))))
}

/// Visits a tree as serde_json does.
#[cold]
fn visit_tree<'de, V: Visitor<'de>>(tree: &Value, visitor: V) -> Result<V::Value, BoxedError> {
    match tree {
        Value::Null => visitor.visit_unit(),
        Value::Bool(value) => visitor.visit_bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(value), _, _) => visitor.visit_u64(value),
            (_, Some(value), _) => visitor.visit_i64(value),
            (_, _, value) => visitor.visit_f64(value.unwrap_or_default()),
        },
        Value::String(text) => visitor.visit_str(text),
        Value::Array(items) => {
            let mut access = ListAccess::Tree(items.iter());
            let value = visitor.visit_seq(&mut access)?;
            let ListAccess::Tree(rest) = access else { return Ok(value) };
            all_read(rest.len(), items.len(), &"fewer elements in array").map(|()| value)
        }
        Value::Object(members) => {
            let mut access = MessageAccess::Tree { members: members.iter(), value: None };
            let value = visitor.visit_map(&mut access)?;
            let MessageAccess::Tree { members: rest, .. } = access else { return Ok(value) };
            all_read(rest.len(), members.len(), &"fewer elements in map").map(|()| value)
        }
    }
}

fn all_read(rest: usize, all: usize, expected: &dyn Expected) -> Result<(), BoxedError> {
    if rest == 0 { Ok(()) } else { Err(BoxedError::invalid_length(all, expected)) }
}

fn misfit(error: serde_json::Error) -> BoxedError {
    if error.is_data() {
        BoxedError::custom(error)
    } else {
        BoxedError::new(ProtobufError::NotJson { path: "".into() })
    }
}

/// The fields of a message, or the members of an object in a tree.
enum MessageAccess<'t, 'de> {
    Wire {
        fields: FieldReader<'de>,
        /// The field whose name was returned and whose value was not.
        field: Option<&'static Field>,
        depth: usize,
    },
    Tree {
        members: serde_json::map::Iter<'t>,
        value: Option<&'t Value>,
    },
}

impl<'de> MessageAccess<'_, 'de> {
    #[inline]
    fn new(message: &'static Message, bytes: &'de [u8], depth: usize) -> Result<Self, BoxedError> {
        if depth >= DEPTH_LIMIT {
            return Err(BoxedError::new(ProtobufError::TooDeep { path: "".into(), limit: DEPTH_LIMIT }));
        }
        Ok(MessageAccess::Wire { fields: FieldReader::new(message, bytes)?, field: None, depth: depth + 1 })
    }
}

impl<'de> MapAccess<'de> for MessageAccess<'_, 'de> {
    type Error = BoxedError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, BoxedError> {
        match self {
            MessageAccess::Wire { fields, field, .. } => {
                *field = fields.next()?;
                match field {
                    Some(field) => seed.deserialize(BorrowedStrDeserializer::new(field.name)).map(Some),
                    None => Ok(None),
                }
            }
            MessageAccess::Tree { members, value: last } => {
                let Some((name, value)) = members.next() else { return Ok(None) };
                *last = Some(value);
                seed.deserialize(name.as_str().into_deserializer()).map(Some)
            }
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, BoxedError> {
        match self {
            MessageAccess::Wire { fields, field, depth } => {
                let Some(field) = field.take() else {
                    return Err(BoxedError::custom("value requested before its name"));
                };
                let value = WireValue { of: field.of, content: fields.content(), depth: *depth };
                seed.deserialize(ValueDeserializer::Wire(value)).map_err(|error| error.in_field(field.name))
            }
            MessageAccess::Tree { value, .. } => match value.take() {
                Some(value) => seed.deserialize(ValueDeserializer::Tree(value)),
                None => Err(BoxedError::custom("value requested before its name")),
            },
        }
    }
}

/// The items of a list.
enum ListAccess<'t, 'de> {
    Wire(WireItems<'de>),
    Tree(std::slice::Iter<'t, Value>),
}

struct WireItems<'de> {
    items: Items<'de>,
    of: FieldType,
    depth: usize,
    index: usize,
}

impl<'de> SeqAccess<'de> for ListAccess<'_, 'de> {
    type Error = BoxedError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, BoxedError> {
        let list = match self {
            ListAccess::Wire(list) => list,
            ListAccess::Tree(items) => {
                return items.next().map(|item| seed.deserialize(ValueDeserializer::Tree(item))).transpose();
            }
        };
        let index = list.index;
        let Some(wire) = list.items.next().map_err(|error| error.in_item(index))? else {
            return Ok(None);
        };
        list.index += 1;
        let value = WireValue { of: list.of, content: &Content::One(wire), depth: list.depth };
        seed.deserialize(ValueDeserializer::Wire(value)).map(Some).map_err(|error| error.in_item(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(match self {
            ListAccess::Wire(list) => list.items.hint(),
            ListAccess::Tree(items) => items.len(),
        })
    }
}

/// The entries of a map.
struct MapEntries<'de> {
    items: Items<'de>,
    of: FieldType,
    depth: usize,
    value: Option<Wire<'de>>,
}

impl<'de> MapAccess<'de> for MapEntries<'de> {
    type Error = BoxedError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, BoxedError> {
        let Some((key, value)) = self.items.next_pair()? else { return Ok(None) };
        self.value = Some(value);
        let key = WireValue { of: FieldType::TEXT, content: &Content::One(Wire::Bytes(key)), depth: 0 };
        seed.deserialize(ValueDeserializer::Wire(key)).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, BoxedError> {
        let wire = self.value.take().ok_or_else(|| BoxedError::custom("value requested before its key"))?;
        let value = WireValue { of: self.of, content: &Content::One(wire), depth: self.depth };
        seed.deserialize(ValueDeserializer::Wire(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.hint())
    }
}
