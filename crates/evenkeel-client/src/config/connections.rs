//! Connection settings from client-go's environment variables.

use std::time::Duration;

#[cfg(doc)]
use super::Config;
use super::{Connections, HttpVersions};

impl Connections {
    /// Returns the defaults, overridden by these environment variables:
    /// - `DISABLE_HTTP2`, non-empty: HTTP/1.1 only;
    /// - `HTTP2_READ_IDLE_TIMEOUT_SECONDS`: [`Connections::ping_after`], 0 disables pings;
    /// - `HTTP2_PING_TIMEOUT_SECONDS`: [`Connections::ping_timeout`].
    ///
    /// Inferred, in-cluster and kubeconfig configurations use it; [`Config::new`] does not.
    ///
    /// A value that is not a number of seconds is logged and ignored.
    pub fn from_env() -> Self {
        Connections::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let defaults = Connections::default();
        let seconds = |name| {
            let value = variable(name).filter(|value| !value.is_empty())?;
            let seconds = value.parse::<u32>();
            if seconds.is_err() {
                tracing::warn!(%name, %value, "not a number of seconds; using the default");
            }
            seconds.ok().map(|seconds| Duration::from_secs(seconds.into()))
        };
        let disabled = variable("DISABLE_HTTP2").is_some_and(|value| !value.is_empty());
        Connections {
            http: if disabled { HttpVersions::Http1Only } else { defaults.http },
            ping_after: match seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS") {
                Some(after) => (!after.is_zero()).then_some(after),
                None => defaults.ping_after,
            },
            ping_timeout: seconds("HTTP2_PING_TIMEOUT_SECONDS")
                .filter(|timeout| !timeout.is_zero())
                .unwrap_or(defaults.ping_timeout),
            ..defaults
        }
    }
}

#[cfg(test)]
mod tests;
