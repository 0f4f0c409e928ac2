//! The way to the server: straight, or through a proxy.
//!
//! HTTP proxies are asked for a tunnel (`CONNECT`) whatever the server speaks, plain HTTP included. The other way, sending
//! whole requests to the proxy, would show it our credentials, and it would speak its own HTTP to the server: no HTTP/2, no
//! upgrades, no pool that knows what it holds. Some proxies allow tunnels to port 443 only; they answer 403, and the error
//! says so. SOCKS 5 proxies resolve names themselves.

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
