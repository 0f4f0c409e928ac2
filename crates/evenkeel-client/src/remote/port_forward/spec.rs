//! [`ForwardedPort`]: which local port is forwarded to which port of the pod. And the local addresses.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A local port and the port of the pod that it is forwarded to.
///
/// Parsed from `5000`, `8888:5000`, `:5000` or `0:5000`; converted from a number, or from a pair of local and remote port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForwardedPort {
    /// The local port; zero for any free one.
    pub local: u16,
    /// The port of the pod.
    pub remote: u16,
}

/// Why a port cannot be forwarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortSpecError {
    /// The text has another form.
    #[error("{text:?} is no port: use REMOTE, LOCAL:REMOTE or :REMOTE")]
    Format {
        /// The text.
        text: String,
    },
    /// The local port is no number up to 65535.
    #[error("the local port of {text:?} is no number from 0 to 65535")]
    Local {
        /// The text.
        text: String,
    },
    /// The port of the pod is no number up to 65535.
    #[error("the remote port of {text:?} is no number from 1 to 65535")]
    Remote {
        /// The text.
        text: String,
    },
    /// The port of the pod is zero.
    #[error("the remote port must be greater than 0")]
    RemoteZero,
}

impl From<Infallible> for PortSpecError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl FromStr for ForwardedPort {
    type Err = PortSpecError;

    fn from_str(text: &str) -> Result<Self, PortSpecError> {
        let (local, remote) = match text.split_once(':') {
            None => (text, text),
            Some((_, remote)) if remote.contains(':') => return Err(PortSpecError::Format { text: text.to_owned() }),
            Some(("", remote)) => ("0", remote),
            Some(pair) => pair,
        };
        let local = number(local).ok_or_else(|| PortSpecError::Local { text: text.to_owned() })?;
        let remote = number(remote).ok_or_else(|| PortSpecError::Remote { text: text.to_owned() })?;
        ForwardedPort::try_from((local, remote))
    }
}

/// Parses decimal digits, without a sign.
fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl TryFrom<&str> for ForwardedPort {
    type Error = PortSpecError;

    fn try_from(text: &str) -> Result<Self, PortSpecError> {
        text.parse()
    }
}

impl TryFrom<String> for ForwardedPort {
    type Error = PortSpecError;

    fn try_from(text: String) -> Result<Self, PortSpecError> {
        text.parse()
    }
}

impl TryFrom<u16> for ForwardedPort {
    type Error = PortSpecError;

    fn try_from(port: u16) -> Result<Self, PortSpecError> {
        ForwardedPort::try_from((port, port))
    }
}

impl TryFrom<(u16, u16)> for ForwardedPort {
    type Error = PortSpecError;

    fn try_from((local, remote): (u16, u16)) -> Result<Self, PortSpecError> {
        if remote == 0 { Err(PortSpecError::RemoteZero) } else { Ok(ForwardedPort { local, remote }) }
    }
}

impl fmt::Display for ForwardedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.local, self.remote)
    }
}

/// A local address. Ordered by its text, as in client-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalAddress {
    pub(super) ip: IpAddr,
    /// Whether the address was `localhost`: one of its two families suffices.
    pub(super) is_localhost: bool,
}

impl LocalAddress {
    /// Parses addresses: IP literals, or `localhost` for both families. Returns the first that is neither.
    pub(super) fn parse(texts: &[String]) -> Result<Vec<LocalAddress>, &str> {
        let mut addresses: Vec<LocalAddress> = Vec::new();
        let mut add = |ip: IpAddr, is_localhost| match addresses.iter_mut().find(|known| known.ip == ip) {
            // An address that was given by itself must be bound.
            Some(known) => known.is_localhost &= is_localhost,
            None => addresses.push(LocalAddress { ip, is_localhost }),
        };
        for text in texts {
            if text == "localhost" {
                add(Ipv4Addr::LOCALHOST.into(), true);
                add(Ipv6Addr::LOCALHOST.into(), true);
            } else {
                add(text.parse().map_err(|_| text.as_str())?, false);
            }
        }
        addresses.sort_by_key(|address| address.ip.to_string());
        Ok(addresses)
    }
}
