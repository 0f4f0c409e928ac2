//! Validation of a [`Config`], independent of its source.

use rustls::pki_types::ServerName;

use super::{Auth, Config, ConfigError, Identity, Pem, PrivateKey, Proxy};

impl Config {
    /// Reports every problem that would make a client with this configuration unusable or insecure. Reads no files.
    /// [`Client`](crate::Client) accepts only a configuration that passes.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::collect(self.problems())
    }

    pub(crate) fn problems(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut refuse = |problem: &str| errors.push(ConfigError::invalid(problem));
        if self.tls.insecure_skip_verify && self.tls.ca.is_some() {
            refuse("a CA together with insecure-skip-tls-verify is not allowed: it would not be used");
        }
        if let Some(name) = &self.tls.server_name
            && ServerName::try_from(name.as_str()).is_err()
        {
            refuse("tls-server-name is neither a DNS name nor an address");
        }
        if let Some(Identity { certificate, key }) = &self.tls.identity {
            if matches!(certificate, Pem::Data(text) if text.is_empty()) {
                refuse("there is a client key but no client certificate");
            }
            if matches!(key, PrivateKey::Data(text) if text.is_empty()) {
                refuse("there is a client certificate but no client key");
            }
        }
        if self.tls.rotating_identity.is_some() && self.tls.identity.is_some() {
            refuse("a client certificate together with one that renews itself is not allowed: one would not be used");
        }
        match &self.auth {
            Auth::None => {}
            Auth::Token(token) if token.is_empty() => refuse("the token is empty"),
            Auth::Token(token) | Auth::TokenFile { fallback: Some(token), .. } if !is_token(token.expose()) => {
                refuse("the token holds a character that no token can have");
            }
            Auth::Basic { username, .. } if username.contains(':') || username.chars().any(char::is_control) => {
                refuse("the username holds a colon or a control character");
            }
            Auth::Basic { password, .. } if password.expose().chars().any(char::is_control) => {
                refuse("the password holds a control character");
            }
            Auth::Exec(plugin) => {
                plugin.problems().into_iter().for_each(&mut refuse);
                if self.tls.identity.is_some() || self.tls.rotating_identity.is_some() {
                    refuse("a client certificate together with an exec plugin is not allowed: one would not be used");
                }
            }
            Auth::Oidc(provider) => provider.problems().into_iter().for_each(&mut refuse),
            Auth::Token(_) | Auth::TokenFile { .. } | Auth::Basic { .. } | Auth::Source(_) => {}
        }
        if let Some(problem) = self.exec_policy.problem() {
            refuse(&problem);
        }
        if self.impersonate.as_ref().is_some_and(|whom| whom.user.is_empty()) {
            refuse("impersonation needs a user name");
        }
        if self.user_agent.as_ref().is_some_and(|agent| agent.chars().any(char::is_control)) {
            refuse("the user agent holds a control character");
        }
        if let Some(throttle) = self.throttle
            && !(throttle.qps.is_finite() && throttle.qps > 0.0 && throttle.burst > 0)
        {
            refuse("a throttle needs a rate and a burst above zero");
        }
        errors.extend(self.unprotected());
        errors
    }

    /// Returns the credentials that would be sent in cleartext, or could not be sent, because the connection has no
    /// TLS.
    fn unprotected(&self) -> Vec<ConfigError> {
        if self.server.is_tls() {
            return Vec::new();
        }
        let in_the_clear = match &self.auth {
            _ if self.allow_insecure_credentials => None,
            // A proxy resolves loopback addresses to its own machine.
            _ if self.server.is_loopback() && !matches!(self.proxy, Proxy::Url(_)) => None,
            Auth::None => None,
            Auth::Token(_) => Some("the token"),
            Auth::TokenFile { .. } => Some("the token of the token file"),
            Auth::Exec(_) => Some("the token of the exec plugin"),
            Auth::Oidc(_) => Some("the id token of the OIDC provider"),
            Auth::Source(_) => Some("the token of the token source"),
            Auth::Basic { .. } => Some("the password"),
        };
        let has_certificate = self.tls.identity.is_some() || self.tls.rotating_identity.is_some();
        let dropped = has_certificate.then_some("the client certificate");
        let error =
            |field, dropped| ConfigError::InsecureCredentials { server: self.server.to_string(), field, dropped };
        let in_the_clear = in_the_clear.map(|field| error(field, false));
        in_the_clear.into_iter().chain(dropped.map(|field| error(field, true))).collect()
    }
}

/// Returns whether the text is a valid token for an `Authorization` header.
fn is_token(token: &str) -> bool {
    !token.chars().any(|c| c.is_control() || c.is_whitespace())
}
