//! Explains why a request failed, in one sentence: the operation, the server, where the server was configured, and a
//! hint.

use std::time::Duration;

use evenkeel_client::config::Auth;
use evenkeel_client::transport::{TransportError, TransportFault};
use evenkeel_client::{Config, Error};
use evenkeel_core::Status;

use super::Cluster;
use crate::chain;

impl Cluster {
    /// Explains why the operation `doing` failed.
    pub(crate) fn explain(&self, error: &Error, doing: &str) -> String {
        match (error, error.status()) {
            (Error::Transport { source, .. }, _) => unreachable(&self.server(), self.is_tls(), source),
            (Error::Timeout { limit, .. }, _) => self.silent(*limit),
            // Go servers return this over plain HTTP when a client connects without TLS.
            (_, Some(status)) if status.code == 400 && error.is_unexpected_server_error() && !self.is_tls() => {
                format!("{} does not respond like an API server; try https instead of http", self.server())
            }
            (_, Some(status)) => self.refusal(status, doing),
            _ => format!("{}: {}", self.server(), chain(error)),
        }
    }

    /// Explains an error status for the operation `doing`.
    pub(crate) fn refusal(&self, status: &Status, doing: &str) -> String {
        let server = self.server();
        if status.is_unauthorized() {
            return match self.credentials() {
                Some(credentials) => format!("{server} rejected {credentials} (wrong or expired): {status}"),
                None => format!("{server} requires credentials and none are configured; pass --kubeconfig or --token"),
            };
        }
        if status.is_forbidden() {
            let credentials = self.credentials().unwrap_or_else(|| "no credentials".to_owned());
            return format!("not allowed to {doing} with {credentials}: {status}");
        }
        format!("{server} failed to {doing}: {status}")
    }

    /// Explains a request that did not complete within `limit`.
    pub(crate) fn silent(&self, limit: Duration) -> String {
        format!("{} did not respond within {limit:?}", self.server())
    }

    fn config(&self) -> &Config {
        self.client.config()
    }

    fn is_tls(&self) -> bool {
        self.config().server.is_tls()
    }

    /// Returns the server and where it was configured.
    fn server(&self) -> String {
        let config = self.config();
        let named_by = match (&config.chosen.context, &config.chosen.cluster) {
            _ if self.is_server_given => "from --server".to_owned(),
            (Some(context), _) => format!("from the context {context:?}"),
            (None, Some(cluster)) => format!("from the cluster {cluster:?}"),
            (None, None) => "from the cluster of this pod".to_owned(),
        };
        format!("{} ({named_by})", config.server)
    }

    /// Returns the credentials in use and where they were configured.
    fn credentials(&self) -> Option<String> {
        let config = self.config();
        match &config.chosen.user {
            _ if self.is_token_given => Some("the token from --token".to_owned()),
            _ if config.auth == Auth::None && config.tls.identity.is_none() => None,
            Some(user) => Some(format!("the credentials of the user {user:?}")),
            None => Some("the credentials of this pod's service account".to_owned()),
        }
    }
}

/// Explains a failed connection to `server`.
fn unreachable(server: &str, is_tls: bool, error: &TransportError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {}", chain(cause))).unwrap_or_default();
    match error.fault() {
        TransportFault::Resolve => format!("the host of {server} has no address{cause}"),
        TransportFault::Refused => format!("connection refused by {server}; is it running?"),
        TransportFault::ConnectTimeout => {
            format!("connecting to {server} timed out; check the address and the network")
        }
        TransportFault::Timeout => format!("{server} sent no data for too long"),
        TransportFault::Tls => format!("no secure connection to {server}{cause}"),
        TransportFault::Protocol if !is_tls => {
            format!("{server} does not speak HTTP; try https instead of http")
        }
        _ => format!("no response from {server}: {}", chain(error)),
    }
}

#[cfg(test)]
mod tests;
