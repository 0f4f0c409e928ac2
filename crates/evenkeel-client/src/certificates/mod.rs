//! Client certificates that renew themselves through the CertificateSigningRequest API: client-go's `util/certificate`.
//!
//! For programs that are not pods, such as agents on machines outside of the cluster. A program starts with a bootstrap
//! credential, requests a certificate of its own, and renews it before it expires:
//!
//! ```no_run
//! use evenkeel_client::certificates::{CertificateManager, CertificateTemplate, FileCertificateStore, KUBE_APISERVER_CLIENT};
//! use evenkeel_client::Config;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let bootstrap = Config::infer()?; // with a token that may create CertificateSigningRequests
//! let template = CertificateTemplate::new("agent-7").organization("agents");
//! let manager = CertificateManager::builder(bootstrap, KUBE_APISERVER_CLIENT, template)
//!     .store(FileCertificateStore::new("/var/lib/agent/pki", "agent")?)
//!     .start()
//!     .await?;
//! manager.ready().await?;
//! let client = manager.client(); // always uses the current certificate
//! # Ok(())
//! # }
//! ```
//!
//! By file: `machine` decides when to request (sans-IO), `driver` performs it, `request` makes the key and the signing
//! request, `store` and `file_store` keep certificates across restarts.

mod driver;
mod error;
mod file_store;
mod machine;
mod manager;
mod metrics;
mod request;
mod store;
mod template;

#[cfg(test)]
mod tests;

pub use error::CertificateError;
pub use file_store::FileCertificateStore;
pub use manager::{CertificateManager, CertificateManagerBuilder, CertificateStatus, KUBE_APISERVER_CLIENT};
pub use store::{CertificatePair, CertificateStore};
pub use template::CertificateTemplate;
