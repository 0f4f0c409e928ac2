//! Objects, lists and watches in JSON.

mod buffer;
mod list;
mod value_boundary;
mod watch;

use bytes::Bytes;

pub(super) use list::JsonListDecoder;
pub(super) use watch::{JsonWatchDecoder, read_bookmark};

use super::{Codec, ParsedObject};
use crate::error::{DecodeError, EncodeError, TypeMismatch};
use crate::header::Header;
use crate::json::Scanner;
use crate::key::ObjectKey;
use crate::obj::Payload;
use crate::status::Status;

pub(super) fn encode(value: &dyn erased_serde::Serialize) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = serde_json::to_vec(value)
        .map_err(|error| EncodeError::json(Codec::Json.media_type(), TypeMismatch::new(&error)))?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(super) fn decode(bytes: Bytes) -> Result<ParsedObject, DecodeError> {
    let header = Header::from_json(&bytes)?.named()?;
    Ok(ParsedObject { header, payload: Payload::json(bytes) })
}

pub(super) fn decode_status(bytes: &[u8]) -> Option<Status> {
    let mut is_status = false;
    let mut is_v1 = true;
    let mut scanner = Scanner::new(bytes).ok()?;
    let checked = scanner.object(|scanner, member| {
        match member {
            "kind" => is_status = scanner.string()? == "Status",
            // The API version may be absent. The kind may not: most JSON has neither.
            "apiVersion" => is_v1 = scanner.string()? == "v1",
            _ => {}
        }
        Ok(())
    });
    checked.and_then(|()| scanner.end()).ok()?;
    if is_status && is_v1 { serde_json::from_slice(bytes).ok() } else { None }
}

/// Returns the key of a malformed object, if it can be found. `parents` are the members of the text that contain the object.
pub(super) fn key_in(text: &[u8], parents: &[&str]) -> Option<Box<ObjectKey>> {
    let text = std::str::from_utf8(text).ok()?;
    let member = |name| Scanner::string_at(text, &[parents, &["metadata", name]].concat());
    let name = member("name").filter(|name| !name.is_empty())?;
    Some(Box::new(ObjectKey::new(member("namespace").as_deref(), &name)))
}

#[cfg(test)]
mod tests;
