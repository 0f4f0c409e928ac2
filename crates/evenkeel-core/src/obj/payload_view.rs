//! [`PayloadView`]: an unpacked payload while it is read.

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::payload::{Payload, PayloadFormat};
use super::protobuf;
use crate::codec::{Codec, ParsedObject};
use crate::error::{DecodeError, TypeMismatch};
use crate::header::Header;
use crate::json::{JsonPath, JsonPaths, JsonValue, PruneMode, Scanner, look_up_checked, path_at};
use crate::resource::ResourceInfo;

/// The payload of an object as received, for the duration of one read.
pub(super) struct PayloadView<'a> {
    pub(super) header: &'a Header,
    pub(super) info: &'a ResourceInfo,
    pub(super) format: PayloadFormat,
    pub(super) bytes: Cow<'a, [u8]>,
}

impl<'a> PayloadView<'a> {
    /// Returns the kind that the object states, or else the requested one.
    pub(super) fn kind(&self) -> &'a str {
        self.header.kind().unwrap_or(self.info.kind())
    }

    /// Returns the API version that the object states, or else the requested one.
    pub(super) fn api_version(&self) -> &'a str {
        self.header.api_version().unwrap_or(self.info.api_version())
    }

    /// Returns an estimate of the memory of the decoded object. A pod of 5.9 KB of JSON, or 3.7 KB of protobuf, takes 45 KB with its
    /// `managedFields`. Long texts, as in Secrets, decode to about their own length, so this overestimates them.
    pub(super) fn decoded_bytes(&self) -> usize {
        match self.format {
            PayloadFormat::Json => self.bytes.len() * 8,
            PayloadFormat::Protobuf(_) => self.bytes.len() * 12,
        }
    }

    /// Decodes the object into a Rust value.
    pub(super) fn decode<K: DeserializeOwned>(self) -> Result<K, DecodeError> {
        if let PayloadFormat::Protobuf(message) = self.format {
            return protobuf::decode(&self, message);
        }
        let (header, info) = (self.header, self.info);
        let json = self.json()?;
        serde_json::from_slice(&json).map_err(|error| type_mismatch(header, info, &json, &error))
    }

    /// Returns the JSON of the object with `kind` and `apiVersion`.
    pub(super) fn json(self) -> Result<Cow<'a, [u8]>, DecodeError> {
        if let PayloadFormat::Protobuf(message) = self.format {
            return protobuf::json(&self, message).map(Cow::Owned);
        }
        let mut missing = String::new();
        for (member, stated, value) in [
            ("kind", self.header.kind(), self.info.kind()),
            ("apiVersion", self.header.api_version(), self.info.api_version()),
        ] {
            if stated.is_none() {
                missing.push_str(&format!("\"{member}\":{},", serde_json::Value::from(value)));
            }
        }
        // The object has metadata, so a member follows the last comma.
        let body = self.bytes.trim_ascii_start().strip_prefix(b"{");
        Ok(match body {
            Some(body) if !missing.is_empty() => Cow::Owned([b"{", missing.as_bytes(), body].concat()),
            _ => self.bytes,
        })
    }

    pub(super) fn annotation(self, key: &str) -> Result<Option<Cow<'a, str>>, DecodeError> {
        if let PayloadFormat::Protobuf(message) = self.format {
            return protobuf::annotation(self, message, key);
        }
        Ok(match self.bytes {
            Cow::Borrowed(bytes) => annotation_in(text(bytes), key),
            Cow::Owned(bytes) => annotation_in(text(&bytes), key).map(|found| Cow::Owned(found.into_owned())),
        })
    }

    pub(super) fn path(self, path: JsonPath<'_>) -> Result<Option<JsonValue<'a>>, DecodeError> {
        if let PayloadFormat::Protobuf(message) = self.format {
            return protobuf::at_path(&self, message, path);
        }
        Ok(match self.bytes {
            Cow::Borrowed(bytes) => look_up_checked(bytes, path.segments()),
            Cow::Owned(bytes) => look_up_checked(&bytes, path.segments()).map(JsonValue::into_owned),
        })
    }

    /// Returns the pruned object, or `None` if nothing was removed.
    pub(super) fn prune(self, paths: &JsonPaths, mode: PruneMode) -> Result<Option<ParsedObject>, DecodeError> {
        match self.format {
            PayloadFormat::Json => prune_json(self.header, text(&self.bytes), paths, mode),
            PayloadFormat::Protobuf(message) => match protobuf::prune(&self, message, paths, mode)? {
                protobuf::PruneOutcome::Unchanged => Ok(None),
                protobuf::PruneOutcome::Pruned(parsed) => Ok(Some(parsed)),
                protobuf::PruneOutcome::NeedsJson => {
                    let json = protobuf::json_as_sent(&self, message)?;
                    prune_json(self.header, text(&json), paths, mode)
                }
            },
        }
    }
}

fn prune_json(
    header: &Header,
    text: &str,
    paths: &JsonPaths,
    mode: PruneMode,
) -> Result<Option<ParsedObject>, DecodeError> {
    let Some(rest) = paths.prune(text, mode)?.map(Bytes::from) else { return Ok(None) };
    if mode == PruneMode::Keep || paths.may_reach(Header::MEMBERS, Header::METADATA) {
        return Codec::Json.decode(rest).map(Some);
    }
    Ok(Some(ParsedObject { header: header.clone(), payload: Payload::json(rest) }))
}

/// Returns the text of JSON from which a header was read.
fn text(bytes: &[u8]) -> &str {
    // It is UTF-8 then. The check costs a fraction of the lookup that follows.
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn annotation_in<'t>(text: &'t str, key: &str) -> Option<Cow<'t, str>> {
    Scanner::string_at(text, &["metadata", "annotations", key])
}

#[cold]
fn type_mismatch(header: &Header, info: &ResourceInfo, json: &[u8], error: &serde_json::Error) -> DecodeError {
    DecodeError::Typed {
        kind: header.kind().unwrap_or(info.kind()).into(),
        key: Box::new(header.key().clone()),
        path: path_at(json, offset_of(json, error)).into(),
        source: TypeMismatch::new(error),
    }
}

/// Returns the number of bytes that serde_json read before the error, from its line and column.
fn offset_of(json: &[u8], error: &serde_json::Error) -> usize {
    let lines = error.line().saturating_sub(1);
    let start = match lines {
        0 => 0,
        _ => memchr::memchr_iter(b'\n', json).nth(lines - 1).map_or(json.len(), |newline| newline + 1),
    };
    start + error.column()
}
