//! Media types, and which codec reads an answer.

use std::borrow::Cow;
use std::fmt;

use evenkeel_core::codec::{Codec, Json};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::text::escaped;

/// How much of a media type is shown that makes no sense.
const SHOWN: usize = 128;

/// The codecs that a client has, and the one that it prefers.
#[derive(Clone, Debug)]
pub(crate) struct Codecs {
    known: Vec<&'static dyn Codec>,
    preferred: &'static dyn Codec,
    accept: HeaderValue,
}

/// Why there is no codec for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MediaError {
    /// The header makes no sense.
    Malformed(String),
    /// There is no codec for this media type.
    Unknown(String),
}

impl Codecs {
    /// These codecs. The first of `known` is for watches that do not say what they are; `preferred` is for requests, and for
    /// answers that do not say.
    pub(crate) fn new(known: Vec<&'static dyn Codec>, preferred: &'static dyn Codec) -> Self {
        let accept = match known.first() {
            Some(first) if first.media_type() != preferred.media_type() => {
                HeaderValue::from_str(&format!("{},{}", preferred.media_type(), first.media_type()))
            }
            _ => HeaderValue::from_str(&format!("{}, */*", preferred.media_type())),
        };
        let accept = accept.unwrap_or(HeaderValue::from_static("*/*"));
        Codecs { known, preferred, accept }
    }

    /// What to ask for with a request that does not say.
    pub(crate) fn accept(&self) -> &HeaderValue {
        &self.accept
    }

    /// The codec for an answer with these headers.
    pub(crate) fn of_answer(&self, headers: &HeaderMap) -> Result<&'static dyn Codec, MediaError> {
        let media_type = media_type(headers)?;
        if media_type.is_empty() {
            return Ok(self.preferred);
        }
        self.find(&media_type, |codec| codec.reads(&media_type))
    }

    /// The codec for a watch with these headers.
    pub(crate) fn of_watch(&self, headers: &HeaderMap) -> Result<&'static dyn Codec, MediaError> {
        let media_type = media_type(headers)?;
        if let (true, Some(first)) = (media_type.is_empty(), self.known.first()) {
            return Ok(*first);
        }
        self.find(&media_type, |codec| codec.reads_watch(&media_type))
    }

    fn find(&self, media_type: &str, reads: impl Fn(&dyn Codec) -> bool) -> Result<&'static dyn Codec, MediaError> {
        let found = self.known.iter().find(|codec| reads(**codec));
        found.copied().ok_or_else(|| MediaError::Unknown(escaped(media_type.as_bytes(), SHOWN)))
    }
}

impl Default for Codecs {
    fn default() -> Self {
        Codecs::new(vec![&Json], &Json)
    }
}

impl fmt::Display for MediaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MediaError::Malformed(header) => write!(f, "its Content-Type makes no sense: \"{header}\""),
            MediaError::Unknown(media_type) => write!(f, "its media type is {media_type}, for which there is no codec"),
        }
    }
}

/// The media type of an answer, in lower case and without its parameters; empty if it has none.
pub(super) fn media_type(headers: &HeaderMap) -> Result<Cow<'_, str>, MediaError> {
    let Some(value) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else {
        return Ok(Cow::Borrowed(""));
    };
    // What nearly every answer says.
    if value == Json::MEDIA_TYPE.as_bytes() {
        return Ok(Cow::Borrowed(Json::MEDIA_TYPE));
    }
    std::str::from_utf8(value).ok().and_then(parse).ok_or_else(|| MediaError::Malformed(escaped(value, SHOWN)))
}

/// The media type that a header states, if all of the header is as it should be.
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

/// Whether these are `name=value; …`, with no name twice.
fn are_parameters(mut rest: &str) -> bool {
    let mut names: Vec<&str> = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        // A semicolon with nothing behind it does no harm.
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

/// How long a parameter's value is: a token, or a text in quotes.
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

/// A token as HTTP has it. Servers also put `@` into the media types of their schemas.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~@".contains(&byte))
}

#[cfg(test)]
#[path = "media_tests.rs"]
pub(super) mod tests;
