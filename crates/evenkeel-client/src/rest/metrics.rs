//! Metrics under client-go's names, so that existing dashboards work.
//!
//! All metrics use the facade of the crate `metrics`: install a recorder to export them. [`LATENCY_BUCKETS`] and
//! [`SIZE_BUCKETS`] are client-go's buckets.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | [`REQUESTS`] | `code`, `method`, `host` | attempts; `code` is `<error>` without a response |
//! | [`RETRIES`] | `code`, `verb`, `host` | attempts that were retries |
//! | [`DURATION`] | `verb`, `host` | seconds per request, with all attempts and waits; streams are not measured |
//! | [`RATE_LIMITER`] | `verb`, `host` | seconds that attempts waited for the client's own rate limit |
//! | [`RETRY_WAITS`] | `verb`, `host` | seconds that requests wait before a retry, recorded when the wait starts |
//! | [`LATE_RESPONSES`] | `verb`, `host` | reports of attempts without a response after 10 s, 30 s, 70 s, … |
//! | [`REQUEST_SIZE`] | `verb`, `host` | bytes of bodies sent |
//! | [`RESPONSE_SIZE`] | `verb`, `host` | bytes of responses that were read to their end |
//! | [`DNS`] | `host` | seconds per name resolution; client-go defines it and never records it |
//! | [`NETWORKS`] | | connection pools that clients share |
//! | [`NETWORKS_ASKED_FOR`] | `result` | clients created: `hit` if they share a pool, `miss`, `miss-gc` if the pool was
//! just dropped, `uncacheable` |
//! | [`NETWORKS_DROPPED`] | `result` | connection pools without a client: `deleted`, or `skipped` if another pool had
//! replaced them |
//! | [`EXEC_CALLS`] | `code`, `call_status` | runs of exec plugins: `no_error`, `plugin_execution_error`,
//! `plugin_not_found_error`, `client_internal_error`, with the exit code |
//! | [`EXEC_POLICY_CALLS`] | `status` | decisions of the policy of exec plugins: `allowed`, `denied` |
//! | [`EXEC_TTL`] | | seconds until the first client certificate of an exec plugin expires; infinite without one.
//! Updated by requests |
//! | [`EXEC_ROTATION_AGE`] | | seconds for which a client certificate of an exec plugin was valid when it was replaced |
//! | [`CERTIFICATE_RENEW_ERRORS`] | `signer` | failed attempts of a certificate manager to renew its certificate |
//! | [`CERTIFICATE_TTL`] | `signer` | seconds until the certificate of a certificate manager expires; infinite without
//! one. Updated every minute |
//! | [`CERTIFICATE_ROTATION_AGE`] | `signer` | seconds for which the certificate of a certificate manager was valid when
//! it was replaced |

use std::sync::{Arc, Once};
use std::time::Duration;

use ::metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram};
use http::{Method, StatusCode};

use crate::config::ServerUrl;

/// Counts attempts.
pub const REQUESTS: &str = "rest_client_requests_total";
/// Counts attempts that were retries.
pub const RETRIES: &str = "rest_client_request_retries_total";
/// Measures the duration of requests.
pub const DURATION: &str = "rest_client_request_duration_seconds";
/// Measures waits for the client's own rate limit.
pub const RATE_LIMITER: &str = "rest_client_rate_limiter_duration_seconds";
/// Measures waits before retries.
pub const RETRY_WAITS: &str = "rest_client_retry_wait_duration_seconds";
/// Counts reports of attempts whose response is late.
pub const LATE_RESPONSES: &str = "rest_client_late_responses_total";
/// Measures request bodies.
pub const REQUEST_SIZE: &str = "rest_client_request_size_bytes";
/// Measures response bodies.
pub const RESPONSE_SIZE: &str = "rest_client_response_size_bytes";
/// Measures name resolution.
pub const DNS: &str = "rest_client_dns_resolution_duration_seconds";

/// Counts the connection pools that clients share.
pub const NETWORKS: &str = "rest_client_transport_cache_entries";
/// Counts created clients, by whether they share a connection pool.
pub const NETWORKS_ASKED_FOR: &str = "rest_client_transport_create_calls_total";
/// Counts connection pools without a client.
pub const NETWORKS_DROPPED: &str = "rest_client_transport_cache_gc_calls_total";

/// Counts runs of exec plugins.
pub const EXEC_CALLS: &str = "rest_client_exec_plugin_call_total";
/// Counts decisions of the policy of exec plugins.
pub const EXEC_POLICY_CALLS: &str = "rest_client_exec_plugin_policy_call_total";
/// Measures the time until the first client certificate of an exec plugin expires.
pub const EXEC_TTL: &str = "rest_client_exec_plugin_ttl_seconds";
/// Measures the age of client certificates of exec plugins when they are replaced.
pub const EXEC_ROTATION_AGE: &str = "rest_client_exec_plugin_certificate_rotation_age";

/// Counts failed attempts of certificate managers. The kubelet's name, without its prefix.
pub const CERTIFICATE_RENEW_ERRORS: &str = "certificate_manager_client_expiration_renew_errors";
/// Measures the time until the certificate of a certificate manager expires. The kubelet's name, without its prefix.
pub const CERTIFICATE_TTL: &str = "certificate_manager_client_ttl_seconds";
/// Measures the age of certificates of certificate managers when they are replaced.
pub const CERTIFICATE_ROTATION_AGE: &str = "certificate_manager_client_rotation_seconds";

/// client-go's buckets for [`DURATION`] and [`RATE_LIMITER`], in seconds; they suit [`RETRY_WAITS`].
pub const LATENCY_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// client-go's buckets for [`DNS`], in seconds.
pub const DNS_BUCKETS: [f64; 11] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0];
/// client-go's buckets for [`REQUEST_SIZE`] and [`RESPONSE_SIZE`], in bytes.
pub const SIZE_BUCKETS: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// client-go's buckets for [`EXEC_ROTATION_AGE`] and [`CERTIFICATE_ROTATION_AGE`], in seconds: from ten minutes to four years.
pub const ROTATION_AGE_BUCKETS: [f64; 11] = [
    600.0,
    1800.0,
    3600.0,
    14_400.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

/// Describes the metrics to the recorder. The first client of the process does this; call it if the recorder was
/// installed later.
pub fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "Attempts of requests, by code, method and host.");
    describe_counter!(RETRIES, Unit::Count, "Attempts that were retries, by code, verb and host.");
    describe_histogram!(DURATION, Unit::Seconds, "Duration of requests, with all attempts and waits.");
    describe_histogram!(RATE_LIMITER, Unit::Seconds, "Time that attempts waited for the client's own rate limit.");
    describe_histogram!(RETRY_WAITS, Unit::Seconds, "Waits before retries, recorded when they start.");
    describe_counter!(LATE_RESPONSES, Unit::Count, "Reports of attempts whose response is late.");
    describe_histogram!(REQUEST_SIZE, Unit::Bytes, "Sizes of request bodies.");
    describe_histogram!(RESPONSE_SIZE, Unit::Bytes, "Sizes of response bodies.");
    describe_histogram!(DNS, Unit::Seconds, "Duration of name resolution.");
    describe_gauge!(NETWORKS, Unit::Count, "Connection pools that clients share.");
    describe_counter!(
        NETWORKS_ASKED_FOR,
        Unit::Count,
        "Clients created: hit if they share a pool, else miss, miss-gc or uncacheable."
    );
    describe_counter!(NETWORKS_DROPPED, Unit::Count, "Connection pools without a client.");
    describe_counter!(EXEC_CALLS, Unit::Count, "Runs of exec plugins, by exit code and kind of error.");
    describe_counter!(EXEC_POLICY_CALLS, Unit::Count, "Decisions of the policy of exec plugins.");
    describe_gauge!(EXEC_TTL, Unit::Seconds, "Time until the first client certificate of an exec plugin expires.");
    describe_histogram!(EXEC_ROTATION_AGE, Unit::Seconds, "Age of exec plugins' client certificates when replaced.");
    describe_counter!(CERTIFICATE_RENEW_ERRORS, Unit::Count, "Failed renewals of certificates, by signer.");
    describe_gauge!(CERTIFICATE_TTL, Unit::Seconds, "Time until a renewed certificate expires, by signer.");
    describe_histogram!(CERTIFICATE_ROTATION_AGE, Unit::Seconds, "Age of renewed certificates when replaced.");
}

/// Records a name resolution.
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

    /// Records an attempt, with its status if there was a response. The first attempt is number 1.
    pub(crate) fn attempt(&self, method: &Method, status: Option<StatusCode>, number: u32) {
        let code = status.map_or(SharedString::const_str("<error>"), code);
        if number > 1 {
            counter!(RETRIES, "code" => code.clone(), "verb" => verb(method), "host" => self.host()).increment(1);
        }
        counter!(REQUESTS, "code" => code, "method" => verb(method), "host" => self.host()).increment(1);
    }

    /// Records a finished request.
    pub(crate) fn request(&self, method: &Method, took: Duration) {
        histogram!(DURATION, "verb" => verb(method), "host" => self.host()).record(took);
    }

    /// Records a wait for the rate limiter.
    pub(crate) fn throttled(&self, method: &Method, waited: Duration) {
        histogram!(RATE_LIMITER, "verb" => verb(method), "host" => self.host()).record(waited);
    }

    /// Records that a wait before a retry starts.
    pub(crate) fn retry_wait(&self, method: &Method, wait: Duration) {
        histogram!(RETRY_WAITS, "verb" => verb(method), "host" => self.host()).record(wait);
    }

    /// Records that a response is late.
    pub(crate) fn late(&self, method: &Method) {
        counter!(LATE_RESPONSES, "verb" => verb(method), "host" => self.host()).increment(1);
    }

    /// Records the size of a request body.
    pub(crate) fn request_size(&self, method: &Method, bytes: usize) {
        histogram!(REQUEST_SIZE, "verb" => verb(method), "host" => self.host()).record(bytes as f64);
    }

    /// Records the size of a response body.
    pub(crate) fn response_size(&self, method: &Method, bytes: usize) {
        histogram!(RESPONSE_SIZE, "verb" => verb(method), "host" => self.host()).record(bytes as f64);
    }
}

/// The label of a method, without an allocation for the usual ones.
fn verb(method: &Method) -> SharedString {
    for known in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
        if method.as_str() == known {
            return SharedString::const_str(known);
        }
    }
    SharedString::from_owned(method.as_str().to_owned())
}

/// The label of a status code, without an allocation for those that API servers send.
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
