//! [`ServerUrl`]: the address of the API server.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};

use super::ConfigError;

/// The scheme, host, port and base path of an API server. Never contains credentials: a URL with credentials is
/// rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerUrl {
    scheme: Scheme,
    authority: Authority,
    /// Without a trailing slash; empty for none.
    base: Box<str>,
}

impl ServerUrl {
    /// Parses a URL with a scheme (`http` or `https`) and a host. Query and fragment are dropped.
    pub fn parse(url: &str) -> Result<Self, ConfigError> {
        let refuse = |problem: &str| ConfigError::Server { url: without_credentials(url), problem: problem.to_owned() };
        let uri: Uri = url.trim().parse().map_err(|error: http::uri::InvalidUri| refuse(&error.to_string()))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(refuse("it needs a scheme and a host"));
        };
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(refuse("the scheme is neither http nor https"));
        }
        check_authority(&authority).map_err(refuse)?;
        let path = parts.path_and_query.as_ref().map_or("", |path| path.path());
        Ok(ServerUrl { scheme, authority, base: path.trim_end_matches('/').into() })
    }

    /// Returns the name of a server in the same process, which needs no connection.
    pub(crate) fn in_process() -> Self {
        ServerUrl { scheme: Scheme::HTTP, authority: Authority::from_static("in-process"), base: "".into() }
    }

    /// Parses a host, a host and a port, or a URL.
    ///
    /// Without a scheme, the scheme is `https` if there are TLS settings (`tls`: a CA, a client certificate, or
    /// `insecure_skip_verify`), and `http` otherwise; a path is then not allowed. An empty host is `localhost`.
    pub fn guess(host: &str, tls: bool) -> Result<Self, ConfigError> {
        let host = host.trim();
        if host.contains("://") {
            return ServerUrl::parse(host);
        }
        let scheme = if tls { "https" } else { "http" };
        let url = ServerUrl::parse(&format!("{scheme}://{}", if host.is_empty() { "localhost" } else { host }))?;
        if !url.base.is_empty() {
            return Err(ConfigError::Server {
                url: without_credentials(host),
                problem: "with a path it needs a scheme as well".into(),
            });
        }
        Ok(url)
    }

    /// Returns `http` or `https`.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Returns whether connections use TLS.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Returns host and port, as in the URL.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the host without brackets.
    pub fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the port, or the default port of the scheme.
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// Returns the prefix of every path: empty, or `/something` without a trailing slash.
    pub fn base_path(&self) -> &str {
        &self.base
    }

    /// Returns whether the server is on this machine, by its name or address alone: no name is resolved.
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        match host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => {
                let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
                name == "localhost" || name.ends_with(".localhost")
            }
        }
    }
}

/// A server address as configured: a host, a host and a port, or a URL. Not parsed yet; [`ServerUrl::guess`] parses
/// it.
///
/// It may contain credentials, which parsing rejects. `Debug` shows neither credentials nor the query.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// Returns whether `Debug` hides part of the address.
    pub(super) fn has_more_than_it_shows(&self) -> bool {
        without_credentials(&self.0) != self.0
    }
}

impl Deref for Address {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Address(text)
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Address(text.to_owned())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&without_credentials(&self.0), f)
    }
}

/// Rejects authorities that the `http` crate accepts and this crate does not.
fn check_authority(authority: &Authority) -> Result<(), &'static str> {
    let text = authority.as_str();
    if text.contains('@') {
        return Err("credentials do not belong into a URL; use the fields that are made for them");
    }
    let host = authority.host();
    if host.trim_matches(['[', ']']).is_empty() {
        return Err("it needs a host");
    }
    if host.starts_with('[') && host.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>().is_err() {
        return Err("what stands in brackets is no IPv6 address");
    }
    match text.get(host.len()..) {
        None | Some("") => Ok(()),
        Some(port) if port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0)) => {
            Ok(())
        }
        Some(_) => Err("the port is no number between 1 and 65535"),
    }
}

/// Returns a URL for display: without the part before an `@`, and without the query.
pub(super) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (hidden, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("[redacted]@", rest));
    let shown = rest.split(['?', '#']).next().unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    if scheme.contains('@') { format!("[redacted]@{shown}") } else { format!("{scheme}{separator}{hidden}{shown}") }
}

impl FromStr for ServerUrl {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        ServerUrl::parse(url)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.base)
    }
}

#[cfg(test)]
mod tests;
