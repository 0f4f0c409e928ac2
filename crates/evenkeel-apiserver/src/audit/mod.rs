//! The audit log: a record of each request in the form of `audit.k8s.io/v1` (AUD-001 to AUD-003, OPS-1).
//!
//! ```text
//! request ──► AuditRequest, level by AuditPolicy ──► event of each stage, as one line of JSON ──┬──► ring in memory
//!                                                                                               ├──► file, by a thread
//!                                                                                               └──► function of the user
//! ```
//!
//! An event never contains credentials: headers are not recorded, and the bodies of token requests and token reviews are
//! left out at every level.

mod event;
mod file;
pub(crate) mod policy;
mod request;
mod ring;
mod settings;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use self::event::AuditEvent;
use self::file::AuditFile;
pub use self::file::AuditLogError;
pub use self::policy::{AuditPolicy, AuditPolicyError};
pub(crate) use self::request::{AuditRequest, RequestHead};
use self::ring::Ring;
pub(crate) use self::settings::AuditSettings;
use crate::metrics::Metrics;

/// The largest event. A larger one is recorded without its objects.
const MAX_EVENT: usize = 100 * 1024;

/// The audit log of one server.
#[derive(Debug)]
pub(crate) struct AuditLog {
    policy: AuditPolicy,
    ring: Mutex<Ring>,
    file: Option<AuditFile>,
    sink: Option<AuditSink>,
    metrics: Arc<Metrics>,
}

/// The function of [`Builder::audit_sink`](crate::server::Builder::audit_sink).
#[derive(Clone)]
struct AuditSink(Arc<AuditLineHandler>);

type AuditLineHandler = dyn Fn(&[u8]) + Send + Sync;

impl std::fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditSink")
    }
}

impl AuditLog {
    /// Returns the recorded events, oldest first.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.ring.lock().unwrap_or_else(PoisonError::into_inner).lines();
        // Every line is an event that was encoded below.
        lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Waits until the file has every event so far.
    pub(crate) async fn flush(&self) {
        if let Some(file) = &self.file {
            file.flush().await;
        }
    }

    fn record(&self, event: &AuditEvent) {
        let line = match event.to_line() {
            Ok(line) if line.len() <= MAX_EVENT => line,
            Ok(_) => match event.truncated().to_line() {
                Ok(line) => line,
                Err(error) => return self.fail(&error),
            },
            Err(error) => return self.fail(&error),
        };
        let line = Bytes::from(line);
        self.metrics.audit_events.fetch_add(1, Ordering::Relaxed);
        if let Some(file) = &self.file {
            file.write(line.clone());
        }
        if let Some(AuditSink(sink)) = &self.sink {
            sink(line.strip_suffix(b"\n").unwrap_or(&line));
        }
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn fail(&self, error: &serde_json::Error) {
        self.metrics.audit_errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "audit event could not be encoded; dropped");
    }
}

#[cfg(test)]
mod tests;
