//! Why a cluster does not answer, in one sentence: what was wanted, of which server, who named it, and what may help.

use std::time::Duration;

use evenkeel_client::config::Auth;
use evenkeel_client::transport::{TransportError, TransportFault};
use evenkeel_client::{Config, Error};
use evenkeel_core::Status;

use super::Cluster;
use crate::chain;

impl Cluster {
    /// Why a call has failed that was to do this.
    pub(crate) fn explain(&self, error: &Error, doing: &str) -> String {
        match (error, error.status()) {
            (Error::Transport { source, .. }, _) => unreachable(&self.server(), self.is_tls(), source),
            (Error::Timeout { limit, .. }, _) => self.silent(*limit),
            // Servers written in Go answer so in plain HTTP when they are spoken to without TLS.
            (_, Some(status)) if status.code == 400 && error.is_unexpected_server_error() && !self.is_tls() => {
                format!("{} does not answer like an API server; it may want https instead of http", self.server())
            }
            (_, Some(status)) => self.refusal(status, doing),
            _ => format!("{}: {}", self.server(), chain(error)),
        }
    }

    /// What it means that the server says no to somebody who wanted to do this.
    pub(crate) fn refusal(&self, status: &Status, doing: &str) -> String {
        let server = self.server();
        if status.is_unauthorized() {
            return match self.credentials() {
                Some(credentials) => format!("{server} does not accept {credentials} (wrong, or expired): {status}"),
                None => format!("{server} wants credentials, and there are none; a kubeconfig or --token gives some"),
            };
        }
        if status.is_forbidden() {
            let credentials = self.credentials().unwrap_or_else(|| "no credentials".to_owned());
            return format!("not allowed to {doing} with {credentials}: {status}");
        }
        format!("{server} cannot be asked to {doing}: {status}")
    }

    /// The server has not answered for so long.
    pub(crate) fn silent(&self, limit: Duration) -> String {
        format!("{} has not answered within {limit:?}", self.server())
    }

    fn config(&self) -> &Config {
        self.client.config()
    }

    fn is_tls(&self) -> bool {
        self.config().server.is_tls()
    }

    /// The server and who named it.
    fn server(&self) -> String {
        let config = self.config();
        let named_by = match (&config.chosen.context, &config.chosen.cluster) {
            _ if self.is_server_given => "named by --server".to_owned(),
            (Some(context), _) => format!("the server of the context {context:?}"),
            (None, Some(cluster)) => format!("the server of the cluster {cluster:?}"),
            (None, None) => "the server of the cluster that this pod runs in".to_owned(),
        };
        format!("{} ({named_by})", config.server)
    }

    /// What shows the server who we are, and where it comes from.
    fn credentials(&self) -> Option<String> {
        let config = self.config();
        match &config.chosen.user {
            _ if self.is_token_given => Some("the token of --token".to_owned()),
            _ if config.auth == Auth::None && config.tls.identity.is_none() => None,
            Some(user) => Some(format!("the credentials of the user {user:?}")),
            None => Some("the credentials of this pod's service account".to_owned()),
        }
    }
}

/// Why there is no connection to this server.
fn unreachable(server: &str, is_tls: bool, error: &TransportError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {}", chain(cause))).unwrap_or_default();
    match error.fault() {
        TransportFault::Resolve => format!("the host of {server} has no address{cause}"),
        TransportFault::Refused => format!("nobody listens at {server}; is it running?"),
        TransportFault::ConnectTimeout => {
            format!("no connection to {server} in time; is the address right, and is there a way to it?")
        }
        TransportFault::Timeout => format!("{server} was silent for too long"),
        TransportFault::Tls => format!("no secure connection to {server}{cause}"),
        TransportFault::Protocol if !is_tls => {
            format!("{server} does not speak HTTP; it may want https instead of http")
        }
        _ => format!("no answer from {server}: {}", chain(error)),
    }
}

#[cfg(test)]
mod tests;
