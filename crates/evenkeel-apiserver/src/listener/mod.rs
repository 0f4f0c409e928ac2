//! The listener: everything between a transport and the engine. tokio, hyper and rustls are used only here.
//!
//! ```text
//! TCP ── TLS ── HTTP/1.1, HTTP/2 ──┐
//!                                  ├── service: authentication, faults, authorization, body, flow control ── Handler (the engine)
//! in-process callers ──────────────┘
//! ```

#[cfg(feature = "client")]
pub(crate) mod access_logs;
mod activity;
pub(crate) mod aside;
pub(crate) mod auth;
pub(crate) mod compress;
mod connections;
mod cross_site;
#[cfg(test)]
pub(crate) mod fake_handler;
mod fault_body;
mod fault_endpoint;
pub(crate) mod flow;
pub(crate) mod http;
pub(crate) mod https;
mod impersonate;
pub(crate) mod observation;
mod outbound;
mod request_body;
mod request_class;
pub(crate) mod request_info;
mod request_log;
pub(crate) mod service;
pub(crate) mod sessions;
mod stall;
#[cfg(test)]
mod tests;
pub(crate) mod tls;
mod webhook_trust;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_core::Status;

pub(crate) use fault_endpoint::FaultEndpoint;
pub(crate) use request_log::RequestLog;
pub use request_log::{RequestRecord, RequestTarget};
pub use service::InProcess;

use self::request_info::RequestInfo;
use crate::authorization::{AccessAttributes, AccessDecision, Forbidden};
use crate::engine::Snapshot;
use crate::engine::bootstrap::ServerFacts;
use crate::http_types::{ApiRequest, HandlerCall, HandlerOutcome, User};
use crate::logs::PodLogs;
use crate::metrics::{ServedResource, StoreFacts};
use crate::store::StoreStats;
use crate::version::ServerVersion;

/// The engine as seen by the listener: synchronous and non-blocking.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handles a request.
    fn handle(&self, request: &Arc<ApiRequest>, call: HandlerCall) -> HandlerOutcome;

    /// Decides whether a user may do something.
    fn authorize(&self, access: &AccessAttributes<'_>) -> AccessDecision;

    /// Decides whether a user may send a request. Returns the reason.
    fn authorize_request(&self, user: &User, info: &RequestInfo<'_>, query: Option<&str>) -> Result<String, Forbidden>;

    /// Returns the release to behave like.
    fn version(&self) -> ServerVersion {
        ServerVersion::default()
    }

    /// Ready when the store has reached this revision; otherwise registers the waker.
    fn poll_revision(&self, revision: u64, cx: &mut Context<'_>) -> Poll<()>;

    /// Returns the revision that a response of now may show, unless it is known to be durable.
    fn unsynced_revision(&self) -> Option<u64> {
        None
    }

    /// Ready when this revision is durable, or with the error if it never will be, or if a request that writes may have
    /// been taken back; otherwise registers the waker.
    fn poll_durable(&self, _revision: u64, _writes: bool, _cx: &mut Context<'_>) -> Poll<Result<(), Box<Status>>> {
        Poll::Ready(Ok(()))
    }

    /// Returns whether the store is on disk.
    fn is_durable(&self) -> bool {
        false
    }

    /// Writes the content of the store to a file. Returns its revision.
    fn backup(&self, _path: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes what is queued for the disk and refuses writes from now on. Blocks until it is written.
    fn close_storage(&self) {}

    /// Runs periodic work, about once a second: bookmarks, watch timeouts, expiries.
    fn tick(&self);

    /// Runs a step of the work that is due, such as the removal of the content of a namespace. Returns whether there was
    /// any.
    fn run_due_work(&self) -> bool {
        false
    }

    /// Adds the objects that a server has from its start. Called once, before the first request.
    fn bootstrap(&self, _facts: &ServerFacts) {}

    /// Ends all watches and other streaming responses.
    fn close_watches(&self);

    /// Returns the logs of pods.
    fn logs(&self) -> PodLogs;

    /// Returns the user of a token that the server itself issued.
    fn user_of_token(&self, token: &[u8]) -> Option<User>;

    /// Returns the counts of the store.
    fn stats(&self) -> StoreStats;

    /// Returns the resource that a request addresses, if the server serves it.
    fn served(&self, info: &RequestInfo<'_>) -> Option<ServedResource>;

    /// Returns what metrics show of the store.
    fn store_facts(&self) -> StoreFacts;

    /// Takes a snapshot of the store.
    fn snapshot(&self) -> Snapshot;

    /// Restores a snapshot.
    fn restore(&self, snapshot: &Snapshot);
}
