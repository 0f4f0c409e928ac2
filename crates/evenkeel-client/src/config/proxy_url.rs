//! [`ProxyUrl`]: the address and credentials of a proxy.

use std::fmt;
use std::str::FromStr;

use http::uri::Authority;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::ConfigError;
use super::server::without_credentials;
use crate::secret::Secret;

/// The URL of a proxy: `http://`, `https://` or `socks5://`, optionally with credentials. `Debug` and `Display` show
/// no credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    /// The protocol.
    pub scheme: ProxyScheme,
    /// A host name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The user name and password for the proxy.
    pub credentials: Option<(String, Secret)>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyScheme {
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// SOCKS version 5; the proxy resolves names.
    Socks5,
}

impl ProxyScheme {
    fn default_port(self) -> u16 {
        match self {
            ProxyScheme::Http => 80,
            ProxyScheme::Https => 443,
            ProxyScheme::Socks5 => 1080,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            ProxyScheme::Http => "http",
            ProxyScheme::Https => "https",
            ProxyScheme::Socks5 => "socks5",
        }
    }
}

impl ProxyUrl {
    /// Parses a proxy URL: a scheme (`http`, `https`, `socks5` or `socks5h`), optionally a name and a password
    /// (percent-encoded), a host, optionally a port. A path other than `/` is rejected, because a proxy has none.
    pub fn parse(url: &str) -> Result<Self, ConfigError> {
        parse(url.trim())
            .map_err(|problem| ConfigError::Proxy { url: without_credentials(url.trim()), problem: problem.to_owned() })
    }

    /// Returns the URL with its credentials, for passing it on.
    pub(crate) fn to_url_with_credentials(&self) -> Secret {
        let shown = self.to_string();
        let Some((name, password)) = &self.credentials else { return Secret::new(shown) };
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let credentials = format!("{}:{}@", encode(name), encode(password.expose()));
        Secret::new(shown.replacen("[redacted]@", &credentials, 1))
    }
}

fn parse(url: &str) -> Result<ProxyUrl, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("it needs a scheme")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => ProxyScheme::Http,
        "https" => ProxyScheme::Https,
        "socks5" | "socks5h" => ProxyScheme::Socks5,
        _ => return Err("the scheme is none of http, https, socks5"),
    };
    let (place, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    if !matches!(path, "" | "/") {
        return Err("a proxy has no path and no query");
    }
    let (userinfo, place) = match place.rsplit_once('@') {
        Some((userinfo, place)) => (Some(userinfo), place),
        None => (None, place),
    };
    let authority: Authority = place.parse().map_err(|_| "the host cannot be understood")?;
    let host = authority.host().trim_matches(['[', ']']);
    if host.is_empty() {
        return Err("it needs a host");
    }
    let port = match place.get(authority.host().len()..) {
        None | Some("") => scheme.default_port(),
        Some(port) => port
            .strip_prefix(':')
            .and_then(|port| port.parse().ok())
            .filter(|port| *port != 0)
            .ok_or("the port is no number between 1 and 65535")?,
    };
    Ok(ProxyUrl { scheme, host: host.to_owned(), port, credentials: userinfo.map(credentials).transpose()? })
}

fn credentials(userinfo: &str) -> Result<(String, Secret), &'static str> {
    let decode = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().map_err(|_| "the credentials are not UTF-8")?;
        if text.chars().any(char::is_control) {
            return Err("the credentials hold a control character");
        }
        Ok(text.into_owned())
    };
    let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    Ok((decode(name)?, Secret::new(decode(password)?)))
}

impl FromStr for ProxyUrl {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        ProxyUrl::parse(url)
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = if self.credentials.is_some() { "[redacted]@" } else { "" };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{credentials}{open}{}{close}:{}", self.scheme.as_str(), self.host, self.port)
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyUrl({self})")
    }
}

#[cfg(test)]
mod tests;
