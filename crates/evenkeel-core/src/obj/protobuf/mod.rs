//! The operations of an object whose payload is protobuf.

mod path;
mod prune;
mod type_meta;

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::payload::Payload;
use super::payload_view::PayloadView;
use crate::codec::ParsedObject;
use crate::error::{DecodeError, ProtobufError};
use crate::header::{Header, MetadataField, annotation_in, metadata_of};
use crate::json::{JsonPath, JsonPaths, JsonValue, PathMatch, PruneMode};
use crate::protobuf::{Message, write_json};

/// Decodes the object into a Rust value.
pub(super) fn decode<K: DeserializeOwned>(view: &PayloadView<'_>, message: &'static Message) -> Result<K, DecodeError> {
    type_meta::decode(message, &view.bytes, view.kind(), view.api_version()).map_err(|error| match error {
        ProtobufError::TypeMismatch { path, source } => {
            DecodeError::Typed { kind: view.kind().into(), key: Box::new(view.header.key().clone()), path, source }
        }
        error => malformed(view, error),
    })
}

/// Returns the JSON of the object with `kind` and `apiVersion`.
pub(super) fn json(view: &PayloadView<'_>, message: &'static Message) -> Result<Vec<u8>, DecodeError> {
    to_json(view, message, Some((view.api_version(), view.kind())))
}

/// Returns the JSON as the server would have sent it: with `kind` and `apiVersion` only if the object states them.
pub(super) fn json_as_sent(view: &PayloadView<'_>, message: &'static Message) -> Result<Vec<u8>, DecodeError> {
    to_json(view, message, view.header.api_version().zip(view.header.kind()))
}

fn to_json(
    view: &PayloadView<'_>,
    message: &'static Message,
    type_meta: Option<(&str, &str)>,
) -> Result<Vec<u8>, DecodeError> {
    // JSON is about half as long again.
    let mut json = Vec::with_capacity(view.bytes.len() * 3 / 2 + 64);
    write_json(message, &view.bytes, type_meta, &mut json).map_err(|error| malformed(view, error))?;
    Ok(json)
}

/// Returns the value of an annotation.
pub(super) fn annotation<'a>(
    view: PayloadView<'a>,
    message: &'static Message,
    key: &str,
) -> Result<Option<Cow<'a, str>>, DecodeError> {
    let found = match &view.bytes {
        Cow::Borrowed(bytes) => annotation_of(message, bytes, key),
        Cow::Owned(bytes) => {
            annotation_of(message, bytes, key).map(|found| found.map(|found| Cow::Owned(found.into_owned())))
        }
    };
    found.map_err(|error| malformed(&view, error))
}

fn annotation_of<'a>(
    message: &'static Message,
    bytes: &'a [u8],
    key: &str,
) -> Result<Option<Cow<'a, str>>, ProtobufError> {
    match metadata_of(message, bytes)? {
        MetadataField::OfObject(metadata) => annotation_in(metadata, key),
        MetadataField::Other | MetadataField::None => Ok(None),
    }
}

/// Returns the value at a path, as in the JSON of the object.
pub(super) fn at_path(
    view: &PayloadView<'_>,
    message: &'static Message,
    path: JsonPath<'_>,
) -> Result<Option<JsonValue<'static>>, DecodeError> {
    let mut segments = path.segments();
    let Some(first) = segments.next() else {
        let json = String::from_utf8(json_as_sent(view, message)?).unwrap_or_default();
        return Ok(JsonValue::look_up(&json, std::iter::empty()).ok().flatten().map(JsonValue::into_owned));
    };
    let stated = match first.member() {
        Some("kind") => view.header.kind(),
        Some("apiVersion") => view.header.api_version(),
        _ => None,
    };
    if let Some(stated) = stated {
        return Ok(segments.next().is_none().then(|| JsonValue::of_string(stated)));
    }
    path::look_up(message, &view.bytes, path.segments()).map_err(|error| malformed(view, error))
}

/// The result of pruning.
pub(super) enum PruneOutcome {
    /// Nothing was removed.
    Unchanged,
    /// The remaining object.
    Pruned(ParsedObject),
    /// The object must be pruned as JSON.
    NeedsJson,
}

/// Removes the values that the paths match, or all others.
pub(super) fn prune(
    view: &PayloadView<'_>,
    message: &'static Message,
    paths: &JsonPaths,
    mode: PruneMode,
) -> Result<PruneOutcome, DecodeError> {
    let header = view.header;
    // `kind` and `apiVersion` are not part of the message.
    let is_kept = |name: &str| {
        let found = paths.match_at(paths.all(), 0, |segment| segment.matches_member(name));
        (found == PathMatch::Exact) == (mode == PruneMode::Keep)
    };
    let kind = header.kind().filter(|_| is_kept("kind"));
    let api_version = header.api_version().filter(|_| is_kept("apiVersion"));
    let keeps_type_meta = (kind, api_version) == (header.kind(), header.api_version());

    let rest: Bytes = match prune::prune(message, &view.bytes, paths, mode).map_err(|error| malformed(view, error))? {
        prune::PrunedMessage::NeedsJson => return Ok(PruneOutcome::NeedsJson),
        prune::PrunedMessage::Pruned(rest) => rest.into(),
        prune::PrunedMessage::Unchanged if keeps_type_meta => return Ok(PruneOutcome::Unchanged),
        prune::PrunedMessage::Unchanged => Bytes::copy_from_slice(&view.bytes),
    };
    let header = if mode == PruneMode::Keep || paths.may_reach(Header::MEMBERS, Header::METADATA) {
        Header::of_protobuf(message, &rest, kind, api_version)?.named()?
    } else {
        header.clone()
    };
    Ok(PruneOutcome::Pruned(ParsedObject { header, payload: Payload::protobuf(rest, message) }))
}

#[cold]
fn malformed(view: &PayloadView<'_>, source: ProtobufError) -> DecodeError {
    DecodeError::Protobuf { kind: Some(view.kind().into()), key: Some(Box::new(view.header.key().clone())), source }
}

#[cfg(test)]
mod tests;
