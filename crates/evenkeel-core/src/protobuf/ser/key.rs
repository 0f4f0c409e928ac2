//! Serializes map keys and field names.

use serde::ser::{Impossible, Serialize, Serializer};

use super::super::error::BoxedError;
use super::parts::ObjectSerializer;

/// Serializes a key, which must be text or convertible to text.
pub(super) struct KeySerializer<'a, 'b>(pub(super) &'a mut ObjectSerializer<'b>);

macro_rules! plain_keys {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method(self, value: $type) -> Result<(), BoxedError> {
            self.0.begin(&value.to_string())
        })*
    };
}

macro_rules! no_keys {
    ($($method:ident($($type:ty),*) -> $ok:ty;)*) => {
        $(fn $method(self, $(_: $type),*) -> Result<$ok, BoxedError> {
            Err(BoxedError::unexpected("a string for a name"))
        })*
    };
}

impl Serializer for KeySerializer<'_, '_> {
    type Ok = ();
    type Error = BoxedError;
    type SerializeSeq = Impossible<(), BoxedError>;
    type SerializeTuple = Impossible<(), BoxedError>;
    type SerializeTupleStruct = Impossible<(), BoxedError>;
    type SerializeTupleVariant = Impossible<(), BoxedError>;
    type SerializeMap = Impossible<(), BoxedError>;
    type SerializeStruct = Impossible<(), BoxedError>;
    type SerializeStructVariant = Impossible<(), BoxedError>;

    fn serialize_str(self, key: &str) -> Result<(), BoxedError> {
        self.0.begin(key)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), BoxedError> {
        self.0.begin(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), BoxedError> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), BoxedError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), BoxedError> {
        Err(BoxedError::unexpected("a string for a name"))
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
