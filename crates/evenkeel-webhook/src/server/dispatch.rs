//! Answers HTTP requests: finds the hook, checks the request, reads its body.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::Full;
use tokio::time::Instant;

use super::body::BodyError;
use super::metrics::RouteMetrics;
use super::route::{Route, text};
use super::{Shared, body};
use crate::path::CONVERT_PATH;

/// The size from which on bodies of reviews are rejected: 7 MiB, more than twice the largest object.
const REVIEW_LIMIT: usize = 7_340_032;
/// The longest timeout of a webhook, and the one of requests that state none.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers a request.
pub(super) async fn answer<B: Body>(shared: &Shared, request: Request<B>) -> Response<Full<Bytes>> {
    let started = Instant::now();
    let (head, body) = request.into_parts();
    if head.uri.path() == CONVERT_PATH && !shared.conversions.is_empty() {
        let metrics = shared.conversion_metrics.get_or_init(|| RouteMetrics::new(CONVERT_PATH));
        let response = {
            let _in_flight = metrics.begin();
            convert(shared, body).await
        };
        metrics.answered(response.status().as_u16(), started.elapsed());
        return response.map(Full::new);
    }
    let Some(route) = shared.route(head.uri.path()) else {
        return text(StatusCode::NOT_FOUND, "no webhook is registered on this path").map(Full::new);
    };
    let response = {
        let _in_flight = route.metrics().begin();
        review(shared, &route, &head, body, started).await
    };
    route.metrics().answered(response.status().as_u16(), started.elapsed());
    response.map(Full::new)
}

/// Answers a conversion review. The HTTP client of API servers waits for 30 seconds.
async fn convert<B: Body>(shared: &Shared, body: B) -> Response<Bytes> {
    let mut reserved = shared.bodies.reserve();
    match body::read(body, shared.conversion_limit, &mut reserved).await {
        Ok(body) => tokio::time::timeout(MAX_TIMEOUT, shared.conversions.respond(&body))
            .await
            .unwrap_or_else(|_| text(StatusCode::GATEWAY_TIMEOUT, "the conversion took longer than 30 seconds")),
        Err(error) => refuse(&error),
    }
}

/// The answer to a request whose body was not read. A client of Kubernetes sends it again after a `Retry-After`.
fn refuse(error: &BodyError) -> Response<Bytes> {
    let mut response = text(error.code(), error.to_string());
    if *error == BodyError::NoRoom {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

async fn review<B: Body>(shared: &Shared, route: &Route, head: &Parts, body: B, started: Instant) -> Response<Bytes> {
    let mut reserved = shared.bodies.reserve();
    let body = match body::read(body, REVIEW_LIMIT, &mut reserved).await {
        Ok(body) => body,
        Err(error) => return refuse(&error),
    };
    if body.is_empty() {
        return text(StatusCode::BAD_REQUEST, "request body is empty");
    }
    if let Err(found) = check_content_type(&head.headers) {
        let message = format!("contentType={found}, expected application/json");
        return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    }
    let deadline = started + timeout(head.uri.query());
    route.respond(body, Some(deadline), &shared.review).await
}

/// Parameters such as `charset` are ignored: JSON is UTF-8.
fn check_content_type(headers: &HeaderMap) -> Result<(), String> {
    let value = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let value = value.unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(value.into_owned()) }
}

/// Returns the timeout that the API server states, such as `?timeout=10s`.
fn timeout(query: Option<&str>) -> Duration {
    let query = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let stated = query.into_iter().find(|(key, _)| key == "timeout");
    let stated = stated.and_then(|(_, value)| evenkeel_core::duration::parse(&value).ok());
    stated.filter(|timeout| !timeout.is_zero()).map_or(MAX_TIMEOUT, |timeout| timeout.min(MAX_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arv_011_the_timeout_of_the_webhook_is_read() {
        assert_eq!(timeout(Some("timeout=7s")), Duration::from_secs(7));
        assert_eq!(timeout(Some("a=b&timeout=1s")), Duration::from_secs(1));
        for query in [None, Some(""), Some("timeout=0s"), Some("timeout=x"), Some("timeout=1h")] {
            assert_eq!(timeout(query), MAX_TIMEOUT, "{query:?}");
        }
    }
}
