//! What a value says that it is, without writing the rest of it.

use std::fmt;

use serde::ser::{Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};

/// The `apiVersion` and the `kind` that a value states, if it states both.
///
/// A request is sent to where a resource lives, but what is sent need not be of the resource's kind: a scale, a token that is
/// asked for, a mistake. Protobuf has to say what it is from outside, so it is the value that is asked.
pub(super) fn stated_kind<T: Serialize + ?Sized>(value: &T) -> Option<(String, String)> {
    match value.serialize(Root) {
        Ok(Stated { api_version: Some(api_version), kind: Some(kind), .. }) => Some((api_version, kind)),
        _ => None,
    }
}

/// Looks at the members of a value.
struct Root;

#[derive(Default)]
struct Stated {
    api_version: Option<String>,
    kind: Option<String>,
    /// The member whose value comes next.
    next: Option<String>,
}

impl Stated {
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        let place = match name {
            "apiVersion" => &mut self.api_version,
            "kind" => &mut self.kind,
            _ => return,
        };
        *place = value.serialize(Text).ok();
    }
}

impl SerializeStruct for Stated {
    type Ok = Stated;
    type Error = NotIt;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), NotIt> {
        self.member(name, value);
        Ok(())
    }

    fn end(self) -> Result<Stated, NotIt> {
        Ok(self)
    }
}

impl SerializeMap for Stated {
    type Ok = Stated;
    type Error = NotIt;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotIt> {
        self.next = key.serialize(Text).ok();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotIt> {
        if let Some(name) = self.next.take() {
            self.member(&name, value);
        }
        Ok(())
    }

    fn end(self) -> Result<Stated, NotIt> {
        Ok(self)
    }
}

/// Takes a text, and nothing else.
struct Text;

/// The value is nothing that could state a kind, or no text.
#[derive(Debug)]
struct NotIt;

impl fmt::Display for NotIt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not what is looked for")
    }
}

impl std::error::Error for NotIt {}

impl serde::ser::Error for NotIt {
    fn custom<T: fmt::Display>(_: T) -> Self {
        NotIt
    }
}

/// What neither of the two takes.
macro_rules! refuse {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, _: $type) -> Result<Self::Ok, NotIt> {
            Err(NotIt)
        })*
    };
}

/// What both of them do alike.
macro_rules! common {
    () => {
        type Error = NotIt;
        type SerializeSeq = Impossible<Self::Ok, NotIt>;
        type SerializeTuple = Impossible<Self::Ok, NotIt>;
        type SerializeTupleStruct = Impossible<Self::Ok, NotIt>;
        type SerializeTupleVariant = Impossible<Self::Ok, NotIt>;
        type SerializeStructVariant = Impossible<Self::Ok, NotIt>;

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

        fn serialize_none(self) -> Result<Self::Ok, NotIt> {
            Err(NotIt)
        }

        fn serialize_unit(self) -> Result<Self::Ok, NotIt> {
            Err(NotIt)
        }

        fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, NotIt> {
            value.serialize(self)
        }

        fn serialize_newtype_struct<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<Self::Ok, NotIt> {
            value.serialize(self)
        }

        fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Self::Ok, NotIt> {
            Err(NotIt)
        }

        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, NotIt> {
            Err(NotIt)
        }

        fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, NotIt> {
            Err(NotIt)
        }

        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, NotIt> {
            Err(NotIt)
        }

        fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, NotIt> {
            Err(NotIt)
        }

        fn serialize_tuple_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleVariant, NotIt> {
            Err(NotIt)
        }

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStructVariant, NotIt> {
            Err(NotIt)
        }
    };
}

impl Serializer for Root {
    type Ok = Stated;
    type SerializeMap = Stated;
    type SerializeStruct = Stated;
    common!();

    fn serialize_str(self, _: &str) -> Result<Stated, NotIt> {
        Err(NotIt)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Stated, NotIt> {
        Ok(Stated::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Stated, NotIt> {
        Ok(Stated::default())
    }
}

impl Serializer for Text {
    type Ok = String;
    type SerializeMap = Impossible<String, NotIt>;
    type SerializeStruct = Impossible<String, NotIt>;
    common!();

    fn serialize_str(self, text: &str) -> Result<String, NotIt> {
        Ok(text.to_owned())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, NotIt> {
        Err(NotIt)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, NotIt> {
        Err(NotIt)
    }
}

#[cfg(test)]
mod tests;
