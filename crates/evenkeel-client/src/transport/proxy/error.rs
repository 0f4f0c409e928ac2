//! [`ProxyError`]: why a proxy opened no tunnel.

use std::io;

/// Why a proxy opened no tunnel: the `source()` of a [`TransportError`](crate::transport::TransportError) whose fault
/// is [`Proxy`](crate::transport::TransportFault::Proxy). Proxies are named by host and port, never with their
/// credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// An HTTP proxy refused. 407 means that it requires other credentials.
    #[error("the proxy {proxy} responded {status} to CONNECT")]
    Status {
        /// The proxy.
        proxy: String,
        /// The status of its response.
        status: u16,
    },
    /// A SOCKS proxy refused, or could not reach the server.
    #[error("the proxy {proxy} responded {code} ({}) to the SOCKS request", socks_reply(*code))]
    Socks {
        /// The proxy.
        proxy: String,
        /// The code of its response.
        code: u8,
    },
    /// A SOCKS proxy rejected the authentication.
    #[error("the proxy {proxy} rejected the credentials, or requires some")]
    Credentials {
        /// The proxy.
        proxy: String,
    },
    /// The proxy's response violates its protocol, or is too long.
    #[error("the proxy {proxy} does not speak {protocol}")]
    Nonsense {
        /// The proxy.
        proxy: String,
        /// The expected protocol.
        protocol: &'static str,
    },
    /// The server name or the credentials are too long for SOCKS.
    #[error("the {what} does not fit into a request to the proxy {proxy}")]
    TooLong {
        /// The proxy.
        proxy: String,
        /// The part that is too long.
        what: &'static str,
    },
    /// The connection to the proxy was lost before the tunnel was open.
    #[error("the connection to the proxy {proxy} was lost")]
    Io {
        /// The proxy.
        proxy: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

fn socks_reply(code: u8) -> &'static str {
    match code {
        1 => "it failed",
        2 => "not allowed",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "took too long",
        7 => "it does not make connections",
        8 => "it does not know this kind of address",
        _ => "unknown",
    }
}
