//! Converts protobuf to JSON text without building a tree.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use super::error::BoxedError;
use super::field_reader::{Content, FieldReader, Items, Run};
use super::table::{FieldKind, FieldType, Message};
use super::well_known::{self, EmbeddedJson, IntOrText, Number, Schema};
use super::wire::Wire;
use super::{DEPTH_LIMIT, time};
use crate::error::ProtobufError;

/// Appends a message as an object, with `(apiVersion, kind)` first if given.
pub(super) fn put_message(
    message: &'static Message,
    bytes: &[u8],
    type_meta: Option<(&str, &str)>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), BoxedError> {
    if depth >= DEPTH_LIMIT {
        return Err(BoxedError::new(ProtobufError::TooDeep { path: "".into(), limit: DEPTH_LIMIT }));
    }
    let mut fields = FieldReader::new(message, bytes)?;
    let mut first = true;
    let mut name = |name: &str, out: &mut Vec<u8>| {
        out.push(if std::mem::take(&mut first) { b'{' } else { b',' });
        // Names of the table need no escapes.
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
    };
    if let Some((api_version, kind)) = type_meta {
        name("kind", out);
        put_text(kind, out)?;
        name("apiVersion", out);
        put_text(api_version, out)?;
    }
    while let Some(field) = fields.next()? {
        name(field.name, out);
        put(field.of, *fields.content(), depth + 1, out).map_err(|error| error.in_field(field.name))?;
    }
    if first {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(())
}

/// Appends the content of a field.
pub(super) fn put(of: FieldType, content: Content<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), BoxedError> {
    match content {
        Content::One(wire) => put_one(of, wire, depth, out),
        Content::List(run) => put_list(of, run.items(of), depth, out),
        Content::Map(run) => {
            let mut items = run.items(of);
            let mut before = b'{';
            while let Some((key, value)) = items.next_pair()? {
                out.push(before);
                put_text(&well_known::text(key), out)?;
                out.push(b':');
                put_one(of, value, depth, out)?;
                before = b',';
            }
            out.push(b'}');
            Ok(())
        }
    }
}

fn put_list(of: FieldType, mut items: Items<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), BoxedError> {
    out.push(b'[');
    let mut index = 0;
    while let Some(wire) = items.next().map_err(|error| error.in_item(index))? {
        if index > 0 {
            out.push(b',');
        }
        put_one(of, wire, depth, out).map_err(|error| error.in_item(index))?;
        index += 1;
    }
    out.push(b']');
    Ok(())
}

fn put_one(of: FieldType, wire: Wire<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), BoxedError> {
    match of.kind {
        FieldKind::Text => put_text(&well_known::text(wire.bytes()?), out),
        FieldKind::Message => put_message(of.message(), wire.bytes()?, None, depth, out),
        FieldKind::Bytes => put_plain(&STANDARD.encode(wire.bytes()?), out),
        FieldKind::Bool => put_json(&(wire.varint()? != 0), out),
        FieldKind::Int32 => put_json(&(wire.varint()? as i32), out),
        FieldKind::Int64 => put_json(&(wire.varint()? as i64), out),
        FieldKind::Double => match well_known::number(f64::from_bits(wire.fixed64()?)) {
            Number::Signed(value) => put_json(&value, out),
            Number::Unsigned(value) => put_json(&value, out),
            Number::Double(value) => put_json(&value, out),
        },
        FieldKind::Quantity => put_text(&well_known::text(well_known::quantity(wire.bytes()?)?), out),
        FieldKind::IntOrString => match well_known::int_or_text(wire.bytes()?)? {
            IntOrText::Int(value) => put_json(&value, out),
            IntOrText::Text(text) => put_text(&well_known::text(text), out),
        },
        FieldKind::Time | FieldKind::MicroTime => match time::read(wire.bytes()?)? {
            Some((seconds, nanos)) => {
                put_plain(time::text(seconds, nanos, of.kind == FieldKind::MicroTime, &mut [0; 27])?, out)
            }
            None => put_null(out),
        },
        FieldKind::Duration => put_text(&well_known::duration(wire.bytes()?)?, out),
        FieldKind::Strings => put_list(FieldType::TEXT, Run::new(wire.bytes()?, 1).items(FieldType::TEXT), depth, out),
        FieldKind::SchemaOrBool | FieldKind::SchemaOrSchemas | FieldKind::SchemaOrStrings => {
            match well_known::schema(of, wire.bytes()?)? {
                Schema::Null => put_null(out),
                Schema::Bool(value) => put_json(&value, out),
                Schema::Other(of, content) => put(of, content, depth, out),
            }
        }
        FieldKind::Json => match well_known::json(wire.bytes()?)? {
            EmbeddedJson::Null => put_null(out),
            EmbeddedJson::Text(text) => {
                let json: &RawValue = serde_json::from_slice(text)
                    .map_err(|_| BoxedError::new(ProtobufError::NotJson { path: "".into() }))?;
                out.extend_from_slice(json.get().as_bytes());
                Ok(())
            }
            EmbeddedJson::Object { message, type_meta, raw } => put_message(message, raw, Some(type_meta), depth, out),
        },
    }
}

fn put_null(out: &mut Vec<u8>) -> Result<(), BoxedError> {
    out.extend_from_slice(b"null");
    Ok(())
}

/// Appends a text that needs no escapes.
fn put_plain(text: &str, out: &mut Vec<u8>) -> Result<(), BoxedError> {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
    Ok(())
}

fn put_text(text: &str, out: &mut Vec<u8>) -> Result<(), BoxedError> {
    put_json(text, out)
}

fn put_json<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), BoxedError> {
    serde_json::to_writer(out, value).map_err(<BoxedError as serde::ser::Error>::custom)
}
