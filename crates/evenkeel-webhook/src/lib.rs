//! Admission and conversion webhooks for Kubernetes: typed hooks and converters, served over TLS with certificates that are
//! reloaded.
//!
//! ```text
//!  API server ──TLS──► WebhookServer ──► AdmissionReview ──► Hook ──► Verdict, changed object
//!             ◄─────────────────────── answer ◄── JSON patch ◄────────────┘
//! ```
//!
//! ```no_run
//! # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_runtime::Manager;
//! use evenkeel_runtime::manager::shutdown_signal;
//! use evenkeel_webhook::{Hook, WebhookServer};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! let webhooks = WebhookServer::builder()
//!     .hook(Hook::mutating::<Pod>().apply(|pod, _| {
//!         pod.spec.get_or_insert_default().priority_class_name.get_or_insert_with(|| "batch".to_owned());
//!         Ok(())
//!     }))
//!     .hook(Hook::validating::<Pod>().on_delete(|pod, _| async move {
//!         match &pod.metadata.labels {
//!             Some(labels) if labels.contains_key("example.com/keep") => Err("the pod is to be kept".into()),
//!             _ => Ok(()),
//!         }
//!     }))
//!     .build()?;
//! Manager::new(&client).server("webhooks", move |stop| webhooks.run(stop.requested())).run(shutdown_signal()?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Every answer has version and uid of its question, and passes the checks of API servers. A patch and its type come together,
//!   and only from a mutating hook.
//! - Fields that the type of a hook does not have survive its changes, also in elements of lists.
//! - A hook that panics, fails or does not return in time affects its own review alone, and leaves the decision to the
//!   `failurePolicy` of the webhook, unless [`Fault::Deny`] is set.
//! - Requests are bounded: 7 MiB of body, 10 seconds to read it, 1 MiB of headers, 32 seconds to send them, 512 connections.
//! - Objects are decoded when a hook needs them, once, and only if it has a function for the operation.
//!
//! # Features
//!
//! - `ring` (default), `aws-lc-rs`, `fips`: the crypto provider of TLS.
//! - `certificates`: certificates of the program's own, `certificates`.
//!
//! # Missing features
//!
//! TokenReview webhooks, and HTTP/2: API servers send reviews over HTTP/1.1.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod admission;
#[cfg(feature = "certificates")]
pub mod certificates;
mod changed_members;
mod configuration;
mod conversion;
mod patch;
mod path;
mod server;
pub mod testing;

pub use admission::{
    AdmissionRequest, DecodeObjectError, Defaulter, Hook, HookError, HookHandler, Mutating, Operation, Validating,
    Verdict,
};
pub use configuration::{ConfigurationError, Configurations, FailurePolicy, WebhookTarget};
pub use conversion::{Conversion, ConversionCheck, ConversionCheckError, ConversionError};
pub use path::PathError;
pub use server::{Fault, RegisterError, RunningWebhookServer, ServeError, WebhookServer, WebhookServerBuilder};
