//! [`ManifestsError`].

use std::io;
use std::path::PathBuf;

use evenkeel_client::Error;
use evenkeel_client::discovery::DiscoveryError;
use evenkeel_client::manifest::ManifestError;
use evenkeel_client::wait::WaitError;

/// Why manifests cannot be made, written or applied, or are outdated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestsError {
    /// An object cannot be written as YAML.
    #[error("the manifests cannot be made")]
    Encode(#[from] ManifestError),
    /// An object has no form in JSON.
    #[error("the manifests cannot be made")]
    Json(#[from] serde_json::Error),
    /// A file cannot be read or written.
    #[error("cannot read or write {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file exists and was not made from manifests, so it is not overwritten.
    #[error("{} was not made by this command and is not overwritten; move it, or choose another directory", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Files differ from the code.
    #[error("the manifests are outdated; run `manifests` and commit the files\n{difference}")]
    Outdated {
        /// The difference, as lines with `-` for what is in the files and `+` for what the code makes.
        difference: String,
    },
    /// A request failed.
    #[error("cannot {action}")]
    Request {
        /// What failed, such as `apply Deployment "web"`.
        action: String,
        /// Why.
        source: Box<Error>,
    },
    /// The server does not have a kind.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// A CustomResourceDefinition did not become usable.
    #[error(transparent)]
    Wait(#[from] WaitError),
}
