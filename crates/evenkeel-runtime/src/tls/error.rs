//! [`TlsError`]: why a certificate cannot be served.

use std::io;
use std::path::PathBuf;

/// Why a certificate cannot be served. Contains nothing of the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {what} from {}: {source}", path.display())]
    Read {
        /// What the file should contain.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There are no files with a certificate, and none can be made.
    #[error(
        "there is no tls.crt with its tls.key in {}: mount them there, or enable the feature certificates to have a certificate made",
        directory.display()
    )]
    NoFiles {
        /// Where the files should be.
        directory: PathBuf,
    },
    /// There is no certificate in PEM.
    #[error("there is no certificate in PEM where the serving certificate should be")]
    NoCertificate,
    /// There is no usable private key in PEM.
    #[error(
        "there is no usable private key where that of the serving certificate should be (PKCS #8, PKCS #1 or SEC 1 in PEM, not encrypted)"
    )]
    NoKey,
    /// Certificate and key do not belong together.
    #[error("the serving certificate and its private key do not belong together")]
    Mismatch,
    /// The certificate is malformed.
    #[error("the serving certificate is malformed: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// The certificate authority of clients has no usable certificate.
    #[error("there is no usable certificate in PEM where the certificate authority of clients should be")]
    NoClientAuthority,
    /// No crypto provider was passed, and no feature has one.
    #[error("there is no crypto provider: enable the feature ring or aws-lc-rs, or pass one")]
    NoCryptoProvider,
    /// rustls rejected the settings.
    #[error("cannot set up TLS: {problem}")]
    Setup {
        /// What is wrong.
        problem: String,
    },
}
