//! TLS of servers, with a certificate that changes while the server runs.
//!
//! ```text
//!  files ──► CertificateWatcher ─┐
//!  any other source ─────────────┴─► CurrentPair ──► ServerTls::accept ──► handshake
//! ```
//!
//! ```no_run
//! # async fn example(stream: tokio::net::TcpStream) -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_runtime::tls::CertificateWatcher;
//!
//! let watcher = CertificateWatcher::builder("/certs/tls.crt", "/certs/tls.key").load()?;
//! let tls = watcher.server_tls().clone();
//! let reloading = tokio::spawn(watcher.run());
//! let stream = tls.accept(stream).await?;
//! # drop((stream, reloading));
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Certificate and key are read, parsed and matched before they are used. A handshake uses the old or the new pair, never
//!   one half of each; open connections keep theirs.
//! - Files that cannot be used change nothing: the last usable pair is served, until it has expired and longer.
//! - Sessions are not resumed, so that every handshake shows the current certificate and verifies the client's.
//! - TLS 1.2 and 1.3; ALPN offers `http/1.1`. The crypto provider is passed or that of the client's features, never the
//!   process default.

mod config;
mod error;
mod pair;
mod schedule;
mod watcher;

#[cfg(test)]
mod tests;

pub use config::ServerTls;
pub use error::TlsError;
pub use pair::{CurrentPair, ServingPair};
pub use watcher::{CertificateWatcher, CertificateWatcherBuilder};
