//! OpenAPI v2: one document with all paths and definitions, in JSON and in protobuf (OAV-001).
//!
//! kubectl reads it where v3 does not help: for a `v1` `List`, and for kinds that the v3 documents do not have yet. The first
//! request makes both forms, one path and one definition at a time. They are kept compressed, as most clients want them, until
//! the next change of a definition.

mod document;
mod gnostic;
mod operations;
mod schemas;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::header::{self, HeaderMap, HeaderValue};

use crate::discovery::{digest, is_known, quoted_etag};
use crate::http_types::Body;
use crate::listener::compress::accepts_gzip;
use crate::negotiate::choose;
use crate::registry::Registry;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name that clients use: it is not a valid media type, so that responses have the other one.
const PROTOBUF_ALIAS: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The document in both forms, compressed.
#[derive(Debug)]
pub(crate) struct CompressedDocument {
    json: Compressed,
    protobuf: Compressed,
    /// That of the JSON, for both forms: responses vary by Accept.
    etag: HeaderValue,
}

#[derive(Debug)]
struct Compressed {
    gzip: Bytes,
    plain_size: usize,
}

impl Compressed {
    fn new(plain: &[u8]) -> Compressed {
        let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::default());
        // A vector takes every write.
        let gzip = encoder.write_all(plain).and_then(|()| encoder.finish()).unwrap_or_default();
        Compressed { gzip: gzip.into(), plain_size: plain.len() }
    }

    fn plain(&self) -> Bytes {
        let mut plain = Vec::with_capacity(self.plain_size);
        let read = GzDecoder::new(&*self.gzip).read_to_end(&mut plain);
        debug_assert!(read.is_ok(), "this program has compressed it: {read:?}");
        plain.into()
    }
}

/// Serves `/openapi/v2`.
pub(crate) fn respond(registry: &Registry, headers: &HeaderMap) -> http::Response<Body> {
    let mut reply = http::Response::new(Body::whole(Bytes::new()));
    reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    let Ok(chosen) = choose(headers, &[(JSON, &[]), (PROTOBUF_ALIAS, &[]), (PROTOBUF, &[])]) else {
        *reply.status_mut() = http::StatusCode::NOT_ACCEPTABLE;
        return reply;
    };
    let document = registry.documents().openapi_v2.get_or_init(|| compress(registry));
    reply.headers_mut().insert(header::ETAG, document.etag.clone());
    if is_known(headers, &document.etag) {
        *reply.status_mut() = http::StatusCode::NOT_MODIFIED;
        return reply;
    }
    let (form, media) = if chosen == 0 { (&document.json, JSON) } else { (&document.protobuf, PROTOBUF) };
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    if accepts_gzip(headers) {
        reply.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        reply.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        *reply.body_mut() = Body::whole(form.gzip.clone());
    } else {
        *reply.body_mut() = Body::whole(form.plain());
    }
    reply
}

fn compress(registry: &Registry) -> CompressedDocument {
    let (json, protobuf) = document::write(registry);
    CompressedDocument {
        etag: quoted_etag(&digest(&json)),
        json: Compressed::new(&json),
        protobuf: Compressed::new(&protobuf),
    }
}
