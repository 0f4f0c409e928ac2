//! Reading and writing of kubeconfig fields.
//!
//! serde's derives do not meet two requirements: unknown fields must survive a rewrite, and a password like `0123`
//! must remain text. `#[serde(flatten)]` meets the first and breaks the second, because it infers the type of every
//! scalar. Each structure therefore reads its own fields by their types and keeps the others.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::config::Address;
use crate::secret::Secret;

/// Unknown fields.
pub(super) type Rest = BTreeMap<String, Opaque>;

/// The prefix of this module's errors. It distinguishes them from the parser's, which may quote the file.
pub(super) const OURS: &str = "kubeconfig: ";

/// A value that is passed through. `Debug` does not show it, because it may be a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Opaque(pub Value);

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[not shown]")
    }
}

/// The decoded value of a `…-data` field: certificates or a private key. `Debug` shows the length only. The memory is
/// overwritten when the last clone is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Data(Arc<Zeroizing<Vec<u8>>>);

impl Data {
    /// Creates the value from bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Data(Arc::new(Zeroizing::new(bytes.into())))
    }

    /// Returns the bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes as PEM text.
    pub(super) fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

/// A kubeconfig value. Null is the default, and the default is not written.
pub(super) trait Field: Default {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
    fn write(&self) -> Option<Value>;
}

/// An item of a named list: `- name: it`, `  cluster: {…}`.
pub(super) trait NamedEntry: Field {
    /// The key of the value, such as `cluster`.
    const KEY: &'static str;
    /// Unknown fields beside name and value.
    fn beside(&self) -> &Rest;
    fn set_beside(&mut self, beside: Rest);
}

pub(super) struct Seed<T>(PhantomData<T>);

impl<T> Seed<T> {
    pub(super) fn new() -> Self {
        Seed(PhantomData)
    }
}

impl<'de, T: Field> DeserializeSeed<'de> for Seed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: Field> Visitor<'de> for Seed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_none<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

impl Field for bool {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bool::deserialize(deserializer)
    }

    fn write(&self) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }
}

/// Reads text; empty text is `None`.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(deserializer)?).filter(|text| !text.is_empty()))
}

impl Field for Option<String> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer)
    }

    fn write(&self) -> Option<Value> {
        self.as_deref().filter(|text| !text.is_empty()).map(Value::from)
    }
}

impl Field for Option<Address> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(text(deserializer)?.map(Address::from))
    }

    fn write(&self) -> Option<Value> {
        self.as_deref().filter(|text| !text.is_empty()).map(Value::from)
    }
}

impl Field for Option<PathBuf> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(text(deserializer)?.map(PathBuf::from))
    }

    fn write(&self) -> Option<Value> {
        self.as_deref().filter(|path| !path.as_os_str().is_empty()).map(|path| path.to_string_lossy().into())
    }
}

impl Field for Option<Secret> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(text(deserializer)?.map(Secret::new))
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().filter(|secret| !secret.is_empty()).map(|secret| secret.expose().into())
    }
}

impl Field for Option<Data> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(encoded) = text(deserializer)?.map(Zeroizing::new) else { return Ok(None) };
        // Long values are often wrapped over several lines.
        let encoded: Zeroizing<Vec<u8>> =
            Zeroizing::new(encoded.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect());
        match BASE64_STANDARD.decode(&*encoded) {
            Ok(bytes) if bytes.is_empty() => Ok(None),
            Ok(bytes) => Ok(Some(Data::new(bytes))),
            Err(_) => Err(D::Error::custom(format_args!("{OURS}this is not base64"))),
        }
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().filter(|data| !data.0.is_empty()).map(|data| BASE64_STANDARD.encode(data.expose()).into())
    }
}

impl Field for Vec<String> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer)
    }

    fn write(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.clone().into())
    }
}

impl Field for Vec<Secret> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<String>::deserialize(deserializer)?.into_iter().map(Secret::new).collect())
    }

    fn write(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.iter().map(Secret::expose).collect())
    }
}

impl Field for BTreeMap<String, Vec<String>> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer)
    }

    fn write(&self) -> Option<Value> {
        (!self.is_empty())
            .then(|| self.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect())
    }
}

impl Field for BTreeMap<String, Secret> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<String, String>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(key, value)| (key, Secret::new(value))).collect())
    }

    fn write(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.iter().map(|(key, value)| (key.clone(), Value::from(value.expose()))).collect())
    }
}

impl Field for Opaque {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Opaque)
    }

    fn write(&self) -> Option<Value> {
        Some(self.0.clone())
    }
}

static NOTHING: Rest = Rest::new();

impl NamedEntry for Opaque {
    const KEY: &'static str = "extension";

    fn beside(&self) -> &Rest {
        &NOTHING
    }

    /// An extension has no further fields.
    fn set_beside(&mut self, _: Rest) {}
}

/// A list of named entries. A duplicate name is an error, and the list is written in the order of the names.
impl<T: NamedEntry> Field for BTreeMap<String, T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);

        impl<'de, T: NamedEntry> Visitor<'de> for List<T> {
            type Value = BTreeMap<String, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((name, value)) = list.next_element_seed(Item(PhantomData))? {
                    if entries.contains_key(&name) {
                        let key = T::KEY;
                        return Err(A::Error::custom(format_args!("{OURS}there are two entries {name:?} ({key})")));
                    }
                    entries.insert(name, value);
                }
                Ok(entries)
            }
        }

        struct Item<T>(PhantomData<T>);

        impl<'de, T: NamedEntry> DeserializeSeed<'de> for Item<T> {
            type Value = (String, T);

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(String, T), D::Error> {
                deserializer.deserialize_map(self)
            }
        }

        impl<'de, T: NamedEntry> Visitor<'de> for Item<T> {
            type Value = (String, T);

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an entry with a name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(String, T), A::Error> {
                let (mut name, mut value, mut beside) = (None, T::default(), Rest::new());
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => name = map.next_value_seed(Seed::<Option<String>>::new())?,
                        key if key == T::KEY => value = map.next_value_seed(Seed::<T>::new())?,
                        _ => drop(beside.insert(key, Opaque(map.next_value()?))),
                    }
                }
                value.set_beside(beside);
                Ok((name.unwrap_or_default(), value))
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }

    fn write(&self) -> Option<Value> {
        let entry = |(name, value): (&String, &T)| {
            let mut entry = serde_json::Map::new();
            entry.insert("name".into(), name.as_str().into());
            entry.insert(T::KEY.into(), value.write().unwrap_or_else(|| Value::Object(serde_json::Map::new())));
            entry.extend(value.beside().iter().map(|(key, value)| (key.clone(), value.0.clone())));
            Value::Object(entry)
        };
        (!self.is_empty()).then(|| self.iter().map(entry).collect())
    }
}

/// Declares a structure of the file: its fields with their keys, plus the unknown fields. An item of a named list
/// declares its key: `Cluster in "cluster" {…}`.
macro_rules! structure {
    (
        $(#[$meta:meta])*
        $name:ident $(in $entry:literal)? { $($(#[$field_meta:meta])* $field:ident: $type:ty = $key:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Unknown fields.
            pub(super) rest: Rest,
            $(
                #[doc = concat!("What else the list holds beside the name and the ", $entry, ".")]
                pub(super) beside: Rest,
            )?
        }

        impl Field for $name {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;

                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a mapping")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut this = $name::default();
                        while let Some(key) = map.next_key::<String>()? {
                            match key.as_str() {
                                $($key => this.$field = map.next_value_seed(Seed::new())?,)*
                                _ => drop(this.rest.insert(key, Opaque(map.next_value()?))),
                            }
                        }
                        Ok(this)
                    }
                }

                deserializer.deserialize_map(Fields)
            }

            fn write(&self) -> Option<Value> {
                let mut map = serde_json::Map::new();
                $(if let Some(value) = Field::write(&self.$field) {
                    map.insert($key.into(), value);
                })*
                map.extend(self.rest.iter().map(|(key, value)| (key.clone(), value.0.clone())));
                (!map.is_empty()).then_some(Value::Object(map))
            }
        }

        $(impl NamedEntry for $name {
            const KEY: &'static str = $entry;

            fn beside(&self) -> &Rest {
                &self.beside
            }

            fn set_beside(&mut self, beside: Rest) {
                self.beside = beside;
            }
        })?
    };
}

/// Declares an optional structure, which is kept when present and empty.
macro_rules! optional {
    ($name:ident) => {
        impl Field for Option<$name> {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $name::read(deserializer).map(Some)
            }

            fn write(&self) -> Option<Value> {
                self.as_ref().map(|this| this.write().unwrap_or_else(|| Value::Object(serde_json::Map::new())))
            }
        }
    };
}

pub(super) use {optional, structure};
