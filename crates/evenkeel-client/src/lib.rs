//! The Kubernetes client of evenkeel: client-go's `rest`, `kubernetes`, `dynamic`, `metadata`, `scale`, `discovery`,
//! `restmapper` and `tools/clientcmd`.
//!
//! ```no_run
//! use evenkeel_client::{Client, Error, ListParams};
//! use k8s_openapi::api::apps::v1::Deployment;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     let client = Client::infer().await?; // kubeconfig, then in-cluster
//!     for deployment in client.api::<Deployment>().list(&ListParams::default().labels("tier=web")).await? {
//!         println!("{} wants {:?} replicas", deployment.key(), deployment.typed()?.spec.replicas);
//!     }
//!     client.core_v1().pods("default").delete("web-0").grace_period(0).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Contents
//!
//! - [`Config`], from kubeconfigs and from inside a cluster, and [`Client`].
//! - [`Api`], the verbs on the objects of a kind; accessors of every built-in [group](api::groups); kinds that are only
//!   known at run time ([`Client::dynamic`], [`Client::scales`]); and [`Request`], which all of them are built on.
//! - [`remote`]: processes in containers and ports of pods, with exec, attach and port-forward.
//! - `certificates` (feature `certificates`): client certificates that renew themselves.
//! - [`discovery`]: groups, resources, names and schemas.
//! - [`managed_fields`]: the fields that a manager applied, and the upgrade from client-side apply.
//! - [`access`]: what a program uses of the API, and the roles that allow it.
//! - Helpers around requests: [`retry`](mod@retry), [`wait`], [`watch`], [`paging`] and [`manifest`].
//!
//! # Guarantees
//!
//! - No ambiguous request is sent: names that would change the path, objects of another namespace and contradictory
//!   settings are errors before a connection is opened.
//! - Every [`Error`] names the request, states what happened, and has predicates for its kind. A lost connection is
//!   never taken for an empty response or for the end of a watch.
//! - Everything is bounded: responses, events, caches, retries, waits and connections have limits, most of them
//!   configurable.
//! - Dropping a future cancels its work and leaks nothing. All futures are `Send`.
//! - No token, key or body is logged or printed by `Debug`.
//! - A client can be created outside of a runtime and used in several.
//!
//! # Not included
//!
//! - No copy of the cluster: informers and listers are in `evenkeel-cache`.
//! - No eager decoding: reads return an [`Obj`](evenkeel_core::Obj), whose `typed()` decodes.
//! - No background tasks except for the connections that requests opened, for a [`PortListener`](remote::PortListener), and
//!   for the run of an exec plugin or the call of a token source that a request started.
//! - No retry of what may have happened: after a lost connection only reads are retried.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(all(feature = "certificates", not(any(feature = "ring", feature = "aws-lc-rs"))))]
compile_error!("the feature `certificates` generates keys: enable the feature `ring` or `aws-lc-rs` as well");

pub mod access;
pub mod api;
mod attempt_observer;
pub mod auth;
#[cfg(feature = "certificates")]
pub mod certificates;
mod client;
pub mod config;
pub mod discovery;
mod error;
#[cfg(feature = "internals")]
pub mod internals;
pub mod managed_fields;
pub mod manifest;
mod observer_chain;
pub mod paging;
pub mod reference;
pub mod remote;
pub mod rest;
pub mod retry;
mod secret;
mod small_file;
#[cfg(test)]
mod test_logs;
pub mod tls;
pub mod transport;
pub mod wait;
pub mod watch;
mod wire;
mod write_observer;
mod yaml;

pub use api::{
    Api, ApiRequest, Changes, CreateOrPatch, CreateOrUpdate, Deleted, FieldValidation, ListParams, Object, Partial,
    PartialObjectMetadata, Patch, Patched, Propagation, Unstructured, VersionMatch, WatchParams, create_or_patch,
    create_or_patch_from, create_or_update,
};
pub use attempt_observer::{AttemptObserver, ObservedAttempt};
pub use client::{Client, ClientBuilder};
pub use config::Config;
pub use error::{Error, RequestName};
pub use paging::Pager;
pub use reference::ToReference;
pub use remote::{Exec, PortForward, PortStream, RemoteProcess, SessionError, TerminalSize};
pub use rest::{ByteStream, Lines, List, ListStream, Path, Query, Request, Response, WatchEnd, WatchStream};
pub use retry::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY, Retry, RetryError, retry, retry_on_conflict};
pub use secret::Secret;
pub use wait::{Interrupted, WaitError, is_interrupted, wait_for};
pub use watch::{RetryWatcher, until};
pub use wire::{UnknownWire, Wire};
pub use write_observer::{ObservedWrite, WriteObserver, WriteResult, WriteVerb};
