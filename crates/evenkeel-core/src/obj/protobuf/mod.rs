//! What an object does whose payload is protobuf.

mod cut;
mod path;
mod stated;

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::opened::Opened;
use crate::codec::{Parsed, Payload};
use crate::decode::DecodeError;
use crate::header::{Header, Metadata, annotation_in, metadata_of};
use crate::json::{Cut, Found, JsonPaths, JsonValue, Segment, segments};
use crate::protobuf::{Message, ProtobufError, write_json};

/// The object as a Rust value.
pub(super) fn decode<K: DeserializeOwned>(opened: &Opened<'_>, message: &'static Message) -> Result<K, DecodeError> {
    stated::decode(message, &opened.bytes, opened.kind(), opened.api_version()).map_err(|error| match error {
        ProtobufError::Misfit { path, source } => {
            DecodeError::Typed { kind: opened.kind().into(), key: Box::new(opened.header.key().clone()), path, source }
        }
        error => broken(opened, error),
    })
}

/// The JSON with `kind` and `apiVersion`.
pub(super) fn json(opened: &Opened<'_>, message: &'static Message) -> Result<Vec<u8>, DecodeError> {
    write(opened, message, Some((opened.api_version(), opened.kind())))
}

/// The JSON as the server would have sent it: it says what it is if the object does.
pub(super) fn stated_json(opened: &Opened<'_>, message: &'static Message) -> Result<Vec<u8>, DecodeError> {
    write(opened, message, opened.header.api_version().zip(opened.header.kind()))
}

fn write(
    opened: &Opened<'_>,
    message: &'static Message,
    type_meta: Option<(&str, &str)>,
) -> Result<Vec<u8>, DecodeError> {
    // JSON is about half as long again.
    let mut json = Vec::with_capacity(opened.bytes.len() * 3 / 2 + 64);
    write_json(message, &opened.bytes, type_meta, &mut json).map_err(|error| broken(opened, error))?;
    Ok(json)
}

/// The value of an annotation.
pub(super) fn annotation<'a>(
    opened: Opened<'a>,
    message: &'static Message,
    key: &str,
) -> Result<Option<Cow<'a, str>>, DecodeError> {
    let found = match &opened.bytes {
        Cow::Borrowed(bytes) => annotation_of(message, bytes, key),
        Cow::Owned(bytes) => {
            annotation_of(message, bytes, key).map(|found| found.map(|found| Cow::Owned(found.into_owned())))
        }
    };
    found.map_err(|error| broken(&opened, error))
}

fn annotation_of<'a>(
    message: &'static Message,
    bytes: &'a [u8],
    key: &str,
) -> Result<Option<Cow<'a, str>>, ProtobufError> {
    match metadata_of(message, bytes)? {
        Metadata::OfObject(metadata) => annotation_in(metadata, key),
        Metadata::Other | Metadata::None => Ok(None),
    }
}

/// The value at a path, as the JSON of the object has it.
pub(super) fn at_path(
    opened: &Opened<'_>,
    message: &'static Message,
    path: &str,
) -> Result<Option<JsonValue<'static>>, DecodeError> {
    let mut steps = segments(path);
    let stated = match steps.next() {
        None => {
            let json = stated_json(opened, message)?;
            let json = String::from_utf8(json).unwrap_or_default();
            return Ok(JsonValue::at_path(&json, "").map(JsonValue::into_owned));
        }
        Some(Some(Segment::Member("kind") | Segment::Bracketed("kind"))) => opened.header.kind(),
        Some(Some(Segment::Member("apiVersion") | Segment::Bracketed("apiVersion"))) => opened.header.api_version(),
        Some(_) => None,
    };
    if let Some(stated) = stated {
        return Ok(steps.next().is_none().then(|| JsonValue::of_string(stated)));
    }
    path::look_up(message, &opened.bytes, segments(path)).map_err(|error| broken(opened, error))
}

/// What a cut comes to.
pub(super) enum Outcome {
    /// There was nothing to cut.
    Nothing,
    /// This is left.
    Left(Parsed),
    /// It has to be cut as JSON.
    NeedsJson,
}

/// Cuts what the paths lead to, or everything else, out of the object.
pub(super) fn cut(
    opened: &Opened<'_>,
    message: &'static Message,
    paths: &JsonPaths,
    cut: Cut,
) -> Result<Outcome, DecodeError> {
    let header = opened.header;
    // What the object says of itself does not stand in the message.
    let stays = |name: &str| {
        let found = paths.step(paths.all(), 0, |step| step.is_member(name));
        (found == Found::Itself) == (cut == Cut::Others)
    };
    let kind = header.kind().filter(|_| stays("kind"));
    let api_version = header.api_version().filter(|_| stays("apiVersion"));
    let says_the_same = (kind, api_version) == (header.kind(), header.api_version());

    let rest: Bytes = match cut::cut(message, &opened.bytes, paths, cut).map_err(|error| broken(opened, error))? {
        cut::Outcome::NeedsJson => return Ok(Outcome::NeedsJson),
        cut::Outcome::Left(rest) => rest.into(),
        cut::Outcome::Nothing if says_the_same => return Ok(Outcome::Nothing),
        cut::Outcome::Nothing => Bytes::copy_from_slice(&opened.bytes),
    };
    let header = if cut == Cut::Others || paths.may_reach(Header::MEMBERS, Header::METADATA) {
        Header::of_protobuf(message, &rest, kind, api_version)?.named()?
    } else {
        header.clone()
    };
    Ok(Outcome::Left(Parsed { header, payload: Payload::protobuf(rest, message) }))
}

#[cold]
fn broken(opened: &Opened<'_>, source: ProtobufError) -> DecodeError {
    DecodeError::Protobuf { kind: Some(opened.kind().into()), key: Some(Box::new(opened.header.key().clone())), source }
}

#[cfg(test)]
mod tests;
