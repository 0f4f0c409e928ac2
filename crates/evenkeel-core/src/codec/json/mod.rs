//! [`Json`]: objects as JSON.

mod events;
mod extent;
mod feed;
mod items;

pub(super) use events::read_bookmark;

use std::borrow::Cow;

use bytes::Bytes;

use super::{ApiKind, Codec, EncodeError, EventDecoder, ItemDecoder, Parsed, Payload, Problem};
use crate::decode::{DecodeError, Misfit};
use crate::header::Header;
use crate::json::{JsonValue, Scanner};
use crate::key::ObjectKey;
use crate::status::Status;

/// Objects as JSON: `application/json`.
///
/// What it writes is compact and ends with a newline, as Go's encoder leaves it.
///
/// ```
/// use evenkeel_core::codec::{ApiKind, Codec, Json};
///
/// let kind = ApiKind { api_version: "example.com/v1", kind: "Foo" };
/// assert_eq!(Json.encode(&["a"], kind)?, b"[\"a\"]\n");
/// # Ok::<(), evenkeel_core::codec::EncodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

impl Json {
    /// `application/json`.
    pub const MEDIA_TYPE: &'static str = "application/json";
}

impl Codec for Json {
    fn media_type(&self) -> &'static str {
        Json::MEDIA_TYPE
    }

    fn encode(&self, value: &dyn erased_serde::Serialize, _kind: ApiKind<'_>) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = serde_json::to_vec(value).map_err(|error| EncodeError {
            media_type: Json::MEDIA_TYPE,
            problem: Problem::Json(Misfit::new(&error)),
        })?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn decode(&self, bytes: Bytes) -> Result<Parsed, DecodeError> {
        let header = Header::from_json(&bytes)?.named()?;
        Ok(Parsed { header, payload: Payload::json(bytes) })
    }

    fn decode_status(&self, bytes: &[u8]) -> Option<Status> {
        let mut says_so = false;
        let mut version_fits = true;
        let mut scanner = Scanner::new(bytes).ok()?;
        let checked = scanner.object(|scanner, member| {
            match member {
                "kind" => says_so = scanner.string()? == "Status",
                // It may be left out; the kind may not: half of the world's JSON has neither.
                "apiVersion" => version_fits = scanner.string()? == "v1",
                _ => {}
            }
            Ok(())
        });
        checked.and_then(|()| scanner.end()).ok()?;
        if says_so && version_fits { serde_json::from_slice(bytes).ok() } else { None }
    }

    fn items(&self) -> Box<dyn ItemDecoder> {
        Box::new(items::JsonItems::new())
    }

    fn events(&self) -> Box<dyn EventDecoder> {
        Box::new(events::JsonEvents::new())
    }
}

/// The key of an object that cannot be read, as far as it can. `path` is where in the text the object stands.
pub(super) fn key_in(text: &[u8], path: &str) -> Option<Box<ObjectKey>> {
    let text = std::str::from_utf8(text).ok()?;
    let member = |name| {
        let path = format!("{path}metadata.{name}");
        JsonValue::at_path(text, &path).and_then(|value| value.as_str().map(Cow::into_owned))
    };
    let name = member("name").filter(|name| !name.is_empty())?;
    Some(Box::new(ObjectKey::new(member("namespace").as_deref(), &name)))
}

#[cfg(test)]
mod tests;
