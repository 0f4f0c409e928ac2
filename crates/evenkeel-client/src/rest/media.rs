//! Media types, and the codec of a response.
//!
//! The parser is handwritten: servers put `@` into the media types of their schemas, which is no RFC 9110 token
//! character and which the crates `mime` and `mediatype` reject.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use evenkeel_core::codec::{ApiKind, Codec};
use evenkeel_core::protobuf::{Envelope, Message, unwrap_envelope, write_json};
use evenkeel_core::{DecodeError, ResourceInfo};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::sanitize::escaped;
use crate::wire::ResponseShape;

/// The maximal length of a malformed media type in an error.
const SHOWN: usize = 128;

/// The default `Accept`.
const JSON: HeaderValue = HeaderValue::from_static("application/json, */*");
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf,application/json");

/// `Accept` for metadata only. Servers that do not support it send the whole object.
macro_rules! metadata {
    ($kind:literal) => {
        [
            HeaderValue::from_static(concat!("application/json;as=", $kind, ";g=meta.k8s.io;v=v1,application/json")),
            HeaderValue::from_static(concat!(
                "application/vnd.kubernetes.protobuf;as=",
                $kind,
                ";g=meta.k8s.io;v=v1,application/json;as=",
                $kind,
                ";g=meta.k8s.io;v=v1,application/json"
            )),
        ]
    };
}

/// The value of `Accept`.
pub(super) fn accept(shape: ResponseShape, codec: Codec) -> HeaderValue {
    let [json, protobuf] = match shape {
        ResponseShape::Full => [JSON, PROTOBUF],
        ResponseShape::Metadata => metadata!("PartialObjectMetadata"),
        ResponseShape::MetadataList => metadata!("PartialObjectMetadataList"),
    };
    if codec == Codec::Protobuf { protobuf } else { json }
}

/// The supported codecs, and the one for responses without a `Content-Type`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codecs {
    /// The codec of responses without a media type.
    preferred: Codec,
}

/// Why there is no codec for a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MediaError {
    /// The header is malformed.
    Malformed(String),
    /// There is no codec for this media type.
    Unknown(String),
}

impl Codecs {
    /// The codecs for the responses to a request that prefers this one.
    pub(crate) fn preferring(preferred: Codec) -> Self {
        Codecs { preferred }
    }

    /// Returns the codec for a response with these headers.
    pub(crate) fn of_response(&self, headers: &HeaderMap) -> Result<Codec, MediaError> {
        let media_type = media_type(headers)?;
        if media_type.is_empty() {
            return Ok(self.preferred);
        }
        find(&media_type)
    }

    /// Returns the codec for a watch with these headers. Without a `Content-Type` it is JSON, whatever was preferred.
    pub(crate) fn of_watch(&self, headers: &HeaderMap) -> Result<Codec, MediaError> {
        let media_type = media_type(headers)?;
        if media_type.is_empty() {
            return Ok(Codec::Json);
        }
        find(&media_type)
    }
}

fn find(media_type: &str) -> Result<Codec, MediaError> {
    Codec::of_media_type(media_type).ok_or_else(|| MediaError::Unknown(escaped(media_type.as_bytes(), SHOWN)))
}

/// Returns whether objects of this kind have a protobuf encoding.
pub(crate) fn has_protobuf_form(info: &ResourceInfo) -> bool {
    Codec::Protobuf.supports(info.into())
}

/// Converts a body to JSON.
pub(super) fn to_json(codec: Codec, bytes: &Bytes) -> Result<Bytes, DecodeError> {
    if codec != Codec::Protobuf {
        return Ok(bytes.clone());
    }
    let Envelope { api_version, kind, raw, .. } = unwrap_envelope(bytes)?;
    let message = Message::of_kind(api_version, kind).ok_or_else(|| DecodeError::UnknownKind {
        kind: escaped(ApiKind { api_version, kind }.to_string().as_bytes(), SHOWN).into(),
    })?;
    let mut json = Vec::new();
    write_json(message, raw, Some((api_version, kind)), &mut json)?;
    Ok(json.into())
}

impl fmt::Display for MediaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MediaError::Malformed(header) => write!(f, "its Content-Type is malformed: \"{header}\""),
            MediaError::Unknown(media_type) => write!(f, "its media type is {media_type}, which is not supported"),
        }
    }
}

/// Returns the media type of a response, in lower case and without parameters; empty if it has none.
pub(super) fn media_type(headers: &HeaderMap) -> Result<Cow<'_, str>, MediaError> {
    let Some(value) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else {
        return Ok(Cow::Borrowed(""));
    };
    // The common case.
    if value == Codec::Json.media_type().as_bytes() {
        return Ok(Cow::Borrowed(Codec::Json.media_type()));
    }
    std::str::from_utf8(value).ok().and_then(parse).ok_or_else(|| MediaError::Malformed(escaped(value, SHOWN)))
}

/// Parses the media type of a header; `None` if the header is malformed.
fn parse(header: &str) -> Option<Cow<'_, str>> {
    let (media_type, parameters) = header.split_once(';').map_or((header, None), |(first, rest)| (first, Some(rest)));
    let media_type = media_type.trim_ascii();
    let is_sound = match media_type.split_once('/') {
        Some((kind, subtype)) => is_token(kind) && is_token(subtype),
        None => is_token(media_type) || (media_type.is_empty() && parameters.is_none()),
    };
    if !is_sound || !parameters.is_none_or(are_parameters) {
        return None;
    }
    let is_lower = !media_type.bytes().any(|byte| byte.is_ascii_uppercase());
    Some(if is_lower { Cow::Borrowed(media_type) } else { Cow::Owned(media_type.to_ascii_lowercase()) })
}

/// Returns whether these are well-formed parameters, `name=value; …`, without duplicates.
fn are_parameters(mut rest: &str) -> bool {
    let mut names: Vec<&str> = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        // A trailing semicolon is accepted.
        if rest.is_empty() {
            return true;
        }
        let Some((name, value)) = rest.split_once('=') else { return false };
        if !is_token(name) || names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return false;
        }
        names.push(name);
        let Some(length) = value_length(value) else { return false };
        rest = value.get(length..).unwrap_or_default().trim_ascii_start();
        match rest.strip_prefix(';') {
            Some(more) => rest = more,
            None => return rest.is_empty(),
        }
    }
}

/// Returns the length of a parameter's value: a token, or a quoted string.
fn value_length(value: &str) -> Option<usize> {
    let Some(quoted) = value.strip_prefix('"') else {
        let length = value.find([';', ' ', '\t']).unwrap_or(value.len());
        return value.get(..length).is_some_and(is_token).then_some(length);
    };
    let mut is_escaped = false;
    for (at, byte) in quoted.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// Returns whether a text is a token of HTTP, or a media type of a schema, which contains `@`.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~@".contains(&byte))
}

#[cfg(test)]
pub(super) mod tests;
