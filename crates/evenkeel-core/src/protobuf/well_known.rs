//! Messages that stand for something else in JSON than an object of their fields.

use std::borrow::Cow;

use super::envelope::{self, PREFIX};
use super::error::BoxedError;
use super::field_reader::{Content, Run, bytes_of};
use super::table::{FieldKind, Message, Type};
use super::wire::{Reader, Wire};
use crate::error::ProtobufError;

/// What CBOR begins with in Kubernetes.
const CBOR: &[u8] = b"\xd9\xd9\xf7";

/// A text, as it is if it is UTF-8 and with marks where it is not, as Go's JSON has it (PB-037).
#[inline]
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Lossy conversion looks at the same bytes in a slower way.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// A quantity is a text; none is zero (PB-022).
pub(super) fn quantity(message: &[u8]) -> Result<&[u8], BoxedError> {
    let text = bytes_of(message, 1)?;
    Ok(if text.is_empty() { b"0" } else { text })
}

pub(super) enum IntOrText<'de> {
    Int(i32),
    Text(&'de [u8]),
}

/// What is no text is a number (PB-023).
pub(super) fn int_or_text(message: &[u8]) -> Result<IntOrText<'_>, BoxedError> {
    let (mut is_text, mut int, mut text) = (false, 0, &[][..]);
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => is_text = value.varint()? == 1,
            2 => int = value.varint()? as i32,
            3 => text = value.bytes()?,
            _ => {}
        }
    }
    Ok(if is_text { IntOrText::Text(text) } else { IntOrText::Int(int) })
}

/// A duration as Go prints it (PB-026).
pub(super) fn duration(message: &[u8]) -> Result<String, BoxedError> {
    let mut nanos = 0;
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.next()? {
        if number == 1 {
            nanos = value.varint()? as i64;
        }
    }
    let text = crate::duration::to_text(std::time::Duration::from_nanos(nanos.unsigned_abs()));
    Ok(if nanos < 0 { format!("-{text}") } else { text })
}

/// What a message that holds JSON holds (PB-027, PB-028).
pub(super) enum Json<'de> {
    /// Nothing, which is null.
    Null,
    /// JSON, or what passes for it: it has not been looked at.
    Text(&'de [u8]),
    /// An object in an envelope of its own.
    Object { message: &'static Message, type_meta: (&'de str, &'de str), raw: &'de [u8] },
}

pub(super) fn json(message: &[u8]) -> Result<Json<'_>, BoxedError> {
    let raw = bytes_of(message, 1)?;
    if raw.is_empty() {
        return Ok(Json::Null);
    }
    if raw.starts_with(PREFIX) {
        let envelope = envelope::unwrap_envelope(raw).map_err(BoxedError::new)?;
        let type_meta = (envelope.api_version, envelope.kind);
        return match Message::of_kind(envelope.api_version, envelope.kind) {
            Some(message) => Ok(Json::Object { message, type_meta, raw: envelope.raw }),
            None => Err(BoxedError::new(ProtobufError::OtherForm { path: "".into() })),
        };
    }
    if raw.starts_with(CBOR) {
        return Err(BoxedError::new(ProtobufError::OtherForm { path: "".into() }));
    }
    Ok(Json::Text(raw))
}

/// What one of the messages stands for that are a schema or something else (PB-033).
pub(super) enum Schema<'de> {
    Null,
    Bool(bool),
    Other(Type, Content<'de>),
}

pub(super) fn schema(of: Type, message: &[u8]) -> Result<Schema<'_>, BoxedError> {
    let (mut first, mut second) = (None, None);
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => first = Some(value),
            2 => second = Some(value),
            _ => {}
        }
    }
    let one = |value: Wire<'_>| value.bytes().map(|_| ());
    if of.kind == FieldKind::SchemaOrBool {
        return Ok(match (first, second) {
            (_, Some(schema)) => Schema::Other(of.as_message(), Content::One(schema)),
            (Some(allows), None) => Schema::Bool(allows.varint()? != 0),
            (None, None) => Schema::Bool(false),
        });
    }
    let item = if of.kind == FieldKind::SchemaOrStrings { Type::TEXT } else { of.as_message() };
    if let Some(second) = second {
        one(second)?;
        return Ok(Schema::Other(item, Content::List(Run::new(message, 2))));
    }
    Ok(first.map_or(Schema::Null, |schema| Schema::Other(of.as_message(), Content::One(schema))))
}

/// A double as JSON has it: Go writes whole numbers without a fraction.
pub(super) enum Number {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
}

pub(super) fn number(value: f64) -> Number {
    const SIGNED: f64 = 9_223_372_036_854_775_808.0;
    const UNSIGNED: f64 = 18_446_744_073_709_551_616.0;
    if value.fract() != 0.0 || (value == 0.0 && value.is_sign_negative()) {
        return Number::Double(value);
    }
    match value {
        value if (-SIGNED..SIGNED).contains(&value) => Number::Signed(value as i64),
        value if (0.0..UNSIGNED).contains(&value) => Number::Unsigned(value as u64),
        value => Number::Double(value),
    }
}
