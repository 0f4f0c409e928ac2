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
    /// The server's certificate, or one that vouches for it, is no longer valid.
    #[error("the server's certificate expired at {not_after}")]
    Expired {
        /// When it ended.
        not_after: Timestamp,
    },
    /// The server's certificate, or one that vouches for it, is not valid yet. One of the clocks may be wrong.
    #[error("the server's certificate is not valid before {not_before}")]
    NotYetValid {
        /// When it begins.
        not_before: Timestamp,
    },
    /// The certificate is for other names than the one that was expected.
    #[error("the server's certificate is not for {expected}, but for {}", list(presented))]
    WrongName {
        /// The host of the URL, or the name that the configuration gives instead.
        expected: String,
        /// The names and addresses in the certificate.
        presented: Vec<String>,
    },
    /// Nobody who is trusted vouches for the certificate.
    #[error("the server's certificate is not signed by an authority that is trusted here")]
    Untrusted,
    /// Only HTTP/2 may be spoken, and the server does not speak it.
    #[error("the server does not speak HTTP/2, and nothing else is allowed")]
    NoHttp2,
    /// The server answers with something that is no TLS.
    #[error("the server does not speak TLS; it may want http instead of https")]
    NotTls,
    /// Something else that rustls has a name for.
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
    /// What an error of tokio-rustls means.
    pub(crate) fn of_handshake(error: io::Error) -> Self {
        match error.downcast::<rustls::Error>() {
            Ok(error) => TlsError::of_rustls(error),
            Err(error) => TlsError::Io(error),
        }
    }

    fn of_rustls(error: rustls::Error) -> Self {
        let problem = match error {
            rustls::Error::InvalidCertificate(problem) => problem,
            // The first byte of a record says what it is; that of an answer in plain HTTP says nothing that TLS knows.
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

/// Dates beyond what can be written are shown as the last that can.
fn timestamp(time: UnixTime) -> Timestamp {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::MAX)
}
