//! [`ServerUrl`]: where the API server is.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};

use super::ConfigError;

/// The scheme, host, port and base path of an API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerUrl {
    scheme: Scheme,
    authority: Authority,
    /// Without a slash at the end; empty for none.
    base: Box<str>,
}

impl ServerUrl {
    /// The server at this URL, which has a scheme (`http` or `https`) and a host. Query and fragment are dropped.
    pub fn parse(url: &str) -> Result<Self, ConfigError> {
        let refuse = |problem: String| ConfigError::Server { url: url.to_owned(), problem };
        let uri: Uri = url.parse().map_err(|error| refuse(format!("{error}")))?;
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(refuse("it needs a scheme and a host".into()));
        };
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(refuse("the scheme is neither http nor https".into()));
        }
        let path = parts.path_and_query.as_ref().map_or("", |path| path.path());
        Ok(ServerUrl { scheme, authority, base: path.trim_end_matches('/').into() })
    }

    /// The name of a server that is reached without a connection.
    pub(crate) fn in_process() -> Self {
        ServerUrl { scheme: Scheme::HTTP, authority: Authority::from_static("in-process"), base: "".into() }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Whether connections are protected.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Host and port, as they stand in the URL.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The host without brackets.
    pub fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, or the scheme's own.
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// What stands before every path: empty, or `/something` without a slash at the end.
    pub fn base_path(&self) -> &str {
        &self.base
    }
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
