//! Well-known messages, whose JSON is not an object of their fields.

use std::borrow::Cow;

use super::envelope::{self, PREFIX};
use super::error::BoxedError;
use super::field_reader::{Content, Run, bytes_of};
use super::table::{FieldKind, FieldType, Message};
use super::wire::{Reader, Wire};
use crate::error::ProtobufError;

/// The first bytes of CBOR in Kubernetes.
const CBOR: &[u8] = b"\xd9\xd9\xf7";

/// Returns a text with replacement characters for invalid UTF-8, as Go's JSON has it (PB-037).
#[inline]
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // The lossy conversion is slower for valid UTF-8.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Returns the text of a quantity; an absent one is zero (PB-022).
pub(super) fn quantity(message: &[u8]) -> Result<&[u8], BoxedError> {
    let text = bytes_of(message, 1)?;
    Ok(if text.is_empty() { b"0" } else { text })
}

pub(super) enum IntOrText<'de> {
    Int(i32),
    Text(&'de [u8]),
}

/// Reads an int-or-string, which is an integer unless it states a string (PB-023).
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

/// Formats a duration as Go does (PB-026).
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

/// The content of a message of embedded JSON (PB-027, PB-028).
pub(super) enum EmbeddedJson<'de> {
    /// An empty message, which is null.
    Null,
    /// Unchecked JSON.
    Text(&'de [u8]),
    /// An object in an envelope.
    Object { message: &'static Message, type_meta: (&'de str, &'de str), raw: &'de [u8] },
}

pub(super) fn json(message: &[u8]) -> Result<EmbeddedJson<'_>, BoxedError> {
    let raw = bytes_of(message, 1)?;
    if raw.is_empty() {
        return Ok(EmbeddedJson::Null);
    }
    if raw.starts_with(PREFIX) {
        let envelope = envelope::unwrap_envelope(raw).map_err(BoxedError::new)?;
        let type_meta = (envelope.api_version, envelope.kind);
        return match Message::of_kind(envelope.api_version, envelope.kind) {
            Some(message) => Ok(EmbeddedJson::Object { message, type_meta, raw: envelope.raw }),
            None => Err(BoxedError::new(ProtobufError::UnsupportedFormat { path: "".into() })),
        };
    }
    if raw.starts_with(CBOR) {
        return Err(BoxedError::new(ProtobufError::UnsupportedFormat { path: "".into() }));
    }
    Ok(EmbeddedJson::Text(raw))
}

/// The content of a message that is a schema or an alternative (PB-033).
pub(super) enum Schema<'de> {
    Null,
    Bool(bool),
    Other(FieldType, Content<'de>),
}

pub(super) fn schema(of: FieldType, message: &[u8]) -> Result<Schema<'_>, BoxedError> {
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
    let item = if of.kind == FieldKind::SchemaOrStrings { FieldType::TEXT } else { of.as_message() };
    if let Some(second) = second {
        one(second)?;
        return Ok(Schema::Other(item, Content::List(Run::new(message, 2))));
    }
    Ok(first.map_or(Schema::Null, |schema| Schema::Other(of.as_message(), Content::One(schema))))
}

/// A double in JSON: Go prints integers without a fraction.
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
