//! [`Opened`]: the payload of an object while somebody looks at it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::protobuf;
use crate::codec::{Codec as _, Form, Json, Parsed, Payload};
use crate::decode::{DecodeError, Misfit};
use crate::header::Header;
use crate::json::{Cut, JsonPaths, JsonValue, Scanner, path_at};
use crate::resource::ResourceInfo;

/// The payload of an object as it came, whatever it rests in, for as long as somebody looks at it.
pub(super) struct Opened<'a> {
    pub(super) header: &'a Header,
    pub(super) info: &'a ResourceInfo,
    pub(super) form: Form,
    pub(super) bytes: Cow<'a, [u8]>,
}

impl<'a> Opened<'a> {
    /// What the object says that it is, or what was asked for.
    pub(super) fn kind(&self) -> &'a str {
        self.header.kind().unwrap_or(self.info.kind())
    }

    /// The same for its API version.
    pub(super) fn api_version(&self) -> &'a str {
        self.header.api_version().unwrap_or(self.info.api_version())
    }

    /// The object as a Rust value.
    pub(super) fn decode<K: DeserializeOwned>(self) -> Result<K, DecodeError> {
        if let Form::Protobuf(message) = self.form {
            return protobuf::decode(&self, message);
        }
        let (header, info) = (self.header, self.info);
        let json = self.json()?;
        serde_json::from_slice(&json).map_err(|error| misfit(header, info, &json, &error))
    }

    /// The JSON with `kind` and `apiVersion`.
    pub(super) fn json(self) -> Result<Cow<'a, [u8]>, DecodeError> {
        if let Form::Protobuf(message) = self.form {
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
        // The object has metadata, so there is a member for the last comma to stand before.
        let body = self.bytes.trim_ascii_start().strip_prefix(b"{");
        Ok(match body {
            Some(body) if !missing.is_empty() => Cow::Owned([b"{", missing.as_bytes(), body].concat()),
            _ => self.bytes,
        })
    }

    pub(super) fn annotation(self, key: &str) -> Result<Option<Cow<'a, str>>, DecodeError> {
        if let Form::Protobuf(message) = self.form {
            return protobuf::annotation(self, message, key);
        }
        Ok(match self.bytes {
            Cow::Borrowed(bytes) => annotation_in(text(bytes), key),
            Cow::Owned(bytes) => annotation_in(text(&bytes), key).map(|found| Cow::Owned(found.into_owned())),
        })
    }

    pub(super) fn path(self, path: &str) -> Result<Option<JsonValue<'a>>, DecodeError> {
        if let Form::Protobuf(message) = self.form {
            return protobuf::at_path(&self, message, path);
        }
        Ok(match self.bytes {
            Cow::Borrowed(bytes) => JsonValue::at_path(text(bytes), path),
            Cow::Owned(bytes) => JsonValue::at_path(text(&bytes), path).map(JsonValue::into_owned),
        })
    }

    /// The object after a cut; `None` if there was nothing to cut.
    pub(super) fn cut(self, paths: &JsonPaths, cut: Cut) -> Result<Option<Parsed>, DecodeError> {
        match self.form {
            Form::Json => cut_json(self.header, text(&self.bytes), paths, cut),
            Form::Protobuf(message) => match protobuf::cut(&self, message, paths, cut)? {
                protobuf::Outcome::Nothing => Ok(None),
                protobuf::Outcome::Left(parsed) => Ok(Some(parsed)),
                protobuf::Outcome::NeedsJson => {
                    let json = protobuf::stated_json(&self, message)?;
                    cut_json(self.header, text(&json), paths, cut)
                }
            },
        }
    }
}

fn cut_json(header: &Header, text: &str, paths: &JsonPaths, cut: Cut) -> Result<Option<Parsed>, DecodeError> {
    let Some(rest) = paths.cut(text, cut)?.map(Bytes::from) else { return Ok(None) };
    if cut == Cut::Others || paths.may_reach(Header::MEMBERS, Header::METADATA) {
        return Json.decode(rest).map(Some);
    }
    Ok(Some(Parsed { header: header.clone(), payload: Payload::json(rest) }))
}

/// The text of JSON that a header was read from.
fn text(bytes: &[u8]) -> &str {
    // So it is UTF-8; the check is a fraction of the look-up that follows.
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn annotation_in<'t>(text: &'t str, key: &str) -> Option<Cow<'t, str>> {
    let mut scanner = Scanner::of_str(text);
    for member in ["metadata", "annotations", key] {
        if !scanner.find_member(member).ok()? {
            return None;
        }
    }
    scanner.string().ok()
}

#[cold]
fn misfit(header: &Header, info: &ResourceInfo, json: &[u8], error: &serde_json::Error) -> DecodeError {
    DecodeError::Typed {
        kind: header.kind().unwrap_or(info.kind()).into(),
        key: Box::new(header.key().clone()),
        path: path_at(json, offset_of(json, error)).into(),
        source: Misfit::new(error),
    }
}

/// How many bytes serde_json had read when it gave up, from the line and column that it tells.
fn offset_of(json: &[u8], error: &serde_json::Error) -> usize {
    let lines = error.line().saturating_sub(1);
    let start = match lines {
        0 => 0,
        _ => memchr::memchr_iter(b'\n', json).nth(lines - 1).map_or(json.len(), |newline| newline + 1),
    };
    start + error.column()
}
