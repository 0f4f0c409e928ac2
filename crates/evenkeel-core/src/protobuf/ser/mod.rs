//! Serializes any type that writes JSON into protobuf.
//!
//! Types serialize their fields in alphabetical order and of unknown length. Fields are therefore appended as they arrive, and sorted by
//! number at the end of their message; lengths are filled in afterwards (PB-086). Fields of inline messages are wrapped into them at
//! that point (PB-083).

mod key;
mod parts;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Error, Impossible, Serialize, SerializeStruct, Serializer};

use self::parts::{ListSerializer, MapSerializer, MessageSerializer, ObjectSerializer};
use super::error::BoxedError;
use super::table::{Cardinality, FieldKind, FieldType, INLINE_LEVELS, Message};
use super::wire::{BYTES, FIXED64, Reader, put_bytes, put_int, put_tag, varint_length};
use super::{DEPTH_LIMIT, time};
use crate::error::ProtobufError;

/// Encodes a value as a message.
pub(super) fn to_vec<T: Serialize + ?Sized>(message: &'static Message, value: &T) -> Result<Vec<u8>, BoxedError> {
    let mut encoder = Encoder::default();
    let root = Slot { of: message.as_type(), cardinality: Cardinality::One, number: 0, depth: 0 };
    value.serialize(ValueSerializer { encoder: &mut encoder, slot: root })?;
    Ok(encoder.out)
}

#[derive(Default)]
struct Encoder {
    out: Vec<u8>,
    /// The encoded fields of the open messages, innermost last, and the entries of open maps.
    parts: Vec<EncodedField>,
    spare: Vec<u8>,
}

/// The range of an encoded field.
#[derive(Clone, Copy)]
struct EncodedField {
    /// Its path: the numbers of its inline messages, then its own number, then zeros.
    order: [u8; INLINE_LEVELS + 1],
    start: usize,
    end: usize,
}

/// The target of a value.
#[derive(Clone, Copy)]
struct Slot {
    of: FieldType,
    cardinality: Cardinality,
    /// Zero for the whole message, which has no tag.
    number: u8,
    depth: usize,
}

/// Starts a field of unknown length. Returns the start of its contents.
fn open(out: &mut Vec<u8>, number: u8) -> usize {
    put_tag(out, number, BYTES);
    out.push(0);
    out.len()
}

/// Fills in the length of a field. A length of more than one byte moves the contents.
fn close(out: &mut Vec<u8>, start: usize) {
    let end = out.len();
    let length = (end - start) as u64;
    let more = varint_length(length) - 1;
    if more > 0 {
        out.resize(end + more, 0);
        out.copy_within(start..end, start + more);
    }
    let mut rest = length;
    for slot in &mut out[start - 1..start + more] {
        *slot = rest as u8 & 0x7f | 0x80;
        rest >>= 7;
    }
    out[start + more - 1] &= 0x7f;
}

impl Encoder {
    /// Encodes a value into a slot.
    fn put<T: Serialize + ?Sized>(&mut self, slot: Slot, value: &T) -> Result<(), BoxedError> {
        if slot.of.kind == FieldKind::Json && slot.cardinality == Cardinality::One {
            return self.put_json(slot.number, value);
        }
        value.serialize(ValueSerializer { encoder: self, slot })
    }

    /// Encodes the JSON of a value. Null is absent.
    fn put_json<T: Serialize + ?Sized>(&mut self, number: u8, value: &T) -> Result<(), BoxedError> {
        let before = self.out.len();
        let outer = open(&mut self.out, number);
        let inner = open(&mut self.out, 1);
        serde_json::to_writer(&mut self.out, value).map_err(BoxedError::custom)?;
        if self.out.get(inner..) == Some(b"null") {
            self.out.truncate(before);
            return Ok(());
        }
        close(&mut self.out, inner);
        close(&mut self.out, outer);
        Ok(())
    }

    /// Sorts the fields of a message, from the `first` part on.
    fn finish(&mut self, message: &'static Message, start: usize, first: usize) {
        for inline in message.inlines().iter().rev() {
            let depth = inline.path.iter().filter(|number| **number != 0).count();
            let own = &inline.path[..depth];
            if !self.parts[first..].iter().any(|part| part.order.starts_with(own)) {
                // Go writes empty inline messages.
                let mut order = [0; INLINE_LEVELS + 1];
                order[..depth].copy_from_slice(own);
                let start = self.out.len();
                put_bytes(&mut self.out, order[depth - 1], b"");
                self.parts.push(EncodedField { order, start, end: self.out.len() });
            }
        }
        let parts = &mut self.parts[first..];
        if !message.inlines().is_empty() || !parts.is_sorted_by_key(|part| part.order) {
            parts.sort_by_key(|part| part.order);
            self.spare.clear();
            gather(&self.out, parts, 0, &mut self.spare);
            self.out.truncate(start);
            self.out.extend_from_slice(&self.spare);
        }
        self.parts.truncate(first);
    }

    /// Sorts the entries of a map by key, from the `first` part on.
    fn finish_pairs(&mut self, start: usize, first: usize) {
        let Encoder { out, parts, spare } = self;
        let pairs = &mut parts[first..];
        if !pairs.is_sorted_by_key(|pair| key(out, pair)) {
            pairs.sort_by_key(|pair| key(out, pair));
            spare.clear();
            for pair in pairs.iter() {
                spare.extend_from_slice(&out[pair.start..pair.end]);
            }
            out.truncate(start);
            out.extend_from_slice(spare);
        }
        parts.truncate(first);
    }
}

/// Appends fields, with those of inline messages wrapped into them.
fn gather(from: &[u8], mut parts: &[EncodedField], level: usize, out: &mut Vec<u8>) {
    while let Some(part) = parts.first() {
        let rest = if part.order.get(level + 1).is_none_or(|number| *number == 0) {
            out.extend_from_slice(&from[part.start..part.end]);
            1
        } else {
            let number = part.order[level];
            let inner = parts.iter().take_while(|part| part.order[level] == number).count();
            let start = open(out, number);
            gather(from, &parts[..inner], level + 1, out);
            close(out, start);
            inner
        };
        parts = &parts[rest..];
    }
}

/// Returns the key of an encoded entry.
fn key<'a>(out: &'a [u8], pair: &EncodedField) -> &'a [u8] {
    let contents = Reader::new(&out[pair.start..pair.end]).next().ok().flatten();
    let pair = contents.and_then(|(_, pair)| pair.bytes().ok()).unwrap_or_default();
    let key = Reader::new(pair).next().ok().flatten();
    key.and_then(|(_, key)| key.bytes().ok()).unwrap_or_default()
}

/// The serializer of all values.
struct ValueSerializer<'a> {
    encoder: &'a mut Encoder,
    slot: Slot,
}

impl<'a> ValueSerializer<'a> {
    fn expected<T>(&self) -> Result<T, BoxedError> {
        Err(BoxedError::unexpected(match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::List, _) => "a list",
            (Cardinality::Map, _) => "an object",
            (_, FieldKind::Text) => "a string",
            (_, FieldKind::Bytes) => "a string of base64",
            (_, FieldKind::Bool) => "a bool",
            (_, FieldKind::Int32) => "a number of 32 bits",
            (_, FieldKind::Int64) => "a number of 64 bits",
            (_, FieldKind::Double) => "a number",
            (_, FieldKind::Message | FieldKind::Json) => "an object",
            (_, FieldKind::Quantity) => "a quantity",
            (_, FieldKind::IntOrString) => "a number of 32 bits or a string",
            (_, FieldKind::Time | FieldKind::MicroTime) => "a time",
            (_, FieldKind::Duration) => "a duration",
            (_, FieldKind::Strings) => "a list of strings",
            (_, FieldKind::SchemaOrBool) => "a schema or a bool",
            (_, FieldKind::SchemaOrSchemas) => "a schema or a list of schemas",
            (_, FieldKind::SchemaOrStrings) => "a schema or a list of strings",
        }))
    }

    /// Returns the kind of a single value.
    fn kind(&self) -> Option<FieldKind> {
        (self.slot.cardinality == Cardinality::One).then_some(self.slot.of.kind)
    }

    fn int(self, value: i128) -> Result<(), BoxedError> {
        let (out, number) = (&mut self.encoder.out, self.slot.number);
        match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::One, FieldKind::Int32) => match i32::try_from(value) {
                Ok(value) => put_int(out, number, i64::from(value)),
                Err(_) => return self.expected(),
            },
            (Cardinality::One, FieldKind::Int64) => match i64::try_from(value) {
                Ok(value) => put_int(out, number, value),
                Err(_) => return self.expected(),
            },
            (Cardinality::One, FieldKind::IntOrString) => match i32::try_from(value) {
                Ok(value) => put_int_or_text(out, number, 0, value, ""),
                Err(_) => return self.expected(),
            },
            (Cardinality::One, FieldKind::Double) => put_double(out, number, value as f64),
            (Cardinality::One, FieldKind::Quantity) => put_quantity(out, number, &value.to_string()),
            _ => return self.expected(),
        }
        Ok(())
    }

    fn message(self) -> Result<MessageSerializer<'a>, BoxedError> {
        let Slot { of, number, depth, .. } = self.slot;
        if depth >= DEPTH_LIMIT {
            return Err(BoxedError::new(ProtobufError::TooDeep { path: "".into(), limit: DEPTH_LIMIT }));
        }
        let out = &mut self.encoder.out;
        let mut close = [0; 2];
        if number != 0 {
            close[0] = open(out, number);
        }
        match of.kind {
            FieldKind::SchemaOrBool => {
                put_int(out, 1, 1);
                close[1] = open(out, 2);
            }
            FieldKind::SchemaOrSchemas | FieldKind::SchemaOrStrings => close[1] = open(out, 1),
            _ => {}
        }
        let (start, first) = (out.len(), self.encoder.parts.len());
        let message = of.message();
        Ok(MessageSerializer {
            encoder: self.encoder,
            message,
            depth: depth + 1,
            start,
            first,
            close,
            next: 0,
            pending: None,
        })
    }

    fn object(self) -> Result<ObjectSerializer<'a>, BoxedError> {
        match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::Map, _) => {
                let (start, first) = (self.encoder.out.len(), self.encoder.parts.len());
                Ok(ObjectSerializer::MapSerializer(MapSerializer {
                    encoder: self.encoder,
                    slot: self.slot,
                    start,
                    first,
                    pair: (0, 0),
                }))
            }
            (
                Cardinality::One,
                FieldKind::Message | FieldKind::SchemaOrBool | FieldKind::SchemaOrSchemas | FieldKind::SchemaOrStrings,
            ) => self.message().map(ObjectSerializer::MessageSerializer),
            _ => self.expected(),
        }
    }

    fn list(self) -> Result<ListSerializer<'a>, BoxedError> {
        let Slot { of, cardinality, number, depth } = self.slot;
        let mut item = |of, inside| {
            let close = open(&mut self.encoder.out, number);
            (Slot { of, cardinality: Cardinality::One, number: inside, depth }, close)
        };
        let (slot, close) = match (cardinality, of.kind) {
            (Cardinality::List, _) => (Slot { cardinality: Cardinality::One, ..self.slot }, 0),
            (Cardinality::One, FieldKind::Strings) => item(FieldType::TEXT, 1),
            (Cardinality::One, FieldKind::SchemaOrSchemas) => item(of.as_message(), 2),
            (Cardinality::One, FieldKind::SchemaOrStrings) => item(FieldType::TEXT, 2),
            _ => return self.expected(),
        };
        Ok(ListSerializer { encoder: self.encoder, slot, close, index: 0 })
    }
}

/// Encodes null where a value is required, as Go does.
fn put_zero(out: &mut Vec<u8>, slot: Slot) {
    match slot.of.kind {
        FieldKind::Bool | FieldKind::Int32 | FieldKind::Int64 => put_int(out, slot.number, 0),
        FieldKind::Double => put_double(out, slot.number, 0.0),
        _ => put_bytes(out, slot.number, b""),
    }
}

fn put_double(out: &mut Vec<u8>, number: u8, value: f64) {
    put_tag(out, number, FIXED64);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_quantity(out: &mut Vec<u8>, number: u8, text: &str) {
    let start = open(out, number);
    put_bytes(out, 1, text.as_bytes());
    close(out, start);
}

/// Go writes all three fields.
fn put_int_or_text(out: &mut Vec<u8>, number: u8, which: i64, int: i32, text: &str) {
    let start = open(out, number);
    put_int(out, 1, which);
    put_int(out, 2, i64::from(int));
    put_bytes(out, 3, text.as_bytes());
    close(out, start);
}

/// Parses a Go duration, which may be negative, to nanoseconds.
fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let nanos = i64::try_from(crate::duration::parse(unsigned).ok()?.as_nanos()).ok()?;
    Some(if negative { -nanos } else { nanos })
}

impl<'a> Serializer for ValueSerializer<'a> {
    type Ok = ();
    type Error = BoxedError;
    type SerializeSeq = ListSerializer<'a>;
    type SerializeTuple = ListSerializer<'a>;
    type SerializeTupleStruct = ListSerializer<'a>;
    type SerializeTupleVariant = Impossible<(), BoxedError>;
    type SerializeMap = ObjectSerializer<'a>;
    type SerializeStruct = ObjectSerializer<'a>;
    type SerializeStructVariant = Impossible<(), BoxedError>;

    fn serialize_bool(self, value: bool) -> Result<(), BoxedError> {
        let (out, number) = (&mut self.encoder.out, self.slot.number);
        match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::One, FieldKind::Bool) => put_int(out, number, i64::from(value)),
            (Cardinality::One, FieldKind::SchemaOrBool) => {
                let start = open(out, number);
                put_int(out, 1, i64::from(value));
                close(out, start);
            }
            _ => return self.expected(),
        }
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), BoxedError> {
        let Some(kind) = self.kind() else { return self.expected() };
        let (out, number) = (&mut self.encoder.out, self.slot.number);
        match kind {
            FieldKind::Text => put_bytes(out, number, text.as_bytes()),
            FieldKind::Quantity => put_quantity(out, number, text),
            FieldKind::Time | FieldKind::MicroTime => {
                let start = open(out, number);
                time::put(out, text, kind == FieldKind::MicroTime)?;
                close(out, start);
            }
            FieldKind::Bytes => {
                let start = open(out, number);
                if STANDARD.decode_vec(text, out).is_err() {
                    return self.expected();
                }
                close(out, start);
            }
            FieldKind::IntOrString => put_int_or_text(out, number, 1, 0, text),
            FieldKind::Duration => match nanoseconds(text) {
                Some(nanos) => {
                    let start = open(out, number);
                    put_int(out, 1, nanos);
                    close(out, start);
                }
                None => return self.expected(),
            },
            _ => return self.expected(),
        }
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), BoxedError> {
        if self.kind() != Some(FieldKind::Bytes) {
            return self.expected();
        }
        put_bytes(&mut self.encoder.out, self.slot.number, bytes);
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), BoxedError> {
        match self.kind() {
            Some(FieldKind::Double) => put_double(&mut self.encoder.out, self.slot.number, value),
            Some(FieldKind::Quantity) => put_quantity(&mut self.encoder.out, self.slot.number, &value.to_string()),
            _ => return self.expected(),
        }
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), BoxedError> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_i8(self, value: i8) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_i128(self, value: i128) -> Result<(), BoxedError> {
        self.int(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), BoxedError> {
        self.int(value.into())
    }

    fn serialize_char(self, value: char) -> Result<(), BoxedError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    /// Null is absent.
    fn serialize_none(self) -> Result<(), BoxedError> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), BoxedError> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), BoxedError> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), BoxedError> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), BoxedError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), BoxedError> {
        value.serialize(self)
    }

    /// An object with one field, as in JSON.
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), BoxedError> {
        let mut object = self.object()?;
        SerializeStruct::serialize_field(&mut object, variant, value)?;
        SerializeStruct::end(object)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListSerializer<'a>, BoxedError> {
        self.list()
    }

    fn serialize_tuple(self, _: usize) -> Result<ListSerializer<'a>, BoxedError> {
        self.list()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<ListSerializer<'a>, BoxedError> {
        self.list()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), BoxedError>, BoxedError> {
        self.expected()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ObjectSerializer<'a>, BoxedError> {
        self.object()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<ObjectSerializer<'a>, BoxedError> {
        self.object()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), BoxedError>, BoxedError> {
        self.expected()
    }

    fn is_human_readable(&self) -> bool {
        true
    }
}
