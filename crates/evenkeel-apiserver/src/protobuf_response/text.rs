//! JSON text as something that can be serialised: what the server holds is text, and a tree of it, made only to be
//! written as protobuf, would cost more than the writing.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{self, Serialize, SerializeMap, SerializeSeq, Serializer};

/// JSON, which serialises as what it says.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serde_json::Deserializer::from_slice(self.0);
        Once::new(&mut json).serialize(serializer)
    }
}

/// A part of the text that has not been read. It can be serialised once, for reading it is what moves the reader on.
struct Once<D>(Cell<Option<D>>);

impl<D> Once<D> {
    fn new(deserializer: D) -> Self {
        Once(Cell::new(Some(deserializer)))
    }

    /// Reads what nobody has asked for: there are fields that are not written.
    fn skip<'de>(self) -> Result<(), D::Error>
    where
        D: Deserializer<'de>,
    {
        self.0.into_inner().map_or(Ok(()), |left| IgnoredAny::deserialize(left).map(|IgnoredAny| ()))
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Once<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let deserializer = self.0.take().ok_or_else(|| ser::Error::custom("this has been written already"))?;
        deserializer.deserialize_any(Writer(serializer)).map_err(ser::Error::custom)
    }
}

/// Writes what it is shown.
struct Writer<S>(S);

impl<'de, S: Serializer> Visitor<'de> for Writer<S> {
    type Value = S::Ok;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<S::Ok, E> {
        self.0.serialize_bool(value).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<S::Ok, E> {
        self.0.serialize_i64(value).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<S::Ok, E> {
        self.0.serialize_u64(value).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<S::Ok, E> {
        self.0.serialize_f64(value).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<S::Ok, E> {
        self.0.serialize_str(value).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<S::Ok, A::Error> {
        let mut list = self.0.serialize_seq(items.size_hint()).map_err(de::Error::custom)?;
        while items.next_element_seed(Item(&mut list))?.is_some() {}
        list.end().map_err(de::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<S::Ok, A::Error> {
        let mut map = self.0.serialize_map(entries.size_hint()).map_err(de::Error::custom)?;
        while entries.next_key_seed(Key(&mut map))?.is_some() {
            entries.next_value_seed(Entry(&mut map))?;
        }
        map.end().map_err(de::Error::custom)
    }
}

struct Item<'a, S>(&'a mut S);

impl<'de, S: SerializeSeq> DeserializeSeed<'de> for Item<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let item = Once::new(deserializer);
        self.0.serialize_element(&item).map_err(de::Error::custom)?;
        item.skip()
    }
}

struct Key<'a, S>(&'a mut S);

impl<'de, S: SerializeMap> DeserializeSeed<'de> for Key<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let key: Cow<'de, str> = Deserialize::deserialize(deserializer)?;
        self.0.serialize_key(&key).map_err(de::Error::custom)
    }
}

struct Entry<'a, S>(&'a mut S);

impl<'de, S: SerializeMap> DeserializeSeed<'de> for Entry<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = Once::new(deserializer);
        self.0.serialize_value(&value).map_err(de::Error::custom)?;
        value.skip()
    }
}
