//! What the environment says about connections, in client-go's variables.

use std::time::Duration;

#[cfg(doc)]
use super::Config;
use super::{Connections, HttpVersions};

impl Connections {
    /// The defaults, but for what the environment says:
    /// - `DISABLE_HTTP2`, with any value but an empty one: HTTP/1.1 only;
    /// - `HTTP2_READ_IDLE_TIMEOUT_SECONDS`: [`Connections::ping_after`], 0 for never;
    /// - `HTTP2_PING_TIMEOUT_SECONDS`: [`Connections::ping_timeout`].
    ///
    /// Configurations that are inferred, that of a pod and those from kubeconfigs begin with it; [`Config::new`] does not.
    ///
    /// A value that is no number of seconds is logged and has no effect.
    pub fn from_env() -> Self {
        Connections::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let defaults = Connections::default();
        let seconds = |name| {
            let value = variable(name).filter(|value| !value.is_empty())?;
            let seconds = value.parse::<u32>();
            if seconds.is_err() {
                tracing::warn!(%name, %value, "not a number of seconds; the default is used");
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
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Connections {
        Connections::from_variables(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn trn_018_http2_unless_it_is_disabled_with_any_value() {
        assert_eq!(Connections::from_variables(|_| None), Connections::default());
        assert_eq!(Connections::default().http, HttpVersions::Any);
        assert_eq!(with("DISABLE_HTTP2", "").http, HttpVersions::Any);
        assert_eq!(with("DISABLE_HTTP2", "false").http, HttpVersions::Http1Only);
    }

    #[test]
    fn trn_018_pings_after_30_s_and_waits_15_s_unless_told_otherwise() {
        let after = |value| with("HTTP2_READ_IDLE_TIMEOUT_SECONDS", value).ping_after.map(|after| after.as_secs());
        assert_eq!(
            (after("12"), after("0"), after("soon"), after("-1"), after("")),
            (Some(12), None, Some(30), Some(30), Some(30))
        );
        let timeout = |value| with("HTTP2_PING_TIMEOUT_SECONDS", value).ping_timeout.as_secs();
        assert_eq!((timeout("3"), timeout("0"), timeout("x")), (3, 15, 15));
    }
}
