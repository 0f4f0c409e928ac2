//! [`ConfigError`]: why no client can be made.

use std::path::PathBuf;

/// Why no client can be made from this configuration. Nothing has been sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The server's URL makes no sense.
    #[error("the server URL {url:?} cannot be used: {problem}")]
    Server {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that the configuration names cannot be read.
    #[error("cannot read {what} from {}", path.display())]
    Read {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Something in the configuration cannot be used. The problem names the field and shows no secret.
    #[error("invalid configuration: {problem}")]
    Invalid {
        /// What is wrong, and with which field.
        problem: String,
    },
}
