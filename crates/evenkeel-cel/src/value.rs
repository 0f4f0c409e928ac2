//! The values of expressions. Values of JSON are borrowed, and read with the types of their schema.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::library::opaque::Opaque;
use crate::schema::{DYN, DeclKind, DeclType, ListIdentity, ObjectDecl};
use crate::time;
use crate::types::Type;

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(jiff::Timestamp),
    /// A list.
    List(List<'a>),
    /// A map, or an object with declared fields.
    Map(Map<'a>),
    /// A type.
    Type(Type),
    /// An optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library.
    Opaque(Arc<Opaque<'a>>),
}

/// A string, borrowed or shared.
#[derive(Clone)]
pub enum Text<'a> {
    /// Part of the evaluated object.
    Borrowed(&'a str),
    /// Computed.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Computed.
    Owned(Arc<Vec<Value<'a>>>),
    /// An array of the evaluated object, with its type.
    Json(&'a [Json], &'a DeclType),
}

/// A map or object.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Computed.
    Owned(Arc<BTreeMap<Key, Value<'a>>>),
    /// An object of JSON, with its type.
    Json(&'a serde_json::Map<String, Json>, &'a DeclType),
    /// An object that an expression made: its type, and the fields by their names in JSON.
    Object(Arc<str>, Arc<BTreeMap<Key, Value<'a>>>),
}

/// The key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A boolean.
    Bool(bool),
    /// An integer; also an unsigned one that fits.
    Int(i64),
    /// An unsigned integer beyond those.
    Uint(u64),
    /// A string.
    String(Arc<str>),
}

impl Key {
    /// Returns the key that a value denotes, if it can be one.
    pub(crate) fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Uint(value) => i64::try_from(*value).map_or(Key::Uint(*value), Key::Int),
            // A double that is a whole number denotes the integer.
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9.0e15 => Key::Int(*value as i64),
            Value::String(text) => Key::String(Arc::from(&**text)),
            _ => return None,
        })
    }

    pub(crate) fn to_value<'a>(&self) -> Value<'a> {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Uint(value) => Value::Uint(*value),
            Key::String(text) => Value::String(Text::Shared(Arc::clone(text))),
        }
    }
}

impl<'a> Value<'a> {
    /// Returns a computed string.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Value::String(Text::Shared(text.into()))
    }

    /// Returns a computed list.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(List::Owned(Arc::new(items)))
    }

    pub(crate) fn map(entries: BTreeMap<Key, Value<'a>>) -> Self {
        Value::Map(Map::Owned(Arc::new(entries)))
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn opaque(value: Opaque<'a>) -> Self {
        Value::Opaque(Arc::new(value))
    }

    /// Reads a JSON value of a declared type. A value that is not of its type is read by its JSON type.
    pub fn from_json(json: &'a Json, decl: &'a DeclType) -> Self {
        match (json, decl.kind()) {
            (Json::Null, _) => Value::Null,
            (Json::Bool(value), _) => Value::Bool(*value),
            (Json::Number(number), DeclKind::Double) => Value::Double(number.as_f64().unwrap_or(0.0)),
            (Json::Number(number), kind) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), ..) => Value::Int(value),
                (None, Some(value), _) => Value::Uint(value),
                // An integer may be written with a fraction of zero.
                (.., Some(value)) if matches!(kind, DeclKind::Int) && value.fract() == 0.0 => Value::Int(value as i64),
                (.., value) => Value::Double(value.unwrap_or(0.0)),
            },
            (Json::String(text), kind) => Self::from_string(text, kind),
            (Json::Array(items), DeclKind::List(..)) => Value::List(List::Json(items, decl)),
            (Json::Array(items), _) => Value::List(List::Json(items, &DYN)),
            (Json::Object(fields), DeclKind::Map(_) | DeclKind::Object(_)) => Value::Map(Map::Json(fields, decl)),
            (Json::Object(fields), _) => Value::Map(Map::Json(fields, &DYN)),
        }
    }

    fn from_string(text: &'a str, kind: &DeclKind) -> Self {
        use base64::Engine as _;
        let parsed = match kind {
            DeclKind::Bytes => {
                base64::engine::general_purpose::STANDARD.decode(text).ok().map(|bytes| Value::Bytes(bytes.into()))
            }
            DeclKind::Duration => time::parse_duration(text).map(Value::Duration),
            DeclKind::Date => time::parse_date(text).map(Value::Timestamp),
            DeclKind::DateTime => time::parse_timestamp(text).map(Value::Timestamp),
            _ => None,
        };
        parsed.unwrap_or(Value::String(Text::Borrowed(text)))
    }

    /// Returns a JSON value with any content, by its JSON type.
    pub fn from_any_json(json: &'a Json) -> Self {
        Self::from_json(json, &DYN)
    }

    /// Returns the JSON of the value; `None` for values that JSON cannot have.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Uint(value) => Json::from(*value),
            Value::Double(value) => serde_json::Number::from_f64(*value).map(Json::Number)?,
            Value::String(text) => Json::String(text.to_string()),
            Value::Bytes(bytes) => {
                use base64::Engine as _;
                Json::String(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Value::Duration(nanos) => Json::String(time::format_duration(*nanos)),
            Value::Timestamp(at) => Json::String(time::format_timestamp(*at)),
            Value::List(List::Json(items, _)) => Json::Array(items.to_vec()),
            Value::List(list) => Json::Array(list.iter().map(|item| item.to_json()).collect::<Option<_>>()?),
            Value::Map(Map::Json(fields, _)) => Json::Object((*fields).clone()),
            Value::Map(map) => {
                let mut fields = serde_json::Map::new();
                for (key, value) in map.entries() {
                    let Key::String(key) = key else { return None };
                    fields.insert(key.to_string(), value.to_json()?);
                }
                Json::Object(fields)
            }
            Value::Optional(Some(value)) => value.to_json()?,
            Value::Optional(None) => Json::Null,
            Value::Type(_) | Value::Opaque(_) => return None,
        })
    }

    /// Returns whether the value has at most this many parts, in this depth. What is borrowed from JSON counts as one part. An
    /// expression over values that others have made shares their parts, and may have far more of them than it costs.
    pub fn is_bounded(&self, parts: usize, depth: usize) -> bool {
        self.count(&mut { parts }, depth).is_some()
    }

    /// Takes the parts from what is left, and ends when nothing is.
    fn count(&self, left: &mut usize, depth: usize) -> Option<()> {
        *left = left.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        match self {
            Value::List(List::Owned(items)) => items.iter().try_for_each(|item| item.count(left, depth)),
            Value::Map(Map::Owned(entries) | Map::Object(_, entries)) => {
                entries.values().try_for_each(|value| value.count(left, depth))
            }
            Value::Optional(Some(value)) => value.count(left, depth),
            _ => Some(()),
        }
    }

    /// Returns the type at run time.
    pub(crate) fn type_of(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(Map::Json(_, decl)) => match decl.kind() {
                DeclKind::Object(object) => Type::Object(Arc::clone(object)),
                _ => Type::map(Type::Dyn, Type::Dyn),
            },
            Value::Map(Map::Object(name, _)) => Type::Object(Arc::new(ObjectDecl::open(name))),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Type(_) => Type::Type(None),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Opaque(value) => Type::opaque(value.type_name()),
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            List::Owned(items) => items.len(),
            List::Json(items, _) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            List::Owned(items) => items.get(index).cloned(),
            List::Json(items, decl) => {
                items.get(index).map(|item| Value::from_json(item, decl.element().unwrap_or(&DYN)))
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns how items are identified, where the schema says so.
    pub(crate) fn identity(&self) -> Option<&'a ListIdentity> {
        match self {
            List::Json(_, decl) => match decl.kind() {
                DeclKind::List(_, identity) => Some(identity),
                _ => None,
            },
            List::Owned(_) => None,
        }
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Map::Owned(entries) | Map::Object(_, entries) => entries.len(),
            Map::Json(fields, decl) => match decl.kind() {
                DeclKind::Object(_) => self.entries().count(),
                _ => fields.len(),
            },
        }
    }

    /// Returns the value of a key. Fields of an object have the names of expressions.
    pub(crate) fn get(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (Map::Owned(entries) | Map::Object(_, entries), key) => entries.get(&Key::of(key)?).cloned(),
            (Map::Json(..), Value::String(name)) => self.field(name),
            (Map::Json(..), _) => None,
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Map::Owned(entries) | Map::Object(_, entries) => entries.get(&Key::String(name.into())).cloned(),
            Map::Json(fields, decl) => match decl.kind() {
                DeclKind::Object(object) => {
                    let field = object.field(name)?;
                    fields
                        .get(field.key())
                        .filter(|value| !value.is_null())
                        .map(|value| Value::from_json(value, field.decl()))
                }
                DeclKind::Map(value_type) => fields.get(name).map(|value| Value::from_json(value, value_type)),
                _ => fields.get(name).map(Value::from_any_json),
            },
        }
    }

    /// Returns the keys.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Owned(entries) | Map::Object(_, entries) => entries.keys().map(Key::to_value).collect(),
            Map::Json(fields, decl) if !matches!(decl.kind(), DeclKind::Object(_)) => {
                fields.keys().map(|key| Value::String(Text::Borrowed(key))).collect()
            }
            Map::Json(..) => self.entries().map(|(key, _)| key.to_value()).collect(),
        }
    }

    pub(crate) fn entries(&self) -> Box<dyn Iterator<Item = (Key, Value<'a>)> + '_> {
        match self {
            Map::Owned(entries) | Map::Object(_, entries) => {
                Box::new(entries.iter().map(|(key, value)| (key.clone(), value.clone())))
            }
            Map::Json(fields, decl) => match decl.kind() {
                DeclKind::Object(object) => Box::new(object.fields().filter_map(|(name, field)| {
                    let value = fields.get(field.key()).filter(|value| !value.is_null())?;
                    Some((Key::String(name.into()), Value::from_json(value, field.decl())))
                })),
                DeclKind::Map(value_type) => Box::new(
                    fields
                        .iter()
                        .map(|(key, value)| (Key::String(key.as_str().into()), Value::from_json(value, value_type))),
                ),
                _ => Box::new(
                    fields.iter().map(|(key, value)| (Key::String(key.as_str().into()), Value::from_any_json(value))),
                ),
            },
        }
    }
}
