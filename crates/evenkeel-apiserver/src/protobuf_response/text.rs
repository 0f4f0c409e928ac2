//! Serialises JSON text directly. Parsing it into a value first would cost more than encoding it as protobuf.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{self, Serialize, SerializeMap, SerializeSeq, Serializer};

/// JSON text that serialises as its value.
pub(crate) struct JsonText<'a>(pub(crate) &'a [u8]);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serde_json::Deserializer::from_slice(self.0);
        Once::new(&mut json).serialize(serializer)
    }
}

/// An unread part of the text. It can be serialised once, because that advances the reader.
struct Once<D>(Cell<Option<D>>);

impl<D> Once<D> {
    fn new(deserializer: D) -> Self {
        Once(Cell::new(Some(deserializer)))
    }

    /// Skips the part if it was not serialised: some fields have no protobuf form.
    fn skip<'de>(self) -> Result<(), D::Error>
    where
        D: Deserializer<'de>,
    {
        self.0.into_inner().map_or(Ok(()), |left| IgnoredAny::deserialize(left).map(|IgnoredAny| ()))
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Once<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let deserializer = self.0.take().ok_or_else(|| ser::Error::custom("this value was serialised already"))?;
        deserializer.deserialize_any(Forward(serializer)).map_err(ser::Error::custom)
    }
}

/// Forwards the visited value to a serializer.
struct Forward<S>(S);

impl<'de, S: Serializer> Visitor<'de> for Forward<S> {
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
            entries.next_value_seed(MapEntry(&mut map))?;
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

struct MapEntry<'a, S>(&'a mut S);

impl<'de, S: SerializeMap> DeserializeSeed<'de> for MapEntry<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = Once::new(deserializer);
        self.0.serialize_value(&value).map_err(de::Error::custom)?;
        value.skip()
    }
}
