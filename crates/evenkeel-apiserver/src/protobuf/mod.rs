//! Bodies in Kubernetes' protobuf, which Go clients send for built-in kinds, read into the JSON form of the same object
//! (BIN-1).
//!
//! Answers are JSON: clients that send protobuf accept both.

mod table;
mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use self::table::{Field, Kind, Message, Place, Shape};
use self::wire::{Reader, Wire};
use crate::env::{rfc3339, rfc3339_micro};
use crate::schema::MAX_DEPTH;

/// What every body begins with.
const PREFIX: &[u8] = b"k8s\0";

/// Why a body is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufFault {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    #[error("unexpected end of the message")]
    Cut,
    #[error("field {number} has the wire type {wire}, which does not fit it")]
    Wire { number: u64, wire: u64 },
    #[error("the field {0} is not UTF-8")]
    Text(u64),
    #[error("the field {0} holds what is not JSON")]
    Json(u64),
    #[error("the field {0} holds no time")]
    Time(u64),
    #[error("the message nests deeper than {MAX_DEPTH} levels")]
    Depth,
    #[error("no kind {kind:?} is known for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
}

/// Reads a body. The object names its kind and version, as JSON does.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufFault> {
    let envelope = body.strip_prefix(PREFIX).ok_or(ProtobufFault::NoPrefix)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, wire) => {
                let mut type_meta = Reader::new(wire.bytes(1)?);
                while let Some((number, wire)) = type_meta.next()? {
                    match number {
                        1 => api_version = text(number, wire)?.to_owned(),
                        2 => kind = text(number, wire)?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, wire) => raw = wire.bytes(2)?,
            _ => {}
        }
    }
    let Some(message) = Message::of_kind(&api_version, &kind) else {
        return Err(ProtobufFault::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("kind".into(), kind.into());
    object.insert("apiVersion".into(), api_version.into());
    fill(message, raw, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// Reads the fields of a message into an object. Answers with the value that the message stands for, if it is not the
/// object.
fn fill(
    message: &Message,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<Option<Value>, ProtobufFault> {
    if depth > MAX_DEPTH {
        return Err(ProtobufFault::Depth);
    }
    let mut whole = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        let Some(field) = message.field(number) else { continue };
        let name = match field.place {
            Place::Named(name) => name,
            Place::Whole => {
                let mut slot = whole.take().unwrap_or(Value::Null);
                put(field, number, wire, &mut slot, depth)?;
                whole = Some(slot);
                continue;
            }
            Place::Inline => {
                if let Kind::Message(name) = field.kind
                    && let Some(message) = Message::named(name)
                {
                    fill(message, wire.bytes(number)?, object, depth + 1)?;
                }
                continue;
            }
        };
        if field.shape == Shape::Plain && wire.is_zero() && is_scalar(field.kind) {
            continue;
        }
        put(field, number, wire, object.entry(name).or_insert(Value::Null), depth)?;
    }
    Ok(whole)
}

/// Adds one occurrence of a field to what there is of it.
fn put(field: &Field, number: u64, wire: Wire<'_>, slot: &mut Value, depth: usize) -> Result<(), ProtobufFault> {
    match field.shape {
        Shape::Plain | Shape::Optional => *slot = value(field.kind, number, wire, depth)?,
        Shape::List => {
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            if let Value::Array(items) = slot {
                items.push(value(field.kind, number, wire, depth)?);
            }
        }
        Shape::Map => {
            let mut pair = Reader::new(wire.bytes(number)?);
            let (mut key, mut entry) = (String::new(), absent(field.kind));
            while let Some((part, wire)) = pair.next()? {
                match part {
                    1 => key = text(number, wire)?.to_owned(),
                    2 => entry = value(field.kind, number, wire, depth)?,
                    _ => {}
                }
            }
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(entries) = slot {
                entries.insert(key, entry);
            }
        }
    }
    Ok(())
}

fn is_scalar(kind: Kind) -> bool {
    matches!(kind, Kind::String | Kind::Int | Kind::Bool | Kind::Bytes | Kind::Double)
}

/// The value of a pair that has none.
fn absent(kind: Kind) -> Value {
    match kind {
        Kind::String | Kind::Bytes => "".into(),
        Kind::Int | Kind::Double => 0.into(),
        Kind::Bool => false.into(),
        _ => Value::Null,
    }
}

fn value(kind: Kind, number: u64, wire: Wire<'_>, depth: usize) -> Result<Value, ProtobufFault> {
    Ok(match kind {
        Kind::String => text(number, wire)?.into(),
        Kind::Int => wire.int(number)?.into(),
        Kind::Bool => (wire.int(number)? != 0).into(),
        Kind::Bytes => STANDARD.encode(wire.bytes(number)?).into(),
        Kind::Double => double(wire.double(number)?),
        Kind::Time | Kind::MicroTime => time(kind, number, wire.bytes(number)?)?,
        Kind::Quantity => {
            let mut text_of = String::new();
            let mut reader = Reader::new(wire.bytes(number)?);
            while let Some((part, wire)) = reader.next()? {
                if part == 1 {
                    text_of = text(number, wire)?.to_owned();
                }
            }
            if text_of.is_empty() { "0".into() } else { text_of.into() }
        }
        Kind::IntOrString => int_or_string(number, wire.bytes(number)?)?,
        Kind::Json => {
            let mut raw = &[][..];
            let mut reader = Reader::new(wire.bytes(number)?);
            while let Some((part, wire)) = reader.next()? {
                if part == 1 {
                    raw = wire.bytes(number)?;
                }
            }
            match raw {
                [] => Value::Null,
                raw => serde_json::from_slice(raw).map_err(|_| ProtobufFault::Json(number))?,
            }
        }
        Kind::Message(name) => {
            let mut object = Map::new();
            let message = Message::named(name);
            let whole =
                message.map(|message| fill(message, wire.bytes(number)?, &mut object, depth + 1)).transpose()?;
            whole.flatten().unwrap_or(Value::Object(object))
        }
    })
}

fn text<'a>(number: u64, wire: Wire<'a>) -> Result<&'a str, ProtobufFault> {
    std::str::from_utf8(wire.bytes(number)?).map_err(|_| ProtobufFault::Text(number))
}

/// Whole numbers without a fraction, as Go writes them.
fn double(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        return (value as i64).into();
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A time that is not set is an empty message, and null.
fn time(kind: Kind, number: u64, bytes: &[u8]) -> Result<Value, ProtobufFault> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((part, wire)) = reader.next()? {
        match part {
            1 => seconds = wire.int(number)?,
            2 => nanos = wire.int(number)?,
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).map_err(|_| ProtobufFault::Time(number))?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtobufFault::Time(number))?;
    Ok(if kind == Kind::Time { rfc3339(time) } else { rfc3339_micro(time) }.into())
}

fn int_or_string(number: u64, bytes: &[u8]) -> Result<Value, ProtobufFault> {
    let (mut is_text, mut int, mut string) = (false, 0, "");
    let mut reader = Reader::new(bytes);
    while let Some((part, wire)) = reader.next()? {
        match part {
            1 => is_text = wire.int(number)? != 0,
            2 => int = wire.int(number)?,
            3 => string = text(number, wire)?,
            _ => {}
        }
    }
    Ok(if is_text { string.into() } else { int.into() })
}

#[cfg(test)]
mod tests;
