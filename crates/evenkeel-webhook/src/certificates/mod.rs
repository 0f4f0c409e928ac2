//! Certificates of the program's own: an authority and the pairs that it issues, kept in a Secret. With the feature
//! `certificates`.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_webhook::WebhookServer;
//! use evenkeel_webhook::certificates::Authority;
//! # let now = "2026-01-01T00:00:00Z".parse()?;
//!
//! let authority = Authority::generate(now)?; // `now` is the current time
//! let pair = authority.issue(&["hooks.system.svc"], now)?;
//! let server = WebhookServer::builder().certificate(&pair.serve()?).build()?;
//! println!("caBundle: {}", authority.certificate());
//! # drop(server);
//! # Ok(())
//! # }
//! ```

mod authority;
mod own;
mod secret;

#[cfg(test)]
mod tests;

pub use authority::{Authority, CertificateError, IssuedPair};
pub use own::{OwnCertificates, OwnCertificatesError};
