//! From any type that writes JSON into protobuf.
//!
//! Types serialise their fields in the order of the alphabet, and none of them says how long it will be. So fields are
//! written as they come, one after the other, and put into the order of their numbers when their message ends; lengths are
//! filled in when it is known (PB-086). Fields that belong to inline messages are wrapped into them at that point (PB-083).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Error, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use serde::ser::{SerializeTuple, SerializeTupleStruct};

use super::error::{Failure, ProtobufError};
use super::table::{Cardinality, INLINE_LEVELS, Kind, Message, Named, Type};
use super::wire::{BYTES, FIXED64, Reader, put_bytes, put_int, put_tag, varint_length};
use super::{DEPTH_LIMIT, time};

/// The message of a value.
pub(super) fn to_vec<T: Serialize + ?Sized>(message: &'static Message, value: &T) -> Result<Vec<u8>, Failure> {
    let mut encoder = Encoder::default();
    let root = Slot { of: message.as_type(), cardinality: Cardinality::One, number: 0, depth: 0 };
    value.serialize(Value { encoder: &mut encoder, slot: root })?;
    Ok(encoder.out)
}

#[derive(Default)]
struct Encoder {
    out: Vec<u8>,
    /// The fields of the messages that are being written, innermost last, and the pairs of maps among them.
    parts: Vec<Part>,
    spare: Vec<u8>,
}

/// A field that has been written.
#[derive(Clone, Copy)]
struct Part {
    /// The numbers that lead to it: those of the inline messages that it belongs to, then its own, then zeros.
    order: [u8; INLINE_LEVELS + 1],
    start: usize,
    end: usize,
}

/// Where a value goes.
#[derive(Clone, Copy)]
struct Slot {
    of: Type,
    cardinality: Cardinality,
    /// Zero for the message as a whole, which has no tag.
    number: u8,
    depth: usize,
}

/// Begins a field whose length is not known yet. Answers with where its contents start.
fn open(out: &mut Vec<u8>, number: u8) -> usize {
    put_tag(out, number, BYTES);
    out.push(0);
    out.len()
}

/// Fills in the length of a field. Lengths of more than a byte move the contents.
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
    /// Writes a value into a slot.
    fn put<T: Serialize + ?Sized>(&mut self, slot: Slot, value: &T) -> Result<(), Failure> {
        if slot.of.kind == Kind::Json && slot.cardinality == Cardinality::One {
            return self.put_json(slot.number, value);
        }
        value.serialize(Value { encoder: self, slot })
    }

    /// Writes the JSON of a value. Null is what is not there.
    fn put_json<T: Serialize + ?Sized>(&mut self, number: u8, value: &T) -> Result<(), Failure> {
        let before = self.out.len();
        let outer = open(&mut self.out, number);
        let inner = open(&mut self.out, 1);
        serde_json::to_writer(&mut self.out, value).map_err(Failure::custom)?;
        if self.out.get(inner..) == Some(b"null") {
            self.out.truncate(before);
            return Ok(());
        }
        close(&mut self.out, inner);
        close(&mut self.out, outer);
        Ok(())
    }

    /// Brings the fields of a message into order, from `first` of the parts on.
    fn finish(&mut self, message: &'static Message, start: usize, first: usize) {
        for inline in message.inlines().iter().rev() {
            let depth = inline.path.iter().filter(|number| **number != 0).count();
            let own = &inline.path[..depth];
            if !self.parts[first..].iter().any(|part| part.order.starts_with(own)) {
                // Go writes inline messages even if nothing is in them.
                let mut order = [0; INLINE_LEVELS + 1];
                order[..depth].copy_from_slice(own);
                let start = self.out.len();
                put_bytes(&mut self.out, order[depth - 1], b"");
                self.parts.push(Part { order, start, end: self.out.len() });
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

    /// Brings the pairs of a map into the order of their keys, from `first` of the parts on.
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

/// Appends parts, those of inline messages inside of these.
fn gather(from: &[u8], mut parts: &[Part], level: usize, out: &mut Vec<u8>) {
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

/// The key of a pair that has been written.
fn key<'a>(out: &'a [u8], pair: &Part) -> &'a [u8] {
    let contents = Reader::new(&out[pair.start..pair.end]).next().ok().flatten();
    let pair = contents.and_then(|(_, pair)| pair.bytes().ok()).unwrap_or_default();
    let key = Reader::new(pair).next().ok().flatten();
    key.and_then(|(_, key)| key.bytes().ok()).unwrap_or_default()
}

/// The serializer of everything.
struct Value<'a> {
    encoder: &'a mut Encoder,
    slot: Slot,
}

impl<'a> Value<'a> {
    fn expected<T>(&self) -> Result<T, Failure> {
        Err(Failure::unexpected(match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::List, _) => "a list",
            (Cardinality::Map, _) => "an object",
            (_, Kind::Text) => "a string",
            (_, Kind::Bytes) => "a string of base64",
            (_, Kind::Bool) => "a bool",
            (_, Kind::Int32) => "a number of 32 bits",
            (_, Kind::Int64) => "a number of 64 bits",
            (_, Kind::Double) => "a number",
            (_, Kind::Message | Kind::Json) => "an object",
            (_, Kind::Quantity) => "a quantity",
            (_, Kind::IntOrString) => "a number of 32 bits or a string",
            (_, Kind::Time | Kind::MicroTime) => "a time",
            (_, Kind::Duration) => "a duration",
            (_, Kind::Strings) => "a list of strings",
            (_, Kind::SchemaOrBool) => "a schema or a bool",
            (_, Kind::SchemaOrSchemas) => "a schema or a list of schemas",
            (_, Kind::SchemaOrStrings) => "a schema or a list of strings",
        }))
    }

    /// The kind of a single value.
    fn kind(&self) -> Option<Kind> {
        (self.slot.cardinality == Cardinality::One).then_some(self.slot.of.kind)
    }

    fn int(self, value: i128) -> Result<(), Failure> {
        let (out, number) = (&mut self.encoder.out, self.slot.number);
        match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::One, Kind::Int32) => match i32::try_from(value) {
                Ok(value) => put_int(out, number, i64::from(value)),
                Err(_) => return self.expected(),
            },
            (Cardinality::One, Kind::Int64) => match i64::try_from(value) {
                Ok(value) => put_int(out, number, value),
                Err(_) => return self.expected(),
            },
            (Cardinality::One, Kind::IntOrString) => match i32::try_from(value) {
                Ok(value) => put_int_or_text(out, number, 0, value, ""),
                Err(_) => return self.expected(),
            },
            (Cardinality::One, Kind::Double) => put_double(out, number, value as f64),
            (Cardinality::One, Kind::Quantity) => put_quantity(out, number, &value.to_string()),
            _ => return self.expected(),
        }
        Ok(())
    }

    fn message(self) -> Result<Fields<'a>, Failure> {
        let Slot { of, number, depth, .. } = self.slot;
        if depth >= DEPTH_LIMIT {
            return Err(Failure::new(ProtobufError::TooDeep { path: "".into(), limit: DEPTH_LIMIT }));
        }
        let out = &mut self.encoder.out;
        let mut close = [0; 2];
        if number != 0 {
            close[0] = open(out, number);
        }
        match of.kind {
            Kind::SchemaOrBool => {
                put_int(out, 1, 1);
                close[1] = open(out, 2);
            }
            Kind::SchemaOrSchemas | Kind::SchemaOrStrings => close[1] = open(out, 1),
            _ => {}
        }
        let (start, first) = (out.len(), self.encoder.parts.len());
        let message = of.message();
        Ok(Fields { encoder: self.encoder, message, depth: depth + 1, start, first, close, next: 0, pending: None })
    }

    fn object(self) -> Result<Object<'a>, Failure> {
        match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::Map, _) => {
                let (start, first) = (self.encoder.out.len(), self.encoder.parts.len());
                Ok(Object::Pairs(Pairs { encoder: self.encoder, slot: self.slot, start, first, pair: (0, 0) }))
            }
            (Cardinality::One, Kind::Message | Kind::SchemaOrBool | Kind::SchemaOrSchemas | Kind::SchemaOrStrings) => {
                self.message().map(Object::Fields)
            }
            _ => self.expected(),
        }
    }

    fn list(self) -> Result<Items<'a>, Failure> {
        let Slot { of, cardinality, number, depth } = self.slot;
        let mut item = |of, inside| {
            let close = open(&mut self.encoder.out, number);
            (Slot { of, cardinality: Cardinality::One, number: inside, depth }, close)
        };
        let (slot, close) = match (cardinality, of.kind) {
            (Cardinality::List, _) => (Slot { cardinality: Cardinality::One, ..self.slot }, 0),
            (Cardinality::One, Kind::Strings) => item(Type::TEXT, 1),
            (Cardinality::One, Kind::SchemaOrSchemas) => item(of.as_message(), 2),
            (Cardinality::One, Kind::SchemaOrStrings) => item(Type::TEXT, 2),
            _ => return self.expected(),
        };
        Ok(Items { encoder: self.encoder, slot, close, index: 0 })
    }
}

/// What Go makes of null where there has to be something.
fn put_zero(out: &mut Vec<u8>, slot: Slot) {
    match slot.of.kind {
        Kind::Bool | Kind::Int32 | Kind::Int64 => put_int(out, slot.number, 0),
        Kind::Double => put_double(out, slot.number, 0.0),
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

/// The nanoseconds of what Go prints for a duration, which may be negative.
fn nanoseconds(text: &str) -> Option<i64> {
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let nanos = i64::try_from(crate::duration::parse(unsigned).ok()?.as_nanos()).ok()?;
    Some(if negative { -nanos } else { nanos })
}

impl<'a> Serializer for Value<'a> {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Impossible<(), Failure>;
    type SerializeMap = Object<'a>;
    type SerializeStruct = Object<'a>;
    type SerializeStructVariant = Impossible<(), Failure>;

    fn serialize_bool(self, value: bool) -> Result<(), Failure> {
        let (out, number) = (&mut self.encoder.out, self.slot.number);
        match (self.slot.cardinality, self.slot.of.kind) {
            (Cardinality::One, Kind::Bool) => put_int(out, number, i64::from(value)),
            (Cardinality::One, Kind::SchemaOrBool) => {
                let start = open(out, number);
                put_int(out, 1, i64::from(value));
                close(out, start);
            }
            _ => return self.expected(),
        }
        Ok(())
    }

    fn serialize_str(self, text: &str) -> Result<(), Failure> {
        let Some(kind) = self.kind() else { return self.expected() };
        let (out, number) = (&mut self.encoder.out, self.slot.number);
        match kind {
            Kind::Text => put_bytes(out, number, text.as_bytes()),
            Kind::Quantity => put_quantity(out, number, text),
            Kind::Time | Kind::MicroTime => {
                let start = open(out, number);
                time::put(out, text, kind == Kind::MicroTime)?;
                close(out, start);
            }
            Kind::Bytes => {
                let start = open(out, number);
                if STANDARD.decode_vec(text, out).is_err() {
                    return self.expected();
                }
                close(out, start);
            }
            Kind::IntOrString => put_int_or_text(out, number, 1, 0, text),
            Kind::Duration => match nanoseconds(text) {
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

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        if self.kind() != Some(Kind::Bytes) {
            return self.expected();
        }
        put_bytes(&mut self.encoder.out, self.slot.number, bytes);
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Failure> {
        match self.kind() {
            Some(Kind::Double) => put_double(&mut self.encoder.out, self.slot.number, value),
            Some(Kind::Quantity) => put_quantity(&mut self.encoder.out, self.slot.number, &value.to_string()),
            _ => return self.expected(),
        }
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Failure> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_i8(self, value: i8) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_i128(self, value: i128) -> Result<(), Failure> {
        self.int(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Failure> {
        self.int(value.into())
    }

    fn serialize_char(self, value: char) -> Result<(), Failure> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    /// Null is what is not there.
    fn serialize_none(self) -> Result<(), Failure> {
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), Failure> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Failure> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Failure> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }

    /// An object with one field, as in JSON.
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        let mut object = self.object()?;
        SerializeStruct::serialize_field(&mut object, variant, value)?;
        SerializeStruct::end(object)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Failure> {
        self.list()
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, Failure> {
        self.list()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Failure> {
        self.list()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Failure>, Failure> {
        self.expected()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Object<'a>, Failure> {
        self.object()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Object<'a>, Failure> {
        self.object()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Failure>, Failure> {
        self.expected()
    }

    fn is_human_readable(&self) -> bool {
        true
    }
}

/// The items of a list.
struct Items<'a> {
    encoder: &'a mut Encoder,
    slot: Slot,
    /// Where the contents of the message start that holds the items, if one does.
    close: usize,
    index: usize,
}

impl SerializeSeq for Items<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let before = self.encoder.out.len();
        self.encoder.put(self.slot, value).map_err(|failure| failure.in_item(self.index))?;
        self.index += 1;
        if self.encoder.out.len() == before {
            put_zero(&mut self.encoder.out, self.slot);
        }
        Ok(())
    }

    fn end(self) -> Result<(), Failure> {
        if self.close > 0 {
            close(&mut self.encoder.out, self.close);
        }
        Ok(())
    }
}

impl SerializeTuple for Items<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), Failure> {
        SerializeSeq::end(self)
    }
}

impl SerializeTupleStruct for Items<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), Failure> {
        SerializeSeq::end(self)
    }
}

/// What JSON has as an object: the fields of a message or the pairs of a map.
enum Object<'a> {
    Fields(Fields<'a>),
    Pairs(Pairs<'a>),
}

struct Fields<'a> {
    encoder: &'a mut Encoder,
    message: &'static Message,
    depth: usize,
    /// Where the message starts, in the bytes and in the parts.
    start: usize,
    first: usize,
    /// Where the contents start of what is to be closed after the message, from the outside; zero for nothing.
    close: [usize; 2],
    /// The place of the name that is likely to come next: types go by the alphabet.
    next: usize,
    pending: Option<&'static Named>,
}

impl Fields<'_> {
    /// Finds a field. There is none for `apiVersion` and `kind`, which the envelope has (PB-081); every other name that is
    /// not in the message is an error, as the value would be lost.
    fn find(&mut self, name: &str) -> Result<Option<&'static Named>, Failure> {
        let likely = self.message.names().get(self.next).filter(|named| named.name == name);
        match likely.or_else(|| self.message.named(name)) {
            Some(named) => {
                self.next = named.place + 1;
                Ok(Some(named))
            }
            None if name == "apiVersion" || name == "kind" => Ok(None),
            None => Err(Failure::new(ProtobufError::NotRepresentable { path: name.into() })),
        }
    }

    fn put<T: Serialize + ?Sized>(&mut self, named: &'static Named, value: &T) -> Result<(), Failure> {
        let field = &named.field;
        let start = self.encoder.out.len();
        let slot = Slot { of: field.of, cardinality: field.cardinality, number: field.number, depth: self.depth };
        self.encoder.put(slot, value).map_err(|failure| failure.in_field(named.name))?;
        let end = self.encoder.out.len();
        if end > start {
            let [outer, inner] = named.path;
            let order = match (outer, inner) {
                (0, _) => [field.number, 0, 0],
                (outer, 0) => [outer, field.number, 0],
                (outer, inner) => [outer, inner, field.number],
            };
            self.encoder.parts.push(Part { order, start, end });
        }
        Ok(())
    }

    fn end(self) {
        self.encoder.finish(self.message, self.start, self.first);
        for start in self.close.into_iter().rev().filter(|start| *start > 0) {
            close(&mut self.encoder.out, start);
        }
    }
}

struct Pairs<'a> {
    encoder: &'a mut Encoder,
    slot: Slot,
    start: usize,
    first: usize,
    /// Where the pair starts that is being written, and its contents.
    pair: (usize, usize),
}

impl Pairs<'_> {
    fn begin(&mut self, key: &str) {
        let start = self.encoder.out.len();
        self.pair = (start, open(&mut self.encoder.out, self.slot.number));
        put_bytes(&mut self.encoder.out, 1, key.as_bytes());
    }

    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let slot = Slot { cardinality: Cardinality::One, number: 2, ..self.slot };
        let before = self.encoder.out.len();
        self.encoder.put(slot, value)?;
        if self.encoder.out.len() == before && slot.of.kind != Kind::Bytes {
            put_zero(&mut self.encoder.out, slot);
        }
        let (start, contents) = self.pair;
        close(&mut self.encoder.out, contents);
        let end = self.encoder.out.len();
        self.encoder.parts.push(Part { order: [0; INLINE_LEVELS + 1], start, end });
        Ok(())
    }
}

impl Object<'_> {
    fn begin(&mut self, key: &str) -> Result<(), Failure> {
        match self {
            Object::Fields(fields) => fields.pending = fields.find(key)?,
            Object::Pairs(pairs) => pairs.begin(key),
        }
        Ok(())
    }
}

impl SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failure> {
        key.serialize(Key(self))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        match self {
            Object::Fields(fields) => match fields.pending.take() {
                Some(named) => fields.put(named, value),
                None => Ok(()),
            },
            Object::Pairs(pairs) => pairs.put(value),
        }
    }

    fn end(self) -> Result<(), Failure> {
        match self {
            Object::Fields(fields) => fields.end(),
            Object::Pairs(pairs) => pairs.encoder.finish_pairs(pairs.start, pairs.first),
        }
        Ok(())
    }
}

impl SerializeStruct for Object<'_> {
    type Ok = ();
    type Error = Failure;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Failure> {
        self.begin(key)?;
        SerializeMap::serialize_value(self, value)
    }

    fn end(self) -> Result<(), Failure> {
        SerializeMap::end(self)
    }
}

/// Takes the key of a pair, which is text or can be.
struct Key<'a, 'b>(&'a mut Object<'b>);

macro_rules! plain_keys {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method(self, value: $type) -> Result<(), Failure> {
            self.0.begin(&value.to_string())
        })*
    };
}

macro_rules! no_keys {
    ($($method:ident($($type:ty),*) -> $ok:ty;)*) => {
        $(fn $method(self, $(_: $type),*) -> Result<$ok, Failure> {
            Err(Failure::unexpected("a string for a name"))
        })*
    };
}

impl Serializer for Key<'_, '_> {
    type Ok = ();
    type Error = Failure;
    type SerializeSeq = Impossible<(), Failure>;
    type SerializeTuple = Impossible<(), Failure>;
    type SerializeTupleStruct = Impossible<(), Failure>;
    type SerializeTupleVariant = Impossible<(), Failure>;
    type SerializeMap = Impossible<(), Failure>;
    type SerializeStruct = Impossible<(), Failure>;
    type SerializeStructVariant = Impossible<(), Failure>;

    fn serialize_str(self, key: &str) -> Result<(), Failure> {
        self.0.begin(key)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Failure> {
        self.0.begin(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Failure> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Failure> {
        Err(Failure::unexpected("a string for a name"))
    }

    plain_keys! {
        serialize_bool: bool, serialize_char: char,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
    }

    no_keys! {
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}
