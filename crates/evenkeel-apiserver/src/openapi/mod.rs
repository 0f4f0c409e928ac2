//! OpenAPI v3: an index, and one document per group version. [`v2`] is the one document of OpenAPI v2.
//!
//! Documents are encoded on first request and cached with their group version, so a new definition does not affect the
//! others.
mod descriptions;
mod document;
mod operations;
#[cfg(test)]
mod tests;
pub(crate) mod v2;

pub use self::descriptions::OpenApiError;
pub(crate) use self::descriptions::{Descriptions, read as read_descriptions};

use bytes::Bytes;
use evenkeel_core::Status;
use http::header::{self, HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};

use crate::discovery::{digest, is_known, json_reply, quoted_etag};
use crate::http_types::Body;
use crate::negotiate::{choose, status_response};
use crate::query::Query;
use crate::registry::{Registry, Version};
use crate::route::Refusal;

/// A document with its hash.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) json: Bytes,
    pub(crate) hash: String,
}

/// The index of all documents.
#[derive(Debug)]
pub(crate) struct Index(Document);

impl Document {
    fn new(json: Bytes) -> Document {
        let hash = digest(&json);
        Document { json, hash }
    }
}

/// Serves `/openapi/v3` (an empty `path`) and `/openapi/v3/{path}` (DIS-12, DIS-13). `now` dates the expiry.
pub(crate) fn respond(
    registry: &Registry,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
    now: Timestamp,
) -> http::Response<Body> {
    // Documents are served as JSON only, which kubectl reads.
    if let Err(status) = acceptable(headers) {
        return status_response(&status);
    }
    if path.is_empty() {
        let index = registry.documents().openapi_index.get_or_init(|| index(registry));
        return document_reply(&index.0, headers);
    }
    let Some(version) = find(registry, path) else {
        return Refusal::PageNotFound.response();
    };
    let document = version_document(registry, version);
    match query.non_empty("hash") {
        None => document_reply(document, headers),
        Some(hash) if hash == document.hash => immutable(document_reply(document, headers), now),
        Some(_) => moved(path, &document.hash),
    }
}

fn acceptable(headers: &HeaderMap) -> Result<usize, Status> {
    choose(headers, &[("application/json", &[])])
}

fn document_reply(document: &Document, headers: &HeaderMap) -> http::Response<Body> {
    let etag = quoted_etag(&document.hash);
    let mut reply = if is_known(headers, &etag) {
        let mut reply = http::Response::new(Body::whole(Bytes::new()));
        *reply.status_mut() = http::StatusCode::NOT_MODIFIED;
        reply
    } else {
        json_reply(document.json.clone())
    };
    reply.headers_mut().insert(header::ETAG, etag);
    reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    reply
}

/// Marks a response as immutable: a URL with the right hash always returns the same bytes.
fn immutable(mut reply: http::Response<Body>, now: Timestamp) -> http::Response<Body> {
    let headers = reply.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    let expires = now
        .checked_add(SignedDuration::from_hours(24 * 365))
        .unwrap_or(Timestamp::MAX)
        .strftime("%a, %d %b %Y %H:%M:%S GMT")
        .to_string();
    if let Ok(expires) = HeaderValue::from_str(&expires) {
        headers.insert(header::EXPIRES, expires);
    }
    reply
}

fn moved(path: &str, hash: &str) -> http::Response<Body> {
    let mut reply = http::Response::new(Body::whole(Bytes::new()));
    *reply.status_mut() = http::StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={hash}")) {
        reply.headers_mut().insert(header::LOCATION, location);
    }
    reply
}

/// Returns the group version whose document has this path: `api/v1`, `apis/apps/v1`.
fn find<'a>(registry: &'a Registry, path: &str) -> Option<&'a Version> {
    let mut segments = path.split('/');
    let group = match segments.next()? {
        "api" => "",
        "apis" => segments.next().filter(|group| !group.is_empty())?,
        _ => return None,
    };
    let version = registry.group(group)?.version(segments.next()?)?;
    segments.next().is_none().then_some(version)
}

/// Returns the path of a group version's document and of its resources: `api/v1`, `apis/apps/v1`.
fn path_of(version: &Version) -> String {
    let root = if version.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", version.api_version())
}

fn version_document<'a>(registry: &Registry, version: &'a Version) -> &'a Document {
    version.openapi.get_or_init(|| Document::new(document::write(version, registry.descriptions()).into()))
}

fn index(registry: &Registry) -> Index {
    let mut json = String::from("{\"paths\":{");
    let versions = registry.groups().iter().flat_map(|group| &group.versions);
    for (position, version) in versions.enumerate() {
        let path = path_of(version);
        let hash = &version_document(registry, version).hash;
        if position > 0 {
            json.push(',');
        }
        // Group and version names need no escaping: they are DNS names.
        json.push_str(&format!("\"{path}\":{{\"serverRelativeURL\":\"/openapi/v3/{path}?hash={hash}\"}}"));
    }
    json.push_str("}}");
    Index(Document::new(json.into()))
}
