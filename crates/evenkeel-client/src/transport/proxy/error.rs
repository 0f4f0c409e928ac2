//! [`ProxyError`]: why a proxy does not let us through.

use std::io;

/// Why a proxy does not let us through: the `source()` of a [`TransportError`](crate::transport::TransportError) whose
/// fault is [`Proxy`](crate::transport::TransportFault::Proxy). Proxies are named by host and port, never with the
/// credentials that are shown to them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// An HTTP proxy refused. 407 means that it wants other credentials.
    #[error("the proxy {proxy} answered {status} when asked for a tunnel")]
    Status {
        /// The proxy.
        proxy: String,
        /// What it answered.
        status: u16,
    },
    /// A SOCKS proxy refused, or could not reach the server.
    #[error("the proxy {proxy} answered {code} ({}) when asked for a connection", socks_reply(*code))]
    Socks {
        /// The proxy.
        proxy: String,
        /// The code of its answer.
        code: u8,
    },
    /// A SOCKS proxy did not like how we say who we are.
    #[error("the proxy {proxy} does not accept our credentials, or wants some and has been given none")]
    Credentials {
        /// The proxy.
        proxy: String,
    },
    /// What the proxy answers is not what it should speak, or is far too long.
    #[error("the proxy {proxy} does not speak {protocol}")]
    Nonsense {
        /// The proxy.
        proxy: String,
        /// What it should speak.
        protocol: &'static str,
    },
    /// The name of the server, or our credentials, are too long for SOCKS.
    #[error("the {what} does not fit into a request to the proxy {proxy}")]
    TooLong {
        /// The proxy.
        proxy: String,
        /// What is too long.
        what: &'static str,
    },
    /// The connection to the proxy broke before it led anywhere.
    #[error("the connection to the proxy {proxy} broke")]
    Io {
        /// The proxy.
        proxy: String,
        /// How.
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
