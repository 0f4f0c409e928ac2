//! Finds one value in a message without decoding the rest.

use std::borrow::Cow;
use std::iter::once;

use crate::error::ProtobufError;
use crate::json::{JsonValue, PathSegment};
use crate::protobuf::{BoxedError, Cardinality, Field, FieldKind, Message, Reader, Wire, write_json};

/// Returns the value at a path.
///
/// The lookup searches one field in each message on the path. It converts the last field to JSON, alone, and follows the rest of
/// the path, such as the key of a map, there: the result equals that of the JSON of the whole object.
pub(super) fn look_up<'p>(
    message: &'static Message,
    bytes: &[u8],
    mut path: impl Iterator<Item = PathSegment<'p>>,
) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    let (mut message, mut bytes) = (message, bytes);
    loop {
        let Some(segment) = path.next() else { return whole(message, bytes) };
        let Some(named) = segment.member().and_then(|name| message.named(name)) else { return Ok(None) };
        for number in named.path.into_iter().filter(|number| *number != 0) {
            let inner = message.field(u32::from(number)).zip(last(bytes, number)?);
            let Some((inline, inner)) = inner else { return Ok(None) };
            (message, bytes) = (inline.of.message(), inner);
        }
        let field = &named.field;
        match (field.cardinality, field.of.kind) {
            (Cardinality::One, FieldKind::Message) => {
                let Some(inner) = last(bytes, field.number)? else { return Ok(None) };
                (message, bytes) = (field.of.message(), inner);
            }
            (Cardinality::List, FieldKind::Message) => match path.next() {
                None => return rest(message, bytes, field, None, path),
                Some(segment) => {
                    let Some(index) = segment.index() else { return Ok(None) };
                    let Some(inner) = nth(bytes, field.number, index)? else { return Ok(None) };
                    (message, bytes) = (field.of.message(), inner);
                }
            },
            (Cardinality::Map, FieldKind::Message) => match path.next() {
                None => return rest(message, bytes, field, None, path),
                Some(segment) => {
                    let Some(key) = segment.member() else { return Ok(None) };
                    let Some((_, inner)) = entry(bytes, field.number, key)? else { return Ok(None) };
                    (message, bytes) = (field.of.message(), inner);
                }
            },
            (Cardinality::Map, _) => match path.next() {
                None => return rest(message, bytes, field, None, path),
                Some(segment) => {
                    let Some(key) = segment.member() else { return Ok(None) };
                    let Some((entry, _)) = entry(bytes, field.number, key)? else { return Ok(None) };
                    return rest(message, entry, field, Some(segment), path);
                }
            },
            (Cardinality::One, FieldKind::Text) => {
                let found = last(bytes, field.number)?.filter(|text| !(field.elide && text.is_empty()));
                let is_end = path.next().is_none();
                return Ok(found.filter(|_| is_end).map(|text| JsonValue::of_string(&String::from_utf8_lossy(text))));
            }
            _ => return rest(message, bytes, field, None, path),
        }
    }
}

/// Returns the JSON of a whole message.
fn whole(message: &'static Message, bytes: &[u8]) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    in_json(message, bytes, std::iter::empty())
}

/// Follows the rest of a path from a field on. `next` is the segment after the field, if it was taken already.
fn rest<'p>(
    message: &'static Message,
    bytes: &[u8],
    field: &'static Field,
    next: Option<PathSegment<'p>>,
    path: impl Iterator<Item = PathSegment<'p>>,
) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    let path = once(PathSegment::Member(field.name.into())).chain(next).chain(path);
    in_json(message, &only(bytes, field.number)?, path)
}

/// Follows a path in the JSON of a message.
fn in_json<'p>(
    message: &'static Message,
    bytes: &[u8],
    path: impl Iterator<Item = PathSegment<'p>>,
) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    let mut json = Vec::new();
    write_json(message, bytes, None, &mut json)?;
    let json = String::from_utf8(json).unwrap_or_default();
    Ok(JsonValue::look_up(&json, path).ok().flatten().map(JsonValue::into_owned))
}

/// Returns a message with all occurrences of one field and nothing else.
fn only(bytes: &[u8], number: u8) -> Result<Cow<'_, [u8]>, BoxedError> {
    let mut found = Cow::Borrowed(&[][..]);
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let start = reader.rest();
        let (this, wire_type) = reader.tag()?;
        reader.skip(this, wire_type)?;
        if this == u32::from(number) {
            let occurrence = start.get(..start.len() - reader.rest().len()).unwrap_or_default();
            if found.is_empty() {
                found = Cow::Borrowed(occurrence);
            } else {
                found.to_mut().extend_from_slice(occurrence);
            }
        }
    }
    Ok(found)
}

/// Calls `visit` with each occurrence of a field.
fn each<'a>(
    bytes: &'a [u8],
    number: u8,
    mut visit: impl FnMut(&'a [u8]) -> Result<(), BoxedError>,
) -> Result<(), BoxedError> {
    let mut reader = Reader::new(bytes);
    while let Some((this, value)) = reader.next()? {
        if this == u32::from(number) {
            visit(value.bytes()?)?;
        }
    }
    Ok(())
}

/// Returns the last occurrence of a field, which is the effective one.
fn last(bytes: &[u8], number: u8) -> Result<Option<&[u8]>, BoxedError> {
    let mut found = None;
    each(bytes, number, |value| {
        found = Some(value);
        Ok(())
    })?;
    Ok(found)
}

fn nth(bytes: &[u8], number: u8, index: usize) -> Result<Option<&[u8]>, BoxedError> {
    let (mut found, mut count) = (None, 0);
    each(bytes, number, |value| {
        if count == index {
            found = Some(value);
        }
        count += 1;
        Ok(())
    })?;
    Ok(found)
}

/// An entry of a map as a message of its own, and its value, which is empty if the entry has none.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// Returns the last entry of a map with this key.
fn entry<'a>(bytes: &'a [u8], number: u8, key: &str) -> Result<Option<Entry<'a>>, BoxedError> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let start = reader.rest();
        let (this, wire_type) = reader.tag()?;
        if this != u32::from(number) {
            reader.skip(this, wire_type)?;
            continue;
        }
        let value = reader.value(wire_type)?;
        let (mut name, mut content) = (&[][..], &[][..]);
        let mut entry = Reader::new(value.bytes()?);
        while let Some((number, value)) = entry.next()? {
            match (number, value) {
                (1, Wire::Bytes(bytes)) => name = bytes,
                (2, Wire::Bytes(bytes)) => content = bytes,
                _ => {}
            }
        }
        if String::from_utf8_lossy(name) == key {
            let occurrence = start.get(..start.len() - reader.rest().len()).unwrap_or_default();
            found = Some((occurrence, content));
        }
    }
    Ok(found)
}
