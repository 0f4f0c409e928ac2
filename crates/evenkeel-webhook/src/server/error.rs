//! Errors of a webhook server.

use evenkeel_runtime::health::StartError;
use evenkeel_runtime::tls::TlsError;

use crate::conversion::ConversionError;
use crate::path::PathError;

/// Why a hook or a conversion cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The path is one that API servers accept in no configuration.
    #[error("the path {path:?} of the {hook} cannot be configured: {source}")]
    Path {
        /// The path.
        path: String,
        /// The hook.
        hook: String,
        /// What is wrong with it.
        source: PathError,
    },
    /// A conversion is incomplete, or there are two.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// Another hook has the path.
    #[error(
        "the path {path} has two hooks, the {first} and the {second}; give one of them another path, or make them one hook"
    )]
    Duplicate {
        /// The path.
        path: String,
        /// The hook that was there before.
        first: String,
        /// The other hook.
        second: String,
    },
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It listens already.
    #[error("the webhook server listens already")]
    Running,
    /// The address is invalid or cannot be bound.
    #[error(transparent)]
    Listen(#[from] StartError),
    /// The authority of clients is set, and the certificate is not in files.
    #[error(
        "client_ca is reloaded with the files of the certificate; use certificate_directory instead of certificate"
    )]
    ClientCaWithSlot,
    /// There is no usable certificate.
    #[error("the webhook server has no usable certificate: {0}")]
    Tls(#[from] TlsError),
}
