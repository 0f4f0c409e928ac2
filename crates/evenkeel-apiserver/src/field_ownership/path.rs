//! Path elements in the encoding of `fieldsV1` (SSA-12).

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::json_text;

/// One element of a field path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathElement<'a> {
    /// `f:name`: a field of an object or a key of a map.
    Field(&'a str),
    /// `i:0`: an item of a list by its position.
    Index(u64),
    /// `k:{"name":"x"}`: an item of a list by some of its fields; canonical JSON.
    Key(Cow<'a, str>),
    /// `v:"x"`: an item of a set by its value; canonical JSON.
    Value(Cow<'a, str>),
}

impl<'a> PathElement<'a> {
    /// Returns the element of a list item with these key fields; `None` if it has none of them.
    pub(crate) fn key<'v>(fields: impl Iterator<Item = (&'v str, &'v Value)>) -> Option<Self> {
        let mut fields: Vec<(&str, &Value)> = fields.collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        if fields.is_empty() {
            return None;
        }
        let mut text = String::from("{");
        for (name, value) in fields {
            if text.len() > 1 {
                text.push(',');
            }
            push_string(name, &mut text);
            text.push(':');
            push_json(value, &mut text);
        }
        text.push('}');
        Some(PathElement::Key(Cow::Owned(text)))
    }

    /// Returns the element of a scalar set item; `None` if the item is not a scalar.
    pub(crate) fn value(item: &Value) -> Option<Self> {
        if item.is_null() || item.is_array() || item.is_object() {
            return None;
        }
        let mut text = String::new();
        push_json(item, &mut text);
        Some(PathElement::Value(Cow::Owned(text)))
    }

    /// Decodes an element. `Ok(None)` for an unknown kind, which a later version may have added.
    pub(crate) fn decode(text: &'a str) -> Result<Option<Self>, Malformed> {
        let (kind, rest) = text.split_once(':').ok_or(Malformed)?;
        match kind {
            "f" => Ok(Some(PathElement::Field(rest))),
            "i" => rest.parse().map(|index| Some(PathElement::Index(index))).map_err(|_| Malformed),
            "k" if is_plain_key(rest) => Ok(Some(PathElement::Key(Cow::Borrowed(rest)))),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| Malformed)?;
                let key = PathElement::key(fields.iter().map(|(name, value)| (name.as_str(), value)));
                key.map(Some).ok_or(Malformed)
            }
            "v" => {
                let value: Value = serde_json::from_str(rest).map_err(|_| Malformed)?;
                let mut text = String::new();
                push_json(&value, &mut text);
                Ok(Some(PathElement::Value(Cow::Owned(text))))
            }
            unknown if unknown.len() == 1 => Ok(None),
            _ => Err(Malformed),
        }
    }

    /// Appends the element as a key of `fieldsV1`, with its colon.
    pub(crate) fn write_key(&self, bytes: &mut Vec<u8>) {
        match self {
            PathElement::Field(name) => write_split_key(bytes, "f:", name),
            PathElement::Index(index) => bytes.extend_from_slice(format!("\"i:{index}\":").as_bytes()),
            PathElement::Key(key) => write_split_key(bytes, "k:", key),
            PathElement::Value(value) => write_split_key(bytes, "v:", value),
        }
    }
}

/// Appends a key in two parts, of which the first needs no escapes.
fn write_split_key(bytes: &mut Vec<u8>, kind: &str, rest: &str) {
    bytes.push(b'"');
    bytes.extend_from_slice(kind.as_bytes());
    json_text::write_content(bytes, rest);
    bytes.extend_from_slice(b"\":");
}

/// Formats the element as in messages: `.name`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Index(index) => write!(f, "[{index}]"),
            PathElement::Value(text) => write!(f, "[={text}]"),
            PathElement::Key(text) => {
                let fields: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
                f.write_str("[")?;
                for (position, (name, value)) in fields.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The error of a malformed path element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Encodes JSON as Go does, so that equal values have equal encodings, which also match those of other servers: whole
/// floats as integers, HTML characters escaped.
fn push_json(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => push_string(text, out),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Beyond 2^53 not every integer is a float: the text would claim a precision that the value lacks.
            Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
                out.push_str(&format!("{float:.0}"));
            }
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

fn push_string(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return;
    }
    for character in Value::from(text).to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
}

/// Returns whether a string needs no escapes in JSON.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&'))
}

/// Returns whether this is, in canonical form, the most frequent kind of key: one field with a plain string. Such a
/// key needs no parsing.
fn is_plain_key(text: &str) -> bool {
    let inner = text.strip_prefix("{\"").and_then(|text| text.strip_suffix("\"}"));
    let field = inner.and_then(|inner| inner.split_once("\":\""));
    field.is_some_and(|(name, value)| is_plain(name) && is_plain(value))
}
