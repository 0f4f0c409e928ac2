//! [`type_meta`]: the `apiVersion` and `kind` of a value, without serializing the rest of it.

use std::fmt;

use serde::ser::{Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};

/// Returns the `apiVersion` and the `kind` of a value, if it has both.
///
/// The body of a request need not be of the resource's kind: a scale, a token request, a mistake. The protobuf envelope
/// states the kind, so it is taken from the value.
pub(super) fn type_meta<T: Serialize + ?Sized>(value: &T) -> Option<(String, String)> {
    match value.serialize(Root) {
        Ok(TypeMetaFields { api_version: Some(api_version), kind: Some(kind), .. }) => Some((api_version, kind)),
        _ => None,
    }
}

/// Collects the members of a value.
struct Root;

#[derive(Default)]
struct TypeMetaFields {
    api_version: Option<String>,
    kind: Option<String>,
    /// The member whose value follows.
    next: Option<String>,
}

impl TypeMetaFields {
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        let place = match name {
            "apiVersion" => &mut self.api_version,
            "kind" => &mut self.kind,
            _ => return,
        };
        *place = value.serialize(Text).ok();
    }
}

impl SerializeStruct for TypeMetaFields {
    type Ok = TypeMetaFields;
    type Error = NotTypeMeta;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), NotTypeMeta> {
        self.member(name, value);
        Ok(())
    }

    fn end(self) -> Result<TypeMetaFields, NotTypeMeta> {
        Ok(self)
    }
}

impl SerializeMap for TypeMetaFields {
    type Ok = TypeMetaFields;
    type Error = NotTypeMeta;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotTypeMeta> {
        self.next = key.serialize(Text).ok();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotTypeMeta> {
        if let Some(name) = self.next.take() {
            self.member(&name, value);
        }
        Ok(())
    }

    fn end(self) -> Result<TypeMetaFields, NotTypeMeta> {
        Ok(self)
    }
}

/// Accepts a string only.
struct Text;

/// The value has no `apiVersion` and `kind`, or is no string.
#[derive(Debug)]
struct NotTypeMeta;

impl fmt::Display for NotTypeMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no type metadata")
    }
}

impl std::error::Error for NotTypeMeta {}

impl serde::ser::Error for NotTypeMeta {
    fn custom<T: fmt::Display>(_: T) -> Self {
        NotTypeMeta
    }
}

/// What both serializers reject.
macro_rules! refuse {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, _: $type) -> Result<Self::Ok, NotTypeMeta> {
            Err(NotTypeMeta)
        })*
    };
}

/// What both serializers have in common.
macro_rules! common {
    () => {
        type Error = NotTypeMeta;
        type SerializeSeq = Impossible<Self::Ok, NotTypeMeta>;
        type SerializeTuple = Impossible<Self::Ok, NotTypeMeta>;
        type SerializeTupleStruct = Impossible<Self::Ok, NotTypeMeta>;
        type SerializeTupleVariant = Impossible<Self::Ok, NotTypeMeta>;
        type SerializeStructVariant = Impossible<Self::Ok, NotTypeMeta>;

        refuse!(
            serialize_bool: bool,
            serialize_i8: i8,
            serialize_i16: i16,
            serialize_i32: i32,
            serialize_i64: i64,
            serialize_u8: u8,
            serialize_u16: u16,
            serialize_u32: u32,
            serialize_u64: u64,
            serialize_f32: f32,
            serialize_f64: f64,
            serialize_char: char,
            serialize_bytes: &[u8],
            serialize_unit_struct: &'static str,
        );

        fn serialize_none(self) -> Result<Self::Ok, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_unit(self) -> Result<Self::Ok, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, NotTypeMeta> {
            value.serialize(self)
        }

        fn serialize_newtype_struct<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<Self::Ok, NotTypeMeta> {
            value.serialize(self)
        }

        fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Self::Ok, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_tuple_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleVariant, NotTypeMeta> {
            Err(NotTypeMeta)
        }

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStructVariant, NotTypeMeta> {
            Err(NotTypeMeta)
        }
    };
}

impl Serializer for Root {
    type Ok = TypeMetaFields;
    type SerializeMap = TypeMetaFields;
    type SerializeStruct = TypeMetaFields;
    common!();

    fn serialize_str(self, _: &str) -> Result<TypeMetaFields, NotTypeMeta> {
        Err(NotTypeMeta)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<TypeMetaFields, NotTypeMeta> {
        Ok(TypeMetaFields::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<TypeMetaFields, NotTypeMeta> {
        Ok(TypeMetaFields::default())
    }
}

impl Serializer for Text {
    type Ok = String;
    type SerializeMap = Impossible<String, NotTypeMeta>;
    type SerializeStruct = Impossible<String, NotTypeMeta>;
    common!();

    fn serialize_str(self, text: &str) -> Result<String, NotTypeMeta> {
        Ok(text.to_owned())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, NotTypeMeta> {
        Err(NotTypeMeta)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, NotTypeMeta> {
        Err(NotTypeMeta)
    }
}

#[cfg(test)]
mod tests;
