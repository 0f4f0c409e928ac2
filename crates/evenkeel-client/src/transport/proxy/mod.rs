//! The route to the server: direct, or through a proxy.
//!
//! HTTP proxies are asked for a tunnel (`CONNECT`) for every scheme, plain HTTP included. Sending whole requests to
//! the proxy would reveal the credentials, and the proxy would use its own HTTP to the server: no HTTP/2, no upgrades,
//! no control over connections. Some proxies allow tunnels to port 443 only; they respond 403, and the error says so.
//! SOCKS 5 proxies resolve names themselves.

mod choose;
mod error;
mod http_connect;
mod prefixed;
mod route;
mod socks5;

#[cfg(test)]
mod tests;

pub(crate) use choose::{ProxyEnvironment, choose};
pub use error::ProxyError;
pub(crate) use route::Route;
