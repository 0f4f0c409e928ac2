//! What is counted and timed, under client-go's names, so that existing dashboards work.
//!
//! Everything goes through the facade of the crate `metrics`: install a recorder and it is there. Exporters that want
//! buckets find client-go's in [`LATENCY_BUCKETS`] and [`SIZE_BUCKETS`].
//!
//! | name | labels | what |
//! |---|---|---|
//! | [`REQUESTS`] | `code`, `method`, `host` | attempts; `code` is `<error>` if there was no answer |
//! | [`RETRIES`] | `code`, `verb`, `host` | those of them that were not the first of their call |
//! | [`DURATION`] | `verb`, `host` | seconds that calls took, with all their attempts and waits; streams are not timed |
//! | [`RATE_LIMITER`] | `verb`, `host` | seconds that attempts waited for the client's own limit |
//! | [`REQUEST_SIZE`] | `verb`, `host` | bytes of bodies sent |
//! | [`RESPONSE_SIZE`] | `verb`, `host` | bytes of answers that were read to their end |
//! | [`DNS`] | `host` | seconds that it took to find the addresses of a name; client-go has this one but never shows it |
//! | [`NETWORKS`] | | sets of connections that clients may share |
//! | [`NETWORKS_ASKED_FOR`] | `result` | clients made: `hit` if they share, `miss`, `miss-gc` if those it could have shared were just gone, `uncacheable` |
//! | [`NETWORKS_DROPPED`] | `result` | sets of connections whose last client is gone: `deleted`, or `skipped` if others had taken their place |

use std::sync::{Arc, Once};
use std::time::Duration;

use ::metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram};
use http::{Method, StatusCode};

use crate::config::ServerUrl;

/// Counts attempts.
pub const REQUESTS: &str = "rest_client_requests_total";
/// Counts attempts that were not the first of their call.
pub const RETRIES: &str = "rest_client_request_retries_total";
/// Times calls.
pub const DURATION: &str = "rest_client_request_duration_seconds";
/// Times waits for the client's own limit.
pub const RATE_LIMITER: &str = "rest_client_rate_limiter_duration_seconds";
/// Measures bodies sent.
pub const REQUEST_SIZE: &str = "rest_client_request_size_bytes";
/// Measures answers read.
pub const RESPONSE_SIZE: &str = "rest_client_response_size_bytes";
/// Times the resolution of names.
pub const DNS: &str = "rest_client_dns_resolution_duration_seconds";

/// Shows how many sets of connections there are that clients may share.
pub const NETWORKS: &str = "rest_client_transport_cache_entries";
/// Counts clients that were made, by whether they share connections with others.
pub const NETWORKS_ASKED_FOR: &str = "rest_client_transport_create_calls_total";
/// Counts sets of connections whose last client is gone.
pub const NETWORKS_DROPPED: &str = "rest_client_transport_cache_gc_calls_total";

/// client-go's buckets for [`DURATION`] and [`RATE_LIMITER`], in seconds.
pub const LATENCY_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// client-go's buckets for [`DNS`], in seconds.
pub const DNS_BUCKETS: [f64; 11] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0];
/// client-go's buckets for [`REQUEST_SIZE`] and [`RESPONSE_SIZE`], in bytes.
pub const SIZE_BUCKETS: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// Tells the recorder what the metrics mean. The first client of the process does this by itself; call it if the recorder
/// was installed later.
pub fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "Attempts of requests, by code, method and host.");
    describe_counter!(RETRIES, Unit::Count, "Attempts that were not the first of their call, by code, verb and host.");
    describe_histogram!(DURATION, Unit::Seconds, "Time that calls took, with all attempts and waits.");
    describe_histogram!(RATE_LIMITER, Unit::Seconds, "Time that attempts waited for the client's own rate limit.");
    describe_histogram!(REQUEST_SIZE, Unit::Bytes, "Sizes of the bodies of requests.");
    describe_histogram!(RESPONSE_SIZE, Unit::Bytes, "Sizes of the bodies of answers.");
    describe_histogram!(DNS, Unit::Seconds, "Time that it took to find the addresses of a name.");
    describe_gauge!(NETWORKS, Unit::Count, "Sets of connections that clients may share.");
    describe_counter!(
        NETWORKS_ASKED_FOR,
        Unit::Count,
        "Clients made: hit if they share, else miss, miss-gc or uncacheable."
    );
    describe_counter!(NETWORKS_DROPPED, Unit::Count, "Sets of connections whose last client is gone.");
}

/// The addresses of a host have been found, or not.
pub(crate) fn resolved(host: &str, took: Duration) {
    histogram!(DNS, "host" => SharedString::from_owned(host.to_owned())).record(took);
}

/// The metrics of one client.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    host: Arc<str>,
}

impl Recorder {
    pub(crate) fn new(server: &ServerUrl) -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        Recorder { host: server.authority().as_str().into() }
    }

    fn host(&self) -> SharedString {
        SharedString::from_shared(Arc::clone(&self.host))
    }

    /// An attempt is over: with this answer, or without any. The first one is number 1.
    pub(crate) fn attempt(&self, method: &Method, status: Option<StatusCode>, number: u32) {
        let code = status.map_or(SharedString::const_str("<error>"), code);
        if number > 1 {
            counter!(RETRIES, "code" => code.clone(), "verb" => verb(method), "host" => self.host()).increment(1);
        }
        counter!(REQUESTS, "code" => code, "method" => verb(method), "host" => self.host()).increment(1);
    }

    /// A call is over.
    pub(crate) fn call(&self, method: &Method, took: Duration) {
        histogram!(DURATION, "verb" => verb(method), "host" => self.host()).record(took);
    }

    /// An attempt has got through the limiter.
    pub(crate) fn limited(&self, method: &Method, waited: Duration) {
        histogram!(RATE_LIMITER, "verb" => verb(method), "host" => self.host()).record(waited);
    }

    /// A body was sent.
    pub(crate) fn sent(&self, method: &Method, bytes: usize) {
        histogram!(REQUEST_SIZE, "verb" => verb(method), "host" => self.host()).record(bytes as f64);
    }

    /// An answer was read to its end.
    pub(crate) fn received(&self, method: &Method, bytes: usize) {
        histogram!(RESPONSE_SIZE, "verb" => verb(method), "host" => self.host()).record(bytes as f64);
    }
}

/// A method as a label, for the usual ones without an allocation.
fn verb(method: &Method) -> SharedString {
    for known in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
        if method.as_str() == known {
            return SharedString::const_str(known);
        }
    }
    SharedString::from_owned(method.as_str().to_owned())
}

/// A code as a label, for those that API servers send without an allocation.
fn code(status: StatusCode) -> SharedString {
    const KNOWN: [(u16, &str); 24] = [
        (200, "200"),
        (201, "201"),
        (202, "202"),
        (204, "204"),
        (301, "301"),
        (302, "302"),
        (304, "304"),
        (307, "307"),
        (308, "308"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (406, "406"),
        (409, "409"),
        (410, "410"),
        (415, "415"),
        (422, "422"),
        (429, "429"),
        (500, "500"),
        (502, "502"),
        (503, "503"),
        (504, "504"),
    ];
    match KNOWN.iter().find(|(code, _)| *code == status.as_u16()) {
        Some((_, text)) => SharedString::const_str(text),
        None => SharedString::from_owned(status.as_u16().to_string()),
    }
}
