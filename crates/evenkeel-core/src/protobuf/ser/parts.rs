//! Serializers of lists, messages and maps.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, SerializeTupleStruct};

use super::super::error::BoxedError;
use super::super::table::{Cardinality, FieldKind, INLINE_LEVELS, Message, Named};
use super::super::wire::put_bytes;
use super::key::KeySerializer;
use super::{EncodedField, Encoder, Slot, close, open, put_zero};
use crate::error::ProtobufError;

/// Serializes the items of a list.
pub(super) struct ListSerializer<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) slot: Slot,
    /// The start of the contents of the message around the items, or zero.
    pub(super) close: usize,
    pub(super) index: usize,
}

impl SerializeSeq for ListSerializer<'_> {
    type Ok = ();
    type Error = BoxedError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), BoxedError> {
        let before = self.encoder.out.len();
        self.encoder.put(self.slot, value).map_err(|error| error.in_item(self.index))?;
        self.index += 1;
        if self.encoder.out.len() == before {
            put_zero(&mut self.encoder.out, self.slot);
        }
        Ok(())
    }

    fn end(self) -> Result<(), BoxedError> {
        if self.close > 0 {
            close(&mut self.encoder.out, self.close);
        }
        Ok(())
    }
}

impl SerializeTuple for ListSerializer<'_> {
    type Ok = ();
    type Error = BoxedError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), BoxedError> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), BoxedError> {
        SerializeSeq::end(self)
    }
}

impl SerializeTupleStruct for ListSerializer<'_> {
    type Ok = ();
    type Error = BoxedError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), BoxedError> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<(), BoxedError> {
        SerializeSeq::end(self)
    }
}

/// Serializes a JSON object: the fields of a message or the entries of a map.
pub(super) enum ObjectSerializer<'a> {
    MessageSerializer(MessageSerializer<'a>),
    MapSerializer(MapSerializer<'a>),
}

pub(super) struct MessageSerializer<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) message: &'static Message,
    pub(super) depth: usize,
    /// The start of the message, in the bytes and in the parts.
    pub(super) start: usize,
    pub(super) first: usize,
    /// The starts of the contents of enclosing fields to close after the message, from the outside; zero for none.
    pub(super) close: [usize; 2],
    /// The first index where the next name may be: types serialize in alphabetical order.
    pub(super) next: usize,
    pub(super) pending: Option<&'static Named>,
}

impl MessageSerializer<'_> {
    /// Finds a field. Returns `None` for `apiVersion` and `kind`, which are part of the envelope (PB-081). Any other unknown name is an
    /// error, as its value would be lost.
    fn find(&mut self, name: &str) -> Result<Option<&'static Named>, BoxedError> {
        let ahead = self.message.names().get(self.next..).unwrap_or_default();
        match ahead.iter().find(|named| named.name == name).or_else(|| self.message.named(name)) {
            Some(named) => {
                self.next = named.index + 1;
                Ok(Some(named))
            }
            None if name == "apiVersion" || name == "kind" => Ok(None),
            None => Err(BoxedError::new(ProtobufError::NotRepresentable { path: name.into() })),
        }
    }

    fn put<T: Serialize + ?Sized>(&mut self, named: &'static Named, value: &T) -> Result<(), BoxedError> {
        let field = &named.field;
        let start = self.encoder.out.len();
        let slot = Slot { of: field.of, cardinality: field.cardinality, number: field.number, depth: self.depth };
        self.encoder.put(slot, value).map_err(|error| error.in_field(named.name))?;
        let end = self.encoder.out.len();
        if end > start {
            let [outer, inner] = named.path;
            let order = match (outer, inner) {
                (0, _) => [field.number, 0, 0],
                (outer, 0) => [outer, field.number, 0],
                (outer, inner) => [outer, inner, field.number],
            };
            self.encoder.parts.push(EncodedField { order, start, end });
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

pub(super) struct MapSerializer<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) slot: Slot,
    pub(super) start: usize,
    pub(super) first: usize,
    /// The start of the entry in progress, and of its contents.
    pub(super) pair: (usize, usize),
}

impl MapSerializer<'_> {
    fn begin(&mut self, key: &str) {
        let start = self.encoder.out.len();
        self.pair = (start, open(&mut self.encoder.out, self.slot.number));
        put_bytes(&mut self.encoder.out, 1, key.as_bytes());
    }

    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), BoxedError> {
        let slot = Slot { cardinality: Cardinality::One, number: 2, ..self.slot };
        let before = self.encoder.out.len();
        self.encoder.put(slot, value)?;
        if self.encoder.out.len() == before && slot.of.kind != FieldKind::Bytes {
            put_zero(&mut self.encoder.out, slot);
        }
        let (start, contents) = self.pair;
        close(&mut self.encoder.out, contents);
        let end = self.encoder.out.len();
        self.encoder.parts.push(EncodedField { order: [0; INLINE_LEVELS + 1], start, end });
        Ok(())
    }
}

impl ObjectSerializer<'_> {
    pub(super) fn begin(&mut self, key: &str) -> Result<(), BoxedError> {
        match self {
            ObjectSerializer::MessageSerializer(fields) => fields.pending = fields.find(key)?,
            ObjectSerializer::MapSerializer(pairs) => pairs.begin(key),
        }
        Ok(())
    }
}

impl SerializeMap for ObjectSerializer<'_> {
    type Ok = ();
    type Error = BoxedError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), BoxedError> {
        key.serialize(KeySerializer(self))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), BoxedError> {
        match self {
            ObjectSerializer::MessageSerializer(fields) => match fields.pending.take() {
                Some(named) => fields.put(named, value),
                None => Ok(()),
            },
            ObjectSerializer::MapSerializer(pairs) => pairs.put(value),
        }
    }

    fn end(self) -> Result<(), BoxedError> {
        match self {
            ObjectSerializer::MessageSerializer(fields) => fields.end(),
            ObjectSerializer::MapSerializer(pairs) => pairs.encoder.finish_pairs(pairs.start, pairs.first),
        }
        Ok(())
    }
}

impl SerializeStruct for ObjectSerializer<'_> {
    type Ok = ();
    type Error = BoxedError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), BoxedError> {
        self.begin(key)?;
        SerializeMap::serialize_value(self, value)
    }

    fn end(self) -> Result<(), BoxedError> {
        SerializeMap::end(self)
    }
}
