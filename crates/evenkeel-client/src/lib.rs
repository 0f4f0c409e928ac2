//! The Kubernetes client of evenkeel: what client-go's users know as `rest`, `kubernetes`, `dynamic`, `metadata`, `scale`,
//! `discovery`, `restmapper` and `tools/clientcmd`.
//!
//! ```no_run
//! use evenkeel_client::{Client, Error, ListParams};
//! use k8s_openapi::api::apps::v1::Deployment;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     let client = Client::infer().await?; // the kubeconfig, else the cluster that this runs in
//!     for deployment in client.api::<Deployment>().list(&ListParams::default().labels("tier=web")).await? {
//!         println!("{} wants {:?} replicas", deployment.key(), deployment.typed()?.spec.replicas);
//!     }
//!     client.core_v1().pods("default").delete("web-0").grace_period(0).await?;
//!     Ok(())
//! }
//! ```
//!
//! # What it is for
//!
//! - Knowing whom to talk to: [`Config`], from kubeconfigs and from inside a cluster, and [`Client`], made from it.
//! - Asking: [`Api`], the verbs on the objects of a kind; the accessors of every built-in [group](api::groups); kinds that
//!   are only known at run time ([`Client::dynamic`], [`Client::scales`]); and [`Request`], which all of them are made of.
//! - Finding out what there is to ask for: [`discovery`], from names that people type to schemas.
//! - What programs do around calls: [`retry`](mod@retry), [`wait`], [`watch`] and [`paging`].
//!
//! # What it promises
//!
//! - Nothing is sent that could mean something else than was said: names that could lead to another place, objects of
//!   another namespace and settings that contradict each other are errors before there is a connection.
//! - Every [`Error`] names the call, says what happened, and can be asked what kind of failure it is. A lost connection is
//!   never taken for an empty answer or for the end of a watch.
//! - Nothing grows without a bound: answers, events, caches, retries, waits and connections have limits, and most of them
//!   can be set.
//! - Dropping a future ends what it was doing and leaks nothing. All futures are `Send`.
//! - No token, key or body is logged or printed by `Debug`.
//! - A client may be made outside of a runtime and used in several.
//!
//! # What it deliberately does not do
//!
//! - It keeps no copy of the cluster: informers and listers are another crate's.
//! - It decodes no object before somebody asks: reads give an [`Obj`](evenkeel_core::Obj), whose `typed()` decodes.
//! - It runs nothing in the background but the connections that calls have opened.
//! - It does not repeat what may have happened: of calls whose connection was lost, only reads are sent again.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod api;
pub mod auth;
mod client;
pub mod config;
pub mod discovery;
mod error;
pub mod paging;
pub mod reference;
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

pub use api::{
    Api, Call, CreateOrUpdate, Deleted, FieldValidation, ListParams, Object, PartialObjectMetadata, Patch, Propagation,
    Unstructured, VersionMatch, WatchParams, create_or_patch, create_or_update,
};
pub use client::{Client, ClientBuilder};
pub use config::Config;
pub use error::{CallName, Error};
pub use paging::Pager;
pub use reference::ToReference;
pub use rest::{Answer, ByteStream, Lines, List, ListStream, Path, Query, Request, WatchEnd, WatchStream};
pub use retry::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY, Retry, RetryError, retry, retry_on_conflict};
pub use secret::Secret;
pub use wait::{Interrupted, is_interrupted, wait_for};
pub use watch::{RetryWatcher, until};
pub use wire::{UnknownWire, Wire};
pub use write_observer::{ObservedWrite, WriteObserver, WriteResult, WriteVerb};
