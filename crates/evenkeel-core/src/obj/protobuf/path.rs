//! Finding one value in a message without reading the rest of it.

use std::borrow::Cow;
use std::iter::once;

use crate::json::{JsonValue, Segment};
use crate::protobuf::{Cardinality, Failure, Field, Kind, Message, ProtobufError, Reader, Wire, write_json};

/// The value at a path.
///
/// Messages on the way are passed by looking for one field in each. What the path ends in is written as JSON, that field of
/// that message only, and what is left of the path, such as the key of a map, is followed in there: so a value is always what
/// the JSON of the whole object would show.
pub(super) fn look_up<'p>(
    message: &'static Message,
    bytes: &[u8],
    mut path: impl Iterator<Item = Option<Segment<'p>>>,
) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    let (mut message, mut bytes) = (message, bytes);
    loop {
        let name = match path.next() {
            None => return whole(message, bytes),
            Some(None) => return Ok(None),
            Some(Some(Segment::Member(name) | Segment::Bracketed(name))) => name,
        };
        let Some(named) = message.named(name) else { return Ok(None) };
        for number in named.path.into_iter().filter(|number| *number != 0) {
            let inner = message.field(u32::from(number)).zip(last(bytes, number)?);
            let Some((inline, inner)) = inner else { return Ok(None) };
            (message, bytes) = (inline.of.message(), inner);
        }
        let field = &named.field;
        match (field.cardinality, field.of.kind) {
            (Cardinality::One, Kind::Message) => {
                let Some(inner) = last(bytes, field.number)? else { return Ok(None) };
                (message, bytes) = (field.of.message(), inner);
            }
            (Cardinality::List, Kind::Message) => match path.next() {
                None => return rest(message, bytes, field, None, path),
                Some(Some(Segment::Bracketed(index))) => {
                    let Some(inner) = nth(bytes, field.number, index)? else { return Ok(None) };
                    (message, bytes) = (field.of.message(), inner);
                }
                Some(_) => return Ok(None),
            },
            (Cardinality::Map, Kind::Message) => match path.next() {
                None => return rest(message, bytes, field, None, path),
                Some(Some(Segment::Member(key) | Segment::Bracketed(key))) => {
                    let Some((_, inner)) = entry(bytes, field.number, key)? else { return Ok(None) };
                    (message, bytes) = (field.of.message(), inner);
                }
                Some(None) => return Ok(None),
            },
            (Cardinality::Map, _) => match path.next() {
                None => return rest(message, bytes, field, None, path),
                Some(Some(segment @ (Segment::Member(key) | Segment::Bracketed(key)))) => {
                    let Some((entry, _)) = entry(bytes, field.number, key)? else { return Ok(None) };
                    return rest(message, entry, field, Some(segment), path);
                }
                Some(None) => return Ok(None),
            },
            (Cardinality::One, Kind::Text) => {
                let found = last(bytes, field.number)?.filter(|text| !(field.elide && text.is_empty()));
                let is_end = path.next().is_none();
                return Ok(found.filter(|_| is_end).map(|text| JsonValue::of_string(&String::from_utf8_lossy(text))));
            }
            _ => return rest(message, bytes, field, None, path),
        }
    }
}

/// All of a message.
fn whole(message: &'static Message, bytes: &[u8]) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    in_json(message, bytes, std::iter::empty())
}

/// What is left of a path, from a field on. `next` is the step after the field, if it has been taken already.
fn rest<'p>(
    message: &'static Message,
    bytes: &[u8],
    field: &'static Field,
    next: Option<Segment<'p>>,
    path: impl Iterator<Item = Option<Segment<'p>>>,
) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    let path = once(Some(Segment::Member(field.name))).chain(next.map(Some)).chain(path);
    in_json(message, &only(bytes, field.number)?, path)
}

/// Follows a path in the JSON of a message.
fn in_json<'p>(
    message: &'static Message,
    bytes: &[u8],
    path: impl Iterator<Item = Option<Segment<'p>>>,
) -> Result<Option<JsonValue<'static>>, ProtobufError> {
    let mut json = Vec::new();
    write_json(message, bytes, None, &mut json)?;
    let json = String::from_utf8(json).unwrap_or_default();
    Ok(JsonValue::look_up(&json, path).ok().flatten().map(JsonValue::into_owned))
}

/// A message with nothing but one field, as often as it occurs.
fn only(bytes: &[u8], number: u8) -> Result<Cow<'_, [u8]>, Failure> {
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

/// Goes through what a field holds, as often as it occurs.
fn each<'a>(
    bytes: &'a [u8],
    number: u8,
    mut visit: impl FnMut(&'a [u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut reader = Reader::new(bytes);
    while let Some((this, value)) = reader.next()? {
        if this == u32::from(number) {
            visit(value.bytes()?)?;
        }
    }
    Ok(())
}

/// The last occurrence of a field, which is the one that counts.
fn last(bytes: &[u8], number: u8) -> Result<Option<&[u8]>, Failure> {
    let mut found = None;
    each(bytes, number, |value| {
        found = Some(value);
        Ok(())
    })?;
    Ok(found)
}

fn nth<'a>(bytes: &'a [u8], number: u8, index: &str) -> Result<Option<&'a [u8]>, Failure> {
    let Ok(index) = index.parse::<usize>() else { return Ok(None) };
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

/// An entry of a map as a message of its own, and the value in it, which is empty if it has none.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// The last entry of a map that has this key.
fn entry<'a>(bytes: &'a [u8], number: u8, key: &str) -> Result<Option<Entry<'a>>, Failure> {
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
