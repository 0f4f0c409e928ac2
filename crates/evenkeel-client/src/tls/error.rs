//! [`TlsError`]: why a handshake failed.

use std::io;

use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{CertificateError, InvalidMessage};

/// Why a handshake failed: the `source()` of a [`TransportError`](crate::transport::TransportError) whose fault is
/// [`Tls`](crate::transport::TransportFault::Tls).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The server's certificate, or one of its issuers, has expired.
    #[error("the server's certificate expired at {not_after}")]
    Expired {
        /// When it expired.
        not_after: Timestamp,
    },
    /// The server's certificate, or one of its issuers, is not valid yet. One of the clocks may be wrong.
    #[error("the server's certificate is not valid before {not_before}")]
    NotYetValid {
        /// When it becomes valid.
        not_before: Timestamp,
    },
    /// The certificate is for other names than the expected one.
    #[error("the server's certificate is not for {expected}, but for {}", list(presented))]
    WrongName {
        /// The host of the URL, or the configured server name.
        expected: String,
        /// The names and addresses in the certificate.
        presented: Vec<String>,
    },
    /// No trusted authority has signed the certificate.
    #[error("the server's certificate is not signed by an authority that is trusted here")]
    Untrusted,
    /// Only HTTP/2 is allowed, and the server does not support it.
    #[error("the server does not speak HTTP/2, and nothing else is allowed")]
    NoHttp2,
    /// The server's response is not TLS.
    #[error("the server does not speak TLS; it may want http instead of https")]
    NotTls,
    /// Any other error of rustls.
    #[error(transparent)]
    Rustls(rustls::Error),
    /// The connection failed during the handshake.
    #[error(transparent)]
    Io(io::Error),
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") }
}

impl TlsError {
    /// Classifies an error of tokio-rustls.
    pub(crate) fn of_handshake(error: io::Error) -> Self {
        match error.downcast::<rustls::Error>() {
            Ok(error) => TlsError::of_rustls(error),
            Err(error) => TlsError::Io(error),
        }
    }

    fn of_rustls(error: rustls::Error) -> Self {
        let problem = match error {
            rustls::Error::InvalidCertificate(problem) => problem,
            // The first byte of a record is its type; that of a plain HTTP response is none of TLS.
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => return TlsError::NotTls,
            other => return TlsError::Rustls(other),
        };
        match problem {
            CertificateError::ExpiredContext { not_after, .. } => TlsError::Expired { not_after: timestamp(not_after) },
            CertificateError::NotValidYetContext { not_before, .. } => {
                TlsError::NotYetValid { not_before: timestamp(not_before) }
            }
            CertificateError::NotValidForNameContext { expected, presented } => {
                TlsError::WrongName { expected: expected.to_str().into_owned(), presented }
            }
            CertificateError::UnknownIssuer => TlsError::Untrusted,
            other => TlsError::Rustls(rustls::Error::InvalidCertificate(other)),
        }
    }
}

/// Dates out of range are shown as the last representable one.
fn timestamp(time: UnixTime) -> Timestamp {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::MAX)
}
