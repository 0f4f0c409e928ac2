//! The fronts: everything between a transport and the engine. The only place where tokio, hyper and rustls are known.
//!
//! ```text
//! TCP ── TLS ── HTTP/1.1, HTTP/2 ──┐
//!                                  ├── service: who asks, faults, body, waiting ── Handler (the engine)
//! in-process callers ──────────────┘
//! ```

pub(crate) mod auth;
mod compress;
#[cfg(test)]
pub(crate) mod fake_handler;
mod fault_endpoint;
mod faulty;
pub(crate) mod http;
mod impersonate;
mod receive;
mod records;
pub(crate) mod service;
#[cfg(test)]
mod tests;
pub(crate) mod tls;

use std::task::{Context, Poll};

pub(crate) use fault_endpoint::FaultEndpoint;
pub(crate) use records::Records;
pub use records::RequestRecord;
pub use service::InProcess;

use crate::engine::Snapshot;
use crate::http_types::{ApiRequest, HandlerOutcome, User};
use crate::logs::PodLogs;
use crate::store::StoreStats;

/// The core as a front sees it: synchronous, and never waiting for anything.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers a request. `waited` is set when an [`HandlerOutcome::AwaitRevision`] has been waited for in vain.
    fn handle(&self, request: &ApiRequest, waited: bool) -> HandlerOutcome;

    /// Ready when the store has reached this revision; otherwise the waker is woken when that may be so.
    fn poll_revision(&self, revision: u64, cx: &mut Context<'_>) -> Poll<()>;

    /// Called about once a second: bookmarks, the ends of watches, whatever else time brings about.
    fn tick(&self);

    /// Ends every watch and every log that is followed.
    fn close_watches(&self);

    /// What the containers of pods have written.
    fn logs(&self) -> PodLogs;

    /// Whom a token stands for that the server itself has handed out.
    fn user_of_token(&self, token: &[u8]) -> Option<User>;

    /// How much there is of everything.
    fn stats(&self) -> StoreStats;

    /// Everything there is at this moment.
    fn snapshot(&self) -> Snapshot;

    /// Goes back to a moment.
    fn restore(&self, snapshot: &Snapshot);
}
