//! The settings of the audit log, and its part of the server's interface.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::file::{AuditFile, Rotation};
use super::{AuditLog, AuditLogError, AuditPolicy, AuditSink};
use crate::metrics::Metrics;
use crate::server::{ApiServer, Builder};

/// What the builder says about the audit log. There is none without a policy, a file and a sink.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditSettings {
    policy: Option<AuditPolicy>,
    path: Option<PathBuf>,
    rotation: Rotation,
    sink: Option<AuditSink>,
}

impl AuditSettings {
    pub(crate) fn open(self, metrics: &Arc<Metrics>) -> Result<Option<Arc<AuditLog>>, AuditLogError> {
        if self.policy.is_none() && self.path.is_none() && self.sink.is_none() {
            return Ok(None);
        }
        let file = match &self.path {
            Some(path) => Some(AuditFile::open(path, self.rotation, Arc::clone(metrics))?),
            None => None,
        };
        let policy = self.policy.unwrap_or_else(AuditPolicy::metadata);
        let (ring, sink, metrics) = (Default::default(), self.sink, Arc::clone(metrics));
        Ok(Some(Arc::new(AuditLog { policy, ring, file, sink, metrics })))
    }
}

impl Builder {
    /// Records requests by this policy. [`ApiServer::audit_events`] returns the events, and [`Builder::audit_log`] writes
    /// them to a file, too.
    pub fn audit_policy(mut self, policy: AuditPolicy) -> Self {
        self.audit.policy = Some(policy);
        self
    }

    /// Appends an audit event per line to this file, which only its owner can read. Without [`Builder::audit_policy`],
    /// the policy is [`AuditPolicy::metadata`].
    ///
    /// A thread writes the file, and requests do not wait for it. Events that the disk does not take are dropped,
    /// reported once and counted in `apiserver_audit_error_total`. [`ApiServer::shutdown`] waits until the file is
    /// complete.
    pub fn audit_log(mut self, path: impl Into<PathBuf>) -> Self {
        self.audit.path = Some(path.into());
        self
    }

    /// Calls this function with each audit event, as one line of JSON without a line feed. Without
    /// [`Builder::audit_policy`], the policy is [`AuditPolicy::metadata`].
    ///
    /// The request waits for the call, so the function must not block. Calls of concurrent requests overlap; the stages of
    /// one request come in order.
    pub fn audit_sink(mut self, sink: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.audit.sink = Some(AuditSink(Arc::new(sink)));
        self
    }

    /// Renames the file of [`Builder::audit_log`] to `NAME.1` before it exceeds this size, and keeps this many old files.
    /// The default is 100 MiB and five old files.
    pub fn audit_log_rotation(mut self, max_bytes: u64, backups: usize) -> Self {
        self.audit.rotation = Rotation { max_bytes, backups };
        self
    }
}

impl ApiServer {
    /// Returns the last audit events, oldest first, in the form of `audit.k8s.io/v1`: at most 4,096 events and 16 MiB.
    /// A server without [`Builder::audit_policy`], [`Builder::audit_log`] and [`Builder::audit_sink`] has none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_apiserver::{ApiServer, AuditPolicy};
    ///
    /// let server = ApiServer::builder().audit_policy(AuditPolicy::metadata()).start().await?;
    /// // … run the controller under test …
    /// let events = server.audit_events();
    /// assert!(!events.iter().any(|event| event["verb"] == "deletecollection"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn audit_events(&self) -> Vec<Value> {
        self.shared.audit.as_ref().map(|audit| audit.events()).unwrap_or_default()
    }
}
