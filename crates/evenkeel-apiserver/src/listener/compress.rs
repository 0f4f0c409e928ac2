//! gzip for large, complete responses (NEG-8).

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Body as _;

use crate::http_types::Body;

/// The smallest body that is compressed.
const MIN_SIZE: u64 = 128 * 1024;

/// Returns whether the client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            named && !parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        })
}

/// Returns whether compressing a response is worth it.
pub(crate) fn is_large(response: &Response<Body>) -> bool {
    let large = response.body().size_hint().exact().is_some_and(|size| size > MIN_SIZE);
    large && !response.headers().contains_key(header::CONTENT_ENCODING)
}

/// Compresses the response if its body is complete, large, and not encoded yet. Streams, such as watches, pass
/// unchanged.
pub(crate) fn gzip(mut response: Response<Body>) -> Response<Body> {
    if !is_large(&response) {
        return response;
    }
    let Some(plain) = take_whole(response.body_mut()) else {
        return response;
    };
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    let packed = encoder.write_all(&plain).and_then(|()| encoder.finish());
    let Ok(packed) = packed else {
        *response.body_mut() = Body::whole(plain);
        return response;
    };
    *response.body_mut() = Body::whole(packed);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// A body of known size has its single frame ready.
fn take_whole(body: &mut Body) -> Option<Bytes> {
    match Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
        _ => None,
    }
}
