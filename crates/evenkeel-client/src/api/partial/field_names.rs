//! [`FieldNames`]: the JSON names of the fields of a type.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

/// The JSON names of the fields of a struct, as its `Deserialize` states them; none for other types.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldNames(&'static [&'static str]);

impl FieldNames {
    /// Returns the names of the fields of a type. Nothing is decoded: the type states them before it reads anything.
    pub(super) fn of<T: DeserializeOwned>() -> Self {
        let mut names = FieldNames::default();
        // It always fails.
        _ = T::deserialize(Probe(&mut names));
        names
    }

    /// Returns the JSON name of a Rust field: the name with the same letters and digits, such as `clusterIPs` for
    /// `cluster_ips`. Returns `None` if there is none.
    pub(super) fn json_name(self, field: &str) -> Option<&'static str> {
        // The one name of k8s-openapi with other letters.
        let field = if field == "ref_path" && self.0.contains(&"$ref") { "$ref" } else { field };
        self.0.iter().copied().find(|name| letters(name).eq(letters(field)))
    }
}

/// Returns the letters and digits of a name in lower case.
fn letters(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase())
}

/// A deserializer that records the fields of the struct that is asked for, and has no value.
struct Probe<'a>(&'a mut FieldNames);

#[derive(Debug)]
struct NoValue;

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no value")
    }
}

impl std::error::Error for NoValue {}

impl Error for NoValue {
    fn custom<T: fmt::Display>(_: T) -> Self {
        NoValue
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = NoValue;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
        Err(NoValue)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NoValue> {
        *self.0 = FieldNames(fields);
        Err(NoValue)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, NoValue> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}
