//! A server in this process that is the same for every input.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Env, Snapshot};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::Value;
use tokio::runtime::Runtime;
use tower_service::Service;

/// How much of a response that never ends is read, in virtual time.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time at which the server was started: 2030-01-01T00:00:00Z.
const START: i64 = 1_893_456_000;

/// A time that stands still, and random numbers that differ.
#[derive(Default)]
struct FixedEnv(AtomicU64);

impl Env for FixedEnv {
    fn wall(&self) -> Timestamp {
        Timestamp::from_second(START).expect("a time")
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        count.wrapping_mul(evenkeel_base::hash::GOLDEN_RATIO)
    }
}

/// A server and the content that it starts with.
pub(crate) struct TestServer {
    runtime: Runtime,
    server: ApiServer,
    start: Snapshot,
}

/// A response, as far as it was read.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null if the text is not JSON.
    pub(crate) body: Value,
}

impl TestServer {
    /// Starts a server with objects: paths of collections, and what is created there.
    pub(crate) fn with_objects(objects: &[(&str, Value)]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let builder = ApiServer::builder().in_process_only().env(FixedEnv::default());
        let server = runtime.block_on(builder.start()).expect("the server starts");
        let start = server.snapshot();
        let mut this = TestServer { runtime, server, start };
        for (path, object) in objects {
            let response = this.send("POST", path, &[], object.to_string()).expect("a valid request");
            assert_eq!(response.status, StatusCode::CREATED, "{}", response.text);
        }
        this.start = this.server.snapshot();
        this
    }

    /// Removes what requests have changed.
    pub(crate) fn reset(&self) {
        self.server.restore(&self.start);
    }

    /// Returns the latest revision.
    pub(crate) fn revision(&self) -> u64 {
        self.server.stats().revision
    }

    /// Sends a request and reads its response. Returns `None` if it is no request of HTTP.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: impl Into<Bytes>,
    ) -> Option<TestResponse> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body.into())).ok()?;
        let mut service = self.server.service();
        self.runtime.block_on(async move {
            // A fault that a request injects may cut its connection.
            let (head, mut body) = service.call(request).await.ok()?.into_parts();
            let mut bytes = Vec::new();
            let read = async {
                while let Some(Ok(frame)) = body.frame().await {
                    bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                }
            };
            // A watch does not end by itself.
            let _ = tokio::time::timeout(PATIENCE, read).await;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            Some(TestResponse { status: head.status, headers: head.headers, text, body })
        })
    }
}
